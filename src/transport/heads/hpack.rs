//! Decodes and encodes header blocks of HTTP/2 (HPACK, RFC 7541).
//!
//! Every field is encoded as a literal, so that its decoder needs no table. Any decoding error ends the connection,
//! because afterwards the tables of both sides would differ.

use std::collections::VecDeque;

/// The maximum size of the dynamic table: that of a server which announces no other one.
const MOST_TABLE: usize = 4096;

/// The size that an entry of the table counts besides its name and value (RFC 7541, 4.1).
const ENTRY: usize = 32;

/// The maximum size of the fields of one block. A byte of a block can refer to a table entry of thousands of bytes.
/// The whole block must be decoded before the next one, and this work is charged to no user.
const MOST_READ: usize = 4 << 20;

/// The static table (RFC 7541, appendix A).
#[rustfmt::skip]
const STATIC: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

/// The length in bits of the Huffman code of each byte (RFC 7541, appendix B). Codes of one length are consecutive,
/// in the order of the bytes, and shorter codes come first.
#[rustfmt::skip]
const LENGTHS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
];

/// The length of the longest code, in bits.
const LONGEST_CODE: usize = 30;

/// The error for a block that cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Broken;

/// The decoding table of the Huffman code.
struct HuffmanTable {
    /// For each length in bits, the first value after the codes of this length, aligned to the left of 32 bits.
    ends: [u32; LONGEST_CODE + 1],
    /// For each length in bits, the first code of this length, and the number of shorter codes.
    firsts: [(u32, usize); LONGEST_CODE + 1],
    /// The bytes in the order of their codes.
    bytes: [u8; 256],
}

const HUFFMAN: HuffmanTable = HuffmanTable::new();

impl HuffmanTable {
    /// Builds the table from [`LENGTHS`].
    const fn new() -> HuffmanTable {
        let mut table =
            HuffmanTable { ends: [0; LONGEST_CODE + 1], firsts: [(0, 0); LONGEST_CODE + 1], bytes: [0; 256] };
        let (mut length, mut code, mut number) = (1, 0_u32, 0);
        while length <= LONGEST_CODE {
            // The first code of a length follows the last shorter one, with zeros appended.
            code <<= 1;
            table.firsts[length] = (code, number);
            let mut byte = 0;
            while byte < 256 {
                if LENGTHS[byte] as usize == length {
                    table.bytes[number] = byte as u8;
                    number += 1;
                    code += 1;
                }
                byte += 1;
            }
            table.ends[length] = code << (32 - length);
            length += 1;
        }
        table
    }
}

/// Decodes a Huffman-coded string, and appends it to `decoded`.
///
/// # Errors
/// The string is not valid Huffman code.
fn decode_huffman(text: &[u8], decoded: &mut Vec<u8>) -> Result<(), Broken> {
    let (mut bits, mut count, mut rest) = (0_u64, 0_usize, text.iter());
    loop {
        while count <= 56
            && let Some(byte) = rest.next()
        {
            bits = (bits << 8) | u64::from(*byte);
            count += 8;
        }
        if count == 0 {
            return Ok(());
        }
        // Bits after the end of the string are ones, like the padding.
        let window = match count {
            32.. => (bits >> (count - 32)) as u32,
            _ => ((bits << (32 - count)) as u32) | (u32::MAX >> count),
        };
        // No code has fewer than five bits.
        let Some(length) = (5..=LONGEST_CODE).find(|length| window < HUFFMAN.ends[*length]) else {
            // Padding is what is left of the last byte, all ones.
            return if count < 8 && window == u32::MAX { Ok(()) } else { Err(Broken) };
        };
        if length > count {
            return Err(Broken);
        }
        let (first, before) = HUFFMAN.firsts[length];
        let offset = (window >> (32 - length)) - first;
        decoded.push(HUFFMAN.bytes[before + offset as usize]);
        count -= length;
    }
}

