//! Initial events of objects over 4 MiB: each needs a permit, as a large list does, until the connection requests the
//! next batch.

use std::sync::Arc;

use crate::flow_control::Limits;
use crate::flow_control::limit::Limited;
use crate::flow_control::lists::{LARGE, ListAdmission, ListPermit};
use crate::flow_control::user::User;
use crate::query::Listing;

/// The permit of a watch whose initial events can have large objects.
pub(super) struct LargeEvents {
    limits: Arc<Limits>,
    user: User,
    /// The permit for the event that is being sent, if its object is large.
    permit: Option<ListPermit>,
}

impl LargeEvents {
    /// Initial events that have no permit yet.
    pub(super) fn new(limits: Arc<Limits>, user: User) -> LargeEvents {
        LargeEvents { limits, user, permit: None }
    }

    /// Releases the permit of the previous object, whose event has been sent, and waits for a permit for the next
    /// object if that is large. `large` is the result of [`large_object`] for the next object.
    ///
    /// # Errors
    /// 429 when there is no permit in time.
    pub(super) async fn admit(&mut self, large: Option<u64>) -> Result<(), Limited> {
        self.permit = None;
        let Some(bytes) = large else { return Ok(()) };
        let permit = match self.limits.lists().acquire(&self.user, bytes) {
            Ok(ListAdmission::Granted(permit)) => Ok(permit),
            Ok(ListAdmission::Queued(waiting)) => waiting.wait().await,
            Err(limited) => Err(limited),
        };
        self.permit = Some(permit.inspect_err(|limited| self.limits.count(limited.limit))?);
        Ok(())
    }

    /// Whether the next object may be written in this batch: it is not large, or there is a permit.
    pub(super) fn admits(&self, listing: &mut Listing) -> bool {
        self.permit.is_some() || large_object(listing).is_none()
    }
}

/// The size of the next object in bytes, if it is larger than [`LARGE`]; `None` otherwise.
pub(super) fn large_object(listing: &mut Listing) -> Option<u64> {
    Some(next_length(listing) as u64).filter(|bytes| *bytes > LARGE)
}

/// The size of the next object in bytes; 0 at the end.
pub(super) fn next_length(listing: &mut Listing) -> usize {
    listing.peek().map_or(0, |object| object.length())
}
