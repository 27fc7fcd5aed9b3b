//! Large lists take turns: a place while one is being sent, a queue before it.
//!
//! A list is large when it is estimated to be over [`LARGE`] as it is sent. A single object whose response is that
//! large, with its indentation, counts as one, and so does the initial event of a watch. A single object also counts as
//! one if that much is read to make its response, however short this is: the reading takes as long. All other requests
//! pass without touching anything shared. A place is held until the body has been sent or given up, so a slow reader
//! holds one for long. [`crate::model::fair_queue`] decides everything and says why that starves no other user;
//! [`crate::fair_semaphore`] makes tasks sleep and wakes them. A request that waits holds no snapshot. Places bound
//! memory; the time of the processors is shared by [`super::seats`].

use std::sync::Arc;

use tokio::time::timeout;

use super::limit::{Limit, LimitSettings, Limited, QUEUE_PATIENCE, RETRY_AFTER, WAITING_USERS};
use super::user::User;
use crate::fair_semaphore;
use crate::fair_semaphore::FairSemaphore;
use crate::model::fair_queue::{Bounds, Cost, Scarce};
use crate::model::quantity::Bytes;

/// Lists up to this size are not queued: they are written within some milliseconds.
pub const LARGE: u64 = 4 << 20;

/// The number of lists of one user that may wait for each permit, before further ones are rejected.
const WAITING_FOR_EACH_PLACE: usize = 4;

/// The places.
#[derive(Debug)]
pub struct Lists(Arc<FairSemaphore<User>>);

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

/// A place; free again when dropped.
pub type ListPermit = fair_semaphore::Permit<User>;

/// A place in the queue.
#[derive(Debug)]
pub struct QueuedList {
    lists: Arc<FairSemaphore<User>>,
    user: User,
    waiting: fair_semaphore::QueuedPermit<User>,
}

/// The result of acquiring a permit.
#[derive(Debug)]
pub enum ListAdmission {
    /// Go on.
    Granted(ListPermit),
    /// Release the snapshot, wait, and begin again.
    Queued(QueuedList),
}

impl Lists {
    /// The limits of large lists by `settings`; all permits are free.
    pub fn new(settings: &LimitSettings) -> Lists {
        let waiting = settings.lists.saturating_mul(WAITING_FOR_EACH_PLACE);
        Lists(Arc::new(FairSemaphore::new(Bounds {
            places: settings.lists as u64,
            first_places: u64::MAX,
            bytes: settings.list_bytes.0,
            waiting,
            waiting_together: waiting.saturating_mul(WAITING_USERS),
        })))
    }

    /// Acquires a permit for a list of this many bytes, or joins the queue.
    ///
    /// # Errors
    /// 429 when too many of this user wait already.
    pub fn acquire(&self, user: &User, bytes: u64) -> Result<ListAdmission, Limited> {
        match self.0.acquire(user, Cost { places: 1, bytes }) {
            Err(scarce) => Err(limit_error(&self.0, user, scarce)),
            Ok(fair_semaphore::Admission::Granted(place)) => Ok(ListAdmission::Granted(place)),
            Ok(fair_semaphore::Admission::Queued(waiting)) => {
                Ok(ListAdmission::Queued(QueuedList { lists: self.0.clone(), user: user.clone(), waiting }))
            }
        }
    }

    /// The lists in flight, for metrics.
    pub fn in_flight(&self) -> InFlight {
        let used = self.0.in_use();
        InFlight { lists: usize::try_from(used.places).unwrap_or(usize::MAX), bytes: used.bytes, waiting: used.waiting }
    }
}

impl QueuedList {
    /// Waits for a permit.
    ///
    /// # Errors
    /// 429 when it does not come in time.
    pub async fn turn(self) -> Result<ListPermit, Limited> {
        let QueuedList { lists, user, waiting } = self;
        let mut turn = std::pin::pin!(waiting.turn());
        // Until the message is made it counts among those that wait.
        timeout(QUEUE_PATIENCE, &mut turn).await.map_err(|_| limit_error(&lists, &user, lists.scarce()))
    }
}

/// The error of a list that cannot wait, or waited too long.
fn limit_error(lists: &FairSemaphore<User>, user: &User, scarce: Scarce) -> Limited {
    let (bounds, (in_flight, waiting)) = (lists.bounds(), lists.usage_of(user));
    let (limit, used) = match scarce {
        Scarce::Places => (Limit::Lists, format!("--max-lists={} large lists", bounds.places)),
        Scarce::Bytes => (Limit::ListBytes, format!("--max-list-bytes={} of large lists", Bytes(bounds.bytes))),
    };
    let message = format!(
        "too many requests, please try again later: {used} are in progress, {in_flight} of them for user {user}, who has {waiting} waiting. List less at a time (a selector, a namespace, limit), watch instead of listing again, or raise {}",
        limit.flag()
    );
    Limited { limit, message, retry_after: Some(RETRY_AFTER) }
}
