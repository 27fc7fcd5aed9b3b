//! A review with its result, and how results are printed.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::arguments::PlaceArguments;
use super::node_report::{self, NodeDetails};
use super::table;
use crate::cli::exit::Exit;
use crate::cli::output::{Printed, printed as text_of};
use crate::placement::review::PlacementReview;
use crate::server::placement_review::NO_EVENT;

/// A review and its result.
pub(super) struct ReviewResult {
    /// The name of the Pod for people, such as `Pod default/nginx`.
    pub(super) subject: String,
    pub(super) review: PlacementReview,
    /// The document as a server sent it; `None` for a local evaluation.
    pub(super) received: Option<Value>,
    /// Whether the result has only the message of the Pod's FailedScheduling event, because the user may not list nodes
    /// and Pods.
    pub(super) is_event: bool,
    /// Details of the node of `--node`; `None` without the option.
    pub(super) about: Option<NodeDetails>,
}

/// The results as text, and the exit code: [`Exit::No`] if a Pod does not fit any node, or the node of `--node`.
pub(super) fn printed(arguments: &PlaceArguments, answers: &[ReviewResult]) -> (String, Exit) {
    let fits = |answered: &ReviewResult| match (&answered.review.status, &arguments.node) {
        // The result has no nodes. The message ends with NO_EVENT if the Pod is bound or fits a node.
        (Some(status), _) if answered.is_event => status.message.ends_with(NO_EVENT),
        (Some(status), Some(_)) => status.nodes.iter().any(|node| node.fits),
        (Some(status), None) => status.feasible > 0,
        (None, _) => false,
    };
    let exit = if answers.iter().all(fits) { Exit::Done } else { Exit::No };
    (text_of(&Answers { arguments, answers }, arguments.output), exit)
}

/// Reviews, to be printed.
struct Answers<'a> {
    arguments: &'a PlaceArguments,
    answers: &'a [ReviewResult],
}

impl Printed for Answers<'_> {
    fn document(&self) -> Value {
        document(self.answers)
    }

    /// One table for each review, with a line for each node; with `--node`, the explanation of that node. The wide form
    /// has every reason and every score.
    fn table(&self, is_wide: bool) -> String {
        let one = |answered: &ReviewResult| match (&self.arguments.node, answered.is_event) {
            (_, true) => table::event(&answered.subject, &answered.review),
            (Some(name), false) => match &answered.about {
                Some(about) => node_report::text(&answered.subject, &answered.review, about, name),
                None => String::new(),
            },
            (None, false) => table::text(&answered.subject, &answered.review, is_wide),
        };
        let footer = self.answers.first().map(|answered| table::footer(&answered.review, is_wide));
        format!("{}{}", self.answers.iter().map(one).collect::<Vec<_>>().join("\n"), footer.unwrap_or_default())
    }

    /// The nodes on which all named Pods fit.
    fn names(&self) -> Vec<String> {
        let fitting = |answered: &ReviewResult| {
            let nodes = answered.review.status.iter().flat_map(|status| &status.nodes);
            nodes.filter(|node| node.fits).map(|node| node.name.clone()).collect::<BTreeSet<_>>()
        };
        let common = self.answers.iter().map(fitting).reduce(|all, one| all.intersection(&one).cloned().collect());
        common.unwrap_or_default().into_iter().map(|name| format!("node/{name}")).collect()
    }
}

/// The review as JSON if there is one, otherwise a List of all.
fn document(answers: &[ReviewResult]) -> Value {
    let one = |answered: &ReviewResult| answered.received.clone().unwrap_or_else(|| json!(answered.review));
    let mut documents: Vec<Value> = answers.iter().map(one).collect();
    match documents.len() {
        1 => documents.remove(0),
        _ => json!({"apiVersion": "v1", "kind": "List", "items": documents}),
    }
}
