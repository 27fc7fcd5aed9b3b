//! The only writer of a store.

use std::sync::Arc;

use super::copies::Copies;
use super::dictionary;
use super::heap::{vector_leaf, vector_path};
use super::history::{Change, HistoryLimits};
use super::indexed::IndexLimits;
use super::object::Object;
use super::object_encoder::ObjectEncoder;
use super::pending_list::Relist;
use super::pins::{Pinned, Pins};
use super::snapshot::Snapshot;
use crate::model::{FieldIndex, Key, Record, Version};

/// The writer's side of one resource. Not `Clone`: one task owns it.
#[derive(Debug)]
pub struct Store {
    /// The next snapshot; changed in place, shared copy-on-write with published snapshots.
    pub(super) current: Snapshot,
    /// Slots of removed objects, for new objects.
    pub(super) free_slots: Vec<u32>,
    packing: ObjectEncoder,
    /// Whether a list has ever been completed: the first one has no earlier state to compare with.
    pub(super) is_filled: bool,
    /// A full list that is arriving; no snapshot of readers has any of it.
    pub(super) relist: Option<Relist>,
    limits: HistoryLimits,
    /// What changes have released since the last [`Store::retire`].
    copies: Copies,
}

/// The result of applying a record or a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteOutcome {
    /// The store changed and history has one more entry.
    Changed,
    /// Nothing changed: the store already had this state or a newer one, or it does not have the object to remove.
    Stale,
}

/// The maximum number of objects that a dictionary is trained on, sampled from the whole store.
const SAMPLES: usize = 1_000;

/// Counts all memory of the store as released: of a dropped store, only the parts that readers reference remain.
impl Drop for Store {
    fn drop(&mut self) {
        let bytes = self.current.held_bytes + self.current.history.held_bytes() + self.index_bytes();
        self.current.pins.retire(bytes);
    }
}

impl Store {
    /// An empty store.
    pub fn new(limits: HistoryLimits) -> Store {
        Store::with_epoch(limits, 0)
    }

    /// An empty store that follows an earlier one of the same resource; the earlier epoch must be lower.
    pub fn with_epoch(limits: HistoryLimits, epoch: u64) -> Store {
        Store {
            current: Snapshot { epoch, ..Snapshot::default() },
            free_slots: Vec::new(),
            packing: ObjectEncoder::default(),
            is_filled: false,
            relist: None,
            limits,
            copies: Copies::default(),
        }
    }

    /// Sets how much of one object is indexed. The store must be empty.
    #[must_use]
    pub fn indexing(mut self, limits: IndexLimits) -> Store {
        self.copies.make_mut(&mut self.current.postings).limits = limits;
        self.packing.limits = limits;
        self
    }

    /// Sets the fields whose values are integers, which the index then has in numeric order. The store must be empty.
    #[must_use]
    pub fn with_integers(mut self, mut fields: Vec<FieldIndex>) -> Store {
        fields.sort_unstable();
        self.copies.make_mut(&mut self.current.postings).integers = fields.into();
        self
    }

    /// Sets a bound on the memory that readers of past states retain. Several stores share it.
    #[must_use]
    pub fn pinned_by(mut self, all: &Arc<Pinned>) -> Store {
        self.current.pins = Pins::new(all.clone());
        self
    }

    /// The current state, for readers.
    pub fn snapshot(&self) -> Snapshot {
        self.current.clone()
    }

    /// The newest version that is applied.
    pub fn version(&self) -> Version {
        self.current.version
    }

    /// Adds or replaces an object.
    pub fn apply(&mut self, record: &Record) -> WriteOutcome {
        let slot = self.current.slot(record.key.as_str());
        let existing = slot.and_then(|slot| self.current.object(slot));
        if existing.is_some_and(|existing| existing.version() >= record.version) {
            return WriteOutcome::Stale;
        }
        let after = self.pack(record);
        self.apply_new(slot, after);
        WriteOutcome::Changed
    }

