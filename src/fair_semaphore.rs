//! A semaphore whose waiting users take turns: which request sleeps, and which one wakes.
//!
//! [`FairQueue`] decides the order, with permits that each holder returns ([`Places::UntilLeft`]). `server` uses it for large lists, and `access`
//! for reviews. Callers decide how long to wait, and what to respond when the queue is full.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::model::fair_queue::{Bounds, Cost, Entered, FairQueue, Flow, Places, Scarce, Ticket};

/// Places, and the tasks that wait for one.
#[derive(Debug)]
pub struct FairSemaphore<User> {
    shared: Mutex<Shared<User>>,
}

#[derive(Debug)]
struct Shared<User> {
    queue: FairQueue<User>,
    next_ticket: Ticket,
    sleeping: HashMap<Ticket, oneshot::Sender<()>>,
}

/// Permits and bytes in use, and queued requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InUse {
    /// Places.
    pub places: u64,
    /// Bytes of the tasks that have places.
    pub bytes: u64,
    /// Requests that wait.
    pub waiting: usize,
}

/// A place, or one in the queue; free again when dropped.
#[derive(Debug)]
pub struct Permit<User: Flow> {
    turns: Arc<FairSemaphore<User>>,
    user: User,
    ticket: Ticket,
    cost: Cost,
}

/// A place in the queue.
#[derive(Debug)]
pub struct QueuedPermit<User: Flow> {
    place: Permit<User>,
    granted: oneshot::Receiver<()>,
}

/// The result of acquiring a permit.
#[derive(Debug)]
pub enum Admission<User: Flow> {
    /// Go on.
    Granted(Permit<User>),
    /// Wait.
    Queued(QueuedPermit<User>),
}

impl<User: Flow> FairSemaphore<User> {
    /// An empty queue: all permits are free.
    pub fn new(bounds: Bounds) -> FairSemaphore<User> {
        let queue = FairQueue::new(Places::UntilLeft, bounds);
        FairSemaphore { shared: Mutex::new(Shared { queue, next_ticket: 0, sleeping: HashMap::new() }) }
    }

    /// An empty queue for requests that take one permit each and no bytes, of which any number may wait. Of all
    /// permits, `first_places` are for users who have none.
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

    /// Waits for one permit, however long that takes; for [`FairSemaphore::of_places`].
    pub async fn acquire_one(self: &Arc<Self>, user: &User) -> Option<Permit<User>> {
        match self.acquire(user, Cost { places: 1, bytes: 0 }) {
            Ok(Admission::Granted(place)) => Some(place),
            Ok(Admission::Queued(waiting)) => Some(waiting.turn().await),
            Err(_) => None,
        }
    }

    /// Acquires a permit, or joins the queue.
    ///
    /// # Errors
    /// What there is too little of, when too many of this user wait already.
    pub fn acquire(self: &Arc<Self>, user: &User, cost: Cost) -> Result<Admission<User>, Scarce> {
        let mut shared = self.lock();
        let ticket = shared.next_ticket;
        shared.next_ticket += 1;
        let entered = shared.queue.enter(user, ticket, cost);
        let place = || Permit { turns: self.clone(), user: user.clone(), ticket, cost };
        match entered {
            Entered::Rejected(scarce) => Err(scarce),
            Entered::Granted => Ok(Admission::Granted(place())),
            Entered::Queued => {
                let (wake, granted) = oneshot::channel();
                shared.sleeping.insert(ticket, wake);
                Ok(Admission::Queued(QueuedPermit { place: place(), granted }))
            }
        }
    }

    /// The number of permits and bytes, and the bounds of the queue.
    pub fn bounds(&self) -> Bounds {
        self.lock().queue.bounds()
    }

    /// The permits, bytes and queued requests.
    pub fn in_use(&self) -> InUse {
        let shared = self.lock();
        InUse { places: shared.queue.places(), bytes: shared.queue.bytes(), waiting: shared.queue.waiting() }
    }

    /// The number of permits of a user, and of the user's queued requests.
    pub fn usage_of(&self, user: &User) -> (u64, usize) {
        self.lock().queue.usage_of(user)
    }

    /// Which of permits and bytes is used up.
    pub fn scarce(&self) -> Scarce {
        self.lock().queue.scarce()
    }

    /// Every change of it is one call of [`FairQueue`], so a panic elsewhere leaves it as it was.
    fn lock(&self) -> MutexGuard<'_, Shared<User>> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<User: Flow> QueuedPermit<User> {
    /// Waits for the turn, however long that takes.
    pub async fn turn(self) -> Permit<User> {
        // The sender is dropped only with a turn, or with the place.
        let _ = self.granted.await;
        self.place
    }
}

impl<User: Flow> Drop for Permit<User> {
    fn drop(&mut self) {
        let mut shared = self.turns.lock();
        shared.sleeping.remove(&self.ticket);
        let next = match shared.queue.cancel(&self.user, self.ticket) {
            Some(next) => next,
            None => shared.queue.release(&self.user, self.cost),
        };
        for ticket in next {
            if let Some(wake) = shared.sleeping.remove(&ticket) {
                // A task that no longer sleeps gives the place back when it is dropped.
                let _ = wake.send(());
            }
        }
    }
}
