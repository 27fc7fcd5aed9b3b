//! A cluster's documents, from a server that counts requests.

#![expect(clippy::disallowed_methods, reason = "the server of the tests has a task for each connection")]

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::registry::documents::DocumentSource;
use crate::source::connection::{ClusterOptions, Connection};
use crate::source::document_budget::{Budget, MOST_DOCUMENTS, MOST_MEMORY, MOST_MEMORY_V2, next_pause};
use crate::source::openapi::ClusterDocuments;

/// The responses of the server, and the requests that it received.
struct Api {
    /// v3 documents: the hash in the index, and the document; `None` is 503.
    v3: Mutex<BTreeMap<&'static str, (u32, Option<Value>)>>,
    v2: Mutex<Value>,
    requests: Mutex<Vec<String>>,
    /// A place is needed for each answer.
    places: Semaphore,
}

impl Api {
    /// The requests since the last time, in alphabetical order.
    fn requests(&self) -> Vec<String> {
        let mut requests = std::mem::take(&mut *self.requests.lock().unwrap());
        requests.sort();
        requests
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let path = request.uri().path().to_owned();
        let known = request.headers().get("if-none-match").map(|tag| tag.to_str().unwrap().to_owned());
        self.requests.lock().unwrap().push(format!("{path}{}", known.as_deref().unwrap_or_default()));
        self.places.acquire().await.unwrap().forget();
        self.places.add_permits(1);
        let found = match &*path {
            "/openapi/v2" => Some(self.v2.lock().unwrap().clone()),
            "/openapi/v3" => {
                let entries = self.v3.lock().unwrap();
                let entries = entries.iter().map(|(key, (hash, _))| {
                    (key.to_string(), json!({"serverRelativeURL": format!("/openapi/v3/{key}?hash={hash}")}))
                });
                Some(json!({"paths": entries.collect::<serde_json::Map<String, Value>>()}))
            }
            path => self.v3.lock().unwrap()[path.strip_prefix("/openapi/v3/").unwrap()].1.clone(),
        };
        let Some(found) = found else {
            return answer_of(StatusCode::SERVICE_UNAVAILABLE, "", Bytes::from("down"));
        };
        let tag = format!("\"{}\"", found["info"]["version"].as_str().unwrap_or_default());
        if known.as_deref() == Some(&*tag) {
            return answer_of(StatusCode::NOT_MODIFIED, &tag, Bytes::new());
        }
        answer_of(StatusCode::OK, &tag, Bytes::from(found.to_string()))
    }
}

fn answer_of(status: StatusCode, tag: &str, body: Bytes) -> Response<Full<Bytes>> {
    Response::builder().status(status).header("etag", tag).body(Full::new(body)).unwrap()
}

fn document(version: &str) -> Value {
    json!({"info": {"version": version}, "paths": {}})
}

async fn start() -> (Arc<Api>, Arc<ClusterDocuments>) {
    let api = Arc::new(Api {
        v3: Mutex::new(BTreeMap::from([
            ("api/v1", (1, Some(document("core")))),
            ("apis/metrics.k8s.io/v1", (1, Some(document("metrics")))),
        ])),
        v2: Mutex::new(document("first")),
        requests: Mutex::default(),
        places: Semaphore::new(1),
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = Some(format!("http://{}", listener.local_addr().unwrap()));
    let serving = api.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let api = serving.clone();
            let service = service_fn(move |request| {
                let api = api.clone();
                async move { Ok::<_, Infallible>(api.answer(request).await) }
            });
            tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });
    let connection = Connection::open(&ClusterOptions { server, ..ClusterOptions::default() }).await.unwrap();
    (api, Arc::new(ClusterDocuments::new(connection).believing(Duration::from_secs(3_600))))
}

fn source(documents: &ClusterDocuments) -> &dyn DocumentSource {
    documents
}

/// Forgets how long answers are believed, as a new catalog does.
async fn request_again(documents: &ClusterDocuments) {
    documents.serve(BTreeMap::new(), BTreeMap::new(), BTreeSet::new()).await;
}

fn version_of(json: &[u8]) -> Value {
    serde_json::from_slice::<Value>(json).unwrap()["info"]["version"].clone()
}

