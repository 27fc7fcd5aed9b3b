//! Cached decisions, and renewed leases: one renewal for all watches of the same permission, which end when it is gone.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use http::Method;
use serde_json::Value;
use tokio::time::{Instant, advance, sleep_until};

use super::{Reviewer, Says, allowed};
use crate::access::attributes::{Attributes, RequiredPermissions};
use crate::access::authentication::Credential;
use crate::access::authorization::{Authorizer, Decision};
use crate::access::backend::{Backend, ReviewError};
use crate::access::cache_key_hasher::CacheKeyHasher;
use crate::access::counters::{AccessCounters, DecisionResult};
use crate::access::identity::Identity;
use crate::access::lease::{AuthorizationLease, EVERY, Leases};
use crate::access::tokens::Tokens;
use crate::request::{Query, RequestInfo};

fn authorizer(reviewer: &Arc<Reviewer>) -> (Arc<Authorizer>, Arc<AccessCounters>) {
    let (leases, counts) = leases(reviewer);
    (leases.1, counts)
}

fn leases(reviewer: &Arc<Reviewer>) -> ((Leases, Arc<Authorizer>), Arc<AccessCounters>) {
    let counts = Arc::new(AccessCounters::default());
    let backend = Arc::new(Backend::new(reviewer.clone(), counts.clone()));
    let hasher = Arc::new(CacheKeyHasher::new().unwrap());
    let authorizer = Arc::new(Authorizer::new(backend.clone(), counts.clone(), hasher.clone()));
    let tokens = Arc::new(Tokens::new(backend, counts.clone(), hasher, vec!["ours".to_owned()], false));
    let config = tokio::sync::watch::Sender::default().subscribe();
    ((Leases::new(authorizer.clone(), tokens, config, counts.clone(), EVERY), authorizer), counts)
}

/// A lease of a user whose credential is not checked.
fn lease(leases: &Leases, user: &Identity, decided: &Attributes) -> AuthorizationLease {
    leases.lease(
        &Credential::None,
        &Arc::new(user.clone()),
        &RequiredPermissions::for_request(Arc::new(decided.clone())),
    )
}

fn user(name: &str) -> Identity {
    Identity { user: name.to_owned(), ..Identity::default() }
}

fn list(path: &str) -> Attributes {
    Attributes::from_request(&RequestInfo::read(&Method::GET, path, Query::default())).unwrap()
}

/// All users but mallory.
fn cluster(_: &str, review: &Value) -> Says {
    allowed(review["spec"]["user"] != "mallory")
}

#[tokio::test(start_paused = true)]
async fn a_permission_is_cached_for_ten_seconds_and_a_denial_for_one() {
    let reviewer = Reviewer::new(cluster);
    let (authorizer, counts) = authorizer(&reviewer);
    let rows = [
        ("alice", "/api/v1/pods", 0, 1, true, "reviewed"),
        ("alice", "/api/v1/pods", 9, 1, true, "kept"),
        ("alice", "/api/v1/nodes", 0, 2, true, "another resource"),
        ("bob", "/api/v1/pods", 0, 3, true, "another user"),
        ("alice", "/api/v1/pods", 2, 4, true, "after its time"),
        ("mallory", "/api/v1/pods", 0, 5, false, "denied"),
        ("mallory", "/api/v1/pods", 0, 5, false, "kept as well"),
        ("mallory", "/api/v1/pods", 2, 6, false, "not for as long"),
    ];
    for (name, path, seconds, reviews, may, what) in rows {
        advance(Duration::from_secs(seconds)).await;
        let decision = authorizer.decide(&user(name), &list(path)).await;
        assert_eq!(decision == Decision::Allowed, may, "{name} {path}: {what}: {decision:?}");
        assert_eq!(reviewer.count(), reviews, "{name} {path}: {what}");
    }
    assert_eq!((counts.authorizations(DecisionResult::Allowed), counts.authorizations(DecisionResult::Denied)), (5, 3));
}

