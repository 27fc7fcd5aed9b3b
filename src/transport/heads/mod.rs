//! Reads the head of each request before hyper does, because hyper and `http::Uri` accept fewer requests than Go's
//! server.
//!
//! The head of a request is its first line and its headers.
//!
//! | request | hyper gets |
//! |---|---|
//! | hyper can read it | the same bytes |
//! | a character in the URL that `http::Uri` rejects ([`target`]) | the character percent-encoded |
//! | a URL longer than `http::Uri`, many headers, or a long head | a short head; [`slots`] store the rest |
//! | it is rejected | a short head with the error in a slot, so that a handler creates its response like any other |
//!
//! To find the next head, the end of a body must be known. Without a body it is the end of the head, and with
//! Content-Length it is counted. A request with a chunked body becomes the last one of its connection, so its end is
//! not needed. If the same bytes could be read in two ways, a request could hide in another one (request smuggling).
//! A front proxy sends requests of several users over one connection, so this would endanger users. Therefore [`one`]
//! uses hyper's own parser, and rejects ambiguous heads. A rejected request is the last one of its connection.
//!
//! Over HTTP/2, [`two`] does the same with header blocks, whose lengths are in their frames.
//!
//! A head may be as long as with Go's server: [`MOST_HEAD`]. A head that is longer than [`USUAL_HEAD`] counts for the
//! address of the client ([`crate::flow_control::connections::Connections::take_head`]). It counts while it is read,
//! and until its request has a response.

pub(crate) mod bounds;
mod hpack;
mod one;
pub(crate) mod slots;
mod target;
#[cfg(test)]
mod tests;
mod two;

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use self::bounds::{MOST_HEAD, USUAL_HEAD, too_long};
use self::one::{CompleteHead, Following};
use self::slots::{SLOT_HEADER, Slots, StoredParts};
use self::two::{FrameAction, Frames};
use super::head_error::HeadError;
use super::stream_timeout::Link;
use super::write_timeout::PREFACE;
use crate::flow_control::connections::LONG_HEAD;
use crate::flow_control::user::UserShare;

/// How long a head may take to arrive, from its first byte. hyper has no timeout for it, because it gets only
/// complete heads.
const HEAD_TIME: Duration = Duration::from_secs(30);

/// The bytes that are read from the socket at a time.
const CHUNK: usize = 2 << 10;

/// After a rejected request, up to this many bytes are read and dropped, for up to this time. If a connection is
/// closed with unread bytes, it is reset, and the client may not see the response.
const MOST_DRAINED: usize = 4 << 20;
const DRAIN_TIME: Duration = Duration::from_secs(1);

/// The meaning of the next bytes of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// The beginning of the connection, which may be HTTP/2's preface.
    Preface,
    /// A head of HTTP/1.1.
    Head,
    /// This many bytes of a body.
    Body(u64),
    /// A frame of HTTP/2.
    Frame,
    /// The rest of the connection, which is passed on unchanged.
    Rest,
    /// Nothing more is passed on, because a request was rejected.
    Nothing,
}

/// A connection whose heads are read before hyper reads them.
#[derive(Debug)]
pub(super) struct Heads<Io> {
    io: Io,
    next: Next,
    /// Bytes that were read and are not passed on yet.
    held: Vec<u8>,
    /// The number of bytes of `held` that have been searched for the end of a head, without success.
    searched: usize,
    /// The bytes that hyper gets instead of a head, and how many of them are passed on already.
    instead: (Vec<u8>, usize),
    /// The number of bytes that are passed on unchanged next: those of a head or frame. Some of them may not be in
    /// `held` yet.
    passing: usize,
    /// The share of the long head that is being read.
    share: Option<UserShare>,
    /// The state of HTTP/2 frames.
    frames: Option<Box<Frames>>,
    /// The parts of requests that hyper cannot carry.
    slots: Arc<Slots>,
    /// The state that all tasks of the connection share: its number of polls, whether it is upgraded to a WebSocket, and
    /// the memory for long heads.
    link: Arc<Link>,
    /// The timeout of a head that is incomplete.
    late: Option<Pin<Box<Sleep>>>,
    /// Set while the bytes after a rejected request are dropped: the timeout, and the number of dropped bytes.
    draining: Option<(Pin<Box<Sleep>>, usize)>,
}

impl<Io> Heads<Io> {
    /// A reader of the heads of a connection.
    pub(super) fn new(io: Io, slots: Arc<Slots>, link: Arc<Link>) -> Heads<Io> {
        Heads {
            io,
            next: Next::Preface,
            held: Vec::new(),
            searched: 0,
            instead: (Vec::new(), 0),
            passing: 0,
            share: None,
            frames: None,
            slots,
            link,
            late: None,
            draining: None,
        }
    }

