//! The candidates of a change, compared with a test of every subscription.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::collection::{btree_set, vec};
use proptest::prelude::{Just, Strategy, prop_oneof};
use proptest::sample::select;
use proptest::{option, prop_assert, prop_assert_eq, proptest};

use crate::extract::FieldRef;
use crate::model::{FieldIndex, Key, Record, Version, fnv1a};
use crate::query::{CompactSelection, FieldTerm, Selection};
use crate::selector::shard::arbitrary::shards;
use crate::selector::{LabelSelector, Operator, OperatorName, Shard};
use crate::store::tests::{record, record_of_many};
use crate::store::{Change, HistoryLimits, IndexLimits, Store};
use crate::subscribe::subscription_index::{Candidates, StoredKeys, SubscriptionId, SubscriptionIndex};
use crate::subscribe::{Transition, transition};

const VALUES: [&str; 9] = ["", "a", "ab", "c", "longer-than-sixteen-bytes-é", "5", "-3", "12", "9223372036854775807"];
const LABELS: [&str; 8] =
    ["", "app=a", "app in (a,b)", "app", "!app", "app!=a,tier=b", "tier notin (a)", "app>1,tier in (a,c)"];

fn selection() -> impl Strategy<Value = Selection> {
    let field = prop_oneof![
        Just(FieldRef::Name),
        Just(FieldRef::Namespace),
        Just(FieldRef::Empty),
        Just(FieldRef::Field(FieldIndex(0))),
        Just(FieldRef::Field(FieldIndex(1))),
    ];
    let listed = (select(vec![OperatorName::In, OperatorName::In, OperatorName::NotIn]), select(VALUES.to_vec()))
        .prop_map(|(operator, value)| operator.with_values(vec![value.to_owned()]).unwrap());
    let prefixes = vec!["a", "ab", "lo", "longer-than-sixt", "longer-than-sixteen-bytes-é", "1", "-", "9"];
    let bound = || prop_oneof![-6..14i64, Just(i64::MIN), Just(i64::MAX), Just(i64::MAX - 1)];
    let operator = prop_oneof![
        6 => listed,
        2 => select(prefixes).prop_map(|prefix| Operator::StartsWith(prefix.to_owned())),
        1 => bound().prop_map(Operator::GreaterThan),
        1 => bound().prop_map(Operator::LessThan),
        1 => bound().prop_map(Operator::GreaterOrEqual),
        1 => bound().prop_map(Operator::LessOrEqual),
        1 => Just(Operator::Exists),
        1 => Just(Operator::DoesNotExist),
    ];
    let term = (field, operator).prop_map(|(field, operator)| FieldTerm::new(field, operator));
    let keys = ["a", "b"].iter().flat_map(|namespace| ["a", "b", "c"].map(|name| format!("{namespace}/{name}")));
    let shard = option::weighted(0.5, shards(keys.chain(["a".to_owned()]).collect()));
    (option::of(select(vec!["a", "b"])), select(LABELS.to_vec()), vec(term, 0..3), shard).prop_map(
        |(namespace, labels, fields, shard)| Selection {
            namespace: namespace.map(str::to_owned),
            labels: LabelSelector::parse(labels).unwrap(),
            fields,
            shard,
            cel: None,
        },
    )
}

/// Several values of one field, and the value of another.
type Values = (BTreeSet<&'static str>, &'static str);
/// A change of an object: its namespace, name, labels and values, or that it is gone.
type Step = (&'static str, &'static str, Option<(Vec<(&'static str, &'static str)>, Values)>);

fn step() -> impl Strategy<Value = Step> {
    let labels =
        (option::of(select(vec!["a", "b", "3"])), option::of(select(vec!["a", "b", "c"]))).prop_map(|(app, tier)| {
            let app = app.map(|value| ("app", value));
            let tier = tier.map(|value| ("tier", value));
            app.into_iter().chain(tier).collect()
        });
    let value = || select(VALUES.to_vec());
    let several = btree_set(value(), 0..4);
    let state = option::weighted(0.8, (labels, (several, value())));
    (select(vec!["a", "b"]), select(vec!["a", "b", "c"]), state)
}

