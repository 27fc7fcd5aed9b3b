//! The OpenAPI endpoints as functions: a request's path, query and headers in, a response out. kube-openapi
//! `pkg/handler` and `pkg/handler3`, kube-aggregator `pkg/controllers/openapiv3`.
//!
//! Two defects of upstream are not copied. An unknown group-version is 404, not an empty 200. Every response comes from
//! one set of documents, so an index never names a missing document. All methods are treated like GET, except HEAD, as
//! upstream. This file does no routing and no authorization: `server/openapi.rs` calls [`answer`] for everything below
//! `/openapi`. The module `openapi` of the core builds the documents.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, ACCEPT_RANGES, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE,
    CONTENT_TYPE, ETAG, EXPIRES, HeaderMap, HeaderName, HeaderValue, IF_MODIFIED_SINCE, IF_NONE_MATCH, LAST_MODIFIED,
    LOCATION, RANGE, VARY,
};
use http::{Method, Response, StatusCode};
use jiff::{Timestamp, ToSpan as _, civil::DateTime, tz::TimeZone};

use crate::openapi::hash;
use crate::registry::documents::{DocumentEncoding, DocumentForms, DocumentSet, DocumentSource};

/// Shorter bodies are not compressed, because they fit into one packet (gziphandler's default). In bytes.
const SMALLEST_GZIPPED_BODY: usize = 1400;

/// The maximum number of requests whose documents are built or encoded at the same time.
pub const MOST_AT_ONCE: u64 = 2;

const JSON: &str = "application/json";

/// The format of times in HTTP headers.
const HTTP_DATE: &str = "%a, %d %b %Y %H:%M:%S GMT";

/// The value of `Cache-Control` when nothing may be cached: kube-apiserver's default.
const NOT_CACHED: &str = "no-cache, private";

/// A request below `/openapi`.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// HEAD gets no body; all other methods are treated like GET.
    pub method: &'a Method,
    /// The part of the client's URL before `/openapi`, such as the path of a View; empty at the root. Redirects
    /// repeat it. The index does not, since clients prepend it to the paths in the index.
    pub prefix: &'a str,
    /// The path after `/openapi`: `/v2`, `/v3`, `/v3/apis/apps/v1`.
    pub path: &'a str,
    /// The query without its question mark.
    pub query: Option<&'a str>,
    /// Accept, Accept-Encoding, If-None-Match, If-Modified-Since and Range are used.
    pub headers: &'a HeaderMap,
    /// The time of the response, for `Expires` and `Last-Modified`.
    pub now: Timestamp,
}

/// The documents that a request needs.
#[derive(Clone, Debug)]
pub enum Needed {
    /// The Swagger 2 document.
    V2(Arc<DocumentForms>),
    /// All v3 documents, of one state.
    V3(Arc<DocumentSet>),
}

impl Needed {
    /// Fetches the documents that a path needs from `source`. `path` is that of [`Request::path`].
    ///
    /// # Errors
    /// Why the source has no documents now.
    pub async fn fetch(path: &str, source: &dyn DocumentSource) -> Result<Needed, String> {
        match path {
            "/v2" => source.v2().await.map(Needed::V2),
            _ => source.v3().await.map(Needed::V3),
        }
    }
}

/// The response to a request for a document or the index; 404 for another path. Builds what is not built yet.
pub fn answer(request: &Request<'_>, documents: &Needed) -> Response<Bytes> {
    let documents = match documents {
        Needed::V2(document) => return v2(request, document),
        Needed::V3(documents) => documents,
    };
    match request.path {
        "/v3" => index(request, documents),
        path => match path.strip_prefix("/v3/").and_then(|key| documents.v3(key).map(|document| (key, document))) {
            Some((key, document)) => v3(request, key, document),
            None => Answer::new(StatusCode::NOT_FOUND).finish(),
        },
    }
}

