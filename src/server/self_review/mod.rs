//! What a caller asks about itself through a View: its name, and what it may do there.
//!
//! Programs that show a cluster send these reviews before anything else. Through a View they are answered for the View: a request is
//! allowed if it is permitted and served there. At the root they go on to the API server ([`super::pass_through`]). [`decode`] reads a
//! review, [`protobuf`] one form of it, [`deciding`] holds a request against the View.

mod deciding;
mod decode;
mod protobuf;

use std::sync::LazyLock;

use http::{Method, Response, StatusCode};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::api_error::ApiError;
use super::body::Body;
use super::context::RequestContext;
use super::negotiate::{Format, Offer, Protobuf, negotiate};
use super::placement_review::field_validation::FieldValidation;
use super::response::document;
use super::state::ServerState;
use super::{sent, warnings};
use crate::access::Identity;
use crate::model::Gvr;
use crate::registry::Catalog;
use crate::registry::upstream::UpstreamBody;
use crate::request::{ResourcePath, Route};
use deciding::{Deciding, Verdict};
use decode::{Decoded, Question, Wanted, unknown_field};

/// The version in which all of them are served.
const VERSION: &str = "v1";

/// The version in which older API servers offer the name as well.
const BETA: &str = "v1beta1";

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Who the caller is.
    User,
    /// Whether a request is permitted.
    Access,
    /// What is permitted.
    Rules,
}

const KINDS: [Kind; 3] = [Kind::User, Kind::Access, Kind::Rules];

/// The groups that hold them, in the order of kube-apiserver.
pub(super) const GROUPS: [&str; 2] = ["authentication.k8s.io", "authorization.k8s.io"];

impl Kind {
    fn group(self) -> &'static str {
        match self {
            Kind::User => GROUPS[0],
            Kind::Access | Kind::Rules => GROUPS[1],
        }
    }

    fn name(self) -> &'static str {
        match self {
            Kind::User => "SelfSubjectReview",
            Kind::Access => "SelfSubjectAccessReview",
            Kind::Rules => "SelfSubjectRulesReview",
        }
    }

    fn singular(self) -> &'static str {
        match self {
            Kind::User => "selfsubjectreview",
            Kind::Access => "selfsubjectaccessreview",
            Kind::Rules => "selfsubjectrulesreview",
        }
    }

    fn plural(self) -> &'static str {
        match self {
            Kind::User => "selfsubjectreviews",
            Kind::Access => "selfsubjectaccessreviews",
            Kind::Rules => "selfsubjectrulesreviews",
        }
    }

    /// As what a request is counted.
    fn counted(self) -> &'static Gvr {
        static COUNTED: LazyLock<[Gvr; 3]> =
            LazyLock::new(|| KINDS.map(|kind| Gvr::new(kind.group(), VERSION, kind.plural())));
        match self {
            Kind::User => &COUNTED[0],
            Kind::Access => &COUNTED[1],
            Kind::Rules => &COUNTED[2],
        }
    }

    fn of(group: &str, plural: &str) -> Option<Kind> {
        KINDS.into_iter().find(|kind| kind.group() == group && kind.plural() == plural)
    }

    /// Whether it is served in a version.
    fn is_served(self, catalog: &Catalog, version: &str) -> bool {
        versions(catalog, self.group()).contains(&version)
    }
}

/// The versions of a group, preferred one first.
pub(super) fn versions(catalog: &Catalog, group: &str) -> Vec<&'static str> {
    let has_beta = || {
        let offered = catalog.offers.version(group, BETA);
        offered.is_some_and(|version| version.resources.iter().any(|found| Kind::of(group, &found.name).is_some()))
    };
    let beta = (Kind::User.group() == group && has_beta()).then_some(BETA);
    std::iter::once(VERSION).chain(beta).collect()
}

/// The rows of a group, as APIResourceDiscovery of apidiscovery.k8s.io/v2.
pub(super) fn rows(group: &str) -> Vec<Value> {
    let row = |kind: &Kind| {
        json!({
            "resource": kind.plural(),
            // Built-in kinds leave the group and version of their own group version out.
            "responseKind": { "group": "", "version": "", "kind": kind.name() },
            "scope": "Cluster",
            "singularResource": kind.singular(),
            "verbs": ["create"],
        })
    };
    KINDS.iter().filter(|kind| kind.group() == group).map(row).collect()
}

