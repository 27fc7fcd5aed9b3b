//! Standard output and standard error, or what replaces them in tests.

use std::io::Write;

use anyhow::Context;

/// Where the command prints.
pub(super) struct Streams<'w> {
    pub(super) out: &'w mut dyn Write,
    pub(super) err: &'w mut dyn Write,
    /// The number of characters of a line of the terminal; `None` if standard output is not a terminal.
    pub(super) width: Option<usize>,
}

impl Streams<'_> {
    /// Prints a text, which must have no characters that control a terminal.
    ///
    /// # Errors
    /// Standard output cannot be written. `exit::failed` counts a closed pipe as success.
    pub(super) fn print(&mut self, text: &str) -> anyhow::Result<()> {
        self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush()).context("standard output")
    }
}
