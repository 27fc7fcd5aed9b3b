//! What has been decided, counted: by method and result only, never by user, name or address.
//!
//! `metrics` shows the figures.

use std::sync::atomic::{AtomicU64, Ordering};

use super::single_flight::CacheResult;

/// How somebody was authenticated, or tried to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum AuthenticationMethod {
    FrontProxy,
    Certificate,
    Token,
    None,
}

/// How that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptResult {
    /// It is known who asks; under [`AuthenticationMethod::None`], nobody in particular, where that is enough.
    Success,
    /// It is not.
    Failure,
    /// It could not be found out.
    Error,
    /// Its address has failed too often.
    Limited,
}

/// What was decided about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum DecisionResult {
    Allowed,
    Denied,
    Error,
}

/// What an API server is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are Kubernetes' own")]
pub enum ReviewKind {
    Token,
    SubjectAccess,
}

/// Everything that is counted.
#[derive(Debug, Default)]
pub struct AccessCounters {
    authentications: [[AtomicU64; 4]; 4],
    authorizations: [AtomicU64; 3],
    reviews: [[AtomicU64; 2]; 2],
    cache: [[AtomicU64; 3]; 2],
    revoked: AtomicU64,
}

impl AuthenticationMethod {
    /// All of them, in the order in which they are counted.
    pub const ALL: [AuthenticationMethod; 4] = [AuthenticationMethod::FrontProxy, AuthenticationMethod::Certificate, AuthenticationMethod::Token, AuthenticationMethod::None];

    /// As a label.
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
    /// All of them, in the order in which they are counted.
    pub const ALL: [AttemptResult; 4] =
        [AttemptResult::Success, AttemptResult::Failure, AttemptResult::Error, AttemptResult::Limited];

    /// As a label.
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
    /// All of them, in the order in which they are counted.
    pub const ALL: [DecisionResult; 3] = [DecisionResult::Allowed, DecisionResult::Denied, DecisionResult::Error];

    /// As a label; kube-apiserver's words for the same.
    pub fn as_str(self) -> &'static str {
        match self {
            DecisionResult::Allowed => "allowed",
            DecisionResult::Denied => "denied",
            DecisionResult::Error => "error",
        }
    }
}

impl ReviewKind {
    /// Both, in the order in which they are counted.
    pub const ALL: [ReviewKind; 2] = [ReviewKind::Token, ReviewKind::SubjectAccess];

    /// As a label.
    pub fn as_str(self) -> &'static str {
        match self {
            ReviewKind::Token => "TokenReview",
            ReviewKind::SubjectAccess => "SubjectAccessReview",
        }
    }
}

impl CacheResult {
    /// All of them, in the order in which they are counted.
    pub const ALL: [CacheResult; 3] = [CacheResult::Hit, CacheResult::Shared, CacheResult::Miss];

    /// As a label.
    pub fn as_str(self) -> &'static str {
        match self {
            CacheResult::Hit => "hit",
            CacheResult::Shared => "shared",
            CacheResult::Miss => "miss",
        }
    }
}

fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

impl AccessCounters {
    pub(super) fn authenticated(&self, method: AuthenticationMethod, result: AttemptResult) {
        add(&self.authentications[method as usize][result as usize]);
    }

    pub(super) fn decided(&self, decided: DecisionResult) {
        add(&self.authorizations[decided as usize]);
    }

    pub(super) fn reviewed(&self, review: ReviewKind, is_answered: bool) {
        add(&self.reviews[review as usize][usize::from(!is_answered)]);
    }

    pub(super) fn looked_up(&self, review: ReviewKind, had: CacheResult) {
        add(&self.cache[review as usize][had as usize]);
    }

    pub(super) fn revoked(&self) {
        add(&self.revoked);
    }

    /// Requests by how their user was found, and how that ended.
    pub fn authentications(&self, method: AuthenticationMethod, result: AttemptResult) -> u64 {
        read(&self.authentications[method as usize][result as usize])
    }

    /// Requests, and renewed permissions of watches, by what was decided.
    pub fn authorizations(&self, decided: DecisionResult) -> u64 {
        read(&self.authorizations[decided as usize])
    }

    /// Reviews asked of the API server, by whether it answered.
    pub fn reviews(&self, review: ReviewKind, is_answered: bool) -> u64 {
        read(&self.reviews[review as usize][usize::from(!is_answered)])
    }

    /// How often an answer was there, was being asked for, or had to be asked for.
    pub fn cache_requests(&self, review: ReviewKind, had: CacheResult) -> u64 {
        read(&self.cache[review as usize][had as usize])
    }

    /// Watches that were ended because what they show may not be seen any more.
    pub fn revocations(&self) -> u64 {
        read(&self.revoked)
    }
}
