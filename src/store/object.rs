//! An object at rest: its bytes in little space, and what selectors ask of it.
//!
//! One allocation holds everything that is the object's own, with its count of references; what many objects share (label
//! keys, the dictionary) is behind one pointer. How bytes are compressed is `dictionary`'s; nothing here knows JSON.

use std::ops::Range;
use std::sync::Arc;

use triomphe::ThinArc;

use super::dictionary::{Compressor, Dictionary};
use crate::model::{FieldIndex, Key, Record, Version};

/// Labels of one object that are indexed and whose keys are shared with other objects, at most. An index entry for a key that
/// only one object has takes several times the label itself, and kube-apiserver accepts objects with 60,000 labels. An object
/// with more labels is found by [`Term::ManyLabels`] and its labels are compared one by one.
pub(super) const MOST_LABELS: usize = 256;

/// One object of a store. Immutable: a change makes a new one. Cloning shares it.
///
/// The bytes behind the head are the key, the values of the labels in the order of the layout, the values of the fields
/// with their numbers, and the object's own bytes, in this order. Each text has its length in front. Where the layout has
/// no keys although the object has labels, each key stands in front of its value.
#[derive(Clone)]
pub struct Object(ThinArc<Head, u8>);

/// What is read without a look at the bytes.
struct Head {
    version: Version,
    layout: Arc<Layout>,
    plain_length: u32,
    metadata_start: u32,
    metadata_end: u32,
    version_start: u32,
    /// Where in the packed bytes the object's own begin.
    stored_start: u32,
    /// Labels whose keys stand beside their values: all of them, or none.
    own_labels: u32,
    version_length: u8,
}

/// What many objects of a store have in common.
#[derive(Debug, Default)]
pub(super) struct Layout {
    /// Sorted.
    pub(super) label_keys: Box<[Arc<str>]>,
    /// What the bytes were compressed with; `None`: they are plain.
    pub(super) dictionary: Option<Arc<Dictionary>>,
}

/// What an object is indexed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Term<'o> {
    /// That it has more labels than are indexed: it is in no list of a label.
    ManyLabels,
    /// A label.
    Label(&'o Arc<str>, &'o str),
    /// A field.
    Field(FieldIndex, &'o str),
}

impl Object {
    /// Packs a record. The layout must have been made for the record's labels, or have no keys.
    pub(super) fn pack(record: &Record, layout: Arc<Layout>, compressor: Option<&mut Compressor>) -> Object {
        let compressed = compressor.filter(|_| layout.dictionary.is_some()).and_then(|it| it.compress(&record.bytes));
        let stored = compressed.unwrap_or(&record.bytes);
        let key = record.key.as_str();
        let own_labels = if layout.label_keys.is_empty() { record.texts.labels().len() } else { 0 };
        let own_key = |key: &str| if own_labels > 0 { key.len() + 2 } else { 0 };
        let labels: usize = record.texts.labels().map(|(key, value)| own_key(key) + value.len() + 2).sum();
        let fields: usize = record.texts.values().map(|(_, value)| value.len() + 4).sum();
        let mut packed = Vec::with_capacity(key.len() + 2 + labels + fields + stored.len());
        write_text(key, &mut packed);
        for (key, value) in record.texts.labels() {
            if own_labels > 0 {
                write_text(key, &mut packed);
            }
            write_text(value, &mut packed);
        }
        for (field, value) in record.texts.values() {
            write_number(u64::from(field.0), &mut packed);
            write_text(value, &mut packed);
        }
        let stored_start = short(packed.len());
        packed.extend_from_slice(stored);
        let head = Head {
            version: record.version,
            layout,
            plain_length: short(record.bytes.len()),
            metadata_start: record.metadata_span.start,
            metadata_end: record.metadata_span.end,
            version_start: record.version_span.start,
            stored_start,
            own_labels: short(own_labels),
            version_length: u8::try_from(record.version_span.len()).expect("a version must have at most 20 digits"),
        };
        Object(ThinArc::from_header_and_slice(head, &packed))
    }

