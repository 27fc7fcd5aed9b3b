//! Scores: raw, normalized, weighted.

use serde_json::{Value, json};

use super::{Options, cluster, incoming, labelled, node, preferred, required, running, tainted, term};
use crate::placement::evaluate::{fewest_is_best, least_to_most, most_is_best};
use crate::placement::options::Weights;
use crate::placement::{ClusterIndex, Pod};

/// (node, raw, normalized) of a plugin, by node.
fn scores(cluster: &ClusterIndex, pod: &Pod, options: &Options, plugin: &str) -> Vec<(String, i64, i64)> {
    let mut found: Vec<(String, i64, i64)> = Vec::new();
    for report in cluster.review(pod, options).nodes(&[]) {
        let of_plugin = report.scores.iter().filter(|score| score.plugin == plugin);
        found.extend(of_plugin.map(|score| (report.name.to_string(), score.raw, score.normalized)));
    }
    found.sort();
    found
}

fn expect(rows: &[(&str, i64, i64)]) -> Vec<(String, i64, i64)> {
    rows.iter().map(|(name, raw, normalized)| ((*name).to_owned(), *raw, *normalized)).collect()
}

#[test]
fn normalization_divides_as_upstream() {
    assert_eq!(most_is_best(&[0, 1, 2, 3]), [0, 33, 66, 100], "integers, cut off");
    assert_eq!(most_is_best(&[0, 0]), [0, 0], "nothing to share");
    assert_eq!(fewest_is_best(&[0, 1, 2, 3]), [100, 67, 34, 0], "reversed after the division");
    assert_eq!(fewest_is_best(&[0, 0]), [100, 100], "all best");
    assert_eq!(least_to_most(&[-5, 0, 5]), [0, 50, 100], "negative ones count from the least");
    assert_eq!(least_to_most(&[7, 7]), [0, 0], "no span");
    for (raw, of, expected) in [(29, 100, 28), (29, 50, 57), (57, 100, 56), (58, 100, 57), (30, 100, 30), (1, 3, 33)] {
        assert_eq!(least_to_most(&[0, raw, of])[1], expected, "{raw} of {of} in floating point");
    }
}

#[test]
fn taints_that_are_not_preferred_cost() {
    let nodes = [
        tainted("n0", &["a:NoSchedule"]),
        tainted("n1", &["a:PreferNoSchedule"]),
        tainted("n2", &["a:PreferNoSchedule", "b:PreferNoSchedule", "c:PreferNoSchedule"]),
        tainted("n3", &["tolerated:PreferNoSchedule"]),
    ];
    let spec = json!({"tolerations": [{"key": "tolerated", "operator": "Exists"}, {"key": "a", "operator": "Exists", "effect": "NoSchedule"}]});
    let found = scores(&cluster(&nodes, &[]), &incoming(spec), &Options::default(), "TaintToleration");
    assert_eq!(found, expect(&[("n0", 0, 100), ("n1", 1, 67), ("n2", 3, 0), ("n3", 0, 100)]));
}

#[test]
fn preferred_node_affinity_adds_weights() {
    let nodes = [node("n1", &["a=1", "b=2"]), node("n2", &["a=1"]), node("n3", &[])];
    let preference = |weight: i64, key: &str| json!({"weight": weight, "preference": {"matchExpressions": [{"key": key, "operator": "Exists"}]}});
    let with = |list: Value| {
        let spec = json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": list}}});
        scores(&cluster(&nodes, &[]), &incoming(spec), &Options::default(), "NodeAffinity")
    };
    assert_eq!(
        with(json!([preference(30, "a"), preference(40, "b")])),
        expect(&[("n1", 70, 100), ("n2", 30, 42), ("n3", 0, 0)])
    );
    assert_eq!(
        with(json!([preference(1, "zzz")])),
        expect(&[("n1", 0, 0), ("n2", 0, 0), ("n3", 0, 0)]),
        "no pod matches"
    );
    assert_eq!(
        with(json!([{"weight": 9, "preference": {}}, preference(0, "a"), preference(1, "b")])),
        expect(&[("n1", 1, 100), ("n2", 0, 0), ("n3", 0, 0)]),
        "an empty one and one without weight add nothing"
    );
    assert!(with(json!(null)).is_empty(), "no list, no scores");
    let added =
        serde_json::from_value(json!({"preferredDuringSchedulingIgnoredDuringExecution": [preference(5, "a")]}))
            .unwrap();
    let options = Options { added_affinity: Some(added), ..Options::default() };
    let found = scores(&cluster(&nodes, &[]), &incoming(json!({})), &options, "NodeAffinity");
    assert_eq!(found, expect(&[("n1", 5, 100), ("n2", 5, 100), ("n3", 0, 0)]), "the scheduler's own count too");
}

#[test]
fn a_preference_that_cannot_be_parsed_fails_the_cycle_when_there_is_a_choice() {
    let spec = json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 1, "preference": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["not a value!"]}]}},
    ]}}});
    let two = cluster(&[node("n1", &[]), node("n2", &[])], &[]).review(&incoming(spec.clone()), &Options::default());
    assert!(
        two.warnings()[0].starts_with("a preference of the Pod cannot be parsed, so the scheduler fails with an error"),
        "{:?}",
        two.warnings()
    );
    assert!(two.nodes(&[])[0].scores.is_empty(), "nothing is scored");
    assert_eq!(two.feasible(), 2);
    let one = cluster(&[node("n1", &[])], &[]).review(&incoming(spec), &Options::default());
    assert!(one.warnings().is_empty(), "with one node nothing is scored, and the pod is placed");
}

