//! The one proxy of the tests. Bytes go through whatever [`Weather`] there is, and where it reads HTTP, responses can
//! be altered.
//!
//! Before an address ([`Proxy::of_bytes`]) it carries bytes untouched, TLS and all, and what is behind it can be
//! changed. Before a server ([`Proxy::of_requests`]) it sends each request again as the user of that endpoint, so its
//! clients need no credentials and no TLS. It can record what is listed through it. A test can also name a path and
//! change the lines of its watches. So a source can send invalid data in a way that no real one does on purpose.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::stream;
use http::header::{
    ACCEPT_ENCODING, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, HOST, RETRY_AFTER, TRANSFER_ENCODING,
};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::DuplexStream;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::fault::{LineFault, What};
use super::weather::{Met, Weather, carry, pause};
use crate::http::{Client, Endpoint, Lines, Next, Request};

/// Longer than any watch of fieldcache lasts without a line.
const LINE_DEADLINE: Duration = Duration::from_secs(600);
/// Room between the reading of HTTP and the weather.
const ROOM: usize = 16 << 10;
/// A body that breaks has sent what came before the break.
const BEFORE_BREAK: Duration = Duration::from_millis(20);
/// What is in the lists and watches by which fieldcache fills its stores, and in no other request of the tests.
const OWN_READS: [&str; 2] = ["limit=500", "fieldcacheProofs="];
/// In so many members a body is compressed.
const MEMBERS: usize = 3;

/// What becomes of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// It is forwarded.
    Kept,
    /// It never comes.
    Dropped,
    /// This comes instead, without a newline.
    Changed(String),
    /// It does not come, and the connection breaks.
    Broken,
}

/// Decides the fate of each line of a path's watches.
type Judge = Box<dyn FnMut(&str) -> Fate + Send>;

/// A running proxy; dropping it ends it with all its connections.
pub struct Proxy {
    address: SocketAddr,
    endpoint: Endpoint,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

struct Shared {
    behind: Behind,
    weather: watch::Sender<Weather>,
    connections: AtomicU64,
    rules: Mutex<Rules>,
    met: Met,
}

enum Behind {
    Address(Mutex<String>),
    Server(Box<Client>),
}

#[derive(Default)]
struct Rules {
    /// What requests and answers meet now.
    faults: Vec<LineFault>,
    /// Path without query -> what is done there.
    judges: Vec<(String, Judge)>,
    /// Path without query -> how long each line of its watches waits.
    delayed: Vec<(String, Duration)>,
    /// How many lines were not forwarded as they were.
    tampered: u64,
    /// Path of a collection -> versions of the complete lists of it that were answered.
    listed: Vec<(String, Vec<u64>)>,
}

impl Proxy {
    /// Carries bytes to and from this `host:port`.
    ///
    /// # Errors
    /// When there is no port.
    pub async fn of_bytes(behind: &str) -> Result<Proxy> {
        Proxy::start(Behind::Address(Mutex::new(behind.to_owned()))).await
    }

    /// Sends requests to this server on behalf of others, honestly by default.
    ///
    /// # Errors
    /// When there is no port.
    pub async fn of_requests(server: &Endpoint) -> Result<Proxy> {
        Proxy::start(Behind::Server(Box::new(server.client()))).await
    }

