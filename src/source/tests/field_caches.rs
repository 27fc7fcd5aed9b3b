//! FieldCaches in a folder: what they add, and what is said of those that are wrong.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::crd::Crd;
use crate::extract::CompiledField;
use crate::model::{Gvr, Key};
use crate::source::field_caches::{own_definition, read};
use crate::source::store_options::StoreOptions;

fn shirts() -> Crd {
    let version = |name: &str, served: bool, properties: Value| {
        json!({"name": name, "served": served, "storage": name == "v1",
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}},
            "additionalPrinterColumns": [{"name": "Size", "type": "string", "jsonPath": ".spec.size"}]})
    };
    let size = json!({"size": {"type": "string"}});
    let both = json!({"size": {"type": "string"}, "tags": {"type": "array", "items": {"type": "string"}}});
    Crd::read(&json!({"metadata": {"name": "shirts.stable.example.com"}, "spec": {
        "group": "stable.example.com", "scope": "Namespaced", "names": {"plural": "shirts", "kind": "Shirt"},
        "versions": [version("v1", true, both), version("v1beta1", true, size.clone()), version("v0", false, size)],
    }}))
    .unwrap()
}

fn judged(name: &str, spec: Value) -> (StoreOptions, Vec<String>) {
    let document = json!({"apiVersion": "fieldcache.dev/v1alpha1", "kind": "FieldCache", "metadata": {"name": name}, "spec": spec});
    let documents = BTreeMap::from([(Key::new("", name), Bytes::from(document.to_string()))]);
    let (extra, problems) = read(&documents, &[&shirts()]);
    (extra, problems.into_iter().map(|(key, message)| format!("{}: {message}", key.name())).collect())
}

fn names(extra: &StoreOptions, gvr: &Gvr) -> Vec<String> {
    extra.fields(gvr).iter().map(CompiledField::name).map(str::to_owned).collect()
}

const SHIRTS: &str = "shirts.stable.example.com";

fn of_shirts(more: Value) -> Value {
    let mut spec = json!({"group": "stable.example.com", "resource": "shirts"});
    if let (Value::Object(spec), Value::Object(more)) = (&mut spec, more) {
        spec.extend(more);
    }
    spec
}

#[test]
fn fields_go_to_the_versions_that_are_meant() {
    let gvr = |version: &str| Gvr::new("stable.example.com", version, "shirts");
    let size = json!([{"name": "size", "printerColumn": "Size"}]);
    for (versions, in_v1, in_beta) in [(json!([]), 1, 0), (json!(["v1beta1"]), 0, 1), (json!(["v1", "v1beta1"]), 1, 1)]
    {
        let (extra, problems) = judged(SHIRTS, of_shirts(json!({"versions": versions, "selectableFields": size})));
        assert_eq!(problems, [""; 0], "{versions}");
        assert_eq!(
            (extra.fields(&gvr("v1")).len(), extra.fields(&gvr("v1beta1")).len()),
            (in_v1, in_beta),
            "{versions}"
        );
    }
    let tags =
        json!({"versions": ["v1", "v1beta1"], "selectableFields": [{"name": "tags", "jsonPath": "$.spec.tags[*]"}]});
    let (extra, problems) = judged(SHIRTS, of_shirts(tags));
    assert_eq!(names(&extra, &gvr("v1")), ["tags"]);
    assert_eq!(
        problems,
        [
            "shirts.stable.example.com: version v1beta1: spec.selectableFields[0].jsonPath: the schema has no \"tags\" in $.spec, which has \"size\""
        ]
    );
    let owners = json!({"resource": "pods", "selectableFields": [
        {"name": "owner", "jsonPath": "$.metadata.ownerReferences[*].uid"},
        {"name": "images", "jsonPath": "$.spec.containers[*].image"},
        {"name": "ports", "jsonPath": "$.spec.containers[*].ports[*].containerPort"},
        {"name": "requests", "jsonPath": "$.spec.containers[*].resources.requests.cpu"},
    ]});
    let (extra, problems) = judged("pods", owners);
    assert_eq!(problems, [""; 0], "built-in kinds have schemas");
    assert_eq!(names(&extra, &Gvr::new("", "v1", "pods")), ["owner", "images", "ports", "requests"]);
    let (extra, _) = judged(
        "horizontalpodautoscalers.autoscaling",
        json!({"group": "autoscaling", "resource": "horizontalpodautoscalers",
        "selectableFields": [{"name": "target", "jsonPath": "$.spec.scaleTargetRef.name"}]}),
    );
    assert_eq!(
        names(&extra, &Gvr::new("autoscaling", "v2", "horizontalpodautoscalers")),
        ["target"],
        "the preferred version"
    );
}

#[test]
fn what_is_wrong_is_said() {
    for (name, spec, expected) in [
        ("hats", of_shirts(json!({})), "the name must be shirts.stable.example.com"),
        (
            "hats.g",
            json!({"group": "g", "resource": "hats"}),
            "spec.resource: the API server serves no resource hats.g",
        ),
        (
            SHIRTS,
            of_shirts(json!({"versions": ["v0"]})),
            "spec.versions[0]: shirts.stable.example.com is not served in v0; its versions are v1, v1beta1",
        ),
        (SHIRTS, of_shirts(json!({"scope": {}})), "a partial store is only served through Views"),
        (
            SHIRTS,
            of_shirts(json!({"selectableFields": [{"name": "a", "jsonPath": "$.spec.sise"}]})),
            "the nearest is $.spec.size",
        ),
        (
            "pods",
            json!({"resource": "pods", "selectableFields": [{"name": "a", "jsonPath": "$.spec.nodename"}]}),
            "the nearest is $.spec.nodeName",
        ),
        (
            "events",
            json!({"resource": "events", "selectableFields": [{"name": "reason", "jsonPath": "$.reason"}]}),
            "is a field label of the API server",
        ),
        ("x", json!({"resource": 7}), "it cannot be read"),
    ] {
        let (extra, problems) = judged(name, spec);
        assert_eq!(extra, StoreOptions::default(), "{name}");
        assert!(matches!(&problems[..], [problem] if problem.contains(expected)), "{expected:?}: {problems:?}");
    }
}

#[test]
fn the_definition_need_not_be_in_the_folder() {
    let crd = own_definition("fieldcache.dev", "FieldCache").unwrap();
    assert!(crd.version("v1alpha1").is_some_and(|version| version.schema.is_some()));
    assert!(own_definition("fieldcache.dev", "View").is_none(), "a folder serves no Views");
    assert!(own_definition("example.com", "FieldCache").is_none());
}
