//! Header blocks of HTTP/2, read and written (RFC 7541).
//!
//! Every field is written as a literal, so that the reader needs no table. Any error ends the connection: the tables
//! of both sides would differ from then on.

use std::collections::VecDeque;

/// The size of the table that a peer may have, where no other one is announced.
const MOST_TABLE: usize = 4096;

/// What an entry of the table counts beside its text.
const ENTRY: usize = 32;

/// The bound of the fields of one block. A byte of a block can refer to a whole entry of the table, thousands of
/// bytes. All of them have to be read before the next block. That work is in no user's share.
const MOST_READ: usize = 4 << 20;

/// Fields that both sides know.
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

/// Bits of the code of each byte. Codes of one length follow each other in the order of the bytes, shorter ones first.
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

/// The longest code.
const LONGEST_CODE: usize = 30;

/// A block that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Broken;

/// The code of texts, by the length of its words.
struct Code {
    /// The end of the words of a length, aligned to 32 bits.
    ends: [u32; LONGEST_CODE + 1],
    /// The first word of a length, and the number of shorter words.
    firsts: [(u32, usize); LONGEST_CODE + 1],
    /// Bytes in the order of their words.
    bytes: [u8; 256],
}

const CODE: Code = Code::new();

impl Code {
    /// Builds the decoding table of the Huffman code.
    const fn new() -> Code {
        let mut code = Code { ends: [0; LONGEST_CODE + 1], firsts: [(0, 0); LONGEST_CODE + 1], bytes: [0; 256] };
        let (mut length, mut word, mut number) = (1, 0_u32, 0);
        while length <= LONGEST_CODE {
            word <<= 1;
            code.firsts[length] = (word, number);
            let mut byte = 0;
            while byte < 256 {
                if LENGTHS[byte] as usize == length {
                    code.bytes[number] = byte as u8;
                    number += 1;
                    word += 1;
                }
                byte += 1;
            }
            code.ends[length] = word << (32 - length);
            length += 1;
        }
        code
    }
}

/// Decodes Huffman-coded text.
fn decode_text(text: &[u8], decoded: &mut Vec<u8>) -> Result<(), Broken> {
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
        // What is missing at the end reads as ones, like the padding.
        let window = match count {
            32.. => (bits >> (count - 32)) as u32,
            _ => ((bits << (32 - count)) as u32) | (u32::MAX >> count),
        };
        // No word has fewer than five bits.
        let Some(length) = (5..=LONGEST_CODE).find(|length| window < CODE.ends[*length]) else {
            return if count < 8 && window == u32::MAX { Ok(()) } else { Err(Broken) };
        };
        if length > count {
            return Err(Broken);
        }
        let (first, before) = CODE.firsts[length];
        let word = (window >> (32 - length)) - first;
        decoded.push(CODE.bytes[before + word as usize]);
        count -= length;
    }
}

/// A text with more bytes than this as it is sent has more than [`MOST_TABLE`] when it is decoded. No code has more
/// than thirty bits.
const LONG_TEXT: usize = 16 << 10;

/// A block that is being skipped.
#[derive(Debug, Default)]
pub(super) struct Skipped {
    /// The incomplete part.
    held: Vec<u8>,
    /// Bytes of a long text that come next.
    left: usize,
    /// Whether the field whose value comes next is indexed, and its name; `None` for a long name.
    name: Option<(bool, Option<Vec<u8>>)>,
}

impl Skipped {
    /// Whether the block can end here.
    pub(super) fn is_complete(&self) -> bool {
        self.held.is_empty() && self.left == 0 && self.name.is_none()
    }
}

/// A text that may be incomplete.
enum Begun {
    Part,
    /// A text of more than [`LONG_TEXT`] bytes, with the number of bytes that follow.
    Long(usize),
    Whole(Vec<u8>),
}

/// Reads the blocks of one connection.
#[derive(Debug)]
pub(super) struct Decoder {
    /// Newest first: name and value in one text, and the length of the name.
    entries: VecDeque<(Box<[u8]>, usize)>,
    size: usize,
    most: usize,
}

impl Default for Decoder {
    fn default() -> Decoder {
        Decoder { entries: VecDeque::new(), size: 0, most: MOST_TABLE }
    }
}

