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

/// The stores that are loading, at most one for each resource.
#[derive(Debug, Default)]
pub(super) struct PendingReplacements {
    loading: BTreeMap<Gvr, Arc<Resource>>,
}

impl PendingReplacements {
    /// Returns the resource to serve. That is `previous`, the current one, while its replacement `wanted` is loading,
    /// if it has a complete store and the same scope: with another scope, its paths are no longer valid. Otherwise it
    /// is the replacement, also if that cannot be loaded. Adds the replacement to `fresh`, the resources to load,
    /// unless an equal one is loading already.
    pub(super) fn choose(
        &mut self,
        previous: Option<&Arc<Resource>>,
        wanted: Resource,
        fresh: &mut Vec<Arc<Resource>>,
    ) -> Arc<Resource> {
        let gvr = wanted.gvr.clone();
        let has_store = |resource: &Arc<Resource>| matches!(resource.state.load_state(), LoadState::Ready(_));
        let served = previous.filter(|previous| has_store(previous) && previous.scope == wanted.scope);
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
                // No client requests the replacement itself, so it is requested here.
                successor.state.request_load();
                self.loading.insert(gvr, successor);
                served.clone()
            }
            Some(_) | None => successor,
        }
    }

    /// Cancels the replacement of a resource, if there is one.
    pub(super) fn cancel(&mut self, gvr: &Gvr) {
        if let Some(obsolete) = self.loading.remove(gvr) {
            obsolete.state.end(GoneReason::Replaced);
        }
    }

    /// Cancels the replacements of all resources but these.
    pub(super) fn retain(&mut self, served: &[Arc<Resource>]) {
        let gone: Vec<Gvr> =
            self.loading.keys().filter(|gvr| !served.iter().any(|resource| resource.gvr == **gvr)).cloned().collect();
        gone.iter().for_each(|gvr| self.cancel(gvr));
    }

    /// Waits until a replacement is loaded or has failed: a new catalog can then serve it. Forever if none is loading.
    /// Safe to drop at any point.
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

/// Whether a replacement must be served now: its store is complete, or waiting is useless. Without permission to read
/// it, the old store must not be served either. Without memory for both, the old store is unloaded.
fn is_settled(state: &LoadState) -> bool {
    matches!(state, LoadState::Ready(_) | LoadState::SourceError { .. } | LoadState::OverMemory(_) | LoadState::Gone(_))
}
