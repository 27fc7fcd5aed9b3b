//! Selectable fields: which paths are right, and what an object's bytes hold at them.
//!
//! Map: [`path`] is the grammar and the schema walk of `selectableFields[].jsonPath`; [`validation`] applies every rule of
//! kube-apiserver to a CustomResourceDefinition and says which causes it would answer with; [`builtin`] is the table of
//! built-in types as data; [`extra`] judges and compiles the fields of a FieldCache; [`extractor`] holds the
//! checked fields of one resource; [`json_path`] reads and follows the paths of printer columns; [`prune`] leaves parts of an object out; `trie` merges their paths, and `scan` runs it over an object's bytes in one pass (its cursor also splits lists and watches in `source`); [`value`] is the one canonical text of a JSON value.
//! `tree` reads JSON of any depth without recursion, and `json` the members of its values; `weight` says how much memory a value takes before it is made. This room knows no store and no selector.

pub mod builtin;
pub mod extra;
pub mod extractor;
pub mod field;
mod invalid_object;
pub mod json_path;
pub mod path;
pub mod prune;
pub(crate) mod scan;
mod trie;
pub mod validation;
pub mod value;

#[cfg(test)]
mod tests;

pub use extra::{ExtraField, ExtraFields};
pub use extractor::Extractor;
pub use field::{Field, FieldRef, Origin, UnsupportedLabel};
pub use invalid_object::InvalidObject;
pub use prune::Prune;
