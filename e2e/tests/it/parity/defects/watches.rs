//! Defects of watches.

use std::collections::HashMap;

use e2e::http::Request;
use http::StatusCode;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderValue, WARNING};
use serde_json::{Value, json};

use super::super::side::event_version;

use super::{Alteration, Defect};

pub(super) static DEFECTS: [Defect; 34] = [
    Defect {
        name: "end bookmark missing",
        alteration: Alteration::Watch(|_, recording| {
            recording
                .events
                .retain(|event| event["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"] != "true");
        }),
    },
    Defect {
        name: "bookmark without a version",
        alteration: Alteration::Watch(|_, recording| {
            for event in recording.events.iter_mut().filter(|event| event["type"] == "BOOKMARK") {
                event["object"]["metadata"]["resourceVersion"] = "".into();
            }
        }),
    },
    Defect {
        name: "DELETED with the old version",
        alteration: Alteration::Watch(|_, recording| {
            let mut versions: HashMap<String, Value> = HashMap::new();
            for event in &mut recording.events {
                let metadata = &event["object"]["metadata"];
                let name = metadata["name"].as_str().unwrap_or_default().to_owned();
                let version = metadata["resourceVersion"].clone();
                if event["type"] == "DELETED"
                    && let Some(old) = versions.get(&name)
                {
                    event["object"]["metadata"]["resourceVersion"] = old.clone();
                }
                versions.insert(name, version);
            }
        }),
    },
    Defect {
        name: "DELETED with the new object",
        alteration: Alteration::Watch(|_, recording| {
            // The new object is not in the stream; it differs from the old one in what was selected.
            for event in recording.events.iter_mut().filter(|event| event["type"] == "DELETED") {
                if event["object"]["spec"]["color"].is_string() {
                    event["object"]["spec"]["color"] = "green".into();
                }
            }
        }),
    },
    Defect {
        name: "MODIFIED instead of ADDED",
        alteration: Alteration::Watch(|request, recording| {
            if request.path.contains("Selector=") {
                for event in recording.events.iter_mut().filter(|event| event["type"] == "ADDED") {
                    event["type"] = "MODIFIED".into();
                }
            }
        }),
    },
    Defect {
        name: "leaving a selection unsaid",
        alteration: Alteration::Watch(|request, recording| {
            if request.path.contains("Selector=") {
                recording.events.retain(|event| event["type"] != "DELETED");
            }
        }),
    },
    Defect {
        name: "initial events in the order of versions",
        alteration: Alteration::Watch(|_, recording| {
            let initial = recording.events.iter().take_while(|event| event["type"] == "ADDED").count();
            recording.events[..initial].sort_by_key(|event| {
                event["object"]["metadata"]["resourceVersion"].as_str().and_then(|version| version.parse::<u64>().ok())
            });
        }),
    },
    Defect {
        name: "410 as HTTP status",
        alteration: Alteration::Watch(|_, recording| {
            if recording.events.first().is_some_and(|event| event["object"]["code"] == 410) {
                recording.status = StatusCode::GONE;
                recording.events = recording.events.iter().map(|event| event["object"].clone()).collect();
            }
        }),
    },
    Defect {
        name: "ERROR event missing",
        alteration: Alteration::Watch(|_, recording| {
            recording.events.retain(|event| event["type"] != "ERROR");
        }),
    },
    Defect {
        name: "watch with another content type",
        alteration: Alteration::Watch(|_, recording| {
            recording.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json;stream=watch"));
        }),
    },
    Defect {
        name: "two events in the wrong order",
        alteration: Alteration::Watch(|_, recording| {
            let swapped =
                |pair: &[Value]| pair.iter().all(|event| event_version(event) > 0 && event["type"] != "ADDED");
            if let Some(index) = recording.events.windows(2).position(swapped) {
                recording.events.swap(index, index + 1);
            }
        }),
    },
    Defect {
        name: "an event reported twice",
        alteration: Alteration::Watch(|_, recording| {
            if let Some(index) = recording.events.iter().rposition(|event| event["type"] == "MODIFIED") {
                recording.events.insert(index, recording.events[index].clone());
            }
        }),
    },
    Defect {
        name: "first event of a resumed watch lost",
        alteration: Alteration::Watch(|request, recording| {
            if is_resumed(request) && !recording.events.is_empty() {
                recording.events.remove(0);
            }
        }),
    },
    Defect {
        name: "ADDED instead of MODIFIED on a resumed watch",
        alteration: Alteration::Watch(|request, recording| {
            if is_resumed(request)
                && let Some(event) = recording.events.iter_mut().find(|event| event["type"] == "MODIFIED")
            {
                event["type"] = "ADDED".into();
            }
        }),
    },
    Defect {
        name: "MODIFIED instead of DELETED for what leaves a selection",
        alteration: Alteration::Watch(|request, recording| {
            if request.path.contains("Selector=") {
                for event in recording.events.iter_mut().filter(|event| event["type"] == "DELETED") {
                    event["type"] = "MODIFIED".into();
                }
            }
        }),
    },
    Defect {
        name: "bookmark ahead of the next event",
        alteration: Alteration::Watch(|_, recording| {
            for index in 0..recording.events.len().saturating_sub(1) {
                let next = recording.events[index + 1]["object"]["metadata"]["resourceVersion"].clone();
                if recording.events[index]["type"] == "BOOKMARK" && next.is_string() {
                    recording.events[index]["object"]["metadata"]["resourceVersion"] = next;
                }
            }
        }),
    },
    Defect {
        name: "bookmark behind what was reported",
        alteration: Alteration::Watch(|_, recording| {
            for event in recording.events.iter_mut().filter(|event| event["type"] == "BOOKMARK") {
                event["object"]["metadata"]["resourceVersion"] = "3".into();
            }
        }),
    },
    Defect {
        name: "end bookmark twice",
        alteration: Alteration::Watch(|_, recording| {
            if let Some(index) = recording.events.iter().position(ends_initial_events) {
                recording.events.insert(index, recording.events[index].clone());
            }
        }),
    },
    Defect {
        name: "end bookmark without its annotation",
        alteration: Alteration::Watch(|_, recording| {
            for event in recording.events.iter_mut().filter(|event| ends_initial_events(event)) {
                if let Some(metadata) = event["object"]["metadata"].as_object_mut() {
                    metadata.remove("annotations");
                }
            }
        }),
    },
    Defect {
        name: "end bookmark before the last initial event",
        alteration: Alteration::Watch(|_, recording| {
            if let Some(index) = recording.events.iter().position(ends_initial_events).filter(|index| *index > 0) {
                recording.events.swap(index - 1, index);
            }
        }),
    },
    Defect {
        name: "bookmark before the end of a watch missing",
        alteration: Alteration::Watch(|_, recording| {
            recording.events.retain(|event| event["type"] != "BOOKMARK" || ends_initial_events(event));
        }),
    },
    Defect {
        name: "initial events in reverse",
        alteration: Alteration::Watch(|_, recording| {
            let initial = recording.events.iter().take_while(|event| event["type"] == "ADDED").count();
            recording.events[..initial].reverse();
        }),
    },
    Defect {
        name: "an event of another namespace",
        alteration: Alteration::Watch(|request, recording| {
            if request.path.contains("/namespaces/")
                && let Some(event) = recording.events.iter().find(|event| event["type"] == "ADDED")
            {
                let mut event = event.clone();
                event["object"]["metadata"]["namespace"] = "another".into();
                recording.events.insert(0, event);
            }
        }),
    },
    Defect {
        name: "columns in every event",
        alteration: Alteration::Watch(|_, recording| {
            let columns = recording.events.first().map(|event| event["object"]["columnDefinitions"].clone());
            if let Some(columns) = columns.filter(Value::is_array) {
                for event in recording.events.iter_mut().filter(|event| event["object"]["kind"] == "Table") {
                    event["object"]["columnDefinitions"] = columns.clone();
                }
            }
        }),
    },
    Defect {
        name: "columns in no event",
        alteration: Alteration::Watch(|_, recording| {
            for event in &mut recording.events {
                if let Some(table) = event["object"].as_object_mut() {
                    table.remove("columnDefinitions");
                }
            }
        }),
    },
    Defect {
        name: "first cell of a Table event changed",
        alteration: Alteration::Watch(|_, recording| {
            for event in recording.events.iter_mut().filter(|event| event["type"] == "MODIFIED") {
                if let Some(cell) = event.pointer_mut("/object/rows/0/cells/0") {
                    *cell = "x-".into();
                }
            }
        }),
    },
    Defect {
        name: "rows of DELETED in a Table missing",
        alteration: Alteration::Watch(|_, recording| {
            for event in recording.events.iter_mut().filter(|event| event["type"] == "DELETED") {
                if let Some(rows) = event.pointer_mut("/object/rows").and_then(Value::as_array_mut) {
                    rows.clear();
                }
            }
        }),
    },
    Defect {
        name: "PartialObjectMetadata events with spec",
        alteration: Alteration::Watch(|_, recording| {
            for event in recording.events.iter_mut().filter(|event| event["object"]["kind"] == "PartialObjectMetadata")
            {
                event["object"]["spec"] = json!({});
            }
        }),
    },
    Defect {
        name: "kind and apiVersion of events missing",
        alteration: Alteration::Watch(|_, recording| {
            for object in recording.events.iter_mut().filter_map(|event| event["object"].as_object_mut()) {
                object.remove("kind");
                object.remove("apiVersion");
            }
        }),
    },
    Defect {
        name: "too old without the reason Expired",
        alteration: Alteration::Watch(|_, recording| {
            for event in recording.events.iter_mut().filter(|event| event["type"] == "ERROR") {
                if let Some(status) = event["object"].as_object_mut() {
                    status.remove("reason");
                }
            }
        }),
    },
    Defect {
        name: "a watch that ends by itself",
        alteration: Alteration::Watch(|request, recording| {
            recording.ended |= !request.path.contains("timeoutSeconds");
        }),
    },
    Defect {
        name: "a watch that ends before its time",
        alteration: Alteration::Watch(|_, recording| {
            recording.lasted /= 2;
        }),
    },
    Defect {
        name: "watch not compressed",
        alteration: Alteration::Watch(|_, recording| {
            recording.headers.remove(CONTENT_ENCODING);
        }),
    },
    Defect {
        name: "warning of a deprecated version missing on watches",
        alteration: Alteration::Watch(|_, recording| {
            recording.headers.remove(WARNING);
        }),
    },
];

fn ends_initial_events(event: &Value) -> bool {
    event.to_string().contains("k8s.io/initial-events-end")
}

/// Whether a watch goes on from a version.
fn is_resumed(request: &Request) -> bool {
    let version = request.path.split_once("resourceVersion=").map(|(_, version)| version);
    version.is_some_and(|version| version.starts_with(|digit: char| digit.is_ascii_digit() && digit != '0'))
        && !request.path.contains("sendInitialEvents")
}
