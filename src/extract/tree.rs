//! JSON bytes as a tree, read in one pass and without recursion.
//!
//! [`Tree`] is for writers: it refers to the bytes, takes any depth that an API server stores, and is walked and dropped
//! without recursion. [`value`] and [`shallow`] make a [`serde_json::Value`], which is cloned, compared, written and dropped
//! recursively; the caller states how many levels it may have. serde_json itself rejects more than 127 levels.
//!
//! Of equal keys the last one counts, and texts are read as Go reads them: see [`super::value`].

use std::borrow::Cow;
use std::ops::Range;

use serde_json::{Map, Value};

use super::plan::Unreadable;
use super::scan::{Cursor, LIST_GOES_ON, MAX_DEPTH, Misplaced, OBJECT_GOES_ON, Span, TOO_DEEP};
use super::value::unescape;

/// Levels of a CustomResourceDefinition. What is done with a schema calls itself for each level; at this bound it needs less
/// than the stack of a worker even without optimization, and tests hold it to that.
pub(crate) const DEFINITION_LEVELS: usize = 500;

/// Levels of an OpenAPI document: those of a definition, and what is put around and into it.
pub(crate) const DOCUMENT_LEVELS: usize = DEFINITION_LEVELS + 24;

/// Levels of an object from which cells are printed.
pub(crate) const OBJECT_LEVELS: usize = 1_000;

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A string, a number, a boolean or null.
    Scalar,
    /// A list.
    List,
    /// An object.
    Map,
}

/// The number of a node in its tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeId(u32);

/// A JSON text as nodes that refer to it.
#[derive(Debug)]
pub(crate) struct Tree<'b> {
    bytes: &'b [u8],
    nodes: Vec<Node>,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    kind: Kind,
    /// Of a member: between the quotes.
    key: Place,
    value: Place,
    first: Option<NodeId>,
    next: Option<NodeId>,
}

/// Bytes from and to; shorter than a [`Span`], because a tree has many.
#[derive(Clone, Copy, Debug, Default)]
struct Place(u32, u32);

impl Place {
    fn new(start: usize, end: usize) -> Place {
        // A tree is only made of bytes whose positions fit.
        Place(u32::try_from(start).unwrap_or(u32::MAX), u32::try_from(end).unwrap_or(u32::MAX))
    }

    fn of(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.0 as usize..self.1 as usize]
    }
}

/// A container that is being read.
struct Open {
    id: NodeId,
    last: Option<NodeId>,
}

impl<'b> Tree<'b> {
    /// Reads one JSON value. The members of objects are sorted by key.
    ///
    /// # Errors
    /// Bytes that are no JSON value, or nest deeper than an API server stores.
    pub(crate) fn read(bytes: &'b [u8]) -> Result<Tree<'b>, Unreadable> {
        if u32::try_from(bytes.len()).is_err() {
            return Err(Unreadable::Syntax { offset: 0, expected: "less than 4 GiB" });
        }
        let mut tree = Tree { bytes, nodes: Vec::new() };
        let mut cursor = Cursor::new(bytes);
        let mut open: Vec<Open> = Vec::new();
        let mut key = Place::default();
        cursor.space();
        loop {
            let start = cursor.position();
            let kind = kind_at(&cursor);
            let id = tree.add(kind, key);
            if let Some(container) = open.last_mut() {
                match container.last.replace(id) {
                    Some(before) => tree.nodes[before.0 as usize].next = Some(id),
                    None => tree.nodes[container.id.0 as usize].first = Some(id),
                }
            }
            tree.nodes[id.0 as usize].value = Place::new(start, start);
            if kind == Kind::Scalar {
                scalar(&mut cursor)?;
                tree.nodes[id.0 as usize].value.1 = Place::new(0, cursor.position()).1;
            } else {
                if open.len() >= MAX_DEPTH {
                    return Err(cursor.error(TOO_DEEP).into());
                }
                cursor.advance();
                open.push(Open { id, last: None });
            }
            // Up to the next value.
            loop {
                let Some(container) = open.last() else {
                    end(&mut cursor)?;
                    return Ok(tree);
                };
                let id = container.id;
                let is_list = tree.nodes[id.0 as usize].kind == Kind::List;
                match next(&mut cursor, is_list, container.last.is_some())? {
                    Next::End => {
                        tree.nodes[id.0 as usize].value.1 = Place::new(0, cursor.position()).1;
                        if !is_list {
                            tree.sort(id)?;
                        }
                        open.pop();
                    }
                    Next::Value(found) => {
                        key = Place::new(found.start, found.end);
                        break;
                    }
                }
            }
        }
    }

    fn add(&mut self, kind: Kind, key: Place) -> NodeId {
        // Each node takes at least a byte, so their number fits as the bytes do.
        let id = NodeId(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX));
        self.nodes.push(Node { kind, key, value: Place::default(), first: None, next: None });
        id
    }

