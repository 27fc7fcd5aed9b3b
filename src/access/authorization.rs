//! Authorization: one SubjectAccessReview for each user and distinct request, cached for up to ten seconds.
//!
//! As apiserver `plugin/pkg/authorizer/webhook` with the TTLs of extension API servers
//! (`server/options/authorization.go`). Allowed and denied requests are cached, errors are not. Members of
//! `system:masters` and the health endpoints need no review. Without a decision of the API server, no request is
//! allowed.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::attributes::Attributes;
use super::backend::{Backend, ReviewError, ReviewFlow};
use super::cache_key_hasher::CacheKeyHasher;
use super::counters::{AccessCounters, DecisionResult, ReviewKind};
use super::identity::Identity;
use super::review::{AccessAnswer, access_answer, access_review, access_spec};
use super::single_flight::{CacheKey, CacheResult, SingleFlightCache};
use crate::fair_semaphore::FairSemaphore;
use crate::model::shares::Shares;

/// How long an allowed request is cached.
const KEEP: Duration = Duration::from_secs(10);

/// How long a denied request is cached. Users try a permission as soon as it is granted.
const KEEP_DENIED: Duration = Duration::from_secs(1);

/// Reviews in progress at a time, including those that wait for a place of [`Backend`]. A user may have at most half of
/// those that other users do not have. The API server processes these within a fraction of a second.
const MOST_BEGUN: u64 = 400;

/// Reviews of candidates ([`Authorizer::decide_uncached`]) in progress at a time. A caller can have thousands of
/// candidates. The other places for reviews are left to requests.
const MOST_CANDIDATES: u64 = 48;

/// Of [`MOST_CANDIDATES`], the number that is reserved for users without a review of a candidate in progress.
const FIRST_CANDIDATES: u64 = 8;

/// Decisions that are cached.
const MOST: usize = 8192;

/// The bytes of the two reference counts of an `Arc`.
const SHARED_HEAD: usize = 2 * size_of::<usize>();

/// Decisions about requests whose names and path have this many bytes or more are not cached, so that long names cannot
/// fill the memory.
const LONGEST_KEPT: usize = 10_000;

/// Paths that every authenticated or anonymous caller may get: the kubelet probes this server also while no API server
/// responds.
pub const ALWAYS_ALLOWED: [&str; 3] = ["/healthz", "/readyz", "/livez"];

/// The decision about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The request is allowed.
    Allowed,
    /// The request is denied, with the authorizer's reason, which is often empty.
    Denied(String),
    /// The API server did not decide, so the request is not allowed.
    Unavailable(ReviewError),
}

/// Decides about requests.
pub struct Authorizer {
    backend: Arc<Backend>,
    counts: Arc<AccessCounters>,
    hasher: Arc<CacheKeyHasher>,
    decisions: Arc<SingleFlightCache<Decision>>,
    /// Reviews in progress, by user.
    begun: Arc<Shares<ReviewFlow>>,
    /// Reviews of candidates in progress; users take turns.
    candidates: Arc<FairSemaphore<ReviewFlow>>,
}

impl fmt::Debug for Authorizer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Authorizer").field("decisions", &self.decisions).finish_non_exhaustive()
    }
}

/// A SubjectAccessReview that can be sent repeatedly.
#[derive(Clone, Debug)]
pub struct AccessReviewRequest {
    /// The key of its cached decision.
    pub(super) key: CacheKey,
    /// The flow of its user.
    flow: ReviewFlow,
    /// `spec` of the review, as JSON text. Leases keep it as long as their watches last, and parsed values would take
    /// many times as much.
    spec: Arc<str>,
    /// Whether its decision is cached.
    is_kept: bool,
}

impl AccessReviewRequest {
    /// Memory of the request, in bytes: its strings, and three pairs of reference counts, those of `spec`, of the
    /// user's name and of the lease that contains the request.
    pub(super) fn held_bytes(&self) -> usize {
        let user = match &self.flow {
            ReviewFlow::User(name) => name.len(),
            ReviewFlow::Address(_) => 0,
        };
        self.spec.len() + user + 3 * SHARED_HEAD
    }

    /// The flow of this request's user, for the fair queue of reviews.
    pub(super) fn flow(&self) -> ReviewFlow {
        self.flow.clone()
    }
}

