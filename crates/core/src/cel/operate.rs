//! The operators with two operands: equality, order, arithmetic and `in`.

use std::cmp::Ordering;

use super::ast::BinaryOperator;
use super::failure::{EvalError, Failure, no_overload, other};
use super::meter::CostMeter;
use super::time::Timestamp;
use super::value::Evaluated;
use super::value::{CelValue, ListValue, Map};

/// The maximum number of nested lists, maps and optional values that a comparison enters.
const MAX_DEPTH: usize = 100;

/// Evaluates an operator for two values.
///
/// # Errors
/// The operator has no overload for the types of the values, the result is out of range, or a limit is exceeded.
pub(super) fn binary<'a>(
    meter: &mut CostMeter,
    operator: BinaryOperator,
    left: &CelValue<'a>,
    right: &CelValue<'a>,
) -> Evaluated<'a> {
    use BinaryOperator as B;
    match operator {
        B::Equal => Ok(CelValue::Bool(equal(meter, left, right)?)),
        // As in cel-go, `!=` is true for values for which `==` is an error.
        B::NotEqual => Ok(CelValue::Bool(!is_same(meter, left, right)?)),
        B::Less | B::LessOrEqual | B::Greater | B::GreaterOrEqual => {
            meter.charge(1)?;
            let Some(order) = order(meter, left, right)? else { return other("NaN values cannot be ordered") };
            Ok(CelValue::Bool(match operator {
                B::Less => order == Ordering::Less,
                B::LessOrEqual => order != Ordering::Greater,
                B::Greater => order == Ordering::Greater,
                _ => order != Ordering::Less,
            }))
        }
        B::In => is_in(meter, left, right),
        B::Add => {
            meter.charge(1)?;
            add(meter, left, right)
        }
        B::Subtract | B::Multiply | B::Divide | B::Remainder => {
            meter.charge(1)?;
            arithmetic(operator, left, right)
        }
    }
}

/// Whether two values are equal. Values of different types are unequal, but numbers are compared by value.
///
/// # Errors
/// The left value is of a type of Kubernetes' libraries, such as a quantity, and the right one is of another type and
/// not null. Or the values are nested more than [`MAX_DEPTH`] deep, or a limit is exceeded.
pub(super) fn equal(meter: &mut CostMeter, left: &CelValue<'_>, right: &CelValue<'_>) -> Result<bool, Failure> {
    equal_within(meter, left, right, MAX_DEPTH)
}

/// Like [`equal`], but false for types that cannot be compared. Searches in lists use it.
pub(super) fn is_same(meter: &mut CostMeter, left: &CelValue<'_>, right: &CelValue<'_>) -> Result<bool, Failure> {
    unless(equal(meter, left, right), false)
}

/// The result of a comparison, or `otherwise` if the types cannot be compared. Other errors remain.
fn unless(result: Result<bool, Failure>, otherwise: bool) -> Result<bool, Failure> {
    match result {
        Err(Failure::Error(EvalError::NoSuchOverload)) => Ok(otherwise),
        result => result,
    }
}

/// Like [`equal`], for values that may be nested `depth` deep.
fn equal_within(
    meter: &mut CostMeter,
    left: &CelValue<'_>,
    right: &CelValue<'_>,
    depth: usize,
) -> Result<bool, Failure> {
    match (left, right) {
        (CelValue::Text(left), CelValue::Text(right)) => {
            meter.read(left.len().min(right.len()).max(1))?;
            return Ok(**left == **right);
        }
        (CelValue::Bytes(left), CelValue::Bytes(right)) => {
            meter.read(left.len().min(right.len()).max(1))?;
            return Ok(left == right);
        }
        _ => meter.charge(1)?,
    }
    let Some(below) = depth.checked_sub(1) else { return other("values are nested too deeply to be compared") };
    Ok(match (left, right) {
        (CelValue::Null, CelValue::Null) => true,
        (CelValue::Bool(left), CelValue::Bool(right)) => left == right,
        (CelValue::Timestamp(left), CelValue::Timestamp(right)) => left == right,
        (CelValue::Duration(left), CelValue::Duration(right)) => left == right,
        (CelValue::Type(left), CelValue::Type(right)) => left == right,
        (CelValue::Quantity(left), CelValue::Quantity(right)) => left == right,
        (CelValue::Ip(left), CelValue::Ip(right)) => left == right,
        (CelValue::Cidr(left, left_bits), CelValue::Cidr(right, right_bits)) => {
            left == right && left_bits == right_bits
        }
        (CelValue::Url(left), CelValue::Url(right)) => {
            meter.compare(left.length().min(right.length()))?;
            left == right
        }
        (CelValue::Semver(left), CelValue::Semver(right)) => {
            meter.compare(left.weight().min(right.weight()))?;
            left == right
        }
        (CelValue::Format(left), CelValue::Format(right)) => left.name == right.name,
        (CelValue::Optional(None), CelValue::Optional(None)) => true,
        (CelValue::Optional(Some(left)), CelValue::Optional(Some(right))) => equal_within(meter, left, right, below)?,
        (CelValue::List(left), CelValue::List(right)) => {
            if left.count(meter)? != right.count(meter)? {
                return Ok(false);
            }
            for (left, right) in left.elements().zip(right.elements()) {
                // The cost of reading the two elements.
                meter.charge(1)?;
                let (left, right) = (left.read(meter)?, right.read(meter)?);
                // As in cel-go, lists and maps are equal if their elements are equal or cannot be compared.
                if !unless(equal_within(meter, &left, &right, below), true)? {
                    return Ok(false);
                }
            }
            true
        }
        (CelValue::Map(left), CelValue::Map(right)) => {
            if left.count(meter)? != right.count(meter)? {
                return Ok(false);
            }
            for entry in left.entries() {
                let (key, left) = entry.read(meter)?;
                let Some(key) = key.as_key() else { return Ok(false) };
                let Some(right) = right.get(&key, meter)? else { return Ok(false) };
                let right = right.read(meter)?;
                if !unless(equal_within(meter, &left, &right, below), true)? {
                    return Ok(false);
                }
            }
            true
        }
        (
            CelValue::Quantity(_)
            | CelValue::Ip(_)
            | CelValue::Cidr(..)
            | CelValue::Url(_)
            | CelValue::Semver(_)
            | CelValue::Format(_),
            right,
        ) if !matches!(right, CelValue::Null) => return no_overload(),
        // Numbers by value; values of different types are unequal.
        (left, right) => numbers(left, right).is_some_and(|order| order == Some(Ordering::Equal)),
    })
}

