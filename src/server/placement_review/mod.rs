//! `placementreviews` of view.fieldcache.dev: where a Pod may run, and why not elsewhere, over HTTP.
//!
//! A review is created and answered at once, as a SubjectAccessReview is, and never stored. `rights` decides who may
//! create one, and [`crate::placement_service`] reads and answers it, outside of the threads that answer requests.
//! The rules are [`crate::placement`]'s. In a View there are no reviews: they reveal more than a View shows.

pub(super) mod kind;
pub(super) mod reviews;
mod rights;

use http::{Method, Response, StatusCode};
use serde_json::json;
use tokio::time::{Instant, timeout_at};

use super::builtin_group::GROUP;
use super::context::RequestContext;
use super::field_validation;
use super::no_response::NoResponse;
use super::read;
use super::response::document;
use super::state::{MOST_ATTEMPTS, ServerState};
use crate::access::AccessError;
use crate::fair_semaphore::Permit;
use crate::flow_control::limit::Limited;
use crate::flow_control::user::User;
use crate::manifest::yaml::Syntax;
use crate::model::Gvr;
use crate::placement::review::{KIND, PlacementReview, PlacementReviewSpec};
use crate::placement::{Options, Pod, too_many_terms};
use crate::placement_service::answer::{self, ReviewOutcome, Runtime, Unanswered};
use crate::placement_service::decode::{self, DecodeError, DecodedPlacementReview, MOST_OF_REFERENCE, PARSED_INLINE};
use crate::placement_service::field_validation::FieldValidation;
use crate::placement_service::index::{IndexSnapshot, MissingStore, PlacementStores, StoreSnapshot};
use crate::registry::upstream::UpstreamBody;
use crate::registry::{Catalog, NotReady, OverMemory};
use crate::request::ResourcePath;
use crate::selector::{FieldError, FieldErrorType};
use crate::wire::api_error::ApiError;
use crate::wire::body::Body;
use crate::wire::negotiate::{Offer, Protobuf, negotiate};
use crate::wire::request_body;
use crate::wire::request_body::Arrived;
use crate::wire::warnings;
use kind::GVR;
use reviews::MOST_AT_ONCE;
use rights::{Caller, Right};

/// The end of the message for users who may only get the Pod. The scheduler would write no event there, because it can
/// place the Pod, or has.
pub const NO_EVENT: &str = "so it has no FailedScheduling event";

/// Responds to a review.
///
/// # Errors
/// 400, 413, 415 and 422 for an invalid review, 403 without the permission, and 404 for a missing Pod. 429 while stores
/// are loaded, and 503 for a store that is not cached.
pub(super) async fn answer(
    server: &ServerState,
    context: &RequestContext<'_>,
    address: &ResourcePath,
    body: Option<UpstreamBody>,
) -> Result<Response<Body>, ApiError> {
    if address.name.is_some() || address.namespace.is_some() || address.legacy_watch {
        return Err(ApiError::UnknownResource);
    }
    context.record.reviewed(&GVR);
    if context.info.method != Method::POST {
        return Err(ApiError::MethodNotAllowedHere);
    }
    let format = negotiate(context.headers, Offer::Plain, Protobuf::METADATA)?.format;
    let form = request_body::form(request_body::media_type(context.headers), &[])?;
    let validation = field_validation::read(&context.info.query)?;
    let until = Instant::now() + context.timeout;
    // Whatever needs no body comes before it.
    let caller = rights::caller(server, context).await?;
    let arrived = arrived(server, context, &caller, body, until).await?;
    let place = timeout_at(until, server.reviews.places.acquire_one(context.user)).await;
    let Ok(Some(place)) = place else { return Err(too_late()) };
    let DecodedPlacementReview { mut review, mut unknown } = decoded(server, arrived, form, validation).await?;
    if validation == FieldValidation::Ignore {
        unknown.clear();
    }
    let mut warned: Vec<String> = unknown.iter().map(ToString::to_string).collect();
    let answered = async {
        let right = caller.right(server, context, &review.spec).await?;
        if review.metadata.is_null() {
            review.metadata = json!({});
        }
        let (text, further) = answered(server, review, right, validation, until, place).await?;
        warned.extend(further);
        let mut response = document(text, format, context);
        *response.status_mut() = StatusCode::CREATED;
        Ok(response)
    };
    let mut response = match answered.await {
        // A misspelt field may be the very reason, so that failures come with the warnings too, as upstream.
        Err(failure) if !unknown.is_empty() => context.failed(&failure),
        answered => answered?,
    };
    warnings::add(response.headers_mut(), warned.iter().map(String::as_str));
    Ok(response)
}

