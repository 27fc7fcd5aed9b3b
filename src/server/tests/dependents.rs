//! `dependents` through the server: the document, permissions, Views, and resources that are not ready.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use tokio::time::{Instant, advance};

use super::{Answer, Fixture};
use crate::access::tests::cluster::Cluster;
use crate::extract::Prune;
use crate::flow_control::limit::LimitSettings;
use crate::model::quantity;
use crate::registry::views::{ViewDefinition, ViewPart, ViewRights};
use crate::registry::{GoneReason, LoadState};
use crate::server::Settings;
use crate::store::HistoryLimits;

const ROOT: &str = "/apis/view.fieldcache.dev/v1alpha1";

/// The paths of the dependents of an owner, in all namespaces and in one.
fn path(uid: &str) -> String {
    format!("{ROOT}/dependents/{uid}")
}

fn path_in(namespace: &str, uid: &str) -> String {
    format!("{ROOT}/namespaces/{namespace}/dependents/{uid}")
}

/// An object with these owners, of which the first is the controller.
fn owned(namespace: &str, name: &str, owners: &[&str]) -> Value {
    let references: Vec<Value> = owners.iter().map(|uid| json!({"uid": uid})).collect();
    let uid = format!("uid-{name}");
    let mut object = json!({"metadata": {"name": name, "uid": uid, "ownerReferences": references,
        "creationTimestamp": "2026-01-01T00:00:00Z"}});
    if let Some(first) = object["metadata"]["ownerReferences"].get_mut(0) {
        first["controller"] = json!(true);
    }
    if !namespace.is_empty() {
        object["metadata"]["namespace"] = json!(namespace);
    }
    object
}

impl Fixture {
    /// Puts an object of one of the three resources, by its plural name.
    fn put_object(&mut self, plural: &str, mut object: Value) {
        object["metadata"]["resourceVersion"] = json!(self.next_version().to_string());
        let stored = match plural {
            "shirts" => &mut self.shirts,
            "hats" => &mut self.hats,
            _ => &mut self.pods,
        };
        let record = stored.resource.extractor.extract(Bytes::from(object.to_string())).unwrap();
        stored.store.apply(&record);
        stored.publish();
    }
}

/// A hat that owns a hat and, in the namespaces `a` and `b`, shirts that own Pods.
fn tree(settings: Settings) -> Fixture {
    let mut fixture = Fixture::with(settings, HistoryLimits::default());
    fixture.put_object("hats", owned("", "top", &[]));
    fixture.put_object("hats", owned("", "brim", &["uid-top"]));
    for namespace in ["a", "b"] {
        let shirt = format!("shirt-{namespace}");
        fixture.put_object("shirts", owned(namespace, &shirt, &["uid-top"]));
        for number in 0..2 {
            let mut pod = owned(namespace, &format!("pod-{namespace}{number}"), &[&format!("uid-{shirt}")]);
            pod["status"] =
                json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "False", "reason": "No"}]});
            fixture.put_object("pods", pod);
        }
    }
    fixture
}

/// The names of the dependents.
fn names(answer: &Answer) -> String {
    let document = answer.json();
    let dependents = document["dependents"].as_array().unwrap_or_else(|| panic!("{}", answer.body)).iter();
    dependents.map(|dependent| dependent["name"].as_str().unwrap()).collect::<Vec<_>>().join(" ")
}

