//! An answer as text, every byte and every header of it, so that two can be compared.
//!
//! It replaces versions ([`Versions`]), the server's own address, and the name of the View where a test requests
//! another one on purpose. What depends on the time or the request is only checked for presence: `Date`, `Audit-Id`,
//! `Last-Modified`. A compressed body is compared uncompressed, and then its length, which versions change, is left
//! out.

use std::io::Read;

use e2e::http::Answer;
use flate2::read::GzDecoder;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH};

use super::versions::Versions;

/// Headers that must be there or not be there.
const PRESENT: [&str; 3] = ["date", "audit-id", "last-modified"];

/// The View under test, by which every other one is called in answers.
pub(crate) const WINDOW: &str = "window";

/// Replaces the address under which the server was queried.
const HOST: &str = "HOST";

/// An answer of a server at `host` as text.
pub(crate) fn normalized(answer: &Answer, (versions, host): (&Versions, &str), view: &str) -> String {
    let mut body = answer.body.to_vec();
    let is_compressed = answer.headers.get(CONTENT_ENCODING).is_some_and(|encoding| encoding == "gzip");
    if is_compressed {
        let mut plain = Vec::new();
        if GzDecoder::new(&*body).read_to_end(&mut plain).is_ok() {
            body = plain;
        }
    }
    let mut headers: Vec<String> = answer
        .headers
        .iter()
        .filter(|(name, _)| !(is_compressed && *name == CONTENT_LENGTH))
        .map(|(name, value)| {
            let value = if PRESENT.contains(&name.as_str()) {
                "there".to_owned()
            } else {
                String::from_utf8_lossy(value.as_bytes()).into_owned()
            };
            format!("{name}: {value}\n")
        })
        .collect();
    headers.sort();
    let text = format!("{}\n{}\n{}", answer.status.as_u16(), headers.concat(), printable(&body));
    line(&text, versions, view).replace(host, HOST)
}

/// One line of a watch.
pub(crate) fn line(text: &str, versions: &Versions, view: &str) -> String {
    let text = versions.replace_in(text);
    // Names of Views have the same length.
    if view == WINDOW { text } else { text.replace(&format!("/views/{view}/"), &format!("/views/{WINDOW}/")) }
}

/// Text, or every byte of what is none.
fn printable(body: &[u8]) -> String {
    match std::str::from_utf8(body) {
        Ok(text) => text.to_owned(),
        Err(_) => body.escape_ascii().to_string(),
    }
}

/// Where two texts part, with what is around.
pub(crate) fn parting(one: &str, other: &str) -> Option<String> {
    if one == other {
        return None;
    }
    let place =
        one.bytes().zip(other.bytes()).position(|(left, right)| left != right).unwrap_or(one.len().min(other.len()));
    let around = |text: &str| -> String {
        let bytes = text.as_bytes();
        String::from_utf8_lossy(&bytes[place.saturating_sub(120).min(bytes.len())..(place + 200).min(bytes.len())])
            .into_owned()
    };
    Some(format!("at byte {place}:\n      one:   {}\n      other: {}", around(one), around(other)))
}
