//! Rules about other pods: which pods a term matches, affinity, anti-affinity, symmetry.

use serde_json::{Value, json};

use super::{
    Options, cluster, fitting, incoming, labelled, namespace, node, reasons, report, required, review, running, term,
};
use crate::placement::domains::Domains;
use crate::placement::incoming::Incoming;
use crate::placement::pod::Pod;

const HOST: &str = "kubernetes.io/hostname";

/// Four nodes in two zones and one without a zone.
fn nodes() -> Vec<crate::placement::Node> {
    vec![node("a1", &["zone=a"]), node("a2", &["zone=a"]), node("b1", &["zone=b"]), node("none", &[])]
}

#[test]
fn namespaces_null_empty_and_selected_are_kept_apart() {
    // The pods are in `default`, `red` (colour=red), `blue` (colour=blue) and `ghost`, which has no Namespace object.
    let cluster = {
        let pods = [
            running("default/p", "n-default", &["app=x"], json!({})),
            running("red/p", "n-red", &["app=x"], json!({})),
            running("blue/p", "n-blue", &["app=x"], json!({})),
            running("ghost/p", "n-ghost", &["app=x"], json!({})),
        ];
        let mut cluster =
            cluster(&[node("n-default", &[]), node("n-red", &[]), node("n-blue", &[]), node("n-ghost", &[])], &pods);
        cluster.upsert_namespace(&namespace("red", &["colour=red"]));
        cluster.upsert_namespace(&namespace("blue", &["colour=blue"]));
        cluster
    };
    let colour = |value: &str| json!({"matchLabels": {"colour": value}});
    let not_red = json!({"matchExpressions": [{"key": "colour", "operator": "NotIn", "values": ["red"]}]});
    let none = Value::Null;
    let rows: Vec<(Value, Value, &[&str], &str)> = vec![
        (none.clone(), none.clone(), &["n-default"], "absent and null: the pod's own"),
        (json!([]), none.clone(), &["n-default"], "[] is absent"),
        (json!(["red", "ghost"]), none.clone(), &["n-ghost", "n-red"], "by name, objects or not"),
        (none.clone(), json!({}), &["n-blue", "n-default", "n-ghost", "n-red"], "{} is every namespace"),
        (json!([]), json!({}), &["n-blue", "n-default", "n-ghost", "n-red"], "[] and {}: every one"),
        (none.clone(), colour("red"), &["n-red"], "by label: not the own one"),
        (none.clone(), colour("green"), &[], "by label, none"),
        (json!(["blue"]), colour("red"), &["n-blue", "n-red"], "the union of both"),
        (json!(["blue"]), json!({}), &["n-blue", "n-default", "n-ghost", "n-red"], "the union with everything"),
        (
            none.clone(),
            not_red,
            &["n-blue", "n-default"],
            "an unknown namespace is not covered by the incoming pod's selector",
        ),
        (
            none,
            json!({"matchLabels": {"kubernetes.io/metadata.name": "red"}}),
            &["n-red"],
            "every namespace carries its name",
        ),
    ];
    for (namespaces, namespace_selector, expected, why) in rows {
        let term = json!({
            "labelSelector": {"matchLabels": {"app": "x"}},
            "namespaces": namespaces,
            "namespaceSelector": namespace_selector,
            "topologyKey": HOST,
        });
        let answer = cluster.review(&incoming(required("podAffinity", json!([term]))), &Options::default());
        assert_eq!(fitting(&answer), expected, "{why}");
    }
}