    /// Removes an object; `version` is that of the deletion. An object with a later version stays.
    pub fn delete(&mut self, key: &Key, version: Version) -> WriteOutcome {
        let Some(before) = self.current.get(key.as_str()).cloned() else {
            // Nothing is removed, but the store has now seen this version.
            self.advance_to(version);
            return WriteOutcome::Stale;
        };
        if before.version() > version {
            return WriteOutcome::Stale;
        }
        self.take(key.as_str());
        self.advance_to(version);
        self.append_to_history(Change { version, before: Some(before), after: None, in_relist_gap: false });
        WriteOutcome::Changed
    }

    /// Notes that every change up to `version` has been applied, as a bookmark reported.
    pub fn advance_to(&mut self, version: Version) {
        self.current.version = self.current.version.max(version);
    }

    /// Removes an object whose new state cannot be read. `version` is that of the new state; `None` if it is unknown.
    /// Without a version that is newer than the store, history records the removal like one that a relist found. It
    /// then happened at some version after the current one.
    pub fn drop_unreadable(&mut self, key: &Key, version: Option<Version>) -> WriteOutcome {
        let known = version.filter(|version| *version > self.current.version);
        let before = self.take(key.as_str());
        if let Some(version) = known {
            self.current.version = version;
        }
        if before.is_none() {
            return WriteOutcome::Stale;
        }
        let version = self.current.version;
        self.append_to_history(Change { version, before, after: None, in_relist_gap: known.is_none() });
        WriteOutcome::Changed
    }

    /// Memory that only the writer needs, in bytes: the dictionary, layouts and label keys for new objects.
    pub fn writing_bytes(&self) -> usize {
        self.packing.held_bytes()
    }

    /// Memory of the store without its indexes and its order, in bytes. It is counted at each change, so unlike
    /// [`Store::index_bytes`] it is returned at once. Objects of a list that is still arriving are included.
    pub fn held_bytes(&self) -> u64 {
        let listed = self.relist.as_ref().map_or(0, Relist::held_bytes);
        self.current.held_bytes + self.current.history.held_bytes() + self.writing_bytes() as u64 + listed
    }

    /// Memory of the indexes and the order, in bytes. Walks them, so it takes time.
    pub fn index_bytes(&self) -> u64 {
        let usage = self.current.usage();
        usage.order_bytes + usage.attributes.iter().map(|index| index.bytes).sum::<u64>()
    }

    /// The number of objects of the store.
    pub fn len(&self) -> usize {
        self.current.len()
    }

    /// Whether the store has no objects.
    pub fn is_empty(&self) -> bool {
        self.current.is_empty()
    }

    /// Applies a new state of an object. The caller has checked that it is newer than the stored one. `slot` is where
    /// the object is stored; `None` for a new object.
    pub(super) fn apply_new(&mut self, slot: Option<u32>, after: Object) {
        let version = after.version();
        let before = self.put(slot, after.clone());
        self.advance_to(version);
        self.append_to_history(Change { version, before, after: Some(after), in_relist_gap: false });
    }

    /// Appends a change to history. Counts what history drops.
    pub(super) fn append_to_history(&mut self, change: Change) {
        let released = self.current.history.push(Arc::new(change), &self.limits);
        self.retire(released);
    }

    /// Encodes a record as an object. Trains a dictionary afterwards when that is due.
    pub(super) fn pack(&mut self, record: &Record) -> Object {
        let (object, should_train) = self.packing.pack(record);
        if should_train {
            let stored = self.current.objects.iter().flatten();
            let listed = || self.relist.iter().flat_map(Relist::objects);
            let (count, bytes) = stored
                .clone()
                .chain(listed())
                .fold((0, 0), |(count, bytes), object| (count + 1, bytes + object.length()));
            // Every `stride`th object: these are at most some `SAMPLES`, and fit into the size of a sample.
            let stride = (count / SAMPLES).max(bytes / dictionary::SAMPLE_BYTES).max(1);
            if self.packing.train(stored.chain(listed()).step_by(stride)) {
                self.repack();
            }
        }
        object
    }

