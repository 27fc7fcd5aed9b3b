//! A stored object: its compressed bytes, and the values that selectors use.
//!
//! One allocation contains everything of the object, with its reference count. Data that many objects share (label
//! keys, the dictionary) is behind one pointer. An object with many labels or values does not share its label keys. Its
//! bytes have the keys, and a table of the offset of each text, so that a lookup need not read all texts. `dictionary`
//! compresses bytes, and `indexed` decides which labels and values are indexed. This module does not parse JSON.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use triomphe::ThinArc;

use super::dictionary::{Compressor, Dictionary};
use super::heap::allocated;
use crate::model::owners::MOST_OWNERS;
use crate::model::{FieldIndex, Key, OwnerHashes, Record, Version};

/// One object of a store. It is immutable: a change creates a new one. Clones share the same memory.
///
/// After the head, the bytes have these parts, in this order. Each text has its length before it.
///
/// - the key of the object
/// - the number of its owners and the hashes of their uids, or `TOO_MANY_OWNERS` alone
/// - the values of its labels, in the order of the keys in the layout
/// - its field values, each after the number of its field
/// - its JSON
///
/// An object that does not share its label keys (`LabelKeys::Own`) has a `Table` instead of the labels and field
/// values. The table contains the label keys too.
#[derive(Clone)]
pub struct Object(ThinArc<Head, u8>);

/// The data of an object that is read without the packed bytes. Offsets are in bytes.
struct Head {
    /// metadata.resourceVersion.
    version: Version,
    /// See [`Object::uid_hash`].
    uid_hash: u64,
    layout: Arc<Layout>,
    /// The length of the JSON in bytes, before compression.
    plain_length: u32,
    /// Where the value of `metadata` begins in the JSON.
    metadata_start: u32,
    /// Where the value of `metadata` ends in the JSON.
    metadata_end: u32,
    /// Where the digits of metadata.resourceVersion begin in the JSON.
    version_start: u32,
    /// Where the JSON, compressed or not, begins in the packed bytes.
    stored_start: u32,
    lengths: Lengths,
}

/// The number of digits of the version, and the length of the object in another format (such as protobuf) when that was
/// measured. Both share four bytes, as many as the digits alone would take.
struct Lengths(AtomicU32);

impl Lengths {
    /// Bits for the number of digits.
    const DIGITS: u32 = 5;
    /// Bits for the number of the format; the length has the remaining 23 bits.
    const FORMAT: u32 = 4;

    /// Lengths of an object whose version has this number of digits, without a length in another format.
    fn of_digits(digits: usize) -> Lengths {
        assert!(digits >> Lengths::DIGITS == 0, "a version must have fewer than 32 digits");
        Lengths(AtomicU32::new(digits as u32))
    }

    /// The number of digits of the version.
    fn digits(&self) -> usize {
        (self.0.load(Ordering::Relaxed) & ((1 << Lengths::DIGITS) - 1)) as usize
    }

    /// The stored length of the object in a format, in bytes; `None` if no length is stored for this format. `format`
    /// is a number from 1 to 15.
    fn noted(&self, format: u8) -> Option<usize> {
        let noted = self.0.load(Ordering::Relaxed) >> Lengths::DIGITS;
        (noted & ((1 << Lengths::FORMAT) - 1) == u32::from(format)).then_some((noted >> Lengths::FORMAT) as usize)
    }

    /// Stores the length in a format, and replaces a stored length. Does nothing for a format that is not from 1 to 15,
    /// and for a length of 8 MiB or more, which does not fit into 23 bits.
    fn note(&self, format: u8, length: usize) {
        let above = Lengths::DIGITS + Lengths::FORMAT;
        if format != 0 && format >> Lengths::FORMAT == 0 && length >> (u32::BITS - above) == 0 {
            let noted = (length as u32) << Lengths::FORMAT | u32::from(format);
            // Format and length are in one atomic store, so that no reader mistakes the length of one format for the
            // length of another format.
            self.0.store(noted << Lengths::DIGITS | self.digits() as u32, Ordering::Relaxed);
        }
    }
}

