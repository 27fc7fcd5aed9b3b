//! The Namespaces of a folder: every namespace that a cluster would have, also if no file has its Namespace.
//!
//! A cluster has four namespaces from its beginning, and no object in a namespace that does not exist. So folder mode
//! serves a Namespace for each of these four, and for each namespace that an object of the folder is in. Namespaces
//! have what kube-apiserver sets when they are created, so that `kubectl get namespaces`, selectors of namespaces and
//! placement agree with a cluster.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::object;
use crate::model::Key;

/// The plural name of Namespaces. Their group is the core group.
pub(super) const PLURAL: &str = "namespaces";

/// The namespaces that each cluster has (kubernetes `pkg/controlplane/controller/systemnamespaces`).
const INITIAL: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// The label with the name of a namespace (`NamespaceNameLabel` in kubernetes `staging/src/k8s.io/api/core/v1`).
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// The names of all namespaces of a folder with objects of these keys.
pub(super) fn names<'k>(keys: impl Iterator<Item = &'k Key>) -> BTreeSet<&'k str> {
    keys.map(Key::namespace).filter(|namespace| !namespace.is_empty()).chain(INITIAL).collect()
}

/// The Namespace of this name, as a file would have it.
pub(super) fn manifest(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

/// Sets what kube-apiserver sets when a Namespace is created: the label with its name, the finalizer and the phase. A
/// phase and finalizers in the file stay, so that a Namespace that is being deleted is shown as such.
pub(super) fn complete(namespace: &mut Value) {
    let name = object::metadata_text(namespace, "name").to_owned();
    if let Some(metadata) = object::metadata_of(namespace) {
        let labels = metadata.entry("labels").or_insert(Value::Null);
        if labels.is_null() {
            *labels = json!({});
        }
        if let Some(labels) = labels.as_object_mut() {
            labels.insert(NAME_LABEL.to_owned(), Value::from(name));
        }
    }
    for (part, member, default) in [("spec", "finalizers", json!(["kubernetes"])), ("status", "phase", json!("Active"))]
    {
        let Some(namespace) = namespace.as_object_mut() else { return };
        let part = namespace.entry(part).or_insert(Value::Null);
        if part.is_null() {
            *part = json!({});
        }
        if let Some(part) = part.as_object_mut().filter(|part| part.get(member).is_none_or(Value::is_null)) {
            part.insert(member.to_owned(), default);
        }
    }
}
