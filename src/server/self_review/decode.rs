//! Decodes a body to a review: JSON, YAML or protobuf.
//!
//! Unknown fields are treated as kube-apiserver treats them in every create: a newer client may send some.

use http::HeaderMap;
use serde_json::Value;

use super::kind::SelfReviewKind;
use super::protobuf;
use crate::access::attributes::ResourceAttributes;
use crate::manifest::document::{self, Expected};
use crate::manifest::shape::{DocumentShape, ShapeErrors, settle};
use crate::manifest::yaml::Syntax;
use crate::model::quote;
use crate::placement_service::field_validation::FieldValidation;
use crate::selector::{
    Dialect, FieldError, FieldErrorType, FieldRequirement, FieldSelector, LabelRequirement, LabelSelector, Operator,
    OperatorName,
};
use crate::wire::api_error::ApiError;
use crate::wire::request_body;

/// A review is not longer.
pub(super) const MOST: usize = 64 << 10;

const REQUIREMENT: DocumentShape = DocumentShape::Members(&[
    ("key", DocumentShape::Text),
    ("operator", DocumentShape::Text),
    ("values", DocumentShape::List(&DocumentShape::Text)),
]);
const SELECTOR: DocumentShape = DocumentShape::Members(&[
    ("rawSelector", DocumentShape::Text),
    ("requirements", DocumentShape::List(&REQUIREMENT)),
]);
const RESOURCE: DocumentShape = DocumentShape::Members(&[
    ("namespace", DocumentShape::Text),
    ("verb", DocumentShape::Text),
    ("group", DocumentShape::Text),
    ("version", DocumentShape::Text),
    ("resource", DocumentShape::Text),
    ("subresource", DocumentShape::Text),
    ("name", DocumentShape::Text),
    ("fieldSelector", SELECTOR),
    ("labelSelector", SELECTOR),
]);
const PATH: DocumentShape = DocumentShape::Members(&[("path", DocumentShape::Text), ("verb", DocumentShape::Text)]);
const ACCESS_SPEC: DocumentShape =
    DocumentShape::Members(&[("resourceAttributes", RESOURCE), ("nonResourceAttributes", PATH)]);
const RULES_SPEC: DocumentShape = DocumentShape::Members(&[("namespace", DocumentShape::Text)]);

const USER: DocumentShape = DocumentShape::Members(&[
    ("apiVersion", DocumentShape::Text),
    ("kind", DocumentShape::Text),
    ("metadata", DocumentShape::Metadata),
    ("status", DocumentShape::Any),
]);
const ACCESS: DocumentShape = DocumentShape::Members(&[
    ("apiVersion", DocumentShape::Text),
    ("kind", DocumentShape::Text),
    ("metadata", DocumentShape::Metadata),
    ("spec", ACCESS_SPEC),
    ("status", DocumentShape::Any),
]);
const RULES: DocumentShape = DocumentShape::Members(&[
    ("apiVersion", DocumentShape::Text),
    ("kind", DocumentShape::Text),
    ("metadata", DocumentShape::Metadata),
    ("spec", RULES_SPEC),
    ("status", DocumentShape::Any),
]);

/// How a body is written.
#[derive(Clone, Copy, Debug)]
pub(super) enum BodyFormat {
    Text(Syntax),
    Protobuf,
}

/// The question of a review.
#[derive(Debug)]
pub(super) enum Question {
    /// The identity of the caller.
    User,
    /// Whether a request is permitted and served.
    Access {
        /// The spec, which is sent back.
        spec: Value,
        /// The request.
        request: Box<Wanted>,
        /// Messages about ignored parts of its selectors.
        ignored: Vec<&'static str>,
    },
    /// What is permitted and served in this namespace.
    Rules(String),
}

/// A request that a review describes.
#[derive(Debug)]
pub(super) enum Wanted {
    Resource { verb: String, about: ResourceAttributes },
    Path { verb: String, path: String },
}

/// A valid review.
#[derive(Debug)]
pub(super) struct DecodedSelfReview {
    pub(super) question: Question,
    /// Paths of fields that do not exist.
    pub(super) unknown: Vec<String>,
}

