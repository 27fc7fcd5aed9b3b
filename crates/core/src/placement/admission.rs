//! An API server's changes to a Pod before the scheduler gets it: defaults, RuntimeClass, merged label keys,
//! rejections.
//!
//! For pods that do not exist yet. A stored Pod has been admitted once and must not be again: its labels may have
//! changed since, and nothing is derived a second time. Sources: the admission plugins DefaultTolerationSeconds,
//! RuntimeClass and LimitPodHardAntiAffinityTopology, `pkg/registry/core/pod/strategy.go`; KEP-3633. Webhooks and the
//! plugins that are off by default (PodNodeSelector, PodTolerationRestriction, ExtendedResourceToleration) are not
//! evaluated.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::condition::{NOT_READY, UNREACHABLE};
use super::effort;
use super::options::Options;
use super::pod::{MetaV1LabelSelector, Pod, PodAffinityTerm, Requirement, Toleration, null_as_default};
use super::term::MOST_REQUIREMENTS;
use super::toleration::NO_EXECUTE;
use super::validate;
use crate::selector::{FieldError, FieldErrorType};

/// The only topology key that LimitPodHardAntiAffinityTopology permits.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// `scheduling` of a RuntimeClass.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RuntimeScheduling {
    /// Labels of the nodes that support the RuntimeClass.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Tolerations that its pods get.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
}

/// The reason why an API server would reject a Pod.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdmissionError {
    /// The Pod is invalid.
    #[error("{}", aggregate(.0))]
    Invalid(Vec<FieldError>),
    /// An admission plugin forbids it.
    #[error("{0}")]
    Forbidden(String),
}

/// Joins several errors as upstream does: `[a, b]`.
fn aggregate(problems: &[FieldError]) -> String {
    match problems {
        [problem] => problem.to_string(),
        problems => {
            let texts: Vec<String> = problems.iter().map(ToString::to_string).collect();
            format!("[{}]", texts.join(", "))
        }
    }
}

/// The Pod as an API server would store it. `runtime` has the scheduling constraints of the Pod's RuntimeClass. `None`:
/// the Pod names no RuntimeClass, or its RuntimeClass has no constraints.
///
/// # Errors
/// The Pod is invalid, or an admission plugin forbids it.
pub fn admit(mut pod: Pod, runtime: Option<&RuntimeScheduling>, options: &Options) -> Result<Pod, AdmissionError> {
    if pod.metadata.namespace.is_empty() {
        pod.metadata.namespace = "default".to_owned();
    }
    add_default_tolerations(&mut pod.spec.tolerations, options);
    if let Some(runtime) = runtime {
        merge_runtime_class(&mut pod, runtime)?;
    }
    if options.merges_label_keys() {
        merge_label_keys(&mut pod);
    } else {
        drop_label_keys(&mut pod);
    }
    let problems = validate::pod(&pod, options);
    if !problems.is_empty() {
        return Err(AdmissionError::Invalid(problems));
    }
    if options.limit_hard_anti_affinity_topology {
        limit_hard_anti_affinity(&pod)?;
    }
    Ok(pod)
}

/// Adds the tolerations of the admission plugin DefaultTolerationSeconds: Pods tolerate nodes that are not ready or not
/// reachable for a while. As upstream does, it ignores operator and value of the given tolerations. So a toleration
/// that covers no taint also suppresses a default.
pub fn add_default_tolerations(tolerations: &mut Vec<Toleration>, options: &Options) {
    let defaults = [
        (NOT_READY, options.default_not_ready_toleration_seconds),
        (UNREACHABLE, options.default_unreachable_toleration_seconds),
    ];
    // Both depend on the user's tolerations only: the first default does not suppress the second.
    let given = tolerations.clone();
    for (key, seconds) in defaults {
        let is_given = given.iter().any(|toleration| {
            (toleration.key == key || toleration.key.is_empty())
                && (toleration.effect == NO_EXECUTE || toleration.effect.is_empty())
        });
        if !is_given {
            tolerations.push(Toleration {
                key: key.to_owned(),
                operator: "Exists".to_owned(),
                effect: NO_EXECUTE.to_owned(),
                toleration_seconds: Some(seconds),
                ..Toleration::default()
            });
        }
    }
}

