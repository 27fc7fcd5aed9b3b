//! Label and field selectors: text and wire forms in, requirements out; matching and printing back.
//!
//! Map: [`label`] is Kubernetes' label selector, whole; [`field`] is its field selector; [`wire`] is the
//! matchLabels / matchExpressions form; [`syntax`] is what a label key, a label value and a name may look like;
//! [`problem`] is one fault of a document. A selector does not know that an index exists: `query` plans it.

mod error;
pub mod field;
pub mod label;
pub mod operator;
pub mod problem;
pub mod syntax;
pub mod wire;

#[cfg(test)]
mod tests;

pub use error::SelectorError;
pub use field::{FieldRequirement, FieldSelector};
pub use label::{LabelRequirement, LabelSelector};
pub use operator::{Dialect, Operand, OperandError, Operator, OperatorName, SortedValues, TestedValues};
pub use problem::{Problem, Reason};
pub use wire::{FieldExpression, LabelSelection};
