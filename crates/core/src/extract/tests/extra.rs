//! Extra fields: valid requests, the errors of the others, and the values of an object.

use bytes::Bytes;
use serde_json::{Value, json};

use super::extractor::{crd, values};
use crate::crd::PrinterColumn;
use crate::extract::extra::{
    AcceptedFields, ExtraFieldError, ExtraFieldReason, FieldRequest, MAX_EXTRA_FIELDS, TargetResource, accept,
};
use crate::extract::scan::MOST_VALUES;
use crate::extract::{Extractor, Origin};
use crate::model::IndexedValues;
use fieldcache_testing::nested::on_worker_stack;

fn schema() -> Value {
    json!({"type": "object", "properties": {
        "metadata": {"type": "object"},
        "color": {"type": "string"},
        "spec": {"type": "object", "properties": {
            "color": {"type": "string", "enum": ["blue", "green"], "format": "colour"},
            "size": {"type": "integer", "format": "int64"},
            "ratio": {"type": "number"},
            "port": {"x-kubernetes-int-or-string": true},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "anything": {"type": "object", "additionalProperties": true},
            "by-name": {"type": "object", "additionalProperties": {"type": "object", "properties": {"on": {"type": "boolean"}}}},
            "tags": {"type": "array", "items": {"type": "string"}},
            "steps": {"type": "array", "items": {"type": "object", "properties": {
                "image": {"type": "string"}, "args": {"type": "array", "items": {"type": "string"}}}}},
        }},
    }})
}

fn column(name: &str, json_path: &str) -> PrinterColumn {
    PrinterColumn {
        name: name.to_owned(),
        kind: "string".to_owned(),
        format: String::new(),
        description: String::new(),
        priority: 0,
        json_path: json_path.to_owned(),
    }
}

fn columns() -> Vec<PrinterColumn> {
    vec![
        column("Size", ".spec.size"),
        column("Images", ".spec.steps[*].image"),
        column("First", "$.spec.steps[0]['image']"),
        column("NoDot", "spec.color"),
        column("Double", ".spec[\"color\"]"),
        column("Team", ".metadata.labels.team\\.example\\.com"),
        column("Ready", ".status.conditions[?(@.type==\"Ready\")].status"),
        column("Last", ".spec.tags[-1]"),
        column("All", ".spec..image"),
        column("Some", ".spec.tags[0:2]"),
        column("Two", ".spec['color','size']"),
        column("Nothing", ".spec.nothing"),
        column("Whole", "."),
        column("Open", ".spec.tags[0"),
        column("Quote", ".spec['color"),
        column("Text", "{.spec.color}"),
        column("Dots", ".spec."),
    ]
}

fn shirts() -> Extractor {
    Extractor::custom_resource(&crd("Namespaced", schema(), &[".spec.color", ".color"]), "v1")
}

pub(super) fn at_path(name: &str, json_path: &str) -> FieldRequest {
    FieldRequest { name: name.to_owned(), json_path: Some(json_path.to_owned()), printer_column: None }
}

fn of_column(name: &str, column: &str) -> FieldRequest {
    FieldRequest { name: name.to_owned(), json_path: None, printer_column: Some(column.to_owned()) }
}

fn accepted(requests: &[FieldRequest]) -> AcceptedFields {
    let schema = schema();
    accept(requests, &TargetResource { extractor: &shirts(), schema: Some(&schema), columns: &columns() })
}

