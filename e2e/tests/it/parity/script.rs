//! One watch script: changes made through kube-apiserver, watches opened meanwhile on every side, and the events compared.
//!
//! There is no waiting for luck. A watch is read until it has seen a change of its own, or the script's last change.
//! Every script makes that visible in each of its open watches. It also ends when the server ends it, or after as many
//! lines as the script says. What should not have come would have come before. What was sent is kept, so that it can be
//! compared again ([`Played`]).

use std::sync::OnceLock;

use anyhow::{Context, Result};
use e2e::compare::{Difference, differences};
use e2e::http::{Client, Request};
use e2e::objects;
use futures::future::{join, join_all};
use serde_json::{Value, json};

use super::other_versions::{under_test, without_events_never_sent};
use super::outcome;
use super::side::{Recording, Side, Until, Watching, event_version};
use super::stage::{Variables, follow, version_of};
use super::tumult;

/// When a watch of a script is read to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reach {
    /// The script's last change.
    LastChange,
    /// The change that was noted under this name.
    Noted(String),
    /// The server ends it.
    End,
    /// The server ends it, at a moment at which it is unknown what it has sent.
    SomeEnd,
    /// So many lines.
    Lines(usize),
}

/// One step.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// Creates the namespace `{ns}` with this suffix.
    Namespace(&'static str),
    /// Creates an object in a collection; it gets the label `run` with the script's namespace. Its name is a template.
    Create(String, Value),
    /// Merges a patch into an object.
    Merge(String, Value),
    /// Deletes an object or a selected collection.
    Delete(String),
    /// Remembers the version of the last change under a name.
    Note(String),
    /// Waits until both servers' stores of a collection have everything written so far.
    Settle(String),
    /// Opens a watch on every side.
    Watch(Watch),
    /// Makes changes one after the other and opens watches at the same time.
    Tumult(Vec<Step>, Vec<Watch>),
}

/// A watch of a script.
#[derive(Debug, Clone)]
pub(crate) struct Watch {
    pub(crate) name: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(&'static str, &'static str)>,
    pub(crate) reach: Reach,
}

/// A script; `{ns}` in its paths is a namespace of its own.
#[derive(Debug, Clone)]
pub(crate) struct Script {
    pub(crate) name: String,
    pub(crate) steps: Vec<Step>,
}

/// What one case or watch found on one side.
pub(crate) struct Found {
    pub(crate) side: &'static str,
    pub(crate) watch: String,
    pub(crate) differences: Vec<Difference>,
    /// What helps to understand them.
    pub(crate) context: String,
}

/// A recorded watch; otherwise why there is none.
pub(crate) type Recorded = Result<Recording, String>;

/// What a watch sent on every side.
pub(crate) struct Played {
    /// Of the script and the watch.
    pub(crate) name: String,
    pub(crate) request: Request,
    /// By the names of the sides.
    pub(crate) sides: Vec<(&'static str, Recorded)>,
    reference: Recording,
    /// How long it was to last, in seconds, if it was read to its end.
    timeout: Option<u64>,
    /// Whether it was opened in the middle of changes: then what is initial and what is a change differs.
    amid_changes: bool,
    /// Whether what it reported is left to chance.
    is_cut: bool,
    expected: OnceLock<Value>,
}

impl Played {
    /// What the side of this name sent.
    pub(crate) fn by(&self, name: &str) -> Option<&Recorded> {
        self.sides.iter().find(|(side, _)| *side == name).map(|(_, recorded)| recorded)
    }

