//! Verdicts on FieldCaches that are kept, and what of them Views depend on.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{SHIRTS, block_on, definitions, field_cache, shirts};
use crate::crd::Crd;
use crate::extract::Plan;
use crate::kinds::{FieldCache, View};
use crate::operator::stores::{Judged, Verdict, judge_all};
use crate::operator::views;
use crate::registry::Definitions;

fn judge(field_cache: &Arc<FieldCache>, definitions: &Definitions, last: &mut Judged) -> Arc<Verdict> {
    let all = [field_cache.clone()];
    let verdicts = block_on(judge_all(&all, &Arc::new(definitions.clone()), last));
    assert_eq!((verdicts.len(), last.len()), (1, 1));
    verdicts[SHIRTS].clone()
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
        definitions.resources.get_mut(&crd.gvr(version)).unwrap().plan = Plan::custom_resource(&crd, version);
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

/// To judge one can take a second, and each patch of a definition or change of a status leads here.
#[test]
fn a_verdict_is_kept_while_what_it_was_made_of_is_the_same() {
    let (first, known) = (field_cache(SHIRTS, spec(&json!({}))), definitions());
    let whole = |change: fn(&mut FieldCache)| Arc::new(changed(&*first, change));
    let mut last = Judged::new();
    let verdict = judge(&first, &known, &mut last);
    assert_eq!((verdict.stores.len(), verdict.stores[0].fields.len()), (1, 1));
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
        assert!(Arc::ptr_eq(&judge(&field_cache, &known, &mut last), &verdict), "{what}");
    }
    let another = changed(&shirts(), |crd| {
        crd.generation = 2;
        crd.versions[0].schema.clone_from(&bare().versions[0].schema);
    });
    let fields = changed(&shirts(), |crd| crd.versions[0].selectable_fields.push(".spec.size".to_owned()));
    let renamed = changed(&shirts(), |crd| crd.uid = "another-uid".to_owned());
    let anew: [(&str, Arc<FieldCache>, Definitions, &str); 8] = [
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
    for (what, field_cache, known, reason) in anew {
        let before = judge(&first, &definitions(), &mut last);
        let verdict = judge(&field_cache, &known, &mut last);
        assert!(!Arc::ptr_eq(&verdict, &before), "{what}");
        assert_eq!(verdict.problems.first().map_or("", |problem| problem.reason), reason, "{what}");
        assert_eq!(Some(verdict.generation), field_cache.metadata.generation, "{what}");
        assert_eq!(*verdict, crate::operator::stores::judge(&field_cache, &known), "{what}");
    }
    let own = judge(&first, &with_crd(fields), &mut last);
    assert!(own.stores[0].plan.resolve("images").is_ok(), "the definition has other fields of its own");
    assert!(block_on(judge_all(&[], &Arc::default(), &mut last)).is_empty() && last.is_empty(), "it was deleted");
}

/// The catalog of the cluster is another one with each patch of a definition.
#[test]
fn views_of_what_field_caches_keep_are_not_judged_again_when_definitions_are_read_anew() {
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
    let (first, mut last) = (field_cache(SHIRTS, spec(&json!({}))), Judged::new());
    let known = Arc::new(definitions());
    let verdicts = Arc::new(block_on(judge_all(std::slice::from_ref(&first), &known, &mut last)));
    let judged = block_on(views::judge_all(all.clone(), &verdicts, &known, None));
    assert!(judged.judged["a"].outcome.is_ok() && judged.judged["b"].outcome.is_err());
    let known = Arc::new(with_crd(shirts()));
    let verdicts = Arc::new(block_on(judge_all(std::slice::from_ref(&first), &known, &mut last)));
    let again = block_on(views::judge_all(all.clone(), &verdicts, &known, Some(judged.clone())));
    let is_kept = |name: &str| Arc::ptr_eq(&again.judged[name], &judged.judged[name]);
    assert_eq!((is_kept("a"), is_kept("b")), (true, false), "whether b is served depends on what there is");
    let known = Arc::new(with_crd(changed(&shirts(), |crd| {
        crd.generation = 2;
        crd.versions[0].schema.clone_from(&bare().versions[0].schema);
    })));
    let verdicts = Arc::new(block_on(judge_all(&[first], &known, &mut last)));
    let again = block_on(views::judge_all(all, &verdicts, &known, Some(again)));
    assert!(again.judged["a"].outcome.is_err(), "the field is gone");
}
