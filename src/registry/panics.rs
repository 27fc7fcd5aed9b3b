//! Defects of ours that were contained, counted by where they were met.
//!
//! A panic ends one answer, or one resource's reading until it begins anew; it is logged where it is caught. What is here
//! outlives what it happened to, so that a counter never goes back.

use std::sync::atomic::{AtomicU64, Ordering};

/// Where a panic was contained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// In answering a request: it was answered with 500.
    Request,
    /// In the middle of an answer: that answer was cut.
    Answer,
    /// In a watch: that watch was cut.
    Watch,
    /// In reading a resource: it is read anew.
    Feed,
    /// Beside answers, on a connection: that connection was cut.
    Connection,
}

impl Where {
    /// All of them.
    pub const ALL: [Where; 5] = [Where::Request, Where::Answer, Where::Watch, Where::Feed, Where::Connection];

    /// As a label of a metric.
    pub fn as_str(self) -> &'static str {
        match self {
            Where::Request => "request",
            Where::Answer => "answer",
            Where::Watch => "watch",
            Where::Feed => "feed",
            Where::Connection => "connection",
        }
    }
}

/// Counts them.
#[derive(Debug, Default)]
pub struct Panics([AtomicU64; Where::ALL.len()]);

impl Panics {
    /// One more.
    pub fn count(&self, place: Where) {
        self.0[place as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// How many so far.
    pub fn counted(&self, place: Where) -> u64 {
        self.0[place as usize].load(Ordering::Relaxed)
    }
}
