//! Fields with several values: planned answers against a filter over the values themselves, however the store came to be.

use std::collections::{BTreeMap, BTreeSet};

use proptest::bool::weighted;
use proptest::prelude::{Just, Strategy, prop_oneof};
use proptest::{collection, prop_assert, prop_assert_eq, proptest, sample};

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
        let found = names(Listing::new(state.clone(), &selection, None));
        prop_assert_eq!(found.iter().collect::<Vec<_>>(), expected.clone());
        // The same with every term several times.
        let fields = selection.fields.iter().cycle().take(4 * selection.fields.len()).cloned().collect();
        let repeated = Selection { fields, ..selection.clone() };
        let found = names(Listing::new(state.clone(), &repeated, None));
        prop_assert_eq!(found.iter().collect::<Vec<_>>(), expected.clone());
        let simplified = repeated.simplified();
        prop_assert!(simplified.fields.len() <= selection.fields.len());
        let found = names(Listing::new(state, &simplified, None));
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

#[test]
fn requirements_that_say_nothing_new_are_dropped() {
    let field = |field, operator: FieldOperator, value: &str| term(field, operator, value);
    let (name, namespace) = (FieldRef::Name, FieldRef::Namespace);
    let (equals, differs) = (FieldOperator::Equals, FieldOperator::NotEquals);
    let many = |count: usize, one: &dyn Fn(usize) -> FieldTerm| (0..count).map(one).collect::<Vec<_>>();
    let rows: [(&str, Vec<FieldTerm>, usize, usize, &str); 7] = [
        ("a>1,a>5,a>3,b<9,b<2,a>5", vec![], 2, 0, "the narrowest bounds"),
        ("a,a,!b,!b,c in (x,y),c in (y,x)", vec![], 3, 0, "the same again"),
        ("", many(4_000, &|_| field(name, equals, "x")), 0, 1, "one name 4,000 times"),
        ("", many(4_000, &|number| field(name, equals, &number.to_string())), 0, 1, "4,000 names, which nothing has"),
        (
            "",
            many(4_000, &|number| field(FieldRef::Field(FieldIndex(0)), differs, &number.to_string())),
            0,
            1,
            "all but 4,000 values",
        ),
        ("", vec![field(namespace, differs, ""), field(namespace, differs, "a")], 0, 2, "objects without a namespace"),
        (
            "",
            vec![
                field(FieldRef::Field(FieldIndex(0)), equals, "a"),
                field(FieldRef::Field(FieldIndex(0)), equals, "b"),
            ],
            0,
            2,
            "both values",
        ),
    ];
    for (labels, fields, labels_left, fields_left, what) in rows {
        let selection = Selection { labels: LabelSelector::parse(labels).unwrap(), fields, ..Selection::default() };
        let simplified = selection.simplified();
        let left = (simplified.labels.requirements.len(), simplified.fields.len());
        assert_eq!(left, (labels_left, fields_left), "{what}: {simplified:?}");
    }
}

#[test]
fn many_names_in_many_namespaces_are_found_by_a_walk() {
    let mut store = Store::new(HistoryLimits::default());
    let records: Vec<_> =
        (0..400).map(|number| record_of_many(&format!("n{number:03}/x{}", number % 7), number + 1, &[], &[])).collect();
    store.replace(&records, Version::new(1_000));
    let wanted: Vec<String> = (3..2_000).map(|number| format!("x{number}")).collect();
    for (operator, expected) in [
        (FieldExpressionOperator::In(wanted.clone()), 400 * 4 / 7),
        (FieldExpressionOperator::NotIn(wanted), 400 - 400 * 4 / 7),
    ] {
        let selection =
            Selection { fields: vec![FieldTerm { field: FieldRef::Name, operator }], ..Selection::default() };
        let found = names(Listing::new(State::current(store.snapshot()), &selection, None)).len();
        assert!(found.abs_diff(expected) <= 4, "{found} of {expected}");
    }
}
