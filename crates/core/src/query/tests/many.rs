//! Labels and fields with several values. Tests compare planned results with a filter over the values themselves.
//! Stores have any history, and objects may have more labels or values than are indexed.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::{collection, prop_assert, prop_assert_eq, proptest, sample};

use super::{explained, hits_of, names, term};
use crate::extract::FieldRef;
use crate::model::{FieldIndex, Key, Version};
use crate::query::{FieldTerm, Hits, Listing, Selection, State};
use crate::selector::{LabelRequirement, LabelSelector, Operator, OperatorName};
use crate::store::slots::SlotSet;
use crate::store::tests::record_of_many;
use crate::store::text_reads;
use crate::store::{HistoryLimits, IndexLimits, IndexedPart, Store};
use crate::subscribe::subscription_index::{Candidates, SubscriptionIndex};
use crate::subscribe::{Transition, transition};

/// Integers too, some of them not in canonical form.
const VALUES: [&str; 11] = ["", "a", "b", "6", "9", "longer", "-3", "-25", "10", "+7", "08"];

/// The field whose values the index has in the order of integers.
pub(super) const INTEGERS: FieldIndex = FieldIndex(0);

/// Keys and values of labels.
const LABELS: [&str; 4] = ["k", "l", "m", "n"];

/// Some objects have more than this.
pub(super) const LIMITS: IndexLimits = IndexLimits { labels: 2, values: 2, value_bytes: 5 };

/// An object: values of two fields, and labels.
#[derive(Clone, Debug)]
pub(super) struct Has {
    pub(super) values: [BTreeSet<&'static str>; 2],
    /// The fields of which it has too many values.
    pub(super) unknown: [bool; 2],
    labels: BTreeMap<&'static str, &'static str>,
}

#[derive(Clone, Debug)]
pub(super) enum Step {
    Put(usize, Has),
    Delete(usize),
    Relist(Vec<(usize, Has)>),
}

/// Objects with up to four of the values in each field.
fn has(values: &'static [&'static str]) -> impl Strategy<Value = Has> {
    let several = || collection::btree_set(sample::select(values), 0..5);
    let labels = collection::btree_map(sample::select(LABELS.to_vec()), sample::select(VALUES.to_vec()), 0..5);
    let unknown = || prop_oneof![7 => Just(false), 1 => Just(true)];
    (several(), several(), [unknown(), unknown()], labels).prop_map(|(one, other, unknown, labels)| {
        let mut values = [one, other];
        values.iter_mut().zip(unknown).filter(|(_, unknown)| *unknown).for_each(|(values, _)| values.clear());
        Has { values, unknown, labels }
    })
}

/// Whether the values of a field satisfy an operator, tested one by one.
fn is_met(operator: &Operator, found: &BTreeSet<&'static str>) -> bool {
    let has = |wanted: &[String]| wanted.iter().any(|value| found.contains(&**value));
    let integer = |value: &&str| value.parse::<i64>().ok().filter(|number| number.to_string() == *value);
    let mut integers = found.iter().filter_map(integer);
    let is_there = found.iter().any(|value| !value.is_empty());
    match operator {
        Operator::In(wanted) => has(wanted),
        Operator::NotIn(wanted) => !has(wanted),
        Operator::Exists => is_there,
        Operator::DoesNotExist => !is_there,
        Operator::GreaterThan(bound) => integers.any(|number| number > *bound),
        Operator::LessThan(bound) => integers.any(|number| number < *bound),
        Operator::GreaterOrEqual(bound) => integers.any(|number| number >= *bound),
        Operator::LessOrEqual(bound) => integers.any(|number| number <= *bound),
        Operator::StartsWith(prefix) => found.iter().any(|value| value.starts_with(&**prefix)),
    }
}

pub(super) fn steps(values: &'static [&'static str]) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (0..200usize, has(values)).prop_map(|(name, has)| Step::Put(name, has)),
        2 => (0..200usize).prop_map(Step::Delete),
        1 => collection::vec((0..200usize, has(values)), 0..200).prop_map(Step::Relist),
    ];
    collection::vec(step, 1..60)
}

/// Operators that labels have too.
fn operators() -> impl Strategy<Value = Operator> {
    let some = || collection::btree_set(sample::select(VALUES.to_vec()), 1..4);
    let texts = |values: BTreeSet<&str>| values.into_iter().map(str::to_owned).collect();
    prop_oneof![
        some().prop_map(move |values| Operator::In(texts(values))),
        some().prop_map(move |values| Operator::NotIn(texts(values))),
        Just(Operator::Exists),
        Just(Operator::DoesNotExist),
        (0..9i64).prop_map(Operator::GreaterThan),
        (0..9i64).prop_map(Operator::LessThan),
    ]
}

