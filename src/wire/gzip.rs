//! Compresses responses as one gzip member, which is what Go's server sends.
//!
//! Lists have two compressors. libdeflate is 1.5 times as fast as any zlib, and its output is smaller than that of
//! Go's level 1, but it compresses whole buffers only. So it compresses responses of up to [`WHOLE`] bytes. Longer
//! responses, which must not be buffered whole, are compressed as a stream. `body` decides which lists are
//! compressed, and `watch` decides which watches.
//!
//! # Watches
//! A watch can be open for any time, so it holds no compressor, which would take [`STATE`] bytes. Instead each text
//! (one or more events) is compressed separately ([`deflate`]), and its blocks are appended to one member
//! ([`GzipMember`]), which stores only checksum and length. So a compressed event is shared by all watches that send
//! it.
//!
//! kube-apiserver begins a new member with each flush. Clients that stop at the end of the first member then lose the
//! rest; with a single member they do not. Each text ends with an empty stored block, because decompressors return
//! everything before such a block at once. Without it, Go's reader would wait for the header of the next member.

use std::cell::RefCell;
use std::io::Write;
use std::sync::Arc;

use bytes::Bytes;
use flate2::write::GzEncoder;
use flate2::{Compress, Compression, Crc, FlushCompress};
use libdeflater::{CompressionLvl, Compressor};

use super::pieces::Pieces;
use crate::registry::Deflated;

/// The approximate memory of a streaming compressor, in bytes.
pub const STATE: u64 = 288 << 10;

/// Responses up to this many bytes are compressed at once: a few hundred objects, which take one or two milliseconds.
pub const WHOLE: usize = 512 * 1024;

/// The longest text of a watch that is compressed, in bytes. Compressing it takes about 30 ms. A longer object is
/// possible only if default values make it longer than clients can write.
const LONGEST_DEFLATED: usize = 4 << 20;

/// The bytes of initial or missed events that a watch compresses together, if there are as many. Blocks of only 64
/// KiB would make the output a fifth longer, and longer than that of kube-apiserver: in each, half of the text has
/// little text before it to refer to. Compressing this much takes about 4 ms, and the output is about a tenth as
/// long.
pub const TOGETHER: usize = 256 << 10;

/// The longest stored block, in bytes (RFC 1951).
const LONGEST_BLOCK: usize = 0xffff;

/// The header of a member: deflate, without a name and a time (RFC 1952).
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];

/// An empty block with the flag for the last block of a stream.
const LAST_BLOCK: [u8; 2] = [3, 0];

/// The bytes that are reserved for the empty stored block at the end of a text, and for the end of the block before it.
const LEAST_ROOM: usize = 64;

/// The compression level of streams and watches. Level 1 of this library is a third faster, but its output is a quarter
/// larger than that of Go's level 1.
const STREAM_LEVEL: u32 = 2;

/// The compression level of libdeflate: its fastest one.
const WHOLE_LEVEL: i32 = 1;

/// A compressor for whole responses, with a buffer for its output. Each thread caches one, because creating it costs a
/// tenth of using it.
struct WholeCompressor {
    compressor: Compressor,
    buffer: Vec<u8>,
}

thread_local! {
    static WHOLE_COMPRESSOR: RefCell<WholeCompressor> = RefCell::new(WholeCompressor {
        compressor: Compressor::new(CompressionLvl::new(WHOLE_LEVEL).unwrap_or_default()),
        buffer: Vec::new(),
    });
    /// The compressor for the texts of watches.
    static BLOCKS: RefCell<Compress> = RefCell::new(Compress::new(Compression::new(STREAM_LEVEL), false));
}

/// Compresses a whole body.
pub fn compress_whole(plain: &[u8]) -> Bytes {
    WHOLE_COMPRESSOR.with_borrow_mut(|WholeCompressor { compressor, buffer }| {
        let bound = compressor.gzip_compress_bound(plain.len());
        if buffer.len() < bound {
            buffer.resize(bound, 0);
        }
        let length = compressor.gzip_compress(plain, buffer).expect("the output must fit the bound of libdeflate");
        Bytes::copy_from_slice(&buffer[..length])
    })
}

/// The pieces of a response, compressed as a stream. One compressed piece for each piece, and the end.
pub struct Gzip {
    pieces: Pieces,
    /// `None` after the end.
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

    /// Compresses the next piece. The result is empty while the encoder only buffers. `None` after the end.
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
        // The encoder may buffer a piece without output. An empty piece ends the turn of work.
        Some(Bytes::from(compressed))
    }
}

/// Compresses a text of a watch. Stores it without compression if it is longer than [`LONGEST_DEFLATED`].
pub fn deflate(plain: &[u8]) -> Deflated {
    let blocks = if plain.len() > LONGEST_DEFLATED { stored_blocks(plain) } else { deflated_blocks(plain) };
    let mut sum = Crc::new();
    sum.update(plain);
    Deflated { blocks: Bytes::from(blocks), sum }
}

/// Encodes a text as blocks without compression. The last block is empty.
fn stored_blocks(plain: &[u8]) -> Vec<u8> {
    let mut blocks = Vec::with_capacity(plain.len() + plain.len() / LONGEST_BLOCK * 5 + LEAST_ROOM);
    for block in plain.chunks(LONGEST_BLOCK).chain([&[][..]]) {
        // A stored block (RFC 1951) has a zero byte, its length, the complement of its length, and the bytes.
        let length = block.len() as u16;
        blocks.push(0);
        blocks.extend_from_slice(&length.to_le_bytes());
        blocks.extend_from_slice(&(!length).to_le_bytes());
        blocks.extend_from_slice(block);
    }
    blocks
}

/// Compresses a text to blocks. The last one is an empty stored block, so they end at a byte boundary.
fn deflated_blocks(plain: &[u8]) -> Vec<u8> {
    let mut blocks = Vec::with_capacity(plain.len() / 4 + LEAST_ROOM);
    BLOCKS.with_borrow_mut(|compress| {
        compress.reset();
        loop {
            let read = usize::try_from(compress.total_in()).unwrap_or(usize::MAX).min(plain.len());
            // Compression to a buffer with free space does not fail.
            let _ = compress.compress_vec(&plain[read..], &mut blocks, FlushCompress::Sync);
            // All output is written once space is left in the buffer.
            if blocks.len() < blocks.capacity() {
                break;
            }
            blocks.reserve(plain.len() / 4 + LEAST_ROOM);
        }
    });
    blocks.shrink_to_fit();
    blocks
}

/// The gzip member that a watch sends in parts.
#[derive(Debug, Default)]
pub struct GzipMember {
    /// Checksum and length of all text so far.
    sum: Crc,
    /// Whether the header of the member has been returned.
    is_begun: bool,
}

impl GzipMember {
    /// Adds texts to the member. Returns the bytes to send: their blocks, and before the first ones the header. The
    /// blocks of a single text are not copied.
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

    /// The bytes after the last text, and the header if there was no text.
    pub fn end(mut self) -> Bytes {
        let header = self.push(&[]);
        Bytes::from([&*header, &LAST_BLOCK, &self.sum.sum().to_le_bytes(), &self.sum.amount().to_le_bytes()].concat())
    }
}
