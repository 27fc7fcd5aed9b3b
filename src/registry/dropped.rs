//! What a request leaves out of the objects that it receives: `drop` in Accept (KEP-5958).
//!
//! It changes what is shown, not what is selected, and hides nothing: the caller may read the fields. What a View hides
//! is left out as well.

use std::sync::{Arc, LazyLock, OnceLock};

use super::catalog::Resource;
use super::view_restriction::Restriction;
use crate::extract::Prune;

/// `metadata.managedFields` alone: what a request leaves out of objects of which a View hides nothing.
static MANAGED_FIELDS: LazyLock<Arc<Prune>> = LazyLock::new(|| Arc::new(Prune::default().and_managed_fields()));

/// What a resource leaves out because of the request, and its variant that does.
#[derive(Debug, Default)]
pub struct Dropped {
    /// The fields that the View hides and those that the request leaves out; `None`: the request leaves out nothing.
    prune: Option<Arc<Prune>>,
    /// The same resource without managedFields; empty before the first request that leaves these out.
    variant: OnceLock<Arc<Resource>>,
}

/// A changed resource has another variant.
impl Clone for Dropped {
    fn clone(&self) -> Dropped {
        Dropped { prune: self.prune.clone(), variant: OnceLock::new() }
    }
}

impl Resource {
    /// The resource for a request. With `drops_managed_fields`, it is a variant without `metadata.managedFields`, which
    /// all such requests share; of a variant, it is the variant itself.
    pub fn for_request(self: &Arc<Resource>, drops_managed_fields: bool) -> &Arc<Resource> {
        if !drops_managed_fields || self.dropped.prune.is_some() {
            return self;
        }
        self.dropped.variant.get_or_init(|| {
            let with_hidden = self.view_restriction.as_ref().map(Restriction::prune_and_managed_fields);
            let prune = with_hidden.unwrap_or_else(|| MANAGED_FIELDS.clone());
            let dropped = Dropped { prune: Some(prune), variant: OnceLock::new() };
            Arc::new(Resource { dropped, ..Resource::clone(self) })
        })
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
