//! Who asks, and may they: authentication and authorization of a server that strangers reach.
//!
//! Everything is delegated to the cluster's API server, as servers beside kube-apiserver do it (apiserver
//! `server/options`), and fails closed: without an answer nobody is known and nobody may. `serve` has none of this; the operator never answers without it.
//!
//! Reading order: [`Access::admit`] is the whole way of a request. [`authentication`] finds an [`identity`], by
//! [`certificates`] and [`front_proxy`] headers that [`trust`] vouches for, or by [`tokens`]; [`attributes`] is what
//! is asked for, and [`authorization`] whether it may be, with [`permission`] for answers that take long. [`review`] is what the API server is asked,
//! [`backend`] how; [`flights`] shares and keeps answers under hashes made with a [`secret`], [`bucket`] bounds failures, [`counts`] counts. [`self_made`] makes the
//! server's own certificate where nobody brings one.
//!
//! Nothing here chooses a status code: `server::failure` makes the answer of a [`Refusal`]. No name, selector or token is
//! logged or counted.

pub mod attributes;
pub mod authentication;
pub mod authorization;
pub mod backend;
pub mod bucket;
pub mod certificates;
pub mod counts;
pub mod flights;
pub mod front_proxy;
pub mod identity;
pub mod permission;
pub mod review;
pub mod secret;
pub mod self_made;
#[cfg(test)]
pub(crate) mod tests;
pub mod tokens;
pub mod trust;

use std::fmt;
use std::sync::{Arc, OnceLock};

use http::{HeaderMap, Method};
use tokio::sync::watch;

use crate::model::Gvr;
use crate::registry::upstream::Upstream;
use attributes::{Attributes, ResourceAttributes};
use authentication::{Found, Peer};
use authorization::{ALWAYS_ALLOWED, Authorizer, Decision};
use backend::Backend;
use counts::{Authenticated, Counts};
pub use identity::Identity;
use permission::Permission;
use secret::Secret;
use tokens::Tokens;
use trust::Trust;

/// The audience of tokens for this server, unless another one is named.
pub const AUDIENCE: &str = "fieldcache.dev";

/// Whether a field of a resource is one that its API server knows.
pub type KnownField = Arc<dyn Fn(&Gvr, &str) -> bool + Send + Sync>;

/// What may differ.
#[derive(Clone)]
pub struct AccessSettings {
    /// For whom tokens have to be made out; any of them will do.
    pub audiences: Vec<String>,
    /// Whether tokens for the API server itself are accepted too. Whoever sees such a token can use it there.
    pub accept_api_audience: bool,
    /// Which fields the API server knows; requirements on others are not told to it.
    pub known_field: KnownField,
}

impl Default for AccessSettings {
    fn default() -> AccessSettings {
        AccessSettings {
            audiences: vec![AUDIENCE.to_owned()],
            accept_api_audience: false,
            known_field: Arc::new(|_, _| true),
        }
    }
}

/// Decides about requests.
pub struct Access {
    settings: AccessSettings,
    upstream: Arc<dyn Upstream>,
    backend: Arc<Backend>,
    trust: watch::Sender<Arc<Trust>>,
    tokens: Tokens,
    authorizer: Arc<Authorizer>,
    counts: Arc<Counts>,
}

impl fmt::Debug for Access {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Access").field("audiences", &self.settings.audiences).finish_non_exhaustive()
    }
}

/// Why a request is not answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is not known who asks.
    Unauthorized,
    /// It cannot be found out now who asks.
    Unreviewed,
    /// It shows a certificate, and whom the cluster trusts is not known yet.
    Unjudged,
    /// Too many tokens from there were wrong.
    TooManyFailures,
    /// It asks to act as somebody else; the header that says so.
    Impersonation(String),
    /// They may not.
    Forbidden(Box<Forbidden>),
    /// It cannot be found out now whether they may.
    Undecided,
    /// The path cannot be asked about.
    Incomplete(String),
}

/// What was asked, of whom and why not; kube-apiserver's message is made of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forbidden {
    /// Who asked.
    pub user: String,
    /// What for.
    pub attributes: Attributes,
    /// The authorizer's reason, often empty.
    pub reason: String,
}

