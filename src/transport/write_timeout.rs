//! Ends a connection whose peer has stopped. A write that makes no progress for too long ([`super::pace`]) is an error,
//! and so is a peer that connects and sends nothing.
//!
//! Otherwise, a client that stops reading would hold its connection, and a list its snapshot, for as long as the peer's kernel answers probes. A
//! single stalled stream of an HTTP/2 connection is [`super::stream_timeout`]'s. What follows the first bytes has other bounds, which
//! [`super::listen`] sets: hyper's timeout for heads of HTTP/1.1, and PINGs for HTTP/2.
//!
//! A connection that always has something to read yields to other tasks in between.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use super::pace::Pace;
use super::stream_timeout::Link;

/// How long the first bytes may take, up to those that distinguish HTTP/2 from HTTP/1.1. The bounds of either begin
/// only then.
const FIRST_BYTES: Duration = Duration::from_secs(30);

/// How long a write may wait that frees what an ended stream had queued. A front proxy carries requests of many users over one connection, so
/// the connection does not end because its socket is full at that moment.
pub(crate) const FREES_WITHIN: Duration = Duration::from_secs(1);

/// The bytes that a connection may be read before others have their turn. A peer that sends small frames as fast as
/// they are read would otherwise occupy a thread: hyper reads as long as there is something. Requests of HTTP/2 can be
/// as short as twenty bytes and each takes a kilobyte until its response is written. So small pieces are read, and
/// responses are written before more is read.
const READ_AT_A_TIME: usize = 2 << 10;

/// What HTTP/2 begins with (RFC 9113, 3.4).
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A connection with a bound on waiting writes and on the first bytes.
pub struct WriteTimeout<Io> {
    io: Io,
    /// The time until the peer must have shown which protocol it uses, with the number of bytes of HTTP/2's preface
    /// so far.
    expects: Option<(Pin<Box<Sleep>>, usize)>,
    /// Set while a write waits: since when, and the end of it.
    gives_up: Option<(Instant, Pin<Box<Sleep>>)>,
    /// Set while everything has to be written because a stream has ended: the end of it. Progress does not prolong it.
    frees_by: Option<Pin<Box<Sleep>>>,
    /// How long writes may still wait.
    pace: Pace,
    /// The poll of the connection in which as much was read as may be at a time.
    has_read: Option<u64>,
    /// Says when a write must not wait for long.
    link: Arc<Link>,
}

impl<Io> WriteTimeout<Io> {
    /// Limits how long writes of a connection may make no progress.
    pub(crate) fn new(io: Io, link: Arc<Link>) -> WriteTimeout<Io> {
        WriteTimeout {
            io,
            expects: Some((Box::pin(sleep(FIRST_BYTES)), 0)),
            gives_up: None,
            frees_by: None,
            pace: Pace::default(),
            has_read: None,
            link,
        }
    }

    /// Passes on the result of a write and its number of bytes, unless it has waited for too long.
    fn judge<Done>(
        &mut self,
        written: Poll<io::Result<Done>>,
        bytes: impl FnOnce(&Done) -> usize,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<Done>> {
        if let Poll::Ready(written) = written {
            if let Some((since, _)) = self.gives_up.take() {
                self.pace.wait(since.elapsed());
            }
            self.pace.take(written.as_ref().map_or(0, bytes));
            return Poll::Ready(written);
        }
        if !self.link.may_wait() {
            let frees_by = self.frees_by.get_or_insert_with(|| Box::pin(sleep(FREES_WITHIN)));
            if frees_by.as_mut().poll(context).is_ready() {
                return Poll::Ready(Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "the client has left too much unread",
                )));
            }
        }
        let left = self.pace.left();
        let (_, gives_up) = self.gives_up.get_or_insert_with(|| (Instant::now(), Box::pin(sleep(left))));
        ready!(gives_up.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client has stopped reading, or reads too slowly")))
    }

    /// Compares the next of the first bytes with the preface of HTTP/2.
    fn heard(&mut self, bytes: &[u8]) {
        if let Some((_, said)) = &mut self.expects {
            let expected = &PREFACE[*said..];
            let length = bytes.len().min(expected.len());
            *said += length;
            // Nothing at all is the end of the connection.
            if bytes.is_empty() || bytes[..length] != expected[..length] || *said == PREFACE.len() {
                self.expects = None;
            }
        }
    }
}

impl<Io: AsyncRead + Unpin> AsyncRead for WriteTimeout<Io> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // hyper polls again within one poll of the connection, for each request that it accepts.
        let poll = self.link.poll();
        if self.has_read == Some(poll) || self.link.must_pause() {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let filled = buffer.filled().len();
        let mut bytes = [0; READ_AT_A_TIME];
        let mut part = ReadBuf::new(&mut bytes[..READ_AT_A_TIME.min(buffer.remaining())]);
        let read = Pin::new(&mut self.io).poll_read(context, &mut part);
        buffer.put_slice(part.filled());
        self.has_read = (read.is_ready() && part.remaining() == 0).then_some(poll);
        if self.expects.is_none() {
            return read;
        }
        match read {
            Poll::Ready(Ok(())) => self.heard(&buffer.filled()[filled..]),
            Poll::Ready(Err(_)) => self.expects = None,
            Poll::Pending => {
                if let Some((expects, _)) = &mut self.expects {
                    ready!(expects.as_mut().poll(context));
                    let message = "the client did not start HTTP/1.1 or HTTP/2 in time";
                    return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, message)));
                }
            }
        }
        read
    }
}

impl<Io: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<Io> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(context, bytes);
        self.judge(written, |bytes| *bytes, context)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.io).poll_flush(context);
        if flushed.is_ready() {
            self.link.has_written();
            self.frees_by = None;
        }
        self.judge(flushed, |()| 0, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(context, pieces);
        self.judge(written, |bytes| *bytes, context)
    }
}
