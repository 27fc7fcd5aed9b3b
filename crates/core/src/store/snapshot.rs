//! A store at one point in time, for readers.

use std::ops::Bound;
use std::sync::Arc;

use imbl::Vector;

use super::history::{Change, History, HistoryCursor, TooOld};
use super::lengths::Lengths;
use super::object::Object;
use super::order::Order;
use super::pins::{PinnedValue, Pins};
use super::postings::{Attribute, AttributeUsage, Postings};
use super::shards::{IndexPermit, ShardIndex, Shards};
use super::slots::SlotSet;
use crate::model::Version;

/// A store at one point in time. Cloning is cheap; nothing in it ever changes.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Promise: every change up to this version is applied.
    pub(super) version: Version,
    /// See [`Snapshot::epoch`].
    pub(super) epoch: u64,
    /// Events of epochs before this one may have been invalid.
    pub(super) invalidated: u64,
    /// The object of each slot; `None` for a slot that is free.
    pub(super) objects: Vector<Option<Object>>,
    pub(super) order: Order,
    /// The slots that are not free.
    pub(super) occupied: Arc<SlotSet>,
    pub(super) postings: Arc<Postings>,
    pub(super) shards: Shards,
    pub(super) history: History,
    /// Sum of the sizes of all objects as JSON.
    pub(super) json_bytes: u64,
    pub(super) lengths: Lengths,
    /// Memory of all objects, in bytes.
    pub(super) held_bytes: u64,
    /// Objects with unknown values of some field.
    pub(super) unselectable: u64,
    pub(super) pins: Arc<Pins>,
    /// The bytes that changes had released when this was the current state; see [`Pins::retire`].
    pub(super) retired: u64,
}

/// Memory of a store, in bytes, with the sizes that the allocator gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Number of objects.
    pub objects: u64,
    /// All objects as JSON.
    pub json_bytes: u64,
    /// All objects as they are stored.
    pub held_bytes: u64,
    /// Objects with unknown values of some field.
    pub unselectable: u64,
    /// The order of all keys.
    pub order_bytes: u64,
    /// Changes in history.
    pub history_changes: u64,
    /// History, with the previous states that only it references.
    pub history_bytes: u64,
    /// The index of each field, of all labels, of the namespace, and of the hashes of uids.
    pub attributes: Vec<AttributeUsage>,
}

