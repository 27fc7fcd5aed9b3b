//! One watch script: changes made through kube-apiserver, watches opened meanwhile on every side, and the events compared.
//!
//! There is no waiting for luck. A watch is read until it has seen the script's last change, which every script makes visible in each
//! of its open watches; or until the server ends it; or until it has sent so many lines as the script says. What should not have come
//! would have come before.

use anyhow::{Context, Result};
use e2e::compare::{Difference, differences};
use e2e::http::{Client, Request};
use e2e::objects;
use futures::future::join_all;
use serde_json::{Value, json};

use super::other_versions::without_events_never_sent;
use super::outcome;
use super::side::{Side, Until, Watching};
use super::stage::{Variables, follow, version_of};

/// When a watch of a script is read to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// The script's last change.
    LastChange,
    /// The server ends it.
    End,
    /// So many lines.
    Lines(usize),
}

/// One step.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// Creates an object in a collection; it gets the label `run` with the script's namespace.
    Create(String, Value),
    /// Merges a patch into an object.
    Merge(String, Value),
    /// Deletes an object or a selected collection.
    Delete(String),
    /// Remembers the version of the last change under a name.
    Note(&'static str),
    /// Waits until both servers' copies of a collection have everything written so far.
    Settle(String),
    /// Opens a watch on every side.
    Watch(Watch),
}

/// A watch of a script.
#[derive(Debug, Clone)]
pub(crate) struct Watch {
    pub(crate) name: &'static str,
    pub(crate) path: String,
    pub(crate) headers: Vec<(&'static str, &'static str)>,
    pub(crate) reach: Reach,
}

/// A script; `{ns}` in its paths is a namespace of its own.
#[derive(Debug, Clone)]
pub(crate) struct Script {
    pub(crate) name: &'static str,
    pub(crate) steps: Vec<Step>,
}

/// What one script found on one side.
pub(crate) struct Found {
    pub(crate) side: &'static str,
    pub(crate) watch: String,
    pub(crate) differences: Vec<Difference>,
}

/// Plays a script against kube-apiserver and all sides at once, and compares each side with kube-apiserver.
pub(crate) async fn play(
    script: &Script,
    reference: &Side,
    sides: &[Side],
    copy: &Client,
    variables: &Variables,
) -> Result<Vec<Found>> {
    Box::pin(perform(script, reference, sides, copy, variables))
        .await
        .with_context(|| format!("script {:?}", script.name))
}

async fn perform(
    script: &Script,
    reference: &Side,
    sides: &[Side],
    copy: &Client,
    variables: &Variables,
) -> Result<Vec<Found>> {
    let apiserver = &reference.client;
    let mut variables = variables.clone();
    variables.set("ns", objects::create_namespace(apiserver).await?);
    let everybody: Vec<&Side> = std::iter::once(reference).chain(sides).collect();
    let mut last_change = 0;
    let mut open: Vec<(&Watch, Vec<Result<Watching>>)> = Vec::new();
    for step in &script.steps {
        let changed = match step {
            Step::Create(collection, object) => {
                let mut object = object.clone();
                object["metadata"]["labels"]["run"] = variables.get("ns").into();
                objects::create(apiserver, &variables.fill(collection)?, &object).await?
            }
            Step::Merge(path, patch) => objects::merge(apiserver, &variables.fill(path)?, patch).await?,
            Step::Delete(path) => objects::delete(apiserver, &variables.fill(path)?).await?,
            Step::Note(name) => {
                variables.set(name, last_change.to_string());
                continue;
            }
            Step::Settle(collection) => {
                follow(apiserver, copy, &variables.fill(collection)?).await?;
                continue;
            }
            Step::Watch(watch) => {
                let mut request = Request::get(variables.fill(&watch.path)?);
                for (name, value) in &watch.headers {
                    request = request.header(name, value);
                }
                let opening = everybody.iter().map(|side| side.watch(request.clone()));
                open.push((watch, join_all(opening).await));
                continue;
            }
        };
        last_change = version_of(&changed).parse().unwrap_or(last_change);
    }
    let reading = open.into_iter().map(|(watch, watchings)| async move {
        let timeout = timeout_of(&watch.path);
        (watch, join_all(watchings.into_iter().map(|watching| read(watch, watching, last_change, timeout))).await)
    });
    let mut found = Vec::new();
    for (watch, outcomes) in join_all(reading).await {
        let (expected, actual) = outcomes.split_first().context("there must be a reference")?;
        let broken = || format!("{}: kube-apiserver itself: {}", watch.name, expected["broken"]);
        anyhow::ensure!(expected["broken"].is_null(), broken());
        for (side, outcome) in sides.iter().zip(actual) {
            let name = format!("{}: {}", script.name, watch.name);
            let (mut expected, mut outcome) = (expected.clone(), outcome.clone());
            without_events_never_sent(&expected, &mut outcome);
            // kube-apiserver drops a bookmark now and then, which it may: its silence proves nothing.
            if side.may_drop_bookmarks || expected["other bookmarks"] == json!([]) {
                for outcome in [&mut expected, &mut outcome].into_iter().filter_map(Value::as_object_mut) {
                    outcome.remove("other bookmarks");
                }
            }
            found.push(Found { side: side.name, watch: name, differences: differences(&expected, &outcome) });
        }
    }
    Ok(found)
}

async fn read(watch: &Watch, watching: Result<Watching>, last_change: u64, timeout: Option<u64>) -> Value {
    let recorded = async {
        let mut watching = watching?;
        let until = match watch.reach {
            Reach::LastChange => Until::Version(last_change),
            Reach::End => Until::End,
            Reach::Lines(count) => Until::Lines(count),
        };
        watching.read(until).await?;
        watching.close()
    };
    match recorded.await {
        Ok(recording) => outcome::of_recording(&recording, timeout.filter(|_| watch.reach == Reach::End)),
        Err(error) => json!({ "broken": format!("{error:#}") }),
    }
}

/// The positive `timeoutSeconds` of a path.
fn timeout_of(path: &str) -> Option<u64> {
    let (_, value) = path.split_once("timeoutSeconds=")?;
    value.split('&').next()?.parse().ok().filter(|&seconds| seconds > 0)
}