    /// An object that is in no store, uncompressed: one that is shown otherwise than it is kept.
    pub fn loose(record: &Record) -> Object {
        Object::pack(record, Arc::default(), None)
    }

    fn head(&self) -> &Head {
        &self.0.header.header
    }

    fn packed(&self) -> &[u8] {
        &self.0.slice
    }

    /// Whether both are the very same object, not only equal.
    pub fn is_same(&self, other: &Object) -> bool {
        std::ptr::eq(self.packed(), other.packed())
    }

    /// The same object with the dictionary of another layout, which must have its label keys.
    pub(super) fn repack(&self, layout: Arc<Layout>, compressor: &mut Compressor) -> Object {
        let json = self.json();
        let stored = compressor.compress(&json).unwrap_or(&json);
        let texts = &self.packed()[..self.packed().len() - self.stored().len()];
        let head = Head { layout, ..*self.head() };
        Object(ThinArc::from_header_and_slice(head, &[texts, stored].concat()))
    }

    pub(super) fn layout(&self) -> &Arc<Layout> {
        &self.head().layout
    }

    /// `namespace/name`, or `name` for a cluster-scoped object.
    pub fn key(&self) -> &str {
        read_text(&mut self.packed()).unwrap_or_default()
    }

    /// The namespace; empty for a cluster-scoped object.
    pub fn namespace(&self) -> &str {
        Key::split(self.key()).0
    }

    /// The name.
    pub fn name(&self) -> &str {
        Key::split(self.key()).1
    }

    /// metadata.resourceVersion.
    pub fn version(&self) -> Version {
        self.head().version
    }

    /// The value of a label. Reads all labels before it: see [`Object::has_many_labels`].
    pub fn label(&self, key: &str) -> Option<&str> {
        if self.head().own_labels > 0 {
            return self.labels().find(|(held, _)| *held == key).map(|(_, value)| value);
        }
        let index = self.head().layout.label_keys.binary_search_by(|held| (**held).cmp(key)).ok()?;
        Texts(self.texts()).nth(index)
    }

    /// Whether it has so many labels that whoever looks for several should read them once.
    pub fn has_many_labels(&self) -> bool {
        self.head().own_labels as usize > MOST_LABELS
    }

