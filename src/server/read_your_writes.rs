//! Finds the resourceVersion from which on a forwarded write is visible, so that later reads wait for it.
//!
//! The stores of the resource get that version before the client gets its response. The version in the response itself
//! is best. The response to a deletion has none: if the store has the deleted object, fieldcache waits until the store
//! has removed it, which takes moments. In all other cases, the cluster is queried for its current version. That is
//! never too early, but may be later than any change of the resource; then a read waits for a progress notification.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, WARNING};
use http::{HeaderMap, HeaderValue, Method};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use serde_json::Value;
use tokio::time::timeout;

use super::context::RequestContext;
use super::methods::write_verb;
use super::state::ServerState;
use super::{consistency, read};
use crate::flow_control::bodies::BodyPlace;
use crate::flow_control::user::User;
use crate::json::tree;
use crate::model::Version;
use crate::registry::upstream::{Upstream, UpstreamBody};
use crate::registry::{LoadState, Registry, Resource};
use crate::request::ResourcePath;

/// The depth to which objects are parsed: the object, its metadata, and the list of finalizers.
const HEAD_LEVELS: usize = 3;

/// Responses to writes are parsed up to this length, in bytes; objects are shorter.
const READ_INTO: usize = 4 << 20;

/// The timeout of the request for the cluster's current version.
const QUESTION_WAIT: Duration = Duration::from_secs(5);

/// How long to wait until a store has removed a deleted object. This is longer than that usually takes, and shorter
/// than the wait for a progress notification, which is needed otherwise.
const REMOVAL_WAIT: Duration = Duration::from_millis(300);

/// The Warning header of a response to a write of which the resourceVersion is unknown.
const UNKNOWN: &str = "299 fieldcache \"the write succeeded, but its resourceVersion is not known: the next reads through \
                       fieldcache may not show it yet\"";

/// A write that is about to be forwarded.
pub(super) struct Write<'a> {
    address: &'a ResourcePath,
    method: &'a Method,
    user: &'a User,
    /// For a deletion, the stores that have the object.
    holders: Vec<Holder>,
}

/// A store that has the object of a deletion, and the object as it was before.
struct Holder {
    resource: Arc<Resource>,
    /// The key of the object in the store.
    key: String,
    version: Version,
    uid: String,
}

