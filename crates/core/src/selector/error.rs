//! The error of a selector text that cannot be parsed.

/// A selector text that cannot be read; Display is kube-apiserver's message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SelectorError {
    /// kube-apiserver's message.
    pub message: String,
    /// The offset in the text where parsing stopped, in bytes.
    pub offset: usize,
}

/// The error for a selector with more than `most` parts. In the message, `what` names the selector, `parts` names the
/// parts, such as `requirements`, and `remedy` tells the user what to do. The first excess part begins at `offset`, in
/// bytes.
pub(super) fn too_many(what: &str, parts: &str, most: usize, remedy: &str, offset: usize) -> SelectorError {
    SelectorError { message: format!("the {what} has more than {most} {parts}: {remedy}"), offset }
}
