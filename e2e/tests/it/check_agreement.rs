//! `fieldcache check` and kube-apiserver validate the same CustomResourceDefinitions.
//!
//! Definitions come from a generator with a fixed seed and from a hand-made list. Each goes to kube-apiserver as a dry
//! run, which validates as a real request does (checked here with some). All go to one `fieldcache check`. Only what
//! [`Defect`] names may differ, and the test fails when a rule was met too rarely to say anything.

mod case;
mod generated;
mod hand_made;
mod ratcheting;

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use e2e::control_plane::{ControlPlane, Settings};
use e2e::http::{Client, Request};
use e2e::objects::DEFINITIONS;
use e2e::run_directory::RunDirectory;
use e2e::versions::Kubernetes;
use e2e::{compare, fieldcache};
use futures::{StreamExt, TryStreamExt, stream};
use http::Method;
use serde_json::{Value, json};
use tokio::process::Command;

use case::{Case, Defect, Expectation};
use generated::Random;

/// Where the generator starts; any other number makes other definitions.
const SEED: u64 = 4358;

/// Generated definitions; the hand-made ones come on top.
const GENERATED: usize = 360;

/// How often every rule has to be met.
const LEAST: usize = 5;

/// What one side said.
#[derive(Debug, Clone, PartialEq)]
struct Answer {
    /// Empty when accepted: reason, field and message of each cause, in order.
    causes: Vec<Value>,
    warnings: Vec<String>,
}

impl Answer {
    fn is_accepted(&self) -> bool {
        self.causes.is_empty()
    }
}

#[tokio::test]
async fn check_agrees_with_kube_apiserver() -> Result<()> {
    let control_plane = ControlPlane::shared().await?;
    let client = control_plane.client();
    let mut random = Random::new(SEED);
    let mut cases = generated::cases(&mut random, 0, GENERATED);
    cases.extend(hand_made::cases(cases.len()));

    let theirs: Vec<Answer> =
        stream::iter(&cases).map(|case| create_definition(&client, case, true)).buffered(8).try_collect().await?;
    let ours = check(&cases).await?;
    let mut faults = Vec::new();
    for ((case, theirs), ours) in cases.iter().zip(&theirs).zip(&ours) {
        if let Err(error) = judge(case, theirs, ours) {
            faults.push(format!("{} ({}): {error:#}", name(case), case.title));
        }
    }
    let agreed = cases.iter().zip(&theirs).filter(|(case, _)| case.expectation == Expectation::Equal);
    let refused = theirs.iter().filter(|answer| !answer.is_accepted()).count();
    let rules = count_rules(agreed.flat_map(|(_, answer)| &answer.causes))?;
    let mut defects: BTreeMap<Defect, usize> = BTreeMap::new();
    for case in &cases {
        if let Expectation::Defect(defect) = case.expectation {
            *defects.entry(defect).or_default() += 1;
        }
    }
    println!("seed {SEED}; met: {rules:?}");
    for (defect, count) in &defects {
        println!("{count} x {}", defect.reason());
    }
    println!(
        "check agreement: {} CRDs, {refused} refused, {} upstream defects",
        cases.len(),
        defects.values().sum::<usize>()
    );
    ensure!(faults.is_empty(), "{} of {} disagree:\n{}", faults.len(), cases.len(), faults.join("\n"));
    ensure!(cases.len() >= 300, "only {} definitions", cases.len());
    ensure!(2 * refused >= cases.len(), "only {refused} of {} are refused", cases.len());
    for rule in RULES {
        let met = rules.get(rule).copied().unwrap_or_default();
        ensure!(met >= LEAST, "{rule:?} was met {met} times, which is fewer than {LEAST}");
    }
    Ok(())
}

#[tokio::test]
async fn a_dry_run_is_validated_as_a_real_request() -> Result<()> {
    let client = ControlPlane::shared().await?.client();
    let mut random = Random::new(SEED);
    let generated = generated::cases(&mut random, 10_000, 24);
    let mut accepted = 0;
    for case in &generated {
        let dry = create_definition(&client, case, true).await?;
        let real = create_definition(&client, case, false).await?;
        assert_eq!(dry, real, "{}", case.title);
        if real.is_accepted() {
            accepted += 1;
            e2e::objects::delete(&client, &format!("{DEFINITIONS}/{}", name(case))).await?;
        }
    }
    assert!(accepted > 0 && accepted < generated.len(), "{accepted} of {} accepted says nothing", generated.len());
    Ok(())
}

