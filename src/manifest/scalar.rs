//! The value of a plain YAML scalar, as kubectl reads it (sigs.k8s.io/yaml on go-yaml v2).
//!
//! That is YAML 1.1 without its sexagesimal numbers. `yes`, `no`, `on`, `off`, `y` and `n` are booleans, and a leading
//! zero makes a number octal. Underscores in numbers are ignored, and timestamps stay strings. Infinity and NaN have no
//! JSON form and are rejected.

use serde_json::{Number, Value};

/// The value of a plain scalar without a tag: null, a boolean, a number or a string.
///
/// # Errors
/// The scalar is infinity or NaN, which have no JSON form.
pub(super) fn resolve(text: &str) -> Result<Value, String> {
    Ok(match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" | "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => Value::Bool(true),
        "false" | "False" | "FALSE" | "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => Value::Bool(false),
        ".nan" | ".NaN" | ".NAN" | ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" | "-.inf" | "-.Inf"
        | "-.INF" => return Err(format!("{text} has no JSON form")),
        _ => number(text)?.map_or_else(|| Value::from(text), Value::Number),
    })
}

/// Parses a number of YAML 1.1; `None` for other texts.
fn number(text: &str) -> Result<Option<Number>, String> {
    if !text.starts_with(|first: char| first.is_ascii_digit() || matches!(first, '+' | '-' | '.')) {
        return Ok(None);
    }
    let plain: String = text.chars().filter(|character| *character != '_').collect();
    if let Some(integer) = integer(&plain) {
        return Ok(Some(integer));
    }
    if !is_float(&plain) {
        return Ok(None);
    }
    let float = plain.parse::<f64>().ok().filter(|float| float.is_finite());
    match float.and_then(Number::from_f64) {
        Some(float) => Ok(Some(float)),
        // Too large for a double: a string in go-yaml.
        None => Ok(None),
    }
}

/// Parses an integer as Go's `strconv.ParseInt` and `ParseUint` with base 0: a prefix selects the base. `None` for
/// other texts, and for integers of more than 64 bits.
fn integer(text: &str) -> Option<Number> {
    let (is_negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let lower = digits.to_ascii_lowercase();
    let (base, digits) = match lower.as_bytes() {
        [b'0', b'x', ..] => (16, &lower[2..]),
        [b'0', b'o', ..] => (8, &lower[2..]),
        [b'0', b'b', ..] => (2, &lower[2..]),
        [b'0', _, ..] => (8, &lower[1..]),
        _ => (10, &*lower),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, base).ok()?;
    if is_negative {
        return 0_i64.checked_sub_unsigned(magnitude).map(Number::from);
    }
    // Go parses a text with a sign by ParseInt only, whose range is that of i64.
    (!text.starts_with('+') || magnitude <= i64::MAX.unsigned_abs()).then(|| Number::from(magnitude))
}

/// Whether a text matches `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`.
fn is_float(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(place) => (&unsigned[..place], Some(&unsigned[place + 1..])),
        None => (unsigned, None),
    };
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let mantissa_fits = match mantissa.split_once('.') {
        Some(("", fraction)) => !fraction.is_empty() && is_digits(fraction),
        Some((whole, fraction)) => is_digits(whole) && is_digits(fraction),
        None => !mantissa.is_empty() && is_digits(mantissa),
    };
    let exponent_fits = exponent.is_none_or(|exponent| {
        let digits = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        !digits.is_empty() && is_digits(digits)
    });
    mantissa_fits && exponent_fits
}