/// Operators of a field. Other fields than [`INTEGERS`] have none that compares integers.
fn terms() -> impl Strategy<Value = FieldTerm> {
    let prefix =
        sample::select(vec!["a", "lo", "-", "1", "0", "6"]).prop_map(|text| Operator::StartsWith(text.to_owned()));
    let of_integers = prop_oneof![
        (-30..12i64).prop_map(Operator::GreaterOrEqual),
        (-30..12i64).prop_map(Operator::LessOrEqual),
        (-30..12i64).prop_map(Operator::GreaterThan),
        (-30..12i64).prop_map(Operator::LessThan),
    ];
    let of_any = operators().prop_filter("on integers only", |operator| {
        !matches!(operator, Operator::GreaterThan(_) | Operator::LessThan(_))
    });
    let term = |field, operator| FieldTerm { field: FieldRef::Field(field), operator };
    prop_oneof![
        3 => (0..2u16, of_any).prop_map(move |(field, operator)| term(FieldIndex(field), operator)),
        2 => of_integers.prop_map(move |operator| term(INTEGERS, operator)),
        1 => (0..2u16, prefix).prop_map(move |(field, operator)| term(FieldIndex(field), operator)),
    ]
}

pub(super) fn selections() -> impl Strategy<Value = Selection> {
    let term = terms();
    let requirement = (sample::select(LABELS.to_vec()), operators())
        .prop_map(|(key, operator)| LabelRequirement { key: key.to_owned(), operator });
    let requirements = collection::vec(requirement, 0..3);
    let namespace = prop_oneof![3 => Just(None), 1 => Just(Some("a".to_owned()))];
    (namespace, requirements, collection::vec(term, 0..4)).prop_map(|(namespace, labels, fields)| Selection {
        namespace,
        labels: LabelSelector { requirements: labels },
        fields,
        shard: None,
        cel: None,
    })
}

fn name(number: usize) -> String {
    format!("{}/n{number:03}", if number.is_multiple_of(3) { "b" } else { "a" })
}

/// The store, and the objects that it must hold.
pub(super) fn replay(steps: &[Step], limits: IndexLimits) -> (Store, BTreeMap<String, Has>) {
    let mut store = Store::new(HistoryLimits::default()).indexing(limits).with_integers(vec![INTEGERS]);
    store.replace(&[], Version::new(1));
    let mut state: BTreeMap<String, Has> = BTreeMap::new();
    let record = |key: &str, version: u64, has: &Has| {
        let values = has.values.clone().map(|values| values.into_iter().collect());
        let labels: Vec<(&str, &str)> = has.labels.iter().map(|(key, value)| (*key, *value)).collect();
        let mut record = record_of_many(key, version, &labels, &values);
        (0..).map(FieldIndex).zip(has.unknown).filter(|(_, unknown)| *unknown).for_each(|(field, _)| {
            record.texts.push_unknown(field);
        });
        record
    };
    for (version, step) in (1..).map(|number| number * 1_000).zip(steps) {
        match step {
            Step::Put(number, has) => {
                store.apply(&record(&name(*number), version, has));
                state.insert(name(*number), has.clone());
            }
            Step::Delete(number) => {
                store.delete(&Key::new("", &name(*number)), Version::new(version));
                state.remove(&name(*number));
            }
            Step::Relist(objects) => {
                state = objects.iter().map(|(number, has)| (name(*number), has.clone())).collect();
                let records: Vec<_> =
                    (version..).zip(&state).map(|(version, (key, has))| record(key, version, has)).collect();
                store.replace(&records, Version::new(version + 999));
            }
        }
    }
    (store, state)
}

pub(super) fn is_selected(selection: &Selection, key: &str, has: &Has) -> bool {
    selection.namespace.as_deref().is_none_or(|namespace| key.split('/').next() == Some(namespace))
        && selection.labels.requirements.iter().all(|one| one.matches(has.labels.get(&*one.key).copied()))
        && selection.fields.iter().all(|term| {
            let FieldRef::Field(field) = term.field else { return false };
            let field = usize::from(field.0);
            !has.unknown[field] && is_met(&term.operator, &has.values[field])
        })
}

