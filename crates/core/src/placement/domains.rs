//! Matches of the incoming pod in each topology domain: counted once, then looked up for every node.
//!
//! A topology key cuts the nodes into domains by the value of that label; nodes without it are in none. For each key
//! that a term names there is one table. It marks the domains that meet all required affinity terms, and those that
//! anti-affinity (own or others') rejects, with a pod that causes this. It also has the scores from preferred terms.
//! Sources: `interpodaffinity/filtering.go` and `scoring.go`.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use roaring::RoaringBitmap;

use super::carried::Effect;
use super::cluster::ClusterIndex;
use super::effort;
use super::groups::NodePodCount;
use super::incoming::Incoming;
use super::options::{Options, Plugin};
use super::term::{PodTerm, TermList, selects};
use super::topology::Topology;

/// A group of Pods on a node that makes a term reject the node's domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Witness {
    /// The index of the incoming pod's term, or the number of the existing pods' term.
    pub(super) term: u32,
    /// The number of the group.
    pub(super) group: u32,
    /// The slot of the node.
    pub(super) node: u32,
}

/// The matches of a review in the domains of one topology key.
#[derive(Debug)]
pub(super) struct DomainTable {
    topology: Arc<Topology>,
    /// By domain: whether a pod that meets all required affinity terms runs there.
    has_affinity: Vec<bool>,
    /// By domain: a Pod that the incoming Pod's anti-affinity rejects.
    anti_affinity: Vec<Option<Witness>>,
    /// By domain: a Pod whose own anti-affinity rejects the incoming Pod.
    existing: Vec<Option<Witness>>,
    /// By domain: the sum of the weights of preferred terms.
    score: Vec<i64>,
    /// Whether any term added to the scores, even if the sum is zero.
    is_scored: bool,
}

impl DomainTable {
    /// An empty table for the domains of a topology key.
    fn new(cluster: &ClusterIndex, key: &str) -> DomainTable {
        let topology = cluster.topology(key);
        let domains = topology.domains();
        DomainTable {
            topology,
            has_affinity: vec![false; domains],
            anti_affinity: vec![None; domains],
            existing: vec![None; domains],
            score: vec![0; domains],
            is_scored: false,
        }
    }

    /// Whether the node has the label of the topology key.
    pub(super) fn has_domain(&self, node: u32) -> bool {
        self.topology.domain(node).is_some()
    }

    /// Whether a Pod that meets all required affinity terms runs in the domain of the node.
    pub(super) fn has_affinity(&self, node: u32) -> bool {
        self.topology.domain(node).is_some_and(|domain| self.has_affinity[domain])
    }

    /// A Pod in the domain of the node that the incoming Pod's anti-affinity rejects; `None` if there is none.
    pub(super) fn anti_affinity(&self, node: u32) -> Option<Witness> {
        self.anti_affinity[self.topology.domain(node)?]
    }

    /// A Pod in the domain of the node whose own anti-affinity rejects the incoming Pod; `None` if there is none.
    pub(super) fn existing(&self, node: u32) -> Option<Witness> {
        self.existing[self.topology.domain(node)?]
    }

    /// The score of the node's domain; 0 if the node has none.
    pub(super) fn score(&self, node: u32) -> i64 {
        self.topology.domain(node).map_or(0, |domain| self.score[domain])
    }

    /// Adds `weight` to the score of a domain for each Pod that runs there; `places` has the number of Pods by node.
    fn add(&mut self, places: &[NodePodCount], weight: i64) {
        for (node, pods) in places {
            if let Some(domain) = self.topology.domain(*node) {
                self.score[domain] += weight * i64::from(*pods);
                self.is_scored = true;
            }
        }
    }
}

/// The numbers of the groups of Pods that a term of the incoming pod selects.
pub(super) fn selected(cluster: &ClusterIndex, term: &PodTerm) -> Vec<u32> {
    cluster.groups.matching(term, &cluster.coverage(term))
}

/// The maximum number of groups, of all terms together, that a review caches; they take 4 MiB. Each Pod can be a group
/// of its own, and 256 terms can select all of them.
const MOST_SELECTED: usize = 1 << 20;

