//! All paths of an extractor merged into one trie, so that one pass over an object finds every value.
//!
//! A step is a key taken literally, an element of a list, or any member or element. Where a wildcard and a name meet at
//! one place, their paths continue together. A node is a set of paths at one level, computed when the trie is built. So
//! the scanner is always at exactly one node. Nothing here reads JSON: see `scan`.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::json::unescape;

/// A node of a [`Trie`].
pub(super) type TrieNodeId = usize;

/// The object itself.
pub(super) const ROOT: TrieNodeId = 0;

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PathStep {
    /// The member of that name, which is compared literally.
    Key(String),
    /// The element at that place of a list, from 0.
    Element(usize),
    /// Every member of an object or element of a list.
    Any,
}

/// Whether a path can lead to several values.
pub(super) fn is_many(steps: &[PathStep]) -> bool {
    steps.contains(&PathStep::Any)
}

/// Paths on their way into a trie. A slot is the number of a distinct path, in order of insertion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Paths(Vec<Arc<[PathStep]>>);

/// Paths, merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trie {
    nodes: Vec<Node>,
    /// Of each slot, whether it can have several values.
    slots: Vec<bool>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Node {
    children: Box<[(Box<[u8]>, TrieNodeId)]>,
    /// Sorted by their place.
    elements: Box<[(usize, TrieNodeId)]>,
    /// For every member and element that has no child of its own.
    any: Option<TrieNodeId>,
    /// Slots of the paths that end here.
    slots: Box<[usize]>,
    /// Slots of this node and of all nodes below.
    slots_below: Box<[usize]>,
}

/// The paths combine to more nodes than allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the paths have too many overlapping wildcards")]
pub(super) struct TooManyNodes;

impl Paths {
    /// Adds a path and returns its slot; an existing path has its slot already.
    pub(super) fn insert(&mut self, steps: &[PathStep]) -> usize {
        self.slot(steps, || steps.into())
    }

    /// Like [`Paths::slot`], for a path that is already shared.
    pub(super) fn share(&mut self, steps: &Arc<[PathStep]>) -> usize {
        self.slot(steps, || steps.clone())
    }

    /// The slot of a path, which is added if it is new.
    fn slot(&mut self, steps: &[PathStep], share: impl FnOnce() -> Arc<[PathStep]>) -> usize {
        if let Some(slot) = self.0.iter().position(|known| **known == *steps) {
            return slot;
        }
        self.0.push(share());
        self.0.len() - 1
    }

    /// The path of a slot.
    pub(super) fn steps(&self, slot: usize) -> Option<&[PathStep]> {
        self.0.get(slot).map(|steps| &**steps)
    }

    /// Merges the paths into a trie. Without a wildcard it has at most one node for each step.
    ///
    /// # Errors
    /// [`TooManyNodes`] when more than `most` nodes are needed.
    pub(super) fn merge(&self, most: usize) -> Result<Trie, TooManyNodes> {
        let mut nodes = vec![Node::default()];
        // Every step leads one level down, so nodes differ by their level and by the paths that lead through them.
        let mut known: HashMap<(usize, Vec<usize>), TrieNodeId> = HashMap::new();
        let mut waiting = vec![(0, (0..self.0.len()).collect::<Vec<usize>>(), ROOT)];
        while let Some((level, paths, node)) = waiting.pop() {
            let mut taken: BTreeMap<&PathStep, Vec<usize>> = BTreeMap::new();
            for &path in &paths {
                if let Some(step) = self.0[path].get(level) {
                    taken.entry(step).or_default().push(path);
                }
            }
            let mut child_of = |paths: Vec<usize>| -> Result<TrieNodeId, TooManyNodes> {
                if let Some(child) = known.get(&(level + 1, paths.clone())) {
                    return Ok(*child);
                }
                if nodes.len() >= most {
                    return Err(TooManyNodes);
                }
                let child = nodes.len();
                nodes.push(Node::default());
                known.insert((level + 1, paths.clone()), child);
                waiting.push((level + 1, paths, child));
                Ok(child)
            };
            let wild = taken.remove(&PathStep::Any).unwrap_or_default();
            let any = if wild.is_empty() { None } else { Some(child_of(wild.clone())?) };
            let (mut children, mut elements) = (Vec::new(), Vec::new());
            for (step, mut named) in taken {
                // A wildcard goes to every name too.
                named.extend_from_slice(&wild);
                named.sort_unstable();
                let child = child_of(named)?;
                match step {
                    PathStep::Key(name) => children.push((name.as_bytes().into(), child)),
                    PathStep::Element(place) => elements.push((*place, child)),
                    PathStep::Any => {}
                }
            }
            nodes[node] = Node {
                children: children.into(),
                elements: elements.into(),
                any,
                slots: paths.iter().copied().filter(|path| self.0[*path].len() == level).collect(),
                slots_below: paths.into(),
            };
        }
        Ok(Trie { nodes, slots: self.0.iter().map(|steps| is_many(steps)).collect() })
    }
}

impl Trie {
    /// Number of slots.
    pub(super) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Number of nodes.
    pub(super) fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// Whether a slot can have several values.
    pub(super) fn is_many(&self, slot: usize) -> bool {
        self.slots[slot]
    }

    /// The child under a key, given as the raw bytes between its quotes.
    pub(super) fn child(&self, node: TrieNodeId, raw_key: &[u8], is_escaped: bool) -> Option<TrieNodeId> {
        let unescaped;
        let key = if is_escaped {
            unescaped = unescape(raw_key)?;
            unescaped.as_bytes()
        } else {
            raw_key
        };
        let node = &self.nodes[node];
        node.children.iter().find(|(name, _)| **name == *key).map(|&(_, child)| child).or(node.any)
    }

    /// The child at a place of a list.
    pub(super) fn element(&self, node: TrieNodeId, place: usize) -> Option<TrieNodeId> {
        let node = &self.nodes[node];
        node.elements.iter().find(|(element, _)| *element == place).map(|&(_, child)| child).or(node.any)
    }

    /// Whether a path leads to an element at this index of a list or after it.
    pub(super) fn has_elements_from(&self, node: TrieNodeId, place: usize) -> bool {
        let node = &self.nodes[node];
        node.any.is_some() || node.elements.last().is_some_and(|(last, _)| *last >= place)
    }

    /// Whether a path leads to a member of an object.
    pub(super) fn has_children(&self, node: TrieNodeId) -> bool {
        let node = &self.nodes[node];
        node.any.is_some() || !node.children.is_empty()
    }

    /// Whether a path leads to every member.
    pub(super) fn takes_any(&self, node: TrieNodeId) -> bool {
        self.nodes[node].any.is_some()
    }

    /// Slots of the paths that end here.
    pub(super) fn slots_at(&self, node: TrieNodeId) -> &[usize] {
        &self.nodes[node].slots
    }

    /// The slots of the paths that end here or further down.
    pub(super) fn slots_below(&self, node: TrieNodeId) -> &[usize] {
        &self.nodes[node].slots_below
    }
}