/// An encoded string with more bytes than this decodes to more than [`MOST_TABLE`] bytes, because no code has more than
/// thirty bits. So a field with such a string is never in the dynamic table.
const LONG_STRING: usize = 16 << 10;

/// The state of a block that is decoded without storing its fields.
#[derive(Debug, Default)]
pub(super) struct Skipped {
    /// Bytes at the end of the last part that are not a complete integer or string.
    held: Vec<u8>,
    /// The number of following bytes that belong to a long string, and are ignored.
    left: usize,
    /// Set if the value of a field comes next: whether the field is added to the dynamic table, and its name, which
    /// is `None` if it is a long string.
    name: Option<(bool, Option<Vec<u8>>)>,
    /// The size of the indexed fields and names so far. An index of one byte can stand for 4 KiB, so the length of the
    /// block does not bound it.
    read: usize,
}

impl Skipped {
    /// Whether the block can end here: no integer or string is incomplete, and no name waits for its value.
    pub(super) fn is_complete(&self) -> bool {
        self.held.is_empty() && self.left == 0 && self.name.is_none()
    }

    /// Counts an indexed field or name of this length.
    ///
    /// # Errors
    /// They exceed [`MOST_READ`].
    fn count(&mut self, length: usize) -> Result<(), Broken> {
        self.read += length + ENTRY;
        if self.read > MOST_READ { Err(Broken) } else { Ok(()) }
    }
}

/// A string at the end of a part of a block.
enum PartialString {
    /// The string is incomplete.
    Incomplete,
    /// The string has this many bytes, which are more than [`LONG_STRING`]. They follow.
    Long(usize),
    /// The decoded string.
    Complete(Vec<u8>),
}

/// Decodes the blocks of one connection, with its dynamic table.
#[derive(Debug)]
pub(super) struct Decoder {
    /// The dynamic table, newest entry first: name and value in one string, and the length of the name.
    entries: VecDeque<(Box<[u8]>, usize)>,
    /// The size of all entries.
    size: usize,
    /// The maximum size, which the peer can lower.
    most: usize,
}

impl Default for Decoder {
    fn default() -> Decoder {
        Decoder { entries: VecDeque::new(), size: 0, most: MOST_TABLE }
    }
}

impl Decoder {
    /// Decodes a block. Calls `each` with the name and the value of each field.
    ///
    /// # Errors
    /// The block cannot be decoded, or its fields exceed [`MOST_READ`].
    pub(super) fn decode(&mut self, mut block: &[u8], mut each: impl FnMut(&[u8], &[u8])) -> Result<(), Broken> {
        let (mut name, mut value, mut read) = (Vec::new(), Vec::new(), 0);
        let mut each = |name: &[u8], value: &[u8]| {
            read += name.len() + value.len() + ENTRY;
            if read > MOST_READ {
                return Err(Broken);
            }
            each(name, value);
            Ok(())
        };
        while let Some(first) = block.first().copied() {
            // An indexed field (RFC 7541, 6.1).
            if first & 0x80 != 0 {
                let index = read_integer(&mut block, 7)?;
                let (name, value) = self.field(index)?;
                each(name, value)?;
                continue;
            }
            // A change of the table's size (6.3).
            if first & 0xe0 == 0x20 {
                let most = read_integer(&mut block, 5)?;
                self.resize(most)?;
                continue;
            }
            // A literal field (6.2), which is added to the table or not.
            let is_kept = first & 0x40 != 0;
            let index = read_integer(&mut block, if is_kept { 6 } else { 4 })?;
            name.clear();
            value.clear();
            match index {
                0 => read_string(&mut block, &mut name)?,
                index => name.extend_from_slice(self.field(index)?.0),
            }
            read_string(&mut block, &mut value)?;
            each(&name, &value)?;
            if is_kept {
                self.insert(&name, &value);
            }
        }
        Ok(())
    }

