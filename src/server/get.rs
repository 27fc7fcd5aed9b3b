//! One GET: an object by name, or its subresource status, for which kube-apiserver returns the whole object too.
//!
//! Selectors are ignored here, as kube-apiserver ignores them. A resourceVersion means "not older than"; 0 means the
//! store as it is; without a resourceVersion `consistency` decides. A response over 4 MiB needs a permit, as a large
//! list does.

use std::sync::Arc;

use http::Response;
use tokio::time::Instant;

use crate::model::{Version, quote};
use crate::query::{AccessPath, Explanation, Selection};
use crate::registry::{LoadState, Resource, ResourceOrigin};
use crate::store::{Object, Snapshot};

use super::consistency::{self, ReadFrom};
use super::context::RequestContext;
use super::no_response::NoResponse;
use super::response::{chunked, document, length_as};
use super::settings::ReadConsistency;
use super::state::ServerState;
use super::{explain, read};
use crate::flow_control::lists::{LARGE, ListAdmission};
use crate::flow_control::long_work::{ObjectWork, may_read};
use crate::request::ResourcePath;
use crate::wire::api_error::ApiError;
use crate::wire::body::Body;
use crate::wire::encode::Shown;
use crate::wire::facets::FacetOptions;
use crate::wire::negotiate::{Format, OBJECTS, Offer, Protobuf, Representation, check_route_accept, negotiate};
use crate::wire::params::{check_no_cel, check_not_sorted, read_version};
use crate::wire::row::Row;
use crate::wire::table;
use crate::wire::table::{Columns, Include};
use crate::wire::{protobuf, yaml};

/// Responds with one object.
///
/// # Errors
/// 404 for a missing object or subresource, 405 for a subresource that only the API server serves. 400 and 406 for the
/// request, 429 when a limit is reached, and those of [`newest_enough`].
pub(super) async fn answer(
    server: &ServerState,
    context: &RequestContext<'_>,
    address: &ResourcePath,
    resource: &Arc<Resource>,
) -> Result<Response<Body>, NoResponse> {
    answer_in(server, context, address, resource, protobuf::offered(&server.catalog(context), resource)).await
}