#[test]
fn right_requests_become_fields() {
    // Path or column, type, whether there can be several values.
    for (request, kind, is_many) in [
        (at_path("x", "$.spec.size"), "integer", false),
        (at_path("x", "$['spec']['color']"), "string", false),
        (at_path("x", "$.spec.steps[*].image"), "string", true),
        (at_path("x", "$.spec.steps.*.image"), "string", true),
        (at_path("x", "$.spec.steps[0].image"), "string", false),
        (at_path("x", "$.spec.steps[*].args[0]"), "string", true),
        (at_path("x", "$.spec['by-name'].*.on"), "boolean", true),
        (at_path("x", "$.spec['by-name'].front.on"), "boolean", false),
        (at_path("x", "$.spec.port"), "string", false),
        (at_path("x", "$.spec.free.whatever[*]"), "", true),
        (at_path("x", "$.spec.free[3]"), "", false),
        (at_path("x", "$.spec.anything.a.b"), "", false),
        (at_path("x", "$.metadata.ownerReferences[*].uid"), "string", true),
        (at_path("x", "$.metadata.labels['a/b']"), "string", false),
        (at_path("x", "$.metadata.annotations[*]"), "string", true),
        (at_path("x", "$.metadata.generation"), "integer", false),
        (at_path("x", "$.metadata.finalizers[*]"), "string", true),
        (of_column("x", "Size"), "integer", false),
        (of_column("x", "Images"), "string", true),
        (of_column("x", "First"), "string", false),
        (of_column("x", "Team"), "string", false),
    ] {
        let AcceptedFields { fields, problems } = accepted(std::slice::from_ref(&request));
        assert_eq!(problems, [], "{request:?}");
        let plan = shirts().with_extra(&fields).unwrap();
        let field = plan.fields().last().unwrap();
        assert_eq!((&*field.label, &*field.kind, fields[0].is_many()), ("x", kind, is_many), "{request:?}");
        assert_eq!(field.origin, Origin::FieldCache);
        assert!(field.description.contains(&field.json_path), "{}", field.description);
        assert_eq!(field.description.contains("several"), is_many, "{}", field.description);
    }
    let outcome = accepted(&[at_path("x", "$.spec.color")]);
    let plan = shirts().with_extra(&outcome.fields).unwrap();
    let field = plan.fields().last().unwrap();
    assert_eq!((field.allowed.join(","), &*field.format), ("blue,green".to_owned(), "colour"));
}

