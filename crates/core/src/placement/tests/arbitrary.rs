//! Random nodes, pods, namespaces and changes, out of so few words that they meet each other all the time.

use std::collections::BTreeMap;

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::sample::select;

use crate::placement::node::{Namespace, Node, NodeSpec, Taint};
use crate::placement::options::Options;
use crate::placement::pod::{
    Affinity, MetaV1LabelSelector, Metadata, NodeAffinity, NodeSelector, NodeSelectorTerm, Pod, PodAffinity,
    PodAffinityTerm, PodSpec, PodStatus, PreferredSchedulingTerm, Requirement, SchedulingGate, Toleration,
    WeightedPodAffinityTerm,
};

/// A change of a cluster.
#[derive(Clone, Debug)]
pub(super) enum Change {
    Node(Node),
    NoNode(String),
    Pod(Box<Pod>),
    NoPod(String, String),
    Namespace(Namespace),
    NoNamespace(String),
}

fn word(words: &'static [&'static str]) -> impl Strategy<Value = String> + Clone {
    select(words).prop_map(str::to_owned)
}

fn namespace_name() -> impl Strategy<Value = String> + Clone {
    word(&["one", "two", "three"])
}

fn node_name() -> impl Strategy<Value = String> + Clone {
    word(&["n1", "n2", "n3", "n4", "n5", "n6"])
}

fn pod_labels() -> impl Strategy<Value = BTreeMap<String, String>> {
    btree_map(word(&["app", "tier", "tenant"]), word(&["x", "y", ""]), 0..3)
}

fn node_labels() -> impl Strategy<Value = BTreeMap<String, String>> {
    let number = (Just("gen".to_owned()), word(&["1", "007", "2", "ten", ""]));
    let zone = (word(&["zone", "rack"]), word(&["x", "y", "z"]));
    vec(prop_oneof![zone, number], 0..4).prop_map(|pairs| pairs.into_iter().collect())
}

fn node() -> impl Strategy<Value = Node> {
    let taint =
        (word(&["k", "l"]), word(&["", "5", "05", "v"]), word(&["NoSchedule", "PreferNoSchedule", "NoExecute"]))
            .prop_map(|(key, value, effect)| Taint { key, value, effect, time_added: None });
    (node_name(), node_labels(), proptest::bool::weighted(0.1), vec(taint, 0..3), proptest::bool::weighted(0.8))
        .prop_map(|(name, mut labels, unschedulable, taints, has_hostname)| {
            if has_hostname {
                labels.insert("host".to_owned(), name.clone());
            }
            Node {
                metadata: Metadata { name, labels, ..Metadata::default() },
                spec: NodeSpec { unschedulable, taints },
                ..Node::default()
            }
        })
}

fn namespace() -> impl Strategy<Value = Namespace> {
    (namespace_name(), btree_map(word(&["env"]), word(&["x", "y"]), 0..2)).prop_map(|(name, labels)| {
        Namespace { metadata: Metadata { name, labels, ..Metadata::default() } }.with_name_label()
    })
}

fn toleration() -> impl Strategy<Value = Toleration> {
    let operator = word(&["", "Equal", "Exists", "Exists", "Gt", "Lt", "Like"]);
    let effect = word(&["", "", "NoSchedule", "PreferNoSchedule", "NoExecute"]);
    (word(&["", "k", "k", "l"]), operator, word(&["", "5", "4", "v"]), effect, option::of(-1i64..20)).prop_map(
        |(key, operator, value, effect, toleration_seconds)| Toleration {
            key,
            operator,
            value,
            effect,
            toleration_seconds,
        },
    )
}

/// Mostly valid; sometimes one that cannot be parsed.
fn requirement(
    keys: &'static [&'static str],
    values: &'static [&'static str],
    operators: &'static [&'static str],
) -> impl Strategy<Value = Requirement> {
    let key = prop_oneof![40 => word(keys), 1 => word(&["-bad-"])];
    (key, word(operators), vec(word(values), 1..3), proptest::bool::weighted(0.03)).prop_map(
        |(key, operator, mut values, is_wrong)| {
            match (operator.as_str(), is_wrong) {
                ("Exists" | "DoesNotExist", false) | ("In" | "NotIn", true) => values.clear(),
                ("Gt" | "Lt", false) => values.truncate(1),
                _ => {}
            }
            Requirement { key, operator, values }
        },
    )
}

