//! Who is it: front proxy, certificate, token, in kube-apiserver's order; the first that knows somebody wins.
//!
//! One way that fails does not stop the next (apiserver `authenticatorfactory/delegating.go`, `authentication/request/union`): a valid
//! token beside a certificate that nobody knows is a user, and so is a valid certificate beside a broken token. When none
//! knows anybody, whoever has shown nothing is nobody in particular, who may ask for health and nothing else, and
//! whoever has shown something wrong is refused even that.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::HeaderMap;
use rustls::pki_types::{CertificateDer, UnixTime};
use tokio::time::Instant;

use super::certificates::CertificateSubject;
use super::counters::{AccessCounters, AttemptResult, AuthenticationMethod};
use super::front_proxy::described;
use super::identity::Identity;
use super::tokens::{HeldToken, CachedReview, TokenReviewResult, Tokens, bearer};
use super::authentication_config::{FrontProxy, AuthenticationConfig};

/// For how long what was found out about a connection's certificate is taken as it is: signatures are dear, and days end
/// at some second.
const KEEP: Duration = Duration::from_secs(10);

/// The other end of a connection.
#[derive(Debug, Default)]
pub struct Peer {
    /// Where it is.
    pub address: Option<IpAddr>,
    /// The certificates that it has shown, its own first; the key of that one it has.
    pub chain: Vec<CertificateDer<'static>>,
    verified: Mutex<Option<(u64, Instant, VerifiedChain)>>,
}

/// What a chain is good for.
#[derive(Clone, Debug)]
struct VerifiedChain {
    is_front_proxy: bool,
    user: Option<Arc<Identity>>,
    /// Whether some way refused it, rather than not knowing it.
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

/// What a request says of its user without a review.
#[derive(Debug)]
pub struct LocalAuthentication {
    by: By,
    /// Whether a certificate was refused.
    has_failed: bool,
}

#[derive(Debug)]
enum By {
    /// A front proxy, a certificate, or a token that is cached.
    Known(Method, Arc<Identity>, Credential),
    /// A token that is not known to be anybody's.
    Token(CachedReview),
    /// No credential that counts.
    Nothing,
}

impl LocalAuthentication {
    /// The user, if it is known without a review who that is.
    pub fn user(&self) -> Option<&Arc<Identity>> {
        match &self.by {
            By::Known(_, identity, _) if !identity.is_anonymous() => Some(identity),
            By::Known(..) | By::Token(_) | By::Nothing => None,
        }
    }
}

/// Who it is, or why that is not known.
#[derive(Clone, Debug)]
pub enum AuthenticationResult {
    /// Somebody, or nobody in particular.
    Authenticated(Arc<Identity>, Credential),
    /// What was shown is wrong.
    Invalid,
    /// Nobody says whose token it is.
    Unavailable,
    /// Too many tokens from there were wrong.
    RateLimited,
}

impl Peer {
    /// Of a connection.
    pub fn new(address: Option<IpAddr>, chain: Vec<CertificateDer<'static>>) -> Peer {
        Peer { address, chain, verified: Mutex::new(None) }
    }

    /// When its own certificate expires, in seconds since 1970; `None` where it has none that can be read.
    pub(super) fn not_after(&self) -> Option<u64> {
        let subject = CertificateSubject::read(self.chain.first()?).ok()?;
        Some(u64::try_from(subject.not_after).unwrap_or(0))
    }

    /// The common name of its certificate, if that is one of a front proxy that is trusted now.
    pub(super) fn front_proxy(&self, config: &AuthenticationConfig) -> Option<String> {
        let own = self.chain.first().filter(|_| self.is_front_proxy(config))?;
        CertificateSubject::read(own).ok().map(|subject| subject.common_name)
    }

    /// The user of its certificate, as far as it is trusted now.
    pub(super) fn user(&self, config: &AuthenticationConfig) -> Option<Arc<Identity>> {
        self.verify(config)?.user
    }

