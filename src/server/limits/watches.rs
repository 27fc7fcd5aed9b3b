//! Open watches of each user, and the most that one may have.
//!
//! A watch is counted from its answer to its end. Locked for a moment at both; in between nothing is looked at.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Limit, Limited, User};

/// Counts them.
#[derive(Debug)]
pub struct Watches {
    most: u64,
    /// Only users who have one.
    users: Mutex<HashMap<User, u64>>,
}

/// An open watch, counted; no longer when dropped.
#[derive(Debug)]
pub struct CountedWatch {
    watches: Arc<Watches>,
    user: User,
}

impl Watches {
    /// None is open.
    pub fn new(most: u64) -> Watches {
        Watches { most, users: Mutex::default() }
    }

    /// Counts another one.
    ///
    /// # Errors
    /// 429 when the user has the most already. Without a time to come again at: that lets whoever asked see the message at once
    /// instead of trying for a while, as client-go does for those with one, and its informers back off by themselves.
    pub fn open(self: &Arc<Watches>, user: &User) -> Result<CountedWatch, Limited> {
        let mut users = self.lock();
        let open = users.get(user).copied().unwrap_or_default();
        if open >= self.most {
            let message = format!(
                "too many watches: user {user} has {open} open, which is the most for one user. Close some, have one informer \
                 serve several readers, or raise --max-watches-per-user={}",
                self.most
            );
            return Err(Limited { limit: Limit::WatchesPerUser, message, retry_after: None });
        }
        users.insert(user.clone(), open + 1);
        Ok(CountedWatch { watches: self.clone(), user: user.clone() })
    }

    /// The most that one user may have.
    pub fn most(&self) -> u64 {
        self.most
    }

    /// The most that one user has.
    pub fn of_busiest(&self) -> u64 {
        self.lock().values().copied().max().unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<User, u64>> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CountedWatch {
    /// Whose it is.
    pub fn user(&self) -> &User {
        &self.user
    }
}

impl Drop for CountedWatch {
    fn drop(&mut self) {
        let mut users = self.watches.lock();
        if let Some(open) = users.get_mut(&self.user) {
            *open -= 1;
            if *open == 0 {
                users.remove(&self.user);
            }
        }
    }
}
