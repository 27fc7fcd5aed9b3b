//! What a View takes from its caller: values of the caller's token, and labels of the caller's own Pod.
//!
//! This module has only data and its rules. `access` reads tokens, and `server::view_request` obtains the values. The
//! values are added to a parsed selection, not to the text of a selector, so that no value can add a requirement.
//! Labels are merged as kube-apiserver merges matchLabelKeys of a Pod's own affinity (KEP-3633);
//! [`super::followed_pod`] reports when they change.

use std::collections::BTreeMap;
use std::fmt;

use crate::selector::{LabelRequirement, LabelSelector, Operator};

/// A value in a caller's token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConsumerClaim {
    /// The node on which the caller's Pod runs.
    NodeName,
    /// The name of the caller's Pod.
    PodName,
    /// The uid of the caller's Pod.
    PodUid,
    /// The namespace of the caller's ServiceAccount.
    Namespace,
    /// The name of the caller's ServiceAccount.
    ServiceAccountName,
}

/// The requirements of a View that depend on its caller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConsumerTerms {
    /// Fields, by their names in field selectors, and the claim that each must equal.
    pub fields: Vec<(String, ConsumerClaim)>,
    /// Keys of labels that must have the value that they have on the caller's Pod.
    pub match_label_keys: Vec<String>,
    /// Keys of labels that must not have the value that they have on the caller's Pod.
    pub mismatch_label_keys: Vec<String>,
}

/// The values of a caller that a View uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConsumerContext {
    /// The values of the caller's token that the View uses; no text is empty.
    pub values: Vec<(ConsumerClaim, String)>,
    /// The requirements that follow from the labels of the caller's Pod; see [`ConsumerTerms::labels`].
    pub labels: LabelSelector,
}

impl ConsumerTerms {
    /// Whether the View uses no value of its caller, so that all callers see the same objects.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty() && !self.needs_pod()
    }

    /// Whether the labels of the caller's Pod are used.
    pub fn needs_pod(&self) -> bool {
        !self.match_label_keys.is_empty() || !self.mismatch_label_keys.is_empty()
    }

    /// Whether the fields use claims that only tokens of Pods have.
    pub fn needs_claims_of_pod(&self) -> bool {
        let pod_claims = [ConsumerClaim::NodeName, ConsumerClaim::PodName, ConsumerClaim::PodUid];
        self.fields.iter().any(|(_, value)| pod_claims.contains(value))
    }

    /// The claims that the View needs, each once. These are the claims of its fields. If it uses labels of the caller's
    /// Pod, the claims that identify the Pod are needed too.
    pub fn values(&self) -> Vec<ConsumerClaim> {
        let identifying = [ConsumerClaim::Namespace, ConsumerClaim::PodName, ConsumerClaim::PodUid];
        let identifying = identifying.into_iter().filter(|_| self.needs_pod());
        let mut values = Vec::new();
        for value in self.fields.iter().map(|(_, value)| *value).chain(identifying) {
            if !values.contains(&value) {
                values.push(value);
            }
        }
        values
    }

    /// The requirements that follow from the labels of the caller's Pod, `pod_labels`: for each of `match_label_keys`,
    /// the same value, and for each of `mismatch_label_keys`, another value. A key that the Pod lacks adds none.
    pub fn labels(&self, pod_labels: &BTreeMap<String, String>) -> LabelSelector {
        let required = |keys: &[String], operator: fn(String) -> Operator| -> Vec<LabelRequirement> {
            let requirement = |key: &String| {
                let value = pod_labels.get(key)?.clone();
                Some(LabelRequirement { key: key.clone(), operator: operator(value) })
            };
            keys.iter().filter_map(requirement).collect()
        };
        let mut requirements = required(&self.match_label_keys, Operator::equal_to);
        requirements.extend(required(&self.mismatch_label_keys, Operator::not_equal_to));
        LabelSelector { requirements }
    }
}

impl ConsumerContext {
    /// The value of a claim; `None` if the token lacks it.
    pub fn value(&self, wanted: ConsumerClaim) -> Option<&str> {
        self.values.iter().find(|(value, _)| *value == wanted).map(|(_, text)| &**text)
    }
}

impl fmt::Display for ConsumerClaim {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            ConsumerClaim::NodeName => "the node of a Pod",
            ConsumerClaim::PodName => "the name of a Pod",
            ConsumerClaim::PodUid => "the uid of a Pod",
            ConsumerClaim::Namespace => "the namespace of a ServiceAccount",
            ConsumerClaim::ServiceAccountName => "the name of a ServiceAccount",
        })
    }
}
