//! The work for a Pod grows with its length and not with the square of it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Options, cluster, incoming, labelled, node, required, running, tainted, term, with_containers};
use crate::placement::admission::{RuntimeScheduling, admit};
use crate::placement::effort::steps;
use crate::placement::explain::derived;
use crate::placement::labels::PackedLabels;
use crate::placement::question::Fetched;
use crate::placement::review::PlacementReviewSpec;
use crate::placement::{ClusterIndex, Node, Pod, too_many_carried_terms, validate};

/// A Pod whose terms of anti-affinity all select every Pod, or all select the same label.
fn carrier(name: &str, terms: usize, selector: &Value) -> Pod {
    let term = |index| json!({"labelSelector": selector, "topologyKey": format!("{name}-{index}")});
    let terms: Vec<Value> = (0..terms).map(term).collect();
    running(&format!("default/{name}"), "n1", &["app=x"], required("podAntiAffinity", json!(terms)))
}

#[test]
fn a_pod_of_many_terms_comes_changes_and_goes_in_as_many_steps() {
    const TERMS: usize = 400;
    for selector in [json!({}), json!({"matchLabels": {"app": "x"}})] {
        let others: Vec<Pod> = (0..3).map(|index| carrier(&format!("other{index}"), TERMS, &selector)).collect();
        let mut cluster = cluster(&[node("n1", &[])], &others);
        let mut pod = carrier("own", TERMS, &selector);
        let ((), added) = steps(|| assert!(cluster.upsert_pod(&pod)));
        assert_eq!(cluster.counts().terms, 4 * TERMS);
        pod.metadata.labels.insert("app".to_owned(), "y".to_owned());
        let ((), relabelled) = steps(|| assert!(cluster.upsert_pod(&pod)));
        let ((), removed) = steps(|| assert!(cluster.remove_pod("default", "own")));
        assert_eq!(cluster.counts().terms, 3 * TERMS, "its terms are gone");
        for (change, steps) in [("added", added), ("relabelled", relabelled), ("removed", removed)] {
            assert!(steps <= 3 * TERMS, "{change}: {steps} steps for {TERMS} terms of {selector}");
        }
        let all = ["other0", "other1", "other2"].map(|name| cluster.remove_pod("default", name));
        assert_eq!((all, cluster.counts().terms), ([true; 3], 0));
    }
}

#[test]
fn an_existing_pod_may_have_so_many_terms() {
    assert_eq!(too_many_carried_terms(&carrier("p", 1_024, &json!({})).spec), None);
    let many = too_many_carried_terms(&carrier("p", 1_025, &json!({})).spec);
    assert_eq!(
        many.as_deref(),
        Some("it has 1025 pod affinity terms, and placement evaluates at most 1024 of an existing Pod: remove some")
    );
}

#[test]
fn a_pod_that_rejects_many_nodes_is_found_once() {
    const NODES: usize = 40;
    const PODS: usize = 60;
    let nodes: Vec<Node> = (0..NODES).map(|index| node(&format!("n{index}"), &["zone=a"])).collect();
    let pods: Vec<Pod> =
        (0..PODS).rev().map(|index| running(&format!("default/p{index:02}"), "n0", &["app=x"], json!({}))).collect();
    let cluster = cluster(&nodes, &pods);
    let terms = vec![term("app=x", "zone"); 20];
    let pod = incoming(required("podAntiAffinity", json!(terms)));
    let ((reports, terms), steps) = steps(|| {
        let answer = cluster.review(&pod, &Options::default());
        (answer.nodes(&[]), answer.terms())
    });
    let named = |pod: &Option<std::sync::Arc<str>>| pod.as_deref() == Some("default/p00");
    assert!(reports.iter().flat_map(|node| &node.rejections).all(|rejection| named(&rejection.pod)), "{reports:?}");
    assert!(terms.iter().all(|term| term.samples == ["default/p00"]), "{terms:?}");
    assert!(steps < NODES * 20 + 2 * PODS, "{steps} steps for {NODES} nodes and {PODS} Pods on one of them");
}

#[test]
fn the_table_of_a_term_is_found_without_a_look_at_each() {
    const NODES: usize = 10;
    const TERMS: usize = 200;
    let nodes: Vec<Node> = (0..NODES).map(|index| node(&format!("n{index}"), &[])).collect();
    let terms: Vec<Value> = (0..TERMS).map(|index| term("app=x", &format!("key{index}"))).collect();
    let pod = incoming(required("podAffinity", json!(terms)));
    let (answer, steps) = steps(|| cluster(&nodes, &[]).review(&pod, &Options::default()));
    assert_eq!(answer.feasible(), 0);
    assert!(steps < 4 * NODES * TERMS, "{steps} steps for {NODES} nodes and {TERMS} terms");
}

