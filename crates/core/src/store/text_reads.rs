//! Counts the texts of objects that are read, for tests that the cost of a step is at most linear in the object.

use std::cell::Cell;

thread_local! {
    static READS: Cell<u64> = const { Cell::new(0) };
}

/// Counts a read of a text.
pub(super) fn record() {
    READS.set(READS.get() + 1);
}

/// The number of texts that `work` reads.
pub fn counted(work: impl FnOnce()) -> u64 {
    let before = READS.get();
    work();
    READS.get() - before
}
