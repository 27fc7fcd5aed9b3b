//! Request bodies in memory: how many at a time and how many bytes, shared between users.
//!
//! Only bodies that are read whole are counted; bodies that are forwarded stream. A place is held until the response is made, bytes are
//! counted as they arrive. How much a user may hold is in [`crate::model::shares`].

use std::sync::Arc;

use super::limit::{Limit, LimitSettings, Limited, RETRY_AFTER};
use super::user::{User, UserShare};
use crate::model::quantity::Bytes;
use crate::model::shares::Shares;

/// Bodies in memory.
#[derive(Debug)]
pub struct Bodies {
    bodies: Arc<Shares<User>>,
    bytes: Arc<Shares<User>>,
}

/// Bodies in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InMemory {
    /// Bodies.
    pub bodies: u64,
    /// Their bytes that have arrived.
    pub bytes: u64,
}

/// The bytes that a user's first body may have whatever others send: far more than a Pod.
const FIRST_BYTES: u64 = 256 << 10;

/// The place of one body; free again when dropped.
#[derive(Debug)]
pub struct BodyPlace {
    bodies: Arc<Bodies>,
    user: User,
    bytes: UserShare,
    _body: UserShare,
}

impl Bodies {
    /// The limits of request bodies by `settings`; no body is in memory yet.
    pub fn new(settings: &LimitSettings) -> Bodies {
        let (bodies, bytes) = (Shares::new(settings.bodies, 1), Shares::new(settings.body_bytes.0, FIRST_BYTES));
        Bodies { bodies: Arc::new(bodies), bytes: Arc::new(bytes) }
    }

    /// Takes a place for a body before its first byte is read.
    ///
    /// # Errors
    /// 429.
    pub fn enter(self: &Arc<Bodies>, user: &User) -> Result<BodyPlace, Limited> {
        let places = self.bodies.take(user, 1).zip(self.bytes.take(user, 0));
        let (body, bytes) = places.ok_or_else(|| self.refused(Limit::Bodies, user))?;
        Ok(BodyPlace { bodies: self.clone(), user: user.clone(), bytes, _body: body })
    }

    /// The number of bodies in memory, and their bytes.
    pub fn in_memory(&self) -> InMemory {
        InMemory { bodies: self.bodies.total(), bytes: self.bytes.total() }
    }

    /// The error of a body that does not fit into the limit.
    fn refused(&self, limit: Limit, user: &User) -> Limited {
        let InMemory { bodies, bytes } = self.in_memory();
        let maximum =
            if limit == Limit::Bodies { self.bodies.most().to_string() } else { Bytes(self.bytes.most()).to_string() };
        let message = format!(
            "too many requests, please try again later: {bodies} request bodies with {bytes} bytes are in memory, {} of them with {} bytes for user {user}. A user may have as much as is free of {}={maximum}. Send fewer at a time, or raise {}",
            self.bodies.amount_of(user),
            self.bytes.amount_of(user),
            limit.flag(),
            limit.flag()
        );
        Limited { limit, message, retry_after: Some(RETRY_AFTER) }
    }
}

impl BodyPlace {
    /// Counts bytes that have arrived.
    ///
    /// # Errors
    /// 429. They must be dropped then.
    pub fn grow(&mut self, bytes: usize) -> Result<(), Limited> {
        if self.bytes.grow(bytes as u64) { Ok(()) } else { Err(self.bodies.refused(Limit::BodyBytes, &self.user)) }
    }
}
