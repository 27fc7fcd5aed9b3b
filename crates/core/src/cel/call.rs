//! Evaluates the calls of functions: chooses the code by the function and by the type of the first argument.
//!
//! Conversions, times, quantities, URLs, versions and optionals are here. Functions of texts (`strings`), lists
//! (`lists`) and addresses (`net`) have files of their own. Each function counts its cost before it does the work.

use std::sync::Arc;

use super::failure::{EvalError, no_overload, other};
use super::function::Function;
use super::meter::CostMeter;
use super::named_format::NamedFormat;
use super::operate::is_same;
use super::pattern::Pattern;
use super::quantity::Quantity;
use super::semver::Semver;
use super::time::{self, Timestamp};
use super::url::Url;
use super::value::Evaluated;
use super::value::{BuiltEntry, CelValue, ListValue, Map, MapKey, Text};
use super::{lists, net, strings, text_format};

/// Evaluates a function. `arguments` has the target first. `compiled` is the compiled pattern of a function that
/// matches one; `None` if the pattern is not a literal.
///
/// # Errors
/// The function has no overload for the types of the arguments, fails for their values, or exceeds a limit.
pub(super) fn call<'a>(
    meter: &mut CostMeter,
    function: Function,
    arguments: &[CelValue<'a>],
    compiled: Option<&Pattern>,
) -> Evaluated<'a> {
    use Function as F;
    match (function, arguments) {
        (F::Size, [of]) => size(meter, of),
        (F::TypeOf, [of]) => cheap(meter, CelValue::Type(of.type_name())),
        (F::Dyn, [of]) => cheap(meter, of.clone()),
        (F::ToInt | F::ToUint | F::ToDouble | F::ToText | F::ToBytes | F::ToBool, [of]) => convert(meter, function, of),
        (F::ToTimestamp | F::ToDuration, [of]) => convert_to_time(meter, function, of),
        (F::OptionalNone, []) => cheap(meter, CelValue::Optional(None)),
        (F::OptionalOf, [of]) => cheap(meter, CelValue::Optional(Some(Arc::new(of.clone())))),
        (F::OptionalOfNonZero, [of]) => {
            let is_zero = is_zero(of);
            cheap(meter, CelValue::Optional(if is_zero { None } else { Some(Arc::new(of.clone())) }))
        }
        // A value that is no list includes itself.
        (F::Includes, [of, sought]) if !matches!(of, CelValue::List(_)) => {
            is_same(meter, of, sought).map(CelValue::Bool)
        }
        (F::Range, [CelValue::Int(end)]) => lists::range(meter, *end),
        (F::Join, [CelValue::List(list)]) => strings::join(meter, list, ""),
        (F::Join, [CelValue::List(list), CelValue::Text(separator)]) => strings::join(meter, list, separator),
        (
            F::Quantity | F::IsQuantity | F::Ip | F::IsIp | F::IsCanonicalIp | F::Cidr | F::IsCidr,
            [CelValue::Text(text)],
        ) => {
            // Most of the time does not depend on the length: divisions of 128 bits, and a text that is made to be
            // compared.
            meter.charge(match function {
                F::Quantity | F::IsQuantity => 16,
                F::IsCanonicalIp => 8,
                _ => 4,
            })?;
            meter.read(text.len().max(1))?;
            parse(function, text)
        }
        (F::Url | F::IsUrl | F::Semver | F::IsSemver, [CelValue::Text(text), rest @ ..]) => {
            // Read byte by byte, in several passes.
            meter.read(text.len().saturating_mul(8).max(1))?;
            match function {
                // The parts of a URL, which has up to three bytes for each byte of its path.
                F::Url | F::IsUrl => meter.make_text(text.len().saturating_mul(4))?,
                _ => {
                    meter.make_text(text.len())?;
                    meter.make_values(text.matches('.').count())?;
                }
            }
            parse_further(function, text, rest)
        }
        (F::FormatNamed, [CelValue::Text(name)]) => {
            let found = NamedFormat::find(name).map(|format| Arc::new(CelValue::Format(format)));
            cheap(meter, CelValue::Optional(found))
        }
        (F::FormatOf(name), []) => match NamedFormat::find(name) {
            Some(format) => cheap(meter, CelValue::Format(format)),
            None => no_overload(),
        },
        (F::Validate, [CelValue::Format(format), CelValue::Text(text)]) => {
            // The cost of upstream's patterns, which have up to 60 parts.
            meter.read(text.len().saturating_mul(16).max(1))?;
            let errors: Vec<CelValue<'a>> = format.errors(text).into_iter().map(CelValue::text).collect();
            Ok(CelValue::Optional((!errors.is_empty()).then(|| Arc::new(CelValue::list(errors)))))
        }
        (F::FormatText, [CelValue::Text(format), CelValue::List(arguments)]) => {
            text_format::format(meter, format, arguments)
        }
        (_, [CelValue::Url(url)]) => {
            meter.charge(1)?;
            call_url(meter, function, url)
        }
        (_, [CelValue::Semver(version), rest @ ..]) => {
            meter.charge(1)?;
            if let [CelValue::Semver(operand)] = rest {
                meter.compare(version.weight().min(operand.weight()))?;
            }
            call_semver(function, version, rest)
        }
        (_, [CelValue::Text(text), rest @ ..]) => strings::call(meter, function, text, rest, compiled),
        (_, [CelValue::List(list), rest @ ..]) => lists::call(meter, function, list, rest),
        (_, [CelValue::Optional(optional), rest @ ..]) => {
            meter.charge(1)?;
            call_optional(function, optional.as_deref(), rest)
        }
        (_, [CelValue::Timestamp(time), rest @ ..]) => {
            // A zone is looked up by its name.
            meter.charge(if rest.is_empty() { 2 } else { 20 })?;
            if let [CelValue::Text(zone)] = rest {
                meter.read(zone.len())?;
            }
            call_time(function, *time, rest)
        }
        (_, [CelValue::Duration(duration)]) => {
            meter.charge(1)?;
            call_duration(function, *duration)
        }
        (_, [CelValue::Quantity(quantity), rest @ ..]) => {
            // The parts of an integer take divisions of 128 bits.
            meter.charge(4)?;
            call_quantity(function, *quantity, rest)
        }
        (_, [CelValue::Ip(address), rest @ ..]) => {
            meter.charge(1)?;
            net::call_ip(function, *address, rest)
        }
        (_, [CelValue::Cidr(address, bits), rest @ ..]) => {
            meter.charge(4)?;
            if let [CelValue::Text(text)] = rest {
                meter.read(text.len())?;
            }
            net::call_cidr(function, *address, *bits, rest)
        }
        _ => no_overload(),
    }
}

