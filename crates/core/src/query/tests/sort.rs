//! Sorted pages compared with one sort of all objects, while the store changes.

use std::collections::BTreeMap;

use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::{collection, prop_assert, prop_assert_eq, proptest, sample};

use crate::extract::FieldRef;
use crate::model::{FieldIndex, Key, Record, Version, integer};
use crate::query::work::at_once;
use crate::query::{FieldTerm, SelectedObjects, Selection, SortField, SortOrder, SortedListing, State, Work};
use crate::selector::Operator;
use crate::store::tests::record;
use crate::store::{HistoryLimits, IndexLimits, Object, Snapshot, Store};

/// Some values are longer than the index allows.
const VALUES: [&str; 12] = ["", "a", "b", "6", "9", "-3", "-25", "10", "+7", "08", "longer", "much longer"];

const LIMITS: IndexLimits = IndexLimits { labels: 2, values: 2, value_bytes: 6 };

const INTEGERS: FieldIndex = FieldIndex(0);

/// Two fields with one value each; `None` if it is unknown.
type Has = [Option<&'static str>; 2];

#[derive(Clone, Debug)]
enum Step {
    Put(usize, Has),
    Delete(usize),
}

fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let value = || prop_oneof![12 => sample::select(VALUES.to_vec()).prop_map(Some), 1 => Just(None)];
    let step = prop_oneof![
        8 => (0..300usize, value(), value()).prop_map(|(name, one, other)| Step::Put(name, [one, other])),
        1 => (0..300usize).prop_map(Step::Delete),
    ];
    collection::vec(step, 0..most)
}

fn orders() -> impl Strategy<Value = Vec<SortField>> {
    let field = prop_oneof![
        2 => Just(FieldRef::Field(INTEGERS)),
        2 => Just(FieldRef::Field(FieldIndex(1))),
        1 => Just(FieldRef::Name),
        1 => Just(FieldRef::Namespace),
        1 => Just(FieldRef::Empty),
    ];
    let key = (field, any::<bool>()).prop_map(|(field, is_descending)| SortField { field, is_descending });
    prop_oneof![2 => collection::vec(key.clone(), 1), 1 => collection::vec(key, 0..4)]
}

fn selections() -> impl Strategy<Value = Selection> {
    let operator = prop_oneof![
        Just(Operator::Exists),
        sample::select(VALUES.to_vec()).prop_map(Operator::equal_to),
        sample::select(VALUES.to_vec()).prop_map(Operator::not_equal_to),
    ];
    let term =
        (0..2u16, operator).prop_map(|(field, operator)| FieldTerm::new(FieldRef::Field(FieldIndex(field)), operator));
    let terms = prop_oneof![3 => Just(Vec::new()), 1 => collection::vec(term, 1..3)];
    let namespace = prop_oneof![2 => Just(None), 1 => Just(Some("a".to_owned()))];
    (namespace, terms).prop_map(|(namespace, fields)| Selection { namespace, fields, ..Selection::default() })
}

/// Names that are in both namespaces.
fn key(number: usize) -> String {
    format!("{}/n{:03}", if number.is_multiple_of(3) { "b" } else { "a" }, number / 3)
}

fn put(number: usize, has: Has, version: u64) -> Record {
    let values: Vec<&str> = has.iter().map(|value| value.unwrap_or_default()).collect();
    let known: Vec<(FieldIndex, &str)> =
        (0..).map(FieldIndex).zip(values).filter(|(field, _)| has[usize::from(field.0)].is_some()).collect();
    let mut put = record(&key(number), version, &[], &[]);
    put.texts = crate::model::IndexedValues::new(std::iter::empty(), known);
    for (field, _) in (0..).map(FieldIndex).zip(has).filter(|(_, value)| value.is_none()) {
        put.texts.push_unknown(field);
    }
    put
}

/// Where a value is in the order of its field.
fn place(field: FieldIndex, value: Option<&str>) -> (u8, i64, String) {
    let value = value.unwrap_or_default();
    match integer::canonical(value).filter(|_| field == INTEGERS) {
        Some(number) => (1, number, String::new()),
        None => (if value.is_empty() { 0 } else { 2 }, 0, value.to_owned()),
    }
}

