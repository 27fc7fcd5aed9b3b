//! matchLabelKeys and mismatchLabelKeys (KEP-3633): how they are merged, and how derived requirements are reported.

use serde_json::{Value, json};

use super::{Options, incoming, labelled, required, running};
use crate::placement::admission::{admit, merge_label_keys};
use crate::placement::explain::derived;
use crate::placement::pod::Pod;
use crate::placement::{ClusterIndex, TermList};

/// The label selectors of all terms as documents, in the order of the lists.
fn selectors(pod: &Pod) -> Vec<Value> {
    let terms = TermList::ALL.into_iter().flat_map(|list| list.written(&pod.spec));
    terms.map(|(term, _)| serde_json::to_value(&term.label_selector).unwrap()).collect()
}

fn merged(labels: &[&str], term: Value) -> Value {
    let mut pod = labelled(labels, required("podAffinity", json!([term])));
    merge_label_keys(&mut pod);
    selectors(&pod).remove(0)
}

fn expression(key: &str, operator: &str, value: &str) -> Value {
    json!({"key": key, "operator": operator, "values": [value]})
}

#[test]
fn keys_are_merged_after_existing_requirements_in_order() {
    let exists = json!({"key": "own", "operator": "Exists"});
    let rows = [
        (
            vec!["a=1", "b=2", "c=3"],
            json!({"labelSelector": {"matchExpressions": [exists]}, "matchLabelKeys": ["b", "a"], "mismatchLabelKeys": ["c"]}),
            json!({"matchExpressions": [exists, expression("b", "In", "2"), expression("a", "In", "1"), expression("c", "NotIn", "3")]}),
            "matchLabelKeys in their order, then mismatchLabelKeys",
        ),
        (
            vec!["a=1"],
            json!({"labelSelector": {"matchLabels": {"app": "x"}}, "matchLabelKeys": ["a", "gone"]}),
            json!({"matchLabels": {"app": "x"}, "matchExpressions": [expression("a", "In", "1")]}),
            "a key without a label is ignored; matchLabels stay as they are",
        ),
        (
            vec!["a="],
            json!({"labelSelector": {}, "matchLabelKeys": ["a"]}),
            json!({"matchExpressions": [expression("a", "In", "")]}),
            "an empty value is a value, and an empty selector is a selector",
        ),
        (
            vec!["a=1"],
            json!({"labelSelector": null, "matchLabelKeys": ["a"]}),
            json!(null),
            "a null selector stays null",
        ),
        (
            vec!["a=1"],
            json!({"labelSelector": {"matchExpressions": [expression("a", "In", "1")]}, "matchLabelKeys": ["a", "a"]}),
            json!({"matchExpressions": [expression("a", "In", "1"), expression("a", "In", "1"), expression("a", "In", "1")]}),
            "nothing is merged into one",
        ),
        (vec!["b=2"], json!({"labelSelector": {}, "matchLabelKeys": []}), json!({}), "no lists, no change"),
    ];
    for (labels, term, expected, why) in rows {
        assert_eq!(merged(&labels, term), expected, "{why}");
    }
}

#[test]
fn all_four_places_are_merged_and_the_lists_stay() {
    let term = json!({"labelSelector": {}, "topologyKey": "zone", "matchLabelKeys": ["a"], "namespaceSelector": {}});
    let weighted = json!({"weight": 1, "podAffinityTerm": term});
    let both = json!({
        "requiredDuringSchedulingIgnoredDuringExecution": [term],
        "preferredDuringSchedulingIgnoredDuringExecution": [weighted],
    });
    let pod = labelled(&["a=1"], json!({"affinity": {"podAffinity": both, "podAntiAffinity": both}}));
    let pod = admit(pod, None, &Options::default()).unwrap();
    assert_eq!(selectors(&pod), vec![json!({"matchExpressions": [expression("a", "In", "1")]}); 4]);
    for list in TermList::ALL {
        let (term, _) = list.written(&pod.spec)[0];
        assert_eq!(term.match_label_keys, ["a"], "the list stays in the stored term");
        assert_eq!(term.namespace_selector, Some(Default::default()), "the namespaceSelector is not touched");
        assert_eq!(derived(term), ["a=1"], "the derived requirement is recognized");
    }
}

#[test]
fn before_1_31_the_lists_are_dropped() {
    let term = json!({"labelSelector": {}, "topologyKey": "zone", "matchLabelKeys": ["a"], "mismatchLabelKeys": ["b"]});
    let pod = || labelled(&["a=1"], required("podAffinity", json!([term])));
    for (target_minor, is_merged) in
        [(28, false), (29, false), (30, false), (31, true), (32, true), (33, true), (36, true)]
    {
        let options = Options { target_minor, ..Options::default() };
        let admitted = admit(pod(), None, &options).unwrap();
        let (term, _) = TermList::RequiredAffinity.written(&admitted.spec)[0];
        assert_eq!(!term.match_label_keys.is_empty(), is_merged, "1.{target_minor} keeps the lists");
        let expressions = &term.label_selector.as_ref().unwrap().match_expressions;
        assert_eq!(expressions.len() == 1, is_merged, "1.{target_minor} merges");
    }
}

#[test]
fn a_stored_pod_is_evaluated_as_stored() {
    // Created while the feature was off, or relabelled since: the lists and the selector disagree.
    let nodes = [super::node("n1", &["zone=a"]), super::node("n2", &["zone=b"])];
    let old = running("default/old", "n1", &["app=x", "version=1"], json!({}));
    let term =
        json!({"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "zone", "matchLabelKeys": ["version"]});
    let stored = labelled(&["app=x", "version=2"], required("podAffinity", json!([term])));
    let cluster: ClusterIndex = super::cluster(&nodes, &[old]);
    let as_stored = cluster.review(&stored, &Options::default());
    assert_eq!(super::fitting(&as_stored), ["n1"], "the lists alone mean nothing");
    assert!(as_stored.terms()[0].derived.is_empty(), "and no requirement of the selector is reported as derived");
    let as_new = admit(stored, None, &Options::default()).unwrap();
    let as_new = cluster.review(&as_new, &Options::default());
    assert_eq!(super::fitting(&as_new), ["n1", "n2"], "created again it follows its own version only");
    assert_eq!(as_new.terms()[0].label_selector.as_deref(), Some("app=x,version=2"));
    assert_eq!(as_new.terms()[0].derived, ["version=2"]);
}

#[test]
fn derived_requirements_are_recognized_by_key_operator_and_one_value() {
    let term = json!([{
        "labelSelector": {"matchExpressions": [
            expression("a", "In", "1"),
            expression("a", "NotIn", "1"),
            {"key": "a", "operator": "In", "values": ["1", "2"]},
            expression("b", "NotIn", "2"),
            expression("c", "In", "3"),
            {"key": "b", "operator": "Exists"},
        ]},
        "topologyKey": "zone", "matchLabelKeys": ["a"], "mismatchLabelKeys": ["b"],
    }]);
    let pod = incoming(required("podAffinity", term));
    let (term, _) = TermList::RequiredAffinity.written(&pod.spec)[0];
    assert_eq!(derived(term), ["a=1", "b!=2"]);
}
