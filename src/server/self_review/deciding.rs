//! Decides whether a request through a View would be permitted and served. The two steps and their order are those of
//! the request itself, so the result reveals no more than the request would.

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

/// The number of permissions that are looked up at the same time for one SelfSubjectRulesReview.
const AT_ONCE: usize = 8;

/// In a review, the version that means every version.
const ANY: &str = "*";

/// The OpenAPI v3 documents below their index, as a nonResourceURL of a rule.
const DOCUMENTS: &str = "/openapi/v3/*";

/// The decision about a request, and its reason.
pub(super) struct AccessDecision {
    pub(super) is_allowed: bool,
    pub(super) reason: String,
}

/// Decides about requests through one View: the View of the review.
pub(super) struct Decider<'a> {
    server: &'a ServerState,
    context: &'a RequestContext<'a>,
    view: Arc<View>,
    catalog: Arc<Catalog>,
}

/// The decision about a verb of a resource.
struct VerbDecision {
    group: String,
    /// The plural name, with the subresource if there is one: `shirts/status`.
    name: String,
    verb: &'static str,
    is_allowed: bool,
}

/// A resource that a View serves.
enum Served {
    Resource(Arc<Resource>),
    /// A review about the caller itself, in this version.
    Review(&'static str),
}

impl<'a> Decider<'a> {
    /// Decides about requests through the View of this request.
    ///
    /// # Errors
    /// 404 for a request that came through no View.
    pub(super) fn for_request(
        server: &'a ServerState,
        context: &'a RequestContext<'a>,
    ) -> Result<Decider<'a>, ApiError> {
        let view = context.view.as_ref().map(|through| through.view.clone()).ok_or(ApiError::UnknownResource)?;
        Ok(Decider { server, context, view, catalog: server.catalog(context) })
    }

    /// Decides about a request for a resource: whether the caller is permitted, then whether the View serves the verb.
    ///
    /// # Errors
    /// 429 and 500 if the API server gives no authorization decision.
    pub(super) async fn decide_resource(
        &self,
        verb: &str,
        about: ResourceAttributes,
    ) -> Result<AccessDecision, ApiError> {
        let served = self.find_served(&about);
        let as_sent = |about: ResourceAttributes| Attributes {
            verb: verb.to_owned(),
            path: String::new(),
            resource: Some(about),
        };
        let mut wanted = vec![about.clone()];
        if let Some(served) = &served {
            let requested = served.as_requested(about.clone());
            // If the request itself would have no namespace, the namespace of the review is checked too. Otherwise the
            // result would tell a caller without permission whether the View serves the resource.
            if requested.namespace == about.namespace {
                wanted.clear();
            }
            wanted.push(requested);
        }
        for about in wanted {
            if let Some(reason) = self.denial_reason(as_sent(about)).await? {
                return Ok(self.not_permitted(&reason));
            }
        }
        Ok(match served {
            Some(served) if served.has(verb, &about.subresource) => self.allowed(),
            Some(_) => {
                self.denied(&format!("does not serve the verb {verb} for the resource {}", resource_name(&about)))
            }
            None => self.denied(&format!("does not serve the resource {}", resource_name(&about))),
        })
    }

    /// Decides about a request for a path that is not of a resource. `verb` is the method in lower case.
    ///
    /// # Errors
    /// 429 and 500 if the API server gives no authorization decision, 503 while the OpenAPI documents are not
    /// available.
    pub(super) async fn decide_path(&self, verb: &str, path: &str) -> Result<AccessDecision, ApiError> {
        if let Some(reason) = self.denial_reason(on_path(verb, path)).await? {
            return Ok(self.not_permitted(&reason));
        }
        Ok(match self.has_path(verb, path).await? {
            true => self.allowed(),
            false => self.denied(&format!("does not serve the verb {verb} for the path {path}")),
        })
    }

