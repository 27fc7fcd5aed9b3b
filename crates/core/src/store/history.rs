//! Recent changes with their previous state, for resumed watches and exact lists.
//!
//! A watcher is a [`HistoryCursor`] into this ring, not a queue. When the ring has moved past the cursor of a slow
//! watcher, its watch ends. Its client then resumes at a version that the ring no longer has, gets 410, and lists again.
//! The ring is bounded by its number of entries and by the bytes that only history references.

use std::sync::Arc;

use imbl::Vector;

use super::heap::{shared, vector_leaf};
use super::object::Object;
use crate::model::Version;

/// One change of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The version this change happened at; see `in_relist_gap`.
    pub version: Version,
    /// The object before; `None` when it was created.
    pub before: Option<Object>,
    /// The object after; `None` when it was deleted.
    pub after: Option<Object>,
    /// True for a removal found by a relist: it happened at some version after `version`, the last one before the gap.
    /// A watcher that resumes from exactly `version` must still see it.
    pub in_relist_gap: bool,
}

/// Limits of the history of a store.
#[derive(Clone, Copy, Debug)]
pub struct HistoryLimits {
    /// Entries.
    pub changes: usize,
    /// Bytes of previous object states, as they are stored.
    pub bytes: u64,
}

impl Default for HistoryLimits {
    /// kube-apiserver's watch cache grows to 102,400 events (`watch_cache_history.go`). Previous states are bounded by
    /// 64 MiB, so that a churning resource with large objects cannot take the memory of the others.
    fn default() -> HistoryLimits {
        HistoryLimits { changes: 102_400, bytes: 64 << 20 }
    }
}

/// A version from which history cannot resume: it is older than the oldest change, or in a relist gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too old resource version: {requested} ({oldest})")]
pub struct TooOld {
    /// The requested version.
    pub requested: Version,
    /// The oldest later version from which history can resume.
    pub oldest: Version,
}

/// The number of relist gaps that history remembers. A source that relists more often only makes the oldest versions
/// unavailable to watches that resume.
const MAX_GAPS: usize = 64;

/// The position of a watcher: the sequence number of the next change that it has not seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct HistoryCursor(u64);

/// The ring. Cloning shares it.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    /// Invariant: versions never decrease along it.
    changes: Vector<Arc<Change>>,
    /// Sequence number of the first entry of `changes`.
    first: u64,
    /// A watch may start from this version or any later one.
    oldest: Version,
    /// Bytes of all `before` states.
    bytes: u64,
    /// Version ranges between a store's state before and after a relist, both ends excluded: the changes in between are
    /// unknown.
    gaps: Vector<(Version, Version)>,
}

impl History {
    /// Drops all changes and gaps; watches can start from `version` on. Returns the bytes that this releases.
    pub(super) fn restart(&mut self, version: Version) -> u64 {
        let released = self.held_bytes();
        // Sequence numbers are not used again, so a cursor into the dropped changes is not valid for later ones.
        *self = History { first: self.first + self.changes.len() as u64, oldest: version, ..History::default() };
        released
    }

    /// Appends a change, and drops the oldest ones beyond the limits. Returns the bytes that this releases: the dropped
    /// changes, and the nodes that are copied if a snapshot shares them.
    pub(super) fn push(&mut self, change: Arc<Change>, limits: &HistoryLimits) -> u64 {
        let mut released = vector_leaf::<Arc<Change>>() as u64;
        self.bytes += before_bytes(&change);
        self.changes.push_back(change);
        while self.changes.len() > limits.changes || self.bytes > limits.bytes {
            let Some(evicted) = self.changes.pop_front() else { break };
            self.first += 1;
            self.bytes -= before_bytes(&evicted);
            released += before_bytes(&evicted) + (shared::<Change>() + vector_leaf::<Arc<Change>>()) as u64;
            // A change in a relist gap is new to a watcher at exactly its version: such a watcher missed it.
            self.oldest = if evicted.in_relist_gap { evicted.version.next() } else { evicted.version };
        }
        // Versions before `oldest` are rejected anyway.
        while self.gaps.front().is_some_and(|(_, end)| *end <= self.oldest) {
            self.gaps.pop_front();
        }
        released
    }

