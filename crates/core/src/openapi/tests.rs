//! OpenAPI documents: the table of published keywords, paths, merging, hashes, the extension.

mod binary;
mod filter;
mod nested;

use serde_json::{Map, Value, json};

use super::{
    OpenApiDocument, OpenApiVersion, SELECTABLE_FIELDS, SelectableEntry, Shared, definition_name, definitions, hash,
    operations, reachable, selectable, structural, structure, v2, v3,
};
use crate::crd::{Crd, Schema};

/// Shared definitions as small as they can be.
fn shared_definitions() -> Map<String, Value> {
    let meta = |name: &str| format!("{}.{name}", super::META_V1);
    let text = json!({"type": "string", "description": "Of meta/v1."});
    let reference = |name: &str| json!({"$ref": format!("#/components/schemas/{}", meta(name))});
    Map::from_iter([
        (
            meta("ObjectMeta"),
            json!({"type": "object", "properties": {"creationTimestamp": {"allOf": [reference("Time")], "description": "When.", "default": {}}}}),
        ),
        (meta("Time"), json!({"type": "string", "format": "date-time"})),
        (meta("ListMeta"), json!({"type": "object", "properties": {"continue": text}})),
        (
            meta("Status"),
            json!({"type": "object", "properties": {"apiVersion": text, "kind": text, "metadata": reference("ListMeta")}}),
        ),
        (
            meta("DeleteOptions"),
            json!({"type": "object", "properties": {"dryRun": {"type": "array", "items": {"type": "string", "default": ""}}}}),
        ),
        (meta("Patch"), json!({"type": "object"})),
        (operations::SCALE.to_owned(), json!({"type": "object", "properties": {"metadata": reference("ObjectMeta")}})),
        ("io.k8s.api.unused.v1.Unused".to_owned(), json!({"type": "object"})),
    ])
}

fn shared_parameters() -> Map<String, Value> {
    let texts = [("fieldSelector", "By fields."), ("fieldManager", "Who."), ("patch/fieldManager", "Who applies.")];
    texts.into_iter().map(|(name, text)| (name.to_owned(), Value::from(text))).collect()
}

fn shirts() -> Crd {
    Crd::read(&serde_json::from_str(include_str!("testdata/shirts.crd.json")).unwrap()).unwrap()
}