    /// The status of a SelfSubjectRulesReview: all rules that apply in this namespace.
    ///
    /// # Errors
    /// 429 and 500 if the API server gives no authorization decision.
    pub(super) async fn rules_status(&self, namespace: &str) -> Result<Value, ApiError> {
        let mut wanted = BTreeSet::new();
        for resource in self.catalog.resources() {
            let (group, name) = (resource.gvr.group.to_string(), resource.gvr.resource.to_string());
            if resource.subresources.iter().any(|below| below.name == "status") {
                wanted.insert((group.clone(), name.clone(), "status"));
            }
            wanted.insert((group, name, ""));
        }
        let reviews = KINDS.map(|kind| (kind.group().to_owned(), kind.plural().to_owned(), ""));
        let mut deciding: Vec<BoxFuture<'_, Result<VerbDecision, ApiError>>> = Vec::new();
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
                deciding.push(Box::pin(self.decide_verb(verb, about)));
            }
        }
        let decided: Vec<VerbDecision> = stream::iter(deciding).buffered(AT_ONCE).try_collect().await?;
        let mut rules: Vec<(&str, &str, Vec<&str>)> = Vec::new();
        for VerbDecision { group, name, verb, .. } in decided.iter().filter(|decided| decided.is_allowed) {
            match rules.last_mut().filter(|(rule_group, known, _)| rule_group == group && known == name) {
                Some((_, _, verbs)) => verbs.push(verb),
                None => rules.push((group, name, vec![verb])),
            }
        }
        let rule = |(group, name, verbs): &(&str, &str, Vec<&str>)| json!({ "verbs": verbs, "apiGroups": [group], "resources": [name] });
        let rules: Vec<Value> = rules.iter().map(rule).collect();
        // A permission can apply to single object names, which cannot be listed here. Reviews have no names.
        let is_partial = decided.iter().any(|decided| !decided.is_allowed && !GROUPS.contains(&&*decided.group));
        let mut status = json!({ "resourceRules": rules, "nonResourceRules": [], "incomplete": is_partial });
        if is_partial {
            status["evaluationError"] = json!("permissions for single object names are not listed");
        }
        let paths = self.permitted_paths().await?;
        if !paths.is_empty() {
            status["nonResourceRules"] = json!([{ "verbs": ["get"], "nonResourceURLs": paths }]);
        }
        Ok(status)
    }

    /// The paths of discovery, OpenAPI and health that the caller may get.
    ///
    /// # Errors
    /// Those of [`Decider::denial_reason`].
    async fn permitted_paths(&self) -> Result<Vec<String>, ApiError> {
        let mut paths = discovery::paths(&self.catalog, self.context);
        paths.insert(0, "/".to_owned());
        paths.push(DOCUMENTS.to_owned());
        let mut deciding: Vec<BoxFuture<'_, Result<Option<String>, ApiError>>> = Vec::new();
        for path in paths {
            deciding.push(Box::pin(async move {
                let refused = self.denial_reason(on_path("get", &path)).await?;
                Ok(refused.is_none().then_some(path))
            }));
        }
        let decided: Vec<Option<String>> = stream::iter(deciding).buffered(AT_ONCE).try_collect().await?;
        Ok(decided.into_iter().flatten().collect())
    }

    /// Decides about a verb of a resource, for a list of rules.
    async fn decide_verb(&self, verb: &'static str, about: ResourceAttributes) -> Result<VerbDecision, ApiError> {
        let ResourceAttributes { group, resource, subresource, .. } = about.clone();
        let is_allowed = self.decide_resource(verb, about).await?.is_allowed;
        let name = if subresource.is_empty() { resource } else { format!("{resource}/{subresource}") };
        Ok(VerbDecision { group, name, verb, is_allowed })
    }

    /// The reason why the caller may not send a request with these attributes; `None`: the caller may. Without
    /// authentication, every caller may.
    ///
    /// # Errors
    /// 429 and 500 if the API server gives no authorization decision.
    async fn denial_reason(&self, attributes: Attributes) -> Result<Option<String>, ApiError> {
        let Some(access) = &self.server.settings.access else { return Ok(None) };
        let Some(authorized) = &self.context.authorized else {
            return Err(ApiError::Access(AccessError::AuthorizerUnavailable));
        };
        let whole = self.server.registry.catalog();
        let served = (&*self.view, &*self.server.permitted_callers, &*whole);
        let denied = authorize::denied(access, &authorized.identity, served, attributes).await;
        denied.map_err(ApiError::Access)
    }

    /// The resource of these attributes, if the View serves it. An empty version or `*` means any version.
    fn find_served(&self, about: &ResourceAttributes) -> Option<Served> {
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

    /// Whether a request for a path is served: its handler does not respond with 404 or another error. False for an
    /// invalid verb or path.
    ///
    /// # Errors
    /// 503 while the OpenAPI documents are not available.
    async fn has_path(&self, verb: &str, path: &str) -> Result<bool, ApiError> {
        // The verb of a path is a method in lower case. The path of a review is not percent-encoded.
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
                let (whole, callers) = (self.server.registry.catalog(), self.server.permitted_callers.clone());
                // A request without headers, inside of the View. Only the status of its response is used.
                let inside = RequestContext {
                    info: &info,
                    headers: &HeaderMap::new(),
                    view: Some(ViewRequest::new(self.view.clone(), String::new(), whole, callers)),
                    authorized: self.context.authorized.clone(),
                    ..*self.context
                };
                let answered = non_resource::answer(self.server, &inside);
                Ok(answered.is_ok_and(|response| response.status() != StatusCode::NOT_FOUND))
            }
        }
    }

    /// Whether the View serves an OpenAPI document at this path.
    ///
    /// # Errors
    /// 503 if the source does not provide the v3 documents in time.
    async fn has_document(&self, path: &str) -> Result<bool, ApiError> {
        let Some(source) = &self.catalog.documents else { return Ok(false) };
        // The v2 document and the index of the v3 documents always exist.
        let Some(key) = path.trim_start_matches('/').strip_prefix("openapi/v3/") else { return Ok(true) };
        let documents = timeout(self.context.timeout, source.v3()).await;
        let documents = documents.unwrap_or_else(|_| Err("the source did not respond in time".to_owned()));
        Ok(documents.map_err(ApiError::Unavailable)?.v3(key).is_some())
    }

    /// The decision for a permitted request that the View serves.
    fn allowed(&self) -> AccessDecision {
        let name = self.view.name();
        let reason = match self.view.definition().rights {
            ViewRights::View => format!("the View {name} serves the request, and the caller may use the View"),
            ViewRights::Caller => {
                format!("the View {name} serves the request, and the caller's own permissions allow it")
            }
        };
        AccessDecision { is_allowed: true, reason }
    }

    /// The decision to deny a request. `why` continues a sentence that begins with the View.
    fn denied(&self, why: &str) -> AccessDecision {
        AccessDecision { is_allowed: false, reason: format!("the View {} {why}", self.view.name()) }
    }

    /// The decision for a caller without the permission. `reason` is that of the API server; it can be empty.
    fn not_permitted(&self, reason: &str) -> AccessDecision {
        let why = "needs the caller's own permission, which is missing";
        match reason {
            "" => self.denied(why),
            reason => self.denied(&format!("{why}: {reason}")),
        }
    }
}

