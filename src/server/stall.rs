//! A connection whose peer has stopped is given up: a write that makes no progress for too long is an error, and so is a
//! peer that connects and says nothing.
//!
//! Without it a client that stops reading holds its connection, and a list in the middle holds its snapshot, for as
//! long as the peer's kernel answers probes. A single stalled stream of an HTTP/2 connection that is otherwise read is
//! not seen here; it holds one chunk and the snapshot that its list walks. A peer that begins HTTP/2's preface and stops in
//! the middle of it is not seen either.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::rt::{Read, ReadBufCursor, Write};
use tokio::time::{Sleep, sleep};

/// How long a write may wait for the reader. Longer than any pause of a healthy client, a few minutes at most.
const PATIENCE: Duration = Duration::from_secs(120);

/// How long the first bytes may take. The bound on request heads begins only with them.
const FIRST_BYTES: Duration = Duration::from_secs(30);

/// A connection with a bound on waiting writes and on the first read.
pub struct Stall<Io> {
    io: Io,
    /// Until the peer has said something.
    expects: Option<Pin<Box<Sleep>>>,
    /// Set while a write waits.
    gives_up: Option<Pin<Box<Sleep>>>,
}

impl<Io> Stall<Io> {
    /// Watches over a connection.
    pub fn new(io: Io) -> Stall<Io> {
        Stall { io, expects: Some(Box::pin(sleep(FIRST_BYTES))), gives_up: None }
    }

    /// Passes on what a write came to, unless it has waited for too long.
    fn judge<Done>(&mut self, written: Poll<io::Result<Done>>, context: &mut Context<'_>) -> Poll<io::Result<Done>> {
        if written.is_ready() {
            self.gives_up = None;
            return written;
        }
        let gives_up = self.gives_up.get_or_insert_with(|| Box::pin(sleep(PATIENCE)));
        ready!(gives_up.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client has stopped reading")))
    }
}

impl<Io: Read + Unpin> Read for Stall<Io> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.io).poll_read(context, buffer);
        match &mut self.expects {
            Some(_) if read.is_ready() => self.expects = None,
            Some(expects) => {
                ready!(expects.as_mut().poll(context));
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client has said nothing")));
            }
            None => {}
        }
        read
    }
}

impl<Io: Write + Unpin> Write for Stall<Io> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(context, bytes);
        self.judge(written, context)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.io).poll_flush(context);
        self.judge(flushed, context)
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
        self.judge(written, context)
    }
}