    /// Sorts the members of an object and keeps the last of equal keys.
    fn sort(&mut self, id: NodeId) -> Result<(), Unreadable> {
        let mut members: Vec<(Cow<'b, str>, NodeId)> = Vec::new();
        for member in self.children(id) {
            let Place(offset, _) = self.nodes[member.0 as usize].key;
            let error = Unreadable::Syntax { offset: offset as usize, expected: "a key" };
            members.push((unescape(self.nodes[member.0 as usize].key.of(self.bytes)).ok_or(error)?, member));
        }
        if members.is_sorted_by(|(left, _), (right, _)| left < right) {
            return Ok(());
        }
        members.sort_by(|(left, _), (right, _)| left.cmp(right));
        let mut next = None;
        for (index, (key, member)) in members.iter().enumerate().rev() {
            // The sort is stable: of equal keys the last one in the text comes last.
            if members.get(index + 1).is_some_and(|(after, _)| after == key) {
                continue;
            }
            self.nodes[member.0 as usize].next = next;
            next = Some(*member);
        }
        self.nodes[id.0 as usize].first = next;
        Ok(())
    }

    /// The value itself.
    pub(crate) fn root(&self) -> NodeId {
        NodeId(0)
    }

    /// What a node is.
    pub(crate) fn kind(&self, id: NodeId) -> Kind {
        self.nodes[id.0 as usize].kind
    }

    /// Its first element or member.
    pub(crate) fn first(&self, id: NodeId) -> Option<NodeId> {
        self.nodes[id.0 as usize].first
    }

    /// The element or member behind it.
    pub(crate) fn next(&self, id: NodeId) -> Option<NodeId> {
        self.nodes[id.0 as usize].next
    }

    /// Its elements or members.
    pub(crate) fn children(&self, id: NodeId) -> impl Iterator<Item = NodeId> {
        std::iter::successors(self.first(id), |id| self.next(*id))
    }

    /// The key of a member.
    pub(crate) fn key(&self, id: NodeId) -> Cow<'b, str> {
        // Escapes were read when the members were sorted.
        unescape(self.nodes[id.0 as usize].key.of(self.bytes)).unwrap_or_default()
    }

    /// Whether this is the key of a member: without a copy of the usual one, which has no escapes.
    pub(crate) fn has_key(&self, id: NodeId, key: &str) -> bool {
        let raw = self.nodes[id.0 as usize].key.of(self.bytes);
        if raw.contains(&b'\\') { self.key(id) == key } else { raw == key.as_bytes() }
    }

    /// The bytes of a node.
    pub(crate) fn bytes(&self, id: NodeId) -> &'b [u8] {
        self.nodes[id.0 as usize].value.of(self.bytes)
    }

    /// Where the bytes of a node are.
    pub(crate) fn range(&self, id: NodeId) -> Range<usize> {
        let Place(start, end) = self.nodes[id.0 as usize].value;
        start as usize..end as usize
    }
}

fn kind_at(cursor: &Cursor<'_>) -> Kind {
    match cursor.peek() {
        Some(b'[') => Kind::List,
        Some(b'{') => Kind::Map,
        _ => Kind::Scalar,
    }
}

fn scalar(cursor: &mut Cursor<'_>) -> Result<(), Misplaced> {
    cursor.skip_value(0)
}

fn end(cursor: &mut Cursor<'_>) -> Result<(), Misplaced> {
    cursor.space();
    if cursor.peek().is_some() { Err(cursor.error("the end of the value")) } else { Ok(()) }
}

