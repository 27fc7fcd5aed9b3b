//! Explanations: their words, and their figures against the list that they explain.

use proptest::prelude::any;
use proptest::{prop_assert_eq, proptest};

use super::super::{AccessPath, Explanation, Hits, Selection, State};
use super::{explained, hits_of, names, objects, selections, store, term};
use crate::extract::{Field, FieldRef, Origin};
use crate::model::{FieldIndex, Version};
use crate::query::Listing;
use crate::selector::{LabelSelector, OperatorName};
use crate::store::tests::record;
use crate::store::{HistoryLimits, Store};

/// The explanation for a resource with one field.
pub(super) fn fields() -> Vec<Field> {
    vec![Field {
        label: "spec.color".to_owned(),
        json_path: ".spec.color".to_owned(),
        kind: "string".to_owned(),
        allowed: std::sync::Arc::default(),
        format: String::new(),
        default: None,
        description: String::new(),
        origin: Origin::CustomResourceDefinition,
    }]
}

#[test]
fn explanations_show_the_lookups_and_their_counts() {
    use OperatorName::{In as Equals, NotIn as NotEquals};
    let color = FieldRef::Field(FieldIndex(0));
    let records: Vec<_> = (0..100)
        .map(|index| {
            let labels = if index < 3 { vec![("app", "shop"), ("tier", "web")] } else { vec![("tier", "web")] };
            let (namespace, color) = if index % 2 == 0 { ("a", "blue") } else { ("b", "red") };
            record(&format!("{namespace}/x{index:02}"), index + 100, &labels, &[color])
        })
        .collect();
    let object_bytes = records[0].bytes.len() as u64;
    let store = store(records);
    let (index, scan) = (AccessPath::Index, AccessPath::Scan);
    for (namespace, labels, terms, plan, access, candidates, hits, bytes, why) in [
        (None, "", vec![], "everything", scan, 100, 100, Some(100), "all of it"),
        (Some("a"), "", vec![], "metadata.namespace=a (50)", index, 50, 50, None, "a namespace is a range of keys"),
        (Some("c"), "", vec![], "metadata.namespace=c (0)", index, 0, 0, None, "one without objects"),
        (None, "", vec![(color, Equals, "blue")], "spec.color=blue (50)", index, 50, 50, Some(50), "a field"),
        (None, "", vec![(color, Equals, "pink")], "spec.color=pink (0)", index, 0, 0, Some(0), "no such value"),
        (
            None,
            "",
            vec![(color, NotEquals, "blue")],
            "spec.color!=blue (less 50)",
            index,
            100,
            50,
            Some(50),
            "all but some",
        ),
        (
            Some("a"),
            "app in (shop,web),!old",
            vec![(color, Equals, "blue")],
            "app in (shop,web) (3) & spec.color=blue (50) & metadata.namespace=a (50) & !old (less 0)",
            index,
            3,
            2,
            Some(2),
            "the smallest first",
        ),
        (None, "", vec![(FieldRef::Name, Equals, "x01")], "metadata.name=x01 (1)", index, 1, 1, Some(1), "a name"),
        (
            None,
            "",
            vec![(FieldRef::Namespace, NotEquals, "a")],
            "metadata.namespace!=a (less 50)",
            index,
            100,
            50,
            Some(50),
            "not a namespace",
        ),
        (
            None,
            "",
            vec![(FieldRef::Empty, Equals, "v")],
            "nothing",
            index,
            0,
            0,
            Some(0),
            "a field that is never there",
        ),
        (None, "", vec![(FieldRef::Empty, Equals, "")], "everything", scan, 100, 100, Some(100), "its absence"),
    ] {
        let selection = Selection {
            namespace: namespace.map(str::to_owned),
            labels: LabelSelector::parse(labels).unwrap(),
            fields: terms.into_iter().map(|(field, operator, value)| term(field, operator, value)).collect(),
            shard: None,
            cel: None,
        };
        let found = explained(&selection, &State::current(store.snapshot()), &fields());
        let bytes = bytes.map(|objects: u64| objects * object_bytes);
        assert_eq!(
            found,
            Explanation { plan: plan.to_owned(), access, candidates: Some(candidates), hits, bytes },
            "{why}"
        );
    }
}

#[test]
fn an_explanation_of_the_past_counts_the_past() {
    let mut store = Store::new(HistoryLimits::default());
    store.replace(&[record("a/x", 3, &[], &["red"]), record("a/y", 4, &[], &["red"])], Version::new(10));
    store.apply(&record("a/x", 11, &[], &["blue"]));
    store.delete(&crate::model::Key::new("a", "y"), Version::new(12));
    store.apply(&record("a/a", 13, &[], &["red"]));
    let red = Selection {
        fields: vec![term(FieldRef::Field(FieldIndex(0)), OperatorName::In, "red")],
        ..Selection::default()
    };
    for (version, hits, everything) in [(10, 2, 2), (11, 1, 2), (12, 0, 1), (13, 1, 2)] {
        let state = State::at(store.snapshot(), Version::new(version), None).unwrap();
        let found = explained(&red, &state, &fields());
        assert_eq!((found.hits, found.bytes.is_some()), (hits, version == 13), "red at {version}");
        let found = explained(&Selection::default(), &state, &fields());
        assert_eq!((found.hits, found.bytes.is_some()), (everything, version == 13), "everything at {version}");
    }
}

proptest! {
    #[test]
    fn an_explanation_agrees_with_the_result(records in objects(), selection in selections(), cut in any::<proptest::sample::Index>()) {
        let mut store = store(records);
        let version = store.version();
        for past in [false, true] {
            if past {
                // The state before a change and a deletion.
                let keys: Vec<_> = store.snapshot().range(std::ops::Bound::Unbounded).map(|(_, object)| crate::model::Key::new("", object.key())).collect();
                if !keys.is_empty() {
                    store.apply(&record(keys[cut.index(keys.len())].as_str(), version.number() + 1, &[("k1", "p")], &["blue"]));
                    store.delete(&keys[keys.len() / 2], Version::new(version.number() + 2));
                }
            }
            let state = State::at(store.snapshot(), version, selection.namespace.as_deref()).unwrap();
            let listed = names(Listing::new(state.clone(), &selection, None));
            let explanation = explained(&selection, &state, &fields());
            prop_assert_eq!(explanation.hits, listed.len() as u64);
            let walks_all = hits_of(&selection, state.snapshot()) == Hits::Everything;
            prop_assert_eq!(explanation.access == AccessPath::Scan, walks_all);
        }
    }
}
