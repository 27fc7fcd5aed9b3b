//! Label selectors (apimachinery `labels/selector.go`).

use super::SelectorError;

/// How a label requirement compares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LabelOperator {
    /// `in`, `=`, `==`: the key is there with one of the values.
    In(Vec<String>),
    /// `notin`, `!=`: the key is absent or has none of the values.
    NotIn(Vec<String>),
    /// The key is there.
    Exists,
    /// The key is absent.
    DoesNotExist,
    /// The key is there with an integer above this.
    GreaterThan(i64),
    /// The key is there with an integer below this.
    LessThan(i64),
}

/// One requirement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelRequirement {
    /// The label key.
    pub key: String,
    /// The comparison; value sets are sorted and without repetition.
    pub operator: LabelOperator,
}

/// A conjunction of requirements, sorted by key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    /// The requirements; none selects everything.
    pub requirements: Vec<LabelRequirement>,
}

impl LabelRequirement {
    /// Whether an object whose label of this key is `value` (or absent) satisfies it.
    pub fn matches(&self, _value: Option<&str>) -> bool {
        unimplemented!()
    }
}

impl LabelSelector {
    /// Parses a selector text.
    ///
    /// # Errors
    /// kube-apiserver's message.
    pub fn parse(_text: &str) -> Result<LabelSelector, SelectorError> {
        unimplemented!()
    }
}
