//! Quiet watches: no event for a change that alters nothing that the watch shows.

use std::time::Duration;

use bytes::Bytes;
use serde_json::json;

use super::shared::{pruned, serve};
use super::{ALL_SHIRTS, Fixture};

const VIEW: &str = "/apis/view.fieldcache.dev/v1alpha1/views/pruned/proxy";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

/// Shirts, and a View of them without `.spec.size`.
fn fixture() -> Fixture {
    let fixture = Fixture::new();
    serve(&fixture, &[("pruned", pruned(".spec.size"))]);
    fixture
}

/// Puts a shirt, and returns its version.
fn put(fixture: &mut Fixture, name: &str, color: &str, size: i64) -> u64 {
    let version = fixture.next_version();
    let shirt = json!({
        "apiVersion": "stable.example.com/v1", "kind": "Shirt",
        "metadata": {"name": name, "namespace": "default", "resourceVersion": version.to_string(),
                     "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"color": color, "size": size},
    });
    let record = fixture.shirts.resource.extractor.extract(Bytes::from(shirt.to_string())).unwrap();
    fixture.shirts.store.apply(&record);
    fixture.shirts.publish();
    version
}

/// The changes of a shirt: created, another size, another color, another size, and another size and color.
fn changes(fixture: &mut Fixture) -> [u64; 5] {
    [("blue", 1), ("blue", 2), ("green", 2), ("green", 3), ("red", 4)]
        .map(|(color, size)| put(fixture, "a", color, size))
}

#[tokio::test(start_paused = true)]
async fn a_quiet_watch_sends_only_what_alters_what_it_shows() {
    for (root, query, accept, shown, why) in [
        (VIEW, "", "application/json", &[0, 2, 4][..], "a View that prunes is quiet"),
        (VIEW, "&quiet=false", "application/json", &[0, 1, 2, 3, 4], "unless the client wants all"),
        (VIEW, "", TABLE, &[0, 2, 4], "rows"),
        (VIEW, "", METADATA, &[0], "metadata"),
        ("", "", "application/json", &[0, 1, 2, 3, 4], "elsewhere every change is sent"),
        ("", "&quiet=true", "application/json", &[0, 1, 2, 3, 4], "all of these are visible"),
        ("", "&quiet=true", METADATA, &[0], "in metadata none but the first is"),
        ("", "&quiet=true&labelSelector=!x", METADATA, &[0], "with a selector"),
    ] {
        for is_past in [false, true] {
            let mut fixture = fixture();
            let path = format!("{root}{ALL_SHIRTS}?watch=true&resourceVersion=100{query}");
            let mut versions = [0; 5];
            if is_past {
                versions = changes(&mut fixture);
            }
            let mut watch = fixture.watch_with(&path, &[("accept", accept)]).await;
            if !is_past {
                // Each is read at once, so that it is not one of the past by then.
                watch.expect_silence().await;
                versions = changes(&mut fixture);
            }
            let mut seen = Vec::new();
            for _ in shown {
                let event = watch.next().await.unwrap();
                let object = if accept == TABLE { &event["object"]["rows"][0]["object"] } else { &event["object"] };
                seen.push(object["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap());
            }
            let expected: Vec<u64> = shown.iter().map(|index| versions[*index]).collect();
            assert_eq!(seen, expected, "{why}, {root} {query} {accept} {is_past}");
            watch.expect_silence().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_enters_or_leaves_the_selection_is_sent_and_bookmarks_advance() {
    let mut fixture = fixture();
    let path = format!("{VIEW}{ALL_SHIRTS}?watch=true&allowWatchBookmarks=true&resourceVersion=100");
    let mut watch = fixture.watch(&format!("{path}&fieldSelector=spec.color%3Dblue&timeoutSeconds=600")).await;
    let mut versions = vec![put(&mut fixture, "a", "blue", 1)];
    put(&mut fixture, "a", "blue", 2);
    versions.push(put(&mut fixture, "a", "green", 2));
    versions.push(put(&mut fixture, "a", "blue", 3));
    let last = put(&mut fixture, "a", "blue", 4);
    let expected = [("ADDED", 0), ("DELETED", 1), ("ADDED", 2)];
    let expected = expected.map(|(kind, index)| format!("{kind} default/a@{}", versions[index]));
    assert_eq!(watch.lines(3).await, expected);
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(watch.line().await, format!("BOOKMARK @{last}"), "the version advances without an event");
    let deleted = fixture.delete("default", "a");
    assert_eq!(watch.line().await, format!("DELETED default/a@{deleted}"));
}

#[tokio::test(start_paused = true)]
async fn a_watch_with_changes_left_ends_without_a_bookmark() {
    let mut fixture = fixture();
    let path = format!("{VIEW}{ALL_SHIRTS}?watch=true&allowWatchBookmarks=true&resourceVersion=100&timeoutSeconds=4");
    let mut slow = fixture.watch(&path).await;
    slow.expect_silence().await;
    let versions = ["a", "b", "c"].map(|name| put(&mut fixture, name, "blue", 1));
    // Each event is sent alone, so two changes are left.
    assert_eq!(slow.line().await, format!("ADDED default/a@{}", versions[0]));
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(slow.line().await, "end", "a client that resumed from a bookmark would receive a again");
}
