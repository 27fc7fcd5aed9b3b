//! What requests hold while they wait for a turn, compared with what is counted for them.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use allocation_counter::measure;

use super::cel::extractor;
use crate::extract::FieldRef;
use crate::model::{FieldIndex, Record, Version};
use crate::query::work::at_once;
use crate::query::{
    CelFilter, Explanation, FacetField, FieldTerm, Listing, SelectedObjects, Selection, SortField, SortOrder,
    SortedListing, State, Work,
};
use crate::selector::{LabelSelector, Operator, Shard};
use crate::store::tests::record;
use crate::store::{HistoryLimits, Store};

/// More than half of a size class, so that few further sets exceed it.
const OBJECTS: usize = 60_000;

const COLOR: FieldRef = FieldRef::Field(FieldIndex(0));

fn key(number: usize) -> String {
    format!("{}/{}{number:05}", ["n", "m"][number % 2], "a".repeat(20))
}

fn object(number: usize, version: u64) -> Record {
    let labels = [("k", "v"), ("l", "v")];
    let color = (number % 5_000).to_string();
    record(&key(number), version, &labels[number % 3 % 2..], &[&color])
}

/// A store whose objects are in both namespaces.
fn store(objects: usize) -> Store {
    let mut store = Store::new(HistoryLimits::default());
    let records: Vec<Record> = (0..objects).map(|number| object(number, number as u64 + 1)).collect();
    store.replace(&records, Version::new(100_000));
    store
}

/// Runs the work. Returns its result, with what it held at most when it waited, with what it holds at its end, and with
/// the number of times that it waited. `before`: what was held before.
fn held<Done>(before: i64, work: impl Future<Output = Done>) -> (Done, [i64; 2], usize) {
    let (mut work, mut context) = (pin!(work), Context::from_waker(Waker::noop()));
    let (mut held, mut most, mut waits) = (before, 0, 0);
    loop {
        let mut poll = Poll::Pending;
        held += measure(|| poll = work.as_mut().poll(&mut context)).bytes_current;
        match poll {
            Poll::Ready(done) => return (done, [most, held], waits),
            Poll::Pending => (most, waits) = (held.max(most), waits + 1),
        }
    }
}

fn of_names(operators: impl Iterator<Item = Operator>) -> Selection {
    let fields = operators.map(|operator| FieldTerm::new(FieldRef::Name, operator)).collect();
    Selection { fields, ..Selection::default() }
}

fn nested_prefixes(first: &str) -> impl Iterator<Item = Operator> {
    let nested = (1..=9).map(|length| Operator::StartsWith("a".repeat(length)));
    std::iter::once(Operator::StartsWith(first.to_owned())).chain(nested)
}

fn labels(text: &str) -> Selection {
    Selection { labels: LabelSelector::parse(text).unwrap(), ..Selection::default() }
}

/// Each level holds one set while the next one is found.
fn deep_expression() -> Selection {
    let name = format!("self.metadata.name.startsWith('{}')", "a".repeat(20));
    let levels = (0..8)
        .fold(name, |inner, _| format!("'l' in self.metadata.labels && ('k' in self.metadata.labels || !({inner}))"));
    let filter = CelFilter::new(&levels, &extractor(false), true, None).unwrap();
    Selection { cel: Some(Arc::new(filter)), ..Selection::default() }
}

