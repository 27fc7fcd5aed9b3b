//! Deletes the objects of a collection that selectors of fieldcache select: operators that kube-apiserver does not
//! have, and `celSelector`.
//!
//! Every other deletion of a collection is forwarded unchanged. So is one in all namespaces, which kube-apiserver does
//! not support. The steps for the rest:
//!
//! 1. fieldcache asks the API server for the permission, with a trial: the deletion of no object. It is a dry run, its
//!    selector contradicts itself, and it has the labels and options of the request. The API server authorizes the verb
//!    deletecollection, and checks the options. Any error is the response, before fieldcache reads an object.
//! 2. fieldcache selects the objects as for a list with Strong consistency, because kube-apiserver reads the newest
//!    state. The errors and limits are those of a list. A client that accepts none of the formats of a list gets 406.
//! 3. For each object, fieldcache forwards a deletion of the same collection with the field selector
//!    `metadata.name=NAME`. It has the body and all other parameters of the request. So the API server authorizes each
//!    deletion, runs its admission, and evaluates the labelSelector again. As in kube-apiserver, an object that is gone
//!    meanwhile is no error. The first error ends the request, and is its response.
//! 4. The response is the list of step 2. As in kube-apiserver, it shows the objects before their deletion, and includes
//!    those that were gone.
//!
//! **What a caller learns.** Requests are only forwarded without authentication (`serve`). Every caller then has the
//! permissions of the kubeconfig. It may list all objects of a stored resource, because otherwise there is no store.
//! Without the permission deletecollection, it only gets the 403 of the API server, whatever the store has. The trial
//! does not depend on the objects, and an authorizer sees its selectors, as for the deletions.
//!
//! **Aggregated API servers.** One that ignores the fieldSelector would delete all objects of the collection. If the
//! response to the trial has objects, fieldcache therefore deletes nothing. The trial itself is a dry run.
//!
//! If the client goes away, the request is dropped, and no further object is deleted. After an error or a timeout, a
//! client can repeat the request: fieldcache then selects the remaining objects.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt};
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use super::consistency::{READ_HEADER, ReadFrom};
use super::context::RequestContext;
use super::drain_on_drop::DrainOnDrop;
use super::list::ListStep;
use super::no_response::NoResponse;
use super::read_your_writes::Write;
use super::request_metrics::AnswerPath;
use super::response::document;
use super::state::{MOST_ATTEMPTS, ServerState};
use super::{forward, guards, list, read};
use crate::flow_control::bodies::BodyPlace;
use crate::json::tree;
use crate::model::Scope;
use crate::model::percent::percent_encode;
use crate::query::{ResolvedFields, Selection};
use crate::registry::upstream::{Upstream, UpstreamBody};
use crate::registry::{Catalog, Resource};
use crate::request::{Query, ResourcePath, Route};
use crate::selector::FieldSelector;
use crate::selector::field::escape_value;
use crate::wire::api_error::ApiError;
use crate::wire::body::Body;
use crate::wire::negotiate::Format;
use crate::wire::{params, request_body, warnings};

/// The maximum number of objects that one request deletes: as many as kube-apiserver reads at a time for a deletion.
/// More would rarely be deleted within the timeout of a request.
pub(super) const MOST_OBJECTS: usize = 10_000;

/// The number of objects that one request deletes at the same time.
const AT_ONCE: usize = 4;

/// The maximum length of the response to the trial, in bytes. An empty list is short.
const MOST_OF_TRIAL: usize = 1 << 20;

/// A field selector that no object satisfies. Because it requires a name, the API server reads at most one object.
const NO_OBJECT: &str = "metadata.name=fieldcache,metadata.name!=fieldcache";

/// The media types of the forwarded requests: the metadata of a list, which is short, or the list. Errors are JSON.
const ACCEPTED: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// The parameters that select objects. fieldcache evaluates them, and does not forward them.
const SELECTING: [&str; 16] = [
    "allowWatchBookmarks",
    "celSelector",
    "continue",
    "explain",
    "facetLimit",
    "facets",
    "fieldSelector",
    "limit",
    "quiet",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "shardSelector",
    "sortBy",
    "timeoutSeconds",
    "watch",
];

/// The parameters that kube-apiserver only reads from a request without a body.
const DELETE_OPTIONS: [&str; 5] = [
    "dryRun",
    "gracePeriodSeconds",
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "orphanDependents",
    "propagationPolicy",
];

/// A collection of which fieldcache selects the objects to delete.
pub(super) struct SelectedCollection<'r> {
    address: &'r ResourcePath,
    resource: Arc<Resource>,
}