    async fn start(behind: Behind) -> Result<Proxy> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("a port for the proxy")?;
        let address = listener.local_addr().context("the proxy's address")?;
        let shared = Arc::new(Shared {
            behind,
            weather: watch::Sender::default(),
            connections: AtomicU64::new(0),
            rules: Mutex::default(),
            met: Met::default(),
        });
        let served = shared.clone();
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let number = served.connections.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(connection(stream, number, served.clone()));
            }
        });
        Ok(Proxy { address, endpoint: Endpoint::plain(&format!("http://{address}"))?, shared, accepting })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The same as an endpoint, plain and without credentials.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// How many connections were made to it.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// Puts another address behind it and cuts all connections. Of a proxy of requests it changes nothing.
    pub fn move_to(&self, behind: &str) {
        if let Behind::Address(address) = &self.shared.behind {
            behind.clone_into(&mut address.lock().unwrap_or_else(PoisonError::into_inner));
        }
        self.shared.weather.send_modify(|weather| weather.cuts += 1);
    }

    /// Begins a fault. Those that concern requests need a proxy of requests.
    pub fn begin(&self, fault: LineFault) {
        let connections = self.connections();
        self.shared.weather.send_modify(|weather| match fault {
            LineFault::Delay(delay) => weather.delay = delay,
            LineFault::Throttle(rate) => weather.rate = Some(rate),
            LineFault::Freeze => weather.is_frozen = true,
            LineFault::Lose => weather.lost_before = connections,
            LineFault::Cut => {
                weather.is_reset = false;
                weather.cuts += 1;
            }
            LineFault::Reset => {
                weather.is_reset = true;
                weather.cuts += 1;
            }
            LineFault::CutAfter(bytes) => weather.cut_after = Some(bytes),
            LineFault::BreakBodies(..)
            | LineFault::TruncateBodies(..)
            | LineFault::Refuse(..)
            | LineFault::Slow(..)
            | LineFault::GzipMembers => {}
        });
        self.shared.rules().faults.push(fault);
    }

    /// Ends it. Another one of the same kind that is still under way ends with it.
    pub fn end(&self, fault: LineFault) {
        self.shared.rules().faults.retain(|other| *other != fault);
        self.shared.weather.send_modify(|weather| match fault {
            LineFault::Delay(_) => weather.delay = Duration::ZERO,
            LineFault::Throttle(_) => weather.rate = None,
            LineFault::Freeze => weather.is_frozen = false,
            LineFault::CutAfter(_) => weather.cut_after = None,
            // What was lost stays so, what was cut is.
            LineFault::Lose | LineFault::Cut | LineFault::Reset => {}
            LineFault::BreakBodies(..)
            | LineFault::TruncateBodies(..)
            | LineFault::Refuse(..)
            | LineFault::Slow(..)
            | LineFault::GzipMembers => {}
        });
    }

    /// How many pieces, connections, requests or answers met which fault.
    #[must_use]
    pub fn met(&self) -> BTreeMap<LineFault, u64> {
        self.shared.met.counts()
    }

    /// From now on, records the versions of complete lists of the collection at `path` that fieldcache reads, including
    /// those that come as initial events. It does not record what fieldcache forwards for others.
    pub fn note_lists(&self, path: &str) {
        self.shared.rules().listed.push((path.to_owned(), Vec::new()));
    }

    /// The versions of all complete lists that were written down.
    #[must_use]
    pub fn listed(&self) -> Vec<u64> {
        self.shared.rules().listed.iter().flat_map(|(_, versions)| versions.clone()).collect()
    }

    /// From now on `judge` sees every line of the watches at `path` (without a query), those that are open too.
    pub fn tamper(&self, path: &str, judge: impl FnMut(&str) -> Fate + Send + 'static) {
        self.shared.rules().judges.push((path.to_owned(), Box::new(judge)));
    }

    /// The same for the first line that `is_meant` recognizes; all others are kept.
    pub fn tamper_once(&self, path: &str, fate: Fate, mut is_meant: impl FnMut(&str) -> bool + Send + 'static) {
        let mut left = Some(fate);
        self.tamper(path, move |line| if is_meant(line) { left.take().unwrap_or(Fate::Kept) } else { Fate::Kept });
    }

    /// From now on each line of the watches at `path` (without a query) is forwarded this much later, after those before it. Their end
    /// comes after their last line.
    pub fn delay_lines(&self, path: &str, delay: Duration) {
        self.shared.rules().delayed.push((path.to_owned(), delay));
    }

    /// Forgets all of that.
    pub fn honest(&self) {
        let mut rules = self.shared.rules();
        rules.judges.clear();
        rules.delayed.clear();
    }

    /// How many lines were not forwarded as they were.
    #[must_use]
    pub fn tampered(&self) -> u64 {
        self.shared.rules().tampered
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.shared.weather.send_modify(|weather| weather.cuts += 1);
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Proxy({})", self.address)
    }
}

impl Shared {
    fn rules(&self) -> std::sync::MutexGuard<'_, Rules> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first fate that is not to be kept.
    fn judge(&self, path: &str, line: &str) -> Fate {
        let mut rules = self.rules();
        let fates = rules.judges.iter_mut().filter(|(ruled, _)| ruled == path).map(|(_, judge)| judge(line));
        let fate = fates.fold(Fate::Kept, |found, fate| if found == Fate::Kept { fate } else { found });
        if fate != Fate::Kept {
            rules.tampered += 1;
        }
        fate
    }

    /// How long a line of a watch waits.
    fn delay(&self, path: &str) -> Option<Duration> {
        self.rules().delayed.iter().find(|(delayed, _)| delayed == path).map(|(_, delay)| *delay)
    }

    /// What `wanted` makes of the first fault of now that it wants.
    fn fault<Found>(&self, wanted: impl Fn(LineFault) -> Option<Found>) -> Option<Found> {
        self.rules().faults.iter().find_map(|fault| wanted(*fault))
    }

    fn note_list(&self, path: &str, version: &Value) {
        let Some(version) = version.as_str().and_then(|text| text.parse().ok()) else { return };
        for (_, versions) in self.rules().listed.iter_mut().filter(|(noted, _)| noted == path) {
            versions.push(version);
        }
    }

