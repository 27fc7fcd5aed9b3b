//! The registry: the catalog, the Views and what all resources share, for `source` and `server`.

use std::sync::Arc;

use tokio::sync::watch;

use super::catalog::{Catalog, Resource};
use super::memory::Memory;
use super::panics::Panics;
use super::rediscovery::Rediscovery;
use super::resource_state::{Departure, GoneReason};
use super::views::{self, ViewDefinitions, ViewState, Views};

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
    /// A registry with a first catalog, and without a memory limit.
    pub fn new(catalog: Catalog) -> Registry {
        Registry::with_memory(catalog, Memory::default())
    }

    /// A registry with a first catalog, whose stores share this memory.
    pub fn with_memory(catalog: Catalog, memory: Memory) -> Registry {
        Registry {
            catalog: watch::Sender::new(Arc::new(catalog)),
            views: watch::Sender::default(),
            memory: Arc::new(memory),
            panics: Arc::default(),
            rediscovery: Rediscovery::default(),
        }
    }

    /// The memory of all stores, and its limit.
    pub fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// The counters of contained panics.
    pub fn panics(&self) -> &Arc<Panics> {
        &self.panics
    }

    /// Requests to read the source's discovery again.
    pub fn rediscovery(&self) -> &Rediscovery {
        &self.rediscovery
    }

    /// The current catalog.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.catalog.borrow().clone()
    }

    /// A receiver that is notified of each new catalog.
    pub fn subscribe(&self) -> watch::Receiver<Arc<Catalog>> {
        self.catalog.subscribe()
    }

    /// Serves another catalog. Resources of the old one that are not in the new one, by identity, end. `departure`
    /// returns a value for those that the source does not serve any more. They end when their feed has taken what the
    /// source still sends. The others end now.
    pub fn replace(&self, catalog: Catalog, departure: impl Fn(&Resource) -> Option<Departure>) {
        let next = Arc::new(catalog);
        let previous = self.catalog.send_replace(next.clone());
        self.update_views();
        for resource in previous.stores() {
            match next.store(&resource.gvr) {
                Some(kept) if Arc::ptr_eq(kept, resource) => {}
                Some(_) => resource.state.end(GoneReason::Replaced),
                None => match departure(resource) {
                    Some(departure) => resource.state.depart(departure),
                    None => resource.state.end(GoneReason::NotCached),
                },
            }
        }
    }

    /// The state of the View of that name.
    pub fn view(&self, name: &str) -> Option<ViewState> {
        self.views.borrow().get(name).cloned()
    }

    /// Replaces the Views. Unchanged ones continue; the watches of all others end.
    pub fn replace_views(&self, wanted: ViewDefinitions) {
        self.views.send_modify(|views| *views = Arc::new(views::replaced(views, wanted)));
        self.update_views();
    }

    /// Passes the current catalog to the Views.
    fn update_views(&self) {
        loop {
            let served = self.catalog();
            views::serve(&self.views.borrow(), &served);
            // Another thread may have replaced the catalog, and have passed its own to the Views before.
            if Arc::ptr_eq(&served, &self.catalog()) {
                return;
            }
        }
    }
}
