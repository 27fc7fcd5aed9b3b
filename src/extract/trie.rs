//! All paths of a plan merged into one trie, so that one pass over an object finds every value.
//!
//! A step is a key taken literally or the first element of a list. Nothing here reads JSON: see `scan`.

use super::value;

/// A node of a [`Trie`].
pub(super) type NodeId = usize;

/// The object itself.
pub(super) const ROOT: NodeId = 0;

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The member of that name, which is compared literally.
    Key(String),
    /// The first element of a list.
    First,
}

/// Paths, merged. A slot is the number of a distinct path, in order of insertion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trie {
    nodes: Vec<Node>,
    slots: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Node {
    children: Vec<(Box<[u8]>, NodeId)>,
    first: Option<NodeId>,
    slot: Option<usize>,
    /// Slots of this node and of all nodes below.
    slots_below: Vec<usize>,
}

impl Trie {
    pub(super) fn new() -> Trie {
        Trie { nodes: vec![Node::default()], slots: 0 }
    }

    /// Adds a path and returns its slot; a path that is already there keeps its own.
    pub(super) fn insert(&mut self, steps: &[Step]) -> usize {
        let mut way = vec![ROOT];
        let mut node = ROOT;
        for step in steps {
            let known = match step {
                Step::Key(name) => self.child(node, name.as_bytes(), false),
                Step::First => self.first(node),
            };
            node = match known {
                Some(child) => child,
                None => {
                    let child = self.nodes.len();
                    self.nodes.push(Node::default());
                    match step {
                        Step::Key(name) => self.nodes[node].children.push((name.as_bytes().into(), child)),
                        Step::First => self.nodes[node].first = Some(child),
                    }
                    child
                }
            };
            way.push(node);
        }
        if let Some(slot) = self.nodes[node].slot {
            return slot;
        }
        let slot = self.slots;
        self.slots += 1;
        self.nodes[node].slot = Some(slot);
        for passed in way {
            self.nodes[passed].slots_below.push(slot);
        }
        slot
    }

    /// Number of slots.
    pub(super) fn slots(&self) -> usize {
        self.slots
    }

    /// The child under a key as it stands between the quotes.
    pub(super) fn child(&self, node: NodeId, raw_key: &[u8], is_escaped: bool) -> Option<NodeId> {
        let unescaped;
        let key = if is_escaped {
            unescaped = value::unescape(raw_key)?;
            unescaped.as_bytes()
        } else {
            raw_key
        };
        self.nodes[node].children.iter().find(|(name, _)| **name == *key).map(|&(_, child)| child)
    }

    pub(super) fn first(&self, node: NodeId) -> Option<NodeId> {
        self.nodes[node].first
    }

    pub(super) fn has_children(&self, node: NodeId) -> bool {
        !self.nodes[node].children.is_empty()
    }

    pub(super) fn slot(&self, node: NodeId) -> Option<usize> {
        self.nodes[node].slot
    }

    pub(super) fn slots_below(&self, node: NodeId) -> &[usize] {
        &self.nodes[node].slots_below
    }
}
