//! The server with `access` before it: the order of its checks, the forms of refusals, and watches that end with their
//! permission.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tokio::time::advance;

use super::{ALL_SHIRTS, Fixture, SHIRTS};
use crate::access::AccessControl;
use crate::access::tests::cluster::Cluster;
use crate::flow_control::connection::ConnectionState;
use crate::flow_control::limit::LimitSettings;
use crate::model::quantity;
use crate::server::Settings;
use crate::server::health::Check;
use crate::store::HistoryLimits;

/// All users but mallory may do everything.
fn stub() -> Arc<Cluster> {
    Cluster::new(|spec| spec["user"] != "mallory")
}

/// A user of that cluster.
pub(super) fn cluster() -> Arc<AccessControl> {
    stub().access()
}

fn fixture() -> (Fixture, Arc<Cluster>) {
    let cluster = stub();
    let settings = Settings { access: Some(cluster.access()), ..Settings::default() };
    let mut fixture = Fixture::with(settings, HistoryLimits::default());
    fixture.put("default", "x", "blue");
    (fixture, cluster)
}

const ALICE: (&str, &str) = ("authorization", "Bearer alice");
const MALLORY: (&str, &str) = ("authorization", "Bearer mallory");
const WRONG: (&str, &str) = ("authorization", "Bearer wrong");

