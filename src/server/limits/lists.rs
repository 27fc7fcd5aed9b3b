//! Large lists take turns: a place while one is being sent, a queue before it.
//!
//! A list is large when it is estimated to be over [`LARGE`] as it is sent. A single object whose response is that large, with its
//! indentation, counts as one, and so does the initial event of a watch. All other requests and events come past here without touching anything that is shared. A place is held until the body has been sent or given up, so a slow reader holds one
//! for long; why that starves nobody is in [`super::turns`], which decides everything. Here is only who sleeps and who
//! wakes. Whoever waits holds no snapshot.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use super::turns::{Bounds, Entered, Scarce, Ticket, Turns};
use super::{Limit, LimitSettings, Limited, User};
use crate::model::quantity::Bytes;

/// Lists up to this size are not queued: they are written within some milliseconds.
pub const LARGE: u64 = 4 << 20;

/// So many lists of one user wait for each place there is, before further ones are refused.
const WAITING_FOR_EACH_PLACE: usize = 4;

/// How long a list waits for its turn: the same part of a request's time as in kube-apiserver (a quarter of a minute).
const PATIENCE: Duration = Duration::from_secs(15);

/// Who is told to come again is told to in one second, as by kube-apiserver's priority and fairness.
const RETRY_AFTER: u64 = 1;

/// The places.
#[derive(Debug)]
pub struct Lists {
    shared: Mutex<Shared>,
}

#[derive(Debug)]
struct Shared {
    turns: Turns,
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
        let bounds = Bounds {
            lists: settings.lists,
            bytes: settings.list_bytes.0,
            waiting: settings.lists.saturating_mul(WAITING_FOR_EACH_PLACE),
        };
        Lists { shared: Mutex::new(Shared { turns: Turns::new(bounds), next_ticket: 0, sleeping: HashMap::new() }) }
    }

    /// Asks for a place for a list of so many bytes.
    ///
    /// # Errors
    /// 429 when too many of this user wait already.
    pub fn enter(self: &Arc<Lists>, user: &User, bytes: u64) -> Result<Turn, Limited> {
        let mut shared = self.lock();
        let ticket = shared.next_ticket;
        shared.next_ticket += 1;
        match shared.turns.enter(user, ticket, bytes) {
            Entered::Refused(scarce) => Err(refused(&shared.turns, user, scarce)),
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
        InFlight { lists: shared.turns.lists(), bytes: shared.turns.bytes(), waiting: shared.turns.waiting() }
    }

    fn place(self: &Arc<Lists>, user: &User, ticket: Ticket, bytes: u64) -> Place {
        Place { lists: self.clone(), user: user.clone(), ticket, bytes }
    }

    /// Every change of it is one call of `Turns`, so a panic elsewhere leaves it as it was.
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
        match timeout(PATIENCE, granted).await {
            Ok(_) => Ok(place),
            Err(_) => {
                let shared = place.lists.lock();
                let scarce = shared.turns.scarce();
                let refused = refused(&shared.turns, &place.user, scarce);
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
        let next = match shared.turns.give_up(&self.user, self.ticket) {
            Some(next) => next,
            None => shared.turns.leave(&self.user, self.bytes),
        };
        for ticket in next {
            if let Some(wake) = shared.sleeping.remove(&ticket) {
                // Whoever sleeps no more gives the place back when it is dropped.
                let _ = wake.send(());
            }
        }
    }
}

fn refused(turns: &Turns, user: &User, scarce: Scarce) -> Limited {
    let (bounds, (in_flight, waiting)) = (turns.bounds(), turns.of(user));
    let (limit, used) = match scarce {
        Scarce::Lists => (Limit::Lists, format!("--max-lists={} large lists", bounds.lists)),
        Scarce::Bytes => (Limit::ListBytes, format!("--max-list-bytes={} of large lists", Bytes(bounds.bytes))),
    };
    let message = format!(
        "too many requests, please try again later: {used} are being answered, {in_flight} of them for user {user}, who has \
         {waiting} waiting. List less at a time (a selector, a namespace, limit), watch instead of listing again, or raise {}",
        limit.flag()
    );
    Limited { limit, message, retry_after: Some(RETRY_AFTER) }
}
