//! What get, list and watch share: finding the resource, its snapshot, and the selection of a request.

use std::future::{Future, poll_fn};
use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::task::Poll;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use crate::extract::{FieldRef, Origin};
use crate::model::{Scope, Version};
use crate::query::{CelFilter, FieldTerm, ResolvedFields, Selection, TimeLimit, Work};
use crate::registry::{Catalog, LoadState, NotReady, Resource, ResourceOrigin, ResourceState};
use crate::selector::{Operator, Shard};
use crate::store::Snapshot;

use super::no_response::NoResponse;
use crate::flow_control::limit::Limited;
use crate::flow_control::long_work;
use crate::flow_control::unread::{SMALL, Unread};
use crate::flow_control::user::{User, UserShare};
use crate::request::ResourcePath;
use crate::wire::api_error::ApiError;
use crate::wire::params::ListOptions;
use crate::wire::past;

/// The maximum time that a read waits for the store to reach a version (blockTimeout in apiserver
/// `storage/cacher/watch_cache.go`).
pub const FRESHNESS_WAIT: Duration = Duration::from_secs(3);

/// The served resource of a path, if the path has the scope of the resource.
///
/// # Errors
/// 404, as in kube-apiserver: with a Status for a built-in group, and with plain text for other groups.
pub fn find(catalog: &Catalog, address: &ResourcePath) -> Result<Arc<Resource>, ApiError> {
    let gvr = &address.gvr;
    let unknown = || {
        if is_built_in(catalog, &gvr.group) { ApiError::UnknownResource } else { ApiError::PageNotFound }
    };
    let resource = catalog.resource(gvr).ok_or_else(unknown)?;
    let fits = match (resource.scope, &address.namespace, &address.name) {
        (Scope::Namespaced, None, Some(_)) => false,
        // kube-apiserver has no route for a built-in cluster-scoped resource below `namespaces/`, even with an empty
        // name.
        (Scope::Cluster, None, _) if address.is_nameless => resource.origin != ResourceOrigin::BuiltIn,
        (Scope::Namespaced, _, _) | (Scope::Cluster, None, _) => true,
        // The path of a Namespace, `namespaces/NS`, has the name of the Namespace as namespace and as name.
        (Scope::Cluster, Some(namespace), name) => {
            gvr.group.is_empty() && gvr.resource == "namespaces" && name.as_ref() == Some(namespace)
        }
    };
    if fits { Ok(resource.clone()) } else { Err(unknown()) }
}

/// Whether kube-apiserver has built-in resources in a group. Its router then knows the paths of the group, and returns
/// a Status for unknown ones. Paths of custom resources are not routes, and unknown ones get plain text.
pub fn is_built_in(catalog: &Catalog, group: &str) -> bool {
    let has_built_in = |version: &String| {
        catalog.resources_of(group, version).any(|resource| resource.origin == ResourceOrigin::BuiltIn)
    };
    group.is_empty() || catalog.group(group).is_some_and(|group| group.versions.iter().any(has_built_in))
}

/// The namespace to which a request restricts the objects; `None` for all namespaces and for cluster-scoped resources.
/// The path of a Namespace, which is cluster-scoped, has a namespace too: its own name. That is ignored.
pub fn namespace_of<'a>(resource: &Resource, address: &'a ResourcePath) -> Option<&'a str> {
    address.namespace.as_deref().filter(|_| resource.scope == Scope::Namespaced)
}

/// The current snapshot of a store. Starts to load the store if that has not begun, and waits up to `patience` while it
/// is being loaded.
///
/// # Errors
/// 429 while the store is being loaded, 503 if it does not fit into the memory limit. 403 or 503 when the source
/// rejects the list. [`NoResponse::Retry`] when the resource is no longer served, or was replaced.
pub async fn snapshot(resource_state: &ResourceState, patience: Duration) -> Result<Snapshot, NoResponse> {
    resource_state.snapshot(patience).await.map_err(not_ready)
}