/// Counts a cost of one and returns the value.
fn cheap<'a>(meter: &mut CostMeter, value: CelValue<'a>) -> Evaluated<'a> {
    meter.charge(1)?;
    Ok(value)
}

/// Evaluates `size`: characters of a text, bytes, elements of a list, or entries of a map.
fn size<'a>(meter: &mut CostMeter, of: &CelValue<'a>) -> Evaluated<'a> {
    meter.charge(1)?;
    let count = match of {
        CelValue::Text(text) => return strings::size(meter, text).map(CelValue::Int),
        CelValue::Bytes(bytes) => bytes.len(),
        CelValue::List(list) => list.count(meter)?,
        CelValue::Map(map) => map.count(meter)?,
        _ => return no_overload(),
    };
    Ok(CelValue::Int(i64::try_from(count).unwrap_or(i64::MAX)))
}

/// Whether a value is the zero value of its type, for `optional.ofNonZeroValue`.
fn is_zero(value: &CelValue<'_>) -> bool {
    match value {
        CelValue::Null => true,
        CelValue::Bool(bool) => !bool,
        CelValue::Int(int) => *int == 0,
        CelValue::Uint(uint) => *uint == 0,
        CelValue::Double(double) => *double == 0.0,
        CelValue::Text(text) => text.is_empty(),
        CelValue::Bytes(bytes) => bytes.is_empty(),
        CelValue::List(ListValue::Built(elements)) => elements.is_empty(),
        CelValue::List(ListValue::Json(json)) => json.items().next().is_none(),
        CelValue::Map(Map::Built(entries)) => entries.is_empty(),
        CelValue::Map(Map::Json(json)) => json.members().next().is_none(),
        CelValue::Duration(duration) => *duration == 0,
        CelValue::Optional(optional) => optional.is_none(),
        CelValue::Timestamp(_)
        | CelValue::Type(_)
        | CelValue::Quantity(_)
        | CelValue::Ip(_)
        | CelValue::Cidr(..)
        | CelValue::Url(_)
        | CelValue::Semver(_)
        | CelValue::Format(_) => false,
    }
}

