//! Explanations: their words, and their figures against the list that they explain.

use proptest::prelude::any;
use proptest::{prop_assert, prop_assert_eq, proptest};

use super::super::{AccessPath, Explanation, Hits, PlanStep, Selection, State, StepEstimate, Work};
use super::{explained, hits_of, names, objects, selections, store, term};
use crate::extract::{Field, FieldRef, Origin};
use crate::model::{FieldIndex, Version};
use crate::query::Listing;
use crate::selector::{LabelSelector, OperatorName};
use crate::store::tests::record;
use crate::store::{HistoryLimits, Store};

/// The explanation for a resource with one field.
pub(super) fn fields() -> Vec<Field> {
    vec![Field {
        label: "spec.color".to_owned(),
        json_path: ".spec.color".to_owned(),
        kind: "string".to_owned(),
        allowed: std::sync::Arc::default(),
        format: String::new(),
        default: None,
        description: String::new(),
        origin: Origin::CustomResourceDefinition,
    }]
}

#[test]
fn explanations_show_the_lookups_and_their_counts() {
    use OperatorName::{In as Equals, NotIn as NotEquals};
    let color = FieldRef::Field(FieldIndex(0));
    let records: Vec<_> = (0..100)
        .map(|index| {
            let labels = if index < 3 { vec![("app", "shop"), ("tier", "web")] } else { vec![("tier", "web")] };
            let (namespace, color) = if index % 2 == 0 { ("a", "blue") } else { ("b", "red") };
            record(&format!("{namespace}/x{index:02}"), index + 100, &labels, &[color])
        })
        .collect();
    let object_bytes = records[0].bytes.len() as u64;
    let store = store(records);
    let (index, scan) = (AccessPath::Index, AccessPath::Scan);
    for (namespace, labels, terms, plan, access, candidates, hits, bytes, why) in [
        (None, "", vec![], "everything", scan, 100, 100, Some(100), "all of it"),
        (Some("a"), "", vec![], "metadata.namespace=a (50)", index, 50, 50, None, "a namespace is a range of keys"),
        (Some("c"), "", vec![], "metadata.namespace=c (0)", index, 0, 0, None, "one without objects"),
        (None, "", vec![(color, Equals, "blue")], "spec.color=blue (50)", index, 50, 50, Some(50), "a field"),
        (None, "", vec![(color, Equals, "pink")], "spec.color=pink (0)", index, 0, 0, Some(0), "no such value"),
        (
            None,
            "",
            vec![(color, NotEquals, "blue")],
            "spec.color!=blue (less 50)",
            index,
            100,
            50,
            Some(50),
            "all but some",
        ),
        (
            Some("a"),
            "app in (shop,web),!old",
            vec![(color, Equals, "blue")],
            "app in (shop,web) (3) & spec.color=blue (50) & metadata.namespace=a (50) & !old (less 0)",
            index,
            3,
            2,
            Some(2),
            "the smallest first",
        ),
        (None, "", vec![(FieldRef::Name, Equals, "x01")], "metadata.name=x01 (1)", index, 1, 1, Some(1), "a name"),
        (
            None,
            "",
            vec![(FieldRef::Namespace, NotEquals, "a")],
            "metadata.namespace!=a (less 50)",
            index,
            100,
            50,
            Some(50),
            "not a namespace",
        ),
        (
            None,
            "",
            vec![(FieldRef::Empty, Equals, "v")],
            "nothing",
            index,
            0,
            0,
            Some(0),
            "a field that is never there",
        ),
        (None, "", vec![(FieldRef::Empty, Equals, "")], "everything", scan, 100, 100, Some(100), "its absence"),
    ] {
        let selection = Selection {
            namespace: namespace.map(str::to_owned),
            labels: LabelSelector::parse(labels).unwrap(),
            fields: terms.into_iter().map(|(field, operator, value)| term(field, operator, value)).collect(),
            shard: None,
            cel: None,
        };
        let found = explained(&selection, &State::current(store.snapshot()), &fields());
        let bytes = bytes.map(|objects: u64| objects * object_bytes);
        let expected = (plan, access, Some(candidates), hits, bytes);
        assert_eq!((&*found.plan, found.access, found.candidates, found.hits, found.bytes), expected, "{why}");
    }
}

