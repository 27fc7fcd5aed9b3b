//! The programs that run real Kubernetes clients: `e2e/clients`, one folder a language.
//!
//! Each runs one unmodified client until it is stopped (SIGTERM). It reports what it requested, received and holds, a
//! JSON document a line; the tests check these reports. `cargo run -p e2e --bin components` builds them like the
//! components, into `e2e/.cache/clients`. The Go program comes from `go build`, a virtual environment from pip, and
//! `node_modules` from npm. All have pinned versions with checked hashes. Tests only [`locate`] them. kube-rs needs no
//! program: it runs within the tests. [`log`] reads the output of a client, and [`judge`] checks whether that is what
//! happened.
//!
//! A family can have further programs: the example of its language in `docs/examples`, see [`example`], and scripts that
//! use its packages, see [`script`].

pub mod java;
pub mod judge;
pub mod log;

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use crate::components::{Built, collect_files, find_go};
use crate::control_plane::kubeconfig;
use crate::process::Invocation;
use crate::run_directory::{RunDirectory, cache_directory};
use crate::selection::Selection;
use crate::workload::Resource;

/// A family of clients, by what it is built with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Toolkit {
    /// client-go and controller-runtime.
    Go,
    /// The package `kubernetes`.
    Python,
    /// The package `@kubernetes/client-node`.
    JavaScript,
}

/// The command, the arguments that make it print its version, and what to install when it is missing.
type Tool = (&'static str, &'static [&'static str], &'static str);

const PYTHON: Tool = ("python3", &["--version"], "install Python 3.11 or newer with its venv module");
const NODE: Tool = ("node", &["--version"], "install Node.js 20 or newer");
const NPM: Tool = ("npm", &["--version"], "install npm, which comes with Node.js 20 or newer");

impl Toolkit {
    /// All of them.
    pub const ALL: [Toolkit; 3] = [Toolkit::Go, Toolkit::Python, Toolkit::JavaScript];

    /// The name of its folder below `e2e/clients`.
    #[must_use]
    pub fn folder(self) -> &'static str {
        match self {
            Toolkit::Go => "go",
            Toolkit::Python => "python",
            Toolkit::JavaScript => "javascript",
        }
    }

    fn sources(self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("clients").join(self.folder())
    }

    fn built(self) -> PathBuf {
        cache_directory().join("clients").join(self.folder())
    }

    /// The versions of its tools, as text.
    fn versions(self) -> Result<String> {
        match self {
            Toolkit::Go => find_go(),
            Toolkit::Python => version(PYTHON),
            Toolkit::JavaScript => Ok(format!("{} {}", version(NODE)?, version(NPM)?)),
        }
    }

    fn build(self) -> Result<()> {
        let (sources, built) = (self.sources(), self.built());
        match self {
            Toolkit::Go => {
                go_build(&sources, &built.join("clients"))?;
                go_build(&examples().join("go"), &built.join(GO_EXAMPLE))
            }
            Toolkit::Python => {
                run(Command::new(PYTHON.0).args(["-m", "venv", "--clear"]).arg(built.join("venv")))?;
                let mut command = Command::new(built.join("venv/bin/python"));
                command.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes"]);
                run(command.arg("-r").arg(sources.join("requirements.txt")))
            }
            Toolkit::JavaScript => {
                // Modules are looked for from the script's own place on.
                for file in ["package.json", "package-lock.json", "client.mjs", "check_openapi.mjs"] {
                    fs::copy(sources.join(file), built.join(file)).with_context(|| format!("copying {file}"))?;
                }
                let mut command = Command::new(NPM.0);
                command.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]);
                run(command.current_dir(&built))
            }
        }
    }

    /// What it is built from, as text: the versions of the tools and a hash of each file.
    fn stamp(self) -> Result<String> {
        let sources = self.sources();
        let mut files = Vec::new();
        collect_files(&sources, &mut files)?;
        if self == Toolkit::Go {
            collect_files(&examples().join("go"), &mut files)?;
        }
        files.sort();
        let mut text = format!("{}\n", self.versions()?);
        for file in files {
            let mut hasher = DefaultHasher::new();
            fs::read(&file).with_context(|| format!("reading {}", file.display()))?.hash(&mut hasher);
            let name = file.strip_prefix(&sources).unwrap_or(&file);
            text.push_str(&format!("{:016x} {}\n", hasher.finish(), name.display()));
        }
        Ok(text)
    }
}

/// How the program of a family is started; its own arguments follow.
///
/// # Errors
/// When it has not been built or its interpreter is gone; the error says what to run or install.
pub fn locate(toolkit: Toolkit) -> Result<Invocation> {
    let built = toolkit.built();
    ensure!(
        built.join("stamp").exists(),
        "the {} clients have not been built: run `cargo run -p e2e --bin components`",
        toolkit.folder()
    );
    Ok(match toolkit {
        Toolkit::Go => Invocation::new(built.join("clients")),
        Toolkit::Python => {
            let script = toolkit.sources().join("client.py").display().to_string();
            Invocation::new(built.join("venv/bin/python")).arguments([script])
        }
        Toolkit::JavaScript => Invocation::new(find(NODE)?).arguments([built.join("client.mjs").display().to_string()]),
    })
}

/// The interpreter with which a family's own scripts run, its packages installed.
///
/// # Errors
/// As [`locate`]; when the family has none.
pub fn interpreter(toolkit: Toolkit) -> Result<Invocation> {
    let mut invocation = locate(toolkit)?;
    invocation.arguments.clear();
    ensure!(toolkit != Toolkit::Go, "the Go clients are programs");
    Ok(invocation)
}

