//! Forwards HTTP requests to a server, or to one of two, from any address of this machine. It records how their
//! responses were compressed and how long they were.
//!
//! It sends requests as the user of an endpoint, so any client that reads through it needs no credentials and no TLS.
//! Bodies go through as they come.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use bytes::Bytes;
use http::header::{
    ACCEPT_ENCODING, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HOST, TRANSFER_ENCODING,
};
use http::{HeaderMap, HeaderName, Method, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};

use crate::http::{Client, Endpoint, Request};

/// One request that was forwarded.
#[derive(Debug, Clone)]
pub struct Exchange {
    /// Path and query.
    pub path: String,
    /// Accept-Encoding.
    pub accepted: Option<String>,
    /// Content-Encoding.
    pub encoding: Option<String>,
    /// Content-Type.
    pub media_type: Option<String>,
    bytes: Arc<AtomicU64>,
}

impl Exchange {
    /// Bytes of its body so far, as they came.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// A running relay; dropping it ends it with all its connections.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    exchanges: Arc<Mutex<Vec<Exchange>>>,
    accepting: JoinHandle<()>,
}

impl Relay {
    /// Listens at a free port of `address`.
    ///
    /// # Errors
    /// When the address is none of this machine.
    pub async fn start(address: IpAddr, server: &Endpoint) -> Result<Relay> {
        Relay::between(address, server, server, |_, _| false).await
    }

    /// The same with two servers: `second` gets the requests whose method and path `is_for_second` accepts.
    ///
    /// # Errors
    /// When the address is none of this machine.
    pub async fn between(
        address: IpAddr,
        first: &Endpoint,
        second: &Endpoint,
        is_for_second: fn(&Method, &str) -> bool,
    ) -> Result<Relay> {
        let listener = TcpListener::bind((address, 0)).await.with_context(|| format!("a port at {address}"))?;
        let address = listener.local_addr().context("the address of the relay")?;
        let exchanges = Arc::default();
        let servers = Servers { first: first.client(), second: second.client(), is_for_second };
        let accepting = tokio::spawn(accept(listener, servers, Arc::clone(&exchanges)));
        Ok(Relay { address, exchanges, accepting })
    }

    /// `http://HOST:PORT`.
    #[must_use]
    pub fn base(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What was forwarded so far.
    #[must_use]
    pub fn exchanges(&self) -> Vec<Exchange> {
        self.exchanges.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// An address of this machine that is not loopback: the one from which it would send to others. Nothing is sent.
///
/// # Errors
/// When this machine has none.
pub fn other_address() -> Result<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").context("a socket")?;
    // An address for documentation (RFC 5737).
    socket.connect("198.51.100.1:9").context("this machine has no address besides loopback: the test needs one")?;
    Ok(socket.local_addr().context("the address of a socket")?.ip())
}

/// What requests are forwarded to.
#[derive(Clone)]
struct Servers {
    first: Client,
    second: Client,
    is_for_second: fn(&Method, &str) -> bool,
}

impl Servers {
    fn client_for(&self, method: &Method, path: &str) -> &Client {
        if (self.is_for_second)(method, path) { &self.second } else { &self.first }
    }
}

type Body = UnsyncBoxBody<Bytes, hyper::Error>;

async fn accept(listener: TcpListener, servers: Servers, exchanges: Arc<Mutex<Vec<Exchange>>>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (servers, exchanges) = (servers.clone(), exchanges.clone());
        connections.spawn(async move {
            let service = service_fn(move |request| {
                let (servers, exchanges) = (servers.clone(), exchanges.clone());
                async move { Ok::<_, Infallible>(hand_on(&servers, &exchanges, request).await.unwrap_or_else(failed)) }
            });
            // A peer that breaks off is no failure.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

fn failed(error: anyhow::Error) -> Response<Body> {
    let body = Full::new(Bytes::from(format!("{error:#}"))).map_err(|never| match never {});
    let mut response = Response::new(body.boxed_unsync());
    *response.status_mut() = StatusCode::BAD_GATEWAY;
    response
}

async fn hand_on(
    servers: &Servers,
    exchanges: &Mutex<Vec<Exchange>>,
    request: http::Request<Incoming>,
) -> Result<Response<Body>> {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path_and_query().context("a request has a path")?.to_string();
    let server = servers.client_for(&parts.method, parts.uri.path());
    let mut forwarded = Request::new(parts.method, path.clone());
    for (name, value) in &parts.headers {
        if ![HOST, CONTENT_LENGTH, TRANSFER_ENCODING, CONNECTION].contains(name) {
            forwarded = forwarded.header(name.as_str(), value.to_str().context("a header of text")?);
        }
    }
    forwarded.body = body.collect().await.context("reading a request")?.to_bytes();
    let (mut answered, body) = server.stream(forwarded).await?.into_parts();
    answered.headers.remove(TRANSFER_ENCODING);
    answered.headers.remove(CONNECTION);
    let bytes = Arc::new(AtomicU64::new(0));
    let exchange = Exchange {
        path,
        accepted: text(&parts.headers, &ACCEPT_ENCODING),
        encoding: text(&answered.headers, &CONTENT_ENCODING),
        media_type: text(&answered.headers, &CONTENT_TYPE),
        bytes: bytes.clone(),
    };
    exchanges.lock().unwrap_or_else(PoisonError::into_inner).push(exchange);
    let body = body.map_frame(move |frame| {
        bytes.fetch_add(frame.data_ref().map_or(0, Bytes::len) as u64, Ordering::Relaxed);
        frame
    });
    Ok(Response::from_parts(answered, body.boxed_unsync()))
}

fn text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}