/// The error for a store that is not ready; [`NoResponse::Retry`] if the resource is gone.
pub fn not_ready(not_ready: NotReady) -> NoResponse {
    NoResponse::Error(match not_ready {
        NotReady::Loading(progress) => ApiError::Loading(progress),
        // The source does not permit fieldcache to list the resource. The 403 stays a 403, because the pipeline
        // recognizes it and forwards a read to the API server, which can permit a part of the resource. If the read is
        // not forwarded, the client gets the message, which names the permission that fieldcache lacks.
        NotReady::SourceError { code: 403, message } => ApiError::Forbidden(message),
        // A 401 would tell the client that its own credentials are wrong, but the source has rejected those of
        // fieldcache.
        NotReady::SourceError { message, .. } => ApiError::Unavailable(message),
        NotReady::OverMemory(over) => ApiError::Limited(Limited::memory(&over)),
        NotReady::Gone => return NoResponse::Retry,
    })
}

/// Waits up to [`FRESHNESS_WAIT`] until the time since the last progress of the store is at most `max_lag`, because a
/// progress notification may arrive soon. `None`: any lag is accepted.
///
/// # Errors
/// 503 with the time since the last progress of the source, and its cause if that is known.
pub async fn wait_for_max_lag(resource_state: &ResourceState, max_lag: Option<Duration>) -> Result<(), ApiError> {
    let Some(max_lag) = max_lag else { return Ok(()) };
    resource_state
        .freshness()
        .wait_for_lag(max_lag, FRESHNESS_WAIT)
        .await
        .map_err(|lagging| ApiError::Unavailable(lagging.to_string()))
}

/// A snapshot not older than `version`. This is the current snapshot `served` if it is new enough. Otherwise the
/// function asks the source for progress, and waits up to [`FRESHNESS_WAIT`]. The wait ends early if the source reports
/// that it has not reached `version` itself.
///
/// # Errors
/// 504 with kube-apiserver's cause when the store does not reach `version`. [`NoResponse::Retry`] when the resource is
/// no longer served, or was replaced.
pub async fn not_older_than(
    resource_state: &ResourceState,
    served: Snapshot,
    version: Version,
) -> Result<Snapshot, NoResponse> {
    if served.version() >= version {
        return Ok(served);
    }
    let since = Instant::now();
    // `want` requests progress from the source. It returns false if the source itself has just reported a much lower
    // version, so that waiting would not help.
    if !resource_state.freshness().want(version) {
        return Err(ApiError::TooLargeVersion { requested: version, current: served.version() }.into());
    }
    let mut states = resource_state.subscribe();
    let reached = states.wait_for(|state| match state {
        LoadState::Ready(snapshot) => snapshot.version() >= version,
        LoadState::Gone(_) => true,
        LoadState::Idle | LoadState::Loading(_) | LoadState::SourceError { .. } | LoadState::OverMemory(_) => false,
    });
    let waited = tokio::select! {
        biased;
        reached = timeout(FRESHNESS_WAIT, reached) => match reached {
            Ok(Ok(state)) => Some(state.clone()),
            Ok(Err(_)) | Err(_) => None,
        },
        () = resource_state.freshness().wait_until_lacking(version, since) => None,
    };
    match (waited, resource_state.load_state()) {
        (Some(LoadState::Ready(snapshot)), _) => Ok(snapshot),
        (Some(LoadState::Gone(_)), _) => Err(NoResponse::Retry),
        (_, LoadState::Ready(newest)) if newest.version() >= version => Ok(newest),
        (_, LoadState::Ready(newest)) => {
            Err(ApiError::TooLargeVersion { requested: version, current: newest.version() }.into())
        }
        _ => Err(ApiError::TooLargeVersion { requested: version, current: served.version() }.into()),
    }
}

/// The selection of a request.
pub struct RequestedSelection {
    /// The namespace and name of the path, and the selectors.
    pub selection: Selection,
    /// Whether the API server of the source understands the selectors. It does not know the fields of a FieldCache, the
    /// operators of fieldcache, and `celSelector`. Most API servers ignore `shardSelector`.
    pub is_upstream: bool,
}

/// Checks that a list at this version shows the namespaces of the View that a watch from the version would show. If
/// they changed afterwards, a client that watches from the version must list again.
///
/// # Errors
/// [`NoResponse::NamespacesChanged`] if they changed before.
pub fn check_namespaces(resource: &Resource, version: Version) -> Result<(), NoResponse> {
    match resource.has_other_namespaces_at(version) {
        true => Err(NoResponse::NamespacesChanged),
        false => Ok(()),
    }
}

