//! `shardSelector`: lists, pages and watches of a shard, `metadata.shardInfo` in every form, errors, Views.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use http::Method;
use serde_json::json;

use super::protobuf::{PODS, PROTOBUF, VIEW, assert_same, encoded, got};
use super::{ALL_SHIRTS, Fixture, SHIRTS};
use crate::model::{Version, fnv1a};
use crate::query::Selection;
use crate::registry::views::{ViewDefinition, ViewPart};
use crate::registry::{Catalog, VersionInfo};
use crate::selector::shard::Shard;
use crate::selector::{FieldExpression, Operator};
use crate::server::read::upstream_knows;

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

/// The selector of one of `shards` equal parts of the hashes of uids.
fn shard(number: u64, shards: u64) -> String {
    let part = u128::from(u64::MAX) / u128::from(shards) + 1;
    let (start, end) = (part * u128::from(number), (part * (u128::from(number) + 1)).min(1 << 64));
    format!("shardRange(object.metadata.uid, '0x{start:016x}', '0x{end:016x}')")
}

/// A selector of exactly the objects with this uid.
fn of_uid(uid: &str) -> String {
    let hash = fnv1a(uid);
    format!("shardRange(object.metadata.uid, '0x{hash:016x}', '0x{:016x}')", hash + 1)
}

/// A path with a shard selector.
fn with(path: &str, selector: &str) -> String {
    let selector = selector.replace(' ', "%20").replace('\'', "%27").replace('|', "%7C");
    format!("{path}{}shardSelector={selector}", if path.contains('?') { '&' } else { '?' })
}

/// Puts a shirt with this uid.
fn put(fixture: &mut Fixture, namespace: &str, name: &str, color: &str, uid: &str) -> u64 {
    let version = fixture.next_version();
    let shirt = json!({
        "apiVersion": "stable.example.com/v1",
        "kind": "Shirt",
        "metadata": {
            "name": name, "namespace": namespace, "resourceVersion": version.to_string(), "uid": uid,
            "labels": { "tone": color },
        },
        "spec": { "color": color },
    });
    let record = fixture.shirts.resource.extractor.extract(Bytes::from(shirt.to_string())).unwrap();
    fixture.shirts.store.apply(&record);
    fixture.shirts.publish();
    version
}

/// A uid with different first characters: the last ones alone hardly change the first bits of the hash.
fn uid(number: usize) -> String {
    format!("{:08x}-{number}", number.wrapping_mul(0x9e37_79b1) as u32)
}

fn shirts(count: usize) -> Fixture {
    let mut fixture = Fixture::new();
    for number in 0..count {
        let color = if number.is_multiple_of(2) { "blue" } else { "green" };
        put(&mut fixture, "default", &format!("s{number:03}"), color, &uid(number));
    }
    fixture
}

#[tokio::test]
async fn shards_divide_a_list() {
    let fixture = shirts(60);
    let mut all = BTreeSet::new();
    for number in 0..3 {
        let selector = shard(number, 3);
        let list = fixture.get(&with(SHIRTS, &selector)).await;
        assert_eq!(list.json()["metadata"]["shardInfo"], json!({ "selector": selector }), "{number}");
        let names = list.names();
        assert!((5..40).contains(&names.len()), "shard {number} has {} of 60", names.len());
        assert!(names.is_sorted(), "{names:?}");
        // Other selectors, and pages.
        let blue = fixture.get(&with(&format!("{SHIRTS}?fieldSelector=spec.color%3Dblue"), &selector)).await.names();
        let green = fixture.get(&with(&format!("{ALL_SHIRTS}?labelSelector=tone%3Dgreen"), &selector)).await.names();
        let both: BTreeSet<String> = blue.into_iter().chain(green).collect();
        assert_eq!(both, names.iter().cloned().collect(), "by color");
        let (mut paged, mut token) = (Vec::new(), String::new());
        loop {
            let page = fixture.get(&with(&format!("{SHIRTS}?limit=4&continue={token}"), &selector)).await;
            paged.extend(page.names());
            let meta = &page.json()["metadata"];
            assert_eq!(meta["shardInfo"]["selector"], selector, "each page has it");
            token = meta["continue"].as_str().unwrap().to_owned();
            let left = names.len() - paged.len();
            assert_eq!(meta["remainingItemCount"].as_u64().unwrap_or_default(), left as u64, "exactly");
            if token.is_empty() {
                break;
            }
        }
        assert_eq!(paged, names);
        for name in names {
            assert!(all.insert(name), "in one shard only");
        }
    }
    assert_eq!(all.len(), 60);
    for query in ["", "?shardSelector="] {
        let list = fixture.get(&format!("{SHIRTS}{query}")).await;
        assert_eq!((list.names().len(), &list.json()["metadata"]["shardInfo"]), (60, &json!(null)), "{query:?}");
    }
    let joined = format!("{} || {}", shard(0, 3), shard(1, 3));
    let two = fixture.get(&with(SHIRTS, &format!("  {}  ", joined.replace(" || ", "||")))).await;
    assert_eq!(two.json()["metadata"]["shardInfo"]["selector"], joined, "in upstream's notation");
    let one = fixture.get(&with(&format!("{SHIRTS}/s000"), &of_uid("none"))).await;
    assert_eq!(one.code.as_u16(), 200, "a get has no shard");
}

