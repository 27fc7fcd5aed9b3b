//! Objects that do not fit their messages: responses that show them are sent as JSON, and no others.

use std::collections::BTreeMap;
use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use http::{Method, Request};
use serde_json::json;

use super::protobuf::{Frames, METADATA, METADATA_LIST, PODS, PROTOBUF, TYPED, VIEW, got, put, spec};
use super::{ALL_SHIRTS, Fixture, Stored, pods};
use crate::extract::Prune;
use crate::model::{Gvr, Key, Version};
use crate::protobuf::table::{NEWEST, OLDEST};
use crate::protobuf::{Encoder, MessageTable};
use crate::registry::views::{ViewDefinition, ViewPart};
use crate::registry::{ApiGroup, Catalog, LoadState, Resource, VersionInfo};
use crate::server::Settings;
use crate::store::{HistoryLimits, Pinned, Store};

/// A field that is not known here must not be left out.
#[tokio::test(start_paused = true)]
async fn what_has_no_message_is_sent_as_json() {
    let mut fixture = Fixture::new();
    put(&mut fixture, "p", &spec());
    let watch = format!("{PODS}?watch=true&resourceVersion=101");
    let mut frames = Frames::open(&fixture, &watch, TYPED).await;
    let mut pruned = Frames::open(&fixture, &watch, METADATA).await;
    put(&mut fixture, "new", &json!({"nodeName": "n1", "inventedLater": 1}));
    let metadata = pruned.next().await.unwrap();
    assert!(metadata.windows(3).any(|text| text == b"new"), "its metadata has a message");
    let error = frames.next().await.unwrap();
    assert!(error.windows(7).any(|text| text == b"Expired"), "{}", error.escape_ascii());
    assert_eq!(frames.next().await, None, "the watch ends, so that its client sends another request");
    for path in [PODS, "/api/v1/namespaces/a/pods/new"] {
        let response = fixture.get_with(path, &[("accept", TYPED)]).await;
        assert_eq!((response.code.as_u16(), response.header("content-type")), (200, "application/json"), "{path}");
        assert!(response.header("warning").contains("not sent as application/vnd.kubernetes.protobuf"), "{path}");
        assert!(response.body.contains("inventedLater"), "{}", response.body);
        assert_eq!(got(&fixture, path, PROTOBUF).await.0, 406, "{path}");
    }
    let mut lines = fixture.watch_with(&watch, &[("accept", TYPED)]).await;
    assert_eq!(lines.line().await, "ADDED a/new@102");
    assert_eq!(fixture.pods.resource.state.missed_protobuf(), 3);
    assert_eq!(fixture.get_with("/api/v1/pods", &[("accept", "application/json")]).await.header("warning"), "");
}

/// The first request finds it, without a watch before.
#[tokio::test]
async fn the_request_that_meets_it_is_sent_json_already() {
    for path in [PODS, "/api/v1/pods?limit=5", "/api/v1/namespaces/a/pods/new"] {
        let mut fixture = Fixture::new();
        put(&mut fixture, "new", &json!({"inventedLater": 1}));
        let response = fixture.get_with(path, &[("accept", TYPED)]).await;
        assert_eq!((response.code.as_u16(), response.header("content-type")), (200, "application/json"), "{path}");
        assert!(response.body.contains("inventedLater"), "{path}: {}", response.body);
        let mut fixture = Fixture::new();
        put(&mut fixture, "new", &json!({"inventedLater": 1}));
        assert_eq!(got(&fixture, path, PROTOBUF).await.0, 406, "{path}");
    }
}

#[tokio::test]
async fn a_version_that_is_not_known_is_sent_as_json() {
    let mut fixture = Fixture::new();
    put(&mut fixture, "p", &spec());
    let resources = [&fixture.pods, &fixture.shirts].map(|stored| stored.resource.clone());
    let version = VersionInfo { body: json!({"major": "1", "minor": "99"}) };
    let groups = fixture.registry.catalog().groups.clone();
    fixture.registry.replace(Catalog::new(groups, resources, version), |_| None);
    for (path, accept) in [(PODS, TYPED), (PODS, METADATA_LIST), (ALL_SHIRTS, METADATA_LIST)] {
        let response = fixture.get_with(path, &[("accept", accept)]).await;
        assert_eq!((response.code.as_u16(), response.header("content-type")), (200, "application/json"), "{path}");
        assert!(response.header("warning").contains("protobuf"), "{path}");
    }
    assert_eq!(
        fixture.get_with(ALL_SHIRTS, &[("accept", TYPED)]).await.header("warning"),
        "",
        "upstream has none either"
    );
    assert_eq!(got(&fixture, PODS, PROTOBUF).await.0, 406);
}

