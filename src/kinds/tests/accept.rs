//! What neither a schema nor CEL can see.

use serde_json::{Value, json};

use crate::kinds::accept::{self, CacheLookup, SpecError, SpecErrorReason};
use crate::kinds::{FieldCacheSpec, ViewSpec};
use crate::model::Scope;

/// A cached built-in resource.
fn built_in(group: &str, version: &str, kind: &str, scope: Scope) -> CacheLookup {
    CacheLookup::Cached(crate::builtin::extractor(group, version, kind), scope)
}

/// The lookup of a resource whose scope is not whether a field selector may name metadata.namespace; not cached for
/// others.
fn with_unusual_scope(group: &str, resource: &str) -> CacheLookup {
    match (group, resource) {
        ("", "persistentvolumes") => built_in(group, "v1", "PersistentVolume", Scope::Cluster),
        ("certificates.k8s.io", "podcertificaterequests") => {
            built_in(group, "v1beta1", "PodCertificateRequest", Scope::Namespaced)
        }
        _ => CacheLookup::NotCached,
    }
}

fn summaries(problems: &[SpecError]) -> Vec<(SpecErrorReason, &str)> {
    problems.iter().map(|problem| (problem.reason, &*problem.place)).collect()
}

#[test]
fn versions_are_those_that_are_served() {
    let versions = |named: Value, served: &[&str]| {
        let spec: FieldCacheSpec =
            serde_json::from_value(json!({"group": "g", "resource": "x", "versions": named})).unwrap();
        let (kept, problems) = accept::versions(&spec, &[], served);
        let problems: Vec<_> =
            problems.into_iter().map(|problem| (problem.reason.as_str(), problem.to_string())).collect();
        (kept, problems)
    };
    let kept = |version: &str| vec![version.to_owned()];
    assert_eq!(versions(json!([]), &["v2", "v1"]), (kept("v2"), vec![]), "the preferred one");
    assert_eq!(versions(json!(["v1"]), &["v2", "v1"]), (kept("v1"), vec![]), "one that is named");
    let none = "spec.resource: the API server serves no resource x.g that can be listed and watched; \
        correct spec.group and spec.resource, or add its CustomResourceDefinition";
    assert_eq!(versions(json!([]), &[]), (vec![], vec![("ResourceNotFound", none.to_owned())]), "no resource");
    let gone = "spec.versions[1]: x.g is not served in v3; its versions are v2, v1".to_owned();
    let expected = (kept("v1"), vec![("VersionNotServed", gone)]);
    assert_eq!(versions(json!(["v1", "v3"]), &["v2", "v1"]), expected, "the others do without it");
}

#[test]
fn a_scope_becomes_the_query_of_a_list() {
    let plan = crate::builtin::extractor("", "v1", "Pod");
    let scope = |scope: Value| {
        let spec: FieldCacheSpec = serde_json::from_value(json!({"resource": "pods", "scope": scope})).unwrap();
        accept::scope(&spec, &plan)
    };
    let requirement = |key: &str, operator: &str, values: Value| json!({"fieldSelector": {"matchExpressions": [{"key": key, "operator": operator, "values": values}]}});
    for (scope_spec, labels, fields) in [
        (json!({}), "", ""),
        (json!({"labelSelector": {}, "fieldSelector": {}}), "", ""),
        (
            json!({"labelSelector": {"matchLabels": {"b": "1", "a": ""}, "matchExpressions": [{"key": "c", "operator": "NotIn", "values": ["y", "x"]}]}}),
            "a=,b=1,c notin (x,y)",
            "",
        ),
        (requirement("spec.nodeName", "In", json!(["n,1"])), "", "spec.nodeName=n\\,1"),
        (requirement("metadata.namespace", "NotIn", json!(["kube-system"])), "", "metadata.namespace!=kube-system"),
    ] {
        assert_eq!(scope(scope_spec.clone()), Ok((labels.to_owned(), fields.to_owned())), "{scope_spec}");
    }
    for (scope_spec, reason, place) in [
        (
            requirement("images", "In", json!(["a"])),
            SpecErrorReason::FieldNotSelectable,
            "spec.scope.fieldSelector.matchExpressions[0].key",
        ),
        (
            requirement("spec.nodeName", "In", json!(["a", "b"])),
            SpecErrorReason::InvalidSelector,
            "spec.scope.fieldSelector.matchExpressions[0]",
        ),
        (
            requirement("spec.nodeName", "Exists", json!([])),
            SpecErrorReason::InvalidSelector,
            "spec.scope.fieldSelector.matchExpressions[0]",
        ),
        (
            json!({"labelSelector": {"matchLabels": {"a b": "x"}}}),
            SpecErrorReason::InvalidSelector,
            "spec.scope.labelSelector.matchLabels",
        ),
    ] {
        assert_eq!(summaries(&scope(scope_spec.clone()).unwrap_err()), [(reason, place)], "{scope_spec}");
    }
}

