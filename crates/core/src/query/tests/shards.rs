//! Shards: the index and the plan compared with a test of every object, through changes and relists.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::{Strategy, prop_oneof};
use proptest::{prop_assert, prop_assert_eq, proptest};

use super::{State, explain, explained, hits_of, names, selections, store, term};
use crate::extract::FieldRef;
use crate::model::{FieldIndex, Key, Record, Version, fnv1a};
use crate::query::{Hits, Listing, Selection};
use crate::selector::shard::arbitrary::shards;
use crate::selector::{OperatorName, Shard};
use crate::store::tests::record;
use crate::store::{Snapshot, Store};

/// A key, and the uid of its object for each number of an incarnation.
fn key(number: usize) -> String {
    format!("{}/n{number}", ["a", "a-b", "b"][number % 3])
}

fn uid(number: usize, incarnation: u8) -> String {
    // Some objects have no uid.
    if number.is_multiple_of(7) { String::new() } else { format!("{}-{incarnation}", key(number)) }
}

fn object(number: usize, incarnation: u8, version: u64) -> Record {
    let record = record(&key(number), version, &[("k1", "p")], &["blue"]);
    Record { uid_hash: fnv1a(&uid(number, incarnation)), ..record }
}

#[derive(Clone, Debug)]
enum Step {
    Apply(usize, u8),
    Delete(usize),
    /// Relists with these objects.
    Relist(BTreeSet<usize>, u8),
    Read(Selection),
}

const OBJECTS: usize = 600;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let texts: Vec<String> =
        (0..OBJECTS).map(|number| uid(number, 0)).chain(["a".to_owned(), "b".to_owned()]).collect();
    let read =
        (selections(), shards(texts)).prop_map(|(selection, shard)| Selection { shard: Some(shard), ..selection });
    let step = prop_oneof![
        6 => (0..OBJECTS, 0..3u8).prop_map(|(number, incarnation)| Step::Apply(number, incarnation)),
        3 => (0..OBJECTS).prop_map(Step::Delete),
        1 => (proptest::collection::btree_set(0..OBJECTS, 0..OBJECTS), 0..3u8)
            .prop_map(|(numbers, incarnation)| Step::Relist(numbers, incarnation)),
        5 => read.prop_map(Step::Read),
    ];
    vec(step, 1..60)
}

/// The keys of the selected objects, by a test of every object.
fn naive(snapshot: &Snapshot, selection: &Selection) -> Vec<String> {
    let objects = snapshot.range(std::ops::Bound::Unbounded).map(|(_, object)| object);
    objects.filter(|object| selection.meets_requirements(object)).map(|object| object.key().to_owned()).collect()
}

proptest! {
    #[test]
    fn a_shard_is_the_same_with_and_without_an_index(steps in steps()) {
        let mut store = store((0..OBJECTS / 2).map(|number| object(number, 0, number as u64 + 1)).collect());
        let mut version = 1_000_000;
        for step in steps {
            version += 1;
            match step {
                Step::Apply(number, incarnation) => _ = store.apply(&object(number, incarnation, version)),
                Step::Delete(number) => {
                    let key = key(number);
                    let (namespace, name) = key.split_once('/').unwrap();
                    store.delete(&Key::new(namespace, name), Version::new(version));
                }
                Step::Relist(numbers, incarnation) => {
                    let records: Vec<Record> =
                        numbers.into_iter().map(|number| object(number, incarnation, version)).collect();
                    store.replace(&records, Version::new(version));
                }
                Step::Read(selection) => {
                    let snapshot = store.snapshot();
                    let expected = naive(&snapshot, &selection);
                    let state = State::current(snapshot.clone());
                    prop_assert_eq!(&names(Listing::new(state.clone(), &selection, None)), &expected);
                    let found = explained(&selection, &state, &explain::fields());
                    prop_assert_eq!(found.hits, expected.len() as u64);
                    if let Some(index) = snapshot.shards() {
                        let slots: BTreeSet<u32> = index.slots(0, u64::MAX).collect();
                        let occupied: BTreeSet<u32> = snapshot.occupied().to_bitmap().into_iter().collect();
                        prop_assert_eq!(slots, occupied);
                        prop_assert_eq!(index.count(0, u64::MAX), snapshot.len() as u64);
                    }
                }
            }
        }
        prop_assert!(store.snapshot().shards().is_none_or(|index| index.len() == store.len()));
    }
}

/// The shard of this one of `shards` equal ranges of uids.
fn shard(number: u64, shards: u64) -> Arc<Shard> {
    let part = u64::MAX / shards;
    let end =
        if number + 1 == shards { "10000000000000000".to_owned() } else { format!("{:016x}", part * (number + 1)) };
    Arc::new(Shard::parse(&format!("shardRange(object.metadata.uid, '0x{:016x}', '0x{end}')", part * number)).unwrap())
}

