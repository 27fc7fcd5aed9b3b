//! The requirements in the labels of a Pod.

use std::collections::BTreeMap;

use std::sync::Arc;

use allocation_counter::measure;

use super::resource;
use crate::registry::LoadState;
use crate::registry::consumer::{ConsumerClaim, ConsumerTerms};
use crate::registry::followed_pod::FollowedPod;
use crate::store::{HistoryLimits, Store};

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
        (&["a", "b"], &[], &[("a", "1")], "a=1", "a key that the Pod lacks requires nothing"),
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
    let needed = [ConsumerClaim::Namespace, ConsumerClaim::PodName, ConsumerClaim::PodUid];
    assert_eq!(keys.values(), needed, "a Pod is known by these");
    assert!(!keys.is_empty() && ConsumerTerms::default().is_empty());
}

#[test]
fn a_changed_pod_is_read_once_for_all_watches_that_follow_it() {
    const WATCHES: usize = 50;
    let pods = resource("pods");
    let mut store = Store::new(HistoryLimits::default());
    let mut put = |version: u64, uid: &str, app: &str| {
        let text = format!(
            "{{\"metadata\":{{\"annotations\":{{\"a\":\"{}{version}\"}},\"labels\":{{\"app\":\"{app}\"}},\"name\":\"p\",\
             \"namespace\":\"n\",\"resourceVersion\":\"{version}\",\"uid\":\"{uid}\"}}}}",
            "long".repeat(50_000)
        );
        store.apply(&pods.extractor.extract(text.into()).unwrap());
        pods.state.publish(LoadState::Ready(store.snapshot()));
        store.snapshot()
    };
    let snapshot = put(1, "u", "x");
    let keys = ConsumerTerms { match_label_keys: vec!["app".to_owned()], ..ConsumerTerms::default() };
    let keys = Arc::new(keys);
    let follow = || FollowedPod::new(&pods.state, &snapshot, ("n", "p", "u"), &keys).unwrap();
    let followed: Vec<FollowedPod> = (0..WATCHES).map(|_| follow()).collect();
    let changed = |why: &str, expected: bool| {
        let taken = measure(|| {
            for pod in &followed {
                assert_eq!(pod.is_changed(), expected, "{why}");
            }
        });
        taken.bytes_total
    };
    assert!(changed("nothing has happened", false) < 200_000, "what was read at the start is not read again");
    put(2, "u", "x");
    let taken = changed("another annotation", false);
    assert!(taken > 200_000 && taken < 2_000_000, "{taken} bytes for {WATCHES} watches of a Pod of 200 KB");
    put(3, "u", "y");
    changed("another label", true);
    let fresh = FollowedPod::new(&pods.state, &put(4, "u", "x"), ("n", "p", "u"), &keys).unwrap();
    put(5, "v", "x");
    assert!(fresh.is_changed(), "another Pod of that name");
    assert!(FollowedPod::new(&pods.state, &snapshot, ("n", "p", "w"), &keys).is_none(), "another uid");
}
