//! The real components: built from their own source as dependencies of the Go module `e2e/go`, and where they are.
//!
//! `cargo run -p e2e --bin components` builds them into `e2e/.cache/bin`, or says in milliseconds that nothing changed. Tests never
//! build: they [`locate`] what is there and say what to run when it is not. The first build compiles some two thousand packages
//! and takes minutes; Go's own cache makes later ones short.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::run_directory::cache_directory;
use crate::versions::{Kubernetes, versions_directory};

/// The Kubernetes version the components are stamped with; it must be the one `e2e/go/go.mod` requires, which a test checks.
pub const KUBERNETES_VERSION: &str = "v1.36.3";

/// The oldest Go that compiles this Kubernetes, from its own go.mod.
const NEEDED_GO: (u32, u32) = (1, 26);

/// A program the test bed runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Component {
    /// etcd.
    Etcd,
    /// kube-apiserver.
    KubeApiserver,
    /// kube-controller-manager.
    KubeControllerManager,
    /// kubectl.
    Kubectl,
    /// Our webhook behind the two-version fixtures, `e2e/go/cmd/conversion-webhook`.
    ConversionWebhook,
    /// Our reader of OpenAPI documents, `e2e/go/cmd/openapi-check`.
    OpenapiCheck,
    /// Our clock around kube-apiserver's evaluation of selectable fields, `e2e/go/cmd/selectable-fields-bench`.
    SelectableFieldsBench,
    /// The plugins of kube-scheduler as a judge, `e2e/go/cmd/placement-judge`.
    PlacementJudge,
    /// The columns of CustomResourceDefinitions as a judge, `e2e/go/cmd/column-judge`.
    ColumnJudge,
    /// kube-apiserver's reader of requests as a judge, `e2e/go/cmd/request-judge`.
    RequestJudge,
    /// The serializers of Kubernetes' own types as a judge, `e2e/go/cmd/protobuf-judge`.
    ProtobufJudge,
    /// Our comparison of fuzzed objects through kube-apiserver and fieldcache, `e2e/go/cmd/protobuf-fuzz`.
    ProtobufFuzz,
}

impl Component {
    /// All of them.
    pub const ALL: [Component; 12] = [
        Component::Etcd,
        Component::KubeApiserver,
        Component::KubeControllerManager,
        Component::Kubectl,
        Component::ConversionWebhook,
        Component::OpenapiCheck,
        Component::SelectableFieldsBench,
        Component::PlacementJudge,
        Component::ColumnJudge,
        Component::RequestJudge,
        Component::ProtobufJudge,
        Component::ProtobufFuzz,
    ];

    /// The name of its file.
    #[must_use]
    pub fn file_name(self) -> &'static str {
        match self {
            Component::Etcd => "etcd",
            Component::KubeApiserver => "kube-apiserver",
            Component::KubeControllerManager => "kube-controller-manager",
            Component::Kubectl => "kubectl",
            Component::ConversionWebhook => "conversion-webhook",
            Component::OpenapiCheck => "openapi-check",
            Component::SelectableFieldsBench => "selectable-fields-bench",
            Component::PlacementJudge => "placement-judge",
            Component::ColumnJudge => "column-judge",
            Component::RequestJudge => "request-judge",
            Component::ProtobufJudge => "protobuf-judge",
            Component::ProtobufFuzz => "protobuf-fuzz",
        }
    }
}

/// Where a built component is: kube-apiserver, and what fills its objects, of the version under test; everything else of the usual one.
///
/// # Errors
/// When it is missing; the error says what to run.
pub fn locate(component: Component) -> Result<PathBuf> {
    let under_test = Kubernetes::under_test()?;
    if matches!(component, Component::KubeApiserver | Component::ProtobufFuzz) && !under_test.is_usual() {
        return under_test.component(component);
    }
    let path = binaries().join(component.file_name());
    ensure!(
        path.exists(),
        "{} has not been built: run `cargo run -p e2e --bin components` (Go {}.{} needed; minutes the first time)",
        component.file_name(),
        NEEDED_GO.0,
        NEEDED_GO.1
    );
    Ok(path)
}

/// What [`build`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Built {
    /// Nothing: sources, flags and Go are those of the last build.
    UpToDate,
    /// Everything, in this time.
    Now(Duration),
}

