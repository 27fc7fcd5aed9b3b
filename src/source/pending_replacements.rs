//! Stores that are loaded to replace one that is served, because the fields of its resource have changed.
//!
//! A changed definition does not take the store away from readers. The new store is built beside the old one, and
//! replaces it when it is complete. Then the watches of the old one end, as kube-apiserver ends those of a changed
//! definition. A resource without a store is replaced immediately. `cluster` loads the stores.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::select_all;

use crate::model::Gvr;
use crate::registry::{GoneReason, LoadState, Resource};

/// At most one a resource.
#[derive(Debug, Default)]
pub(super) struct PendingReplacements {
    loading: BTreeMap<Gvr, Arc<Resource>>,
}

impl PendingReplacements {
    /// The resource to serve: the previous one while the new one has no store. `fresh` collects what must be loaded.
    pub(super) fn choose(
        &mut self,
        previous: Option<&Arc<Resource>>,
        wanted: Resource,
        fresh: &mut Vec<Arc<Resource>>,
    ) -> Arc<Resource> {
        let gvr = wanted.gvr.clone();
        let has_copy = |resource: &Arc<Resource>| matches!(resource.state.load_state(), LoadState::Ready(_));
        let served = previous.filter(|previous| has_copy(previous) && previous.scope == wanted.scope);
        let successor = match self.loading.remove(&gvr) {
            Some(loading) if loading.same_definition(&wanted) => loading,
            other => {
                if let Some(obsolete) = other {
                    obsolete.state.end(GoneReason::Replaced);
                }
                let successor = Arc::new(wanted);
                fresh.push(successor.clone());
                successor
            }
        };
        match served {
            Some(served) if !is_settled(&successor.state.load_state()) => {
                // The readers of the old one request it.
                successor.state.request_load();
                self.loading.insert(gvr, successor);
                served.clone()
            }
            Some(_) | None => successor,
        }
    }

    /// Notes that nothing replaces this resource any more.
    pub(super) fn drop(&mut self, gvr: &Gvr) {
        if let Some(obsolete) = self.loading.remove(gvr) {
            obsolete.state.end(GoneReason::Replaced);
        }
    }

    /// Drops all but these resources.
    pub(super) fn retain(&mut self, served: &[Arc<Resource>]) {
        let gone: Vec<Gvr> =
            self.loading.keys().filter(|gvr| !served.iter().any(|resource| resource.gvr == **gvr)).cloned().collect();
        gone.iter().for_each(|gvr| self.drop(gvr));
    }

    /// Waits until a new one can replace its previous one. Safe to drop at any point.
    pub(super) async fn settled(&self) {
        let waits = self.loading.values().map(|resource| {
            let mut states = resource.state.subscribe();
            Box::pin(async move {
                // The sender is owned by the resource, which is referenced here.
                let _ = states.wait_for(is_settled).await;
            })
        });
        let waits: Vec<_> = waits.collect();
        if waits.is_empty() {
            return std::future::pending().await;
        }
        select_all(waits).await;
    }
}

/// Whether there is a store, or nothing to wait for. Without permission to read the new one the old one must not be
/// served either. Where memory is missing for both, the old one makes room for it.
fn is_settled(state: &LoadState) -> bool {
    matches!(state, LoadState::Ready(_) | LoadState::SourceError { .. } | LoadState::OverMemory(_) | LoadState::Gone(_))
}
