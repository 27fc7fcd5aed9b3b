//! The URL of a resource's collection at its source.

use crate::model::Gvr;
use crate::model::percent::percent_encode;
use crate::registry::Resource;

/// The path of a resource's collection.
pub(super) fn collection(gvr: &Gvr) -> String {
    format!("/{}/{}", gvr.group_version().path(), gvr.resource)
}

/// The selectors of a partial store, as further query parameters that begin with `&`. Empty if all objects are stored.
pub(super) fn selection(resource: &Resource) -> String {
    let Some(partial_store) = &resource.partial_store else { return String::new() };
    let both = [("labelSelector", &partial_store.label_selector), ("fieldSelector", &partial_store.field_selector)];
    let named = both.into_iter().filter(|(_, selector)| !selector.is_empty());
    named.map(|(name, selector)| format!("&{name}={}", percent_encode(selector))).collect()
}
