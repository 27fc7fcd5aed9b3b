//! Field selectors (apimachinery `fields/selector.go`).

use super::SelectorError;

/// How a field requirement compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldOperator {
    /// `=` or `==`.
    Equals,
    /// `!=`.
    NotEquals,
}

/// One term.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldRequirement {
    /// The label, taken literally.
    pub label: String,
    /// Equal or not.
    pub operator: FieldOperator,
    /// The value, unescaped.
    pub value: String,
}

/// A conjunction of terms, in text-sorted order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    /// The terms; none selects everything.
    pub requirements: Vec<FieldRequirement>,
}

impl FieldSelector {
    /// Parses a selector text.
    ///
    /// # Errors
    /// kube-apiserver's message.
    pub fn parse(_text: &str) -> Result<FieldSelector, SelectorError> {
        unimplemented!()
    }
}
