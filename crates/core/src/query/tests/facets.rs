//! Facets compared with a count over the values themselves.

use std::collections::BTreeMap;

use proptest::prelude::any;
use proptest::{prop_assert_eq, proptest, sample};

use super::many::{Has, INTEGERS, LIMITS, Step, is_selected, replay, selections, steps};
use super::{store, term};
use crate::extract::FieldRef;
use crate::model::{FieldIndex, Version, integer};
use crate::query::facets::MOST_VALUE_BYTES;
use crate::query::work::at_once;
use crate::query::{Facet, FacetField, SelectedObjects, Selection, State, Work};
use crate::selector::OperatorName;
use crate::store::tests::{record, record_of_many};
use crate::store::{HistoryLimits, IndexLimits, Store};

/// So many that the values of a few selected objects are read from the objects.
const VALUES: [&str; 30] = [
    "", "-3", "-25", "10", "+7", "a", "b", "6", "9", "longer", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m",
    "n", "o", "p", "q", "r", "s", "t", "u", "v",
];

const FIRST: FieldRef = FieldRef::Field(FieldIndex(0));

/// The facet of these values of all objects. `key` gives the order of values.
fn naive(
    values: impl Iterator<Item = &'static str>,
    key: impl Fn(&str) -> (bool, i64, String),
    limit: usize,
    absent: u64,
    unknown: u64,
) -> Facet {
    let mut counts: BTreeMap<(bool, i64, String), (&str, u64)> = BTreeMap::new();
    values.filter(|value| !value.is_empty()).for_each(|value| counts.entry(key(value)).or_insert((value, 0)).1 += 1);
    let distinct = counts.len() as u64;
    let mut ranked: Vec<(String, u64)> = counts.into_values().map(|(value, count)| (value.to_owned(), count)).collect();
    // Stable: equal counts stay in the order of values.
    ranked.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let other = ranked.iter().skip(limit).map(|(_, count)| count).sum();
    ranked.truncate(limit);
    Facet { values: ranked, distinct, other, absent, unknown }
}

/// Integers in their order, then other texts.
fn as_integer(value: &str) -> (bool, i64, String) {
    match integer::canonical(value) {
        Some(number) => (false, number, String::new()),
        None => (true, 0, value.to_owned()),
    }
}

fn as_text(value: &str) -> (bool, i64, String) {
    (true, 0, value.to_owned())
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
            let key = if FieldIndex(field) == INTEGERS { as_integer } else { as_text };
            let expected = naive(values, key, limit, absent, unknown);
            let facet_field = FacetField { field: FieldRef::Field(FieldIndex(field)), is_many: true };
            let found = counted(state.clone(), &selection, facet_field, limit);
            prop_assert_eq!(found, (selected.len() as u64, expected), "field {}", field);
        }
        let namespaces = selected.iter().map(|(key, _)| if key.starts_with("a/") { "a" } else { "b" });
        let expected = naive(namespaces, as_text, limit, 0, 0);
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
}

#[test]
fn objects_and_integers_that_are_read_count_as_memory() {
    let numbers: Vec<String> = (0..1_000).map(|number| number.to_string()).collect();
    let values = vec![numbers.iter().map(String::as_str).collect::<Vec<_>>(); 2];
    let mut store = Store::new(HistoryLimits::default()).with_integers(vec![INTEGERS]);
    store.replace(&[record_of_many("a/x", 1, &[], &values)], Version::new(1));
    let held_bytes = |index: u16| {
        at_once(async {
            let mut work = Work::default();
            let state = State::current(store.snapshot());
            let selected = SelectedObjects::find(state, &Selection::default(), &mut work).await;
            let field = FacetField { field: FieldRef::Field(FieldIndex(index)), is_many: true };
            selected.held_bytes(field, &mut work).await
        })
    };
    assert!((1..1_000).contains(&held_bytes(1)), "one value of each object");
    assert!(held_bytes(INTEGERS.0) > 1_000 * size_of::<String>() as u64, "all integers");
}
