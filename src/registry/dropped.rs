//! What a request leaves out of the objects that it receives: `drop` (KEP-5958) and `keep` in the Accept header.
//!
//! This changes what is shown, not what is selected. It is no protection: the caller may read the fields. What a View
//! hides is left out as well. [`super::requested_parts`] shares the result among requests.

use std::sync::{Arc, LazyLock};

use super::catalog::Resource;
use super::requested_parts::{RequestedParts, RequestedPrunes};
use super::view_restriction::Restriction;
use crate::extract::Prune;

/// What requests leave out of objects, for requests without a View. The values are the same for all resources.
static OF_WHOLE_OBJECTS: LazyLock<RequestedPrunes> = LazyLock::new(RequestedPrunes::default);

/// What a resource leaves out because of the request.
#[derive(Clone, Debug, Default)]
pub struct Dropped {
    /// The fields that the View hides and those that the request leaves out; `None`: the request leaves out nothing.
    prune: Option<Arc<Prune>>,
}

impl Resource {
    /// The resource for a request: a variant that shows only the wanted parts. It is the resource itself if the request
    /// wants whole objects, or the resource is already such a variant.
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

    /// The fields that are left out of the objects of a response, because of the request or the View; `None` if there
    /// are none.
    pub fn prune(&self) -> Option<&Arc<Prune>> {
        self.dropped.prune.as_ref().or_else(|| self.hidden())
    }

    /// The fields that the View hides; `None` if there are none, and without a View.
    pub fn hidden(&self) -> Option<&Arc<Prune>> {
        self.view_restriction.as_ref().map(Restriction::prune).filter(|prune| !prune.is_empty())
    }

    /// Whether objects are shown without changes.
    pub fn is_shown_whole(&self) -> bool {
        self.prune().is_none()
    }
}
