//! Raw connections to the server under attack: TLS from an address of choice, and HTTP/2 frames written by hand.
//!
//! Frames are those of RFC 9113, header blocks those of RFC 7541 without compression. Nothing here is polite.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf, split};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::http::Endpoint;

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(20);

/// What HTTP/2 clients send first.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Frame types of RFC 9113.
pub mod kind {
    /// HEADERS.
    pub const HEADERS: u8 = 1;
    /// RST_STREAM.
    pub const RESET: u8 = 3;
    /// SETTINGS.
    pub const SETTINGS: u8 = 4;
    /// PING.
    pub const PING: u8 = 6;
    /// GOAWAY.
    pub const GOAWAY: u8 = 7;
    /// WINDOW_UPDATE.
    pub const WINDOW: u8 = 8;
    /// CONTINUATION.
    pub const CONTINUATION: u8 = 9;
}

const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;

/// Opens connections.
#[derive(Clone)]
pub struct Dialer {
    host: SocketAddr,
    tls: Arc<rustls::ClientConfig>,
}

impl Dialer {
    /// To the server of an endpoint, with its credentials.
    ///
    /// # Errors
    /// If it has no address.
    pub fn for_endpoint(endpoint: &Endpoint) -> Result<Dialer> {
        let (_, host) = endpoint.base().split_once("://").context("an address has a scheme")?;
        Ok(Dialer { host: host.parse()?, tls: endpoint.tls() })
    }

    /// The host and port.
    #[must_use]
    pub fn host(&self) -> SocketAddr {
        self.host
    }

    /// A TCP connection from `127.0.0.last`.
    ///
    /// # Errors
    /// If it is refused.
    pub async fn tcp(&self, last: u8) -> Result<TcpStream> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 0, last)), 0))?;
        let stream = timeout(CONNECT, socket.connect(self.host)).await.context("connecting")??;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    /// A TLS connection from `127.0.0.last` that speaks `protocol` (`h2` or `http/1.1`).
    ///
    /// # Errors
    /// If it is refused.
    pub async fn tls(&self, last: u8, protocol: &str) -> Result<TlsStream<TcpStream>> {
        let mut config = (*self.tls).clone();
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        let name = ServerName::IpAddress(self.host.ip().into());
        let stream = self.tcp(last).await?;
        let connecting = TlsConnector::from(Arc::new(config)).connect(name, stream);
        Ok(timeout(CONNECT, connecting).await.context("TLS")??)
    }
}

/// What a [`Session`] received.
#[derive(Debug, Default)]
pub struct Counts {
    /// Responses that began with status 200.
    pub good: AtomicU64,
    /// Responses that began with another status.
    pub other: AtomicU64,
    /// Streams that ended, well or not.
    pub ended: AtomicU64,
    /// Bytes.
    pub bytes: AtomicU64,
    /// The connection is closed.
    pub closed: AtomicBool,
}

/// An HTTP/2 connection whose frames are written by hand. It answers SETTINGS and PING while it reads.
pub struct Session {
    write: Arc<tokio::sync::Mutex<WriteHalf<TlsStream<TcpStream>>>>,
    reader: Option<JoinHandle<()>>,
    unread: Option<ReadHalf<TlsStream<TcpStream>>>,
    next: u32,
    authority: String,
    /// What came back.
    pub counts: Arc<Counts>,
}

impl Session {
    /// Opens one with `window` bytes of flow control for each stream and for the connection. It reads only after [`Session::read`].
    ///
    /// # Errors
    /// If the connection is refused.
    pub async fn open(dialer: &Dialer, last: u8, window: u32) -> Result<Session> {
        let stream = dialer.tls(last, "h2").await?;
        let (read, mut write) = split(stream);
        let mut first = PREFACE.to_vec();
        let mut setting = 4u16.to_be_bytes().to_vec();
        setting.extend(window.to_be_bytes());
        first.extend(frame(kind::SETTINGS, 0, 0, &setting));
        if window > 65_535 {
            first.extend(frame(kind::WINDOW, 0, 0, &(window - 65_535).to_be_bytes()));
        }
        write.write_all(&first).await?;
        write.flush().await?;
        Ok(Session {
            write: Arc::new(tokio::sync::Mutex::new(write)),
            reader: None,
            unread: Some(read),
            next: 1,
            authority: dialer.host().to_string(),
            counts: Arc::default(),
        })
    }