/// Responds with one object. `whole` is the resource with all parts of its objects; the client can request only some
/// parts in the Accept header (`drop`, `keep`). `offered` states whether protobuf can be negotiated. If the object has
/// no protobuf form, this function calls itself with an offer without protobuf.
///
/// # Errors
/// Those of [`answer`].
async fn answer_in(
    server: &ServerState,
    context: &RequestContext<'_>,
    address: &ResourcePath,
    whole: &Arc<Resource>,
    offered: Protobuf,
) -> Result<Response<Body>, NoResponse> {
    let resource = whole;
    let name = address.name.as_deref().unwrap_or_default();
    let not_found = || ApiError::NotFound { gvr: address.gvr.clone(), name: name.to_owned() };
    // kube-apiserver ignores the path below the subresource of a custom resource.
    let subresource = address.subresource.as_deref().map(|below| match resource.origin {
        ResourceOrigin::Custom => below.split('/').next().unwrap_or_default(),
        ResourceOrigin::BuiltIn => below,
    });
    match subresource {
        None => {}
        Some("status") if resource.subresources.iter().any(|subresource| subresource.name == "status") => {}
        // Other subresources do not return the object: scale has its own kind, log and exec are streams.
        Some(known) if resource.subresources.iter().any(|subresource| subresource.name == known) => {
            let mut gvr = address.gvr.clone();
            gvr.resource = format!("{}/{known}", gvr.resource);
            return Err(ApiError::MethodNotAllowed { verb: "get", gvr }.into());
        }
        // kube-apiserver has no route for an unknown subresource of a built-in resource.
        Some(_) if resource.origin == ResourceOrigin::BuiltIn => return Err(ApiError::UnknownResource.into()),
        Some(_) => return Err(not_found().into()),
    }
    if resource.origin == ResourceOrigin::BuiltIn {
        check_route_accept(context.headers, &OBJECTS)?;
    }
    let agreed = negotiate(context.headers, Offer::Resource, offered)?;
    FacetOptions::check_absent(&context.info.query)?;
    check_not_sorted(&context.info.query)?;
    check_no_cel(&context.info.query)?;
    let resource = &whole.for_request(&agreed.parts);
    if let Some(problem) = problem_of_name(name) {
        return Err(ApiError::BadRequest(format!("Name parameter invalid: {}: {problem}", quote(name))).into());
    }
    let version =
        read_version(context.info.query.get("resourceVersion").unwrap_or_default()).map_err(ApiError::Bare)?;
    let consistency = consistency::consistency(server, context)?;
    let key = match read::namespace_of(resource, address) {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.to_owned(),
    };
    // The permit of large lists, and the length in bytes for which it was acquired.
    let (mut permit, mut admitted) = (None, 0);
    let now = (server.settings.clock)();
    // Each round reads the newest object and makes the content. A round that has to wait in the queue of large lists
    // first drops what it holds, and the next round begins again.
    let (content, object, took, from) = loop {
        let (snapshot, from) = newest_enough(server, context, resource, version, consistency).await?;
        let begun = Instant::now();
        let shown = resource.restrict(Selection::default());
        let stored = snapshot.get(&key).filter(|object| shown.meets_requirements(object)).cloned();
        let took = begun.elapsed();
        context.record.record_access(AccessPath::Index);
        let stored = stored.ok_or_else(not_found)?;
        // To make a response from a large object is long work, so the request needs a permit before it. The length of
        // the response is known only after it.
        let work = work_of(resource, &agreed.form, &stored);
        if work > LARGE && permit.is_none() {
            admitted = stored.length() as u64;
            match server.limits.lists().acquire(context.user, admitted).map_err(ApiError::Limited)? {
                ListAdmission::Granted(granted) => permit = Some(granted),
                ListAdmission::Queued(waiting) => {
                    drop((stored, snapshot));
                    permit = Some(Box::pin(waiting.wait()).await.map_err(ApiError::Limited)?);
                    continue;
                }
            }
        }
        let length = object_work(server, context, resource, &agreed.form).bytes(stored.length());
        let (stored, snapshot) = if may_read(length) {
            (stored, snapshot)
        } else {
            // A long object needs a long turn (`flow_control::long_work`). Nothing is held while the request waits for
            // it, and the newest object is read in it. If the store is not ready then, or has begun a new epoch, its
            // state must be chosen again.
            let epoch = snapshot.epoch();
            // Rejects the request before it uses up a long turn, if its response could not be sent. Rounded, because a
            // View may prune the object: see `Body::most_held_bytes`.
            let response_bytes = stored.length().next_power_of_two() as u64;
            let _response_share = server.waiting_memory(context.user, response_bytes).admit()?;
            drop((stored, snapshot));
            let long_turn = server.limits.seats().wait_for_long_turn(context.user, length).await;
            long_turn.map_err(ApiError::Limited)?;
            let LoadState::Ready(newer) = resource.state.load_state() else { continue };
            if newer.epoch() != epoch {
                continue;
            }
            let stored = newer.get(&key).filter(|object| shown.meets_requirements(object)).cloned();
            (stored.ok_or_else(not_found)?, newer)
        };
        let object = resource.show(stored).ok_or_else(not_found)?;
        let content = form(server, context, resource, &agreed.form, &object)?;
        // A response that is as long as a large list needs a permit too, even if the object is short.
        let length = match &content {
            Content::Document(json) => length_as(json, agreed.format, context),
            Content::Table(columns) => Row::new(columns, Shown::as_is(&object), now)
                .length_with(|json| length_as(json, agreed.format, context)),
        };
        if length <= LARGE || (permit.is_some() && length <= admitted) {
            break (content, object, took, from);
        }
        drop(permit.take());
        // The next permit is for this length. It admits the object in the next round at any length, so that an object
        // that grows meanwhile does not make the request wait again.
        admitted = u64::MAX;
        match server.limits.lists().acquire(context.user, length).map_err(ApiError::Limited)? {
            ListAdmission::Granted(granted) => {
                permit = Some(granted);
                break (content, object, took, from);
            }
            ListAdmission::Queued(waiting) => {
                // Nothing is held in the queue, and the newest object is read after it.
                drop((content, object, snapshot));
                permit = Some(Box::pin(waiting.wait()).await.map_err(ApiError::Limited)?);
            }
        }
    };
    let object_length = object.length() as u64;
    let mut response = match content {
        Content::Document(json) if agreed.format == Format::Protobuf => {
            match protobuf::single(&server.catalog(context), resource, &agreed.form, &object, &json) {
                Some(encoded) => document(encoded, Format::Protobuf, context),
                None => {
                    drop((permit, object));
                    return Box::pin(answer_in(server, context, address, whole, offered.without())).await;
                }
            }
        }
        Content::Document(json) => document(json, agreed.format, context),
        Content::Table(columns) => {
            let (envelope, bytes_held) = (columns.single_envelope(object.version()), columns.most_held(object_length));
            let pieces = table::pieces(&columns, envelope, std::iter::once(object), Box::new(Some), agreed.format, now);
            let mut response = chunked(pieces, agreed.format, context);
            response.body_mut().add_held_bytes(bytes_held);
            if agreed.format == Format::Yaml {
                response.body_mut().add_held_bytes(yaml::most_held(object_length));
            }
            response
        }
    };
    if let Some(permit) = permit {
        response.body_mut().hold(permit);
    }
    if agreed.misses_protobuf {
        protobuf::add_missed_header(resource, &mut response);
    }
    if consistency == ReadConsistency::Strong {
        from.add_header(&mut response);
    }
    if context.wants_explanation() {
        let bytes = Some(object_length);
        let candidates = context.may_list_all(&resource.gvr).await.then_some(1);
        let explanation = Explanation::one_object(&key, candidates, bytes);
        explain::add_explain_header(&mut response, &explanation, Some(took));
    }
    Ok(response)
}

