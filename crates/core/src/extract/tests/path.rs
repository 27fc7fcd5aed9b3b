//! The grammar of paths, as kube-apiserver validates it.

use serde_json::{Value, json};

use crate::extract::path::{PathError, resolve};

fn schema() -> Value {
    let text = json!({"type": "string"});
    json!({"type": "object", "properties": {
    "kind": text, "apiVersion": text,
    "spec": {"type": "object",
        "allOf": [{"properties": {"hidden": text}}],
        "properties": {
            "color": text, "a-b": text, "a/b": text, "a_b": text, "3": text, "é": text, "a b": text, "'": text,
            "\"q\"": text, "{x}": text, "*": text, "$x": text, "@x": text, "": text, "a.b": text, "'a.b'": text, ".": text,
            "m": {"type": "object", "additionalProperties": {"type": "integer"}},
            "deep": {"type": "object", "additionalProperties": {"type": "object", "properties": {"leaf": text}}},
            "any": {"type": "object", "additionalProperties": true},
            "both": {"type": "object", "properties": {}, "additionalProperties": text},
            "list": {"type": "array", "items": {"type": "object", "properties": {"x": text}}},
            "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"x": text}},
            "embedded": {"type": "object", "x-kubernetes-embedded-resource": true},
            "x": {"type": "object", "properties": {"metadata": {"type": "object", "properties": {"name": text}}}},
        }}}})
}

#[test]
fn right_paths_resolve_to_literal_segments() {
    for (json_path, expected) in [
        (".spec.color", &["spec", "color"][..]),
        (".spec.a-b", &["spec", "a-b"]),
        (".spec.a/b", &["spec", "a/b"]),
        (".spec.a_b", &["spec", "a_b"]),
        (".spec.3", &["spec", "3"]),
        (".spec.é", &["spec", "é"]),
        (".spec.a b", &["spec", "a b"]),
        (".spec.\"q\"", &["spec", "\"q\""]),
        (".spec.'", &["spec", "'"]),
        (".spec.'a.b'", &["spec", "'a.b'"]),
        (".spec.{x}", &["spec", "{x}"]),
        (".spec.*", &["spec", "*"]),
        (".spec.$x", &["spec", "$x"]),
        (".spec.@x", &["spec", "@x"]),
        (".spec..", &["spec", "."]),
        (".kind", &["kind"]),
        (".apiVersion", &["apiVersion"]),
        (".spec.m.foo", &["spec", "m", "foo"]),
        (".spec.deep.any key.leaf", &["spec", "deep", "any key", "leaf"]),
        (".spec.both.x", &["spec", "both", "x"]),
        (".spec.any.x", &["spec", "any", "x"]),
        (".spec.x.metadata.name", &["spec", "x", "metadata", "name"]),
        (".spec.open.x", &["spec", "open", "x"]),
        (".spec", &["spec"]),
    ] {
        let schema = schema();
        let resolved = resolve(json_path, &schema).unwrap_or_else(|error| panic!("{json_path}: {error}"));
        assert_eq!(resolved.segments, expected, "{json_path}");
        assert_eq!(resolved.leaf.is_none(), json_path == ".spec.any.x", "{json_path}");
    }
}

#[test]
fn invalid_paths_are_rejected_in_kube_apiservers_words() {
    const ARRAY: &str = "array notation is not allowed";
    const NO_FIELD: &str = "does not refer to a valid field";
    const END: &str = "unexpected end of JSON path";
    for (json_path, expected) in [
        (".spec['a-b']", ARRAY),
        (".spec[\"a-b\"]", ARRAY),
        (".spec.list[0]", ARRAY),
        (".spec.list[*].x", ARRAY),
        ("['spec'].color", ARRAY),
        ("[", ARRAY),
        (".spec.nope", NO_FIELD),
        (".spec.Color", NO_FIELD),
        (".Spec.color", NO_FIELD),
        (".spec.color.x", NO_FIELD),
        (".spec.list.x", NO_FIELD),
        (".spec.list.0", NO_FIELD),
        (".spec.open.unknown", NO_FIELD),
        (".spec.hidden", NO_FIELD),
        (".spec.embedded.metadata", NO_FIELD),
        (".spec.a.b", NO_FIELD),
        (".spec.a\\.b", NO_FIELD),
        (".metadata.name", NO_FIELD),
        ("..", NO_FIELD),
        ("..spec", NO_FIELD),
        (".spec.[0]", NO_FIELD),
        (".spec.any.x.y", NO_FIELD),
        (".'spec'.color", NO_FIELD),
        (".", END),
        (".spec.", END),
        (".spec.any.x.", END),
        ("spec.color", "expected [ or . but got: spec"),
        ("$.spec.color", "expected [ or . but got: $"),
        ("@.spec", "expected [ or . but got: @"),
        ("{.spec.color}", "expected [ or . but got: {"),
        (" .spec", "expected [ or . but got:  "),
        ("].spec", "expected [ or . but got: ]"),
        (".spec].color", "expected [ or . but got: ]"),
        (".spec.'a.b'x", "expected [ or . but got: x"),
        ("'spec.color", "expected [ or . but got: 'spec.color"),
        ("'spec\\'.x'.color", "expected [ or . but got: 'spec\\'.x'"),
    ] {
        let schema = schema();
        let error = resolve(json_path, &schema).err().map(|error| error.to_string());
        assert_eq!(error.as_deref(), Some(expected), "{json_path}");
    }
}

#[test]
fn the_paths_that_crash_an_api_server_are_distinguished() {
    let schema = schema();
    let long = "x".repeat(64 * 1024);
    for (json_path, crashes) in
        [(".spec.any.x.y", true), (".spec.nope", false), (long.as_str(), true), (&long[1..], false), ("spec", false)]
    {
        let crashes_upstream = match resolve(json_path, &schema).unwrap_err() {
            PathError::NotAField { crashes_upstream, .. } | PathError::ExpectedDelimiter { crashes_upstream, .. } => {
                crashes_upstream
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(crashes_upstream, crashes, "{}", &json_path[..json_path.len().min(20)]);
    }
    let dotted = format!(".{long}");
    assert_eq!(resolve(&dotted, &schema), Err(PathError::UnexpectedEnd), "a long name after a dot is no token");
    let wide = ".a".repeat(300_000);
    assert!(resolve(&wide, &schema).is_err());
    let map = json!({"additionalProperties": {"type": "string"}});
    assert_eq!(resolve(".a", &map).unwrap().normalised, "[a]");
    let odd = json!({"properties": "x", "additionalProperties": 3});
    assert!(resolve(".a", &odd).is_err(), "a schema of wrong types has no fields");
}

#[test]
fn map_keys_and_properties_are_normalised_apart() {
    let schema = schema();
    assert_eq!(resolve(".spec.m.foo", &schema).unwrap().normalised, "spec.m[foo]");
    assert_eq!(resolve(".spec.deep.k.leaf", &schema).unwrap().normalised, "spec.deep[k].leaf");
}
