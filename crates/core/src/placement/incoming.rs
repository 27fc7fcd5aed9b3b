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

/// The incoming pod.
#[derive(Clone, Debug)]
pub(super) struct Incoming {
    pub(super) pod: Pod,
    pub(super) labels: PackedLabels,
    pub(super) narrowing: Narrowing,
    /// None: no required node affinity.
    pub(super) required: Option<Vec<NodeTerm>>,
    /// Required by the scheduler's configuration.
    pub(super) enforced: Option<Vec<NodeTerm>>,
    /// Weights and terms, without those that add nothing.
    pub(super) preferred: Vec<(i64, NodeTerm)>,
    /// The preferences that the scheduler's configuration adds.
    pub(super) added_preferred: Vec<(i64, NodeTerm)>,
    /// Whether there is a list of preferences at all: without it the plugin gives no scores.
    pub(super) prefers_nodes: bool,
    /// A preference that cannot be parsed: the scheduler's cycle fails when it computes scores.
    pub(super) unparsable_preference: Option<Unparsable>,
    pub(super) required_affinity: Vec<(PodTerm, i32)>,
    pub(super) required_anti_affinity: Vec<(PodTerm, i32)>,
    pub(super) preferred_affinity: Vec<(PodTerm, i32)>,
    pub(super) preferred_anti_affinity: Vec<(PodTerm, i32)>,
    /// A pod affinity term that cannot be parsed ends the cycle.
    pub(super) unparsable: Option<Unparsable>,
}

/// Parses the terms of a node selector.
fn node_terms(selector: &NodeSelector) -> Vec<NodeTerm> {
    let terms = selector.node_selector_terms.iter().enumerate();
    terms.map(|(index, term)| NodeTerm::new(term, &required_term_path(index))).collect()
}

impl Incoming {
    /// Parses a Pod's requirements. An unparsable term makes it unschedulable.
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

/// The preferences that can be scored, and the first that cannot be parsed. An empty one, or one without weight, is not
/// even parsed.
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
