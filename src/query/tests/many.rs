//! Fields with several values: planned answers against a filter over the values themselves, however the store came to be.

use std::collections::{BTreeMap, BTreeSet};

use proptest::bool::weighted;
use proptest::prelude::{Just, Strategy, prop_oneof};
use proptest::{collection, prop_assert_eq, proptest, sample};

use super::{names, term};
use crate::extract::FieldRef;
use crate::model::{FieldIndex, Key, Version};
use crate::query::{FieldTerm, Listing, Selection, State};
use crate::selector::{FieldExpressionOperator, FieldOperator, LabelSelector};
use crate::store::tests::record_of_many;
use crate::store::{HistoryLimits, Store};

const VALUES: [&str; 5] = ["", "a", "b", "c", "d"];

/// What an object has of two fields, and whether it is too much to be indexed.
type Values = [(BTreeSet<&'static str>, bool); 2];

#[derive(Clone, Debug)]
enum Step {
    Put(usize, Values),
    Delete(usize),
    Relist(Vec<(usize, Values)>),
}

/// `overflow` is how many of a thousand have more values than are indexed.
fn values(overflow: u32) -> impl Strategy<Value = Values> {
    let some = || collection::btree_set(sample::select(VALUES.to_vec()), 0..4);
    let several = move || (some(), (0..1_000u32).prop_map(move |dice| dice < overflow));
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
        let values = values.clone().map(|(values, are_many)| (values.into_iter().collect(), are_many));
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
    fn planned_answers_equal_a_filter_over_the_values(
        steps in prop_oneof![steps(0), steps(10), steps(300)],
        selection in selections(),
    ) {
        let (store, held) = replay(&steps);
        let holds = |values: &Values| selection.fields.iter().all(|term| {
            let FieldRef::Field(field) = term.field else { return false };
            is_met(&term.operator, &values[usize::from(field.0)].0)
        });
        let expected: Vec<&String> = held.iter().filter(|(_, values)| holds(values)).map(|(key, _)| key).collect();
        let state = State::current(store.snapshot());
        let found = names(Listing::new(state, &selection, None));
        prop_assert_eq!(found.iter().collect::<Vec<_>>(), expected);
    }
}

/// Labels that are looked for, and whether the object has others, so many that none is indexed.
type Labels = (BTreeMap<&'static str, &'static str>, bool);

fn labels() -> impl Strategy<Value = Labels> {
    let value = || sample::select(vec!["", "1", "2", "a"]);
    (collection::btree_map(sample::select(vec!["app", "tier", "zone"]), value(), 0..3), weighted(0.2))
}

fn label_selectors() -> impl Strategy<Value = &'static str> {
    sample::select(vec![
        "app=a",
        "app in (1,2)",
        "app",
        "!app",
        "app!=a",
        "app notin (1,a)",
        "app>1",
        "tier<2",
        "app=a,tier=1",
        "app,!tier",
        "!app,!tier",
        "zone!=2,app notin (a)",
        "f100",
        "!f100",
        "f100=x,app=a",
        "f100!=x,app",
    ])
}

proptest! {
    #[test]
    fn objects_with_very_many_labels_are_found_by_any_of_them(
        steps in collection::vec((0..60usize, prop_oneof![4 => labels().prop_map(Some), 1 => Just(None)]), 1..120),
        selector in label_selectors(),
    ) {
        let mut store = Store::new(HistoryLimits::default());
        store.replace(&[], Version::new(1));
        let mut held: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
        for (version, (number, labels)) in (2..).zip(&steps) {
            let key = name(*number);
            let Some((labels, has_others)) = labels else {
                store.delete(&Key::new("", &key), Version::new(version));
                held.remove(&key);
                continue;
            };
            let others = (0..300).filter(|_| *has_others).map(|number| (format!("f{number:03}"), "x".to_owned()));
            let own = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            let labels: BTreeMap<String, String> = others.chain(own).collect();
            let texts: Vec<(&str, &str)> = labels.iter().map(|(key, value)| (&**key, &**value)).collect();
            store.apply(&record_of_many(&key, version, &texts, &[]));
            held.insert(key, labels);
        }
        let labels = LabelSelector::parse(selector).unwrap();
        let selects = |held: &BTreeMap<String, String>| {
            labels.requirements.iter().all(|requirement| requirement.matches(held.get(&*requirement.key).map(|value| &**value)))
        };
        let expected: Vec<&String> = held.iter().filter(|(_, labels)| selects(labels)).map(|(key, _)| key).collect();
        let snapshot = store.snapshot();
        for (key, labels) in &held {
            let found: BTreeMap<String, String> = snapshot.get(key).unwrap().labels().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
            prop_assert_eq!(&found, labels);
        }
        let selection = Selection { labels, ..Selection::default() };
        let found = names(Listing::new(State::current(snapshot), &selection, None));
        prop_assert_eq!(found.iter().collect::<Vec<_>>(), expected);
    }
}

#[test]
fn a_state_of_the_past_is_evaluated_as_it_was() {
    let mut store = Store::new(HistoryLimits::default());
    store.replace(&[], Version::new(1));
    store.apply(&record_of_many("a/x", 2, &[], &[(vec!["a", "b"], true)]));
    store.apply(&record_of_many("a/x", 3, &[], &[(vec!["c"], false)]));
    let found = |version: u64, value: &str| {
        let fields = vec![term(FieldRef::Field(FieldIndex(0)), FieldOperator::Equals, value)];
        let selection = Selection { fields, ..Selection::default() };
        names(Listing::new(State::at(store.snapshot(), Version::new(version)).unwrap(), &selection, None))
    };
    assert_eq!((found(2, "a"), found(3, "a")), (vec!["a/x".to_owned()], vec![]));
    assert_eq!((found(2, "c"), found(3, "c")), (vec![], vec!["a/x".to_owned()]));
}
