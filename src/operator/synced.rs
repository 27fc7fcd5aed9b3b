//! Readiness: a replica is ready when the stores of its start are complete, or have failed with a condition, and the
//! Views are evaluated.
//!
//! A replica that is not ready gets no requests from its Service, but it serves what it has. Until it
//! [knows](Synced::knows) which resources and Views exist, it does not report any of them as missing.
//!
//! Only the stores of the first FieldCaches gate readiness, each until it was complete once. All replicas load a store
//! that is added later at the same time. If it gated readiness, an author of FieldCaches could take all of them out of
//! the Service. No store gates readiness for longer than [`PATIENCE`] without progress, or [`MOST_PATIENCE`] at all.
//! kube-apiserver lists no resource whose conversion webhook fails, so authors of definitions could otherwise keep
//! every new replica out of the Service. If no store is complete, there is nothing else to serve, and all of them gate
//! readiness.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::model::Gvr;
use crate::registry::{Readiness, Registry};

/// A store without progress for this time does not gate readiness.
const PATIENCE: Duration = Duration::from_secs(60);

/// The longest time that a store gates readiness.
const MOST_PATIENCE: Duration = Duration::from_secs(600);

/// The state of readiness.
#[derive(Debug, Default)]
pub struct Synced {
    /// The expected stores; `None` before the FieldCaches are listed.
    stores: Mutex<Option<Expected>>,
    /// Whether the Views of the start were evaluated.
    views: AtomicBool,
    /// Whether [`Synced::knows`] was true once. From then on, a new resource is missing until it is loaded, as in
    /// kube-apiserver.
    known: AtomicBool,
}

/// The stores that this replica is expected to have.
#[derive(Clone, Debug)]
struct Expected {
    /// The resources of all expected stores.
    stores: Arc<BTreeSet<Gvr>>,
    /// Stores of the start that have not been complete yet.
    gating: BTreeMap<Gvr, Progress>,
}

/// The progress of a store that gates readiness.
#[derive(Clone, Copy, Debug)]
struct Progress {
    began: Instant,
    /// Objects of the first list that have been read.
    read: u64,
    /// When `read` was increased last.
    advanced: Instant,
}

impl Progress {
    fn new(now: Instant) -> Progress {
        Progress { began: now, read: 0, advanced: now }
    }

    /// Records that `read` objects of the first list have been read. Returns whether the store still gates readiness:
    /// it has made progress within [`PATIENCE`], and began less than [`MOST_PATIENCE`] ago.
    fn record(&mut self, read: u64, now: Instant) -> bool {
        if read > self.read {
            (self.read, self.advanced) = (read, now);
        }
        now - self.advanced < PATIENCE && now - self.began < MOST_PATIENCE
    }
}

impl Synced {
    /// Sets the expected stores. Those of the first call gate readiness.
    pub fn expect(&self, stores: Arc<BTreeSet<Gvr>>) {
        let mut stored = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        let gating = match stored.take() {
            None => stores.iter().map(|gvr| (gvr.clone(), Progress::new(Instant::now()))).collect(),
            Some(before) => before.gating.into_iter().filter(|(gvr, _)| stores.contains(gvr)).collect(),
        };
        *stored = Some(Expected { stores, gating });
    }

    /// Records that the Views are evaluated.
    pub fn set_views_evaluated(&self) {
        self.views.store(true, Ordering::Release);
    }

    /// The resources of the expected stores; `None` before the FieldCaches were read.
    fn expected(&self) -> Option<Arc<BTreeSet<Gvr>>> {
        self.stores.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(|expected| expected.stores.clone())
    }

    /// The readiness of each expected store. Each call also records the progress of stores that are loading, and stops
    /// the gating by those that are complete, have failed or make no progress.
    fn stores(&self, registry: &Registry) -> Vec<(Gvr, Readiness)> {
        let (catalog, now) = (registry.catalog(), Instant::now());
        let mut stored = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Expected { stores, gating }) = stored.as_mut() else { return Vec::new() };
        let has_some = stores.iter().any(|gvr| catalog.readiness(gvr) == Readiness::Ready);
        let store = |gvr: &Gvr| {
            let read = catalog.store(gvr).map_or(0, |resource| resource.state.objects_read());
            let gates = gating.get_mut(gvr).is_some_and(|progress| progress.record(read, now) || !has_some);
            let readiness = match catalog.readiness(gvr) {
                Readiness::NotReady(progress) if gates => return (gvr.clone(), Readiness::NotReady(progress)),
                Readiness::NotReady(progress) => Readiness::Loading(progress),
                other @ (Readiness::Ready | Readiness::Unavailable(_) | Readiness::Loading(_)) => other,
            };
            gating.remove(gvr);
            (gvr.clone(), readiness)
        };
        stores.iter().map(store).collect()
    }

    /// Whether the catalog has all expected stores, complete or not, and the Views are evaluated. Then a resource or
    /// View that this replica does not have does not exist. Once true, always true.
    pub fn knows(&self, registry: &Registry) -> bool {
        if self.known.load(Ordering::Acquire) {
            return true;
        }
        let catalog = registry.catalog();
        let has_stores = self.expected().is_some_and(|stores| stores.iter().all(|gvr| catalog.store(gvr).is_some()));
        let knows = has_stores && self.views.load(Ordering::Acquire);
        if knows {
            self.known.store(true, Ordering::Release);
        }
        knows
    }

    /// The readiness of FieldCaches, of Views and of each expected store, each with its name. Call it at each probe: a
    /// call also records the progress of stores, and stops the gating by those that take too long.
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