#[tokio::test]
async fn a_broken_document_takes_no_other_down() {
    let (api, documents) = start().await;
    let metrics = "apis/metrics.k8s.io/v1";
    let show = async || {
        let set = source(&documents).v3().await.unwrap();
        [metrics, "api/v1"].map(|key| set.v3(key).map(|forms| version_of(&forms.document().json)))
    };
    api.v3.lock().unwrap().insert(metrics, (1, None));
    assert_eq!(show().await, [None, Some(json!("core"))], "left out while nothing is known of it");
    api.v3.lock().unwrap().insert(metrics, (1, Some(document("metrics"))));
    request_again(&documents).await;
    assert_eq!(show().await, [Some(json!("metrics")), Some(json!("core"))], "it is back");
    api.v3.lock().unwrap().insert(metrics, (2, None));
    request_again(&documents).await;
    assert_eq!(show().await, [Some(json!("metrics")), Some(json!("core"))], "its last state");
    api.v3.lock().unwrap().remove(metrics);
    request_again(&documents).await;
    assert_eq!(show().await, [None, Some(json!("core"))], "gone from the index");
}

#[tokio::test]
async fn the_v2_document_is_requested_only_when_it_is_needed_and_sent_only_when_it_changed() {
    let (api, documents) = start().await;
    source(&documents).v3().await.unwrap();
    let v3 = ["/openapi/v3", "/openapi/v3/api/v1", "/openapi/v3/apis/metrics.k8s.io/v1"];
    assert_eq!(api.requests(), v3);
    let first = source(&documents).v2().await.unwrap();
    assert_eq!(api.requests(), ["/openapi/v2"]);
    source(&documents).v2().await.unwrap();
    source(&documents).v3().await.unwrap();
    assert_eq!(api.requests(), Vec::<String>::new(), "believed for a moment");
    request_again(&documents).await;
    let second = source(&documents).v2().await.unwrap();
    assert_eq!(api.requests(), ["/openapi/v2\"first\""]);
    assert!(Arc::ptr_eq(&first, &second), "not built again");
    source(&documents).v3().await.unwrap();
    assert_eq!(api.requests(), ["/openapi/v3"], "documents with the same hash are kept");
    *api.v2.lock().unwrap() = document("second");
    request_again(&documents).await;
    let third = source(&documents).v2().await.unwrap();
    assert_eq!(version_of(&third.document().json), "second");
}

#[tokio::test]
async fn documents_without_number_and_end_are_bounded_together() {
    let (api, documents) = start().await;
    let long = |version: &str| {
        let mut long = document(version);
        long["info"]["description"] = json!("x".repeat(60 << 20));
        long
    };
    let aggregated = ["apis/a.example.com/v1", "apis/b.example.com/v1", "apis/c.example.com/v1"];
    for key in aggregated {
        api.v3.lock().unwrap().insert(key, (1, Some(long("aggregated"))));
    }
    let show = async || -> Vec<String> {
        let set = source(&documents).v3().await.unwrap();
        let keys = ["api/v1", "apis/metrics.k8s.io/v1"].into_iter().chain(aggregated);
        keys.filter(|key| set.v3(key).is_some()).map(str::to_owned).collect()
    };
    let shown = show().await;
    assert_eq!(
        shown,
        ["api/v1", "apis/metrics.k8s.io/v1", aggregated[0], aggregated[1]],
        "one of the longest is left out"
    );
    api.requests();
    request_again(&documents).await;
    assert_eq!(show().await, shown);
    assert_eq!(api.requests(), ["/openapi/v3"], "it is not requested again");
    api.v3.lock().unwrap().remove(aggregated[0]);
    request_again(&documents).await;
    show().await;
    request_again(&documents).await;
    assert_eq!(show().await.last().map(|key| &**key), Some(aggregated[2]), "there is room again");
}

#[tokio::test]
async fn documents_whose_values_would_take_much_memory_are_not_made() {
    let (api, documents) = start().await;
    let documents = Arc::into_inner(documents).unwrap().within(MOST_MEMORY >> 10, MOST_MEMORY_V2 >> 10);
    let dense = |objects: usize| {
        let mut document = document(&objects.to_string());
        document["x-dense"] = json!(vec![json!({"": 0}); objects]);
        document
    };
    api.v3.lock().unwrap().insert("apis/a.example.com/v1", (1, Some(dense(300))));
    *api.v2.lock().unwrap() = dense(600);
    let set = source(&documents).v3().await.unwrap();
    assert!(set.v3("api/v1").is_some() && set.v3("apis/a.example.com/v1").is_some());
    assert!(source(&documents).v2().await.is_ok());
    api.v3.lock().unwrap().insert("apis/a.example.com/v1", (2, Some(dense(400))));
    *api.v2.lock().unwrap() = dense(800);
    request_again(&documents).await;
    let set = source(&documents).v3().await.unwrap();
    assert!(set.v3("api/v1").is_some() && set.v3("apis/a.example.com/v1").is_none());
    let rejected = source(&documents).v2().await.map(|_| ()).unwrap_err();
    assert!(rejected.ends_with("/openapi/v2: its values would take more than 524288 bytes of memory"), "{rejected}");
}

