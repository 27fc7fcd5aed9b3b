//! Contained panics, counted by where they happened.
//!
//! A panic ends one response, or the sync of one resource until it restarts; it is logged where it is caught. These
//! counters outlive the tasks, so that they never decrease.

use std::sync::atomic::{AtomicU64, Ordering};

/// Where a panic was contained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PanicOrigin {
    /// While a request was handled: it got 500.
    Request,
    /// In the middle of a response, which was cut.
    Answer,
    /// In a watch: that watch was cut.
    Watch,
    /// In the sync of a resource, which restarts.
    Feed,
    /// Outside of responses, on a connection, which was closed.
    Connection,
}

impl PanicOrigin {
    /// All origins.
    pub const ALL: [PanicOrigin; 5] =
        [PanicOrigin::Request, PanicOrigin::Answer, PanicOrigin::Watch, PanicOrigin::Feed, PanicOrigin::Connection];

    /// The value of the metric label.
    pub fn as_str(self) -> &'static str {
        match self {
            PanicOrigin::Request => "request",
            PanicOrigin::Answer => "answer",
            PanicOrigin::Watch => "watch",
            PanicOrigin::Feed => "feed",
            PanicOrigin::Connection => "connection",
        }
    }
}

/// The number of panics of each origin.
#[derive(Debug, Default)]
pub struct Panics([AtomicU64; PanicOrigin::ALL.len()]);

impl Panics {
    /// Counts a contained panic by where it happened.
    pub fn count(&self, origin: PanicOrigin) {
        self.0[origin as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// The number of panics of an origin so far.
    pub fn count_of(&self, origin: PanicOrigin) -> u64 {
        self.0[origin as usize].load(Ordering::Relaxed)
    }
}
