//! Connections in groups, such as those of one address or one user. Finds the largest group, and the connection of a
//! group to close.
//!
//! All operations take logarithmic time. So only the oldest connections of a group are searched for an idle one.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;
use std::sync::Arc;

/// A connection in a group.
pub(crate) trait GroupMember {
    /// Whether no request is in progress on the connection.
    fn is_idle(&self) -> bool;
}

/// The maximum number of connections of a group that are searched for an idle one, and of groups of equal size.
const MOST_CANDIDATES: usize = 16;

/// Connections by group. Connections are numbered in the order in which they were opened.
#[derive(Debug)]
pub(super) struct ConnectionGroups<Key, State> {
    /// The number of connections of all groups.
    total: usize,
    /// The connections of each group, by number. No group is empty.
    groups: HashMap<Key, BTreeMap<u64, Arc<State>>>,
    /// The groups in the order of their sizes. Of groups with equal size, the one with the oldest connection is last.
    /// An entry has the size, the number of the oldest connection, and the key.
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

    /// Removes a connection from the group of `key`, and returns it; `None` if the group does not have it.
    pub(super) fn remove(&mut self, key: &Key, number: u64) -> Option<Arc<State>> {
        let removed = self.change(key, |group| group.remove(&number));
        self.total -= usize::from(removed.is_some());
        removed
    }

    /// The oldest idle connection of a group. `None` if none of its [`MOST_CANDIDATES`] oldest connections is idle.
    pub(super) fn idle_of(&self, key: &Key) -> Option<u64> {
        let mut candidates = self.groups.get(key)?.iter().take(MOST_CANDIDATES);
        candidates.find(|(_, state)| state.is_idle()).map(|(number, _)| *number)
    }

    /// The connection of a group to close: its oldest idle one, or else its oldest. `None` if the group is empty.
    pub(super) fn first_of(&self, key: &Key) -> Option<u64> {
        self.idle_of(key).or_else(|| self.groups.get(key)?.keys().next().copied())
    }

    /// The connection of the largest group to close, with the key of the group: the oldest idle connection of the
    /// group, or else its oldest. Of several largest groups, a group with an idle connection is chosen, and otherwise
    /// the group with the oldest connection. `None` if there are no connections.
    pub(super) fn first_of_largest(&self) -> Option<(Key, u64)> {
        let (most, _, first) = self.ranking.last()?;
        let mut equals = self.ranking.iter().rev().take_while(|(count, ..)| count == most).take(MOST_CANDIDATES);
        let idle = equals.find_map(|(_, _, key)| Some((key.clone(), self.idle_of(key)?)));
        idle.or_else(|| Some((first.clone(), self.first_of(first)?)))
    }

    /// Changes a group, and updates its entry in the ranking. Returns the result of `change`.
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
