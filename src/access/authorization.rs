//! May they: one SubjectAccessReview for each user and distinct request, remembered for ten seconds.
//!
//! As apiserver `plugin/pkg/authorizer/webhook` with the life times that servers beside kube-apiserver use
//! (`server/options/authorization.go`): allowed and denied are kept alike, failures are not, and members of the privileged group as well as
//! the health endpoints are not asked about. Nothing is guessed: without an answer nobody may.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::attributes::Attributes;
use super::backend::{ReviewFlow, Backend, ReviewError};
use super::counters::{AccessCounters, DecisionResult, ReviewKind};
use super::identity::Identity;
use super::review::{AccessAnswer, access_answer, access_review, access_spec};
use super::cache_key_hasher::CacheKeyHasher;
use super::single_flight::{CacheKey, CacheResult, SingleFlightCache};
use crate::model::shares::Shares;

/// How long an answer is remembered.
const KEEP: Duration = Duration::from_secs(10);

/// How long a denial is kept. Whoever grants a permission tries it at once.
const KEEP_DENIED: Duration = Duration::from_secs(1);

/// Reviews that are begun at a time, those that wait for a place of [`Backend`] included. A user may have as many as are free for
/// all others: alone half of them, which the API server answers within a fraction of a second.
const MOST_BEGUN: u64 = 400;

/// Answers that are remembered.
const MOST: usize = 8192;

/// A request that says more than this is asked about every time, so that nobody fills the memory with names.
const LONGEST_KEPT: usize = 10_000;

/// Paths that everybody may ask for who got so far: a kubelet asks whether we live while nobody can be asked about it.
pub const ALWAYS_ALLOWED: [&str; 3] = ["/healthz", "/readyz", "/livez"];

/// Whether a request may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It may.
    Allowed,
    /// It may not; the authorizer's reason, often empty.
    Denied(String),
    /// Nobody says, so it may not.
    Unavailable(ReviewError),
}

/// Decides.
pub struct Authorizer {
    backend: Arc<Backend>,
    counts: Arc<AccessCounters>,
    hasher: Arc<CacheKeyHasher>,
    decisions: Arc<SingleFlightCache<Decision>>,
    /// Reviews that were begun, by user.
    begun: Arc<Shares<ReviewFlow>>,
}

impl fmt::Debug for Authorizer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Authorizer").field("decisions", &self.decisions).finish_non_exhaustive()
    }
}

/// One request, as often as it is asked.
#[derive(Clone, Debug)]
pub struct AccessReviewRequest {
    /// What stands for it.
    pub(super) key: CacheKey,
    /// The user whom it is about.
    flow: ReviewFlow,
    /// `spec` of the review, as JSON text: leases hold it for as long as their watches last, and values would take many times as much.
    spec: Arc<str>,
    is_kept: bool,
}

impl AccessReviewRequest {
    /// What it takes in memory, in bytes.
    pub(super) fn held_bytes(&self) -> usize {
        self.spec.len()
    }

    /// The user whom it is about.
    pub(super) fn flow(&self) -> ReviewFlow {
        self.flow.clone()
    }
}

impl Authorizer {
    /// Asks this API server.
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
        }
    }

    /// Whether somebody may do something.
    pub async fn decide(&self, identity: &Identity, attributes: &Attributes) -> Decision {
        match self.review_request(identity, attributes) {
            None => self.counted(Decision::Allowed),
            Some(request) => self.decide_request(&request).await,
        }
    }

    /// What would have to be asked; `None` where nothing has to.
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

    /// Asks, unless the answer is there.
    pub(super) async fn decide_request(&self, request: &AccessReviewRequest) -> Decision {
        let (decision, had) = if request.is_kept {
            self.decisions.get(request.key, || self.review(request)).await
        } else {
            (self.review(request).await, CacheResult::Miss)
        };
        self.counts.looked_up(ReviewKind::SubjectAccess, had);
        self.counted(decision)
    }

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

    fn counted(&self, decision: Decision) -> Decision {
        self.counts.decided(match &decision {
            Decision::Allowed => DecisionResult::Allowed,
            Decision::Denied(_) => DecisionResult::Denied,
            Decision::Unavailable(_) => DecisionResult::Error,
        });
        decision
    }
}
