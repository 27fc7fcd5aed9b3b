//! Evaluates calls: chooses by function and by the type of the first argument.
//!
//! Conversions, times, quantities and optionals are here; functions of texts, lists and addresses have files of their
//! own.

use std::sync::Arc;

use regex::Regex;

use super::failure::{EvalError, Evaluated, no_overload, other};
use super::function::Function;
use super::meter::Meter;
use super::quantity::Quantity;
use super::time::{self, Timestamp};
use super::value::{List, Map, Text, Value};
use super::{lists, net, strings};
use crate::model::float;

/// Evaluates a function. `arguments` has the target first; `compiled` is the pattern if it is a literal.
pub(super) fn call<'a>(
    meter: &mut Meter,
    function: Function,
    arguments: &[Value<'a>],
    compiled: Option<&Regex>,
) -> Evaluated<'a> {
    use Function as F;
    match (function, arguments) {
        (F::Size, [of]) => size(meter, of),
        (F::TypeOf, [of]) => free(meter, Value::Type(of.type_name())),
        (F::Dyn, [of]) => free(meter, of.clone()),
        (F::ToInt | F::ToUint | F::ToDouble | F::ToText | F::ToBytes | F::ToBool, [of]) => convert(meter, function, of),
        (F::ToTimestamp | F::ToDuration, [of]) => convert_to_time(meter, function, of),
        (F::OptionalNone, []) => free(meter, Value::Optional(None)),
        (F::OptionalOf, [of]) => free(meter, Value::Optional(Some(Arc::new(of.clone())))),
        (F::OptionalOfNonZero, [of]) => {
            let is_zero = is_zero(of);
            free(meter, Value::Optional(if is_zero { None } else { Some(Arc::new(of.clone())) }))
        }
        (F::Range, [Value::Int(end)]) => lists::range(meter, *end),
        (F::Join, [Value::List(list)]) => strings::join(meter, list, ""),
        (F::Join, [Value::List(list), Value::Text(separator)]) => strings::join(meter, list, separator),
        (
            F::Quantity | F::IsQuantity | F::Ip | F::IsIp | F::IsCanonicalIp | F::Cidr | F::IsCidr,
            [Value::Text(text)],
        ) => {
            meter.read(text.len().max(1))?;
            parse(function, text)
        }
        (_, [Value::Text(text), rest @ ..]) => strings::call(meter, function, text, rest, compiled),
        (_, [Value::List(list), rest @ ..]) => lists::call(meter, function, list, rest),
        (_, [Value::Optional(optional), rest @ ..]) => {
            meter.charge(1)?;
            call_optional(function, optional.as_deref(), rest)
        }
        (_, [Value::Timestamp(time), rest @ ..]) => {
            meter.charge(1)?;
            call_time(function, *time, rest)
        }
        (_, [Value::Duration(duration)]) => {
            meter.charge(1)?;
            call_duration(function, *duration)
        }
        (_, [Value::Quantity(quantity), rest @ ..]) => {
            meter.charge(1)?;
            call_quantity(function, *quantity, rest)
        }
        (_, [Value::Ip(address), rest @ ..]) => {
            meter.charge(1)?;
            net::call_ip(function, *address, rest)
        }
        (_, [Value::Cidr(address, bits), rest @ ..]) => {
            meter.charge(2)?;
            net::call_cidr(function, *address, *bits, rest)
        }
        _ => no_overload(),
    }
}

/// A value at the cost of one.
fn free<'a>(meter: &mut Meter, value: Value<'a>) -> Evaluated<'a> {
    meter.charge(1)?;
    Ok(value)
}

fn size<'a>(meter: &mut Meter, of: &Value<'a>) -> Evaluated<'a> {
    let (count, work) = match of {
        Value::Text(text) => return strings::size(meter, text).map(Value::Int),
        Value::Bytes(bytes) => (bytes.len(), 0),
        Value::List(list) => list.count(),
        Value::Map(map) => map.count(),
        _ => return no_overload(),
    };
    meter.charge(1)?;
    meter.pass(work)?;
    Ok(Value::Int(i64::try_from(count).unwrap_or(i64::MAX)))
}

/// Whether a value is the zero value of its type.
fn is_zero(value: &Value<'_>) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(bool) => !bool,
        Value::Int(int) => *int == 0,
        Value::Uint(uint) => *uint == 0,
        Value::Double(double) => *double == 0.0,
        Value::Text(text) => text.is_empty(),
        Value::Bytes(bytes) => bytes.is_empty(),
        Value::List(List::Built(elements)) => elements.is_empty(),
        Value::List(List::Json { json, .. }) => json.items().next().is_none(),
        Value::Map(Map::Built(entries)) => entries.is_empty(),
        Value::Map(Map::Json { json, .. }) => json.members().next().is_none(),
        Value::Duration(duration) => *duration == 0,
        Value::Optional(optional) => optional.is_none(),
        Value::Timestamp(_) | Value::Type(_) | Value::Quantity(_) | Value::Ip(_) | Value::Cidr(..) => false,
    }
}

