//! Builds a value from the events of one YAML document.
//!
//! Between the start and the end of a node with an anchor, events are recorded in a log. The anchor is a range of this
//! log, so nested anchors cost no more memory than one. An alias replays its range. The values that it builds are
//! charged to the [`MemoryBudget`] like all others.

use std::collections::HashMap;

use saphyr_parser::{Event, ScalarStyle, Tag};
use serde_json::{Map, Value};

use super::budget::MemoryBudget;
use super::parsed::MAX_DEPTH;
use super::scalar;
use crate::json::{normalize_numbers, to_text};

/// A list or mapping that has begun and not ended.
struct Frame {
    content: Content,
    /// The anchor of this node, or 0.
    anchor: usize,
}

enum Content {
    Sequence(Vec<Value>),
    /// `merged` has the values of `<<`. `key` is the key whose value is next; `None`: a key is next.
    Mapping {
        members: Map<String, Value>,
        merged: Vec<Value>,
        key: Option<Key>,
    },
}

enum Key {
    Name(String),
    /// The key `<<`.
    Merge,
}

/// An event of the parser, and an entry of the log.
enum Step<Text> {
    Scalar {
        text: Text,
        style: ScalarStyle,
        tag: Option<Tag>,
    },
    /// A list begins.
    Sequence,
    /// A mapping begins.
    Mapping,
    /// The innermost list or mapping ends.
    End,
    /// An alias, with the number of its anchor.
    Alias(usize),
}

/// A node with an anchor: a range of the log.
#[derive(Clone, Copy)]
struct Anchor {
    start: usize,
    /// `None` until the node ends.
    end: Option<usize>,
    /// The number of nodes in it, as kube-apiserver counts them. Until the node ends: `MemoryBudget::decoded` at its
    /// start.
    nodes: usize,
}

/// Turns the events of one document into a value.
#[derive(Default)]
pub(super) struct Builder {
    /// The lists and mappings that have begun, the innermost last.
    stack: Vec<Frame>,
    /// The value of the document, once it is complete.
    pub(super) root: Option<Value>,
    /// The line of the document's first event.
    pub(super) line: usize,
    /// The lines of the items, if the document has a list `items`.
    pub(super) item_lines: Vec<usize>,
    /// Anchors by their numbers, which the parser assigns from 1.
    anchors: HashMap<usize, Anchor>,
    /// The number of nodes with anchors that have begun and not ended.
    open_anchors: usize,
    log: Vec<Step<Box<str>>>,
}

impl Builder {
    /// A builder for a document that begins at this line.
    pub(super) fn new(line: usize) -> Builder {
        Builder { line, ..Builder::default() }
    }

