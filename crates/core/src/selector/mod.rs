//! Label and field selectors: parsing of text and JSON, matching, and printing back.
//!
//! [`label`] has the label selector of Kubernetes and [`field`] its field selector. [`operator`] is the one list of
//! operators, with the dialects that have them. [`wire`] reads `matchLabels` and `matchExpressions`. [`syntax`] checks
//! label keys, label values and names. [`shard`] is a part of the objects by ranges of a hash. [`problem`] is one error
//! about a field of a document. Selectors do not depend on an index; `query` plans them.

mod error;
mod extended;
pub mod field;
pub mod label;
pub mod operator;
pub mod problem;
pub mod shard;
pub mod syntax;
pub mod wire;

#[cfg(test)]
mod tests;

pub use error::SelectorError;
pub use field::{FieldRequirement, FieldSelector};
pub use label::{LabelRequirement, LabelSelector};
pub use operator::{Dialect, Escapes, Operand, OperandError, Operator, OperatorName, SortedValues, TestedValues};
pub use problem::{FieldError, FieldErrorType};
pub use shard::{HashRange, Shard, ShardKey};
pub use wire::{FieldExpression, LabelSelection};
