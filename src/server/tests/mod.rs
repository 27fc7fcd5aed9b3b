//! The server through `Server::answer`, without sockets; `listen` and `tls` alone open some.
//!
//! [`Fixture`] is a registry of shirts (custom, namespaced), hats (custom, cluster-scoped) and pods (built-in) whose
//! stores a test changes by hand.

mod admission;
mod audited;
mod body;
mod cel;
mod compressed_watch;
mod delete_collection;
mod dependents;
mod disclosure;
mod discovery;
mod documentation;
mod dropped;
mod encode;
mod explain;
mod extra;
mod facets;
mod field_validation;
mod get;
mod guards;
mod indent;
mod kept;
mod limits;
mod list;
mod listen;
mod namespaces;
mod nested;
mod offered;
mod operators;
mod options;
mod pass_through;
mod permitted;
mod placement_review;
mod probes;
mod protobuf;
mod quiet;
mod rows;
mod samples;
mod self_review;
mod shards;
mod shared;
mod sorting;
mod strong;
mod table;
mod tally;
mod through;
mod tls;
mod unencodable;
mod watch;
mod websocket;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use super::{Server, Settings};
use crate::crd::Crd;
use crate::extract::Extractor;
use crate::model::{Gvr, Key, Scope, Version};
use crate::registry::{ApiGroup, Catalog, LoadState, Registry, Resource, ResourceOrigin, Subresource, VersionInfo};
use crate::store::{HistoryLimits, Store};
use crate::wire::body::Body;

const SHIRTS: &str = "/apis/stable.example.com/v1/namespaces/default/shirts";
const ALL_SHIRTS: &str = "/apis/stable.example.com/v1/shirts";

/// One resource with the store behind it.
struct Stored {
    resource: Arc<Resource>,
    store: Store,
}

struct Fixture {
    server: Arc<Server>,
    registry: Arc<Registry>,
    shirts: Stored,
    hats: Stored,
    pods: Stored,
    /// The newest version given out.
    version: u64,
}

/// What came back.
struct Answer {
    code: StatusCode,
    headers: HeaderMap,
    body: String,
}

impl Answer {
    #[track_caller]
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// The header of `?explain=true` without the time that it took, which is no fact of a test, and without the tree.
    #[track_caller]
    fn explanation(&self) -> Value {
        let mut explanation: Value = serde_json::from_str(self.header("fieldcache-explain")).unwrap();
        assert!(explanation["microseconds"].is_u64(), "{explanation}");
        for other in ["microseconds", "tree"] {
            explanation.as_object_mut().unwrap().remove(other).unwrap();
        }
        explanation
    }

    /// The tree in the header of `?explain=true`.
    #[track_caller]
    fn plan_tree(&self) -> Value {
        serde_json::from_str::<Value>(self.header("fieldcache-explain")).unwrap()["tree"].take()
    }

    fn message(&self) -> String {
        self.json()["message"].as_str().unwrap_or_default().to_owned()
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// namespace/name of all items.
    #[track_caller]
    fn names(&self) -> Vec<String> {
        self.json()["items"].as_array().expect(&self.body).iter().map(name_of).collect()
    }
}

fn name_of(object: &Value) -> String {
    let metadata = &object["metadata"];
    let name = metadata["name"].as_str().unwrap_or_default();
    metadata["namespace"].as_str().map_or(name.to_owned(), |namespace| format!("{namespace}/{name}"))
}

fn crd(plural: &str, kind: &str, scope: &str) -> Crd {
    Crd::read(&json!({
        "metadata": {"name": format!("{plural}.stable.example.com")},
        "spec": {
            "group": "stable.example.com", "scope": scope,
            "names": {"plural": plural, "kind": kind, "shortNames": ["st"], "categories": ["all"]},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {
                    "color": {"type": "string"}, "size": {"type": "integer"}}}}}},
                "selectableFields": [{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.size"}],
                "additionalPrinterColumns": [
                    {"name": "Color", "type": "string", "jsonPath": ".spec.color"},
                    {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "priority": 1},
                    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                ],
            }],
        },
    }))
    .unwrap()
}

fn custom(plural: &str, kind: &str, scope: Scope, deprecated: bool) -> Resource {
    let crd = crd(plural, kind, if scope == Scope::Namespaced { "Namespaced" } else { "Cluster" });
    Resource {
        gvr: crd.gvr("v1"),
        kind: kind.to_owned(),
        list_kind: format!("{kind}List"),
        singular: kind.to_lowercase(),
        scope,
        short_names: crd.names.short_names.clone(),
        categories: crd.names.categories.clone(),
        subresources: [Subresource { name: "status".to_owned(), kind: kind.to_owned(), group_version: None }].into(),
        storage_version_hash: "hash=".to_owned(),
        origin: ResourceOrigin::Custom,
        printer_columns: if deprecated { Arc::new([]) } else { crd.versions[0].printer_columns.clone().into() },
        deprecation_warning: deprecated.then(|| "stable.example.com/v1 Hat is deprecated".to_owned()),
        definition: String::new(),
        extractor: Extractor::custom_resource(&crd, "v1"),
        state: Arc::default(),
        partial_store: None,
        view_restriction: None,
        dropped: Default::default(),
    }
}

