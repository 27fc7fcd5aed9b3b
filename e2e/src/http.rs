//! One HTTP client for both sides: kube-apiserver over TLS with a client certificate, fieldcache over plain HTTP.
//!
//! It sends exactly what a test specifies: no retries, no redirects, and no headers of its own but `Host` and
//! `Content-Length`. It returns bodies as they came, except for the lines of a compressed watch. So what two servers
//! answer can be compared byte by byte. A [`Client`] keeps connections, which belong to the runtime that opened them:
//! every test makes its own from an [`Endpoint`].

use std::fmt;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::{Bytes, BytesMut};
use flate2::write::MultiGzDecoder;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::Value;
use tokio::time::timeout;

use crate::certificates::Identity;
use crate::websocket::{Event, HANDSHAKE, Messages};

/// How long a whole answer may take. Longer than any server-side wait (60 seconds is kube-apiserver's own limit).
const ANSWER_DEADLINE: Duration = Duration::from_secs(90);

/// The same for an answer of any size, read beside many others.
const DRAIN_DEADLINE: Duration = Duration::from_secs(300);

/// A bookmark's line is shorter than this.
const MARKED_LINE: usize = 1024;

/// Which HTTP a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// HTTP/1.1.
    #[default]
    Http1,
    /// HTTP/2; on a plain address without negotiation ("prior knowledge"), as Go clients do.
    Http2,
}

/// Where a server is and with which credentials.
#[derive(Clone)]
pub struct Endpoint {
    base: String,
    tls: Arc<rustls::ClientConfig>,
    protocol: Protocol,
    /// Sent with every request.
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Endpoint {
    /// A plain server; `base` is `http://HOST:PORT` and perhaps a path that precedes every request's.
    ///
    /// # Errors
    /// When the TLS library refuses its own defaults.
    pub fn plain(base: &str) -> Result<Endpoint> {
        // Never used, but the connector wants to know how it would.
        let tls = tls_builder()?.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth();
        Ok(Endpoint::with_tls(base, tls))
    }

    fn with_tls(base: &str, tls: rustls::ClientConfig) -> Endpoint {
        let base = base.trim_end_matches('/').to_owned();
        Endpoint { base, tls: Arc::new(tls), protocol: Protocol::default(), headers: Vec::new() }
    }

    /// A TLS server whose certificate the authority `authority` (PEM) signed; with `identity`, as that user.
    ///
    /// # Errors
    /// When a PEM text is none.
    pub fn secure(base: &str, authority: &str, identity: Option<&Identity>) -> Result<Endpoint> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(authority.as_bytes()).context("reading the CA certificate")?)?;
        let builder = tls_builder()?.with_root_certificates(roots);
        let tls = match identity {
            None => builder.with_no_client_auth(),
            Some(identity) => builder.with_client_auth_cert(
                vec![CertificateDer::from_pem_slice(identity.certificate.as_bytes()).context("reading a certificate")?],
                PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).context("reading a key")?,
            )?,
        };
        Ok(Endpoint::with_tls(base, tls))
    }

    /// The server and user of a kubeconfig as [`crate::control_plane::kubeconfig`] writes it: JSON, one cluster, data within.
    ///
    /// # Errors
    /// When it is none of that kind.
    pub fn from_kubeconfig(path: &Path) -> Result<Endpoint> {
        let content = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
        let document: Value = serde_json::from_slice(&content)
            .with_context(|| format!("{} is not a kubeconfig of the test bed", path.display()))?;
        let (cluster, user) = (&document["clusters"][0]["cluster"], &document["users"][0]["user"]);
        let data = |value: &Value| -> Result<Option<String>> {
            value.as_str().map(|text| Ok(String::from_utf8(BASE64_STANDARD.decode(text)?)?)).transpose()
        };
        let server = cluster["server"].as_str().context("a kubeconfig needs a server")?;
        let Some(authority) = data(&cluster["certificate-authority-data"])? else { return Endpoint::plain(server) };
        let identity = match (data(&user["client-certificate-data"])?, data(&user["client-key-data"])?) {
            (Some(certificate), Some(key)) => Some(Identity { certificate, key }),
            _ => None,
        };
        Endpoint::secure(server, &authority, identity.as_ref())
    }

    /// The same server, spoken to in `protocol`.
    #[must_use]
    pub fn speaking(mut self, protocol: Protocol) -> Endpoint {
        self.protocol = protocol;
        self
    }

    /// The same server, queried with one more header in every request.
    #[must_use]
    pub fn with_header(mut self, name: &'static str, value: &'static str) -> Endpoint {
        self.headers.push((HeaderName::from_static(name), HeaderValue::from_static(value)));
        self
    }

    /// The same server, queried with a bearer token in every request.
    ///
    /// # Errors
    /// When the token is no text for a header.
    pub fn with_token(mut self, token: &str) -> Result<Endpoint> {
        let value = HeaderValue::from_str(&format!("Bearer {token}")).context("a token must fit a header")?;
        self.headers.push((http::header::AUTHORIZATION, value));
        Ok(self)
    }

    /// `http://HOST:PORT` or `https://HOST:PORT`, with the path before every request's, without a slash at the end.
    #[must_use]
    pub fn base(&self) -> &str {
        &self.base
    }

    /// Opens connections on which a test speaks HTTP/2 itself.
    #[must_use]
    pub fn connector(&self) -> HttpsConnector<HttpConnector> {
        HttpsConnectorBuilder::new().with_tls_config((*self.tls).clone()).https_or_http().enable_http2().build()
    }

    /// The TLS settings, for connections made by hand.
    #[must_use]
    pub fn tls(&self) -> Arc<rustls::ClientConfig> {
        self.tls.clone()
    }

    /// A client with connections of its own.
    #[must_use]
    pub fn client(&self) -> Client {
        let schemes = HttpsConnectorBuilder::new().with_tls_config((*self.tls).clone()).https_or_http();
        let mut builder = hyper_util::client::legacy::Client::builder(TokioExecutor::new());
        let inner = match self.protocol {
            Protocol::Http1 => builder.build(schemes.enable_http1().build()),
            Protocol::Http2 => builder.http2_only(true).build(schemes.enable_http2().build()),
        };
        Client { base: self.base.clone(), headers: self.headers.clone(), inner }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Endpoint({} {:?})", self.base, self.protocol)
    }
}

