//! A review as a table: the message of the event, then a line for each node, the nearest misses first.

use std::fmt::Write as _;

use crate::cli::output::TextTable;
use crate::placement::review::{NodeReport, PlacementReview, RejectionReport, ResourceVersions};

/// The aspects that are not evaluated, in short. JSON, YAML and the wide form have details.
const NOT_EVALUATED: &str =
    "Not evaluated: free resources, ports, volumes, topology spread, resource claims, preemption, extenders, webhooks.";

/// The result of a review as text: the message, the table of nodes and the warnings; the wide form also has the table
/// of terms. Empty if the review has no result. `subject` names the Pod, for people.
pub(super) fn text(subject: &str, review: &PlacementReview, is_wide: bool) -> String {
    let Some(status) = &review.status else { return String::new() };
    let mut text = format!("{subject}: {}\n", status.message);
    if !status.nodes.is_empty() {
        text.push('\n');
        text.push_str(&nodes(&status.nodes, is_wide).print());
    }
    if is_wide && !status.terms.is_empty() {
        text.push('\n');
        text.push_str(&terms(review).print());
    }
    text.push_str(&warnings(review));
    text
}

/// The text for a user who may get the Pod but not list nodes and Pods, so that the review has only the message.
pub(super) fn event(subject: &str, review: &PlacementReview) -> String {
    let message = review.status.as_ref().map(|status| &*status.message).unwrap_or_default();
    format!(
        "{subject}: {message}\n\nThis is the message of the Pod's FailedScheduling event. Users with permission to list nodes and Pods also see the nodes.\n"
    )
}

/// The warnings of a review, one a line, after an empty line; empty if there are none.
pub(super) fn warnings(review: &PlacementReview) -> String {
    let warnings = review.status.iter().flat_map(|status| &status.warnings);
    let lines: String = warnings.map(|warning| format!("Warning: {warning}\n")).collect();
    if lines.is_empty() { lines } else { format!("\n{lines}") }
}

/// The aspects that were not evaluated; the wide form also has the resourceVersions of the evaluation. All reviews of
/// one command have the same footer.
pub(super) fn footer(review: &PlacementReview, is_wide: bool) -> String {
    let Some(status) = review.status.as_ref().filter(|_| is_wide) else { return format!("\n{NOT_EVALUATED}\n") };
    let mut text = "\nNot evaluated:\n".to_owned();
    for one in &status.not_evaluated {
        let _ = writeln!(text, "  {one}");
    }
    let versions = &status.resource_versions;
    if *versions == ResourceVersions::default() {
        return text;
    }
    let age = status.age_seconds.map(|seconds| format!(", known to be current {seconds} s ago")).unwrap_or_default();
    let _ = writeln!(
        text,
        "Evaluated at the resourceVersions: nodes {}, pods {}, namespaces {}{age}.",
        versions.nodes, versions.pods, versions.namespaces
    );
    text
}

/// The table of nodes with fit, score and reasons.
fn nodes(reports: &[NodeReport], is_wide: bool) -> TextTable {
    let mut headers = vec!["NODE", "FITS", "SCORE"];
    if is_wide {
        headers.extend(["SCORES", "REASONS"]);
    }
    headers.push("WHY NOT");
    let mut table = TextTable::new(&headers);
    for report in reports {
        let total: i64 = report.scores.iter().map(|score| score.weight * score.normalized).sum();
        let score = if report.scores.is_empty() { String::new() } else { total.to_string() };
        let mut cells = vec![report.name.to_string(), if report.fits { "yes" } else { "no" }.to_owned(), score];
        if is_wide {
            cells.push(scores(report));
            let mut reasons: Vec<&str> = report.rejections.iter().map(|rejection| &*rejection.reason).collect();
            reasons.dedup();
            cells.push(reasons.join(","));
        }
        let mut why: Vec<String> = report.rejections.iter().map(reason).collect();
        why.dedup();
        let more = why.len().saturating_sub(1);
        cells.push(match (is_wide, more) {
            (true, _) => why.join("; "),
            (false, 0) => why.concat(),
            (false, more) => format!("{} (and {more} more)", why[0]),
        });
        table.push(cells);
    }
    table
}

