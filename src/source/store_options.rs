//! What FieldCaches say of the copy of each resource, as a catalog takes it in: accepted by whoever reads FieldCaches, put into resources
//! here.
//!
//! A folder reads its own ([`super::field_caches`]); a cluster is told through [`super::cluster_settings::ClusterSettings`].

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::extract::{ExtraField, ExtraFields, Extractor};
use crate::model::Gvr;
use crate::registry::{PartialStore, Resource};

/// What is said, by resource and version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreOptions(BTreeMap<Gvr, StoreOption>);

/// What is said of one copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreOption {
    /// Accepted extra fields.
    pub fields: ExtraFields,
    /// Only these objects are kept.
    pub excerpt: Option<Arc<PartialStore>>,
}

impl StoreOptions {
    /// Says what is meant for a resource in one version, instead of what was said before.
    pub fn set(&mut self, gvr: Gvr, option: StoreOption) {
        if option == StoreOption::default() {
            self.0.remove(&gvr);
        } else {
            self.0.insert(gvr, option);
        }
    }

    /// The extra fields of a resource in one version.
    pub fn fields(&self, gvr: &Gvr) -> &[ExtraField] {
        self.0.get(gvr).map_or(&[], |option| &option.fields)
    }

    /// Makes a resource what is said of it.
    pub fn apply(&self, resource: &mut Resource) {
        resource.plan = self.plan(&resource.gvr, resource.plan.clone());
        resource.excerpt = self.0.get(&resource.gvr).and_then(|option| option.excerpt.clone());
    }

    /// The plan of a resource with its extra fields: see [`ExtraFields::extend`].
    pub fn plan(&self, gvr: &Gvr, plan: Extractor) -> Extractor {
        let Some(option) = self.0.get(gvr) else { return plan };
        option.fields.extend(&plan).unwrap_or_else(|error| {
            tracing::error!(resource = %gvr, error = %error, "extra fields are left out");
            plan
        })
    }
}
