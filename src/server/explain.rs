//! `?explain=true`: the response has the header `Fieldcache-Explain`, one line of JSON. The body is the same as without
//! the parameter.
//!
//! Fields: `plan`, `path` (index or scan), `candidates`, `hits` and `bytes` of all hits on all pages (see
//! [`Explanation`]), `microseconds` that planning and collecting took, and `tree`. A field that is not known when the
//! header is written is left out. Examples are `bytes`, if it would require reading all hits, and `microseconds` of a
//! watch, which collects later. A caller that may not list the resource in all namespaces gets no `candidates`, no
//! `microseconds`, and no counts in the plan and the tree, because these depend on objects that it may not see.
//! Characters beyond ASCII are escaped, as a header requires. A long plan is truncated, and a long tree lacks steps.
//!
//! `tree` is a step with these fields: `step` (its text), its estimate (`finds`, `removes`, `tests`, or `evaluates` and
//! `failed`; see [`StepEstimate`]), `left` (the number of objects after it), `steps` (its inner steps), and `omitted`
//! (the number of inner steps that the header has no room for).

use std::fmt::Write;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Response};
use serde_json::{Value, json};

use super::context::RequestContext;
use super::read;
use super::state::ServerState;
use crate::query::{Explanation, PlanStep, Selection, State, StepEstimate};
use crate::registry::Resource;
use crate::wire::api_error::ApiError;
use crate::wire::body::Body;

/// The maximum length of a plan in the header, in bytes. A longer plan is truncated: clients limit the size of headers,
/// and a requirement such as `in` can have thousands of values.
const LONGEST_PLAN: usize = 2048;

/// The length of a tree beyond which the header gets no further steps, in bytes.
const LONGEST_TREE: usize = 3072;

/// The plan of a request's selection in this state, if the request asks for one with `?explain=true`. `further` is what the
/// request does with the selected objects, such as `sort by spec.size`; `None`: it only sends them. The plan has no
/// counts of a whole store if the caller may not list the resource in all namespaces.
///
/// # Errors
/// 429 if the requests of the user hold the maximum, because an explanation is made in turns too.
pub(super) async fn wanted_explanation(
    server: &ServerState,
    context: &RequestContext<'_>,
    resource: &Resource,
    selection: &Selection,
    state: &State,
    further: Option<String>,
) -> Result<Option<Explanation>, ApiError> {
    if !context.wants_explanation() {
        return Ok(None);
    }
    let bytes = state.most_selecting_bytes(selection);
    let _share = server.waiting_memory(context.user, bytes).admit()?;
    let (fields, mut work) = (resource.extractor.fields(), read::work());
    let explanation = match context.may_list_all(&resource.gvr).await {
        true => Explanation::new(selection, state, fields, &mut work).await,
        false => Explanation::without_counts(selection, state, fields, &mut work).await,
    };
    Ok(Some(match further {
        Some(text) => explanation.then(&text),
        None => explanation,
    }))
}

/// Adds the header `Fieldcache-Explain` to a response. `took` is the time of planning and collecting; `None` if that is
/// not done yet. The header has no time if `explanation` has no candidates, because the caller may see neither.
pub(super) fn add_explain_header(response: &mut Response<Body>, explanation: &Explanation, took: Option<Duration>) {
    let mut plan = explanation.plan.clone();
    if plan.len() > LONGEST_PLAN {
        plan.truncate(plan.floor_char_boundary(LONGEST_PLAN));
        plan.push_str("...");
    }
    let mut line = format!("{{\"plan\":{},\"path\":\"{}\"", Value::from(plan), explanation.access.as_str(),);
    // Writing to a string does not fail.
    let _ = match explanation.candidates {
        Some(candidates) => write!(line, ",\"candidates\":{candidates},\"hits\":{}", explanation.hits),
        None => write!(line, ",\"hits\":{}", explanation.hits),
    };
    let took = took.filter(|_| explanation.candidates.is_some());
    let microseconds = took.map(|took| u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    for (name, known) in [("bytes", explanation.bytes), ("microseconds", microseconds)] {
        if let Some(known) = known {
            // Writing to a string does not fail.
            let _ = write!(line, ",\"{name}\":{}", json!(known));
        }
    }
    line.push_str(",\"tree\":");
    let end = line.len() + LONGEST_TREE;
    write_step(&mut line, &explanation.tree, end);
    line.push('}');
    if let Ok(value) = HeaderValue::from_str(&ascii(&line)) {
        response.headers_mut().insert(HeaderName::from_static("fieldcache-explain"), value);
    }
}

/// Writes a step as JSON. Inner steps that would begin after position `end` of the line are left out and counted. The
/// recursion is bounded: a tree has at most 64 steps and those that the server adds ([`crate::query::plan_steps`]).
fn write_step(line: &mut String, step: &PlanStep, end: usize) {
    let numbers: &[(&str, u64)] = match step.estimate {
        None => &[],
        Some(StepEstimate::Finds(objects)) => &[("finds", objects)],
        Some(StepEstimate::Removes(objects)) => &[("removes", objects)],
        Some(StepEstimate::Tests(objects)) => &[("tests", objects)],
        Some(StepEstimate::Evaluates { objects, failed }) => &[("evaluates", objects), ("failed", failed)],
    };
    // Writing to a string does not fail.
    let _ = write!(line, "{{\"step\":{}", json!(step.text));
    for (name, number) in numbers.iter().copied().chain(step.left.map(|left| ("left", left))) {
        let _ = write!(line, ",\"{name}\":{number}");
    }
    for (index, inner) in step.inner.iter().enumerate() {
        if line.len() > end {
            line.push_str(if index == 0 { "" } else { "]" });
            let _ = write!(line, ",\"omitted\":{}}}", step.inner.len() - index);
            return;
        }
        line.push_str(if index == 0 { ",\"steps\":[" } else { "," });
        write_step(line, inner, end);
    }
    line.push_str(if step.inner.is_empty() { "}" } else { "]}" });
}

/// The same JSON, in which every character outside of printable ASCII is escaped as `\uXXXX`. serde_json has already
/// escaped control characters below the space.
fn ascii(json: &str) -> String {
    let mut plain = String::with_capacity(json.len());
    let mut units = [0; 2];
    for letter in json.chars() {
        if matches!(letter, ' '..='~') {
            plain.push(letter);
        } else {
            for unit in letter.encode_utf16(&mut units) {
                let _ = write!(plain, "\\u{unit:04x}");
            }
        }
    }
    plain
}
