//! The `continue` token: kube-apiserver's own shape, so that a client can move between servers in the middle of a list.
//!
//! base64url without padding of `{"v":"meta.k8s.io/v1","rv":N,"start":"KEY\u0000"}` (apiserver `storage/continue.go`).
//! The token does not record selectors; the client repeats them. `rv` -1 means: go on at the newest state.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

use crate::model::Version;

/// A decoded token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContinueToken {
    /// The version that every page shows; `None`: the newest (an inconsistent continuation).
    pub version: Option<Version>,
    /// The first key of the next page, relative to the request: `namespace/name`, or `name` in a request for one
    /// namespace. Ends with a NUL byte when it means "after this key".
    pub start: String,
}

/// A token that cannot be used; Display is kube-apiserver's message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid continue token: {0}")]
pub struct TokenError(String);

const SHAPE: &str = "meta.k8s.io/v1";

impl ContinueToken {
    /// The text that a client gets.
    pub fn encode(&self) -> String {
        let version = self.version.map_or_else(|| Value::from(-1), |version| Value::from(version.number()));
        let text = format!("{{\"v\":\"{SHAPE}\",\"rv\":{version},\"start\":{}}}", Value::from(self.start.as_str()));
        URL_SAFE_NO_PAD.encode(text)
    }

    /// Reads a token.
    ///
    /// # Errors
    /// kube-apiserver's message for each defect.
    pub fn decode(text: &str) -> Result<ContinueToken, TokenError> {
        let invalid = |problem: String| TokenError(format!("continue key is not valid: {problem}"));
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|error| {
            let offset = match error {
                base64::DecodeError::InvalidByte(offset, _) | base64::DecodeError::InvalidLastSymbol { offset, .. } => {
                    offset
                }
                base64::DecodeError::InvalidLength(length) => length,
                base64::DecodeError::InvalidPadding => text.find('=').unwrap_or(text.len()),
            };
            invalid(format!("illegal base64 data at input byte {offset}"))
        })?;
        let document: Value = serde_json::from_slice(&bytes).map_err(|_| {
            let first =
                bytes.first().map_or_else(|| "end of input".to_owned(), |byte| format!("{:?}", char::from(*byte)));
            invalid(format!("invalid character {first} looking for beginning of value"))
        })?;
        let shape = document["v"].as_str().unwrap_or_default();
        if shape != SHAPE {
            return Err(invalid(format!("server does not recognize this encoded version {shape}")));
        }
        if document["rv"].is_string() {
            let problem = "json: cannot unmarshal string into Go struct field continueToken.rv of type int64";
            return Err(invalid(problem.to_owned()));
        }
        let version = match document["rv"].as_i64() {
            Some(-1) => None,
            Some(number) if number > 0 => Some(Version::new(number.unsigned_abs())),
            _ => return Err(invalid(format!("incorrect encoded start resourceVersion (version {SHAPE})"))),
        };
        let start = document["start"].as_str().unwrap_or_default();
        if start.is_empty() {
            return Err(invalid(format!("encoded start key empty (version {SHAPE})")));
        }
        // Upstream cleans the path and refuses a key that this changes, so that no token leaves its prefix.
        let relative = start.strip_prefix('/').unwrap_or(start);
        let unclean = relative.split('/').any(|segment| segment == ".." || segment == "." || segment.is_empty());
        if unclean {
            return Err(invalid(start.to_owned()));
        }
        Ok(ContinueToken { version, start: relative.to_owned() })
    }
}
