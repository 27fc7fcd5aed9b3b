//! The results of comparisons of a store with its source, and the names of objects that it cannot read.
//!
//! The feed and `source::self_check` write them, `metrics` reads them; readers of objects do not.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

/// Objects that their feed cannot read and does not serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableNames {
    /// Their keys, NAMESPACE/NAME or NAME.
    pub names: BTreeSet<String>,
    /// False if there may be others: a feed stores a bounded number of names, and none of an object without a readable
    /// name.
    pub are_all: bool,
}

impl Default for UnreadableNames {
    fn default() -> UnreadableNames {
        UnreadableNames { names: BTreeSet::new(), are_all: true }
    }
}

/// The result of one comparison of a store with its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckOutcome {
    /// Both are the same.
    Ok,
    /// Store and source differ, twice in a row.
    Mismatch,
    /// Store and source could not be compared this time, which is not an error.
    Skipped,
    /// The request for the list of the source failed.
    Failed,
}

impl CheckOutcome {
    /// All outcomes.
    pub const ALL: [CheckOutcome; 4] =
        [CheckOutcome::Ok, CheckOutcome::Mismatch, CheckOutcome::Skipped, CheckOutcome::Failed];

    /// The value of the metric label.
    pub fn as_str(self) -> &'static str {
        match self {
            CheckOutcome::Ok => "ok",
            CheckOutcome::Mismatch => "mismatch",
            CheckOutcome::Skipped => "skipped",
            CheckOutcome::Failed => "failed",
        }
    }
}

/// Comparisons by their outcome.
#[derive(Debug, Default)]
pub struct Checks([AtomicU64; CheckOutcome::ALL.len()]);

impl Checks {
    /// Counts a finished comparison by its outcome.
    pub fn count(&self, outcome: CheckOutcome) {
        self.0[outcome as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// The number of comparisons with this outcome.
    pub fn count_of(&self, outcome: CheckOutcome) -> u64 {
        self.0[outcome as usize].load(Ordering::Relaxed)
    }

    /// Whether no comparison has ended.
    pub fn is_empty(&self) -> bool {
        CheckOutcome::ALL.iter().all(|outcome| self.count_of(*outcome) == 0)
    }
}