#[test]
fn one_of_many_labels_is_found_without_a_look_at_each() {
    for number in [0, 1, 16, 17, 1_000] {
        let labels: BTreeMap<String, String> =
            (0..number).map(|index| (format!("key{index:04}"), format!("value{index}"))).collect();
        let packed = PackedLabels::new(&labels);
        let ((), steps) = steps(|| {
            for (key, value) in &labels {
                assert_eq!(packed.get(key), Some(value.as_str()));
            }
            for absent in ["", "a", "key", "key0005x", "keyz"] {
                assert_eq!(packed.get(absent), None, "{absent} among {number}");
            }
        });
        assert!(steps <= (number + 5) * 16, "{steps} steps for {number} labels");
    }
}

#[test]
fn label_keys_are_looked_up_and_not_compared_with_each_other() {
    const KEYS: usize = 500;
    let keys = |kind: &str| -> Vec<String> { (0..KEYS).map(|index| format!("{kind}{index}")).collect() };
    let expressions: Vec<Value> =
        keys("e").into_iter().map(|key| json!({"key": key, "operator": "In", "values": ["v"]})).collect();
    let term = json!({
        "labelSelector": {"matchExpressions": expressions}, "topologyKey": "zone",
        "matchLabelKeys": keys("m"), "mismatchLabelKeys": keys("n"),
    });
    let pod = incoming(required("podAffinity", json!([term])));
    let (problems, validated) = steps(|| validate::pod(&pod, &Options::default()));
    assert_eq!(problems, []);
    let term = &pod.spec.pod_affinity().unwrap().required[0];
    let (derived, explained) = steps(|| derived(term));
    assert_eq!(derived, Vec::<String>::new());
    for (work, steps) in [("validated", validated), ("explained", explained)] {
        assert!(steps <= 2 * KEYS, "{work} in {steps} steps");
    }
}

/// Reviews a new Pod.
fn reviewed(cluster: &ClusterIndex, spec: Value, runtime: Option<&RuntimeScheduling>) -> Result<String, String> {
    let review: PlacementReviewSpec = serde_json::from_value(with_containers(json!({"pod": {"spec": spec}}))).unwrap();
    let fetched = Fetched { stored: None, runtime };
    let reviewed = review.answer(cluster, fetched, &Options::default()).map_err(|refusal| refusal.to_string())?;
    Ok(reviewed.answer.message())
}

#[test]
fn a_pod_of_very_many_requirements_or_tolerations_is_not_evaluated() {
    let cluster = cluster(&[tainted("n1", &["a=b:NoSchedule"])], &[]);
    // Admission adds two tolerations.
    let tolerations = |number: usize| -> Vec<Value> {
        (2..number).map(|index| json!({"key": format!("k{index}"), "operator": "Exists"})).collect()
    };
    let selector = |number: usize| -> Value {
        (2..number).map(|index| (format!("k{index}"), json!("v"))).collect::<serde_json::Map<_, _>>().into()
    };
    let expressions = |number: usize| -> Value {
        let expressions: Vec<Value> =
            (2..number).map(|index| json!({"key": format!("k{index}"), "operator": "DoesNotExist"})).collect();
        let term = json!({"labelSelector": {"matchExpressions": expressions}, "topologyKey": "zone"});
        required("podAffinity", json!([term]))["affinity"].clone()
    };
    let detail =
        "Invalid value: the Pod has 1025 requirements, label keys and tolerations; a review evaluates at most 1024";
    for (field, few, many) in [
        ("tolerations", json!(tolerations(1_024)), json!(tolerations(1_025))),
        ("nodeSelector", selector(1_024), selector(1_025)),
        ("affinity", expressions(1_024), expressions(1_025)),
    ] {
        reviewed(&cluster, json!({field: few}), None).unwrap();
        assert_eq!(reviewed(&cluster, json!({field: many}), None), Err(format!("spec.{field}: {detail}")));
    }
    let class = RuntimeScheduling::default();
    let pod = incoming(json!({"tolerations": tolerations(2_000)}));
    let (refused, steps) = steps(|| admit(pod, Some(&class), &Options::default()).unwrap_err().to_string());
    assert_eq!((&*refused, steps), ("spec.tolerations: Too many: 2000: must have at most 1024 items", 0));
}

#[test]
fn the_message_about_scheduling_gates_has_a_bound_because_each_node_repeats_it() {
    let gates: Vec<Value> = (0..5_000).map(|index| json!({"name": format!("example.com/gate-{index}")})).collect();
    let cluster = cluster(&[node("n1", &[])], &[]);
    let answer = cluster.review(&labelled(&[], json!({"schedulingGates": gates})), &Options::default());
    let rejections = answer.nodes(&[]).remove(0).rejections;
    let message = &rejections[0].message;
    assert!(message.len() < 1_100 && message.ends_with(" bytes)"), "{message}");
    assert!(answer.message().len() < 1_100);
}

#[test]
fn a_document_has_at_most_a_hundred_values_of_another_shape() {
    let spec: PlacementReviewSpec =
        serde_json::from_value(json!({"pod": {"spec": {"tolerations": vec![1; 5_000]}}})).unwrap();
    assert_eq!(spec.shape_errors().misshapen.len(), 100);
}
