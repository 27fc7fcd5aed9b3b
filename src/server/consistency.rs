//! Consistency of reads: what a read waits for, and the header that reports it.
//!
//! A Strong read first requests the source's current resourceVersion, with a list of the metadata of one object. This
//! costs the same for any number of objects. If the store has reached that version, the store answers the read. If not,
//! the request is forwarded to the API server where that is permitted. Otherwise the read waits for a progress
//! notification of the source (`registry::Freshness`). This module does not choose past states: `list` does.

use std::time::Duration;

use bytes::BytesMut;
use http::{HeaderName, HeaderValue, Method, Request, Response, header};
use http_body_util::{BodyExt, Empty};

use crate::json::tree;
use crate::model::{Gvr, Version};
use crate::registry::fieldcache_protocol::CONSISTENCY_HEADER;
use crate::registry::upstream::{Upstream, UpstreamBody};
use crate::registry::{LoadState, Resource, ResourceState};
use crate::store::Snapshot;

use super::context::RequestContext;
use super::no_response::NoResponse;
use super::read;
use super::settings::ReadConsistency;
use super::state::ServerState;
use crate::wire::api_error::ApiError;
use crate::wire::body::Body;

/// The response header that states how a Strong read was served, with a value of [`ReadFrom`].
pub const READ_HEADER: HeaderName = HeaderName::from_static("fieldcache-read");

/// The media type of the request for the source's current version: a list of metadata.
const ACCEPT_PARTIAL_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// The timeout of the request for the source's current version. The source needs little time, but the request can pass
/// through proxies.
const QUESTION_WAIT: Duration = Duration::from_secs(10);

/// The maximum length, in bytes, of the response to the request for the source's current version.
const MAX_RESPONSE_BYTES: usize = 64 << 20;

/// How a read was served, as the header [`READ_HEADER`] reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadFrom {
    /// From the store, without a wait for progress.
    Own,
    /// From the store, after the read had waited until the store was new enough.
    CatchUp,
    /// By the API server of the source.
    Forwarded,
}

impl ReadFrom {
    /// The value of the header.
    pub fn value(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            ReadFrom::Own => "own",
            ReadFrom::CatchUp => "catch-up",
            ReadFrom::Forwarded => "forwarded",
        })
    }

    /// Adds the header to a response.
    pub fn add_header(self, response: &mut Response<Body>) {
        response.headers_mut().insert(READ_HEADER, self.value());
    }
}

/// The consistency of this request. The first of these decides: Strong if it deletes what it selects, its header
/// [`CONSISTENCY_HEADER`], Strong if its View requires that, the default of the server.
///
/// # Errors
/// 400 for a header with another value than Strong or Eventual.
pub(super) fn consistency(server: &ServerState, context: &RequestContext<'_>) -> Result<ReadConsistency, ApiError> {
    match context.headers.get(CONSISTENCY_HEADER).map(HeaderValue::as_bytes) {
        // An older state could lack objects, or have objects that the selector no longer selects.
        None | Some(b"Strong" | b"Eventual") if context.info.method == Method::DELETE => Ok(ReadConsistency::Strong),
        None if context.view.as_ref().is_some_and(|request| request.view.definition().is_strong) => {
            Ok(ReadConsistency::Strong)
        }
        None => Ok(server.settings.consistency),
        Some(b"Strong") => Ok(ReadConsistency::Strong),
        Some(b"Eventual") => Ok(ReadConsistency::Eventual),
        Some(_) => Err(ApiError::BadRequest(format!("the header {CONSISTENCY_HEADER} must be Strong or Eventual"))),
    }
}

/// The version that the store must have reached for a read without a resourceVersion; `None` if any version is new
/// enough. For a Strong read this is the source's current version. For an Eventual read it is the version of the last
/// write through this server.
///
/// # Errors
/// 503 when the source does not return its current version.
pub(super) async fn needed_version(
    server: &ServerState,
    context: &RequestContext<'_>,
    resource: &Resource,
) -> Result<Option<Version>, ApiError> {
    let written = Some(resource.state.last_written()).filter(|version| *version > Version::ZERO);
    match (consistency(server, context)?, &server.settings.upstream) {
        (ReadConsistency::Strong, Some(upstream)) => {
            let version_request = source_version(&**upstream, &resource.gvr);
            let reply = tokio::time::timeout(QUESTION_WAIT, resource.state.source_version(version_request));
            let version = reply.await.unwrap_or_else(|_| Err("the source did not respond in time".to_owned()));
            version.map(Some).map_err(|problem| {
                let what = "a Strong read needs the newest resourceVersion of the source";
                ApiError::Unavailable(format!("{what}: {problem}"))
            })
        }
        // A folder has no source to compare with: the store is complete.
        (ReadConsistency::Strong, None) | (ReadConsistency::Eventual, _) => Ok(written),
    }
}

