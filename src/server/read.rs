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
use crate::query::{FieldTerm, Selection};
use crate::registry::{Catalog, LoadState, NotReady, Resource, ResourceOrigin, ResourceState};
use crate::selector::Operator;
use crate::store::Snapshot;

use super::no_response::NoResponse;
use crate::flow_control::limit::Limited;
use crate::request::ResourcePath;
use crate::wire::api_error::ApiError;
use crate::wire::params::ListOptions;
use crate::wire::past;

/// How long a read waits for the store to reach a version (apiserver `storage/cacher/watch_cache.go`).
pub const FRESHNESS_WAIT: Duration = Duration::from_secs(3);

/// The resource at an address, if its scope is right.
///
/// # Errors
/// 404: a Status where the API server has a built-in router for the group version, else plain text.
pub fn find(catalog: &Catalog, address: &ResourcePath) -> Result<Arc<Resource>, ApiError> {
    let gvr = &address.gvr;
    let unknown = || {
        if is_built_in(catalog, &gvr.group) { ApiError::UnknownResource } else { ApiError::PageNotFound }
    };
    let resource = catalog.resource(gvr).ok_or_else(unknown)?;
    let fits = match (resource.scope, &address.namespace, &address.name) {
        (Scope::Namespaced, None, Some(_)) => false,
        // Built-in paths are routes, and none of them has a namespace here.
        (Scope::Cluster, None, _) if address.is_nameless => resource.origin != ResourceOrigin::BuiltIn,
        (Scope::Namespaced, _, _) | (Scope::Cluster, None, _) => true,
        // `namespaces/NS` carries its own name as namespace.
        (Scope::Cluster, Some(namespace), name) => {
            gvr.group.is_empty() && gvr.resource == "namespaces" && name.as_ref() == Some(namespace)
        }
    };
    if fits { Ok(resource.clone()) } else { Err(unknown()) }
}

/// Whether a group is one of kube-apiserver's own, whose paths are routes.
pub fn is_built_in(catalog: &Catalog, group: &str) -> bool {
    let of_group = |version: &String| {
        catalog.resources_of(group, version).any(|resource| resource.origin == ResourceOrigin::BuiltIn)
    };
    group.is_empty() || catalog.group(group).is_some_and(|group| group.versions.iter().any(of_group))
}

/// The namespace that selects objects: none for cluster-scoped resources, whatever the path carries.
pub fn namespace_of<'a>(resource: &Resource, address: &'a ResourcePath) -> Option<&'a str> {
    address.namespace.as_deref().filter(|_| resource.scope == Scope::Namespaced)
}

/// A snapshot, waiting for a load within the patience.
///
/// # Errors
/// 429 while loading, 403 or 503 when the source refuses, 503 for want of memory; [`NoResponse::Retry`] when the resource went.
pub async fn snapshot(resource_state: &ResourceState, patience: Duration) -> Result<Snapshot, NoResponse> {
    resource_state.snapshot(patience).await.map_err(not_ready)
}

/// The error for a store that is not ready.
pub fn not_ready(not_ready: NotReady) -> NoResponse {
    NoResponse::Error(match not_ready {
        NotReady::Loading(progress) => ApiError::Loading(progress),
        NotReady::SourceError { code: 403, message } => ApiError::Forbidden(message),
        // Upstream's 401 would mean that the client's own credentials are wrong; they are not used here.
        NotReady::SourceError { message, .. } => ApiError::Unavailable(message),
        NotReady::OverMemory(over) => ApiError::Limited(Limited::memory(&over)),
        NotReady::Gone => return NoResponse::Retry,
    })
}

/// Waits until the store lags at most `most`; a progress notification may be on its way.
///
/// # Errors
/// 503 that says how long the source has been silent, and why if that is known.
pub async fn at_most_behind(resource_state: &ResourceState, most: Option<Duration>) -> Result<(), ApiError> {
    let Some(most) = most else { return Ok(()) };
    resource_state
        .freshness()
        .at_most(most, FRESHNESS_WAIT)
        .await
        .map_err(|lagging| ApiError::Unavailable(lagging.to_string()))
}

