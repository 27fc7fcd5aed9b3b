//! JSON -> YAML in block style: sorted keys, one document, no anchors and no tags.
//!
//! Map: `outline` finds the values of a document in one pass. `writer` walks them with a stack of its own and writes as
//! much as the caller requests. `style` defines how each value is written: [`kubectl`] as `kubectl -o yaml` and
//! kube-apiserver print it, `go_yaml` as go-yaml v3 does. `manifest` reads YAML.

mod bounds;
mod go_yaml;
pub mod kubectl;
mod line;
mod outline;
mod style;
mod writer;

#[cfg(test)]
mod tests;

use serde_json::Value;

pub use bounds::{DEEPEST, MOST_VALUES, VALUE_COST};
pub use writer::YamlWriter;

/// A JSON document in the style of kubectl, written at once: for small documents. Bytes that are not JSON, which stores
/// never hold, are returned as they are.
pub fn from_json(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len());
    let mut writer = YamlWriter::new(json.to_vec(), 0);
    writer.fill(usize::MAX, &mut out);
    if writer.is_valid() {
        out.push(b'\n');
    }
    out
}

/// A value in the style of go-yaml v3, with a newline at its end.
pub fn go_yaml(value: &Value) -> String {
    // The document can be a single literal block, whose lines are indented too.
    let indent = if value.is_string() { go_yaml::INDENT } else { 0 };
    let mut out = Vec::new();
    YamlWriter::in_style(value.to_string().into_bytes(), indent, style::Style::GoYaml).fill(usize::MAX, &mut out);
    out.push(b'\n');
    String::from_utf8(out).expect("YAML that is written of texts must be UTF-8")
}