#[test]
fn pods_attract_and_repel_by_their_preferred_terms() {
    let nodes = [node("a1", &["zone=a"]), node("a2", &["zone=a"]), node("b1", &["zone=b"]), node("none", &[])];
    let pods = [
        running("default/db-0", "a1", &["app=db"], json!({})),
        running("default/db-1", "a2", &["app=db"], json!({})),
        running("default/db-2", "b1", &["app=db"], json!({})),
        running("default/db-3", "none", &["app=db"], json!({})),
    ];
    let toward = incoming(preferred("podAffinity", 10, term("app=db", "zone")));
    let found = scores(&cluster(&nodes, &pods), &toward, &Options::default(), "InterPodAffinity");
    assert_eq!(
        found,
        expect(&[("a1", 20, 100), ("a2", 20, 100), ("b1", 10, 50), ("none", 0, 0)]),
        "each pod counts in its domain"
    );
    let away = incoming(preferred("podAntiAffinity", 10, term("app=db", "zone")));
    let found = scores(&cluster(&nodes, &pods), &away, &Options::default(), "InterPodAffinity");
    assert_eq!(found, expect(&[("a1", -20, 0), ("a2", -20, 0), ("b1", -10, 50), ("none", 0, 100)]));
    let unmatched = incoming(preferred("podAffinity", 10, term("app=zzz", "zone")));
    assert!(
        scores(&cluster(&nodes, &pods), &unmatched, &Options::default(), "InterPodAffinity").is_empty(),
        "an empty table is skipped"
    );
}

#[test]
fn terms_of_existing_pods_move_scores_too() {
    let nodes = [node("a1", &["zone=a"]), node("b1", &["zone=b"]), node("c1", &["zone=c"]), node("d1", &["zone=d"])];
    let pods = [
        running("default/likes", "a1", &[], preferred("podAffinity", 7, term("app=web", "zone"))),
        running("default/dislikes", "b1", &[], preferred("podAntiAffinity", 3, term("app=web", "zone"))),
        running("default/needs", "c1", &[], required("podAffinity", json!([term("app=web", "zone")]))),
    ];
    let web = labelled(&["app=web"], json!({}));
    let with = |options: &Options, pod: &Pod| scores(&cluster(&nodes, &pods), pod, options, "InterPodAffinity");
    let expected = expect(&[("a1", 7, 100), ("b1", -3, 0), ("c1", 1, 40), ("d1", 0, 30)]);
    assert_eq!(with(&Options::default(), &web), expected, "required affinity counts hardPodAffinityWeight");
    let heavy = Options { hard_pod_affinity_weight: 100, ..Options::default() };
    assert_eq!(with(&heavy, &web)[2], ("c1".to_owned(), 100, 100));
    let off = Options { hard_pod_affinity_weight: 0, ..Options::default() };
    assert_eq!(with(&off, &web)[2], ("c1".to_owned(), 0, 30), "0 is off");
    let ignoring = Options { ignore_preferred_terms_of_existing_pods: true, ..Options::default() };
    assert!(with(&ignoring, &web).is_empty(), "skipped for a pod without preferred terms");
    let own = labelled(&["app=web"], preferred("podAffinity", 1, term("app=zzz", "zone")));
    assert_eq!(with(&ignoring, &own), expected, "but not for one that has some");
    let twice = json!({"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 2, "podAffinityTerm": term("app=web", "zone")}, {"weight": 2, "podAffinityTerm": term("app=web", "zone")},
    ]}}});
    let found = scores(
        &cluster(&nodes, &[running("default/twice", "a1", &[], twice)]),
        &web,
        &Options::default(),
        "InterPodAffinity",
    );
    assert_eq!(found[0], ("a1".to_owned(), 4, 100), "a term that is listed twice counts twice");
}

#[test]
fn only_feasible_nodes_are_scored_and_ordered_by_their_total() {
    let mut nodes = vec![
        tainted("a", &["x:PreferNoSchedule", "y:PreferNoSchedule"]),
        tainted("b", &["x:PreferNoSchedule"]),
        node("c", &[]),
    ];
    nodes.push(tainted("closed", &["z:NoSchedule", "x:PreferNoSchedule", "y:PreferNoSchedule", "w:PreferNoSchedule"]));
    let spec = json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 1, "preference": {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["b"]}]}},
    ]}}});
    let cluster = cluster(&nodes, &[]);
    let answer = cluster.review(&incoming(spec.clone()), &Options::default());
    let order: Vec<String> = answer.nodes(&[]).into_iter().map(|node| node.name.to_string()).collect();
    // b: 3 * 50 + 2 * 100; c: 3 * 100; a: 0. The closed node would have changed the value that is normalized to 100.
    assert_eq!(order, ["b", "c", "a", "closed"]);
    assert!(answer.nodes(&["closed".to_owned()])[0].scores.is_empty());
    let taints_only = Options {
        weights: Weights { taint_toleration: 1, node_affinity: 0, inter_pod_affinity: 0 },
        ..Options::default()
    };
    let order: Vec<String> = cluster
        .review(&incoming(spec), &taints_only)
        .nodes(&[])
        .into_iter()
        .map(|node| node.name.to_string())
        .collect();
    assert_eq!(order, ["c", "b", "a", "closed"], "weights are options; 0 leaves a plugin out");
}
