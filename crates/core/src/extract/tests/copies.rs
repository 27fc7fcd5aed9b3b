//! Copies of pruned data inside the object: against the same done to parsed values.

use proptest::prelude::{Just, Strategy, prop_oneof};
use proptest::{collection, option, prop_assert, prop_assert_eq, proptest, sample};
use serde_json::{Map, Value, json};

use crate::extract::Prune;
use crate::extract::json_path::JsonPath;
use crate::extract::prune::copies::ANNOTATIONS;
use crate::extract::prune::path::{InvalidPath, names, prunable_names};
use crate::extract::trie::PathStep;
use fieldcache_testing::nested::{MAX_LEVELS, Nested, Nesting, on_worker_stack};

const APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

fn pruned(paths: &[&str], object: &Value) -> Value {
    let found = Prune::new(paths.iter().copied()).unwrap().apply(object.to_string().as_bytes(), []).unwrap().0;
    serde_json::from_slice(&found).unwrap()
}

#[test]
fn paths_are_parsed_or_rejected_with_a_reason() {
    let rows = [
        (".spec", Ok(&["spec"][..])),
        (".spec.secret", Ok(&["spec", "secret"])),
        (".metadata.annotations['example.com/a.b']", Ok(&["metadata", "annotations", "example.com/a.b"])),
        (".metadata.annotations[\"it's\"].x", Ok(&["metadata", "annotations", "it's", "x"])),
        (".data['tls.key']['[0]']", Ok(&["data", "tls.key", "[0]"])),
        (".spec.grün", Ok(&["spec", "grün"])),
        ("", Err(InvalidPath::NoDot)),
        ("spec", Err(InvalidPath::NoDot)),
        (".", Err(InvalidPath::NoDot)),
        ("['spec']", Err(InvalidPath::NoDot)),
        (".['spec']", Err(InvalidPath::NoDot)),
        (".spec.", Err(InvalidPath::EmptyName { at: 5 })),
        (".spec..a", Err(InvalidPath::EmptyName { at: 5 })),
        (".spec['']", Err(InvalidPath::EmptyName { at: 5 })),
        (".spec[0]", Err(InvalidPath::Bracket { at: 5 })),
        (".spec[*].a", Err(InvalidPath::Bracket { at: 5 })),
        (".spec['a\"]", Err(InvalidPath::Bracket { at: 5 })),
        (".spec['a'", Err(InvalidPath::Bracket { at: 5 })),
        (".spec['ü", Err(InvalidPath::Bracket { at: 5 })),
        (".spec[", Err(InvalidPath::Bracket { at: 5 })),
        (".spec['a']b", Err(InvalidPath::NeedsQuotes { at: 10, found: 'b' })),
        (".spec]", Err(InvalidPath::NeedsQuotes { at: 5, found: ']' })),
        (".it's", Err(InvalidPath::NeedsQuotes { at: 3, found: '\'' })),
        (".kind", Err(InvalidPath::Required)),
        (".metadata", Err(InvalidPath::Required)),
        (".metadata.uid", Err(InvalidPath::Required)),
        (".metadata['name']", Err(InvalidPath::Required)),
        (".metadata.labels", Err(InvalidPath::Required)),
        (".metadata[\"labels\"]['a.b/c']", Err(InvalidPath::Required)),
        (".metadata.labelsOf", Ok(&["metadata", "labelsOf"])),
        (".metadata.name.x", Ok(&["metadata", "name", "x"])),
    ];
    for (path, expected) in rows {
        let expected = expected.map(|names| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!(prunable_names(path), expected, "{path}");
        let is_kept = expected.is_ok() || expected == Err(InvalidPath::Required);
        assert_eq!(names(path).is_ok(), is_kept, "{path}: any part can be kept");
        assert_eq!(Prune::with_kept([], [".spec.ok", path]).is_ok(), is_kept, "{path}");
        assert_eq!(Prune::new([".spec.ok", path]).is_ok(), expected.is_ok(), "{path}");
    }
}

#[test]
fn keys_with_dots_are_left_out() {
    let object = json!({"data": {"tls.key": "s", "tls.crt": "c", "tls": {"key": 1}}});
    assert_eq!(pruned(&[".data['tls.key']"], &object), json!({"data": {"tls.crt": "c", "tls": {"key": 1}}}));
    assert_eq!(pruned(&[".data.tls.key"], &object), json!({"data": {"tls.key": "s", "tls.crt": "c", "tls": {}}}));
}

#[test]
fn copies_are_pruned_with_their_data_and_only_then() {
    let applied = json!({"spec": {"secret": "s3cret"}}).to_string();
    let mut annotations: Map<String, Value> =
        ANNOTATIONS.iter().map(|name| ((*name).to_owned(), json!(applied))).collect();
    annotations.insert("example.com/own".to_owned(), json!("kept"));
    let object = json!({
        "metadata": {
            "name": "n", "annotations": annotations,
            "managedFields": [
                {
                    "manager": "kubectl", "operation": "Apply", "apiVersion": "v1", "time": "t", "fieldsType": "FieldsV1",
                    "fieldsV1": {
                        "f:metadata": {"f:annotations": {".": {}, format!("f:{APPLIED}"): {}, "f:example.com/own": {}}},
                        "f:spec": {
                            ".": {}, "f:color": {}, "f:secret": {"f:s3cret": {}},
                            "f:rows": {"k:{\"id\":\"s3cret\",\"port\":1}": {".": {}, "f:id": {}, "f:port": {}}},
                            "f:parts": {"k:{\"port\":1}": {".": {}, "f:secret": {}, "f:port": {}}},
                            "f:tags": {"v:\"blue\"": {}, "i:0": {}},
                            "f:hidden": {"v:\"s3cret\"": {}},
                        },
                    },
                    "subresource": "status",
                },
                {"manager": "other", "fieldsV1": {"f:spec": {"f:secret": {}}}, "fieldsV2": {"f:spec": {"f:secret": {}}}},
            ],
        },
        "spec": {
            "color": "blue", "secret": {"s3cret": 1}, "rows": [{"id": "s3cret", "port": 1}], "tags": ["blue"],
            "parts": [{"secret": "s3cret", "port": 1}], "hidden": ["s3cret"],
        },
    });
    let paths = [".spec.secret", ".spec.rows.id", ".spec.parts.secret", ".spec.hidden"];
    let shown = pruned(&paths, &object);
    assert!(!shown.to_string().contains("s3cret"), "{shown}");
    assert_eq!(
        shown["metadata"],
        json!({
            "name": "n", "annotations": {"example.com/own": "kept"},
            "managedFields": [
                {
                    "manager": "kubectl", "operation": "Apply", "apiVersion": "v1", "time": "t", "fieldsType": "FieldsV1",
                    "fieldsV1": {
                        "f:metadata": {"f:annotations": {".": {}, "f:example.com/own": {}}},
                        "f:spec": {
                            ".": {}, "f:color": {}, "f:rows": {}, "f:parts": {"k:{\"port\":1}": {".": {}, "f:port": {}}},
                            "f:tags": {"v:\"blue\"": {}, "i:0": {}},
                        },
                    },
                    "subresource": "status",
                },
                {"manager": "other", "fieldsV1": {"f:spec": {}}},
            ],
        })
    );
    assert_eq!(pruned(&[], &object), object, "without a path nothing goes");
    let elsewhere = json!({"spec": {"metadata": object["metadata"]}, "metadata": {"name": "n"}});
    assert_eq!(pruned(&[".spec.secret"], &elsewhere), elsewhere, "embedded metadata is not the object's own");
    let kept = Prune::with_kept([], [".spec.color", ".metadata.managedFields", ".metadata.annotations"]).unwrap();
    let kept: Value = serde_json::from_slice(&kept.apply(object.to_string().as_bytes(), []).unwrap().0).unwrap();
    assert_eq!(kept["metadata"]["annotations"].get(APPLIED), None, "kept annotations hold no copy");
    let fields = kept["metadata"]["managedFields"].to_string();
    assert!(fields.contains("f:color") && !fields.contains("f:secret") && !fields.contains("f:list"), "{fields}");
    assert_eq!(pruned(&[".metadata.managedFields"], &object)["metadata"]["managedFields"], Value::Null);
    let fields = pruned(&[".metadata.managedFields.fieldsV1.f:spec.f:color"], &object);
    assert_eq!(fields["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"].get("f:color"), None, "a path in them");
}

#[test]
fn no_field_is_read_from_copies() {
    let prune = Prune::new([".spec.x"]).unwrap();
    let key = |name: &str| PathStep::Key(name.to_owned());
    let rows = [
        (vec![key("metadata"), key("annotations"), key(APPLIED)], true, "the annotation"),
        (vec![key("metadata"), key("annotations"), key("example.com/own")], false, "another one"),
        (vec![key("metadata"), key("annotations"), PathStep::Any], true, "all annotations"),
        (vec![key("metadata"), key("annotations"), PathStep::Any, key("x")], true, "inside of them"),
        (vec![key("metadata"), key("managedFields"), PathStep::Element(0), key("manager")], false, "who wrote"),
        (
            vec![key("metadata"), key("managedFields"), PathStep::Any, key("manager")],
            true,
            "a wildcard is any member, too",
        ),
        (vec![key("metadata"), key("managedFields"), PathStep::Any, key("fieldsV1")], true, "what they wrote"),
        (
            vec![key("metadata"), key("managedFields"), PathStep::Element(0), key("fieldsV1"), key("f:spec")],
            true,
            "a part of it",
        ),
        (vec![key("metadata"), PathStep::Any, PathStep::Any, PathStep::Any, key("f:spec")], true, "by wildcards"),
        (vec![key("spec"), key("managedFields"), key("fieldsV1")], false, "elsewhere"),
    ];
    for (steps, expected, why) in rows {
        assert_eq!(prune.touches(&steps), expected, "{why}");
        assert!(!Prune::default().touches(&steps), "nothing is pruned: {why}");
    }
    let column = format!(".metadata.annotations.{}", APPLIED.replace('.', "\\."));
    assert!(JsonPath::parse(&column).unwrap().reads_pruned(&prune), "nor a column");
}

#[test]
fn sets_of_fields_of_any_depth_are_pruned_without_recursion() {
    for depth in [100, 1_000, MAX_LEVELS - 6] {
        for shape in [Nesting::Maps, Nesting::Lists, Nesting::Mixed(vec![true, false])] {
            for keys in [vec!["f:a"], vec!["."], vec!["i:0"], vec!["v:1"], vec!["k:{}"]] {
                let nested = Nested { keys: keys.clone(), ..Nested::new(depth, shape.clone()) };
                // In the writing of member names inside of a text.
                let text = nested.text();
                let object = format!(r#"{{"metadata":{{"managedFields":[{{"fieldsV1":{text}}}]}}}}"#);
                let shown = on_worker_stack(|| Prune::new([".spec.x"]).unwrap().apply(object.as_bytes(), []));
                assert!(shown.unwrap().0 == object.as_bytes(), "{depth} {shape:?} {keys:?}");
            }
        }
    }
}

/// Fields under `prune` by the obvious way: paths as lists of names.
fn naive_fields(fields: &mut Value, paths: &[Vec<String>]) {
    if let Value::Array(items) = fields {
        items.iter_mut().for_each(|item| naive_fields(item, paths));
    }
    let Value::Object(members) = fields else { return };
    members.retain(|key, _| match key.split_once(':') {
        None => key == ".",
        Some(("f", name)) => !paths.iter().any(|path| path.len() == 1 && path[0] == name),
        Some(("k", keys)) => match serde_json::from_str::<Map<String, Value>>(keys) {
            Ok(keys) => !keys.keys().any(|key| paths.iter().any(|path| path[0] == *key)),
            Err(_) => false,
        },
        Some(("v", value)) => {
            serde_json::from_str::<Value>(value).is_ok_and(|value| !value.is_array() && !value.is_object())
        }
        Some(("i", _)) => true,
        Some(_) => false,
    });
    for (key, member) in members.iter_mut() {
        match key.strip_prefix("f:") {
            Some(name) => {
                let inside = paths.iter().filter(|path| path[0] == name).map(|path| path[1..].to_vec());
                let inside: Vec<Vec<String>> = inside.collect();
                if !inside.is_empty() {
                    naive_fields(member, &inside);
                }
            }
            None => naive_fields(member, paths),
        }
    }
}

fn naive(object: &mut Value, paths: &[Vec<String>]) {
    for path in paths {
        super::prune::without(object, path);
    }
    if paths.is_empty() {
        return;
    }
    let metadata = &mut object["metadata"];
    if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
        annotations.retain(|key, _| !ANNOTATIONS.contains(&key.as_str()));
    }
    // Annotations are themselves fields that somebody set.
    let of = |name: &str| vec!["metadata".to_owned(), "annotations".to_owned(), name.to_owned()];
    let mut all = paths.to_vec();
    all.extend(ANNOTATIONS.iter().map(|name| of(name)));
    for entry in metadata.get_mut("managedFields").and_then(Value::as_array_mut).into_iter().flatten() {
        let Value::Object(entry) = entry else { continue };
        entry.retain(|key, _| ["manager", "time", "fieldsV1"].contains(&key.as_str()));
        if let Some(fields) = entry.get_mut("fieldsV1") {
            naive_fields(fields, &all);
        }
    }
}

/// Sets of fields, well-formed or not.
fn fields() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![4 => Just(json!({})), 1 => Just(json!("odd"))];
    leaf.prop_recursive(5, 40, 4, |inside| {
        let key = sample::select(vec![
            "f:metadata",
            "f:annotations",
            "f:kubectl.kubernetes.io/last-applied-configuration",
            "f:a",
            "f:b",
            "f:c.d",
            ".",
            "k:{\"a\":1}",
            "k:{\"b\":\"x\",\"c.d\":2}",
            "k:odd",
            "v:1",
            "v:\"a\"",
            "v:{\"a\":1}",
            "v:odd",
            "i:0",
            "a",
            "x:a",
        ]);
        prop_oneof![
            6 => collection::vec((key, inside.clone()), 0..5).prop_map(|members| {
                Value::Object(members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Map<_, _>>())
            }),
            1 => collection::vec(inside, 0..3).prop_map(Value::Array),
        ]
    })
}

