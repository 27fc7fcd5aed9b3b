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

/// Paths to merge into a trie. They are numbered in the order of insertion; equal paths have one number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Paths(Vec<Arc<[PathStep]>>);

/// Merged paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trie {
    nodes: Vec<Node>,
    /// For each path by number, whether it can lead to several values.
    is_many: Vec<bool>,
}

/// The paths that continue from one place in an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Node {
    /// The node for each member by name.
    children: Box<[(Box<[u8]>, TrieNodeId)]>,
    /// The node for each element by index, sorted by index.
    elements: Box<[(usize, TrieNodeId)]>,
    /// The node for every other member and element, if a path has a wildcard here.
    any: Option<TrieNodeId>,
    /// The numbers of the paths that end here.
    paths: Box<[usize]>,
    /// The numbers of the paths that end here or further down.
    paths_below: Box<[usize]>,
}

/// The paths combine to more nodes than allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the paths have too many overlapping wildcards")]
pub(super) struct TooManyNodes;

impl Paths {
    /// Adds a path and returns its number; an equal path that was added before has the same number.
    pub(super) fn insert(&mut self, steps: &[PathStep]) -> usize {
        self.number(steps, || steps.into())
    }

    /// Like [`Paths::insert`], but stores a reference to `steps` instead of a copy.
    pub(super) fn share(&mut self, steps: &Arc<[PathStep]>) -> usize {
        self.number(steps, || steps.clone())
    }

    /// The number of a path. A new path is added: `share` makes the steps to store.
    fn number(&mut self, steps: &[PathStep], share: impl FnOnce() -> Arc<[PathStep]>) -> usize {
        if let Some(number) = self.0.iter().position(|known| **known == *steps) {
            return number;
        }
        self.0.push(share());
        self.0.len() - 1
    }

    /// The steps of the path with this number; `None` if there is no such path.
    pub(super) fn steps(&self, path: usize) -> Option<&[PathStep]> {
        self.0.get(path).map(|steps| &**steps)
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
                    // Removed above.
                    PathStep::Any => {}
                }
            }
            nodes[node] = Node {
                children: children.into(),
                elements: elements.into(),
                any,
                paths: paths.iter().copied().filter(|path| self.0[*path].len() == level).collect(),
                paths_below: paths.into(),
            };
        }
        Ok(Trie { nodes, is_many: self.0.iter().map(|steps| is_many(steps)).collect() })
    }
}

impl Trie {
    /// The number of paths.
    pub(super) fn path_count(&self) -> usize {
        self.is_many.len()
    }

    /// The number of nodes.
    pub(super) fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// Whether the path with this number can lead to several values.
    pub(super) fn is_many(&self, path: usize) -> bool {
        self.is_many[path]
    }

    /// The child for the member of this key, given as the raw bytes between its quotes. If no path names the member,
    /// this is the child for a wildcard; `None` if there is no wildcard either. `is_escaped`: whether the bytes contain
    /// a backslash.
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

    /// The child for the element at index `place` of a list; `None` if no path leads there.
    pub(super) fn element(&self, node: TrieNodeId, place: usize) -> Option<TrieNodeId> {
        let node = &self.nodes[node];
        node.elements.iter().find(|(element, _)| *element == place).map(|&(_, child)| child).or(node.any)
    }

    /// Whether a path leads to an element at index `place` of a list or after it.
    pub(super) fn has_elements_from(&self, node: TrieNodeId, place: usize) -> bool {
        let node = &self.nodes[node];
        node.any.is_some() || node.elements.last().is_some_and(|(last, _)| *last >= place)
    }

    /// Whether a path leads to a member of an object.
    pub(super) fn has_children(&self, node: TrieNodeId) -> bool {
        let node = &self.nodes[node];
        node.any.is_some() || !node.children.is_empty()
    }

    /// Whether a path leads to every member of an object.
    pub(super) fn takes_any(&self, node: TrieNodeId) -> bool {
        self.nodes[node].any.is_some()
    }

    /// The numbers of the paths that end at a node.
    pub(super) fn paths_at(&self, node: TrieNodeId) -> &[usize] {
        &self.nodes[node].paths
    }

    /// The numbers of the paths that end at a node or further down.
    pub(super) fn paths_below(&self, node: TrieNodeId) -> &[usize] {
        &self.nodes[node].paths_below
    }
}
