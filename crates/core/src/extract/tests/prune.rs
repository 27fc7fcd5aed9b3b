//! Pruned objects, compared with pruned parsed values; and the remaining fields.

use proptest::prelude::{Just, Strategy, prop_oneof};
use proptest::{collection, prop_assert, prop_assert_eq, proptest, sample};
use serde_json::{Map, Value, json};

use crate::crd::Crd;
use crate::extract::trie::PathStep;
use crate::extract::{Extractor, Prune};
use fieldcache_testing::nested::{self, MAX_LEVELS, Nested, Nesting, on_worker_stack};

#[test]
fn named_parts_are_removed_and_the_rest_keeps_its_bytes() {
    let rows = [
        (&[".a"][..], r#"{"a":1,"b":1.0}"#, r#"{"b":1.0}"#, "a member"),
        (&[".b"], r#"{"a":1,"b":{"c":[1,2]}}"#, r#"{"a":1}"#, "with all that is in it"),
        (
            &[".a.b"],
            r#"{"a":{"b":1,"c":"\u00e9"},"b":2}"#,
            r#"{"a":{"c":"\u00e9"},"b":2}"#,
            "inside of one, not beside it",
        ),
        (&[".a.b"], r#"{"a":{"b":1}}"#, r#"{"a":{}}"#, "its container stays"),
        (&[".a.b"], r#"{"a":[{"b":1,"c":2},{"b":3}]}"#, r#"{"a":[{"c":2},{}]}"#, "in each element of a list"),
        (&[".a.b"], r#"{"a":[[{"b":1}],"b",null]}"#, r#"{"a":[[{}],"b",null]}"#, "in lists of lists"),
        (&[".a.b"], r#"{"a":"b"}"#, r#"{"a":"b"}"#, "a text has no members"),
        (&[".a.b", ".a"], r#"{"a":{"b":1},"c":2}"#, r#"{"c":2}"#, "the wider path wins"),
        (&[".a", ".a.b"], r#"{"a":{"b":1},"c":2}"#, r#"{"c":2}"#, "in either order"),
        (&[".a"], r#"{"\u0061":1,"b":2}"#, r#"{"b":2}"#, "however its name is written"),
        (&[".a"], r#"{"a":1,"b":2,"a":3}"#, r#"{"b":2}"#, "each time that it comes"),
        (&[".x"], r#"{"a":1}"#, r#"{"a":1}"#, "what is not there"),
        (&[], r#"{"a":1}"#, r#"{"a":1}"#, "nothing"),
    ];
    for (paths, object, expected, why) in rows {
        let found = Prune::new(paths.iter().copied()).unwrap().apply(object.as_bytes(), []).unwrap().0;
        assert_eq!(String::from_utf8(found).unwrap(), expected, "{why}");
    }
}

#[test]
fn kept_parts_remain_and_everything_else_is_removed() {
    let always =
        r#""apiVersion":"v1","kind":"Shirt","metadata":{"name":"n","namespace":"a","uid":"u","resourceVersion":"7"}"#;
    let rows = [
        (&[".a"][..], &[][..], r#""a":{"b":[1]},"c":2"#, r#","a":{"b":[1]}"#, "a member with all that is in it"),
        (&[".a.b"], &[], r#""a":{"b":1,"c":2},"b":3"#, r#","a":{"b":1}"#, "a part of a member"),
        (&[".a.b"], &[], r#""a":[{"b":1,"c":2},{"c":3}]"#, r#","a":[{"b":1},{}]"#, "in each element of a list"),
        (
            &[".a.b"],
            &[],
            r#""a":[1,{"b":1},"t",[{"b":2,"c":3},null],null]"#,
            r#","a":[{"b":1},[{"b":2}]]"#,
            "not the other elements",
        ),
        (&[".a.b"], &[], r#""a":"b","c":{}"#, "", "a text has no kept member"),
        (&[".a.b", ".a"], &[], r#""a":{"b":1,"c":2}"#, r#","a":{"b":1,"c":2}"#, "the wider path wins"),
        (&[".a", ".a.b"], &[], r#""a":{"b":1,"c":2}"#, r#","a":{"b":1,"c":2}"#, "in either order"),
        (&[".a"], &[".a.b"], r#""a":{"b":1,"c":2},"b":3"#, r#","a":{"c":2}"#, "without what is pruned"),
        (&[".a.b"], &[".a"], r#""a":{"b":1}"#, "", "a pruned part is not kept"),
        (
            &[".a.b"],
            &[".b", ".a.c"],
            r#""a":{"b":1,"c":2},"b":3"#,
            r#","a":{"b":1}"#,
            "what is not kept is pruned already",
        ),
        (&[".x"], &[], r#""a":1"#, "", "what is not there"),
    ];
    for (kept, pruned, rest, expected, why) in rows {
        let prune = Prune::with_kept(pruned.iter().copied(), kept.iter().copied()).unwrap();
        let found = prune.apply(format!("{{{always},{rest}}}").as_bytes(), []).unwrap().0;
        assert_eq!(String::from_utf8(found).unwrap(), format!("{{{always}{expected}}}"), "{why}");
    }
    let metadata = br#"{"metadata":{"labels":{"a":"1","b":"2"},"annotations":{"x":"y"},"name":"n"}}"#;
    for (kept, expected) in [
        (&[".spec"][..], r#"{"metadata":{"name":"n"}}"#),
        (&[".metadata.labels.a"], r#"{"metadata":{"labels":{"a":"1"},"name":"n"}}"#),
        (&[".metadata"], r#"{"metadata":{"labels":{"a":"1","b":"2"},"annotations":{"x":"y"},"name":"n"}}"#),
    ] {
        let found = Prune::with_kept([], kept.iter().copied()).unwrap().apply(metadata, []).unwrap().0;
        assert_eq!(String::from_utf8(found).unwrap(), expected, "{kept:?}");
    }
}

#[test]
fn a_label_is_hidden_unless_it_is_shown_whole() {
    let rows = [
        (&[][..], &[".spec"][..], false, "labels are not pruned"),
        (&[".spec"], &[], true, "labels are not kept"),
        (&[".metadata"], &[], false, "all metadata"),
        (&[".metadata.labels"], &[], false, "all labels"),
        (&[".metadata.labels['app']"], &[], false, "this label"),
        (&[".metadata.labels['app'].x"], &[], true, "a part of it, which it does not have"),
        (&[".metadata.labels['tier']"], &[], true, "another label"),
    ];
    for (kept, pruned, expected, why) in rows {
        let prune = Prune::with_kept(pruned.iter().copied(), kept.iter().copied()).unwrap();
        assert_eq!(prune.hides_label("app"), expected, "{why}");
    }
}

pub(super) fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![Just(json!(1)), Just(json!("t")), Just(json!(null)), Just(json!(true))];
    leaf.prop_recursive(4, 40, 4, |inside| {
        let key = sample::select(vec!["a", "b", "c"]);
        prop_oneof![
            collection::vec(inside.clone(), 0..4).prop_map(Value::Array),
            collection::vec((key, inside), 0..4).prop_map(|members| {
                Value::Object(members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Map<_, _>>())
            }),
        ]
    })
}

/// The reference implementation, on values.
pub(super) fn without(value: &mut Value, names: &[String]) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| without(item, names)),
        Value::Object(members) => match names {
            [last] => drop(members.remove(last)),
            [first, rest @ ..] => {
                if let Some(member) = members.get_mut(first) {
                    without(member, rest);
                }
            }
            [] => {}
        },
        _ => {}
    }
}

proptest! {
    #[test]
    fn bytes_are_pruned_as_values_are(
        value in values(),
        paths in collection::vec(collection::vec(sample::select(vec!["a", "b", "c"]), 1..4), 0..4),
    ) {
        let texts: Vec<String> = paths.iter().map(|names| format!(".{}", names.join("."))).collect();
        let object = json!({"a": value, "b": {"a": value}});
        let found = Prune::new(texts.iter().map(String::as_str)).unwrap().apply(object.to_string().as_bytes(), []).unwrap().0;
        let mut expected = object;
        for names in &paths {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            without(&mut expected, &names);
        }
        prop_assert_eq!(serde_json::from_slice::<Value>(&found).unwrap(), expected, "{:?}", texts);
    }
}

/// The reference implementation of kept paths: the value with only what lies on one of these paths; `None` if nothing
/// of it does.
fn only(value: &Value, paths: &[&[&str]]) -> Option<Value> {
    if paths.iter().any(|names| names.is_empty()) {
        return Some(value.clone());
    }
    match value {
        Value::Array(items) => Some(items.iter().filter_map(|item| only(item, paths)).collect()),
        Value::Object(members) => {
            let kept = members.iter().filter_map(|(name, member)| {
                let rest: Vec<&[&str]> =
                    paths.iter().filter(|names| names[0] == name).map(|names| &names[1..]).collect();
                (!rest.is_empty()).then(|| only(member, &rest)).flatten().map(|member| (name.clone(), member))
            });
            Some(Value::Object(kept.collect()))
        }
        _ => None,
    }
}

proptest! {
    #[test]
    fn bytes_are_kept_as_values_are(
        value in values(),
        kept in collection::vec(collection::vec(sample::select(vec!["a", "b", "c"]), 1..4), 1..4),
        pruned in collection::vec(collection::vec(sample::select(vec!["a", "b", "c"]), 1..4), 0..3),
    ) {
        let texts = |paths: &[Vec<&str>]| -> Vec<String> {
            paths.iter().map(|names| format!(".{}", names.join("."))).collect()
        };
        let (kept_texts, pruned_texts) = (texts(&kept), texts(&pruned));
        let prune =
            Prune::with_kept(pruned_texts.iter().map(String::as_str), kept_texts.iter().map(String::as_str)).unwrap();
        let object = json!({"a": value, "b": {"a": value}, "kind": "x"});
        let found = prune.apply(object.to_string().as_bytes(), []).unwrap().0;
        let mut paths: Vec<&[&str]> = kept.iter().map(Vec::as_slice).collect();
        paths.push(&["kind"]);
        let mut expected = only(&object, &paths).unwrap();
        for names in &pruned {
            without(&mut expected, &names.iter().map(|name| (*name).to_owned()).collect::<Vec<String>>());
        }
        prop_assert_eq!(
            serde_json::from_slice::<Value>(&found).unwrap(), expected, "kept {:?}, pruned {:?}", kept_texts, pruned_texts
        );
    }
}

proptest! {
    #[test]
    fn two_prunes_together_leave_what_one_after_the_other_leaves(
        value in values(),
        pruned in collection::vec(collection::vec(sample::select(vec!["a", "b", "c"]), 1..4), 0..3),
        kept in collection::vec(collection::vec(sample::select(vec!["a", "b", "c"]), 1..4), 0..3),
        requested in collection::vec(collection::vec(sample::select(vec!["a", "b", "c"]), 1..4), 0..4),
    ) {
        let texts = |paths: &[Vec<&str>]| -> Vec<String> {
            paths.iter().map(|names| format!(".{}", names.join("."))).collect()
        };
        let [pruned, kept, requested] = [&pruned, &kept, &requested].map(|paths| texts(paths));
        let hidden =
            Prune::with_kept(pruned.iter().map(String::as_str), kept.iter().map(String::as_str)).unwrap();
        let request = Prune::kept(requested.iter().map(String::as_str)).unwrap();
        let object = json!({"a": value, "b": {"a": value}, "kind": "x"}).to_string();
        let first = hidden.apply(object.as_bytes(), []).unwrap().0;
        let expected = request.apply(&first, []).unwrap().0;
        let found = hidden.and(&request).apply(object.as_bytes(), []).unwrap().0;
        let found = String::from_utf8(found).unwrap();
        prop_assert_eq!(&found, &String::from_utf8(expected).unwrap(), "{:?} {:?} {:?}", pruned, kept, requested);
        let other = request.and(&hidden).apply(object.as_bytes(), []).unwrap().0;
        prop_assert_eq!(found, String::from_utf8(other).unwrap());
    }
}

/// Removes member `a` of each object that only lists surround, as `.spec.a` does with a nested value.
fn expected_of_nested(nested: &Nested) -> String {
    let text = nested.text();
    let lists = match &nested.shape {
        Nesting::Lists => nested.depth,
        Nesting::Maps => 0,
        Nesting::Mixed(pattern) => (0..nested.depth).take_while(|level| pattern[level % pattern.len()]).count(),
    };
    if lists == nested.depth || nested.keys[lists % nested.keys.len()] != "a" {
        return text;
    }
    // The object that starts here loses its first member; a sibling remains.
    let behind =
        |level: usize, is_list: bool| match nested.sibling_every > 0 && level.is_multiple_of(nested.sibling_every) {
            true if is_list => ",\"s\"]",
            true => "\"s\":[0]}",
            false if is_list => "]",
            false => "}",
        };
    let ends: String = (0..lists).rev().map(|level| behind(level, true)).collect();
    format!("{}{{{}{ends}", "[".repeat(lists), behind(lists, false))
}

proptest! {
    #[test]
    fn nested_values_are_pruned_at_any_depth(nested in nested::values(MAX_LEVELS - 2, &["a", "b"])) {
        let object = |spec: &str| format!(r#"{{"metadata":{{"name":"n"}},"spec":{spec}}}"#);
        let text = object(&nested.text());
        for (paths, expected) in [
            (&[".spec.a"][..], object(&expected_of_nested(&nested))),
            (&[".spec.x.y", ".metadata.name.x"], text.clone()),
            (&[".spec"], r#"{"metadata":{"name":"n"}}"#.to_owned()),
        ] {
            let found = on_worker_stack(|| Prune::new(paths.iter().copied()).unwrap().apply(text.as_bytes(), []));
            prop_assert!(found.unwrap().0 == expected.as_bytes(), "{:?} of {:?}", paths, nested);
        }
    }
}

#[test]
fn values_that_nest_deeper_than_any_api_server_stores_are_rejected() {
    for shape in [Nesting::Lists, Nesting::Maps, Nesting::Mixed(vec![true, false])] {
        let object = |depth: usize| format!(r#"{{"spec":{}}}"#, Nested::new(depth, shape.clone()).text());
        let prune = Prune::new([".spec.x", ".spec.a.x"]).unwrap();
        let deepest = object(MAX_LEVELS - 1);
        assert!(on_worker_stack(|| prune.apply(deepest.as_bytes(), [])).unwrap().0 == deepest.as_bytes(), "{shape:?}");
        let deeper = object(MAX_LEVELS);
        assert!(on_worker_stack(|| prune.apply(deeper.as_bytes(), [])).is_err(), "{shape:?}");
    }
}

#[test]
fn wildcards_and_pruned_paths_are_compared_in_bounded_time() {
    // Each wildcard can match any of the names: trying each choice would take longer than the age of the earth.
    let key = |name: &str| PathStep::Key(name.to_owned());
    let steps: Vec<PathStep> =
        [key("spec")].into_iter().chain((0..60).map(|_| PathStep::Any)).chain([key("z")]).collect();
    let path = format!(".spec{}.y", ".a".repeat(60));
    assert!(!Prune::new([&*path]).unwrap().touches(&steps));
    assert!(Prune::new([&*path, ".spec.a.a.z"]).unwrap().touches(&steps));
}

#[test]
fn a_field_that_is_read_from_a_pruned_part_is_not_offered() {
    let crd = Crd::read(&json!({
        "metadata": {"name": "shirts.stable.example.com"},
        "spec": {
            "group": "stable.example.com", "scope": "Namespaced", "names": {"plural": "shirts", "kind": "Shirt"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {
                    "color": {"type": "string"}, "size": {"type": "integer"}}}}}},
                "selectableFields": [{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.size"}],
            }],
        },
    }))
    .unwrap();
    let plan = Extractor::custom_resource(&crd, "v1");
    let rows = [
        (".spec.color", &["spec.size"][..], "the field itself"),
        (".spec", &[], "what holds it"),
        (".spec.size.unit", &["spec.color"], "a part of it"),
        (".spec.colors", &["spec.color", "spec.size"], "another of a longer name"),
        (".status", &["spec.color", "spec.size"], "something else"),
    ];
    let kept = [
        (".spec.color", &["spec.color"][..], "a kept field alone"),
        (".spec", &["spec.color", "spec.size"], "what holds both"),
        (".spec.size.unit", &[], "a part of it is not the field"),
        (".status", &[], "something else"),
    ];
    let rows = rows.map(|(path, expected, why)| (Prune::new([path]), expected, why));
    let kept = kept.map(|(path, expected, why)| (Prune::with_kept([], [path]), expected, why));
    for (prune, expected, why) in rows.into_iter().chain(kept) {
        let pruned = plan.pruned(&prune.unwrap());
        let offered: Vec<&str> = pruned.offered().map(|field| &*field.label).collect();
        assert_eq!(offered, expected, "{why}");
        for field in plan.fields() {
            let resolved = pruned.resolve(&field.label).ok();
            let is_offered = expected.contains(&&*field.label);
            assert_eq!(resolved, plan.resolve(&field.label).ok().filter(|_| is_offered), "{why}: the numbers stay");
        }
    }
}

#[test]
fn positions_are_those_of_the_same_values_in_the_pruned_object() {
    for object in [
        r#"{"a":{"b":[1,{"x":1}]},"metadata":{"annotations":{"q":"r"},"name":"n","resourceVersion":"17"},"spec":{"x":2}}"#,
        r#"{ "spec": {"x": [ ]}, "metadata" : { "resourceVersion" : "17" , "managedFields":[], "x": "y" } , "z":"\"metadata\"" }"#,
        r#"{"metadata":{"resourceVersion":"17"}}"#,
    ] {
        let start =
            object.find("{\"annotations").or(object.find("{ \"resource")).or(object.find("{\"resource")).unwrap();
        let end = start
            + object[start..].find("},\"spec").or(object[start..].find("} ,")).unwrap_or(object.len() - start - 2)
            + 1;
        let version = object.find("17").unwrap();
        for paths in [
            &[".spec"][..],
            &[".a.b.x", ".spec.x"],
            &[".a", ".spec", ".z", ".metadata.annotations", ".metadata.x"],
            &[".metadata.finalizers", ".metadata.managedFields", ".spec.y"],
        ] {
            let prune = Prune::new(paths.iter().copied()).unwrap();
            let (pruned, found) = prune.apply(object.as_bytes(), [start, end, version]).unwrap();
            let pruned = String::from_utf8(pruned).unwrap();
            let [Some(start), Some(end), Some(version)] = found else {
                panic!("{found:?} in {pruned} without {paths:?}")
            };
            let metadata: Value = serde_json::from_str(&pruned[start..end]).unwrap();
            let whole: Value = serde_json::from_str(&pruned).unwrap();
            assert_eq!(metadata, whole["metadata"], "{pruned} without {paths:?}");
            assert_eq!(&pruned[version - 1..version + 3], "\"17\"", "{pruned} without {paths:?}");
        }
    }
    let prune = Prune::new([".spec"]).unwrap();
    let (pruned, found) = prune.apply(br#"{"spec":{"a":"17"}}"#, [15]).unwrap();
    assert_eq!((&*pruned, found), (&b"{}"[..], [None]), "a position in what is pruned");
}
