//! The program under test: found beside the tests, started, and its address read from the line it prints.
//!
//! Cargo gives a package's tests the path of that package's own programs, but not those of another package. All of them
//! stand in one profile directory, though, above the `deps` directory that holds the test itself. So debug tests run
//! the debug program and release benchmarks the release one; building it first is the Makefile's part.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::certificates::Identity;
use crate::http::{Client, Endpoint};
use crate::ports;
use crate::process::{Invocation, Process};
use crate::run_directory::RunDirectory;
use crate::unique;

/// How long it may take to print its address: a sync of a small cluster or folder.
const START_DEADLINE: Duration = Duration::from_secs(60);

/// How long it may take to end: its own grace period for answers in progress, and some more.
const STOP_DEADLINE: Duration = Duration::from_secs(30);

/// A running `fieldcache serve`, or `fieldcache operator`.
#[derive(Debug)]
pub struct Fieldcache {
    endpoint: Endpoint,
    command: &'static str,
    /// What follows the command, without the address.
    arguments: Vec<String>,
    process: Process,
    // After the process, which is to be gone first.
    directory: RunDirectory,
}

impl Fieldcache {
    /// `serve --dir FOLDER` at a free port.
    ///
    /// # Errors
    /// When it is not built, ends, or prints no address in time; with its words.
    pub async fn serve_folder(folder: &Path) -> Result<Fieldcache> {
        Fieldcache::serve(["--dir".to_owned(), folder.display().to_string()]).await
    }

    /// `serve --kubeconfig FILE` at a free port, with one `--resource` each for `resources`. Nothing is forwarded to the API
    /// server: what it answers is its own.
    ///
    /// # Errors
    /// When it is not built, ends, or prints no address in time; with its words.
    pub async fn serve_cluster(kubeconfig: &Path, resources: &[&str]) -> Result<Fieldcache> {
        let resources = resources.iter().flat_map(|resource| ["--resource".to_owned(), (*resource).to_owned()]);
        let cluster = ["--pass-through", "off", "--kubeconfig", &kubeconfig.display().to_string()].map(str::to_owned);
        Fieldcache::serve(cluster.into_iter().chain(resources)).await
    }

    /// `serve` at a free port, with these further arguments.
    ///
    /// # Errors
    /// When it is not built, ends, or prints no address in time; with its words.
    pub async fn serve(arguments: impl IntoIterator<Item = String>) -> Result<Fieldcache> {
        Fieldcache::start("serve", arguments, Endpoint::plain).await
    }

    /// `operator --kubeconfig FILE` at a free port, with a certificate of its own in `folder` and these further arguments; its
    /// endpoint shows no credentials, see [`Fieldcache::as_client`].
    ///
    /// # Errors
    /// As [`Fieldcache::serve`].
    pub async fn operator(
        kubeconfig: &Path,
        folder: &Path,
        arguments: impl IntoIterator<Item = String>,
    ) -> Result<Fieldcache> {
        let bundle = folder.join("ca.crt");
        let read = |address: &str| {
            let authority = std::fs::read_to_string(&bundle).context("reading the self-made authority")?;
            Endpoint::secure(address, &authority, None)
        };
        let own = ["--cert-dir".to_owned(), folder.display().to_string()];
        Fieldcache::operator_at(kubeconfig, own.into_iter().chain(arguments), read).await
    }

    /// `operator --kubeconfig FILE` at a free port with these further arguments; `endpoint` says how it is reached at its address, once it
    /// is there. It then has the certificate authorities of clients; that it is ready is the caller's to wait for.
    ///
    /// # Errors
    /// As [`Fieldcache::serve`].
    pub async fn operator_at(
        kubeconfig: &Path,
        arguments: impl IntoIterator<Item = String>,
        endpoint: impl Fn(&str) -> Result<Endpoint>,
    ) -> Result<Fieldcache> {
        let own = ["--kubeconfig".to_owned(), kubeconfig.display().to_string()];
        let operator = Fieldcache::start("operator", own.into_iter().chain(arguments), endpoint).await?;
        let line = |line: &str| line.contains("client CA certificates read from ConfigMap").then_some(());
        operator
            .process()
            .line("the line that the operator has the certificate authorities of clients", START_DEADLINE, line)
            .await?;
        Ok(operator)
    }

    /// An operator, queried by a user with a certificate; `folder` is that of [`Fieldcache::operator`].
    ///
    /// # Errors
    /// When a PEM text is none.
    pub fn as_client(&self, folder: &Path, identity: &Identity) -> Result<Endpoint> {
        let authority = std::fs::read_to_string(folder.join("ca.crt")).context("reading the self-made authority")?;
        Endpoint::secure(self.address(), &authority, Some(identity))
    }

    /// `serve` at a free port over TLS, with a certificate and key in these files, which `authority` (PEM) signed.
    ///
    /// # Errors
    /// As [`Fieldcache::serve`].
    pub async fn serve_tls(
        arguments: impl IntoIterator<Item = String>,
        certificate: &Path,
        key: &Path,
        authority: &str,
    ) -> Result<Fieldcache> {
        let tls = [("--tls-cert-file", certificate), ("--tls-private-key-file", key)];
        let tls = tls.into_iter().flat_map(|(flag, file)| [flag.to_owned(), file.display().to_string()]);
        Fieldcache::start("serve", tls.chain(arguments), |address| Endpoint::secure(address, authority, None)).await
    }

