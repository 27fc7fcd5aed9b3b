//! kube-apiserver's validation of selectable fields, rule by rule.

use std::sync::Arc;

use proptest::prelude::{BoxedStrategy, Just, Strategy, any, prop};
use proptest::{prop_assert_eq, prop_oneof, proptest};
use serde_json::{Value, json};

use super::extractor::crd;
use crate::crd::Crd;
use crate::extract::validation::{CrdValidation, CrdValidationCache, same_decoded, unknown_fields, validate};

fn schema() -> Value {
    let numbered = (0..12).map(|number| (format!("f{number}"), json!({"type": "string"})));
    let mut spec: serde_json::Map<String, Value> = numbered.collect();
    for (name, field) in [
        ("color", json!({"type": "string", "enum": ["blue"], "default": "blue", "description": "Its colour."})),
        ("when", json!({"type": "string", "format": "date-time"})),
        ("either", json!({"type": "string", "format": "int-or-string"})),
        ("wait", json!({"type": "string", "format": "duration"})),
        ("maybe", json!({"type": "integer", "format": "int32", "nullable": true})),
        ("on", json!({"type": "boolean"})),
        ("ratio", json!({"type": "number"})),
        ("port", json!({"x-kubernetes-int-or-string": true})),
        ("obj", json!({"type": "object", "properties": {"a": {"type": "string"}}})),
        ("list", json!({"type": "array", "items": {"type": "string"}})),
        ("any", json!({"type": "object", "additionalProperties": true})),
        ("m", json!({"type": "object", "additionalProperties": {"type": "string"}})),
        ("a b", json!({"type": "string"})),
        ("a@b", json!({"type": "string"})),
        ("*", json!({"type": "string"})),
        ("a*", json!({"type": "string"})),
        ("a}b", json!({"type": "string"})),
        ("a\\b", json!({"type": "string"})),
        ("a=b", json!({"type": "string"})),
        ("a,b", json!({"type": "string"})),
        ("a!", json!({"type": "string"})),
        ("\"q\"", json!({"type": "string"})),
    ] {
        spec.insert(name.to_owned(), field);
    }
    json!({"type": "object", "properties": {
        "metadata": {"type": "object", "properties": {"name": {"type": "string"}}},
        "spec": {"type": "object", "properties": spec},
        "status": {"type": "object", "properties": {"phase": {"type": "string"}}}}})
}

fn causes(validation: &CrdValidation) -> Vec<String> {
    validation.causes.iter().map(|cause| format!("{} {}: {}", cause.reason, cause.field, cause.message)).collect()
}

/// Validates one version with the fixture's schema; expected causes as `[index] reason: message`.
#[track_caller]
fn check(paths: &[&str], expected: &[&str]) {
    let validation = validate(&crd("Namespaced", schema(), paths), None);
    let found: Vec<String> = causes(&validation)
        .into_iter()
        .map(|line| line.replace("spec.selectableFields", "F").replace("FieldValue", ""))
        .collect();
    assert_eq!(found, expected, "{paths:?}");
    assert_eq!(validation.is_accepted(), expected.is_empty());
    let version = &validation.versions[0];
    let too_many = expected.iter().any(|line| line.starts_with("TooMany"));
    if expected.is_empty() || too_many {
        assert_eq!(version.accepted.len() + version.rejected.len(), paths.len());
    }
}