proptest! {
    #[test]
    fn copies_are_pruned_as_in_values(
        sets in collection::vec(fields(), 0..4),
        value in super::prune::values(),
        paths in collection::vec(collection::vec(sample::select(vec!["a", "b", "c.d"]), 1..4), 0..4),
        annotation in option::of(sample::select(ANNOTATIONS.to_vec())),
        other in sample::select(vec!["time", "fieldsV2", "fieldsV1 "]),
    ) {
        let texts: Vec<String> = paths
            .iter()
            .map(|names| format!(".{}{}", names[0].replace("c.d", "c"), names[1..].iter().map(|name| format!("['{name}']")).collect::<String>()))
            .collect();
        let paths: Vec<Vec<String>> = paths
            .iter()
            .map(|names| {
                let first = names[0].replace("c.d", "c");
                std::iter::once(first).chain(names[1..].iter().map(|name| (*name).to_owned())).collect()
            })
            .collect();
        let entries: Vec<Value> = sets.iter().map(|set| json!({"manager": "m", "fieldsV1": set, other: set})).collect();
        let mut annotations = json!({"plain": "kept"});
        if let Some(annotation) = annotation {
            annotations[annotation] = json!("copy");
        }
        let object = json!({"a": value, "b": {"c.d": value}, "metadata": {"annotations": annotations, "managedFields": entries}});
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let found = pruned(&texts, &object);
        let mut expected = object;
        naive(&mut expected, &paths);
        prop_assert_eq!(&found, &expected, "{:?}", texts);
        prop_assert!(paths.is_empty() || !found.to_string().contains("copy"));
    }
}
