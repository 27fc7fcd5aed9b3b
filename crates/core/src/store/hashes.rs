//! Slots by a 64-bit hash of a text of their objects: the index of shards (`shards`) and of owners ([`super::owners`]).
//!
//! The index has twelve bytes for each entry, and some free capacity. The entries are in leaves that are shared with
//! snapshots. A hash takes less memory than its text. Different texts can have the same hash, so readers that need
//! exact results test the objects.

use std::sync::Arc;

use imbl::OrdMap;

use super::copies::{Copies, CopyOnWrite};
use super::heap::{allocated, map_nodes, map_path, shared};

/// The maximum number of slots in a leaf; a leaf with more is split.
const MOST: usize = 256;

/// A leaf grows by this many slots at a time.
const ROOM: usize = MOST / 8;

/// A leaf with fewer slots is joined with the one before it, if both fit.
const FEWEST: usize = MOST / 8;

/// The maximum number of slots in a leaf after two were joined.
const JOINED: usize = MOST * 3 / 4;

/// A hash and a slot. The index is in the order of these pairs.
type Entry = (u64, u32);

/// Slots by a hash; a slot can have several hashes. Clones share the leaves until one of them is changed.
#[derive(Clone, Debug, Default)]
pub struct HashIndex {
    /// The leaves by their lower bounds. The bound of a leaf is not above any entry of the leaf, and above all entries
    /// of the leaf before.
    leaves: OrdMap<Entry, Arc<Leaf>>,
    /// The number of entries.
    len: usize,
}

/// Neighbouring entries of the index, in order. The hash and the slot of an entry have the same index in both lists.
#[derive(Clone, Debug, Default)]
struct Leaf {
    hashes: Vec<u64>,
    slots: Vec<u32>,
}

impl Leaf {
    /// The number of entries.
    fn len(&self) -> usize {
        self.slots.len()
    }

    /// The entry at this index.
    fn entry(&self, index: usize) -> Entry {
        (self.hashes[index], self.slots[index])
    }

    /// The number of entries of the leaf that are before this one, by binary search.
    fn rank(&self, entry: Entry) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            if self.entry(middle) < entry { low = middle + 1 } else { high = middle }
        }
        low
    }
}

impl CopyOnWrite for Leaf {
    fn own_bytes(&self) -> usize {
        shared::<Leaf>()
            + allocated(self.hashes.capacity() * size_of::<u64>())
            + allocated(self.slots.capacity() * size_of::<u32>())
    }
}

impl HashIndex {
    /// Adds a slot with a hash. Does nothing if the index has this pair.
    pub fn insert(&mut self, hash: u64, slot: u32) {
        self.insert_shared(hash, slot, &mut Copies::default());
    }

    /// Like [`HashIndex::insert`], for an index that snapshots may share.
    pub(super) fn insert_shared(&mut self, hash: u64, slot: u32, copies: &mut Copies) {
        let path = self.path();
        let entry = (hash, slot);
        if self.leaves.is_empty() {
            // The first leaf has the lowest bound, so that every entry belongs to a leaf.
            self.leaves.insert((0, 0), Arc::default());
        }
        let Some((_, leaf)) = self.leaves.get_prev_mut(&entry) else { return };
        let leaf = copies.make_mut_in(path, leaf);
        let index = leaf.rank(entry);
        if index < leaf.len() && leaf.entry(index) == entry {
            return;
        }
        // Adds capacity for a few entries, instead of doubling it: most leaves rarely change.
        if leaf.len() == leaf.slots.capacity() || leaf.len() == leaf.hashes.capacity() {
            leaf.hashes.reserve_exact(ROOM);
            leaf.slots.reserve_exact(ROOM);
        }
        leaf.hashes.insert(index, hash);
        leaf.slots.insert(index, slot);
        self.len += 1;
        if leaf.len() > MOST {
            let upper = Leaf { hashes: leaf.hashes.split_off(MOST / 2), slots: leaf.slots.split_off(MOST / 2) };
            leaf.hashes.shrink_to(MOST / 2 + ROOM);
            leaf.slots.shrink_to(MOST / 2 + ROOM);
            copies.add(path);
            self.leaves.insert(upper.entry(0), Arc::new(upper));
        }
    }

