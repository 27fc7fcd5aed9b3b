//! What controllers decide, without a cluster: results, descriptions, conditions, the leader.

mod controller_tasks;
mod describing;
mod evaluation;

mod views_by_age;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, stream};
use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding};
use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use serde_json::json;
use tokio::time::sleep;

use super::admission_policy::{MANIFEST, NAMES, RequiredPolicy};
use super::election::{Election, LeaseAction, lease_action, next_lease};
use super::lenient::{Lenient, Replaceable};
use super::selectable_resources::describe;
use super::status::{ConditionStatus, Finding, coarse, conditions};
use super::stores::{self, FieldCacheResults, SpecProblem, cached_resources};
use super::synced::Synced;
use super::views::{self, ViewResults};

use super::reflector::{follow_events_strictly, shorten_metadata};
use crate::crd::Crd;
use crate::extract::Extractor;
use crate::extract::validation::CrdValidationCache;
use crate::kinds::{Absence, FieldCache, FieldOrigin, View};
use crate::manifest::yaml::{self, Syntax};
use crate::model::{Gvr, Scope};
use crate::registry::tests::{catalog, resource};
use crate::registry::{ApiGroup, Definition, Definitions, LoadState, Readiness, Registry, ResourceOrigin};
use crate::store::{HistoryLimits, Store};

/// Waits for what never waits for anything outside.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

fn evaluate_all(field_caches: &[Arc<FieldCache>], definitions: &Definitions) -> FieldCacheResults {
    block_on(stores::evaluate_all(
        field_caches,
        &Arc::new(definitions.clone()),
        &mut stores::EvaluatedFieldCaches::new(),
    ))
}

fn shirts() -> Crd {
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "color": {"type": "string"},
        "steps": {"type": "array", "items": {"type": "object", "properties": {"image": {"type": "string"}}}},
    }}}}});
    let version = |name: &str, storage: bool| {
        json!({
            "name": name, "served": true, "storage": storage, "schema": schema,
            "selectableFields": [{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.none"}],
            "additionalPrinterColumns": [{"name": "Image", "type": "string", "jsonPath": ".spec.steps[*].image"}],
        })
    };
    Crd::read(&json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "shirts.stable.example.com", "uid": "shirts-uid", "generation": 1},
        "spec": {
            "group": "stable.example.com", "scope": "Namespaced", "names": {"plural": "shirts", "kind": "Shirt"},
            "versions": [version("v1", true), version("v1beta1", false)],
        },
    }))
    .unwrap()
}

/// A cluster with shirts in two versions, Pods and ConfigMaps.
fn definitions() -> Definitions {
    let crd = shirts();
    let mut definitions = Definitions::default();
    for version in ["v1", "v1beta1"] {
        let definition = Definition {
            kind: "Shirt".to_owned(),
            scope: Scope::Namespaced,
            origin: ResourceOrigin::Custom,
            extractor: Extractor::custom_resource(&crd, version),
        };
        definitions.resources.insert(crd.gvr(version), definition);
    }
    for (plural, kind) in [("pods", "Pod"), ("configmaps", "ConfigMap")] {
        let definition = Definition {
            kind: kind.to_owned(),
            scope: Scope::Namespaced,
            origin: ResourceOrigin::BuiltIn,
            extractor: crate::builtin::extractor("", "v1", kind),
        };
        definitions.resources.insert(Gvr::new("", "v1", plural), definition);
    }
    definitions.crds.insert(crd.name.clone(), Arc::new(crd));
    let group = |name: &str, versions: &[&str]| ApiGroup {
        name: name.to_owned(),
        versions: versions.iter().map(|version| (*version).to_owned()).collect(),
    };
    definitions.groups = vec![group("", &["v1"]), group("stable.example.com", &["v1", "v1beta1"])];
    definitions
}

fn field_cache(name: &str, spec: serde_json::Value) -> Arc<FieldCache> {
    let document = json!({
        "apiVersion": "fieldcache.dev/v1alpha1", "kind": "FieldCache",
        "metadata": {"name": name, "generation": 3}, "spec": spec,
    });
    Arc::new(serde_json::from_value(document).unwrap())
}

const SHIRTS: &str = "shirts.stable.example.com";

