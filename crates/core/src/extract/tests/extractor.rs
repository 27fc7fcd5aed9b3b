//! Extractors: the records of objects, labels, and the form of built-in objects.

use bytes::Bytes;
use serde_json::json;

use crate::crd::Crd;
use crate::extract::{Extractor, FieldRef, InvalidObject};
use crate::model::{FieldIndex, Version, fnv1a};

/// A definition with one version, `v1`, of the given schema and paths.
pub(super) fn crd(scope: &str, schema: serde_json::Value, paths: &[&str]) -> Crd {
    let fields: Vec<_> = paths.iter().map(|path| json!({"jsonPath": path})).collect();
    Crd::read(&json!({
        "metadata": {"name": "shirts.stable.example.com"},
        "spec": {
            "group": "stable.example.com", "scope": scope,
            "names": {"plural": "shirts", "kind": "Shirt"},
            "versions": [{"name": "v1", "served": true, "storage": true, "selectableFields": fields,
                "schema": {"openAPIV3Schema": schema}}],
        }
    }))
    .unwrap()
}

fn shirts() -> Extractor {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "color": {"type": "string", "enum": ["blue", "green", null], "nullable": true, "default": "blue"},
        "size": {"type": "integer", "format": "int64"}}}}});
    Extractor::custom_resource(&crd("Namespaced", schema, &[".spec.color", ".spec.nope", ".spec.size"]), "v1")
}

pub(super) fn values(plan: &Extractor, object: &str) -> Vec<String> {
    let record = plan.extract(Bytes::copy_from_slice(object.as_bytes())).unwrap();
    record.texts.values().map(|(_, text)| text.to_owned()).collect()
}

#[test]
fn a_record_has_key_version_labels_values_and_spans() {
    let object = concat!(
        " {\"apiVersion\": \"stable.example.com/v1\", \"kind\":\"Shirt\",\"metadata\":{\"name\":\"a\",\"namespace\":\"n\",",
        "\"labels\":{\"b\":\"2\",\"a\":\"1\",\"b\":\"3\"},\"resourceVersion\":\"17\"} , \"spec\":{\"size\":1e2,\"color\":\"bl\\u0075e\"}}\n"
    );
    let record = shirts().extract(Bytes::from(object)).unwrap();
    assert_eq!(record.key.as_str(), "n/a");
    assert_eq!(record.version, Version::new(17));
    assert_eq!(record.texts.labels().collect::<Vec<_>>(), [("a", "1"), ("b", "3")]);
    assert_eq!(record.texts.values().collect::<Vec<_>>(), [(FieldIndex(0), "blue"), (FieldIndex(1), "100")]);
    assert_eq!(record.bytes, object.trim());
    let version = record.version_span.start as usize..record.version_span.end as usize;
    assert_eq!(&record.bytes[version], b"17");
    let metadata = record.metadata_span.start as usize..record.metadata_span.end as usize;
    assert!(record.bytes[metadata.clone()].starts_with(b"{\"name\"") && record.bytes[metadata].ends_with(b"\"17\"}"));
}

