//! States that readers hold: bounded by the bytes that changes have released, over all stores, the oldest first.

use std::sync::Arc;

use allocation_counter::measure;
use proptest::prelude::{ProptestConfig, any};
use proptest::{prop_assert, proptest};

use super::record;
use crate::model::{Key, OwnerHashes, Record, Version};
use crate::store::{HistoryLimits, Pinned, PinnedValue, ShardIndex, Snapshot, Store};

const MOST: u64 = 64 << 10;

fn store(all: &Arc<Pinned>) -> Store {
    Store::new(HistoryLimits::default()).pinned_by(all)
}

/// Replaces an object so often that about so many bytes are let go.
fn churn(store: &mut Store, version: &mut u64, bytes: u64) {
    let before = store.current.pins.retired();
    while store.current.pins.retired() - before < bytes {
        *version += 1;
        store.apply(&record("a/x", *version, &[("key", &version.to_string())], &["v"]));
    }
}

fn hold(store: &Store) -> PinnedValue<Snapshot> {
    let snapshot = store.snapshot();
    snapshot.pin(snapshot.clone())
}

fn is_held(reader: &PinnedValue<Snapshot>) -> bool {
    reader.with(|snapshot| snapshot.len()).is_some()
}

#[test]
fn the_oldest_states_are_revoked_when_readers_hold_too_much() {
    let all = Arc::new(Pinned::new(MOST));
    let (mut busy, mut calm) = (store(&all), store(&all));
    let (mut version, mut other) = (1, 1);
    busy.apply(&record("a/x", version, &[], &["v"]));
    calm.apply(&record("a/x", other, &[], &["v"]));
    churn(&mut busy, &mut version, 2 * MOST);
    assert_eq!(all.bytes(), 0, "without readers nothing is held");
    let (old, of_calm) = (hold(&busy), hold(&calm));
    churn(&mut busy, &mut version, MOST / 2);
    churn(&mut calm, &mut other, MOST / 8);
    let young = hold(&busy);
    assert!(all.bytes() >= MOST / 2 && is_held(&old), "{} bytes are within the bound", all.bytes());
    assert!(!old.revocation().is_revoked());
    churn(&mut busy, &mut version, MOST / 2);
    assert!(all.bytes() <= MOST, "{} bytes are held", all.bytes());
    assert_eq!([&old, &young, &of_calm].map(is_held), [false, true, true], "the oldest reader of the busy store");
    assert!(old.revocation().is_revoked() && !young.revocation().is_revoked());
    assert_eq!(all.revoked(), 1);
    assert!(old.take().is_none());
    drop(young);
    assert!(all.bytes() < MOST / 4, "{} bytes after the reader has gone", all.bytes());
    drop(of_calm);
    assert_eq!(all.bytes(), 0);
}

#[test]
fn a_state_that_is_let_go_while_it_is_used_is_freed_afterwards() {
    let all = Arc::new(Pinned::new(MOST));
    let mut store = store(&all);
    let mut version = 1;
    store.apply(&record("a/x", version, &[], &["v"]));
    let witness = Arc::new(());
    let reader = store.snapshot().pin(witness.clone());
    let done = reader.with(|_| churn(&mut store, &mut version, 2 * MOST));
    assert!(done.is_some(), "what has begun is finished");
    assert_eq!(Arc::strong_count(&witness), 1, "and then it is free");
    assert!(reader.with(|_| ()).is_none());
}

#[test]
fn a_dropped_store_counts_with_all_its_bytes() {
    let all = Arc::new(Pinned::new(MOST));
    let (mut small, mut large) = (store(&all), store(&all));
    small.apply(&record("a/x", 1, &[], &["v"]));
    (0..1_000).for_each(|number| _ = large.apply(&record(&format!("a/{number}"), number + 1, &[], &["v"])));
    let (of_small, of_large) = (hold(&small), hold(&large));
    drop((small, large));
    assert_eq!([&of_small, &of_large].map(is_held), [true, false], "{} bytes are held", all.bytes());
    drop(of_small);
    assert_eq!(all.bytes(), 0);
}

/// Applies the records one after the other, and holds the state after each. Returns the memory that this takes, in
/// bytes, and the number of states that are left.
fn hold_each(store: &mut Store, changes: &[Record]) -> (u64, usize) {
    let mut held = Vec::new();
    let measured = measure(|| {
        for change in changes {
            store.apply(change);
            held.push(hold(store));
        }
    });
    (u64::try_from(measured.bytes_current).unwrap(), held.iter().filter(|reader| is_held(reader)).count())
}

