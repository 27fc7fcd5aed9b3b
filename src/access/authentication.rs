//! Authentication by front proxy, certificate or token, in kube-apiserver's order. The first one that yields a user
//! wins.
//!
//! A method that fails does not stop the next one (apiserver `authenticatorfactory/delegating.go`,
//! `authentication/request/union`). A valid token beside an unknown certificate authenticates its user, and so does a
//! valid certificate beside an invalid token. If no method yields a user, a caller without credentials is anonymous and
//! may read health endpoints only. A caller with invalid credentials is rejected even there.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::HeaderMap;
use rustls::pki_types::{CertificateDer, UnixTime};
use tokio::time::Instant;

use super::authentication_config::{AuthenticationConfig, FrontProxy};
use super::certificates::CertificateSubject;
use super::counters::{AccessCounters, AttemptResult, AuthenticationMethod};
use super::front_proxy::identity_from_headers;
use super::identity::Identity;
use super::tokens::{CachedReview, HeldToken, TokenReviewResult, Tokens, bearer};

/// How long the result of verifying a connection's certificate is cached: signatures are expensive, and certificates
/// expire.
const KEEP: Duration = Duration::from_secs(10);

/// The other end of a connection over TLS. Requests without TLS have none.
#[derive(Debug, Default)]
pub struct Peer {
    /// Its address.
    pub address: Option<IpAddr>,
    /// The certificates that it presented, its own first. It has proved that it has the key of that one.
    pub chain: Vec<CertificateDer<'static>>,
    /// The cached verification of `chain`: the generation of the [`AuthenticationConfig`], the end of its validity, and
    /// the result.
    verified: Mutex<Option<(u64, Instant, VerifiedChain)>>,
}

/// The result of verifying a chain: the user that it authenticates, or a front proxy.
#[derive(Clone, Debug)]
struct VerifiedChain {
    is_front_proxy: bool,
    /// The user; `None` if the chain authenticates none.
    user: Option<Arc<Identity>>,
    /// Whether the chain cannot be read, or is rejected as that of a front proxy or as that of a user. It matters only
    /// if nothing authenticates the request. False if there are no authorities: the chain is then ignored.
    has_failed: bool,
}

/// What authenticated a request, to be checked again while its response lasts.
#[derive(Clone, Debug)]
pub enum Credential {
    /// A bearer token.
    Token(HeldToken),
    /// The client certificate of its connection.
    Certificate(Arc<Peer>),
    /// A front proxy, which authenticated the user.
    FrontProxy(Arc<Peer>),
    /// Nothing: the user is anonymous.
    None,
}

/// Authentication as far as it needs no review by the API server.
#[derive(Debug)]
pub struct LocalAuthentication {
    by: By,
    /// Whether a certificate was rejected. Without a user, the caller is then not anonymous, but has invalid
    /// credentials.
    has_failed: bool,
}

/// What authenticates a request, as far as it is known without a review.
#[derive(Debug)]
enum By {
    /// A front proxy, a certificate, or a token that is cached.
    Known(AuthenticationMethod, Arc<Identity>, Credential),
    /// A token of which no valid user is cached: it must be reviewed, or was rejected.
    Token(CachedReview),
    /// No valid certificate, and no token.
    Nothing,
}

impl LocalAuthentication {
    /// The user, if it is known without a review and not anonymous.
    pub fn user(&self) -> Option<&Arc<Identity>> {
        match &self.by {
            By::Known(_, identity, _) if !identity.is_anonymous() => Some(identity),
            By::Known(..) | By::Token(_) | By::Nothing => None,
        }
    }
}

/// The caller, or why it is not authenticated.
#[derive(Clone, Debug)]
pub enum AuthenticationResult {
    /// A user, or the anonymous user.
    Authenticated(Arc<Identity>, Credential),
    /// The credentials are invalid.
    Invalid,
    /// The API server did not review the token.
    Unavailable,
    /// Too many tokens of this address were invalid.
    RateLimited,
}

impl Peer {
    /// The peer of a connection with this certificate chain.
    pub fn new(address: Option<IpAddr>, chain: Vec<CertificateDer<'static>>) -> Peer {
        Peer { address, chain, verified: Mutex::new(None) }
    }

    /// The time when the peer's certificate expires, in seconds since 1970; `None` without a certificate that can be
    /// read.
    pub(super) fn not_after(&self) -> Option<u64> {
        let subject = CertificateSubject::read(self.chain.first()?).ok()?;
        Some(u64::try_from(subject.not_after).unwrap_or(0))
    }

    /// The common name of the peer's certificate, if it is that of a trusted front proxy.
    pub(super) fn front_proxy(&self, config: &AuthenticationConfig) -> Option<String> {
        let own = self.chain.first().filter(|_| self.is_front_proxy(config))?;
        CertificateSubject::read(own).ok().map(|subject| subject.common_name)
    }

    /// The user that the peer's certificate authenticates with these authorities; `None` if it authenticates none.
    pub(super) fn user(&self, config: &AuthenticationConfig) -> Option<Arc<Identity>> {
        self.verify(config)?.user
    }

    /// Whether the peer's certificate is that of a trusted front proxy.
    pub(super) fn is_front_proxy(&self, config: &AuthenticationConfig) -> bool {
        config.front_proxy.is_some() && self.verify(config).is_some_and(|verified| verified.is_front_proxy)
    }

