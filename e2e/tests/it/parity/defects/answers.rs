//! Defects of whole answers.

use e2e::http::Answer;
use http::StatusCode;
use http::header::{CONTENT_ENCODING, RETRY_AFTER, WARNING};
use serde_json::{Value, json};

use super::super::outcome::plain_body;
use super::{Alteration, Defect};

pub(super) static DEFECTS: [Defect; 14] = [
    Defect {
        name: "list ordered by the pair of namespace and name",
        alteration: Alteration::Answer(|_, answer| {
            in_list(answer, |list| {
                for members in ["items", "rows"] {
                    if let Some(members) = list[members].as_array_mut() {
                        members.sort_by_key(pair);
                    }
                }
            })
        }),
    },
    Defect {
        name: "last item of a list lost",
        alteration: Alteration::Answer(|_, answer| {
            in_list(answer, |list| {
                if let Some(items) = list["items"].as_array_mut()
                    && items.len() > 5
                {
                    items.pop();
                }
            })
        }),
    },
    Defect {
        name: "continue absent",
        alteration: Alteration::Answer(|_, answer| {
            in_list(answer, |list| {
                if let Some(metadata) = list["metadata"].as_object_mut() {
                    metadata.remove("continue");
                }
            })
        }),
    },
    Defect {
        name: "remainingItemCount wrong",
        alteration: Alteration::Answer(|_, answer| {
            in_list(answer, |list| {
                if let Some(count) = list["metadata"]["remainingItemCount"].as_u64() {
                    list["metadata"]["remainingItemCount"] = (count + 1).into();
                }
            })
        }),
    },
    Defect {
        name: "resourceVersion of lists missing",
        alteration: Alteration::Answer(|_, answer| {
            in_list(answer, |list| {
                if let Some(metadata) = list["metadata"].as_object_mut() {
                    metadata.remove("resourceVersion");
                }
            })
        }),
    },
    Defect {
        name: "kind and apiVersion of items missing",
        alteration: Alteration::Answer(|_, answer| {
            in_list(answer, |list| {
                for item in list["items"].as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
                    item.remove("kind");
                    item.remove("apiVersion");
                }
            })
        }),
    },
    Defect {
        name: "Table cells shifted",
        alteration: Alteration::Answer(|_, answer| {
            in_list(answer, |list| {
                for row in list["rows"].as_array_mut().into_iter().flatten() {
                    if let Some(cells) = row["cells"].as_array_mut()
                        && !cells.is_empty()
                    {
                        cells.rotate_left(1);
                    }
                }
            })
        }),
    },
    Defect {
        name: "PartialObjectMetadata with spec",
        alteration: Alteration::Answer(|_, answer| {
            in_json(answer, |document| {
                let single = document["kind"] == "PartialObjectMetadata";
                let list = document["kind"] == "PartialObjectMetadataList";
                for object in document["items"].as_array_mut().filter(|_| list).into_iter().flatten() {
                    object["spec"] = json!({ "color": "blue" });
                }
                if single {
                    document["spec"] = json!({ "color": "blue" });
                }
            })
        }),
    },
    Defect {
        name: "reason of errors wrong",
        alteration: Alteration::Answer(|_, answer| {
            in_json(answer, |document| {
                if document["reason"] == "BadRequest" {
                    document["reason"] = "Invalid".into();
                }
            })
        }),
    },
    Defect {
        name: "200 instead of 404",
        alteration: Alteration::Answer(|_, answer| {
            if answer.status == StatusCode::NOT_FOUND {
                answer.status = StatusCode::OK;
            }
        }),
    },
    Defect {
        name: "gzip missing",
        alteration: Alteration::Answer(|_, answer| {
            if let Ok(plain) = plain_body(answer) {
                answer.body = plain.into();
                answer.headers.remove(CONTENT_ENCODING);
            }
        }),
    },
    Defect {
        name: "Retry-After missing",
        alteration: Alteration::Answer(|_, answer| {
            answer.headers.remove(RETRY_AFTER);
        }),
    },
    Defect {
        name: "warning of a deprecated version missing",
        alteration: Alteration::Answer(|_, answer| {
            answer.headers.remove(WARNING);
        }),
    },
    Defect {
        name: "selectable fields missing in OpenAPI",
        alteration: Alteration::Answer(|request, answer| {
            if request.path.starts_with("/openapi/v3/") {
                in_json(answer, |document| {
                    for schema in
                        document["components"]["schemas"].as_object_mut().into_iter().flat_map(|all| all.values_mut())
                    {
                        if let Some(schema) = schema.as_object_mut() {
                            schema.remove("x-kubernetes-selectable-fields");
                        }
                    }
                });
            }
        }),
    },
];

/// Alters an answer's JSON document; other answers stay. What was compressed stays so in name only if it was not.
fn in_json(answer: &mut Answer, alter: impl FnOnce(&mut Value)) {
    let Ok(body) = plain_body(answer) else { return };
    let Ok(mut document) = serde_json::from_slice::<Value>(&body) else { return };
    let before = document.clone();
    alter(&mut document);
    // Indexing makes members that were not there; only a real change is written.
    if strip(&document) != strip(&before) {
        answer.headers.remove(CONTENT_ENCODING);
        answer.body = format!("{document}\n").into();
    }
}

/// Alters an answer that is a list of objects or a Table.
fn in_list(answer: &mut Answer, alter: impl FnOnce(&mut Value)) {
    in_json(answer, |document| {
        if document["metadata"]["resourceVersion"].is_string()
            && (document["items"].is_array() || document["rows"].is_array())
        {
            alter(document);
        }
    });
}

/// The document without members that are null, at its first two levels.
fn strip(document: &Value) -> Value {
    let mut document = document.clone();
    if let Some(members) = document.as_object_mut() {
        for member in members.values_mut().filter_map(Value::as_object_mut) {
            member.retain(|_, value| !value.is_null());
        }
        members.retain(|_, value| !value.is_null());
    }
    document
}

fn pair(member: &Value) -> (String, String) {
    let metadata = if member["object"].is_object() { &member["object"]["metadata"] } else { &member["metadata"] };
    let text = |name: &str| metadata[name].as_str().unwrap_or_default().to_owned();
    (text("namespace"), text("name"))
}
