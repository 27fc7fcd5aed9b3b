//! Limits the number and the bytes of bodies in memory, shared between users.
//!
//! Only bodies that are read as a whole are counted: those of reviews, of deletions of collections that fieldcache
//! selects, and of responses to forwarded writes. Other forwarded bodies are streamed. The body of a review counts until
//! its response is created; bytes are counted as they arrive. [`crate::model::shares`] describes how much a user may
//! hold.

use std::sync::Arc;

use super::limit::{Limit, LimitSettings, Limited, RETRY_AFTER};
use super::user::{User, UserShare};
use crate::model::quantity::Bytes;
use crate::model::shares::Shares;

/// The limits of request bodies, and their usage.
#[derive(Debug)]
pub struct Bodies {
    /// The number of bodies of each user.
    bodies: Arc<Shares<User>>,
    /// The bytes of the bodies of each user.
    bytes: Arc<Shares<User>>,
}

/// The request bodies in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InMemory {
    /// The number of bodies.
    pub bodies: u64,
    /// The bytes of these bodies that have arrived.
    pub bytes: u64,
}

/// The bytes that a user's bodies may have even if the bodies of all others hold the maximum: far more than a Pod has.
const FIRST_BYTES: u64 = 256 << 10;

/// Counts one body and its bytes for its user until this value is dropped.
#[derive(Debug)]
pub struct BodyPlace {
    bodies: Arc<Bodies>,
    user: User,
    /// The share for the bytes that have arrived.
    bytes: UserShare,
    /// The share for the body itself.
    _body: UserShare,
}

impl Bodies {
    /// The limits of request bodies by `settings`; no body is in memory yet.
    pub fn new(settings: &LimitSettings) -> Bodies {
        let (bodies, bytes) = (Shares::new(settings.bodies, 1), Shares::new(settings.body_bytes.0, FIRST_BYTES));
        Bodies { bodies: Arc::new(bodies), bytes: Arc::new(bytes) }
    }

    /// Counts a new body of a user, before its first byte is read.
    ///
    /// # Errors
    /// 429 if the user has the maximum number of bodies in memory.
    pub fn enter(self: &Arc<Bodies>, user: &User) -> Result<BodyPlace, Limited> {
        let shares = self.bodies.take(user, 1).zip(self.bytes.take(user, 0));
        let (body, bytes) = shares.ok_or_else(|| self.limit_error(Limit::Bodies, user))?;
        Ok(BodyPlace { bodies: self.clone(), user: user.clone(), bytes, _body: body })
    }

    /// The number of bodies in memory, and their bytes.
    pub fn in_memory(&self) -> InMemory {
        InMemory { bodies: self.bodies.total(), bytes: self.bytes.total() }
    }

    /// The error of a body that exceeds `limit`, which is [`Limit::Bodies`] or [`Limit::BodyBytes`].
    fn limit_error(&self, limit: Limit, user: &User) -> Limited {
        let InMemory { bodies, bytes } = self.in_memory();
        let maximum =
            if limit == Limit::Bodies { self.bodies.most().to_string() } else { Bytes(self.bytes.most()).to_string() };
        let message = format!(
            "too many requests, please try again later: {bodies} bodies of reviews and of responses to writes are in memory, with {bytes} bytes. Of these, {} bodies with {} bytes are of user {user}. One user may have at most half of what other users leave free of {}={maximum}. Send fewer reviews and writes at a time, or raise {}",
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
    /// 429 if the bodies of the user have the maximum of bytes. The caller must then drop these bytes.
    pub fn grow(&mut self, bytes: usize) -> Result<(), Limited> {
        if self.bytes.grow(bytes as u64) { Ok(()) } else { Err(self.bodies.limit_error(Limit::BodyBytes, &self.user)) }
    }
}