/// The least doubles that are too large for the integer types: 2^63 and 2^64.
const ABOVE_INT: f64 = 9_223_372_036_854_775_808.0;
const ABOVE_UINT: f64 = 18_446_744_073_709_551_616.0;

/// The cost of writing a number, a time or an address as a text.
const WRITE: u64 = 8;

/// Evaluates the conversions to numbers, texts, bytes and booleans, such as `int(value)`.
///
/// # Errors
/// The value is out of the range of the type, its text cannot be read, or its type cannot be converted.
fn convert<'a>(meter: &mut CostMeter, function: Function, of: &CelValue<'a>) -> Evaluated<'a> {
    use Function as F;
    meter.charge(1)?;
    let overflow = |kind| Err(EvalError::Overflow(kind).into());
    match (function, of) {
        (F::ToDouble, CelValue::Text(text)) => meter.parse_number(text.len())?,
        (_, CelValue::Text(text)) => meter.read(text.len())?,
        // Numbers and times are written with the formatting of the library.
        (F::ToText, of) if !matches!(of, CelValue::Bytes(_) | CelValue::Bool(_)) => meter.charge(WRITE)?,
        _ => {}
    }
    match (function, of) {
        (F::ToInt, CelValue::Int(_))
        | (F::ToUint, CelValue::Uint(_))
        | (F::ToDouble, CelValue::Double(_))
        | (F::ToText, CelValue::Text(_))
        | (F::ToBytes, CelValue::Bytes(_))
        | (F::ToBool, CelValue::Bool(_)) => Ok(of.clone()),
        (F::ToInt, CelValue::Uint(uint)) => match i64::try_from(*uint) {
            Ok(int) => Ok(CelValue::Int(int)),
            Err(_) => overflow("integer"),
        },
        // As in cel-go, the least integer itself cannot be converted from a double.
        (F::ToInt, CelValue::Double(double)) if *double > -ABOVE_INT && *double < ABOVE_INT => {
            Ok(CelValue::Int(*double as i64))
        }
        (F::ToInt, CelValue::Double(_)) => overflow("integer"),
        (F::ToInt, CelValue::Text(text)) => text.parse().map(CelValue::Int).or_else(|_| unreadable(text, "int")),
        (F::ToInt, CelValue::Timestamp(time)) => Ok(CelValue::Int(time.seconds)),
        (F::ToInt, CelValue::Duration(nanos)) => Ok(CelValue::Int(*nanos)),
        (F::ToUint, CelValue::Int(int)) => match u64::try_from(*int) {
            Ok(uint) => Ok(CelValue::Uint(uint)),
            Err(_) => overflow("unsigned integer"),
        },
        (F::ToUint, CelValue::Double(double)) if *double >= 0.0 && *double < ABOVE_UINT => {
            Ok(CelValue::Uint(*double as u64))
        }
        (F::ToUint, CelValue::Double(_)) => overflow("unsigned integer"),
        // Go reads signs of signed integers only.
        (F::ToUint, CelValue::Text(text)) if !text.starts_with('+') => {
            text.parse().map(CelValue::Uint).or_else(|_| unreadable(text, "uint"))
        }
        (F::ToUint, CelValue::Text(text)) => unreadable(text, "uint"),
        (F::ToDouble, CelValue::Int(int)) => Ok(CelValue::Double(*int as f64)),
        (F::ToDouble, CelValue::Uint(uint)) => Ok(CelValue::Double(*uint as f64)),
        (F::ToDouble, CelValue::Text(text)) => {
            // Go reports a number that is too large. Only the words for infinity are infinite.
            let is_too_large =
                |double: f64| double.is_infinite() && text.contains(|digit: char| digit.is_ascii_digit());
            match text.parse::<f64>() {
                Ok(double) if !is_too_large(double) => Ok(CelValue::Double(double)),
                Ok(_) | Err(_) => unreadable(text, "double"),
            }
        }
        (F::ToText, of) => to_text(meter, of),
        (F::ToBytes, CelValue::Text(text)) => {
            meter.make_text(text.len())?;
            Ok(CelValue::Bytes(text.as_bytes().into()))
        }
        (F::ToBool, CelValue::Text(text)) => match &**text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(CelValue::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(CelValue::Bool(false)),
            text => unreadable(text, "bool"),
        },
        _ => no_overload(),
    }
}

