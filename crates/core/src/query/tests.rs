//! The planner compared with a reference filter, pages with the whole list, and tokens with kube-apiserver's texts.

mod cel;
mod compact;
mod explain;
mod facets;
mod held;
mod many;
mod shards;
mod simplify;
mod sort;
mod work;

use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::{prop_assert, prop_assert_eq, proptest};

use super::work::at_once;
use super::{ContinueToken, Explanation, FieldTerm, Hits, Listing, QueryPlan, Selection, State, Work};
use crate::extract::{Field, FieldRef};
use crate::model::{FieldIndex, Record, Version};
use crate::selector::shard::arbitrary::shards;
use crate::selector::{FieldSelector, LabelSelector, OperatorName};
use crate::store::tests::record;
use crate::store::{HistoryLimits, Object, Snapshot, Store};

fn store(records: Vec<Record>) -> Store {
    let mut store = Store::new(HistoryLimits::default());
    store.replace(&records, Version::new(1_000_000));
    store
}

fn term(field: FieldRef, operator: OperatorName, value: &str) -> FieldTerm {
    FieldTerm::new(field, operator.with_values(vec![value.to_owned()]).unwrap())
}

fn names(listing: Listing) -> Vec<String> {
    listing.map(|object| object.key().to_owned()).collect()
}

fn explained(selection: &Selection, state: &State, fields: &[Field]) -> Explanation {
    at_once(Explanation::new(selection, state, fields, &mut Work::default()))
}

fn hits_of(selection: &Selection, snapshot: &Snapshot) -> Hits {
    at_once(async {
        let mut work = Work::default();
        QueryPlan::new(selection, snapshot, &mut work).await.hits(&mut work).await
    })
}

#[test]
fn a_plan_starts_with_the_smallest_list() {
    let records = (0..100)
        .map(|index| {
            let labels = if index < 3 { vec![("app", "shop"), ("tier", "web")] } else { vec![("tier", "web")] };
            record(&format!("a/{index}"), index + 1, &labels, &["blue"])
        })
        .collect();
    let store = store(records);
    let snapshot = store.snapshot();
    let selection = Selection {
        namespace: Some("a".to_owned()),
        labels: LabelSelector::parse("tier=web,app=shop,!old").unwrap(),
        fields: vec![term(FieldRef::Field(FieldIndex(0)), OperatorName::In, "blue")],
        shard: None,
        cel: None,
    };
    assert_eq!(
        at_once(QueryPlan::new(&selection, &snapshot, &mut Work::default())).explain(&explain::fields()),
        "app=shop (3) & spec.color=blue (100) & tier=web (100) & metadata.namespace=a (100) & !old (less 0)"
    );
}

#[test]
fn what_is_left_is_counted() {
    let records = (0..3_000).map(|index| record(&format!("n{}/x{index:04}", index % 3), index + 1, &[], &[])).collect();
    let state = State::current(store(records).snapshot());
    for (namespace, start, expected, why) in [
        (None, "", 3_000, "everything"),
        (None, "n1/", 2_000, "from a namespace on"),
        (None, "n1/x0001\0", 1_999, "behind a key"),
        (None, "n9", 0, "behind everything"),
        (Some("n1"), "", 1_000, "a namespace"),
        (Some("n1"), "n1/x1501", 500, "from the middle of a namespace on"),
        (Some("n1"), "n1/x2998\0", 0, "behind a namespace"),
        (Some("n"), "", 0, "a namespace that is none"),
        (Some("n2"), "n2/x2999", 1, "the last"),
    ] {
        let selection = Selection { namespace: namespace.map(str::to_owned), ..Selection::default() };
        let listing = Listing::new(state.clone(), &selection, Some(start));
        assert_eq!(at_once(listing.count_rest(&mut Work::default())), expected, "{why}");
    }
}

