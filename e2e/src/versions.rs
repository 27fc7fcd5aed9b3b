//! Other Kubernetes versions than the usual one, to run the same tests beside: one Go module each under `e2e/go/versions`.
//!
//! Tests run beside the kube-apiserver of [`Kubernetes::under_test`], which is the usual one unless the environment
//! variable `E2E_KUBERNETES` names another, as `make test-versions` does. Only kube-apiserver is of that version, and
//! the program that fills objects of its types: etcd and kubectl stay the usual ones. The `toolchain` line of a module
//! names the Go version that built the Kubernetes release of that version. Go itself fetches it, as a module, when it
//! is not the one on the path.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::components::{Built, Component, KUBERNETES_VERSION, collect_files, find_go, linker_flags, module_directory};
use crate::run_directory::cache_directory;

/// Which minor version tests run beside: `1.32` for example.
pub const VARIABLE: &str = "E2E_KUBERNETES";

/// The package of the program that fills objects, in the module `e2e/go`. It is built with the requirements of another version.
const FILLER: &str = "cmd/protobuf-fuzz";

/// A minor version of Kubernetes, `1.` and this number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kubernetes(u32);

impl Kubernetes {
    /// The one that everything is tested beside.
    pub const USUAL: Kubernetes = Kubernetes(36);

    /// The one that fieldcache must refuse.
    pub const TOO_OLD: Kubernetes = Kubernetes(31);

    /// Those that `make test-versions` tests beside, or shows the refusal of.
    pub const OTHERS: [Kubernetes; 4] = [Kubernetes::TOO_OLD, Kubernetes(32), Kubernetes(33), Kubernetes(37)];

    /// The one that the environment names, or the usual one.
    ///
    /// # Errors
    /// When it names one that there is no module for.
    #[expect(clippy::disallowed_methods, reason = "the one setting that a whole run of tests has")]
    pub fn under_test() -> Result<Kubernetes> {
        let Ok(named) = std::env::var(VARIABLE) else { return Ok(Kubernetes::USUAL) };
        let mut known = Kubernetes::OTHERS.into_iter().chain([Kubernetes::USUAL]);
        known.find(|version| version.name() == named).with_context(|| {
            let names = Kubernetes::OTHERS.map(Kubernetes::name).join(", ");
            format!("{VARIABLE} is {named:?}: name one of {names} or {}", Kubernetes::USUAL.name())
        })
    }

    /// Whether it is the usual one.
    #[must_use]
    pub fn is_usual(self) -> bool {
        self == Kubernetes::USUAL
    }

    /// `1.32`.
    #[must_use]
    pub fn name(self) -> String {
        format!("1.{}", self.0)
    }

    /// The minor version: 32.
    #[must_use]
    pub fn minor(self) -> u32 {
        self.0
    }

    /// `v1.32.13`, which its module requires.
    ///
    /// # Errors
    /// When the module's go.mod cannot be read or says nothing of it.
    pub fn version(self) -> Result<String> {
        if self.is_usual() {
            return Ok(KUBERNETES_VERSION.to_owned());
        }
        let found = self.requirement("k8s.io/kubernetes")?;
        ensure!(found.starts_with(&format!("v{}.", self.name())), "the module of {} requires {found}", self.name());
        Ok(found)
    }

    /// The file of a component that is built of it.
    ///
    /// # Errors
    /// When it has not been built; the error says what to run.
    pub fn component(self, component: Component) -> Result<PathBuf> {
        let path = self.binaries().join(component.file_name());
        ensure!(
            self.is_usual() || path.exists(),
            "{} of {} has not been built: run `cargo run -p e2e --bin components -- --versions`",
            component.file_name(),
            self.name()
        );
        Ok(path)
    }

    fn binaries(self) -> PathBuf {
        let binaries = cache_directory().join("bin");
        if self.is_usual() { binaries } else { binaries.join("versions").join(format!("v{}", self.name())) }
    }

    fn module(self) -> PathBuf {
        versions_directory().join(format!("v{}", self.name()))
    }

    /// What follows a word that begins a line of go.mod, or a line of its first list of requirements.
    fn requirement(self, word: &str) -> Result<String> {
        let path = self.module().join("go.mod");
        let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let line = text.lines().map(|line| line.trim_start_matches("require ").trim());
        let found = line.filter_map(|line| line.strip_prefix(word)?.strip_prefix(' ')).next();
        Ok(found.with_context(|| format!("{} names no {word}", path.display()))?.to_owned())
    }

