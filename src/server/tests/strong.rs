//! How fresh responses are: lag, versions ahead of the store, Strong reads, and what one fieldcache reports to another.

#![expect(clippy::disallowed_methods, reason = "requests that wait while the test goes on")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty, Full};
use tokio::time::{Instant, advance};

use super::{ALL_SHIRTS, Fixture, SHIRTS};
use crate::model::Version;
use crate::registry::fieldcache_protocol::{CONSISTENCY_HEADER, PROGRESS_PARAMETER};
use crate::registry::upstream::{Upstream, UpstreamBody};
use crate::server::Settings;
use crate::server::settings::ReadConsistency;
use crate::store::HistoryLimits;

/// A source that answers every list with its version, after a while; version 0 is an error.
#[derive(Debug, Default)]
struct Source {
    version: AtomicU64,
    takes: Duration,
    questions: AtomicU64,
}

impl Upstream for Source {
    fn send(&self, request: Request<UpstreamBody>) -> BoxFuture<'_, Result<Response<UpstreamBody>, String>> {
        assert_eq!(request.uri(), "/apis/stable.example.com/v1/shirts?limit=1");
        assert_eq!(request.headers()[CONSISTENCY_HEADER], "Strong");
        Box::pin(async move {
            self.questions.fetch_add(1, Ordering::Relaxed);
            let version = self.version.load(Ordering::Relaxed);
            tokio::time::sleep(self.takes).await;
            let (code, text) = match version {
                0 => (403, "{\"message\":\"forbidden\"}".to_owned()),
                version => (200, format!("{{\"metadata\":{{\"resourceVersion\":\"{version}\"}},\"items\":[]}}")),
            };
            let body = UpstreamBody::new(Full::from(text).map_err(|never| match never {}));
            Ok(Response::builder().status(code).body(body).unwrap())
        })
    }
}

fn strong(version: u64, takes: Duration) -> (Fixture, Arc<Source>) {
    let source = Arc::new(Source { version: AtomicU64::new(version), takes, ..Source::default() });
    let settings =
        Settings { upstream: Some(source.clone()), consistency: ReadConsistency::Strong, ..Settings::default() };
    (Fixture::with(settings, HistoryLimits::default()), source)
}

#[tokio::test(start_paused = true)]
async fn reads_of_a_lagging_store_are_rejected_with_the_cause_until_it_progresses() {
    let settings = Settings { max_lag: Some(Duration::from_secs(90)), ..Settings::default() };
    let mut fixture = Fixture::with(settings, HistoryLimits::default());
    fixture.put("default", "a", "blue");
    advance(Duration::from_secs(1000)).await;
    assert_eq!(fixture.get(SHIRTS).await.code, 200, "what has no source behind it cannot lag");
    let live = fixture.shirts.resource.state.freshness();
    live.note_progress(Instant::now());
    advance(Duration::from_secs(89)).await;
    assert_eq!(fixture.get(SHIRTS).await.code, 200, "within the accepted lag");
    live.note_interruption("cluster https://a cannot be reached".to_owned());
    advance(Duration::from_secs(10)).await;
    let one = format!("{SHIRTS}/a");
    for path in [SHIRTS, &format!("{SHIRTS}?resourceVersion=0"), &format!("{SHIRTS}?watch=1"), &one] {
        let began = Instant::now();
        let refused = fixture.get(path).await;
        assert_eq!(refused.code, StatusCode::SERVICE_UNAVAILABLE, "{path}");
        let message = refused.message();
        assert!(message.contains("the maximum is 90 s"), "{path}: {message}");
        assert!(message.ends_with(": cluster https://a cannot be reached"), "{path}: {message}");
        assert_eq!(refused.header("retry-after"), "", "clients would repeat it silently");
        assert_eq!(began.elapsed().as_secs(), 3, "{path}: a progress notification may be on its way");
    }
    let exact = format!("{SHIRTS}?resourceVersion=101&resourceVersionMatch=Exact");
    assert_eq!(fixture.get(&exact).await.code, 200, "the state at one version is what it is");
    let proof = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        live.note_progress(Instant::now());
    };
    let (answer, ()) = tokio::join!(fixture.get(SHIRTS), proof);
    assert_eq!(answer.code, 200, "the progress notification came while the request waited");
}