/// All tables of a review.
#[derive(Debug, Default)]
pub(super) struct Domains {
    tables: Vec<DomainTable>,
    /// Topology key -> position of its table. Each node looks up the table of each term.
    positions: HashMap<String, usize>,
    /// Whether no existing Pod meets all required affinity terms in any domain.
    pub(super) is_first_of_group: bool,
    /// The groups that the incoming pod's terms select, by list and index, so that reports of terms need no second
    /// search. At most [`MOST_SELECTED`] groups; other terms are missing.
    pub(super) selected: BTreeMap<(TermList, usize), Vec<u32>>,
    /// The number of groups in `selected`.
    selected_groups: usize,
}

impl Domains {
    /// The table of a topology key; `None` if no term has that key.
    pub(super) fn table(&self, key: &str) -> Option<&DomainTable> {
        effort::note(1);
        self.tables.get(*self.positions.get(key)?)
    }

    pub(super) fn tables(&self) -> &[DomainTable] {
        &self.tables
    }

    /// The topology keys that have a table, in the order of their tables.
    #[cfg(test)]
    pub(super) fn keys(&self) -> Vec<&str> {
        let mut keys: Vec<&str> = self.positions.keys().map(String::as_str).collect();
        keys.sort_by_key(|key| self.positions.get(*key));
        keys
    }

    /// The position of the table of a topology key, which is created if needed.
    fn table_position(&mut self, cluster: &ClusterIndex, key: &str) -> usize {
        effort::note(1);
        if let Some(position) = self.positions.get(key) {
            return *position;
        }
        self.tables.push(DomainTable::new(cluster, key));
        self.positions.insert(key.to_owned(), self.tables.len() - 1);
        self.tables.len() - 1
    }

    /// Caches the groups that a term selects, unless the cache would exceed [`MOST_SELECTED`].
    fn remember(&mut self, term: (TermList, usize), groups: &[u32]) {
        if self.selected_groups + groups.len() <= MOST_SELECTED {
            self.selected_groups += groups.len();
            self.selected.insert(term, groups.to_vec());
        }
    }

    /// Whether InterPodAffinity contributes scores.
    pub(super) fn are_scored(&self) -> bool {
        self.tables.iter().any(|table| table.is_scored)
    }

    /// Evaluates all pod affinity terms of a Pod over the topology domains.
    pub(super) fn new(cluster: &ClusterIndex, incoming: &Incoming, options: &Options) -> Domains {
        let mut domains = Domains::default();
        if options.filters_with(Plugin::InterPodAffinity) {
            domains.evaluate_required_affinity(cluster, incoming);
            domains.evaluate_required_anti_affinity(cluster, incoming);
        }
        if options.weights.inter_pod_affinity != 0 {
            domains.evaluate_preferences(cluster, incoming);
        }
        domains.evaluate_existing_pods_terms(cluster, incoming, options);
        domains
    }

    /// Marks the domains where a Pod runs that satisfies all required affinity terms.
    fn evaluate_required_affinity(&mut self, cluster: &ClusterIndex, incoming: &Incoming) {
        let terms: Vec<&PodTerm> = incoming.required_affinity.iter().map(|(term, _)| term).collect();
        let positions: Vec<usize> = terms.iter().map(|term| self.table_position(cluster, &term.topology_key)).collect();
        // The groups that all terms so far select; `None` before the first term.
        let mut by_all: Option<Vec<u32>> = None;
        for (index, term) in terms.iter().enumerate() {
            let groups = selected(cluster, term);
            self.remember((TermList::RequiredAffinity, index), &groups);
            by_all = Some(match by_all {
                None => groups,
                Some(earlier) => {
                    let these: RoaringBitmap = groups.into_iter().collect();
                    earlier.into_iter().filter(|group| these.contains(*group)).collect()
                }
            });
        }
        self.is_first_of_group = true;
        let mut places = cluster.groups.places();
        for group in by_all.into_iter().flatten() {
            let places = places.nodes_of(group);
            for position in &positions {
                let DomainTable { topology, has_affinity, .. } = &mut self.tables[*position];
                for domain in places.iter().filter_map(|(node, _)| topology.domain(*node)) {
                    has_affinity[domain] = true;
                    self.is_first_of_group = false;
                }
            }
        }
    }

