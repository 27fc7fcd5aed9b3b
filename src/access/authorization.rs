//! May they: one SubjectAccessReview for each user and distinct request, remembered for ten seconds.
//!
//! As apiserver `plugin/pkg/authorizer/webhook` with the life times that servers beside kube-apiserver use
//! (`server/options/authorization.go`): allowed and denied are kept alike, failures are not, and members of the privileged group as well as
//! the health endpoints are not asked about. Nothing is guessed: without an answer nobody may.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::attributes::Attributes;
use super::backend::{Asker, Backend, Unanswered};
use super::counts::{Counts, Decided, Review};
use super::identity::Identity;
use super::review::{AccessAnswer, access_answer, access_review, access_spec};
use super::secret::Secret;
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
    Unanswered(Unanswered),
}

/// Decides.
pub struct Authorizer {
    backend: Arc<Backend>,
    counts: Arc<Counts>,
    secret: Arc<Secret>,
    decisions: Arc<SingleFlightCache<Decision>>,
    /// Reviews that were begun, by user.
    begun: Arc<Shares<Asker>>,
}

impl fmt::Debug for Authorizer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Authorizer").field("decisions", &self.decisions).finish_non_exhaustive()
    }
}

/// One question, as often as it is asked.
#[derive(Clone, Debug)]
pub struct Question {
    /// What stands for it.
    pub(super) key: CacheKey,
    /// The user whom it is about.
    asker: Asker,
    /// `spec` of the review, as JSON text: leases hold it for as long as their watches last, and values would take many times as much.
    spec: Arc<str>,
    is_kept: bool,
}

impl Question {
    /// What it takes in memory, in bytes.
    pub(super) fn held_bytes(&self) -> usize {
        self.spec.len()
    }

    /// The user whom it is about.
    pub(super) fn asker(&self) -> Asker {
        self.asker.clone()
    }
}

impl Authorizer {
    /// Asks this API server.
    pub fn new(backend: Arc<Backend>, counts: Arc<Counts>, secret: Arc<Secret>) -> Authorizer {
        let keep = |decision: &Decision| match decision {
            Decision::Allowed => Some(KEEP),
            Decision::Denied(_) => Some(KEEP_DENIED),
            Decision::Unanswered(_) => None,
        };
        Authorizer {
            backend,
            counts,
            secret,
            decisions: SingleFlightCache::new(MOST, keep),
            begun: Arc::new(Shares::new(MOST_BEGUN, 1)),
        }
    }

    /// Whether somebody may do something.
    pub async fn decide(&self, identity: &Identity, attributes: &Attributes) -> Decision {
        match self.question(identity, attributes) {
            None => self.counted(Decision::Allowed),
            Some(question) => self.ask(&question).await,
        }
    }

    /// What would have to be asked; `None` where nothing has to.
    pub fn question(&self, identity: &Identity, attributes: &Attributes) -> Option<Question> {
        let is_always = attributes.resource.is_none() && ALWAYS_ALLOWED.contains(&&*attributes.path);
        if identity.is_privileged() || is_always {
            return None;
        }
        let spec: Arc<str> = access_spec(identity, attributes).to_string().into();
        let key = self.secret.key([spec.as_bytes()]);
        let is_kept = attributes.controlled_bytes() < LONGEST_KEPT;
        Some(Question { key, asker: Asker::user(&identity.user), spec, is_kept })
    }

    /// Asks, unless the answer is there.
    pub(super) async fn ask(&self, question: &Question) -> Decision {
        let (decision, had) = if question.is_kept {
            self.decisions.get(question.key, || self.review(question)).await
        } else {
            (self.review(question).await, CacheResult::Asked)
        };
        self.counts.looked_up(Review::SubjectAccess, had);
        self.counted(decision)
    }

    fn review(&self, question: &Question) -> impl Future<Output = Decision> + Send + use<> {
        let (backend, begun) = (self.backend.clone(), self.begun.clone());
        let (asker, spec) = (question.asker.clone(), question.spec.clone());
        async move {
            let Some(_share) = begun.take(&asker, 1) else { return Decision::Unanswered(Unanswered::TooMany) };
            match backend.review(Review::SubjectAccess, &asker, access_review(&spec)).await {
                Err(unanswered) => Decision::Unanswered(unanswered),
                Ok(review) => match access_answer(&review) {
                    AccessAnswer::Allowed => Decision::Allowed,
                    AccessAnswer::Denied(reason) => Decision::Denied(reason),
                },
            }
        }
    }

    fn counted(&self, decision: Decision) -> Decision {
        self.counts.decided(match &decision {
            Decision::Allowed => Decided::Allowed,
            Decision::Denied(_) => Decided::Denied,
            Decision::Unanswered(_) => Decided::Error,
        });
        decision
    }
}