/// The error for a text that a conversion cannot read.
fn unreadable<'a>(text: &str, kind: &str) -> Evaluated<'a> {
    other(format!("type conversion error from string to {kind}: {:?}", super::lex::excerpt(text)))
}

/// Evaluates `string(value)` for types other than text. The caller counts the cost, except that of bytes.
fn to_text<'a>(meter: &mut CostMeter, of: &CelValue<'a>) -> Evaluated<'a> {
    Ok(CelValue::text(match of {
        CelValue::Bool(bool) => bool.to_string(),
        CelValue::Int(int) => int.to_string(),
        CelValue::Uint(uint) => uint.to_string(),
        CelValue::Double(double) => text_format::double_text(*double),
        CelValue::Bytes(bytes) => {
            meter.make_text(bytes.len())?;
            match std::str::from_utf8(bytes) {
                Ok(text) => text.to_owned(),
                Err(_) => return other("invalid UTF-8 in bytes, cannot convert to string"),
            }
        }
        CelValue::Timestamp(time) => time.to_text(),
        CelValue::Duration(nanos) => time::duration_text(*nanos),
        CelValue::Ip(address) => address.to_string(),
        CelValue::Cidr(address, bits) => format!("{address}/{bits}"),
        CelValue::Null
        | CelValue::Text(_)
        | CelValue::List(_)
        | CelValue::Map(_)
        | CelValue::Type(_)
        | CelValue::Optional(_)
        | CelValue::Quantity(_)
        | CelValue::Url(_)
        | CelValue::Semver(_)
        | CelValue::Format(_) => return no_overload(),
    }))
}

/// Evaluates `timestamp(value)` and `duration(value)`. An integer is a timestamp in seconds since 1970.
fn convert_to_time<'a>(meter: &mut CostMeter, function: Function, of: &CelValue<'a>) -> Evaluated<'a> {
    use Function as F;
    meter.charge(1)?;
    match (function, of) {
        (F::ToTimestamp, CelValue::Timestamp(_)) | (F::ToDuration, CelValue::Duration(_)) => Ok(of.clone()),
        (F::ToTimestamp, CelValue::Int(seconds)) => Timestamp::new(*seconds, 0).map(CelValue::Timestamp),
        (F::ToTimestamp, CelValue::Text(text)) => {
            meter.parse_timestamp(text.len())?;
            match time::parse_timestamp(text) {
                Some(time) => Ok(CelValue::Timestamp(time)),
                None => unreadable(text, "google.protobuf.Timestamp"),
            }
        }
        (F::ToDuration, CelValue::Text(text)) => {
            meter.parse_duration(text.len())?;
            match time::parse_duration(text) {
                Some(duration) => Ok(CelValue::Duration(duration)),
                None => unreadable(text, "google.protobuf.Duration"),
            }
        }
        _ => no_overload(),
    }
}

