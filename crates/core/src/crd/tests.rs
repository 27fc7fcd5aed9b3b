//! Reading CustomResourceDefinitions: defaults, refusals, version order.

use serde_json::{Value, json};

use super::Crd;

fn shirts() -> Value {
    json!({
        "metadata": {"name": "shirts.stable.example.com", "generation": 1},
        "spec": {
            "group": "stable.example.com", "scope": "Namespaced",
            "names": {"plural": "shirts", "kind": "Shirt"},
            "versions": [
                {"name": "v1beta1", "served": true, "storage": false, "deprecated": true},
                {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}},
                 "selectableFields": [{"jsonPath": ".spec.color"}, {}],
                 "additionalPrinterColumns": [{"name": "A", "type": "string", "jsonPath": ".a", "priority": 0}]},
                {"name": "v2", "served": false, "storage": false},
            ],
        }
    })
}

#[test]
fn names_are_defaulted_and_versions_ordered_by_priority() {
    let crd = Crd::read(&shirts()).unwrap();
    assert_eq!((&*crd.names.singular, &*crd.names.list_kind), ("shirt", "ShirtList"));
    let served: Vec<&str> = crd.served_versions().iter().map(|version| &*version.name).collect();
    assert_eq!(served, ["v1", "v1beta1"]);
    assert_eq!(crd.versions[1].selectable_fields, [".spec.color", ""]);
    let warning = crd.versions[0].deprecation_warning.as_deref();
    assert_eq!(warning, Some("stable.example.com/v1beta1 Shirt is deprecated; use stable.example.com/v1 Shirt"));
}

#[test]
fn another_type_is_reported_with_its_path() {
    for (path, value, expected) in [
        (
            "/spec/versions/1/selectableFields",
            json!("x"),
            "spec.versions[1].selectableFields: expected a list, found a string",
        ),
        (
            "/spec/versions/1/selectableFields/0/jsonPath",
            json!(3),
            "spec.versions[1].selectableFields[0].jsonPath: expected a string, found a number",
        ),
        (
            "/spec/versions/1/additionalPrinterColumns/0/priority",
            json!("1"),
            "spec.versions[1].additionalPrinterColumns[0].priority: expected a 32-bit integer, found a string",
        ),
        (
            "/spec/versions/1/additionalPrinterColumns/0/priority",
            json!(1u64 << 31),
            "spec.versions[1].additionalPrinterColumns[0].priority: expected a 32-bit integer, found a number",
        ),
        ("/metadata/generation", json!("1"), "metadata.generation: expected a 64-bit integer, found a string"),
        ("/spec/names/kind", json!(""), "spec.names.kind: expected a non-empty string, found an empty string"),
        ("/spec/scope", json!("Global"), "spec.scope: expected \"Namespaced\" or \"Cluster\", found a string"),
        ("/spec", json!(null), "spec: expected an object, found nothing"),
    ] {
        let mut document = shirts();
        *document.pointer_mut(path).unwrap() = value;
        assert_eq!(Crd::read(&document).unwrap_err().to_string(), expected, "{path}");
    }
}

#[test]
fn version_names_sort_as_kubernetes_sorts_them() {
    let mut names =
        ["foo1", "v1alpha1", "v10", "v2", "v11alpha2", "v3beta1", "foo10", "v12alpha1", "v1", "v01", "v11beta2"];
    names.sort_by_key(|name| std::cmp::Reverse(super::version_priority(name)));
    assert_eq!(
        names,
        ["v10", "v2", "v1", "v11beta2", "v3beta1", "v12alpha1", "v11alpha2", "v1alpha1", "foo1", "foo10", "v01"]
    );
}

#[test]
fn served_groups_are_those_of_all_definitions() {
    let with = |group: &str, plural: &str, versions: &[(&str, bool)]| {
        let mut document = shirts();
        document["metadata"]["name"] = json!(format!("{plural}.{group}"));
        document["spec"]["group"] = json!(group);
        document["spec"]["names"]["plural"] = json!(plural);
        let versions = versions.iter().enumerate();
        document["spec"]["versions"] = versions
            .map(|(index, (name, served))| json!({"name": name, "served": served, "storage": index == 0}))
            .collect();
        Crd::read(&document).unwrap()
    };
    let crds = [
        with("b.example.com", "shirts", &[("v1beta1", true), ("v2", false)]),
        with("b.example.com", "hats", &[("v1", true), ("v1beta1", true)]),
        with("a.example.com", "hats", &[("v1alpha1", true), ("v10", true), ("v9", true)]),
        with("none.example.com", "hats", &[("v1", false)]),
    ];
    let groups: Vec<(&str, Vec<&str>)> = super::served_groups(&crds).into_iter().collect();
    let expected = [("a.example.com", vec!["v10", "v9", "v1alpha1"]), ("b.example.com", vec!["v1", "v1beta1"])];
    assert_eq!(groups, expected);
}
