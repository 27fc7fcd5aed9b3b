//! Counts steps of work, so that tests can compare the work for one size with that for another.
//!
//! A step is a comparison, or an operation on a set. Release builds count nothing.

#[cfg(debug_assertions)]
thread_local! {
    static STEPS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Notes that this thread takes so many steps.
#[inline]
pub(super) fn note(steps: usize) {
    #[cfg(debug_assertions)]
    STEPS.set(STEPS.get() + steps);
    #[cfg(not(debug_assertions))]
    let _ = steps;
}

/// The steps that this thread takes while `run` runs.
#[cfg(test)]
pub(super) fn steps<T>(run: impl FnOnce() -> T) -> (T, usize) {
    let before = STEPS.get();
    let result = run();
    (result, STEPS.get() - before)
}
