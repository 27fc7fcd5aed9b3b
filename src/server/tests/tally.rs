//! What is counted of which request.

use std::sync::Arc;
use std::time::Duration;

use http::Method;

use super::{ALL_SHIRTS, Fixture, SHIRTS};
use crate::model::Gvr;
use crate::query::AccessPath;
use crate::registry::LoadState;
use crate::server::Settings;
use crate::server::request_metrics::{AnswerPath, BOUNDS, Counted, RequestMetrics, RequestOutcome, Verb};

/// `VERB resource code path field label = count`, with `-` for missing parts.
fn lines(tally: &RequestMetrics) -> Vec<String> {
    tally.counted().iter().map(line).collect()
}

fn line(counted: &Counted) -> String {
    let outcome = counted.outcome;
    let or_none = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
    let mark = |truth: bool, text: &str| or_none(if truth { text } else { "" });
    format!(
        "{} {} {} {} {} {} = {}",
        outcome.verb.as_str(),
        or_none(&counted.gvr.resource),
        outcome.code,
        or_none(outcome.path.map_or("", AnswerPath::as_str)),
        mark(outcome.has_field_selector, "field"),
        mark(outcome.has_label_selector, "label"),
        counted.buckets.iter().sum::<u64>()
    )
}

#[tokio::test]
async fn every_request_is_counted_once_and_by_what_it_was() {
    let apply = [("content-type", "application/apply-patch+yaml")];
    let json = [("content-type", "application/json")];
    for (method, path, headers, expected) in [
        ("GET", ALL_SHIRTS.to_owned(), &[][..], "LIST shirts 200 scan - - = 1"),
        ("HEAD", ALL_SHIRTS.to_owned(), &[], "LIST shirts 200 scan - - = 1"),
        ("GET", SHIRTS.to_owned(), &[], "LIST shirts 200 index - - = 1"),
        ("GET", format!("{ALL_SHIRTS}?fieldSelector=spec.color%3Dblue"), &[], "LIST shirts 200 index field - = 1"),
        ("GET", format!("{ALL_SHIRTS}?fieldSelector=spec.color%3Dnone"), &[], "LIST shirts 200 index field - = 1"),
        ("GET", format!("{ALL_SHIRTS}?labelSelector=tone&fieldSelector="), &[], "LIST shirts 200 index - label = 1"),
        (
            "GET",
            format!("{ALL_SHIRTS}?labelSelector=tone&fieldSelector=spec.size%3D7"),
            &[],
            "LIST shirts 200 index field label = 1",
        ),
        ("GET", format!("{ALL_SHIRTS}?fieldSelector=spec.none%3Dx"), &[], "LIST shirts 400 - field - = 1"),
        ("GET", format!("{ALL_SHIRTS}?resourceVersion=x"), &[], "LIST shirts 400 - - - = 1"),
        ("GET", format!("{ALL_SHIRTS}?watch=1&resourceVersion=x"), &[], "WATCH shirts 500 - - - = 1"),
        ("HEAD", format!("{ALL_SHIRTS}?watch=1"), &[], "WATCH shirts 200 scan - - = 1"),
        ("GET", "/apis/stable.example.com/v1/namespaces/a/shirts/x".to_owned(), &[], "GET shirts 200 index - - = 1"),
        (
            "GET",
            "/apis/stable.example.com/v1/namespaces/a/shirts/x?fieldSelector=a%3Db".to_owned(),
            &[],
            "GET shirts 200 index - - = 1",
        ),
        ("GET", "/apis/stable.example.com/v1/namespaces/a/shirts/no".to_owned(), &[], "GET shirts 404 index - - = 1"),
        ("GET", "/api/v1/namespaces/a/pods/x/log".to_owned(), &[], "CONNECT pods 405 - - - = 1"),
        ("POST", SHIRTS.to_owned(), &json, "POST shirts 405 - - - = 1"),
        ("PATCH", format!("{SHIRTS}/x"), &json, "PATCH shirts 405 - - - = 1"),
        ("PATCH", format!("{SHIRTS}/x"), &apply, "APPLY shirts 405 - - - = 1"),
        ("DELETE", format!("{SHIRTS}/x"), &[], "DELETE shirts 405 - - - = 1"),
        ("DELETE", format!("{SHIRTS}?labelSelector=a"), &[], "DELETE shirts 405 - - - = 1"),
        ("BREW", SHIRTS.to_owned(), &[], "other shirts 405 - - - = 1"),
        ("GET", "/apis/stable.example.com/v1/coats?fieldSelector=a%3Db".to_owned(), &[], "GET - 404 - - - = 1"),
        ("GET", "/api/v1/secrets/token".to_owned(), &[], "GET - 404 - - - = 1"),
        (
            "GET",
            "/apis/view.fieldcache.dev/v1alpha1/dependents/uid".to_owned(),
            &[],
            "GET dependents 200 index - - = 1",
        ),
        ("GET", "/apis".to_owned(), &[], "GET - 200 - - - = 1"),
        ("GET", "/livez".to_owned(), &[], "GET - 200 - - - = 1"),
        ("GET", "/nowhere/at/all".to_owned(), &[], "GET - 404 - - - = 1"),
        ("POST", "/apis".to_owned(), &json, "POST - 200 - - - = 1"),
        ("POST", "/version".to_owned(), &json, "POST - 405 - - - = 1"),
    ] {
        let fixture = Fixture::with_shirts(Settings::default());
        fixture.whole(Method::from_bytes(method.as_bytes()).unwrap(), &path, headers).await;
        assert_eq!(lines(fixture.server.tally()), [expected], "{method} {path}");
    }
}

