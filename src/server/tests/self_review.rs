//! What a caller requests about itself through a View: each response is compared with the request that it is about.

use std::collections::BTreeMap;

use http::{Method, Request};
use http_body_util::BodyExt;
use serde_json::{Value, json};

use super::protobuf::{assert_same, encoded};
use super::{Answer, Fixture};
use crate::access::tests::cluster::Cluster;
use crate::registry::views::{ViewDefinition, ViewPart, ViewRights};
use crate::registry::{DiscoveredGroup, OfferedResource, OfferedVersion, UpstreamDiscovery};
use crate::server::Settings;

const ACCESS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
const RULES: &str = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
const USER: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const JSON: &str = "application/json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// The permissions of the users:
///
/// - Alice may do everything.
/// - Bob may read shirts in the namespace a, send reviews, and read discovery below /apis/stable.example.com.
/// - Carol may use the View `own` and nothing else.
/// - Dora may get one shirt and send reviews.
fn may(spec: &Value) -> bool {
    let (about, path) = (&spec["resourceAttributes"], spec["nonResourceAttributes"]["path"].as_str());
    let is_review = about["resource"].as_str().is_some_and(|resource| resource.starts_with("selfsubject"));
    let reads = ["get", "list", "watch"].iter().any(|verb| about["verb"] == *verb);
    match spec["user"].as_str() {
        Some("alice") => true,
        Some("bob") => {
            is_review && about["verb"] == "create"
                || (about["resource"] == "shirts"
                    && about["namespace"] == "a"
                    && about["subresource"].is_null()
                    && reads)
                || path.is_some_and(|path| path.starts_with("/apis/stable.example.com"))
        }
        Some("carol") => about["verb"] == "use" && about["resource"] == "views" && about["name"] == "own",
        Some("dora") => is_review || about["resource"] == "shirts" && about["verb"] == "get" && about["name"] == "x",
        _ => false,
    }
}

fn fixture() -> Fixture {
    let mut fixture =
        Fixture::with_shirts(Settings { access: Some(Cluster::new(may).access()), ..Settings::default() });
    fixture.put_hat("x");
    let part = |resource: &str, namespaces: &[&str]| ViewPart {
        group: "stable.example.com".to_owned(),
        resource: resource.to_owned(),
        namespaces: namespaces.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>().into(),
        ..ViewPart::default()
    };
    let definition = |rights| ViewDefinition {
        parts: vec![part("shirts", &["a", "ab"]), part("hats", &[])],
        rights,
        ..ViewDefinition::default()
    };
    let views = [("callers", ViewRights::Caller), ("own", ViewRights::View)];
    let views = views.map(|(name, rights)| (name.to_owned(), Ok(definition(rights).into())));
    fixture.registry.replace_views(BTreeMap::from(views));
    fixture
}

fn within(view: &str, path: &str) -> String {
    format!("/apis/view.fieldcache.dev/v1alpha1/views/{view}/proxy{path}")
}

async fn send(fixture: &Fixture, user: &str, path: &str, media_type: &str, body: impl Into<Vec<u8>>) -> Answer {
    let mut request = Request::builder().method(Method::POST).uri(path).header("host", "127.0.0.1:8181");
    request = request.header("authorization", format!("Bearer {user}"));
    if !media_type.is_empty() {
        request = request.header("content-type", media_type);
    }
    let body = http_body_util::Full::new(bytes::Bytes::from(body.into()));
    let response = fixture.server.answer(request.body(body).unwrap()).await;
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    Answer { code: parts.status, headers: parts.headers, body: String::from_utf8_lossy(&bytes).into_owned() }
}

