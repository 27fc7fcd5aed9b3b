//! The indexed copy of one resource: every object's bytes once, posting lists for fields and labels, and history.
//!
//! [`Store`] is the one writer; [`Snapshot`] is what readers hold: a point in time that costs one reference count.
//! Both share persistent maps, so publishing copies nothing but the paths that changed since the last snapshot.
//! Map: [`object`] is an object at rest; [`postings`] are the indexes; [`history`] remembers recent changes with their
//! previous state; [`snapshot`] is the readers' side. This room receives values, never JSON, paths or selectors.

pub mod history;
pub mod object;
pub mod postings;
pub mod snapshot;
#[cfg(test)]
pub(crate) mod tests;

use std::sync::Arc;

use roaring::RoaringBitmap;

use crate::model::{Key, Record, Version};

pub use history::{Change, Cursor, HistoryLimits, TooOld};
pub use object::Object;
pub use postings::Attribute;
pub use snapshot::Snapshot;

/// The writer's side of one resource. Not `Clone`: one task owns it.
#[derive(Debug)]
pub struct Store {
    /// What the next snapshot will be; changed in place, shared copy-on-write with the snapshots handed out.
    current: Snapshot,
    /// Slots that held an object that is gone.
    free_slots: Vec<u32>,
    limits: HistoryLimits,
}

/// What became of a record or a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The store changed and history has one more entry.
    Changed,
    /// The store already had this or something newer.
    Stale,
}

/// How a relist joined what was there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replaced {
    /// History goes on: removals, then changes in version order.
    Continued,
    /// The versions went backwards (a restored or another cluster): nothing before is comparable, history starts
    /// anew and running watches must end.
    Reset,
}

impl Store {
    /// An empty store.
    pub fn new(limits: HistoryLimits) -> Store {
        Store::with_epoch(limits, 0)
    }

    /// An empty store that follows an earlier one of the same resource: its epoch must be above that one's.
    pub fn with_epoch(limits: HistoryLimits, epoch: u64) -> Store {
        Store { current: Snapshot { epoch, ..Snapshot::default() }, free_slots: Vec::new(), limits }
    }

    /// The state as of now, for readers.
    pub fn snapshot(&self) -> Snapshot {
        self.current.clone()
    }

    /// The newest version that is known to be applied.
    pub fn version(&self) -> Version {
        self.current.version
    }

    /// Puts an object in, new or changed.
    pub fn apply(&mut self, record: Record) -> Outcome {
        let before = self.current.get(record.key.as_str()).cloned();
        if before.as_ref().is_some_and(|before| before.version >= record.version) {
            return Outcome::Stale;
        }
        let version = record.version;
        let after = self.put(record);
        self.current.version = self.current.version.max(version);
        self.remember(Change { version, before, after: Some(after), fills_gap: false });
        Outcome::Changed
    }

    /// Takes an object away; `version` is that of the deletion.
    pub fn delete(&mut self, key: &Key, version: Version) -> Outcome {
        let Some(before) = self.current.get(key.as_str()).cloned() else {
            self.current.version = self.current.version.max(version);
            return Outcome::Stale;
        };
        if before.version > version {
            return Outcome::Stale;
        }
        self.take(key);
        self.current.version = self.current.version.max(version);
        self.remember(Change { version, before: Some(before), after: None, fills_gap: false });
        Outcome::Changed
    }

    /// Every change up to `version` has been applied: a bookmark said so.
    pub fn prove(&mut self, version: Version) {
        self.current.version = self.current.version.max(version);
    }

