//! Builds the Go programs of the suites from their modules into `e2e/.cache/conformance`, each only if
//! something changed since it was built.
//!
//! The module `e2e/conformance` requires what `e2e/go` requires and the suites, so that the packages that both need are
//! compiled once. The integration tests start a server in their own process. An overlay adds calls to the three
//! upstream files that start one. Go accepts no overlay beneath its module cache, so the two modules are reached
//! through links and `-modfile`. Compiled packages are shared all the same: with `-trimpath` they depend on the
//! module's version, not on its directory.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::directory;
use crate::components::{Built, KUBERNETES_VERSION, collect_files, find_go, linker_flags};
use crate::run_directory::cache_directory;
use crate::versions::Kubernetes;

/// A package of integration tests.
#[derive(Debug, PartialEq, Eq)]
pub struct Package {
    /// Its name in the list and as a file.
    pub name: &'static str,
    /// The module.
    pub module: &'static str,
    /// Its directory in the module.
    pub path: &'static str,
}

const KUBERNETES: &str = "k8s.io/kubernetes";
/// The module of the server of custom resources.
pub const APIEXTENSIONS: &str = "k8s.io/apiextensions-apiserver";

/// The packages of integration tests.
pub const INTEGRATION: [Package; 12] = [
    Package { name: "apiserver", module: KUBERNETES, path: "test/integration/apiserver" },
    Package { name: "apply", module: KUBERNETES, path: "test/integration/apiserver/apply" },
    Package { name: "discovery", module: KUBERNETES, path: "test/integration/apiserver/discovery" },
    Package { name: "openapi", module: KUBERNETES, path: "test/integration/apiserver/openapi" },
    Package { name: "client", module: KUBERNETES, path: "test/integration/client" },
    Package { name: "dryrun", module: KUBERNETES, path: "test/integration/dryrun" },
    Package { name: "events", module: KUBERNETES, path: "test/integration/events" },
    Package { name: "apimachinery", module: KUBERNETES, path: "test/integration/apimachinery" },
    Package { name: "garbagecollector", module: KUBERNETES, path: "test/integration/garbagecollector" },
    Package { name: "quota", module: KUBERNETES, path: "test/integration/quota" },
    Package { name: "namespace", module: KUBERNETES, path: "test/integration/namespace" },
    Package { name: "apiextensions", module: APIEXTENSIONS, path: "test/integration" },
];

/// The packages of controller-runtime that have suites, below `pkg`.
pub const CONTROLLER_RUNTIME: [&str; 7] =
    ["cache", "client", "client/apiutil", "cluster", "controller", "manager", "source"];

/// An upstream file, and texts in it that occur once, each with what is in its place.
struct Hook {
    module: &'static str,
    file: &'static str,
    edits: [(&'static str, &'static str); 2],
}

const HOOKS: [Hook; 3] = [
    Hook {
        module: KUBERNETES,
        file: "cmd/kube-apiserver/app/testing/testserver.go",
        edits: [
            ("\ttearDown := func() {\n", "\tvar fronted overlay.Fronted\n\ttearDown := func() {\n\t\tfronted.Stop()\n"),
            (
                "result.ClientConfig.Burst = 10000\n",
                "result.ClientConfig.Burst = 10000\n\tresult.ClientConfig = fronted.Front(t, result.ClientConfig)\n",
            ),
        ],
    },
    Hook {
        module: KUBERNETES,
        file: "test/integration/framework/test_server.go",
        edits: [
            (
                "\ttearDownFn := func() {\n",
                "\tvar fronted overlay.Fronted\n\ttearDownFn := func() {\n\t\tfronted.Stop()\n",
            ),
            (
                "client.NewForConfig(kubeAPIServerClientConfig)\n",
                "client.NewForConfig(fronted.Set(t, &kubeAPIServerClientConfig))\n",
            ),
        ],
    },
    Hook {
        module: APIEXTENSIONS,
        file: "pkg/cmd/server/testing/testserver.go",
        edits: [
            ("\ttearDown := func() {\n", "\tvar fronted overlay.Fronted\n\ttearDown := func() {\n\t\tfronted.Stop()\n"),
            (
                "result.ClientConfig = server.GenericAPIServer.LoopbackClientConfig\n",
                "result.ClientConfig = fronted.Front(t, server.GenericAPIServer.LoopbackClientConfig)\n",
            ),
        ],
    },
];

