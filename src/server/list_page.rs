//! One page of a list: the objects that it shows, found in turns of the user.

use std::sync::Arc;

use crate::flow_control::lists::LARGE;
use crate::query::{ContinueToken, Listing, SortedListing, State};
use crate::registry::Resource;
use crate::store::Object;

use super::context::RequestContext;
use super::list::{INDENTED, ListRequest};
use super::read;
use super::sorting::{FoundObjects, SortedPage, Sorting};
use super::state::ServerState;
use crate::wire::api_error::ApiError;
use crate::wire::encode::ListMeta;

/// Pages of up to this many objects are kept in memory, as handles of the objects, while they are sent. Larger pages
/// are read twice: first to find their length and last object, then to write them.
pub(super) const KEPT_PAGE: usize = 1024;

/// The minimum length, in bytes, that is assumed for the longest object of a list: rendering takes that much memory
/// even for short objects.
const SMALLEST_LONGEST: u64 = 64 << 10;

/// The work to find one object of a page, in steps of [`Work`](crate::query::Work).
const STEPS_OF_OBJECT: u64 = 16;

/// Finds the page of `state` that a request shows, in turns of the user. Returns the state and the page. The memory that
/// this takes counts for the user while it waits for a turn.
///
/// # Errors
/// 429 if the requests of the user hold the maximum. 410 if the state was revoked meanwhile, because readers retained
/// too much memory (`store::pins`). 400 for the token of a sorted list that does not fit.
pub(super) async fn take_page(
    server: &ServerState,
    context: &RequestContext<'_>,
    request: &Arc<ListRequest>,
    state: State,
) -> Result<(State, FoundPage), ApiError> {
    let waiting = |bytes| server.waiting_memory(context.user, bytes);
    let (snapshot, request) = (state.snapshot().clone(), request.clone());
    let Some(sorting) = request.sorting.clone() else {
        let waiting = waiting(state.most_listing_bytes(&request.selection));
        let taking = async move {
            let page = FoundPage::take(state.clone(), &request).await;
            (state, page)
        };
        return read::in_turns(snapshot, waiting, Box::pin(taking)).await;
    };
    let set_bytes = state.most_selecting_bytes(&request.selection);
    let (of_state, finding_request, finder) = (state.clone(), request.clone(), sorting.clone());
    let finding = async move { finder.find(of_state, &finding_request.selection).await };
    let found = read::in_turns(snapshot.clone(), waiting(set_bytes), Box::pin(finding)).await??;
    // The memory for the order depends on the number of selected objects, which is known now.
    let order_bytes = sorting.order.most_held_bytes(&found.selected, request.wanted.limit);
    let taking = async move {
        let page = FoundPage::take_sorted(found, &request, &sorting).await;
        (state, page)
    };
    read::in_turns(snapshot, waiting(set_bytes + order_bytes), Box::pin(taking)).await
}

/// One page: its objects and the metadata of the list.
pub(super) struct FoundPage {
    pub(super) meta: ListMeta,
    pub(super) objects: PageObjects,
    /// The estimated length of its JSON, in bytes.
    pub(super) bytes: u64,
    /// The memory that it takes until it has been sent, without the objects, in bytes.
    pub(super) held_bytes: u64,
    /// Whether the client has chosen the order. Otherwise, a Table may have its own.
    pub(super) is_sorted: bool,
}

/// The objects of a page.
pub(super) enum PageObjects {
    /// Handles of all objects.
    Kept(std::vec::IntoIter<Object>),
    /// Objects that are found one after the other.
    Walked {
        listing: Box<Listing>,
        /// The maximum number of objects that are still taken.
        left: usize,
    },
    /// Objects in an order that was computed for the page.
    Sorted {
        listing: Box<SortedListing>,
        /// The maximum number of objects that are still taken.
        left: usize,
    },
}

impl Iterator for PageObjects {
    type Item = Object;

    fn next(&mut self) -> Option<Object> {
        match self {
            PageObjects::Kept(objects) => objects.next(),
            PageObjects::Walked { left: 0, .. } | PageObjects::Sorted { left: 0, .. } => None,
            PageObjects::Walked { listing, left } => {
                *left -= 1;
                listing.next()
            }
            PageObjects::Sorted { listing, left } => {
                *left -= 1;
                listing.next()
            }
        }
    }
}

impl PageObjects {
    /// The names of all objects, if they are kept. Otherwise the page is not for a [`ListStep`](super::list::ListStep),
    /// and has none.
    pub(super) fn names(&self) -> Vec<String> {
        match self {
            PageObjects::Kept(objects) => objects.as_slice().iter().map(|object| object.name().to_owned()).collect(),
            PageObjects::Walked { .. } | PageObjects::Sorted { .. } => Vec::new(),
        }
    }

