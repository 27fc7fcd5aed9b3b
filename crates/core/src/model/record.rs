//! An object as a store takes it: bytes, and the values extracted from them in one pass.
//!
//! The store never parses the bytes; `extract` has computed everything that the indexes need. The spans let the server
//! write another resourceVersion, or the metadata alone, without parsing the bytes.

use std::ops::Range;

use bytes::Bytes;

use super::{Key, OwnerHashes, Version};

/// The position of a selectable field in the list of fields that the extractor has.
///
/// `metadata.name` and `metadata.namespace` are not in that list: they are read from the [`Key`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FieldIndex(pub u16);

impl FieldIndex {
    /// This bit marks an entry for unknown values. An extractor has fewer fields than this number,
    /// without [`FieldIndex::SUBJECTS`].
    const UNKNOWN: u16 = 1 << 15;

    /// The subjects and the role of a RoleBinding, as `extract::role_binding` writes them. The field is in no
    /// extractor's list, so selectors of requests cannot use it.
    pub const SUBJECTS: FieldIndex = FieldIndex(FieldIndex::UNKNOWN - 1);

    /// The entry for a field whose values are unknown.
    #[must_use]
    pub fn unknown(self) -> FieldIndex {
        FieldIndex(self.0 | FieldIndex::UNKNOWN)
    }

    /// The field of an entry for unknown values; `None` for other entries.
    pub fn of_unknown(self) -> Option<FieldIndex> {
        (self.0 & FieldIndex::UNKNOWN != 0).then_some(FieldIndex(self.0 & !FieldIndex::UNKNOWN))
    }
}

/// The labels, field values and owners of one object. The texts of labels and values are end to end in one buffer. An object has about a dozen,
/// and a separate string for each would cost more than finding them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexedValues {
    /// The texts in order: key and value of each label, then the values. Every text begins where the one before it
    /// ends.
    buffer: String,
    /// Where key and value of each label end.
    labels: Vec<(usize, usize)>,
    /// Where each value ends.
    values: Vec<(FieldIndex, usize)>,
    /// The owners of the object.
    pub owners: OwnerHashes,
}

impl IndexedValues {
    /// No labels and values yet, with capacity for some. `bytes` is the length of all their texts together.
    pub fn with_capacity(bytes: usize, labels: usize, values: usize) -> IndexedValues {
        IndexedValues {
            buffer: String::with_capacity(bytes),
            labels: Vec::with_capacity(labels),
            values: Vec::with_capacity(values),
            owners: OwnerHashes::default(),
        }
    }

    /// Packs labels sorted by key and values sorted by field; see [`Record::texts`].
    pub fn new<'t>(
        labels: impl IntoIterator<Item = (&'t str, &'t str)>,
        values: impl IntoIterator<Item = (FieldIndex, &'t str)>,
    ) -> IndexedValues {
        let mut texts = IndexedValues::default();
        labels.into_iter().for_each(|(key, value)| texts.push_label(key, value));
        values.into_iter().for_each(|(field, value)| texts.push_value(field, value));
        texts
    }

    /// Adds a label, which must sort after all others. Labels must be added before values.
    pub fn push_label(&mut self, key: &str, value: &str) {
        debug_assert!(self.values.is_empty(), "labels must come before values");
        self.buffer.push_str(key);
        let key_end = self.buffer.len();
        self.buffer.push_str(value);
        self.labels.push((key_end, self.buffer.len()));
    }

    /// Adds a value of a field, which must not sort before any other.
    pub fn push_value(&mut self, field: FieldIndex, value: &str) {
        self.buffer.push_str(value);
        self.values.push((field, self.buffer.len()));
    }

    /// Records that the values of a field are unknown, because there are too many or too long ones. Must be called
    /// after all values are added, in the order of the fields.
    pub fn push_unknown(&mut self, field: FieldIndex) {
        self.push_value(field.unknown(), "");
    }

    /// Whether the values of some field are unknown.
    pub fn has_unknown(&self) -> bool {
        self.values.last().is_some_and(|(field, _)| field.of_unknown().is_some())
    }

    /// The key of the label that was added last; `None` without labels.
    pub fn last_label_key(&self) -> Option<&str> {
        let (key_end, _) = self.labels.last()?;
        let start = self.labels.len().checked_sub(2).map_or(0, |before| self.labels[before].1);
        Some(&self.buffer[start..*key_end])
    }

    /// Keys and values of the labels, in order.
    pub fn labels(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        let mut start = 0;
        self.labels.iter().map(move |&(key_end, end)| {
            let label = (&self.buffer[start..key_end], &self.buffer[key_end..end]);
            start = end;
            label
        })
    }

    /// Fields and values, in order.
    pub fn values(&self) -> impl ExactSizeIterator<Item = (FieldIndex, &str)> {
        let mut start = self.labels.last().map_or(0, |&(_, end)| end);
        self.values.iter().map(move |&(field, end)| {
            let value = (field, &self.buffer[start..end]);
            start = end;
            value
        })
    }
}

/// One object, ready for a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its name.
    pub key: Key,
    /// metadata.resourceVersion.
    pub version: Version,
    /// metadata.labels, sorted by key, keys unique; and the values of the extractor's fields, sorted by field. A
    /// single-valued field has exactly one entry, `""` if the value is absent or null. A many-valued field has any
    /// number of entries, sorted and without repetition. Last come the fields whose values are unknown, because the
    /// object has too many or too long ones: selectors on these fields do not select the object.
    pub texts: IndexedValues,
    /// The object as JSON, without insignificant bytes around it. Objects of custom resources carry kind and
    /// apiVersion; built-in ones are stored in the form that a list of the API server has: without them.
    pub bytes: Bytes,
    /// The range in `bytes` of the text between the quotes of metadata.resourceVersion.
    pub version_span: Range<u32>,
    /// The range in `bytes` of the whole value of `metadata`, with its braces.
    pub metadata_span: Range<u32>,
    /// The hash of metadata.uid, which decides about its shard: [`super::fnv1a`]. That of an empty text without a uid.
    pub uid_hash: u64,
}
