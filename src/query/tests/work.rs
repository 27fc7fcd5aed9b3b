//! Planning yields: no poll does the work of thousands of usual requests.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use super::{explained, names};
use crate::model::Version;
use crate::query::{Explanation, Listing, Selection, State, Work};
use crate::selector::{LabelOperator, LabelRequirement, LabelSelector};
use crate::store::tests::record_of_many;
use crate::store::{HistoryLimits, IndexLimits, Store};

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

fn labels(requirements: impl Iterator<Item = (String, LabelOperator)>) -> Selection {
    let requirements = requirements.map(|(key, operator)| LabelRequirement { key, operator }).collect();
    Selection { labels: LabelSelector::new(requirements), ..Selection::default() }
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
    let values = |count: usize| LabelOperator::NotIn((0..count).map(|number| format!("v{number:06}")).collect());
    let absent = |count: usize| labels((0..count).map(|number| (format!("x{number:04}"), LabelOperator::DoesNotExist)));
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
        let (explanation, count) = yields(Explanation::of(&selection, &past, &[], &mut work));
        assert!((least..=most).contains(&count), "{what}: its explanation yields {count} times");
        assert_eq!(explanation, explained(&selection, &past, &[]), "{what}");
    }
}