#[test]
fn a_term_of_an_existing_pod_sees_the_labels_of_the_incoming_pods_namespace() {
    let away = |extra: Value| {
        let mut term = json!({"labelSelector": {}, "topologyKey": HOST});
        for (key, value) in extra.as_object().unwrap() {
            term[key] = value.clone();
        }
        required("podAntiAffinity", json!([term]))
    };
    let excluding =
        json!({"namespaceSelector": {"matchExpressions": [{"key": "colour", "operator": "NotIn", "values": ["red"]}]}});
    let rows = [
        (json!({}), "default", false, "no namespaces: that of the pod that carries the term"),
        (json!({}), "red", true, "another one"),
        (json!({"namespaces": ["red"]}), "red", false, "by name"),
        (json!({"namespaceSelector": {"matchLabels": {"colour": "red"}}}), "red", false, "by label"),
        (json!({"namespaceSelector": {"matchLabels": {"colour": "red"}}}), "default", true, "not the own one"),
        (json!({"namespaceSelector": {}}), "ghost", false, "every namespace, known or not"),
        (excluding.clone(), "ghost", false, "an unknown namespace counts as one without labels"),
        (excluding.clone(), "default", false, "as does one without the label"),
        (excluding, "red", true, "the excluded one"),
    ];
    for (extra, incoming_namespace, fits, why) in rows {
        let mut cluster = cluster(&[node("n1", &[])], &[running("default/guard", "n1", &[], away(extra))]);
        cluster.upsert_namespace(&namespace("red", &["colour=red"]));
        let mut pod = incoming(json!({}));
        pod.metadata.namespace = incoming_namespace.to_owned();
        assert_eq!(cluster.review(&pod, &Options::default()).feasible() == 1, fits, "{incoming_namespace}: {why}");
    }
}

#[test]
fn label_selectors_null_and_empty_are_opposites() {
    let pods = [running("default/p", "a1", &["app=x"], json!({}))];
    let selects = |selector: Value| {
        let spec = required("podAffinity", json!([{"labelSelector": selector, "topologyKey": "zone"}]));
        // The incoming pod carries no label of its own that it could match alone.
        fitting(&review(&nodes(), &pods, &incoming(spec)))
    };
    assert!(selects(Value::Null).is_empty(), "null matches no pod, and no first of a group");
    assert_eq!(selects(json!({})), ["a1", "a2"], "{{}} matches every pod");
    let expression = |operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": "app", "operator": operator, "values": values}]});
    assert_eq!(selects(expression("In", &["x", "y"])), ["a1", "a2"]);
    assert_eq!(selects(expression("NotIn", &["y"])), ["a1", "a2"]);
    assert_eq!(selects(expression("Exists", &[])), ["a1", "a2"]);
    assert!(selects(json!({"matchLabels": {"app": "y"}})).is_empty());
}

#[test]
fn affinity_requires_a_domain_where_a_matching_pod_runs() {
    let pods =
        [running("default/db", "a1", &["app=db"], json!({})), running("default/bare", "none", &["app=web"], json!({}))];
    let answer = review(&nodes(), &pods, &incoming(required("podAffinity", json!([term("app=db", "zone")]))));
    assert_eq!(fitting(&answer), ["a1", "a2"], "the whole zone");
    assert_eq!(reasons(&answer, "none"), ["PodAffinityMismatch"], "a node without the key is in no domain");
    let rejection = &report(&answer, "b1").rejections[0];
    assert_eq!(rejection.label.as_deref(), Some("zone=b"));
    let reported = rejection.term.as_ref().unwrap();
    assert_eq!(&*reported.field_path, "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]");
    assert_eq!(&*reported.text, "pods with app=db in namespaces [default] (topology key zone)");
    let by_host = review(&nodes(), &pods, &incoming(required("podAffinity", json!([term("app=db", HOST)]))));
    assert_eq!(fitting(&by_host), ["a1"]);
    let message = by_host.message();
    assert_eq!(message, "1/4 nodes are available: 3 node(s) didn't match pod affinity rules.");
    let outside = review(&nodes(), &pods, &incoming(required("podAffinity", json!([term("app=web", "zone")]))));
    assert_eq!(outside.feasible(), 0, "a pod on a node without the key makes no domain");
}