#[test]
fn documents_of_built_in_kinds_are_left_out_last() {
    let mut budget = Budget::default();
    assert!(budget.add("apis/apps/v1", true, 90, 100).is_empty());
    assert!(budget.add("apis/a/v1", false, 10, 100).is_empty());
    assert_eq!(budget.add("apis/b/v1", false, 4, 100), ["apis/a/v1"], "the longest of the others");
    assert_eq!(budget.add("api/v1", true, 10, 100), ["apis/b/v1"]);
    assert_eq!(budget.add("apis/c/v1", false, 1, 100), ["apis/c/v1"], "itself");
    assert!(budget.add("apis/apps/v1", true, 50, 100).is_empty(), "another state of the same");
    assert!(budget.add("apis/c/v1", false, 40, 100).is_empty());
    budget.remove("apis/c/v1");
    assert_eq!(budget.add("apis/d/v1", false, 41, 100), ["apis/d/v1"]);
    let many: Vec<String> =
        (0..5_000).flat_map(|number| budget.add(&format!("apis/g{number}/v1"), false, 0, 100)).collect();
    assert_eq!(many.len(), 5_000 + 2 - MOST_DOCUMENTS, "their number is bounded too");
}

#[test]
fn a_repeatedly_late_document_is_requested_less_often() {
    let mut pauses = Vec::new();
    for _ in 0..7 {
        pauses.push(next_pause(pauses.last().copied()));
    }
    assert_eq!(pauses.iter().map(Duration::as_secs).collect::<Vec<u64>>(), [30, 60, 120, 240, 480, 600, 600]);
}

#[tokio::test]
async fn one_nested_definition_takes_no_document_away() {
    let (api, documents) = start().await;
    for depth in [100, 128, 300, 500] {
        let mut schema = json!({"type": "string"});
        for _ in 0..depth / 2 {
            schema = json!({"properties": {"a": schema}});
        }
        let definitions = json!({"Deep": schema, "Other": {"type": "string"}});
        *api.v2.lock().unwrap() =
            json!({"info": {"version": depth.to_string()}, "paths": {}, "definitions": definitions});
        request_again(&documents).await;
        let forms = source(&documents).v2().await.unwrap();
        let json = forms.document().json.clone();
        let found = crate::json::tree::value(&json, 1_100).unwrap();
        assert_eq!(found["definitions"]["Other"]["type"], "string", "{depth}");
        assert_eq!(found["definitions"]["Deep"], definitions["Deep"], "{depth}");
        assert!(!forms.body(crate::registry::documents::DocumentEncoding::Protobuf).is_empty(), "{depth}");
    }
}

#[tokio::test]
async fn a_catalog_is_published_while_the_cluster_is_slow_and_the_answer_is_for_the_new_one() {
    let (api, documents) = start().await;
    let place = api.places.acquire().await.unwrap();
    let set_request = tokio::spawn({
        let documents = documents.clone();
        async move { source(&documents).v3().await.unwrap() }
    });
    while api.requests.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    let gone = BTreeSet::from(["api/v1".to_owned()]);
    let served =
        tokio::time::timeout(Duration::from_secs(5), documents.serve(BTreeMap::new(), BTreeMap::new(), gone)).await;
    assert!(served.is_ok(), "publishing does not wait for the cluster");
    drop(place);
    let set = set_request.await.unwrap();
    assert!(set.v3("api/v1").is_none() && set.v3("apis/metrics.k8s.io/v1").is_some(), "what went meanwhile is gone");
}

/// Requests of the server's workers are driven by the workers' runtime, and a watch must not be.
#[tokio::test]
async fn requests_of_other_threads_have_connections_of_their_own() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = Some(format!("http://{}", listener.local_addr().unwrap()));
    let accepted = Arc::new(Mutex::new(0));
    let counted = accepted.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            *counted.lock().unwrap() += 1;
            let service =
                service_fn(|_| async { Ok::<_, Infallible>(answer_of(StatusCode::OK, "\"a\"", Bytes::from("{}"))) });
            tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });
    let connection = Connection::open(&ClusterOptions { server, ..ClusterOptions::default() }).await.unwrap();
    let apart = connection.apart();
    for (connection_used, connections) in
        [(&connection, 1), (&connection.clone(), 1), (&apart, 2), (&apart, 2), (&connection, 2)]
    {
        connection_used.json("/openapi/v3", "application/json").await.unwrap();
        assert_eq!(*accepted.lock().unwrap(), connections);
    }
}
