//! Lists: the matrix of versions, pages, order, shapes, headers.

use std::time::Duration;

use serde_json::json;
use tokio::time::advance;

use super::{ALL_SHIRTS, Fixture, SHIRTS};
use crate::model::Version;
use crate::query::ContinueToken;
use crate::server::Settings;
use crate::store::HistoryLimits;

const IN_ORDER: [&str; 9] = ["a-b/x", "a-b/x-y", "a-b/x.y", "a/x", "a/x-y", "a/x.y", "ab/x", "ab/x-y", "ab/x.y"];

#[tokio::test]
async fn custom_lists_have_alphabetical_keys_and_an_empty_continue() {
    let mut fixture = Fixture::new();
    let answer = fixture.get(SHIRTS).await;
    let empty = "{\"apiVersion\":\"stable.example.com/v1\",\"items\":[],\"kind\":\"ShirtList\",\"metadata\":\
                 {\"continue\":\"\",\"resourceVersion\":\"100\"}}\n";
    assert_eq!((answer.code.as_u16(), &*answer.body), (200, empty));
    fixture.put("default", "x", "blue");
    let answer = fixture.get(SHIRTS).await;
    let stored = fixture.shirts.store.snapshot();
    let bytes = String::from_utf8(stored.get("default/x").unwrap().json()).unwrap();
    assert!(answer.body.contains(&format!("\"items\":[{bytes}],")), "{}", answer.body);
    assert_eq!(answer.header("content-type"), "application/json");
    assert_eq!(answer.header("cache-control"), "no-cache, private");
    assert_eq!(answer.header("content-length"), answer.body.len().to_string());
    assert_eq!(answer.header("audit-id").len(), 36);
}

#[tokio::test]
async fn ids_of_responses_reveal_no_number_of_requests() {
    let fixture = Fixture::new();
    let mut ids = Vec::new();
    for _ in 0..50 {
        let id = fixture.get(SHIRTS).await.header("audit-id").replace('-', "");
        ids.push(u64::from_str_radix(&id[16..], 16).unwrap());
    }
    let is_near = |pair: &[u64]| pair[0].abs_diff(pair[1]) < 1 << 32;
    assert!(!ids.windows(2).all(is_near), "an id follows from the one before: {ids:x?}");
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 50, "each is different");
}

#[tokio::test]
async fn built_in_lists_keep_their_items_bare() {
    let mut fixture = Fixture::new();
    let empty = fixture.get("/api/v1/pods").await.body;
    let expected =
        "{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"100\"},\"items\":[]}\n";
    assert_eq!(empty, expected);
    fixture.put_pod("default", "p");
    let list = fixture.get("/api/v1/pods").await.json();
    assert_eq!(list["items"][0]["kind"], json!(null));
    let selected = fixture.get("/api/v1/pods?fieldSelector=spec.nodeName=n1,status.phase=Running").await;
    assert_eq!(selected.names(), ["default/p"]);
    assert_eq!(fixture.get("/api/v1/pods?fieldSelector=spec.nodeName=n2").await.names(), [""; 0]);
}

#[tokio::test]
async fn order_is_that_of_joined_keys() {
    let fixture = Fixture::with_shirts(Settings::default());
    assert_eq!(fixture.get(ALL_SHIRTS).await.names(), IN_ORDER);
    let blue = fixture.get(&format!("{ALL_SHIRTS}?fieldSelector=spec.color%3Dblue")).await;
    assert_eq!(blue.names(), ["a-b/x", "a-b/x.y", "a/x", "a/x.y", "ab/x", "ab/x.y"]);
    let unknown = fixture.get("/apis/stable.example.com/v1/namespaces/nowhere/shirts").await;
    assert_eq!((unknown.code.as_u16(), unknown.names().len()), (200, 0));
}