/// A cluster-scoped kind of the same group-version.
fn inks() -> Crd {
    Crd::read(&json!({
        "metadata": {"name": "inks.stable.example.com"},
        "spec": {
            "group": "stable.example.com", "scope": "Cluster", "names": {"plural": "inks", "kind": "Ink"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        }
    }))
    .unwrap()
}

fn with_shared<T>(test: impl FnOnce(&Shared<'_>) -> T) -> T {
    let (definitions, parameters) = (shared_definitions(), shared_parameters());
    test(&Shared { definitions: &definitions, parameters: &parameters })
}

fn base() -> Value {
    json!({"swagger": "2.0", "info": {"title": "Kubernetes", "version": "1.36"}, "paths": {}, "definitions": {}})
}

fn v3_of(crds: &[&Crd], version: &str) -> Value {
    with_shared(|shared| v3::custom_resources(crds, "stable.example.com", version, shared).unwrap())
}

fn v2_of(crds: &[&Crd]) -> Value {
    with_shared(|shared| {
        let mut document = base();
        v2::merge(&mut document, crds, shared);
        document
    })
}

fn publish(schema: &Value, form: OpenApiVersion) -> Value {
    Value::Object(structural::publish(schema.as_object().unwrap(), form))
}

/// Compares with a file, or writes it when the variable UPDATE_GOLDEN is set.
#[expect(clippy::disallowed_methods, reason = "golden files are read and rewritten by tests")]
fn assert_golden(name: &str, document: &Value) {
    let path = format!("{}/src/openapi/testdata/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = format!("{document:#}\n");
    if std::env::var("UPDATE_GOLDEN").is_ok() {
        std::fs::write(&path, &text).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap();
    assert!(golden == text, "{name} differs from what is built; run with UPDATE_GOLDEN=1 and read the difference");
}

#[test]
fn the_shirts_documents_are_the_golden_ones() {
    assert_golden("shirts.v3.json", &v3_of(&[&shirts()], "v1"));
    assert_golden("shirts.v2.json", &v2_of(&[&shirts()]));
}

#[test]
fn what_a_schema_publishes_in_each_form() {
    let either = json!([{"type": "integer"}, {"type": "string"}]);
    let rows: &[(&str, Value, Value, Value)] = &[
        (
            "default",
            json!({"type": "string", "default": "x"}),
            json!({"type": "string", "default": "x"}),
            json!({"type": "string"}),
        ),
        (
            "default null is no default",
            json!({"type": "string", "default": null}),
            json!({"type": "string"}),
            json!({"type": "string"}),
        ),
        (
            "nullable",
            json!({"type": "object", "nullable": true, "description": "d", "properties": {"a": {"type": "string"}}}),
            json!({"type": "object", "nullable": true, "description": "d", "properties": {"a": {"type": "string"}}}),
            json!({"description": "d"}),
        ),
        (
            "nullable: false is nothing",
            json!({"type": "string", "nullable": false}),
            json!({"type": "string"}),
            json!({"type": "string"}),
        ),
        (
            "a nullable property leaves required",
            json!({"type": "object", "required": ["a", "b"], "properties": {"a": {"type": "string", "nullable": true}, "b": {"type": "string"}}}),
            json!({"type": "object", "required": ["a", "b"], "properties": {"a": {"type": "string", "nullable": true}, "b": {"type": "string"}}}),
            json!({"type": "object", "required": ["b"], "properties": {"a": {}, "b": {"type": "string"}}}),
        ),
        (
            "required that becomes empty goes",
            json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "string", "nullable": true}}}),
            json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "string", "nullable": true}}}),
            json!({"type": "object", "properties": {"a": {}}}),
        ),
        (
            "nullable values of a map",
            json!({"type": "object", "required": ["a"], "additionalProperties": {"type": "string", "nullable": true}}),
            json!({"type": "object", "required": ["a"], "additionalProperties": {"type": "string", "nullable": true}}),
            json!({"type": "object", "additionalProperties": {}}),
        ),
        (
            "junctors",
            json!({"type": "object", "allOf": [{"required": ["a"]}], "anyOf": [{"minProperties": 1}], "oneOf": [{"required": ["b"]}], "not": {"required": ["c"]}}),
            json!({"type": "object", "allOf": [{"required": ["a"]}], "anyOf": [{"minProperties": 1}], "oneOf": [{"required": ["b"]}], "not": {"required": ["c"]}}),
            json!({"type": "object"}),
        ),
        (
            "int-or-string",
            json!({"x-kubernetes-int-or-string": true}),
            json!({"x-kubernetes-int-or-string": true, "anyOf": either}),
            json!({"x-kubernetes-int-or-string": true}),
        ),
        (
            "int-or-string that declares its types itself",
            json!({"x-kubernetes-int-or-string": true, "anyOf": either}),
            json!({"x-kubernetes-int-or-string": true, "anyOf": either}),
            json!({"x-kubernetes-int-or-string": true}),
        ),
        (
            "int-or-string with another anyOf",
            json!({"x-kubernetes-int-or-string": true, "anyOf": [{"pattern": "x"}]}),
            json!({"x-kubernetes-int-or-string": true, "anyOf": [{"pattern": "x"}], "allOf": [{"anyOf": either}]}),
            json!({"x-kubernetes-int-or-string": true}),
        ),
        (
            "preserve-unknown-fields",
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": {"type": "string"}}}),
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": {"type": "string"}}}),
            json!({"x-kubernetes-preserve-unknown-fields": true}),
        ),
        (
            "an array without items",
            json!({"type": "array", "x-kubernetes-preserve-unknown-fields": true, "items": {"type": "object"}}),
            json!({"type": "array", "x-kubernetes-preserve-unknown-fields": true, "items": {"type": "object"}}),
            json!({"x-kubernetes-preserve-unknown-fields": true}),
        ),
        (
            "value validations, list and map types, rules",
            json!({"type": "integer", "format": "int64", "minimum": 0, "maximum": 100.0, "enum": [1, 2], "title": "t", "example": 1,
                "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "x-kubernetes-map-type": "atomic",
                "x-kubernetes-validations": [{"rule": "self > 0", "message": ""}]}),
            json!({"type": "integer", "format": "int64", "minimum": 0, "maximum": 100, "enum": [1, 2], "title": "t", "example": 1,
                "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "x-kubernetes-map-type": "atomic",
                "x-kubernetes-validations": [{"rule": "self > 0"}]}),
            json!({"type": "integer", "format": "int64", "minimum": 0, "maximum": 100, "enum": [1, 2], "title": "t", "example": 1,
                "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "x-kubernetes-map-type": "atomic",
                "x-kubernetes-validations": [{"rule": "self > 0"}]}),
        ),
        (
            "an unknown keyword",
            json!({"type": "string", "readOnly": true, "x-other": 1}),
            json!({"type": "string"}),
            json!({"type": "string"}),
        ),
    ];
    for (what, schema, expected_v3, expected_v2) in rows {
        assert_eq!(publish(schema, OpenApiVersion::V3), *expected_v3, "{what}, v3");
        assert_eq!(publish(schema, OpenApiVersion::V2), *expected_v2, "{what}, v2");
    }
}

