//! The stories, samples and steps of KEP-3633, matchLabelKeys and mismatchLabelKeys in pod (anti-)affinity.

use serde_json::{Value, json};

use super::{Options, cluster, fitting, labelled, node, reasons, required, running, with_containers};
use crate::placement::admission::admit;
use crate::placement::pod::Pod;
use crate::placement::question::Fetched;
use crate::placement::review::PlacementReviewSpec;
use crate::placement::{ClusterIndex, Node, TermList};

const HASH: &str = "pod-template-hash";

fn created(labels: &[&str], spec: Value) -> Pod {
    admit(labelled(labels, spec), None, &Options::default()).unwrap()
}

fn fits(cluster: &ClusterIndex, pod: &Pod) -> Vec<String> {
    fitting(&cluster.review(pod, &Options::default()))
}

#[test]
fn the_sample_pod_is_stored_as_the_kep_shows_it() {
    let sample = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "sample", "namespace": "sample-namespace", "labels": {"tenant": "tenant-a"}},
        "spec": {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
            "mismatchLabelKeys": ["tenant"],
            "labelSelector": {"matchExpressions": [{"key": "tenant", "operator": "Exists"}]},
            "topologyKey": "node-pool",
        }]}}},
    });
    let pod = admit(serde_json::from_value(sample).unwrap(), None, &Options::default()).unwrap();
    assert_eq!(
        serde_json::to_value(&pod.spec.affinity).unwrap(),
        json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
            "mismatchLabelKeys": ["tenant"],
            "labelSelector": {"matchExpressions": [
                {"key": "tenant", "operator": "Exists"},
                {"key": "tenant", "operator": "NotIn", "values": ["tenant-a"]},
            ]},
            "topologyKey": "node-pool",
        }]}}),
        "the user's expression first, the derived one behind it, the list kept"
    );
}

/// Each of `full` nodes runs one pod of the old revision; the others are empty.
fn upgrading(full: usize, empty: usize) -> ClusterIndex {
    let nodes: Vec<Node> = (0..full + empty).map(|index| node(&format!("n{index}"), &[])).collect();
    cluster(&nodes, &old_pods(full, false))
}

/// A pod of the old revision on each of the first nodes, alone there among all of the app, or of its revision if
/// `scoped`.
fn old_pods(count: usize, scoped: bool) -> Vec<Pod> {
    let labels = ["app=x", "pod-template-hash=old"];
    let affinity = created(&labels, alone(scoped)).spec.affinity;
    let pod = |index: usize| {
        let mut pod = running(&format!("default/old-{index}"), &format!("n{index}"), &labels, json!({}));
        pod.spec.affinity.clone_from(&affinity);
        pod
    };
    (0..count).map(pod).collect()
}

/// One pod of the app on a node, of the own revision only if `scoped`.
fn alone(scoped: bool) -> Value {
    let mut term = super::term("app=x", "kubernetes.io/hostname");
    if scoped {
        term["matchLabelKeys"] = json!([HASH]);
    }
    required("podAntiAffinity", json!([term]))
}

#[test]
fn a_rolling_upgrade_of_a_full_cluster_needs_the_field() {
    let new = ["app=x", "pod-template-hash=new"];
    let plain = created(&new, alone(false));
    let scoped = created(&new, alone(true));
    let full = upgrading(3, 0);
    let answer = full.review(&plain, &Options::default());
    assert_eq!(answer.message(), "0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules.");
    let answer = full.review(&scoped, &Options::default());
    assert_eq!(answer.feasible(), 0, "the field of the new revision does not undo the anti-affinity of the old pods");
    assert_eq!(reasons(&answer, "n0"), ["ExistingPodAntiAffinity"]);
    // Once both revisions carry the field, they do not see each other.
    let mut both = full.clone();
    for pod in old_pods(3, true) {
        both.upsert_pod(&pod);
    }
    assert_eq!(fits(&both, &scoped), ["n0", "n1", "n2"]);
    let again = created(&["app=x", "pod-template-hash=old"], alone(true));
    assert_eq!(both.review(&again, &Options::default()).feasible(), 0, "within a revision it still holds");
}