impl<'a> Write<'a> {
    /// Collects what must be known of a write before it is forwarded. `None` for a request that changes nothing: a
    /// read, a dry run, or a method without a verb, such as OPTIONS.
    pub(super) fn begin(
        server: &ServerState,
        context: &RequestContext<'a>,
        address: &'a ResourcePath,
    ) -> Option<Write<'a>> {
        let is_dry = context.info.query.get("dryRun").is_some_and(|text| !text.is_empty());
        // GET and HEAD have no write verb. A method that Kubernetes does not know has an empty one.
        if is_dry || write_verb(&context.info.method, address).is_none_or(str::is_empty) {
            return None;
        }
        let mut holders = Vec::new();
        if context.info.method == Method::DELETE && address.subresource.is_none() {
            holders.extend(
                resources_showing(&server.registry, address)
                    .into_iter()
                    .filter_map(|resource| Holder::find(resource, address)),
            );
        }
        Some(Write { address, method: &context.info.method, user: context.user, holders })
    }

    /// Records in the stores the version from which on the write is visible. `headers` and `body` are those of a
    /// successful response. Returns the unchanged body, and its share of the limit on bodies in memory if it was read.
    /// If that limit does not permit reading it, the API server is queried for the version. Without a version, adds a
    /// Warning header.
    pub(super) async fn record_version(
        &self,
        server: &ServerState,
        upstream: &dyn Upstream,
        headers: &mut HeaderMap,
        body: UpstreamBody,
    ) -> (UpstreamBody, Option<BodyPlace>) {
        let resources = resources_showing(&server.registry, self.address);
        if resources.is_empty() {
            return (body, None);
        }
        let mut place = server.limits.bodies().enter(self.user).ok().filter(|_| is_json(headers));
        let (answer, body) = match &mut place {
            Some(place) => read_whole(body, place).await,
            None => (None, body),
        };
        let found = answer.as_ref().and_then(|answer| self.version_in(answer));
        let version = match (found, answer) {
            (Some(version), _) => Ok(version),
            (None, Some(answer)) if *self.method == Method::DELETE => match self.wait_until_removed(&answer).await {
                Some(version) => Ok(version),
                None => request_version(upstream, self.address).await,
            },
            (None, _) => request_version(upstream, self.address).await,
        };
        self.note(&resources, version, headers);
        (body, place)
    }

    /// Like [`Write::record_version`] for a write of several requests, whose responses are not inspected. `headers` are
    /// those of the response to the client.
    pub(super) async fn record_current_version(
        &self,
        server: &ServerState,
        upstream: &dyn Upstream,
        headers: &mut HeaderMap,
    ) {
        let resources = resources_showing(&server.registry, self.address);
        if !resources.is_empty() {
            let version = request_version(upstream, self.address).await;
            self.note(&resources, version, headers);
        }
    }

    /// Records the version from which on the write is visible in the stores of these resources. Without a version, adds
    /// a Warning header.
    fn note(&self, resources: &[Arc<Resource>], version: Result<Version, String>, headers: &mut HeaderMap) {
        match version {
            Ok(version) => resources.iter().for_each(|resource| resource.state.note_write(version)),
            Err(why) => {
                tracing::warn!(resource = %self.address.gvr, why, "the resourceVersion of a forwarded write is not known: the next reads of its client may not show the write yet");
                headers.append(WARNING, HeaderValue::from_static(UNKNOWN));
            }
        }
    }

    /// The version in the response. `None` if there is none, or if this write may have removed the object: the removal
    /// then has a later version, because the response has the object as it was before.
    fn version_in(&self, answer: &Value) -> Option<Version> {
        let metadata = &answer["metadata"];
        // A finalizer or a grace period keeps an object that is being deleted.
        let is_kept = metadata["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty())
            || metadata["deletionGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds > 0);
        let is_going = !metadata["deletionTimestamp"].is_null();
        // A deletion removes the object at once, unless it only marks a kept one. Any other write removes it if it
        // removes the last finalizer of a marked object.
        if if *self.method == Method::DELETE { !(is_going && is_kept) } else { is_going && !is_kept } {
            return None;
        }
        metadata["resourceVersion"].as_str().and_then(Version::parse).filter(|version| *version > Version::ZERO)
    }

    /// Waits until every store that had the object of a deletion has removed it. Returns the highest version of these
    /// stores then. `None` if no store had it, a store had another object of its name, or it takes longer than
    /// [`REMOVAL_WAIT`].
    async fn wait_until_removed(&self, answer: &Value) -> Option<Version> {
        // A Status names the object in its details.
        let uid = [&answer["metadata"]["uid"], &answer["details"]["uid"]].into_iter().find_map(Value::as_str)?;
        // An object with another uid is another object of the same name.
        if self.holders.is_empty() || self.holders.iter().any(|holder| holder.uid != uid) {
            return None;
        }
        let gone = futures::future::join_all(self.holders.iter().map(Holder::wait_until_gone));
        let versions = timeout(REMOVAL_WAIT, gone).await.ok()?;
        versions.into_iter().collect::<Option<Vec<Version>>>()?.into_iter().max()
    }
}

impl Holder {
    /// The store of this resource, if it is loaded and has the object.
    fn find(resource: Arc<Resource>, address: &ResourcePath) -> Option<Holder> {
        let name = address.name.as_deref()?;
        let key = match read::namespace_of(&resource, address) {
            Some(namespace) => format!("{namespace}/{name}"),
            None => name.to_owned(),
        };
        let LoadState::Ready(snapshot) = resource.state.load_state() else { return None };
        let object = snapshot.get(&key)?;
        let (version, uid) = (object.version(), uid_of(&object.json())?);
        Some(Holder { resource, key, version, uid })
    }

    /// Waits until the store has removed the object, and returns its version then. `None` if the store itself ends or
    /// fails.
    async fn wait_until_gone(&self) -> Option<Version> {
        let mut states = self.resource.state.subscribe();
        let settled = states.wait_for(|state| match state {
            // An object with another uid is a new one of the same name. The uid is read only if the version differs,
            // because this requires parsing.
            LoadState::Ready(snapshot) => snapshot.get(&self.key).is_none_or(|object| {
                object.version() != self.version && uid_of(&object.json()).as_ref() != Some(&self.uid)
            }),
            LoadState::Gone(_) | LoadState::SourceError { .. } | LoadState::OverMemory(_) => true,
            LoadState::Idle | LoadState::Loading(_) => false,
        });
        settled.await.ok()?.version()
    }
}

/// The uid in the JSON of an object; `None` if it has none or cannot be parsed.
fn uid_of(json: &[u8]) -> Option<String> {
    let object = tree::shallow(json, HEAD_LEVELS).ok()?;
    object["metadata"]["uid"].as_str().map(str::to_owned)
}

/// The served resources whose stores a write to this path changes: all versions of the resource, and for Events both of
/// their groups.
fn resources_showing(registry: &Registry, address: &ResourcePath) -> Vec<Arc<Resource>> {
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

/// The current resourceVersion of the resource in the cluster. It includes every write that has its response.
///
/// # Errors
/// Why the version is not known.
async fn request_version(upstream: &dyn Upstream, address: &ResourcePath) -> Result<Version, String> {
    let newest = consistency::source_version(upstream, &address.gvr);
    timeout(QUESTION_WAIT, newest)
        .await
        .unwrap_or_else(|_| Err("the API server did not return the resourceVersion in time".to_owned()))
}

/// Whether the body of a response with these headers is JSON without content encoding.
fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    !headers.contains_key(CONTENT_ENCODING) && kind.split(';').next().unwrap_or_default().trim() == "application/json"
}

/// Reads and parses a body, and returns it with an unread body of the same content. The value is `None` if the body is
/// longer than [`READ_INTO`], exceeds the limit that `place` counts for, is not JSON, or fails. A body that fails,
/// fails for its next reader too.
async fn read_whole(mut body: UpstreamBody, place: &mut BodyPlace) -> (Option<Value>, UpstreamBody) {
    let mut read = BytesMut::new();
    while read.len() < READ_INTO {
        match body.frame().await {
            None => {
                let bytes: Bytes = read.freeze();
                let answer = tree::shallow(&bytes, HEAD_LEVELS).ok();
                return (answer, Full::new(bytes).map_err(|never| match never {}).boxed_unsync());
            }
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    let has_room = place.grow(data.len()).is_ok();
                    read.extend_from_slice(&data);
                    if !has_room {
                        break;
                    }
                }
            }
            Some(Err(error)) => {
                let broken = futures::stream::iter([Ok(Frame::data(read.freeze())), Err(error)]);
                return (None, BodyExt::boxed_unsync(StreamBody::new(broken)));
            }
        }
    }
    let read = futures::stream::once(async { Ok(Frame::data(read.freeze())) });
    let rest = futures::stream::unfold(body, |mut body| async { body.frame().await.map(|frame| (frame, body)) });
    (None, BodyExt::boxed_unsync(StreamBody::new(read.chain(rest))))
}
