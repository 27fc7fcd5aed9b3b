//! The objects that have changed between a version and a snapshot, as they were at that version.
//!
//! A response at a past version holds this for as long as it is sent, so it names slots instead of keys and only what the request may show.
//! What changed is in [`super::history`]; how a list uses this is in `query::page`.

use std::collections::HashSet;

use roaring::RoaringBitmap;

use super::history::TooOld;
use super::object::Object;
use super::snapshot::Snapshot;
use crate::model::Version;

/// The difference between a snapshot and an earlier version of it, for the keys with one prefix.
#[derive(Clone, Debug, Default)]
pub struct Undone {
    /// Slots of the snapshot whose objects were other ones, or none.
    hidden: RoaringBitmap,
    /// The objects of that version which the snapshot lacks, in the order of keys.
    before: Vec<Object>,
}

impl Snapshot {
    /// What must be undone to see the state at exactly `version`, for the keys that begin with `prefix`.
    ///
    /// # Errors
    /// [`TooOld`] when history no longer reaches back that far, or when `version` lies in a gap that a relist bridged,
    /// where the exact state is unknown.
    pub fn undo_to(&self, version: Version, prefix: &str) -> Result<Undone, TooOld> {
        Undone::new(self, version, prefix)
    }
}

impl Undone {
    /// What lies between `version` and the snapshot, for the keys that begin with `prefix`.
    fn new(snapshot: &Snapshot, version: Version, prefix: &str) -> Result<Undone, TooOld> {
        let cursor = snapshot.since(version)?;
        let mut undone = Undone::default();
        let mut seen = HashSet::new();
        // The first change of a key after the version says what it was.
        for change in snapshot.changes(cursor).into_iter().flatten() {
            let Some(object) = change.after.as_ref().or(change.before.as_ref()) else { continue };
            let key = object.key();
            if !key.starts_with(prefix) || !seen.insert(key) {
                continue;
            }
            if let Some(slot) = snapshot.slot(key) {
                undone.hidden.insert(slot);
            }
            undone.before.extend(change.before.clone());
        }
        undone.before.sort_unstable_by(|left, right| left.key().cmp(right.key()));
        undone.before.shrink_to_fit();
        Ok(undone)
    }

    /// Whether the snapshot is the state of the version, for the keys with the prefix.
    pub fn is_empty(&self) -> bool {
        self.hidden.is_empty() && self.before.is_empty()
    }

    /// The slots of the snapshot that do not belong to the state of the version.
    pub fn hidden(&self) -> &RoaringBitmap {
        &self.hidden
    }

    /// The objects that stand there instead, in the order of keys.
    pub fn before(&self) -> &[Object] {
        &self.before
    }

    /// What it takes in memory, in bytes, without the objects, which history holds too.
    pub fn held_bytes(&self) -> usize {
        self.hidden.serialized_size() + self.before.capacity() * size_of::<Object>()
    }
}