#[test]
fn each_rule_has_its_cause() {
    const KIND: &str = "must point to a field of type string, boolean or integer. Enum string fields and strings with \
                        formats are allowed.";
    let kind = |index: usize, path: &str| format!("Invalid F[{index}].jsonPath: Invalid value: \"{path}\": {KIND}");
    check(&[".spec.color", ".spec.when", ".spec.either", ".spec.wait", ".spec.maybe", ".spec.on", ".spec.m.x"], &[]);
    check(&[], &[]);
    check(&["", ".spec.color"], &["Required F[0].jsonPath: Required value"]);
    check(
        &[".spec.color", ".spec.nope"],
        &["Invalid F[1].jsonPath: Invalid value: \".spec.nope\": is an invalid path: does not refer to a valid field"],
    );
    check(
        &[".spec.\"nope\""],
        &[
            "Invalid F[0].jsonPath: Invalid value: \".spec.\\\"nope\\\"\": is an invalid path: does not refer to a valid field",
        ],
    );
    check(
        &["spec.color"],
        &["Invalid F[0].jsonPath: Invalid value: \"spec.color\": is an invalid path: expected [ or . but got: spec"],
    );
    check(
        &[".metadata.name"],
        &["Invalid F[0].jsonPath: Invalid value: \".metadata.name\": must not point to fields in metadata"],
    );
    check(
        &[".metadata"],
        &[
            "Invalid F[0].jsonPath: Invalid value: \".metadata\": must not point to fields in metadata",
            &kind(0, ".metadata"),
        ],
    );
    for path in [".spec.ratio", ".spec.port", ".spec.obj", ".spec.list", ".spec.any", ".spec.any.x", ".spec.m"] {
        check(&[".spec.color", path], &[&kind(1, path)]);
    }
    check(
        &[".spec.color", ".spec.color", ".spec.color"],
        &[
            "Duplicate F[1].jsonPath: Duplicate value: \".spec.color\"",
            "Duplicate F[2].jsonPath: Duplicate value: \".spec.color\"",
        ],
    );
    check(
        &[".spec.obj", ".spec.obj"],
        &[&kind(0, ".spec.obj"), &kind(1, ".spec.obj"), "Duplicate F[1].jsonPath: Duplicate value: \".spec.obj\""],
    );
}

#[test]
fn only_unique_resolvable_paths_are_counted() {
    let numbered: Vec<String> = (0..12).map(|number| format!(".spec.f{number}")).collect();
    let numbered: Vec<&str> = numbered.iter().map(String::as_str).collect();
    check(&numbered[..8], &[]);
    check(&numbered[..9], &["TooMany F: Too many: 9: must have at most 8 items"]);
    check(&numbered, &["TooMany F: Too many: 12: must have at most 8 items"]);
    let copies = [".spec.color"; 9];
    let validation = validate(&crd("Namespaced", schema(), &copies), None);
    assert_eq!(validation.causes.len(), 8, "eight duplicates and no more");
    let mut with_wrong = numbered[..8].to_vec();
    with_wrong.extend(["", ".spec.nope"]);
    let validation = validate(&crd("Namespaced", schema(), &with_wrong), None);
    assert!(validation.causes.iter().all(|cause| cause.reason != "FieldValueTooMany"), "these do not count");
    let mut with_object = numbered[..8].to_vec();
    with_object.push(".spec.obj");
    let validation = validate(&crd("Namespaced", schema(), &with_object), None);
    assert!(
        validation.causes.iter().any(|cause| cause.reason == "FieldValueTooMany"),
        "a field of a wrong type counts"
    );
}

/// A definition of several versions; `None` means no `schema`, null means `schema: {}`.
fn versions(versions: &[(&str, Option<Value>, &[&str])]) -> Crd {
    let mut document = json!({"metadata": {"name": "shirts.stable.example.com"}, "spec": {
        "group": "stable.example.com", "scope": "Namespaced", "names": {"plural": "shirts", "kind": "Shirt"}}});
    let list = versions.iter().map(|(name, schema, paths)| {
        let fields: Vec<Value> = paths.iter().map(|path| json!({"jsonPath": path})).collect();
        let mut version = json!({"name": name, "served": true, "storage": *name == "v1", "selectableFields": fields});
        if let Some(schema) = schema {
            version["schema"] = if schema.is_null() { json!({}) } else { json!({"openAPIV3Schema": schema}) };
        }
        version
    });
    document["spec"]["versions"] = list.collect();
    Crd::read(&document).unwrap()
}

fn other_schema() -> Value {
    let mut schema = schema();
    schema["description"] = json!("Another.");
    schema
}