impl Snapshot {
    /// Pins a value that contains this state, for a reader that may be slow.
    pub fn pin<Value: Send + 'static>(&self, value: Value) -> PinnedValue<Value> {
        self.pins.pin(self.retired, value)
    }

    /// The version up to which every change is applied, and nothing later.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The epoch, in which all versions are comparable; a watch from an earlier epoch must end. A relist begins the
    /// next one when versions of the source went backwards, or when the stored objects were not trusted.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether events of this epoch may have been invalid. Their watches must end and their clients must list again.
    /// Clients that resume are rejected by [`Snapshot::since`], because history begins after all events of that time.
    /// The one exception is a client that stopped at exactly the version at which history begins. That position cannot
    /// be distinguished from the end of the new list.
    pub fn is_invalidated(&self, epoch: u64) -> bool {
        epoch < self.invalidated
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether there is no object.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sum of the sizes of all objects as JSON, in bytes.
    pub fn json_bytes(&self) -> u64 {
        self.json_bytes
    }

    /// An upper bound of the JSON length of each object, in bytes. It is less than twice the length of the longest
    /// object.
    pub fn longest(&self) -> usize {
        self.lengths.most()
    }

    /// Memory of the store. Walks the index: for a scrape of metrics, not for a request.
    pub fn usage(&self) -> Usage {
        let mut attributes = self.postings.usage();
        attributes.extend(self.shards().map(|shards| AttributeUsage {
            attribute: Attribute::UidHash,
            values: shards.len() as u64,
            bytes: shards.held_bytes() as u64,
        }));
        Usage {
            objects: self.len() as u64,
            json_bytes: self.json_bytes,
            held_bytes: self.held_bytes,
            unselectable: self.unselectable,
            order_bytes: (self.order.held_bytes() + self.objects.len() * size_of::<usize>()) as u64,
            history_changes: self.history.len() as u64,
            history_bytes: self.history.held_bytes(),
            attributes,
        }
    }

    /// The object of this key (`namespace/name`); `None` if there is none.
    pub fn get(&self, key: &str) -> Option<&Object> {
        self.object(self.slot(key)?)
    }

    /// The slot of this key; `None` if no object has the key.
    pub fn slot(&self, key: &str) -> Option<u32> {
        self.order.find(key, |slot| self.key(slot))
    }

    /// The key of the object in a slot; empty for a free slot. Invariant: every slot of the order has an object.
    pub(super) fn key(&self, slot: u32) -> &str {
        self.object(slot).map_or("", |object| object.key())
    }

    /// The object in a slot; `None` if the slot is free.
    pub fn object(&self, slot: u32) -> Option<&Object> {
        self.objects.get(slot as usize)?.as_ref()
    }

    /// The number of slots, in use or free. Each slot is below it.
    pub fn slots(&self) -> u64 {
        self.objects.len() as u64
    }

    /// All slots in use.
    pub fn occupied(&self) -> &SlotSet {
        &self.occupied
    }

    /// The indexes.
    pub fn postings(&self) -> &Postings {
        &self.postings
    }

    /// The index of the hashes of uids; `None` if it has not been built. See [`Snapshot::want_shards`].
    pub fn shards(&self) -> Option<&ShardIndex> {
        self.shards.index()
    }

    /// Asks for the index of the hashes of uids. Returns the permit to build it for this snapshot; `None` while another
    /// reader has the permit. A writer that changes the store while a reader has the permit builds the index too.
    pub fn want_shards(&self) -> Option<IndexPermit> {
        self.shards.want()
    }

    /// Slots and objects in list order, from a key on.
    pub fn range(&self, from: Bound<&str>) -> impl Iterator<Item = (u32, &Object)> {
        self.order.range(from, |slot| self.key(slot)).filter_map(|slot| self.object(slot).map(|object| (slot, object)))
    }

    /// Slots in list order, from a key on. Does not read the objects, except a few to find the key.
    pub fn slots_from(&self, from: Bound<&str>) -> impl Iterator<Item = u32> {
        self.order.range(from, |slot| self.key(slot))
    }

    /// The number of keys before `key`.
    pub fn rank(&self, key: &str) -> usize {
        self.order.rank(key, |slot| self.key(slot))
    }

    /// The oldest version from which a watch can resume.
    pub fn oldest(&self) -> Version {
        self.history.oldest()
    }

    /// The position of a watcher that has seen everything up to `version`. A future version is valid: it has no changes
    /// yet.
    ///
    /// # Errors
    /// [`TooOld`] when history does not reach back that far, or when `version` is in a relist gap.
    pub fn since(&self, version: Version) -> Result<HistoryCursor, TooOld> {
        self.history.since(version)
    }

    /// Whether the version is between the states before and after a relist, so that the changes around it are unknown.
    pub fn is_in_relist_gap(&self, version: Version) -> bool {
        self.history.gap_around(version).is_some()
    }

    /// The last relist gap, both ends excluded, if history still has it.
    pub fn last_relist_gap(&self) -> Option<(Version, Version)> {
        self.history.last_gap()
    }

    /// The position after the newest change.
    pub fn end(&self) -> HistoryCursor {
        self.history.end()
    }

    /// The changes from a position on. `None` when they have been dropped, or when the position is after the end.
    pub fn changes(&self, cursor: HistoryCursor) -> Option<impl DoubleEndedIterator<Item = &Arc<Change>>> {
        self.history.from(cursor)
    }
}
