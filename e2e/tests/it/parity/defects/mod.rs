//! Seeded defects of our own server, one at a time between fieldcache and the comparing client.
//!
//! Each is a fault that a server like ours could well have. A suite that stays green with one of them does not compare what it says.
//! Defects of answers and of watches are put before what fieldcache sent when everything was asked ([`Run`]), and what they change is
//! judged again; only those that change what fieldcache is asked need it once more.

mod answers;
mod requests;
mod watches;

use anyhow::{Result, bail, ensure};
use e2e::compare::{Difference, differences};
use e2e::http::{Answer, Request};
use futures::stream::{self, StreamExt};
use serde_json::Value;

use super::other_versions;
use super::run::{self, Asked, FIELDCACHE, Run};
use super::script::{self, Script, Step};
use super::scripts;
use super::side::{Recording, Side, same};
use super::stage::Stage;

/// What a defect does.
pub(crate) enum Alteration {
    /// Changes what the server is asked.
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
    // What is red without a defect proves nothing about one.
    for found in run.judge(&sides).into_iter().filter(|found| found.side == run::FIELDCACHE_NAME) {
        if let Some(difference) = fault(&found.watch, &found.differences) {
            bail!("red without a defect: {}: {difference}", found.watch);
        }
    }
    let mut missed = Vec::new();
    let mut lines = String::new();
    for defect in all() {
        let side = Side { name: defect.name, defect: Some(defect), ..sides[FIELDCACHE].clone() };
        let caught = catches(stage, run, &side, defect).await?;
        match caught.first() {
            None => missed.push(defect.name),
            Some(first) => {
                lines.push_str(&format!("\n  {}: caught by {} cases, first {first:?}", defect.name, caught.len()));
            }
        }
    }
    let count = all().count();
    super::say(&format!("parity: {} of {count} seeded defects caught{lines}", count - missed.len()));
    ensure!(missed.is_empty(), "not caught: {missed:?}");
    Ok(())
}

/// The cases and watches that are red with a defect; of the cases only so many as it takes to find some.
async fn catches(stage: &Stage, run: &Run, side: &Side, defect: &Defect) -> Result<Vec<String>> {
    let mut caught = Vec::new();
    match &defect.alteration {
        Alteration::Request(alter) => {
            let concerned = |asked: &Asked| asked.tape.exchanges().iter().any(|(request, _)| alters(*alter, request));
            caught.extend(red(stage, side, run, concerned, false).await?);
            if caught.is_empty() {
                caught.extend(first_red_script(stage, run, side, *alter).await?);
            }
        }
        Alteration::Answer(alter) => {
            let concerned = |asked: &Asked| {
                asked.tape.exchanges().into_iter().any(|(request, answer)| {
                    let mut altered = answer.clone();
                    alter(&request, &mut altered);
                    (altered.status, altered.headers, altered.body) != (answer.status, answer.headers, answer.body)
                })
            };
            caught.extend(red(stage, side, run, concerned, true).await?);
        }
        Alteration::Watch(alter) => {
            for played in &run.played {
                let Some(Ok(recording)) = played.of(run::FIELDCACHE_NAME) else { continue };
                // A refusal in several lines, or of text, is no stream of events.
                if !recording.events.iter().all(Value::is_object) {
                    continue;
                }
                let mut recording = recording.clone();
                alter(&played.request, &mut recording);
                let found = played.judge(side, &Ok(recording));
                if fault(&played.name, &found).is_some() {
                    caught.push(played.name.clone());
                }
            }
        }
    }
    Ok(caught)
}

/// Asks the cases that a defect concerns again with it, some at a time until one is red; from their tapes if nothing else is asked
/// than before. From the end, since those that wait stand first.
async fn red(
    stage: &Stage,
    side: &Side,
    run: &Run,
    concerned: impl Fn(&Asked) -> bool,
    from_tape: bool,
) -> Result<Vec<String>> {
    /// Cases asked before it is looked whether one is red.
    const SOME: usize = 40;
    let mut concerned = run.asked.iter().rev().filter(|asked| concerned(asked));
    loop {
        let some: Vec<&Asked> = concerned.by_ref().take(SOME).collect();
        if some.is_empty() {
            return Ok(Vec::new());
        }
        let found = red_of(stage, side, some, from_tape).await?;
        if !found.is_empty() {
            return Ok(found);
        }
    }
}

async fn red_of(stage: &Stage, side: &Side, cases: Vec<&Asked>, from_tape: bool) -> Result<Vec<String>> {
    /// Requests under way at once.
    const AT_ONCE: usize = 8;
    let asking = cases.into_iter().map(|asked| async move {
        let tape = from_tape.then(|| asked.tape.playing());
        let answer = asked.case.ask(&Side { tape, ..side.clone() }, &stage.variables).await?;
        let found = differences(&asked.expected, &answer);
        let name = &asked.case.name;
        Ok(fault(name, &found).map(|_| name.clone()))
    });
    let answers: Vec<Result<Option<String>>> = stream::iter(asking).buffered(AT_ONCE).collect().await;
    answers.into_iter().filter_map(Result::transpose).collect()
}

/// Plays the scripts whose watches are asked otherwise with a defect, until one is red.
async fn first_red_script(stage: &Stage, run: &Run, side: &Side, alter: fn(&mut Request)) -> Result<Vec<String>> {
    let concerned = |script: &Script| {
        script.steps.iter().any(|step| matches!(step, Step::Watch(watch) if alters(alter, &Request::get(&watch.path))))
    };
    let (reference, copies) = (run::reference(stage), [stage.fieldcache.client()]);
    for script in scripts::all(run.seed).iter().filter(|script| concerned(script)) {
        let sides = std::slice::from_ref(side);
        for played in script::play(script, &reference, sides, &copies, &stage.variables).await? {
            let Some(recorded) = played.of(side.name) else { continue };
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
