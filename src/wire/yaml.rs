//! JSON -> YAML in block style, as `kubectl -o yaml` and kube-apiserver print it: sorted keys, lists not indented.
//!
//! The output has no anchors, no tags and one document. Scalars are plain where every YAML 1.1 and 1.2 parser reads the same string,
//! literal blocks where they have several printable lines, and otherwise quoted as in JSON, which is valid YAML.
//!
//! The text is made in pieces while the client reads it. [`Outline`] finds the values of a document in one pass, without recursion;
//! [`Writer`] walks them with its own stack. Below [`DEEPEST`] levels, values are printed as JSON on one line (flow style): a line of depth n
//! costs 2n spaces, so the length would otherwise grow with the square of the depth.

pub(crate) mod text;

use std::cmp::Ordering;
use std::ops::Range;

use bytes::Bytes;
use serde_json::{Map, Value};

use self::text::{break_line, is_literal, is_plain, write_flow, write_key, write_literal, write_quoted};
use super::encode::{CHUNK, Envelope, Left, Unfinished, json_bytes, write_string};
use super::indent::DEEPEST;
use crate::json::SyntaxError;
use crate::json::cursor::Cursor;

/// A JSON document as YAML, at once: for documents that are small. Bytes that are no JSON, which a store never holds, come out as they are.
pub fn from_json(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len());
    let mut writer = Writer::new(json.to_vec(), 0);
    writer.fill(usize::MAX, &mut out);
    if writer.is_valid() {
        out.push(b'\n');
    }
    out
}

/// A JSON document as YAML, in pieces, and the memory that it takes until it is written, in bytes.
pub fn document(json: Vec<u8>) -> (impl Iterator<Item = Bytes> + Send, u64) {
    let length = json.len() as u64;
    let writer = Writer::new(json, 0);
    let values = writer.outline.as_ref().map_or(0, |outline| outline.0.len() as u64);
    let mut writer = Some(writer);
    let pieces = std::iter::from_fn(move || {
        let mut out = Vec::new();
        let held = writer.as_mut()?;
        if held.fill(CHUNK, &mut out) {
            if held.is_valid() {
                out.push(b'\n');
            }
            writer = None;
        }
        Some(Bytes::from(out))
    });
    (pieces, length + values * VALUE_COST)
}

/// The YAML form of a list's envelope: what stands before and after the items.
pub fn list_envelope(json: &Envelope, is_empty: bool) -> Envelope {
    let whole = [&*json.head, &*json.tail].concat();
    let members: Map<String, Value> = serde_json::from_slice(&whole).unwrap_or_default();
    let (mut head, mut tail) = (Vec::new(), Vec::new());
    for (key, value) in &members {
        let is_list = key == "items" || key == "rows";
        let side = if is_list || tail.is_empty() && !has_list_before(&members, key) { &mut head } else { &mut tail };
        if is_list && !is_empty {
            side.extend_from_slice(format!("{key}:\n").as_bytes());
        } else {
            let mut member = vec![b'{'];
            write_string(key, &mut member);
            member.push(b':');
            member.extend_from_slice(&json_bytes(value));
            member.push(b'}');
            side.extend_from_slice(&from_json(&member));
        }
    }
    Envelope { head, tail }
}

fn has_list_before(members: &Map<String, Value>, key: &str) -> bool {
    members.keys().take_while(|held| *held != key).any(|held| held == "items" || held == "rows")
}

/// Begins an item of a list whose JSON text this is.
pub fn begin_item(json: Vec<u8>, out: &mut Vec<u8>) -> Left {
    out.extend_from_slice(b"- ");
    super::encode::begin(Item(Writer::new(json, 2)), out)
}

/// An item of a list, with its line break.
struct Item(Writer);

impl Unfinished for Item {
    fn fill(&mut self, most: usize, out: &mut Vec<u8>) -> bool {
        let is_done = self.0.fill(most, out);
        if is_done {
            out.push(b'\n');
        }
        is_done
    }
}

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Object,
    List,
    Text,
    /// Printed on one line: numbers, literals, what is empty, and what is nested too deep.
    Plain,
}

/// Values of a document in block style. One with more is printed on one line, which takes no memory for each value.
const MOST_VALUES: usize = 1 << 17;

