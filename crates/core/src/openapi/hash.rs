//! Content hashes, and the index of OpenAPI v3 that carries them. kube-openapi `pkg/handler3/handler.go`.
//!
//! The hash of the JSON bytes also identifies the protobuf form: caches distinguish the forms by `Vary: Accept`.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha512};

/// The SHA-512 hash as upper-case hexadecimal text.
pub fn sha512(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(128);
    for byte in Sha512::digest(bytes) {
        write!(text, "{byte:02X}").expect("writing to a String must succeed");
    }
    text
}

/// The index of the v3 documents. `documents` has the key (such as `apis/apps/v1`) and the hash of each.
pub fn index<'a>(documents: impl IntoIterator<Item = (&'a str, &'a str)>) -> Value {
    let paths: Map<String, Value> = documents
        .into_iter()
        .map(|(key, hash)| (key.to_owned(), json!({"serverRelativeURL": url(key, hash)})))
        .collect();
    json!({"paths": paths})
}

/// The URL of the v3 document with this key and hash, for the index and for redirects from an outdated hash.
pub fn url(key: &str, hash: &str) -> String {
    let mut path = String::from("/openapi/v3/");
    // Go's url.URL escapes all other bytes of a path.
    for byte in key.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/$&+,:;=@".contains(&byte) {
            path.push(char::from(byte));
        } else {
            write!(path, "%{byte:02X}").expect("writing to a String must succeed");
        }
    }
    format!("{path}?hash={hash}")
}
