//! Fields with several values: planned answers against a filter over the values themselves, however the store came to be.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::{Just, Strategy, prop_oneof};
use proptest::{collection, prop_assert, prop_assert_eq, proptest, sample};

use super::{names, term};
use crate::extract::FieldRef;
use crate::model::{FieldIndex, Key, Version};
use crate::query::{FieldTerm, Listing, Selection, State};
use crate::selector::{FieldExpressionOperator, FieldOperator};
use crate::store::tests::record_of_many;
use crate::store::{HistoryLimits, Store};

const VALUES: [&str; 5] = ["", "a", "b", "c", "d"];

/// What an object has of two fields; `None`: more values than are kept.
type Values = [Option<BTreeSet<&'static str>>; 2];

#[derive(Clone, Debug)]
enum Step {
    Put(usize, Values),
    Delete(usize),
    Relist(Vec<(usize, Values)>),
}

/// `overflow` is how many of a thousand have more values than are kept.
fn values(overflow: u32) -> impl Strategy<Value = Values> {
    let some = || collection::btree_set(sample::select(VALUES.to_vec()), 0..4);
    let several = move || (0..1_000u32, some()).prop_map(move |(dice, values)| (dice >= overflow).then_some(values));
    (several(), several()).prop_map(|(one, other)| [one, other])
}

/// Whether what a field has meets an operator, looked at value by value.
fn is_met(operator: &FieldExpressionOperator, found: &BTreeSet<&'static str>) -> bool {
    let has = |wanted: &[String]| wanted.iter().any(|value| found.contains(&**value));
    let is_there = found.iter().any(|value| !value.is_empty());
    match operator {
        FieldExpressionOperator::In(wanted) => has(wanted),
        FieldExpressionOperator::NotIn(wanted) => !has(wanted),
        FieldExpressionOperator::Exists => is_there,
        FieldExpressionOperator::DoesNotExist => !is_there,
    }
}

fn steps(overflow: u32) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (0..200usize, values(overflow)).prop_map(|(name, values)| Step::Put(name, values)),
        2 => (0..200usize).prop_map(Step::Delete),
        1 => collection::vec((0..200usize, values(overflow)), 0..200).prop_map(Step::Relist),
    ];
    collection::vec(step, 1..60)
}

fn selections() -> impl Strategy<Value = Selection> {
    let some = || collection::btree_set(sample::select(VALUES.to_vec()), 1..4);
    let texts = |values: BTreeSet<&str>| values.into_iter().map(str::to_owned).collect();
    let operator = prop_oneof![
        some().prop_map(move |values| FieldExpressionOperator::In(texts(values))),
        some().prop_map(move |values| FieldExpressionOperator::NotIn(texts(values))),
        Just(FieldExpressionOperator::Exists),
        Just(FieldExpressionOperator::DoesNotExist),
    ];
    let term = (0..2u16, operator)
        .prop_map(|(field, operator)| FieldTerm { field: FieldRef::Field(FieldIndex(field)), operator });
    collection::vec(term, 1..4).prop_map(|fields| Selection { fields, ..Selection::default() })
}

fn name(number: usize) -> String {
    format!("a/n{number:03}")
}

/// The store, and what it must hold.
fn replay(steps: &[Step]) -> (Store, BTreeMap<String, Values>) {
    let mut store = Store::new(HistoryLimits::default());
    store.replace(&[], Version::new(1));
    let mut held: BTreeMap<String, Values> = BTreeMap::new();
    let record = |key: &str, version: u64, values: &Values| {
        let values = values.clone().map(|values| values.map(|values| values.into_iter().collect()));
        record_of_many(key, version, &[], &values)
    };
    for (version, step) in (1..).map(|number| number * 1_000).zip(steps) {
        match step {
            Step::Put(number, values) => {
                store.apply(&record(&name(*number), version, values));
                held.insert(name(*number), values.clone());
            }
            Step::Delete(number) => {
                store.delete(&Key::new("", &name(*number)), Version::new(version));
                held.remove(&name(*number));
            }
            Step::Relist(objects) => {
                held = objects.iter().map(|(number, values)| (name(*number), values.clone())).collect();
                let records: Vec<_> =
                    (version..).zip(&held).map(|(version, (key, values))| record(key, version, values)).collect();
                store.replace(&records, Version::new(version + 999));
            }
        }
    }
    (store, held)
}

