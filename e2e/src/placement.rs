//! The judge of placement: the plugins of kube-scheduler in the Go program `placement-judge`, and our side of the same question.
//!
//! One process handles many questions, a line each. Callers choose the questions: random small clusters for the tests,
//! one large cluster for the benchmark.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, ensure};
use fieldcache::placement::{ClusterIndex, Namespace, Node, Options, PlacementResult, Pod};
use serde_json::{Map, Value, json};

use crate::components::{Component, locate};

/// A cluster and pods that are reviewed, each alone, as documents.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Question {
    /// Nodes.
    pub nodes: Vec<Value>,
    /// Pods that are stored.
    pub pods: Vec<Value>,
    /// Namespaces.
    pub namespaces: Vec<Value>,
    /// Pods that are reviewed.
    pub reviewed: Vec<Value>,
    /// What the scheduler is configured with; absent members have its defaults but for the weight, which is 0.
    pub options: Value,
}

fn bytes(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

impl Question {
    /// As the judge reads it.
    #[must_use]
    pub fn document(&self) -> Value {
        json!({
            "nodes": self.nodes, "pods": self.pods, "namespaces": self.namespaces,
            "asked": self.reviewed, "options": self.options,
        })
    }

    /// The same question about one of the pods.
    #[must_use]
    pub fn about(&self, index: usize) -> Question {
        Question { reviewed: self.reviewed.get(index).cloned().into_iter().collect(), ..self.clone() }
    }

    /// The cluster as fieldcache indexes it.
    ///
    /// # Errors
    /// When a document is no such object.
    pub fn cluster(&self) -> Result<ClusterIndex> {
        let mut cluster = ClusterIndex::default();
        // Pods first: that their nodes come later must not matter.
        for pod in &self.pods {
            cluster.upsert_pod(&Pod::read(&bytes(pod))?);
        }
        for node in &self.nodes {
            cluster.upsert_node(&Node::read(&bytes(node))?);
        }
        for namespace in &self.namespaces {
            cluster.upsert_namespace(&Namespace::read(&bytes(namespace))?);
        }
        Ok(cluster)
    }

    /// The configuration as fieldcache's.
    ///
    /// # Errors
    /// When an option has another form.
    pub fn placement_options(&self) -> Result<Options> {
        let added = self.options.get("addedAffinity").filter(|added| !added.is_null());
        Ok(Options {
            hard_pod_affinity_weight: self.options["hardPodAffinityWeight"].as_i64().unwrap_or_default(),
            ignore_preferred_terms_of_existing_pods: self.options["ignorePreferredTermsOfExistingPods"] == true,
            toleration_comparison: self.options["tolerationComparison"] == true,
            added_affinity: added.map(|added| serde_json::from_value(added.clone())).transpose()?,
            ..Options::default()
        })
    }

    /// fieldcache's answers, a pod each.
    ///
    /// # Errors
    /// When a document is no such object.
    pub fn answers(&self) -> Result<Vec<PlacementResult>> {
        let (cluster, options) = (self.cluster()?, self.placement_options()?);
        self.reviewed.iter().map(|pod| Ok(cluster.review(&Pod::read(&bytes(pod))?, &options))).collect()
    }
}

/// Our answer in the judge's form. What only the judge knows is taken over: how long it took, and the words of an error.
#[must_use]
pub fn verdict(answer: &PlacementResult, expected: &Value) -> Value {
    let mut nodes = Map::new();
    for node in answer.nodes(&[]) {
        // A plugin reports its first reason only.
        let mut reasons: Vec<Value> = Vec::new();
        for rejection in &node.rejections {
            if !reasons.iter().any(|reported| reported["plugin"] == *rejection.plugin) {
                let message = &rejection.message;
                reasons.push(json!({"plugin": rejection.plugin, "kind": rejection.kind, "message": message}));
            }
        }
        let scores: Map<String, Value> = node
            .scores
            .iter()
            .map(|score| (score.plugin.to_string(), json!({"raw": score.raw, "normalized": score.normalized})))
            .collect();
        let scores = if node.fits { json!(scores) } else { Value::Null };
        nodes.insert(node.name.to_string(), json!({"reasons": reasons, "scores": scores}));
    }
    let message = if answer.feasible() == 0 { answer.message() } else { String::new() };
    let mut verdict = json!({"message": message, "nodes": nodes, "nanoseconds": expected["nanoseconds"]});
    // The scheduler scores from two nodes on, the judge always; we say that it fails where it would.
    let is_reported = answer.warnings().iter().any(|warning| warning.contains("the scheduler fails"));
    if let Some(error) = expected.get("scoreError").filter(|_| is_reported || answer.feasible() == 1) {
        verdict["scoreError"] = error.clone();
    }
    verdict
}

/// A running judge; it ends with this value.
#[derive(Debug)]
pub struct Judge {
    process: Child,
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Judge {
    /// Starts one.
    ///
    /// # Errors
    /// When the program has not been built.
    pub fn start() -> Result<Judge> {
        let mut command = Command::new(locate(Component::PlacementJudge)?);
        command.env_clear().stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut process = command.spawn().context("starting placement-judge")?;
        let questions = process.stdin.take();
        let answers = process.stdout.take().context("a piped standard output must be there")?;
        Ok(Judge { process, questions, answers: BufReader::new(answers) })
    }

    /// The verdicts on the pods of a question, in their order.
    ///
    /// # Errors
    /// When the judge ended, or sent something else.
    pub fn review(&mut self, question: &Question) -> Result<Vec<Value>> {
        let questions = self.questions.as_mut().context("a judge must have an input")?;
        // Documents in one line: serde_json writes none by itself.
        writeln!(questions, "{}", question.document()).context("writing to placement-judge")?;
        let mut line = String::new();
        self.answers.read_line(&mut line).context("listening to placement-judge")?;
        ensure!(!line.is_empty(), "placement-judge ended; standard error says why");
        let verdicts: Vec<Value> = serde_json::from_str(&line).context("placement-judge printed something else")?;
        let reviewed = question.reviewed.len();
        ensure!(verdicts.len() == reviewed, "{} verdicts of placement-judge on {reviewed} pods", verdicts.len());
        Ok(verdicts)
    }
}

impl Drop for Judge {
    fn drop(&mut self) {
        // The end of its input ends it.
        self.questions = None;
        let _ = self.process.wait();
    }
}
