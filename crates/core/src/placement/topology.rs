//! Topology domains: which nodes have the same value of a label; and the order of nodes by name.
//!
//! Computed when first needed and cached until a node's labels change, which is rare while pods come and go all the
//! time. Clones of the index share the cache. A node without the label is in no domain.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use imbl::Vector;

use super::cluster::NodeSlot;

/// The domain of a node without the label.
const NO_DOMAIN: u32 = u32::MAX;

/// The domains of one topology key.
#[derive(Debug)]
pub(super) struct Topology {
    /// The domain of each node, by slot; or [`NO_DOMAIN`].
    domain_of: Vec<u32>,
    /// The number of domains.
    domains: usize,
}

impl Topology {
    /// Groups the nodes by their value of the label `key`, and numbers the groups.
    pub(super) fn new(nodes: &Vector<NodeSlot>, key: &str) -> Topology {
        let mut numbers: HashMap<&str, u32> = HashMap::new();
        let domain_of = nodes.iter().map(|place| {
            let value = place.facts.as_ref().and_then(|facts| facts.labels.get(key));
            value.map_or(NO_DOMAIN, |value| {
                let next = u32::try_from(numbers.len()).unwrap_or(NO_DOMAIN);
                *numbers.entry(value).or_insert(next)
            })
        });
        let domain_of = domain_of.collect();
        Topology { domain_of, domains: numbers.len() }
    }

    /// The number of domains.
    pub(super) fn domains(&self) -> usize {
        self.domains
    }

    /// The number of the domain of the node in slot `node`, below [`Topology::domains`]; `None` if the node does not
    /// have the label or does not exist.
    pub(super) fn domain(&self, node: u32) -> Option<usize> {
        let domain = self.domain_of.get(node as usize).copied().unwrap_or(NO_DOMAIN);
        (domain != NO_DOMAIN).then_some(domain as usize)
    }
}

/// The maximum number of keys whose domains are cached. Clusters use few; arbitrary keys of clients must not take
/// memory.
const MAX_KEYS: usize = 64;

/// Caches for one state of the nodes: domains by key, keys of labels, and ranks of names.
#[derive(Debug, Default)]
pub(super) struct Topologies {
    made: Mutex<HashMap<Box<str>, Arc<Topology>>>,
    /// Keys of all labels of nodes.
    keys: OnceLock<HashSet<Box<str>>>,
    /// By slot of a node: how many nodes have a lesser name. Sorting thousands of names for every report would take
    /// long.
    name_ranks: OnceLock<Vec<u32>>,
}

impl Topologies {
    /// The cached topology of a key, or the result of `make`, which is cached if there is room.
    pub(super) fn get(&self, key: &str, make: impl FnOnce() -> Topology) -> Arc<Topology> {
        // Every change of the map is complete, so a poisoned lock can be used.
        if let Some(topology) = self.made.lock().unwrap_or_else(PoisonError::into_inner).get(key) {
            return Arc::clone(topology);
        }
        // Computed outside of the lock: two threads may compute the same, which is better than that one waits.
        let topology = Arc::new(make());
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if made.len() < MAX_KEYS {
            made.insert(key.into(), Arc::clone(&topology));
        }
        topology
    }

    /// The keys of all labels that nodes have.
    pub(super) fn keys(&self, nodes: &Vector<NodeSlot>) -> &HashSet<Box<str>> {
        self.keys.get_or_init(|| {
            let mut keys: HashSet<Box<str>> = HashSet::new();
            for facts in nodes.iter().filter_map(|place| place.facts.as_ref()) {
                for (key, _) in facts.labels.iter().filter(|(key, _)| !keys.contains(*key)).collect::<Vec<_>>() {
                    keys.insert(key.into());
                }
            }
            keys
        })
    }

    /// The rank of each node's name in alphabetical order, by slot.
    pub(super) fn name_ranks(&self, nodes: &Vector<NodeSlot>) -> &[u32] {
        self.name_ranks.get_or_init(|| {
            let mut slots: Vec<(&str, usize)> = nodes.iter().map(|place| &*place.name).zip(0..).collect();
            slots.sort_unstable();
            let mut ranks = vec![0; slots.len()];
            for ((_, slot), rank) in slots.into_iter().zip(0..) {
                ranks[slot] = rank;
            }
            ranks
        })
    }
}
