//! The options that FieldCaches set for the store of each resource. The reader of FieldCaches accepts them, and this
//! file applies them to resources.
//!
//! A folder reads its own ([`super::field_caches`]); a cluster gets them in
//! [`super::cluster_settings::ClusterSettings`].

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::extract::{CompiledField, ExtraFields, Extractor};
use crate::model::Gvr;
use crate::registry::{PartialStore, Resource};

/// The options, by resource and version. Default options are not stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreOptions(BTreeMap<Gvr, StoreOption>);

/// The options of one store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreOption {
    /// The extra fields, which are validated.
    pub fields: ExtraFields,
    /// The selectors of the stored objects; `None`: all objects are stored.
    pub partial_store: Option<Arc<PartialStore>>,
}

impl StoreOptions {
    /// Replaces the options of a resource in one version.
    pub fn set(&mut self, gvr: Gvr, option: StoreOption) {
        if option == StoreOption::default() {
            self.0.remove(&gvr);
        } else {
            self.0.insert(gvr, option);
        }
    }

    /// The extra fields of a resource in one version; empty without any.
    pub fn fields(&self, gvr: &Gvr) -> &[CompiledField] {
        self.0.get(gvr).map_or(&[], |option| &option.fields)
    }

    /// Sets the extractor and the partial store of a resource according to its options.
    pub fn apply(&self, resource: &mut Resource) {
        resource.extractor = self.extractor(&resource.gvr, resource.extractor.clone());
        resource.partial_store = self.0.get(&resource.gvr).and_then(|option| option.partial_store.clone());
    }

    /// The extractor of a resource with its extra fields added: see [`ExtraFields::extend`]. If that fails, the error
    /// is logged and `extractor` is returned unchanged.
    pub fn extractor(&self, gvr: &Gvr, extractor: Extractor) -> Extractor {
        let Some(option) = self.0.get(gvr) else { return extractor };
        option.fields.extend(&extractor).unwrap_or_else(|error| {
            tracing::error!(resource = %gvr, error = %error, "cannot add the fields of the FieldCache to this resource: selectors cannot use them");
            extractor
        })
    }
}
