//! Rules about a node alone: name, nodeSelector, node affinity; and the counts and texts of results.

use serde_json::{Value, json};

use super::{Options, cluster, fitting, incoming, node, reasons, report, required, review, running, tainted, term};
use crate::placement::options::Plugin;
use crate::placement::{Node, RejectionKind, RejectionReason};

fn affinity(terms: Value) -> Value {
    json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}})
}

fn expression(key: &str, operator: &str, values: &[&str]) -> Value {
    json!({"key": key, "operator": operator, "values": values})
}

/// One term of one expression on a label `key` that `n1` has (or lacks).
fn matches(value: Option<&str>, operator: &str, values: &[&str]) -> bool {
    let labels: Vec<String> = value.map(|value| format!("key={value}")).into_iter().collect();
    let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
    let term = json!([{"matchExpressions": [expression("key", operator, values)]}]);
    review(&[node("n1", &labels)], &[], &incoming(affinity(term))).feasible() == 1
}

#[test]
fn codes_words_and_kinds_are_the_schedulers() {
    let rows = [
        (
            RejectionReason::SchedulingGated,
            "SchedulingGates",
            RejectionKind::Unresolvable,
            "waiting for scheduling gates",
        ),
        (
            RejectionReason::AffinityTermsConflict,
            "NodeAffinity",
            RejectionKind::Unresolvable,
            "pod affinity terms conflict",
        ),
        (
            RejectionReason::NodeNotNamed,
            "NodeAffinity",
            RejectionKind::Unresolvable,
            "node(s) didn't satisfy plugin(s) [NodeAffinity]",
        ),
        (
            RejectionReason::NodeUnschedulable,
            "NodeUnschedulable",
            RejectionKind::Unresolvable,
            "node(s) were unschedulable",
        ),
        (
            RejectionReason::NodeNameMismatch,
            "NodeName",
            RejectionKind::Unresolvable,
            "node(s) didn't match the requested node name",
        ),
        (
            RejectionReason::UntoleratedTaint,
            "TaintToleration",
            RejectionKind::Unresolvable,
            "node(s) had untolerated taint(s)",
        ),
        (
            RejectionReason::NodeAffinityMismatch,
            "NodeAffinity",
            RejectionKind::Unresolvable,
            "node(s) didn't match Pod's node affinity/selector",
        ),
        (
            RejectionReason::PodAffinityMismatch,
            "InterPodAffinity",
            RejectionKind::Unresolvable,
            "node(s) didn't match pod affinity rules",
        ),
        (
            RejectionReason::PodAntiAffinityMismatch,
            "InterPodAffinity",
            RejectionKind::Unschedulable,
            "node(s) didn't match pod anti-affinity rules",
        ),
        (
            RejectionReason::ExistingPodAntiAffinity,
            "InterPodAffinity",
            RejectionKind::Unschedulable,
            "node(s) didn't satisfy existing pods anti-affinity rules",
        ),
    ];
    assert_eq!(rows.map(|(reason, ..)| reason), RejectionReason::ALL, "each once, in the order of the scheduler");
    for (reason, plugin, kind, message) in rows {
        assert_eq!(reason.plugin().as_str(), plugin, "{}", reason.as_str());
        assert_eq!(reason.kind(), kind, "{}", reason.as_str());
        assert_eq!(reason.message(), message, "{}", reason.as_str());
    }
}

#[test]
fn a_node_name_selects_that_node_only() {
    let nodes = [node("n1", &[]), node("n2", &[])];
    let answer = review(&nodes, &[], &incoming(json!({"nodeName": "n2"})));
    assert_eq!(fitting(&answer), ["n2"]);
    assert_eq!(reasons(&answer, "n1"), ["NodeNameMismatch"]);
    let answer = review(&nodes, &[], &incoming(json!({"nodeName": "n3"})));
    assert_eq!(answer.message(), "0/2 nodes are available: 2 node(s) didn't match the requested node name.");
}

