//! JSON bytes as a tree, read in one pass and without recursion.
//!
//! [`Tree`] is for writers: it refers to the bytes, takes any depth that an API server stores, and is walked and
//! dropped without recursion. [`value`] and [`shallow`] make a [`serde_json::Value`], which is cloned, compared,
//! written and dropped recursively; the caller states how many levels it may have. serde_json itself rejects more than
//! 127 levels.
//!
//! Of equal keys the last one counts, and texts are read as Go reads them: see [`super::text`].

use std::borrow::Cow;
use std::ops::{Index, IndexMut, Range};

use serde_json::{Map, Value};

use super::cursor::{Cursor, LIST_GOES_ON, MAX_DEPTH, OBJECT_GOES_ON, Span, SyntaxError, TOO_DEEP};
use super::text::unescape;

/// The reason why bytes cannot be read as a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidJson {
    /// Not JSON, or cut short.
    #[error(transparent)]
    Syntax(#[from] SyntaxError),
    /// Objects and lists are nested deeper than the caller allows.
    #[error("more than {levels} levels of nesting at byte {offset}")]
    TooDeep {
        /// Byte offset.
        offset: usize,
        /// The number of levels that the caller allows.
        levels: usize,
    },
}

/// The kind of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// A string, a number, a boolean or null.
    Scalar,
    /// A list.
    List,
    /// An object.
    Map,
}

/// The number of a node in its tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeId(u32);

/// A JSON text as nodes that refer to it.
#[derive(Debug)]
pub struct Tree<'b> {
    bytes: &'b [u8],
    nodes: Nodes,
}

/// A value: its position, and links to its next sibling and first child. Short values have few bytes for each node, so
/// a node must be small as well. Its kind and the end of its key are therefore read from the bytes.
#[derive(Clone, Copy, Debug)]
struct Node {
    /// The position of a member's key, after the first quote.
    key: u32,
    start: u32,
    end: u32,
    /// The first value inside of it; 0 if there is none, because the root is inside of nothing.
    first: u32,
    /// The next value in the same container; 0 if there is none.
    next: u32,
}

/// The nodes of a tree. The first [`PART`] nodes, which suffice for most trees, are contiguous. Further nodes are in
/// parts of the same size, so that they are neither moved nor allocated in advance.
#[derive(Debug)]
struct Nodes {
    first: Vec<Node>,
    parts: Vec<Vec<Node>>,
}

/// The number of nodes in a part.
const PART: usize = 1 << 10;

/// The approximate number of bytes of an object for each of its values. It decides the initial capacity of a tree.
const BYTES_PER_VALUE: usize = 16;

impl Nodes {
    /// No nodes, with capacity for those of a text of `length` bytes.
    fn for_bytes(length: usize) -> Nodes {
        Nodes { first: Vec::with_capacity((length / BYTES_PER_VALUE).clamp(1, PART)), parts: Vec::new() }
    }

    fn len(&self) -> usize {
        match self.parts.last() {
            None => self.first.len(),
            Some(last) => self.parts.len() * PART + last.len(),
        }
    }

    /// Appends a node and returns its number.
    fn push(&mut self, node: Node) -> NodeId {
        if self.first.len() < PART {
            self.first.push(node);
            return NodeId(position(self.first.len() - 1));
        }
        if self.parts.last().is_none_or(|part| part.len() == PART) {
            self.parts.push(Vec::with_capacity(PART));
        }
        let before = self.parts.len() * PART;
        let index = self.parts.last_mut().map_or(0, |part| {
            part.push(node);
            part.len() - 1
        });
        NodeId(position(before + index))
    }
}

impl Index<NodeId> for Nodes {
    type Output = Node;

    fn index(&self, NodeId(id): NodeId) -> &Node {
        let id = id as usize;
        self.first.get(id).unwrap_or_else(|| &self.parts[id / PART - 1][id % PART])
    }
}

impl IndexMut<NodeId> for Nodes {
    fn index_mut(&mut self, NodeId(id): NodeId) -> &mut Node {
        let id = id as usize;
        match self.first.get_mut(id) {
            Some(node) => node,
            None => &mut self.parts[id / PART - 1][id % PART],
        }
    }
}

