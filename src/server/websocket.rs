//! Watches over WebSocket: the handshake, as kube-apiserver makes it (apiserver `endpoints/handlers/watch.go`,
//! HandleWS, and golang.org/x/net `websocket`).
//!
//! The handlers of watches know nothing of it, except that they do not compress. They respond with a body of events,
//! and errors are ordinary responses. [`accept`] converts the response: its code becomes 101, and its body the frames
//! of [`crate::wire::messages`]. This includes the response to a watch that was forwarded over HTTP.
//! [`crate::transport::websocket`] sends the frames.
//!
//! Browsers do not restrict WebSockets to the site of a page, and they send client certificates with them. So a page of
//! another site could read what its reader may read. kube-apiserver accepts every Origin. Here an Origin that is not
//! this server needs a credential that a page must know: see [`check_origin`].

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{
    CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, ORIGIN, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Uri, Version};
use ring::digest;

use super::context::RequestContext;
use crate::access::AuthorizedRequest;
use crate::model::quote;
use crate::request::Route;
use crate::wire::api_error::{ApiError, HandshakeFault, WEBSOCKET_VERSION};
use crate::wire::body::Body;
use crate::wire::messages::EventMessages;

/// What is appended to the key of the client for the header Sec-WebSocket-Accept (RFC 6455, 1.3).
const KEY_SUFFIX: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Whether a request asks for a WebSocket (apimachinery `httpstream/wsstream`, IsWebSocketRequest). HTTP/1.0 has no
/// upgrades, and HTTP/2 neither: kube-apiserver offers no extended CONNECT.
pub(super) fn is_requested(version: Version, headers: &HeaderMap) -> bool {
    let text = |value: &HeaderValue| value.to_str().unwrap_or_default().to_ascii_lowercase();
    version == Version::HTTP_11
        && headers.get(UPGRADE).is_some_and(|protocol| text(protocol) == "websocket")
        && headers.get_all(CONNECTION).iter().any(|options| text(options).contains("upgrade"))
}

/// Whether the request is a watch that asks for a WebSocket. Other requests are answered without an upgrade.
pub(super) fn is_watch(context: &RequestContext<'_>) -> bool {
    let Route::Resource(address) = context.info.route() else { return false };
    let is_collection = address.name.is_none() && address.subresource.is_none();
    let watches = address.legacy_watch || (is_collection && context.info.query.flag("watch"));
    watches && context.wants_websocket && context.info.method == Method::GET
}

/// Converts the response to a watch to that of its handshake. Errors, and other responses that are no watch, are
/// unchanged.
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
    let has_body = context.headers.get(CONTENT_LENGTH).is_some_and(|length| length != "0");
    if has_body || context.headers.contains_key(TRANSFER_ENCODING) {
        return fault(HandshakeFault::Body);
    }
    // Upstream reads the first header only, and accepts every single subprotocol.
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
/// send Origin with a WebSocket. As upstream, other clients must send it too.
///
/// # Errors
/// 403 without an Origin that is a URL, and for one of another site.
fn check_origin(context: &RequestContext<'_>) -> Result<(), ApiError> {
    // `guards` checks all values at a local server. Here one value that is foreign is enough.
    let origins: Vec<&str> =
        context.headers.get_all(ORIGIN).iter().map(|origin| origin.to_str().unwrap_or_default()).collect();
    let Some(first) = origins.first() else { return Err(ApiError::Handshake(HandshakeFault::NoOrigin)) };
    // As Go's url.ParseRequestURI: an absolute URL, or a path.
    if !(first.starts_with('/') || first.split_once(':').is_some_and(|(scheme, _)| is_scheme(scheme))) {
        return Err(ApiError::Handshake(HandshakeFault::NoOrigin));
    }
    let is_explicit = context.authorized.as_ref().is_some_and(AuthorizedRequest::has_own_credential);
    match origins.iter().find(|origin| !is_own(origin, context.authority)) {
        Some(foreign) if !is_explicit => Err(ApiError::Forbidden(format!(
            "Origin {} is not this server, so that a watch over WebSocket needs a bearer token; without one, send the \
             Origin of this server",
            quote(foreign)
        ))),
        Some(_) | None => Ok(()),
    }
}

/// Whether a text is the scheme of a URL.
fn is_scheme(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
}

/// Whether an Origin is that of a server at this authority. A port is left out if it is that of the scheme.
fn is_own(origin: &str, authority: &str) -> bool {
    let Ok(origin) = origin.parse::<Uri>() else { return false };
    let port = match origin.scheme_str() {
        Some("http") => ":80",
        Some("https") => ":443",
        Some(_) | None => return false,
    };
    let without = |authority: &str| authority.strip_suffix(port).unwrap_or(authority).to_ascii_lowercase();
    let is_origin = matches!(origin.path(), "" | "/") && origin.query().is_none();
    is_origin && origin.authority().is_some_and(|own| without(own.as_str()) == without(authority))
}
