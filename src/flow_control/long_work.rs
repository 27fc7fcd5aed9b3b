//! Long work: work on one object of hundreds of kilobytes or more, which cannot be divided into turns.
//!
//! # Why
//! Nothing interrupts a turn of work ([`super::seats`]). A thread of the runtime that reads an object of 12 MB for half
//! a second serves no other request meanwhile. 128 users with one such request each kept all threads busy for half a
//! minute. No order of turns helps, because each of these requests is the first of its user.
//!
//! # How
//! Long work runs in [`block_in_place`], in addition to the threads of the runtime. Another thread takes over all
//! other tasks, and the operating system divides the processors between them. Only a few pieces of long work run at a
//! time ([`LongWorkPermits`]). This bounds the number of threads, and their memory. Users share them by the bytes of
//! their objects, and work on a shorter object comes first ([`Places::UntilDone`](crate::model::fair_queue::Places)).
//! Work beyond [`VERY_LONG`] has permits of its own. Otherwise a user who reads many objects of 1 MB would wait, as
//! soon as it has read as much as others, for one object of 12 MB of each of a hundred others.
//!
//! Code that reads an object calls [`may_read`] first. In a usual turn, this function returns false for a long
//! object. The code then ends its turn without reading. Its worker waits for a permit, and the next turn is a long
//! one. So only the code that reads objects and the worker know of long turns; the layers between them do not.
//!
//! Work on many small objects is divided between them, also in a long turn. A row of a Table can take milliseconds for
//! an object of a few bytes, so loops count such work too: see [`WorkMeter`].
//!
//! A granted permit expires after [`VALID`]. Otherwise a client could keep it by closing the window of its stream.

use std::cell::Cell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::{AbortHandle, block_in_place};
use tokio::time::{Instant, sleep};

use super::user::User;
use crate::fair_semaphore::{FairSemaphore, Permit};
use crate::query::work::yield_to_others;

/// Objects up to this size, in bytes, are read in a usual turn. To read a longer one takes up to 50 ms for each MB.
pub const LONG: usize = 256 << 10;

/// Work up to this size has the permits `long`, and more work the permits `very_long` (`LongWorkPermits`). The unit is
/// bytes of an object that is read. API servers accept no longer object in a request. So more work is on objects of
/// aggregated API servers, or on Tables.
pub const VERY_LONG: usize = 3 << 20;

/// The work on an object, compared with reading it once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectWork {
    /// This many times the work of reading the object once.
    Times(usize),
    /// The work can be very much, also for a short object, so it needs a long turn.
    Costly,
}

impl ObjectWork {
    /// The work for an object of this length, as the number of bytes that could be read in the same time. For costly
    /// work it is a power of two. So a long turn for one object is enough for other objects of about the same length.
    pub fn bytes(self, length: usize) -> usize {
        match self {
            ObjectWork::Times(times) => length.saturating_mul(times),
            ObjectWork::Costly => {
                let bytes = length.saturating_mul(8).saturating_add(LONG + 1);
                bytes.checked_next_power_of_two().unwrap_or(bytes)
            }
        }
    }
}

/// How long a granted permit stays valid if its worker does not use it.
const VALID: Duration = Duration::from_millis(100);

/// The kind of turn that a thread currently works in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// No turn: the work of this thread is not divided into turns.
    None,
    /// A usual turn.
    Usual,
    /// A usual turn whose work must continue in a long one, to read an object of this many bytes.
    WantsLong(usize),
    /// A long turn, which was granted to read objects of up to this many bytes.
    Long(usize),
}

thread_local! {
    /// The kind of turn that this thread works in.
    static TURN: Cell<Turn> = const { Cell::new(Turn::None) };
    /// The work that [`count_work`] has counted for this thread.
    static COUNTED: Cell<usize> = const { Cell::new(0) };
}

/// Counts work of this thread, as the number of bytes of an object that could be read in the same time.
pub fn count_work(bytes: usize) {
    COUNTED.set(COUNTED.get().wrapping_add(bytes));
}

/// The work after which a loop ends its turn, in bytes of objects that are read: about 2 ms.
pub const WORK_OF_A_TURN: usize = 1 << 20;

