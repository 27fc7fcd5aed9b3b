//! Heads over both protocols, up to the service behind hyper: what it gets, and what is rejected before.

mod blocks;
mod one;
mod two;

use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::watch;
use tokio::time::timeout;

use super::slots;
use crate::access::authentication::Peer;
use crate::flow_control::connection::ConnectionState;
use crate::flow_control::connections::Connections;
use crate::flow_control::limit::Limited;
use crate::transport::head_error::HeadError;
use crate::transport::listen::{Answers, End, serve};
use crate::wire::api_error::ApiError;
use crate::wire::body::Body;
use crate::wire::response::transport_error;

/// How long a response may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns the request, and never responds below `/wait`.
struct Echo;

impl Answers for Echo {
    type Body = Body;

    async fn answer(&self, _: &ConnectionState, request: Request<Incoming>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        if parts.uri.path() == "/wait" {
            return std::future::pending().await;
        }
        let query = slots::query(&parts).to_owned();
        let body = body.collect().await.map(|body| body.to_bytes());
        let headers: Vec<String> = parts
            .headers
            .iter()
            .map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value.as_bytes())))
            .collect();
        let seen = json!({
            "method": parts.method.as_str(), "path": parts.uri.path(), "query": query, "headers": headers,
            "body": body.map(|body| String::from_utf8_lossy(&body).into_owned()).ok(),
        });
        Response::new(Body::whole(seen.to_string()))
    }

    async fn reject(&self, _: &ConnectionState, method: &Method, error: HeadError) -> Response<Body> {
        transport_error(error, method)
    }

    fn rejection(&self, limited: &Limited) -> (StatusCode, Vec<u8>) {
        ApiError::Limited(limited.clone()).code_and_status()
    }

    fn authenticates(&self) -> bool {
        false
    }

    fn is_shared(&self, _: &Peer) -> bool {
        true
    }

    fn drain(&self) {}
}

/// A connection to [`Echo`].
struct Connected {
    stream: DuplexStream,
    connections: Arc<Connections>,
    _ending: watch::Sender<bool>,
}

impl Connected {
    fn new() -> Connected {
        Connected::among(&Arc::new(Connections::new(8)))
    }

    /// Of a front proxy.
    fn shared() -> Connected {
        let peer = Arc::new(Peer::new(None, Vec::new()));
        Connected::with_peer(&Arc::new(Connections::new(8)), Some(peer))
    }

    /// Counted there.
    fn among(connections: &Arc<Connections>) -> Connected {
        Connected::with_peer(connections, None)
    }

    #[expect(clippy::disallowed_methods, reason = "both ends of a connection are tasks; it ends with the other end")]
    fn with_peer(connections: &Arc<Connections>, peer: Option<Arc<Peer>>) -> Connected {
        let (near, far) = duplex(1 << 16);
        let ending = watch::Sender::new(false);
        let end = End { ended: ending.subscribe(), connections: connections.clone() };
        tokio::spawn(serve(far, Arc::default(), Arc::new(Echo), end, peer));
        Connected { stream: near, connections: connections.clone(), _ending: ending }
    }

    async fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// The next response of HTTP/1.1: its head and its body.
    async fn response(&mut self) -> (String, String) {
        response(&mut self.stream).await
    }

    /// What the service saw of the next request.
    async fn seen(&mut self) -> Value {
        let (head, body) = self.response().await;
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}{body}");
        serde_json::from_str(&body).unwrap()
    }

    /// Everything up to the end.
    async fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        let _ = self.stream.read_to_end(&mut rest).await;
        rest
    }
}

/// The next response of HTTP/1.1: its head and its body.
async fn response(stream: &mut (impl AsyncRead + Unpin)) -> (String, String) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let byte = timeout(PATIENCE, stream.read_u8()).await.expect("a response in time");
        head.push(byte.unwrap_or_else(|error| panic!("{error}: {}", head.escape_ascii())));
    }
    let head = String::from_utf8(head).unwrap();
    let length = head.split("\r\n").find_map(|line| line.strip_prefix("content-length: ")).expect("a length");
    let mut body = vec![0; length.parse().unwrap()];
    stream.read_exact(&mut body).await.unwrap();
    (head, String::from_utf8(body).unwrap())
}

/// Numbers that look random, the same for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % most
    }
}
