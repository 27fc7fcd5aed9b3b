//! The cell of what a column's path found: apiextensions `registry/customresource/tableconvertor`. Paths are read and followed in
//! [`crate::extract::json_path`].

use jiff::Timestamp;
use serde_json::Value;

use crate::extract::json_path::Literal;
use crate::extract::json_path::search::Found;
use crate::extract::tree::{self, OBJECT_LEVELS, Tree};
use crate::printer::time::{Moment, human_duration};

use super::encode::json_bytes;

/// The cell of what was found in a tree, in a column of this type.
pub(crate) fn found_cell(kind: &str, tree: &Tree<'_>, found: Option<Found<'_>>, now: Timestamp) -> Value {
    match found {
        None => Value::Null,
        Some(Found::Node(id)) => {
            let value = tree::shallow(tree.bytes(id), OBJECT_LEVELS).unwrap_or_default();
            cell(kind, Some(&value), now)
        }
        Some(Found::Literal(Literal::Text(text))) => cell(kind, Some(&Value::from(lossy(text))), now),
        Some(Found::Literal(Literal::Float(float))) => cell(kind, Some(&Value::from(*float)), now),
        Some(Found::Literal(Literal::Bool(bool))) => cell(kind, Some(&Value::from(*bool)), now),
        // Of Go's types int and uint8, which are no numbers for a column.
        Some(Found::Literal(Literal::Int(int))) if kind == "string" => Value::from(int.to_string()),
        Some(Found::Byte(byte)) if kind == "string" => Value::from(byte.to_string()),
        Some(Found::Literal(Literal::Int(_)) | Found::Byte(_)) => Value::Null,
    }
}

/// Bytes that an escape can make are no UTF-8 always: Go writes U+FFFD for each of the others.
fn lossy(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    text
}

/// The cell of a value in a column of this type.
pub(crate) fn cell(kind: &str, value: Option<&Value>, now: Timestamp) -> Value {
    let Some(value) = value else { return Value::Null };
    match (kind, value) {
        ("string", _) => Value::from(print(value)),
        ("integer", Value::Number(number)) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => Value::from(integer),
            (None, Some(float)) => Value::from(integer_of(float)),
            (None, None) => Value::Null,
        },
        // Also of an integer, which may be more exact than a float.
        ("number", Value::Number(number)) => number.as_f64().map_or(Value::Null, Value::from),
        ("boolean", Value::Bool(_)) => value.clone(),
        ("date", Value::String(text)) => Value::from(age_of(text, now)),
        _ => Value::Null,
    }
}

/// Go's conversion cuts the fraction off. What does not fit becomes the lowest integer on amd64; on other processors Go gives other
/// results.
fn integer_of(float: f64) -> i64 {
    const BEYOND: f64 = 9_223_372_036_854_775_808.0;
    #[expect(clippy::cast_possible_truncation, reason = "it is in range")]
    if (-BEYOND..BEYOND).contains(&float) { float as i64 } else { i64::MIN }
}

/// A value as client-go prints it: strings bare, objects and lists as JSON, numbers as Go does.
fn print(value: &Value) -> String {
    match value {
        Value::Null => "<no value>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Bool(_) => value.to_string(),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (None, Some(float)) => print_float(float),
            _ => number.to_string(),
        },
        Value::Array(_) | Value::Object(_) => String::from_utf8_lossy(&json_bytes(value)).into_owned(),
    }
}

/// Go's `%v` of a float64: the shortest digits, with an exponent from 1e+06 on and below 1e-4.
fn print_float(float: f64) -> String {
    let scientific = format!("{float:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) {
        return format!("{float}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// The age of a moment in Go's RFC 3339 (apimachinery `metav1.Time`, UnmarshalQueryParameter, which takes two texts for no moment).
fn age_of(text: &str, now: Timestamp) -> String {
    if matches!(text, "" | "null") {
        return "<unknown>".to_owned();
    }
    match Moment::parse(text) {
        Some(Moment::ZERO) => "<unknown>".to_owned(),
        Some(time) => human_duration(Moment::of_microseconds(now.as_microsecond()).seconds_since(time)),
        None => "<invalid>".to_owned(),
    }
}
