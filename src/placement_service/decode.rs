//! A body as a review: JSON or YAML, strict, with errors that name the field.
//!
//! Unknown members are rejected, also where an API server would only warn. Dropping a premise silently would change the
//! question. [`crate::placement`] validates the contents of `pod` and `template`: unknown fields there are rejected if
//! `?fieldValidation=Strict` requests that, as kubectl does.

use serde::Deserialize;
use serde_json::Value;

use super::field_validation::FieldValidation;
use crate::manifest::document;
use crate::manifest::document::Expected;
use crate::manifest::shape::{DocumentShape, MOST_MISFITS, ShapeErrors, settle};
use crate::manifest::yaml::Syntax;
use crate::model::quote;
use crate::placement::review::{API_VERSION, KIND, PlacementReview, PlacementReviewSpec};
use crate::placement::warning::Warning;
use crate::selector::{FieldError, FieldErrorType};

/// A review that names a stored Pod and nothing else is not longer.
pub const MOST_OF_REFERENCE: usize = 64 << 10;

/// Bodies that are longer are parsed off the threads that answer requests.
pub const PARSED_INLINE: usize = 64 << 10;

/// The apiVersion and the kind of a review.
const EXPECTED: Expected<'static> = Expected { api_version: API_VERSION, kind: KIND };

const POD_REFERENCE: DocumentShape =
    DocumentShape::Members(&[("namespace", DocumentShape::Text), ("name", DocumentShape::Text)]);
const NODE_TAINT: DocumentShape = DocumentShape::Members(&[
    ("node", DocumentShape::Text),
    ("key", DocumentShape::Text),
    ("value", DocumentShape::Text),
    ("effect", DocumentShape::Text),
]);
const NODE_LABEL: DocumentShape = DocumentShape::Members(&[
    ("node", DocumentShape::Text),
    ("key", DocumentShape::Text),
    ("value", DocumentShape::Text),
]);
const REVIEW: DocumentShape = DocumentShape::Members(&[
    ("apiVersion", DocumentShape::Text),
    ("kind", DocumentShape::Text),
    ("metadata", DocumentShape::Metadata),
    (
        "spec",
        DocumentShape::Members(&[
            ("pod", DocumentShape::Object),
            ("template", DocumentShape::Object),
            ("podRef", POD_REFERENCE),
            ("nodeNames", DocumentShape::List(&DocumentShape::Text)),
            (
                "whatIf",
                DocumentShape::Members(&[
                    ("taints", DocumentShape::List(&NODE_TAINT)),
                    ("labels", DocumentShape::List(&NODE_LABEL)),
                    ("withoutPods", DocumentShape::List(&POD_REFERENCE)),
                ]),
            ),
        ]),
    ),
    // A status in the request is replaced.
    ("status", DocumentShape::Any),
]);

/// Why a review cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// It is no review, or has a member that is misspelled or of another type.
    #[error("{0}")]
    Malformed(String),
    /// Required members are missing; paths are within the review.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Invalid(Vec<FieldError>),
}

/// A valid review.
#[derive(Debug)]
pub struct DecodedPlacementReview {
    /// The review.
    pub review: PlacementReview,
    /// Fields of its Pod or its workload that do not exist, with paths in the review.
    pub unknown: Vec<Warning>,
}

/// Reads a review.
///
/// # Errors
/// [`DecodeError`], which names the field.
pub fn review(bytes: &[u8], form: Syntax, validation: FieldValidation) -> Result<DecodedPlacementReview, DecodeError> {
    of_document(document::document(bytes, form).map_err(|cause| unreadable(&cause))?, validation)
}

/// Reads a review from a parsed document.
fn of_document(mut value: Value, validation: FieldValidation) -> Result<DecodedPlacementReview, DecodeError> {
    EXPECTED.check(&mut value).map_err(DecodeError::Malformed)?;
    let mut found = ShapeErrors::default();
    settle(&mut value, REVIEW, "", &mut found);
    if let Some(misshapen) = found.misshapen.first() {
        return Err(unreadable(misshapen));
    }
    // Missing members are reported after those that cannot be decoded.
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
        return Err(DecodeError::Invalid(problems));
    }
    let review = review.map_err(|error| unreadable(&error.to_string()))?;
    Ok(DecodedPlacementReview { review, unknown })
}

/// Reads a review of a file with several documents, strictly as far as its own members are concerned.
///
/// # Errors
/// What is wrong with it.
pub fn of_file(document: Value) -> Result<PlacementReview, String> {
    let decoded = of_document(document, FieldValidation::Warn);
    decoded.map(|decoded| decoded.review).map_err(|error| error.to_string())
}

/// Warnings about fields that do not exist, with paths in the review.
fn unknown_within(spec: &PlacementReviewSpec) -> Vec<Warning> {
    let outer = spec.document_path().unwrap_or_default();
    spec.shape_errors().unknown.iter().map(|warning| warning.within(outer)).collect()
}

/// The error for a body that does not parse.
fn unreadable(cause: &str) -> DecodeError {
    DecodeError::Malformed(EXPECTED.unreadable(cause))
}

/// The errors for required members that are missing.
fn missing(review: &Value) -> Vec<FieldError> {
    let mut problems = Vec::new();
    if review.get("spec").is_none() {
        problems.push(FieldError::without_value(FieldErrorType::Required, "spec", ""));
    }
    let mut require = |object: &Value, path: &str, members: &[&str]| {
        for member in members.iter().filter(|member| object[**member].as_str().unwrap_or_default().is_empty()) {
            if problems.len() >= MOST_MISFITS {
                break;
            }
            problems.push(FieldError::without_value(FieldErrorType::Required, format!("{path}.{member}"), ""));
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
        problems.push(FieldError::with_text(FieldErrorType::NotSupported, "spec.pod.kind", &quote(kind), detail));
    }
    problems
}
