//! What SelectableResources say of unusual definitions.

use std::sync::Arc;

use serde_json::json;

use super::definitions;
use crate::crd::Crd;
use crate::extract::Extractor;
use crate::extract::validation::CrdValidationCache;
use crate::model::Scope;
use crate::operator::selectable_resources::describe;
use crate::operator::stores::FieldCacheResults;
use crate::registry::{Definition, ResourceOrigin};

/// The path is the key of the list, so the API server rejects an object that has one twice.
#[test]
fn paths_that_are_equal_when_they_are_cut_are_described_once() {
    let name = |end: &str| format!("{}{end}", "x".repeat(1_100));
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        (name("a")): {"type": "string"}, (name("b")): {"type": "string"}, "c": {"type": "string"},
    }}}});
    let paths = [name("a"), name("b"), "c".to_owned()].map(|name| json!({"jsonPath": format!(".spec.{name}")}));
    let crd = Crd::read(&json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "longs.stable.example.com", "uid": "u", "generation": 1},
        "spec": {
            "group": "stable.example.com", "scope": "Namespaced", "names": {"plural": "longs", "kind": "Long"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}, "selectableFields": paths,
            }],
        },
    }))
    .unwrap();
    let mut definitions = definitions();
    let definition = Definition {
        kind: "Long".to_owned(),
        scope: Scope::Namespaced,
        origin: ResourceOrigin::Custom,
        extractor: Extractor::custom_resource(&crd, "v1"),
    };
    definitions.resources.insert(crd.gvr("v1"), definition);
    definitions.crds.insert(crd.name.clone(), Arc::new(crd));
    let described = describe(&definitions, &FieldCacheResults::new(), &CrdValidationCache::default());
    let fields = &described["longs.stable.example.com"].versions[0].fields;
    let lengths: Vec<usize> = fields.iter().map(|field| field.field_path.len()).collect();
    assert_eq!(lengths, [1_024, 6]);
}
