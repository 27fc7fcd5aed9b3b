//! Writing a message that was read: its bytes go to the end of a buffer, whose length is known before.

use super::read::{self, Node, Slot, Unencodable};
use super::table::{Field, Kind, MessageType, Mode, Table, Value};
use super::wire::{push_varint, varint_length};

/// Buffers larger than this are given back after an object.
const KEPT: usize = 1 << 20;

/// The tag of the first field of a message, if it is length-delimited: the key of a map's member, any JSON.
const KEY: u8 = 1 << 3 | 2;

/// The tag of a map's value.
const VALUE: u8 = 2 << 3 | 2;

/// Reads objects and writes messages, with buffers that are used again.
#[derive(Default)]
pub struct Encoder {
    pub(super) buffers: read::Buffers,
}

/// An object that has been read: its length is known and it can be written.
pub struct Message<'e> {
    table: &'e Table,
    json: &'e [u8],
    buffers: &'e read::Buffers,
    root: Node,
}

impl Encoder {
    /// Reads an object's JSON as a message of this kind.
    ///
    /// # Errors
    /// [`Unencodable`] when the bytes are no JSON, or the kind's message has no place for something in them.
    pub fn read<'e>(&'e mut self, kind: Kind<'e>, json: &'e [u8]) -> Result<Message<'e>, Unencodable> {
        self.buffers.clear(KEPT);
        let root = read::read(&mut self.buffers, kind, json)?;
        Ok(Message { table: kind.table, json, buffers: &self.buffers, root })
    }
}

impl Encoder {
    /// Gives buffers back that are larger than this many bytes.
    pub fn release(&mut self, most: usize) {
        self.buffers.clear(most);
    }
}

impl Message<'_> {
    /// The length of the message.
    pub fn length(&self) -> usize {
        self.root.length as usize
    }

    /// Appends the message.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.reserve(self.length());
        let message = &self.table.messages[self.root.message as usize];
        self.fields(message, self.root.place, out);
    }

    fn fields(&self, message: &MessageType, node: u32, out: &mut Vec<u8>) {
        let parts = self.buffers.slots(node, message.parts.len());
        let slots = self.buffers.slots(node + message.parts.len() as u32, message.fields.len());
        for (field, slot) in message.fields.iter().zip(slots) {
            if let Mode::Opens(part) = field.mode {
                field.tag.push(out);
                push_varint(u64::from(parts[usize::from(part)].length), out);
            } else if slot.is_absent() {
                if !field.absent.is_empty() {
                    out.extend_from_slice(&field.absent);
                }
            } else {
                self.field(field, *slot, out);
            }
        }
    }

    fn field(&self, field: &Field, slot: Slot, out: &mut Vec<u8>) {
        match field.mode {
            Mode::One | Mode::Optional => {
                field.tag.push(out);
                self.value(field.value, slot, out);
            }
            Mode::Many => {
                let mut next = slot.place;
                while let [link, item] = self.buffers.slots(next, if next == 0 { 0 } else { 2 }) {
                    field.tag.push(out);
                    self.value(field.value, *item, out);
                    next = link.place;
                }
            }
            Mode::Map => {
                let mut next = slot.place;
                while let [link, key, value] = self.buffers.slots(next, if next == 0 { 0 } else { 3 }) {
                    field.tag.push(out);
                    push_varint(u64::from(link.length), out);
                    out.push(KEY);
                    self.value(Value::Text, *key, out);
                    if !value.is_absent() {
                        out.push(VALUE);
                        self.value(field.value, *value, out);
                    }
                    next = link.place;
                }
            }
            Mode::Skipped | Mode::Opens(_) => {}
        }
    }

    fn value(&self, value: Value, slot: Slot, out: &mut Vec<u8>) {
        match value {
            Value::Flag | Value::Int32 | Value::Int64 | Value::Double => {
                out.extend_from_slice(self.buffers.bytes(slot, self.json));
            }
            Value::Text | Value::Bytes | Value::Opaque(_) => {
                push_varint(u64::from(slot.length), out);
                out.extend_from_slice(self.buffers.bytes(slot, self.json));
            }
            Value::Raw => {
                let bytes = self.buffers.bytes(slot, self.json);
                if bytes.is_empty() {
                    out.push(0);
                    return;
                }
                push_varint((1 + varint_length(bytes.len() as u64) + bytes.len()) as u64, out);
                out.push(KEY);
                push_varint(bytes.len() as u64, out);
                out.extend_from_slice(bytes);
            }
            Value::Message(id) => {
                push_varint(u64::from(slot.length), out);
                self.fields(&self.table.messages[id as usize], slot.place, out);
            }
        }
    }
}
