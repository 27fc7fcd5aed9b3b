//! Parity: the same request to a real kube-apiserver and to fieldcache, and the answers compared.
//!
//! [`cases`] are the requests, [`scripts`] the watches with changes made meanwhile; [`case`] and [`script`] are how one of them is
//! asked and compared, [`outcome`] what is compared of an answer, [`allowed`] the differences that are meant, [`other_versions`] those of older and newer servers, [`stage`] and
//! [`fixtures`] the cluster and its objects. [`defects`] are faults put before our own server: each must turn the suite red.
//! kube-apiserver is also compared with itself, which tells what is not determined at all and so must not be compared.

mod allowed;
mod case;
mod cases;
mod defects;
mod dimension;
mod fixtures;
mod other_versions;
mod outcome;
mod points;
mod script;
mod scripts;
mod side;
mod stage;

use std::collections::BTreeSet;
use std::io::Write;

use anyhow::{Result, bail, ensure};
use e2e::compare::differences;
use e2e::http::Protocol;
use futures::future::{join, join_all};
use futures::stream::{self, StreamExt};

use allowed::{ALLOWED, Pattern};
use defects::DEFECTS;
use script::Found;
use side::Side;
use stage::Stage;

/// Cases and scripts under way at once: much of their time is waiting.
const AT_ONCE: usize = 8;