#[test]
fn a_field_cache_is_evaluated_against_the_cluster() {
    let shirts = |more: serde_json::Value| {
        let mut spec = json!({"group": "stable.example.com", "resource": "shirts"});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        spec
    };
    let rows = [
        ("the preferred version", SHIRTS, shirts(json!({})), &["shirts.v1.stable.example.com"][..], None),
        (
            "versions that are named",
            SHIRTS,
            shirts(json!({"versions": ["v1beta1", "v1"]})),
            &["shirts.v1.stable.example.com", "shirts.v1beta1.stable.example.com"],
            None,
        ),
        (
            "one of two versions is not served",
            SHIRTS,
            shirts(json!({"versions": ["v1", "v2"]})),
            &["shirts.v1.stable.example.com"],
            Some("VersionNotServed"),
        ),
        ("a version that is not served", SHIRTS, shirts(json!({"versions": ["v2"]})), &[], Some("VersionNotServed")),
        ("a built-in resource", "pods", json!({"resource": "pods"}), &["pods.v1"], None),
        ("a resource that is not there", "hats", json!({"resource": "hats"}), &[], Some("ResourceNotFound")),
        ("a name that is not the resource's", "trousers", shirts(json!({})), &[], Some("NameInvalid")),
        ("a part of the objects", SHIRTS, shirts(json!({"scope": {}})), &["shirts.v1.stable.example.com"], None),
        (
            "a part that the API server cannot select is not widened",
            SHIRTS,
            shirts(json!({"scope": {"fieldSelector": {"matchExpressions": [
                {"key": "spec.size", "operator": "In", "values": ["M"]}]}}})),
            &[],
            Some("FieldNotSelectable"),
        ),
        (
            "a plural name that is part of another path",
            "watch.stable.example.com",
            json!({"group": "stable.example.com", "resource": "watch"}),
            &[],
            Some("ResourceUnsupported"),
        ),
        (
            "a field that the schema does not have leaves the store as it is",
            SHIRTS,
            shirts(json!({"selectableFields": [{"name": "size", "jsonPath": "$.spec.size"}]})),
            &["shirts.v1.stable.example.com"],
            Some("PathNotFound"),
        ),
    ];
    for (message, name, spec, stores, reason) in rows {
        let results = evaluate_all(&[field_cache(name, spec)], &definitions());
        let wanted: BTreeSet<String> = cached_resources(&results).iter().map(Gvr::to_string).collect();
        assert_eq!(wanted, stores.iter().map(|store| (*store).to_owned()).collect(), "{message}");
        let problems = &results[name].problems;
        assert_eq!(problems.first().map(|problem| problem.reason), reason, "{message}: {problems:?}");
        assert_eq!(results[name].generation, 3, "{message}");
    }
}

#[test]
fn a_resource_is_described_by_all_of_its_fields() {
    let fields =
        json!([{"name": "images", "jsonPath": "$.spec.steps[*].image"}, {"name": "column", "printerColumn": "Image"}]);
    let spec = json!({"group": "stable.example.com", "resource": "shirts", "selectableFields": fields});
    let definitions = definitions();
    let without = describe(&definitions, &FieldCacheResults::new(), &CrdValidationCache::default());
    assert_eq!(without.keys().collect::<Vec<_>>(), ["pods", SHIRTS], "ConfigMaps have no fields of their own");

    let results = evaluate_all(
        &[field_cache(SHIRTS, spec), field_cache("configmaps", json!({"resource": "configmaps"}))],
        &definitions,
    );
    let described = describe(&definitions, &results, &CrdValidationCache::default());
    assert_eq!(described.keys().collect::<Vec<_>>(), ["configmaps", "pods", SHIRTS], "what is cached is described too");
    let shirts = &described[SHIRTS];
    assert!(shirts.cached && !described["pods"].cached);
    assert_eq!(shirts.owner.as_ref().map(|owner| &*owner.uid), Some("shirts-uid"));
    assert_eq!(shirts.document, "apis/stable.example.com/v1");
    let names: Vec<&str> = shirts.versions.iter().map(|version| &*version.name).collect();
    assert_eq!(names, ["v1", "v1beta1"], "the preferred version first");
    let found: Vec<(&str, FieldOrigin)> =
        shirts.versions[0].fields.iter().map(|field| (&*field.field_path, field.origin)).collect();
    let expected = [
        ("spec.color", FieldOrigin::CustomResourceDefinition),
        ("images", FieldOrigin::FieldCache),
        ("column", FieldOrigin::FieldCache),
    ];
    assert_eq!(found, expected, "the definition's own fields come first");
    assert_eq!(shirts.versions[1].fields.len(), 1, "the other version is not kept");
    assert_eq!(shirts.versions[0].rejected.len(), 1, "{:?}", shirts.versions[0].rejected);
    assert_eq!((shirts.accepted.status, &*shirts.accepted.reason), (ConditionStatus::False, "FieldsRejected"));
    assert!(shirts.accepted.message.starts_with("version v1, .spec.none: "), "{}", shirts.accepted.message);
}

#[test]
fn conditions_keep_their_time_for_as_long_as_they_say_the_same() {
    let at = |seconds| jiff::Timestamp::from_second(seconds).unwrap();
    let finding = |holds, message: &str| [Finding::new("Ready", holds, "Because", message)];
    let first = conditions(&[], &finding(ConditionStatus::False, "no"), Some(1), at(10));
    let second = conditions(&first, &finding(ConditionStatus::False, "still no"), Some(2), at(20));
    let third = conditions(&second, &finding(ConditionStatus::True, "yes"), Some(2), at(30));
    let times: Vec<i64> =
        [&first, &second, &third].map(|written| written[0].last_transition_time.0.as_second()).into_iter().collect();
    assert_eq!(times, [10, 10, 30]);
    assert_eq!((&*second[0].message, second[0].observed_generation), ("still no", Some(2)));
}

