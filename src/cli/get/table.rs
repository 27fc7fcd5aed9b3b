//! Tables as kubectl prints them, byte by byte: the rows of a server's Table, and how columns are aligned.
//!
//! Follows `printers/tableprinter.go` and `printers/tabwriter.go` of cli-runtime. Pages are printed one after the
//! other, so a later page can be wider than an earlier one. Columns do not become narrower from page to page. kubectl
//! aligns all pages, because it holds them until the last one.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::streams::Streams;
use crate::cli::output::printable;

/// The minimum width of a column that is not the last one, in characters, with its padding.
const LEAST_WIDTH: usize = 6;

/// The blanks after the longest cell of a column.
const PADDING: usize = 3;

/// A Table of a server, as far as it is printed.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Table {
    #[serde(deserialize_with = "elements")]
    column_definitions: Vec<ColumnDefinition>,
    #[serde(deserialize_with = "elements")]
    rows: Vec<Row>,
}

/// Deserializes a list; null is an empty list. Servers that are written in Go can write an empty list as null.
fn elements<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// A column of a Table.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ColumnDefinition {
    name: String,
    r#type: String,
    format: String,
    /// 0 for a column that is always printed; another number for a column that only `-o wide` prints.
    priority: i64,
}

/// A row of a Table.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Row {
    #[serde(deserialize_with = "elements")]
    cells: Vec<Value>,
    /// The object of the row, or its metadata; null if neither was requested.
    object: Value,
}

/// Which columns are printed, and what precedes names.
#[derive(Clone, Debug, Default)]
pub(super) struct TableOptions {
    /// Whether the columns of the server with a priority other than 0 are printed too (`-o wide`).
    pub(super) is_wide: bool,
    /// Whether the namespace is the first column.
    pub(super) has_namespace: bool,
    /// The prefix of names, such as `pod/`; empty for none.
    pub(super) name_prefix: String,
    /// The keys of labels that have a column each, after the columns of the server.
    pub(super) labels: Vec<String>,
    /// Whether the last column has all labels.
    pub(super) has_all_labels: bool,
}

impl Table {
    /// The number of rows.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Adds the rows of another Table with the same columns.
    pub(super) fn append(&mut self, other: Table) {
        if self.column_definitions.is_empty() {
            self.column_definitions = other.column_definitions;
        }
        self.rows.extend(other.rows);
    }

    /// The headers of the printed columns, in upper case. The header of a label is the part of its key after `/`.
    pub(super) fn headers(&self, options: &TableOptions) -> Vec<String> {
        let labels = options.labels.iter().map(|label| label.rsplit('/').next().unwrap_or_default().to_uppercase());
        let shown = self.column_definitions.iter().filter(|column| column.is_shown(options));
        let first = options.has_namespace.then(|| "NAMESPACE".to_owned());
        let last = options.has_all_labels.then(|| "LABELS".to_owned());
        first.into_iter().chain(shown.map(|column| column.name.to_uppercase())).chain(labels).chain(last).collect()
    }

