//! Which labels and values of an object are indexed: all of them, or none.
//!
//! An object with more labels than [`IndexLimits`] allows has no label in the index. One with too many, too long or
//! unknown values of a field has no value of that field there. Its slot is in a set instead. Readers of the index add
//! that set and test the objects themselves. Index entries take memory that all users share; the object itself has all
//! labels and values.

use std::iter::Peekable;

use super::object::{Fields, Object};
use crate::model::FieldIndex;

/// The maximum of one object that is indexed. Of labels, or of values of a field, beyond these limits none is indexed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexLimits {
    /// Number of labels.
    pub labels: usize,
    /// Number of different values of one field.
    pub values: usize,
    /// Bytes of all values of one field together.
    pub value_bytes: usize,
}

impl Default for IndexLimits {
    /// Objects that people write have some ten labels. An indexed value that changes copies a block of up to 128 values, so
    /// the number of values is bounded too.
    fn default() -> IndexLimits {
        IndexLimits { labels: 256, values: 64, value_bytes: 16 << 10 }
    }
}

/// The parts of an object that may be missing in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum IndexedPart {
    /// All labels.
    Labels,
    /// All values of a field.
    Field(FieldIndex),
}

/// The indexed values of an object, and the parts that are not indexed.
#[derive(Debug, Default)]
pub(super) struct IndexableValues<'o> {
    pub(super) values: Vec<(FieldIndex, &'o str)>,
    /// The parts that are not indexed, in order.
    pub(super) missing: Vec<IndexedPart>,
}

impl IndexLimits {
    /// Whether an object with this many labels, and with this many values of all fields together, is searched without a
    /// table of them (see `object`).
    pub(super) fn is_within(&self, labels: usize, values: usize) -> bool {
        labels <= self.labels && values <= self.values
    }

    /// The labels of an object that are indexed: all or none. None for `None`.
    pub(super) fn labels<'o>(&self, object: Option<&'o Object>) -> impl Iterator<Item = (&'o str, &'o str)> {
        object.filter(|object| object.label_count() <= self.labels).into_iter().flat_map(Object::labels)
    }

    /// The indexed values of an object, and the parts that are not indexed. Both are empty for `None`.
    pub(super) fn values<'o>(&self, object: Option<&'o Object>) -> IndexableValues<'o> {
        let Some(object) = object else { return IndexableValues::default() };
        let mut indexed = IndexableValues::default();
        if object.label_count() > self.labels {
            indexed.missing.push(IndexedPart::Labels);
        }
        let mut fields = object.fields().peekable();
        while let Some((field, _)) = fields.peek().copied() {
            if let Some(field) = field.of_unknown() {
                indexed.missing.push(IndexedPart::Field(field));
                fields.next();
                continue;
            }
            if !self.are_values_indexed(field, fields.clone()) {
                indexed.missing.push(IndexedPart::Field(field));
                while fields.next_if(|(index, _)| *index == field).is_some() {}
                continue;
            }
            while let Some(value) = fields.next_if(|(index, _)| *index == field) {
                indexed.values.push(value);
            }
        }
        // Fields with unknown values come last.
        indexed.missing.sort_unstable();
        indexed
    }

    /// Whether the values of `field`, with which `fields` begins, are few and short enough to be indexed.
    fn are_values_indexed(&self, field: FieldIndex, fields: Peekable<Fields<'_>>) -> bool {
        let mut bytes = 0;
        for (count, (_, value)) in (1..).zip(fields.take_while(|(index, _)| *index == field)) {
            bytes += value.len();
            if count > self.values || bytes > self.value_bytes {
                return false;
            }
        }
        true
    }
}
