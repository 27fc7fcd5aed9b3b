//! Compares the indexed result with the naive one, under random changes.

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::vec;
use proptest::test_runner::TestCaseError;
use proptest::{prop_assert, prop_assert_eq, proptest};

use super::arbitrary::{Change, change, incoming_pod, options};
use super::naive::{NodeResult, World};
use super::text;
use crate::placement::options::Options;
use crate::placement::pod::Pod;
use crate::placement::review::NodeReport;
use crate::placement::{ClusterIndex, RejectionReason};

fn apply(change: &Change, cluster: &mut ClusterIndex, world: &mut World) {
    match change {
        Change::Node(node) => {
            cluster.upsert_node(node);
            world.nodes.insert(node.metadata.name.clone(), node.clone());
        }
        Change::NoNode(name) => {
            let was_there = world.nodes.remove(name).is_some();
            assert_eq!(cluster.remove_node(name), was_there, "removing node {name}");
        }
        Change::Pod(pod) => {
            cluster.upsert_pod(pod);
            world.pods.insert((pod.metadata.namespace.clone(), pod.metadata.name.clone()), (**pod).clone());
        }
        Change::NoPod(namespace, name) => {
            let was_there = world.pods.remove(&(namespace.clone(), name.clone())).is_some();
            assert_eq!(cluster.remove_pod(namespace, name), was_there, "removing pod {namespace}/{name}");
        }
        Change::Namespace(namespace) => {
            cluster.upsert_namespace(namespace);
            world.namespaces.insert(namespace.metadata.name.clone(), namespace.clone());
        }
        Change::NoNamespace(name) => {
            let was_there = world.namespaces.remove(name).is_some();
            assert_eq!(cluster.remove_namespace(name), was_there, "removing namespace {name}");
        }
    }
}

fn rebuilt(world: &World) -> ClusterIndex {
    let mut cluster = ClusterIndex::default();
    for pod in world.pods.values() {
        cluster.upsert_pod(pod);
    }
    for node in world.nodes.values() {
        cluster.upsert_node(node);
    }
    for namespace in world.namespaces.values() {
        cluster.upsert_namespace(namespace);
    }
    cluster
}

/// One Pod has one uid, or one namespace and name.
fn is_same(left: &Pod, right: &Pod) -> bool {
    let (left, right) = (&left.metadata, &right.metadata);
    let by_uid = !left.uid.is_empty() && left.uid == right.uid;
    by_uid || (!left.name.is_empty() && left.name == right.name && left.namespace == right.namespace)
}

fn node_result(report: &NodeReport) -> NodeResult {
    let code =
        |text: &str| RejectionReason::ALL.iter().map(|reason| reason.as_str()).find(|code| *code == text).unwrap();
    let mut reasons: Vec<&'static str> = report.rejections.iter().map(|rejection| code(&rejection.reason)).collect();
    reasons.dedup();
    let plugin = |name: &str| match name {
        "TaintToleration" => "TaintToleration",
        "NodeAffinity" => "NodeAffinity",
        _ => "InterPodAffinity",
    };
    let scores = report.scores.iter().map(|score| (plugin(&score.plugin), score.raw, score.normalized)).collect();
    NodeResult { reasons, scores }
}

fn check(cluster: &ClusterIndex, world: &World, pod: &Pod, options: &Options) -> Result<(), TestCaseError> {
    let answer = cluster.review(pod, options);
    let reports = answer.nodes(&[]);
    let found: BTreeMap<String, NodeResult> =
        reports.iter().map(|report| (report.name.to_string(), node_result(report))).collect();
    let expected = world.evaluate(pod, options);
    prop_assert_eq!(&found, &expected);
    prop_assert_eq!(answer.total(), world.nodes.len() as u64);
    prop_assert_eq!(answer.feasible(), expected.values().filter(|node| node.reasons.is_empty()).count() as u64);
    // ClusterCounts are of first reasons.
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for first in expected.values().filter_map(|node| node.reasons.first()) {
        *counts.entry((*first).to_owned()).or_insert(0) += 1;
    }
    let mut counted: BTreeMap<String, u64> = BTreeMap::new();
    for reason in answer.reasons() {
        *counted.entry(reason.reason.into_owned()).or_insert(0) += reason.count;
    }
    prop_assert_eq!(counted, counts);
    // A named pod exists, and is not the pod itself.
    for rejection in reports.iter().flat_map(|report| &report.rejections) {
        if let Some(named) = &rejection.pod {
            let (namespace, name) = named.split_once('/').unwrap();
            let witness = world.pods.get(&(namespace.to_owned(), name.to_owned()));
            prop_assert!(witness.is_some_and(|witness| !is_same(witness, pod)), "{named} is no witness");
        }
    }
    let rank = |report: &NodeReport| {
        let rules: BTreeSet<&str> = report.rejections.iter().map(|rejection| &*rejection.reason).collect();
        let total: i64 = report.scores.iter().map(|score| score.weight * score.normalized).sum();
        (rules.len(), report.rejections.len(), -total, report.name.to_string())
    };
    let ranks: Vec<_> = reports.iter().map(rank).collect();
    prop_assert!(ranks.is_sorted(), "the best and the nearest misses come first, then names: {ranks:?}");
    // Releases before 1.34 name taints in messages, which are then not shared.
    for target_minor in [options.target_minor, 33] {
        let answer = cluster.review(pod, &Options { target_minor, ..options.clone() });
        let (text, document) = text::written(&answer, &[]);
        prop_assert_eq!(text, document);
    }
    Ok(())
}

proptest! {
    #![proptest_config(proptest::test_runner::Config { cases: 400, ..proptest::test_runner::Config::default() })]

    #[test]
    fn answers_equal_the_naive_ones_under_any_changes(
        changes in vec(change(), 0..60),
        pods in vec(incoming_pod(), 1..4),
        options in options(),
    ) {
        let (mut cluster, mut world) = (ClusterIndex::default(), World::default());
        let mut earlier: Option<(ClusterIndex, World)> = None;
        for (index, change) in changes.iter().enumerate() {
            if index == changes.len() / 2 {
                // Caches of this result must not outlive the following changes.
                check(&cluster, &world, &pods[0], &options)?;
                earlier = Some((cluster.clone(), world.clone()));
            }
            apply(change, &mut cluster, &mut world);
        }
        for pod in &pods {
            check(&cluster, &world, pod, &options)?;
        }
        // A clone is a point in time.
        if let Some((cluster, world)) = earlier {
            check(&cluster, &world, &pods[0], &options)?;
        }
        // Nothing remains of removed objects.
        prop_assert_eq!(cluster.counts(), rebuilt(&world).counts());
    }
}
