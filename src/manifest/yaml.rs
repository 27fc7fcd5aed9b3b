//! The documents of one file: YAML or JSON, several to a file, lists taken apart, each with its line.
//!
//! A broken document is reported with line and cause; the others of the file still count, because the text is cut at
//! lines of `---` before anything is parsed (no block can contain one at the start of a line). Scalars mean what they
//! mean to kubectl ([`super::scalar`]); a key that stands twice in one mapping is refused, unlike there. Anchors,
//! aliases and merge keys are followed within a bound. What an object must look like is `source::folder`'s.

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle, Tag};
use serde_json::{Map, Value};

use super::{json, scalar};
use crate::schema::json::{normalize_numbers, to_text};

/// Levels of nesting, at most; encoding/json of Go has 10,000, no Kubernetes type comes near this.
pub const MAX_DEPTH: usize = 100;
/// Nodes plus bytes of text that aliases of one document may add; a document that needs more is an attack.
const MAX_EXPANSION: usize = 4 << 20;

/// One object of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// The object; always a mapping.
    pub value: Value,
    /// The line of its first key, from 1.
    pub line: usize,
}

/// A document that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {cause}")]
pub struct Broken {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong, in one line.
    pub cause: String,
}

/// A document before lists are taken apart.
pub struct Tree {
    /// Its value.
    pub value: Value,
    /// The line where it starts.
    pub line: usize,
    /// The lines of the items when the root has a list `items`.
    pub item_lines: Vec<usize>,
}

/// How a file names itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `.yaml` or `.yml`; may hold JSON nevertheless.
    Yaml,
    /// `.json`.
    Json,
}

/// Reads a file. Empty documents are left out; `List` and every other kind that ends in `List` and has `items` is
/// taken apart.
pub fn documents(bytes: &[u8], form: Form) -> (Vec<Document>, Vec<Broken>) {
    let mut documents = Vec::new();
    let mut broken = Vec::new();
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
    for (chunk, first_line) in chunks(bytes, form) {
        let text = match std::str::from_utf8(chunk) {
            Ok(text) => text,
            Err(error) => {
                let line = first_line + chunk[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count();
                broken.push(Broken { line, cause: "not UTF-8".to_owned() });
                continue;
            }
        };
        let (trees, problem) = trees(text, first_line, form);
        for tree in trees {
            flatten(tree, &mut documents, &mut broken);
        }
        broken.extend(problem);
    }
    (documents, broken)
}

fn trees(text: &str, first_line: usize, form: Form) -> (Vec<Tree>, Option<Broken>) {
    if form == Form::Json {
        return json::trees(text, first_line);
    }
    let content = text.trim_start_matches("---").trim_start();
    if content.starts_with('{') {
        let skipped = &text[..text.len() - content.len()];
        let line = first_line + skipped.matches('\n').count();
        let (trees, problem) = json::trees(content, line);
        // Not JSON after all: a YAML mapping in flow style.
        if problem.is_none() {
            return (trees, None);
        }
    }
    yaml(text, first_line)
}

/// Cuts at lines that are `---` or start with it and a blank. The marker stays with what follows.
fn chunks(bytes: &[u8], form: Form) -> Vec<(&[u8], usize)> {
    if form == Form::Json {
        return vec![(bytes, 1)];
    }
    let mut chunks = Vec::new();
    let (mut start, mut start_line, mut offset) = (0, 1, 0);
    for (index, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let is_marker = line.strip_prefix(b"---").is_some_and(|rest| rest.first().is_none_or(u8::is_ascii_whitespace));
        if is_marker && offset > start {
            chunks.push((&bytes[start..offset], start_line));
            (start, start_line) = (offset, index + 1);
        }
        offset += line.len();
    }
    chunks.push((&bytes[start..], start_line));
    chunks.retain(|(chunk, _)| !is_empty(chunk));
    chunks
}

/// Whether there is nothing but blanks, comments, directives and markers.
fn is_empty(chunk: &[u8]) -> bool {
    chunk.split(|byte| *byte == b'\n').all(|line| {
        let line = line.trim_ascii();
        let rest = line.strip_prefix(b"---").unwrap_or(line).trim_ascii();
        rest.is_empty() || rest == b"..." || matches!(rest.first(), Some(b'#' | b'%'))
    })
}

fn flatten(tree: Tree, documents: &mut Vec<Document>, broken: &mut Vec<Broken>) {
    let Tree { value, line, item_lines } = tree;
    let Value::Object(mut members) = value else {
        if !value.is_null() {
            broken
                .push(Broken { line, cause: "not an object: expected a mapping with apiVersion and kind".to_owned() });
        }
        return;
    };
    let is_list = members.get("kind").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("List"));
    match members.remove("items") {
        Some(Value::Array(items)) if is_list => {
            for (index, value) in items.into_iter().enumerate() {
                let line = item_lines.get(index).copied().unwrap_or(line);
                flatten(Tree { value, line, item_lines: Vec::new() }, documents, broken);
            }
        }
        Some(Value::Null) | None if is_list => {}
        other => {
            members.extend(other.map(|items| ("items".to_owned(), items)));
            documents.push(Document { value: Value::Object(members), line });
        }
    }
}