    /// Compresses all objects again with the first dictionary: some thousand at most, since it is trained early.
    fn repack(&mut self) {
        for slot in 0..self.current.objects.len() {
            let Some(Some(object)) = self.current.objects.get(slot) else { continue };
            let Some(repacked) = self.packing.repack(object) else { return };
            self.current.held_bytes -= object.held_bytes() as u64;
            self.current.held_bytes += repacked.held_bytes() as u64;
            self.copies.add(object.held_bytes() + vector_leaf::<Option<Object>>());
            self.current.objects.set(slot, Some(repacked));
        }
    }

    /// Counts memory that only readers of earlier states still have: `released`, and all copies since the last call.
    /// The state before a change is not released until history drops it.
    pub(super) fn retire(&mut self, released: u64) {
        self.current.pins.retire(released + self.copies.take() as u64);
        self.current.retired = self.current.pins.retired();
    }

    /// Counts an object that was replaced or removed without an entry in history.
    pub(super) fn retire_object(&mut self, object: Option<&Object>) {
        self.retire(object.map_or(0, |object| object.held_bytes() as u64));
    }

    /// Stores an object in its slot `existing`, or in a free one if that is `None`. Returns the previous object; `None`
    /// for a new object.
    pub(super) fn put(&mut self, existing: Option<u32>, object: Object) -> Option<Object> {
        let Store { current, copies, .. } = self;
        let key = object.key();
        let slot = existing.or_else(|| self.free_slots.pop()).unwrap_or_else(|| {
            current.objects.push_back(None);
            // Slots are 32 bits wide because roaring's are; etcd stores far fewer objects.
            u32::try_from(current.objects.len() - 1).unwrap_or(u32::MAX)
        });
        let previous = existing.and_then(|slot| current.objects.get(slot as usize)).and_then(Option::as_ref);
        let stored = current.objects.iter().map(Option::as_ref);
        current.shards.change(slot, previous, Some(&object), stored, copies);
        copies.add(vector_path::<Option<Object>>(current.objects.len()));
        let before = current.objects.set(slot as usize, Some(object.clone())).filter(|_| existing.is_some());
        if existing.is_none() {
            let objects = &current.objects;
            current.order.insert(key, slot, |slot| key_in(objects, slot), copies);
            copies.make_mut(&mut current.occupied).insert(slot, copies);
        }
        copies.make_mut(&mut current.postings).index(slot, before.as_ref(), Some(&object), copies);
        current.json_bytes += object.length() as u64;
        current.lengths.add(object.length());
        current.held_bytes += object.held_bytes() as u64;
        current.unselectable += u64::from(object.has_unknown_values());
        if let Some(before) = &before {
            current.unselectable -= u64::from(before.has_unknown_values());
            current.json_bytes -= before.length() as u64;
            current.lengths.remove(before.length());
            current.held_bytes -= before.held_bytes() as u64;
        }
        self.retire(0);
        before
    }

    /// Removes an object and returns it; `None` if the store does not have it. Does not write history.
    pub(super) fn take(&mut self, key: &str) -> Option<Object> {
        let Store { current, copies, .. } = self;
        let objects = &current.objects;
        let slot = current.order.remove(key, |slot| key_in(objects, slot), copies)?;
        let previous = objects.get(slot as usize).and_then(Option::as_ref);
        current.shards.change(slot, previous, None, objects.iter().map(Option::as_ref), copies);
        copies.add(vector_path::<Option<Object>>(objects.len()));
        let object = current.objects.set(slot as usize, None)?;
        copies.make_mut(&mut current.postings).index(slot, Some(&object), None, copies);
        current.json_bytes -= object.length() as u64;
        current.lengths.remove(object.length());
        current.held_bytes -= object.held_bytes() as u64;
        current.unselectable -= u64::from(object.has_unknown_values());
        copies.make_mut(&mut current.occupied).remove(slot, copies);
        if let Some(relist) = &mut self.relist {
            relist.forget(slot);
        }
        self.retire(0);
        self.free_slots.push(slot);
        Some(object)
    }
}

/// The key of the object in a slot; empty for a free slot.
fn key_in(objects: &imbl::Vector<Option<Object>>, slot: u32) -> &str {
    objects.get(slot as usize).and_then(Option::as_ref).map_or("", |object| object.key())
}
