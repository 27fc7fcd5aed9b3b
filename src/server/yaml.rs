//! JSON -> YAML in block style, as `kubectl -o yaml` and the API server show it: sorted keys, lists not indented.
//!
//! Only what JSON can say: no anchors, no tags, one document. Scalars are plain where every YAML 1.1 and 1.2 reader
//! takes them for the same string, literal blocks where they have several plain lines, else quoted as JSON is, which
//! YAML reads too. A list is written item by item like its JSON form. Nothing here is recursive: objects nest as deep as JSON
//! does.

use crate::extract::tree::{Kind, NodeId, Tree};
use crate::extract::value::unescape;

use super::encode::{Envelope, write_string};

/// Indentation that a value may take in block style, for each byte of its JSON. Objects of people need less than one.
const INDENTATION_PER_BYTE: usize = 8;
/// The same for a short value.
const LEAST_INDENTATION: usize = 32 * 1024;

/// A JSON document as YAML. Bytes that are no JSON, which a store never holds, come out as they are.
pub fn from_json(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len());
    match Tree::read(json) {
        Ok(tree) => {
            Writer::new(&tree, json).value(tree.root(), 0, &mut out);
            out.push(b'\n');
        }
        Err(_) => out.extend_from_slice(json),
    }
    out
}

/// The YAML form of a list's envelope: what stands before and after the items.
pub fn list_envelope(json: &Envelope, is_empty: bool) -> Envelope {
    let whole = [&*json.head, &*json.tail].concat();
    let (mut head, mut tail) = (Vec::new(), Vec::new());
    let Ok(tree) = Tree::read(&whole) else { return Envelope { head, tail } };
    let mut writer = Writer::new(&tree, &whole);
    let mut is_behind_list = false;
    for member in tree.children(tree.root()) {
        let key = tree.key(member);
        let is_list = key == "items" || key == "rows";
        let side = if is_behind_list && !is_list { &mut tail } else { &mut head };
        is_behind_list |= is_list;
        if is_list && !is_empty {
            side.extend_from_slice(format!("{key}:\n").as_bytes());
        } else {
            writer.member(member, side);
            side.push(b'\n');
        }
    }
    Envelope { head, tail }
}

/// Turns a writer of JSON items into one of YAML items.
pub fn item_writer<Item>(mut write_json: impl FnMut(Item, &mut Vec<u8>)) -> impl FnMut(Item, &mut Vec<u8>) {
    let mut json = Vec::new();
    move |item, out| {
        json.clear();
        write_json(item, &mut json);
        out.extend_from_slice(b"- ");
        match Tree::read(&json) {
            Ok(tree) => Writer::new(&tree, &json).value(tree.root(), 2, out),
            Err(_) => out.extend_from_slice(&json),
        }
        out.push(b'\n');
    }
}

/// Writes the values of a tree.
///
/// Values are in block style until their indentation has taken its budget. The objects and lists that remain are in flow
/// style, on one line, so that the output is no more than a multiple of the JSON however deep it nests.
struct Writer<'t, 'b> {
    tree: &'t Tree<'b>,
    /// Bytes of indentation that may still be written.
    budget: usize,
}

/// A container in block style that is being written.
struct Open {
    is_map: bool,
    is_begun: bool,
    /// The column of its elements or members.
    indent: usize,
    next: Option<NodeId>,
}

impl<'t, 'b> Writer<'t, 'b> {
    fn new(tree: &'t Tree<'b>, json: &[u8]) -> Writer<'t, 'b> {
        Writer { tree, budget: LEAST_INDENTATION + INDENTATION_PER_BYTE * json.len() }
    }

    /// Writes a value at the cursor. Its other lines are indented by `indent`.
    fn value(&mut self, id: NodeId, indent: usize, out: &mut Vec<u8>) {
        let mut open = Vec::new();
        self.begin(id, indent, None, &mut open, out);
        self.finish(open, out);
    }

    /// Writes a member of the outermost object with its key.
    fn member(&mut self, id: NodeId, out: &mut Vec<u8>) {
        let mut open = vec![Open { is_map: true, is_begun: false, indent: 0, next: Some(id) }];
        self.step(&mut open, out);
        if let Some(outermost) = open.first_mut() {
            outermost.next = None;
        }
        self.finish(open, out);
    }

