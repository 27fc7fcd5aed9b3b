//! What is requested from a server that is no fieldcache: it ignores query parameters that it does not know.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::header::{ACCEPT, RETRY_AFTER};
use http::{Request, Response, StatusCode};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tower::service_fn;

use super::super::{Query, Streams};
use super::{Answer, parsed};
use crate::cli::exit::Exit;
use crate::source::connection::Connection;

/// The requests that a server received: path and query.
type Received = Arc<Mutex<Vec<String>>>;

/// The discovery of a server with Pods.
fn discovery(path: &str) -> Value {
    let pods = json!({
        "resource": "pods", "responseKind": {"group": "", "version": "", "kind": "Pod"}, "scope": "Namespaced",
        "singularResource": "pod", "verbs": ["get", "list", "watch"], "shortNames": ["po"],
    });
    let group = json!({"metadata": {"name": ""}, "versions": [{"version": "v1", "resources": [pods]}]});
    let items = if path == "/api" { vec![group] } else { Vec::new() };
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": items})
}

/// A response of a server with three Pods that answers as kube-apiserver does.
fn kube_apiserver(uri: &http::Uri, accept: &str) -> (StatusCode, Value) {
    if uri.path() != "/api/v1/pods" {
        return (StatusCode::OK, discovery(uri.path()));
    }
    if accept.contains("as=Facets") && !accept.contains(',') {
        let message = "the request is not acceptable: only the following media types are accepted: application/json";
        return (StatusCode::NOT_ACCEPTABLE, json!({"kind": "Status", "message": message, "code": 406}));
    }
    let item = |name: &str| json!({"metadata": {"name": name, "namespace": "a", "managedFields": [{}]}});
    let query = uri.query().unwrap_or_default();
    let (items, metadata) = match query.contains("limit=1") && !query.contains("limit=10") {
        // With selectors, there is no remainingItemCount.
        true => (vec![item("one")], json!({"continue": "next", "remainingItemCount": 2})),
        false => (["one", "two", "three"].map(item).to_vec(), json!({})),
    };
    (StatusCode::OK, json!({"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": items}))
}

/// Runs the command at a server. Returns what it printed, and the lists that it requested.
async fn at(
    server: impl Fn(&http::Uri, &str) -> (StatusCode, Value) + Clone + Send + 'static,
    arguments: &[&str],
) -> (Answer, Vec<String>) {
    let received = Received::default();
    let notes = received.clone();
    let service = service_fn(move |request: Request<Body>| {
        let accept = request.headers().get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        if request.uri().path().starts_with("/api/v1/") {
            notes.lock().unwrap().push(request.uri().to_string());
        }
        let (status, body) = server(request.uri(), accept);
        let response = Response::builder().status(status).header(RETRY_AFTER, "0");
        std::future::ready(Ok::<_, Infallible>(response.body(Body::from(body.to_string().into_bytes())).unwrap()))
    });
    let connection = Connection::over(Client::new(service, "default"), "https://h:6443".to_owned());
    let arguments = parsed(&[&["pods", "-A"], arguments, &["--server", "https://h:6443"]].concat()).unwrap();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut streams = Streams { out: &mut out, err: &mut err, width: None };
    let query = Query { arguments: &arguments, wanted: arguments.wanted().unwrap(), columns: None };
    let result = query.print(&connection, &mut streams).await;
    let answer = Answer { result, out: String::from_utf8(out).unwrap(), err: String::from_utf8(err).unwrap() };
    let received = received.lock().unwrap().clone();
    (answer, received)
}

#[tokio::test]
async fn a_server_that_would_ignore_an_option_is_not_asked_for_objects() {
    for (arguments, option) in [
        (&["--where", "self.spec.hostNetwork"][..], "--where"),
        (&["--sort-by", "spec.nodeName"], "--sort-by"),
        (&["--where", "true", "--sort-by", "spec.nodeName", "-o", "json"], "--where"),
        (&["--facets", "spec.nodeName"], "--facets"),
        (&["--count", "-l", "app=shop"], "selectors with --count"),
        (&["--count", "--where", "true"], "selectors with --count"),
    ] {
        let (answer, received) = at(kube_apiserver, arguments).await;
        let error = answer.error();
        let expected = format!("https://h:6443 does not support {option}, because it is not a fieldcache server");
        assert!(
            error.starts_with(&expected) && error.contains("give the URL of a fieldcache server with --server"),
            "{arguments:?}: {error}"
        );
        assert_eq!((&*answer.out, received.len()), ("", 1), "{arguments:?}: only Facets are requested: {received:?}");
    }
}

#[tokio::test]
async fn plain_requests_work_at_every_server() {
    let (answer, received) = at(kube_apiserver, &["-o", "name", "-l", "a in (b)"]).await;
    assert_eq!((&*answer.out, answer.exit()), ("pod/one\npod/two\npod/three\n", Exit::Done));
    assert_eq!(received, ["/api/v1/pods?labelSelector=a%20in%20%28b%29&limit=500"]);
    let (answer, _) = at(kube_apiserver, &["-o", "json"]).await;
    let list: Value = serde_json::from_str(&answer.out).unwrap();
    let expected = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one", "namespace": "a"}});
    assert_eq!(list["items"][0], expected, "complete, and without managed fields that the server did not drop");
    let (answer, _) = at(kube_apiserver, &["-o", "json", "--show-managed-fields"]).await;
    assert!(answer.out.contains("managedFields"), "{}", answer.out);
    let (answer, received) = at(kube_apiserver, &["--count"]).await;
    assert_eq!((&*answer.out, answer.exit()), ("3\n", Exit::Done), "counted by remainingItemCount: {received:?}");
    let (answer, _) = at(kube_apiserver, &[]).await;
    assert!(answer.error().contains("https://h:6443 returned no Table: use -o name"), "not every server has Tables");
}

#[tokio::test]
async fn a_server_that_loads_the_resource_is_asked_again() {
    let attempts = Arc::new(Mutex::new(0));
    let counted = attempts.clone();
    let loading = move |uri: &http::Uri, accept: &str| {
        let mut attempts = counted.lock().unwrap();
        *attempts += usize::from(uri.path() == "/api/v1/pods");
        match *attempts {
            1 | 2 => (StatusCode::TOO_MANY_REQUESTS, json!({"kind": "Status", "message": "loading", "code": 429})),
            _ => kube_apiserver(uri, accept),
        }
    };
    let (answer, received) = at(loading, &["-o", "name"]).await;
    assert_eq!((answer.exit(), received.len()), (Exit::Done, 3));
    let busy = |uri: &http::Uri, accept: &str| match uri.path() {
        "/api/v1/pods" => (StatusCode::TOO_MANY_REQUESTS, json!({"kind": "Status", "message": "busy", "code": 429})),
        _ => kube_apiserver(uri, accept),
    };
    let (answer, received) = at(busy, &["-o", "name"]).await;
    assert_eq!((answer.error(), received.len()), ("https://h:6443 returned 429: busy".to_owned(), 10));
}
