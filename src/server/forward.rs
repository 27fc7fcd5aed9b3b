//! A request handed on to the API server, and its answer handed back as it comes.
//!
//! Bodies stream both ways, and an answer that breaks off breaks off here too. Nothing is followed, repeated or
//! converted. Whose rights apply is the upstream's matter: what the client says about itself never goes on. After a write the version that it made is told
//! to the copies of that resource, so that the writer's next read shows it.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use http::header::{
    ALT_SVC, AUTHORIZATION, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, EXPECT, FORWARDED,
    HOST, HeaderName, ORIGIN, REFERER, STRICT_TRANSPORT_SECURITY, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, WARNING,
};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body::{Body as _, Frame};
use http_body_util::{BodyExt, Empty, StreamBody};
use serde_json::Value;
use tokio::time::timeout;

use super::body::Body;
use super::drain::Drained;
use super::failure::Failure;
use super::route::{Address, Target};
use super::strong::{self, READ_HEADER, ReadFrom};
use super::tally::AnswerPath;
use super::{Asked, Server, write_verb};
use crate::model::Version;
use crate::registry::chain::CONSISTENCY_HEADER;
use crate::registry::upstream::{Upstream, UpstreamBody};
use crate::registry::{Registry, Resource};

/// Requests under way to the API server at a time, watches among them.
pub const MOST_AT_ONCE: usize = 256;

/// The API server ends what takes too long by itself; beyond this much more, nothing will come.
const GRACE: Duration = Duration::from_secs(5);

/// Answers to writes are looked into up to this size; objects are smaller.
const READ_INTO: usize = 4 << 20;

/// Hands a request on.
///
/// # Errors
/// 429 when too many are under way, 503 when there is no answer.
pub(super) async fn answer(
    server: &Server,
    upstream: &dyn Upstream,
    asked: &Asked<'_>,
    (uri, target): (&Uri, &Target),
    body: UpstreamBody,
) -> Result<Response<Body>, Failure> {
    let address = match target {
        Target::Resource(address) => Some(address),
        _ => None,
    };
    if let Some(address) = address
        && let Some(resource) = server.registry.catalog().resource(&address.gvr)
    {
        asked.noted.served(asked, address, resource);
    }
    asked.noted.found(AnswerPath::Forwarded);
    let place = server.forwarding.clone().try_acquire_owned().map_err(|_| Failure::TooManyHandedOn(MOST_AT_ONCE))?;
    let reads = matches!(*asked.method, Method::GET | Method::HEAD | Method::OPTIONS);
    if !reads && !body.is_end_stream() && !asked.headers.contains_key(CONTENT_TYPE) {
        return Err(Failure::no_media_type());
    }
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let mut request = Request::new(if reads { empty() } else { Drained::new(body) });
    *request.method_mut() = asked.method.clone();
    *request.uri_mut() =
        path.parse().map_err(|error| Failure::BadRequest(format!("the path cannot be handed on: {error}")))?;
    *request.headers_mut() = sent_on(asked.headers);
    // Another fieldcache is not to answer from a copy either.
    if reads && !request.headers().contains_key(CONSISTENCY_HEADER) {
        request.headers_mut().insert(CONSISTENCY_HEADER, HeaderValue::from_static("Strong"));
    }
    let is_long = is_long_running(asked, address);
    let answered = async { upstream.send(request).await.map_err(Failure::Unavailable) };
    let response = if is_long {
        answered.await?
    } else {
        timeout(asked.timeout + GRACE, answered).await.unwrap_or_else(|_| {
            Err(Failure::Unavailable(
                "the API server did not answer this request, which was handed on to it, in time".to_owned(),
            ))
        })?
    };
    let (mut parts, mut body) = response.into_parts();
    if parts.status == StatusCode::SWITCHING_PROTOCOLS {
        return Err(Failure::Unavailable("the API server wants another protocol, which is not handed on".to_owned()));
    }
    let mut headers = handed_back(parts.headers);
    if let Some(address) = address.filter(|address| parts.status.is_success() && writes(asked, address)) {
        let written = written(&server.registry, address);
        if !written.is_empty() {
            let made;
            (made, body) = version_of_write(upstream, asked.method, address, &headers, body).await;
            match made {
                Ok(version) => written.iter().for_each(|resource| resource.live.written(version)),
                Err(why) => {
                    tracing::warn!(resource = %address.gvr, why, "the version of a write could not be learnt");
                    let text = "299 fieldcache \"the version of this write could not be learnt: the next reads may not show it\"";
                    headers.append(WARNING, HeaderValue::from_static(text));
                }
            }
        }
    }
    headers.insert(READ_HEADER, ReadFrom::Forwarded.value());
    parts.headers = headers;
    let mut body = Body::forwarded(body, is_long);
    body.hold(place);
    Ok(Response::from_parts(parts, body))
}

fn empty() -> UpstreamBody {
    Empty::<Bytes>::new().map_err(|never| match never {}).boxed_unsync()
}

/// Whether an answer may stay silent for as long as it likes: watches and logs.
fn is_long_running(asked: &Asked<'_>, address: Option<&Address>) -> bool {
    address.is_some_and(|address| {
        let is_log = address.subresource.as_deref().is_some_and(|name| name == "log");
        address.legacy_watch || asked.query.flag("watch") || (is_log && asked.query.flag("follow"))
    })
}

