//! An API server that turns hostile: everything goes on to the real one, but for one resource on request.
//!
//! The operator under attack reads through it. What it says of the hostile resource is made as it is read, so that the attacker
//! itself needs no memory.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use bytes::Bytes;
use futures::stream;
use http::header::{CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HOST, TRANSFER_ENCODING};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use crate::http::{Client, Request};

type Body = UnsyncBoxBody<Bytes, anyhow::Error>;

/// An answer: its media type, further headers, and its pieces; `None` ends it.
pub struct Lie {
    /// Requests whose path and query this accepts are lied to.
    pub of: Arc<dyn Fn(&str) -> bool + Send + Sync>,
    /// Whether only watches, or only what is no watch, or both.
    pub kind: Kind,
    /// The status.
    pub status: u16,
    /// Headers besides the media type, which is JSON.
    pub headers: Vec<(&'static str, String)>,
    /// Piece number N, counted from zero.
    pub piece: Pieces,
    /// How often it was sent.
    pub times_sent: AtomicU64,
}

/// The pieces of an answer by their number.
pub type Pieces = Arc<dyn Fn(u64) -> Option<Bytes> + Send + Sync>;

/// Lies in force.
type Lies = Arc<Mutex<Arc<Vec<Lie>>>>;

/// Which requests are lied to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Watches. Lists that come as watches are rejected, so that the reader lists in pages.
    Watches,
    /// Lists. Watches get 410, so that the reader lists again.
    Lists,
    /// Everything.
    All,
}

/// The server.
pub struct Line {
    address: SocketAddr,
    lies: Lies,
    /// Bytes of lies that were sent.
    pub sent: Arc<AtomicU64>,
    /// Lies that were sent.
    pub lies_sent: Arc<AtomicU64>,
    /// Connections; a new lie ends them, so that readers come again.
    connections: Arc<Mutex<JoinSet<()>>>,
    task: JoinHandle<()>,
}

impl Line {
    /// Starts one in front of `upstream`.
    ///
    /// # Errors
    /// If there is no free port.
    pub async fn start(upstream: Client) -> Result<Arc<Line>> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let lies = Lies::default();
        let (sent, lies_sent) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
        let (current_lies, bytes, requests) = (lies.clone(), sent.clone(), lies_sent.clone());
        let connections: Arc<Mutex<JoinSet<()>>> = Arc::default();
        let open = connections.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (upstream, lies) = (upstream.clone(), current_lies.clone());
                let (bytes, requests) = (bytes.clone(), requests.clone());
                let serving = serve(stream, upstream, lies, bytes, requests);
                let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
                while open.try_join_next().is_some() {}
                open.spawn(serving);
            }
        });
        Ok(Arc::new(Line { address, lies, sent, lies_sent, connections, task }))
    }

    /// `http://HOST:PORT`.
    #[must_use]
    pub fn address(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Sends these lies from now on.
    pub fn lie(&self, lies: Vec<Lie>) {
        self.sent.store(0, Ordering::Relaxed);
        self.lies_sent.store(0, Ordering::Relaxed);
        *self.lies.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(lies);
        self.connections.lock().unwrap_or_else(PoisonError::into_inner).abort_all();
    }

    /// Sends everything on from now on.
    pub fn be_honest(&self) {
        *self.lies.lock().unwrap_or_else(PoisonError::into_inner) = Arc::default();
    }

    /// How many lies have not been sent yet.
    #[must_use]
    pub fn unsent(&self) -> usize {
        let lies = self.lies.lock().unwrap_or_else(PoisonError::into_inner).clone();
        lies.iter().filter(|lie| lie.times_sent.load(Ordering::Relaxed) == 0).count()
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(stream: TcpStream, upstream: Client, lies: Lies, sent: Arc<AtomicU64>, lies_sent: Arc<AtomicU64>) {
    let service = service_fn(move |request: http::Request<Incoming>| {
        let (upstream, sent, lies_sent) = (upstream.clone(), sent.clone(), lies_sent.clone());
        let lies = lies.lock().unwrap_or_else(PoisonError::into_inner).clone();
        async move {
            let path = request.uri().to_string();
            let is_watch = path.contains("watch=");
            let lie = lies.iter().find(|lie| (lie.of)(&path));
            let response = match lie {
                Some(lie) => match lie.kind {
                    Kind::Watches if !is_watch => forward(&upstream, request).await,
                    Kind::Watches | Kind::Lists if path.contains("sendInitialEvents") => Ok(rejected()),
                    Kind::Lists if is_watch => Ok(gone()),
                    Kind::Watches | Kind::Lists | Kind::All => {
                        lies_sent.fetch_add(1, Ordering::Relaxed);
                        lie.times_sent.fetch_add(1, Ordering::Relaxed);
                        Ok(response_of(lie, sent))
                    }
                },
                None => forward(&upstream, request).await,
            };
            Ok::<_, Infallible>(response.unwrap_or_else(|error| {
                let mut response = Response::new(full(format!("{error:#}")));
                *response.status_mut() = StatusCode::BAD_GATEWAY;
                response
            }))
        }
    });
    // How a connection to a liar ends is no matter.
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

/// Rejects a list that comes as a watch, as servers without that feature do.
fn rejected() -> Response<Body> {
    let status = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled","reason":"Invalid","code":422}"#;
    let mut response = Response::new(full(status.to_owned()));
    *response.status_mut() = StatusCode::UNPROCESSABLE_ENTITY;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// A watch that ends at once because its version is too old.
fn gone() -> Response<Body> {
    let event = r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version","reason":"Expired","code":410}}"#;
    let mut response = Response::new(full(format!("{event}\n")));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn response_of(lie: &Lie, sent: Arc<AtomicU64>) -> Response<Body> {
    let piece = lie.piece.clone();
    let pieces = stream::unfold(0, move |number| {
        let next = piece(number);
        if let Some(bytes) = &next {
            sent.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        }
        async move { next.map(|bytes| (Ok(Frame::data(bytes)), number + 1)) }
    });
    let mut response = Response::new(StreamBody::new(pieces).boxed_unsync());
    *response.status_mut() = StatusCode::from_u16(lie.status).unwrap_or(StatusCode::OK);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    for (name, value) in &lie.headers {
        if let Ok(value) = HeaderValue::from_str(value) {
            response.headers_mut().insert(*name, value);
        }
    }
    response
}

fn full(text: String) -> Body {
    Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed_unsync()
}

async fn forward(upstream: &Client, request: http::Request<Incoming>) -> Result<Response<Body>> {
    let (parts, body) = request.into_parts();
    let mut sent = Request::new(parts.method, parts.uri.to_string());
    for (name, value) in &parts.headers {
        if ![HOST, CONTENT_LENGTH, TRANSFER_ENCODING, CONNECTION].contains(name) {
            sent = sent.header(name.as_str(), value.to_str().context("a header of text")?);
        }
    }
    sent.body = body.collect().await?.to_bytes();
    let (mut parts, body) = upstream.stream(sent).await?.into_parts();
    parts.headers.remove(TRANSFER_ENCODING);
    parts.headers.remove(CONNECTION);
    Ok(Response::from_parts(parts, body.map_err(anyhow::Error::from).boxed_unsync()))
}

/// The header that announces compression.
#[must_use]
pub fn compressed() -> (&'static str, String) {
    (CONTENT_ENCODING.as_str(), "gzip".to_owned())
}
