//! Whether a request would be permitted and served. The two steps and their order are those of the request itself, so
//! the result reveals no more than the request would.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::{self, StreamExt, TryStreamExt};
use http::{HeaderMap, Method, StatusCode};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::kind::{GROUPS, KINDS, SelfReviewKind};
use crate::access::AccessError;
use crate::access::attributes::{Attributes, ResourceAttributes};
use crate::model::{Gvr, Scope};
use crate::registry::views::ViewRights;
use crate::registry::{Catalog, Resource, View};
use crate::request::Route;
use crate::request::{Query, RequestInfo};
use crate::server::context::RequestContext;
use crate::server::state::ServerState;
use crate::server::view_request::ViewRequest;
use crate::server::{authorize, discovery, discovery_rows, non_resource};
use crate::wire::api_error::ApiError;

/// How many permissions are looked up at a time for one list of rules.
const AT_ONCE: usize = 8;

/// Covers every version in a review.
const ANY: &str = "*";

/// The documents of OpenAPI below their index, as a rule has it.
const DOCUMENTS: &str = "/openapi/v3/*";

/// The decision about a request.
pub(super) struct AccessDecision {
    pub(super) is_allowed: bool,
    pub(super) reason: String,
}

/// Decides about requests through the View through which the review came.
pub(super) struct Deciding<'a> {
    server: &'a ServerState,
    context: &'a RequestContext<'a>,
    view: Arc<View>,
    catalog: Arc<Catalog>,
}

/// What is decided about a verb of a resource.
struct Decided {
    group: String,
    /// With its subresource.
    name: String,
    verb: &'static str,
    is_allowed: bool,
}

/// What a View serves under a name.
enum Served {
    Resource(Arc<Resource>),
    Review(&'static str),
}

impl<'a> Deciding<'a> {
    /// Decides through the View of a request.
    ///
    /// # Errors
    /// 404 for a request that came through none.
    pub(super) fn for_request(
        server: &'a ServerState,
        context: &'a RequestContext<'a>,
    ) -> Result<Deciding<'a>, ApiError> {
        let view = context.view.as_ref().map(|through| through.view.clone()).ok_or(ApiError::UnknownResource)?;
        Ok(Deciding { server, context, view, catalog: server.catalog(context) })
    }

    /// Decides about a request for a resource.
    ///
    /// # Errors
    /// 429 and 500 without an authorization decision.
    pub(super) async fn resource(&self, verb: &str, about: ResourceAttributes) -> Result<AccessDecision, ApiError> {
        let served = self.served(&about);
        let as_sent = |about: ResourceAttributes| Attributes {
            verb: verb.to_owned(),
            path: String::new(),
            resource: Some(about),
        };
        let mut wanted = vec![about.clone()];
        if let Some(served) = &served {
            let requested = served.as_requested(about.clone());
            // A namespace that the request would not have is checked all the same. The result must not depend on
            // whether the View serves the resource before the caller is known to be permitted.
            if requested.namespace == about.namespace {
                wanted.clear();
            }
            wanted.push(requested);
        }
        for about in wanted {
            if let Some(reason) = self.refused(as_sent(about)).await? {
                return Ok(self.not_permitted(&reason));
            }
        }
        Ok(match served {
            Some(served) if served.has(verb, &about.subresource) => self.allowed(),
            Some(_) => self.denied("does not serve this verb for it"),
            None => self.denied("does not serve it"),
        })
    }

    /// Decides about a request for a path that is no resource.
    ///
    /// # Errors
    /// 429 and 500 without an authorization decision, 503 while there are no documents.
    pub(super) async fn path(&self, verb: &str, path: &str) -> Result<AccessDecision, ApiError> {
        if let Some(reason) = self.refused(on_path(verb, path)).await? {
            return Ok(self.not_permitted(&reason));
        }
        Ok(if self.has_path(verb, path).await? { self.allowed() } else { self.denied("does not serve it") })
    }