/// Evaluates the functions that read a text as a quantity, an IP address or a range of addresses: conversions such as
/// `ip(text)`, and tests such as `isIP(text)`, which are false for a text that cannot be read.
fn parse<'a>(function: Function, text: &Text<'a>) -> Evaluated<'a> {
    use Function as F;
    let found = match function {
        F::Quantity | F::IsQuantity => Quantity::parse(text).map(CelValue::Quantity),
        F::Ip | F::IsIp | F::IsCanonicalIp => net::parse_ip(text).map(CelValue::Ip),
        _ => net::parse_cidr(text).map(|(address, bits)| CelValue::Cidr(address, bits)),
    };
    match (function, found) {
        (F::IsQuantity | F::IsIp | F::IsCidr, found) => Ok(CelValue::Bool(found.is_some())),
        (F::IsCanonicalIp, Some(CelValue::Ip(address))) => Ok(CelValue::Bool(address.to_string() == **text)),
        (_, Some(found)) => Ok(found),
        (F::Quantity, None) => other("quantities must match the regular expression of Kubernetes"),
        (F::Cidr, None) => other(format!("network address parse error: {:?}", super::lex::excerpt(text))),
        (_, None) => other(format!("IP Address {:?} parse error", super::lex::excerpt(text))),
    }
}

/// Evaluates the functions that read a text as a URL or a semantic version, and the tests such as `isURL(text)`.
/// `rest`: for a version, nothing, or whether to read it tolerantly.
fn parse_further<'a>(function: Function, text: &str, rest: &[CelValue<'a>]) -> Evaluated<'a> {
    use Function as F;
    let version = |is_tolerant: bool| if is_tolerant { Semver::parse_tolerant(text) } else { Semver::parse(text) };
    let is_tolerant = match rest {
        [] => false,
        [CelValue::Bool(is_tolerant)] => *is_tolerant,
        _ => return no_overload(),
    };
    match function {
        F::IsUrl => Ok(CelValue::Bool(Url::is_url(text))),
        F::IsSemver => Ok(CelValue::Bool(version(is_tolerant).is_some())),
        F::Url => match Url::parse(text) {
            Some(url) => Ok(CelValue::Url(Arc::new(url))),
            None => other(format!("URL parse error during conversion from string: {:?}", super::lex::excerpt(text))),
        },
        F::Semver => match version(is_tolerant) {
            Some(version) => Ok(CelValue::Semver(Arc::new(version))),
            None => other(format!("not a semantic version: {:?}", super::lex::excerpt(text))),
        },
        _ => no_overload(),
    }
}

/// Evaluates a function of a URL: one of its parts, or its query as a map of lists.
fn call_url<'a>(meter: &mut CostMeter, function: Function, url: &Url) -> Evaluated<'a> {
    use Function as F;
    if matches!(function, F::Hostname | F::Port) {
        // The port is found in the host each time.
        meter.read(url.host.len())?;
    }
    let part = match function {
        F::Scheme => &*url.scheme,
        F::Host => &url.host,
        F::Hostname => url.hostname(),
        F::Port => url.port(),
        F::EscapedPath => &url.path,
        F::UrlQuery => {
            let (length, pairs) = url.query_size();
            meter.make_text(length.saturating_mul(4))?;
            meter.make_values(2 * pairs)?;
            let mut entries = Vec::new();
            for (key, values) in url.query() {
                let value = CelValue::list(values.into_iter().map(CelValue::text).collect());
                let key: Text<'a> = key.into();
                entries.push(BuiltEntry { sorted: MapKey::Text(key.clone()), key: CelValue::Text(key), value });
            }
            return Ok(CelValue::Map(Map::build(entries, meter)?));
        }
        _ => return no_overload(),
    };
    meter.make_text(part.len())?;
    Ok(CelValue::text(part))
}

