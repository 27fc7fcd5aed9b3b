//! The objects that have changed between a version and a snapshot, as they were at that version.
//!
//! A response at a past version retains this until it is sent. So it stores slots instead of keys, and only objects
//! that the request may read. Changes can be many, so they are read in small steps. [`super::history`] has the changes;
//! `query::page` uses this for lists.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use roaring::RoaringBitmap;

use super::history::{HistoryCursor, TooOld};
use super::object::Object;
use super::snapshot::Snapshot;
use crate::model::Version;

/// The difference between a snapshot and an earlier version of it, for the keys with one prefix.
#[derive(Clone, Debug, Default)]
pub struct Rewind {
    /// Slots of the snapshot that had another object at that version, or none.
    hidden: RoaringBitmap,
    /// The objects of that version which the snapshot lacks, in the order of keys.
    before: Vec<Object>,
}

/// The number of changes, or of objects, in one step of [`RewindBuilder::advance`].
const AT_ONCE: usize = 64;

/// The work for a change, in steps of some ten nanoseconds: reading its key.
const STEPS_OF_CHANGE: u64 = 16;

/// The work for a change of a key with the prefix, in steps: a search by key in the snapshot and in `first`.
const STEPS_OF_KEY: u64 = 400;

/// The work for an object that is moved to the result, in steps.
const STEPS_OF_OBJECT: u64 = 8;

/// The memory for a change in bytes, at most: an entry of `first` in a node that is half full, the object in the result,
/// and a slot.
const BYTES_OF_CHANGE: usize = 128;

/// Finds a [`Rewind`] in small steps, because there can be very many changes.
#[derive(Debug)]
pub struct RewindBuilder<'s> {
    snapshot: &'s Snapshot,
    prefix: &'s str,
    /// The position of the next change.
    cursor: HistoryCursor,
    /// For each key with the prefix that has changed, the object before its first change: `None` if it had none. Keys
    /// whose objects were moved to `rewind` are not in it any more.
    first: BTreeMap<&'s str, Option<&'s Object>>,
    rewind: Rewind,
}

impl Snapshot {
    /// Begins to find the changes to revert for the state at exactly `version`, for the keys that begin with `prefix`.
    ///
    /// # Errors
    /// [`TooOld`] when history does not reach back that far, or when `version` is in a relist gap, where the exact
    /// state is unknown.
    pub fn rewind_to<'s>(&'s self, version: Version, prefix: &'s str) -> Result<RewindBuilder<'s>, TooOld> {
        let cursor = self.since(version)?;
        Ok(RewindBuilder { snapshot: self, prefix, cursor, first: BTreeMap::new(), rewind: Rewind::default() })
    }

    /// An upper bound of the memory to find the changes to revert for the state at `version`, and of the result, in
    /// bytes. It depends on the number of all changes since then.
    pub fn most_rewind_bytes(&self, version: Version) -> usize {
        let changes = self.since(version).map_or(0, |cursor| self.end().distance_from(cursor));
        changes.saturating_mul(BYTES_OF_CHANGE)
    }
}

impl RewindBuilder<'_> {
    /// Does a part of the work. Returns its amount, in steps of some ten nanoseconds; `None` when all work is done.
    pub fn advance(&mut self) -> Option<u64> {
        let mut changes = self.snapshot.changes(self.cursor).into_iter().flatten().take(AT_ONCE).peekable();
        if changes.peek().is_none() {
            return self.move_objects();
        }
        let mut steps = 0;
        for change in changes {
            self.cursor = self.cursor.advanced(1);
            steps += STEPS_OF_CHANGE;
            let Some(object) = change.after.as_ref().or(change.before.as_ref()) else { continue };
            let key = object.key();
            if !key.starts_with(self.prefix) {
                continue;
            }
            steps += STEPS_OF_KEY;
            // The first change of a key after the version has the object of the version.
            let Entry::Vacant(vacant) = self.first.entry(key) else { continue };
            vacant.insert(change.before.as_ref());
            if let Some(slot) = self.snapshot.slot(key) {
                self.rewind.hidden.insert(slot);
            }
        }
        Some(steps)
    }

    /// Moves some objects to the result, in the order of keys. Returns the work in steps; `None` if none is left.
    fn move_objects(&mut self) -> Option<u64> {
        let mut steps = 0;
        for _ in 0..AT_ONCE {
            let Some((_, before)) = self.first.pop_first() else { break };
            self.rewind.before.extend(before.cloned());
            steps += STEPS_OF_OBJECT;
        }
        (steps > 0).then_some(steps)
    }

    /// The result, after [`RewindBuilder::advance`] has returned `None`.
    pub fn finish(self) -> Rewind {
        let mut rewind = self.rewind;
        rewind.before.shrink_to_fit();
        rewind
    }
}

impl Rewind {
    /// Whether the snapshot is the state of the version, for the keys with the prefix: there is nothing to revert.
    pub fn is_empty(&self) -> bool {
        self.hidden.is_empty() && self.before.is_empty()
    }

    /// The slots of the snapshot that do not belong to the state of the version.
    pub fn hidden(&self) -> &RoaringBitmap {
        &self.hidden
    }

    /// The objects of the version that the snapshot lacks, in the order of keys.
    pub fn before(&self) -> &[Object] {
        &self.before
    }

    /// Memory in bytes, without the objects, which history references too.
    pub fn held_bytes(&self) -> usize {
        self.hidden.serialized_size() + self.before.capacity() * size_of::<Object>()
    }
}