#[tokio::test(start_paused = true)]
async fn a_version_ahead_of_the_store_is_requested_while_a_reader_waits() {
    let fixture = Fixture::new();
    let live = fixture.shirts.resource.state.freshness();
    let most = Duration::from_secs(90);
    assert_eq!(live.awaited(Version::new(100)), None);
    let path = format!("{ALL_SHIRTS}?resourceVersion=150");
    let seen = async {
        live.progress_needed(Version::new(100), most).await;
        live.awaited(Version::new(100))
    };
    let (answer, wanted) = tokio::join!(fixture.get(&path), seen);
    assert_eq!(answer.code, StatusCode::GATEWAY_TIMEOUT);
    assert_eq!(wanted, Some(Version::new(150)), "while the request waits");
    assert_eq!(live.awaited(Version::new(100)), None, "no request waits any more");
    assert!(live.want(Version::new(160)) && live.want(Version::new(155)));
    assert_eq!(live.awaited(Version::new(150)), Some(Version::new(160)), "the newest of all wishes");
    assert_eq!(live.awaited(Version::new(160)), None, "reached");
}

#[tokio::test(start_paused = true)]
async fn progress_is_requested_before_the_lag_is_too_long() {
    let fixture = Fixture::new();
    let live = fixture.shirts.resource.state.freshness();
    for (max_lag, expected) in [(90, 67_500), (4, 2_500), (2, 500)] {
        live.note_progress(Instant::now());
        let began = Instant::now();
        live.progress_needed(Version::new(100), Duration::from_secs(max_lag)).await;
        let after = began.elapsed().as_millis();
        assert!(after.abs_diff(expected) <= 1, "lag of {max_lag} s: after {after} ms");
    }
    live.note_progress(Instant::now());
    assert!(live.needs_progress(Version::new(100), Duration::from_millis(1400)), "all the time");
    live.forget();
    assert!(!live.needs_progress(Version::new(100), Duration::from_secs(90)), "nothing to be proven");
}

