//! A text as blocks of a deflate stream (RFC 1951), which can be part of any number of streams.
//!
//! The blocks refer to nothing before them, none of them is the last of a stream, and they end at a byte. A text that
//! is compressed once is therefore a part of the stream of every watch that shares it. The server defines the rest of
//! such streams.

use bytes::Bytes;
use flate2::Crc;

/// A compressed text, as blocks of a deflate stream.
#[derive(Debug)]
pub struct Deflated {
    /// The blocks.
    pub blocks: Bytes,
    /// The checksum and the length of the text.
    pub sum: Crc,
}