/// The format of a body, by its media type.
///
/// # Errors
/// 415.
pub(super) fn written(headers: &HeaderMap) -> Result<BodyFormat, ApiError> {
    match request_body::media_type(headers) {
        protobuf::MEDIA_TYPE => Ok(BodyFormat::Protobuf),
        text => request_body::form(text, &[protobuf::MEDIA_TYPE]).map(BodyFormat::Text),
    }
}

/// Reads a review.
///
/// # Errors
/// 400 for what cannot be read, 422 for what is invalid.
pub(super) fn review(
    bytes: &[u8],
    written: BodyFormat,
    (kind, api_version): (SelfReviewKind, &str),
    validation: FieldValidation,
) -> Result<DecodedSelfReview, ApiError> {
    let expected = Expected { api_version, kind: kind.name() };
    let (shape, message) = match kind {
        SelfReviewKind::User => (USER, protobuf::USER),
        SelfReviewKind::Access => (ACCESS, protobuf::ACCESS),
        SelfReviewKind::Rules => (RULES, protobuf::RULES),
    };
    let document = match written {
        BodyFormat::Text(form) => document::document(bytes, form),
        BodyFormat::Protobuf => protobuf::document(bytes, message),
    };
    let unreadable = |cause: &str| ApiError::BadRequest(expected.unreadable(cause));
    let mut document = document.map_err(|cause| unreadable(&cause))?;
    expected.check(&mut document).map_err(ApiError::BadRequest)?;
    let mut found = ShapeErrors::default();
    settle(&mut document, shape, "", &mut found);
    if let Some(misshapen) = found.misshapen.first() {
        return Err(unreadable(misshapen));
    }
    let ShapeErrors { mut unknown, .. } = found;
    match validation {
        FieldValidation::Strict if !unknown.is_empty() => {
            let unknown: Vec<String> = unknown.iter().map(|path| unknown_field(path)).collect();
            return Err(unreadable(&format!("strict decoding error: {}", unknown.join(", "))));
        }
        FieldValidation::Ignore => unknown.clear(),
        FieldValidation::Strict | FieldValidation::Warn => {}
    }
    let question = match kind {
        SelfReviewKind::User => Question::User,
        SelfReviewKind::Access => access(&mut document)?,
        SelfReviewKind::Rules => match text(&document["spec"], "namespace") {
            namespace if namespace.is_empty() => {
                return Err(ApiError::BadRequest("no namespace on request".to_owned()));
            }
            namespace => Question::Rules(namespace),
        },
    };
    Ok(DecodedSelfReview { question, unknown })
}

/// The message about a field that does not exist.
pub(super) fn unknown_field(path: &str) -> String {
    format!("unknown field {}", quote(path))
}

/// A string member; empty if missing.
fn text(object: &Value, member: &str) -> String {
    object[member].as_str().unwrap_or_default().to_owned()
}

