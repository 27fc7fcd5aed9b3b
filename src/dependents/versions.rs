//! Which version of each resource is searched: all versions have the same objects.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::registry::{Catalog, LoadState, Resource};

/// One version of each resource: the first version in the order of discovery whose store is complete. If no store is
/// complete, it is the first version.
pub fn preferred(catalog: &Catalog) -> Vec<Arc<Resource>> {
    let mut chosen: BTreeMap<(&str, &str), &Arc<Resource>> = BTreeMap::new();
    let is_complete = |resource: &Resource| matches!(resource.state.load_state(), LoadState::Ready(_));
    for group in &catalog.groups {
        for version in &group.versions {
            for resource in catalog.resources_of(&group.name, version) {
                let name = (&*resource.gvr.group, &*resource.gvr.resource);
                let is_better = chosen.get(&name).is_none_or(|other| !is_complete(other) && is_complete(resource));
                if is_better {
                    chosen.insert(name, resource);
                }
            }
        }
    }
    chosen.into_values().cloned().collect()
}
