//! controller-runtime's suites against a server that is there already (`USE_EXISTING_CLUSTER`).

use std::time::Duration;

use anyhow::{Context, Result};

use super::build::{self, Program};
use super::run::{Bed, finish};
use super::{Outcomes, Side, report};
use crate::control_plane::Settings;
use crate::process::Invocation;

const DEADLINE: Duration = Duration::from_secs(15 * 60);

/// Runs these of its packages, such as `client/apiutil`, and returns what became of their tests. A name starts with the package.
///
/// # Errors
/// When a component is not built or does not start, or a package leaves no report.
pub async fn run(side: Side, packages: &[&'static str]) -> Result<Outcomes> {
    let mut outcomes = Outcomes::new();
    for package in packages {
        // As envtest does, without controllers, which would change what the tests write.
        let bed = Bed::start(side, Settings::default()).await?;
        let report = bed.directory().path().join("report.json");
        let sources = build::module("sigs.k8s.io/controller-runtime")?.join("pkg").join(package);
        // Some read files beside their sources.
        let working = bed.directory().path().join("sources");
        build::copy_files(&sources, &working)?;
        let mut invocation = Invocation::new("/bin/sh".into())
            .arguments(["-c", "cd \"$0\" && exec \"$@\""])
            .arguments([working.display().to_string()])
            .arguments([build::locate(Program::ControllerRuntime(package))?.display().to_string()])
            .arguments(["-test.v", "--ginkgo.no-color", "--ginkgo.timeout=14m"])
            .arguments([format!("--ginkgo.json-report={}", report.display())])
            .environment("USE_EXISTING_CLUSTER", "true")
            .environment("KUBECONFIG", bed.kubeconfig().display().to_string());
        invocation.environment.extend(bed.environment()?);
        let output = finish("suite", &invocation, bed.directory().path(), DEADLINE).await?;
        bed.check()?;
        let specs = report::ginkgo(&report).with_context(|| format!("{package} left no report"))?;
        let all = specs.into_iter().chain(report::go_leaves(&output));
        outcomes.extend(all.map(|(name, outcome)| (format!("{package}: {name}"), outcome)));
    }
    Ok(outcomes)
}
