//! Seats: shares of the processors' time, which are granted fairly between users.
//!
//! # Why
//! The runtime has one queue for all runnable tasks. With 3,000 requests of one user in it, the request of another
//! user comes after all of them. The model for seats is kube-apiserver's API Priority and Fairness. It has a bounded
//! number of seats, and if all are taken, a fair queue between flows. A request gets 429 with Retry-After if its
//! queue is full or it waits for too long, and some requests bypass the queue. A flow is an authenticated user, or
//! the address of the client before (and without) authentication. The ServiceAccounts of a namespace share the part
//! of one user ([`crate::model::user_name::tenant`]).
//!
//! # What a seat is
//! A task works between two awaits. While it waits for a client, the source or an API server, it uses no processor. So
//! a request does not hold a seat. A seat is taken for one *turn* of work. Examples are one poll of a handler, one
//! piece of a body, one batch of initial events, and one step of a TLS handshake. If a client stops reading, its body
//! is not polled and takes no seat. Seats are never released, so they cannot leak or deadlock.
//!
//! Seats are granted in rounds. While seats of a round are free, a turn is taken by one atomic addition. The first
//! turn that finds no free seat waits in the [`FairQueue`], and starts the task that ends the round. This task first
//! yields [`EVENT_INTERVAL`] times, which is how many tasks the runtime polls before it checks its sockets. By then,
//! all tasks that were runnable have been polled, and the tasks of requests that have just arrived too. These requests
//! took part in the round, or wait in the fair queue. Then the round ends, and the seats of the next round are
//! granted to the waiting users fairly. So a user waits about one round, however many requests another user has in
//! progress. The threads of the runtime are never idle while requests wait, because the task that ends rounds is
//! runnable as long as requests wait.
//!
//! # What a turn costs
//! A seat is [`UNITS_PER_SEAT`] units of [`UNIT_TIME`]. A turn takes one unit in advance, or a whole seat if it had
//! to wait. The time above that is measured, and charged when the turn is done. Then the round is full earlier, and
//! the user is served later and gets fewer turns in a round. kube-apiserver must estimate costs, because its requests
//! run at the same time. A turn runs alone on its thread, so its time can be measured.
//!
//! The events of a watch are written in pieces of some microseconds, to very many watches at a time. A turn for each
//! piece would cost as much as the piece. So a watch takes a turn once its pieces amount to a unit.
//!
//! Work on one long object cannot be divided into turns. It runs outside of the runtime's threads: see
//! [`super::long_work`].
//!
//! A granted turn must be used within [`VALID_ROUNDS`], or its task waits again. Otherwise a client could collect
//! turns for many streams by closing their windows, and then use them at once. A granted turn also waits again if
//! other turns have cost more than all seats of the round. Otherwise 32 turns of half a second each, of users without
//! any history, would be one round.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::{Instant, timeout};

use super::limit::{Limit, Limited, QUEUE_PATIENCE, RETRY_AFTER, WAITING_USERS};
use super::long_work::{self, LONG, LongWorkPermits, NextTurn};
use super::user::User;
use crate::fair_semaphore::Permit;
use crate::model::fair_queue::{Bounds, Cost, Entered, FairQueue, Places, Ticket};
use crate::model::quantity::Bytes;
use crate::query::work::yield_to_others;

/// The number of units of a seat.
const UNITS_PER_SEAT: u64 = 8;

/// The duration of a unit of work. Shorter pieces of work are charged when they add up to a unit.
pub const UNIT_TIME: Duration = Duration::from_micros(125);

/// For each seat, this many requests of one user may wait before further ones are rejected. With two processors, it
/// is as many as two HTTP/2 connections carry.
const WAITING_FOR_EACH_SEAT: usize = 128;

/// The number of rounds in which a granted turn can be used: enough for a task whose thread is busy meanwhile.
const VALID_ROUNDS: u64 = 16;

/// The number of tasks that a thread of the runtime polls before it checks its sockets: a parameter of the runtime.
/// While requests wait, no thread is idle, so a new request waits for that many polls, each of which can be a turn of
/// some milliseconds. With a smaller number, busy threads would call the kernel more often.
pub const EVENT_INTERVAL: u32 = 16;

/// A flag in [`Seats::taken`], set while requests wait. It is larger than any number of units.
const CLOSED: u64 = 1 << 62;