/// How a script of a family, other than its client, is started with the packages of the family. Its own arguments follow.
///
/// # Errors
/// As [`interpreter`].
pub fn script(toolkit: Toolkit, name: &str) -> Result<Invocation> {
    let folder = if toolkit == Toolkit::JavaScript { toolkit.built() } else { toolkit.sources() };
    Ok(interpreter(toolkit)?.arguments([folder.join(name).display().to_string()]))
}

/// How the example in `docs/examples` in the language of a family is started. Its own arguments follow.
///
/// # Errors
/// As [`locate`]; when there is no example in this language.
pub fn example(toolkit: Toolkit) -> Result<Invocation> {
    match toolkit {
        Toolkit::Go => Ok(Invocation::new(locate(toolkit)?.program.with_file_name(GO_EXAMPLE))),
        Toolkit::Python => {
            let script = examples().join("python/selectable_fields.py").display().to_string();
            Ok(interpreter(toolkit)?.arguments([script]))
        }
        Toolkit::JavaScript => bail!("docs/examples has no example in JavaScript"),
    }
}

/// The name of the program of the Go example.
const GO_EXAMPLE: &str = "selectable-fields";

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/examples")
}

/// A kubeconfig that names the server and nothing else.
const ORDINARY: &str = "kubeconfig";
/// The JavaScript client speaks plain HTTP only to a server whose certificate it is configured not to look at.
const INSECURE: &str = "insecure-kubeconfig";

/// Writes what [`follow`] needs to reach the server at `address` into a directory.
///
/// # Errors
/// When the file system refuses.
pub fn write_kubeconfigs(directory: &RunDirectory, address: &str) -> Result<()> {
    let mut document = kubeconfig(address, None, None);
    directory.write(ORDINARY, document.to_string())?;
    document["clusters"][0]["cluster"]["insecure-skip-tls-verify"] = true.into();
    directory.write(INSECURE, document.to_string())?;
    Ok(())
}

/// How the program of a family is started that follows what a selection selects, by the kubeconfigs in `directory`; arguments of its own
/// follow.
///
/// # Errors
/// As [`locate`].
pub fn follow(
    toolkit: Toolkit,
    directory: &RunDirectory,
    resource: &Resource,
    selection: &Selection,
) -> Result<Invocation> {
    let text = |name: &str, value: &str| [format!("-{name}"), value.to_owned()];
    let kubeconfig = match toolkit {
        Toolkit::JavaScript => INSECURE,
        Toolkit::Go | Toolkit::Python => ORDINARY,
    };
    Ok(locate(toolkit)?
        .arguments(text("kubeconfig", &directory.path().join(kubeconfig).display().to_string()))
        .arguments(text("group", &resource.group))
        .arguments(text("version", "v1"))
        .arguments(text("resource", resource.plural()))
        .arguments(text("kind", resource.kind()))
        .arguments(text("namespace", selection.namespace()))
        .arguments([format!("-label-selector={}", selection.label_selector())])
        .arguments([format!("-field-selector={}", selection.field_selector())])
        .environment("HOME", directory.path().display().to_string()))
}

/// Builds what changed since the last time. The tools' own messages go to standard error.
///
/// # Errors
/// When a tool is missing or fails.
pub fn build() -> Result<Built> {
    let start = Instant::now();
    let mut built = Built::UpToDate;
    for toolkit in Toolkit::ALL {
        let directory = toolkit.built();
        fs::create_dir_all(&directory).with_context(|| format!("creating {}", directory.display()))?;
        let lock = fs::File::create(directory.join("lock")).context("creating the lock of the build")?;
        lock.lock().context("waiting for another build")?;
        let stamp_path = directory.join("stamp");
        let stamp = toolkit.stamp()?;
        if fs::read_to_string(&stamp_path).is_ok_and(|last| last == stamp) {
            continue;
        }
        // A build that fails half-way must not leave the stamp of the one before.
        if stamp_path.exists() {
            fs::remove_file(&stamp_path).context("removing the stamp of the last build")?;
        }
        toolkit.build().with_context(|| format!("building the {} clients", toolkit.folder()))?;
        fs::write(&stamp_path, stamp).context("writing the stamp of the build")?;
        built = Built::Now(start.elapsed());
    }
    Ok(built)
}

/// Where a command is that is on the path.
fn find(tool: Tool) -> Result<PathBuf> {
    let (name, _, remedy) = tool;
    let output = Command::new("/bin/sh").args(["-c", &format!("command -v {name}")]).output().context("running sh")?;
    let path = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    ensure!(
        path.starts_with('/'),
        "{name} is missing: clients of the e2e tests run with it; {remedy} and put it on PATH"
    );
    Ok(PathBuf::from(path))
}

fn version(tool: Tool) -> Result<String> {
    let (name, arguments, remedy) = tool;
    let output = Command::new(find(tool)?).args(arguments).output().with_context(|| format!("running {name}"))?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{name} does not work; {remedy}\n{error}");
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Builds the program of a Go module.
fn go_build(module: &Path, program: &Path) -> Result<()> {
    let environment = [("GOTOOLCHAIN", "local"), ("GOFLAGS", "-mod=readonly"), ("GOWORK", "off"), ("CGO_ENABLED", "0")];
    let mut command = Command::new("go");
    command.current_dir(module).envs(environment);
    command.args(["build", "-p", "2", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o"]);
    run(command.arg(program).arg("."))
}

fn run(command: &mut Command) -> Result<()> {
    let what = format!("{command:?}");
    let status = command.stdout(std::io::stderr()).status().with_context(|| what.clone())?;
    ensure!(status.success(), "{what}: {status}");
    Ok(())
}
