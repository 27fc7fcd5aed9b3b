//! The error of a selector text that cannot be parsed.

/// A selector text that cannot be read; Display is kube-apiserver's message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SelectorError {
    /// kube-apiserver's words.
    pub message: String,
    /// Byte offset in the text where reading stopped.
    pub offset: usize,
}

/// The error for a selector of more than `most` parts.
pub(super) fn too_many(what: &str, parts: &str, most: usize, remedy: &str, offset: usize) -> SelectorError {
    SelectorError { message: format!("the {what} has more than {most} {parts}: {remedy}"), offset }
}
