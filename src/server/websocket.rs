//! Watches over WebSocket: the handshake, as kube-apiserver makes it (apiserver `endpoints/handlers/watch.go`,
//! HandleWS, and golang.org/x/net `websocket`).
//!
//! The handlers of watches do not depend on the WebSocket, except that they do not compress. They respond with a body
//! of events, and errors are ordinary responses. [`accept`] converts the response: its code becomes 101, and its body
//! the frames of [`crate::wire::messages`]. This includes the response to a watch that was forwarded over HTTP.
//! [`crate::transport::websocket`] sends the frames.
//!
//! Browsers do not restrict WebSockets to the site of a page, and they send client certificates with them. So a page of
//! another site could read what its reader may read. kube-apiserver accepts every Origin. Here an Origin that is not
//! this server needs a credential that a page must know: see [`check_origin`].

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{
    CONNECTION, CONTENT_TYPE, ORIGIN, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Version};
use ring::digest;

use super::context::RequestContext;
use super::guards;
use crate::access::AuthorizedRequest;
use crate::model::quote;
use crate::request::Route;
use crate::wire::api_error::{ApiError, HandshakeFault, WEBSOCKET_VERSION};
use crate::wire::body::Body;
use crate::wire::messages::EventMessages;

/// What is appended to the key of the client for the header Sec-WebSocket-Accept (RFC 6455, 1.3).
const KEY_SUFFIX: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Whether a request asks for a WebSocket (apimachinery `httpstream/wsstream`, IsWebSocketRequest). Only HTTP/1.1 has
/// upgrades. kube-apiserver does not offer the extended CONNECT of HTTP/2.
pub(super) fn is_requested(version: Version, headers: &HeaderMap) -> bool {
    let text = |value: &HeaderValue| value.to_str().unwrap_or_default().to_ascii_lowercase();
    version == Version::HTTP_11
        && headers.get(UPGRADE).is_some_and(|protocol| text(protocol) == "websocket")
        && headers.get_all(CONNECTION).iter().any(|options| text(options).split(',').any(|one| one.trim() == "upgrade"))
}

/// Whether the request is a watch that asks for a WebSocket. Other requests are answered without an upgrade.
pub(super) fn is_watch(context: &RequestContext<'_>) -> bool {
    let Route::Resource(address) = context.info.route() else { return false };
    let is_collection = address.name.is_none() && address.subresource.is_none();
    let watches = address.legacy_watch || (is_collection && context.info.query.flag("watch"));
    watches && context.wants_websocket && context.info.method == Method::GET
}

/// Converts the response to a watch to the response of the WebSocket handshake. Errors, and responses without a stream,
/// are returned unchanged.
///
/// # Errors
/// 400 and 403 for an invalid handshake, 403 for a page of another site, 406 for events that are not JSON or protobuf.
pub(super) fn accept(context: &RequestContext<'_>, mut response: Response<Body>) -> Result<Response<Body>, ApiError> {
    if response.status() != StatusCode::OK || !response.body().is_stream() {
        return Ok(response);
    }
    let fault = |fault| Err(ApiError::Handshake(fault));
    let text = |name| context.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().trim();
    let key = text(SEC_WEBSOCKET_KEY);
    if key.is_empty() {
        return fault(HandshakeFault::NoKey);
    }
    if text(SEC_WEBSOCKET_VERSION) != WEBSOCKET_VERSION {
        return fault(HandshakeFault::Version);
    }
    check_origin(context)?;
    if guards::has_body(context.headers) {
        return fault(HandshakeFault::Body);
    }
    // kube-apiserver reads the first header only, and accepts any subprotocol if the client names only one.
    let protocol = text(SEC_WEBSOCKET_PROTOCOL);
    if protocol.contains(',') {
        return fault(HandshakeFault::SeveralProtocols);
    }
    let Some(messages) = EventMessages::of_response(response.headers()) else {
        let message = "a watch over WebSocket has events in JSON or in protobuf: accept one of them";
        return Err(ApiError::NotAcceptable(message.to_owned()));
    };
    let protocol = HeaderValue::from_str(protocol).ok().filter(|protocol| !protocol.is_empty());
    response.body_mut().send_messages(messages);
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.remove(CONTENT_TYPE);
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    if let Ok(accepted) = HeaderValue::from_str(&accepted_key(key)) {
        headers.insert(SEC_WEBSOCKET_ACCEPT, accepted);
    }
    if let Some(protocol) = protocol {
        headers.insert(SEC_WEBSOCKET_PROTOCOL, protocol);
    }
    Ok(response)
}

/// The value of the header Sec-WebSocket-Accept for this key.
fn accepted_key(key: &str) -> String {
    let hash = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, &[key.as_bytes(), KEY_SUFFIX].concat());
    STANDARD.encode(hash)
}

/// Rejects a handshake that a web page of another site may have caused without knowing a credential. Browsers always
/// send Origin with a WebSocket. As in kube-apiserver, other clients must send Origin too.
///
/// # Errors
/// 403 without an Origin that is a URL, and for an Origin of another site.
fn check_origin(context: &RequestContext<'_>) -> Result<(), ApiError> {
    // A request can have several Origin headers. One that is foreign is enough to need a credential. At a local server,
    // `guards` has already rejected requests with a foreign Origin.
    let origins: Vec<&str> =
        context.headers.get_all(ORIGIN).iter().map(|origin| origin.to_str().unwrap_or_default()).collect();
    let Some(first) = origins.first() else { return Err(ApiError::Handshake(HandshakeFault::NoOrigin)) };
    // As Go's url.ParseRequestURI: an absolute URL, or a path.
    if !(first.starts_with('/') || first.split_once(':').is_some_and(|(scheme, _)| is_scheme(scheme))) {
        return Err(ApiError::Handshake(HandshakeFault::NoOrigin));
    }
    let authorized = context.authorized.as_ref();
    // A page of another site does not know the bearer token of its reader. A front proxy has its own rules.
    if authorized.is_some_and(AuthorizedRequest::has_own_credential) {
        return Ok(());
    }
    // A client certificate comes from a connection over TLS.
    let is_by_certificate = authorized.is_some_and(AuthorizedRequest::is_by_certificate);
    let is_own = |origin: &&&str| guards::is_own_origin(origin, context.authority, context.is_tls || is_by_certificate);
    let Some(foreign) = origins.iter().find(|origin| !is_own(origin)) else { return Ok(()) };
    let remedy = if is_by_certificate && context.has_token {
        "the client certificate authenticated this request, and the bearer token was not used: connect without a certificate"
    } else {
        "send a bearer token, or the Origin of this server"
    };
    let foreign = quote(foreign);
    Err(ApiError::Forbidden(format!(
        "Origin {foreign} is not this server, so a watch over WebSocket needs a bearer token: {remedy}"
    )))
}

/// Whether a text is the scheme of a URL: a letter, followed by letters, digits, `+`, `-` and `.`.
fn is_scheme(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
}
