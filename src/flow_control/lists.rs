//! Limits large lists in progress. Each holds a permit while it is sent; others wait in a queue.
//!
//! A list is large if its estimated response is over [`LARGE`]. Other requests need no permit, except these:
//!
//! - a single object whose response, with its indentation, is over [`LARGE`]
//! - a single object of which more than [`LARGE`] is read for a shorter response, because reading takes as long
//! - an initial event of a watch, if its object is over [`LARGE`]
//!
//! A permit is held until the body has been sent or dropped, so a slow client holds the permit for a long time.
//! [`crate::model::fair_queue`] decides who is next, and describes why this starves no user. A request that waits
//! holds no snapshot. Permits bound memory; [`super::seats`] shares the time of the processors.

use std::sync::Arc;

use tokio::time::timeout;

use super::limit::{Limit, LimitSettings, Limited, QUEUE_PATIENCE, RETRY_AFTER, WAITING_USERS};
use super::user::User;
use crate::fair_semaphore;
use crate::fair_semaphore::FairSemaphore;
use crate::model::fair_queue::{Bounds, Cost, Scarce};
use crate::model::quantity::Bytes;

/// Responses up to this size, in bytes, need no permit, because they are written within some milliseconds.
pub const LARGE: u64 = 4 << 20;

/// For each permit, this many lists of one user may wait before further ones are rejected.
const WAITING_FOR_EACH_PLACE: usize = 4;

/// The permits for large lists.
#[derive(Debug)]
pub struct Lists(Arc<FairSemaphore<User>>);

/// The usage of the limit, for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlight {
    /// The number of large lists that have a permit.
    pub lists: usize,
    /// The estimated bytes of these lists.
    pub bytes: u64,
    /// The number of large lists that wait for a permit.
    pub waiting: usize,
}

/// The permit of a large list. It becomes free when the value is dropped.
pub type ListPermit = fair_semaphore::Permit<User>;

/// A large list that waits for its permit.
#[derive(Debug)]
pub struct QueuedList {
    /// The permits of all lists.
    lists: Arc<FairSemaphore<User>>,
    user: User,
    /// The place in the queue.
    waiting: fair_semaphore::QueuedPermit<User>,
}

/// The result of acquiring a permit.
#[derive(Debug)]
pub enum ListAdmission {
    /// The list has its permit.
    Granted(ListPermit),
    /// The list must wait. The caller releases its snapshot first, and begins again with a new one.
    Queued(QueuedList),
}

impl Lists {
    /// The limits of large lists by `settings`; all permits are free.
    pub fn new(settings: &LimitSettings) -> Lists {
        let waiting = settings.lists.saturating_mul(WAITING_FOR_EACH_PLACE);
        Lists(Arc::new(FairSemaphore::new(Bounds {
            places: settings.lists as u64,
            // The first large list of each user is not bounded, so that it does not wait for the lists of others.
            first_places: u64::MAX,
            bytes: settings.list_bytes.0,
            waiting,
            waiting_together: waiting.saturating_mul(WAITING_USERS),
        })))
    }

    /// Acquires a permit for a list, or joins the queue. `bytes` is the estimated length of the response.
    ///
    /// # Errors
    /// 429 if too many lists of this user wait already.
    pub fn acquire(&self, user: &User, bytes: u64) -> Result<ListAdmission, Limited> {
        match self.0.acquire(user, Cost { places: 1, bytes }) {
            Err(scarce) => Err(limit_error(&self.0, user, scarce)),
            Ok(fair_semaphore::Admission::Granted(permit)) => Ok(ListAdmission::Granted(permit)),
            Ok(fair_semaphore::Admission::Queued(waiting)) => {
                Ok(ListAdmission::Queued(QueuedList { lists: self.0.clone(), user: user.clone(), waiting }))
            }
        }
    }

    /// The usage of the limit, for metrics.
    pub fn in_flight(&self) -> InFlight {
        let used = self.0.in_use();
        InFlight { lists: usize::try_from(used.places).unwrap_or(usize::MAX), bytes: used.bytes, waiting: used.waiting }
    }
}

impl QueuedList {
    /// Waits for the permit, at most [`QUEUE_PATIENCE`].
    ///
    /// # Errors
    /// 429 if it is not granted in time.
    pub async fn wait(self) -> Result<ListPermit, Limited> {
        let QueuedList { lists, user, waiting } = self;
        let mut permit = std::pin::pin!(waiting.wait());
        // The list stays in the queue until the message is created, so that the message counts it.
        timeout(QUEUE_PATIENCE, &mut permit).await.map_err(|_| limit_error(&lists, &user, lists.scarce()))
    }
}

/// The error of a list that cannot wait, or waited too long. `scarce` states which limit is reached.
fn limit_error(lists: &FairSemaphore<User>, user: &User, scarce: Scarce) -> Limited {
    let (bounds, (in_flight, waiting)) = (lists.bounds(), lists.usage_of(user));
    let (limit, used) = match scarce {
        Scarce::Places => {
            let places = bounds.places;
            (
                Limit::Lists,
                format!("--max-lists={places} large lists are in progress, {in_flight} of them for user {user}"),
            )
        }
        Scarce::Bytes => {
            let bytes = Bytes(bounds.bytes);
            let used = format!(
                "the large lists in progress, {in_flight} of them for user {user}, take --max-list-bytes={bytes}"
            );
            (Limit::ListBytes, used)
        }
    };
    let message = format!(
        "too many requests, please try again later: {used}; {waiting} more of this user wait. List less at a time (use a selector, a namespace or limit), watch instead of listing again, or raise {}",
        limit.flag()
    );
    Limited { limit, message, retry_after: Some(RETRY_AFTER) }
}
