//! What a full list that is still arriving has said so far.
//!
//! Of an object that is held at the same version nothing is stored but its slot: see `relist`.

use std::collections::HashMap;

use roaring::RoaringBitmap;

use super::object::Object;
use crate::model::Key;

/// What a list has said so far.
#[derive(Debug)]
pub(super) enum Relist {
    /// The first one: objects are in the store already.
    First,
    /// One that replaces what is held.
    Over(Over),
}

/// What differs from the objects that are held.
#[derive(Debug, Default)]
pub(super) struct Over {
    /// Slots of objects that the list has at the version that is held.
    pub(super) kept: RoaringBitmap,
    /// Of these, the objects whose bytes differ nevertheless.
    pub(super) rewritten: HashMap<u32, Object>,
    /// Objects that are not held at this version.
    pub(super) changed: HashMap<Key, Object>,
    /// What those of the list take in memory, in bytes.
    bytes: u64,
}

impl Over {
    pub(super) fn rewrite(&mut self, slot: u32, object: Object) {
        self.bytes += object.held_bytes() as u64;
        let before = self.rewritten.insert(slot, object);
        self.uncount(before.as_ref());
    }

    pub(super) fn change(&mut self, key: Key, object: Object) {
        self.bytes += object.held_bytes() as u64;
        let before = self.changed.insert(key, object);
        self.uncount(before.as_ref());
    }

    /// The list does not have the object in this slot, or not as it is held.
    pub(super) fn drop_kept(&mut self, slot: u32) {
        self.kept.remove(slot);
        let before = self.rewritten.remove(&slot);
        self.uncount(before.as_ref());
    }

    pub(super) fn drop_changed(&mut self, key: &Key) {
        let before = self.changed.remove(key);
        self.uncount(before.as_ref());
    }

    fn uncount(&mut self, object: Option<&Object>) {
        self.bytes -= object.map_or(0, Object::held_bytes) as u64;
    }
}

impl Relist {
    /// The object in this slot is gone: what is said of it is not said of the next one there.
    pub(super) fn forget(&mut self, slot: u32) {
        if let Relist::Over(over) = self {
            over.drop_kept(slot);
        }
    }

    /// What objects that only the list holds take in memory, in bytes.
    pub(super) fn held_bytes(&self) -> u64 {
        match self {
            Relist::First => 0,
            Relist::Over(over) => over.bytes,
        }
    }

    /// The objects that only the list holds.
    pub(super) fn objects(&self) -> impl Iterator<Item = &Object> {
        let over = match self {
            Relist::First => None,
            Relist::Over(over) => Some(over),
        };
        over.into_iter().flat_map(|over| over.changed.values().chain(over.rewritten.values()))
    }
}