/// Whether a request inside of a View is for such a review.
pub(super) fn is_asked<'t>(target: &'t Route, catalog: &Catalog) -> Option<(Kind, &'t ResourcePath)> {
    let Route::Resource(address) = target else { return None };
    let kind = Kind::of(&address.gvr.group, &address.gvr.resource)?;
    kind.is_served(catalog, &address.gvr.version).then_some((kind, address))
}

/// Whether a route inside of a View is one of reviews, whether or not the View serves them.
pub(super) fn is_one(route: &Route) -> bool {
    matches!(route, Route::Resource(address) if Kind::of(&address.gvr.group, &address.gvr.resource).is_some())
}

/// Answers one.
///
/// # Errors
/// 400, 413, 415 and 422 for what is asked, 500 while the API server does not decide.
pub(super) async fn answer(
    server: &ServerState,
    context: &RequestContext<'_>,
    (kind, address): (Kind, &ResourcePath),
    body: Option<UpstreamBody>,
) -> Result<Response<Body>, ApiError> {
    if address.name.is_some() || address.namespace.is_some() || address.legacy_watch {
        return Err(ApiError::UnknownResource);
    }
    if context.info.method != Method::POST {
        return Err(ApiError::MethodNotAllowedHere);
    }
    context.noted.reviewed(kind.counted());
    let mut format = negotiate(context.headers, Offer::Plain, Protobuf::EVERYTHING)?.format;
    let written = decode::written(context.headers)?;
    let validation = FieldValidation::of(&context.info.query)?;
    let place = server.limits.bodies().enter(context.user).map_err(ApiError::Limited)?;
    let arrived = sent::body(body, context.headers, decode::MOST, place, Instant::now() + context.timeout).await?;
    let api_version = address.gvr.group_version().to_string();
    let Decoded { question, unknown } = decode::review(&arrived.bytes, written, (kind, &api_version), validation)?;
    drop(arrived);
    let mut review = match question {
        Question::User => user(context, (server.settings.clock)()),
        Question::Access { spec, request, ignored } => {
            let deciding = Deciding::of(server, context)?;
            let verdict = match *request {
                Wanted::Resource { verb, about } => deciding.resource(&verb, about).await?,
                Wanted::Path { verb, path } => deciding.path(&verb, &path).await?,
            };
            json!({ "metadata": {}, "spec": spec, "status": access(verdict, &ignored) })
        }
        // Upstream does not send the spec back.
        Question::Rules(namespace) => {
            let status = Deciding::of(server, context)?.rules(&namespace).await?;
            json!({ "metadata": {}, "spec": {}, "status": status })
        }
    };
    review["apiVersion"] = json!(api_version);
    review["kind"] = json!(kind.name());
    let mut text = serde_json::to_vec(&review).map_err(|error| ApiError::Internal(error.to_string()))?;
    if format == Format::Protobuf {
        match super::protobuf::document(&api_version, kind.name(), &text) {
            Some(encoded) => text = encoded,
            None => format = negotiate(context.headers, Offer::Plain, Protobuf::METADATA)?.format,
        }
    }
    let mut response = document(text, format, context);
    *response.status_mut() = StatusCode::CREATED;
    let unknown: Vec<String> = unknown.iter().map(|path| unknown_field(path)).collect();
    warnings::add(response.headers_mut(), unknown.iter().map(String::as_str));
    Ok(response)
}

/// Who asks.
fn user(context: &RequestContext<'_>, now: Timestamp) -> Value {
    let nobody = Identity::anonymous();
    let Identity { user, uid, groups, extra } =
        context.admitted.as_ref().map_or(&nobody, |admitted| &*admitted.identity);
    let mut info = json!({ "username": user });
    if !uid.is_empty() {
        info["uid"] = json!(uid);
    }
    if !groups.is_empty() {
        info["groups"] = json!(groups);
    }
    if !extra.is_empty() {
        info["extra"] = json!(extra);
    }
    json!({ "metadata": { "creationTimestamp": now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string() }, "status": { "userInfo": info } })
}

/// The status of a SelfSubjectAccessReview.
fn access(verdict: Verdict, ignored: &[&str]) -> Value {
    let mut status = json!({ "allowed": verdict.is_allowed, "reason": verdict.reason });
    if !ignored.is_empty() {
        let ignored: Vec<String> =
            ignored.iter().map(|part| format!("{part} is ignored as far as it cannot be read")).collect();
        status["evaluationError"] = json!(ignored.join("; "));
    }
    status
}
