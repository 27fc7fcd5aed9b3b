//! The HTTP side of the generator: the requests of readers, and the control path `/generator/`.
//!
//! One HTTP chunk an event, as kube-apiserver sends them; nothing is compressed. Selectors are not read: a client that
//! sends one gets everything.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use futures::future::{join_all, try_join_all};
use futures::stream;
use http::header::CONTENT_TYPE;
use http::{Method, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep_until};

use super::Generator;
use super::documents::{bookmark, expired, failure, version};
use super::source::{Rate, Source, Watch, end_of_list, initial_line};

/// Bookmarks of a watch come this often, about as kube-apiserver sends them.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);

/// How long a watch without `timeoutSeconds` lasts.
const WATCH_LASTS: Duration = Duration::from_secs(1800);

/// The body of an answer.
pub(super) type Body = UnsyncBoxBody<Bytes, Infallible>;

/// Serves until the process ends.
///
/// # Errors
/// When no connection can be accepted.
pub async fn serve(generator: Arc<Generator>, listener: TcpListener) -> Result<()> {
    loop {
        let (stream, _) = listener.accept().await.context("accepting a connection")?;
        let generator = generator.clone();
        tokio::spawn(connection(stream, move |request| {
            let generator = generator.clone();
            async move { answer(&generator, request).await }
        }));
    }
}

/// One connection, until the peer closes it.
pub(super) async fn connection<Answering>(stream: TcpStream, answer: impl Fn(http::Request<Incoming>) -> Answering)
where
    Answering: Future<Output = Response<Body>>,
{
    // An event is one small write; waiting for more would hold it back.
    let _ = stream.set_nodelay(true);
    let service = service_fn(|request| {
        let answering = answer(request);
        async move { Ok::<_, Infallible>(answering.await) }
    });
    // A peer that breaks off is no failure.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(generator: &Arc<Generator>, request: http::Request<Incoming>) -> Response<Body> {
    let path = request.uri().path();
    let query = parameters(request.uri().query().unwrap_or_default());
    let number = |name: &str| query.get(name).and_then(|text| text.parse::<f64>().ok());
    if request.method() == Method::POST {
        return match command(generator, path, number).await {
            Ok(answer) => document(StatusCode::OK, &answer),
            Err(error) => document(StatusCode::BAD_REQUEST, &failure(400, "BadRequest", &format!("{error:#}"))),
        };
    }
    match path {
        "/version" => document(StatusCode::OK, &version()),
        "/api" => raw(StatusCode::OK, generator.discovery.api.clone()),
        "/apis" => raw(StatusCode::OK, generator.discovery.apis.clone()),
        "/openapi/v3" => document(StatusCode::OK, &json!({ "paths": {} })),
        "/generator/state" => document(StatusCode::OK, &generator.main.state()),
        path => {
            let Some((_, source)) = generator.resources.iter().find(|(listed, _)| listed == path) else {
                return document(StatusCode::NOT_FOUND, &failure(404, "NotFound", "the generator has nothing here"));
            };
            match query.get("watch").map(String::as_str) {
                Some("true" | "1") => watch(source, &query),
                _ => list(source, &query),
            }
        }
    }
}

async fn command(generator: &Arc<Generator>, path: &str, number: impl Fn(&str) -> Option<f64>) -> Result<Value> {
    let main = generator.main.clone();
    match path {
        "/generator/burst" => {
            let events = number("events").context("burst needs events=N")? as u64;
            // Readied before the answer, sent after it: the asker starts its clock in between.
            let (readied, ready) = tokio::sync::oneshot::channel();
            let sources = generator.bursting.clone();
            tokio::spawn(async move {
                let bursts = match try_join_all(sources.iter().map(|source| source.ready_burst(events))).await {
                    Ok(bursts) => bursts,
                    Err(error) => {
                        let _ = readied.send(Err(error));
                        return;
                    }
                };
                // Bursts come alone, so all resources have the same version.
                let _ = readied.send(Ok(bursts.last().map(|burst| burst.version).unwrap_or_default()));
                let sending = sources.iter().zip(bursts).map(|(source, burst)| source.send_all(burst));
                join_all(sending).await;
            });
            let version = ready.await.context("the task of the burst ended")??;
            Ok(json!({ "events": events, "version": version }))
        }
        "/generator/rate" => {
            let rate =
                Rate { updates: number("updates").unwrap_or_default(), churn: number("churn").unwrap_or_default() };
            main.set_rate(rate);
            Ok(main.state())
        }
        "/generator/relist" => {
            let ended = main.end_watches(number("changed").is_some_and(|changed| changed > 0.0)).await?;
            Ok(json!({ "ended": ended, "version": main.version() }))
        }
        _ => anyhow::bail!("no such command: burst, rate and relist are below /generator/"),
    }
}

