//! Tests of placement. `naive` is the reference implementation for `property`, and `arbitrary` has its random objects;
//! the others are tables.

mod admission;
mod arbitrary;
mod cluster;
mod config;
mod documentation;
mod effort;
mod kep;
mod label_keys;
mod memory;
mod misplaced;
mod naive;
mod nodes;
mod pods;
mod property;
mod question;
mod scores;
mod text;
mod tolerations;
mod validation;
mod workload;

use serde_json::{Value, json};

use super::node::{Namespace, Node, Taint};
use super::options::Options;
use super::pod::Pod;
use super::review::NodeReport;
use super::{ClusterIndex, PlacementResult};

/// A node with labels as `key=value`, beside its hostname.
fn node(name: &str, labels: &[&str]) -> Node {
    let mut node = Node::default();
    node.metadata.name = name.to_owned();
    node.metadata.labels.insert("kubernetes.io/hostname".to_owned(), name.to_owned());
    for label in labels {
        let (key, value) = label.split_once('=').unwrap();
        node.metadata.labels.insert(key.to_owned(), value.to_owned());
    }
    node
}

/// A node with taints as `kubectl taint` writes them.
fn tainted(name: &str, taints: &[&str]) -> Node {
    let mut node = node(name, &[]);
    node.spec.taints = taints.iter().map(|taint| taint.parse::<Taint>().unwrap()).collect();
    node
}

/// An incoming pod with this spec.
fn incoming(spec: Value) -> Pod {
    labelled(&[], spec)
}

fn labels_of(labels: &[&str]) -> Value {
    labels
        .iter()
        .map(|label| label.split_once('=').unwrap())
        .map(|(key, value)| (key.to_owned(), json!(value)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// The same with labels.
fn labelled(labels: &[&str], spec: Value) -> Pod {
    let metadata = json!({"namespace": "default", "labels": labels_of(labels)});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
}

/// The spec of a review, with a container in its Pod or its workload's template.
fn with_containers(mut spec: Value) -> Value {
    let containers = json!([{"name": "main", "image": "registry.example.com/main"}]);
    for template in ["/pod", "/template/spec/template"] {
        if let Some(Value::Object(template)) = spec.pointer_mut(template) {
            let spec = template.entry("spec").or_insert_with(|| json!({}));
            if spec.is_object() && spec.get("containers").is_none() {
                spec["containers"] = containers.clone();
            }
        }
    }
    spec
}

/// A running pod: `namespace/name`, its node, labels, and the rest of its spec.
fn running(key: &str, node: &str, labels: &[&str], mut spec: Value) -> Pod {
    let (namespace, name) = key.split_once('/').unwrap();
    spec["nodeName"] = json!(node);
    serde_json::from_value(json!({
        "metadata": {"namespace": namespace, "name": name, "uid": format!("uid of {key}"), "labels": labels_of(labels)},
        "spec": spec,
        "status": {"phase": "Running"},
    }))
    .unwrap()
}

fn namespace(name: &str, labels: &[&str]) -> Namespace {
    serde_json::from_value(json!({"metadata": {"name": name, "labels": labels_of(labels)}})).unwrap()
}

/// With the namespace `default`.
fn cluster(nodes: &[Node], pods: &[Pod]) -> ClusterIndex {
    let mut cluster = ClusterIndex::default();
    cluster.upsert_namespace(&namespace("default", &[]));
    for node in nodes {
        cluster.upsert_node(node);
    }
    for pod in pods {
        cluster.upsert_pod(pod);
    }
    cluster
}

/// The nodes that a pod fits, by name.
fn fitting(answer: &PlacementResult) -> Vec<String> {
    let mut names: Vec<String> =
        answer.nodes(&[]).into_iter().filter(|node| node.fits).map(|node| node.name.to_string()).collect();
    names.sort();
    names
}

/// The codes of the rules that a node fails.
fn reasons(answer: &PlacementResult, node: &str) -> Vec<String> {
    report(answer, node).rejections.into_iter().map(|rejection| rejection.reason.into_owned()).collect()
}

fn report(answer: &PlacementResult, node: &str) -> NodeReport {
    answer.nodes(&[node.to_owned()]).pop().unwrap()
}

fn review(nodes: &[Node], pods: &[Pod], pod: &Pod) -> PlacementResult {
    cluster(nodes, pods).review(pod, &Options::default())
}

/// A required term by that list's member, such as `podAffinity`.
fn required(member: &str, terms: Value) -> Value {
    json!({"affinity": {member: {"requiredDuringSchedulingIgnoredDuringExecution": terms}}})
}

/// Preferred terms of a weight.
fn preferred(member: &str, weight: i64, term: Value) -> Value {
    let weighted = json!([{"weight": weight, "podAffinityTerm": term}]);
    json!({"affinity": {member: {"preferredDuringSchedulingIgnoredDuringExecution": weighted}}})
}

/// A term that selects pods by one label.
fn term(label: &str, topology_key: &str) -> Value {
    json!({"labelSelector": {"matchLabels": labels_of(&[label])}, "topologyKey": topology_key})
}