/// A position in the bytes, or a number of a node, as 32 bits. Both fit: a tree has less than 4 GiB of bytes, and each
/// node takes at least one of them.
fn position(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}

/// A container that is being read.
struct Open<'b> {
    id: NodeId,
    is_list: bool,
    /// Its last element or member so far.
    last: Option<NodeId>,
    /// The raw key of its last member.
    key: &'b [u8],
    /// Whether each key so far is greater than the one before and has no escapes.
    is_sorted: bool,
}

impl<'b> Tree<'b> {
    /// Reads one JSON value. The members of objects are sorted by key.
    ///
    /// # Errors
    /// The bytes are not a JSON value, or nest deeper than an API server stores.
    pub fn read(bytes: &'b [u8]) -> Result<Tree<'b>, SyntaxError> {
        Tree::read_at_most(bytes, usize::MAX)
    }

    /// Like [`Tree::read`], for at most `most` values: each takes 20 bytes of memory, however short it is.
    ///
    /// # Errors
    /// Those of [`Tree::read`], or the bytes have more values.
    pub fn read_at_most(bytes: &'b [u8], most: usize) -> Result<Tree<'b>, SyntaxError> {
        if u32::try_from(bytes.len()).is_err() {
            return Err(SyntaxError { offset: 0, expected: "less than 4 GiB" });
        }
        let mut tree = Tree { bytes, nodes: Nodes::for_bytes(bytes.len()) };
        let mut cursor = Cursor::new(bytes);
        let mut open: Vec<Open<'b>> = Vec::new();
        let mut key = 0;
        cursor.space();
        loop {
            let start = cursor.position();
            let kind = kind_at(&cursor);
            if tree.nodes.len() >= most {
                return Err(SyntaxError { offset: start, expected: "fewer values" });
            }
            let start = position(start);
            let id = tree.nodes.push(Node { key, start, end: start, first: 0, next: 0 });
            if let Some(container) = open.last_mut() {
                match container.last.replace(id) {
                    Some(before) => tree.nodes[before].next = id.0,
                    None => tree.nodes[container.id].first = id.0,
                }
            }
            if kind == NodeKind::Scalar {
                skip_scalar(&mut cursor)?;
                tree.nodes[id].end = position(cursor.position());
            } else {
                if open.len() >= MAX_DEPTH {
                    return Err(cursor.error(TOO_DEEP));
                }
                cursor.advance();
                open.push(Open { id, is_list: kind == NodeKind::List, last: None, key: &[], is_sorted: true });
            }
            // Up to the next value.
            loop {
                let Some(container) = open.last_mut() else {
                    expect_end(&mut cursor)?;
                    return Ok(tree);
                };
                let id = container.id;
                let is_list = container.is_list;
                match advance_to_next(&mut cursor, is_list, container.last.is_some())? {
                    Next::End => {
                        tree.nodes[id].end = position(cursor.position());
                        if !container.is_sorted {
                            tree.sort(id)?;
                        }
                        open.pop();
                    }
                    Next::Value(found) => {
                        key = position(found.start);
                        if !is_list {
                            let raw = found.slice(bytes);
                            let is_greater = container.last.is_none() || container.key < raw;
                            container.is_sorted &= is_greater && raw.is_ascii() && !raw.contains(&b'\\');
                            container.key = raw;
                        }
                        break;
                    }
                }
            }
        }
    }

    /// Sorts the members of an object by key; of equal keys only the last one remains. An error if a key has an invalid
    /// escape.
    fn sort(&mut self, id: NodeId) -> Result<(), SyntaxError> {
        let mut members: Vec<(Cow<'b, str>, NodeId)> = Vec::with_capacity(self.children(id).count());
        for member in self.children(id) {
            let error = SyntaxError { offset: self.nodes[member].key as usize, expected: "a key" };
            members.push((unescape(self.raw_key(member)).ok_or(error)?, member));
        }
        members.sort_by(|(left, _), (right, _)| left.cmp(right));
        let mut next = 0;
        for (index, (key, member)) in members.iter().enumerate().rev() {
            // The sort is stable: of equal keys the last one in the text comes last.
            if members.get(index + 1).is_some_and(|(after, _)| after == key) {
                continue;
            }
            self.nodes[*member].next = next;
            next = member.0;
        }
        self.nodes[id].first = next;
        Ok(())
    }

    /// The raw key of a member of an object, without its quotes. Its end is found in the bytes, because nodes do not
    /// store it. The result has no meaning for other nodes.
    pub fn raw_key(&self, id: NodeId) -> &'b [u8] {
        let rest = &self.bytes[self.nodes[id].key as usize..];
        let mut end = 0;
        while let Some(byte) = rest.get(end).filter(|byte| **byte != b'"') {
            end += if *byte == b'\\' { 2 } else { 1 };
        }
        rest.get(..end).unwrap_or(rest)
    }

    /// The root of the tree.
    pub fn root(&self) -> NodeId {
        NodeId(0)
    }

    /// The kind of a node.
    pub fn kind(&self, id: NodeId) -> NodeKind {
        kind_of(self.bytes.get(self.nodes[id].start as usize).copied())
    }

    /// The first element or member of a node; `None` if it has none.
    pub fn first(&self, id: NodeId) -> Option<NodeId> {
        Some(NodeId(self.nodes[id].first)).filter(|first| *first != self.root())
    }

    /// The element or member after this one; `None` if it is the last.
    pub fn next(&self, id: NodeId) -> Option<NodeId> {
        Some(NodeId(self.nodes[id].next)).filter(|next| *next != self.root())
    }

    /// The elements or members of a node; none for a scalar.
    pub fn children(&self, id: NodeId) -> impl Iterator<Item = NodeId> {
        std::iter::successors(self.first(id), |id| self.next(*id))
    }

    /// The key of a member of an object. The result has no meaning for other nodes.
    pub fn key(&self, id: NodeId) -> Cow<'b, str> {
        // Its escapes are valid: they were read with the object.
        unescape(self.raw_key(id)).unwrap_or_default()
    }

    /// Whether a member of an object has this key. Does not copy the member's key unless it has escapes, which is rare.
    pub fn has_key(&self, id: NodeId, key: &str) -> bool {
        self.compare_key(id, key).0
    }

    /// Whether a member of an object has this key, and the cost of the comparison. The cost is the number of plain
    /// bytes that can be read in the same time.
    pub fn compare_key(&self, id: NodeId, key: &str) -> (bool, usize) {
        let raw = &self.bytes[self.nodes[id].key as usize..];
        // The number of equal bytes, up to a quote, an escape or the first different byte.
        let same = raw.iter().zip(key.as_bytes()).take_while(|(raw, key)| raw == key && !matches!(raw, b'"' | b'\\'));
        let same = same.count();
        match raw.get(same) {
            Some(b'"') => (same == key.len(), same),
            Some(b'\\') => {
                let (is_same, read) = escaped_is(raw, key);
                (is_same, read.saturating_mul(UNESCAPED_COST))
            }
            _ => (false, same),
        }
    }

    /// The JSON text of a node.
    pub fn bytes(&self, id: NodeId) -> &'b [u8] {
        &self.bytes[self.range(id)]
    }

