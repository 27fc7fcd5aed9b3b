//! FieldCacheResults on FieldCaches that are kept, and what of them Views depend on.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{SHIRTS, block_on, definitions, field_cache, shirts};
use crate::crd::Crd;
use crate::extract::Extractor;
use crate::kinds::{FieldCache, View};
use crate::operator::field_caches;
use crate::operator::stores::{EvaluatedFieldCaches, FieldCacheResult, evaluate_all};
use crate::operator::views;
use crate::registry::Definitions;

fn evaluate(
    field_cache: &Arc<FieldCache>,
    definitions: &Definitions,
    last: &mut EvaluatedFieldCaches,
) -> Arc<FieldCacheResult> {
    let all = [field_cache.clone()];
    let results = block_on(evaluate_all(&all, &Arc::new(definitions.clone()), last));
    assert_eq!((results.len(), last.len()), (1, 1));
    results[SHIRTS].clone()
}

fn spec(more: &Value) -> Value {
    let mut spec = json!({
        "group": "stable.example.com", "resource": "shirts",
        "selectableFields": [{"name": "images", "jsonPath": "$.spec.steps[*].image"}],
    });
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    spec
}

fn with_crd(crd: Crd) -> Definitions {
    let mut definitions = definitions();
    for version in ["v1", "v1beta1"] {
        definitions.resources.get_mut(&crd.gvr(version)).unwrap().extractor = Extractor::custom_resource(&crd, version);
    }
    definitions.crds.insert(crd.name.clone(), Arc::new(crd));
    definitions
}

/// A definition whose schema has no fields.
fn bare() -> Crd {
    let version =
        json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}});
    Crd::read(&json!({
        "metadata": {"name": SHIRTS},
        "spec": {
            "group": "stable.example.com", "scope": "Namespaced", "names": {"plural": "shirts", "kind": "Shirt"},
            "versions": [version],
        },
    }))
    .unwrap()
}

fn changed<T: Clone>(value: &T, change: impl FnOnce(&mut T)) -> T {
    let mut value = value.clone();
    change(&mut value);
    value
}

/// One evaluation can take a second, and each patch of a definition or change of a status leads here.
#[test]
fn a_result_is_reused_while_its_inputs_are_the_same() {
    let (first, known) = (field_cache(SHIRTS, spec(&json!({}))), definitions());
    let whole = |change: fn(&mut FieldCache)| Arc::new(changed(&*first, change));
    let mut last = EvaluatedFieldCaches::new();
    let result = evaluate(&first, &known, &mut last);
    assert_eq!((result.stores.len(), result.stores[0].fields.len()), (1, 1));
    let kept = [
        ("the same", first.clone(), known.clone()),
        ("definitions that were read again", first.clone(), with_crd(shirts())),
        (
            "another count in the status",
            whole(|changed| changed.status = Some(serde_json::from_value(json!({"objects": 7})).unwrap())),
            known.clone(),
        ),
        (
            "a label",
            whole(|changed| changed.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into())),
            known.clone(),
        ),
        (
            "another resource",
            first.clone(),
            changed(&known, |known| known.unreadable = [("x".to_owned(), String::new())].into()),
        ),
    ];
    for (what, field_cache, known) in kept {
        assert!(Arc::ptr_eq(&evaluate(&field_cache, &known, &mut last), &result), "{what}");
    }
    let another = changed(&shirts(), |crd| {
        crd.generation = 2;
        crd.versions[0].schema.clone_from(&bare().versions[0].schema);
    });
    let fields = changed(&shirts(), |crd| crd.versions[0].selectable_fields.push(".spec.size".to_owned()));
    let renamed = changed(&shirts(), |crd| crd.uid = "another-uid".to_owned());
    let changed: [(&str, Arc<FieldCache>, Definitions, &str); 8] = [
        ("a generation", whole(|changed| changed.metadata.generation = Some(4)), known.clone(), ""),
        ("a spec", field_cache(SHIRTS, spec(&json!({"versions": ["v2"]}))), known.clone(), "VersionNotServed"),
        (
            "a version that was kept",
            whole(|changed| changed.status = Some(serde_json::from_value(json!({"versions": ["v1beta1"]})).unwrap())),
            known.clone(),
            "",
        ),
        (
            "deleted",
            whole(|changed| {
                changed.metadata.deletion_timestamp =
                    Some(serde_json::from_value(json!("2026-01-02T03:04:05Z")).unwrap())
            }),
            known.clone(),
            "Deleting",
        ),
        ("a schema", first.clone(), with_crd(another), "PathNotFound"),
        ("another definition of that name", first.clone(), with_crd(renamed), ""),
        (
            "a definition that cannot be read",
            first.clone(),
            changed(&known, |known| known.unreadable = [(SHIRTS.to_owned(), String::new())].into()),
            "DefinitionUnreadable",
        ),
        ("no definition", first.clone(), Definitions::default(), "ResourceNotFound"),
    ];
    for (what, field_cache, known, reason) in changed {
        let before = evaluate(&first, &definitions(), &mut last);
        let result = evaluate(&field_cache, &known, &mut last);
        assert!(!Arc::ptr_eq(&result, &before), "{what}");
        assert_eq!(result.problems.first().map_or("", |problem| problem.reason), reason, "{what}");
        assert_eq!(Some(result.generation), field_cache.metadata.generation, "{what}");
        assert_eq!(*result, crate::operator::stores::evaluate(&field_cache, &known), "{what}");
    }
    let own = evaluate(&first, &with_crd(fields), &mut last);
    assert!(own.stores[0].extractor.resolve("images").is_ok(), "the definition has other fields of its own");
    assert!(block_on(evaluate_all(&[], &Arc::default(), &mut last)).is_empty() && last.is_empty(), "it was deleted");
}

