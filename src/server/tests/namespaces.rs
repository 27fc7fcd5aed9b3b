//! Views that select namespaces by labels: what they show, and how a relabeled namespace ends what began before.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};

use super::{ALL_SHIRTS, Fixture, Stored, catalog, pods};
use crate::model::{Gvr, Key, Scope, Version};
use crate::registry::Resource;
use crate::registry::view_namespaces::ViewNamespaces;
use crate::registry::views::{ViewDefinition, ViewPart};
use crate::selector::{LabelSelector, Operator};
use crate::server::Settings;
use crate::store::{HistoryLimits, Store};

const TEAM: &str = "/apis/view.fieldcache.dev/v1alpha1/views/team/proxy";

/// Shirts in three namespaces, of which `a` and `ab` belong to the team of a View.
struct Cluster {
    fixture: Fixture,
    namespaces: Stored,
}

impl Cluster {
    fn new() -> Cluster {
        let fixture = Fixture::with_shirts(Settings::default());
        let resource = Resource {
            gvr: Gvr::new("", "v1", "namespaces"),
            kind: "Namespace".to_owned(),
            list_kind: "NamespaceList".to_owned(),
            singular: "namespace".to_owned(),
            scope: Scope::Cluster,
            extractor: crate::builtin::extractor("", "v1", "Namespace"),
            ..pods()
        };
        let mut namespaces = Stored::new(resource, HistoryLimits::default());
        namespaces.store.replace(&[], Version::new(100));
        let mut cluster = Cluster { fixture, namespaces };
        for (name, team) in [("a", "x"), ("a-b", "y"), ("ab", "x")] {
            cluster.label(name, team, "1");
        }
        // As new as the last label.
        cluster.fixture.put("a-b", "newest", "blue");
        cluster.fixture.registry.replace(cluster.catalog(), |_| None);
        cluster.serve();
        cluster
    }

    fn catalog(&self) -> crate::registry::Catalog {
        let Fixture { shirts, hats, pods, .. } = &self.fixture;
        catalog(&[shirts, hats, pods, &self.namespaces])
    }

    /// Serves the View of the team, as a new View.
    fn serve(&self) {
        let requirement =
            crate::selector::LabelRequirement { key: "team".to_owned(), operator: Operator::equal_to("x") };
        let part = ViewPart {
            group: "stable.example.com".to_owned(),
            resource: "shirts".to_owned(),
            namespaces: ViewNamespaces::Selected(LabelSelector { requirements: vec![requirement] }),
            ..ViewPart::default()
        };
        let definition = Arc::new(ViewDefinition { parts: vec![part], ..ViewDefinition::default() });
        self.fixture.registry.replace_views(BTreeMap::new());
        self.fixture.registry.replace_views(BTreeMap::from([("team".to_owned(), Ok(definition))]));
    }

    /// Writes the labels of a namespace and returns the version.
    fn label(&mut self, name: &str, team: &str, other: &str) -> u64 {
        let version = self.fixture.next_version();
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": name, "labels": {"team": team, "other": other}, "resourceVersion": version.to_string()},
        });
        let record = self.namespaces.resource.extractor.extract(Bytes::from(namespace.to_string())).unwrap();
        self.namespaces.store.apply(&record);
        self.namespaces.publish();
        version
    }

    async fn names(&self) -> Vec<String> {
        self.fixture.get(&format!("{TEAM}{ALL_SHIRTS}")).await.names()
    }

    /// The version of a list through the View.
    async fn version(&self) -> String {
        let list = self.fixture.get(&format!("{TEAM}{ALL_SHIRTS}?limit=1")).await.json();
        list["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
    }
}

fn watch_from(version: &str) -> String {
    format!("{TEAM}{ALL_SHIRTS}?watch=1&resourceVersion={version}")
}

fn is_expired(event: Option<&Value>, reason: &str) -> bool {
    event.is_some_and(|event| {
        event["type"] == "ERROR"
            && event["object"]["code"] == 410
            && event["object"]["message"].as_str().is_some_and(|message| message.contains(reason))
    })
}

