//! `placementreviews` through the server: bodies, permissions, what is missing, and an index that follows three stores.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::BodyExt;
use proptest::prelude::{Just, Strategy, any, prop, prop_assert_eq, prop_oneof, proptest};
use serde_json::{Value, json};

use super::{Answer, Stored, catalog};
use crate::access::tests::cluster::Cluster;
use crate::model::{Gvr, Key, Scope, Version, quantity};
use crate::placement::{Options, Pod};
use crate::placement_service::index::{MOST_LONG, PlacementIndex, PlacementStores};
use crate::registry::{Catalog, LoadState, Memory, PartialStore, Registry, Resource};
use crate::server::{Server, Settings};
use crate::store::HistoryLimits;

mod ignored;

pub(super) const REVIEWS: &str = "/apis/view.fieldcache.dev/v1alpha1/placementreviews";

/// Two nodes, one with a disk; a Pod that is pending for want of another label.
pub(super) struct Fixture {
    server: Arc<Server>,
    registry: Arc<Registry>,
    nodes: Stored,
    pods: Stored,
    namespaces: Stored,
    version: u64,
}

fn resource(plural: &str, kind: &str, scope: Scope) -> Resource {
    Resource {
        gvr: Gvr::new("", "v1", plural),
        kind: kind.to_owned(),
        list_kind: format!("{kind}List"),
        scope,
        subresources: Arc::new([]),
        extractor: crate::builtin::extractor("", "v1", kind),
        ..super::pods()
    }
}

impl Fixture {
    fn empty(settings: Settings, limits: HistoryLimits) -> Fixture {
        let nodes = Stored::new(resource("nodes", "Node", Scope::Cluster), limits);
        let pods = Stored::new(resource("pods", "Pod", Scope::Namespaced), limits);
        let namespaces = Stored::new(resource("namespaces", "Namespace", Scope::Cluster), limits);
        let registry = Arc::new(Registry::new(catalog(&[&nodes, &pods, &namespaces])));
        let server = Arc::new(Server::new(registry.clone(), settings));
        Fixture { server, registry, nodes, pods, namespaces, version: 100 }
    }

    /// The same objects, and no more memory than this beside the stores, which are not counted here.
    fn within(memory: u64) -> Fixture {
        let fixture = Fixture::with(Settings::default());
        let catalog = catalog(&[&fixture.nodes, &fixture.pods, &fixture.namespaces]);
        let registry = Arc::new(Registry::with_memory(catalog, Memory::new(Some(quantity::Bytes(memory)))));
        let server = Arc::new(Server::new(registry.clone(), Settings::default()));
        Fixture { server, registry, ..fixture }
    }

    pub(super) fn with(settings: Settings) -> Fixture {
        let mut fixture = Fixture::empty(settings, HistoryLimits::default());
        for stored in [&mut fixture.nodes, &mut fixture.pods, &mut fixture.namespaces] {
            stored.store.replace(&[], Version::new(100));
            stored.publish();
        }
        fixture.put("nodes", json!({"metadata": {"name": "one", "labels": {"disktype": "ssd"}}}));
        fixture.put("nodes", json!({"metadata": {"name": "two"}}));
        fixture.put("namespaces", json!({"metadata": {"name": "default"}}));
        let spec = json!({"nodeSelector": {"disktype": "tape"}, "containers": []});
        fixture.put("pods", json!({"metadata": {"name": "pending", "namespace": "default"}, "spec": spec}));
        fixture
    }

    fn stored(&mut self, plural: &str) -> &mut Stored {
        match plural {
            "nodes" => &mut self.nodes,
            "pods" => &mut self.pods,
            _ => &mut self.namespaces,
        }
    }

    fn put(&mut self, plural: &str, mut object: Value) {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let stored = self.stored(plural);
        let record = stored.resource.extractor.extract(Bytes::from(object.to_string())).unwrap();
        stored.store.apply(&record);
        stored.publish();
    }

    fn delete(&mut self, plural: &str, namespace: &str, name: &str) {
        self.version += 1;
        let version = Version::new(self.version);
        let stored = self.stored(plural);
        stored.store.delete(&Key::new(namespace, name), version);
        stored.publish();
    }

    pub(super) fn server(&self) -> &Arc<Server> {
        &self.server
    }

    pub(super) async fn send(&self, method: Method, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut request = Request::builder().method(method).uri(path).header("host", "127.0.0.1:8181");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = self.server.answer(request.body(body.to_owned()).unwrap()).await;
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        Answer { code: parts.status, headers: parts.headers, body: String::from_utf8_lossy(&bytes).into_owned() }
    }