/// An answer whose body was read and thrown away.
#[derive(Debug, Clone)]
pub struct Drained {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// Bytes of the body as it came.
    pub bytes: u64,
}

/// What to send.
#[derive(Debug, Clone)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// Path and query, escaped, starting with a slash.
    pub path: String,
    /// Headers, sent as they are.
    pub headers: Vec<(String, String)>,
    /// The body; empty for none.
    pub body: Bytes,
}

impl Request {
    /// A request without headers and body.
    #[must_use]
    pub fn new(method: Method, path: impl Into<String>) -> Request {
        Request { method, path: path.into(), headers: Vec::new(), body: Bytes::new() }
    }

    /// A GET.
    #[must_use]
    pub fn get(path: impl Into<String>) -> Request {
        Request::new(Method::GET, path)
    }

    /// With one more header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Request {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With a JSON body and its content type.
    #[must_use]
    pub fn json(mut self, body: &Value) -> Request {
        self.body = Bytes::from(body.to_string());
        self.header("content-type", "application/json")
    }
}

/// A whole answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body as it came, compressed if the server compressed it.
    pub body: Bytes,
}

impl Answer {
    /// The body as JSON.
    ///
    /// # Errors
    /// When it is none; the error shows the beginning of the body.
    pub fn json(&self) -> Result<Value> {
        serde_json::from_slice(&self.body).with_context(|| format!("not JSON, but {}", self.excerpt()))
    }

    /// The body as text; what is not UTF-8 in it is replaced.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// One header as text, if it is there.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// Fails, with the body, unless the status is one of success.
    ///
    /// # Errors
    /// When it is not.
    pub fn success(self) -> Result<Answer> {
        ensure!(self.status.is_success(), "{}: {}", self.status, self.excerpt());
        Ok(self)
    }

    fn excerpt(&self) -> String {
        self.text().chars().take(500).collect()
    }
}

/// A client of one server, with connections of its own.
#[derive(Debug, Clone)]
pub struct Client {
    base: String,
    headers: Vec<(HeaderName, HeaderValue)>,
    inner: hyper_util::client::legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

impl Client {
    /// Sends a request and reads the whole answer, whatever its status.
    ///
    /// # Errors
    /// When the request is not valid HTTP, the connection fails, or the answer is not complete after 90 seconds.
    pub async fn send(&self, request: Request) -> Result<Answer> {
        let what = format!("{} {}", request.method, request.path);
        let whole = async {
            let (parts, body) = self.begin(request).await?.into_parts();
            let body = body.collect().await.context("reading the body")?.to_bytes();
            Ok(Answer { status: parts.status, headers: parts.headers, body })
        };
        let answer: Result<Answer> = timeout(ANSWER_DEADLINE, whole).await.with_context(|| what.clone())?;
        answer.context(what)
    }