    /// Decodes a part of a block without storing its fields, except in the dynamic table. Calls `each` with the name
    /// and the value of each field; long ones are empty. `skipped`: the state after the previous part of the block.
    ///
    /// # Errors
    /// The block cannot be decoded, or its indexed fields exceed [`MOST_READ`].
    pub(super) fn skip(
        &mut self,
        skipped: &mut Skipped,
        part: &[u8],
        mut each: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), Broken> {
        skipped.held.extend_from_slice(part);
        let held = std::mem::take(&mut skipped.held);
        let mut block = &held[..];
        loop {
            let length = skipped.left.min(block.len());
            (skipped.left, block) = (skipped.left - length, &block[length..]);
            let before = block;
            if !self.skip_step(skipped, &mut block, &mut each)? {
                block = before;
                break;
            }
        }
        skipped.held.extend_from_slice(block);
        Ok(())
    }

    /// Decodes the next step of a block without storing its fields: an indexed field, a change of the table's size, a
    /// name, or a value. Returns false if it is incomplete; `block` may then have been advanced. `skipped`, `each`: as
    /// in [`Decoder::skip`].
    ///
    /// # Errors
    /// Those of [`Decoder::skip`].
    fn skip_step(
        &mut self,
        skipped: &mut Skipped,
        block: &mut &[u8],
        each: &mut impl FnMut(&[u8], &[u8]),
    ) -> Result<bool, Broken> {
        // The end of a long string has not arrived.
        if skipped.left > 0 {
            return Ok(false);
        }
        let Some(first) = block.first().copied() else { return Ok(false) };
        if let Some((is_kept, name)) = &skipped.name {
            let value = match try_read_string(block)? {
                PartialString::Incomplete => return Ok(false),
                PartialString::Long(length) => {
                    skipped.left = length;
                    None
                }
                PartialString::Complete(value) => Some(value),
            };
            each(name.as_deref().unwrap_or_default(), value.as_deref().unwrap_or_default());
            match (is_kept, name, value) {
                (false, ..) => {}
                (true, Some(name), Some(value)) => self.insert(name, &value),
                // The field is larger than the table, so the table becomes empty (RFC 7541, 4.4).
                (true, ..) => self.evict(self.most + 1),
            }
            skipped.name = None;
            return Ok(true);
        }
        let (is_indexed, is_size, is_kept) = (first & 0x80 != 0, first & 0xe0 == 0x20, first & 0x40 != 0);
        let prefix = if is_indexed {
            7
        } else if is_size {
            5
        } else if is_kept {
            6
        } else {
            4
        };
        let Some(number) = try_read_integer(block, prefix)? else { return Ok(false) };
        if is_indexed {
            let (name, value) = self.field(number)?;
            skipped.count(name.len() + value.len())?;
            each(name, value);
        } else if is_size {
            self.resize(number)?;
        } else {
            let name = match number {
                0 => match try_read_string(block)? {
                    PartialString::Incomplete => return Ok(false),
                    PartialString::Long(length) => {
                        skipped.left = length;
                        None
                    }
                    PartialString::Complete(name) => Some(name),
                },
                index => {
                    let (name, _) = self.field(index)?;
                    skipped.count(name.len())?;
                    Some(name.to_vec())
                }
            };
            skipped.name = Some((is_kept, name));
        }
        Ok(true)
    }

    /// Changes the maximum size of the dynamic table.
    ///
    /// # Errors
    /// The size exceeds [`MOST_TABLE`].
    fn resize(&mut self, most: usize) -> Result<(), Broken> {
        if most > MOST_TABLE {
            return Err(Broken);
        }
        self.most = most;
        self.evict(0);
        Ok(())
    }

    /// The name and the value of the field with this index. Indexes begin with 1, first in the static table, then in
    /// the dynamic one.
    ///
    /// # Errors
    /// No table has this index.
    fn field(&self, index: usize) -> Result<(&[u8], &[u8]), Broken> {
        let index = index.checked_sub(1).ok_or(Broken)?;
        if let Some((name, value)) = STATIC.get(index) {
            return Ok((name.as_bytes(), value.as_bytes()));
        }
        let (text, name) = self.entries.get(index - STATIC.len()).ok_or(Broken)?;
        Ok(text.split_at(*name))
    }