/// The order of two values of one type, or of two numbers; `None` if one of them is NaN.
///
/// # Errors
/// The types have no order, or differ and are not numbers; or a limit is exceeded.
pub(super) fn order(
    meter: &mut CostMeter,
    left: &CelValue<'_>,
    right: &CelValue<'_>,
) -> Result<Option<Ordering>, Failure> {
    Ok(Some(match (left, right) {
        (CelValue::Bool(left), CelValue::Bool(right)) => left.cmp(right),
        (CelValue::Text(left), CelValue::Text(right)) => {
            meter.compare(left.len().min(right.len()))?;
            // The order of UTF-8 bytes is that of code points.
            left.cmp(right)
        }
        (CelValue::Bytes(left), CelValue::Bytes(right)) => {
            meter.compare(left.len().min(right.len()))?;
            left.cmp(right)
        }
        (CelValue::Timestamp(left), CelValue::Timestamp(right)) => left.cmp(right),
        (CelValue::Duration(left), CelValue::Duration(right)) => left.cmp(right),
        (left, right) => return numbers(left, right).map_or_else(no_overload, Ok),
    }))
}

/// The order of two numbers by value. The outer `None`: one of the values has another type. The inner `None`: one of
/// the numbers is NaN.
fn numbers(left: &CelValue<'_>, right: &CelValue<'_>) -> Option<Option<Ordering>> {
    Some(match (left, right) {
        (CelValue::Int(left), CelValue::Int(right)) => Some(left.cmp(right)),
        (CelValue::Uint(left), CelValue::Uint(right)) => Some(left.cmp(right)),
        (CelValue::Double(left), CelValue::Double(right)) => left.partial_cmp(right),
        (CelValue::Int(left), CelValue::Uint(right)) => Some(i128::from(*left).cmp(&i128::from(*right))),
        (CelValue::Uint(left), CelValue::Int(right)) => Some(i128::from(*left).cmp(&i128::from(*right))),
        (CelValue::Int(left), CelValue::Double(right)) => (*left as f64).partial_cmp(right),
        (CelValue::Double(left), CelValue::Int(right)) => left.partial_cmp(&(*right as f64)),
        (CelValue::Uint(left), CelValue::Double(right)) => (*left as f64).partial_cmp(right),
        (CelValue::Double(left), CelValue::Uint(right)) => left.partial_cmp(&(*right as f64)),
        _ => return None,
    })
}

/// Evaluates `left in right`: whether a list has an element that equals `left`, or a map has the key `left`.
fn is_in<'a>(meter: &mut CostMeter, left: &CelValue<'a>, right: &CelValue<'a>) -> Evaluated<'a> {
    match right {
        CelValue::List(list) => {
            meter.charge(1)?;
            for element in list.elements() {
                let element = element.read(meter)?;
                if is_same(meter, left, &element)? {
                    return Ok(CelValue::Bool(true));
                }
            }
            Ok(CelValue::Bool(false))
        }
        CelValue::Map(map) => {
            meter.charge(1)?;
            // A value that cannot be a key is in no map.
            let Some(key) = left.as_key() else { return Ok(CelValue::Bool(false)) };
            Ok(CelValue::Bool(map.get(&key, meter)?.is_some()))
        }
        _ => no_overload(),
    }
}

