//! Documents of reviews: what is sent for a request, and what an answer means; and how an API server is asked.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Reviewer, Says, allowed};
use crate::access::attributes::Attributes;
use crate::access::backend::{Backend, Unanswered};
use crate::access::counts::{Counts, Review};
use crate::access::identity::Identity;
use crate::access::review::{AccessAnswer, TokenAnswer, access_answer, access_spec, token_answer, token_review};
use crate::server::params::Query;

fn spec(identity: &Identity, path: &str, query: &str) -> Value {
    let query = Query::parse(query);
    access_spec(identity, &Attributes::read(&Method::GET, path, |key| query.get(key)).unwrap())
}

#[test]
fn a_review_asks_what_kube_apiserver_would_ask_a_webhook() {
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
fn a_token_is_somebodys_only_for_an_audience_of_ours() {
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

fn backend(reviewer: &Arc<Reviewer>) -> (Backend, Arc<Counts>) {
    let counts = Arc::new(Counts::default());
    (Backend::new(reviewer.clone(), counts.clone()), counts)
}

#[tokio::test(start_paused = true)]
async fn a_review_is_repeated_where_that_may_help_and_not_where_it_cannot() {
    let status = |code: u16| Says::Answer(code, json!({"kind": "Status", "message": "m"}));
    let rows: [(Vec<Says>, usize, bool, &str); 8] = [
        (vec![], 1, true, "answered at once"),
        (vec![status(500), status(429), status(504)], 4, true, "answered at the fourth try"),
        (vec![status(403)], 1, false, "without the right to ask"),
        (vec![status(404)], 1, false, "an API server without reviews"),
        (vec![Says::Nothing("gone")], 2, true, "a connection that had died"),
        (vec![Says::Nothing("gone"), Says::Nothing("gone")], 2, false, "nobody there"),
        (vec![Says::Answer(201, json!({"kind": "Pod"}))], 1, false, "another kind"),
        ((0..9).map(|_| status(500)).collect(), 5, false, "never answered"),
    ];
    for (says, tries, is_answered, what) in rows {
        let reviewer = Reviewer::new(|_, _| allowed(true));
        reviewer.first(says);
        let (backend, counts) = backend(&reviewer);
        let answered = backend.review(Review::SubjectAccess, "{}".to_owned()).await;
        assert_eq!(answered.is_ok(), is_answered, "{what}: {answered:?}");
        assert_eq!(reviewer.count(), tries, "{what}");
        assert_eq!(backend.problem(), answered.err(), "{what}");
        assert_eq!(counts.reviews(Review::SubjectAccess, is_answered), 1, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_review_takes_ten_seconds_at_most() {
    let reviewer = Reviewer::new(|_, _| Says::Answer(500, Value::Null));
    let (backend, _) = backend(&reviewer);
    let begun = Instant::now();
    // Each try takes a second here, and the pauses are 0.5, 0.75, 1.1 and 1.7 seconds: nine in all.
    let error = backend.review(Review::Token, "{}".to_owned()).await.unwrap_err();
    assert!(matches!(error, Unanswered::Refused { code: 500, .. }), "{error}");
    assert!(begun.elapsed() <= Duration::from_secs(10), "{:?}", begun.elapsed());
    let silent = Reviewer::new(|_, _| Says::Answer(500, Value::Null));
    let (counts, begun) = (Arc::new(Counts::default()), Instant::now());
    let backend = Backend::new(Arc::new(Silent), counts);
    assert_eq!(backend.review(Review::Token, "{}".to_owned()).await, Err(Unanswered::Late("TokenReview")));
    assert_eq!((begun.elapsed().as_secs(), silent.count()), (10, 0));
}

/// Never answers.
#[derive(Debug)]
struct Silent;

impl crate::registry::upstream::Upstream for Silent {
    fn send(
        &self,
        _: http::Request<crate::registry::upstream::UpstreamBody>,
    ) -> futures::future::BoxFuture<'_, Result<http::Response<crate::registry::upstream::UpstreamBody>, String>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn no_more_reviews_are_under_way_than_the_bound_allows() {
    let reviewer = Reviewer::new(|_, _| allowed(true));
    let (backend, _) = backend(&reviewer);
    let asked = json!({});
    let all = futures::future::join_all((0..250).map(|_| backend.review(Review::SubjectAccess, asked.to_string())));
    let begun = Instant::now();
    assert!(all.await.iter().all(Result::is_ok));
    // A second for each hundred.
    assert_eq!((reviewer.count(), begun.elapsed().as_secs()), (250, 3));
}
