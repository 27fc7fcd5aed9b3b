//! Authorization of long responses: credentials and permissions are checked again while a watch lasts.
//!
//! kube-apiserver authenticates and authorizes a watch once, when it begins, and lets it run for up to an hour. Here a
//! watch holds an [`AuthorizationLease`] and nothing runs on its own: the holder waits until the lease is
//! [`AuthorizationLease::due`] and then calls [`AuthorizationLease::renew`]. Holders of one permission or one token
//! share one [`Lease`]: the first of them checks, the others take its result.
//!
//! - Permissions and tokens are reviewed again at most five minutes after the last time, including the time of the
//!   review. They are reviewed up to a fifth sooner, so that checks are spread.
//! - A token is also reviewed at the time of its `exp` claim. The result of the review counts, not the claim.
//! - A client certificate ends its watches at its notAfter, and when the cluster does not trust its authority any more.
//! - A front proxy names the user of a request once. Only the certificate of the front proxy can be checked again.
//!
//! While no API server responds, a lease holds for a minute more and is checked every ten seconds. Ending every watch
//! for a short outage would make all clients list at once. The lease of a token whose `exp` has passed does not hold
//! for that minute.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use rustls::pki_types::UnixTime;
use tokio::sync::{self, watch};
use tokio::time::{Instant, timeout};

use super::attributes::{Attributes, RequiredPermissions};
use super::authentication::{Credential, Peer};
use super::authentication_config::AuthenticationConfig;
use super::authorization::{AccessReviewRequest, Authorizer, Decision};
use super::backend::ReviewFlow;
use super::counters::AccessCounters;
use super::identity::Identity;
use super::namespace_permissions::{NamespacePermissions, NoPermittedNamespace};
use super::single_flight::CacheKey;
use super::tokens::{HeldToken, TokenReviewResult, Tokens, expires_in};
use crate::fair_semaphore::FairSemaphore;

/// The longest time between two checks of a lease. Together with the age of a cached decision, up to ten seconds, and
/// the duration of a review, up to ten seconds, it is five minutes.
pub const EVERY: Duration = Duration::from_secs(280);

/// How soon a check without a result is repeated.
const AFTER_NO_RESULT: Duration = Duration::from_secs(10);

/// How long a lease still holds after its check was due, if no check has a result.
const PATIENCE: Duration = Duration::from_secs(60);

/// How soon a token is reviewed again that the API server accepts after the time of its `exp` claim: clocks differ, and
/// upstream allows a minute.
const AFTER_EXPIRY: Duration = Duration::from_secs(60);

/// Most checks in progress at a time that send requests to the API server. The other places for reviews are left to new
/// requests. Users take turns.
const MOST_AT_ONCE: u64 = 20;

/// How long one check may take, its time in the queue included.
const LONGEST_CHECK: Duration = Duration::from_secs(20);

/// The permission to continue a response: leases, all of which must hold. Clones share it.
#[derive(Clone, Debug)]
pub struct AuthorizationLease(Arc<[Arc<Lease>]>);

/// Makes leases, and shares those that are in use.
pub struct Leases {
    authorizer: Arc<Authorizer>,
    tokens: Arc<Tokens>,
    config: watch::Receiver<Arc<AuthenticationConfig>>,
    counts: Arc<AccessCounters>,
    /// The longest time between two checks.
    every: Duration,
    /// Limits the checks in progress to [`MOST_AT_ONCE`].
    places: Arc<FairSemaphore<ReviewFlow>>,
    permissions: Mutex<Table>,
    of_tokens: Mutex<Table>,
}

/// The leases in use, by the key of the permission or token.
#[derive(Default)]
struct Table {
    leases: HashMap<CacheKey, Weak<Lease>>,
    /// The number of entries at which leases without a holder are removed.
    clear_at: usize,
}

/// One permission or credential, shared by all of its holders.
pub struct Lease {
    check: Check,
    counts: Arc<AccessCounters>,
    places: Arc<FairSemaphore<ReviewFlow>>,
    every: Duration,
    /// The fraction of `every` by which each check is earlier, from 0 to 0.2.
    sooner: f64,
    /// When the credential expires, by the `exp` claim or the notAfter of the certificate; `None`: it has no such time.
    expires: Option<Instant>,
    times: Mutex<Times>,
    /// Whether a check has found the credential or permission invalid. It never becomes valid again.
    is_ended: AtomicBool,
    /// Is locked during a check, so that the other holders wait for its result.
    turn: sync::Mutex<()>,
}