#[test]
fn a_bound_is_printed_as_go_prints_a_float64() {
    for (bound, expected) in [
        ("100.0", "100"),
        ("1e2", "100"),
        ("0.5", "0.5"),
        ("9007199254740993", "9007199254740992"),
        ("9223372036854775807", "9223372036854776000"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("-3", "-3"),
    ] {
        let schema: Value = serde_json::from_str(&format!("{{\"maximum\": {bound}}}")).unwrap();
        assert_eq!(publish(&schema, OpenApiVersion::V3)["maximum"].to_string(), expected, "{bound}");
    }
}

#[test]
fn embedded_resources_get_their_type_and_metadata() {
    let schema = json!({"type": "object", "properties": {"template": {
        "type": "object", "x-kubernetes-embedded-resource": true, "required": ["kind"], "properties": {"spec": {"type": "object"}}},
        "any": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}}});
    let crd = with_schema(schema);
    for (form, any_is_filled) in [(OpenApiVersion::V3, true), (OpenApiVersion::V2, false)] {
        let [(_, kind), _] = with_shared(|shared| definitions::of_version(&crd, &crd.versions[0], form, shared));
        let template = &kind["properties"]["template"];
        assert_eq!(template["required"], json!(["kind", "apiVersion"]), "{form:?}");
        for name in ["apiVersion", "kind", "metadata", "spec"] {
            assert!(template["properties"][name].is_object(), "{form:?} {name}");
        }
        assert_eq!(kind["properties"]["any"]["properties"].is_object(), any_is_filled, "{form:?}");
    }
}

fn with_schema(schema: Value) -> Crd {
    let mut crd = shirts();
    crd.versions.truncate(1);
    crd.versions[0].schema = schema.as_object().map(Schema::from_object);
    crd
}