/// Differences of one case that are shown.
const SHOWN: usize = 12;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_question_gets_the_same_answer() -> Result<()> {
    let stage = Stage::shared().await?;
    let reference = reference(stage);
    let itself = Side { name: "kube-apiserver itself", ..reference.clone() };
    let ours = |name, client, from_copy| Side { name, client, defect: None, from_copy, may_drop_bookmarks: false };
    let endpoint = stage.fieldcache.endpoint().clone();
    let fieldcache = ours("fieldcache", endpoint.client(), false);
    let copy = ours("fieldcache's copy over HTTP/2", endpoint.speaking(Protocol::Http2).client(), true);
    let found = ask_everything(stage, &reference, &[itself.clone(), fieldcache, copy]).await?;

    let mut report = String::new();
    let mut used: BTreeSet<Pattern> = BTreeSet::new();
    for Found { side, watch, differences } in &found {
        let mut faults = Vec::new();
        for difference in differences {
            let covering = if *side == itself.name {
                Vec::new()
            } else {
                other_versions::covering(watch, differences, difference)
            };
            if covering.is_empty() {
                faults.push(difference);
            }
            used.extend(covering);
        }
        if !faults.is_empty() {
            report.push_str(&format!("\n{watch}: kube-apiserver <> {side}, {} differences", faults.len()));
            for fault in faults.iter().take(SHOWN) {
                report.push_str(&format!("\n    {fault}"));
            }
        }
    }
    for ((index, pattern), reason) in other_versions::needless(&used) {
        report.push_str(&format!("\nof allowance {index}, {pattern:?} is not needed: {reason}"));
    }
    let (requests, watches) = (cases::all().len(), scripts::all().len());
    let others = other_versions::reasons();
    let mut summary = format!(
        "parity: {requests} requests, {watches} watch scripts, {} allowed differences and {} of Kubernetes {} (reasons in {})",
        ALLOWED.len(),
        others.len(),
        other_versions::under_test().name(),
        "e2e/tests/it/parity/allowed.rs and other_versions.rs"
    );
    for allowance in &ALLOWED {
        summary.push_str(&format!("\n  allowed: {}", allowance.reason));
    }
    for reason in others {
        summary.push_str(&format!("\n  allowed: {reason}"));
    }
    say(&summary);
    ensure!(report.is_empty(), "{report}\n{}", stage.fieldcache.process().tail());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_seeded_defect_turns_the_suite_red() -> Result<()> {
    let stage = Stage::shared().await?;
    let client = stage.fieldcache.client();
    let side = |name, defect| Side { name, client: client.clone(), defect, from_copy: true, may_drop_bookmarks: false };
    let mut sides = vec![side("no defect", None)];
    sides.extend(DEFECTS.iter().map(|defect| side(defect.name, Some(defect))));
    let mut found = ask_everything(stage, &reference(stage), &sides).await?;
    for one in &mut found {
        let all = one.differences.clone();
        one.differences.retain(|difference| other_versions::covering(&one.watch, &all, difference).is_empty());
    }
    found.retain(|found| !found.differences.is_empty());
    // What is red without a defect proves nothing about one.
    if let Some(red) = found.iter().find(|found| found.side == "no defect") {
        bail!("red without a defect: {}: {}", red.watch, red.differences[0]);
    }
    let mut missed = Vec::new();
    let mut lines = String::new();
    for defect in &DEFECTS {
        let caught: Vec<&str> =
            found.iter().filter(|found| found.side == defect.name).map(|found| found.watch.as_str()).collect();
        match caught.first() {
            None => missed.push(defect.name),
            Some(first) => {
                lines.push_str(&format!("\n  {}: caught by {} cases, first {first:?}", defect.name, caught.len()))
            }
        }
    }
    say(&format!("parity: {} of {} seeded defects caught{lines}", DEFECTS.len() - missed.len(), DEFECTS.len()));
    ensure!(missed.is_empty(), "not caught: {missed:?}");
    Ok(())
}

#[test]
fn the_tables_are_as_large_as_promised_and_their_names_unique() {
    let cases = cases::all();
    let names: BTreeSet<&str> = cases.iter().map(|case| case.name.as_str()).collect();
    assert_eq!(names.len(), cases.len(), "two request cases share a name");
    assert!(cases.len() >= 200, "{} request cases", cases.len());
    let scripts = scripts::all();
    let names: BTreeSet<&str> = scripts.iter().map(|script| script.name).collect();
    assert_eq!(names.len(), scripts.len(), "two scripts share a name");
    assert!(scripts.len() >= 25, "{} scripts", scripts.len());
    assert!(ALLOWED.iter().all(|allowance| allowance.reason.ends_with('.')), "a reason is a sentence");
}

fn reference(stage: &Stage) -> Side {
    Side {
        name: "kube-apiserver",
        client: stage.control_plane.client(),
        defect: None,
        from_copy: false,
        may_drop_bookmarks: true,
    }
}

/// Asks all cases and plays all scripts on all sides; each side is compared with the reference.
async fn ask_everything(stage: &Stage, reference: &Side, sides: &[Side]) -> Result<Vec<Found>> {
    let cases = cases::all();
    let asking = cases.iter().map(|case| async move {
        let answers = join_all(sides.iter().map(|side| case.ask(side, &stage.variables)));
        let (expected, answers) = join(case.ask(reference, &stage.variables), answers).await;
        let expected = expected?;
        ensure!(expected["no answer"].is_null(), "{}: kube-apiserver itself: {}", case.name, expected["no answer"]);
        let mut found = Vec::new();
        for (side, answer) in sides.iter().zip(answers) {
            let differences = differences(&expected, &answer?);
            found.push(Found { side: side.name, watch: case.name.clone(), differences });
        }
        Ok(found)
    });
    let scripts = scripts::all();
    let copy = stage.fieldcache.client();
    let playing = scripts.iter().map(|script| script::play(script, reference, sides, &copy, &stage.variables));
    let asking = stream::iter(asking).buffered(3 * AT_ONCE).collect::<Vec<Result<Vec<Found>>>>();
    let playing = stream::iter(playing).buffered(AT_ONCE).collect::<Vec<Result<Vec<Found>>>>();
    let (asked, played) = join(asking, playing).await;
    let mut all = Vec::new();
    let mut broken = String::new();
    for found in asked.into_iter().chain(played) {
        match found {
            Ok(found) => all.extend(found),
            Err(error) => broken.push_str(&format!("\n{error:#}")),
        }
    }
    ensure!(broken.is_empty(), "{broken}");
    Ok(all)
}

/// Writes a line that is seen also when the test passes, which captured output is not.
fn say(line: &str) {
    // Nobody is harmed when standard error is closed.
    let _ = writeln!(std::io::stderr(), "{line}");
}
