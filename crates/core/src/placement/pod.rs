//! Pods as far as placement reads them: the fields of the Kubernetes API that decide where a Pod may run.
//!
//! These are documents, not decisions. Operators and effects stay texts, because an unknown one has a meaning of its
//! own: a term with it matches nothing. A rejection also quotes it. Null reads as absent, as Go decodes it, and
//! everything else in a Pod is skipped. [`super::term`] matches selectors, [`super::validate`] validates a Pod.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

/// An object that cannot be read as its kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot read the {kind}: {message}")]
pub struct ReadError {
    /// The kind that was expected.
    pub kind: &'static str,
    /// The error, with line and column of the JSON text.
    pub message: String,
}

/// Deserializes a value, and null as the default of its type.
pub(super) fn null_as_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// Parses an object. Unknown fields are ignored.
pub(super) fn read<'de, T: Deserialize<'de>>(kind: &'static str, json: &'de [u8]) -> Result<T, ReadError> {
    serde_json::from_slice(json).map_err(|error| ReadError { kind, message: error.to_string() })
}

/// A Pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Pod {
    /// Name, namespace, labels and the like.
    #[serde(deserialize_with = "null_as_default")]
    pub metadata: Metadata,
    /// The fields that decide where the Pod may run.
    #[serde(deserialize_with = "null_as_default")]
    pub spec: PodSpec,
    /// The phase.
    #[serde(deserialize_with = "null_as_default")]
    pub status: PodStatus,
}

/// The parts of the metadata of a Pod, Node or Namespace that matter here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    /// Empty for a Pod that only has a generateName.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Empty for Nodes and Namespaces.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Empty for an object that does not exist yet.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The labels.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// The parts of a Pod's spec that matter here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    /// The node that it is bound to, or requests; empty for none.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "String::is_empty")]
    pub node_name: String,
    /// Labels that a node must have.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Affinity to nodes and pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,
    /// The taints that the Pod tolerates.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
    /// The gates of the Pod: while there are any, the scheduler does not place the Pod.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub scheduling_gates: Vec<SchedulingGate>,
    /// The RuntimeClass, whose scheduling constraints admission merges; empty for none.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "String::is_empty")]
    pub runtime_class_name: String,
    /// Whether it uses the network of its node; decides on one toleration of DaemonSet pods.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "std::ops::Not::not")]
    pub host_network: bool,
}

/// The parts of a Pod's status that matter here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    /// `Succeeded` and `Failed` Pods do not count any more.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "String::is_empty")]
    pub phase: String,
}

/// A gate that must be removed before the scheduler tries the Pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SchedulingGate {
    /// The name of the gate.
    #[serde(deserialize_with = "null_as_default")]
    pub name: String,
}

/// A taint, or several, that a Pod tolerates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Toleration {
    /// The key of the taint; empty for every key.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// `Equal` (also when empty), `Exists`, `Gt` or `Lt`.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "String::is_empty")]
    pub operator: String,
    /// The value that the taint's value is compared with.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// The effect of the taint; empty for every effect.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "String::is_empty")]
    pub effect: String,
    /// How long a NoExecute taint is tolerated, in seconds; `None`: for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub toleration_seconds: Option<i64>,
}

/// Affinity to nodes and pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Affinity {
    /// To nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_affinity: Option<NodeAffinity>,
    /// To topology domains where certain pods run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_affinity: Option<PodAffinity>,
    /// To topology domains where certain pods do not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_anti_affinity: Option<PodAffinity>,
}

/// Affinity to nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeAffinity {
    /// Must hold when the Pod is placed.
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution", skip_serializing_if = "Option::is_none")]
    pub required: Option<NodeSelector>,
    /// Raises the score of a node.
    #[serde(
        rename = "preferredDuringSchedulingIgnoredDuringExecution",
        deserialize_with = "null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub preferred: Vec<PreferredSchedulingTerm>,
}

/// Terms of which one must match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSelector {
    /// The terms; none matches no node.
    #[serde(deserialize_with = "null_as_default")]
    pub node_selector_terms: Vec<NodeSelectorTerm>,
}