#[test]
fn causes_are_named_by_where_the_api_server_keeps_the_list() {
    const WHY: &str = "Invalid value: \".x\": is an invalid path: does not refer to a valid field";
    let top = format!("FieldValueInvalid spec.selectableFields[0].jsonPath: {WHY}");
    let of = |index: usize| format!("FieldValueInvalid spec.versions[{index}].selectableFields[0].jsonPath: {WHY}");
    let (same, other) = (Some(schema()), Some(other_schema()));
    for (crd, expected, why) in [
        (versions(&[("v1", same.clone(), &[".x"])]), vec![top.clone()], "one version"),
        (
            versions(&[("v1", same.clone(), &[".x"]), ("v2", same.clone(), &[".x"])]),
            vec![top.clone()],
            "two versions, all equal: reported once",
        ),
        (
            versions(&[("v1", same.clone(), &[".x"]), ("v2", other.clone(), &[".x", ".spec.color"])]),
            vec![of(0), of(1)],
            "fields and schemas differ",
        ),
        (
            versions(&[("v1", same.clone(), &[".x"]), ("v2", other.clone(), &[".x"])]),
            vec![of(0), of(1)],
            "only schemas differ: validated by version, where an API server refuses as a whole",
        ),
        (
            versions(&[("v1", same.clone(), &[".spec.color"]), ("v2", same.clone(), &[".x"])]),
            vec![of(1)],
            "only fields differ",
        ),
    ] {
        assert_eq!(causes(&validate(&crd, None)), expected, "{why}");
    }
}

#[test]
fn definitions_that_only_the_hoisting_rejects_are_accepted_with_a_warning() {
    let (same, other) = (Some(schema()), Some(other_schema()));
    let mut unknown_keyword = schema();
    unknown_keyword["x-vendor"] = json!(1);
    unknown_keyword["title"] = json!("");
    for (crd, warns, why) in [
        (
            versions(&[("v1", same.clone(), &[".spec.on"]), ("v2", other.clone(), &[".spec.on"])]),
            true,
            "schemas differ",
        ),
        (
            versions(&[("v1", same.clone(), &[".spec.on"]), ("v2", same.clone(), &[".spec.color"])]),
            true,
            "fields differ",
        ),
        (
            versions(&[("v1", same.clone(), &[".spec.on"]), ("v2", same.clone(), &[])]),
            true,
            "fields in one version only",
        ),
        (
            versions(&[
                ("v1", same.clone(), &[".spec.on", ".spec.color"]),
                ("v2", same.clone(), &[".spec.color", ".spec.on"]),
            ]),
            true,
            "another order",
        ),
        (
            versions(&[("v1", same.clone(), &[".spec.on"]), ("v2", other.clone(), &[".spec.color"])]),
            false,
            "both differ",
        ),
        (versions(&[("v1", same.clone(), &[".spec.on"]), ("v2", same.clone(), &[".spec.on"])]), false, "both equal"),
        (
            versions(&[("v1", same.clone(), &[".spec.on"]), ("v2", Some(unknown_keyword), &[".spec.on"])]),
            false,
            "schemas that decode alike are equal",
        ),
        (versions(&[("v1", same.clone(), &[]), ("v2", other.clone(), &[])]), false, "no fields at all"),
    ] {
        let validation = validate(&crd, None);
        assert_eq!(causes(&validation), [""; 0], "{why}");
        let messages: Vec<&str> = validation.warnings.iter().map(|warning| warning.message.as_str()).collect();
        assert_eq!(
            messages.iter().any(|text| text.contains("kubernetes/kubernetes#140689")),
            warns,
            "{why}: {messages:?}"
        );
        for (version, outcome) in crd.versions.iter().zip(&validation.versions) {
            assert_eq!(outcome.accepted.len(), version.selectable_fields.len(), "{why}");
        }
    }
}