impl Authorizer {
    /// An authorizer that sends its reviews through `backend` and counts them in `counts`. `hasher` makes the keys of
    /// its cache.
    pub fn new(backend: Arc<Backend>, counts: Arc<AccessCounters>, hasher: Arc<CacheKeyHasher>) -> Authorizer {
        let keep = |decision: &Decision| match decision {
            Decision::Allowed => Some(KEEP),
            Decision::Denied(_) => Some(KEEP_DENIED),
            Decision::Unavailable(_) => None,
        };
        Authorizer {
            backend,
            counts,
            hasher,
            decisions: SingleFlightCache::new(MOST, keep),
            begun: Arc::new(Shares::new(MOST_BEGUN, 1)),
            candidates: Arc::new(FairSemaphore::of_places(MOST_CANDIDATES, FIRST_CANDIDATES)),
        }
    }

    /// Decides whether a user may send a request.
    pub async fn decide(&self, identity: &Identity, attributes: &Attributes) -> Decision {
        match self.review_request(identity, attributes) {
            None => self.count(Decision::Allowed),
            Some(request) => self.decide_request(&request).await,
        }
    }

    /// Decides by a new review, whose decision is not cached. Used for candidates, of which a caller can have more than
    /// the cache has entries, and whose earlier decisions may have changed.
    pub async fn decide_uncached(&self, identity: &Identity, attributes: &Attributes) -> Decision {
        let Some(request) = self.review_request(identity, attributes) else { return self.count(Decision::Allowed) };
        let Some(_place) = self.candidates.acquire_one(&request.flow).await else {
            return self.count(Decision::Unavailable(ReviewError::TooMany));
        };
        self.counts.count_lookup(ReviewKind::SubjectAccess, CacheResult::Miss);
        self.count(self.review(&request).await)
    }

    /// A key of the permission of a user to send a request; `None`: the request is allowed without a review.
    pub fn key(&self, identity: &Identity, attributes: &Attributes) -> Option<CacheKey> {
        Some(self.review_request(identity, attributes)?.key)
    }

    /// The review that decides whether a user may send a request; `None`: the request is allowed without a review.
    pub fn review_request(&self, identity: &Identity, attributes: &Attributes) -> Option<AccessReviewRequest> {
        let is_always = attributes.resource.is_none() && ALWAYS_ALLOWED.contains(&&*attributes.path);
        if identity.is_privileged() || is_always {
            return None;
        }
        let spec: Arc<str> = access_spec(identity, attributes).to_string().into();
        let key = self.hasher.key([spec.as_bytes()]);
        let is_kept = attributes.controlled_bytes() < LONGEST_KEPT;
        Some(AccessReviewRequest { key, flow: ReviewFlow::user(&identity.user), spec, is_kept })
    }

    /// Decides by review, unless the decision is cached. Counts the decision and how it was found.
    pub(super) async fn decide_request(&self, request: &AccessReviewRequest) -> Decision {
        let (decision, had) = if request.is_kept {
            self.decisions.get(request.key, || self.review(request)).await
        } else {
            (self.review(request).await, CacheResult::Miss)
        };
        self.counts.count_lookup(ReviewKind::SubjectAccess, had);
        self.count(decision)
    }

    /// Sends a SubjectAccessReview and returns its decision. Borrows nothing, so that it can run as a task.
    fn review(&self, request: &AccessReviewRequest) -> impl Future<Output = Decision> + Send + use<> {
        let (backend, begun) = (self.backend.clone(), self.begun.clone());
        let (flow, spec) = (request.flow.clone(), request.spec.clone());
        async move {
            let Some(_share) = begun.take(&flow, 1) else { return Decision::Unavailable(ReviewError::TooMany) };
            match backend.review(ReviewKind::SubjectAccess, &flow, access_review(&spec)).await {
                Err(unanswered) => Decision::Unavailable(unanswered),
                Ok(review) => match access_answer(&review) {
                    AccessAnswer::Allowed => Decision::Allowed,
                    AccessAnswer::Denied(reason) => Decision::Denied(reason),
                },
            }
        }
    }

    /// Counts a decision for metrics, and returns it.
    fn count(&self, decision: Decision) -> Decision {
        self.counts.count_decision(match &decision {
            Decision::Allowed => DecisionResult::Allowed,
            Decision::Denied(_) => DecisionResult::Denied,
            Decision::Unavailable(_) => DecisionResult::Error,
        });
        decision
    }
}
