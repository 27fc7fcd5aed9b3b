//! Defects of whole answers.

use e2e::http::Answer;
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, HeaderValue, RETRY_AFTER, VARY, WARNING};
use serde_json::{Map, Value, json};

use super::super::outcome::plain_body;
use super::{Alteration, Defect};

pub(super) static DEFECTS: [Defect; 30] = [
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
    Defect {
        name: "compressed without saying so",
        alteration: Alteration::Answer(|_, answer| {
            answer.headers.remove(CONTENT_ENCODING);
        }),
    },
    Defect {
        name: "Vary missing",
        alteration: Alteration::Answer(|_, answer| {
            answer.headers.remove(VARY);
        }),
    },
    Defect {
        name: "ETag missing",
        alteration: Alteration::Answer(|_, answer| {
            answer.headers.remove(ETAG);
        }),
    },
    Defect {
        name: "answers that may be kept",
        alteration: Alteration::Answer(|_, answer| {
            answer.headers.remove(CACHE_CONTROL);
        }),
    },
    Defect {
        name: "content type with a parameter",
        alteration: Alteration::Answer(|_, answer| {
            if answer.header("content-type") == Some("application/json") {
                answer.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json; charset=utf-8"));
            }
        }),
    },
    Defect {
        name: "details of errors missing",
        alteration: Alteration::Answer(|_, answer| {
            in_status(answer, |status| {
                status.remove("details");
            })
        }),
    },
    Defect {
        name: "code in the body of errors missing",
        alteration: Alteration::Answer(|_, answer| {
            in_status(answer, |status| {
                status.remove("code");
            })
        }),
    },
    Defect {
        name: "first letter of error messages in upper case",
        alteration: Alteration::Answer(|_, answer| {
            in_status(answer, |status| {
                if let Some(message) = status.get("message").and_then(Value::as_str) {
                    let mut letters = message.chars();
                    let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
                    status.insert("message".to_owned(), format!("{first}{}", letters.as_str()).into());
                }
            })
        }),
    },
    Defect {
        name: "410 as 400",
        alteration: Alteration::Answer(|_, answer| {
            if answer.status == StatusCode::GONE {
                answer.status = StatusCode::BAD_REQUEST;
            }
        }),
    },
    Defect {
        name: "continue on the last page",
        alteration: Alteration::Answer(|request, answer| {
            if request.path.contains("limit=") {
                in_list(answer, |list| {
                    if list["metadata"]["continue"].as_str().is_none_or(str::is_empty) {
                        list["metadata"]["continue"] = "eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ".into();
                    }
                });
            }
        }),
    },
    Defect {
        name: "version of lists one too low",
        alteration: Alteration::Answer(|_, answer| {
            in_list(answer, |list| {
                let version = list["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse::<u64>().ok());
                if let Some(version) = version {
                    list["metadata"]["resourceVersion"] = (version - 1).to_string().into();
                }
            })
        }),
    },
    Defect {
        name: "last cell of a Table's rows changed",
        alteration: Alteration::Answer(|_, answer| {
            in_list(answer, |list| {
                for row in list["rows"].as_array_mut().into_iter().flatten() {
                    if let Some(cell) = row["cells"].as_array_mut().and_then(|cells| cells.last_mut()) {
                        *cell = "<none>".into();
                    }
                }
            })
        }),
    },
    Defect {
        name: "priority of columns missing",
        alteration: Alteration::Answer(|_, answer| {
            in_list(answer, |list| {
                for column in list["columnDefinitions"].as_array_mut().into_iter().flatten() {
                    column["priority"] = 0.into();
                }
            })
        }),
    },
    Defect {
        name: "managedFields missing",
        alteration: Alteration::Answer(|_, answer| {
            in_list(answer, |list| {
                for item in list["items"].as_array_mut().into_iter().flatten() {
                    if let Some(metadata) = item["metadata"].as_object_mut() {
                        metadata.remove("managedFields");
                    }
                }
            })
        }),
    },
    Defect {
        name: "empty lists null",
        alteration: Alteration::Answer(|_, answer| {
            in_list(answer, |list| {
                for members in ["items", "rows"] {
                    if list[members] == json!([]) {
                        list[members] = Value::Null;
                    }
                }
            })
        }),
    },
    Defect {
        name: "newline at the end missing",
        alteration: Alteration::Answer(|_, answer| {
            if answer.body.last() == Some(&b'\n') {
                answer.body.truncate(answer.body.len() - 1);
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
    // Indexing creates missing members; only a real change is written.
    if strip(&document) != strip(&before) {
        answer.headers.remove(CONTENT_ENCODING);
        answer.body = format!("{document}\n").into();
    }
}

/// Alters an answer that is a list of objects or a Table.
fn in_list(answer: &mut Answer, alter: impl FnOnce(&mut Value)) {
    /// Only OpenAPI documents are larger, and take long to read.
    const LARGEST: usize = 2 << 20;
    if answer.body.len() > LARGEST {
        return;
    }
    in_json(answer, |document| {
        if document["metadata"]["resourceVersion"].is_string()
            && (document["items"].is_array() || document["rows"].is_array())
        {
            alter(document);
        }
    });
}

/// Alters an answer that is a Status.
fn in_status(answer: &mut Answer, alter: impl FnOnce(&mut Map<String, Value>)) {
    if answer.status.is_success() {
        return;
    }
    in_json(answer, |document| {
        if let Some(status) = document.as_object_mut().filter(|document| document.get("kind") == Some(&json!("Status")))
        {
            alter(status);
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