proptest! {
    #[test]
    fn planned_answers_equal_a_filter_over_the_values(steps in steps(0), selection in selections()) {
        let (store, held) = replay(&steps);
        let holds = |values: &Values| selection.fields.iter().all(|term| {
            let FieldRef::Field(field) = term.field else { return false };
            let found = values[usize::from(field.0)].clone().unwrap_or_default();
            is_met(&term.operator, &found)
        });
        let expected: Vec<&String> = held.iter().filter(|(_, values)| holds(values)).map(|(key, _)| key).collect();
        let state = State::current(store.snapshot());
        prop_assert!(selection.answerable(&state).is_ok());
        let found = names(Listing::new(state, &selection, None));
        prop_assert_eq!(found.iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_field_is_refused_while_an_object_has_too_many_values_of_it(steps in steps(10), selection in selections()) {
        let (store, held) = replay(&steps);
        for field in [FieldIndex(0), FieldIndex(1)] {
            let overflowing = held.values().filter(|values| values[usize::from(field.0)].is_none()).count() as u64;
            let snapshot = store.snapshot();
            prop_assert_eq!(snapshot.overflowing(field).map_or(0, |(count, _)| count), overflowing);
            let is_asked = selection.fields.iter().any(|term| term.field == FieldRef::Field(field));
            let refused = selection.answerable(&State::current(snapshot)).err();
            prop_assert!(!is_asked || overflowing == 0 || refused.is_some(), "{field:?} of {overflowing} objects");
            if let Some(refused) = refused.filter(|refused| refused.field == field) {
                prop_assert_eq!(refused.objects, overflowing);
                prop_assert!(held[&refused.example][usize::from(field.0)].is_none());
            }
        }
    }
}

proptest! {
    #[test]
    fn in_a_part_only_what_it_may_select_stands_in_the_way(steps in steps(60), selection in selections(), of_part in 0..3usize) {
        let (store, held) = replay(&steps);
        let fields = selection.fields[..of_part.min(selection.fields.len())].to_vec();
        let within = Selection { fields, ..Selection::default() };
        let overflows = |values: &Values, field: FieldIndex| values[usize::from(field.0)].is_none();
        // Whatever can be told of the object holds.
        let may_be_selected = |values: &Values| within.fields.iter().all(|term| {
            let FieldRef::Field(field) = term.field else { return false };
            let Some(found) = &values[usize::from(field.0)] else { return true };
            is_met(&term.operator, found)
        });
        let first = selection.fields.iter().find_map(|term| {
            let FieldRef::Field(field) = term.field else { return None };
            held.values().any(|values| overflows(values, field) && may_be_selected(values)).then_some(field)
        });
        let found = selection.answerable_within(&State::current(store.snapshot()), &within).err();
        prop_assert_eq!(found, first);
    }
}

#[test]
fn a_state_of_the_past_is_refused_for_what_it_had() {
    let mut store = Store::new(HistoryLimits::default());
    store.replace(&[], Version::new(1));
    store.apply(&record_of_many("a/x", 2, &[], &[None]));
    store.apply(&record_of_many("a/x", 3, &[], &[Some(vec!["a"])]));
    let selection = Selection {
        fields: vec![term(FieldRef::Field(FieldIndex(0)), FieldOperator::Equals, "a")],
        ..Selection::default()
    };
    let at = |version: u64| State::at(store.snapshot(), Version::new(version)).unwrap();
    assert!(selection.answerable(&at(3)).is_ok(), "mended");
    let refused = selection.answerable(&at(2)).unwrap_err();
    assert_eq!((refused.objects, &*refused.example), (1, "a/x"), "as it was");
    let within = |namespace: &str| Selection { namespace: Some(namespace.to_owned()), ..Selection::default() };
    assert!(selection.answerable_within(&at(2), &within("a")).is_err(), "also to whom that object is shown");
    assert!(selection.answerable_within(&at(2), &within("b")).is_ok(), "but not to others");
    assert!(selection.answerable_within(&at(3), &within("a")).is_ok(), "mended");
    assert!(selection.answerable(&at(1)).is_ok(), "before it was there");
}