    async fn start(
        command: &'static str,
        arguments: impl IntoIterator<Item = String>,
        endpoint: impl Fn(&str) -> Result<Endpoint>,
    ) -> Result<Fieldcache> {
        let directory = RunDirectory::create("fieldcache")?;
        let arguments: Vec<String> = arguments.into_iter().collect();
        for _ in 0..ports::ATTEMPTS {
            let host = format!("127.0.0.1:{}", ports::free()?);
            let process = start(&unique::name("fieldcache"), command, &host, &arguments, &directory)?;
            match process.line("the line with fieldcache's address", START_DEADLINE, address).await {
                Err(_) if process.tail().contains(&format!("address {host} is in use")) => {}
                line => {
                    return Ok(Fieldcache { endpoint: endpoint(&line?)?, command, arguments, process, directory });
                }
            }
        }
        bail!("no free port: taken by others {} times between being found free and being used", ports::ATTEMPTS)
    }

    /// Ends it as a service manager does (SIGTERM) and waits until it is gone; its address refuses connections until
    /// [`Fieldcache::start_again`].
    ///
    /// # Errors
    /// When it does not end in time or not with exit code 0.
    pub async fn stop(&self) -> Result<()> {
        self.process.signal("TERM")?;
        let code = self.process.ended(STOP_DEADLINE).await?;
        ensure!(code == 0, "fieldcache ended with exit code {code}\n{}", self.process.tail());
        Ok(())
    }

    /// Kills it; its address refuses connections until [`Fieldcache::start_again`].
    pub fn kill(&self) {
        self.process.kill();
    }

    /// Starts it again, as it was, at the address it had; its output goes to files of its own.
    ///
    /// # Errors
    /// When it ends, as it does when its port was taken meanwhile, or does not serve in time; with its words.
    pub async fn start_again(&mut self) -> Result<()> {
        let (_, host) = self.address().split_once("://").context("an address has a scheme")?;
        let process = start(&unique::name("fieldcache"), self.command, host, &self.arguments, &self.directory)?;
        process.line("the line with fieldcache's address", START_DEADLINE, address).await?;
        self.process = process;
        Ok(())
    }

    /// Where it serves.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// `http://127.0.0.1:PORT`, or `https` with TLS.
    #[must_use]
    pub fn address(&self) -> &str {
        self.endpoint.base()
    }

    /// A new client of it; one a test.
    #[must_use]
    pub fn client(&self) -> Client {
        self.endpoint.client()
    }

    /// Its process: logs, signals, accounting.
    #[must_use]
    pub fn process(&self) -> &Process {
        &self.process
    }
}

fn start(name: &str, command: &str, address: &str, arguments: &[String], directory: &RunDirectory) -> Result<Process> {
    let invocation = Invocation::new(program()?)
        .arguments([command, "--address", address])
        .arguments(arguments)
        .environment("HOME", directory.path().display().to_string());
    Process::start(name, &invocation, directory.path())
}

/// Names the program's file, where it is not that of the profile: a release build beside tests that are not optimized.
const PROGRAM: &str = "FIELDCACHE_PROGRAM";

/// The program's file, in the profile directory of the running test or program.
///
/// # Errors
/// When it is missing; the error says what to run.
pub fn program() -> Result<PathBuf> {
    if let Some(named) = std::env::var_os(PROGRAM) {
        let program = std::path::absolute(&named)?;
        ensure!(program.exists(), "there is no {}, which {PROGRAM} names", program.display());
        return Ok(program);
    }
    let this = std::env::current_exe().context("finding this test")?;
    // Tests stand in PROFILE/deps, programs in PROFILE.
    let mut profile = this.parent().context("a program must be in a directory")?;
    if profile.file_name().is_some_and(|name| name == "deps") {
        profile = profile.parent().context("deps must be in a directory")?;
    }
    let program = profile.join("fieldcache");
    let release = if profile.file_name().is_some_and(|name| name == "release") { " --release" } else { "" };
    ensure!(
        program.exists(),
        "there is no {}: run `cargo build -p fieldcache --bin fieldcache{release}` first",
        program.display()
    );
    Ok(program)
}

/// The address in a line, of standard output or of a log, such as `fieldcache 0.1.0 serving manifests/samples at http://127.0.0.1:8181`.
#[must_use]
pub fn address(line: &str) -> Option<String> {
    // A source can be an address too, so the one after `at` counts.
    let (_, served) = line.split_once("serving ")?;
    let from = served.rfind(" at http://127.0.0.1:").or_else(|| served.rfind(" at https://127.0.0.1:"))? + " at ".len();
    // A log line can be JSON, where the text ends with a quotation mark.
    let address = served[from..].split(|letter: char| letter.is_whitespace() || letter == '"').next()?;
    Some(address.trim_end_matches(['/', '.', ',']).to_owned())
}