/// A Go program of a suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// Ginkgo's command, which runs a test binary in parallel.
    Ginkgo,
    /// Kubernetes' end-to-end specs.
    KubernetesSpecs,
    /// The tests of a package of controller-runtime.
    ControllerRuntime(&'static str),
    /// A package of integration tests.
    Integration(&'static Package),
}

impl Program {
    fn file_name(self) -> String {
        match self {
            Program::Ginkgo => "ginkgo".to_owned(),
            Program::KubernetesSpecs => "kubernetes.test".to_owned(),
            Program::ControllerRuntime(package) => format!("controller-runtime-{}.test", package.replace('/', "-")),
            Program::Integration(package) => format!("integration-{}.test", package.name),
        }
    }

    fn package(self) -> String {
        match self {
            Program::Ginkgo => "github.com/onsi/ginkgo/v2/ginkgo".to_owned(),
            Program::KubernetesSpecs => "./kubernetes".to_owned(),
            Program::ControllerRuntime(package) => format!("sigs.k8s.io/controller-runtime/pkg/{package}"),
            Program::Integration(package) => format!("{}/{}", package.module, package.path),
        }
    }

    fn build(self) -> Result<()> {
        let mut command = go();
        match self {
            Program::Ginkgo => command.arg("build"),
            Program::KubernetesSpecs | Program::ControllerRuntime(_) | Program::Integration(_) => {
                command.args(["test", "-c"])
            }
        };
        command.args(flags());
        if let Program::Integration(_) = self {
            let file = |name: &str| overlay_directory().join(name).display().to_string();
            command.args([format!("-modfile={}", file("go.mod")), format!("-overlay={}", file("overlay.json"))]);
        }
        let status = command.arg("-o").arg(path(self)).arg(self.package()).status().context("running go")?;
        ensure!(status.success(), "go could not build {}: {status}", self.package());
        Ok(())
    }
}

/// Where a built program is.
///
/// # Errors
/// When it is missing; the error says what to run.
pub fn locate(program: Program) -> Result<PathBuf> {
    let path = path(program);
    ensure!(
        path.exists(),
        "{} has not been built: run `cargo run -p e2e --bin conformance -- --build`",
        path.display()
    );
    Ok(path)
}

/// Builds those of these programs of which something changed since they were built. Go's own messages go to standard error.
///
/// # Errors
/// When Go is missing, too old or fails, or an upstream file is not as expected.
pub fn build(programs: &[Program]) -> Result<Built> {
    let start = Instant::now();
    let go = find_go()?;
    let binaries = binaries();
    fs::create_dir_all(&binaries).with_context(|| format!("creating {}", binaries.display()))?;
    let lock = fs::File::create(binaries.join("lock")).context("creating the lock of the build")?;
    lock.lock().context("waiting for another build")?;
    let stamp = stamp(&go)?;
    let is_current = |program: &&Program| {
        path(**program).exists() && fs::read_to_string(stamp_path(**program)).is_ok_and(|last| last == stamp)
    };
    let outdated: Vec<Program> = programs.iter().filter(|program| !is_current(program)).copied().collect();
    if outdated.is_empty() {
        return Ok(Built::UpToDate);
    }
    write_overlay()?;
    for program in outdated {
        // A build that fails half-way must not leave the stamp of the one before.
        let stamp_path = stamp_path(program);
        if stamp_path.exists() {
            fs::remove_file(&stamp_path).with_context(|| format!("removing {}", stamp_path.display()))?;
        }
        program.build()?;
        fs::write(&stamp_path, &stamp).with_context(|| format!("writing {}", stamp_path.display()))?;
    }
    Ok(Built::Now(start.elapsed()))
}

/// The directory of a required module's sources.
///
/// # Errors
/// When Go does not know it.
pub fn module(name: &str) -> Result<PathBuf> {
    answer(&["list", "-m", "-f", "{{.Dir}}", name])
}

/// Go's module cache.
///
/// # Errors
/// When Go does not say.
pub fn module_cache() -> Result<PathBuf> {
    answer(&["env", "GOMODCACHE"])
}

/// Copies a directory with everything in it, writable, which the module cache is not.
///
/// # Errors
/// When the file system refuses.
pub fn copy_files(from: &Path, to: &Path) -> Result<()> {
    let what = || format!("copying {}", from.display());
    fs::create_dir_all(to).with_context(what)?;
    for entry in fs::read_dir(from).with_context(what)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_files(&entry.path(), &target)?;
        } else {
            let content = fs::read(entry.path()).with_context(what)?;
            fs::write(&target, content).with_context(what)?;
        }
    }
    Ok(())
}