    /// The printed cells of all rows.
    pub(super) fn cells(&self, options: &TableOptions) -> Vec<Vec<String>> {
        let name =
            self.column_definitions.iter().position(|column| column.format == "name" && column.r#type == "string");
        self.rows.iter().map(|row| self.row(row, options, name)).collect()
    }

    /// The printed cells of a row. `name` is the index of the column that has the name of the object; `None` if the
    /// Table has no such column.
    fn row(&self, row: &Row, options: &TableOptions, name: Option<usize>) -> Vec<String> {
        let metadata = &row.object["metadata"];
        let label = |key: &String| text(&metadata["labels"][key]);
        let mut cells = Vec::new();
        cells.extend(options.has_namespace.then(|| text(&metadata["namespace"])));
        for (index, column) in self.column_definitions.iter().enumerate() {
            if column.is_shown(options) {
                let cell = row.cells.get(index).map(text).unwrap_or_default();
                let prefix = if name == Some(index) { &*options.name_prefix } else { "" };
                cells.push(format!("{prefix}{cell}"));
            }
        }
        cells.extend(options.labels.iter().map(label));
        cells.extend(options.has_all_labels.then(|| all_labels(&metadata["labels"])));
        cells
    }
}

impl ColumnDefinition {
    /// Whether the column is printed with these options.
    fn is_shown(&self, options: &TableOptions) -> bool {
        options.is_wide || self.priority == 0
    }
}

/// All labels of an object as `KEY=VALUE`, separated by commas; `<none>` if it has none.
fn all_labels(labels: &Value) -> String {
    let labels = labels.as_object().into_iter().flatten();
    let labels: Vec<String> = labels.map(|(key, value)| format!("{key}={}", text(value))).collect();
    if labels.is_empty() { "<none>".to_owned() } else { labels.join(",") }
}

/// A JSON value as the text of a cell: a string without quotes, an empty text for null, and JSON otherwise.
fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

/// A cell as it is printed: its first line, without characters that control a terminal. `...` replaces further lines.
fn cell(text: &str) -> String {
    let first = text.split(['\u{c}', '\n', '\r']).next().unwrap_or_default();
    let more = if first.len() < text.len() { "..." } else { "" };
    format!("{}{more}", printable(first).replace('\t', " "))
}

/// Aligns the columns of rows. A column is at least as wide as in all earlier calls of [`Alignment::print`].
#[derive(Debug, Default)]
pub(super) struct Alignment {
    /// The width of each column with its padding, in characters.
    widths: Vec<usize>,
}

impl Alignment {
    /// The number of characters of a line before the last column: the widths of all other columns, with their padding.
    pub(super) fn width(&self) -> usize {
        self.widths.split_last().map_or(0, |(_, before)| before.iter().sum())
    }

    /// The rows as text, a line each. All rows must have the same number of cells. The last cell of a row has no
    /// padding.
    pub(super) fn print(&mut self, rows: &[Vec<String>]) -> String {
        let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|text| cell(text)).collect()).collect();
        for row in &rows {
            self.widths.resize(self.widths.len().max(row.len()), LEAST_WIDTH);
            for (width, cell) in self.widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count() + PADDING);
            }
        }
        let mut text = String::new();
        for row in &rows {
            for (index, (cell, width)) in row.iter().zip(&self.widths).enumerate() {
                text.push_str(cell);
                if index + 1 < row.len() {
                    text.extend(std::iter::repeat_n(' ', width.saturating_sub(cell.chars().count())));
                }
            }
            text.push('\n');
        }
        text
    }
}

/// Prints the rows of one resource, page by page, with headers before the first of them.
pub(super) struct TablePrinting {
    alignment: Alignment,
    /// Whether the headers are still to be printed.
    needs_headers: bool,
    /// Whether a blank line is still to be printed before the headers, because another table precedes them.
    needs_separator: bool,
}

impl TablePrinting {
    /// Printing that has not begun. `has_no_headers`: no headers are printed. `follows_table`: a table of another
    /// resource is printed already.
    pub(super) fn new(has_no_headers: bool, follows_table: bool) -> TablePrinting {
        let needs_headers = !has_no_headers;
        TablePrinting {
            alignment: Alignment::default(),
            needs_headers,
            needs_separator: needs_headers && follows_table,
        }
    }

    /// Prints a page of rows, with `headers` before the first page. Prints nothing for a page without rows.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub(super) fn print(
        &mut self,
        headers: Vec<String>,
        mut rows: Vec<Vec<String>>,
        streams: &mut Streams<'_>,
    ) -> anyhow::Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        if std::mem::take(&mut self.needs_headers) {
            rows.insert(0, headers);
        }
        let separator = if std::mem::take(&mut self.needs_separator) { "\n" } else { "" };
        streams.print(&format!("{separator}{}", self.alignment.print(&rows)))
    }
}
