//! `placementreviews` of view.fieldcache.dev over HTTP: on which nodes a Pod can run, and why not on the others.
//!
//! The response to the create request has the result, as for a SubjectAccessReview; a review is never stored. `rights`
//! decides who may create one. [`crate::placement_service`] decodes and evaluates it, on other threads than those that
//! serve requests. [`crate::placement`] has the scheduling rules. Views do not serve these reviews, because they reveal
//! more than a View shows.

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
use crate::flow_control::limit::{Limit, Limited};
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

/// The end of the message for users that may only get the Pod, if the Pod has no FailedScheduling event: the scheduler
/// can place it, or has done so.
pub const NO_EVENT: &str = "so it has no FailedScheduling event";

/// The warning for users that may only get the Pod, if the index leaves out objects. It has no names and no number,
/// because the objects can be those of other users.
pub const IGNORED: &str = "some nodes, Pods or namespaces are ignored, so the message can be wrong: administrators see their names in a full review";

/// Responds to a PlacementReview.
///
/// # Errors
/// 400, 413, 415 and 422 for an invalid review, 403 without the permission, and 404 for a missing Pod. 404 for a path
/// with a name or a namespace, and 405 for another method than POST. 429 while stores are loaded, or when the review is
/// not evaluated in time. 503 if nodes, Pods or namespaces are not cached.
pub(super) async fn answer(
    server: &ServerState,
    context: &RequestContext<'_>,
    address: &ResourcePath,
    body: Option<UpstreamBody>,
) -> Result<Response<Body>, ApiError> {
    if address.name.is_some() || address.namespace.is_some() || address.legacy_watch {
        return Err(ApiError::UnknownResource);
    }
    context.record.record_review(&GVR);
    if context.info.method != Method::POST {
        return Err(ApiError::MethodNotAllowedHere);
    }
    let format = negotiate(context.headers, Offer::Plain, Protobuf::METADATA)?.format;
    let form = request_body::syntax(request_body::media_type(context.headers), &[])?;
    let validation = field_validation::read(&context.info.query)?;
    let until = Instant::now() + context.timeout;
    // The permission is checked before the body is read.
    let caller = rights::caller(server, context).await?;
    let arrived = read_body(server, context, &caller, body, until).await?;
    let place = timeout_at(until, server.reviews.places.acquire_one(context.user)).await;
    let Ok(Some(place)) = place else { return Err(too_late()) };
    let DecodedPlacementReview { mut review, mut unknown } = decode_body(server, arrived, form, validation).await?;
    if validation == FieldValidation::Ignore {
        unknown.clear();
    }
    let mut warned: Vec<String> = unknown.iter().map(ToString::to_string).collect();
    let answered = async {
        let right = caller.right(server, context, &review.spec).await?;
        if review.metadata.is_null() {
            review.metadata = json!({});
        }
        let (text, further) = evaluate(server, review, right, validation, until, place).await?;
        warned.extend(further);
        let mut response = document(text, format, context);
        *response.status_mut() = StatusCode::CREATED;
        Ok(response)
    };
    let mut response = match answered.await {
        // An error can be caused by a misspelt field, so errors have these warnings too, as in kube-apiserver.
        Err(failure) if !unknown.is_empty() => context.error_response(&failure),
        answered => answered?,
    };
    warnings::add(response.headers_mut(), warned.iter().map(String::as_str));
    Ok(response)
}

/// Reads the body of a review until `until`, within the limits of bodies.
///
/// # Errors
/// 400 for a body that ends early or arrives too late, 413 for one that is too long, and 429 when bodies take too much
/// memory. A caller that may only send a reference to a stored Pod gets 403 instead of 413.
async fn read_body(
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
    match (request_body::read_body(body, context.headers, most, place, until).await, caller) {
        // The body is longer than any reference to a Pod, which is all that this caller may send.
        (Err(ApiError::TooLargeBody(_)), Caller::OnePod(refused)) => {
            Err(ApiError::Access(AccessError::Forbidden(refused.clone())))
        }
        (arrived, _) => arrived,
    }
}

/// Decodes a body. A long one is decoded on another thread than those that serve requests.
///
/// # Errors
/// 400 for a body that is not a review, 422 for an invalid review.
async fn decode_body(
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
        tracing::error!(%error, "parsing a placement review panicked");
        server.internal_error()
    })?
}

