//! A body as a review: JSON or YAML, strict, with errors that name the field.
//!
//! What is not known is refused, also where an API server would only warn: a premise that is dropped silently makes the answer
//! one to another question. What is inside of `pod` and `template` is [`crate::placement`]'s to judge: fields that do not exist
//! there are refused where `?fieldValidation=Strict` asks for that, as kubectl does.

use std::time::Duration;

use http::HeaderMap;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http_body_util::BodyExt;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use super::field_validation::FieldValidation;
use crate::manifest::budget::Budget;
use crate::manifest::yaml::{Form, NotOne, single};
use crate::model::quote;
use crate::placement::review::{API_VERSION, KIND, PlacementReview, PlacementReviewSpec};
use crate::placement::unknown::is_metadata_member;
use crate::placement::warning::Warning;
use crate::registry::upstream::UpstreamBody;
use crate::selector::{Problem, Reason};
use crate::server::failure::{Failure, MOST_PROBLEMS};
use crate::server::limits::bodies::BodyPlace;

/// kube-apiserver's limit of a body.
pub(super) const MOST: usize = 3 << 20;

/// A review that names a stored Pod and nothing else is not longer.
pub(super) const MOST_OF_REFERENCE: usize = 64 << 10;

/// Bodies that are longer are parsed off the threads that answer requests.
pub(super) const PARSED_INLINE: usize = 64 << 10;

/// How long a body may take to arrive. A slow one holds its place and its bytes for no longer.
const ARRIVAL: Duration = Duration::from_secs(15);

/// What the values of one body may take, as [`Budget`] counts. Reviews of a Pod that a cluster would store take a few MiB.
const MEMORY: usize = 16 << 20;

/// The version without its group.
const VERSION: &str = "v1alpha1";

/// The shape of a part of a review.
#[derive(Clone, Copy)]
enum Shape {
    /// Whatever it is, it is not looked into.
    Any,
    /// A text.
    Text,
    /// Any object.
    Object,
    /// ObjectMeta.
    Metadata,
    /// A list of these.
    List(&'static Shape),
    /// An object with these members.
    Members(&'static [(&'static str, Shape)]),
}

const POD_REFERENCE: Shape = Shape::Members(&[("namespace", Shape::Text), ("name", Shape::Text)]);
const NODE_TAINT: Shape =
    Shape::Members(&[("node", Shape::Text), ("key", Shape::Text), ("value", Shape::Text), ("effect", Shape::Text)]);
const NODE_LABEL: Shape = Shape::Members(&[("node", Shape::Text), ("key", Shape::Text), ("value", Shape::Text)]);
const REVIEW: Shape = Shape::Members(&[
    ("apiVersion", Shape::Text),
    ("kind", Shape::Text),
    ("metadata", Shape::Metadata),
    (
        "spec",
        Shape::Members(&[
            ("pod", Shape::Object),
            ("template", Shape::Object),
            ("podRef", POD_REFERENCE),
            ("nodeNames", Shape::List(&Shape::Text)),
            (
                "whatIf",
                Shape::Members(&[
                    ("taints", Shape::List(&NODE_TAINT)),
                    ("labels", Shape::List(&NODE_LABEL)),
                    ("withoutPods", Shape::List(&POD_REFERENCE)),
                ]),
            ),
        ]),
    ),
    // Whoever sends an answer gets another one.
    ("status", Shape::Any),
]);

/// The form of a body by its media type; without one JSON is meant, as upstream has it.
///
/// # Errors
/// 415.
pub(super) fn form(headers: &HeaderMap) -> Result<Form, Failure> {
    let sent = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    match sent.split(';').next().unwrap_or_default().trim() {
        "" | "application/json" => Ok(Form::Json),
        "application/yaml" => Ok(Form::Yaml),
        _ => Err(Failure::UnsupportedMediaType(
            "the body of the request was in an unknown format - accepted media types include: application/json, \
             application/yaml"
                .to_owned(),
        )),
    }
}

/// A body that has arrived, and its place among those in memory.
#[derive(Debug)]
pub(super) struct Arrived {
    pub(super) bytes: Vec<u8>,
    pub(super) place: BodyPlace,
}