/// Reads the body of a review, within the limits of bodies.
async fn arrived(
    server: &ServerState,
    context: &RequestContext<'_>,
    caller: &Caller,
    body: Option<UpstreamBody>,
    until: Instant,
) -> Result<Arrived, ApiError> {
    let most = match caller {
        Caller::Whole => request_body::MOST,
        Caller::OnePod(_) => MOST_OF_REFERENCE,
    };
    let place = server.limits.bodies().enter(context.user).map_err(ApiError::Limited)?;
    match (request_body::body(body, context.headers, most, place, until).await, caller) {
        // It is more than a reference to a Pod, which is all that this caller may send.
        (Err(ApiError::TooLargeBody(_)), Caller::OnePod(refused)) => {
            Err(ApiError::Access(AccessError::Forbidden(refused.clone())))
        }
        (arrived, _) => arrived,
    }
}

/// Parses a body; a long one outside of the threads that answer requests.
async fn decoded(
    server: &ServerState,
    arrived: Arrived,
    form: Syntax,
    validation: FieldValidation,
) -> Result<DecodedPlacementReview, ApiError> {
    let is_short = arrived.bytes.len() <= PARSED_INLINE;
    let work = move || {
        let Arrived { bytes, place } = arrived;
        let decoded = decode::review(&bytes, form, validation).map_err(undecodable);
        drop((bytes, place));
        decoded
    };
    if is_short {
        return work();
    }
    tokio::task::spawn_blocking(work).await.map_err(|error| {
        tracing::error!(%error, "writing a placement review panicked");
        server.defect()
    })?
}

/// The text of an answered review, and its warnings besides those about unknown fields, with paths in the review.
async fn answered(
    server: &ServerState,
    review: PlacementReview,
    right: Right,
    validation: FieldValidation,
    until: Instant,
    place: Permit<User>,
) -> Result<(Vec<u8>, Vec<String>), ApiError> {
    let mut stores = Err(NoResponse::Retry);
    let mut catalog = server.registry.catalog();
    for _ in 0..MOST_ATTEMPTS {
        stores = fresh_stores(server, &catalog, until).await;
        if !matches!(stores, Err(NoResponse::Retry)) {
            break;
        }
        catalog = server.registry.catalog();
    }
    let disclosed = move |failure: ApiError| match right {
        Right::Whole => failure,
        // The figures are of the Pods and nodes of the whole cluster.
        Right::Event => failure.without_figures(),
    };
    let stores = stores.map_err(|error| disclosed(error.into_error()))?;
    let runtime = Runtime::look_up(&review.spec, &catalog, until.saturating_duration_since(Instant::now())).await;
    let minor = u32::try_from(catalog.version.minor()).ok().filter(|minor| *minor > 0);
    let usual = Options::default();
    let options = Options { target_minor: minor.unwrap_or(usual.target_minor), ..usual };
    let index = server.reviews.index.clone();
    let work = move || {
        let _place = place;
        let indexed = index.at(&stores).map_err(|over| disclosed(no_room(over)))?;
        in_time(until)?;
        match right {
            Right::Whole => review_body(review, &stores, &indexed, &runtime, &options, (validation, until)),
            Right::Event => event_body(review, &stores, &indexed, &options).map(|text| (text, Vec::new())),
        }
    };
    // The work keeps its place until it has ended, also where it ends too late for its client.
    let answered = timeout_at(until, tokio::task::spawn_blocking(work)).await.map_err(|_| too_late())?;
    answered.map_err(|error| {
        tracing::error!(%error, "a placement review panicked");
        server.defect()
    })?
}

/// The error for a review that has no answer in its time, whether it waited for its turn or was computed.
fn too_late() -> ApiError {
    ApiError::TooManyReviews(MOST_AT_ONCE)
}

/// Ends the work on a review when its time is over.
fn in_time(until: Instant) -> Result<(), ApiError> {
    if Instant::now() < until { Ok(()) } else { Err(too_late()) }
}

/// The error when the index does not fit into the memory limit.
fn no_room(over: OverMemory) -> ApiError {
    let limited = Limited::memory(&over);
    let message = format!("placement reviews need an index of nodes, pods and namespaces: {}", limited.message);
    ApiError::Limited(Limited { message, ..limited })
}