    /// The status of a SelfSubjectRulesReview.
    ///
    /// # Errors
    /// 429 and 500 without an authorization decision.
    pub(super) async fn rules(&self, namespace: &str) -> Result<Value, ApiError> {
        let mut wanted = BTreeSet::new();
        for resource in self.catalog.resources() {
            let (group, name) = (resource.gvr.group.to_string(), resource.gvr.resource.to_string());
            if resource.subresources.iter().any(|below| below.name == "status") {
                wanted.insert((group.clone(), name.clone(), "status"));
            }
            wanted.insert((group, name, ""));
        }
        let reviews = KINDS.map(|kind| (kind.group().to_owned(), kind.plural().to_owned(), ""));
        let mut deciding: Vec<BoxFuture<'_, Result<Decided, ApiError>>> = Vec::new();
        for (group, resource, below) in wanted.into_iter().chain(reviews) {
            let verbs: &[&'static str] = match SelfReviewKind::from_resource(&group, &resource) {
                Some(_) => &["create"],
                None if below.is_empty() => &discovery_rows::OWN_VERBS,
                None => &discovery_rows::OWN_SUBRESOURCE_VERBS,
            };
            for verb in verbs {
                let about = ResourceAttributes {
                    group: group.clone(),
                    resource: resource.clone(),
                    subresource: below.to_owned(),
                    namespace: namespace.to_owned(),
                    ..ResourceAttributes::default()
                };
                deciding.push(Box::pin(self.decided(verb, about)));
            }
        }
        let decided: Vec<Decided> = stream::iter(deciding).buffered(AT_ONCE).try_collect().await?;
        let mut rules: Vec<(&str, &str, Vec<&str>)> = Vec::new();
        for Decided { group, name, verb, .. } in decided.iter().filter(|decided| decided.is_allowed) {
            match rules.last_mut().filter(|(rule_group, known, _)| rule_group == group && known == name) {
                Some((_, _, verbs)) => verbs.push(verb),
                None => rules.push((group, name, vec![verb])),
            }
        }
        let rule = |(group, name, verbs): &(&str, &str, Vec<&str>)| json!({ "verbs": verbs, "apiGroups": [group], "resources": [name] });
        let rules: Vec<Value> = rules.iter().map(rule).collect();
        // A permission can hold for single names, of which no list exists.
        let is_partial = decided.iter().any(|decided| !decided.is_allowed && !GROUPS.contains(&&*decided.group));
        let mut status = json!({ "resourceRules": rules, "nonResourceRules": [], "incomplete": is_partial });
        if is_partial {
            status["evaluationError"] = json!("permissions that hold for single names are not listed");
        }
        let paths = self.permitted_paths().await?;
        if !paths.is_empty() {
            status["nonResourceRules"] = json!([{ "verbs": ["get"], "nonResourceURLs": paths }]);
        }
        Ok(status)
    }

    /// The paths of discovery, OpenAPI and health that the caller may get.
    async fn permitted_paths(&self) -> Result<Vec<String>, ApiError> {
        let mut paths = discovery::paths(&self.catalog, self.context);
        paths.insert(0, "/".to_owned());
        paths.push(DOCUMENTS.to_owned());
        let mut deciding: Vec<BoxFuture<'_, Result<Option<String>, ApiError>>> = Vec::new();
        for path in paths {
            deciding.push(Box::pin(async move {
                let refused = self.refused(on_path("get", &path)).await?;
                Ok(refused.is_none().then_some(path))
            }));
        }
        let decided: Vec<Option<String>> = stream::iter(deciding).buffered(AT_ONCE).try_collect().await?;
        Ok(decided.into_iter().flatten().collect())
    }

    /// Decides about a verb on a resource.
    async fn decided(&self, verb: &'static str, about: ResourceAttributes) -> Result<Decided, ApiError> {
        let ResourceAttributes { group, resource, subresource, .. } = about.clone();
        let is_allowed = self.resource(verb, about).await?.is_allowed;
        let name = if subresource.is_empty() { resource } else { format!("{resource}/{subresource}") };
        Ok(Decided { group, name, verb, is_allowed })
    }

    /// The reason why the caller may not send a request; `None`: the caller may.
    async fn refused(&self, attributes: Attributes) -> Result<Option<String>, ApiError> {
        let Some(access) = &self.server.settings.access else { return Ok(None) };
        let Some(authorized) = &self.context.authorized else {
            return Err(ApiError::Access(AccessError::AuthorizerUnavailable));
        };
        authorize::denied(access, &authorized.identity, &self.view, attributes).await.map_err(ApiError::Access)
    }

    /// The resource that the View serves under a name. A review without a version means any version.
    fn served(&self, about: &ResourceAttributes) -> Option<Served> {
        let is_any = matches!(&*about.version, "" | ANY);
        if let Some(kind) = SelfReviewKind::from_resource(&about.group, &about.resource) {
            let versions = super::kind::versions(&self.catalog, kind.group());
            return versions.into_iter().find(|version| is_any || *version == about.version).map(Served::Review);
        }
        let find = |version: &str| self.catalog.resource(&Gvr::new(&*about.group, version, &*about.resource));
        let found = if is_any {
            self.catalog.group(&about.group)?.versions.iter().find_map(|version| find(version))
        } else {
            find(&about.version)
        };
        found.cloned().map(Served::Resource)
    }

