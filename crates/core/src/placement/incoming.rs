//! The pod to place, parsed once and tested against each node.

use super::labels::PackedLabels;
use super::options::{Options, Plugin};
use super::pod::{NodeSelector, Pod};
use super::term::{Narrowing, NodeTerm, PodTerm, TermList, Unparsable};

const REQUIRED_TERMS: &str =
    "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
const PREFERRED_TERMS: &str = "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution";

/// The path of a required node selector term within a Pod.
pub(super) fn required_term_path(index: usize) -> String {
    format!("{REQUIRED_TERMS}[{index}]")
}

/// The Pod to place, with its requirements parsed.
#[derive(Clone, Debug)]
pub(super) struct Incoming {
    pub(super) pod: Pod,
    pub(super) labels: PackedLabels,
    pub(super) narrowing: Narrowing,
    /// The terms of required node affinity, of which one must match. `None`: the Pod has no required node affinity.
    pub(super) required: Option<Vec<NodeTerm>>,
    /// Like `required`, from the scheduler's configuration (addedAffinity).
    pub(super) enforced: Option<Vec<NodeTerm>>,
    /// The Pod's preferred node affinity: weights and terms, without those that cannot change a score.
    pub(super) preferred: Vec<(i64, NodeTerm)>,
    /// The preferences that the scheduler's configuration adds.
    pub(super) added_preferred: Vec<(i64, NodeTerm)>,
    /// Whether the Pod or the configuration has preferences for nodes, with or without effect: otherwise NodeAffinity
    /// gives no scores.
    pub(super) prefers_nodes: bool,
    /// The first preference of the Pod that cannot be parsed: the scheduler fails when it computes scores.
    pub(super) unparsable_preference: Option<Unparsable>,
    /// The terms of [`TermList::RequiredAffinity`], each with weight 0.
    pub(super) required_affinity: Vec<(PodTerm, i32)>,
    /// The terms of [`TermList::RequiredAntiAffinity`], each with weight 0.
    pub(super) required_anti_affinity: Vec<(PodTerm, i32)>,
    /// The terms of [`TermList::PreferredAffinity`] and their weights.
    pub(super) preferred_affinity: Vec<(PodTerm, i32)>,
    /// The terms of [`TermList::PreferredAntiAffinity`] and their weights, which are positive.
    pub(super) preferred_anti_affinity: Vec<(PodTerm, i32)>,
    /// The first pod affinity term that cannot be parsed: the scheduler then rejects the Pod on every node.
    pub(super) unparsable: Option<Unparsable>,
}

/// Parses the terms of a node selector.
fn node_terms(selector: &NodeSelector) -> Vec<NodeTerm> {
    let terms = selector.node_selector_terms.iter().enumerate();
    terms.map(|(index, term)| NodeTerm::new(term, &required_term_path(index))).collect()
}

impl Incoming {
    /// Parses a Pod's requirements. A term that cannot be parsed is not an error here: it rejects nodes.
    pub(super) fn new(pod: &Pod, options: &Options) -> Incoming {
        let mut unparsable = None;
        let mut terms = |list: TermList| {
            list.parse(pod).unwrap_or_else(|error| {
                unparsable.get_or_insert(error);
                Vec::new()
            })
        };
        let required_affinity = terms(TermList::RequiredAffinity);
        let required_anti_affinity = terms(TermList::RequiredAntiAffinity);
        let preferred_affinity = terms(TermList::PreferredAffinity);
        let preferred_anti_affinity = terms(TermList::PreferredAntiAffinity);
        let written = pod.spec.preferred_node_affinity();
        let added = options.added_affinity.as_ref();
        let added_written = added.map_or(&[][..], |added| &added.preferred);
        let (preferred, unparsable_preference) = preferences(written);
        let narrows = options.filters_with(Plugin::NodeAffinity);
        Incoming {
            labels: PackedLabels::new(&pod.metadata.labels),
            narrowing: if narrows { Narrowing::from_terms(pod.spec.required_node_affinity()) } else { Narrowing::All },
            required: pod.spec.required_node_affinity().map(node_terms),
            enforced: added.and_then(|added| added.required.as_ref()).map(node_terms),
            preferred,
            // A configuration with a term that cannot be parsed has been rejected.
            added_preferred: preferences(added_written).0,
            prefers_nodes: !written.is_empty() || !added_written.is_empty(),
            unparsable_preference,
            required_affinity,
            required_anti_affinity,
            preferred_affinity,
            preferred_anti_affinity,
            unparsable,
            pod: pod.clone(),
        }
    }

    /// Whether the Pod has preferred terms of pod affinity or anti-affinity.
    pub(super) fn prefers_pods(&self) -> bool {
        !self.preferred_affinity.is_empty() || !self.preferred_anti_affinity.is_empty()
    }
}

/// The preferences that can change a score, and the error of the first that cannot be parsed. As in the scheduler,
/// preferences without requirements and those with weight 0 are ignored, even if they are invalid.
fn preferences(written: &[super::pod::PreferredSchedulingTerm]) -> (Vec<(i64, NodeTerm)>, Option<Unparsable>) {
    let mut scored = Vec::new();
    let mut unparsable = None;
    for (index, preferred) in written.iter().enumerate().filter(|(_, preferred)| preferred.weight != 0) {
        match NodeTerm::new(&preferred.preference, &format!("{PREFERRED_TERMS}[{index}].preference")) {
            NodeTerm::Empty => {}
            NodeTerm::Unparsable(error) => {
                unparsable.get_or_insert(error);
            }
            term @ NodeTerm::Parsed { .. } => scored.push((i64::from(preferred.weight), term)),
        }
    }
    (scored, unparsable)
}
