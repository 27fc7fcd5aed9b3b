//! Suites that others wrote: their lists say what is chosen and what is left out. `make conformance` runs them; the short selections of
//! some of them are run here.

use anyhow::{Result, ensure};
use e2e::conformance::choice::{Choice, List};
use e2e::conformance::selection::Selection;
use e2e::conformance::{Outcome, Side, Suite, view};
use http::Method;

/// Writes, what is below an object, and what is not cached go to kube-apiserver.
#[test]
fn only_reads_of_cached_resources_go_to_the_view() {
    let reads = [
        "/api/v1/pods",
        "/api/v1/namespaces",
        "/api/v1/namespaces/a",
        "/api/v1/namespaces/a/pods",
        "/api/v1/namespaces/a/pods/b",
        "/apis/apps/v1/namespaces/a/deployments",
        "/api/v1/nodes/a",
    ];
    let others = [
        "/api/v1",
        "/api",
        "/apis/apps/v1",
        "/version",
        "/api/v1/namespaces/a/pods/b/log",
        "/api/v1/namespaces/a/status",
        "/api/v1/nodes/a/status",
        "/api/v1/watch/pods",
        "/api/v1/events",
        "/apis/batch/v1/pods",
        "/api/v2/pods",
    ];
    for path in reads {
        assert!(view::is_read(&Method::GET, path), "{path}");
        assert!(!view::is_read(&Method::DELETE, path), "{path}");
    }
    for path in others {
        assert!(!view::is_read(&Method::GET, path), "{path}");
    }
}

/// Tests of a suite at a time, beside the other tests of this program.
const AT_ONCE: usize = 2;

/// Runs the short selection of a suite through fieldcache. It has at least so many tests. Of what failed, only that counts which passes
/// beside kube-apiserver alone.
#[expect(clippy::print_stdout, reason = "the report of a test")]
async fn passes_through(suite: Suite, tests: usize) -> Result<()> {
    let through = Box::pin(Selection::for_suite(suite, true, &[])?.run(Side::Through, AT_ONCE)).await?;
    ensure!(through.len() >= tests, "{} tests of {}, not {tests}", through.len(), suite.name());
    let failed = through.iter().filter(|(_, outcome)| **outcome != Outcome::Passed);
    let failed: Vec<String> = failed.map(|(test, _)| test.clone()).collect();
    println!("{}: {} of {} tests passed through fieldcache", suite.name(), through.len() - failed.len(), through.len());
    if failed.is_empty() {
        return Ok(());
    }
    let selection = Selection::for_suite(suite, true, &failed)?;
    let direct = Box::pin(selection.run(Side::Direct, AT_ONCE)).await?;
    let differences = selection.row(&direct, &through).differences;
    ensure!(differences.is_empty(), "passed directly, failed through fieldcache: {differences:#?}");
    Ok(())
}

#[tokio::test]
async fn integration_tests_of_custom_resources_pass_through_fieldcache() -> Result<()> {
    passes_through(Suite::Integration, 18).await
}

#[tokio::test]
async fn kubectl_scripts_pass_through_fieldcache() -> Result<()> {
    passes_through(Suite::Kubectl, 15).await
}

#[tokio::test]
async fn tests_of_the_python_client_pass_through_fieldcache() -> Result<()> {
    passes_through(Suite::Python, 10).await
}

/// A list that begins with what it may not hold is an error, and so is a test that a list does not know.
#[test]
fn a_list_decides_by_its_first_pattern() -> Result<()> {
    let list = List::read("[left out: no node]\nnode: *\n[short]\na: One\n[rejected: writes]\na: T*o\n[run]\na: *\n")?;
    let names = ["node: One", "a: One", "a: Two", "a: Three"];
    ensure!(list.run(&names, false)? == ["a: One", "a: Two", "a: Three"]);
    ensure!(list.run(&names, true)? == ["a: One"]);
    ensure!(list.choice("a: Two") == Some(&Choice::Rejected("writes".to_owned())));
    ensure!(list.short_packages(&["node", "a"]) == ["a"]);
    ensure!(list.run(&["b: One"], false).is_err(), "a new test has to be chosen or left out");
    ensure!(List::read("a: One\n[run]\n").is_err_and(|error| error.to_string().contains("line 1")));
    Ok(())
}
