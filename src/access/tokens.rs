//! Bearer tokens: their owners, by TokenReview, cached for ten seconds under a keyed hash.
//!
//! As in apiserver `authentication/token/cache` with the times of `server/options/authentication.go`: valid and invalid
//! results are cached, errors are not. The review of a malformed or expired token is an error too.
//! [`super::failure_rate_limiter`] limits the reviews of tokens that fail, by address. The limit does not apply to a
//! token that was valid recently, and new tokens have a limit of their own. The token itself is in memory only during
//! its review, or as long as a watch that it opened ([`HeldToken`]), since it is then reviewed again.

use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use rustls::pki_types::UnixTime;
use serde::Deserialize;
use tokio::time::{Instant, timeout};

use super::backend::{Backend, LONGEST, ReviewError, ReviewFlow};
use super::cache_key_hasher::CacheKeyHasher;
use super::counters::{AccessCounters, ReviewKind};
use super::error::AccessError;
use super::failure_rate_limiter::{TokenClass, TokenFailures};
use super::identity::Identity;
use super::recent::RecentKeys;
use super::review::{TokenAnswer, token_answer, token_review};
use super::single_flight::{CacheKey, CacheResult, SingleFlightCache};
use crate::fair_semaphore::FairSemaphore;

/// How long the result of a review is cached.
const KEEP: Duration = Duration::from_secs(10);

/// Most cached results. Upstream expects the tokens of 5,000 nodes, and of as many namespaces.
const MOST: usize = 32 * 1024;

/// How long a token counts as recently valid after a review that accepted it. A token that is used less often counts as
/// new.
const KNOWN_FOR: Duration = Duration::from_secs(3600);

/// How long a token counts as failed after a review that rejected it.
const FAILED_FOR: Duration = Duration::from_secs(600);

/// Most reviews in progress at a time of tokens that were not valid recently. [`Backend`] has more places: the others
/// are left to the reviews of other tokens and of permissions.
const MOST_NEW_AT_ONCE: u64 = 50;

/// How far the clocks of this server and of the one that made a token may differ; upstream's leeway.
const LEEWAY: Duration = Duration::from_secs(60);

/// The result of the reviews of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenReviewResult {
    /// The token is valid; its user.
    Authenticated(Arc<Identity>),
    /// The token is invalid, expired, malformed, or for another audience.
    Rejected {
        /// Whether the result may be cached.
        is_cacheable: bool,
    },
    /// The API server did not review the token.
    Unavailable(ReviewError),
    /// The token was not reviewed, because too many tokens of this address failed.
    RateLimited,
}

/// The result of looking a token up in the cache.
#[derive(Debug)]
pub enum CachedReview {
    /// A cached result.
    Hit(TokenReviewResult),
    /// No result: the token has to be reviewed.
    Miss(CacheKey),
}

/// A token in the lease of a watch, which is reviewed again. Debug does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct HeldToken(Arc<str>);

impl HeldToken {
    /// Copies a token, so that it can be reviewed again.
    pub fn new(token: &str) -> HeldToken {
        HeldToken(token.into())
    }
}

impl fmt::Debug for HeldToken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("HeldToken")
    }
}

/// Reviews tokens.
#[derive(Debug)]
pub struct Tokens {
    backend: Arc<Backend>,
    counts: Arc<AccessCounters>,
    hasher: Arc<CacheKeyHasher>,
    /// Cached results of reviews.
    owners: Arc<SingleFlightCache<TokenReviewResult>>,
    failures: TokenFailures,
    seen: Mutex<Seen>,
    /// Limits the reviews of tokens that were not valid recently to [`MOST_NEW_AT_ONCE`]. Addresses take turns.
    new: Arc<FairSemaphore<ReviewFlow>>,
    /// Accepted audiences.
    audiences: Vec<String>,
    /// Whether tokens for the API server itself are accepted too.
    accept_api_audience: bool,
    /// Which credentials are accepted, for people.
    accepted: Arc<str>,
}

/// The tokens that were reviewed recently, by the result of their last review.
#[derive(Debug)]
struct Seen {
    valid: RecentKeys,
    failed: RecentKeys,
}

