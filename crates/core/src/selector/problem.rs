//! An error about one field of a document, with the words and the cause reason of kube-apiserver.
//!
//! This is apimachinery's `field.Error` as data: reason, field path, message. [`super::wire`] and `schema` create them;
//! their callers decide how to report them.

use std::fmt;

use serde_json::Value;

use crate::model::quote;

/// The kind of an error, with the words of a Status cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldErrorType {
    /// The value breaks a rule.
    Invalid,
    /// The value has another type than required.
    TypeInvalid,
    /// The value is missing.
    Required,
    /// The value is not allowed.
    Forbidden,
    /// The value is not in a fixed list.
    NotSupported,
    /// The value occurs twice.
    Duplicate,
    /// The text is too long.
    TooLong,
    /// The list or map has too many entries.
    TooMany,
}

impl FieldErrorType {
    /// The reason in `details.causes[].reason` of a Status.
    pub fn as_str(self) -> &'static str {
        match self {
            FieldErrorType::Invalid => "FieldValueInvalid",
            FieldErrorType::TypeInvalid => "FieldValueTypeInvalid",
            FieldErrorType::Required => "FieldValueRequired",
            FieldErrorType::Forbidden => "FieldValueForbidden",
            FieldErrorType::NotSupported => "FieldValueNotSupported",
            FieldErrorType::Duplicate => "FieldValueDuplicate",
            FieldErrorType::TooLong => "FieldValueTooLong",
            FieldErrorType::TooMany => "FieldValueTooMany",
        }
    }

    /// The beginning of a message.
    fn words(self) -> &'static str {
        match self {
            FieldErrorType::Invalid | FieldErrorType::TypeInvalid => "Invalid value",
            FieldErrorType::Required => "Required value",
            FieldErrorType::Forbidden => "Forbidden",
            FieldErrorType::NotSupported => "Unsupported value",
            FieldErrorType::Duplicate => "Duplicate value",
            FieldErrorType::TooLong => "Too long",
            FieldErrorType::TooMany => "Too many",
        }
    }
}

/// One error; Display is `FIELD: MESSAGE`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct FieldError {
    /// The kind of error.
    pub reason: FieldErrorType,
    /// The path of the field, such as `spec.containers[0].name`; `<nil>` for the document itself, as upstream prints
    /// it.
    pub field: String,
    /// The error, such as `Invalid value: "x": must be ...`.
    pub message: String,
}

impl FieldError {
    /// An error whose message shows the value, and then `detail` unless that is empty.
    pub fn with_value(
        reason: FieldErrorType,
        field: impl Into<String>,
        value: &Value,
        detail: impl fmt::Display,
    ) -> FieldError {
        FieldError::with_text(reason, field, &display_value(value), detail)
    }

    /// Like [`FieldError::with_value`], with the value in the form that the message shows.
    pub fn with_text(
        reason: FieldErrorType,
        field: impl Into<String>,
        value: &str,
        detail: impl fmt::Display,
    ) -> FieldError {
        let detail = detail.to_string();
        let separator = if detail.is_empty() { "" } else { ": " };
        let message = format!("{}: {value}{separator}{detail}", reason.words());
        FieldError { reason, field: field.into(), message }
    }

    /// An error whose message shows no value, because it is missing, forbidden or too long. `detail` may be empty.
    pub fn without_value(reason: FieldErrorType, field: impl Into<String>, detail: impl fmt::Display) -> FieldError {
        let detail = detail.to_string();
        let separator = if detail.is_empty() { "" } else { ": " };
        FieldError { reason, field: field.into(), message: format!("{}{separator}{detail}", reason.words()) }
    }
}

/// A value as a message shows it: texts quoted as Go quotes them, everything else as JSON.
pub fn display_value(value: &Value) -> String {
    match value {
        Value::String(text) => quote(text),
        other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            other.to_string()
        }
    }
}