#[tokio::test]
async fn definitions_that_crash_kube_apiserver_are_validated_here() -> Result<()> {
    // One of its own, since it is to crash.
    let control_plane = ControlPlane::start(Settings::default()).await?;
    let cases = hand_made::crashing(20_000);
    for case in &cases {
        let requested = control_plane.client().send(request(case, true)).await;
        let crashed = match &requested {
            Err(_) => true,
            Ok(answer) => answer.status.as_u16() == 500,
        };
        ensure!(crashed, "{}: the server answered {requested:?}: mended upstream?", case.title);
    }
    control_plane.client().get_json("/readyz?verbose=false").await.err();
    control_plane.client().get("/readyz").await?.success().context("the server is gone")?;
    for (case, ours) in cases.iter().zip(check(&cases).await?) {
        ensure!(!ours.is_accepted(), "{}: such a path leads nowhere", case.title);
        ensure!(ours.warnings.iter().any(|text| text.contains("crash")), "{}: no warning in {ours:?}", case.title);
    }
    println!("check agreement: {} definitions that crash kube-apiserver judged", cases.len());
    Ok(())
}

fn judge(case: &Case, theirs: &Answer, ours: &Answer) -> Result<()> {
    // What the server warns of, such as unknown fields, we warn of too.
    for warning in theirs.warnings.iter().filter(|text| text.contains("unknown field")) {
        ensure!(ours.warnings.iter().any(|text| text.contains(warning)), "no warning {warning:?} in {ours:?}");
    }
    match case.expectation {
        Expectation::Equal => {
            compare::equal("kube-apiserver", &theirs.causes.clone().into(), "check", &ours.causes.clone().into())?;
            let expected = theirs.warnings.iter().filter(|text| text.contains("unknown field")).count();
            ensure!(!ours.is_accepted() || ours.warnings.len() == expected, "false alarm: {:?}", ours.warnings);
        }
        Expectation::Defect(defect) => {
            ensure!(ours.is_accepted(), "refused: {:?}", ours.causes);
            ensure!(!ours.warnings.is_empty(), "accepted without a warning");
            let text = match defect {
                Defect::EqualFields => Some("may only be set when validations.schema is included"),
                Defect::EqualSchemas => Some("may only be set when `version.schema.openAPIV3Schema` is not included"),
                Defect::RunTime => None,
                Defect::Crash => bail!("sent in another test"),
            };
            let Some(text) = text else {
                ensure!(theirs.is_accepted(), "refused upstream: {:?}: mended there?", theirs.causes);
                return Ok(());
            };
            ensure!(!theirs.is_accepted(), "accepted upstream: mended there?");
            ensure!(
                theirs.causes.iter().all(|cause| cause["message"].as_str().is_some_and(|said| said.contains(text))),
                "refused for another reason: {:?}",
                theirs.causes
            );
        }
    }
    Ok(())
}

/// The rules of ValidateCustomResourceSelectableFields, the reasons of unresolved paths apart, and the preconditions.
const RULES: [&str; 11] = [
    "Required value",
    "array notation is not allowed",
    "does not refer to a valid field",
    "unexpected end of JSON path",
    "expected [ or . but got",
    "must not point to fields in metadata",
    "must point to a field of type string, boolean or integer",
    "Duplicate value",
    "Too many",
    "may only be set when `version.schema.openAPIV3Schema` is not included",
    "may only be set when validations.schema is included",
];

fn count_rules<'a>(causes: impl Iterator<Item = &'a Value>) -> Result<BTreeMap<&'static str, usize>> {
    let mut met = BTreeMap::new();
    for cause in causes {
        if cause["field"].as_str().is_some_and(|field| field.ends_with(".schema.openAPIV3Schema")) {
            continue;
        }
        let message = cause["message"].as_str().context("a cause without a message")?;
        // The words of a path may not be taken for a rule's, so only what follows it counts.
        let words = message.rsplit_once("\": ").map_or(message, |(_, words)| words);
        let words = words.strip_prefix("is an invalid path: ").unwrap_or(words);
        let rule = RULES.iter().find(|rule| words.starts_with(*rule));
        let rule = rule.with_context(|| format!("not about selectable fields: {cause}"))?;
        *met.entry(*rule).or_default() += 1;
    }
    Ok(met)
}