/// Waits for a snapshot of at least `version`, and returns it with how it was reached. `snapshot` is returned if it is
/// new enough, and for `None`.
///
/// # Errors
/// 504 when the store does not reach the version in time. [`NoResponse::Retry`] when the resource is no longer served,
/// or was replaced.
pub(super) async fn reach(
    resource_state: &ResourceState,
    snapshot: Snapshot,
    version: Option<Version>,
) -> Result<(Snapshot, ReadFrom), NoResponse> {
    match version.filter(|version| snapshot.version() < *version) {
        None => Ok((snapshot, ReadFrom::Own)),
        // In a box: every read would otherwise reserve memory for this future, and few reads wait.
        Some(version) => {
            Ok((Box::pin(read::not_older_than(resource_state, snapshot, version)).await?, ReadFrom::CatchUp))
        }
    }
}

/// A snapshot that is not older than the definition of the View, and how it was reached. It has at least the version
/// since which the View selects the same objects. This is `served` if it is new enough, as for every request without a
/// View. Otherwise the function waits as [`read::not_older_than`] does. If the source has no newer version, nothing has
/// been written since, and `served` is returned.
///
/// # Errors
/// [`NoResponse::Retry`] when the resource is no longer served, or was replaced.
pub(super) async fn reach_selection(resource: &Resource, served: Snapshot) -> Result<(Snapshot, ReadFrom), NoResponse> {
    let since = resource.selected_since();
    match reach(&resource.state, served.clone(), Some(since)).await {
        Err(NoResponse::Error(ApiError::TooLargeVersion { .. })) => {
            resource.lower_selected_since(since, served.version());
            Ok((served, ReadFrom::CatchUp))
        }
        reached => reached,
    }
}

/// A snapshot that is new enough for a read without a resourceVersion, and how it was reached. `snapshot` is the
/// current one. A Strong read needs the source's current version. An Eventual read only waits until writes through this
/// server are visible.
///
/// `upstream_understands` states whether the API server can answer this request, because it has no View and no fields
/// of a FieldCache. Such a Strong read is forwarded if the store is too old, because its progress can take a second.
///
/// # Errors
/// [`NoResponse::Forward`] if the request must be forwarded. 503 if the source does not return its current version. 504
/// if the store does not reach the version in time. [`NoResponse::Retry`] if the resource is no longer served, or was
/// replaced.
pub(super) async fn newest(
    server: &ServerState,
    context: &RequestContext<'_>,
    resource: &Resource,
    snapshot: Snapshot,
    upstream_understands: bool,
) -> Result<(Snapshot, ReadFrom), NoResponse> {
    let needed = needed_version(server, context, resource).await?;
    let is_strong = consistency(server, context)? == ReadConsistency::Strong;
    // The store may have advanced during the request to the source.
    let snapshot = match resource.state.load_state() {
        LoadState::Ready(newest) if is_strong => newest,
        LoadState::Idle
        | LoadState::Loading(_)
        | LoadState::SourceError { .. }
        | LoadState::OverMemory(_)
        | LoadState::Ready(_)
        | LoadState::Gone(_) => snapshot,
    };
    let may_forward = is_strong && upstream_understands && server.upstream().is_some();
    if may_forward && needed.is_some_and(|version| snapshot.version() < version) {
        return Err(NoResponse::Forward);
    }
    reach(&resource.state, snapshot, needed).await
}

/// Requests the current resourceVersion of a resource from the source. The request is Strong, so that a source that is
/// another fieldcache does not return the version of its store.
///
/// # Errors
/// The status and message of a response without the version, or why there is no response.
pub(super) async fn source_version(upstream: &dyn Upstream, gvr: &Gvr) -> Result<Version, String> {
    let path = format!("/{}/{}?limit=1", gvr.group_version().path(), gvr.resource);
    let body = UpstreamBody::new(Empty::new().map_err(|never| match never {}));
    let request = Request::builder()
        .method(Method::GET)
        .uri(&path)
        .header(header::ACCEPT, ACCEPT_PARTIAL_LIST)
        .header(CONSISTENCY_HEADER, "Strong")
        .body(body)
        .map_err(|error| error.to_string())?;
    let response = upstream.send(request).await?;
    let status = response.status();
    let mut response_body = response.into_body();
    let mut body = BytesMut::new();
    while let Some(frame) = response_body.frame().await {
        let chunk = frame.map_err(|error| error.to_string())?.into_data().unwrap_or_default();
        if body.len() + chunk.len() > MAX_RESPONSE_BYTES {
            return Err(format!("the response of the source to {path} is longer than {MAX_RESPONSE_BYTES} bytes"));
        }
        body.extend_from_slice(&chunk);
    }
    // Only the first two levels are parsed, because the object of the list may be nested deeply.
    let document = tree::shallow(&body, 2).unwrap_or_default();
    let version = document["metadata"]["resourceVersion"].as_str().and_then(Version::parse);
    version.filter(|_| status.is_success()).ok_or_else(|| {
        let message = document["message"].as_str().unwrap_or("the response is not a list with a resourceVersion");
        format!("the source returned {} for {path}: {message}", status.as_u16())
    })
}