    async fn review(&self, body: &Value) -> Answer {
        self.send(Method::POST, REVIEWS, &[("content-type", "application/json")], &body.to_string()).await
    }
}

pub(super) fn review_document(spec: &Value) -> Value {
    json!({"apiVersion": "view.fieldcache.dev/v1alpha1", "kind": "PlacementReview", "spec": spec})
}

pub(super) fn with_containers(mut spec: Value) -> Value {
    spec["containers"] = json!([{"name": "main", "image": "registry.example.com/main"}]);
    spec
}

fn on_ssd() -> Value {
    json!({"pod": {"metadata": {"name": "nginx"}, "spec": with_containers(json!({"nodeSelector": {"disktype": "ssd"}}))}})
}

#[tokio::test]
async fn a_review_is_created_and_answered_at_once() {
    let fixture = Fixture::with(Settings::default());
    let answer = fixture.review(&review_document(&on_ssd())).await;
    assert_eq!((answer.code.as_u16(), answer.header("content-type")), (201, "application/json"), "{}", answer.body);
    let review = answer.json();
    assert_eq!((&review["kind"], &review["metadata"]), (&json!("PlacementReview"), &json!({})));
    assert_eq!(review["spec"], on_ssd(), "as it was sent");
    let status = &review["status"];
    assert_eq!((&status["feasible"], &status["total"]), (&json!(1), &json!(2)));
    assert_eq!(status["message"], "1/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.");
    assert_eq!(status["resourceVersions"], json!({"nodes": "102", "pods": "104", "namespaces": "103"}));
    assert_eq!(
        (&status["nodes"][0]["name"], &status["nodes"][1]["rejections"][0]["label"]),
        (&json!("one"), &json!("!disktype"))
    );
    assert!(status["notEvaluated"].as_array().is_some_and(|plugins| !plugins.is_empty()), "{status}");

    let stored = review_document(&json!({"podRef": {"namespace": "default", "name": "pending"}, "nodeNames": ["two"]}));
    let yaml = crate::yaml::go_yaml(&stored);
    let headers = [("content-type", "application/yaml; charset=utf-8"), ("accept", "application/yaml")];
    let answer = fixture.send(Method::POST, &format!("{REVIEWS}?dryRun=All"), &headers, &yaml).await;
    assert_eq!((answer.code.as_u16(), answer.header("content-type")), (201, "application/yaml"));
    assert!(
        answer.body.contains("message: \"0/2 nodes are available: 2 node(s) didn't match Pod's"),
        "{}",
        answer.body
    );
    assert!(
        answer.body.contains("name: two\n    rejections:") && !answer.body.contains("name: one\n"),
        "{}",
        answer.body
    );

    let what_if = json!({"labels": [{"node": "two", "key": "disktype", "value": "tape"}]});
    let spec = json!({"podRef": {"namespace": "default", "name": "pending"}, "whatIf": what_if});
    assert_eq!(fixture.review(&review_document(&spec)).await.json()["status"]["feasible"], 1, "what if");
    assert_eq!(
        fixture.review(&review_document(&json!({"pod": {"spec": with_containers(json!({}))}}))).await.json()["status"]
            ["feasible"],
        2,
        "a Pod without requirements"
    );
}

#[tokio::test]
async fn reviews_are_created_only() {
    let fixture = Fixture::with(Settings::default());
    let named = format!("{REVIEWS}/one");
    let namespaced = "/apis/view.fieldcache.dev/v1alpha1/namespaces/default/placementreviews";
    for (method, path, code) in [
        (Method::GET, REVIEWS, 405),
        (Method::DELETE, REVIEWS, 405),
        (Method::PUT, REVIEWS, 405),
        (Method::GET, &named, 404),
        (Method::POST, &named, 404),
        (Method::POST, namespaced, 404),
        (Method::GET, "/apis/view.fieldcache.dev/v1alpha1/others", 404),
    ] {
        let answer = fixture.send(method.clone(), path, &[], "").await;
        assert_eq!(answer.code.as_u16(), code, "{method} {path}: {}", answer.body);
    }
    let row = json!({"name": "placementreviews", "singularName": "placementreview", "namespaced": false,
        "kind": "PlacementReview", "verbs": ["create"]});
    let discovered = fixture.send(Method::GET, "/apis/view.fieldcache.dev/v1alpha1", &[], "").await.json();
    let rows = discovered["resources"].as_array().unwrap();
    assert!(rows.contains(&row), "{discovered}");
    let groups = fixture.send(Method::GET, "/apis", &[], "").await.json();
    assert!(
        groups["groups"].as_array().unwrap().iter().any(|group| group["name"] == "view.fieldcache.dev"),
        "{groups}"
    );
}

