//! Compares the memory that a store counts with the memory that it has really allocated. The store counts with the size
//! classes of the program's allocator. The counter of the tests counts the requested sizes, which are a few percent
//! less.

use allocation_counter::measure;

use super::{record, record_of_many};
use crate::model::{OwnerHashes, Record, Version, fnv1a};
use crate::store::copies::Copies;
use crate::store::{HistoryLimits, ShardIndex, Store};

/// The memory of these objects by the allocator's count, and by the store's own.
fn taken(records: &[Record], updates: &[Record]) -> (u64, u64) {
    let mut store = Store::new(HistoryLimits::default());
    let measured = measure(|| {
        store.replace(records, Version::new(1_000_000));
        updates.iter().for_each(|update| {
            store.apply(update);
        });
    });
    let counted = store.held_bytes() + store.index_bytes();
    (u64::try_from(measured.bytes_current).unwrap(), counted)
}

fn texts(count: usize, make: impl Fn(usize) -> String) -> Vec<String> {
    (0..count).map(make).collect()
}

/// So many objects that all have these keys, with values of their own.
fn objects(count: usize, keys: impl Fn(usize) -> Vec<String>, value: impl Fn(usize, usize) -> String) -> Vec<Record> {
    (0..count)
        .map(|object| {
            let mut keys = keys(object);
            keys.sort();
            let values = texts(keys.len(), |place| value(object, place));
            let labels: Vec<(&str, &str)> =
                keys.iter().map(|key| &**key).zip(values.iter().map(|value| &**value)).collect();
            record(&format!("ns-{}/object-{object}", object % 20), object as u64 + 1, &labels, &["red", "large"])
        })
        .collect()
}

#[test]
fn counted_memory_equals_allocated_memory() {
    let few = |_| vec!["app".to_owned(), "tier".to_owned(), "track".to_owned()];
    let distinct = |object: usize| texts(250, move |place| format!("key-{object}-{place}"));
    let same = |_| texts(250, |place| format!("key-{place}"));
    let values: Vec<String> = texts(60_000, |number| format!("value-{number:05}"));
    let many_values: Vec<Record> = (1..5)
        .map(|number| {
            record_of_many(&format!("a/{number}"), number, &[], &[values.iter().map(|value| &**value).collect()])
        })
        .collect();
    let plain = objects(20_000, few, |object, place| format!("v{}", object % [50, 3, 1_000][place]));
    let again: Vec<Record> = (0..20_000)
        .map(|number| {
            record(
                &format!("ns-0/object-{}", number / 100 * 20),
                2_000_000 + number,
                &[("app", "v")],
                &["red", "large"],
            )
        })
        .collect();
    for (records, updates, why) in [
        (&plain[..], &[][..], "many objects with few labels"),
        (&plain[..], &again[..], "and their history"),
        (&objects(100, distinct, |_, _| "v".to_owned()), &[], "few objects with many distinct labels"),
        (&objects(2, distinct, |_, _| "v".to_owned()), &[], "two objects with many distinct labels"),
        (&objects(10, same, |_, _| "v".to_owned()), &[], "few objects with the same labels"),
        (&objects(10, same, |object, _| format!("v{object}")), &[], "few objects with the same keys and a few values"),
        (&objects(40, same, |object, _| format!("v{object}")), &[], "more objects with the same keys and more values"),
        (
            &objects(20_000, |_| vec!["id".to_owned()], |object, _| format!("value-{object}")),
            &[],
            "unique values of one label",
        ),
        (
            &objects(3, |_| texts(60_000, |place| format!("k{place}")), |_, _| String::new()),
            &[],
            "objects with 60,000 labels",
        ),
        (&many_values, &[], "objects with 60,000 values of a field"),
        (&pods(20_000, 4, true, |_| Vec::new()), &[], "objects with an owner each"),
    ] {
        let (measured, counted) = taken(records, updates);
        assert!(
            counted * 100 >= measured * 95 && counted * 100 <= measured * 125,
            "{why}: {counted} counted, {measured} allocated"
        );
    }
}

