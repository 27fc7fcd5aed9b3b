//! Tables for names, keys and versions.

mod fair_queue;
mod moment;
mod shares;
mod user_name;

use proptest::{prop_assert_eq, proptest};

use super::flow::Flow;
use super::{FieldIndex, GroupVersion, Gvr, IndexedValues, Key, Version, quantity};

/// A user of a tenant; the tenant itself without a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct TestUser {
    tenant: u8,
    user: Option<u8>,
}

impl Flow for TestUser {
    fn tenant(&self) -> TestUser {
        TestUser { user: None, ..*self }
    }
}

fn user_of(tenant: u8, user: u8) -> TestUser {
    TestUser { tenant, user: Some(user) }
}

#[test]
fn keys_sort_by_their_joined_bytes() {
    let mut keys =
        [Key::new("ab", "x"), Key::new("a", "x"), Key::new("a-b", "x"), Key::new("", "a"), Key::new("a", "x.y")];
    keys.sort();
    let joined: Vec<&str> = keys.iter().map(Key::as_str).collect();
    assert_eq!(joined, ["a", "a-b/x", "a/x", "a/x.y", "ab/x"]);
    assert_eq!((keys[1].namespace(), keys[1].name()), ("a-b", "x"));
    assert_eq!((keys[0].namespace(), keys[0].name()), ("", "a"));
}

#[test]
fn resource_names_parse_and_print() {
    for (text, expected, why) in [
        ("shirts.v1.stable.example.com", Some(("stable.example.com", "v1", "shirts")), "a custom resource"),
        ("pods.v1", Some(("", "v1", "pods")), "the core group"),
        ("deployments.v1.apps", Some(("apps", "v1", "deployments")), "a group without dots"),
        ("pods", None, "no version"),
        (".v1", None, "no resource"),
        ("pods.", None, "an empty version"),
        ("pods.v1.", None, "an empty group after a dot"),
    ] {
        let parsed = Gvr::parse(text);
        let parts = parsed.as_ref().map(|gvr| (&*gvr.group, &*gvr.version, &*gvr.resource));
        assert_eq!(parts, expected, "{why}: {text}");
        if let Some(gvr) = parsed {
            assert_eq!(gvr.to_string(), text, "{why}");
        }
    }
}

#[test]
fn api_versions_parse() {
    for (text, expected) in [
        ("v1", Some("api/v1")),
        ("apps/v1", Some("apis/apps/v1")),
        ("", None),
        ("/v1", None),
        ("a/b/c", None),
        ("apps/", None),
    ] {
        assert_eq!(GroupVersion::parse(text).map(|parsed| parsed.path()).as_deref(), expected, "{text:?}");
    }
}

#[test]
fn versions_are_plain_decimals() {
    for (text, expected) in [
        ("0", Some(0)),
        ("18446744073709551615", Some(u64::MAX)),
        ("18446744073709551616", None),
        ("", None),
        ("00000000000000000007", Some(7)),
        ("000000000000000000007", None),
        ("+1", None),
        ("-1", None),
        ("1a", None),
    ] {
        assert_eq!(Version::parse(text).map(Version::number), expected, "{text:?}");
    }
}

proptest! {
    #[test]
    fn texts_come_out_as_they_went_in(labels in proptest::collection::vec(("[a-c]{0,3}|é", "[a-c]{0,3}|é"), 0..6), values in proptest::collection::vec((0u16..3, "[a-c]{0,3}|é"), 0..6)) {
        let labels: Vec<(&str, &str)> = labels.iter().map(|(key, value)| (&**key, &**value)).collect();
        let values: Vec<(FieldIndex, &str)> = values.iter().map(|(field, value)| (FieldIndex(*field), &**value)).collect();
        let mut texts = IndexedValues::with_capacity(3, 1, 1);
        for (key, value) in &labels {
            texts.push_label(key, value);
            prop_assert_eq!(texts.last_label_key(), Some(*key));
        }
        for (field, value) in &values {
            texts.push_value(*field, value);
        }
        prop_assert_eq!(texts.labels().collect::<Vec<_>>(), &*labels);
        prop_assert_eq!(texts.values().collect::<Vec<_>>(), &*values);
        prop_assert_eq!(texts, IndexedValues::new(labels, values));
    }
}

#[test]
fn quantities_are_read_as_kubernetes_reads_them() {
    let rows = [
        ("0", 0),
        ("17", 17),
        ("2Ki", 2_048),
        ("2k", 2_000),
        ("2Gi", 2 << 30),
        ("1.5Gi", 3 << 29),
        (".5Ki", 512),
        ("5.", 5),
        ("1e9", 1_000_000_000),
        ("1E+3", 1_000),
        ("1E", 1_000_000_000_000_000_000),
        ("15Ei", 15 << 60),
        ("0.0001k", 1),
        ("0001.10Ki", 1_127),
        ("18446744073709551615", u64::MAX),
    ];
    for (text, bytes) in rows {
        assert_eq!(quantity::Bytes::parse(text), Ok(quantity::Bytes(bytes)), "{text}");
    }
    for text in ["", ".", "Gi", "-1", "+1", "1.2.3", "1 Gi", "1KB", "1gi", "1e", "1e-1", "100m", "1Gi ", "1n"] {
        let unreadable = Err(quantity::NotBytes::Unreadable(text.to_owned()));
        assert_eq!(quantity::Bytes::parse(text), unreadable, "{text:?}");
    }
    for text in ["16Ei", "18446744073709551616", "1e99", "99999999999999999999999999", "1e99999999999"] {
        assert_eq!(quantity::Bytes::parse(text), Err(quantity::NotBytes::TooMuch(text.to_owned())), "{text:?}");
    }
    assert_eq!(quantity::Bytes::parse("0.0000000000000000010Ki"), Ok(quantity::Bytes(1)));
    let text = "1.0000000000000000001Gi";
    let too_many = Err(quantity::NotBytes::TooManyFractionDigits(text.to_owned()));
    assert_eq!(quantity::Bytes::parse(text), too_many);
}

#[test]
fn quantities_are_printed_short() {
    let rows = [
        (0, "0"),
        (1_023, "1023"),
        (1_024, "1Ki"),
        (3 << 29, "1536Mi"),
        (2 << 30, "2Gi"),
        ((2 << 30) + 1, "2.0Gi"),
        (2_500_000, "2.4Mi"),
        (1_000_448, "977Ki"),
        (u64::MAX, "16.0Ei"),
    ];
    for (bytes, text) in rows {
        assert_eq!(quantity::Bytes(bytes).to_string(), text, "{bytes}");
    }
}
