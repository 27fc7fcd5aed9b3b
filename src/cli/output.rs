//! Tables, JSON and YAML on standard output.

use std::io::{self, Write};

use anyhow::Context;

/// A table as kubectl prints them: upper-case headers, columns three spaces apart, no trailing blanks.
#[derive(Clone, Debug)]
pub struct Table {
    headers: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table.
    pub fn new(headers: &[&'static str]) -> Table {
        Table { headers: headers.to_vec(), rows: Vec::new() }
    }

    /// Adds a row; it must have as many cells as there are headers.
    pub fn push(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.headers.len(), "a row has one cell for each header");
        self.rows.push(cells);
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// As text, with a line end after each line.
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

/// Writes an answer to standard output.
///
/// # Errors
/// A closed pipe and the like; see `exit::failed`.
pub fn write_out(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("standard output")
}

/// A value as a YAML document.
pub fn yaml(value: &serde_json::Value) -> String {
    crate::openapi::yaml::text(value)
}