    /// Reads, and repeats the request when the server has not reached the requested version. That is 504 with
    /// Retry-After; it repeats ten times at most, as client-go does (`rest/with_retry.go`).
    ///
    /// # Errors
    /// As [`Client::send`], and when the last answer is no success.
    pub async fn read(&self, path: &str) -> Result<Answer> {
        for _ in 0..10 {
            let answer = self.get(path).await?;
            if answer.status != 504 || answer.header("retry-after").is_none() {
                return answer.success().with_context(|| path.to_owned());
            }
        }
        self.get(path).await?.success().with_context(|| path.to_owned())
    }

    /// Sends a request, reads the whole answer and keeps none of it: for answers whose size matters, not their content.
    ///
    /// # Errors
    /// When the request is not valid HTTP, the connection fails, or the answer is not complete after five minutes.
    pub async fn drain(&self, request: Request) -> Result<Drained> {
        let what = format!("{} {}", request.method, request.path);
        let whole = async {
            let (parts, mut body) = self.begin(request).await?.into_parts();
            let mut bytes = 0;
            while let Some(frame) = body.frame().await {
                bytes += frame.context("reading the body")?.data_ref().map_or(0, Bytes::len) as u64;
            }
            Ok(Drained { status: parts.status, headers: parts.headers, bytes })
        };
        let drained: Result<Drained> = timeout(DRAIN_DEADLINE, whole).await.with_context(|| what.clone())?;
        drained.context(what)
    }

    /// Sends a request and discards the response up to the line with `mark` in it. Returns the number of bytes and
    /// lines read.
    ///
    /// # Errors
    /// As [`Client::open`], when the status is no success, and when the mark does not come within `deadline`.
    pub async fn drain_until(&self, request: Request, mark: &[u8], deadline: Duration) -> Result<(u64, u64)> {
        let what = format!("{} {}", request.method, request.path);
        let reading = async {
            let (parts, mut body) = self.begin(request).await?.into_parts();
            ensure!(parts.status.is_success(), "{}", parts.status);
            let (mut bytes, mut lines) = (0, 0);
            // The end of what came before, so that a mark across two frames is found.
            let mut tail = Vec::new();
            let mut last = Bytes::new();
            while let Some(frame) = body.frame().await {
                let Ok(data) = frame.context("reading the body")?.into_data() else { continue };
                bytes += data.len() as u64;
                lines += data.iter().filter(|&&byte| byte == b'\n').count() as u64;
                tail.extend_from_slice(&data[..data.len().min(mark.len())]);
                // The mark is in a short line of its own, so it is near the end of what has come.
                let end = &data[data.len().saturating_sub(MARKED_LINE)..];
                let is_in = |place: &[u8]| place.windows(mark.len()).any(|window| window == mark);
                if is_in(&tail) || is_in(end) {
                    return Ok((bytes, lines));
                }
                last = data.slice(data.len().saturating_sub(MARKED_LINE)..);
                tail.clear();
                tail.extend_from_slice(&data[data.len().saturating_sub(mark.len())..]);
            }
            let end = String::from_utf8_lossy(&last);
            bail!("the answer ended without the mark after {lines} lines and {bytes} bytes: {end}")
        };
        let read: Result<(u64, u64)> = timeout(deadline, reading).await.with_context(|| what.clone())?;
        read.context(what)
    }

    /// A GET of `path`, whatever the status of the answer.
    ///
    /// # Errors
    /// As [`Client::send`].
    pub async fn get(&self, path: &str) -> Result<Answer> {
        self.send(Request::get(path)).await
    }

    /// The JSON document at `path`.
    ///
    /// # Errors
    /// As [`Client::send`], and when the answer is not a success or not JSON.
    pub async fn get_json(&self, path: &str) -> Result<Value> {
        self.get(path).await?.success().and_then(|answer| answer.json()).with_context(|| format!("GET {path}"))
    }