    /// What a recording of `side` has otherwise than that of kube-apiserver.
    pub(crate) fn judge(&self, side: &Side, recorded: &Recorded) -> Vec<Difference> {
        let recording = match recorded {
            Ok(recording) => recording,
            Err(problem) => return vec![difference(".broken", json!(problem))],
        };
        // A handshake has other headers.
        let with_headers =
            recording.is_upgraded.then(|| Recording { headers: self.reference.headers.clone(), ..recording.clone() });
        let recording = with_headers.as_ref().unwrap_or(recording);
        // Beside another version a watch may be refused that is not meant to be.
        if self.amid_changes && self.reference.status.is_success() {
            if tumult::start(&self.reference) == u64::MAX && !under_test().is_usual() {
                return differences(&tumult::state(&self.reference), &tumult::state(recording));
            }
            let from = [&self.reference, recording].map(tumult::start).into_iter().max().unwrap_or_default();
            return differences(&tumult::of_recording(&self.reference, from), &tumult::of_recording(recording, from));
        }
        let expected = self.expected.get_or_init(|| self.outcome(&self.reference));
        let mut actual = self.outcome(recording);
        without_events_never_sent(expected, &mut actual);
        // kube-apiserver drops a bookmark now and then, which it may: its silence shows nothing.
        let mut found = if side.is_reference || expected["other bookmarks"] == json!([]) {
            let mut expected = expected.clone();
            for outcome in [&mut expected, &mut actual].into_iter().filter_map(Value::as_object_mut) {
                outcome.remove("other bookmarks");
            }
            differences(&expected, &actual)
        } else {
            differences(expected, &actual)
        };
        found.extend(broken_promise(recording));
        // The outcome is without these, since kube-apiserver's are a race; ours come once.
        let again = |event: &Value| event["object"]["columnDefinitions"].is_array();
        if !side.is_reference
            && let Some(index) = recording.events.iter().skip(1).position(again)
        {
            found.push(difference(&format!(".events[{}].object.columnDefinitions", index + 1), json!("again")));
        }
        found
    }

    fn outcome(&self, recording: &Recording) -> Value {
        let mut outcome = outcome::of_recording(recording, self.timeout);
        if self.is_cut
            && let Some(members) = outcome.as_object_mut()
        {
            members.remove("events");
        }
        outcome
    }

    /// Both sequences in short, around the first place where they part.
    pub(crate) fn in_short(&self, recorded: &Recorded) -> String {
        /// Events before and after.
        const AROUND: usize = 4;
        let Ok(recording) = recorded else { return String::new() };
        let [expected, actual] =
            [&self.reference, recording].map(|side| side.events.iter().map(short).collect::<Vec<_>>());
        let parted = expected.iter().zip(&actual).take_while(|(expected, actual)| expected == actual).count();
        let around = |events: &[String]| {
            let shown = &events[parted.saturating_sub(AROUND).min(events.len())..(parted + AROUND).min(events.len())];
            shown.join(", ")
        };
        format!(
            "GET {}\n    of {} events, around {parted}: {}\n    of {} events, around {parted}: {}",
            self.request.path,
            expected.len(),
            around(&expected),
            actual.len(),
            around(&actual)
        )
    }
}

/// An event that is not newer than a bookmark before it, which promised that everything up to its version had been sent.
fn broken_promise(recording: &Recording) -> Option<Difference> {
    let mut promised = 0;
    for (index, event) in recording.events.iter().enumerate() {
        let version = &event["object"]["metadata"]["resourceVersion"];
        if event["type"] == "BOOKMARK" {
            promised = version.as_str().and_then(|text| text.parse().ok()).unwrap_or(promised);
        } else if event_version(event) > 0 && event_version(event) <= promised {
            return Some(difference(
                &format!(".events[{index}]"),
                json!(format!("not newer than the bookmark of {promised}")),
            ));
        }
    }
    None
}

fn difference(path: &str, right: Value) -> Difference {
    Difference { path: path.to_owned(), left: None, right: Some(right) }
}

/// Type, key and version of an event; a bookmark's version is not determined.
fn short(event: &Value) -> String {
    let object = &event["object"];
    let row = &object["rows"][0]["object"];
    let metadata = if row.is_object() { &row["metadata"] } else { &object["metadata"] };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if event["type"] == "BOOKMARK" {
        return text(&event["type"]);
    }
    let key = format!("{}/{}", text(&metadata["namespace"]), text(&metadata["name"]));
    format!("{} {key}@{}", text(&event["type"]), text(&metadata["resourceVersion"]))
}

/// Plays a script against kube-apiserver and all sides at once.
pub(crate) async fn play(
    script: &Script,
    reference: &Side,
    sides: &[Side],
    copies: &[Client],
    variables: &Variables,
) -> Result<Vec<Played>> {
    Box::pin(perform(script, reference, sides, copies, variables))
        .await
        .with_context(|| format!("script {:?}", script.name))
}

/// A watch that has been requested on all sides.
struct Open<'a> {
    watch: &'a Watch,
    request: Request,
    watchings: Vec<Result<Watching>>,
    amid_changes: bool,
}

