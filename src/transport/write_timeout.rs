//! Ends connections whose client stopped. A write that makes no progress for too long ([`super::pace`]) fails, and so
//! does reading from a client that connects and sends nothing.
//!
//! Otherwise, a client that stops reading would hold its connection, and the snapshot of a list, for as long as the
//! client's kernel answers probes. [`super::stream_timeout`] ends single streams of an HTTP/2 connection. After the
//! first bytes, [`super::listen`] sets other timeouts: hyper's timeout for heads of HTTP/1.1, and PINGs for HTTP/2.
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

/// The time in which a client must send enough bytes to distinguish HTTP/2 from HTTP/1.1. The timeouts of the protocols
/// begin after that.
const FIRST_BYTES: Duration = Duration::from_secs(30);

/// How long the writes may take that free the queued bytes of a reset stream. The connection does not end at once if
/// its socket is full, because the connection of a front proxy carries requests of many users.
pub(crate) const FREES_WITHIN: Duration = Duration::from_secs(1);

/// The bytes that are read from a connection before it yields to other tasks. hyper reads as long as bytes arrive, so
/// a client that sends small frames fast would otherwise occupy a thread. An HTTP/2 request can be as short as twenty
/// bytes, and takes a kilobyte of memory until its response is written. So only few bytes are read before responses
/// are written.
const READ_AT_A_TIME: usize = 2 << 10;

/// The first bytes of an HTTP/2 connection (RFC 9113, 3.4).
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A connection with timeouts for writes that wait, and for the first bytes of the client.
pub struct WriteTimeout<Io> {
    io: Io,
    /// The timeout for the first bytes, and the number of bytes of [`PREFACE`] that have arrived. `None` once the
    /// protocol is known.
    expects: Option<(Pin<Box<Sleep>>, usize)>,
    /// Set while a write waits: when it began to wait, and its timeout.
    gives_up: Option<(Instant, Pin<Box<Sleep>>)>,
    /// Set while all queued bytes must be written because a stream was reset: the timeout, which progress does not
    /// prolong.
    frees_by: Option<Pin<Box<Sleep>>>,
    /// How long writes may still wait.
    pace: Pace,
    /// The number of the poll of the connection in which [`READ_AT_A_TIME`] bytes were read, so that this poll reads
    /// no more.
    has_read: Option<u64>,
    /// Knows whether the connection must write soon, or must not read.
    link: Arc<Link>,
}

impl<Io> WriteTimeout<Io> {
    /// Adds the timeouts to a connection.
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

    /// Checks how long a write has waited. Returns `written`, its result, or an error if it has waited for too long.
    /// `bytes` returns the number of bytes of a write that is done.
    fn check_write<Done>(
        &mut self,
        written: Poll<io::Result<Done>>,
        bytes: impl FnOnce(&Done) -> usize,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<Done>> {
        if let Poll::Ready(written) = written {
            if let Some((since, _)) = self.gives_up.take() {
                // The result is not needed: `gives_up` ends writes that exceed the time.
                self.pace.record_pause(since.elapsed());
            }
            self.pace.record_read(written.as_ref().map_or(0, bytes));
            return Poll::Ready(written);
        }
        // The reset of a stream must be written soon, because the bytes of the stream are in memory until then.
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

    /// Compares the next of the first bytes with the preface of HTTP/2. Ends the timeout once the protocol is known.
    fn check_first_bytes(&mut self, bytes: &[u8]) {
        if let Some((_, arrived)) = &mut self.expects {
            let expected = &PREFACE[*arrived..];
            let length = bytes.len().min(expected.len());
            *arrived += length;
            // No bytes mean the end of the connection.
            if bytes.is_empty() || bytes[..length] != expected[..length] || *arrived == PREFACE.len() {
                self.expects = None;
            }
        }
    }
}

impl<Io: AsyncRead + Unpin> AsyncRead for WriteTimeout<Io> {
    /// Reads at most [`READ_AT_A_TIME`] bytes in each poll of the connection, and nothing while too many requests are
    /// not processed yet. Fails if the first bytes do not arrive in time.
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // Within one poll of the connection, hyper reads again for each request that it accepts. The task wakes itself,
        // because nothing else wakes it when it may read again. Other tasks run before that.
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
            Poll::Ready(Ok(())) => self.check_first_bytes(&buffer.filled()[filled..]),
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
        self.check_write(written, |bytes| *bytes, context)
    }

    /// Flushes within the timeouts of writes. When it is done, no reset of a stream has to be written any more.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.io).poll_flush(context);
        if flushed.is_ready() {
            // Resets of streams are among the bytes that are now written.
            self.link.record_written();
            self.frees_by = None;
        }
        self.check_write(flushed, |()| 0, context)
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
        self.check_write(written, |bytes| *bytes, context)
    }
}