fn changes(steps: &[Step]) -> Vec<Change> {
    // Some objects have more labels or values than are indexed.
    let limits = IndexLimits { labels: 1, values: 2, ..IndexLimits::default() };
    let mut store = Store::new(HistoryLimits::default()).indexing(limits);
    store.replace(&[], Version::new(1));
    for (version, (namespace, name, state)) in (2..).zip(steps) {
        match state {
            Some((labels, (several, other))) => {
                let values = [several.iter().copied().collect(), vec![*other]];
                store.apply(&record_of_many(&format!("{namespace}/{name}"), version, labels, &values));
            }
            None => {
                store.delete(&Key::new(namespace, name), Version::new(version));
            }
        }
    }
    let snapshot = store.snapshot();
    let cursor = snapshot.since(Version::new(1)).unwrap();
    snapshot.changes(cursor).unwrap().map(|change| (**change).clone()).collect()
}

fn candidates(routes: &SubscriptionIndex, change: &Change) -> BTreeSet<SubscriptionId> {
    let mut touched = Candidates::default();
    routes.candidates(change, &mut touched);
    let ids: BTreeSet<SubscriptionId> = touched.ids().iter().copied().collect();
    assert_eq!(ids.len(), touched.ids().len(), "each once");
    ids
}

proptest! {
    #[test]
    fn every_subscription_with_an_event_is_a_candidate(
        selections in vec(selection(), 1..20),
        gone in vec(select(vec![true, false]), 20),
        steps in vec(step(), 1..20),
    ) {
        let mut routes = SubscriptionIndex::default();
        let empty = format!("{routes:?}");
        let stored_keys: Vec<StoredKeys> = (0..).zip(&selections).map(|(id, selection)| routes.insert(id, selection)).collect();
        for ((id, stored), gone) in (0..).zip(&stored_keys).zip(&gone) {
            if *gone {
                routes.remove(id, stored);
            }
        }
        let is_stored = |id: usize| !gone[id];
        for change in changes(&steps) {
            let touched = candidates(&routes, &change);
            for (id, selection) in selections.iter().enumerate() {
                let meant = transition(selection, &change);
                let compact = transition(&CompactSelection::new(selection), &change);
                prop_assert_eq!(&compact, &meant, "{:?} in its compact form, of {:?}", selection, change);
                let reported = is_stored(id) && meant.is_some();
                let id = id as SubscriptionId;
                prop_assert!(!reported || touched.contains(&id), "{selection:?} is a candidate of {change:?}");
                prop_assert!(is_stored(id as usize) || !touched.contains(&id), "{selection:?} is gone");
            }
        }
        for ((id, stored), gone) in (0..).zip(&stored_keys).zip(&gone) {
            if !gone {
                routes.remove(id, stored);
            }
        }
        prop_assert_eq!(format!("{routes:?}"), empty, "nothing is left behind");
    }
}

/// The candidates of the creation of an object with this uid, among these shards.
fn candidates_of(shards: &[Arc<Shard>], uid: &str) -> BTreeSet<SubscriptionId> {
    let mut routes = SubscriptionIndex::default();
    for (id, shard) in (0..).zip(shards) {
        routes.insert(id, &Selection { shard: Some(shard.clone()), ..Selection::default() });
    }
    let mut store = Store::new(HistoryLimits::default());
    store.replace(&[], Version::new(1));
    store.apply(&Record { uid_hash: fnv1a(uid), ..record("a/x", 2, &[], &[]) });
    let snapshot = store.snapshot();
    let change = snapshot.changes(snapshot.since(Version::new(1)).unwrap()).unwrap().next().unwrap().clone();
    candidates(&routes, &change)
}

#[test]
fn a_change_touches_only_the_watches_of_its_shard() {
    let part = u64::MAX / 1000 + 1;
    let shards: Vec<Arc<Shard>> = (0..1000)
        .map(|number| {
            let (start, end) = (part * number, u128::from(part) * (u128::from(number) + 1));
            let end = end.min(1 << 64);
            Arc::new(
                Shard::parse(&format!("shardRange(object.metadata.uid, '0x{start:016x}', '0x{end:016x}')")).unwrap(),
            )
        })
        .collect();
    let mut touched = 0;
    for number in 0..200 {
        let uid = format!("uid-{number}");
        let found = candidates_of(&shards, &uid);
        let meant = shards.iter().position(|shard| shard.selects(fnv1a(&uid), "")).unwrap();
        assert!(found.contains(&(meant as SubscriptionId)), "{uid} is in shard {meant}");
        touched += found.len();
    }
    // Blocks of 16 bits are wider than the shards at their bounds: by a 65th at each end.
    assert!(touched < 200 + 20, "{touched} candidates of 200 changes");
}

