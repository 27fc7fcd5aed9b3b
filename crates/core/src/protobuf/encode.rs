//! Encodes objects as messages. The length of a message is computed before it is written.

use super::memo::Memo;
use super::read::{self, Unencodable};
use super::table::{FieldKind, MessageTable};
use super::tape::{Buffers, TapeNode};
use super::write::MessageWriter;

/// Buffers larger than this, in bytes, are freed before the next object is read.
const KEPT: usize = 1 << 20;

/// Reads objects and writes messages. The buffers, and the memo of fields, are reused for the next object.
#[derive(Default)]
pub struct Encoder {
    pub(super) buffers: Buffers,
    pub(super) memo: Memo,
}

/// An object that has been read: its length is known and it can be written.
pub struct Message<'e> {
    table: &'e MessageTable,
    json: &'e [u8],
    buffers: &'e Buffers,
    memo: &'e Memo,
    root: TapeNode,
}

impl Encoder {
    /// Reads an object's JSON as a message of this kind.
    ///
    /// # Errors
    /// [`Unencodable`] when the bytes are not JSON or too large. Also when the message of the kind lacks a field for a
    /// part of them, or when a value has another type than its field.
    pub fn read<'e>(&'e mut self, kind: FieldKind<'e>, json: &'e [u8]) -> Result<Message<'e>, Unencodable> {
        self.buffers.clear(KEPT);
        let root = read::read(&mut self.buffers, &mut self.memo, kind, json)?;
        Ok(Message { table: kind.table, json, buffers: &self.buffers, memo: &self.memo, root })
    }

    /// Clears the buffers, and frees those with a capacity of more than `kept` bytes.
    pub fn release(&mut self, kept: usize) {
        self.buffers.clear(kept);
    }
}

impl Message<'_> {
    /// The length of the message in bytes.
    pub fn length(&self) -> usize {
        self.root.length as usize
    }

    /// Appends the message.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.reserve(self.length());
        let Message { table, json, buffers, memo, root } = *self;
        MessageWriter { table, json, buffers, memo }.message(root, out);
    }
}