fn answer(arguments: &[&str]) -> Result<PathBuf> {
    let output = go().args(arguments).output().context("running go")?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    ensure!(
        output.status.success() && text.starts_with('/'),
        "go {} failed: {}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(text.into())
}

fn go() -> Command {
    let mut command = Command::new("go");
    command.current_dir(directory());
    command.env("GOTOOLCHAIN", "local").env("GOFLAGS", "-mod=readonly").env("GOWORK", "off").env("CGO_ENABLED", "0");
    command
}

fn flags() -> Vec<String> {
    let linker = linker_flags(Kubernetes::USUAL.minor(), KUBERNETES_VERSION);
    ["-p", "2", "-trimpath", "-buildvcs=false", "-ldflags", &linker].map(str::to_owned).to_vec()
}

fn binaries() -> PathBuf {
    cache_directory().join("conformance/bin")
}

fn overlay_directory() -> PathBuf {
    cache_directory().join("conformance/overlay")
}

fn path(program: Program) -> PathBuf {
    binaries().join(program.file_name())
}

fn stamp_path(program: Program) -> PathBuf {
    binaries().join(format!("{}.stamp", program.file_name()))
}

/// Writes the overlay: links to the modules, their changed files, and the go.mod that goes through the links.
fn write_overlay() -> Result<()> {
    let overlay = overlay_directory();
    if overlay.exists() {
        fs::remove_dir_all(&overlay).context("removing the overlay of the last build")?;
    }
    fs::create_dir_all(&overlay).with_context(|| format!("creating {}", overlay.display()))?;
    for file in ["go.mod", "go.sum"] {
        fs::copy(directory().join(file), overlay.join(file)).with_context(|| format!("copying {file}"))?;
    }
    let mut edit = go();
    edit.args(["mod", "edit"]);
    for name in [KUBERNETES, APIEXTENSIONS] {
        let link = overlay.join(link(name));
        std::os::unix::fs::symlink(module(name)?, &link).with_context(|| format!("linking {}", link.display()))?;
        edit.arg(format!("-replace={name}={}", link.display()));
    }
    let status = edit.arg(overlay.join("go.mod")).status().context("running go mod edit")?;
    ensure!(status.success(), "go mod edit failed: {status}");
    let mut replaced = serde_json::Map::new();
    for (number, hook) in HOOKS.iter().enumerate() {
        let original = overlay.join(link(hook.module)).join(hook.file);
        let mut text = fs::read_to_string(&original).with_context(|| format!("reading {}", original.display()))?;
        for (found, replaced) in hook.edits {
            ensure!(
                text.matches(found).count() == 1,
                "{} of {} no longer has the line {:?} once",
                hook.file,
                hook.module,
                found.trim()
            );
            text = text.replace(found, replaced);
        }
        let import = "import (\n";
        let text = text.replacen(import, &format!("{import}\t\"fieldcache/e2e/conformance/overlay\"\n"), 1);
        let changed = overlay.join(format!("{number}.go"));
        fs::write(&changed, text).with_context(|| format!("writing {}", changed.display()))?;
        replaced.insert(original.display().to_string(), changed.display().to_string().into());
    }
    let document = json!({ "Replace": replaced }).to_string();
    fs::write(overlay.join("overlay.json"), document).context("writing overlay.json")
}

fn link(module: &str) -> String {
    module.replace(['/', '.'], "-")
}

/// What the programs depend on, as text: Go, flags, changed lines, and a hash of each file of the Go module.
fn stamp(go: &str) -> Result<String> {
    let mut files = Vec::new();
    collect_files(&directory(), &mut files)?;
    files.retain(|file| {
        file.extension().is_some_and(|extension| ["go", "mod", "sum"].iter().any(|one| extension == *one))
    });
    files.sort();
    let mut text = format!("{go}\n{}\n", flags().join(" "));
    for hook in &HOOKS {
        text.push_str(&format!("{}: {:?}\n", hook.file, hook.edits));
    }
    for file in files {
        let mut hasher = DefaultHasher::new();
        fs::read(&file).with_context(|| format!("reading {}", file.display()))?.hash(&mut hasher);
        // Compiled packages do not depend on where the repository is.
        let name = file.strip_prefix(directory()).unwrap_or(&file);
        text.push_str(&format!("{:016x} {}\n", hasher.finish(), name.display()));
    }
    Ok(text)
}