async fn review(fixture: &Fixture, user: &str, view: &str, spec: &Value) -> Answer {
    let body = json!({ "kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "spec": spec });
    send(fixture, user, &within(view, ACCESS), JSON, body.to_string()).await
}

/// Whether a request is permitted and served: of an object, also where it is missing.
async fn is_served(fixture: &Fixture, user: &str, method: Method, path: &str) -> bool {
    let bearer = format!("Bearer {user}");
    let response = fixture.send(method, path, &[("authorization", &*bearer)]).await;
    if response.status().as_u16() != 404 {
        return response.status().is_success();
    }
    let body = response.into_body().collect().await.unwrap().to_bytes();
    serde_json::from_slice::<Value>(&body).is_ok_and(|status| status["details"]["name"].is_string())
}

#[tokio::test]
async fn the_answer_about_a_resource_is_what_becomes_of_the_request() {
    let fixture = fixture();
    let (mut allowed, mut denied) = (0, 0);
    for user in ["alice", "bob", "carol", "dora"] {
        for view in ["callers", "own"] {
            // A user who may not send the review gets no result.
            let may_ask = send(&fixture, user, &within(view, USER), JSON, "{}").await.code == 201;
            let resources = [
                ("stable.example.com", "v1", "shirts", true),
                ("stable.example.com", "v2", "shirts", true),
                ("stable.example.com", "v1", "hats", false),
                ("stable.example.com", "v1", "socks", true),
                ("other.example.com", "v1", "shirts", true),
                ("", "v1", "pods", true),
                ("", "v1", "namespaces", false),
            ];
            for (group, version, resource, is_namespaced) in resources {
                for namespace in if is_namespaced { &["", "a", "ab", "elsewhere"][..] } else { &[""] } {
                    for (verb, name, below) in [
                        ("get", "x", ""),
                        ("get", "none", ""),
                        ("get", "x", "status"),
                        ("get", "x", "scale"),
                        ("list", "", ""),
                        ("watch", "", ""),
                        ("create", "", ""),
                        ("update", "x", ""),
                        ("patch", "x", ""),
                        ("delete", "x", ""),
                        ("deletecollection", "", ""),
                    ] {
                        // There is no such request.
                        if is_namespaced && namespace.is_empty() && !name.is_empty() {
                            continue;
                        }
                        let root = if group.is_empty() {
                            format!("/api/{version}")
                        } else {
                            format!("/apis/{group}/{version}")
                        };
                        let place =
                            if namespace.is_empty() { String::new() } else { format!("/namespaces/{namespace}") };
                        let part = |text: &str| if text.is_empty() { String::new() } else { format!("/{text}") };
                        let query = if verb == "watch" { "?watch=true&timeoutSeconds=1" } else { "" };
                        let path = format!("{root}{place}/{resource}{}{}{query}", part(name), part(below));
                        let method = match verb {
                            "create" => Method::POST,
                            "update" => Method::PUT,
                            "patch" => Method::PATCH,
                            "delete" | "deletecollection" => Method::DELETE,
                            _ => Method::GET,
                        };
                        // A missing subresource gets the same response as a missing object.
                        let served = below != "scale" && is_served(&fixture, user, method, &within(view, &path)).await;
                        let about = json!({
                            "verb": verb, "group": group, "version": version, "resource": resource,
                            "namespace": namespace, "name": name, "subresource": below,
                        });
                        let spec = json!({ "resourceAttributes": about });
                        let answer = review(&fixture, user, view, &spec).await;
                        if !may_ask {
                            assert_eq!(answer.code, 403, "{user} {view}: {}", answer.body);
                            continue;
                        }
                        assert_eq!(answer.code, 201, "{}", answer.body);
                        let status = answer.json()["status"].take();
                        assert_eq!(status["allowed"], served, "{user} {view} {verb} {path}: {status}");
                        *(if served { &mut allowed } else { &mut denied }) += 1;
                    }
                }
            }
        }
    }
    assert!(allowed > 60 && denied > 600, "both occur: {allowed} {denied}");
}

#[tokio::test]
async fn the_answer_about_a_path_is_what_becomes_of_the_request() {
    let fixture = fixture();
    for user in ["alice", "bob", "carol"] {
        for view in ["callers", "own"] {
            if send(&fixture, user, &within(view, USER), JSON, "{}").await.code != 201 {
                continue;
            }
            for path in [
                "/",
                "/api",
                "/api/v1",
                "/apis",
                "/apis/",
                "/apis/stable.example.com",
                "/apis/stable.example.com/v1",
                "/apis/stable.example.com/v2",
                "/apis/authorization.k8s.io",
                "/apis/authentication.k8s.io/v1",
                "/apis/view.fieldcache.dev",
                "/apis/apps",
                "/version",
                "/version/x",
                "/healthz",
                "/livez",
                "/readyz",
                "/readyz/ping",
                "/readyz/none",
                "/metrics",
                "/openapi/v2",
                "/openapi/v3",
                "/openapi/v3/api/v1",
                "/openapi",
                "//api",
                "/nowhere",
                "/apis/view.fieldcache.dev/v1alpha1/views/own/proxy/version",
            ] {
                for (verb, method) in [("get", Method::GET), ("post", Method::POST)] {
                    let served = is_served(&fixture, user, method, &within(view, path)).await;
                    let spec = json!({ "nonResourceAttributes": { "verb": verb, "path": path } });
                    let status = review(&fixture, user, view, &spec).await.json()["status"].take();
                    assert_eq!(status["allowed"], served, "{user} {view} {verb} {path}: {status}");
                }
            }
        }
    }
    for (verb, path) in
        [("GET", "/apis"), ("*", "/apis"), ("get", "*"), ("get", "/apis/*"), ("get", "apis"), ("", "/apis")]
    {
        let spec = json!({ "nonResourceAttributes": { "verb": verb, "path": path } });
        assert_eq!(review(&fixture, "alice", "own", &spec).await.json()["status"]["allowed"], false, "{verb} {path}");
    }
}

#[tokio::test]
async fn reviews_as_kubectl_sends_them() {
    let fixture = fixture();
    // Without a version, and with the namespace of the kubeconfig whatever the scope.
    for (user, view, verb, resource, namespace, allowed, reason) in [
        (
            "alice",
            "callers",
            "list",
            "shirts",
            "a",
            true,
            "the View callers serves the request, and the caller's own permissions allow it",
        ),
        (
            "carol",
            "own",
            "list",
            "shirts",
            "a",
            true,
            "the View own serves the request, and the caller may use the View",
        ),
        (
            "carol",
            "own",
            "list",
            "hats",
            "default",
            true,
            "the View own serves the request, and the caller may use the View",
        ),
        (
            "carol",
            "own",
            "delete",
            "shirts",
            "a",
            false,
            "the View own does not serve the verb delete for the resource shirts.stable.example.com",
        ),
        (
            "carol",
            "own",
            "*",
            "shirts",
            "a",
            false,
            "the View own does not serve the verb * for the resource shirts.stable.example.com",
        ),
        ("carol", "own", "list", "*", "a", false, "the View own does not serve the resource *.stable.example.com"),
        (
            "carol",
            "own",
            "list",
            "pods",
            "a",
            false,
            "the View own does not serve the resource pods.stable.example.com",
        ),
        // A user without read permission does not learn what the View serves.
        (
            "bob",
            "callers",
            "list",
            "hats",
            "a",
            false,
            "the View callers needs the caller's own permission, which is missing",
        ),
        (
            "bob",
            "callers",
            "list",
            "socks",
            "a",
            false,
            "the View callers needs the caller's own permission, which is missing",
        ),
        (
            "bob",
            "callers",
            "list",
            "shirts",
            "ab",
            false,
            "the View callers needs the caller's own permission, which is missing",
        ),
    ] {
        let spec = json!({ "resourceAttributes": {
            "verb": verb, "group": "stable.example.com", "resource": resource, "namespace": namespace } });
        let answer = review(&fixture, user, view, &spec).await.json();
        let expected = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "metadata": {}, "spec": spec,
            "status": { "allowed": allowed, "reason": reason },
        });
        assert_eq!(answer, expected, "{user} {view} {verb} {resource}");
    }
    let own = json!({ "resourceAttributes": { "verb": "create", "group": "authorization.k8s.io",
        "resource": "selfsubjectaccessreviews", "namespace": "default", "version": "*" } });
    assert_eq!(review(&fixture, "carol", "own", &own).await.json()["status"]["allowed"], true, "this one too");
}

