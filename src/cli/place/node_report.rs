//! Explains the result for one node and one Pod, in the scheduler's order.

use std::fmt::Write as _;

use super::table::{reason, scores, warnings};
use crate::placement::review::{NodeReport, PlacementReview, TermReport, WhatIf};
use crate::placement::toleration::{NO_EXECUTE, NO_SCHEDULE, PREFER_NO_SCHEDULE, tolerates};
use crate::placement::{Node, Taint, condition, pod::Toleration};

/// The parts of the explanation of one node that its review does not contain. An error is the reason why the part is
/// unknown.
pub(super) struct NodeDetails {
    pub(super) node: Result<Node, String>,
    pub(super) tolerations: Result<Vec<Toleration>, String>,
}

/// The explanation of the result for the node `name`; empty if the review has no result for it. `about` has the node as
/// it is stored: the what-if changes of the review are applied here. `subject` names the Pod, for people.
pub(super) fn text(subject: &str, review: &PlacementReview, about: &NodeDetails, name: &str) -> String {
    let Some(status) = &review.status else { return String::new() };
    let Some(report) = status.nodes.iter().find(|report| *report.name == *name) else { return String::new() };
    let verdict = if report.fits { "fits" } else { "does not fit" };
    let mut text = format!("{subject} {verdict} {name}.\n");
    match &about.node {
        Ok(node) => {
            let Node { metadata, spec, .. } = with_what_if(node.clone(), review.spec.what_if.as_ref());
            let labels: Vec<String> = metadata.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
            let labels = if labels.is_empty() { "none".to_owned() } else { labels.join(", ") };
            let _ = writeln!(text, "\nLabels: {labels}");
            taints(&spec.taints, &about.tolerations, &mut text);
        }
        Err(cause) => {
            let _ = writeln!(text, "\nThe labels and taints of the node are not known: {cause}");
        }
    }
    rejections(report, &mut text);
    terms(&status.terms, &mut text);
    if !report.scores.is_empty() {
        let total: i64 = report.scores.iter().map(|score| score.weight * score.normalized).sum();
        let _ = writeln!(text, "\nScore: {total} = {}", scores(report));
    }
    let _ = writeln!(text, "\nAll nodes: {}", status.message);
    text.push_str(&warnings(review));
    text
}

/// The node with the taints and labels that `--taint` and `--label` add.
fn with_what_if(mut node: Node, what_if: Option<&WhatIf>) -> Node {
    let Some(what_if) = what_if else { return node };
    let name = node.metadata.name.clone();
    for added in what_if.taints.iter().filter(|added| added.node == name) {
        // A node has at most one taint with the same key and effect.
        node.spec.taints.retain(|existing| existing.key != added.key || existing.effect != added.effect);
        let (key, value, effect) = (added.key.clone(), added.value.clone(), added.effect.clone());
        node.spec.taints.push(Taint { key, value, effect, time_added: None });
    }
    for added in what_if.labels.iter().filter(|added| added.node == name) {
        node.metadata.labels.insert(added.key.clone(), added.value.clone());
    }
    node
}

/// Appends each taint, the toleration that tolerates it if there is one, and its effect. Tolerations with Gt and Lt are
/// shown as if their feature gate were on; the rules that reject the node, which follow, have the decision.
fn taints(taints: &[Taint], tolerations: &Result<Vec<Toleration>, String>, text: &mut String) {
    if taints.is_empty() {
        text.push_str("Taints: none\n");
        return;
    }
    let tolerations = match tolerations {
        Ok(tolerations) => tolerations,
        Err(cause) => {
            let texts: Vec<String> = taints.iter().map(ToString::to_string).collect();
            let _ = writeln!(text, "Taints: {}", texts.join(", "));
            let _ = writeln!(text, "  the tolerations of the Pod are not known: {cause}");
            return;
        }
    };
    text.push_str("Taints:\n");
    for taint in taints {
        let by = tolerations.iter().find(|toleration| tolerates(toleration, taint, true));
        let said = match (by, &*taint.effect) {
            (Some(by), NO_EXECUTE) => match by.toleration_seconds {
                Some(seconds) => format!("tolerated by {}; a running Pod stays for {seconds} s", described(by)),
                None => format!("tolerated by {}", described(by)),
            },
            (Some(by), _) => format!("tolerated by {}", described(by)),
            (None, NO_SCHEDULE) => {
                "not tolerated: the Pod cannot be placed here; if it runs here already, it stays".to_owned()
            }
            (None, PREFER_NO_SCHEDULE) => "not tolerated: lowers the score".to_owned(),
            (None, _) => {
                "not tolerated: the Pod cannot be placed here; if it runs here already, it is evicted".to_owned()
            }
        };
        let origin = condition::origin(&taint.key).map(|origin| format!(" ({origin})")).unwrap_or_default();
        let _ = writeln!(text, "  {taint}{origin}: {said}");
    }
}

