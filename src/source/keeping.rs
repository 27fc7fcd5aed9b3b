//! One resource is kept: loaded when it is wanted, followed, checked, let go, and forgotten when nobody asks for it any more.
//!
//! Which resources there are, and whose task this is, is [`super::cluster`]'s; what is read from the source [`super::list_watch`]'s.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::cluster_settings::ClusterSettings;
use super::connection::Connection;
use super::departures::{outstayed, take_leave};
use super::feed::Feed;
use super::list_watch::follow;
use super::resources::crd_gvr;
use super::self_check::SelfCheck;
use crate::model::quantity::Bytes;
use crate::registry::{Account, LoadState, Memory, OverMemory, Resource, ResourceState};

/// A cached resource that nobody has asked for this long is forgotten (design: what is cached).
const FORGET_AFTER: Duration = Duration::from_secs(15 * 60);
/// How often idleness is looked at.
const IDLE_CHECK: Duration = Duration::from_secs(60);

/// A resource that is kept.
pub(super) struct Keeping {
    /// The resource.
    pub(super) resource: Arc<Resource>,
    /// Loaded at once and never forgotten.
    pub(super) is_pinned: bool,
    /// What counts it.
    pub(super) memory: Arc<Memory>,
}

/// How often it is looked whether there is room for a store that was refused.
const ROOM_CHECK: Duration = Duration::from_secs(1);

impl Keeping {
    /// Shows why the resource is not loaded, and waits until there is room for it. What it was seen to need is believed for as
    /// long as an unused copy is kept; after that it may have become smaller.
    async fn wait_for_room(&self, over: OverMemory) {
        tracing::warn!(resource = %self.resource.gvr, reason = %over, "not loaded");
        let needed = over.needed;
        self.resource.live.publish(LoadState::OverMemory(over));
        let room = async {
            while self.memory.refuses(needed).is_some() {
                sleep(ROOM_CHECK).await;
            }
        };
        if timeout(FORGET_AFTER, room).await.is_err() {
            while self.memory.refuses(Bytes::default()).is_some() {
                sleep(ROOM_CHECK).await;
            }
        }
        self.resource.live.publish(LoadState::Idle);
    }
}

/// Keeps one resource's data for as long as somebody wants it and it is served. What it held then is counted in the account that is left.
pub(super) async fn keep(
    connection: Connection,
    kept: Keeping,
    settings: ClusterSettings,
    mut check: Option<SelfCheck<Connection>>,
    delay: Duration,
) -> Option<Account> {
    let Keeping { resource, is_pinned: pinned, memory } = &kept;
    let pinned = *pinned;
    // Without the definitions nothing of the others is known.
    let may_be_refused = resource.gvr != crd_gvr();
    tokio::select! {
        () = sleep(delay) => {}
        () = gone(&resource.live) => return None,
    }
    let mut demands = resource.live.demands();
    // Demands are counted, so that one that came before this task first ran is not missed.
    let mut served = 0;
    loop {
        if !pinned {
            tokio::select! {
                demand = demands.wait_for(|count| *count > served) => if demand.is_err() { return None },
                () = gone(&resource.live) => return None,
            }
        }
        if let Some(over) = memory.refuses(Bytes::default()).filter(|_| may_be_refused) {
            tokio::select! {
                () = kept.wait_for_room(over) => {}
                () = gone(&resource.live) => return None,
            }
            // Whoever asked meanwhile has been answered.
            served = *demands.borrow();
            continue;
        }
        resource.live.freshness().forget();
        resource.live.loading(0);
        let mut feed = Feed::new(resource.clone(), settings.history).accounted(memory, may_be_refused);
        let refusal = feed.refusal();
        loop {
            tokio::select! {
                // First, so that what was refused is not asked for again.
                biased;
                () = refusal.notified() => {
                    let needed = feed.refused().unwrap_or_default();
                    if feed.is_ready() {
                        tracing::warn!(
                            resource = %resource.gvr, held = %memory.held(), limit = %memory.limit().unwrap_or_default(),
                            "let go: all copies hold half as much again as --memory-limit, and this one has grown most"
                        );
                    }
                    drop(feed);
                    let over = memory.refuses(needed).unwrap_or(OverMemory {
                        limit: memory.limit().unwrap_or_default(),
                        held: memory.held(),
                        needed,
                    });
                    tokio::select! {
                        () = kept.wait_for_room(over) => {}
                        () = gone(&resource.live) => return None,
                    }
                    served = *demands.borrow();
                    break;
                }
                () = follow(&connection, resource, &mut feed, settings.following()) => {
                    take_leave(&mut feed, &resource.live);
                    return feed.into_account();
                }
                () = outstayed(&resource.live) => {
                    take_leave(&mut feed, &resource.live);
                    return feed.into_account();
                }
                () = gone(&resource.live) => return feed.into_account(),
                // What is followed is followed anew, from a list that relies on nothing.
                () = mismatch(&mut check) => feed.retract(),
                seen = idle(&resource.live), if !pinned => {
                    tracing::info!(resource = %resource.gvr, "not asked for any more, forgotten");
                    // A demand that comes after the last look starts the next load.
                    served = seen;
                    if let Some(departure) = resource.live.departure() {
                        resource.live.end(departure.reason());
                        return feed.into_account();
                    }
                    resource.live.publish(LoadState::Idle);
                    break;
                }
            }
        }
    }
}

/// For so long the last copy of a resource that is gone is there for watches that have not sent all of it.
const LAST_COPY: Duration = Duration::from_secs(30);

/// How often it is looked whether such watches are left.
const LAST_COPY_CHECK: Duration = Duration::from_secs(1);

/// Lets go of the last copy of a resource that is gone. Until then it is counted as what the next one holds.
pub(super) async fn let_go_of_last(live: &ResourceState, account: Option<Account>) {
    let until = Instant::now() + LAST_COPY;
    while live.open_watches() > 0 && Instant::now() < until {
        sleep(LAST_COPY_CHECK).await;
    }
    live.forget_last();
    drop(account);
}

/// Waits for a check to find that the copy is wrong.
async fn mismatch(check: &mut Option<SelfCheck<Connection>>) {
    match check {
        Some(check) => check.mismatch().await,
        None => std::future::pending().await,
    }
}

async fn gone(live: &ResourceState) {
    let mut states = live.subscribe();
    // An error means that the resource itself is dropped, which is gone as well.
    let _ = states.wait_for(|state| matches!(state, LoadState::Gone(_))).await;
}

/// Waits until nobody has asked for long; answers how many demands there had been at the last look.
async fn idle(live: &ResourceState) -> u64 {
    let demands = live.demands();
    let mut seen = *demands.borrow();
    let mut quiet = Duration::ZERO;
    while quiet < FORGET_AFTER {
        sleep(IDLE_CHECK).await;
        let now = *demands.borrow();
        let asked = now != seen || live.open_watches() > 0;
        seen = now;
        quiet = if asked { Duration::ZERO } else { quiet + IDLE_CHECK };
    }
    seen
}
