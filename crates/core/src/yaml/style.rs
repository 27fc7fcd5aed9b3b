//! How values are written as YAML.

use super::bounds::{DEEPEST, MOST_VALUES};
use super::outline::ValueKind;
use super::{go_yaml, kubectl};

/// A style.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// The style of `kubectl -o yaml`: objects are indented by two, lists are not. [`DEEPEST`] and [`MOST_VALUES`]
    /// bound the values on lines of their own.
    Kubectl,
    /// The style of go-yaml v3: indented by four.
    GoYaml,
}

impl Style {
    /// The maximum number of levels of objects and lists with lines for their members and items.
    pub(super) fn deepest(self) -> usize {
        match self {
            Style::Kubectl => DEEPEST,
            Style::GoYaml => usize::MAX,
        }
    }

    /// The maximum number of values in a document that is not written on one line.
    pub(super) fn most_values(self) -> usize {
        match self {
            Style::Kubectl => MOST_VALUES,
            Style::GoYaml => usize::MAX,
        }
    }

    /// The column of the value of a member whose object is at column `indent`.
    pub(super) fn value_column(self, kind: ValueKind, indent: usize) -> usize {
        match (self, kind) {
            (Style::Kubectl, ValueKind::List) => indent,
            (Style::Kubectl, ValueKind::Object | ValueKind::Text | ValueKind::Plain) => indent + 2,
            (Style::GoYaml, _) => go_yaml::value_column(indent),
        }
    }

    /// Whether objects and lists at this column are written on one line.
    pub(super) fn is_too_deep(self, indent: usize) -> bool {
        match self {
            // `Style::deepest` decides by level instead.
            Style::Kubectl => false,
            Style::GoYaml => indent > go_yaml::MOST_INDENTATION,
        }
    }

    /// Writes the key of a member.
    pub(super) fn write_key(self, key: &str, indent: usize, out: &mut Vec<u8>) {
        match self {
            Style::Kubectl => kubectl::write_key(key, indent, out),
            Style::GoYaml => out.extend_from_slice(go_yaml::one_line(key).as_bytes()),
        }
    }

    /// Whether a text is written as a literal block.
    pub(super) fn is_literal(self, text: &str) -> bool {
        match self {
            Style::Kubectl => !kubectl::is_plain(text) && kubectl::is_literal(text),
            Style::GoYaml => go_yaml::is_literal(text),
        }
    }

    /// The indicators after the `|` of a literal block.
    pub(super) fn literal_header(self, text: &str) -> String {
        match self {
            Style::Kubectl => kubectl::chomping(text).to_owned(),
            Style::GoYaml => go_yaml::literal_header(text),
        }
    }

    /// Writes a text on one line.
    pub(super) fn write_text(self, text: &str, out: &mut Vec<u8>) {
        match self {
            Style::Kubectl if kubectl::is_plain(text) => out.extend_from_slice(text.as_bytes()),
            Style::Kubectl => kubectl::write_quoted(text, out),
            Style::GoYaml => out.extend_from_slice(go_yaml::one_line(text).as_bytes()),
        }
    }

    /// Writes a number, boolean or null.
    pub(super) fn write_literal(self, literal: &[u8], out: &mut Vec<u8>) {
        match self {
            Style::Kubectl => kubectl::write_literal(literal, out),
            Style::GoYaml => out.extend_from_slice(literal),
        }
    }

    /// Writes the JSON of an object or list on one line.
    pub(super) fn write_flow(self, json: &[u8], out: &mut Vec<u8>) {
        match self {
            Style::Kubectl => kubectl::write_flow(json, out),
            // JSON is YAML.
            Style::GoYaml => out.extend_from_slice(json),
        }
    }
}
