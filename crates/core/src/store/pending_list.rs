//! The contents of a full list that is still arriving.
//!
//! For an object that the store has at the same version, only its slot is stored: see `relist`.

use std::collections::HashMap;

use roaring::RoaringBitmap;

use super::object::Object;
use crate::model::Key;

/// The contents of a list that is still arriving.
#[derive(Debug)]
pub(super) enum Relist {
    /// The first list of the store. Its objects are written directly to the store, so nothing is here.
    First,
    /// A list that replaces the objects of the store.
    Over(Over),
}

/// The differences between a list and the objects of the store. A stored object that is neither in `kept` nor in
/// `changed` is not in the list.
#[derive(Debug, Default)]
pub(super) struct Over {
    /// Slots of objects that the list has at the version that is stored.
    pub(super) kept: RoaringBitmap,
    /// Of these, the objects whose bytes differ nevertheless.
    pub(super) rewritten: HashMap<u32, Object>,
    /// Objects that are not stored at this version.
    pub(super) changed: HashMap<Key, Object>,
    /// Memory of `rewritten` and `changed`, in bytes.
    bytes: u64,
}

impl Over {
    /// Stores other bytes for the object of a slot, at its stored version.
    pub(super) fn rewrite(&mut self, slot: u32, object: Object) {
        self.bytes += object.held_bytes() as u64;
        let before = self.rewritten.insert(slot, object);
        self.uncount(before.as_ref());
    }

    /// Adds or replaces an object that is not stored at this version.
    pub(super) fn change(&mut self, key: Key, object: Object) {
        self.bytes += object.held_bytes() as u64;
        let before = self.changed.insert(key, object);
        self.uncount(before.as_ref());
    }

    /// Notes that the list does not have the object of this slot, or has another version of it.
    pub(super) fn drop_kept(&mut self, slot: u32) {
        self.kept.remove(slot);
        let before = self.rewritten.remove(&slot);
        self.uncount(before.as_ref());
    }

    /// Removes an object that [`Over::change`] added; does nothing if there is none.
    pub(super) fn drop_changed(&mut self, key: &Key) {
        let before = self.changed.remove(key);
        self.uncount(before.as_ref());
    }

    /// Subtracts the memory of an object that was removed, if there was one.
    fn uncount(&mut self, object: Option<&Object>) {
        self.bytes -= object.map_or(0, Object::held_bytes) as u64;
    }
}

impl Relist {
    /// Notes that the object of this slot was removed from the store. Another object may take the slot, and the list
    /// has no information about that one.
    pub(super) fn forget(&mut self, slot: u32) {
        if let Relist::Over(over) = self {
            over.drop_kept(slot);
        }
    }

    /// Memory of objects that only the list has, in bytes.
    pub(super) fn held_bytes(&self) -> u64 {
        match self {
            Relist::First => 0,
            Relist::Over(over) => over.bytes,
        }
    }

    /// The objects that only the list has.
    pub(super) fn objects(&self) -> impl Iterator<Item = &Object> {
        let over = match self {
            Relist::First => None,
            Relist::Over(over) => Some(over),
        };
        over.into_iter().flat_map(|over| over.changed.values().chain(over.rewritten.values()))
    }
}