#[test]
fn views_select_cached_resources_by_existing_fields() {
    let shown_of = |group: &str, resource: &str| match (group, resource) {
        ("", "pods") => built_in("", "v1", "Pod", Scope::Namespaced),
        ("", "nodes") => CacheLookup::NotCached,
        ("g", "pods") => CacheLookup::NotFound(vec!["pods".to_owned()]),
        _ => CacheLookup::NotFound(Vec::new()),
    };
    let judge = |more: Value| {
        let mut spec = json!({"resources": [{"resource": "pods"}]});
        if let (Value::Object(spec), Value::Object(more)) = (&mut spec, more) {
            spec.extend(more);
        }
        let spec: ViewSpec = serde_json::from_value(spec).unwrap();
        accept::view(&spec, &shown_of)
    };
    let pods = |more: Value| {
        let mut shown = json!({"resource": "pods"});
        if let (Value::Object(shown), Value::Object(more)) = (&mut shown, more) {
            shown.extend(more);
        }
        json!({"resources": [shown]})
    };
    let by = |key: &str| pods(json!({"fieldSelector": {"matchExpressions": [{"key": key, "operator": "Exists"}]}}));
    for (document, expected) in [
        (json!({}), None),
        (by("spec.nodeName"), None),
        (by("metadata.name"), None),
        (
            by("images"),
            Some((SpecErrorReason::FieldNotSelectable, "spec.resources[0].fieldSelector.matchExpressions[0].key")),
        ),
        (pods(json!({"resource": "nodes"})), Some((SpecErrorReason::NotCached, "spec.resources[0]"))),
        (pods(json!({"group": "g"})), Some((SpecErrorReason::ResourceNotFound, "spec.resources[0]"))),
        (pods(json!({"resource": "pod"})), Some((SpecErrorReason::ResourceNotFound, "spec.resources[0]"))),
        (
            pods(json!({"labelSelector": {"matchExpressions": [{"key": "-", "operator": "Exists"}]}})),
            Some((SpecErrorReason::InvalidSelector, "spec.resources[0].labelSelector.matchExpressions[0].key")),
        ),
        (pods(json!({"prune": [".spec.a", ".metadata.annotations['example.com/a']"]})), None),
        (
            pods(json!({"prune": [".spec.a", ".spec.a[0]"]})),
            Some((SpecErrorReason::InvalidPath, "spec.resources[0].prune[1]")),
        ),
        (
            pods(json!({"prune": [".metadata['labels']['a']"]})),
            Some((SpecErrorReason::InvalidPath, "spec.resources[0].prune[0]")),
        ),
        (pods(json!({"keep": [".spec.a", ".metadata.labels['a']", ".metadata.name"]})), None),
        (
            pods(json!({"prune": [".spec.a"], "keep": [".spec", ".spec[0]"]})),
            Some((SpecErrorReason::InvalidPath, "spec.resources[0].keep[1]")),
        ),
        (
            pods(json!({"keep": [format!(".spec{}", ".a".repeat(200)), format!(".spec{}", ".b".repeat(55))]})),
            Some((SpecErrorReason::InvalidPath, "spec.resources[0].keep")),
        ),
        (pods(json!({"prune": [format!(".spec{}", ".a".repeat(255))]})), None),
        (
            pods(json!({"prune": [format!(".spec{}", ".a".repeat(200)), format!(".spec{}", ".b".repeat(55))]})),
            Some((SpecErrorReason::InvalidPath, "spec.resources[0].prune")),
        ),
        (json!({"authorization": "View"}), None),
        (json!({"consumer": {"fields": [{"key": "spec.nodeName", "value": "NodeName"}]}}), None),
        (json!({"consumer": {"matchLabelKeys": ["app"]}}), None),
        (
            json!({"authorization": "View", "consumer": {"mismatchLabelKeys": ["app"]}}),
            Some((SpecErrorReason::InvalidSelector, "spec.consumer")),
        ),
        (
            json!({"consumer": {"fields": [{"key": "spec.node", "value": "NodeName"}]}}),
            Some((SpecErrorReason::FieldNotSelectable, "spec.consumer.fields[0].key")),
        ),
    ] {
        let problems = judge(document.clone());
        assert_eq!(summaries(&problems), expected.into_iter().collect::<Vec<_>>(), "{document}: {problems:?}");
    }
}