/// Memory for each value while a document is written: its node, and its key where it is a member.
const VALUE_COST: u64 = 128;

/// The most memory that an item of this length takes while a list is written, in bytes.
pub fn most_held(length: u64) -> u64 {
    // Each value takes at least two bytes of JSON.
    length + (length / 2).min(MOST_VALUES as u64) * VALUE_COST
}

/// A value of a document.
#[derive(Clone, Copy, Debug)]
struct Node {
    kind: Kind,
    /// Where its key begins and ends, quotes included; empty in lists.
    key: (usize, usize),
    /// Where it begins and ends.
    value: (usize, usize),
    /// The number of the first node that is not inside of it.
    after: usize,
}

/// The values of a document in the order in which they begin.
struct Outline(Vec<Node>);

impl Outline {
    /// Finds them in one pass.
    fn of(json: &[u8]) -> Result<Outline, SyntaxError> {
        let mut cursor = Cursor::new(json);
        let mut nodes: Vec<Node> = Vec::new();
        // The containers that are open: their nodes.
        let mut open: Vec<usize> = Vec::new();
        cursor.space();
        let start = cursor.position();
        loop {
            if nodes.len() > MOST_VALUES {
                let mut whole = Cursor::new(json);
                whole.space();
                whole.skip_value(0)?;
                let value = (start, whole.position());
                return Ok(Outline(vec![Node { kind: Kind::Plain, key: (0, 0), value, after: 1 }]));
            }
            let mut key = (0, 0);
            if let Some(&container) = open.last() {
                let is_object = nodes[container].kind == Kind::Object;
                if cursor.closes(if is_object { b'}' } else { b']' }) {
                    nodes[container].value.1 = cursor.position();
                    nodes[container].after = nodes.len();
                    open.pop();
                    if open.is_empty() {
                        return Ok(Outline(nodes));
                    }
                    continue;
                }
                if nodes.len() > container + 1 {
                    cursor.expect(b',', "a comma or the end of an object or list")?;
                    cursor.space();
                }
                if is_object {
                    let start = cursor.position();
                    cursor.string("a key")?;
                    key = (start, cursor.position());
                    cursor.space();
                    cursor.expect(b':', "a colon")?;
                    cursor.space();
                }
            }
            let start = cursor.position();
            let kind = match cursor.peek() {
                Some(b'{') if open.len() < DEEPEST => Kind::Object,
                Some(b'[') if open.len() < DEEPEST => Kind::List,
                Some(b'"') => Kind::Text,
                _ => Kind::Plain,
            };
            let after = nodes.len() + 1;
            if matches!(kind, Kind::Object | Kind::List) {
                cursor.advance();
                if !cursor.closes(if kind == Kind::Object { b'}' } else { b']' }) {
                    open.push(nodes.len());
                    nodes.push(Node { kind, key, value: (start, start), after });
                    continue;
                }
                nodes.push(Node { kind: Kind::Plain, key, value: (start, cursor.position()), after });
            } else {
                cursor.skip_value(open.len())?;
                nodes.push(Node { kind, key, value: (start, cursor.position()), after });
            }
            if open.is_empty() {
                return Ok(Outline(nodes));
            }
        }
    }

    /// The nodes directly inside of one.
    fn children(&self, node: usize) -> impl Iterator<Item = usize> {
        let end = self.0[node].after;
        let inside = move |node: usize| (node < end).then_some(node);
        std::iter::successors(inside(node + 1), move |&child| inside(self.0[child].after))
    }
}

/// What is being written, from the outside in.
enum Open {
    /// The members of an object, in the order of their keys.
    Members { members: std::vec::IntoIter<(String, usize)>, indent: usize, is_first: bool },
    /// The elements of a list: the numbers of their nodes that are left.
    Items { left: Range<usize>, indent: usize, is_first: bool },
    /// The lines of a literal block.
    Lines { text: String, at: Option<usize>, indent: usize },
}

/// A document on its way to YAML.
pub(crate) struct Writer {
    json: Vec<u8>,
    /// `None`: these bytes are no JSON.
    outline: Option<Outline>,
    indent: usize,
    is_begun: bool,
    stack: Vec<Open>,
}