/// The seats of a server.
#[derive(Debug)]
pub struct Seats {
    /// The number of units of a round.
    most: u64,
    /// The number of units taken in this round, plus [`CLOSED`] while requests wait.
    taken: AtomicU64,
    shared: Mutex<Shared>,
    /// Permits for turns of [`long_work`].
    long: LongWorkPermits,
}

/// The state of waiting requests, and of rounds.
#[derive(Debug)]
struct Shared {
    /// Decides which waiting requests get the seats of the next round.
    queue: FairQueue<User>,
    /// The ticket of the next request that waits.
    next_ticket: Ticket,
    /// The tasks of waiting requests, until they use their turn.
    sleeping: HashMap<Ticket, Sleeper>,
    /// The number of the current round.
    round: u64,
    /// Whether the task that ends rounds is running.
    is_ending: bool,
}

/// A task that waits for a turn, or has been granted one.
#[derive(Debug)]
struct Sleeper {
    waker: Waker,
    /// The round in which the turn was granted; `None` while the task waits.
    granted: Option<u64>,
}

/// The kind of a turn, which decides whether it can be rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claim {
    /// The first turn of a request, which is rejected if the queue is full.
    Arrives,
    /// A further turn of a request, which cannot be rejected.
    Continues,
}

impl Seats {
    /// Seats for a server, all of them free. `most` is the number of seats of a round (`--max-seats`).
    pub fn new(most: u64) -> Seats {
        let waiting = usize::try_from(most).unwrap_or(usize::MAX).saturating_mul(WAITING_FOR_EACH_SEAT);
        let most = most.saturating_mul(UNITS_PER_SEAT).min(CLOSED - 1);
        let waiting_together = waiting.saturating_mul(WAITING_USERS);
        let bounds = Bounds { places: most, first_places: 0, bytes: u64::MAX, waiting, waiting_together };
        let queue = FairQueue::new(Places::ForOneRound, bounds);
        let shared = Shared { queue, next_ticket: 0, sleeping: HashMap::new(), round: 0, is_ending: false };
        Seats { most, taken: AtomicU64::new(0), shared: Mutex::new(shared), long: LongWorkPermits::new() }
    }

    /// A worker for a user: it takes turns for the user, and is charged for them. It has no turn yet.
    pub fn worker(self: &Arc<Seats>, user: &User) -> Worker {
        Worker { seats: self.clone(), user: user.clone(), ticket: None, paid: 0, next: NextTurn::Usual, permit: None }
    }

    /// Waits for a turn of a request in progress, which cannot be rejected. Returns a worker that has the turn.
    pub async fn wait_for_turn(self: &Arc<Seats>, user: &User) -> Worker {
        let mut worker = self.worker(user);
        poll_fn(|context| worker.poll_turn(context)).await;
        worker
    }

    /// The number of seats taken in this round while requests wait for the next one; otherwise 0.
    pub fn taken(&self) -> u64 {
        let taken = self.taken.load(Ordering::Relaxed);
        if taken < CLOSED { 0 } else { (taken - CLOSED).min(self.most).div_ceil(UNITS_PER_SEAT) }
    }

    /// The number of requests that wait for a turn, usual or long.
    pub fn waiting(&self) -> usize {
        self.lock().queue.waiting() + self.long.waiting()
    }

    /// The cost that is charged in advance for a turn that had to wait: one seat.
    fn turn_cost(&self) -> Cost {
        Cost { places: UNITS_PER_SEAT.min(self.most), bytes: 0 }
    }

    /// Takes a unit of the round. Returns false if no unit is free.
    fn try_take_unit(&self) -> bool {
        self.taken.fetch_add(1, Ordering::Relaxed) < self.most
    }

    /// Charges the current round with the units of work that is done. Charges the user too, if requests wait or the
    /// work took at least a seat.
    fn charge(&self, user: &User, units: u64) {
        // The limit prevents an overflow into `CLOSED`; no work takes as long.
        let before = self.taken.fetch_add(units.min(CLOSED >> 8), Ordering::Relaxed);
        // A turn of at least a seat is charged to the user even if no request waits: it can be the first of many.
        if before >= CLOSED || units >= UNITS_PER_SEAT {
            self.lock().queue.charge(user, units);
        }
    }

