//! Defects of watches.

use std::collections::HashMap;

use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderValue};
use serde_json::Value;

use super::{Alteration, Defect};

pub(super) static DEFECTS: [Defect; 10] = [
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
];