#[test]
fn fields_need_a_schema() {
    let required =
        |index: usize| format!("FieldValueRequired spec.versions[{index}].schema.openAPIV3Schema: Required value");
    let top = "FieldValueInvalid spec.selectableFields: Invalid value: \"\": may only be set when validations.schema is included";
    let of = |index: usize| {
        format!(
            "FieldValueInvalid spec.versions[{index}].selectableFields: Invalid value: \"\": may only be set when \
             `version.schema.openAPIV3Schema` is not included"
        )
    };
    for (crd, expected, crashes) in [
        (versions(&[("v1", None, &[".spec.on"])]), vec![required(0), top.to_owned()], false),
        (versions(&[("v1", Some(Value::Null), &[".spec.on"])]), vec![required(0), top.to_owned()], true),
        (
            versions(&[("v1", Some(Value::Null), &[""])]),
            vec![required(0), "FieldValueRequired spec.selectableFields[0].jsonPath: Required value".to_owned()],
            false,
        ),
        (
            versions(&[("v1", Some(schema()), &[".spec.on"]), ("v2", None, &[".spec.color"])]),
            vec![required(1), of(1)],
            false,
        ),
        (versions(&[("v1", None, &[".spec.on"]), ("v2", None, &[])]), vec![required(0), required(1), of(0)], false),
    ] {
        let validation = validate(&crd, None);
        assert_eq!(causes(&validation), expected);
        assert_eq!(validation.warnings.iter().any(|warning| warning.message.contains("crash")), crashes);
        assert_eq!(validation.versions.last().unwrap().accepted, []);
    }
    let without = versions(&[("v1", None, &[])]);
    let lenient = format!("{}: because otherwise all fields are pruned", required(0));
    assert_eq!(causes(&validate(&without, Some(&without))), [lenient], "an update of what was so before");
}

#[test]
fn a_crash_of_the_api_server_is_a_warning_beside_the_cause() {
    let validation = validate(&crd("Namespaced", schema(), &[".spec.any.a.b"]), None);
    let expected = "FieldValueInvalid spec.selectableFields[0].jsonPath: Invalid value: \".spec.any.a.b\": is an \
                    invalid path: does not refer to a valid field";
    assert_eq!(causes(&validation), [expected]);
    assert!(validation.warnings[0].message.contains("crash"), "{:?}", validation.warnings);
    let long = "x".repeat(70_000);
    let validation = validate(&crd("Namespaced", schema(), &[&long]), None);
    assert!(validation.warnings[0].message.contains("64 KiB"));
}

#[test]
fn paths_that_an_api_server_cannot_evaluate_are_accepted_with_a_warning() {
    for (path, expected) in [
        (".spec.a b", "cannot evaluate a path with ' '"),
        (".spec.a@b", "cannot evaluate a path with '@'"),
        (".spec.a,b", "cannot evaluate a path with ','"),
        (".spec.m.a\tb", "cannot evaluate a path with '\\t'"),
        (".spec.m.a\nb", "cannot evaluate a path with '\\n'"),
        (".spec.m.a\rb", "cannot evaluate a path with '\\r'"),
        (".spec.m.$ref", "cannot evaluate a path with '$'"),
        (".spec.m.{", "cannot evaluate a path with '{'"),
        (".spec.*", "any key"),
        (".spec.a}b", "only up to '}'"),
        (".spec.a\\b", "drop the backslash"),
        (".spec.m.'a.b'", "dot or bracket"),
        (".spec.a=b", "No field selector can name a path with '='"),
        (".spec.m.x,y", "No field selector can name a path with ','"),
        (".spec.a!", "ends in '!'"),
        (".spec.color", ""),
        (".spec.a*", ""),
        (".spec.\"q\"", ""),
    ] {
        let validation = validate(&crd("Namespaced", schema(), &[path]), None);
        assert_eq!(causes(&validation), [""; 0], "{path}");
        let messages: Vec<&str> = validation.warnings.iter().map(|warning| warning.message.as_str()).collect();
        assert_eq!(messages.iter().any(|text| text.contains(expected)), !expected.is_empty(), "{path}: {messages:?}");
        assert!(validation.warnings.iter().all(|warning| warning.version == "v1" && warning.json_path == path));
    }
}

