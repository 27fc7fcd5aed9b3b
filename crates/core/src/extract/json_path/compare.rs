//! Comparisons of filters: client-go `third_party/forked/golang/template`.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::template::{ComparisonOperator, Literal};
use crate::json::unescape;

/// A value that can be compared. Integers cannot be compared with other numbers, nor texts with numbers. Objects, lists
/// and null cannot be compared.
#[derive(Clone, Debug, PartialEq)]
pub enum Scalar<'a> {
    /// A boolean.
    Bool(bool),
    /// An integer of 64 bits.
    Int(i64),
    /// A byte of a text.
    Byte(u8),
    /// Another number.
    Float(f64),
    /// A text without its quotes and escapes.
    Text(Cow<'a, [u8]>),
}

impl<'a> Scalar<'a> {
    /// Parses the JSON text of a value; `None` for an object, a list or null.
    pub fn of_json(json: &'a [u8]) -> Option<Scalar<'a>> {
        match json {
            b"true" => Some(Scalar::Bool(true)),
            b"false" => Some(Scalar::Bool(false)),
            [b'"', text @ .., b'"'] => Some(Scalar::Text(match unescape(text)? {
                Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
                Cow::Owned(text) => Cow::Owned(text.into_bytes()),
            })),
            [b'-' | b'0'..=b'9', ..] => {
                let number = std::str::from_utf8(json).ok()?;
                number.parse().map(Scalar::Int).ok().or_else(|| number.parse().map(Scalar::Float).ok())
            }
            _ => None,
        }
    }

    /// The value of a literal in a filter.
    pub(super) fn of_literal(literal: &'a Literal) -> Scalar<'a> {
        match literal {
            Literal::Text(text) => Scalar::Text(Cow::Borrowed(text)),
            Literal::Int(int) => Scalar::Int(*int),
            Literal::Float(float) => Scalar::Float(*float),
            Literal::Bool(bool) => Scalar::Bool(*bool),
        }
    }
}

/// Whether `left operator right` is true; `None` if the two values cannot be compared with this operator.
pub(super) fn compare(operator: ComparisonOperator, left: &Scalar<'_>, right: &Scalar<'_>) -> Option<bool> {
    let order = match (left, right) {
        // Booleans have no order.
        (Scalar::Bool(left), Scalar::Bool(right)) => match operator {
            ComparisonOperator::Equal | ComparisonOperator::NotEqual => left.cmp(right),
            ComparisonOperator::Less
            | ComparisonOperator::LessOrEqual
            | ComparisonOperator::Greater
            | ComparisonOperator::GreaterOrEqual => return None,
        },
        (Scalar::Text(left), Scalar::Text(right)) => left.cmp(right),
        (Scalar::Float(left), Scalar::Float(right)) => left.partial_cmp(right)?,
        (left, right) => integer(left)?.cmp(&integer(right)?),
    };
    Some(match operator {
        ComparisonOperator::Equal => order == Ordering::Equal,
        ComparisonOperator::NotEqual => order != Ordering::Equal,
        ComparisonOperator::Less => order == Ordering::Less,
        ComparisonOperator::LessOrEqual => order != Ordering::Greater,
        ComparisonOperator::Greater => order == Ordering::Greater,
        ComparisonOperator::GreaterOrEqual => order != Ordering::Less,
    })
}

/// The scalar as an integer; `None` if it is not an integer or a byte.
fn integer(scalar: &Scalar<'_>) -> Option<i64> {
    match scalar {
        Scalar::Int(int) => Some(*int),
        Scalar::Byte(byte) => Some(i64::from(*byte)),
        Scalar::Bool(_) | Scalar::Float(_) | Scalar::Text(_) => None,
    }
}
