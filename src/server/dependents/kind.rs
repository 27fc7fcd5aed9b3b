//! The kind Dependents: its names, its row in discovery, and which requests are for it.

use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::dependents::document::{KIND, RESOURCE};
use crate::model::Gvr;
use crate::request::{ResourcePath, Route};
use crate::server::builtin_group::{GROUP, VERSION};

/// Group, version and plural name of Dependents.
pub(in crate::server) static GVR: LazyLock<Gvr> = LazyLock::new(|| Gvr::new(GROUP, VERSION, RESOURCE));

/// The row of `dependents` in discovery, as APIResourceDiscovery of apidiscovery.k8s.io/v2. Its only verb is get, by
/// the uid of the owner. With the verb list, clients that list everything would list it too.
pub(in crate::server) fn row() -> Value {
    json!({
        "resource": RESOURCE,
        "responseKind": {"group": GROUP, "version": VERSION, "kind": KIND},
        "scope": "Namespaced",
        "singularResource": RESOURCE,
        "verbs": ["get"],
    })
}

/// The path of a request, if its resource is `dependents`; `None` for other requests.
pub(in crate::server) fn dependents_path(target: &Route) -> Option<&ResourcePath> {
    let Route::Resource(address) = target else { return None };
    (address.gvr == *GVR).then_some(address)
}