/// The steps of a tree: each in a line, below the one that it is a part of.
pub(super) fn lines(step: &PlanStep) -> Vec<String> {
    let estimate = match step.estimate {
        None => String::new(),
        Some(StepEstimate::Finds(objects)) => format!(" finds {objects}"),
        Some(StepEstimate::Removes(objects)) => format!(" removes {objects}"),
        Some(StepEstimate::Tests(objects)) => format!(" tests {objects}"),
        Some(StepEstimate::Evaluates { objects, failed }) => format!(" evaluates {objects}, failed {failed}"),
    };
    let left = step.left.map(|left| format!(" -> {left}")).unwrap_or_default();
    let inner = step.inner.iter().flat_map(lines).map(|line| format!("  {line}"));
    std::iter::once(format!("{}:{estimate}{left}", step.text)).chain(inner).collect()
}

#[test]
fn the_tree_has_the_result_of_each_step() {
    use OperatorName::{In as Equals, NotIn as NotEquals};
    let color = FieldRef::Field(FieldIndex(0));
    // 400 objects: half of them are blue, a quarter has the label app, and all but one have the label tier.
    let records: Vec<_> = (0..400)
        .map(|index| {
            let mut labels = if index == 0 { vec![] } else { vec![("tier", "web")] };
            if index % 4 == 0 {
                labels.push(("app", "shop"));
            }
            record(&format!("a/x{index:03}"), index + 100, &labels, &[if index % 2 == 0 { "blue" } else { "red" }])
        })
        .collect();
    let store = store(records);
    let values: String = (0..100).map(|value| format!("v{value:02}")).collect::<Vec<_>>().join(",");
    for (labels, terms, expected, why) in [
        ("", vec![], &["everything: finds 400 -> 400"][..], "no requirement"),
        ("", vec![(color, Equals, "blue")], &["spec.color=blue: finds 200 -> 200"], "one requirement is the tree"),
        (
            "app",
            vec![(color, Equals, "blue"), (FieldRef::Namespace, Equals, "a")],
            &[
                "all of: -> 100",
                "  app: finds 100 -> 100",
                "  spec.color=blue: finds 200 -> 100",
                "  metadata.namespace=a: finds 400 -> 100",
            ],
            "sets are used, the smallest first",
        ),
        (
            "tier",
            vec![(color, NotEquals, "blue")],
            &["all of: -> 200", "  tier: finds 399 -> 399", "  spec.color!=blue: removes 200 -> 200"],
            "a set is removed",
        ),
        (
            "tier",
            vec![(color, Equals, "blue"), (FieldRef::Name, Equals, "x003")],
            &[
                "all of: -> 0",
                "  metadata.name=x003: finds 1 -> 1",
                "  test of objects: tests 1 -> 0",
                "    spec.color=blue: finds 200",
                "    tier: finds 399",
            ],
            "few candidates are tested with the other requirements",
        ),
        (
            "app,none",
            vec![],
            &["all of: -> 0", "  none: finds 0", "  app: finds 100"],
            "nothing runs if a set is empty",
        ),
        ("", vec![(FieldRef::Empty, Equals, "v")], &["nothing: finds 0 -> 0"], "a field that no object has"),
    ] {
        let selection = Selection {
            labels: LabelSelector::parse(labels).unwrap(),
            fields: terms.into_iter().map(|(field, operator, value)| term(field, operator, value)).collect(),
            ..Selection::default()
        };
        let state = State::current(store.snapshot());
        assert_eq!(lines(&explained(&selection, &state, &fields()).tree), expected, "{why}");
        // Without counts, the requirements are in their order in the request, and each is a step.
        let without = super::at_once(Explanation::without_counts(&selection, &state, &fields(), &mut Work::default()));
        let shown = lines(&without.tree);
        assert!(!shown.iter().any(|line| line.contains("finds") || line.contains("->")), "{why}: {shown:?}");
    }
    let long =
        Selection { labels: LabelSelector::parse(&format!("app in ({values})")).unwrap(), ..Selection::default() };
    let text = explained(&long, &State::current(store.snapshot()), &fields()).tree.text;
    assert_eq!((text.len(), text.ends_with("...")), (163, true), "{text}");
    let many = (0..100).map(|value| format!("k{value}")).collect::<Vec<_>>().join(",");
    let many = Selection { labels: LabelSelector::parse(&many).unwrap(), ..Selection::default() };
    let tree = explained(&many, &State::current(store.snapshot()), &fields()).tree;
    assert_eq!(lines(&tree).len(), 65, "at most 64 steps, and the one that combines them");
}