impl Served {
    /// The attributes of a request for this resource: those of the review, with the served version, and without the
    /// namespace if the resource is cluster-scoped.
    fn as_requested(&self, mut about: ResourceAttributes) -> ResourceAttributes {
        let (version, scope) = match self {
            Served::Resource(resource) => (&*resource.gvr.version, resource.scope),
            Served::Review(version) => (*version, Scope::Cluster),
        };
        version.clone_into(&mut about.version);
        if scope == Scope::Cluster {
            let is_namespace = about.group.is_empty() && about.resource == "namespaces";
            // A request for a Namespace has its name as namespace, as in kube-apiserver.
            about.namespace = if is_namespace { about.name.clone() } else { String::new() };
        }
        about
    }

    /// Whether this resource or its subresource has a verb in the View. `subresource`: empty for the resource itself.
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

/// The resource of a request in the form `shirts/status.stable.example.com`; without a group for the core group.
fn resource_name(about: &ResourceAttributes) -> String {
    let ResourceAttributes { group, resource, subresource, .. } = about;
    let slash = if subresource.is_empty() { "" } else { "/" };
    let dot = if group.is_empty() { "" } else { "." };
    format!("{resource}{slash}{subresource}{dot}{group}")
}

/// Attributes of a request for a path that is not of a resource.
fn on_path(verb: &str, path: &str) -> Attributes {
    Attributes { verb: verb.to_owned(), path: path.to_owned(), resource: None }
}