#[test]
fn all_affinity_terms_must_be_met_by_the_same_pod_but_in_any_of_its_domains() {
    let both = json!([term("app=db", "zone"), term("tier=back", HOST)]);
    let pods =
        [running("default/one", "a1", &["app=db"], json!({})), running("default/two", "b1", &["tier=back"], json!({}))];
    let answer = review(&nodes(), &pods, &incoming(required("podAffinity", both.clone())));
    assert_eq!(answer.feasible(), 0, "a pod that matches one of two terms counts for none");
    let whole = [running("default/whole", "a2", &["app=db", "tier=back"], json!({}))];
    let answer = review(&nodes(), &whole, &incoming(required("podAffinity", both.clone())));
    assert_eq!(fitting(&answer), ["a2"], "zone a and host a2");
    let two = [
        running("default/whole-1", "a1", &["app=db", "tier=back"], json!({})),
        running("default/whole-2", "b1", &["app=db", "tier=back"], json!({})),
    ];
    let across = json!([term("app=db", "zone"), term("tier=back", "rack")]);
    let mut racks = nodes();
    racks[0].metadata.labels.insert("rack".to_owned(), "r1".to_owned());
    racks[1].metadata.labels.insert("rack".to_owned(), "r2".to_owned());
    racks[2].metadata.labels.insert("rack".to_owned(), "r2".to_owned());
    let answer = review(&racks, &two, &incoming(required("podAffinity", across)));
    assert_eq!(fitting(&answer), ["a1", "a2", "b1"], "a2 has its zone from one pod and its rack from the other");
}

#[test]
fn the_first_of_a_group_needs_the_topology_keys_only() {
    let own = required("podAffinity", json!([term("app=db", "zone")]));
    let answer = review(&nodes(), &[], &labelled(&["app=db"], own.clone()));
    assert_eq!(fitting(&answer), ["a1", "a2", "b1"], "every node that has the key");
    let answer = review(&nodes(), &[], &labelled(&["app=web"], own.clone()));
    assert_eq!(answer.feasible(), 0, "only a pod that matches its own terms");
    let elsewhere =
        json!([{"labelSelector": {"matchLabels": {"app": "db"}}, "namespaces": ["other"], "topologyKey": "zone"}]);
    let answer = review(&nodes(), &[], &labelled(&["app=db"], required("podAffinity", elsewhere)));
    assert_eq!(answer.feasible(), 0, "its namespace included");
    let outside = [running("default/db", "none", &["app=db"], json!({}))];
    let answer = review(&nodes(), &outside, &labelled(&["app=db"], own.clone()));
    assert_eq!(fitting(&answer), ["a1", "a2", "b1"], "a matching pod on a node without the key makes no group");
    let started = [running("default/db", "b1", &["app=db"], json!({}))];
    let answer = review(&nodes(), &started, &labelled(&["app=db"], own));
    assert_eq!(fitting(&answer), ["b1"], "the second one follows the first");
    let half = required("podAffinity", json!([term("app=db", "zone"), term("tier=back", "zone")]));
    let answer = review(&nodes(), &started, &labelled(&["app=db", "tier=back"], half));
    assert_eq!(fitting(&answer), ["a1", "a2", "b1"], "a pod that matches one of two terms begins no group");
}

#[test]
fn own_anti_affinity_closes_domains() {
    let pods =
        [running("default/web", "a1", &["app=web"], json!({})), running("other/web", "b1", &["app=web"], json!({}))];
    let answer = review(&nodes(), &pods, &incoming(required("podAntiAffinity", json!([term("app=web", "zone")]))));
    assert_eq!(fitting(&answer), ["b1", "none"], "another namespace does not count; a node without the key passes");
    assert_eq!(answer.message(), "2/4 nodes are available: 2 node(s) didn't match pod anti-affinity rules.");
    let rejection = &report(&answer, "a2").rejections[0];
    assert_eq!((rejection.pod.as_deref(), rejection.label.as_deref()), (Some("default/web"), Some("zone=a")));
    assert_eq!(rejection.kind, "Unschedulable", "evicting it would help");
    let either = json!([term("app=web", HOST), term("app=db", "zone")]);
    let answer = review(&nodes(), &pods, &incoming(required("podAntiAffinity", either)));
    assert_eq!(fitting(&answer), ["a2", "b1", "none"], "each term closes its own domains");
    let own =
        review(&nodes(), &[], &labelled(&["app=web"], required("podAntiAffinity", json!([term("app=web", "zone")]))));
    assert_eq!(own.feasible(), 4, "a pod does not keep itself away");
}

