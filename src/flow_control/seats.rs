//! Seats: shares of the processors' time, given out fairly between users.
//!
//! # Why
//! Every runnable task waits in one first-come-first-served queue of the runtime. With 3,000 requests of one user in
//! it, the request of another user came after all of them. The model is kube-apiserver's API Priority and Fairness. It
//! has a bounded number of seats, and a fair queue between flows when all are taken. A request gets 429 with
//! Retry-After when a queue is full or its wait too long, and some requests bypass the queue. A flow is an
//! authenticated user, or the peer's address before (and without) authentication. The ServiceAccounts of a namespace
//! share the part of one user ([`crate::model::user_name::tenant`]).
//!
//! # What a seat is
//! Work here is done between two awaits of a task; while it waits for a client, the source or an API server it costs
//! nothing. So a request does not hold a seat. A seat is taken for one *turn* of work. Examples are one poll of a
//! handler, one piece of a body, one batch of initial events, and one step of a TLS handshake. So a client that stops
//! reading never holds a seat: its body is not polled, and takes none. Nothing is released, and nothing can leak or
//! deadlock.
//!
//! Seats are given out in rounds. While less than all seats of a round are taken, a turn costs one atomic addition. The
//! turn that finds them taken waits in the [`FairQueue`], and starts the task that ends the round. That task goes to
//! the end of the runtime's queue first, as often as the runtime polls tasks between two looks at its sockets
//! ([`EVENT_INTERVAL`]). Until it is done, all that was runnable before had its poll, and so had all that has arrived.
//! An arrival took part of the round, or now waits in the fair queue, which costs microseconds. Then the round ends:
//! its seats go to the waiting users fairly. So a user waits about one round of seats, however many requests another
//! user has in flight. The runtime's workers are never idle while requests wait, because the task that ends the round
//! is runnable until none does.
//!
//! # What a turn costs
//! A seat is [`UNITS_PER_SEAT`] units of [`UNIT_TIME`]. A turn takes one unit in advance, or a whole seat if it had to
//! wait. The time above the unit is measured and charged when the turn is done. The round is full earlier, and the user
//! is served later and gets fewer turns in a round. kube-apiserver must estimate because its requests run at the same
//! time; a turn runs alone on its thread, so its time can be measured.
//!
//! The events of a watch are written in pieces of some microseconds, to very many watches at a time. A turn for each
//! piece would cost as much as the piece. So a watch takes a turn once its pieces add up to a unit.
//!
//! Work on one long object cannot be divided into turns. It runs beside the runtime's threads: see [`super::long_work`].
//!
//! A turn that was granted is used within [`VALID_ROUNDS`], or its task waits again. Otherwise a client could collect
//! turns for many streams, by closing their windows meanwhile, and use them at once. It also waits again if other turns
//! have cost the round more than all seats. Otherwise 32 turns of half a second each, of users without any history,
//! would be one round.

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
use super::long_work::{self, LONG, NextTurn};
use super::user::User;
use crate::fair_semaphore::{FairSemaphore, Permit};
use crate::model::fair_queue::{Bounds, Cost, Entered, FairQueue, Places, Ticket};
use crate::model::quantity::Bytes;
use crate::query::work::yield_to_others;

/// Parts of a seat.
const UNITS_PER_SEAT: u64 = 8;

/// The duration of a unit of work. Smaller pieces of work are paid for once they add up to this.
pub const UNIT_TIME: Duration = Duration::from_micros(125);

/// The number of requests of one user that may wait for each seat before further ones are rejected. It is the number
/// that two HTTP/2 connections carry, for two processors.
const WAITING_FOR_EACH_SEAT: usize = 128;

/// Rounds in which a granted turn can be used: enough for a task whose thread is busy meanwhile.
const VALID_ROUNDS: u64 = 16;

/// How many polls of tasks a thread of the runtime makes before it looks at its sockets; the runtime is built with
/// this. While requests wait no thread is ever idle. A new request would otherwise wait for that many polls, each of
/// which can be a turn of milliseconds. With a smaller number, busy threads call the kernel more often.
pub const EVENT_INTERVAL: u32 = 16;

/// Set in [`Seats::taken`] while requests wait: larger than any number of units.
const CLOSED: u64 = 1 << 62;

/// Seats of a server.
#[derive(Debug)]
pub struct Seats {
    /// Units of a round.
    most: u64,
    /// Units taken in this round, and [`CLOSED`].
    taken: AtomicU64,
    shared: Mutex<Shared>,
    /// Permits for turns of [`long_work`].
    long: Arc<FairSemaphore<User>>,
}