    /// Writes what remains of the open containers.
    fn finish(&mut self, mut open: Vec<Open>, out: &mut Vec<u8>) {
        while !open.is_empty() {
            self.step(&mut open, out);
        }
    }

    /// Writes the next element or member of the innermost container, or closes it.
    fn step(&mut self, open: &mut Vec<Open>, out: &mut Vec<u8>) {
        let Some(container) = open.last_mut() else { return };
        let Some(id) = container.next else {
            open.pop();
            return;
        };
        container.next = self.tree.next(id);
        let (is_map, indent) = (container.is_map, container.indent);
        if std::mem::replace(&mut container.is_begun, true) {
            break_line(indent, out);
        }
        if is_map {
            let key = self.tree.key(id);
            write_key(&key, indent, out);
            out.push(b':');
            // A list in an object is not indented.
            let below = if self.tree.kind(id) == Kind::List { indent } else { indent + 2 };
            self.begin(id, below, Some(below), open, out);
        } else {
            out.extend_from_slice(b"- ");
            self.begin(id, indent + 2, None, open, out);
        }
    }

    /// Writes a scalar or an empty container, or opens one. Behind a key, a container in block style begins on a line of its
    /// own with the given indentation, and anything else follows a space.
    fn begin(&mut self, id: NodeId, indent: usize, own_line: Option<usize>, open: &mut Vec<Open>, out: &mut Vec<u8>) {
        let kind = self.tree.kind(id);
        let is_block = match (kind, self.tree.length(id)) {
            (Kind::Scalar, _) | (_, 0) => false,
            (_, length) => self.takes(indent.saturating_mul(length)),
        };
        match own_line {
            Some(column) if is_block => break_line(column, out),
            Some(_) => out.push(b' '),
            None => {}
        }
        match kind {
            _ if is_block => {
                let next = self.tree.first(id);
                open.push(Open { is_map: kind == Kind::Map, is_begun: false, indent, next });
            }
            Kind::Scalar => self.scalar(self.tree.bytes(id), indent, out),
            Kind::List | Kind::Map => write_flow(self.tree.bytes(id), out),
        }
    }

    fn scalar(&mut self, raw: &[u8], indent: usize, out: &mut Vec<u8>) {
        match raw {
            [b'"', inside @ .., b'"'] => {
                let text = unescape(inside).unwrap_or_default();
                let lines = text.bytes().filter(|byte| *byte == b'\n').count() + 1;
                let is_block = lines > 1 && is_literal(&text) && self.takes(indent.saturating_mul(lines));
                write_scalar(&text, indent, is_block, out);
            }
            b"true" | b"false" | b"null" => out.extend_from_slice(raw),
            // In digits that readers of YAML 1.1 and 1.2 take for the same number.
            _ => match serde_json::from_slice::<serde_json::Number>(raw) {
                Ok(number) => out.extend_from_slice(number.to_string().as_bytes()),
                Err(_) => out.extend_from_slice(raw),
            },
        }
    }

    /// Takes indentation from the budget if that much is left.
    fn takes(&mut self, indentation: usize) -> bool {
        let left = self.budget.checked_sub(indentation);
        self.budget = left.unwrap_or(self.budget);
        left.is_some()
    }
}

/// Writes the JSON of an object or list on one line. JSON is YAML, apart from the escapes in its texts.
pub(super) fn write_flow(json: &[u8], out: &mut Vec<u8>) {
    let mut at = 0;
    while let Some(&byte) = json.get(at) {
        match byte {
            b'"' => {
                let length = string_length(&json[at..]);
                let inside = json.get(at + 1..at + length - 1).unwrap_or_default();
                at += length;
                let follows = json[at..].iter().find(|byte| !byte.is_ascii_whitespace());
                if length > LONGEST_SHORT_KEY && follows == Some(&b':') {
                    out.extend_from_slice(b"? ");
                }
                write_quoted(&unescape(inside).unwrap_or_default(), out);
                continue;
            }
            b' ' | b'\n' | b'\r' | b'\t' => {}
            b':' => out.extend_from_slice(b": "),
            other => out.push(other),
        }
        at += 1;
    }
}

