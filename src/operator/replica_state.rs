//! What a replica knows: what is served, what the cluster has, and which stores FieldCaches define.
//!
//! Every replica has this, leader or not, since every replica serves reads.

use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;

use super::admission_policy::PolicyState;
use super::stores::FieldCacheResults;
use crate::registry::{Definitions, Registry};

/// The state of a replica; clones share it.
#[derive(Clone)]
pub struct ReplicaState {
    /// The resources that are served.
    pub registry: Arc<Registry>,
    /// Definitions of the resources of the cluster.
    pub definitions: watch::Receiver<Arc<Definitions>>,
    /// The results of evaluating FieldCaches.
    pub results: watch::Receiver<Arc<FieldCacheResults>>,
    /// Whether the admission policies that protect Views with `authorization: View` are in force.
    pub policy: watch::Receiver<PolicyState>,
}

impl fmt::Debug for ReplicaState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ReplicaState").finish_non_exhaustive()
    }
}
