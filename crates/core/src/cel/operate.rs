//! The operators with two operands: equality, order, arithmetic and `in`.

use std::cmp::Ordering;

use super::ast::BinaryOperator;
use super::failure::{EvalError, Failure, no_overload, other};
use super::meter::CostMeter;
use super::time::Timestamp;
use super::value::Evaluated;
use super::value::{CelValue, ListValue, Map};

/// The maximum number of nested lists and maps that a comparison enters.
const MAX_DEPTH: usize = 100;

/// Evaluates an operator.
pub(super) fn binary<'a>(
    meter: &mut CostMeter,
    operator: BinaryOperator,
    left: &CelValue<'a>,
    right: &CelValue<'a>,
) -> Evaluated<'a> {
    use BinaryOperator as B;
    match operator {
        B::Equal => Ok(CelValue::Bool(equal(meter, left, right)?)),
        // As in cel-go, values that cannot be compared are different.
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
/// The left value is of a type of Kubernetes, such as a quantity, and the right one is not null and of another type.
pub(super) fn equal(meter: &mut CostMeter, left: &CelValue<'_>, right: &CelValue<'_>) -> Result<bool, Failure> {
    equal_within(meter, left, right, MAX_DEPTH)
}

/// Whether two values are equal, where values that cannot be compared are not equal: for the search in lists.
pub(super) fn is_same(meter: &mut CostMeter, left: &CelValue<'_>, right: &CelValue<'_>) -> Result<bool, Failure> {
    unless(equal(meter, left, right), false)
}

/// The result of a comparison, or `otherwise` if the values cannot be compared.
fn unless(result: Result<bool, Failure>, otherwise: bool) -> Result<bool, Failure> {
    match result {
        Err(Failure::Error(EvalError::NoSuchOverload)) => Ok(otherwise),
        result => result,
    }
}

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
                // Two elements are read.
                meter.charge(1)?;
                let (left, right) = (left.read(meter)?, right.read(meter)?);
                // As in cel-go, only elements that are known to differ make lists and maps different.
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
        (left, right) => numbers(left, right).is_some_and(|order| order == Some(Ordering::Equal)),
    })
}

/// The order of two values; `None` for numbers of which one is not a number.
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

/// The order of two numbers. The outer `None`: one of the values is another type. The inner one: one is not a number.
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

/// `left in right`: an element of a list, or a key of a map.
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

/// Two lists as one.
fn concat<'a>(meter: &mut CostMeter, left: &ListValue<'a>, right: &ListValue<'a>) -> Evaluated<'a> {
    let count = left.count(meter)? + right.count(meter)?;
    meter.make_values(count)?;
    let elements = left.elements().chain(right.elements()).map(|element| element.read(meter));
    Ok(CelValue::list(elements.collect::<Result<_, Failure>>()?))
}

/// Arithmetic of two numbers of one type, and the differences of times.
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

/// The time that is earlier by a duration.
fn before<'a>(time: Timestamp, duration: i64) -> Evaluated<'a> {
    let negated = duration.checked_neg().ok_or(EvalError::Overflow("duration"))?;
    time.plus(negated).map(CelValue::Timestamp)
}

/// The value of a key or of a member; `None` if it is absent.
pub(super) fn member<'a>(
    meter: &mut CostMeter,
    map: &Map<'a>,
    key: &CelValue<'a>,
) -> Result<Option<CelValue<'a>>, Failure> {
    let key = match key {
        // No key is a fraction.
        CelValue::Double(double) if double.fract() != 0.0 => return Ok(None),
        key => key.as_key(),
    };
    let Some(key) = key else { return no_overload() };
    map.get(&key, meter)?.map(|found| found.read(meter)).transpose()
}
