//! Writes the statuses of FieldCaches. Every replica has the stores; the leader writes their state.
//!
//! `stores` evaluates FieldCaches. There is no finalizer, since deletion needs no cleanup.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::{Stream, StreamExt};
use kube::api::{Patch, PatchParams};
use kube::runtime::controller::{Action, Config, Controller};
use kube::runtime::events::Recorder;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::json;
use tokio::time::Instant;

use super::api_error::{LastProblem, described};
use super::events;
use super::reflector;
use super::replica_state::ReplicaState;
use super::reported::{ReportedConditions, ReportedKind};
use super::status::{ConditionStatus, FIELD_MANAGER, Finding, MOST_WRITES, coarse, conditions};
use super::stores::FieldCacheResult;
use crate::kinds::field_cache::object_name;
use crate::kinds::{FieldCache, FieldCacheStatus};
use crate::model::Gvr;
use crate::registry::LoadState;

/// Counts are written no more often than this.
const COUNTS_EVERY: Duration = Duration::from_secs(300);
/// A failed write is tried again after this.
const AFTER_FAILURE: Duration = Duration::from_secs(10);

struct Context {
    replica: ReplicaState,
    api: Api<FieldCache>,
    recorder: Recorder,
    reported: Arc<ReportedConditions>,
    /// The problem of failed writes that was logged last.
    logged: Mutex<LastProblem>,
    /// When the counts of an object were written last, by this leader.
    counted: Mutex<HashMap<String, Instant>>,
}

/// Writes statuses for as long as it is polled. `phases` has an item whenever the phase of a store or the result of a
/// FieldCache has changed: then all FieldCaches are reconciled.
pub async fn run(
    client: Client,
    replica: ReplicaState,
    recorder: Recorder,
    reported: Arc<ReportedConditions>,
    phases: impl Stream<Item = ()> + Send + 'static,
) {
    let api: Api<FieldCache> = Api::all(client.clone());
    let context = Context { replica, api, recorder, reported, logged: Mutex::default(), counted: Mutex::default() };
    let (store, changes) = reflector::follow_events(client, watcher::Config::default(), |_: &mut FieldCache| {});
    Controller::for_stream(changes.applied_objects(), store)
        .with_config(Config::default().concurrency(MOST_WRITES))
        .reconcile_all_on(phases)
        .run(reconcile, |_, error, context| retry_later(error, &context), Arc::new(context))
        .for_each(|_| std::future::ready(()))
        .await;
}

/// Logs a failed write, and returns when to try again.
fn retry_later(error: &kube::Error, context: &Context) -> Action {
    let problem = described(error);
    if context.logged.lock().unwrap_or_else(PoisonError::into_inner).record_if_new(&problem) {
        tracing::warn!(problem, "cannot write the status of a FieldCache, retrying");
    }
    Action::requeue(AFTER_FAILURE)
}

/// Writes the status of a FieldCache if it has changed, with Events for new reasons, and records its conditions for
/// metrics.
///
/// # Errors
/// The status cannot be written. A failed Event is not an error.
async fn reconcile(field_cache: Arc<FieldCache>, context: Arc<Context>) -> Result<Action, kube::Error> {
    let name = field_cache.name_any();
    let result = context.replica.results.borrow().get(&name).cloned();
    // This replica may not have evaluated this generation yet. When it has, its results change, and all FieldCaches are
    // reconciled again.
    let Some(result) = result.filter(|result| Some(result.generation) == field_cache.metadata.generation) else {
        return Ok(Action::requeue(COUNTS_EVERY));
    };
    let previous = field_cache.status.clone().unwrap_or_default();
    let wanted: Vec<&Gvr> = result.stores.iter().map(|store| &store.gvr).collect();
    let stores = Stores::observe(&context.replica, &wanted);
    let findings = findings(&result, &stores);
    // Counts change all the time, so they are written rarely, but the first ones at once.
    let may_count = {
        let counted = context.counted.lock().unwrap_or_else(PoisonError::into_inner);
        previous.objects.is_none() || counted.get(&name).is_none_or(|last| last.elapsed() >= COUNTS_EVERY)
    };
    let count = |shown: Option<i64>, real: u64| if may_count { coarse(shown, real) } else { shown.unwrap_or_default() };
    let is_ready = findings.iter().any(|finding| finding.kind == READY && finding.status == ConditionStatus::True);
    let status = FieldCacheStatus {
        conditions: conditions(
            &previous.conditions,
            &findings,
            field_cache.metadata.generation,
            jiff::Timestamp::now(),
        ),
        versions: match &wanted[..] {
            // While no version is served, keep the versions, so that the same ones are cached when the resource is
            // served again.
            [] => previous.versions.clone(),
            wanted => wanted.iter().map(|gvr| gvr.version.to_string()).collect(),
        },
        objects: is_ready.then(|| count(previous.objects, stores.objects)),
        bytes: is_ready.then(|| count(previous.bytes, stores.bytes)),
    };
    if status != previous {
        let patch = json!({
            "apiVersion": FieldCache::api_version(&()), "kind": FieldCache::kind(&()),
            "metadata": { "name": name }, "status": status,
        });
        context.api.patch_status(&name, &PatchParams::apply(FIELD_MANAGER).force(), &Patch::Apply(&patch)).await?;
        context.logged.lock().unwrap_or_else(PoisonError::into_inner).forget();
        if (status.objects, status.bytes) != (previous.objects, previous.bytes) {
            let mut counted = context.counted.lock().unwrap_or_else(PoisonError::into_inner);
            counted.insert(name.clone(), Instant::now());
        }
        // If nothing is accepted, or the memory limit rejects the store, Ready has the same message, so Accepted gets
        // no Event of its own.
        let is_partial = |finding: &&Finding| finding.status == ConditionStatus::False && !result.stores.is_empty();
        let find = |kind| findings.iter().find(|finding: &&Finding| finding.kind == kind);
        let accepted = find(ACCEPTED).filter(is_partial).filter(|finding| finding.reason != MEMORY_LIMIT);
        for finding in [accepted, find(READY), find(PREFERRED_ONLY)] {
            events::record(&context.recorder, &field_cache.object_ref(&()), &previous.conditions, finding, "Sync")
                .await;
        }
    }
    context.reported.set(ReportedKind::FieldCache, &name, &findings);
    Ok(Action::requeue(COUNTS_EVERY))
}

