//! The parts of objects that requests want, and what these leave out: computed once for all requests for the same parts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::extract::Prune;

/// The parts of objects that a request wants.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RequestedParts {
    /// Whether `metadata.managedFields` is left out.
    pub drops_managed_fields: bool,
    /// The paths that the client keeps, such as `.spec.color`, valid and sorted; empty: all.
    pub kept: Vec<String>,
}

impl RequestedParts {
    /// Whether the request wants whole objects.
    pub fn is_whole(&self) -> bool {
        !self.drops_managed_fields && self.kept.is_empty()
    }

    /// The memory of what is left out, in bytes.
    pub fn held_bytes(&self) -> usize {
        // Each name of a path has an allocation in the tree of names, and the paths are the key of what is shared.
        let of_path = |path: &String| 2 * path.len() + 64 * (1 + path.matches(['.', '[']).count());
        self.kept.iter().map(of_path).sum()
    }

    /// What the request leaves out, and `hidden`, which a View hides.
    fn prune(&self, hidden: &Prune) -> Prune {
        let mut prune = hidden.clone();
        if !self.kept.is_empty() {
            let kept = Prune::kept(self.kept.iter().map(String::as_str));
            // The paths were parsed before. Of an invalid one, nothing would be kept.
            prune = prune.and(&kept.unwrap_or_else(|_| Prune::identifying()));
        }
        if self.drops_managed_fields { prune.and_managed_fields() } else { prune }
    }
}

/// What requests leave out, by the parts that they want. Requests for the same parts share the value while one of them
/// uses it, and so their events. Clones share all values.
#[derive(Clone, Debug, Default)]
pub(super) struct RequestedPrunes(Arc<Mutex<Prunes>>);

#[derive(Debug, Default)]
struct Prunes {
    known: HashMap<RequestedParts, Weak<Prune>>,
    /// The number of entries at which those without a user are removed.
    clear_at: usize,
}

impl RequestedPrunes {
    /// What a request for these parts leaves out, and `hidden`, which is the same at each call.
    pub(super) fn get(&self, parts: &RequestedParts, hidden: &Prune) -> Arc<Prune> {
        let mut prunes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = prunes.known.get(parts).and_then(Weak::upgrade) {
            return known;
        }
        // Only after the table has doubled, so that most calls are cheap.
        if prunes.known.len() >= prunes.clear_at {
            prunes.known.retain(|_, prune| prune.strong_count() > 0);
            prunes.clear_at = (prunes.known.len() * 2).max(16);
        }
        let prune = Arc::new(parts.prune(hidden));
        prunes.known.insert(parts.clone(), Arc::downgrade(&prune));
        prune
    }
}