#[test]
fn views_select_namespaces_whose_labels_are_cached() {
    let by_team = json!({"matchLabels": {"team": "x"}});
    let invalid = json!({"matchLabels": {"-": "x"}});
    let place = "spec.resources[0].namespaceSelector";
    let rows = [
        (json!({"resource": "pods", "namespaceSelector": by_team}), true, None, "the labels of cached Namespaces"),
        (json!({"resource": "pods", "namespaceSelector": {}}), false, None, "no restriction"),
        (
            json!({"resource": "pods", "namespaceSelector": by_team}),
            false,
            Some((SpecErrorReason::NotCached, place.to_owned())),
            "Namespaces are not cached",
        ),
        (
            json!({"resource": "pods", "namespaceSelector": by_team, "namespaces": ["a"]}),
            true,
            Some((SpecErrorReason::InvalidSelector, place.to_owned())),
            "two restrictions of namespaces",
        ),
        (
            json!({"resource": "namespaces", "namespaceSelector": by_team}),
            true,
            Some((SpecErrorReason::InvalidSelector, place.to_owned())),
            "Namespaces have labels of their own",
        ),
        (
            json!({"resource": "nodes", "namespaceSelector": by_team}),
            true,
            Some((SpecErrorReason::InvalidSelector, place.to_owned())),
            "a resource without namespaces",
        ),
        (
            json!({"resource": "persistentvolumes", "namespaceSelector": by_team}),
            true,
            Some((SpecErrorReason::InvalidSelector, place.to_owned())),
            "a resource without namespaces, of which a field selector may name the namespace",
        ),
        (
            json!({"group": "certificates.k8s.io", "resource": "podcertificaterequests", "namespaceSelector": by_team}),
            true,
            None,
            "a resource in namespaces, of which no field selector may name the namespace",
        ),
        (
            json!({"resource": "pods", "namespaceSelector": invalid}),
            true,
            Some((SpecErrorReason::InvalidSelector, format!("{place}.matchLabels"))),
            "an invalid label",
        ),
    ];
    for (shown, are_cached, expected, why) in rows {
        let shown_of = |group: &str, resource: &str| match resource {
            "pods" => built_in("", "v1", "Pod", Scope::Namespaced),
            "nodes" => built_in("", "v1", "Node", Scope::Cluster),
            "namespaces" if are_cached => built_in("", "v1", "Namespace", Scope::Cluster),
            _ => with_unusual_scope(group, resource),
        };
        let spec: ViewSpec = serde_json::from_value(json!({"resources": [shown]})).unwrap();
        let problems = accept::view(&spec, &shown_of);
        let found = problems.iter().map(|problem| (problem.reason, problem.place.clone())).collect::<Vec<_>>();
        assert_eq!(found, expected.into_iter().collect::<Vec<_>>(), "{why}: {problems:?}");
    }
}

#[test]
fn views_of_permitted_namespaces_need_role_bindings_and_the_permissions_of_callers() {
    let place = "spec.resources[0].permittedNamespaces".to_owned();
    let invalid = || Some((SpecErrorReason::InvalidSelector, place.clone()));
    let rows = [
        (json!({"resource": "pods", "permittedNamespaces": true}), "Caller", true, None, "cached RoleBindings"),
        (json!({"resource": "namespaces", "permittedNamespaces": true}), "Caller", true, None, "Namespaces"),
        (json!({"resource": "pods", "permittedNamespaces": false}), "View", false, None, "no restriction"),
        (
            json!({"resource": "pods", "permittedNamespaces": true}),
            "Caller",
            false,
            Some((SpecErrorReason::NotCached, place.clone())),
            "RoleBindings are not cached",
        ),
        (
            json!({"resource": "pods", "permittedNamespaces": true}),
            "View",
            true,
            invalid(),
            "not the caller's permissions",
        ),
        (
            json!({"resource": "pods", "permittedNamespaces": true, "namespaces": ["a"]}),
            "Caller",
            true,
            invalid(),
            "two restrictions of namespaces",
        ),
        (
            json!({"resource": "pods", "permittedNamespaces": true, "namespaceSelector": {}}),
            "Caller",
            true,
            invalid(),
            "two restrictions of namespaces, too",
        ),
        (json!({"resource": "nodes", "permittedNamespaces": true}), "Caller", true, invalid(), "no namespaces"),
        (
            json!({"resource": "persistentvolumes", "permittedNamespaces": true}),
            "Caller",
            true,
            invalid(),
            "no namespaces, although a field selector may name them",
        ),
        (
            json!({"group": "certificates.k8s.io", "resource": "podcertificaterequests", "permittedNamespaces": true}),
            "Caller",
            true,
            None,
            "namespaces, although no field selector may name them",
        ),
    ];
    for (shown, authorization, are_cached, expected, why) in rows {
        let shown_of = |group: &str, resource: &str| match resource {
            "pods" => built_in("", "v1", "Pod", Scope::Namespaced),
            "nodes" => built_in("", "v1", "Node", Scope::Cluster),
            "namespaces" => built_in("", "v1", "Namespace", Scope::Cluster),
            "rolebindings" if are_cached => built_in(group, "v1", "RoleBinding", Scope::Namespaced),
            _ => with_unusual_scope(group, resource),
        };
        let spec: ViewSpec =
            serde_json::from_value(json!({"resources": [shown], "authorization": authorization})).unwrap();
        let problems = accept::view(&spec, &shown_of);
        let found = problems.iter().map(|problem| (problem.reason, problem.place.clone())).collect::<Vec<_>>();
        assert_eq!(found, expected.into_iter().collect::<Vec<_>>(), "{why}: {problems:?}");
    }
}