/// Readers of YAML take at most 1,024 characters for a key without a question mark.
const LONGEST_SHORT_KEY: usize = 500;

/// Writes a key of a block, up to its colon.
fn write_key(key: &str, indent: usize, out: &mut Vec<u8>) {
    let is_long = key.len() > LONGEST_SHORT_KEY;
    if is_long {
        out.extend_from_slice(b"? ");
    }
    if is_plain(key) {
        out.extend_from_slice(key.as_bytes());
    } else {
        write_quoted(key, out);
    }
    if is_long {
        break_line(indent, out);
    }
}

/// Writes a text as JSON does, and escapes what YAML does not take as it is.
fn write_quoted(text: &str, out: &mut Vec<u8>) {
    let is_special = |letter: char| matches!(letter, '\u{7f}'..='\u{9f}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}');
    if !text.contains(is_special) {
        return write_string(text, out);
    }
    let mut quoted = Vec::with_capacity(text.len());
    write_string(text, &mut quoted);
    for letter in String::from_utf8_lossy(&quoted).chars() {
        if is_special(letter) {
            out.extend_from_slice(format!("\\u{:04x}", u32::from(letter)).as_bytes());
        } else {
            out.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
}

/// The length of the JSON string at the beginning, with its quotes.
fn string_length(json: &[u8]) -> usize {
    let mut is_escaped = false;
    let end = json.iter().skip(1).position(|byte| match byte {
        _ if is_escaped => {
            is_escaped = false;
            false
        }
        b'\\' => {
            is_escaped = true;
            false
        }
        byte => *byte == b'"',
    });
    end.map_or(json.len().max(2), |end| end + 2)
}

/// Writes a text, as a literal block if it may be one.
fn write_scalar(text: &str, indent: usize, is_block: bool, out: &mut Vec<u8>) {
    if is_plain(text) {
        out.extend_from_slice(text.as_bytes());
    } else if is_block {
        let body = text.trim_end_matches('\n');
        let chomping: &[u8] = match text.len() - body.len() {
            0 => b"|-",
            1 => b"|",
            _ => b"|+",
        };
        out.extend_from_slice(chomping);
        // Kept line breaks beyond the first are empty lines of the block.
        let lines = if text.len() > body.len() + 1 { &text[..text.len() - 1] } else { body };
        for line in lines.split('\n') {
            if line.is_empty() {
                out.push(b'\n');
            } else {
                break_line(indent, out);
                out.extend_from_slice(line.as_bytes());
            }
        }
    } else {
        write_quoted(text, out);
    }
}

/// Several lines of printable text of which the first is not indented.
fn is_literal(text: &str) -> bool {
    let body = text.trim_end_matches('\n');
    body.contains('\n')
        && !body.starts_with([' ', '\n'])
        && text.chars().all(|letter| {
            letter == '\n' || !letter.is_control() && !matches!(letter, '\u{85}' | '\u{2028}' | '\u{2029}' | '\u{feff}')
        })
}

/// Whether every YAML reader takes the bare text for this string. Anything that might be a number, a time, a boolean
/// or null in YAML 1.1 is not plain, and neither is anything with a character that means something.
fn is_plain(text: &str) -> bool {
    let Some(first) = text.chars().next() else { return false };
    let is_word = |letter: char| {
        letter.is_ascii_alphanumeric()
            || matches!(letter, '_' | '-' | '.' | '/' | ' ' | '(' | ')' | '+' | '=' | ',' | ';' | '$' | '@' | ':')
    };
    let safe_shape = (first.is_ascii_alphabetic() || first == '/' || first == '_')
        && text.chars().all(is_word)
        && !text.ends_with([' ', ':'])
        && !text.contains(": ");
    let reserved = matches!(
        &*text.to_ascii_lowercase(),
        "y" | "n" | "yes" | "no" | "on" | "off" | "true" | "false" | "null" | "nan" | "inf"
    );
    safe_shape && !reserved
}

fn break_line(indent: usize, out: &mut Vec<u8>) {
    out.push(b'\n');
    out.resize(out.len() + indent, b' ');
}
