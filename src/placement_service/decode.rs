//! Decodes a PlacementReview from JSON or YAML, with errors that name the field.
//!
//! Unknown fields of the review are rejected, also where an API server would only warn: without such a field, another
//! review would be evaluated. [`crate::placement`] validates the contents of `pod` and `template`. Unknown fields there
//! are rejected if `?fieldValidation=Strict` requests that, as kubectl does.

use serde::Deserialize;
use serde_json::Value;

use super::field_validation::FieldValidation;
use crate::manifest::document;
use crate::manifest::document::Expected;
use crate::manifest::shape::{DocumentShape, MOST_MISFITS, ShapeErrors, check_shape};
use crate::manifest::yaml::Syntax;
use crate::model::quote;
use crate::placement::review::{API_VERSION, KIND, PlacementReview, PlacementReviewSpec};
use crate::placement::warning::Warning;
use crate::selector::{FieldError, FieldErrorType};

/// The maximum length of a review that has only `podRef`, in bytes.
pub const MOST_OF_REFERENCE: usize = 64 << 10;

/// The maximum length of a body, in bytes, that is parsed on a thread that handles requests. Longer ones are parsed on
/// a blocking thread.
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

/// Why a review cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The document is not a review, or has a field that is unknown or of another type.
    #[error("{0}")]
    Malformed(String),
    /// Required fields are missing, or `spec.pod` is not a Pod. Paths are those in the review.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Invalid(Vec<FieldError>),
}

/// A decoded review.
#[derive(Debug)]
pub struct DecodedPlacementReview {
    /// The review.
    pub review: PlacementReview,
    /// Warnings about unknown fields of its Pod or its workload, with paths in the review.
    pub unknown: Vec<Warning>,
}

/// Decodes a review. With [`FieldValidation::Strict`], unknown fields of its Pod or its workload are errors.
///
/// # Errors
/// [`DecodeError`], which names the field.
pub fn review(bytes: &[u8], form: Syntax, validation: FieldValidation) -> Result<DecodedPlacementReview, DecodeError> {
    decode_document(document::document(bytes, form).map_err(|cause| unreadable(&cause))?, validation)
}

/// Decodes a review from a parsed document; see [`review`].
fn decode_document(mut value: Value, validation: FieldValidation) -> Result<DecodedPlacementReview, DecodeError> {
    EXPECTED.check(&mut value).map_err(DecodeError::Malformed)?;
    let mut found = ShapeErrors::default();
    // Also removes null members, which Go treats as absent, so that the steps below need not distinguish the two.
    check_shape(&mut value, REVIEW, "", &mut found);
    if let Some(misshapen) = found.misshapen.first() {
        return Err(unreadable(misshapen));
    }
    // The checks run on the document before it is deserialized, but unknown fields are reported first. So a misspelled
    // name of a required field is reported as such, and not as a missing field.
    let problems = missing(&value);
    let review = PlacementReview::deserialize(value);
    let unknown = match &review {
        Ok(review) => unknown_within(&review.spec),
        Err(_) => Vec::new(),
    };
    let mut errors: Vec<String> = found.unknown.iter().map(|path| format!("unknown field {}", quote(path))).collect();
    if validation == FieldValidation::Strict {
        errors.extend(unknown.iter().map(ToString::to_string));
    }
    if !errors.is_empty() {
        return Err(unreadable(&format!("strict decoding error: {}", errors.join(", "))));
    }
    if !problems.is_empty() {
        return Err(DecodeError::Invalid(problems));
    }
    let review = review.map_err(|error| unreadable(&error.to_string()))?;
    Ok(DecodedPlacementReview { review, unknown })
}

/// Decodes a review from a document of a file. Unknown fields of the review are errors; those of its Pod or its
/// workload are ignored.
///
/// # Errors
/// The message of the [`DecodeError`], which names the field.
pub fn review_of_file(document: Value) -> Result<PlacementReview, String> {
    let decoded = decode_document(document, FieldValidation::Warn);
    decoded.map(|decoded| decoded.review).map_err(|error| error.to_string())
}

/// Warnings about unknown fields of the Pod or the workload of a review, with paths in the review.
fn unknown_within(spec: &PlacementReviewSpec) -> Vec<Warning> {
    let outer = spec.document_path().unwrap_or_default();
    spec.shape_errors().unknown.iter().map(|warning| warning.within(outer)).collect()
}

/// The error for a body that cannot be decoded.
fn unreadable(cause: &str) -> DecodeError {
    DecodeError::Malformed(EXPECTED.unreadable(cause))
}

/// The errors for required fields that are missing, and for a `spec.pod` of another kind.
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
