//! What readers hold: a store at one point in time.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use imbl::{OrdMap, Vector};

use super::history::History;
use super::postings::Postings;
use super::{Change, Cursor, Object, Slots, TooOld};
use crate::model::{Key, Version};

/// A store at one point in time. Cloning is cheap; nothing in it ever changes.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Promise: every change up to this version is applied.
    pub(super) version: Version,
    /// Rises when versions went backwards; a watch from another epoch must end.
    pub(super) epoch: u64,
    pub(super) objects: Vector<Option<Arc<Object>>>,
    pub(super) order: OrdMap<Key, u32>,
    pub(super) occupied: Slots,
    pub(super) postings: Postings,
    pub(super) history: History,
    /// Sum of the sizes of all objects.
    pub(super) object_bytes: u64,
}

impl Snapshot {
    /// Every change up to this version is applied, and nothing of a later one.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Rises when the source's versions went backwards.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// How many objects.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Sum of the sizes of all objects, in bytes.
    pub fn object_bytes(&self) -> u64 {
        self.object_bytes
    }

    /// The object of that key (`namespace/name`).
    pub fn get(&self, key: &str) -> Option<&Arc<Object>> {
        self.object(self.slot(key)?)
    }

    /// The slot of that key.
    pub fn slot(&self, key: &str) -> Option<u32> {
        self.order.get(key).copied()
    }

    /// The object in a slot.
    pub fn object(&self, slot: u32) -> Option<&Arc<Object>> {
        self.objects.get(slot as usize)?.as_ref()
    }

    /// All slots in use.
    pub fn occupied(&self) -> &roaring::RoaringBitmap {
        &self.occupied
    }

    /// The indexes.
    pub fn postings(&self) -> &Postings {
        &self.postings
    }

    /// Keys and slots in list order, from a bound on.
    pub fn range(&self, from: Bound<&str>) -> impl Iterator<Item = (&Key, u32)> {
        self.order.range::<_, str>((from, Bound::Unbounded)).map(|(key, slot)| (key, *slot))
    }

    /// The oldest version from which a watch can resume.
    pub fn oldest(&self) -> Version {
        self.history.oldest()
    }

    /// Where a watcher that has seen everything up to `version` goes on. A version of the future is fine: it has
    /// nothing to see yet.
    ///
    /// # Errors
    /// [`TooOld`] when history no longer reaches back that far.
    pub fn since(&self, version: Version) -> Result<Cursor, TooOld> {
        self.history.since(version)
    }

    /// Whether a relist jumped over this version: what happened before and after it there is not known.
    pub fn jumped_over(&self, version: Version) -> bool {
        self.history.gap_around(version).is_some()
    }

    /// The place after the newest change.
    pub fn end(&self) -> Cursor {
        self.history.end()
    }

    /// The changes from a cursor on; `None` when history has moved past it.
    pub fn changes(&self, cursor: Cursor) -> Option<impl DoubleEndedIterator<Item = &Arc<Change>>> {
        self.history.from(cursor)
    }

    /// What must be undone to see the state at exactly `version`: for each key that has changed since, the object as
    /// it was then (`None`: it did not exist).
    ///
    /// # Errors
    /// [`TooOld`] when history no longer reaches back that far, or when `version` lies in a gap that a relist bridged,
    /// where the exact state is unknown.
    pub fn undo_to(&self, version: Version) -> Result<BTreeMap<Key, Option<Arc<Object>>>, TooOld> {
        let cursor = self.since(version)?;
        let mut undone = BTreeMap::new();
        for change in self.changes(cursor).into_iter().flatten().rev() {
            if let Some(object) = change.after.as_ref().or(change.before.as_ref()) {
                undone.insert(object.key.clone(), change.before.clone());
            }
        }
        Ok(undone)
    }
}