#[tokio::test]
async fn rules_are_what_single_reviews_allow() {
    let fixture = fixture();
    let rules = async |user: &str, view: &str, namespace: &str| {
        let body = json!({ "spec": { "namespace": namespace } }).to_string();
        let answer = send(&fixture, user, &within(view, RULES), JSON, body).await;
        assert_eq!(answer.code, 201, "{}", answer.body);
        answer.json()["status"].take()
    };
    let rule = |verbs: &[&str], group: &str, resource: &str| json!({ "verbs": verbs, "apiGroups": [group], "resources": [resource] });
    let reads = ["get", "list", "watch"];
    let reviews = [
        rule(&["create"], "authentication.k8s.io", "selfsubjectreviews"),
        rule(&["create"], "authorization.k8s.io", "selfsubjectaccessreviews"),
        rule(&["create"], "authorization.k8s.io", "selfsubjectrulesreviews"),
    ];
    let stable = "stable.example.com";
    let all = [
        &[rule(&reads, stable, "hats"), rule(&["get"], stable, "hats/status")][..],
        &[rule(&reads, stable, "shirts"), rule(&["get"], stable, "shirts/status")],
        &reviews,
    ]
    .concat();
    let status = rules("carol", "own", "anywhere").await;
    assert_eq!((&status["resourceRules"], &status["incomplete"]), (&json!(all), &json!(false)), "{status}");
    let paths = &status["nonResourceRules"][0]["nonResourceURLs"];
    for path in [
        "/",
        "/api",
        "/apis",
        "/apis/stable.example.com/v1",
        "/openapi/v3/*",
        "/version",
        "/apis/authorization.k8s.io/v1",
    ] {
        assert!(paths.as_array().unwrap().contains(&json!(path)), "{path}: {paths}");
    }
    let status = rules("bob", "callers", "a").await;
    let own = [&[rule(&reads, stable, "shirts")][..], &reviews].concat();
    assert_eq!(status["resourceRules"], json!(own), "{status}");
    let named = "permissions for single object names are not listed";
    assert_eq!((&status["incomplete"], &status["evaluationError"]), (&json!(true), &json!(named)));
    let paths = json!([{ "verbs": ["get"], "nonResourceURLs":
        ["/apis/stable.example.com", "/apis/stable.example.com/v1", "/healthz", "/livez", "/readyz"] }]);
    assert_eq!(status["nonResourceRules"], paths);
    assert_eq!(rules("bob", "callers", "ab").await["resourceRules"], json!(reviews), "in another namespace");
    let none = send(&fixture, "carol", &within("own", RULES), JSON, "{}").await;
    assert_eq!((none.code.as_u16(), &*none.message()), (400, "no namespace on request"));
}

