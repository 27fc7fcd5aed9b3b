//! Builds responses that do not depend on a resource: errors, media types, and lengths.
//!
//! `api_error` chooses status codes, and `body` creates bodies in pieces.

use http::header::{
    CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER, SEC_WEBSOCKET_VERSION, VARY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderValue, Method, Response, StatusCode};

use super::api_error::ApiError;
use super::body::Body;
use super::negotiate::Format;
use super::{indent, protobuf, yaml};
use crate::access::AccessError;
use crate::flow_control::connection::ConnectionState;
use crate::flow_control::unread::Unread;
use crate::transport::head_error::HeadError;

/// Adds the header Content-Type.
pub(crate) fn with_type(mut response: Response<Body>, media_type: &'static str) -> Response<Body> {
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

/// The media type of a format, for the header Content-Type.
pub(crate) fn media_type(format: Format) -> &'static str {
    match format {
        Format::Json => "application/json",
        Format::Yaml => "application/yaml",
        Format::Protobuf => "application/vnd.kubernetes.protobuf",
    }
}

/// Adds the headers of a compressed body.
pub(crate) fn mark_gzip(response: &mut Response<Body>) {
    response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    response.headers_mut().insert(VARY, HeaderValue::from_static("Accept-Encoding"));
}

/// The response for an error. `pretty`: a Status as JSON is indented. An error that cannot be encoded as protobuf is
/// sent as JSON.
pub(crate) fn error_response(failure: &ApiError, format: Format, pretty: bool) -> Response<Body> {
    let (code, status) = failure.code_and_status();
    let mut response = match failure.plain_text() {
        Some(text) => {
            let mut response = with_type(Response::new(Body::whole(text)), "text/plain; charset=utf-8");
            // Go's http.Error adds this to every plain text.
            response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
            response
        }
        None => {
            let mut text = Vec::new();
            let encoded = if format == Format::Protobuf { protobuf::document("v1", "Status", &status) } else { None };
            let format = if format == Format::Protobuf && encoded.is_none() { Format::Json } else { format };
            match format {
                Format::Protobuf => text = encoded.unwrap_or_default(),
                Format::Yaml => text = yaml::from_json(&status),
                Format::Json if pretty => indent::Indenter::default().push(&status, &mut text),
                Format::Json => text = status,
            }
            // Indented documents end without a newline, as Go's json.Indent leaves them.
            if format == Format::Json && !pretty {
                text.push(b'\n');
            }
            with_type(Response::new(Body::whole(text)), media_type(format))
        }
    };
    // Upstream adds this too, because the message quotes parts of the request.
    if matches!(failure, ApiError::Access(AccessError::Forbidden(_))) {
        response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    }
    if let Some(version) = failure.websocket_version() {
        response.headers_mut().insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static(version));
    }
    *response.status_mut() = code;
    if let Some(seconds) = failure.retry_after() {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// The response to a request that the transport rejects.
pub(crate) fn transport_error(error: HeadError, method: &Method) -> Response<Body> {
    let response = error_response(&error.into(), Format::Json, false);
    // hyper omits the body of HEAD over HTTP/1.1 only.
    if *method == Method::HEAD { response.map(|_| Body::empty()) } else { response }
}

/// Adds Content-Length if the length is known, and removes the body of a HEAD request. Counts a small response as
/// unread until the client has read it. If the limit of unread bytes has no room for it, the connection is closed.
///
/// `audited`: the bytes that the audit event of the request holds.
pub(crate) fn complete(
    unread: &Unread,
    connection: &ConnectionState,
    method: &Method,
    audited: usize,
    mut response: Response<Body>,
) -> Response<Body> {
    // The length of a 304 response would have to be that of the document, but its own body is empty.
    if let Some(length) = response.body().length().filter(|_| response.status() != StatusCode::NOT_MODIFIED) {
        // An existing length is that of a body which HEAD does not send.
        response.headers_mut().entry(CONTENT_LENGTH).or_insert(HeaderValue::from(length));
    }
    if method == Method::HEAD {
        response = response.map(|_| Body::empty());
    }
    if let Some(length) = response.body().small_length() {
        match unread.admit_small(connection.user(), length + audited) {
            Some(share) => response.body_mut().attach_share(share),
            None => connection.evict(),
        }
    }
    response
}