#[test]
fn an_explanation_of_the_past_counts_the_past() {
    let mut store = Store::new(HistoryLimits::default());
    store.replace(&[record("a/x", 3, &[], &["red"]), record("a/y", 4, &[], &["red"])], Version::new(10));
    store.apply(&record("a/x", 11, &[], &["blue"]));
    store.delete(&crate::model::Key::new("a", "y"), Version::new(12));
    store.apply(&record("a/a", 13, &[], &["red"]));
    let red = Selection {
        fields: vec![term(FieldRef::Field(FieldIndex(0)), OperatorName::In, "red")],
        ..Selection::default()
    };
    for (version, hits, everything) in [(10, 2, 2), (11, 1, 2), (12, 0, 1), (13, 1, 2)] {
        let state = State::at(store.snapshot(), Version::new(version), None).unwrap();
        let found = explained(&red, &state, &fields());
        assert_eq!((found.hits, found.bytes.is_some()), (hits, version == 13), "red at {version}");
        let found = explained(&Selection::default(), &state, &fields());
        assert_eq!((found.hits, found.bytes.is_some()), (everything, version == 13), "everything at {version}");
    }
}

proptest! {
    #[test]
    fn an_explanation_agrees_with_the_result(records in objects(), selection in selections(), cut in any::<proptest::sample::Index>()) {
        let mut store = store(records);
        let version = store.version();
        for past in [false, true] {
            if past {
                // The state before a change and a deletion.
                let keys: Vec<_> = store.snapshot().range(std::ops::Bound::Unbounded).map(|(_, object)| crate::model::Key::new("", object.key())).collect();
                if !keys.is_empty() {
                    store.apply(&record(keys[cut.index(keys.len())].as_str(), version.number() + 1, &[("k1", "p")], &["blue"]));
                    store.delete(&keys[keys.len() / 2], Version::new(version.number() + 2));
                }
            }
            let state = State::at(store.snapshot(), version, selection.namespace.as_deref()).unwrap();
            let listed = names(Listing::new(state.clone(), &selection, None));
            let explanation = explained(&selection, &state, &fields());
            prop_assert_eq!(explanation.hits, listed.len() as u64);
            // The tree is about the current state, also if the list is not.
            let current = State::current(state.snapshot().clone());
            let now = names(Listing::new(current.clone(), &selection, None)).len() as u64;
            prop_assert_eq!(explanation.tree.left, Some(now), "{:?}", lines(&explanation.tree));
            let lefts: Vec<u64> = explanation.tree.inner.iter().filter_map(|step| step.left).collect();
            prop_assert!(lefts.is_sorted_by(|before, after| before >= after), "{:?}", lines(&explanation.tree));
            let walks_all = hits_of(&selection, state.snapshot()) == Hits::Everything;
            prop_assert_eq!(explanation.access == AccessPath::Scan, walks_all);
        }
    }
}
