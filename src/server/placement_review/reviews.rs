//! What answers reviews: the index, and the limit of reviews at a time.

use std::sync::Arc;

use crate::fair_semaphore::FairSemaphore;
use crate::flow_control::user::User;
use crate::placement_service::index::PlacementIndex;
use crate::registry::Memory;

/// Reviews that are parsed and answered at a time: each takes a processor while it lasts, and memory for its values.
pub(super) const MOST_AT_ONCE: u64 = 4;

/// The index and the limit of reviews; see the module.
#[derive(Debug)]
pub(in crate::server) struct Reviews {
    pub(in crate::server) index: Arc<PlacementIndex>,
    pub(super) places: Arc<FairSemaphore<User>>,
}

impl Reviews {
    /// Without an index yet. It counts toward the memory of the stores.
    pub(in crate::server) fn new(memory: Arc<Memory>) -> Reviews {
        let index = Arc::new(PlacementIndex::with_memory(memory));
        Reviews { index, places: Arc::new(FairSemaphore::of_places(MOST_AT_ONCE, 0)) }
    }
}