/// A request that may be.
#[derive(Clone, Debug)]
pub struct Admitted {
    /// Who asks.
    pub identity: Arc<Identity>,
    /// What for, as it reads.
    pub attributes: Arc<Attributes>,
    /// What was asked about; see [`About`].
    decided: Arc<[Attributes]>,
    authorizer: Arc<Authorizer>,
}

impl Admitted {
    /// For an answer that takes long.
    pub fn permission(&self) -> Permission {
        self.authorizer.permission(&self.identity, &self.decided)
    }
}

/// A request as it came.
pub struct Arrived<'a> {
    /// From where; `None` where that is not known.
    pub peer: Option<&'a Peer>,
    /// Its method.
    pub method: &'a Method,
    /// Its headers.
    pub headers: &'a HeaderMap,
    /// Its path, decoded.
    pub path: &'a str,
    /// Looks up the first value of a query parameter.
    pub query: &'a (dyn Fn(&str) -> Option<&'a str> + Send + Sync),
    /// Where it is left who asks, as soon as that is known.
    pub known: Option<&'a OnceLock<Arc<Identity>>>,
    /// What of it has to be asked about.
    pub about: About<'a>,
}

/// What has to be asked about a request.
#[derive(Clone, Copy)]
pub enum About<'a> {
    /// Itself.
    Request,
    /// The same in each of some namespaces: those to which a View restricts a resource, by group and plural; none where it does not.
    Namespaces(&'a (dyn Fn(&str, &str) -> &'a [String] + Send + Sync)),
    /// Something else in its place, such as the right to use a View.
    Instead(&'a Attributes),
}

impl Access {
    /// Asks the API server behind `upstream`.
    ///
    /// # Errors
    /// Says so when the system has no randomness.
    pub fn new(upstream: Arc<dyn Upstream>, settings: AccessSettings) -> Result<Access, String> {
        let counts = Arc::new(Counts::default());
        let secret = Arc::new(Secret::new()?);
        let backend = Arc::new(Backend::new(upstream.clone(), counts.clone()));
        let tokens = Tokens::new(
            backend.clone(),
            counts.clone(),
            secret.clone(),
            settings.audiences.clone(),
            settings.accept_api_audience,
        );
        let authorizer = Arc::new(Authorizer::new(backend.clone(), counts.clone(), secret));
        let trust = watch::Sender::default();
        Ok(Access { settings, upstream, backend, trust, tokens, authorizer, counts })
    }

    /// Follows whom the cluster trusts; to be polled for as long as requests are answered.
    pub async fn follow(&self) -> ! {
        trust::follow(&*self.upstream, &self.trust).await
    }

    /// Whether it has been read whom the cluster trusts; the rest is asked with every request.
    ///
    /// # Errors
    /// What is missing.
    pub fn ready(&self) -> Result<(), String> {
        match self.trust.borrow().generation {
            0 => Err("ConfigMap kube-system/extension-apiserver-authentication has not been read".to_owned()),
            _ => Ok(()),
        }
    }

    /// Why the API server does not answer reviews; `None` while it does.
    pub fn problem(&self) -> Option<backend::Unanswered> {
        self.backend.problem()
    }

    /// What has been decided.
    pub fn counts(&self) -> &Arc<Counts> {
        &self.counts
    }

    /// Whom the cluster trusts now.
    pub fn trust(&self) -> Arc<Trust> {
        self.trust.borrow().clone()
    }

    /// Whether somebody who was admitted may do something else as well.
    pub async fn may(&self, identity: &Identity, attributes: &Attributes) -> Decision {
        self.authorizer.decide(identity, attributes).await
    }

