//! The one canonical text of a JSON value. An API server compares a field selector's value with it.
//!
//! The API server prints the decoded value with Go's `fmt.Sprint` (apiextensions
//! `registry/customresource/strategy.go`). Numbers have been through its storage once, which turns `1.0` and `1e2` into
//! integers. Comparison is byte equality, so nothing is trimmed, folded or normalised here.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;

use crate::json::tree::{NodeId, NodeKind, Tree};
use crate::json::unescape;
use crate::model::float;

/// The canonical text of a parsed value; empty for null.
pub fn text_of(value: &Value) -> String {
    // Writes the value as JSON first, so that there is only one renderer. Only defaults and enums of schemas need this.
    text(value.to_string().as_bytes()).unwrap_or_default().into_owned()
}

/// The maximum number of enum values that are published with a field. Every client that reads about the field gets all
/// of them.
const MOST_ALLOWED: usize = 1_024;
/// The maximum length of these values together, in bytes. A CustomResourceDefinition may have megabytes of enum values.
const MOST_ALLOWED_BYTES: usize = 64 << 10;

/// The canonical texts of the first values of an enum, up to [`MOST_ALLOWED`] and [`MOST_ALLOWED_BYTES`].
pub(super) fn allowed<'v>(values: impl Iterator<Item = &'v Value>) -> Arc<[String]> {
    let mut room = MOST_ALLOWED_BYTES;
    let fits = |text: &String| match room.checked_sub(text.len()) {
        Some(left) => {
            room = left;
            true
        }
        None => false,
    };
    values.take(MOST_ALLOWED).map(text_of).take_while(fits).collect()
}

/// The canonical text of one JSON value without white space around it. Null is the empty text, as an absent value is.
/// `None` if the bytes are not a JSON value.
pub(super) fn text(raw: &[u8]) -> Option<Cow<'_, str>> {
    match raw {
        [b'"', inside @ .., b'"'] => unescape(inside),
        [b'{' | b'[', ..] => go_print(raw).map(Cow::Owned),
        b"null" => Some(Cow::Borrowed("")),
        _ => scalar(raw),
    }
}

/// The text of a number, a boolean or null (`<nil>`, as within lists and objects); `None` for other bytes.
fn scalar(raw: &[u8]) -> Option<Cow<'_, str>> {
    match raw {
        b"true" => Some(Cow::Borrowed("true")),
        b"false" => Some(Cow::Borrowed("false")),
        b"null" => Some(Cow::Borrowed("<nil>")),
        _ => std::str::from_utf8(raw).ok().and_then(number).map(Cow::Owned),
    }
}

/// A number as the API server prints it after one round through its storage: integers within 64 bits exactly, others as
/// Go's shortest `%g`. `None` if the text is not a number.
fn number(literal: &str) -> Option<String> {
    if let Ok(integer) = literal.parse::<i64>() {
        return Some(integer.to_string());
    }
    let float: f64 = literal.parse().ok()?;
    if !float.is_finite() {
        // Go rejects it, so no API server has such a value. Any text will do.
        return Some(literal.to_owned());
    }
    // Rust's plain form is the form Go writes to storage below 1e21, where the literal is then read as an integer.
    match format!("{float}").parse::<i64>() {
        Ok(integer) => Some(integer.to_string()),
        Err(_) => Some(float::general(float)),
    }
}

/// Go's print form of an object or list: `map[a:1 b:<nil>]` with sorted keys, `[a 2]`. `None` if the bytes are not
/// JSON.
///
/// Only objects that are older than their schema have such a value. Each text is copied once, however deep it is
/// nested.
fn go_print(raw: &[u8]) -> Option<String> {
    let tree = Tree::read(raw).ok()?;
    let mut text = String::with_capacity(raw.len());
    // Of each open container: its kind, whether it has been printed in part, and the next value.
    let mut open: Vec<(NodeKind, bool, Option<NodeId>)> = Vec::new();
    let mut at = tree.root();
    loop {
        match tree.kind(at) {
            NodeKind::Scalar => match tree.bytes(at) {
                [b'"', inside @ .., b'"'] => text.push_str(&unescape(inside)?),
                raw => text.push_str(&scalar(raw)?),
            },
            kind @ (NodeKind::List | NodeKind::Map) => {
                text.push_str(if kind == NodeKind::Map { "map[" } else { "[" });
                open.push((kind, false, tree.first(at)));
            }
        }
        loop {
            let Some((kind, is_begun, next)) = open.last_mut() else { return Some(text) };
            let Some(id) = *next else {
                text.push(']');
                open.pop();
                continue;
            };
            *next = tree.next(id);
            if std::mem::replace(is_begun, true) {
                text.push(' ');
            }
            if *kind == NodeKind::Map {
                text.push_str(&tree.key(id));
                text.push(':');
            }
            at = id;
            break;
        }
    }
}
