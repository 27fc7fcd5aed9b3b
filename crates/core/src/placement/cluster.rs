//! The indexed snapshot that placement is computed from: nodes, pods by node and by group, carried terms, namespaces.
//!
//! One writer changes a [`ClusterIndex`]; readers hold a clone, which shares everything that did not change since. A
//! review with other premises (a taint, a label, a missing pod) is evaluated on a clone that was changed accordingly.
//! So is a review of a pod that is itself in the index. Every object may come in any order: pods of an unknown node
//! wait for it. [`super::evaluate`] has the rules; [`super::pod`] and [`super::node`] describe the objects.

use std::collections::BTreeMap;
use std::sync::Arc;

use imbl::{HashMap, OrdSet, Vector};
use serde::Serialize;

use super::carried::{CarriedTerms, carried_by};
use super::effort;
use super::groups::{Coverage, Membership, PodGroupKey, PodGroups};
use super::labels::PackedLabels;
use super::node::{Namespace, Node, Taint};
use super::pod::{Affinity, Metadata, Pod, PodSpec, Toleration};
use super::pool::{Held, Pool};
use super::term::{PodTerm, selects};
use super::topology::{Topologies, Topology};
use crate::selector::LabelSelection;

/// The parts of a node that rules use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NodeFacts {
    pub(super) labels: PackedLabels,
    pub(super) taints: Vec<Taint>,
    pub(super) unschedulable: bool,
}

/// A node in the index. Its slot does not change as long as the node or a Pod that is bound to it is known.
#[derive(Clone, Debug)]
pub(super) struct NodeSlot {
    pub(super) name: Arc<str>,
    /// None while pods are bound to a node without a Node object.
    pub(super) facts: Option<Arc<NodeFacts>>,
    /// The pods bound to it. They may be all Pods of a cluster, so that no change reads all of them.
    pub(super) pods: OrdSet<Bound>,
}

/// A pod on a node, sorted by its group, so that the pods of one group are found without reading the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Bound {
    /// The number of its group; `None` for a terminated pod.
    group: Option<u32>,
    /// The slot of the pod.
    pub(super) pod: u32,
}

/// The node requirements of a pod, without its labels and tolerations: shared by the pods of a template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct PodRequirements {
    pub(super) node_selector: Vec<(String, String)>,
    pub(super) affinity: Option<Affinity>,
}

/// The approximate memory of affinity or tolerations, as a multiple of the length of their JSON. An affinity is stored
/// three times: as it is written, as terms, and by the values of these.
const GROWTH: u64 = 12;

/// The approximate memory of a node slot without a Node object, in bytes.
const UNKNOWN_NODE: u64 = 700;

/// The approximate memory of a value with this JSON.
fn grown(value: &impl Serialize) -> u64 {
    serde_json::to_vec(value).map_or(0, |json| json.len() as u64 * GROWTH)
}

impl Held for PodRequirements {
    fn held_bytes(&self) -> u64 {
        // Most Pods of a cluster have neither.
        let selector: usize = self.node_selector.iter().map(|(key, value)| 100 + key.len() + value.len()).sum();
        selector as u64 + self.affinity.as_ref().map_or(0, grown)
    }
}

impl Held for Vec<Toleration> {
    fn held_bytes(&self) -> u64 {
        grown(self)
    }
}

/// A pod.
#[derive(Clone, Debug)]
pub(super) struct PodEntry {
    /// `namespace/name`.
    pub(super) key: Arc<str>,
    uid: Box<str>,
    labels: Arc<PackedLabels>,
    requirements: Arc<PodRequirements>,
    tolerations: Arc<Vec<Toleration>>,
    /// Succeeded or Failed: it counts no more, but may still be evicted.
    has_terminated: bool,
    /// The slot of the node that it is bound to.
    pub(super) node: Option<u32>,
    /// The group of a Pod that is bound and has not terminated.
    pub(super) group: Option<u32>,
}

impl PodEntry {
    /// The namespace and the name of the Pod.
    pub(super) fn names(&self) -> (&str, &str) {
        self.key.split_once('/').unwrap_or(("", &self.key))
    }

    pub(super) fn tolerations(&self) -> &[Toleration] {
        &self.tolerations
    }

    pub(super) fn affinity(&self) -> Option<&Affinity> {
        self.requirements.affinity.as_ref()
    }

    /// Whether the entry is equal to this Pod in everything that the index uses. `node` is the slot of its node.
    fn is_as(&self, pod: &Pod, node: Option<u32>) -> bool {
        *self.uid == *pod.metadata.uid
            && self.node == node
            && self.has_terminated == has_terminated(pod)
            && *self.labels == PackedLabels::new(&pod.metadata.labels)
            && *self.tolerations == pod.spec.tolerations
            && *self.requirements == requirements(pod)
    }
}