/// A snapshot not older than `version`, after waiting up to three seconds while the source is queried for progress. The
/// wait ends as soon as the source has reported that it has not reached that version either.
///
/// # Errors
/// 504 with upstream's cause when the store does not reach it; [`NoResponse::Retry`] when the resource went.
pub async fn not_older_than(
    resource_state: &ResourceState,
    served: Snapshot,
    version: Version,
) -> Result<Snapshot, NoResponse> {
    if served.version() >= version {
        return Ok(served);
    }
    let since = Instant::now();
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
        () = resource_state.freshness().lacks(version, since) => None,
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

/// What a request selects: the namespace and name of its path, and its selectors with their labels resolved. The selectors are taken out of
/// the options, because a request that waits must not hold them twice.
///
/// # Errors
/// 400 for a field label that the resource does not offer, or a name selector that contradicts the path.
pub fn selection(
    resource: &Resource,
    address: &ResourcePath,
    options: &mut ListOptions,
) -> Result<Selection, ApiError> {
    let requirements = std::mem::take(&mut options.fields.requirements);
    let mut fields = Vec::with_capacity(requirements.len());
    for requirement in requirements {
        let field = resource
            .extractor
            .resolve(&requirement.label)
            .map_err(|unsupported| ApiError::BadRequest(unsupported.message))?;
        fields.push(FieldTerm::new(field, requirement.operator));
    }
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
    Ok(Selection { namespace, labels, fields }.simplified())
}

/// Does work with a state in turns: each continuation is a turn. From its second turn on it holds the state as a list
/// does that is being sent.
///
/// # Errors
/// 410 when the state was revoked meanwhile.
pub async fn in_turns<Done>(
    snapshot: Snapshot,
    mut work: Pin<Box<impl Future<Output = Done> + Send + 'static>>,
) -> Result<Done, ApiError> {
    // Nearly all of it is done in one turn.
    if let Poll::Ready(done) = futures::poll!(work.as_mut()) {
        return Ok(done);
    }
    let served = snapshot.pin(work);
    drop(snapshot);
    // It has woken this task already, and this turn is over.
    let mut is_next_turn = false;
    poll_fn(|context| {
        if !std::mem::replace(&mut is_next_turn, true) {
            return Poll::Pending;
        }
        match served.with(|work| work.as_mut().poll(context)) {
            Some(poll) => poll.map(Ok),
            None => Poll::Ready(Err(past::let_go())),
        }
    })
    .await
}

/// Whether an API server behind knows every field that a selection names: it does not know those of a FieldCache.
pub fn is_known_behind(resource: &Resource, selection: &Selection) -> bool {
    let fields = resource.extractor.fields();
    selection.fields.iter().all(|term| match term.field {
        FieldRef::Field(index) => {
            fields.get(usize::from(index.0)).is_none_or(|field| field.origin != Origin::FieldCache)
        }
        FieldRef::Name | FieldRef::Namespace | FieldRef::Empty => true,
    })
}

/// The name that a selection requires, if there is exactly one.
pub fn exact_name(fields: &[FieldTerm]) -> Option<&str> {
    fields.iter().filter(|term| term.field == FieldRef::Name).find_map(FieldTerm::equals)
}

/// A number that differs between processes, from the keys of std's hasher: enough for jitter and ids, and no crate.
pub fn jitter_seed() -> u64 {
    static SEED: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(0u64));
    *SEED
}

/// A random duration between `shortest` and `longest`.
pub fn jittered(shortest: Duration, longest: Duration) -> Duration {
    let random = RandomState::new().hash_one(jitter_seed());
    let share = f64::from(u32::try_from(random >> 32).unwrap_or(0)) / f64::from(u32::MAX);
    shortest + longest.saturating_sub(shortest).mul_f64(share)
}