impl Tokens {
    /// Accepts tokens for any of `audiences`, and those for the API server if `accept_api_audience`.
    pub fn new(
        backend: Arc<Backend>,
        counts: Arc<AccessCounters>,
        hasher: Arc<CacheKeyHasher>,
        audiences: Vec<String>,
        accept_api_audience: bool,
    ) -> Tokens {
        let keep = |owner: &TokenReviewResult| match owner {
            TokenReviewResult::Authenticated(_) | TokenReviewResult::Rejected { is_cacheable: true } => Some(KEEP),
            TokenReviewResult::Rejected { is_cacheable: false }
            | TokenReviewResult::Unavailable(_)
            | TokenReviewResult::RateLimited => None,
        };
        let seen = Seen { valid: RecentKeys::new(MOST, KNOWN_FOR), failed: RecentKeys::new(MOST, FAILED_FOR) };
        let accepted = accepted(&audiences, accept_api_audience).into();
        Tokens {
            backend,
            counts,
            hasher,
            owners: SingleFlightCache::new(MOST, keep),
            failures: TokenFailures::default(),
            seen: Mutex::new(seen),
            new: Arc::new(FairSemaphore::of_places(MOST_NEW_AT_ONCE, 0)),
            audiences,
            accept_api_audience,
            accepted,
        }
    }

    /// The error for a request without valid credentials; it says which ones are accepted.
    pub(super) fn unauthorized(&self) -> AccessError {
        AccessError::Unauthorized(self.accepted.clone())
    }

    /// Looks up the cached review of a token. Sends nothing.
    pub fn look_up(&self, token: &str) -> CachedReview {
        let key = self.key(token);
        match self.owners.cached(&key) {
            Some(owner) => {
                self.counts.count_lookup(ReviewKind::Token, CacheResult::Hit);
                CachedReview::Hit(owner)
            }
            None => CachedReview::Miss(key),
        }
    }

    /// The user of a token: the cached result in `looked_up`, which [`Tokens::look_up`] returned, or that of a review.
    /// `address` is that of the client: a review of a token that was not valid recently takes one of its tries. `None`:
    /// without limit.
    pub async fn owner(&self, token: &str, looked_up: CachedReview, address: Option<IpAddr>) -> TokenReviewResult {
        let key = match looked_up {
            CachedReview::Hit(owner) => return owner,
            CachedReview::Miss(key) => key,
        };
        let class = self.class(&key, token);
        // Only the request that begins the review takes a try: others with the same token share its result.
        let begin = || {
            let limited = class.zip(address);
            let is_limited =
                limited.is_some_and(|(class, address)| !self.failures.take(class, address, Instant::now()));
            let reviewed = self.review_token(token, ReviewFlow::address(address), class.is_some());
            async move { if is_limited { TokenReviewResult::RateLimited } else { reviewed.await } }
        };
        let (owner, had) = self.owners.get(key, begin).await;
        if owner == TokenReviewResult::RateLimited {
            return owner;
        }
        self.counts.count_lookup(ReviewKind::Token, had);
        if had == CacheResult::Miss {
            self.record(key, &owner);
            // Only rejected tokens use up a try.
            if let (Some((class, address)), false) =
                (class.zip(address), matches!(owner, TokenReviewResult::Rejected { .. }))
            {
                self.failures.give_back(class, address, Instant::now());
            }
        }
        owner
    }

    /// Reviews a token again, without the cache and without the limit on failures. `user` is the name of its last known
    /// user, in whose flow the review is sent.
    pub async fn confirm(&self, token: &HeldToken, user: &str) -> TokenReviewResult {
        let key = self.key(&token.0);
        let (owner, had) =
            self.owners.refresh(key, || self.review_token(&token.0, ReviewFlow::user(user), false)).await;
        self.counts.count_lookup(ReviewKind::Token, had);
        self.record(key, &owner);
        owner
    }

    /// The cache key of a token.
    pub(super) fn key_of(&self, token: &HeldToken) -> CacheKey {
        self.key(&token.0)
    }

    /// The key of a token in the cache. The token itself is not stored.
    fn key(&self, token: &str) -> CacheKey {
        self.hasher.key([token.as_bytes()])
    }

    /// The class whose budget a review of this token uses; `None` for a token that was valid recently.
    fn class(&self, key: &CacheKey, token: &str) -> Option<TokenClass> {
        let now = Instant::now();
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.valid.contains(key, now) {
            return None;
        }
        if seen.failed.contains(key, now) {
            return Some(TokenClass::Failed);
        }
        drop(seen);
        let could_be_valid = Claims::read(token).is_some_and(|claims| !claims.is_expired(UnixTime::now()));
        Some(if could_be_valid { TokenClass::NewJwt } else { TokenClass::NewOpaque })
    }