#[test]
fn a_shard_of_many_ranges_takes_few_entries() {
    let calls: Vec<String> = (0..1000u64)
        .map(|number| {
            let start = number << 54 | number;
            format!("shardRange(object.metadata.uid,'0x{start:016x}','0x{:016x}')", start + (1 << 52))
        })
        .collect();
    let shard = Arc::new(Shard::parse(&calls.join("||")).unwrap());
    let selection = Selection { shard: Some(shard.clone()), ..Selection::default() };
    let stored = SubscriptionIndex::default().insert(0, &selection);
    assert!(stored.held_bytes() <= 64 * 104, "{} bytes", stored.held_bytes());
    for number in 0..100 {
        let uid = format!("uid-{number}");
        let is_touched = candidates_of(std::slice::from_ref(&shard), &uid).contains(&0);
        assert!(is_touched || !shard.selects(fnv1a(&uid), ""), "{uid}");
    }
}

#[test]
fn a_change_touches_only_those_at_its_values() {
    let field = |value: &str| FieldTerm::new(FieldRef::Field(FieldIndex(0)), Operator::equal_to(value));
    let labels = |text: &str| LabelSelector::parse(text).unwrap();
    let of = |field, operator| Selection { fields: vec![FieldTerm::new(field, operator)], ..Selection::default() };
    let prefix = |text: &str| Operator::StartsWith(text.to_owned());
    let (color, size) = (FieldRef::Field(FieldIndex(0)), FieldRef::Field(FieldIndex(1)));
    let rows: [(Selection, &str); 20] = [
        (of(color, prefix("bl")), "a prefix of the value it came to"),
        (of(color, prefix("gr")), ""),
        (of(FieldRef::Name, prefix("x-")), "a prefix of its name"),
        (of(FieldRef::Name, prefix("y")), ""),
        (of(size, Operator::GreaterOrEqual(40)), "a range with the integer it came to"),
        (of(size, Operator::LessThan(6)), "a range with the integer it left"),
        (of(size, Operator::GreaterThan(1_000)), ""),
        (of(size, Operator::LessThan(-1)), ""),
        (of(size, Operator::Exists), "any value"),
        (of(FieldRef::Field(FieldIndex(2)), Operator::Exists), ""),
        (Selection { fields: vec![field("red")], ..Selection::default() }, "the value it left"),
        (Selection { fields: vec![field("blue")], ..Selection::default() }, "the value it came to"),
        (Selection { fields: vec![field("green")], ..Selection::default() }, ""),
        (Selection { labels: labels("app in (x,y)"), ..Selection::default() }, "one of some label values"),
        (Selection { labels: labels("app=z"), ..Selection::default() }, ""),
        (Selection { labels: labels("app=x"), fields: vec![field("green")], ..Selection::default() }, ""),
        (Selection { namespace: Some("a".to_owned()), ..Selection::default() }, "the namespace"),
        (Selection { namespace: Some("b".to_owned()), ..Selection::default() }, ""),
        (
            Selection { namespace: Some("b".to_owned()), fields: vec![field("blue")], ..Selection::default() },
            "by its field",
        ),
        (Selection { labels: labels("!old"), ..Selection::default() }, "it only excludes"),
    ];
    let mut routes = SubscriptionIndex::default();
    for (id, (selection, _)) in (0..).zip(&rows) {
        routes.insert(id, selection);
    }
    assert_eq!(routes.unanchored(), 1);
    let mut store = Store::new(HistoryLimits::default());
    store.replace(&[record("a/x-1", 1, &[("app", "x")], &["red", "5"])], Version::new(1));
    store.apply(&record("a/x-1", 2, &[("app", "x")], &["blue", "50"]));
    let snapshot = store.snapshot();
    let change = (*snapshot.changes(snapshot.since(Version::new(1)).unwrap()).unwrap().next().unwrap()).clone();
    let found = candidates(&routes, &change);
    for (id, (selection, why)) in (0..).zip(&rows) {
        assert_eq!(found.contains(&id), !why.is_empty(), "{why}: {selection:?}");
    }
}

