//! What goes on to the API server behind and what does not, what goes with it, and what comes back.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::future::BoxFuture;
use http::{HeaderMap, Method, Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{ALL_SHIRTS, Answer, Fixture, SHIRTS};
use crate::model::Version;
use crate::registry::LoadState;
use crate::registry::upstream::{Upstream, UpstreamBody};
use crate::server::Settings;
use crate::server::pass_through::PassThrough;
use crate::server::request_metrics::AnswerPath;
use crate::server::state::MOST_FORWARDED;
use crate::store::HistoryLimits;

/// Name and value.
type Header = (&'static str, &'static str);

/// What reached the API server.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    /// Method, path and query.
    pub(super) line: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

type Answering = dyn Fn(&Seen) -> Result<Response<UpstreamBody>, String> + Send + Sync;

/// An API server of the test's making.
pub(super) struct Behind {
    answering: Box<Answering>,
    seen: Mutex<Vec<Seen>>,
    takes: Duration,
    pub(super) given_up: Arc<AtomicUsize>,
}

impl fmt::Debug for Behind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Behind").finish_non_exhaustive()
    }
}

/// Counts when it is dropped before its time.
struct Counting(Option<Arc<AtomicUsize>>);

impl Drop for Counting {
    fn drop(&mut self) {
        if let Some(count) = &self.0 {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Upstream for Behind {
    fn send(&self, request: Request<UpstreamBody>) -> BoxFuture<'_, Result<Response<UpstreamBody>, String>> {
        Box::pin(async move {
            let mut counting = Counting(Some(self.given_up.clone()));
            let (parts, body) = request.into_parts();
            let body = body.collect().await.map_err(|error| error.to_string())?.to_bytes();
            let seen = Seen { line: format!("{} {}", parts.method, parts.uri), headers: parts.headers, body };
            tokio::time::sleep(self.takes).await;
            let answer = (self.answering)(&seen);
            self.seen.lock().unwrap().push(seen);
            counting.0 = None;
            answer
        })
    }
}

fn whole(text: impl Into<String>) -> UpstreamBody {
    UpstreamBody::new(Full::from(text.into()).map_err(|never| match never {}))
}

pub(super) fn answered(code: u16, body: &Value) -> Result<Response<UpstreamBody>, String> {
    let body = whole(body.to_string());
    Ok(Response::builder().status(code).header("content-type", "application/json").body(body).unwrap())
}

impl Behind {
    pub(super) fn new(
        answering: impl Fn(&Seen) -> Result<Response<UpstreamBody>, String> + Send + Sync + 'static,
    ) -> Arc<Behind> {
        Behind::slow(Duration::ZERO, answering)
    }

    pub(super) fn slow(
        takes: Duration,
        answering: impl Fn(&Seen) -> Result<Response<UpstreamBody>, String> + Send + Sync + 'static,
    ) -> Arc<Behind> {
        Arc::new(Behind { answering: Box::new(answering), seen: Mutex::default(), takes, given_up: Arc::default() })
    }

    /// One that says to everything that it was there.
    pub(super) fn teapot() -> Arc<Behind> {
        Behind::new(|_| answered(418, &json!({"kind": "Teapot"})))
    }

    pub(super) fn lines(&self) -> Vec<String> {
        self.seen.lock().unwrap().iter().map(|seen| seen.line.clone()).collect()
    }

    pub(super) fn all(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    pub(super) fn last(&self) -> Seen {
        self.seen.lock().unwrap().last().unwrap().clone()
    }
}

pub(super) fn before(behind: &Arc<Behind>, pass_through: PassThrough) -> Fixture {
    let settings = Settings { upstream: Some(behind.clone()), pass_through, ..Settings::default() };
    Fixture::with(settings, HistoryLimits::default())
}

pub(super) async fn send_with_body(
    fixture: &Fixture,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Answer {
    let mut request = Request::builder().method(method).uri(path).header("host", "127.0.0.1:8181");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = fixture.server.answer(request.body(body.to_owned()).unwrap()).await;
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    Answer { code: parts.status, headers: parts.headers, body: String::from_utf8_lossy(&bytes).into_owned() }
}

const JSON: (&str, &str) = ("content-type", "application/json");

#[tokio::test]
async fn what_goes_on_depends_on_the_mode_and_on_what_is_served() {
    let one = format!("{SHIRTS}/a");
    let status = format!("{one}/status");
    let hat = "/apis/stable.example.com/v1/hats/h";
    // Each row: method, path, and the code of our own answer with off, read and all; 0 for the one behind.
    for (method, path, codes) in [
        ("GET", ALL_SHIRTS.to_owned(), [200, 200, 200]),
        ("HEAD", ALL_SHIRTS.to_owned(), [200, 200, 200]),
        ("GET", format!("{ALL_SHIRTS}?resourceVersion=0"), [200, 200, 200]),
        ("GET", format!("{ALL_SHIRTS}?watch=1&timeoutSeconds=1"), [200, 200, 200]),
        ("GET", "/api/v1/watch/pods?timeoutSeconds=1".to_owned(), [200, 200, 200]),
        ("GET", one.clone(), [200, 0, 0]),
        ("HEAD", one.clone(), [200, 0, 0]),
        ("GET", format!("{one}?resourceVersion="), [200, 0, 0]),
        ("GET", format!("{one}?resourceVersion=0"), [200, 200, 200]),
        ("GET", format!("{one}?resourceVersion=101"), [200, 200, 200]),
        ("GET", format!("{SHIRTS}/none"), [404, 0, 0]),
        ("GET", hat.to_owned(), [404, 0, 0]),
        ("GET", status.clone(), [200, 0, 0]),
        ("GET", format!("{one}/scale?resourceVersion=0"), [404, 0, 0]),
        ("GET", "/api/v1/namespaces/default/pods/p/log?follow=true".to_owned(), [405, 0, 0]),
        ("GET", "/api/v1/secrets".to_owned(), [404, 0, 0]),
        ("GET", "/api/v1/secrets?watch=1".to_owned(), [404, 0, 0]),
        ("GET", "/apis/unknown.example.com/v1/things".to_owned(), [404, 0, 0]),
        ("GET", "/apis/unknown.example.com".to_owned(), [404, 0, 0]),
        ("GET", "/apis/unknown.example.com/v1".to_owned(), [404, 0, 0]),
        ("OPTIONS", "/api/v1/secrets".to_owned(), [404, 0, 0]),
        ("OPTIONS", ALL_SHIRTS.to_owned(), [404, 404, 404]),
        ("OPTIONS", SHIRTS.to_owned(), [405, 405, 405]),
        ("GET", "/metrics".to_owned(), [404, 0, 0]),
        ("GET", "/logs/kube-apiserver.log".to_owned(), [404, 0, 0]),
        ("GET", "/.well-known/openid-configuration".to_owned(), [404, 0, 0]),
        ("GET", "/openid/v1/jwks".to_owned(), [404, 0, 0]),
        ("GET", "/".to_owned(), [200, 0, 0]),
        ("GET", "/version".to_owned(), [200, 200, 200]),
        ("GET", "/healthz".to_owned(), [200, 200, 200]),
        ("GET", "/livez".to_owned(), [200, 200, 200]),
        ("GET", "/readyz".to_owned(), [200, 200, 200]),
        ("GET", "/api".to_owned(), [200, 200, 200]),
        ("GET", "/apis".to_owned(), [200, 200, 200]),
        ("POST", "/version".to_owned(), [405, 405, 0]),
        ("POST", SHIRTS.to_owned(), [405, 405, 0]),
        ("PUT", one.clone(), [405, 405, 0]),
        ("PATCH", one.clone(), [405, 405, 0]),
        ("DELETE", one.clone(), [405, 405, 0]),
        ("DELETE", format!("{SHIRTS}?fieldSelector=spec.color%3Dblue"), [405, 405, 0]),
        ("PATCH", status.clone(), [405, 405, 0]),
        ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews".to_owned(), [404, 0, 0]),
        ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews/a".to_owned(), [404, 404, 0]),
        ("POST", "/metrics".to_owned(), [404, 404, 0]),
        ("CONNECT", "/metrics".to_owned(), [404, 404, 404]),
    ] {
        for (mode, code) in [PassThrough::Off, PassThrough::Read, PassThrough::All].into_iter().zip(codes) {
            let behind = Behind::teapot();
            let mut fixture = before(&behind, mode);
            fixture.put("default", "a", "blue");
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            let response = fixture.send(method.clone(), &path, &[JSON]).await;
            let read = response.headers().get("fieldcache-read").map(|value| value.to_str().unwrap().to_owned());
            let got = response.status().as_u16();
            if code == 0 {
                assert_eq!((got, read.as_deref()), (418, Some("forwarded")), "{mode:?} {method} {path}");
                assert_eq!(behind.lines(), [format!("{method} {path}")], "{mode:?}: forwarded as it was sent");
            } else {
                assert_eq!((got, read), (code, None), "{mode:?} {method} {path}");
                assert!(behind.lines().is_empty(), "{mode:?} {method} {path}: {:?}", behind.lines());
            }
        }
    }
}

#[tokio::test]
async fn a_request_for_an_eventual_read_is_answered_from_the_store() {
    let behind = Behind::teapot();
    let mut fixture = before(&behind, PassThrough::Read);
    fixture.put("default", "a", "blue");
    let one = format!("{SHIRTS}/a");
    for (value, code) in [("Eventual", 200), ("Strong", 418)] {
        assert_eq!(fixture.get_with(&one, &[("fieldcache-consistency", value)]).await.code, code, "{value}");
    }
}

#[tokio::test]
async fn a_refused_write_says_how_it_would_be_handed_on() {
    let behind = Behind::teapot();
    let fixture = before(&behind, PassThrough::Read);
    let answer = send_with_body(&fixture, "POST", SHIRTS, &[JSON], "{}").await;
    let status = answer.json();
    assert_eq!(status["reason"], "MethodNotAllowed");
    assert_eq!(status["details"], json!({"group": "stable.example.com", "kind": "shirts"}));
    let message = answer.message();
    assert!(message.starts_with("create is not supported on resources of kind \"shirts.stable.example.com\""));
    assert!(message.contains("--pass-through=all"), "{message}");
}

#[tokio::test]
async fn headers_of_identity_are_removed_and_the_others_forwarded() {
    let behind = Behind::new(|_| {
        let mut response = Response::builder().status(201);
        for (name, value) in [
            ("connection", "keep-alive, x-of-the-connection"),
            ("x-of-the-connection", "1"),
            ("keep-alive", "timeout=5"),
            ("transfer-encoding", "chunked"),
            ("strict-transport-security", "max-age=1"),
            ("access-control-allow-origin", "*"),
            ("content-type", "application/vnd.kubernetes.protobuf"),
            ("content-encoding", "gzip"),
            ("warning", "299 - \"one\""),
            ("warning", "299 - \"two\""),
            ("audit-id", "of-the-api-server"),
            ("location", "/elsewhere"),
            ("cache-control", "no-store"),
        ] {
            response = response.header(name, value);
        }
        Ok(response.body(whole("abc")).unwrap())
    });
    let fixture = before(&behind, PassThrough::All);
    let sent = [
        ("accept", "application/vnd.kubernetes.protobuf"),
        ("accept-encoding", "gzip"),
        ("content-type", "application/apply-patch+yaml"),
        ("user-agent", "kubectl/v1.36"),
        ("if-none-match", "\"1\""),
        ("authorization", "Bearer secret"),
        ("cookie", "a=b"),
        ("x-remote-user", "root"),
        ("x-remote-group", "system:masters"),
        ("x-forwarded-for", "10.0.0.1"),
        ("origin", "http://127.0.0.1:8181"),
        ("sec-fetch-site", "same-origin"),
        ("connection", "close, x-mine, upgrade"),
        ("upgrade", "h2c"),
        ("http2-settings", "AAMAAABkAAQAAP__"),
        ("x-mine", "1"),
        ("te", "trailers"),
        ("expect", "100-continue"),
    ];
    let path = "/api/v1/namespaces/default/secrets/s?fieldManager=me&force=true&dryRun=All";
    let answer = send_with_body(&fixture, "PATCH", path, &sent, "data: {}").await;
    let seen = behind.last();
    assert_eq!((seen.line, &*seen.body), (format!("PATCH {path}"), &b"data: {}"[..]));
    let mut names: Vec<&str> = seen.headers.keys().map(http::HeaderName::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["accept", "accept-encoding", "content-type", "if-none-match", "user-agent"]);
    assert_eq!((answer.code.as_u16(), &*answer.body), (201, "abc"));
    let mut back: Vec<String> =
        answer.headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
    back.sort_unstable();
    let expected = [
        "audit-id: of-the-api-server",
        "cache-control: no-store",
        "content-encoding: gzip",
        "content-type: application/vnd.kubernetes.protobuf",
        "fieldcache-read: forwarded",
        "location: /elsewhere",
        "warning: 299 - \"one\"",
        "warning: 299 - \"two\"",
    ];
    assert_eq!(back, expected);
}

#[tokio::test]
async fn requests_into_workloads_and_impersonation_are_rejected_with_the_reason() {
    let pod = "/api/v1/namespaces/default/pods/p";
    let websocket = [("connection", "Upgrade"), ("upgrade", "websocket")];
    let rows: [(&str, String, &[Header], u16, &str); 19] = [
        ("GET", format!("{pod}/exec?command=sh"), &websocket, 403, "pods/exec is not forwarded"),
        ("POST", format!("{pod}/exec"), &[], 403, "pods/exec"),
        ("POST", format!("{pod}/attach"), &[], 403, "pods/attach"),
        ("GET", format!("{pod}/portforward"), &[], 403, "pods/portforward"),
        ("GET", format!("{pod}/proxy"), &[], 403, "kubectl port-forward"),
        ("GET", format!("{pod}/proxy/a/b"), &[], 403, "pods/proxy"),
        ("GET", "/api/v1/nodes/n/proxy/run/x".to_owned(), &[], 403, "nodes/proxy"),
        ("GET", "/api/v1/namespaces/default/services/s:80/proxy/".to_owned(), &[], 403, "services/proxy"),
        ("GET", "/api/v1/proxy/namespaces/default/pods/p/%65xec".to_owned(), &[], 418, ""),
        ("POST", format!("{pod}/%65xec"), &[], 403, "pods/exec"),
        ("POST", format!("{pod}/EXEC"), &[], 403, "pods/exec"),
        ("POST", format!("{pod}//exec"), &[], 403, "pods/exec"),
        ("POST", format!("{pod}/./exec/"), &[], 403, "pods/exec"),
        ("POST", format!("{pod}/log/../exec"), &[], 404, "could not find"),
        ("POST", format!("{pod}%2Fexec"), &[], 403, "pods/exec"),
        ("GET", "/metrics".to_owned(), &websocket, 403, "\"websocket\""),
        ("GET", "/metrics".to_owned(), &[("upgrade", "SPDY/3.1")], 403, "\"SPDY/3.1\""),
        ("GET", format!("{pod}/log"), &[("impersonate-user", "jane")], 403, "impersonate-user"),
        ("GET", ALL_SHIRTS.to_owned(), &[("impersonate-extra-scopes", "x")], 403, "impersonate-extra-scopes"),
    ];
    for (method, path, headers, code, says) in rows {
        let behind = Behind::teapot();
        let fixture = before(&behind, PassThrough::All);
        let answer = send_with_body(&fixture, method, &path, headers, "").await;
        assert_eq!(answer.code, code, "{method} {path}: {}", answer.body);
        assert!(answer.message().contains(says), "{method} {path}: {}", answer.message());
        assert_eq!(behind.lines().len(), usize::from(code == 418), "{method} {path}");
    }
    let behind = Behind::teapot();
    let fixture = before(&behind, PassThrough::All);
    for named in ["exec", "proxy"] {
        let answer = fixture.get(&format!("/api/v1/namespaces/default/pods/{named}")).await;
        assert_eq!(answer.code, 418, "an object of that name: {}", answer.body);
    }
}

#[tokio::test]
async fn a_foreign_page_reaches_nothing_behind() {
    let guarded = |behind: &Arc<Behind>| {
        let settings = Settings {
            upstream: Some(behind.clone()),
            pass_through: PassThrough::All,
            guard: Some(crate::server::guards::Guard::default()),
            ..Settings::default()
        };
        Fixture::with(settings, HistoryLimits::default())
    };
    let secrets = "/api/v1/namespaces/default/secrets";
    for (method, headers, code) in [
        ("GET", &[("origin", "http://evil.example")][..], 403),
        ("GET", &[("origin", "null")], 403),
        ("GET", &[("sec-fetch-site", "cross-site")], 403),
        ("POST", &[("origin", "http://evil.example"), ("content-type", "text/plain")], 403),
        ("POST", &[("origin", "http://127.0.0.1:8181"), JSON], 418),
        // Over HTTP/2 a body needs no header that announces it.
        ("POST", &[("cookie", "a=b")], 415),
        ("POST", &[], 418),
        ("GET", &[], 418),
    ] {
        let behind = Behind::teapot();
        let answer =
            send_with_body(&guarded(&behind), method, secrets, headers, if method == "POST" { "{}" } else { "" }).await;
        assert_eq!(answer.code, code, "{method} {headers:?}: {}", answer.body);
        assert_eq!(behind.lines().len(), usize::from(code == 418), "{method} {headers:?}");
    }
    let behind = Behind::teapot();
    let request = Request::builder().uri(secrets).header("host", "rebound.example:8181").body(String::new()).unwrap();
    assert_eq!(guarded(&behind).server.answer(request).await.status(), 403, "a foreign Host");
    assert!(behind.lines().is_empty());
}

#[tokio::test]
async fn an_answer_that_breaks_off_breaks_off_here() {
    let behind = Behind::new(|_| {
        let frames = [Ok(Frame::data(Bytes::from("half"))), Err("the peer went".into())];
        Ok(Response::new(UpstreamBody::new(StreamBody::new(futures::stream::iter(frames)))))
    });
    let fixture = before(&behind, PassThrough::All);
    for (method, path) in [(Method::GET, "/metrics"), (Method::POST, SHIRTS)] {
        let mut body = fixture.send(method.clone(), path, &[]).await.into_body();
        let first = body.frame().await.unwrap().unwrap();
        assert_eq!(first.data_ref().unwrap(), "half", "{method}");
        let error = body.frame().await.unwrap().unwrap_err();
        assert_eq!(error.to_string(), "the peer went", "{method}: an end would look like the whole answer");
    }
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_cannot_be_reached_or_does_not_respond_is_503_and_never_the_store() {
    let behind = Behind::new(|_| Err("cluster https://a cannot be reached: refused".to_owned()));
    let mut fixture = before(&behind, PassThrough::Read);
    fixture.put("default", "a", "blue");
    let answer = fixture.get(&format!("{SHIRTS}/a")).await;
    assert_eq!(answer.code, 503);
    assert_eq!(answer.message(), "cluster https://a cannot be reached: refused");
    assert_eq!(fixture.get(SHIRTS).await.code, 200, "lists go on");

    let silent = Behind::slow(Duration::from_secs(600), |_| answered(200, &json!({})));
    let fixture = before(&silent, PassThrough::Read);
    for (path, seconds, code) in
        [("/metrics", 65, 503), ("/metrics?timeout=5s", 10, 503), ("/api/v1/secrets?watch=1", 600, 200)]
    {
        let begun = Instant::now();
        assert_eq!(fixture.get(path).await.code, code, "{path}");
        assert_eq!(begun.elapsed().as_secs(), seconds, "{path}");
    }
    assert_eq!(silent.given_up.load(Ordering::Relaxed), 2, "a request without a waiting client is given up");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_goes_takes_its_request_with_it() {
    let behind = Behind::slow(Duration::from_secs(60), |_| answered(200, &json!({})));
    let fixture = before(&behind, PassThrough::Read);
    let response = fixture.get("/metrics");
    assert!(tokio::time::timeout(Duration::from_secs(1), response).await.is_err());
    assert_eq!(behind.given_up.load(Ordering::Relaxed), 1);
    assert!(behind.lines().is_empty());
}

#[tokio::test]
async fn so_many_requests_are_under_way_and_no_more() {
    let behind = Behind::new(|_| {
        let silent = futures::stream::pending::<Result<Frame<Bytes>, _>>();
        Ok(Response::new(UpstreamBody::new(StreamBody::new(silent))))
    });
    let fixture = before(&behind, PassThrough::Read);
    let mut open = Vec::new();
    for _ in 0..MOST_FORWARDED / 2 {
        let response = fixture.send(Method::GET, "/api/v1/secrets?watch=1", &[]).await;
        assert_eq!(response.status(), 200);
        open.push(response);
    }
    // Not read to its end before it is known to have one.
    assert_eq!(fixture.send(Method::GET, "/metrics", &[]).await.status(), 429);
    let refused = fixture.get("/metrics").await;
    assert_eq!(refused.header("retry-after"), "1");
    assert!(refused.message().starts_with("256 requests of this user are being forwarded to the API server"));
    assert_eq!(fixture.get(SHIRTS).await.code, 200, "our own answers need no place");
    open.pop();
    assert_eq!(fixture.send(Method::GET, "/metrics", &[]).await.status(), 200, "a place is free again");
}

#[tokio::test]
async fn a_write_sets_its_version_in_the_stores_of_its_resource() {
    let object = json!({"kind": "Shirt", "metadata": {"name": "a", "resourceVersion": "150"}});
    let with = |member: &str, value: Value| {
        let mut going = json!({"metadata": {"resourceVersion": "150", "deletionTimestamp": "2026-01-01T00:00:00Z"}});
        going["metadata"][member] = value;
        going
    };
    let (deleting, kept) = (with("finalizers", json!([])), with("finalizers", json!(["held"])));
    let graceful = with("deletionGracePeriodSeconds", json!(30));
    let status = json!({"kind": "Status", "metadata": {}, "status": "Success"});
    let collection = json!({"kind": "ShirtList", "metadata": {"resourceVersion": "170"}, "items": []});
    let question = "GET /apis/stable.example.com/v1/shirts?limit=1".to_owned();
    let one = format!("{SHIRTS}/a");
    // Each row: the request, its response, whether a version is requested, and the reported version.
    let rows: [(&str, String, u16, &str, Value, bool, u64); 18] = [
        ("POST", SHIRTS.to_owned(), 201, "application/json", object.clone(), false, 150),
        ("PUT", one.clone(), 200, "application/json;charset=utf-8", object.clone(), false, 150),
        ("PATCH", format!("{one}/status"), 200, "application/json", object.clone(), false, 150),
        ("PATCH", format!("{one}/scale"), 200, "application/json", object.clone(), false, 150),
        ("PATCH", one.clone(), 200, "application/json", deleting.clone(), true, 170),
        ("PATCH", one.clone(), 200, "application/json", kept.clone(), false, 150),
        ("DELETE", one.clone(), 200, "application/json", deleting, true, 170),
        ("DELETE", one.clone(), 200, "application/json", kept, false, 150),
        ("DELETE", one.clone(), 200, "application/json", graceful, false, 150),
        ("PUT", one.clone(), 200, "application/vnd.kubernetes.protobuf", object.clone(), true, 170),
        ("DELETE", one.clone(), 200, "application/json", object.clone(), true, 170),
        ("DELETE", one.clone(), 200, "application/json", status.clone(), true, 170),
        ("DELETE", SHIRTS.to_owned(), 200, "application/json", collection.clone(), true, 170),
        ("POST", format!("{one}/eviction"), 201, "application/json", status.clone(), true, 170),
        ("POST", format!("{SHIRTS}?dryRun=All"), 201, "application/json", object.clone(), false, 0),
        ("POST", SHIRTS.to_owned(), 409, "application/json", object.clone(), false, 0),
        ("GET", one.clone(), 200, "application/json", object.clone(), false, 0),
        ("POST", "/api/v1/namespaces/default/secrets".to_owned(), 201, "application/json", object, false, 0),
    ];
    for (method, path, code, kind, body, is_version_requested, version) in rows {
        let (text, list) = (body.to_string(), collection.clone());
        let behind = Behind::new(move |seen| {
            if seen.line.ends_with("?limit=1") {
                return answered(200, &list);
            }
            Ok(Response::builder().status(code).header("content-type", kind).body(whole(text.clone())).unwrap())
        });
        let fixture = before(&behind, PassThrough::All);
        let answer = send_with_body(&fixture, method, &path, &[JSON], "{}").await;
        assert_eq!((answer.code.as_u16(), answer.body), (code, body.to_string()), "{method} {path}");
        let reported = fixture.shirts.resource.state.last_written();
        assert_eq!(reported, Version::new(version), "{method} {path} {kind}");
        assert_eq!(
            behind.lines().contains(&question),
            is_version_requested,
            "{method} {path} {kind}: {:?}",
            behind.lines()
        );
        assert_eq!(fixture.hats.resource.state.last_written(), Version::ZERO, "{method} {path}: another resource");
    }
}

/// A shirt with a uid, as the store has it.
fn put_with_uid(fixture: &mut Fixture, uid: &str, version: u64) {
    let text = format!(
        "{{\"apiVersion\":\"stable.example.com/v1\",\"kind\":\"Shirt\",\"metadata\":{{\"name\":\"a\",\"namespace\":\"default\",\
         \"resourceVersion\":\"{version}\",\"uid\":\"{uid}\"}}}}"
    );
    let record = fixture.shirts.resource.extractor.extract(Bytes::from(text)).unwrap();
    fixture.shirts.store.apply(&record);
    fixture.shirts.publish();
}

#[tokio::test(start_paused = true)]
async fn the_version_of_a_deletion_is_when_the_store_loses_the_object() {
    // Each row: the uid that was deleted, what happens to the store 100 ms later, and the reported version.
    for (deleted, happens, reported, why) in [
        ("1", "gone", 160, "the store's own version"),
        ("1", "recreated", 161, "another object under the same name"),
        ("1", "changed", 999, "still the same object: the cluster is queried"),
        ("1", "nothing", 999, "the cluster is queried"),
        ("2", "gone", 999, "another incarnation than the store's"),
    ] {
        let answer =
            json!({"kind": "Status", "metadata": {}, "status": "Success", "details": {"name": "a", "uid": deleted}});
        let behind = Behind::new(move |seen| match seen.line.ends_with("?limit=1") {
            true => answered(200, &json!({"metadata": {"resourceVersion": "999"}})),
            false => answered(200, &answer),
        });
        let mut fixture = before(&behind, PassThrough::All);
        put_with_uid(&mut fixture, "1", 150);
        let server = fixture.server.clone();
        let request = Request::builder().method("DELETE").uri(format!("{SHIRTS}/a")).body(String::new()).unwrap();
        let change = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let key = crate::model::Key::new("default", "a");
            match happens {
                "gone" => drop(fixture.shirts.store.delete(&key, Version::new(160))),
                "recreated" => put_with_uid(&mut fixture, "2", 161),
                "changed" => put_with_uid(&mut fixture, "1", 162),
                _ => {}
            }
            fixture.shirts.publish();
        };
        let (response, ()) = tokio::join!(server.answer(request), change);
        assert_eq!(response.status(), 200, "{happens}");
        assert_eq!(fixture.shirts.resource.state.last_written(), Version::new(reported), "{deleted} {happens}: {why}");
    }
}

#[tokio::test]
async fn a_write_whose_version_cannot_be_learnt_says_so() {
    let behind = Behind::new(|seen| match seen.line.ends_with("?limit=1") {
        true => answered(403, &json!({"message": "no"})),
        false => answered(200, &json!({"kind": "Status", "metadata": {}})),
    });
    let fixture = before(&behind, PassThrough::All);
    let answer = send_with_body(&fixture, "DELETE", &format!("{SHIRTS}/a"), &[], "").await;
    assert_eq!(answer.code, 200);
    assert!(answer.header("warning").contains("its resourceVersion is not known"), "{:?}", answer.headers);
}

#[tokio::test]
async fn a_large_answer_to_a_write_comes_whole() {
    let large = json!({"metadata": {"resourceVersion": "150"}, "data": "x".repeat(9 << 20)}).to_string();
    let pieces: Vec<Bytes> = large.as_bytes().chunks(100_000).map(Bytes::copy_from_slice).collect();
    let behind = Behind::new(move |seen| {
        if seen.line.ends_with("?limit=1") {
            return answered(200, &json!({"metadata": {"resourceVersion": "170"}}));
        }
        let frames = futures::stream::iter(pieces.clone()).map(|piece| Ok(Frame::data(piece)));
        let body = UpstreamBody::new(StreamBody::new(frames));
        Ok(Response::builder().header("content-type", "application/json").body(body).unwrap())
    });
    let fixture = before(&behind, PassThrough::All);
    let answer = send_with_body(&fixture, "PUT", &format!("{SHIRTS}/a"), &[JSON], "{}").await;
    assert!(answer.body == large, "{} bytes of {}", answer.body.len(), large.len());
    assert_eq!(fixture.shirts.resource.state.last_written(), Version::new(170), "it was not looked through");
}

#[tokio::test]
async fn callers_that_may_not_list_everything_are_answered_by_the_api_server() {
    let behind = Behind::teapot();
    let settings = |pass_through| Settings {
        upstream: Some(behind.clone()),
        pass_through,
        patience: Duration::from_secs(1),
        ..Settings::default()
    };
    for (mode, refusal, code) in [
        (PassThrough::Off, 403, 403),
        (PassThrough::Read, 403, 418),
        (PassThrough::All, 403, 418),
        (PassThrough::Read, 401, 503),
    ] {
        let fixture = Fixture::loading(settings(mode), HistoryLimits::default());
        let refused = LoadState::SourceError { code: refusal, message: "the source refuses".to_owned() };
        fixture.shirts.resource.state.publish(refused);
        for path in [SHIRTS.to_owned(), format!("{SHIRTS}?watch=1"), format!("{SHIRTS}/a?resourceVersion=0")] {
            assert_eq!(fixture.get(&path).await.code, code, "{mode:?} {path}");
        }
    }
}

#[tokio::test]
async fn what_is_handed_on_is_counted_as_such() {
    let behind = Behind::teapot();
    let fixture = before(&behind, PassThrough::All);
    fixture.get(&format!("{SHIRTS}/a")).await;
    fixture.get("/api/v1/secrets").await;
    send_with_body(&fixture, "POST", SHIRTS, &[JSON], "{}").await;
    let counted: Vec<String> = fixture
        .server
        .tally()
        .counted()
        .iter()
        .map(|kind| {
            let path = kind.outcome.path.map_or("", AnswerPath::as_str);
            format!("{} {} {} {path}", kind.outcome.verb.as_str(), kind.gvr.resource, kind.outcome.code)
        })
        .collect();
    assert_eq!(counted, ["GET  418 forwarded", "GET shirts 418 forwarded", "POST shirts 418 forwarded"]);
}
