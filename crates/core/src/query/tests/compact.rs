//! Compact selections: they select the same objects as selections, and their work does not grow with requirements times
//! labels or values.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::{collection, prop_assert, prop_assert_eq, proptest, sample};

use crate::extract::FieldRef;
use crate::model::{FieldIndex, Version};
use crate::query::{CompactSelection, FieldTerm, Selection};
use crate::selector::{LabelRequirement, LabelSelector, Operator};
use crate::store::tests::record_of_many;
use crate::store::text_reads;
use crate::store::{HistoryLimits, Object, Store};

const KEYS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const VALUES: [&str; 5] = ["", "1", "2", "3", "x"];

fn sets() -> impl Strategy<Value = Vec<String>> {
    collection::btree_set(sample::select(VALUES.to_vec()), 1..4)
        .prop_map(|values| values.into_iter().map(str::to_owned).collect())
}

/// In any order, because those of a View follow those of a request.
fn requirements() -> impl Strategy<Value = Vec<LabelRequirement>> {
    let one = sample::select(VALUES.to_vec()).prop_map(|value| vec![value.to_owned()]);
    // Mostly such as hold for most objects, or a long list would select nothing.
    let operator = prop_oneof![
        1 => sets().prop_map(Operator::In),
        15 => one.prop_map(Operator::NotIn),
        1 => Just(Operator::Exists),
        1 => Just(Operator::DoesNotExist),
        1 => (0..4i64).prop_map(Operator::GreaterThan),
        1 => (0..4i64).prop_map(Operator::LessThan),
    ];
    let requirement = (sample::select(KEYS.to_vec()), operator)
        .prop_map(|(key, operator)| LabelRequirement { key: key.to_owned(), operator });
    collection::vec(requirement, 0..16)
}

fn terms() -> impl Strategy<Value = Vec<FieldTerm>> {
    let operator = prop_oneof![
        sets().prop_map(Operator::In),
        sets().prop_map(Operator::NotIn),
        Just(Operator::Exists),
        Just(Operator::DoesNotExist),
    ];
    let term = (0..2u16, operator)
        .prop_map(|(field, operator)| FieldTerm { field: FieldRef::Field(FieldIndex(field)), operator });
    collection::vec(term, 0..3)
}

proptest! {
    #[test]
    fn compact_selections_select_the_same_as_selections(
        labels in collection::btree_map(sample::select(KEYS.to_vec()), sample::select(VALUES.to_vec()), 0..6),
        values in collection::vec(collection::btree_set(sample::select(VALUES.to_vec()), 0..5), 2),
        requirements in requirements(),
        fields in terms(),
        has_fields in any::<bool>(),
    ) {
        let fields = if has_fields { fields } else { Vec::new() };
        let labels: BTreeMap<&str, &str> = labels;
        let values: Vec<BTreeSet<&str>> = values;
        let labels: Vec<(&str, &str)> = labels.into_iter().collect();
        let values: Vec<Vec<&str>> = values.into_iter().map(|values| values.into_iter().collect()).collect();
        let record = record_of_many("a/x", 1, &labels, &values);
        let mut store = Store::new(HistoryLimits::default());
        store.apply(&record);
        let snapshot = store.snapshot();
        let objects = [snapshot.get("a/x").unwrap().clone(), Object::with_own_keys(&record)];
        prop_assert!(!objects[0].has_many_texts() && objects[1].has_many_texts());
        for count in [0, 1, requirements.len()] {
            let labels = LabelSelector { requirements: requirements[..count.min(requirements.len())].to_vec() };
            let selection = Selection { labels, fields: fields.clone(), ..Selection::default() };
            let compact = CompactSelection::new(&selection);
            for object in &objects {
                prop_assert_eq!(compact.meets_requirements(object), selection.meets_requirements(object), "{:?}", selection);
            }
        }
    }
}

fn object_of(labels: &[(&str, &str)], values: &[Vec<&str>]) -> Object {
    let mut store = Store::new(HistoryLimits::default());
    store.replace(&[record_of_many("a/x", 1, labels, values)], Version::new(1));
    let snapshot = store.snapshot();
    snapshot.get("a/x").unwrap().clone()
}

#[test]
fn labels_are_walked_once_for_many_requirements() {
    let keys: Vec<String> = (0..250).map(|number| format!("k{number:03}")).collect();
    let object = object_of(&keys.iter().map(|key| (&**key, "v")).collect::<Vec<_>>(), &[]);
    let requirements = keys.iter().flat_map(|key| {
        (0..4).map(move |number| LabelRequirement {
            key: key.clone(),
            operator: Operator::NotIn(vec![number.to_string()]),
        })
    });
    let labels = LabelSelector::new(requirements.collect());
    let compact = CompactSelection::new(&Selection { labels, ..Selection::default() });
    assert_eq!(compact.requirements(), 1_000);
    let read = text_reads::counted(|| assert!(compact.meets_requirements(&object)));
    assert!(read < 1_000, "{read} texts of 250 labels");
}

#[test]
fn the_smaller_one_of_a_set_and_the_values_of_an_object_is_searched_in_the_other() {
    let texts =
        |prefix: &str, count: usize| (0..count).map(|number| format!("{prefix}{number:06}")).collect::<Vec<_>>();
    for (values, wanted) in [(1_000, 50_000), (50_000, 10)] {
        let present = texts("v", values);
        let object = object_of(&[], &[present.iter().map(String::as_str).collect()]);
        assert!(object.has_many_texts());
        let operator = Operator::NotIn(texts("w", wanted));
        let fields = vec![FieldTerm { field: FieldRef::Field(FieldIndex(0)), operator }];
        let compact = CompactSelection::new(&Selection { fields, ..Selection::default() });
        let read = text_reads::counted(|| assert!(compact.meets_requirements(&object)));
        assert!(read < 5_000, "{read} texts, {values} values and {wanted} in the set");
    }
}
