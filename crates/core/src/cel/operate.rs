//! The operators with two operands: equality, order, arithmetic and `in`.

use std::cmp::Ordering;

use super::ast::BinaryOperator;
use super::failure::{EvalError, Evaluated, Failure, no_overload, other};
use super::meter::Meter;
use super::time::Timestamp;
use super::value::{List, Map, Value};

/// The maximum number of nested lists and maps that a comparison enters.
const MAX_DEPTH: usize = 100;

/// Evaluates an operator.
pub(super) fn binary<'a>(
    meter: &mut Meter,
    operator: BinaryOperator,
    left: &Value<'a>,
    right: &Value<'a>,
) -> Evaluated<'a> {
    use BinaryOperator as B;
    match operator {
        B::Equal => Ok(Value::Bool(equal(meter, left, right)?)),
        B::NotEqual => Ok(Value::Bool(!equal(meter, left, right)?)),
        B::Less | B::LessOrEqual | B::Greater | B::GreaterOrEqual => {
            meter.charge(1)?;
            let Some(order) = order(meter, left, right)? else { return other("NaN values cannot be ordered") };
            Ok(Value::Bool(match operator {
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
pub(super) fn equal(meter: &mut Meter, left: &Value<'_>, right: &Value<'_>) -> Result<bool, Failure> {
    equal_within(meter, left, right, MAX_DEPTH)
}

fn equal_within(meter: &mut Meter, left: &Value<'_>, right: &Value<'_>, depth: usize) -> Result<bool, Failure> {
    match (left, right) {
        (Value::Text(left), Value::Text(right)) => {
            meter.read(left.len().min(right.len()).max(1))?;
            return Ok(**left == **right);
        }
        (Value::Bytes(left), Value::Bytes(right)) => {
            meter.read(left.len().min(right.len()).max(1))?;
            return Ok(left == right);
        }
        _ => meter.charge(1)?,
    }
    let Some(below) = depth.checked_sub(1) else { return other("values are nested too deeply to be compared") };
    Ok(match (left, right) {
        (Value::Null, Value::Null) => true,
        (Value::Bool(left), Value::Bool(right)) => left == right,
        (Value::Timestamp(left), Value::Timestamp(right)) => left == right,
        (Value::Duration(left), Value::Duration(right)) => left == right,
        (Value::Type(left), Value::Type(right)) => left == right,
        (Value::Quantity(left), Value::Quantity(right)) => left == right,
        (Value::Ip(left), Value::Ip(right)) => left == right,
        (Value::Cidr(left, left_bits), Value::Cidr(right, right_bits)) => left == right && left_bits == right_bits,
        (Value::Optional(None), Value::Optional(None)) => true,
        (Value::Optional(Some(left)), Value::Optional(Some(right))) => equal_within(meter, left, right, below)?,
        (Value::List(left), Value::List(right)) => {
            let (left_count, left_work) = left.count();
            let (right_count, right_work) = right.count();
            meter.pass(left_work + right_work)?;
            if left_count != right_count {
                return Ok(false);
            }
            for (left, right) in left.elements().zip(right.elements()) {
                if !equal_within(meter, &left?, &right?, below)? {
                    return Ok(false);
                }
            }
            true
        }
        (Value::Map(left), Value::Map(right)) => {
            let (left_count, left_work) = left.count();
            let (right_count, right_work) = right.count();
            meter.pass(left_work + right_work)?;
            if left_count != right_count {
                return Ok(false);
            }
            for entry in left.entries() {
                let (key, left) = entry?;
                let Some(key) = key.as_key() else { return Ok(false) };
                let (right, work) = right.get(&key);
                meter.pass(work)?;
                let Some(right) = right.transpose()? else { return Ok(false) };
                if !equal_within(meter, &left, &right, below)? {
                    return Ok(false);
                }
            }
            true
        }
        (left, right) => numbers(left, right).is_some_and(|order| order == Some(Ordering::Equal)),
    })
}

/// The order of two values; `None` for numbers of which one is not a number.
pub(super) fn order(meter: &mut Meter, left: &Value<'_>, right: &Value<'_>) -> Result<Option<Ordering>, Failure> {
    Ok(Some(match (left, right) {
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        (Value::Text(left), Value::Text(right)) => {
            meter.read(left.len().min(right.len()))?;
            // The order of UTF-8 bytes is that of code points.
            left.cmp(right)
        }
        (Value::Bytes(left), Value::Bytes(right)) => {
            meter.read(left.len().min(right.len()))?;
            left.cmp(right)
        }
        (Value::Timestamp(left), Value::Timestamp(right)) => left.cmp(right),
        (Value::Duration(left), Value::Duration(right)) => left.cmp(right),
        (left, right) => return numbers(left, right).map_or_else(no_overload, Ok),
    }))
}

/// The order of two numbers. The outer `None`: one of the values is another type. The inner one: one is not a number.
fn numbers(left: &Value<'_>, right: &Value<'_>) -> Option<Option<Ordering>> {
    Some(match (left, right) {
        (Value::Int(left), Value::Int(right)) => Some(left.cmp(right)),
        (Value::Uint(left), Value::Uint(right)) => Some(left.cmp(right)),
        (Value::Double(left), Value::Double(right)) => left.partial_cmp(right),
        (Value::Int(left), Value::Uint(right)) => Some(i128::from(*left).cmp(&i128::from(*right))),
        (Value::Uint(left), Value::Int(right)) => Some(i128::from(*left).cmp(&i128::from(*right))),
        (Value::Int(left), Value::Double(right)) => (*left as f64).partial_cmp(right),
        (Value::Double(left), Value::Int(right)) => left.partial_cmp(&(*right as f64)),
        (Value::Uint(left), Value::Double(right)) => (*left as f64).partial_cmp(right),
        (Value::Double(left), Value::Uint(right)) => left.partial_cmp(&(*right as f64)),
        _ => return None,
    })
}

/// `left in right`: an element of a list, or a key of a map.
fn is_in<'a>(meter: &mut Meter, left: &Value<'a>, right: &Value<'a>) -> Evaluated<'a> {
    match right {
        Value::List(list) => {
            meter.charge(1)?;
            for element in list.elements() {
                if equal(meter, left, &element?)? {
                    return Ok(Value::Bool(true));
                }
            }
            Ok(Value::Bool(false))
        }
        Value::Map(map) => {
            meter.charge(1)?;
            let Some(key) = left.as_key() else { return no_overload() };
            let (found, work) = map.get(&key);
            meter.pass(work)?;
            Ok(Value::Bool(found.is_some()))
        }
        _ => no_overload(),
    }
}

fn add<'a>(meter: &mut Meter, left: &Value<'a>, right: &Value<'a>) -> Evaluated<'a> {
    match (left, right) {
        (Value::Text(left), Value::Text(right)) => {
            meter.make_text(left.len() + right.len())?;
            Ok(Value::text([&**left, &**right].concat()))
        }
        (Value::Bytes(left), Value::Bytes(right)) => {
            meter.make_text(left.len() + right.len())?;
            Ok(Value::Bytes([&**left, &**right].concat().into()))
        }
        (Value::List(left), Value::List(right)) => concat(meter, left, right),
        (Value::Timestamp(time), Value::Duration(duration)) | (Value::Duration(duration), Value::Timestamp(time)) => {
            time.plus(*duration).map(Value::Timestamp)
        }
        (Value::Duration(left), Value::Duration(right)) => {
            left.checked_add(*right).map(Value::Duration).ok_or_else(|| EvalError::Overflow("duration").into())
        }
        (Value::Double(left), Value::Double(right)) => Ok(Value::Double(left + right)),
        _ => arithmetic(BinaryOperator::Add, left, right),
    }
}

/// Two lists as one.
fn concat<'a>(meter: &mut Meter, left: &List<'a>, right: &List<'a>) -> Evaluated<'a> {
    let (left_count, left_work) = left.count();
    let (right_count, right_work) = right.count();
    meter.pass(left_work + right_work)?;
    meter.make_values(left_count + right_count)?;
    let elements: Result<Vec<Value<'a>>, Failure> = left.elements().chain(right.elements()).collect();
    elements.map(Value::list)
}

/// Arithmetic of two numbers of one type, and the differences of times.
fn arithmetic<'a>(operator: BinaryOperator, left: &Value<'a>, right: &Value<'a>) -> Evaluated<'a> {
    use BinaryOperator as B;
    match (left, right) {
        (Value::Int(left), Value::Int(right)) => {
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
            result.map(Value::Int).ok_or_else(|| EvalError::Overflow("integer").into())
        }
        (Value::Uint(left), Value::Uint(right)) => {
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
            result.map(Value::Uint).ok_or_else(|| EvalError::Overflow("unsigned integer").into())
        }
        (Value::Double(left), Value::Double(right)) => match operator {
            B::Subtract => Ok(Value::Double(left - right)),
            B::Multiply => Ok(Value::Double(left * right)),
            B::Divide => Ok(Value::Double(left / right)),
            _ => no_overload(),
        },
        (Value::Timestamp(left), Value::Timestamp(right)) if operator == B::Subtract => {
            left.since(*right).map(Value::Duration)
        }
        (Value::Timestamp(time), Value::Duration(duration)) if operator == B::Subtract => before(*time, *duration),
        (Value::Duration(left), Value::Duration(right)) if operator == B::Subtract => {
            left.checked_sub(*right).map(Value::Duration).ok_or_else(|| EvalError::Overflow("duration").into())
        }
        _ => no_overload(),
    }
}

/// The time that is earlier by a duration.
fn before<'a>(time: Timestamp, duration: i64) -> Evaluated<'a> {
    let negated = duration.checked_neg().ok_or(EvalError::Overflow("duration"))?;
    time.plus(negated).map(Value::Timestamp)
}

/// The value of a key or of a member; the failure if it is absent.
pub(super) fn member<'a>(meter: &mut Meter, map: &Map<'a>, key: &Value<'a>) -> Result<Option<Value<'a>>, Failure> {
    let Some(key) = key.as_key() else { return no_overload() };
    let (found, work) = map.get(&key);
    meter.pass(work)?;
    found.transpose()
}
