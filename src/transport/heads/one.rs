//! Parses the head of an HTTP/1.1 request: where it ends, what follows it, and the head that hyper gets instead if
//! hyper does not accept this one.
//!
//! The parser is httparse, as in hyper, so both find the same end and the same headers. A head that hyper accepts is
//! passed on unchanged, unless a body in chunks follows it. Heads that hyper would reject, or that are
//! ambiguous, are rejected here.

use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, StatusCode};
use httparse::{EMPTY_HEADER, Error, Header, Status};

use super::bounds::{MOST_FIELDS, MOST_HEAD, TakeShare, USUAL_HEAD, memory_of_head};
use super::slots::{SLOT_HEADER, Slots, StoredParts};
use super::target::Target;
use crate::transport::head_error::HeadError;

/// The number of headers that hyper parses without allocating memory for more.
const USUAL_FIELDS: usize = 90;

/// The longest method, in bytes. It is part of the head that hyper gets.
const LONGEST_METHOD: usize = 1024;

/// The headers with their tokens that hyper reads itself, besides those for the length of the body.
const READ_BY_HYPER: [(&str, &str); 5] = [
    ("connection", "close"),
    ("connection", "keep-alive"),
    ("connection", "upgrade"),
    ("upgrade", "websocket"),
    ("expect", "100-continue"),
];

/// What follows a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Following {
    /// A body of this many bytes, then the next head.
    Body(u64),
    /// A body in chunks. The connection ends with this request, so the end of the body need not be known.
    Chunks,
}

/// A complete head.
#[derive(Debug)]
pub(super) struct CompleteHead {
    /// The length in bytes.
    pub(super) length: usize,
    /// The head that hyper gets instead; `None`: hyper gets the same bytes.
    pub(super) instead: Option<Vec<u8>>,
    /// What follows it.
    pub(super) following: Following,
}

/// Parses the head at the beginning of `bytes`; `None` if it is incomplete. Parts that hyper cannot carry are stored
/// in one of the `slots`. `share` takes the share of their memory.
///
/// # Errors
/// The request is rejected.
pub(super) fn read(bytes: &[u8], slots: &Slots, share: TakeShare<'_>) -> Result<Option<CompleteHead>, HeadError> {
    let mut few = [EMPTY_HEADER; USUAL_FIELDS];
    let mut request = httparse::Request::new(&mut few);
    match request.parse(bytes) {
        Ok(Status::Partial) => Ok(None),
        Ok(Status::Complete(length)) => convert(&bytes[..length], &request, slots, share).map(Some),
        Err(Error::TooManyHeaders) => {
            let mut many = vec![EMPTY_HEADER; MOST_FIELDS];
            let mut request = httparse::Request::new(&mut many);
            match request.parse(bytes) {
                Ok(Status::Partial) => Ok(None),
                Ok(Status::Complete(length)) => convert(&bytes[..length], &request, slots, share).map(Some),
                Err(error) => Err(rejection(error, bytes)),
            }
        }
        Err(error) => Err(rejection(error, bytes)),
    }
}

/// Checks a complete head. If hyper would not accept it, `instead` of the result is the head that hyper gets. A query
/// or headers that are too long for it are stored in one of the `slots`, and `share` takes the share of their memory.
/// The head of a request with a body in chunks is always replaced, to add `connection: close`: the end of such a body
/// is not looked for, so no other request can follow it.
///
/// # Errors
/// The request is rejected.
fn convert(
    head: &[u8],
    request: &httparse::Request<'_, '_>,
    slots: &Slots,
    share: TakeShare<'_>,
) -> Result<CompleteHead, HeadError> {
    if head.len() > MOST_HEAD {
        return Err(super::bounds::too_long());
    }
    let following = read_following(request)?;
    let method = request.method.unwrap_or_default();
    if method.len() > LONGEST_METHOD {
        return Err(HeadError::Malformed(format!(
            "the method of the request has more than {LONGEST_METHOD} characters"
        )));
    }
    let path = request.path.unwrap_or_default();
    let mut target = Target::read(path, false)?;
    // Percent-encoding can make a URL three times as long.
    let is_long = head.len() + target.text.len().saturating_sub(path.len()) > USUAL_HEAD;
    // `true`: the query is stored separately even if it is short.
    if is_long && target.query.is_none() {
        target = Target::read(path, true)?;
    }
    let has_many = is_long || request.headers.len() >= USUAL_FIELDS;
    let kept = if target.query.is_some() || has_many {
        let headers = if has_many { Some(header_map(request.headers)?) } else { None };
        Some(StoredParts {
            query: target.query.as_deref().map(Into::into),
            headers,
            rejection: None,
            share: Some(share(memory_of_head(head.len(), request.headers.len()))?),
        })
    } else {
        None
    };
    if kept.is_none() && target.text == path && following != Following::Chunks {
        return Ok(CompleteHead { length: head.len(), instead: None, following });
    }
    let mut instead = Vec::with_capacity(target.text.len() + 1024);
    let mut push = |parts: &[&[u8]]| parts.iter().for_each(|part| instead.extend_from_slice(part));
    let version: &[u8] = if request.version == Some(1) { b" HTTP/1.1\r\n" } else { b" HTTP/1.0\r\n" };
    push(&[method.as_bytes(), b" ", target.text.as_bytes(), version]);
    if following == Following::Chunks {
        push(&[b"connection: close\r\n"]);
    }
    if has_many {
        // hyper gets only the headers that it reads itself, because all headers can be too many or too long for it.
        for (name, token) in READ_BY_HYPER {
            if has_token(request.headers, name, token) {
                push(&[name.as_bytes(), b": ", token.as_bytes(), b"\r\n"]);
            }
        }
        match following {
            Following::Body(length) => push(&[b"content-length: ", length.to_string().as_bytes(), b"\r\n"]),
            Following::Chunks => push(&[b"transfer-encoding: chunked\r\n"]),
        }
    } else {
        for Header { name, value } in &*request.headers {
            push(&[name.as_bytes(), b": ", value, b"\r\n"]);
        }
    }
    if let Some(kept) = kept {
        let number = slots.store(kept);
        push(&[SLOT_HEADER.as_bytes(), b": ", number.to_string().as_bytes(), b"\r\n"]);
    }
    push(&[b"\r\n"]);
    Ok(CompleteHead { length: head.len(), instead: Some(instead), following })
}