#[test]
fn invalid_requests_are_rejected_with_a_reason_and_a_remedy() {
    let neither = FieldRequest { name: "x".to_owned(), ..FieldRequest::default() };
    let both = FieldRequest { printer_column: Some("Size".to_owned()), ..at_path("x", "$.spec.size") };
    let long = format!("$.{}", "a".repeat(511));
    for (request, reason, place, part) in [
        (at_path("", "$.spec.size"), ExtraFieldReason::InvalidName, ".name", "1 to 63 lower-case letters"),
        (at_path("spec.size", "$.spec.size"), ExtraFieldReason::InvalidName, ".name", "have no dot"),
        (at_path("Size", "$.spec.size"), ExtraFieldReason::InvalidName, ".name", "lower-case"),
        (at_path("-a", "$.spec.size"), ExtraFieldReason::InvalidName, ".name", "begin and end"),
        (at_path(&"a".repeat(64), "$.spec.size"), ExtraFieldReason::InvalidName, ".name", "1 to 63"),
        (at_path("color", "$.spec.size"), ExtraFieldReason::NameTaken, ".name", "is a field label of the API server"),
        (neither, ExtraFieldReason::PathAmbiguous, "", "exactly one of jsonPath and printerColumn"),
        (both, ExtraFieldReason::PathAmbiguous, "", "exactly one of jsonPath and printerColumn"),
        (at_path("x", ".spec.size"), ExtraFieldReason::InvalidPath, ".jsonPath", "a path begins with $"),
        (at_path("x", "$.spec."), ExtraFieldReason::InvalidPath, ".jsonPath", "is not an RFC 9535 path at character"),
        (at_path("x", "$.spec.by-name"), ExtraFieldReason::InvalidPath, ".jsonPath", "is not an RFC 9535 path"),
        (at_path("x", ""), ExtraFieldReason::InvalidPath, ".jsonPath", "is not an RFC 9535 path"),
        (at_path("x", &long), ExtraFieldReason::InvalidPath, ".jsonPath", "longer than 512 characters"),
        (at_path("x", "$"), ExtraFieldReason::UnsupportedPath, ".jsonPath", "selects the whole object"),
        (at_path("x", "$.spec.tags[-1]"), ExtraFieldReason::UnsupportedPath, ".jsonPath", "negative list indexes"),
        (at_path("x", "$.spec.tags[0:2]"), ExtraFieldReason::UnsupportedPath, ".jsonPath", "slices"),
        (at_path("x", "$.spec.steps[?@.image=='a'].image"), ExtraFieldReason::UnsupportedPath, ".jsonPath", "filters"),
        (
            at_path("x", "$.spec['color','size']"),
            ExtraFieldReason::UnsupportedPath,
            ".jsonPath",
            "define a field for each name",
        ),
        (at_path("x", "$..image"), ExtraFieldReason::UnsupportedPath, ".jsonPath", "descendants"),
        (at_path("x", "$.spec.colour"), ExtraFieldReason::PathNotFound, ".jsonPath", "the nearest is $.spec.color"),
        (at_path("x", "$.spec.Size"), ExtraFieldReason::PathNotFound, ".jsonPath", "the nearest is $.spec.size"),
        (
            at_path("x", "$.spec.byname.a.on"),
            ExtraFieldReason::PathNotFound,
            ".jsonPath",
            "the nearest is $.spec['by-name']",
        ),
        (
            at_path("x", "$.spec.sleeve"),
            ExtraFieldReason::PathNotFound,
            ".jsonPath",
            "which has \"anything\", \"by-name\", \"color\"",
        ),
        (at_path("x", "$.status.phase"), ExtraFieldReason::PathNotFound, ".jsonPath", "no \"status\" in $"),
        (
            at_path("x", "$.spec.steps.image"),
            ExtraFieldReason::PathNotFound,
            ".jsonPath",
            "is a list: write $.spec.steps[*].image",
        ),
        (at_path("x", "$.spec.color[0]"), ExtraFieldReason::PathNotFound, ".jsonPath", "$.spec.color is not a list"),
        (at_path("x", "$.spec.color[*]"), ExtraFieldReason::PathNotFound, ".jsonPath", "neither a list nor an object"),
        (
            at_path("x", "$.spec.color.x"),
            ExtraFieldReason::PathNotFound,
            ".jsonPath",
            "in $.spec.color, which has no fields",
        ),
        (at_path("x", "$.metadata.owner"), ExtraFieldReason::PathNotFound, ".jsonPath", "in $.metadata"),
        (
            at_path("x", "$.spec"),
            ExtraFieldReason::TypeNotSelectable,
            ".jsonPath",
            "is an object: add the name of a field, such as $.spec.",
        ),
        (
            at_path("x", "$.spec.tags"),
            ExtraFieldReason::TypeNotSelectable,
            ".jsonPath",
            "is a list: write $.spec.tags[*]",
        ),
        (
            at_path("x", "$.metadata.labels"),
            ExtraFieldReason::TypeNotSelectable,
            ".jsonPath",
            "or write $.metadata.labels[*] for all",
        ),
        (at_path("x", "$.spec.ratio"), ExtraFieldReason::TypeNotSelectable, ".jsonPath", "has the type number"),
        (at_path("x", "$.spec.*"), ExtraFieldReason::TypeNotSelectable, ".jsonPath", "$.spec"),
        (at_path("x", "$.kind"), ExtraFieldReason::Pointless, ".jsonPath", "the same in all objects"),
        (at_path("x", "$.metadata.name"), ExtraFieldReason::Pointless, ".jsonPath", "under its own path"),
        (at_path("x", "$.metadata.resourceVersion"), ExtraFieldReason::Pointless, ".jsonPath", "every write"),
        (
            of_column("x", "Sise"),
            ExtraFieldReason::ColumnNotFound,
            ".printerColumn",
            "its columns are \"Size\", \"Images\"",
        ),
        (of_column("x", "Ready"), ExtraFieldReason::UnsupportedPath, ".printerColumn", "filters"),
        (of_column("x", "Last"), ExtraFieldReason::UnsupportedPath, ".printerColumn", "negative list indexes"),
        (of_column("x", "All"), ExtraFieldReason::UnsupportedPath, ".printerColumn", "descendants"),
        (of_column("x", "Some"), ExtraFieldReason::UnsupportedPath, ".printerColumn", "slices"),
        (of_column("x", "Two"), ExtraFieldReason::UnsupportedPath, ".printerColumn", "define a field for each name"),
        (of_column("x", "Nothing"), ExtraFieldReason::PathNotFound, ".printerColumn", "no \"nothing\" in $.spec"),
        (of_column("x", "Whole"), ExtraFieldReason::UnsupportedPath, ".printerColumn", "a name is missing"),
        (of_column("x", "NoDot"), ExtraFieldReason::UnsupportedPath, ".printerColumn", "begins with a dot"),
        (of_column("x", "Double"), ExtraFieldReason::UnsupportedPath, ".printerColumn", "a name in single quotes"),
        (of_column("x", "Open"), ExtraFieldReason::UnsupportedPath, ".printerColumn", "not closed"),
        (of_column("x", "Quote"), ExtraFieldReason::UnsupportedPath, ".printerColumn", "not closed"),
        (of_column("x", "Text"), ExtraFieldReason::UnsupportedPath, ".printerColumn", "cannot parse it: '{'"),
        (of_column("x", "Dots"), ExtraFieldReason::UnsupportedPath, ".printerColumn", "a name is missing"),
    ] {
        let AcceptedFields { fields, problems } = accepted(std::slice::from_ref(&request));
        assert_eq!(fields.len(), 0, "{request:?}");
        let [problem] = &problems[..] else { panic!("{request:?}: {problems:?}") };
        let expected = (reason, format!("spec.selectableFields[0]{place}"));
        assert_eq!((problem.reason, problem.place.clone()), expected, "{request:?}: {problem}");
        assert!(problem.message.contains(part), "{request:?}: {}", problem.message);
        assert!(!problem.message.contains('\n') && !problem.message.ends_with('.'), "{}", problem.message);
    }
}