    /// Begins the next round: grants its seats to waiting requests, and wakes them. Returns whether requests still
    /// wait, so that this round must end too.
    fn next_round(&self) -> bool {
        let mut shared = self.lock();
        let shared = &mut *shared;
        shared.round += 1;
        let granted = shared.queue.next_round();
        let is_waiting = shared.queue.waiting() > 0;
        let closed = if is_waiting { CLOSED } else { 0 };
        self.taken.store(shared.queue.places() | closed, Ordering::Relaxed);
        shared.is_ending = is_waiting;
        // The runtime polls the task that was woken last before the others. So the task with the first turn is woken
        // last.
        let first = granted.first().copied();
        for ticket in granted.into_iter().skip(1).chain(first) {
            if let Some(sleeper) = shared.sleeping.get_mut(&ticket) {
                sleeper.granted = Some(shared.round);
                sleeper.waker.wake_by_ref();
            }
        }
        is_waiting
    }

    /// Registers the task of a queued request, which is woken when its turn is granted. Starts the task that ends
    /// rounds if it is not running. Unlocks `shared`.
    fn register_sleeper(self: &Arc<Seats>, mut shared: MutexGuard<'_, Shared>, ticket: Ticket, context: &Context<'_>) {
        shared.sleeping.insert(ticket, Sleeper { waker: context.waker().clone(), granted: None });
        self.taken.fetch_or(CLOSED, Ordering::Relaxed);
        let must_start = !std::mem::replace(&mut shared.is_ending, true);
        drop(shared);
        if must_start {
            self.start_ending_rounds();
        }
    }

    /// Starts the task that ends rounds as long as requests wait. It ends a round when all runnable tasks have been
    /// polled.
    #[expect(clippy::disallowed_methods, reason = "the task that ends rounds lives only while requests wait")]
    fn start_ending_rounds(self: &Arc<Seats>) {
        if Handle::try_current().is_err() {
            // Without a runtime there are no other tasks.
            while self.next_round() {}
            return;
        }
        let seats = self.clone();
        tokio::spawn(async move {
            loop {
                for _ in 0..EVENT_INTERVAL {
                    yield_to_others().await;
                }
                if !seats.next_round() {
                    break;
                }
            }
        });
    }

    /// Waits until the current turn of the caller may read an object of this many bytes: see [`long_work`]. `user` is
    /// named in the error.
    ///
    /// # Errors
    /// 429 if the long turn is not granted in time.
    pub async fn wait_for_long_turn(&self, user: &User, bytes: usize) -> Result<(), Limited> {
        if long_work::may_read(bytes) {
            return Ok(());
        }
        // In a box, because almost no request waits. Otherwise all requests would reserve memory for this future.
        let waiting = Box::pin(timeout(QUEUE_PATIENCE, long_work::wait_to_read(bytes)));
        waiting.await.map_err(|_| self.no_long_turn(user))
    }

    /// The error of a request that has waited too long for its long turn.
    fn no_long_turn(&self, user: &User) -> Limited {
        let message = format!(
            "too many requests, please try again later: a request of user {user} for an object of more than {} \
             waited {} s for its turn. Send fewer requests for large objects at a time, or watch instead of reading them again",
            Bytes(LONG as u64),
            QUEUE_PATIENCE.as_secs()
        );
        Limited { limit: Limit::Seats, message, retry_after: Some(RETRY_AFTER) }
    }

    /// Locks the shared state, also if a thread panicked while it held the lock. Every change is one call of
    /// `FairQueue`, so a panic elsewhere cannot leave the state incomplete.
    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The error of a request whose queue is full, or that waited too long.
    fn limit_error(&self, queue: &FairQueue<User>, user: &User) -> Limited {
        let (seats, waiting) = (self.most / UNITS_PER_SEAT, queue.usage_of(user).1);
        let message = format!(
            "too many requests, please try again later: all --max-seats={seats} seats are taken, and user {user} has {waiting} \
             requests waiting for one. Send fewer requests at a time, list less at a time (use a selector, a namespace or limit), \
             watch instead of listing again, or raise --max-seats"
        );
        Limited { limit: Limit::Seats, message, retry_after: Some(RETRY_AFTER) }
    }
}

/// Converts work to whole units, rounded down.
fn units_of(work: Duration) -> u64 {
    u64::try_from(work.as_micros() / UNIT_TIME.as_micros()).unwrap_or(u64::MAX)
}

