//! `'...'.format([...])` (cel-go `ext/formatting.go`, with the locale `en-US` as in Kubernetes).
//!
//! The clauses are `%s`, `%d`, `%f`, `%e`, `%b`, `%x`, `%X` and `%o`, the two of floating-point numbers also with a
//! precision, such as `%.2f`. A precision above [`MAX_PRECISION`] is an error here; upstream has no limit.

use super::failure::{Failure, no_overload, other};
use super::meter::CostMeter;
use super::time;
use super::value::{CelValue, Evaluated, ListValue, Map};
use crate::model::float;

/// The maximum number of digits after the point.
const MAX_PRECISION: usize = 100;

/// The number of digits after the point if a clause has no precision.
const PRECISION: usize = 6;

/// The maximum number of nested lists and maps that are written. Deeper values are an error.
const MAX_DEPTH: usize = 64;

/// How a clause writes its argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClauseKind {
    /// `%s`.
    Text,
    /// `%d`.
    Decimal,
    /// `%f`.
    Fixed,
    /// `%e`.
    Scientific,
    /// `%b`.
    Binary,
    /// `%x`.
    Hexadecimal,
    /// `%X`.
    UpperHexadecimal,
    /// `%o`.
    Octal,
}

/// A clause, such as `%.2f`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Clause {
    pub(super) kind: ClauseKind,
    /// The number of digits after the point. Only some kinds use it.
    precision: usize,
}

/// A part of a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FormatPart<'f> {
    /// Text that is written as it is.
    Plain(&'f str),
    /// A clause, which writes the next argument.
    Clause(Clause),
}

/// Reads the parts of a format, in order. `%%` is the plain text `%`.
///
/// # Errors
/// A clause is not valid. The error is the message.
pub(super) fn parts(format: &str) -> Result<Vec<FormatPart<'_>>, String> {
    let mut parts = Vec::new();
    let mut rest = format;
    while let Some(sign) = rest.find('%') {
        parts.push(FormatPart::Plain(&rest[..sign]));
        rest = &rest[sign + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            parts.push(FormatPart::Plain("%"));
            rest = after;
            continue;
        }
        let mut precision = PRECISION;
        if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(|character: char| !character.is_ascii_digit()).unwrap_or(after.len());
            let digits = after[..end].parse().ok().filter(|digits| *digits <= MAX_PRECISION);
            precision = digits.ok_or_else(|| "error while parsing precision".to_owned())?;
            rest = &after[end..];
        }
        let Some(verb) = rest.chars().next() else { return Err("unexpected end of string".to_owned()) };
        let kind = match verb {
            's' => ClauseKind::Text,
            'd' => ClauseKind::Decimal,
            'f' => ClauseKind::Fixed,
            'e' => ClauseKind::Scientific,
            'b' => ClauseKind::Binary,
            'x' => ClauseKind::Hexadecimal,
            'X' => ClauseKind::UpperHexadecimal,
            'o' => ClauseKind::Octal,
            verb => return Err(format!("unrecognized formatting clause {verb:?}")),
        };
        parts.push(FormatPart::Clause(Clause { kind, precision }));
        rest = &rest[verb.len_utf8()..];
    }
    parts.push(FormatPart::Plain(rest));
    Ok(parts)
}

/// Evaluates `format.format(arguments)`: the format, in which each clause is replaced by its argument. Arguments
/// without a clause are ignored.
///
/// # Errors
/// A clause is not valid, has no argument, or cannot write the type of its argument.
pub(super) fn format<'a>(meter: &mut CostMeter, format: &str, arguments: &ListValue<'a>) -> Evaluated<'a> {
    meter.read(format.len().max(1))?;
    let parts = match parts(format) {
        Ok(parts) => parts,
        Err(message) => return other(message),
    };
    let mut arguments = arguments.elements();
    let mut written = String::new();
    for part in parts {
        let before = written.len();
        match part {
            FormatPart::Plain(text) => written.push_str(text),
            FormatPart::Clause(clause) => match arguments.next() {
                Some(argument) => {
                    let argument = argument.read(meter)?;
                    write_clause(meter, clause, &argument, &mut written)?;
                }
                None => return other("index out of range"),
            },
        }
        meter.make_text(written.len() - before)?;
    }
    Ok(CelValue::text(written))
}

