//! Compression at rest: objects are read back unchanged, large stores become small, and changing data gets another
//! dictionary.

use std::ops::Bound;

use bytes::Bytes;

use super::record;
use crate::model::{Key, Record, Version};
use crate::store::{HistoryLimits, Object, RelistMode, Store};

/// Label keys take less than this, a dictionary more.
const SMALL: usize = 4_096;

/// About 2 KiB of JSON: words of one subject's vocabulary, of which no two have anything in common.
fn document(subject: &str, number: u64) -> String {
    let word = |index: u64| {
        let mut letters = subject.bytes().fold(index.wrapping_mul(0x9e37_79b9_7f4a_7c15), |sum, byte| {
            (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3).rotate_left(23)
        });
        letters ^= letters >> 29;
        format!(" {letters:x}")
    };
    let words: String = (0..110).map(|place| word((number * 31 + place * place * 7) % 300)).collect();
    format!("{{\"metadata\":{{\"resourceVersion\":\"{number:020}\"}},\"text\":\"{words}\"}}")
}

fn described(subject: &str, number: u64) -> Record {
    let mut record = record(&format!("a/{subject}{number:06}"), number, &[("app", subject)], &["red"]);
    let json = document(subject, number);
    let start = "{\"metadata\":{\"resourceVersion\":\"".len() as u32;
    record.version_span = start..start + 20;
    record.metadata_span = "{\"metadata\":".len() as u32..start + 22;
    record.bytes = Bytes::from(json);
    record
}

/// Every object has the bytes of its document.
fn assert_contents(store: &Store, context: &str) {
    for (_, object) in store.snapshot().range(Bound::Unbounded) {
        let subject = object.label("app").unwrap();
        let expected = document(subject, object.version().number());
        assert_eq!(String::from_utf8(object.json()).unwrap(), expected, "{context}: {}", object.key());
        assert_eq!(&expected[object.version_span()], format!("{:020}", object.version().number()), "{context}");
    }
}

fn ratio(store: &Store) -> f64 {
    let usage = store.snapshot().usage();
    usage.held_bytes as f64 / usage.json_bytes as f64
}

#[test]
fn a_small_store_is_plain_and_a_large_one_small() {
    let mut store = Store::new(HistoryLimits::default());
    let records: Vec<Record> = (1..=200).map(|number| described("shop", number)).collect();
    store.replace(&records, Version::new(1_000));
    assert!(ratio(&store) > 1.0, "200 objects are not worth a dictionary: {}", ratio(&store));
    assert!(store.writing_bytes() < SMALL, "no dictionary: {}", store.writing_bytes());
    assert_contents(&store, "plain");

    let records: Vec<Record> = (1..=4_000).map(|number| described("shop", number)).collect();
    let mut store = Store::new(HistoryLimits::default());
    store.replace(&records, Version::new(10_000));
    assert!(ratio(&store) < 0.5, "a first list is compressed: {}", ratio(&store));
    assert!(store.writing_bytes() > SMALL);
    assert_contents(&store, "first list");

    let mut store = Store::new(HistoryLimits::default());
    store.replace(&[], Version::new(1));
    for record in &records {
        store.apply(record);
    }
    assert!(ratio(&store) < 0.5, "and so is what comes one by one: {}", ratio(&store));
    assert_contents(&store, "one by one");
}

#[test]
fn a_small_store_that_changed_all_day_is_compressed_when_it_grows() {
    let mut store = Store::new(HistoryLimits { changes: 10, bytes: 1 << 20 });
    store.replace(&[], Version::new(1));
    for number in 2..9_000 {
        let mut record = described("shop", number);
        record.key = Key::new("a", "only");
        store.apply(&record);
    }
    assert!(store.writing_bytes() < SMALL, "one object is worth no dictionary: {}", store.writing_bytes());
    for number in 9_000..12_000 {
        store.apply(&described("shop", number));
    }
    assert!(ratio(&store) < 0.6, "{}", ratio(&store));
    assert_contents(&store, "grown");
}

#[test]
fn other_data_gets_another_dictionary() {
    let mut store = Store::new(HistoryLimits { changes: 10, bytes: 1 << 20 });
    store.replace(&[], Version::new(1));
    for number in 2..6_000 {
        store.apply(&described("shop", number));
    }
    let mut grown_by = |numbers: std::ops::Range<u64>| {
        let before = store.snapshot().usage().held_bytes;
        let count = numbers.end - numbers.start;
        for number in numbers {
            store.apply(&described("harbour", number));
        }
        (store.snapshot().usage().held_bytes - before) / count
    };
    let stale = grown_by(6_000..8_000);
    grown_by(8_000..16_000);
    let fresh = grown_by(16_000..17_000);
    assert!(fresh < stale * 9 / 10, "{fresh} bytes an object with its own dictionary, {stale} with the other one");
    assert_contents(&store, "two dictionaries");
}

#[test]
fn one_huge_object_is_no_sample() {
    let mut store = Store::new(HistoryLimits::default());
    store.replace(&[], Version::new(1));
    let mut huge = described("shop", 2);
    let mut json = huge.bytes.to_vec();
    json.pop();
    json.extend_from_slice(format!(",\"more\":\"{}\"}}", "x".repeat(3 << 20)).as_bytes());
    huge.bytes = json.into();
    store.apply(&huge);
    for number in 3..6_000 {
        store.apply(&described("shop", number));
    }
    store.delete(&huge.key, Version::new(6_000));
    assert!(ratio(&store) < 0.6, "the others are compressed: {}", ratio(&store));
    assert_contents(&store, "beside a huge one");
}

