//! The registry: the catalog, the Views and what all resources share, for `source` and `server`.

use std::sync::Arc;

use tokio::sync::watch;

use super::catalog::{Catalog, Resource};
use super::memory::Memory;
use super::panics::Panics;
use super::rediscovery::Rediscovery;
use super::resource_state::{Departure, GoneReason};
use super::views::{self, ViewDefinitions, ViewState, Views};

/// The catalog, the Views, and what all resources share.
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

    /// Serves another catalog. Ends the resources that it no longer has: those that are not the same `Arc` in both.
    /// `departure` returns a value for a resource that the source does not serve any more. Such a resource ends after
    /// its feed has received the last events of the source; every other one ends now.
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

    /// The state of the View of that name; `None` if there is no such View.
    pub fn view(&self, name: &str) -> Option<ViewState> {
        self.views.borrow().get(name).cloned()
    }

    /// Replaces the Views. Unchanged ones continue; the watches of changed and deleted ones end.
    pub fn replace_views(&self, wanted: ViewDefinitions) {
        let whole = self.catalog();
        self.views.send_modify(|views| *views = Arc::new(views::replaced(views, wanted, &whole)));
        self.update_views();
    }

    /// Notifies the Views of the current catalog.
    fn update_views(&self) {
        loop {
            let served = self.catalog();
            views::serve(&self.views.borrow(), &served);
            // Another thread may have replaced the catalog meanwhile, and have notified the Views before this call did.
            if Arc::ptr_eq(&served, &self.catalog()) {
                return;
            }
        }
    }
}
