//! Numbers as an API server's storage leaves them.

use serde_json::{Number, Value};

/// Converts every number to the form that it has after an API server stored and read it. `1.0` and `1e2` become
/// integers; an integer outside the range of int64 becomes a float.
pub fn normalize_numbers(value: &mut Value) {
    match value {
        Value::Number(number) if !number.is_i64() => {
            let float = number.as_f64().unwrap_or_default();
            // Go writes numbers up to 1e21 without an exponent. It reads a number without an exponent as an integer if
            // it fits.
            let is_integer = float.fract() == 0.0 && float.abs() < TWO_TO_63;
            let normal = if is_integer { Some(Number::from(float as i64)) } else { Number::from_f64(float) };
            if let Some(normal) = normal {
                *number = normal;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(normalize_numbers),
        Value::Object(members) => members.values_mut().for_each(normalize_numbers),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;
