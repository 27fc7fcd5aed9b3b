//! Operators of selectors: the one list of them, with meaning, dialects and names.
//!
//! An [`Operator`] has its operand, an [`OperatorName`] has none. Other modules do not match on operators. They use two
//! properties, which stay complete when an operator is added. [`Operator::values`] are the values that it tests for.
//! [`OperatorName::is_negative`] decides whether it selects the objects with such a value, or those without.
//!
//! # A new operator
//! It needs a variant of both enums here and an arm wherever the compiler then reports a match. A sign of its own in a
//! text form is read in [`super::label`] or [`super::field`]. If Views have it, `kinds::selectors` documents it for
//! their authors.

use std::borrow::Cow;
use std::fmt;

/// How a requirement compares the values of a label or a field, with its operand. Lists of values are sorted and
/// without repetition.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    /// `in`, `=`, `==`: there is a value, and it is one of these.
    In(Vec<String>),
    /// `notin`, `!=`: no value is one of these.
    NotIn(Vec<String>),
    /// There is a value. The empty value of a field is an absent one.
    Exists,
    /// There is no value.
    DoesNotExist,
    /// There is a value, and it is an integer above this.
    GreaterThan(i64),
    /// There is a value, and it is an integer below this.
    LessThan(i64),
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
}

/// Where a requirement is written, which decides the operators that it can have. The `labelSelector` of a request is
/// not in this list: it has every operator, written with signs such as `!=`; see [`super::label`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// The `fieldSelector` of a request, of kube-apiserver too: `=` and `!=` with one value.
    FieldText,
    /// metav1.LabelSelector and metav1.FieldSelectorRequirement, as in SubjectAccessReviews.
    Requirement,
    /// core/v1 NodeSelectorTerm.
    NodeSelector,
    /// The selectors of Views and FieldCaches.
    View,
}

/// The values that an operator tests for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestedValues<'a> {
    /// These values.
    Listed(&'a [String]),
    /// All. The empty value of a field is an absent one.
    Any,
    /// The values that [`Operator::accepts`]: they can only be found by testing each.
    Accepted,
}

/// The operand of an operator, with its list of values in any form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand<Values> {
    /// The operator has none.
    None,
    /// A list of values.
    Values(Values),
    /// A number.
    Number(i64),
}

/// Which operand an operator has.
pub type OperandKind = Operand<()>;

/// A sorted list of values.
pub trait SortedValues {
    /// Whether the list has the value.
    fn has(&self, value: &str) -> bool;
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
    pub const ALL: [OperatorName; 6] = [
        OperatorName::In,
        OperatorName::NotIn,
        OperatorName::Exists,
        OperatorName::DoesNotExist,
        OperatorName::GreaterThan,
        OperatorName::LessThan,
    ];

