//! The reason why bytes are not a Kubernetes object.

use crate::json::SyntaxError;

/// The reason why bytes are not an object that a store can hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidObject {
    /// Not JSON, or cut short.
    #[error(transparent)]
    Syntax(#[from] SyntaxError),
    /// A part that every Kubernetes object has is missing or of a wrong type.
    #[error("{path} is missing or not a string")]
    Missing {
        /// Such as `metadata.name`.
        path: &'static str,
    },
    /// metadata.resourceVersion is not a decimal number.
    #[error("metadata.resourceVersion {text:?} is not a number")]
    Version {
        /// The value, truncated if it is long.
        text: String,
    },
}
