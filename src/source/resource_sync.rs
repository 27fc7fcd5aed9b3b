//! The sync task of one resource: loads its store on request, follows and checks it, and unloads it when it is idle.
//!
//! [`super::cluster`] decides which resources there are and starts the tasks; [`super::list_watch`] reads the source.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::cluster_settings::ClusterSettings;
use super::connection::Connection;
use super::departures::{departure_timeout, end_departed};
use super::feed::Feed;
use super::list_watch::follow;
use super::resources::crd_gvr;
use super::self_check::SelfCheck;
use crate::model::quantity::Bytes;
use crate::registry::{Account, LoadState, Memory, OverMemory, Resource, ResourceState};

/// A store without requests for this long is unloaded.
const FORGET_AFTER: Duration = Duration::from_secs(15 * 60);
/// How often the resource is checked for being idle.
const IDLE_CHECK: Duration = Duration::from_secs(60);

/// A resource to sync.
pub(super) struct ResourceSync {
    /// The resource.
    pub(super) resource: Arc<Resource>,
    /// Whether it is loaded at once and never unloaded.
    pub(super) is_pinned: bool,
    /// Counts the memory of the store, and rejects it above the limit.
    pub(super) memory: Arc<Memory>,
}

/// How often a rejected store checks whether memory is available.
const MEMORY_CHECK: Duration = Duration::from_secs(1);

impl ResourceSync {
    /// Publishes why the resource is not loaded, and waits until memory is available for it. At first that is as much
    /// as its store had when it was rejected. After the time for which an unused store stays loaded, any free memory is
    /// enough, because the resource may have become smaller. Then the resource waits for a request.
    async fn wait_for_memory(&self, over: OverMemory) {
        tracing::warn!(resource = %self.resource.gvr, reason = %over, "not loaded");
        let needed = over.needed;
        self.resource.state.publish(LoadState::OverMemory(over));
        let enough_memory = async {
            while self.memory.rejection(needed).is_some() {
                sleep(MEMORY_CHECK).await;
            }
        };
        if timeout(FORGET_AFTER, enough_memory).await.is_err() {
            while self.memory.rejection(Bytes::default()).is_some() {
                sleep(MEMORY_CHECK).await;
            }
        }
        self.resource.state.publish(LoadState::Idle);
    }
}