impl Writer {
    /// The first line stands where the output is; the others are indented by `indent`.
    pub(crate) fn new(json: Vec<u8>, indent: usize) -> Writer {
        let outline = Outline::of(&json).ok();
        Writer { json, outline, indent, is_begun: false, stack: Vec::new() }
    }

    fn is_valid(&self) -> bool {
        self.outline.is_some()
    }

    /// Writes until `out` has `most` bytes; true at the end. One step writes a line: its indentation, a key and a scalar.
    pub(crate) fn fill(&mut self, most: usize, out: &mut Vec<u8>) -> bool {
        let Some(outline) = &self.outline else {
            out.extend_from_slice(&self.json);
            return true;
        };
        if !std::mem::replace(&mut self.is_begun, true) {
            self.stack.extend(begin(outline, &self.json, 0, self.indent, out));
        }
        while out.len() < most {
            let Some(open) = self.stack.last_mut() else { return true };
            let next = match open {
                Open::Members { members, indent, is_first } => members.next().map(|(key, node)| {
                    if !std::mem::take(is_first) {
                        break_line(*indent, out);
                    }
                    begin_member(outline, &self.json, &key, node, *indent, out)
                }),
                Open::Items { left, indent, is_first } => (left.start < left.end).then(|| {
                    let node = left.start;
                    left.start = outline.0[node].after;
                    if !std::mem::take(is_first) {
                        break_line(*indent, out);
                    }
                    out.extend_from_slice(b"- ");
                    begin(outline, &self.json, node, *indent + 2, out)
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

/// Begins a value where the output is; returns what is left to be written of it.
fn begin(outline: &Outline, json: &[u8], node: usize, indent: usize, out: &mut Vec<u8>) -> Option<Open> {
    let Node { kind, value, after, .. } = outline.0[node];
    match kind {
        Kind::Object => {
            let members = outline.children(node).map(|child| {
                let (start, end) = outline.0[child].key;
                (text_of(&json[start..end]), child)
            });
            let mut members: Vec<(String, usize)> = members.collect();
            // Of equal keys, the last one counts.
            members.sort_unstable_by(|one, other| match one.0.cmp(&other.0) {
                Ordering::Equal => other.1.cmp(&one.1),
                order => order,
            });
            members.dedup_by(|later, earlier| later.0 == earlier.0);
            Some(Open::Members { members: members.into_iter(), indent, is_first: true })
        }
        Kind::List => Some(Open::Items { left: node + 1..after, indent, is_first: true }),
        Kind::Text => begin_text(text_of(&json[value.0..value.1]), indent, out),
        Kind::Plain => {
            match &json[value.0..value.1] {
                inside @ [b'{' | b'[', ..] => write_flow(inside, out),
                literal => write_literal(literal, out),
            }
            None
        }
    }
}

fn begin_member(
    outline: &Outline,
    json: &[u8],
    key: &str,
    node: usize,
    indent: usize,
    out: &mut Vec<u8>,
) -> Option<Open> {
    write_key(key, indent, out);
    out.push(b':');
    let indent = match outline.0[node].kind {
        Kind::Object => {
            break_line(indent + 2, out);
            indent + 2
        }
        Kind::List => {
            break_line(indent, out);
            indent
        }
        Kind::Text | Kind::Plain => {
            out.push(b' ');
            indent + 2
        }
    };
    begin(outline, json, node, indent, out)
}

fn begin_text(mut text: String, indent: usize, out: &mut Vec<u8>) -> Option<Open> {
    if is_plain(&text) {
        out.extend_from_slice(text.as_bytes());
        return None;
    }
    if !is_literal(&text) {
        write_quoted(&text, out);
        return None;
    }
    let body = text.trim_end_matches('\n').len();
    let chomping: &[u8] = match text.len() - body {
        0 => b"|-",
        1 => b"|",
        _ => b"|+",
    };
    out.extend_from_slice(chomping);
    // Line breaks beyond the first that are kept are empty lines of the block.
    text.truncate(if text.len() > body + 1 { text.len() - 1 } else { body });
    Some(Open::Lines { text, at: Some(0), indent })
}

/// The text of a JSON string. One that is no Unicode text keeps its escapes.
fn text_of(string: &[u8]) -> String {
    serde_json::from_slice(string).unwrap_or_else(|_| String::from_utf8_lossy(string).trim_matches('"').to_owned())
}
