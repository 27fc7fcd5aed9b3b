//! The number of objects after a page: `remainingItemCount`.
//!
//! Upstream counts only for requests without selectors. Here the sets of the plan are counted too, so a client can
//! count a selection with `limit=1`. What follows the first page is known from the size of the set. After further pages
//! of a selection the rest is walked, in turns, without reading an object. Nothing is stored from page to page.

use std::ops::Bound;

use super::page::{Listing, STEPS_OF_KEY, State, Walk};
use super::work::Work;
use crate::store::{Rewind, Snapshot};

impl State {
    /// The number of objects of a namespace, or of all namespaces. Only the changes since the version of the state are
    /// counted one by one.
    pub async fn count_in(&self, namespace: Option<&str>, work: &mut Work) -> u64 {
        let prefix = namespace.map(|namespace| format!("{namespace}/")).unwrap_or_default();
        let mut before = 0;
        for object in self.rewind().before() {
            before += u64::from(object.key().starts_with(&prefix));
            work.spend(STEPS_OF_KEY).await;
        }
        keys_from(self.snapshot(), self.rewind(), &prefix, "", work).await + before
    }
}

impl Listing {
    /// The number of objects that the listing has not returned yet. Counts key by key only if neither the size of a set
    /// nor ranks of keys give it.
    pub async fn count_rest(self, work: &mut Work) -> u64 {
        if let Some(total) = self.total {
            return total.saturating_sub(self.taken);
        }
        // Objects that were taken from the snapshot already, and those of the earlier version.
        let found = (self.ready.len() + self.overlay.len()) as u64;
        let Listing { snapshot, rewind, walk, namespace_prefix, .. } = self;
        let walked = match walk {
            Walk::Sorted(objects) => objects.len() as u64,
            Walk::Order { from, within: Some(slots) } => {
                let mut count = 0;
                let from = from.as_ref().map(|key| key.as_str());
                for slot in snapshot.slots_from(from) {
                    count += u64::from(slots.contains(slot) && !rewind.hidden().contains(slot));
                    work.spend(1).await;
                }
                count
            }
            Walk::Order { from, within: None } => {
                let from = match from {
                    Bound::Included(key) => key.as_str().to_owned(),
                    // The lowest text above the key.
                    Bound::Excluded(key) => format!("{}\0", key.as_str()),
                    Bound::Unbounded => String::new(),
                };
                let prefix = namespace_prefix.unwrap_or_default();
                keys_from(&snapshot, &rewind, &prefix, &from, work).await
            }
        };
        walked + found
    }
}

/// The number of objects of the snapshot that are not hidden, with this prefix of their keys, at `from` or after it. It
/// is computed from the ranks of keys. Only the hidden objects are walked. `prefix`: a namespace with its slash, or empty.
async fn keys_from(snapshot: &Snapshot, rewind: &Rewind, prefix: &str, from: &str, work: &mut Work) -> u64 {
    // Keys of one namespace are neighbours; `0` is the character after the slash.
    let end = match prefix.strip_suffix('/') {
        Some(namespace) => snapshot.rank(&format!("{namespace}0")),
        None => snapshot.len(),
    };
    let mut hidden = 0;
    for slot in rewind.hidden() {
        let key = snapshot.object(slot).map(|object| object.key());
        hidden += usize::from(key.is_some_and(|key| key >= from && key.starts_with(prefix)));
        work.spend(STEPS_OF_KEY).await;
    }
    end.saturating_sub(snapshot.rank(from.max(prefix))).saturating_sub(hidden) as u64
}
