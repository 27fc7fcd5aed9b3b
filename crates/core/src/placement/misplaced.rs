//! Running pods: those that could not be placed on their nodes now, evictions and their times, and users of label keys.
//!
//! Node affinity and pod affinity never evict ("IgnoredDuringExecution"); only NoExecute taints do. A Pod that could
//! not be placed again continues to run; users should learn this before it restarts.

use super::answer::PlacementResult;
use super::cluster::ClusterIndex;
use super::explain::derived;
use super::options::Options;
use super::review::{PodReference, RejectionReport};
use super::term::TermList;
use super::toleration::{Eviction, NO_EXECUTE, eviction};

/// A pod that is bound to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resident {
    /// The Pod.
    pub pod: PodReference,
    /// The reasons why the Pod could not be placed on its node now; empty if it could, or if it has terminated.
    pub rejections: Vec<RejectionReport>,
    /// The eviction that the node's NoExecute taints cause.
    pub eviction: Eviction,
    /// For an eviction after some time: when the first NoExecute taint was added (RFC 3339). `None` if no taint has a
    /// time, or for another eviction. The controller counts from when it first sees the Pod and the taint, so this is
    /// an estimate.
    pub tainted_since: Option<String>,
}

/// A pod that lists label keys in a pod affinity term.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelKeyUse {
    /// The Pod.
    pub pod: PodReference,
    /// The path of the term in the Pod.
    pub field_path: String,
    /// matchLabelKeys of the term.
    pub match_label_keys: Vec<String>,
    /// mismatchLabelKeys of the term.
    pub mismatch_label_keys: Vec<String>,
    /// The requirements that the API server added for these keys, as `key=value` or `key!=value`. Empty if the Pod had
    /// no such labels, or was created while the feature was off.
    pub derived: Vec<String>,
}

impl ClusterIndex {
    /// The Pods bound to a node, sorted by namespace and name; `None` if the node does not exist.
    pub fn residents(&self, node: &str, options: &Options) -> Option<Vec<Resident>> {
        let slot = self.known_node(node)?;
        let place = self.nodes.get(slot as usize)?;
        let facts = place.facts.as_ref()?;
        let mut residents = Vec::new();
        for entry in place.pods.iter().filter_map(|bound| self.pod(bound.pod)) {
            let (namespace, name) = entry.names();
            let rejections = match entry.group {
                Some(_) => PlacementResult::on_node(self, &self.document(entry), options, slot),
                None => Vec::new(),
            };
            let eviction = eviction(&facts.taints, entry.tolerations(), options.toleration_comparison);
            let since = facts.taints.iter().filter(|taint| taint.effect == NO_EXECUTE);
            let tainted_since = match eviction {
                // Times of one form compare as texts.
                Eviction::After(_) => since.filter_map(|taint| taint.time_added.clone()).min(),
                Eviction::Never | Eviction::Now => None,
            };
            let pod = PodReference { namespace: namespace.to_owned(), name: name.to_owned() };
            residents.push(Resident { pod, rejections, eviction, tainted_since });
        }
        residents
            .sort_by(|left, right| (&left.pod.namespace, &left.pod.name).cmp(&(&right.pod.namespace, &right.pod.name)));
        Some(residents)
    }

    /// The Pods on a node that could not be placed there now, or that will be evicted; `None` if the node does not
    /// exist.
    pub fn misplaced(&self, node: &str, options: &Options) -> Option<Vec<Resident>> {
        let is_misplaced =
            |resident: &Resident| !resident.rejections.is_empty() || resident.eviction != Eviction::Never;
        self.residents(node, options).map(|residents| residents.into_iter().filter(is_misplaced).collect())
    }

    /// All pod affinity terms with label keys, of Pods that are bound or not; sorted by namespace, name and path.
    pub fn label_key_uses(&self) -> Vec<LabelKeyUse> {
        let mut uses = Vec::new();
        for entry in self.pods().filter(|entry| entry.affinity().is_some()) {
            let (namespace, name) = entry.names();
            let pod = self.document(entry);
            for list in TermList::ALL {
                for (index, (term, _)) in list.written(&pod.spec).into_iter().enumerate() {
                    if term.match_label_keys.is_empty() && term.mismatch_label_keys.is_empty() {
                        continue;
                    }
                    uses.push(LabelKeyUse {
                        pod: PodReference { namespace: namespace.to_owned(), name: name.to_owned() },
                        field_path: format!("spec.{}", list.path(index)),
                        match_label_keys: term.match_label_keys.clone(),
                        mismatch_label_keys: term.mismatch_label_keys.clone(),
                        derived: derived(term),
                    });
                }
            }
        }
        let rank = |one: &LabelKeyUse| (one.pod.namespace.clone(), one.pod.name.clone(), one.field_path.clone());
        uses.sort_by_cached_key(rank);
        uses
    }
}