/// The scores of a node, separated by commas: `NodeAffinity 2*100 (raw 5)`, plugin, weight, normalized and raw score.
pub(super) fn scores(report: &NodeReport) -> String {
    let one = |score: &crate::placement::review::ScoreReport| {
        format!("{} {}*{} (raw {})", score.plugin, score.weight, score.normalized, score.raw)
    };
    report.scores.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// The table of affinity terms with the Pods that they match.
fn terms(review: &PlacementReview) -> TextTable {
    let mut table = TextTable::new(&["TERM", "PODS", "NAMESPACES", "TOPOLOGY KEY", "MATCHING", "DERIVED"]);
    for term in review.status.iter().flat_map(|status| &status.terms) {
        let pods = match term.label_selector.as_deref() {
            None => "none".to_owned(),
            Some("") => "all".to_owned(),
            Some(selector) => selector.to_owned(),
        };
        let namespaces = match term.namespace_selector.as_deref() {
            None => term.namespaces.join(","),
            Some("") => "all".to_owned(),
            Some(selector) => {
                let named = term.namespaces.iter().cloned();
                named.chain(std::iter::once(format!("those with {selector}"))).collect::<Vec<_>>().join(",")
            }
        };
        let samples = match term.samples.is_empty() {
            true => String::new(),
            false => format!(" ({})", term.samples.join(", ")),
        };
        table.push(vec![
            term.field_path.clone(),
            pods,
            namespaces,
            term.topology_key.clone(),
            format!("{}{samples}", term.matching_pods),
            term.derived.join(","),
        ]);
    }
    table
}

/// A rejection in short: the requirement, and what the node or its topology domain has instead. Other rejections than
/// those of taints and affinity have their message.
pub(super) fn reason(rejection: &RejectionReport) -> String {
    let term = rejection.term.as_ref().map(|term| &*term.text).unwrap_or_default();
    // A label `!KEY` means that the node does not have the key.
    let there = match rejection.label.as_deref() {
        None => String::new(),
        Some(label) => match label.strip_prefix('!') {
            Some(key) => format!("no label {key}"),
            None => label.to_owned(),
        },
    };
    let with = |before: &str, after: &str| match (before.is_empty(), after.is_empty()) {
        (true, _) => after.to_owned(),
        (false, true) => before.to_owned(),
        (false, false) => format!("{before}; {after}"),
    };
    match (&*rejection.reason, &rejection.taint, &rejection.pod) {
        ("NodeUnschedulable", _, _) => "the node is cordoned".to_owned(),
        ("UntoleratedTaint", Some(taint), _) => format!("taint {taint} is not tolerated"),
        ("NodeAffinityMismatch", _, _) if !term.is_empty() => {
            let what = match rejection.term.as_ref().map(|term| &*term.field_path) {
                Some(path) if path.starts_with("spec.nodeSelector") => "nodeSelector requires",
                Some(path) if path.starts_with("spec.") => "node affinity requires",
                _ => "the scheduler requires",
            };
            let here = if there.is_empty() { String::new() } else { format!("the node has {there}") };
            with(&format!("{what} {term}"), &here)
        }
        ("PodAffinityMismatch", _, _) if there.starts_with("no label") => {
            format!("affinity requires {term}; the node has {there}")
        }
        ("PodAffinityMismatch", _, _) if !term.is_empty() => format!("affinity requires {term}; none in {there}"),
        ("PodAntiAffinityMismatch", _, Some(pod)) => format!("anti-affinity: {pod} is in {there}"),
        ("ExistingPodAntiAffinity", _, Some(pod)) => format!("anti-affinity of {pod}, which is in {there}"),
        _ => rejection.message.to_string(),
    }
}