#[test]
fn anti_affinity_of_existing_pods_closes_domains_for_others() {
    let guard = required("podAntiAffinity", json!([term("app=web", "zone")]));
    let pods = [running("default/guard", "a1", &[], guard.clone())];
    let answer = review(&nodes(), &pods, &labelled(&["app=web"], json!({})));
    assert_eq!(fitting(&answer), ["b1", "none"]);
    assert_eq!(
        answer.message(),
        "2/4 nodes are available: 2 node(s) didn't satisfy existing pods anti-affinity rules."
    );
    let rejection = &report(&answer, "a2").rejections[0];
    assert_eq!(rejection.pod.as_deref(), Some("default/guard"));
    let reported = rejection.term.as_ref().unwrap();
    assert_eq!(
        &*reported.field_path,
        "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]"
    );
    assert_eq!(&*reported.text, "pods with app=web in namespaces [default] (topology key zone)");
    assert_eq!(review(&nodes(), &pods, &labelled(&["app=db"], json!({}))).feasible(), 4, "others are not meant");
    let toward = required("podAffinity", json!([term("app=web", "zone")]));
    let affine = [running("default/friend", "a1", &[], toward)];
    let answer = review(&nodes(), &affine, &labelled(&["app=db"], json!({})));
    assert_eq!(answer.feasible(), 4, "affinity of existing pods never filters");
    let without_key = [running("default/guard", "none", &[], guard)];
    assert_eq!(
        review(&nodes(), &without_key, &labelled(&["app=web"], json!({}))).feasible(),
        4,
        "a guard in no domain closes none"
    );
}

#[test]
fn terms_of_others_about_labels_that_no_node_has_make_no_tables() {
    let other = |number: usize| {
        let spec = required("podAntiAffinity", json!([term("app=web", &format!("made-up-{number}"))]));
        running(&format!("default/other-{number}"), "n1", &[], spec)
    };
    let mut pods: Vec<_> = (0..100).map(other).collect();
    pods.push(running("default/zonal", "n1", &[], required("podAntiAffinity", json!([term("app=web", "zone")]))));
    let cluster = cluster(&nodes(), &pods);
    let incoming = Incoming::new(&labelled(&["app=web"], json!({})), &Options::default());
    let domains = Domains::new(&cluster, &incoming, &Options::default());
    let keys = domains.keys();
    assert_eq!(keys, ["zone"]);
}

#[test]
fn affinity_comes_before_own_and_others_anti_affinity() {
    let pods =
        [running("default/guard", "a1", &["app=old"], required("podAntiAffinity", json!([term("app=web", "zone")])))];
    let mut spec = required("podAffinity", json!([term("app=db", "zone")]));
    spec["affinity"]["podAntiAffinity"] =
        required("podAntiAffinity", json!([term("app=old", "zone")]))["affinity"]["podAntiAffinity"].clone();
    let answer = review(&nodes(), &pods, &labelled(&["app=web"], spec));
    assert_eq!(reasons(&answer, "a1"), ["PodAffinityMismatch", "PodAntiAffinityMismatch", "ExistingPodAntiAffinity"]);
    assert_eq!(answer.message(), "0/4 nodes are available: 4 node(s) didn't match pod affinity rules.");
}

