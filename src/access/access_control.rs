//! Authenticates and authorizes requests, in kube-apiserver's order.

use std::borrow::Cow;
use std::fmt;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::future::{Either, select};
use http::HeaderMap;
use serde_json::Value;
use tokio::sync::watch;

use super::attributes::{Attributes, RequiredPermissions};
use super::authentication::{self, AuthenticationResult, Credential, LocalAuthentication, Peer};
use super::authentication_config::AuthenticationConfig;
use super::authorization::{ALWAYS_ALLOWED, Authorizer, Decision};
use super::backend::Backend;
use super::cache_key_hasher::CacheKeyHasher;
use super::counters::{AccessCounters, AttemptResult, AuthenticationMethod};
use super::error::{AccessError, forbidden};
use super::identity::Identity;
use super::lease::{self, AuthorizationLease, Leases};
use super::namespace_permissions::{NamespacePermissions, NoPermittedNamespace};
use super::scope::{AuthorizationScope, ViewScope};
use super::tokens::Tokens;
use crate::model::Gvr;
use crate::registry::upstream::Upstream;
use crate::request::RequestInfo;

/// The audience of tokens for this server, unless another one is named.
pub const AUDIENCE: &str = "fieldcache.dev";

/// Returns whether the API server knows a field of a resource, so that a review can have requirements on it.
pub type KnownField = Arc<dyn Fn(&Gvr, &str) -> bool + Send + Sync>;

/// Settings of [`AccessControl`].
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
pub struct AccessControl {
    settings: AccessSettings,
    config: watch::Sender<Arc<AuthenticationConfig>>,
    tokens: Arc<Tokens>,
    authorizer: Arc<Authorizer>,
    leases: Arc<Leases>,
    counts: Arc<AccessCounters>,
}

impl fmt::Debug for AccessControl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("AccessControl").field("audiences", &self.settings.audiences).finish_non_exhaustive()
    }
}

/// An authorized request.
#[derive(Clone, Debug)]
pub struct AuthorizedRequest {
    /// The caller.
    pub identity: Arc<Identity>,
    /// The permissions that were checked; see [`AuthorizationScope`].
    decided: RequiredPermissions,
    pub(super) credential: Credential,
    pub(super) leases: Arc<Leases>,
}

impl AuthorizedRequest {
    /// A lease for a long response: the credential and the permissions of this request, to be checked again while the
    /// response lasts.
    pub fn lease(&self) -> AuthorizationLease {
        self.leases.lease(&self.credential, &self.identity, &self.decided)
    }

    /// Whether the sender of the request has the credentials, and not only its program: a web page of any site can make
    /// a browser send a client certificate, but no token that the page does not know. True also behind a front proxy,
    /// which has authenticated the user by its own rules.
    pub fn has_own_credential(&self) -> bool {
        match self.credential {
            Credential::Token(_) | Credential::FrontProxy(_) => true,
            Credential::Certificate(_) | Credential::None => false,
        }
    }

    /// Whether the client certificate of the connection authenticated the request.
    pub fn is_by_certificate(&self) -> bool {
        matches!(self.credential, Credential::Certificate(_))
    }

    /// Whether a front proxy authenticated the user of the request.
    pub fn is_by_front_proxy(&self) -> bool {
        matches!(self.credential, Credential::FrontProxy(_))
    }

    /// Whether the permission in some namespaces has authorized the request, and not that in all of them.
    pub fn is_of_some_namespaces(&self) -> bool {
        self.decided.some().is_some()
    }

    /// Whether the caller has another permission too; false also if the API server does not decide.
    pub async fn may(&self, attributes: &Attributes) -> bool {
        self.leases.authorizer().decide(&self.identity, attributes).await == Decision::Allowed
    }

    /// The error for a request whose credential is no longer valid.
    pub fn unauthorized(&self) -> AccessError {
        self.leases.tokens().unauthorized()
    }

    /// Checks again whether the credential is valid, without the cache. `None` if the API server does not decide.
    pub async fn confirm(&self) -> Option<bool> {
        self.leases.confirm(&self.credential, &self.identity).await
    }
}