#[tokio::test]
async fn bodies_are_decoded_strictly() {
    let fixture = Fixture::with(Settings::default());
    let cannot = "PlacementReview in version \"v1alpha1\" cannot be handled as a PlacementReview: ";
    let version = r#""apiVersion":"view.fieldcache.dev/v1alpha1","kind":"PlacementReview""#;
    let review = |spec: &str| format!("{{{version},\"spec\":{spec}}}");
    let json = ("content-type", "application/json");
    for (header, body, code, message) in [
        (("accept", "*/*"), review("[]"), 400, "spec: expected an object, not a list".to_owned()),
        (
            ("content-type", "text/plain"),
            review("{}"),
            415,
            "accepted media types include: application/json, application/yaml".to_owned(),
        ),
        (json, String::new(), 400, format!("{cannot}one document is expected, not 0")),
        (json, "{".to_owned(), 400, cannot.to_owned()),
        (json, "{}{}".to_owned(), 400, format!("{cannot}one document is expected, not several")),
        (
            json,
            review(&format!("{{\"pod\":{{\"a\":[{}0]}}}}", "{\"\":0},".repeat(30_000))),
            400,
            format!("{cannot}line 1: the values take more than 16777216 bytes of memory"),
        ),
        (
            ("content-type", "application/yaml"),
            format!("spec: {{pod: {{a: [{}]}}}}", ",".repeat(65_536)),
            400,
            format!(
                "{cannot}line 1: the document has more than 65536 of the characters []{{}},:?&*!\"'#%; send it as JSON"
            ),
        ),
        (
            json,
            review(&format!("{{\"whatIf\":{{\"taints\":[{}{{}}]}}}}", "{},".repeat(20_000))),
            422,
            "spec.whatIf.taints[0].node: Required value".to_owned(),
        ),
        (json, format!("{{{version},\"spec\":{{}},\"spec\":{{}}}}"), 400, "spec".to_owned()),
        (
            json,
            r#"{"apiVersion":"v1","kind":"PlacementReview"}"#.to_owned(),
            400,
            "the API version in the data (v1) does not match the expected API version (view.fieldcache.dev/v1alpha1)"
                .to_owned(),
        ),
        (json, r#"{"kind":"Pod"}"#.to_owned(), 400, format!("{cannot}kind: Pod is not PlacementReview")),
        (
            json,
            review(r#"{"pods":{},"whatIf":{"taint":[]}}"#),
            400,
            format!("{cannot}strict decoding error: unknown field \"spec.pods\", unknown field \"spec.whatIf.taint\""),
        ),
        (
            json,
            review(r#"{"nodeNames":["a",7]}"#),
            400,
            format!("{cannot}spec.nodeNames[1]: expected a string, not a number"),
        ),
        (json, review(r#"{"pod":[]}"#), 400, format!("{cannot}spec.pod: expected an object, not a list")),
        (json, review("[]"), 400, format!("{cannot}spec: expected an object, not a list")),
        (json, format!("{{{version}}}"), 422, "spec: Required value".to_owned()),
        (json, review("{}"), 422, "exactly one of pod, template and podRef must be given".to_owned()),
        (
            json,
            review(r#"{"pod":{},"template":null,"podRef":{"name":"a"}}"#),
            422,
            "spec.podRef.namespace: Required value".to_owned(),
        ),
        (
            json,
            review(r#"{"pod":{"kind":"Deployment"}}"#),
            422,
            "spec.pod.kind: Unsupported value: \"Deployment\"".to_owned(),
        ),
        (
            json,
            review(r#"{"pod":{},"whatIf":{"taints":[{"node":"one","key":"a"}]}}"#),
            422,
            "spec.whatIf.taints[0].effect: Required value".to_owned(),
        ),
        (
            json,
            review(r#"{"pod":{},"whatIf":{"labels":[{"node":"three","key":"a"}]}}"#),
            422,
            "spec.whatIf.labels[0].node: Invalid value: \"three\": there is no node with that name".to_owned(),
        ),
        (
            json,
            review(r#"{"podRef":{"namespace":"default","name":"none"}}"#),
            404,
            "pods \"none\" not found".to_owned(),
        ),
        (
            json,
            review(&format!("{{\"pod\":{{\"a\":\"{}\"}}}}", "x".repeat(3 << 20))),
            413,
            "Request entity too large: limit is 3145728".to_owned(),
        ),
    ] {
        let answer = fixture.send(Method::POST, REVIEWS, &[header], &body).await;
        let shown = &body[..body.len().min(200)];
        assert_eq!(answer.code.as_u16(), code, "{shown}: {}", answer.body);
        assert!(answer.message().contains(&message), "{shown}: {}", answer.body);
        assert!(answer.body.len() < 100 << 10, "{shown}: {} bytes of answer", answer.body.len());
    }
}

#[tokio::test]
async fn a_status_in_the_request_is_replaced() {
    let fixture = Fixture::with(Settings::default());
    let expected = fixture.review(&review_document(&on_ssd())).await.json();
    let of_old = json!({"feasible": 7, "total": -1, "nodes": [{"name": "one", "fits": "no"}], "warnings": {}});
    let whole = json!({"feasible": 7, "total": 7, "message": "all", "nodes": [{"name": "one", "fits": true}]});
    for status in [json!(null), json!(7), json!("fits"), json!([]), json!({}), json!({"unknown": [1]}), of_old, whole] {
        let mut review = review_document(&on_ssd());
        review["status"] = status.clone();
        let answer = fixture.review(&review).await;
        assert_eq!((answer.code.as_u16(), answer.json()), (201, expected.clone()), "{status}");
    }
}

#[tokio::test]
async fn what_an_api_server_would_refuse_is_refused_with_paths_in_the_review() {
    let fixture = Fixture::with(Settings::default());
    let term = json!({"topologyKey": "zone", "matchLabelKeys": ["tenant"]});
    let affinity = json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
    let path = "affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].matchLabelKeys";
    let detail = "Forbidden: must not be specified when labelSelector is not set";
    let spec = with_containers(json!({"affinity": affinity, "tolerations": [{"operator": "Like", "key": "a"}]}));
    let answer = fixture.review(&review_document(&json!({"pod": {"spec": spec}}))).await;
    assert_eq!(answer.code.as_u16(), 422);
    let status = answer.json();
    let causes = status["details"]["causes"].as_array().unwrap();
    assert_eq!(causes.len(), 2, "{status}");
    assert_eq!(
        causes[0],
        json!({"reason": "FieldValueForbidden", "message": detail, "field": format!("spec.pod.spec.{path}")})
    );
    assert_eq!(
        (&status["reason"], &status["details"]["kind"], &status["details"]["group"]),
        (&json!("Invalid"), &json!("PlacementReview"), &json!("view.fieldcache.dev"))
    );
    let start = format!("PlacementReview.view.fieldcache.dev \"\" is invalid: [spec.pod.spec.{path}: {detail}, ");
    assert!(answer.message().starts_with(&start), "{}", answer.body);

    let template = json!({"spec": with_containers(json!({"affinity": affinity}))});
    let deployment = json!({"kind": "Deployment", "metadata": {"name": "a"}, "spec": {"template": template}});
    let answer = fixture.review(&review_document(&json!({"template": deployment}))).await;
    assert!(
        answer.message().contains(&format!("spec.template.spec.template.spec.{path}: {detail}")),
        "{}",
        answer.body
    );

    let with_class = json!({"pod": {"spec": with_containers(json!({"runtimeClassName": "fast"}))}});
    let warned = fixture.review(&review_document(&with_class)).await.json();
    assert!(
        warned["status"]["warnings"][0]
            .as_str()
            .is_some_and(|said| said.contains("runtimeclasses.node.k8s.io are not cached")),
        "{warned}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_missing_store_is_named_with_the_remedy() {
    let fixture =
        Fixture::empty(Settings { patience: Duration::ZERO, ..Settings::default() }, HistoryLimits::default());
    let answer = fixture.review(&review_document(&on_ssd())).await;
    assert_eq!((answer.code.as_u16(), answer.header("retry-after")), (429, "1"), "{}", answer.body);
    assert!(answer.message().starts_with("storage is (re)initializing: nodes: "), "{}", answer.body);

    fixture.registry.replace(catalog(&[&fixture.nodes, &fixture.namespaces]), |_| None);
    let answer = fixture.review(&review_document(&on_ssd())).await;
    assert_eq!(answer.code.as_u16(), 503);
    assert!(answer.message().contains("pods are not cached here: create a FieldCache named pods"), "{}", answer.body);

    let part = Arc::new(Resource {
        partial_store: Some(Arc::new(PartialStore::default())),
        ..(*fixture.pods.resource).clone()
    });
    let whole_stores = [&fixture.nodes, &fixture.namespaces].map(|stored| stored.resource.clone());
    let whole: Catalog = catalog(&[]);
    fixture
        .registry
        .replace(Catalog::new(whole.groups, whole_stores.into_iter().chain([part]), whole.version), |_| None);
    let answer = fixture.review(&review_document(&on_ssd())).await;
    assert!(answer.message().contains("caches only a part of them: remove its spec.scope"), "{}", answer.body);
}

/// Alice may do everything, bob may create reviews and get the pending Pod, eve may create reviews, carol may list
/// nodes besides.
pub(super) fn cluster() -> Arc<Cluster> {
    Cluster::new(|spec| {
        let attributes = &spec["resourceAttributes"];
        let text = |member: &str| attributes[member].as_str().unwrap_or_default();
        let what = [text("verb"), text("resource"), text("namespace"), text("name")].join(" ");
        matches!(
            (spec["user"].as_str().unwrap_or_default(), &*what),
            ("alice", _)
                | ("bob" | "carol" | "eve", "create placementreviews  ")
                | ("bob", "get pods default pending")
                | ("carol", "list nodes  ")
        )
    })
}

#[tokio::test]
async fn callers_that_may_not_list_nodes_and_pods_get_the_text_of_the_event() {
    let mut fixture = Fixture::with(Settings { access: Some(cluster().access()), ..Settings::default() });
    let pending = json!({"podRef": {"namespace": "default", "name": "pending"}});
    let other = json!({"podRef": {"namespace": "default", "name": "other"}});
    let mut premised = pending.clone();
    premised["whatIf"] = json!({"withoutPods": [{"namespace": "a", "name": "b"}]});
    let mut narrowed = pending.clone();
    narrowed["nodeNames"] = json!(["one"]);
    let nodes =
        "nodes is forbidden: User \"bob\" cannot list resource \"nodes\" in API group \"\" at the cluster scope";
    for (user, spec, code, message) in [
        ("alice", &pending, 201, ""),
        ("alice", &premised, 201, ""),
        ("alice", &other, 404, "pods \"other\" not found"),
        ("bob", &pending, 201, ""),
        ("bob", &other, 403, nodes),
        ("bob", &premised, 403, nodes),
        ("bob", &narrowed, 403, nodes),
        ("bob", &on_ssd(), 403, nodes),
        ("eve", &pending, 403, "User \"eve\" cannot list resource \"nodes\""),
        ("carol", &pending, 403, "User \"carol\" cannot list resource \"pods\""),
    ] {
        let token = format!("Bearer {user}");
        let headers = [("authorization", &*token), ("content-type", "application/json")];
        let answer = fixture.send(Method::POST, REVIEWS, &headers, &review_document(spec).to_string()).await;
        assert_eq!(answer.code.as_u16(), code, "{user} {spec}: {}", answer.body);
        assert!(answer.message().contains(message), "{user} {spec}: {}", answer.body);
    }
    let bob = [("authorization", "Bearer bob"), ("content-type", "application/json")];
    let review = fixture.send(Method::POST, REVIEWS, &bob, &review_document(&pending).to_string()).await.json();
    let members: Vec<&String> = review["status"].as_object().unwrap().keys().collect();
    assert_eq!(members, ["message", "notEvaluated"], "nothing else");
    assert_eq!(
        review["status"]["message"],
        "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector."
    );
    for (object, message) in [
        (
            json!({"nodeSelector": {"disktype": "ssd"}}),
            "the Pod fits a node by the rules that were evaluated, so it has no FailedScheduling event",
        ),
        (json!({"nodeName": "one"}), "the Pod is bound to one, so it has no FailedScheduling event"),
    ] {
        fixture.put("pods", json!({"metadata": {"name": "pending", "namespace": "default"}, "spec": object}));
        let review = fixture.send(Method::POST, REVIEWS, &bob, &review_document(&pending).to_string()).await.json();
        assert_eq!(review["status"]["message"], message);
    }
    // How far a load is counts the objects of all namespaces.
    fixture.pods.resource.state.publish(LoadState::Loading("4711 objects read".to_owned()));
    let path = format!("{REVIEWS}?timeout=20ms");
    for (user, names_stores) in [("alice", true), ("bob", false)] {
        let headers = [("authorization", &*format!("Bearer {user}")), ("content-type", "application/json")];
        let answer = fixture.send(Method::POST, &path, &headers, &review_document(&pending).to_string()).await;
        let expected = (429, names_stores);
        assert_eq!((answer.code.as_u16(), answer.body.contains("4711")), expected, "{user}: {}", answer.body);
    }
}

/// One thing that happens to a store.
#[derive(Clone, Debug)]
enum Step {
    Node(usize, Option<usize>),
    Pod(usize, Option<(usize, usize)>),
    Namespace(usize, Option<usize>),
    /// The store restarts, as after another cluster was found: its history too.
    Restart,
    /// A client sends a request.
    Review,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..4_usize, prop::option::of(0..3_usize)).prop_map(|(name, zone)| Step::Node(name, zone)),
        6 => (0..8_usize, prop::option::of((0..4_usize, 0..3_usize))).prop_map(|(name, how)| Step::Pod(name, how)),
        1 => (0..2_usize, prop::option::of(0..2_usize)).prop_map(|(name, team)| Step::Namespace(name, team)),
        1 => Just(Step::Restart),
        3 => any::<bool>().prop_map(|_| Step::Review),
    ]
}

fn take(fixture: &mut Fixture, step: &Step) {
    match *step {
        Step::Node(name, Some(zone)) => {
            let metadata = json!({"name": format!("n{name}"), "labels": {"zone": format!("z{zone}")}});
            fixture.put("nodes", json!({ "metadata": metadata }));
        }
        Step::Node(name, None) => fixture.delete("nodes", "", &format!("n{name}")),
        Step::Pod(name, Some((node, app))) => {
            let labels = json!({"app": format!("a{app}")});
            let term = json!({"labelSelector": {"matchLabels": {"app": "reviewed"}}, "topologyKey": "zone"});
            let affinity = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
            let mut spec = json!({"nodeName": format!("n{node}")});
            if app == 2 {
                spec["affinity"] = affinity;
            }
            let metadata = json!({"name": format!("p{name}"), "namespace": "default", "labels": labels});
            fixture.put("pods", json!({"metadata": metadata, "spec": spec}));
        }
        Step::Pod(name, None) => fixture.delete("pods", "default", &format!("p{name}")),
        Step::Namespace(name, Some(team)) => {
            let metadata = json!({"name": format!("s{name}"), "labels": {"team": format!("t{team}")}});
            fixture.put("namespaces", json!({ "metadata": metadata }));
        }
        Step::Namespace(name, None) => fixture.delete("namespaces", "", &format!("s{name}")),
        Step::Restart => {
            // Versions of this one go backwards.
            fixture.pods.store.replace(&[], Version::new(50));
            fixture.pods.publish();
        }
        Step::Review => {}
    }
}

async fn report(fixture: &Fixture, index: &PlacementIndex) -> String {
    let copies = PlacementStores::load(&fixture.registry.catalog(), Duration::ZERO).await.unwrap();
    let indexed = index.at(&copies).unwrap();
    let affinity = json!({"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 7, "podAffinityTerm": {"labelSelector": {"matchLabels": {"app": "a1"}}, "topologyKey": "zone"}},
    ]}});
    let pod = json!({"metadata": {"name": "new", "namespace": "default", "labels": {"app": "reviewed"}}, "spec": {"affinity": affinity}});
    let answer = indexed.cluster.review(&Pod::read(pod.to_string().as_bytes()).unwrap(), &Options::default());
    let mut nodes = answer.nodes(&[]);
    // Which of several pods is named depends on what was there before.
    for rejection in nodes.iter_mut().flat_map(|node| &mut node.rejections) {
        rejection.pod = rejection.pod.take().map(|_| "some".into());
    }
    let nodes = serde_json::to_string(&nodes).unwrap();
    format!("{:?} {:?} {nodes}", indexed.cluster.counts(), indexed.resource_versions)
}

proptest! {
    #[test]
    fn the_index_is_what_a_new_one_would_be(steps in prop::collection::vec(step(), 1..60), kept in 2..50_usize) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let limits = HistoryLimits { changes: kept, bytes: 1 << 20 };
            let mut fixture = Fixture::empty(Settings::default(), limits);
            for stored in [&mut fixture.nodes, &mut fixture.pods, &mut fixture.namespaces] {
                stored.store.replace(&[], Version::new(100));
                stored.publish();
            }
            let index = PlacementIndex::default();
            for step in &steps {
                take(&mut fixture, step);
                if matches!(step, Step::Review) {
                    prop_assert_eq!(report(&fixture, &index).await, report(&fixture, &PlacementIndex::default()).await);
                }
            }
            prop_assert_eq!(report(&fixture, &index).await, report(&fixture, &PlacementIndex::default()).await);
            Ok(())
        })?;
    }
}

#[tokio::test]
async fn an_unreadable_object_is_reported_and_its_previous_version_removed() {
    let mut fixture = Fixture::with(Settings::default());
    assert_eq!(fixture.review(&review_document(&on_ssd())).await.json()["status"]["total"], 2);
    fixture.put("nodes", json!({"metadata": {"name": "two"}, "spec": {"taints": 7}}));
    let status = fixture.review(&review_document(&on_ssd())).await.json()["status"].clone();
    assert_eq!(status["total"], 1, "{status}");
    assert!(
        status["warnings"][0].as_str().is_some_and(
            |said| said.starts_with("Node two is ignored, so the result can be wrong: cannot read the Node: ")
        ),
        "{status}"
    );
    fixture.put("nodes", json!({"metadata": {"name": "two"}}));
    let status = fixture.review(&review_document(&on_ssd())).await.json()["status"].clone();
    assert_eq!((&status["total"], status.get("warnings")), (&json!(2), None), "{status}");
}

/// Each of some thousand bytes takes ten times as much in the index, and a tenant can have any number of such Pods.
#[tokio::test]
async fn affinities_of_many_pods_have_a_bound_together_and_equal_ones_count_once() {
    let mut fixture = Fixture::with(Settings::default());
    let pod = |name: usize, affinity: usize| {
        let values: Vec<String> = (0..3_000).map(|value| format!("{affinity:05}-{value:05}")).collect();
        let term = json!({"topologyKey": "zone", "labelSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": values}]}});
        let affinity = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
        json!({"metadata": {"name": format!("p{name:04}"), "namespace": "default"}, "spec": {"affinity": affinity}})
    };
    let each = serde_json::to_vec(&pod(0, 0)["spec"]["affinity"]).unwrap().len();
    // A single namespace may take half.
    let fitting = MOST_LONG / 2 / each;
    let is_whole = async |fixture: &Fixture| {
        let status = fixture.review(&review_document(&on_ssd())).await.json()["status"].clone();
        !status["warnings"].to_string().contains(" is ignored, so the result can be wrong: cannot read the Pod")
    };
    for name in 0..fitting + 20 {
        fixture.put("pods", pod(name, 1));
    }
    assert!(is_whole(&fixture).await, "Pods of one template");
    for name in 0..fitting - 5 {
        fixture.put("pods", pod(name, name));
    }
    assert!(is_whole(&fixture).await, "{fitting} different ones of {each} bytes have room");
    for name in 0..fitting + 20 {
        fixture.put("pods", pod(name, name));
    }
    assert!(!is_whole(&fixture).await, "more do not");
}

#[tokio::test]
async fn long_affinity_has_a_bound_for_all_pods_together() {
    let mut fixture = Fixture::with(Settings::default());
    // Different in each Pod, so that nothing is shared.
    let pod = |name: usize, values: usize| {
        let values: Vec<String> = (0..values).map(|value| format!("{name}-{value}")).collect();
        json!({"metadata": {"name": format!("p{name:02}"), "namespace": "default"}, "spec": {"affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "disk", "operator": "In", "values": values}]},
            ]},
        }}}})
    };
    for name in 0..20 {
        fixture.put("pods", pod(name, 100_000));
    }
    let warnings = async |fixture: &Fixture| {
        let status = fixture.review(&review_document(&on_ssd())).await.json()["status"].clone();
        let warnings = status["warnings"].as_array().cloned().unwrap_or_default();
        warnings.iter().filter(|said| said.as_str().is_some_and(|said| said.starts_with("Pod default/p"))).count()
    };
    let left_out = warnings(&fixture).await;
    let each = serde_json::to_vec(&pod(0, 100_000)).unwrap().len();
    // A single namespace may take half.
    let fitting = MOST_LONG / 2 / each;
    assert!((20 - fitting).abs_diff(left_out) <= 1, "{left_out} of 20 Pods of {each} bytes are left out");
    for name in 0..20 {
        fixture.put("pods", pod(name, 10));
    }
    assert_eq!(warnings(&fixture).await, 0, "short ones have room again");
}

