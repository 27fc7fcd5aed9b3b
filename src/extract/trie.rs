//! All paths of a plan merged into one trie, so that one pass over an object finds every value.
//!
//! A step is a key taken literally, an element of a list, or any member or element. Where a wildcard and a name meet at one
//! place, their paths go on together: nodes are sets of places in the paths, worked out when the trie is built, so that the scanner is
//! at one node at a time whatever the paths. Nothing here reads JSON: see `scan`.

use std::collections::{BTreeMap, BTreeSet};

use super::value;

/// A node of a [`Trie`].
pub(super) type NodeId = usize;

/// The object itself.
pub(super) const ROOT: NodeId = 0;

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    /// The member of that name, which is compared literally.
    Key(String),
    /// The element at that place of a list, from 0.
    Element(usize),
    /// Every member of an object or element of a list.
    Any,
}

/// Whether a path can lead to several values.
pub(super) fn is_many(steps: &[Step]) -> bool {
    steps.contains(&Step::Any)
}

/// Paths on their way into a trie. A slot is the number of a distinct path, in order of insertion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Paths(Vec<Vec<Step>>);

/// Paths, merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trie {
    nodes: Vec<Node>,
    /// Of each slot, whether it can have several values.
    slots: Vec<bool>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Node {
    children: Vec<(Box<[u8]>, NodeId)>,
    /// Sorted by their place.
    elements: Vec<(usize, NodeId)>,
    /// For every member and element that has no child of its own.
    any: Option<NodeId>,
    /// Slots of the paths that end here.
    slots: Vec<usize>,
    /// Slots of this node and of all nodes below.
    slots_below: Vec<usize>,
}

/// The paths combine to more nodes than allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the wildcards of the paths meet in too many ways")]
pub(super) struct TooManyNodes;

impl Paths {
    /// Adds a path and returns its slot; a path that is already there keeps its own.
    pub(super) fn insert(&mut self, steps: &[Step]) -> usize {
        if let Some(slot) = self.0.iter().position(|held| held == steps) {
            return slot;
        }
        self.0.push(steps.to_vec());
        self.0.len() - 1
    }

    /// The path of a slot.
    pub(super) fn steps(&self, slot: usize) -> Option<&[Step]> {
        self.0.get(slot).map(Vec::as_slice)
    }

    /// Merges them. Without a wildcard there is no more than a node for each step.
    ///
    /// # Errors
    /// [`TooManyNodes`] when more than `most` nodes are needed.
    pub(super) fn merge(&self, most: usize) -> Result<Trie, TooManyNodes> {
        // A place is a path and how many of its steps are behind.
        type Places = BTreeSet<(usize, usize)>;
        let mut nodes = vec![Node::default()];
        let mut known: BTreeMap<Places, NodeId> = BTreeMap::new();
        let start: Places = (0..self.0.len()).map(|path| (path, 0)).collect();
        known.insert(start.clone(), ROOT);
        let mut waiting = vec![(start, ROOT)];
        while let Some((places, node)) = waiting.pop() {
            let next = |taken: &dyn Fn(&Step) -> bool| -> Places {
                let goes_on = |(path, behind): &&(usize, usize)| self.0[*path].get(*behind).is_some_and(taken);
                places.iter().filter(goes_on).map(|(path, behind)| (*path, behind + 1)).collect()
            };
            let mut child_of = |places: Places| -> Result<Option<NodeId>, TooManyNodes> {
                if places.is_empty() {
                    return Ok(None);
                }
                if let Some(child) = known.get(&places) {
                    return Ok(Some(*child));
                }
                if nodes.len() >= most {
                    return Err(TooManyNodes);
                }
                nodes.push(Node::default());
                known.insert(places.clone(), nodes.len() - 1);
                waiting.push((places, nodes.len() - 1));
                Ok(Some(nodes.len() - 1))
            };
            let mut made = Node {
                slots: places
                    .iter()
                    .filter(|(path, behind)| self.0[*path].len() == *behind)
                    .map(|place| place.0)
                    .collect(),
                slots_below: places.iter().map(|place| place.0).collect::<BTreeSet<usize>>().into_iter().collect(),
                any: child_of(next(&|step| *step == Step::Any))?,
                ..Node::default()
            };
            let steps: BTreeSet<&Step> =
                places.iter().filter_map(|(path, behind)| self.0[*path].get(*behind)).collect();
            for step in steps.into_iter().filter(|step| **step != Step::Any) {
                let child = child_of(next(&|other| other == step || *other == Step::Any))?;
                match (step, child) {
                    (Step::Key(name), Some(child)) => made.children.push((name.as_bytes().into(), child)),
                    (Step::Element(place), Some(child)) => made.elements.push((*place, child)),
                    (Step::Any, _) | (_, None) => {}
                }
            }
            nodes[node] = made;
        }
        Ok(Trie { nodes, slots: self.0.iter().map(|steps| is_many(steps)).collect() })
    }
}

impl Trie {
    /// Number of slots.
    pub(super) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Whether a slot can have several values.
    pub(super) fn is_many(&self, slot: usize) -> bool {
        self.slots[slot]
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
        let node = &self.nodes[node];
        node.children.iter().find(|(name, _)| **name == *key).map(|&(_, child)| child).or(node.any)
    }

    /// The child at a place of a list.
    pub(super) fn element(&self, node: NodeId, place: usize) -> Option<NodeId> {
        let node = &self.nodes[node];
        node.elements.iter().find(|(held, _)| *held == place).map(|&(_, child)| child).or(node.any)
    }

    /// Whether an element at this place of a list or behind it is asked for.
    pub(super) fn has_elements_from(&self, node: NodeId, place: usize) -> bool {
        let node = &self.nodes[node];
        node.any.is_some() || node.elements.last().is_some_and(|(last, _)| *last >= place)
    }

    /// Whether a member of an object is asked for.
    pub(super) fn has_children(&self, node: NodeId) -> bool {
        let node = &self.nodes[node];
        node.any.is_some() || !node.children.is_empty()
    }

    /// Whether every member is asked for.
    pub(super) fn takes_any(&self, node: NodeId) -> bool {
        self.nodes[node].any.is_some()
    }

    /// Slots of the paths that end here.
    pub(super) fn slots_at(&self, node: NodeId) -> &[usize] {
        &self.nodes[node].slots
    }

    /// The same and those of all paths that go on from here.
    pub(super) fn slots_below(&self, node: NodeId) -> &[usize] {
        &self.nodes[node].slots_below
    }
}
