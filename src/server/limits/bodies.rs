//! Request bodies in memory: how many at a time and how many bytes, shared between users.
//!
//! Only bodies that are read whole are counted; bodies that are forwarded stream. A place is held until the response is made, bytes are
//! counted as they arrive. Nothing waits here. A user may hold as much as is free for everyone else: alone half, as one of two a
//! third, and so on. So the sum never passes the maximum, and some of it is always left for the next user.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Limit, LimitSettings, Limited, User};
use crate::model::quantity::Bytes;

/// Bodies are read within seconds.
const RETRY_AFTER: u64 = 1;

/// Bodies in memory.
#[derive(Debug)]
pub struct Bodies {
    most: u64,
    most_bytes: u64,
    shared: Mutex<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    total: InMemory,
    /// Only users who have a body in memory.
    users: HashMap<User, InMemory>,
}

/// What is in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InMemory {
    /// Bodies.
    pub bodies: u64,
    /// Their bytes that have arrived.
    pub bytes: u64,
}

/// The place of one body; free again when dropped.
#[derive(Debug)]
pub struct BodyPlace {
    bodies: Arc<Bodies>,
    user: User,
    bytes: u64,
}

impl Bodies {
    /// Nothing in memory.
    pub fn new(settings: &LimitSettings) -> Bodies {
        Bodies { most: settings.bodies, most_bytes: settings.body_bytes.0, shared: Mutex::default() }
    }

    /// Takes a place for a body of which no byte has been read.
    ///
    /// # Errors
    /// 429.
    pub fn enter(self: &Arc<Bodies>, user: &User) -> Result<BodyPlace, Limited> {
        let mut shared = self.lock();
        let held = shared.of(user).bodies;
        if held >= self.most.saturating_sub(shared.total.bodies) {
            return Err(self.refused(Limit::Bodies, &shared, user));
        }
        shared.users.entry(user.clone()).or_default().bodies += 1;
        shared.total.bodies += 1;
        Ok(BodyPlace { bodies: self.clone(), user: user.clone(), bytes: 0 })
    }

    /// What is in memory now.
    pub fn in_memory(&self) -> InMemory {
        self.lock().total
    }

    fn refused(&self, limit: Limit, shared: &Shared, user: &User) -> Limited {
        let InMemory { bodies, bytes } = shared.total;
        let maximum = match limit {
            Limit::Bodies => self.most.to_string(),
            _ => Bytes(self.most_bytes).to_string(),
        };
        let message = format!(
            "too many requests, please try again later: {bodies} request bodies with {bytes} bytes are in memory, {} of them with \
             {} bytes for user {user}, who may have as much as is free of {}={maximum}. Send fewer at a time, or raise {}",
            shared.of(user).bodies,
            shared.of(user).bytes,
            limit.flag(),
            limit.flag()
        );
        Limited { limit, message, retry_after: Some(RETRY_AFTER) }
    }

    /// Every change of it is complete before the lock is released, so a panic elsewhere leaves it as it was.
    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    fn of(&self, user: &User) -> InMemory {
        self.users.get(user).copied().unwrap_or_default()
    }
}

impl BodyPlace {
    /// So many more bytes have arrived.
    ///
    /// # Errors
    /// 429. They must be dropped then.
    pub fn grow(&mut self, bytes: usize) -> Result<(), Limited> {
        let bytes = bytes as u64;
        let mut shared = self.bodies.lock();
        let free = self.bodies.most_bytes.saturating_sub(shared.total.bytes);
        if shared.of(&self.user).bytes.saturating_add(bytes) > free {
            return Err(self.bodies.refused(Limit::BodyBytes, &shared, &self.user));
        }
        shared.total.bytes += bytes;
        if let Some(held) = shared.users.get_mut(&self.user) {
            held.bytes += bytes;
        }
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for BodyPlace {
    fn drop(&mut self) {
        let mut shared = self.bodies.lock();
        shared.total.bodies -= 1;
        shared.total.bytes -= self.bytes;
        if let Some(held) = shared.users.get_mut(&self.user) {
            held.bodies -= 1;
            held.bytes -= self.bytes;
            if held.bodies == 0 {
                shared.users.remove(&self.user);
            }
        }
    }
}
