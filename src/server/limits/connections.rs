//! Connections at a time, and what one beyond the most is told before it is closed.
//!
//! A connection that is let in costs one addition. One that is not is still accepted, as otherwise it would wait in the kernel
//! without a word: it is answered in the protocol that it begins with and closed, as far as that can be done by a few at a
//! time and within seconds; the rest are closed at once. To whom TLS must be spoken first nothing is said.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::{Limit, Limited};
use crate::server::failure::Failure;

/// How many are told at a time.
const TOLD_AT_ONCE: usize = 64;

/// How long one that is being told may take to ask and to read.
const PATIENCE: Duration = Duration::from_secs(2);

/// So much of what it says is read at most before it is closed, in bytes; closing with something unread would reset the
/// connection before the answer is seen.
const MOST_READ: usize = 64 << 10;

/// Counts connections.
#[derive(Debug)]
pub struct Connections {
    most: usize,
    open: AtomicUsize,
    refused: AtomicU64,
    telling: Arc<Semaphore>,
}

/// An open connection, counted; no longer when dropped.
#[derive(Debug)]
pub struct CountedConnection(Arc<Connections>);

impl Connections {
    /// None is open.
    pub fn new(most: usize) -> Connections {
        Connections {
            most,
            open: AtomicUsize::new(0),
            refused: AtomicU64::new(0),
            telling: Arc::new(Semaphore::new(TOLD_AT_ONCE)),
        }
    }

    /// Counts another one; `None` when there are as many as there may be.
    pub fn enter(self: &Arc<Connections>) -> Option<CountedConnection> {
        let entered =
            self.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |open| (open < self.most).then_some(open + 1));
        match entered {
            Ok(_) => Some(CountedConnection(self.clone())),
            Err(_) => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                None
            }
        }
    }

    /// The most at a time.
    pub fn most(&self) -> usize {
        self.most
    }

    /// How many are open.
    pub fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// How many were refused.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Tells a connection that was not let in, and closes it.
    pub(in crate::server) async fn turn_away(&self, stream: TcpStream) {
        if let Ok(_turn) = self.telling.clone().try_acquire_owned() {
            // Whatever goes wrong, it is closed.
            let _ = timeout(PATIENCE, self.tell(stream)).await;
        }
    }

    async fn tell(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let mut first = [0; 4];
        let mut read = 0;
        // Enough to know HTTP/2 by: no method of HTTP/1.1 begins like its preface.
        while read < first.len() {
            match stream.read(&mut first[read..]).await? {
                0 => return Ok(()),
                more => read += more,
            }
        }
        match &first {
            b"PRI " => stream.write_all(&self.go_away()).await?,
            [letter, ..] if letter.is_ascii_uppercase() => stream.write_all(&self.answer()).await?,
            _ => return Ok(()),
        }
        stream.shutdown().await?;
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

    fn limited(&self) -> Limited {
        let message = format!(
            "too many connections: this server has as many open as it may. Send requests over connections that are open (one \
             of HTTP/2 carries two thousand at a time), close idle ones, or raise --max-connections={}",
            self.most
        );
        Limited { limit: Limit::Connections, message, retry_after: Some(1) }
    }

    fn answer(&self) -> Vec<u8> {
        let failure = Failure::Limited(self.limited());
        let mut body = failure.status();
        body.push(b'\n');
        let code = failure.code();
        let mut answer = format!(
            "HTTP/1.1 {} {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\ncache-control: no-cache, \
             private\r\nretry-after: {}\r\nconnection: close\r\n\r\n",
            code.as_u16(),
            code.canonical_reason().unwrap_or_default(),
            body.len(),
            failure.retry_after().unwrap_or(1),
        )
        .into_bytes();
        answer.append(&mut body);
        answer
    }

    /// HTTP/2's frames for "go away": empty SETTINGS, which must come first, and GOAWAY with ENHANCE_YOUR_CALM and the message
    /// (RFC 9113, 3.4 and 6.8).
    fn go_away(&self) -> Vec<u8> {
        const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
        const ENHANCE_YOUR_CALM: u32 = 0xb;
        let message = self.limited().message;
        let length = u32::try_from(message.len() + 8).unwrap_or_default().to_be_bytes();
        let mut frames = SETTINGS.to_vec();
        frames.extend_from_slice(&length[1..]);
        frames.extend_from_slice(&[7, 0, 0, 0, 0, 0]);
        // No stream was looked at, so all can be sent again elsewhere.
        frames.extend_from_slice(&0u32.to_be_bytes());
        frames.extend_from_slice(&ENHANCE_YOUR_CALM.to_be_bytes());
        frames.extend_from_slice(message.as_bytes());
        frames
    }
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}
