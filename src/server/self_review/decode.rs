//! Decodes the body of a review about the caller itself: JSON, YAML or protobuf.
//!
//! Unknown fields are treated as in every create of kube-apiserver: a newer client may send some.

use http::HeaderMap;
use serde_json::Value;

use super::kind::SelfReviewKind;
use super::protobuf;
use crate::access::attributes::ResourceAttributes;
use crate::manifest::document::{self, Expected};
use crate::manifest::shape::{DocumentShape, ShapeErrors, check_shape};
use crate::manifest::yaml::Syntax;
use crate::model::quote;
use crate::placement_service::field_validation::FieldValidation;
use crate::selector::{
    Dialect, FieldError, FieldErrorType, FieldRequirement, FieldSelector, LabelRequirement, LabelSelector, Operator,
    OperatorName,
};
use crate::wire::api_error::ApiError;
use crate::wire::request_body;

/// The maximum length of the body of a review, in bytes.
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

/// The format of the body of a review.
#[derive(Clone, Copy, Debug)]
pub(super) enum BodyFormat {
    /// JSON or YAML.
    Text(Syntax),
    Protobuf,
}

/// What a review asks.
#[derive(Debug)]
pub(super) enum Question {
    /// The identity of the caller.
    User,
    /// Whether a request is permitted and served.
    Access {
        /// The spec, which is sent back.
        spec: Value,
        /// The request that the review is about.
        request: Box<Wanted>,
        /// The paths of its selectors that have invalid requirements, which are ignored.
        ignored: Vec<&'static str>,
    },
    /// What is permitted and served in this namespace.
    Rules(String),
}

/// The request that a SelfSubjectAccessReview is about.
#[derive(Debug)]
pub(super) enum Wanted {
    /// A request for a resource.
    Resource { verb: String, about: ResourceAttributes },
    /// A request for a path that is not of a resource.
    Path { verb: String, path: String },
}

/// A review that is valid.
#[derive(Debug)]
pub(super) struct DecodedSelfReview {
    pub(super) question: Question,
    /// The paths of fields that the kind does not have, for warnings.
    pub(super) unknown: Vec<String>,
}

/// The format of the body, by its Content-Type.
///
/// # Errors
/// 415 for another media type than those of JSON, YAML and protobuf.
pub(super) fn body_format(headers: &HeaderMap) -> Result<BodyFormat, ApiError> {
    match request_body::media_type(headers) {
        protobuf::MEDIA_TYPE => Ok(BodyFormat::Protobuf),
        text => request_body::syntax(text, &[protobuf::MEDIA_TYPE]).map(BodyFormat::Text),
    }
}

/// Decodes and validates a review of this kind and apiVersion. `validation`: what to do about unknown fields.
///
/// # Errors
/// 400 for a body that cannot be decoded, or that has unknown fields if `validation` is Strict. 422 for an invalid
/// review.
pub(super) fn review(
    bytes: &[u8],
    format: BodyFormat,
    (kind, api_version): (SelfReviewKind, &str),
    validation: FieldValidation,
) -> Result<DecodedSelfReview, ApiError> {
    let expected = Expected { api_version, kind: kind.name() };
    let (shape, message) = match kind {
        SelfReviewKind::User => (USER, protobuf::USER),
        SelfReviewKind::Access => (ACCESS, protobuf::ACCESS),
        SelfReviewKind::Rules => (RULES, protobuf::RULES),
    };
    let document = match format {
        BodyFormat::Text(syntax) => document::document(bytes, syntax),
        BodyFormat::Protobuf => protobuf::document(bytes, message),
    };
    let unreadable = |cause: &str| ApiError::BadRequest(expected.unreadable(cause));
    let mut document = document.map_err(|cause| unreadable(&cause))?;
    expected.check(&mut document).map_err(ApiError::BadRequest)?;
    let mut found = ShapeErrors::default();
    check_shape(&mut document, shape, "", &mut found);
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
        SelfReviewKind::Access => access_question(&mut document)?,
        SelfReviewKind::Rules => match text(&document["spec"], "namespace") {
            namespace if namespace.is_empty() => {
                return Err(ApiError::BadRequest("no namespace on request".to_owned()));
            }
            namespace => Question::Rules(namespace),
        },
    };
    Ok(DecodedSelfReview { question, unknown })
}

/// The message about a field that the kind does not have.
pub(super) fn unknown_field(path: &str) -> String {
    format!("unknown field {}", quote(path))
}

/// A string field of a JSON object; empty if it is missing.
fn text(object: &Value, member: &str) -> String {
    object[member].as_str().unwrap_or_default().to_owned()
}

/// Validates a SelfSubjectAccessReview by the rules of `pkg/apis/authorization/validation` in kube-apiserver, and
/// returns what it asks. Moves `spec` out of the document.
///
/// # Errors
/// 422 with every problem.
fn access_question(document: &mut Value) -> Result<Question, ApiError> {
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
        let (fields, has_invalid_fields) = field_requirements(&resource["fieldSelector"]);
        let (labels, has_invalid_labels) = label_requirements(&resource["labelSelector"]);
        ignored.extend(has_invalid_fields.then_some("spec.resourceAttributes.fieldSelector"));
        ignored.extend(has_invalid_labels.then_some("spec.resourceAttributes.labelSelector"));
        let about = ResourceAttributes {
            group: text(resource, "group"),
            version: text(resource, "version"),
            resource: text(resource, "resource"),
            subresource: text(resource, "subresource"),
            namespace: text(resource, "namespace"),
            name: text(resource, "name"),
            fields,
            labels,
        };
        Wanted::Resource { verb: text(resource, "verb"), about }
    } else {
        Wanted::Path { verb: text(path, "verb"), path: text(path, "path") }
    };
    Ok(Question::Access { spec, request: Box::new(request), ignored })
}

/// Whether metadata is empty; `managedFields`, which servers set, do not count.
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

/// The field `requirements` of a selector; empty if it is missing.
fn requirements(selector: &Value) -> &[Value] {
    selector["requirements"].as_array().map_or(&[], Vec::as_slice)
}

/// The field `values` of a requirement.
fn values(requirement: &Value) -> Vec<String> {
    let values = requirement["values"].as_array().into_iter().flatten();
    values.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The operator of a requirement, with its values; `None` if they are not valid in the dialect.
fn operator(requirement: &Value, dialect: Dialect) -> Option<Operator> {
    OperatorName::read(requirement["operator"].as_str()?, dialect)?.with_values(values(requirement)).ok()
}

/// The valid requirements of a field selector, and whether it has others, which are ignored. Ignoring one is safe:
/// requirements only narrow the request, so the review is then about more objects.
fn field_requirements(selector: &Value) -> (Vec<FieldRequirement>, bool) {
    let raw = text(selector, "rawSelector");
    if !raw.is_empty() {
        return FieldSelector::parse_as_kubernetes(&raw, usize::MAX)
            .map_or((Vec::new(), true), |read| (read.requirements, false));
    }
    let mut is_partial = false;
    let read = requirements(selector).iter().filter_map(|requirement| {
        // Field selectors have no lists of values: `In` with one value is `=`.
        let operator =
            operator(requirement, Dialect::KubernetesFieldText).filter(|operator| operator.listed().len() == 1);
        let read = operator.map(|operator| FieldRequirement { label: text(requirement, "key"), operator });
        is_partial |= read.is_none();
        read
    });
    let read = read.collect();
    (read, is_partial)
}

/// The valid requirements of a label selector, and whether it has others, which are ignored as for fields.
fn label_requirements(selector: &Value) -> (Vec<LabelRequirement>, bool) {
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
