//! The `continue` token in kube-apiserver's own form, so that a client can change servers in the middle of a list.
//!
//! base64url without padding of `{"v":"meta.k8s.io/v1","rv":N,"start":"KEY\u0000"}` (apiserver `storage/continue.go`).
//! The token does not contain selectors; the client repeats them. `rv` -1 means: continue at the newest state.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

use crate::model::Version;

/// A decoded token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContinueToken {
    /// The version that every page shows; `None`: the newest (an inconsistent continuation).
    pub version: Option<Version>,
    /// The first key of the next page as the token has it: see [`ContinueToken::key`].
    pub start: String,
}

/// A token that cannot be used; Display is kube-apiserver's message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid continue token: {0}")]
pub struct TokenError(String);

/// The version of the format of a token.
const SHAPE: &str = "meta.k8s.io/v1";

impl ContinueToken {
    /// The token as text for clients.
    pub fn encode(&self) -> String {
        let version = self.version.map_or_else(|| Value::from(-1), |version| Value::from(version.number()));
        let text = format!("{{\"v\":\"{SHAPE}\",\"rv\":{version},\"start\":{}}}", Value::from(self.start.as_str()));
        URL_SAFE_NO_PAD.encode(text)
    }

    /// The token of a page that begins after the object with this key. The key is relative to the request, as
    /// [`ContinueToken::key`] describes. The token has a slash before the key, like tokens from the watch cache of
    /// kube-apiserver. Tokens that it makes from etcd have none.
    pub fn after(version: Version, key: &str) -> ContinueToken {
        ContinueToken { version: Some(version), start: format!("/{key}\0") }
    }

    /// The first key of the next page, relative to the request: `namespace/name`, or `name` in a request for one
    /// namespace. Ends with a NUL byte when it means "after this key".
    pub fn key(&self) -> &str {
        self.start.strip_prefix('/').unwrap_or(&self.start)
    }

    /// Reads a token.
    ///
    /// # Errors
    /// kube-apiserver's message for each defect.
    pub fn decode(text: &str) -> Result<ContinueToken, TokenError> {
        let invalid = |problem: String| TokenError(format!("continue key is not valid: {problem}"));
        // Go's decoder ignores line breaks.
        let text: String = text.chars().filter(|character| !matches!(character, '\r' | '\n')).collect();
        let bytes = URL_SAFE_NO_PAD.decode(&text).map_err(|error| {
            let offset = match error {
                base64::DecodeError::InvalidByte(offset, _) | base64::DecodeError::InvalidLastSymbol { offset, .. } => {
                    offset
                }
                // One character too many: Go reports the offset of its group of four.
                base64::DecodeError::InvalidLength(length) => length.saturating_sub(1) / 4 * 4,
                base64::DecodeError::InvalidPadding => text.find('=').unwrap_or(text.len()),
            };
            invalid(format!("illegal base64 data at input byte {offset}"))
        })?;
        let document: Value = serde_json::from_slice(&bytes).map_err(|error| invalid(json_error(&bytes, &error)))?;
        if let Some(kind) = kind_that_is_no_object(&document) {
            return Err(invalid(format!("json: cannot unmarshal {kind} into Go value of type storage.continueToken")));
        }
        let shape = document["v"].as_str().unwrap_or_default();
        if shape != SHAPE {
            return Err(invalid(format!("server does not recognize this encoded version {shape}")));
        }
        let wrong = match &document["rv"] {
            Value::String(_) => Some("string".to_owned()),
            Value::Number(number) if number.as_i64().is_none() => Some(format!("number {number}")),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => None,
        };
        if let Some(wrong) = wrong {
            let problem = format!("json: cannot unmarshal {wrong} into Go struct field continueToken.rv of type int64");
            return Err(invalid(problem));
        }
        let version = match document["rv"].as_i64() {
            Some(-1) => None,
            Some(number) if number > 0 => Some(Version::new(number.unsigned_abs())),
            _ => return Err(invalid(format!("incorrect encoded start resourceVersion (version {SHAPE})"))),
        };
        let start = document["start"].as_str().unwrap_or_default().to_owned();
        if start.is_empty() {
            return Err(invalid(format!("encoded start key empty (version {SHAPE})")));
        }
        // Upstream cleans the path and rejects a key that this changes, so that no token leaves the prefix of its
        // resource.
        let token = ContinueToken { version, start };
        let unclean = token.key().split('/').any(|segment| segment == ".." || segment == "." || segment.is_empty());
        if unclean {
            return Err(invalid(token.start));
        }
        Ok(token)
    }
}

/// Go's name for the type of a JSON value that is not an object. `None` for an object, and for `null`, which Go reads
/// as an empty object.
fn kind_that_is_no_object(document: &Value) -> Option<&'static str> {
    match document {
        Value::Object(_) | Value::Null => None,
        Value::Bool(_) => Some("bool"),
        Value::Number(_) => Some("number"),
        Value::String(_) => Some("string"),
        Value::Array(_) => Some("array"),
    }
}

/// Go's error for `bytes`, which are not valid JSON. It is exact in the common cases: truncated JSON, data after it,
/// and bytes that are not JSON at all. `error` is the error of serde_json for them.
fn json_error(bytes: &[u8], error: &serde_json::Error) -> String {
    if error.is_eof() {
        return "unexpected end of JSON input".to_owned();
    }
    let mut values = serde_json::Deserializer::from_slice(bytes).into_iter::<Value>();
    let is_whole = values.next().is_some_and(|value| value.is_ok());
    let rest = bytes.get(values.byte_offset()..).unwrap_or_default().trim_ascii_start();
    match rest.first().filter(|_| is_whole) {
        Some(byte) => format!("invalid character {:?} after top-level value", char::from(*byte)),
        None => {
            let first = bytes.first().copied().map_or('\0', char::from);
            format!("invalid character {first:?} looking for beginning of value")
        }
    }
}