/// Builds all components, unless nothing changed since the last time. Go's own messages go to standard error.
///
/// # Errors
/// When Go is missing, too old or fails.
pub fn build() -> Result<Built> {
    let go = find_go()?;
    let directory = binaries();
    fs::create_dir_all(&directory).with_context(|| format!("creating {}", directory.display()))?;
    let lock = fs::File::create(cache_directory().join("build.lock")).context("creating the lock of the build")?;
    lock.lock().context("waiting for another build")?;

    let stamp_path = directory.join("stamp");
    let stamp = stamp(&go)?;
    let all_there = Component::ALL.iter().all(|component| directory.join(component.file_name()).exists());
    if all_there && fs::read_to_string(&stamp_path).is_ok_and(|last| last == stamp) {
        return Ok(Built::UpToDate);
    }
    let start = Instant::now();
    // A build that fails half-way must not leave the stamp of the one before.
    if stamp_path.exists() {
        fs::remove_file(&stamp_path).context("removing the stamp of the last build")?;
    }
    // `go build` takes the file's name from the package's path, which for etcd would be `server`.
    go_build(&directory.join(Component::Etcd.file_name()), &["go.etcd.io/etcd/server/v3"])?;
    let kubernetes =
        ["kube-apiserver", "kube-controller-manager", "kubectl"].map(|name| format!("k8s.io/kubernetes/cmd/{name}"));
    go_build(&directory, &kubernetes.each_ref().map(String::as_str))?;
    let own = [
        "column-judge",
        "conversion-webhook",
        "openapi-check",
        "placement-judge",
        "protobuf-fuzz",
        "protobuf-judge",
        "request-judge",
        "selectable-fields-bench",
    ];
    let own = own.map(|name| format!("./cmd/{name}"));
    go_build(&directory, &own.each_ref().map(String::as_str))?;
    fs::write(&stamp_path, stamp).context("writing the stamp of the build")?;
    Ok(Built::Now(start.elapsed()))
}

/// `e2e/go`, the Go module.
#[must_use]
pub fn module_directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("go")
}

fn binaries() -> PathBuf {
    cache_directory().join("bin")
}

/// The version of the Go on the path, such as `go1.26.8`.
pub(crate) fn find_go() -> Result<String> {
    let (major, minor) = NEEDED_GO;
    let remedy = format!("install Go {major}.{minor} or newer and put it on PATH (https://go.dev/dl)");
    let output = match go_command().args(["env", "GOVERSION"]).output() {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            bail!("go is missing: the components of the e2e tests are built with it; {remedy}")
        }
        Err(error) => return Err(error).context("running go"),
    };
    let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    ensure!(
        go_is_new_enough(&version),
        "go is too old or does not work: it calls itself {version:?}; {remedy}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(version)
}

/// Whether a version such as `go1.26.8` is at least the needed one.
#[must_use]
pub fn go_is_new_enough(version: &str) -> bool {
    let mut numbers = version.trim_start_matches("go").split(['.', '-', ' ', 'r', 'b']).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= NEEDED_GO,
        _ => false,
    }
}

fn go_command() -> Command {
    let mut command = Command::new("go");
    command.current_dir(module_directory());
    // The Go that is there, never one that go would download because of a line in a go.mod.
    command.env("GOTOOLCHAIN", "local").env("GOFLAGS", "-mod=readonly").env("GOWORK", "off").env("CGO_ENABLED", "0");
    command
}

fn go_build(output: &Path, packages: &[&str]) -> Result<()> {
    let status =
        go_command().args(flags()).arg("-o").arg(output).args(packages).status().context("running go build")?;
    ensure!(status.success(), "go build of {} failed: {status}", packages.join(" "));
    Ok(())
}

/// Two packages at a time: a compiler process of the large ones takes more than a gigabyte.
fn flags() -> Vec<String> {
    let linker = linker_flags(Kubernetes::USUAL.minor(), KUBERNETES_VERSION);
    ["build", "-p", "2", "-trimpath", "-buildvcs=false", "-ldflags", &linker].map(str::to_owned).to_vec()
}

/// Flags of the linker that stamp a version, as releases do, and leave out what only a debugger reads.
pub(crate) fn linker_flags(minor: u32, version: &str) -> String {
    let mut linker = "-s -w".to_owned();
    for package in ["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"] {
        for (variable, value) in [
            ("gitMajor", "1"),
            ("gitMinor", &minor.to_string()),
            ("gitVersion", version),
            ("gitTreeState", "clean"),
            // What a release build has in these two is not known to a module; clients only show them.
            ("gitCommit", "0000000000000000000000000000000000000000"),
            ("buildDate", "1970-01-01T00:00:00Z"),
        ] {
            linker.push_str(&format!(" -X {package}.{variable}={value}"));
        }
    }
    linker
}

/// What the binaries depend on, as text: Go, flags, and a hash of each file of the module.
fn stamp(go: &str) -> Result<String> {
    let mut files = Vec::new();
    collect_files(&module_directory(), &mut files)?;
    // Modules of their own, built apart.
    files.retain(|file| !file.starts_with(versions_directory()));
    files.sort();
    let mut text = format!("{go}\n{}\n", flags().join(" "));
    for file in files {
        let mut hasher = DefaultHasher::new();
        fs::read(&file).with_context(|| format!("reading {}", file.display()))?.hash(&mut hasher);
        text.push_str(&format!("{:016x} {}\n", hasher.finish(), file.display()));
    }
    Ok(text)
}

pub(crate) fn collect_files(directory: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(directory).with_context(|| format!("reading {}", directory.display()))? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            collect_files(&entry.path(), files)?;
        } else {
            files.push(entry.path());
        }
    }
    Ok(())
}
