//! All operators of selectors, with their meaning, their dialects and their names.
//!
//! An [`Operator`] has its operand, an [`OperatorName`] has none. Other modules do not match on operators. They use two
//! properties, which stay complete when an operator is added. [`Operator::values`] are the values that it tests for.
//! [`OperatorName::is_negative`] decides whether it selects the objects with such a value, or those without.
//!
//! # A new operator
//! A new operator needs a variant of both enums here, and an arm wherever the compiler then reports a match. If it has
//! a sign in a text form, the sign is read in [`super::label`] or [`super::field`]. If Views have it,
//! `kinds::selectors` documents it for their authors.

use std::borrow::Cow;
use std::fmt;
use std::ops::RangeInclusive;

use crate::model::integer;

/// How a requirement compares the values of a label or a field, with the operand of the comparison. Lists of values are
/// sorted, and have each value once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    /// `in`, `=`, `==`: there is a value, and it is one of these.
    In(Vec<String>),
    /// `notin`, `!=`: no value is one of these.
    NotIn(Vec<String>),
    /// There is a value. For a field, an empty value counts as absent.
    Exists,
    /// There is no value.
    DoesNotExist,
    /// There is a value, and it is an integer above this one. The value of a field must be in canonical form, without a
    /// plus sign or leading zeros.
    GreaterThan(i64),
    /// There is a value, and it is an integer below this one.
    LessThan(i64),
    /// There is a value, and it is this integer or an integer above it.
    GreaterOrEqual(i64),
    /// There is a value, and it is this integer or an integer below it.
    LessOrEqual(i64),
    /// There is a value, and it begins with this text, which is not empty.
    StartsWith(String),
}

/// An operator without its operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum OperatorName {
    /// See [`Operator::In`].
    In,
    /// See [`Operator::NotIn`].
    NotIn,
    /// See [`Operator::Exists`].
    Exists,
    /// See [`Operator::DoesNotExist`].
    DoesNotExist,
    /// See [`Operator::GreaterThan`].
    GreaterThan,
    /// See [`Operator::LessThan`].
    LessThan,
    /// See [`Operator::GreaterOrEqual`].
    GreaterOrEqual,
    /// See [`Operator::LessOrEqual`].
    LessOrEqual,
    /// See [`Operator::StartsWith`].
    StartsWith,
}

/// Where a requirement is written, which decides the operators that it can have. The label and field selectors of a
/// request are not in this list, because they have signs such as `!=` instead of names. [`super::label`] reads label
/// selectors. [`super::field`] reads field selectors, which can have every operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// The `fieldSelector` that kube-apiserver accepts: `=` and `!=` with one value.
    KubernetesFieldText,
    /// metav1.LabelSelector and metav1.FieldSelectorRequirement, as in SubjectAccessReviews.
    Requirement,
    /// core/v1 NodeSelectorTerm.
    NodeSelector,
    /// The selectors of Views and FieldCaches.
    View,
}

/// The values that an operator tests for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TestedValues<'a> {
    /// These values.
    Listed(&'a [String]),
    /// All values. For a field, an empty value counts as absent.
    Any,
    /// The integers in this range.
    Integers(RangeInclusive<i64>),
    /// The values that begin with this text.
    WithPrefix(&'a str),
}

/// The operand of an operator. `Values` is the type of a list of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand<Values> {
    /// The operator has none.
    None,
    /// A list of values.
    Values(Values),
    /// A number.
    Number(i64),
}

/// Which operand an operator has. The number in [`Operand::Number`] has no meaning.
pub type OperandKind = Operand<()>;

/// How the text form of a selector writes values.
#[derive(Clone, Copy, Debug)]
pub struct Escapes {
    /// Returns the text of a value that follows a sign.
    pub alone: fn(&str) -> Cow<'_, str>,
    /// Returns the text of a value within parentheses.
    pub in_list: fn(&str) -> Cow<'_, str>,
}

