//! One side of a comparison: a server, perhaps with a seeded defect in front of it.
//!
//! A defect is between the server and the comparing client, where a fault of our own server would show. It changes what
//! is sent or what came back, and no part of the comparison knows about it. A [`Tape`] records what came back the first
//! time, so that defects of responses need no new requests. `defects` changes what a watch sent just before it is
//! compared.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use e2e::http::{Answer, Client, Next, Request};
use flate2::Compression;
use flate2::write::GzEncoder;
use http::{HeaderMap, StatusCode};
use serde_json::Value;

use super::defects::{Alteration, Defect};
use super::other_versions::under_test;
use super::outcome;
use crate::protobuf::readable;

/// How long an open watch may be silent while something is still awaited from it.
const SILENCE: Duration = Duration::from_secs(20);

/// A server as the suite queries it.
#[derive(Clone)]
pub(crate) struct Side {
    /// Whose answers these are, for messages.
    pub(crate) name: &'static str,
    pub(crate) client: Client,
    pub(crate) defect: Option<&'static Defect>,
    /// Whether it is kube-apiserver. Then bookmarks before the end of a watch may be missing, as they sometimes are,
    /// and columns of a Table may be repeated.
    pub(crate) is_reference: bool,
    /// Whether its watches are WebSockets. Their events are compared with those over HTTP.
    pub(crate) by_websocket: bool,
    /// What it answers is kept here, or taken from here.
    pub(crate) tape: Option<Tape>,
}

/// Requests that were sent, as they were sent, and their answers.
#[derive(Clone, Default)]
pub(crate) struct Tape {
    exchanges: Arc<Mutex<Vec<(Request, Answer)>>>,
    /// Whether its content is used instead of a request.
    plays: bool,
}

impl Tape {
    /// The same tape, to answer with.
    pub(crate) fn playing(&self) -> Tape {
        Tape { plays: true, ..self.clone() }
    }

    /// What is on it.
    pub(crate) fn exchanges(&self) -> Vec<(Request, Answer)> {
        self.exchanges.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn find(&self, request: &Request) -> Option<Answer> {
        let exchanges = self.exchanges.lock().unwrap_or_else(PoisonError::into_inner);
        let found = exchanges.iter().find(|(requested, _)| self.plays && same(requested, request));
        found.map(|(_, answer)| answer.clone())
    }

    fn keep(&self, request: Request, answer: &Answer) {
        self.exchanges.lock().unwrap_or_else(PoisonError::into_inner).push((request, answer.clone()));
    }
}

/// Whether two requests are the same on the wire.
pub(crate) fn same(one: &Request, other: &Request) -> bool {
    let parts = |request: &Request| (request.method.clone(), request.path.clone(), request.headers.clone());
    parts(one) == parts(other) && one.body == other.body
}

/// What a watch sent until it was closed or ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Recording {
    /// Of an accepted WebSocket, that of an accepted watch over HTTP.
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    /// Whether the events came as messages. The headers are then those of a handshake.
    pub(crate) is_upgraded: bool,
    /// Every line as JSON.
    pub(crate) events: Vec<Value>,
    /// Whether the server ended it cleanly.
    pub(crate) ended: bool,
    /// From the request to the end of the answer.
    pub(crate) lasted: Duration,
}

/// When to stop reading an open watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// The server ends it.
    End,
    /// An event of this version or a later one came; also ended by the server's end.
    Version(u64),
    /// So many lines came; also ended by the server's end.
    Lines(usize),
}

/// An open watch of one side.
pub(crate) struct Watching {
    lines: e2e::http::Lines,
    path: String,
    opened: Instant,
    events: Vec<Value>,
    /// Set when the server ended it, with how long it lasted.
    ended: Option<Duration>,
}

impl Side {
    /// Sends a request and reads the whole answer.
    pub(crate) async fn send(&self, mut request: Request) -> Result<Answer> {
        let requested = request.clone();
        let alteration = self.defect.map(|defect| &defect.alteration);
        if let Some(Alteration::Request(alter)) = alteration {
            alter(&mut request);
        }
        let mut answer = match self.tape.as_ref().and_then(|tape| tape.find(&request)) {
            Some(answer) => answer,
            None => {
                let answer = legible(self.client.send(request.clone()).await?)?;
                if let Some(tape) = &self.tape {
                    tape.keep(request, &answer);
                }
                answer
            }
        };
        if let Some(Alteration::Answer(alter)) = alteration {
            alter(&requested, &mut answer);
        }
        Ok(answer)
    }