#[test]
fn every_pair_of_a_node_selector_must_be_a_label() {
    let nodes = [node("both", &["a=1", "b=2", "c=3"]), node("one", &["a=1"]), node("other", &["a=1", "b=3"])];
    let answer = review(&nodes, &[], &incoming(json!({"nodeSelector": {"a": "1", "b": "2"}})));
    assert_eq!(fitting(&answer), ["both"], "further labels are allowed");
    let rejection = &report(&answer, "one").rejections[0];
    assert_eq!(&*rejection.term.as_ref().unwrap().field_path, "spec.nodeSelector[b]", "the pair is named");
    assert_eq!(rejection.label.as_deref(), Some("!b"), "and what the node has instead");
    assert_eq!(report(&answer, "other").rejections[0].label.as_deref(), Some("b=3"));
    assert_eq!(review(&nodes, &[], &incoming(json!({"nodeSelector": {}}))).feasible(), 3, "an empty map passes");
    let both = json!({"nodeSelector": {"a": "1"}, "affinity": affinity(json!([{"matchExpressions": [expression("b", "In", &["3"])]}]))["affinity"]});
    assert_eq!(fitting(&review(&nodes, &[], &incoming(both))), ["other"], "nodeSelector and affinity must both hold");
}

/// A label's value, operator, values, whether they match, and why.
type OperatorRow = (Option<&'static str>, &'static str, &'static [&'static str], bool, &'static str);

#[test]
fn operators_of_node_affinity_compare_as_upstream() {
    let rows: [OperatorRow; 24] = [
        (Some("x"), "In", &["x", "y"], true, "listed"),
        (Some("z"), "In", &["x", "y"], false, "not listed"),
        (None, "In", &["x"], false, "absent"),
        (Some(""), "In", &[""], true, "an empty value is a value"),
        (Some("x"), "NotIn", &["x"], false, "listed"),
        (Some("z"), "NotIn", &["x"], true, "not listed"),
        (None, "NotIn", &["x"], true, "absent"),
        (Some(""), "Exists", &[], true, "present, though empty"),
        (None, "Exists", &[], false, "absent"),
        (Some(""), "DoesNotExist", &[], false, "present, though empty"),
        (None, "DoesNotExist", &[], true, "absent"),
        (Some("8"), "Gt", &["7"], true, "more"),
        (Some("7"), "Gt", &["7"], false, "strictly"),
        (Some("007"), "Gt", &["6"], true, "leading zeros count"),
        (Some("7"), "Lt", &["0010"], true, "on either side"),
        (Some("ten"), "Gt", &["1"], false, "a label that is no number"),
        (None, "Lt", &["1"], false, "an absent label"),
        (Some("8"), "Gt", &["ten"], false, "a bound that is no number"),
        (Some("8"), "Gt", &["1", "2"], false, "two bounds"),
        (Some("8"), "Gt", &["-1"], false, "a bound that is no label value"),
        (Some("8"), "Lt", &["9223372036854775808"], false, "a bound of more than 64 bits"),
        (Some("x"), "Like", &["x"], false, "an unknown operator"),
        (Some("x"), "In", &[], false, "no values"),
        (Some("x"), "Exists", &["x"], false, "values where none may be"),
    ];
    for (value, operator, values, expected, why) in rows {
        assert_eq!(matches(value, operator, values), expected, "{value:?} {operator} {values:?}: {why}");
    }
}