    /// Builds its components, unless nothing changed since the last time.
    fn build(self) -> Result<Built> {
        let start = Instant::now();
        let (version, toolchain) = (self.version()?, self.requirement("toolchain")?);
        let directory = self.binaries();
        fs::create_dir_all(&directory).with_context(|| format!("creating {}", directory.display()))?;
        let lock = fs::File::create(directory.join("lock")).context("creating the lock of the build")?;
        lock.lock().context("waiting for another build")?;

        let arguments =
            ["build", "-p", "2", "-trimpath", "-buildvcs=false", "-ldflags", &linker_flags(self.0, &version)]
                .map(str::to_owned);
        let mut files = vec![self.module().join("go.mod"), self.module().join("go.sum")];
        collect_files(&module_directory().join(FILLER), &mut files)?;
        files[2..].sort();
        let mut stamp = format!("{toolchain}\n{}\n", arguments.join(" "));
        for file in files {
            let mut hasher = DefaultHasher::new();
            fs::read(&file).with_context(|| format!("reading {}", file.display()))?.hash(&mut hasher);
            let name = file.file_name().unwrap_or_default().display();
            stamp.push_str(&format!("{:016x} {name}\n", hasher.finish()));
        }
        let stamp_path = directory.join("stamp");
        // fieldcache refuses the oldest one, so nothing is compared beside it.
        let filler = (self != Kubernetes::TOO_OLD).then_some(Component::ProtobufFuzz);
        let components = [Some(Component::KubeApiserver), filler];
        let mut names = components.iter().flatten().map(|component| component.file_name());
        let are_there = names.all(|name| directory.join(name).exists());
        if are_there && fs::read_to_string(&stamp_path).is_ok_and(|last| last == stamp) {
            return Ok(Built::UpToDate);
        }
        // A build that fails half-way must not leave the stamp of the one before.
        if stamp_path.exists() {
            fs::remove_file(&stamp_path).context("removing the stamp of the last build")?;
        }
        for component in components.into_iter().flatten() {
            let mut command = Command::new("go");
            command.env("GOTOOLCHAIN", &toolchain).env("GOFLAGS", "-mod=readonly");
            command.env("GOWORK", "off").env("CGO_ENABLED", "0");
            command.args(&arguments).arg("-o").arg(directory.join(component.file_name()));
            if component == Component::ProtobufFuzz {
                command.current_dir(module_directory()).arg("-modfile").arg(self.module().join("go.mod"));
                command.arg(format!("./{FILLER}"));
            } else {
                command.current_dir(self.module()).arg("k8s.io/kubernetes/cmd/kube-apiserver");
            }
            let status = command.status().context("running go build")?;
            ensure!(status.success(), "go build of {} of {version} failed: {status}", component.file_name());
        }
        fs::write(&stamp_path, stamp).context("writing the stamp of the build")?;
        Ok(Built::Now(start.elapsed()))
    }
}

/// Those of [`Kubernetes::OTHERS`] with these names; all of them when there are no names.
///
/// # Errors
/// When a name is none of them.
pub fn named(names: &[String]) -> Result<Vec<Kubernetes>> {
    let known = Kubernetes::OTHERS.map(Kubernetes::name);
    let stray = names.iter().find(|name| !known.contains(name));
    ensure!(stray.is_none(), "{stray:?} is not one of {}", known.join(", "));
    let is_wanted = |version: &Kubernetes| names.is_empty() || names.contains(&version.name());
    Ok(Kubernetes::OTHERS.into_iter().filter(is_wanted).collect())
}

/// Builds the components of the [`named`] versions, one after the other, unless nothing changed since the last time. Go's own
/// messages go to standard error.
///
/// # Errors
/// When Go is missing, too old or fails, or a name is unknown.
pub fn build(names: &[String]) -> Result<Built> {
    find_go()?;
    let start = Instant::now();
    let mut built = Built::UpToDate;
    for version in named(names)? {
        if version.build().with_context(|| version.name())? != Built::UpToDate {
            built = Built::Now(start.elapsed());
        }
    }
    Ok(built)
}

/// `e2e/go/versions`, which is no part of the module `e2e/go`.
#[must_use]
pub fn versions_directory() -> PathBuf {
    Path::new(&module_directory()).join("versions")
}
