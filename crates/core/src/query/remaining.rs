//! The number of objects after a page: `remainingItemCount`.
//!
//! Only for requests without selectors, as upstream does; a View may still select. The order of keys has the rank of
//! each key, so nothing is counted one by one and nothing is stored from page to page.

use super::page::{Listing, State};
use super::selection::Selection;
use super::work::Work;
use crate::store::{Object, Rewind, Snapshot};

impl State {
    /// Number of selected objects at `start` or after it. Without selectors nothing is counted one by one.
    pub async fn remaining(&self, selection: &Selection, start: &str, work: &mut Work) -> u64 {
        if selection.is_selective() {
            return Listing::begin(self.clone(), selection, Some(start), work).await.count() as u64;
        }
        self.rest(selection.namespace.as_deref(), start)
    }

    /// Number of objects of a namespace, or of all namespaces, at `start` or after it.
    pub fn rest(&self, namespace: Option<&str>, start: &str) -> u64 {
        let snapshot = self.snapshot();
        let prefix = namespace.map(|namespace| format!("{namespace}/")).unwrap_or_default();
        let from = start.max(&*prefix);
        // Keys of one namespace are neighbours; `0` is the letter that follows the slash.
        let end = match namespace {
            Some(namespace) => snapshot.rank(&format!("{namespace}0")),
            None => snapshot.len(),
        };
        let count = end.saturating_sub(snapshot.rank(from)) as u64;
        count.saturating_add_signed(difference(snapshot, self.rewind(), &prefix, from))
    }
}

/// By how many objects the rewind state is larger than the snapshot, among the keys with this prefix from `start` on.
fn difference(snapshot: &Snapshot, rewind: &Rewind, prefix: &str, start: &str) -> i64 {
    let counts = |object: &Object| object.key() >= start && object.key().starts_with(prefix);
    let before = rewind.before().iter().filter(|object| counts(object)).count();
    let hidden =
        rewind.hidden().iter().filter_map(|slot| snapshot.object(slot)).filter(|object| counts(object)).count();
    before as i64 - hidden as i64
}