/// Whether the Pod has the phase Succeeded or Failed: then it no longer counts for other Pods.
fn has_terminated(pod: &Pod) -> bool {
    matches!(&*pod.status.phase, "Succeeded" | "Failed")
}

/// The requirements of a Pod on nodes and on other Pods.
fn requirements(pod: &Pod) -> PodRequirements {
    PodRequirements {
        node_selector: pod.spec.node_selector.iter().map(|(key, value)| (key.clone(), value.clone())).collect(),
        affinity: pod.spec.affinity.clone(),
    }
}

/// Nodes, pods and namespaces at one point in time, indexed. Cloning is cheap.
#[derive(Clone, Debug, Default)]
pub struct ClusterIndex {
    /// The nodes by slot. A slot without Node object and Pods is free.
    pub(super) nodes: Vector<NodeSlot>,
    /// The slot of each node by name, also of one that only Pods refer to.
    node_slots: HashMap<Arc<str>, u32>,
    /// The free slots of nodes.
    free_nodes: Vector<u32>,
    /// The number of Node objects.
    known_nodes: usize,
    /// The Pods by slot; `None` for free slots.
    pods: Vector<Option<Arc<PodEntry>>>,
    /// The slot of each Pod by `namespace/name`.
    pod_slots: HashMap<Arc<str>, u32>,
    /// The free slots of Pods.
    free_pods: Vector<u32>,
    requirements: Pool<PodRequirements>,
    tolerations: Pool<Vec<Toleration>>,
    labels: Pool<PackedLabels>,
    pub(super) groups: PodGroups,
    /// The pod affinity terms of all groups.
    pub(super) carried: CarriedTerms,
    /// The labels of each namespace by name.
    pub(super) namespaces: HashMap<Arc<str>, Arc<PackedLabels>>,
    /// The domains of the topology keys that were requested, of these nodes and no others.
    topologies: Arc<Topologies>,
}

/// Finds one Pod of a group on a node, to name it in a report. Results are cached, because one Pod may reject thousands
/// of nodes.
#[derive(Debug)]
pub(super) struct Witnesses<'cluster> {
    cluster: &'cluster ClusterIndex,
    /// Group and slot of the node -> the Pod.
    found: std::collections::HashMap<(u32, u32), Option<&'cluster PodEntry>>,
}

impl<'cluster> Witnesses<'cluster> {
    pub(super) fn new(cluster: &'cluster ClusterIndex) -> Witnesses<'cluster> {
        Witnesses { cluster, found: std::collections::HashMap::new() }
    }

    /// The first Pod by name of a group on the node in slot `node`; `None` if the group has no Pod there.
    pub(super) fn of(&mut self, group: u32, node: u32) -> Option<&'cluster PodEntry> {
        *self.found.entry((group, node)).or_insert_with(|| self.cluster.witness(group, node))
    }
}

/// The numbers of indexed objects and of the entries of the index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClusterCounts {
    /// Node objects.
    pub nodes: usize,
    /// Pods, whether they count or not.
    pub pods: usize,
    /// Namespace objects.
    pub namespaces: usize,
    /// Groups of pods with the same namespace, labels and pod affinity terms.
    pub groups: usize,
    /// Different pod affinity terms of existing pods.
    pub terms: usize,
}

impl ClusterCounts {
    /// The approximate memory of an index with these counts, in bytes. The factors match the growth of a process with
    /// the corpus of the benchmark, which prints both. [`ClusterIndex::held_bytes`] adds what Pods do not share.
    pub fn held_bytes(&self) -> u64 {
        let parts =
            [(self.nodes, 1_500), (self.pods, 380), (self.namespaces, 300), (self.groups, 900), (self.terms, 600)];
        parts.into_iter().map(|(count, bytes)| count as u64 * bytes).sum()
    }
}

impl ClusterIndex {
    /// The number of indexed objects, for metrics.
    pub fn counts(&self) -> ClusterCounts {
        ClusterCounts {
            nodes: self.known_nodes,
            pods: self.pod_slots.len(),
            namespaces: self.namespaces.len(),
            groups: self.groups.len(),
            terms: self.carried.len(),
        }
    }

    /// The approximate memory of the index, in bytes, without labels and taints of nodes and namespaces that are longer
    /// than usual.
    pub fn held_bytes(&self) -> u64 {
        let unknown_nodes = self.node_slots.len().saturating_sub(self.known_nodes) as u64;
        self.counts().held_bytes()
            + self.requirements.held_bytes()
            + self.tolerations.held_bytes()
            + self.labels.held_bytes()
            + self.groups.posting_bytes()
            + unknown_nodes * UNKNOWN_NODE
    }

