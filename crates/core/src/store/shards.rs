//! The slots of a store in the order of the hashes of their objects' metadata.uid, so that a shard costs only its share.
//!
//! Few stores are read in shards, so the index is built on demand. The first reader that needs it builds it in turns,
//! and sets it in its snapshot. From then on the writer maintains it; a writer that changes the store meanwhile builds
//! the index itself. Readers without an index test all objects.
//!
//! The index has twelve bytes for each object, and some free capacity, in leaves that are shared with snapshots. Shards of namespaces need no
//! index, because there is a posting list for each namespace.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use imbl::OrdMap;

use super::heap::{allocated, map_nodes, shared};
use super::object::Object;

/// The maximum number of slots in a leaf; a leaf with more is split.
const MOST: usize = 256;

/// A leaf grows by this many slots at a time.
const ROOM: usize = MOST / 8;

/// A leaf with fewer slots is joined with the one before it, if both fit.
const FEWEST: usize = MOST / 8;

/// The maximum number of slots in a leaf after two were joined.
const JOINED: usize = MOST * 3 / 4;

/// A hash with its slot: the order of the index. Objects without a uid have the same hash.
type Place = (u64, u32);

/// Slots by the hash of the uid of their objects. Cloning shares it.
#[derive(Clone, Debug, Default)]
pub struct ShardIndex {
    /// By a place that is not above any of the leaf and above every one of the leaf before.
    leaves: OrdMap<Place, Arc<Leaf>>,
    len: usize,
}

/// Some neighbouring places, in order.
#[derive(Clone, Debug, Default)]
struct Leaf {
    hashes: Vec<u64>,
    slots: Vec<u32>,
}

impl Leaf {
    fn len(&self) -> usize {
        self.slots.len()
    }

    /// The place at this index.
    fn place(&self, index: usize) -> Place {
        (self.hashes[index], self.slots[index])
    }

    /// The number of places before this one.
    fn rank(&self, place: Place) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            if self.place(middle) < place { low = middle + 1 } else { high = middle }
        }
        low
    }

    fn held_bytes(&self) -> usize {
        shared::<Leaf>()
            + allocated(self.hashes.capacity() * size_of::<u64>())
            + allocated(self.slots.capacity() * size_of::<u32>())
    }
}

impl ShardIndex {
    /// Adds a slot whose object has this hash. Does nothing if the index has it.
    pub fn insert(&mut self, hash: u64, slot: u32) {
        let place = (hash, slot);
        if self.leaves.is_empty() {
            // The first leaf has the lowest bound, so that every place finds one.
            self.leaves.insert((0, 0), Arc::default());
        }
        let Some((_, leaf)) = self.leaves.get_prev_mut(&place) else { return };
        let leaf = Arc::make_mut(leaf);
        let index = leaf.rank(place);
        if index < leaf.len() && leaf.place(index) == place {
            return;
        }
        // Capacity for a few more, instead of twice as many: most leaves rarely change.
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
            self.leaves.insert(upper.place(0), Arc::new(upper));
        }
    }

    /// Removes a slot whose object had this hash. Does nothing if the index does not have it.
    pub fn remove(&mut self, hash: u64, slot: u32) {
        let place = (hash, slot);
        let Some((bound, leaf)) = self.leaves.get_prev_mut(&place) else { return };
        let bound = *bound;
        let leaf = Arc::make_mut(leaf);
        let index = leaf.rank(place);
        if index == leaf.len() || leaf.place(index) != place {
            return;
        }
        leaf.hashes.remove(index);
        leaf.slots.remove(index);
        self.len -= 1;
        if leaf.len() < FEWEST {
            self.join(bound);
        }
    }

    /// Joins the leaf of this bound with the one before it, if both fit. Removes the last leaf when it is empty.
    fn join(&mut self, bound: Place) {
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
        self.leaves.remove(&bound);
        if let Some(previous) = self.leaves.get_mut(&before) {
            let previous = Arc::make_mut(previous);
            previous.hashes.extend_from_slice(&leaf.hashes);
            previous.slots.extend_from_slice(&leaf.slots);
        }
    }

    /// The number of slots.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no slots.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The slots with a hash from `first` to `last`, both included, in the order of the hashes.
    pub fn slots(&self, first: u64, last: u64) -> impl Iterator<Item = u32> + '_ {
        self.parts(first, last).flat_map(|(leaf, range)| leaf.slots[range].iter().copied())
    }

    /// The number of leaves, which [`ShardIndex::count`] may visit.
    pub fn leaves(&self) -> usize {
        self.leaves.len()
    }

    /// The number of slots with a hash from `first` to `last`, both included. Does not visit the slots.
    pub fn count(&self, first: u64, last: u64) -> u64 {
        self.parts(first, last).map(|(_, range)| range.len() as u64).sum()
    }

    /// The leaves with these hashes, and which part of each leaf has them.
    fn parts(&self, first: u64, last: u64) -> impl Iterator<Item = (&Leaf, std::ops::Range<usize>)> {
        let from = self.leaves.get_prev(&(first, 0)).map_or((first, 0), |(bound, _)| *bound);
        self.leaves.range(from..=(last, u32::MAX)).map(move |(_, leaf)| {
            let begin = leaf.hashes.partition_point(|hash| *hash < first);
            let end = leaf.hashes.partition_point(|hash| *hash <= last);
            (&**leaf, begin..end.max(begin))
        })
    }

    /// Memory in bytes. Walks the leaves.
    pub fn held_bytes(&self) -> usize {
        let leaves: usize = self.leaves.iter().map(|(_, leaf)| leaf.held_bytes()).sum();
        map_nodes::<Place, Arc<Leaf>>(self.leaves.len()) + leaves
    }
}