/// Evaluates `left + right`: concatenates texts, bytes and lists, and adds numbers of one type, durations, and a
/// timestamp and a duration.
fn add<'a>(meter: &mut CostMeter, left: &CelValue<'a>, right: &CelValue<'a>) -> Evaluated<'a> {
    match (left, right) {
        (CelValue::Text(left), CelValue::Text(right)) => {
            meter.make_text(left.len() + right.len())?;
            Ok(CelValue::text([&**left, &**right].concat()))
        }
        (CelValue::Bytes(left), CelValue::Bytes(right)) => {
            meter.make_text(left.len() + right.len())?;
            Ok(CelValue::Bytes([&**left, &**right].concat().into()))
        }
        (CelValue::List(left), CelValue::List(right)) => concat(meter, left, right),
        (CelValue::Timestamp(time), CelValue::Duration(duration))
        | (CelValue::Duration(duration), CelValue::Timestamp(time)) => time.plus(*duration).map(CelValue::Timestamp),
        (CelValue::Duration(left), CelValue::Duration(right)) => {
            left.checked_add(*right).map(CelValue::Duration).ok_or_else(|| EvalError::Overflow("duration").into())
        }
        (CelValue::Double(left), CelValue::Double(right)) => Ok(CelValue::Double(left + right)),
        _ => arithmetic(BinaryOperator::Add, left, right),
    }
}

/// The elements of two lists as one new list.
fn concat<'a>(meter: &mut CostMeter, left: &ListValue<'a>, right: &ListValue<'a>) -> Evaluated<'a> {
    let count = left.count(meter)? + right.count(meter)?;
    meter.make_values(count)?;
    let elements = left.elements().chain(right.elements()).map(|element| element.read(meter));
    Ok(CelValue::list(elements.collect::<Result<_, Failure>>()?))
}

/// Evaluates `-`, `*`, `/` and `%` for two numbers of one type, `+` for two integers, and `-` for timestamps and
/// durations. [`add`] evaluates the other sums.
fn arithmetic<'a>(operator: BinaryOperator, left: &CelValue<'a>, right: &CelValue<'a>) -> Evaluated<'a> {
    use BinaryOperator as B;
    match (left, right) {
        (CelValue::Int(left), CelValue::Int(right)) => {
            let result = match operator {
                B::Add => left.checked_add(*right),
                B::Subtract => left.checked_sub(*right),
                B::Multiply => left.checked_mul(*right),
                B::Divide if *right == 0 => return Err(EvalError::DivisionByZero.into()),
                B::Divide => left.checked_div(*right),
                B::Remainder if *right == 0 => return Err(EvalError::ModulusByZero.into()),
                B::Remainder => left.checked_rem(*right),
                _ => return no_overload(),
            };
            result.map(CelValue::Int).ok_or_else(|| EvalError::Overflow("integer").into())
        }
        (CelValue::Uint(left), CelValue::Uint(right)) => {
            let result = match operator {
                B::Add => left.checked_add(*right),
                B::Subtract => left.checked_sub(*right),
                B::Multiply => left.checked_mul(*right),
                B::Divide if *right == 0 => return Err(EvalError::DivisionByZero.into()),
                B::Divide => left.checked_div(*right),
                B::Remainder if *right == 0 => return Err(EvalError::ModulusByZero.into()),
                B::Remainder => left.checked_rem(*right),
                _ => return no_overload(),
            };
            result.map(CelValue::Uint).ok_or_else(|| EvalError::Overflow("unsigned integer").into())
        }
        (CelValue::Double(left), CelValue::Double(right)) => match operator {
            B::Subtract => Ok(CelValue::Double(left - right)),
            B::Multiply => Ok(CelValue::Double(left * right)),
            B::Divide => Ok(CelValue::Double(left / right)),
            _ => no_overload(),
        },
        (CelValue::Timestamp(left), CelValue::Timestamp(right)) if operator == B::Subtract => {
            left.since(*right).map(CelValue::Duration)
        }
        (CelValue::Timestamp(time), CelValue::Duration(duration)) if operator == B::Subtract => {
            before(*time, *duration)
        }
        (CelValue::Duration(left), CelValue::Duration(right)) if operator == B::Subtract => {
            left.checked_sub(*right).map(CelValue::Duration).ok_or_else(|| EvalError::Overflow("duration").into())
        }
        _ => no_overload(),
    }
}

/// The timestamp that is earlier by a duration in nanoseconds.
fn before<'a>(time: Timestamp, duration: i64) -> Evaluated<'a> {
    let negated = duration.checked_neg().ok_or(EvalError::Overflow("duration"))?;
    time.plus(negated).map(CelValue::Timestamp)
}

/// Reads the value of a key of a map; `None` if it is absent.
///
/// # Errors
/// The type of `key` cannot be that of a key, or a limit is exceeded.
pub(super) fn member<'a>(
    meter: &mut CostMeter,
    map: &Map<'a>,
    key: &CelValue<'a>,
) -> Result<Option<CelValue<'a>>, Failure> {
    let key = match key {
        // A double with a fraction is a valid key that no map has.
        CelValue::Double(double) if double.fract() != 0.0 => return Ok(None),
        key => key.as_key(),
    };
    let Some(key) = key else { return no_overload() };
    map.get(&key, meter)?.map(|found| found.read(meter)).transpose()
}
