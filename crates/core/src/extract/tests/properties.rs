//! Random objects and paths: the scanner compared with a reference walk and with jsonpath-rust, and on broken bytes.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use jsonpath_rust::JsonPath;
use proptest::prelude::{Just, Strategy, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest};
use serde_json::{Value, json};

use super::extractor::crd;
use crate::extract::extra::{FieldRequest, TargetResource, accept};
use crate::extract::scan::{MOST_VALUES, locate};
use crate::extract::trie::{PathStep, Paths, Trie, is_many};
use crate::extract::value::{text, text_of};
use crate::extract::{Extractor, path};
use crate::json::cursor::bytes_read;
use fieldcache_testing::json::{keys, written};
use fieldcache_testing::nested::{self, MAX_LEVELS, on_worker_stack};

fn step() -> impl Strategy<Value = PathStep> {
    prop_oneof![5 => keys().prop_map(PathStep::Key), 1 => (0..3usize).prop_map(PathStep::Element), 2 => Just(PathStep::Any)]
}

fn paths() -> impl Strategy<Value = Vec<Vec<PathStep>>> {
    prop::collection::vec(prop::collection::vec(step(), 1..5), 1..6)
}

/// The reference walk; of repeated keys serde_json uses the last, as Go does.
fn walk<'v>(value: &'v Value, steps: &[PathStep]) -> Vec<&'v Value> {
    let Some((step, rest)) = steps.split_first() else { return vec![value] };
    let next: Vec<&Value> = match (step, value) {
        (PathStep::Key(key), Value::Object(members)) => members.get(key).into_iter().collect(),
        (PathStep::Element(place), Value::Array(items)) => items.get(*place).into_iter().collect(),
        (PathStep::Any, Value::Object(members)) => members.values().collect(),
        (PathStep::Any, Value::Array(items)) => items.iter().collect(),
        _ => Vec::new(),
    };
    next.into_iter().flat_map(|value| walk(value, rest)).collect()
}

/// The same as RFC 9535 writes it.
fn query_of(steps: &[PathStep]) -> String {
    let segments = steps.iter().map(|step| match step {
        PathStep::Key(key) => format!("[{}]", Value::from(&**key)),
        PathStep::Element(place) => format!("[{place}]"),
        PathStep::Any => "[*]".to_owned(),
    });
    format!("${}", segments.collect::<String>())
}

/// Go's rendering, written down recursively; numbers are the tables' business.
fn naive_text(value: &Value, is_nested: bool) -> String {
    match value {
        Value::Null if is_nested => "<nil>".to_owned(),
        Value::Null => String::new(),
        Value::Bool(_) => value.to_string(),
        Value::Number(_) => text_of(value),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(|item| naive_text(item, true)).collect::<Vec<_>>().join(" "))
        }
        Value::Object(members) => {
            let mut keys: Vec<&String> = members.keys().collect();
            keys.sort();
            let pairs: Vec<String> =
                keys.into_iter().map(|key| format!("{key}:{}", naive_text(&members[key], true))).collect();
            format!("map[{}]", pairs.join(" "))
        }
    }
}

/// The paths, merged, and their slots.
fn merged(paths: &[Vec<PathStep>]) -> (Trie, Vec<usize>) {
    let mut merging = Paths::default();
    let slots = paths.iter().map(|path| merging.insert(path)).collect();
    (merging.merge(usize::MAX).unwrap(), slots)
}

/// The values that the scanner finds at the paths, in their order; the values of each path are sorted.
fn scanned(bytes: &[u8], paths: &[Vec<PathStep>]) -> Vec<Vec<String>> {
    let (trie, slots) = merged(paths);
    let found = locate(&trie, bytes).unwrap_or_else(|error| panic!("{error:?}: {}", String::from_utf8_lossy(bytes)));
    let texts = |slot: usize| {
        let spans: Vec<_> = match trie.is_many(slot) {
            true => found.values(slot).collect(),
            false => found.spans.get(slot).copied().into_iter().filter(|span| !span.is_absent()).collect(),
        };
        let mut texts: Vec<String> =
            spans.into_iter().map(|span| text(span.slice(bytes)).unwrap().into_owned()).collect();
        texts.sort();
        texts
    };
    slots.into_iter().map(texts).collect()
}

#[test]
fn repeated_keys_replace_what_was_found_before() {
    // Searching all found values at each key would take quadratic time. Each value is found by up to two paths.
    let many = MOST_VALUES / 7;
    let document =
        format!("{{{}\"a\":[{}2]{}}}", "\"a\":[1],".repeat(many), "3,".repeat(many), ",\"b\":[1]".repeat(many));
    let path = |key: &str| vec![PathStep::Key(key.to_owned()), PathStep::Any];
    let found = scanned(document.as_bytes(), &[path("a"), path("b"), vec![PathStep::Any, PathStep::Any]]);
    assert_eq!(found.iter().map(Vec::len).collect::<Vec<_>>(), [many + 1, 1, many + 2]);
    assert!(found[0].iter().all(|text| text != "1"));
}

