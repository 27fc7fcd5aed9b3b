//! Converts the target of a request (its URL) to a form that `http::Uri` accepts, with the meaning that it has for
//! Go's server.
//!
//! Go's `url.ParseRequestURI` accepts all characters except control characters, and a space ends the target.
//! `http::Uri` rejects a few more, and treats `#` as the start of a fragment. These characters are percent-encoded.
//! That does not change their meaning, because Go decodes path and query.

use std::borrow::Cow;

use http::{StatusCode, Uri};

use crate::transport::head_error::HeadError;

/// The longest `http::Uri`, in bytes.
pub(super) const LONGEST_URI: usize = u16::MAX as usize - 1;

/// The longest path, in bytes. The rest of `http::Uri` is for a scheme and a host in front of it.
const LONGEST_PATH: usize = 60_000;

/// A target that hyper accepts.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Target<'t> {
    /// The target, without the query if `query` has it.
    pub(super) text: Cow<'t, str>,
    /// The query, if the target is too long for `http::Uri`, or the caller stores the query separately.
    pub(super) query: Option<String>,
}

impl<'t> Target<'t> {
    /// Parses a target. `splits_query`: returns the query separately, whatever its length.
    ///
    /// # Errors
    /// 400 for a target that is not a URL or has control characters, 414 for a path that is too long.
    pub(super) fn read(target: &'t str, splits_query: bool) -> Result<Target<'t>, HeadError> {
        let encoded = encode(target)?;
        let path_length = encoded.find('?').unwrap_or(encoded.len());
        if path_length > LONGEST_PATH {
            let message = format!(
                "the path of the URL has {path_length} bytes, and at most {LONGEST_PATH} are accepted: shorten it"
            );
            return Err(HeadError::Unsupported(StatusCode::URI_TOO_LONG, message));
        }
        let (text, query) = if encoded.len() > LONGEST_URI || (splits_query && path_length < encoded.len()) {
            let query = encoded[path_length + 1..].to_owned();
            (Cow::Owned(encoded[..path_length].to_owned()), Some(query))
        } else {
            (encoded, None)
        };
        // A target that begins with a slash is valid: it has only characters that `http::Uri` accepts.
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

/// Percent-encodes the characters that `http::Uri` rejects in a path or in a query, `#`, and spaces, which are
/// possible only over HTTP/2.
///
/// # Errors
/// 400 for control characters.
fn encode(target: &str) -> Result<Cow<'_, str>, HeadError> {
    let must_encode = |byte: u8, is_query: bool| match byte {
        b'<' | b'>' | b'#' | b' ' => true,
        b'"' => is_query,
        b'`' => !is_query,
        _ => byte.is_ascii_control(),
    };
    if !target.bytes().any(|byte| must_encode(byte, true) || must_encode(byte, false)) {
        return Ok(Cow::Borrowed(target));
    }
    let (mut encoded, mut is_query) = (String::with_capacity(target.len() + 64), false);
    for character in target.chars() {
        if character.is_ascii_control() {
            return Err(not_a_url());
        }
        match u8::try_from(character) {
            Ok(byte) if byte.is_ascii() && must_encode(byte, is_query) => {
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