/// Adds the node selector and tolerations of a RuntimeClass, as its admission plugin does.
///
/// # Errors
/// The node selectors contradict each other, or the Pod has more than [`MOST_REQUIREMENTS`] tolerations.
fn merge_runtime_class(pod: &mut Pod, runtime: &RuntimeScheduling) -> Result<(), AdmissionError> {
    for (key, value) in &runtime.node_selector {
        match pod.spec.node_selector.get(key) {
            Some(own) if own != value => {
                return Err(AdmissionError::Forbidden(format!(
                    "pods {} is forbidden: conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; \
                     pod.spec.nodeSelector[{key}] = {own}",
                    crate::model::quote(&pod.metadata.name)
                )));
            }
            _ => {
                pod.spec.node_selector.insert(key.clone(), value.clone());
            }
        }
    }
    // Each toleration is compared with all others. A review of more than this is rejected later in any case.
    let given = pod.spec.tolerations.len();
    if given > MOST_REQUIREMENTS {
        let detail = format!("must have at most {MOST_REQUIREMENTS} items");
        let problem = FieldError::with_text(FieldErrorType::TooMany, "spec.tolerations", &given.to_string(), detail);
        return Err(AdmissionError::Invalid(vec![problem]));
    }
    pod.spec.tolerations = merged_tolerations(&pod.spec.tolerations, &runtime.tolerations);
    Ok(())
}

/// Both lists without tolerations that another one covers; of equal ones the first remains.
fn merged_tolerations(first: &[Toleration], second: &[Toleration]) -> Vec<Toleration> {
    let all: Vec<&Toleration> = first.iter().chain(second).collect();
    let mut merged: Vec<Toleration> = Vec::new();
    for (index, toleration) in all.iter().enumerate() {
        let by_earlier = merged.iter().any(|earlier| covers(earlier, toleration));
        let by_later = all[index + 1..].iter().any(|later| later != toleration && covers(later, toleration));
        if !by_earlier && !by_later {
            merged.push((*toleration).clone());
        }
    }
    merged
}

/// Whether one toleration covers everything that another does (upstream's `isSuperset`).
fn covers(wide: &Toleration, narrow: &Toleration) -> bool {
    effort::note(1);
    if wide == narrow {
        return true;
    }
    if narrow.key != wide.key && (!wide.key.is_empty() || wide.operator != "Exists") {
        return false;
    }
    if narrow.effect != wide.effect && !wide.effect.is_empty() {
        return false;
    }
    if wide.effect == NO_EXECUTE
        && let Some(limit) = wide.toleration_seconds
        && narrow.toleration_seconds.is_none_or(|seconds| seconds > limit)
    {
        return false;
    }
    match &*wide.operator {
        "" | "Equal" => narrow.operator == "Equal" && narrow.value == wide.value,
        "Exists" => true,
        _ => false,
    }
}

/// The pod affinity and anti-affinity terms of a Pod, required and preferred.
fn terms_of(pod: &mut Pod) -> impl Iterator<Item = &mut PodAffinityTerm> {
    let affinity = pod.spec.affinity.as_mut();
    let both = affinity.map(|affinity| [affinity.pod_affinity.as_mut(), affinity.pod_anti_affinity.as_mut()]);
    both.into_iter().flatten().flatten().flat_map(|pods| {
        let preferred = pods.preferred.iter_mut().map(|weighted| &mut weighted.pod_affinity_term);
        preferred.chain(&mut pods.required)
    })
}

/// Merges matchLabelKeys and mismatchLabelKeys into the label selectors of the Pod's terms (KEP-3633): each key becomes
/// a requirement with the value of the Pod's own label. The lists of keys remain. A null selector remains null; a key
/// that is not a label of the Pod adds nothing.
pub fn merge_label_keys(pod: &mut Pod) {
    let labels = pod.metadata.labels.clone();
    for term in terms_of(pod) {
        let lists = [("In", &term.match_label_keys), ("NotIn", &term.mismatch_label_keys)];
        if let Some(MetaV1LabelSelector { match_expressions, .. }) = &mut term.label_selector {
            for (operator, keys) in lists {
                let found = keys.iter().filter_map(|key| labels.get(key).map(|value| (key, value)));
                match_expressions.extend(found.map(|(key, value)| Requirement {
                    key: key.clone(),
                    operator: operator.to_owned(),
                    values: vec![value.clone()],
                }));
            }
        }
    }
}

/// Clears matchLabelKeys and mismatchLabelKeys, as an API server does while the feature is off.
fn drop_label_keys(pod: &mut Pod) {
    for term in terms_of(pod) {
        term.match_label_keys.clear();
        term.mismatch_label_keys.clear();
    }
}

/// Checks a Pod as the admission plugin LimitPodHardAntiAffinityTopology does.
///
/// # Errors
/// A required anti-affinity term has another topology key than [`HOSTNAME`].
fn limit_hard_anti_affinity(pod: &Pod) -> Result<(), AdmissionError> {
    let terms = pod.spec.pod_anti_affinity().into_iter().flat_map(|affinity| &affinity.required);
    match terms.map(|term| &term.topology_key).find(|key| *key != HOSTNAME) {
        None => Ok(()),
        Some(key) => Err(AdmissionError::Forbidden(format!(
            "pods {} is forbidden: affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey {key} but only key \
             {HOSTNAME} is allowed",
            crate::model::quote(&pod.metadata.name)
        ))),
    }
}