proptest! {
    #[test]
    fn the_scanner_finds_what_the_naive_walk_finds(document in written(), paths in paths()) {
        let value: Value = serde_json::from_str(&document).unwrap();
        let naive = |steps: &Vec<PathStep>| {
            let mut texts: Vec<String> = walk(&value, steps).into_iter().map(|found| naive_text(found, false)).collect();
            texts.sort();
            texts
        };
        let expected: Vec<Vec<String>> = paths.iter().map(naive).collect();
        prop_assert_eq!(scanned(document.as_bytes(), &paths), expected, "{}", document);
    }

    #[test]
    fn a_field_of_several_values_has_each_of_them_once(document in written(), steps in prop::collection::vec(step(), 1..4)) {
        let value: Value = serde_json::from_str(&document).unwrap();
        let object = format!(r#"{{"metadata":{{"name":"n","resourceVersion":"1"}},"spec":{document}}}"#);
        let wanted = query_of(&[&[PathStep::Key("spec".to_owned())], &*steps].concat());
        let base = crate::builtin::extractor("", "v1", "ConfigMap");
        let request = FieldRequest { name: "x".to_owned(), json_path: Some(wanted.clone()), printer_column: None };
        let outcome = accept(&[request], &TargetResource { extractor: &base, schema: None, columns: &[] });
        prop_assert!(outcome.problems.is_empty(), "{:?}", outcome.problems);
        let record = base.with_extra(&outcome.fields).unwrap().extract(Bytes::from(object)).unwrap();
        let found: Vec<&str> = record.texts.values().map(|(_, value)| value).collect();
        let values = walk(&value, &steps);
        if is_many(&steps) {
            let several: BTreeSet<String> =
                values.into_iter().filter(|value| !value.is_null()).map(|value| naive_text(value, false)).collect();
            prop_assert_eq!(found, several.iter().collect::<Vec<_>>(), "{} of {}", wanted, document);
        } else {
            let single = values.first().map_or_else(String::new, |value| naive_text(value, false));
            prop_assert_eq!(found, [single], "{} of {}", wanted, document);
        }
    }

    #[test]
    fn the_scanner_finds_what_jsonpath_finds_of_several_values(document in written(), steps in prop::collection::vec(step(), 1..5)) {
        let value: Value = serde_json::from_str(&document).unwrap();
        let mut expected: Vec<String> = value.query(&query_of(&steps)).unwrap().into_iter().map(text_of).collect();
        expected.sort();
        prop_assert_eq!(&scanned(document.as_bytes(), std::slice::from_ref(&steps))[0], &expected, "{} of {}", query_of(&steps), document);
    }

    #[test]
    fn the_scanner_finds_what_jsonpath_finds(document in written(), keys in prop::collection::vec("[abc]|metadata|é", 1..4)) {
        let value: Value = serde_json::from_str(&document).unwrap();
        let query = format!("$.{}", keys.join("."));
        let found: Vec<&Value> = value.query(&query).unwrap();
        prop_assert!(found.len() <= 1);
        let expected: Vec<String> = found.into_iter().map(text_of).collect();
        let steps = keys.into_iter().map(PathStep::Key).collect();
        prop_assert_eq!(scanned(document.as_bytes(), &[steps]), [expected], "{} of {}", query, document);
    }

    #[test]
    fn nested_values_are_scanned_at_any_depth(
        nested in nested::values(MAX_LEVELS - 3, &["a", "b"]),
        paths in paths(),
        steps in prop::collection::vec(prop_oneof![Just(PathStep::Any), Just(PathStep::Element(0)), Just(PathStep::Key("a".to_owned()))], 1..200),
    ) {
        let text = nested.text();
        let object = format!(r#"{{"metadata":{{"name":"n","resourceVersion":"1"}},"spec":{text},"a":[{text}]}}"#);
        let deep = [&[PathStep::Key("spec".to_owned())], &*steps].concat();
        let (trie, _) = merged(&[&*paths, &[deep]].concat());
        let (found, bytes) = on_worker_stack(|| bytes_read(|| locate(&trie, object.as_bytes())));
        let found = found.unwrap();
        prop_assert!(bytes <= object.len(), "{} of {}", bytes, object.len());
        for span in found.spans.iter().chain(found.many.iter().map(|(_, span)| span)).filter(|span| !span.is_absent()) {
            prop_assert!(on_worker_stack(|| super::super::value::text(span.slice(object.as_bytes())).is_some()));
        }
        let plan = crate::builtin::extractor("", "v1", "ConfigMap");
        let bytes = Bytes::from(object);
        let record = on_worker_stack(|| plan.extract(bytes.clone()));
        prop_assert_eq!(record.unwrap().bytes, bytes);
    }

    #[test]
    fn broken_nested_values_break_nothing(
        text in nested::texts(MAX_LEVELS, &["a", "b"]),
        paths in paths(),
        place in any::<prop::sample::Index>(),
        byte in prop::sample::select(b"\"\\{}[]:, x".to_vec()),
        is_cut in any::<bool>(),
    ) {
        let mut bytes = format!("{{\"a\":{text}").into_bytes();
        let place = place.index(bytes.len());
        bytes[place] = byte;
        bytes.truncate(if is_cut { place + 1 } else { bytes.len() });
        let (trie, _) = merged(&paths);
        let _ = on_worker_stack(|| locate(&trie, &bytes).is_ok());
    }

    #[test]
    fn no_prefix_of_an_object_is_one(document in written(), paths in paths()) {
        let (trie, _) = merged(&paths);
        for end in 0..document.trim_end().len() {
            prop_assert!(locate(&trie, &document.as_bytes()[..end]).is_err(), "{} of {}", end, document);
        }
    }

    #[test]
    fn broken_bytes_never_panic_and_valid_ones_are_never_rejected(
        document in written(),
        paths in paths(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), prop::sample::select(b"\"\\{}[]:, x0e-\xff\x00".to_vec())), 1..4),
    ) {
        let mut bytes = document.into_bytes();
        for (place, byte) in &edits {
            let place = place.index(bytes.len());
            bytes[place] = *byte;
        }
        let (trie, _) = merged(&paths);
        let found = locate(&trie, &bytes);
        if let Ok(found) = &found {
            for span in found.spans.iter().chain(found.many.iter().map(|(_, span)| span)) {
                let _ = text(span.slice(&bytes));
            }
        }
        if serde_json::from_slice::<Value>(&bytes).is_ok_and(|value| value.is_object()) {
            prop_assert!(found.is_ok(), "{:?}: {}", found, String::from_utf8_lossy(&bytes));
        }
    }

    #[test]
    fn plans_never_panic_on_broken_objects(
        document in written(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        is_built_in in any::<bool>(),
    ) {
        let name = "\"metadata\":{\"name\":\"n\",\"labels\":{\"a\":\"b\",\"c\":\"\\u0064\"},\"resourceVersion\":\"1\"}";
        let mut bytes = format!("{{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"spec\":{document},{name}}}").into_bytes();
        let is_whole = edits.is_empty();
        for (place, byte) in edits {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        let plan = if is_built_in {
            crate::builtin::extractor("", "v1", "Pod")
        } else {
            let schema = json!({"properties": {"spec": {"properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}}});
            Extractor::custom_resource(&crd("Namespaced", schema, &[".spec.a", ".spec.b"]), "v1")
        };
        match plan.extract(Bytes::from(bytes)) {
            Ok(record) => {
                prop_assert_eq!(record.texts.values().len(), plan.fields().len());
                let metadata = &record.bytes[record.metadata_span.start as usize..record.metadata_span.end as usize];
                let is_object = metadata.starts_with(b"{") && metadata.ends_with(b"}");
                prop_assert!(is_object);
                let version = &record.bytes[record.version_span.start as usize..record.version_span.end as usize];
                prop_assert_eq!(std::str::from_utf8(version).ok(), Some(&*record.version.to_string()));
            }
            Err(error) => prop_assert!(!is_whole, "{}", error),
        }
    }

    #[test]
    fn labels_are_those_of_a_map(labels in prop::collection::vec(("[ab]{1,2}|é|\"", "[ab]{0,2}|\\\\"), 0..6), is_escaped in any::<bool>()) {
        let plan = crate::builtin::extractor("", "v1", "ConfigMap");
        let written: Vec<String> = labels
            .iter()
            .map(|(key, value)| {
                let mut key = Value::from(&**key).to_string();
                if is_escaped {
                    key = key.replace('a', "\\u0061");
                }
                format!("{key}:{}", Value::from(&**value))
            })
            .collect();
        let object = format!(r#"{{"metadata":{{"name":"n","labels":{{{}}},"resourceVersion":"1"}}}}"#, written.join(","));
        let record = plan.extract(Bytes::from(object)).unwrap();
        let expected: BTreeMap<&str, &str> = labels.iter().map(|(key, value)| (&**key, &**value)).collect();
        prop_assert_eq!(record.texts.labels().collect::<Vec<_>>(), expected.into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn paths_of_any_text_are_validated_without_a_panic(text in "[.\\[\\]'\\\\a-c*$ é]{0,20}", other in any::<String>()) {
        let schema = json!({"properties": {"a": {"additionalProperties": {"properties": {"b": {"type": "string"}}}},
            "b": {"additionalProperties": true}, "'a.b'": {"type": "string"}, ".": {"type": "string"}}});
        for json_path in [&text, &other] {
            if let Ok(resolved) = path::resolve(json_path, &schema) {
                // Every segment follows a dot, so the text is the segments again.
                let rebuilt: String = resolved.segments.iter().map(|segment| format!(".{segment}")).collect();
                prop_assert_eq!(&rebuilt, json_path);
            }
        }
    }
}