/// The data that many objects of a store share.
#[derive(Debug, Default)]
pub(super) struct Layout {
    pub(super) label_keys: LabelKeys,
    /// The dictionary of the compressed bytes; `None` if they are not compressed.
    pub(super) dictionary: Option<Arc<Dictionary>>,
}

/// Where the label keys of an object are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LabelKeys {
    /// The keys are in the layout, sorted.
    Shared(Box<[Arc<str>]>),
    /// The keys are in the bytes of the object.
    Own,
}

impl Default for LabelKeys {
    fn default() -> LabelKeys {
        LabelKeys::Shared(Box::default())
    }
}

impl Object {
    /// Packs a record. `layout` must have the label keys of the record. `compressor` must use the dictionary of
    /// `layout`. The JSON is not compressed without a compressor, or if compression would not make it shorter.
    pub(super) fn pack(record: &Record, layout: Arc<Layout>, compressor: Option<&mut Compressor>) -> Object {
        let compressed = compressor.filter(|_| layout.dictionary.is_some()).and_then(|it| it.compress(&record.bytes));
        let stored = compressed.unwrap_or(&record.bytes);
        let key = record.key.as_str();
        // An estimate for the capacity: the length of a text and the number of a field mostly take one or two bytes
        // each.
        let labels: usize = record.texts.labels().map(|(_, value)| value.len() + 2).sum();
        let fields: usize = record.texts.values().map(|(_, value)| value.len() + 4).sum();
        let mut packed = Vec::with_capacity(key.len() + 16 + labels + fields + stored.len());
        write_text(key, &mut packed);
        write_owners(&record.texts.owners, &mut packed);
        match &layout.label_keys {
            LabelKeys::Shared(_) => {
                for (_, value) in record.texts.labels() {
                    write_text(value, &mut packed);
                }
                for (field, value) in record.texts.values() {
                    write_field(field, value, &mut packed);
                }
            }
            LabelKeys::Own => Table::write(record, &mut packed),
        }
        let stored_start = short(packed.len());
        packed.extend_from_slice(stored);
        let head = Head {
            version: record.version,
            uid_hash: record.uid_hash,
            layout,
            plain_length: short(record.bytes.len()),
            metadata_start: record.metadata_span.start,
            metadata_end: record.metadata_span.end,
            version_start: record.version_span.start,
            stored_start,
            lengths: Lengths::of_digits(record.version_span.len()),
        };
        Object(ThinArc::from_header_and_slice(head, &packed))
    }

    /// This object as a View or a request shows it: with the JSON `json`, and outside of a store. `metadata` is the
    /// range of the value of `metadata` in `json`, and `version_start` is the offset of the digits of its
    /// resourceVersion. The result has no owners, labels or field values, because objects are selected before they are
    /// pruned.
    #[must_use]
    pub fn shown(&self, json: &[u8], metadata: Range<usize>, version_start: usize) -> Object {
        let mut packed = Vec::with_capacity(self.key().len() + 3 + json.len());
        write_text(self.key(), &mut packed);
        write_owners(&OwnerHashes::default(), &mut packed);
        let stored_start = short(packed.len());
        packed.extend_from_slice(json);
        let head = Head {
            version: self.version(),
            uid_hash: self.uid_hash(),
            layout: Arc::default(),
            plain_length: short(json.len()),
            metadata_start: short(metadata.start),
            metadata_end: short(metadata.end),
            version_start: short(version_start),
            stored_start,
            lengths: Lengths::of_digits(self.head().lengths.digits()),
        };
        Object(ThinArc::from_header_and_slice(head, &packed))
    }

    /// An uncompressed object outside of a store, which shares no keys.
    #[cfg(test)]
    pub(crate) fn with_own_keys(record: &Record) -> Object {
        Object::pack(record, Arc::new(Layout { label_keys: LabelKeys::Own, dictionary: None }), None)
    }

    /// The data that is read without the packed bytes.
    fn head(&self) -> &Head {
        &self.0.header.header
    }

    /// All bytes after the head; [`Object`] describes them.
    fn packed(&self) -> &[u8] {
        &self.0.slice
    }

    /// Whether both are the same object in memory.
    pub fn is_same(&self, other: &Object) -> bool {
        std::ptr::eq(self.packed(), other.packed())
    }

