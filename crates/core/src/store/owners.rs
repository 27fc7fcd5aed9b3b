//! The index of owners: the objects that name a uid in `metadata.ownerReferences`.
//!
//! Every store has this index. It is not a field: no selector uses it, and OpenAPI does not show it. An entry is the
//! hash of a uid, the same as [`Object::uid_hash`] of the owner. The text of the uid would take three times as much
//! memory, and readers of dependents read the objects in any case. They test each candidate, because two uids can have
//! the same hash.

use std::sync::Arc;

use super::copies::Copies;
use super::hashes::HashIndex;
use super::heap::shared;
use super::object::Object;
use super::slots::SlotSet;

/// The slots of a store by the owners of their objects. Clones share the data until one of them is changed.
#[derive(Clone, Debug, Default)]
pub struct OwnerIndex {
    /// The slots by the hashes of the uids of owners.
    hashes: HashIndex,
    /// The slots of objects with too many owners to be indexed.
    unindexed: Arc<SlotSet>,
}

impl OwnerIndex {
    /// The slots from `from` on of the objects that have an owner whose uid has this hash, in order. Callers must test
    /// the objects, because the owner can have another uid with the same hash. Objects in [`OwnerIndex::unindexed`] are
    /// missing.
    pub fn candidates(&self, hash: u64, from: u32) -> impl Iterator<Item = u32> + '_ {
        self.hashes.slots_with(hash, from)
    }

    /// The slots of objects with too many owners to be indexed (`model::owners::MOST_OWNERS`). They are candidates for
    /// every owner.
    pub fn unindexed(&self) -> &SlotSet {
        &self.unindexed
    }

    /// Whether no object of the store has an owner.
    pub fn is_empty(&self) -> bool {
        self.hashes.is_empty() && self.unindexed.is_empty()
    }

    /// The number of pairs of an object and an owner, without the objects in [`OwnerIndex::unindexed`].
    pub fn len(&self) -> usize {
        self.hashes.len()
    }

    /// Memory in bytes. Walks the index.
    pub(super) fn held_bytes(&self) -> usize {
        let unindexed = if self.unindexed.is_empty() { 0 } else { shared::<SlotSet>() + self.unindexed.held_bytes() };
        self.hashes.held_bytes() + unindexed
    }

    /// Indexes a change of the object in a slot. `before` is `None` for a new object, `after` for a removed one.
    pub(super) fn index(&mut self, slot: u32, before: Option<&Object>, after: Option<&Object>, copies: &mut Copies) {
        if before.map(Object::owner_bytes) == after.map(Object::owner_bytes) {
            return;
        }
        let hashes = |object: Option<&Object>| -> Vec<u64> {
            object.and_then(Object::owner_hashes).map(Iterator::collect).unwrap_or_default()
        };
        let (removed, added) = (hashes(before), hashes(after));
        for hash in removed.iter().filter(|hash| added.binary_search(hash).is_err()) {
            self.hashes.remove(*hash, slot, copies);
        }
        for hash in added.iter().filter(|hash| removed.binary_search(hash).is_err()) {
            self.hashes.insert_shared(*hash, slot, copies);
        }
        let is_unindexed = |object: Option<&Object>| object.is_some_and(|object| object.owner_hashes().is_none());
        if is_unindexed(after) {
            copies.make_mut(&mut self.unindexed).insert(slot, copies);
        } else if is_unindexed(before) {
            copies.make_mut(&mut self.unindexed).remove(slot, copies);
        }
    }
}
