//! Discovery, definitions, bookmarks and errors, as documents or bytes.
//!
//! Only what fieldcache's cluster source reads is in them.

use bytes::Bytes;
use serde_json::{Value, json};

use super::SMALL_GROUP;

/// `/version`.
#[must_use]
pub fn version() -> Value {
    let version = crate::components::KUBERNETES_VERSION;
    let mut numbers = version.trim_start_matches('v').split('.');
    let (major, minor) = (numbers.next(), numbers.next());
    json!({ "major": major, "minor": minor, "gitVersion": format!("{version}-generator"), "platform": "linux/amd64" })
}

/// The aggregated discovery documents.
#[derive(Debug, Clone)]
pub struct Discovery {
    /// `/api`.
    pub api: Bytes,
    /// `/apis`.
    pub apis: Bytes,
}

impl Discovery {
    /// Of the resources of `definitions`, and of Pods.
    #[must_use]
    pub fn new(pods: bool, definitions: &[Value]) -> Discovery {
        let mut core = Vec::new();
        if pods {
            core.push(group("", vec![resource("pods", "pod", "", "Pod", "Namespaced")]));
        }
        let mut groups = vec![group(
            "apiextensions.k8s.io",
            vec![resource(
                "customresourcedefinitions",
                "customresourcedefinition",
                "",
                "CustomResourceDefinition",
                "Cluster",
            )],
        )];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut by_group: Vec<(String, Vec<Value>)> = Vec::new();
        for definition in definitions {
            let spec = &definition["spec"];
            let (name, names) = (text(&spec["group"]), &spec["names"]);
            let found = resource(
                &text(&names["plural"]),
                &text(&names["singular"]),
                &name,
                &text(&names["kind"]),
                &text(&spec["scope"]),
            );
            match by_group.iter_mut().find(|(group, _)| *group == name) {
                Some((_, resources)) => resources.push(found),
                None => by_group.push((name, vec![found])),
            }
        }
        groups.extend(by_group.into_iter().map(|(name, resources)| group(&name, resources)));
        let document = |items: Vec<Value>| {
            let document = json!({
                "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items,
            });
            Bytes::from(document.to_string())
        };
        Discovery { api: document(core), apis: document(groups) }
    }
}

fn group(name: &str, resources: Vec<Value>) -> Value {
    json!({
        "metadata": { "name": name },
        "versions": [{ "version": "v1", "freshness": "Current", "resources": resources }],
    })
}

/// Custom resources spell out the group of their kind, built-in ones do not: `group` is empty for those.
fn resource(plural: &str, singular: &str, group: &str, kind: &str, scope: &str) -> Value {
    let version = if group.is_empty() { "" } else { "v1" };
    json!({
        "resource": plural,
        "responseKind": { "group": group, "version": version, "kind": kind },
        "scope": scope,
        "singularResource": singular,
        "verbs": ["get", "list", "watch"],
    })
}

/// The plural name of small resource `index`.
#[must_use]
pub fn small_plural(index: usize) -> String {
    format!("smalls{index:03}")
}

/// Its definition.
#[must_use]
pub fn small_definition(index: usize) -> Value {
    let schema = json!({ "type": "object", "properties": {
        "spec": { "type": "object", "properties": { "color": { "type": "string" } } },
    } });
    crate::fixtures::definition(
        SMALL_GROUP,
        "Namespaced",
        (&small_plural(index), &format!("small{index:03}"), &format!("Small{index:03}")),
        &[json!({
            "name": "v1", "served": true, "storage": true,
            "schema": { "openAPIV3Schema": schema },
            "selectableFields": [{ "jsonPath": ".spec.color" }],
        })],
        &crate::fixtures::no_conversion(),
    )
}

/// One of its objects.
#[must_use]
pub fn small_object(index: usize, object: u64) -> Value {
    json!({
        "apiVersion": format!("{SMALL_GROUP}/v1"),
        "kind": format!("Small{index:03}"),
        "metadata": {
            "name": format!("small-{object}"),
            "namespace": "default",
            "uid": format!("00000000-0000-4000-8000-{:012}", index as u64 * 1000 + object),
            "resourceVersion": (object + 1_000).to_string(),
            "generation": 1,
        },
        "spec": { "color": if object.is_multiple_of(2) { "blue" } else { "red" } },
    })
}

/// A definition as a server shows it when it serves it.
#[must_use]
pub fn established(definition: &Value, index: u64) -> Value {
    let mut definition = definition.clone();
    definition["metadata"]["uid"] = format!("00000000-0000-4000-9000-{index:012}").into();
    definition["metadata"]["generation"] = 1.into();
    definition["metadata"]["resourceVersion"] = (index + 1_000).to_string().into();
    definition["status"] = json!({
        "acceptedNames": definition["spec"]["names"],
        "conditions": [
            { "type": "NamesAccepted", "status": "True" },
            { "type": "Established", "status": "True" },
        ],
        "storedVersions": ["v1"],
    });
    definition
}

/// The line of a watch event around an object.
#[must_use]
pub fn line(kind: &str, object: &[u8]) -> Bytes {
    let mut line = begin_line(kind, object.len());
    line.extend_from_slice(object);
    Bytes::from(end_line(line))
}

/// What precedes the object in a line, with room for one of `length` bytes.
#[must_use]
pub fn begin_line(kind: &str, length: usize) -> Vec<u8> {
    let mut line = Vec::with_capacity(length + kind.len() + 64);
    line.extend_from_slice(b"{\"type\":\"");
    line.extend_from_slice(kind.as_bytes());
    line.extend_from_slice(b"\",\"object\":");
    line
}

/// The line with what is after the object.
#[must_use]
pub fn end_line(mut line: Vec<u8>) -> Vec<u8> {
    line.extend_from_slice(b"}\n");
    line
}

/// The object within a line of [`line`], sharing its memory.
#[must_use]
pub fn object_of(line: &Bytes, kind: &str) -> Bytes {
    let before = begin_line(kind, 0).len();
    line.slice(before..line.len() - 2)
}

/// A bookmark; the one at the end of the initial events is annotated.
#[must_use]
pub fn bookmark(version: u64, ends_initial_events: bool) -> Bytes {
    let mut object = json!({ "metadata": { "resourceVersion": version.to_string() } });
    if ends_initial_events {
        object["metadata"]["annotations"] = json!({ "k8s.io/initial-events-end": "true" });
    }
    line("BOOKMARK", object.to_string().as_bytes())
}

/// A Status of failure.
#[must_use]
pub fn failure(code: u16, reason: &str, message: &str) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code,
    })
}

/// The event that makes a watcher list again.
#[must_use]
pub fn expired() -> Bytes {
    let status = failure(410, "Expired", "the generator has ended all watches");
    line("ERROR", status.to_string().as_bytes())
}