/// The text of a warning for the response if the CEL expression of the request failed for objects. `None` if it did
/// not, or the request has no expression. To be called when the objects have been selected.
///
/// # Errors
/// 400 if the evaluation costs too much. The error names the remedy.
pub fn check_cel(cel: Option<&CelFilter>) -> Result<Option<String>, ApiError> {
    let Some(cel) = cel else { return Ok(None) };
    let failed = cel.result().map_err(|over| ApiError::BadRequest(over.to_string()))?;
    Ok(failed.map(|failed| {
        let text = format!(
            "celSelector failed for {} of {} evaluated objects, and does not select these; objects that indexes exclude are not \
             evaluated; the first error: {}",
            failed.count, failed.evaluated, failed.first
        );
        // The error can have a text of the object, and a warning with control characters is omitted.
        let shown = |character: char| if character.is_control() { ' ' } else { character };
        text.chars().map(shown).collect()
    }))
}

/// The selection of a request: the namespace and name of its path, and its selectors. The selectors are moved out of
/// `options`, because a request that waits must not hold them twice.
///
/// # Errors
/// 400 for a field that the resource does not have, an operator that does not suit its field, or a label that the View
/// does not show. 400 for a field selector together with a name in the path, unless it requires that name. 400 for an
/// invalid `celSelector`. 500 for an invalid shard selector, as in kube-apiserver.
pub fn selection(
    resource: &Resource,
    address: &ResourcePath,
    options: &mut ListOptions,
) -> Result<RequestedSelection, ApiError> {
    let resolved = ResolvedFields::new(std::mem::take(&mut options.fields), &resource.extractor)
        .map_err(|unsuitable| ApiError::BadRequest(unsuitable.to_string()))?;
    let ResolvedFields { terms: mut fields, is_extended } = resolved;
    if let Some(name) = &address.name {
        if fields.is_empty() {
            fields.push(FieldTerm::new(FieldRef::Name, Operator::equal_to(&**name)));
        } else if exact_name(&fields) != Some(name) {
            let message = "fieldSelector metadata.name doesn't match requested name";
            return Err(ApiError::BadRequest(message.to_owned()));
        }
    }
    let namespace = namespace_of(resource, address).map(str::to_owned);
    let labels = std::mem::take(&mut options.labels);
    if let Some(hidden) = resource.hidden()
        && let Some(requirement) = labels.requirements.iter().find(|requirement| hidden.hides_label(&requirement.key))
    {
        let key = &requirement.key;
        return Err(ApiError::BadRequest(format!(
            "labelSelector: the View does not show the label {key:?} of {}: select by another label, or add \
             .metadata.labels['{key}'] to keep in the View",
            resource.gvr.resource
        )));
    }
    let shard = match &*std::mem::take(&mut options.shard) {
        "" => None,
        text => Some(Arc::new(Shard::parse(text).map_err(|error| ApiError::Bare(error.message))?)),
    };
    let cel = match &*std::mem::take(&mut options.cel) {
        "" => None,
        text => {
            let is_namespaced = resource.scope == Scope::Namespaced;
            let filter = CelFilter::new(text, &resource.extractor, is_namespaced, resource.hidden());
            let filter = filter.map_err(|error| ApiError::BadRequest(format!("celSelector: {error}")))?;
            Some(Arc::new(filter.with_time_limit(TimeLimit { clock: process_time, most: EVALUATION_TIME })))
        }
    };
    let selection = Selection { namespace, labels, fields, shard, cel };
    let is_upstream = !is_extended && upstream_knows(resource, &selection);
    Ok(RequestedSelection { selection: selection.simplified(), is_upstream })
}

/// The maximum time for the evaluation of an expression for one object. An evaluation that is not interrupted reaches
/// the limit of its cost in a tenth of this time. The rest is a reserve: a thread that has to wait for a processor must
/// not make a request fail.
const EVALUATION_TIME: Duration = Duration::from_secs(1);