    /// The name of the operator in objects. It is the same in every dialect except [`Dialect::FieldText`], which has
    /// signs.
    pub fn as_str(self) -> &'static str {
        match self {
            OperatorName::In => "In",
            OperatorName::NotIn => "NotIn",
            OperatorName::Exists => "Exists",
            OperatorName::DoesNotExist => "DoesNotExist",
            OperatorName::GreaterThan => "Gt",
            OperatorName::LessThan => "Lt",
        }
    }

    /// Whether a dialect has the operator.
    pub fn is_in(self, dialect: Dialect) -> bool {
        match self {
            OperatorName::In | OperatorName::NotIn => true,
            OperatorName::Exists | OperatorName::DoesNotExist => dialect != Dialect::FieldText,
            OperatorName::GreaterThan | OperatorName::LessThan => dialect == Dialect::NodeSelector,
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

    /// Whether the operator selects objects without any of the values that it tests for.
    pub fn is_negative(self) -> bool {
        match self {
            OperatorName::NotIn | OperatorName::DoesNotExist => true,
            OperatorName::In | OperatorName::Exists | OperatorName::GreaterThan | OperatorName::LessThan => false,
        }
    }

    /// The kind of its operand. The number in [`Operand::Number`] has no meaning here.
    pub fn operand(self) -> OperandKind {
        match self {
            OperatorName::In | OperatorName::NotIn => Operand::Values(()),
            OperatorName::Exists | OperatorName::DoesNotExist => Operand::None,
            OperatorName::GreaterThan | OperatorName::LessThan => Operand::Number(0),
        }
    }

    /// Whether the operator tests for exactly the values of its operand.
    pub fn lists_values(self) -> bool {
        match self {
            OperatorName::In | OperatorName::NotIn => true,
            OperatorName::Exists | OperatorName::DoesNotExist | OperatorName::GreaterThan | OperatorName::LessThan => {
                false
            }
        }
    }

    /// Whether the operator with this operand tests for this value of a label. A negative operator selects the objects
    /// without such a value.
    pub fn accepts(self, operand: &Operand<impl SortedValues>, value: &str) -> bool {
        let number = || value.parse::<i64>().ok();
        match self {
            OperatorName::In | OperatorName::NotIn => matches!(operand, Operand::Values(values) if values.has(value)),
            OperatorName::Exists | OperatorName::DoesNotExist => true,
            OperatorName::GreaterThan => {
                matches!(operand, Operand::Number(bound) if number().is_some_and(|number| number > *bound))
            }
            OperatorName::LessThan => {
                matches!(operand, Operand::Number(bound) if number().is_some_and(|number| number < *bound))
            }
        }
    }

    /// Whether the operator with this operand tests for this value of a field. An empty value counts as an absent one.
    /// A negative operator selects the objects without such a value.
    pub fn accepts_of_field(self, operand: &Operand<impl SortedValues>, value: &str) -> bool {
        match self {
            OperatorName::Exists | OperatorName::DoesNotExist => !value.is_empty(),
            OperatorName::In | OperatorName::NotIn | OperatorName::GreaterThan | OperatorName::LessThan => {
                self.accepts(operand, value)
            }
        }
    }

    /// The operator with these values as its operand.
    ///
    /// # Errors
    /// [`OperandError`] when it cannot have them.
    pub fn with_values(self, mut values: Vec<String>) -> Result<Operator, OperandError> {
        let number = || match &values[..] {
            [value] => value.parse::<i64>().map_err(|_| OperandError::NotInteger(value.clone())),
            _ => Err(OperandError::NotOne),
        };
        match self {
            OperatorName::GreaterThan => return Ok(Operator::GreaterThan(number()?)),
            OperatorName::LessThan => return Ok(Operator::LessThan(number()?)),
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
    /// The operator `=`: the value is this one.
    pub fn equal_to(value: impl Into<String>) -> Operator {
        Operator::In(vec![value.into()])
    }

    /// The operator `!=`: the value is not this one.
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
        }
    }

    /// The operand.
    pub fn operand(&self) -> Operand<&[String]> {
        match self {
            Operator::In(values) | Operator::NotIn(values) => Operand::Values(values),
            Operator::Exists | Operator::DoesNotExist => Operand::None,
            Operator::GreaterThan(bound) | Operator::LessThan(bound) => Operand::Number(*bound),
        }
    }

    /// The list of values of the operand; empty without one.
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
            Operator::GreaterThan(_) | Operator::LessThan(_) => TestedValues::Accepted,
        }
    }

    /// Whether the operator selects objects without any of the values that it tests for.
    pub fn is_negative(&self) -> bool {
        self.name().is_negative()
    }

    /// The one value that the operator demands, if there is exactly one.
    pub fn demanded(&self) -> Option<&str> {
        match self.values() {
            TestedValues::Listed([value]) if !self.is_negative() => Some(value),
            TestedValues::Listed(_) | TestedValues::Any | TestedValues::Accepted => None,
        }
    }

    /// Whether the operator tests for this value of a label. A negative operator selects the objects without such a
    /// value.
    pub fn accepts(&self, value: &str) -> bool {
        self.name().accepts(&self.operand(), value)
    }

    /// Whether the operator tests for this value of a field. A negative operator selects the objects without such a
    /// value.
    pub fn accepts_of_field(&self, value: &str) -> bool {
        self.name().accepts_of_field(&self.operand(), value)
    }

    /// Whether the operator selects an object with this value of the label; `None`: without the label.
    pub fn matches_label(&self, value: Option<&str>) -> bool {
        value.is_some_and(|value| self.accepts(value)) != self.is_negative()
    }

    /// Whether the operator selects an object by a field. `any` receives a test, and returns whether a value of the
    /// object's field passes it. A field that can have only one value is empty if it is absent.
    pub fn matches_field(&self, any: impl FnOnce(&mut dyn FnMut(&str) -> bool) -> bool) -> bool {
        any(&mut |value| self.accepts_of_field(value)) != self.is_negative()
    }

    /// The narrower of two bounds in one direction, which implies the other; `None` for other operators.
    pub fn narrower(&self, other: &Operator) -> Option<Operator> {
        match (self, other) {
            (Operator::GreaterThan(bound), Operator::GreaterThan(other)) => {
                Some(Operator::GreaterThan(*bound.max(other)))
            }
            (Operator::LessThan(bound), Operator::LessThan(other)) => Some(Operator::LessThan(*bound.min(other))),
            (
                Operator::In(_)
                | Operator::NotIn(_)
                | Operator::Exists
                | Operator::DoesNotExist
                | Operator::GreaterThan(_)
                | Operator::LessThan(_),
                _,
            ) => None,
        }
    }

    /// Displays a requirement on `key` with the signs of a text form: `key=a`, `key in (a,b)`, `!key`, `key>5`.
    /// `escape` returns the text of a value.
    pub fn text<'a>(&'a self, key: &'a str, escape: fn(&str) -> Cow<'_, str>) -> impl fmt::Display + 'a {
        fmt::from_fn(move |formatter| {
            let list = |values: &[String]| values.iter().map(|value| escape(value)).collect::<Vec<_>>().join(",");
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
            }
        })
    }
}

impl SortedValues for &[String] {
    fn has(&self, value: &str) -> bool {
        debug_assert!(self.is_sorted(), "lists of values are sorted: {self:?}");
        self.binary_search_by(|listed| listed.as_str().cmp(value)).is_ok()
    }
}
