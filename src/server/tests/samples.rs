//! manifests/samples, served as `serve --dir` serves them: the examples of the documents that speak of objects.
//!
//! The test tries every combination of the named values to find the selectors that can select one object. So it trusts
//! nothing but the selectors' own matching.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use http::Request;
use http_body_util::BodyExt;
use serde_json::{Value, json};

use crate::openapi::SELECTABLE_FIELDS;
use crate::registry::{Catalog, Registry, VersionInfo};
use crate::selector::wire::label_selector;
use crate::selector::{LabelSelection, LabelSelector, Operator};
use crate::server::{Server, Settings};
use crate::source::folder_feeds::FolderFeeds;

/// The samples, read once; nothing follows their files.
fn samples() -> (Server, FolderFeeds) {
    let version = VersionInfo { body: json!({}) };
    let registry = Arc::new(Registry::new(Catalog::new(Vec::new(), Vec::new(), version)));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests/samples");
    let feeds = FolderFeeds::open(&folder, registry.clone()).unwrap();
    (Server::new(registry, Settings::default()), feeds)
}

async fn whole(server: &Server, path: &str) -> Value {
    let request = Request::get(path).header("host", "127.0.0.1:8181").body(String::new()).unwrap();
    let bytes = server.answer(request).await.into_body().collect().await.unwrap().to_bytes();
    serde_json::from_slice(&bytes).unwrap_or_else(|error| panic!("{path}: {error}"))
}

async fn items(server: &Server, path: &str) -> Vec<Value> {
    let list = whole(server, path).await;
    list["items"].as_array().unwrap_or_else(|| panic!("{path}: {list}")).clone()
}

async fn names(server: &Server, path: &str) -> Vec<String> {
    items(server, path).await.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn every_sample_is_served() {
    let (server, feeds) = samples();
    assert_eq!(feeds.problems(), []);
    for (path, count) in [
        ("/apis/stable.example.com/v1/shirts", 6),
        ("/api/v1/pods", 3),
        ("/api/v1/services", 1),
        ("/apis/apps/v1/deployments", 2),
    ] {
        assert_eq!(items(&server, path).await.len(), count, "{path}");
    }
}

#[tokio::test]
async fn the_keps_example_selects_on_the_sample() {
    let (server, _feeds) = samples();
    let shirts = "/apis/stable.example.com/v1/namespaces/team-a/shirts";
    for (selector, expected) in [
        ("", &["example1", "example2", "example3"][..]),
        ("spec.color%3Dblue", &["example1", "example2"]),
        // The KEP prints the blue one here.
        ("spec.color%3Dgreen,spec.size%3DM", &["example3"]),
    ] {
        assert_eq!(names(&server, &format!("{shirts}?fieldSelector={selector}")).await, expected, "{selector}");
    }
}

#[tokio::test]
async fn openapi_documents_publish_the_fields_of_custom_and_built_in_kinds() {
    let (server, _feeds) = samples();
    let shirt = json!([
        {"fieldPath": "spec.color"}, {"fieldPath": "spec.size"}, {"fieldPath": "spec.quantity"}, {"fieldPath": "spec.branded"},
    ]);
    let service = json!([{"fieldPath": "metadata.name"}, {"fieldPath": "metadata.namespace"}, {"fieldPath": "spec.clusterIP"},
            {"fieldPath": "spec.type"}]);
    let node = json!([{"fieldPath": "metadata.name"}, {"fieldPath": "spec.unschedulable", "default": "false"}]);
    let v2 = whole(&server, "/openapi/v2").await;
    let core = whole(&server, "/openapi/v3/api/v1").await;
    let custom = whole(&server, "/openapi/v3/apis/stable.example.com/v1").await;
    for (document, place, kind, expected) in [
        (&custom, "/components/schemas", "com.example.stable.v1.Shirt", &shirt),
        (&v2, "/definitions", "com.example.stable.v1.Shirt", &shirt),
        (&core, "/components/schemas", "io.k8s.api.core.v1.Service", &service),
        (&v2, "/definitions", "io.k8s.api.core.v1.Service", &service),
        (&core, "/components/schemas", "io.k8s.api.core.v1.Node", &node),
        (&v2, "/definitions", "io.k8s.api.core.v1.Node", &node),
    ] {
        let definitions = document.pointer(place).unwrap();
        for name in [kind.to_owned(), format!("{kind}List")] {
            assert_eq!(definitions[&name][SELECTABLE_FIELDS], *expected, "{place} {name}");
        }
    }
    // As the KEP shows it, but for the description of hostNetwork, which is its own path on the wire.
    let pod = &core["components"]["schemas"]["io.k8s.api.core.v1.Pod"][SELECTABLE_FIELDS];
    let paths: Vec<(&str, &Value)> =
        pod.as_array().unwrap().iter().map(|entry| (entry["fieldPath"].as_str().unwrap(), &entry["default"])).collect();
    let none = &Value::Null;
    assert_eq!(
        paths,
        [
            ("metadata.name", none),
            ("metadata.namespace", none),
            ("spec.nodeName", none),
            ("spec.restartPolicy", none),
            ("spec.schedulerName", none),
            ("spec.serviceAccountName", none),
            ("spec.hostNetwork", &json!("false")),
            ("status.phase", none),
            ("status.podIP", &json!("")),
            ("status.nominatedNodeName", none),
        ]
    );
    let described: Vec<&str> = pod
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| entry["description"].is_string())
        .filter_map(|entry| entry["fieldPath"].as_str())
        .collect();
    assert_eq!(described, ["status.podIP"]);
    assert_eq!(v2["definitions"]["io.k8s.api.core.v1.Pod"][SELECTABLE_FIELDS], *pod);
}

