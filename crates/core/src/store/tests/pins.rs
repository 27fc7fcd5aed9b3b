//! States that readers hold: bounded by the bytes that changes have released, over all stores, the oldest first.

use std::sync::Arc;

use super::record;
use crate::store::{HistoryLimits, Pinned, PinnedValue, Snapshot, Store};

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
fn changes_of_many_labels_count_for_the_nodes_that_they_copy() {
    let all = Arc::new(Pinned::new(MOST));
    let mut store = store(&all);
    let labels: Vec<(String, String)> = (0..200).map(|number| (format!("key-{number}"), "v".to_owned())).collect();
    let labels: Vec<(&str, &str)> = labels.iter().map(|(key, value)| (&**key, &**value)).collect();
    store.apply(&record("a/x", 1, &[], &["v"]));
    let reader = hold(&store);
    store.apply(&record("a/x", 2, &labels, &["v"]));
    assert!(!is_held(&reader), "an index of 200 labels has changed, and {} bytes are held", all.bytes());
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
