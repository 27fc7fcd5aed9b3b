//! Converts the value that the path of a printer column finds to the cell of a table, as apiextensions
//! `registry/customresource/tableconvertor` does. [`crate::extract::json_path`] parses and evaluates paths.

use jiff::Timestamp;
use serde_json::Value;

use crate::extract::json_path::Literal;
use crate::json::tree::{NodeId, NodeKind, Tree, scalar_value};
use crate::json::unescape;
use crate::model::float;
use crate::printer::time::{Moment, human_duration};

use super::encode::{json_bytes, write_string, write_value};

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// Shows any value.
    String,
    /// Shows numbers without their fraction.
    Integer,
    /// Shows numbers.
    Number,
    /// Shows booleans.
    Boolean,
    /// Shows the age of a time.
    Date,
    /// Shows nothing.
    Unknown,
}

impl ColumnKind {
    /// The column type of this name; [`ColumnKind::Unknown`] for other names.
    pub fn from_name(name: &str) -> ColumnKind {
        match name {
            "string" => ColumnKind::String,
            "integer" => ColumnKind::Integer,
            "number" => ColumnKind::Number,
            "boolean" => ColumnKind::Boolean,
            "date" => ColumnKind::Date,
            _ => ColumnKind::Unknown,
        }
    }

    /// Whether a column of this type may show the value that `json` contains. If false, its cell is null. Looks only
    /// at the first byte, without parsing the value.
    fn may_show(self, json: &[u8]) -> bool {
        match (self, json.first()) {
            (_, None) | (ColumnKind::Unknown, _) => false,
            (ColumnKind::String, _) => true,
            (ColumnKind::Integer | ColumnKind::Number, Some(first)) => matches!(first, b'-' | b'0'..=b'9'),
            (ColumnKind::Boolean, Some(first)) => matches!(first, b't' | b'f'),
            (ColumnKind::Date, Some(first)) => *first == b'"',
        }
    }
}

/// The maximum number of JSON values of an object whose cells are shown. No object in etcd has as many, because each
/// value takes at least two bytes.
pub(crate) const MOST_VALUES: usize = 1 << 20;

/// How Go prints null.
const NO_VALUE: &str = "<no value>";

/// Writes the cell of a value, as JSON: null if the column cannot show it. `json`: the value as it is stored. `now`:
/// the time for ages.
pub fn write_cell(kind: ColumnKind, json: &[u8], now: Timestamp, out: &mut Vec<u8>) {
    if !kind.may_show(json) {
        return out.extend_from_slice(b"null");
    }
    // The usual case, a string in a column of strings, is written without creating a `Value`.
    if let (ColumnKind::String, [b'"', text @ .., b'"']) = (kind, json)
        && let Some(text) = unescape(text)
    {
        return write_string(&text, out);
    }
    // Only columns of type string get objects and lists here: `may_show` rejects them for all others.
    if let [b'{' | b'[', ..] = json {
        let text = print_container(json);
        return write_string(text.as_deref().map_or(NO_VALUE.into(), String::from_utf8_lossy).as_ref(), out);
    }
    write_value(&cell(kind, &scalar_value(json).unwrap_or_default(), now), out);
}

/// An object or list as Go writes it. `None` if it has more than [`MOST_VALUES`] values, or cannot be parsed. Uses a
/// [`Tree`], which takes much less memory than [`Value`]s and has no limit of depth.
fn print_container(json: &[u8]) -> Option<Vec<u8>> {
    let tree = Tree::read_at_most(json, MOST_VALUES).ok()?;
    let mut text = Vec::with_capacity(json.len());
    // The open objects and lists: whether a member has been written, and the next member.
    let mut open: Vec<(NodeKind, bool, Option<NodeId>)> = Vec::new();
    let mut at = tree.root();
    loop {
        match (tree.kind(at), tree.bytes(at)) {
            (NodeKind::Scalar, [b'"', inside @ .., b'"']) => write_string(&unescape(inside)?, &mut text),
            (NodeKind::Scalar, literal) => write_value(&scalar_value(literal)?, &mut text),
            (kind, _) => {
                text.push(if kind == NodeKind::Map { b'{' } else { b'[' });
                open.push((kind, false, tree.first(at)));
            }
        }
        loop {
            let Some((kind, is_begun, next)) = open.last_mut() else { return Some(text) };
            let Some(id) = *next else {
                text.push(if *kind == NodeKind::Map { b'}' } else { b']' });
                open.pop();
                continue;
            };
            *next = tree.next(id);
            if std::mem::replace(is_begun, true) {
                text.push(b',');
            }
            if *kind == NodeKind::Map {
                write_string(&tree.key(id), &mut text);
                text.push(b':');
            }
            at = id;
            break;
        }
    }
}

