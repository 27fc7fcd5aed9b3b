//! Documents of reviews: what is sent for a request, and what a response means; and how an API server is queried.

use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::{Reviewer, Says, allowed};
use crate::access::attributes::{Attributes, RequiredPermissions};
use crate::access::authentication::Credential;
use crate::access::authorization::{Authorizer, Decision};
use crate::access::backend::{Backend, ReviewError, ReviewFlow};
use crate::access::cache_key_hasher::CacheKeyHasher;
use crate::access::counters::{AccessCounters, ReviewKind};
use crate::access::identity::Identity;
use crate::access::lease::{AuthorizationLease, EVERY, Leases};
use crate::access::review::{AccessAnswer, TokenAnswer, access_answer, access_spec, token_answer, token_review};
use crate::access::tokens::Tokens;
use crate::registry::upstream::{Upstream, UpstreamBody};
use crate::request::{Query, RequestInfo};

/// A GET as authorizers see it.
fn get(path: &str, query: &str) -> Attributes {
    Attributes::from_request(&RequestInfo::read(&Method::GET, path, Query::parse(query))).unwrap()
}

fn spec(identity: &Identity, path: &str, query: &str) -> Value {
    access_spec(identity, &get(path, query))
}

#[test]
fn a_review_is_what_kube_apiserver_would_send_to_a_webhook() {
    let alice = Identity { user: "alice".to_owned(), ..Identity::default() };
    let full = Identity {
        user: "bob".to_owned(),
        uid: "7".to_owned(),
        groups: vec!["b".to_owned(), "a".to_owned()],
        extra: [("scopes".to_owned(), vec!["x".to_owned(), "y".to_owned()])].into(),
    };
    let rows = [
        (
            &alice,
            "/version",
            "",
            json!({"user": "alice", "nonResourceAttributes": {"path": "/version", "verb": "get"}}),
        ),
        (
            &full,
            "/api/v1/namespaces/n/pods/p/log",
            "",
            json!({"user": "bob", "uid": "7", "groups": ["b", "a"], "extra": {"scopes": ["x", "y"]}, "resourceAttributes": {
                "namespace": "n", "verb": "get", "version": "v1", "resource": "pods", "subresource": "log", "name": "p",
            }}),
        ),
        (
            &alice,
            "/apis/g/v1/shirts",
            "watch=1&fieldSelector=spec.size!%3DM,spec.color%3Dblue,metadata.name%3Dx&labelSelector=c+notin+(2,1),a,!b,d%3D,e>1,f<2",
            json!({"user": "alice", "resourceAttributes": {
                "verb": "watch", "group": "g", "version": "v1", "resource": "shirts", "name": "x",
                "fieldSelector": {"requirements": [
                    {"key": "metadata.name", "operator": "In", "values": ["x"]},
                    {"key": "spec.color", "operator": "In", "values": ["blue"]},
                    {"key": "spec.size", "operator": "NotIn", "values": ["M"]},
                ]},
                "labelSelector": {"requirements": [
                    {"key": "a", "operator": "Exists"},
                    {"key": "b", "operator": "DoesNotExist"},
                    {"key": "c", "operator": "NotIn", "values": ["1", "2"]},
                    {"key": "d", "operator": "In", "values": [""]},
                ]},
            }}),
        ),
        // Reviews have no ranges and prefixes. A field is present if it is not empty.
        (
            &alice,
            "/apis/g/v1/shirts",
            "fieldSelector=a+in+(2,1),b+notin+(3),c,!d,e>5,f<5,h<%3D5,i^%3Dx",
            json!({"user": "alice", "resourceAttributes": {
                "verb": "list", "group": "g", "version": "v1", "resource": "shirts",
                "fieldSelector": {"requirements": [
                    {"key": "d", "operator": "In", "values": [""]},
                    {"key": "a", "operator": "In", "values": ["1", "2"]},
                    {"key": "b", "operator": "NotIn", "values": ["3"]},
                    {"key": "c", "operator": "NotIn", "values": [""]},
                ]},
            }}),
        ),
        (
            &alice,
            "/apis/g/v1/shirts",
            "labelSelector=e>1",
            json!({"user": "alice", "resourceAttributes": {"verb": "list", "group": "g", "version": "v1", "resource": "shirts"}}),
        ),
    ];
    for (identity, path, query, expected) in rows {
        assert_eq!(spec(identity, path, query), expected, "{path}?{query}");
    }
}