/// A request before its authentication.
pub struct UnauthenticatedRequest<'a> {
    /// The peer of its connection, if known.
    pub peer: Option<&'a Arc<Peer>>,
    /// Its headers.
    pub headers: &'a HeaderMap,
    /// Its parsed path and query.
    pub info: &'a RequestInfo,
    /// Receives the identity of the caller as soon as it is authenticated.
    pub known: Option<&'a OnceLock<Arc<Identity>>>,
    /// Whether it goes through a View, and so which permissions it needs.
    pub scope: AuthorizationScope<'a>,
}

/// Where a user has a permission.
enum WherePermitted {
    /// In all namespaces.
    All,
    /// In some namespaces.
    Some,
    /// In no namespace.
    Nowhere(Box<Denial>),
}

/// Why a user does not have a permission.
struct Denial {
    /// The permission.
    permission: Attributes,
    /// The reason of the authorizer; see [`Decision::Denied`].
    reason: String,
    /// The limit because of which no namespace was reviewed, if that is so. Only callers that may use the View may
    /// learn it.
    limit: Option<String>,
}

/// The reason in the rejection of a caller that may not use the View, but may send the same request without it. The
/// reason is the same for every View, also for a missing one, so that it does not disclose which Views exist.
const NOT_USABLE: &str = "the View is missing, or it is not served, or it needs this permission";

impl AccessControl {
    /// An access control that sends its reviews to the API server of `upstream`.
    ///
    /// # Errors
    /// The system returns no random bytes.
    pub fn new(upstream: Arc<dyn Upstream>, settings: AccessSettings) -> Result<AccessControl, String> {
        let counts = Arc::new(AccessCounters::default());
        let hasher = Arc::new(CacheKeyHasher::new()?);
        let backend = Arc::new(Backend::new(upstream, counts.clone()));
        let tokens = Tokens::new(
            backend.clone(),
            counts.clone(),
            hasher.clone(),
            settings.audiences.clone(),
            settings.accept_api_audience,
        );
        let authorizer = Arc::new(Authorizer::new(backend, counts.clone(), hasher));
        let (config, tokens) = (watch::Sender::default(), Arc::new(tokens));
        let following = config.subscribe();
        let leases = Leases::new(authorizer.clone(), tokens.clone(), following, counts.clone(), settings.recheck);
        Ok(AccessControl { settings, config, tokens, authorizer, leases: Arc::new(leases), counts })
    }

    /// Replaces the certificate authorities and front proxies by those of `data`, the data of ConfigMap
    /// `kube-system/extension-apiserver-authentication`. Invalid parts are logged and left out.
    pub fn set_authentication_config(&self, data: &Value) {
        let (mut read, problems) = AuthenticationConfig::read(data);
        for problem in problems {
            tracing::warn!(
                problem,
                "ignoring an invalid part of ConfigMap kube-system/extension-apiserver-authentication"
            );
        }
        if self.config.borrow().generation == 0 {
            tracing::info!("client CA certificates read from ConfigMap kube-system/extension-apiserver-authentication");
        }
        self.config.send_modify(|current| {
            read.generation = current.generation + 1;
            *current = Arc::new(read);
        });
    }

    /// Checks that requests can be authenticated: the certificate authorities have been read. Reviews need no
    /// preparation.
    ///
    /// # Errors
    /// The ConfigMap with the authorities has not been read.
    pub fn ready(&self) -> Result<(), String> {
        match self.config.borrow().generation {
            0 => Err("ConfigMap kube-system/extension-apiserver-authentication has not been read".to_owned()),
            _ => Ok(()),
        }
    }

    /// The error for credentials that cannot be read, as for invalid ones.
    pub fn unauthorized(&self) -> AccessError {
        self.tokens.unauthorized()
    }

    /// The counters of decisions.
    pub fn counts(&self) -> &Arc<AccessCounters> {
        &self.counts
    }

    /// The current certificate authorities and front proxies.
    pub fn authentication_config(&self) -> Arc<AuthenticationConfig> {
        self.config.borrow().clone()
    }

