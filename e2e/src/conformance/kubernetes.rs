//! Kubernetes' own end-to-end specs, in one test binary of ours (`e2e/conformance/kubernetes`) that Ginkgo runs in parallel.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};

use super::build::{self, Program};
use super::run::{Bed, environment, finish};
use super::{Outcomes, Side, report};
use crate::components::{Component, locate};
use crate::control_plane::Settings;
use crate::process::Invocation;
use crate::run_directory::RunDirectory;

const DEADLINE: Duration = Duration::from_secs(45 * 60);

/// The full texts of all specs in the binary.
///
/// # Errors
/// When the binary is not built or does not work.
pub async fn names() -> Result<Vec<String>> {
    let directory = RunDirectory::create("conformance-specs")?;
    let mut invocation = Invocation::new(build::locate(Program::KubernetesSpecs)?).arguments([
        "--ginkgo.dry-run",
        "--ginkgo.no-color",
        "--ginkgo.json-report=report.json",
        "--host=http://none",
    ]);
    invocation.environment.extend(environment(directory.path())?);
    finish("specs", &invocation, directory.path(), Duration::from_secs(120)).await?;
    Ok(report::ginkgo(&directory.path().join("report.json"))?.into_keys().collect())
}

/// Runs these specs, `at_once` at a time. Most of their time is waiting.
///
/// # Errors
/// When a component is not built, does not start, or leaves no report.
pub async fn run(side: Side, chosen: &[&str], at_once: usize) -> Result<Outcomes> {
    let settings = Settings {
        controller_manager: true,
        // One spec waits until the first page's resourceVersion is compacted.
        apiserver_arguments: vec!["--etcd-compaction-interval=1m".to_owned()],
        ..Settings::default()
    };
    let bed = Bed::start(side, settings).await?;
    let specs = bed.directory().path().join("specs");
    std::fs::write(&specs, chosen.join("\n")).context("writing the names of the specs")?;
    let at_once = at_once.clamp(1, chosen.len().max(1));
    let mut invocation = Invocation::new(build::locate(Program::Ginkgo)?)
        .arguments([&format!("--procs={at_once}"), "--no-color", "--json-report=report.json"])
        .arguments([
            format!("--timeout={}s", DEADLINE.as_secs() - 60),
            format!("--output-dir={}", bed.directory().path().display()),
        ])
        .arguments([build::locate(Program::KubernetesSpecs)?.display().to_string(), "--".to_owned()])
        .arguments([format!("--specs={}", specs.display()), format!("--kubeconfig={}", bed.kubeconfig().display())])
        .arguments([format!("--kubectl-path={}", locate(Component::Kubectl)?.display())])
        .arguments(["--dump-logs-on-failure=false", "--allowed-not-ready-nodes=-1"]);
    invocation.environment.extend(bed.environment()?);
    finish("ginkgo", &invocation, bed.directory().path(), DEADLINE).await?;
    bed.check()?;
    let report: PathBuf = bed.directory().path().join("report.json");
    let mut outcomes = report::ginkgo(&report).context("Ginkgo left no report")?;
    outcomes.retain(|name, _| chosen.contains(&name.as_str()));
    Ok(outcomes)
}
