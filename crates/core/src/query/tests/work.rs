//! Planning yields: no poll does the work of thousands of usual requests.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use allocation_counter::measure;

use super::{explained, names};
use crate::extract::FieldRef;
use crate::model::{FieldIndex, Version};
use crate::query::work::at_once;
use crate::query::{
    CompactSelection, Explanation, FieldTerm, Hits, Listing, QueryPlan, SelectedObjects, Selection, SortField,
    SortOrder, SortedListing, State, Work,
};
use crate::selector::{LabelRequirement, LabelSelector, Operator};
use crate::store::tests::{record, record_of_many};
use crate::store::{HistoryLimits, IndexLimits, Store, text_reads};

/// How often it yields.
fn yields<Done>(work: impl Future<Output = Done>) -> (Done, usize) {
    let (mut work, mut context) = (pin!(work), Context::from_waker(Waker::noop()));
    let mut count = 0;
    loop {
        match work.as_mut().poll(&mut context) {
            Poll::Ready(done) => return (done, count),
            Poll::Pending => count += 1,
        }
    }
}

fn labels(requirements: impl Iterator<Item = (String, Operator)>) -> Selection {
    let requirements = requirements.map(|(key, operator)| LabelRequirement { key, operator }).collect();
    Selection { labels: LabelSelector::new(requirements), ..Selection::default() }
}

/// Plans are made in turns, so that many of them exist at a time.
#[test]
fn a_plan_takes_little_memory_however_many_lists_its_requirements_represent() {
    let mut store = Store::new(HistoryLimits::default());
    for number in 0..1_000 {
        let value = number.to_string();
        store.apply(&record_of_many(&format!("a/{number:04}"), number + 1, &[("n", &value)], &[]));
    }
    let snapshot = store.snapshot();
    let values: Vec<String> = (0..1_000).map(|number| number.to_string()).collect();
    for (what, operator) in [
        ("numbers", Operator::GreaterThan(10)),
        ("a set", Operator::In(values.clone())),
        ("a negative set", Operator::NotIn(values)),
    ] {
        let selection = labels((0..200).map(|_| ("n".to_owned(), operator.clone())));
        let mut hits = None;
        let measured = measure(|| {
            hits = Some(at_once(async {
                let mut work = Work::default();
                QueryPlan::new(&selection, &snapshot, &mut work).await.hits(&mut work).await
            }));
        });
        let expected = match what {
            "numbers" => 989,
            "a set" => 1_000,
            _ => 0,
        };
        let Some(Hits::Slots(hits)) = hits else { panic!("{what}: {hits:?}") };
        assert_eq!(hits.len(), expected, "{what}");
        assert!(measured.bytes_max < 200_000, "{what}: {} bytes", measured.bytes_max);
    }
}

#[test]
fn a_selection_that_takes_long_is_planned_in_turns() {
    let limits = IndexLimits { labels: 2, values: 2, value_bytes: 100 };
    let mut store = Store::new(HistoryLimits::default()).indexing(limits);
    let has = [("a", "1"), ("b", "1"), ("c", "1")];
    // Not indexed completely, so each is compared with all requirements.
    let records: Vec<_> =
        (0..2_000).map(|number| record_of_many(&format!("a/{number:04}"), number + 1, &has, &[])).collect();
    store.replace(&records, Version::new(3_000));
    for number in 0..2_000 {
        store.apply(&record_of_many(&format!("a/{number:04}"), 3_001 + number, &has[..2], &[]));
    }
    let past = State::at(store.snapshot(), Version::new(3_000), None).unwrap();
    let values = |count: usize| Operator::NotIn((0..count).map(|number| format!("v{number:06}")).collect());
    let absent = |count: usize| labels((0..count).map(|number| (format!("x{number:04}"), Operator::DoesNotExist)));
    for (what, selection, least, most) in [
        ("a usual one", labels([("a".to_owned(), values(1))].into_iter()), 0, 2),
        ("many requirements", absent(1_000), 20, 100),
        ("a set of many values", labels([("a".to_owned(), values(100_000))].into_iter()), 10, 100),
    ] {
        let mut work = Work::default();
        let (listing, count) = yields(Listing::begin(past.clone(), &selection, None, &mut work));
        assert!((least..=most).contains(&count), "{what}: it yields {count} times");
        let expected = names(Listing::new(past.clone(), &selection, None));
        assert_eq!((names(listing), expected.len()), (expected, 2_000), "{what}");
        let mut work = Work::default();
        let (explanation, count) = yields(Explanation::new(&selection, &past, &[], &mut work));
        assert!((least..=most).contains(&count), "{what}: its explanation yields {count} times");
        assert_eq!(explanation, explained(&selection, &past, &[]), "{what}");
    }
}