/// How a lease is checked.
enum Check {
    Permission {
        authorizer: Arc<Authorizer>,
        request: AccessReviewRequest,
    },
    /// The permission in some namespaces. A change of these namespaces ends the response by other means.
    Namespaces {
        namespaces: Arc<dyn NamespacePermissions>,
        flow: ReviewFlow,
    },
    Token {
        tokens: Arc<Tokens>,
        token: HeldToken,
        identity: Arc<Identity>,
    },
    Certificate {
        peer: Arc<Peer>,
        config: watch::Receiver<Arc<AuthenticationConfig>>,
        identity: Arc<Identity>,
    },
    FrontProxy {
        peer: Arc<Peer>,
        config: watch::Receiver<Arc<AuthenticationConfig>>,
    },
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Checked {
    Valid,
    Invalid,
    /// The API server did not decide.
    Unknown,
}

#[derive(Clone, Copy)]
struct Times {
    /// The time of the next check.
    due: Instant,
    /// The time of the last check with the result `Valid`.
    confirmed: Instant,
}

impl fmt::Debug for Lease {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Lease").field("is_ended", &self.is_ended).finish_non_exhaustive()
    }
}

impl fmt::Debug for Leases {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Leases").field("every", &self.every).finish_non_exhaustive()
    }
}

impl Table {
    /// The lease of this key if it is in use, has not ended, and `fits`; otherwise a new one, which `make` creates.
    fn shared(&mut self, key: CacheKey, fits: impl FnOnce(&Lease) -> bool, make: impl FnOnce() -> Lease) -> Arc<Lease> {
        let shared = self.leases.get(&key).and_then(Weak::upgrade);
        if let Some(shared) = shared.filter(|shared| !shared.is_ended.load(Ordering::Relaxed) && fits(shared)) {
            return shared;
        }
        // Only after the table has doubled, so that most calls are cheap.
        if self.leases.len() >= self.clear_at {
            self.leases.retain(|_, lease| lease.strong_count() > 0);
            self.clear_at = (self.leases.len() * 2).max(64);
        }
        let lease = Arc::new(make());
        self.leases.insert(key, Arc::downgrade(&lease));
        lease
    }
}

impl Leases {
    /// Leases that are checked at least once in `every`. `config` has the current certificate authorities, and `counts`
    /// counts the watches that end.
    pub fn new(
        authorizer: Arc<Authorizer>,
        tokens: Arc<Tokens>,
        config: watch::Receiver<Arc<AuthenticationConfig>>,
        counts: Arc<AccessCounters>,
        every: Duration,
    ) -> Leases {
        let places = Arc::new(FairSemaphore::of_places(MOST_AT_ONCE, 0));
        let (permissions, of_tokens) = Default::default();
        Leases { authorizer, tokens, config, counts, every, places, permissions, of_tokens }
    }

    /// The reviewer of tokens.
    pub(super) fn tokens(&self) -> &Tokens {
        &self.tokens
    }

    /// The authorizer, which decides about permissions.
    pub fn authorizer(&self) -> &Authorizer {
        &self.authorizer
    }

    /// The lease of a request that was just authorized: `credential` authenticated `identity`, and `decided` are the
    /// permissions that were checked.
    pub fn lease(
        &self,
        credential: &Credential,
        identity: &Arc<Identity>,
        decided: &RequiredPermissions,
    ) -> AuthorizationLease {
        let permissions = decided.iter().filter_map(|attributes| self.permission(identity, &attributes));
        let some = decided.some().map(|(namespaces, _)| {
            let check = Check::Namespaces { namespaces: namespaces.clone(), flow: ReviewFlow::user(&identity.user) };
            Arc::new(Lease::new(self, check, &[0; 32], None))
        });
        AuthorizationLease(self.credential(credential, identity).into_iter().chain(permissions).chain(some).collect())
    }

    /// Checks whether a credential still authenticates `identity`, without the cache. `None` if the API server does not
    /// decide.
    pub async fn confirm(&self, credential: &Credential, identity: &Arc<Identity>) -> Option<bool> {
        let Some(check) = self.check(credential, identity) else { return Some(true) };
        match check.run().await {
            Checked::Valid => Some(true),
            Checked::Invalid => Some(false),
            Checked::Unknown => None,
        }
    }

    /// The lease of a permission, shared by all requests that need the same one. `None` if the permission needs no
    /// review.
    fn permission(&self, identity: &Identity, attributes: &Attributes) -> Option<Arc<Lease>> {
        let request = self.authorizer.review_request(identity, attributes)?;
        let key = request.key;
        let make = || {
            let check = Check::Permission { authorizer: self.authorizer.clone(), request };
            Lease::new(self, check, &key, None)
        };
        let mut table = self.permissions.lock().unwrap_or_else(PoisonError::into_inner);
        Some(table.shared(key, |_| true, make))
    }