fn yaml(text: &str, first_line: usize) -> (Vec<Tree>, Option<Broken>) {
    let mut trees = Vec::new();
    let mut builder = Builder::default();
    for event in Parser::new_from_str(text) {
        let (event, span) = match event {
            Ok(event) => event,
            Err(error) => {
                let line = first_line + error.marker().line().saturating_sub(1);
                let cause = format!("invalid YAML: {}", error.info().replace('\n', " "));
                return (trees, Some(Broken { line, cause }));
            }
        };
        let line = first_line + span.start.line().saturating_sub(1);
        match event {
            Event::DocumentStart(_) => builder = Builder { line, ..Builder::default() },
            Event::DocumentEnd => {
                let builder = std::mem::take(&mut builder);
                if let Some(value) = builder.root {
                    trees.push(Tree { value, line: builder.line, item_lines: builder.item_lines });
                }
            }
            event => {
                if let Err(cause) = builder.take(event, line) {
                    return (trees, Some(Broken { line, cause }));
                }
            }
        }
    }
    (trees, None)
}

/// A value with what it weighs when an alias repeats it.
#[derive(Clone)]
struct Weighed {
    value: Value,
    weight: usize,
}

struct Frame {
    content: Content,
    anchor: usize,
    weight: usize,
}

enum Content {
    Sequence(Vec<Value>),
    Mapping { members: Map<String, Value>, merged: Vec<Value>, key: Option<Key> },
}

enum Key {
    Name(String),
    Merge,
}

/// Turns the events of one document into a value.
#[derive(Default)]
struct Builder {
    stack: Vec<Frame>,
    root: Option<Value>,
    /// The line of the root's first event.
    line: usize,
    item_lines: Vec<usize>,
    anchors: HashMap<usize, Weighed>,
    expanded: usize,
}

