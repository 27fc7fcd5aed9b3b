//! A proxy between fieldcache and the API server that it reads, which can alter what a watch says.
//!
//! It hands everything on as it is, one request for one request, until a test names a path and what is to become of the
//! lines of its watches: dropped, changed, or the connection broken. So a source can be made to lie in a way that no real one
//! does on purpose. The proxy asks upstream as the user of its endpoint; who reads through it needs no credentials.

use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use futures::stream;
use http::header::{CONNECTION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use http::{HeaderMap, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::http::{Client, Endpoint, Lines, Next, Request};

/// Longer than any watch of fieldcache lasts without a line.
const LINE_DEADLINE: Duration = Duration::from_secs(600);

/// What becomes of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// It is handed on.
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

/// A running proxy; it ends when it is dropped.
pub struct Tampering {
    endpoint: Endpoint,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

struct Shared {
    upstream: Client,
    rules: Mutex<Rules>,
}

#[derive(Default)]
struct Rules {
    /// Path without query -> what is done there.
    judges: Vec<(String, Judge)>,
    tampered: u64,
}

impl Tampering {
    /// Starts an honest proxy of `upstream` at a free port.
    ///
    /// # Errors
    /// When there is no port.
    pub async fn start(upstream: &Endpoint) -> Result<Tampering> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("a port for the proxy")?;
        let base = format!("http://{}", listener.local_addr().context("the proxy's address")?);
        let shared = Arc::new(Shared { upstream: upstream.client(), rules: Mutex::default() });
        let served = shared.clone();
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(connection(stream, served.clone()));
            }
        });
        Ok(Tampering { endpoint: Endpoint::plain(&base)?, shared, accepting })
    }

    /// Where it listens, plainly and without credentials.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
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

    /// Forgets all of that.
    pub fn honest(&self) {
        self.shared.rules().judges.clear();
    }

    /// How many lines were not handed on as they were.
    #[must_use]
    pub fn tampered(&self) -> u64 {
        self.shared.rules().tampered
    }
}

impl Drop for Tampering {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl fmt::Debug for Tampering {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Tampering({})", self.endpoint.base())
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
}

type Body = UnsyncBoxBody<Bytes, std::io::Error>;

async fn connection(stream: TcpStream, shared: Arc<Shared>) {
    // An event is one small write; waiting for more would hold it back.
    let _ = stream.set_nodelay(true);
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
    let (parts, body) = request.into_parts();
    let path_and_query = parts.uri.path_and_query().context("a request has a path")?.to_string();
    let path = parts.uri.path().to_owned();
    let mut asked = Request::new(parts.method, path_and_query);
    for (name, value) in end_to_end(parts.headers).iter().filter(|(name, _)| *name != HOST) {
        asked = asked.header(name.as_str(), value.to_str().context("a header that is no text")?);
    }
    asked.body = body.collect().await.context("reading a request")?.to_bytes();
    let is_watch = asked.path.split(['?', '&']).any(|part| part == "watch=true" || part == "watch=1");
    if !is_watch {
        let answer = shared.upstream.send(asked).await?;
        let mut response = whole(answer.status, answer.body);
        *response.headers_mut() = end_to_end(answer.headers);
        return Ok(response);
    }
    let lines = shared.upstream.open(asked).await?;
    let (status, headers) = (lines.status, end_to_end(lines.headers.clone()));
    let frames = stream::unfold(Some((lines, shared, path)), async |watch| {
        let (mut lines, shared, path) = watch?;
        Some(match next(&mut lines, &shared, &path).await {
            Ok(Some(line)) => (Ok(Frame::data(line)), Some((lines, shared, path))),
            Ok(None) => return None,
            Err(error) => (Err(std::io::Error::other(format!("{error:#}"))), None),
        })
    });
    let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    Ok(response)
}

/// The next line to hand on, with its newline; `None` at the clean end.
async fn next(lines: &mut Lines, shared: &Shared, path: &str) -> Result<Option<Bytes>> {
    loop {
        let line = match lines.next(LINE_DEADLINE).await? {
            Next::Line(line) => line,
            Next::End => return Ok(None),
            Next::Nothing => anyhow::bail!("nothing for long"),
        };
        let text = std::str::from_utf8(&line).context("a line that is no text")?;
        match shared.judge(path, text) {
            Fate::Kept => return Ok(Some(format!("{text}\n").into())),
            Fate::Changed(changed) => return Ok(Some(format!("{changed}\n").into())),
            Fate::Dropped => {}
            Fate::Broken => anyhow::bail!("broken on purpose"),
        }
    }
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
