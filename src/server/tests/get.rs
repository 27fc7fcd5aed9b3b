//! Single objects, subresources, refused verbs, paths that lead nowhere.

use http::Method;
use serde_json::json;

use super::{Fixture, SHIRTS};

const PODS: &str = "/api/v1/namespaces/a/pods";

#[tokio::test]
async fn an_object_is_its_stored_bytes_and_a_line_break() {
    let mut fixture = Fixture::new();
    fixture.put("default", "x", "blue");
    let bytes = fixture.shirts.store.snapshot().get("default/x").unwrap().json();
    let body = [&*bytes, b"\n"].concat();
    for path in [format!("{SHIRTS}/x"), format!("{SHIRTS}/x/status"), format!("{SHIRTS}/x?fieldSelector=bad")] {
        let answer = fixture.get(&path).await;
        assert_eq!((answer.code.as_u16(), answer.body.as_bytes()), (200, &*body), "{path}");
    }
    let head = fixture.whole(Method::HEAD, &format!("{SHIRTS}/x"), &[]).await;
    assert_eq!((&*head.body, head.header("content-length")), ("", &*body.len().to_string()));
}

#[tokio::test]
async fn built_in_objects_get_kind_and_version_in_front() {
    let mut fixture = Fixture::new();
    fixture.put_pod("default", "p");
    let answer = fixture.get("/api/v1/namespaces/default/pods/p").await;
    assert!(
        answer.body.starts_with("{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"p\""),
        "{}",
        answer.body
    );
    assert_eq!(answer.json()["status"]["phase"], "Running");
    let log = fixture.get("/api/v1/namespaces/default/pods/p/log").await;
    assert_eq!((log.code.as_u16(), &*log.message()), (405, "get is not supported on resources of kind \"pods/log\""));
}

#[tokio::test]
async fn an_empty_namespace_means_all_namespaces() {
    let mut fixture = Fixture::new();
    fixture.put("a", "x", "blue");
    fixture.put("b", "y", "red");
    fixture.put_pod("a", "p");
    let list = |path: &str, query: &str| format!("{path}{query}");
    for (path, query, names) in [
        ("/apis/stable.example.com/v1/namespaces//shirts", "", vec!["a/x", "b/y"]),
        ("/apis/stable.example.com/v1/namespaces//shirts/", "", vec!["a/x", "b/y"]),
        ("/apis/stable.example.com/v1/namespaces%2F%2Fshirts", "?fieldSelector=spec.color%3Dred", vec!["b/y"]),
        ("/apis/stable.example.com/v1/namespaces//hats", "", vec![]),
        ("/api/v1/namespaces//pods", "", vec!["a/p"]),
    ] {
        let answer = fixture.get(&list(path, query)).await;
        assert_eq!(
            (answer.code.as_u16(), answer.names()),
            (200, names.iter().map(|name| (*name).to_owned()).collect()),
            "{path}"
        );
    }
    for path in [
        "/apis/stable.example.com/v1/namespaces//shirts/x",
        "/apis/stable.example.com/v1//namespaces/a/shirts",
        "/apis/stable.example.com/v1/namespaces//status",
        "/apis/stable.example.com/v1/namespaces//",
        "/apis//v1/namespaces//shirts",
    ] {
        assert_eq!(fixture.get(path).await.code, 404, "{path}");
    }
}

