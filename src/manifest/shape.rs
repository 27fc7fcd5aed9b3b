//! Compares a document that a client sends with the fields and types that it may have.
//!
//! This is for documents that are read once and not stored: nothing is defaulted, and no schema is used.

use serde_json::Value;

use crate::model::object_meta::is_object_meta_member;

/// The maximum number of errors of one kind that are reported, as in API servers for unknown fields
/// (`sigs.k8s.io/json`).
pub const MOST_MISFITS: usize = 100;

/// The type that a value of a document must have.
#[derive(Clone, Copy, Debug)]
pub enum DocumentShape {
    /// Any value. It is not checked.
    Any,
    /// A string.
    Text,
    /// An object with any members, which are not checked.
    Object,
    /// ObjectMeta. Only the names of its members are checked.
    Metadata,
    /// A list whose elements have this shape.
    List(&'static DocumentShape),
    /// An object with only these members. Each may be missing.
    Members(&'static [(&'static str, DocumentShape)]),
}

/// The errors of a document; at most [`MOST_MISFITS`] of each kind.
#[derive(Debug, Default)]
pub struct ShapeErrors {
    /// Paths of unknown members.
    pub unknown: Vec<String>,
    /// Messages about values of another type.
    pub misshapen: Vec<String>,
}

impl ShapeErrors {
    /// Adds the path of an unknown member.
    fn unknown(&mut self, path: impl FnOnce() -> String) {
        if self.unknown.len() < MOST_MISFITS {
            self.unknown.push(path());
        }
    }

    /// Adds a message about a value that is not what `expected` says, such as `a list`. `path` is empty for the
    /// document.
    fn misshapen(&mut self, path: &str, expected: &str, value: &Value) {
        if self.misshapen.len() < MOST_MISFITS {
            let path = if path.is_empty() { "the document" } else { path };
            self.misshapen.push(format!("{path}: expected {expected}, not {}", kind(value)));
        }
    }
}

/// Compares a value with a shape, and adds errors to `found`. Removes the null members of objects whose members are
/// checked ([`DocumentShape::Members`]), because Go treats them as absent. `path` is the path of the value in the
/// document; empty for the document itself.
pub fn check_shape(value: &mut Value, shape: DocumentShape, path: &str, found: &mut ShapeErrors) {
    let at = |member: &str| if path.is_empty() { member.to_owned() } else { format!("{path}.{member}") };
    match (shape, value) {
        (DocumentShape::Any, _)
        | (DocumentShape::Text, Value::String(_))
        | (DocumentShape::Object, Value::Object(_)) => {}
        (DocumentShape::List(item), Value::Array(values)) => {
            for (index, value) in values.iter_mut().enumerate() {
                check_shape(value, *item, &format!("{path}[{index}]"), found);
            }
        }
        (DocumentShape::Members(members), Value::Object(values)) => {
            values.retain(|_, value| !value.is_null());
            for (name, value) in values {
                match members.iter().find(|(member, _)| member == name) {
                    Some((_, shape)) => check_shape(value, *shape, &at(name), found),
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
