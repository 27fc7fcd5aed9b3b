//! The kind PlacementReview: its names, its row in discovery, and which requests are for it.

use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::model::Gvr;
use crate::placement::review::KIND;
use crate::request::{ResourcePath, Route};
use crate::server::builtin_group::{GROUP, VERSION};

/// The plural name of PlacementReviews.
pub(in crate::server) const RESOURCE: &str = "placementreviews";

/// The resource of PlacementReviews.
pub(in crate::server) static GVR: LazyLock<Gvr> = LazyLock::new(|| Gvr::new(GROUP, VERSION, RESOURCE));

/// The row of `placementreviews` in discovery, as APIResourceDiscovery of apidiscovery.k8s.io/v2.
pub(in crate::server) fn row() -> Value {
    json!({
        "resource": RESOURCE,
        "responseKind": {"group": GROUP, "version": VERSION, "kind": KIND},
        "scope": "Cluster",
        "singularResource": "placementreview",
        "verbs": ["create"],
    })
}

/// The path of a request for `placementreviews`; `None` for other requests.
pub(in crate::server) fn review_path(target: &Route) -> Option<&ResourcePath> {
    let Route::Resource(address) = target else { return None };
    (address.gvr == *GVR).then_some(address)
}