    /// Handles the next event of the parser, at this line of the file.
    ///
    /// # Errors
    /// The document is invalid, or the budget is exceeded.
    pub(super) fn take(&mut self, event: Event<'_>, line: usize, budget: &mut MemoryBudget) -> Result<(), String> {
        if self.stack.is_empty() && self.root.is_none() {
            self.line = line;
        }
        let (step, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                (Step::Scalar { text, style, tag: tag.map(std::borrow::Cow::into_owned) }, anchor)
            }
            Event::SequenceStart(anchor, _) => (Step::Sequence, anchor),
            Event::MappingStart(anchor, _) => (Step::Mapping, anchor),
            Event::SequenceEnd | Event::MappingEnd => (Step::End, 0),
            Event::Alias(anchor) => (Step::Alias(anchor), 0),
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentStart(_) | Event::DocumentEnd => {
                return Ok(());
            }
        };
        if anchor > 0 {
            self.anchors.insert(anchor, Anchor { start: self.log.len(), end: None, nodes: budget.decoded() });
            self.open_anchors += 1;
        }
        if self.open_anchors > 0 {
            self.record(&step, budget)?;
        }
        if !matches!(step, Step::End) {
            budget.count_node();
        }
        match step {
            Step::Alias(anchor) => self.replay(anchor, line, budget)?,
            Step::Scalar { text, style, tag } => {
                self.take_scalar(&text, style, tag.as_ref(), line, budget)?;
                self.close_anchor(anchor, budget);
            }
            Step::Sequence | Step::Mapping => {
                self.begin_container(matches!(step, Step::Mapping), anchor, line)?;
            }
            Step::End => {
                let anchor = self.end_container(line, budget)?;
                self.close_anchor(anchor, budget);
            }
        }
        Ok(())
    }

    /// Records an event in the log, for aliases.
    fn record<Text: AsRef<str>>(&mut self, step: &Step<Text>, budget: &mut MemoryBudget) -> Result<(), String> {
        let kept = match step {
            Step::Scalar { text, style, tag } => {
                budget.charge_event(text.as_ref())?;
                if let Some(tag) = tag {
                    budget.charge_event(&tag.suffix)?;
                }
                Step::Scalar { text: text.as_ref().into(), style: *style, tag: tag.clone() }
            }
            Step::Sequence => Step::Sequence,
            Step::Mapping => Step::Mapping,
            Step::End => Step::End,
            Step::Alias(anchor) => Step::Alias(*anchor),
        };
        if !matches!(kept, Step::Scalar { .. }) {
            budget.charge_event("")?;
        }
        self.log.push(kept);
        Ok(())
    }

    /// Ends the range of an anchor; 0: the node has no anchor.
    fn close_anchor(&mut self, anchor: usize, budget: &MemoryBudget) {
        if anchor > 0
            && let Some(found) = self.anchors.get_mut(&anchor)
        {
            found.end = Some(self.log.len());
            found.nodes = budget.decoded() - found.nodes;
            self.open_anchors -= 1;
        }
    }

    /// The start and the end of an anchor's range in the log, and its number of nodes. Fails if the node has not ended.
    fn range(&self, anchor: usize) -> Result<(usize, usize, usize), String> {
        let found = self.anchors.get(&anchor).and_then(|anchor| Some((anchor.start, anchor.end?, anchor.nodes)));
        found.ok_or_else(|| "an alias refers to the value that contains it".to_owned())
    }

    /// Builds the node of an anchor again, for an alias at this line. Ranges nest at most as deep as values do, because
    /// an alias in a range is inside a list or mapping.
    fn replay(&mut self, anchor: usize, line: usize, budget: &mut MemoryBudget) -> Result<(), String> {
        let (start, end, nodes) = self.range(anchor)?;
        budget.count_alias(nodes)?;
        // Moved out while its events are handled, which records none: an enclosing anchor has the alias itself.
        let log = std::mem::take(&mut self.log);
        let mut ranges = vec![(start, end)];
        while let Some((next, end)) = ranges.last_mut() {
            if next == end {
                ranges.pop();
                continue;
            }
            let step = &log[*next];
            *next += 1;
            match step {
                Step::Scalar { text, style, tag } => self.take_scalar(text, *style, tag.as_ref(), line, budget)?,
                Step::Sequence | Step::Mapping => self.begin_container(matches!(step, Step::Mapping), 0, line)?,
                Step::End => {
                    self.end_container(line, budget)?;
                }
                Step::Alias(anchor) => {
                    let (start, end, _) = self.range(*anchor)?;
                    ranges.push((start, end));
                }
            }
        }
        self.log = log;
        Ok(())
    }

    /// Handles a scalar, which is the key of a member or a value. `line`: its line, or that of the alias.
    fn take_scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        tag: Option<&Tag>,
        line: usize,
        budget: &mut MemoryBudget,
    ) -> Result<(), String> {
        if self.expects_key() {
            return self.take_key(text, style, budget);
        }
        let value = scalar_value(text, style, tag)?;
        if let Value::String(text) = &value {
            budget.charge_text(text)?;
        }
        self.complete(value, line, budget)
    }

    /// Ends the innermost list or mapping, and returns its anchor; 0: it has none.
    fn end_container(&mut self, line: usize, budget: &mut MemoryBudget) -> Result<usize, String> {
        let Some(frame) = self.stack.pop() else { return Ok(0) };
        let value = match frame.content {
            Content::Sequence(items) => Value::Array(items),
            Content::Mapping { members, merged, .. } => merge(members, merged, budget)?,
        };
        self.complete(value, line, budget)?;
        Ok(frame.anchor)
    }

    /// Whether the next event is the key of a mapping.
    fn expects_key(&self) -> bool {
        matches!(self.stack.last(), Some(Frame { content: Content::Mapping { key: None, .. }, .. }))
    }

    /// Handles the key of a member. Keys of JSON are strings, so numbers and booleans become strings.
    fn take_key(&mut self, text: &str, style: ScalarStyle, budget: &mut MemoryBudget) -> Result<(), String> {
        let name = if style != ScalarStyle::Plain {
            text.to_owned()
        } else if text == "<<" {
            return self.set_key(Key::Merge, budget);
        } else {
            match scalar::resolve(text)? {
                Value::String(key) => key,
                Value::Null => return Err("a key is null".to_owned()),
                mut other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
                    normalize_numbers(&mut other);
                    to_text(&other)
                }
            }
        };
        self.set_key(Key::Name(name), budget)
    }

    /// Stores the key of the next member. Fails if the mapping has the key already.
    fn set_key(&mut self, new: Key, budget: &mut MemoryBudget) -> Result<(), String> {
        if let Some(Frame { content: Content::Mapping { members, merged, key }, .. }) = self.stack.last_mut() {
            match &new {
                Key::Name(name) if members.contains_key(name) => {
                    return Err(format!("duplicate key {name:?}"));
                }
                Key::Name(name) => budget.charge_member(members.len(), name)?,
                Key::Merge => budget.charge_element(merged.len())?,
            }
            *key = Some(new);
        }
        Ok(())
    }

    /// Begins a mapping or a list. `anchor`: its anchor, or 0. Fails where a key is expected, and at [`MAX_DEPTH`].
    fn begin_container(&mut self, is_mapping: bool, anchor: usize, line: usize) -> Result<(), String> {
        if self.expects_key() {
            return Err("a key is a mapping or a list".to_owned());
        }
        if self.stack.len() >= MAX_DEPTH {
            return Err(format!("nested deeper than {MAX_DEPTH} levels"));
        }
        self.note_item(line);
        let content = if is_mapping {
            Content::Mapping { members: Map::new(), merged: Vec::new(), key: None }
        } else {
            Content::Sequence(Vec::new())
        };
        self.stack.push(Frame { content, anchor });
        Ok(())
    }

    /// Records the line of an item of the document's `items`, if a value at this position is one. Called when an item
    /// begins, and again when a list or mapping ends; only the first call records it.
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

    /// Adds a complete value to the innermost list or mapping, or makes it the document.
    fn complete(&mut self, value: Value, line: usize, budget: &mut MemoryBudget) -> Result<(), String> {
        self.note_item(line);
        let Some(frame) = self.stack.last_mut() else {
            self.root = Some(value);
            return Ok(());
        };
        match &mut frame.content {
            Content::Sequence(items) => {
                budget.charge_element(items.len())?;
                items.push(value);
            }
            Content::Mapping { members, merged, key } => match key.take() {
                Some(Key::Name(name)) => {
                    members.insert(name, value);
                }
                Some(Key::Merge) => merged.push(value),
                None => return Err("a key is a mapping or a list".to_owned()),
            },
        }
        Ok(())
    }
}