/// Evaluates a review and writes it with its status; returns its warnings, too.
fn review_body(
    mut review: PlacementReview,
    stores: &PlacementStores,
    indexed: &IndexSnapshot,
    runtime: &Runtime,
    options: &Options,
    (validation, until): (FieldValidation, Instant),
) -> Result<(Vec<u8>, Vec<String>), ApiError> {
    let outcome = answer::answer(&review.spec, stores, indexed, runtime, options, validation);
    let ReviewOutcome { answer, status, warnings } = outcome.map_err(failure)?;
    in_time(until)?;
    review.status = Some(status);
    Ok((answer.text_of(review).map_err(unwritable)?, warnings))
}

/// The error for a result that cannot be written.
fn unwritable(error: serde_json::Error) -> ApiError {
    ApiError::Internal(error.to_string())
}

/// Writes only the message that an event would have.
fn event_body(
    review: PlacementReview,
    stores: &PlacementStores,
    indexed: &IndexSnapshot,
    options: &Options,
) -> Result<Vec<u8>, ApiError> {
    let message = event_message(&review.spec, stores, indexed, options).map_err(failure)?;
    let mut document = serde_json::to_value(review).map_err(unwritable)?;
    document["status"] = json!({"message": message, "notEvaluated": crate::placement::answer::NOT_EVALUATED});
    serde_json::to_vec(&document).map_err(unwritable)
}

/// The message of the FailedScheduling event for a stored Pod.
fn event_message(
    spec: &PlacementReviewSpec,
    stores: &PlacementStores,
    indexed: &IndexSnapshot,
    options: &Options,
) -> Result<String, Unanswered> {
    let stored: Option<Pod> = answer::stored(spec, stores)?;
    let Some(pod) = stored else { return Ok(String::new()) };
    if !pod.spec.node_name.is_empty() {
        return Ok(format!("the Pod is bound to {}, {NO_EVENT}", pod.spec.node_name));
    }
    if let Some((_, message)) = too_many_terms(&pod.spec) {
        let message = format!("Invalid value: {message}");
        return Err(Unanswered::Invalid(vec![FieldError {
            reason: FieldErrorType::Invalid,
            field: "spec.podRef".to_owned(),
            message,
        }]));
    }
    let answer = indexed.cluster.review(&pod, options);
    Ok(match answer.feasible() {
        0 => answer.message(),
        // How many, and what is wrong with the others, no event would say.
        _ => format!("the Pod fits a node by the rules that were evaluated, {NO_EVENT}"),
    })
}

/// The stores that placement needs, as fresh as for lists.
async fn fresh_stores(server: &ServerState, catalog: &Catalog, until: Instant) -> Result<PlacementStores, NoResponse> {
    let patience = server.settings.patience.min(until.saturating_duration_since(Instant::now()));
    let mut stores = PlacementStores::load(catalog, patience).await.map_err(missing_store_error)?;
    for resource_state in stores.lives() {
        read::at_most_behind(resource_state, server.settings.max_lag).await?;
    }
    for store in [&mut stores.nodes, &mut stores.pods, &mut stores.namespaces] {
        // A user who has just written through this server sees it here too.
        let StoreSnapshot { resource, snapshot } = store;
        let written = resource.state.last_written();
        *snapshot = read::not_older_than(&resource.state, snapshot.clone(), written).await?;
    }
    Ok(stores)
}

/// The error for a store that is missing or not ready.
fn missing_store_error(missing: MissingStore) -> NoResponse {
    match missing {
        MissingStore::NotCached { .. } | MissingStore::Partial { .. } => {
            ApiError::Unavailable(missing.to_string()).into()
        }
        MissingStore::NotReady { resource, error: NotReady::Loading(progress) } => {
            ApiError::Loading(format!("{resource}: {progress}")).into()
        }
        MissingStore::NotReady { error, .. } => read::not_ready(error),
    }
}

/// The error for a body that is no review.
fn undecodable(error: DecodeError) -> ApiError {
    match error {
        DecodeError::Malformed(message) => ApiError::BadRequest(message),
        DecodeError::Invalid(problems) => ApiError::invalid_review(GROUP, KIND, problems),
    }
}

/// The error for a review that cannot be evaluated.
fn failure(unanswered: Unanswered) -> ApiError {
    match unanswered {
        Unanswered::NoPod(reference) => ApiError::NotFound { gvr: Gvr::new("", "v1", "pods"), name: reference.name },
        Unanswered::Unreadable(error) => ApiError::Unavailable(error.to_string()),
        Unanswered::Invalid(problems) => ApiError::invalid_review(GROUP, KIND, problems),
        Unanswered::Forbidden(message) => ApiError::Forbidden(message),
    }
}
