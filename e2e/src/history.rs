//! The true history of a resource, and what a selection makes of it.
//!
//! It is read from etcd itself, past kube-apiserver and fieldcache: one watch of the resource's keys, begun before
//! anything is written. No restart of kube-apiserver affects that watch, and it continues after a restart of etcd. (A
//! watch on kube-apiserver cannot be resumed over its restart. Its watch cache begins again with the list of its start,
//! and any older version gets the error "too old".) An etcd revision is the resourceVersion, which makes the two
//! comparable. Objects are JSON in etcd: custom ones always, built-in ones because the test starts kube-apiserver with
//! `--storage-media-type=application/json`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::Method;
use serde_json::{Value, json};
use tokio::task::{JoinHandle, spawn_local};

use crate::eventually::eventually;
use crate::http::{Client, Endpoint, Lines, Next, Request};
use crate::selection::Selection;

/// How long etcd may be away.
const AWAY: Duration = Duration::from_secs(120);

/// One change of an object.
#[derive(Debug, Clone)]
pub struct Change {
    /// The resourceVersion that it brought about.
    pub version: u64,
    /// `namespace/name`.
    pub key: String,
    /// The object, without its resourceVersion; `None` when it was deleted.
    pub after: Option<Value>,
    /// Whether it is a removal within a gap, which carries the version before: a list of that version does not show it yet.
    pub fills_gap: bool,
}

/// What an event says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It was not selected before.
    Added,
    /// It was, and is.
    Modified,
    /// It was, and is not any more.
    Deleted,
}

/// What a change is to a selection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transition {
    /// What the event says.
    pub kind: Kind,
    /// `namespace/name`.
    pub key: String,
    /// Of the change.
    pub version: u64,
    /// Of the object.
    pub uid: String,
    /// As the change's.
    pub fills_gap: bool,
}

/// Versions of which a cache can only know the outcome, because it had to relist: the last one before and the last one
/// within.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// The last version before.
    pub before: u64,
    /// The last version within.
    pub end: u64,
}

/// A resource's changes as they come.
#[derive(Debug)]
pub struct Recorder {
    changes: Arc<Mutex<Vec<Change>>>,
    task: JoinHandle<Result<()>>,
}

impl Recorder {
    /// Records from now on what becomes of the keys below `prefix`, such as `/registry/pods/`, until it is dropped. There are none yet. On
    /// a [`tokio::task::LocalSet`].
    ///
    /// # Errors
    /// When etcd does not take the watch.
    pub async fn start(etcd: &Endpoint, prefix: &str) -> Result<Recorder> {
        Recorder::start_with(etcd, prefix, |_| {}).await
    }

    /// The same, keeping of each object only what `trim` leaves: for long recordings.
    ///
    /// # Errors
    /// When etcd does not take the watch.
    pub async fn start_with(etcd: &Endpoint, prefix: &str, trim: fn(&mut Value)) -> Result<Recorder> {
        ensure!(prefix.ends_with('/'), "{prefix} must end with a slash");
        let client = etcd.client();
        let (mut lines, now) = open(&client, prefix, 0).await?;
        let changes = Arc::new(Mutex::new(Vec::new()));
        let (written, prefix) = (changes.clone(), prefix.to_owned());
        let task = spawn_local(async move {
            loop {
                take(&mut lines, &prefix, &written, trim).await?;
                // etcd is away. What it had committed before it is there after it.
                let next = locked(&written).last().map_or(now, |change| change.version) + 1;
                (lines, _) = eventually("etcd answers", AWAY, async || open(&client, &prefix, next).await).await?;
            }
        });
        Ok(Recorder { changes, task })
    }

    /// How many changes there were so far, and the version of the last.
    ///
    /// # Errors
    /// When the recording has ended.
    pub fn progress(&self) -> Result<(usize, u64)> {
        ensure!(!self.task.is_finished(), "the history is not recorded any more");
        let changes = locked(&self.changes);
        Ok((changes.len(), changes.last().map_or(0, |change| change.version)))
    }

    /// Waits until these objects, by key and version, are in it.
    ///
    /// # Errors
    /// When that takes longer than `deadline`, or the recording has ended.
    pub async fn reaches(&self, objects: &[(String, String)], deadline: Duration) -> Result<()> {
        let newest = objects.iter().filter_map(|(_, version)| version.parse::<u64>().ok()).max().unwrap_or(0);
        eventually("the history is complete", deadline, async || {
            let reached = self.progress()?.1;
            ensure!(reached >= newest, "it is at {reached}, not at {newest}");
            Ok(())
        })
        .await
    }

    /// All of them so far.
    ///
    /// # Errors
    /// When the recording has ended.
    pub fn changes(&self) -> Result<Vec<Change>> {
        ensure!(!self.task.is_finished(), "the history is not recorded any more");
        Ok(locked(&self.changes).clone())
    }

