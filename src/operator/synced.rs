//! Whether a replica has what it must serve: the stores of its start complete, or given up on with a condition that says why, and the
//! Views read.
//!
//! A replica that is not ready gets no requests from its Service; what it has is served nevertheless. What it has not is then not known to
//! be missing: until it [knows](Synced::knows) what there is to serve, nobody is told that something is not there.
//!
//! Only the stores of the first FieldCaches gate readiness, each until it was complete once. All replicas load a store that is added later
//! at the same time, so if it gated readiness, an author of FieldCaches could take all of them out of the Service. Nor does one gate it
//! for longer than [`PATIENCE`] without progress, or [`MOST_PATIENCE`] at all: kube-apiserver lists no resource whose conversion webhook
//! fails, and those who may write definitions could keep every replica that starts out of the Service. Where no store is complete, there
//! is nothing else to serve, and all are waited for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::model::Gvr;
use crate::registry::{Readiness, Registry};

/// A store of which nothing was read for so long gates readiness no longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// No store gates readiness for longer.
const MOST_PATIENCE: Duration = Duration::from_secs(600);

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
    gating: BTreeMap<Gvr, Progress>,
}

/// How far a store is that gates readiness.
#[derive(Clone, Copy, Debug)]
struct Progress {
    began: Instant,
    /// Objects of its first list, and since when they are so many.
    read: (u64, Instant),
}

impl Progress {
    fn new(now: Instant) -> Progress {
        Progress { began: now, read: (0, now) }
    }

    /// Whether it is worth waiting for.
    fn goes_on(&mut self, read: u64, now: Instant) -> bool {
        if read > self.read.0 {
            self.read = (read, now);
        }
        now - self.read.1 < PATIENCE && now - self.began < MOST_PATIENCE
    }
}

impl Synced {
    /// From now on these stores must be there. Those of the first call gate readiness.
    pub fn expect(&self, stores: Arc<BTreeSet<Gvr>>) {
        let mut held = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        let gating = match held.take() {
            None => stores.iter().map(|gvr| (gvr.clone(), Progress::new(Instant::now()))).collect(),
            Some(before) => before.gating.into_iter().filter(|(gvr, _)| stores.contains(gvr)).collect(),
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
        let (catalog, now) = (registry.catalog(), Instant::now());
        let mut held = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Expected { stores, gating }) = held.as_mut() else { return Vec::new() };
        let has_some = stores.iter().any(|gvr| catalog.readiness(gvr) == Readiness::Ready);
        let store = |gvr: &Gvr| {
            let read = catalog.copy(gvr).map_or(0, |resource| resource.live.read());
            let gates = gating.get_mut(gvr).is_some_and(|progress| progress.goes_on(read, now) || !has_some);
            let readiness = match catalog.readiness(gvr) {
                Readiness::NotReady(progress) if gates => return (gvr.clone(), Readiness::NotReady(progress)),
                Readiness::NotReady(progress) => Readiness::Loading(progress),
                other => other,
            };
            gating.remove(gvr);
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
