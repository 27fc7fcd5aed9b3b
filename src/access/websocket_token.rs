//! The bearer token in the subprotocols of a WebSocket (apiserver `authentication/request/websocket/protocol.go`).
//!
//! A web page cannot set the header Authorization of a WebSocket. So its token is a subprotocol that begins with
//! [`PREFIX`]. Here it moves to the header Authorization before anything else reads the headers. So it is authenticated
//! like every bearer token, and nothing echoes, forwards or logs it.
//!
//! Upstream tries the token after a token of the header Authorization has failed, and removes the subprotocol only if
//! the token is valid. Here a request with both has the token of the header.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::{AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL};
use http::{HeaderMap, HeaderValue};

use super::tokens::bearer;

/// The beginning of the subprotocol; the rest is the token in base64url, without padding.
const PREFIX: &str = "base64url.bearer.authorization.k8s.io.";

/// The subprotocols have several tokens, one that is not encoded correctly, or no other subprotocol, which the server
/// could choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidProtocols;

/// Moves the token in the subprotocols of a request, if there is one, to the header Authorization. Does nothing without
/// a token. The headers must be those of a request that asks for a WebSocket.
///
/// # Errors
/// [`InvalidProtocols`]. The token is removed nevertheless.
pub fn move_token(headers: &mut HeaderMap) -> Result<(), InvalidProtocols> {
    let (mut token, mut others, mut is_valid) = (None, Vec::new(), true);
    for values in headers.get_all(SEC_WEBSOCKET_PROTOCOL) {
        // Only a value in ASCII can have a token.
        let Ok(values) = values.to_str() else { continue };
        for protocol in values.split(',').map(str::trim) {
            match protocol.strip_prefix(PREFIX) {
                Some(encoded) => is_valid &= token.replace(encoded).is_none(),
                None => others.push(protocol),
            }
        }
    }
    let Some(encoded) = token else { return Ok(()) };
    let decoded = URL_SAFE_NO_PAD.decode(encoded).ok().and_then(|decoded| String::from_utf8(decoded).ok());
    // An empty token is none, as upstream.
    let is_empty = decoded.as_ref().is_some_and(String::is_empty);
    is_valid &= is_empty || !others.is_empty();
    let authorization = decoded.filter(|token| !token.contains(' ')).and_then(|token| {
        let mut value = HeaderValue::from_str(&format!("Bearer {token}")).ok()?;
        value.set_sensitive(true);
        Some(value)
    });
    let rest = HeaderValue::from_str(&others.join(",")).ok().filter(|_| !others.is_empty());
    headers.remove(SEC_WEBSOCKET_PROTOCOL);
    if let Some(rest) = rest {
        headers.insert(SEC_WEBSOCKET_PROTOCOL, rest);
    }
    let Some(authorization) = authorization.filter(|_| is_valid) else { return Err(InvalidProtocols) };
    if !is_empty && bearer(headers).is_none() {
        headers.insert(AUTHORIZATION, authorization);
    }
    Ok(())
}
