//! Authenticates and authorizes requests, in kube-apiserver's order.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::HeaderMap;
use serde_json::Value;
use tokio::sync::watch;

use super::attributes::{Attributes, RequiredPermissions};
use super::authentication::{self, Credential, Found, Peer, Recognized};
use super::authorization::{ALWAYS_ALLOWED, Authorizer, Decision};
use super::backend::Backend;
use super::counts::{self, Authenticated, Counts};
use super::error::{Refusal, forbidden};
use super::identity::Identity;
use super::lease::{self, AuthorizationLease, Leases};
use super::scope::{About, ThroughView};
use super::secret::Secret;
use super::tokens::Tokens;
use super::trust::Trust;
use crate::model::Gvr;
use crate::registry::upstream::Upstream;
use crate::request::RequestInfo;

/// The audience of tokens for this server, unless another one is named.
pub const AUDIENCE: &str = "fieldcache.dev";

/// Whether the API server knows a field of a resource.
pub type KnownField = Arc<dyn Fn(&Gvr, &str) -> bool + Send + Sync>;

/// Settings of [`Access`].
#[derive(Clone)]
pub struct AccessSettings {
    /// Audiences of valid tokens; a token needs one of them.
    pub audiences: Vec<String>,
    /// Whether tokens for the API server itself are valid too. A server that sees such a token can use it there.
    pub accept_api_audience: bool,
    /// Fields that the API server knows; reviews leave out requirements on others.
    pub known_field: KnownField,
    /// The longest time after which the credential and the permissions of a watch are checked again.
    pub recheck: Duration,
}

impl Default for AccessSettings {
    fn default() -> AccessSettings {
        AccessSettings {
            audiences: vec![AUDIENCE.to_owned()],
            accept_api_audience: false,
            known_field: Arc::new(|_, _| true),
            recheck: lease::EVERY,
        }
    }
}

/// Authenticates and authorizes requests.
pub struct Access {
    settings: AccessSettings,
    trust: watch::Sender<Arc<Trust>>,
    tokens: Arc<Tokens>,
    authorizer: Arc<Authorizer>,
    leases: Arc<Leases>,
    counts: Arc<Counts>,
}

impl fmt::Debug for Access {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Access").field("audiences", &self.settings.audiences).finish_non_exhaustive()
    }
}

/// An authorized request.
#[derive(Clone, Debug)]
pub struct Admitted {
    /// The caller.
    pub identity: Arc<Identity>,
    /// The permissions that were checked; see [`About`].
    decided: RequiredPermissions,
    credential: Credential,
    leases: Arc<Leases>,
}

impl Admitted {
    /// A lease for a long response.
    pub fn lease(&self) -> AuthorizationLease {
        self.leases.lease(&self.credential, &self.identity, &self.decided)
    }

    /// Whether the caller has another permission too; false without a decision.
    pub async fn may(&self, attributes: &Attributes) -> bool {
        self.leases.authorizer().decide(&self.identity, attributes).await == Decision::Allowed
    }

    /// The rejection of a request whose credential is no longer valid.
    pub fn unauthorized(&self) -> Refusal {
        self.leases.tokens().unauthorized()
    }

    /// Whether the credential is still valid, without the cache; `None` if that is not known.
    pub async fn confirm(&self) -> Option<bool> {
        self.leases.confirm(&self.credential, &self.identity).await
    }
}

/// A request that is not authenticated yet.
pub struct Arrived<'a> {
    /// The peer of its connection, if known.
    pub peer: Option<&'a Arc<Peer>>,
    /// Its headers.
    pub headers: &'a HeaderMap,
    /// What it asks for.
    pub info: &'a RequestInfo,
    /// Receives the identity of the caller as soon as it is authenticated.
    pub known: Option<&'a OnceLock<Arc<Identity>>>,
    /// Which permissions it needs.
    pub about: About<'a>,
}

/// Why a View is not for a caller that may send the request elsewhere. It is the same for every View, also for a missing one.
const NOT_USABLE: &str = "the View is missing, or it is not served, or it needs this permission";

impl Access {
    /// Sends reviews to the API server behind `upstream`.
    ///
    /// # Errors
    /// If the system has no randomness.
    pub fn new(upstream: Arc<dyn Upstream>, settings: AccessSettings) -> Result<Access, String> {
        let counts = Arc::new(Counts::default());
        let secret = Arc::new(Secret::new()?);
        let backend = Arc::new(Backend::new(upstream, counts.clone()));
        let tokens = Tokens::new(
            backend.clone(),
            counts.clone(),
            secret.clone(),
            settings.audiences.clone(),
            settings.accept_api_audience,
        );
        let authorizer = Arc::new(Authorizer::new(backend, counts.clone(), secret));
        let (trust, tokens) = (watch::Sender::default(), Arc::new(tokens));
        let following = trust.subscribe();
        let leases = Leases::new(authorizer.clone(), tokens.clone(), following, counts.clone(), settings.recheck);
        Ok(Access { settings, trust, tokens, authorizer, leases: Arc::new(leases), counts })
    }

