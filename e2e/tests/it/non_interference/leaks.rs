//! Leaks on purpose: each has to be found by the comparison.
//!
//! [`wider`] are real ones: Views of the other cluster that show one thing more than the one under test, with the same requests. [`ALTERED`] are what a View cannot be made to
//! do: the other cluster's answers changed as a server with that fault would have sent them.

use anyhow::{Result, bail, ensure};
use e2e::http::{Answer, Request};
use http::{HeaderValue, Method, StatusCode};
use serde_json::{Value, json};

use super::outcome::{WINDOW, parting};
use super::script::ViewProbe;
use super::visible;
use super::watches::{self, Sent};
use super::{Exchange, Worlds};

/// Names of Views have the length of [`WINDOW`].
pub(crate) fn wider() -> Vec<(&'static str, Value)> {
    let without = |name: &str, resource: usize, path: &str| {
        let mut view = visible::window(name);
        if let Some(Value::Array(paths)) =
            view["spec"]["resources"].get_mut(resource).and_then(|shown| shown.get_mut("prune"))
        {
            paths.retain(|known_path| known_path != path);
        }
        view
    };
    let with = |name: &str, resource: usize, member: &str, value: Value| {
        let mut view = visible::window(name);
        view["spec"]["resources"][resource][member] = value;
        view
    };
    let kept = |path: &str| json!(visible::KEPT_OF_PODS.iter().chain([&path]).collect::<Vec<&&str>>());
    let colors =
        json!({ "matchExpressions": [{ "key": "spec.color", "operator": "In", "values": ["blue", "cyan", "red"] }] });
    let nodes = json!({ "matchExpressions": [{ "key": "spec.nodeName", "operator": "Exists" }] });
    vec![
        ("a pruned value that is selectable and in a schema with an enum", without("leak01", 0, ".spec.secret")),
        ("a pruned object", without("leak02", 0, ".spec.hidden")),
        ("a pruned value with a column and a field of its own", without("leak03", 0, ".spec.nested.private")),
        ("a pruned part of a status", without("leak04", 0, ".status.note")),
        ("an annotation by its key", without("leak05", 0, ".metadata.annotations['example.com/secret.note']")),
        ("a key of list elements, in managedFields", without("leak06", 0, ".spec.rows.secret")),
        ("a value of a built-in kind that is not kept", with("leak07", 1, "keep", kept(".status.podIP"))),
        ("a value in each element of a list that is not kept", with("leak08", 1, "keep", kept(".spec.containers.env"))),
        ("one namespace more", with("leak09", 0, "namespaces", json!(["team-a", "team-b", "team-omega"]))),
        ("objects with another label", with("leak10", 0, "labelSelector", json!({}))),
        ("objects with another value", with("leak11", 0, "fieldSelector", colors)),
        ("objects on another node", with("leak12", 1, "fieldSelector", nodes)),
        ("objects without a namespace", with("leak13", 2, "labelSelector", json!({}))),
    ]
}

/// What a server with a fault would have sent; true if it would have sent something else.
type Alter = fn(&Request, &mut Answer) -> bool;

