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
    /// The caller is authenticated; with [`AuthenticationMethod::None`], the caller is anonymous, and the request
    /// permits that.
    Success,
    /// The credentials are invalid.
    Failure,
    /// The API server did not review the credentials.
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
    /// By method and result.
    authentications: [[AtomicU64; 4]; 4],
    /// By result.
    authorizations: [AtomicU64; 3],
    /// By kind; the first has a result, the second does not.
    reviews: [[AtomicU64; 2]; 2],
    /// By kind and result of the lookup.
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

    /// The value of the metric label for this result.
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

    /// The value of the metric label for it.
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

    /// The value of the metric label for it, as in kube-apiserver.
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

    /// The value of the metric label for it.
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

    /// The value of the metric label for it.
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
    pub(super) fn count_attempt(&self, method: AuthenticationMethod, result: AttemptResult) {
        add(&self.authentications[method as usize][result as usize]);
    }

    /// Counts an authorization decision.
    pub(super) fn count_decision(&self, decided: DecisionResult) {
        add(&self.authorizations[decided as usize]);
    }

    /// Counts a review that was sent. `has_result`: the API server returned a result.
    pub(super) fn count_review(&self, review: ReviewKind, has_result: bool) {
        add(&self.reviews[review as usize][usize::from(!has_result)]);
    }

    /// Counts a lookup in the cache of reviews.
    pub(super) fn count_lookup(&self, review: ReviewKind, result: CacheResult) {
        add(&self.cache[review as usize][result as usize]);
    }

    /// Counts a watch that ends because its credential or a permission is no longer valid.
    pub(super) fn count_revocation(&self) {
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

    /// The reviews of this kind that were sent to the API server: those with a result, or those without.
    pub fn reviews(&self, review: ReviewKind, has_result: bool) -> u64 {
        read(&self.reviews[review as usize][usize::from(!has_result)])
    }

    /// The lookups of cached reviews of this kind, with this result.
    pub fn cache_requests(&self, review: ReviewKind, result: CacheResult) -> u64 {
        read(&self.cache[review as usize][result as usize])
    }

    /// Watches that ended because their credential or a permission was no longer valid.
    pub fn revocations(&self) -> u64 {
        read(&self.revoked)
    }
}
