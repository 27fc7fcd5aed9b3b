//! JSON with the bytes that a Go server writes: `<`, `>`, `&`, U+2028 and U+2029 escaped, numbers as encoding/json
//! prints them.
//!
//! Objects read from a cluster have this form already; what folder mode makes itself must not differ (the JavaScript
//! client splits watch lines at a bare U+2028). Keys come out in alphabetical order, as Go writes maps.

use std::fmt::Write;

use serde_json::{Number, Value};

use crate::model::float;

/// Writes a document compactly.
pub fn to_text(value: &Value) -> String {
    let mut text = String::new();
    write_value(&mut text, value);
    text
}

fn write_value(text: &mut String, value: &Value) {
    match value {
        Value::Null => text.push_str("null"),
        Value::Bool(value) => text.push_str(if *value { "true" } else { "false" }),
        Value::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
            Some(float) => text.push_str(&float::json(float)),
            None => text.push_str(&number.to_string()),
        },
        Value::String(string) => write_string(text, string),
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write_value(text, item);
            }
            text.push(']');
        }
        Value::Object(members) => {
            text.push('{');
            for (index, (name, member)) in members.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write_string(text, name);
                text.push(':');
                write_value(text, member);
            }
            text.push('}');
        }
    }
}

fn write_string(text: &mut String, string: &str) {
    text.push('"');
    for character in string.chars() {
        match character {
            '"' | '\\' => text.extend(['\\', character]),
            '\u{8}' => text.push_str("\\b"),
            '\u{c}' => text.push_str("\\f"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '\0'..='\u{1f}' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                write!(text, "\\u{:04x}", u32::from(character)).expect("writing to a String must succeed");
            }
            _ => text.push(character),
        }
    }
    text.push('"');
}

/// Brings every number into the form that storing and reading gives: `1.0` and `1e2` become integers, an integer
/// beyond 64 bits becomes a float.
pub fn normalize_numbers(value: &mut Value) {
    match value {
        Value::Number(number) if !number.is_i64() => {
            let float = number.as_f64().unwrap_or_default();
            // Go writes up to 1e21 without exponent, and what has no exponent and fits is read back as an integer.
            let is_integer = float.fract() == 0.0 && float.abs() < TWO_TO_63;
            let normal = if is_integer { Some(Number::from(float as i64)) } else { Number::from_f64(float) };
            if let Some(normal) = normal {
                *number = normal;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(normalize_numbers),
        Value::Object(members) => members.values_mut().for_each(normalize_numbers),
        _ => {}
    }
}

const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;