/// The bounds of the integer types as doubles: the first doubles above them.
const ABOVE_INT: f64 = 9_223_372_036_854_775_808.0;
const ABOVE_UINT: f64 = 18_446_744_073_709_551_616.0;

/// The conversions to numbers, text, bytes and booleans.
fn convert<'a>(meter: &mut Meter, function: Function, of: &Value<'a>) -> Evaluated<'a> {
    use Function as F;
    meter.charge(1)?;
    let overflow = |kind| Err(EvalError::Overflow(kind).into());
    if let Value::Text(text) = of {
        meter.read(text.len())?;
    }
    match (function, of) {
        (F::ToInt, Value::Int(_))
        | (F::ToUint, Value::Uint(_))
        | (F::ToDouble, Value::Double(_))
        | (F::ToText, Value::Text(_))
        | (F::ToBytes, Value::Bytes(_))
        | (F::ToBool, Value::Bool(_)) => Ok(of.clone()),
        (F::ToInt, Value::Uint(uint)) => match i64::try_from(*uint) {
            Ok(int) => Ok(Value::Int(int)),
            Err(_) => overflow("integer"),
        },
        (F::ToInt, Value::Double(double)) if *double > -ABOVE_INT && *double < ABOVE_INT => {
            Ok(Value::Int(*double as i64))
        }
        (F::ToInt, Value::Double(_)) => overflow("integer"),
        (F::ToInt, Value::Text(text)) => text.parse().map(Value::Int).or_else(|_| unreadable(text, "int")),
        (F::ToInt, Value::Timestamp(time)) => Ok(Value::Int(time.seconds)),
        (F::ToInt, Value::Duration(nanos)) => Ok(Value::Int(*nanos)),
        (F::ToUint, Value::Int(int)) => match u64::try_from(*int) {
            Ok(uint) => Ok(Value::Uint(uint)),
            Err(_) => overflow("unsigned integer"),
        },
        (F::ToUint, Value::Double(double)) if *double >= 0.0 && *double < ABOVE_UINT => Ok(Value::Uint(*double as u64)),
        (F::ToUint, Value::Double(_)) => overflow("unsigned integer"),
        (F::ToUint, Value::Text(text)) if !text.starts_with('+') => {
            text.parse().map(Value::Uint).or_else(|_| unreadable(text, "uint"))
        }
        (F::ToUint, Value::Text(text)) => unreadable(text, "uint"),
        (F::ToDouble, Value::Int(int)) => Ok(Value::Double(*int as f64)),
        (F::ToDouble, Value::Uint(uint)) => Ok(Value::Double(*uint as f64)),
        (F::ToDouble, Value::Text(text)) => text.parse().map(Value::Double).or_else(|_| unreadable(text, "double")),
        (F::ToText, of) => to_text(meter, of),
        (F::ToBytes, Value::Text(text)) => {
            meter.make_text(text.len())?;
            Ok(Value::Bytes(text.as_bytes().into()))
        }
        (F::ToBool, Value::Text(text)) => match &**text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Value::Bool(false)),
            text => unreadable(text, "bool"),
        },
        _ => no_overload(),
    }
}

/// The error for a text that a conversion cannot read.
fn unreadable<'a>(text: &str, kind: &str) -> Evaluated<'a> {
    other(format!("type conversion error from string to {kind}: {:?}", super::lex::excerpt(text)))
}

/// `string(value)`.
fn to_text<'a>(meter: &mut Meter, of: &Value<'a>) -> Evaluated<'a> {
    Ok(Value::text(match of {
        Value::Bool(bool) => bool.to_string(),
        Value::Int(int) => int.to_string(),
        Value::Uint(uint) => uint.to_string(),
        Value::Double(double) => float::general(*double),
        Value::Bytes(bytes) => {
            meter.make_text(bytes.len())?;
            match std::str::from_utf8(bytes) {
                Ok(text) => text.to_owned(),
                Err(_) => return other("invalid UTF-8 in bytes, cannot convert to string"),
            }
        }
        Value::Timestamp(time) => time.to_text(),
        Value::Duration(nanos) => time::duration_text(*nanos),
        Value::Ip(address) => address.to_string(),
        Value::Cidr(address, bits) => format!("{address}/{bits}"),
        Value::Null
        | Value::Text(_)
        | Value::List(_)
        | Value::Map(_)
        | Value::Type(_)
        | Value::Optional(_)
        | Value::Quantity(_) => return no_overload(),
    }))
}

fn convert_to_time<'a>(meter: &mut Meter, function: Function, of: &Value<'a>) -> Evaluated<'a> {
    use Function as F;
    meter.charge(1)?;
    match (function, of) {
        (F::ToTimestamp, Value::Timestamp(_)) | (F::ToDuration, Value::Duration(_)) => Ok(of.clone()),
        (F::ToTimestamp, Value::Int(seconds)) => Timestamp::new(*seconds, 0).map(Value::Timestamp),
        (F::ToDuration, Value::Int(nanos)) => Ok(Value::Duration(*nanos)),
        (F::ToTimestamp, Value::Text(text)) => match time::parse_timestamp(text) {
            Some(time) => Ok(Value::Timestamp(time)),
            None => unreadable(text, "google.protobuf.Timestamp"),
        },
        (F::ToDuration, Value::Text(text)) => match time::parse_duration(text) {
            Some(duration) => Ok(Value::Duration(duration)),
            None => unreadable(text, "google.protobuf.Duration"),
        },
        _ => no_overload(),
    }
}

