//! The wire format: varints and tags.

// The wire types. `BYTES` is length-delimited.
pub(super) const BYTES: u8 = 2;
const VARINT: u8 = 0;
const FIXED64: u8 = 1;

/// The tag of a field, encoded: its number and its wire type, as a varint of at most five bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag {
    bytes: [u8; 5],
    length: u8,
}

impl Tag {
    /// The tag of a field with this number and wire type.
    pub(super) fn new(number: u32, wire_type: u8) -> Tag {
        let mut written = Vec::with_capacity(5);
        push_varint(u64::from(number) << 3 | u64::from(wire_type), &mut written);
        let mut bytes = [0; 5];
        let length = written.len().min(bytes.len());
        bytes[..length].copy_from_slice(&written[..length]);
        Tag { bytes, length: length as u8 }
    }

    pub(super) fn varint(number: u32) -> Tag {
        Tag::new(number, VARINT)
    }

    pub(super) fn fixed64(number: u32) -> Tag {
        Tag::new(number, FIXED64)
    }

    pub(super) fn bytes(number: u32) -> Tag {
        Tag::new(number, BYTES)
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    pub(super) fn len(self) -> usize {
        usize::from(self.length)
    }

    /// Appends the tag.
    pub(super) fn push(self, out: &mut Vec<u8>) {
        if self.length == 1 {
            out.push(self.bytes[0]);
        } else {
            out.extend_from_slice(self.as_slice());
        }
    }
}

/// Appends a varint.
pub(super) fn push_varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// The number of bytes of a varint.
pub(super) fn varint_length(number: u64) -> usize {
    // Seven bits a byte, and one byte for zero.
    (64 - (number | 1).leading_zeros() as usize).div_ceil(7)
}

/// The length of a length-delimited value with its length prefix.
pub(super) fn delimited_length(length: usize) -> usize {
    varint_length(length as u64) + length
}

/// Appends a length-delimited field.
pub(super) fn push_field(number: u32, value: &[u8], out: &mut Vec<u8>) {
    Tag::bytes(number).push(out);
    push_varint(value.len() as u64, out);
    out.extend_from_slice(value);
}