/// An object with these members and those of the merged mappings (`<<`). The members themselves take precedence, and
/// then earlier mappings.
///
/// # Errors
/// A merged value is neither a mapping nor a list of mappings, or the budget is exceeded.
fn merge(mut members: Map<String, Value>, merged: Vec<Value>, budget: &mut MemoryBudget) -> Result<Value, String> {
    for value in merged {
        let mappings = if let Value::Array(items) = value { items } else { vec![value] };
        for mapping in mappings {
            let Value::Object(mapping) = mapping else {
                return Err("the value of << is not a mapping or a list of mappings".to_owned());
            };
            for (key, value) in mapping {
                budget.charge_member(members.len(), "")?;
                members.entry(key).or_insert(value);
            }
        }
    }
    Ok(Value::Object(members))
}

/// The value of a scalar. A plain scalar without a tag is resolved as YAML does. Other styles and unknown tags make it
/// a string.
///
/// # Errors
/// The text is not of the type of its tag, or has no JSON form.
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
            if fits { Ok(value) } else { Err(format!("{text:?} is not a valid !!{kind}")) }
        }
        Some(kind @ ("binary" | "timestamp" | "set" | "omap" | "pairs")) => Err(format!("!!{kind} has no JSON form")),
        _ if style == ScalarStyle::Plain && tag.is_none() => scalar::resolve(text),
        _ => Ok(Value::from(text)),
    }
}