fn node_requirement() -> impl Strategy<Value = Requirement> {
    let by_word = requirement(
        &["zone", "rack", "gen", "host"],
        &["x", "y", "z", "n1", "n2"],
        &["In", "In", "NotIn", "Exists", "DoesNotExist", "Like"],
    );
    let by_number = requirement(&["gen"], &["0", "1", "+7", "ten", "2"], &["Gt", "Lt"]);
    prop_oneof![4 => by_word, 1 => by_number]
}

fn field_requirement() -> impl Strategy<Value = Requirement> {
    let key = prop_oneof![9 => Just("metadata.name".to_owned()), 1 => Just("metadata.uid".to_owned())];
    let operator =
        prop_oneof![6 => Just("In".to_owned()), 3 => Just("NotIn".to_owned()), 1 => Just("Exists".to_owned())];
    let values = prop_oneof![8 => vec(node_name(), 1..2), 1 => vec(node_name(), 2..3), 1 => vec(word(&[""]), 0..2)];
    (key, operator, values).prop_map(|(key, operator, values)| Requirement { key, operator, values })
}

fn node_term() -> impl Strategy<Value = NodeSelectorTerm> {
    let fields = prop_oneof![3 => Just(Vec::new()), 1 => vec(field_requirement(), 1..3)];
    (vec(node_requirement(), 0..3), fields)
        .prop_map(|(match_expressions, match_fields)| NodeSelectorTerm { match_expressions, match_fields })
}

fn node_affinity() -> impl Strategy<Value = NodeAffinity> {
    let required = vec(node_term(), 0..3).prop_map(|node_selector_terms| NodeSelector { node_selector_terms });
    let weight = prop_oneof![5 => 1i32..101, 1 => Just(0)];
    let preferred =
        (weight, node_term()).prop_map(|(weight, preference)| PreferredSchedulingTerm { weight, preference });
    (option::weighted(0.4, required), vec(preferred, 0..3))
        .prop_map(|(required, preferred)| NodeAffinity { required, preferred })
}

fn label_selector(
    keys: &'static [&'static str],
    values: &'static [&'static str],
) -> impl Strategy<Value = MetaV1LabelSelector> {
    let operators = &["In", "In", "In", "NotIn", "Exists", "DoesNotExist"];
    let expressions = prop_oneof![
        60 => vec(requirement(keys, values, operators), 0..3),
        1 => vec(requirement(keys, values, &["Gt", "Like"]), 1..2),
    ];
    (btree_map(word(keys), word(values), 0..2), expressions)
        .prop_map(|(match_labels, match_expressions)| MetaV1LabelSelector { match_labels, match_expressions })
}

fn pod_term() -> impl Strategy<Value = PodAffinityTerm> {
    (
        option::weighted(0.9, label_selector(&["app", "tier", "tenant"], &["x", "y", ""])),
        vec(namespace_name(), 0..2),
        option::weighted(0.3, label_selector(&["env", "kubernetes.io/metadata.name"], &["x", "one", "two"])),
        word(&["host", "zone", "zone", "rack", "gen"]),
    )
        .prop_map(|(label_selector, namespaces, namespace_selector, topology_key)| PodAffinityTerm {
            label_selector,
            namespaces,
            namespace_selector,
            topology_key,
            ..PodAffinityTerm::default()
        })
}

fn pod_affinity() -> impl Strategy<Value = PodAffinity> {
    let preferred = (1i32..101, pod_term())
        .prop_map(|(weight, pod_affinity_term)| WeightedPodAffinityTerm { weight, pod_affinity_term });
    let required = prop_oneof![2 => Just(Vec::new()), 2 => vec(pod_term(), 1..2), 1 => vec(pod_term(), 2..3)];
    (required, vec(preferred, 0..3)).prop_map(|(required, preferred)| PodAffinity { required, preferred })
}

