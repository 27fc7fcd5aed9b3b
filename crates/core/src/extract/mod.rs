//! Selectable fields: validates their paths, and extracts their values from the bytes of objects.
//!
//! | file | content |
//! |---|---|
//! | [`path`] | grammar of `selectableFields[].jsonPath`, resolved against a schema |
//! | [`validation`] | kube-apiserver's rules for the selectable fields of a CustomResourceDefinition |
//! | [`builtin`] | the fields of built-in types, as a table |
//! | [`extra`] | validates and compiles the fields of a FieldCache |
//! | [`extractor`] | the compiled fields of one resource; object bytes to a record |
//! | `trie`, `scan` | all paths of an extractor merged, and followed in one pass over an object |
//! | [`value`] | the canonical text of a JSON value |
//! | [`json_path`] | paths of printer columns |
//! | [`prune`] | removes parts of an object |
//!
//! This module does not depend on stores or selectors.

pub mod builtin;
pub mod extra;
pub mod extractor;
pub mod field;
mod invalid_object;
pub mod json_path;
mod object_schema;
pub mod path;
pub mod prune;
pub mod role_binding;
pub mod scan;
mod trie;
pub mod validation;
pub mod value;

#[cfg(test)]
mod tests;

pub use extra::{CompiledField, ExtraFields};
pub use extractor::Extractor;
pub use field::{Field, FieldRef, Origin, UnsupportedLabel};
pub use invalid_object::InvalidObject;
pub use object_schema::{BuiltInName, ObjectSchema};
pub use prune::Prune;