fn pods() -> Resource {
    Resource {
        gvr: Gvr::new("", "v1", "pods"),
        kind: "Pod".to_owned(),
        list_kind: "PodList".to_owned(),
        singular: "pod".to_owned(),
        scope: Scope::Namespaced,
        short_names: ["po".to_owned()].into(),
        categories: ["all".to_owned()].into(),
        subresources: ["log", "status"]
            .map(|name| Subresource { name: name.to_owned(), kind: "Pod".to_owned(), group_version: None })
            .into(),
        storage_version_hash: String::new(),
        origin: ResourceOrigin::BuiltIn,
        printer_columns: Arc::new([]),
        deprecation_warning: None,
        definition: String::new(),
        extractor: crate::builtin::extractor("", "v1", "Pod"),
        state: Arc::default(),
        partial_store: None,
        view_restriction: None,
        dropped: Default::default(),
    }
}

impl Stored {
    fn new(resource: Resource, limits: HistoryLimits) -> Stored {
        let store = Store::new(limits).with_integers(resource.extractor.integers().collect());
        Stored { resource: Arc::new(resource), store }
    }

    fn publish(&self) {
        self.resource.state.publish(LoadState::Ready(self.store.snapshot()));
    }
}

fn catalog(resources: &[&Stored]) -> Catalog {
    let groups = vec![
        ApiGroup { name: String::new(), versions: vec!["v1".to_owned()] },
        ApiGroup { name: "stable.example.com".to_owned(), versions: vec!["v1".to_owned()] },
    ];
    let version = VersionInfo { body: json!({"major": "1", "minor": "36"}) };
    Catalog::new(groups, resources.iter().map(|stored| stored.resource.clone()), version)
}

impl Fixture {
    /// Three stores that are empty at version 100.
    fn new() -> Fixture {
        Fixture::with(Settings::default(), HistoryLimits::default())
    }

    fn with(settings: Settings, limits: HistoryLimits) -> Fixture {
        let mut fixture = Fixture::loading(settings, limits);
        for stored in [&mut fixture.shirts, &mut fixture.hats, &mut fixture.pods] {
            stored.store.replace(&[], Version::new(100));
            stored.publish();
        }
        fixture
    }

    /// Three resources whose data has not been read.
    fn loading(settings: Settings, limits: HistoryLimits) -> Fixture {
        let shirts = Stored::new(custom("shirts", "Shirt", Scope::Namespaced, false), limits);
        let hats = Stored::new(custom("hats", "Hat", Scope::Cluster, true), limits);
        let pods = Stored::new(pods(), limits);
        let registry = Arc::new(Registry::new(catalog(&[&shirts, &hats, &pods])));
        let start = tokio::time::Instant::now();
        // It goes with the paused time of a test.
        let clock = Arc::new(move || {
            let ten_past: jiff::Timestamp = "2026-01-01T00:10:00Z".parse().unwrap();
            ten_past + start.elapsed()
        });
        let server = Arc::new(Server::new(registry.clone(), Settings { clock, ..settings }));
        Fixture { server, registry, shirts, hats, pods, version: 100 }
    }

    /// Nine shirts whose order distinguishes joined keys from pairs.
    fn with_shirts(settings: Settings) -> Fixture {
        let mut fixture = Fixture::with(settings, HistoryLimits::default());
        for namespace in ["a", "a-b", "ab"] {
            for (name, color) in [("x", "blue"), ("x-y", "green"), ("x.y", "blue")] {
                fixture.put(namespace, name, color);
            }
        }
        fixture
    }

    fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    /// Puts a shirt whose label `tone` is its color too.
    fn put(&mut self, namespace: &str, name: &str, color: &str) -> u64 {
        self.put_without_publishing(namespace, name, color);
        self.shirts.publish();
        self.version
    }

    fn put_without_publishing(&mut self, namespace: &str, name: &str, color: &str) {
        let version = self.next_version();
        let text = format!(
            "{{\"apiVersion\":\"stable.example.com/v1\",\"kind\":\"Shirt\",\"metadata\":{{\"creationTimestamp\":\
             \"2026-01-01T00:00:00Z\",\"labels\":{{\"tone\":\"{color}\"}},\"name\":\"{name}\",\"namespace\":\
             \"{namespace}\",\"resourceVersion\":\"{version}\"}},\"spec\":{{\"color\":\"{color}\",\"size\":7}}}}"
        );
        let record = self.shirts.resource.extractor.extract(Bytes::from(text)).unwrap();
        self.shirts.store.apply(&record);
    }