    /// The position of the JSON text of a node in the bytes of the tree.
    pub fn range(&self, id: NodeId) -> Range<usize> {
        let Node { start, end, .. } = self.nodes[id];
        start as usize..end as usize
    }
}

/// The length of the longest escape of one byte of text, in bytes: `\u` and four digits.
const LONGEST_ESCAPE: usize = 6;

/// The work of reading a byte of a text with escapes, in bytes without escapes.
const UNESCAPED_COST: usize = 16;

/// Whether the escaped key at the beginning of `raw` equals `key`, and the number of bytes that were read. Reads no
/// further than an equal key could extend.
fn escaped_is(raw: &[u8], key: &str) -> (bool, usize) {
    let most = raw.len().min(key.len().saturating_mul(LONGEST_ESCAPE) + 1);
    let mut end = 0;
    while end < most && raw[end] != b'"' {
        end += if raw[end] == b'\\' { 2 } else { 1 };
    }
    (end < most && unescape(&raw[..end]).is_some_and(|unescaped| unescaped == key), end)
}

/// The kind of a value, from its first byte.
fn kind_of(first: Option<u8>) -> NodeKind {
    match first {
        Some(b'[') => NodeKind::List,
        Some(b'{') => NodeKind::Map,
        _ => NodeKind::Scalar,
    }
}