    /// The lease of a credential. That of a token is shared by all requests that use it. `None` for anonymous users.
    fn credential(&self, credential: &Credential, identity: &Arc<Identity>) -> Option<Arc<Lease>> {
        let check = self.check(credential, identity)?;
        match credential {
            Credential::Token(token) => {
                let key = self.tokens.key_of(token);
                // The user of a token can change. Another user than that of the request has another lease.
                let is_same =
                    |lease: &Lease| matches!(&lease.check, Check::Token { identity: known, .. } if known == identity);
                let make = || Lease::new(self, check, &key, expires_in(token).map(after_now));
                let mut table = self.of_tokens.lock().unwrap_or_else(PoisonError::into_inner);
                Some(table.shared(key, is_same, make))
            }
            Credential::Certificate(peer) | Credential::FrontProxy(peer) => {
                let left =
                    peer.not_after().map(|end| Duration::from_secs(end.saturating_sub(UnixTime::now().as_secs())));
                // The key only spreads the times of checks. Connections begin at different times anyway, so all have
                // the same key.
                Some(Arc::new(Lease::new(self, check, &[0; 32], left.map(after_now))))
            }
            Credential::None => None,
        }
    }

    /// How a credential is checked again; `None` for anonymous users, who have none.
    fn check(&self, credential: &Credential, identity: &Arc<Identity>) -> Option<Check> {
        let (config, identity) = (self.config.clone(), identity.clone());
        Some(match credential {
            Credential::Token(token) => Check::Token { tokens: self.tokens.clone(), token: token.clone(), identity },
            Credential::Certificate(peer) => Check::Certificate { peer: peer.clone(), config, identity },
            Credential::FrontProxy(peer) => Check::FrontProxy { peer: peer.clone(), config },
            Credential::None => return None,
        })
    }
}

/// The time when `left` has passed from now. If an `Instant` cannot represent it, a time that never comes.
fn after_now(left: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(left).unwrap_or(now + Duration::from_secs(u64::from(u32::MAX)))
}

impl AuthorizationLease {
    /// A lease without checks, for servers without access control.
    pub fn forever() -> AuthorizationLease {
        AuthorizationLease([].into())
    }

    /// The time of the next check; `None`: never.
    pub fn due(&self) -> Option<Instant> {
        self.0.iter().map(|lease| lease.times().due).min()
    }

    /// Whether a part must be checked now. False if another holder has checked it in the meantime.
    pub fn is_due(&self) -> bool {
        self.0.iter().any(|lease| lease.is_due())
    }

    /// Bytes of its permissions in memory. A permission that several holders share counts for each of them.
    pub fn held_bytes(&self) -> usize {
        self.0.iter().map(|lease| lease.check.held_bytes()).sum()
    }

    /// Checks the parts that are due. Returns false if a part is not valid any more; then it stays false.
    pub async fn renew(&self) -> bool {
        for lease in self.0.iter() {
            if lease.is_due() && !lease.renew().await {
                return false;
            }
        }
        true
    }
}

impl Lease {
    /// A lease whose credential or permission was checked just now. `key` spreads the times of checks. `expires`: when
    /// the credential expires; `None` for a permission, and for a credential without such a time.
    fn new(leases: &Leases, check: Check, key: &CacheKey, expires: Option<Instant>) -> Lease {
        let now = Instant::now();
        let mut lease = Lease {
            check,
            counts: leases.counts.clone(),
            places: leases.places.clone(),
            every: leases.every,
            // The hash is as good as a random number.
            sooner: 0.2 * f64::from(key[0]) / 256.0,
            expires,
            times: Mutex::new(Times { due: now, confirmed: now }),
            is_ended: AtomicBool::new(false),
            turn: sync::Mutex::new(()),
        };
        lease.times = Mutex::new(Times { due: lease.next(now), confirmed: now });
        lease
    }

    /// The time of the next check, if one has succeeded at `now`.
    fn next(&self, now: Instant) -> Instant {
        let regular = now + self.every.mul_f64(1.0 - self.sooner);
        match self.expires {
            Some(expires) if expires > now => regular.min(expires),
            Some(_) => regular.min(now + AFTER_EXPIRY),
            None => regular,
        }
    }

    /// Whether [`Lease::renew`] must be called before the lease is used again: a check is due, or the lease has ended.
    fn is_due(&self) -> bool {
        self.is_ended.load(Ordering::Relaxed) || self.times().due <= Instant::now()
    }

