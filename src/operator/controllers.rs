//! The controllers of a replica: what they are made of, and how they run.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::{Stream, StreamExt, stream};
use kube::Client;
use kube::runtime::events::{Recorder, Reporter};
use kube::runtime::watcher::Config;
use tokio::sync::watch;

use super::controller_tasks::ControllerTasks;
use super::desired_stores::{self, DesiredStores};
use super::election::{self, Election};
use super::replica_state::ReplicaState;
use super::reported::{ReportedConditions, ReportedKind};
use super::status::FIELD_MANAGER;
use super::stores::FieldCacheResults;
use super::synced::Synced;
use super::views::{self, ViewResults};
use super::{admission_policy, field_caches, own_permissions, phases, reflector, selectable_resources};
use crate::kinds::{FieldCache, SelectableResource};
use crate::model::Gvr;
use crate::registry::{Definitions, Registry};
use crate::source::store_options::StoreOptions;

/// The parts of the controllers of a replica.
pub struct Controllers {
    /// A client with the permissions of manifests/.
    pub client: Client,
    /// The resources that are served.
    pub registry: Arc<Registry>,
    /// Definitions of the resources of the cluster.
    pub definitions: watch::Receiver<Arc<Definitions>>,
    /// How the leader is elected.
    pub election: Election,
    /// Resources with a store whatever FieldCaches define.
    pub always_cached: BTreeSet<Gvr>,
    /// Tells the source which resources must have a store.
    pub wanted: watch::Sender<Arc<BTreeSet<Gvr>>>,
    /// Tells the source the extra fields and scopes of the stores.
    pub store_options: watch::Sender<Arc<StoreOptions>>,
    /// The state of readiness.
    pub synced: Arc<Synced>,
    /// The URL of Views.
    pub address: views::Address,
    /// Written conditions, for metrics.
    pub reported: Arc<ReportedConditions>,
}

/// Runs the controllers until the future is dropped. Each is a task of its own.
pub async fn run(operator: Controllers) {
    let Controllers {
        client,
        registry,
        definitions,
        election,
        always_cached: kept,
        wanted,
        store_options,
        synced,
        address,
        reported,
    } = operator;
    let (field_caches, field_cache_changes) = reflector::follow::<FieldCache>(client.clone(), Config::default());
    let (views, view_changes) = views::follow(client.clone());
    let view_results = watch::Sender::default();
    let results = watch::Sender::new(Arc::new(FieldCacheResults::new()));
    let policy = watch::Sender::new(admission_policy::unread());
    let replica = ReplicaState {
        registry: registry.clone(),
        definitions: definitions.clone(),
        results: results.subscribe(),
        policy: policy.subscribe(),
    };
    let (changed, leading) = (watch::Sender::new(0), watch::Sender::new(false));
    let written = StatusInputs {
        replica: replica.clone(),
        view_results: view_results.subscribe(),
        phases: changed.subscribe(),
        address,
        reported,
    };
    let (leads, identity) = (leading.subscribe(), election.identity.clone());
    let desired = DesiredStores { always_cached: kept, wanted, store_options, synced: synced.clone() };
    let mut tasks = ControllerTasks::default();
    let electing = client.clone();
    tasks.start(async move { election::run(electing, election, &leading).await });
    tasks.start(admission_policy::follow(client.clone(), policy.clone()));
    tasks.start(desired_stores::run(field_cache_changes, field_caches, definitions, results, desired));
    tasks.start(async move { views::serve(replica, views, view_changes, view_results, &synced).await });
    tasks.start(write_while_leading(client.clone(), written, leads, identity));
    tasks.start(phases::follow(registry, changed));
    tasks.start(own_permissions::check(client));
    tasks.run().await;
}

/// The inputs of the statuses that the leader writes.
struct StatusInputs {
    replica: ReplicaState,
    view_results: watch::Receiver<Arc<ViewResults>>,
    /// Changes whenever the phase of a store changes. The number has no meaning.
    phases: watch::Receiver<u64>,
    address: views::Address,
    reported: Arc<ReportedConditions>,
}

/// Writes statuses and SelectableResources whenever `leading` is true: this replica is the leader. Events name
/// `identity`, this replica, as their reporter. Returns when the sender of `leading` is dropped.
async fn write_while_leading(
    client: Client,
    written: StatusInputs,
    mut leading: watch::Receiver<bool>,
    identity: String,
) {
    let StatusInputs { replica, view_results, phases, address, reported } = written;
    loop {
        reported.set_leads(false);
        if leading.wait_for(|leads| *leads).await.is_err() {
            return;
        }
        reported.set_leads(true);
        let reporter = Reporter { controller: FIELD_MANAGER.into(), instance: Some(identity.clone()) };
        let recorder = Recorder::new(client.clone(), reporter);
        let (selectable, selectable_changes) =
            reflector::follow::<SelectableResource>(client.clone(), Config::default());
        let triggers = stream::select(ticks(phases.clone()), ticks(replica.results.clone()));
        let of_views = stream::select(ticks(phases.clone()), ticks(view_results.clone()));
        let of_views = stream::select(of_views, ticks(address.authorities.clone()));
        let of_views = stream::select(of_views, ticks(replica.policy.clone()));
        let (served, address) = ((replica.clone(), view_results.clone()), address.clone());
        tokio::select! {
            () = field_caches::run(client.clone(), replica.clone(), recorder.clone(), reported.clone(), triggers) => {}
            () = views::run(client.clone(), served.0, served.1, (recorder, reported.clone()), address, of_views) => {}
            () = forget_deleted(&reported, replica.results.clone(), view_results.clone()) => {}
            () = selectable_resources::run(client.clone(), replica.clone(), selectable, selectable_changes) => {}
            // Drops the other futures, so that nothing is written after the leadership was lost.
            _ = leading.wait_for(|leads| !*leads) => {}
        }
    }
}

/// Drops the conditions of deleted FieldCaches and Views from `reported`, so that metrics do not show them.
async fn forget_deleted(
    reported: &ReportedConditions,
    mut results: watch::Receiver<Arc<FieldCacheResults>>,
    mut view_results: watch::Receiver<Arc<ViewResults>>,
) {
    loop {
        let (field_caches, views) = (results.borrow_and_update().clone(), view_results.borrow_and_update().clone());
        reported.retain(ReportedKind::FieldCache, |name| field_caches.contains_key(name));
        reported.retain(ReportedKind::View, |name| views.contains_key(name));
        let changed = tokio::select! {
            changed = results.changed() => changed,
            changed = view_results.changed() => changed,
        };
        if changed.is_err() {
            return;
        }
    }
}

/// A stream with an item for each change of the value that `receiver` has not seen yet. It ends with the sender.
fn ticks<Value: Send + Sync + 'static>(receiver: watch::Receiver<Value>) -> impl Stream<Item = ()> + Send + 'static {
    stream::unfold(receiver, async |mut receiver| receiver.changed().await.ok().map(|()| ((), receiver))).boxed()
}