#[test]
fn counts_move_by_a_tenth() {
    let rows = [
        (None, 7, 7, "the first is shown as it is"),
        (Some(100), 110, 100, "a tenth more"),
        (Some(100), 111, 111, "more than that"),
        (Some(100), 89, 89, "less"),
        (Some(0), 1, 1, "something instead of nothing"),
        (Some(5), 0, 0, "nothing instead of something"),
    ];
    for (shown, real, expected, message) in rows {
        assert_eq!(coarse(shown, real), expected, "{message}");
    }
}

fn held(holder: &str) -> LeaseSpec {
    LeaseSpec {
        holder_identity: Some(holder.to_owned()),
        lease_duration_seconds: Some(15),
        lease_transitions: Some(4),
        ..LeaseSpec::default()
    }
}

#[test]
fn a_lease_is_taken_when_its_holder_says_nothing_any_more() {
    let rows = [
        ("one", 100, LeaseAction::Renew, "it is ours, however old it is"),
        ("two", 14, LeaseAction::Wait, "another one's, within its time"),
        ("two", 15, LeaseAction::Take, "another one's, after it"),
        ("", 0, LeaseAction::Take, "given back"),
    ];
    for (holder, seconds, expected, message) in rows {
        assert_eq!(lease_action(&held(holder), "one", Duration::from_secs(seconds)), expected, "{message}");
    }
    assert_eq!(lease_action(&LeaseSpec::default(), "one", Duration::ZERO), LeaseAction::Take, "an empty one");
}

#[test]
fn a_lease_counts_its_holders() {
    let election = Election {
        namespace: String::new(),
        name: String::new(),
        identity: "one".to_owned(),
        lease_duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
    };
    let at = |seconds| MicroTime(jiff::Timestamp::from_second(seconds).unwrap());
    let created = next_lease(None, &election, at(1));
    assert_eq!((created.lease_transitions, created.acquire_time), (Some(0), Some(at(1))));
    let taken = next_lease(Some(&held("two")), &election, at(2));
    assert_eq!((taken.lease_transitions, &taken.acquire_time), (Some(5), &Some(at(2))));
    let renewed = next_lease(Some(&taken), &election, at(3));
    assert_eq!((renewed.lease_transitions, renewed.acquire_time), (Some(5), Some(at(2))), "renewed, not acquired");
    assert_eq!(renewed.renew_time, Some(at(3)));
}

#[test]
fn the_admission_policy_is_valid_only_as_it_is_applied() {
    let required = RequiredPolicy::read_all().unwrap();
    assert_eq!(required.iter().map(RequiredPolicy::name).collect::<Vec<_>>(), NAMES);
    let (documents, broken) = yaml::documents(MANIFEST.as_bytes(), Syntax::Yaml);
    assert!(broken.is_empty(), "{broken:?}");
    type Change = fn(&mut serde_json::Value, &mut serde_json::Value);
    // `NAME` is replaced by the name of the policy.
    let rows: [(&str, Change, &str); 10] = [
        ("no policy", |policy, _| *policy = json!(null), "there is no ValidatingAdmissionPolicy NAME"),
        ("no binding", |_, binding| *binding = json!(null), "there is no ValidatingAdmissionPolicyBinding NAME"),
        ("going", |policy, _| policy["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"), "there is no"),
        ("no spec", |policy, _| policy["spec"] = json!(null), "differs from that of this release"),
        (
            "fails open",
            |policy, _| policy["spec"]["failurePolicy"] = json!("Ignore"),
            "differs from that of this release",
        ),
        (
            "requires less",
            |policy, _| drop(policy["spec"]["validations"].as_array_mut().unwrap().pop()),
            "differs from that",
        ),
        (
            "applies to no user",
            |policy, _| policy["spec"]["matchConditions"][0]["expression"] = json!("false"),
            "differs from that of this release",
        ),
        (
            "covers no updates",
            |policy, _| policy["spec"]["matchConstraints"]["resourceRules"][0]["operations"] = json!(["CREATE"]),
            "ValidatingAdmissionPolicy NAME differs from that of this release",
        ),
        ("notes", |_, binding| binding["spec"]["validationActions"] = json!(["Audit"]), "PolicyBinding NAME"),
        ("elsewhere", |_, binding| binding["spec"]["policyName"] = json!("other"), "differs from that of this release"),
    ];
    for (required, documents) in required.iter().zip(documents.chunks(2)) {
        let name = required.name();
        let served = |changed: &dyn Fn(&mut serde_json::Value, &mut serde_json::Value)| {
            let (mut policy, mut binding) = (documents[0].value.clone(), documents[1].value.clone());
            changed(&mut policy, &mut binding);
            let policy: Option<ValidatingAdmissionPolicy> = serde_json::from_value(policy).unwrap();
            let binding: Option<ValidatingAdmissionPolicyBinding> = serde_json::from_value(binding).unwrap();
            required.check(policy.as_ref(), binding.as_ref())
        };
        assert_eq!(served(&|_, _| {}), Ok(()), "{name}");
        let described = |policy: &mut serde_json::Value, _: &mut serde_json::Value| {
            policy["metadata"]["labels"] = json!({"team": "a"});
            policy["status"] = json!({"observedGeneration": 1});
        };
        assert_eq!(served(&described), Ok(()), "{name}: metadata and status of others do not matter");
        for (what, change, expected) in rows {
            let (problem, expected) = (served(&change).unwrap_err(), expected.replace("NAME", name));
            assert!(problem.contains(&expected), "{name}: {what}: {problem}");
            assert!(problem.contains("manifests/view-policy.yaml"), "{name}: {what}: {problem}");
        }
    }
}