#[test]
fn a_schema_that_cannot_be_published_becomes_a_bare_object() {
    let kinds = json!([{"group": "stable.example.com", "version": "v1", "kind": "Shirt"}]);
    let fields = json!([{"fieldPath": "spec.color"}, {"fieldPath": "spec.size"}]);
    let bare = json!({"type": "object", super::GROUP_VERSION_KIND: kinds, SELECTABLE_FIELDS: fields});
    let rows: &[(&str, Option<Value>, &[OpenApiVersion])] = &[
        ("no schema", None, &[OpenApiVersion::V2, OpenApiVersion::V3]),
        (
            "invalid type",
            Some(json!({"type": "object", "properties": {"a": {"type": "text"}}})),
            &[OpenApiVersion::V2, OpenApiVersion::V3],
        ),
        (
            "no type",
            Some(json!({"type": "object", "properties": {"a": {}}})),
            &[OpenApiVersion::V2, OpenApiVersion::V3],
        ),
        ("root is no object", Some(json!({"type": "string"})), &[OpenApiVersion::V2, OpenApiVersion::V3]),
        (
            "type in a branch",
            Some(json!({"type": "object", "anyOf": [{"type": "object"}]})),
            &[OpenApiVersion::V2, OpenApiVersion::V3],
        ),
        (
            "a reference",
            Some(json!({"type": "object", "properties": {"a": {"$ref": "#/x"}}})),
            &[OpenApiVersion::V2, OpenApiVersion::V3],
        ),
        (
            "root preserves unknown fields",
            Some(
                json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": {"type": "string"}}}),
            ),
            &[OpenApiVersion::V2],
        ),
    ];
    for (what, schema, bare_in) in rows {
        let mut crd = with_schema(json!({}));
        crd.versions[0].schema = schema.as_ref().and_then(Value::as_object).map(Schema::from_object);
        for form in [OpenApiVersion::V2, OpenApiVersion::V3] {
            let [(_, kind), _] = with_shared(|shared| definitions::of_version(&crd, &crd.versions[0], form, shared));
            assert_eq!(kind == bare, bare_in.contains(&form), "{what}, {form:?}: {kind}");
        }
    }
    let mut crd = with_schema(json!({"type": "object"}));
    crd.preserve_unknown_fields = true;
    let [(_, kind), _] =
        with_shared(|shared| definitions::of_version(&crd, &crd.versions[0], OpenApiVersion::V2, shared));
    assert_eq!(kind, bare, "the CRD preserves unknown fields");
}

#[test]
fn which_schemas_are_structural() {
    let either = json!([{"type": "integer"}, {"type": "string"}]);
    let of = |property: Value| json!({"type": "object", "properties": {"a": property}});
    let rows = [
        ("plain", true, of(json!({"type": "string"}))),
        ("values of a map at the root", false, json!({"type": "object", "additionalProperties": {"type": "string"}})),
        ("values of a map", true, of(json!({"type": "object", "additionalProperties": {"type": "string"}}))),
        ("a map without values", true, of(json!({"type": "object", "additionalProperties": false}))),
        ("int-or-string with its anyOf", true, of(json!({"x-kubernetes-int-or-string": true, "anyOf": either}))),
        (
            "int-or-string with its anyOf in allOf",
            true,
            of(json!({"x-kubernetes-int-or-string": true, "allOf": [{"anyOf": either}, {"pattern": "x"}]})),
        ),
        (
            "int-or-string with its anyOf in the second of allOf",
            false,
            of(json!({"x-kubernetes-int-or-string": true, "allOf": [{"pattern": "x"}, {"anyOf": either}]})),
        ),
        (
            "int-or-string with a third choice",
            false,
            of(
                json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}, {"pattern": "x"}]}),
            ),
        ),
        (
            "int-or-string that preserves",
            false,
            of(json!({"x-kubernetes-int-or-string": true, "x-kubernetes-preserve-unknown-fields": true})),
        ),
        ("a list without items", false, of(json!({"type": "array"}))),
        ("a list with a list of items", false, of(json!({"type": "array", "items": [{"type": "string"}]}))),
        ("no type, but preserving", true, of(json!({"x-kubernetes-preserve-unknown-fields": true}))),
        ("preserving: false", false, of(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": false}))),
        ("embedded and empty", false, of(json!({"type": "object", "x-kubernetes-embedded-resource": true}))),
        ("embedded, no object", false, of(json!({"type": "string", "x-kubernetes-embedded-resource": true}))),
        ("an empty unsupported keyword", true, json!({"type": "object", "definitions": {}, "id": ""})),
        ("an unsupported keyword", false, json!({"type": "object", "definitions": {"a": {"type": "string"}}})),
        ("a branch that restricts", true, of(json!({"type": "string", "anyOf": [{"pattern": "x"}, {"enum": ["y"]}]}))),
        ("a branch with a description", false, of(json!({"type": "string", "anyOf": [{"description": "x"}]}))),
        ("a branch with a default", false, of(json!({"type": "string", "not": {"default": "x"}}))),
        (
            "a branch with rules",
            false,
            of(json!({"type": "string", "allOf": [{"x-kubernetes-validations": [{"rule": "x"}]}]})),
        ),
        ("a branch with values", false, of(json!({"type": "string", "allOf": [{"additionalProperties": true}]}))),
        (
            "a branch on a declared property",
            true,
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "oneOf": [{"properties": {"a": {"pattern": "x"}}}]}),
        ),
        (
            "a branch on an undeclared property",
            false,
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "oneOf": [{"properties": {"b": {"pattern": "x"}}}]}),
        ),
        (
            "a branch that requires an undeclared property",
            true,
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "oneOf": [{"required": ["b"]}]}),
        ),
        (
            "a branch on metadata",
            false,
            json!({"type": "object", "properties": {"metadata": {"type": "object"}}, "oneOf": [{"properties": {"metadata": {}}}]}),
        ),
        (
            "metadata with names",
            true,
            json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"name": {"type": "string"}}}}}),
        ),
        (
            "metadata with labels",
            false,
            json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}}),
        ),
        ("metadata of another type", false, json!({"type": "object", "properties": {"metadata": {"type": "string"}}})),
        ("kind of another type", false, json!({"type": "object", "properties": {"kind": {"type": "integer"}}})),
    ];
    for (what, expected, schema) in rows {
        assert_eq!(structure::is_structural(schema.as_object().unwrap()), expected, "{what}");
    }
}