#[derive(Debug)]
struct Shared {
    queue: FairQueue<User>,
    next_ticket: Ticket,
    sleeping: HashMap<Ticket, Sleeper>,
    round: u64,
    /// A task is on its way to end the round.
    is_ending: bool,
}

#[derive(Debug)]
struct Sleeper {
    waker: Waker,
    /// The round in which the turn was granted.
    granted: Option<u64>,
}

/// Whether a turn may be refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claim {
    /// The first turn of a request.
    Arrives,
    /// A further one.
    Continues,
}

impl Seats {
    /// This number of seats; all are free.
    pub fn new(most: u64) -> Seats {
        let waiting = usize::try_from(most).unwrap_or(usize::MAX).saturating_mul(WAITING_FOR_EACH_SEAT);
        let most = most.saturating_mul(UNITS_PER_SEAT).min(CLOSED - 1);
        let waiting_together = waiting.saturating_mul(WAITING_USERS);
        let bounds = Bounds { places: most, first_places: 0, bytes: u64::MAX, waiting, waiting_together };
        let queue = FairQueue::new(Places::ForOneRound, bounds);
        let shared = Shared { queue, next_ticket: 0, sleeping: HashMap::new(), round: 0, is_ending: false };
        Seats { most, taken: AtomicU64::new(0), shared: Mutex::new(shared), long: long_work::permits() }
    }

    /// A worker, which works for a user in turns.
    pub fn worker(self: &Arc<Seats>, user: &User) -> Worker {
        Worker { seats: self.clone(), user: user.clone(), ticket: None, paid: 0, next: NextTurn::Usual, permit: None }
    }

    /// Waits for one turn of work in progress.
    pub async fn turn_of(self: &Arc<Seats>, user: &User) -> Worker {
        let mut worker = self.worker(user);
        poll_fn(|context| worker.poll_turn(context)).await;
        worker
    }

    /// The seats taken in this round while requests wait for the next one; otherwise 0.
    pub fn taken(&self) -> u64 {
        let taken = self.taken.load(Ordering::Relaxed);
        if taken < CLOSED { 0 } else { (taken - CLOSED).min(self.most).div_ceil(UNITS_PER_SEAT) }
    }

    /// The number of turns that wait, usual and long ones.
    pub fn waiting(&self) -> usize {
        self.lock().queue.waiting() + self.long.in_use().waiting
    }

    /// The cost that a queued turn pays in advance.
    fn turn(&self) -> Cost {
        Cost { places: UNITS_PER_SEAT.min(self.most), bytes: 0 }
    }

    /// Takes a unit of work, and returns whether a seat was free.
    fn has_room(&self) -> bool {
        self.taken.fetch_add(1, Ordering::Relaxed) < self.most
    }

    /// Counts work that was done, also for the user while others wait.
    fn charge(&self, user: &User, units: u64) {
        // Far from an overflow into the flag: nothing runs for so long.
        let before = self.taken.fetch_add(units.min(CLOSED >> 8), Ordering::Relaxed);
        // Long turns are remembered even if nothing waits: they can be the first of many.
        if before >= CLOSED || units >= UNITS_PER_SEAT {
            self.lock().queue.charge(user, units);
        }
    }

    /// Begins the next round: grants seats to waiting requests and wakes them. Returns whether requests still wait, so that this round has
    /// to end too.
    fn next_round(&self) -> bool {
        let mut shared = self.lock();
        let shared = &mut *shared;
        shared.round += 1;
        let granted = shared.queue.next_round();
        let is_waiting = shared.queue.waiting() > 0;
        let closed = if is_waiting { CLOSED } else { 0 };
        self.taken.store(shared.queue.places() | closed, Ordering::Relaxed);
        shared.is_ending = is_waiting;
        // The runtime polls next what is woken last: the first turn.
        let first = granted.first().copied();
        for ticket in granted.into_iter().skip(1).chain(first) {
            if let Some(sleeper) = shared.sleeping.get_mut(&ticket) {
                sleeper.granted = Some(shared.round);
                sleeper.waker.wake_by_ref();
            }
        }
        is_waiting
    }

    /// Has the task of a request that waits with this ticket woken when its turn comes.
    fn sleep(self: &Arc<Seats>, mut shared: MutexGuard<'_, Shared>, ticket: Ticket, context: &Context<'_>) {
        shared.sleeping.insert(ticket, Sleeper { waker: context.waker().clone(), granted: None });
        self.taken.fetch_or(CLOSED, Ordering::Relaxed);
        let must_end = !std::mem::replace(&mut shared.is_ending, true);
        drop(shared);
        if must_end {
            self.end_round();
        }
    }