    /// Adds or replaces a node; false if nothing that matters for placement changed.
    pub fn upsert_node(&mut self, node: &Node) -> bool {
        let facts = NodeFacts {
            labels: PackedLabels::new(&node.metadata.labels),
            taints: node.spec.taints.clone(),
            unschedulable: node.spec.unschedulable,
        };
        let slot = self.node_slot(&node.metadata.name);
        let Some(place) = self.nodes.get(slot as usize) else { return false };
        if place.facts.as_deref() == Some(&facts) {
            return false;
        }
        self.known_nodes += usize::from(place.facts.is_none());
        // Domains depend on the nodes that exist and on their labels only.
        if place.facts.as_ref().is_none_or(|current| current.labels != facts.labels) {
            self.topologies = Arc::default();
        }
        let changed = NodeSlot { facts: Some(Arc::new(facts)), ..place.clone() };
        self.nodes.set(slot as usize, changed);
        true
    }

    /// Changes labels and taints of a node by calling `change` with them. Does nothing if the node does not exist.
    pub(super) fn change_node(
        &mut self,
        name: &str,
        change: impl FnOnce(&mut BTreeMap<String, String>, &mut Vec<Taint>),
    ) {
        let Some(place) = self.known_node(name).and_then(|slot| self.nodes.get_mut(slot as usize)) else { return };
        let Some(facts) = &place.facts else { return };
        let mut labels = facts.labels.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        let mut taints = facts.taints.clone();
        change(&mut labels, &mut taints);
        let changed = NodeFacts { labels: PackedLabels::new(&labels), taints, unschedulable: facts.unschedulable };
        // The cached domains depend on the labels of nodes; they are computed again on request.
        if facts.labels != changed.labels {
            self.topologies = Arc::default();
        }
        place.facts = Some(Arc::new(changed));
    }

    /// Removes a node; false if it is unknown. The index keeps Pods that are bound to it, in case a node of that name
    /// returns.
    pub fn remove_node(&mut self, name: &str) -> bool {
        let Some(slot) = self.node_slots.get(name).copied() else { return false };
        let Some(place) = self.nodes.get_mut(slot as usize) else { return false };
        let was_known = place.facts.take().is_some();
        self.topologies = Arc::default();
        self.known_nodes -= usize::from(was_known);
        self.forget_node_if_bare(slot);
        was_known
    }

    /// Adds or replaces a Pod; false if nothing that matters for placement changed.
    pub fn upsert_pod(&mut self, pod: &Pod) -> bool {
        let key = pod.key();
        let existing = self.pod_slots.get(&*key).copied();
        if let Some(existing) = existing.and_then(|slot| self.pod(slot)) {
            let node = self.node_slots.get(&*pod.spec.node_name).copied().filter(|_| !pod.spec.node_name.is_empty());
            // The entry cannot be equal if the Pod names a node that has no slot yet.
            if (node.is_some() || pod.spec.node_name.is_empty()) && existing.is_as(pod, node) {
                return false;
            }
        }
        self.remove_pod(&pod.metadata.namespace, &pod.metadata.name);
        let slot = self.free_pods.pop_back().unwrap_or_else(|| {
            self.pods.push_back(None);
            u32::try_from(self.pods.len() - 1).unwrap_or(u32::MAX)
        });
        let labels = self.labels.share(PackedLabels::new(&pod.metadata.labels));
        let node = (!pod.spec.node_name.is_empty()).then(|| self.node_slot(&pod.spec.node_name));
        let group = node.filter(|_| !has_terminated(pod)).map(|node| self.join(pod, &labels, node));
        if let Some(place) = node.and_then(|node| self.nodes.get_mut(node as usize)) {
            effort::note(1);
            place.pods.insert(Bound { group, pod: slot });
        }
        let entry = PodEntry {
            key: key.into(),
            uid: pod.metadata.uid.as_str().into(),
            labels,
            requirements: self.requirements.share(requirements(pod)),
            tolerations: self.tolerations.share(pod.spec.tolerations.clone()),
            has_terminated: has_terminated(pod),
            node,
            group,
        };
        self.pod_slots.insert(Arc::clone(&entry.key), slot);
        self.pods.set(slot as usize, Some(Arc::new(entry)));
        true
    }

