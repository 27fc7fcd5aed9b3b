//! Settings of a cluster as a source.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::list_watch::{DEFAULT_MAX_LAG, ListWatchOptions};
use super::self_check;
use super::store_options::StoreOptions;
use crate::model::Gvr;
use crate::store::HistoryLimits;

/// Which of a cluster's resources are served.
#[derive(Clone, Debug)]
pub enum Demand {
    /// All of them: each is loaded on its first request, and unloaded when there are no more requests.
    OnRequest {
        /// Resources that are loaded at once and never unloaded.
        pinned: Vec<Gvr>,
    },
    /// Only the named ones: they are loaded immediately and stay loaded while they are named.
    Named(watch::Receiver<Arc<BTreeSet<Gvr>>>),
}

/// Settings for reading a cluster.
#[derive(Clone, Debug)]
pub struct ClusterSettings {
    /// Which resources are served.
    pub demand: Demand,
    /// Limits of the history of each store.
    pub history: HistoryLimits,
    /// The longest time without progress that readers accept. Feeds request progress early enough for it.
    pub max_lag: Duration,
    /// How often each store is compared with the cluster; `None`: never.
    pub self_check: Option<Duration>,
    /// The current extra fields of resources. A resource whose fields change is read into a second store, which
    /// replaces the first one when it is complete.
    pub store_options: watch::Receiver<Arc<StoreOptions>>,
    /// Describes how to grant the permission to list and watch a resource, for messages. `None`: the message of the API
    /// server is used.
    pub how_to_permit: Option<fn(&Gvr) -> String>,
}

impl ClusterSettings {
    /// The settings that one feed needs.
    pub(super) fn list_watch_options(&self) -> ListWatchOptions {
        ListWatchOptions { max_lag: self.max_lag, how_to_permit: self.how_to_permit }
    }
}

impl Default for ClusterSettings {
    fn default() -> ClusterSettings {
        ClusterSettings {
            demand: Demand::OnRequest { pinned: Vec::new() },
            history: HistoryLimits::default(),
            max_lag: DEFAULT_MAX_LAG,
            self_check: Some(self_check::DEFAULT_INTERVAL),
            // Never changes.
            store_options: watch::channel(Arc::default()).1,
            how_to_permit: None,
        }
    }
}

impl Demand {
    /// The named resources; `None` if all resources are served.
    pub(super) fn named(&self) -> Option<Arc<BTreeSet<Gvr>>> {
        match self {
            Demand::OnRequest { .. } => None,
            Demand::Named(named) => Some(named.borrow().clone()),
        }
    }

    /// Waits until the names change: forever if all resources are served.
    pub(super) async fn changed(&mut self) {
        if let Demand::Named(named) = self
            && named.changed().await.is_ok()
        {
            return;
        }
        // When the sender is gone, the names stay as they are.
        std::future::pending().await
    }
}
