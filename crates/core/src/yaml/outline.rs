//! The values of a JSON document, found in one pass and without recursion.

use super::style::Style;
use crate::json::SyntaxError;
use crate::json::cursor::Cursor;

/// The form in which a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueKind {
    Object,
    List,
    Text,
    /// Printed on one line: numbers, literals, empty containers, and values that are nested too deep.
    Plain,
}

impl ValueKind {
    /// Whether lines for members or items follow.
    pub(super) fn is_container(self) -> bool {
        matches!(self, ValueKind::Object | ValueKind::List)
    }
}

/// A value of a document.
#[derive(Clone, Copy, Debug)]
pub(super) struct OutlineNode {
    pub(super) kind: ValueKind,
    /// The offsets where its key begins and ends, quotes included; (0, 0) for the root and for elements of lists.
    pub(super) key: (usize, usize),
    /// The offsets where the value begins and ends.
    pub(super) value: (usize, usize),
    /// The number of the first later node that is not inside of this one.
    pub(super) after: usize,
}

/// The values of a document in the order in which they begin.
pub(super) struct Outline(pub(super) Vec<OutlineNode>);

impl Outline {
    /// Finds the values of a document in one pass. If the style does not allow as many values, the whole document
    /// becomes one [`ValueKind::Plain`] value.
    ///
    /// # Errors
    /// The bytes do not begin with a JSON value.
    pub(super) fn parse(json: &[u8], style: Style) -> Result<Outline, SyntaxError> {
        let mut cursor = Cursor::new(json);
        let mut nodes: Vec<OutlineNode> = Vec::new();
        // The containers that are open: their nodes.
        let mut open: Vec<usize> = Vec::new();
        cursor.space();
        let start = cursor.position();
        loop {
            if nodes.len() > style.most_values() {
                let mut whole = Cursor::new(json);
                whole.space();
                whole.skip_value(0)?;
                let value = (start, whole.position());
                return Ok(Outline(vec![OutlineNode { kind: ValueKind::Plain, key: (0, 0), value, after: 1 }]));
            }
            let mut key = (0, 0);
            if let Some(&container) = open.last() {
                let is_object = nodes[container].kind == ValueKind::Object;
                if cursor.skip_closing(if is_object { b'}' } else { b']' }) {
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
                Some(b'{') if open.len() < style.deepest() => ValueKind::Object,
                Some(b'[') if open.len() < style.deepest() => ValueKind::List,
                Some(b'"') => ValueKind::Text,
                _ => ValueKind::Plain,
            };
            let after = nodes.len() + 1;
            if matches!(kind, ValueKind::Object | ValueKind::List) {
                cursor.advance();
                if !cursor.skip_closing(if kind == ValueKind::Object { b'}' } else { b']' }) {
                    open.push(nodes.len());
                    nodes.push(OutlineNode { kind, key, value: (start, start), after });
                    continue;
                }
                nodes.push(OutlineNode { kind: ValueKind::Plain, key, value: (start, cursor.position()), after });
            } else {
                cursor.skip_value(open.len())?;
                nodes.push(OutlineNode { kind, key, value: (start, cursor.position()), after });
            }
            if open.is_empty() {
                return Ok(Outline(nodes));
            }
        }
    }

    /// The numbers of the nodes that are directly inside of a node.
    pub(super) fn children(&self, node: usize) -> impl Iterator<Item = usize> {
        let end = self.0[node].after;
        let inside = move |node: usize| (node < end).then_some(node);
        std::iter::successors(inside(node + 1), move |&child| inside(self.0[child].after))
    }
}