/// The catalog of the cluster is another one with each patch of a definition.
#[test]
fn views_of_cached_resources_are_not_evaluated_again_when_definitions_are_read() {
    let view = |name: &str, resource: &str| -> Arc<View> {
        let group = if resource == "shirts" { "stable.example.com" } else { "" };
        Arc::new(
            serde_json::from_value(json!({
                "apiVersion": "fieldcache.dev/v1alpha1", "kind": "View", "metadata": {"name": name, "generation": 3},
                "spec": {"resources": [{"group": group, "resource": resource, "fieldSelector": {"matchExpressions":
                    [{"key": "images", "operator": "Exists"}]}}]},
            }))
            .unwrap(),
        )
    };
    let all = vec![view("a", "shirts"), view("b", "hats")];
    let (first, mut last) = (field_cache(SHIRTS, spec(&json!({}))), EvaluatedFieldCaches::new());
    let known = Arc::new(definitions());
    let results = Arc::new(block_on(evaluate_all(std::slice::from_ref(&first), &known, &mut last)));
    let before = block_on(views::evaluate_all(all.clone(), &results, &known, None));
    assert!(before.view_results["a"].outcome.is_ok() && before.view_results["b"].outcome.is_err());
    let known = Arc::new(with_crd(shirts()));
    let results = Arc::new(block_on(evaluate_all(std::slice::from_ref(&first), &known, &mut last)));
    let again = block_on(views::evaluate_all(all.clone(), &results, &known, Some(before.clone())));
    let is_kept = |name: &str| Arc::ptr_eq(&again.view_results[name], &before.view_results[name]);
    assert_eq!((is_kept("a"), is_kept("b")), (true, false), "whether b is served depends on what there is");
    let known = Arc::new(with_crd(changed(&shirts(), |crd| {
        crd.generation = 2;
        crd.versions[0].schema.clone_from(&bare().versions[0].schema);
    })));
    let results = Arc::new(block_on(evaluate_all(&[first], &known, &mut last)));
    let again = block_on(views::evaluate_all(all, &results, &known, Some(again)));
    assert!(again.view_results["a"].outcome.is_err(), "the field is gone");
}

#[test]
fn only_views_read_a_part_of_the_objects_and_the_condition_states_it() {
    let all = "get, list and watch are served from the store";
    let part = "only Views are served from the store, because it has only the objects of spec.scope";
    let lacks = "; it lacks the invalid parts: see the condition Accepted";
    let invalid = json!([{"name": "size", "jsonPath": "$.spec.size"}]);
    let rows = [
        (json!({}), all.to_owned()),
        (json!({"scope": {}}), part.to_owned()),
        (json!({"selectableFields": invalid}), format!("{all}{lacks}")),
        (json!({"scope": {}, "selectableFields": invalid}), format!("{part}{lacks}")),
    ];
    for (more, expected) in rows {
        let result = evaluate(&field_cache(SHIRTS, spec(&more)), &definitions(), &mut EvaluatedFieldCaches::new());
        assert_eq!(field_caches::ready(&result).message, expected, "{more}");
    }
}