fn of_shard(shard: &Arc<Shard>) -> Selection {
    Selection { shard: Some(shard.clone()), ..Selection::default() }
}

#[test]
fn a_snapshot_of_the_past_keeps_its_index() {
    let mut store = store((0..900).map(|number| object(number, 0, number as u64 + 1)).collect());
    let shards: Vec<Arc<Shard>> = (0..3).map(|number| shard(number, 3)).collect();
    let before = store.snapshot();
    assert!(before.shards().is_none(), "nobody has asked");
    // The first reader takes the permit, and loses it.
    drop(before.want_shards().unwrap());
    let selected = |snapshot: &Snapshot| -> Vec<Vec<String>> {
        shards
            .iter()
            .map(|shard| names(Listing::new(State::current(snapshot.clone()), &of_shard(shard), None)))
            .collect()
    };
    let expected = selected(&before);
    assert!(before.shards().is_some(), "the next reader has built it");
    assert_eq!(expected.iter().flatten().collect::<BTreeSet<_>>().len(), 900, "each object is in one shard");
    for number in 0..450 {
        let key = key(number * 2);
        let (namespace, name) = key.split_once('/').unwrap();
        store.delete(&Key::new(namespace, name), Version::new(2_000_000 + number as u64));
    }
    assert_eq!(selected(&before), expected, "the state before the changes");
    let after = store.snapshot();
    assert_eq!(after.shards().map(|index| index.len()), Some(450), "the writer maintains it");
    let now: Vec<Vec<String>> = shards.iter().map(|shard| naive(&after, &of_shard(shard))).collect();
    assert_eq!(selected(&after), now);
}

#[test]
fn the_writer_builds_an_index_that_a_reader_of_the_past_wants() {
    let mut store = store(vec![object(1, 0, 1), object(2, 0, 2)]);
    let before = store.snapshot();
    let permit = before.want_shards().unwrap();
    assert!(before.want_shards().is_none(), "one reader has it");
    store.apply(&object(3, 0, 2_000_000));
    assert_eq!(store.snapshot().shards().map(|index| index.len()), Some(3), "built before the change");
    permit.set(crate::store::ShardIndex::default());
    assert_eq!(store.snapshot().shards().map(|index| index.len()), Some(3), "that of the past is not this one");
    // A reader of a past state must not keep the readers of the current one from building theirs.
    let mut quiet = super::store(vec![object(1, 0, 1)]);
    let past = quiet.snapshot();
    quiet.apply(&object(2, 0, 2_000_000));
    past.want_shards().unwrap().set(crate::store::ShardIndex::default());
    assert!(quiet.snapshot().shards().is_none() && quiet.snapshot().want_shards().is_some());
}

#[test]
fn a_plan_of_a_shard_names_it_with_its_size() {
    let store: Store = store((0..1_000).map(|number| object(number, 0, number as u64 + 1)).collect());
    let snapshot = store.snapshot();
    let state = State::current(snapshot.clone());
    let shard = shard(3, 10);
    let size = naive(&snapshot, &of_shard(&shard)).len();
    assert!((60..150).contains(&size), "{size} of 1000");
    let blue = term(FieldRef::Field(FieldIndex(0)), OperatorName::In, "blue");
    let named = term(FieldRef::Name, OperatorName::In, "n5");
    let text = shard.text();
    for (selection, plan, candidates) in [
        (of_shard(&shard), format!("{text} ({size})"), size),
        (
            Selection { fields: vec![blue], ..of_shard(&shard) },
            format!("{text} ({size}) & spec.color=blue (1000)"),
            size,
        ),
        (Selection { fields: vec![named], ..of_shard(&shard) }, format!("metadata.name=n5 (1) & {text} ({size})"), 1),
    ] {
        let found = explained(&selection, &state, &explain::fields());
        assert_eq!((found.plan, found.candidates), (plan, Some(candidates as u64)));
        assert_eq!(found.hits, naive(&snapshot, &selection).len() as u64);
    }
    let Hits::Slots(slots) = hits_of(&of_shard(&shard), &snapshot) else { panic!("a shard is a set of slots") };
    assert_eq!(slots.len(), size as u64);
}

#[test]
fn cluster_scoped_objects_have_the_namespace_of_an_empty_text() {
    let store = store((0..10).map(|number| record(&format!("n{number}"), number + 1, &[], &[])).collect());
    let hash = fnv1a("");
    for (start, expected) in [(hash, 10), (hash + 1, 0)] {
        let text = format!("shardRange(object.metadata.namespace, '0x{start:016x}', '0x10000000000000000')");
        let selection = of_shard(&Arc::new(Shard::parse(&text).unwrap()));
        let listing = Listing::new(State::current(store.snapshot()), &selection, None);
        assert_eq!(names(listing).len(), expected, "from {start:x}");
    }
}