#[test]
fn a_record_has_the_hash_of_its_uid() {
    for (uid, expected, why) in [
        ("", "", "none"),
        (r#","uid":"2f6d6bd2-6f0a""#, "2f6d6bd2-6f0a", "a uid"),
        (r#","uid":"\u0061b""#, "ab", "with an escape"),
        (r#","uid":"a","uid":"b""#, "b", "the last one counts"),
        (r#","uid":null"#, "", "null"),
        (r#","uid":5"#, "", "no text"),
    ] {
        let object = format!(r#"{{"metadata":{{"name":"a","namespace":"n","resourceVersion":"1"{uid}}}}}"#);
        assert_eq!(shirts().extract(Bytes::from(object)).unwrap().uid_hash, fnv1a(expected), "{why}");
    }
}

#[test]
fn an_extractor_lists_the_valid_fields_and_resolves_their_labels() {
    let plan = shirts();
    let labels: Vec<&str> = plan.fields().iter().map(|field| field.label.as_str()).collect();
    assert_eq!(labels, ["spec.color", "spec.size"], "the invalid path is left out");
    assert_eq!(plan.fields()[0].allowed[..], ["blue", "green"]);
    assert_eq!(plan.fields()[0].default.as_deref(), Some("blue"));
    for (label, expected) in [
        ("metadata.name", Ok(FieldRef::Name)),
        ("metadata.namespace", Ok(FieldRef::Namespace)),
        ("spec.color", Ok(FieldRef::Field(FieldIndex(0)))),
        ("spec.size", Ok(FieldRef::Field(FieldIndex(1)))),
        (".spec.color", Err("field label not supported: .spec.color")),
        ("spec.nope", Err("field label not supported: spec.nope")),
        ("", Err("field label not supported: ")),
    ] {
        let found = plan.resolve(label);
        assert_eq!(
            found.as_ref().map_err(|error| error.message.as_str()),
            expected.as_ref().map_err(|text| *text),
            "{label}"
        );
    }
    let cluster = Extractor::custom_resource(&crd("Cluster", json!({"type": "object"}), &[]), "v1");
    assert_eq!(
        cluster.resolve("metadata.namespace").unwrap_err().to_string(),
        "field label not supported: metadata.namespace"
    );
    assert_eq!(
        Extractor::custom_resource(&crd("Cluster", json!({}), &[]), "v9").fields(),
        [],
        "a version that is not there"
    );
}

/// An object with the given members beside a minimal metadata.
fn object(members: &str) -> String {
    format!("{{\"metadata\":{{\"name\":\"a\",\"resourceVersion\":\"1\"}}{members}}}")
}

#[test]
fn absent_and_odd_values_have_texts() {
    let plan = shirts();
    for (members, expected, why) in [
        ("", ["", ""], "absent parents; the schema's default is never applied"),
        (r#","spec":null"#, ["", ""], "a null parent"),
        (r#","spec":3"#, ["", ""], "a scalar parent"),
        (r#","spec":"color""#, ["", ""], "a string parent"),
        (r#","spec":[{"color":"x"}]"#, ["", ""], "a list parent"),
        (r#","spec":{"color":null,"size":null}"#, ["", ""], "null values"),
        (r#","spec":{"color":"","size":0}"#, ["", "0"], "empty is not absent, but reads alike"),
        (r#","spec":{"color":"blue","size":-7}"#, ["blue", "-7"], "plain values"),
        (r#","spec":{"color":true,"size":1.5}"#, ["true", "1.5"], "values older than the schema"),
        (r#","spec":{"color":{"b":1,"a":null},"size":["a",2]}"#, ["map[a:<nil> b:1]", "[a 2]"], "containers"),
        (r#","spec":{"color":"a","color":"b"}"#, ["b", ""], "the last of two keys counts"),
        (r#","spec":{"color":"a","size":1},"spec":{"size":2}"#, ["", "2"], "the last of two parents counts whole"),
        (r#","spec":{"color":"a"},"spec":null"#, ["", ""], "the last of two parents counts, a null too"),
        (r#","sp\u0065c":{"c\u006flor":"x"}"#, ["x", ""], "escaped keys"),
        (r#","Spec":{"color":"x"},"spec":{"COLOR":"y"}"#, ["", ""], "case matters"),
        (
            r#","x":{"spec":{"color":"no"},"y":["}","\"]"]},"spec":{"z":[[{"color":1}]],"color":"yes"}"#,
            ["yes", ""],
            "skipping",
        ),
        (" , \"spec\" : { \"color\" : \"x\" , \"size\" : 2 }\r\n", ["x", "2"], "white space"),
    ] {
        assert_eq!(values(&plan, &object(members)), expected, "{why}");
    }
}

#[test]
fn keys_with_odd_characters_are_walked_literally() {
    let text = json!({"type": "string"});
    let schema = json!({"type": "object", "properties": {"kind": text, "apiVersion": text, "spec": {"type": "object", "properties": {
        "a b": text, "$x": text, "*": text, "a}b": text, "a\\b": text, "a,b=c": text, "é": text,
        "m": {"type": "object", "additionalProperties": text}}}}});
    let paths = [
        ".kind",
        ".apiVersion",
        ".spec.a b",
        ".spec.$x",
        ".spec.*",
        ".spec.a}b",
        ".spec.a\\b",
        ".spec.a,b=c",
        ".spec.é",
        ".spec.m.foo",
    ];
    let plan = Extractor::custom_resource(&crd("Namespaced", schema, &paths), "v1");
    assert_eq!(plan.fields().len(), paths.len());
    let spec = json!({"a b": "1", "$x": "2", "*": "3", "a}b": "4", "a": "no", "a\\b": "5", "ab": "no", "a,b=c": "6", "é": "7",
        "m": {"foo": "8"}, "foo": "no"});
    let found = values(&plan, &object(&format!(",\"kind\":\"K\",\"apiVersion\":\"V\",\"spec\":{spec}")));
    assert_eq!(found, ["K", "V", "1", "2", "3", "4", "5", "6", "7", "8"]);
}

#[test]
fn unreadable_objects_are_rejected_with_their_position() {
    let plan = shirts();
    let deep = |levels: usize| object(&format!(",\"x\":{}{}", "[".repeat(levels), "]".repeat(levels)));
    let mixed = |levels: usize| object(&format!(",\"x\":{}1{}", "[{\"a\":".repeat(levels), "}]".repeat(levels)));
    for (text, expected) in [
        (String::new(), "invalid JSON at byte 0: expected an object"),
        ("null".to_owned(), "invalid JSON at byte 0: expected an object"),
        ("[]".to_owned(), "invalid JSON at byte 0: expected an object"),
        ("{".to_owned(), "invalid JSON at byte 1: expected a key"),
        ("{}".to_owned(), "metadata.name is missing or not a string"),
        ("{\"metadata\":{}}".to_owned(), "metadata.name is missing or not a string"),
        ("{\"metadata\":{\"name\":3}}".to_owned(), "metadata.name is missing or not a string"),
        ("{\"metadata\":{\"name\":\"\"}}".to_owned(), "metadata.name is missing or not a string"),
        ("{\"metadata\":{\"name\":\"a\"}}".to_owned(), "metadata.resourceVersion is missing or not a string"),
        (
            "{\"metadata\":{\"name\":\"a\",\"namespace\":1,\"resourceVersion\":\"1\"}}".to_owned(),
            "metadata.namespace is missing or not a string",
        ),
        (
            "{\"metadata\":{\"name\":\"a\",\"resourceVersion\":1}}".to_owned(),
            "metadata.resourceVersion is missing or not a string",
        ),
        (
            "{\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"x1\"}}".to_owned(),
            "metadata.resourceVersion \"x1\" is not a number",
        ),
        (object("") + "x", "invalid JSON at byte 47: expected the end of the object"),
        (object(",\"x\":tru"), "invalid JSON at byte 51: expected a value"),
        (object(",\"x\":01"), "invalid JSON at byte 51: expected a value"),
        (object(",\"x\":{]"), "invalid JSON at byte 52: expected the bracket that closes the open object or list"),
        (object(","), "invalid JSON at byte 47: expected a key"),
        (object(" \"x\":1"), "invalid JSON at byte 47: expected a comma or the end of an object"),
        (object(",\"x\" 1"), "invalid JSON at byte 51: expected a colon"),
        (object(",\"spec\":{\"color\":\"\\q\"}"), "invalid JSON at byte 63: expected a value"),
        (deep(10_000), "invalid JSON at byte 10050: expected at most 10000 levels of nesting"),
        (mixed(5_000), "invalid JSON at byte 30046: expected at most 10000 levels of nesting"),
    ] {
        let error = plan.extract(Bytes::from(text.clone())).unwrap_err();
        assert_eq!(error.to_string(), expected, "{}", &text[..text.len().min(90)]);
    }
    assert!(plan.extract(Bytes::from(deep(9_999))).is_ok());
    assert!(plan.extract(Bytes::from(mixed(4_999))).is_ok());
    let crossed = object(&format!(",\"x\":{}{}", "[".repeat(200), "]".repeat(100) + "}" + &"]".repeat(99)));
    assert!(
        matches!(plan.extract(Bytes::from(crossed)), Err(InvalidObject::Syntax { .. })),
        "brackets are matched at any depth"
    );
}

#[test]
fn labels_are_sorted_and_of_any_form() {
    let plan = shirts();
    for (labels, expected) in [
        ("{}", &[][..]),
        ("null", &[]),
        ("3", &[]),
        ("[\"a\"]", &[]),
        (r#"{"b":"","a":"x\ny"}"#, &[("a", "x\ny"), ("b", "")]),
        (r#"{"a":"1","\u0061":"2","a":"3"}"#, &[("a", "3")]),
        (r#"{ "a.b/c" : "d" , "a" : null }"#, &[("a", ""), ("a.b/c", "d")]),
    ] {
        let text = format!("{{\"metadata\":{{\"name\":\"a\",\"labels\":{labels},\"resourceVersion\":\"1\"}}}}");
        let record = plan.extract(Bytes::from(text)).unwrap();
        let found: Vec<(&str, &str)> = record.texts.labels().collect();
        assert_eq!(found, expected, "{labels}");
    }
}

#[test]
fn built_in_objects_are_stored_in_the_form_of_a_list() {
    let plan = crate::builtin::extractor("", "v1", "Pod");
    let listed = r#"{"metadata":{"name":"p","namespace":"n","labels":{"a":"b"},"resourceVersion":"12"},"spec":{"nodeName":"x"}}"#;
    let rest = &listed[1..];
    let without_last = &listed[..listed.len() - 1];
    for (text, why) in [
        (listed.to_owned(), "as in a list"),
        (format!("{{\"kind\":\"Pod\",\"apiVersion\":\"v1\",{rest}"), "as in an event"),
        (format!("\n {{\"kind\":\"Pod\",\"apiVersion\":\"v1\",{rest} "), "as in an event, with white space around"),
        (format!("{{\"apiVersion\":\"v1\",\"kind\":\"Pod\",{rest}"), "another order"),
        (format!("{{\"kind\":\"Pod\",{rest}"), "kind alone"),
        (format!("{{\"apiVersion\":\"v1\",{rest}"), "apiVersion alone"),
        (format!("{without_last},\"kind\":\"Pod\",\"apiVersion\":\"v1\"}}"), "behind"),
        (format!("{{ \"kind\" : \"Pod\" , \"apiVersion\" : \"v1\" , {rest}"), "with white space"),
        (format!("{{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"kind\":\"Pod\",{rest}"), "twice"),
        (format!("{{\"\\u006bind\":\"Pod\",\"apiVersion\":\"v1\",{rest}"), "an escaped key"),
    ] {
        let record = plan.extract(Bytes::from(text)).unwrap();
        assert_eq!(record.bytes, listed, "{why}");
        assert_eq!((record.key.as_str(), record.version), ("n/p", Version::new(12)), "{why}");
        let part = |span: &std::ops::Range<u32>| &listed[span.start as usize..span.end as usize];
        assert_eq!(part(&record.version_span), "12", "{why}");
        assert!(
            part(&record.metadata_span).starts_with("{\"name\"") && part(&record.metadata_span).ends_with("\"12\"}"),
            "{why}"
        );
        assert_eq!(record.texts.values().next(), Some((FieldIndex(0), "x")), "{why}");
        assert_eq!(record.texts.labels().collect::<Vec<_>>(), [("a", "b")], "{why}");
    }
    let only = plan.extract(Bytes::from(r#"{"kind":"Pod","apiVersion":"v1"}"#)).unwrap_err();
    assert_eq!(only, InvalidObject::Missing { path: "metadata.name" });
}

#[test]
fn extractors_are_equal_when_a_store_can_be_reused() {
    let field = |description: &str| json!({"type": "string", "description": description});
    let plan = |description: &str, paths: &[&str]| {
        let schema = json!({"type": "object", "properties": {"a": field(description), "b": field("")}});
        Extractor::custom_resource(&crd("Namespaced", schema, paths), "v1")
    };
    assert_eq!(plan("x", &[".a"]), plan("x", &[".a", ".wrong"]));
    assert_ne!(plan("x", &[".a"]), plan("y", &[".a"]), "people see the description");
    assert_eq!(plan("x", &[".a"]).clone(), plan("x", &[".a"]));
}
