//! How much is done for one request before others have their turn.
//!
//! To plan a selection can take a thousand times as long as usual: its cost is that of its requirements, of what stands in the index
//! under each, and of objects that are compared one by one. So planning counts its steps and yields. Who goes on then, and who pays for it,
//! the server decides at each poll.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// Steps between two yields, of some ten nanoseconds each: half a millisecond.
const MOST_STEPS: u64 = 1 << 16;

/// Counts steps.
#[derive(Debug, Default)]
pub struct Work {
    steps: u64,
}

impl Work {
    /// So many steps have been done.
    pub(super) async fn did(&mut self, steps: u64) {
        self.steps = self.steps.saturating_add(steps);
        if self.steps < MOST_STEPS {
            return;
        }
        self.steps = 0;
        give_way().await;
    }
}

/// Lets every task that is runnable run first. A task that wakes itself goes to the end of the runtime's queue, unlike one
/// that another task wakes, which runs next.
pub async fn give_way() {
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

/// Does all of it without a turn for others.
pub fn at_once<Done>(work: impl Future<Output = Done>) -> Done {
    let mut work = pin!(work);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        // What is planned waits for nothing, so it goes on at once.
        if let Poll::Ready(done) = work.as_mut().poll(&mut context) {
            return done;
        }
    }
}