/// The cell of a literal in the path of a column. `now`: the time for ages.
pub(crate) fn literal_cell(kind: ColumnKind, literal: &Literal, now: Timestamp) -> Value {
    match literal {
        Literal::Text(text) => cell(kind, &Value::from(lossy(text)), now),
        Literal::Float(float) => cell(kind, &Value::from(*float), now),
        Literal::Bool(bool) => cell(kind, &Value::from(*bool), now),
        Literal::Int(int) => untyped_integer_cell(kind, *int),
    }
}

/// The cell of a number that has Go's type int or uint8, such as a byte of a string. Only columns of type string show
/// it. Upstream's columns of numbers do not know these types, so their cell is null.
pub(crate) fn untyped_integer_cell(kind: ColumnKind, integer: i64) -> Value {
    if kind == ColumnKind::String { Value::from(integer.to_string()) } else { Value::Null }
}

/// Converts bytes to a string as Go does: each byte that is not valid UTF-8 becomes U+FFFD. Escapes in a path can
/// produce such bytes.
fn lossy(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    text
}

/// The cell of a value in a column of this type; null if the type cannot show the value. `now`: the time for ages.
pub fn cell(kind: ColumnKind, value: &Value, now: Timestamp) -> Value {
    match (kind, value) {
        (ColumnKind::String, _) => Value::from(print(value)),
        (ColumnKind::Integer, Value::Number(number)) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => Value::from(integer),
            (None, Some(float)) => Value::from(integer_of(float)),
            (None, None) => Value::Null,
        },
        // An integer is converted to a float too, even if it loses digits.
        (ColumnKind::Number, Value::Number(number)) => number.as_f64().map_or(Value::Null, Value::from),
        (ColumnKind::Boolean, Value::Bool(_)) => value.clone(),
        (ColumnKind::Date, Value::String(text)) => Value::from(age_of(text, now)),
        _ => Value::Null,
    }
}

/// Converts a float to an integer as Go does on amd64: without its fraction, and a float out of range becomes the
/// lowest integer. On other processors Go gives other results for these.
fn integer_of(float: f64) -> i64 {
    // 2^63: the first float above `i64::MAX`.
    const BEYOND: f64 = 9_223_372_036_854_775_808.0;
    #[expect(clippy::cast_possible_truncation, reason = "it is in range")]
    if (-BEYOND..BEYOND).contains(&float) { float as i64 } else { i64::MIN }
}

/// A value as client-go prints it: strings bare, objects and lists as JSON, numbers as Go does.
fn print(value: &Value) -> String {
    match value {
        Value::Null => NO_VALUE.to_owned(),
        Value::String(text) => text.clone(),
        Value::Bool(_) => value.to_string(),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (None, Some(float)) => float::general(float),
            _ => number.to_string(),
        },
        Value::Array(_) | Value::Object(_) => String::from_utf8_lossy(&json_bytes(value)).into_owned(),
    }
}

/// The age that a Date column shows for a time in RFC 3339, such as `5d`, by the rules of apimachinery `metav1.Time`
/// (UnmarshalQueryParameter). `<unknown>` for an empty string, `null` and the zero time, `<invalid>` for other strings
/// that are not a time.
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
