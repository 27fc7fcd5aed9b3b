//! Operators that fieldcache adds to field selectors, in lists and watches.

use bytes::Bytes;

use super::{ALL_SHIRTS, Fixture, SHIRTS};
use crate::server::Settings;
use crate::server::tests::extra::fixture_with;

impl Fixture {
    /// Puts a shirt of a size; `None`: without one.
    pub(super) fn put_sized(&mut self, namespace: &str, name: &str, color: &str, size: Option<i64>) {
        let version = self.next_version();
        let size = size.map(|size| format!(",\"size\":{size}")).unwrap_or_default();
        let text = format!(
            "{{\"apiVersion\":\"stable.example.com/v1\",\"kind\":\"Shirt\",\"metadata\":{{\"name\":\"{name}\",\
             \"namespace\":\"{namespace}\",\"resourceVersion\":\"{version}\"}},\"spec\":{{\"color\":\"{color}\"{size}}}}}"
        );
        let record = self.shirts.resource.extractor.extract(Bytes::from(text)).unwrap();
        self.shirts.store.apply(&record);
        self.shirts.publish();
    }
}

/// The query of a selector.
fn query(selector: &str) -> String {
    let encoded: String = selector.bytes().map(|byte| format!("%{byte:02X}")).collect();
    format!("?fieldSelector={encoded}")
}

#[tokio::test]
async fn lists_are_selected_by_every_operator() {
    let mut fixture = Fixture::new();
    for (namespace, name, color, size) in [
        ("a", "blue-9", "blue", Some(9)),
        ("a", "blue-10", "blue", Some(10)),
        ("a", "green", "green", Some(-3)),
        ("b", "blue-9", "blueish", None),
        ("b", "plain", "", Some(200)),
    ] {
        fixture.put_sized(namespace, name, color, size);
    }
    for (selector, expected) in [
        ("spec.color in (blue,green)", &["a/blue-10", "a/blue-9", "a/green"][..]),
        ("spec.color notin (blue,green)", &["b/blue-9", "b/plain"]),
        ("spec.color", &["a/blue-10", "a/blue-9", "a/green", "b/blue-9"]),
        ("!spec.color", &["b/plain"]),
        ("spec.color^=blue", &["a/blue-10", "a/blue-9", "b/blue-9"]),
        // Integers, not texts.
        ("spec.size>9", &["a/blue-10", "b/plain"]),
        ("spec.size>=9", &["a/blue-10", "a/blue-9", "b/plain"]),
        ("spec.size<9", &["a/green"]),
        ("spec.size<=9", &["a/blue-9", "a/green"]),
        ("spec.size > 9, spec.size < 100", &["a/blue-10"]),
        ("!spec.size", &["b/blue-9"]),
        // A prefix of the text of an integer.
        ("spec.size^=1", &["a/blue-10"]),
        ("spec.size^=-", &["a/green"]),
        ("spec.size>9223372036854775807", &[]),
        ("metadata.name in (blue-9,plain)", &["a/blue-9", "b/blue-9", "b/plain"]),
        ("metadata.name notin (blue-9,plain)", &["a/blue-10", "a/green"]),
        ("metadata.name^=blue-", &["a/blue-10", "a/blue-9", "b/blue-9"]),
        ("metadata.namespace in (b,c)", &["b/blue-9", "b/plain"]),
        ("metadata.namespace^=a", &["a/blue-10", "a/blue-9", "a/green"]),
        ("metadata.name", &["a/blue-10", "a/blue-9", "a/green", "b/blue-9", "b/plain"]),
        ("!metadata.namespace", &[]),
        ("spec.color=blue,spec.size>9", &["a/blue-10"]),
        ("spec.color!=blue,spec.size", &["a/green", "b/plain"]),
    ] {
        let answer = fixture.get(&format!("{ALL_SHIRTS}{}", query(selector))).await;
        assert_eq!(answer.code.as_u16(), 200, "{selector}");
        assert_eq!(answer.names(), expected, "{selector}");
    }
    let in_b =
        fixture.get(&format!("/apis/stable.example.com/v1/namespaces/b/shirts{}", query("metadata.name^=blue"))).await;
    assert_eq!(in_b.names(), ["b/blue-9"], "a prefix of names in one namespace");
}