/// A pod that runs, or does not any more, or waits.
fn stored_pod() -> impl Strategy<Value = Pod> {
    let name = word(&["p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8"]);
    let node_name = prop_oneof![8 => node_name(), 1 => Just(String::new())];
    let phase = prop_oneof![8 => Just("Running"), 1 => Just("Failed"), 1 => Just("Succeeded")];
    let affinity = (option::weighted(0.4, pod_affinity()), option::weighted(0.4, pod_affinity()));
    (namespace_name(), name, pod_labels(), node_name, phase, affinity).prop_map(
        |(namespace, name, labels, node_name, phase, (pod_affinity, pod_anti_affinity))| Pod {
            metadata: Metadata { uid: format!("uid-{namespace}-{name}"), namespace, name, labels },
            spec: PodSpec {
                node_name,
                affinity: Some(Affinity { node_affinity: None, pod_affinity, pod_anti_affinity }),
                ..PodSpec::default()
            },
            status: PodStatus { phase: phase.to_owned() },
        },
    )
}

/// The incoming pod of a review.
pub(super) fn incoming_pod() -> impl Strategy<Value = Pod> {
    let affinity = (
        option::weighted(0.5, node_affinity()),
        option::weighted(0.5, pod_affinity()),
        option::weighted(0.5, pod_affinity()),
    );
    let spec = (
        prop_oneof![12 => Just(String::new()), 1 => node_name()],
        prop_oneof![3 => Just(BTreeMap::new()), 1 => node_labels()],
        affinity,
        vec(toleration(), 0..4),
        proptest::bool::weighted(0.03),
    );
    (stored_pod(), any::<bool>(), spec).prop_map(|(stored, is_stored, spec)| {
        let (node_name, node_selector, (node_affinity, pod_affinity, pod_anti_affinity), tolerations, is_gated) = spec;
        let mut metadata = stored.metadata;
        if !is_stored {
            metadata.name = String::new();
            metadata.uid = String::new();
        }
        Pod {
            metadata,
            spec: PodSpec {
                node_name,
                node_selector,
                affinity: Some(Affinity { node_affinity, pod_affinity, pod_anti_affinity }),
                tolerations,
                scheduling_gates: if is_gated { vec![SchedulingGate { name: "g".to_owned() }] } else { Vec::new() },
                ..PodSpec::default()
            },
            ..Pod::default()
        }
    })
}

pub(super) fn options() -> impl Strategy<Value = Options> {
    let added = node_affinity().prop_filter("the scheduler refuses to start with it", |added| {
        let fine = |term: &NodeSelectorTerm| {
            !matches!(crate::placement::term::NodeTerm::new(term, ""), crate::placement::term::NodeTerm::Unparsable(_))
        };
        added.preferred.iter().all(|preferred| fine(&preferred.preference))
            && added.required.iter().flat_map(|required| &required.node_selector_terms).all(fine)
    });
    (any::<bool>(), prop_oneof![Just(1i64), Just(0), Just(100)], any::<bool>(), option::weighted(0.2, added)).prop_map(
        |(toleration_comparison, hard_pod_affinity_weight, ignore, added_affinity)| Options {
            toleration_comparison,
            hard_pod_affinity_weight,
            ignore_preferred_terms_of_existing_pods: ignore,
            added_affinity,
            ..Options::default()
        },
    )
}

pub(super) fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        8 => stored_pod().prop_map(|pod| Change::Pod(Box::new(pod))),
        5 => node().prop_map(Change::Node),
        2 => namespace().prop_map(Change::Namespace),
        1 => node_name().prop_map(Change::NoNode),
        1 => stored_pod().prop_map(|pod| Change::NoPod(pod.metadata.namespace, pod.metadata.name)),
        1 => namespace_name().prop_map(Change::NoNamespace),
    ]
}