#[tokio::test]
async fn every_form_of_a_list_has_the_shard() {
    let mut fixture = shirts(3);
    let selector = of_uid(&uid(1));
    let info = format!("\"shardInfo\":{{\"selector\":\"{selector}\"}}}}");
    for (path, accept, expected, why) in [
        (SHIRTS, "application/json", format!("\"resourceVersion\":\"103\",{info}"), "a custom resource"),
        (SHIRTS, TABLE, format!("{{\"resourceVersion\":\"103\",{info},\"columnDefinitions\""), "a Table"),
        (SHIRTS, METADATA_LIST, format!("{{\"resourceVersion\":\"103\",{info},\"items\""), "metadata"),
        (SHIRTS, "application/yaml", format!("  shardInfo:\n    selector: \"{selector}\"\n"), "YAML"),
        (PODS, "application/json", format!("{{\"resourceVersion\":\"100\",{info},\"items\":[]"), "a built-in kind"),
    ] {
        let list = fixture.get_with(&with(path, &selector), &[("accept", accept)]).await;
        assert!(list.body.contains(&expected), "{why}: {}", list.body);
    }
    // In protobuf, with a Pod without a uid.
    fixture.put_pod("default", "p");
    for (minor, selector) in [(36, of_uid("")), (36, of_uid(&uid(1))), (32, of_uid(&uid(1)))] {
        // The message of an older version does not have the field.
        let version = VersionInfo { body: json!({ "major": "1", "minor": minor.to_string() }) };
        fixture.registry.replace(Catalog::new(Vec::new(), [fixture.pods.resource.clone()], version), |_| None);
        let path = with(PODS, &selector);
        let json = fixture.get(&path).await.body;
        assert_eq!(json.matches("shardInfo").count(), 1);
        let (code, media_type, body) = got(&fixture, &path, PROTOBUF).await;
        assert_eq!((code, &*media_type), (200, PROTOBUF));
        assert_same(&body, &encoded(json.trim_end().as_bytes()), &format!("{selector} with 1.{minor}"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_shows_its_shard() {
    let mut fixture = shirts(2);
    let mut first = fixture.watch(&with(&format!("{SHIRTS}?watch=1&allowWatchBookmarks=1"), &of_uid(&uid(0)))).await;
    assert_eq!(first.lines(2).await, ["ADDED default/s000@101", "BOOKMARK @102"], "initial events");
    let mut other = fixture.watch(&with(&format!("{SHIRTS}?watch=1&resourceVersion=101"), &of_uid(&uid(1)))).await;
    assert_eq!(other.line().await, "ADDED default/s001@102", "from history");
    put(&mut fixture, "default", "s000", "red", &uid(0));
    assert_eq!(first.line().await, "MODIFIED default/s000@103");
    // An object of the same name with another uid.
    put(&mut fixture, "default", "s000", "red", &uid(1));
    assert_eq!(first.line().await, "DELETED default/s000@104");
    assert_eq!(other.line().await, "ADDED default/s000@104");
    fixture.delete("default", "s000");
    assert_eq!(other.line().await, "DELETED default/s000@105");
    fixture.delete("default", "s001");
    assert_eq!(other.line().await, "DELETED default/s001@106");
    first.expect_silence().await;
    let namespace =
        format!("shardRange(object.metadata.namespace, '0x{0:016x}', '0x{1:016x}')", fnv1a("a"), fnv1a("a") + 1);
    let mut of_namespace = fixture.watch(&with(&format!("{ALL_SHIRTS}?watch=1&resourceVersion=106"), &namespace)).await;
    put(&mut fixture, "b", "x", "red", &uid(5));
    put(&mut fixture, "a", "x", "red", &uid(6));
    assert_eq!(of_namespace.line().await, "ADDED a/x@108");
}

#[tokio::test]
async fn errors_are_those_of_upstream_in_its_order() {
    let fixture = shirts(1);
    let unexpected = "invalid shard selector: unexpected expression kind 3; expected shardRange() call or || operator";
    let empty = "invalid shard selector: empty shard selector is not allowed; omit the parameter for unfiltered lists";
    for (query, code, message) in [
        ("shardSelector=x", 500, unexpected),
        ("shardSelector=x&watch=1", 500, unexpected),
        ("shardSelector=%20", 500, empty),
        ("shardSelector=x&resourceVersion=abc", 500, unexpected),
        ("shardSelector=x&continue=abc", 500, unexpected),
        ("shardSelector=&shardSelector=x", 200, ""),
        ("shardSelector=x&limit=abc", 400, "strconv.ParseInt: parsing \"abc\": invalid syntax"),
        (
            "shardSelector=x&labelSelector=,",
            400,
            "unable to parse requirement: found ',', expected: identifier after ','",
        ),
    ] {
        let answer = fixture.get(&format!("{SHIRTS}?{query}")).await;
        assert_eq!(answer.code.as_u16(), code, "{query}: {}", answer.body);
        if code == 500 {
            let expected = json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "code": 500,
            });
            assert_eq!(answer.json(), expected, "{query}");
        }
    }
}

#[tokio::test]
async fn a_view_and_an_explanation_have_shards_of_what_is_shown() {
    let fixture = shirts(60);
    let operator = Operator::In(vec!["blue".to_owned()]);
    let part = ViewPart {
        group: "stable.example.com".to_owned(),
        resource: "shirts".to_owned(),
        fields: vec![FieldExpression { key: "spec.color".to_owned(), operator }],
        ..ViewPart::default()
    };
    let definition = ViewDefinition { parts: vec![part], ..ViewDefinition::default() };
    fixture.registry.replace_views(BTreeMap::from([("pruned".to_owned(), Ok(definition.into()))]));
    let selector = shard(0, 2);
    let shown = fixture.get(&with(&format!("{VIEW}{ALL_SHIRTS}"), &selector)).await;
    let blue = fixture.get(&with(&format!("{ALL_SHIRTS}?fieldSelector=spec.color%3Dblue"), &selector)).await;
    assert_eq!(shown.names(), blue.names());
    assert_eq!(shown.json()["metadata"]["shardInfo"]["selector"], selector);
    let all = fixture.get(&with(ALL_SHIRTS, &selector)).await.names().len();
    let explained = fixture.get(&with(&format!("{ALL_SHIRTS}?explain=true"), &selector)).await.explanation();
    assert_eq!(explained["plan"], format!("{selector} ({all})"));
    assert_eq!((&explained["path"], &explained["hits"]), (&json!("index"), &json!(all)));
    assert_eq!(fixture.shirts.store.version(), Version::new(160));
    let response = fixture.send(Method::HEAD, &with(SHIRTS, "x"), &[]).await;
    assert_eq!(response.status().as_u16(), 500);
}

/// A Strong read that need not wait is forwarded only if the API server gives the same response.
#[test]
fn a_selection_with_a_shard_is_not_for_the_api_server() {
    let fixture = Fixture::new();
    let resource = &fixture.shirts.resource;
    let mut selection = Selection::default();
    assert!(upstream_knows(resource, &selection), "every API server understands it");
    selection.shard = Some(Arc::new(Shard::parse(&shard(0, 2)).unwrap()));
    assert!(!upstream_knows(resource, &selection), "most API servers ignore the parameter");
}