#[test]
fn a_list_is_validated_as_a_whole_too() {
    let many = |count: usize| -> Vec<FieldRequest> {
        (0..count).map(|index| at_path(&format!("f{index}"), &format!("$.spec.free.f{index}"))).collect()
    };
    assert_eq!(accepted(&many(MAX_EXTRA_FIELDS)).fields.len(), MAX_EXTRA_FIELDS);
    let ExtraFieldError { reason, place, message, .. } = accepted(&many(33)).problems.remove(0);
    assert_eq!((reason, &*place), (ExtraFieldReason::TooManyFields, "spec.selectableFields"), "{message}");

    let twice = accepted(&[at_path("a", "$.spec.size"), at_path("a", "$.spec.color"), at_path("b", "$.nope")]);
    assert_eq!(twice.fields.len(), 1, "one of them is valid");
    let reasons: Vec<(ExtraFieldReason, &str)> =
        twice.problems.iter().map(|problem| (problem.reason, &*problem.place)).collect();
    assert_eq!(
        reasons,
        [
            (ExtraFieldReason::DuplicateName, "spec.selectableFields[1].name"),
            (ExtraFieldReason::PathNotFound, "spec.selectableFields[2].jsonPath"),
        ]
    );

    // Wildcards that meet in ever new ways: each path has a name at another place.
    let meeting: Vec<FieldRequest> = (0..MAX_EXTRA_FIELDS)
        .map(|index| {
            let steps = (0..MAX_EXTRA_FIELDS).map(|place| if place == index { ".x" } else { ".*" });
            at_path(&format!("f{index}"), &format!("$.spec.free{}", steps.collect::<String>()))
        })
        .collect();
    let outcome = accepted(&meeting);
    assert!(outcome.fields.len() >= 4, "some of them are fine: {}", outcome.fields.len());
    assert!(
        outcome.problems.iter().all(|problem| problem.reason == ExtraFieldReason::TooComplex),
        "{:?}",
        outcome.problems
    );
    assert!(!outcome.problems.is_empty());
    assert!(shirts().with_extra(&outcome.fields).is_ok());
}

#[test]
fn without_a_schema_every_path_is_taken() {
    let plan = crate::builtin::extractor("example.com", "v1", "Thing");
    let subject = TargetResource { extractor: &plan, schema: None, columns: &[] };
    let outcome = accept(&[at_path("x", "$.a[*]['b c'][2].*")], &subject);
    assert_eq!((outcome.fields.len(), outcome.problems), (1, Vec::new()));
    let refused = accept(&[of_column("x", "Size")], &subject);
    assert!(refused.problems[0].message.contains("has no additionalPrinterColumns"), "{}", refused.problems[0]);
}

/// Pods with fields at these paths.
fn pods(paths: &[&str]) -> Extractor {
    let base = crate::builtin::extractor("", "v1", "Pod");
    let requests: Vec<FieldRequest> =
        paths.iter().enumerate().map(|(index, path)| at_path(&format!("f{index}"), path)).collect();
    let outcome = accept(&requests, &TargetResource { extractor: &base, schema: None, columns: &[] });
    assert_eq!(outcome.problems, []);
    base.with_extra(&outcome.fields).unwrap()
}

