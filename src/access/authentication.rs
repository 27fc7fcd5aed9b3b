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

use super::certificates::Subject;
use super::counts::{Authenticated, Counts, Method};
use super::front_proxy::described;
use super::identity::Identity;
use super::tokens::{HeldToken, LookedUp, Owner, Tokens, bearer};
use super::trust::{FrontProxy, Trust};

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
    judged: Mutex<Option<(u64, Instant, Judged)>>,
}

/// What a chain is good for.
#[derive(Clone, Debug)]
struct Judged {
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
pub struct Recognized {
    by: By,
    /// Whether a certificate was refused.
    has_failed: bool,
}

#[derive(Debug)]
enum By {
    /// A front proxy, a certificate, or a token that is cached.
    Known(Method, Arc<Identity>, Credential),
    /// A token that is not known to be anybody's.
    Token(LookedUp),
    /// No credential that counts.
    Nothing,
}

impl Recognized {
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
pub enum Found {
    /// Somebody, or nobody in particular.
    Somebody(Arc<Identity>, Credential),
    /// What was shown is wrong.
    Wrong,
    /// Nobody says whose token it is.
    Unanswered,
    /// Too many tokens from there were wrong.
    Limited,
}

impl Peer {
    /// Of a connection.
    pub fn new(address: Option<IpAddr>, chain: Vec<CertificateDer<'static>>) -> Peer {
        Peer { address, chain, judged: Mutex::new(None) }
    }

    /// When its own certificate expires, in seconds since 1970; `None` where it has none that can be read.
    pub(super) fn not_after(&self) -> Option<u64> {
        let subject = Subject::read(self.chain.first()?).ok()?;
        Some(u64::try_from(subject.not_after).unwrap_or(0))
    }

    /// The common name of its certificate, if that is one of a front proxy that is trusted now.
    pub(super) fn front_proxy(&self, trust: &Trust) -> Option<String> {
        let own = self.chain.first().filter(|_| self.is_front_proxy(trust))?;
        Subject::read(own).ok().map(|subject| subject.common_name)
    }

    /// The user of its certificate, as far as it is trusted now.
    pub(super) fn user(&self, trust: &Trust) -> Option<Arc<Identity>> {
        self.judge(trust)?.user
    }

    /// Whether its certificate is that of a front proxy that is trusted now.
    pub(super) fn is_front_proxy(&self, trust: &Trust) -> bool {
        trust.front_proxy.is_some() && self.judge(trust).is_some_and(|judged| judged.is_front_proxy)
    }

    fn judge(&self, trust: &Trust) -> Option<Judged> {
        let own = self.chain.first()?;
        let mut held = self.judged.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((generation, until, judged)) = &*held
            && *generation == trust.generation
            && *until > Instant::now()
        {
            return Some(judged.clone());
        }
        let today = UnixTime::now();
        let judged = judge(trust, own, &self.chain, today);
        // A certificate that has expired, or cannot be read, is no other one at the next request.
        let expires = Subject::read(own).ok().and_then(|subject| u64::try_from(subject.not_after).ok());
        let keep = match expires.and_then(|expires| expires.checked_sub(today.as_secs())) {
            // In its last second, too, it is judged by what time it is.
            Some(left) => KEEP.min(Duration::from_secs(left)),
            None => KEEP,
        };
        *held = Some((trust.generation, Instant::now() + keep, judged.clone()));
        Some(judged)
    }
}

fn judge(trust: &Trust, own: &CertificateDer<'static>, chain: &[CertificateDer<'static>], now: UnixTime) -> Judged {
    let mut judged = Judged { is_front_proxy: false, user: None, has_failed: false };
    let subject = match Subject::read(own) {
        Ok(subject) => subject,
        Err(problem) => {
            tracing::debug!(problem, "a client certificate cannot be read");
            return Judged { has_failed: true, ..judged };
        }
    };
    if let Some(proxy) = &trust.front_proxy {
        let is_allowed = proxy.allowed_names.is_empty() || proxy.allowed_names.contains(&subject.common_name);
        judged.is_front_proxy = is_allowed && proxy.authorities.check(chain, now).is_ok();
        judged.has_failed |= !judged.is_front_proxy;
    }
    if let Some(authorities) = &trust.clients {
        let user = authorities.check(chain, now).and_then(|()| subject.identity(own));
        if let Err(problem) = &user {
            tracing::debug!(problem, "a client certificate is not one of a user");
        }
        judged.has_failed |= user.is_err();
        judged.user = user.ok().flatten().map(Arc::new);
    }
    judged
}

/// Finds out who asks, as far as that needs no review.
pub(super) fn recognize(trust: &Trust, tokens: &Tokens, peer: Option<&Arc<Peer>>, headers: &HeaderMap) -> Recognized {
    let judged = peer.and_then(|peer| peer.judge(trust));
    let has_failed = judged.as_ref().is_some_and(|judged| judged.has_failed);
    let proxy = trust.front_proxy.as_ref().filter(|_| judged.as_ref().is_some_and(|judged| judged.is_front_proxy));
    let by =
        if let (Some(identity), Some(peer)) = (proxy.and_then(|proxy: &FrontProxy| described(proxy, headers)), peer) {
            By::Known(Method::FrontProxy, Arc::new(identity.authenticated()), Credential::FrontProxy(peer.clone()))
        } else if let (Some(user), Some(peer)) = (judged.and_then(|judged| judged.user), peer) {
            By::Known(Method::Certificate, user, Credential::Certificate(peer.clone()))
        } else if let Some(token) = bearer(headers) {
            match tokens.look_up(token) {
                LookedUp::Kept(Owner::Known(identity)) => {
                    By::Known(Method::Token, identity, Credential::Token(HeldToken::new(token)))
                }
                looked_up => By::Token(looked_up),
            }
        } else {
            By::Nothing
        };
    Recognized { by, has_failed }
}

/// Finds out who asks, with a review if that is needed; the peer and headers are those of `recognized`.
pub(super) async fn authenticate(
    recognized: Recognized,
    tokens: &Tokens,
    counts: &Counts,
    peer: Option<&Arc<Peer>>,
    headers: &HeaderMap,
) -> Found {
    let success = |method: Method, identity: Arc<Identity>, credential: Credential| {
        counts.authenticated(method, Authenticated::Success);
        Found::Somebody(identity, credential)
    };
    let looked_up = match recognized.by {
        By::Known(method, identity, credential) => return success(method, identity, credential),
        By::Token(looked_up) => Some(looked_up),
        By::Nothing => None,
    };
    let Some((token, looked_up)) = bearer(headers).zip(looked_up) else {
        if recognized.has_failed {
            counts.authenticated(Method::Certificate, Authenticated::Failure);
            return Found::Wrong;
        }
        return Found::Somebody(Arc::new(Identity::anonymous()), Credential::None);
    };
    let (result, found) = match tokens.owner(token, looked_up, peer.and_then(|peer| peer.address)).await {
        Owner::Known(identity) => {
            return success(Method::Token, identity, Credential::Token(HeldToken::new(token)));
        }
        Owner::Unknown { .. } => (Authenticated::Failure, Found::Wrong),
        Owner::Unanswered(_) => (Authenticated::Error, Found::Unanswered),
        Owner::Limited => (Authenticated::Limited, Found::Limited),
    };
    counts.authenticated(Method::Token, result);
    found
}
