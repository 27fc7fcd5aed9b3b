//! A client that connects from an address of its choice: HTTP/2, many requests over one connection.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpSocket;

/// A connection of one user.
#[derive(Clone)]
pub(crate) struct User {
    host: String,
    sender: http2::SendRequest<Empty<Bytes>>,
}

impl User {
    /// Connects from this address of the loopback.
    pub(crate) async fn at(address: &str, host: &str) -> Result<User> {
        let socket = TcpSocket::new_v4()?;
        let local: SocketAddr = format!("{address}:0").parse()?;
        socket.bind(local).with_context(|| format!("binding {local}"))?;
        let stream =
            socket.connect(host.parse()?).await.with_context(|| format!("connecting from {address} to {host}"))?;
        let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(User { host: host.to_owned(), sender })
    }

    /// Sends a request, and leaves the body to be read.
    pub(crate) async fn open(&self, path: &str) -> Result<http::Response<Incoming>> {
        let request = http::Request::builder().uri(format!("http://{}{path}", self.host)).body(Empty::new())?;
        let mut sender = self.sender.clone();
        sender.ready().await.context("the connection is closed")?;
        sender.send_request(request).await.with_context(|| format!("GET {path}"))
    }

    /// Sends a request, and reads the whole response: its status, headers and body.
    pub(crate) async fn get(&self, path: &str) -> Result<(u16, http::HeaderMap, Bytes)> {
        let (parts, body) = self.open(path).await?.into_parts();
        let body = body.collect().await.with_context(|| format!("the answer of GET {path}"))?.to_bytes();
        Ok((parts.status.as_u16(), parts.headers, body))
    }
}

/// Lines of a watch, one by one.
pub(crate) struct Watch {
    body: Incoming,
    received: Vec<u8>,
}

impl Watch {
    /// Of an open answer.
    pub(crate) fn from_response(response: http::Response<Incoming>) -> Watch {
        Watch { body: response.into_body(), received: Vec::new() }
    }

    /// The next event.
    pub(crate) async fn event(&mut self) -> Result<serde_json::Value> {
        loop {
            if let Some(end) = self.received.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.received.drain(..=end).collect();
                return Ok(serde_json::from_slice(&line)?);
            }
            let frame = self.body.frame().await.context("the watch has ended")??;
            self.received.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
        }
    }
}