fn kind_at(cursor: &Cursor<'_>) -> NodeKind {
    kind_of(cursor.peek())
}

/// Skips a string, number, boolean or null.
fn skip_scalar(cursor: &mut Cursor<'_>) -> Result<(), SyntaxError> {
    cursor.skip_value(0)
}

/// Fails if anything but white space follows.
fn expect_end(cursor: &mut Cursor<'_>) -> Result<(), SyntaxError> {
    cursor.space();
    if cursor.peek().is_some() { Err(cursor.error("the end of the value")) } else { Ok(()) }
}

/// The next part of a container: a value or its end.
enum Next {
    /// The container ended; the cursor is after it.
    End,
    /// The cursor is at a value. The span is the raw key of a member; absent for an element of a list.
    Value(Span),
}

/// Advances to the next value of a container, or after its end. `has_values`: whether a value was read before, so that
/// a comma must follow.
fn advance_to_next(cursor: &mut Cursor<'_>, is_list: bool, has_values: bool) -> Result<Next, SyntaxError> {
    if cursor.skip_closing(if is_list { b']' } else { b'}' }) {
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

/// Parses a value with at most `levels` levels of nested objects and lists.
///
/// # Errors
/// The bytes are not a JSON value, or nest deeper.
pub fn value(bytes: &[u8], levels: usize) -> Result<Value, InvalidJson> {
    build(bytes, levels, Below::Rejected)
}

/// Parses the outer `levels` levels of a value. Objects and lists below them are empty in the result.
///
/// # Errors
/// The bytes are not a JSON value, or nest deeper than an API server stores.
pub fn shallow(bytes: &[u8], levels: usize) -> Result<Value, InvalidJson> {
    build(bytes, levels, Below::Empty)
}

/// The treatment of objects and lists below the allowed levels.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Below {
    /// They are an error.
    Rejected,
    /// They are empty in the result.
    Empty,
}

/// A container that is being built.
enum Building {
    List(Vec<Value>),
    /// `key` is the key of the next member.
    Map {
        members: Map<String, Value>,
        key: String,
    },
}

/// Builds a value of at most `levels` levels; `below` decides about deeper ones.
fn build(bytes: &[u8], levels: usize, below: Below) -> Result<Value, InvalidJson> {
    let mut cursor = Cursor::new(bytes);
    let mut open: Vec<Building> = Vec::new();
    cursor.space();
    loop {
        let start = cursor.position();
        let kind = kind_at(&cursor);
        let mut done = match kind {
            NodeKind::List | NodeKind::Map if open.len() >= levels => {
                if below == Below::Rejected {
                    return Err(InvalidJson::TooDeep { offset: start, levels });
                }
                cursor.skip_value(open.len())?;
                Some(if kind == NodeKind::List { Value::Array(Vec::new()) } else { Value::Object(Map::new()) })
            }
            NodeKind::List => {
                cursor.advance();
                open.push(Building::List(Vec::new()));
                None
            }
            NodeKind::Map => {
                cursor.advance();
                open.push(Building::Map { members: Map::new(), key: String::new() });
                None
            }
            NodeKind::Scalar => {
                skip_scalar(&mut cursor)?;
                let raw = &bytes[start..cursor.position()];
                Some(scalar_value(raw).ok_or(SyntaxError { offset: start, expected: "a value" })?)
            }
        };
        // Adds the finished value to the container around it, which may then be finished too.
        loop {
            let Some(container) = open.last_mut() else {
                expect_end(&mut cursor)?;
                return Ok(done.unwrap_or_default());
            };
            // A container that was just opened has no value yet, so no comma is expected.
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
            match advance_to_next(&mut cursor, is_list, has_values)? {
                Next::Value(span) => {
                    if let Building::Map { key, .. } = container {
                        let error = SyntaxError { offset: span.start, expected: "a key" };
                        *key = unescape(span.slice(bytes)).ok_or(error)?.into_owned();
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

/// Parses a string, a number, a boolean or null; `None` if the text is not valid.
pub fn scalar_value(raw: &[u8]) -> Option<Value> {
    match raw {
        [b'"', inside @ .., b'"'] => unescape(inside).map(|text| Value::String(text.into_owned())),
        _ => serde_json::from_slice(raw).ok(),
    }
}