#[tokio::test(start_paused = true)]
async fn a_caller_gets_its_own_identity() {
    let fixture = fixture();
    let answer = send(&fixture, "carol", &within("own", USER), JSON, "{}").await;
    let expected = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview",
        "metadata": { "creationTimestamp": "2026-01-01T00:10:00Z" },
        "status": { "userInfo": { "username": "carol", "groups": ["system:authenticated"] } },
    });
    assert_eq!((answer.code.as_u16(), answer.json()), (201, expected));
    let nobody = fixture.whole(Method::POST, &within("own", USER), &[]).await;
    assert_eq!(nobody.code, 401);
    let beta = USER.replace("/v1/", "/v1beta1/");
    assert_eq!(
        send(&fixture, "carol", &within("own", &beta), JSON, "{}").await.code,
        404,
        "the cluster does not serve it"
    );
    let found = OfferedResource::new("selfsubjectreviews", &json!({}));
    let version = OfferedVersion { name: "v1beta1".to_owned(), is_stale: false, resources: vec![found] };
    let group = DiscoveredGroup { name: "authentication.k8s.io".to_owned(), versions: vec![version] };
    let offers = UpstreamDiscovery { groups: vec![group] };
    fixture.registry.replace(super::catalog(&[&fixture.shirts, &fixture.hats]).with_offers(offers), |_| None);
    let answer = send(&fixture, "carol", &within("own", &beta), JSON, "{}").await;
    assert_eq!((answer.code.as_u16(), &answer.json()["apiVersion"]), (201, &json!("authentication.k8s.io/v1beta1")));
}

/// What client-go's clientset accepts.
#[tokio::test]
async fn reviews_are_answered_in_protobuf_too() {
    let fixture = fixture();
    let spec = json!({ "resourceAttributes": { "verb": "list", "group": "stable.example.com", "resource": "shirts" } });
    for (path, body) in
        [(ACCESS, json!({ "spec": spec })), (RULES, json!({ "spec": { "namespace": "a" } })), (USER, json!({}))]
    {
        let path = within("own", path);
        let answered = async |accept: &str| {
            let request = Request::builder().method(Method::POST).uri(&path).header("host", "127.0.0.1:8181");
            let request = request.header("authorization", "Bearer carol").header("content-type", JSON);
            let body = http_body_util::Full::new(bytes::Bytes::from(body.to_string()));
            let response = fixture.server.answer(request.header("accept", accept).body(body).unwrap()).await;
            assert_eq!(response.status().as_u16(), 201, "{path} {accept}");
            let media_type = response.headers()["content-type"].to_str().unwrap().to_owned();
            (media_type, response.into_body().collect().await.unwrap().to_bytes())
        };
        let (_, json) = answered(JSON).await;
        for accept in [PROTOBUF, "application/vnd.kubernetes.protobuf,application/json"] {
            let (media_type, ours) = answered(accept).await;
            assert_eq!(media_type, PROTOBUF, "{path}");
            assert_same(&ours, &encoded(&json), &path);
        }
    }
}