#[tokio::test]
async fn what_is_not_there_is_not_found_in_upstreams_words() {
    let fixture = Fixture::new();
    let nope = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "shirts.stable.example.com \"nope\" not found", "reason": "NotFound",
        "details": {"name": "nope", "group": "stable.example.com", "kind": "shirts"}, "code": 404,
    });
    assert_eq!(fixture.get(&format!("{SHIRTS}/nope")).await.json(), nope);
    assert_eq!(fixture.get(&format!("{SHIRTS}/nope/frob")).await.json(), nope, "an unknown subresource likewise");
    let pod = fixture.get("/api/v1/namespaces/default/pods/nope").await.json();
    assert_eq!(pod["message"], "pods \"nope\" not found");
    assert_eq!(pod["details"], json!({"name": "nope", "kind": "pods"}));
    for (path, why) in [
        ("/apis/stable.example.com/v1/shirts/x", "a name without its namespace"),
        ("/apis/stable.example.com/v1/namespaces/default/hats", "a namespace without need"),
        ("/apis/stable.example.com/v1/namespaces/default/hats/x", "a namespace without need, single"),
        ("/apis/stable.example.com/v1/socks", "an unknown resource"),
        ("/apis/stable.example.com/v2/shirts", "an unknown version"),
        ("/apis/nowhere.example.com/v1/shirts", "an unknown group"),
        ("/apis/nowhere.example.com", "an unknown group alone"),
        ("/apis/stable.example.com/v2", "an unknown version alone"),
        ("/frob", "nothing"),
        ("/apis/stable.example.com//shirts", "an empty part"),
        ("/apis/stable.example.com/v1/shirts/%zz", "an escape that is none"),
        ("/openapi/v4", "no such document"),
    ] {
        let answer = fixture.get(path).await;
        assert_eq!((answer.code.as_u16(), &*answer.body), (404, "404 page not found\n"), "{why}");
        assert!(answer.header("content-type").starts_with("text/plain"), "{why}");
    }
    for path in ["/api/v1/socks", "/api/v1/pods/x", "/api/v2", "/api/v1/namespaces/default"] {
        let answer = fixture.get(path).await;
        let message = "the server could not find the requested resource";
        assert_eq!((answer.code.as_u16(), &*answer.message()), (404, message), "{path}");
        assert_eq!(answer.json()["details"], json!({}), "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn versions_of_a_get() {
    let mut fixture = Fixture::new();
    fixture.put("default", "x", "blue");
    for (version, code) in [("", 200), ("0", 200), ("1", 200), ("101", 200), ("102", 504), ("abc", 500), ("-1", 500)] {
        let answer = fixture.get(&format!("{SHIRTS}/x?resourceVersion={version}")).await;
        assert_eq!(answer.code.as_u16(), code, "{version}: {}", answer.body);
    }
    let bad = fixture.get(&format!("{SHIRTS}/x?resourceVersion=abc")).await;
    let message = "resourceVersion: Invalid value: \"abc\": strconv.ParseUint: parsing \"abc\": invalid syntax";
    assert_eq!((&*bad.message(), bad.json().get("reason")), (message, None));
}

#[tokio::test]
async fn writes_are_refused_by_verb() {
    let fixture = Fixture::new();
    let object = format!("{SHIRTS}/x");
    for (method, path, verb) in [
        (Method::POST, SHIRTS, "create"),
        (Method::PUT, &*object, "update"),
        (Method::PATCH, &*object, "patch"),
        (Method::DELETE, &*object, "delete"),
        (Method::DELETE, SHIRTS, "deletecollection"),
        (Method::OPTIONS, SHIRTS, ""),
    ] {
        let answer = fixture.whole(method, path, &[]).await;
        let message = format!("{verb} is not supported on resources of kind \"shirts.stable.example.com\"");
        assert_eq!((answer.code.as_u16(), answer.message()), (405, message));
        assert_eq!(answer.json()["reason"], "MethodNotAllowed");
        assert_eq!(answer.json()["details"], json!({"group": "stable.example.com", "kind": "shirts"}));
    }
}

#[tokio::test]
async fn methods_that_do_not_read_are_answered_as_the_path_is_routed_upstream() {
    let fixture = Fixture::new();
    let object = format!("{SHIRTS}/x");
    for (method, path, code, why) in [
        (Method::HEAD, SHIRTS, 200, "custom resources know HEAD"),
        (Method::HEAD, PODS, 405, "routes do not"),
        (Method::OPTIONS, PODS, 405, "nor anything else"),
        (Method::POST, "/api/v1", 405, "a route"),
        (Method::HEAD, "/version", 405, "a route"),
        (Method::POST, "/api/v7", 404, "no route at all"),
        (Method::POST, "/apis", 200, "a handler that does not look at the method"),
        (Method::OPTIONS, "/healthz", 200, "another one"),
        (Method::POST, "/apis/stable.example.com/v1", 200, "another one"),
        (Method::POST, "/apis/stable.example.com/v1/shirts", 404, "nothing is created in all namespaces"),
        (Method::PUT, &*format!("{object}/sleeves"), 404, "an unknown subresource"),
        (Method::PUT, &*format!("{object}/status"), 405, "a known one"),
    ] {
        let answer = fixture.whole(method.clone(), path, &[]).await;
        assert_eq!(answer.code.as_u16(), code, "{method} {path}: {why}");
    }
}

#[tokio::test]
async fn names_that_can_be_none_are_refused() {
    let fixture = Fixture::new();
    for (name, problem) in [
        ("%2E", "\".\": may not be '.'"),
        ("%2E%2E", "\"..\": may not be '..'"),
        ("x%25", "\"x%\": may not contain '%'"),
    ] {
        let answer = fixture.get(&format!("{SHIRTS}/{name}")).await;
        let message = format!("Name parameter invalid: {problem}");
        assert_eq!((answer.code.as_u16(), answer.message()), (400, message), "{name}");
    }
}
