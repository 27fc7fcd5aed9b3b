//! Errors of compilation, with their position in the expression.

use std::fmt;

/// Why an expression does not compile. Display is the form of kube-apiserver: the message after its position, and for
/// a short line the line itself with a mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CelError {
    /// The message, without the position.
    pub message: String,
    /// The number of the line in the expression, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The byte offset in the expression.
    pub offset: usize,
    /// The text of the line; empty if the line is too long to be shown.
    source: String,
}

/// The maximum length of a line that an error repeats, in characters.
const LONGEST_LINE: usize = 256;

impl CelError {
    /// An error at a byte offset of the expression `text`. An offset within a character counts as that of the
    /// character, and one beyond the text as its end.
    pub(super) fn at(text: &str, offset: usize, message: impl Into<String>) -> CelError {
        let mut offset = offset.min(text.len());
        while !text.is_char_boundary(offset) {
            offset -= 1;
        }
        let start = text[..offset].rfind('\n').map_or(0, |newline| newline + 1);
        let end = text[offset..].find('\n').map_or(text.len(), |newline| offset + newline);
        let source = &text[start..end];
        let is_short = source.chars().take(LONGEST_LINE + 1).count() <= LONGEST_LINE;
        CelError {
            message: message.into(),
            line: text[..offset].matches('\n').count() + 1,
            column: text[start..offset].chars().count() + 1,
            offset,
            source: if is_short { source.to_owned() } else { String::new() },
        }
    }

    /// A syntax error at a byte offset of the expression `text`.
    pub(super) fn syntax(text: &str, offset: usize, message: impl fmt::Display) -> CelError {
        CelError::at(text, offset, format!("Syntax error: {message}"))
    }
}

impl fmt::Display for CelError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ERROR: <input>:{}:{}: {}", self.line, self.column, self.message)?;
        if !self.source.is_empty() {
            write!(formatter, "\n | {}\n | {}^", self.source, ".".repeat(self.column - 1))?;
        }
        Ok(())
    }
}

impl std::error::Error for CelError {}