/// Testing an object of thousands of values against sets of thousands of values takes milliseconds.
#[test]
fn tests_of_objects_with_many_values_count_each_listed_value() {
    let values: Vec<String> = (0..500).map(|number| format!("v{number}")).collect();
    let mut store = Store::new(HistoryLimits::default());
    for number in 0..50 {
        let values = values.iter().map(String::as_str).collect();
        store.apply(&record_of_many(&format!("a/{number:04}"), number + 1, &[], &[values]));
    }
    let listed = |number: usize| (0..100).map(|value| format!("a{number}-{value}")).collect();
    let fields = (0..100).map(|number| FieldTerm::new(FieldRef::Field(FieldIndex(0)), Operator::NotIn(listed(number))));
    let selection = Selection { fields: fields.collect(), ..Selection::default() };
    let snapshot = store.snapshot();
    let object = snapshot.object(0).unwrap();
    let steps = CompactSelection::new(&selection).steps_of_test(object);
    assert!(steps >= 25 * 10_000, "{steps}");
    let one = Selection { fields: selection.fields[..1].to_vec(), ..Selection::default() };
    assert!(CompactSelection::new(&one).steps_of_test(object) < 3_000);
}

/// A test of a prefix looks it up, and one of integers reads all values. Both are counted, also for objects of few values.
#[test]
fn tests_count_what_they_read() {
    let values: Vec<String> = (0..5_000).map(|number| number.to_string()).collect();
    let few: Vec<String> = (0..60).map(|number| number.to_string()).collect();
    let mut store = Store::new(HistoryLimits::default());
    for (name, values) in [("many", &values), ("few", &few)] {
        let values = values.iter().map(String::as_str).collect();
        store.apply(&record_of_many(&format!("a/{name}"), 1, &[], &[values]));
    }
    let snapshot = store.snapshot();
    let object = |name: &str| snapshot.get(&format!("a/{name}")).unwrap();
    let field = FieldRef::Field(FieldIndex(0));
    let prefix = |number: usize| Operator::StartsWith(format!("none{number}"));
    for (name, operators, least, most_read, why) in [
        ("many", (0..1_000).map(prefix).collect(), 25_000, 30_000, "each prefix is a lookup"),
        ("many", vec![Operator::GreaterThan(5_000)], 25 * 5_000, 20_000, "a range reads all values"),
        ("few", (0..1_000).map(prefix).collect(), 1_000 * 2 * 60, 70_000, "each requirement reads the values"),
    ] {
        let fields = Vec::from_iter(operators.into_iter().map(|operator| FieldTerm::new(field, operator)));
        let selection = Selection { fields: fields.clone(), ..Selection::default() };
        let object = object(name);
        let compact = CompactSelection::new(&selection);
        assert!(compact.steps_of_test(object) >= least, "{why}: {} steps", compact.steps_of_test(object));
        // The first requirement is not met, so each is tested alone.
        let read = text_reads::counted(|| {
            for field in fields {
                let alone = Selection { fields: vec![field], ..Selection::default() };
                assert!(!CompactSelection::new(&alone).meets_requirements(object), "{why}");
            }
        });
        assert!(read <= most_read, "{why}: {read} texts");
    }
    let usual = Selection { fields: vec![FieldTerm::new(field, Operator::equal_to("1"))], ..Selection::default() };
    assert!(CompactSelection::new(&usual).steps_of_test(object("few")) < 50, "a usual test counts little");
}