    /// Opens a watch.
    pub(crate) async fn watch(&self, mut request: Request) -> Result<Watching> {
        let path = request.path.clone();
        if let Some(Alteration::Request(alter)) = self.defect.map(|defect| &defect.alteration) {
            alter(&mut request);
        }
        // Before sending: on a busy machine the head of an answer may be read long after it was sent.
        let opened = Instant::now();
        let lines = match self.by_websocket {
            true => self.client.open_websocket(request).await?,
            false => self.client.open(request).await?,
        };
        Ok(Watching { lines, path, opened, events: Vec::new(), ended: None })
    }
}

fn is_protobuf(headers: &HeaderMap) -> bool {
    readable::is_protobuf(headers.get("content-type").and_then(|value| value.to_str().ok()).unwrap_or_default())
}

/// An answer with JSON in place of protobuf. Its headers stay.
fn legible(mut answer: Answer) -> Result<Answer> {
    if is_protobuf(&answer.headers) {
        let plain = outcome::plain_body(&answer)?;
        let json = readable::readable(answer.header("content-type").unwrap_or_default(), &plain);
        answer.body = if answer.header("content-encoding") == Some("gzip") {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(&json)?;
            encoder.finish()?.into()
        } else {
            json.into()
        };
    }
    Ok(answer)
}

impl Watching {
    /// Reads on.
    pub(crate) async fn read(&mut self, until: Until) -> Result<()> {
        // A refusal has no events to wait for; beside another version a watch may be refused that is not meant to be.
        let until = if self.is_accepted() { until } else { Until::End };
        while self.ended.is_none() && !self.reached(until) {
            match self.lines.next(SILENCE).await? {
                Next::Line(line) if self.lines.is_framed() => self.events.push(readable::event(&line)),
                Next::Line(line) if is_protobuf(&self.lines.headers) => self.events.push(readable::object(&line)),
                Next::Line(line) => match serde_json::from_slice(&line) {
                    Ok(event) => self.events.push(event),
                    Err(_) => self.events.push(Value::String(String::from_utf8_lossy(&line).into_owned())),
                },
                Next::End => self.ended = Some(self.opened.elapsed()),
                // Another version may never send what is awaited; that it did not come is compared.
                Next::Nothing if !under_test().is_usual() => return Ok(()),
                Next::Nothing => bail!(
                    "{}: silent for {SILENCE:?} after {} events, {until:?} awaited; the last was {}",
                    self.path,
                    self.events.len(),
                    self.events.last().unwrap_or(&Value::Null)
                ),
            }
        }
        Ok(())
    }

    /// What came.
    pub(crate) fn close(self) -> Result<Recording> {
        ensure!(self.ended.is_some() || self.is_accepted(), "a refused watch must have ended");
        let is_upgraded = self.lines.status == StatusCode::SWITCHING_PROTOCOLS;
        Ok(Recording {
            status: if is_upgraded { StatusCode::OK } else { self.lines.status },
            headers: self.lines.headers.clone(),
            is_upgraded,
            events: self.events,
            ended: self.ended.is_some(),
            lasted: self.ended.unwrap_or_else(|| self.opened.elapsed()),
        })
    }

    /// Whether it is a watch, and not a refusal.
    fn is_accepted(&self) -> bool {
        matches!(self.lines.status, StatusCode::OK | StatusCode::SWITCHING_PROTOCOLS)
    }

    fn reached(&self, until: Until) -> bool {
        match until {
            Until::End => false,
            Until::Lines(count) => self.events.len() >= count,
            Until::Version(version) => self.events.last().is_some_and(|event| event_version(event) >= version),
        }
    }
}

/// The version of the object or the Table in an event; 0 for bookmarks and errors, which end no waiting.
pub(crate) fn event_version(event: &Value) -> u64 {
    if !["ADDED", "MODIFIED", "DELETED"].iter().any(|kind| event["type"] == *kind) {
        return 0;
    }
    event["object"]["metadata"]["resourceVersion"].as_str().and_then(|version| version.parse().ok()).unwrap_or(0)
}
