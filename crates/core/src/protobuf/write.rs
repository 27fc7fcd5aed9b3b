//! Writing an object that was read: the bytes of its fields, appended to a buffer.

use super::memo::Memo;
use super::table::{MessageField, MessageTable, MessageType, Mode, Value};
use super::tape::{Buffers, Slot, TapeNode};
use super::wire::{push_varint, varint_length};

/// The tag of the first field of a message, if it is length-delimited: the key of a map's member, any JSON.
const KEY: u8 = 1 << 3 | 2;

/// The tag of a map's value.
const VALUE: u8 = 2 << 3 | 2;

/// The sources of an object's fields: messages, tape, memo and JSON.
#[derive(Clone, Copy)]
pub(super) struct MessageWriter<'w> {
    pub(super) table: &'w MessageTable,
    pub(super) json: &'w [u8],
    pub(super) buffers: &'w Buffers,
    pub(super) memo: &'w Memo,
}

impl MessageWriter<'_> {
    /// Appends the whole object.
    pub(super) fn message(&self, root: TapeNode, out: &mut Vec<u8>) {
        self.fields(&self.table.messages[root.message as usize], root.place, out);
    }

    /// Appends the fields of a message. `node` is where its slots begin on the tape: first one for each part, with the
    /// part's length, then one for each field.
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

    /// Appends a field that the JSON has, with its tags. `slot` is its entry on the tape, not a slot of a store.
    ///
    /// A list or a map is a chain on the tape. Each link has the place of the next link; the place 0 ends the chain. The
    /// item, or the key and the value, follow the link. The link of a map also has the length of the encoded member. A
    /// field whose JSON is known from an earlier object is copied from the memo. [`Self::fields`] writes
    /// [`Mode::Opens`].
    pub(super) fn field(&self, field: &MessageField, slot: Slot, out: &mut Vec<u8>) {
        if let Some(entry) = slot.memo_entry() {
            out.extend_from_slice(self.memo.encoded(entry));
            return;
        }
        match field.mode {
            Mode::One | Mode::Optional => {
                field.tag.push(out);
                self.value(field.value, slot, out);
            }
            Mode::Many => {
                let mut next = slot.place;
                // The place 0 ends the chain: no slots match the pattern then.
                while let [link, item] = self.buffers.slots(next, if next == 0 { 0 } else { 2 }) {
                    field.tag.push(out);
                    self.value(field.value, *item, out);
                    next = link.place;
                }
            }
            Mode::Map => {
                let mut next = slot.place;
                // The place 0 ends the chain: no slots match the pattern then.
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

    /// Appends a value of this type without a tag. Numbers and booleans are appended as they are, all other values after
    /// their length.
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
