//! Counters of authentication and authorization, by method and result, never by user, name or address.
//!
//! `metrics` exports them.

use std::sync::atomic::{AtomicU64, Ordering};

use super::single_flight::CacheResult;

/// The method of an authentication attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum AuthenticationMethod {
    FrontProxy,
    Certificate,
    Token,
    None,
}

/// The result of an authentication attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptResult {
    /// The caller is authenticated; with [`AuthenticationMethod::None`], the caller is anonymous and may be.
    Success,
    /// The credentials are invalid.
    Failure,
    /// The API server did not review them.
    Error,
    /// Too many tokens of the address were invalid.
    Limited,
}

/// The result of an authorization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum DecisionResult {
    Allowed,
    Denied,
    Error,
}

/// The kind of a review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are Kubernetes' own")]
pub enum ReviewKind {
    Token,
    SubjectAccess,
}

/// The counters.
#[derive(Debug, Default)]
pub struct AccessCounters {
    authentications: [[AtomicU64; 4]; 4],
    authorizations: [AtomicU64; 3],
    reviews: [[AtomicU64; 2]; 2],
    cache: [[AtomicU64; 3]; 2],
    revoked: AtomicU64,
}

impl AuthenticationMethod {
    /// All of them, in the order of the counters.
    pub const ALL: [AuthenticationMethod; 4] = [
        AuthenticationMethod::FrontProxy,
        AuthenticationMethod::Certificate,
        AuthenticationMethod::Token,
        AuthenticationMethod::None,
    ];

    /// Its value of a metric label.
    pub fn as_str(self) -> &'static str {
        match self {
            AuthenticationMethod::FrontProxy => "front-proxy",
            AuthenticationMethod::Certificate => "certificate",
            AuthenticationMethod::Token => "token",
            AuthenticationMethod::None => "none",
        }
    }
}

impl AttemptResult {
    /// All of them, in the order of the counters.
    pub const ALL: [AttemptResult; 4] =
        [AttemptResult::Success, AttemptResult::Failure, AttemptResult::Error, AttemptResult::Limited];

    /// Its value of a metric label.
    pub fn as_str(self) -> &'static str {
        match self {
            AttemptResult::Success => "success",
            AttemptResult::Failure => "failure",
            AttemptResult::Error => "error",
            AttemptResult::Limited => "limited",
        }
    }
}

impl DecisionResult {
    /// All of them, in the order of the counters.
    pub const ALL: [DecisionResult; 3] = [DecisionResult::Allowed, DecisionResult::Denied, DecisionResult::Error];

    /// Its value of a metric label, as in kube-apiserver.
    pub fn as_str(self) -> &'static str {
        match self {
            DecisionResult::Allowed => "allowed",
            DecisionResult::Denied => "denied",
            DecisionResult::Error => "error",
        }
    }
}

impl ReviewKind {
    /// Both, in the order of the counters.
    pub const ALL: [ReviewKind; 2] = [ReviewKind::Token, ReviewKind::SubjectAccess];

    /// Its value of a metric label.
    pub fn as_str(self) -> &'static str {
        match self {
            ReviewKind::Token => "TokenReview",
            ReviewKind::SubjectAccess => "SubjectAccessReview",
        }
    }
}

impl CacheResult {
    /// All of them, in the order of the counters.
    pub const ALL: [CacheResult; 3] = [CacheResult::Hit, CacheResult::Shared, CacheResult::Miss];

    /// Its value of a metric label.
    pub fn as_str(self) -> &'static str {
        match self {
            CacheResult::Hit => "hit",
            CacheResult::Shared => "shared",
            CacheResult::Miss => "miss",
        }
    }
}

/// Increments a counter.
fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// The value of a counter.
fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

impl AccessCounters {
    /// Counts an attempt to authenticate by `method`, with its `result`.
    pub(super) fn authenticated(&self, method: AuthenticationMethod, result: AttemptResult) {
        add(&self.authentications[method as usize][result as usize]);
    }

    /// Counts an authorization decision.
    pub(super) fn decided(&self, decided: DecisionResult) {
        add(&self.authorizations[decided as usize]);
    }

    /// Counts a review that was sent.
    pub(super) fn reviewed(&self, review: ReviewKind, is_answered: bool) {
        add(&self.reviews[review as usize][usize::from(!is_answered)]);
    }

    /// Counts a lookup in the cache of reviews.
    pub(super) fn looked_up(&self, review: ReviewKind, had: CacheResult) {
        add(&self.cache[review as usize][had as usize]);
    }

    /// Counts a lease that ended because a permission was revoked.
    pub(super) fn revoked(&self) {
        add(&self.revoked);
    }

    /// Authentication attempts by method and result.
    pub fn authentications(&self, method: AuthenticationMethod, result: AttemptResult) -> u64 {
        read(&self.authentications[method as usize][result as usize])
    }

    /// Decisions about requests and about open watches.
    pub fn authorizations(&self, decided: DecisionResult) -> u64 {
        read(&self.authorizations[decided as usize])
    }

    /// Reviews that were sent to the API server, by whether they have a result.
    pub fn reviews(&self, review: ReviewKind, is_answered: bool) -> u64 {
        read(&self.reviews[review as usize][usize::from(!is_answered)])
    }

    /// Lookups of cached review results, by status.
    pub fn cache_requests(&self, review: ReviewKind, had: CacheResult) -> u64 {
        read(&self.cache[review as usize][had as usize])
    }

    /// Watches that ended because their user lost the permission.
    pub fn revocations(&self) -> u64 {
        read(&self.revoked)
    }
}
