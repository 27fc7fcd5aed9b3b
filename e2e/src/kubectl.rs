//! The real kubectl, with a home of its own.
//!
//! Discovery is cached in that home, so two tests never see each other's cache, and no setting of the person at the machine is read.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::process::Command;
use tokio::time::timeout;

use crate::components::{Component, locate};
use crate::eventually::eventually;
use crate::process::{Invocation, Process};
use crate::run_directory::RunDirectory;

/// How long discovery may take to know of a kind.
const KNOWN_DEADLINE: Duration = Duration::from_secs(60);

/// What a finished kubectl left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// Its exit code; -1 when a signal ended it.
    pub exit_code: i32,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

/// kubectl against one server.
#[derive(Debug)]
pub struct Kubectl {
    program: PathBuf,
    /// `--server=..` or `--kubeconfig=..`, and what it needs besides.
    target: Vec<String>,
    home: RunDirectory,
}

impl Kubectl {
    /// For a server that requires no credentials.
    ///
    /// # Errors
    /// When kubectl has not been built.
    pub fn with_server(address: &str) -> Result<Kubectl> {
        Kubectl::with_target(format!("--server={address}"))
    }

    /// For a server that requires no credentials, and whose certificate is signed by this file (PEM).
    ///
    /// # Errors
    /// When kubectl has not been built.
    pub fn with_server_and_authority(address: &str, authority: &std::path::Path) -> Result<Kubectl> {
        let mut kubectl = Kubectl::with_server(address)?;
        kubectl.target.push(format!("--certificate-authority={}", authority.display()));
        // Without any, kubectl prompts for a user name as soon as it speaks TLS.
        kubectl.target.push("--token=none".to_owned());
        Ok(kubectl)
    }

    /// With a kubeconfig.
    ///
    /// # Errors
    /// When kubectl has not been built.
    pub fn with_kubeconfig(kubeconfig: &std::path::Path) -> Result<Kubectl> {
        Kubectl::with_target(format!("--kubeconfig={}", kubeconfig.display()))
    }

    fn with_target(target: String) -> Result<Kubectl> {
        Ok(Kubectl {
            program: locate(Component::Kubectl)?,
            target: vec![target],
            home: RunDirectory::create("kubectl")?,
        })
    }

    /// Runs it to its end, whatever its exit code.
    ///
    /// # Errors
    /// When it cannot be started or still runs after five minutes.
    pub async fn run(&self, arguments: &[&str]) -> Result<Finished> {
        const DEADLINE: Duration = Duration::from_secs(300);
        let what = format!("kubectl {}", arguments.join(" "));
        let output = Command::new(&self.program)
            .args(arguments)
            .args(&self.target)
            .env_clear()
            .env("HOME", self.home.path())
            .current_dir(self.home.path())
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let output = timeout(DEADLINE, output).await.with_context(|| what.clone())?.context(what)?;
        Ok(Finished {
            exit_code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    /// Runs it and returns its standard output.
    ///
    /// # Errors
    /// As [`Kubectl::run`], and when its exit code is not 0: then with its standard error.
    pub async fn succeed(&self, arguments: &[&str]) -> Result<String> {
        let finished = self.run(arguments).await?;
        let what = arguments.join(" ");
        ensure!(finished.exit_code == 0, "kubectl {what}: exit code {}: {}", finished.exit_code, finished.stderr);
        Ok(finished.stdout)
    }

    /// `apply -f FILE`, again for as long as kinds in it are not known: discovery has them some time after their definition is
    /// Established.
    ///
    /// # Errors
    /// As [`Kubectl::succeed`].
    pub async fn apply_known(&self, file: &str) -> Result<()> {
        eventually("the kinds are known", KNOWN_DEADLINE, async || {
            let finished = self.run(&["apply", "-f", file]).await?;
            let is_unknown = ["no matches for kind", "could not find the requested resource"];
            ensure!(!is_unknown.iter().any(|words| finished.stderr.contains(words)), "{}", finished.stderr);
            Ok(finished)
        })
        .await
        .and_then(|finished| {
            ensure!(finished.exit_code == 0, "kubectl apply -f {file}: {}", finished.stderr);
            Ok(())
        })
    }

    /// Starts one that goes on, such as `get -w`; await its lines with [`Process::line`], end it by dropping it.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(&self, arguments: &[&str]) -> Result<Process> {
        let invocation = Invocation::new(self.program.clone())
            .arguments(arguments.iter().copied())
            .arguments(self.target.clone())
            .environment("HOME", self.home.path().display().to_string());
        Process::start(&crate::unique::name("kubectl"), &invocation, self.home.path())
    }
}