#[test]
fn a_list_that_was_too_long_may_stay_unchanged() {
    let long: Vec<String> = (0..9).map(|number| format!(".spec.f{number}")).collect();
    let other: Vec<String> = (1..10).map(|number| format!(".spec.f{number}")).collect();
    let (long, other): (Vec<&str>, Vec<&str>) =
        (long.iter().map(String::as_str).collect(), other.iter().map(String::as_str).collect());
    let hoisted = |paths: &[&str]| versions(&[("v1", Some(schema()), paths)]);
    let apart =
        |paths: &[&str]| versions(&[("v1", Some(schema()), paths), ("v2", Some(other_schema()), &[".spec.on"])]);
    for (old, new, is_accepted, why) in [
        (None, hoisted(&long), false, "create"),
        (Some(hoisted(&long)), hoisted(&long), true, "the same nine at the top"),
        (Some(hoisted(&long)), hoisted(&other), false, "nine others at the top"),
        (Some(hoisted(&long[..8])), hoisted(&long), false, "eight before"),
        (Some(apart(&long)), apart(&long), true, "the same nine in a version"),
        (Some(apart(&long)), apart(&other), false, "nine others in a version"),
        (Some(hoisted(&long)), apart(&long), false, "the list moved from the top to a version"),
        (Some(apart(&long)), hoisted(&long), false, "the list moved from a version to the top"),
    ] {
        let validation = validate(&new, old.as_ref());
        assert_eq!(validation.is_accepted(), is_accepted, "{why}: {:?}", validation.causes);
        assert_eq!(validation.versions[0].accepted.len(), new.versions[0].selectable_fields.len(), "{why}");
    }
    let narrowed = crd("Namespaced", json!({"type": "object"}), &[".spec.color"]);
    let validation = validate(&narrowed, Some(&crd("Namespaced", schema(), &[".spec.color"])));
    assert_eq!(validation.causes.len(), 1, "every other rule is applied again, also when only the schema changed");
}

#[test]
fn hints_describe_the_fix() {
    for (path, expected) in [
        ("spec.color", "write \".spec.color\""),
        ("$.spec.color", "write \".spec.color\""),
        ("{.spec.color}", "write \".spec.color\""),
        (".spec.Color", "spec in the schema has \"color\""),
        (".spek", "the schema has only \"metadata\", \"spec\", \"status\""),
        (".status.x", "status in the schema has only \"phase\""),
        (".spec.color.x", "spec.color in the schema has no properties"),
        (".spec.list[0]", "list elements are not selectable, and neither are names in brackets"),
        (".spec.", "remove the dot at the end, or add the name of a field"),
        (".spec.obj", "the field is an object; select one of its fields"),
        (".spec.port", "the field is an int-or-string, which has no single type"),
        (".spec.ratio", "the field is of type number"),
        ("", "write a path such as \".spec.color\""),
    ] {
        let validation = validate(&crd("Namespaced", schema(), &[path]), None);
        assert_eq!(validation.causes[0].hint, expected, "{path}");
    }
}

#[test]
fn accepted_fields_carry_the_facts_for_users() {
    let validation = validate(&crd("Namespaced", schema(), &[".spec.color", ".spec.maybe"]), None);
    let [color, maybe] = &validation.versions[0].accepted[..] else { panic!("two fields") };
    assert_eq!((&*color.label, &*color.json_path, &*color.kind), ("spec.color", ".spec.color", "string"));
    assert_eq!((&color.allowed[..], color.default.as_deref()), (&["blue".to_owned()][..], Some("blue")));
    assert_eq!(color.description, "Its colour.");
    assert_eq!((&*maybe.kind, &*maybe.format, &maybe.default), ("integer", "int32", &None));
}

#[test]
fn what_an_api_server_drops_is_warned_of() {
    let document = json!({"spec": {"selectableFields": [{"jsonPath": ".spec.color"}], "versions": [
        {"name": "v1", "selectableFields": [{"jsonpath": ".spec.x"}, {"jsonPath": ".spec.y"}, null]}]}});
    let messages: Vec<_> =
        unknown_fields(&document).into_iter().map(|warning| (warning.version, warning.message)).collect();
    assert_eq!(
        messages,
        [
            (String::new(), "unknown field \"spec.selectableFields\"".to_owned()),
            ("v1".to_owned(), "unknown field \"spec.versions[0].selectableFields[0].jsonpath\"".to_owned()),
        ]
    );
    assert_eq!(unknown_fields(&json!(null)), []);
}