#[test]
fn only_an_allowed_review_that_is_not_denied_allows() {
    let rows = [
        (json!({"allowed": true}), AccessAnswer::Allowed),
        (json!({"allowed": false, "reason": "no"}), AccessAnswer::Denied("no".to_owned())),
        (json!({}), AccessAnswer::Denied(String::new())),
        (json!({"allowed": true, "denied": true}), AccessAnswer::Denied(String::new())),
        (json!({"allowed": "true"}), AccessAnswer::Denied(String::new())),
        (json!({"allowed": false, "evaluationError": "e"}), AccessAnswer::Denied(String::new())),
    ];
    for (status, expected) in rows {
        assert_eq!(access_answer(&json!({ "status": status })), expected, "{status}");
    }
    assert_eq!(access_answer(&Value::Null), AccessAnswer::Denied(String::new()));
}

#[test]
fn long_reasons_are_cut() {
    let long = "ä".repeat(400_000);
    let AccessAnswer::Denied(reason) = access_answer(&json!({ "status": { "reason": long } })) else { panic!() };
    assert!(reason.len() < 1_100 && reason.ends_with("ä..."), "{} bytes of a long reason are kept", reason.len());
    let faulty = token_answer(&json!({ "status": { "error": long } }), &[]);
    let TokenAnswer::Faulty(problem) = faulty else { panic!("{faulty:?}") };
    assert!(problem.len() < 1_100, "{} bytes of a long error are kept", problem.len());
}

#[test]
fn a_token_is_valid_only_for_our_audiences() {
    let ours = vec!["fieldcache.dev".to_owned(), "other".to_owned()];
    let sent = token_review("t", &ours);
    assert_eq!(sent["spec"], json!({"token": "t", "audiences": ["fieldcache.dev", "other"]}));
    assert_eq!(token_review("t", &[])["spec"], json!({"token": "t"}));
    let user = json!({"username": "a"});
    let known = TokenAnswer::Known(Identity { user: "a".to_owned(), ..Identity::default() });
    let rows = [
        (json!({"authenticated": true, "user": user, "audiences": ["x", "other"]}), &ours[..], known.clone()),
        (json!({"authenticated": true, "user": user, "audiences": ["x"]}), &ours[..], TokenAnswer::Unknown),
        // One that knows no audiences cannot have looked at them.
        (json!({"authenticated": true, "user": user}), &ours[..], TokenAnswer::Unknown),
        (json!({"authenticated": true, "user": user}), &[][..], known),
        (json!({"authenticated": true, "user": {}}), &[][..], TokenAnswer::Unknown),
        (json!({"authenticated": false, "user": user, "audiences": ["other"]}), &ours[..], TokenAnswer::Unknown),
        (json!({"error": "expired"}), &ours[..], TokenAnswer::Faulty("expired".to_owned())),
        (json!({}), &[][..], TokenAnswer::Unknown),
    ];
    for (status, audiences, expected) in rows {
        assert_eq!(token_answer(&json!({ "status": status }), audiences), expected, "{status} for {audiences:?}");
    }
}

fn backend(reviewer: &Arc<Reviewer>) -> (Backend, Arc<AccessCounters>) {
    let counts = Arc::new(AccessCounters::default());
    (Backend::new(reviewer.clone(), counts.clone()), counts)
}