/// A toleration in words: `the toleration KEY OPERATOR VALUE, EFFECT`.
fn described(toleration: &Toleration) -> String {
    let or_all = |text: &str, all: &str| if text.is_empty() { all.to_owned() } else { text.to_owned() };
    let key = or_all(&toleration.key, "every key");
    let effect = or_all(&toleration.effect, "every effect");
    match &*toleration.operator {
        "Exists" => format!("the toleration {key} Exists, {effect}"),
        operator => format!("the toleration {key} {} {:?}, {effect}", or_all(operator, "Equal"), toleration.value),
    }
}

/// Appends the rules that reject the node.
fn rejections(report: &NodeReport, text: &mut String) {
    if report.rejections.is_empty() {
        text.push_str("\nNo rule rejects the node.\n");
        return;
    }
    text.push_str(
        "\nRules that reject the node, in the scheduler's order; the FailedScheduling event counts the first one:\n",
    );
    for (number, rejection) in report.rejections.iter().enumerate() {
        let _ = writeln!(text, "  {}. {}: {}", number + 1, rejection.plugin, reason(rejection));
        if let Some(term) = &rejection.term {
            let _ = writeln!(text, "     at {}", term.field_path);
        }
        let help = match &*rejection.kind {
            "Unschedulable" => "evicting Pods could help",
            // UnschedulableAndUnresolvable.
            _ => "evicting Pods does not help",
        };
        let _ = writeln!(text, "     {} ({}; {help})", rejection.message, rejection.reason);
    }
}

/// Appends the terms of affinity and anti-affinity between Pods, with the Pods that they match.
fn terms(terms: &[TermReport], text: &mut String) {
    if terms.is_empty() {
        return;
    }
    text.push_str("\nTerms about other Pods, as evaluated:\n");
    for term in terms {
        let _ = writeln!(text, "  {}", term.field_path);
        let pods = match term.label_selector.as_deref() {
            None => "no Pod, because its labelSelector is null".to_owned(),
            Some("") => "every Pod".to_owned(),
            Some(selector) => format!("Pods with {selector}"),
        };
        let namespaces = match (term.namespace_selector.as_deref(), term.namespaces.is_empty()) {
            (None, _) => format!("namespaces {}", term.namespaces.join(", ")),
            (Some(""), _) => "every namespace".to_owned(),
            (Some(selector), true) => format!("namespaces with {selector}"),
            (Some(selector), false) => format!("namespaces {}, and those with {selector}", term.namespaces.join(", ")),
        };
        let _ = writeln!(text, "    {pods}, in {namespaces}, with the topology key {}", term.topology_key);
        if !term.derived.is_empty() {
            let _ = writeln!(
                text,
                "    requirements that are derived from matchLabelKeys and mismatchLabelKeys: {}",
                term.derived.join(", ")
            );
        }
        let others = (term.matching_pods as usize).saturating_sub(term.samples.len());
        let found = match (term.samples.is_empty(), others) {
            (true, _) => "matches no Pod".to_owned(),
            (false, 0) => format!("matches {}", term.samples.join(", ")),
            (false, others) => format!("matches {} and {others} more", term.samples.join(", ")),
        };
        let _ = writeln!(text, "    {found}");
    }
}
