//! The event of a change for one selection (apiserver `storage/cacher/cache_watcher.go`, convertToWatchEvent).
//!
//! [`transition`] decides which event a change is for one selection. [`subscription_index`] finds the subscriptions
//! that a change may concern, and `hash_ranges` the subscriptions of shards among them.

mod hash_ranges;
pub mod subscription_index;
#[cfg(test)]
mod tests;

use std::convert::Infallible;

use crate::query::Requirements;
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

/// The event of `change` for a selection without an expression; `None` if the object was selected neither before nor
/// after the change. For a selection with an expression, see [`try_transition`].
pub fn transition(selection: &impl Requirements, change: &Change) -> Option<Transition> {
    match try_transition(change, |object| Ok::<_, Infallible>(selection.are_met_by(object))) {
        Ok(transition) => transition,
        Err(never) => match never {},
    }
}

/// Like [`transition`], where `selects` decides whether an object is selected.
///
/// # Errors
/// The first error of `selects`.
pub fn try_transition<Problem>(
    change: &Change,
    mut selects: impl FnMut(&Object) -> Result<bool, Problem>,
) -> Result<Option<Transition>, Problem> {
    let mut selected = |object: &Option<Object>| match object {
        Some(object) => Ok(selects(object)?.then(|| object.clone())),
        None => Ok(None),
    };
    Ok(match (selected(&change.before)?, selected(&change.after)?) {
        (None, Some(after)) => Some(Transition::Added(after)),
        (Some(_), Some(after)) => Some(Transition::Modified(after)),
        (Some(before), None) => Some(Transition::Deleted(before)),
        (None, None) => None,
    })
}