    /// Checks the lease again if that is due. Returns false, and counts a watch that ends, if it has ended.
    async fn renew(&self) -> bool {
        let _turn = self.turn.lock().await;
        if self.is_ended.load(Ordering::Relaxed) {
            self.counts.count_revocation();
            return false;
        }
        let times = self.times();
        if times.due > Instant::now() {
            return true;
        }
        let checked = self.run_check().await;
        let now = Instant::now();
        let is_expired = self.expires.is_some_and(|expires| expires <= now);
        let next = match checked {
            Checked::Valid => Some(Times { due: self.next(now), confirmed: now }),
            Checked::Unknown if !is_expired && now.duration_since(times.confirmed) < self.every + PATIENCE => {
                Some(Times { due: now + AFTER_NO_RESULT, confirmed: times.confirmed })
            }
            Checked::Unknown | Checked::Invalid => None,
        };
        match next {
            Some(next) => *self.times.lock().unwrap_or_else(PoisonError::into_inner) = next,
            None => {
                self.is_ended.store(true, Ordering::Relaxed);
                self.counts.count_revocation();
            }
        }
        next.is_some()
    }

    /// Checks whether the credential or permission is still valid. A check that asks the API server waits for its turn,
    /// and is `Unknown` after [`LONGEST_CHECK`].
    async fn run_check(&self) -> Checked {
        let is_over = || self.expires.is_some_and(|expires| expires <= Instant::now());
        match &self.check {
            // Nothing can extend a certificate.
            Check::Certificate { .. } | Check::FrontProxy { .. } if is_over() => Checked::Invalid,
            Check::Certificate { .. } | Check::FrontProxy { .. } => self.check.run().await,
            Check::Permission { .. } | Check::Namespaces { .. } | Check::Token { .. } => {
                let check = async {
                    let _place = self.places.acquire_one(&self.check.flow()).await;
                    self.check.run().await
                };
                timeout(LONGEST_CHECK, check).await.unwrap_or(Checked::Unknown)
            }
        }
    }

    /// The times of the last successful check and of the next one.
    fn times(&self) -> Times {
        *self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Check {
    /// Memory of the check with its lease, in bytes; 0 for credentials.
    fn held_bytes(&self) -> usize {
        match self {
            Check::Permission { request, .. } => size_of::<Lease>() + request.held_bytes(),
            Check::Namespaces { .. } => size_of::<Lease>(),
            // All requests of a token or a connection share its lease, so it is not counted for each.
            Check::Token { .. } | Check::Certificate { .. } | Check::FrontProxy { .. } => 0,
        }
    }

    /// The flow in whose turn the check runs: that of the user, or of the address of a front proxy.
    fn flow(&self) -> ReviewFlow {
        match self {
            Check::Permission { request, .. } => request.flow(),
            Check::Namespaces { flow, .. } => flow.clone(),
            Check::Token { identity, .. } | Check::Certificate { identity, .. } => ReviewFlow::user(&identity.user),
            Check::FrontProxy { peer, .. } => ReviewFlow::address(peer.address),
        }
    }

    /// Runs the check once: with a review, or with the current certificate authorities. A token that authenticates
    /// another user now is invalid.
    async fn run(&self) -> Checked {
        let checked = |holds: bool| if holds { Checked::Valid } else { Checked::Invalid };
        match self {
            Check::Permission { authorizer, request } => match authorizer.decide_request(request).await {
                Decision::Allowed => Checked::Valid,
                Decision::Denied(_) => Checked::Invalid,
                Decision::Unavailable(_) => Checked::Unknown,
            },
            Check::Namespaces { namespaces, .. } => match namespaces.clone().review(true).await {
                Ok(()) => Checked::Valid,
                Err(NoPermittedNamespace::Nowhere | NoPermittedNamespace::TooMany(_)) => Checked::Invalid,
                Err(NoPermittedNamespace::Undecided(_)) => Checked::Unknown,
            },
            Check::Token { tokens, token, identity } => match tokens.confirm(token, &identity.user).await {
                TokenReviewResult::Authenticated(now) => checked(now == *identity),
                TokenReviewResult::Rejected { .. } => Checked::Invalid,
                TokenReviewResult::Unavailable(_) | TokenReviewResult::RateLimited => Checked::Unknown,
            },
            Check::Certificate { peer, config, identity } => {
                let config = config.borrow().clone();
                checked(peer.user(&config).as_ref() == Some(identity))
            }
            Check::FrontProxy { peer, config } => {
                let config = config.borrow().clone();
                checked(peer.is_front_proxy(&config))
            }
        }
    }
}
