//! A value of a [`Tree`], or a missing one: reads an object member by member without copying it.
//!
//! Reading never fails, as with [`serde_json::Value`]. A member of a value that is not an object is missing, and a
//! missing value reads like null. A lookup walks all members of an object, so code that joins two wide objects iterates
//! both in the order of their keys.

use std::borrow::Cow;

use serde_json::Value;

use super::text::unescape;
use super::tree::{NodeId, NodeKind, Tree, scalar_value};

/// A value of a tree, or a missing one.
#[derive(Clone, Copy, Debug)]
pub struct Json<'t>(Option<(&'t Tree<'t>, NodeId)>);

impl<'t> Json<'t> {
    /// A missing value.
    pub const NOTHING: Json<'static> = Json(None);

    /// The root value of a tree; missing if the tree could not be read.
    pub fn root(tree: Option<&'t Tree<'t>>) -> Json<'t> {
        Json(tree.map(|tree| (tree, tree.root())))
    }

    /// The member of this name; missing if there is none, or if the value is not an object.
    pub fn at(self, key: &str) -> Json<'t> {
        let member = self.0.and_then(|(tree, id)| {
            let is_map = tree.kind(id) == NodeKind::Map;
            tree.children(id).find(|member| is_map && tree.has_key(*member, key)).map(|member| (tree, member))
        });
        Json(member)
    }

    /// The member of this name, or missing as with [`Json::at`]. The second value is the number of members that were
    /// looked at, and the third one the cost of the comparisons of their keys (see [`Tree::compare_key`]).
    pub fn find(self, key: &str) -> (Json<'t>, usize, usize) {
        let (mut count, mut cost) = (0, 0usize);
        for (tree, id) in self.children(NodeKind::Map) {
            let (is_found, compared) = tree.compare_key(id, key);
            count += 1;
            cost = cost.saturating_add(compared);
            if is_found {
                return (Json(Some((tree, id))), count, cost);
            }
        }
        (Json::NOTHING, count, cost)
    }

    /// Whether there is a value, which may be null.
    pub fn is_present(self) -> bool {
        self.0.is_some()
    }

    /// The kind of the value; a missing one is a scalar, as null is.
    pub fn kind(self) -> NodeKind {
        self.0.map_or(NodeKind::Scalar, |(tree, id)| tree.kind(id))
    }

    /// The elements of a list; none for any other value.
    pub fn items(self) -> impl Iterator<Item = Json<'t>> + Clone {
        self.children(NodeKind::List).map(|(tree, id)| Json(Some((tree, id))))
    }

    /// The members of an object in the order of their keys; none for any other value.
    pub fn members(self) -> impl Iterator<Item = (Cow<'t, str>, Json<'t>)> + Clone {
        self.children(NodeKind::Map).map(|(tree, id)| (tree.key(id), Json(Some((tree, id)))))
    }

    /// Like [`Json::members`], with raw keys (see [`unescape`]), so that the caller decides when to read them.
    pub fn raw_members(self) -> impl Iterator<Item = (&'t [u8], Json<'t>)> + Clone {
        self.children(NodeKind::Map).map(|(tree, id)| (tree.raw_key(id), Json(Some((tree, id)))))
    }

    /// The number of elements or members; 0 for any other value.
    pub fn count(self) -> usize {
        self.0.map_or(0, |(tree, id)| tree.children(id).count())
    }

    /// Whether the value is missing or null.
    pub fn is_null(self) -> bool {
        self.bytes().is_none_or(|bytes| bytes == b"null")
    }

    /// The value if it is a string, with its escapes resolved; otherwise `None`.
    pub fn as_str(self) -> Option<Cow<'t, str>> {
        match self.bytes()? {
            [b'"', inside @ .., b'"'] => unescape(inside),
            _ => None,
        }
    }

    /// The value if it is a boolean; otherwise `None`.
    pub fn as_bool(self) -> Option<bool> {
        match self.bytes()? {
            b"true" => Some(true),
            b"false" => Some(false),
            _ => None,
        }
    }

    /// The value if it is an integer within 64 bits; otherwise `None`.
    pub fn as_i64(self) -> Option<i64> {
        self.as_number()?.as_i64()
    }

    /// The value if it is a number; otherwise `None`.
    pub fn as_number(self) -> Option<serde_json::Number> {
        match self.bytes()? {
            bytes @ [b'-' | b'0'..=b'9', ..] => match scalar_value(bytes) {
                Some(Value::Number(number)) => Some(number),
                _ => None,
            },
            _ => None,
        }
    }

    /// The children of the value if it is of this kind; otherwise none.
    fn children(self, kind: NodeKind) -> impl Iterator<Item = (&'t Tree<'t>, NodeId)> + Clone {
        let container = self.0.filter(|(tree, id)| tree.kind(*id) == kind);
        let first = container.and_then(|(tree, id)| tree.first(id).map(|first| (tree, first)));
        std::iter::successors(first, |(tree, id)| tree.next(*id).map(|next| (*tree, next)))
    }

    /// The JSON text of the value; `None` if it is missing.
    pub fn bytes(self) -> Option<&'t [u8]> {
        self.0.map(|(tree, id)| tree.bytes(id))
    }
}