fn name(case: &Case) -> &str {
    case.definition["metadata"]["name"].as_str().unwrap_or_default()
}

fn request(case: &Case, is_dry: bool) -> Request {
    let path = if is_dry { format!("{DEFINITIONS}?dryRun=All") } else { DEFINITIONS.to_owned() };
    Request::new(Method::POST, path).json(&case.definition)
}

async fn create_definition(client: &Client, case: &Case, is_dry: bool) -> Result<Answer> {
    let answer = client.send(request(case, is_dry)).await.with_context(|| case.title.clone())?;
    let warnings = answer.headers.get_all("warning").iter().map(|value| {
        // `299 - "TEXT"`, quotes in the text escaped.
        let text = String::from_utf8_lossy(value.as_bytes()).into_owned();
        let text = text.strip_prefix("299 - \"").and_then(|rest| rest.strip_suffix('"')).unwrap_or(&text);
        text.replace("\\\"", "\"").replace("\\\\", "\\")
    });
    let warnings = warnings.collect();
    let causes = match answer.status.as_u16() {
        201 => Vec::new(),
        422 => {
            let status = answer.json()?;
            let causes = status["details"]["causes"].as_array().cloned();
            let mut causes = causes.with_context(|| format!("{}: refused without causes: {status}", case.title))?;
            if is_older()? {
                causes.iter_mut().for_each(in_new_words);
            }
            causes
        }
        status => bail!("{} ({}): {status}: {}", name(case), case.title, answer.text()),
    };
    Ok(Answer { causes, warnings })
}

/// Whether kube-apiserver is one of those tested here that word some rules otherwise and tolerate no list for having been too long
/// before.
fn is_older() -> Result<bool> {
    Ok(Kubernetes::under_test()?.minor() <= 33)
}

/// Some messages of older servers say more than their cause does anyway.
fn in_new_words(cause: &mut Value) {
    const WORDS: [(&str, &str); 3] = [
        ("Required value: schemas are required", "Required value"),
        (
            "selectableFields may only be set when version.schema.openAPIV3Schema is not included",
            "may only be set when `version.schema.openAPIV3Schema` is not included",
        ),
        (
            "selectableFields may only be set when validations.schema is included",
            "may only be set when validations.schema is included",
        ),
    ];
    for (old, new) in WORDS {
        if let Some(message) = cause["message"].as_str() {
            cause["message"] = message.replace(old, new).into();
        }
    }
}

/// Runs one `fieldcache check` for all of them, each in a file of its own. Every other one is read as YAML, which JSON
/// is too.
async fn check(cases: &[Case]) -> Result<Vec<Answer>> {
    let directory = RunDirectory::create("check")?;
    let mut command = Command::new(fieldcache::program()?);
    command.arg("check");
    for (index, case) in cases.iter().enumerate() {
        let extension = if index % 2 == 0 { "json" } else { "yaml" };
        command.arg(directory.write(&format!("{}.{extension}", name(case)), case.definition.to_string())?);
    }
    let output = command.args(["-o", "json"]).env_clear().kill_on_drop(true).output().await.context("running check")?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout).with_context(|| format!("not JSON: {said}"))?;
    ensure!(rows.len() == cases.len(), "{} answers to {} questions: {said}", rows.len(), cases.len());
    let mut answers = Vec::new();
    for (case, row) in cases.iter().zip(&rows) {
        ensure!(row["name"] == name(case), "{}: the answer is to {}", name(case), row["name"]);
        let causes = row["causes"].as_array().cloned().context("no causes")?;
        let bare = causes
            .iter()
            .map(|cause| json!({ "reason": cause["reason"], "field": cause["field"], "message": cause["message"] }));
        let answer = Answer {
            causes: bare.collect(),
            warnings: row["warnings"].as_array().context("no warnings")?.iter().map(text).collect(),
        };
        ensure!(row["accepted"] == answer.is_accepted(), "{}: accepted is {}", name(case), row["accepted"]);
        answers.push(answer);
    }
    let expected = i32::from(answers.iter().any(|answer| !answer.is_accepted()));
    ensure!(output.status.code() == Some(expected), "exit code {:?}: {said}", output.status.code());
    Ok(answers)
}

fn text(warning: &Value) -> String {
    warning["message"].as_str().unwrap_or_default().to_owned()
}
