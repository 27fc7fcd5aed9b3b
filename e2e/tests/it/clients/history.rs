//! The true history of a resource, and what a selection makes of it.
//!
//! Read from etcd itself, by a path on which neither kube-apiserver nor fieldcache stands: one watch of the resource's keys from
//! etcd's first revision on, which no restart of kube-apiserver touches. (A watch on kube-apiserver cannot be resumed over its
//! restart: its watch cache begins anew with the list of its start, and everything older is answered "too old".) An etcd revision is
//! the resourceVersion, which makes the two comparable. Objects are JSON in etcd: custom ones always, built-in ones because the test
//! starts kube-apiserver with `--storage-media-type=application/json`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use e2e::http::{Endpoint, Next, Request};
use http::Method;
use serde_json::{Value, json};
use tokio::task::{JoinHandle, spawn_local};

use super::selection::Selection;

/// One change of an object.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    /// The resourceVersion that it brought about.
    pub(crate) version: u64,
    /// `namespace/name`.
    pub(crate) key: String,
    /// The object, without its resourceVersion; `None` when it was deleted.
    pub(crate) after: Option<Value>,
}

/// What an event says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Added,
    Modified,
    Deleted,
}

/// What a change is to a selection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Transition {
    pub(crate) kind: Kind,
    pub(crate) key: String,
    pub(crate) version: u64,
    pub(crate) uid: String,
}

/// Versions of which a cache can only know the outcome, because it had to list its source anew: the last one before and the last
/// one within.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gap {
    pub(crate) before: u64,
    pub(crate) end: u64,
}

/// A resource's changes as they come.
pub(crate) struct Recorder {
    changes: Arc<Mutex<Vec<Change>>>,
    task: JoinHandle<Result<()>>,
}

impl Recorder {
    /// Records the keys below `prefix`, such as `/registry/pods/`.
    pub(crate) async fn start(etcd: &Endpoint, prefix: &str) -> Result<Recorder> {
        let mut end = prefix.to_owned();
        ensure!(end.pop() == Some('/'), "{prefix} must end with a slash");
        // The byte after the slash.
        end.push('0');
        let (start, end) = (BASE64_STANDARD.encode(prefix), BASE64_STANDARD.encode(end));
        let body = json!({ "create_request": { "key": start, "range_end": end, "start_revision": "1" } });
        let mut lines = etcd.client().open(Request::new(Method::POST, "/v3/watch").json(&body)).await?;
        let created = lines.event(Duration::from_secs(30)).await?;
        ensure!(created["result"]["created"] == true, "etcd answered {created}");
        let changes = Arc::new(Mutex::new(Vec::new()));
        let (written, prefix) = (changes.clone(), prefix.to_owned());
        let task = spawn_local(async move {
            loop {
                match lines.next(Duration::from_secs(3600)).await? {
                    Next::Line(line) => {
                        let told = read(&serde_json::from_slice(&line)?, &prefix)?;
                        written.lock().unwrap_or_else(PoisonError::into_inner).extend(told);
                    }
                    Next::End => bail!("etcd ended the watch of {prefix}"),
                    Next::Nothing => {}
                }
            }
        });
        Ok(Recorder { changes, task })
    }

    /// How many changes there were so far, and the version of the last.
    pub(crate) fn progress(&self) -> Result<(usize, u64)> {
        ensure!(!self.task.is_finished(), "the history is not recorded any more");
        let changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        Ok((changes.len(), changes.last().map_or(0, |change| change.version)))
    }

    /// All of them.
    pub(crate) async fn finish(self) -> Result<Vec<Change>> {
        if self.task.is_finished() {
            return Err(self.task.await?.err().unwrap_or_else(|| anyhow!("the recording ended")));
        }
        self.task.abort();
        Ok(std::mem::take(&mut *self.changes.lock().unwrap_or_else(PoisonError::into_inner)))
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
        Ok(Change { version, key, after })
    };
    events.iter().map(change).collect()
}

/// The history as a cache with this gap can tell it: what changed within is told once, in its last state and version; what was
/// deleted within goes first, with the version before.
pub(crate) fn told(changes: &[Change], gap: Option<Gap>) -> Vec<Change> {
    let Some(gap) = gap else { return changes.to_vec() };
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
    let gone = gone.map(|change| Change { version: gap.before, ..(*change).clone() });
    let mut changed: Vec<Change> =
        outcome.values().filter(|change| change.after.is_some()).map(|change| (*change).clone()).collect();
    changed.sort_by_key(|change| change.version);
    let before = changes.iter().filter(|change| change.version <= gap.before).cloned();
    let after = changes.iter().filter(|change| change.version > gap.end).cloned();
    before.chain(gone).chain(changed).chain(after).collect()
}

/// What changes are to a selection: ADDED on entering, MODIFIED on staying, DELETED on leaving, each with the change's version.
pub(crate) fn transitions(changes: &[Change], selection: &Selection) -> Vec<Transition> {
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
        found.push(Transition { kind, key: change.key.clone(), version: change.version, uid });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `(version, key, color)`; no color is a deletion.
    fn history(rows: &[(u64, &str, &str)]) -> Vec<Change> {
        let change = |&(version, key, color): &(u64, &str, &str)| {
            let object = json!({ "metadata": { "uid": key }, "spec": { "color": color } });
            Change { version, key: key.to_owned(), after: (!color.is_empty()).then_some(object) }
        };
        rows.iter().map(change).collect()
    }

    fn shown(found: &[Transition]) -> Vec<(Kind, &str, u64)> {
        found.iter().map(|transition| (transition.kind, transition.key.as_str(), transition.version)).collect()
    }

    #[test]
    fn entering_staying_leaving() {
        let blue = Selection::everything().field("spec.color", "blue");
        let rows = [
            (1, "a", "red"),
            (2, "a", "blue"),
            (3, "b", "blue"),
            (4, "a", "blue"),
            (5, "a", "red"),
            (6, "a", ""),
            (7, "b", ""),
        ];
        let expected = [
            (Kind::Added, "a", 2),
            (Kind::Added, "b", 3),
            (Kind::Modified, "a", 4),
            (Kind::Deleted, "a", 5),
            (Kind::Deleted, "b", 7),
        ];
        assert_eq!(shown(&transitions(&history(&rows), &blue)), expected);
    }

    #[test]
    fn a_gap_shows_only_its_outcome() {
        let everything = Selection::everything();
        let rows = [
            (1, "stays", "red"),
            (2, "changes", "red"),
            (3, "goes", "red"),
            (4, "changes", "blue"),
            (5, "flashes", "red"),
            (6, "comes", "red"),
            (7, "goes", ""),
            (8, "changes", "green"),
            (9, "flashes", ""),
            (10, "stays", "blue"),
        ];
        let changes = told(&history(&rows), Some(Gap { before: 3, end: 9 }));
        let expected = [
            (Kind::Added, "stays", 1),
            (Kind::Added, "changes", 2),
            (Kind::Added, "goes", 3),
            (Kind::Deleted, "goes", 3),
            (Kind::Added, "comes", 6),
            (Kind::Modified, "changes", 8),
            (Kind::Modified, "stays", 10),
        ];
        assert_eq!(shown(&transitions(&changes, &everything)), expected);
        assert_eq!(told(&history(&rows), None).len(), rows.len());
    }
}