    /// Adds a Pod on the node in slot `node` to its group, which is created if needed. Returns the number of the group.
    /// `labels` are the shared labels of the Pod.
    fn join(&mut self, pod: &Pod, labels: &Arc<PackedLabels>, node: u32) -> u32 {
        let terms: Box<[u32]> = carried_by(pod).into_iter().map(|carried| self.carried.number(carried)).collect();
        let key = PodGroupKey { namespace: pod.metadata.namespace.as_str().into(), labels: Arc::clone(labels), terms };
        let terms = key.terms.clone();
        let membership = self.groups.join(key, node);
        if let Membership::CreatedOrRemoved(group) = membership {
            self.carried.add_group(&terms, group);
        }
        membership.number()
    }

    /// Removes a pod; false if it is unknown.
    pub fn remove_pod(&mut self, namespace: &str, name: &str) -> bool {
        match self.pod_slots.get(&*format!("{namespace}/{name}")).copied() {
            Some(slot) => {
                self.remove_pod_in(slot);
                true
            }
            None => false,
        }
    }

    /// Removes the Pod in a slot, and its group, node and shared values if nothing else uses them.
    fn remove_pod_in(&mut self, slot: u32) {
        let Some(entry) = self.pods.get_mut(slot as usize).and_then(Option::take) else { return };
        self.pod_slots.remove(&*entry.key);
        self.free_pods.push_back(slot);
        if let (Some(node), Some(group)) = (entry.node, entry.group) {
            let terms = self.groups.get(group).map(|group| Arc::clone(&group.key));
            if let (Membership::CreatedOrRemoved(group), Some(key)) = (self.groups.leave(group, node), terms) {
                self.carried.remove_group(&key.terms, group);
            }
        }
        if let Some(node) = entry.node {
            if let Some(place) = self.nodes.get_mut(node as usize) {
                effort::note(1);
                place.pods.remove(&Bound { group: entry.group, pod: slot });
            }
            self.forget_node_if_bare(node);
        }
        self.requirements.release(&entry.requirements);
        self.tolerations.release(&entry.tolerations);
        self.labels.release(&entry.labels);
    }

    /// A copy of the cluster without the Pod of the same namespace and name, and without the Pod of the same uid.
    pub(super) fn without(&self, pod: &Pod) -> ClusterIndex {
        let metadata = &pod.metadata;
        let mut cluster = self.clone();
        let named = self.pod_slots.get(&*pod.key()).copied().filter(|_| !metadata.name.is_empty());
        let has_uid = |slot: u32| self.pod(slot).is_some_and(|entry| *entry.uid == *metadata.uid);
        if let Some(slot) = named {
            cluster.remove_pod_in(slot);
        }
        // The Pod with this uid usually has this name. A client may have changed the name in its copy: that is rare, so
        // all Pods are scanned.
        if !metadata.uid.is_empty() && !named.is_some_and(has_uid) {
            let mut slots = (0u32..).take(self.pods.len());
            if let Some(slot) = slots.find(|slot| has_uid(*slot)) {
                cluster.remove_pod_in(slot);
            }
        }
        cluster
    }

    /// Adds or replaces a namespace; false if its labels are the same.
    pub fn upsert_namespace(&mut self, namespace: &Namespace) -> bool {
        let namespace = namespace.clone().with_name_label();
        let labels = Arc::new(PackedLabels::new(&namespace.metadata.labels));
        let name: Arc<str> = namespace.metadata.name.into();
        if self.namespaces.get(&name) == Some(&labels) {
            return false;
        }
        self.namespaces.insert(name, labels);
        true
    }

    /// Removes a namespace; false if it is unknown.
    pub fn remove_namespace(&mut self, name: &str) -> bool {
        self.namespaces.remove(name).is_some()
    }

    /// The slot of a node, which is created if needed.
    fn node_slot(&mut self, name: &str) -> u32 {
        if let Some(slot) = self.node_slots.get(name) {
            return *slot;
        }
        let name: Arc<str> = name.into();
        let place = NodeSlot { name: Arc::clone(&name), facts: None, pods: OrdSet::new() };
        let slot = match self.free_nodes.pop_back() {
            Some(slot) => {
                self.nodes.set(slot as usize, place);
                slot
            }
            None => {
                self.nodes.push_back(place);
                u32::try_from(self.nodes.len() - 1).unwrap_or(u32::MAX)
            }
        };
        self.node_slots.insert(name, slot);
        slot
    }

    /// Frees the slot of a node that does not exist and has no Pods.
    fn forget_node_if_bare(&mut self, slot: u32) {
        let Some(place) = self.nodes.get(slot as usize) else { return };
        if place.facts.is_none() && place.pods.is_empty() {
            let name = Arc::clone(&place.name);
            // A free slot is still in `nodes`, and must not be freed twice.
            if self.node_slots.remove(&*name).is_some() {
                self.free_nodes.push_back(slot);
            }
        }
    }

