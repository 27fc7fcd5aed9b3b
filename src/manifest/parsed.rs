//! The result of parsing a text: its documents, or the first error of one.

use serde_json::Value;

/// Levels of nesting, at most; encoding/json of Go has 10,000, no Kubernetes type comes near this.
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

/// A document before its list is split into items.
pub(super) struct ParsedDocument {
    /// Its value.
    pub value: Value,
    /// The line where it starts.
    pub line: usize,
    /// The lines of the items when the root has a list `items`.
    pub item_lines: Vec<usize>,
}
