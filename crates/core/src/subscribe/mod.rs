//! The event of a change for one selection (apiserver `storage/cacher/cache_watcher.go`, convertToWatchEvent).
//!
//! [`transition`] decides which event a change is for one selection. [`subscription_index`] finds the subscriptions
//! that a change may concern, and `hash_ranges` the subscriptions of shards among them.

mod hash_ranges;
pub mod subscription_index;
#[cfg(test)]
mod tests;

use crate::query::Selects;
use crate::store::{Change, Object};

/// A change of an object as one watch with its selection sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transition {
    /// The object entered the selection.
    Added(Object),
    /// The object stayed in the selection.
    Modified(Object),
    /// The object left the selection or was deleted. The value is the object before the change, which must be sent with
    /// the version of the change.
    Deleted(Object),
}

impl Transition {
    /// The same transition with the object that `convert` returns; `None` if `convert` returns `None`.
    pub fn map(self, convert: impl FnOnce(Object) -> Option<Object>) -> Option<Transition> {
        match self {
            Transition::Added(object) => convert(object).map(Transition::Added),
            Transition::Modified(object) => convert(object).map(Transition::Modified),
            Transition::Deleted(object) => convert(object).map(Transition::Deleted),
        }
    }
}

/// The event of `change` for `selection`; `None` if the object was selected neither before nor after the change.
pub fn transition(selection: &impl Selects, change: &Change) -> Option<Transition> {
    let selected = |object: &&Object| selection.selects(object);
    let before = change.before.as_ref().filter(selected);
    let after = change.after.as_ref().filter(selected);
    match (before, after) {
        (None, Some(after)) => Some(Transition::Added(after.clone())),
        (Some(_), Some(after)) => Some(Transition::Modified(after.clone())),
        (Some(before), None) => Some(Transition::Deleted(before.clone())),
        (None, None) => None,
    }
}
