//! Reports of test programs: Ginkgo's JSON, and the verbose output of `go test`.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use super::{Outcome, Outcomes};

/// The outcomes in a Ginkgo JSON report, by the full text of the spec.
///
/// # Errors
/// When the file is missing or is no such report.
pub fn ginkgo(path: &Path) -> Result<Outcomes> {
    let what = || format!("reading the report {}", path.display());
    let bytes = std::fs::read(path).with_context(what)?;
    let document: Value = serde_json::from_slice(&bytes).with_context(what)?;
    let mut outcomes = Outcomes::new();
    for suite in document.as_array().context("a report is an array").with_context(what)? {
        for spec in suite["SpecReports"].as_array().into_iter().flatten() {
            // Pending specs are never run.
            if spec["LeafNodeType"] == "It" && spec["State"] != "pending" {
                outcomes.insert(name(spec), outcome(spec));
            }
        }
    }
    Ok(outcomes)
}

fn name(spec: &Value) -> String {
    let containers = spec["ContainerHierarchyTexts"].as_array().into_iter().flatten();
    let texts = containers.chain([&spec["LeafNodeText"]]).filter_map(Value::as_str).filter(|text| !text.is_empty());
    // A name is one line of a list.
    texts.collect::<Vec<_>>().join(" ").replace('\n', " ").trim().to_owned()
}

fn outcome(spec: &Value) -> Outcome {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let said = text(&spec["Failure"]["Message"]);
    match spec["State"].as_str().unwrap_or_default() {
        "passed" => Outcome::Passed,
        "skipped" => Outcome::Skipped(said),
        state => {
            let place = &spec["Failure"]["Location"];
            let panic = text(&spec["Failure"]["ForwardedPanic"]);
            Outcome::Failed(format!("{state}: {said} {panic} at {}:{}", text(&place["FileName"]), place["LineNumber"]))
        }
    }
}

/// The outcomes of the top-level tests in what `-test.v` prints; the words of a failed test are the lines before its verdict.
#[must_use]
pub fn go_test(output: &str) -> Outcomes {
    const WORDS: usize = 12;
    let mut outcomes = Outcomes::new();
    let mut said: Vec<&str> = Vec::new();
    let mut failing: Option<String> = None;
    for line in output.lines() {
        let verdict = line.strip_prefix("--- ").and_then(|rest| rest.split_once(": "));
        let Some((verdict, rest)) = verdict else {
            // A failed test's messages follow its verdict; lines of the log come before.
            if let Some(name) = &failing
                && line.starts_with("    ")
                && let Some(Outcome::Failed(words)) = outcomes.get_mut(name)
                && words.lines().count() < WORDS
            {
                words.push('\n');
                words.push_str(line.trim());
            } else {
                failing = None;
                said.push(line);
            }
            continue;
        };
        let name = rest.split_whitespace().next().unwrap_or_default().to_owned();
        failing = None;
        match verdict {
            "PASS" => drop(outcomes.insert(name, Outcome::Passed)),
            "SKIP" => drop(outcomes.insert(name, Outcome::Skipped(String::new()))),
            "FAIL" => {
                let is_message = |line: &&&str| line.starts_with("    ") && line.contains(".go:");
                let messages: Vec<&str> =
                    said.iter().rev().filter(is_message).take(WORDS).map(|line| line.trim()).collect();
                let words: Vec<&str> = messages.into_iter().rev().collect();
                outcomes.insert(name.clone(), Outcome::Failed(words.join("\n")));
                failing = Some(name);
            }
            _ => {}
        }
        said.clear();
    }
    outcomes
}

/// The outcomes of all tests and subtests without subtests in what `-test.v` prints; a subtest is named `TEST/SUBTEST`.
#[must_use]
pub fn go_leaves(output: &str) -> Outcomes {
    let mut outcomes = Outcomes::new();
    for line in output.lines() {
        let verdict = line.trim_start().strip_prefix("--- ").and_then(|rest| rest.split_once(": "));
        let Some((verdict, rest)) = verdict else { continue };
        let name = rest.split_whitespace().next().unwrap_or_default().to_owned();
        let outcome = match verdict {
            "PASS" => Outcome::Passed,
            "SKIP" => Outcome::Skipped(String::new()),
            "FAIL" => Outcome::Failed("a subtest failed".to_owned()),
            _ => continue,
        };
        outcomes.insert(name, outcome);
    }
    for (name, outcome) in go_test(output) {
        outcomes.insert(name, outcome);
    }
    let parents: BTreeSet<String> = outcomes.keys().flat_map(|name| parents(name)).map(str::to_owned).collect();
    outcomes.retain(|name, _| !parents.contains(name));
    outcomes
}

/// `a` and `a/b` of `a/b/c`.
fn parents(name: &str) -> impl Iterator<Item = &str> {
    name.match_indices('/').map(|(at, _)| &name[..at])
}
