//! Bearer tokens: out of the header, reviewed once, remembered as upstream remembers them.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use rustls::pki_types::UnixTime;
use serde_json::{Value, json};
use tokio::time::advance;

use super::{Reviewer, Says, known, unknown};
use crate::access::backend::Backend;
use crate::access::cache_key_hasher::CacheKeyHasher;
use crate::access::counters::{AccessCounters, ReviewKind};
use crate::access::failure_rate_limiter::TRIES;
use crate::access::single_flight::CacheResult;
use crate::access::tokens::{TokenReviewResult, Tokens, bearer};

#[test]
fn a_bearer_token_is_the_second_word_of_the_header() {
    let rows = [
        ("Bearer abc", Some("abc")),
        ("bearer abc", Some("abc")),
        ("BEARER abc", Some("abc")),
        ("  Bearer abc  ", Some("abc")),
        ("Bearer abc def", Some("abc")),
        ("Bearer  abc", None),
        ("Bearer", None),
        ("Bearer ", None),
        ("Basic YTpi", None),
        ("abc", None),
        ("", None),
    ];
    for (text, expected) in rows {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, HeaderValue::from_str(text).unwrap());
        assert_eq!(bearer(&headers), expected, "{text:?}");
    }
    let mut two = HeaderMap::new();
    two.append(AUTHORIZATION, HeaderValue::from_static("Basic YTpi"));
    two.append(AUTHORIZATION, HeaderValue::from_static("Bearer abc"));
    assert_eq!(bearer(&two), None, "the first header counts");
    assert_eq!(bearer(&HeaderMap::new()), None);
}

fn tokens(reviewer: &Arc<Reviewer>, accept_api_audience: bool) -> (Tokens, Arc<AccessCounters>) {
    let counts = Arc::new(AccessCounters::default());
    let backend = Arc::new(Backend::new(reviewer.clone(), counts.clone()));
    let audiences = vec!["ours".to_owned()];
    let hasher = Arc::new(CacheKeyHasher::new().unwrap());
    (Tokens::new(backend, counts.clone(), hasher, audiences, accept_api_audience), counts)
}

/// Whose a token is, as a request is authenticated.
async fn owner(tokens: &Tokens, token: &str, address: Option<IpAddr>) -> TokenReviewResult {
    tokens.owner(token, tokens.look_up(token), address).await
}

/// `good` is a token for fieldcache, `api` one for the API server, `strange` one of no user, `bad` a broken one.
fn cluster(_: &str, review: &Value) -> Says {
    let asks_for_ours = review["spec"]["audiences"] == json!(["ours"]);
    match (review["spec"]["token"].as_str().unwrap(), asks_for_ours) {
        ("good", true) => known("good-user", &["ours"]),
        ("api", false) => known("api-user", &["https://kubernetes.default.svc"]),
        ("agnostic", _) => known("agnostic-user", &[]),
        ("strange", _) => unknown(""),
        _ => unknown("invalid bearer token"),
    }
}

async fn user(tokens: &Tokens, token: &str) -> Option<String> {
    match owner(tokens, token, None).await {
        TokenReviewResult::Authenticated(identity) => Some(identity.user.clone()),
        _ => None,
    }
}

#[tokio::test(start_paused = true)]
async fn tokens_for_the_api_server_are_accepted_only_where_that_is_wanted() {
    let rows = [
        ("good", false, Some("good-user"), 1),
        ("good", true, Some("good-user"), 1),
        ("api", false, None, 1),
        ("api", true, Some("api-user"), 2),
        ("agnostic", false, None, 1),
        ("agnostic", true, Some("agnostic-user"), 2),
        ("strange", false, None, 1),
        ("bad", true, None, 2),
    ];
    for (token, accept, expected, reviews) in rows {
        let reviewer = Reviewer::new(cluster);
        let (tokens, _) = tokens(&reviewer, accept);
        assert_eq!(user(&tokens, token).await.as_deref(), expected, "{token} {accept}");
        assert_eq!(reviewer.count(), reviews, "{token} {accept}");
    }
}

