//! The times at which a watch sends bookmarks. What a bookmark contains is in [`super::shape`].

use std::time::Duration;

use tokio::time::Instant;

use super::super::read;

/// The minimum time between bookmarks (apiserver `storage/cacher/cacher.go`).
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);

/// The maximum random time that is added to [`BOOKMARK_INTERVAL`], so that watches do not send their bookmarks at the
/// same time (apiserver `storage/cacher/cacher.go`).
const BOOKMARK_JITTER: Duration = Duration::from_millis(1250);

/// How long before the end of a watch a last bookmark is sent, so that the next watch starts from there.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);

/// The times at which the bookmarks of a watch are due.
pub(super) struct Bookmarks {
    /// When the next regular bookmark is due.
    next: Instant,
    /// When the last bookmark is due, [`BOOKMARK_BEFORE_END`] before the end; `None` when it has been sent, or if the
    /// watch is shorter than that.
    pub(super) last: Option<Instant>,
}

impl Bookmarks {
    /// The times of a watch that begins now and ends at `deadline`.
    pub(super) fn new(now: Instant, deadline: Instant) -> Bookmarks {
        let last = deadline.checked_sub(BOOKMARK_BEFORE_END).filter(|last| *last > now);
        Bookmarks { next: now + read::jittered(BOOKMARK_INTERVAL, BOOKMARK_INTERVAL + BOOKMARK_JITTER), last }
    }

    /// When the next bookmark is due.
    pub(super) fn due(&self) -> Instant {
        self.last.map_or(self.next, |last| last.min(self.next))
    }

    /// Schedules the next bookmark after one was sent at `now`.
    pub(super) fn sent(&mut self, now: Instant) {
        self.next = now + read::jittered(BOOKMARK_INTERVAL, BOOKMARK_INTERVAL + BOOKMARK_JITTER);
        self.last = self.last.filter(|last| *last > now);
    }
}