async fn perform(
    script: &Script,
    reference: &Side,
    sides: &[Side],
    copies: &[Client],
    variables: &Variables,
) -> Result<Vec<Played>> {
    let apiserver = &reference.client;
    let mut variables = variables.clone();
    variables.set("ns", objects::create_namespace(apiserver).await?);
    let everybody: Vec<&Side> = std::iter::once(reference).chain(sides).collect();
    let mut last_change = 0;
    let mut open: Vec<Open<'_>> = Vec::new();
    for step in &script.steps {
        match step {
            Step::Note(name) => variables.set(name, last_change.to_string()),
            Step::Settle(collection) => follow(apiserver, copies, &variables.fill(collection)?).await?,
            Step::Watch(watch) => open.push(watch.open(&everybody, &variables, false).await?),
            Step::Tumult(changes, watches) => {
                let opening = watches.iter().map(|watch| watch.open(&everybody, &variables, true));
                let (changed, opened) = join(make_all(changes, apiserver, &variables), join_all(opening)).await;
                last_change = last_change.max(changed?);
                for opened in opened {
                    open.push(opened?);
                }
            }
            change => last_change = last_change.max(make(change, apiserver, &variables).await?),
        }
    }
    let variables = &variables;
    let reading = open.into_iter().map(|open| async move {
        let Open { watch, request, watchings, amid_changes } = open;
        let until = match &watch.reach {
            Reach::LastChange => Until::Version(last_change),
            Reach::Noted(name) => Until::Version(variables.get(name).parse().context("an unknown note")?),
            Reach::End | Reach::SomeEnd => Until::End,
            Reach::Lines(count) => Until::Lines(*count),
        };
        let recorded = join_all(watchings.into_iter().map(|watching| read(watching, until))).await;
        let name = format!("{}: {}", script.name, watch.name);
        let mut recorded = recorded.into_iter();
        let reference = recorded.next().context("there must be a reference")?;
        let reference = reference.map_err(|problem| anyhow::anyhow!("{name}: kube-apiserver itself: {problem}"))?;
        let timeout = timeout_of(&watch.path).filter(|_| watch.reach == Reach::End);
        let names = sides.iter().map(|side| side.name);
        let (sides, expected) = (names.zip(recorded).collect(), OnceLock::new());
        let is_cut = watch.reach == Reach::SomeEnd;
        Ok(Played { name, request, sides, reference, timeout, amid_changes, is_cut, expected })
    });
    join_all(reading).await.into_iter().collect()
}

/// Makes changes one after the other. Returns the highest version.
async fn make_all(changes: &[Step], apiserver: &Client, variables: &Variables) -> Result<u64> {
    let mut last_change = 0;
    for change in changes {
        last_change = last_change.max(make(change, apiserver, variables).await?);
    }
    Ok(last_change)
}

/// Makes a change; returns its version, or 0 when the response does not have it.
async fn make(change: &Step, apiserver: &Client, variables: &Variables) -> Result<u64> {
    let changed = match change {
        Step::Namespace(suffix) => {
            let name = format!("{}{suffix}", variables.get("ns"));
            let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
            objects::create(apiserver, "/api/v1/namespaces", &namespace).await?
        }
        Step::Create(collection, object) => {
            let mut object = object.clone();
            object["metadata"]["labels"]["run"] = variables.get("ns").into();
            if let Some(name) = object["metadata"]["name"].as_str() {
                object["metadata"]["name"] = variables.fill(name)?.into();
            }
            objects::create(apiserver, &variables.fill(collection)?, &object).await?
        }
        Step::Merge(path, patch) => objects::merge(apiserver, &variables.fill(path)?, patch).await?,
        Step::Delete(path) => objects::delete(apiserver, &variables.fill(path)?).await?,
        Step::Note(_) | Step::Settle(_) | Step::Watch(_) | Step::Tumult(..) => anyhow::bail!("no change: {change:?}"),
    };
    Ok(version_of(&changed).parse().unwrap_or(0))
}

impl Watch {
    async fn open(&self, sides: &[&Side], variables: &Variables, amid_changes: bool) -> Result<Open<'_>> {
        let mut request = Request::get(variables.fill(&self.path)?);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let opening = sides.iter().map(|side| side.watch(request.clone()));
        Ok(Open { watch: self, watchings: join_all(opening).await, request, amid_changes })
    }
}

async fn read(watching: Result<Watching>, until: Until) -> Recorded {
    let recorded = async {
        let mut watching = watching?;
        watching.read(until).await?;
        watching.close()
    };
    recorded.await.map_err(|error: anyhow::Error| format!("{error:#}"))
}

/// The positive `timeoutSeconds` of a path.
fn timeout_of(path: &str) -> Option<u64> {
    let (_, value) = path.split_once("timeoutSeconds=")?;
    value.split('&').next()?.parse().ok().filter(|&seconds| seconds > 0)
}