/// A snapshot that is new enough for the request, and how it was reached. `version` is the requested resourceVersion;
/// `None` if the request has none.
///
/// # Errors
/// 429 while the store is being loaded. 503 if the store lags too far, or the source does not return its version. 504
/// if the store does not reach the version in time. [`read::snapshot`] has those of a store that cannot be loaded.
/// [`NoResponse::Retry`] if the resource is no longer served, or was replaced. [`NoResponse::Forward`] if a Strong read
/// without a View would have to wait, and the API server can answer it instead.
async fn newest_enough(
    server: &ServerState,
    context: &RequestContext<'_>,
    resource: &Resource,
    version: Option<Version>,
    consistency: ReadConsistency,
) -> Result<(Snapshot, ReadFrom), NoResponse> {
    let patience = server.settings.patience.min(context.timeout);
    let snapshot = read::snapshot(&resource.state, patience).await?;
    if version.is_some() || consistency == ReadConsistency::Eventual {
        read::wait_for_max_lag(&resource.state, server.settings.max_lag).await?;
    }
    match version {
        // For an Eventual read, `newest` only waits until writes through this server are visible.
        None => {
            // The API server knows neither Views nor `keep`.
            let is_upstream = context.view.is_none() && !resource.prune().is_some_and(|prune| prune.keeps_named_only());
            Box::pin(consistency::newest(server, context, resource, snapshot, is_upstream)).await
        }
        requested => consistency::reach(&resource.state, snapshot, requested).await,
    }
}

/// The content of the response, without its encoding as JSON, YAML or protobuf.
enum Content {
    /// A JSON document.
    Document(Vec<u8>),
    /// A Table with the object as its row, which is written in pieces.
    Table(Arc<Columns>),
}

/// The approximate number of bytes that are read to make the response, to decide whether it needs a permit. For a
/// Table, each column reads the object again.
fn work_of(resource: &Resource, form: &Representation, object: &Object) -> u64 {
    let passes = match form {
        Representation::Table(_) => 1 + resource.printer_columns.len() as u64,
        Representation::Whole
        | Representation::Partial(_)
        | Representation::PartialList(_)
        | Representation::AggregatedDiscovery
        | Representation::Facets => 1,
    };
    passes.saturating_mul(object.length() as u64)
}

/// The work of writing an object in this form, as a function of its length, to decide whether it needs a long turn.
fn object_work(
    server: &ServerState,
    context: &RequestContext<'_>,
    resource: &Resource,
    form: &Representation,
) -> ObjectWork {
    match (form, Include::read(&context.info.query, form)) {
        (Representation::Table(version), Ok(include)) => server.columns.get(resource, version, include).work(),
        // An invalid parameter is reported when the response is made.
        (_, Ok(_) | Err(_)) => ObjectWork::Times(1),
    }
}

/// The content of the response: the object in the negotiated representation `form`. As in kube-apiserver, the object is
/// converted last, so that any other error of the request takes precedence.
///
/// # Errors
/// 400 or 406 for a representation that only lists have, 400 for an invalid `includeObject`.
fn form(
    server: &ServerState,
    context: &RequestContext<'_>,
    resource: &Resource,
    form: &Representation,
    object: &Object,
) -> Result<Content, ApiError> {
    let include = Include::read(&context.info.query, form)?;
    let shown = Shown::as_is(object);
    let mut json = Vec::new();
    match form {
        Representation::PartialList(_) => {
            return Err(match resource.origin {
                ResourceOrigin::Custom => ApiError::Bare("content is not a list".to_owned()),
                ResourceOrigin::BuiltIn => ApiError::NotAcceptable(format!(
                    "you requested PartialObjectMetadataList, but the requested object is not a list ({})",
                    super::list::go_type(resource, &resource.kind)
                )),
            });
        }
        Representation::Whole | Representation::AggregatedDiscovery | Representation::Facets => {
            json.reserve(object.length() + 256);
            shown.write_single(resource, &mut json);
        }
        Representation::Partial(version) => shown.write_partial(&format!("meta.k8s.io/{version}"), &mut json),
        Representation::Table(version) => return Ok(Content::Table(server.columns.get(resource, version, include))),
    }
    Ok(Content::Document(json))
}

/// The reason why a name is not valid in a path (apimachinery `api/validation/path`); `None` if it is valid.
fn problem_of_name(name: &str) -> Option<&'static str> {
    match name {
        "." => Some("may not be '.'"),
        ".." => Some("may not be '..'"),
        _ if name.contains('/') => Some("may not contain '/'"),
        _ if name.contains('%') => Some("may not contain '%'"),
        _ => None,
    }
}
