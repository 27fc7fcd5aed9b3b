//! What is known of the objects of a resource that a cluster does not serve any more.

use std::sync::Arc;

use serde_json::json;

use super::feed::resource;
use crate::crd::Crd;
use crate::model::{Gvr, Version};
use crate::registry::{Departure, Resource, ResourceOrigin};
use crate::source::departures::{KnownCrds, departure};

/// The definition of shirts, with these versions and whether they are served.
fn shirts(versions: &[(&str, bool)]) -> Result<Arc<Crd>, String> {
    let version = |(name, served): &(&str, bool)| json!({ "name": name, "served": served, "storage": *name == "v2" });
    let versions: Vec<serde_json::Value> = versions.iter().map(version).collect();
    Crd::read(&json!({ "metadata": { "name": "shirts.stable.example.com" }, "spec": {
        "group": "stable.example.com", "scope": "Namespaced", "versions": versions,
        "names": { "plural": "shirts", "kind": "Shirt" },
    }}))
    .map(Arc::new)
    .map_err(|error| error.to_string())
}

#[test]
fn only_a_definition_decides_what_happens_to_its_objects() {
    let custom = Resource {
        gvr: Gvr::new("stable.example.com", "v1", "shirts"),
        origin: ResourceOrigin::Custom,
        ..resource().with_new_state()
    };
    let deleted = Departure::ObjectsDeleted(Version::new(7));
    for (what, definition, expected) in [
        ("the definition is deleted", None, deleted),
        ("the version is not served", Some(shirts(&[("v1", false), ("v2", true)])), Departure::VersionEnded),
        ("the version is not defined", Some(shirts(&[("v2", true)])), Departure::VersionEnded),
        (
            "the version is served, by a definition that is not established",
            Some(shirts(&[("v1", true)])),
            Departure::NotOffered,
        ),
        ("the definition cannot be read", Some(Err("it is malformed".to_owned())), Departure::NotOffered),
    ] {
        let named = |crd| ("shirts.stable.example.com".to_owned(), (Version::new(5), crd));
        let crds: KnownCrds = definition.into_iter().map(named).collect();
        assert_eq!(departure(&custom, Some((Version::new(7), &crds))), expected, "{what}");
    }
    assert_eq!(departure(&custom, None), Departure::NotOffered, "no definition is known");
    let crds = KnownCrds::new();
    let aggregated = departure(&resource(), Some((Version::new(7), &crds)));
    assert_eq!(aggregated, Departure::NotOffered, "its objects are those of another server");
}