#[tokio::test(start_paused = true)]
async fn authenticated_users_are_in_their_group() {
    let reviewer = Reviewer::new(cluster);
    let (tokens, _) = tokens(&reviewer, false);
    let TokenReviewResult::Authenticated(identity) = owner(&tokens, "good", None).await else { panic!("not known") };
    assert_eq!(identity.groups, ["team", "system:authenticated"]);
    assert_eq!(identity.uid, "u-1");
    assert_eq!(identity.extra["scopes"], ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn yes_and_no_are_remembered_for_ten_seconds_and_errors_are_not() {
    let reviewer = Reviewer::new(cluster);
    let (tokens, counts) = tokens(&reviewer, false);
    let rows = [
        ("good", 0, 1, "reviewed"),
        ("good", 9, 1, "kept"),
        ("good", 2, 2, "reviewed again"),
        ("strange", 0, 3, "reviewed"),
        ("strange", 5, 3, "a no is kept too"),
        ("strange", 6, 4, "as long"),
        ("bad", 0, 5, "reviewed"),
        ("bad", 0, 6, "a malformed token is an error, and is reviewed again"),
    ];
    for (token, seconds, reviews, what) in rows {
        advance(Duration::from_secs(seconds)).await;
        owner(&tokens, token, None).await;
        assert_eq!(reviewer.count(), reviews, "{token}: {what}");
    }
    assert_eq!(counts.cache_requests(ReviewKind::Token, CacheResult::Hit), 2);
    assert_eq!(counts.cache_requests(ReviewKind::Token, CacheResult::Miss), 6);
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_api_server_authenticates_no_user_and_is_tried_again() {
    let reviewer = Reviewer::new(|_, _| Says::Nothing("connection refused"));
    let (tokens, _) = tokens(&reviewer, true);
    let address = Some(IpAddr::from([10, 0, 0, 1]));
    for _ in 0..TRIES * 2 {
        assert!(
            matches!(owner(&tokens, "good", address).await, TokenReviewResult::Unavailable(_)),
            "and its address is not blamed"
        );
    }
    reviewer.now(cluster);
    assert_eq!(user(&tokens, "good").await.as_deref(), Some("good-user"));
}

#[tokio::test(start_paused = true)]
async fn one_review_answers_all_requests_with_the_same_token() {
    let reviewer = Reviewer::new(cluster);
    let (tokens, counts) = tokens(&reviewer, false);
    let all = futures::future::join_all((0..500).map(|_| user(&tokens, "good"))).await;
    assert!(all.iter().all(Option::is_some));
    assert_eq!(reviewer.count(), 1);
    assert_eq!(counts.cache_requests(ReviewKind::Token, CacheResult::Shared), 499);
}

#[tokio::test(start_paused = true)]
async fn an_address_with_too_many_wrong_tokens_is_not_listened_to_but_for_known_ones() {
    let reviewer = Reviewer::new(cluster);
    let (tokens, _) = tokens(&reviewer, false);
    let address = Some(IpAddr::from([10, 0, 0, 1]));
    assert!(matches!(owner(&tokens, "good", address).await, TokenReviewResult::Authenticated(_)));
    let wrong: Vec<String> = (0..TRIES * 3).map(|number| format!("wrong-{number}")).collect();
    let owners = futures::future::join_all(wrong.iter().map(|token| owner(&tokens, token, address))).await;
    let limited = owners.iter().filter(|owner| **owner == TokenReviewResult::RateLimited).count();
    assert_eq!(limited, TRIES as usize * 2);
    assert_eq!(reviewer.count(), TRIES as usize + 1, "only the others were reviewed");
    assert!(
        matches!(owner(&tokens, "good", address).await, TokenReviewResult::Authenticated(_)),
        "a known user is let in"
    );
    assert!(matches!(
        owner(&tokens, "wrong", Some(IpAddr::from([10, 0, 0, 2]))).await,
        TokenReviewResult::Rejected { .. }
    ));
    advance(Duration::from_secs(11)).await;
    assert!(
        matches!(owner(&tokens, "good", address).await, TokenReviewResult::Authenticated(_)),
        "and so are all users after some time"
    );
}

/// A JSON Web Token that claims to expire so many seconds from now; it is not signed.
fn jwt(subject: &str, expires_in: i64) -> String {
    let now = i64::try_from(UnixTime::now().as_secs()).unwrap();
    let encoded = |document: Value| BASE64_URL_SAFE_NO_PAD.encode(document.to_string());
    let claims = json!({"iss": "cluster", "sub": subject, "exp": now + expires_in});
    format!("{}.{}.signature", encoded(json!({"alg": "RS256"})), encoded(claims))
}

const SHARED: Option<IpAddr> = Some(IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1)));

/// Exhausts the tries of the shared address: with one wrong token again and again, and with ever new ones.
async fn flood(tokens: &Tokens) {
    let mut limited = [false; 2];
    for number in 0..TRIES * 3 {
        limited[0] |= owner(tokens, "bad", SHARED).await == TokenReviewResult::RateLimited;
        limited[1] |= owner(tokens, &format!("wrong-{number}"), SHARED).await == TokenReviewResult::RateLimited;
    }
    assert_eq!(limited, [true, true], "the flood is bounded");
}

/// Accepts the tokens of these subjects.
fn accepts(subjects: &'static [&'static str]) -> Arc<Reviewer> {
    let tokens: Vec<(String, &str)> = subjects.iter().map(|subject| (jwt(subject, 3600), *subject)).collect();
    Reviewer::immediate(move |what, review| {
        let token = review["spec"]["token"].as_str().unwrap();
        match tokens.iter().find(|(entry, _)| entry == token) {
            Some((_, subject)) => known(subject, &["ours"]),
            None => cluster(what, review),
        }
    })
}

