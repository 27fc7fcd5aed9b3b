//! How many objects stood behind the pages that were sent: `remainingItemCount` of the page that goes on there.
//!
//! A client that reads a list page by page would otherwise have the rest counted for each of them. Only a memory: a
//! page whose place is not known here (it was forgotten, or another process sent the one before) counts anew, and
//! nothing that is remembered can be wrong, since a place names an exact state.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use crate::model::{Gvr, Version};

/// So many places are remembered: lists under way at one time, not pages of one list.
const MOST_PLACES: usize = 256;

/// A place in one state of one resource, behind a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PagePlace {
    /// The resource.
    pub gvr: Gvr,
    /// Which definition of it; see `registry::Resource`.
    pub definition: String,
    /// Which run of its versions.
    pub epoch: u64,
    /// The version of the state.
    pub version: Version,
    /// Only objects of this namespace.
    pub namespace: Option<String>,
    /// Where the next page begins, as a key of the store.
    pub start: String,
}

/// Places and the objects behind them, the oldest first.
#[derive(Debug, Default)]
pub struct Pages(Mutex<VecDeque<(PagePlace, u64)>>);

impl Pages {
    /// How many objects stand behind a place, if that is remembered.
    pub fn behind(&self, place: &PagePlace) -> Option<u64> {
        let places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        places.iter().rev().find(|(held, _)| held == place).map(|(_, count)| *count)
    }

    /// Remembers how many objects stand behind a place.
    pub fn remember(&self, place: PagePlace, count: u64) {
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if places.iter().any(|(held, _)| *held == place) {
            return;
        }
        if places.len() == MOST_PLACES {
            places.pop_front();
        }
        places.push_back((place, count));
    }
}
