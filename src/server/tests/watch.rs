//! Watch scripts: starts, transitions, bookmarks, ends.

use std::time::Duration;

use futures::FutureExt;
use http::Method;
use http_body_util::BodyExt;
use serde_json::json;
use tokio::time::{Instant, advance, sleep};

use super::{ALL_SHIRTS, Fixture, SHIRTS, catalog};
use crate::json::cursor::bytes_read_so_far;
use crate::model::Version;
use crate::registry::{Departure, Gone, GoneReason, LoadState};
use crate::server::Settings;
use crate::store::{HistoryLimits, RelistMode};

fn watch(query: &str) -> String {
    format!("{SHIRTS}?watch=true&{query}")
}

#[tokio::test(start_paused = true)]
async fn starts_follow_the_table() {
    let mut fixture = Fixture::new();
    fixture.put("default", "b", "blue");
    fixture.put("default", "a", "blue");
    let both = ["ADDED default/a@102", "ADDED default/b@101"];
    let marked = ["ADDED default/a@102", "ADDED default/b@101", "BOOKMARK @102"];
    let initial = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let live = "sendInitialEvents=false&resourceVersionMatch=NotOlderThan";
    for (query, expected, why) in [
        ("".to_owned(), &both[..], "unset"),
        ("allowWatchBookmarks=true".to_owned(), &marked, "unset with bookmarks: defaulted"),
        ("resourceVersion=0&allowWatchBookmarks=true".to_owned(), &marked, "zero likewise"),
        (format!("{initial}&allowWatchBookmarks=1"), &marked, "requested"),
        (format!("{initial}&resourceVersion=101&allowWatchBookmarks=1"), &marked, "not older than"),
        (initial.to_owned(), &both, "a client that did not request the mark does not get it"),
        ("resourceVersion=101".to_owned(), &["ADDED default/a@102"], "after a version"),
        ("resourceVersion=102&allowWatchBookmarks=true".to_owned(), &[], "after the newest"),
        ("resourceVersion=105".to_owned(), &[], "the future is silent"),
        (live.to_owned(), &[], "from now on"),
        (format!("{live}&resourceVersion=0"), &[], "from now on, zero"),
    ] {
        let mut watched = fixture.watch(&watch(&query)).await;
        assert_eq!(watched.lines(expected.len()).await, expected, "{why}");
        watched.expect_silence().await;
    }
    for path in [
        "/apis/stable.example.com/v1/watch/namespaces/default/shirts?allowWatchBookmarks=true",
        "/apis/stable.example.com/v1/watch/shirts?resourceVersion=0",
    ] {
        let mut watched = fixture.watch(path).await;
        assert_eq!(watched.lines(2).await, both, "the old path: {path}");
        watched.expect_silence().await;
    }
    let mut single = fixture.watch("/apis/stable.example.com/v1/watch/namespaces/default/shirts/b").await;
    assert_eq!(single.line().await, "ADDED default/b@101");
    fixture.put("default", "a", "green");
    fixture.put("default", "b", "green");
    assert_eq!(single.line().await, "MODIFIED default/b@104");
}

#[tokio::test(start_paused = true)]
async fn the_end_bookmark_is_annotated_and_bare() {
    let mut fixture = Fixture::new();
    fixture.put_pod("default", "p");
    let mut shirts = fixture.watch(&watch("allowWatchBookmarks=true")).await;
    let expected = json!({"type": "BOOKMARK", "object": {
        "apiVersion": "stable.example.com/v1", "kind": "Shirt",
        "metadata": {"annotations": {"k8s.io/initial-events-end": "true"}, "resourceVersion": "100"},
    }});
    assert_eq!(shirts.next().await, Some(expected));
    let mut pods = fixture.watch("/api/v1/pods?watch=1&allowWatchBookmarks=true").await;
    let added = pods.next().await.unwrap();
    assert_eq!((&added["object"]["kind"], &added["object"]["apiVersion"]), (&json!("Pod"), &json!("v1")));
    assert_eq!(added["object"]["status"]["phase"], "Running");
    let bookmark = pods.next().await.unwrap();
    assert_eq!(
        bookmark["object"],
        json!({
            "kind": "Pod", "apiVersion": "v1", "spec": {"containers": null}, "status": {},
            "metadata": {"annotations": {"k8s.io/initial-events-end": "true"}, "resourceVersion": "101"},
        }),
        "a built-in type has members that are always written"
    );
}

