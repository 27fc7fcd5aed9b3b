//! The parts of objects that requests want, and what such requests leave out. This is computed once for all requests
//! for the same parts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::extract::Prune;

/// The parts of objects that a request wants.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RequestedParts {
    /// Whether `metadata.managedFields` is left out.
    pub drops_managed_fields: bool,
    /// The paths of the parts that the client wants, such as `.spec.color`, valid and sorted. Empty if it wants all.
    pub kept: Vec<String>,
}

impl RequestedParts {
    /// Whether the request wants whole objects.
    pub fn is_whole(&self) -> bool {
        !self.drops_managed_fields && self.kept.is_empty()
    }

    /// An estimate of the memory, in bytes, of the [`Prune`] for these parts and of its key in `RequestedPrunes`.
    pub fn held_bytes(&self) -> usize {
        // The text of each path is in the key and in the tree of names. Each name of a path has an allocation of about
        // 64 bytes in the tree.
        let path_bytes = |path: &String| 2 * path.len() + 64 * (1 + path.matches(['.', '[']).count());
        self.kept.iter().map(path_bytes).sum()
    }

    /// What is left out of objects: `hidden`, which a View hides, and what the request leaves out.
    fn prune(&self, hidden: &Prune) -> Prune {
        let mut prune = hidden.clone();
        if !self.kept.is_empty() {
            let kept = Prune::kept(self.kept.iter().map(String::as_str));
            // The paths are valid. If one were not, only the members that identify the object would be kept.
            prune = prune.and(&kept.unwrap_or_else(|_| Prune::identifying()));
        }
        if self.drops_managed_fields { prune.and_managed_fields() } else { prune }
    }
}

/// What requests leave out, by the parts that they want. Requests for the same parts share one value while one of them
/// uses it. So watches for the same parts also share the encoded events. Clones of the table share all values.
#[derive(Clone, Debug, Default)]
pub(super) struct RequestedPrunes(Arc<Mutex<Prunes>>);

/// The contents of [`RequestedPrunes`].
#[derive(Debug, Default)]
struct Prunes {
    /// The value for the parts, as long as a request uses it.
    known: HashMap<RequestedParts, Weak<Prune>>,
    /// The number of entries at which the entries that no request uses are removed.
    clear_at: usize,
}

impl RequestedPrunes {
    /// What is left out of objects for a request for these parts, together with `hidden`, which the View hides.
    /// `hidden` must be the same in each call.
    pub(super) fn get(&self, parts: &RequestedParts, hidden: &Prune) -> Arc<Prune> {
        let mut prunes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = prunes.known.get(parts).and_then(Weak::upgrade) {
            return known;
        }
        // Unused entries are removed only after the table has doubled, so that most calls are cheap.
        if prunes.known.len() >= prunes.clear_at {
            prunes.known.retain(|_, prune| prune.strong_count() > 0);
            prunes.clear_at = (prunes.known.len() * 2).max(16);
        }
        let prune = Arc::new(parts.prune(hidden));
        prunes.known.insert(parts.clone(), Arc::downgrade(&prune));
        prune
    }
}
