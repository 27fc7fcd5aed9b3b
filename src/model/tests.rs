//! Tables for names, keys and versions.

use super::{GroupVersion, Gvr, Key, Version};

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
        ("+1", None),
        ("-1", None),
        ("1a", None),
    ] {
        assert_eq!(Version::parse(text).map(Version::number), expected, "{text:?}");
    }
}
