//! The examples of "Assigning Pods to Nodes" of the Kubernetes documentation, with the verdicts that they have today.

use serde_json::{Value, json};

use super::{
    Options, cluster, fitting, incoming, node, reasons, report, required, review, running, tainted, term,
    with_containers,
};
use crate::placement::admission::admit;
use crate::placement::question::Fetched;
use crate::placement::review::PlacementReviewSpec;
use crate::placement::toleration::{Eviction, eviction};
use crate::placement::{Node, Pod, Taint};

const HOST: &str = "kubernetes.io/hostname";

fn created(document: Value) -> Pod {
    admit(serde_json::from_value(document).unwrap(), None, &Options::default()).unwrap()
}

#[test]
fn a_pod_goes_to_the_node_that_was_labelled_disktype_ssd() {
    let pod = created(json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "nginx", "labels": {"env": "test"}},
        "spec": {
            "containers": [{"name": "nginx", "image": "nginx", "imagePullPolicy": "IfNotPresent"}],
            "nodeSelector": {"disktype": "ssd"},
        },
    }));
    let before = [node("node-1", &[]), node("node-2", &[])];
    let answer = review(&before, &[], &pod);
    assert_eq!(answer.message(), "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector.");
    assert_eq!(report(&answer, "node-1").rejections[0].label.as_deref(), Some("!disktype"));
    let after = [node("node-1", &["disktype=ssd"]), node("node-2", &[])];
    assert_eq!(fitting(&review(&after, &[], &pod)), ["node-1"]);
}

#[test]
fn names_of_label_keys_may_have_upper_case_letters_but_their_prefixes_may_not() {
    let selects = |key: &str| {
        let pod: Pod = serde_json::from_value(json!({"spec": {"nodeSelector": {key: "v"}}})).unwrap();
        admit(pod, None, &Options::default()).is_ok()
    };
    for (key, is_fine) in
        [("diskType", true), ("Disk", true), ("example.com/DiskType", true), ("Example.com/disk", false)]
    {
        assert_eq!(selects(key), is_fine, "{key}");
    }
}

/// A pod and its verdict on e2e-az1, e2e-az2, e2e-az3 and a node without the label; az2 is preferred.
#[test]
fn with_node_affinity_is_placed_in_one_of_two_zones_and_prefers_a_label() {
    let pod = created(json!({"metadata": {"name": "with-node-affinity"}, "spec": {"affinity": {"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "kubernetes.io/e2e-az-name", "operator": "In", "values": ["e2e-az1", "e2e-az2"]},
        ]}]},
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {"matchExpressions": [
            {"key": "another-node-label-key", "operator": "In", "values": ["another-node-label-value"]},
        ]}}],
    }}}}));
    let nodes = [
        node("az1", &["kubernetes.io/e2e-az-name=e2e-az1"]),
        node("az2", &["kubernetes.io/e2e-az-name=e2e-az2", "another-node-label-key=another-node-label-value"]),
        node("az3", &["kubernetes.io/e2e-az-name=e2e-az3", "another-node-label-key=another-node-label-value"]),
        node("none", &[]),
    ];
    let answer = review(&nodes, &[], &pod);
    let ordered: Vec<(String, bool)> =
        answer.nodes(&[]).into_iter().map(|node| (node.name.to_string(), node.fits)).collect();
    let expected = [("az2", true), ("az1", true), ("az3", false), ("none", false)];
    assert_eq!(ordered, expected.map(|(name, fits)| (name.to_owned(), fits)));
    let score = |name: &str| {
        report(&answer, name)
            .scores
            .iter()
            .find(|score| score.plugin == "NodeAffinity")
            .map(|score| (score.raw, score.normalized))
    };
    assert_eq!((score("az2"), score("az1")), (Some((1, 100)), Some((0, 0))));
}

