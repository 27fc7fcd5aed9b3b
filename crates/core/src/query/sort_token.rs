//! The `continue` token of a sorted list.
//!
//! It names the last object of a page, whose values at the version of the token are the position. kube-apiserver does
//! not know sorted lists. So the token has a format of its own, which kube-apiserver rejects. The token does not
//! contain selectors; the client repeats them.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

use crate::model::Version;

/// The version of the format of a token.
const SHAPE: &str = "view.fieldcache.dev/v1alpha1";

/// A decoded token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SortToken {
    /// The version that every page shows.
    pub version: Version,
    /// The order of the list, as the client wrote it.
    pub sort_by: String,
    /// The key of the last object of the page before.
    pub after: String,
    /// The number of objects on all pages before. A client that alters it gets another number of remaining objects.
    pub taken: u64,
}

impl SortToken {
    /// The token as text for clients.
    pub fn encode(&self) -> String {
        let SortToken { version, sort_by, after, taken } = self;
        let (sort_by, after) = (Value::from(sort_by.as_str()), Value::from(after.as_str()));
        // The format comes first, as in a token of kube-apiserver.
        let document = format!(
            "{{\"v\":\"{SHAPE}\",\"rv\":{},\"sortBy\":{sort_by},\"after\":{after},\"taken\":{taken}}}",
            version.number()
        );
        URL_SAFE_NO_PAD.encode(document)
    }

    /// Reads a token; `None` for a text that is no token of a sorted list.
    pub fn decode(text: &str) -> Option<SortToken> {
        let document: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).ok()?).ok()?;
        let text = |name: &str| document.get(name).and_then(Value::as_str).map(str::to_owned);
        let number = |name: &str| document.get(name).and_then(Value::as_u64);
        let version = number("rv").filter(|version| *version > 0).map(Version::new)?;
        let token = SortToken { version, sort_by: text("sortBy")?, after: text("after")?, taken: number("taken")? };
        text("v").filter(|shape| shape == SHAPE).map(|_| token)
    }
}