    /// Decides by reviews, and caches their decisions.
    pub fn authorizer(&self) -> &Arc<Authorizer> {
        &self.authorizer
    }

    /// Decides whether an authenticated user may send a request with these attributes.
    pub async fn may(&self, identity: &Identity, attributes: &Attributes) -> Decision {
        self.authorizer.decide(identity, attributes).await
    }

    /// Authenticates the caller as far as that needs no review by the API server: by front proxy, by certificate, or by
    /// a cached token.
    pub fn authenticate_locally(&self, peer: Option<&Arc<Peer>>, headers: &HeaderMap) -> LocalAuthentication {
        authentication::authenticate_locally(&self.authentication_config(), &self.tokens, peer, headers)
    }

    /// Whether the peer of a connection is a trusted front proxy, so that the connection carries requests of many
    /// users.
    pub fn is_front_proxy(&self, peer: &Peer) -> bool {
        peer.is_front_proxy(&self.authentication_config())
    }

    /// The user for whom a connection counts towards the limits of connections, after a request of `identity` was
    /// authenticated on it: this user. A connection of a front proxy carries requests of many users and counts for the
    /// front proxy, until it becomes a WebSocket.
    pub fn connection_user(&self, peer: Option<&Arc<Peer>>, identity: &Identity) -> String {
        match peer.and_then(|peer| peer.front_proxy(&self.authentication_config())) {
            Some(name) => format!("front proxy {name}"),
            None => identity.user.clone(),
        }
    }

    /// Authenticates and authorizes a request, in kube-apiserver's order.
    ///
    /// # Errors
    /// The request is rejected, or the API server does not decide.
    pub async fn authorize(&self, arrived: &UnauthenticatedRequest<'_>) -> Result<AuthorizedRequest, AccessError> {
        self.authorize_with(arrived, self.authenticate_locally(arrived.peer, arrived.headers)).await
    }

    /// Like [`AccessControl::authorize`], for a request that was authenticated locally already, with the result
    /// `recognized`.
    ///
    /// # Errors
    /// The request is rejected, or the API server does not decide.
    pub async fn authorize_with(
        &self,
        arrived: &UnauthenticatedRequest<'_>,
        recognized: LocalAuthentication,
    ) -> Result<AuthorizedRequest, AccessError> {
        // Upstream validates the path first.
        let named = arrived.info.resource()?;
        // Health checks inside of a View need authentication: only authenticated callers learn whether it exists.
        let is_health = matches!(arrived.scope, AuthorizationScope::Request)
            && named.is_none()
            && ALWAYS_ALLOWED.contains(&&*arrived.info.path);
        let (identity, credential) = self.identify(arrived, recognized, is_health).await?;
        // After the authentication, because selectors of unauthenticated callers are not parsed.
        let mut attributes = Attributes::from_request(arrived.info)?;
        attributes.keep_fields(&*self.settings.known_field);
        let attributes = Arc::new(attributes);
        let decided = match arrived.scope {
            AuthorizationScope::Request => {
                let decided = RequiredPermissions::for_request(attributes);
                if let Some(denial) = self.first_denied(&identity, decided.iter()).await? {
                    return Err(forbidden(&identity, &denial.permission, denial.reason));
                }
                decided
            }
            AuthorizationScope::View(view) => self.authorize_through(&identity, &attributes, view).await?,
        };
        let leases = self.leases.clone();
        Ok(AuthorizedRequest { identity, decided, credential, leases })
    }

    /// Decides whether the user may send a request with these attributes through a View, as if the user had sent it.
    /// Returns the reason why not; `None`: the user may.
    ///
    /// # Errors
    /// The API server does not decide.
    pub async fn denial_through(
        &self,
        identity: &Arc<Identity>,
        mut attributes: Attributes,
        view: ViewScope<'_>,
    ) -> Result<Option<String>, AccessError> {
        attributes.keep_fields(&*self.settings.known_field);
        attributes.bound_requirements();
        let decided = view.required_permissions(identity, &Arc::new(attributes));
        Ok(self.decide_through(identity, decided).await?.err().map(|denial| denial.reason))
    }

