//! The one writer: visibility, aborted lists, unreadable objects.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use crate::model::quantity::Bytes as Amount;
use crate::model::{Gvr, Scope, Version};
use crate::registry::{LoadState, Memory, Resource, ResourceOrigin};
use crate::source::feed::{Feed, SourceEvent};
use crate::store::HistoryLimits;

pub(super) fn resource() -> Arc<Resource> {
    Arc::new(Resource {
        gvr: Gvr::new("", "v1", "configmaps"),
        kind: "ConfigMap".to_owned(),
        list_kind: "ConfigMapList".to_owned(),
        singular: "configmap".to_owned(),
        scope: Scope::Namespaced,
        short_names: Arc::new([]),
        categories: Arc::new([]),
        subresources: Arc::new([]),
        storage_version_hash: String::new(),
        origin: ResourceOrigin::BuiltIn,
        printer_columns: Arc::new([]),
        deprecation_warning: None,
        definition: String::new(),
        extractor: crate::builtin::extractor("", "v1", "ConfigMap"),
        state: Arc::default(),
        partial_store: None,
        view_restriction: None,
        dropped: Default::default(),
    })
}

pub(super) fn object(name: &str, version: u64) -> Bytes {
    Bytes::from(format!(r#"{{"metadata":{{"name":"{name}","namespace":"a","resourceVersion":"{version}"}}}}"#))
}

fn names(resource: &Resource) -> Option<Vec<String>> {
    match resource.state.load_state() {
        LoadState::Ready(snapshot) => {
            Some(snapshot.range(std::ops::Bound::Unbounded).map(|(_, object)| object.key().to_owned()).collect())
        }
        LoadState::Idle
        | LoadState::Loading(_)
        | LoadState::SourceError { .. }
        | LoadState::OverMemory(_)
        | LoadState::Gone(_) => None,
    }
}

#[test]
fn a_list_is_invisible_until_it_is_complete_and_an_aborted_one_costs_nothing() {
    let resource = resource();
    let mut feed = Feed::new(resource.clone(), HistoryLimits::default());
    assert!(feed.needs_list());
    for event in [SourceEvent::Begin, SourceEvent::Item(object("x", 3))] {
        feed.take(event);
        feed.publish();
    }
    assert_eq!(names(&resource), None, "half a first list is not shown");
    feed.take(SourceEvent::Begin);
    feed.take(SourceEvent::Item(object("y", 4)));
    feed.take(SourceEvent::Commit(Version::new(9)));
    feed.publish();
    assert_eq!(names(&resource), Some(vec!["a/y".to_owned()]), "only the list that was finished");
    assert!(!feed.needs_list());

    feed.expect_list();
    feed.take(SourceEvent::Begin);
    feed.take(SourceEvent::Item(object("z", 20)));
    feed.publish();
    assert_eq!(names(&resource), Some(vec!["a/y".to_owned()]), "half a relist is not shown");
    assert_eq!(feed.version(), Version::new(9));
}

#[test]
fn an_object_that_cannot_be_read_is_reported_and_its_old_version_goes() {
    let resource = resource();
    let mut feed = Feed::new(resource.clone(), HistoryLimits::default());
    feed.take(SourceEvent::Begin);
    feed.take(SourceEvent::Item(object("x", 3)));
    feed.take(SourceEvent::Item(object("y", 4)));
    feed.take(SourceEvent::Commit(Version::new(9)));
    let broken = r#"{"metadata":{"name":"x","namespace":"a","resourceVersion":"ten"}}"#;
    feed.take(SourceEvent::Upsert(Bytes::from(broken)));
    feed.publish();
    assert_eq!(names(&resource), Some(vec!["a/y".to_owned()]));
    let reports: Vec<(&str, &str)> = feed.unreadable().iter().map(|(name, error)| (&**name, &**error)).collect();
    assert_eq!(reports, [("a/x", "metadata.resourceVersion \"ten\" is not a number")]);
    feed.take(SourceEvent::Upsert(object("x", 11)));
    feed.publish();
    assert_eq!(names(&resource), Some(vec!["a/x".to_owned(), "a/y".to_owned()]), "a readable version brings it back");
    assert!(feed.unreadable().is_empty());
}

#[test]
fn what_is_remembered_of_objects_that_cannot_be_read_is_short() {
    let resource = resource();
    let mut feed = Feed::new(resource.clone(), HistoryLimits::default());
    feed.take(SourceEvent::Begin);
    for number in 0..100 {
        let long = number.to_string().repeat(50_000);
        for (name, version) in [(&*long, "ten"), ("x", &*long)] {
            let broken =
                format!(r#"{{"metadata":{{"name":"{name}","namespace":"a","resourceVersion":"-{version}"}}}}"#);
            feed.take(SourceEvent::Item(Bytes::from(broken)));
        }
    }
    feed.take(SourceEvent::Commit(Version::new(9)));
    feed.publish();
    let names: Vec<&str> = feed.unreadable().keys().map(|name| &**name).collect();
    assert_eq!(names, ["(unknown name)", "a/x"]);
    let bytes: usize = feed.unreadable().iter().map(|(name, error)| name.len() + error.len()).sum();
    assert!(bytes < 1_000, "{bytes}");
}

#[test]
fn an_event_of_an_unknown_object_causes_a_list() {
    let resource = resource();
    let cut = Bytes::from_static(b"{\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"9\"}");
    for (event, why) in [
        (SourceEvent::Upsert(cut.clone()), "what changed is not known, so anything held may be old"),
        (SourceEvent::Remove(cut.clone()), "nor what went"),
    ] {
        let mut feed = Feed::new(resource.clone(), HistoryLimits::default());
        feed.take(SourceEvent::Begin);
        feed.take(SourceEvent::Item(cut.clone()));
        feed.take(SourceEvent::Commit(Version::new(5)));
        assert!(!feed.needs_list(), "in a list it is merely missing");
        feed.take(event);
        assert!(feed.needs_list(), "{why}");
    }
}

#[test]
fn a_deletion_carries_its_own_version_and_a_bookmark_moves_it() {
    let resource = resource();
    let mut feed = Feed::new(resource.clone(), HistoryLimits::default());
    feed.take(SourceEvent::Begin);
    feed.take(SourceEvent::Item(object("x", 3)));
    feed.take(SourceEvent::Commit(Version::new(9)));
    feed.take(SourceEvent::Remove(object("x", 12)));
    assert_eq!(feed.version(), Version::new(12));
    feed.take(SourceEvent::Mark(Version::new(30)));
    feed.publish();
    assert_eq!(feed.version(), Version::new(30));
    assert_eq!(names(&resource), Some(vec![]));
}

#[test]
fn changes_before_the_end_of_a_list_belong_to_it() {
    let resource = resource();
    let mut feed = Feed::new(resource.clone(), HistoryLimits::default());
    for version in [20, 60] {
        feed.take(SourceEvent::Begin);
        for name in ["kept", "changed", "deleted", "broken"] {
            feed.take(SourceEvent::Item(object(name, version)));
        }
        feed.take(SourceEvent::Upsert(object("changed", version + 5)));
        feed.take(SourceEvent::Remove(object("deleted", version + 6)));
        feed.take(SourceEvent::Upsert(object("created", version + 7)));
        feed.take(SourceEvent::Upsert(Bytes::from(
            r#"{"metadata":{"name":"broken","namespace":"a","resourceVersion":"1x"}}"#,
        )));
        feed.take(SourceEvent::Item(object("changed", version)));
        feed.take(SourceEvent::Mark(Version::new(version + 8)));
        feed.take(SourceEvent::Commit(Version::new(version + 9)));
        feed.publish();
        let LoadState::Ready(snapshot) = resource.state.load_state() else { panic!("a committed list is ready") };
        let events: Vec<(&str, u64)> = snapshot
            .range(std::ops::Bound::Unbounded)
            .map(|(_, object)| (object.key(), object.version().number()))
            .collect();
        assert_eq!(events, [("a/changed", version + 5), ("a/created", version + 7), ("a/kept", version)], "{version}");
        assert_eq!((snapshot.version().number(), snapshot.epoch()), (version + 9, 0), "history goes on");
    }
}

#[test]
fn a_distrusted_list_replaces_bytes_whose_version_is_unchanged_and_ends_watches() {
    let resource = resource();
    let mut feed = Feed::new(resource.clone(), HistoryLimits::default());
    for (text, epoch) in [("old", 0), ("new", 1)] {
        if epoch == 1 {
            feed.begin_new_epoch();
            assert!(feed.needs_list());
        }
        feed.take(SourceEvent::Begin);
        let bytes = format!(
            r#"{{"metadata":{{"name":"x","namespace":"a","resourceVersion":"3"}},"data":{{"text":"{text}"}}}}"#
        );
        feed.take(SourceEvent::Item(Bytes::from(bytes)));
        feed.take(SourceEvent::Commit(Version::new(9)));
        feed.publish();
        let LoadState::Ready(snapshot) = resource.state.load_state() else { panic!("a committed list is ready") };
        let object = snapshot.get("a/x").unwrap();
        assert!(std::str::from_utf8(&object.json()).unwrap().contains(text), "{text}");
        assert_eq!(snapshot.epoch(), epoch, "{text}");
    }
}

#[test]
fn a_list_that_breaks_off_is_let_go_at_once() {
    let resource = resource();
    let mut feed = Feed::new(resource.clone(), HistoryLimits::default());
    let broken = Bytes::from(r#"{"metadata":{"name":"x","namespace":"a","resourceVersion":"no"}}"#);
    feed.take(SourceEvent::Abort);
    assert!(feed.needs_list() && !feed.is_ready(), "without a list it says nothing");
    for (committed, names_after) in [(false, None), (true, Some(vec!["a/y".to_owned()]))] {
        if committed {
            feed.take(SourceEvent::Begin);
            feed.take(SourceEvent::Item(object("y", 4)));
            feed.take(SourceEvent::Commit(Version::new(9)));
            feed.expect_list();
        }
        feed.take(SourceEvent::Begin);
        feed.take(SourceEvent::Item(object("z", 20)));
        feed.take(SourceEvent::Item(broken.clone()));
        assert_eq!((feed.listed(), resource.state.is_relisting()), (1, true));
        feed.take(SourceEvent::Abort);
        feed.publish();
        assert_eq!((feed.listed(), resource.state.is_relisting()), (0, false), "nothing of it is held");
        assert_eq!(names(&resource), names_after, "and nothing is shown");
        assert!(feed.unreadable().is_empty() && feed.needs_list(), "the next list is still needed");
    }
    // Changes are taken again as before: the store is what it was.
    feed.take(SourceEvent::Upsert(object("x", 21)));
    feed.publish();
    assert_eq!(names(&resource), Some(vec!["a/x".to_owned(), "a/y".to_owned()]));
}

#[test]
fn an_invalidation_lasts_until_a_list_and_ends_its_watches() {
    let resource = resource();
    let mut feed = Feed::new(resource.clone(), HistoryLimits::default());
    let list = |feed: &mut Feed, name: &str, version: u64| {
        feed.take(SourceEvent::Begin);
        feed.take(SourceEvent::Item(object(name, 3)));
        feed.take(SourceEvent::Commit(Version::new(version)));
        feed.publish();
        let LoadState::Ready(snapshot) = resource.state.load_state() else { panic!("a committed list is ready") };
        snapshot
    };
    let first = list(&mut feed, "x", 9);
    assert!(!first.is_invalidated(first.epoch()));
    assert!(!resource.state.is_relisting());
    feed.invalidate();
    assert!(resource.state.is_relisting(), "what is known to be invalid is not checked again");
    // A lesser begin_new_epoch does not take it back, and neither does a list that breaks off.
    feed.begin_new_epoch();
    feed.take(SourceEvent::Begin);
    feed.take(SourceEvent::Abort);
    assert!(resource.state.is_relisting(), "nor after a list that broke off");
    let second = list(&mut feed, "x", 12);
    assert!(!resource.state.is_relisting());
    assert!(second.is_invalidated(first.epoch()) && !second.is_invalidated(second.epoch()));
    for (version, is_known) in [(8, false), (9, false), (11, false), (12, true), (13, true)] {
        assert_eq!(second.since(Version::new(version)).is_ok(), is_known, "resuming from {version}");
    }
    feed.begin_new_epoch();
    let third = list(&mut feed, "x", 14);
    assert!(third.is_invalidated(first.epoch()), "a watch that slept through both is invalidated");
    assert!(!third.is_invalidated(second.epoch()), "later events were correct");
}

#[test]
fn what_is_left_of_a_deleted_resource_is_removed_with_an_event_for_each_object() {
    let distrusts: [fn(&mut Feed); 3] = [|_| {}, Feed::begin_new_epoch, Feed::invalidate];
    for begin_new_epoch in distrusts {
        let resource = resource();
        let mut feed = Feed::new(resource.clone(), HistoryLimits::default());
        feed.remove_all(Version::new(50));
        assert!(matches!(resource.state.load_state(), LoadState::Idle), "before the first list nothing is shown");
        for event in [
            SourceEvent::Begin,
            SourceEvent::Item(object("x", 3)),
            SourceEvent::Item(object("y", 4)),
            SourceEvent::Commit(Version::new(9)),
            // A list that is under way is of no use any more.
            SourceEvent::Begin,
            SourceEvent::Item(object("z", 20)),
        ] {
            feed.take(event);
        }
        feed.publish();
        let LoadState::Ready(before) = resource.state.load_state() else { panic!("a committed list is ready") };
        // As when the source has ended a watch soon after the definition changed.
        begin_new_epoch(&mut feed);
        // The definition may have been deleted before the last event that was sent.
        feed.remove_all(Version::new(8));
        let LoadState::Ready(snapshot) = resource.state.load_state() else { panic!("the store is empty, and exists") };
        assert_eq!((snapshot.version(), snapshot.epoch()), (Version::new(9), before.epoch()));
        let removed: Vec<String> = snapshot
            .changes(before.end())
            .expect("history goes on")
            .map(|change| format!("{} {}", change.before.as_ref().unwrap().key(), change.after.is_none()))
            .collect();
        assert_eq!(removed, ["a/x true", "a/y true"]);
    }
}

#[test]
fn a_second_feed_of_a_resource_begins_another_epoch() {
    let resource = resource();
    let mut epochs = Vec::new();
    for _ in 0..3 {
        let mut feed = Feed::new(resource.clone(), HistoryLimits::default());
        feed.take(SourceEvent::Begin);
        feed.take(SourceEvent::Commit(Version::new(9)));
        feed.begin_new_epoch();
        feed.take(SourceEvent::Begin);
        feed.take(SourceEvent::Commit(Version::new(9)));
        feed.publish();
        let LoadState::Ready(snapshot) = resource.state.load_state() else { panic!("a committed list is ready") };
        epochs.push(snapshot.epoch());
    }
    assert!(epochs.is_sorted_by(|earlier, later| earlier < later), "{epochs:?}");
}

#[test]
fn relists_and_unreadable_objects_are_visible_to_readers() {
    let resource = resource();
    let mut feed = Feed::new(resource.clone(), HistoryLimits::default());
    let unreadable = || Bytes::from(r#"{"metadata":{"name":"x","namespace":"a","resourceVersion":"no"}}"#);
    for (events, relists, unreadable, why) in [
        (vec![SourceEvent::Begin, SourceEvent::Item(unreadable())], 0, 0, "nothing is complete yet"),
        (vec![SourceEvent::Commit(Version::new(9))], 0, 1, "the first list replaces nothing"),
        (vec![SourceEvent::Upsert(object("x", 10))], 0, 0, "it can be read again"),
        (vec![SourceEvent::Begin, SourceEvent::Item(unreadable())], 0, 0, "a relist that is not complete"),
        (
            vec![SourceEvent::Begin, SourceEvent::Item(object("x", 10)), SourceEvent::Commit(Version::new(12))],
            1,
            0,
            "one that is",
        ),
        (vec![SourceEvent::Upsert(unreadable())], 1, 1, "a change that cannot be read"),
        (vec![SourceEvent::Begin, SourceEvent::Commit(Version::new(13))], 2, 0, "an empty list"),
    ] {
        for event in events {
            feed.take(event);
        }
        feed.publish();
        assert_eq!((resource.state.relists(), resource.state.unreadable().names.len()), (relists, unreadable), "{why}");
    }
}

/// The memory that a first list of so many objects takes, once it is there.
fn taken_by(objects: u64) -> u64 {
    let memory = Arc::new(Memory::default());
    let mut feed = Feed::new(resource(), HistoryLimits::default()).accounted(&memory, true);
    list(&mut feed, objects);
    assert!(feed.is_ready());
    memory.held().0
}

fn list(feed: &mut Feed, objects: u64) {
    feed.take(SourceEvent::Begin);
    for number in 0..objects {
        feed.take(SourceEvent::Item(object(&format!("object-{number}"), number + 1)));
    }
    feed.take(SourceEvent::Commit(Version::new(objects + 1)));
    feed.publish();
}

#[test]
fn what_a_store_holds_is_counted_from_its_first_list_to_its_end() {
    let memory = Arc::new(Memory::default());
    let resource = resource();
    let mut feed = Feed::new(resource.clone(), HistoryLimits::default()).accounted(&memory, true);
    let stored = |resource: &Resource| match resource.state.load_state() {
        LoadState::Ready(snapshot) => {
            let usage = snapshot.usage();
            let indexes: u64 = usage.attributes.iter().map(|index| index.bytes).sum();
            usage.held_bytes + usage.history_bytes + usage.order_bytes + indexes
        }
        _ => 0,
    };
    list(&mut feed, 3_000);
    assert_eq!(memory.held().0, stored(&resource), "all that metrics report of a store that has not been trained");
    let before = memory.held();
    for number in 0..500 {
        feed.take(SourceEvent::Upsert(object(&format!("object-{number}"), 10_000 + number)));
    }
    feed.publish();
    assert!(memory.held() > before, "history is part of it");
    assert_eq!(memory.held().0, stored(&resource));
    for number in 0..2_000 {
        feed.take(SourceEvent::Upsert(object(&format!("more-{number}"), 20_000 + number)));
    }
    feed.publish();
    let (held, stored) = (memory.held().0, stored(&resource));
    assert!(held.abs_diff(stored) * 20 < stored, "indexes may be walked a little later: {held}, {stored}");
    drop(feed);
    assert_eq!(memory.held(), Amount(0));
}

#[tokio::test]
async fn a_first_list_that_crosses_the_memory_limit_is_let_go_at_once_and_a_ready_store_grows_half_as_much_again() {
    let whole = taken_by(5_000);
    let memory = Arc::new(Memory::new(Some(Amount(whole / 2))));
    let large = resource();
    let mut feed = Feed::new(large.clone(), HistoryLimits::default()).accounted(&memory, true);
    let refusal = feed.refusal();
    feed.take(SourceEvent::Begin);
    let mut most = 0;
    for number in 0..5_000u64 {
        feed.take(SourceEvent::Item(object(&format!("object-{number}"), number + 1)));
        most = most.max(feed.listed());
    }
    feed.take(SourceEvent::Commit(Version::new(5_001)));
    feed.publish();
    assert_eq!(names(&large), None, "it is not shown");
    assert!((1_000..4_000).contains(&most), "it was let go about half-way: {most}");
    assert_eq!((feed.listed(), memory.held()), (0, Amount(0)), "nothing of it is kept");
    assert!(
        feed.refused_bytes().is_some_and(|needed| needed.0 > whole / 2 && needed.0 < whole),
        "{:?}",
        feed.refused_bytes()
    );
    refusal.notified().await;

    // One that is small when it is listed, also where its end alone is looked at.
    let memory = Arc::new(Memory::new(Some(Amount(taken_by(100) - 1))));
    let mut small = Feed::new(resource(), HistoryLimits::default()).accounted(&memory, true);
    list(&mut small, 100);
    assert!(!small.is_ready() && small.refused_bytes().is_some());
    drop(small);

    let memory = Arc::new(Memory::new(Some(Amount(whole))));
    let served = resource();
    let mut feed = Feed::new(served.clone(), HistoryLimits::default()).accounted(&memory, true);
    let refusal = feed.refusal();
    list(&mut feed, 4_900);
    for number in 0..800 {
        feed.take(SourceEvent::Upsert(object(&format!("more-{number}"), 20_000 + number)));
    }
    feed.publish();
    assert_eq!(names(&served).map(|names| names.len()), Some(5_700), "what is served is served on");
    assert!(memory.is_over() && feed.refused_bytes().is_none());
    for number in 800..5_000 {
        feed.take(SourceEvent::Upsert(object(&format!("more-{number}"), 20_000 + number)));
    }
    feed.publish();
    let needed = feed.refused_bytes().expect("up to a bound");
    assert!(needed.0 > whole * 3 / 2 && needed.0 < whole * 7 / 4, "{needed} of {whole}");
    refusal.notified().await;

    // Also one whose objects a relist brings, and a few large ones.
    let memory = Arc::new(Memory::new(Some(Amount(whole))));
    let mut feed = Feed::new(resource(), HistoryLimits::default()).accounted(&memory, true);
    list(&mut feed, 10);
    feed.begin_new_epoch();
    feed.take(SourceEvent::Begin);
    let blob: String =
        (0..(9u32 << 20)).map(|number| char::from(33 + (number.wrapping_mul(2_654_435_761) >> 26) as u8)).collect();
    let large = |number: u64| {
        let mut value: Value = serde_json::from_slice(&object(&format!("large-{number}"), 100 + number)).unwrap();
        value["blob"] = blob.replace(['\\', '"'], " ").into();
        Bytes::from(value.to_string())
    };
    feed.take(SourceEvent::Item(large(0)));
    feed.take(SourceEvent::Item(large(1)));
    assert!(feed.refused_bytes().is_some() && feed.listed() == 0, "{} of {whole}", memory.held());
    drop(feed);
    let memory = Arc::new(Memory::new(Some(Amount(taken_by(100) + 1))));

    // A folder, and the definitions of a cluster, are counted and never refused.
    let exempt = resource();
    let mut feed = Feed::new(exempt.clone(), HistoryLimits::default()).accounted(&memory, false);
    list(&mut feed, 100);
    assert_eq!(names(&exempt).map(|names| names.len()), Some(100));
}
