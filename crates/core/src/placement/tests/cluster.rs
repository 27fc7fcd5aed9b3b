//! The index: objects in any order, changes without effect, points in time, and objects read from JSON.

use serde_json::json;

use super::{Options, cluster, fitting, incoming, labelled, namespace, node, required, review, running, term};
use crate::placement::cluster::ClusterCounts;
use crate::placement::{ClusterIndex, Namespace, Node, Pod};

#[test]
fn objects_come_in_any_order() {
    let away = incoming(required("podAntiAffinity", json!([term("app=x", "zone")])));
    let mut cluster = ClusterIndex::default();
    cluster.upsert_pod(&running("default/p", "late", &["app=x"], json!({})));
    cluster.upsert_node(&node("other", &["zone=a"]));
    assert_eq!(
        fitting(&cluster.review(&away, &Options::default())),
        ["other"],
        "a pod of an unknown node counts nowhere"
    );
    cluster.upsert_node(&node("late", &["zone=a"]));
    assert_eq!(cluster.review(&away, &Options::default()).feasible(), 0, "until its node comes");
    cluster.upsert_node(&node("late", &["zone=b"]));
    assert_eq!(fitting(&cluster.review(&away, &Options::default())), ["other"], "its domain follows the node's label");
    cluster.upsert_node(&node("late", &["zone=a"]));
    assert_eq!(cluster.review(&away, &Options::default()).feasible(), 0, "and back");
    assert!(cluster.remove_node("late"));
    assert!(!cluster.remove_node("late"), "it is gone");
    assert_eq!(fitting(&cluster.review(&away, &Options::default())), ["other"], "and its pods are in no domain");
    assert_eq!(cluster.review(&away, &Options::default()).total(), 1);
    cluster.upsert_node(&node("late", &["zone=a"]));
    assert_eq!(cluster.review(&away, &Options::default()).feasible(), 0, "its pods have waited");
}

#[test]
fn a_pod_moves_with_its_labels_its_node_and_its_end() {
    let nodes = [node("n1", &[]), node("n2", &[])];
    let away = incoming(required("podAntiAffinity", json!([term("app=x", "kubernetes.io/hostname")])));
    let mut cluster = cluster(&nodes, &[]);
    let fits = |cluster: &ClusterIndex| fitting(&cluster.review(&away, &Options::default()));
    let mut pod = running("default/p", "n1", &["app=x"], json!({}));
    assert!(cluster.upsert_pod(&pod));
    assert_eq!(fits(&cluster), ["n2"]);
    pod.spec.node_name = "n2".to_owned();
    assert!(cluster.upsert_pod(&pod));
    assert_eq!(fits(&cluster), ["n1"], "created again on another node");
    pod.metadata.labels.insert("app".to_owned(), "y".to_owned());
    assert!(cluster.upsert_pod(&pod));
    assert_eq!(fits(&cluster), ["n1", "n2"], "relabelled");
    pod.metadata.labels.insert("app".to_owned(), "x".to_owned());
    assert!(cluster.upsert_pod(&pod));
    pod.status.phase = "Succeeded".to_owned();
    assert!(cluster.upsert_pod(&pod));
    assert_eq!(fits(&cluster), ["n1", "n2"], "over");
    assert!(cluster.remove_pod("default", "p"));
    assert!(!cluster.remove_pod("default", "p"));
}

