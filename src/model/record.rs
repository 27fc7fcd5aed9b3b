//! An object as a store takes it: bytes, and what was read from them in one pass.
//!
//! The store never looks into the bytes; `extract` made everything that the indexes need. The spans let the server
//! rewrite the two things that may differ from the source's bytes (design: "bytes are the server's") by splicing.

use std::ops::Range;

use bytes::Bytes;

use super::{Key, Version};

/// Which selectable field of a plan: its position in the plan's field list.
///
/// `metadata.name` and `metadata.namespace` are not in that list: they are read from the [`Key`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FieldIndex(pub u16);

/// One object, ready for a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its name.
    pub key: Key,
    /// metadata.resourceVersion.
    pub version: Version,
    /// metadata.labels, sorted by key, keys unique.
    pub labels: Vec<(String, String)>,
    /// Values of the plan's fields, sorted by field. A single-valued field has exactly one entry, `""` when the value
    /// is absent or null; a many-valued field has none to many, without repetition.
    pub values: Vec<(FieldIndex, String)>,
    /// The object as JSON, without insignificant bytes around it. Objects of custom resources carry kind and
    /// apiVersion; built-in ones are kept in the form that a list of the API server has: without them.
    pub bytes: Bytes,
    /// Where in `bytes` the text between the quotes of metadata.resourceVersion stands.
    pub version_span: Range<u32>,
    /// Where in `bytes` the whole value of `metadata` stands, braces included.
    pub metadata_span: Range<u32>,
}