const ACCEPTED: &str = "Accepted";
const SYNCED: &str = "Synced";
const READY: &str = "Ready";
/// Only while versions are cached that the spec does not name.
const PREFERRED_ONLY: &str = "PreferredVersionOnly";
/// The label of ClusterRoles that grant reads to fieldcache; see manifests/rbac.yaml.
const READER: &str = "fieldcache.dev/aggregate-to-reader";
/// The reason of a store that fieldcache may not read.
const FORBIDDEN: &str = "Forbidden";
/// The reason of a FieldCache that is served without some of its fields or versions.
const PARTLY_ACCEPTED: &str = "PartlyAccepted";
/// Problems that one message names.
const MOST_NAMED: usize = 8;
/// The reason of a store that the memory limit prevents.
const MEMORY_LIMIT: &str = "MemoryLimit";

/// The state of all stores of a FieldCache.
struct Stores {
    /// The number of objects in the stores that are ready.
    objects: u64,
    /// The memory of the stores that are ready, with indexes and history.
    bytes: u64,
    /// The first store that is not ready: resource, reason and message.
    waiting: Option<(Gvr, &'static str, String)>,
}

impl Stores {
    /// Reads the current state of the stores of the resources `wanted`, in this order.
    fn observe(replica: &ReplicaState, wanted: &[&Gvr]) -> Stores {
        let catalog = replica.registry.catalog();
        let mut stores = Stores { objects: 0, bytes: 0, waiting: None };
        for gvr in wanted {
            let state = catalog.store(gvr).map(|resource| resource.state.load_state());
            let waiting = match state {
                Some(LoadState::Ready(snapshot)) => {
                    let usage = snapshot.usage();
                    let indexes: u64 = usage.attributes.iter().map(|attribute| attribute.bytes).sum();
                    stores.objects += usage.objects;
                    stores.bytes += usage.held_bytes + usage.order_bytes + usage.history_bytes + indexes;
                    continue;
                }
                Some(LoadState::Loading(progress)) => ("Loading", progress),
                Some(LoadState::SourceError { code: 403, message }) => (FORBIDDEN, message),
                Some(LoadState::SourceError { code: 401, message }) => ("Unauthorized", message),
                Some(LoadState::SourceError { message, .. }) => ("SourceFailed", message),
                Some(LoadState::OverMemory(over)) => (MEMORY_LIMIT, over.to_string()),
                Some(LoadState::Idle | LoadState::Gone(_)) | None => ("Loading", "not loaded yet".to_owned()),
            };
            stores.waiting.get_or_insert(((*gvr).clone(), waiting.0, waiting.1));
        }
        stores
    }
}

/// How to grant the operator the permission to read a resource. It is in the condition, in the log and in responses, in
/// one line, because kubectl's tables cut a message at its first line break.
pub fn how_to_permit(gvr: &Gvr) -> String {
    let name = object_name(&gvr.group, &gvr.resource);
    if &*gvr.group == "apiextensions.k8s.io" {
        return format!(
            "fieldcache has no permission to list and watch {name}: apply manifests/rbac.yaml, which grants it"
        );
    }
    format!(
        "fieldcache has no permission to list and watch {name}: no ClusterRole with the label {READER} grants it. To grant it: \
         kubectl create clusterrole fieldcache-reads-{name} --verb=list,watch --resource={name} && \
         kubectl label clusterrole fieldcache-reads-{name} {READER}=true"
    )
}

/// The conditions of a FieldCache: Accepted, Synced and Ready, and PreferredVersionOnly if it applies. `stores` is the
/// state of the stores of `result`.
fn findings(result: &FieldCacheResult, stores: &Stores) -> Vec<Finding> {
    let of_all = result.problems.first().filter(|_| result.stores.is_empty());
    if let Some(problem) = of_all {
        let refused = |kind| Finding::new(kind, ConditionStatus::False, problem.reason, &*problem.message);
        let synced = Finding::new(
            SYNCED,
            ConditionStatus::False,
            "NotAccepted",
            "nothing is cached: see the condition Accepted",
        );
        return vec![refused(ACCEPTED), synced, refused(READY)];
    }
    let names: Vec<String> = result.stores.iter().map(|store| store.gvr.to_string()).collect();
    let kept = names.join(", ");
    let accepted = match result.problems.split_first() {
        None => Finding::new(ACCEPTED, ConditionStatus::True, "Accepted", format!("caching {kept}")),
        Some((first, _)) => {
            let named: Vec<&str> = result.problems.iter().take(MOST_NAMED).map(|problem| &*problem.message).collect();
            let more = match result.problems.len() - named.len() {
                0 => String::new(),
                more => format!("; further problems: {more}"),
            };
            let message = format!("{}{more}; cached without these parts: {kept}", named.join("; "));
            Finding::new(ACCEPTED, ConditionStatus::False, first.reason, message)
        }
    };
    let ready = ready(result);
    let mut findings = match &stores.waiting {
        None => vec![
            accepted,
            Finding::new(SYNCED, ConditionStatus::True, "Synced", "the store is complete and follows the API server"),
            ready,
        ],
        Some((gvr, reason, message)) => {
            let text = if *reason == FORBIDDEN { message.clone() } else { format!("{gvr}: {message}") };
            let waiting = |kind| Finding::new(kind, ConditionStatus::False, *reason, &*text);
            // The progress of a load changes all the time. Metrics have it.
            let loading = |kind| Finding::new(kind, ConditionStatus::False, *reason, format!("{gvr} is loading"));
            let finding = |kind| if *reason == "Loading" { loading(kind) } else { waiting(kind) };
            // A store that exceeds the memory limit is rejected as a whole, whatever its spec.
            let accepted = if *reason == MEMORY_LIMIT { waiting(ACCEPTED) } else { accepted };
            // One condition has the whole message, the one that `kubectl get -o wide` shows.
            let synced = match *reason {
                FORBIDDEN => Finding::new(
                    SYNCED,
                    ConditionStatus::False,
                    FORBIDDEN,
                    format!("{gvr} cannot be read: see the condition Ready"),
                ),
                _ => finding(SYNCED),
            };
            vec![accepted, synced, finding(READY)]
        }
    };
    findings.extend(older_versions(result));
    findings
}

/// The condition Ready of a FieldCache whose stores are complete.
pub(super) fn ready(result: &FieldCacheResult) -> Finding {
    let served = if result.stores.iter().any(|store| store.scope.is_some()) {
        "only Views are served from the store, because it has only the objects of spec.scope"
    } else {
        "get, list and watch are served from the store"
    };
    if result.problems.is_empty() {
        return Finding::new(READY, ConditionStatus::True, "Ready", served);
    }
    let message = format!("{served}; it lacks the invalid parts: see the condition Accepted");
    Finding::new(READY, ConditionStatus::True, PARTLY_ACCEPTED, message)
}

/// The condition PreferredVersionOnly with status False: other versions than the preferred one are cached, although the
/// spec does not name them. `None` if there are no such versions.
fn older_versions(result: &FieldCacheResult) -> Option<Finding> {
    let (preferred, others) = result.stores.split_first().filter(|_| result.follows_preferred)?;
    let others: Vec<&str> = others.iter().map(|store| &*store.gvr.version).collect();
    let message = format!(
        "the API server now prefers version {}. Also cached, because clients may still read them: {}. They stay cached while the API server serves them. Each version has a store of its own. To select versions, set spec.versions",
        preferred.gvr.version,
        others.join(", "),
    );
    (!others.is_empty())
        .then(|| Finding::new(PREFERRED_ONLY, ConditionStatus::False, "PreferredVersionChanged", message))
}