#[test]
fn a_view_of_a_resource_that_is_not_there_says_so_and_names_those_that_are() {
    let message = |others: &[&str]| {
        let others: Vec<String> = others.iter().map(|name| (*name).to_owned()).collect();
        let spec: ViewSpec = serde_json::from_value(json!({"resources": [{"resource": "shirts"}]})).unwrap();
        accept::view(&spec, &|_, _| CacheLookup::NotFound(others.clone()))[0].message.clone()
    };
    let missing = "the API server serves no resource shirts that can be listed and watched";
    assert_eq!(message(&[]), missing);
    assert_eq!(message(&["shirts.e.com"]), format!("{missing}; there is shirts.e.com"));
}

/// A message takes a hundred times the bytes of the value that it is about, and all of them are in memory.
#[test]
fn few_problems_are_looked_for_and_their_messages_are_short() {
    let values = |value: &str, count| vec![value.to_owned(); count];
    let requirement = |operator: &str, values: &[String]| json!({"key": "app", "operator": operator, "values": values});
    let many = |requirement: &serde_json::Value| json!({"matchExpressions": vec![requirement; 200]});
    let labels: serde_json::Map<String, serde_json::Value> =
        (0..500).map(|number| (format!("!{number}"), "!".into())).collect();
    let parts = [
        (json!({"labelSelector": many(&requirement("In", &values("!", 100)))}), "values of labels"),
        (json!({"labelSelector": many(&requirement("In", &values("", 0)))}), "no values"),
        (json!({"labelSelector": {"matchLabels": labels}}), "labels"),
        (json!({"fieldSelector": many(&requirement("In", &values("", 0)))}), "fields without values"),
        (json!({"fieldSelector": many(&requirement("In", &values("x", 1)))}), "fields that there are not"),
        (json!({"prune": values("metadata.name", 200)}), "paths"),
        (json!({"labelSelector": many(&requirement("In", &values(&"!\u{7}".repeat(30_000), 1)))}), "a long value"),
    ];
    let plan = crate::builtin::extractor("", "v1", "Pod");
    for (part, what) in parts {
        let mut resource = json!({"resource": "pods"});
        resource.as_object_mut().unwrap().extend(part.as_object().unwrap().clone());
        let spec: ViewSpec = serde_json::from_value(json!({"resources": vec![resource; 8]})).unwrap();
        let problems = accept::view(&spec, &|_, _| CacheLookup::Cached(plan.clone(), Scope::Namespaced));
        assert!((1..=8).contains(&problems.len()), "{} problems of {what}", problems.len());
        let longest = problems.iter().map(|problem| problem.message.len()).max().unwrap();
        assert!(longest < 5_000, "{longest} bytes of {what}");
        if part.get("prune").is_none() {
            let spec: FieldCacheSpec = serde_json::from_value(json!({"resource": "pods", "scope": part})).unwrap();
            let problems = accept::scope(&spec, &plan).unwrap_err();
            assert!((1..=16).contains(&problems.len()), "{} problems of {what} in a scope", problems.len());
        }
    }
    let missing = CacheLookup::NotFound((0..1_000).map(|number| format!("pods.group-{number}")).collect());
    let spec: ViewSpec = serde_json::from_value(json!({"resources": [{"resource": "pods"}]})).unwrap();
    let problems = accept::view(&spec, &|_, _| missing.clone());
    assert!(problems[0].message.len() < 1_000, "{}", problems[0].message);
}