    /// Verifies the chain of the peer, or returns the cached result of a verification with the same authorities. `None`
    /// if the peer has presented no certificate.
    fn verify(&self, config: &AuthenticationConfig) -> Option<VerifiedChain> {
        let own = self.chain.first()?;
        let mut cached = self.verified.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((generation, until, verified)) = &*cached
            && *generation == config.generation
            && *until > Instant::now()
        {
            return Some(verified.clone());
        }
        let today = UnixTime::now();
        let verified = verify(config, own, &self.chain, today);
        // The result for a certificate that has expired or cannot be read does not change, so it has no shorter
        // validity.
        let expires = CertificateSubject::read(own).ok().and_then(|subject| u64::try_from(subject.not_after).ok());
        let keep = match expires.and_then(|expires| expires.checked_sub(today.as_secs())) {
            // In its last second, it is verified at each request.
            Some(left) => KEEP.min(Duration::from_secs(left)),
            None => KEEP,
        };
        *cached = Some((config.generation, Instant::now() + keep, verified.clone()));
        Some(verified)
    }
}

/// Verifies a chain against the authorities of front proxies and of users. `own` is the first certificate of `chain`.
fn verify(
    config: &AuthenticationConfig,
    own: &CertificateDer<'static>,
    chain: &[CertificateDer<'static>],
    now: UnixTime,
) -> VerifiedChain {
    let mut verified = VerifiedChain { is_front_proxy: false, user: None, has_failed: false };
    let subject = match CertificateSubject::read(own) {
        Ok(subject) => subject,
        Err(problem) => {
            tracing::debug!(problem, "a client certificate cannot be read");
            return VerifiedChain { has_failed: true, ..verified };
        }
    };
    if let Some(proxy) = &config.front_proxy {
        let is_allowed = proxy.allowed_names.is_empty() || proxy.allowed_names.contains(&subject.common_name);
        verified.is_front_proxy = is_allowed && proxy.authorities.check(chain, now).is_ok();
        verified.has_failed |= !verified.is_front_proxy;
    }
    if let Some(authorities) = &config.clients {
        let user = authorities.check(chain, now).and_then(|()| subject.identity(own));
        if let Err(problem) = &user {
            tracing::debug!(
                problem,
                "a client certificate identifies no user: its chain does not lead to a client CA, or its subject is invalid"
            );
        }
        verified.has_failed |= user.is_err();
        verified.user = user.ok().flatten().map(Arc::new);
    }
    verified
}

/// Authenticates a request as far as that needs no review: by front proxy, by certificate, or by a cached token.
pub(super) fn authenticate_locally(
    config: &AuthenticationConfig,
    tokens: &Tokens,
    peer: Option<&Arc<Peer>>,
    headers: &HeaderMap,
) -> LocalAuthentication {
    let verified = peer.and_then(|peer| peer.verify(config));
    let has_failed = verified.as_ref().is_some_and(|verified| verified.has_failed);
    let proxy =
        config.front_proxy.as_ref().filter(|_| verified.as_ref().is_some_and(|verified| verified.is_front_proxy));
    // A front proxy that names no user is authenticated like any other client.
    let by = if let (Some(identity), Some(peer)) =
        (proxy.and_then(|proxy: &FrontProxy| identity_from_headers(proxy, headers)), peer)
    {
        By::Known(
            AuthenticationMethod::FrontProxy,
            Arc::new(identity.authenticated()),
            Credential::FrontProxy(peer.clone()),
        )
    } else if let (Some(user), Some(peer)) = (verified.and_then(|verified| verified.user), peer) {
        By::Known(AuthenticationMethod::Certificate, user, Credential::Certificate(peer.clone()))
    } else if let Some(token) = bearer(headers) {
        match tokens.look_up(token) {
            CachedReview::Hit(TokenReviewResult::Authenticated(identity)) => {
                By::Known(AuthenticationMethod::Token, identity, Credential::Token(HeldToken::new(token)))
            }
            looked_up @ (CachedReview::Hit(_) | CachedReview::Miss(_)) => By::Token(looked_up),
        }
    } else {
        By::Nothing
    };
    LocalAuthentication { by, has_failed }
}

/// Completes the authentication of a request: reviews its token if that is needed, and counts the result in `counts`.
/// An anonymous caller is not counted: it depends on the request whether that is a success. `peer` and `headers` are
/// those from which `recognized` was made.
pub(super) async fn authenticate(
    recognized: LocalAuthentication,
    tokens: &Tokens,
    counts: &AccessCounters,
    peer: Option<&Arc<Peer>>,
    headers: &HeaderMap,
) -> AuthenticationResult {
    let success = |method: AuthenticationMethod, identity: Arc<Identity>, credential: Credential| {
        counts.count_attempt(method, AttemptResult::Success);
        AuthenticationResult::Authenticated(identity, credential)
    };
    let looked_up = match recognized.by {
        By::Known(method, identity, credential) => return success(method, identity, credential),
        By::Token(looked_up) => Some(looked_up),
        By::Nothing => None,
    };
    let Some((token, looked_up)) = bearer(headers).zip(looked_up) else {
        if recognized.has_failed {
            counts.count_attempt(AuthenticationMethod::Certificate, AttemptResult::Failure);
            return AuthenticationResult::Invalid;
        }
        return AuthenticationResult::Authenticated(Arc::new(Identity::anonymous()), Credential::None);
    };
    let (result, found) = match tokens.owner(token, looked_up, peer.and_then(|peer| peer.address)).await {
        TokenReviewResult::Authenticated(identity) => {
            return success(AuthenticationMethod::Token, identity, Credential::Token(HeldToken::new(token)));
        }
        TokenReviewResult::Rejected { .. } => (AttemptResult::Failure, AuthenticationResult::Invalid),
        TokenReviewResult::Unavailable(_) => (AttemptResult::Error, AuthenticationResult::Unavailable),
        TokenReviewResult::RateLimited => (AttemptResult::Limited, AuthenticationResult::RateLimited),
    };
    counts.count_attempt(AuthenticationMethod::Token, result);
    found
}
