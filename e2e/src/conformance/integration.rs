//! Integration tests of Kubernetes and of its apiextensions server, which start a server in their own process.
//!
//! The test binaries are built with an overlay ([`super::build`]) that puts fieldcache in front of that server when the environment
//! names its program.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use futures::future::try_join_all;

use super::build::{self, APIEXTENSIONS, INTEGRATION, Package, Program};
use super::choice::List;
use super::run::{environment, finish, in_front};
use super::{Outcomes, Side, report};
use crate::control_plane::ControlPlane;
use crate::process::Invocation;
use crate::run_directory::RunDirectory;

const DEADLINE: Duration = Duration::from_secs(30 * 60);

/// The names of all tests of these packages, each with its package.
///
/// # Errors
/// When a binary is not built or does not work.
pub async fn names(packages: &[&'static Package]) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for package in packages {
        let directory = RunDirectory::create("conformance-tests")?;
        let mut invocation =
            Invocation::new(build::locate(Program::Integration(package))?).arguments(["-test.list", "."]);
        invocation.environment.extend(environment(directory.path())?);
        let output = finish("tests", &invocation, directory.path(), Duration::from_secs(120)).await?;
        let tests = output.lines().filter(|line| line.starts_with("Test"));
        names.extend(tests.map(|test| format!("{}: {test}", package.name)));
    }
    Ok(names)
}

/// Runs these tests without the subtests that the list leaves out, `at_once` at a time. Each waits most of the time,
/// for example until its own server has started.
///
/// # Errors
/// When a component is not built, or a binary does not end.
pub async fn run(side: Side, list: &List, chosen: &[&str], at_once: usize) -> Result<Outcomes> {
    let mut by_package: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for name in chosen {
        let (package, test) = name.split_once(": ").context("the name of an integration test has its package")?;
        by_package.entry(package).or_default().push(test);
    }
    let mut outcomes = Outcomes::new();
    for (name, tests) in by_package {
        let package = INTEGRATION.iter().find(|package| package.name == name).context("an unknown package")?;
        let skipped: Vec<String> = tests.iter().flat_map(|test| skipped(list, name, test)).collect();
        let skipped = skipped.join("|");
        // A process runs its tests one after another, so there is a process for each that runs at a time.
        let processes = at_once.clamp(1, tests.len());
        let runs = (0..processes).map(|process| {
            let tests: Vec<&str> = tests.iter().skip(process).step_by(processes).copied().collect();
            let skipped = skipped.as_str();
            async move { run_process(side, package, &tests, skipped).await }
        });
        for output in try_join_all(runs).await? {
            let found = report::go_test(&output).into_iter();
            outcomes.extend(found.map(|(test, outcome)| (format!("{name}: {test}"), outcome)));
        }
    }
    Ok(outcomes)
}

/// The subtests of a test that the list leaves out, as Go's test programs read them.
fn skipped(list: &List, package: &str, test: &str) -> Vec<String> {
    let name = format!("{package}: {test}");
    let below = list.subtests_left_out(&name).into_iter();
    below
        .map(|pattern| {
            let levels = pattern.split('/').map(|level| format!("^{}$", level.replace('*', ".*")));
            [format!("^{test}$")].into_iter().chain(levels).collect::<Vec<_>>().join("/")
        })
        .collect()
}

/// Runs these tests of a package in one process without the subtests of `skipped`, and returns what it wrote.
async fn run_process(side: Side, package: &'static Package, tests: &[&str], skipped: &str) -> Result<String> {
    let directory = RunDirectory::create("conformance-tests")?;
    let working = directory.path().join("sources");
    build::copy_files(&build::module(package.module)?.join(package.path), &working)?;
    let mut invocation = Invocation::new("/bin/sh".into())
        .arguments(["-c", "cd \"$0\" && exec \"$@\""])
        .arguments([working.display().to_string()])
        .arguments([build::locate(Program::Integration(package))?.display().to_string()])
        .arguments(["-test.v", &format!("-test.timeout={}s", DEADLINE.as_secs() - 60)])
        .arguments(["-test.run".to_owned(), format!("^({})$", tests.join("|"))])
        // Where the tests find their certificates: paths in the binary start at the module.
        .environment("TEST_SRCDIR", build::module_cache()?.display().to_string())
        .environment("TEST_WORKSPACE", ".");
    if !skipped.is_empty() {
        invocation = invocation.arguments(["-test.skip", skipped]);
    }
    invocation.environment.extend(environment(directory.path())?);
    invocation.environment.extend(in_front(side)?);
    // Kubernetes' packages start etcd themselves; those of the apiextensions server expect one. Each test has keys of its own.
    if package.module == APIEXTENSIONS {
        let etcd = Box::pin(ControlPlane::shared()).await?.etcd_address();
        invocation = invocation.environment("KUBE_INTEGRATION_ETCD_URL", etcd);
    }
    finish("tests", &invocation, directory.path(), DEADLINE).await
}