#[test]
fn the_extension_is_on_kind_and_list_and_nowhere_else() {
    let expected = json!([{"fieldPath": "spec.color"}, {"fieldPath": "spec.size"}]);
    let v3 = v3_of(&[&shirts()], "v1");
    let v2 = v2_of(&[&shirts()]);
    for (form, definitions) in [("v3", &v3["components"]["schemas"]), ("v2", &v2["definitions"])] {
        for kind in ["Shirt", "ShirtList"] {
            assert_eq!(
                definitions[format!("com.example.stable.v1.{kind}")][SELECTABLE_FIELDS],
                expected,
                "{form} {kind}"
            );
        }
    }
    assert_eq!(v3.to_string().matches(SELECTABLE_FIELDS).count(), 2);
    // v1 and v1beta1, Kind and List.
    assert_eq!(v2.to_string().matches(SELECTABLE_FIELDS).count(), 4);
}

#[test]
fn a_version_without_fields_has_no_extension() {
    let mut crd = shirts();
    crd.versions.iter_mut().for_each(|version| version.selectable_fields.clear());
    assert!(!v3_of(&[&crd], "v1").to_string().contains(SELECTABLE_FIELDS));
    assert!(!v2_of(&[&crd]).to_string().contains(SELECTABLE_FIELDS));
}

#[test]
fn one_leading_dot_is_taken_from_a_path() {
    let paths = [".spec.a", "..b", "c", ""].map(str::to_owned);
    let fields = selectable::of_custom_resource(&paths).unwrap();
    assert_eq!(fields, json!([{"fieldPath": "spec.a"}, {"fieldPath": ".b"}, {"fieldPath": "c"}, {"fieldPath": ""}]));
}