impl Escapes {
    /// Values as they are.
    pub const NONE: Escapes = Escapes { alone: |value| Cow::Borrowed(value), in_list: |value| Cow::Borrowed(value) };
}

/// A sorted list of values.
pub trait SortedValues {
    /// Whether the list has the value.
    fn has(&self, value: &str) -> bool;
    /// Whether the value begins with the first value of the list, which is the operand of [`Operator::StartsWith`].
    fn begins(&self, value: &str) -> bool;
}

/// Why an operator cannot have these values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperandError {
    /// The operator needs at least one value.
    Missing,
    /// The operator takes no value.
    Forbidden,
    /// The operator needs exactly one value.
    NotOne,
    /// The operator needs an integer, and this value is not one.
    NotInteger(String),
}

impl OperatorName {
    /// Every operator, in the order in which Kubernetes lists them.
    pub const ALL: [OperatorName; 9] = [
        OperatorName::In,
        OperatorName::NotIn,
        OperatorName::Exists,
        OperatorName::DoesNotExist,
        OperatorName::GreaterThan,
        OperatorName::LessThan,
        OperatorName::GreaterOrEqual,
        OperatorName::LessOrEqual,
        OperatorName::StartsWith,
    ];

    /// The name of the operator in objects. It is the same in every dialect except [`Dialect::KubernetesFieldText`],
    /// which has signs. `Gte`, `Lte` and `StartsWith` are in no dialect.
    pub fn as_str(self) -> &'static str {
        match self {
            OperatorName::In => "In",
            OperatorName::NotIn => "NotIn",
            OperatorName::Exists => "Exists",
            OperatorName::DoesNotExist => "DoesNotExist",
            OperatorName::GreaterThan => "Gt",
            OperatorName::LessThan => "Lt",
            OperatorName::GreaterOrEqual => "Gte",
            OperatorName::LessOrEqual => "Lte",
            OperatorName::StartsWith => "StartsWith",
        }
    }

    /// Whether a dialect has the operator.
    pub fn is_in(self, dialect: Dialect) -> bool {
        match self {
            OperatorName::In | OperatorName::NotIn => true,
            OperatorName::Exists | OperatorName::DoesNotExist => dialect != Dialect::KubernetesFieldText,
            OperatorName::GreaterThan | OperatorName::LessThan => dialect == Dialect::NodeSelector,
            OperatorName::GreaterOrEqual | OperatorName::LessOrEqual | OperatorName::StartsWith => false,
        }
    }

    /// The operators of a dialect.
    pub fn all_in(dialect: Dialect) -> impl Iterator<Item = OperatorName> {
        OperatorName::ALL.into_iter().filter(move |name| name.is_in(dialect))
    }

    /// The operator of that name in a dialect; `None` if the dialect has no such operator.
    pub fn read(name: &str, dialect: Dialect) -> Option<OperatorName> {
        OperatorName::all_in(dialect).find(|operator| operator.as_str() == name)
    }

    /// Whether the operator selects the objects that have none of the values that it tests for. A positive operator
    /// selects the objects that have at least one of these values.
    pub fn is_negative(self) -> bool {
        match self {
            OperatorName::NotIn | OperatorName::DoesNotExist => true,
            OperatorName::In
            | OperatorName::Exists
            | OperatorName::GreaterThan
            | OperatorName::LessThan
            | OperatorName::GreaterOrEqual
            | OperatorName::LessOrEqual
            | OperatorName::StartsWith => false,
        }
    }

    /// The kind of the operand.
    pub fn operand(self) -> OperandKind {
        match self {
            OperatorName::In | OperatorName::NotIn | OperatorName::StartsWith => Operand::Values(()),
            OperatorName::Exists | OperatorName::DoesNotExist => Operand::None,
            OperatorName::GreaterThan
            | OperatorName::LessThan
            | OperatorName::GreaterOrEqual
            | OperatorName::LessOrEqual => Operand::Number(0),
        }
    }

    /// Whether the operator tests for exactly the values of its operand.
    pub fn lists_values(self) -> bool {
        match self {
            OperatorName::In | OperatorName::NotIn => true,
            OperatorName::Exists
            | OperatorName::DoesNotExist
            | OperatorName::GreaterThan
            | OperatorName::LessThan
            | OperatorName::GreaterOrEqual
            | OperatorName::LessOrEqual
            | OperatorName::StartsWith => false,
        }
    }

    /// Whether `value` is one of the values that the operator with this operand tests for, as a value of a label. A
    /// negative operator selects the objects without such a value.
    pub fn accepts(self, operand: &Operand<impl SortedValues>, value: &str) -> bool {
        let compare = |accepts: fn(&i64, &i64) -> bool| match operand {
            Operand::Number(bound) => value.parse::<i64>().is_ok_and(|number| accepts(&number, bound)),
            Operand::None | Operand::Values(_) => false,
        };
        match self {
            OperatorName::In | OperatorName::NotIn => matches!(operand, Operand::Values(values) if values.has(value)),
            OperatorName::Exists | OperatorName::DoesNotExist => true,
            OperatorName::GreaterThan => compare(i64::gt),
            OperatorName::LessThan => compare(i64::lt),
            OperatorName::GreaterOrEqual => compare(i64::ge),
            OperatorName::LessOrEqual => compare(i64::le),
            OperatorName::StartsWith => matches!(operand, Operand::Values(values) if values.begins(value)),
        }
    }

    /// Whether `value` is one of the values that the operator with this operand tests for, as a value of a field. For
    /// Exists and DoesNotExist, an empty value counts as absent. A negative operator selects the objects without such a
    /// value.
    pub fn accepts_of_field(self, operand: &Operand<impl SortedValues>, value: &str) -> bool {
        match self {
            OperatorName::Exists | OperatorName::DoesNotExist => !value.is_empty(),
            // The index of a field has the integers in canonical form in numeric order, separate from other texts. A
            // test without the index must have the same result.
            OperatorName::GreaterThan
            | OperatorName::LessThan
            | OperatorName::GreaterOrEqual
            | OperatorName::LessOrEqual => integer::canonical(value).is_some() && self.accepts(operand, value),
            OperatorName::In | OperatorName::NotIn | OperatorName::StartsWith => self.accepts(operand, value),
        }
    }

    /// The operator with these values as its operand.
    ///
    /// # Errors
    /// The operator cannot have these values as its operand.
    pub fn with_values(self, mut values: Vec<String>) -> Result<Operator, OperandError> {
        let single = |values: &[String]| match values {
            [value] => Ok(value.clone()),
            _ => Err(OperandError::NotOne),
        };
        let number = || {
            let value = single(&values)?;
            value.parse::<i64>().map_err(|_| OperandError::NotInteger(value))
        };
        match self {
            OperatorName::GreaterThan => return Ok(Operator::GreaterThan(number()?)),
            OperatorName::LessThan => return Ok(Operator::LessThan(number()?)),
            OperatorName::GreaterOrEqual => return Ok(Operator::GreaterOrEqual(number()?)),
            OperatorName::LessOrEqual => return Ok(Operator::LessOrEqual(number()?)),
            OperatorName::StartsWith => {
                let prefix = single(&values)?;
                return if prefix.is_empty() { Err(OperandError::Missing) } else { Ok(Operator::StartsWith(prefix)) };
            }
            OperatorName::In | OperatorName::NotIn if values.is_empty() => return Err(OperandError::Missing),
            OperatorName::Exists | OperatorName::DoesNotExist if !values.is_empty() => {
                return Err(OperandError::Forbidden);
            }
            OperatorName::Exists => return Ok(Operator::Exists),
            OperatorName::DoesNotExist => return Ok(Operator::DoesNotExist),
            OperatorName::In | OperatorName::NotIn => {}
        }
        values.sort_unstable();
        values.dedup();
        Ok(if self.is_negative() { Operator::NotIn(values) } else { Operator::In(values) })
    }
}