impl Decoder {
    /// Reads a block, field by field.
    ///
    /// # Errors
    /// The block cannot be read.
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
            if first & 0x80 != 0 {
                let index = integer(&mut block, 7)?;
                let (name, value) = self.field(index)?;
                each(name, value)?;
                continue;
            }
            if first & 0xe0 == 0x20 {
                let most = integer(&mut block, 5)?;
                self.resize(most)?;
                continue;
            }
            let is_kept = first & 0x40 != 0;
            let index = integer(&mut block, if is_kept { 6 } else { 4 })?;
            name.clear();
            value.clear();
            match index {
                0 => text(&mut block, &mut name)?,
                index => name.extend_from_slice(self.field(index)?.0),
            }
            text(&mut block, &mut value)?;
            each(&name, &value)?;
            if is_kept {
                self.insert(&name, &value);
            }
        }
        Ok(())
    }

    /// Reads a part of a block of which only the entries of the table are stored. `each` is called with the texts of
    /// a field; long ones are empty.
    ///
    /// # Errors
    /// The block cannot be read.
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
            if !self.skip_one(skipped, &mut block, &mut each)? {
                block = before;
                break;
            }
        }
        skipped.held.extend_from_slice(block);
        Ok(())
    }

    /// Skips the next field; false if it is incomplete.
    fn skip_one(
        &mut self,
        skipped: &mut Skipped,
        block: &mut &[u8],
        each: &mut impl FnMut(&[u8], &[u8]),
    ) -> Result<bool, Broken> {
        if skipped.left > 0 {
            return Ok(false);
        }
        let Some(first) = block.first().copied() else { return Ok(false) };
        if let Some((is_kept, name)) = &skipped.name {
            let value = match begun_text(block)? {
                Begun::Part => return Ok(false),
                Begun::Long(length) => {
                    skipped.left = length;
                    None
                }
                Begun::Whole(value) => Some(value),
            };
            each(name.as_deref().unwrap_or_default(), value.as_deref().unwrap_or_default());
            match (is_kept, name, value) {
                (false, ..) => {}
                (true, Some(name), Some(value)) => self.insert(name, &value),
                // It is longer than the table, so nothing stays there.
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
        let Some(number) = begun_integer(block, prefix)? else { return Ok(false) };
        if is_indexed {
            let (name, value) = self.field(number)?;
            each(name, value);
        } else if is_size {
            self.resize(number)?;
        } else {
            let name = match number {
                0 => match begun_text(block)? {
                    Begun::Part => return Ok(false),
                    Begun::Long(length) => {
                        skipped.left = length;
                        None
                    }
                    Begun::Whole(name) => Some(name),
                },
                index => Some(self.field(index)?.0.to_vec()),
            };
            skipped.name = Some((is_kept, name));
        }
        Ok(true)
    }

    /// Changes the size of the dynamic table.
    fn resize(&mut self, most: usize) -> Result<(), Broken> {
        if most > MOST_TABLE {
            return Err(Broken);
        }
        self.most = most;
        self.evict(0);
        Ok(())
    }

    /// The field of an index: of the static table, then of the dynamic one.
    fn field(&self, index: usize) -> Result<(&[u8], &[u8]), Broken> {
        let index = index.checked_sub(1).ok_or(Broken)?;
        if let Some((name, value)) = STATIC.get(index) {
            return Ok((name.as_bytes(), value.as_bytes()));
        }
        let (text, name) = self.entries.get(index - STATIC.len()).ok_or(Broken)?;
        Ok(text.split_at(*name))
    }

    /// Adds a field to the dynamic table, and evicts old ones.
    fn insert(&mut self, name: &[u8], value: &[u8]) {
        let size = name.len() + value.len() + ENTRY;
        self.evict(size);
        if size <= self.most {
            self.entries.push_front(([name, value].concat().into_boxed_slice(), name.len()));
            self.size += size;
        }
    }

    /// Removes the oldest entries until the new one fits.
    fn evict(&mut self, room: usize) {
        while self.size + room > self.most
            && let Some((text, _)) = self.entries.pop_back()
        {
            self.size -= text.len() + ENTRY;
        }
    }
}

/// Reads an integer whose prefix has this many bits.
fn integer(block: &mut &[u8], prefix: u32) -> Result<usize, Broken> {
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

/// The longest number that [`integer`] reads, in bytes.
const LONGEST_INTEGER: usize = 5;

/// Reads an integer; `None` if it is incomplete.
fn begun_integer(block: &mut &[u8], prefix: u32) -> Result<Option<usize>, Broken> {
    let is_whole = block.len() >= LONGEST_INTEGER;
    match integer(block, prefix) {
        Ok(number) => Ok(Some(number)),
        Err(Broken) if is_whole => Err(Broken),
        Err(Broken) => Ok(None),
    }
}

/// Reads a text that may be incomplete.
fn begun_text(block: &mut &[u8]) -> Result<Begun, Broken> {
    let before = *block;
    match begun_integer(block, 7)? {
        None => Ok(Begun::Part),
        Some(length) if length > LONG_TEXT => Ok(Begun::Long(length)),
        Some(length) if length > block.len() => Ok(Begun::Part),
        Some(_) => {
            let mut whole = Vec::new();
            *block = before;
            text(block, &mut whole)?;
            Ok(Begun::Whole(whole))
        }
    }
}

/// Reads a text, and decodes it if it is Huffman-coded.
fn text(block: &mut &[u8], text: &mut Vec<u8>) -> Result<(), Broken> {
    let is_coded = block.first().is_some_and(|first| first & 0x80 != 0);
    let length = integer(block, 7)?;
    let (raw, rest) = block.split_at_checked(length).ok_or(Broken)?;
    *block = rest;
    if is_coded {
        return decode_text(raw, text);
    }
    text.extend_from_slice(raw);
    Ok(())
}

/// Writes a literal field that is never indexed.
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