const ALTERED: [(&str, Alter); 16] = [
    ("a total of what is hidden too", |_, answer| {
        in_json(answer, |document| {
            let is_total = document["kind"] == "Facets";
            document["total"] = (document["total"].as_u64().unwrap_or_default() + 12).into();
            is_total
        })
    }),
    ("a value of a hidden object among the values of a field", |_, answer| {
        in_json(answer, |document| {
            let Some(values) = document.pointer_mut("/facets/0/values").and_then(Value::as_array_mut) else {
                return false;
            };
            values.push(json!({ "value": "omega", "count": 1 }));
            true
        })
    }),
    ("what remains is counted with what is hidden", |_, answer| {
        in_json(answer, |document| {
            let Some(count) = document["metadata"]["remainingItemCount"].as_u64() else { return false };
            document["metadata"]["remainingItemCount"] = (count + 12).into();
            true
        })
    }),
    ("a token that holds a hidden key", |_, answer| {
        in_json(answer, |document| {
            let is_there = document["metadata"]["continue"].as_str().is_some_and(|token| !token.is_empty());
            if is_there {
                let token = r#"{"v":"meta.k8s.io/v1","rv":2600,"start":"/team-a/omega-3\u0000"}"#;
                document["metadata"]["continue"] =
                    base64::Engine::encode(&base64::prelude::BASE64_URL_SAFE_NO_PAD, token).into();
            }
            is_there
        })
    }),
    ("a token where nothing more is shown", |_, answer| {
        in_json(answer, |document| {
            let is_last = document["kind"] == "ShirtList" && document["metadata"]["continue"] == "";
            if is_last {
                document["metadata"]["continue"] = "e30".into();
            }
            is_last
        })
    }),
    ("an entity tag of the whole document", |_, answer| {
        let is_there = answer.headers.contains_key("etag");
        answer.headers.insert("etag", HeaderValue::from_static("\"0000\""));
        is_there
    }),
    ("the length of what HEAD does not send", |request, answer| {
        let is_head = request.method == Method::HEAD && answer.headers.contains_key("content-length");
        if is_head {
            answer.headers.insert("content-length", HeaderValue::from_static("4711"));
        }
        is_head
    }),
    ("a warning that names a hidden field", |request, answer| {
        answer.headers.append("warning", HeaderValue::from_static("299 - \"omega-field is not indexed\""));
        request.path.contains("fieldSelector")
    }),
    ("how the answer was found", |request, answer| {
        answer.headers.append("fieldcache-explain", HeaderValue::from_static("{\"candidates\":57}"));
        request.path.contains("explain=true")
    }),
    ("403 for what is there and hidden", |_, answer| {
        let is_missing = answer.status == StatusCode::NOT_FOUND;
        answer.status = StatusCode::FORBIDDEN;
        is_missing
    }),
    ("the value of a hidden field in a message", |_, answer| {
        in_json(answer, |document| {
            let is_refusal = document["reason"] == "BadRequest";
            if is_refusal {
                document["message"] =
                    format!("{}, omega-1 for one", document["message"].as_str().unwrap_or_default()).into();
            }
            is_refusal
        })
    }),
    ("an enum of a pruned path", |_, answer| {
        in_json(answer, |document| {
            let spec =
                document.pointer_mut("/components/schemas/com.example.stable.v1.Shirt/properties/spec/properties");
            let Some(Value::Object(properties)) = spec else { return false };
            properties.insert("secret".to_owned(), json!({ "type": "string", "enum": ["omega-1"] }));
            true
        })
    }),
    ("a hidden kind in discovery", |_, answer| {
        in_json(answer, |document| {
            let is_list = document["kind"] == "APIResourceList";
            if let Some(rows) = document["resources"].as_array_mut().filter(|_| is_list) {
                rows.push(json!({ "name": "gloves" }));
            }
            is_list
        })
    }),
    ("the column of a pruned path", |_, answer| {
        in_json(answer, |document| {
            let Some(columns) = document["columnDefinitions"].as_array_mut() else { return false };
            columns.push(json!({ "name": "omega column" }));
            true
        })
    }),
    ("an order by what is hidden", |_, answer| {
        in_json(answer, |document| {
            let Some(items) = document["items"].as_array_mut().filter(|items| items.len() > 1) else { return false };
            items.swap(0, 1);
            true
        })
    }),
    ("a line of a hidden store in a health check", |request, answer| {
        let is_health = request.path.contains("/readyz?verbose");
        let mut body = answer.body.to_vec();
        body.extend_from_slice(b"[+]store/gloves.v1 ok\n");
        answer.body = body.into();
        is_health
    }),
];

/// Changes a JSON body, if it is one.
fn in_json(answer: &mut Answer, change: impl FnOnce(&mut Value) -> bool) -> bool {
    let Ok(mut document) = serde_json::from_slice::<Value>(&answer.body) else { return false };
    let is_changed = change(&mut document);
    if is_changed {
        answer.body = document.to_string().into();
    }
    is_changed
}

