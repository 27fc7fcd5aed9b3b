//! Why bytes are no object of Kubernetes.

use crate::json::SyntaxError;

/// Why bytes are no object that a store can take.
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
    /// metadata.resourceVersion is no decimal number.
    #[error("metadata.resourceVersion {text:?} is not a number")]
    Version {
        /// Its value, cut if it is long.
        text: String,
    },
}