#[test]
fn only_bound_pods_that_are_not_over_count() {
    let nodes = nodes();
    let away = required("podAntiAffinity", json!([term("app=web", HOST)]));
    let web = |phase: &str, node: &str| {
        let mut pod = running("default/web", node, &["app=web"], json!({}));
        pod.status.phase = phase.to_owned();
        pod
    };
    let rows = [
        (web("Running", "a1"), 3, "it runs"),
        (web("Pending", "a1"), 3, "it is bound"),
        (web("", "a1"), 3, "it has no phase yet"),
        (web("Unknown", "a1"), 3, "it is lost"),
        (web("Succeeded", "a1"), 4, "it is over"),
        (web("Failed", "a1"), 4, "it has failed"),
        (web("Pending", ""), 4, "it is not bound"),
        (web("Running", "nowhere"), 4, "its node is not known"),
    ];
    for (pod, feasible, why) in rows {
        assert_eq!(review(&nodes, &[pod], &incoming(away.clone())).feasible(), feasible, "{why}");
    }
}

#[test]
fn the_incoming_pod_never_counts() {
    let away = required("podAntiAffinity", json!([term("app=web", HOST)]));
    let stored = running("default/web", "a1", &["app=web"], away.clone());
    let mut waiting: Pod = stored.clone();
    waiting.spec.node_name = String::new();
    assert_eq!(review(&nodes(), std::slice::from_ref(&stored), &waiting).feasible(), 4, "by its name");
    let mut renamed = waiting.clone();
    renamed.metadata.name = "another".to_owned();
    assert_eq!(review(&nodes(), std::slice::from_ref(&stored), &renamed).feasible(), 4, "by its uid");
    renamed.metadata.uid = "another".to_owned();
    assert_eq!(review(&nodes(), &[stored], &renamed).feasible(), 3, "another pod does count");
}

#[test]
fn a_term_that_cannot_be_parsed_ends_the_cycle_or_is_void() {
    let broken = json!([term("app=web", "zone"), {"labelSelector": {"matchExpressions": [{"key": "app", "operator": "Gt", "values": ["1"]}]}, "topologyKey": "zone"}]);
    let answer = review(&nodes(), &[], &incoming(required("podAntiAffinity", broken.clone())));
    let message = answer.message();
    assert!(message.starts_with("0/4 nodes are available: parsing pod: spec.affinity.podAntiAffinity."), "{message}");
    let stored = [running("default/guard", "a1", &[], required("podAntiAffinity", broken))];
    let answer = review(&nodes(), &stored, &labelled(&["app=web"], json!({})));
    assert_eq!(answer.feasible(), 4, "of an existing pod the whole list is void");
}

#[test]
fn terms_are_reported_with_the_pods_that_they_select() {
    let pods = [
        running("default/db-0", "a1", &["app=db"], json!({})),
        running("default/db-1", "b1", &["app=db"], json!({})),
        running("default/db-2", "nowhere", &["app=db"], json!({})),
    ];
    let answer = review(&nodes(), &pods, &incoming(required("podAffinity", json!([term("app=db", "zone")]))));
    let [report] = &answer.terms()[..] else { panic!("one term: {:?}", answer.terms()) };
    assert_eq!(report.label_selector.as_deref(), Some("app=db"));
    assert_eq!(report.namespaces, ["default"]);
    assert_eq!(report.namespace_selector, None);
    assert_eq!((report.matching_pods, report.samples.len()), (2, 2), "on nodes that are known");
    assert!(report.samples.contains(&"default/db-1".to_owned()));
}

#[test]
fn where_kube_scheduler_errs_the_result_has_a_warning() {
    let excluding = json!([{
        "labelSelector": {"matchLabels": {"app": "x"}},
        "namespaceSelector": {"matchExpressions": [{"key": "colour", "operator": "NotIn", "values": ["red"]}]},
        "topologyKey": HOST,
    }]);
    let cluster = cluster(&nodes(), &[]);
    let pod = incoming(required("podAntiAffinity", excluding));
    let warnings = |target_minor: u32| cluster.review(&pod, &Options { target_minor, ..Options::default() }).warnings();
    assert!(warnings(36)[0].contains("kubernetes/kubernetes#141526"), "{:?}", warnings(36));
    assert!(warnings(33).is_empty(), "older releases are right");
}
