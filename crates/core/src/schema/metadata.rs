//! The rules of metadata: name, namespace, labels, annotations, owners, finalizers (apimachinery `api/validation`).
//!
//! The syntax of names differs between kinds: see `builtin::name_rule`. Types are checked here too, since a Go server
//! would fail to decode them. A label value `true` or `1` is the most common mistake in YAML. Fields that the server
//! sets itself (uid, resourceVersion, managedFields) are not validated.

use serde_json::{Map, Value};

use crate::model::Scope;
use crate::selector::syntax::{
    dns_1035_label_errors, dns_label_errors, dns_subdomain_errors, label_key_errors, label_value_errors,
    path_segment_errors,
};
use crate::selector::{FieldError, FieldErrorType};

/// The maximum bytes of the keys and values of all annotations (apimachinery `TotalAnnotationSizeLimitB`).
const ANNOTATIONS_MAX: usize = 256 * 1024;

/// The syntax of a kind's object names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// A DNS subdomain: all custom resources and most built-in kinds.
    DnsSubdomain,
    /// A DNS label: Namespace.
    DnsLabel,
    /// A DNS label that starts with a letter: Service.
    Dns1035Label,
    /// Anything that fits into one segment of a URL: RBAC, APIService, ClusterTrustBundle.
    PathSegment,
}

impl NameRule {
    /// The messages about an invalid name; none if the name is valid.
    pub fn errors(self, name: &str) -> Vec<String> {
        match self {
            NameRule::DnsSubdomain => dns_subdomain_errors(name),
            NameRule::DnsLabel => dns_label_errors(name),
            NameRule::Dns1035Label => dns_1035_label_errors(name),
            NameRule::PathSegment => path_segment_errors(name),
        }
    }
}

/// Validates `metadata` of an object, and returns all errors.
pub fn validate(object: &Value, scope: Scope, name_rule: NameRule) -> Vec<FieldError> {
    let mut problems = Vec::new();
    let empty = Map::new();
    let metadata = match object.get("metadata") {
        None | Some(Value::Null) => &empty,
        Some(Value::Object(metadata)) => metadata,
        Some(other) => {
            return vec![FieldError::with_value(FieldErrorType::TypeInvalid, "metadata", other, "must be an object")];
        }
    };
    validate_names(metadata, scope, name_rule, &mut problems);
    let generation = metadata.get("generation").unwrap_or(&Value::Null);
    match generation {
        Value::Null => {}
        Value::Number(number) if number.as_i64().is_some_and(|number| number >= 0) => {}
        other @ (Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_)) => {
            let detail = "must be greater than or equal to 0";
            problems.push(FieldError::with_value(FieldErrorType::Invalid, "metadata.generation", other, detail));
        }
    }
    validate_labels(metadata, &mut problems);
    validate_annotations(metadata, &mut problems);
    validate_owners(metadata, &mut problems);
    validate_finalizers(metadata, &mut problems);
    problems
}

/// Validates name and namespace. `scope` is that of the object's kind. A value that is not a string is the last error:
/// a Go server would fail to decode the object.
fn validate_names(metadata: &Map<String, Value>, scope: Scope, name_rule: NameRule, problems: &mut Vec<FieldError>) {
    let Some(name) = string_member(metadata, "name", problems) else { return };
    if name.is_empty() {
        let detail = "name or generateName is required";
        problems.push(FieldError::without_value(FieldErrorType::Required, "metadata.name", detail));
    }
    let errors = if name.is_empty() { Vec::new() } else { name_rule.errors(name) };
    problems.extend(invalid("metadata.name", name, errors));
    let Some(namespace) = string_member(metadata, "namespace", problems) else { return };
    match (scope, namespace.is_empty()) {
        (Scope::Namespaced, true) => {
            problems.push(FieldError::without_value(FieldErrorType::Required, "metadata.namespace", ""));
        }
        (Scope::Namespaced, false) => {
            problems.extend(invalid("metadata.namespace", namespace, dns_label_errors(namespace)));
        }
        (Scope::Cluster, true) => {}
        (Scope::Cluster, false) => {
            let detail = "not allowed on this type";
            problems.push(FieldError::without_value(FieldErrorType::Forbidden, "metadata.namespace", detail));
        }
    }
}

/// Validates labels.
fn validate_labels(metadata: &Map<String, Value>, problems: &mut Vec<FieldError>) {
    for (key, value) in string_entries(metadata, "labels", problems) {
        problems.extend(invalid("metadata.labels", key, label_key_errors(key)));
        problems.extend(invalid("metadata.labels", value, label_value_errors(value)));
    }
}

/// Validates annotations: their keys and their total size.
fn validate_annotations(metadata: &Map<String, Value>, problems: &mut Vec<FieldError>) {
    let mut size = 0;
    for (key, value) in string_entries(metadata, "annotations", problems) {
        size += key.len() + value.len();
        // Unlike keys of labels, keys of annotations may have upper-case letters in the prefix.
        problems.extend(invalid("metadata.annotations", key, label_key_errors(&key.to_lowercase())));
    }
    if size > ANNOTATIONS_MAX {
        let detail = format!("may not be more than {ANNOTATIONS_MAX} bytes");
        problems.push(FieldError::without_value(FieldErrorType::TooLong, "metadata.annotations", detail));
    }
}