#[test]
fn the_manifests_permit_to_read_every_admission_policy_by_name() {
    let (documents, broken) = yaml::documents(include_bytes!("../../manifests/rbac.yaml"), Syntax::Yaml);
    assert!(broken.is_empty(), "{broken:?}");
    let rules = documents.iter().filter_map(|document| document.value["rules"].as_array()).flatten();
    let of_policies: Vec<_> =
        rules.filter(|rule| rule["apiGroups"] == json!(["admissionregistration.k8s.io"])).collect();
    assert_eq!(of_policies.len(), 1, "{of_policies:?}");
    assert_eq!(of_policies[0]["resourceNames"], json!(NAMES));
}

#[test]
fn a_replica_knows_what_there_is_to_serve_once_its_stores_are_in_the_catalog_and_the_views_are_read() {
    let pods = resource("pods");
    let (registry, synced) = (Registry::new(catalog(&[])), Synced::default());
    let failing = || -> Vec<String> {
        synced
            .probe(&registry)
            .into_iter()
            .filter(|(_, result)| *result != Readiness::Ready)
            .map(|(name, _)| name)
            .collect()
    };
    assert_eq!((failing(), synced.knows(&registry)), (vec!["fieldcaches".to_owned(), "views".to_owned()], false));
    synced.expect(Arc::new([pods.gvr.clone()].into()));
    assert_eq!((failing(), synced.knows(&registry)), (vec!["views".to_owned(), "store/pods.v1".to_owned()], false));
    synced.set_views_evaluated();
    assert_eq!(
        (failing(), synced.knows(&registry)),
        (vec!["store/pods.v1".to_owned()], false),
        "not in the catalog yet"
    );
    registry.replace(catalog(&[&pods]), |_| None);
    assert_eq!((failing(), synced.knows(&registry)), (vec!["store/pods.v1".to_owned()], true), "known, and not read");
    let message = "no permission".to_owned();
    pods.state.publish(LoadState::SourceError { code: 403, message: message.clone() });
    let store = synced.probe(&registry).pop().unwrap();
    assert_eq!(store, ("store/pods.v1".to_owned(), Readiness::Unavailable(message)), "never ready");
    registry.replace(catalog(&[]), |_| None);
    assert!(synced.knows(&registry), "what goes away afterwards is not there");
}

/// All replicas load a store that is added later at the same time.
#[test]
fn a_store_that_is_added_later_leaves_a_replica_ready() {
    let (pods, hats) = (resource("pods"), resource("hats"));
    let (registry, synced) = (Registry::new(catalog(&[&pods, &hats])), Synced::default());
    let expect = |names: &[&Arc<crate::registry::Resource>]| {
        synced.expect(Arc::new(names.iter().map(|resource| resource.gvr.clone()).collect()));
    };
    let readiness = |name: &str| {
        let found = synced.probe(&registry).into_iter().find(|(found, _)| *found == format!("store/{name}.v1"));
        found.map(|(_, readiness)| readiness)
    };
    let progress = || "7 objects read".to_owned();
    let loading = || LoadState::Loading(progress());
    pods.state.publish(loading());
    hats.state.publish(loading());
    expect(&[&pods]);
    expect(&[&pods, &hats]);
    assert_eq!(readiness("pods"), Some(Readiness::NotReady(progress())), "it was there at the start");
    assert_eq!(readiness("hats"), Some(Readiness::Loading(progress())), "it was added while the first one is read");
    pods.state.publish(LoadState::SourceError { code: 403, message: "no permission".to_owned() });
    assert_eq!(readiness("pods"), Some(Readiness::Unavailable("no permission".to_owned())));
    pods.state.publish(loading());
    assert_eq!(readiness("pods"), Some(Readiness::Loading(progress())), "others were served meanwhile");

    let synced_later = Synced::default();
    let replaced = |names: &[&Arc<crate::registry::Resource>]| {
        synced_later.expect(Arc::new(names.iter().map(|resource| resource.gvr.clone()).collect()));
        synced_later.probe(&registry).pop().map(|(_, readiness)| readiness)
    };
    assert_eq!(replaced(&[&pods]), Some(Readiness::NotReady(progress())), "another replica that starts now");
    assert_eq!(
        replaced(&[]),
        Some(Readiness::NotReady("the Views or their admission policy have not been listed yet".to_owned()))
    );
    assert_eq!(replaced(&[&pods]), Some(Readiness::Loading(progress())), "it was named again");
}

