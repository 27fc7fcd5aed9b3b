//! Bearer tokens: out of the header, reviewed once, remembered as upstream remembers them.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use serde_json::{Value, json};
use tokio::time::advance;

use super::{Reviewer, Says, known, unknown};
use crate::access::backend::Backend;
use crate::access::bucket::TRIES;
use crate::access::counts::{Counts, Review};
use crate::access::flights::Had;
use crate::access::secret::Secret;
use crate::access::tokens::{Owner, Tokens, bearer};

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

fn tokens(reviewer: &Arc<Reviewer>, accept_api_audience: bool) -> (Tokens, Arc<Counts>) {
    let counts = Arc::new(Counts::default());
    let backend = Arc::new(Backend::new(reviewer.clone(), counts.clone()));
    let audiences = vec!["ours".to_owned()];
    let secret = Arc::new(Secret::new().unwrap());
    (Tokens::new(backend, counts.clone(), secret, audiences, accept_api_audience), counts)
}

/// `good` is a token for us, `api` one for the API server, `strange` nobody's, `bad` a broken one.
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
    match tokens.owner(token, None).await {
        Owner::Known(identity) => Some(identity.user.clone()),
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
async fn who_was_authenticated_is_in_the_group_of_those() {
    let reviewer = Reviewer::new(cluster);
    let (tokens, _) = tokens(&reviewer, false);
    let Owner::Known(identity) = tokens.owner("good", None).await else { panic!("not known") };
    assert_eq!(identity.groups, ["team", "system:authenticated"]);
    assert_eq!(identity.uid, "u-1");
    assert_eq!(identity.extra["scopes"], ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn yes_and_no_are_remembered_for_ten_seconds_and_errors_are_not() {
    let reviewer = Reviewer::new(cluster);
    let (tokens, counts) = tokens(&reviewer, false);
    let rows = [
        ("good", 0, 1, "asked"),
        ("good", 9, 1, "kept"),
        ("good", 2, 2, "asked again"),
        ("strange", 0, 3, "asked"),
        ("strange", 5, 3, "a no is kept too"),
        ("strange", 6, 4, "as long"),
        ("bad", 0, 5, "asked"),
        ("bad", 0, 6, "a broken token is an error, and asked about again"),
    ];
    for (token, seconds, reviews, what) in rows {
        advance(Duration::from_secs(seconds)).await;
        tokens.owner(token, None).await;
        assert_eq!(reviewer.count(), reviews, "{token}: {what}");
    }
    assert_eq!(counts.cache_requests(Review::Token, Had::Kept), 2);
    assert_eq!(counts.cache_requests(Review::Token, Had::Asked), 6);
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_is_gone_knows_nobody_and_is_asked_again() {
    let reviewer = Reviewer::new(|_, _| Says::Nothing("connection refused"));
    let (tokens, _) = tokens(&reviewer, true);
    let address = Some(IpAddr::from([10, 0, 0, 1]));
    for _ in 0..TRIES * 2 {
        assert!(matches!(tokens.owner("good", address).await, Owner::Unanswered(_)), "and its address is not blamed");
    }
    reviewer.now(cluster);
    assert_eq!(user(&tokens, "good").await.as_deref(), Some("good-user"));
}

#[tokio::test(start_paused = true)]
async fn one_review_answers_all_who_come_with_the_same_token() {
    let reviewer = Reviewer::new(cluster);
    let (tokens, counts) = tokens(&reviewer, false);
    let all = futures::future::join_all((0..500).map(|_| user(&tokens, "good"))).await;
    assert!(all.iter().all(Option::is_some));
    assert_eq!(reviewer.count(), 1);
    assert_eq!(counts.cache_requests(Review::Token, Had::Shared), 499);
}

#[tokio::test(start_paused = true)]
async fn an_address_with_too_many_wrong_tokens_is_not_listened_to_but_for_known_ones() {
    let reviewer = Reviewer::new(cluster);
    let (tokens, _) = tokens(&reviewer, false);
    let address = Some(IpAddr::from([10, 0, 0, 1]));
    assert!(matches!(tokens.owner("good", address).await, Owner::Known(_)));
    let wrong: Vec<String> = (0..TRIES * 3).map(|number| format!("wrong-{number}")).collect();
    let owners = futures::future::join_all(wrong.iter().map(|token| tokens.owner(token, address))).await;
    let limited = owners.iter().filter(|owner| **owner == Owner::Limited).count();
    assert_eq!(limited, TRIES as usize * 2);
    assert_eq!(reviewer.count(), TRIES as usize + 1, "only the others were asked about");
    assert!(matches!(tokens.owner("good", address).await, Owner::Known(_)), "who is known is let in");
    assert!(matches!(tokens.owner("wrong", Some(IpAddr::from([10, 0, 0, 2]))).await, Owner::Unknown { .. }));
    advance(Duration::from_secs(11)).await;
    assert!(matches!(tokens.owner("good", address).await, Owner::Known(_)), "and so is everybody after some time");
}
