//! Responses in protobuf: which clients receive them, and that they have the content of the JSON.
//!
//! Expected bytes are made of the JSON response as one document. That they are upstream's is tested beside kube-apiserver.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{ALL_SHIRTS, Fixture, SHIRTS};
use crate::extract::Prune;
use crate::json::cursor::bytes_read_so_far;
use crate::model::Version;
use crate::protobuf::envelope::{END, ProtobufEnvelope, begin_event};
use crate::protobuf::{Encoder, MessageTable};
use crate::registry::views::{ViewDefinition, ViewPart};
use crate::wire::body::Body;

pub(super) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
pub(super) const PODS: &str = "/api/v1/pods";
/// client-go's typed clients, and its metadata client.
pub(super) const TYPED: &str = "application/vnd.kubernetes.protobuf,application/json";
pub(super) const METADATA_LIST: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
                             application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
pub(super) const METADATA: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,\
                        application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
const KUBECTL: &str = "application/json;as=MessageTable;v=v1;g=meta.k8s.io,application/json;as=MessageTable;v=v1beta1;g=meta.k8s.io,\
                       application/json";
pub(super) const VIEW: &str = "/apis/view.fieldcache.dev/v1alpha1/views/pruned/proxy";

/// Status, media type, body.
type Got = (u16, String, Vec<u8>);

pub(super) async fn got(fixture: &Fixture, path: &str, accept: &str) -> Got {
    let response = fixture.send(Method::GET, path, &[("accept", accept)]).await;
    let (parts, body) = response.into_parts();
    let media_type = parts.headers.get("content-type").map_or("", |value| value.to_str().unwrap()).to_owned();
    (parts.status.as_u16(), media_type, body.collect().await.unwrap().to_bytes().to_vec())
}

/// An object in JSON as a whole response in protobuf.
pub(super) fn encoded(json: &[u8]) -> Vec<u8> {
    let object: Value = serde_json::from_slice(json).unwrap();
    let (api_version, kind) = (object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap());
    let mut encoder = Encoder::default();
    let message = encoder.read(MessageTable::for_minor(36).unwrap().kind(api_version, kind).unwrap(), json).unwrap();
    let envelope = ProtobufEnvelope { api_version, kind };
    let mut out = Vec::new();
    envelope.begin(message.length(), &mut out);
    message.write(&mut out);
    out.extend_from_slice(&END);
    out
}

#[track_caller]
pub(super) fn assert_same(ours: &[u8], expected: &[u8], why: &str) {
    assert_eq!(ours.escape_ascii().to_string(), expected.escape_ascii().to_string(), "{why}");
}

/// Puts a Pod of which a field may be unknown here.
pub(super) fn put(fixture: &mut Fixture, name: &str, spec: &Value) -> u64 {
    let version = fixture.next_version();
    let object = json!({
        "metadata": {"name": name, "namespace": "a", "resourceVersion": version.to_string(), "labels": {"b": "2", "a": "1"}},
        "spec": spec, "status": {"phase": "Running"},
    });
    let record = fixture.pods.resource.extractor.extract(Bytes::from(object.to_string())).unwrap();
    fixture.pods.store.apply(&record);
    fixture.pods.publish();
    version
}

