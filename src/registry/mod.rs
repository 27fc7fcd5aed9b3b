//! What is served right now: the only thing that `source` and `server` share.
//!
//! `source` replaces the [`Catalog`] whenever kinds come, change or go, and publishes a store's snapshots through
//! [`ResourceState`]; `server` reads both. A resource that stays the same across catalogs keeps its `Arc`, so its watches go on;
//! one that changed or went is [`LoadState::Gone`] for those who still hold it, which ends their watches after the last change.
//! [`views`] are parts of the catalog under names of their own, some of them another one for each [`consumer`].
//! `past` says for how long old versions are shown. This room knows neither a Kubernetes client nor HTTP.

mod catalog;
pub mod chain;
mod checks;
pub mod consumer;
mod definitions;
mod deflated;
pub mod dispatched_event;
pub mod documents;
pub mod event_dispatcher;
mod freshness;
mod memory;
mod panics;
mod past;
mod readiness;
mod rediscovery;
mod resource_state;
#[cfg(test)]
pub(crate) mod tests;
pub mod upstream;
mod upstream_discovery;
pub mod views;

pub use catalog::{Catalog, Group, PartialStore, Resource, ResourceOrigin, Subresource, VersionInfo};
pub use checks::{CheckOutcome, Checks, UnreadableNames};
pub use definitions::{Definition, Definitions};
pub use deflated::Deflated;
pub use freshness::{Freshness, Lagging};
pub use memory::{Account, Memory, OverMemory};
pub use panics::{Panics, Where};
pub use readiness::Readiness;
pub use rediscovery::Rediscovery;
pub use resource_state::{Departure, Gone, GoneReason, LoadState, NotReady, OpenWatch, Phase, ResourceState};
pub use upstream_discovery::{DiscoveredGroup, OfferedResource, OfferedVersion, UpstreamDiscovery};
pub use views::{View, ViewState, ViewVerdicts, Views};

use std::sync::Arc;

use tokio::sync::watch;

/// The catalog and its changes.
#[derive(Debug)]
pub struct Registry {
    catalog: watch::Sender<Arc<Catalog>>,
    views: watch::Sender<Arc<Views>>,
    memory: Arc<Memory>,
    panics: Arc<Panics>,
    rediscovery: Rediscovery,
}

impl Registry {
    /// With a first catalog, and no limit of memory.
    pub fn new(catalog: Catalog) -> Registry {
        Registry::with_memory(catalog, Memory::default())
    }

    /// With a first catalog, whose stores share this memory.
    pub fn with_memory(catalog: Catalog, memory: Memory) -> Registry {
        Registry {
            catalog: watch::Sender::new(Arc::new(catalog)),
            views: watch::Sender::default(),
            memory: Arc::new(memory),
            panics: Arc::default(),
            rediscovery: Rediscovery::default(),
        }
    }

    /// What all stores hold, and may hold.
    pub fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// Defects of ours that were contained.
    pub fn panics(&self) -> &Arc<Panics> {
        &self.panics
    }

    /// Requests to read the source's discovery again.
    pub fn rediscovery(&self) -> &Rediscovery {
        &self.rediscovery
    }

    /// What is served now.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.catalog.borrow().clone()
    }

    /// Follows the catalog.
    pub fn subscribe(&self) -> watch::Receiver<Arc<Catalog>> {
        self.catalog.subscribe()
    }

    /// Serves another catalog. Resources of the old one that are not in the new one, by identity, end: those for which `departure`
    /// says that the source does not serve them any more, when their feed has taken what the source still sends; the others now.
    pub fn replace(&self, catalog: Catalog, departure: impl Fn(&Resource) -> Option<Departure>) {
        let next = Arc::new(catalog);
        let previous = self.catalog.send_replace(next.clone());
        self.tell_views();
        for resource in previous.copies() {
            match next.copy(&resource.gvr) {
                Some(kept) if Arc::ptr_eq(kept, resource) => {}
                Some(_) => resource.live.end(GoneReason::Replaced),
                None => match departure(resource) {
                    Some(departure) => resource.live.depart(departure),
                    None => resource.live.end(GoneReason::NotCached),
                },
            }
        }
    }

    /// The View of that name, and what has become of it.
    pub fn view(&self, name: &str) -> Option<ViewState> {
        self.views.borrow().get(name).cloned()
    }

    /// Serves other Views. Those that stay as they are go on; the watches of all others end.
    pub fn replace_views(&self, wanted: ViewVerdicts) {
        self.views.send_modify(|views| *views = Arc::new(views::replaced(views, wanted)));
        self.tell_views();
    }

    /// Tells the Views what is served now.
    fn tell_views(&self) {
        loop {
            let served = self.catalog();
            views::serve(&self.views.borrow(), &served);
            // Another thread may have replaced it, and have told the Views before.
            if Arc::ptr_eq(&served, &self.catalog()) {
                return;
            }
        }
    }
}
