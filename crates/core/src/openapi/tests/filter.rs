//! The document of a View has nothing of the resources and fields that the View does not have.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::crd::Crd;
use crate::extract::{Extractor, Prune};
use crate::openapi::filter::{DocumentFilter, FilteredResource};

/// With the field `spec.color`.
fn plan() -> Extractor {
    let properties = json!({"spec": {"type": "object", "properties": {"color": {"type": "string"}}}});
    let crd = Crd::read(&json!({
        "metadata": {"name": "shirts.e.com"},
        "spec": {
            "group": "e.com", "scope": "Namespaced", "names": {"plural": "shirts", "kind": "Shirt"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "selectableFields": [{"jsonPath": ".spec.color"}],
                "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
            }],
        },
    }));
    Extractor::custom_resource(&crd.unwrap(), "v1")
}

fn shirts(prune: Prune) -> DocumentFilter {
    let text = |text: &str| text.to_owned();
    DocumentFilter::new([FilteredResource {
        group: text("e.com"),
        version: text("v1"),
        resource: text("shirts"),
        kind: text("Shirt"),
        list_kind: text("ShirtList"),
        prune: Arc::new(prune),
        extractor: plan(),
    }])
}

fn kind(kind: &str, rest: Value) -> Value {
    let mut definition = json!({"type": "object", "x-kubernetes-group-version-kind": [{"group": "e.com", "version": "v1", "kind": kind}]});
    definition.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    definition
}

/// A list whose elements are merged by keys.
fn steps(keys: Value, step: &Value) -> Value {
    json!({"type": "array", "items": step, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys})
}

fn document(prefix: &str) -> (Value, Value) {
    let refer = |name: &str| json!({"$ref": format!("{prefix}{name}")});
    let fields = json!([{"fieldPath": "spec.color"}, {"fieldPath": "spec.secret"}]);
    let whole_step = json!({"type": "object", "properties": {
        "image": {"type": "string"}, "token": {"type": "string", "description": "hidden"}}});
    let definitions = json!({
        "Shirt": kind("Shirt", json!({
            "x-kubernetes-selectable-fields": fields,
            "x-kubernetes-validations": [{"rule": "self.spec.secret == 'hidden'"}],
            "properties": {
                "metadata": refer("ObjectMeta"),
                "spec": {"type": "object", "required": ["color", "secret"], "default": {"secret": "hidden"}, "properties": {
                    "color": {"type": "string"}, "secret": {"type": "string", "enum": ["hidden"]},
                    "steps": steps(json!(["image", "token"]), &whole_step),
                    "checks": steps(json!(["image"]), &whole_step),
                }, "allOf": [{"required": ["secret"]}, refer("Owner")], "anyOf": [{"required": ["secret"]}], "oneOf": [{"required": ["secret"]}],
                "not": {"required": ["secret"]}, "enum": [{"secret": "hidden"}]},
            },
        })),
        "ShirtList": kind("ShirtList", json!({"x-kubernetes-selectable-fields": fields, "properties": {"items": refer("Shirt")}})),
        "Hat": kind("Hat", json!({"properties": {"hidden": {"type": "string"}}})),
        "ObjectMeta": {"properties": {"owner": refer("Owner")}},
        "Owner": {"type": "object"},
        "Unused": {"type": "object"},
    });
    let item = |definition: &str| {
        let method = |parameter: &str| {
            json!({
                "parameters": [{"$ref": format!("#/parameters/{parameter}")}],
                "responses": {"200": {"schema": refer(definition)}},
            })
        };
        let parameters = [json!({"$ref": "#/parameters/pretty-1"})];
        json!({"parameters": parameters, "get": method("limit-1"), "post": method("body-1"), "delete": method("body-1")})
    };
    let paths = json!({
        "/apis/e.com/v1/shirts": item("ShirtList"),
        "/apis/e.com/v1/namespaces/{namespace}/shirts/{name}": item("Shirt"),
        "/apis/e.com/v1/namespaces/{namespace}/shirts/{name}/scale": item("Hat"),
        "/apis/e.com/v1/shirtsleeves": item("Hat"),
        "/apis/e.com/v1/hats": item("Hat"),
        "/apis/e.com/v1/": item("Hat"),
        "/version/": item("Hat"),
    });
    (paths, definitions)
}

#[test]
fn a_filtered_document_has_the_shown_parts_in_both_forms() {
    has_the_shown_parts(Prune::new([".spec.secret", ".spec.steps.token", ".spec.checks.token"]).unwrap());
    has_the_shown_parts(
        Prune::with_kept([], [".metadata", ".spec.color", ".spec.steps.image", ".spec.checks.image"]).unwrap(),
    );
}

fn has_the_shown_parts(prune: Prune) {
    let shown = shirts(prune);
    let shown_step = json!({"type": "object", "properties": {"image": {"type": "string"}}});
    let (paths, definitions) = document("#/definitions/");
    let parameters = json!({
        "body-1": {"in": "body", "name": "body", "schema": {"$ref": "#/definitions/Hat"}},
        "limit-1": {"in": "query", "name": "limit"},
        "pretty-1": {"in": "query", "name": "pretty"},
    });
    let v2 = json!({"swagger": "2.0", "paths": paths, "definitions": definitions, "parameters": parameters});
    let (paths, definitions) = document("#/components/schemas/");
    let v3 = json!({"openapi": "3.0.0", "paths": paths, "components": {"schemas": definitions}});
    for (whole, place) in [(v2, "/definitions"), (v3, "/components/schemas")] {
        let part = shown.apply(whole);
        let names = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(
            names(&part["paths"]),
            ["/apis/e.com/v1/namespaces/{namespace}/shirts/{name}", "/apis/e.com/v1/shirts"],
            "{place}: paths"
        );
        assert_eq!(names(&part["paths"]["/apis/e.com/v1/shirts"]), ["get", "parameters"], "{place}: to be read");
        if place == "/definitions" {
            assert_eq!(names(&part["parameters"]), ["limit-1", "pretty-1"], "shared parameters, none of a body");
        }
        let found = part.pointer(place).unwrap();
        assert_eq!(names(found), ["ObjectMeta", "Owner", "Shirt", "ShirtList"], "{place}: definitions");
        for definition in ["Shirt", "ShirtList"] {
            assert_eq!(
                found[definition]["x-kubernetes-selectable-fields"],
                json!([{"fieldPath": "spec.color"}]),
                "{place}"
            );
        }
        assert_eq!(
            found["Shirt"]["properties"]["spec"],
            json!({"type": "object", "required": ["color"], "properties": {
                "color": {"type": "string"},
                "steps": {"type": "array", "items": shown_step},
                "checks": steps(json!(["image"]), &shown_step),
            }, "allOf": [{"$ref": format!("#{place}/Owner")}]}),
            "{place}: the schema"
        );
        let text = part.to_string();
        for hidden in ["hidden", "secret", "token", "Hat"] {
            assert!(!text.contains(hidden), "{place}: {hidden} in {text}");
        }
    }
}

#[test]
fn documents_are_those_of_the_resources() {
    let shown = shirts(Prune::default());
    for (key, has) in [("apis/e.com/v1", true), ("apis/e.com/v2", false), ("apis/e.com", false), ("api/v1", false)] {
        assert_eq!(shown.has_document(key), has, "{key}");
    }
}