pub(super) fn spec() -> Value {
    json!({"nodeName": "n1", "containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "0.5"}}}]})
}

#[tokio::test]
async fn clients_are_sent_what_they_prefer_of_what_there_is() {
    let mut fixture = Fixture::new();
    put(&mut fixture, "p", &spec());
    fixture.put("default", "x", "blue");
    let (pod, shirt) = ("/api/v1/namespaces/a/pods/p", &*format!("{SHIRTS}/x"));
    let (json, yaml, proto) = ("application/json", "application/yaml", PROTOBUF);
    let partial = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let table = "application/vnd.kubernetes.protobuf;as=MessageTable;g=meta.k8s.io;v=v1";
    for (path, accept, expected) in [
        (PODS, TYPED, proto),
        (pod, TYPED, proto),
        (PODS, "application/vnd.kubernetes.protobuf, */*", proto),
        (PODS, PROTOBUF, proto),
        (PODS, METADATA_LIST, proto),
        (pod, METADATA, proto),
        (PODS, KUBECTL, json),
        (PODS, "*/*", json),
        (PODS, "application/*", "406"),
        (SHIRTS, "application/*", json),
        (PODS, "application/json,application/vnd.kubernetes.protobuf", json),
        (PODS, "application/json;q=0.5,application/vnd.kubernetes.protobuf;q=0.9", proto),
        (PODS, "application/vnd.kubernetes.protobuf;q=0.1,application/json", json),
        (PODS, "application/yaml,application/vnd.kubernetes.protobuf;q=0.9", yaml),
        (PODS, table, "406"),
        (PODS, "application/vnd.kubernetes.protobuf;as=MessageTable;g=meta.k8s.io;v=v1,application/json", json),
        // Custom resources have messages of their metadata alone.
        (SHIRTS, TYPED, json),
        (shirt, TYPED, json),
        (SHIRTS, "application/vnd.kubernetes.protobuf, */*", json),
        (SHIRTS, PROTOBUF, "406"),
        (shirt, PROTOBUF, "406"),
        (SHIRTS, METADATA_LIST, proto),
        (shirt, METADATA, proto),
        (SHIRTS, partial, proto),
        (SHIRTS, table, "406"),
        ("/version", PROTOBUF, "406"),
    ] {
        let (status, media_type, body) = got(&fixture, path, accept).await;
        let outcome = if status == 200 { media_type } else { status.to_string() };
        assert_eq!(outcome, expected, "{path} {accept}");
        assert_eq!(body.starts_with(b"k8s\0"), expected == proto || accept == PROTOBUF, "{path} {accept}");
    }
}

#[tokio::test]
async fn objects_and_lists_say_what_their_json_says() {
    let mut fixture = Fixture::new();
    let list_of = |version: &str| format!("{PROTOBUF};as=PartialObjectMetadataList;g=meta.k8s.io;v={version}");
    let json_of = |version: &str| format!("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v={version}");
    for round in ["empty", "some"] {
        let token = if round == "some" {
            for name in ["p", "q", "r"] {
                put(&mut fixture, name, &spec());
                fixture.put("a", name, "blue");
            }
            let page: Value = serde_json::from_slice(&got(&fixture, "/api/v1/pods?limit=1", "").await.2).unwrap();
            page["metadata"]["continue"].as_str().unwrap().to_owned()
        } else {
            String::new()
        };
        let second = format!("{PODS}?limit=1&continue={token}");
        let mut paths = vec![PODS, "/api/v1/pods?limit=2", "/api/v1/namespaces/a/pods", "/api/v1/namespaces/b/pods"];
        paths.extend(["/api/v1/pods?fieldSelector=spec.nodeName%3Dn1", "/api/v1/pods?resourceVersion=0", &second]);
        for path in paths {
            let (_, _, json) = got(&fixture, path, "application/json").await;
            let (status, media_type, ours) = got(&fixture, path, PROTOBUF).await;
            assert_eq!((status, &*media_type), (200, PROTOBUF), "{path}");
            assert_same(&ours, &encoded(&json), &format!("{round} {path}"));
        }
        for version in ["v1", "v1beta1"] {
            for path in [PODS, "/api/v1/pods?limit=2", ALL_SHIRTS] {
                let (_, _, json) = got(&fixture, path, &json_of(version)).await;
                let (_, _, ours) = got(&fixture, path, &list_of(version)).await;
                assert_same(&ours, &encoded(&json), &format!("{round} {path} {version}"));
            }
        }
    }
    let (_, _, json) = got(&fixture, "/api/v1/namespaces/a/pods/q", "").await;
    let (_, _, ours) = got(&fixture, "/api/v1/namespaces/a/pods/q", PROTOBUF).await;
    assert_same(&ours, &encoded(&json), "one");
    for path in ["/api/v1/namespaces/a/pods/q", "/apis/stable.example.com/v1/namespaces/a/shirts/q"] {
        let accept = |media: &str| format!("{media};as=PartialObjectMetadata;g=meta.k8s.io;v=v1");
        let (_, _, json) = got(&fixture, path, &accept("application/json")).await;
        let (_, _, ours) = got(&fixture, path, &accept(PROTOBUF)).await;
        assert_same(&ours, &encoded(&json), path);
    }
}

#[tokio::test]
async fn large_lists_are_as_long_as_their_head_says() {
    let mut fixture = Fixture::new();
    let image = "i".repeat(2_000);
    for number in 0..300 {
        put(&mut fixture, &format!("p-{number}"), &json!({"containers": [{"name": "c", "image": image}]}));
    }
    put(&mut fixture, "large", &json!({"containers": [{"name": "c", "image": "i".repeat(300_000)}]}));
    let (_, _, json) = got(&fixture, PODS, "application/json").await;
    let (_, _, ours) = got(&fixture, PODS, PROTOBUF).await;
    assert!(ours == encoded(&json), "{} bytes", ours.len());
}

/// The length is before a list. It is read from what the last list has noted, for each form apart.
#[tokio::test]
async fn objects_are_measured_once() {
    let mut fixture = Fixture::new();
    for number in 0..50 {
        put(&mut fixture, &format!("p-{number}"), &spec());
    }
    let partial = METADATA_LIST.split(',').next().unwrap();
    for (accept, json_of) in
        [(PROTOBUF, "application/json".to_owned()), (partial, partial.replace("vnd.kubernetes.protobuf", "json"))]
    {
        let (_, _, json) = got(&fixture, PODS, &json_of).await;
        let expected = encoded(&json);
        let mut read = Vec::new();
        for turn in ["first", "second"] {
            let before = bytes_read_so_far();
            let (_, _, ours) = got(&fixture, PODS, accept).await;
            read.push(bytes_read_so_far() - before);
            assert_same(&ours, &expected, turn);
        }
        assert!(read[0] * 10 > read[1] * 18 && read[0] * 10 < read[1] * 22, "{accept}: {read:?} bytes");
    }
    put(&mut fixture, "p-7", &json!({"nodeName": "n1", "containers": [{"name": "longer", "image": "than before"}]}));
    let (_, _, json) = got(&fixture, PODS, "application/json").await;
    assert_same(&got(&fixture, PODS, PROTOBUF).await.2, &encoded(&json), "changed");
}

#[tokio::test]
async fn errors_are_in_protobuf_too() {
    let fixture = Fixture::new();
    for (path, code) in [
        ("/api/v1/namespaces/a/pods/no", 404),
        ("/api/v1/socks", 404),
        ("/apis/stable.example.com/v1/namespaces/a/shirts/no", 404),
        ("/api/v1/pods?labelSelector=%2C", 400),
        ("/api/v1/pods?resourceVersion=5&continue=no", 400),
        ("/api/v1/pods?watch=true&fieldSelector=a%3Db", 400),
    ] {
        let (_, _, json) = got(&fixture, path, "application/json").await;
        for accept in [METADATA, TYPED, PROTOBUF] {
            // What only takes a form for a custom resource is not looked at before the object.
            if path.contains("shirts") && accept != METADATA {
                continue;
            }
            let (status, media_type, ours) = got(&fixture, path, accept).await;
            // An error has no other form than its own, so the next clause counts.
            let expected = if accept == METADATA { json.clone() } else { encoded(&json) };
            let expected_type = if accept == METADATA { "application/json" } else { PROTOBUF };
            assert_eq!((status, &*media_type), (code, expected_type), "{path} {accept}");
            assert_same(&ours, &expected, path);
        }
    }
}

/// A watch in protobuf, read frame by frame.
pub(super) struct Frames {
    body: Body,
    read: Vec<u8>,
}

impl Frames {
    pub(super) async fn open(fixture: &Fixture, path: &str, accept: &str) -> Frames {
        let response = fixture.send(Method::GET, path, &[("accept", accept)]).await;
        assert_eq!(response.status(), 200, "{path}");
        assert_eq!(response.headers()["content-type"], "application/vnd.kubernetes.protobuf;stream=watch");
        Frames { body: response.into_body(), read: Vec::new() }
    }

    /// The next frame; `None` at the end.
    pub(super) async fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            let length = self.read.first_chunk().map(|length| 4 + u32::from_be_bytes(*length) as usize);
            if let Some(length) = length.filter(|length| self.read.len() >= *length) {
                return Some(self.read.drain(..length).collect());
            }
            let frame = timeout(Duration::from_secs(86_400), self.body.frame()).await.expect("an event or the end");
            let Some(frame) = frame else {
                assert!(self.read.is_empty(), "a body ends with a whole frame");
                return None;
            };
            self.read.extend_from_slice(frame.unwrap().data_ref().unwrap());
        }
    }
}