#[test]
fn what_placement_does_not_see_changes_nothing() {
    let mut cluster = cluster(&[], &[]);
    let of = |text: &str| Node::read(text.as_bytes()).unwrap();
    assert!(cluster.upsert_node(&of(r#"{"metadata":{"name":"n1"},"status":{"conditions":[{"type":"Ready","status":"True","lastHeartbeatTime":"1"}]}}"#)));
    assert!(!cluster.upsert_node(&of(r#"{"metadata":{"name":"n1","resourceVersion":"2"},"status":{"conditions":[{"type":"Ready","status":"True","lastHeartbeatTime":"2"}]}}"#)), "a heartbeat");
    assert!(cluster.upsert_node(&of(r#"{"metadata":{"name":"n1"},"spec":{"unschedulable":true}}"#)), "a cordon");
    let pod = |text: &str| Pod::read(text.as_bytes()).unwrap();
    assert!(cluster.upsert_pod(&pod(
        r#"{"metadata":{"namespace":"a","name":"p"},"spec":{"nodeName":"n1"},"status":{"phase":"Pending"}}"#
    )));
    assert!(!cluster.upsert_pod(&pod(r#"{"metadata":{"namespace":"a","name":"p"},"spec":{"nodeName":"n1","containers":[{"name":"c"}]},"status":{"phase":"Running","podIP":"10.0.0.1"}}"#)), "it runs now");
    assert!(cluster.upsert_pod(&pod(r#"{"metadata":{"namespace":"a","name":"p"},"spec":{"nodeName":"n1","tolerations":[{"operator":"Exists"}]}}"#)), "a toleration");
    assert!(cluster.upsert_namespace(&namespace("a", &["x=y"])));
    assert!(!cluster.upsert_namespace(&namespace("a", &["x=y"])));
    assert!(cluster.remove_namespace("a"));
    assert!(!cluster.remove_namespace("a"));
}

#[test]
fn pods_of_a_template_are_one_group_and_their_terms_are_held_once() {
    let spec = required("podAntiAffinity", json!([term("app=x", "zone")]));
    let pods: Vec<Pod> = (0..50)
        .map(|index| running(&format!("default/p{index}"), &format!("n{}", index % 5), &["app=x"], spec.clone()))
        .collect();
    let nodes: Vec<Node> = (0..5).map(|index| node(&format!("n{index}"), &[])).collect();
    let mut cluster = cluster(&nodes, &pods);
    assert_eq!(cluster.counts(), ClusterCounts { nodes: 5, pods: 50, namespaces: 1, groups: 1, terms: 1 });
    cluster.upsert_pod(&running("default/p0", "n0", &["app=y"], spec.clone()));
    assert_eq!(
        cluster.counts(),
        ClusterCounts { nodes: 5, pods: 50, namespaces: 1, groups: 2, terms: 1 },
        "another label, another group"
    );
    cluster.upsert_pod(&running("other/p0", "n0", &["app=x"], spec));
    assert_eq!(cluster.counts().terms, 2, "the same words mean another namespace there");
    for pod in &pods {
        cluster.remove_pod("default", &pod.metadata.name);
    }
    cluster.remove_pod("other", "p0");
    assert_eq!(
        cluster.counts(),
        ClusterCounts { nodes: 5, pods: 0, namespaces: 1, groups: 0, terms: 0 },
        "nothing is left"
    );
}

#[test]
fn a_clone_is_a_point_in_time() {
    let mut cluster = cluster(&[node("n1", &[])], &[]);
    let before = cluster.clone();
    cluster.upsert_node(&node("n2", &[]));
    cluster.upsert_pod(&running(
        "default/guard",
        "n1",
        &[],
        required("podAntiAffinity", json!([{"labelSelector": {}, "topologyKey": "kubernetes.io/hostname"}])),
    ));
    let pod = labelled(&[], json!({}));
    assert_eq!(fitting(&before.review(&pod, &Options::default())), ["n1"]);
    assert_eq!(fitting(&cluster.review(&pod, &Options::default())), ["n2"]);
}

#[test]
fn null_reads_as_absent_and_another_type_is_rejected() {
    let null = br#"{"metadata":{"namespace":"a","name":"p","labels":null},"spec":{"nodeName":null,"affinity":{"podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":null}},"tolerations":null,"nodeSelector":null},"status":null}"#;
    let pod = Pod::read(null).unwrap();
    assert_eq!(pod.key(), "a/p");
    assert!(pod.spec.tolerations.is_empty() && pod.spec.node_name.is_empty());
    let term = br#"{"spec":{"affinity":{"podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"labelSelector":null,"namespaceSelector":{},"topologyKey":"z"}]}}}}"#;
    let term = Pod::read(term).unwrap().spec.pod_affinity().unwrap().required[0].clone();
    assert_eq!(
        (term.label_selector, term.namespace_selector),
        (None, Some(Default::default())),
        "null and {{}} differ"
    );
    let rows: [(&[u8], &str); 4] = [
        (b"", "cannot read the Pod: EOF"),
        (br#"{"spec":{"tolerations":[{"tolerationSeconds":"5"}]}}"#, "cannot read the Pod: invalid type: string"),
        (br#"{"spec":{"nodeSelector":{"a":true}}}"#, "cannot read the Pod: invalid type: boolean"),
        (br#"{"metadata":{"labels":{"a":1}}}"#, "cannot read the Pod: invalid type: integer"),
    ];
    for (json, expected) in rows {
        let message = Pod::read(json).unwrap_err().to_string();
        assert!(message.starts_with(expected), "{message}");
    }
    assert!(Node::read(br#"{"spec":{"taints":{}}}"#).is_err());
    let own = Namespace::read(br#"{"metadata":{"name":"a"}}"#).unwrap();
    assert_eq!(own.metadata.labels["kubernetes.io/metadata.name"], "a", "a namespace carries its name");
}

#[test]
fn every_label_of_a_node_may_be_a_topology() {
    let nodes = [node("n1", &["x="]), node("n2", &["x="]), node("n3", &[])];
    let pods = [running("default/p", "n1", &["app=x"], json!({}))];
    let answer = review(&nodes, &pods, &incoming(required("podAffinity", json!([term("app=x", "x")]))));
    assert_eq!(fitting(&answer), ["n1", "n2"], "the empty value is a domain");
}

#[test]
fn objects_that_come_and_go_leave_no_growing_memory() {
    let mut cluster = cluster(&[node("stays", &[])], &[]);
    let mut round = |name: String| {
        let mut spec = required("podAntiAffinity", json!([term(&format!("app={name}"), "zone")]));
        spec["tolerations"] = json!([{"key": name, "operator": "Exists"}]);
        for node in ["stays", &name] {
            cluster.upsert_pod(&running(
                &format!("default/{name}-{node}"),
                node,
                &[&format!("app={name}")],
                spec.clone(),
            ));
        }
        cluster.upsert_node(&node(&name, &[]));
        for node in ["stays", &name] {
            assert!(cluster.remove_pod("default", &format!("{name}-{node}")));
        }
        assert!(cluster.remove_node(&name));
        cluster.slots()
    };
    let once = round("first".to_owned());
    for index in 0..20 {
        assert_eq!(round(format!("n{index}")), once, "slots and pooled values after round {index}");
    }
}