/// As when the conversion webhook of a definition fails: kube-apiserver answers 429 for as long as it does.
#[tokio::test(start_paused = true)]
async fn a_store_without_progress_leaves_a_replica_ready_that_has_others() {
    let (pods, hats) = (resource("pods"), resource("hats"));
    let (registry, synced) = (Registry::new(catalog(&[&pods, &hats])), Synced::default());
    let readiness = || {
        let found = synced.probe(&registry).into_iter().find(|(found, _)| found == "store/hats.v1");
        found.map(|(_, readiness)| readiness).unwrap()
    };
    let busy = || "storage is (re)initializing".to_owned();
    synced.expect(Arc::new([pods.gvr.clone(), hats.gvr.clone()].into()));
    pods.state.publish_progress(0);
    hats.state.publish(LoadState::Loading(busy()));
    sleep(Duration::from_secs(3_600)).await;
    assert_eq!(readiness(), Readiness::NotReady(busy()), "there is nothing else to serve");
    pods.state.publish(LoadState::Ready(Store::new(HistoryLimits::default()).snapshot()));
    assert_eq!(readiness(), Readiness::Loading(busy()), "there is now");

    let synced = Synced::default();
    let readiness = || {
        let found = synced.probe(&registry).into_iter().find(|(found, _)| found == "store/hats.v1");
        found.map(|(_, readiness)| readiness).unwrap()
    };
    synced.expect(Arc::new([pods.gvr.clone(), hats.gvr.clone()].into()));
    let progress = |read: usize| Readiness::NotReady(format!("{read} objects read"));
    for read in 1..10 {
        hats.state.publish_progress(read * 1_000);
        sleep(Duration::from_secs(59)).await;
        assert_eq!(readiness(), progress(read * 1_000), "it goes on");
    }
    sleep(Duration::from_secs(60)).await;
    assert_eq!(readiness(), Readiness::Loading("9000 objects read".to_owned()), "nothing more in a minute");
    hats.state.publish_progress(10_000);
    assert_eq!(readiness(), Readiness::Loading("10000 objects read".to_owned()), "others are served meanwhile");
}

#[test]
fn a_problem_that_all_versions_have_is_named_once() {
    let spec = json!({
        "group": "stable.example.com", "resource": "shirts", "versions": ["v1", "v1beta1"],
        "selectableFields": [{"name": "a", "jsonPath": "$.spec.none"}, {"name": "b", "jsonPath": "$.spec.color"}],
    });
    let result = super::stores::evaluate(&field_cache(SHIRTS, spec), &definitions());
    assert_eq!((result.stores.len(), result.problems.len()), (2, 1), "{:?}", result.problems);
    assert!(result.problems[0].message.starts_with("spec.selectableFields[0].jsonPath: "), "{:?}", result.problems);
}

/// Served without it, such a View would show what its author left out.
#[test]
fn a_view_with_a_member_of_a_newer_release_is_not_served() {
    let shirts = field_cache(SHIRTS, json!({"group": "stable.example.com", "resource": "shirts"}));
    let results = evaluate_all(&[shirts], &definitions());
    let problems = |resource: serde_json::Value, spec: serde_json::Value| {
        let mut view = json!({
            "apiVersion": "fieldcache.dev/v1alpha1", "kind": "View", "metadata": {"name": "blue"},
            "spec": {"resources": [{"group": "stable.example.com", "resource": "shirts"}]},
        });
        for (place, members) in [("/spec/resources/0", resource), ("/spec", spec)] {
            let place = view.pointer_mut(place).unwrap().as_object_mut().unwrap();
            place.extend(members.as_object().unwrap().clone());
        }
        let Lenient(view) = serde_json::from_value::<Lenient<View>>(view).unwrap();
        match views::evaluate(&view, &results, &definitions()).outcome {
            Ok(_) => Vec::new(),
            Err(problems) => problems.into_iter().map(|problem| problem.message).collect::<Vec<_>>(),
        }
    };
    for (resource, spec) in [
        (json!({}), json!({})),
        (json!({"namespaces": [], "prune": [], "newer": null}), json!({"consistency": "Strong", "newer": {}})),
        (
            json!({
                "namespaces": ["a"], "labelSelector": {"matchLabels": {"a": ""}}, "prune": [".spec.size"],
                "fieldSelector": {"matchExpressions": [{"key": "spec.color", "operator": "Exists"}]},
            }),
            json!({"authorization": "View", "consumer": {"fields": [{"key": "spec.color", "value": "NodeName"}]}}),
        ),
    ] {
        assert_eq!(problems(resource, spec), Vec::<String>::new());
    }
    for (resource, spec, place) in [
        (json!({"objectSelector": {"matchLabels": {"team": "a"}}}), json!({}), "spec.resources[0].objectSelector"),
        (json!({}), json!({"expires": "2027-01-01"}), "spec.expires"),
        (json!({}), json!({"consumer": {"groups": ["a"]}}), "spec.consumer.groups"),
        (json!({"labelSelector": {"matchCEL": "false"}}), json!({}), "spec.resources[0].labelSelector.matchCEL"),
        (
            json!({"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Exists", "negate": true}]}}),
            json!({}),
            "spec.resources[0].labelSelector.matchExpressions[0].negate",
        ),
        (
            json!({"fieldSelector": {"matchExpressions": [{"key": "spec.color", "operator": "In", "values": ["blue"], "negate": true}]}}),
            json!({}),
            "spec.resources[0].fieldSelector.matchExpressions[0].negate",
        ),
    ] {
        let found = problems(resource, spec);
        assert!(
            found.len() == 1 && found[0].starts_with(&format!("{place}: this release of fieldcache does not know")),
            "{found:?}"
        );
    }
}