#[test]
fn crds_of_one_group_version_share_a_document() {
    let (shirts, inks) = (shirts(), inks());
    let document = v3_of(&[&shirts, &inks], "v1");
    for name in ["Shirt", "ShirtList", "Ink", "InkList"] {
        assert!(document["components"]["schemas"][format!("com.example.stable.v1.{name}")].is_object(), "{name}");
    }
    let paths: Vec<&String> = document["paths"].as_object().unwrap().keys().collect();
    assert_eq!(
        paths,
        [
            "/apis/stable.example.com/v1/inks",
            "/apis/stable.example.com/v1/inks/{name}",
            "/apis/stable.example.com/v1/namespaces/{namespace}/shirts",
            "/apis/stable.example.com/v1/namespaces/{namespace}/shirts/{name}",
            "/apis/stable.example.com/v1/namespaces/{namespace}/shirts/{name}/scale",
            "/apis/stable.example.com/v1/namespaces/{namespace}/shirts/{name}/status",
            "/apis/stable.example.com/v1/shirts",
        ]
    );
    assert_eq!(document, v3_of(&[&inks, &shirts], "v1"), "the order of CRDs does not matter");
}

#[test]
fn a_change_of_selectable_fields_alone_changes_the_hash_and_both_definitions() {
    let (before, mut after, inks) = (shirts(), shirts(), inks());
    after.versions[0].selectable_fields = vec![".spec.color".to_owned()];
    let (old, new) = (v3_of(&[&before, &inks], "v1"), v3_of(&[&after, &inks], "v1"));
    assert_ne!(OpenApiDocument::new(&old).hash, OpenApiDocument::new(&new).hash);
    let changed: Vec<&String> = old["components"]["schemas"]
        .as_object()
        .unwrap()
        .iter()
        .filter(|(name, definition)| new["components"]["schemas"][*name] != **definition)
        .map(|(name, _)| name)
        .collect();
    assert_eq!(changed, ["com.example.stable.v1.Shirt", "com.example.stable.v1.ShirtList"]);
    assert_eq!(old["paths"], new["paths"]);
    assert_ne!(OpenApiDocument::new(&v2_of(&[&before])).hash, OpenApiDocument::new(&v2_of(&[&after])).hash);
}

#[test]
fn a_version_that_is_not_served_has_no_document() {
    let crd = shirts();
    with_shared(|shared| {
        assert!(v3::custom_resources(&[&crd], "stable.example.com", "v1alpha1", shared).is_none());
        assert!(v3::custom_resources(&[&crd], "other.example.com", "v1", shared).is_none());
    });
    assert!(!v2_of(&[&crd]).to_string().contains("v1alpha1"));
}

#[test]
fn only_definitions_that_are_referred_to_are_published() {
    let document = v3_of(&[&inks()], "v1");
    let names: Vec<&str> = document["components"]["schemas"]
        .as_object()
        .unwrap()
        .keys()
        .map(|name| name.rsplit_once('.').unwrap().1)
        .collect();
    assert_eq!(
        names,
        ["Ink", "InkList", "DeleteOptions", "ListMeta", "ObjectMeta", "Patch", "Status", "Time"],
        "neither Scale nor Unused"
    );
    let cycle = Map::from_iter([
        ("a".to_owned(), json!({"$ref": "#/definitions/b"})),
        ("b".to_owned(), json!({"$ref": "#/definitions/a"})),
    ]);
    assert_eq!(reachable(&[&json!({"$ref": "#/definitions/a"})], &cycle).len(), 2, "a cycle ends");
}