#[tokio::test]
async fn names_of_cluster_scoped_objects_are_selected_by_prefix() {
    let mut fixture = Fixture::new();
    for name in ["hat-1", "hat-2", "cap", "hats"] {
        fixture.put_hat(name);
    }
    for (selector, expected) in [("metadata.name^=hat-", &["hat-1", "hat-2"][..]), ("metadata.name^=x", &[])] {
        let answer = fixture.get(&format!("/apis/stable.example.com/v1/hats{}", query(selector))).await;
        assert_eq!(answer.names(), expected, "{selector}");
    }
}

#[tokio::test]
async fn an_operator_that_does_not_suit_the_field_is_rejected() {
    let fixture = Fixture::new();
    let no_integer = |requirement: &str, label: &str| {
        format!(
            "the operator of {requirement:?} compares integers, and the field {label} has values of type string: use \
             =, !=, in, notin or ^="
        )
    };
    for (selector, message) in [
        ("spec.color>5", no_integer("spec.color>5", "spec.color")),
        ("spec.color>=5", no_integer("spec.color>=5", "spec.color")),
        ("metadata.name<5", no_integer("metadata.name<5", "metadata.name")),
        ("nope", "field label not supported: nope".to_owned()),
        ("nope in (a,b)", "field label not supported: nope".to_owned()),
        // The name of the field, without the operator.
        ("nope>=5", "field label not supported: nope".to_owned()),
        ("spec.color^=blue,nope^=a", "field label not supported: nope".to_owned()),
        // Neither reading suits.
        ("spec.size>=x", "field label not supported: spec.size>".to_owned()),
        ("spec.size>x", r#"invalid field selector: the operator > needs an integer, not "x""#.to_owned()),
        ("spec.color in (a", "invalid field selector: a list of values has no closing parenthesis".to_owned()),
    ] {
        let answer = fixture.get(&format!("{ALL_SHIRTS}{}", query(selector))).await;
        assert_eq!((answer.code.as_u16(), answer.message()), (400, message), "{selector}");
    }
}

#[tokio::test(start_paused = true)]
async fn some_value_of_several_satisfies_a_positive_operator() {
    let mut fixture = fixture_with(Settings::default());
    for (name, images) in [("ab", &["app:1", "base:2"][..]), ("b", &["base:2"]), ("none", &[])] {
        fixture.put_images_in("default", name, images);
    }
    for (selector, expected) in [
        ("images^=app:", &["default/ab"][..]),
        ("images in (app:1,base:2)", &["default/ab", "default/b"]),
        ("images notin (app:1,x)", &["default/b", "default/none"]),
        ("images", &["default/ab", "default/b"]),
        ("!images", &["default/none"]),
    ] {
        let answer = fixture.get(&format!("{ALL_SHIRTS}{}", query(selector))).await;
        assert_eq!(answer.names(), expected, "{selector}");
    }
}

#[tokio::test(start_paused = true)]
async fn watches_follow_every_operator() {
    let mut fixture = Fixture::new();
    let ranged = format!("{SHIRTS}{}&watch=1&resourceVersion=100", query("spec.size>=5,spec.size<50"));
    let prefixed = format!("{SHIRTS}{}&watch=1&resourceVersion=100", query("spec.color^=bl"));
    let named = format!("{SHIRTS}{}&watch=1&resourceVersion=100", query("metadata.name in (x,z)"));
    let mut watches = [fixture.watch(&ranged).await, fixture.watch(&prefixed).await, fixture.watch(&named).await];
    fixture.put_sized("default", "x", "blue", Some(10));
    fixture.put_sized("default", "y", "green", Some(100));
    fixture.put_sized("default", "x", "black", Some(50));
    fixture.put_sized("default", "y", "blue", Some(5));
    fixture.put_sized("default", "y", "red", None);
    let expected: [&[&str]; 3] = [
        &["ADDED x", "DELETED x", "ADDED y", "DELETED y"],
        &["ADDED x", "MODIFIED x", "ADDED y", "DELETED y"],
        &["ADDED x", "MODIFIED x"],
    ];
    for (watch, expected) in watches.iter_mut().zip(expected) {
        for text in expected {
            let event = watch.next().await.unwrap();
            let name = event["object"]["metadata"]["name"].as_str().unwrap();
            assert_eq!(format!("{} {name}", event["type"].as_str().unwrap()), *text);
        }
        watch.expect_silence().await;
    }
}