fn unknown() -> serde_json::Value {
    json!({"nodeName": "n1", "inventedLater": 1})
}

/// Objects that a client does not see must say nothing of themselves by the format of what it sees.
#[tokio::test(start_paused = true)]
async fn what_is_not_shown_decides_nothing() {
    let mut fixture = Fixture::new();
    let part = |namespaces: &[&str], prune: &[&str]| ViewPart {
        resource: "pods".to_owned(),
        namespaces: namespaces.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>().into(),
        prune: Prune::new(prune.iter().copied()).unwrap().into(),
        ..ViewPart::default()
    };
    let view_with = |part| Ok(ViewDefinition { parts: vec![part], ..ViewDefinition::default() }.into());
    fixture.registry.replace_views(BTreeMap::from([
        ("pruned".to_owned(), view_with(part(&[], &[".spec.inventedLater"]))),
        ("elsewhere".to_owned(), view_with(part(&["b"], &[]))),
        ("all".to_owned(), view_with(part(&[], &[]))),
    ]));
    let views = VIEW.strip_suffix("pruned/proxy").unwrap();
    put(&mut fixture, "p", &spec());
    fixture.put_pod("b", "q");
    put(&mut fixture, "new", &unknown());
    // Each way of meeting it.
    let mut met = Frames::open(&fixture, &format!("{PODS}?watch=true"), TYPED).await;
    while let Some(frame) = met.next().await {
        let is_last = frame.windows(7).any(|text| text == b"Expired");
        assert!(is_last || !frame.windows(13).any(|text| text == b"inventedLater"), "{}", frame.escape_ascii());
    }
    let all = format!("{views}all/proxy{PODS}");
    for path in [PODS, "/api/v1/namespaces/a/pods/new", &all, &format!("{PODS}?watch=true&timeoutSeconds=1")] {
        assert_eq!(got(&fixture, path, TYPED).await.1, "application/json", "{path}");
    }
    for path in [
        "/api/v1/namespaces/a/pods/p".to_owned(),
        "/api/v1/namespaces/b/pods/q".to_owned(),
        "/api/v1/namespaces/b/pods".to_owned(),
        format!("{PODS}?fieldSelector=metadata.name%3Dp"),
        format!("{views}elsewhere/proxy{PODS}"),
        format!("{views}elsewhere/proxy/api/v1/namespaces/b/pods/q"),
        format!("{views}pruned/proxy{PODS}"),
        format!("{views}pruned/proxy/api/v1/namespaces/a/pods/new"),
    ] {
        let response = fixture.get_with(&path, &[("accept", TYPED)]).await;
        let seen = (response.code.as_u16(), response.header("content-type"), response.header("warning"));
        assert_eq!(seen, (200, PROTOBUF, ""), "{path}");
    }
    for path in [
        "/api/v1/namespaces/b/pods?watch=true".to_owned(),
        format!("{PODS}?watch=true&fieldSelector=metadata.name%3Dp"),
        format!("{views}elsewhere/proxy{PODS}?watch=true"),
        format!("{views}pruned/proxy{PODS}?watch=true"),
    ] {
        let frame = Frames::open(&fixture, &path, TYPED).await.next().await.unwrap();
        assert!(frame.windows(5).any(|text| text == b"ADDED"), "{path}: {}", frame.escape_ascii());
    }
    // Long objects that other watches could not send are encoded one in a turn.
    let watch = format!("{views}pruned/proxy{PODS}?watch=true");
    let before = polls_of(&fixture, &watch).await;
    for name in ["l1", "l2", "l3"] {
        put(&mut fixture, name, &json!({"inventedLater": 1, "nodeName": "n".repeat(100 << 10)}));
        fixture.pods.resource.state.note_unencodable(&format!("a/{name}"));
    }
    let after = polls_of(&fixture, &watch).await;
    assert!(after >= before + 3, "{before} polls before, {after} after");
}