    /// Parses the next head in `held`, or the preface of HTTP/2. Returns whether bytes can be passed on; false if
    /// more must be read first.
    fn advance_head(&mut self) -> bool {
        if self.next == Next::Preface {
            let length = self.held.len().min(PREFACE.len());
            if self.held[..length] != PREFACE[..length] {
                self.next = Next::Head;
            } else if length == PREFACE.len() {
                (self.next, self.passing, self.late) = (Next::Frame, PREFACE.len(), None);
                return true;
            } else {
                return false;
            }
        }
        if self.searched == 0 {
            // Go skips empty lines before a request too, at least after a POST.
            let empty = self.held.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
            self.held.drain(..empty);
        }
        if self.held.is_empty() {
            return false;
        }
        // A head that does not arrive at once is parsed again when it may be complete.
        let is_first = self.searched == 0;
        // The line breaks at the end of a head can begin in the last three bytes that were searched before.
        let may_be_complete = has_end(&self.held[self.searched.saturating_sub(3)..]);
        self.searched = self.held.len();
        let read = if is_first || may_be_complete {
            let (link, held) = (&self.link, &mut self.share);
            // This share replaces the one that was taken before the length of the head was known.
            one::read(&self.held, &self.slots, &mut |bytes| {
                *held = None;
                link.take_head(bytes).map_err(HeadError::Limited)
            })
        } else {
            Ok(None)
        };
        // An incomplete head that is too long is rejected.
        match read.and_then(|head| head.map_or_else(|| self.check_length().map(|()| None), |head| Ok(Some(head)))) {
            Ok(Some(head)) => self.pass_head(head),
            Ok(None) => return false,
            Err(failure) => self.reject(failure),
        }
        true
    }

    /// Processes the next HTTP/2 frame in `held`. Returns false if more must be read first. Otherwise bytes can be
    /// passed on, or the next frame can be processed.
    fn advance_frames(&mut self) -> bool {
        let link = &self.link;
        let mut share = |bytes| link.take_head(bytes).map_err(HeadError::Limited);
        let frames = self.frames.get_or_insert_default();
        let step = frames.step(&self.held, &self.slots, &mut share);
        // All frames of a block together have the timeout of one head.
        if step != FrameAction::More && !frames.is_within_block() {
            self.late = None;
        }
        match step {
            FrameAction::More => return false,
            FrameAction::Pass(length) => self.passing = length,
            FrameAction::Instead(length, frames) => {
                self.remove_held(length);
                self.instead = (frames, 0);
            }
            FrameAction::Broken => {
                tracing::debug!("cannot decode a header block, closing the connection");
                self.instead = (two::BROKEN.to_vec(), 0);
                (self.held, self.frames, self.next) = (Vec::new(), None, Next::Nothing);
            }
        }
        true
    }

    /// Takes a share for an incomplete head that is long.
    ///
    /// # Errors
    /// The head is too long, or the share of the client's address has no room for it.
    fn check_length(&mut self) -> Result<(), HeadError> {
        if self.held.len() > MOST_HEAD {
            return Err(too_long());
        }
        if self.held.len() > USUAL_HEAD && self.share.is_none() {
            self.share = Some(self.link.take_head(LONG_HEAD).map_err(HeadError::Limited)?);
        }
        Ok(())
    }

    /// Passes a complete head on to hyper.
    fn pass_head(&mut self, head: CompleteHead) {
        let CompleteHead { length, instead, following } = head;
        match instead {
            None => self.passing = length,
            Some(instead) => {
                self.instead = (instead, 0);
                self.remove_held(length);
            }
        }
        (self.share, self.searched, self.late) = (None, 0, None);
        self.next = match following {
            Following::Body(0) => Next::Head,
            Following::Body(length) => Next::Body(length),
            Following::Chunks => Next::Rest,
        };
    }

    /// Rejects a request: passes a minimal head on to hyper, with the error in a slot. Nothing after it is passed on.
    fn reject(&mut self, failure: HeadError) {
        // The response to HEAD has no body.
        let method = if self.held.starts_with(b"HEAD ") { "HEAD" } else { "GET" };
        let number = self.slots.store(StoredParts::rejected(failure));
        let head =
            format!("{method} / HTTP/1.1\r\nhost: rejected\r\nconnection: close\r\n{SLOT_HEADER}: {number}\r\n\r\n");
        self.instead = (head.into_bytes(), 0);
        (self.held, self.share, self.late, self.next) = (Vec::new(), None, None, Next::Nothing);
    }

    /// Whether a head, a frame or a header block is incomplete.
    fn has_begun(&self) -> bool {
        let is_within_block = self.frames.as_ref().is_some_and(|frames| frames.is_within_block());
        is_within_block || (self.passing == 0 && !self.held.is_empty())
    }

    /// Ready when an incomplete head has not arrived in time. Pending if no head is incomplete.
    fn poll_late(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if !self.has_begun() {
            return Poll::Pending;
        }
        self.late.get_or_insert_with(|| Box::pin(sleep(HEAD_TIME))).as_mut().poll(context)
    }

    /// Passes on bytes of `held`, at most `most`, and returns their number.
    fn pass_held(&mut self, most: usize, buffer: &mut ReadBuf<'_>) -> usize {
        let given = most.min(self.held.len()).min(buffer.remaining());
        buffer.put_slice(&self.held[..given]);
        self.remove_held(given);
        given
    }