impl Operator {
    /// The operator `=`: there is a value, and it is this one.
    pub fn equal_to(value: impl Into<String>) -> Operator {
        Operator::In(vec![value.into()])
    }

    /// The operator `!=`: no value is this one. Objects without a value are selected too.
    pub fn not_equal_to(value: impl Into<String>) -> Operator {
        Operator::NotIn(vec![value.into()])
    }

    /// The name, without the operand.
    pub fn name(&self) -> OperatorName {
        match self {
            Operator::In(_) => OperatorName::In,
            Operator::NotIn(_) => OperatorName::NotIn,
            Operator::Exists => OperatorName::Exists,
            Operator::DoesNotExist => OperatorName::DoesNotExist,
            Operator::GreaterThan(_) => OperatorName::GreaterThan,
            Operator::LessThan(_) => OperatorName::LessThan,
            Operator::GreaterOrEqual(_) => OperatorName::GreaterOrEqual,
            Operator::LessOrEqual(_) => OperatorName::LessOrEqual,
            Operator::StartsWith(_) => OperatorName::StartsWith,
        }
    }

    /// The operand. The prefix of [`Operator::StartsWith`] is a list of one value.
    pub fn operand(&self) -> Operand<&[String]> {
        match self {
            Operator::In(values) | Operator::NotIn(values) => Operand::Values(values),
            Operator::StartsWith(prefix) => Operand::Values(std::slice::from_ref(prefix)),
            Operator::Exists | Operator::DoesNotExist => Operand::None,
            Operator::GreaterThan(bound)
            | Operator::LessThan(bound)
            | Operator::GreaterOrEqual(bound)
            | Operator::LessOrEqual(bound) => Operand::Number(*bound),
        }
    }

