//! The extra fields of every resource, as a catalog takes them in: accepted by whoever reads FieldCaches, put into plans here.
//!
//! A folder reads its own ([`super::field_caches`]); a cluster is told through [`super::cluster::ClusterSettings`].

use std::collections::BTreeMap;

use crate::extract::{ExtraField, Plan};
use crate::model::Gvr;

/// Accepted extra fields, by resource and version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtraFields(BTreeMap<Gvr, Vec<ExtraField>>);

impl ExtraFields {
    /// Says which fields a resource has in one version, instead of what was said before.
    pub fn set(&mut self, gvr: Gvr, fields: Vec<ExtraField>) {
        if fields.is_empty() {
            self.0.remove(&gvr);
        } else {
            self.0.insert(gvr, fields);
        }
    }

    /// The fields of a resource in one version.
    pub fn of(&self, gvr: &Gvr) -> &[ExtraField] {
        self.0.get(gvr).map_or(&[], Vec::as_slice)
    }

    /// The plan of a resource with its extra fields.
    ///
    /// A field whose name the resource itself has come to offer since it was accepted is left out: the resource's own wins.
    pub fn plan(&self, gvr: &Gvr, plan: Plan) -> Plan {
        let fields: Vec<ExtraField> =
            self.of(gvr).iter().filter(|field| plan.resolve(field.name()).is_err()).cloned().collect();
        plan.with_extra(&fields).unwrap_or_else(|error| {
            tracing::error!(resource = %gvr, error = %error, "extra fields are left out");
            plan
        })
    }
}
