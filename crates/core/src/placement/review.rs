//! PlacementReview as a document: request and result, in `view.fieldcache.dev/v1alpha1`.
//!
//! Created and answered in one request like a SubjectAccessReview, never stored. The Pod and the template stay as the
//! client sent them, so that the response has them whole. [`super::answer`] fills the fields; [`super::question`]
//! derives a Pod and a cluster from a request. The server writes many of these documents, and a client reads one at a
//! time. Constants are therefore borrowed for writing and owned after reading; missing members are empty.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::model::own_groups;

/// The version of the kind.
pub const API_VERSION: &str = own_groups::VIEW_API_VERSION;
/// The kind.
pub const KIND: &str = "PlacementReview";

/// A request and, in the response, its result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlacementReview {
    /// [`API_VERSION`].
    pub api_version: String,
    /// [`KIND`].
    pub kind: String,
    /// The metadata of the request.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub metadata: Value,
    /// The Pod to evaluate, and the premises.
    pub spec: PlacementReviewSpec,
    /// The result. It is ignored in a request, because the response has a new one, and read in a response.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub status: Option<PlacementReviewStatus>,
}

/// The Pod to evaluate: exactly one of `pod`, `template`, `podRef`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlacementReviewSpec {
    /// A Pod that does not exist yet: it goes through the API server's defaulting and admission first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<Value>,
    /// A Deployment, ReplicaSet, StatefulSet, DaemonSet or Job with its metadata and spec: its next pod is evaluated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<Value>,
    /// A stored Pod, evaluated as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_ref: Option<PodReference>,
    /// The nodes that the result lists; empty: all. The counts are about all nodes in any case.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub node_names: Vec<String>,
    /// Changes of the cluster that the evaluation assumes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub what_if: Option<WhatIf>,
}

/// A Pod by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodReference {
    /// The namespace of the Pod.
    pub namespace: String,
    /// The name of the Pod.
    pub name: String,
}

/// Changes of the cluster that the evaluation assumes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WhatIf {
    /// Taints that nodes would have in addition; a taint with the same key and effect is replaced.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<NodeTaint>,
    /// Labels that nodes would have in addition; a label with the same key is replaced.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<NodeLabel>,
    /// Pods that would not exist.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub without_pods: Vec<PodReference>,
}

/// A taint on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeTaint {
    /// The node.
    pub node: String,
    /// The key.
    pub key: String,
    /// The value.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// NoSchedule, PreferNoSchedule or NoExecute.
    pub effect: String,
}

/// A label on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeLabel {
    /// The node.
    pub node: String,
    /// The key.
    pub key: String,
    /// The value.
    #[serde(default)]
    pub value: String,
}

/// The result of the review.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PlacementReviewStatus {
    /// The versions of the stores.
    pub resource_versions: ResourceVersions,
    /// The time since the state was known to be current, in seconds; absent if that is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_seconds: Option<i64>,
    /// The number of nodes that the pod fits.
    pub feasible: u64,
    /// The number of nodes.
    pub total: u64,
    /// The message of the scheduler's event. If nodes fit: their number, and the reasons of the others.
    pub message: String,
    /// The first reason of each node that was rejected, counted, most frequent first.
    pub reasons: Vec<ReasonCount>,
    /// Plugins that decide about placement and were not evaluated.
    pub not_evaluated: Vec<String>,
    /// Notes for the user.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The pod's own terms about other pods, as they were evaluated.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub terms: Vec<TermReport>,
    /// The nodes: those that fit, best first, then those that fail the fewest rules.
    pub nodes: Vec<NodeReport>,
}

/// The resourceVersions of the stores that the result was computed from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourceVersions {
    /// The version of the nodes.
    pub nodes: String,
    /// The version of the Pods.
    pub pods: String,
    /// The version of the namespaces.
    pub namespaces: String,
}

/// The number of nodes that have a reason as their first one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReasonCount {
    /// The stable code.
    pub reason: Cow<'static, str>,
    /// The scheduler's message.
    pub message: Cow<'static, str>,
    /// The number of nodes.
    pub count: u64,
}

/// A term of the pod about other pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TermReport {
    /// Its path in the Pod.
    pub field_path: String,
    /// The label selector that was evaluated, merged keys included; absent when it is null and selects nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<String>,
    /// Requirements that were probably merged from matchLabelKeys and mismatchLabelKeys; a stored Pod does not show
    /// this with certainty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub derived: Vec<String>,
    /// The namespaces that the term covers by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
    /// The selector of further namespaces by label, as text: empty covers all; absent if it is null and covers none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<String>,
    /// The node label that makes the domains.
    pub topology_key: String,
    /// The number of pods on existing nodes that the term selects.
    pub matching_pods: u64,
    /// Some of these pods, as namespace/name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<String>,
}

/// The result for a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeReport {
    /// The name of the node.
    pub name: Arc<str>,
    /// Whether the pod may run there.
    pub fits: bool,
    /// The rules that the node fails, in the order of the scheduler, which reports only the first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rejections: Vec<RejectionReport>,
    /// The scores, if the node fits.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scores: Vec<ScoreReport>,
}

/// A rule that a node fails.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RejectionReport {
    /// The scheduler's plugin.
    pub plugin: Cow<'static, str>,
    /// Unschedulable if evicting other pods could help, otherwise Unresolvable.
    pub kind: Cow<'static, str>,
    /// The stable code.
    pub reason: Cow<'static, str>,
    /// The scheduler's message.
    pub message: Cow<'static, str>,
    /// The term that causes the rejection: of the evaluated pod, or, for ExistingPodAntiAffinity, of the pod in `pod`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub term: Option<Arc<TermReference>>,
    /// The taint that causes the rejection, as `kubectl taint` writes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taint: Option<String>,
    /// The node's label that causes the rejection: `key=value`, or `!key` if the node does not have the label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// A pod that causes the rejection, as namespace/name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<Arc<str>>,
}

/// A term, with its path and text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TermReference {
    /// Its path in its Pod, or in the scheduler's configuration.
    pub field_path: String,
    /// The text of the term for users; a long one is truncated.
    pub text: String,
}

/// A plugin's score.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ScoreReport {
    /// The scheduler's plugin.
    pub plugin: Cow<'static, str>,
    /// The score before it is normalized.
    pub raw: i64,
    /// The score from 0 to 100, relative to the other nodes that fit.
    pub normalized: i64,
    /// The factor of the normalized score in the node's total.
    pub weight: i64,
}
