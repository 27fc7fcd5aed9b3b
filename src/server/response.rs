//! Responses of one document: their media type, indentation, compression and length, and the form of a failure.
//!
//! What the documents are is decided elsewhere; bodies made in pieces are `body`'s. See `api_error` for status codes.

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER, VARY, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Method, Response, StatusCode};

use super::api_error::ApiError;
use super::body::{self, Body, Finish};
use super::connection::ConnectionState;
use super::context::RequestContext;
use super::limits::unread::Unread;
use super::negotiate::{Format, Offer, Protobuf, negotiate, takes_gzip};
use super::pieces::Pieces;
use super::{indent, protobuf, yaml};
use crate::access::AccessError;

pub(super) fn with_type(mut response: Response<Body>, media_type: &'static str) -> Response<Body> {
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

pub(super) fn media_type(format: Format) -> &'static str {
    match format {
        Format::Json => "application/json",
        Format::Yaml => "application/yaml",
        Format::Protobuf => "application/vnd.kubernetes.protobuf",
    }
}

/// A finished response in chunks.
pub(super) fn chunked(pieces: Pieces, format: Format, context: &RequestContext<'_>) -> Response<Body> {
    streamed(pieces, format, context, false)
}

/// The same; `always` streams short responses too, without their length.
pub(super) fn streamed(pieces: Pieces, format: Format, context: &RequestContext<'_>, always: bool) -> Response<Body> {
    let pretty = format == Format::Json && context.pretty();
    let finish = Finish { pretty, gzip: takes_gzip(context.headers), streams: always };
    let (body, compressed) = body::finish(pieces, finish);
    let mut response = with_type(Response::new(body), media_type(format));
    if compressed {
        mark_gzip(&mut response);
    }
    response
}

/// Says that a body is compressed, and why.
pub(super) fn mark_gzip(response: &mut Response<Body>) {
    response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    response.headers_mut().insert(VARY, HeaderValue::from_static("Accept-Encoding"));
}

/// How long one JSON document becomes as a response: estimated where it is indented.
pub(super) fn length_as(json: &[u8], format: Format, context: &RequestContext<'_>) -> u64 {
    match format {
        Format::Json if context.pretty() => indent::json_length(json),
        Format::Json => json.len() as u64,
        Format::Yaml => indent::yaml_length(json),
        // It is shorter than the JSON that it is made of.
        Format::Protobuf => json.len() as u64,
    }
}

/// One JSON document as an answer; in protobuf as it is given.
pub(super) fn document(json: Vec<u8>, format: Format, context: &RequestContext<'_>) -> Response<Body> {
    let length = json.len() as u64;
    let (pieces, held): (Pieces, u64) = match format {
        Format::Json => {
            let mut text = json;
            text.push(b'\n');
            (Box::new(std::iter::once(Bytes::from(text))), length)
        }
        Format::Protobuf => (Box::new(std::iter::once(Bytes::from(json))), length),
        Format::Yaml => {
            let (pieces, held) = yaml::document(json);
            (Box::new(pieces), held)
        }
    };
    let mut response = chunked(pieces, format, context);
    response.body_mut().holds(held);
    response
}

impl RequestContext<'_> {
    /// A failure as an answer in the format asked for.
    pub(super) fn failed(&self, failure: &ApiError) -> Response<Body> {
        if let ApiError::Limited(limited) = failure {
            self.limits.count(limited.limit);
        }
        if let Some(audited) = self.noted.audited() {
            audited.failed(failure);
        }
        // An error has no other form than its own. Where that is not accepted, a person is taken to be asking, as upstream.
        let agreed = negotiate(self.headers, Offer::Plain, Protobuf::EVERYTHING);
        match agreed {
            Ok(agreed) => failed(failure, agreed.format, self.pretty()),
            Err(_) => failed(failure, Format::Json, true),
        }
    }
}

/// A failure as an answer.
pub(super) fn failed(failure: &ApiError, format: Format, pretty: bool) -> Response<Body> {
    let (code, status) = failure.code_and_status();
    let mut response = match failure.plain_text() {
        Some(text) => {
            let mut response = with_type(Response::new(Body::whole(text)), "text/plain; charset=utf-8");
            // Go's http.Error says so of every plain text.
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
    // Upstream says so where a message quotes what a client has sent, too.
    if matches!(failure, ApiError::Refused(AccessError::Forbidden(_))) {
        response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    }
    *response.status_mut() = code;
    if let Some(seconds) = failure.retry_after() {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// Gives a response its length, leaves out what HEAD does not send, and counts it until it is read, with the bytes of its audit event.
pub(super) fn completed(
    unread: &Unread,
    connection: &ConnectionState,
    method: &Method,
    audited: usize,
    mut response: Response<Body>,
) -> Response<Body> {
    if let Some(length) = response.body().length().filter(|_| response.status() != StatusCode::NOT_MODIFIED) {
        // A length that is there already is that of a body which HEAD does not send.
        response.headers_mut().entry(CONTENT_LENGTH).or_insert(HeaderValue::from(length));
    }
    if method == Method::HEAD {
        response = response.map(|_| Body::empty());
    }
    if let Some(length) = response.body().small_length() {
        match unread.admit_small(connection.user(), length + audited) {
            Some(share) => response.body_mut().share(share),
            None => connection.evict(),
        }
    }
    response
}