#[test]
fn on_an_idle_cluster_good_nodes_are_filtered_out_without_the_field() {
    let mut idle = upgrading(2, 2);
    for pod in old_pods(2, true) {
        idle.upsert_pod(&pod);
    }
    let new = ["app=x", "pod-template-hash=new"];
    assert_eq!(fits(&idle, &created(&new, alone(false))), ["n2", "n3"]);
    assert_eq!(fits(&idle, &created(&new, alone(true))), ["n0", "n1", "n2", "n3"]);
}

fn application_server(labels: Value) -> PlacementReviewSpec {
    let term = json!({
        "labelSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["database"]}]},
        "topologyKey": "topology.kubernetes.io/zone", "matchLabelKeys": [HASH],
    });
    let template = json!({"metadata": {"labels": labels}, "spec": required("podAffinity", json!([term]))});
    let deployment =
        json!({"kind": "Deployment", "metadata": {"name": "application-server"}, "spec": {"template": template}});
    serde_json::from_value(with_containers(json!({"template": deployment}))).unwrap()
}

#[test]
fn story_one_is_satisfiable_only_if_the_deployments_own_pods_are_selected() {
    let nodes = [node("a", &["topology.kubernetes.io/zone=a"]), node("b", &["topology.kubernetes.io/zone=b"])];
    let database = running("default/db", "a", &["app=database"], json!({}));
    let cluster = cluster(&nodes, &[database]);
    let answer = |labels: Value| {
        let reviewed = application_server(labels).answer(&cluster, Fetched::default(), &Options::default());
        reviewed.unwrap().answer
    };
    // The KEP's example does not show the labels of its pods. With their own app label no pod carries both.
    let pending = answer(json!({"app": "application-server"}));
    assert_eq!(pending.message(), "0/2 nodes are available: 2 node(s) didn't match pod affinity rules.");
    assert_eq!(pending.terms()[0].label_selector.as_deref(), Some("app=database,pod-template-hash=new"));
    assert_eq!(pending.terms()[0].derived, ["pod-template-hash=new"]);
    let first = answer(json!({"app": "database"}));
    assert_eq!(
        fitting(&first),
        ["a", "b"],
        "the first of its revision may go anywhere, the old database does not count"
    );
}

/// The affinity of the second story. As printed its first term has no labelSelector and is refused; `{}` is meant.
fn tenant_affinity(selector: Value) -> Value {
    json!({"affinity": {
        "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": selector, "matchLabelKeys": ["tenant"], "topologyKey": "node-pool"},
        ]},
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
            "mismatchLabelKeys": ["tenant"],
            "labelSelector": {"matchExpressions": [{"key": "tenant", "operator": "Exists"}]},
            "topologyKey": "node-pool",
        }]},
    }})
}

#[test]
fn story_two_gives_each_tenant_a_node_pool_of_its_own() {
    let printed = admit(labelled(&["tenant=a"], tenant_affinity(Value::Null)), None, &Options::default());
    let path = "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]";
    let refused = format!("{path}.matchLabelKeys: Forbidden: must not be specified when labelSelector is not set");
    assert_eq!(printed.unwrap_err().to_string(), refused);
    let nodes = [
        node("one-1", &["node-pool=one"]),
        node("one-2", &["node-pool=one"]),
        node("two-1", &["node-pool=two"]),
        node("three-1", &["node-pool=three"]),
    ];
    let tenant = |label: &str| created(&[label], tenant_affinity(json!({})));
    let placed = |key: &str, place: &str, label: &str| {
        let mut pod = running(key, place, &[label], json!({}));
        pod.spec.affinity = tenant(label).spec.affinity;
        pod
    };
    let mut cluster = cluster(&nodes, &[running("default/system", "three-1", &["app=agent"], json!({}))]);
    assert_eq!(
        fits(&cluster, &tenant("tenant=a")).len(),
        4,
        "the first tenant has the choice; pods of no tenant do not count"
    );
    cluster.upsert_pod(&placed("default/a-0", "one-1", "tenant=a"));
    assert_eq!(fits(&cluster, &tenant("tenant=a")), ["one-1", "one-2"], "the next one of a tenant goes to its pool");
    assert_eq!(fits(&cluster, &tenant("tenant=b")), ["three-1", "two-1"], "another tenant to another pool");
    let answer = cluster.review(&tenant("tenant=b"), &Options::default());
    assert_eq!(reasons(&answer, "one-2"), ["PodAntiAffinityMismatch", "ExistingPodAntiAffinity"], "both ways");
    cluster.upsert_pod(&placed("default/b-0", "two-1", "tenant=b"));
    assert_eq!(fits(&cluster, &tenant("tenant=c")), ["three-1"]);
}