#[test]
fn copies_of_blocks_with_long_values_count_with_their_bytes() {
    const BOUND: u64 = 4 << 20;
    const FIELDS: usize = 8;
    let all = Arc::new(Pinned::new(BOUND));
    let mut store = store(&all);
    let object = |key: &str, version: u64, value: &str| record(key, version, &[], &[value; FIELDS]);
    for number in 0..118 {
        let value = format!("m{number:03}{}", "x".repeat(16_000));
        store.apply(&object(&format!("a/{number}"), number + 1, &value));
    }
    let changes: Vec<Record> =
        (0..40).map(|change| object("a/small", 1_000 + change, &format!("m0{}", 601 + change % 2))).collect();
    let (allocated, left) = hold_each(&mut store, &changes);
    assert!(all.revoked() > 0 && left > 1, "{left} states are left, and {allocated} bytes were allocated");
    assert!(allocated < 2 * BOUND, "{allocated} bytes were allocated, and {} are counted", all.bytes());
    // A change copies a small part of the values that are beside it in the index.
    assert!(all.bytes() / (left as u64) < FIELDS as u64 * (64 << 10), "{} bytes for {left} changes", all.bytes());
}

#[test]
fn copies_of_blocks_with_long_labels_count_with_their_bytes() {
    const BOUND: u64 = 16 << 20;
    let all = Arc::new(Pinned::new(BOUND));
    let mut store = store(&all);
    let object = |key: &str, version: u64, value: &str| {
        let keys: Vec<String> =
            (0..255).map(|place| format!("{}{place:03}/{}", "p".repeat(250), "n".repeat(54))).collect();
        let labels: Vec<(&str, &str)> = keys.iter().map(|key| (&**key, value)).collect();
        record(key, version, &labels, &[])
    };
    // So many different values that the keys share one dictionary.
    for number in 0..12 {
        store.apply(&object(&format!("a/{number}"), number + 1, &format!("v{number}")));
    }
    let changes: Vec<Record> =
        (0..20).map(|change| object("a/changed", 1_000 + change, &format!("w{}", change % 2))).collect();
    let (allocated, left) = hold_each(&mut store, &changes);
    assert!(all.revoked() > 0 && left > 0, "{left} states are left, and {allocated} bytes were allocated");
    assert!(allocated < 2 * BOUND, "{allocated} bytes were allocated, and {} are counted", all.bytes());
}

/// One random change: the number of an object, whether it is removed, and the number of its values.
type Step = (u32, bool, u32);

/// A record of an object with labels, values and owners that its `content` determines.
fn varied(object: u32, content: u32, version: u64) -> Record {
    let long = "z".repeat(if content.is_multiple_of(11) { 5_000 } else { 3 });
    let values = [
        format!("{}", content % 3),
        format!("{:04}-{long}", content % 701),
        format!("v{}", content % 17),
        format!("{object}"),
    ];
    let mut labels: Vec<(String, String)> =
        (0..content % 6).map(|place| (format!("key-{place}"), format!("v{}", content % (5 + 8 * place)))).collect();
    labels.push((format!("own-{content}"), String::new()));
    labels.sort();
    let labels: Vec<(&str, &str)> = labels.iter().map(|(key, value)| (&**key, &**value)).collect();
    let values: Vec<&str> = values.iter().map(|value| &**value).collect();
    let mut record = record(&format!("ns-{}/object-{object}", object % 5), version, &labels, &values);
    record.texts.owners = OwnerHashes::from_uids((0..content % 4).map(|owner| format!("owner-{}", owner * content)));
    record.uid_hash = record.uid_hash.wrapping_add(u64::from(content % 2));
    record
}

/// Applies a step at a version.
fn step(store: &mut Store, (object, is_removed, content): Step, version: u64) {
    let record = varied(object, content, version);
    if is_removed {
        store.delete(&Key::new("", record.key.as_str()), Version::new(version));
    } else {
        store.apply(&record);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn past_states_count_with_the_memory_that_they_alone_have(
        objects in 1u32..2_000,
        steps in proptest::collection::vec((any::<u32>(), proptest::bool::weighted(0.2), 0u32..3_000), 1..300),
        has_shards in any::<bool>(),
        every in 1usize..4,
    ) {
        let mut store = Store::new(HistoryLimits { changes: 100, bytes: 200_000 });
        for object in 0..objects {
            step(&mut store, (object, false, object), u64::from(object) + 1);
        }
        if has_shards {
            let mut index = ShardIndex::default();
            let snapshot = store.snapshot();
            for slot in snapshot.occupied().to_bitmap() {
                index.insert(snapshot.object(slot).unwrap().uid_hash(), slot);
            }
            snapshot.want_shards().unwrap().set(index);
        }
        let mut kept = Vec::with_capacity(steps.len() + 1);
        let mut published = store.snapshot();
        let before = store.current.pins.retired();
        kept.push(published.clone());
        for (index, (object, is_removed, content)) in steps.iter().enumerate() {
            step(&mut store, (object % objects, *is_removed, *content), 10_000 + index as u64);
            published = store.snapshot();
            if index % every == 0 {
                kept.push(published.clone());
            }
        }
        drop(published);
        let counted = i64::try_from(store.current.pins.retired() - before).unwrap();
        // What only the states have is freed with them.
        let alone = -measure(|| kept.clear()).bytes_current;
        prop_assert!(counted >= alone, "{counted} bytes are counted, and {alone} were freed");
        // States that nobody keeps count too.
        prop_assert!(every > 1 || counted <= 3 * alone + 10_000, "{counted} bytes are counted, and {alone} were freed");
    }
}
