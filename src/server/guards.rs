//! Keeps web pages out of a server on a developer's own machine.
//!
//! Local `serve` answers without credentials, so a request that a web page caused must not count as its user's. Three
//! marks identify one:
//!
//! - a Host that is no loopback name: a foreign name that resolves to this machine, DNS rebinding
//! - an Origin that is not this server
//! - Sec-Fetch-Site
//!
//! No CORS header is ever sent. Programs set none of these marks.
//!
//! A request may carry a header several times. Every value is checked, since another program may have added one.

use std::net::IpAddr;

use http::header::{CONTENT_LENGTH, CONTENT_TYPE, COOKIE, HOST, ORIGIN, REFERER, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue, Method, Uri};

use crate::model::quote;
use crate::wire::api_error::ApiError;

/// Which requests a local server answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guard {
    /// Hosts besides the loopback ones: the address that the user bound, when it is another one.
    pub hosts: Vec<String>,
}

impl Guard {
    /// Rejects requests that a foreign web page may have caused.
    ///
    /// # Errors
    /// 403 that names the header.
    pub fn check(&self, authority: &str, headers: &HeaderMap) -> Result<(), ApiError> {
        for authority in std::iter::once(authority).chain(headers.get_all(HOST).iter().map(text)) {
            if authority.contains('@') || !self.is_own(host_of(authority)) {
                return Err(ApiError::Forbidden(format!(
                    "Host {} is not this machine; use 127.0.0.1 or localhost, or bind the address that you want to use",
                    quote(authority)
                )));
            }
        }
        for origin in headers.get_all(ORIGIN).iter().map(text) {
            let own = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
            if own != Some(authority) {
                let message =
                    format!("Origin {} is not this server; requests from web pages are rejected", quote(origin));
                return Err(ApiError::Forbidden(message));
            }
        }
        // Other values are unknown today, so a browser means something else by them than these two.
        let is_own = |site: &&str| matches!(*site, "same-origin" | "none");
        if let Some(site) = headers.get_all("sec-fetch-site").iter().map(text).find(|site| !is_own(site)) {
            let message = format!("Sec-Fetch-Site is {}: requests from other web pages are rejected", quote(site));
            return Err(ApiError::Forbidden(message));
        }
        Ok(())
    }

    /// Whether a host is an address or a name of this server.
    fn is_own(&self, host: &str) -> bool {
        let is_loopback = host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        is_loopback
            || host.eq_ignore_ascii_case("localhost")
            || self.hosts.iter().any(|own| own.eq_ignore_ascii_case(host))
    }
}

/// The host that a request names: of its URI, which HTTP/2 always has, else of its only Host header.
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

/// The value of a header; empty, which is never accepted, if it is not ASCII.
fn text(value: &HeaderValue) -> &str {
    value.to_str().unwrap_or_default()
}

/// A host without its port and brackets.
fn host_of(authority: &str) -> &str {
    if let Some(bracketed) = authority.strip_prefix('[') {
        return bracketed.split(']').next().unwrap_or_default();
    }
    authority.rsplit_once(':').map_or(authority, |(host, _)| host)
}

/// Rejects bodies without a media type that a browser sent: an HTML form without an encoding type can send them. kube-apiserver takes
/// a body without a media type for JSON, and client-go sends such bodies.
///
/// # Errors
/// 415.
pub fn check_body(method: &Method, headers: &HeaderMap) -> Result<(), ApiError> {
    let reads = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
    let has_length = headers.get_all(CONTENT_LENGTH).iter().any(|length| text(length) != "0");
    let has_body = headers.contains_key(TRANSFER_ENCODING) || has_length;
    if !reads && has_body { check_media_type(headers) } else { Ok(()) }
}

/// Like [`check_body`], for a request with a body.
///
/// # Errors
/// 415.
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
