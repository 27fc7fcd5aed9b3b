//! Pods that look alike to every rule about pods, counted by node: what the index counts instead of pods.
//!
//! A group is a namespace, a set of labels and the pod affinity terms that its pods carry. A hundred and fifty thousand pods
//! of a few hundred templates are a few thousand groups, so that a selector is tested against groups, and what it
//! finds is counted from arrays of (node, number of pods). In the worst case (pods that carry their own name as a
//! label) a group is one pod, and a review costs the pods it matches. Posting lists by label and namespace find candidates.
//! Nothing is counted by topology domain here: a node's label may change, its slot does not. Terms are [`super::carried`].

use std::sync::Arc;

use imbl::{HashMap, Vector};
use roaring::RoaringBitmap;

use super::labels::Labels;
use super::term::{PodTerm, selects};
use crate::selector::{LabelOperator, LabelSelection};

/// What the pods of a group have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct GroupKey {
    pub(super) namespace: Arc<str>,
    pub(super) labels: Arc<Labels>,
    /// Numbers of carried terms, in the pod's order; a term that a pod lists twice is there twice.
    pub(super) terms: Box<[u32]>,
}

/// A group.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) key: Arc<GroupKey>,
    /// (slot of a node, how many pods run there), sorted by slot; never empty.
    pub(super) nodes: Arc<Vec<(u32, u32)>>,
}

#[derive(Clone, Debug, Default)]
struct LabelPostings {
    /// Groups that have the label at all.
    present: Arc<RoaringBitmap>,
    values: HashMap<Arc<str>, Arc<RoaringBitmap>>,
}

/// All groups, by number.
#[derive(Clone, Debug, Default)]
pub(super) struct Groups {
    entries: Vector<Option<Group>>,
    numbers: HashMap<Arc<GroupKey>, u32>,
    free: Vector<u32>,
    live: Arc<RoaringBitmap>,
    labels: HashMap<Arc<str>, LabelPostings>,
    namespaces: HashMap<Arc<str>, Arc<RoaringBitmap>>,
}

/// The namespaces that a term covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Coverage {
    All,
    Names(std::collections::HashSet<Arc<str>>),
}

impl Coverage {
    pub(super) fn contains(&self, namespace: &str) -> bool {
        match self {
            Coverage::All => true,
            Coverage::Names(names) => names.contains(namespace),
        }
    }
}

/// What became of a group when a pod left or joined it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Membership {
    /// The group was there before and is there now.
    Kept(u32),
    /// The group is new, or gone.
    Turned(u32),
}

impl Membership {
    pub(super) fn number(self) -> u32 {
        let (Membership::Kept(number) | Membership::Turned(number)) = self;
        number
    }
}

impl Groups {
    pub(super) fn get(&self, number: u32) -> Option<&Group> {
        self.entries.get(number as usize)?.as_ref()
    }

    pub(super) fn len(&self) -> usize {
        self.live.len() as usize
    }

    /// Adds a pod on a node.
    pub(super) fn join(&mut self, key: GroupKey, slot: u32) -> Membership {
        if let Some(number) = self.numbers.get(&key).copied() {
            self.count(number, slot, 1);
            return Membership::Kept(number);
        }
        let key = Arc::new(key);
        let group = Group { key: Arc::clone(&key), nodes: Arc::new(vec![(slot, 1)]) };
        let number = match self.free.pop_back() {
            Some(number) => {
                self.entries.set(number as usize, Some(group));
                number
            }
            None => {
                self.entries.push_back(Some(group));
                u32::try_from(self.entries.len() - 1).unwrap_or(u32::MAX)
            }
        };
        self.numbers.insert(Arc::clone(&key), number);
        self.post(&key, |set| {
            set.insert(number);
        });
        Membership::Turned(number)
    }

    /// Takes a pod from a node.
    pub(super) fn leave(&mut self, number: u32, slot: u32) -> Membership {
        self.count(number, slot, -1);
        let Some(key) = self.get(number).filter(|group| group.nodes.is_empty()).map(|group| Arc::clone(&group.key))
        else {
            return Membership::Kept(number);
        };
        self.entries.set(number as usize, None);
        self.numbers.remove(&*key);
        self.free.push_back(number);
        self.post(&key, |set| {
            set.remove(number);
        });
        Membership::Turned(number)
    }

