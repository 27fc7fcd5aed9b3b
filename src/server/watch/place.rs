//! The position of a watch: before its first event, within its initial events, or in the history of its resource.
//!
//! [`super`] moves it forward.

use super::initial::{Initial, RemainingInitialEvents};
use crate::model::Version;
use crate::store::{HistoryCursor, PinnedValue, Snapshot};

/// Where a watch begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// With initial events, from the current state, or from the state once it has reached this version.
    Initial { not_older_than: Option<Version> },
    /// With the changes after this version.
    After(Version),
    /// With the next change, without initial events.
    Now,
}

/// The position of a watch.
pub(super) enum Place {
    /// Nothing has been read yet.
    Before { start: Start, snapshot: PinnedValue<Snapshot>, initial: Option<Initial> },
    /// In the middle of its initial events.
    Listing(RemainingInitialEvents),
    /// Following history.
    Following(HistoryPosition),
    /// The watch has ended.
    Ended,
}

/// A position in history.
#[derive(Clone, Copy)]
pub(super) struct HistoryPosition {
    /// The next change to test.
    pub(super) cursor: HistoryCursor,
    /// The version at which the watch began: changes up to it are not for this watch.
    pub(super) after: Version,
    /// All matching changes up to this version have been sent.
    pub(super) seen: Version,
    /// Whether further changes must be read from history, because the mailbox lacks them.
    pub(super) reads_history: bool,
    /// Whether changes are left in the mailbox, so events beyond `seen` have been sent.
    pub(super) is_behind: bool,
    /// Whether nothing has been read yet. A new mailbox reports an overflow, although there is usually nothing to read.
    pub(super) is_new: bool,
}

impl Place {
    /// The position of a watch that has sent its initial events, or has none.
    pub(super) fn following(cursor: HistoryCursor, after: Version, seen: Version) -> Place {
        Place::Following(HistoryPosition { cursor, after, seen, reads_history: false, is_behind: false, is_new: true })
    }
}
