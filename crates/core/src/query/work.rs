//! Counts the work for one request and yields to other tasks.
//!
//! The time to plan a selection depends on its requirements, the sizes of their indexes, and the objects that are
//! compared one by one. It can be a thousand times as long as usual. So planning counts its steps and yields. The
//! server decides at each poll which task continues, and to which user the time is charged.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// The maximum number of steps between two yields. A step takes some ten nanoseconds, so this is about half a
/// millisecond.
const MOST_STEPS: u64 = 1 << 16;

/// Counts the steps of one request.
#[derive(Debug, Default)]
pub struct Work {
    /// The steps since the last yield.
    steps: u64,
    /// Returns whether this task may now read an object of this many bytes. `None`: it may read any object at any time.
    may_read: Option<fn(usize) -> bool>,
}

impl Work {
    /// Work that reads an object only when `may_read` returns true for its length. Until then it yields to other tasks.
    pub fn with_reads(may_read: fn(usize) -> bool) -> Work {
        Work { steps: 0, may_read: Some(may_read) }
    }

    /// Waits until the task may read an object of this many bytes. Yields to other tasks until then.
    pub async fn wait_to_read(&mut self, bytes: usize) {
        let Some(may_read) = self.may_read else { return };
        while !may_read(bytes) {
            self.steps = 0;
            yield_to_others().await;
        }
    }

    /// Counts steps, of some ten nanoseconds each. Yields to other tasks after [`MOST_STEPS`].
    pub async fn spend(&mut self, steps: u64) {
        self.steps = self.steps.saturating_add(steps);
        if self.steps < MOST_STEPS {
            return;
        }
        self.steps = 0;
        yield_to_others().await;
    }
}

/// Lets every task that is runnable run first. A task that wakes itself goes to the end of the runtime's queue, unlike
/// one that another task wakes, which runs next.
pub async fn yield_to_others() {
    let mut has_yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Runs the work to its end without yielding to other tasks: when it yields, it is polled again at once.
pub fn at_once<Done>(work: impl Future<Output = Done>) -> Done {
    let mut work = pin!(work);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        // Planning only yields, and waits for no event, so polling it again continues it.
        if let Poll::Ready(done) = work.as_mut().poll(&mut context) {
            return done;
        }
    }
}