/// The collection of a request that deletes one by selectors that kube-apiserver would reject or ignore. `None` for every
/// other request, and for selectors that both reject with the same error.
pub(super) fn selected_here<'r>(context: &RequestContext<'r>, catalog: &Catalog) -> Option<SelectedCollection<'r>> {
    let Route::Resource(address) = context.info.route() else { return None };
    let is_collection = address.name.is_none() && address.subresource.is_none() && !address.legacy_watch;
    if context.info.method != Method::DELETE || !is_collection {
        return None;
    }
    let resource = read::find(catalog, address).ok()?;
    if resource.scope == Scope::Namespaced && address.namespace.is_none() {
        return None;
    }
    let is_selected_here = needs_fieldcache(context, &resource);
    is_selected_here.then_some(SelectedCollection { address, resource })
}

/// Whether kube-apiserver would reject or ignore the selectors of a request, and fieldcache has a meaning or an error of
/// its own for them.
fn needs_fieldcache(context: &RequestContext<'_>, resource: &Resource) -> bool {
    let query = &context.info.query;
    if query.get("celSelector").is_some_and(|text| !text.is_empty()) {
        return true;
    }
    let text = query.get("fieldSelector").unwrap_or_default();
    let selector = match context.info.selectors().fields.read() {
        Some(selector) => selector.clone(),
        None => match FieldSelector::parse_at_most(text, params::MOST_REQUIREMENTS) {
            Ok(selector) => selector,
            // kube-apiserver accepts any number of terms. For other texts, a list has the error.
            Err(_) => return context.is_long || FieldSelector::parse_as_kubernetes(text, usize::MAX).is_err(),
        },
    };
    let has_own_reading = selector.is_extended || selector.extended.is_some();
    match ResolvedFields::new(selector, &resource.extractor) {
        Ok(ResolvedFields { terms: fields, is_extended }) => {
            is_extended || !read::upstream_knows(resource, &Selection { fields, ..Selection::default() })
        }
        // A newer API server may have the field.
        Err(_) => has_own_reading,
    }
}

/// Deletes the selected objects of a collection, and responds with their list; see the module.
///
/// # Errors
/// 400 for invalid parameters and for more than [`MOST_OBJECTS`] objects. 413 and 415 for the body, and 406 without an
/// acceptable format. 429 when a limit is reached, and 503 when the API server does not respond, or the objects are not
/// deleted in time. 500 if the API server ignores the selector. All but 503 come before an object is deleted.
pub(super) async fn answer(
    server: &ServerState,
    upstream: &dyn Upstream,
    context: &RequestContext<'_>,
    collection: &SelectedCollection<'_>,
    (uri, body): (&Uri, UpstreamBody),
) -> Result<Response<Body>, ApiError> {
    let SelectedCollection { address, resource } = collection;
    context.record.record_resource(context.info, context.headers, address, resource);
    context.record.record_path(AnswerPath::Forwarded);
    // Sorted objects could only be deleted in part, by `limit`.
    params::check_not_sorted(&context.info.query)?;
    let until = Instant::now() + context.timeout;
    let permit = server.forwarding.take(context.user, AT_ONCE as u64);
    let permit = permit.ok_or_else(|| ApiError::TooManyForwarded(server.forwarding.amount_of(context.user)))?;
    let (body, _place) = read_body(server, context, body, until).await?;
    let deletion = Deletion {
        server,
        upstream,
        context,
        address,
        path: uri.path(),
        parameters: parameters(&context.info.query, &SELECTING),
        body,
        until,
        deleted: AtomicUsize::new(0),
        is_complete: AtomicBool::new(false),
    };
    if let Some(mut refused) = deletion.try_permission().await? {
        refused.body_mut().hold(permit);
        return Ok(refused);
    }
    let mut resource = resource.clone();
    let mut listed = Err(NoResponse::Retry);
    for _ in 0..MOST_ATTEMPTS {
        // The future of a list is large.
        listed = Box::pin(list::answer_after(server, context, address, &resource, Some(&deletion))).await;
        if !matches!(listed, Err(NoResponse::Retry)) {
            break;
        }
        resource = read::find(&server.registry.catalog(), address)?;
    }
    // Objects can be deleted even if the response is an error.
    let mut recorded = HeaderMap::new();
    if deletion.deleted.load(Ordering::Relaxed) > 0
        && let Some(write) = Write::begin(server, context, address)
    {
        write.record_current_version(server, upstream, &mut recorded).await;
    }
    let mut response = match listed {
        Ok(response) => response,
        // All objects are deleted, and only their list is lost, such as for memory.
        Err(_) if deletion.is_complete.load(Ordering::Relaxed) => success(context, &resource),
        Err(unanswered) => context.error_response(&unanswered.into_error()),
    };
    for (name, value) in &recorded {
        response.headers_mut().append(name, value.clone());
    }
    warnings::add(response.headers_mut(), resource.deprecation_warning.as_deref());
    Ok(response)
}