#[test]
fn thousands_of_subscriptions_with_many_values_are_touched_once_and_leave_nothing_behind() {
    let values: Vec<String> = (0..64).map(|number| format!("v{number}")).collect();
    let labels = LabelSelector::parse(&format!("app in ({})", values.join(","))).unwrap();
    let by_label = Selection { labels, ..Selection::default() };
    let in_values = FieldTerm {
        field: FieldRef::Field(FieldIndex(0)),
        operator: OperatorName::In.with_values(values.clone()).unwrap(),
    };
    let by_field = Selection { fields: vec![in_values], ..Selection::default() };
    let mut routes = SubscriptionIndex::default();
    let stored_keys: Vec<(SubscriptionId, StoredKeys)> =
        (0..10_000).map(|id| (id, routes.insert(id, if id % 2 == 0 { &by_label } else { &by_field }))).collect();
    let mut store = Store::new(HistoryLimits::default());
    store.replace(&[], Version::new(1));
    let leaked: Vec<&'static str> = values.into_iter().map(|value| &*value.leak()).collect();
    store.apply(&record_of_many("a/x", 2, &[("app", "v7")], &[leaked, vec![]]));
    let snapshot = store.snapshot();
    let change = (*snapshot.changes(snapshot.since(Version::new(1)).unwrap()).unwrap().next().unwrap()).clone();
    let mut found = Candidates::default();
    for round in 0..2 {
        routes.candidates(&change, &mut found);
        assert_eq!(found.ids().len(), stored_keys.len(), "each once, round {round}");
        found.clear();
    }
    for (id, stored) in &stored_keys {
        routes.remove(*id, stored);
    }
    routes.candidates(&change, &mut found);
    assert_eq!(found.ids(), [0; 0]);
}

#[test]
fn entering_and_leaving_is_by_some_value() {
    let field = |operator: OperatorName, value: &str| Selection {
        fields: vec![FieldTerm::new(
            FieldRef::Field(FieldIndex(0)),
            operator.with_values(vec![value.to_owned()]).unwrap(),
        )],
        ..Selection::default()
    };
    let mut store = Store::new(HistoryLimits::default());
    store.replace(&[], Version::new(1));
    // More values than are indexed.
    let many: Vec<String> = (100..200).map(|number| format!("d{number}")).collect();
    for (version, values) in
        [(2, vec!["a", "b"]), (3, vec!["b", "c"]), (4, vec![]), (5, many.iter().map(String::as_str).collect())]
    {
        store.apply(&record_of_many("a/x", version, &[], &[values]));
    }
    let snapshot = store.snapshot();
    let reported = |selection: &Selection| -> Vec<&'static str> {
        let changes = snapshot.changes(snapshot.since(Version::new(1)).unwrap()).unwrap();
        changes
            .map(|change| match transition(selection, change) {
                Some(Transition::Added(_)) => "added",
                Some(Transition::Modified(_)) => "modified",
                Some(Transition::Deleted(_)) => "deleted",
                None => "nothing",
            })
            .collect()
    };
    for (operator, value, expected) in [
        (OperatorName::In, "a", ["added", "deleted", "nothing", "nothing"]),
        (OperatorName::In, "b", ["added", "modified", "deleted", "nothing"]),
        (OperatorName::In, "c", ["nothing", "added", "deleted", "nothing"]),
        (OperatorName::In, "d150", ["nothing", "nothing", "nothing", "added"]),
        (OperatorName::NotIn, "a", ["nothing", "added", "modified", "modified"]),
        (OperatorName::NotIn, "d150", ["added", "modified", "modified", "deleted"]),
    ] {
        assert_eq!(reported(&field(operator, value)), expected, "{operator:?} {value}");
    }
    let elsewhere = Selection { namespace: Some("b".to_owned()), ..field(OperatorName::In, "a") };
    assert_eq!(reported(&elsewhere), ["nothing"; 4], "its other requirement decides");
}