/// Evaluates a review on another thread. Returns the review with its status as JSON, and its warnings other than those
/// about unknown fields. `place` is held until the evaluation has ended.
///
/// # Errors
/// Those of [`answer()`] that concern the stores or the evaluation, and 429 if it has not ended at `until`.
async fn evaluate(
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
        // The counts in these errors are of the Pods and nodes of the whole cluster.
        Right::Event => failure.without_store_counts(),
    };
    let stores = stores.map_err(|error| disclosed(error.into_error()))?;
    let runtime = Runtime::look_up(&review.spec, &catalog, until.saturating_duration_since(Instant::now())).await;
    // The rules of the source's version; those of the default if its version is unknown, which is 0.
    let minor = u32::try_from(catalog.version.minor()).ok().filter(|minor| *minor > 0);
    let usual = Options::default();
    let options = Options { target_minor: minor.unwrap_or(usual.target_minor), ..usual };
    let index = server.reviews.index.clone();
    let work = move || {
        let _place = place;
        let indexed = index.at(&stores).map_err(|over| no_room(&over, right))?;
        in_time(until)?;
        match right {
            Right::Whole => review_body(review, &stores, &indexed, &runtime, &options, (validation, until)),
            Right::Event => event_body(review, &stores, &indexed, &options).map(|text| (text, Vec::new())),
        }
    };
    // The work holds its place until it has ended, even if that is too late for the client.
    let answered = timeout_at(until, tokio::task::spawn_blocking(work)).await.map_err(|_| too_late())?;
    answered.map_err(|error| {
        tracing::error!(%error, "evaluating a placement review panicked");
        server.internal_error()
    })?
}

/// The error for a review that was not evaluated in time, because it waited for a place or its evaluation took too
/// long.
fn too_late() -> ApiError {
    ApiError::TooManyReviews(MOST_AT_ONCE)
}

/// Checks that `until` has not passed, so that late work is ended.
///
/// # Errors
/// [`too_late`].
fn in_time(until: Instant) -> Result<(), ApiError> {
    if Instant::now() < until { Ok(()) } else { Err(too_late()) }
}

/// The error when the index does not fit into the memory limit. Only a caller that may see the whole result learns how
/// much memory the stores and the index take.
fn no_room(over: &OverMemory, right: Right) -> ApiError {
    let OverMemory { limit, held, needed } = over;
    let memory = match right {
        Right::Whole => format!(
            ": the stores take {held}, the index needs at least {needed}, and --memory-limit is {limit}. Raise \
             --memory-limit, delete FieldCaches, or stop reading other resources"
        ),
        Right::Event => String::new(),
    };
    let message = format!(
        "placement reviews need an index of nodes, pods and namespaces, which exceeds the memory limit{memory}"
    );
    ApiError::Limited(Limited { limit: Limit::Memory, message, retry_after: None })
}

/// Evaluates a review. Returns the review with its status as JSON, and warnings.
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

/// The error for a result that cannot be encoded as JSON.
fn unwritable(error: serde_json::Error) -> ApiError {
    ApiError::Internal(error.to_string())
}

/// The review as JSON, with a status that has only the message that an event of the Pod would have, and a warning if
/// the message can be wrong.
fn event_body(
    review: PlacementReview,
    stores: &PlacementStores,
    indexed: &IndexSnapshot,
    options: &Options,
) -> Result<Vec<u8>, ApiError> {
    let message = event_message(&review.spec, stores, indexed, options).map_err(failure)?;
    let mut document = serde_json::to_value(review).map_err(unwritable)?;
    document["status"] = json!({"message": message, "notEvaluated": crate::placement::answer::NOT_EVALUATED});
    if !indexed.ignored.is_empty() {
        document["status"]["warnings"] = json!([IGNORED]);
    }
    serde_json::to_vec(&document).map_err(unwritable)
}

/// The message that the FailedScheduling event of the stored Pod would have, or a message why it has none. Empty if the
/// review refers to no Pod.
///
/// # Errors
/// The Pod is missing, cannot be read, or is invalid.
fn event_message(
    spec: &PlacementReviewSpec,
    stores: &PlacementStores,
    indexed: &IndexSnapshot,
    options: &Options,
) -> Result<String, Unanswered> {
    let stored: Option<Pod> = answer::stored_pod(spec, stores)?;
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
        // An event would not have the number of these nodes, nor what is wrong with the others.
        _ => format!("the Pod fits a node by the rules that were evaluated, {NO_EVENT}"),
    })
}

/// The stores that placement needs, with the same bound of lag as for lists, and with all writes through this server.
/// Waits until `until` while they are being loaded.
///
/// # Errors
/// 503 for a store that is missing or too old, 429 while one is loading. [`NoResponse::Retry`] when a resource was
/// replaced.
async fn fresh_stores(server: &ServerState, catalog: &Catalog, until: Instant) -> Result<PlacementStores, NoResponse> {
    let patience = server.settings.patience.min(until.saturating_duration_since(Instant::now()));
    let mut stores = PlacementStores::load(catalog, patience).await.map_err(missing_store_error)?;
    for resource_state in stores.resource_states() {
        read::wait_for_max_lag(resource_state, server.settings.max_lag).await?;
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

/// The error for a body that is not a valid review.
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