/// Appends to `written` what the clause writes for the argument `value`.
fn write_clause(
    meter: &mut CostMeter,
    clause: Clause,
    value: &CelValue<'_>,
    written: &mut String,
) -> Result<(), Failure> {
    use ClauseKind as K;
    // Whether an integer is negative, and its magnitude; `None` for other values.
    let integer = match value {
        CelValue::Int(int) => Some((*int < 0, int.unsigned_abs())),
        CelValue::Uint(uint) => Some((false, *uint)),
        _ => None,
    };
    let is_negative = integer.is_some_and(|(is_negative, _)| is_negative);
    let digits = match (clause.kind, value, integer.map(|(_, magnitude)| magnitude)) {
        (K::Text, value, _) => return write_value(meter, value, written, 0),
        (K::Decimal, _, Some(magnitude)) => magnitude.to_string(),
        (K::Binary, _, Some(magnitude)) => format!("{magnitude:b}"),
        (K::Binary, CelValue::Bool(bool), _) => u8::from(*bool).to_string(),
        (K::Octal, _, Some(magnitude)) => format!("{magnitude:o}"),
        (K::Hexadecimal, _, Some(magnitude)) => format!("{magnitude:x}"),
        (K::UpperHexadecimal, _, Some(magnitude)) => format!("{magnitude:X}"),
        (K::Hexadecimal, CelValue::Text(text), _) => hexadecimal(text.as_bytes(), false),
        (K::UpperHexadecimal, CelValue::Text(text), _) => hexadecimal(text.as_bytes(), true),
        (K::Hexadecimal, CelValue::Bytes(bytes), _) => hexadecimal(bytes, false),
        (K::UpperHexadecimal, CelValue::Bytes(bytes), _) => hexadecimal(bytes, true),
        (K::Fixed, CelValue::Double(double), _) => fixed(*double, clause.precision),
        // As upstream, the precision of `%e` is a minimum width, filled with spaces; the digits are always six.
        (K::Scientific, CelValue::Double(double), _) => {
            format!("{:>1$}", scientific(*double), clause.precision)
        }
        (K::Fixed | K::Scientific, CelValue::Text(text), _) => match &**text {
            "NaN" => "NaN".to_owned(),
            "Infinity" => "∞".to_owned(),
            "-Infinity" => "-∞".to_owned(),
            _ => return no_overload(),
        },
        _ => return other(format!("the clause cannot be used on {}", value.type_name())),
    };
    if is_negative {
        written.push('-');
    }
    written.push_str(&digits);
    Ok(())
}

