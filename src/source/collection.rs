//! The URL of a resource's collection at its source.

use crate::model::Gvr;
use crate::model::percent::percent_encode;
use crate::registry::Resource;

/// Path of a resource's collection.
pub(super) fn collection(gvr: &Gvr) -> String {
    format!("/{}/{}", gvr.group_version().path(), gvr.resource)
}

/// What of a resource is kept, as query parameters to be added to others.
pub(super) fn selection(resource: &Resource) -> String {
    let Some(excerpt) = &resource.excerpt else { return String::new() };
    let both = [("labelSelector", &excerpt.label_selector), ("fieldSelector", &excerpt.field_selector)];
    let named = both.into_iter().filter(|(_, selector)| !selector.is_empty());
    named.map(|(name, selector)| format!("&{name}={}", percent_encode(selector))).collect()
}
