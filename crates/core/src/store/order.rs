//! The order of a list: all slots, sorted by the keys of their objects.
//!
//! It stores slots instead of keys: four bytes for each object, in leaves that are shared with snapshots. The keys are
//! read from the objects, so every query takes `key_of`: it returns the key of the object in a slot. Updates of an
//! object do not change the order.

use std::ops::Bound;
use std::sync::Arc;

use imbl::OrdMap;

use super::copies::{Copies, CopyOnWrite};
use super::heap::{allocated, map_nodes, map_path, shared, shared_text};

/// The maximum number of slots in a leaf; a leaf with more is split.
const MOST: usize = 512;

/// A leaf with fewer slots is joined with the one before it, if both fit.
const FEWEST: usize = MOST / 4;

/// The maximum number of slots in a leaf after two were joined: the rest of its capacity is free for insertions.
const JOINED: usize = MOST * 15 / 16;

/// Neighbouring slots, in the order of their keys.
type Leaf = Vec<u32>;

impl CopyOnWrite for Leaf {
    fn own_bytes(&self) -> usize {
        shared::<Leaf>() + allocated(self.capacity() * size_of::<u32>())
    }
}

/// Slots by key. Cloning shares it.
#[derive(Clone, Debug, Default)]
pub(super) struct Order {
    /// By a text that is not above any key of the leaf and above every key of the leaf before.
    leaves: OrdMap<Arc<str>, Arc<Leaf>>,
    len: usize,
}

impl Order {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The slot of a key; `None` if no object has the key.
    pub(super) fn find<'k>(&self, key: &str, key_of: impl Fn(u32) -> &'k str) -> Option<u32> {
        let (_, leaf) = self.leaves.get_prev(key)?;
        // Lists arrive in order, so a new key is usually the last one.
        if leaf.last().is_some_and(|last| key_of(*last) < key) {
            return None;
        }
        let index = leaf.binary_search_by(|slot| key_of(*slot).cmp(key)).ok()?;
        Some(leaf[index])
    }

    /// Inserts a slot at its key, which must be new.
    pub(super) fn insert<'k>(&mut self, key: &str, slot: u32, key_of: impl Fn(u32) -> &'k str, copies: &mut Copies) {
        let path = self.path();
        if self.leaves.is_empty() {
            // The first leaf has the lowest bound, so that every key finds one.
            self.leaves.insert(Arc::from(""), Arc::default());
        }
        let Some((_, leaf)) = self.leaves.get_prev_mut(key) else { return };
        let leaf = copies.make_mut_in(path, leaf);
        // Lists come in order, so that the end is the usual place.
        let is_last = leaf.last().is_none_or(|last| key_of(*last) < key);
        let index = if is_last { leaf.len() } else { leaf.partition_point(|other| key_of(*other) < key) };
        if leaf.len() == leaf.capacity() {
            leaf.reserve_exact(MOST / 8);
        }
        leaf.insert(index, slot);
        self.len += 1;
        if leaf.len() > MOST {
            // Keys that come in order only go to the last leaf, so the lower part stays nearly full. Other leaves are
            // split in the middle.
            let upper = leaf.split_off(if is_last { JOINED } else { MOST / 2 });
            leaf.shrink_to_fit();
            copies.add(path);
            self.leaves.insert(Arc::from(key_of(upper[0])), Arc::new(upper));
        }
    }

    /// Removes a key and returns its slot; `None` if no object has the key.
    pub(super) fn remove<'k>(
        &mut self,
        key: &str,
        key_of: impl Fn(u32) -> &'k str,
        copies: &mut Copies,
    ) -> Option<u32> {
        let path = self.path();
        let (_, leaf) = self.leaves.get_prev(key)?;
        let index = leaf.binary_search_by(|slot| key_of(*slot).cmp(key)).ok()?;
        // Only now that the key is known to exist: this copies the leaf if a snapshot shares it.
        let (_, leaf) = self.leaves.get_prev_mut(key)?;
        let leaf = copies.make_mut_in(path, leaf);
        let slot = leaf.remove(index);
        self.len -= 1;
        if leaf.len() < FEWEST {
            self.join(key, copies);
        }
        Some(slot)
    }

    /// Joins the leaf of `key` with the previous one if both fit; removes an empty leaf.
    fn join(&mut self, key: &str, copies: &mut Copies) {
        let path = self.path();
        let Some((bound, leaf)) = self.leaves.get_prev(key).map(|(bound, leaf)| (bound.clone(), leaf.clone())) else {
            return;
        };
        if bound.is_empty() {
            // The first leaf has none before it. The second leaf is joined to it when the second one shrinks.
            if self.len == 0 {
                self.leaves.clear();
            }
            return;
        }
        let before = self.leaves.range::<_, str>((Bound::Unbounded, Bound::Excluded(&*bound))).next_back();
        let fits = |before: &[u32]| leaf.is_empty() || before.len() + leaf.len() <= JOINED;
        let Some(before) = before.filter(|(_, before)| fits(before)).map(|(before, _)| before.clone()) else {
            return;
        };
        // The map may copy and join neighbours of the node that had the leaf.
        copies.add(2 * path + shared_text(&bound));
        self.leaves.remove(&bound);
        if let Some(previous) = self.leaves.get_mut(&before) {
            copies.make_mut_in(path, previous).extend_from_slice(&leaf);
        }
    }

    /// All slots in the order of their keys, from a bound on.
    pub(super) fn range<'k>(&self, from: Bound<&str>, key_of: impl Fn(u32) -> &'k str) -> impl Iterator<Item = u32> {
        let (bound, skip) = match from {
            Bound::Unbounded => (Bound::Unbounded, 0),
            Bound::Included(key) => self.place(key, |other| key_of(other) < key),
            Bound::Excluded(key) => self.place(key, |other| key_of(other) <= key),
        };
        self.leaves.range::<_, str>((bound, Bound::Unbounded)).flat_map(|(_, leaf)| leaf.iter().copied()).skip(skip)
    }

    /// The number of keys before `key`.
    pub(super) fn rank<'k>(&self, key: &str, key_of: impl Fn(u32) -> &'k str) -> usize {
        let Some((bound, leaf)) = self.leaves.get_prev(key) else { return 0 };
        let whole: usize = self
            .leaves
            .range::<_, str>((Bound::Unbounded, Bound::Excluded(&**bound)))
            .map(|(_, leaf)| leaf.len())
            .sum();
        whole + leaf.partition_point(|other| key_of(*other) < key)
    }

    /// Where a walk from `key` begins: the bound of its leaf, and the number of slots to skip in that leaf. `is_before`
    /// tells whether a slot comes before the walk.
    fn place(&self, key: &str, is_before: impl Fn(u32) -> bool) -> (Bound<&str>, usize) {
        match self.leaves.get_prev(key) {
            Some((bound, leaf)) => (Bound::Included(&**bound), leaf.partition_point(|other| is_before(*other))),
            None => (Bound::Unbounded, 0),
        }
    }

    /// Memory of the nodes on the path to a leaf, in bytes.
    fn path(&self) -> usize {
        map_path::<Arc<str>, Arc<Leaf>>(self.leaves.len())
    }

    /// Memory in bytes.
    pub(super) fn held_bytes(&self) -> usize {
        let leaves: usize = self.leaves.iter().map(|(bound, leaf)| shared_text(bound) + leaf.own_bytes()).sum();
        map_nodes::<Arc<str>, Arc<Leaf>>(self.leaves.len()) + leaves
    }
}