    /// All of them.
    ///
    /// # Errors
    /// When the recording ended before, with the reason.
    pub async fn finish(mut self) -> Result<Vec<Change>> {
        if self.task.is_finished() {
            return Err((&mut self.task).await?.err().unwrap_or_else(|| anyhow!("the recording ended")));
        }
        self.task.abort();
        Ok(std::mem::take(&mut *locked(&self.changes)))
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A poisoned lock is no obstacle: changes are only ever added.
fn locked(changes: &Mutex<Vec<Change>>) -> std::sync::MutexGuard<'_, Vec<Change>> {
    changes.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A watch of the keys below `prefix` from a revision on, or from now on for zero; and the revision of now.
async fn open(client: &Client, prefix: &str, revision: u64) -> Result<(Lines, u64)> {
    // The byte after the slash ends the range.
    let end = format!("{}0", prefix.trim_end_matches('/'));
    let (start, end) = (BASE64_STANDARD.encode(prefix), BASE64_STANDARD.encode(end));
    let body = json!({ "create_request": { "key": start, "range_end": end, "start_revision": revision.to_string() } });
    let mut lines = client.open(Request::new(Method::POST, "/v3/watch").json(&body)).await?;
    let created = lines.event(Duration::from_secs(30)).await?;
    ensure!(created["result"]["created"] == true, "etcd answered {created}");
    let now = created["result"]["header"]["revision"].as_str().context("a revision")?.parse()?;
    Ok((lines, now))
}

/// Writes down what a watch says, up to its end; an error is one that no other watch would mend.
async fn take(lines: &mut Lines, prefix: &str, changes: &Mutex<Vec<Change>>, trim: fn(&mut Value)) -> Result<()> {
    loop {
        match lines.next(Duration::from_secs(3600)).await {
            Ok(Next::Line(line)) => {
                // A line that was cut off with the connection is reported again.
                let Ok(answer) = serde_json::from_slice(&line) else { return Ok(()) };
                // How etcd says that it is going.
                if Value::get(&answer, "error").is_some() {
                    return Ok(());
                }
                let mut read = read(&answer, prefix)?;
                read.iter_mut().filter_map(|change| change.after.as_mut()).for_each(trim);
                locked(changes).extend(read);
            }
            Ok(Next::Nothing) => {}
            Ok(Next::End) | Err(_) => return Ok(()),
        }
    }
}

/// The changes in one answer of etcd's watch.
fn read(answer: &Value, prefix: &str) -> Result<Vec<Change>> {
    let result = &answer["result"];
    ensure!(result.is_object() && result["canceled"] != true, "etcd answered {answer}");
    let events = result["events"].as_array().map_or(&[][..], Vec::as_slice);
    let bytes = |value: &Value| Ok::<_, anyhow::Error>(BASE64_STANDARD.decode(value.as_str().unwrap_or_default())?);
    let change = |event: &Value| {
        let pair = &event["kv"];
        let key = String::from_utf8(bytes(&pair["key"])?)?;
        let key = key.strip_prefix(prefix).with_context(|| format!("{key} is not below {prefix}"))?.to_owned();
        let version = pair["mod_revision"].as_str().context("an event without a revision")?.parse()?;
        let after = match event["type"].as_str() {
            Some("DELETE") => None,
            _ => Some(serde_json::from_slice(&bytes(&pair["value"])?).with_context(|| format!("{key} is not JSON"))?),
        };
        Ok(Change { version, key, after, fills_gap: false })
    };
    events.iter().map(change).collect()
}

/// The history as a cache with these gaps, the earliest first, can report it. A change within a gap is reported once,
/// in its last state and version. A deletion within it goes first, with the version before.
#[must_use]
pub fn visible_changes(changes: &[Change], gaps: &[Gap]) -> Vec<Change> {
    gaps.iter().fold(changes.to_vec(), |changes, gap| with_gap(&changes, *gap))
}

fn with_gap(changes: &[Change], gap: Gap) -> Vec<Change> {
    let is_within = |change: &&Change| gap.before < change.version && change.version <= gap.end;
    let mut outcome: BTreeMap<&str, &Change> = BTreeMap::new();
    for change in changes.iter().filter(is_within) {
        outcome.insert(&change.key, change);
    }
    let existed: BTreeMap<&str, bool> = changes
        .iter()
        .filter(|change| change.version <= gap.before)
        .map(|change| (change.key.as_str(), change.after.is_some()))
        .collect();
    let gone = outcome.values().filter(|change| change.after.is_none());
    let gone = gone.filter(|change| existed.get(change.key.as_str()) == Some(&true));
    let gone = gone.map(|change| Change { version: gap.before, fills_gap: true, ..(*change).clone() });
    let mut changed: Vec<Change> =
        outcome.values().filter(|change| change.after.is_some()).map(|change| (*change).clone()).collect();
    changed.sort_by_key(|change| change.version);
    let before = changes.iter().filter(|change| change.version <= gap.before).cloned();
    let after = changes.iter().filter(|change| change.version > gap.end).cloned();
    before.chain(gone).chain(changed).chain(after).collect()
}

/// What changes are to a selection: ADDED on entering, MODIFIED on staying, DELETED on leaving, each with the change's version.
#[must_use]
pub fn transitions(changes: &[Change], selection: &Selection) -> Vec<Transition> {
    // The uid of each selected object.
    let mut selected: BTreeMap<&str, String> = BTreeMap::new();
    let mut found = Vec::new();
    for change in changes {
        let is_selected = change.after.as_ref().filter(|object| selection.selects(object));
        let was = match is_selected {
            Some(object) => {
                let uid = object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
                selected.insert(&change.key, uid)
            }
            None => selected.remove(change.key.as_str()),
        };
        let (kind, uid) = match (was, is_selected) {
            (None, None) => continue,
            (None, Some(_)) => (Kind::Added, selected[change.key.as_str()].clone()),
            (Some(_), Some(_)) => (Kind::Modified, selected[change.key.as_str()].clone()),
            (Some(uid), None) => (Kind::Deleted, uid),
        };
        let Change { version, ref key, fills_gap, .. } = *change;
        found.push(Transition { kind, key: key.clone(), version, uid, fills_gap });
    }
    found
}