#[tokio::test(start_paused = true)]
async fn bookmarks_of_tables_without_objects_have_one_only_to_mark_the_end_of_the_initial_events() {
    let fixture = Fixture::new();
    let path = watch("allowWatchBookmarks=true&timeoutSeconds=10&includeObject=None");
    let accept = "application/json;as=Table;g=meta.k8s.io;v=v1";
    let mut watched = fixture.watch_with(&path, &[("accept", accept)]).await;
    let end = watched.next().await.unwrap();
    let object = &end["object"]["rows"][0]["object"];
    assert_eq!(object["metadata"]["annotations"]["k8s.io/initial-events-end"], "true", "{end}");
    let last = watched.next().await.unwrap();
    assert_eq!((&last["type"], &last["object"]["rows"][0]["object"]), (&json!("BOOKMARK"), &json!(null)), "{last}");
}

#[tokio::test(start_paused = true)]
async fn transitions_live_and_resumed_are_the_same() {
    let mut fixture = Fixture::new();
    let selected =
        |version: &str| format!("{ALL_SHIRTS}?watch=1&{version}&fieldSelector=spec.color%3Dblue&labelSelector=tone");
    let mut live = fixture.watch(&selected("resourceVersion=100")).await;
    fixture.put("default", "x", "red");
    fixture.put("default", "x", "blue");
    fixture.put("other", "y", "blue");
    fixture.put("default", "x", "blue");
    fixture.put("default", "x", "green");
    fixture.delete("default", "x");
    fixture.delete("other", "y");
    let expected = [
        "ADDED default/x@102",
        "ADDED other/y@103",
        "MODIFIED default/x@104",
        "DELETED default/x@105",
        "DELETED other/y@107",
    ];
    assert_eq!(live.lines(5).await, expected);
    live.expect_silence().await;
    let mut resumed = fixture.watch(&selected("resourceVersion=100")).await;
    assert_eq!(resumed.lines(5).await, expected);
    let mut late = fixture.watch(&selected("resourceVersion=104")).await;
    let deleted = late.next().await.unwrap();
    assert_eq!(deleted["type"], "DELETED");
    assert_eq!(deleted["object"]["spec"]["color"], "blue", "the previous object");
    assert_eq!(deleted["object"]["metadata"]["resourceVersion"], "105", "the version of the change");
    assert_eq!(late.line().await, "DELETED other/y@107");
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_the_future_skips_what_comes_before() {
    let mut fixture = Fixture::new();
    let mut watched = fixture.watch(&watch("resourceVersion=102&allowWatchBookmarks=true")).await;
    watched.expect_silence().await;
    sleep(Duration::from_secs(62)).await;
    watched.expect_silence().await;
    for name in ["a", "b", "c"] {
        fixture.put("default", name, "blue");
    }
    assert_eq!(watched.line().await, "ADDED default/c@103");
}

#[tokio::test(start_paused = true)]
async fn too_old_and_too_large_are_error_events() {
    let limits = HistoryLimits { changes: 2, ..HistoryLimits::default() };
    let mut fixture = Fixture::with(Settings::default(), limits);
    for name in ["a", "b", "c", "d"] {
        fixture.put("default", name, "blue");
    }
    let mut watched = fixture.watch(&watch("resourceVersion=101")).await;
    let expected = json!({"type": "ERROR", "object": {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "too old resource version: 101 (102)", "reason": "Expired", "code": 410,
    }});
    assert_eq!(watched.next().await, Some(expected));
    watched.expect_end("after the error").await;
    let mut oldest = fixture.watch(&watch("resourceVersion=102")).await;
    assert_eq!(oldest.lines(2).await, ["ADDED default/c@103", "ADDED default/d@104"]);
    let started = Instant::now();
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=105";
    let mut future = fixture.watch(&watch(query)).await;
    let error = future.next().await.unwrap();
    assert_eq!((&error["type"], &error["object"]["code"]), (&json!("ERROR"), &json!(504)));
    assert_eq!(error["object"]["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
    assert_eq!(started.elapsed().as_secs(), 3);
    future.expect_end("after the error").await;
}

#[tokio::test(start_paused = true)]
async fn bookmarks_come_each_minute_and_before_the_end() {
    let mut fixture = Fixture::new();
    let mut watched = fixture.watch(&watch("resourceVersion=100&allowWatchBookmarks=1&timeoutSeconds=100")).await;
    let started = Instant::now();
    fixture.shirts.store.advance_to(Version::new(140));
    fixture.shirts.publish();
    assert_eq!(watched.line().await, "BOOKMARK @140");
    let after = started.elapsed();
    assert!((Duration::from_secs(60)..Duration::from_millis(61_300)).contains(&after), "{after:?}");
    assert_eq!(watched.line().await, "BOOKMARK @140");
    assert_eq!(started.elapsed().as_secs(), 98);
    assert_eq!(watched.line().await, "end");
    assert_eq!(started.elapsed().as_secs(), 100);
    let mut without_bookmarks = fixture.watch(&watch("resourceVersion=100&timeoutSeconds=100")).await;
    assert_eq!(without_bookmarks.line().await, "end", "without the parameter there is none");
}

#[tokio::test(start_paused = true)]
async fn the_bookmark_before_the_end_comes_late_rather_than_not_at_all() {
    let mut fixture = Fixture::new();
    let mut watched = fixture.watch(&watch("resourceVersion=100&allowWatchBookmarks=1&timeoutSeconds=4")).await;
    let mut short = fixture.watch(&watch("resourceVersion=100&allowWatchBookmarks=1&timeoutSeconds=1")).await;
    fixture.put("default", "x", "blue");
    for watched in [&mut watched, &mut short] {
        assert_eq!(watched.line().await, "ADDED default/x@101");
    }
    // No task had time for it.
    sleep(Duration::from_secs(5)).await;
    assert_eq!(watched.lines(2).await, ["BOOKMARK @101", "end"]);
    assert_eq!(short.line().await, "end", "so short a watch has none");
}

#[tokio::test(start_paused = true)]
async fn watches_last_as_long_as_requested() {
    let fixture = Fixture::new();
    for (query, range) in [
        ("timeoutSeconds=1", 1..2),
        ("timeoutSeconds=4&allowWatchBookmarks=1&resourceVersion=100", 2..3),
        ("timeoutSeconds=0", 1800..3601),
        ("", 1800..3601),
        ("timeoutSeconds=-1", 0..1),
    ] {
        let started = Instant::now();
        let mut watched = fixture.watch(&watch(query)).await;
        let line = watched.line().await;
        let expected = if query.contains("Bookmarks") { "BOOKMARK @100" } else { "end" };
        assert_eq!(line, expected, "{query}");
        assert!(range.contains(&started.elapsed().as_secs()), "{query}: {:?}", started.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_keeps_its_place_and_loses_it_cleanly() {
    let limits = HistoryLimits { changes: 50, ..HistoryLimits::default() };
    let mut fixture = Fixture::with(Settings::default(), limits);
    let mut slow = fixture.watch(&watch("resourceVersion=100")).await;
    let mut quick = fixture.watch(&watch("resourceVersion=100")).await;
    for _ in 0..40 {
        fixture.put("default", "x", "blue");
        quick.line().await;
    }
    assert_eq!(slow.lines(2).await, ["ADDED default/x@101", "MODIFIED default/x@102"]);
    assert_eq!(slow.lines(38).await[37], "MODIFIED default/x@140");
    // What its mailbox holds is sent whatever history holds.
    for _ in 0..60 {
        fixture.put("default", "x", "blue");
        quick.line().await;
    }
    assert_eq!(slow.lines(60).await[59], "MODIFIED default/x@200");
    for _ in 0..120 {
        fixture.put("default", "x", "blue");
        quick.line().await;
    }
    slow.expect_end("history has moved past it").await;
    quick.expect_silence().await;
    assert_eq!(fixture.shirts.resource.state.open_watches(), 1, "the ended one no longer counts");
    drop((slow, quick));
    assert_eq!(fixture.shirts.resource.state.open_watches(), 0);
}

#[tokio::test(start_paused = true)]
async fn batches_are_bounded_however_much_there_is() {
    let mut fixture = Fixture::new();
    for number in 0..2000 {
        fixture.put_without_publishing("default", &format!("x{number:04}"), "blue");
    }
    fixture.shirts.publish();
    for query in ["resourceVersion=100", "resourceVersion=0"] {
        let mut body = fixture.send(Method::GET, &watch(query), &[]).await.into_body();
        let (mut lines, mut frames) = (0, 0);
        while lines < 2000 {
            let bytes = body.frame().await.unwrap().unwrap().into_data().unwrap();
            assert!(bytes.len() < 65 * 1024, "{query}");
            lines += bytes.iter().filter(|byte| **byte == b'\n').count();
            frames += 1;
        }
        assert!(frames > 5, "{query}: {frames}");
    }
}

#[tokio::test(start_paused = true)]
async fn events_and_lists_agree_whenever_a_watch_begins() {
    let mut fixture = Fixture::new();
    let mut watched = fixture.watch(&watch("resourceVersion=100")).await;
    for number in 0..20 {
        let version = fixture.put("default", &format!("x{number}"), "blue");
        let line = watched.line().await;
        assert_eq!(line, format!("ADDED default/x{number}@{version}"));
        let list = fixture.get(SHIRTS).await.json();
        assert_eq!(list["metadata"]["resourceVersion"], version.to_string());
    }
}

#[tokio::test(start_paused = true)]
async fn what_ends_a_resource_ends_its_watches_and_no_others() {
    let mut fixture = Fixture::new();
    let mut shirts = fixture.watch(&watch("resourceVersion=100")).await;
    let mut hats = fixture.watch("/apis/stable.example.com/v1/hats?watch=1&resourceVersion=100").await;
    fixture.registry.replace(catalog(&[&fixture.hats, &fixture.pods]), |_| None);
    let error = shirts.next().await.unwrap();
    assert_eq!(error["object"]["code"], 410, "{error}");
    assert_eq!(
        error["object"]["message"],
        "too old resource version: shirts.v1.stable.example.com is no longer cached here"
    );
    shirts.expect_end("the resource went").await;
    assert_eq!(fixture.get(SHIRTS).await.body, "404 page not found\n");
    fixture.put_hat("top");
    assert_eq!(hats.line().await, "ADDED top@101");
    fixture.hats.resource.state.publish(LoadState::Loading("again".to_owned()));
    hats.expect_end("another history may follow").await;
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_the_source_does_not_serve_any_more_ends_after_its_last_event() {
    // More than a mailbox keeps, so that some are read from history after the end.
    for (departure, changes, reported_version) in [
        (Departure::ObjectsDeleted(Version::new(900)), 300, None),
        (Departure::VersionEnded, 1, Some("is no longer served in this version")),
        (Departure::NotOffered, 1, Some("is no longer offered by the API server")),
    ] {
        let mut fixture = Fixture::new();
        let mut idle = fixture.watch(&watch("resourceVersion=100")).await;
        let mut busy = fixture.watch(&watch("resourceVersion=100")).await;
        fixture.registry.replace(catalog(&[&fixture.hats, &fixture.pods]), |_| Some(departure));
        assert_eq!(fixture.get(SHIRTS).await.body, "404 page not found\n", "new requests find nothing");
        fixture.put("default", "first", "blue");
        assert_eq!(busy.line().await, "ADDED default/first@101", "the feed goes on");
        for number in 1..changes {
            fixture.put("default", &format!("x{number:03}"), "blue");
        }
        fixture.shirts.resource.state.end(departure.reason());
        assert_eq!(idle.line().await, "ADDED default/first@101");
        for number in 1..changes {
            for watched in [&mut busy, &mut idle] {
                assert_eq!(
                    watched.line().await,
                    format!("ADDED default/x{number:03}@{}", 101 + number),
                    "{departure:?}"
                );
            }
        }
        for watched in [&mut busy, &mut idle] {
            if let Some(reported_version) = reported_version {
                let status = &watched.next().await.unwrap()["object"];
                let message = format!("too old resource version: shirts.v1.stable.example.com {reported_version}");
                assert_eq!((status["code"].as_u64(), status["message"].as_str()), (Some(410), Some(&*message)));
            }
        }
        busy.expect_end("everything was sent").await;
        idle.expect_end("everything was sent").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_resource_without_a_store_ends_when_the_source_stops_serving_it() {
    let fixture = Fixture::new();
    fixture.hats.resource.state.publish(LoadState::Loading("1 object read".to_owned()));
    fixture.registry.replace(catalog(&[&fixture.shirts, &fixture.pods]), |_| Some(Departure::VersionEnded));
    assert!(matches!(
        fixture.hats.resource.state.load_state(),
        LoadState::Gone(Gone { reason: GoneReason::VersionEnded, last: None, .. })
    ));
}

#[tokio::test(start_paused = true)]
async fn a_watch_ahead_of_the_store_ends_when_its_version_is_in_a_relist_gap() {
    let mut fixture = Fixture::new();
    fixture.put("default", "kept", "blue");
    fixture.put("default", "deleted", "blue");
    let mut behind = fixture.watch(&watch("resourceVersion=102")).await;
    let mut ahead = fixture.watch(&watch("resourceVersion=105")).await;
    let mut beyond = fixture.watch(&watch("resourceVersion=110")).await;
    let snapshot = fixture.shirts.store.snapshot();
    let kept = snapshot.get("default/kept").unwrap();
    let record = fixture.shirts.resource.extractor.extract(kept.json().into()).unwrap();
    fixture.shirts.store.replace(&[record], Version::new(110));
    fixture.shirts.publish();
    assert_eq!(behind.line().await, "DELETED default/deleted@102");
    let error = ahead.next().await.unwrap();
    assert_eq!((&error["type"], &error["object"]["code"]), (&json!("ERROR"), &json!(410)), "{error}");
    assert_eq!(error["object"]["message"], "too old resource version: 105 (110)");
    ahead.expect_end("what happened around its version is not known").await;
    fixture.version = 110;
    let version = fixture.put("default", "last", "blue");
    assert_eq!(beyond.line().await, format!("ADDED default/last@{version}"), "what lies after the relist goes on");
}

#[tokio::test(start_paused = true)]
async fn a_bookmark_leads_out_of_what_a_relist_jumped_over() {
    let mut fixture = Fixture::new();
    fixture.put("default", "a", "blue");
    fixture.put("default", "b", "blue");
    let mut with_bookmarks = fixture.watch(&watch("resourceVersion=102&allowWatchBookmarks=true")).await;
    let mut without_bookmarks = fixture.watch(&watch("resourceVersion=102")).await;
    let mut other =
        fixture.watch(&watch("resourceVersion=102&allowWatchBookmarks=true&labelSelector=tone%3Dred")).await;
    let started = Instant::now();
    let snapshot = fixture.shirts.store.snapshot();
    let record = |name: &str, from: &str, to: &str| {
        let text = String::from_utf8(snapshot.get(name).unwrap().json().to_vec()).unwrap();
        let text = text.replace(&format!("\"{from}\""), &format!("\"{to}\""));
        fixture.shirts.resource.extractor.extract(text.into()).unwrap()
    };
    let records = [record("default/a", "101", "105"), record("default/b", "102", "102")];
    fixture.shirts.store.replace(&records, Version::new(110));
    fixture.shirts.publish();
    assert_eq!(with_bookmarks.line().await, "MODIFIED default/a@105");
    assert_eq!(with_bookmarks.line().await, "BOOKMARK @110");
    assert_eq!(without_bookmarks.line().await, "MODIFIED default/a@105");
    assert_eq!(started.elapsed(), Duration::ZERO, "it comes with the changes");
    let mut resumed = fixture.watch(&watch("resourceVersion=105")).await;
    assert_eq!(resumed.next().await.unwrap()["object"]["code"], 410, "which is what it spares the client");
    fixture.version = 110;
    let version = fixture.put("default", "c", "blue");
    for watched in [&mut with_bookmarks, &mut without_bookmarks] {
        assert_eq!(watched.line().await, format!("ADDED default/c@{version}"), "once is enough");
        watched.expect_silence_for(Duration::from_secs(1)).await;
    }
    other.expect_silence_for(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_the_future_has_bookmarks_once_its_version_is_reached() {
    let mut fixture = Fixture::new();
    let mut watched = fixture.watch(&watch("resourceVersion=105&allowWatchBookmarks=true&timeoutSeconds=600")).await;
    fixture.put("default", "x", "blue");
    // Bookmarks are due several times meanwhile, and would send the client back before its start.
    watched.expect_silence_for(std::time::Duration::from_secs(300)).await;
    fixture.version = 105;
    let version = fixture.put("default", "y", "blue");
    assert_eq!(watched.line().await, format!("ADDED default/y@{version}"));
    let bookmark = watched.line().await;
    assert!(bookmark.starts_with("BOOKMARK") && bookmark.ends_with(&version.to_string()), "{bookmark}");
}

#[tokio::test(start_paused = true)]
async fn versions_that_go_backwards_end_watches() {
    let mut fixture = Fixture::new();
    fixture.put("default", "x", "blue");
    let mut watched = fixture.watch(&watch("resourceVersion=101")).await;
    fixture.shirts.store.replace(&[], Version::new(7));
    // Enough changes for the watch's place to mean something in the new history, though something else.
    for name in ["a", "b", "c"] {
        fixture.put_without_publishing("default", name, "blue");
    }
    fixture.shirts.publish();
    watched.expect_end("another epoch").await;
    assert_eq!(fixture.get(SHIRTS).await.names().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn an_invalidated_store_ends_watches_with_410_and_rejects_versions_already_sent() {
    let mut fixture = Fixture::new();
    fixture.put("default", "x", "blue");
    let mut quiet = fixture.watch(&watch("resourceVersion=101&fieldSelector=spec.color%3Dnone")).await;
    let mut behind = fixture.watch(&watch("resourceVersion=100")).await;
    let mut ahead = fixture.watch(&watch("resourceVersion=150")).await;
    assert_eq!(behind.line().await, "ADDED default/x@101");
    fixture.put("default", "y", "blue");
    fixture.shirts.store.begin_list();
    fixture.shirts.store.commit_list(Version::new(110), RelistMode::Invalidate);
    fixture.shirts.publish();
    for (watched, reported_version) in [(&mut quiet, 101), (&mut behind, 101), (&mut ahead, 150)] {
        let expired = json!({"type": "ERROR", "object": {
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": format!("too old resource version: {reported_version} (110)"), "reason": "Expired", "code": 410,
        }});
        assert_eq!(watched.next().await, Some(expired), "{reported_version}");
        watched.expect_end("it receives nothing else").await;
    }
    let mut resumed = fixture.watch(&watch("resourceVersion=102")).await;
    assert_eq!(resumed.next().await.unwrap()["object"]["code"], 410, "events up to 102 may have been wrong");
    resumed.expect_end("refused").await;
    assert_eq!(fixture.get(SHIRTS).await.names().len(), 0);
    let mut relisted = fixture.watch(&watch("resourceVersion=110")).await;
    fixture.version = 110;
    fixture.put("default", "z", "blue");
    assert_eq!(relisted.line().await, "ADDED default/z@111", "a client that has relisted continues to watch");
}

#[tokio::test(start_paused = true)]
async fn draining_ends_watches_and_readiness() {
    let fixture = Fixture::new();
    let mut waiting = fixture.watch(&watch("resourceVersion=100")).await;
    let drained = async {
        sleep(Duration::from_secs(5)).await;
        fixture.server.drain();
    };
    let started = Instant::now();
    let (line, ()) = tokio::join!(waiting.line(), drained);
    assert_eq!((&*line, started.elapsed().as_secs()), ("end", 5), "while it waits");
    let mut waiting = fixture.watch(&watch("resourceVersion=100")).await;
    waiting.expect_end("the process ends").await;
    assert_eq!(fixture.get("/readyz").await.code, 500);
    assert_eq!(fixture.get("/livez").await.code, 200);
}

#[tokio::test(start_paused = true)]
async fn errors_before_the_stream_have_their_status() {
    let fixture = Fixture::new();
    for (query, code, message) in [
        (
            "resourceVersion=abc",
            500,
            "resourceVersion: Invalid value: \"abc\": strconv.ParseUint: parsing \"abc\": invalid syntax",
        ),
        ("timeoutSeconds=x", 400, "strconv.ParseInt: parsing \"x\": invalid syntax"),
        ("fieldSelector=spec.nope%3D1", 400, "field label not supported: spec.nope"),
        ("pretty=true&limit=x", 400, "strconv.ParseInt: parsing \"x\": invalid syntax"),
    ] {
        let answer = fixture.get(&watch(query)).await;
        assert_eq!((answer.code.as_u16(), &*answer.message()), (code, message), "{query}");
        assert_eq!(answer.body.lines().count() > 1, query.contains("pretty"), "{query}");
    }
    let yaml = fixture.get_with(&watch(""), &[("accept", "application/yaml")]).await;
    assert_eq!((yaml.code.as_u16(), yaml.header("content-type")), (406, "application/yaml"));
    let message = "only the following media types are accepted: application/json;stream=watch, application/vnd";
    assert!(yaml.body.contains("code: 406\n") && yaml.body.contains(message), "{}", yaml.body);
    let bare = fixture.get(&watch("resourceVersion=abc")).await.json();
    assert_eq!(bare.get("reason"), None);
    let answer = fixture.get("/apis/stable.example.com/v1/watch/shirts?sendInitialEvents=true&pretty=1").await;
    assert_eq!(answer.code, 422, "the old path is validated as a list");
    assert!(answer.body.lines().count() > 1);
    assert_eq!(fixture.get("/apis/stable.example.com/v1/watch/namespaces/default/shirts/x/status").await.code, 404);
    let path = "/apis/stable.example.com/v1/watch/namespaces/default/shirts/b?fieldSelector=metadata.name%3Dc";
    let answer = fixture.get(path).await;
    let message = "fieldSelector metadata.name doesn't match requested name";
    assert_eq!((answer.code.as_u16(), &*answer.message()), (400, message));
}

#[tokio::test(start_paused = true)]
async fn a_watch_waits_for_the_first_load_or_gets_retry_after() {
    let impatient = Fixture::loading(Settings::default(), HistoryLimits::default());
    impatient.shirts.resource.state.publish(LoadState::Loading("12 objects".to_owned()));
    for path in [watch("resourceVersion=0"), SHIRTS.to_owned(), format!("{SHIRTS}/x")] {
        let answer = impatient.get(&path).await;
        assert_eq!((answer.code.as_u16(), answer.header("retry-after")), (429, "1"), "{path}");
        assert_eq!(answer.message(), "storage is (re)initializing: 12 objects", "{path}");
    }
    let patience = Duration::from_secs(60);
    let mut patient = Fixture::loading(Settings { patience, ..Settings::default() }, HistoryLimits::default());
    let started = Instant::now();
    assert_eq!(patient.get(&format!("{SHIRTS}?timeout=2s")).await.code, 429);
    assert_eq!(started.elapsed().as_secs(), 2, "the client's own timeout bounds the wait");
    let server = patient.server.clone();
    let request = http::Request::builder().uri(SHIRTS).body(String::new()).unwrap();
    let (answer, ()) = tokio::join!(server.answer(request), async {
        advance(Duration::from_secs(30)).await;
        patient.shirts.store.replace(&[], Version::new(5));
        patient.shirts.publish();
    });
    assert_eq!(answer.status(), 200);
}

#[tokio::test(start_paused = true)]
async fn partial_metadata_and_tables_are_watched() {
    let mut fixture = Fixture::new();
    let partial = [("accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")];
    let mut metadata = fixture.watch_with(&watch("resourceVersion=100"), &partial).await;
    let table = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json")];
    let path = watch("resourceVersion=0&allowWatchBookmarks=1&includeObject=None");
    fixture.put("default", "x", "blue");
    let mut rows = fixture.watch_with(&path, &table).await;
    fixture.delete("default", "x");
    let added = metadata.next().await.unwrap();
    assert_eq!(added["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(added["object"].as_object().unwrap().keys().collect::<Vec<_>>(), ["apiVersion", "kind", "metadata"]);
    assert_eq!(metadata.line().await, "DELETED default/x@102");
    let added = rows.next().await.unwrap();
    assert_eq!(added["object"]["columnDefinitions"].as_array().unwrap().len(), 4);
    assert_eq!(added["object"]["rows"], json!([{"cells": ["x", "blue", 7, "10m"], "object": null}]));
    let mark = rows.next().await.unwrap();
    assert_eq!(mark["object"]["columnDefinitions"], json!(null), "sent with the first event only");
    assert_eq!(mark["object"]["rows"][0]["cells"], json!(["", null, null, null]));
    let annotations = &mark["object"]["rows"][0]["object"]["metadata"]["annotations"];
    assert_eq!(annotations["k8s.io/initial-events-end"], "true");
    let deleted = rows.next().await.unwrap();
    assert_eq!(deleted["object"]["columnDefinitions"], json!(null));
    assert_eq!(
        (&deleted["type"], &deleted["object"]["metadata"]["resourceVersion"]),
        (&json!("DELETED"), &json!("102"))
    );
}

#[tokio::test(start_paused = true)]
async fn the_ages_of_a_watched_table_are_those_of_the_event() {
    let mut fixture = Fixture::new();
    let table = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
    let mut rows = fixture.watch_with(&watch("resourceVersion=100"), &table).await;
    fixture.put("default", "x", "blue");
    assert_eq!(rows.next().await.unwrap()["object"]["rows"][0]["cells"], json!(["x", "blue", 7, "10m"]));
    advance(Duration::from_secs(300)).await;
    fixture.put("default", "y", "blue");
    assert_eq!(rows.next().await.unwrap()["object"]["rows"][0]["cells"], json!(["y", "blue", 7, "15m"]));
}

#[tokio::test(start_paused = true)]
async fn the_row_of_a_change_is_made_once_for_all_watches_of_its_form() {
    const WATCHES: usize = 40;
    let tables = ["v1", "v1beta1"].map(|version| format!("application/json;as=Table;v={version};g=meta.k8s.io"));
    let includes = ["None", "Metadata", "Object"];
    let forms: Vec<(&str, &str)> =
        tables.iter().flat_map(|table| includes.map(|include| (&**table, include))).collect();
    let changes = |fixture: &mut Fixture| {
        fixture.put("default", "x", "blue");
        fixture.put("default", "x", &"<red>".repeat(10_000));
        fixture.delete("default", "x");
    };
    // Each form alone, and what one watch reads.
    let (mut alone, mut read_alone) = (Vec::new(), 0);
    for (table, include) in &forms {
        let mut fixture = Fixture::new();
        let path = watch(&format!("resourceVersion=100&includeObject={include}"));
        let mut watch = fixture.watch_with(&path, &[("accept", table)]).await;
        assert!(watch.next().now_or_never().is_none(), "it is up to date");
        changes(&mut fixture);
        let before = bytes_read_so_far();
        alone.push([watch.next().await, watch.next().await, watch.next().await]);
        read_alone += bytes_read_so_far() - before;
    }
    let mut fixture = Fixture::new();
    let mut watches = Vec::new();
    for number in 0..WATCHES * forms.len() {
        let (table, include) = forms[number % forms.len()];
        let path = watch(&format!("resourceVersion=100&includeObject={include}"));
        let mut watch = fixture.watch_with(&path, &[("accept", table)]).await;
        assert!(watch.next().now_or_never().is_none(), "it is up to date");
        watches.push(watch);
    }
    changes(&mut fixture);
    let before = bytes_read_so_far();
    for (number, watch) in watches.iter_mut().enumerate() {
        let place = number % forms.len();
        let events = [watch.next().await, watch.next().await, watch.next().await];
        assert_eq!(events, alone[place], "watch {number}: {:?}", forms[place]);
    }
    let read = bytes_read_so_far() - before;
    assert!(read_alone > 0 && read <= read_alone, "{read} bytes read, {read_alone} by one watch of each form");
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_is_replaced_under_a_waiting_request_answers_as_the_new_one() {
    let patience = Duration::from_secs(60);
    let old = Fixture::loading(Settings { patience, ..Settings::default() }, HistoryLimits::default());
    let mut new = Fixture::new();
    new.put("default", "x", "blue");
    let request = http::Request::builder().uri(SHIRTS).body(String::new()).unwrap();
    let (answer, ()) = tokio::join!(old.server.answer(request), async {
        sleep(Duration::from_secs(1)).await;
        old.registry.replace(catalog(&[&new.shirts, &old.hats, &old.pods]), |_| None);
    });
    assert_eq!(answer.status(), 200);
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    assert!(String::from_utf8_lossy(&body).contains("\"name\":\"x\""));
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_is_replaced_again_and_again_is_waited_for_once() {
    let patience = Duration::from_secs(60);
    for (query, seconds) in [("", 60), ("?timeout=30s", 30), ("?watch=true", 60)] {
        let settings = || Settings { patience, ..Settings::default() };
        let old = Fixture::loading(settings(), HistoryLimits::default());
        let new = Fixture::loading(settings(), HistoryLimits::default());
        for stored in [&old.shirts, &new.shirts] {
            stored.resource.state.publish(LoadState::Loading("some".to_owned()));
        }
        let request = http::Request::builder().uri(format!("{SHIRTS}{query}")).body(String::new()).unwrap();
        let started = Instant::now();
        let answer = async {
            let answer = old.server.answer(request).await;
            (answer.status().as_u16(), started.elapsed().as_secs())
        };
        let (answered, ()) = tokio::join!(answer, async {
            sleep(Duration::from_secs(25)).await;
            old.registry.replace(catalog(&[&new.shirts, &old.hats, &old.pods]), |_| None);
        });
        assert_eq!(answered, (429, seconds), "{query}: both attempts together");
    }
}