/// What follows in a container.
enum Next {
    End,
    /// The cursor is at a value. Of a member, this is its key.
    Value(Span),
}

/// Steps to the next value of a container, or behind its end.
fn next(cursor: &mut Cursor<'_>, is_list: bool, has_values: bool) -> Result<Next, Misplaced> {
    if cursor.closes(if is_list { b']' } else { b'}' }) {
        return Ok(Next::End);
    }
    if has_values {
        cursor.expect(b',', if is_list { LIST_GOES_ON } else { OBJECT_GOES_ON })?;
        cursor.space();
    }
    let mut key = Span::default();
    if !is_list {
        let start = cursor.position() + 1;
        cursor.string("a key")?;
        key = Span { start, end: cursor.position() - 1 };
        cursor.space();
        cursor.expect(b':', "a colon")?;
        cursor.space();
    }
    Ok(Next::Value(key))
}

/// Reads a value of at most so many levels.
///
/// # Errors
/// Bytes that are no JSON value, or nest deeper.
pub(crate) fn value(bytes: &[u8], levels: usize) -> Result<Value, Unreadable> {
    build(bytes, levels, Below::Rejected)
}

/// Reads the outer levels of a value. Objects and lists below them are empty.
///
/// # Errors
/// Bytes that are no JSON value, or nest deeper than an API server stores.
pub(crate) fn shallow(bytes: &[u8], levels: usize) -> Result<Value, Unreadable> {
    build(bytes, levels, Below::Empty)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Below {
    Rejected,
    Empty,
}

/// A container that is being built.
enum Building {
    List(Vec<Value>),
    Map { members: Map<String, Value>, key: String },
}

fn build(bytes: &[u8], levels: usize, below: Below) -> Result<Value, Unreadable> {
    let mut cursor = Cursor::new(bytes);
    let mut open: Vec<Building> = Vec::new();
    cursor.space();
    loop {
        let start = cursor.position();
        let kind = kind_at(&cursor);
        let mut done = match kind {
            Kind::List | Kind::Map if open.len() >= levels => {
                if below == Below::Rejected {
                    return Err(Unreadable::TooDeep { offset: start, levels });
                }
                cursor.skip_value(open.len())?;
                Some(if kind == Kind::List { Value::Array(Vec::new()) } else { Value::Object(Map::new()) })
            }
            Kind::List => {
                cursor.advance();
                open.push(Building::List(Vec::new()));
                None
            }
            Kind::Map => {
                cursor.advance();
                open.push(Building::Map { members: Map::new(), key: String::new() });
                None
            }
            Kind::Scalar => {
                scalar(&mut cursor)?;
                let raw = &bytes[start..cursor.position()];
                Some(scalar_value(raw).ok_or(Unreadable::Syntax { offset: start, expected: "a value" })?)
            }
        };
        // The finished value goes into the container around it, which may be finished by that.
        loop {
            let Some(container) = open.last_mut() else {
                end(&mut cursor)?;
                return Ok(done.unwrap_or_default());
            };
            let is_nested = done.is_some();
            let (is_list, has_values) = match container {
                Building::List(items) => {
                    items.extend(done.take());
                    (true, is_nested)
                }
                Building::Map { members, key } => {
                    members.extend(done.take().map(|done| (std::mem::take(key), done)));
                    (false, is_nested)
                }
            };
            match next(&mut cursor, is_list, has_values)? {
                Next::Value(span) => {
                    if let Building::Map { key, .. } = container {
                        let error = Unreadable::Syntax { offset: span.start, expected: "a key" };
                        *key = unescape(span.of(bytes)).ok_or(error)?.into_owned();
                    }
                    break;
                }
                Next::End => {
                    done = open.pop().map(|container| match container {
                        Building::List(items) => Value::Array(items),
                        Building::Map { members, .. } => Value::Object(members),
                    });
                }
            }
        }
    }
}

/// The value of a string, a number, a boolean or null.
pub(crate) fn scalar_value(raw: &[u8]) -> Option<Value> {
    match raw {
        [b'"', inside @ .., b'"'] => unescape(inside).map(|text| Value::String(text.into_owned())),
        _ => serde_json::from_slice(raw).ok(),
    }
}