/// How often a request is polled until its response begins.
async fn polls_of(fixture: &Fixture, path: &str) -> usize {
    let mut request = pin!(fixture.send(Method::GET, path, &[("accept", TYPED)]));
    let mut polls = 0;
    let response = poll_fn(|context| {
        polls += 1;
        request.as_mut().poll(context)
    });
    assert_eq!(response.await.headers()["content-type"], "application/vnd.kubernetes.protobuf;stream=watch", "{path}");
    polls
}

/// It is not held against a resource for ever.
#[tokio::test(start_paused = true)]
async fn what_fits_again_is_sent_in_protobuf_again() {
    for is_deleted in [false, true] {
        let mut fixture = Fixture::new();
        put(&mut fixture, "new", &unknown());
        let watch = format!("{PODS}?watch=true");
        let mut frames = Frames::open(&fixture, &watch, TYPED).await;
        assert!(frames.next().await.unwrap().windows(7).any(|text| text == b"Expired"));
        let live = fixture.pods.resource.state.clone();
        assert_eq!(live.unencodable(), ["a/new"]);
        assert_eq!(
            fixture.send(Method::GET, &watch, &[("accept", TYPED)]).await.headers()["content-type"],
            "application/json"
        );
        if is_deleted {
            let version = fixture.next_version();
            fixture.pods.store.delete(&Key::new("a", "new"), Version::new(version));
            fixture.pods.publish();
        } else {
            put(&mut fixture, "new", &spec());
        }
        Frames::open(&fixture, &watch, TYPED).await;
        assert_eq!(live.unencodable(), Vec::<String>::new());
        assert_eq!(got(&fixture, PODS, TYPED).await.1, PROTOBUF);
    }
}

/// Measuring a list takes many turns, in which its state may be let go like that of any reader.
#[tokio::test(start_paused = true)]
async fn a_list_that_is_being_measured_holds_its_state_within_the_bound() {
    const MOST: u64 = 1 << 20;
    let mut fixture = Fixture::loading(Settings::default(), HistoryLimits::default());
    let pinned = Arc::new(Pinned::new(MOST));
    fixture.shirts.store = Store::new(HistoryLimits::default()).pinned_by(&pinned);
    fixture.shirts.store.replace(&[], Version::new(100));
    for number in 0..2_000 {
        fixture.put_without_publishing("a", &format!("s-{number}"), "blue");
    }
    fixture.shirts.publish();
    for (churned, code) in [(false, 200), (true, 410)] {
        for path in [ALL_SHIRTS.to_owned(), format!("{ALL_SHIRTS}?limit=1000"), format!("{ALL_SHIRTS}?limit=1500")] {
            let request =
                Request::builder().uri(&path).header("host", "127.0.0.1:8181").header("accept", METADATA_LIST);
            let (server, request) = (fixture.server.clone(), request.body(String::new()).unwrap());
            let mut answer = pin!(server.answer(request));
            let begun = std::future::poll_fn(|context| Poll::Ready(answer.as_mut().poll(context).is_pending())).await;
            assert!(begun, "it takes more than one turn");
            if churned {
                let revoked = pinned.revoked();
                for _ in 0..MOST / 1024 {
                    fixture.put_without_publishing("a", "churned", "blue");
                }
                fixture.shirts.publish();
                assert_eq!(pinned.revoked(), revoked + 1, "{path}");
            }
            assert_eq!(answer.await.status().as_u16(), code, "{path}");
        }
    }
}