#[test]
fn a_view_with_a_wrong_name_names_what_there_is() {
    let shirts = field_cache(SHIRTS, json!({"group": "stable.example.com", "resource": "shirts"}));
    let results = evaluate_all(&[shirts], &definitions());
    let message = |resource: &str, key: &str| {
        let view: View = serde_json::from_value(json!({
            "apiVersion": "fieldcache.dev/v1alpha1", "kind": "View", "metadata": {"name": "blue"},
            "spec": {"resources": [{
                "group": "stable.example.com", "resource": resource,
                "fieldSelector": {"matchExpressions": [{"key": key, "operator": "In", "values": ["blue"]}]},
            }]},
        }))
        .unwrap();
        views::evaluate(&view, &results, &definitions()).outcome.unwrap_err().remove(0).message
    };
    let singular = message("shirt", "spec.color");
    assert!(singular.ends_with("; there is shirts.stable.example.com"), "{singular}");
    let field = message("shirts", "spec.colour");
    let fields =
        "; shirts.stable.example.com has metadata.name, metadata.namespace, spec.color. Use one of them, or add";
    assert!(field.contains(fields), "{field}");
}

#[test]
fn a_summary_of_fields_fits_a_column() {
    use super::selectable_resources::summary;
    let long = format!("spec.{}", "x".repeat(90));
    for (paths, expected) in [
        (&[][..], ""),
        (&["spec.color"], "spec.color"),
        (&["spec.color", "spec.size"], "spec.color,spec.size"),
        (&["spec.color", "spec.size", "spec.quantity", "spec.branded"], "spec.color,spec.size,+2"),
        (&[&*long], "spec.xxxxxxxxxxxxxxxxxxxxxx..."),
        (&[&*long, "spec.size"], "spec.xxxxxxxxxxxxxxxxxxxxxx...,+1"),
    ] {
        let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
        assert_eq!(summary(&paths), expected);
    }
}

/// Every user who may create a Pod or ServiceAccount in any namespace chooses its name.
#[test]
fn a_view_that_takes_a_name_without_its_namespace_is_warned_of() {
    let shirts = field_cache(SHIRTS, json!({"group": "stable.example.com", "resource": "shirts"}));
    let results = evaluate_all(&[shirts], &definitions());
    let finding = |authorization: &str, values: &[&str]| {
        let keys = ["metadata.name", "metadata.namespace", "spec.color"];
        let fields: Vec<_> = keys.iter().zip(values).map(|(key, value)| json!({"key": key, "value": value})).collect();
        let view: View = serde_json::from_value(json!({
            "apiVersion": "fieldcache.dev/v1alpha1", "kind": "View", "metadata": {"name": "own"},
            "spec": {
                "authorization": authorization, "consumer": {"fields": fields},
                "resources": [{"group": "stable.example.com", "resource": "shirts"}],
            },
        }))
        .unwrap();
        let definition = views::evaluate(&view, &results, &definitions()).outcome.unwrap();
        views::not_namespaced(&definition).map(|finding| finding.message)
    };
    for (authorization, values, expected) in [
        ("View", &["PodName"][..], Some("selects metadata.name by PodName")),
        ("View", &["ServiceAccountName"], Some("selects metadata.name by ServiceAccountName")),
        ("View", &["PodName", "Namespace"], None),
        ("View", &["ServiceAccountName", "Namespace"], None),
        ("View", &["PodName", "PodUID"], None),
        ("View", &["NodeName"], None),
        ("View", &["Namespace"], None),
        ("Caller", &["PodName"], None),
    ] {
        let found = finding(authorization, values);
        let is_expected = match (&found, expected) {
            (Some(found), Some(expected)) => found.contains(expected) && found.contains("value: Namespace"),
            (found, expected) => found.is_none() && expected.is_none(),
        };
        assert!(is_expected, "{authorization} {values:?}: {found:?}");
    }
}

