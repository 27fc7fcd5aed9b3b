//! Responds to connections that are rejected because of a limit, in the protocol that the client begins with, and
//! closes them.
//!
//! A rejected connection is still accepted, because it would otherwise wait in the kernel without a response. Only
//! [`MOST_AT_ONCE`] of them get a response at a time, within seconds; the others are closed at once. Over TLS a
//! rejected connection is closed without a response. [`crate::flow_control::connections`] decides which connections
//! are rejected.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// The maximum number of rejected connections that get a response at the same time.
const MOST_AT_ONCE: usize = 64;

/// How long a rejected client may take to send its first bytes and to read the response.
const PATIENCE: Duration = Duration::from_secs(2);

/// The maximum bytes that are read from a rejected connection before it is closed. If a connection is closed with
/// unread bytes, it is reset, and the client may not see the response.
const MOST_READ: usize = 64 << 10;

/// The response to a rejected connection.
#[derive(Debug)]
pub(crate) struct Rejection {
    /// The status code over HTTP/1.1.
    pub(crate) code: StatusCode,
    /// The body over HTTP/1.1: a Status as JSON.
    pub(crate) status: Vec<u8>,
    /// Seconds after which the client may connect again.
    pub(crate) retry_after: u64,
    /// The debug data of GOAWAY over HTTP/2.
    pub(crate) message: String,
}

/// Rejects connections, at most [`MOST_AT_ONCE`] at a time.
#[derive(Clone, Debug)]
pub(crate) struct Rejecter {
    permits: Arc<Semaphore>,
}

impl Rejecter {
    pub(crate) fn new() -> Rejecter {
        Rejecter { permits: Arc::new(Semaphore::new(MOST_AT_ONCE)) }
    }

    /// Sends the response that `rejection` returns, and closes the connection. While [`MOST_AT_ONCE`] other responses
    /// are being sent, it closes the connection at once.
    pub(crate) async fn reject(&self, stream: TcpStream, rejection: impl FnOnce() -> Rejection) {
        if let Ok(_permit) = self.permits.clone().try_acquire_owned() {
            // An error needs no handling: the connection is closed in any case.
            let _ = timeout(PATIENCE, send(stream, &rejection())).await;
        }
    }
}

/// Sends the rejection in the client's version of HTTP. Sends nothing if the first bytes are not HTTP.
async fn send(mut stream: TcpStream, rejection: &Rejection) -> io::Result<()> {
    let mut first = [0; 4];
    let mut read = 0;
    // Four bytes are enough to recognize HTTP/2, because no method of HTTP/1.1 begins like its preface.
    while read < first.len() {
        match stream.read(&mut first[read..]).await? {
            0 => return Ok(()),
            more => read += more,
        }
    }
    match &first {
        b"PRI " => stream.write_all(&go_away(&rejection.message)).await?,
        [letter, ..] if letter.is_ascii_uppercase() => stream.write_all(&response(rejection)).await?,
        _ => return Ok(()),
    }
    stream.shutdown().await?;
    // Waits until the client closes the connection. Closing it here with unread bytes would reset it.
    let mut rest = vec![0; 4 << 10];
    let mut read = 0;
    while read < MOST_READ {
        match stream.read(&mut rest).await? {
            0 => break,
            more => read += more,
        }
    }
    Ok(())
}

/// The rejection as a response of HTTP/1.1.
fn response(rejection: &Rejection) -> Vec<u8> {
    let Rejection { code, status, retry_after, .. } = rejection;
    let mut response = format!(
        "HTTP/1.1 {} {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\ncache-control: no-cache, \
         private\r\nretry-after: {retry_after}\r\nconnection: close\r\n\r\n",
        code.as_u16(),
        code.canonical_reason().unwrap_or_default(),
        status.len() + 1,
    )
    .into_bytes();
    response.extend_from_slice(status);
    response.push(b'\n');
    response
}

/// The HTTP/2 frames that reject a connection: empty SETTINGS, which must come first, and GOAWAY with
/// ENHANCE_YOUR_CALM and the message (RFC 9113, 3.4 and 6.8).
fn go_away(message: &str) -> Vec<u8> {
    const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    const ENHANCE_YOUR_CALM: u32 = 0xb;
    // The payload has the last stream and the error code, of four bytes each, and the message.
    let length = u32::try_from(message.len() + 8).unwrap_or_default().to_be_bytes();
    let mut frames = SETTINGS.to_vec();
    frames.extend_from_slice(&length[1..]);
    // The type GOAWAY (7), no flags, and stream 0, which is the connection.
    frames.extend_from_slice(&[7, 0, 0, 0, 0, 0]);
    // No stream was processed, so the client may send all of them again elsewhere.
    frames.extend_from_slice(&0u32.to_be_bytes());
    frames.extend_from_slice(&ENHANCE_YOUR_CALM.to_be_bytes());
    frames.extend_from_slice(message.as_bytes());
    frames
}