/// Syncs the resource in `kept`: loads it on request, follows it, and unloads it when it is idle, until it is no longer
/// served. `delay` is how long to wait first, and `check` compares the store with the source. Returns the account of
/// the memory of its last store, which watches may still use; `None` if no store is loaded at the end.
pub(super) async fn sync_resource(
    connection: Connection,
    kept: ResourceSync,
    settings: ClusterSettings,
    mut check: Option<SelfCheck<Connection>>,
    delay: Duration,
) -> Option<Account> {
    let ResourceSync { resource, is_pinned: pinned, memory } = &kept;
    let pinned = *pinned;
    // CRDs are loaded whatever the limit is: without them, no custom resource is known.
    let may_be_refused = resource.gvr != crd_gvr();
    tokio::select! {
        () = sleep(delay) => {}
        () = gone(&resource.state) => return None,
    }
    let mut demands = resource.state.load_requests();
    // Requests are counted, so that one that came before this task first ran is not missed.
    let mut served = 0;
    loop {
        if !pinned {
            tokio::select! {
                demand = demands.wait_for(|count| *count > served) => if demand.is_err() { return None },
                () = gone(&resource.state) => return None,
            }
        }
        if let Some(over) = memory.rejection(Bytes::default()).filter(|_| may_be_refused) {
            tokio::select! {
                () = kept.wait_for_memory(over) => {}
                () = gone(&resource.state) => return None,
            }
            // Requests that arrived meanwhile have been answered.
            served = *demands.borrow();
            continue;
        }
        resource.state.freshness().forget();
        resource.state.publish_progress(0);
        let mut feed = Feed::new(resource.clone(), settings.history).accounted(memory, may_be_refused);
        let refusal = feed.refusal();
        loop {
            tokio::select! {
                // First, so that a rejected list is not requested again.
                biased;
                () = refusal.notified() => {
                    let needed = feed.refused_bytes().unwrap_or_default();
                    if feed.is_ready() {
                        tracing::warn!(
                            resource = %resource.gvr, held = %memory.held(), limit = %memory.limit().unwrap_or_default(),
                            "unloaded this resource: all stores together exceed --memory-limit by half, and this one has grown most. Raise --memory-limit, or cache fewer resources"
                        );
                    }
                    drop(feed);
                    let over = memory.rejection(needed).unwrap_or(OverMemory {
                        limit: memory.limit().unwrap_or_default(),
                        held: memory.held(),
                        needed,
                    });
                    tokio::select! {
                        () = kept.wait_for_memory(over) => {}
                        () = gone(&resource.state) => return None,
                    }
                    served = *demands.borrow();
                    break;
                }
                () = follow(&connection, resource, &mut feed, settings.list_watch_options()) => {
                    end_departed(&mut feed, &resource.state);
                    return feed.into_account();
                }
                () = departure_timeout(&resource.state) => {
                    end_departed(&mut feed, &resource.state);
                    return feed.into_account();
                }
                () = gone(&resource.state) => return feed.into_account(),
                // The next iteration follows again, from a new list.
                () = mismatch(&mut check) => feed.invalidate(),
                seen = idle(&resource.state), if !pinned => {
                    tracing::info!(resource = %resource.gvr, "unloaded this resource: no requests for 15 minutes");
                    // A request that comes after the last check starts the next load.
                    served = seen;
                    if let Some(departure) = resource.state.departure() {
                        resource.state.end(departure.reason());
                        return feed.into_account();
                    }
                    resource.state.publish(LoadState::Idle);
                    break;
                }
            }
        }
    }
}

/// How long the last snapshot of an ended resource stays for watches that have not sent all of it.
const LAST_COPY: Duration = Duration::from_secs(30);

/// How often to check whether such watches are left.
const LAST_COPY_CHECK: Duration = Duration::from_secs(1);

/// Releases the last snapshot of an ended resource when its watches have ended, or after [`LAST_COPY`]. Then drops
/// `account`: until then its memory counts against the limit.
pub(super) async fn release_last_snapshot(resource_state: &ResourceState, account: Option<Account>) {
    let until = Instant::now() + LAST_COPY;
    while resource_state.open_watches() > 0 && Instant::now() < until {
        sleep(LAST_COPY_CHECK).await;
    }
    resource_state.forget_last();
    drop(account);
}

/// Waits until the check finds a difference between store and source; forever without a check.
async fn mismatch(check: &mut Option<SelfCheck<Connection>>) {
    match check {
        Some(check) => check.mismatch().await,
        None => std::future::pending().await,
    }
}

/// Waits until the resource is not served any more.
async fn gone(resource_state: &ResourceState) {
    let mut states = resource_state.subscribe();
    // An error means that the resource itself is dropped, which is gone as well.
    let _ = states.wait_for(|state| matches!(state, LoadState::Gone(_))).await;
}

/// Waits until there was neither a request nor an open watch for [`FORGET_AFTER`]. Returns the number of requests at
/// that time.
async fn idle(resource_state: &ResourceState) -> u64 {
    let demands = resource_state.load_requests();
    let mut seen = *demands.borrow();
    let mut quiet = Duration::ZERO;
    while quiet < FORGET_AFTER {
        sleep(IDLE_CHECK).await;
        let now = *demands.borrow();
        let is_requested = now != seen || resource_state.open_watches() > 0;
        seen = now;
        quiet = if is_requested { Duration::ZERO } else { quiet + IDLE_CHECK };
    }
    seen
}
