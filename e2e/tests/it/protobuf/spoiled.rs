//! A relay that spoils what fieldcache sends: an encoder with an error is between, or a field is altered.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use e2e::http::{Client, Endpoint, Lines, Next, Request};
use fieldcache::protobuf::{Encoder, MessageTable};
use futures::stream;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};

use super::defects::{Field, altered, fields, written};
use super::encoded;

/// No watch of the comparison is silent so long.
const LONG: Duration = Duration::from_secs(600);

const JSON: &str = "application/json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// In what something is altered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Object,
    List,
    /// Of this type.
    Event(&'static str),
}

/// What is wrong with what is sent.
pub(super) enum Spoiling {
    /// Single objects are encoded with this table.
    Table(Box<MessageTable>),
    /// Fields are altered where a path leads.
    Bytes { place: Place, form: &'static str, path: &'static [u64], alter: fn(&mut Vec<Field>) },
    /// The name of single objects in JSON.
    Json,
}

/// A running relay; dropping it ends it with all its connections.
pub(super) struct Spoiler {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

struct Shared {
    server: Client,
    spoiling: Spoiling,
    spoiled: AtomicU64,
}

impl Spoiler {
    pub(super) async fn start(server: &Endpoint, spoiling: Spoiling) -> Result<Spoiler> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.context("a port")?;
        let address = listener.local_addr().context("the address of the relay")?;
        let shared = Arc::new(Shared { server: server.client(), spoiling, spoiled: AtomicU64::new(0) });
        let accepting = tokio::spawn(accept(listener, shared.clone()));
        Ok(Spoiler { address, shared, accepting })
    }

    pub(super) fn base(&self) -> String {
        format!("http://{}", self.address)
    }

    /// How many objects, lists and events were spoiled.
    pub(super) fn count(&self) -> u64 {
        self.shared.spoiled.load(Ordering::Relaxed)
    }
}

impl Drop for Spoiler {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

type Body = UnsyncBoxBody<Bytes, anyhow::Error>;

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let shared = shared.clone();
        connections.spawn(async move {
            let service = service_fn(move |request| {
                let shared = shared.clone();
                async move { Ok::<_, Infallible>(answer(&shared, &request).await.unwrap_or_else(|error| failed(&error))) }
            });
            // The comparison breaks off its watches.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

fn failed(error: &anyhow::Error) -> Response<Body> {
    let mut response = whole(JSON, format!("the relay: {error:#}").into_bytes());
    *response.status_mut() = StatusCode::BAD_GATEWAY;
    response
}

fn whole(media_type: &str, body: Vec<u8>) -> Response<Body> {
    let mut response = Response::new(Full::new(body.into()).map_err(|never| match never {}).boxed_unsync());
    if let Ok(media_type) = HeaderValue::from_str(media_type) {
        response.headers_mut().insert(CONTENT_TYPE, media_type);
    }
    response
}

async fn answer(shared: &Arc<Shared>, request: &http::Request<Incoming>) -> Result<Response<Body>> {
    let path = request.uri().path_and_query().context("a request has a path")?.to_string();
    let accept = request.headers().get(ACCEPT).context("a request has a format")?.to_str()?.to_owned();
    let request_as = |accept: &str| Request::get(&path).header("accept", accept);
    if path.contains("watch=1") {
        let lines = shared.server.open(request_as(&accept)).await?;
        return watch(shared.clone(), accept, lines);
    }
    let place = if path.contains("/fuzz-") && path.rsplit('/').next().is_some_and(|name| name.starts_with("fuzz-")) {
        Place::Object
    } else {
        Place::List
    };
    let reported = shared.server.send(request_as(&accept)).await?;
    let media_type = reported.header("content-type").unwrap_or_default().to_owned();
    let mut body = reported.body.to_vec();
    match &shared.spoiling {
        Spoiling::Table(table) if place == Place::Object && accept == PROTOBUF => {
            let json = shared.server.send(request_as(JSON)).await?.success()?.body;
            let object: Value = serde_json::from_slice(&json)?;
            let text = |name: &str| object[name].as_str().unwrap_or_default();
            shared.spoiled.fetch_add(1, Ordering::Relaxed);
            match encoded(&mut Encoder::default(), table, text("apiVersion"), text("kind"), &json) {
                Ok(encoded) => body = encoded,
                // As fieldcache does.
                Err(_) => return Ok(whole(JSON, json.to_vec())),
            }
        }
        Spoiling::Bytes { place: wanted, form, path, alter } if place == *wanted && accept == *form => {
            body = altered_envelope(&body, path, *alter)?;
            shared.spoiled.fetch_add(1, Ordering::Relaxed);
        }
        Spoiling::Json if place == Place::Object && accept == JSON => {
            let text = String::from_utf8(body).context("JSON is text")?;
            body = text.replacen("\"name\":\"fuzz-", "\"name\":\"fuzy-", 1).into_bytes();
            shared.spoiled.fetch_add(1, Ordering::Relaxed);
        }
        _ => {}
    }
    let mut response = whole(&media_type, body);
    *response.status_mut() = reported.status;
    Ok(response)
}

fn watch(shared: Arc<Shared>, accept: String, lines: Lines) -> Result<Response<Body>> {
    let media_type = lines.headers.get(CONTENT_TYPE).cloned();
    let status = lines.status;
    let events = stream::try_unfold((shared, accept, lines), async |(shared, accept, mut lines)| {
        let Next::Line(line) = lines.next(LONG).await? else { return Ok(None) };
        let mut event = line.to_vec();
        if lines.is_framed() {
            event = spoiled_event(&shared, &accept, event)?;
        } else {
            event.push(b'\n');
        }
        Ok::<_, anyhow::Error>(Some((Frame::data(Bytes::from(event)), (shared, accept, lines))))
    });
    let mut response = Response::new(StreamBody::new(events).boxed_unsync());
    *response.status_mut() = status;
    if let Some(media_type) = media_type {
        response.headers_mut().insert(CONTENT_TYPE, media_type);
    }
    Ok(response)
}

fn spoiled_event(shared: &Shared, accept: &str, frame: Vec<u8>) -> Result<Vec<u8>> {
    let Spoiling::Bytes { place: Place::Event(wanted), form, path, alter } = &shared.spoiling else { return Ok(frame) };
    let mut event = fields(frame.get(4..).context("a frame has a length")?)?;
    let [(_, event_type), (_, extension)] = &mut event[..] else { return Ok(frame) };
    if event_type != wanted.as_bytes() || accept != *form {
        return Ok(frame);
    }
    let mut object = fields(extension)?;
    let (_, raw) = object.first_mut().context("an event has an object")?;
    *raw = altered_envelope(raw, path, *alter)?;
    *extension = written(&object);
    shared.spoiled.fetch_add(1, Ordering::Relaxed);
    let event = written(&event);
    Ok([&u32::try_from(event.len())?.to_be_bytes()[..], &event].concat())
}

fn altered_envelope(body: &[u8], path: &[u64], alter: fn(&mut Vec<Field>)) -> Result<Vec<u8>> {
    let (magic, envelope) = body.split_at_checked(4).context("an object has magic bytes")?;
    Ok([magic, &altered(envelope, path, alter)?].concat())
}