#[test]
fn operations_are_named_as_upstream_names_them() {
    let document = v3_of(&[&shirts(), &inks()], "v1");
    let root = "/apis/stable.example.com/v1";
    for (path, method, id, action, description) in [
        ("/shirts", "get", "listStableExampleComV1ShirtForAllNamespaces", "list", "list objects of kind Shirt"),
        (
            "/namespaces/{namespace}/shirts",
            "get",
            "listStableExampleComV1NamespacedShirt",
            "list",
            "list objects of kind Shirt",
        ),
        ("/namespaces/{namespace}/shirts", "post", "createStableExampleComV1NamespacedShirt", "post", "create a Shirt"),
        (
            "/namespaces/{namespace}/shirts",
            "delete",
            "deleteStableExampleComV1CollectionNamespacedShirt",
            "deletecollection",
            "delete collection of Shirt",
        ),
        (
            "/namespaces/{namespace}/shirts/{name}",
            "put",
            "replaceStableExampleComV1NamespacedShirt",
            "put",
            "replace the specified Shirt",
        ),
        (
            "/namespaces/{namespace}/shirts/{name}",
            "delete",
            "deleteStableExampleComV1NamespacedShirt",
            "delete",
            "delete a Shirt",
        ),
        (
            "/namespaces/{namespace}/shirts/{name}/scale",
            "patch",
            "patchStableExampleComV1NamespacedShirtScale",
            "patch",
            "partially update scale of the specified Shirt",
        ),
        ("/inks/{name}", "get", "readStableExampleComV1Ink", "get", "read the specified Ink"),
        ("/inks", "post", "createStableExampleComV1Ink", "post", "create an Ink"),
    ] {
        let operation = &document["paths"][format!("{root}{path}")][method];
        assert_eq!(operation["operationId"], id, "{path} {method}");
        assert_eq!(operation["x-kubernetes-action"], action, "{path} {method}");
        assert_eq!(operation["description"], description, "{path} {method}");
        assert_eq!(operation["tags"], json!(["stableExampleCom_v1"]), "{path} {method}");
        let kind = if path.contains("ink") { "Ink" } else { "Shirt" };
        let expected = json!({"group": "stable.example.com", "version": "v1", "kind": kind});
        assert_eq!(operation[super::GROUP_VERSION_KIND], expected, "{path} {method}");
    }
}

#[test]
fn descriptions_of_parameters_come_from_the_shared_texts() {
    let document = v3_of(&[&inks()], "v1");
    let described = |method: &str, name: &str| -> Value {
        let parameters = document["paths"]["/apis/stable.example.com/v1/inks/{name}"][method]["parameters"].clone();
        let found = parameters.as_array().unwrap().iter().find(|parameter| parameter["name"] == name).cloned();
        found.unwrap()["description"].clone()
    };
    assert_eq!(described("put", "fieldManager"), "Who.");
    assert_eq!(described("patch", "fieldManager"), "Who applies.");
    assert_eq!(described("put", "dryRun"), Value::Null);
}

#[test]
fn merging_renames_different_definitions_and_shares_equal_ones() {
    let name = definition_name("stable.example.com", "v1", "Shirt");
    let list = format!("{name}List");
    let alone = v2_of(&[&shirts()]);
    let merged = |present: Value| -> Value {
        let mut document = base();
        document["definitions"][&name] = present;
        with_shared(|shared| v2::merge(&mut document, &[&shirts()], shared));
        document
    };

    let mut equal = alone["definitions"][&name].clone();
    equal[super::GROUP_VERSION_KIND] = json!([{"group": "g", "version": "v", "kind": "K"}]);
    let document = merged(equal);
    assert_eq!(document["definitions"][&name][super::GROUP_VERSION_KIND].as_array().unwrap().len(), 2, "kinds united");
    assert_eq!(document["definitions"].get(format!("{name}_v2")), None);

    let mut other = alone["definitions"][&name].clone();
    other.as_object_mut().unwrap().remove(SELECTABLE_FIELDS);
    let document = merged(other.clone());
    let renamed = format!("{name}_v2");
    assert_eq!(document["definitions"][&name], other, "the base keeps its own");
    assert_eq!(document["definitions"][&renamed], alone["definitions"][&name]);
    let items = &document["definitions"][&list]["properties"]["items"]["items"]["$ref"];
    assert_eq!(*items, format!("#/definitions/{renamed}"), "references follow");
    assert!(!document["paths"].to_string().contains(&format!("{name}\"")), "references of paths follow");
}

#[test]
fn merging_keeps_paths_and_definitions_of_the_base() {
    let mut document = v2_of(&[&shirts()]);
    let before = document.clone();
    with_shared(|shared| v2::merge(&mut document, &[&shirts()], shared));
    assert_eq!(document, before, "merging again changes nothing");

    let mut changed = shirts();
    changed.versions[0].selectable_fields.clear();
    with_shared(|shared| v2::merge(&mut document, &[&changed], shared));
    assert_eq!(document, before, "definitions that only known paths need are not added");
}

