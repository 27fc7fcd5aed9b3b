//! Structural schemas applied to objects read from files: defaults, pruning, validation, and the rules of metadata.
//!
//! Only folder mode needs this: objects that come from a cluster have been through it. Map: [`node`] is one place of a
//! schema. [`defaults`] fills values in, and [`prune`] removes unknown fields. [`validate`] reports errors, with
//! [`mod@format`] for the formats of texts. [`metadata`] validates names, labels and annotations.
//! `x-kubernetes-validations` (CEL rules) are not evaluated: a folder may contain an object that a cluster would reject
//! by such a rule.

pub mod defaults;
pub mod format;
pub mod metadata;
pub mod node;
pub mod prune;
pub mod validate;

#[cfg(test)]
mod tests;

pub use node::{Resolve, SchemaNode};