/// A field of a protobuf message.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    [&[(number << 3) | 2, u8::try_from(content.len()).unwrap()][..], content].concat()
}

#[tokio::test]
async fn bodies_are_read_as_the_api_server_reads_them() {
    let fixture = fixture();
    let path = within("own", ACCESS);
    let about =
        [field(1, b"a"), field(2, b"list"), field(3, b"stable.example.com"), field(5, b"shirts"), field(7, b"")]
            .concat();
    let head = [field(1, b"authorization.k8s.io/v1"), field(2, b"SelfSubjectAccessReview")].concat();
    let raw = [field(1, &[]), field(2, &field(1, &about)), field(3, &[8, 0])].concat();
    let protobuf = [b"k8s\0".as_slice(), &field(1, &head), &field(2, &raw), &field(3, b"")].concat();
    let yaml = "spec:\n  resourceAttributes: {verb: list, group: stable.example.com, resource: shirts}\n";
    let object = r#"{"spec":{"resourceAttributes":{"verb":"list","group":"stable.example.com","resource":"shirts"}}}"#;
    let newer =
        r#"{"spec":{"new":1,"resourceAttributes":{"verb":"list","group":"stable.example.com","resource":"shirts"}}}"#;
    let long = format!(r#"{{"spec":{{"resourceAttributes":{{"verb":"{}"}}}}}}"#, "x".repeat(70_000));
    let rows: [(&str, &[u8], u16, &str); 18] = [
        (JSON, object.as_bytes(), 201, "JSON"),
        ("", object.as_bytes(), 201, "no media type"),
        ("application/yaml", yaml.as_bytes(), 201, "YAML"),
        (PROTOBUF, &protobuf, 201, "protobuf, as client-go sends it"),
        (PROTOBUF, &protobuf[..protobuf.len() - 3], 400, "protobuf that breaks off"),
        (PROTOBUF, object.as_bytes(), 400, "something else"),
        ("text/plain", object.as_bytes(), 415, "an unknown media type"),
        (JSON, b"", 400, "nothing"),
        (JSON, b"[]", 400, "a list"),
        (JSON, b"null", 400, "nothing at all"),
        (JSON, br#""text""#, 400, "a text"),
        (JSON, br#"{"kind":"SelfSubjectReview"}"#, 400, "another kind"),
        (JSON, br#"{"apiVersion":"authorization.k8s.io/v1beta1"}"#, 400, "another version"),
        (JSON, br#"{"spec":{"resourceAttributes":{"verb":7}}}"#, 400, "another type"),
        (JSON, br#"{"spec":{"resourceAttributes":{},"nonResourceAttributes":{}}}"#, 422, "both"),
        (JSON, br#"{"metadata":{"name":"x"},"spec":{"resourceAttributes":{}}}"#, 422, "a name"),
        (JSON, br#"{"spec":{"resourceAttributes":{"fieldSelector":{}}}}"#, 422, "an empty selector"),
        (JSON, long.as_bytes(), 413, "a long one"),
    ];
    for (media_type, body, code, what) in rows {
        let answer = send(&fixture, "carol", &path, media_type, body).await;
        assert_eq!(answer.code.as_u16(), code, "{what}: {}", answer.body);
        if code == 201 {
            assert_eq!(answer.json()["status"]["allowed"], true, "{what}: {}", answer.body);
        }
    }
    let warned = send(&fixture, "carol", &path, JSON, newer).await;
    assert_eq!((warned.code.as_u16(), warned.header("warning")), (201, r#"299 - "unknown field \"spec.new\"""#));
    let ignored = send(&fixture, "carol", &format!("{path}?fieldValidation=Ignore"), JSON, newer).await;
    assert_eq!((ignored.code.as_u16(), ignored.header("warning")), (201, ""));
    assert_eq!(send(&fixture, "carol", &format!("{path}?fieldValidation=Strict"), JSON, newer).await.code, 400);
    let invalid = send(&fixture, "carol", &path, JSON, "{}").await;
    let message = "SelfSubjectAccessReview.authorization.k8s.io \"\" is invalid: spec.resourceAttributes: Invalid value: null: \
                   exactly one of nonResourceAttributes or resourceAttributes must be specified";
    assert_eq!(invalid.message(), message);
    for (method, path, code) in [
        (Method::GET, path.clone(), 405),
        (Method::POST, format!("{path}/x"), 404),
        (Method::POST, within("none", ACCESS), 403),
        // Without a View nothing is served here, and nothing is forwarded.
        (Method::POST, ACCESS.to_owned(), 404),
    ] {
        let user = if path == ACCESS { "alice" } else { "carol" };
        let bearer = format!("Bearer {user}");
        assert_eq!(fixture.whole(method, &path, &[("authorization", &*bearer)]).await.code.as_u16(), code, "{path}");
    }
}

#[tokio::test]
async fn selectors_reach_the_authorizer_as_those_of_the_request() {
    fn may(spec: &Value) -> bool {
        let about = &spec["resourceAttributes"];
        let field = &about["fieldSelector"]["requirements"][0];
        let label = &about["labelSelector"]["requirements"][0];
        about["resource"] != "shirts"
            || (field["key"] == "spec.color" && field["values"][0] == "blue")
            || (label["key"] == "tone" && label["operator"] == "In")
    }
    let fixture = Fixture::with_shirts(Settings { access: Some(Cluster::new(may).access()), ..Settings::default() });
    let part =
        ViewPart { group: "stable.example.com".to_owned(), resource: "shirts".to_owned(), ..ViewPart::default() };
    let definition = ViewDefinition { parts: vec![part], ..ViewDefinition::default() };
    fixture.registry.replace_views(BTreeMap::from([("blue".to_owned(), Ok(definition.into()))]));
    let ignored = "the invalid parts of spec.resourceAttributes.fieldSelector are ignored";
    for (selectors, allowed, error) in [
        (json!({}), false, None),
        (json!({ "fieldSelector": { "rawSelector": "spec.color=blue" } }), true, None),
        (json!({ "fieldSelector": { "rawSelector": "spec.color=red" } }), false, None),
        (json!({ "fieldSelector": { "rawSelector": "spec.color" } }), false, Some(ignored)),
        (
            json!({ "fieldSelector": { "requirements": [{ "key": "spec.color", "operator": "In", "values": ["blue"] }] } }),
            true,
            None,
        ),
        (
            json!({ "fieldSelector": { "requirements": [{ "key": "spec.color", "operator": "Exists" }] } }),
            false,
            Some(ignored),
        ),
        (json!({ "labelSelector": { "rawSelector": "tone in (blue)" } }), true, None),
        (
            json!({ "labelSelector": { "requirements": [{ "key": "tone", "operator": "In", "values": ["blue"] }] } }),
            true,
            None,
        ),
        (json!({ "labelSelector": { "requirements": [{ "key": "tone", "operator": "Exists" }] } }), false, None),
    ] {
        let mut about = json!({ "verb": "list", "group": "stable.example.com", "resource": "shirts" });
        about.as_object_mut().unwrap().extend(selectors.as_object().unwrap().clone());
        let status =
            review(&fixture, "zoe", "blue", &json!({ "resourceAttributes": about })).await.json()["status"].take();
        assert_eq!(
            (status["allowed"].as_bool(), status["evaluationError"].as_str()),
            (Some(allowed), error),
            "{selectors}"
        );
    }
}

#[tokio::test]
async fn discovery_of_a_view_lists_them() {
    let fixture = fixture();
    let carol = [("authorization", "Bearer carol")];
    let groups = fixture.get_with(&within("own", "/apis"), &carol).await.json();
    let names: Vec<&str> =
        groups["groups"].as_array().unwrap().iter().filter_map(|group| group["name"].as_str()).collect();
    assert_eq!(names, ["stable.example.com", "authentication.k8s.io", "authorization.k8s.io"]);
    let rows = fixture.get_with(&within("own", "/apis/authorization.k8s.io/v1"), &carol).await.json();
    let row = |plural: &str, kind: &str| {
        json!({ "name": plural, "singularName": plural.trim_end_matches('s'), "namespaced": false,
        "kind": kind, "verbs": ["create"] })
    };
    let expected = [
        row("selfsubjectaccessreviews", "SelfSubjectAccessReview"),
        row("selfsubjectrulesreviews", "SelfSubjectRulesReview"),
    ];
    assert_eq!(rows["resources"], json!(expected), "{rows}");
    let root = fixture.get_with("/apis", &[("authorization", "Bearer alice")]).await;
    assert!(!root.body.contains("authorization.k8s.io"), "not at the root: {}", root.body);
}
