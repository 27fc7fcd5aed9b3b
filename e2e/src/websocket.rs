//! The messages of a WebSocket, checked frame by frame: those of a watch, as kube-apiserver sends them.
//!
//! Each message is one frame with one event. Text has a newline at its end, as a line over HTTP has. The last frame is
//! Close with the code 1000, and then the connection ends.

use anyhow::{Context, Result, bail, ensure};
use bytes::{Buf, Bytes, BytesMut};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// The first bytes of frames that are whole messages.
const TEXT: u8 = 0x81;
const BINARY: u8 = 0x82;
const CLOSE: u8 = 0x88;

/// The code of a normal end.
const NORMAL: [u8; 2] = 1000_u16.to_be_bytes();

/// The headers of a handshake, except Host and Origin.
pub const HANDSHAKE: [(&str, &str); 4] = [
    ("connection", "Upgrade"),
    ("upgrade", "websocket"),
    ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ("sec-websocket-version", "13"),
];

/// What a server must answer to the key of [`HANDSHAKE`].
pub const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

/// A frame of a client, masked with zeros.
#[must_use]
pub fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![first];
    match payload.len() {
        short @ 0..=125 => frame.push(0x80 | short as u8),
        medium @ 126..=0xffff => {
            frame.push(0x80 | 126);
            frame.extend_from_slice(&(medium as u16).to_be_bytes());
        }
        long => {
            frame.push(0x80 | 127);
            frame.extend_from_slice(&(long as u64).to_be_bytes());
        }
    }
    frame.extend_from_slice(&[0; 4]);
    frame.extend_from_slice(payload);
    frame
}

/// An event of a watch, as it comes over HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A line, without its newline.
    Line(Bytes),
    /// Protobuf with its length before it.
    Framed(Bytes),
}

/// The server's side of an open WebSocket.
#[derive(Debug)]
pub struct Messages {
    io: TokioIo<Upgraded>,
    received: BytesMut,
}

impl Messages {
    /// The messages after an upgrade.
    #[must_use]
    pub fn new(upgraded: Upgraded) -> Messages {
        Messages { io: TokioIo::new(upgraded), received: BytesMut::new() }
    }

    /// Sends bytes as they are, which a hostile client may do.
    ///
    /// # Errors
    /// When the connection is broken.
    pub async fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.io.write_all(bytes).await.context("writing to a WebSocket")?;
        self.io.flush().await.context("writing to a WebSocket")
    }

    /// The next frame, as first byte and payload; `None` at the end of the connection.
    ///
    /// # Errors
    /// When a frame is incomplete or masked.
    pub async fn frame(&mut self) -> Result<Option<(u8, Bytes)>> {
        loop {
            if let Some((head, length)) = head(&self.received)?
                && self.received.len() >= head + length
            {
                let first = self.received[0];
                self.received.advance(head);
                return Ok(Some((first, self.received.split_to(length).freeze())));
            }
            if self.io.read_buf(&mut self.received).await.context("reading a WebSocket")? == 0 {
                ensure!(self.received.is_empty(), "the connection ends within a frame");
                return Ok(None);
            }
        }
    }

    /// The next message or control frame, as [`Messages::frame`] returns a frame. The parts of a long message are joined.
    async fn message(&mut self) -> Result<Option<(u8, Bytes)>> {
        let Some((first, part)) = self.frame().await? else { return Ok(None) };
        // Neither the last part, nor a control frame.
        if first & 0x80 != 0 {
            return Ok(Some((first, part)));
        }
        let mut message = BytesMut::from(&part[..]);
        loop {
            match self.frame().await? {
                Some((0x00, part)) => message.extend_from_slice(&part),
                Some((0x80, part)) => {
                    message.extend_from_slice(&part);
                    return Ok(Some((first | 0x80, message.freeze())));
                }
                other => bail!("{other:?} within a message"),
            }
        }
    }

    /// The next event; `None` at the end.
    ///
    /// # Errors
    /// When a message is otherwise than kube-apiserver's.
    pub async fn event(&mut self) -> Result<Option<Event>> {
        match self.message().await? {
            Some((TEXT, line)) => {
                let ends = line.iter().filter(|byte| **byte == b'\n').count();
                ensure!(ends == 1 && line.ends_with(b"\n"), "{ends} lines in a message: {line:?}");
                Ok(Some(Event::Line(line.slice(..line.len() - 1))))
            }
            Some((BINARY, event)) => {
                let length = u32::try_from(event.len()).context("a long message")?;
                Ok(Some(Event::Framed([&length.to_be_bytes()[..], &event].concat().into())))
            }
            Some((CLOSE, code)) => {
                ensure!(*code == NORMAL, "the code of Close is {code:?}");
                ensure!(self.frame().await?.is_none(), "a frame after Close");
                Ok(None)
            }
            Some((first, _)) => bail!("a frame that begins with {first:#x}"),
            None => bail!("the connection ended without Close"),
        }
    }
}

/// The lengths of the head and the payload of a frame; `None` if more must be read.
fn head(bytes: &[u8]) -> Result<Option<(usize, usize)>> {
    let [_, second, rest @ ..] = bytes else { return Ok(None) };
    ensure!(second & 0x80 == 0, "a server must not mask its frames");
    Ok(match second {
        126 => rest.first_chunk().map(|length| (4, usize::from(u16::from_be_bytes(*length)))),
        127 => match rest.first_chunk() {
            Some(length) => Some((10, usize::try_from(u64::from_be_bytes(*length)).context("a long frame")?)),
            None => None,
        },
        short => Some((2, usize::from(*short))),
    })
}