    /// Decides about a request, in kube-apiserver's order: who, as whom, may they.
    ///
    /// # Errors
    /// [`Refusal`].
    pub async fn admit(&self, arrived: &Arrived<'_>) -> Result<Admitted, Refusal> {
        // Upstream reads the path first of all.
        let attributes = Attributes::read(arrived.method, arrived.path, arrived.query);
        let mut attributes = attributes.map_err(|incomplete| Refusal::Incomplete(incomplete.to_string()))?;
        attributes.keep_fields(&*self.settings.known_field);
        // In a View nobody is nobody: whether there is one is for those who are known.
        let is_health = matches!(arrived.about, About::Request)
            && attributes.resource.is_none()
            && ALWAYS_ALLOWED.contains(&&*attributes.path);
        let identity = self.identify(arrived, is_health).await?;
        let decided: Arc<[Attributes]> = match arrived.about {
            About::Request => [attributes.clone()].into(),
            About::Namespaces(namespaces) => attributes.in_each(namespaces).into(),
            About::Instead(other) => [other.clone()].into(),
        };
        for attributes in &*decided {
            match self.authorizer.decide(&identity, attributes).await {
                Decision::Allowed => {}
                Decision::Denied(reason) => {
                    let (user, attributes) = (identity.user.clone(), attributes.clone());
                    return Err(Refusal::Forbidden(Box::new(Forbidden { user, attributes, reason })));
                }
                Decision::Unanswered(_) => return Err(Refusal::Undecided),
            }
        }
        Ok(Admitted { identity, attributes: Arc::new(attributes), decided, authorizer: self.authorizer.clone() })
    }

    /// Finds out who asks, and that they ask for themselves; `may_be_nobody` for what everybody may ask.
    ///
    /// # Errors
    /// [`Refusal`].
    pub async fn identify(&self, arrived: &Arrived<'_>, may_be_nobody: bool) -> Result<Arc<Identity>, Refusal> {
        let trust = self.trust();
        // A certificate comes before a token, so that with one that is not judged even a token does not say who it is. Those who ask
        // for health may always, so that the answer that this is not ready yet reaches whoever shows one.
        if !may_be_nobody && trust.generation == 0 && arrived.peer.is_some_and(|peer| !peer.chain.is_empty()) {
            self.counts.authenticated(counts::Method::Certificate, Authenticated::Error);
            return Err(Refusal::Unjudged);
        }
        let found =
            authentication::authenticate(&trust, &self.tokens, &self.counts, arrived.peer, arrived.headers).await;
        let identity = match found {
            Found::Somebody(identity) => identity,
            Found::Wrong => return Err(Refusal::Unauthorized),
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
                return Err(Refusal::Unauthorized);
            }
        }
        if let Some(header) = arrived.headers.keys().find(|name| name.as_str().starts_with("impersonate-")) {
            return Err(Refusal::Impersonation(header.as_str().to_owned()));
        }
        Ok(identity)
    }
}

impl Forbidden {
    /// kube-apiserver's sentence (apiserver `handlers/responsewriters/errors.go`, apimachinery `api/errors`).
    pub fn message(&self) -> String {
        use crate::model::quote;
        let Attributes { verb, path, resource } = &self.attributes;
        let who = format!("User {} cannot {verb}", quote(&self.user));
        let (prefix, sentence) = match resource {
            None => ("forbidden".to_owned(), format!("{who} path {}", quote(path))),
            Some(about) => {
                let below =
                    if about.subresource.is_empty() { String::new() } else { format!("/{}", about.subresource) };
                let resource = quote(&format!("{}{below}", about.resource));
                let place = match &*about.namespace {
                    "" => "at the cluster scope".to_owned(),
                    namespace => format!("in the namespace {}", quote(namespace)),
                };
                let group = quote(&about.group);
                (prefix(about), format!("{who} resource {resource} in API group {group} {place}"))
            }
        };
        // So that no browser takes it for a page.
        let sentence = sentence.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let reason = if self.reason.is_empty() { String::new() } else { format!(": {}", self.reason) };
        format!("{prefix}: {sentence}{reason}")
    }
}

fn prefix(about: &ResourceAttributes) -> String {
    let ResourceAttributes { group, resource, name, .. } = about;
    if group.is_empty() && resource.is_empty() {
        return "forbidden".to_owned();
    }
    let qualified = if group.is_empty() { resource.clone() } else { format!("{resource}.{group}") };
    match &**name {
        "" => format!("{qualified} is forbidden"),
        name => format!("{qualified} {} is forbidden", crate::model::quote(name)),
    }
}
