//! `?explain=true`: the header `Fieldcache-Explain`, one line of JSON; the body is what it would be without.
//!
//! Members: `plan`, `path` (index or scan), `candidates`, `hits` and `bytes` of all hits whatever the page (see
//! [`Explanation`]), and `microseconds` that planning and collecting took. A member that is not known when the head is
//! written is left out. Examples are `bytes`, where it would take a walk over all hits, and `microseconds` of a watch,
//! which collects later. A caller that may not list the resource in all namespaces gets neither `candidates` nor
//! `microseconds` nor counts in the plan. Objects that it may not see change them. Text beyond ASCII is escaped, since
//! a header has none, and a plan of unusual length is cut.

use std::fmt::Write;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Response};
use serde_json::{Value, json};

use super::context::RequestContext;
use crate::query::{Explanation, Selection, State, Work};
use crate::registry::Resource;
use crate::wire::body::Body;

/// A longer plan is cut here, in bytes: clients bound the size of a head, and a set may name thousands of values.
const LONGEST_PLAN: usize = 2048;

/// The plan of a request's selection, as far as the caller may see it.
pub(super) async fn explanation(
    context: &RequestContext<'_>,
    resource: &Resource,
    selection: &Selection,
    state: &State,
) -> Explanation {
    let (fields, mut work) = (resource.extractor.fields(), Work::default());
    match context.may_list_all(&resource.gvr).await {
        true => Explanation::new(selection, state, fields, &mut work).await,
        false => Explanation::without_counts(selection, state, fields, &mut work).await,
    }
}

/// Adds the header to a response. `took`: the time of planning and collecting, where that is done.
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
    line.push('}');
    if let Ok(value) = HeaderValue::from_str(&ascii(&line)) {
        response.headers_mut().insert(HeaderName::from_static("fieldcache-explain"), value);
    }
}

/// JSON with everything beyond visible ASCII escaped; serde_json has escaped the controls below the blank.
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