/// An aggregated API server may have messages that are not known here.
#[tokio::test]
async fn kinds_without_known_messages_are_sent_as_json_with_a_warning() {
    let mut fixture = Fixture::new();
    let gvr = Gvr::new("metrics.k8s.io", "v1beta1", "pods");
    let (kind, list_kind) = ("PodMetrics".to_owned(), "PodMetricsList".to_owned());
    let stored = Stored::new(Resource { gvr, kind, list_kind, ..pods() }, HistoryLimits::default());
    fixture.put_pod("a", "p");
    stored.resource.state.publish(LoadState::Ready(fixture.pods.store.snapshot()));
    let groups = vec![ApiGroup { name: "metrics.k8s.io".to_owned(), versions: vec!["v1beta1".to_owned()] }];
    let version = VersionInfo { body: json!({"major": "1", "minor": "36"}) };
    fixture.registry.replace(Catalog::new(groups, [stored.resource.clone()], version), |_| None);
    let list = "/apis/metrics.k8s.io/v1beta1/pods";
    let one = "/apis/metrics.k8s.io/v1beta1/namespaces/a/pods/p";
    for path in [list, one, &format!("{list}?watch=true&timeoutSeconds=1")] {
        let response = fixture.send(Method::GET, path, &[("accept", TYPED)]).await;
        assert_eq!(response.headers()["content-type"], "application/json", "{path}");
        let warning = response.headers().get("warning").map_or("", |value| value.to_str().unwrap());
        assert!(warning.contains("not sent as application/vnd.kubernetes.protobuf"), "{path}: {warning}");
        assert_eq!(got(&fixture, path, PROTOBUF).await.0, 406, "{path}");
    }
    for (path, accept) in [(list, METADATA_LIST), (one, METADATA)] {
        let response = fixture.get_with(path, &[("accept", accept)]).await;
        assert_eq!((response.header("content-type"), response.header("warning")), (PROTOBUF, ""), "{path}");
    }
    assert_eq!(stored.resource.state.missed_protobuf(), 3);
}

/// A bookmark has the members that its kind has in 1.36; other versions may not have them. Without a bookmark a client waits for ever.
#[tokio::test(start_paused = true)]
async fn bookmarks_have_a_protobuf_form_in_every_version_of_a_kind() {
    let fixture = Fixture::new();
    let gvr = Gvr::new("node.k8s.io", "v1alpha1", "runtimeclasses");
    let (kind, list_kind) = ("RuntimeClass".to_owned(), "RuntimeClassList".to_owned());
    let stored = Stored::new(Resource { gvr, kind, list_kind, ..pods() }, HistoryLimits::default());
    let mut store = Store::new(HistoryLimits::default());
    store.replace(&[], Version::new(100));
    stored.resource.state.publish(LoadState::Ready(store.snapshot()));
    let groups = vec![ApiGroup { name: "node.k8s.io".to_owned(), versions: vec!["v1alpha1".to_owned()] }];
    let version = VersionInfo { body: json!({"major": "1", "minor": "36"}) };
    fixture.registry.replace(Catalog::new(groups, [stored.resource.clone()], version), |_| None);
    let initial = "allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let path = format!("/apis/node.k8s.io/v1alpha1/runtimeclasses?watch=true&{initial}");
    let frame = Frames::open(&fixture, &path, TYPED).await.next().await.unwrap();
    assert!(frame.windows(8).any(|text| text == b"BOOKMARK"), "{}", frame.escape_ascii());
}

/// What remains of a bookmark where its members do not fit.
#[test]
fn metadata_alone_has_a_protobuf_form_in_every_kind() {
    let mut encoder = Encoder::default();
    for minor in OLDEST..=NEWEST {
        let (table, mut objects) = (MessageTable::for_minor(minor).unwrap(), 0);
        for (api_version, name) in table.kinds() {
            let kind = table.kind(api_version, name).unwrap();
            let json = br#"{"metadata":{"annotations":{"k8s.io/initial-events-end":"true"},"resourceVersion":"7"}}"#;
            let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
            match encoder.read(kind, json) {
                Ok(_) => objects += 1,
                // Lists and documents have no such metadata, and no client watches them.
                Err(error) => {
                    assert_eq!(
                        crate::builtin::zero_values(group, version, name),
                        "",
                        "1.{minor} {api_version} {name}: {error}"
                    )
                }
            }
        }
        assert!(objects > 60, "1.{minor} has {objects} kinds of objects");
    }
}
