//! The index of owners compared with a search of all objects.

use std::collections::BTreeMap;

use proptest::prelude::{Strategy, any};
use proptest::{prop_assert_eq, proptest};

use super::record;
use crate::model::owners::MOST_OWNERS;
use crate::model::{Key, OwnerHashes, Record, Version, fnv1a};
use crate::store::{HistoryLimits, Snapshot, Store};

/// A record of an object with these owners.
fn owned(key: &str, version: u64, labels: &[(&str, &str)], owners: &[String]) -> Record {
    let mut record = record(key, version, labels, &["value"]);
    record.texts.owners = OwnerHashes::from_uids(owners);
    record
}

fn uid(number: usize) -> String {
    format!("uid-{number}")
}

/// The keys of the candidates for a uid, and of the objects whose owners are not indexed.
fn found(snapshot: &Snapshot, uid: &str) -> (Vec<String>, Vec<String>) {
    let key = |slot: u32| snapshot.object(slot).expect("an index has no free slot").key().to_owned();
    let owners = snapshot.postings().owners();
    let slots: Vec<u32> = owners.candidates(fnv1a(uid), 0).collect();
    assert!(slots.is_sorted(), "{slots:?}");
    for (place, slot) in slots.iter().enumerate() {
        assert!(owners.candidates(fnv1a(uid), *slot).eq(slots[place..].iter().copied()), "from {slot} on");
    }
    let mut indexed: Vec<String> = slots.into_iter().map(key).collect();
    let mut unindexed: Vec<String> = owners.unindexed().to_bitmap().into_iter().map(key).collect();
    indexed.sort();
    unindexed.sort();
    (indexed, unindexed)
}

/// The same from the owners of all objects.
fn expected(objects: &BTreeMap<String, Vec<String>>, uid: &str) -> (Vec<String>, Vec<String>) {
    let is_unindexed = |owners: &Vec<String>| owners.len() > MOST_OWNERS;
    let keys = |selects: &dyn Fn(&Vec<String>) -> bool| {
        objects.iter().filter(|(_, owners)| selects(owners)).map(|(key, _)| key.clone()).collect()
    };
    (keys(&|owners| !is_unindexed(owners) && owners.iter().any(|owner| owner == uid)), keys(&is_unindexed))
}

/// Steps: the number of an object, its labels, and the owners that it gets. `None` removes it.
fn steps() -> impl Strategy<Value = Vec<(usize, bool, Option<Vec<usize>>)>> {
    let many = (0..3usize).prop_map(|more| (0..MOST_OWNERS - 1 + more).collect());
    let few = proptest::collection::vec(0..5usize, 0..4);
    let owners = proptest::option::weighted(0.8, proptest::prop_oneof![9 => few, 1 => many]);
    proptest::collection::vec((0..12usize, any::<bool>(), owners), 1..80)
}

proptest! {
    #[test]
    fn the_index_of_owners_has_what_the_objects_have(steps in steps()) {
        let mut store = Store::new(HistoryLimits::default());
        store.replace(&[], Version::new(1));
        let mut objects = BTreeMap::new();
        let mut kept = (store.snapshot(), objects.clone());
        for (index, (number, is_labelled, owners)) in steps.iter().enumerate() {
            if index == steps.len() / 2 {
                kept = (store.snapshot(), objects.clone());
            }
            let (name, version) = (format!("object-{number}"), index as u64 + 2);
            let key = Key::new("ns", &name);
            match owners {
                None => {
                    store.delete(&key, Version::new(version));
                    objects.remove(key.as_str());
                }
                Some(owners) => {
                    let mut owners: Vec<String> = owners.iter().map(|owner| uid(*owner)).collect();
                    owners.sort();
                    owners.dedup();
                    // Other labels with the same owners, and the reverse.
                    let labels: &[(&str, &str)] = if *is_labelled { &[("a", "b")] } else { &[] };
                    store.apply(&owned(key.as_str(), version, labels, &owners));
                    objects.insert(key.as_str().to_owned(), owners);
                }
            }
        }
        for (snapshot, objects) in [(store.snapshot(), objects), kept] {
            for number in 0..6 {
                prop_assert_eq!(found(&snapshot, &uid(number)), expected(&objects, &uid(number)), "uid-{}", number);
            }
            let pairs = objects.values().filter(|owners| owners.len() <= MOST_OWNERS).map(Vec::len).sum::<usize>();
            prop_assert_eq!(snapshot.postings().owners().len(), pairs);
        }
    }
}

#[test]
fn owners_leave_labels_and_values_as_they_are() {
    let own_keys: Vec<(String, String)> = (0..300).map(|number| (format!("l{number:03}"), "v".to_owned())).collect();
    let own_keys: Vec<(&str, &str)> = own_keys.iter().map(|(key, value)| (&**key, &**value)).collect();
    let owners: Vec<String> = (0..MOST_OWNERS + 1).map(uid).collect();
    for (labels, form) in [(&[("l000", "v")][..], "shared keys"), (&own_keys, "keys of its own")] {
        for count in [0, 1, 2, 127, 128, MOST_OWNERS, MOST_OWNERS + 1] {
            let mut store = Store::new(HistoryLimits::default());
            store.apply(&owned("ns/a", 1, labels, &owners[..count]));
            let snapshot = store.snapshot();
            let object = snapshot.get("ns/a").expect("the object is stored");
            assert_eq!(object.label("l000"), Some("v"), "{form}, {count} owners");
            assert_eq!(object.labels().count(), labels.len(), "{form}, {count} owners");
            assert_eq!(object.values(crate::model::FieldIndex(0)).collect::<Vec<_>>(), ["value"], "{form}, {count}");
            assert_eq!(object.json(), record("ns/a", 1, &[], &[]).bytes, "{form}, {count} owners");
            let hashes = object.owner_hashes().map(Iterator::count);
            assert_eq!(hashes, (count <= MOST_OWNERS).then_some(count), "{form}, {count} owners");
        }
    }
}