/// Reads from the headers what follows a head. Stricter than hyper and Go, so that a proxy in front cannot read it in
/// another way.
///
/// # Errors
/// The headers about the body or the host are missing, invalid, repeated or contradict each other, or the request has the
/// header that this server adds for hyper ([`SLOT_HEADER`]). 501 for a Transfer-Encoding other than one `chunked`.
fn read_following(request: &httparse::Request<'_, '_>) -> Result<Following, HeadError> {
    let bad = |message: &str| Err(HeadError::Malformed(message.to_owned()));
    let (mut length, mut is_chunked, mut has_host) = (None, false, false);
    for Header { name, value } in &*request.headers {
        if name.eq_ignore_ascii_case("content-length") {
            let text = std::str::from_utf8(value).unwrap_or_default();
            // With more digits, an integer could overflow in a proxy.
            let is_number = (1..=18).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
            let Some(number) = text.parse::<u64>().ok().filter(|_| is_number) else {
                return bad("the header Content-Length is not a number of bytes");
            };
            if length.replace(number).is_some() {
                return bad("the request has several headers Content-Length: send one");
            }
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            if !value.eq_ignore_ascii_case(b"chunked") || is_chunked {
                let message = "the header Transfer-Encoding must occur only once, with the value \"chunked\"";
                return Err(HeadError::Unsupported(StatusCode::NOT_IMPLEMENTED, message.to_owned()));
            }
            is_chunked = true;
        } else if name.eq_ignore_ascii_case("host") {
            if std::mem::replace(&mut has_host, true) {
                return bad("the request has several headers Host: send one");
            }
        } else if name.eq_ignore_ascii_case(SLOT_HEADER) {
            return bad(&format!("the header {SLOT_HEADER} is reserved for the server: remove it"));
        }
    }
    match (length, is_chunked) {
        (Some(_), true) => bad("the request has Content-Length and Transfer-Encoding: send one of them"),
        (_, true) if request.version != Some(1) => bad("HTTP/1.0 has no Transfer-Encoding: send Content-Length"),
        // HTTP/1.0 does not require a Host (RFC 9112, 3.2).
        _ if !has_host && request.version == Some(1) => bad("the request has no header Host: send one"),
        (_, true) => Ok(Following::Chunks),
        (length, false) => Ok(Following::Body(length.unwrap_or(0))),
    }
}

/// Whether a header of this name has this token in its comma-separated list.
fn has_token(headers: &[Header<'_>], name: &str, token: &str) -> bool {
    let mut values = headers.iter().filter(|header| header.name.eq_ignore_ascii_case(name)).map(|header| header.value);
    values.any(|value| {
        value.split(|byte| *byte == b',').any(|part| part.trim_ascii().eq_ignore_ascii_case(token.as_bytes()))
    })
}

/// Converts the headers to a map.
///
/// # Errors
/// A header is invalid, or there are too many.
fn header_map(headers: &[Header<'_>]) -> Result<HeaderMap, HeadError> {
    let mut map = HeaderMap::with_capacity(headers.len());
    for header in headers {
        let name = HeaderName::from_bytes(header.name.as_bytes());
        let value = HeaderValue::from_bytes(header.value);
        let (Ok(name), Ok(value)) = (name, value) else { return Err(rejection(Error::HeaderName, &[])) };
        map.try_append(name, value).map_err(|_| rejection(Error::TooManyHeaders, &[]))?;
    }
    Ok(map)
}

/// Converts an error of the parser. `bytes`: the head, to find out whether it has an unsupported version of HTTP;
/// empty for errors about headers.
fn rejection(error: Error, bytes: &[u8]) -> HeadError {
    let message = match error {
        Error::TooManyHeaders => {
            let message = format!("the request has more than {MOST_FIELDS} headers: send fewer");
            return HeadError::Unsupported(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, message);
        }
        Error::Version if has_other_version(bytes) => {
            let message = "the request has a version of HTTP that is not supported: send HTTP/1.1 or HTTP/2";
            return HeadError::Unsupported(StatusCode::HTTP_VERSION_NOT_SUPPORTED, message.to_owned());
        }
        Error::HeaderName => "the request has a header with an invalid name, or with no colon directly after the name",
        Error::HeaderValue => "the value of a header has a control character, or continues in the next line",
        Error::NewLine => "a line of the request does not end with CR LF",
        Error::Token | Error::Version | Error::Status => {
            "the first line of the request is not a method, a URL and HTTP/1.1, with one space between them: percent-encode spaces \
             and control characters of the URL"
        }
    };
    HeadError::Malformed(message.to_owned())
}

/// Whether the first line ends with an HTTP version of a valid form, such as `HTTP/3.0`.
fn has_other_version(bytes: &[u8]) -> bool {
    let line = bytes.trim_ascii_start().split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii_end();
    let version = line.split(|byte| *byte == b' ').nth(2).unwrap_or_default();
    matches!(version.strip_prefix(b"HTTP/"), Some([major, b'.', minor]) if major.is_ascii_digit() && minor.is_ascii_digit())
}
