//! Results on standard output: `-o json|yaml|wide|table|name` means the same in every command that prints one.

use std::borrow::Cow;
use std::io::{self, Write};

use anyhow::Context;
use serde_json::Value;

use super::shared_arguments::OutputFormat;

/// A table as kubectl prints them: upper-case headers, columns three spaces apart, no trailing blanks.
#[derive(Clone, Debug)]
pub struct TextTable {
    headers: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl TextTable {
    /// An empty table.
    pub fn new(headers: &[&'static str]) -> TextTable {
        TextTable { headers: headers.to_vec(), rows: Vec::new() }
    }

    /// Adds a row; it must have as many cells as there are headers. Line ends in cells become `^J`: a row is one line.
    pub fn push(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.headers.len(), "a row has one cell for each header");
        self.rows.push(cells.into_iter().map(|cell| printable(&cell).replace('\n', "^J")).collect());
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table as text, with a line end after each line.
    pub fn print(&self) -> String {
        let headers: Vec<String> = self.headers.iter().map(|header| (*header).to_owned()).collect();
        let mut widths: Vec<usize> = headers.iter().map(|header| header.chars().count()).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let mut text = String::new();
        for row in std::iter::once(&headers).chain(&self.rows) {
            let mut line = String::new();
            for (width, cell) in widths.iter().zip(row) {
                line.push_str(cell);
                line.extend(std::iter::repeat_n(' ', width - cell.chars().count() + 3));
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// A result that can be printed in every form.
pub trait Printed {
    /// The document that `-o json` and `-o yaml` print.
    fn document(&self) -> Value;

    /// The table for people, with a line end after each line. The wide form shows more.
    fn table(&self, is_wide: bool) -> String;

    /// The names that `-o name` prints, one a line. Other commands accept them; names of objects are as kubectl prints
    /// them.
    fn names(&self) -> Vec<String>;
}

/// A result in the given format, without characters that control a terminal.
pub fn printed(result: &impl Printed, output: OutputFormat) -> String {
    match output {
        OutputFormat::Json => json(&format!("{:#}\n", result.document())).into_owned(),
        OutputFormat::Yaml => yaml(&result.document()),
        OutputFormat::Name => {
            let names: String = result.names().into_iter().map(|name| format!("{name}\n")).collect();
            printable(&names).into_owned()
        }
        OutputFormat::Table | OutputFormat::Wide => printable(&result.table(output == OutputFormat::Wide)).into_owned(),
    }
}

/// A JSON document in which control characters that JSON permits in strings, such as DEL, are escaped, so that
/// terminals do not interpret them. The value stays the same.
pub fn json(text: &str) -> Cow<'_, str> {
    replace_controls(text, |character, replaced| replaced.push_str(&format!("\\u{:04x}", u32::from(character))))
}

/// A text without characters that control a terminal, because authors of CustomResourceDefinitions and Views choose
/// texts that are printed for others. Such characters are shown as `^[` and the like, as kubectl shows them; line ends
/// and tabs stay.
pub fn printable(text: &str) -> Cow<'_, str> {
    replace_controls(text, |character, replaced| match u8::try_from(character) {
        Ok(byte) if byte.is_ascii() => replaced.extend(['^', char::from(byte ^ 0x40)]),
        _ => replaced.extend(character.escape_unicode()),
    })
}

/// Replaces each control character of a text by what `replace` appends; line ends and tabs stay.
fn replace_controls(text: &str, replace: impl Fn(char, &mut String)) -> Cow<'_, str> {
    let is_replaced = |character: char| character.is_control() && !matches!(character, '\n' | '\t');
    if !text.contains(is_replaced) {
        return Cow::Borrowed(text);
    }
    let mut replaced = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if is_replaced(character) {
            replace(character, &mut replaced);
        } else {
            replaced.push(character);
        }
    }
    Cow::Owned(replaced)
}

/// Writes a text to standard output unchanged. [`printable`] and [`printed`] remove the control characters of untrusted
/// texts.
///
/// # Errors
/// Standard output cannot be written. `exit::failed` counts a closed pipe as success.
pub fn write_out(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("standard output")
}

/// A value as a YAML document.
fn yaml(value: &Value) -> String {
    crate::yaml::go_yaml(value)
}