    /// Starts the task that ends the round after all runnable tasks have run.
    #[expect(clippy::disallowed_methods, reason = "the task that ends rounds lives only while requests wait")]
    fn end_round(self: &Arc<Seats>) {
        if Handle::try_current().is_err() {
            // Without a runtime there are no other tasks to wait for.
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

    /// Waits until the current turn of the user's work may read an object of this many bytes: see [`long_work`].
    ///
    /// # Errors
    /// 429 when the long turn does not come in time.
    pub async fn wait_for_long_turn(&self, user: &User, bytes: usize) -> Result<(), Limited> {
        if long_work::may_read(bytes) {
            return Ok(());
        }
        // In a box: almost no request waits, and all would hold its place.
        let waiting = Box::pin(timeout(QUEUE_PATIENCE, long_work::wait_to_read(bytes)));
        waiting.await.map_err(|_| self.no_long_turn(user))
    }

    /// The error of a request for a long object that has waited too long for its turn.
    fn no_long_turn(&self, user: &User) -> Limited {
        let message = format!(
            "too many requests, please try again later: requests for objects of more than {} take turns, and that of user {user} \
             waited {} s for one. Send fewer requests for large objects at a time, or watch instead of reading them again",
            Bytes(LONG as u64),
            QUEUE_PATIENCE.as_secs()
        );
        Limited { limit: Limit::Seats, message, retry_after: Some(RETRY_AFTER) }
    }

    /// Every change of it is one call of `FairQueue`, so a panic elsewhere leaves it as it was.
    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The error of a request that cannot wait, or waited too long.
    fn refused(&self, queue: &FairQueue<User>, user: &User) -> Limited {
        let (seats, waiting) = (self.most / UNITS_PER_SEAT, queue.usage_of(user).1);
        let message = format!(
            "too many requests, please try again later: all --max-seats={seats} seats are taken, and user {user} has {waiting} \
             requests waiting for one. Send fewer requests at a time, list less at a time (a selector, a namespace, limit), \
             watch instead of listing again, or raise --max-seats"
        );
        Limited { limit: Limit::Seats, message, retry_after: Some(RETRY_AFTER) }
    }
}

/// Converts work to whole units, rounded down.
fn units_of(work: Duration) -> u64 {
    u64::try_from(work.as_micros() / UNIT_TIME.as_micros()).unwrap_or(u64::MAX)
}

/// Work in pieces that are too short for a turn each. It is charged when it is dropped, unless a turn has paid for it.
/// So a client that ends its request before a turn is due does not get the work for nothing.
#[derive(Debug)]
pub struct Unpaid {
    seats: Arc<Seats>,
    user: User,
    time: Duration,
    wants_long: bool,
}

impl Unpaid {
    /// No work has been done yet.
    pub fn new(seats: &Arc<Seats>, user: &User) -> Unpaid {
        Unpaid { seats: seats.clone(), user: user.clone(), time: Duration::ZERO, wants_long: false }
    }

    /// Counts work that was done outside of a turn.
    pub fn add(&mut self, time: Duration) {
        self.time += time;
    }

    /// Whether the work that has been noted amounts to a turn.
    pub fn is_due(&self) -> bool {
        self.wants_long || self.time >= UNIT_TIME
    }

    /// Sets whether the next turn has to be a long one.
    pub fn wants_long(&mut self, wants_long: bool) {
        self.wants_long = wants_long;
    }

    /// Takes the work that the next turn pays for.
    pub fn take(&mut self) -> Duration {
        std::mem::take(&mut self.time)
    }

    /// Waits for one turn.
    pub async fn turn(&self) -> Worker {
        let mut worker = self.seats.worker(&self.user);
        if self.wants_long {
            worker.next = NextTurn::Long(None);
        }
        poll_fn(|context| worker.poll_turn(context)).await;
        worker
    }
}

impl Drop for Unpaid {
    fn drop(&mut self) {
        let units = units_of(self.time);
        if units > 0 {
            self.seats.charge(&self.user, units);
        }
    }
}

/// Works for a user, one turn after the other. When dropped it does not wait any longer.
#[derive(Debug)]
pub struct Worker {
    seats: Arc<Seats>,
    user: User,
    /// While it waits.
    ticket: Option<Ticket>,
    /// Units that were taken in advance for the next turn. Without a turn 0.
    paid: u64,
    next: NextTurn,
    /// The permit of a long turn.
    permit: Option<Permit<User>>,
}

impl Worker {
    /// Waits for the first turn of a request.
    ///
    /// # Errors
    /// 429 when too many requests of the user wait, or the turn does not come in time.
    pub async fn arrive(&mut self) -> Result<(), Limited> {
        if self.seats.has_room() {
            self.paid = 1;
            return Ok(());
        }
        // In a box: almost no request waits, and all would hold its place.
        Box::pin(self.arrive_late()).await
    }

    /// Waits in the queue for the first turn.
    async fn arrive_late(&mut self) -> Result<(), Limited> {
        match timeout(QUEUE_PATIENCE, poll_fn(|context| self.poll(context, Claim::Arrives))).await {
            Ok(turn) => turn,
            Err(_) => {
                let refused = self.seats.refused(&self.seats.lock().queue, &self.user);
                self.give_up();
                Err(refused)
            }
        }
    }

    /// The user whose work it does.
    pub fn user(&self) -> &User {
        &self.user
    }

    /// Waits for a further turn. The permit of a long one comes last, so that it is used as soon as it is granted.
    pub fn poll_turn(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.paid == 0 {
            let _ = ready!(self.poll(context, Claim::Continues));
        }
        if let NextTurn::Long(queued) = &mut self.next {
            self.permit = ready!(NextTurn::poll_permit(queued, &self.seats.long, &self.user, context));
        }
        Poll::Ready(())
    }

    /// Whether the work continues in a long turn.
    pub fn wants_long(&self) -> bool {
        matches!(self.next, NextTurn::Long(_))
    }

    /// Uses the turn, and pays for what it takes.
    pub fn work<Done>(&mut self, work: impl FnOnce() -> Done) -> Done {
        self.work_and_settle(Duration::ZERO, work)
    }

    /// Like [`Worker::work`], and pays for earlier work too.
    pub fn work_and_settle<Done>(&mut self, unpaid: Duration, work: impl FnOnce() -> Done) -> Done {
        let begun = Instant::now();
        let (done, wants_long) = match std::mem::replace(&mut self.next, NextTurn::Usual) {
            NextTurn::Long(_) => (long_work::run_long(self.permit.take(), work), false),
            NextTurn::Usual => long_work::run_usual(work),
        };
        if wants_long {
            self.next = NextTurn::Long(None);
        }
        let owed = units_of(begun.elapsed() + unpaid).saturating_sub(self.paid);
        self.paid = 0;
        if owed > 0 {
            self.seats.charge(&self.user, owed);
        }
        done
    }

    /// Does all of this work, whose first poll belongs to the turn that the worker has; each further poll is one turn.
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

    /// Polls for a turn. Without a free seat it enters the queue, and is woken later.
    fn poll(&mut self, context: &mut Context<'_>, mut claim: Claim) -> Poll<Result<(), Limited>> {
        if let Some(ticket) = self.ticket {
            let mut shared = self.seats.lock();
            let round = shared.round;
            let granted = match shared.sleeping.get_mut(&ticket) {
                Some(Sleeper { granted: Some(granted), .. }) => *granted,
                Some(sleeper) => {
                    sleeper.waker.clone_from(context.waker());
                    return Poll::Pending;
                }
                None => 0,
            };
            shared.sleeping.remove(&ticket);
            self.ticket = None;
            if granted + VALID_ROUNDS >= round {
                if shared.queue.take_back(&self.user, ticket, self.seats.turn()) {
                    self.ticket = Some(ticket);
                    self.seats.sleep(shared, ticket, context);
                    return Poll::Pending;
                }
                self.paid = self.seats.turn().places;
                return Poll::Ready(Ok(()));
            }
            claim = Claim::Continues;
        }
        if self.seats.has_room() {
            self.paid = 1;
            return Poll::Ready(Ok(()));
        }
        let mut shared = self.seats.lock();
        let ticket = shared.next_ticket;
        shared.next_ticket += 1;
        match claim {
            Claim::Continues => shared.queue.go_on(&self.user, ticket, self.seats.turn()),
            Claim::Arrives => {
                if let Entered::Rejected(_) = shared.queue.wait(&self.user, ticket, self.seats.turn()) {
                    return Poll::Ready(Err(self.seats.refused(&shared.queue, &self.user)));
                }
            }
        }
        self.ticket = Some(ticket);
        self.seats.sleep(shared, ticket, context);
        Poll::Pending
    }

    /// Leaves the queue without a seat.
    fn give_up(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            let mut shared = self.seats.lock();
            shared.sleeping.remove(&ticket);
            shared.queue.cancel(&self.user, ticket);
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.give_up();
    }
}