    /// Records that a token was accepted or rejected. Ignores other results.
    fn record(&self, key: CacheKey, owner: &TokenReviewResult) {
        let now = Instant::now();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        match owner {
            TokenReviewResult::Authenticated(_) => {
                seen.failed.remove(&key);
                seen.valid.insert(key, now);
            }
            TokenReviewResult::Rejected { .. } => {
                seen.valid.remove(&key);
                seen.failed.insert(key, now);
            }
            TokenReviewResult::Unavailable(_) | TokenReviewResult::RateLimited => {}
        }
    }

    /// Sends a review for all accepted audiences, in the flow `flow`. If that does not accept the token, and tokens for
    /// the API server are accepted too, sends another one without audiences. It is then for the API server's own
    /// audience, whose name is not known here. `is_new`: the token was not valid recently, so the review waits for a
    /// place of `new`.
    fn review_token(
        &self,
        token: &str,
        flow: ReviewFlow,
        is_new: bool,
    ) -> impl Future<Output = TokenReviewResult> + Send + use<> {
        let (backend, audiences, token) = (self.backend.clone(), self.audiences.clone(), token.to_owned());
        let accept_api_audience = self.accept_api_audience;
        let places = is_new.then(|| self.new.clone());
        async move {
            let _place = match places {
                Some(places) => match timeout(LONGEST, places.acquire_one(&flow)).await {
                    Ok(place) => place,
                    Err(_) => return TokenReviewResult::Unavailable(ReviewError::Timeout(ReviewKind::Token.as_str())),
                },
                None => None,
            };
            let mut owner = TokenReviewResult::Rejected { is_cacheable: true };
            let audience_sets =
                [Some(&*audiences).filter(|audiences| !audiences.is_empty()), accept_api_audience.then_some(&[][..])];
            for audiences in audience_sets.into_iter().flatten() {
                owner =
                    match backend.review(ReviewKind::Token, &flow, token_review(&token, audiences).to_string()).await {
                        Err(unanswered) => return TokenReviewResult::Unavailable(unanswered),
                        Ok(review) => match token_answer(&review, audiences) {
                            TokenAnswer::Known(identity) => {
                                return TokenReviewResult::Authenticated(Arc::new(identity.authenticated()));
                            }
                            TokenAnswer::Unknown => owner,
                            // The API server's message may quote the token's claims, which must not be logged.
                            TokenAnswer::Faulty(_) => TokenReviewResult::Rejected { is_cacheable: false },
                        },
                    };
            }
            owner
        }
    }
}

/// The text for a caller without valid credentials: which ones are accepted. It names the audiences, because a token
/// for another audience is the most common mistake.
fn accepted(audiences: &[String], accept_api_audience: bool) -> String {
    let own = match audiences {
        [] => None,
        audiences => Some(format!("with the audience {}", audiences.join(" or "))),
    };
    let kinds = own.into_iter().chain(accept_api_audience.then(|| "for the API server".to_owned()));
    let tokens = kinds.collect::<Vec<_>>().join(", or ");
    format!("use a valid token {tokens}, or a client certificate that the API server accepts")
}

/// Claims of a JSON Web Token. They are not verified here. They only decide the class of a token that is not known, and
/// when a valid token is reviewed again.
#[derive(Debug, Deserialize)]
struct Claims {
    /// When it expires, in seconds since 1970.
    exp: Option<f64>,
}

impl Claims {
    /// Reads the claims of a token; `None` if it is not a JSON Web Token.
    fn read(token: &str) -> Option<Claims> {
        let mut parts = token.split('.');
        let (Some(_), Some(claims), Some(_), None) = (parts.next(), parts.next(), parts.next(), parts.next()) else {
            return None;
        };
        serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(claims).ok()?).ok()
    }

    /// Whether the time in `exp` has passed by more than [`LEEWAY`]; false without the claim.
    fn is_expired(&self, now: UnixTime) -> bool {
        self.exp.is_some_and(|expires| expires + LEEWAY.as_secs_f64() < now.as_secs() as f64)
    }
}

/// The time until the token expires by its `exp` claim, zero if that time has passed; `None` without the claim.
pub(super) fn expires_in(token: &HeldToken) -> Option<Duration> {
    let expires = Claims::read(&token.0)?.exp?;
    let left = expires - UnixTime::now().as_secs() as f64;
    // A time that a Duration cannot represent counts as no claim.
    Duration::try_from_secs_f64(left.max(0.0)).ok()
}

/// The bearer token of a request (apiserver `authentication/request/bearertoken`): the second word of the first
/// Authorization header. `None` if there is none, or the header has another scheme.
pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    let text = headers.get(AUTHORIZATION)?.to_str().ok()?.trim();
    let mut words = text.split(' ');
    let (scheme, token) = (words.next()?, words.next()?);
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}
