//! A text as blocks of a deflate stream (RFC 1951), which can stand in any number of streams.
//!
//! The blocks refer to nothing in front of them, none of them is the last of a stream, and they end at a byte. So a text that is compressed
//! once is a part of the stream of every watch that shares it. What such streams look like is the server's.

use bytes::Bytes;
use flate2::Crc;

/// A text as blocks.
#[derive(Debug)]
pub struct Deflated {
    /// The blocks.
    pub blocks: Bytes,
    /// Checksum and length of the text.
    pub sum: Crc,
}