#[tokio::test]
async fn a_view_shows_the_namespaces_that_its_selector_selects() {
    let mut cluster = Cluster::new();
    let team = ["a/x", "a/x-y", "a/x.y", "ab/x", "ab/x-y", "ab/x.y"];
    assert_eq!(cluster.names().await, team);
    let within = |namespace: &str| format!("{TEAM}/apis/stable.example.com/v1/namespaces/{namespace}/shirts");
    assert_eq!(cluster.fixture.get(&within("ab")).await.names().len(), 3, "one of them");
    let elsewhere = cluster.fixture.get(&within("a-b")).await;
    assert_eq!((elsewhere.code.as_u16(), elsewhere.names().len()), (200, 0), "a namespace outside looks empty");
    assert_eq!(cluster.fixture.get(&format!("{}/x", within("a"))).await.code.as_u16(), 200, "an object inside");
    assert_eq!(cluster.fixture.get(&format!("{}/x", within("a-b"))).await.code.as_u16(), 404, "an object outside");
    let one = cluster.fixture.get(&format!("{TEAM}{ALL_SHIRTS}?limit=1")).await.json();
    assert_eq!(one["metadata"]["remainingItemCount"], 5, "what remains is counted in them");
    cluster.label("a-b", "x", "1");
    cluster.label("a", "y", "1");
    cluster.fixture.put("b", "later", "blue");
    assert_eq!(cluster.names().await, ["a-b/newest", "a-b/x", "a-b/x-y", "a-b/x.y", "ab/x", "ab/x-y", "ab/x.y"]);
    let version = cluster.fixture.next_version();
    cluster.namespaces.store.delete(&Key::new("", "ab"), Version::new(version));
    cluster.namespaces.publish();
    cluster.fixture.put("b", "later", "green");
    assert_eq!(cluster.names().await.len(), 4, "a deleted namespace leaves");
}

#[tokio::test(start_paused = true)]
async fn watches_end_when_a_namespace_starts_or_stops_to_match() {
    let changes: [(&str, &str); 2] = [("a-b", "x"), ("a", "y")];
    for (name, team) in changes {
        let mut cluster = Cluster::new();
        let before = cluster.version().await;
        let mut watch = cluster.fixture.watch(&watch_from(&before)).await;
        let of_one = watch_from(&before).replace("/shirts?", "/namespaces/ab/shirts?");
        let mut within_one = cluster.fixture.watch(&of_one).await;
        cluster.label("a", "x", "2");
        cluster.fixture.put("a", "seen", "blue");
        assert_eq!(watch.next().await.unwrap()["object"]["metadata"]["name"], "seen", "another label changes nothing");
        cluster.label(name, team, "1");
        cluster.fixture.put("a", "unseen", "blue");
        let event = watch.next().await;
        assert!(is_expired(event.as_ref(), "the namespaces of the View changed"), "{name}: {event:?}");
        watch.expect_end("after 410").await;
        let event = within_one.next().await;
        assert!(is_expired(event.as_ref(), "the namespaces of the View changed"), "{name}: {event:?}");
        // A client that was between two watches.
        let mut resumed = cluster.fixture.watch(&watch_from(&before)).await;
        let event = resumed.next().await;
        assert!(is_expired(event.as_ref(), &format!("too old resource version: {before} (")), "{name}: {event:?}");
        let mut next = cluster.fixture.watch(&watch_from(&cluster.version().await)).await;
        cluster.fixture.put("ab", "seen", "blue");
        assert_eq!(next.next().await.unwrap()["object"]["metadata"]["name"], "seen", "a client that has listed again");
    }
}

