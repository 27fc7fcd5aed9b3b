//! The metadata of every resource of a source, served or not: names, scope and selectable fields.
//!
//! SelectableResources report it, and FieldCaches and Views are validated against it. The catalog has the served
//! resources.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::catalog::{ApiGroup, Resource, ResourceOrigin};
use crate::crd::Crd;
use crate::extract::Extractor;
use crate::model::{Gvr, Scope};

/// The metadata of all resources at one point in time.
#[derive(Clone, Debug, Default)]
pub struct Definitions {
    /// By group, version and plural.
    pub resources: BTreeMap<Gvr, Definition>,
    /// Established CustomResourceDefinitions, by name.
    pub crds: BTreeMap<String, Arc<Crd>>,
    /// CustomResourceDefinitions that cannot be read, by name, with the reason.
    pub unreadable: BTreeMap<String, String>,
    /// Groups with their versions, preferred ones first.
    pub groups: Vec<ApiGroup>,
}

/// The metadata of one version of a resource.
#[derive(Clone, Debug)]
pub struct Definition {
    /// Kind of an object.
    pub kind: String,
    /// Whether objects have namespaces.
    pub scope: Scope,
    /// Custom or built-in.
    pub origin: ResourceOrigin,
    /// Its selectable fields.
    pub extractor: Extractor,
}

impl Definitions {
    /// Collects the resources, definitions and groups that a source serves. `unreadable` stays empty.
    pub fn new(resources: &[Resource], crds: &[Arc<Crd>], groups: Vec<ApiGroup>) -> Definitions {
        let definition = |resource: &Resource| Definition {
            kind: resource.kind.clone(),
            scope: resource.scope,
            origin: resource.origin,
            extractor: resource.extractor.clone(),
        };
        Definitions {
            resources: resources.iter().map(|resource| (resource.gvr.clone(), definition(resource))).collect(),
            crds: crds.iter().map(|crd| (crd.name.clone(), crd.clone())).collect(),
            unreadable: BTreeMap::new(),
            groups,
        }
    }

    /// The versions in which a resource is served, the preferred one first; none when there is no such resource.
    pub fn versions(&self, group: &str, resource: &str) -> Vec<(Gvr, &Definition)> {
        let versions = self.groups.iter().filter(|each| each.name == group).flat_map(|each| &each.versions);
        versions
            .filter_map(|version| {
                let gvr = Gvr::new(group, version, resource);
                self.resources.get(&gvr).map(|definition| (gvr, definition))
            })
            .collect()
    }
}
