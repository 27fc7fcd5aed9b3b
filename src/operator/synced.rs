//! Whether a replica has what it is to serve: every store complete, or given up on with a condition that says why.
//!
//! A replica that is not ready gets no requests from its Service; what it has is served nevertheless.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use crate::model::Gvr;
use crate::registry::{LiveState, Registry};

/// The stores that are to be there; none are known before the FieldCaches have been listed.
#[derive(Debug, Default)]
pub struct Synced(Mutex<Option<Arc<BTreeSet<Gvr>>>>);

impl Synced {
    /// From now on these stores are to be there.
    pub fn expect(&self, stores: Arc<BTreeSet<Gvr>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(stores);
    }

    /// One line for each store, and one for whether FieldCaches are known; the error says what is missing.
    pub fn probe(&self, registry: &Registry) -> Vec<(String, Result<(), String>)> {
        let expected = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(expected) = expected else {
            return vec![("fieldcaches".to_owned(), Err("the FieldCaches have not been listed yet".to_owned()))];
        };
        let catalog = registry.catalog();
        let store = |gvr: &Gvr| {
            let state = catalog.copy(gvr).map(|resource| resource.live.state());
            let result = match state {
                // What the API server refuses to show is told on its FieldCache; waiting does not help.
                Some(LiveState::Ready(_) | LiveState::Refused { .. } | LiveState::OverMemory(_)) => Ok(()),
                Some(LiveState::Loading(progress)) => Err(progress),
                Some(LiveState::Idle | LiveState::Gone) | None => Err("about to be read".to_owned()),
            };
            (format!("store/{gvr}"), result)
        };
        std::iter::once(("fieldcaches".to_owned(), Ok(()))).chain(expected.iter().map(store)).collect()
    }
}