/// Reads a body to its end.
///
/// # Errors
/// 413 when it is longer than `most`, 400 when it breaks off or does not arrive in time, 429 when there is no room for it.
pub(super) async fn body(
    body: Option<UpstreamBody>,
    headers: &HeaderMap,
    most: usize,
    place: BodyPlace,
    until: Instant,
) -> Result<Arrived, Failure> {
    let declared = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if declared.is_some_and(|declared| declared > most as u64) {
        return Err(Failure::TooLargeBody(most));
    }
    let mut arrived = Arrived { bytes: Vec::new(), place };
    let Some(body) = body else { return Ok(arrived) };
    let until = until.min(Instant::now() + ARRIVAL);
    let late = || {
        let message = format!("the body of the request did not arrive in time: at most {} s", ARRIVAL.as_secs());
        Failure::BadRequest(message)
    };
    timeout_at(until, whole(body, most, &mut arrived)).await.unwrap_or_else(|_| Err(late()))?;
    Ok(arrived)
}

async fn whole(mut body: UpstreamBody, most: usize, arrived: &mut Arrived) -> Result<(), Failure> {
    while let Some(frame) = body.frame().await {
        let frame =
            frame.map_err(|error| Failure::BadRequest(format!("the body of the request broke off: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        if arrived.bytes.len() + data.len() > most {
            return Err(Failure::TooLargeBody(most));
        }
        arrived.place.grow(data.len()).map_err(Failure::Limited)?;
        arrived.bytes.extend_from_slice(&data);
    }
    Ok(())
}

/// A review that can be answered.
#[derive(Debug)]
pub(super) struct Decoded {
    pub(super) review: PlacementReview,
    /// Fields of its Pod or its workload that do not exist, with paths in the review.
    pub(super) unknown: Vec<Warning>,
}

/// Reads a review.
///
/// # Errors
/// 400 that names the field, 422 for what is missing.
pub(super) fn review(bytes: &[u8], form: Form, validation: FieldValidation) -> Result<Decoded, Failure> {
    let value = single(bytes, form, &mut Budget::new(MEMORY)).map_err(|error| match error {
        NotOne::Broken(broken) => unreadable(&format!("line {}: {}", broken.line, broken.cause)),
        NotOne::None | NotOne::Several => unreadable(&error.to_string()),
    })?;
    of_document(value, validation)
}

fn of_document(mut value: Value, validation: FieldValidation) -> Result<Decoded, Failure> {
    for (member, expected) in [("apiVersion", API_VERSION), ("kind", KIND)] {
        match value.get(member).and_then(Value::as_str).unwrap_or_default() {
            "" => value[member] = json!(expected),
            sent if sent == expected => {}
            sent if member == "apiVersion" => {
                return Err(Failure::BadRequest(format!(
                    "the API version in the data ({sent}) does not match the expected API version ({expected})"
                )));
            }
            sent => return Err(unreadable(&format!("kind: {sent} is not {expected}"))),
        }
    }
    let mut found = Found::default();
    settle(&mut value, REVIEW, "", &mut found);
    if let Some(misshapen) = found.misshapen.first() {
        return Err(unreadable(misshapen));
    }
    // What is missing is told after what cannot be decoded.
    let problems = missing(&value);
    let review = PlacementReview::deserialize(value);
    let unknown = match &review {
        Ok(review) => unknown_within(&review.spec),
        Err(_) => Vec::new(),
    };
    let mut refused: Vec<String> = found.unknown.iter().map(|path| format!("unknown field {}", quote(path))).collect();
    if validation == FieldValidation::Strict {
        refused.extend(unknown.iter().map(ToString::to_string));
    }
    if !refused.is_empty() {
        return Err(unreadable(&format!("strict decoding error: {}", refused.join(", "))));
    }
    if !problems.is_empty() {
        return Err(Failure::invalid_review(problems));
    }
    let review = review.map_err(|error| unreadable(&error.to_string()))?;
    Ok(Decoded { review, unknown })
}

/// Reads a review that stands in a file among others, strictly as far as it is the review's own.
///
/// # Errors
/// What is wrong with it.
pub fn of_file(document: Value) -> Result<PlacementReview, String> {
    let decoded = of_document(document, FieldValidation::Warn);
    decoded.map(|decoded| decoded.review).map_err(|failure| failure.message())
}

/// Fields that do not exist, with paths in the review.
fn unknown_within(spec: &PlacementReviewSpec) -> Vec<Warning> {
    let outer = spec.document_path().unwrap_or_default();
    spec.misfits().unknown.iter().map(|warning| warning.within(outer)).collect()
}

fn unreadable(cause: &str) -> Failure {
    Failure::BadRequest(format!("{KIND} in version {} cannot be handled as a {KIND}: {cause}", quote(VERSION)))
}

/// What does not fit; at most [`MOST_PROBLEMS`] of each.
#[derive(Default)]
struct Found {
    unknown: Vec<String>,
    misshapen: Vec<String>,
}

impl Found {
    fn unknown(&mut self, path: impl FnOnce() -> String) {
        if self.unknown.len() < MOST_PROBLEMS {
            self.unknown.push(path());
        }
    }

    fn misshapen(&mut self, path: &str, expected: &str, value: &Value) {
        if self.misshapen.len() < MOST_PROBLEMS {
            let path = if path.is_empty() { "the document" } else { path };
            self.misshapen.push(format!("{path}: expected {expected}, not {}", kind(value)));
        }
    }
}

/// Takes nulls for absent, as Go does, and gathers what does not fit.
fn settle(value: &mut Value, shape: Shape, path: &str, found: &mut Found) {
    let at = |member: &str| if path.is_empty() { member.to_owned() } else { format!("{path}.{member}") };
    match (shape, value) {
        (Shape::Any, _) | (Shape::Text, Value::String(_)) | (Shape::Object, Value::Object(_)) => {}
        (Shape::List(item), Value::Array(values)) => {
            for (index, value) in values.iter_mut().enumerate() {
                settle(value, *item, &format!("{path}[{index}]"), found);
            }
        }
        (Shape::Members(members), Value::Object(values)) => {
            values.retain(|_, value| !value.is_null());
            for (name, value) in values {
                match members.iter().find(|(member, _)| member == name) {
                    Some((_, shape)) => settle(value, *shape, &at(name), found),
                    None => found.unknown(|| at(name)),
                }
            }
        }
        (Shape::Metadata, Value::Object(values)) => {
            values.keys().filter(|name| !is_metadata_member(name)).for_each(|name| found.unknown(|| at(name)));
        }
        (Shape::Text, value) => found.misshapen(path, "a string", value),
        (Shape::List(_), value) => found.misshapen(path, "a list", value),
        (Shape::Object | Shape::Metadata | Shape::Members(_), value) => found.misshapen(path, "an object", value),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// What must be there, and the kind of the Pod.
fn missing(review: &Value) -> Vec<Problem> {
    let mut problems = Vec::new();
    if review.get("spec").is_none() {
        problems.push(Problem::without_value(Reason::Required, "spec", ""));
    }
    let mut require = |object: &Value, path: &str, members: &[&str]| {
        for member in members.iter().filter(|member| object[**member].as_str().unwrap_or_default().is_empty()) {
            if problems.len() >= MOST_PROBLEMS {
                break;
            }
            problems.push(Problem::without_value(Reason::Required, format!("{path}.{member}"), ""));
        }
    };
    let spec = &review["spec"];
    if spec["podRef"].is_object() {
        require(&spec["podRef"], "spec.podRef", &["namespace", "name"]);
    }
    for (list, members) in [
        ("taints", &["node", "key", "effect"][..]),
        ("labels", &["node", "key"]),
        ("withoutPods", &["namespace", "name"]),
    ] {
        for (index, item) in spec["whatIf"][list].as_array().into_iter().flatten().enumerate() {
            require(item, &format!("spec.whatIf.{list}[{index}]"), members);
        }
    }
    if let Some(kind) = spec["pod"]["kind"].as_str().filter(|kind| !matches!(*kind, "" | "Pod")) {
        let detail = "supported values: \"Pod\"; a workload goes into spec.template";
        problems.push(Problem::with_text(Reason::NotSupported, "spec.pod.kind", &quote(kind), detail));
    }
    problems
}
