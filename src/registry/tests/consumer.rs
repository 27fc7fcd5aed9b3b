//! What the labels of a Pod ask for.

use std::collections::BTreeMap;

use crate::registry::consumer::{ConsumerTerms, ConsumerValue};

/// Keys that match, keys that do not, the labels of the Pod by key and value, the selector, and why.
type Row = (
    &'static [&'static str],
    &'static [&'static str],
    &'static [(&'static str, &'static str)],
    &'static str,
    &'static str,
);

#[test]
fn labels_of_a_pod_are_merged_key_by_key() {
    let rows: [Row; 6] = [
        (&["a"], &[], &[("a", "1")], "a=1", "the value of the key"),
        (&["a", "b"], &[], &[("a", "1")], "a=1", "a key that the Pod lacks asks for nothing"),
        (&[], &["a"], &[("a", "1")], "a!=1", "another value, or none"),
        (
            &["b", "a"],
            &["c"],
            &[("a", "1"), ("b", "2"), ("c", "3")],
            "a=1,b=2,c!=3",
            "both, in the order of a selector",
        ),
        (&["a"], &["b"], &[], "", "no labels, no restriction"),
        (&["a"], &[], &[("a", "")], "a=", "an empty value is a value"),
    ];
    for (matched, mismatched, labels, expected, why) in rows {
        let texts = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect();
        let terms = ConsumerTerms {
            match_label_keys: texts(matched),
            mismatch_label_keys: texts(mismatched),
            ..ConsumerTerms::default()
        };
        let labels: BTreeMap<String, String> =
            labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let merged = terms.labels(&labels);
        let expected = crate::selector::LabelSelector::parse(expected).unwrap();
        for (app, shown) in [("1", &labels), ("x", &BTreeMap::from([("a".to_owned(), "x".to_owned())]))] {
            let value_of = |key: &str| shown.get(key).map(String::as_str);
            let matches = |selector: &crate::selector::LabelSelector| {
                selector.requirements.iter().all(|requirement| requirement.matches(value_of(&requirement.key)))
            };
            assert_eq!(matches(&merged), matches(&expected), "{why}: {app}: {merged}");
        }
    }
    let keys = ConsumerTerms { match_label_keys: vec!["a".to_owned()], ..ConsumerTerms::default() };
    let needed = [ConsumerValue::Namespace, ConsumerValue::PodName, ConsumerValue::PodUid];
    assert_eq!(keys.values(), needed, "a Pod is known by these");
    assert!(!keys.is_empty() && ConsumerTerms::default().is_empty());
}