/// The keys of the selected objects, sorted.
fn naive(objects: &BTreeMap<String, (Has, Object)>, selection: &Selection, order: &[SortField]) -> Vec<String> {
    let mut found: Vec<(&String, &Has)> = objects
        .iter()
        .filter(|(_, (_, object))| selection.meets_requirements(object))
        .map(|(key, (has, _))| (key, has))
        .collect();
    // The last field first, because the sort is stable.
    for SortField { field, is_descending } in order.iter().rev() {
        let value = |(key, has): &(&String, &Has)| match field {
            FieldRef::Field(index) => place(*index, has[usize::from(index.0)]),
            FieldRef::Name => place(FieldIndex(1), key.split('/').nth(1)),
            FieldRef::Namespace => place(FieldIndex(1), key.split('/').next()),
            FieldRef::Empty => place(FieldIndex(1), None),
        };
        found.sort_by(|left, right| {
            let order = value(left).cmp(&value(right));
            if *is_descending { order.reverse() } else { order }
        });
    }
    found.into_iter().map(|(key, _)| key.clone()).collect()
}

/// A page, and the number of selected objects.
fn page(
    state: State,
    selection: &Selection,
    order: &SortOrder,
    after: Option<&Object>,
    limit: Option<usize>,
) -> (Vec<Object>, bool, u64) {
    at_once(async {
        let mut work = Work::default();
        let selected = SelectedObjects::find(state, selection, &mut work).await;
        let mut listing = SortedListing::begin(&selected, order, after, limit, &mut work).await;
        let objects = listing.by_ref().take(limit.unwrap_or(usize::MAX)).collect();
        (objects, listing.peek().is_some(), selected.total())
    })
}

proptest! {
    #[test]
    fn sorted_pages_equal_one_sort_at_one_version(
        first in steps(300),
        later in steps(60),
        keys in orders(),
        selection in selections(),
        limit in 1..60usize,
        has_limits in any::<bool>(),
    ) {
        let limits = if has_limits { LIMITS } else { IndexLimits::default() };
        let mut store = Store::new(HistoryLimits::default()).indexing(limits).with_integers(vec![INTEGERS]);
        store.replace(&[], Version::new(1));
        let mut objects: BTreeMap<String, (Has, Object)> = BTreeMap::new();
        let mut snapshots: Vec<Snapshot> = Vec::new();
        let apply = |store: &mut Store, step: &Step, version: u64| match step {
            Step::Put(number, has) => {
                store.apply(&put(*number, *has, version));
                Some((key(*number), Some(*has)))
            }
            Step::Delete(number) => {
                let is_there = store.snapshot().get(&key(*number)).is_some();
                is_there.then(|| store.delete(&Key::new("", &key(*number)), Version::new(version)));
                Some((key(*number), None))
            }
        };
        let mut version = 1;
        for step in &first {
            version += 1;
            if let Some((key, has)) = apply(&mut store, step, version) {
                let object = store.snapshot().get(&key).cloned();
                match has.zip(object) {
                    Some(found) => _ = objects.insert(key, found),
                    None => _ = objects.remove(&key),
                }
            }
        }
        snapshots.push(store.snapshot());
        let at = store.version();
        for step in &later {
            version += 1;
            apply(&mut store, step, version);
            snapshots.push(store.snapshot());
        }
        let order = SortOrder::new(&keys, selection.namespace.is_some());
        let expected = naive(&objects, &selection, &keys);
        let state = |number: usize| {
            State::at(snapshots[number.min(snapshots.len() - 1)].clone(), at, selection.namespace.as_deref()).unwrap()
        };
        let (all, more, total) = page(state(usize::MAX), &selection, &order, None, None);
        let all: Vec<&str> = all.iter().map(Object::key).collect();
        prop_assert_eq!((all.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>(), more), (expected.clone(), false));
        prop_assert_eq!(total, expected.len() as u64);
        // Each page is of a newer snapshot.
        let (mut joined, mut after) = (Vec::new(), None);
        for number in 0.. {
            let (objects, more, _) = page(state(number), &selection, &order, after.as_ref(), Some(limit));
            joined.extend(objects.iter().map(|object| object.key().to_owned()));
            prop_assert!(!more || objects.len() == limit, "{} objects", objects.len());
            prop_assert_eq!(more, joined.len() < expected.len());
            after = objects.last().cloned();
            if !more {
                break;
            }
        }
        prop_assert_eq!(joined, expected);
    }
}
