//! Compression of answers, as one gzip member, which is what Go's server sends.
//!
//! Two compressors, because none is best at both: libdeflate is half again as fast as any zlib and its output smaller
//! than that of Go's level 1, but it takes whole buffers only; so answers of up to [`WHOLE`] bytes go through it, and
//! longer ones, which must not be held, through a stream. Which answers are compressed is decided in `body`.

use std::cell::RefCell;
use std::io::Write;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use libdeflater::{CompressionLvl, Compressor};

use super::body::Pieces;

/// About the memory of a compressor while a response is made, in bytes.
pub const STATE: u64 = 288 << 10;

/// Answers up to this size are compressed in one go, in bytes: a few hundred objects, a millisecond or two.
pub const WHOLE: usize = 512 * 1024;

/// Level of the stream. Level 1 of a zlib of this family is a third faster, but a quarter larger than Go's level 1.
const STREAM_LEVEL: u32 = 2;

/// Level of the others, the fastest that compresses at all.
const WHOLE_LEVEL: i32 = 1;

/// A compressor with room for what it writes; kept by each thread, as making one costs a tenth of using it.
struct Whole {
    compressor: Compressor,
    room: Vec<u8>,
}

thread_local! {
    static KEPT: RefCell<Whole> = RefCell::new(Whole {
        compressor: Compressor::new(CompressionLvl::new(WHOLE_LEVEL).unwrap_or_default()),
        room: Vec::new(),
    });
}

/// All of it, compressed.
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

/// Pieces, compressed as they are asked for.
pub struct Gzip {
    pieces: Pieces,
    encoder: Option<GzEncoder<Vec<u8>>>,
}

impl Gzip {
    /// Compresses these.
    pub fn new(pieces: Pieces) -> Gzip {
        Gzip { pieces, encoder: Some(GzEncoder::new(Vec::new(), Compression::new(STREAM_LEVEL))) }
    }
}

impl Iterator for Gzip {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        loop {
            let encoder = self.encoder.as_mut()?;
            let compressed = match self.pieces.next() {
                Some(piece) => {
                    // Writing to memory does not fail.
                    let _ = encoder.write_all(&piece);
                    std::mem::take(encoder.get_mut())
                }
                None => self.encoder.take()?.finish().unwrap_or_default(),
            };
            if !compressed.is_empty() {
                return Some(Bytes::from(compressed));
            }
        }
    }
}
