//! Compares a copy with the newest state of its source, where watches bring no bookmarks: one request at a time, and a cheap one.
//!
//! kube-apiserver has no watch cache for events and for resources for which it is turned off. Their watches send events and nothing else,
//! so nothing shows that a quiet copy is complete. A copy of at most one page is compared object by object. Of a larger one only the count
//! is compared, with a list of one object. Every difference that this does not show is found by the self-check a few minutes later.

use tokio::time::Instant;

use super::connection::RequestError;
use super::metadata_pages::{PAGE, Pages};
use super::self_check::{Sum, sum_of};
use crate::model::Version;
use crate::registry::{LoadState, ResourceState};

/// What a comparison is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// The copy must be shown to reach the newest version, because a reader waits for it for example.
    Version,
    /// It is sufficient that the source and the watch still go on.
    Proof,
}

/// What a comparison showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Newest {
    /// The copy has the same objects at the same versions: every change up to this version is in the copy.
    Held {
        /// Before the request.
        asked: Instant,
        /// Of the source's newest state, after that moment.
        version: Version,
    },
    /// The copy has as many objects as the source, and the source has not gone back. Events may be on their way.
    Alike {
        /// Before the request.
        asked: Instant,
    },
    /// They differ, because an event is on its way for example, or cannot be compared.
    Differs,
}

/// Asks the source for its newest state.
///
/// # Errors
/// The source gives no list.
pub(super) async fn compare_with_newest(
    pages: &impl Pages,
    (path, selection): (&str, &str),
    live: &ResourceState,
    wanted: Wanted,
) -> Result<Newest, RequestError> {
    let held = match live.state() {
        LoadState::Ready(snapshot) => snapshot.len(),
        _ => return Ok(Newest::Differs),
    };
    let asked = Instant::now();
    if held > PAGE && wanted == Wanted::Proof {
        let page = pages.page(&format!("{path}?limit=1{selection}")).await?;
        let LoadState::Ready(snapshot) = live.state() else { return Ok(Newest::Differs) };
        let listed = page.entries.len() as u64;
        // With selectors, kube-apiserver does not count what is left.
        let listed = if page.next.is_empty() { Some(listed) } else { page.remaining.map(|left| listed + left) };
        let unreadable = live.unreadable();
        let held = unreadable.are_all.then(|| (snapshot.len() + unreadable.names.len()) as u64);
        let is_alike =
            page.version >= snapshot.version() && listed.is_none_or(|listed| held.is_none_or(|held| held == listed));
        return Ok(if is_alike { Newest::Alike { asked } } else { Newest::Differs });
    }
    let unreadable = live.unreadable();
    let mut listed = Sum::default();
    let mut newest: Option<Version> = None;
    let mut page_path = format!("{path}?limit={PAGE}{selection}");
    let newest = loop {
        let page = pages.page(&page_path).await?;
        if newest.is_some_and(|newest| newest != page.version) {
            return Ok(Newest::Differs);
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
    let LoadState::Ready(snapshot) = live.state() else { return Ok(Newest::Differs) };
    let is_same = unreadable.are_all && sum_of(&snapshot, &unreadable.names).await == listed;
    Ok(if is_same && newest >= snapshot.version() { Newest::Held { asked, version: newest } } else { Newest::Differs })
}