    /// The object, compressed with the dictionary of another layout. `layout` must have the label keys of this object,
    /// and `compressor` must use the dictionary of `layout`.
    pub(super) fn repack(&self, layout: Arc<Layout>, compressor: &mut Compressor) -> Object {
        let json = self.json();
        let stored = compressor.compress(&json).unwrap_or(&json);
        let texts = &self.packed()[..self.packed().len() - self.stored().len()];
        let head = Head { layout, lengths: Lengths::of_digits(self.head().lengths.digits()), ..*self.head() };
        Object(ThinArc::from_header_and_slice(head, &[texts, stored].concat()))
    }

    /// The data that the object shares with others.
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

    /// The hash of metadata.uid ([`crate::model::fnv1a`]), which decides the shard of the object. The hash is stored,
    /// because the uid itself is only in the compressed JSON.
    pub fn uid_hash(&self) -> u64 {
        self.head().uid_hash
    }

    /// The value of a label; `None` if the object does not have the label.
    pub fn label(&self, key: &str) -> Option<&str> {
        match &self.head().layout.label_keys {
            LabelKeys::Shared(keys) => {
                let index = keys.binary_search_by(|other| (**other).cmp(key)).ok()?;
                Texts(self.texts()).nth(index)
            }
            LabelKeys::Own => Table::parse(self.texts()).label(key),
        }
    }

    /// The number of labels.
    pub fn label_count(&self) -> usize {
        match &self.head().layout.label_keys {
            LabelKeys::Shared(keys) => keys.len(),
            LabelKeys::Own => Table::parse(self.texts()).labels,
        }
    }

