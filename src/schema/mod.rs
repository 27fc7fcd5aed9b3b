//! Structural schemas applied to objects read from files: defaults, pruning, validation, and the rules of metadata.
//!
//! Only folder mode needs this: objects that come from a cluster have been through it. Map: [`node`] is one place of a
//! schema; [`defaults`] fills values in; [`prune`] takes unknown fields out; [`validate`] refuses, with [`format`] for
//! the formats of texts; [`metadata`] knows names, labels and annotations.
//! `x-kubernetes-validations` (CEL rules) are not evaluated: a folder may hold an object that a cluster would refuse
//! by such a rule.

pub mod defaults;
pub mod format;
pub mod metadata;
pub mod node;
pub mod prune;
pub mod validate;

#[cfg(test)]
mod tests;

pub use node::{Node, Resolve};
