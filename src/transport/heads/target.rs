//! The target of a request as Go's server reads it, in a form that `http::Uri` accepts.
//!
//! Go's `url.ParseRequestURI` takes every character but control characters, and a space ends the target. `http::Uri` rejects a few of
//! them and takes `#` for the start of a fragment. Percent-encoded they mean the same to both, because Go decodes path and query.

use std::borrow::Cow;

use http::{StatusCode, Uri};

use crate::transport::head_error::HeadError;

/// The longest `http::Uri`, in bytes.
pub(super) const LONGEST_URI: usize = u16::MAX as usize - 1;

/// The longest path, in bytes. The rest of `http::Uri` is for the address of a server before it.
const LONGEST_PATH: usize = 60_000;

/// A target that hyper can read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Target<'t> {
    /// Without the query if that is apart.
    pub(super) text: Cow<'t, str>,
    /// The query, if `http::Uri` has no place for it.
    pub(super) query: Option<String>,
}

impl<'t> Target<'t> {
    /// Parses a target. `is_apart`: the query is stored separately, whatever its length.
    ///
    /// # Errors
    /// 400 for what is no URL or has control characters, 414 for a path that is too long.
    pub(super) fn read(target: &'t str, is_apart: bool) -> Result<Target<'t>, HeadError> {
        let encoded = encode(target)?;
        let path_length = encoded.find('?').unwrap_or(encoded.len());
        if path_length > LONGEST_PATH {
            let message = format!(
                "the path of the URL has {path_length} bytes, and at most {LONGEST_PATH} are accepted: shorten it"
            );
            return Err(HeadError::Unsupported(StatusCode::URI_TOO_LONG, message));
        }
        let (text, query) = if encoded.len() > LONGEST_URI || (is_apart && path_length < encoded.len()) {
            let query = encoded[path_length + 1..].to_owned();
            (Cow::Owned(encoded[..path_length].to_owned()), Some(query))
        } else {
            (encoded, None)
        };
        // What begins with a slash has only characters that `http::Uri` accepts.
        if !text.starts_with('/') && text.parse::<Uri>().is_err() {
            return Err(not_a_url());
        }
        Ok(Target { text, query })
    }
}

/// The error for an invalid target.
pub(super) fn not_a_url() -> HeadError {
    let message = "the target of the request is not a URL: it must begin with a slash, or with http:// and a host name; percent-encode control characters";
    HeadError::Malformed(message.to_owned())
}

/// Percent-encodes what `http::Uri` rejects in a path or in a query, `#`, and spaces, which only HTTP/2 can carry.
fn encode(target: &str) -> Result<Cow<'_, str>, HeadError> {
    let is_foreign = |byte: u8, is_query: bool| match byte {
        b'<' | b'>' | b'#' | b' ' => true,
        b'"' => is_query,
        b'`' => !is_query,
        _ => byte.is_ascii_control(),
    };
    if !target.bytes().any(|byte| is_foreign(byte, true) || is_foreign(byte, false)) {
        return Ok(Cow::Borrowed(target));
    }
    let (mut encoded, mut is_query) = (String::with_capacity(target.len() + 64), false);
    for character in target.chars() {
        if character.is_ascii_control() {
            return Err(not_a_url());
        }
        match u8::try_from(character) {
            Ok(byte) if byte.is_ascii() && is_foreign(byte, is_query) => {
                encoded.push('%');
                for digit in [byte >> 4, byte & 0xf] {
                    encoded.push(char::from(b"0123456789ABCDEF"[usize::from(digit)]));
                }
            }
            _ => encoded.push(character),
        }
        is_query |= character == '?';
    }
    Ok(Cow::Owned(encoded))
}