#[test]
fn without_exists_not_in_means_pods_of_no_tenant_too() {
    let term = json!([{"labelSelector": {}, "mismatchLabelKeys": ["tenant"], "topologyKey": "node-pool"}]);
    let pod = created(&["tenant=a"], required("podAntiAffinity", term));
    let nodes = [node("n1", &["node-pool=one"]), node("n2", &["node-pool=two"])];
    let cluster = cluster(&nodes, &[running("default/agent", "n1", &["app=agent"], json!({}))]);
    assert_eq!(fits(&cluster, &pod), ["n2"]);
}

#[test]
fn affinity_and_anti_affinity_filter_and_score_with_the_feature_on_and_off() {
    let nodes = [node("n1", &["zone=a"]), node("n2", &["zone=b"])];
    let pods = [
        running("default/old", "n1", &["app=x", "version=1"], json!({})),
        running("default/new", "n2", &["app=x", "version=2"], json!({})),
    ];
    let cluster = cluster(&nodes, &pods);
    let mut term = super::term("app=x", "zone");
    term["matchLabelKeys"] = json!(["version"]);
    let on = Options::default();
    let off = Options { target_minor: 30, ..Options::default() };
    let labels = ["app=x", "version=2"];
    // Member, whether required, with the feature, without it: nodes that fit, best first, and their raw scores.
    type Row = (&'static str, bool, &'static [(&'static str, i64)], &'static [(&'static str, i64)]);
    let rows: [Row; 4] = [
        ("podAffinity", true, &[("n2", 0)], &[("n1", 0), ("n2", 0)]),
        ("podAntiAffinity", true, &[("n1", 0)], &[]),
        ("podAffinity", false, &[("n2", 5), ("n1", 0)], &[("n1", 5), ("n2", 5)]),
        ("podAntiAffinity", false, &[("n1", 0), ("n2", -5)], &[("n1", -5), ("n2", -5)]),
    ];
    for (member, is_required, with_feature, without) in rows {
        let spec =
            if is_required { required(member, json!([term])) } else { super::preferred(member, 5, term.clone()) };
        for (options, expected, gate) in [(&on, with_feature, "on"), (&off, without, "off")] {
            let pod = admit(labelled(&labels, spec.clone()), None, options).unwrap();
            let nodes = cluster.review(&pod, options).nodes(&[]);
            let found: Vec<(String, i64)> = nodes
                .into_iter()
                .filter(|node| node.fits)
                .map(|node| {
                    (
                        node.name.to_string(),
                        node.scores
                            .iter()
                            .filter(|score| score.plugin == "InterPodAffinity")
                            .map(|score| score.raw)
                            .sum(),
                    )
                })
                .collect();
            let expected: Vec<(String, i64)> = expected.iter().map(|(name, raw)| ((*name).to_owned(), *raw)).collect();
            assert_eq!(found, expected, "{member}, required: {is_required}, feature {gate}");
        }
    }
}

#[test]
fn stored_pods_are_evaluated_as_stored_through_every_step_of_enabling_and_disabling() {
    let off = Options { target_minor: 30, ..Options::default() };
    let on = Options::default();
    let mut term = super::term("app=x", "zone");
    term["matchLabelKeys"] = json!(["version"]);
    let written = labelled(&["app=x", "version=2"], required("podAffinity", json!([term])));
    let nodes = [node("n1", &["zone=a"]), node("n2", &["zone=b"])];
    let cluster = cluster(&nodes, &[running("default/old", "n1", &["app=x", "version=1"], json!({}))]);
    let mut stored: Vec<(Pod, usize)> = Vec::new();
    // Disabled, enabled, disabled, enabled: a pod is created in each phase, and all earlier ones are looked at again.
    for (phase, options) in [&off, &on, &off, &on].into_iter().enumerate() {
        let pod = admit(written.clone(), None, options).unwrap();
        let expressions =
            TermList::RequiredAffinity.written(&pod.spec)[0].0.label_selector.as_ref().unwrap().match_expressions.len();
        assert_eq!(expressions, phase % 2, "a pod created in phase {phase}");
        stored.push((pod, phase));
        for (pod, created_in) in &stored {
            let fits = fitting(&cluster.review(pod, options));
            // Merged, it is the first of its version; unmerged, it follows any running pod.
            let expected = if created_in % 2 == 1 { vec!["n1", "n2"] } else { vec!["n1"] };
            assert_eq!(fits, expected, "in phase {phase} the pod of phase {created_in}");
        }
    }
}

#[test]
fn nothing_is_added_beyond_the_listed_keys() {
    let spec = alone(true);
    let pod = created(&["app=x", "pod-template-hash=h", "other=1"], spec);
    let (term, _) = TermList::RequiredAntiAffinity.written(&pod.spec)[0];
    let expressions = &term.label_selector.as_ref().unwrap().match_expressions;
    assert_eq!(expressions.len(), 1);
    let untouched = labelled(&["app=x"], alone(false));
    let admitted = admit(untouched.clone(), None, &Options::default()).unwrap();
    assert_eq!(admitted.spec.affinity, untouched.spec.affinity, "without the fields nothing changes");
}

#[test]
fn the_rejected_alternative_is_refused_and_its_examples_can_be_written() {
    let with = |operator: &str| json!([{"labelSelector": {"matchExpressions": [{"key": "pod-set", "operator": operator}]}, "topologyKey": "kubernetes.io/hostname"}]);
    for operator in ["ExistsWithSameValue", "ExistsWithDifferentValue"] {
        let refused =
            admit(labelled(&["pod-set=A"], required("podAffinity", with(operator))), None, &Options::default())
                .unwrap_err();
        assert!(
            refused
                .to_string()
                .contains(&format!("operator: Invalid value: \"{operator}\": not a valid selector operator")),
            "{refused}"
        );
    }
    // A set of pods that stays together and apart from other sets.
    let same = json!([{"labelSelector": {}, "matchLabelKeys": ["pod-set"], "topologyKey": "kubernetes.io/hostname"}]);
    let other = json!([{"labelSelector": {"matchExpressions": [{"key": "pod-set", "operator": "Exists"}]}, "mismatchLabelKeys": ["pod-set"], "topologyKey": "kubernetes.io/hostname"}]);
    let mut spec = required("podAffinity", same);
    spec["affinity"]["podAntiAffinity"] = required("podAntiAffinity", other)["affinity"]["podAntiAffinity"].clone();
    let cluster = cluster(
        &[node("n1", &[]), node("n2", &[]), node("n3", &[])],
        &[running("default/a", "n1", &["pod-set=A"], json!({})), running("default/b", "n2", &["pod-set=B"], json!({}))],
    );
    assert_eq!(fits(&cluster, &created(&["pod-set=A"], spec.clone())), ["n1"]);
    assert_eq!(fits(&cluster, &created(&["pod-set=C"], spec)), ["n3"]);
}