#[tokio::test(start_paused = true)]
async fn pages_and_versions_before_a_change_are_expired() {
    let mut cluster = Cluster::new();
    let page = cluster.fixture.get(&format!("{TEAM}{ALL_SHIRTS}?limit=2")).await.json();
    let token = page["metadata"]["continue"].as_str().unwrap();
    let version = page["metadata"]["resourceVersion"].as_str().unwrap();
    let next = format!("{TEAM}{ALL_SHIRTS}?limit=2&continue={token}");
    let exact = format!("{TEAM}{ALL_SHIRTS}?resourceVersion={version}&resourceVersionMatch=Exact");
    for path in [&next, &exact] {
        assert_eq!(cluster.fixture.get(path).await.code.as_u16(), 200, "{path}");
    }
    cluster.label("a-b", "x", "1");
    cluster.fixture.put("b", "later", "blue");
    for path in [&next, &exact] {
        assert_eq!(cluster.fixture.get(path).await.code.as_u16(), 410, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_after_a_change_has_a_newer_version_if_there_is_one() {
    let mut cluster = Cluster::new();
    let before = cluster.version().await;
    cluster.label("a-b", "x", "1");
    let begun = tokio::time::Instant::now();
    let (list, ()) = tokio::join!(cluster.version(), async {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        // The store has not changed, but its source has reached this version.
        cluster.fixture.shirts.resource.state.publish(crate::registry::LoadState::Ready({
            let mut store = Store::new(HistoryLimits::default());
            store.replace(&[], Version::new(999));
            store.snapshot()
        }));
    });
    assert_eq!((&*list, begun.elapsed().as_secs()), ("999", 1), "the list waits");
    assert_ne!(before, list);
    // Nothing is written any more.
    cluster.label("a-b", "y", "1");
    assert_eq!(cluster.version().await, "999");
    let mut watch = cluster.fixture.watch(&watch_from("999")).await;
    watch.expect_silence().await;
}

/// A list that waits for a newer version is answered, although the namespaces change again meanwhile.
#[tokio::test(start_paused = true)]
async fn lists_are_answered_while_namespaces_change() {
    let mut cluster = Cluster::new();
    cluster.label("a-b", "x", "1");
    let path = format!("{TEAM}{ALL_SHIRTS}");
    let (fixture, namespaces) = (&cluster.fixture, &mut cluster.namespaces);
    let changing = async {
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        let labels = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": "a-b", "labels": {"team": "y"}, "resourceVersion": "900"},
        });
        let record = namespaces.resource.extractor.extract(Bytes::from(labels.to_string())).unwrap();
        namespaces.store.apply(&record);
        namespaces.publish();
        // Another client notices the change.
        let other = fixture.get(&path);
        let reaching = async {
            tokio::time::sleep(std::time::Duration::from_millis(500)).await;
            fixture.shirts.resource.state.publish(crate::registry::LoadState::Ready({
                let mut store = Store::new(HistoryLimits::default());
                store.replace(&[], Version::new(999));
                store.snapshot()
            }));
        };
        tokio::join!(other, reaching).0
    };
    let (first, other) = tokio::join!(fixture.get(&path), changing);
    assert_eq!((first.code.as_u16(), other.code.as_u16()), (200, 200), "{} {}", first.message(), other.message());
    assert_eq!(first.json()["metadata"]["resourceVersion"], "999");
}

#[tokio::test(start_paused = true)]
async fn clients_of_an_earlier_definition_list_again() {
    let mut cluster = Cluster::new();
    let before = cluster.version().await;
    cluster.fixture.put("a", "later", "blue");
    cluster.serve();
    let mut resumed = cluster.fixture.watch(&watch_from(&before)).await;
    let event = resumed.next().await;
    assert!(is_expired(event.as_ref(), &format!("too old resource version: {before} (")), "{event:?}");
    let mut next = cluster.fixture.watch(&watch_from(&cluster.version().await)).await;
    cluster.fixture.put("a", "seen", "blue");
    assert_eq!(next.next().await.unwrap()["object"]["metadata"]["name"], "seen");
}

#[tokio::test(start_paused = true)]
async fn without_namespaces_nothing_is_shown() {
    let cluster = Cluster::new();
    let Fixture { shirts, hats, pods, .. } = &cluster.fixture;
    cluster.fixture.registry.replace(catalog(&[shirts, hats, pods]), |_| None);
    let list = cluster.fixture.get(&format!("{TEAM}{ALL_SHIRTS}")).await;
    assert_eq!(list.code.as_u16(), 503, "{}", list.body);
    assert!(list.message().contains("create the FieldCache namespaces"), "{}", list.body);
}
