//! How many objects a page leaves: `remainingItemCount`.
//!
//! Only for selections without selectors, as upstream tells it; the whole is then known without a walk, and what lies
//! behind a key is counted in steps, so that a caller can let others run in between. Nothing is kept for it: a tree with
//! counts would make every write slower for the sake of one number that pages carry along anyway.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use super::State;
use crate::model::Key;
use crate::store::{Attribute, Object, Snapshot};

/// Keys of one namespace are neighbours; so many are stepped over at a time, and only the last is looked at.
const STRIDE: usize = 256;

/// Counts the objects of a state behind a key, a step at a time.
#[derive(Debug)]
pub struct Rest {
    snapshot: Snapshot,
    prefix: String,
    from: Bound<Key>,
    /// What history adds and takes away.
    undone: i64,
    counted: u64,
}

impl State {
    /// How many objects there are, in a namespace or in all.
    pub fn total(&self, namespace: Option<&str>) -> u64 {
        let snapshot = self.snapshot();
        let held = match namespace {
            None => snapshot.len() as u64,
            Some(namespace) => {
                snapshot.postings().posting(&Attribute::Namespace, namespace).map_or(0, |posting| posting.len())
            }
        };
        held.saturating_add_signed(difference(snapshot, self.undone(), &prefix_of(namespace), ""))
    }

    /// Counts the objects of a namespace, or of all, from `start` on (inclusive).
    pub fn rest(&self, namespace: Option<&str>, start: &str) -> Rest {
        let prefix = prefix_of(namespace);
        let from = if start < prefix.as_str() { prefix.as_str() } else { start };
        Rest {
            undone: difference(self.snapshot(), self.undone(), &prefix, from),
            from: Bound::Included(Key::new("", from)),
            snapshot: self.snapshot().clone(),
            prefix,
            counted: 0,
        }
    }
}

impl Rest {
    /// Counts on, over at most `strides` times 256 objects; answers the number when all are counted.
    pub fn step(&mut self, strides: usize) -> Option<u64> {
        for _ in 0..strides {
            let bound = match &self.from {
                Bound::Included(key) => Bound::Included(key.as_str()),
                Bound::Excluded(key) => Bound::Excluded(key.as_str()),
                Bound::Unbounded => Bound::Unbounded,
            };
            let keys = || self.snapshot.range(bound).map(|(key, _)| key).take(STRIDE);
            let mut last = None;
            let mut passed = 0;
            for key in keys() {
                last = Some(key);
                passed += 1;
            }
            match last.filter(|last| passed == STRIDE as u64 && last.as_str().starts_with(&self.prefix)) {
                Some(last) => {
                    let last = last.clone();
                    self.counted += passed;
                    self.from = Bound::Excluded(last);
                }
                None => {
                    let rest = keys().take_while(|key| key.as_str().starts_with(&self.prefix)).count();
                    return Some((self.counted + rest as u64).saturating_add_signed(self.undone));
                }
            }
        }
        None
    }
}

/// By how many objects the undone state is larger than the snapshot, among the keys with this prefix from `start` on.
fn difference(snapshot: &Snapshot, undone: &BTreeMap<Key, Option<Arc<Object>>>, prefix: &str, start: &str) -> i64 {
    undone
        .range::<str, _>((Bound::Included(start), Bound::Unbounded))
        .filter(|(key, _)| key.as_str().starts_with(prefix))
        .map(|(key, before)| i64::from(before.is_some()) - i64::from(snapshot.slot(key.as_str()).is_some()))
        .sum()
}

fn prefix_of(namespace: Option<&str>) -> String {
    namespace.map(|namespace| format!("{namespace}/")).unwrap_or_default()
}
