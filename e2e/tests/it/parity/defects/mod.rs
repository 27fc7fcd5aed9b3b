//! Seeded defects of our own server, one at a time between fieldcache and the comparing client.
//!
//! Each is a fault that a server like ours could well have. A suite that stays green with one of them does not compare
//! what it says. Defects of responses and of watches are applied to what fieldcache sent when everything was requested
//! ([`Run`]), and the result is compared again. Only defects that change the requests to fieldcache need new requests.

mod answers;
mod requests;
mod watches;

use anyhow::{Result, bail, ensure};
use e2e::compare::{Difference, differences};
use e2e::http::{Answer, Request};
use futures::stream::{self, StreamExt};
use serde_json::Value;

use super::other_versions;
use super::run::{self, CaseResult, FIELDCACHE, Run};
use super::script::{self, Played, Script, Step};
use super::scripts;
use super::side::{Recording, Side, same};
use super::stage::Stage;

/// So many red cases say enough of a defect.
const ENOUGH: usize = 20;

/// What a defect does.
pub(crate) enum Alteration {
    /// Changes the request to the server.
    Request(fn(&mut Request)),
    /// Changes a whole answer.
    Answer(fn(&Request, &mut Answer)),
    /// Changes what a watch sent.
    Watch(fn(&Request, &mut Recording)),
}

/// A seeded defect.
pub(crate) struct Defect {
    pub(crate) name: &'static str,
    pub(crate) alteration: Alteration,
}

/// All of them.
fn all() -> impl Iterator<Item = &'static Defect> {
    requests::DEFECTS.iter().chain(&answers::DEFECTS).chain(&watches::DEFECTS)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_seeded_defect_turns_the_suite_red() -> Result<()> {
    let stage = Stage::shared().await?;
    let run = Run::shared(stage).await?;
    let sides = run::sides(stage);
    // A case that is red without a defect shows nothing about one.
    for found in run.judge(&sides).into_iter().filter(|found| found.side == run::FIELDCACHE_NAME) {
        if let Some(difference) = fault(&found.watch, &found.differences) {
            bail!("red without a defect: {}: {difference}", found.watch);
        }
    }
    let (mut missed, mut hidden) = (Vec::new(), 0);
    let mut lines = String::new();
    for defect in all() {
        let side = Side { name: defect.name, defect: Some(defect), ..sides[FIELDCACHE].clone() };
        let caught = catches(stage, run, &side, defect).await?;
        match caught.first() {
            None if other_versions::hides(defect.name) => {
                lines.push_str(&format!("\n  {}: cannot be seen beside this version of Kubernetes", defect.name));
                hidden += 1;
            }
            None => missed.push(defect.name),
            Some(first) => {
                let more = if caught.len() == ENOUGH { " or more" } else { "" };
                let count = caught.len();
                lines.push_str(&format!("\n  {}: caught by {count}{more} cases, first {first:?}", defect.name));
            }
        }
    }
    let count = all().count();
    super::say(&format!("parity: {} of {count} seeded defects caught{lines}", count - missed.len() - hidden));
    ensure!(missed.is_empty(), "not caught: {missed:?}");
    Ok(())
}

/// The cases and watches that are red with a defect, as far as [`ENOUGH`].
async fn catches(stage: &Stage, run: &Run, side: &Side, defect: &Defect) -> Result<Vec<String>> {
    match &defect.alteration {
        Alteration::Request(alter) => {
            let is_concerned =
                |result: &&CaseResult| result.tape.exchanges().iter().any(|(request, _)| alters(*alter, request));
            let caught = red(stage, side, run.cases.iter().filter(is_concerned), false).await?;
            if caught.is_empty() { first_red_script(stage, run, side, *alter).await } else { Ok(caught) }
        }
        Alteration::Answer(alter) => {
            let is_concerned = |result: &&CaseResult| {
                result.tape.exchanges().into_iter().any(|(request, answer)| {
                    let mut altered = answer.clone();
                    alter(&request, &mut altered);
                    (altered.status, altered.headers, altered.body) != (answer.status, answer.headers, answer.body)
                })
            };
            red(stage, side, run.cases.iter().filter(is_concerned), true).await
        }
        Alteration::Watch(alter) => {
            let is_red = |played: &&Played| {
                let Some(Ok(recording)) = played.by(run::FIELDCACHE_NAME) else { return false };
                // A refusal in several lines, or of text, is no stream of events.
                if !recording.events.iter().all(Value::is_object) {
                    return false;
                }
                let mut altered = recording.clone();
                alter(&played.request, &mut altered);
                altered != *recording && fault(&played.name, &played.judge(side, &Ok(altered))).is_some()
            };
            Ok(run.played.iter().filter(is_red).take(ENOUGH).map(|played| played.name.clone()).collect())
        }
    }
}

/// Sends cases again with a side's defect; uses their tapes if the requests are the same as before.
async fn red(
    stage: &Stage,
    side: &Side,
    concerned: impl Iterator<Item = &CaseResult>,
    from_tape: bool,
) -> Result<Vec<String>> {
    /// Requests under way at once.
    const AT_ONCE: usize = 8;
    let judging = concerned.map(|result| async move {
        let tape = from_tape.then(|| result.tape.playing());
        let answer = result.case.outcome(&Side { tape, ..side.clone() }, &stage.variables).await?;
        let found = differences(&result.expected, &answer);
        let name = &result.case.name;
        Ok(fault(name, &found).map(|_| name.clone()))
    });
    let red =
        stream::iter(judging).buffered(AT_ONCE).filter_map(async |result: Result<_>| result.transpose()).take(ENOUGH);
    red.collect::<Vec<Result<String>>>().await.into_iter().collect()
}

/// Plays the scripts whose watches are requested otherwise with a defect, until one is red.
async fn first_red_script(stage: &Stage, run: &Run, side: &Side, alter: fn(&mut Request)) -> Result<Vec<String>> {
    let concerned = |script: &Script| {
        script.steps.iter().any(|step| matches!(step, Step::Watch(watch) if alters(alter, &Request::get(&watch.path))))
    };
    let (reference, copies) = (run::reference(stage), [stage.fieldcache.client()]);
    for script in scripts::all(run.seed).iter().filter(|script| concerned(script)) {
        let sides = std::slice::from_ref(side);
        for played in script::play(script, &reference, sides, &copies, &stage.variables).await? {
            let Some(recorded) = played.by(side.name) else { continue };
            let found = played.judge(side, recorded);
            if fault(&played.name, &found).is_some() {
                return Ok(vec![played.name]);
            }
        }
    }
    Ok(Vec::new())
}

fn alters(alter: fn(&mut Request), request: &Request) -> bool {
    let mut altered = request.clone();
    alter(&mut altered);
    !same(&altered, request)
}

/// The first of a case's differences that is not meant.
fn fault<'found>(case: &str, found: &'found [Difference]) -> Option<&'found Difference> {
    found.iter().find(|difference| other_versions::covering(case, found, difference).is_empty())
}