/// Validates ownerReferences.
fn validate_owners(metadata: &Map<String, Value>, problems: &mut Vec<FieldError>) {
    // Paths without an index, and messages, are upstream's.
    let path = "metadata.ownerReferences";
    let mut controller: Option<String> = None;
    let owners = list_member(metadata, "ownerReferences", problems);
    for (index, owner) in owners.iter().enumerate() {
        let Some(owner) = owner.as_object() else {
            let field = format!("{path}[{index}]");
            problems.push(FieldError::with_value(FieldErrorType::TypeInvalid, field, owner, "must be an object"));
            continue;
        };
        for (member, detail) in [
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ] {
            let value = owner.get(member).cloned().unwrap_or_else(|| Value::from(""));
            if value.as_str().is_none_or(str::is_empty) {
                problems.push(FieldError::with_value(
                    FieldErrorType::Invalid,
                    format!("{path}.{member}"),
                    &value,
                    detail,
                ));
            }
        }
        if owner.get("controller") == Some(&Value::Bool(true)) {
            let part = |member: &str| owner.get(member).and_then(Value::as_str).unwrap_or_default();
            let this = format!("{}/{}", part("kind"), part("name"));
            match &controller {
                None => controller = Some(this),
                Some(first) => {
                    let detail = format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {first} \
                         and {this}"
                    );
                    let shown = Value::from(owners.to_vec());
                    problems.push(FieldError::with_value(FieldErrorType::Invalid, path, &shown, detail));
                }
            }
        }
    }
}

/// Validates finalizers.
fn validate_finalizers(metadata: &Map<String, Value>, problems: &mut Vec<FieldError>) {
    for (index, finalizer) in list_member(metadata, "finalizers", problems).iter().enumerate() {
        match finalizer.as_str() {
            Some(text) => problems.extend(invalid("metadata.finalizers", text, label_key_errors(text))),
            None => {
                let field = format!("metadata.finalizers[{index}]");
                problems.push(FieldError::with_value(
                    FieldErrorType::TypeInvalid,
                    field,
                    finalizer,
                    "must be a string",
                ));
            }
        }
    }
}

/// An error about `value` in the given field for each of these messages.
fn invalid(field: &str, value: &str, errors: Vec<String>) -> Vec<FieldError> {
    errors
        .into_iter()
        .map(|error| FieldError::with_value(FieldErrorType::Invalid, field, &Value::from(value), error))
        .collect()
}

/// The member `name` of metadata as a string; empty if it is missing or null. `None`, and an error in `problems`, if it
/// has another type.
fn string_member<'a>(metadata: &'a Map<String, Value>, name: &str, problems: &mut Vec<FieldError>) -> Option<&'a str> {
    match metadata.get(name) {
        None | Some(Value::Null) => Some(""),
        Some(Value::String(text)) => Some(text),
        Some(other) => {
            let field = format!("metadata.{name}");
            problems.push(FieldError::with_value(FieldErrorType::TypeInvalid, field, other, "must be a string"));
            None
        }
    }
}

/// The entries of the member `name` of metadata, a map of strings such as `labels`. Adds an error for each value of
/// another type, and leaves it out.
fn string_entries<'a>(
    metadata: &'a Map<String, Value>,
    name: &str,
    problems: &mut Vec<FieldError>,
) -> Vec<(&'a String, &'a String)> {
    let pairs = match metadata.get(name) {
        None | Some(Value::Null) => return Vec::new(),
        Some(Value::Object(pairs)) => pairs,
        Some(other) => {
            let field = format!("metadata.{name}");
            problems.push(FieldError::with_value(FieldErrorType::TypeInvalid, field, other, "must be an object"));
            return Vec::new();
        }
    };
    let mut texts = Vec::new();
    for (key, value) in pairs {
        match value {
            Value::String(text) => texts.push((key, text)),
            other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
                let field = format!("metadata.{name}[{key}]");
                let detail = "must be a string; quote it in YAML";
                problems.push(FieldError::with_value(FieldErrorType::TypeInvalid, field, other, detail));
            }
        }
    }
    texts
}

/// The elements of the member `name` of metadata, a list. There are none if it is missing or null. Another type adds an
/// error.
fn list_member<'a>(metadata: &'a Map<String, Value>, name: &str, problems: &mut Vec<FieldError>) -> &'a [Value] {
    match metadata.get(name) {
        None | Some(Value::Null) => &[],
        Some(Value::Array(items)) => items,
        Some(other) => {
            let field = format!("metadata.{name}");
            problems.push(FieldError::with_value(FieldErrorType::TypeInvalid, field, other, "must be a list"));
            &[]
        }
    }
}