#[test]
fn what_has_nothing_in_common_stays_as_it_is() {
    let mut store = Store::new(HistoryLimits::default());
    store.replace(&[], Version::new(1));
    let mut seed = 1u64;
    for number in 2..900 {
        // Digits without a pattern, two thousand of them.
        let digits: String = (0..130)
            .map(|_| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                format!("{seed:x}")
            })
            .collect();
        let mut plain = record(&format!("a/{number}"), number, &[], &[]);
        let mut json = plain.bytes.to_vec();
        json.truncate(json.len() - 1);
        json.extend_from_slice(format!(",\"digits\":\"{digits}\"}}").as_bytes());
        plain.bytes = json.clone().into();
        store.apply(&plain);
        assert_eq!(store.snapshot().get(&format!("a/{number}")).unwrap().json(), json);
    }
}

#[test]
fn a_relist_of_stored_objects_retains_them_and_a_distrusted_one_replaces_different_ones() {
    let records: Vec<Record> = (1..=2_000).map(|number| described("shop", number)).collect();
    let mut store = Store::new(HistoryLimits::default());
    store.replace(&records, Version::new(10_000));
    let before = store.snapshot();
    let mut rewritten = records.clone();
    // Without a new version, as a changed schema default does it.
    rewritten[7].bytes = String::from_utf8(rewritten[7].bytes.to_vec()).unwrap().replace("\"text\"", "\"TEXT\"").into();
    let relist = |store: &mut Store, trust: RelistMode| {
        store.begin_list();
        for record in &rewritten {
            store.list(record);
        }
        assert_eq!(store.listed(), 2_000);
        store.commit_list(Version::new(10_000), trust);
    };
    let kept = |store: &Store| {
        let after = store.snapshot();
        let same = |(_, object): (u32, &crate::store::Object)| object.is_same(before.get(object.key()).unwrap());
        after.range(Bound::Unbounded).filter(|entry| same(*entry)).count()
    };
    relist(&mut store, RelistMode::TrustVersions);
    assert_eq!((kept(&store), store.snapshot().epoch()), (2_000, 0), "bytes of an unchanged version are kept");
    relist(&mut store, RelistMode::NewEpoch);
    assert_eq!((kept(&store), store.snapshot().epoch()), (1_999, 1), "only what differs is replaced");
    let shown = store.snapshot().get(rewritten[7].key.as_str()).unwrap().json();
    assert_eq!(shown, rewritten[7].bytes);

    // Nothing of a list is left when it breaks off.
    store.begin_list();
    store.list(&described("shop", 80_000));
    store.abort_list();
    assert!(!store.is_listing() && store.listed() == 0);
    assert_eq!(kept(&store), 1_999, "what is held is as it was");
    let mut first = Store::new(HistoryLimits::default());
    first.begin_list();
    first.list(&described("shop", 80_000));
    first.abort_list();
    assert_eq!((first.snapshot().len(), first.snapshot().held_bytes), (0, 0), "also of a first one");

    // Nor when another one begins.
    store.begin_list();
    store.list(&described("shop", 90_000));
    store.begin_list();
    for record in &rewritten {
        store.list(record);
    }
    store.unlist(&Key::new("a", "shop000001"));
    store.commit_list(Version::new(99_999), RelistMode::TrustVersions);
    assert_eq!(store.snapshot().len(), 1_999);
    assert!(store.snapshot().get("a/shop090000").is_none());
}

#[test]
fn frequent_reads_return_the_same_as_the_first_one() {
    let mut store = Store::new(HistoryLimits::default());
    let records: Vec<Record> = (1..=3_000).map(|number| described("shop", number)).collect();
    store.replace(&records, Version::new(10_000));
    let cold = store.writing_bytes();
    for _ in 0..3 {
        for (_, object) in store.snapshot().range(Bound::Unbounded).take(100) {
            // Behind something: the bytes are appended.
            let mut out = b"[".to_vec();
            object.write_json(&mut out);
            assert_eq!(out[1..], *document("shop", object.version().number()).as_bytes(), "{}", object.key());
        }
    }
    let hot = store.writing_bytes();
    assert!(hot >= cold + 50 * 1_500, "the hundred are kept plain: {cold} bytes before, {hot} after");
    assert_contents(&store, "a walk over everything");
    assert!(store.writing_bytes() < hot + 400_000, "and a walk over everything is not: {}", store.writing_bytes());
    for number in 10_001..13_000 {
        store.apply(&described("shop", number));
    }
    assert_contents(&store, "after changes");
}

#[test]
fn the_length_in_another_format_is_noted_beside_the_digits_of_the_version() {
    let object = Object::with_own_keys(&described("shop", 7));
    let span = object.version_span();
    assert_eq!([0, 1, 2, 15].map(|format| object.noted_length(format)), [None; 4]);
    for (format, length) in [(1, 0), (2, 1_000), (15, (8 << 20) - 1)] {
        object.note_length(format, length);
        for other in 0..=15 {
            assert_eq!(object.noted_length(other), (other == format).then_some(length), "{format} {other}");
        }
        assert_eq!(object.version_span(), span);
        assert_eq!(object.clone().noted_length(format), Some(length), "shared");
    }
    for (format, length) in [(0, 1), (16, 1), (1, 8 << 20)] {
        object.note_length(format, length);
        assert_eq!(object.noted_length(15), Some((8 << 20) - 1), "{format} {length} has no place");
    }
}