/// Requirements that must all hold; without any it matches no node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSelectorTerm {
    /// On labels.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<Requirement>,
    /// On fields, of which there is one: metadata.name.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub match_fields: Vec<Requirement>,
}

/// A requirement on one label or field.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Requirement {
    /// The key of the label or field.
    #[serde(deserialize_with = "null_as_default")]
    pub key: String,
    /// In, NotIn, Exists, DoesNotExist; on nodes also Gt and Lt.
    #[serde(deserialize_with = "null_as_default")]
    pub operator: String,
    /// The values of the requirement.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

/// A preference for some nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct PreferredSchedulingTerm {
    /// The weight that a matching node gains, 1 to 100.
    #[serde(deserialize_with = "null_as_default")]
    pub weight: i32,
    /// The preferred nodes.
    #[serde(deserialize_with = "null_as_default")]
    pub preference: NodeSelectorTerm,
}

/// Affinity or anti-affinity to pods: both have this shape.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct PodAffinity {
    /// Must all hold when the Pod is placed.
    #[serde(
        rename = "requiredDuringSchedulingIgnoredDuringExecution",
        deserialize_with = "null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub required: Vec<PodAffinityTerm>,
    /// Moves the score of a node.
    #[serde(
        rename = "preferredDuringSchedulingIgnoredDuringExecution",
        deserialize_with = "null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub preferred: Vec<WeightedPodAffinityTerm>,
}

/// Pods, and the domains in which they count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodAffinityTerm {
    /// Null selects no pod, `{}` every one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<MetaV1LabelSelector>,
    /// Namespaces by name.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
    /// Namespaces by label, in addition to those by name: null selects none, `{}` every one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<MetaV1LabelSelector>,
    /// The key of the node label that makes the domains.
    #[serde(deserialize_with = "null_as_default")]
    pub topology_key: String,
    /// Keys whose values the API server looked up in the Pod's own labels and merged with `In`.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub match_label_keys: Vec<String>,
    /// Like `match_label_keys`, with `NotIn`.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub mismatch_label_keys: Vec<String>,
}

/// A term that moves the score.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WeightedPodAffinityTerm {
    /// The weight that each matching pod in the domain of a node adds or subtracts, 1 to 100.
    #[serde(deserialize_with = "null_as_default")]
    pub weight: i32,
    /// The preferred Pods and domains.
    #[serde(deserialize_with = "null_as_default")]
    pub pod_affinity_term: PodAffinityTerm,
}

/// metav1.LabelSelector as it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MetaV1LabelSelector {
    /// Labels with exactly these values.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// Further requirements.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<Requirement>,
}

impl Pod {
    /// Reads a Pod.
    ///
    /// # Errors
    /// The bytes are not JSON, or a field of the Pod has a wrong type.
    pub fn read(json: &[u8]) -> Result<Pod, ReadError> {
        read("Pod", json)
    }

    /// The key of the Pod: `namespace/name`.
    pub fn key(&self) -> String {
        format!("{}/{}", self.metadata.namespace, self.metadata.name)
    }
}

impl PodSpec {
    /// Required node affinity; `None` if the Pod has none.
    pub fn required_node_affinity(&self) -> Option<&NodeSelector> {
        self.affinity.as_ref()?.node_affinity.as_ref()?.required.as_ref()
    }

    /// Preferred node affinity; empty if the Pod has none.
    pub fn preferred_node_affinity(&self) -> &[PreferredSchedulingTerm] {
        let node_affinity = self.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
        node_affinity.map_or(&[], |affinity| &affinity.preferred)
    }

    /// Pod affinity; `None` if the Pod has none.
    pub fn pod_affinity(&self) -> Option<&PodAffinity> {
        self.affinity.as_ref()?.pod_affinity.as_ref()
    }

    /// Pod anti-affinity; `None` if the Pod has none.
    pub fn pod_anti_affinity(&self) -> Option<&PodAffinity> {
        self.affinity.as_ref()?.pod_anti_affinity.as_ref()
    }
}
