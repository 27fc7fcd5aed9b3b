//! Store: outcomes, relists, history. The property test replays random event sequences. It compares the store with one
//! rebuilt from scratch, and every watcher's replay with the result of a list.

use std::borrow::Cow;
use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::prelude::{Strategy, any, prop_oneof};
use proptest::{prop_assert, prop_assert_eq, proptest};

mod memory;
mod owners;
mod packing;
mod pins;
mod structures;
mod work;

use super::postings::Posting;
use super::{Change, HistoryLimits, RelistOutcome, Store, WriteOutcome};
use crate::model::{FieldIndex, IndexedValues, Key, Record, Version, fnv1a};

/// A record whose bytes are `{"metadata":{"resourceVersion":"N"}}`.
pub(crate) fn record(key: &str, version: u64, labels: &[(&str, &str)], values: &[&str]) -> Record {
    let (namespace, name) = key.split_once('/').unwrap_or(("", key));
    let digits = version.to_string();
    let bytes = format!("{{\"metadata\":{{\"resourceVersion\":\"{digits}\"}}}}");
    let start = "{\"metadata\":{\"resourceVersion\":\"".len() as u32;
    Record {
        key: Key::new(namespace, name),
        version: Version::new(version),
        texts: IndexedValues::new(labels.iter().copied(), (0..).map(FieldIndex).zip(values.iter().copied())),
        metadata_span: "{\"metadata\":".len() as u32..bytes.len() as u32 - 1,
        version_span: start..start + digits.len() as u32,
        uid_hash: fnv1a(key),
        bytes: Bytes::from(bytes),
    }
}

/// The same with several values of each field, which are sorted.
pub(crate) fn record_of_many(key: &str, version: u64, labels: &[(&str, &str)], values: &[Vec<&str>]) -> Record {
    let fields = (0..).map(FieldIndex).zip(values);
    let values = fields.flat_map(|(field, values)| values.iter().map(move |value| (field, *value)));
    Record { texts: IndexedValues::new(labels.iter().copied(), values), ..record(key, version, &[], &[]) }
}

proptest! {
    #[test]
    fn nested_objects_are_stored_packed_and_read_back(text in fieldcache_testing::nested::texts(10_000, &["a", "metadata"])) {
        let mut record = record("ns/deep", 1, &[], &["v"]);
        let end = record.bytes.len() - 1;
        record.bytes = Bytes::from([&record.bytes[..end], b",\"spec\":", text.as_bytes(), b"}"].concat());
        let bytes = record.bytes.clone();
        let found = fieldcache_testing::nested::on_worker_stack(move || {
            let mut store = Store::new(HistoryLimits::default());
            store.apply(&record);
            store.snapshot().get("ns/deep").map(|object| object.json().to_vec())
        });
        prop_assert!(found.as_deref() == Some(&*bytes));
    }
}

fn keys(store: &Store) -> Vec<String> {
    store.snapshot().range(std::ops::Bound::Unbounded).map(|(_, object)| object.key().to_owned()).collect()
}

fn reported(store: &Store, since: u64) -> Vec<(u64, Option<u64>, Option<u64>)> {
    let snapshot = store.snapshot();
    let cursor = snapshot.since(Version::new(since)).unwrap();
    snapshot
        .changes(cursor)
        .unwrap()
        .map(|change| {
            let number = |object: &Option<super::Object>| object.as_ref().map(|object| object.version().number());
            (change.version.number(), number(&change.before), number(&change.after))
        })
        .collect()
}

#[test]
fn older_and_repeated_events_change_nothing() {
    let mut store = Store::new(HistoryLimits::default());
    store.replace(&[], Version::new(1));
    assert_eq!(store.apply(&record("a/x", 5, &[], &["red"])), WriteOutcome::Changed);
    assert_eq!(store.apply(&record("a/x", 5, &[], &["blue"])), WriteOutcome::Stale, "the same version again");
    assert_eq!(store.apply(&record("a/x", 4, &[], &["blue"])), WriteOutcome::Stale, "an older version");
    assert_eq!(store.delete(&Key::new("a", "x"), Version::new(4)), WriteOutcome::Stale, "an older deletion");
    assert_eq!(store.delete(&Key::new("a", "y"), Version::new(9)), WriteOutcome::Stale, "an unknown object");
    assert_eq!(store.version(), Version::new(9), "a deletion proves its version");
    assert_eq!(reported(&store, 1), [(5, None, Some(5))]);
}