#[tokio::test]
async fn a_request_for_what_is_not_loaded_is_counted_as_refused() {
    let fixture = Fixture::loading(Settings::default(), crate::store::HistoryLimits::default());
    fixture.shirts.resource.state.publish(LoadState::Loading("reading".to_owned()));
    fixture.get(ALL_SHIRTS).await;
    assert_eq!(lines(fixture.server.tally()), ["LIST shirts 429 - - - = 1"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_is_counted_when_it_ends_with_its_whole_length() {
    let fixture = Fixture::with_shirts(Settings::default());
    let mut ends = fixture.watch(&format!("{ALL_SHIRTS}?watch=1&resourceVersion=109&timeoutSeconds=20")).await;
    let left = fixture.watch(&format!("{ALL_SHIRTS}?watch=1&fieldSelector=spec.color%3Dpink")).await;
    assert_eq!(lines(fixture.server.tally()), Vec::<String>::new(), "both are in progress");
    assert_eq!(ends.line().await, "end");
    drop(ends);
    tokio::time::advance(Duration::from_secs(3)).await;
    drop(left);
    let counted = fixture.server.tally().counted();
    assert_eq!(
        counted.iter().map(line).collect::<Vec<_>>(),
        ["WATCH shirts 200 - - - = 1", "WATCH shirts 200 index field - = 1"],
        "without initial events nothing is looked for"
    );
    let seconds: Vec<u64> = counted.iter().map(|counted| counted.total.as_secs()).collect();
    assert_eq!(seconds, [20, 23]);
}

#[test]
fn durations_fall_into_the_first_bucket_that_holds_them() {
    for (took, bucket, why) in [
        (Duration::ZERO, 0, "nothing"),
        (Duration::from_micros(100), 0, "a bound belongs to its bucket"),
        (Duration::from_nanos(100_001), 1, "and what is over it does not"),
        (Duration::from_millis(1), 3, "a millisecond"),
        (Duration::from_secs(60), BOUNDS.len() - 1, "the longest request"),
        (Duration::from_secs(3600), BOUNDS.len(), "a watch"),
    ] {
        let tally = RequestMetrics::default();
        let outcome = RequestOutcome {
            verb: Verb::List,
            code: 200,
            path: None,
            has_field_selector: false,
            has_label_selector: false,
        };
        tally.count(None, outcome, took);
        let counted = &tally.counted()[0];
        let mut expected = [0; BOUNDS.len() + 1];
        expected[bucket] = 1;
        assert_eq!((counted.buckets, counted.total), (expected, took), "{why}");
    }
}

#[test]
fn counts_of_many_threads_are_all_there() {
    let tally = Arc::new(RequestMetrics::default());
    let resources = ["shirts", "hats", "pods"].map(|name| Gvr::new("g", "v1", name));
    let outcome = |code| RequestOutcome {
        verb: Verb::Get,
        code,
        path: Some(AnswerPath::Own(AccessPath::Index)),
        has_field_selector: false,
        has_label_selector: false,
    };
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let (tally, resources) = (tally.clone(), resources.clone());
            std::thread::spawn(move || {
                for round in 0..3_000 {
                    let code = if round % 2 == 0 { 200 } else { 404 };
                    tally.count(Some(&resources[round % 3]), outcome(code), Duration::from_micros(7));
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    let counted = tally.counted();
    assert_eq!(counted.len(), 6);
    for kind in counted {
        assert_eq!(kind.buckets[0], 2_000, "{:?} {:?}", kind.gvr, kind.outcome);
        assert_eq!(kind.total, Duration::from_micros(14_000), "{:?} {:?}", kind.gvr, kind.outcome);
    }
}