#[test]
fn only_permissions_that_are_not_needed_are_warned_of() {
    use super::own_permissions::{excessive, warning};
    use k8s_openapi::api::authorization::v1::ResourceRule;
    let (documents, broken) = yaml::documents(include_bytes!("../../manifests/rbac.yaml"), Syntax::Yaml);
    assert!(broken.is_empty());
    let own = documents.into_iter().map(|document| document.value);
    let own = own.filter(|role| role["kind"] == "ClusterRole" && role["metadata"]["name"] == "fieldcache");
    let rules: Vec<ResourceRule> =
        own.flat_map(|role| serde_json::from_value::<Vec<_>>(role["rules"].clone()).unwrap()).collect();
    assert!(rules.len() >= 6, "the rules of manifests/ were found");
    assert_eq!(warning(&rules), None, "what manifests/ grant is needed");
    let rule = |group: &str, resources: &[&str], verbs: &[&str]| ResourceRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(resources.iter().map(|name| (*name).to_owned()).collect()),
        verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
        ..ResourceRule::default()
    };
    let rows = [
        (rule("", &["pods", "nodes"], &["get", "list", "watch"]), "", "what reads"),
        (rule("", &["pods"], &["get", "delete"]), "delete pods", "one that writes"),
        (
            rule("apps", &["deployments", "scale"], &["patch"]),
            "patch deployments.apps, patch scale.apps",
            "two resources",
        ),
        (rule("*", &["*"], &["*"]), "* *.*", "everything"),
        (
            rule("fieldcache.dev", &["fieldcaches"], &["create"]),
            "create fieldcaches.fieldcache.dev",
            "what users write",
        ),
        (
            rule("rbac.authorization.k8s.io", &["clusterroles"], &["bind"]),
            "bind clusterroles.rbac.authorization.k8s.io",
            "what gives permissions",
        ),
    ];
    for (rule, expected, why) in rows {
        let found: Vec<String> = excessive(&[rule]).into_iter().collect();
        assert_eq!(found.join(", "), expected, "{why}");
    }
    let many: Vec<String> = (0..14).map(|number| format!("r{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let text = warning(&[rule("", &many, &["delete"])]).unwrap();
    assert!(text.contains("delete r0, ") && text.contains(" and 4 more; "), "{text}");
}

/// A client that reads a version must not lose it because another one was added.
#[test]
fn cached_versions_remain_until_they_are_not_served() {
    let kept = |versions: &[&str], spec: serde_json::Value| {
        let mut whole = json!({"group": "stable.example.com", "resource": "shirts"});
        whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let mut field_cache = (*field_cache(SHIRTS, whole)).clone();
        field_cache.status = Some(serde_json::from_value(json!({"versions": versions})).unwrap());
        let result = super::stores::evaluate(&field_cache, &definitions());
        result.stores.iter().map(|store| store.gvr.version.to_string()).collect::<Vec<_>>()
    };
    let nothing = json!({});
    for (before, spec, expected, what) in [
        (&[][..], &nothing, &["v1"][..], "at first"),
        (&["v1"], &nothing, &["v1"], "nothing has changed"),
        (&["v1beta1"], &nothing, &["v1", "v1beta1"], "another version is preferred now"),
        (&["v1", "v1beta1"], &nothing, &["v1", "v1beta1"], "both were kept"),
        (&["v1alpha1"], &nothing, &["v1"], "it is not served any more"),
        (&["v1beta1"], &json!({"versions": ["v1"]}), &["v1"], "versions are named"),
    ] {
        assert_eq!(kept(before, spec.clone()), expected, "{what}");
    }
}

/// A View of that age that lists so many names of namespaces.
#[test]
fn long_metadata_of_authors_is_not_stored() {
    let many = |number: usize| format!("example.com/{number}");
    let texts: BTreeMap<String, String> = (0..1_000).map(|number| (many(number), many(number))).collect();
    let owner =
        |number: usize| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": many(number), "uid": many(number)});
    let long = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "n".repeat(100_000), "uid": "u"});
    let mut view: View = serde_json::from_value(json!({
        "apiVersion": "fieldcache.dev/v1alpha1", "kind": "View", "spec": {"resources": []},
        "metadata": {
            "name": "long", "generation": 3, "labels": texts, "annotations": texts,
            "finalizers": (0..1_000).map(many).collect::<Vec<String>>(),
            "managedFields": [{"manager": "m", "fieldsV1": {"f:spec": {}}}],
            "ownerReferences": (0..1_000).map(owner).chain([long]).rev().collect::<Vec<_>>(),
        },
    }))
    .unwrap();
    shorten_metadata(&mut view.metadata);
    let kept = serde_json::to_string(&view.metadata).unwrap();
    assert!(kept.len() < 1_000 && kept.contains("\"generation\":3"), "{kept}");
}