/// Work that is not charged yet, because its pieces are too short for a turn each. The next turn takes over the work
/// ([`Self::take`]) and charges it. Work that no turn has taken over is charged when this value is dropped, also if a
/// client ends its request before a turn is due.
#[derive(Debug)]
pub struct UnchargedWork {
    seats: Arc<Seats>,
    user: User,
    /// The time of the work.
    time: Duration,
    /// The bytes for which the next turn must be a long one; `None` for a usual turn.
    long_bytes: Option<usize>,
}

impl UnchargedWork {
    /// The state before any work.
    pub fn new(seats: &Arc<Seats>, user: &User) -> UnchargedWork {
        UnchargedWork { seats: seats.clone(), user: user.clone(), time: Duration::ZERO, long_bytes: None }
    }

    /// Adds work that was done outside of a turn.
    pub fn add(&mut self, time: Duration) {
        self.time += time;
    }

    /// Whether a turn must be taken now: the work so far adds up to a unit, or the next work needs a long turn.
    pub fn is_due(&self) -> bool {
        self.long_bytes.is_some() || self.time >= UNIT_TIME
    }

    /// Sets the bytes for which the next turn must be a long one; `None` for a usual turn.
    pub fn set_long_bytes(&mut self, bytes: Option<usize>) {
        self.long_bytes = bytes;
    }

    /// Removes the work so far, and returns its time. The caller charges it to its next turn: see
    /// [`Worker::work_and_settle`].
    pub fn take(&mut self) -> Duration {
        std::mem::take(&mut self.time)
    }

    /// Waits for a turn, which is a long one if needed. Returns a worker that has the turn.
    pub async fn wait_for_turn(&self) -> Worker {
        let mut worker = self.seats.worker(&self.user);
        if let Some(bytes) = self.long_bytes {
            worker.next = NextTurn::Long(bytes, None);
        }
        poll_fn(|context| worker.poll_turn(context)).await;
        worker
    }
}

impl Drop for UnchargedWork {
    /// Charges the work that no turn has taken.
    fn drop(&mut self) {
        let units = units_of(self.time);
        if units > 0 {
            self.seats.charge(&self.user, units);
        }
    }
}

/// Does the work of a user, turn by turn. When the value is dropped, it leaves the queue.
#[derive(Debug)]
pub struct Worker {
    seats: Arc<Seats>,
    user: User,
    /// The ticket in the queue; `None` if the worker does not wait.
    ticket: Option<Ticket>,
    /// The units that were taken in advance for the next turn; 0 if the worker has no turn.
    paid: u64,
    /// The kind of the next turn.
    next: NextTurn,
    /// The permit for the next turn, if it is a long one.
    permit: Option<Permit<User>>,
}

impl Worker {
    /// Waits for the first turn of a request.
    ///
    /// # Errors
    /// 429 if too many requests of the user wait, or the turn is not granted in time.
    pub async fn arrive(&mut self) -> Result<(), Limited> {
        if self.seats.try_take_unit() {
            self.paid = 1;
            return Ok(());
        }
        // In a box, because almost no request waits. Otherwise all requests would reserve memory for this future.
        Box::pin(self.arrive_late()).await
    }

    /// Waits in the queue for the first turn. Its errors are those of [`Worker::arrive`].
    async fn arrive_late(&mut self) -> Result<(), Limited> {
        match timeout(QUEUE_PATIENCE, poll_fn(|context| self.poll_seat(context, Claim::Arrives))).await {
            Ok(turn) => turn,
            Err(_) => {
                let error = self.seats.limit_error(&self.seats.lock().queue, &self.user);
                self.leave_queue();
                Err(error)
            }
        }
    }

    /// The user to whom the work is charged.
    pub fn user(&self) -> &User {
        &self.user
    }

    /// Ready when the worker has its next turn. The permit of a long turn is requested last, because it must be used
    /// as soon as it is granted.
    pub fn poll_turn(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.paid == 0 {
            // This is no error, because only first turns can be rejected.
            let _ = ready!(self.poll_seat(context, Claim::Continues));
        }
        if let NextTurn::Long(bytes, queued) = &mut self.next {
            self.permit = ready!(NextTurn::poll_permit(*bytes, queued, &self.seats.long, &self.user, context));
        }
        Poll::Ready(())
    }