    /// Removes a slot with a hash. Does nothing if the index does not have this pair.
    pub(super) fn remove(&mut self, hash: u64, slot: u32, copies: &mut Copies) {
        let (entry, path) = ((hash, slot), self.path());
        let Some((bound, leaf)) = self.leaves.get_prev_mut(&entry) else { return };
        let bound = *bound;
        let leaf = copies.make_mut_in(path, leaf);
        let index = leaf.rank(entry);
        if index == leaf.len() || leaf.entry(index) != entry {
            return;
        }
        leaf.hashes.remove(index);
        leaf.slots.remove(index);
        self.len -= 1;
        if leaf.len() < FEWEST {
            self.join(bound, copies);
        }
    }

    /// Joins the leaf with this bound and the leaf before it, if both together have at most [`JOINED`] entries. Removes
    /// all leaves if the index is empty.
    fn join(&mut self, bound: Entry, copies: &mut Copies) {
        let path = self.path();
        if self.len == 0 {
            self.leaves = OrdMap::default();
            return;
        }
        let Some(leaf) = self.leaves.get(&bound).cloned() else { return };
        let Some((before, previous)) = self.leaves.range(..bound).next_back() else { return };
        if previous.len() + leaf.len() > JOINED {
            return;
        }
        let before = *before;
        // The map may copy and join neighbours of the node that had the leaf.
        copies.add(2 * path);
        self.leaves.remove(&bound);
        if let Some(previous) = self.leaves.get_mut(&before) {
            let previous = copies.make_mut_in(path, previous);
            previous.hashes.extend_from_slice(&leaf.hashes);
            previous.slots.extend_from_slice(&leaf.slots);
        }
    }

    /// The number of pairs of a hash and a slot.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the index has no entries.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The slots with a hash from `first` to `last`, both included, in the order of the hashes.
    pub fn slots(&self, first: u64, last: u64) -> impl Iterator<Item = u32> + '_ {
        self.parts(first, last).flat_map(|(leaf, range)| leaf.slots[range].iter().copied())
    }

    /// The slots with a hash, from the slot `from` on, in order.
    pub fn slots_with(&self, hash: u64, from: u32) -> impl Iterator<Item = u32> + '_ {
        let first = self.leaves.get_prev(&(hash, from)).map_or((hash, from), |(bound, _)| *bound);
        self.leaves.range(first..=(hash, u32::MAX)).flat_map(move |(_, leaf)| {
            let begin = leaf.rank((hash, from));
            let end = leaf.hashes.partition_point(|other| *other <= hash);
            leaf.slots[begin..end.max(begin)].iter().copied()
        })
    }

    /// The number of leaves, which [`HashIndex::count`] may visit.
    pub fn leaves(&self) -> usize {
        self.leaves.len()
    }

    /// The number of slots with a hash from `first` to `last`, both included. Does not visit the slots.
    pub fn count(&self, first: u64, last: u64) -> u64 {
        self.parts(first, last).map(|(_, range)| range.len() as u64).sum()
    }

    /// The leaves that can have hashes from `first` to `last`, and the range of the entries of each leaf with such a
    /// hash.
    fn parts(&self, first: u64, last: u64) -> impl Iterator<Item = (&Leaf, std::ops::Range<usize>)> {
        let from = self.leaves.get_prev(&(first, 0)).map_or((first, 0), |(bound, _)| *bound);
        self.leaves.range(from..=(last, u32::MAX)).map(move |(_, leaf)| {
            let begin = leaf.hashes.partition_point(|hash| *hash < first);
            let end = leaf.hashes.partition_point(|hash| *hash <= last);
            (&**leaf, begin..end.max(begin))
        })
    }

    /// Memory of the nodes on the path to a leaf, in bytes.
    fn path(&self) -> usize {
        map_path::<Entry, Arc<Leaf>>(self.leaves.len())
    }

    /// Memory in bytes. Walks the leaves.
    pub fn held_bytes(&self) -> usize {
        let leaves: usize = self.leaves.iter().map(|(_, leaf)| leaf.own_bytes()).sum();
        map_nodes::<Entry, Arc<Leaf>>(self.leaves.len()) + leaves
    }
}
