//! Request paths of the objects and the lists of a resource.

use crate::model::Scope;
use crate::model::percent::percent_encode;
use crate::source::discovery::Discovered;

/// The path of an object. `namespace` is ignored for a resource without namespaces.
pub(super) fn object_path(resource: &Discovered, namespace: &str, name: &str) -> String {
    format!("{}/{}", list_path(resource, Some(namespace)), percent_encode(name))
}

/// The path of a list. `namespace`: `None` for all namespaces; ignored for a resource without namespaces.
pub(super) fn list_path(resource: &Discovered, namespace: Option<&str>) -> String {
    let (version, plural) = (resource.gvr.group_version().path(), &resource.gvr.resource);
    match (resource.scope, namespace) {
        (Scope::Namespaced, Some(namespace)) => {
            format!("/{version}/namespaces/{}/{plural}", percent_encode(namespace))
        }
        (Scope::Namespaced, None) | (Scope::Cluster, _) => format!("/{version}/{plural}"),
    }
}
