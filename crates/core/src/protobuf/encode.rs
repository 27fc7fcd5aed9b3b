//! Encodes objects as messages. The length of a message is computed before it is written.

use super::memo::Memo;
use super::read::{self, Unencodable};
use super::table::{FieldKind, MessageTable};
use super::tape::{Buffers, TapeNode};
use super::write::MessageWriter;

/// Buffers larger than this are given back after an object.
const KEPT: usize = 1 << 20;

/// Reads objects and writes messages, with buffers that are used again.
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
    /// [`Unencodable`] when the bytes are no JSON, or the kind's message lacks a field for a part of them.
    pub fn read<'e>(&'e mut self, kind: FieldKind<'e>, json: &'e [u8]) -> Result<Message<'e>, Unencodable> {
        self.buffers.clear(KEPT);
        let root = read::read(&mut self.buffers, &mut self.memo, kind, json)?;
        Ok(Message { table: kind.table, json, buffers: &self.buffers, memo: &self.memo, root })
    }

    /// Frees buffers that are larger than this many bytes.
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
        let Message { table, json, buffers, memo, root } = *self;
        MessageWriter { table, json, buffers, memo }.message(root, out);
    }
}
