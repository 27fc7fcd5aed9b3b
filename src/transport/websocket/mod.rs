//! Sends the body of a response over a WebSocket (RFC 6455), after the connection was upgraded.
//!
//! The body already consists of complete frames (`wire::messages` makes them, with [`frame`]), so this module does not
//! depend on events. [`serve`] copies the frames to the client, and answers PING and Close. It sends PING to clients
//! that send nothing, and ends the connection of a client that does not answer, as over HTTP/2. Other data of the
//! client is dropped, with the bounds of [`client`]. The bounds for clients that read slowly are the same as for
//! HTTP/1.1 connections: [`super::write_timeout`] and [`crate::flow_control::unread`]. The handshake is in
//! `server::websocket`.
//!
//! No library is used for the frames: the server writes unfragmented frames and drops all data of clients. A library
//! would keep whole messages in memory before it drops them.

pub(crate) mod client;
pub(crate) mod frame;
#[cfg(test)]
mod tests;

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::time::{Instant, Sleep, sleep, timeout};

use self::client::{ClientFrames, ClientSignal};
use self::frame::CloseCode;
use super::listen::{PING_INTERVAL, PING_TIMEOUT, ResponseBody};

/// The maximum number of bytes that are read from the client at a time.
const CHUNK: usize = 2 << 10;

/// How long the client may take to close the connection after the server has sent Close. A connection that is closed
/// with unread bytes of the client is reset, and then the client may not see the Close frame.
const CLOSE_TIME: Duration = Duration::from_secs(1);

/// The maximum number of bytes of the client that are read and dropped during [`CLOSE_TIME`].
const MOST_DRAINED: usize = 256 << 10;

/// Sends a body to the client, and closes the connection when the body ends or the client sends Close. The function
/// also ends when the client disconnects, or the connection fails. After a Close of the client, no further events are
/// sent.
pub(super) async fn serve<Io, Body>(io: Io, body: Body)
where
    Io: AsyncRead + AsyncWrite + Unpin,
    Body: ResponseBody,
{
    let mut socket = Socket::new(io, body);
    match poll_fn(|context| socket.poll_messages(context)).await {
        Ok(End::Closed { by_client }) => {
            let ended = timeout(CLOSE_TIME, async {
                socket.io.shutdown().await?;
                // After its own Close, the client sends nothing that would have to be read.
                if by_client { Ok(()) } else { poll_fn(|context| socket.poll_close(context)).await }
            });
            let _ = ended.await;
        }
        Ok(End::Disconnected) => tracing::debug!("a client disconnected its WebSocket"),
        Err(error) => tracing::debug!(%error, "a WebSocket ended"),
    }
}

/// How the exchange of messages ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The server has sent Close. `by_client`: it answered a Close of the client.
    Closed { by_client: bool },
    /// The client closed the connection without Close.
    Disconnected,
}

/// The state of the PING with which the server tests whether a client that sends nothing is still there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Probe {
    /// The client has sent something within [`PING_INTERVAL`], so no PING is needed.
    None,
    /// PING must be sent.
    Due,
    /// PING is sent or in `out`, and the client has sent nothing since.
    Sent,
}

/// A WebSocket over which a body is sent.
struct Socket<Io, Body> {
    io: Io,
    /// The body; `None` from the time when the server must send Close.
    body: Option<Body>,
    /// The state of the frames of the client.
    frames: ClientFrames,
    /// The bytes that are being sent. The next bytes are taken from the body only when these are sent.
    out: Bytes,
    /// Whether all written bytes are flushed.
    is_flushed: bool,
    /// The payload of the last PING that is not answered. RFC 6455, 5.5.3, permits to answer the last one only.
    ping: Option<Vec<u8>>,
    /// Ends when the client has sent nothing for [`PING_INTERVAL`], or for [`PING_TIMEOUT`] after PING.
    silence: Pin<Box<Sleep>>,
    probe: Probe,
    /// The code of the Close frame that must be sent; `None` as long as the WebSocket is open.
    closing: Option<CloseCode>,
    /// Whether the Close frame is in `out`, or sent.
    is_close_sent: bool,
    /// Whether the client has sent Close.
    by_client: bool,
    /// The number of bytes that the client has sent after Close.
    drained: usize,
}

impl<Io: AsyncRead + AsyncWrite + Unpin, Body: ResponseBody> Socket<Io, Body> {
    /// An open WebSocket over which nothing has been sent yet.
    fn new(io: Io, body: Body) -> Socket<Io, Body> {
        Socket {
            io,
            body: Some(body),
            frames: ClientFrames::default(),
            out: Bytes::new(),
            is_flushed: true,
            ping: None,
            silence: Box::pin(sleep(PING_INTERVAL)),
            probe: Probe::None,
            closing: None,
            is_close_sent: false,
            by_client: false,
            drained: 0,
        }
    }

