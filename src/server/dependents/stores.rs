//! The stores to search for dependents: one version of each resource whose store is complete and new enough.

use std::sync::Arc;

use futures::stream::{self, StreamExt};

use crate::dependents::document::SearchedResource;
use crate::dependents::{SearchScope, SearchedStore, preferred};
use crate::model::Scope;
use crate::registry::{Catalog, LoadState, Resource};
use crate::server::read;
use crate::server::state::ServerState;

/// The number of stores whose freshness is awaited at the same time.
const AT_ONCE: usize = 16;

/// The stores to search.
pub(super) struct ChosenStores {
    /// The stores that are complete and new enough, one for each resource.
    pub(super) stores: Vec<SearchedStore>,
    /// The resources whose store is not complete or too old. They are not searched.
    pub(super) not_ready: Vec<SearchedResource>,
}

/// Chooses the stores to search, one version of each resource. `namespace` is the only namespace to search; `None` for
/// all. With a namespace, only namespaced resources are chosen. Does not load stores: only what is cached is searched.
pub(super) async fn choose(server: &ServerState, catalog: &Catalog, namespace: Option<&str>) -> ChosenStores {
    let scope = match namespace {
        Some(namespace) => SearchScope::Namespace(namespace.into()),
        None => SearchScope::All,
    };
    let candidates = preferred(catalog).into_iter();
    let candidates = candidates.filter(|resource| namespace.is_none() || resource.scope == Scope::Namespaced);
    let checked = stream::iter(candidates).map(|resource| async move {
        let is_usable = is_fresh(server, &resource).await;
        (resource, is_usable)
    });
    let checked: Vec<(Arc<Resource>, bool)> = checked.buffered(AT_ONCE).collect().await;
    let mut chosen = ChosenStores { stores: Vec::new(), not_ready: Vec::new() };
    for (resource, is_usable) in checked {
        if is_usable {
            chosen.stores.push(SearchedStore { resource, scope: scope.clone() });
        } else {
            chosen.not_ready.push((&resource.gvr).into());
        }
    }
    chosen
}

/// Whether the store of a resource is complete, lags no more than it may, and has every write through this server.
/// Waits for progress of the source as a list does.
async fn is_fresh(server: &ServerState, resource: &Resource) -> bool {
    let LoadState::Ready(snapshot) = resource.state.load_state() else { return false };
    read::wait_for_max_lag(&resource.state, server.settings.max_lag).await.is_ok()
        && read::not_older_than(&resource.state, snapshot, resource.state.last_written()).await.is_ok()
}
