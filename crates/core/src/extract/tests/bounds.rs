//! Parts that authors of definitions and of FieldCaches can make long: paths, enums, schemas. Costs are counted in
//! bytes and allocations.

use allocation_counter::measure;
use serde_json::{Value, json};

use super::extra::at_path;
use super::extractor::crd;
use crate::extract::extra::{AcceptedFields, ExtraFieldReason, FieldRequest, MAX_EXTRA_FIELDS, TargetResource, accept};
use crate::extract::{ExtraFields, Extractor, ObjectSchema, Prune};

/// A hostile source can repeat a key any number of times, and the paths of 32 fields can lead below it.
#[test]
fn repeated_keys_take_bounded_memory() {
    let paths: Vec<String> = (0..31).map(|index| format!("$.spec[*]{}", ".a".repeat(index))).collect();
    let requests: Vec<FieldRequest> = (0..31).map(|index| at_path(&format!("f{index}"), &paths[index])).collect();
    let base = pods();
    let fields = accept(&requests, &TargetResource { extractor: &base, schema: None, columns: &[] }).fields;
    let plan: Extractor = fields.extend(&base).unwrap();
    let member = format!(r#""k":{}{},"#, r#"{"a":"#.repeat(30), "1".to_owned() + &"}".repeat(30));
    let spec = member.repeat(20_000);
    let object = format!(r#"{{"metadata":{{"name":"p","resourceVersion":"1"}},"spec":{{{}"z":1}}}}"#, spec);
    let bytes = bytes::Bytes::from(object);
    let taken = measure(|| assert!(plan.extract(bytes.clone()).unwrap().texts.has_unknown()));
    assert!(taken.bytes_max < 8 << 20, "{taken:?} for {} bytes", bytes.len());
}

/// Views keep their paths, and there can be thousands of them.
#[test]
fn names_of_pruned_paths_take_little_memory() {
    let path = format!(".spec{}", ".a".repeat(250));
    let mut prune = Prune::default();
    let taken = measure(|| prune = Prune::new([&*path]).unwrap());
    assert!(taken.bytes_current < 250 * 100, "{taken:?} for {prune:?}");
}

fn pods() -> Extractor {
    crate::builtin::extractor("", "v1", "Pod")
}

fn accepted(requests: &[FieldRequest], plan: &Extractor, schema: Option<&Value>) -> AcceptedFields {
    accept(requests, &TargetResource { extractor: plan, schema, columns: &[] })
}

/// Fields whose paths are as long together as is permitted.
fn long() -> (Extractor, ExtraFields) {
    let requests: Vec<FieldRequest> = (0..MAX_EXTRA_FIELDS)
        .map(|index| at_path(&format!("f{index}"), &format!("$.spec.a{index}{}", ".a".repeat(30))))
        .collect();
    let outcome = accepted(&requests, &pods(), None);
    assert_eq!(outcome.problems, []);
    (outcome.fields.extend(&pods()).unwrap(), outcome.fields)
}

/// Wildcards that meet in ever new ways: each path has a name at another place.
fn meeting() -> Vec<FieldRequest> {
    (0..MAX_EXTRA_FIELDS)
        .map(|index| {
            let steps = (0..28).map(|place| if place == index % 28 { ".x" } else { ".*" });
            at_path(&format!("f{index}"), &format!("$.spec.a{}{}", ".b".repeat(index / 28), steps.collect::<String>()))
        })
        .collect()
}

/// There may be thousands of Views, each with a plan for every version of its resources.
#[test]
fn plans_of_views_take_no_memory_for_the_fields_of_their_resource() {
    const VIEWS: usize = 1_000;
    let (plan, _) = long();
    for paths in [&[][..], &[".spec.secret"], &[".spec.a0.a"]] {
        let prune = Prune::new(paths.iter().copied()).unwrap();
        let mut pruned = Vec::with_capacity(VIEWS);
        let taken = measure(|| pruned.extend((0..VIEWS).map(|_| plan.pruned(&prune))));
        assert!(taken.bytes_current < 128 * VIEWS as i64, "{paths:?}: {taken:?}");
        assert_eq!(pruned[0].offered().count(), plan.fields().len() - usize::from(paths == [".spec.a0.a"]));
        assert_eq!(pruned[0].resolve("f0").is_ok(), paths != [".spec.a0.a"]);
        // The schema of pruned objects is not shown.
        let whole = if paths.is_empty() { plan.clone() } else { plan.clone().with_schema(ObjectSchema::Unknown) };
        assert_eq!(pruned[0] == whole, paths != [".spec.a0.a"]);
    }
}

#[test]
fn the_plan_with_accepted_fields_is_made_once() {
    let (plan, fields) = long();
    let mut extended = Vec::with_capacity(1);
    // Made again, as for each catalog.
    let own = pods();
    let taken = measure(|| extended.push(fields.extend(&own).unwrap()));
    assert_eq!((taken.count_total, &extended[0]), (0, &plan));
    let mut store_option = Vec::with_capacity(1);
    assert_eq!(measure(|| store_option.push(fields.clone())).count_total, 0);
    // The resource has come to offer a name itself.
    let schema = json!({"type": "object", "properties": {"f0": {"type": "string"}}});
    let other = Extractor::custom_resource(&crd("Namespaced", schema, &[".f0"]), "v1");
    let extended = fields.extend(&other).unwrap();
    assert_eq!(extended.fields().len(), MAX_EXTRA_FIELDS);
    assert!(extended.fields()[1..].iter().all(|field| field.label != "f0"));
}

#[test]
fn fields_that_are_too_many_together_are_found_in_a_few_attempts() {
    let requests = meeting();
    let mut outcome = AcceptedFields::default();
    let all = measure(|| outcome = accepted(&requests, &pods(), None));
    let fitting = outcome.fields.len();
    assert!((4..MAX_EXTRA_FIELDS).contains(&fitting), "{fitting}");
    let reasons: Vec<ExtraFieldReason> = outcome.problems.iter().map(|problem| problem.reason).collect();
    assert_eq!(reasons, vec![ExtraFieldReason::TooComplex; MAX_EXTRA_FIELDS - fitting]);
    assert_eq!(outcome.problems[0].place, format!("spec.selectableFields[{fitting}].jsonPath"));
    let plan = pods();
    let once = measure(|| assert!(plan.with_extra(&outcome.fields).is_ok()));
    // To parse the paths takes as much as to merge them a few times.
    assert!(all.count_total < 16 * once.count_total, "{all:?}, once {once:?}");
    assert!(once.bytes_max < 1 << 20, "{once:?}");
}

#[test]
fn an_order_of_problems_is_that_of_the_fields() {
    let mut requests = meeting();
    requests[1].json_path = Some("$".to_owned());
    requests[30].name = "A".to_owned();
    let problems = accepted(&requests, &pods(), None).problems;
    let places: Vec<usize> =
        problems.iter().map(|problem| problem.place.split(['[', ']']).nth(1).unwrap().parse().unwrap()).collect();
    assert!(places.is_sorted() && places.contains(&1) && places.contains(&30), "{places:?}");
    assert_eq!(problems[0].reason, ExtraFieldReason::UnsupportedPath);
}

#[test]
fn paths_have_a_bounded_number_of_steps_together() {
    let request = |index: usize| at_path(&format!("f{index}"), &format!("$.spec{}.b{index}", ".a".repeat(200)));
    let requests: Vec<FieldRequest> = (0..8).map(request).collect();
    let outcome = accepted(&requests, &pods(), None);
    assert_eq!((outcome.fields.len(), outcome.problems.len()), (5, 3), "of 202 steps each");
    assert!(outcome.problems.iter().all(|problem| problem.reason == ExtraFieldReason::TooComplex));
}

/// A definition may have megabytes of them, and each of 32 fields may lead there.
#[test]
fn an_enum_is_stored_up_to_a_length_and_once() {
    let requests: Vec<FieldRequest> =
        (0..MAX_EXTRA_FIELDS).map(|index| at_path(&format!("f{index}"), "$.spec.color")).collect();
    let colors = |values: Vec<String>| {
        json!({"type": "object", "properties": {"color": {"type": "string"}, "spec": {"type": "object", "properties": {
            "color": {"type": "string", "enum": values, "format": "f".repeat(100_000)}}}}})
    };
    for (values, kept) in [
        (vec!["a".to_owned(); 3], 3),
        (vec!["a".to_owned(); 5_000], 1_024),
        (vec!["b".repeat(10_000); 50], 6),
        (vec!["c".repeat(1 << 20)], 0),
    ] {
        let schema = colors(values);
        let mut outcome = AcceptedFields::default();
        let taken = measure(|| outcome = accepted(&requests, &pods(), Some(&schema)));
        assert_eq!(outcome.fields.len(), MAX_EXTRA_FIELDS);
        let allowed: Vec<_> = outcome.fields.iter().map(|field| &field.field().allowed).collect();
        assert_eq!(allowed[0].len(), kept);
        assert!(allowed.iter().all(|other| std::sync::Arc::ptr_eq(other, allowed[0])));
        assert_eq!(outcome.fields[0].field().format.len(), 63);
        assert!(taken.bytes_current < 400 << 10, "{taken:?}");
        let plan = Extractor::custom_resource(&crd("Namespaced", schema, &[".spec.color"]), "v1");
        assert_eq!(plan.fields()[0].allowed.len(), kept, "the definition's own fields too");
    }
}

/// A wildcard goes a thousand ways at once, each of which may begin with a long name.
#[test]
fn ways_through_a_schema_are_written_for_messages_alone() {
    let leaves: serde_json::Map<String, Value> =
        (0..1_000).map(|index| (format!("p{index:04}"), json!({"type": "string"}))).collect();
    let schema = json!({"type": "object", "properties": {
        "n".repeat(100_000): {"type": "object", "properties": leaves}}});
    let mut outcome = AcceptedFields::default();
    let taken = measure(|| outcome = accepted(&[at_path("x", "$.*.*")], &pods(), Some(&schema)));
    assert_eq!((outcome.fields.len(), &outcome.problems[..]), (1, &[][..]));
    assert!(taken.bytes_max < 1 << 20, "{taken:?}");
    let message = accepted(&[at_path("x", "$.*.*.y")], &pods(), Some(&schema)).problems.remove(0).message;
    assert!(
        message.starts_with("the schema has no \"y\" in $.nnn") && message.ends_with("n.p0000, which has no fields"),
        "{}",
        message.len()
    );
}

/// The error for a field that the schema does not have names a similar one.
#[test]
fn names_of_a_schema_are_compared_up_to_a_number() {
    let near = |count: usize, name: &str| {
        let properties: serde_json::Map<String, Value> =
            (0..count).map(|index| (format!("p{index:04}"), json!({"type": "string"}))).collect();
        let schema = json!({"type": "object", "properties": properties});
        accepted(&[at_path("x", &format!("$.{name}"))], &pods(), Some(&schema)).problems.remove(0).message
    };
    assert!(near(200, "p0190x").ends_with("the nearest is $.p0190"), "{}", near(200, "p0190x"));
    assert!(!near(2_000, "p0900x").ends_with("p0900"), "{}", near(2_000, "p0900x"));
}