    /// Replaces the certificate authorities by those of `data`, the data of ConfigMap `kube-system/extension-apiserver-authentication`. An
    /// invalid part is logged and left out.
    pub fn set_trust(&self, data: &Value) {
        let (mut read, problems) = Trust::read(data);
        for problem in problems {
            tracing::warn!(problem, "a part of ConfigMap kube-system/extension-apiserver-authentication is of no use");
        }
        if self.trust.borrow().generation == 0 {
            tracing::info!("whom the cluster trusts has been read");
        }
        self.trust.send_modify(|held| {
            read.generation = held.generation + 1;
            *held = Arc::new(read);
        });
    }

    /// Whether the certificate authorities have been read. Everything else is requested when it is needed.
    ///
    /// # Errors
    /// What is missing.
    pub fn ready(&self) -> Result<(), String> {
        match self.trust.borrow().generation {
            0 => Err("ConfigMap kube-system/extension-apiserver-authentication has not been read".to_owned()),
            _ => Ok(()),
        }
    }

    /// Counters of decisions.
    pub fn counts(&self) -> &Arc<Counts> {
        &self.counts
    }

    /// The current certificate authorities.
    pub fn trust(&self) -> Arc<Trust> {
        self.trust.borrow().clone()
    }

    /// Whether an authenticated user has another permission.
    pub async fn may(&self, identity: &Identity, attributes: &Attributes) -> Decision {
        self.authorizer.decide(identity, attributes).await
    }

    /// Identifies the caller as far as that needs no review.
    pub fn recognize(&self, peer: Option<&Arc<Peer>>, headers: &HeaderMap) -> Recognized {
        authentication::recognize(&self.trust(), &self.tokens, peer, headers)
    }

    /// Whether a connection carries the requests of many users, each named by a front proxy.
    pub fn is_front_proxy(&self, peer: &Peer) -> bool {
        peer.is_front_proxy(&self.trust())
    }

    /// The user for whom a connection counts on which a request was authenticated: the user of that request. A connection of a front
    /// proxy carries requests of many users and counts for the front proxy.
    pub fn connection_user(&self, peer: Option<&Arc<Peer>>, identity: &Identity) -> String {
        match peer.and_then(|peer| peer.front_proxy(&self.trust())) {
            Some(name) => format!("front proxy {name}"),
            None => identity.user.clone(),
        }
    }

    /// Authenticates and authorizes a request, in kube-apiserver's order.
    ///
    /// # Errors
    /// [`Refusal`].
    pub async fn admit(&self, arrived: &Arrived<'_>) -> Result<Admitted, Refusal> {
        self.admit_recognized(arrived, self.recognize(arrived.peer, arrived.headers)).await
    }

    /// The same for a request that [`Access::recognize`] has identified before.
    ///
    /// # Errors
    /// [`Refusal`].
    pub async fn admit_recognized(&self, arrived: &Arrived<'_>, recognized: Recognized) -> Result<Admitted, Refusal> {
        // Upstream reads the path first of all.
        let named = arrived.info.resource()?;
        // Health checks inside of a View need authentication: only authenticated callers learn whether it exists.
        let is_health =
            matches!(arrived.about, About::Request) && named.is_none() && ALWAYS_ALLOWED.contains(&&*arrived.info.path);
        let (identity, credential) = self.identify(arrived, recognized, is_health).await?;
        // Only now: selectors of callers that are not known are not read.
        let mut attributes = Attributes::of(arrived.info)?;
        attributes.keep_fields(&*self.settings.known_field);
        let attributes = Arc::new(attributes);
        let decided = match arrived.about {
            About::Request => {
                let decided = RequiredPermissions::of(attributes);
                if let Some((denied, reason)) = self.first_denied(&identity, &decided).await? {
                    return Err(forbidden(&identity, &denied, reason));
                }
                decided
            }
            About::View(view) => self.admit_through(&identity, &attributes, view).await?,
        };
        let leases = self.leases.clone();
        Ok(Admitted { identity, decided, credential, leases })
    }

