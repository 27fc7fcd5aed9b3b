//! What has been decided, counted: by method and result only, never by user, name or address.
//!
//! `metrics` shows the figures.

use std::sync::atomic::{AtomicU64, Ordering};

use super::single_flight::CacheResult;

/// How somebody was authenticated, or tried to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Method {
    FrontProxy,
    Certificate,
    Token,
    None,
}

/// How that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authenticated {
    /// It is known who asks; under [`Method::None`], nobody in particular, where that is enough.
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
pub enum Decided {
    Allowed,
    Denied,
    Error,
}

/// What an API server is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are Kubernetes' own")]
pub enum Review {
    Token,
    SubjectAccess,
}

/// Everything that is counted.
#[derive(Debug, Default)]
pub struct Counts {
    authentications: [[AtomicU64; 4]; 4],
    authorizations: [AtomicU64; 3],
    reviews: [[AtomicU64; 2]; 2],
    cache: [[AtomicU64; 3]; 2],
    revoked: AtomicU64,
}

impl Method {
    /// All of them, in the order in which they are counted.
    pub const ALL: [Method; 4] = [Method::FrontProxy, Method::Certificate, Method::Token, Method::None];

    /// As a label.
    pub fn as_str(self) -> &'static str {
        match self {
            Method::FrontProxy => "front-proxy",
            Method::Certificate => "certificate",
            Method::Token => "token",
            Method::None => "none",
        }
    }
}

impl Authenticated {
    /// All of them, in the order in which they are counted.
    pub const ALL: [Authenticated; 4] =
        [Authenticated::Success, Authenticated::Failure, Authenticated::Error, Authenticated::Limited];

    /// As a label.
    pub fn as_str(self) -> &'static str {
        match self {
            Authenticated::Success => "success",
            Authenticated::Failure => "failure",
            Authenticated::Error => "error",
            Authenticated::Limited => "limited",
        }
    }
}

impl Decided {
    /// All of them, in the order in which they are counted.
    pub const ALL: [Decided; 3] = [Decided::Allowed, Decided::Denied, Decided::Error];

    /// As a label; kube-apiserver's words for the same.
    pub fn as_str(self) -> &'static str {
        match self {
            Decided::Allowed => "allowed",
            Decided::Denied => "denied",
            Decided::Error => "error",
        }
    }
}

impl Review {
    /// Both, in the order in which they are counted.
    pub const ALL: [Review; 2] = [Review::Token, Review::SubjectAccess];

    /// As a label.
    pub fn as_str(self) -> &'static str {
        match self {
            Review::Token => "TokenReview",
            Review::SubjectAccess => "SubjectAccessReview",
        }
    }
}

impl CacheResult {
    /// All of them, in the order in which they are counted.
    pub const ALL: [CacheResult; 3] = [CacheResult::Kept, CacheResult::Shared, CacheResult::Asked];

    /// As a label.
    pub fn as_str(self) -> &'static str {
        match self {
            CacheResult::Kept => "hit",
            CacheResult::Shared => "shared",
            CacheResult::Asked => "miss",
        }
    }
}

fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

impl Counts {
    pub(super) fn authenticated(&self, method: Method, result: Authenticated) {
        add(&self.authentications[method as usize][result as usize]);
    }

    pub(super) fn decided(&self, decided: Decided) {
        add(&self.authorizations[decided as usize]);
    }

    pub(super) fn reviewed(&self, review: Review, is_answered: bool) {
        add(&self.reviews[review as usize][usize::from(!is_answered)]);
    }

    pub(super) fn looked_up(&self, review: Review, had: CacheResult) {
        add(&self.cache[review as usize][had as usize]);
    }

    pub(super) fn revoked(&self) {
        add(&self.revoked);
    }

    /// Requests by how their user was found, and how that ended.
    pub fn authentications(&self, method: Method, result: Authenticated) -> u64 {
        read(&self.authentications[method as usize][result as usize])
    }

    /// Requests, and renewed permissions of watches, by what was decided.
    pub fn authorizations(&self, decided: Decided) -> u64 {
        read(&self.authorizations[decided as usize])
    }

    /// Reviews asked of the API server, by whether it answered.
    pub fn reviews(&self, review: Review, is_answered: bool) -> u64 {
        read(&self.reviews[review as usize][usize::from(!is_answered)])
    }

    /// How often an answer was there, was being asked for, or had to be asked for.
    pub fn cache_requests(&self, review: Review, had: CacheResult) -> u64 {
        read(&self.cache[review as usize][had as usize])
    }

    /// Watches that were ended because what they show may not be seen any more.
    pub fn revocations(&self) -> u64 {
        read(&self.revoked)
    }
}