/// Validates a SelfSubjectAccessReview by the rules of `pkg/apis/authorization/validation` in kube-apiserver.
fn access(document: &mut Value) -> Result<Question, ApiError> {
    let mut problems = Vec::new();
    let spec = document["spec"].take();
    let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    match (resource.is_object(), path.is_object()) {
        (true, true) => {
            let detail = "cannot be specified in combination with resourceAttributes";
            problems.push(FieldError::with_value(FieldErrorType::Invalid, "spec.nonResourceAttributes", path, detail));
        }
        (false, false) => {
            let detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            problems.push(FieldError::with_text(FieldErrorType::Invalid, "spec.resourceAttributes", "null", detail));
        }
        _ => {}
    }
    for selector in ["fieldSelector", "labelSelector"] {
        let at = |member: &str| format!("spec.resourceAttributes.{selector}.{member}");
        let Some(selector) = resource.get(selector) else { continue };
        let raw = text(selector, "rawSelector");
        match (raw.is_empty(), requirements(selector).is_empty()) {
            (false, false) => {
                let detail = "may not specified at the same time as requirements";
                problems.push(FieldError::with_text(FieldErrorType::Invalid, at("rawSelector"), &quote(&raw), detail));
            }
            (true, true) => {
                let detail = "requirements or rawSelector is required";
                problems.push(FieldError::without_value(FieldErrorType::Required, at("requirements"), detail));
            }
            _ => {}
        }
    }
    if let Some(metadata) = document.get("metadata").filter(|metadata| !is_empty(metadata)) {
        problems.push(FieldError::with_value(FieldErrorType::Invalid, "metadata", metadata, "must be empty"));
    }
    if !problems.is_empty() {
        return Err(ApiError::invalid_review(SelfReviewKind::Access.group(), SelfReviewKind::Access.name(), problems));
    }
    let mut ignored = Vec::new();
    let request = if resource.is_object() {
        let fields = fields(&resource["fieldSelector"]);
        let labels = labels(&resource["labelSelector"]);
        ignored.extend(fields.1.then_some("spec.resourceAttributes.fieldSelector"));
        ignored.extend(labels.1.then_some("spec.resourceAttributes.labelSelector"));
        let about = ResourceAttributes {
            group: text(resource, "group"),
            version: text(resource, "version"),
            resource: text(resource, "resource"),
            subresource: text(resource, "subresource"),
            namespace: text(resource, "namespace"),
            name: text(resource, "name"),
            fields: fields.0,
            labels: labels.0,
        };
        Wanted::Resource { verb: text(resource, "verb"), about }
    } else {
        Wanted::Path { verb: text(path, "verb"), path: text(path, "path") }
    };
    Ok(Question::Access { spec, request: Box::new(request), ignored })
}

/// Whether metadata is empty, but for what servers set.
fn is_empty(metadata: &Value) -> bool {
    let is_nothing = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(values) => values.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(_) | Value::Number(_) => *value == 0,
    };
    let members = metadata.as_object().into_iter().flatten();
    members.filter(|(name, _)| *name != "managedFields").all(|(_, value)| is_nothing(value))
}

/// The requirements of a selector.
fn requirements(selector: &Value) -> &[Value] {
    selector["requirements"].as_array().map_or(&[], Vec::as_slice)
}

/// The values of a requirement.
fn values(requirement: &Value) -> Vec<String> {
    let values = requirement["values"].as_array().into_iter().flatten();
    values.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The operator of a requirement, if it is valid in the dialect.
fn operator(requirement: &Value, dialect: Dialect) -> Option<Operator> {
    OperatorName::read(requirement["operator"].as_str()?, dialect)?.with_values(values(requirement)).ok()
}

/// The requirements of a field selector, and whether some cannot be read. Requirements narrow the request, so a
/// request without one is for more.
fn fields(selector: &Value) -> (Vec<FieldRequirement>, bool) {
    let raw = text(selector, "rawSelector");
    if !raw.is_empty() {
        return FieldSelector::parse(&raw).map_or((Vec::new(), true), |read| (read.requirements, false));
    }
    let mut is_partial = false;
    let read = requirements(selector).iter().filter_map(|requirement| {
        let operator = operator(requirement, Dialect::FieldText).filter(|operator| operator.listed().len() == 1);
        let read = operator.map(|operator| FieldRequirement { label: text(requirement, "key"), operator });
        is_partial |= read.is_none();
        read
    });
    let read = read.collect();
    (read, is_partial)
}

/// Reads the requirements of a label selector; false if one of them is not valid.
fn labels(selector: &Value) -> (Vec<LabelRequirement>, bool) {
    let raw = text(selector, "rawSelector");
    if !raw.is_empty() {
        return LabelSelector::parse(&raw).map_or((Vec::new(), true), |read| (read.requirements, false));
    }
    let mut is_partial = false;
    let read = requirements(selector).iter().filter_map(|requirement| {
        let operator = operator(requirement, Dialect::Requirement);
        is_partial |= operator.is_none();
        operator.map(|operator| LabelRequirement { key: text(requirement, "key"), operator })
    });
    let read = read.collect();
    (read, is_partial)
}
