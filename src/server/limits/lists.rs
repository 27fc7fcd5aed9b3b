//! Large lists take turns: a place while one is being sent, a queue before it.
//!
//! A list is large when it is estimated to be over [`LARGE`] as it is sent. A single object whose response is that large, with
//! its indentation, counts as one, and so does the initial event of a watch. All other requests pass without touching anything
//! shared. A place is held until the body has been sent or given up, so a slow reader holds one for long. Why that starves no
//! other user is in [`super::fair_queue`], which decides everything; here is only who sleeps and who wakes. A request that waits
//! holds no snapshot. Places bound memory; the time of the processors is shared by [`super::seats`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use tokio::time::timeout;

use super::fair_queue::{Bounds, Cost, Entered, FairQueue, Places, Scarce, Ticket};
use super::{Limit, LimitSettings, Limited, QUEUE_PATIENCE, RETRY_AFTER, User, WAITING_USERS};
use crate::model::quantity::Bytes;

/// Lists up to this size are not queued: they are written within some milliseconds.
pub const LARGE: u64 = 4 << 20;

/// So many lists of one user wait for each place there is, before further ones are refused.
const WAITING_FOR_EACH_PLACE: usize = 4;

/// The places.
#[derive(Debug)]
pub struct Lists {
    shared: Mutex<Shared>,
}

#[derive(Debug)]
struct Shared {
    queue: FairQueue,
    next_ticket: Ticket,
    sleeping: HashMap<Ticket, oneshot::Sender<()>>,
}

/// Figures for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlight {
    /// Large lists that are being answered.
    pub lists: usize,
    /// Their bytes together, estimated.
    pub bytes: u64,
    /// Large lists that wait for their turn.
    pub waiting: usize,
}

/// A place, or one in the queue; free again when dropped.
#[derive(Debug)]
pub struct Place {
    lists: Arc<Lists>,
    user: User,
    ticket: Ticket,
    bytes: u64,
}

/// A place in the queue.
#[derive(Debug)]
pub struct Waiting {
    place: Place,
    granted: oneshot::Receiver<()>,
}

/// What came of asking for a place.
#[derive(Debug)]
pub enum Turn {
    /// Go on.
    Now(Place),
    /// Let go what is held, wait, and begin anew.
    Later(Waiting),
}

impl Lists {
    /// All places free.
    pub fn new(settings: &LimitSettings) -> Lists {
        let waiting = settings.lists.saturating_mul(WAITING_FOR_EACH_PLACE);
        let bounds = Bounds {
            places: settings.lists as u64,
            bytes: settings.list_bytes.0,
            waiting,
            waiting_together: waiting.saturating_mul(WAITING_USERS),
        };
        let queue = FairQueue::new(Places::UntilLeft, bounds);
        Lists { shared: Mutex::new(Shared { queue, next_ticket: 0, sleeping: HashMap::new() }) }
    }

    /// Asks for a place for a list of so many bytes.
    ///
    /// # Errors
    /// 429 when too many of this user wait already.
    pub fn enter(self: &Arc<Lists>, user: &User, bytes: u64) -> Result<Turn, Limited> {
        let mut shared = self.lock();
        let ticket = shared.next_ticket;
        shared.next_ticket += 1;
        match shared.queue.enter(user, ticket, cost(bytes)) {
            Entered::Refused(scarce) => Err(refused(&shared.queue, user, scarce)),
            Entered::Now => Ok(Turn::Now(self.place(user, ticket, bytes))),
            Entered::Waits => {
                let (wake, granted) = oneshot::channel();
                shared.sleeping.insert(ticket, wake);
                Ok(Turn::Later(Waiting { place: self.place(user, ticket, bytes), granted }))
            }
        }
    }

    /// What is in flight.
    pub fn in_flight(&self) -> InFlight {
        let shared = self.lock();
        InFlight {
            lists: usize::try_from(shared.queue.places()).unwrap_or(usize::MAX),
            bytes: shared.queue.bytes(),
            waiting: shared.queue.waiting(),
        }
    }

    fn place(self: &Arc<Lists>, user: &User, ticket: Ticket, bytes: u64) -> Place {
        Place { lists: self.clone(), user: user.clone(), ticket, bytes }
    }

    /// Every change of it is one call of `FairQueue`, so a panic elsewhere leaves it as it was.
    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    /// Waits for the turn.
    ///
    /// # Errors
    /// 429 when it does not come in time.
    pub async fn turn(self) -> Result<Place, Limited> {
        let Waiting { place, granted } = self;
        match timeout(QUEUE_PATIENCE, granted).await {
            Ok(_) => Ok(place),
            Err(_) => {
                let shared = place.lists.lock();
                let scarce = shared.queue.scarce();
                let refused = refused(&shared.queue, &place.user, scarce);
                drop(shared);
                Err(refused)
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut shared = self.lists.lock();
        shared.sleeping.remove(&self.ticket);
        let next = match shared.queue.give_up(&self.user, self.ticket) {
            Some(next) => next,
            None => shared.queue.leave(&self.user, cost(self.bytes)),
        };
        for ticket in next {
            if let Some(wake) = shared.sleeping.remove(&ticket) {
                // Whoever sleeps no more gives the place back when it is dropped.
                let _ = wake.send(());
            }
        }
    }
}

fn cost(bytes: u64) -> Cost {
    Cost { places: 1, bytes }
}

fn refused(queue: &FairQueue, user: &User, scarce: Scarce) -> Limited {
    let (bounds, (in_flight, waiting)) = (queue.bounds(), queue.of(user));
    let (limit, used) = match scarce {
        Scarce::Places => (Limit::Lists, format!("--max-lists={} large lists", bounds.places)),
        Scarce::Bytes => (Limit::ListBytes, format!("--max-list-bytes={} of large lists", Bytes(bounds.bytes))),
    };
    let message = format!(
        "too many requests, please try again later: {used} are being answered, {in_flight} of them for user {user}, who has \
         {waiting} waiting. List less at a time (a selector, a namespace, limit), watch instead of listing again, or raise {}",
        limit.flag()
    );
    Limited { limit, message, retry_after: Some(RETRY_AFTER) }
}
