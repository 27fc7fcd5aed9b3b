//! A semaphore whose permits go to waiting users in turn. This file suspends and wakes the requests.
//!
//! [`FairQueue`] decides the order. A permit is for one or more places of that queue, and for bytes; dropping the
//! permit frees both. Users are equal by places ([`Places::UntilLeft`]), or by bytes ([`Places::UntilDone`]). `server`
//! uses the semaphore for large lists, `access` for reviews, and `flow_control` for long work.
//! Callers decide how long to wait, and what to respond when the queue is full.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::model::fair_queue::{Bounds, Cost, Entered, FairQueue, Places, Scarce, Ticket};
use crate::model::flow::Flow;

/// Places and bytes, and the tasks that wait for some.
#[derive(Debug)]
pub struct FairSemaphore<User> {
    shared: Mutex<Shared<User>>,
}

#[derive(Debug)]
struct Shared<User> {
    queue: FairQueue<User>,
    next_ticket: Ticket,
    /// Wakes the task of a queued request, by the ticket of the request.
    sleeping: HashMap<Ticket, oneshot::Sender<()>>,
}

/// The amounts that permits hold, and the number of queued requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InUse {
    /// Places that permits hold.
    pub places: u64,
    /// Bytes that permits hold.
    pub bytes: u64,
    /// Queued requests.
    pub waiting: usize,
}

/// The places and bytes of one request. Dropping it frees them, or removes a request that still waits from the queue.
#[derive(Debug)]
pub struct Permit<User: Flow> {
    semaphore: Arc<FairSemaphore<User>>,
    user: User,
    ticket: Ticket,
    cost: Cost,
}

/// A request in the queue. Dropping it removes the request from the queue.
#[derive(Debug)]
pub struct QueuedPermit<User: Flow> {
    /// Holds places once `granted` resolves.
    permit: Permit<User>,
    granted: oneshot::Receiver<()>,
}

/// The result of acquiring a permit.
#[derive(Debug)]
pub enum Admission<User: Flow> {
    /// The request has its places and may start.
    Granted(Permit<User>),
    /// The request must wait with [`QueuedPermit::wait`].
    Queued(QueuedPermit<User>),
}

impl<User: Flow> FairSemaphore<User> {
    /// A semaphore of which nothing is in use.
    pub fn new(bounds: Bounds) -> FairSemaphore<User> {
        FairSemaphore::of_kind(Places::UntilLeft, bounds)
    }

    fn of_kind(kind: Places, bounds: Bounds) -> FairSemaphore<User> {
        let queue = FairQueue::new(kind, bounds);
        FairSemaphore { shared: Mutex::new(Shared { queue, next_ticket: 0, sleeping: HashMap::new() }) }
    }

    /// A semaphore for requests that take one place each and no bytes. Any number of them may wait. Of all `places`,
    /// `first_places` are reserved for users who have none.
    pub fn of_places(places: u64, first_places: u64) -> FairSemaphore<User> {
        let (bytes, waiting) = (u64::MAX, usize::MAX);
        FairSemaphore::new(Bounds {
            places: places.saturating_sub(first_places),
            first_places,
            bytes,
            waiting,
            waiting_together: waiting,
        })
    }

    /// A semaphore for work that takes one place each, and whose amount in bytes is known. Any number of requests may
    /// wait. The order is that of [`Places::UntilDone`].
    pub fn of_work(places: u64) -> FairSemaphore<User> {
        let (bytes, waiting) = (u64::MAX, usize::MAX);
        FairSemaphore::of_kind(
            Places::UntilDone,
            Bounds { places, first_places: 0, bytes, waiting, waiting_together: waiting },
        )
    }

    /// Waits without a timeout for a permit with one place. `None`: the queue is full, which cannot happen with a
    /// semaphore from [`FairSemaphore::of_places`] or [`FairSemaphore::of_work`].
    pub async fn acquire_one(self: &Arc<Self>, user: &User) -> Option<Permit<User>> {
        self.acquire_for(user, 0).await
    }

    /// Waits as [`Self::acquire_one`] does, for a permit for work on this many bytes.
    pub async fn acquire_for(self: &Arc<Self>, user: &User, bytes: u64) -> Option<Permit<User>> {
        match self.acquire(user, Cost { places: 1, bytes }) {
            Ok(Admission::Granted(permit)) => Some(permit),
            Ok(Admission::Queued(waiting)) => Some(waiting.wait().await),
            Err(_) => None,
        }
    }

    /// Acquires a permit for the places and bytes of `cost`, or queues the request.
    ///
    /// # Errors
    /// The queue is full for this user. The error states which amount is used up.
    pub fn acquire(self: &Arc<Self>, user: &User, cost: Cost) -> Result<Admission<User>, Scarce> {
        let mut shared = self.lock();
        let ticket = shared.next_ticket;
        shared.next_ticket += 1;
        let entered = shared.queue.enter(user, ticket, cost);
        let permit = || Permit { semaphore: self.clone(), user: user.clone(), ticket, cost };
        match entered {
            Entered::Rejected(scarce) => Err(scarce),
            Entered::Granted => Ok(Admission::Granted(permit())),
            Entered::Queued => {
                let (wake, granted) = oneshot::channel();
                shared.sleeping.insert(ticket, wake);
                Ok(Admission::Queued(QueuedPermit { permit: permit(), granted }))
            }
        }
    }

    /// The maximum numbers of places, bytes and queued requests.
    pub fn bounds(&self) -> Bounds {
        self.lock().queue.bounds()
    }

    /// The places and bytes in use, and the number of queued requests.
    pub fn in_use(&self) -> InUse {
        let shared = self.lock();
        InUse { places: shared.queue.places(), bytes: shared.queue.bytes(), waiting: shared.queue.waiting() }
    }

    /// The number of places that a user holds, and of the user's queued requests.
    pub fn usage_of(&self, user: &User) -> (u64, usize) {
        self.lock().queue.usage_of(user)
    }

    /// Which amount requests wait for: places if all are taken, otherwise bytes.
    pub fn scarce(&self) -> Scarce {
        self.lock().queue.scarce()
    }

    /// Locks the state, also after a panic. The state is consistent then too: each change of the queue is a single call
    /// of [`FairQueue`].
    fn lock(&self) -> MutexGuard<'_, Shared<User>> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<User: Flow> QueuedPermit<User> {
    /// Waits without a timeout until the permit is granted.
    pub async fn wait(self) -> Permit<User> {
        // An error cannot occur: only `Permit::drop` removes the sender, to send or because this permit is dropped.
        let _ = self.granted.await;
        self.permit
    }
}

impl<User: Flow> Permit<User> {
    /// Counts bytes that the work used in addition to those that it requested; with [`FairSemaphore::of_work`] only.
    pub fn charge(&self, bytes: u64) {
        self.semaphore.lock().queue.charge_bytes(&self.user, bytes);
    }
}

impl<User: Flow> Drop for Permit<User> {
    /// Frees the places and bytes, or leaves the queue, and wakes the requests that get places now.
    fn drop(&mut self) {
        let mut shared = self.semaphore.lock();
        shared.sleeping.remove(&self.ticket);
        // `cancel` returns `None` for a request that does not wait any more, and so holds places. In both cases, `next`
        // has the waiting requests that get places now.
        let next = match shared.queue.cancel(&self.user, self.ticket) {
            Some(next) => next,
            None => shared.queue.release(&self.user, self.cost),
        };
        for ticket in next {
            if let Some(wake) = shared.sleeping.remove(&ticket) {
                // If the task was cancelled meanwhile, dropping its permit frees the places.
                let _ = wake.send(());
            }
        }
    }
}
