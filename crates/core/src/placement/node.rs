//! Nodes and Namespaces as far as placement reads them.
//!
//! Like [`super::pod`] these are documents. A Node's heartbeat changes nothing in them, so the index
//! compares them to find out that there is nothing to do. [`super::condition`] maps a Node's conditions to taints.

use serde::{Deserialize, Serialize};

use super::pod::{Metadata, ReadError, null_as_default, read};

/// The label that every Namespace carries with its own name.
pub const NAMESPACE_NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// A Node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Node {
    /// Name and labels.
    #[serde(deserialize_with = "null_as_default")]
    pub metadata: Metadata,
    /// Its taints.
    #[serde(deserialize_with = "null_as_default")]
    pub spec: NodeSpec,
    /// Its conditions.
    #[serde(deserialize_with = "null_as_default")]
    pub status: NodeStatus,
}

/// The parts of a Node's spec that matter here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSpec {
    /// Whether the node is cordoned.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "std::ops::Not::not")]
    pub unschedulable: bool,
    /// Its taints.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
}

/// A taint of a Node: it repels pods that do not tolerate it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Taint {
    /// The key.
    #[serde(deserialize_with = "null_as_default")]
    pub key: String,
    /// The value, often empty.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// NoSchedule, PreferNoSchedule or NoExecute.
    #[serde(deserialize_with = "null_as_default")]
    pub effect: String,
    /// When the taint was added (RFC 3339); only the node controller sets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_added: Option<String>,
}

/// The parts of a Node's status that matter here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeStatus {
    /// Ready, MemoryPressure and the like.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<NodeCondition>,
}

/// One condition of a Node, without its times.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeCondition {
    /// Such as `Ready`.
    #[serde(rename = "type", deserialize_with = "null_as_default")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    #[serde(deserialize_with = "null_as_default")]
    pub status: String,
}

/// A Namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Namespace {
    /// Name and labels.
    #[serde(deserialize_with = "null_as_default")]
    pub metadata: Metadata,
}

impl Node {
    /// Reads a Node.
    ///
    /// # Errors
    /// The bytes are not JSON, or a field of the Node has a wrong type.
    pub fn read(json: &[u8]) -> Result<Node, ReadError> {
        read("Node", json)
    }
}

impl Namespace {
    /// Reads a Namespace, and adds [`NAMESPACE_NAME_LABEL`] if it is missing, as an API server does.
    ///
    /// # Errors
    /// The bytes are not JSON, or a field of the Namespace has a wrong type.
    pub fn read(json: &[u8]) -> Result<Namespace, ReadError> {
        read("Namespace", json).map(Namespace::with_name_label)
    }

    /// Adds [`NAMESPACE_NAME_LABEL`] if it is missing.
    pub(super) fn with_name_label(mut self) -> Namespace {
        let name = self.metadata.name.clone();
        self.metadata.labels.entry(NAMESPACE_NAME_LABEL.to_owned()).or_insert(name);
        self
    }
}

/// As `kubectl taint` writes it: `key=value:effect`, without `=` when the value is empty.
impl std::fmt::Display for Taint {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Taint { key, value, effect, .. } = self;
        if value.is_empty() { write!(formatter, "{key}:{effect}") } else { write!(formatter, "{key}={value}:{effect}") }
    }
}

/// A text that is not a taint in the notation of `kubectl taint`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a taint: write KEY=VALUE:EFFECT or KEY:EFFECT, with the effect NoSchedule, PreferNoSchedule or NoExecute"
)]
pub struct NotATaint {
    /// The invalid text.
    pub text: String,
}

/// Reads the notation of `kubectl taint`.
impl std::str::FromStr for Taint {
    type Err = NotATaint;

    fn from_str(text: &str) -> Result<Taint, NotATaint> {
        let refused = || NotATaint { text: text.to_owned() };
        let (pair, effect) = text.rsplit_once(':').ok_or_else(refused)?;
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let is_key = crate::selector::syntax::label_key_errors(key).is_empty();
        let is_value = crate::selector::syntax::label_value_errors(value).is_empty();
        if !is_key || !is_value || !matches!(effect, "NoSchedule" | "PreferNoSchedule" | "NoExecute") {
            return Err(refused());
        }
        Ok(Taint { key: key.to_owned(), value: value.to_owned(), effect: effect.to_owned(), time_added: None })
    }
}