#[test]
fn a_definition_is_validated_once_for_each_state() {
    let of = |paths: &[&str]| Arc::new(crd("Namespaced", schema(), paths));
    let (first, second) = (of(&[".spec.color", ".spec.nope"]), of(&[".spec.color"]));
    let validations = CrdValidationCache::default();
    let validated = validations.get_or_validate(&first);
    assert_eq!(validated.versions[0].rejected, validate(&first, None).versions[0].rejected);
    assert_eq!(validated.warnings, validate(&first, None).warnings);
    assert_eq!(validated.versions[0].accepted, [], "a plan has them");
    assert!(Arc::ptr_eq(&validations.get_or_validate(&first), &validated));
    let other = validations.get_or_validate(&second);
    assert!(other.versions[0].rejected.is_empty() && !Arc::ptr_eq(&other, &validated));
    assert!(Arc::ptr_eq(&validations.get_or_validate(&second), &other));
    let weak = Arc::downgrade(&other);
    drop(other);
    validations.retain(|_| false);
    assert_eq!(weak.strong_count(), 0, "the definition is gone");
}

/// A schema with only the keywords that JSONSchemaProps has. Schemas are equal if these are.
fn decoded(schema: &Value) -> Value {
    let Some(keywords) = schema.as_object() else { return schema.clone() };
    let kept = keywords.iter().filter_map(|(keyword, value)| {
        let value = match keyword.as_str() {
            "properties" => {
                Value::Object(value.as_object()?.iter().map(|(name, schema)| (name.clone(), decoded(schema))).collect())
            }
            "allOf" => Value::Array(value.as_array()?.iter().map(decoded).collect()),
            "items" => decoded(value),
            "default" | "type" | "enum" | "uniqueItems" | "x-kubernetes-map-type" => value.clone(),
            "x-kubernetes-preserve-unknown-fields" => value.clone(),
            _ => return None,
        };
        let holds_nothing = match (keyword.as_str(), &value) {
            ("items" | "default" | "x-kubernetes-preserve-unknown-fields", value) => value.is_null(),
            (_, Value::Null | Value::Bool(false)) => true,
            (_, Value::String(text)) => text.is_empty(),
            (_, Value::Array(items)) => items.is_empty(),
            (_, Value::Object(members)) => members.is_empty(),
            (_, Value::Bool(true) | Value::Number(_)) => false,
        };
        (!holds_nothing).then(|| (keyword.clone(), value))
    });
    Value::Object(kept.collect())
}

fn schemas() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        prop::sample::select(vec!["", "a"]).prop_map(Value::from),
        Just(json!([])),
        Just(json!(["a"])),
        Just(json!({})),
        Just(json!(0)),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let keywords = vec![
            "properties",
            "allOf",
            "items",
            "default",
            "type",
            "enum",
            "uniqueItems",
            "x-kubernetes-map-type",
            "x-kubernetes-preserve-unknown-fields",
            "unknown",
        ];
        let keyword = prop::sample::select(keywords).prop_map(str::to_owned);
        let members = |key: BoxedStrategy<String>| {
            prop::collection::btree_map(key, inner.clone(), 0..3)
                .prop_map(|members| Value::Object(members.into_iter().collect()))
        };
        prop_oneof![
            4 => members(keyword.boxed()),
            1 => members("[ab]".boxed()),
            1 => prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
        ]
    })
}

proptest! {
    #[test]
    fn schemas_are_equal_if_they_are_decoded_alike(left in schemas(), right in schemas(), is_near in any::<bool>()) {
        let right = if is_near { decoded(&left) } else { right };
        let expected = decoded(&left) == decoded(&right);
        prop_assert_eq!(same_decoded(&left, &right), expected, "{} and {}", left, right);
        prop_assert_eq!(same_decoded(&right, &left), expected, "{} and {}", right, left);
    }
}
