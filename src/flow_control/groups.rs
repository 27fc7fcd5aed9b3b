//! Connections in groups, such as those of one address or of one user: which group has most, and which connection of it has to go.
//!
//! All operations take logarithmic time. So only the oldest connections of a group are searched for one without a
//! request in progress.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;
use std::sync::Arc;

/// A member of a group.
pub(crate) trait GroupMember {
    /// Whether it has no request in progress.
    fn is_idle(&self) -> bool;
}

/// How many connections, and groups with as many as the largest, are searched for a connection without a request in
/// progress.
const MOST_CANDIDATES: usize = 16;

/// Connections by group. Their numbers are in the order of their arrival.
#[derive(Debug)]
pub(super) struct ConnectionGroups<Key, State> {
    total: usize,
    groups: HashMap<Key, BTreeMap<u64, Arc<State>>>,
    /// The last group has most, and of several with as many the oldest connection.
    ranking: BTreeSet<(usize, Reverse<u64>, Key)>,
}

impl<Key, State> Default for ConnectionGroups<Key, State> {
    fn default() -> ConnectionGroups<Key, State> {
        ConnectionGroups { total: 0, groups: HashMap::new(), ranking: BTreeSet::new() }
    }
}

impl<Key: Clone + Eq + Hash + Ord, State: GroupMember> ConnectionGroups<Key, State> {
    /// The number of connections of all groups.
    pub(super) fn total(&self) -> usize {
        self.total
    }

    /// The number of groups with a connection.
    pub(super) fn groups(&self) -> usize {
        self.groups.len()
    }

    /// The number of connections of the largest group.
    pub(super) fn largest(&self) -> usize {
        self.ranking.last().map_or(0, |(count, ..)| *count)
    }

    /// The number of connections of a group.
    pub(super) fn count(&self, key: &Key) -> usize {
        self.groups.get(key).map_or(0, BTreeMap::len)
    }

    /// Whether the group has this connection.
    pub(super) fn contains(&self, key: &Key, number: u64) -> bool {
        self.groups.get(key).is_some_and(|group| group.contains_key(&number))
    }

    /// Adds a connection to the group of `key`.
    pub(super) fn insert(&mut self, key: &Key, number: u64, state: Arc<State>) {
        self.change(key, |group| group.insert(number, state));
        self.total += 1;
    }

    /// Removes a connection; `None` if it does not exist.
    pub(super) fn remove(&mut self, key: &Key, number: u64) -> Option<Arc<State>> {
        let removed = self.change(key, |group| group.remove(&number));
        self.total -= usize::from(removed.is_some());
        removed
    }

    /// The oldest connection of a group without a request in progress, among those that are searched.
    pub(super) fn idle_of(&self, key: &Key) -> Option<u64> {
        let mut candidates = self.groups.get(key)?.iter().take(MOST_CANDIDATES);
        candidates.find(|(_, state)| state.is_idle()).map(|(number, _)| *number)
    }

    /// The connection of a group to evict: one without a request in progress before the others, and then the oldest.
    pub(super) fn first_of(&self, key: &Key) -> Option<u64> {
        self.idle_of(key).or_else(|| self.groups.get(key)?.keys().next().copied())
    }

    /// The oldest connection of the largest group. One without a request in progress comes first.
    pub(super) fn first_of_largest(&self) -> Option<(Key, u64)> {
        let (most, _, first) = self.ranking.last()?;
        let mut equals = self.ranking.iter().rev().take_while(|(count, ..)| count == most).take(MOST_CANDIDATES);
        let idle = equals.find_map(|(_, _, key)| Some((key.clone(), self.idle_of(key)?)));
        idle.or_else(|| Some((first.clone(), self.first_of(first)?)))
    }

    /// Changes a group, and updates its rank.
    fn change<Changed>(
        &mut self,
        key: &Key,
        change: impl FnOnce(&mut BTreeMap<u64, Arc<State>>) -> Changed,
    ) -> Changed {
        let group = self.groups.entry(key.clone()).or_default();
        let rank = |group: &BTreeMap<u64, Arc<State>>| {
            let (oldest, _) = group.first_key_value()?;
            Some((group.len(), Reverse(*oldest), key.clone()))
        };
        if let Some(rank) = rank(group) {
            self.ranking.remove(&rank);
        }
        let changed = change(group);
        match rank(group) {
            Some(rank) => _ = self.ranking.insert(rank),
            None => _ = self.groups.remove(key),
        }
        changed
    }
}