#[tokio::test]
async fn selectors_select() {
    let fixture = Fixture::with_shirts(Settings::default());
    for (query, expected, why) in [
        ("labelSelector=tone%3Dgreen", &["a-b/x-y", "a/x-y", "ab/x-y"][..], "a label"),
        ("fieldSelector=metadata.name%3Dx", &["a-b/x", "a/x", "ab/x"], "a name"),
        ("fieldSelector=metadata.namespace%3Da", &["a/x", "a/x-y", "a/x.y"], "a namespace"),
        ("fieldSelector=spec.size%3D7,metadata.name!%3Dx,metadata.namespace%3Da", &["a/x-y", "a/x.y"], "several"),
        ("fieldSelector=spec.color%3Dblue,spec.color%3Dgreen", &[], "a contradiction"),
        ("labelSelector=tone+in+(green),!other&fieldSelector=metadata.namespace%3Dab", &["ab/x-y"], "both kinds"),
        ("labelSelector=tone%3Dgreen&labelSelector=tone%3Dblue", &["a-b/x-y", "a/x-y", "ab/x-y"], "the first counts"),
        ("fieldSelector=,,&unknown=1", &IN_ORDER, "empty terms and unknown keys"),
    ] {
        assert_eq!(fixture.get(&format!("{ALL_SHIRTS}?{query}")).await.names(), expected, "{why}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_matrix_of_versions_matches_and_limits() {
    let mut fixture = Fixture::with_shirts(Settings::default());
    fixture.put("a", "y", "red");
    // Nine objects at 109, ten at 110.
    let after_a_x = ContinueToken { version: Some(Version::new(109)), start: "a/x\0".to_owned() }.encode();
    let any_of_token = format!("resourceVersion=0&limit=2&continue={after_a_x}");
    for (query, code, items, version, why) in [
        ("", 200, 10, "110", "the present"),
        ("limit=2", 200, 2, "110", "a page of the present"),
        ("limit=-1", 200, 10, "110", "no limit"),
        ("resourceVersion=0", 200, 10, "110", "any"),
        ("resourceVersion=0&limit=2", 200, 10, "110", "any ignores the limit"),
        (&*any_of_token, 200, 5, "109", "any ignores the limit, not the token"),
        ("resourceVersion=0&resourceVersionMatch=NotOlderThan", 200, 10, "110", "any, in words"),
        ("resourceVersion=109", 200, 10, "110", "not older"),
        ("resourceVersion=109&limit=2", 200, 2, "109", "legacy exact"),
        ("resourceVersion=109&limit=20", 200, 9, "109", "legacy exact, all"),
        ("resourceVersion=109&resourceVersionMatch=NotOlderThan&limit=2", 200, 2, "110", "not older, a page"),
        ("resourceVersion=109&resourceVersionMatch=Exact", 200, 9, "109", "exact"),
        ("resourceVersion=109&resourceVersionMatch=Exact&limit=3", 200, 3, "109", "exact, a page"),
        ("resourceVersion=1&resourceVersionMatch=NotOlderThan", 200, 10, "110", "old is fine"),
    ] {
        let answer = fixture.get(&format!("{ALL_SHIRTS}?{query}")).await;
        assert_eq!(answer.code.as_u16(), code, "{why}: {}", answer.body);
        let list = answer.json();
        assert_eq!(list["items"].as_array().unwrap().len(), items, "{why}");
        assert_eq!(list["metadata"]["resourceVersion"], version, "{why}");
    }
    for (query, code, reason, message) in [
        (
            "resourceVersion=1&resourceVersionMatch=Exact",
            410,
            "Expired",
            "The resourceVersion for the provided list is too old.",
        ),
        ("resourceVersion=1&limit=1", 410, "Expired", "The resourceVersion for the provided list is too old."),
        ("resourceVersion=111", 504, "Timeout", "Timeout: Too large resource version: 111, current: 110"),
        (
            "resourceVersion=111&resourceVersionMatch=Exact",
            504,
            "Timeout",
            "Timeout: Too large resource version: 111, current: 110",
        ),
    ] {
        let answer = fixture.get(&format!("{ALL_SHIRTS}?{query}")).await;
        let status = answer.json();
        assert_eq!(answer.code.as_u16(), code, "{query}");
        assert_eq!((&status["reason"], &status["message"]), (&json!(reason), &json!(message)), "{query}");
        assert_eq!(status["metadata"], json!({}), "{query}");
        assert_eq!(answer.header("retry-after"), if code == 504 { "1" } else { "" }, "{query}");
    }
    let too_large = fixture.get(&format!("{ALL_SHIRTS}?resourceVersion=111")).await.json();
    let cause = json!([{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]);
    assert_eq!(too_large["details"], json!({"causes": cause, "retryAfterSeconds": 1}));
}

#[tokio::test(start_paused = true)]
async fn a_list_of_the_future_waits_for_it() {
    let mut fixture = Fixture::with_shirts(Settings::default());
    let server = fixture.server.clone();
    let path = format!("{ALL_SHIRTS}?resourceVersion=110");
    let request = http::Request::builder().uri(path).body(String::new()).unwrap();
    let results = tokio::join!(server.answer(request), async {
        tokio::time::sleep(std::time::Duration::from_secs(2)).await;
        fixture.put("a", "y", "red");
    });
    assert_eq!(results.0.status(), 200);
}

#[tokio::test]
async fn walks_of_every_page_size_see_everything_once_in_order() {
    let fixture = Fixture::with_shirts(Settings::default());
    for (query, expected) in [
        ("x=1", &IN_ORDER[..]),
        ("fieldSelector=spec.color%3Dblue", &["a-b/x", "a-b/x.y", "a/x", "a/x.y", "ab/x", "ab/x.y"]),
        ("labelSelector=tone!%3Dblue", &["a-b/x-y", "a/x-y", "ab/x-y"]),
        ("fieldSelector=metadata.namespace%3Da", &["a/x", "a/x-y", "a/x.y"]),
    ] {
        for limit in 1..=10 {
            let mut seen = Vec::new();
            let mut token = String::new();
            loop {
                let answer = fixture.get(&format!("{ALL_SHIRTS}?{query}&limit={limit}&continue={token}")).await;
                let list = answer.json();
                seen.extend(answer.names());
                let left = expected.len() - seen.len();
                let remaining = &list["metadata"]["remainingItemCount"];
                let expected_count = if left > 0 { json!(left) } else { json!(null) };
                assert_eq!(*remaining, expected_count, "{query} limit {limit}: exact, and sent before the end only");
                token = list["metadata"]["continue"].as_str().unwrap().to_owned();
                assert_eq!(token.is_empty(), left == 0, "{query} limit {limit}");
                if token.is_empty() {
                    break;
                }
            }
            assert_eq!(seen, expected, "{query} limit {limit}");
        }
    }
}

#[tokio::test]
async fn pages_show_the_state_of_the_first_one() {
    let mut fixture = Fixture::with_shirts(Settings::default());
    let namespace = "/apis/stable.example.com/v1/namespaces/a/shirts";
    let first = fixture.get(&format!("{namespace}?limit=1")).await;
    let token = first.json()["metadata"]["continue"].as_str().unwrap().to_owned();
    let decoded = crate::query::ContinueToken::decode(&token).unwrap();
    assert_eq!((decoded.start.as_str(), decoded.version.unwrap().number()), ("/x\0", 109), "relative to the namespace");
    fixture.delete("a", "x-y");
    fixture.put("a", "x-z", "new");
    fixture.put("a", "x.y", "changed");
    let rest = fixture.get(&format!("{namespace}?limit=5&continue={token}")).await;
    assert_eq!(rest.names(), ["a/x-y", "a/x.y"]);
    assert_eq!(rest.json()["metadata"]["resourceVersion"], "109");
    assert_eq!(rest.json()["items"][1]["spec"]["color"], "blue");
}

#[tokio::test]
async fn the_remaining_count_is_returned_for_any_sender_of_the_previous_page() {
    let mut fixture = Fixture::with_shirts(Settings::default());
    let other = std::sync::Arc::new(crate::server::Server::new(fixture.registry.clone(), Settings::default()));
    for path in [ALL_SHIRTS, "/apis/stable.example.com/v1/namespaces/a-b/shirts"] {
        let all = fixture.get(path).await.names().len();
        let first = fixture.get(&format!("{path}?limit=1")).await.json();
        assert_eq!(first["metadata"]["remainingItemCount"], all - 1, "{path}");
        let token = first["metadata"]["continue"].as_str().unwrap();
        fixture.delete("a-b", "x.y");
        fixture.put("a-b", "x.z", "new");
        let next = format!("{path}?limit=1&continue={token}");
        assert_eq!(fixture.get(&next).await.json()["metadata"]["remainingItemCount"], all - 2, "{path}");
        let own = std::mem::replace(&mut fixture.server, other.clone());
        assert_eq!(
            fixture.get(&next).await.json()["metadata"]["remainingItemCount"],
            all - 2,
            "{path}: another server"
        );
        fixture.server = own;
    }
}

#[tokio::test]
async fn an_expired_page_offers_a_token_that_goes_on() {
    let limits = HistoryLimits { changes: 1, ..HistoryLimits::default() };
    let mut fixture = Fixture::with(Settings::default(), limits);
    for name in ["a", "b", "c"] {
        fixture.put("default", name, "blue");
    }
    let first = fixture.get(&format!("{SHIRTS}?limit=1")).await.json();
    let token = first["metadata"]["continue"].as_str().unwrap().to_owned();
    fixture.put("default", "d", "blue");
    fixture.put("default", "e", "blue");
    let expired = fixture.get(&format!("{SHIRTS}?limit=1&continue={token}")).await;
    assert_eq!((expired.code.as_u16(), &expired.json()["reason"]), (410, &json!("Expired")));
    assert!(expired.message().starts_with("The provided continue parameter is too old to display a consistent list"));
    let replacement = expired.json()["metadata"]["continue"].as_str().unwrap().to_owned();
    let rest = fixture.get(&format!("{SHIRTS}?limit=2&continue={replacement}")).await;
    assert_eq!(rest.names(), ["default/b", "default/c"]);
    assert_eq!(rest.json()["metadata"]["remainingItemCount"], 2, "counted: no client has sent the page before");
    let next = rest.json()["metadata"]["continue"].as_str().unwrap().to_owned();
    assert_eq!(fixture.get(&format!("{SHIRTS}?continue={next}")).await.names(), ["default/d", "default/e"]);
}

#[tokio::test(start_paused = true)]
async fn past_versions_are_shown_for_about_five_minutes() {
    let mut fixture = Fixture::new();
    for name in ["a", "b", "c"] {
        fixture.put("default", name, "blue");
    }
    let first = fixture.get(&format!("{SHIRTS}?limit=1")).await.json();
    let token = first["metadata"]["continue"].as_str().unwrap().to_owned();
    let version = first["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let page = format!("{SHIRTS}?limit=5&continue={token}");
    let exact = format!("{SHIRTS}?resourceVersion={version}&resourceVersionMatch=Exact");
    let limited = format!("{SHIRTS}?resourceVersion={version}&limit=5");
    let answers = async |fixture: &Fixture| {
        let mut codes = Vec::new();
        for path in [&page, &exact, &limited] {
            codes.push(fixture.get(path).await.code.as_u16());
        }
        codes
    };
    advance(Duration::from_secs(900)).await;
    assert_eq!(answers(&fixture).await, [200; 3], "the current version, however old");
    fixture.put("default", "d", "blue");
    advance(Duration::from_secs(299)).await;
    assert_eq!(answers(&fixture).await, [200; 3], "it was current five minutes ago");
    assert_eq!(fixture.get(&page).await.names(), ["default/b", "default/c"]);
    advance(Duration::from_secs(31)).await;
    assert_eq!(answers(&fixture).await, [410; 3]);

    let expired = fixture.get(&exact).await;
    assert_eq!(expired.message(), "The resourceVersion for the provided list is too old.");
    assert_eq!(expired.json()["metadata"], json!({}), "there is no page to go on from");
    let expired = fixture.get(&page).await;
    assert_eq!(expired.json()["reason"], "Expired");
    assert!(expired.message().starts_with("The provided continue parameter is too old to display a consistent list"));
    let replacement = expired.json()["metadata"]["continue"].as_str().unwrap().to_owned();
    let rest = fixture.get(&format!("{SHIRTS}?limit=5&continue={replacement}")).await;
    assert_eq!(rest.names(), ["default/b", "default/c", "default/d"], "from the last key, at the newest version");
    // Changes are still reported: only what is gone is not shown any more.
    let mut watch = fixture.watch(&format!("{SHIRTS}?watch=1&resourceVersion={version}")).await;
    assert!(watch.line().await.starts_with("ADDED default/d"));
}

#[tokio::test]
async fn cluster_scoped_lists_and_warnings() {
    let mut fixture = Fixture::new();
    fixture.put_hat("top");
    let answer = fixture.get("/apis/stable.example.com/v1/hats").await;
    assert_eq!(answer.names(), ["top"]);
    assert_eq!(answer.header("warning"), "299 - \"stable.example.com/v1 Hat is deprecated\"");
    assert_eq!(fixture.get("/apis/stable.example.com/v1/hats?limit=1").await.names(), ["top"]);
}

#[tokio::test]
async fn explain_returns_the_plan_in_a_header() {
    let fixture = Fixture::with_shirts(Settings::default());
    let answer = fixture.get(&format!("{ALL_SHIRTS}?fieldSelector=spec.color%3Dgreen&explain=true")).await;
    assert_eq!(answer.explanation()["plan"], "spec.color=green (3)");
    assert_eq!(answer.names().len(), 3);
    assert_eq!(fixture.get(ALL_SHIRTS).await.header("fieldcache-explain"), "");
}
