//! The owners that are read from metadata.ownerReferences.

use bytes::Bytes;

use super::super::Extractor;
use crate::extract::scan::MOST_VALUES;
use crate::model::OwnerHashes;

/// The owners of an object with this text as the value of metadata.ownerReferences.
fn owners(references: &str) -> OwnerHashes {
    let object =
        format!("{{\"metadata\":{{\"name\":\"a\",\"resourceVersion\":\"1\",\"ownerReferences\":{references}}}}}");
    Extractor::built_in(None, "v1").extract(Bytes::from(object)).expect("the object can be read").texts.owners
}

#[test]
fn the_uid_of_each_owner_reference_is_read() {
    for (references, uids, why) in [
        ("[]", &[][..], "no reference"),
        ("null", &[], "null"),
        (r#"[{"apiVersion":"v1","kind":"Pod","name":"b","uid":"u1"}]"#, &["u1"], "one reference"),
        (r#"[{"uid":"u1","controller":true},{"uid":"u2"}]"#, &["u1", "u2"], "two references"),
        (r#"[{"uid":"u1"},{"uid":"u1"}]"#, &["u1"], "the same owner twice"),
        (r#"[{"uid":"u1","uid":"u2"}]"#, &["u2"], "of a key that occurs twice, the last value counts"),
        (r#"[{"name":"u1"},{"uid":1},{"uid":null},{"uid":["u"]},"u"]"#, &[], "no uid that is a text"),
        (r#"[{"uid":"\u00e9"}]"#, &["\u{e9}"], "an escaped text"),
        (r#"[{"nested":{"uid":"u1"}}]"#, &[], "uids of other objects"),
    ] {
        assert_eq!(owners(references), OwnerHashes::from_uids(uids), "{why}");
    }
    let metadata = r#"{"metadata":{"name":"a","resourceVersion":"1","ownerReferences":[{"uid":"u1"}],"ownerReferences":[{"uid":"u2"}]},"spec":{"ownerReferences":[{"uid":"u3"}]}}"#;
    let record = Extractor::built_in(None, "v1").extract(Bytes::from(metadata)).unwrap();
    assert_eq!(record.texts.owners, OwnerHashes::from_uids(["u2"]), "only of metadata, and the last of equal keys");
}

#[test]
fn the_owners_of_an_event_of_a_built_in_kind_are_read() {
    let event = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","resourceVersion":"1","ownerReferences":[{"uid":"u1"}]}}"#;
    let record = Extractor::built_in(None, "v1").extract(Bytes::from(event)).unwrap();
    assert!(!record.bytes.starts_with(br#"{"kind""#), "kind and apiVersion were cut out, so all positions moved");
    assert_eq!(record.texts.owners, OwnerHashes::from_uids(["u1"]));
}

#[test]
fn very_many_owners_are_too_many() {
    let references = |count: usize| {
        let each: Vec<String> = (0..count).map(|number| format!("{{\"uid\":\"u{number}\"}}")).collect();
        format!("[{}]", each.join(","))
    };
    for (count, are_too_many) in [(256, false), (257, true)] {
        assert_eq!(owners(&references(count)) == OwnerHashes::TooMany, are_too_many, "{count} owners");
    }
    let repeated = format!("[{}{{\"uid\":\"u2\"}}]", "{\"uid\":\"u1\"},".repeat(MOST_VALUES));
    assert_eq!(owners(&repeated), OwnerHashes::TooMany, "an owner after the last value that is read");
}
