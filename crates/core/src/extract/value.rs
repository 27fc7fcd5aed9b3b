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

/// The canonical text of a parsed value; null is the empty text.
pub fn text_of(value: &Value) -> String {
    // Through the bytes, so that there is one renderer; only defaults and enums of schemas come this way.
    text(value.to_string().as_bytes()).unwrap_or_default().into_owned()
}

/// Values of an enum that are published: clients that read of a field read all of them.
const MOST_ALLOWED: usize = 1_024;
/// Bytes of their texts together. Definitions may have megabytes of them.
const MOST_ALLOWED_BYTES: usize = 64 << 10;

/// The texts of the first values of an enum, within both bounds.
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

/// The canonical text of one JSON value without white space around it; `None` for bytes that are none.
pub(super) fn text(raw: &[u8]) -> Option<Cow<'_, str>> {
    match raw {
        [b'"', inside @ .., b'"'] => unescape(inside),
        [b'{' | b'[', ..] => go_print(raw).map(Cow::Owned),
        b"null" => Some(Cow::Borrowed("")),
        _ => scalar(raw),
    }
}

/// The text of a JSON scalar; `None` for null, lists and objects.
fn scalar(raw: &[u8]) -> Option<Cow<'_, str>> {
    match raw {
        b"true" => Some(Cow::Borrowed("true")),
        b"false" => Some(Cow::Borrowed("false")),
        b"null" => Some(Cow::Borrowed("<nil>")),
        _ => std::str::from_utf8(raw).ok().and_then(number).map(Cow::Owned),
    }
}

/// A number as the API server prints it after one round through its storage: integers within 64 bits exactly, others as
/// Go's shortest `%g`.
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

/// Go's print form of an object or list: `map[a:1 b:<nil>]` with sorted keys, `[a 2]`.
///
/// Only data that is older than its schema comes here. Each text is written once, however deep it is.
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