fn is_hop_by_hop(name: &HeaderName) -> bool {
    [CONNECTION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE].contains(name)
        || ["keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "http2-settings"]
            .contains(&name.as_str())
}

/// Without what belongs to one connection, among it what `Connection` names.
fn end_to_end(headers: &HeaderMap) -> HeaderMap {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|text| text.split(',').filter_map(|token| token.trim().parse().ok()))
        .collect();
    headers
        .iter()
        .filter(|(name, _)| !is_hop_by_hop(name) && !named.contains(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// What goes to the API server of the client's headers: nothing of who it is or where it comes from.
fn sent_on(headers: &HeaderMap) -> HeaderMap {
    let is_own = |name: &HeaderName| {
        let text = name.as_str();
        [AUTHORIZATION, COOKIE, CONTENT_LENGTH, EXPECT, FORWARDED, HOST, ORIGIN, REFERER].contains(name)
            || ["impersonate-", "x-remote-", "x-forwarded-", "sec-"].iter().any(|start| text.starts_with(start))
    };
    let mut sent = end_to_end(headers);
    let own: Vec<HeaderName> = sent.keys().filter(|name| is_own(name)).cloned().collect();
    for name in own {
        sent.remove(name);
    }
    sent
}

/// What comes back of the API server's headers: nothing that speaks of its own address instead of ours.
fn handed_back(headers: HeaderMap) -> HeaderMap {
    let mut back = end_to_end(&headers);
    let foreign: Vec<HeaderName> = back
        .keys()
        .filter(|name| {
            [ALT_SVC, STRICT_TRANSPORT_SECURITY].contains(name) || name.as_str().starts_with("access-control-")
        })
        .cloned()
        .collect();
    for name in foreign {
        back.remove(name);
    }
    back
}

fn writes(asked: &Asked<'_>, address: &Address) -> bool {
    let is_dry = asked.query.get("dryRun").is_some_and(|text| !text.is_empty());
    !is_dry && write_verb(asked.method, address).is_some_and(|verb| !verb.is_empty())
}

/// The served resources that show a write: all versions of the resource, and Events in both of their groups.
fn written(registry: &Registry, address: &Address) -> Vec<Arc<Resource>> {
    let group_of = |group: &str, resource: &str| match (group, resource) {
        ("events.k8s.io", "events") => String::new(),
        _ => group.to_owned(),
    };
    let group = group_of(&address.gvr.group, &address.gvr.resource);
    let catalog = registry.catalog();
    let same = |resource: &&Arc<Resource>| {
        resource.gvr.resource == address.gvr.resource && group_of(&resource.gvr.group, &resource.gvr.resource) == group
    };
    catalog.resources().filter(same).cloned().collect()
}

/// A version at which a write that has been answered shows, and the body of its answer.
async fn version_of_write(
    upstream: &dyn Upstream,
    method: &Method,
    address: &Address,
    headers: &HeaderMap,
    body: UpstreamBody,
) -> (Result<Version, String>, UpstreamBody) {
    let is_json = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|value| value.split(';').next().is_some_and(|kind| kind.trim() == "application/json"));
    // What a delete answers with is the object as it was.
    if !is_json || headers.contains_key(CONTENT_ENCODING) || *method == Method::DELETE {
        return (ask_version(upstream, address).await, body);
    }
    let (read, body) = match beginning(body).await {
        Ok(Whole::Yes(bytes)) => (version_in(&bytes), whole(bytes)),
        Ok(Whole::No(body)) => (None, body),
        Err(body) => (None, body),
    };
    match read {
        Some(version) => (Ok(version), body),
        None => (ask_version(upstream, address).await, body),
    }
}

enum Whole {
    Yes(Bytes),
    No(UpstreamBody),
}

fn whole(bytes: Bytes) -> UpstreamBody {
    http_body_util::Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

/// Reads a body up to a size; a longer one, and one that breaks off, comes back as it was.
async fn beginning(mut body: UpstreamBody) -> Result<Whole, UpstreamBody> {
    let mut read = BytesMut::new();
    while read.len() < READ_INTO {
        match body.frame().await {
            None => return Ok(Whole::Yes(read.freeze())),
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    read.extend_from_slice(&data);
                }
            }
            Some(Err(error)) => {
                let broken = futures::stream::iter([Ok(Frame::data(read.freeze())), Err(error)]);
                return Err(BodyExt::boxed_unsync(StreamBody::new(broken)));
            }
        }
    }
    let read = futures::stream::once(async { Ok(Frame::data(read.freeze())) });
    let rest = futures::stream::unfold(body, |mut body| async { body.frame().await.map(|frame| (frame, body)) });
    Ok(Whole::No(BodyExt::boxed_unsync(StreamBody::new(read.chain(rest)))))
}

/// The version of an object that has just been written. An object that is being deleted may be gone with this very
/// write, at a version that it does not tell.
fn version_in(json: &[u8]) -> Option<Version> {
    let object: Value = serde_json::from_slice(json).ok()?;
    let metadata = &object["metadata"];
    if !metadata["deletionTimestamp"].is_null() {
        return None;
    }
    metadata["resourceVersion"].as_str().and_then(Version::parse).filter(|version| *version > Version::ZERO)
}

/// The version of the resource now, which is not before any write that has been answered.
async fn ask_version(upstream: &dyn Upstream, address: &Address) -> Result<Version, String> {
    let asked = strong::source_version(upstream, &address.gvr);
    timeout(GRACE, asked).await.unwrap_or_else(|_| Err("the version was not told in time".to_owned()))
}
