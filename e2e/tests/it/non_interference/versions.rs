//! resourceVersions, which show how much a cluster writes and so differ. Each is replaced by the number of visible
//! changes that it includes.
//!
//! That keeps their order and is all that the two clusters can agree on. It works on the bytes of a response, wherever
//! a version occurs: in objects, lists and bookmarks, in continue tokens, and in messages about versions. Everything
//! else stays as it was sent. The clusters' versions have the same number of digits, so that lengths agree, too.

use anyhow::{Result, ensure};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::Value;

/// How long a version is.
const DIGITS: usize = 4;

/// What precedes one in protobuf, as bytes and as they are printed: the tag of the member, in lists and in objects, and its length.
const BEFORE_IN_PROTOBUF: [&str; 4] = ["\u{12}\u{4}", "2\u{4}", r"\x12\x04", r"2\x04"];

/// What every continue token begins with: `{"v":"meta.k8s.io/v1"`, or `{"v":"view.fieldcache.dev/v1alpha` of a sorted
/// list. In protobuf nothing but a length is before it.
const TOKENS: [&str; 2] = ["eyJ2IjoibWV0YS5rOHMuaW8vdjEi", "eyJ2Ijoidmlldy5maWVsZGNhY2hlLmRldi92MWFscGhh"];

/// Larger numbers are no version of the server, but a client's.
const LARGEST: u64 = 9_999;

/// Texts that precede a version.
const BEFORE_VERSION: [&str; 7] = [
    r#""resourceVersion":""#,
    r#""resourceVersion": ""#,
    r#"resourceVersion: ""#,
    "resource version: ",
    "current: ",
    // "too old resource version: 1 (1234)".
    " (",
    r#""rv":"#,
];

/// Texts that precede a continue token.
const BEFORE_TOKEN: [&str; 3] = [r#""continue":""#, r#""continue": ""#, "continue: "];

/// The versions of a cluster's changes that are seen, in their order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Versions(Vec<u64>);

impl Versions {
    pub(crate) fn push(&mut self, version: u64) {
        self.0.push(version);
    }

    /// Of the last change.
    pub(crate) fn last(&self) -> Option<u64> {
        self.0.last().copied()
    }

    /// Of the change of this number.
    pub(crate) fn number_at(&self, number: usize) -> Option<u64> {
        self.0.get(number).copied()
    }

    /// Fails when lengths would distinguish the clusters by no fault of the server.
    pub(crate) fn check(&self) -> Result<()> {
        ensure!(
            self.0.iter().all(|version| (1_000..=LARGEST).contains(version)),
            "a version has not four digits: {:?}",
            self.last()
        );
        Ok(())
    }

    /// A text with every version in it replaced.
    pub(crate) fn replace_in(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut done = 0;
        for (begin, what) in places(text) {
            // What is in a token has been dealt with.
            if begin < done {
                continue;
            }
            let is_part = |letter: char| match what {
                What::Token => letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_'),
                What::Version | What::InProtobuf => letter.is_ascii_digit(),
            };
            let rest = &text[begin..];
            let mut length = rest.find(|letter| !is_part(letter)).unwrap_or(rest.len());
            if what == What::InProtobuf {
                // The tag of the next member may be a digit.
                length = length.min(DIGITS);
            }
            out.push_str(&text[done..begin]);
            out.push_str(&match what {
                What::Token => self.token(&rest[..length]),
                What::Version | What::InProtobuf => self.number(&rest[..length]),
            });
            done = begin + length;
        }
        out.push_str(&text[done..]);
        out
    }

    fn number(&self, text: &str) -> String {
        match text.parse::<u64>() {
            Ok(version) if (1..=LARGEST).contains(&version) && text.len() > 2 => {
                format!("<{}>", self.0.partition_point(|change| *change <= version))
            }
            _ => text.to_owned(),
        }
    }

    /// What a token says, with its version replaced; one that says nothing stays as it is.
    fn token(&self, text: &str) -> String {
        let decoded = BASE64_URL_SAFE_NO_PAD.decode(text).ok();
        let said = decoded.filter(|bytes| serde_json::from_slice::<Value>(bytes).is_ok());
        match said.and_then(|bytes| String::from_utf8(bytes).ok()) {
            Some(said) => format!("token{}", self.replace_in(&said)),
            None => text.to_owned(),
        }
    }
}

/// What is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Version,
    InProtobuf,
    Token,
}

/// Where versions and tokens begin, in order.
fn places(text: &str) -> Vec<(usize, What)> {
    let places_after = |marks: &'static [&'static str], what: What| {
        marks.iter().flat_map(move |mark| text.match_indices(mark).map(move |(place, _)| (place + mark.len(), what)))
    };
    let tokens = TOKENS.iter().flat_map(|token| text.match_indices(token)).map(|(place, _)| (place, What::Token));
    let versions =
        places_after(&BEFORE_VERSION, What::Version).chain(places_after(&BEFORE_IN_PROTOBUF, What::InProtobuf));
    let mut places: Vec<(usize, What)> =
        versions.chain(places_after(&BEFORE_TOKEN, What::Token)).chain(tokens).collect();
    places.sort_unstable();
    places
}

#[test]
fn versions_are_replaced_by_how_much_they_include() {
    let versions = Versions(vec![1_200, 1_300]);
    let sorted = BASE64_URL_SAFE_NO_PAD.encode(r#"{"v":"view.fieldcache.dev/v1alpha1","rv":1250,"after":"a/b"}"#);
    let token = BASE64_URL_SAFE_NO_PAD.encode(r#"{"v":"meta.k8s.io/v1","rv":1250,"start":"/a/b\u0000"}"#);
    let rows = [
        (
            r#"{"metadata":{"resourceVersion":"1200"}}"#.to_owned(),
            r#"{"metadata":{"resourceVersion":"<1>"}}"#.to_owned(),
        ),
        ("resourceVersion: \"1299\"".to_owned(), "resourceVersion: \"<1>\"".to_owned()),
        (
            "Too large resource version: 999999999, current: 1300".to_owned(),
            "Too large resource version: 999999999, current: <2>".to_owned(),
        ),
        ("too old resource version: 1 (1100)".to_owned(), "too old resource version: 1 (<0>)".to_owned()),
        (
            format!(r#"{{"continue":"{token}"}}"#),
            r#"{"continue":"token{"v":"meta.k8s.io/v1","rv":<1>,"start":"/a/b\u0000"}"}"#.to_owned(),
        ),
        (r#"{"continue":"","quantity":1200}"#.to_owned(), r#"{"continue":"","quantity":1200}"#.to_owned()),
        ("\u{12}\u{4}1200\u{1a}\0".to_owned(), "\u{12}\u{4}<1>\u{1a}\0".to_owned()),
        (r"2\x0412008\x01".to_owned(), r"2\x04<1>8\x01".to_owned()),
        (
            format!("\u{1a}P{sorted}\u{12}"),
            "\u{1a}Ptoken{\"v\":\"view.fieldcache.dev/v1alpha1\",\"rv\":<1>,\"after\":\"a/b\"}\u{12}".to_owned(),
        ),
        (
            format!("\u{1a}P{token}\u{12}"),
            "\u{1a}Ptoken{\"v\":\"meta.k8s.io/v1\",\"rv\":<1>,\"start\":\"/a/b\\u0000\"}\u{12}".to_owned(),
        ),
    ];
    for (text, expected) in rows {
        assert_eq!(versions.replace_in(&text), expected);
    }
}