#[tokio::test(start_paused = true)]
async fn a_strong_read_is_answered_from_the_store_at_the_sources_version() {
    let (mut fixture, source) = strong(101, Duration::from_millis(1));
    fixture.put("default", "a", "blue");
    let paths =
        [SHIRTS.to_owned(), format!("{SHIRTS}/a"), format!("{ALL_SHIRTS}?fieldSelector=spec.color=blue&limit=1")];
    for path in &paths {
        let answer = fixture.get(path).await;
        assert_eq!((answer.code.as_u16(), answer.header("fieldcache-read")), (200, "own"), "{path}");
    }
    source.version.store(102, Ordering::Relaxed);
    let path = format!("{ALL_SHIRTS}?fieldSelector=spec.color=blue");
    let server = fixture.server.clone();
    let reading = tokio::spawn(async move {
        let request = Request::builder().uri(&path).body(Empty::<Bytes>::new()).unwrap();
        let response = server.answer(request).await;
        let read = response.headers()["fieldcache-read"].to_str().unwrap().to_owned();
        (read, String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap())
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!reading.is_finished(), "the store is behind");
    fixture.put("default", "b", "blue");
    let (read, body) = reading.await.unwrap();
    assert_eq!(read, "catch-up");
    assert!(body.contains("\"name\":\"b\""), "{body}");
    let initial = format!("{SHIRTS}?watch=1&timeoutSeconds=1");
    source.version.store(103, Ordering::Relaxed);
    let mut watched = fixture.watch(&initial).await;
    fixture.put("default", "c", "blue");
    assert_eq!(watched.lines(3).await.last().unwrap(), "ADDED default/c@103", "a watch's initial events wait as well");
    for (query, why) in [("resourceVersion=0", "any state"), ("resourceVersion=101", "not older than")] {
        let questions_before = source.questions.load(Ordering::Relaxed);
        assert_eq!(fixture.get(&format!("{SHIRTS}?{query}")).await.header("fieldcache-read"), "own", "{why}");
        assert_eq!(source.questions.load(Ordering::Relaxed), questions_before, "{why}: the source gets no request");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_chooses_its_consistency_and_an_unanswered_question_is_no_stale_answer() {
    let (mut fixture, source) = strong(0, Duration::ZERO);
    fixture.put("default", "a", "blue");
    let refused = fixture.get(SHIRTS).await;
    assert_eq!(refused.code, StatusCode::SERVICE_UNAVAILABLE);
    assert!(
        refused
            .message()
            .ends_with("the source returned 403 for /apis/stable.example.com/v1/shirts?limit=1: forbidden")
    );
    let eventual = fixture.get_with(SHIRTS, &[(CONSISTENCY_HEADER, "Eventual")]).await;
    assert_eq!((eventual.code.as_u16(), eventual.header("fieldcache-read")), (200, ""));
    let wrong = fixture.get_with(SHIRTS, &[(CONSISTENCY_HEADER, "strong")]).await;
    assert_eq!(wrong.code, StatusCode::BAD_REQUEST, "{}", wrong.body);
    source.version.store(200, Ordering::Relaxed);
    let behind = fixture.get(SHIRTS).await;
    assert_eq!(behind.code, StatusCode::GATEWAY_TIMEOUT, "the store never got there: {}", behind.body);
}

#[tokio::test(start_paused = true)]
async fn strong_reads_that_come_together_share_two_questions() {
    let (mut fixture, source) = strong(101, Duration::from_millis(10));
    fixture.put("default", "a", "blue");
    let reads = (0..50).map(|number| {
        let fixture = &fixture;
        async move {
            tokio::time::sleep(Duration::from_millis(number / 10)).await;
            fixture.get(SHIRTS).await
        }
    });
    for answer in futures::future::join_all(reads).await {
        assert_eq!(answer.code, 200);
    }
    // The first ones share a freshness request. It was sent before the others came, so they need another one.
    assert_eq!(source.questions.load(Ordering::Relaxed), 2);
}

#[tokio::test(start_paused = true)]
async fn reads_after_a_write_that_went_through_show_it() {
    let mut fixture = Fixture::new();
    fixture.put("default", "a", "blue");
    fixture.shirts.resource.state.note_write(Version::new(102));
    let server = fixture.server.clone();
    let reading = tokio::spawn(async move {
        let response = server.answer(Request::builder().uri(SHIRTS).body(Empty::<Bytes>::new()).unwrap()).await;
        String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!reading.is_finished());
    fixture.put("default", "b", "blue");
    assert!(reading.await.unwrap().contains("\"name\":\"b\""));

    // A restored etcd counts from the start again: what was written before it is nothing to wait for.
    fixture.shirts.resource.state.note_write(Version::new(5000));
    fixture.shirts.store.replace(&[], Version::new(50));
    fixture.shirts.publish();
    let began = Instant::now();
    assert_eq!(fixture.get(SHIRTS).await.code, 200);
    assert_eq!(began.elapsed(), Duration::ZERO, "nothing is waited for");
}

#[tokio::test(start_paused = true)]
async fn another_fieldcache_gets_every_progress_notification_and_its_age() {
    let mut fixture = Fixture::new();
    let shirts = fixture.shirts.resource.clone();
    let live = shirts.state.freshness();
    live.note_progress(Instant::now());
    advance(Duration::from_secs(2)).await;
    let path = format!("{ALL_SHIRTS}?watch=1&resourceVersion=100&allowWatchBookmarks=1&timeoutSeconds=30");
    let mut plain = fixture.watch(&path).await;
    let mut informed = fixture.watch(&format!("{path}&{PROGRESS_PARAMETER}=0")).await;
    let lag = |event: serde_json::Value| {
        let metadata = &event["object"]["metadata"];
        let lag = metadata["annotations"]["fieldcache.dev/lag-milliseconds"].as_str().unwrap_or("none").to_owned();
        format!("{} {} {lag}", event["type"].as_str().unwrap(), metadata["resourceVersion"].as_str().unwrap())
    };
    assert_eq!(lag(informed.next().await.unwrap()), "BOOKMARK 100 2000", "at once");
    fixture.shirts.publish();
    informed.expect_silence().await;
    live.note_progress(Instant::now());
    fixture.shirts.store.advance_to(Version::new(105));
    fixture.shirts.publish();
    assert_eq!(lag(informed.next().await.unwrap()), "BOOKMARK 105 0", "a progress notification without an event");
    fixture.version = 105;
    live.note_progress(Instant::now());
    fixture.put("default", "a", "blue");
    assert_eq!(informed.line().await, "ADDED default/a@106");
    informed.expect_silence().await;
    assert_eq!(plain.line().await, "ADDED default/a@106", "a client that did not request it gets nothing more");
    plain.expect_silence().await;

    let mut wanting = fixture.watch(&format!("{path}&{PROGRESS_PARAMETER}=120")).await;
    assert_eq!(live.awaited(Version::new(106)), Some(Version::new(120)), "what is waited for there is wanted here");
    assert_eq!(wanting.line().await, "ADDED default/a@106");
}

/// Many requests for a version; returns their codes and how long they took.
async fn many(fixture: &Fixture, version: u64) -> (Vec<u16>, Duration) {
    let began = Instant::now();
    let path = format!("{ALL_SHIRTS}?resourceVersion={version}");
    let answers = futures::future::join_all((0..100).map(|_| fixture.get(&path))).await;
    (answers.iter().map(|answer| answer.code.as_u16()).collect(), began.elapsed())
}

#[tokio::test(start_paused = true)]
async fn versions_far_ahead_cost_one_question_and_no_wait() {
    let fixture = Fixture::new();
    let live = fixture.shirts.resource.state.freshness();
    let most = Duration::from_secs(90);
    let questions = std::sync::atomic::AtomicUsize::new(0);
    // A feed and its source, which is at version 120.
    let source = async {
        loop {
            live.progress_needed(Version::new(100), most).await;
            let requested_at = Instant::now();
            questions.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(10)).await;
            live.note_source_version(requested_at, Version::new(120));
        }
    };
    let questions_sent = || questions.load(std::sync::atomic::Ordering::Relaxed);
    let readers = async {
        for version in [1_000_000_000_000_000_000, u64::MAX] {
            let (codes, took) = many(&fixture, version).await;
            assert_eq!(codes, [504; 100]);
            assert!(took < Duration::from_secs(1), "no request waits once the source has responded: {took:?}");
        }
        assert_eq!(questions_sent(), 1, "all of them share one question");
        assert_eq!(live.awaited(Version::new(100)), None, "and no version is requested any more");
        // A version that the cluster may have reached since is requested again.
        let (codes, took) = many(&fixture, 130).await;
        assert!(codes == [504; 100] && took < Duration::from_secs(1), "{codes:?} {took:?}");
        assert_eq!(questions_sent(), 2);
        // The statement does not hold for ever: a cluster may be restored to later versions.
        advance(Duration::from_secs(10)).await;
        assert_eq!(many(&fixture, u64::MAX).await.0, [504; 100]);
        assert_eq!(questions_sent(), 3);
    };
    tokio::select! {
        biased;
        () = readers => {}
        () = source => {}
    }
}

#[tokio::test(start_paused = true)]
async fn a_version_that_the_source_has_reached_is_still_waited_for() {
    let mut fixture = Fixture::new();
    let server = fixture.server.clone();
    let path = format!("{ALL_SHIRTS}?resourceVersion=101");
    let reading = tokio::spawn(async move {
        server.answer(Request::builder().uri(path).body(Empty::<Bytes>::new()).unwrap()).await.status()
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    fixture.shirts.resource.state.freshness().note_source_version(Instant::now(), Version::new(101));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!reading.is_finished(), "its events are on their way");
    fixture.put("default", "a", "blue");
    assert_eq!(reading.await.unwrap(), 200);
}