    /// Records that a relist brought the store from version `start` to `end`, if there are versions in between.
    ///
    /// A client cannot resume from a version in between. It received the state at that version from another server.
    /// This store does not know the state, so it could report neither removals nor changes of the client's selection.
    pub(super) fn bridge(&mut self, start: Version, end: Version) {
        if end.number() > start.number() + 1 {
            self.gaps.push_back((start, end));
            if self.gaps.len() > MAX_GAPS {
                self.gaps.pop_front();
                // The gap that was dropped is not known any more, so no watch may resume from before the next gap.
                self.oldest = self.gaps.front().map_or(self.oldest, |(start, _)| self.oldest.max(*start));
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.changes.len()
    }

    /// Memory of previous states and of the changes themselves, in bytes.
    pub(super) fn held_bytes(&self) -> u64 {
        self.bytes + (self.changes.len() * (shared::<Change>() + size_of::<usize>())) as u64
    }

    /// The oldest version from which a watch can resume.
    pub(super) fn oldest(&self) -> Version {
        self.oldest
    }

    /// The position after the last change.
    pub(super) fn end(&self) -> HistoryCursor {
        HistoryCursor(self.first + self.changes.len() as u64)
    }

    /// The position after the changes up to this version.
    ///
    /// # Errors
    /// [`TooOld`] when the changes after it have been dropped, or when it is in a relist gap.
    pub(super) fn since(&self, version: Version) -> Result<HistoryCursor, TooOld> {
        if version < self.oldest {
            return Err(TooOld { requested: version, oldest: self.oldest });
        }
        if let Some(end) = self.gap_around(version) {
            return Err(TooOld { requested: version, oldest: end });
        }
        let (mut low, mut high) = (0, self.changes.len());
        while low < high {
            let middle = (low + high) / 2;
            if self.changes[middle].is_after(version) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        Ok(HistoryCursor(self.first + low as u64))
    }

    /// The newest relist gap, both ends excluded; `None` if history has none.
    pub(super) fn last_gap(&self) -> Option<(Version, Version)> {
        self.gaps.back().copied()
    }

    /// The end of the relist gap that this version is in; `None` if it is in no gap.
    pub(super) fn gap_around(&self, version: Version) -> Option<Version> {
        self.gaps.iter().find(|(start, end)| *start < version && version < *end).map(|(_, end)| *end)
    }

    /// The changes from a position on. `None` when they have been dropped, or when the position is after the end.
    pub(super) fn from(&self, cursor: HistoryCursor) -> Option<impl DoubleEndedIterator<Item = &Arc<Change>>> {
        let skip = usize::try_from(cursor.0.checked_sub(self.first)?).ok()?;
        (skip <= self.changes.len()).then(|| self.changes.focus().narrow(skip..).into_iter())
    }
}

impl HistoryCursor {
    /// The position after `count` more changes.
    #[must_use]
    pub fn advanced(self, count: usize) -> HistoryCursor {
        HistoryCursor(self.0 + count as u64)
    }

    /// The number of changes between an earlier position and this one; 0 if `earlier` is later.
    pub fn distance_from(self, earlier: HistoryCursor) -> usize {
        usize::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(usize::MAX)
    }
}

impl Change {
    /// Whether the change is new to a watcher that has seen everything up to `version`.
    pub fn is_after(&self, version: Version) -> bool {
        self.version > version || (self.in_relist_gap && self.version == version)
    }
}

/// Memory of the state before a change in bytes, which only history retains.
fn before_bytes(change: &Change) -> u64 {
    change.before.as_ref().map_or(0, |before| before.held_bytes() as u64)
}