#[test]
fn fields_are_compared_byte_by_byte() {
    for (text, value, expected) in [
        ("a=x", "x", true),
        ("a=x", "X", false),
        ("a=", "", true),
        ("a!=", "", false),
        ("a!=", "x", true),
        ("a!=x", "", true),
        ("a=True", "true", false),
        (r"a=b\,c", "b,c", true),
    ] {
        let selector = FieldSelector::parse(text).unwrap();
        let requirement = selector.requirements[0].clone();
        let selection = Selection {
            namespace: None,
            labels: LabelSelector::default(),
            fields: vec![FieldTerm::new(FieldRef::Field(FieldIndex(0)), requirement.operator)],
            shard: None,
            cel: None,
        };
        let snapshot = store(vec![record("a/x", 1, &[], &[value])]).snapshot();
        let object = snapshot.get("a/x").unwrap();
        assert_eq!(selection.meets_requirements(object), expected, "{text} on {value:?}");
        let found = names(Listing::new(State::current(snapshot), &selection, None));
        assert_eq!(!found.is_empty(), expected, "{text} on {value:?}, from the index");
    }
}

#[test]
fn names_and_namespaces_are_looked_up() {
    let store = store(vec![record("a/x", 1, &[], &[]), record("b/x", 2, &[], &[]), record("b/y", 3, &[], &[])]);
    for (namespace, fields, expected, why) in [
        (None, vec![(FieldRef::Name, OperatorName::In, "x")], vec!["a/x", "b/x"], "a name in every namespace"),
        (Some("b"), vec![(FieldRef::Name, OperatorName::In, "x")], vec!["b/x"], "a name in one"),
        (None, vec![(FieldRef::Name, OperatorName::NotIn, "x")], vec!["b/y"], "another name"),
        (None, vec![(FieldRef::Name, OperatorName::In, "a/x")], vec![], "a slash is never part of a name"),
        (None, vec![(FieldRef::Name, OperatorName::In, "")], vec![], "no name is empty"),
        (None, vec![(FieldRef::Name, OperatorName::NotIn, "")], vec!["a/x", "b/x", "b/y"], "every name is not empty"),
        (None, vec![(FieldRef::Namespace, OperatorName::In, "b")], vec!["b/x", "b/y"], "a namespace"),
        (Some("a"), vec![(FieldRef::Namespace, OperatorName::In, "b")], vec![], "two namespaces"),
        (None, vec![(FieldRef::Namespace, OperatorName::In, "")], vec![], "every object here has a namespace"),
        (None, vec![(FieldRef::Empty, OperatorName::In, "v")], vec![], "a field that is never populated"),
        (None, vec![(FieldRef::Empty, OperatorName::NotIn, "v")], vec!["a/x", "b/x", "b/y"], "and its negation"),
    ] {
        let selection = Selection {
            namespace: namespace.map(str::to_owned),
            labels: LabelSelector::default(),
            fields: fields.into_iter().map(|(field, operator, value)| term(field, operator, value)).collect(),
            shard: None,
            cel: None,
        };
        let found = names(Listing::new(State::current(store.snapshot()), &selection, None));
        assert_eq!(found, expected, "{why}");
    }
}

#[test]
fn an_exact_state_undoes_history() {
    let mut store = Store::new(HistoryLimits::default());
    store.replace(&[record("a/x", 3, &[], &["red"]), record("a/y", 4, &[], &["red"])], Version::new(10));
    store.apply(&record("a/x", 11, &[], &["blue"]));
    store.delete(&crate::model::Key::new("a", "y"), Version::new(12));
    store.apply(&record("a/a", 13, &[], &["red"]));
    let red = Selection {
        fields: vec![term(FieldRef::Field(FieldIndex(0)), OperatorName::In, "red")],
        ..Selection::default()
    };
    for (version, all, red_ones) in [
        (10, vec!["a/x", "a/y"], vec!["a/x", "a/y"]),
        (11, vec!["a/x", "a/y"], vec!["a/y"]),
        (12, vec!["a/x"], vec![]),
        (13, vec!["a/a", "a/x"], vec!["a/a"]),
    ] {
        let state = || State::at(store.snapshot(), Version::new(version), None).unwrap();
        assert_eq!(names(Listing::new(state(), &Selection::default(), None)), all, "everything at {version}");
        assert_eq!(names(Listing::new(state(), &red, None)), red_ones, "red at {version}");
    }
    assert!(State::at(store.snapshot(), Version::new(9), None).is_err());
}

