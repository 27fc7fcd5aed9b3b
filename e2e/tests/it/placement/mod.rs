//! Placement beside the real thing: the scheduler's own plugins on random clusters, and kube-apiserver on random pods.
//!
//! The judge is `e2e/go/cmd/placement-judge`. The tests compare which nodes fit, the results of each plugin for the
//! others, the event's message, and raw and normalized scores. Only what `differences` names may differ. `defects` are
//! errors of ours, planted one at a time: each must be found by the same comparison. `admission` is what the API server
//! makes of a Pod, or refuses; it alone needs a cluster.

mod admission;
mod cases;
mod defects;
mod differences;
mod documents;
mod requests;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use anyhow::{Result, anyhow, ensure};
use e2e::placement::{Judge, Question, verdict};
use serde_json::Value;

/// How many clusters, and pods reviewed in each.
const CASES: (u64, usize) = (1_500, 4);

/// A pod that is reviewed in a cluster, and what the scheduler's plugins say.
struct Case {
    name: String,
    question: Question,
    expected: Value,
    /// Whether a known error of the scheduler is met.
    is_disputed: bool,
}

/// All cases, evaluated once for all tests.
fn judged() -> Result<&'static [Case]> {
    static JUDGED: LazyLock<Result<Vec<Case>>> = LazyLock::new(|| {
        let (clusters, reviewed) = CASES;
        let mut judge = Judge::start()?;
        let mut judged = Vec::new();
        for number in 0..clusters {
            let question = cases::question(number, reviewed);
            for (index, expected) in judge.review(&question)?.into_iter().enumerate() {
                let name = format!("cluster {number}, pod {index}");
                let question = question.about(index);
                let is_disputed = differences::find(&question).is_some();
                judged.push(Case { name, question, expected, is_disputed });
            }
        }
        Ok(judged)
    });
    JUDGED.as_deref().map_err(|error| anyhow!("{error:#}"))
}

/// Our verdict on a question about one pod.
fn ours(question: &Question, expected: &Value) -> Result<Value> {
    let answers = question.answers()?;
    Ok(answers.first().map(|answer| verdict(answer, expected)).unwrap_or_default())
}

#[test]
fn the_schedulers_plugins_give_the_same_verdicts() -> Result<()> {
    let cases = judged()?;
    let mut seen: BTreeMap<&str, u64> = BTreeMap::new();
    for Case { name, question, expected, .. } in cases {
        let mut found = ours(question, expected)?;
        if found != *expected
            && let Some((difference, as_upstream)) = differences::find(question)
        {
            *seen.entry(difference.name).or_default() += 1;
            found = ours(&as_upstream, expected)?;
        }
        ensure!(
            found == *expected,
            "{name}: we say\n{found:#}\nthe scheduler says\n{expected:#}\nof\n{:#}\nin\n{}",
            question.reviewed[0],
            question.document()
        );
        count(expected, &mut seen);
    }
    println!("placement: {} cases: {seen:?}", cases.len());
    let mut least = BTreeMap::from([
        ("compared", 5_000),
        ("placed", 2_000),
        ("placed nowhere", 500),
        ("scored by pods", 500),
        ("scored differently", 500),
        ("refused at scores", 10),
    ]);
    least.extend(MESSAGES.map(|message| (message, 10)));
    least.extend(differences::ALL.iter().map(|difference| (difference.name, 1)));
    for (what, least) in least {
        let count = seen.get(what).copied().unwrap_or_default();
        ensure!(count >= least, "{what}: only {count}, the cases say too little");
    }
    Ok(())
}

/// Every reason that these plugins have.
const MESSAGES: [&str; 10] = [
    "node(s) were unschedulable",
    "node(s) didn't match the requested node name",
    "node(s) had untolerated taint(s)",
    "node(s) didn't match Pod's node affinity/selector",
    "node(s) didn't match scheduler-enforced node affinity",
    "node(s) didn't satisfy plugin(s) [NodeAffinity]",
    "pod affinity terms conflict",
    "node(s) didn't match pod affinity rules",
    "node(s) didn't match pod anti-affinity rules",
    "node(s) didn't satisfy existing pods anti-affinity rules",
];

fn count(expected: &Value, seen: &mut BTreeMap<&'static str, u64>) {
    let nodes: Vec<&Value> = expected["nodes"].as_object().into_iter().flat_map(|nodes| nodes.values()).collect();
    let fits = |node: &&&Value| node["reasons"].as_array().is_some_and(Vec::is_empty);
    let mut add = |what: &'static str, is_so: bool| *seen.entry(what).or_default() += u64::from(is_so);
    let scores: Vec<&Value> = nodes.iter().filter(fits).map(|node| &node["scores"]).collect();
    add("compared", true);
    add("placed", !scores.is_empty());
    add("placed nowhere", scores.is_empty() && !nodes.is_empty());
    add("scored by pods", scores.iter().any(|scores| !scores["InterPodAffinity"].is_null()));
    add("scored differently", scores.windows(2).any(|pair| pair[0] != pair[1]));
    add("refused at scores", expected.get("scoreError").is_some());
    for message in MESSAGES {
        let says = |node: &&Value| {
            node["reasons"].as_array().is_some_and(|reasons| reasons.iter().any(|reason| reason["message"] == message))
        };
        add(message, nodes.iter().any(says));
    }
}