/// An event in JSON as a frame.
fn framed(event: &Value) -> Vec<u8> {
    let object = encoded(event["object"].to_string().as_bytes());
    let mut out = Vec::new();
    begin_event(event["type"].as_str().unwrap(), object.len(), &mut out);
    out.extend_from_slice(&object);
    out
}

#[tokio::test(start_paused = true)]
async fn frames_say_what_lines_say() {
    let mut fixture = Fixture::new();
    put(&mut fixture, "p", &spec());
    fixture.put("a", "p", "blue");
    let json_partial = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let initial = "allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let mut open = Vec::new();
    for (path, accept, json) in [
        (format!("{PODS}?watch=true&{initial}"), TYPED, "application/json"),
        (format!("{PODS}?watch=true&allowWatchBookmarks=true"), PROTOBUF, "application/json"),
        (format!("{PODS}?watch=true&{initial}"), METADATA, json_partial),
        (format!("{PODS}?watch=true&resourceVersion=100&fieldSelector=spec.nodeName%3Dn1"), TYPED, "application/json"),
        ("/api/v1/watch/pods".to_owned(), PROTOBUF, "application/json"),
        ("/api/v1/watch/namespaces/a/pods/p".to_owned(), TYPED, "application/json"),
        (format!("{ALL_SHIRTS}?watch=true&{initial}"), METADATA, json_partial),
    ] {
        let lines = fixture.watch_with(&path, &[("accept", json)]).await;
        open.push((Frames::open(&fixture, &path, accept).await, lines, path));
    }
    // What is written once for all of a form is not shared between forms: each change goes to all of them.
    put(&mut fixture, "p", &json!({"nodeName": "n1", "hostNetwork": true}));
    put(&mut fixture, "p", &json!({"nodeName": "n2"}));
    fixture.put("a", "p", "green");
    fixture.delete("a", "p");
    let version = fixture.next_version();
    fixture.pods.store.delete(&crate::model::Key::new("a", "p"), Version::new(version));
    fixture.pods.publish();
    for (frames, lines, path) in &mut open {
        let mut kinds = Vec::new();
        while kinds.last().is_none_or(|kind| kind != "DELETED") {
            let event = lines.next().await.unwrap();
            let frame = frames.next().await.unwrap();
            assert_same(&frame, &framed(&event), &format!("{path} {event}"));
            kinds.push(event["type"].as_str().unwrap().to_owned());
        }
        assert!(kinds.len() >= 3, "{path}: {kinds:?}");
    }
}

