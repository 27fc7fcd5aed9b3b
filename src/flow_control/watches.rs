//! Limits the open watches of each user.
//!
//! A watch counts as one, and as one more for each [`WATCH_BYTES`] of memory that it holds. It holds its selectors, the
//! review of its permission, and its path for the audit log. It also holds references to its initial events until they
//! are sent. A selector may be as long as a URL, so the limit also bounds memory. All users together may have [`USERS`]
//! times as many watches as one user, shared as [`Shares`] describes. A watch counts from its response to its end.

use std::sync::Arc;

use super::limit::{Limit, Limited};
use super::user::{User, UserShare};
use crate::model::shares::Shares;

/// The approximate memory of a watch without selectors, in bytes.
pub const WATCH_BYTES: usize = 6 << 10;

/// All users together may have this many times the watches of one user.
const USERS: u64 = 4;

/// The number of watches that a user may have even if all others have the maximum: more than most controllers need.
const FIRST: u64 = 100;

/// The open watches of all users.
#[derive(Debug)]
pub struct Watches {
    /// The maximum number of watches of one user.
    most: u64,
    /// The watches of each user; a watch with much memory counts as several.
    held: Arc<Shares<User>>,
}

/// Counts an open watch for its user until this value is dropped.
#[derive(Debug)]
pub struct CountedWatch {
    user: User,
    _share: UserShare,
}

impl Watches {
    /// A limit of `most` open watches for each user; none is open yet.
    pub fn new(most: u64) -> Watches {
        Watches { most, held: Arc::new(Shares::new(most.saturating_mul(USERS), FIRST)) }
    }

    /// Counts a new watch. `held_bytes` is the memory that the watch holds, in bytes.
    ///
    /// # Errors
    /// 429 if the user has the maximum already. The error has no Retry-After, with which client-go would repeat the
    /// request for a while before its user sees the message. Informers back off in any case.
    pub fn open(&self, user: &User, held_bytes: usize) -> Result<CountedWatch, Limited> {
        let share = self.take(user, 1, held_bytes, "its selectors take")?;
        Ok(CountedWatch { user: user.clone(), _share: share })
    }

    /// Counts further memory of a watch, until the share is dropped. `what` states what takes the memory, with a verb,
    /// for the error message, such as "its selectors take".
    ///
    /// # Errors
    /// 429 as for [`Watches::open`].
    pub fn hold(&self, user: &User, held_bytes: usize, what: &str) -> Result<UserShare, Limited> {
        self.take(user, 0, held_bytes, what)
    }

    /// Counts `watches` and `held_bytes` for a user. `what` is as in [`Watches::hold`].
    ///
    /// # Errors
    /// 429 as for [`Watches::open`].
    fn take(&self, user: &User, watches: u64, held_bytes: usize, what: &str) -> Result<UserShare, Limited> {
        let more = (held_bytes / WATCH_BYTES) as u64;
        let weight = watches + more;
        let open = self.held.amount_of(user);
        let share = if open + weight <= self.most { self.held.take(user, weight) } else { None };
        share.ok_or_else(|| {
            let counts = if more > 0 {
                format!(" This watch counts as {} watches, because {what} {held_bytes} bytes of memory.", 1 + more)
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

    /// The largest number of watches that one user has.
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