#[test]
fn definitions_lose_their_v3_form() {
    let definition = json!({"type": "object", "properties": {
        "default": {"type": "string", "default": "x"},
        "metadata": {"allOf": [{"$ref": "#/components/schemas/M"}], "description": "d", "default": {}},
        "port": {"oneOf": [{"type": "integer"}, {"type": "string"}], "format": "int-or-string"},
        "items": {"type": "array", "items": {"$ref": "#/components/schemas/I"}}}});
    assert_eq!(
        v2::from_v3(&definition),
        json!({"type": "object", "properties": {
            "default": {"type": "string"},
            "metadata": {"$ref": "#/definitions/M", "description": "d"},
            "port": {"type": "string", "format": "int-or-string"},
            "items": {"type": "array", "items": {"$ref": "#/definitions/I"}}}})
    );
}

#[test]
fn documents_of_a_cluster_get_the_extension_on_kinds_that_are_known() {
    let of = |group: &str, version: &str, kind: &str| json!({"group": group, "version": version, "kind": kind});
    let kinds = super::GROUP_VERSION_KIND;
    let schemas = json!({
        "pod": {kinds: [of("", "v1", "Pod")]},
        "list": {kinds: [of("", "v1", "PodList")]},
        "published": {kinds: [of("", "v1", "Pod")], SELECTABLE_FIELDS: [{"fieldPath": "own"}]},
        "shared": {kinds: [of("", "v1", "Pod"), of("apps", "v1", "Pod")]},
        "other": {kinds: [of("apps", "v1", "Pod")]},
        "none": {"type": "object"},
    });
    let lookup = |group: &str, version: &str, kind: &str| {
        let entry = |path: &str, default: Option<&str>, description: Option<&str>| SelectableEntry {
            field_path: path.to_owned(),
            default: default.map(str::to_owned),
            description: description.map(str::to_owned),
        };
        (group.is_empty() && version == "v1" && kind == "Pod")
            .then(|| vec![entry("metadata.name", None, None), entry("spec.hostNetwork", Some("false"), Some("Text."))])
    };
    let expected = json!([{"fieldPath": "metadata.name"}, {"fieldPath": "spec.hostNetwork", "default": "false", "description": "Text."}]);
    for (place, mut document) in [
        ("/definitions", json!({"definitions": schemas})),
        ("/components/schemas", json!({"components": {"schemas": schemas}})),
    ] {
        assert_eq!(selectable::annotate(&mut document, &lookup), 2, "{place}");
        let found = document.pointer(place).unwrap();
        assert_eq!(found["pod"][SELECTABLE_FIELDS], expected, "{place}");
        assert_eq!(found["list"][SELECTABLE_FIELDS], expected, "{place}");
        assert_eq!(found["published"][SELECTABLE_FIELDS], json!([{"fieldPath": "own"}]), "{place}");
        for untouched in ["shared", "other", "none"] {
            assert_eq!(found[untouched], schemas[untouched], "{place} {untouched}");
        }
    }
}

#[test]
fn a_hash_is_sha512_in_capitals_and_the_index_carries_it() {
    let empty = "CF83E1357EEFB8BDF1542850D66D8007D620E4050B5715DC83F4A921D36CE9CE47D0D13C5D85F2B0FF8318D2877EEC2F63B931BD47417A81A538327AF927DA3E";
    assert_eq!(hash::sha512(b""), empty);
    assert_eq!(
        hash::index([("api/v1", "AA"), ("apis/a b/v1", "BB")]),
        json!({"paths": {
            "api/v1": {"serverRelativeURL": "/openapi/v3/api/v1?hash=AA"},
            "apis/a b/v1": {"serverRelativeURL": "/openapi/v3/apis/a%20b/v1?hash=BB"}}})
    );
}
