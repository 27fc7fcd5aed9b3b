//! The objects that have changed between a version and a snapshot, as they were at that version.
//!
//! A response at a past version retains this until it is sent. So it stores slots instead of keys, and only objects
//! that the request may read. [`super::history`] has the changes; `query::page` uses this for lists.

use std::collections::HashSet;

use roaring::RoaringBitmap;

use super::history::TooOld;
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

impl Snapshot {
    /// The changes to revert for the state at exactly `version`, for the keys that begin with `prefix`.
    ///
    /// # Errors
    /// [`TooOld`] when history does not reach back that far, or when `version` is in a relist gap, where the exact
    /// state is unknown.
    pub fn rewind_to(&self, version: Version, prefix: &str) -> Result<Rewind, TooOld> {
        Rewind::new(self, version, prefix)
    }
}

impl Rewind {
    /// The changes between `version` and the snapshot, for the keys that begin with `prefix`.
    fn new(snapshot: &Snapshot, version: Version, prefix: &str) -> Result<Rewind, TooOld> {
        let cursor = snapshot.since(version)?;
        let mut rewind = Rewind::default();
        let mut seen = HashSet::new();
        // The first change of a key after the version has the object of the version.
        for change in snapshot.changes(cursor).into_iter().flatten() {
            let Some(object) = change.after.as_ref().or(change.before.as_ref()) else { continue };
            let key = object.key();
            if !key.starts_with(prefix) || !seen.insert(key) {
                continue;
            }
            if let Some(slot) = snapshot.slot(key) {
                rewind.hidden.insert(slot);
            }
            rewind.before.extend(change.before.clone());
        }
        rewind.before.sort_unstable_by(|left, right| left.key().cmp(right.key()));
        rewind.before.shrink_to_fit();
        Ok(rewind)
    }

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
