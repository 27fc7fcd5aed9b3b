//! Responses of one document to a request: their media type, indentation and compression, and the form of an error.
//!
//! The handlers make the documents. `wire::response` has the responses that need no request, and `wire::body` the
//! bodies that are made in pieces.

use bytes::Bytes;
use http::Response;

use super::context::RequestContext;
use crate::wire::api_error::ApiError;
use crate::wire::body;
use crate::wire::body::{Body, Finish};
use crate::wire::negotiate::{Format, Offer, Protobuf, accepts_gzip, negotiate};
use crate::wire::pieces::Pieces;
use crate::wire::response::{error_response, mark_gzip, media_type, with_type};
use crate::wire::{indent, yaml};

/// A response whose body is made in pieces while it is sent; a short one is made at once.
pub(super) fn chunked(pieces: Pieces, format: Format, context: &RequestContext<'_>) -> Response<Body> {
    streamed(pieces, format, context, false)
}

/// Like [`chunked`]. `always`: a short response is streamed too, so that it has no Content-Length.
pub(super) fn streamed(pieces: Pieces, format: Format, context: &RequestContext<'_>, always: bool) -> Response<Body> {
    let pretty = format == Format::Json && context.pretty();
    let finish = Finish { pretty, gzip: accepts_gzip(context.headers), streams: always };
    let (body, compressed) = body::finish(pieces, finish);
    let mut response = with_type(Response::new(body), media_type(format));
    if compressed {
        mark_gzip(&mut response);
    }
    response
}

/// The length in bytes of a JSON document when it is sent in this format; an upper bound for YAML and protobuf.
pub(super) fn length_as(json: &[u8], format: Format, context: &RequestContext<'_>) -> u64 {
    match format {
        Format::Json if context.pretty() => indent::json_length(json),
        Format::Json => json.len() as u64,
        Format::Yaml => indent::yaml_length(json),
        // Protobuf is shorter than the JSON that it is made of.
        Format::Protobuf => json.len() as u64,
    }
}

/// A response with one document. `json` is JSON, which is sent in `format`. For [`Format::Protobuf`], it has the
/// encoded bytes instead, which are sent unchanged.
pub(super) fn document(json: Vec<u8>, format: Format, context: &RequestContext<'_>) -> Response<Body> {
    let length = json.len() as u64;
    let (pieces, bytes_held): (Pieces, u64) = match format {
        Format::Json => {
            let mut text = json;
            text.push(b'\n');
            (Box::new(std::iter::once(Bytes::from(text))), length)
        }
        Format::Protobuf => (Box::new(std::iter::once(Bytes::from(json))), length),
        Format::Yaml => {
            let (pieces, bytes_held) = yaml::document(json);
            (Box::new(pieces), bytes_held)
        }
    };
    let mut response = chunked(pieces, format, context);
    response.body_mut().add_held_bytes(bytes_held);
    response
}

impl RequestContext<'_> {
    /// The response for an error, in the requested format. The error is counted if a limit caused it, and is recorded
    /// in the audit event.
    pub(super) fn error_response(&self, failure: &ApiError) -> Response<Body> {
        if let ApiError::Limited(limited) = failure {
            self.limits.count(limited.limit);
        }
        if let Some(audited) = self.record.audited() {
            audited.record_failure(failure);
        }
        // An error is a Status, also where a Table is requested. A client that does not accept a Status gets indented
        // JSON, as upstream.
        let agreed = negotiate(self.headers, Offer::Plain, Protobuf::EVERYTHING);
        match agreed {
            Ok(agreed) => error_response(failure, agreed.format, self.pretty()),
            Err(_) => error_response(failure, Format::Json, true),
        }
    }
}