    /// Removes bytes from the beginning of `held`. Frees its memory if it becomes empty, because most connections are
    /// idle.
    fn remove_held(&mut self, length: usize) {
        self.held.drain(..length);
        if self.held.is_empty() {
            self.held = Vec::new();
        }
    }
}

/// Whether a part of a head contains an empty line after another line, which ends the head.
fn has_end(part: &[u8]) -> bool {
    memchr::memchr_iter(b'\n', part).any(|end| matches!(part[end + 1..], [b'\n', ..] | [b'\r', b'\n', ..]))
}

impl<Io: AsyncRead + Unpin> Heads<Io> {
    /// Reads more bytes to `held`; false at the end of the stream.
    fn poll_more(&mut self, context: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let mut chunk = [0; CHUNK];
        let mut part = ReadBuf::new(&mut chunk);
        ready!(Pin::new(&mut self.io).poll_read(context, &mut part))?;
        self.held.extend_from_slice(part.filled());
        Poll::Ready(Ok(!part.filled().is_empty()))
    }

    /// Drops the bytes after a rejected request. Ready when the client has closed the connection, or [`MOST_DRAINED`]
    /// or [`DRAIN_TIME`] is reached.
    fn poll_drain(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut chunk = [0; CHUNK];
        let (patience, drained) = self.draining.get_or_insert_with(|| (Box::pin(sleep(DRAIN_TIME)), 0));
        while *drained < MOST_DRAINED && patience.as_mut().poll(context).is_pending() {
            let mut part = ReadBuf::new(&mut chunk);
            match ready!(Pin::new(&mut self.io).poll_read(context, &mut part)) {
                Ok(()) if !part.filled().is_empty() => *drained += part.filled().len(),
                _ => break,
            }
        }
        Poll::Ready(())
    }
}

impl<Io: AsyncRead + Unpin> AsyncRead for Heads<Io> {
    /// Passes the next bytes on to hyper. Reads a whole head or header block before it passes any of it on. After a
    /// rejected request, passes nothing on. Fails if a head does not arrive in time.
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let heads = &mut *self;
        loop {
            let (instead, given) = &mut heads.instead;
            if *given < instead.len() {
                let part = &instead[*given..];
                let length = part.len().min(buffer.remaining());
                buffer.put_slice(&part[..length]);
                *given += length;
                if *given == instead.len() {
                    heads.instead = (Vec::new(), 0);
                }
                return Poll::Ready(Ok(()));
            }
            if heads.passing > 0 && !heads.held.is_empty() {
                heads.passing -= heads.pass_held(heads.passing, buffer);
                return Poll::Ready(Ok(()));
            }
            match heads.next {
                // The rest of the head has to be read.
                _ if heads.passing > 0 => {}
                Next::Frame => {
                    // All slots are in use until hyper accepts the requests that h2 has read, in a later poll.
                    if !heads.slots.free_unused(heads.link.poll()) {
                        context.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                    if heads.advance_frames() {
                        continue;
                    }
                }
                Next::Nothing => return Poll::Pending,
                Next::Rest if heads.held.is_empty() => return Pin::new(&mut heads.io).poll_read(context, buffer),
                Next::Rest => {
                    heads.pass_held(usize::MAX, buffer);
                    return Poll::Ready(Ok(()));
                }
                Next::Body(left) if !heads.held.is_empty() => {
                    let given = heads.pass_held(usize::try_from(left).unwrap_or(usize::MAX), buffer) as u64;
                    heads.next = if given == left { Next::Head } else { Next::Body(left - given) };
                    return Poll::Ready(Ok(()));
                }
                // After the head of an upgraded request comes no other head. If a client sends frames before it has the
                // response, which RFC 6455 forbids, they may have been rejected as a head already.
                Next::Head if heads.link.is_upgraded() => {
                    heads.next = Next::Rest;
                    continue;
                }
                Next::Preface | Next::Head => {
                    // Only the parts of one request at a time are in slots.
                    ready!(heads.slots.poll_empty(context));
                    if heads.searched < heads.held.len() && heads.advance_head() {
                        continue;
                    }
                }
                Next::Body(_) => {}
            }
            match heads.poll_more(context)? {
                Poll::Ready(true) => {}
                // hyper gets the end of the stream. An incomplete head is dropped.
                Poll::Ready(false) => return Poll::Ready(Ok(())),
                Poll::Pending => {
                    ready!(heads.poll_late(context));
                    let message = "the headers of a request did not arrive in time";
                    return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, message)));
                }
            }
        }
    }
}

impl<Io: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Heads<Io> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    /// Closes the sending side. After a rejected request, then also drops what the client still sends: see
    /// [`Heads::poll_drain`].
    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.draining.is_none() {
            ready!(Pin::new(&mut self.io).poll_shutdown(context))?;
        }
        if self.next == Next::Nothing {
            ready!(self.poll_drain(context));
        }
        Poll::Ready(Ok(()))
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(context, pieces)
    }
}