#[test]
fn views_that_did_not_change_keep_their_verdicts_until_the_cluster_does() {
    let definitions = Arc::new(definitions());
    let shirts = field_cache("shirts.stable.example.com", json!({"group": "stable.example.com", "resource": "shirts"}));
    let results = Arc::new(evaluate_all(std::slice::from_ref(&shirts), &definitions));
    let view = |name: &str| -> View {
        serde_json::from_value(json!({
            "apiVersion": "fieldcache.dev/v1alpha1", "kind": "View", "metadata": {"name": name, "generation": 3},
            "spec": {"resources": [{"group": "stable.example.com", "resource": "shirts"}]},
        }))
        .unwrap()
    };
    let reasons = |view_results: &ViewResults| -> BTreeMap<String, &'static str> {
        let reason = |outcome: &Result<_, Vec<SpecProblem>>| {
            outcome.as_ref().map_or_else(|problems| problems[0].reason, |_| "served")
        };
        view_results.iter().map(|(name, result)| (name.clone(), reason(&result.outcome))).collect()
    };
    let expected = |reasons: [&'static str; 3]| -> BTreeMap<String, &'static str> {
        ["a", "b", "c"].map(str::to_owned).into_iter().zip(reasons).collect()
    };
    let mut crowded_out = view("b");
    crowded_out.drop_spec(Absence::CrowdedOut);
    let mut all = vec![Arc::new(view("a")), Arc::new(crowded_out), Arc::new(view("c"))];
    let last = block_on(views::evaluate_all(all.clone(), &results, &definitions, None));
    assert_eq!(reasons(&last.view_results), expected(["served", "TooManyViews", "served"]));
    let mut long = view("a");
    long.drop_spec(Absence::TooLong);
    (all[0], all[1]) = (Arc::new(long), Arc::new(view("b")));
    let last = block_on(views::evaluate_all(all.clone(), &results, &definitions, Some(last)));
    assert_eq!(reasons(&last.view_results), expected(["TooLarge", "served", "served"]));
    // FieldCacheResults on other FieldCaches than theirs change nothing.
    let hats = field_cache("hats.stable.example.com", json!({"group": "stable.example.com", "resource": "hats"}));
    let others = Arc::new(evaluate_all(&[shirts, hats], &definitions));
    let next = block_on(views::evaluate_all(all.clone(), &others, &definitions, Some(last.clone())));
    assert!(next.view_results.iter().all(|(name, result)| Arc::ptr_eq(result, &last.view_results[name])));
    let last = block_on(views::evaluate_all(all.clone(), &Arc::default(), &definitions, Some(next)));
    assert_eq!(reasons(&last.view_results), expected(["TooLarge", "NotCached", "NotCached"]));
    let (pods, gone) = (field_cache("pods", json!({"resource": "pods"})), Arc::new(Definitions::default()));
    let results = Arc::new(evaluate_all(&[pods], &gone));
    let last = block_on(views::evaluate_all(all, &results, &gone, Some(last)));
    assert_eq!(reasons(&last.view_results), expected(["TooLarge", "ResourceNotFound", "ResourceNotFound"]));
}

#[tokio::test(start_paused = true)]
async fn forbidden_objects_are_listed_again_because_a_successful_watch_is_silent() {
    use kube::core::Status;
    use kube::runtime::watcher::{Error, Event};

    let forbidden = || kube::Error::Api(Box::new(Status { code: 403, ..Status::default() }));
    let mut policy = ValidatingAdmissionPolicy::default();
    policy.metadata.name = Some("p".to_owned());
    let mut watches = vec![
        // Listed, and rejected when the watch restarts. This watch would succeed then, and nothing changes.
        vec![
            Ok(Event::Init),
            Ok(Event::InitApply(policy.clone())),
            Ok(Event::InitDone),
            Err(Error::WatchStartFailed(forbidden())),
        ],
        vec![Err(Error::InitialListFailed(forbidden()))],
        vec![Ok(Event::Init), Ok(Event::InitApply(policy)), Ok(Event::InitDone)],
    ]
    .into_iter();
    let begin = move || {
        let events = watches.next().unwrap_or_default();
        stream::iter(events).chain(stream::pending()).boxed()
    };
    let (store, changes) = follow_events_strictly::<ValidatingAdmissionPolicy>(begin);
    let results = changes.take(4).map(|change| change.is_ok()).collect::<Vec<bool>>();
    let results = tokio::time::timeout(Duration::from_secs(60), results).await;
    assert_eq!(results, Ok(vec![true, false, false, true]));
    assert_eq!(store.len(), 1);
}

#[test]
fn a_remedy_is_one_line_that_can_be_pasted() {
    let message = super::how_to_permit(&Gvr::new("stable.example.com", "v1", "shirts"));
    let remedy = "To grant it: kubectl create clusterrole fieldcache-reads-shirts.stable.example.com --verb=list,watch \
                  --resource=shirts.stable.example.com && kubectl label clusterrole fieldcache-reads-shirts.stable.example.com \
                  fieldcache.dev/aggregate-to-reader=true";
    assert!(message.ends_with(remedy) && !message.contains('\n'), "{message}");
}