#[test]
fn a_request_that_waits_holds_at_most_what_is_counted() {
    let mut store = store(OBJECTS);
    let current = State::current(store.snapshot());
    for number in 0..6_000 {
        store.apply(&object(number, 100_001 + number as u64));
    }
    let (snapshot, mut past) = (store.snapshot(), None);
    let past_bytes = measure(|| past = State::at(snapshot.clone(), Version::new(100_000), None).ok()).bytes_current;
    let past = past.unwrap();
    let names = |count: usize| Operator::NotIn((0..count).map(|number| format!("x{number:05}")).collect());
    let shard = "shardRange(object.metadata.uid,'0x0000000000000000','0xf000000000000000')";
    let sharded = Selection { shard: Some(Arc::new(Shard::parse(shard).unwrap())), ..Selection::default() };
    for (what, selection, least_waits) in [
        ("prefixes of names", of_names(nested_prefixes("a")), 50),
        ("prefixes that exclude each other", of_names(nested_prefixes("0")), 50),
        ("names to exclude", of_names((8_000..8_009).map(names)), 20),
        ("labels", labels("k=v,l=v,!m"), 0),
        ("a shard", sharded, 1),
        ("an expression of many levels", deep_expression(), 5),
    ] {
        for (when, state, before) in [("now", &current, 0), ("in the past", &past, past_bytes)] {
            let what = format!("{what}, {when}");
            let check = |held: i64, most: u64, of: &str| {
                let most = i64::try_from(most).unwrap();
                assert!(held <= most, "{what}: {of} holds {held} of {most} bytes");
            };
            let forget = || {
                if let Some(cel) = &selection.cel {
                    cel.forget_found()
                }
            };
            // The index of shards is built once, and belongs to the store.
            drop(Listing::new(state.clone(), &selection, None));
            forget();
            let mut work = Work::default();
            let listing = Listing::begin(state.clone(), &selection, None, &mut work);
            let (listing, [most, after], waits) = held(before, listing);
            assert!(waits >= least_waits, "{what}: it waits {waits} times");
            let counted = state.most_listing_bytes(&selection);
            check(most.max(after), counted, "a list");
            drop(listing);
            forget();

            let mut work = Work::default();
            let (_, [most, _], _) = held(before, Explanation::new(&selection, state, &[], &mut work));
            let sets = state.most_selecting_bytes(&selection);
            check(most, sets, "an explanation");
            forget();

            let mut work = Work::default();
            let (selected, [most, found], _) =
                held(before, SelectedObjects::find(state.clone(), &selection, &mut work));
            check(most.max(found), sets, "a selection");
            for (keys, limit) in [
                (&[COLOR][..], Some(1_000)),
                (&[COLOR], None),
                (&[FieldRef::Name], Some(1_000)),
                (&[FieldRef::Name], None),
                (&[COLOR, FieldRef::Namespace], Some(10)),
                (&[FieldRef::Namespace], Some(1_000)),
            ] {
                let keys: Vec<SortField> =
                    keys.iter().map(|field| SortField { field: *field, is_descending: true }).collect();
                let order = SortOrder::new(&keys, false);
                let mut work = Work::default();
                let sorting = SortedListing::begin(&selected, &order, None, limit, &mut work);
                let (_, [most, after], _) = held(found, sorting);
                let counted = sets + order.most_held_bytes(&selected, limit);
                check(most.max(after), counted, &format!("a list sorted by {keys:?} up to {limit:?}"));
            }
            for is_many in [false, true] {
                let field = FacetField { field: COLOR, is_many };
                let mut work = Work::default();
                let most_read = at_once(selected.held_bytes(field, &mut work));
                let (_, [most, _], _) = held(found, selected.facet(field, 10, &mut work));
                check(most, sets + most_read + (8 << 10), "a facet");
            }
            drop(selected);
            forget();
        }
    }
}

#[test]
fn what_counts_for_a_request_does_not_depend_on_objects_that_it_does_not_select() {
    let selection = Selection { namespace: Some("own".to_owned()), ..labels("k=v") };
    let mut counted = Vec::new();
    for others in [0, 100, 30_000] {
        let mut store = Store::new(HistoryLimits::default());
        let own = (0..3_000).map(|number| record(&format!("own/{number}"), 1, &[("k", "v")], &["blue"]));
        // Each hidden object has a value of its own, which makes it cheaper to read the objects than the index.
        let hidden = (0..others).map(|number| record(&format!("x/{number}"), 1, &[("k", "v")], &[&number.to_string()]));
        store.replace(&own.chain(hidden).collect::<Vec<_>>(), Version::new(2));
        let state = State::current(store.snapshot());
        let mut amounts = vec![state.most_listing_bytes(&selection), state.most_selecting_bytes(&selection)];
        let selected = at_once(SelectedObjects::find(state, &selection, &mut Work::default()));
        for keys in [&[COLOR][..], &[FieldRef::Name], &[COLOR, FieldRef::Name]] {
            let keys: Vec<SortField> =
                keys.iter().map(|field| SortField { field: *field, is_descending: true }).collect();
            for limit in [None, Some(10), Some(5_000)] {
                amounts.push(SortOrder::new(&keys, true).most_held_bytes(&selected, limit));
            }
        }
        for is_many in [false, true] {
            let field = FacetField { field: COLOR, is_many };
            amounts.push(at_once(selected.held_bytes(field, &mut Work::default())));
        }
        assert!(amounts.iter().all(|bytes| *bytes > 0), "{amounts:?}");
        counted.push((others, amounts));
    }
    for (others, amounts) in &counted {
        assert_eq!(*amounts, counted[0].1, "with {others} others");
    }
}