/// The index of one state of a store, if it has one. Cloning shares it.
#[derive(Clone, Debug, Default)]
pub(super) struct Shards {
    /// Empty until a reader of this state or the writer has built it.
    index: Arc<OnceLock<ShardIndex>>,
    /// Whether a reader builds the index; of all states of the store.
    wanted: Arc<AtomicBool>,
}

/// The permit to build the index of a store. When it is dropped, with or without an index, a reader of a state without
/// one can get the next permit.
#[derive(Debug)]
pub struct IndexPermit(Shards);

impl IndexPermit {
    /// Sets the index, which must have all objects of the state from which the permit is.
    pub fn set(self, index: ShardIndex) {
        // The writer replaces the place of an index before it changes the state, so this one is still of that state.
        let _ = self.0.index.set(index);
    }
}

impl Drop for IndexPermit {
    fn drop(&mut self) {
        self.0.wanted.store(false, Ordering::Release);
    }
}

impl Shards {
    /// The index of this state; `None` if it has none.
    pub(super) fn index(&self) -> Option<&ShardIndex> {
        self.index.get()
    }

    /// Asks for the index, which a writer then builds at its next change. Returns the permit to build it for this state;
    /// `None` while another reader has the permit.
    pub(super) fn want(&self) -> Option<IndexPermit> {
        let is_first = !self.wanted.swap(true, Ordering::AcqRel);
        is_first.then(|| IndexPermit(self.clone()))
    }

    /// Applies a change of the object in a slot, which `before` and `after` describe. `objects` is the state before the
    /// change. Builds the index first if a reader wants it. Returns whether the index changed.
    pub(super) fn change<'o>(
        &mut self,
        slot: u32,
        before: Option<&Object>,
        after: Option<&Object>,
        objects: impl Iterator<Item = Option<&'o Object>>,
    ) -> bool {
        let Some(index) = self.own_index(objects) else { return false };
        let (before, after) = (before.map(Object::uid_hash), after.map(Object::uid_hash));
        if before == after {
            return false;
        }
        if let Some(hash) = before {
            index.remove(hash, slot);
        }
        if let Some(hash) = after {
            index.insert(hash, slot);
        }
        true
    }

    /// The index, for a change. It is no longer shared with snapshots, so that no reader can set the index of an earlier
    /// state here. `None` if no reader wants it.
    fn own_index<'o>(&mut self, objects: impl Iterator<Item = Option<&'o Object>>) -> Option<&mut ShardIndex> {
        if Arc::get_mut(&mut self.index).is_none() {
            let own = self.index.get().cloned().map_or_else(OnceLock::new, OnceLock::from);
            self.index = Arc::new(own);
        }
        let index = Arc::get_mut(&mut self.index)?;
        if index.get().is_none() && self.wanted.load(Ordering::Acquire) {
            let mut built = ShardIndex::default();
            for (slot, object) in (0u32..).zip(objects) {
                if let Some(object) = object {
                    built.insert(object.uid_hash(), slot);
                }
            }
            let _ = index.set(built);
        }
        index.get_mut()
    }
}