    /// Why a user of a View may not send another request through it; `None`: the user may. Decided as for that request.
    ///
    /// # Errors
    /// [`Refusal`] without a decision.
    pub async fn denied_through(
        &self,
        identity: &Identity,
        mut attributes: Attributes,
        view: ThroughView<'_>,
    ) -> Result<Option<String>, Refusal> {
        attributes.keep_fields(&*self.settings.known_field);
        attributes.bound_requirements();
        let decided = view.decided(&Arc::new(attributes));
        Ok(self.first_denied(identity, &decided).await?.map(|(_, reason)| reason))
    }

    /// The first of these permissions that the user does not have, and the reason.
    async fn first_denied(
        &self,
        identity: &Identity,
        wanted: &RequiredPermissions,
    ) -> Result<Option<(Attributes, String)>, Refusal> {
        for attributes in wanted.iter() {
            match self.authorizer.decide(identity, &attributes).await {
                Decision::Allowed => {}
                Decision::Denied(reason) => return Ok(Some((attributes.into_owned(), reason))),
                Decision::Unanswered(why) => return Err(Refusal::without_decision(&why)),
            }
        }
        Ok(None)
    }

    /// Authorizes a request through a View.
    ///
    /// A caller that may not use the View gets the same rejection whether or not the View exists, and whatever it shows. The rejection is made of
    /// the request as it was sent, after the same two reviews, so only the caller's own permissions make a difference.
    async fn admit_through(
        &self,
        identity: &Identity,
        attributes: &Arc<Attributes>,
        view: ThroughView<'_>,
    ) -> Result<RequiredPermissions, Refusal> {
        let decided = view.decided(attributes);
        let Some((denied, reason)) = self.first_denied(identity, &decided).await? else { return Ok(decided) };
        let asked_already =
            |about: &Attributes| (denied == *about).then(|| std::future::ready(Decision::Denied(reason.clone())));
        let decide = async |about: &Attributes| match asked_already(about) {
            Some(decision) => decision.await,
            None => self.authorizer.decide(identity, about).await,
        };
        let (by_use, by_own) = futures::future::join(decide(view.using), decide(attributes)).await;
        match (by_use, by_own) {
            (Decision::Unanswered(why), _) | (_, Decision::Unanswered(why)) => Err(Refusal::without_decision(&why)),
            (Decision::Allowed, _) => Err(forbidden(identity, &denied, reason)),
            (Decision::Denied(_), Decision::Allowed) => Err(forbidden(identity, view.using, NOT_USABLE.to_owned())),
            (Decision::Denied(_), Decision::Denied(reason)) => {
                let name = view.using.resource.as_ref().map_or("", |about| &*about.name);
                let mut also = format!("and cannot use the View {}", crate::model::quote(name));
                if !reason.is_empty() {
                    also = format!("{also}: {reason}");
                }
                Err(forbidden(identity, attributes, also))
            }
        }
    }

    /// Authenticates the caller, and rejects impersonation. `may_be_nobody`: anonymous callers are permitted.
    ///
    /// # Errors
    /// [`Refusal`].
    async fn identify(
        &self,
        arrived: &Arrived<'_>,
        recognized: Recognized,
        may_be_nobody: bool,
    ) -> Result<(Arc<Identity>, Credential), Refusal> {
        let trust = self.trust();
        // A certificate has precedence over a token, so a certificate that cannot be verified yet rejects the request. Health checks are
        // always permitted, so that callers with a certificate learn that the server is not ready.
        if !may_be_nobody && trust.generation == 0 && arrived.peer.is_some_and(|peer| !peer.chain.is_empty()) {
            self.counts.authenticated(counts::Method::Certificate, Authenticated::Error);
            return Err(Refusal::Unjudged);
        }
        let found =
            authentication::authenticate(recognized, &self.tokens, &self.counts, arrived.peer, arrived.headers).await;
        let (identity, credential) = match found {
            Found::Somebody(identity, credential) => (identity, credential),
            Found::Wrong => return Err(self.tokens.unauthorized()),
            Found::Unanswered => return Err(Refusal::Unreviewed),
            Found::Limited => return Err(Refusal::TooManyFailures),
        };
        if let Some(known) = arrived.known {
            let _ = known.set(identity.clone());
        }
        if identity.is_anonymous() {
            let result = if may_be_nobody { Authenticated::Success } else { Authenticated::Failure };
            self.counts.authenticated(counts::Method::None, result);
            if !may_be_nobody {
                return Err(self.tokens.unauthorized());
            }
        }
        if let Some(header) = arrived.headers.keys().find(|name| name.as_str().starts_with("impersonate-")) {
            return Err(Refusal::Impersonation(header.as_str().to_owned()));
        }
        Ok((identity, credential))
    }
}
