//! Header blocks of HTTP/2, read and written (RFC 7541).
//!
//! What is written has every field as a literal, so that who reads it keeps no table. Any error ends the connection: the tables of both
//! sides would differ from then on.

use std::collections::VecDeque;

/// The size of the table that a peer may have, where no other one is announced.
const MOST_TABLE: usize = 4096;

/// What an entry of the table counts beside its text.
const ENTRY: usize = 32;

/// What the fields of one block may count. A byte of a block can stand for a whole entry of the table, thousands of bytes. All of
/// them have to be read before the next block. That work is in no user's share.
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

/// Decodes a text.
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
                self.most = integer(&mut block, 5)?;
                if self.most > MOST_TABLE {
                    return Err(Broken);
                }
                self.evict(0);
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

    fn field(&self, index: usize) -> Result<(&[u8], &[u8]), Broken> {
        let index = index.checked_sub(1).ok_or(Broken)?;
        if let Some((name, value)) = STATIC.get(index) {
            return Ok((name.as_bytes(), value.as_bytes()));
        }
        let (text, name) = self.entries.get(index - STATIC.len()).ok_or(Broken)?;
        Ok(text.split_at(*name))
    }

    fn insert(&mut self, name: &[u8], value: &[u8]) {
        let size = name.len() + value.len() + ENTRY;
        self.evict(size);
        if size <= self.most {
            self.entries.push_front(([name, value].concat().into_boxed_slice(), name.len()));
            self.size += size;
        }
    }

    /// Removes the oldest entries until there is room.
    fn evict(&mut self, room: usize) {
        while self.size + room > self.most
            && let Some((text, _)) = self.entries.pop_back()
        {
            self.size -= text.len() + ENTRY;
        }
    }
}

/// Reads a number whose first byte has so many bits of it.
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

/// Writes a field as a literal that no table keeps.
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
