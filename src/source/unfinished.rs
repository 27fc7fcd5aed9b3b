//! Bounds the memory for long objects of which only a part has arrived, over all readers of a source.
//!
//! A source chooses how many objects it begins and does not finish. Each reader may store a short part in any case, so
//! readers of objects of an ordinary length never wait for others. Longer parts share one budget. A reader that finds
//! it exhausted fails and reads again later.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that one reader may always store: more than an API server accepts as one object.
pub(super) const ALWAYS: usize = 4 << 20;

/// Bytes that all readers together may store beyond [`ALWAYS`].
pub(super) const MOST: usize = 256 << 20;

/// The shared budget.
#[derive(Debug, Default)]
pub(super) struct UnfinishedBudget {
    /// Bytes beyond [`ALWAYS`] of all readers.
    held: AtomicUsize,
}

/// The share of one reader.
#[derive(Debug, Default)]
pub(super) struct UnfinishedShare {
    budget: Arc<UnfinishedBudget>,
    /// Bytes beyond [`ALWAYS`] of this reader.
    bytes: usize,
}

impl UnfinishedShare {
    /// An empty share of this budget.
    pub(super) fn new(budget: &Arc<UnfinishedBudget>) -> UnfinishedShare {
        UnfinishedShare { budget: budget.clone(), bytes: 0 }
    }

    /// Sets the number of bytes that the reader stores now. False if the budget is exhausted; the previous number then
    /// still counts.
    pub(super) fn hold(&mut self, bytes: usize) -> bool {
        let bytes = bytes.saturating_sub(ALWAYS);
        if bytes == self.bytes {
            return true;
        }
        let others = |total: usize| total.saturating_sub(self.bytes);
        let taken = self.budget.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |total| {
            let all = others(total).saturating_add(bytes);
            // Less memory than before is always accepted.
            (bytes < self.bytes || all <= MOST).then_some(all)
        });
        if taken.is_ok() {
            self.bytes = bytes;
        }
        taken.is_ok()
    }
}

impl Drop for UnfinishedShare {
    fn drop(&mut self) {
        self.budget.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
