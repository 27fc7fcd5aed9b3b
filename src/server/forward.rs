//! Forwards a request to the API server, and returns its response as it arrives.
//!
//! Bodies are streamed in both directions. If the response of the API server breaks off, the response to the client
//! breaks off too. No redirect is followed, and no request is repeated. Nothing is converted, except that
//! [`super::websocket`] makes messages of the events of a watch. The upstream sends the credentials of fieldcache:
//! headers about the client's identity are never forwarded. `read_your_writes` makes later reads wait until the store
//! has a write.

use std::time::Duration;

use bytes::Bytes;
use http::header::{
    ACCEPT_ENCODING, ALT_SVC, AUTHORIZATION, CONNECTION, CONTENT_LENGTH, COOKIE, EXPECT, FORWARDED, HOST, HeaderName,
    ORIGIN, REFERER, STRICT_TRANSPORT_SECURITY, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body::Body as _;
use http_body_util::{BodyExt, Empty};
use tokio::time::timeout;

use super::consistency::{READ_HEADER, ReadFrom};
use super::context::RequestContext;
use super::drain_on_drop::DrainOnDrop;
use super::guards;
use super::read_your_writes::Write;
use super::request_metrics::AnswerPath;
use super::state::ServerState;
use super::websocket;
use crate::registry::fieldcache_protocol::CONSISTENCY_HEADER;
use crate::registry::upstream::{Upstream, UpstreamBody};
use crate::request::{ResourcePath, Route};
use crate::wire::api_error::ApiError;
use crate::wire::body::Body;
use crate::wire::params;

/// How long to wait for a response beyond the timeout of the request. The API server itself ends a request at its
/// timeout, so no response is expected after this time.
const GRACE: Duration = Duration::from_secs(5);

/// Forwards a request to the API server, and returns its response while the body still arrives.
///
/// # Errors
/// 429 when too many forwarded requests or watches are in progress, and 503 without a response in time. 400, 414 and
/// 415 for a request that cannot be forwarded.
pub(super) async fn answer(
    server: &ServerState,
    upstream: &dyn Upstream,
    context: &RequestContext<'_>,
    uri: &Uri,
    body: UpstreamBody,
) -> Result<Response<Body>, ApiError> {
    let address = if let Route::Resource(address) = context.info.route() { Some(address) } else { None };
    if let Some(address) = address
        && let Some(resource) = server.registry.catalog().resource(&address.gvr)
    {
        context.record.record_resource(context.info, context.headers, address, resource);
    }
    context.record.record_path(AnswerPath::Forwarded);
    // The API server would delete objects that the request does not select.
    let deletes_several =
        context.info.method == Method::DELETE && address.is_some_and(|address| address.name.is_none());
    if address.is_some_and(|address| address.subresource.is_none()) && (context.is_read() || deletes_several) {
        params::check_forwarded(&context.info.query)?;
    }
    if context.is_long {
        return Err(too_long());
    }
    let permit = server.forwarding.take(context.user, 1);
    let permit = permit.ok_or_else(|| ApiError::TooManyForwarded(server.forwarding.amount_of(context.user)))?;
    let reads = matches!(context.info.method, Method::GET | Method::HEAD | Method::OPTIONS);
    if !reads && !body.is_end_stream() {
        guards::check_media_type(context.headers)?;
    }
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let mut request = Request::new(if reads { empty() } else { DrainOnDrop::wrap(body) });
    *request.method_mut() = context.info.method.clone();
    *request.uri_mut() =
        path.parse().map_err(|error| ApiError::BadRequest(format!("the path cannot be forwarded: {error}")))?;
    *request.headers_mut() = forwarded_headers(context.headers);
    // The events of a watch over WebSocket are converted to messages, so they must not be compressed.
    if websocket::is_watch(context) {
        request.headers_mut().remove(ACCEPT_ENCODING);
    }
    // An upstream that is another fieldcache must not answer with an older state of its store.
    if reads && !request.headers().contains_key(CONSISTENCY_HEADER) {
        request.headers_mut().insert(CONSISTENCY_HEADER, HeaderValue::from_static("Strong"));
    }
    let write = address.and_then(|address| Write::begin(server, context, address));
    let is_long = is_long_running(context, address);
    let watch_permit =
        if is_long { Some(server.limits.watches().open(context.user, 0).map_err(ApiError::Limited)?) } else { None };
    let sending = async { upstream.send(request).await.map_err(ApiError::Unavailable) };
    let response = if is_long {
        sending.await?
    } else {
        timeout(context.timeout + GRACE, sending).await.unwrap_or_else(|_| {
            Err(ApiError::Unavailable("the API server did not respond to this forwarded request in time".to_owned()))
        })?
    };
    let (mut parts, mut body) = response.into_parts();
    if parts.status == StatusCode::SWITCHING_PROTOCOLS {
        return Err(ApiError::Unavailable(
            "the API server upgraded the connection to another protocol, which is not forwarded".to_owned(),
        ));
    }
    let mut headers = returned_headers(parts.headers);
    // Counts the memory of the part of the body that `record_version` has read.
    let mut body_share = None;
    if let Some(write) = write.filter(|_| parts.status.is_success()) {
        (body, body_share) = write.record_version(server, upstream, &mut headers, body).await;
    }
    headers.insert(READ_HEADER, ReadFrom::Forwarded.value());
    parts.headers = headers;
    let mut body = Body::forwarded(body, is_long);
    if let Some(watch_permit) = watch_permit {
        body.hold(watch_permit);
    }
    body.hold((permit, body_share));
    Ok(Response::from_parts(parts, body))
}

/// The error for a URL that cannot be forwarded.
pub(super) fn too_long() -> ApiError {
    let message = "the URL is too long: fieldcache can forward at most 65,534 bytes to the API server; shorten the selectors, or cache the resource";
    ApiError::Rejected(StatusCode::URI_TOO_LONG, message.to_owned())
}

/// A body without bytes.
pub(super) fn empty() -> UpstreamBody {
    Empty::<Bytes>::new().map_err(|never| match never {}).boxed_unsync()
}

/// Whether the response can pause for a long time without data: a watch, or a log that is followed.
fn is_long_running(context: &RequestContext<'_>, address: Option<&ResourcePath>) -> bool {
    address.is_some_and(|address| {
        let is_log = address.subresource.as_deref().is_some_and(|name| name == "log");
        address.legacy_watch || context.info.query.flag("watch") || (is_log && context.info.query.flag("follow"))
    })
}

/// Whether a header applies to a single connection (hop-by-hop), so that it is not forwarded.
fn is_hop_by_hop(name: &HeaderName) -> bool {
    [CONNECTION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE].contains(name)
        || ["keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "http2-settings"]
            .contains(&name.as_str())
}

/// The headers that do not apply to a single connection. Those that the header `Connection` names are left out too.
fn end_to_end(headers: &HeaderMap) -> HeaderMap {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|text| text.split(',').filter_map(|token| token.trim().parse().ok()))
        .collect();
    headers
        .iter()
        .filter(|(name, _)| !is_hop_by_hop(name) && !named.contains(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// The headers of a request that are forwarded. Left out are headers about the client's identity or address, about the
/// length of the body, and of a WebSocket handshake.
pub(super) fn forwarded_headers(headers: &HeaderMap) -> HeaderMap {
    let is_left_out = |name: &HeaderName| {
        let text = name.as_str();
        [AUTHORIZATION, COOKIE, CONTENT_LENGTH, EXPECT, FORWARDED, HOST, ORIGIN, REFERER].contains(name)
            || ["impersonate-", "x-remote-", "x-forwarded-", "sec-"].iter().any(|start| text.starts_with(start))
    };
    let mut sent = end_to_end(headers);
    let left_out: Vec<HeaderName> = sent.keys().filter(|name| is_left_out(name)).cloned().collect();
    for name in left_out {
        sent.remove(name);
    }
    sent
}

/// The headers of a response that are returned to the client. Headers that are rules for the address of the API server,
/// such as CORS, are left out.
pub(super) fn returned_headers(headers: HeaderMap) -> HeaderMap {
    let mut returned = end_to_end(&headers);
    let left_out: Vec<HeaderName> = returned
        .keys()
        .filter(|name| {
            [ALT_SVC, STRICT_TRANSPORT_SECURITY].contains(name) || name.as_str().starts_with("access-control-")
        })
        .cloned()
        .collect();
    for name in left_out {
        returned.remove(name);
    }
    returned
}