    fn notes(&self, path: &str) -> bool {
        self.rules().listed.iter().any(|(noted, _)| noted == path)
    }
}

impl What {
    fn means(self, is_watch: bool) -> bool {
        match self {
            What::Everything => true,
            What::Reads => !is_watch,
            What::Watches => is_watch,
        }
    }
}

async fn connection(stream: TcpStream, number: u64, shared: Arc<Shared>) {
    // An event is one small write; waiting for more would hold it back.
    let _ = stream.set_nodelay(true);
    let weather = shared.weather.subscribe();
    match &shared.behind {
        Behind::Address(address) => {
            let address = address.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let Ok(server) = TcpStream::connect(&address).await else { return };
            let _ = server.set_nodelay(true);
            carry(stream, server, &weather, number, &shared.met).await;
        }
        Behind::Server(_) => {
            let (outside, inside) = tokio::io::duplex(ROOM);
            let serving = tokio::spawn(serve(inside, shared.clone()));
            carry(stream, outside, &weather, number, &shared.met).await;
            serving.abort();
        }
    }
}

type Body = UnsyncBoxBody<Bytes, std::io::Error>;

async fn serve(stream: DuplexStream, shared: Arc<Shared>) {
    let service = service_fn(move |request| {
        let shared = shared.clone();
        async move {
            let answered = answer(shared, request).await;
            Ok::<_, Infallible>(
                answered.unwrap_or_else(|error| whole(StatusCode::BAD_GATEWAY, format!("{error:#}").into())),
            )
        }
    });
    // A peer that breaks off is no failure.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(shared: Arc<Shared>, request: http::Request<Incoming>) -> Result<Response<Body>> {
    let Behind::Server(server) = &shared.behind else { anyhow::bail!("no server behind it") };
    let (parts, body) = request.into_parts();
    let path_and_query = parts.uri.path_and_query().context("a request has a path")?.to_string();
    let path = parts.uri.path().to_owned();
    let is_watch = path_and_query.split(['?', '&']).any(|part| part == "watch=true" || part == "watch=1");
    let refused = shared.fault(|fault| match fault {
        LineFault::Refuse(what, status, retry_after) if what.means(is_watch) => Some((fault, status, retry_after)),
        _ => None,
    });
    if let Some((fault, status, retry_after)) = refused {
        shared.met.count(fault);
        return Ok(refusal(StatusCode::from_u16(status)?, retry_after));
    }
    let slow = shared.fault(|fault| match fault {
        LineFault::Slow(what, before) if what.means(is_watch) => Some((fault, before)),
        _ => None,
    });
    if let Some((fault, before)) = slow {
        shared.met.count(fault);
        pause(before).await;
    }
    let mut headers = end_to_end(parts.headers);
    let takes_gzip =
        headers.get(ACCEPT_ENCODING).is_some_and(|value| value.as_bytes().windows(4).any(|word| word == b"gzip"));
    let compresses =
        takes_gzip && !is_watch && shared.fault(|fault| (fault == LineFault::GzipMembers).then_some(())).is_some();
    // Lines can only be looked at, and altered, in plain text.
    if compresses || is_watch {
        headers.remove(ACCEPT_ENCODING);
    }
    let is_own = OWN_READS.iter().any(|mark| path_and_query.contains(mark));
    let mut forwarded = Request::new(parts.method, path_and_query);
    for (name, value) in headers.iter().filter(|(name, _)| *name != HOST) {
        forwarded = forwarded.header(name.as_str(), value.to_str().context("a header that is no text")?);
    }
    forwarded.body = body.collect().await.context("reading a request")?.to_bytes();
    let breaks = shared.fault(|fault| match fault {
        LineFault::BreakBodies(what, after) if what.means(is_watch) => Some(Break { after, fault }),
        LineFault::TruncateBodies(what, after) if what.means(is_watch) => Some(Break { after, fault }),
        _ => None,
    });
    if is_watch {
        let lines = server.open(forwarded).await?;
        let (status, headers) = (lines.status, end_to_end(lines.headers.clone()));
        let watch = Watch { lines, shared: shared.clone(), path, breaks, is_own };
        let frames = stream::unfold(Some(watch), async |watch| {
            let mut watch = watch?;
            Some(match watch.next().await {
                Ok(Some(line)) => (Ok(Frame::data(line)), Some(watch)),
                Ok(None) => return None,
                Err(error) => (Err(std::io::Error::other(format!("{error:#}"))), None),
            })
        });
        let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        return Ok(response);
    }
    let answer = server.send(forwarded).await?;
    if answer.status == StatusCode::OK && is_own && shared.notes(&path) {
        let metadata = &answer.json().unwrap_or_default()["metadata"];
        if metadata["continue"].as_str().unwrap_or_default().is_empty() {
            shared.note_list(&path, &metadata["resourceVersion"]);
        }
    }
    let mut headers = end_to_end(answer.headers);
    let mut body = answer.body;
    if compresses && !headers.contains_key(CONTENT_ENCODING) {
        body = members(&body)?;
        shared.met.count(LineFault::GzipMembers);
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    let mut response = match breaks {
        Some(breaks) if breaks.after < body.len() as u64 => {
            shared.met.count(breaks.fault);
            broken(body, breaks)
        }
        _ => whole(answer.status, body),
    };
    *response.status_mut() = answer.status;
    *response.headers_mut() = headers;
    Ok(response)
}

/// A body that does not come whole.
#[derive(Debug, Clone, Copy)]
struct Break {
    /// After so many bytes.
    after: u64,
    /// What does it.
    fault: LineFault,
}

impl Break {
    /// Whether the connection breaks, rather than the body ending as if it were complete.
    fn is_reported(self) -> bool {
        matches!(self.fault, LineFault::BreakBodies(..))
    }
}

/// A watch that is forwarded line by line.
struct Watch {
    lines: Lines,
    shared: Arc<Shared>,
    path: String,
    breaks: Option<Break>,
    is_own: bool,
}

impl Watch {
    /// The next line to forward, with its newline; `None` at the clean end.
    async fn next(&mut self) -> Result<Option<Bytes>> {
        loop {
            if let Some(breaks @ Break { after: 0, .. }) = self.breaks {
                self.shared.met.count(breaks.fault);
                pause(BEFORE_BREAK).await;
                anyhow::ensure!(!breaks.is_reported(), "broken on purpose");
                return Ok(None);
            }
            let line = match self.lines.next(LINE_DEADLINE).await? {
                Next::Line(line) => line,
                Next::End => return Ok(None),
                Next::Nothing => anyhow::bail!("nothing for long"),
            };
            if let Some(delay) = self.shared.delay(&self.path) {
                pause(delay).await;
            }
            let text = std::str::from_utf8(&line).context("a line that is no text")?;
            let mut line: Bytes = match self.shared.judge(&self.path, text) {
                Fate::Kept => format!("{text}\n").into(),
                Fate::Changed(changed) => format!("{changed}\n").into(),
                Fate::Dropped => continue,
                Fate::Broken => anyhow::bail!("broken on purpose"),
            };
            let length = line.len();
            if let Some(breaks) = &mut self.breaks {
                let kept = length.min(usize::try_from(breaks.after).unwrap_or(usize::MAX));
                breaks.after -= kept as u64;
                line.truncate(kept);
            }
            let is_whole = line.len() == length;
            if is_whole && self.is_own && text.contains("k8s.io/initial-events-end") && self.shared.notes(&self.path) {
                let event: Value = serde_json::from_str(text).unwrap_or_default();
                self.shared.note_list(&self.path, &event["object"]["metadata"]["resourceVersion"]);
            }
            return Ok(Some(line));
        }
    }
}

/// A body that ends too early.
fn broken(body: Bytes, breaks: Break) -> Response<Body> {
    let start = body.slice(..usize::try_from(breaks.after).unwrap_or(body.len()).min(body.len()));
    let frames = stream::unfold(Some(start), move |start| async move {
        let Some(start) = start else {
            pause(BEFORE_BREAK).await;
            let error = std::io::Error::other("broken on purpose");
            return breaks.is_reported().then(|| (Err(error), None));
        };
        Some((Ok(Frame::data(start)), None))
    });
    // After the error the stream is not queried again.
    Response::new(StreamBody::new(frames).boxed_unsync())
}

/// The same bytes as gzip of several members, as a proxy that compresses piece by piece makes them (RFC 1952, section 2.2).
fn members(plain: &[u8]) -> Result<Bytes> {
    let mut compressed = Vec::new();
    for piece in plain.chunks(plain.len().div_ceil(MEMBERS).max(1)) {
        let mut member = GzEncoder::new(&mut compressed, Compression::fast());
        member.write_all(piece)?;
        member.finish()?;
    }
    Ok(compressed.into())
}

/// As something in front of a server refuses: no Status, but text.
fn refusal(status: StatusCode, retry_after: Option<u64>) -> Response<Body> {
    let mut response = whole(status, Bytes::from_static(b"refused on the way\n"));
    if let Some(seconds) = retry_after {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// Without what belongs to one connection only.
fn end_to_end(mut headers: HeaderMap) -> HeaderMap {
    for name in [CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING] {
        headers.remove(name);
    }
    headers
}

fn whole(status: StatusCode, body: Bytes) -> Response<Body> {
    let mut response = Response::new(Full::new(body).map_err(|never| match never {}).boxed_unsync());
    *response.status_mut() = status;
    response
}