/// The values behind those of the built-in fields.
fn extra_values(plan: &Extractor, object: &str) -> Vec<(u16, String)> {
    let own = crate::builtin::extractor("", "v1", "Pod").fields().len() as u16;
    let record = plan.extract(Bytes::copy_from_slice(object.as_bytes())).unwrap();
    let behind = record.texts.values().filter(|(field, _)| field.0 >= own);
    behind.map(|(field, value)| (field.0 - own, value.to_owned())).collect()
}

#[test]
fn values_are_found_wherever_the_object_is_cut() {
    let plan = pods(&["$.spec.containers[*].image", "$.spec.containers[1].name", "$.metadata.ownerReferences[*].uid"]);
    let body = r#""metadata":{"name":"p","namespace":"n","resourceVersion":"7","ownerReferences":[{"uid":"u"}]},
        "spec":{"nodeName":"n1","containers":[{"name":"a","image":"b"},{"name":"c","image":"a"},{"image":"b"},{"image":null},{}]}"#;
    let expected =
        [(0, "a"), (0, "b"), (1, "c"), (2, "u")].map(|(field, value): (u16, &str)| (field, value.to_owned()));
    for object in [
        format!("{{{body}}}"),
        // As a watch sends it: cut with one copy; and in another order, member by member.
        format!(r#"{{"kind":"Pod","apiVersion":"v1",{body}}}"#),
        format!(r#" {{"apiVersion":"v1",{body},"kind":"Pod"}} "#),
    ] {
        assert_eq!(extra_values(&plan, &object), expected, "{object}");
    }
    let bare = r#"{"metadata":{"name":"p","resourceVersion":"7"},"spec":{"containers":"none"}}"#;
    assert_eq!(extra_values(&plan, bare), [(1, String::new())], "a single value is empty, several are none");
}

#[test]
fn texts_are_those_of_all_fields() {
    let plan = pods(&["$.x[*]"]);
    let object =
        r#"{"metadata":{"name":"p","resourceVersion":"7"},"x":["b","a","a",true,1.0,1e2,-1.5,"",null,{"a":[1]},"é"]}"#;
    let found: Vec<String> = extra_values(&plan, object).into_iter().map(|(_, value)| value).collect();
    assert_eq!(found, ["", "-1.5", "1", "100", "a", "b", "map[a:[1]]", "true", "é"]);
}

#[test]
fn an_object_has_each_different_value_once_however_many_there_are() {
    let plan = pods(&["$.x[*]", "$.y[*]"]);
    for (count, repeated) in [(1, 0), (64, 5_000), (65, 0), (5_000, 5_000), (20_000, 0)] {
        let different = (0..count).map(|index| format!("\"v{index}\""));
        let items: Vec<String> = different.chain(std::iter::repeat_n("\"v0\"".to_owned(), repeated)).collect();
        let object =
            format!(r#"{{"metadata":{{"name":"p","resourceVersion":"7"}},"x":[{}],"y":["z"]}}"#, items.join(","));
        let mut expected: Vec<(u16, String)> = (0..count).map(|index| (0, format!("v{index}"))).collect();
        expected.sort();
        expected.push((1, "z".to_owned()));
        assert_eq!(extra_values(&plan, &object), expected, "{count} and {repeated} again");
    }
}

#[test]
fn an_object_with_too_many_values_has_unknown_ones() {
    let plan = pods(&["$.x[*]", "$.*[*]", "$.y", "$.z[*]"]);
    let shared = pods(&["$.spec.x", "$.spec", "$.*", "$.spec['x']", "$.spec.y"]);
    let record = |items: usize, length: usize| {
        let items: Vec<String> = (0..items).map(|index| format!("\"{index:0length$}\"")).collect();
        let x = items.join(",");
        let object = format!(r#"{{"metadata":{{"name":"p","resourceVersion":"7"}},"x":[{x}],"y":"one","z":["last"]}}"#);
        plan.extract(Bytes::from(object)).unwrap().texts
    };
    let own = plan.fields().len() as u16 - 4;
    let unknown = |texts: &IndexedValues| -> Vec<u16> {
        texts.values().filter_map(|(field, _)| field.of_unknown().map(|field| field.0 - own)).collect()
    };
    // Both paths lead to each item, and each member of the object but `y` is one for `$.*[*]`.
    let most = (MOST_VALUES - 2) / 2;
    let rows: [(usize, usize, &[u16]); 6] = [
        (most - 2, 4, &[]),
        (most + 1, 4, &[0, 1, 3]),
        (700_000, 1, &[0, 1, 3]),
        (500, 1_000, &[]),
        (600, 1_000, &[1]),
        (1_100, 1_000, &[0, 1]),
    ];
    for (items, length, expected) in rows {
        let texts = record(items, length);
        assert_eq!(unknown(&texts), expected, "{items} of {length} bytes");
        assert_eq!(texts.has_unknown(), !expected.is_empty());
        let values = |field: u16| texts.values().filter(move |(index, _)| index.0 == own + field).count();
        for field in [0, 1, 3] {
            assert_eq!(values(field) == 0, expected.contains(&field), "{items} of {length} bytes: field {field}");
        }
        assert_eq!(values(2), 1, "a field with one value has it all the same");
    }
    // Many paths to one long value.
    for (length, expected) in
        [(200_000, &[][..]), (400_000, &[2, 3]), (600_000, &[1, 2, 3]), (1_100_000, &[0, 1, 2, 3])]
    {
        let x = "x".repeat(length);
        let object = format!(r#"{{"metadata":{{"name":"p","resourceVersion":"7"}},"spec":{{"x":["{x}"],"y":"one"}}}}"#);
        let texts = shared.extract(Bytes::from(object)).unwrap().texts;
        let own = shared.fields().len() as u16 - 5;
        let unknown: Vec<u16> =
            texts.values().filter_map(|(field, _)| field.of_unknown()).map(|field| field.0 - own).collect();
        assert_eq!(unknown, expected, "{length} bytes");
        assert!(texts.values().any(|(field, value)| field.0 == own + 4 && value == "one"), "{length} bytes");
    }
}

#[test]
fn paths_that_meet_do_not_disturb_each_other() {
    let plan = pods(&["$.a[*].x", "$.a[0].x", "$.a[1].*", "$.a[*]"]);
    let object = r#"{"metadata":{"name":"p","resourceVersion":"7"},"a":[{"x":"1","y":"2"},{"x":"3","y":"4"}]}"#;
    let found = extra_values(&plan, object);
    let of = |field: u16| -> Vec<&str> {
        found.iter().filter(|(index, _)| *index == field).map(|(_, value)| &**value).collect()
    };
    assert_eq!(of(0), ["1", "3"]);
    assert_eq!(of(1), ["1"]);
    assert_eq!(of(2), ["3", "4"]);
    assert_eq!(of(3), ["map[x:1 y:2]", "map[x:3 y:4]"]);
}

#[test]
fn the_fields_of_the_resource_stay_first_and_as_they_were() {
    let outcome = accepted(&[at_path("images", "$.spec.steps[*].image")]);
    let plan = shirts().with_extra(&outcome.fields).unwrap();
    let object = r#"{"metadata":{"name":"a","resourceVersion":"1"},"color":"red","spec":{"color":"blue","steps":[{"image":"i"}]}}"#;
    assert_eq!(values(&plan, object), ["blue", "red", "i"]);
    assert_ne!(plan, shirts());
    assert_eq!(shirts().with_extra(&[]).unwrap(), shirts());
    assert!(plan.resolve("images").is_ok() && plan.resolve("$.spec.steps[*].image").is_err());
}

#[test]
fn paths_that_nest_are_rejected_in_bounded_time_and_stack() {
    let base = crate::builtin::extractor("", "v1", "ConfigMap");
    for (open, close) in
        [("(", ")"), ("!(", ")"), ("length(", ")"), ("@[?", "]"), ("@.a[?@.b&&(", ")]"), ("count(@[?", "])")]
    {
        for levels in [1, 2, 5, 20, 40, 100, 250] {
            let json_path = format!("$.a[?{}@.a{}]", open.repeat(levels), close.repeat(levels));
            let request =
                FieldRequest { name: "x".to_owned(), json_path: Some(json_path.clone()), printer_column: None };
            let outcome = on_worker_stack(|| {
                accept(&[request], &TargetResource { extractor: &base, schema: None, columns: &[] }).problems.len()
            });
            assert_eq!(outcome, 1, "{json_path}");
        }
    }
}