    /// Starts to read, for as long as the session exists.
    pub fn read(&mut self) {
        let Some(read) = self.unread.take() else { return };
        let (write, counts) = (self.write.clone(), self.counts.clone());
        self.reader = Some(tokio::spawn(async move {
            // The end of a connection is what it is: attackers do not complain.
            let _ = receive(read, &write, &counts).await;
            counts.closed.store(true, Ordering::Relaxed);
        }));
    }

    /// The next stream's number.
    pub fn stream(&mut self) -> u32 {
        self.next += 2;
        self.next - 2
    }

    /// A HEADERS frame of a GET on a new stream, with further headers.
    pub fn get(&mut self, path: &str, headers: &[(&str, &str)]) -> Vec<u8> {
        let stream = self.stream();
        let block = block(&self.authority, path, headers);
        frame(kind::HEADERS, END_STREAM | END_HEADERS, stream, &block)
    }

    /// The same without the end of its header block, so that CONTINUATION frames must follow.
    pub fn open_headers(&mut self, path: &str) -> (u32, Vec<u8>) {
        let stream = self.stream();
        let block = block(&self.authority, path, &[]);
        (stream, frame(kind::HEADERS, END_STREAM, stream, &block))
    }

    /// Writes bytes; false once the connection is closed or takes nothing for ten seconds.
    pub async fn send(&self, bytes: &[u8]) -> bool {
        let writing = async {
            let mut write = self.write.lock().await;
            write.write_all(bytes).await?;
            write.flush().await
        };
        matches!(timeout(Duration::from_secs(10), writing).await, Ok(Ok(())))
    }

    /// Whether the server has closed it, as far as it is read.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.counts.closed.load(Ordering::Relaxed)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(reader) = &self.reader {
            reader.abort();
        }
    }
}

async fn receive(
    mut read: ReadHalf<TlsStream<TcpStream>>,
    write: &tokio::sync::Mutex<WriteHalf<TlsStream<TcpStream>>>,
    counts: &Counts,
) -> Result<()> {
    let mut head = [0; 9];
    let mut payload = Vec::new();
    loop {
        read.read_exact(&mut head).await?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        payload.resize(length, 0);
        read.read_exact(&mut payload).await?;
        counts.bytes.fetch_add(length as u64, Ordering::Relaxed);
        let (kind, flags) = (head[3], head[4]);
        let answer = match kind {
            kind::SETTINGS if flags & ACK == 0 => Some(frame(kind::SETTINGS, ACK, 0, &[])),
            kind::PING if flags & ACK == 0 => Some(frame(kind::PING, ACK, 0, &payload)),
            _ => None,
        };
        if kind == kind::HEADERS {
            // `:status: 200` is entry 8 of the static table.
            let counter = if payload.first() == Some(&0x88) { &counts.good } else { &counts.other };
            counter.fetch_add(1, Ordering::Relaxed);
        }
        if kind == kind::RESET || (kind <= kind::HEADERS && flags & END_STREAM != 0) {
            counts.ended.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(answer) = answer {
            let mut write = write.lock().await;
            write.write_all(&answer).await?;
            write.flush().await?;
        }
    }
}

/// A frame.
#[must_use]
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX).to_be_bytes();
    let mut bytes = vec![length[1], length[2], length[3], kind, flags];
    bytes.extend(stream.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// A header that is not indexed, by its name.
#[must_use]
pub fn header(name: &str, value: &str) -> Vec<u8> {
    let mut bytes = vec![0];
    text(&mut bytes, name);
    text(&mut bytes, value);
    bytes
}

fn block(authority: &str, path: &str, headers: &[(&str, &str)]) -> Vec<u8> {
    // GET and https are entries of the static table; :path is entry 4, :authority entry 1.
    let mut bytes = vec![0x82, 0x87, 0x04];
    text(&mut bytes, path);
    bytes.push(0x01);
    text(&mut bytes, authority);
    for (name, value) in headers {
        bytes.extend(header(name, value));
    }
    bytes
}

/// A string without Huffman coding: its length with a prefix of seven bits, then its bytes.
fn text(bytes: &mut Vec<u8>, text: &str) {
    const MOST: usize = 127;
    if text.len() < MOST {
        bytes.push(text.len() as u8);
    } else {
        bytes.push(MOST as u8);
        let mut rest = text.len() - MOST;
        while rest >= 128 {
            bytes.push((rest % 128) as u8 | 0x80);
            rest /= 128;
        }
        bytes.push(rest as u8);
    }
    bytes.extend_from_slice(text.as_bytes());
}