#[test]
fn not_in_and_does_not_exist_are_node_anti_affinity() {
    let nodes = [node("intel", &["cpu=intel"]), node("amd", &["cpu=amd"]), node("unknown", &[])];
    let fits = |operator: &str, values: Value| {
        let term = json!([{"matchExpressions": [{"key": "cpu", "operator": operator, "values": values}]}]);
        let affinity =
            json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": term}}});
        fitting(&review(&nodes, &[], &incoming(json!({"affinity": affinity}))))
    };
    assert_eq!(fits("In", json!(["intel"])), ["intel"], "only on nodes with Intel CPUs");
    assert_eq!(fits("NotIn", json!(["intel"])), ["amd", "unknown"], "all other nodes, also those without the label");
    assert_eq!(fits("DoesNotExist", json!([])), ["unknown"]);
}

fn with_pod_affinity(anti_member: &str, anti_key: &str) -> Value {
    let zone = "failure-domain.beta.kubernetes.io/zone";
    let select = |value: &str| json!({"matchExpressions": [{"key": "security", "operator": "In", "values": [value]}]});
    let away = json!({"labelSelector": select("S2"), "topologyKey": anti_key});
    let anti = match anti_member {
        "required" => json!({"requiredDuringSchedulingIgnoredDuringExecution": [away]}),
        _ => json!({"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": away}]}),
    };
    json!({"metadata": {"name": "with-pod-affinity"}, "spec": {"affinity": {
        "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": select("S1"), "topologyKey": zone}]},
        "podAntiAffinity": anti,
    }}})
}

#[test]
fn with_pod_affinity_goes_to_the_zone_of_s1_and_away_from_the_node_of_s2() {
    let zone = "failure-domain.beta.kubernetes.io/zone";
    let in_zone = |name: &str, value: &str| node(name, &[&format!("{zone}={value}")]);
    let nodes = [in_zone("a1", "a"), in_zone("a2", "a"), in_zone("b1", "b"), node("nowhere", &[])];
    let pods = [
        running("default/s1", "a1", &["security=S1"], json!({})),
        running("default/s2", "a2", &["security=S2"], json!({})),
    ];
    let answer = review(&nodes, &pods, &created(with_pod_affinity("preferred", HOST)));
    assert_eq!(fitting(&answer), ["a1", "a2"], "the zone of S1: a2 runs none itself");
    assert_eq!(answer.nodes(&[])[0].name.as_ref(), "a1", "and rather not beside S2");
    assert_eq!(reasons(&answer, "b1"), ["PodAffinityMismatch"]);
    let score = |name: &str| {
        report(&answer, name)
            .scores
            .iter()
            .find(|score| score.plugin == "InterPodAffinity")
            .map(|score| (score.raw, score.normalized))
    };
    assert_eq!((score("a1"), score("a2")), (Some((0, 100)), Some((-100, 0))));
    // The page reads the anti-affinity with the zone as topology as "cannot": that is so for a required one only.
    let soft = review(&nodes, &pods, &created(with_pod_affinity("preferred", zone)));
    assert_eq!(fitting(&soft), ["a1", "a2"]);
    let hard = review(&nodes, &pods, &created(with_pod_affinity("required", zone)));
    assert_eq!(hard.feasible(), 0, "S2 is in the only zone of S1");
    assert_eq!(reasons(&hard, "a1"), ["PodAntiAffinityMismatch"]);
}

#[test]
fn services_are_co_located_in_a_zone_and_spread_over_zones() {
    let nodes = [node("a1", &["zone=a"]), node("b1", &["zone=b"]), node("c1", &["zone=c"])];
    let pods =
        [running("default/a", "b1", &["service=a"], json!({})), running("default/b", "a1", &["service=b"], json!({}))];
    let beside = incoming(required("podAffinity", json!([term("service=a", "zone")])));
    assert_eq!(fitting(&review(&nodes, &pods, &beside)), ["b1"], "b talks to a and goes where a is");
    let mut spread = incoming(super::preferred("podAntiAffinity", 100, term("service=b", "zone")));
    spread.metadata.labels.insert("service".to_owned(), "b".to_owned());
    let order: Vec<String> =
        review(&nodes, &pods, &spread).nodes(&[]).into_iter().map(|node| node.name.to_string()).collect();
    assert_eq!(order, ["b1", "c1", "a1"], "the zone that has one comes last, but is possible");
}