#[test]
fn a_snapshot_does_not_see_what_comes_after_it() {
    let mut store = Store::new(HistoryLimits::default());
    store.replace(&[record("a/x", 3, &[("app", "shop")], &["red"])], Version::new(3));
    let before = store.snapshot();
    store.apply(&record("a/x", 4, &[("app", "bank")], &["blue"]));
    store.apply(&record("a/y", 5, &[], &["blue"]));
    store.delete(&Key::new("a", "x"), Version::new(6));
    assert_eq!(before.version(), Version::new(3));
    assert_eq!(before.get("a/x").map(|object| object.version().number()), Some(3));
    assert_eq!(before.postings().field(FieldIndex(0), "red").map(|posting| posting.len()), Some(1));
    assert_eq!(before.postings().field(FieldIndex(0), "blue"), None);
    let after = store.snapshot();
    assert_eq!(after.postings().field(FieldIndex(0), "red"), None, "an emptied list is removed");
    assert_eq!(after.postings().labelled("app"), []);
    assert_eq!(keys(&store), ["a/y"]);
}

#[test]
fn a_relist_reports_removals_first_then_changes_in_version_order() {
    let mut store = Store::new(HistoryLimits::default());
    store.replace(
        &[record("a/gone", 3, &[], &["x"]), record("a/kept", 4, &[], &["x"]), record("a/moved", 5, &[], &["x"])],
        Version::new(10),
    );
    let kept = store.snapshot().get("a/kept").unwrap().clone();
    let list = [record("a/moved", 30, &[], &["y"]), record("a/kept", 4, &[], &["x"]), record("a/new", 20, &[], &["y"])];
    assert_eq!(store.replace(&list, Version::new(40)), RelistOutcome::Continued);
    assert_eq!(reported(&store, 10), [(10, Some(3), None), (20, None, Some(20)), (30, Some(5), Some(30))]);
    assert!(kept.is_same(store.snapshot().get("a/kept").unwrap()), "an unchanged object is kept as it is");
    assert_eq!(store.version(), Version::new(40));
    let snapshot = store.snapshot();
    for (version, expected, why) in [
        (9, Err(10), "before the first list"),
        (10, Ok(3), "the version before the gap: sees the removals"),
        (11, Err(40), "inside the gap: the changes before it are unknown"),
        (39, Err(40), "inside the gap"),
        (40, Ok(0), "after the relist"),
        (50, Ok(0), "the future"),
    ] {
        let found = snapshot
            .since(Version::new(version))
            .map(|cursor| snapshot.changes(cursor).unwrap().count())
            .map_err(|too_old| too_old.oldest.number());
        assert_eq!(found, expected, "{why}: {version}");
    }
}

#[test]
fn versions_that_go_backwards_start_a_new_epoch() {
    let mut store = Store::new(HistoryLimits::default());
    store.replace(&[record("a/x", 90, &[], &[])], Version::new(100));
    assert_eq!(store.replace(&[record("a/y", 7, &[], &[])], Version::new(20)), RelistOutcome::Reset);
    assert_eq!(
        (keys(&store), store.version(), store.snapshot().epoch()),
        (vec!["a/y".to_owned()], Version::new(20), 1)
    );
    assert!(store.snapshot().since(Version::new(19)).is_err());
}

#[test]
fn history_is_bounded_and_reports_its_beginning() {
    let mut store = Store::new(HistoryLimits { changes: 3, bytes: u64::MAX });
    store.replace(&[], Version::new(1));
    let slow = store.snapshot().end();
    for version in 2..=6 {
        store.apply(&record("a/x", version, &[], &[]));
    }
    let snapshot = store.snapshot();
    assert_eq!(snapshot.oldest(), Version::new(3));
    assert!(snapshot.changes(slow).is_none(), "a watcher that the ring has passed gets an error");
    assert_eq!(snapshot.since(Version::new(2)).unwrap_err().to_string(), "too old resource version: 2 (3)");
    assert_eq!(reported(&store, 3), [(4, Some(3), Some(4)), (5, Some(4), Some(5)), (6, Some(5), Some(6))]);

    let mut store = Store::new(HistoryLimits::default());
    store.replace(&[record("a/x", 10, &[], &[])], Version::new(10));
    let size = store.snapshot().get("a/x").unwrap().held_bytes() as u64;
    let mut store = Store::new(HistoryLimits { changes: 100, bytes: 2 * size });
    store.replace(&[], Version::new(9));
    for version in 10..=15 {
        store.apply(&record("a/x", version, &[], &[]));
    }
    assert_eq!(reported(&store, 13).len(), 2, "bounded by the bytes of previous states");
    assert!(store.snapshot().since(Version::new(12)).is_err());
}