/// The functions that read a text as a value of Kubernetes' libraries.
fn parse<'a>(function: Function, text: &Text<'a>) -> Evaluated<'a> {
    use Function as F;
    let found = match function {
        F::Quantity | F::IsQuantity => Quantity::parse(text).map(Value::Quantity),
        F::Ip | F::IsIp | F::IsCanonicalIp => net::parse_ip(text).map(Value::Ip),
        _ => net::parse_cidr(text).map(|(address, bits)| Value::Cidr(address, bits)),
    };
    match (function, found) {
        (F::IsQuantity | F::IsIp | F::IsCidr, found) => Ok(Value::Bool(found.is_some())),
        (F::IsCanonicalIp, Some(Value::Ip(address))) => Ok(Value::Bool(address.to_string() == **text)),
        (_, Some(found)) => Ok(found),
        (F::Quantity, None) => other("quantities must match the regular expression of Kubernetes"),
        (F::Cidr, None) => other(format!("network address parse error: {:?}", super::lex::excerpt(text))),
        (_, None) => other(format!("IP Address {:?} parse error", super::lex::excerpt(text))),
    }
}

fn call_optional<'a>(function: Function, optional: Option<&Value<'a>>, rest: &[Value<'a>]) -> Evaluated<'a> {
    use Function as F;
    match (function, optional, rest) {
        (F::OptionalHasValue, optional, []) => Ok(Value::Bool(optional.is_some())),
        (F::OptionalValue, Some(value), []) => Ok(value.clone()),
        (F::OptionalValue, None, []) => other("optional.none() dereference"),
        (F::OptionalOrValue, Some(value), [_]) => Ok(value.clone()),
        (F::OptionalOrValue, None, [otherwise]) => Ok(otherwise.clone()),
        (F::OptionalOr, Some(value), [Value::Optional(_)]) => Ok(Value::Optional(Some(Arc::new(value.clone())))),
        (F::OptionalOr, None, [otherwise @ Value::Optional(_)]) => Ok(otherwise.clone()),
        _ => no_overload(),
    }
}

fn call_time<'a>(function: Function, time: Timestamp, rest: &[Value<'a>]) -> Evaluated<'a> {
    use Function as F;
    let zone = match rest {
        [] => None,
        [Value::Text(zone)] => Some(&**zone),
        _ => return no_overload(),
    };
    let parts = time.parts(zone)?;
    Ok(Value::Int(match function {
        F::FullYear => parts.year,
        F::Month => parts.month - 1,
        F::DayOfYear => parts.day_of_year,
        F::DayOfMonth => parts.day - 1,
        F::Date => parts.day,
        F::DayOfWeek => parts.day_of_week,
        F::Hours => parts.hour,
        F::Minutes => parts.minute,
        F::Seconds => parts.second,
        F::Milliseconds => parts.milliseconds,
        _ => return no_overload(),
    }))
}

fn call_duration<'a>(function: Function, nanos: i64) -> Evaluated<'a> {
    use Function as F;
    Ok(Value::Int(match function {
        F::Hours => nanos / 3_600_000_000_000,
        F::Minutes => nanos / 60_000_000_000,
        F::Seconds => nanos / 1_000_000_000,
        F::Milliseconds => nanos / 1_000_000,
        _ => return no_overload(),
    }))
}

fn call_quantity<'a>(function: Function, quantity: Quantity, rest: &[Value<'a>]) -> Evaluated<'a> {
    use Function as F;
    let operand = match rest {
        [Value::Quantity(operand)] => Some(*operand),
        [Value::Int(operand)] if matches!(function, F::AddQuantity | F::SubtractQuantity) => {
            Some(Quantity::of_int(*operand))
        }
        [] => None,
        _ => return no_overload(),
    };
    Ok(match (function, operand) {
        (F::Sign, None) => Value::Int(quantity.sign()),
        (F::AsApproximateFloat, None) => Value::Double(quantity.as_float()),
        (F::IsInteger, None) => Value::Bool(quantity.as_integer().is_some()),
        (F::AsInteger, None) => match quantity.as_integer() {
            Some(int) => Value::Int(int),
            None => return other("cannot convert value to integer"),
        },
        (F::IsGreaterThan, Some(operand)) => Value::Bool(quantity > operand),
        (F::IsLessThan, Some(operand)) => Value::Bool(quantity < operand),
        (F::CompareTo, Some(operand)) => Value::Int(quantity.cmp(&operand) as i64),
        (F::AddQuantity, Some(operand)) => Value::Quantity(quantity.plus(operand)?),
        (F::SubtractQuantity, Some(operand)) => Value::Quantity(quantity.minus(operand)?),
        _ => return no_overload(),
    })
}