/// What is written once for all watches of a form is written for each form, and for each View.
#[tokio::test(start_paused = true)]
async fn lines_and_frames_are_not_shared() {
    let mut fixture = Fixture::new();
    fixture.registry.replace_views(BTreeMap::from([("pruned".to_owned(), Ok(without_containers().into()))]));
    let partial = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let start = put(&mut fixture, "p", &spec());
    let mut open = Vec::new();
    for path in [PODS.to_owned(), format!("{VIEW}{PODS}")] {
        let path = format!("{path}?watch=true&resourceVersion={start}");
        for (accept, json) in [(TYPED, "application/json"), (METADATA, partial), (PROTOBUF, "application/json")] {
            let lines = fixture.watch_with(&path, &[("accept", json)]).await;
            open.push((Frames::open(&fixture, &path, accept).await, lines, format!("{path} {accept}")));
        }
    }
    for number in 0..4 {
        // The first change is read from history. Watches that have come so far are sent the others.
        put(&mut fixture, &format!("p-{number}"), &spec());
        for (frames, lines, what) in &mut open {
            let event = lines.next().await.unwrap();
            assert_same(&frames.next().await.unwrap(), &framed(&event), &format!("{what} {event}"));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_fails_in_a_frame() {
    let mut fixture = Fixture::new();
    put(&mut fixture, "p", &spec());
    let path = format!("{PODS}?watch=true&resourceVersion=7");
    let mut lines = fixture.watch(&path).await;
    for accept in [TYPED, METADATA] {
        let mut frames = Frames::open(&fixture, &path, accept).await;
        let error = if accept == TYPED { lines.next().await.unwrap() } else { json!(null) };
        let frame = frames.next().await.unwrap();
        assert!(error.is_null() || frame == framed(&error), "{}", frame.escape_ascii());
        assert!(frame.windows(7).any(|text| text == b"Expired"), "{}", frame.escape_ascii());
        assert_eq!(frames.next().await, None, "the watch ends");
    }
}

#[tokio::test]
async fn discovery_is_in_protobuf_too() {
    let fixture = Fixture::new();
    for (path, accept, media_type) in [
        ("/api", PROTOBUF, PROTOBUF),
        ("/apis", PROTOBUF, PROTOBUF),
        ("/api/v1", PROTOBUF, PROTOBUF),
        ("/apis/stable.example.com", PROTOBUF, PROTOBUF),
        ("/apis/stable.example.com/v1", PROTOBUF, PROTOBUF),
        (
            "/apis",
            "application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
            "application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        ),
        ("/apis", "application/vnd.kubernetes.protobuf, */*", PROTOBUF),
    ] {
        let (status, got_type, body) = got(&fixture, path, accept).await;
        assert_eq!((status, &*got_type), (200, media_type), "{path} {accept}");
        assert!(body.starts_with(b"k8s\0"), "{path} {accept}");
    }
}

fn without_containers() -> ViewDefinition {
    let part = ViewPart {
        resource: "pods".to_owned(),
        prune: Prune::new([".spec.containers", ".metadata.annotations"]).unwrap().into(),
        ..ViewPart::default()
    };
    ViewDefinition { parts: vec![part], ..ViewDefinition::default() }
}

/// What a View leaves out is in no byte, and lines of different Views are not shared.
#[tokio::test(start_paused = true)]
async fn views_leave_out_in_protobuf_what_they_leave_out() {
    let mut fixture = Fixture::new();
    fixture.registry.replace_views(BTreeMap::from([("pruned".to_owned(), Ok(without_containers().into()))]));
    put(&mut fixture, "p", &spec());
    let partial = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let partial_list = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    for (path, accept, json) in [
        (format!("{VIEW}{PODS}"), TYPED, "application/json"),
        (format!("{VIEW}{PODS}?limit=1"), TYPED, "application/json"),
        (format!("{VIEW}{PODS}"), METADATA_LIST, partial_list),
        (format!("{VIEW}/api/v1/namespaces/a/pods/p"), TYPED, "application/json"),
        (format!("{VIEW}/api/v1/namespaces/a/pods/p"), METADATA, partial),
    ] {
        let (_, media_type, ours) = got(&fixture, &path, accept).await;
        assert_eq!(media_type, PROTOBUF, "{path}");
        assert_same(&ours, &encoded(&got(&fixture, &path, json).await.2), &path);
        assert!(ours.windows(4).all(|text| text != b"500m"), "the limit is in {}", ours.escape_ascii());
    }
    let mut open = Vec::new();
    for (path, accept, json) in [
        (format!("{PODS}?watch=true"), TYPED, "application/json"),
        (format!("{VIEW}{PODS}?watch=true&quiet=false"), TYPED, "application/json"),
        (format!("{VIEW}{PODS}?watch=true&quiet=false&allowWatchBookmarks=true"), PROTOBUF, "application/json"),
        (format!("{VIEW}{PODS}?watch=true&quiet=false"), METADATA, partial),
    ] {
        let lines = fixture.watch_with(&path, &[("accept", json)]).await;
        open.push((Frames::open(&fixture, &path, accept).await, lines, path));
    }
    for name in ["q", "p", "q"] {
        put(&mut fixture, name, &spec());
    }
    for (frames, lines, path) in &mut open {
        for _ in 0..4 {
            let event = lines.next().await.unwrap();
            assert_same(&frames.next().await.unwrap(), &framed(&event), &format!("{path} {event}"));
        }
    }
}
