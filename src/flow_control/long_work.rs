//! Long work: work on one object of hundreds of kilobytes or more, which cannot be divided into turns.
//!
//! # Why
//! Nothing interrupts a turn of work ([`super::seats`]). A thread of the runtime that reads an object of 12 MB for half
//! a second serves no other request meanwhile. 128 users with one such request each kept all threads busy for half a
//! minute. No order of turns helps, because each of these requests is the first of its user.
//!
//! # How
//! Long work runs beside the threads of the runtime, in [`block_in_place`]. Another thread takes over all other tasks,
//! and the operating system divides the processors between them. At most one piece of long work runs for each
//! processor, for users in turn. This bounds the threads, and what they hold in memory.
//!
//! Code that is about to read an object calls [`may_read`] first. In a usual turn, it returns false for a long object.
//! The code then ends its turn without reading. Its worker waits for a permit, and the next turn is a long one. So only
//! the code that reads objects and the worker that runs it know of long turns; the layers between them do not.
//!
//! A granted permit expires after [`VALID`]. Otherwise a client that closes the window of its stream would keep it.

use std::cell::Cell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::{AbortHandle, block_in_place};
use tokio::time::sleep;

use super::user::User;
use crate::fair_semaphore::{FairSemaphore, Permit};
use crate::query::work::yield_to_others;

/// Objects up to this size are read in a usual turn, in bytes. Reading a longer one takes up to 50 ms for each MB.
pub const LONG: usize = 256 << 10;

/// How long a granted permit waits for its worker.
const VALID: Duration = Duration::from_millis(100);

/// The kind of work that a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// No turn: nothing else waits for this thread.
    None,
    Usual,
    /// A usual turn whose work continues in a long one.
    WantsLong,
    Long,
}

thread_local! {
    static TURN: Cell<Turn> = const { Cell::new(Turn::None) };
}

/// Restores the kind of work of a thread, also after a panic.
struct Restore(Turn);

impl Drop for Restore {
    fn drop(&mut self) {
        TURN.set(self.0);
    }
}

/// Whether the current turn may read an object of this many bytes. If not, the caller must end its turn; its next turn may.
pub fn may_read(bytes: usize) -> bool {
    match TURN.get() {
        _ if bytes <= LONG => true,
        Turn::None | Turn::Long => true,
        Turn::Usual | Turn::WantsLong => {
            TURN.set(Turn::WantsLong);
            false
        }
    }
}

/// Waits until the current turn may read an object of this many bytes.
pub async fn wait_to_read(bytes: usize) {
    while !may_read(bytes) {
        yield_to_others().await;
    }
}

/// Runs the work of a usual turn. Returns whether it continues in a long turn.
pub fn run_usual<Done>(work: impl FnOnce() -> Done) -> (Done, bool) {
    let restore = Restore(TURN.replace(Turn::Usual));
    let done = work();
    let wants_long = TURN.get() == Turn::WantsLong;
    drop(restore);
    (done, wants_long)
}

/// Runs the work of a long turn beside the threads of the runtime.
pub(super) fn run_long<Done>(permit: Option<Permit<User>>, work: impl FnOnce() -> Done) -> Done {
    let run = || {
        let _restore = Restore(TURN.replace(Turn::Long));
        work()
    };
    let done = if permit.is_some() { block_in_place(run) } else { run() };
    drop(permit);
    done
}

/// Permits for long work: one for each processor.
pub(super) fn permits() -> Arc<FairSemaphore<User>> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    Arc::new(FairSemaphore::of_places(processors as u64, 0))
}

/// A worker that waits for a permit.
#[derive(Debug)]
pub(super) struct QueuedLongTurn {
    slot: Arc<Mutex<Slot>>,
    task: AbortHandle,
}

/// Where the permit is put for the worker.
#[derive(Debug)]
enum Slot {
    Waiting(Waker),
    Granted(Permit<User>),
    /// The worker did not come in time.
    Expired,
}

/// Locks a slot. Each change of it is one assignment, so a panic elsewhere leaves it as it was.
fn lock(slot: &Mutex<Slot>) -> MutexGuard<'_, Slot> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The state of a worker's next turn.
#[derive(Debug)]
pub(super) enum NextTurn {
    Usual,
    Long(Option<Box<QueuedLongTurn>>),
}

impl NextTurn {
    /// Waits for the permit of a long turn. `None` where no permit is needed: outside of a runtime of several threads no thread could
    /// take over the other tasks.
    pub(super) fn poll_permit(
        queued: &mut Option<Box<QueuedLongTurn>>,
        permits: &Arc<FairSemaphore<User>>,
        user: &User,
        context: &Context<'_>,
    ) -> Poll<Option<Permit<User>>> {
        let has_threads =
            Handle::try_current().is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread);
        if !has_threads {
            return Poll::Ready(None);
        }
        if let Some(waiting) = queued {
            let mut slot = lock(&waiting.slot);
            match std::mem::replace(&mut *slot, Slot::Expired) {
                Slot::Granted(permit) => {
                    drop(slot);
                    *queued = None;
                    return Poll::Ready(Some(permit));
                }
                Slot::Waiting(_) => {
                    *slot = Slot::Waiting(context.waker().clone());
                    return Poll::Pending;
                }
                Slot::Expired => {}
            }
        }
        *queued = Some(Box::new(QueuedLongTurn::new(permits.clone(), user.clone(), context.waker().clone())));
        Poll::Pending
    }
}

impl QueuedLongTurn {
    /// Requests a permit. A task of its own takes it back when the worker does not come.
    #[expect(clippy::disallowed_methods, reason = "the task ends with the worker or within VALID")]
    fn new(permits: Arc<FairSemaphore<User>>, user: User, waker: Waker) -> QueuedLongTurn {
        let slot = Arc::new(Mutex::new(Slot::Waiting(waker)));
        let granted = slot.clone();
        let task = tokio::spawn(async move {
            let Some(permit) = permits.acquire_one(&user).await else { return };
            let before = std::mem::replace(&mut *lock(&granted), Slot::Granted(permit));
            if let Slot::Waiting(waker) = before {
                waker.wake();
            }
            sleep(VALID).await;
            let unused = std::mem::replace(&mut *lock(&granted), Slot::Expired);
            drop(unused);
        });
        QueuedLongTurn { slot, task: task.abort_handle() }
    }
}

impl Drop for QueuedLongTurn {
    fn drop(&mut self) {
        self.task.abort();
    }
}