fn list(source: &Arc<Source>, query: &HashMap<String, String>) -> Response<Body> {
    let (objects, version) = source.all();
    let start = query.get("continue").and_then(|text| text.parse().ok()).unwrap_or(0).min(objects.len());
    let limit = query.get("limit").and_then(|text| text.parse().ok()).unwrap_or(objects.len());
    let end = objects.len().min(start + limit);
    let more = if end < objects.len() { format!(",\"continue\":\"{end}\"") } else { String::new() };
    let mut body = format!("{{\"kind\":\"{}\",\"items\":[", source.list_kind()).into_bytes();
    for (index, object) in objects[start..end].iter().enumerate() {
        if index > 0 {
            body.push(b',');
        }
        body.extend_from_slice(object);
    }
    body.extend_from_slice(format!("],\"metadata\":{{\"resourceVersion\":\"{version}\"{more}}}}}").as_bytes());
    raw(StatusCode::OK, Bytes::from(body))
}

/// A watch as it is sent.
struct Sending {
    source: Arc<Source>,
    initial: std::vec::IntoIter<Bytes>,
    /// The end of the initial events, until it is sent.
    end_of_initial: Option<Bytes>,
    events: tokio::sync::mpsc::Receiver<Bytes>,
    /// The version at which the watch began; no bookmark is older.
    began_at: u64,
    bookmark_at: Instant,
    ends_at: Instant,
}

fn watch(source: &Arc<Source>, query: &HashMap<String, String>) -> Response<Body> {
    let begun = if query.get("sendInitialEvents").is_some_and(|value| value == "true") {
        Ok(source.watch_from_the_beginning())
    } else {
        source.watch_from(query.get("resourceVersion").and_then(|text| text.parse().ok()).unwrap_or_default())
    };
    let Ok(Watch { initial, version, events }) = begun else { return raw(StatusCode::OK, expired()) };
    let lasts = query.get("timeoutSeconds").and_then(|text| text.parse().ok()).map_or(WATCH_LASTS, Duration::from_secs);
    let sending = Sending {
        source: source.clone(),
        end_of_initial: initial.is_some().then(|| end_of_list(version)),
        initial: initial.unwrap_or_default().into_iter(),
        events,
        began_at: version,
        bookmark_at: Instant::now() + BOOKMARK_EVERY,
        ends_at: Instant::now() + lasts,
    };
    let lines = stream::unfold(sending, async |mut sending| {
        let line = sending.next().await?;
        Some((Ok(Frame::data(line)), sending))
    });
    answered(StatusCode::OK, StreamBody::new(lines).boxed_unsync())
}

impl Sending {
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(object) = self.initial.next() {
            return Some(initial_line(&object));
        }
        if let Some(end) = self.end_of_initial.take() {
            // The list's memory is not for the life of the watch.
            self.initial = Vec::new().into_iter();
            self.source.list_ended();
            return Some(end);
        }
        tokio::select! {
            biased;
            event = self.events.recv() => event,
            () = sleep_until(self.bookmark_at) => {
                self.bookmark_at += BOOKMARK_EVERY;
                // The queue is empty, so what was in it has been sent.
                Some(bookmark(self.source.delivered_version().max(self.began_at), false))
            }
            () = sleep_until(self.ends_at) => None,
        }
    }
}

fn parameters(query: &str) -> HashMap<String, String> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn document(status: StatusCode, document: &Value) -> Response<Body> {
    raw(status, Bytes::from(document.to_string()))
}

pub(super) fn raw(status: StatusCode, body: Bytes) -> Response<Body> {
    answered(status, Full::new(body).boxed_unsync())
}

fn answered(status: StatusCode, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    response
}
