//! Compression of answers, as one gzip member, which is what Go's server sends.
//!
//! For lists there are two compressors, because neither is best at both. libdeflate is half again as fast as any zlib
//! and its output smaller than that of Go's level 1, but it takes whole buffers only. So it compresses responses of up
//! to [`WHOLE`] bytes. Longer ones, which must not be buffered whole, go through a stream. Which lists are compressed
//! is decided in `body`, which watches in `watch`.
//!
//! # Watches
//! A watch is open for as long as its client likes, so it holds no compressor: that would be [`STATE`] for each. Instead each text is
//! compressed alone ([`deflated`]), and the blocks are put together to one member ([`GzipMember`]), of which only checksum and length are kept.
//! So one compressed event serves all watches that share it.
//!
//! kube-apiserver makes one member of each flush. Readers that stop at the end of the first member lose the rest then,
//! which those of a single member do not. Each text ends with an empty stored block, because readers yield everything
//! before one at once. Without it, Go's reader waits for the head of the next member.

use std::cell::RefCell;
use std::io::Write;
use std::sync::Arc;

use bytes::Bytes;
use flate2::write::GzEncoder;
use flate2::{Compress, Compression, Crc, FlushCompress};
use libdeflater::{CompressionLvl, Compressor};

use super::pieces::Pieces;
use crate::registry::Deflated;

/// About the memory of a compressor while a response is made, in bytes.
pub const STATE: u64 = 288 << 10;

/// Responses up to this size are compressed in one go, in bytes: a few hundred objects, a millisecond or two.
pub const WHOLE: usize = 512 * 1024;

/// Longest text of a watch that is compressed, in bytes: it takes a turn of some 30 ms. An object is shorter, unless defaults make it longer
/// than what a client can write.
const LONGEST_DEFLATED: usize = 4 << 20;

/// The amount of text that a watch compresses together if it has as much: initial events, and what it has missed. In 64
/// KiB that are compressed alone, half of the text has little before it that it could refer to. Then the whole is a
/// fifth longer, and longer than what kube-apiserver sends. A turn takes some 4 ms, and what it sends is a tenth as
/// long.
pub const TOGETHER: usize = 256 << 10;

/// Longest stored block (RFC 1951), in bytes.
const LONGEST_BLOCK: usize = 0xffff;

/// What a member begins with (RFC 1952): deflate, and neither a name nor a time.
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];

/// An empty block that is the last one of a stream.
const LAST_BLOCK: [u8; 2] = [3, 0];

/// Room for an empty stored block and for what is in front of it.
const LEAST_ROOM: usize = 64;

/// Level of streams and of watches. Level 1 of a zlib of this family is a third faster, but a quarter larger than Go's level 1.
const STREAM_LEVEL: u32 = 2;

/// Level of the others, the fastest that compresses at all.
const WHOLE_LEVEL: i32 = 1;

/// A compressor with room for its output; cached by each thread, as creating one costs a tenth of using it.
struct Whole {
    compressor: Compressor,
    room: Vec<u8>,
}

thread_local! {
    static KEPT: RefCell<Whole> = RefCell::new(Whole {
        compressor: Compressor::new(CompressionLvl::new(WHOLE_LEVEL).unwrap_or_default()),
        room: Vec::new(),
    });
    static BLOCKS: RefCell<Compress> = RefCell::new(Compress::new(Compression::new(STREAM_LEVEL), false));
}

/// Compresses a whole body.
pub fn whole(plain: &[u8]) -> Bytes {
    KEPT.with_borrow_mut(|Whole { compressor, room }| {
        let bound = compressor.gzip_compress_bound(plain.len());
        if room.len() < bound {
            room.resize(bound, 0);
        }
        let length = compressor.gzip_compress(plain, room).expect("the bound of libdeflate must be one");
        Bytes::copy_from_slice(&room[..length])
    })
}

/// Pieces, compressed on demand.
pub struct Gzip {
    pieces: Pieces,
    encoder: Option<GzEncoder<Vec<u8>>>,
}

impl Gzip {
    /// Compresses a body of these pieces.
    pub fn new(pieces: Pieces) -> Gzip {
        Gzip { pieces, encoder: Some(GzEncoder::new(Vec::new(), Compression::new(STREAM_LEVEL))) }
    }
}

impl Iterator for Gzip {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let encoder = self.encoder.as_mut()?;
        let compressed = match self.pieces.next() {
            Some(piece) => {
                // Writing to memory does not fail.
                let _ = encoder.write_all(&piece);
                std::mem::take(encoder.get_mut())
            }
            None => self.encoder.take()?.finish().unwrap_or_default(),
        };
        // Of text that repeats itself, megabytes come to no output. Without any, the turn ends.
        Some(Bytes::from(compressed))
    }
}

/// Compresses a text of a watch, unless that takes too long.
pub fn deflated(plain: &[u8]) -> Deflated {
    let blocks = if plain.len() > LONGEST_DEFLATED { stored_blocks(plain) } else { deflated_blocks(plain) };
    let mut sum = Crc::new();
    sum.update(plain);
    Deflated { blocks: Bytes::from(blocks), sum }
}

/// Stores a text in blocks without compression.
fn stored_blocks(plain: &[u8]) -> Vec<u8> {
    let mut blocks = Vec::with_capacity(plain.len() + plain.len() / LONGEST_BLOCK * 5 + LEAST_ROOM);
    for block in plain.chunks(LONGEST_BLOCK).chain([&[][..]]) {
        let length = block.len() as u16;
        blocks.push(0);
        blocks.extend_from_slice(&length.to_le_bytes());
        blocks.extend_from_slice(&(!length).to_le_bytes());
        blocks.extend_from_slice(block);
    }
    blocks
}

/// Compresses bytes to blocks that end at a byte boundary.
fn deflated_blocks(plain: &[u8]) -> Vec<u8> {
    let mut blocks = Vec::with_capacity(plain.len() / 4 + LEAST_ROOM);
    BLOCKS.with_borrow_mut(|compress| {
        compress.reset();
        loop {
            let read = usize::try_from(compress.total_in()).unwrap_or(usize::MAX).min(plain.len());
            // With room there is no error.
            let _ = compress.compress_vec(&plain[read..], &mut blocks, FlushCompress::Sync);
            // Room that is left shows that nothing is left to be written.
            if blocks.len() < blocks.capacity() {
                break;
            }
            blocks.reserve(plain.len() / 4 + LEAST_ROOM);
        }
    });
    blocks.shrink_to_fit();
    blocks
}

/// The member that a watch sends, part by part.
#[derive(Debug, Default)]
pub struct GzipMember {
    sum: Crc,
    is_begun: bool,
}

impl GzipMember {
    /// The next parts, as they are sent. A single one is not copied.
    pub fn push(&mut self, parts: &[Arc<Deflated>]) -> Bytes {
        for part in parts {
            self.sum.combine(&part.sum);
        }
        let is_begun = std::mem::replace(&mut self.is_begun, true);
        if let ([part], true) = (parts, is_begun) {
            return part.blocks.clone();
        }
        let header: &[u8] = if is_begun { &[] } else { &HEADER };
        let pieces: Vec<&[u8]> = std::iter::once(header).chain(parts.iter().map(|part| &*part.blocks)).collect();
        Bytes::from(pieces.concat())
    }

    /// The bytes after the last part.
    pub fn end(mut self) -> Bytes {
        let begun = self.push(&[]);
        Bytes::from([&*begun, &LAST_BLOCK, &self.sum.sum().to_le_bytes(), &self.sum.amount().to_le_bytes()].concat())
    }
}
