//! The shape of a document that a client sends: which members it has, and what does not fit.
//!
//! For documents that are read once and not stored: nothing is defaulted and no schema is consulted.

use serde_json::Value;

use crate::model::object_meta::is_object_meta_member;

/// Most problems of one kind that are reported, as an API server names unknown fields (`sigs.k8s.io/json`).
pub const MOST_MISFITS: usize = 100;

/// The shape of a part of a document.
#[derive(Clone, Copy, Debug)]
pub enum DocumentShape {
    /// Whatever it is, it is not looked into.
    Any,
    /// A text.
    Text,
    /// Any object.
    Object,
    /// ObjectMeta.
    Metadata,
    /// A list of these.
    List(&'static DocumentShape),
    /// An object with these members.
    Members(&'static [(&'static str, DocumentShape)]),
}

/// What does not fit; at most [`MOST_MISFITS`] of each.
#[derive(Debug, Default)]
pub struct ShapeErrors {
    /// Paths of members that do not exist.
    pub unknown: Vec<String>,
    /// Messages about members of another type.
    pub misshapen: Vec<String>,
}

impl ShapeErrors {
    fn unknown(&mut self, path: impl FnOnce() -> String) {
        if self.unknown.len() < MOST_MISFITS {
            self.unknown.push(path());
        }
    }

    fn misshapen(&mut self, path: &str, expected: &str, value: &Value) {
        if self.misshapen.len() < MOST_MISFITS {
            let path = if path.is_empty() { "the document" } else { path };
            self.misshapen.push(format!("{path}: expected {expected}, not {}", kind(value)));
        }
    }
}

/// Removes nulls, as Go treats them as absent, and collects what does not fit.
pub fn settle(value: &mut Value, shape: DocumentShape, path: &str, found: &mut ShapeErrors) {
    let at = |member: &str| if path.is_empty() { member.to_owned() } else { format!("{path}.{member}") };
    match (shape, value) {
        (DocumentShape::Any, _)
        | (DocumentShape::Text, Value::String(_))
        | (DocumentShape::Object, Value::Object(_)) => {}
        (DocumentShape::List(item), Value::Array(values)) => {
            for (index, value) in values.iter_mut().enumerate() {
                settle(value, *item, &format!("{path}[{index}]"), found);
            }
        }
        (DocumentShape::Members(members), Value::Object(values)) => {
            values.retain(|_, value| !value.is_null());
            for (name, value) in values {
                match members.iter().find(|(member, _)| member == name) {
                    Some((_, shape)) => settle(value, *shape, &at(name), found),
                    None => found.unknown(|| at(name)),
                }
            }
        }
        (DocumentShape::Metadata, Value::Object(values)) => {
            values.keys().filter(|name| !is_object_meta_member(name)).for_each(|name| found.unknown(|| at(name)));
        }
        (DocumentShape::Text, value) => found.misshapen(path, "a string", value),
        (DocumentShape::List(_), value) => found.misshapen(path, "a list", value),
        (DocumentShape::Object | DocumentShape::Metadata | DocumentShape::Members(_), value) => {
            found.misshapen(path, "an object", value)
        }
    }
}

/// The type of a value, for messages.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