    /// All labels, sorted by key.
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        match &self.head().layout.label_keys {
            LabelKeys::Shared(keys) => Labels { keys: keys.iter(), own: 0, texts: Texts(self.texts()) },
            LabelKeys::Own => {
                let table = Table::parse(self.texts());
                Labels { keys: [].iter(), own: table.labels, texts: Texts(table.entries) }
            }
        }
    }

    /// The values of a field, sorted. A field that can have only one value has exactly one, `""` if it is absent. Empty
    /// if the values are unknown ([`Object::has_unknown`]).
    pub fn values(&self, field: FieldIndex) -> impl Iterator<Item = &str> {
        let fields = match &self.head().layout.label_keys {
            LabelKeys::Shared(_) => self.fields(),
            LabelKeys::Own => {
                let table = Table::parse(self.texts());
                table.from(table.first_at_or_above(field, ""))
            }
        };
        fields
            .skip_while(move |(other, _)| *other < field)
            .take_while(move |(other, _)| *other == field)
            .map(|(_, value)| value)
    }

    /// Whether the object has more labels or values than [`super::IndexLimits`] allows. Such an object has a table of
    /// its labels and values, so [`Object::label`] and [`Object::has_value`] use binary search instead of reading all
    /// texts.
    pub fn has_many_texts(&self) -> bool {
        self.head().layout.label_keys == LabelKeys::Own
    }

    /// Whether the field has this value; false if the values of the field are unknown.
    pub fn has_value(&self, field: FieldIndex, value: &str) -> bool {
        match &self.head().layout.label_keys {
            LabelKeys::Shared(_) => self.values(field).any(|other| other == value),
            LabelKeys::Own => {
                let table = Table::parse(self.texts());
                table.from(table.first_at_or_above(field, value)).next() == Some((field, value))
            }
        }
    }

    /// Whether a value of the field begins with this prefix; false if the values of the field are unknown.
    pub fn has_value_with_prefix(&self, field: FieldIndex, prefix: &str) -> bool {
        match &self.head().layout.label_keys {
            LabelKeys::Shared(_) => self.values(field).any(|value| value.starts_with(prefix)),
            LabelKeys::Own => {
                let table = Table::parse(self.texts());
                let first = table.from(table.first_at_or_above(field, prefix)).next();
                first.is_some_and(|(other, value)| other == field && value.starts_with(prefix))
            }
        }
    }

    /// The number of labels and values of the object.
    pub fn text_count(&self) -> usize {
        match &self.head().layout.label_keys {
            LabelKeys::Shared(keys) => keys.len() + self.fields().count(),
            LabelKeys::Own => Table::parse(self.texts()).offsets.len(),
        }
    }

    /// Whether the values of a field are unknown, because the object has too many or too long ones.
    pub fn has_unknown(&self, field: FieldIndex) -> bool {
        // A field with unknown values has this entry instead of its values.
        self.has_value(field.unknown(), "")
    }

    /// Whether the values of some field are unknown.
    pub fn has_unknown_values(&self) -> bool {
        match &self.head().layout.label_keys {
            LabelKeys::Shared(_) => self.fields().any(|(field, _)| field.of_unknown().is_some()),
            LabelKeys::Own => {
                let table = Table::parse(self.texts());
                // The entries for unknown values come last, so any entry from here on is one.
                table.from(table.first_at_or_above(FieldIndex(0).unknown(), "")).next().is_some()
            }
        }
    }

    /// The values of all fields with the numbers of their fields, in order. A field with unknown values has the entry
    /// [`FieldIndex::unknown`] instead.
    pub(super) fn fields(&self) -> Fields<'_> {
        match &self.head().layout.label_keys {
            LabelKeys::Shared(keys) => {
                // The values of the labels come before those of the fields.
                let mut texts = Texts(self.texts());
                for _ in 0..keys.len() {
                    texts.next();
                }
                Fields(texts.0)
            }
            LabelKeys::Own => {
                let table = Table::parse(self.texts());
                table.from(table.labels)
            }
        }
    }

    /// The hashes of the uids of the owners ([`crate::model::fnv1a`]), sorted; `None` if the object has more than
    /// [`MOST_OWNERS`].
    pub(super) fn owner_hashes(&self) -> Option<impl Iterator<Item = u64> + '_> {
        let mut bytes = self.owner_bytes();
        let number = read_number(&mut bytes).unwrap_or_default();
        (number != TOO_MANY_OWNERS).then(|| bytes.as_chunks::<8>().0.iter().map(|hash| u64::from_le_bytes(*hash)))
    }

    /// The packed owners, which are equal for equal owners.
    pub(super) fn owner_bytes(&self) -> &[u8] {
        let packed = self.owners_and_texts();
        &packed[..packed.len() - without_owners(packed).len()]
    }

    /// Whether this object has the same owners, labels and field values as another one. Then a change from one to the
    /// other changes no index.
    pub(super) fn has_terms_of(&self, other: &Object) -> bool {
        self.owners_and_texts() == other.owners_and_texts()
            && (Arc::ptr_eq(&self.head().layout, &other.head().layout)
                || self.head().layout.label_keys == other.head().layout.label_keys)
    }

    /// The packed labels and field values, without the key of the object, its owners and its JSON.
    fn texts(&self) -> &[u8] {
        without_owners(self.owners_and_texts())
    }

    /// The packed owners, labels and field values.
    fn owners_and_texts(&self) -> &[u8] {
        let mut packed = &self.packed()[..self.head().stored_start as usize];
        read_text(&mut packed);
        packed
    }

    /// The JSON as it is stored: compressed, or plain if compression would not make it shorter.
    fn stored(&self) -> &[u8] {
        &self.packed()[self.head().stored_start as usize..]
    }

    /// Size of the object as JSON, in bytes.
    pub fn length(&self) -> usize {
        self.head().plain_length as usize
    }

    /// The length of the object in a format, in bytes, if the last [`Object::note_length`] was for this format;
    /// otherwise `None`. Formats have numbers from 1 to 15, which the callers assign.
    pub fn noted_length(&self, format: u8) -> Option<usize> {
        self.head().lengths.noted(format).filter(|_| format != 0)
    }

    /// Stores the length of the object in a format, in bytes, unless it is 8 MiB or more. Only the length that was
    /// noted last is kept.
    pub fn note_length(&self, format: u8, length: usize) {
        self.head().lengths.note(format, length);
    }

    /// The object as JSON, as the source sent it. Objects of built-in kinds are in the form of list items, without
    /// `kind` and `apiVersion`.
    pub fn json(&self) -> Vec<u8> {
        let mut json = Vec::with_capacity(self.length());
        self.write_json(&mut json);
        json
    }

    /// Appends the object as JSON; see [`Object::json`].
    pub fn write_json(&self, out: &mut Vec<u8>) {
        match &self.head().layout.dictionary {
            // JSON that compression would not make shorter is stored as it is, with its full length.
            Some(dictionary) if self.stored().len() < self.length() => {
                dictionary.decompress(self.stored(), self.length(), out);
            }
            _ => out.extend_from_slice(self.stored()),
        }
    }

    /// The range of the digits of metadata.resourceVersion in the JSON.
    pub fn version_span(&self) -> Range<usize> {
        let start = self.head().version_start as usize;
        start..start + self.head().lengths.digits()
    }

    /// The range of the value of `metadata` in the JSON.
    pub fn metadata_span(&self) -> Range<usize> {
        self.head().metadata_start as usize..self.head().metadata_end as usize
    }

    /// The memory of the object without the layout, which it shares with others, in bytes.
    pub fn held_bytes(&self) -> usize {
        // The allocation begins with the reference count and ends with the length.
        allocated(2 * size_of::<usize>() + size_of::<Head>() + self.packed().len())
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
            .field("labels", &self.labels().collect::<Vec<_>>())
            .field("fields", &self.fields().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

/// A length or offset in an object as 32 bits.
fn short(length: usize) -> u32 {
    u32::try_from(length).expect("an object must be shorter than 4 GiB; `extract` checks it")
}

/// Packed bytes as a string. They were written from a `&str`, so they are UTF-8. They are checked nevertheless, which
/// takes some nanoseconds and avoids an unsafe block.
fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("packed texts must be UTF-8")
}

/// Writes a varint: seven bits a byte, the lowest first.
fn write_number(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Writes a text after its length in bytes, a varint.
fn write_text(text: &str, out: &mut Vec<u8>) {
    write_number(text.len() as u64, out);
    out.extend_from_slice(text.as_bytes());
}

/// Reads a varint and removes it from `bytes`; `None` if `bytes` ends before the varint.
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

/// Reads a length and the text after it, and removes both from `bytes`; `None` if `bytes` ends before the text.
fn read_text<'b>(bytes: &mut &'b [u8]) -> Option<&'b str> {
    #[cfg(test)]
    super::text_reads::record();
    let length = read_number(bytes)?;
    let (value, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(text(value))
}

/// What is stored instead of the number of owners of an object that has more than [`MOST_OWNERS`].
const TOO_MANY_OWNERS: usize = MOST_OWNERS + 1;

/// Writes the number of owners of an object, and the hashes of their uids; or [`TOO_MANY_OWNERS`] alone.
fn write_owners(owners: &OwnerHashes, out: &mut Vec<u8>) {
    match owners {
        OwnerHashes::TooMany => write_number(TOO_MANY_OWNERS as u64, out),
        OwnerHashes::All(hashes) => {
            write_number(hashes.len() as u64, out);
            hashes.iter().for_each(|hash| out.extend_from_slice(&hash.to_le_bytes()));
        }
    }
}

/// The bytes after the packed owners with which `packed` begins.
fn without_owners(mut packed: &[u8]) -> &[u8] {
    match read_number(&mut packed) {
        None | Some(TOO_MANY_OWNERS) => packed,
        Some(number) => packed.get(8 * number..).unwrap_or_default(),
    }
}

/// Writes the number of a field and one of its values.
fn write_field(field: FieldIndex, value: &str, out: &mut Vec<u8>) {
    write_number(u64::from(field.0), out);
    write_text(value, out);
}

/// Reads texts that are packed one after another.
struct Texts<'b>(&'b [u8]);

