//! Applies a full list to a store.
//!
//! A list costs its changes. For an object that is already stored it only stores a mark, so that a relist of everything
//! does not double the memory. The very first list goes straight into the store, which has no readers yet. Nothing of a
//! list is visible before it is committed, and an interrupted list leaves no trace.

use std::sync::Arc;

use super::history::Change;
use super::object::Object;
use super::pending_list::{Over, Relist};
use super::snapshot::Snapshot;
use super::writer::Store;
use crate::model::{Key, Record, Version};

/// The result of a relist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelistOutcome {
    /// History continues: removals, then changes in version order.
    Continued,
    /// The versions went backwards (a restored or another cluster), or the [`RelistMode`] did not trust the stored
    /// objects. Earlier versions cannot be compared with later ones: history starts again and running watches must end.
    Reset,
}

/// How much of the stored objects a list can rely on; each mode relies on less than the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum RelistMode {
    /// Objects of the same version are the same; their stored bytes are not replaced.
    #[default]
    TrustVersions,
    /// The source may have rewritten objects without a new version: the list begins another history.
    NewEpoch,
    /// Earlier events may have been invalid: like [`RelistMode::NewEpoch`], and clients that received them must list
    /// again ([`Snapshot::is_invalidated`]).
    Invalidate,
}

impl Store {
    /// Begins a full list; drops an earlier one that has not been committed.
    pub fn begin_list(&mut self) {
        // Before the first list is complete, no reader uses the store, so the list goes directly into it.
        let first = !self.is_filled && !matches!(self.relist, Some(Relist::Over(_)));
        if first {
            self.clear();
        }
        self.relist = Some(if first { Relist::First } else { Relist::Over(Over::default()) });
    }

    /// Drops the list in progress, if there is one. Its contents are released immediately, since the next list may take
    /// long to begin.
    pub fn abort_list(&mut self) {
        if let Some(Relist::First) = self.relist.take() {
            self.clear();
        }
    }

    /// Removes all objects, which are those of an unfinished first list: no reader has seen them. Keeps epoch, history
    /// and limits.
    fn clear(&mut self) {
        let Snapshot { epoch, history, pins, retired, postings, .. } = std::mem::take(&mut self.current);
        let postings = Arc::new(postings.without_objects());
        self.current = Snapshot { epoch, history, pins, retired, postings, ..Snapshot::default() };
        self.free_slots.clear();
    }

    /// The number of objects that the list in progress has so far; 0 without one.
    pub fn listed(&self) -> usize {
        match &self.relist {
            None => 0,
            Some(Relist::First) => self.current.len(),
            Some(Relist::Over(over)) => over.kept.len() as usize + over.changed.len(),
        }
    }

    /// Whether a list is in progress.
    pub fn is_listing(&self) -> bool {
        self.relist.is_some()
    }

    /// Adds an object to the list in progress, which must have begun. If the list has several states of an object, the
    /// newest counts.
    pub fn list(&mut self, record: &Record) {
        let existing = self.current.slot(record.key.as_str());
        let existing_version = existing.and_then(|slot| self.current.object(slot)).map(|object| object.version());
        let Some(Relist::Over(over)) = &mut self.relist else {
            if existing_version.is_none_or(|existing| existing < record.version) {
                let object = self.pack(record);
                self.put(existing, object);
            }
            return;
        };
        // The version of the object that the list has so far.
        let listed = match over.changed.get(&record.key) {
            Some(changed) => Some(changed.version()),
            None => existing_version.filter(|_| existing.is_some_and(|slot| over.kept.contains(slot))),
        };
        if listed.is_some_and(|listed| listed >= record.version) {
            return;
        }
        match existing.filter(|_| existing_version == Some(record.version)) {
            Some(slot) => {
                // The store has the object at this version, so a mark is enough.
                over.kept.insert(slot);
                over.drop_changed(&record.key);
                let is_same = self.current.object(slot).is_some_and(|object| *object.json() == *record.bytes);
                if !is_same {
                    let object = self.pack(record);
                    if let Some(Relist::Over(over)) = &mut self.relist {
                        over.rewrite(slot, object);
                    }
                }
            }
            None => {
                if let Some(slot) = existing {
                    over.drop_kept(slot);
                }
                let object = self.pack(record);
                if let Some(Relist::Over(over)) = &mut self.relist {
                    over.change(record.key.clone(), object);
                }
            }
        }
    }