/// The bytes in hexadecimal: two digits for each.
fn hexadecimal(bytes: &[u8], is_upper: bool) -> String {
    let digits: &[u8; 16] = if is_upper { b"0123456789ABCDEF" } else { b"0123456789abcdef" };
    let digit = |number: u8| char::from(digits[usize::from(number)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// The text of a number that is not finite; `None` for other numbers.
fn not_finite(double: f64) -> Option<String> {
    match double {
        double if double.is_nan() => Some("NaN".to_owned()),
        double if double.is_infinite() => Some(if double > 0.0 { "∞" } else { "-∞" }.to_owned()),
        _ => None,
    }
}

/// A number as `%f` writes it: with `precision` digits after the point, and with commas that group the digits before
/// the point by three.
fn fixed(double: f64, precision: usize) -> String {
    not_finite(double).unwrap_or_else(|| {
        let plain = format!("{double:.precision$}");
        let (sign, rest) = plain.strip_prefix('-').map_or(("", &*plain), |rest| ("-", rest));
        let (integer, fraction) = rest.split_at(rest.find('.').unwrap_or(rest.len()));
        let mut grouped = sign.to_owned();
        for (index, digit) in integer.chars().enumerate() {
            if index > 0 && (integer.len() - index).is_multiple_of(3) {
                grouped.push(',');
            }
            grouped.push(digit);
        }
        grouped + fraction
    })
}

/// A number as `%e` writes it: a factor with six digits after the point, and a power of ten whose exponent has at least
/// two superscript digits, such as `1.500000×10⁰³`.
fn scientific(double: f64) -> String {
    not_finite(double).unwrap_or_else(|| {
        let plain = format!("{double:.PRECISION$e}");
        let (factor, exponent) = plain.split_once('e').unwrap_or((&plain, "0"));
        let (sign, digits) = exponent.strip_prefix('-').map_or(("", exponent), |digits| ("⁻", digits));
        const SUPERSCRIPT: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
        let raised = |digit: char| digit.to_digit(10).map(|digit| SUPERSCRIPT[digit as usize]);
        let digits: String = format!("{digits:0>2}").chars().filter_map(raised).collect();
        format!("{factor}×10{sign}{digits}")
    })
}

/// A number as the function `string(value)` writes it.
pub(super) fn double_text(double: f64) -> String {
    match double {
        f64::INFINITY => "+Inf".to_owned(),
        f64::NEG_INFINITY => "-Inf".to_owned(),
        double => float::general(double),
    }
}

/// Appends to `written` what `%s` writes for a value. `depth`: the number of lists and maps around the value.
fn write_value(meter: &mut CostMeter, value: &CelValue<'_>, written: &mut String, depth: usize) -> Result<(), Failure> {
    let text = match value {
        CelValue::Null => "null".to_owned(),
        CelValue::Bool(bool) => bool.to_string(),
        CelValue::Int(int) => int.to_string(),
        CelValue::Uint(uint) => uint.to_string(),
        CelValue::Double(double) => double_text(*double),
        CelValue::Text(text) => text.to_string(),
        CelValue::Type(name) => (*name).to_owned(),
        CelValue::Timestamp(time) => time.to_text(),
        CelValue::Duration(nanos) => time::duration_text(*nanos),
        CelValue::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => return other("could not convert argument to string"),
        },
        CelValue::List(list) => return write_list(meter, list, written, depth),
        CelValue::Map(map) => return write_map(meter, map, written, depth),
        _ => return other(format!("string clause cannot be used on {}", value.type_name())),
    };
    written.push_str(&text);
    Ok(())
}

/// Appends to `written` what `%s` writes for a value within a list or map: a text in the form of a CEL literal, such as
/// `"a"` or `duration("1s")`. `depth`: the number of lists and maps around the list or map.
fn write_inner(meter: &mut CostMeter, value: &CelValue<'_>, written: &mut String, depth: usize) -> Result<(), Failure> {
    if depth >= MAX_DEPTH {
        return other("values are nested too deeply to be written");
    }
    meter.charge(1)?;
    let mut plain = String::new();
    match value {
        CelValue::Double(double) if double.is_finite() => plain = format!("{double:.PRECISION$}"),
        CelValue::Double(double) => {
            let name = if double.is_nan() {
                "NaN"
            } else if *double > 0.0 {
                "+Inf"
            } else {
                "-Inf"
            };
            plain = quoted(name);
        }
        CelValue::Text(text) => plain = quoted(text),
        CelValue::Bytes(_) => {
            write_value(meter, value, &mut plain, depth)?;
            plain = format!("b{}", quoted(&plain));
        }
        CelValue::Timestamp(time) => plain = format!("timestamp({})", quoted(&time.to_text())),
        CelValue::Duration(nanos) => plain = format!("duration({})", quoted(&time::duration_text(*nanos))),
        value => write_value(meter, value, &mut plain, depth + 1)?,
    }
    meter.make_text(plain.len())?;
    written.push_str(&plain);
    Ok(())
}

/// Appends to `written` what `%s` writes for a list. `depth`: as for [`write_value`].
fn write_list(meter: &mut CostMeter, list: &ListValue<'_>, written: &mut String, depth: usize) -> Result<(), Failure> {
    written.push('[');
    for (index, element) in list.elements().enumerate() {
        if index > 0 {
            written.push_str(", ");
        }
        let element = element.read(meter)?;
        write_inner(meter, &element, written, depth)?;
    }
    written.push(']');
    Ok(())
}

/// Appends to `written` what `%s` writes for a map: its entries in the order of their texts. `depth`: as for
/// [`write_value`].
fn write_map(meter: &mut CostMeter, map: &Map<'_>, written: &mut String, depth: usize) -> Result<(), Failure> {
    let mut entries = Vec::new();
    for entry in map.entries() {
        let (key, value) = entry.read(meter)?;
        let (mut key_text, mut value_text) = (String::new(), String::new());
        write_inner(meter, &key, &mut key_text, depth)?;
        write_inner(meter, &value, &mut value_text, depth)?;
        meter.make_values(1)?;
        entries.push(format!("{key_text}:{value_text}"));
    }
    entries.sort();
    written.push('{');
    written.push_str(&entries.join(", "));
    written.push('}');
    Ok(())
}

/// A text in double quotes, as Go writes it: quotes, backslashes and control characters are escaped.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\x07' => quoted.push_str("\\a"),
            '\x08' => quoted.push_str("\\b"),
            '\x0c' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\x0b' => quoted.push_str("\\v"),
            character if u32::from(character) < 0x80 && character.is_control() => {
                quoted.push_str(&format!("\\x{:02x}", u32::from(character)));
            }
            character if character.is_control() => quoted.push_str(&format!("\\u{:04x}", u32::from(character))),
            character => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}
