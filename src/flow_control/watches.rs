//! Open watches of each user, and the most that one may have.
//!
//! A watch counts as one, and as one more for each [`WATCH_BYTES`] of its request that it holds. These are selectors,
//! the review of its permission, and its path for the audit log. The handles of its initial events count until they are
//! sent. A selector may be as long as a URL. So the number is a bound of memory too. All users together have four times
//! as many as one, shared as [`Shares`] describes. A watch is counted from its response to its end, without further
//! work in between.

use std::sync::Arc;

use super::limit::{Limit, Limited};
use super::user::{User, UserShare};
use crate::model::shares::Shares;

/// About the memory of a watch without a selector, in bytes.
pub const WATCH_BYTES: usize = 6 << 10;

/// All users together may have this many times as many watches as one.
const USERS: u64 = 4;

/// The number of watches that a user may have whatever others have: more than most controllers.
const FIRST: u64 = 100;

/// Counts them.
#[derive(Debug)]
pub struct Watches {
    most: u64,
    held: Arc<Shares<User>>,
}

/// An open watch, counted; no longer when dropped.
#[derive(Debug)]
pub struct CountedWatch {
    user: User,
    _share: UserShare,
}

impl Watches {
    /// The limit of `most` open watches; none is open yet.
    pub fn new(most: u64) -> Watches {
        Watches { most, held: Arc::new(Shares::new(most.saturating_mul(USERS), FIRST)) }
    }

    /// Counts a watch, whose request takes this many bytes.
    ///
    /// # Errors
    /// 429 when the user has the maximum already. It has no Retry-After, so that the user sees the message at once.
    /// client-go would repeat the request for a while, and its informers back off by themselves.
    pub fn open(&self, user: &User, held_bytes: usize) -> Result<CountedWatch, Limited> {
        let share = self.take(user, 1, held_bytes, "its selectors take")?;
        Ok(CountedWatch { user: user.clone(), _share: share })
    }

    /// Counts further memory of a watch for some time. `what` names it in the error, such as "its selectors take".
    ///
    /// # Errors
    /// The same.
    pub fn hold(&self, user: &User, held_bytes: usize, what: &str) -> Result<UserShare, Limited> {
        self.take(user, 0, held_bytes, what)
    }

    /// Takes the share of a user's watches. A large selector counts as several watches.
    fn take(&self, user: &User, watches: u64, held_bytes: usize, what: &str) -> Result<UserShare, Limited> {
        let more = (held_bytes / WATCH_BYTES) as u64;
        let weight = watches + more;
        let open = self.held.amount_of(user);
        let share = if open + weight <= self.most { self.held.take(user, weight) } else { None };
        share.ok_or_else(|| {
            let counts = if more > 0 {
                format!(" This one counts as {}: {what} {held_bytes} bytes of memory.", 1 + more)
            } else {
                String::new()
            };
            let reached = if open + weight <= self.most {
                format!("all users together have {} open, and user {user} has {open} of them", self.held.total())
            } else {
                format!("user {user} has {open} open, the maximum for one user")
            };
            let message = format!(
                "too many watches: {reached}.{counts} Close some, share one informer in each program, or raise \
                 --max-watches-per-user={}",
                self.most
            );
            Limited { limit: Limit::WatchesPerUser, message, retry_after: None }
        })
    }

    /// The maximum number of open watches of one user.
    pub fn most(&self) -> u64 {
        self.most
    }

    /// The number of watches of the user with the most.
    pub fn of_busiest(&self) -> u64 {
        self.held.largest_amount()
    }
}

impl CountedWatch {
    /// The user that the watch counts for.
    pub fn user(&self) -> &User {
        &self.user
    }
}
