//! The decompressed body of a response of the source.
//!
//! It is decompressed while it arrives, in pieces of at most [`PIECE`] bytes, whatever the ratio of compression. So all
//! bounds of what is read from a source apply to decompressed bytes. A body is a sequence of gzip members.
//! kube-apiserver writes one for each flush of a watch, and a watch between two of them has no decompressor.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use flate2::{DecompressError, FlushDecompress};
use http::header::CONTENT_ENCODING;
use http::{HeaderMap, Response};
use http_body::Frame;
use kube::client::Body;

/// The most that is decompressed at a time, in bytes.
pub(super) const PIECE: usize = 64 << 10;

/// The minimum capacity for a decompressed piece, in bytes.
const LEAST_ROOM: usize = 4 << 10;

/// The largest window of a gzip stream, as an exponent of two: 32 KiB (RFC 1952).
const WINDOW_BITS: u8 = 15;

/// Why a body cannot be read on.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// The connection failed.
    #[error(transparent)]
    Connection(#[from] kube::Error),
    /// The body is not gzip, although its header says so.
    #[error("the response is not gzip as its Content-Encoding says: {0}")]
    NotGzip(#[from] DecompressError),
    /// The body ends within a gzip member, or the rest of a member cannot be decompressed.
    #[error("the compressed response is incomplete")]
    BreaksOff,
}

/// A body that is decompressed if its Content-Encoding is gzip.
#[derive(Debug)]
pub struct PlainBody {
    body: Body,
    gunzip: Option<Gunzip>,
}

impl PlainBody {
    /// The response with a decompressed body. Bodies without gzip stay as they are.
    pub(super) fn decompress(response: Response<Body>) -> Response<PlainBody> {
        let gunzip = is_gzip(response.headers()).then(Gunzip::default);
        response.map(|body| PlainBody { body, gunzip })
    }
}

fn is_gzip(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_ENCODING).is_some_and(|encoding| encoding.as_bytes().eq_ignore_ascii_case(b"gzip"))
}

impl http_body::Body for PlainBody {
    type Data = Bytes;
    type Error = BodyError;

    /// Yields the pieces of the body, decompressed if it is gzip. Omits the trailers of a gzip body. Fails if it ends
    /// within a member.
    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let PlainBody { body, gunzip } = &mut *self;
        loop {
            if let Some(gunzip) = gunzip
                && let Some(text) = gunzip.next_text().transpose()
            {
                return Poll::Ready(Some(text.map(Frame::data)));
            }
            let frame = ready!(Pin::new(&mut *body).poll_frame(context)).transpose()?;
            let Some(gunzip) = gunzip else { return Poll::Ready(frame.map(Ok)) };
            match frame.map(Frame::into_data) {
                Some(Ok(chunk)) => gunzip.push(chunk),
                // Trailers.
                Some(Err(_)) => {}
                None => return Poll::Ready(gunzip.finish().err().map(Err)),
            }
        }
    }
}

/// Gzip that arrives in chunks.
#[derive(Default)]
pub(super) struct Gunzip {
    /// The compressed bytes that are not read yet.
    chunk: Bytes,
    /// The decompressor of the current member.
    member: Option<flate2::Decompress>,
    /// Whether the last piece was full, so that the decompressor may have more output.
    is_full: bool,
}

impl std::fmt::Debug for Gunzip {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Gunzip").field("chunk", &self.chunk.len()).finish_non_exhaustive()
    }
}

impl Gunzip {
    /// Adds a chunk. All pieces of the previous one must have been taken.
    pub(super) fn push(&mut self, chunk: Bytes) {
        self.chunk = chunk;
    }

    /// The next decompressed piece of the chunk; `None` when the chunk is used up.
    ///
    /// # Errors
    /// The chunk is not gzip, or it cannot be read to its end.
    pub(super) fn next_text(&mut self) -> Result<Option<Bytes>, BodyError> {
        while self.is_full || !self.chunk.is_empty() {
            let member = self.member.get_or_insert_with(|| flate2::Decompress::new_gzip(WINDOW_BITS));
            // JSON is usually compressed to less than a quarter.
            let mut text = Vec::with_capacity((self.chunk.len() * 4).clamp(LEAST_ROOM, PIECE));
            let before = member.total_in();
            let status = member.decompress_vec(&self.chunk, &mut text, FlushDecompress::None)?;
            let read = usize::try_from(member.total_in() - before).unwrap_or(usize::MAX).min(self.chunk.len());
            self.chunk.advance(read);
            self.is_full = text.len() == text.capacity();
            if status == flate2::Status::StreamEnd {
                self.is_full = false;
                if self.chunk.is_empty() {
                    self.member = None;
                } else {
                    member.reset(true);
                }
            } else if read == 0 && text.is_empty() && !self.chunk.is_empty() {
                // Further calls would make no progress either.
                return Err(BodyError::BreaksOff);
            }
            if !text.is_empty() {
                return Ok(Some(Bytes::from(text)));
            }
        }
        Ok(None)
    }

    /// Checks that the body may end here.
    ///
    /// # Errors
    /// The body ends within a gzip member.
    pub(super) fn finish(&mut self) -> Result<(), BodyError> {
        if self.member.take().is_some() { Err(BodyError::BreaksOff) } else { Ok(()) }
    }
}
