//! Compares a store with the newest state of its source, where watches send no bookmarks: one cheap request at a time.
//!
//! kube-apiserver has no watch cache for events and for resources for which it is turned off. Their watches send events
//! and nothing else, so nothing shows that a quiet store is complete. A store of at most one page is compared object by
//! object. Of a larger one only the count is compared, with a list of one object. The self-check finds every other
//! difference a few minutes later.

use tokio::time::Instant;

use super::connection::RequestError;
use super::metadata_pages::{PAGE, Pages};
use super::self_check::{Sum, sum_of};
use crate::model::Version;
use crate::registry::{LoadState, ResourceState};

/// The purpose of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ComparisonGoal {
    /// The store must be shown to reach the newest version, for example because a reader waits for it.
    Version,
    /// It is sufficient to show that the source and the watch still work.
    Progress,
}

/// What a comparison showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NewestComparison {
    /// The store has the same objects at the same versions: every change up to this version is in the store.
    Equal {
        /// Before the request.
        requested_at: Instant,
        /// The version of the source's newest state, after that moment.
        version: Version,
    },
    /// The store has as many objects as the source, and the source has not gone back. Events may be on their way.
    Alike {
        /// Before the request.
        requested_at: Instant,
    },
    /// They differ, for example because an event is on its way, or they cannot be compared.
    Differs,
}

/// Requests the newest state of the source, and compares the store with it. `path` is that of the collection;
/// `selection` is appended as further query parameters. `wanted` is what the comparison must show: for progress alone,
/// only the count of a large store is compared.
///
/// # Errors
/// The list failed.
pub(super) async fn compare_with_newest(
    pages: &impl Pages,
    (path, selection): (&str, &str),
    state: &ResourceState,
    wanted: ComparisonGoal,
) -> Result<NewestComparison, RequestError> {
    let stored = match state.load_state() {
        LoadState::Ready(snapshot) => snapshot.len(),
        LoadState::Idle
        | LoadState::Loading(_)
        | LoadState::SourceError { .. }
        | LoadState::OverMemory(_)
        | LoadState::Gone(_) => return Ok(NewestComparison::Differs),
    };
    let requested_at = Instant::now();
    if stored > PAGE && wanted == ComparisonGoal::Progress {
        let page = pages.page(&format!("{path}?limit=1{selection}")).await?;
        let LoadState::Ready(snapshot) = state.load_state() else { return Ok(NewestComparison::Differs) };
        let listed = page.entries.len() as u64;
        // With selectors, kube-apiserver does not count what is left.
        let listed = if page.next.is_empty() { Some(listed) } else { page.remaining.map(|left| listed + left) };
        let unreadable = state.unreadable();
        let stored = unreadable.are_all.then(|| (snapshot.len() + unreadable.names.len()) as u64);
        // A count that is not known shows no difference.
        let is_alike = page.version >= snapshot.version()
            && listed.is_none_or(|listed| stored.is_none_or(|stored| stored == listed));
        return Ok(if is_alike { NewestComparison::Alike { requested_at } } else { NewestComparison::Differs });
    }
    let unreadable = state.unreadable();
    let mut listed = Sum::default();
    let mut newest: Option<Version> = None;
    let mut page_path = format!("{path}?limit={PAGE}{selection}");
    let newest = loop {
        let page = pages.page(&page_path).await?;
        // Pages of different versions do not show one state of the source.
        if newest.is_some_and(|newest| newest != page.version) {
            return Ok(NewestComparison::Differs);
        }
        newest = Some(page.version);
        for (key, version) in page.entries.iter().filter(|(key, _)| !unreadable.names.contains(key.as_str())) {
            listed.add(key.as_str(), *version);
        }
        if page.next.is_empty() {
            break page.version;
        }
        page_path = format!("{path}?limit={PAGE}&continue={}{selection}", page.next);
    };
    let LoadState::Ready(snapshot) = state.load_state() else { return Ok(NewestComparison::Differs) };
    let is_same = unreadable.are_all && sum_of(&snapshot, &unreadable.names).await == listed;
    Ok(if is_same && newest >= snapshot.version() {
        NewestComparison::Equal { requested_at, version: newest }
    } else {
        NewestComparison::Differs
    })
}