impl<'b> Iterator for Texts<'b> {
    type Item = &'b str;

    fn next(&mut self) -> Option<&'b str> {
        read_text(&mut self.0)
    }
}

/// Reads keys and values of labels.
struct Labels<'o> {
    /// The keys from the layout; none if the object has them itself.
    keys: std::slice::Iter<'o, Arc<str>>,
    /// The number of labels whose keys are in `texts`, each before its value.
    own: usize,
    texts: Texts<'o>,
}

impl<'o> Iterator for Labels<'o> {
    type Item = (&'o str, &'o str);

    fn next(&mut self) -> Option<(&'o str, &'o str)> {
        if let Some(key) = self.keys.next() {
            return Some((key, self.texts.next()?));
        }
        self.own = self.own.checked_sub(1)?;
        Some((self.texts.next()?, self.texts.next()?))
    }
}

/// Reads the values of fields, each after the number of its field.
#[derive(Clone)]
pub(super) struct Fields<'b>(&'b [u8]);

impl<'b> Iterator for Fields<'b> {
    type Item = (FieldIndex, &'b str);

    fn next(&mut self) -> Option<(FieldIndex, &'b str)> {
        let number = read_number(&mut self.0)?;
        Some((FieldIndex(u16::try_from(number).ok()?), read_text(&mut self.0)?))
    }
}

/// The labels and field values of an object that does not share its label keys, for a binary search. The table is
/// packed as the number of labels, the number of entries, the offset of each entry, and the entries. An entry is a
/// label with its key, or a field value. Numbers and offsets have four bytes each, the lowest first.
struct Table<'o> {
    /// The number of labels. The first entries are labels, the others are field values.
    labels: usize,
    /// Where each entry begins in `entries`.
    offsets: &'o [[u8; 4]],
    /// The bytes of all entries.
    entries: &'o [u8],
}