#[tokio::test(start_paused = true)]
async fn known_tokens_and_new_ones_pass_while_their_address_sends_wrong_ones() {
    let reviewer = accepts(&["old", "new"]);
    let (tokens, _) = tokens(&reviewer, false);
    let (old, new) = (jwt("old", 3600), jwt("new", 3600));
    assert!(matches!(owner(&tokens, &old, SHARED).await, TokenReviewResult::Authenticated(_)));
    // What was known of it is no longer cached.
    advance(Duration::from_secs(60)).await;
    flood(&tokens).await;
    assert!(
        matches!(owner(&tokens, &old, SHARED).await, TokenReviewResult::Authenticated(_)),
        "a token that was valid a minute ago"
    );
    assert!(matches!(owner(&tokens, &new, SHARED).await, TokenReviewResult::Authenticated(_)), "a token that is new");
    let expired = jwt("expired", -3600);
    assert_eq!(
        owner(&tokens, &expired, SHARED).await,
        TokenReviewResult::RateLimited,
        "one that cannot be valid is none of these"
    );
    let before = reviewer.count();
    assert_eq!(owner(&tokens, "bad", SHARED).await, TokenReviewResult::RateLimited);
    assert_eq!(reviewer.count(), before, "what is limited is not reviewed");
}

#[tokio::test(start_paused = true)]
async fn a_token_that_is_revoked_loses_its_preference() {
    let reviewer = accepts(&["old"]);
    let (tokens, _) = tokens(&reviewer, false);
    let old = jwt("old", 3600);
    assert!(matches!(owner(&tokens, &old, SHARED).await, TokenReviewResult::Authenticated(_)));
    reviewer.now(cluster);
    advance(Duration::from_secs(11)).await;
    flood(&tokens).await;
    assert!(matches!(owner(&tokens, &old, SHARED).await, TokenReviewResult::Rejected { .. }), "reviewed once more");
    let before = reviewer.count();
    for _ in 0..10 {
        assert_eq!(
            owner(&tokens, &old, SHARED).await,
            TokenReviewResult::RateLimited,
            "and then it is one that failed"
        );
    }
    assert_eq!(reviewer.count(), before);
}

#[tokio::test(start_paused = true)]
async fn many_requests_with_one_new_token_take_one_try() {
    let reviewer = Reviewer::new(cluster);
    let (tokens, _) = tokens(&reviewer, false);
    let all = futures::future::join_all((0..TRIES * 3).map(|_| owner(&tokens, "good", SHARED))).await;
    assert!(all.iter().all(|owner| matches!(owner, TokenReviewResult::Authenticated(_))));
    assert_eq!(reviewer.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn reviews_of_new_tokens_leave_places_for_known_ones() {
    let reviewer = Reviewer::new(cluster);
    let (tokens, _) = tokens(&reviewer, false);
    assert!(matches!(owner(&tokens, "good", SHARED).await, TokenReviewResult::Authenticated(_)));
    advance(Duration::from_secs(11)).await;
    let strangers: Vec<String> = (0..400).map(|number| jwt(&number.to_string(), 3600)).collect();
    let from = |number: usize| {
        Some(IpAddr::from([10, 1, u8::try_from(number / 200).unwrap(), u8::try_from(number % 200).unwrap()]))
    };
    let begun = tokio::time::Instant::now();
    let flood = async {
        let reviews = strangers.iter().enumerate().map(|(number, token)| owner(&tokens, token, from(number)));
        futures::future::join_all(reviews).await;
        begun.elapsed()
    };
    let valid = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert!(matches!(owner(&tokens, "good", SHARED).await, TokenReviewResult::Authenticated(_)));
        begun.elapsed()
    };
    let (flooded, valid) = futures::future::join(flood, valid).await;
    assert!(flooded >= Duration::from_secs(8), "fifty of 400 at a time, a second each: {flooded:?}");
    assert!(valid <= Duration::from_secs(2), "at once: {valid:?}");
}
