//! Walks the values of a document and writes a line for each, with a stack of its own, in pieces of any size.

use std::ops::Range;

use super::line::break_line;
use super::outline::{Outline, OutlineNode, ValueKind};
use super::style::Style;

/// A container or text that is being written. [`YamlWriter`] has a stack of them, the outermost first.
enum Open {
    /// The members of an object that are left, in the order of their keys: key and number of the node.
    Members { members: std::vec::IntoIter<(String, usize)>, indent: usize, is_first: bool },
    /// The elements of a list: the numbers of the nodes that are left, including those inside of elements.
    Items { left: Range<usize>, indent: usize, is_first: bool },
    /// The lines of a literal block; `at` is the offset of the next line, `None` after the last one.
    Lines { text: String, at: Option<usize>, indent: usize },
}

/// Writes a document as YAML in pieces.
pub struct YamlWriter {
    json: Vec<u8>,
    /// `None`: the bytes are not JSON.
    outline: Option<Outline>,
    indent: usize,
    style: Style,
    is_begun: bool,
    stack: Vec<Open>,
}

impl YamlWriter {
    /// A writer in the style of kubectl. It appends the first line to the last line of the output, and indents all
    /// other lines by `indent` spaces.
    pub fn new(json: Vec<u8>, indent: usize) -> YamlWriter {
        YamlWriter::in_style(json, indent, Style::Kubectl)
    }

    /// Like [`YamlWriter::new`], in another style.
    pub(super) fn in_style(json: Vec<u8>, indent: usize, style: Style) -> YamlWriter {
        let outline = Outline::parse(&json, style).ok();
        YamlWriter { json, outline, indent, style, is_begun: false, stack: Vec::new() }
    }

    /// Whether the bytes are JSON. If not, they are written unchanged.
    pub fn is_valid(&self) -> bool {
        self.outline.is_some()
    }

    /// The number of values that are written on lines of their own; 0 if the bytes are not JSON.
    pub fn values(&self) -> usize {
        self.outline.as_ref().map_or(0, |outline| outline.0.len())
    }

    /// Writes lines until `out` has at least `target_len` bytes. The last line may exceed this, and so does a document
    /// that is not JSON, which is written at once. Returns true when the document is complete.
    pub fn fill(&mut self, target_len: usize, out: &mut Vec<u8>) -> bool {
        let Some(outline) = &self.outline else {
            out.extend_from_slice(&self.json);
            return true;
        };
        let page = Page { outline, json: &self.json, style: self.style };
        if !std::mem::replace(&mut self.is_begun, true) {
            self.stack.extend(begin(page, 0, self.indent, out));
        }
        while out.len() < target_len {
            let Some(open) = self.stack.last_mut() else { return true };
            let next = match open {
                Open::Members { members, indent, is_first } => members.next().map(|(key, node)| {
                    if !std::mem::take(is_first) {
                        break_line(*indent, out);
                    }
                    begin_member(page, &key, node, *indent, out)
                }),
                Open::Items { left, indent, is_first } => (left.start < left.end).then(|| {
                    let node = left.start;
                    left.start = page.node(node).after;
                    if !std::mem::take(is_first) {
                        break_line(*indent, out);
                    }
                    out.extend_from_slice(b"- ");
                    begin_item(page, node, *indent, out)
                }),
                Open::Lines { text, at, indent } => at.map(|start| {
                    let rest = &text[start..];
                    let line = rest.split('\n').next().unwrap_or_default();
                    if line.is_empty() {
                        out.push(b'\n');
                    } else {
                        break_line(*indent, out);
                        out.extend_from_slice(line.as_bytes());
                    }
                    *at = (line.len() < rest.len()).then_some(start + line.len() + 1);
                    None
                }),
            };
            match next {
                Some(inside) => self.stack.extend(inside),
                None => drop(self.stack.pop()),
            }
        }
        self.stack.is_empty()
    }
}

/// A document and its style.
#[derive(Clone, Copy)]
struct Page<'w> {
    outline: &'w Outline,
    json: &'w [u8],
    style: Style,
}

impl<'w> Page<'w> {
    fn node(self, node: usize) -> OutlineNode {
        self.outline.0[node]
    }

    fn bytes(self, node: usize) -> &'w [u8] {
        let (start, end) = self.node(node).value;
        &self.json[start..end]
    }
}

/// Begins the value of a node at the end of `out`. `node` is its number in the outline. A container has its lines at
/// column `indent`. Returns what is still to be written; `None` if the value is complete.
fn begin(page: Page<'_>, node: usize, indent: usize, out: &mut Vec<u8>) -> Option<Open> {
    match page.node(node).kind {
        ValueKind::Object => {
            let members = page.outline.children(node).map(|child| {
                let (start, end) = page.node(child).key;
                (text_of(&page.json[start..end]), child)
            });
            let mut members: Vec<(String, usize)> = members.collect();
            // Of equal keys, the last one counts.
            members.sort_unstable_by(|one, other| one.0.cmp(&other.0).then(other.1.cmp(&one.1)));
            members.dedup_by(|later, earlier| later.0 == earlier.0);
            Some(Open::Members { members: members.into_iter(), indent, is_first: true })
        }
        ValueKind::List => Some(Open::Items { left: node + 1..page.node(node).after, indent, is_first: true }),
        ValueKind::Text => begin_text(page.style, text_of(page.bytes(node)), indent, out),
        ValueKind::Plain => {
            match page.bytes(node) {
                inside @ [b'{' | b'[', ..] => page.style.write_flow(inside, out),
                literal => page.style.write_literal(literal, out),
            }
            None
        }
    }
}

/// Begins an item of a list after its dash, as [`begin`] does. The list is at column `indent`.
fn begin_item(page: Page<'_>, node: usize, indent: usize, out: &mut Vec<u8>) -> Option<Open> {
    if page.node(node).kind.is_container() && page.style.is_too_deep(indent) {
        page.style.write_flow(page.bytes(node), out);
        return None;
    }
    begin(page, node, indent + 2, out)
}

/// Writes the key of a member, and begins its value as [`begin`] does. The object is at column `indent`.
fn begin_member(page: Page<'_>, key: &str, node: usize, indent: usize, out: &mut Vec<u8>) -> Option<Open> {
    page.style.write_key(key, indent, out);
    out.push(b':');
    let kind = page.node(node).kind;
    let below = page.style.value_column(kind, indent);
    if !kind.is_container() {
        out.push(b' ');
    } else if page.style.is_too_deep(below) {
        out.push(b' ');
        page.style.write_flow(page.bytes(node), out);
        return None;
    } else {
        break_line(below, out);
    }
    begin(page, node, below, out)
}

/// Writes a text, or begins a literal block whose lines are at column `indent`. Returns the lines that are still to be
/// written; `None` if the text is complete.
fn begin_text(style: Style, mut text: String, indent: usize, out: &mut Vec<u8>) -> Option<Open> {
    if !style.is_literal(&text) {
        style.write_text(&text, out);
        return None;
    }
    out.push(b'|');
    out.extend_from_slice(style.literal_header(&text).as_bytes());
    let body = text.trim_end_matches('\n').len();
    // Trailing line breaks beyond the first are empty lines of the block.
    text.truncate(if text.len() > body + 1 { text.len() - 1 } else { body });
    Some(Open::Lines { text, at: Some(0), indent })
}

/// The text of a JSON string with its quotes. A string that is not valid Unicode remains escaped.
fn text_of(string: &[u8]) -> String {
    serde_json::from_slice(string).unwrap_or_else(|_| String::from_utf8_lossy(string).trim_matches('"').to_owned())
}
