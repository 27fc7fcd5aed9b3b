//! An object at rest: its bytes, and what selectors ask of it.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::model::{FieldIndex, Key, Version};

/// One object of a store. Immutable: a change makes a new one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Its name.
    pub key: Key,
    /// metadata.resourceVersion.
    pub version: Version,
    /// JSON as the source sent it; built-in kinds in list form (without kind and apiVersion).
    pub bytes: Bytes,
    /// Where in `bytes` the digits of metadata.resourceVersion stand.
    pub version_span: Range<u32>,
    /// Where in `bytes` the value of `metadata` stands.
    pub metadata_span: Range<u32>,
    /// Sorted by key; texts are shared with the posting lists.
    pub(super) labels: Box<[(Arc<str>, Arc<str>)]>,
    /// Sorted by field; texts are shared with the posting lists.
    pub(super) values: Box<[(FieldIndex, Arc<str>)]>,
}

impl Object {
    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        let index = self.labels.binary_search_by(|(held, _)| (**held).cmp(key)).ok()?;
        Some(&self.labels[index].1)
    }

    /// All labels, sorted by key.
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        self.labels.iter().map(|(key, value)| (&**key, &**value))
    }

    /// The values of a field: exactly one (`""` when absent) for a single-valued field.
    pub fn values(&self, field: FieldIndex) -> impl Iterator<Item = &str> {
        let start = self.values.partition_point(|(held, _)| *held < field);
        self.values[start..].iter().take_while(move |(held, _)| *held == field).map(|(_, value)| &**value)
    }

    /// The raw JSON of `metadata`.
    pub fn metadata(&self) -> Bytes {
        self.bytes.slice(self.metadata_span.start as usize..self.metadata_span.end as usize)
    }
}
