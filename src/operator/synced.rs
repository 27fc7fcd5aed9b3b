//! Whether a replica has what it must serve: the stores of its start complete, or given up on with a condition that says why, and the
//! Views read.
//!
//! A replica that is not ready gets no requests from its Service; what it has is served nevertheless. What it has not is then not known to
//! be missing: until it [knows](Synced::knows) what there is to serve, nobody is told that something is not there.
//!
//! Only the stores of the first FieldCaches gate readiness, each until it was complete once. All replicas load a store that is added later
//! at the same time, so if it gated readiness, an author of FieldCaches could take all of them out of the Service.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::model::Gvr;
use crate::registry::{Readiness, Registry};

/// What is to be there.
#[derive(Debug, Default)]
pub struct Synced {
    /// The stores; `None` before the FieldCaches have been listed.
    stores: Mutex<Option<Expected>>,
    /// Whether all Views are served, or refused, that there were at the beginning.
    views: AtomicBool,
    /// Once known, for ever: afterwards something is missing for as long as it is about to be there, as in kube-apiserver.
    known: AtomicBool,
}

/// The stores that must be there.
#[derive(Clone, Debug)]
struct Expected {
    /// All of them.
    stores: Arc<BTreeSet<Gvr>>,
    /// Those of the start that have not been complete yet.
    gating: BTreeSet<Gvr>,
}

impl Synced {
    /// From now on these stores must be there. Those of the first call gate readiness.
    pub fn expect(&self, stores: Arc<BTreeSet<Gvr>>) {
        let mut held = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        let gating = match held.take() {
            None => BTreeSet::clone(&stores),
            Some(before) => before.gating.into_iter().filter(|gvr| stores.contains(gvr)).collect(),
        };
        *held = Some(Expected { stores, gating });
    }

    /// The Views are served.
    pub fn views_served(&self) {
        self.views.store(true, Ordering::Release);
    }

    fn expected(&self) -> Option<Arc<BTreeSet<Gvr>>> {
        self.stores.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(|expected| expected.stores.clone())
    }

    /// How far each store is, as far as readiness is concerned.
    fn stores(&self, registry: &Registry) -> Vec<(Gvr, Readiness)> {
        let catalog = registry.catalog();
        let mut held = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Expected { stores, gating }) = held.as_mut() else { return Vec::new() };
        let store = |gvr: &Gvr| {
            let readiness = match catalog.readiness(gvr) {
                Readiness::NotReady(progress) if !gating.contains(gvr) => Readiness::Loading(progress),
                Readiness::NotReady(progress) => Readiness::NotReady(progress),
                other => {
                    gating.remove(gvr);
                    other
                }
            };
            (gvr.clone(), readiness)
        };
        stores.iter().map(store).collect()
    }

    /// Whether what is not served is not there: everything that is to be served is in the catalog, complete or not.
    pub fn knows(&self, registry: &Registry) -> bool {
        if self.known.load(Ordering::Acquire) {
            return true;
        }
        let catalog = registry.catalog();
        let has_stores = self.expected().is_some_and(|stores| stores.iter().all(|gvr| catalog.copy(gvr).is_some()));
        let knows = has_stores && self.views.load(Ordering::Acquire);
        if knows {
            self.known.store(true, Ordering::Release);
        }
        knows
    }

    /// One line for each store, and one each for whether FieldCaches and Views are known; the error says what is missing.
    pub fn probe(&self, registry: &Registry) -> Vec<(String, Readiness)> {
        let unless = |known: bool, kind: &str| {
            if known { Readiness::Ready } else { Readiness::NotReady(format!("the {kind} have not been listed yet")) }
        };
        let views = ("views".to_owned(), unless(self.views.load(Ordering::Acquire), "Views or their admission policy"));
        let field_caches = ("fieldcaches".to_owned(), unless(self.expected().is_some(), "FieldCaches"));
        let stores = self.stores(registry).into_iter().map(|(gvr, readiness)| (format!("store/{gvr}"), readiness));
        [field_caches, views].into_iter().chain(stores).collect()
    }
}