/// Reads the body of a request until `until`, because each deletion sends it. The place counts it until it is dropped;
/// an empty body needs none.
///
/// # Errors
/// 400 for a body that ends early or arrives too late, 413 for one that is too long, 415 for one of a browser without
/// a media type, and 429 when bodies take too much memory.
async fn read_body(
    server: &ServerState,
    context: &RequestContext<'_>,
    body: UpstreamBody,
    until: Instant,
) -> Result<(Bytes, Option<BodyPlace>), ApiError> {
    if http_body::Body::is_end_stream(&body) {
        return Ok((Bytes::new(), None));
    }
    guards::check_media_type(context.headers)?;
    let place = server.limits.bodies().enter(context.user).map_err(ApiError::Limited)?;
    let body = Some(DrainOnDrop::wrap(body));
    let arrived = request_body::read_body(body, context.headers, request_body::MOST, place, until).await?;
    Ok((Bytes::from(arrived.bytes), Some(arrived.place)))
}

/// The parameters of a query, without those in `left_out`, each with an ampersand before it.
fn parameters(query: &Query, left_out: &[&str]) -> String {
    let kept = query.pairs().filter(|(key, _)| !left_out.contains(key));
    kept.map(|(key, value)| format!("&{}={}", percent_encode(key), percent_encode(value))).collect()
}

/// kube-apiserver's response to a successful deletion without a list.
fn success(context: &RequestContext<'_>, resource: &Resource) -> Response<Body> {
    let details = json!({"group": resource.gvr.group, "kind": resource.gvr.resource});
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details, "code": 200,
    });
    document(status.to_string().into_bytes(), Format::Json, context)
}

/// The deletion of the selected objects of one request.
struct Deletion<'d> {
    server: &'d ServerState,
    upstream: &'d dyn Upstream,
    context: &'d RequestContext<'d>,
    address: &'d ResourcePath,
    /// The path of the request.
    path: &'d str,
    /// The parameters that each deletion has, without its selector.
    parameters: String,
    /// The body that each deletion has.
    body: Bytes,
    /// When the request times out.
    until: Instant,
    /// The number of deletions that have succeeded.
    deleted: AtomicUsize,
    /// Whether all deletions have succeeded.
    is_complete: AtomicBool,
}

impl ListStep for Deletion<'_> {
    fn most(&self) -> usize {
        MOST_OBJECTS
    }

    fn run(&self, names: Vec<String>, further: u64) -> BoxFuture<'_, Result<Option<Response<Body>>, ApiError>> {
        Box::pin(self.delete_all(names, further))
    }
}