#[test]
fn a_place_that_changes_hands_during_a_list_keeps_no_mark() {
    let mut store = Store::new(HistoryLimits::default());
    store.replace(&[record("a/x", 3, &[], &[])], Version::new(5));
    store.begin_list();
    store.list(&record("a/x", 3, &[], &[]));
    store.delete(&Key::new("a", "x"), Version::new(6));
    store.apply(&record("b/y", 7, &[], &[]));
    store.commit_list(Version::new(8), super::RelistMode::TrustVersions);
    assert!(keys(&store).is_empty(), "the list has neither: {:?}", keys(&store));
}

#[test]
fn a_list_of_version_zero_is_a_list() {
    let mut store = Store::new(HistoryLimits::default());
    store.replace(&[record("a/x", 3, &[], &[])], Version::ZERO);
    store.begin_list();
    store.list(&record("a/y", 4, &[], &[]));
    assert_eq!(keys(&store), ["a/x"], "another one is invisible until it is complete");
    store.commit_list(Version::new(4), super::RelistMode::TrustVersions);
    assert_eq!(keys(&store), ["a/y"]);
}

#[test]
fn an_unreadable_change_takes_the_old_object_away() {
    let mut store = Store::new(HistoryLimits::default());
    store.replace(&[record("a/x", 3, &[], &[])], Version::new(5));
    assert_eq!(store.drop_unreadable(&Key::new("a", "x"), None), WriteOutcome::Changed);
    assert_eq!(reported(&store, 5), [(5, Some(3), None)], "a watcher at the newest version gets the event");
    assert!(keys(&store).is_empty());
    store.apply(&record("a/x", 6, &[], &[]));
    assert_eq!(store.drop_unreadable(&Key::new("a", "x"), Some(Version::new(8))), WriteOutcome::Changed);
    assert_eq!(reported(&store, 6), [(8, Some(6), None)], "stamped with the version of the state that cannot be read");
    assert_eq!(store.version(), Version::new(8));
}

/// One step of a random life.
#[derive(Clone, Debug)]
enum Step {
    Apply(u8, u8),
    Delete(u8),
    Relist(Vec<(u8, u8)>),
    AbortedRelist(Vec<(u8, u8)>),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let name = 0u8..12;
    let value = 0u8..4;
    proptest::collection::vec(
        prop_oneof![
            6 => (name.clone(), value.clone()).prop_map(|(name, value)| Step::Apply(name, value)),
            3 => name.clone().prop_map(Step::Delete),
            1 => proptest::collection::vec((name.clone(), value.clone()), 0..10).prop_map(Step::Relist),
            1 => proptest::collection::vec((name, value), 0..10).prop_map(Step::AbortedRelist),
        ],
        1..60,
    )
}

fn key(name: u8) -> String {
    format!("{}/{name}", ["a", "a-b", "b"][usize::from(name) % 3])
}

fn value_record(name: u8, version: u64, value: u8) -> Record {
    record(&key(name), version, &[("v", &value.to_string())], &[&format!("value{value}"), &format!("unique{version}")])
}