/// Of the objects that a part of the index misses.
fn missing(state: &BTreeMap<String, Has>, part: IndexedPart) -> Vec<&String> {
    let is_missing = |has: &Has| match part {
        IndexedPart::Labels => has.labels.len() > LIMITS.labels,
        IndexedPart::Field(field) => {
            let values = &has.values[usize::from(field.0)];
            let bytes: usize = values.iter().map(|value| value.len()).sum();
            has.unknown[usize::from(field.0)] || values.len() > LIMITS.values || bytes > LIMITS.value_bytes
        }
    };
    state.iter().filter(|(_, has)| is_missing(has)).map(|(key, _)| key).collect()
}

proptest! {
    #[test]
    fn planned_results_equal_a_filter_over_the_values(steps in steps(&VALUES), selection in selections(), has_limits in any::<bool>()) {
        let limits = if has_limits { LIMITS } else { IndexLimits::default() };
        let (store, state) = replay(&steps, limits);
        let expected: Vec<&String> =
            state.iter().filter(|(key, has)| is_selected(&selection, key, has)).map(|(key, _)| key).collect();
        let state = State::current(store.snapshot());
        let explained = explained(&selection, &state, &[]);
        prop_assert_eq!(explained.hits, expected.len() as u64, "{:?}", explained);
        let found = names(Listing::new(state.clone(), &selection, None));
        prop_assert_eq!(found.iter().collect::<Vec<_>>(), expected.clone());
        // The same with every requirement several times.
        let fields = selection.fields.iter().cycle().take(4 * selection.fields.len()).cloned().collect();
        let mut repeated = Selection { fields, ..selection.clone() };
        repeated.labels.requirements.extend(selection.labels.requirements.iter().rev().cloned());
        let found = names(Listing::new(state.clone(), &repeated, None));
        prop_assert_eq!(found.iter().collect::<Vec<_>>(), expected.clone());
        let simplified = repeated.simplified();
        prop_assert!(simplified.fields.len() <= selection.fields.len());
        prop_assert!(simplified.labels.requirements.len() <= selection.labels.requirements.len());
        let found = names(Listing::new(state, &simplified, None));
        prop_assert_eq!(found.iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn what_is_not_indexed_is_known(steps in steps(&VALUES)) {
        let (store, state) = replay(&steps, LIMITS);
        let snapshot = store.snapshot();
        for part in [IndexedPart::Labels, IndexedPart::Field(FieldIndex(0)), IndexedPart::Field(FieldIndex(1))] {
            let slots = snapshot.postings().incomplete(part).map(SlotSet::to_bitmap).unwrap_or_default();
            let mut found: Vec<&str> = slots.iter().map(|slot| snapshot.object(slot).unwrap().key()).collect();
            found.sort_unstable();
            prop_assert_eq!(found, missing(&state, part), "{:?}", part);
        }
    }

    #[test]
    fn watchers_and_past_states_equal_a_filter(steps in steps(&VALUES), selection in selections(), at in any::<sample::Index>()) {
        // Without relists, history has every state.
        let steps: Vec<Step> = steps.into_iter().filter(|step| !matches!(step, Step::Relist(_))).collect();
        if steps.is_empty() {
            return Ok(());
        }
        let before = &steps[..at.index(steps.len())];
        let ((store, newest), (_, then)) = (replay(&steps, LIMITS), replay(before, LIMITS));
        let selected = |state: &BTreeMap<String, Has>| -> BTreeSet<String> {
            state.iter().filter(|(key, has)| is_selected(&selection, key, has)).map(|(key, _)| key.clone()).collect()
        };
        let version = Version::new(before.len() as u64 * 1_000).max(Version::new(1));
        let snapshot = store.snapshot();
        let state = State::at(snapshot.clone(), version, selection.namespace.as_deref()).unwrap();
        let mut seen: BTreeSet<String> = names(Listing::new(state, &selection, None)).into_iter().collect();
        prop_assert_eq!(&seen, &selected(&then), "the state of the past");

        let mut routes = SubscriptionIndex::default();
        routes.insert(7, &selection);
        for change in snapshot.changes(snapshot.since(version).unwrap()).unwrap() {
            let mut touched = Candidates::default();
            routes.candidates(change, &mut touched);
            let event = transition(&selection, change);
            prop_assert!(event.is_none() || touched.ids().contains(&7), "a change is dispatched to every watch that it concerns: {:?}", change);
            match event {
                Some(Transition::Added(object)) => prop_assert!(seen.insert(object.key().to_owned())),
                Some(Transition::Deleted(object)) => prop_assert!(seen.remove(object.key())),
                Some(Transition::Modified(object)) => prop_assert!(seen.contains(object.key())),
                None => {}
            }
        }
        prop_assert_eq!(seen, selected(&newest), "the events of a watcher lead to the list");
    }
}

#[test]
fn a_plan_reports_how_many_objects_are_compared_one_by_one() {
    let mut store = Store::new(HistoryLimits::default()).indexing(LIMITS);
    store.replace(&[], Version::new(1));
    let labels = [("a", "1"), ("b", "2"), ("c", "3")];
    store.apply(&record_of_many("a/labels", 2, &labels, &[vec!["x"]]));
    store.apply(&record_of_many("a/values", 3, &labels[..1], &[vec!["x", "y", "z"]]));
    store.apply(&record_of_many("a/plain", 4, &labels[..1], &[vec!["x"]]));
    let fields = [FieldTerm::new(FieldRef::Field(FieldIndex(0)), Operator::equal_to("x"))];
    for (labels, fields, expected, hits) in [
        ("a=1", &[][..], "a=1 (3) & compared one by one (1)", 3),
        ("a=2", &[], "a=2 (1) & compared one by one (1)", 0),
        ("!c", &[], "!c (less 0) & compared one by one (1)", 2),
        ("c", &[], "c (1) & compared one by one (1)", 1),
        ("", &fields, "spec.color=x (3) & compared one by one (1)", 3),
    ] {
        let labels_parsed = LabelSelector::parse(labels).unwrap();
        let selection = Selection { labels: labels_parsed, fields: fields.to_vec(), ..Selection::default() };
        let explained = explained(&selection, &State::current(store.snapshot()), &super::explain::fields());
        assert_eq!((&*explained.plan, explained.hits), (expected, hits), "{labels}");
    }
}

#[test]
fn redundant_requirements_are_dropped() {
    let field = |field, operator: OperatorName, value: &str| term(field, operator, value);
    let (name, namespace) = (FieldRef::Name, FieldRef::Namespace);
    let (equals, differs) = (OperatorName::In, OperatorName::NotIn);
    let many = |count: usize, one: &dyn Fn(usize) -> FieldTerm| (0..count).map(one).collect::<Vec<_>>();
    let of_field = |operator| FieldTerm::new(FieldRef::Field(FieldIndex(0)), operator);
    let rows: [(&str, Vec<FieldTerm>, usize, usize, &str); 9] = [
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
        (
            "",
            many(4_000, &|number| of_field(Operator::GreaterOrEqual(number as i64))),
            0,
            1,
            "the highest of 4,000 bounds",
        ),
        ("", many(50, &|number| of_field(Operator::StartsWith("a".repeat(number + 1)))), 0, 1, "the longest prefix"),
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
    for (operator, expected) in
        [(Operator::In(wanted.clone()), 400 * 4 / 7), (Operator::NotIn(wanted), 400 - 400 * 4 / 7)]
    {
        let selection =
            Selection { fields: vec![FieldTerm { field: FieldRef::Name, operator }], ..Selection::default() };
        let found = names(Listing::new(State::current(store.snapshot()), &selection, None)).len();
        assert!(found.abs_diff(expected) <= 4, "{found} of {expected}");
    }
}

/// A probe of a namespace costs some ten comparisons of keys, a look at an object one.
#[test]
fn one_name_in_as_many_namespaces_as_a_good_part_of_all_objects_is_found_by_a_walk() {
    let mut store = Store::new(HistoryLimits::default());
    let key = |number: u64| format!("n{:03}/x{}", number / 2, number % 2);
    let records: Vec<_> = (0..800).map(|number| record_of_many(&key(number), number + 1, &[], &[])).collect();
    store.replace(&records, Version::new(1_000));
    let snapshot = store.snapshot();
    let fields = vec![term(FieldRef::Name, OperatorName::In, "x1")];
    let selection = Selection { fields, ..Selection::default() };
    let mut hits = Hits::Everything;
    let read = text_reads::counted(|| hits = hits_of(&selection, &snapshot));
    assert!(matches!(&hits, Hits::Slots(slots) if slots.len() == 400), "{hits:?}");
    assert!(read < 2_000, "{read} texts of 800 objects");
}
