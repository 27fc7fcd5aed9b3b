//! Work is counted instead of time: texts of objects that are read. The cost of updates, lists and watch events grows
//! at most linearly with the labels and values of an object.

use super::{record, record_of_many};
use crate::extract::FieldRef;
use crate::model::{FieldIndex, Key, Version};
use crate::query::{FieldTerm, Listing, Selection, State};
use crate::selector::{LabelSelector, Operator};
use crate::store::text_reads::counted;
use crate::store::{HistoryLimits, Store};
use crate::subscribe::subscription_index::{Candidates, SubscriptionIndex};
use crate::subscribe::transition;

/// The texts that updates, dispatching, watch events and lists read, of an object with this many labels and values.
fn work_of(count: usize) -> [u64; 4] {
    let keys: Vec<String> = (0..count).map(|number| format!("k{number:06}")).collect();
    let labels = |value| -> Vec<(&str, &str)> { keys.iter().map(|key| (&**key, value)).collect() };
    let values: Vec<Vec<&str>> = [0, 1].map(|odd| keys.iter().skip(odd).step_by(2).map(|key| &**key).collect()).into();
    let mut store = Store::new(HistoryLimits::default());
    store.replace(&[record("a/plain", 1, &[("k000001", "a")], &["x"])], Version::new(1));

    let updated = counted(|| {
        store.apply(&record_of_many("a/x", 2, &labels("a"), &[values[0].clone()]));
        store.apply(&record_of_many("a/x", 3, &labels("b"), &[values[1].clone()]));
        store.apply(&record("a/x", 4, &[("k000001", "a")], &["x"]));
        store.apply(&record_of_many("a/x", 5, &labels("b"), &[values[1].clone()]));
        store.delete(&Key::new("a", "x"), Version::new(6));
        store.apply(&record_of_many("a/x", 7, &labels("b"), &[values[1].clone()]));
    });

    // As many watches as labels: each is by another one.
    let selections: Vec<Selection> = keys
        .iter()
        .flat_map(|key| {
            let labels = LabelSelector::parse(&format!("{key}=b")).unwrap();
            let term = FieldTerm::new(FieldRef::Field(FieldIndex(0)), Operator::equal_to(&**key));
            [Selection { labels, ..Selection::default() }, Selection { fields: vec![term], ..Selection::default() }]
        })
        .collect();
    let mut routes = SubscriptionIndex::default();
    for (id, selection) in (0..).zip(&selections) {
        routes.insert(id, selection);
    }
    let snapshot = store.snapshot();
    let changes: Vec<_> = snapshot.changes(snapshot.since(Version::new(1)).unwrap()).unwrap().cloned().collect();
    let mut touched = Candidates::default();
    let routed = counted(|| changes.iter().for_each(|change| routes.candidates(change, &mut touched)));
    assert!(touched.ids().len() >= count, "{} are touched", touched.ids().len());
    let reported = counted(|| {
        for selection in selections.iter().take(100) {
            changes.iter().for_each(|change| drop(transition(selection, change)));
        }
    });
    let listed = counted(|| {
        for selection in selections.iter().take(100) {
            assert!(Listing::new(State::current(snapshot.clone()), selection, None).count() <= 2);
        }
    });
    [updated, routed, reported, listed]
}

#[test]
fn work_grows_with_the_labels_and_values_of_an_object() {
    for (few, why) in [(50, "indexed, and four times as many"), (2_000, "more than are indexed")] {
        let (one, four) = (work_of(few), work_of(4 * few));
        for (place, (one, four)) in
            ["updates", "routing", "watch events", "lists"].into_iter().zip(one.into_iter().zip(four))
        {
            // A few texts for each of the selections are no growth: objects with many are compared one by one.
            assert!(four <= 5 * one.max(200), "{place}, {why}: {one} texts with {few}, {four} with four times as many");
        }
    }
    // One more label makes no event of an object with many dearer.
    let [_, _, reported, listed] = work_of(8_000);
    assert!(
        reported < 100 * 5 * 200 && listed < 100 * 200,
        "{reported} and {listed} of 8,000 labels for 100 selections"
    );
}
