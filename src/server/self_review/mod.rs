//! Reviews about the caller itself through a View: its identity, and its permissions in the View.
//!
//! User interfaces of clusters send these reviews first. Through a View the reviews apply to the View: a request is
//! allowed if it is permitted and served there. At the root, reviews are forwarded to the API server
//! ([`super::pass_through`]). [`decode`] decodes a review, with [`protobuf`] for one format, and [`deciding`] decides
//! about the request in it.

mod deciding;
mod decode;
pub(super) mod kind;
mod protobuf;

use http::{Method, Response, StatusCode};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::context::RequestContext;
use super::field_validation;
use super::response::document;
use super::state::ServerState;
use crate::access::Identity;
use crate::registry::upstream::UpstreamBody;
use crate::request::ResourcePath;
use crate::wire::api_error::ApiError;
use crate::wire::body::Body;
use crate::wire::negotiate::{Format, Offer, Protobuf, negotiate};
use crate::wire::{request_body, warnings};
use deciding::{AccessDecision, Decider};
use decode::{DecodedSelfReview, Question, Wanted, unknown_field};
use kind::SelfReviewKind;

/// Responds to a review about the caller itself, of the kind and at the path in the route of the request.
///
/// # Errors
/// 404 for a path with a name or a namespace, and 405 for another method than POST. 400, 413, 415 and 422 for an
/// invalid review. 429 and 500 if the API server gives no authorization decision.
pub(super) async fn answer(
    server: &ServerState,
    context: &RequestContext<'_>,
    (kind, address): (SelfReviewKind, &ResourcePath),
    body: Option<UpstreamBody>,
) -> Result<Response<Body>, ApiError> {
    if address.name.is_some() || address.namespace.is_some() || address.legacy_watch {
        return Err(ApiError::UnknownResource);
    }
    if context.info.method != Method::POST {
        return Err(ApiError::MethodNotAllowedHere);
    }
    context.record.record_review(kind.metrics_gvr());
    let mut format = negotiate(context.headers, Offer::Plain, Protobuf::EVERYTHING)?.format;
    let body_format = decode::body_format(context.headers)?;
    let validation = field_validation::read(&context.info.query)?;
    let place = server.limits.bodies().enter(context.user).map_err(ApiError::Limited)?;
    let arrived =
        request_body::read_body(body, context.headers, decode::MOST, place, Instant::now() + context.timeout).await?;
    let api_version = address.gvr.group_version().to_string();
    let DecodedSelfReview { question, unknown } =
        decode::review(&arrived.bytes, body_format, (kind, &api_version), validation)?;
    drop(arrived);
    let mut review = match question {
        Question::User => subject_review(context, (server.settings.clock)()),
        Question::Access { spec, request, ignored } => {
            let decider = Decider::for_request(server, context)?;
            let verdict = match *request {
                Wanted::Resource { verb, about } => decider.decide_resource(&verb, about).await?,
                Wanted::Path { verb, path } => decider.decide_path(&verb, &path).await?,
            };
            json!({ "metadata": {}, "spec": spec, "status": access_status(verdict, &ignored) })
        }
        // kube-apiserver does not send the spec back.
        Question::Rules(namespace) => {
            let status = Decider::for_request(server, context)?.rules_status(&namespace).await?;
            json!({ "metadata": {}, "spec": {}, "status": status })
        }
    };
    review["apiVersion"] = json!(api_version);
    review["kind"] = json!(kind.name());
    let mut text = serde_json::to_vec(&review).map_err(|error| ApiError::Internal(error.to_string()))?;
    if format == Format::Protobuf {
        match crate::wire::protobuf::document(&api_version, kind.name(), &text) {
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

/// The metadata and status of a SelfSubjectReview: the time and the user of the request.
fn subject_review(context: &RequestContext<'_>, now: Timestamp) -> Value {
    let anonymous = Identity::anonymous();
    let Identity { user, uid, groups, extra } =
        context.authorized.as_ref().map_or(&anonymous, |authorized| &*authorized.identity);
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

/// The status of a SelfSubjectAccessReview. `ignored`: the paths of selectors whose invalid requirements are ignored.
fn access_status(verdict: AccessDecision, ignored: &[&str]) -> Value {
    let mut status = json!({ "allowed": verdict.is_allowed, "reason": verdict.reason });
    if !ignored.is_empty() {
        let ignored: Vec<String> =
            ignored.iter().map(|part| format!("the invalid parts of {part} are ignored")).collect();
        status["evaluationError"] = json!(ignored.join("; "));
    }
    status
}