#[test]
fn an_empty_topology_key_is_rejected_everywhere_and_three_terms_express_its_meaning() {
    let empty = term("service=b", "");
    for spec in [
        required("podAffinity", json!([empty])),
        required("podAntiAffinity", json!([empty])),
        super::preferred("podAffinity", 1, empty.clone()),
        super::preferred("podAntiAffinity", 1, empty.clone()),
    ] {
        let refused = admit(incoming(spec), None, &Options::default()).unwrap_err().to_string();
        assert!(refused.contains("topologyKey: Required value: can not be empty"), "{refused}");
    }
    let keys = [HOST, "topology.kubernetes.io/zone", "topology.kubernetes.io/region"];
    let terms: Vec<Value> =
        keys.iter().map(|key| json!({"weight": 10, "podAffinityTerm": term("service=b", key)})).collect();
    let spec = json!({"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}});
    let place = |name: &str, zone: &str, region: &str| {
        node(name, &[&format!("{}={zone}", keys[1]), &format!("{}={region}", keys[2])])
    };
    let nodes = [
        place("same-host", "z1", "r1"),
        place("same-zone", "z1", "r1"),
        place("same-region", "z2", "r1"),
        place("elsewhere", "z3", "r2"),
    ];
    let pods = [running("default/b", "same-host", &["service=b"], json!({}))];
    let raws: Vec<(String, i64)> = review(&nodes, &pods, &incoming(spec))
        .nodes(&[])
        .into_iter()
        .map(|node| {
            (node.name.to_string(), node.scores.iter().find(|score| score.plugin == "InterPodAffinity").unwrap().raw)
        })
        .collect();
    let expected = [("elsewhere", 0), ("same-region", -10), ("same-zone", -20), ("same-host", -30)];
    assert_eq!(raws, expected.map(|(name, raw)| (name.to_owned(), raw)));
}

#[test]
fn an_empty_list_of_namespaces_means_the_own_one() {
    let with = |namespaces: Value, selector: Value| {
        let mut term = term("app=x", HOST);
        term["namespaces"] = namespaces;
        term["namespaceSelector"] = selector;
        incoming(required("podAffinity", json!([term])))
    };
    let nodes = [node("own", &[]), node("other", &[])];
    let pods = [running("default/p", "own", &["app=x"], json!({})), running("else/p", "other", &["app=x"], json!({}))];
    assert_eq!(fitting(&review(&nodes, &pods, &with(json!([]), Value::Null))), ["own"], "not all, as it once did");
    assert_eq!(
        fitting(&review(&nodes, &pods, &with(json!([]), json!({})))),
        ["other", "own"],
        "all is namespaceSelector {{}}"
    );
}

#[test]
fn both_tolerations_of_the_page_match_its_taint() {
    let nodes = [tainted("node1", &["key=value:NoSchedule"])];
    assert_eq!(review(&nodes, &[], &incoming(json!({}))).feasible(), 0, "no pod without a toleration");
    for toleration in [
        json!({"key": "key", "operator": "Equal", "value": "value", "effect": "NoSchedule"}),
        json!({"key": "key", "operator": "Exists", "effect": "NoSchedule"}),
        json!({"operator": "Exists"}),
        json!({"key": "key", "operator": "Exists"}),
    ] {
        let answer = review(&nodes, &[], &incoming(json!({"tolerations": [toleration]})));
        assert_eq!(answer.feasible(), 1, "{toleration}");
    }
}

/// The taints of the page, and a pod that tolerates two of them.
fn three_taints() -> (Node, Value) {
    let node = tainted("node1", &["key1=value1:NoSchedule", "key1=value1:NoExecute", "key2=value2:NoSchedule"]);
    let tolerations = json!({"tolerations": [
        {"key": "key1", "operator": "Equal", "value": "value1", "effect": "NoSchedule"},
        {"key": "key1", "operator": "Equal", "value": "value1", "effect": "NoExecute"},
    ]});
    (node, tolerations)
}

#[test]
fn of_three_taints_the_untolerated_one_keeps_a_new_pod_away_but_lets_a_running_one_stay() {
    let (node, tolerations) = three_taints();
    let answer = review(std::slice::from_ref(&node), &[], &incoming(tolerations.clone()));
    let rejections = report(&answer, "node1").rejections;
    let taints: Vec<&str> = rejections.iter().filter_map(|rejection| rejection.taint.as_deref()).collect();
    assert_eq!(taints, ["key2=value2:NoSchedule"], "tolerated ones are ignored, the rest act");
    let stays = running("default/p", "node1", &[], tolerations);
    let residents = cluster(&[node], &[stays]).residents("node1", &Options::default()).unwrap();
    assert_eq!(residents[0].eviction, Eviction::Never, "it keeps running");
    assert_eq!(
        residents[0].rejections[0].taint.as_deref(),
        Some("key2=value2:NoSchedule"),
        "where it could not be placed again"
    );
}

#[test]
fn no_execute_evicts_at_once_or_never_or_after_toleration_seconds() {
    let taint: Taint = "key1=value1:NoExecute".parse().unwrap();
    let leaves = |tolerations: Value| {
        eviction(std::slice::from_ref(&taint), &incoming(json!({"tolerations": tolerations})).spec.tolerations, false)
    };
    let tolerated = json!({"key": "key1", "operator": "Equal", "value": "value1", "effect": "NoExecute"});
    let mut limited = tolerated.clone();
    limited["tolerationSeconds"] = json!(3600);
    assert_eq!(leaves(json!([])), Eviction::Now);
    assert_eq!(leaves(json!([tolerated])), Eviction::Never);
    assert_eq!(leaves(json!([limited])), Eviction::After(3600));
    let limited = incoming(json!({"tolerations": [limited]})).spec.tolerations;
    assert_eq!(eviction(&[], &limited, false), Eviction::Never, "the taint is removed in time");
}

#[test]
fn pods_leave_a_lost_node_after_300_seconds_unless_their_tolerations_differ() {
    let lost: Taint = "node.kubernetes.io/unreachable:NoExecute".parse().unwrap();
    let leaves = |spec: Value| {
        let pod = created(json!({"spec": spec}));
        eviction(std::slice::from_ref(&lost), &pod.spec.tolerations, false)
    };
    assert_eq!(leaves(json!({})), Eviction::After(300));
    let patient = json!({"tolerations": [{"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 6000}]});
    assert_eq!(leaves(patient), Eviction::After(6000), "an application with a lot of local state");
    let of_page = json!({"tolerations": [{"key": "node.alpha.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 6000}]});
    assert_eq!(leaves(of_page), Eviction::After(300), "the key of the page is an ordinary key today");
}

#[test]
fn nodes_are_dedicated_by_a_taint_and_a_label_together() {
    let mut dedicated = tainted("dedicated", &["dedicated=team-a:NoSchedule"]);
    dedicated.metadata.labels.insert("dedicated".to_owned(), "team-a".to_owned());
    let nodes = [dedicated, node("shared", &[])];
    let tolerations = json!([{"key": "dedicated", "value": "team-a", "effect": "NoSchedule"}]);
    assert_eq!(fitting(&review(&nodes, &[], &incoming(json!({})))), ["shared"], "others stay away");
    let tolerant = incoming(json!({"tolerations": tolerations}));
    assert_eq!(fitting(&review(&nodes, &[], &tolerant)), ["dedicated", "shared"], "a toleration alone attracts no pod");
    let own = incoming(json!({"tolerations": tolerations, "nodeSelector": {"dedicated": "team-a"}}));
    assert_eq!(fitting(&review(&nodes, &[], &own)), ["dedicated"]);
}

#[test]
fn a_taint_may_be_tried_before_it_is_put_on_a_node() {
    let taint: Taint = "key=value:NoSchedule".parse().unwrap();
    let question: PlacementReviewSpec = serde_json::from_value(with_containers(json!({
        "pod": {},
        "whatIf": {"taints": [{"node": "node1", "key": taint.key, "value": taint.value, "effect": taint.effect}]},
    })))
    .unwrap();
    let cluster = cluster(&[node("node1", &[]), node("node2", &[])], &[]);
    let reviewed = question.answer(&cluster, Fetched::default(), &Options::default()).unwrap();
    assert_eq!(fitting(&reviewed.answer), ["node2"]);
}