#[test]
fn terms_are_alternatives_and_their_requirements_are_not() {
    let nodes = [node("n1", &["a=1", "b=2"]), node("n2", &["a=1"]), node("n3", &["c=3"])];
    let fitting_with = |terms: Value| fitting(&review(&nodes, &[], &incoming(affinity(terms))));
    let one = expression("a", "In", &["1"]);
    let other = expression("b", "Exists", &[]);
    assert_eq!(fitting_with(json!([{"matchExpressions": [one, other]}])), ["n1"], "all of a term");
    assert_eq!(
        fitting_with(json!([{"matchExpressions": [other]}, {"matchExpressions": [expression("c", "Exists", &[])]}])),
        ["n1", "n3"],
        "one of the terms"
    );
    assert!(fitting_with(json!([])).is_empty(), "no term matches no node");
    assert!(fitting_with(json!([{}])).is_empty(), "nor does an empty one");
    assert_eq!(fitting_with(json!([{}, {"matchExpressions": [other]}])), ["n1"], "which leaves the others alone");
    let unparsable = json!({"matchExpressions": [expression("a", "Gt", &["ten"])]});
    assert_eq!(
        fitting_with(json!([unparsable, {"matchExpressions": [other]}])),
        ["n1"],
        "as does one that cannot be parsed"
    );
    assert_eq!(
        fitting_with(
            json!([{"matchExpressions": [one], "matchFields": [expression("metadata.name", "NotIn", &["n1"])]}])
        ),
        ["n2"],
        "fields and labels are of one term"
    );
    let null =
        incoming(json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": null}}}));
    assert_eq!(review(&nodes, &[], &null).feasible(), 3, "null passes");
}

#[test]
fn a_failed_term_is_explained_by_its_first_failing_requirement() {
    let terms = json!([
        {"matchExpressions": [expression("zone", "In", &["x", "y"])]},
        {},
        {"matchExpressions": [expression("zone", "Gt", &["ten"])]},
    ]);
    let answer = review(&[node("n1", &["zone=z"])], &[], &incoming(affinity(terms)));
    let report = report(&answer, "n1");
    let reported: Vec<(&str, &str, Option<&str>)> = report
        .rejections
        .iter()
        .map(|rejection| {
            rejection.term.as_ref().map(|term| (&*term.field_path, &*term.text, rejection.label.as_deref())).unwrap()
        })
        .collect();
    let path = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
    assert_eq!(reported[0], (&*format!("{path}[0]"), "zone in (x,y)", Some("zone=z")));
    assert_eq!(reported[1], (&*format!("{path}[1]"), "an empty term matches no node", None));
    assert_eq!((reported[2].0, reported[2].2), (&*format!("{path}[2]"), None));
    assert!(
        reported[2].1.contains("\"ten\": for 'Gt', 'Lt' operators, the value must be an integer"),
        "{}",
        reported[2].1
    );
}

#[test]
fn names_in_match_fields_are_decided_before_any_node() {
    let names = |values: &[&str]| json!({"matchFields": [expression("metadata.name", "In", values)]});
    let mut nodes = vec![node("n1", &[]), node("n2", &[]), node("n3", &[])];
    nodes[2].spec.unschedulable = true;
    let rows: Vec<(Value, &[&str], &str, &str)> = vec![
        (
            json!([names(&["n1"])]),
            &["n1"],
            "1/3 nodes are available: 2 node(s) didn't satisfy plugin(s) [NodeAffinity].",
            "one name; the cordoned node reports it too",
        ),
        (
            json!([names(&["n1"]), names(&["n2"])]),
            &["n1", "n2"],
            "2/3 nodes are available: 1 node(s) didn't satisfy plugin(s) [NodeAffinity].",
            "the union of the terms",
        ),
        (
            json!([names(&["n1"]), {"matchExpressions": [expression("x", "Exists", &[])]}]),
            &["n1"],
            "1/3 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 1 node(s) were unschedulable.",
            "a term without names narrows nothing",
        ),
        (
            json!([{"matchFields": [expression("metadata.name", "In", &["n1"]), expression("metadata.name", "In", &["n2"])]}]),
            &[],
            "0/3 nodes are available: pod affinity terms conflict.",
            "names that contradict each other end the cycle",
        ),
        (
            json!([names(&["n9"])]),
            &[],
            "0/3 nodes are available: 3 node(s) didn't satisfy plugin(s) [NodeAffinity].",
            "a name that no node has is no conflict",
        ),
        (
            json!([{"matchFields": [expression("metadata.name", "NotIn", &["n1"])]}]),
            &["n2"],
            "1/3 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 1 node(s) were unschedulable.",
            "NotIn narrows nothing",
        ),
        (
            json!([names(&["n1", "n2"])]),
            &[],
            "0/3 nodes are available: 1 node(s) didn't satisfy plugin(s) [NodeAffinity], 2 node(s) didn't match Pod's node affinity/selector.",
            "two values cannot be parsed, but narrow all the same",
        ),
    ];
    for (terms, fits, message, why) in rows {
        let answer = review(&nodes, &[], &incoming(affinity(terms)));
        assert_eq!(fitting(&answer), fits, "{why}");
        assert_eq!(answer.message(), message, "{why}");
    }
}

#[test]
fn counts_are_of_first_reasons_and_sorted_as_texts() {
    let mut nodes: Vec<_> = (0..10).map(|index| node(&format!("plain-{index}"), &[])).collect();
    nodes.push(tainted("t1", &["a:NoSchedule"]));
    nodes.push(tainted("t2", &["a:NoSchedule"]));
    nodes[0].spec.unschedulable = true;
    nodes[0].spec.taints = nodes[10].spec.taints.clone();
    let answer = review(&nodes, &[], &incoming(json!({"nodeSelector": {"x": "y"}})));
    let message = "0/12 nodes are available: 1 node(s) were unschedulable, 2 node(s) had untolerated taint(s), 9 node(s) didn't match Pod's node affinity/selector.";
    assert_eq!(answer.message(), message);
    assert_eq!(
        reasons(&answer, "plain-0"),
        ["NodeUnschedulable", "UntoleratedTaint", "NodeAffinityMismatch"],
        "all are kept"
    );
    let counted: Vec<(String, u64)> =
        answer.reasons().into_iter().map(|count| (count.reason.into_owned(), count.count)).collect();
    assert_eq!(
        counted,
        [
            ("NodeAffinityMismatch".to_owned(), 9),
            ("UntoleratedTaint".to_owned(), 2),
            ("NodeUnschedulable".to_owned(), 1)
        ]
    );
    nodes.push(node("plain-10", &[]));
    let message = review(&nodes, &[], &incoming(json!({"nodeSelector": {"x": "y"}}))).message();
    assert!(
        message.contains(": 1 node(s) were unschedulable, 10 node(s) didn't match"),
        "10 comes before 2: {message}"
    );
}

#[test]
fn nearest_misses_come_first() {
    let mut nodes = vec![
        node("zzz-fits", &["x=y"]),
        tainted("far", &["a:NoSchedule"]),
        tainted("near-b", &["a:NoSchedule", "b:NoSchedule"]),
        node("near-a", &[]),
    ];
    nodes[2].metadata.labels.insert("x".to_owned(), "y".to_owned());
    let answer = review(&nodes, &[], &incoming(json!({"nodeSelector": {"x": "y"}})));
    let order: Vec<String> = answer.nodes(&[]).into_iter().map(|node| node.name.to_string()).collect();
    assert_eq!(order, ["zzz-fits", "near-a", "near-b", "far"], "two taints are one rule");
    let listed = answer.nodes(&["far".to_owned(), "nowhere".to_owned()]);
    assert_eq!(listed.len(), 1, "only the requested nodes are listed");
    assert_eq!(answer.total(), 4, "but all are counted");
}

#[test]
fn without_nodes_and_with_gates_the_words_are_others() {
    assert_eq!(review(&[], &[], &incoming(json!({}))).message(), "no nodes available to schedule pods");
    let gated = incoming(json!({"schedulingGates": [{"name": "a"}, {"name": "b"}]}));
    let answer = review(&[node("n1", &[])], &[], &gated);
    assert_eq!(answer.message(), "waiting for scheduling gates: [a b]");
    assert_eq!((answer.feasible(), reasons(&answer, "n1")), (0, vec!["SchedulingGated".to_owned()]));
    assert_eq!(answer.reasons()[0].message, "waiting for scheduling gates: [a b]");
    assert_eq!(review(&[node("n1", &[])], &[], &incoming(json!({}))).message(), "1/1 nodes are available.");
}

#[test]
fn the_schedulers_own_affinity_comes_before_the_pods() {
    let nodes = [node("n1", &["pool=a", "x=y"]), node("n2", &["x=y"]), node("n3", &[])];
    let added = affinity(json!([{"matchExpressions": [expression("pool", "In", &["a"])]}]));
    let options = Options {
        added_affinity: Some(serde_json::from_value(added["affinity"]["nodeAffinity"].clone()).unwrap()),
        ..Options::default()
    };
    let answer = cluster(&nodes, &[]).review(&incoming(json!({"nodeSelector": {"x": "y"}})), &options);
    assert_eq!(fitting(&answer), ["n1"]);
    assert_eq!(answer.message(), "1/3 nodes are available: 2 node(s) didn't match scheduler-enforced node affinity.");
    let rejection = &report(&answer, "n2").rejections[0];
    assert_eq!(rejection.reason, "NodeAffinityMismatch");
    assert_eq!(&*rejection.term.as_ref().unwrap().text, "pool=a");
    assert_eq!(rejection.label.as_deref(), Some("!pool"));
}

#[test]
fn a_plugin_that_is_off_rejects_nothing() {
    let mut bad = tainted("n1", &["a:NoSchedule"]);
    bad.spec.unschedulable = true;
    let pod = incoming(json!({"nodeName": "n2", "nodeSelector": {"x": "y"}, "schedulingGates": [{"name": "g"}]}));
    let all = cluster(&[bad.clone()], &[]).review(&pod, &Options::default());
    assert_eq!(reasons(&all, "n1").len(), 5);
    for plugin in Plugin::ALL {
        let options = Options { disabled: vec![plugin], ..Options::default() };
        let answer = cluster(&[bad.clone()], &[]).review(&pod, &options);
        let reported = report(&answer, "n1").rejections;
        assert!(reported.iter().all(|rejection| rejection.plugin != plugin.as_str()), "{} is off", plugin.as_str());
        assert!(reported.len() >= 4, "the others are not");
    }
    let options = Options { disabled: Plugin::ALL.to_vec(), ..Options::default() };
    assert_eq!(cluster(&[bad], &[]).review(&pod, &options).feasible(), 1);
}

#[test]
fn every_result_states_what_was_not_evaluated() {
    let status = review(&[], &[], &incoming(json!({}))).summary(Default::default(), None);
    let text = status.not_evaluated.join("\n");
    for word in [
        "resources",
        "NodePorts",
        "VolumeBinding",
        "PodTopologySpread",
        "DynamicResources",
        "extenders",
        "preemption",
        "webhooks",
    ] {
        assert!(text.contains(word), "{word} is named");
    }
}

#[test]
fn a_node_lists_the_first_rejections_of_each_kind() {
    let one = |number: usize| json!({"matchExpressions": [{"key": format!("k{number}"), "operator": "Exists"}]});
    let terms: Vec<Value> = (0..100).map(one).collect();
    let anti = required("podAntiAffinity", json!([term("app=x", "zone")]));
    let mut spec = json!({"affinity": {"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}});
    spec["affinity"]["podAntiAffinity"] = anti["affinity"]["podAntiAffinity"].clone();
    let nodes =
        |count: usize| -> Vec<Node> { (0..count).map(|number| node(&format!("n{number}"), &["zone=z"])).collect() };
    let pods = [running("default/x", "n0", &["app=x"], json!({}))];
    for (count, listed) in [(2, 64), (3_000, 33), (15_000, 8)] {
        let answer = review(&nodes(count), &pods, &incoming(spec.clone()));
        let found = reasons(&answer, "n1");
        let (last, first) = found.split_last().unwrap();
        assert_eq!(first.len(), listed, "{count} nodes");
        assert!(last.contains("PodAntiAffinity") || !first.contains(last), "other reasons are listed: {last}");
        let unlisted = count * (100 - listed);
        let warning = format!("{unlisted} rejections are not listed: a node lists the first {listed} for each reason");
        assert!(answer.warnings().iter().any(|text| text.starts_with(&warning)), "{:?}", answer.warnings());
    }
    let long = "x".repeat(60);
    let values: Vec<String> = (0..100).map(|number| format!("{long}{number}")).collect();
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    let answer =
        review(&nodes(2), &pods, &incoming(affinity(json!([{"matchExpressions": [expression("a", "In", &values)]}]))));
    let text = report(&answer, "n1").rejections[0].term.as_ref().unwrap().text.clone();
    assert!(text.len() < 300 && text.ends_with(" bytes)"), "a long text is cut: {text}");
    let few = review(&nodes(2), &pods, &incoming(json!({"nodeSelector": {"a": "b"}})));
    assert!(few.warnings().is_empty(), "everything is listed");
}
