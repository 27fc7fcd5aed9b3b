//! What a request leaves out of the objects that it receives: `drop` (KEP-5958) and `keep` in Accept.
//!
//! It changes what is shown, not what is selected, and hides nothing: the caller may read the fields. What a View hides
//! is left out as well.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use super::catalog::Resource;
use super::view_restriction::Restriction;
use crate::extract::Prune;

/// What requests leave out of objects of which a View hides nothing. It is the same for all resources.
static OF_WHOLE_OBJECTS: LazyLock<RequestedPrunes> = LazyLock::new(RequestedPrunes::default);

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
    fn get(&self, parts: &RequestedParts, hidden: &Prune) -> Arc<Prune> {
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

/// What a resource leaves out because of the request.
#[derive(Clone, Debug, Default)]
pub struct Dropped {
    /// The fields that the View hides and those that the request leaves out; `None`: the request leaves out nothing.
    prune: Option<Arc<Prune>>,
}

impl Resource {
    /// The resource for a request: itself, or a variant that shows only the wanted parts. Of a variant, it is the variant
    /// itself.
    #[must_use]
    pub fn for_request(self: &Arc<Resource>, parts: &RequestedParts) -> Arc<Resource> {
        if parts.is_whole() || self.dropped.prune.is_some() {
            return self.clone();
        }
        let prune = match &self.view_restriction {
            Some(restriction) => restriction.requested_prunes().get(parts, restriction.prune()),
            None => OF_WHOLE_OBJECTS.get(parts, &Prune::default()),
        };
        Arc::new(Resource { dropped: Dropped { prune: Some(prune) }, ..Resource::clone(self) })
    }

    /// The fields that are left out of the objects of a response, if there are any.
    pub fn prune(&self) -> Option<&Arc<Prune>> {
        self.dropped.prune.as_ref().or_else(|| self.hidden())
    }

    /// The fields that a View hides, if there are any.
    pub fn hidden(&self) -> Option<&Arc<Prune>> {
        self.view_restriction.as_ref().map(Restriction::prune).filter(|prune| !prune.is_empty())
    }

    /// Whether objects are shown without changes.
    pub fn is_shown_whole(&self) -> bool {
        self.prune().is_none()
    }
}