    /// All labels, sorted by key.
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut keys = self.head().layout.label_keys.iter();
        let mut own = self.head().own_labels;
        let mut texts = Texts(self.texts());
        std::iter::from_fn(move || {
            let key = if own > 0 {
                own -= 1;
                texts.next()?
            } else {
                keys.next()?
            };
            Some((key, texts.next()?))
        })
    }

    /// The values of a field: exactly one (`""` when absent) for a single-valued field.
    pub fn values(&self, field: FieldIndex) -> impl Iterator<Item = &str> {
        self.fields()
            .skip_while(move |(held, _)| *held < field)
            .take_while(move |(held, _)| *held == field)
            .map(|(_, value)| value)
    }

    fn fields(&self) -> Fields<'_> {
        let mut texts = Texts(self.texts());
        for _ in 0..self.head().layout.label_keys.len() + 2 * self.head().own_labels as usize {
            texts.next();
        }
        Fields(texts.0)
    }

    /// What it is indexed by, in order: labels and fields with their values, except where there are too many.
    pub(super) fn terms(&self) -> Vec<Term<'_>> {
        let keys = &self.head().layout.label_keys;
        let mut terms: Vec<Term<'_>> =
            keys.iter().zip(Texts(self.texts())).map(|(key, value)| Term::Label(key, value)).collect();
        if self.has_many_labels() {
            terms.push(Term::ManyLabels);
        }
        // Marks come after all values.
        let marks: Vec<FieldIndex> =
            self.fields().map(|(field, _)| field).filter(|field| field.is_overflow()).collect();
        let values = self.fields().filter(|(field, _)| !marks.contains(&field.overflow()) || field.is_overflow());
        terms.extend(values.map(|(field, value)| Term::Field(field, value)));
        // Labels come sorted by key and fields by number; values of one field come as they stand in the object.
        terms.sort_unstable();
        terms
    }

    /// Whether it has the same labels and field values as another one: then no index changes.
    pub(super) fn has_terms_of(&self, other: &Object) -> bool {
        self.head().own_labels == other.head().own_labels
            && self.texts() == other.texts()
            && (Arc::ptr_eq(&self.head().layout, &other.head().layout)
                || self.head().layout.label_keys == other.head().layout.label_keys)
    }

    fn texts(&self) -> &[u8] {
        let mut texts = &self.packed()[..self.head().stored_start as usize];
        read_text(&mut texts);
        texts
    }

    fn stored(&self) -> &[u8] {
        &self.packed()[self.head().stored_start as usize..]
    }

    /// Size of the object as JSON, in bytes.
    pub fn length(&self) -> usize {
        self.head().plain_length as usize
    }

    /// JSON as the source sent it; built-in kinds in list form (without kind and apiVersion).
    pub fn json(&self) -> Vec<u8> {
        let mut json = Vec::with_capacity(self.length());
        self.write_json(&mut json);
        json
    }

    /// Appends the object as JSON; see [`Object::json`].
    pub fn write_json(&self, out: &mut Vec<u8>) {
        match &self.head().layout.dictionary {
            // What does not become smaller is kept as it is.
            Some(dictionary) if self.stored().len() < self.length() => {
                dictionary.decompress(self.stored(), self.length(), out);
            }
            _ => out.extend_from_slice(self.stored()),
        }
    }

    /// Where in the JSON the digits of metadata.resourceVersion stand.
    pub fn version_span(&self) -> Range<usize> {
        let start = self.head().version_start as usize;
        start..start + usize::from(self.head().version_length)
    }

    /// Where in the JSON the value of `metadata` stands.
    pub fn metadata_span(&self) -> Range<usize> {
        self.head().metadata_start as usize..self.head().metadata_end as usize
    }

    /// What the object takes in memory beside what it shares, in bytes.
    pub fn held_bytes(&self) -> usize {
        // The pointer to it; the count of references and the length stand before the head.
        3 * size_of::<usize>() + size_of::<Head>() + self.packed().len()
    }
}

impl PartialEq for Object {
    fn eq(&self, other: &Object) -> bool {
        (self.version(), self.key()) == (other.version(), other.key()) && self.json() == other.json()
    }
}

impl Eq for Object {}

impl std::fmt::Debug for Object {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Object")
            .field("key", &self.key())
            .field("version", &self.version())
            .field("terms", &self.terms())
            .finish_non_exhaustive()
    }
}

fn short(length: usize) -> u32 {
    u32::try_from(length).expect("an object must be shorter than 4 GiB; `extract` checks it")
}

/// Texts come from `&str`, so they are UTF-8; looking again costs some nanoseconds and saves an unsafe block.
fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("packed texts must be UTF-8")
}

/// Seven bits a byte, the lowest first.
fn write_number(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn write_text(text: &str, out: &mut Vec<u8>) {
    write_number(text.len() as u64, out);
    out.extend_from_slice(text.as_bytes());
}

fn read_number<'b>(bytes: &mut &'b [u8]) -> Option<usize> {
    let mut number = 0;
    let mut shift = 0;
    loop {
        let (&byte, rest): (&'b u8, &'b [u8]) = bytes.split_first()?;
        *bytes = rest;
        number |= usize::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
        shift += 7;
    }
}

fn read_text<'b>(bytes: &mut &'b [u8]) -> Option<&'b str> {
    let length = read_number(bytes)?;
    let (value, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(text(value))
}

/// Values, one after another.
struct Texts<'b>(&'b [u8]);

impl<'b> Iterator for Texts<'b> {
    type Item = &'b str;

    fn next(&mut self) -> Option<&'b str> {
        read_text(&mut self.0)
    }
}

/// Values with the numbers of their fields.
struct Fields<'b>(&'b [u8]);

impl<'b> Iterator for Fields<'b> {
    type Item = (FieldIndex, &'b str);

    fn next(&mut self) -> Option<(FieldIndex, &'b str)> {
        let number = read_number(&mut self.0)?;
        Some((FieldIndex(u16::try_from(number).ok()?), read_text(&mut self.0)?))
    }
}
