//! Whether a replica has what it is to serve: every store complete, or given up on with a condition that says why, and the Views read.
//!
//! A replica that is not ready gets no requests from its Service; what it has is served nevertheless. What it has not is then not known to
//! be missing: until it [knows](Synced::knows) what there is to serve, nobody is told that something is not there.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::model::Gvr;
use crate::registry::{Readiness, Registry};

/// What is to be there.
#[derive(Debug, Default)]
pub struct Synced {
    /// The stores; `None` before the FieldCaches have been listed.
    stores: Mutex<Option<Arc<BTreeSet<Gvr>>>>,
    /// Whether all Views are served, or refused, that there were at the beginning.
    views: AtomicBool,
    /// Once known, for ever: afterwards something is missing for as long as it is about to be there, as in kube-apiserver.
    known: AtomicBool,
}

impl Synced {
    /// From now on these stores are to be there.
    pub fn expect(&self, stores: Arc<BTreeSet<Gvr>>) {
        *self.stores.lock().unwrap_or_else(PoisonError::into_inner) = Some(stores);
    }

    /// The Views are served.
    pub fn views_served(&self) {
        self.views.store(true, Ordering::Release);
    }

    fn expected(&self) -> Option<Arc<BTreeSet<Gvr>>> {
        self.stores.lock().unwrap_or_else(PoisonError::into_inner).clone()
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
        let expected = self.expected();
        let field_caches = ("fieldcaches".to_owned(), unless(expected.is_some(), "FieldCaches"));
        let catalog = registry.catalog();
        let store = |gvr: &Gvr| (format!("store/{gvr}"), catalog.readiness(gvr));
        [field_caches, views].into_iter().chain(expected.iter().flat_map(|stores| stores.iter()).map(store)).collect()
    }
}