/// The plural names of a list of resources; empty if there is none.
fn resources(answer: &Answer, member: &str) -> String {
    let document = answer.json();
    let listed = document[member].as_array().into_iter().flatten();
    listed.map(|resource| resource["resource"].as_str().unwrap()).collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn the_dependents_of_an_object_are_one_document() {
    let fixture = tree(Settings::default());
    let answer = fixture.get(&path_in("a", "uid-top")).await;
    assert_eq!((answer.code.as_u16(), answer.header("content-type")), (200, "application/json"), "{}", answer.body);
    let gvr = |group: &str, resource: &str| json!({"group": group, "version": "v1", "resource": resource});
    let pod = |name: &str| {
        json!({"apiVersion": "v1", "kind": "Pod", "namespace": "a", "name": name, "uid": format!("uid-{name}"),
            "owners": [{"uid": "uid-shirt-a", "controller": true}], "creationTimestamp": "2026-01-01T00:00:00Z",
            "status": {"ready": "False", "reason": "No", "phase": "Running"}})
    };
    let shirt = json!({"apiVersion": "stable.example.com/v1", "kind": "Shirt", "namespace": "a", "name": "shirt-a",
        "uid": "uid-shirt-a", "owners": [{"uid": "uid-top", "controller": true}],
        "creationTimestamp": "2026-01-01T00:00:00Z"});
    assert_eq!(
        answer.json(),
        json!({"apiVersion": "view.fieldcache.dev/v1alpha1", "kind": "Dependents",
            "metadata": {"name": "uid-top", "namespace": "a"}, "dependents": [shirt, pod("pod-a0"), pod("pod-a1")],
            "resources": [gvr("", "pods"), gvr("stable.example.com", "shirts")]}),
        "hats have no namespace, so they are not searched"
    );
    for (path, expected, why) in [
        (path("uid-top"), "brim shirt-a shirt-b pod-a0 pod-a1 pod-b0 pod-b1", "all namespaces"),
        (format!("{}?recursive=false", path("uid-top")), "brim shirt-a shirt-b", "one level"),
        (format!("{}?recursive=true", path_in("b", "uid-top")), "shirt-b pod-b0 pod-b1", "one namespace"),
        (path_in("a", "uid-shirt-b"), "", "an owner in another namespace"),
        (path("uid-pod-a0"), "", "no dependents"),
        (path("none"), "", "no owner"),
    ] {
        let answer = fixture.get(&path).await;
        assert_eq!((answer.code.as_u16(), &*names(&answer)), (200, expected), "{why}");
    }
    let yaml = fixture.get_with(&path("uid-shirt-a"), &[("accept", "application/yaml")]).await;
    assert!(yaml.body.contains("kind: Dependents"), "{}", yaml.body);
}

#[tokio::test]
async fn dependents_outlive_their_owner_and_cycles_end() {
    let mut fixture = tree(Settings::default());
    fixture.delete("a", "shirt-a");
    assert_eq!(names(&fixture.get(&path("uid-shirt-a")).await), "pod-a0 pod-a1", "the owner was deleted");
    assert_eq!(names(&fixture.get(&path_in("a", "uid-top")).await), "", "no relation leads to them");

    fixture.put_object("hats", owned("", "top", &["uid-brim", "uid-top"]));
    assert_eq!(
        names(&fixture.get(&path("uid-top")).await),
        "brim shirt-b pod-b0 pod-b1",
        "the owner is not in its tree"
    );
    let brim = fixture.get(&path("uid-brim")).await;
    assert_eq!(names(&brim), "top shirt-b pod-b0 pod-b1");
    let owners = json!([{"uid": "uid-brim", "controller": true}]);
    assert_eq!(brim.json()["dependents"][0]["owners"], owners, "an object is no owner of itself in a tree");
}

#[tokio::test]
async fn requests_for_dependents_get_one_owner_by_its_uid() {
    let fixture = tree(Settings::default());
    for (method, path, code, message) in [
        (Method::GET, format!("{ROOT}/dependents"), 405, "list is not supported on resources of kind"),
        (Method::POST, format!("{ROOT}/dependents"), 405, ""),
        (Method::DELETE, path("uid-top"), 405, ""),
        (Method::GET, format!("{ROOT}/watch/dependents/uid-top"), 404, ""),
        (Method::GET, format!("{}/status", path("uid-top")), 404, ""),
        (Method::GET, path(&"u".repeat(1_025)), 400, "the uid in the path has more than 1024 characters"),
        (Method::GET, format!("{ROOT}/other/uid-top"), 404, ""),
        (Method::GET, path_in("", "uid-top"), 404, ""),
    ] {
        let answer = fixture.whole(method.clone(), &path, &[]).await;
        assert_eq!(answer.code.as_u16(), code, "{method} {path}: {}", answer.body);
        assert!(answer.body.contains(message), "{method} {path}: {}", answer.body);
    }
    let row = json!({"name": "dependents", "singularName": "dependents", "namespaced": true, "kind": "Dependents",
        "verbs": ["get"]});
    let discovered = fixture.get(ROOT).await.json();
    assert!(discovered["resources"].as_array().unwrap().contains(&row), "{discovered}");
}

/// `admin` may do everything. `a` may do everything in the namespace `a`, `shirts` may list shirts, `both` may list
/// shirts everywhere and Pods in `b`. All may get dependents, except `none`, who may list everything.
fn cluster() -> Arc<Cluster> {
    Cluster::new(|spec| {
        let attributes = &spec["resourceAttributes"];
        let text = |member: &str| attributes[member].as_str().unwrap_or_default();
        let what = [text("verb"), text("resource"), text("namespace")];
        match (spec["user"].as_str().unwrap_or_default(), what) {
            ("admin", _) | ("a", [_, _, "a"]) | ("none", ["list", ..]) => true,
            ("none" | "a", _) => false,
            (_, ["get", "dependents", _]) => true,
            ("shirts" | "both", ["list", "shirts", _]) | ("both", ["list", "pods", "b"]) => true,
            _ => false,
        }
    })
}

#[tokio::test]
async fn callers_see_the_dependents_that_they_may_list_and_which_resources_they_may_not() {
    let fixture = tree(Settings { access: Some(cluster().access()), ..Settings::default() });
    let (all, a, b) = (path("uid-top"), path_in("a", "uid-top"), path_in("b", "uid-top"));
    for (user, path, expected, refused, searched) in [
        ("admin", &all, "brim shirt-a shirt-b pod-a0 pod-a1 pod-b0 pod-b1", "", "pods hats shirts"),
        ("shirts", &all, "shirt-a shirt-b", "pods hats", "shirts"),
        ("shirts", &a, "shirt-a", "pods", "shirts"),
        ("both", &all, "shirt-a shirt-b", "pods hats", "shirts"),
        ("both", &a, "shirt-a", "pods", "shirts"),
        ("both", &b, "shirt-b pod-b0 pod-b1", "", "pods shirts"),
        ("a", &a, "shirt-a pod-a0 pod-a1", "", "pods shirts"),
        ("nothing", &all, "", "pods hats shirts", ""),
        ("nothing", &a, "", "pods shirts", ""),
    ] {
        let bearer = format!("Bearer {user}");
        let answer = fixture.get_with(path, &[("authorization", &bearer)]).await;
        assert_eq!((answer.code.as_u16(), &*names(&answer)), (200, expected), "{user} {path}");
        assert_eq!(resources(&answer, "notPermitted"), refused, "{user} {path}");
        assert_eq!(resources(&answer, "resources"), searched, "{user} {path}");
        // The same resources are named whether or not there are dependents.
        let missing = fixture.get_with(&path.replace("uid-top", "none"), &[("authorization", &bearer)]).await;
        for member in ["notPermitted", "resources", "notReady"] {
            assert_eq!(resources(&missing, member), resources(&answer, member), "{user} {path}");
        }
    }
    for (user, path) in [("none", &all), ("none", &a), ("a", &all), ("a", &b)] {
        let answer = fixture.get_with(path, &[("authorization", &format!("Bearer {user}"))]).await;
        let message =
            format!("User \"{user}\" cannot get resource \"dependents\" in API group \"view.fieldcache.dev\"");
        assert_eq!(answer.code.as_u16(), 403, "{user} {path}");
        assert!(answer.message().contains(&message), "{}", answer.body);
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_decision_there_are_no_dependents() {
    let cluster = cluster();
    let fixture = tree(Settings { access: Some(cluster.access()), ..Settings::default() });
    let bearer = [("authorization", "Bearer both")];
    let read = async || fixture.get_with(&path("uid-top"), &bearer).await;
    assert_eq!(names(&read().await), "shirt-a shirt-b");
    cluster.is_gone.store(true, Ordering::Relaxed);
    // A denial is reviewed again after a second, a permission is not.
    advance(Duration::from_secs(2)).await;
    let answer = read().await;
    assert_eq!(answer.code.as_u16(), 500, "{}", answer.body);
    assert!(!answer.body.contains("shirt-a"), "{}", answer.body);
}

#[tokio::test]
async fn views_have_no_dependents() {
    let fixture = tree(Settings { access: Some(cluster().access()), ..Settings::default() });
    let pods = ViewPart { resource: "pods".to_owned(), ..ViewPart::default() };
    let prune: Arc<Prune> = Arc::default();
    let parts = vec![ViewPart { prune, ..pods }];
    for (rights, why) in [(ViewRights::Caller, "the caller's permissions"), (ViewRights::View, "those of the View")] {
        let definition = ViewDefinition { parts: parts.clone(), rights, ..ViewDefinition::default() };
        fixture.registry.replace_views(BTreeMap::from([("pods".to_owned(), Ok(definition.into()))]));
        for path in [path("uid-shirt-a"), path_in("a", "uid-shirt-a")] {
            let path = format!("{ROOT}/views/pods/proxy{path}");
            let answer = fixture.get_with(&path, &[("authorization", "Bearer admin")]).await;
            assert_eq!(answer.code.as_u16(), 404, "{why}: {path} {}", answer.body);
            assert!(!answer.body.contains("pod-a0"), "{why}: {}", answer.body);
        }
        let group =
            fixture.get_with(&format!("{ROOT}/views/pods/proxy{ROOT}"), &[("authorization", "Bearer admin")]).await;
        assert_eq!(group.code.as_u16(), 404, "{why}: the group is not in the View");
    }
}

#[tokio::test(start_paused = true)]
async fn resources_that_are_not_ready_are_named_and_not_loaded() {
    let settings = Settings { max_lag: Some(Duration::from_secs(90)), ..Settings::default() };
    let fixture = tree(settings);
    let read = async || {
        let answer = fixture.get(&path("uid-top")).await;
        (names(&answer), resources(&answer, "notReady"))
    };
    assert_eq!(read().await.1, "", "all are ready");
    let loads = fixture.pods.resource.state.load_requests();
    fixture.pods.resource.state.publish(LoadState::Idle);
    assert_eq!(read().await, ("brim shirt-a shirt-b".to_owned(), "pods".to_owned()), "not loaded");
    assert!(!loads.has_changed().unwrap(), "dependents load nothing");
    fixture.pods.resource.state.publish(LoadState::Loading("1 objects read".to_owned()));
    assert_eq!(read().await.1, "pods", "loading");
    fixture.pods.publish();
    fixture.shirts.resource.state.freshness().note_progress(Instant::now());
    advance(Duration::from_secs(100)).await;
    assert_eq!(read().await, ("brim".to_owned(), "shirts".to_owned()), "too old");
    fixture.hats.resource.state.end(GoneReason::NotCached);
    assert_eq!(read().await, (String::new(), "hats shirts".to_owned()), "gone");
}

#[tokio::test]
async fn what_walks_hold_counts_for_their_user() {
    let limits = LimitSettings { unread_bytes: quantity::Bytes(8 << 20), ..LimitSettings::default() };
    let mut fixture = Fixture::with(Settings { limits, ..Settings::default() }, HistoryLimits::default());
    for number in 0..3_000 {
        let mut shirt = owned("a", &format!("{}-{number}", "n".repeat(200)), &["root"]);
        shirt["status"] = json!({"phase": "p".repeat(256)});
        fixture.put_object("shirts", shirt);
    }
    // Of what a user may hold, which is half of the limit, a walk takes four times its dependents.
    let answer = fixture.get(&path("root")).await;
    assert_eq!(answer.code.as_u16(), 429, "{}", &answer.body[..answer.body.len().min(300)]);
    assert!(answer.message().contains("--max-unread-bytes"), "{}", answer.body);
    assert_eq!(fixture.get(&path("uid-none")).await.code.as_u16(), 200, "nothing is held any more");
}
