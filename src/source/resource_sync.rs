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

/// A store without requests for this long is unloaded (design: what is cached).
const FORGET_AFTER: Duration = Duration::from_secs(15 * 60);
/// How often the resource is checked for being idle.
const IDLE_CHECK: Duration = Duration::from_secs(60);

/// A resource to sync.
pub(super) struct ResourceSync {
    /// The resource.
    pub(super) resource: Arc<Resource>,
    /// Loaded at once and never forgotten.
    pub(super) is_pinned: bool,
    /// The memory that counts it.
    pub(super) memory: Arc<Memory>,
}

/// How often it is checked whether memory is available for a store that was rejected.
const MEMORY_CHECK: Duration = Duration::from_secs(1);

impl ResourceSync {
    /// Publishes why the resource is not loaded, and waits until memory is available. The memory that it has needed is
    /// assumed for as long as an unused store stays loaded. After that it may have become smaller.
    async fn wait_for_memory(&self, over: OverMemory) {
        tracing::warn!(resource = %self.resource.gvr, reason = %over, "not loaded");
        let needed = over.needed;
        self.resource.state.publish(LoadState::OverMemory(over));
        let room = async {
            while self.memory.refuses(needed).is_some() {
                sleep(MEMORY_CHECK).await;
            }
        };
        if timeout(FORGET_AFTER, room).await.is_err() {
            while self.memory.refuses(Bytes::default()).is_some() {
                sleep(MEMORY_CHECK).await;
            }
        }
        self.resource.state.publish(LoadState::Idle);
    }
}

/// Syncs one resource while it is requested and served. Returns the account of the memory of its last store.
pub(super) async fn sync_resource(
    connection: Connection,
    kept: ResourceSync,
    settings: ClusterSettings,
    mut check: Option<SelfCheck<Connection>>,
    delay: Duration,
) -> Option<Account> {
    let ResourceSync { resource, is_pinned: pinned, memory } = &kept;
    let pinned = *pinned;
    // Without the definitions nothing of the others is known.
    let may_be_refused = resource.gvr != crd_gvr();
    tokio::select! {
        () = sleep(delay) => {}
        () = gone(&resource.state) => return None,
    }
    let mut demands = resource.state.load_requests();
    // Demands are counted, so that one that came before this task first ran is not missed.
    let mut served = 0;
    loop {
        if !pinned {
            tokio::select! {
                demand = demands.wait_for(|count| *count > served) => if demand.is_err() { return None },
                () = gone(&resource.state) => return None,
            }
        }
        if let Some(over) = memory.refuses(Bytes::default()).filter(|_| may_be_refused) {
            tokio::select! {
                () = kept.wait_for_memory(over) => {}
                () = gone(&resource.state) => return None,
            }
            // Requests that arrived meanwhile have been answered.
            served = *demands.borrow();
            continue;
        }
        resource.state.freshness().forget();
        resource.state.loading(0);
        let mut feed = Feed::new(resource.clone(), settings.history).accounted(memory, may_be_refused);
        let refusal = feed.refusal();
        loop {
            tokio::select! {
                // First, so that a rejected list is not requested again.
                biased;
                () = refusal.notified() => {
                    let needed = feed.refused().unwrap_or_default();
                    if feed.is_ready() {
                        tracing::warn!(
                            resource = %resource.gvr, held = %memory.held(), limit = %memory.limit().unwrap_or_default(),
                            "unloaded: all stores together exceed --memory-limit by half, and this one has grown most"
                        );
                    }
                    drop(feed);
                    let over = memory.refuses(needed).unwrap_or(OverMemory {
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
                // Follows again, from a list that relies on nothing.
                () = mismatch(&mut check) => feed.invalidate(),
                seen = idle(&resource.state), if !pinned => {
                    tracing::info!(resource = %resource.gvr, "unloaded: no requests for 15 minutes");
                    // A demand that comes after the last look starts the next load.
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

/// How long the last snapshot of a resource that is gone stays for watches that have not sent all of it.
const LAST_COPY: Duration = Duration::from_secs(30);

/// How often it is looked whether such watches are left.
const LAST_COPY_CHECK: Duration = Duration::from_secs(1);

/// Releases the last snapshot of a resource that is gone. Until then its memory counts for the next store.
pub(super) async fn release_last_snapshot(resource_state: &ResourceState, account: Option<Account>) {
    let until = Instant::now() + LAST_COPY;
    while resource_state.open_watches() > 0 && Instant::now() < until {
        sleep(LAST_COPY_CHECK).await;
    }
    resource_state.forget_last();
    drop(account);
}

/// Waits until a check finds that the store is wrong.
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

/// Waits until there was no request for long; returns the number of requests at that time.
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