impl Deletion<'_> {
    /// Asks the API server whether the caller may delete the collection; see the module. `None`: it may. Otherwise the
    /// result is the response of the API server.
    ///
    /// # Errors
    /// 503 without a response, and 500 if the API server ignores the selector.
    async fn try_permission(&self) -> Result<Option<Response<Body>>, ApiError> {
        // kube-apiserver does not read options in the query beside a body, so they need not be valid there.
        let options = match self.body.is_empty() {
            true => self.parameters.clone(),
            false => parameters(&self.context.info.query, &[&SELECTING[..], &DELETE_OPTIONS].concat()),
        };
        let response = self.send(NO_OBJECT, &format!("{options}&dryRun=All"), Bytes::new()).await?;
        if !response.status().is_success() {
            return Ok(Some(returned(response)));
        }
        let list = timeout_at(self.until, read_list(response.into_body())).await.unwrap_or(None);
        let is_empty = list.is_some_and(|list| list["items"].as_array().is_none_or(Vec::is_empty));
        if is_empty {
            return Ok(None);
        }
        Err(ApiError::Internal(format!(
            "the API server ignores the field selector of a deletion of {}, so fieldcache deletes nothing: list the \
             objects with this selector, and delete them by their names",
            self.address.gvr.group_resource()
        )))
    }

    /// Deletes the objects of these names. `further`: the number of objects that the request selects beyond
    /// [`MOST_OBJECTS`]. Returns the first response of the API server that is an error.
    ///
    /// # Errors
    /// 400 for too many objects and 429 when the names take too much memory, before an object is deleted. 503 without a
    /// response in time.
    async fn delete_all(&self, names: Vec<String>, further: u64) -> Result<Option<Response<Body>>, ApiError> {
        if further > 0 {
            return Err(ApiError::BadRequest(format!(
                "the selectors select {} objects, and one request deletes at most {MOST_OBJECTS}: delete them in \
                 several requests with limit={MOST_OBJECTS}, or narrow the selectors",
                names.len() as u64 + further
            )));
        }
        let bytes: usize = names.iter().map(|name| size_of::<String>() + name.len()).sum();
        let _share = self.server.waiting_memory(self.context.user, bytes as u64).admit()?;
        let total = names.len();
        let mut deletions = stream::iter(names).map(|name| self.delete(name)).buffer_unordered(AT_ONCE);
        while let Some(deleted) = deletions.next().await {
            match deleted {
                Ok(None) => _ = self.deleted.fetch_add(1, Ordering::Relaxed),
                Ok(Some(failed)) => return Ok(Some(failed)),
                Err(failure) => return Err(self.stopped(failure, total)),
            }
        }
        self.is_complete.store(true, Ordering::Relaxed);
        Ok(None)
    }

    /// Deletes the object of this name. `None`: it is deleted, or was gone. Otherwise the result is the response of the
    /// API server.
    ///
    /// # Errors
    /// Why there is no response in time.
    async fn delete(&self, name: String) -> Result<Option<Response<Body>>, ApiError> {
        let selector = format!("metadata.name={}", escape_value(&name));
        let response = self.send(&selector, &self.parameters, self.body.clone()).await?;
        if !response.status().is_success() {
            return Ok(Some(returned(response)));
        }
        // The connection can only be used again when the response has been read. The object is deleted in any case.
        let mut body = response.into_body();
        let reading = async { while let Some(Ok(_)) = body.frame().await {} };
        _ = timeout_at(self.until, reading).await;
        Ok(None)
    }

    /// The error for a request of which not all objects were deleted, because a deletion has no response.
    fn stopped(&self, failure: ApiError, total: usize) -> ApiError {
        let ApiError::Unavailable(cause) = failure else { return failure };
        let deleted = self.deleted.load(Ordering::Relaxed);
        ApiError::Unavailable(format!(
            "{deleted} of {total} selected objects are deleted: send the request again to delete the others; the cause: \
             {cause}"
        ))
    }

    /// Sends a deletion of the objects of the collection that `selector` selects.
    ///
    /// # Errors
    /// 414 if the URL is too long, and 503 without a response in time.
    async fn send(&self, selector: &str, parameters: &str, body: Bytes) -> Result<Response<UpstreamBody>, ApiError> {
        let uri = format!("{}?fieldSelector={}{parameters}", self.path, percent_encode(selector));
        let has_body = !body.is_empty();
        let mut request = Request::new(Full::new(body).map_err(|never| match never {}).boxed_unsync());
        *request.method_mut() = Method::DELETE;
        *request.uri_mut() = uri.parse().map_err(|_| forward::too_long())?;
        *request.headers_mut() = headers(self.context.headers, has_body);
        let sent = timeout_at(self.until, self.upstream.send(request)).await;
        let late = "the API server did not respond to this forwarded request in time";
        sent.unwrap_or_else(|_| Err(late.to_owned())).map_err(ApiError::Unavailable)
    }
}

/// The headers of a deletion, from those of the request.
fn headers(sent: &HeaderMap, has_body: bool) -> HeaderMap {
    let mut headers = forward::forwarded_headers(sent);
    headers.insert(ACCEPT, HeaderValue::from_static(ACCEPTED));
    headers.remove(ACCEPT_ENCODING);
    if !has_body {
        headers.remove(CONTENT_TYPE);
    }
    headers
}

/// The response to the client, from a response of the API server that is an error.
fn returned(response: Response<UpstreamBody>) -> Response<Body> {
    let (mut parts, body) = response.into_parts();
    parts.headers = forward::returned_headers(parts.headers);
    parts.headers.insert(READ_HEADER, ReadFrom::Forwarded.value());
    Response::from_parts(parts, Body::forwarded(body, false))
}

/// The outer levels of a list in JSON. `None` if it is no JSON, is longer than [`MOST_OF_TRIAL`], or ends early.
async fn read_list(mut body: UpstreamBody) -> Option<Value> {
    let mut read = Vec::new();
    while let Some(frame) = body.frame().await {
        read.extend_from_slice(&frame.ok()?.into_data().unwrap_or_default());
        if read.len() > MOST_OF_TRIAL {
            return None;
        }
    }
    tree::shallow(&read, 2).ok()
}
