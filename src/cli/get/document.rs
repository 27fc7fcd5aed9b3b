//! `-o json` and `-o yaml`: one document, which is written while the pages of lists are read.
//!
//! It is the object itself if one is named, and otherwise a List, as kubectl prints it. Its metadata has
//! `remainingItemCount` if `--limit` leaves objects out.

use serde_json::{Value, json};

use super::streams::Streams;
use crate::cli::output::{json as without_controls, printable};
use crate::cli::shared_arguments::OutputFormat;
use crate::yaml;

/// Writes a List page by page.
pub(super) struct ListDocument {
    /// The format: YAML or JSON.
    is_yaml: bool,
    /// Whether an item is written already, and so the beginning of the document.
    has_items: bool,
}

impl ListDocument {
    /// A List of which nothing is written yet. It is YAML if `output` is `Yaml`, and JSON otherwise.
    pub(super) fn new(output: OutputFormat) -> ListDocument {
        ListDocument { is_yaml: output == OutputFormat::Yaml, has_items: false }
    }

    /// Writes further items, and the beginning of the document before the first of them.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub(super) fn add(&mut self, items: Vec<Value>, streams: &mut Streams<'_>) -> anyhow::Result<()> {
        if items.is_empty() {
            return Ok(());
        }
        let is_first = !std::mem::replace(&mut self.has_items, true);
        if self.is_yaml {
            let begin = if is_first { "apiVersion: v1\nitems:\n" } else { "" };
            return streams.print(&format!("{begin}{}", yaml_text(&Value::Array(items))));
        }
        let mut text = String::new();
        for (index, item) in items.iter().enumerate() {
            text.push_str(if is_first && index == 0 {
                "{\n  \"apiVersion\": \"v1\",\n  \"items\": [\n"
            } else {
                ",\n"
            });
            // JSON escapes line ends within strings, so each line end here comes from the layout, and can be indented.
            let item = format!("{item:#}").replace('\n', "\n    ");
            text.push_str(&format!("    {item}"));
        }
        streams.print(&without_controls(&text))
    }

    /// Writes the end of the document. `remaining` is the number of objects that `--limit` leaves out; `None` if there
    /// are none, or the number is not known.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub(super) fn finish(self, remaining: Option<u64>, streams: &mut Streams<'_>) -> anyhow::Result<()> {
        let mut metadata = json!({ "resourceVersion": "" });
        if let Some(remaining) = remaining {
            metadata["remainingItemCount"] = json!(remaining);
        }
        if !self.has_items {
            let empty = json!({ "apiVersion": "v1", "items": [], "kind": "List", "metadata": metadata });
            return streams.print(&document(&empty, self.is_yaml));
        }
        let end = json!({ "kind": "List", "metadata": metadata });
        if self.is_yaml {
            return streams.print(&yaml_text(&end));
        }
        let end = format!("{end:#}\n");
        streams.print(&format!("\n  ],{}", end.trim_start_matches('{')))
    }
}

/// A whole document with a line end: YAML if `output` is `Yaml`, and JSON otherwise.
pub(super) fn printed(value: &Value, output: OutputFormat) -> String {
    document(value, output == OutputFormat::Yaml)
}

/// A whole document in YAML or JSON, with a line end and without characters that control a terminal.
fn document(value: &Value, is_yaml: bool) -> String {
    match is_yaml {
        true => yaml_text(value),
        false => without_controls(&format!("{value:#}\n")).into_owned(),
    }
}

/// A value in YAML, as kubectl writes it. The writer escapes control characters that YAML does not permit.
/// [`printable`] replaces the control characters that YAML permits, because they could control a terminal.
fn yaml_text(value: &Value) -> String {
    let text = yaml::from_json(value.to_string().as_bytes());
    printable(&String::from_utf8_lossy(&text)).into_owned()
}