#[tokio::test(start_paused = true)]
async fn privileged_users_and_health_need_no_review() {
    let reviewer = Reviewer::new(|_, _| allowed(false));
    let (authorizer, _) = authorizer(&reviewer);
    let admin = Identity { groups: vec!["system:masters".to_owned()], ..user("admin") };
    assert_eq!(authorizer.decide(&admin, &list("/api/v1/pods")).await, Decision::Allowed);
    for path in ["/livez", "/readyz", "/healthz"] {
        assert_eq!(authorizer.decide(&user("a"), &list(path)).await, Decision::Allowed, "{path}");
    }
    assert_eq!(reviewer.count(), 0);
    for path in ["/readyz/ping", "/version", "/", "/livezz", "/readyz/"] {
        let decision = authorizer.decide(&user("a"), &list(path)).await;
        assert_eq!(decision, Decision::Denied(String::new()), "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_decision_requests_are_denied_and_that_is_not_cached() {
    let reviewer = Reviewer::new(|_, _| Says::Nothing("refused"));
    let (authorizer, counts) = authorizer(&reviewer);
    assert!(matches!(authorizer.decide(&user("a"), &list("/api/v1/pods")).await, Decision::Unavailable(_)));
    reviewer.now(cluster);
    assert_eq!(authorizer.decide(&user("a"), &list("/api/v1/pods")).await, Decision::Allowed);
    assert_eq!(counts.authorizations(DecisionResult::Error), 1);
}

#[tokio::test(start_paused = true)]
async fn a_request_with_too_long_attributes_is_reviewed_every_time() {
    let reviewer = Reviewer::new(cluster);
    let (authorizer, _) = authorizer(&reviewer);
    // The name counts twice, since the path has it too.
    for (length, reviews) in [(4_000, 1), (6_000, 2)] {
        let before = reviewer.count();
        let attributes = list(&format!("/api/v1/namespaces/n/pods/{}", "p".repeat(length)));
        for _ in 0..2 {
            authorizer.decide(&user("a"), &attributes).await;
        }
        assert_eq!(reviewer.count() - before, reviews, "{length}");
    }
}

/// Holds it to its end, and returns when that was.
async fn hold(permission: AuthorizationLease) -> Instant {
    loop {
        sleep_until(permission.due().unwrap()).await;
        if !permission.renew().await {
            return Instant::now();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_shared_permission_is_renewed_once_about_every_five_minutes() {
    let reviewer = Reviewer::new(cluster);
    let ((leases, authorizer), counts) = leases(&reviewer);
    let (alice, pods) = (user("alice"), list("/api/v1/pods"));
    assert_eq!(authorizer.decide(&alice, &pods).await, Decision::Allowed);
    let begun = Instant::now();
    let watches: Vec<AuthorizationLease> = (0..200).map(|_| lease(&leases, &alice, &pods)).collect();
    assert!(watches.iter().all(|watch| !watch.is_due()));
    let held = watches.into_iter().map(hold);
    let mut all = Box::pin(futures::future::join_all(held));
    let hour = Duration::from_secs(3600);
    assert!(tokio::time::timeout(hour, &mut all).await.is_err(), "none ends while it is allowed");
    let renewals = reviewer.count() - 1;
    // An answer takes a second here, so that one comes every 225 to 281 s, by chance of the key.
    assert!((12..=16).contains(&renewals), "{renewals} in an hour, for 200 watches");
    // A review in progress answers first: later callers cause a new one.
    let mut renewals = renewals;
    loop {
        assert!(tokio::time::timeout(Duration::from_secs(2), &mut all).await.is_err(), "none ends while it is allowed");
        let until_now = std::mem::replace(&mut renewals, reviewer.count() - 1);
        if until_now == renewals {
            break;
        }
    }
    reviewer.now(|_, _| allowed(false));
    let ended = all.await;
    assert!(ended.iter().all(|end| end.duration_since(begun) < hour + Duration::from_secs(300)), "{ended:?}");
    assert_eq!(reviewer.count() - 1, renewals + 1, "one review for all");
    assert_eq!(counts.revocations(), 200);
    reviewer.now(cluster);
    advance(Duration::from_secs(20)).await;
    assert!(!lease(&leases, &alice, &pods).is_due(), "a permission that is granted again is a new one");
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_bridged_for_a_minute_and_no_longer() {
    let reviewer = Reviewer::new(cluster);
    let ((leases, _), _) = leases(&reviewer);
    let (alice, pods) = (user("alice"), list("/api/v1/pods"));
    let bridged = lease(&leases, &alice, &pods);
    reviewer.now(|_, _| Says::Nothing("refused"));
    sleep_until(bridged.due().unwrap()).await;
    assert!(bridged.renew().await, "at first it holds");
    assert!(bridged.due().unwrap() <= Instant::now() + Duration::from_secs(10), "and is soon renewed");
    reviewer.now(cluster);
    sleep_until(bridged.due().unwrap()).await;
    assert!(bridged.renew().await);
    assert!(
        bridged.due().unwrap() > Instant::now() + Duration::from_secs(200),
        "an answer is good for as long as before"
    );
    let begun = Instant::now();
    reviewer.now(|_, _| Says::Nothing("refused"));
    let ended = hold(bridged).await.duration_since(begun);
    assert!((300..400).contains(&ended.as_secs()), "{ended:?}");
}

#[tokio::test(start_paused = true)]
async fn the_lease_of_a_privileged_user_is_never_reviewed() {
    let reviewer = Reviewer::new(cluster);
    let ((leases, _), _) = leases(&reviewer);
    let admin = Identity { groups: vec!["system:masters".to_owned()], ..user("admin") };
    let permission = lease(&leases, &admin, &list("/api/v1/pods"));
    advance(Duration::from_secs(100_000)).await;
    assert!(!permission.is_due() && permission.due().is_none() && permission.renew().await);
    assert_eq!(reviewer.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_user_with_many_reviews_under_way_leaves_places_for_others() {
    let reviewer = Reviewer::new(cluster);
    let (authorizer, _) = authorizer(&reviewer);
    let decide = |who: &str, number: usize| {
        let (authorizer, user) = (authorizer.clone(), user(who));
        Box::pin(async move { authorizer.decide(&user, &list(&format!("/path-{number}"))).await })
    };
    let (mut rejected, mut waiting) = (0, Vec::new());
    for number in 0..300 {
        let mut decision = decide("alice", number);
        match futures::poll!(&mut decision) {
            Poll::Ready(decision) => {
                assert_eq!(decision, Decision::Unavailable(ReviewError::TooMany));
                rejected += 1;
            }
            Poll::Pending => waiting.push(decision),
        }
    }
    assert_eq!((rejected, waiting.len()), (100, 200), "half of all, alone");
    assert_ne!(decide("bob", 0).await, Decision::Unavailable(ReviewError::TooMany));
    for decision in waiting {
        assert_ne!(decision.await, Decision::Unavailable(ReviewError::TooMany));
    }
    assert_ne!(decide("alice", 300).await, Decision::Unavailable(ReviewError::TooMany), "what has ended is free again");
}