    /// The Pod in a slot; `None` if the slot is free.
    pub(super) fn pod(&self, slot: u32) -> Option<&PodEntry> {
        self.pods.get(slot as usize)?.as_deref()
    }

    pub(super) fn pods(&self) -> impl Iterator<Item = &PodEntry> {
        self.pods.iter().flatten().map(|entry| &**entry)
    }

    /// The slot of the node with this name; `None` if there is no such Node object.
    pub(super) fn known_node(&self, name: &str) -> Option<u32> {
        let slot = self.node_slots.get(name).copied()?;
        self.nodes.get(slot as usize).filter(|place| place.facts.is_some()).map(|_| slot)
    }

    /// The first Pod by name of a group on a node. Reads all of these Pods; [`Witnesses`] caches the result.
    fn witness(&self, group: u32, node: u32) -> Option<&PodEntry> {
        let bound = |pod: u32| Bound { group: Some(group), pod };
        let pods = self.nodes.get(node as usize)?.pods.range(bound(0)..=bound(u32::MAX));
        let members = pods.inspect(|_| effort::note(1)).filter_map(|bound| self.pod(bound.pod));
        members.min_by(|left, right| left.key.cmp(&right.key))
    }

    /// An indexed Pod as a document, with the fields that the index stores.
    pub(super) fn document(&self, entry: &PodEntry) -> Pod {
        let (namespace, name) = entry.names();
        let node = entry.node.and_then(|node| self.nodes.get(node as usize));
        Pod {
            metadata: Metadata {
                name: name.to_owned(),
                namespace: namespace.to_owned(),
                uid: entry.uid.to_string(),
                labels: entry.labels.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
            },
            spec: PodSpec {
                node_name: node.map(|node| node.name.to_string()).unwrap_or_default(),
                node_selector: entry.requirements.node_selector.iter().cloned().collect(),
                affinity: entry.requirements.affinity.clone(),
                tolerations: entry.tolerations.to_vec(),
                ..PodSpec::default()
            },
            ..Pod::default()
        }
    }

    /// Whether any node has a label with this key.
    pub(super) fn has_topology(&self, key: &str) -> bool {
        self.topologies.keys(&self.nodes).contains(key)
    }

    /// The domains of a topology key, from the cache.
    pub(super) fn topology(&self, key: &str) -> Arc<Topology> {
        self.topologies.get(key, || Topology::new(&self.nodes, key))
    }

    /// The position of the node in slot `node` in the alphabetical order of all names; `u32::MAX` if there is no such
    /// slot.
    pub(super) fn name_rank(&self, node: u32) -> u32 {
        self.topologies.name_ranks(&self.nodes).get(node as usize).copied().unwrap_or(u32::MAX)
    }

    /// For each slot of a node, whether its Node object exists; `None` if it does for every slot that is not free.
    pub(super) fn known_nodes(&self) -> Option<Vec<bool>> {
        let all_are = self.known_nodes == self.node_slots.len();
        (!all_are).then(|| self.nodes.iter().map(|place| place.facts.is_some()).collect())
    }

    /// The number of slots for nodes, Pods, groups and terms, and of values in the pools.
    #[cfg(test)]
    pub(super) fn slots(&self) -> [usize; 7] {
        let pools = [self.requirements.len(), self.tolerations.len(), self.labels.len()];
        let [requirements, tolerations, labels] = pools;
        let (groups, terms) = (self.groups.slots(), self.carried.slots());
        [self.nodes.len(), self.pods.len(), groups, terms, requirements, tolerations, labels]
    }

    /// The labels of a namespace; empty if there is no such Namespace object.
    pub(super) fn namespace_labels(&self, name: &str) -> PackedLabels {
        self.namespaces.get(name).map(|labels| (**labels).clone()).unwrap_or_default()
    }

    /// The namespaces that a term of an incoming pod covers: those that it names, and the existing ones with the labels
    /// that it selects.
    pub(super) fn coverage(&self, term: &PodTerm) -> Coverage {
        if term.namespace_selection == LabelSelection::Everything {
            return Coverage::All;
        }
        let by_label = self.namespaces.iter().filter(|(_, labels)| selects(&term.namespace_selection, labels));
        let by_name = term.namespaces.iter().map(|name| Arc::from(name.as_str()));
        Coverage::Names(by_name.chain(by_label.map(|(name, _)| Arc::clone(name))).collect())
    }
}