    fn count(&mut self, number: u32, slot: u32, change: i32) {
        let Some(Some(group)) = self.entries.get_mut(number as usize) else { return };
        let nodes = Arc::make_mut(&mut group.nodes);
        match nodes.binary_search_by_key(&slot, |(slot, _)| *slot) {
            Ok(position) => {
                nodes[position].1 = nodes[position].1.saturating_add_signed(change);
                if nodes[position].1 == 0 {
                    nodes.remove(position);
                }
            }
            Err(position) if change > 0 => nodes.insert(position, (slot, 1)),
            Err(_) => {}
        }
    }

    /// Changes every posting list that a group stands in; empty ones go.
    fn post(&mut self, key: &GroupKey, change: impl Fn(&mut RoaringBitmap)) {
        change(Arc::make_mut(&mut self.live));
        let namespace = self.namespaces.entry(Arc::clone(&key.namespace)).or_default();
        change(Arc::make_mut(namespace));
        if namespace.is_empty() {
            self.namespaces.remove(&*key.namespace);
        }
        for (label, value) in key.labels.iter() {
            let label: Arc<str> =
                self.labels.get_key_value(label).map_or_else(|| label.into(), |(held, _)| Arc::clone(held));
            let postings = self.labels.entry(Arc::clone(&label)).or_default();
            change(Arc::make_mut(&mut postings.present));
            let set = postings.values.entry(value.into()).or_default();
            change(Arc::make_mut(set));
            if set.is_empty() {
                postings.values.remove(value);
            }
            if postings.present.is_empty() {
                self.labels.remove(&*label);
            }
        }
    }

    /// The groups whose pods a term selects, in the order of their numbers but for sets of values.
    pub(super) fn matching(&self, term: &PodTerm, coverage: &Coverage) -> Vec<u32> {
        let verified = |number: &u32| {
            self.get(*number).is_some_and(|group| {
                coverage.contains(&group.key.namespace) && selects(&term.selection, &group.key.labels)
            })
        };
        if term.selection == LabelSelection::Nothing {
            return Vec::new();
        }
        let sets = self.candidates(term, coverage);
        sets.iter().flat_map(|set| set.iter()).filter(verified).collect()
    }

    /// Sets that have no group in common and together hold every group that matches: the fewest that an index knows of.
    fn candidates<'groups>(&'groups self, term: &PodTerm, coverage: &Coverage) -> Vec<&'groups RoaringBitmap> {
        let size = |sets: &[&RoaringBitmap]| sets.iter().map(|set| set.len()).sum::<u64>();
        let mut fewest: Vec<&RoaringBitmap> = vec![&self.live];
        let mut offer = |sets: Vec<&'groups RoaringBitmap>| {
            if size(&sets) < size(&fewest) {
                fewest = sets;
            }
        };
        if let Coverage::Names(names) = coverage {
            offer(names.iter().filter_map(|name| self.namespaces.get(name)).map(|set| &**set).collect());
        }
        if let LabelSelection::Matching(selector) = &term.selection {
            for requirement in &selector.requirements {
                let postings = self.labels.get(&*requirement.key);
                match &requirement.operator {
                    LabelOperator::In(values) => {
                        let sets = postings.into_iter().flat_map(|postings| {
                            values.iter().filter_map(|value| postings.values.get(&**value)).map(|set| &**set)
                        });
                        offer(sets.collect());
                    }
                    LabelOperator::Exists => {
                        offer(postings.into_iter().map(|postings| &*postings.present).collect());
                    }
                    // These can only be verified; numbers do not occur in selectors of pods.
                    LabelOperator::NotIn(_)
                    | LabelOperator::DoesNotExist
                    | LabelOperator::GreaterThan(_)
                    | LabelOperator::LessThan(_) => {}
                }
            }
        }
        fewest
    }
}
