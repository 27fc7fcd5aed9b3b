//! Initial events: finding their objects, and the objects that are not sent yet.
//!
//! A selection takes several times the memory of its text, and the list of objects that were found takes memory too.
//! The limit on the memory of the user's watches counts both, for as long as each is held.

use std::sync::Arc;

use super::super::context::RequestContext;
use super::super::read::{self, WaitingMemory};
use super::super::state::ServerState;
use super::large::LargeEvents;
use crate::flow_control::Limits;
use crate::flow_control::user::{User, UserShare};
use crate::model::Version;
use crate::query::{Listing, Selection, State};
use crate::store::{HistoryCursor, PinnedValue, Snapshot};
use crate::wire::api_error::ApiError;

/// What takes the memory, for the error message when the memory of the user's watches reaches its limit.
pub(super) const SELECTORS: &str = "its selectors take";

/// Like [`SELECTORS`], for the list of objects.
const INITIAL_EVENTS: &str = "its initial events take";

/// What is needed to find the objects of initial events.
pub(super) struct Initial {
    selection: Box<Selection>,
    /// The permit for a large object, which the watch does not have yet.
    large: Box<LargeEvents>,
    limits: Arc<Limits>,
    /// Counts the memory of the selection for the user until this value is dropped.
    _share: UserShare,
}

/// The objects of initial events that are not sent yet.
pub(super) struct RemainingInitialEvents {
    /// The objects. The snapshot that has them can be revoked to free memory.
    pub(super) listing: PinnedValue<Listing>,
    /// The version of the state that has these objects.
    pub(super) version: Version,
    /// The position in history after that state, from which the watch continues.
    pub(super) then: HistoryCursor,
    /// The permit for a large object.
    pub(super) large: Box<LargeEvents>,
    /// Counts the memory of the listing for the user until this value is dropped.
    _share: UserShare,
}

impl Initial {
    /// Initial events of this selection. `share` counts the memory of the selection.
    pub(super) fn new(
        server: &ServerState,
        context: &RequestContext<'_>,
        selection: Selection,
        share: UserShare,
    ) -> Initial {
        let large = Box::new(LargeEvents::new(server.limits.clone(), context.user.clone()));
        Initial { selection: Box::new(selection), large, limits: server.limits.clone(), _share: share }
    }

    /// Finds the selected objects in a snapshot, in turns. The memory of the listing counts for `user`.
    ///
    /// # Errors
    /// 429 when the user's watches hold as much memory as they may. 410 if the state was revoked meanwhile, because
    /// readers retained too much memory (`store::pins`). 400 if the evaluation of the expression costs too much.
    pub(super) async fn events(self, snapshot: Snapshot, user: &User) -> Result<RemainingInitialEvents, ApiError> {
        let Initial { selection, large, limits, _share } = self;
        let (version, then) = (snapshot.version(), snapshot.end());
        let state = State::current(snapshot.clone());
        let (cel, bytes) = (selection.cel.clone(), state.most_listing_bytes(&selection));
        let found = Box::pin(async move {
            let snapshot = state.snapshot().clone();
            (Listing::begin(state, &selection, None, &mut read::work()).await, snapshot)
        });
        let count_rejection = |error: ApiError| {
            if let ApiError::Limited(limited) = &error {
                limits.count(limited.limit);
            }
            error
        };
        let waiting = WaitingMemory { unread: limits.unread(), user, bytes };
        let (listing, snapshot) = read::in_turns(snapshot, waiting, found).await.map_err(count_rejection)?;
        // Failures for single objects are not reported: the headers of the response have been sent.
        read::check_cel(cel.as_deref())?;
        if let Some(cel) = &cel {
            cel.forget_found();
        }
        let held_bytes = usize::try_from(listing.held_bytes()).unwrap_or(usize::MAX);
        let listing_share = limits
            .watches()
            .hold(user, held_bytes, INITIAL_EVENTS)
            .map_err(ApiError::Limited)
            .map_err(count_rejection)?;
        Ok(RemainingInitialEvents { listing: snapshot.pin(listing), version, then, large, _share: listing_share })
    }
}