impl<'o> Table<'o> {
    /// Appends the table of a record, whose labels and values are sorted.
    fn write(record: &Record, out: &mut Vec<u8>) {
        let count = record.texts.labels().len() + record.texts.values().len();
        let mut offsets: Vec<u32> = Vec::with_capacity(2 + count);
        offsets.extend([short(record.texts.labels().len()), short(count)]);
        let mut entries = Vec::new();
        for (key, value) in record.texts.labels() {
            offsets.push(short(entries.len()));
            write_text(key, &mut entries);
            write_text(value, &mut entries);
        }
        for (field, value) in record.texts.values() {
            offsets.push(short(entries.len()));
            write_field(field, value, &mut entries);
        }
        offsets.into_iter().for_each(|offset| out.extend_from_slice(&offset.to_le_bytes()));
        out.extend_from_slice(&entries);
    }

    /// Reads the table of an object from its packed labels and values.
    fn parse(texts: &'o [u8]) -> Table<'o> {
        let numbers = texts.as_chunks::<4>().0;
        let number = |index: usize| numbers.get(index).map_or(0, |bytes| u32::from_le_bytes(*bytes) as usize);
        let (labels, count) = (number(0), number(1));
        let offsets = numbers.get(2..2 + count).unwrap_or_default();
        Table { labels, offsets, entries: texts.get(4 * (2 + count)..).unwrap_or_default() }
    }

    /// The bytes of the entries from this one on; empty after the last one.
    fn entry(&self, index: usize) -> &'o [u8] {
        self.offsets.get(index).map_or(&[], |offset| &self.entries[u32::from_le_bytes(*offset) as usize..])
    }

    /// The field values from the entry with this index on. The entry must come after the labels.
    fn from(&self, index: usize) -> Fields<'o> {
        Fields(self.entry(index))
    }

    /// The value of a label, by binary search; `None` if the object does not have the label.
    fn label(&self, key: &str) -> Option<&'o str> {
        let index =
            first_of(0..self.labels, |index| read_text(&mut self.entry(index)).is_some_and(|other| other < key));
        if index == self.labels {
            return None;
        }
        let mut entry = self.entry(index);
        read_text(&mut entry).filter(|other| *other == key)?;
        read_text(&mut entry)
    }

    /// The index of the first entry with this field and value, or with a higher field or value. The number of entries
    /// if there is none.
    fn first_at_or_above(&self, field: FieldIndex, value: &str) -> usize {
        first_of(self.labels..self.offsets.len(), |index| {
            self.from(index).next().is_some_and(|other| other < (field, value))
        })
    }
}

/// The first index of the range for which the test is false, by binary search; the end of the range if there is none.
/// The test must be true for all indexes before that one.
fn first_of(range: Range<usize>, is_before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (range.start, range.end);
    while low < high {
        let middle = low.midpoint(high);
        if is_before(middle) { low = middle + 1 } else { high = middle }
    }
    low
}
