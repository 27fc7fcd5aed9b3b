//! Forwards a request to the API server, and returns its response as it arrives.
//!
//! Bodies stream both ways, and a response that breaks off breaks off here too. No redirect is followed, and nothing
//! is repeated. Nothing is converted, except that [`super::websocket`] makes messages of the events of a watch. The
//! upstream applies its own credentials: headers about the client's identity are never forwarded. `read_your_writes`
//! handles what a write means for the stores.

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

/// How long to wait for a response beyond the timeout of the request. The API server ends late requests itself; after
/// this, no response will come.
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
    if address.is_some_and(|address| address.subresource.is_none()) && context.is_read() {
        params::check_forwarded(&context.info.query)?;
    }
    if context.is_long {
        let message = "the URL is too long to be forwarded to the API server (at most 65,534 bytes): shorten the selectors, or cache the resource";
        return Err(ApiError::Rejected(StatusCode::URI_TOO_LONG, message.to_owned()));
    }
    let place = server.forwarding.take(context.user, 1);
    let place = place.ok_or_else(|| ApiError::TooManyForwarded(server.forwarding.amount_of(context.user)))?;
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
    if websocket::is_watch(context) {
        request.headers_mut().remove(ACCEPT_ENCODING);
    }
    // Another fieldcache must not answer from its store either.
    if reads && !request.headers().contains_key(CONSISTENCY_HEADER) {
        request.headers_mut().insert(CONSISTENCY_HEADER, HeaderValue::from_static("Strong"));
    }
    let write = address.and_then(|address| Write::begin(server, context, address));
    let is_long = is_long_running(context, address);
    let counted =
        if is_long { Some(server.limits.watches().open(context.user, 0).map_err(ApiError::Limited)?) } else { None };
    let answered = async { upstream.send(request).await.map_err(ApiError::Unavailable) };
    let response = if is_long {
        answered.await?
    } else {
        timeout(context.timeout + GRACE, answered).await.unwrap_or_else(|_| {
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
    // The share of the body that `record_version` has read into memory.
    let mut read = None;
    if let Some(write) = write.filter(|_| parts.status.is_success()) {
        (body, read) = write.record_version(server, upstream, &mut headers, body).await;
    }
    headers.insert(READ_HEADER, ReadFrom::Forwarded.value());
    parts.headers = headers;
    let mut body = Body::forwarded(body, is_long);
    if let Some(counted) = counted {
        body.hold(counted);
    }
    body.hold((place, read));
    Ok(Response::from_parts(parts, body))
}

/// A body without bytes.
fn empty() -> UpstreamBody {
    Empty::<Bytes>::new().map_err(|never| match never {}).boxed_unsync()
}

/// Whether the response can be without data for long: a watch, or a log that is followed.
fn is_long_running(context: &RequestContext<'_>, address: Option<&ResourcePath>) -> bool {
    address.is_some_and(|address| {
        let is_log = address.subresource.as_deref().is_some_and(|name| name == "log");
        address.legacy_watch || context.info.query.flag("watch") || (is_log && context.info.query.flag("follow"))
    })
}

/// Whether a header is about a single connection (hop-by-hop), so that it is not forwarded.
fn is_hop_by_hop(name: &HeaderName) -> bool {
    [CONNECTION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE].contains(name)
        || ["keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "http2-settings"]
            .contains(&name.as_str())
}

/// The headers without those of a single connection (hop-by-hop), which include those that `Connection` names.
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

/// The headers of a request that are forwarded: none about the client's identity or address.
fn forwarded_headers(headers: &HeaderMap) -> HeaderMap {
    let is_own = |name: &HeaderName| {
        let text = name.as_str();
        [AUTHORIZATION, COOKIE, CONTENT_LENGTH, EXPECT, FORWARDED, HOST, ORIGIN, REFERER].contains(name)
            || ["impersonate-", "x-remote-", "x-forwarded-", "sec-"].iter().any(|start| text.starts_with(start))
    };
    let mut sent = end_to_end(headers);
    let own: Vec<HeaderName> = sent.keys().filter(|name| is_own(name)).cloned().collect();
    for name in own {
        sent.remove(name);
    }
    sent
}

/// The headers of a response that are returned to the client: none that would apply to the address of the API server.
fn returned_headers(headers: HeaderMap) -> HeaderMap {
    let mut back = end_to_end(&headers);
    let foreign: Vec<HeaderName> = back
        .keys()
        .filter(|name| {
            [ALT_SVC, STRICT_TRANSPORT_SECURITY].contains(name) || name.as_str().starts_with("access-control-")
        })
        .cloned()
        .collect();
    for name in foreign {
        back.remove(name);
    }
    back
}
