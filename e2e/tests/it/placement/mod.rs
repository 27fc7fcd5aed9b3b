//! Placement beside the scheduler's own plugins: the same random clusters, the same verdicts.
//!
//! The judge is `e2e/go/cmd/placement-judge`. Compared are which nodes fit, what each plugin says of the others, the event's message,
//! and raw and normalized scores. Needs no cluster.

mod cases;

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use cases::{Case, case};
use e2e::placement::Judge;
use fieldcache::placement::{Answer, Cluster, Namespace, Node, Options, Pod};
use serde_json::{Value, json};

/// How many clusters, and pods asked about in each.
const CASES: (u64, usize) = (1_500, 4);

#[test]
fn the_schedulers_plugins_give_the_same_verdicts() -> Result<()> {
    let (clusters, asked) = CASES;
    let mut judge = Judge::start()?;
    let mut seen: BTreeMap<&str, u64> = BTreeMap::new();
    for number in 0..clusters {
        let case = case(number, asked);
        let question = json!({
            "nodes": case.nodes, "pods": case.pods, "namespaces": case.namespaces,
            "asked": case.asked, "options": case.options,
        });
        let verdicts = judge.ask(&question)?;
        let ours = answers(&case)?;
        ensure!(verdicts.len() == ours.len(), "case {number}: {} verdicts", verdicts.len());
        for (index, (expected, answer)) in verdicts.iter().zip(&ours).enumerate() {
            // kubernetes/kubernetes#141526: the scheduler lets a selector that only excludes cover what it excludes.
            if answer.warnings().iter().any(|warning| warning.contains("#141526")) {
                *seen.entry("known differences").or_default() += 1;
                continue;
            }
            let found = verdict(answer, expected);
            ensure!(
                found == *expected,
                "case {number}, pod {index}: we say\n{found:#}\nthe scheduler says\n{expected:#}\nof\n{:#}\nin\n{question}",
                case.asked[index]
            );
            count(expected, &mut seen);
        }
    }
    println!("placement: {} cases: {seen:?}", clusters * asked as u64);
    for (what, least) in
        [("compared", 5_000), ("placed", 500), ("scored by pods", 300), ("refused at scores", 10), ("reasons", 10)]
    {
        let count = seen.get(what).copied().unwrap_or_default();
        ensure!(count >= least, "{what}: only {count}, the cases say too little");
    }
    Ok(())
}

fn answers(case: &Case) -> Result<Vec<Answer>> {
    let mut cluster = Cluster::default();
    let read = |value: &Value| value.to_string().into_bytes();
    for pod in &case.pods {
        cluster.upsert_pod(&Pod::read(&read(pod))?);
    }
    for node in &case.nodes {
        cluster.upsert_node(&Node::read(&read(node))?);
    }
    for namespace in &case.namespaces {
        cluster.upsert_namespace(&Namespace::read(&read(namespace))?);
    }
    let added = case.options.get("addedAffinity").filter(|added| !added.is_null());
    let options = Options {
        hard_pod_affinity_weight: case.options["hardPodAffinityWeight"].as_i64().context("a weight")?,
        ignore_preferred_terms_of_existing_pods: case.options["ignorePreferredTermsOfExistingPods"] == true,
        toleration_comparison: case.options["tolerationComparison"] == true,
        added_affinity: added.map(|added| serde_json::from_value(added.clone())).transpose()?,
        ..Options::default()
    };
    case.asked.iter().map(|pod| Ok(cluster.review(&Pod::read(&read(pod))?, &options))).collect()
}

/// Our answer in the judge's form. What only the judge knows is taken over: how long it took, and the words of an error.
fn verdict(answer: &Answer, expected: &Value) -> Value {
    let mut nodes = serde_json::Map::new();
    for node in answer.nodes(&[]) {
        // A plugin tells its first reason only.
        let mut reasons: Vec<Value> = Vec::new();
        for rejection in &node.rejections {
            if !reasons.iter().any(|told| told["plugin"] == *rejection.plugin) {
                let message = &rejection.message;
                reasons.push(json!({"plugin": rejection.plugin, "kind": rejection.kind, "message": message}));
            }
        }
        let scores: serde_json::Map<String, Value> = node
            .scores
            .iter()
            .map(|score| (score.plugin.to_string(), json!({"raw": score.raw, "normalized": score.normalized})))
            .collect();
        let scores = if node.fits { json!(scores) } else { Value::Null };
        nodes.insert(node.name, json!({"reasons": reasons, "scores": scores}));
    }
    let message = if answer.feasible() == 0 { answer.message() } else { String::new() };
    let mut verdict = json!({"message": message, "nodes": nodes, "nanoseconds": expected["nanoseconds"]});
    // The scheduler scores from two nodes on, the judge always; we say that it fails where it would.
    let is_told = answer.warnings().iter().any(|warning| warning.starts_with("the scheduler fails"));
    if let Some(error) = expected.get("scoreError").filter(|_| is_told || answer.feasible() == 1) {
        verdict["scoreError"] = error.clone();
    }
    verdict
}

fn count(expected: &Value, seen: &mut BTreeMap<&'static str, u64>) {
    let nodes = expected["nodes"].as_object().into_iter().flat_map(|nodes| nodes.values());
    let nodes: Vec<&Value> = nodes.collect();
    let mut add = |what: &'static str, count: u64| *seen.entry(what).or_default() += count;
    add("compared", 1);
    add("placed", u64::from(nodes.iter().any(|node| node["reasons"].as_array().is_some_and(Vec::is_empty))));
    add("scored by pods", u64::from(nodes.iter().any(|node| !node["scores"]["InterPodAffinity"].is_null())));
    add("refused at scores", u64::from(expected.get("scoreError").is_some()));
    add("reasons", nodes.iter().map(|node| node["reasons"].as_array().map_or(0, Vec::len) as u64).sum());
}