proptest! {
    #[test]
    fn a_store_equals_one_rebuilt_from_scratch_and_replays_to_its_lists(steps in steps(), stop in any::<proptest::sample::Index>()) {
        let mut store = Store::new(HistoryLimits::default());
        let mut model: BTreeMap<String, (u64, u8)> = BTreeMap::new();
        let mut version = 1;
        store.replace(&[], Version::new(version));
        // A watcher that starts at a random step and applies the events that it receives.
        let stop = stop.index(steps.len());
        let mut start = None;
        let mut past = None;
        for (index, step) in steps.iter().enumerate() {
            if index == stop {
                start = Some((store.snapshot().end(), model.clone()));
                past = Some((store.version(), model.clone()));
            }
            version += 2;
            match step {
                Step::Apply(name, value) => {
                    store.apply(&value_record(*name, version, *value));
                    model.insert(key(*name), (version, *value));
                }
                Step::Delete(name) => {
                    store.delete(&Key::new(key(*name).split_once('/').unwrap().0, &name.to_string()), Version::new(version));
                    model.remove(&key(*name));
                }
                Step::Relist(entries) => {
                    let mut listed = BTreeMap::new();
                    for (name, value) in entries {
                        version += 1;
                        // Half of the entries are as they were.
                        let entry = match model.get(&key(*name)) {
                            Some(existing) if value % 2 == 0 => (existing.0, existing.1, *name),
                            _ => (version, *value, *name),
                        };
                        listed.insert(key(*name), entry);
                    }
                    version += 1;
                    let records: Vec<Record> = listed.values().map(|(version, value, name)| value_record(*name, *version, *value)).collect();
                    store.replace(&records, Version::new(version));
                    model = listed.into_iter().map(|(key, (version, value, _))| (key, (version, value))).collect();
                }
                // An interrupted list leaves no trace, with any content.
                Step::AbortedRelist(entries) => {
                    store.begin_list();
                    for (name, value) in entries {
                        store.list(&value_record(*name, version, *value));
                    }
                }
            }
        }
        let snapshot = store.snapshot();
        let listed: BTreeMap<String, u64> =
            snapshot.range(std::ops::Bound::Unbounded).map(|(_, object)| (object.key().to_owned(), object.version().number())).collect();
        let expected: BTreeMap<String, u64> = model.iter().map(|(key, (version, _))| (key.clone(), *version)).collect();
        prop_assert_eq!(&listed, &expected);

        let mut rebuilt = Store::new(HistoryLimits::default());
        let records: Vec<Record> = model.iter().map(|(key, (version, value))| value_record(key.split_once('/').unwrap().1.parse().unwrap(), *version, *value)).collect();
        rebuilt.replace(&records, Version::new(version));
        prop_assert_eq!(indexed(&store), indexed(&rebuilt));

        if let Some((cursor, mut replay)) = start {
            for change in snapshot.changes(cursor).unwrap() {
                replay_change(&mut replay, change);
            }
            let replayed: BTreeMap<String, u64> = replay.into_iter().map(|(key, (version, _))| (key, version)).collect();
            prop_assert_eq!(replayed, expected);
        }
        if let Some((version, then)) = past
            && let Ok(mut finding) = snapshot.rewind_to(version, "")
        {
            while finding.advance().is_some() {}
            let rewind = finding.finish();
            let hidden = |key: &str| snapshot.slot(key).is_some_and(|slot| rewind.hidden().contains(slot));
            let mut state: BTreeMap<String, u64> = listed.into_iter().filter(|(key, _)| !hidden(key)).collect();
            for object in rewind.before() {
                let twice = state.insert(object.key().to_owned(), object.version().number());
                prop_assert_eq!(twice, None, "an object of the past takes the place of the present one");
            }
            prop_assert!(rewind.before().is_sorted_by_key(|object| object.key()));
            prop_assert_eq!(state, then.into_iter().map(|(key, (version, _))| (key, version)).collect::<BTreeMap<_, _>>());
        }
    }
}

fn replay_change(state: &mut BTreeMap<String, (u64, u8)>, change: &Change) {
    match (&change.before, &change.after) {
        (_, Some(after)) => state.insert(after.key().to_owned(), (after.version().number(), 0)),
        (Some(before), None) => state.remove(before.key()),
        (None, None) => None,
    };
}

/// Index and value -> keys, so that stores with different slots compare.
fn indexed(store: &Store) -> BTreeMap<(&'static str, String), Vec<String>> {
    let snapshot = store.snapshot();
    let postings = snapshot.postings().clone();
    let mut index = BTreeMap::new();
    let mut add = |of: &'static str, values: Vec<(Cow<'_, str>, Posting<'_>)>| {
        let mut count = 0;
        for (value, posting) in values {
            let mut keys: Vec<String> =
                posting.to_bitmap().iter().map(|slot| snapshot.object(slot).unwrap().key().to_owned()).collect();
            keys.sort();
            count += keys.len() as u64;
            index.insert((of, value.into_owned()), keys);
        }
        count
    };
    let namespaced = add("namespace", postings.namespaces().map(|(name, posting)| (name.into(), posting)).collect());
    assert_eq!(postings.namespaced().len(), namespaced, "the set of all has every slot with a namespace");
    let labelled = add("label v", postings.label_values("v").map(|(value, posting)| (value.into(), posting)).collect());
    let present: u64 = postings.labelled("v").iter().map(Posting::len).sum();
    assert_eq!(present, labelled, "the lists of a label have every slot with it");
    for (of, field) in [("field 0", FieldIndex(0)), ("field 1", FieldIndex(1))] {
        add(of, postings.field_values(field).collect());
    }
    index
}