/// Whether everything that the response needs is already built, so that [`answer`] is fast. Also true for an error.
pub fn is_made(request: &Request<'_>, documents: &Needed) -> bool {
    match documents {
        Needed::V2(document) => match negotiate(request.headers, Version::V2) {
            Some(encoding) if wants_gzip(request) => document.is_gzipped(encoding),
            Some(encoding) => document.is_made(encoding),
            None => true,
        },
        Needed::V3(documents) => match (request.path, negotiate(request.headers, Version::V3)) {
            ("/v3", _) => documents.is_made(),
            (path, Some(encoding)) => {
                let document = path.strip_prefix("/v3/").and_then(|key| documents.v3(key));
                document.is_none_or(|document| document.is_made(encoding))
            }
            (_, None) => true,
        },
    }
}

/// Whether the response to a request may be compressed. A range of the document is not.
fn wants_gzip(request: &Request<'_>) -> bool {
    accepts_gzip(request.headers) && !request.headers.contains_key(RANGE)
}

/// The response with the OpenAPI v2 document; 406 if the client accepts no encoding of it.
fn v2(request: &Request<'_>, document: &DocumentForms) -> Response<Bytes> {
    let vary = |answer: Answer| answer.header(VARY, "Accept-Encoding").header(VARY, "Accept");
    let Some(encoding) = negotiate(request.headers, Version::V2) else {
        return vary(Answer::new(StatusCode::NOT_ACCEPTABLE)).finish();
    };
    let answer = vary(Answer::new(StatusCode::OK))
        .header(CONTENT_TYPE, content_type(encoding, Version::V2))
        .since(document.since(request.now))
        .header(ETAG, &quoted(&document.document().hash));
    let body = document.body(encoding);
    if wants_gzip(request) && body.len() >= SMALLEST_GZIPPED_BODY {
        return answer.header(CONTENT_ENCODING, "gzip").content(request, document.gzipped(encoding));
    }
    answer.content(request, body)
}

/// The response with the index of OpenAPI v3 documents, as kube-apiserver's aggregator sends it: its JSON has the media
/// type of plain text, and no entity tag.
fn index(request: &Request<'_>, documents: &DocumentSet) -> Response<Bytes> {
    Answer::new(StatusCode::OK)
        .header(CONTENT_TYPE, "text/plain; charset=utf-8")
        .since(documents.since(request.now))
        .content(request, documents.index().json.clone())
}

/// The response with the OpenAPI v3 document of `key`, such as `apis/apps/v1`. A request with another hash than that of
/// the document is redirected. 406 if the client accepts no encoding of it.
fn v3(request: &Request<'_>, key: &str, document: &DocumentForms) -> Response<Bytes> {
    let Some(encoding) = negotiate(request.headers, Version::V3) else {
        return Answer::new(StatusCode::NOT_ACCEPTABLE).header(VARY, "Accept").finish();
    };
    let current = &document.document().hash;
    let answer = Answer::new(StatusCode::OK)
        .header(VARY, "Accept")
        .header(CONTENT_TYPE, content_type(encoding, Version::V3))
        .header(ETAG, &quoted(current));
    match hash_of(request.query) {
        Some(context) if context != *current => Answer { status: StatusCode::MOVED_PERMANENTLY, ..answer }
            .header(LOCATION, &format!("{}{}", request.prefix, hash::url(key, current)))
            .finish(),
        // The address names the content, so it never goes stale.
        Some(_) => answer
            .since(document.since(request.now))
            .header(CACHE_CONTROL, "public, immutable")
            .header(EXPIRES, &in_a_year(request.now))
            .content(request, document.body(encoding)),
        None => answer.since(document.since(request.now)).content(request, document.body(encoding)),
    }
}

/// A response that is being built.
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
}

impl Answer {
    fn new(status: StatusCode) -> Answer {
        Answer { status, headers: HeaderMap::new() }
    }

