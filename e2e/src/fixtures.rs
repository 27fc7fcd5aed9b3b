//! The CustomResourceDefinitions of the tests of KEP-4358.
//!
//! Shaped like those of apiextensions-apiserver's integration test (`fieldselector_test.go`) and of the conformance test
//! (`crd_selectable_fields.go`); the group is the caller's, so that tests do not meet.

use serde_json::{Value, json};

/// Fixture S: `shirts`, cluster-scoped, v1 (stored) with `spec.color` and v1beta1 with `spec.hue`, four selectable fields in each.
#[must_use]
pub fn shirts(group: &str, conversion: &Value) -> Value {
    let version = |name: &str, storage: bool, color: &str| {
        json!({
            "name": name,
            "served": true,
            "storage": storage,
            "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": { "type": "object", "properties": {
                color: { "type": "string" },
                "quantity": { "type": "integer" },
                "size": { "type": "string", "enum": ["S", "M", "L", "XL"] },
                "branded": { "type": "boolean" },
            } } } } },
            "selectableFields": [
                { "jsonPath": format!(".spec.{color}") },
                { "jsonPath": ".spec.quantity" },
                { "jsonPath": ".spec.size" },
                { "jsonPath": ".spec.branded" },
            ],
        })
    };
    definition(
        group,
        "Cluster",
        ("shirts", "shirt", "Shirt"),
        &[version("v1", true, "color"), version("v1beta1", false, "hue")],
        conversion,
    )
}

/// Fixture H: `hostports`, namespaced, v1 (stored) with `hostPort` and v2 with `host` and `port`, all selectable.
#[must_use]
pub fn host_ports(group: &str, conversion: &Value) -> Value {
    let version = |name: &str, storage: bool, fields: &[&str]| {
        let mut properties = json!({});
        for &field in fields {
            properties[field] = json!({ "type": "string" });
        }
        let selectable: Vec<Value> = fields.iter().map(|field| json!({ "jsonPath": format!(".{field}") })).collect();
        json!({
            "name": name,
            "served": true,
            "storage": storage,
            "schema": { "openAPIV3Schema": { "type": "object", "properties": properties } },
            "selectableFields": selectable,
        })
    };
    definition(
        group,
        "Namespaced",
        ("hostports", "hostport", "HostPort"),
        &[version("v1", true, &["hostPort"]), version("v2", false, &["host", "port"])],
        conversion,
    )
}

/// A definition of the given versions; `names` are plural, singular and kind.
#[must_use]
pub fn definition(
    group: &str,
    scope: &str,
    names: (&str, &str, &str),
    versions: &[Value],
    conversion: &Value,
) -> Value {
    let (plural, singular, kind) = names;
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.{group}") },
        "spec": {
            "group": group,
            "scope": scope,
            "names": { "plural": plural, "singular": singular, "kind": kind, "listKind": format!("{kind}List") },
            "versions": versions,
            "conversion": conversion,
        },
    })
}

/// `spec.conversion` of a definition whose versions differ in nothing but `apiVersion`.
#[must_use]
pub fn no_conversion() -> Value {
    json!({ "strategy": "None" })
}