#[tokio::test(start_paused = true)]
async fn a_review_is_repeated_where_that_may_help_and_not_where_it_cannot() {
    let status = |code: u16| Says::Answer(code, json!({"kind": "Status", "message": "m"}));
    let rows: [(Vec<Says>, usize, bool, &str); 8] = [
        (vec![], 1, true, "answered at once"),
        (vec![status(500), status(429), status(504)], 4, true, "answered at the fourth try"),
        (vec![status(403)], 1, false, "without permission to send reviews"),
        (vec![status(404)], 1, false, "an API server without reviews"),
        (vec![Says::Nothing("gone")], 2, true, "a connection that had died"),
        (vec![Says::Nothing("gone"), Says::Nothing("gone")], 2, false, "no server"),
        (vec![Says::Answer(201, json!({"kind": "Pod"}))], 1, false, "another kind"),
        ((0..9).map(|_| status(500)).collect(), 5, false, "never answered"),
    ];
    for (says, tries, is_answered, what) in rows {
        let reviewer = Reviewer::new(|_, _| allowed(true));
        reviewer.first(says);
        let (backend, counts) = backend(&reviewer);
        let answered = backend.review(ReviewKind::SubjectAccess, &ReviewFlow::user("a"), "{}".to_owned()).await;
        assert_eq!(answered.is_ok(), is_answered, "{what}: {answered:?}");
        assert_eq!(reviewer.count(), tries, "{what}");
        assert_eq!(counts.reviews(ReviewKind::SubjectAccess, is_answered), 1, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_review_takes_ten_seconds_at_most() {
    let reviewer = Reviewer::new(|_, _| Says::Answer(500, Value::Null));
    let (backend, _) = backend(&reviewer);
    let begun = Instant::now();
    // Each try takes a second here, and the pauses are 0.5, 0.75, 1.1 and 1.7 seconds: nine in all.
    let error = backend.review(ReviewKind::Token, &ReviewFlow::address(None), "{}".to_owned()).await.unwrap_err();
    assert!(matches!(error, ReviewError::Rejected { code: 500, .. }), "{error}");
    assert!(begun.elapsed() <= Duration::from_secs(10), "{:?}", begun.elapsed());
    let silent = Reviewer::new(|_, _| Says::Answer(500, Value::Null));
    let (counts, begun) = (Arc::new(AccessCounters::default()), Instant::now());
    let backend = Backend::new(Arc::new(Silent), counts);
    assert_eq!(
        backend.review(ReviewKind::Token, &ReviewFlow::address(None), "{}".to_owned()).await,
        Err(ReviewError::Timeout("TokenReview"))
    );
    assert_eq!((begun.elapsed().as_secs(), silent.count()), (10, 0));
}

/// Never answers.
#[derive(Debug)]
struct Silent;

impl Upstream for Silent {
    fn send(&self, _: Request<UpstreamBody>) -> BoxFuture<'_, Result<Response<UpstreamBody>, String>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn no_more_reviews_are_under_way_than_the_bound_allows() {
    let reviewer = Reviewer::new(|_, _| allowed(true));
    let (backend, _) = backend(&reviewer);
    let (flow, document) = (ReviewFlow::user("a"), json!({}));
    let all = futures::future::join_all(
        (0..250).map(|_| backend.review(ReviewKind::SubjectAccess, &flow, document.to_string())),
    );
    let begun = Instant::now();
    assert!(all.await.iter().all(Result::is_ok));
    // A second for each hundred.
    assert_eq!((reviewer.count(), begun.elapsed().as_secs()), (250, 3));
}

/// Responds on demand, in the order of the requests; records the users under review.
#[derive(Debug)]
struct Held {
    received: Mutex<Vec<String>>,
    answers: Semaphore,
}

impl Held {
    fn new() -> Arc<Held> {
        Arc::new(Held { received: Mutex::default(), answers: Semaphore::new(0) })
    }

    fn received(&self) -> Vec<String> {
        self.received.lock().unwrap().clone()
    }
}

impl Upstream for Held {
    fn send(&self, request: Request<UpstreamBody>) -> BoxFuture<'_, Result<Response<UpstreamBody>, String>> {
        Box::pin(async move {
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let spec = serde_json::from_slice::<Value>(&body).unwrap()["spec"].take();
            let (kind, about) = if spec["token"].is_null() {
                ("SubjectAccessReview", &spec["user"])
            } else {
                ("TokenReview", &spec["token"])
            };
            self.received.lock().unwrap().push(about.as_str().unwrap().to_owned());
            self.answers.acquire().await.unwrap().forget();
            let answer = json!({"kind": kind, "status": {"allowed": true}}).to_string();
            Ok(Response::new(Full::new(Bytes::from(answer)).map_err(|never| match never {}).boxed_unsync()))
        })
    }
}

/// Lets everything that waits for a review continue, without a response or with some; returns the users whose review is
/// first requested then.
macro_rules! answer {
    ($backlog:ident, $answers:expr, $($waiting:ident),*) => {{
        let before = $backlog.received().len();
        $backlog.answers.add_permits($answers);
        // A place that is given back is taken with the next poll.
        for _ in 0..3 {
            $(_ = futures::poll!(&mut $waiting);)*
        }
        $backlog.received().split_off(before)
    }};
}

#[tokio::test(start_paused = true)]
async fn a_question_of_another_user_is_begun_before_those_that_wait() {
    let backlog = Held::new();
    let counts = Arc::new(AccessCounters::default());
    let backend = Arc::new(Backend::new(backlog.clone(), counts.clone()));
    let authorizer = Authorizer::new(backend, counts, Arc::new(CacheKeyHasher::new().unwrap()));
    let attributes = |number: usize| get(&format!("/api/v1/namespaces/n/pods/{number}"), "");
    let reviews_of = |user: &'static str, questions: usize| {
        let user = Identity { user: user.to_owned(), ..Identity::default() };
        let (authorizer, attributes) = (&authorizer, &attributes);
        let all = (0..questions).map(move |number| {
            let user = user.clone();
            async move { authorizer.decide(&user, &attributes(number)).await }
        });
        Box::pin(futures::future::join_all(all))
    };
    let mut flood = reviews_of("tenant", 200);
    assert_eq!(answer!(backlog, 0, flood), ["tenant"; 100], "as many as there are places");
    let mut other = reviews_of("alice", 3);
    assert_eq!(answer!(backlog, 0, flood, other), ["alice"], "at once, before any answer");
    assert_eq!(answer!(backlog, 0, flood, other), [""; 0], "the others wait, as all places are taken");
    // Twenty users can have a first place beyond the others.
    let names: Vec<&'static str> = (0..25).map(|number| &*format!("user-{number:02}").leak()).collect();
    let mut crowd = futures::future::join_all(names.iter().map(|user| reviews_of(user, 1)));
    assert_eq!(answer!(backlog, 0, flood, other, crowd), names[..19]);
    assert_eq!(answer!(backlog, 6, flood, other, crowd), names[19..], "the user with none is next");
    // The user with the fewest is next: a place of the flood's goes to alice, until she has enough.
    assert_eq!(answer!(backlog, 14, flood, other, crowd), [""; 0], "the places beyond are not for users who have one");
    assert_eq!(answer!(backlog, 7, flood, other, crowd), ["alice"]);
    assert_eq!(answer!(backlog, 1, flood, other, crowd), ["alice"]);
    assert_eq!(answer!(backlog, 1, flood, other, crowd), ["tenant"]);
    backlog.answers.add_permits(1000);
    let (flood, other, _) = futures::join!(flood, other, crowd);
    assert!(flood.iter().chain(&other).all(|decision| *decision == Decision::Allowed));
}

#[tokio::test(start_paused = true)]
async fn a_new_token_of_another_address_is_reviewed_before_those_that_wait() {
    let backlog = Held::new();
    let counts = Arc::new(AccessCounters::default());
    let backend = Arc::new(Backend::new(backlog.clone(), counts.clone()));
    let hasher = Arc::new(CacheKeyHasher::new().unwrap());
    let tokens = Tokens::new(backend, counts, hasher, vec!["ours".to_owned()], false);
    let from = |last: u8| Some(IpAddr::from([10, 0, 0, last]));
    let review = |token: String, last: u8| {
        let tokens = &tokens;
        async move { tokens.owner(&token, tokens.look_up(&token), from(last)).await }
    };
    let mut flood = Box::pin(futures::future::join_all(
        (0..320).map(|number: usize| review(format!("wrong-{number}"), u8::try_from(number % 16).unwrap())),
    ));
    assert_eq!(answer!(backlog, 0, flood).len(), 50, "as many as there are places for new tokens");
    let mut other = Box::pin(review("alice".to_owned(), 100));
    assert_eq!(answer!(backlog, 0, flood, other), [""; 0]);
    assert_eq!(answer!(backlog, 1, flood, other), ["alice"], "with the first answer");
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_another_user_is_checked_before_those_that_wait() {
    let backlog = Held::new();
    let counts = Arc::new(AccessCounters::default());
    let backend = Arc::new(Backend::new(backlog.clone(), counts.clone()));
    let hasher = Arc::new(CacheKeyHasher::new().unwrap());
    let authorizer = Arc::new(Authorizer::new(backend.clone(), counts.clone(), hasher.clone()));
    let tokens = Arc::new(Tokens::new(backend, counts.clone(), hasher, vec!["ours".to_owned()], false));
    let config = tokio::sync::watch::Sender::default().subscribe();
    let leases = Leases::new(authorizer, tokens, config, counts, EVERY);
    let watches = |user: &str, watches: usize| {
        let user = Arc::new(Identity { user: user.to_owned(), ..Identity::default() });
        let lease = |number: usize| {
            let attributes = get(&format!("/api/v1/namespaces/{number}/pods"), "");
            leases.lease(&Credential::None, &user, &RequiredPermissions::for_request(Arc::new(attributes)))
        };
        let backlog: Vec<AuthorizationLease> = (0..watches).map(lease).collect();
        Box::pin(async move { futures::future::join_all(backlog.iter().map(AuthorizationLease::renew)).await })
    };
    let (mut flood, mut other) = (watches("tenant", 100), watches("alice", 1));
    tokio::time::advance(EVERY).await;
    assert_eq!(answer!(backlog, 0, flood), ["tenant"; 20], "as many as there are places");
    assert_eq!(answer!(backlog, 0, flood, other), [""; 0]);
    assert_eq!(answer!(backlog, 1, flood, other), ["alice"], "with the first answer");
}