    /// The length in bytes of the first object; 0 if there is none.
    pub(super) fn first_length(&mut self) -> usize {
        let first = match self {
            PageObjects::Kept(objects) => objects.as_slice().first(),
            PageObjects::Walked { left: 0, .. } | PageObjects::Sorted { left: 0, .. } => None,
            PageObjects::Walked { listing, .. } => listing.peek(),
            PageObjects::Sorted { listing, .. } => listing.peek(),
        };
        first.map_or(0, Object::length)
    }

    /// An upper bound of the length of the objects, in bytes: a power of two. The exact length must not decide how many
    /// lists a limit admits, because this would reveal the length of an object of which a View prunes a part.
    pub(super) fn longest(&self) -> u64 {
        let longest = match self {
            PageObjects::Kept(objects) => objects.as_slice().iter().map(Object::length).max().unwrap_or(0),
            PageObjects::Walked { listing, .. } => listing.longest(),
            PageObjects::Sorted { listing, .. } => listing.longest(),
        };
        (longest as u64).max(SMALLEST_LONGEST).next_power_of_two()
    }
}

impl FoundPage {
    /// Finds the page of a state that a request without `sortBy` wants. Without a limit, this is the rest of the list.
    async fn take(state: State, request: &ListRequest) -> FoundPage {
        let ListRequest { selection, wanted, resource, .. } = request;
        let version = state.version();
        let start = wanted.start.as_ref().map(|(_, key)| &**key);
        let mut work = read::work();
        let mut meta =
            ListMeta { version, continue_token: String::new(), remaining: None, shard: selection.shard.clone() };
        let length = counted_length(resource);
        let estimated = |listing: &Listing| {
            // A list that is not large by this upper bound needs no permit, so its exact length does not matter.
            let most = listing.at_most().saturating_mul(listing.longest() as u64);
            if most.saturating_mul(INDENTED) <= LARGE { most } else { listing.length(LARGE, &length) }
        };
        let Some(limit) = wanted.limit else {
            let listing = Box::new(Listing::begin(state, selection, start, &mut work).await);
            let (bytes, held_bytes) = (estimated(&listing), listing.held_bytes());
            let objects = PageObjects::Walked { listing, left: usize::MAX };
            return FoundPage { meta, objects, bytes, held_bytes, is_sorted: false };
        };
        // Finds the length and the last object of the page, and keeps its objects if they are few enough.
        let mut scout = Listing::begin(state.clone(), selection, start, &mut work).await;
        let mut kept: Vec<Object> = scout.by_ref().take(limit.min(KEPT_PAGE)).collect();
        let mut last = kept.last().cloned();
        let mut bytes: u64 = kept.iter().map(&length).sum();
        for object in scout.by_ref().take(limit - kept.len()) {
            bytes += length(&object);
            if limit <= request.most_kept {
                kept.push(object.clone());
            }
            last = Some(object);
            work.spend(STEPS_OF_OBJECT).await;
        }
        match last.filter(|_| scout.peek().is_some()) {
            Some(last) => {
                let relative = last.key().strip_prefix(&*wanted.prefix).unwrap_or(last.key());
                meta.continue_token = ContinueToken::after(version, relative).encode();
                meta.remaining = Some(scout.count_rest(&mut work).await);
            }
            // A second listing may be found now, so that the first one is no longer held.
            None => drop(scout),
        }
        let (objects, held_bytes) = if limit <= request.most_kept {
            let held_bytes = (kept.capacity() * size_of::<Object>()) as u64;
            (PageObjects::Kept(kept.into_iter()), held_bytes)
        } else {
            let listing = Box::new(Listing::begin(state, selection, start, &mut work).await);
            let held_bytes = listing.held_bytes();
            (PageObjects::Walked { listing, left: limit }, held_bytes)
        };
        FoundPage { meta, objects, bytes, held_bytes, is_sorted: false }
    }

    /// Finds the page of the selected objects in the order of `sortBy`. Without a limit, this is the rest of the list.
    async fn take_sorted(found: FoundObjects, request: &ListRequest, sorting: &Sorting) -> FoundPage {
        let ListRequest { selection, wanted, resource, .. } = request;
        let (version, shard) = (found.selected.state().version(), selection.shard.clone());
        let page = sorting.page(found, wanted.limit, counted_length(resource)).await;
        let SortedPage { listing, continue_token, remaining, bytes } = page;
        let held_bytes = listing.held_bytes();
        let objects = PageObjects::Sorted { listing: Box::new(listing), left: wanted.limit.unwrap_or(usize::MAX) };
        let meta = ListMeta { version, continue_token, remaining, shard };
        FoundPage { meta, objects, bytes, held_bytes, is_sorted: true }
    }
}

/// A function that returns the length, in bytes, with which an object counts in the estimated length of a list.
///
/// Whether a list must wait reveals its estimated length, so the estimate depends only on what is shown. If a View
/// prunes objects, their whole lengths are rounded up to powers of two, so little can be inferred.
fn counted_length(resource: &Resource) -> impl Fn(&Object) -> u64 + use<> {
    let is_pruned = resource.prune().is_some();
    move |object| {
        let length = object.length() as u64;
        if is_pruned { length.next_power_of_two() } else { length }
    }
}
