//! Counts steps of work, so that tests can compare the work for one size with that for another.
//!
//! A step is a comparison, or an operation on a set. Release builds count nothing.

#[cfg(debug_assertions)]
thread_local! {
    static STEPS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Adds `steps` to the steps that this thread has taken; does nothing in release builds.
#[inline]
pub(super) fn note(steps: usize) {
    #[cfg(debug_assertions)]
    STEPS.set(STEPS.get() + steps);
    #[cfg(not(debug_assertions))]
    let _ = steps;
}

/// Calls `run`; returns its result, and the number of steps that this thread took meanwhile.
#[cfg(test)]
pub(super) fn steps<T>(run: impl FnOnce() -> T) -> (T, usize) {
    let before = STEPS.get();
    let result = run();
    (result, STEPS.get() - before)
}