    /// Whether its certificate is that of a front proxy that is trusted now.
    pub(super) fn is_front_proxy(&self, config: &AuthenticationConfig) -> bool {
        config.front_proxy.is_some() && self.verify(config).is_some_and(|verified| verified.is_front_proxy)
    }

    fn verify(&self, config: &AuthenticationConfig) -> Option<VerifiedChain> {
        let own = self.chain.first()?;
        let mut held = self.verified.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((generation, until, verified)) = &*held
            && *generation == config.generation
            && *until > Instant::now()
        {
            return Some(verified.clone());
        }
        let today = UnixTime::now();
        let verified = verify(config, own, &self.chain, today);
        // A certificate that has expired, or cannot be read, is no other one at the next request.
        let expires = CertificateSubject::read(own).ok().and_then(|subject| u64::try_from(subject.not_after).ok());
        let keep = match expires.and_then(|expires| expires.checked_sub(today.as_secs())) {
            // In its last second, too, it is verified by what time it is.
            Some(left) => KEEP.min(Duration::from_secs(left)),
            None => KEEP,
        };
        *held = Some((config.generation, Instant::now() + keep, verified.clone()));
        Some(verified)
    }
}

fn verify(config: &AuthenticationConfig, own: &CertificateDer<'static>, chain: &[CertificateDer<'static>], now: UnixTime) -> VerifiedChain {
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
            tracing::debug!(problem, "a client certificate is not one of a user");
        }
        verified.has_failed |= user.is_err();
        verified.user = user.ok().flatten().map(Arc::new);
    }
    verified
}

/// Finds out who asks, as far as that needs no review.
pub(super) fn authenticate_locally(config: &AuthenticationConfig, tokens: &Tokens, peer: Option<&Arc<Peer>>, headers: &HeaderMap) -> LocalAuthentication {
    let verified = peer.and_then(|peer| peer.verify(config));
    let has_failed = verified.as_ref().is_some_and(|verified| verified.has_failed);
    let proxy = config.front_proxy.as_ref().filter(|_| verified.as_ref().is_some_and(|verified| verified.is_front_proxy));
    let by =
        if let (Some(identity), Some(peer)) = (proxy.and_then(|proxy: &FrontProxy| described(proxy, headers)), peer) {
            By::Known(AuthenticationMethod::FrontProxy, Arc::new(identity.authenticated()), Credential::FrontProxy(peer.clone()))
        } else if let (Some(user), Some(peer)) = (verified.and_then(|verified| verified.user), peer) {
            By::Known(AuthenticationMethod::Certificate, user, Credential::Certificate(peer.clone()))
        } else if let Some(token) = bearer(headers) {
            match tokens.look_up(token) {
                CachedReview::Hit(TokenReviewResult::Authenticated(identity)) => {
                    By::Known(AuthenticationMethod::Token, identity, Credential::Token(HeldToken::new(token)))
                }
                looked_up => By::Token(looked_up),
            }
        } else {
            By::Nothing
        };
    LocalAuthentication { by, has_failed }
}

/// Finds out who asks, with a review if that is needed; the peer and headers are those of `recognized`.
pub(super) async fn authenticate(
    recognized: LocalAuthentication,
    tokens: &Tokens,
    counts: &AccessCounters,
    peer: Option<&Arc<Peer>>,
    headers: &HeaderMap,
) -> AuthenticationResult {
    let success = |method: Method, identity: Arc<Identity>, credential: Credential| {
        counts.authenticated(method, AttemptResult::Success);
        AuthenticationResult::Authenticated(identity, credential)
    };
    let looked_up = match recognized.by {
        By::Known(method, identity, credential) => return success(method, identity, credential),
        By::Token(looked_up) => Some(looked_up),
        By::Nothing => None,
    };
    let Some((token, looked_up)) = bearer(headers).zip(looked_up) else {
        if recognized.has_failed {
            counts.authenticated(AuthenticationMethod::Certificate, AttemptResult::Failure);
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
    counts.authenticated(AuthenticationMethod::Token, result);
    found
}
