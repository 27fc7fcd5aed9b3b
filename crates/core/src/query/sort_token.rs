//! The `continue` token of a sorted list.
//!
//! The token names the last object of a page. The values of this object, at the version of the token, are the position
//! at which the next page begins. kube-apiserver does not have sorted lists. So the token has a format of its own,
//! which kube-apiserver rejects. The token does not contain selectors; the client repeats them.
//!
//! The format is base64url without padding of `{"v":FORMAT,"rv":N,"sortBy":ORDER,"after":KEY,"taken":N}`.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

use crate::model::Version;

/// The name and version of the format, in the member `v` of a token.
const SHAPE: &str = "view.fieldcache.dev/v1alpha1";

/// A decoded token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SortToken {
    /// The version at which all pages show the objects.
    pub version: Version,
    /// The order of the list, as the client wrote it.
    pub sort_by: String,
    /// The key of the last object of the previous page.
    pub after: String,
    /// The number of objects on all previous pages. It only serves to report the number of remaining objects, so it
    /// does no harm if a client alters it.
    pub taken: u64,
}

impl SortToken {
    /// The text of the token for clients.
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
        // The text comes from a client, so each member is checked. The version 0 is not valid.
        let document: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).ok()?).ok()?;
        let text = |name: &str| document.get(name).and_then(Value::as_str).map(str::to_owned);
        let number = |name: &str| document.get(name).and_then(Value::as_u64);
        let version = number("rv").filter(|version| *version > 0).map(Version::new)?;
        let token = SortToken { version, sort_by: text("sortBy")?, after: text("after")?, taken: number("taken")? };
        text("v").filter(|shape| shape == SHAPE).map(|_| token)
    }
}