    /// Reads and writes as far as possible. Ready when the Close frame is sent, or the client has disconnected.
    ///
    /// # Errors
    /// The connection is broken, or the client does not answer PING.
    fn poll_messages(&mut self, context: &mut Context<'_>) -> Poll<io::Result<End>> {
        loop {
            let is_reading = match self.poll_client(context)? {
                Poll::Ready(false) => return Poll::Ready(Ok(End::Disconnected)),
                Poll::Ready(true) => true,
                Poll::Pending => false,
            };
            self.check_silence(context)?;
            let is_writing = self.poll_send(context)?.is_ready();
            if self.is_close_sent && self.out.is_empty() && self.is_flushed {
                return Poll::Ready(Ok(End::Closed { by_client: self.by_client }));
            }
            if !is_reading && !is_writing {
                return Poll::Pending;
            }
        }
    }

    /// Sets `probe` so that PING is sent when the client has sent nothing for [`PING_INTERVAL`]. The time for the
    /// answer begins when the PING is the next to be written ([`Socket::poll_next`]). Before, the timeouts of writes
    /// apply.
    ///
    /// # Errors
    /// The client has sent nothing for [`PING_TIMEOUT`] after PING.
    fn check_silence(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        if self.closing.is_some() || self.probe == Probe::Due || self.silence.as_mut().poll(context).is_pending() {
            return Ok(());
        }
        if self.probe == Probe::Sent {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not answer PING"));
        }
        self.probe = Probe::Due;
        Ok(())
    }

    /// Reads up to [`CHUNK`] bytes of the client. Ready with true if bytes were read, and with false if the client has
    /// disconnected. Reads nothing, and is pending, when the server must send Close.
    fn poll_client(&mut self, context: &mut Context<'_>) -> Poll<io::Result<bool>> {
        if self.closing.is_some() {
            return Poll::Pending;
        }
        let mut chunk = [0; CHUNK];
        let mut part = ReadBuf::new(&mut chunk);
        ready!(Pin::new(&mut self.io).poll_read(context, &mut part))?;
        if part.filled().is_empty() {
            return Poll::Ready(Ok(false));
        }
        self.probe = Probe::None;
        self.silence.as_mut().reset(Instant::now() + PING_INTERVAL);
        let mut bytes = part.filled();
        loop {
            match self.frames.read(&mut bytes) {
                Ok(Some(ClientSignal::Ping(payload))) => self.ping = Some(payload),
                Ok(Some(ClientSignal::Close)) => {
                    self.by_client = true;
                    self.close(CloseCode::Normal);
                    break;
                }
                Ok(None) => break,
                Err(code) => {
                    tracing::debug!(?code, "a client of a WebSocket violates the protocol, or sends too much");
                    self.close(code);
                    break;
                }
            }
        }
        Poll::Ready(Ok(true))
    }

    /// Makes the server send Close next, with the code of the first call, and drops the body.
    fn close(&mut self, code: CloseCode) {
        self.closing.get_or_insert(code);
        (self.body, self.ping) = (None, None);
    }

    /// Sends the next bytes. Ready if there may be more to send.
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.out.is_empty() {
            match self.poll_next(context) {
                Poll::Ready(bytes) => self.out = bytes,
                Poll::Pending if self.is_flushed => return Poll::Pending,
                Poll::Pending => {
                    ready!(Pin::new(&mut self.io).poll_flush(context))?;
                    self.is_flushed = true;
                    return Poll::Ready(Ok(()));
                }
            }
        }
        if self.out.is_empty() {
            return Poll::Ready(Ok(()));
        }
        let written = ready!(Pin::new(&mut self.io).poll_write(context, &self.out))?;
        if written == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        self.out.advance(written);
        // An empty `Bytes` still holds its buffer, which would count as unread until the next event.
        if self.out.is_empty() {
            self.out = Bytes::new();
        }
        self.is_flushed = false;
        Poll::Ready(Ok(()))
    }

    /// The next bytes to send: PONG, PING, Close, or frames of the body. Pending if there are none now, and after
    /// Close.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Bytes> {
        if let Some(payload) = self.ping.take() {
            return Poll::Ready(frame::pong(&payload).into());
        }
        if self.probe == Probe::Due && self.body.is_some() {
            self.probe = Probe::Sent;
            self.silence.as_mut().reset(Instant::now() + PING_TIMEOUT);
            return Poll::Ready(Bytes::from_static(frame::PING));
        }
        if let Some(body) = &mut self.body {
            match ready!(Pin::new(body).poll_frame(context)) {
                Some(Ok(frame)) => return Poll::Ready(frame.into_data().unwrap_or_default()),
                Some(Err(error)) => {
                    tracing::debug!(error = &*error.into(), "the messages of a WebSocket ended early");
                    self.close(CloseCode::InternalError);
                }
                None => self.close(CloseCode::Normal),
            }
        }
        match self.closing {
            Some(code) if !std::mem::replace(&mut self.is_close_sent, true) => Poll::Ready(frame::close(code).into()),
            Some(_) | None => Poll::Pending,
        }
    }

    /// Reads and drops what the client sends after the Close of the server. Ready when the client has closed the
    /// connection, or has sent [`MOST_DRAINED`] bytes.
    fn poll_close(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut chunk = [0; CHUNK];
        while self.drained < MOST_DRAINED {
            let mut part = ReadBuf::new(&mut chunk);
            ready!(Pin::new(&mut self.io).poll_read(context, &mut part))?;
            if part.filled().is_empty() {
                break;
            }
            self.drained += part.filled().len();
        }
        Poll::Ready(Ok(()))
    }
}