/// How each leak of answers was found.
///
/// # Errors
/// Names those that were not.
pub(crate) async fn found(worlds: &Worlds, exchanges: &[Exchange], script: &[ViewProbe]) -> Result<Vec<String>> {
    let (mut lines, mut missed) = (Vec::new(), Vec::new());
    for (name, alter) in ALTERED {
        let mut tried = 0;
        let red = exchanges.iter().find(|Exchange { probe, answers: [one, other] }| {
            let mut altered = other.clone();
            let is_altered = alter(probe, &mut altered);
            tried += usize::from(is_altered);
            is_altered && worlds.parting(one, &altered, WINDOW).is_some()
        });
        match red {
            Some(exchange) => lines.push(format!("{name}: {}", exchange.probe.path)),
            None => missed.push(format!("{name} ({tried} tried)")),
        }
    }
    for (name, view) in wider() {
        let view = view["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let mut red = None;
        // The first requests see most; a leak that none of them sees is too small to be found by chance.
        for part in script[..600].chunks(40) {
            let exchanges = worlds.run(part, &view).await?;
            red = exchanges
                .into_iter()
                .find(|Exchange { answers: [one, other], .. }| worlds.parting(one, other, &view).is_some());
            if red.is_some() {
                break;
            }
        }
        match red {
            Some(exchange) => lines.push(format!("{name}: {}", exchange.probe.path)),
            None => missed.push(name.to_owned()),
        }
    }
    ensure!(missed.is_empty(), "leaks that were not found: {missed:?}");
    Ok(lines)
}

/// What a watch with a fault would have sent.
type AlterLines = fn(&mut Vec<String>) -> bool;

const ALTERED_WATCHES: [(&str, AlterLines); 5] = [
    ("a watch that sends a hidden object", |lines| {
        let Some(place) = lines.iter().position(|line| line.starts_with(r#"{"type":"ADDED""#)) else { return false };
        lines.insert(place, r#"{"type":"ADDED","object":{"metadata":{"name":"omega-1"}}}"#.to_owned());
        true
    }),
    ("a watch that reports a change of a hidden part once more", |lines| {
        let Some(line) = lines.iter().find(|line| line.starts_with(r#"{"type":"MODIFIED""#)).cloned() else {
            return false;
        };
        lines.push(line);
        true
    }),
    ("a watch that leaves a change out", |lines| {
        let Some(place) = lines.iter().position(|line| line.starts_with(r#"{"type":"MODIFIED""#)) else { return false };
        lines.remove(place);
        true
    }),
    ("a watch that shows a pruned value when an object goes", |lines| {
        let Some(line) = lines.iter_mut().find(|line| line.starts_with(r#"{"type":"DELETED""#)) else { return false };
        *line = line.replacen(r#""spec":{"#, r#""spec":{"secret":"omega-1","#, 1);
        line.contains("omega-1")
    }),
    ("a watch that says what has become of the View", |lines| {
        let Some(line) = lines.iter_mut().find(|line| line.starts_with(r#"{"type":"ERROR""#)) else { return false };
        *line = line.replacen(r#""message":""#, r#""message":"omega: "#, 1);
        line.contains("omega: ")
    }),
];

/// The same of watches.
///
/// # Errors
/// Names those that were not found.
pub(crate) fn found_in_watches(worlds: &Worlds, one: &[Sent], other: &[Sent]) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    for (name, alter) in ALTERED_WATCHES {
        let red = one.iter().zip(other).position(|(one, other)| {
            let mut altered = other.lines();
            alter(&mut altered)
                && parting(
                    &watches::comparable(&one.lines(), &worlds.0[0]),
                    &watches::comparable(&altered, &worlds.0[1]),
                )
                .is_some()
        });
        match red {
            Some(number) => lines.push(format!("{name}: watch {number}")),
            None => bail!("a leak that was not found: {name}"),
        }
    }
    Ok(lines)
}