/// The values of an object come after its labels, which each comparison reads.
#[test]
fn sorting_objects_with_many_labels_takes_turns() {
    let keys: Vec<String> = (0..200).map(|number| format!("k{number:03}")).collect();
    let labels: Vec<(&str, &str)> = keys.iter().map(|key| (key.as_str(), "v")).collect();
    let order = [FieldRef::Field(FieldIndex(0)), FieldRef::Name];
    let order = SortOrder::new(&order.map(|field| SortField { field, is_descending: true }), false);
    for (labels, least, most) in [(&labels[..], 20, 100), (&[], 0, 3)] {
        let mut store = Store::new(HistoryLimits::default());
        for number in 0..300 {
            let namespace = ["a", "b"][number % 2];
            store.apply(&record(&format!("{namespace}/{number}"), number as u64 + 1, labels, &["blue"]));
        }
        let mut work = Work::default();
        let state = State::current(store.snapshot());
        let selected = at_once(SelectedObjects::find(state, &Selection::default(), &mut work));
        let (listing, count) = yields(SortedListing::begin(&selected, &order, None, Some(100), &mut work));
        // One more than the page, by which the list knows that it continues.
        assert_eq!(listing.count(), 101);
        assert!((least..=most).contains(&count), "{} labels: it yields {count} times", labels.len());
    }
}

/// Two sets of a request can have tens of thousands of values each.
#[test]
fn large_sets_of_names_are_intersected() {
    let names = |from: usize| (from..from + 80_000).map(|number| format!("n{number:06}")).collect::<Vec<_>>();
    let terms = [names(0), names(79_998)].map(|names| FieldTerm::new(FieldRef::Name, Operator::In(names)));
    let selection = Selection { fields: terms.into(), ..Selection::default() }.simplified();
    assert_eq!(selection.fields.len(), 1);
    assert_eq!(selection.fields[0].operator.listed(), ["n079998", "n079999"]);
}

#[test]
fn the_state_of_an_earlier_version_is_found_in_turns() {
    const CHANGES: u64 = 20_000;
    let mut store = Store::new(HistoryLimits::default());
    store.replace(&[record("b/other", 1, &[], &[])], Version::new(1));
    for number in 0..CHANGES {
        store.apply(&record(&format!("a/{:05}", number * 7_919 % CHANGES), number + 2, &[], &[]));
    }
    // All objects are hidden, or all of them are replaced by earlier ones.
    let past = store.snapshot();
    for number in 0..CHANGES {
        store.apply(&record(&format!("a/{number:05}"), past.version().number() + 1 + number, &[], &[]));
    }
    for (snapshot, version, namespace, least) in [
        (&past, Version::new(1), None, 100),
        (&past, Version::new(1), Some("a"), 100),
        (&past, Version::new(1), Some("b"), 4),
        (&store.snapshot(), past.version(), None, 100),
    ] {
        let what = format!("{version:?} in {namespace:?}");
        let most = State::most_finding_bytes(snapshot, version);
        let (mut state, mut count) = (None, 0);
        let measured = measure(|| {
            let mut work = Work::default();
            let (found, turns) = yields(State::begin_at(snapshot.clone(), version, namespace, &mut work));
            (state, count) = (found.ok(), turns);
        });
        assert!(count >= least, "{what}: it yields {count} times");
        assert!(measured.bytes_max <= most, "{what}: {} of {most} bytes", measured.bytes_max);
        let state = state.unwrap();
        let expected = if version == past.version() { past.len() as u64 } else { 1 };
        let (counted, count) = yields(async { state.count_in(None, &mut Work::default()).await });
        if namespace.is_none() {
            assert_eq!(counted, expected, "{what}");
            assert!(count >= 2, "{what}: counting yields {count} times");
            let selection = Selection::default();
            let (listing, count) = yields_of_listing(&state, &selection);
            assert_eq!(listing.count() as u64, expected, "{what}");
            assert!(version == Version::new(1) || count >= 2, "{what}: listing yields {count} times");
        }
    }
}

/// A listing, and how often finding it yields.
fn yields_of_listing(state: &State, selection: &Selection) -> (Listing, usize) {
    yields(async { Listing::begin(state.clone(), selection, None, &mut Work::default()).await })
}