    /// Adds a field to the dynamic table, and evicts old entries. A field that is larger than the table only empties
    /// it.
    fn insert(&mut self, name: &[u8], value: &[u8]) {
        let size = name.len() + value.len() + ENTRY;
        self.evict(size);
        if size <= self.most {
            self.entries.push_front(([name, value].concat().into_boxed_slice(), name.len()));
            self.size += size;
        }
    }

    /// Removes the oldest entries until an entry of size `room` fits.
    fn evict(&mut self, room: usize) {
        while self.size + room > self.most
            && let Some((text, _)) = self.entries.pop_back()
        {
            self.size -= text.len() + ENTRY;
        }
    }
}

/// Reads an integer from the beginning of `block`. `prefix`: the number of bits of its first byte (RFC 7541, 5.1).
///
/// # Errors
/// The integer is incomplete, or has more than [`LONGEST_INTEGER`] bytes.
fn read_integer(block: &mut &[u8], prefix: u32) -> Result<usize, Broken> {
    let mut next = || {
        let (first, rest) = block.split_first().ok_or(Broken)?;
        *block = rest;
        Ok(usize::from(*first))
    };
    let most = (1 << prefix) - 1;
    let mut number = next()? & most;
    if number < most {
        return Ok(number);
    }
    for shift in [0, 7, 14, 21] {
        let byte = next()?;
        number += (byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(Broken)
}

/// The longest integer that [`read_integer`] reads, in bytes.
const LONGEST_INTEGER: usize = 5;

/// Reads an integer like [`read_integer`]; `None` if it is incomplete.
fn try_read_integer(block: &mut &[u8], prefix: u32) -> Result<Option<usize>, Broken> {
    let is_whole = block.len() >= LONGEST_INTEGER;
    match read_integer(block, prefix) {
        Ok(number) => Ok(Some(number)),
        Err(Broken) if is_whole => Err(Broken),
        Err(Broken) => Ok(None),
    }
}

/// Reads a string that may be incomplete from the beginning of `block`. Advances `block` to the end of a complete
/// string, and to the first byte of a long one. If the string is incomplete, `block` may have been advanced too.
///
/// # Errors
/// Its length or its Huffman code is invalid.
fn try_read_string(block: &mut &[u8]) -> Result<PartialString, Broken> {
    let before = *block;
    match try_read_integer(block, 7)? {
        None => Ok(PartialString::Incomplete),
        Some(length) if length > LONG_STRING => Ok(PartialString::Long(length)),
        Some(length) if length > block.len() => Ok(PartialString::Incomplete),
        Some(_) => {
            let mut whole = Vec::new();
            *block = before;
            read_string(block, &mut whole)?;
            Ok(PartialString::Complete(whole))
        }
    }
}

/// Reads a string from the beginning of `block`, decodes it if it is Huffman-coded, and appends it to `text`.
///
/// # Errors
/// The string is incomplete, or not valid Huffman code.
fn read_string(block: &mut &[u8], text: &mut Vec<u8>) -> Result<(), Broken> {
    let is_coded = block.first().is_some_and(|first| first & 0x80 != 0);
    let length = read_integer(block, 7)?;
    let (raw, rest) = block.split_at_checked(length).ok_or(Broken)?;
    *block = rest;
    if is_coded {
        return decode_huffman(raw, text);
    }
    text.extend_from_slice(raw);
    Ok(())
}

/// Appends a field to a block, as a literal without Huffman code that is not added to the dynamic table (RFC 7541,
/// 6.2.2).
pub(super) fn write(block: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    block.push(0);
    for text in [name, value] {
        let most = 0x7f;
        if text.len() < most {
            block.push(text.len() as u8);
        } else {
            block.push(most as u8);
            let mut rest = text.len() - most;
            while rest >= 0x80 {
                block.push((rest & 0x7f) as u8 | 0x80);
                rest >>= 7;
            }
            block.push(rest as u8);
        }
        block.extend_from_slice(text);
    }
}