    /// Sends a request and leaves the body of the answer to be read line by line, whatever its status.
    ///
    /// # Errors
    /// When the request is not valid HTTP, the connection fails, or no headers came after 90 seconds.
    pub async fn open(&self, request: Request) -> Result<Lines> {
        let what = format!("{} {}", request.method, request.path);
        let response = timeout(ANSWER_DEADLINE, self.begin(request)).await.with_context(|| what.clone())?;
        let response = response.with_context(|| what.clone())?;
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            let (status, headers) = (response.status(), response.headers().clone());
            let body = Source::Messages(Messages::new(hyper::upgrade::on(response).await?));
            let (division, received, decoder) = (Division::Lines, BytesMut::new(), None);
            return Ok(Lines { what, division, status, headers, body, received, decoder, ended: false });
        }
        let (parts, body) = response.into_parts();
        let body = Source::Http(body);
        let is_compressed = parts.headers.get(CONTENT_ENCODING).is_some_and(|encoding| encoding == "gzip");
        let decoder = is_compressed.then(|| MultiGzDecoder::new(Vec::new()));
        let (status, headers, received) = (parts.status, parts.headers, BytesMut::new());
        let division = Division::from_headers(&headers);
        Ok(Lines { what, division, status, headers, body, received, decoder, ended: false })
    }

    /// Requests a watch as a WebSocket, as a page or program of the server's own origin. The answer is read like any
    /// other; its status is 101 if the server accepts it. Each message must be one event.
    ///
    /// # Errors
    /// As [`Client::open`].
    pub async fn open_websocket(&self, mut request: Request) -> Result<Lines> {
        let (scheme, rest) = self.base.split_once("://").context("a server needs a scheme")?;
        let authority = rest.split('/').next().unwrap_or_default();
        for (name, value) in HANDSHAKE {
            request = request.header(name, value);
        }
        self.open(request.header("origin", &format!("{scheme}://{authority}"))).await
    }

    /// Sends a handshake as it is. Returns the status and headers, and the messages if the server accepts it.
    ///
    /// # Errors
    /// As [`Client::open`].
    pub async fn upgrade(&self, request: Request) -> Result<(StatusCode, HeaderMap, Option<Messages>)> {
        let response = timeout(ANSWER_DEADLINE, self.begin(request)).await??;
        let (status, headers) = (response.status(), response.headers().clone());
        let messages = match status {
            StatusCode::SWITCHING_PROTOCOLS => Some(Messages::new(hyper::upgrade::on(response).await?)),
            _ => None,
        };
        Ok((status, headers, messages))
    }

    /// An open watch at `path`, which says `watch=1` itself; fails unless the server accepts it.
    ///
    /// # Errors
    /// As [`Client::open`], and when the status is not 200: then with the body.
    pub async fn watch(&self, path: &str) -> Result<Lines> {
        let mut lines = self.open(Request::get(path)).await?;
        if lines.status != StatusCode::OK {
            let rest = lines.rest(ANSWER_DEADLINE).await?;
            bail!("GET {path}: {}: {}", lines.status, String::from_utf8_lossy(&rest));
        }
        Ok(lines)
    }

    /// Sends a request and leaves the body of the response to be read as it comes, whatever the status.
    ///
    /// # Errors
    /// As [`Client::open`], but it waits for headers without a deadline.
    pub async fn stream(&self, request: Request) -> Result<http::Response<Incoming>> {
        self.begin(request).await
    }

    async fn begin(&self, request: Request) -> Result<http::Response<Incoming>> {
        let mut built = http::Request::builder()
            .method(request.method)
            .uri(format!("{}{}", self.base, request.path))
            .body(Full::new(request.body))?;
        built.headers_mut().extend(self.headers.iter().cloned());
        for (name, value) in &request.headers {
            built.headers_mut().append(HeaderName::try_from(name)?, HeaderValue::try_from(value)?);
        }
        Ok(self.inner.request(built).await?)
    }
}

/// What came next on an open answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// A line, without its newline.
    Line(Bytes),
    /// The clean end of the body. What stood after the last newline is a [`Next::Line`] before it.
    End,
    /// Nothing before the deadline; the answer stays open.
    Nothing,
}

/// How the answer of a watch is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Division {
    /// By line breaks.
    Lines,
    /// By four bytes of length before each event, which is how protobuf is.
    Frames,
    /// Not at all: an error in protobuf.
    Whole,
}

impl Division {
    fn from_headers(headers: &HeaderMap) -> Division {
        let media_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        match media_type.strip_prefix("application/vnd.kubernetes.protobuf") {
            None => Division::Lines,
            Some(";stream=watch") => Division::Frames,
            Some(_) => Division::Whole,
        }
    }
}

/// Where the bytes of an answer come from.
#[derive(Debug)]
enum Source {
    /// The body of the answer.
    Http(Incoming),
    /// The messages after an upgrade.
    Messages(Messages),
}

/// An answer read line by line, which is how a watch arrives; in protobuf frame by frame.
#[derive(Debug)]
pub struct Lines {
    what: String,
    division: Division,
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    body: Source,
    /// Received, not yet handed out.
    received: BytesMut,
    /// What makes plain bytes of a compressed stream: kube-apiserver 1.37 sends watches as many gzip members, one a flush.
    decoder: Option<MultiGzDecoder<Vec<u8>>>,
    ended: bool,
}