/// Evaluates a function of a semantic version. `rest`: the arguments after the version.
fn call_semver<'a>(function: Function, version: &Semver, rest: &[CelValue<'a>]) -> Evaluated<'a> {
    use Function as F;
    // As in Go, a number above the range is a negative one.
    let number = |number: u64| CelValue::Int(number.cast_signed());
    Ok(match (function, rest) {
        (F::Major, []) => number(version.major),
        (F::Minor, []) => number(version.minor),
        (F::Patch, []) => number(version.patch),
        (F::IsGreaterThan, [CelValue::Semver(operand)]) => CelValue::Bool(*version > **operand),
        (F::IsLessThan, [CelValue::Semver(operand)]) => CelValue::Bool(*version < **operand),
        (F::CompareTo, [CelValue::Semver(operand)]) => CelValue::Int(version.cmp(operand) as i64),
        _ => return no_overload(),
    })
}

/// Evaluates a function of an optional value (`None`: empty). For `or` and `orValue` it must be empty: with a content,
/// the evaluator does not call them, because it does not evaluate their argument. `rest`: the arguments after the
/// value.
fn call_optional<'a>(function: Function, optional: Option<&CelValue<'a>>, rest: &[CelValue<'a>]) -> Evaluated<'a> {
    use Function as F;
    match (function, optional, rest) {
        (F::OptionalHasValue, optional, []) => Ok(CelValue::Bool(optional.is_some())),
        (F::OptionalValue, Some(value), []) => Ok(value.clone()),
        (F::OptionalValue, None, []) => other("optional.none() dereference"),
        // As in cel-go, the argument of `or` can be any value.
        (F::OptionalOr | F::OptionalOrValue, None, [otherwise]) => Ok(otherwise.clone()),
        _ => no_overload(),
    }
}

/// Evaluates a function of a timestamp: a part of its date, in UTC or in the time zone that is the only one of `rest`.
/// Months and days of the month count from 0, except in `getDate`.
fn call_time<'a>(function: Function, time: Timestamp, rest: &[CelValue<'a>]) -> Evaluated<'a> {
    use Function as F;
    let zone = match rest {
        [] => None,
        [CelValue::Text(zone)] => Some(&**zone),
        _ => return no_overload(),
    };
    let parts = time.parts(zone)?;
    Ok(CelValue::Int(match function {
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

/// Evaluates a function of a duration in nanoseconds: the whole duration in a unit, rounded towards zero.
fn call_duration<'a>(function: Function, nanos: i64) -> Evaluated<'a> {
    use Function as F;
    Ok(CelValue::Int(match function {
        F::Hours => nanos / 3_600_000_000_000,
        F::Minutes => nanos / 60_000_000_000,
        F::Seconds => nanos / 1_000_000_000,
        F::Milliseconds => nanos / 1_000_000,
        _ => return no_overload(),
    }))
}

/// Evaluates a function of a quantity. `rest`: nothing, or a second quantity. `add` and `sub` also take an integer.
fn call_quantity<'a>(function: Function, quantity: Quantity, rest: &[CelValue<'a>]) -> Evaluated<'a> {
    use Function as F;
    let operand = match rest {
        [CelValue::Quantity(operand)] => Some(*operand),
        [CelValue::Int(operand)] if matches!(function, F::AddQuantity | F::SubtractQuantity) => {
            Some(Quantity::of_int(*operand))
        }
        [] => None,
        _ => return no_overload(),
    };
    Ok(match (function, operand) {
        (F::Sign, None) => CelValue::Int(quantity.sign()),
        (F::AsApproximateFloat, None) => CelValue::Double(quantity.as_float()),
        (F::IsInteger, None) => CelValue::Bool(quantity.as_integer().is_some()),
        (F::AsInteger, None) => match quantity.as_integer() {
            Some(int) => CelValue::Int(int),
            None => return other("cannot convert value to integer"),
        },
        (F::IsGreaterThan, Some(operand)) => CelValue::Bool(quantity > operand),
        (F::IsLessThan, Some(operand)) => CelValue::Bool(quantity < operand),
        (F::CompareTo, Some(operand)) => CelValue::Int(quantity.cmp(&operand) as i64),
        (F::AddQuantity, Some(operand)) => CelValue::Quantity(quantity.plus(operand)?),
        (F::SubtractQuantity, Some(operand)) => CelValue::Quantity(quantity.minus(operand)?),
        _ => return no_overload(),
    })
}