    /// Whether a request for a path is served, according to its handler.
    async fn has_path(&self, verb: &str, path: &str) -> Result<bool, ApiError> {
        // The verb of a path is a method in lower case; the path of a review is decoded.
        let is_method = verb.bytes().all(|letter| letter.is_ascii_lowercase());
        let Some(method) = Method::from_bytes(verb.to_ascii_uppercase().as_bytes()).ok().filter(|_| is_method) else {
            return Ok(false);
        };
        if !path.starts_with('/') || path.contains('%') {
            return Ok(false);
        }
        let info = RequestInfo::read(&method, path, Query::default());
        // There are no Views inside of a View.
        if info.view.is_some() {
            return Ok(false);
        }
        match info.route() {
            Route::Resource(_) => Ok(false),
            Route::OpenApi => self.has_document(path).await,
            Route::Root
            | Route::Health { .. }
            | Route::Version
            | Route::CoreVersions
            | Route::Groups
            | Route::Group(_)
            | Route::GroupVersion(_)
            | Route::Unknown
            | Route::UnknownBuiltIn => {
                let inside = RequestContext {
                    info: &info,
                    headers: &HeaderMap::new(),
                    view: Some(ViewRequest { view: self.view.clone(), prefix: String::new(), consumer: None }),
                    authorized: self.context.authorized.clone(),
                    ..*self.context
                };
                let answered = non_resource::answer(self.server, &inside);
                Ok(answered.is_ok_and(|response| response.status() != StatusCode::NOT_FOUND))
            }
        }
    }

    /// Whether the View serves an OpenAPI document.
    async fn has_document(&self, path: &str) -> Result<bool, ApiError> {
        let Some(source) = &self.catalog.documents else { return Ok(false) };
        let Some(key) = path.trim_start_matches('/').strip_prefix("openapi/v3/") else { return Ok(true) };
        let documents = timeout(self.context.timeout, source.v3()).await;
        let documents = documents.unwrap_or_else(|_| Err("the source did not respond in time".to_owned()));
        Ok(documents.map_err(ApiError::Unavailable)?.v3(key).is_some())
    }

    /// The decision for what the View serves.
    fn allowed(&self) -> AccessDecision {
        let name = self.view.name();
        let reason = match self.view.definition().rights {
            ViewRights::View => format!("the View {name} serves it, and the caller may use the View"),
            ViewRights::Caller => format!("the View {name} serves it, and the caller's own permissions allow it"),
        };
        AccessDecision { is_allowed: true, reason }
    }

    /// The decision for what the View does not serve.
    fn denied(&self, why: &str) -> AccessDecision {
        AccessDecision { is_allowed: false, reason: format!("the View {} {why}", self.view.name()) }
    }

    /// The decision when the caller lacks the permission.
    fn not_permitted(&self, reason: &str) -> AccessDecision {
        let why = "needs the caller's own permission, which is missing";
        match reason {
            "" => self.denied(why),
            reason => self.denied(&format!("{why}: {reason}")),
        }
    }
}

impl Served {
    /// The attributes of a request for it, with its version and its scope.
    fn as_requested(&self, mut about: ResourceAttributes) -> ResourceAttributes {
        let (version, scope) = match self {
            Served::Resource(resource) => (&*resource.gvr.version, resource.scope),
            Served::Review(version) => (*version, Scope::Cluster),
        };
        version.clone_into(&mut about.version);
        if scope == Scope::Cluster {
            let is_namespace = about.group.is_empty() && about.resource == "namespaces";
            // A Namespace is in itself, as requests have it.
            about.namespace = if is_namespace { about.name.clone() } else { String::new() };
        }
        about
    }

    /// Whether the resource has a verb.
    fn has(&self, verb: &str, subresource: &str) -> bool {
        match self {
            Served::Review(_) => verb == "create" && subresource.is_empty(),
            Served::Resource(_) if subresource.is_empty() => discovery_rows::OWN_VERBS.contains(&verb),
            Served::Resource(resource) => {
                let is_known = resource.subresources.iter().any(|name| name.name == subresource);
                subresource == "status" && is_known && discovery_rows::OWN_SUBRESOURCE_VERBS.contains(&verb)
            }
        }
    }
}

/// Attributes of a request for a path.
fn on_path(verb: &str, path: &str) -> Attributes {
    Attributes { verb: verb.to_owned(), path: path.to_owned(), resource: None }
}
