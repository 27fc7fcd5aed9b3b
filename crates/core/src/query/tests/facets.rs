//! Facets compared with a count over the values themselves.

use std::collections::BTreeMap;

use proptest::prelude::any;
use proptest::{prop_assert_eq, proptest, sample};

use super::many::{Has, LIMITS, Step, is_selected, replay, selections, steps};
use super::{store, term};
use crate::extract::FieldRef;
use crate::model::{FieldIndex, Version};
use crate::query::facets::MOST_VALUE_BYTES;
use crate::query::work::at_once;
use crate::query::{Facet, FacetField, SelectedObjects, Selection, State, Work};
use crate::selector::OperatorName;
use crate::store::tests::{record, record_of_many};
use crate::store::{HistoryLimits, IndexLimits, Store};

/// So many that the values of a few selected objects are read from the objects.
const VALUES: [&str; 26] = [
    "", "a", "b", "6", "9", "longer", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r",
    "s", "t", "u", "v",
];

const FIRST: FieldRef = FieldRef::Field(FieldIndex(0));

/// The facet of these values, each of them with the key of its object.
fn naive(pairs: impl Iterator<Item = &'static str>, limit: usize, absent: u64, unknown: u64) -> Facet {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    pairs.filter(|value| !value.is_empty()).for_each(|value| *counts.entry(value).or_default() += 1);
    let distinct = counts.len() as u64;
    let mut ranked: Vec<(String, u64)> = counts.into_iter().map(|(value, count)| (value.to_owned(), count)).collect();
    // Stable: equal counts stay in the order of values.
    ranked.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let other = ranked.iter().skip(limit).map(|(_, count)| count).sum();
    ranked.truncate(limit);
    Facet { values: ranked, distinct, other, absent, unknown }
}

/// The number of selected objects, and the facet of a field.
fn counted(state: State, selection: &Selection, field: FacetField, limit: usize) -> (u64, Facet) {
    at_once(async {
        let mut work = Work::default();
        let selected = SelectedObjects::find(state, selection, &mut work).await;
        (selected.total(), selected.facet(field, limit, &mut work).await)
    })
}

proptest! {
    #[test]
    fn facets_equal_a_count_over_the_values(
        steps in steps(&VALUES),
        selection in selections(),
        limit in 1..9usize,
        has_limits in any::<bool>(),
        past in proptest::option::of(any::<sample::Index>()),
    ) {
        let limits = if has_limits { LIMITS } else { IndexLimits::default() };
        let is_kept = |step: &Step| past.is_none() || !matches!(step, Step::Relist(_));
        // Without relists, history has every state.
        let steps: Vec<Step> = steps.into_iter().filter(is_kept).collect();
        let (store, newest) = replay(&steps, limits);
        let snapshot = store.snapshot();
        let (state, objects) = match past.filter(|_| !steps.is_empty()) {
            None => (State::current(snapshot), newest),
            Some(at) => {
                let before = &steps[..at.index(steps.len())];
                let version = Version::new(before.len() as u64 * 1_000).max(Version::new(1));
                (State::at(snapshot, version, selection.namespace.as_deref()).unwrap(), replay(before, limits).1)
            }
        };
        let selected: Vec<(&String, &Has)> =
            objects.iter().filter(|(key, has)| is_selected(&selection, key, has)).collect();
        for field in 0..2u16 {
            let number = usize::from(field);
            let unknown = selected.iter().filter(|(_, has)| has.unknown[number]).count() as u64;
            let has_value = |has: &Has| has.values[number].iter().any(|value| !value.is_empty());
            let with_value = selected.iter().filter(|(_, has)| has_value(has)).count() as u64;
            let absent = selected.len() as u64 - unknown - with_value;
            let values = selected.iter().flat_map(|(_, has)| has.values[number].iter().copied());
            let expected = naive(values, limit, absent, unknown);
            let facet_field = FacetField { field: FieldRef::Field(FieldIndex(field)), is_many: true };
            let found = counted(state.clone(), &selection, facet_field, limit);
            prop_assert_eq!(found, (selected.len() as u64, expected), "field {}", field);
        }
        let namespaces = selected.iter().map(|(key, _)| if key.starts_with("a/") { "a" } else { "b" });
        let expected = naive(namespaces, limit, 0, 0);
        let namespace = FacetField { field: FieldRef::Namespace, is_many: false };
        prop_assert_eq!(counted(state, &selection, namespace, limit), (selected.len() as u64, expected));
    }
}

#[test]
fn a_field_with_one_value_counts_each_object_once() {
    let colors = ["blue", "", "red", "blue", "green", "", "red", "blue"];
    let records = (1u64..).zip(colors).map(|(number, color)| record(&format!("a/x{number}"), number, &[], &[color]));
    let state = State::current(store(records.collect()).snapshot());
    let field = FacetField { field: FIRST, is_many: false };
    let facet = |values: &[(&str, u64)], distinct, other, absent| Facet {
        values: values.iter().map(|(value, count)| ((*value).to_owned(), *count)).collect(),
        distinct,
        other,
        absent,
        unknown: 0,
    };
    let selected =
        |value: &str| Selection { fields: vec![term(FIRST, OperatorName::NotIn, value)], ..Selection::default() };
    for (selection, field, limit, total, expected, why) in [
        (Selection::default(), field, 2, 8, facet(&[("blue", 3), ("red", 2)], 3, 1, 2), "more values than the limit"),
        (Selection::default(), field, 3, 8, facet(&[("blue", 3), ("red", 2), ("green", 1)], 3, 0, 2), "all values"),
        (selected("blue"), field, 1, 5, facet(&[("red", 2)], 2, 1, 2), "a selection"),
        (selected(""), field, 1, 6, facet(&[("blue", 3)], 3, 3, 0), "without the absent ones"),
        (
            Selection::default(),
            FacetField { field: FieldRef::Empty, is_many: false },
            2,
            8,
            facet(&[], 0, 0, 8),
            "a field that no object has",
        ),
    ] {
        assert_eq!(counted(state.clone(), &selection, field, limit), (total, expected), "{why}");
    }
    let cluster = State::current(store(vec![record("x", 1, &[], &["blue"])]).snapshot());
    let namespace = FacetField { field: FieldRef::Namespace, is_many: false };
    let found = counted(cluster, &Selection::default(), namespace, 1);
    assert_eq!(found, (1, facet(&[], 0, 0, 1)), "an object without a namespace");
}

#[test]
fn the_bytes_of_the_values_are_bounded() {
    // Too long for the index, so they are read from the objects.
    let long = |number: u64| format!("{number}{}", "v".repeat(MOST_VALUE_BYTES / 4));
    let mut store = Store::new(HistoryLimits::default());
    store.replace(&[], Version::new(1));
    for number in 0..6 {
        store.apply(&record_of_many(&format!("a/x{number}"), number + 2, &[], &[vec![&long(number)]]));
    }
    let field = FacetField { field: FIRST, is_many: true };
    let (_, facet) = counted(State::current(store.snapshot()), &Selection::default(), field, 6);
    assert_eq!((facet.values.len(), facet.distinct, facet.other), (3, 6, 3), "the others are counted together");
    let reading =
        at_once(SelectedObjects::find(State::current(store.snapshot()), &Selection::default(), &mut Work::default()));
    assert!(reading.held_bytes(field) >= 6 * size_of::<usize>() as u64, "an object that is read takes memory");
}