    /// Adds a header. A header with an invalid value is left out.
    fn header(mut self, name: HeaderName, value: &str) -> Answer {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.append(name, value);
        }
        self
    }

    /// Adds the header Last-Modified: the time of the last change of the document.
    fn since(self, time: Timestamp) -> Answer {
        self.header(LAST_MODIFIED, &time.to_zoned(TimeZone::UTC).strftime(HTTP_DATE).to_string())
    }

    /// Whether the client has the content already, by If-Modified-Since. False if the client sends If-None-Match, which
    /// takes precedence.
    fn is_not_newer(&self, headers: &HeaderMap) -> bool {
        let time = |value: Option<&HeaderValue>| DateTime::strptime(HTTP_DATE, value?.to_str().ok()?).ok();
        let known = time(headers.get(IF_MODIFIED_SINCE)).filter(|_| !headers.contains_key(IF_NONE_MATCH));
        known.is_some_and(|known| time(self.headers.get(LAST_MODIFIED)).is_some_and(|since| since <= known))
    }

    /// The response with the body or the requested range of it, or 304 if the client has it already, or 416 for a range
    /// outside of it (Go's `http.ServeContent`).
    fn content(mut self, request: &Request<'_>, body: Bytes) -> Response<Bytes> {
        let is_known = self.headers.get(ETAG).is_some_and(|tag| {
            request.headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok()).any(|known| {
                known
                    .split(',')
                    .map(str::trim)
                    .any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known).as_bytes() == tag.as_bytes())
            })
        });
        if is_known || self.is_not_newer(request.headers) {
            self.status = StatusCode::NOT_MODIFIED;
            for name in [CONTENT_TYPE, CONTENT_ENCODING] {
                self.headers.remove(name);
            }
            // The entity tag is more exact than the time, so Go sends it alone.
            if self.headers.contains_key(ETAG) {
                self.headers.remove(LAST_MODIFIED);
            }
            return self.finish();
        }
        let mut body = body;
        // As in Go, ranges are served only of bodies without content encoding.
        if !self.headers.contains_key(CONTENT_ENCODING) {
            let length = body.len();
            self = self.header(ACCEPT_RANGES, "bytes");
            match requested_range(request.headers, length) {
                Some(Some((first, last))) => {
                    self.status = StatusCode::PARTIAL_CONTENT;
                    self = self.header(CONTENT_RANGE, &format!("bytes {first}-{last}/{length}"));
                    body = body.slice(first..=last);
                }
                Some(None) => {
                    self.status = StatusCode::RANGE_NOT_SATISFIABLE;
                    self = self.header(CONTENT_RANGE, &format!("bytes */{length}"));
                    body = Bytes::new();
                }
                None => {}
            }
        }
        let answer = self.header(CONTENT_LENGTH, &body.len().to_string());
        answer.with_body(if request.method == Method::HEAD { Bytes::new() } else { body })
    }

    /// The response without a body.
    fn finish(self) -> Response<Bytes> {
        self.with_body(Bytes::new())
    }

    /// The response with this body, and with [`NOT_CACHED`] unless it has a `Cache-Control`.
    fn with_body(mut self, body: Bytes) -> Response<Bytes> {
        self.headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static(NOT_CACHED));
        let mut response = Response::new(body);
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        response
    }
}

/// The version of OpenAPI.
#[derive(Clone, Copy)]
enum Version {
    V2,
    V3,
}

/// The media type of an encoding. Protobuf is written with a dot before the version, even if the client used an at
/// sign.
fn content_type(encoding: DocumentEncoding, version: Version) -> &'static str {
    match (encoding, version) {
        (DocumentEncoding::Json, _) => JSON,
        (DocumentEncoding::Protobuf, Version::V2) => "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
        (DocumentEncoding::Protobuf, Version::V3) => "application/com.github.proto-openapi.spec.v3.v1.0+protobuf",
    }
}