    /// Removes an object from the list in progress: it was deleted or became unreadable while the list was arriving.
    /// Does nothing without a list.
    pub fn unlist(&mut self, key: &Key) {
        let existing = self.current.slot(key.as_str());
        match &mut self.relist {
            None => {}
            Some(Relist::First) => {
                self.take(key.as_str());
            }
            Some(Relist::Over(over)) => {
                over.drop_changed(key);
                if let Some(slot) = existing {
                    over.drop_kept(slot);
                }
            }
        }
    }

    /// Replaces the contents of the store by the list in progress, which is complete at `version`. Without a list in
    /// progress, the store becomes empty.
    ///
    /// `mode`: how much the list relies on the stored objects. If it is not [`RelistMode::TrustVersions`], or if
    /// versions go backwards, an epoch begins with a new history. The result is then [`RelistOutcome::Reset`], and open
    /// watches must end. [`RelistMode::Invalidate`] also makes clients list again that received events of earlier
    /// epochs.
    ///
    /// Invariant: removals come first in history and have the version before the gap, because their own versions are
    /// unknown. With a later version, a client that is disconnected between two removals would skip changes. Changed
    /// objects follow in version order.
    pub fn commit_list(&mut self, version: Version, mode: RelistMode) -> RelistOutcome {
        if self.relist.is_none() {
            self.begin_list();
        }
        self.is_filled = true;
        let Some(Relist::Over(over)) = self.relist.take() else {
            // A first list: no reader has seen an earlier state, so `mode` has no meaning.
            self.current.version = version;
            self.current.history.restart(version);
            return RelistOutcome::Continued;
        };
        let before_gap = self.current.version;
        // Versions also go backwards if the list has an unknown state of an object, at a version that the store has
        // already passed.
        let goes_back = version < before_gap || over.changed.values().any(|object| object.version() <= before_gap);
        let is_reset = goes_back || mode != RelistMode::TrustVersions;
        let mut gone = self.current.occupied.to_bitmap() - &over.kept;
        for key in over.changed.keys() {
            if let Some(slot) = self.current.slot(key.as_str()) {
                gone.remove(slot);
            }
        }
        if is_reset {
            self.current.epoch += 1;
            if mode == RelistMode::Invalidate {
                self.current.invalidated = self.current.epoch;
            }
            let released = self.current.history.restart(version);
            self.retire(released);
            self.current.version = version;
        }
        // In list order, like all events. A key from the store already has its namespace.
        let mut gone: Vec<Key> = gone.into_iter().map(|slot| Key::new("", self.current.key(slot))).collect();
        gone.sort_unstable();
        for key in gone {
            let before = self.take(key.as_str());
            if is_reset {
                self.retire_object(before.as_ref());
            } else {
                self.append_to_history(Change { version: before_gap, before, after: None, in_relist_gap: true });
            }
        }
        let mut changed: Vec<Object> = over.changed.into_values().collect();
        if is_reset {
            // `rewritten`: objects whose bytes differ from the stored ones although their version is the same.
            for object in changed.into_iter().chain(over.rewritten.into_values()) {
                let before = self.put(self.current.slot(object.key()), object);
                self.retire_object(before.as_ref());
            }
        } else {
            changed.sort_unstable_by(|left, right| (left.version(), left.key()).cmp(&(right.version(), right.key())));
            for object in changed {
                self.apply_new(self.current.slot(object.key()), object);
            }
            self.current.history.bridge(before_gap, version);
            self.advance_to(version);
        }
        if is_reset { RelistOutcome::Reset } else { RelistOutcome::Continued }
    }

    /// Replaces everything by a complete list at `version`; see [`Store::commit_list`].
    pub fn replace(&mut self, records: &[Record], version: Version) -> RelistOutcome {
        self.begin_list();
        for record in records {
            self.list(record);
        }
        self.commit_list(version, RelistMode::TrustVersions)
    }
}