/// The time since this function was called first.
fn process_time() -> Duration {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed()
}

/// A counter for the work of one request, which reads long objects in long turns only (`flow_control::long_work`).
pub fn work() -> Work {
    Work::with_reads(long_work::may_read)
}

/// The memory that the work of a request holds at most while it waits for its next turn. It counts for the user like a
/// response.
#[derive(Clone, Copy, Debug)]
pub struct WaitingMemory<'a> {
    /// Where it counts.
    pub unread: &'a Arc<Unread>,
    /// For whom it counts.
    pub user: &'a User,
    /// An upper bound. It must not depend on objects that the user may not read, apart from size classes: see
    /// `query::held`.
    pub bytes: u64,
}

impl WaitingMemory<'_> {
    /// Counts the memory until the result is dropped. `None` for an amount that is too small to count.
    ///
    /// # Errors
    /// 429 if the requests of this user hold the maximum.
    pub fn admit(self) -> Result<Option<UserShare>, ApiError> {
        let is_counted = self.bytes > SMALL as u64;
        is_counted.then(|| self.unread.admit(self.user, self.bytes)).transpose().map_err(ApiError::Limited)
    }
}

/// Runs the future `work`, which uses `snapshot`, to its end, with one turn of the user for each poll. If one poll is
/// not enough, the future is pinned to the snapshot. While the work waits, the snapshot can be revoked to free memory,
/// as for a list that is being sent. The future is dropped then. What the work holds counts while it waits: all requests
/// of a user can wait at the same time.
///
/// # Errors
/// 429 if the work has to wait, and the requests of the user hold the maximum. 410 if the snapshot was revoked meanwhile,
/// because readers retained too much memory (`store::pins`).
pub async fn in_turns<Done>(
    snapshot: Snapshot,
    waiting: WaitingMemory<'_>,
    mut work: Pin<Box<impl Future<Output = Done> + Send + 'static>>,
) -> Result<Done, ApiError> {
    // Nearly all such work is done in one turn, and then needs no pin and no share.
    if let Poll::Ready(done) = futures::poll!(work.as_mut()) {
        return Ok(done);
    }
    let _share = waiting.admit()?;
    let served = snapshot.pin(work);
    drop(snapshot);
    // The poll above has already woken this task. So the first `Pending` below only ends this turn.
    let mut is_next_turn = false;
    poll_fn(|context| {
        if !std::mem::replace(&mut is_next_turn, true) {
            return Poll::Pending;
        }
        match served.with(|work| work.as_mut().poll(context)) {
            Some(poll) => poll.map(Ok),
            None => Poll::Ready(Err(past::revoked_error())),
        }
    })
    .await
}

/// Whether the API server of the source understands everything that a selection uses. It does not know `celSelector`
/// and the fields of a FieldCache, and most API servers ignore `shardSelector`.
pub fn upstream_knows(resource: &Resource, selection: &Selection) -> bool {
    let fields = resource.extractor.fields();
    selection.shard.is_none()
        && selection.cel.is_none()
        && selection.fields.iter().all(|term| match term.field {
            FieldRef::Field(index) => {
                fields.get(usize::from(index.0)).is_none_or(|field| field.origin != Origin::FieldCache)
            }
            FieldRef::Name | FieldRef::Namespace | FieldRef::Empty => true,
        })
}

/// The name that field requirements demand of an object by equality; `None` if they demand none.
pub fn exact_name(fields: &[FieldTerm]) -> Option<&str> {
    fields.iter().filter(|term| term.field == FieldRef::Name).find_map(FieldTerm::equals)
}

/// A random number that is fixed for the process. The keys of std's hasher are random enough for jitter and ids.
pub fn jitter_seed() -> u64 {
    static SEED: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(0u64));
    *SEED
}

/// A random duration between `shortest` and `longest`, another one for each call.
pub fn jittered(shortest: Duration, longest: Duration) -> Duration {
    let random = RandomState::new().hash_one(jitter_seed());
    let share = f64::from(u32::try_from(random >> 32).unwrap_or(0)) / f64::from(u32::MAX);
    shortest + longest.saturating_sub(shortest).mul_f64(share)
}