    /// Marks the domains where a Pod runs that a required anti-affinity term selects.
    fn evaluate_required_anti_affinity(&mut self, cluster: &ClusterIndex, incoming: &Incoming) {
        for ((term, _), index) in incoming.required_anti_affinity.iter().zip(0..) {
            let position = self.table_position(cluster, &term.topology_key);
            let DomainTable { topology, anti_affinity, .. } = &mut self.tables[position];
            let groups = selected(cluster, term);
            let mut places = cluster.groups.places();
            for group in &groups {
                mark_domains(anti_affinity, topology, *group, places.nodes_of(*group), index);
            }
            self.remember((TermList::RequiredAntiAffinity, index as usize), &groups);
        }
    }

    /// Adds the weights of preferred terms to the scores.
    fn evaluate_preferences(&mut self, cluster: &ClusterIndex, incoming: &Incoming) {
        let (affinity, anti_affinity) = (&incoming.preferred_affinity, &incoming.preferred_anti_affinity);
        let lists = [(TermList::PreferredAffinity, 1, affinity), (TermList::PreferredAntiAffinity, -1, anti_affinity)];
        for (list, sign, terms) in lists {
            for (index, (term, weight)) in terms.iter().enumerate() {
                let position = self.table_position(cluster, &term.topology_key);
                let groups = selected(cluster, term);
                let (table, weight) = (&mut self.tables[position], sign * i64::from(*weight));
                let mut places = cluster.groups.places();
                for group in &groups {
                    table.add(places.nodes_of(*group), weight);
                }
                self.remember((list, index), &groups);
            }
        }
    }

    /// Evaluates the terms of existing Pods that select the incoming Pod.
    fn evaluate_existing_pods_terms(&mut self, cluster: &ClusterIndex, incoming: &Incoming, options: &Options) {
        let namespace = &incoming.pod.metadata.namespace;
        let filters = options.filters_with(Plugin::InterPodAffinity);
        // As in the scheduler, the option also ignores the required terms of existing Pods.
        let ignores = options.ignore_preferred_terms_of_existing_pods && !incoming.prefers_pods();
        let scores = options.weights.inter_pod_affinity != 0 && !ignores;
        let namespace_labels = cluster.namespace_labels(namespace);
        let mut places = cluster.groups.places();
        for number in cluster.carried.matching(namespace, &namespace_labels, &incoming.labels) {
            let Some(entry) = cluster.carried.get(number) else { continue };
            // `None`: the term rejects its domains instead of changing their scores.
            let weight = match entry.carried.effect {
                Effect::RequiredAntiAffinity if !filters => continue,
                Effect::RequiredAntiAffinity => None,
                _ if !scores => continue,
                Effect::RequiredAffinity if options.hard_pod_affinity_weight > 0 => {
                    Some(options.hard_pod_affinity_weight)
                }
                Effect::RequiredAffinity => continue,
                Effect::Preferred(weight) => Some(weight),
            };
            // A key that no node has as a label has no domains. Any Pod can name such a key, so it gets no table.
            if !cluster.has_topology(&entry.carried.term.topology_key) {
                continue;
            }
            let position = self.table_position(cluster, &entry.carried.term.topology_key);
            let table = &mut self.tables[position];
            for (group, times) in &entry.groups {
                match weight {
                    Some(weight) => table.add(places.nodes_of(*group), weight * i64::from(*times)),
                    None => mark_domains(&mut table.existing, &table.topology, *group, places.nodes_of(*group), number),
                }
            }
        }
    }
}

/// Marks the domains that a term rejects because Pods of a group run there; `places` are the nodes of the group. A
/// domain keeps its first mark. `marks` are by domain, and `term` is that of [`Witness`].
fn mark_domains(marks: &mut [Option<Witness>], topology: &Topology, group: u32, places: &[NodePodCount], term: u32) {
    for (node, _) in places {
        if let Some(domain) = topology.domain(*node) {
            marks[domain].get_or_insert(Witness { term, group, node: *node });
        }
    }
}

/// Whether the incoming Pod has required affinity terms and matches all of them itself, namespace included. Then it may
/// be placed although no other Pod matches them yet.
pub(super) fn matches_own_terms(cluster: &ClusterIndex, incoming: &Incoming) -> bool {
    let terms = &incoming.required_affinity;
    let namespace = &incoming.pod.metadata.namespace;
    !terms.is_empty()
        && terms
            .iter()
            .all(|(term, _)| cluster.coverage(term).contains(namespace) && selects(&term.selection, &incoming.labels))
}
