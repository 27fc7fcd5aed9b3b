//! What all PlacementReviews share: the index, and the limit of concurrent reviews.

use std::sync::Arc;

use crate::fair_semaphore::FairSemaphore;
use crate::flow_control::user::User;
use crate::placement_service::index::PlacementIndex;
use crate::registry::Memory;

/// The number of reviews that are parsed and evaluated at the same time: each uses one processor, and memory for its
/// values.
pub(super) const MOST_AT_ONCE: u64 = 4;

/// What all PlacementReviews share; see the module.
#[derive(Debug)]
pub(in crate::server) struct Reviews {
    pub(in crate::server) index: Arc<PlacementIndex>,
    /// Permits of reviews that are parsed and evaluated.
    pub(super) places: Arc<FairSemaphore<User>>,
}

impl Reviews {
    /// An empty index and free permits. The index counts toward `memory`, the memory of the stores.
    pub(in crate::server) fn new(memory: Arc<Memory>) -> Reviews {
        let index = Arc::new(PlacementIndex::with_memory(memory));
        Reviews { index, places: Arc::new(FairSemaphore::of_places(MOST_AT_ONCE, 0)) }
    }
}