impl Lines {
    /// Whether it comes frame by frame.
    #[must_use]
    pub fn is_framed(&self) -> bool {
        self.division == Division::Frames
    }

    /// What comes next within `deadline`. May be given up half-way: nothing received is lost.
    ///
    /// # Errors
    /// When the connection breaks, which is not the clean end of a body.
    pub async fn next(&mut self, deadline: Duration) -> Result<Next> {
        match timeout(deadline, self.line()).await {
            Err(_) => Ok(Next::Nothing),
            Ok(Ok(Some(line))) => Ok(Next::Line(line)),
            Ok(Ok(None)) => Ok(Next::End),
            Ok(Err(error)) => Err(error.context(self.what.clone())),
        }
    }

    /// The next line as JSON, which is what a watch event is.
    ///
    /// # Errors
    /// When none comes within `deadline`, the answer ends, or the line is not JSON.
    pub async fn event(&mut self, deadline: Duration) -> Result<Value> {
        match self.next(deadline).await? {
            Next::Line(line) => serde_json::from_slice(&line)
                .with_context(|| format!("{}: not an event: {}", self.what, String::from_utf8_lossy(&line))),
            Next::End => bail!("{}: ended instead of sending an event", self.what),
            Next::Nothing => bail!("{}: no event within {deadline:?}", self.what),
        }
    }

    /// Everything up to the end of the body.
    ///
    /// # Errors
    /// When it does not end within `deadline` or the connection breaks.
    pub async fn rest(&mut self, deadline: Duration) -> Result<Bytes> {
        let whole = async {
            while self.receive().await? {}
            Ok(())
        };
        let outcome: Result<()> = timeout(deadline, whole).await.context("the answer did not end in time")?;
        outcome.with_context(|| self.what.clone())?;
        Ok(self.received.split().freeze())
    }

    async fn line(&mut self) -> Result<Option<Bytes>> {
        if let Source::Messages(messages) = &mut self.body {
            return Ok(match messages.event().await? {
                Some(Event::Line(line)) => Some(line),
                Some(Event::Framed(event)) => {
                    self.division = Division::Frames;
                    Some(event)
                }
                None => None,
            });
        }
        match self.division {
            Division::Lines => {}
            Division::Frames => return self.framed().await,
            Division::Whole => {
                while self.receive().await? {}
                return Ok((!self.received.is_empty()).then(|| self.received.split().freeze()));
            }
        }
        let mut searched = 0;
        loop {
            if let Some(length) = self.received[searched..].iter().position(|&byte| byte == b'\n') {
                let mut line = self.received.split_to(searched + length + 1);
                line.truncate(searched + length);
                return Ok(Some(line.freeze()));
            }
            searched = self.received.len();
            if !self.receive().await? {
                return Ok((searched > 0).then(|| self.received.split().freeze()));
            }
        }
    }

    /// The next event with its length.
    async fn framed(&mut self) -> Result<Option<Bytes>> {
        loop {
            let length = self.received.first_chunk().map(|length| 4 + u32::from_be_bytes(*length) as usize);
            if let Some(length) = length.filter(|length| self.received.len() >= *length) {
                return Ok(Some(self.received.split_to(length).freeze()));
            }
            if !self.receive().await? {
                ensure!(self.received.is_empty(), "the answer ends within an event");
                return Ok(None);
            }
        }
    }

    /// Takes the next frame in; false at the end of the body.
    async fn receive(&mut self) -> Result<bool> {
        while !self.ended {
            let Source::Http(body) = &mut self.body else { bail!("a WebSocket is read by messages") };
            match body.frame().await {
                None => self.ended = true,
                Some(frame) => {
                    if let Ok(data) = frame.context("reading the body")?.into_data() {
                        match &mut self.decoder {
                            None => self.received.extend_from_slice(&data),
                            Some(decoder) => {
                                decoder.write_all(&data).and_then(|()| decoder.flush()).context("decompressing")?;
                                self.received.extend_from_slice(&std::mem::take(decoder.get_mut()));
                            }
                        }
                        return Ok(true);
                    }
                }
            }
        }
        Ok(false)
    }
}

fn tls_builder() -> Result<rustls::ConfigBuilder<rustls::ClientConfig, rustls::WantsVerifier>> {
    // Named, because a process-wide default is ambiguous as soon as another dependency brings another provider.
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    Ok(rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?)
}