    /// The list of values of the operand; empty if the operand is no list.
    pub fn listed(&self) -> &[String] {
        match self.operand() {
            Operand::Values(values) => values,
            Operand::None | Operand::Number(_) => &[],
        }
    }

    /// The values that the operator tests for.
    pub fn values(&self) -> TestedValues<'_> {
        match self {
            Operator::In(values) | Operator::NotIn(values) => TestedValues::Listed(values),
            Operator::Exists | Operator::DoesNotExist => TestedValues::Any,
            // There is no integer above `i64::MAX`, and none below `i64::MIN`, so no value is tested for.
            Operator::GreaterThan(i64::MAX) | Operator::LessThan(i64::MIN) => TestedValues::Listed(&[]),
            Operator::GreaterThan(bound) => TestedValues::Integers(bound + 1..=i64::MAX),
            Operator::LessThan(bound) => TestedValues::Integers(i64::MIN..=bound - 1),
            Operator::GreaterOrEqual(bound) => TestedValues::Integers(*bound..=i64::MAX),
            Operator::LessOrEqual(bound) => TestedValues::Integers(i64::MIN..=*bound),
            Operator::StartsWith(prefix) => TestedValues::WithPrefix(prefix),
        }
    }

    /// Whether the operator selects the objects that have none of the values that it tests for.
    pub fn is_negative(&self) -> bool {
        self.name().is_negative()
    }

    /// The value that an object must have to be selected, if only one value is possible; otherwise `None`.
    pub fn demanded(&self) -> Option<&str> {
        match self.values() {
            TestedValues::Listed([value]) if !self.is_negative() => Some(value),
            TestedValues::Listed(_) | TestedValues::Any | TestedValues::Integers(_) | TestedValues::WithPrefix(_) => {
                None
            }
        }
    }

    /// Whether `value` is one of the values that the operator tests for, as a value of a label: see
    /// [`OperatorName::accepts`].
    pub fn accepts(&self, value: &str) -> bool {
        self.name().accepts(&self.operand(), value)
    }

    /// Whether `value` is one of the values that the operator tests for, as a value of a field: see
    /// [`OperatorName::accepts_of_field`].
    pub fn accepts_of_field(&self, value: &str) -> bool {
        self.name().accepts_of_field(&self.operand(), value)
    }

    /// Whether the operator selects an object with this value of the label; `None` if the object does not have the
    /// label.
    pub fn matches_label(&self, value: Option<&str>) -> bool {
        value.is_some_and(|value| self.accepts(value)) != self.is_negative()
    }

    /// Whether the operator selects an object by a field. `any` receives a test for values, and returns whether any
    /// value of the object's field passes the test. For a field that can have only one value, an absent value is the
    /// empty string.
    pub fn matches_field(&self, any: impl FnOnce(&mut dyn FnMut(&str) -> bool) -> bool) -> bool {
        any(&mut |value| self.accepts_of_field(value)) != self.is_negative()
    }

    /// The narrower of two bounds with the same operator, or of two prefixes. It selects only objects that the other
    /// one selects too. `None` for other operators, for different operators, and for two prefixes of which none begins
    /// with the other.
    pub fn narrower(&self, other: &Operator) -> Option<Operator> {
        match (self, other) {
            (Operator::GreaterThan(bound), Operator::GreaterThan(other)) => {
                Some(Operator::GreaterThan(*bound.max(other)))
            }
            (Operator::LessThan(bound), Operator::LessThan(other)) => Some(Operator::LessThan(*bound.min(other))),
            (Operator::GreaterOrEqual(bound), Operator::GreaterOrEqual(other)) => {
                Some(Operator::GreaterOrEqual(*bound.max(other)))
            }
            (Operator::LessOrEqual(bound), Operator::LessOrEqual(other)) => {
                Some(Operator::LessOrEqual(*bound.min(other)))
            }
            (Operator::StartsWith(prefix), Operator::StartsWith(other)) => {
                let (long, short) = if prefix.len() < other.len() { (other, prefix) } else { (prefix, other) };
                long.starts_with(&**short).then(|| Operator::StartsWith(long.clone()))
            }
            (
                Operator::In(_)
                | Operator::NotIn(_)
                | Operator::Exists
                | Operator::DoesNotExist
                | Operator::GreaterThan(_)
                | Operator::LessThan(_)
                | Operator::GreaterOrEqual(_)
                | Operator::LessOrEqual(_)
                | Operator::StartsWith(_),
                _,
            ) => None,
        }
    }

    /// Displays a requirement on `key` with the signs of a text form: `key=a`, `key in (a,b)`, `!key`, `key>5`.
    /// `escapes` writes the values.
    pub fn text<'a>(&'a self, key: &'a str, escapes: Escapes) -> impl fmt::Display + 'a {
        let Escapes { alone: escape, in_list } = escapes;
        fmt::from_fn(move |formatter| {
            let list = |values: &[String]| values.iter().map(|value| in_list(value)).collect::<Vec<_>>().join(",");
            match self {
                Operator::In(values) => match &values[..] {
                    [value] => write!(formatter, "{key}={}", escape(value)),
                    values => write!(formatter, "{key} in ({})", list(values)),
                },
                Operator::NotIn(values) => match &values[..] {
                    [value] => write!(formatter, "{key}!={}", escape(value)),
                    values => write!(formatter, "{key} notin ({})", list(values)),
                },
                Operator::Exists => formatter.write_str(key),
                Operator::DoesNotExist => write!(formatter, "!{key}"),
                Operator::GreaterThan(bound) => write!(formatter, "{key}>{bound}"),
                Operator::LessThan(bound) => write!(formatter, "{key}<{bound}"),
                Operator::GreaterOrEqual(bound) => write!(formatter, "{key}>={bound}"),
                Operator::LessOrEqual(bound) => write!(formatter, "{key}<={bound}"),
                Operator::StartsWith(prefix) => write!(formatter, "{key}^={}", escape(prefix)),
            }
        })
    }
}

impl SortedValues for &[String] {
    fn has(&self, value: &str) -> bool {
        debug_assert!(self.is_sorted(), "lists of values are sorted: {self:?}");
        self.binary_search_by(|listed| listed.as_str().cmp(value)).is_ok()
    }

    fn begins(&self, value: &str) -> bool {
        self.first().is_some_and(|prefix| value.starts_with(prefix.as_str()))
    }
}