/// The time after which a loop ends its turn, whatever it has counted. Work that takes longer than it counts for would
/// otherwise keep a thread from other requests. Usual turns must stay far below this time, also on a busy machine: a
/// response whose first turn ends early is compressed, however short the response is.
const MOST_TIME: Duration = Duration::from_millis(200);

/// Measures the work of a loop, which ends its turn after a bounded amount. The loop and the code that it calls count
/// their work with [`count_work`], so the layers between them do not know of it.
#[derive(Debug)]
pub struct WorkMeter {
    /// The value of `COUNTED` when the loop began.
    start: usize,
    /// When the loop began.
    began: Instant,
}

impl WorkMeter {
    /// Begins to measure.
    pub fn start() -> WorkMeter {
        WorkMeter { start: COUNTED.get(), began: Instant::now() }
    }

    /// The work of this thread since the start.
    fn work(&self) -> usize {
        COUNTED.get().wrapping_sub(self.start)
    }

    /// Whether the turn must end: after [`WORK_OF_A_TURN`] or [`MOST_TIME`].
    pub fn is_over(&self) -> bool {
        self.work() >= WORK_OF_A_TURN || self.began.elapsed() >= MOST_TIME
    }
}

/// Restores the kind of turn of this thread when dropped, also after a panic.
struct Restore(Turn);

impl Drop for Restore {
    fn drop(&mut self) {
        TURN.set(self.0);
    }
}

/// Whether the current turn may read an object of this many bytes. If false, the caller must end its turn without
/// reading the object. Its next turn is then a long one, which may read an object of this size.
pub fn may_read(bytes: usize) -> bool {
    match TURN.get() {
        _ if bytes <= LONG => true,
        Turn::None => true,
        Turn::Long(granted) if bytes <= granted => true,
        Turn::Usual | Turn::WantsLong(_) | Turn::Long(_) => {
            TURN.set(Turn::WantsLong(bytes));
            false
        }
    }
}

/// Ends turns until the current turn may read an object of this many bytes: see [`may_read`].
pub async fn wait_to_read(bytes: usize) {
    while !may_read(bytes) {
        yield_to_others().await;
    }
}

/// Runs the work of a usual turn, and returns its result. Also returns the bytes for which the next turn must be a long
/// one; `None` if the next turn is a usual one.
pub fn run_usual<Done>(work: impl FnOnce() -> Done) -> (Done, Option<usize>) {
    run_as(Turn::Usual, work)
}

/// Runs work in a turn of this kind. Returns the same as [`run_usual`].
fn run_as<Done>(turn: Turn, work: impl FnOnce() -> Done) -> (Done, Option<usize>) {
    let restore = Restore(TURN.replace(turn));
    let done = work();
    let wanted = match TURN.get() {
        Turn::WantsLong(bytes) => Some(bytes),
        Turn::None | Turn::Usual | Turn::Long(_) => None,
    };
    drop(restore);
    (done, wanted)
}

/// Runs the work of a long turn for objects of up to `bytes`, and then releases the permit. `permit` is `None` if no
/// permit is needed (see [`NextTurn::poll_permit`]); the work then blocks the current thread of the runtime. Returns
/// the same as [`run_usual`].
pub(super) fn run_long<Done>(
    bytes: usize,
    permit: Option<Permit<User>>,
    work: impl FnOnce() -> Done,
) -> (Done, Option<usize>) {
    let meter = WorkMeter::start();
    let run = || run_as(Turn::Long(bytes), work);
    let done = if permit.is_some() { block_in_place(run) } else { run() };
    if let Some(permit) = permit {
        // The permit counts for `bytes` in advance. Only more work is charged.
        permit.charge((meter.work() as u64).saturating_sub(bytes as u64));
    }
    done
}

/// The permits for long work.
#[derive(Debug)]
pub(super) struct LongWorkPermits {
    /// Permits for work up to [`VERY_LONG`]: one for each processor.
    long: Arc<FairSemaphore<User>>,
    /// Permits for more work: one for each two processors.
    very_long: Arc<FairSemaphore<User>>,
}

