//! Envelopes of messages: `runtime.Unknown` with its magic bytes, lists, and frames of watches.
//!
//! A length precedes its content, so a list is measured before it is written.

use super::wire::{delimited_length, push_field, push_varint};

/// The first bytes of each response.
pub const MAGIC: [u8; 4] = *b"k8s\0";

/// The last bytes of each response: the fields contentEncoding (3) and contentType (4) of `runtime.Unknown`, both empty.
pub const END: [u8; 4] = [0x1a, 0, 0x22, 0];

/// The tag of field 1, length-delimited: TypeMeta in `runtime.Unknown`, and the bytes of a `RawExtension`.
const TYPE_META: u8 = 1 << 3 | 2;

/// The tag of field 2, length-delimited: the message in `runtime.Unknown`, the object in WatchEvent.
const RAW: u8 = 2 << 3 | 2;

/// `runtime.Unknown` around a message, with the message's kind.
#[derive(Clone, Copy, Debug)]
pub struct ProtobufEnvelope<'k> {
    /// As in `apps/v1`.
    pub api_version: &'k str,
    /// As in `Deployment`.
    pub kind: &'k str,
}

impl ProtobufEnvelope<'_> {
    /// The length of the envelope with a message of this length.
    pub fn length(&self, message: usize) -> usize {
        MAGIC.len() + 1 + delimited_length(self.type_meta_length()) + 1 + delimited_length(message) + END.len()
    }

    /// Appends the bytes before a message of this length. [`END`] follows the message.
    pub fn begin(&self, message: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(&MAGIC);
        out.push(TYPE_META);
        push_varint(self.type_meta_length() as u64, out);
        push_field(1, self.api_version.as_bytes(), out);
        push_field(2, self.kind.as_bytes(), out);
        out.push(RAW);
        push_varint(message as u64, out);
    }

    /// The encoded length of TypeMeta, in bytes: two texts, each with its tag and length.
    fn type_meta_length(&self) -> usize {
        2 + delimited_length(self.api_version.len()) + delimited_length(self.kind.len())
    }
}

/// The numbers of a list's fields. They are written in the order of their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListFields {
    /// The number of the field `metadata`.
    pub metadata: u8,
    /// The field number of the items.
    pub items: u8,
}

impl ListFields {
    /// The numbers of all lists but one.
    pub const USUAL: ListFields = ListFields { metadata: 1, items: 2 };

    /// The numbers of PartialObjectMetadataList in `meta.k8s.io/v1beta1`.
    pub const PARTIAL_V1BETA1: ListFields = ListFields { metadata: 2, items: 1 };
}

/// A list around items, each of which is measured before the list begins.
#[derive(Clone, Copy, Debug)]
pub struct List<'l> {
    /// The list's apiVersion and kind.
    pub envelope: ProtobufEnvelope<'l>,
    /// ListMeta as a message.
    pub metadata: &'l [u8],
    /// The numbers of the fields.
    pub fields: ListFields,
}

impl List<'_> {
    /// The length of an item in the list, with its tag and length; `message` is the length of its message.
    pub fn item_length(message: usize) -> usize {
        1 + delimited_length(message)
    }

    /// The length of the encoded list; `items` is the sum of the items' [`List::item_length`].
    pub fn length(&self, items: usize) -> usize {
        self.envelope.length(List::item_length(self.metadata.len()) + items)
    }

    /// Appends the bytes before the items; `items` is the sum of their [`List::item_length`].
    pub fn begin(&self, items: usize, out: &mut Vec<u8>) {
        self.envelope.begin(List::item_length(self.metadata.len()) + items, out);
        if self.fields.metadata < self.fields.items {
            push_field(u32::from(self.fields.metadata), self.metadata, out);
        }
    }

    /// Appends the bytes before an item whose message has this length.
    pub fn begin_item(&self, message: usize, out: &mut Vec<u8>) {
        out.push(self.fields.items << 3 | 2);
        push_varint(message as u64, out);
    }

    /// Appends the bytes after the items.
    pub fn end(&self, out: &mut Vec<u8>) {
        if self.fields.metadata > self.fields.items {
            push_field(u32::from(self.fields.metadata), self.metadata, out);
        }
        out.extend_from_slice(&END);
    }
}

/// Appends the beginning of a watch frame: its length in four bytes (big-endian), and a WatchEvent up to its object. The
/// caller appends the object with its envelope, `length` bytes together.
pub fn begin_event(event_type: &str, length: usize, out: &mut Vec<u8>) {
    let object = 1 + delimited_length(length);
    let event = 1 + delimited_length(event_type.len()) + 1 + delimited_length(object);
    // No object is as long as 4 GiB.
    out.extend_from_slice(&(event as u32).to_be_bytes());
    push_field(1, event_type.as_bytes(), out);
    out.push(RAW);
    push_varint(object as u64, out);
    // The object of a WatchEvent is a `RawExtension`.
    out.push(TYPE_META);
    push_varint(length as u64, out);
}
