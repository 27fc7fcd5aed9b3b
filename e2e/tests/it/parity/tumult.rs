//! A watch that was opened while its resource changed: which of the changes are already initial events is chance.
//!
//! So two of them are compared from the later of both ends of the initial events: the state there, and every event after it. That the
//! initial events are in the order of keys, and that what follows them is newer, is checked of each alone.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::outcome;
use super::side::{Recording, event_version};

/// The version at which the initial events ended; the highest there is when nothing says so.
pub(crate) fn start(recording: &Recording) -> u64 {
    let ends = |event: &&Value| event["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"] == "true";
    let version =
        recording.events.iter().find(ends).map(|event| event["object"]["metadata"]["resourceVersion"].as_str());
    version.flatten().and_then(|version| version.parse().ok()).unwrap_or(u64::MAX)
}

/// The state at the end alone, where nothing says which events are initial.
pub(crate) fn state(recording: &Recording) -> Value {
    of_recording(recording, u64::MAX)["state"].take()
}

/// The recording as one document: the state at `from`, and the events after it.
pub(crate) fn of_recording(recording: &Recording, from: u64) -> Value {
    let own_start = start(recording);
    let mut state: BTreeMap<String, &Value> = BTreeMap::new();
    let mut later = Vec::new();
    let (mut sorted, mut newer) = (true, true);
    let (mut last_key, mut last_version) = (None, own_start);
    let mut is_initial = true;
    for event in &recording.events {
        if event["type"] == "BOOKMARK" {
            is_initial = false;
            continue;
        }
        let (key, version) = (key_of(event), event_version(event));
        if is_initial {
            sorted &= event["type"] == "ADDED" && last_key < Some(key.clone()) && version <= own_start;
            last_key = Some(key.clone());
        } else {
            newer &= version > last_version;
            last_version = version;
        }
        if version > from {
            later.push(event);
        } else if event["type"] == "DELETED" {
            state.remove(&key);
        } else {
            state.insert(key, &event["object"]);
        }
    }
    json!({
        "status": recording.status.as_u16(),
        "headers": outcome::headers(&recording.headers),
        "end of initial events": own_start != u64::MAX,
        "initial events sorted": sorted,
        "others newer and in order": newer,
        "state": state,
        "events": later,
    })
}

fn key_of(event: &Value) -> String {
    let text = |name: &str| event["object"]["metadata"][name].as_str().unwrap_or_default();
    format!("{}/{}", text("namespace"), text("name"))
}