impl LongWorkPermits {
    /// The permits for this machine.
    pub(super) fn new() -> LongWorkPermits {
        let processors = std::thread::available_parallelism().map_or(1, usize::from) as u64;
        LongWorkPermits {
            long: Arc::new(FairSemaphore::of_work(processors)),
            very_long: Arc::new(FairSemaphore::of_work(processors.div_ceil(2))),
        }
    }

    /// The number of requests that wait for a permit.
    pub(super) fn waiting(&self) -> usize {
        self.long.in_use().waiting + self.very_long.in_use().waiting
    }

    /// The permits for work on this many bytes.
    fn of(&self, bytes: usize) -> &Arc<FairSemaphore<User>> {
        if bytes <= VERY_LONG { &self.long } else { &self.very_long }
    }
}

/// A request for the permit of a long turn. Dropping it cancels the request.
#[derive(Debug)]
pub(super) struct QueuedLongTurn {
    slot: Arc<Mutex<Slot>>,
    /// The task that waits for the permit.
    task: AbortHandle,
}

/// The state of a request for a permit, shared by the worker and the task that waits for the permit.
#[derive(Debug)]
enum Slot {
    /// The permit is not granted yet. The waker wakes the worker.
    Waiting(Waker),
    /// The permit is granted, and the worker has not taken it.
    Granted(Permit<User>),
    /// The worker has taken the permit, or did not take it within [`VALID`].
    Expired,
}

/// Locks a slot, also if a thread panicked while it held the lock. Each change of a slot is one assignment, so a panic
/// cannot leave it incomplete.
fn lock(slot: &Mutex<Slot>) -> MutexGuard<'_, Slot> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The kind of a worker's next turn.
#[derive(Debug)]
pub(super) enum NextTurn {
    /// A usual turn.
    Usual,
    /// A long turn for this many bytes, and the request for its permit; `None` before the worker has requested it.
    Long(usize, Option<Box<QueuedLongTurn>>),
}

/// The bytes for which a permit counts that its worker did not use. Work on this many bytes takes about [`VALID`].
const UNUSED: u64 = 2 << 20;

impl NextTurn {
    /// Polls for the permit of a long turn for `bytes`, and requests one if `queued` is `None` or has expired. Ready
    /// with `None` if no permit is needed: in a runtime with a single thread, or outside of a runtime, no other thread
    /// could take over the other tasks.
    pub(super) fn poll_permit(
        bytes: usize,
        queued: &mut Option<Box<QueuedLongTurn>>,
        permits: &LongWorkPermits,
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
        *queued = Some(Box::new(QueuedLongTurn::new(
            bytes,
            permits.of(bytes).clone(),
            user.clone(),
            context.waker().clone(),
        )));
        Poll::Pending
    }
}

impl QueuedLongTurn {
    /// Requests a permit. Starts a task that waits for the permit. The task releases the permit if the worker does not
    /// take it within [`VALID`].
    #[expect(clippy::disallowed_methods, reason = "the task ends with the worker or within VALID")]
    fn new(bytes: usize, permits: Arc<FairSemaphore<User>>, user: User, waker: Waker) -> QueuedLongTurn {
        let bytes = bytes as u64;
        let slot = Arc::new(Mutex::new(Slot::Waiting(waker)));
        let granted = slot.clone();
        let task = tokio::spawn(async move {
            // `None` does not occur, because any number of requests may wait for a permit.
            let Some(permit) = permits.acquire_for(&user, bytes).await else { return };
            let before = std::mem::replace(&mut *lock(&granted), Slot::Granted(permit));
            if let Slot::Waiting(waker) = before {
                waker.wake();
            }
            sleep(VALID).await;
            let unused = std::mem::replace(&mut *lock(&granted), Slot::Expired);
            if let Slot::Granted(permit) = unused {
                // No other user could use the place meanwhile.
                permit.charge(UNUSED);
            }
        });
        QueuedLongTurn { slot, task: task.abort_handle() }
    }
}

impl Drop for QueuedLongTurn {
    fn drop(&mut self) {
        self.task.abort();
    }
}
