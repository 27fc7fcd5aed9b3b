//! The built-in kinds of Kubernetes: one row for each, with all facts that fieldcache needs about it.
//!
//! | file | content |
//! |---|---|
//! | [`table`] | the rows, in the order in which kube-apiserver lists groups and kinds |
//! | [`kind`] | the type of a row |
//! | [`deprecation`] | deprecated versions, and the warnings about them |
//! | [`lookup`] | finds a row, and returns the facts in it |
//! | `served`, `served_version` | the versions that folder mode serves, in the order of discovery |
//! | `schemas` | their OpenAPI documents and schemas, made from k8s-openapi; folder mode only |
//!
//! A new built-in kind is a row in [`table`] and, if `kubectl get` shows more than name and age, a printer in
//! `printer`. The module that uses a value describes its meaning: `extract::builtin` for selectable fields, `printer`
//! for columns, `schema::metadata` for names.

pub mod deprecation;
pub mod kind;
pub mod lookup;
pub mod schemas;
pub mod served;
pub mod served_version;
pub mod table;

#[cfg(test)]
mod tests;

pub use lookup::{deprecation_warning, extractor, find, name_rule, printer, published_fields, zero_values};