#[tokio::test(start_paused = true)]
async fn authentication_and_authorization_precede_everything_but_the_timeout() {
    let (fixture, _) = fixture();
    let shirt = format!("{SHIRTS}/x");
    let missing = format!("{SHIRTS}/missing");
    let bad_selector = format!("{ALL_SHIRTS}?fieldSelector=banana");
    let bad_timeout = format!("{ALL_SHIRTS}?timeout=banana");
    let watch = format!("{ALL_SHIRTS}?watch=1&resourceVersion=x");
    let rows: [(Method, &str, [u16; 4]); 14] = [
        // Of no user, of an invalid token, of a user without permission, of a user with it.
        (Method::GET, &shirt, [401, 401, 403, 200]),
        (Method::HEAD, &shirt, [401, 401, 403, 200]),
        (Method::GET, &missing, [401, 401, 403, 404]),
        (Method::GET, &bad_selector, [401, 401, 403, 400]),
        (Method::GET, &bad_timeout, [400, 400, 400, 400]),
        (Method::GET, &watch, [401, 401, 403, 500]),
        (Method::POST, ALL_SHIRTS, [401, 401, 403, 404]),
        (Method::GET, "/apis/unknown.example.com/v1/things", [401, 401, 403, 404]),
        (Method::GET, "/nowhere", [401, 401, 403, 404]),
        (Method::GET, "/", [401, 401, 403, 200]),
        (Method::GET, "/version", [401, 401, 403, 200]),
        (Method::GET, "/readyz", [200, 401, 200, 200]),
        (Method::GET, "/readyz/ping", [401, 401, 403, 200]),
        (Method::GET, "/api/v1/watch", [500, 500, 500, 500]),
    ];
    for (method, path, expected) in rows {
        let credentials = [&[][..], &[WRONG], &[MALLORY], &[ALICE]];
        for (headers, expected) in credentials.into_iter().zip(expected) {
            let answer = fixture.whole(method.clone(), path, headers).await;
            assert_eq!(answer.code, expected, "{method} {path} {headers:?}: {}", answer.body);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn only_callers_that_may_get_all_health_checks_see_their_names() {
    // As Kubernetes' own roles: everyone may get /readyz, a monitor /readyz/*, bob a single check.
    let cluster = Cluster::new(|spec| match spec["nonResourceAttributes"]["path"].as_str() {
        Some("/readyz" | "/livez" | "/healthz") => true,
        Some("/readyz/*" | "/livez/*") => spec["user"] == "monitor",
        Some("/readyz/store/shirts") => spec["user"] != "alice",
        _ => false,
    });
    let is_well = Arc::new(AtomicBool::new(true));
    let state = is_well.clone();
    let check = Check::one("store/shirts", false, move || {
        if state.load(Ordering::Relaxed) { Ok(()) } else { Err("not loaded".to_owned()) }
    });
    let settings = Settings { access: Some(cluster.access()), checks: vec![check], ..Settings::default() };
    let fixture = Fixture::with(settings, HistoryLimits::default());
    let monitor = ("authorization", "Bearer monitor");
    let listed = "[+]ping ok\n[+]store/shirts ok\n[+]shutdown ok\nreadyz check passed\n";
    for (headers, path, body) in [
        (&[][..], "/readyz", "ok"),
        (&[], "/readyz?verbose", "ok"),
        (&[], "/readyz?exclude=nothing&verbose", "ok"),
        (&[], "/livez?verbose", "ok"),
        (&[ALICE], "/readyz?verbose", "ok"),
        (&[("authorization", "Bearer bob")], "/readyz?verbose", "ok"),
        (&[monitor], "/readyz", "ok"),
        (&[monitor], "/readyz?verbose", listed),
    ] {
        let answer = fixture.get_with(path, headers).await;
        assert_eq!((answer.code.as_u16(), &*answer.body), (200, body), "{path} {headers:?}");
    }
    is_well.store(false, Ordering::Relaxed);
    let failed = "[+]ping ok\n[-]store/shirts failed: reason withheld\n[+]shutdown ok\nreadyz check failed\n";
    for (headers, path, code, body) in [
        (&[][..], "/readyz", 500, "readyz check failed\n"),
        (&[], "/readyz?verbose", 500, "readyz check failed\n"),
        (&[], "/readyz?exclude=store/shirts", 500, "readyz check failed\n"),
        (&[ALICE], "/readyz?exclude=store/shirts", 500, "readyz check failed\n"),
        (&[monitor], "/readyz?verbose", 500, failed),
        (&[monitor], "/readyz?exclude=store/shirts", 200, "ok"),
    ] {
        let answer = fixture.get_with(path, headers).await;
        assert_eq!((answer.code.as_u16(), &*answer.body), (code, body), "{path} {headers:?}");
    }
    cluster.is_gone.store(true, Ordering::Relaxed);
    advance(Duration::from_secs(60)).await;
    let answer = fixture.get_with("/livez", &[]).await;
    assert_eq!(answer.body, "ok", "health does not wait for the API server");
}

#[tokio::test(start_paused = true)]
async fn refusals_are_statuses_that_say_what_is_the_matter_and_nothing_of_the_inside() {
    let (fixture, cluster) = fixture();
    let status = |answer: &super::Answer| {
        let status = answer.json();
        (
            status["code"].clone(),
            status["reason"].clone(),
            status["message"].as_str().unwrap().to_owned(),
            status["details"].clone(),
        )
    };
    let unauthorized = fixture.get(ALL_SHIRTS).await;
    let message = "Unauthorized: use a valid token with the audience fieldcache.dev, or a client certificate that the API server accepts";
    assert_eq!(status(&unauthorized), (json!(401), json!("Unauthorized"), message.to_owned(), Value::Null));
    assert_eq!(unauthorized.header("www-authenticate"), "");
    let path = format!("{SHIRTS}/x");
    let forbidden = fixture.get_with(&path, &[MALLORY]).await;
    let message = r#"shirts.stable.example.com "x" is forbidden: User "mallory" cannot get resource "shirts" in API group "stable.example.com" in the namespace "default""#;
    let details = json!({"name": "x", "group": "stable.example.com", "kind": "shirts"});
    assert_eq!(status(&forbidden), (json!(403), json!("Forbidden"), message.to_owned(), details));
    assert_eq!(forbidden.header("x-content-type-options"), "nosniff");
    let page = fixture.get_with("/version", &[MALLORY]).await;
    let message = r#"forbidden: User "mallory" cannot get path "/version""#;
    assert_eq!(status(&page), (json!(403), json!("Forbidden"), message.to_owned(), json!({})));
    let other = fixture.get_with(&path, &[ALICE, ("impersonate-user", "bob")]).await;
    assert_eq!(other.code, 403);
    assert!(other.message().contains("impersonate-user"), "{}", other.body);
    cluster.is_gone.store(true, Ordering::Relaxed);
    let unreviewed = fixture.get_with(&path, &[("authorization", "Bearer zoe")]).await;
    assert_eq!((unreviewed.code.as_u16(), unreviewed.header("retry-after")), (503, "1"), "{}", unreviewed.body);
    let undecided = fixture.get_with("/apis", &[ALICE]).await;
    assert_eq!(undecided.code, 500, "{}", undecided.body);
    for answer in [&unreviewed, &undecided] {
        assert!(answer.message().contains("returned no ") && !answer.body.contains("10.0.0.1"), "{}", answer.body);
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_within_five_minutes_after_its_token() {
    let (mut fixture, cluster) = fixture();
    let path = format!("{ALL_SHIRTS}?watch=1&resourceVersion=101&timeoutSeconds=3600");
    let mut watched = fixture.watch_with(&path, &[ALICE]).await;
    advance(Duration::from_secs(1000)).await;
    fixture.put("default", "y", "blue");
    assert_eq!(watched.line().await, "ADDED default/y@102", "the token is valid");
    cluster.is_revoked.store(true, Ordering::Relaxed);
    advance(Duration::from_secs(300)).await;
    fixture.put("default", "late", "blue");
    assert_eq!(watched.next().await, None, "nothing is shown any more");
    assert_eq!(fixture.get_with(&path, &[ALICE]).await.code, 401, "and the next request gets the reason");
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_some_minutes_after_its_right() {
    let (mut fixture, cluster) = fixture();
    let path = format!("{ALL_SHIRTS}?watch=1&resourceVersion=101&timeoutSeconds=3600");
    let mut watched = fixture.watch_with(&path, &[ALICE]).await;
    advance(Duration::from_secs(1000)).await;
    fixture.put("default", "y", "blue");
    assert_eq!(watched.line().await, "ADDED default/y@102", "renewed");
    cluster.is_closed.store(true, Ordering::Relaxed);
    fixture.put("default", "z", "blue");
    assert_eq!(watched.line().await, "ADDED default/z@103", "not at once");
    advance(Duration::from_secs(301)).await;
    fixture.put("default", "late", "blue");
    assert_eq!(watched.next().await, None, "nothing is shown any more");
    let again = fixture.get_with(&path, &[ALICE]).await;
    assert_eq!(again.code, 403, "and another request gets the reason");
}

#[tokio::test(start_paused = true)]
async fn requests_that_wait_for_a_review_are_bounded_by_address() {
    let limits = LimitSettings { body_bytes: quantity::Bytes(8 << 20), ..LimitSettings::default() };
    let settings = Settings { access: Some(stub().access()), limits, ..Settings::default() };
    let fixture = Fixture::with(settings, HistoryLimits::default());
    let at = |last: u8| Arc::new(ConnectionState::new(std::net::IpAddr::from([192, 0, 2, last]), false));
    let (attacker, other) = (at(1), at(2));
    // Each of them has another token, so that no review answers two.
    let send = |state: &Arc<ConnectionState>, number: usize| {
        let path = format!("{SHIRTS}/{}{number}", "x".repeat(15_000));
        let token = format!("Bearer user-{number}");
        let request = http::Request::builder().uri(path).header("host", "127.0.0.1").header("authorization", token);
        let (server, state) = (fixture.server.clone(), state.clone());
        let request = request.body(String::new()).unwrap();
        Box::pin(async move { server.answer_to(&state, request).await })
    };
    let mut waiting = Vec::new();
    let refused = loop {
        let mut response = send(&attacker, waiting.len());
        if let std::task::Poll::Ready(response) = futures::poll!(&mut response) {
            break response;
        }
        waiting.push(response);
        assert!(waiting.len() < 100, "as many as one wants");
    };
    assert_eq!((refused.status().as_u16(), &refused.headers()["retry-after"]), (429, &http::HeaderValue::from(1)));
    assert!(waiting.len() > 10, "{}", waiting.len());
    assert_eq!(send(&other, 100).await.status(), 404, "another address is served");
    for response in waiting {
        assert_eq!(response.await.status(), 404);
    }
    assert_eq!(send(&attacker, 101).await.status(), 404, "what has ended is free again");
}

#[tokio::test(start_paused = true)]
async fn requests_of_known_users_behind_one_address_are_bounded_by_user() {
    let limits = LimitSettings { body_bytes: quantity::Bytes(8 << 20), ..LimitSettings::default() };
    let settings = Settings { access: Some(stub().access()), limits, ..Settings::default() };
    let fixture = Fixture::with(settings, HistoryLimits::default());
    let proxy = Arc::new(ConnectionState::new(std::net::IpAddr::from([192, 0, 2, 1]), false));
    let send = |user: (&'static str, &'static str), number: usize| {
        let path = format!("{SHIRTS}/{}{number}", "x".repeat(15_000));
        let request = http::Request::builder().uri(path).header("host", "127.0.0.1").header(user.0, user.1);
        let (server, state) = (fixture.server.clone(), proxy.clone());
        let request = request.body(String::new()).unwrap();
        Box::pin(async move { server.answer_to(&state, request).await })
    };
    for user in [MALLORY, ALICE] {
        send(user, 0).await;
    }
    let mut waiting = Vec::new();
    loop {
        let mut response = send(MALLORY, waiting.len() + 1);
        if let std::task::Poll::Ready(response) = futures::poll!(&mut response) {
            assert_eq!(response.status(), 429);
            break;
        }
        waiting.push(response);
        assert!(waiting.len() < 100, "as many as one wants");
    }
    assert_eq!(send(ALICE, 1).await.status(), 404, "another user behind the same address");
    // A token that needs a review is shared by address, where nothing waits.
    assert_eq!(send(("authorization", "Bearer bob"), 1).await.status(), 404, "an unknown user");
    assert_eq!(send(MALLORY, 200).await.status(), 429);
    for response in waiting {
        assert_eq!(response.await.status(), 403);
    }
}
