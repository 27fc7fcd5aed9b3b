//! `--explain`: the plan of a query, which a fieldcache server returns in the header of a list, printed as a tree.
//!
//! The server decides what the plan shows: a caller that may not list all objects gets no numbers. `server::explain`
//! describes the fields of the header.

use std::fmt::Write;

use http::HeaderMap;
use serde::Deserialize;

use crate::cli::output::printable;

/// The query parameter that requests a plan.
pub(super) const PARAMETER: (&str, &str) = ("explain", "true");

/// The header with the plan.
const HEADER: &str = "fieldcache-explain";

/// The levels of a tree that are printed. A server of this version returns fewer.
const MOST_LEVELS: usize = 70;

/// The plan of a list.
#[derive(Debug, Deserialize)]
struct Plan {
    /// `index` or `scan`.
    path: String,
    /// The number of selected objects.
    hits: u64,
    /// The time of planning and collecting.
    microseconds: Option<u64>,
    tree: Option<Step>,
}

/// A step of a plan, with its numbers of objects.
#[derive(Debug, Deserialize)]
struct Step {
    step: String,
    finds: Option<u64>,
    removes: Option<u64>,
    tests: Option<u64>,
    evaluates: Option<u64>,
    failed: Option<u64>,
    left: Option<u64>,
    #[serde(default)]
    steps: Vec<Step>,
    omitted: Option<u64>,
}

/// The plan in the headers of a response as text; `None` if the server returned no plan that can be read.
pub(super) fn text(headers: &HeaderMap) -> Option<String> {
    let plan: Plan = serde_json::from_slice(headers.get(HEADER)?.as_bytes()).ok()?;
    let mut text = format!("Plan: {}, {} objects", printable(&plan.path), plan.hits);
    // Writing to a string does not fail.
    if let Some(microseconds) = plan.microseconds {
        let _ = write!(text, ", {microseconds} microseconds");
    }
    text.push('\n');
    if let Some(step) = &plan.tree {
        let _ = writeln!(text, "{}", line(step));
        write_inner(step, &mut String::new(), MOST_LEVELS, &mut text);
    }
    Some(text)
}

/// The text and the numbers of a step.
fn line(step: &Step) -> String {
    let numbers = [
        ("finds", step.finds),
        ("removes", step.removes),
        ("tests", step.tests),
        ("evaluates", step.evaluates),
        ("failed", step.failed.filter(|failed| *failed > 0)),
        ("left", step.left),
    ];
    let numbers: Vec<String> =
        numbers.iter().filter_map(|(name, number)| number.map(|number| format!("{name} {number}"))).collect();
    match numbers.is_empty() {
        true => printable(&step.step).to_string(),
        false => format!("{}  ({})", printable(&step.step), numbers.join(", ")),
    }
}

/// Writes the inner steps of a step. `indent` is what precedes each line, and `levels` bounds the recursion.
fn write_inner(step: &Step, indent: &mut String, levels: usize, text: &mut String) {
    if levels == 0 {
        return;
    }
    for (index, inner) in step.steps.iter().enumerate() {
        let is_last = index + 1 == step.steps.len() && step.omitted.is_none();
        let (branch, continued) = if is_last { ("└─", "  ") } else { ("├─", "│ ") };
        // Writing to a string does not fail.
        let _ = writeln!(text, "{indent}{branch}{}", line(inner));
        let length = indent.len();
        indent.push_str(continued);
        write_inner(inner, indent, levels - 1, text);
        indent.truncate(length);
    }
    if let Some(omitted) = step.omitted {
        let _ = writeln!(text, "{indent}└─{omitted} more steps");
    }
}