    /// The permissions of `wanted` that suffice and that the user has: the alternative, or all of the others. The inner
    /// error: the first permission that the user does not have, and the authorizer's reason. With an alternative, that is
    /// the alternative itself: the others would name namespaces that the user may not know.
    ///
    /// # Errors
    /// The API server does not decide about one of them.
    async fn decide_through(
        &self,
        identity: &Identity,
        wanted: RequiredPermissions,
    ) -> Result<Result<RequiredPermissions, Denial>, AccessError> {
        if let Some((namespaces, request)) = wanted.some() {
            return Ok(match self.decide_some(identity, (namespaces, request)).await? {
                WherePermitted::All => Ok(RequiredPermissions::for_request(Arc::new(request.clone()))),
                WherePermitted::Some => Ok(wanted),
                WherePermitted::Nowhere(denial) => Err(*denial),
            });
        }
        if let Some(alternative) = wanted.alternative() {
            // At the same time, so that a rejection takes as long as that of any other View.
            let first = self.first_denied(identity, wanted.iter().take(1));
            let (whole, first) = futures::future::join(self.first_denied(identity, alternative.iter()), first).await;
            let Some(denied) = whole? else { return Ok(Ok(alternative)) };
            let is_denied = first?.is_some() || self.first_denied(identity, wanted.iter().skip(1)).await?.is_some();
            return Ok(if is_denied { Err(denied) } else { Ok(wanted) });
        }
        Ok(match self.first_denied(identity, wanted.iter()).await? {
            Some(denied) => Err(denied),
            None => Ok(wanted),
        })
    }

    /// Where the user has the permission for `request`: in all namespaces, or in some of `namespaces`. Both are reviewed
    /// at the same time, so that a rejection takes as long as that of any other View.
    ///
    /// # Errors
    /// The API server does not decide.
    async fn decide_some(
        &self,
        identity: &Identity,
        (namespaces, request): (&Arc<dyn NamespacePermissions>, &Attributes),
    ) -> Result<WherePermitted, AccessError> {
        let whole = pin!(self.authorizer.decide(identity, request));
        // Begins when it is polled first: not if the decision about all namespaces is cached. The reviews of single
        // namespaces end as soon as they are not needed.
        let some = pin!(async { namespaces.clone().review(false).await });
        let (whole, some) = match select(whole, some).await {
            Either::Left((Decision::Denied(reason), some)) => (Decision::Denied(reason), some.await),
            Either::Left((decided @ (Decision::Allowed | Decision::Unavailable(_)), _)) => (decided, Ok(())),
            Either::Right((some, whole)) => (whole.await, some),
        };
        let reason = match whole {
            Decision::Allowed => {
                // A permission for some of the objects is none for all of them.
                if request.is_of_all_objects() {
                    namespaces.record_whole(true);
                }
                return Ok(WherePermitted::All);
            }
            Decision::Unavailable(why) => return Err(AccessError::without_decision(&why)),
            Decision::Denied(reason) => reason,
        };
        namespaces.record_whole(false);
        let nowhere =
            |reason, limit| WherePermitted::Nowhere(Box::new(Denial { permission: request.clone(), reason, limit }));
        Ok(match some {
            Ok(()) => WherePermitted::Some,
            Err(NoPermittedNamespace::Nowhere) => nowhere(reason, None),
            Err(NoPermittedNamespace::TooMany(limit)) => nowhere(reason, Some(limit)),
            Err(NoPermittedNamespace::Undecided(why)) => return Err(AccessError::without_decision(&why)),
        })
    }

    /// The denial of the first of these permissions that the user does not have; `None`: the user has all.
    ///
    /// # Errors
    /// The API server does not decide about one of them.
    async fn first_denied(
        &self,
        identity: &Identity,
        wanted: impl Iterator<Item = Cow<'_, Attributes>>,
    ) -> Result<Option<Denial>, AccessError> {
        for attributes in wanted {
            match self.authorizer.decide(identity, &attributes).await {
                Decision::Allowed => {}
                Decision::Denied(reason) => {
                    return Ok(Some(Denial { permission: attributes.into_owned(), reason, limit: None }));
                }
                Decision::Unavailable(why) => return Err(AccessError::without_decision(&why)),
            }
        }
        Ok(None)
    }