#[tokio::test]
async fn a_service_selects_pods_by_its_plain_map() {
    let (server, _feeds) = samples();
    let services = items(&server, "/api/v1/namespaces/team-a/services").await;
    let map = &services[0]["spec"]["selector"];
    assert_eq!(*map, json!({"app": "shop", "component": "web"}));
    let pairs: Vec<String> =
        map.as_object().unwrap().iter().map(|(key, value)| format!("{key}={}", value.as_str().unwrap())).collect();
    let whole = pairs.join(",");
    for (selector, expected, why) in [
        (&*whole, &["web-1"][..], "the equalities written out"),
        ("app in (shop),component in (web)", &["web-1"], "equality is the set of one value"),
        (&*pairs[0], &["redis-1", "web-1"], "without the other pair"),
    ] {
        let selector = selector.replace('=', "%3D").replace(' ', "%20");
        let pods = format!("/api/v1/namespaces/team-a/pods?labelSelector={selector}");
        assert_eq!(names(&server, &pods).await, expected, "{why}");
    }
}

/// A selector with requirements, as an object carries it.
fn read(selector: &Value) -> LabelSelector {
    let Ok(LabelSelection::Matching(read)) = label_selector(selector, "spec.selector", usize::MAX) else {
        panic!("{selector}")
    };
    read
}

/// Whether some set of labels satisfies both. Tried are all sets over the keys that they name, with each value that
/// they name, another one, or none.
fn overlap(left: &LabelSelector, right: &LabelSelector) -> bool {
    let mut values: BTreeMap<&str, BTreeSet<Option<&str>>> = BTreeMap::new();
    for selector in [left, right] {
        for requirement in &selector.requirements {
            let named = values.entry(&requirement.key).or_insert_with(|| BTreeSet::from([None, Some("another")]));
            if let Operator::In(set) | Operator::NotIn(set) = &requirement.operator {
                named.extend(set.iter().map(|value| Some(value.as_str())));
            }
        }
    }
    let mut candidates: Vec<Vec<(String, String)>> = vec![Vec::new()];
    for (key, named) in values {
        candidates = candidates
            .into_iter()
            .flat_map(|labels| {
                named.iter().map(move |value| {
                    let pair = value.map(|value| (key.to_owned(), value.to_owned()));
                    labels.iter().cloned().chain(pair).collect()
                })
            })
            .collect();
    }
    candidates.iter().any(|labels| left.matches(labels) && right.matches(labels))
}

#[test]
fn selectors_overlap_when_one_set_of_labels_satisfies_both() {
    let term = |key: &str, operator: &str, values: Value| {
        read(&json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]}))
    };
    for (left, right, expected, why) in [
        (term("a", "In", json!(["x"])), term("a", "In", json!(["y"])), false, "different values"),
        (term("a", "In", json!(["x", "y"])), term("a", "In", json!(["y"])), true, "a value in common"),
        (term("a", "In", json!(["x"])), term("b", "In", json!(["x"])), true, "different keys"),
        (term("a", "In", json!(["x"])), term("a", "NotIn", json!(["x"])), false, "the opposite"),
        (term("a", "NotIn", json!(["x"])), term("a", "NotIn", json!(["y"])), true, "a third value"),
        (term("a", "Exists", json!([])), term("a", "DoesNotExist", json!([])), false, "there and not there"),
        (term("a", "NotIn", json!(["x"])), term("a", "DoesNotExist", json!([])), true, "an absent key"),
        (LabelSelector::default(), term("a", "In", json!(["x"])), true, "the empty selector"),
    ] {
        assert_eq!(overlap(&left, &right), expected, "{why}");
        assert_eq!(overlap(&right, &left), expected, "{why}, the other way round");
    }
}

#[tokio::test]
async fn selectors_of_the_sample_controllers_do_not_overlap_in_a_namespace() {
    let (server, _feeds) = samples();
    let deployments = items(&server, "/apis/apps/v1/namespaces/team-a/deployments").await;
    let [cache, web] = &deployments[..] else { panic!("two Deployments: {deployments:?}") };
    let selector_of = |deployment: &Value| read(&deployment["spec"]["selector"]);
    assert!(!overlap(&selector_of(cache), &selector_of(web)));
    for deployment in [cache, web] {
        let template = &deployment["spec"]["template"]["metadata"]["labels"];
        let labels = template.as_object().unwrap().iter();
        let mut labels: Vec<(String, String)> =
            labels.map(|(key, value)| (key.clone(), value.as_str().unwrap().to_owned())).collect();
        labels.sort();
        assert!(selector_of(deployment).matches(&labels), "a controller selects what it makes");
    }

    // Without what keeps them apart they would fight over every Pod of the other.
    let mut wider = web.clone();
    let expressions = wider["spec"]["selector"]["matchExpressions"].as_array_mut().unwrap();
    expressions.retain(|expression| expression["key"] != "component");
    assert_eq!(expressions.len(), 1, "only the exclusion went");
    assert!(overlap(&selector_of(cache), &selector_of(&wider)));
    let pods = items(&server, "/api/v1/namespaces/team-a/pods?fieldSelector=metadata.name%3Dredis-1").await;
    let labels: Vec<(String, String)> = pods[0]["metadata"]["labels"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(key, value)| (key.clone(), value.as_str().unwrap().to_owned()))
        .collect();
    let selects = |deployment: &Value| selector_of(deployment).matches(&labels);
    assert!(selects(cache) && !selects(web) && selects(&wider));
}