    /// Replaces everything by a finished list of `version`. Objects whose version is unchanged keep their bytes.
    ///
    /// Invariant: removals come first and carry the version before the gap, since nobody knows theirs and a later one
    /// would let a client that is cut in the middle skip the changes; changed objects follow in version order.
    pub fn replace(&mut self, records: Vec<Record>, version: Version) -> Replaced {
        let before_gap = self.current.version;
        let goes_back = version < before_gap
            || records.iter().any(|record| {
                record.version <= before_gap
                    && before_gap > Version::ZERO
                    && self.current.get(record.key.as_str()).is_none_or(|held| held.version != record.version)
            });
        if before_gap == Version::ZERO || goes_back {
            self.restart(records, version);
            return if goes_back { Replaced::Reset } else { Replaced::Continued };
        }
        let listed: std::collections::HashSet<&str> = records.iter().map(|record| record.key.as_str()).collect();
        let gone: Vec<Key> = self.current.order.keys().filter(|key| !listed.contains(key.as_str())).cloned().collect();
        let mut changed: Vec<Record> = records
            .into_iter()
            .filter(|record| self.current.get(record.key.as_str()).is_none_or(|held| held.version != record.version))
            .collect();
        changed.sort_by(|left, right| left.version.cmp(&right.version).then_with(|| left.key.cmp(&right.key)));
        for key in gone {
            let before = self.take(&key);
            self.remember(Change { version: before_gap, before, after: None, fills_gap: true });
        }
        for record in changed {
            self.apply(record);
        }
        self.current.history.bridge(before_gap, version);
        self.prove(version);
        Replaced::Continued
    }

    /// Starts anew from a finished list: nothing that was held is trusted, history begins here, and watches of a store
    /// that held something end.
    pub fn restart(&mut self, records: Vec<Record>, version: Version) {
        let held_something = self.current.version > Version::ZERO;
        let mut history = std::mem::take(&mut self.current.history);
        history.restart(version);
        let epoch = self.current.epoch + u64::from(held_something);
        self.current = Snapshot { epoch, version, history, ..Snapshot::default() };
        self.free_slots.clear();
        for record in records {
            self.put(record);
        }
    }

    /// Takes an object away whose new state cannot be read; `version` is that of the new state. Where even that is
    /// unknown the removal is stamped like those of a relist.
    pub fn drop_unreadable(&mut self, key: &Key, version: Option<Version>) -> Outcome {
        let known = version.filter(|version| *version > self.current.version);
        let before = self.take(key);
        if let Some(version) = known {
            self.current.version = version;
        }
        if before.is_none() {
            return Outcome::Stale;
        }
        let version = self.current.version;
        self.remember(Change { version, before, after: None, fills_gap: known.is_none() });
        Outcome::Changed
    }

    fn remember(&mut self, change: Change) {
        self.current.history.push(Arc::new(change), &self.limits);
    }

    fn put(&mut self, record: Record) -> Arc<Object> {
        let slot = match self.current.order.get(record.key.as_str()) {
            Some(&slot) => {
                if let Some(held) = self.current.objects.get(slot as usize).cloned().flatten() {
                    self.unindex(slot, &held);
                }
                slot
            }
            None => match self.free_slots.pop() {
                Some(slot) => slot,
                None => {
                    self.current.objects.push_back(None);
                    // Slots are 32 bits wide because roaring's are; etcd holds far fewer objects.
                    u32::try_from(self.current.objects.len() - 1).unwrap_or(u32::MAX)
                }
            },
        };
        let object = Arc::new(self.current.postings.index(slot, record));
        self.current.object_bytes += object.bytes.len() as u64;
        self.current.order.insert(object.key.clone(), slot);
        self.current.objects.set(slot as usize, Some(object.clone()));
        Arc::make_mut(&mut self.current.occupied).insert(slot);
        object
    }

    fn take(&mut self, key: &Key) -> Option<Arc<Object>> {
        let slot = self.current.order.remove(key.as_str())?;
        let object = self.current.objects.set(slot as usize, None)?;
        self.unindex(slot, &object);
        Arc::make_mut(&mut self.current.occupied).remove(slot);
        self.free_slots.push(slot);
        Some(object)
    }

    fn unindex(&mut self, slot: u32, object: &Object) {
        self.current.object_bytes -= object.bytes.len() as u64;
        self.current.postings.unindex(slot, object);
    }
}

/// The set of all slots in use, shared with snapshots.
pub(crate) type Slots = Arc<RoaringBitmap>;