/// A response at a past version lasts as long as its client reads it, so its memory counts against a limit.
#[test]
fn a_past_state_holds_little_and_only_for_its_namespace() {
    const CHANGES: u64 = 5_000;
    let key = |number: u64| format!("{}/x{number:04}", if number.is_multiple_of(10) { "a" } else { "b" });
    let mut store = store((0..CHANGES).map(|number| record(&key(number), number + 1, &[], &[])).collect());
    let past = store.version();
    for number in 0..CHANGES {
        store.apply(&record(&key(number), past.number() + 1 + number, &[], &[]));
    }
    for (namespace, changed) in
        [(None, CHANGES), (Some("b"), CHANGES / 10 * 9), (Some("a"), CHANGES / 10), (Some("c"), 0)]
    {
        let selection = Selection { namespace: namespace.map(str::to_owned), ..Selection::default() };
        let listing = Listing::new(State::at(store.snapshot(), past, namespace).unwrap(), &selection, None);
        let bytes = listing.held_bytes();
        assert!(bytes <= 32 * changed + 64, "{namespace:?}: {bytes} bytes for {changed} changes");
        assert_eq!(listing.count() as u64, changed, "{namespace:?}");
    }
}

#[test]
fn tokens_read_as_kube_apiserver_reads_them() {
    use base64::Engine;
    let encode = |text: &str| base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(text);
    let token = ContinueToken { version: Some(Version::new(7)), start: "a/x\0".to_owned() };
    assert_eq!(token.encode(), encode(r#"{"v":"meta.k8s.io/v1","rv":7,"start":"a/x\u0000"}"#));
    assert_eq!(ContinueToken::decode(&token.encode()).unwrap(), token);
    let after = ContinueToken::after(Version::new(7), "a/x");
    assert_eq!((&*after.start, after.key()), ("/a/x\0", "a/x\0"), "a slash in front is no part of the key");
    let newest = ContinueToken { version: None, start: "x\0".to_owned() };
    assert_eq!(ContinueToken::decode(&newest.encode()).unwrap(), newest);
    for (text, expected) in [
        ("a%b".to_owned(), "illegal base64 data at input byte 1"),
        ("a".to_owned(), "illegal base64 data at input byte 0"),
        ("YW\nJj".to_owned(), "invalid character 'a' looking for beginning of value"),
        (encode("no"), "invalid character 'n' looking for beginning of value"),
        (encode("{"), "unexpected end of JSON input"),
        (encode("{} x"), "invalid character 'x' after top-level value"),
        (encode("7"), "json: cannot unmarshal number into Go value of type storage.continueToken"),
        (encode("[]"), "json: cannot unmarshal array into Go value of type storage.continueToken"),
        (
            encode(r#"{"v":"meta.k8s.io/v1","rv":1.5}"#),
            "json: cannot unmarshal number 1.5 into Go struct field continueToken.rv of type int64",
        ),
        (encode(r#"{"v":"v2","rv":1,"start":"a"}"#), "server does not recognize this encoded version v2"),
        (
            encode(r#"{"v":"meta.k8s.io/v1","rv":0,"start":"a"}"#),
            "incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
        ),
        (encode(r#"{"v":"meta.k8s.io/v1","rv":1}"#), "encoded start key empty (version meta.k8s.io/v1)"),
        (encode(r#"{"v":"meta.k8s.io/v1","rv":1,"start":"../x"}"#), "../x"),
    ] {
        let message = ContinueToken::decode(&text).unwrap_err().to_string();
        assert_eq!(message, format!("invalid continue token: continue key is not valid: {expected}"), "{text}");
    }
}

fn objects() -> impl Strategy<Value = Vec<Record>> {
    let label = prop_oneof![Just("p"), Just("q"), Just("7"), Just("12"), Just("")];
    let object = (0usize..3, proptest::option::of(label.clone()), proptest::option::of(label), 0u8..4);
    // Enough objects that both ways of walking and both ways of testing are met.
    proptest::collection::vec(object, 0..400).prop_map(|entries| {
        entries
            .into_iter()
            .enumerate()
            .map(|(index, (namespace, first, second, value))| {
                let mut labels = Vec::new();
                labels.extend(first.map(|value| ("k1", value)));
                labels.extend(second.map(|value| ("k2", value)));
                let value = ["", "blue", "red", "7"][usize::from(value)];
                record(&format!("{}/n{index}", ["a", "a-b", "b"][namespace]), index as u64 + 1, &labels, &[value])
            })
            .collect()
    })
}

fn selections() -> impl Strategy<Value = Selection> {
    let requirement = prop_oneof![
        Just("k1"),
        Just("!k1"),
        Just("k1=p"),
        Just("k1!=p"),
        Just("k1 in (p,q)"),
        Just("k2 notin (p,)"),
        Just("k2>8"),
        Just("k2<10"),
        Just("k2="),
        Just("nope"),
        Just("!nope"),
    ];
    let field = prop_oneof![
        Just(FieldRef::Name),
        Just(FieldRef::Namespace),
        Just(FieldRef::Field(FieldIndex(0))),
        Just(FieldRef::Empty)
    ];
    let operator = prop_oneof![Just(OperatorName::In), Just(OperatorName::NotIn)];
    let value = prop_oneof![Just(""), Just("blue"), Just("red"), Just("a"), Just("n3"), Just("a/n3")];
    (
        proptest::option::of(prop_oneof![Just("a"), Just("a-b"), Just("none")]),
        proptest::collection::vec(requirement, 0..3),
        proptest::collection::vec(
            (field, operator, value).prop_map(|(field, operator, value)| term(field, operator, value)),
            0..3,
        ),
        proptest::option::weighted(0.3, shards((0..40).map(|index| format!("a/n{index}")).collect())),
    )
        .prop_map(|(namespace, labels, fields, shard)| Selection {
            namespace: namespace.map(str::to_owned),
            labels: LabelSelector::parse(&labels.join(",")).unwrap(),
            fields,
            shard,
            cel: None,
        })
}

proptest! {
    #[test]
    fn planned_results_equal_the_reference_filter(records in objects(), selection in selections(), limit in 1usize..40, cut in any::<proptest::sample::Index>()) {
        let mut store = store(records);
        let naive = |store: &Store| -> Vec<String> {
            let snapshot = store.snapshot();
            let mut found: Vec<&Object> = snapshot.occupied().to_bitmap().into_iter().filter_map(|slot| snapshot.object(slot)).filter(|object| selection.meets_requirements(object)).collect();
            found.sort_by_key(|object| object.key().to_owned());
            found.into_iter().map(|object| object.key().to_owned()).collect()
        };
        let expected = naive(&store);
        prop_assert_eq!(&names(Listing::new(State::current(store.snapshot()), &selection, None)), &expected);

        // Pages of an exact version show the same list, however the store changes in between.
        let version = store.version();
        let victims: Vec<String> = store.snapshot().range(std::ops::Bound::Unbounded).map(|(_, object)| object.key().to_owned()).collect();
        let mut paged = Vec::new();
        let mut start: Option<String> = None;
        let mut next_version = version.number();
        loop {
            let state = State::at(store.snapshot(), version, selection.namespace.as_deref()).unwrap();
            let mut listing = Listing::new(state, &selection, start.as_deref());
            let page: Vec<String> = listing.by_ref().take(limit).map(|object| object.key().to_owned()).collect();
            let more = listing.peek().is_some();
            start = page.last().map(|last| format!("{last}\0"));
            paged.extend(page);
            let rest = at_once(listing.count_rest(&mut Work::default()));
            prop_assert_eq!(rest, (expected.len() - paged.len()) as u64, "after {} objects", paged.len());
            if !more {
                break;
            }
            if !victims.is_empty() {
                let victim = &victims[cut.index(victims.len())];
                next_version += 1;
                let (namespace, name) = victim.split_once('/').unwrap();
                if next_version.is_multiple_of(2) {
                    store.apply(&record(victim, next_version, &[("k1", "q")], &["red"]));
                } else {
                    store.delete(&crate::model::Key::new(namespace, name), Version::new(next_version));
                }
                store.apply(&record(&format!("a/new{next_version}"), next_version, &[("k1", "p")], &["blue"]));
            }
        }
        prop_assert!(paged == expected, "pages {:?} differ from the list {:?}", paged, expected);
    }
}