impl Builder {
    fn take(&mut self, event: Event<'_>, line: usize) -> Result<(), String> {
        if self.stack.is_empty() && self.root.is_none() {
            self.line = line;
        }
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                if self.expects_key() {
                    return self.take_key(&text, style, anchor);
                }
                let value = scalar_value(&text, style, tag.as_deref())?;
                self.complete(Weighed { value, weight: 1 + text.len() }, anchor, line)
            }
            Event::SequenceStart(anchor, _) => self.open(Content::Sequence(Vec::new()), anchor, line),
            Event::MappingStart(anchor, _) => {
                let content = Content::Mapping { members: Map::new(), merged: Vec::new(), key: None };
                self.open(content, anchor, line)
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(frame) = self.stack.pop() else { return Ok(()) };
                let value = match frame.content {
                    Content::Sequence(items) => Value::Array(items),
                    Content::Mapping { members, merged, .. } => merge(members, merged)?,
                };
                self.complete(Weighed { value, weight: frame.weight }, frame.anchor, line)
            }
            Event::Alias(anchor) => {
                let Some(found) = self.anchors.get(&anchor).cloned() else {
                    return Err("an alias stands inside the value that it names".to_owned());
                };
                self.expanded += found.weight;
                if self.expanded > MAX_EXPANSION {
                    return Err(format!("aliases expand to more than {MAX_EXPANSION} nodes and bytes"));
                }
                if depth_of(&found.value, MAX_DEPTH.saturating_sub(self.stack.len())).is_none() {
                    return Err(format!("nested deeper than {MAX_DEPTH} levels"));
                }
                if self.expects_key() {
                    return match found.value {
                        Value::String(key) => self.set_key(Key::Name(key)),
                        _ => Err("an alias that is used as a key must name a text".to_owned()),
                    };
                }
                self.complete(found, 0, line)
            }
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentStart(_) | Event::DocumentEnd => {
                Ok(())
            }
        }
    }

    fn expects_key(&self) -> bool {
        matches!(self.stack.last(), Some(Frame { content: Content::Mapping { key: None, .. }, .. }))
    }

    /// Keys of JSON are texts: numbers and booleans become theirs.
    fn take_key(&mut self, text: &str, style: ScalarStyle, anchor: usize) -> Result<(), String> {
        let key = if style != ScalarStyle::Plain {
            text.to_owned()
        } else if text == "<<" {
            return self.set_key(Key::Merge);
        } else {
            match scalar::resolve(text)? {
                Value::String(key) => key,
                Value::Null => return Err("a key is null".to_owned()),
                mut other => {
                    normalize_numbers(&mut other);
                    to_text(&other)
                }
            }
        };
        if anchor > 0 {
            let value = Value::String(key.clone());
            self.anchors.insert(anchor, Weighed { value, weight: 1 + key.len() });
        }
        self.set_key(Key::Name(key))
    }

    fn set_key(&mut self, new: Key) -> Result<(), String> {
        if let Some(Frame { content: Content::Mapping { members, key, .. }, .. }) = self.stack.last_mut() {
            if let Key::Name(name) = &new
                && members.contains_key(name)
            {
                return Err(format!("the key {name:?} stands twice"));
            }
            *key = Some(new);
        }
        Ok(())
    }

    fn open(&mut self, content: Content, anchor: usize, line: usize) -> Result<(), String> {
        if self.expects_key() {
            return Err("a key is a mapping or a list".to_owned());
        }
        if self.stack.len() >= MAX_DEPTH {
            return Err(format!("nested deeper than {MAX_DEPTH} levels"));
        }
        self.note_item(line);
        self.stack.push(Frame { content, anchor, weight: 1 });
        Ok(())
    }

    /// Keeps the line of an item of the root's `items`. A collection is noted when it opens.
    fn note_item(&mut self, line: usize) {
        if let [root, list] = &self.stack[..]
            && let Content::Mapping { key: Some(Key::Name(name)), .. } = &root.content
            && let Content::Sequence(items) = &list.content
            && name == "items"
            && self.item_lines.len() == items.len()
        {
            self.item_lines.push(line);
        }
    }

    fn complete(&mut self, weighed: Weighed, anchor: usize, line: usize) -> Result<(), String> {
        self.note_item(line);
        if anchor > 0 {
            self.anchors.insert(anchor, weighed.clone());
        }
        let Weighed { value, weight } = weighed;
        let Some(frame) = self.stack.last_mut() else {
            self.root = Some(value);
            return Ok(());
        };
        frame.weight += weight;
        match &mut frame.content {
            Content::Sequence(items) => items.push(value),
            Content::Mapping { members, merged, key } => match key.take() {
                Some(Key::Name(name)) => {
                    frame.weight += name.len();
                    members.insert(name, value);
                }
                Some(Key::Merge) => merged.push(value),
                None => return Err("a key is a mapping or a list".to_owned()),
            },
        }
        Ok(())
    }
}

/// `None` when a value is nested deeper than allowed. Only aliases can make one that the stack did not see.
fn depth_of(value: &Value, allowed: usize) -> Option<()> {
    let below = || allowed.checked_sub(1);
    match value {
        Value::Array(items) => {
            let allowed = below()?;
            items.iter().try_for_each(|item| depth_of(item, allowed))
        }
        Value::Object(members) => {
            let allowed = below()?;
            members.values().try_for_each(|member| depth_of(member, allowed))
        }
        _ => Some(()),
    }
}

/// Adds merged mappings: own keys win, then earlier mappings.
fn merge(mut members: Map<String, Value>, merged: Vec<Value>) -> Result<Value, String> {
    for value in merged {
        let mappings = if let Value::Array(items) = value { items } else { vec![value] };
        for mapping in mappings {
            let Value::Object(mapping) = mapping else {
                return Err("the value of << is not a mapping or a list of mappings".to_owned());
            };
            for (key, value) in mapping {
                members.entry(key).or_insert(value);
            }
        }
    }
    Ok(Value::Object(members))
}

fn scalar_value(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Value, String> {
    let core = tag.filter(|tag| tag.is_yaml_core_schema()).map(|tag| tag.suffix.as_str());
    match core {
        Some("str") => Ok(Value::from(text)),
        Some(kind @ ("int" | "float" | "bool" | "null")) => {
            let value = scalar::resolve(text)?;
            let fits = match kind {
                "int" => value.is_i64() || value.is_u64(),
                "float" => value.is_number(),
                "bool" => value.is_boolean(),
                _ => value.is_null(),
            };
            if fits { Ok(value) } else { Err(format!("{text:?} is no !!{kind}")) }
        }
        Some(kind @ ("binary" | "timestamp" | "set" | "omap" | "pairs")) => Err(format!("!!{kind} has no JSON form")),
        _ if style == ScalarStyle::Plain && tag.is_none() => scalar::resolve(text),
        _ => Ok(Value::from(text)),
    }
}