/// The encoding that the client prefers; `None` if it accepts neither JSON nor protobuf.
fn negotiate(headers: &HeaderMap, version: Version) -> Option<DocumentEncoding> {
    let accept = joined(headers, ACCEPT);
    let accept = if accept.trim().is_empty() { "*/*" } else { &accept };
    let mut clauses: Vec<(&str, &str, f64)> = accept.split(',').filter_map(clause).collect();
    // goautoneg: by quality, then a named type before a wildcard; among equals the first.
    clauses.sort_by(|left, right| {
        right
            .2
            .total_cmp(&left.2)
            .then((left.0 == "*").cmp(&(right.0 == "*")))
            .then((left.1 == "*").cmp(&(right.1 == "*")))
    });
    let number = match version {
        Version::V2 => "v2",
        Version::V3 => "v3",
    };
    let protobuf = ["@", "."].map(|sign| format!("com.github.proto-openapi.spec.{number}{sign}v1.0+protobuf"));
    clauses.into_iter().find_map(|(kind, subtype, _)| match subtype {
        _ if kind != "application" && kind != "*" => None,
        "json" | "*" => Some(DocumentEncoding::Json),
        _ if protobuf.iter().any(|name| name == subtype) => Some(DocumentEncoding::Protobuf),
        _ => None,
    })
}

/// The type, subtype and quality of one clause of Accept; `None` for quality 0, or if it is not a media type. An
/// invalid quality counts as 1.
fn clause(text: &str) -> Option<(&str, &str, f64)> {
    let mut parts = text.split(';').map(str::trim);
    let media_type = parts.next()?;
    let (kind, subtype) = if media_type == "*" { ("*", "*") } else { media_type.split_once('/')? };
    let quality = parts.find_map(|parameter| parameter.strip_prefix("q=")).map_or(Some(1.0), |text| text.parse().ok());
    let quality = quality.unwrap_or(1.0);
    (quality > 0.0).then_some((kind.trim(), subtype.trim(), quality))
}

/// Whether the client accepts gzip, by its Accept-Encoding.
fn accepts_gzip(headers: &HeaderMap) -> bool {
    joined(headers, ACCEPT_ENCODING).split(',').any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        let is_gzip = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip") || name == "*");
        let refused = parts.any(|parameter| {
            parameter
                .strip_prefix("q=")
                .is_some_and(|quality| quality.parse::<f64>().is_ok_and(|quality| quality <= 0.0))
        });
        is_gzip && !refused
    })
}

/// All values of a header as one list, separated by commas.
fn joined(headers: &HeaderMap, name: HeaderName) -> String {
    let values: Vec<&str> = headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect();
    values.join(",")
}

/// The first and the last byte of the requested range of a body of this length. The inner `None`: the range is outside
/// of the body. The outer `None`: the response has the whole body, because there is no range, several, or an invalid
/// one.
fn requested_range(headers: &HeaderMap, length: usize) -> Option<Option<(usize, usize)>> {
    let (first, last) = headers.get(RANGE)?.to_str().ok()?.strip_prefix("bytes=")?.trim().split_once('-')?;
    if last.contains(',') {
        return None;
    }
    let range = match (first.trim(), last.trim()) {
        ("", suffix) => {
            let suffix: usize = suffix.parse().ok()?;
            (length.saturating_sub(suffix), length.checked_sub(1)?)
        }
        (first, "") => (first.parse().ok()?, length.checked_sub(1)?),
        (first, last) => (first.parse().ok()?, last.parse::<usize>().ok()?.min(length.checked_sub(1)?)),
    };
    Some((range.0 < length && range.0 <= range.1).then_some(range))
}

/// The value of the query parameter `hash`; `None` if it is missing or empty, as upstream.
fn hash_of(query: Option<&str>) -> Option<&str> {
    let value = query?.split('&').find_map(|pair| pair.strip_prefix("hash="))?;
    (!value.is_empty()).then_some(value)
}

/// The hash as an entity tag.
fn quoted(hash: &str) -> String {
    format!("\"{hash}\"")
}

/// The time one year after `now`, as Go formats it with `time.RFC1123` in UTC. Go writes the zone as UTC, and not as
/// GMT, which HTTP requires.
fn in_a_year(now: Timestamp) -> String {
    let now = now.to_zoned(TimeZone::UTC);
    let then = now.checked_add(1.year()).unwrap_or(now);
    then.strftime("%a, %d %b %Y %H:%M:%S UTC").to_string()
}

#[cfg(test)]
mod tests;
