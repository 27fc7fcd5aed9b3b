//! The result of one pull of a watch: lines, or parts of a compressed stream.

use std::sync::Arc;

use bytes::Bytes;

use crate::registry::Deflated;
use crate::wire::encode::CHUNK;
use crate::wire::gzip;
use crate::wire::gzip::GzipMember;

/// The lines of one pull.
#[derive(Default)]
pub(super) struct Batch {
    /// The first line, which is shared with other watches. A batch of this line alone is sent without a copy. `None`
    /// for a compressed watch.
    first: Option<Bytes>,
    /// Compressed lines. Empty for a watch that is not compressed.
    parts: Vec<Arc<Deflated>>,
    /// The lines after `first` or `parts`. They are not compressed, or not yet.
    pub(super) rest: Vec<u8>,
}

impl Batch {
    /// Whether there are no lines.
    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none() && self.parts.is_empty() && self.rest.is_empty()
    }

    /// The number of bytes of the lines that are not compressed.
    pub(super) fn len(&self) -> usize {
        self.first.as_ref().map_or(0, Bytes::len) + self.rest.len()
    }

    /// Appends a line of a watch that is not compressed. The first line of a batch is not copied.
    pub(super) fn push(&mut self, line: Bytes) {
        if self.is_empty() {
            self.first = Some(line);
        } else {
            self.rest.extend_from_slice(&line);
        }
    }

    /// Appends a line that was compressed once for all watches that send it.
    pub(super) fn push_deflated(&mut self, part: Arc<Deflated>) {
        self.deflate();
        self.parts.push(part);
    }

    /// Compresses the lines in `rest` and moves them to `parts`. Only for a compressed watch.
    pub(super) fn deflate(&mut self) {
        if !self.rest.is_empty() {
            self.parts.push(Arc::new(gzip::deflate(&std::mem::take(&mut self.rest))));
        }
    }

    /// The bytes of a batch that is not compressed.
    pub(super) fn into_bytes(self) -> Bytes {
        match self.first {
            Some(first) if self.rest.is_empty() => first,
            Some(first) => Bytes::from([&*first, &*self.rest].concat()),
            None => exact(self.rest),
        }
    }

    /// Compresses the batch and appends it to the stream. Returns the new bytes of the stream.
    pub(super) fn into_part_of(mut self, member: &mut GzipMember) -> Bytes {
        self.deflate();
        member.push(&self.parts)
    }
}

/// Converts bytes, and frees their unused capacity if it is large: limits count unread bytes by their length, not by
/// their capacity.
pub(super) fn exact(mut bytes: Vec<u8>) -> Bytes {
    if bytes.capacity() - bytes.len() > CHUNK / 8 {
        bytes.shrink_to_fit();
    }
    Bytes::from(bytes)
}
