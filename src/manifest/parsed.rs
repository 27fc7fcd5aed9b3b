//! The types of the result of parsing a text: its documents, and the first error of an invalid one.

use serde_json::Value;

/// The maximum number of levels of nesting. Go's encoding/json permits 10,000, but no Kubernetes type has nearly 100.
pub(super) const MAX_DEPTH: usize = 100;

/// One object of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// The object; always a mapping.
    pub value: Value,
    /// The line of its first key, from 1.
    pub line: usize,
}

/// Why a document cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {cause}")]
pub struct InvalidDocument {
    /// The line, from 1.
    pub line: usize,
    /// The cause, in one line.
    pub cause: String,
}

/// A parsed document. If it is a list of objects, it is not yet split into these.
pub(super) struct ParsedDocument {
    /// The value of the document.
    pub value: Value,
    /// The line where it starts.
    pub line: usize,
    /// The lines of the items, if the document has a list `items`.
    pub item_lines: Vec<usize>,
}
