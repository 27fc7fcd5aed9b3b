//! Upstream's own cases for validation and extraction of selectable fields (apiextensions `validation_test.go`,
//! `registry/customresource/strategy_test.go`), and those it lacks: E1, E17 to E20 of our list.

use serde_json::{Value, json};

use super::extractor::{crd, values};
use crate::crd::Crd;
use crate::extract::validation::validate;
use crate::extract::{Extractor, FieldRef};

fn schema(fields: Value) -> Value {
    json!({"type": "object", "properties": fields})
}

/// Two versions with different schemas, so that nothing moves to the top level.
fn two_versions(first: &[&str], second: &[&str]) -> Crd {
    let version = |name: &str, paths: &[&str], extra: &str| {
        let fields: Vec<Value> = paths.iter().map(|path| json!({"jsonPath": path})).collect();
        json!({"name": name, "served": true, "storage": name == "v1", "selectableFields": fields, "schema": {"openAPIV3Schema":
            schema(json!({"foo": {"type": "string"}, "bar": {"type": "integer"}, "baz": {"type": "boolean"},
                "obj": {"type": "object"}, extra: {"type": "string"}}))}})
    };
    Crd::read(&json!({"metadata": {"name": "things.example.com"}, "spec": {"group": "example.com", "scope": "Cluster",
        "names": {"plural": "things", "kind": "Thing"},
        "versions": [version("v1", first, "one"), version("v2", second, "two")]}}))
    .unwrap()
}

fn found(crd: &Crd) -> Vec<(String, &'static str)> {
    validate(crd, None).causes.into_iter().map(|cause| (cause.field, cause.reason)).collect()
}

#[test]
fn v1_an_unknown_path_is_invalid_at_its_index_in_each_version() {
    let crd = two_versions(&[".foo", ".xyz", ".bar"], &[".foo", ".bar", ".abc"]);
    let expected = ["spec.versions[0].selectableFields[1].jsonPath", "spec.versions[1].selectableFields[2].jsonPath"];
    assert_eq!(found(&crd), expected.map(|field| (field.to_owned(), "FieldValueInvalid")));
}

#[test]
fn v2_an_unknown_path_of_the_hoisted_list_is_invalid_there() {
    let fields = schema(
        json!({"spec": schema(json!({"foo": {"type": "string"}})), "status": schema(json!({"phase": {"type": "string"}}))}),
    );
    let crd = crd("Namespaced", fields, &[".spec.foo", ".spec.xyz", ".status.phase"]);
    assert_eq!(found(&crd), [("spec.selectableFields[1].jsonPath".to_owned(), "FieldValueInvalid")]);
}

#[test]
fn v3_an_object_is_invalid_at_its_index_only() {
    let crd = two_versions(&[".foo", ".bar", ".obj", ".baz"], &[".foo"]);
    assert_eq!(found(&crd), [("spec.versions[0].selectableFields[2].jsonPath".to_owned(), "FieldValueInvalid")]);
}

#[test]
fn v4_a_repeated_path_is_a_duplicate_in_each_version() {
    let crd = two_versions(&[".foo", ".foo"], &[".foo", ".foo", ".bar"]);
    let expected = ["spec.versions[0].selectableFields[1].jsonPath", "spec.versions[1].selectableFields[1].jsonPath"];
    assert_eq!(found(&crd), expected.map(|field| (field.to_owned(), "FieldValueDuplicate")));
}

#[test]
fn v5_nine_fields_are_too_many() {
    let fields: serde_json::Map<String, Value> =
        (0..9).map(|number| (format!("f{number}"), json!({"type": "string"}))).collect();
    let paths: Vec<String> = (0..9).map(|number| format!(".f{number}")).collect();
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let crd = crd("Cluster", schema(Value::Object(fields)), &paths);
    assert_eq!(found(&crd), [("spec.selectableFields".to_owned(), "FieldValueTooMany")]);
}

#[test]
fn g1_a_value_and_its_absence() {
    let fields = schema(json!({"spec": schema(json!({"foo": {"type": "string"}}))}));
    let plan = Extractor::custom_resource(&crd("Cluster", fields, &[".spec.foo"]), "v1");
    let object = |spec: Value| json!({"metadata": {"name": "n", "resourceVersion": "1"}, "spec": spec}).to_string();
    assert_eq!(values(&plan, &object(json!({"foo": "x"}))), ["x"]);
    assert_eq!(values(&plan, &object(json!({}))), [""]);
    assert_eq!(plan.resolve("metadata.name"), Ok(FieldRef::Name));
    assert!(plan.resolve("metadata.namespace").is_err(), "a cluster-scoped custom resource");
}

#[test]
fn e1_integer_edges_are_exact() {
    let fields = schema(json!({"n": {"type": "integer"}}));
    let plan = Extractor::custom_resource(&crd("Cluster", fields, &[".n"]), "v1");
    for (literal, expected) in [
        ("9007199254740993", "9007199254740993"),
        ("9223372036854775807", "9223372036854775807"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("1.0", "1"),
        ("1e2", "100"),
        ("-0", "0"),
    ] {
        let object = format!("{{\"metadata\":{{\"name\":\"n\",\"resourceVersion\":\"1\"}},\"n\":{literal}}}");
        assert_eq!(values(&plan, &object), [expected], "{literal}");
    }
}

#[test]
fn e20_every_string_format_is_selectable_as_raw_text() {
    let formats = ["date", "date-time", "duration", "byte", "uuid", "ipv4", "int-or-string", "no-such-format"];
    let fields = formats.map(|format| (format.to_owned(), json!({"type": "string", "format": format})));
    let paths = formats.map(|format| format!(".{format}"));
    let paths = paths.each_ref().map(String::as_str);
    let plan = Extractor::custom_resource(&crd("Cluster", schema(fields.into_iter().collect()), &paths), "v1");
    let labels: Vec<&str> = plan.fields().iter().map(|field| field.format.as_str()).collect();
    assert_eq!(labels, formats);
    let object = json!({"metadata": {"name": "n", "resourceVersion": "1"}, "duration": "1h0m", "date-time": "2026-01-01T00:00:00.000Z"});
    assert_eq!(values(&plan, &object.to_string())[1..3], ["2026-01-01T00:00:00.000Z", "1h0m"]);
}