    /// Authorizes a request through a View.
    ///
    /// Returns the permissions that were checked.
    ///
    /// A caller that may not use the View gets the same rejection whether or not the View exists, and whatever the View
    /// shows. For the rejection, two permissions are reviewed: to use the View, and to send the request without the
    /// View. So only the caller's own permissions make a difference.
    ///
    /// # Errors
    /// The caller does not have a permission, or the API server does not decide.
    async fn authorize_through(
        &self,
        identity: &Arc<Identity>,
        attributes: &Arc<Attributes>,
        view: ViewScope<'_>,
    ) -> Result<RequiredPermissions, AccessError> {
        let required = view.required_permissions(identity, attributes);
        // Without a decision, a caller that may not use the View gets the usual rejection too: a View that does not exist
        // needs fewer decisions.
        let denial = match self.decide_through(identity, required).await {
            Ok(Ok(decided)) => return Ok(decided),
            Ok(Err(denial)) => Ok(denial),
            Err(undecided) => Err(undecided),
        };
        // One of the two permissions can be the one that was just denied. It is not reviewed again.
        let decide = async |about: &Attributes| match &denial {
            Ok(denial) if denial.permission == *about => Decision::Denied(denial.reason.clone()),
            Ok(_) | Err(_) => self.authorizer.decide(identity, about).await,
        };
        let (by_use, by_own) = futures::future::join(decide(view.using), decide(attributes)).await;
        match (by_use, by_own) {
            (Decision::Unavailable(why), _) | (_, Decision::Unavailable(why)) => {
                Err(AccessError::without_decision(&why))
            }
            // The caller may use the View, and so may learn which permission is missing.
            (Decision::Allowed, _) => Err(match denial {
                Ok(Denial { permission, reason, limit }) => forbidden(identity, &permission, limit.unwrap_or(reason)),
                Err(undecided) => undecided,
            }),
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

    /// Authenticates the caller, given what is `recognized` locally, and rejects impersonation. Anonymous callers are
    /// rejected unless `allows_anonymous`.
    ///
    /// # Errors
    /// The caller is not authenticated, or the API server does not review the token.
    async fn identify(
        &self,
        arrived: &UnauthenticatedRequest<'_>,
        recognized: LocalAuthentication,
        allows_anonymous: bool,
    ) -> Result<(Arc<Identity>, Credential), AccessError> {
        let config = self.authentication_config();
        // A certificate has precedence over a token, so a certificate that cannot be verified yet rejects the request.
        // Health checks are always permitted, so that callers with a certificate learn that the server is not ready.
        if !allows_anonymous && config.generation == 0 && arrived.peer.is_some_and(|peer| !peer.chain.is_empty()) {
            self.counts.count_attempt(AuthenticationMethod::Certificate, AttemptResult::Error);
            return Err(AccessError::AuthoritiesNotLoaded);
        }
        let found =
            authentication::authenticate(recognized, &self.tokens, &self.counts, arrived.peer, arrived.headers).await;
        let (identity, credential) = match found {
            AuthenticationResult::Authenticated(identity, credential) => (identity, credential),
            AuthenticationResult::Invalid => return Err(self.tokens.unauthorized()),
            AuthenticationResult::Unavailable => return Err(AccessError::AuthenticatorUnavailable),
            AuthenticationResult::RateLimited => return Err(AccessError::TooManyInvalidTokens),
        };
        if let Some(known) = arrived.known {
            let _ = known.set(identity.clone());
        }
        if identity.is_anonymous() {
            let result = if allows_anonymous { AttemptResult::Success } else { AttemptResult::Failure };
            self.counts.count_attempt(AuthenticationMethod::None, result);
            if !allows_anonymous {
                return Err(self.tokens.unauthorized());
            }
        }
        if let Some(header) = arrived.headers.keys().find(|name| name.as_str().starts_with("impersonate-")) {
            return Err(AccessError::Impersonation(header.as_str().to_owned()));
        }
        Ok((identity, credential))
    }
}