#[tokio::test(start_paused = true)]
async fn the_index_is_followed_until_there_are_no_reviews() {
    let mut fixture = Fixture::with(Settings::default());
    let index = fixture.server.placement_index();
    let following = index.clone().follow(fixture.registry.clone());
    tokio::pin!(following);
    assert!(!index.is_built(), "no review was sent");
    assert_eq!(fixture.registry.memory().held(), quantity::Bytes(0), "no store is counted here");
    report(&fixture, &index).await;
    assert!(fixture.registry.memory().held() > quantity::Bytes(1_000), "it is counted beside the stores");
    fixture.put("nodes", json!({"metadata": {"name": "three"}}));
    let version = fixture.version.to_string();
    let patience = Duration::from_secs(60);
    let reached = async {
        while index.followed_to().is_none_or(|[nodes, ..]| nodes != version) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::select! {
        _ = &mut following => {}
        done = tokio::time::timeout(patience, reached) => done.expect("it follows without a request"),
    }
    let forgotten = async {
        while index.is_built() {
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
    };
    tokio::select! {
        _ = &mut following => {}
        done = tokio::time::timeout(Duration::from_secs(3_600), forgotten) => done.expect("no more requests come"),
    }
    assert_eq!(fixture.registry.memory().held(), quantity::Bytes(0), "its memory is given back");
}

#[tokio::test]
async fn an_index_is_made_as_far_as_there_is_memory_for_it() {
    for (memory, expected) in [(1_000, 503), (1 << 20, 201)] {
        let fixture = Fixture::within(memory);
        let answer = fixture.review(&review_document(&on_ssd())).await;
        assert_eq!(answer.code, expected, "{memory} bytes: {}", answer.body);
        assert_eq!(fixture.server.placement_index().is_built(), expected == 201, "{memory} bytes");
    }
    let refused = Fixture::within(1_000).review(&review_document(&on_ssd())).await.json();
    assert_eq!(refused["details"]["causes"][0]["reason"], "MemoryLimit", "{refused}");
    let message = refused["message"].as_str().unwrap();
    for part in ["index of nodes, pods and namespaces, which exceeds the memory limit", "--memory-limit is 1000"] {
        assert!(message.contains(part), "{part:?} is missing: {message}");
    }
    assert!(!message.contains("this resource"), "it is about the index: {message}");
}

/// A tenant deletes its Pod of many terms, and the work for that must hang nobody.
#[tokio::test]
async fn tasks_of_the_runtime_do_not_wait_while_the_index_catches_up() {
    let mut fixture = Fixture::with(Settings::default());
    let index = PlacementIndex::default();
    for round in ["it is built", "it has caught up"] {
        let copies = PlacementStores::load(&fixture.registry.catalog(), Duration::ZERO).await.unwrap();
        index.read_updated(&copies, |_| assert!(!index.is_locked(), "{round}")).unwrap();
        assert!(index.is_built(), "{round}");
        fixture.put("nodes", json!({"metadata": {"name": "three"}}));
    }
}

#[tokio::test]
async fn a_pod_of_very_many_terms_is_left_out_with_a_warning() {
    let mut fixture = Fixture::with(Settings::default());
    let pod = |terms: usize| {
        let term = |index| json!({"labelSelector": {}, "topologyKey": format!("k{index}")});
        let terms: Vec<Value> = (0..terms).map(term).collect();
        let affinity = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}});
        json!({"metadata": {"name": "many", "namespace": "default"}, "spec": {"nodeName": "one", "affinity": affinity}})
    };
    for (terms, said) in [(1_024, false), (1_025, true), (1_024, false)] {
        fixture.put("pods", pod(terms));
        let status = fixture.review(&review_document(&on_ssd())).await.json()["status"].clone();
        let warning = "Pod default/many is ignored, so the result can be wrong: cannot read the Pod: it has 1025 pod affinity terms";
        assert_eq!(status["warnings"].to_string().contains(warning), said, "{terms}: {status}");
    }
}

#[tokio::test]
async fn a_review_ends_when_its_time_is_over_also_while_it_is_computed() {
    let fixture = Fixture::with(Settings::default());
    let path = format!("{REVIEWS}?timeout=1ns");
    let body = review_document(&on_ssd()).to_string();
    let answer = fixture.send(Method::POST, &path, &[("content-type", "application/json")], &body).await;
    assert_eq!(answer.code, 429, "{}", answer.body);
    assert!(answer.body.contains("placement reviews are in progress"), "{}", answer.body);
}