#[test]
fn a_label_that_one_object_has_costs_little_more_than_its_text() {
    let key = |number: usize| format!("{number:04x}.example.com/name");
    let distinct = |count: usize, objects_: usize| {
        objects(objects_, move |object| texts(count, move |place| key(object * count + place)), |_, _| "v".to_owned())
    };
    for (count, number, most, why) in [
        (250, 100, 190, "indexed: in the dictionary, in the keys that objects share and in the object"),
        (60_000, 1, 40, "not indexed: in the object alone"),
    ] {
        let (with, _) = taken(&distinct(count, number), &[]);
        let (without, _) = taken(&distinct(0, number), &[]);
        let each = (with - without) / (count * number) as u64;
        assert!(each <= most, "{each} bytes for each of {count} labels of {number} objects, {why}");
    }
}

#[test]
fn an_index_of_shards_is_counted_and_takes_few_bytes() {
    const OBJECTS: u64 = 50_000;
    let mut built = ShardIndex::default();
    let measured = measure(|| {
        for number in 0..OBJECTS {
            built.insert(fnv1a(&format!("{number:x}-{number}")), number as u32);
        }
        // Some objects go, in the order in which they came.
        (0..OBJECTS / 4).for_each(|number| {
            built.remove(fnv1a(&format!("{number:x}-{number}")), number as u32, &mut Copies::default())
        });
    });
    let (measured, counted) = (u64::try_from(measured.bytes_current).unwrap(), built.held_bytes() as u64);
    assert!(
        counted * 100 >= measured * 90 && counted * 100 <= measured * 130,
        "{counted} counted, {measured} allocated"
    );
    assert!(counted <= 24 * built.len() as u64, "{counted} bytes for {} objects", built.len());
}

/// So many Pods, with an owner for each `siblings`. `values`: the values of the fields of a Pod, from the uid of its
/// owner.
fn pods(count: usize, siblings: usize, is_owned: bool, values: impl Fn(&str) -> Vec<String>) -> Vec<Record> {
    (0..count)
        .map(|number| {
            let hash = fnv1a(&(number / siblings).to_string());
            let uid = format!("{:08x}-0000-4000-8000-{:012x}", hash >> 32, hash & 0xffff_ffff_ffff);
            let (key, version) = (format!("ns-{}/pod-{number}", number % 20), number as u64 + 1);
            let values = values(&uid);
            let values: Vec<&str> = values.iter().map(|value| &**value).collect();
            let mut record = record(&key, version, &[("app", "shop")], &values);
            if is_owned {
                record.texts.owners = OwnerHashes::from_uids([uid]);
            }
            record
        })
        .collect()
}

#[test]
fn an_owner_costs_a_pod_less_than_half_of_a_field_with_its_uid() {
    const PODS: usize = 20_000;
    for siblings in [1, 10] {
        let bytes = |records: &[Record]| {
            let (measured, counted) = taken(records, &[]);
            (measured as f64 / PODS as f64, counted as f64 / PODS as f64)
        };
        let (without, counted_without) = bytes(&pods(PODS, siblings, false, |_| vec!["Running".to_owned()]));
        let (owner, counted) = bytes(&pods(PODS, siblings, true, |_| vec!["Running".to_owned()]));
        let (field, _) = bytes(&pods(PODS, siblings, false, |uid| vec!["Running".to_owned(), uid.to_owned()]));
        let (owner, counted, field) = (owner - without, counted - counted_without, field - without);
        assert!(
            owner < 24.0 && 2.0 * owner < field,
            "{siblings} Pods for each owner: {owner} bytes for each Pod, and {field} as a field"
        );
        // The size class of an object may be the same with and without an owner.
        assert!(counted > 0.5 * owner && counted < 1.5 * owner, "{counted} counted, {owner} allocated");
    }
}