    /// The bytes for which the next turn must be a long one; `None` for a usual turn.
    pub fn long_bytes(&self) -> Option<usize> {
        match self.next {
            NextTurn::Usual => None,
            NextTurn::Long(bytes, _) => Some(bytes),
        }
    }

    /// Does work in the current turn, and charges the time that it takes.
    pub fn work<Done>(&mut self, work: impl FnOnce() -> Done) -> Done {
        self.work_and_settle(Duration::ZERO, work)
    }

    /// Like [`Worker::work`], and also charges `unpaid`, the time of earlier work outside of turns.
    pub fn work_and_settle<Done>(&mut self, unpaid: Duration, work: impl FnOnce() -> Done) -> Done {
        let begun = Instant::now();
        let (done, long_bytes) = match std::mem::replace(&mut self.next, NextTurn::Usual) {
            NextTurn::Long(bytes, _) => long_work::run_long(bytes, self.permit.take(), work),
            NextTurn::Usual => long_work::run_usual(work),
        };
        if let Some(bytes) = long_bytes {
            self.next = NextTurn::Long(bytes, None);
        }
        let owed = units_of(begun.elapsed() + unpaid).saturating_sub(self.paid);
        self.paid = 0;
        if owed > 0 {
            self.seats.charge(&self.user, owed);
        }
        done
    }

    /// Runs the future `work` to its end. The first poll uses the turn that the worker has; each further poll waits for
    /// a turn.
    pub async fn work_through<Work: Future>(&mut self, work: Work) -> Work::Output {
        let mut work = pin!(work);
        let mut has_turn = true;
        poll_fn(|context| {
            if !std::mem::take(&mut has_turn) {
                ready!(self.poll_turn(context));
            }
            self.work(|| work.as_mut().poll(context))
        })
        .await
    }

    /// Ready when the worker has a turn: `paid` is then set. If no unit is free, the worker joins the queue, and the
    /// task is woken when its turn is granted. `claim` states whether the turn can be rejected.
    ///
    /// # Errors
    /// 429 for the first turn of a request, if the queue of its user is full.
    fn poll_seat(&mut self, context: &mut Context<'_>, mut claim: Claim) -> Poll<Result<(), Limited>> {
        if let Some(ticket) = self.ticket {
            let mut shared = self.seats.lock();
            let round = shared.round;
            let granted = match shared.sleeping.get_mut(&ticket) {
                Some(Sleeper { granted: Some(granted), .. }) => *granted,
                Some(sleeper) => {
                    sleeper.waker.clone_from(context.waker());
                    return Poll::Pending;
                }
                // Does not occur: a ticket and its sleeper are removed together.
                None => 0,
            };
            shared.sleeping.remove(&ticket);
            self.ticket = None;
            if granted + VALID_ROUNDS >= round {
                // If the turns of the round have cost too much already, this one waits for a later round.
                if shared.queue.take_back(&self.user, ticket, self.seats.turn_cost()) {
                    self.ticket = Some(ticket);
                    self.seats.register_sleeper(shared, ticket, context);
                    return Poll::Pending;
                }
                self.paid = self.seats.turn_cost().places;
                return Poll::Ready(Ok(()));
            }
            // The turn has expired. The request has waited for it, so it is not rejected now.
            claim = Claim::Continues;
        }
        if self.seats.try_take_unit() {
            self.paid = 1;
            return Poll::Ready(Ok(()));
        }
        let mut shared = self.seats.lock();
        let ticket = shared.next_ticket;
        shared.next_ticket += 1;
        match claim {
            Claim::Continues => shared.queue.requeue(&self.user, ticket, self.seats.turn_cost()),
            Claim::Arrives => {
                if let Entered::Rejected(_) = shared.queue.wait(&self.user, ticket, self.seats.turn_cost()) {
                    return Poll::Ready(Err(self.seats.limit_error(&shared.queue, &self.user)));
                }
            }
        }
        self.ticket = Some(ticket);
        self.seats.register_sleeper(shared, ticket, context);
        Poll::Pending
    }

    /// Leaves the queue, if the worker waits in it.
    fn leave_queue(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            let mut shared = self.seats.lock();
            shared.sleeping.remove(&ticket);
            shared.queue.cancel(&self.user, ticket);
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.leave_queue();
    }
}
