//! Keeps web pages out of a server on a developer's own machine.
//!
//! Local `serve` responds without authentication, so a request that a web page caused must not count as its user's.
//! Three marks identify such a request:
//!
//! - a Host that is not a loopback name: with DNS rebinding, a foreign name resolves to this machine
//! - an Origin that is not this server
//! - a Sec-Fetch-Site that names another site
//!
//! No CORS header is ever sent. Programs set none of these marks.
//!
//! A request may carry a header several times. Every value is checked, since another program may have added one.

use std::net::IpAddr;
use std::sync::Arc;

use http::header::{CONTENT_LENGTH, CONTENT_TYPE, COOKIE, HOST, ORIGIN, REFERER, TRANSFER_ENCODING};
use http::{Extensions, HeaderMap, HeaderValue, Method, Uri};

use crate::access::authentication::Peer;
use crate::model::quote;
use crate::wire::api_error::ApiError;

/// Rejects requests of web pages at a local server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guard {
    /// Hosts that are accepted in addition to the loopback names: the address that the user bound.
    pub hosts: Vec<String>,
}

impl Guard {
    /// Rejects requests that a foreign web page may have caused. `authority` is the host of the request, with its port:
    /// see [`authority`]. `is_tls`: the connection uses TLS.
    ///
    /// # Errors
    /// 403 that names the header.
    pub fn check(&self, authority: &str, is_tls: bool, headers: &HeaderMap) -> Result<(), ApiError> {
        for authority in std::iter::once(authority).chain(headers.get_all(HOST).iter().map(text)) {
            // The host is the part after an `@`. No client needs one, so it is rejected instead of being parsed.
            if authority.contains('@') || !self.is_own(host_of(authority)) {
                return Err(ApiError::Forbidden(format!(
                    "Host {} is not the address of this server: use 127.0.0.1 or localhost in the URL",
                    quote(authority)
                )));
            }
        }
        for origin in headers.get_all(ORIGIN).iter().map(text) {
            if !is_own_origin(origin, authority, is_tls) {
                let message = format!(
                    "Origin {} is not this server: requests from other web pages are rejected; use a client that is not a web page",
                    quote(origin)
                );
                return Err(ApiError::Forbidden(message));
            }
        }
        // All other values, known or not, mean another site.
        let is_own = |site: &&str| matches!(*site, "same-origin" | "none");
        if let Some(site) = headers.get_all("sec-fetch-site").iter().map(text).find(|site| !is_own(site)) {
            let message = format!(
                "Sec-Fetch-Site is {}: requests from other web pages are rejected; use a client that is not a web page",
                quote(site)
            );
            return Err(ApiError::Forbidden(message));
        }
        Ok(())
    }

    /// Whether a host, without its port, is an address or a name of this server.
    fn is_own(&self, host: &str) -> bool {
        let is_loopback = host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        is_loopback
            || host.eq_ignore_ascii_case("localhost")
            || self.hosts.iter().any(|own| own.eq_ignore_ascii_case(host))
    }
}

/// The host of a request, with its port: of its URI, which HTTP/2 always has, else of its Host header. Empty without
/// both.
///
/// # Errors
/// 400 for several Host headers, as Go's server.
pub fn authority<'r>(uri: &'r Uri, headers: &'r HeaderMap) -> Result<&'r str, ApiError> {
    let mut hosts = headers.get_all(HOST).iter().map(text);
    let host = hosts.next().unwrap_or_default();
    if hosts.next().is_some() {
        return Err(ApiError::BadRequest("too many Host headers".to_owned()));
    }
    Ok(uri.authority().map_or(host, |authority| authority.as_str()))
}

/// Whether the connection of a request uses TLS.
pub fn is_tls(extensions: &Extensions) -> bool {
    extensions.get::<Arc<Peer>>().is_some()
}

/// Whether an Origin is that of a server at this authority. A port is left out if it is that of the scheme.
///
/// Anyone on the way of a page over plain HTTP can change it. So such a page is not of a server that uses TLS. A server
/// without TLS may be behind a proxy with TLS, so that both schemes are its own.
pub(super) fn is_own_origin(origin: &str, authority: &str, is_tls: bool) -> bool {
    let Ok(origin) = origin.parse::<Uri>() else { return false };
    let port = match origin.scheme_str() {
        Some("http") if !is_tls => ":80",
        Some("https") => ":443",
        Some(_) | None => return false,
    };
    let without = |authority: &str| authority.strip_suffix(port).unwrap_or(authority).to_ascii_lowercase();
    let is_origin = matches!(origin.path(), "" | "/") && origin.query().is_none();
    is_origin && origin.authority().is_some_and(|own| without(own.as_str()) == without(authority))
}

/// Whether the headers of a request announce a body.
pub(super) fn has_body(headers: &HeaderMap) -> bool {
    let has_length = headers.get_all(CONTENT_LENGTH).iter().any(|length| text(length) != "0");
    headers.contains_key(TRANSFER_ENCODING) || has_length
}

/// The value of a header. If it is not ASCII, it is empty, which no check accepts.
fn text(value: &HeaderValue) -> &str {
    value.to_str().unwrap_or_default()
}

/// The host of an authority, without its port and the brackets of an IPv6 address.
fn host_of(authority: &str) -> &str {
    if let Some(bracketed) = authority.strip_prefix('[') {
        return bracketed.split(']').next().unwrap_or_default();
    }
    authority.rsplit_once(':').map_or(authority, |(host, _)| host)
}

/// Rejects a browser's request that has a body but no media type: a web page can send such a request to any server.
/// Other clients may send it: kube-apiserver takes a body without a media type for JSON, and client-go sends such
/// bodies.
///
/// # Errors
/// 415 for a body without a media type.
pub fn check_body(method: &Method, headers: &HeaderMap) -> Result<(), ApiError> {
    let reads = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
    if !reads && has_body(headers) { check_media_type(headers) } else { Ok(()) }
}

/// Like [`check_body`], for a request that is known to have a body.
///
/// # Errors
/// 415 for a body without a media type.
pub fn check_media_type(headers: &HeaderMap) -> Result<(), ApiError> {
    if !headers.contains_key(CONTENT_TYPE) && is_from_browser(headers) {
        return Err(ApiError::no_media_type());
    }
    Ok(())
}

/// Whether a request has a mark that browsers set and other programs do not.
fn is_from_browser(headers: &HeaderMap) -> bool {
    [ORIGIN, REFERER, COOKIE].iter().any(|name| headers.contains_key(name))
        || headers.keys().any(|name| name.as_str().starts_with("sec-fetch-"))
}