    fn delete(&mut self, namespace: &str, name: &str) -> u64 {
        let version = self.next_version();
        self.shirts.store.delete(&Key::new(namespace, name), Version::new(version));
        self.shirts.publish();
        version
    }

    fn put_hat(&mut self, name: &str) -> u64 {
        let version = self.next_version();
        let text = format!(
            "{{\"apiVersion\":\"stable.example.com/v1\",\"kind\":\"Hat\",\"metadata\":{{\"name\":\"{name}\",\
             \"resourceVersion\":\"{version}\"}}}}"
        );
        let record = self.hats.resource.extractor.extract(Bytes::from(text)).unwrap();
        self.hats.store.apply(&record);
        self.hats.publish();
        version
    }

    fn put_pod(&mut self, namespace: &str, name: &str) -> u64 {
        let version = self.next_version();
        let text = format!(
            "{{\"metadata\":{{\"name\":\"{name}\",\"namespace\":\"{namespace}\",\"resourceVersion\":\"{version}\",\
             \"creationTimestamp\":\"2026-01-01T00:00:00Z\"}},\"spec\":{{\"nodeName\":\"n1\"}},\
             \"status\":{{\"phase\":\"Running\"}}}}"
        );
        let record = self.pods.resource.extractor.extract(Bytes::from(text)).unwrap();
        self.pods.store.apply(&record);
        self.pods.publish();
        version
    }

    async fn send(&self, method: Method, path: &str, headers: &[(&str, &str)]) -> Response<Body> {
        let mut request = Request::builder().method(method).uri(path).header("host", "127.0.0.1:8181");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.server.answer(request.body(String::new()).unwrap()).await
    }

    async fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.whole(Method::GET, path, headers).await
    }

    async fn get(&self, path: &str) -> Answer {
        self.get_with(path, &[]).await
    }

    async fn whole(&self, method: Method, path: &str, headers: &[(&str, &str)]) -> Answer {
        let response = self.send(method, path, headers).await;
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        Answer { code: parts.status, headers: parts.headers, body: String::from_utf8_lossy(&bytes).into_owned() }
    }

    async fn watch(&self, path: &str) -> Watched {
        self.watch_with(path, &[]).await
    }

    #[track_caller]
    fn watch_with(&self, path: &str, headers: &[(&str, &str)]) -> impl Future<Output = Watched> {
        let answer = self.send(Method::GET, path, headers);
        async move {
            let response = answer.await;
            assert_eq!(response.status(), StatusCode::OK);
            Watched { body: response.into_body(), text: String::new() }
        }
    }
}

/// A watch in progress, read as a client would.
struct Watched {
    body: Body,
    text: String,
}

impl Watched {
    /// The next event; `None` at the end. Waits at most a (paused) day.
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some((line, rest)) = self.text.split_once('\n') {
                let event = serde_json::from_str(line).expect(line);
                self.text = rest.to_owned();
                return Some(event);
            }
            let frame = timeout(Duration::from_secs(86_400), self.body.frame()).await.expect("an event or the end");
            let Some(frame) = frame else {
                assert_eq!(self.text, "", "a body ends with a whole line");
                return None;
            };
            self.text += std::str::from_utf8(frame.unwrap().data_ref().unwrap()).unwrap();
        }
    }

    /// The next event as `TYPE namespace/name@version`.
    async fn line(&mut self) -> String {
        match self.next().await {
            None => "end".to_owned(),
            Some(event) => {
                let object = &event["object"];
                let version = object["metadata"]["resourceVersion"].as_str().unwrap_or_default();
                format!("{} {}@{version}", event["type"].as_str().unwrap(), name_of(object))
            }
        }
    }

    async fn lines(&mut self, count: usize) -> Vec<String> {
        let mut lines = Vec::new();
        for _ in 0..count {
            lines.push(self.line().await);
        }
        lines
    }

    /// Asserts that the watch ends now, not at its deadline.
    async fn expect_end(&mut self, why: &str) {
        let started = Instant::now();
        assert_eq!(self.line().await, "end", "{why}");
        assert_eq!(started.elapsed().as_millis(), 0, "{why}: at once");
    }

    /// Asserts that nothing comes within half a second of paused time.
    async fn expect_silence(&mut self) {
        self.expect_silence_for(Duration::from_millis(500)).await;
    }

    async fn expect_silence_for(&mut self, paused: Duration) {
        assert_eq!(self.text, "");
        let mut frame = std::pin::pin!(self.body.frame());
        let mut polls = 0;
        let counted = std::future::poll_fn(|context| {
            polls += 1;
            frame.as_mut().poll(context)
        });
        assert!(timeout(paused, counted).await.is_err(), "nothing should come");
        assert!(polls < 100, "a silent watch sleeps, but was woken {polls} times");
    }
}
