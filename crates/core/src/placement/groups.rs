//! Groups of pods that are equal to every rule about pods, counted by node. The index counts groups instead of pods.
//!
//! A group is a namespace, a set of labels and the pod affinity terms that its pods carry. A hundred and fifty thousand
//! pods of a few hundred templates are a few thousand groups. A selector is tested against the groups, and its matches
//! are counted from arrays of (node, number of pods). In the worst case, pods carry their own name as a label. Then a
//! group is one pod, and a review costs the pods that it matches. Posting lists by label and namespace find candidates.
//! Nothing is counted by topology domain here: a node's label may change, its slot does not. Terms are
//! [`super::carried`].

use std::sync::Arc;

use imbl::shared_ptr::DefaultSharedPtr;
use imbl::vector::Focus;
use imbl::{HashMap, Vector};
use roaring::{MultiOps, RoaringBitmap};

use super::labels::PackedLabels;
use super::term::PodTerm;
use crate::selector::{LabelSelection, TestedValues};

/// The properties that the pods of a group share.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct PodGroupKey {
    pub(super) namespace: Arc<str>,
    pub(super) labels: Arc<PackedLabels>,
    /// Numbers of carried terms, in the pod's order; a term that a pod lists twice is there twice.
    pub(super) terms: Box<[u32]>,
}

/// A slot of a node, and how many pods of a group run there.
pub(super) type NodePodCount = (u32, u32);

/// The nodes of a group and its number of pods on each, sorted by slot. Thousands of groups have a single pod, as with
/// StatefulSets. A single node is stored inline: a term that selects all such groups then reads one piece of memory for
/// each, not three.
#[derive(Clone, Debug)]
enum NodePodCounts {
    One(NodePodCount),
    Many(Arc<Vec<NodePodCount>>),
}

/// A group.
#[derive(Clone, Debug)]
pub(super) struct PodGroup {
    pub(super) key: Arc<PodGroupKey>,
    places: NodePodCounts,
}

impl PodGroup {
    /// The nodes of the group with the number of its Pods on each. Empty only while [`PodGroups::leave`] removes the
    /// group.
    fn places(&self) -> &[NodePodCount] {
        match &self.places {
            NodePodCounts::One(place) => std::slice::from_ref(place),
            NodePodCounts::Many(places) => places,
        }
    }
}

/// The approximate memory of the posting lists of a label's key, without its values, in bytes.
const LABEL_KEY: u64 = 400;

/// The approximate memory of the posting list of a label's value, in bytes.
const LABEL_VALUE: u64 = 400;

/// The numbers of the groups whose labels have one key.
#[derive(Clone, Debug, Default)]
struct LabelPostings {
    /// Groups that have the label with any value.
    present: Arc<RoaringBitmap>,
    /// The groups of each value.
    values: HashMap<Arc<str>, Arc<RoaringBitmap>>,
}

/// Reads the nodes of groups. Reading groups in the order of their numbers is fast, because the reader remembers its
/// position in the tree.
pub(super) struct PodCountReader<'groups> {
    entries: Focus<'groups, Option<PodGroup>, DefaultSharedPtr>,
}

impl PodCountReader<'_> {
    /// The nodes of a group, with the number of its Pods on each; empty if there is no such group.
    pub(super) fn nodes_of(&mut self, number: u32) -> &[NodePodCount] {
        let group = self.entries.get(number as usize).and_then(Option::as_ref);
        group.map(PodGroup::places).unwrap_or_default()
    }
}

/// All groups, by number.
#[derive(Clone, Debug, Default)]
pub(super) struct PodGroups {
    entries: Vector<Option<PodGroup>>,
    numbers: HashMap<Arc<PodGroupKey>, u32>,
    /// Numbers that no group has, for new groups.
    free: Vector<u32>,
    /// The numbers of all groups.
    live: Arc<RoaringBitmap>,
    /// Posting lists by key of a label.
    labels: HashMap<Arc<str>, LabelPostings>,
    /// The number of values in all of `labels`.
    label_values: u64,
    /// The groups of each namespace.
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

/// Whether a pod that joined or left a group created or removed the group; with the number of the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Membership {
    /// The group existed before and still exists.
    Kept(u32),
    /// The pod is the first that joined, or the last that left.
    CreatedOrRemoved(u32),
}

impl Membership {
    pub(super) fn number(self) -> u32 {
        let (Membership::Kept(number) | Membership::CreatedOrRemoved(number)) = self;
        number
    }
}

impl PodGroups {
    pub(super) fn get(&self, number: u32) -> Option<&PodGroup> {
        self.entries.get(number as usize)?.as_ref()
    }

    pub(super) fn len(&self) -> usize {
        self.live.len() as usize
    }

    #[cfg(test)]
    pub(super) fn slots(&self) -> usize {
        self.entries.len()
    }

    /// The approximate memory of the posting lists of labels, in bytes. A Pod can have a value of its own in each of its
    /// labels, and then has a list for each.
    pub(super) fn posting_bytes(&self) -> u64 {
        self.labels.len() as u64 * LABEL_KEY + self.label_values * LABEL_VALUE
    }

    /// Adds a Pod on the node in slot `slot` to the group with this key, which is created if needed.
    pub(super) fn join(&mut self, key: PodGroupKey, slot: u32) -> Membership {
        if let Some(number) = self.numbers.get(&key).copied() {
            self.change_count(number, slot, 1);
            return Membership::Kept(number);
        }
        let key = Arc::new(key);
        let group = PodGroup { key: Arc::clone(&key), places: NodePodCounts::One((slot, 1)) };
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
        self.update_postings(&key, |set| {
            set.insert(number);
        });
        Membership::CreatedOrRemoved(number)
    }

    /// Removes a Pod on the node in slot `slot` from group `number`, and the group after its last Pod.
    pub(super) fn leave(&mut self, number: u32, slot: u32) -> Membership {
        self.change_count(number, slot, -1);
        let Some(key) = self.get(number).filter(|group| group.places().is_empty()).map(|group| Arc::clone(&group.key))
        else {
            return Membership::Kept(number);
        };
        self.entries.set(number as usize, None);
        self.numbers.remove(&*key);
        self.free.push_back(number);
        self.update_postings(&key, |set| {
            set.remove(number);
        });
        Membership::CreatedOrRemoved(number)
    }

    /// Adds `change` to the number of Pods that group `number` has on the node in slot `slot`.
    fn change_count(&mut self, number: u32, slot: u32, change: i32) {
        let Some(Some(group)) = self.entries.get_mut(number as usize) else { return };
        if let NodePodCounts::One(place) = group.places {
            group.places = NodePodCounts::Many(Arc::new(vec![place]));
        }
        let NodePodCounts::Many(places) = &mut group.places else { return };
        let places = Arc::make_mut(places);
        match places.binary_search_by_key(&slot, |(slot, _)| *slot) {
            Ok(position) => {
                places[position].1 = places[position].1.saturating_add_signed(change);
                if places[position].1 == 0 {
                    places.remove(position);
                }
            }
            Err(position) if change > 0 => places.insert(position, (slot, 1)),
            Err(_) => {}
        }
        if let &[place] = &places[..] {
            group.places = NodePodCounts::One(place);
        }
    }

    /// A reader of the nodes of groups, best used in the order of their numbers.
    pub(super) fn places(&self) -> PodCountReader<'_> {
        PodCountReader { entries: self.entries.focus() }
    }

    /// Applies `change` to every posting list that a group with this key belongs to, and removes lists that become
    /// empty.
    fn update_postings(&mut self, key: &PodGroupKey, change: impl Fn(&mut RoaringBitmap)) {
        change(Arc::make_mut(&mut self.live));
        let namespace = self.namespaces.entry(Arc::clone(&key.namespace)).or_default();
        change(Arc::make_mut(namespace));
        if namespace.is_empty() {
            self.namespaces.remove(&*key.namespace);
        }
        for (label, value) in key.labels.iter() {
            let label: Arc<str> =
                self.labels.get_key_value(label).map_or_else(|| label.into(), |(key, _)| Arc::clone(key));
            let postings = self.labels.entry(Arc::clone(&label)).or_default();
            change(Arc::make_mut(&mut postings.present));
            let before = postings.values.len();
            let set = postings.values.entry(value.into()).or_default();
            change(Arc::make_mut(set));
            if set.is_empty() {
                postings.values.remove(value);
            }
            self.label_values = self.label_values + postings.values.len() as u64 - before as u64;
            if postings.present.is_empty() {
                self.labels.remove(&*label);
            }
        }
    }

    /// The groups whose pods a term selects, in the order of their numbers. `coverage` has the term's namespaces.
    ///
    /// Whole sets are intersected. A selector that matches nearly all groups therefore costs its result, not a test of
    /// each group's labels.
    pub(super) fn matching(&self, term: &PodTerm, coverage: &Coverage) -> Vec<u32> {
        let requirements = match &term.selection {
            LabelSelection::Nothing => return Vec::new(),
            LabelSelection::Everything => &[][..],
            LabelSelection::Matching(selector) => &selector.requirements[..],
        };
        let mut found = match coverage {
            Coverage::All => (*self.live).clone(),
            Coverage::Names(names) => {
                names.iter().filter_map(|name| self.namespaces.get(name)).map(|set| &**set).union()
            }
        };
        for requirement in requirements {
            let postings = self.labels.get(&*requirement.key);
            let sets = |values: &'_ [String]| -> Vec<&RoaringBitmap> {
                let set_of = |value: &String| postings?.values.get(&**value).map(|set| &**set);
                values.iter().filter_map(set_of).collect()
            };
            let is_negative = requirement.operator.is_negative();
            match requirement.operator.values() {
                TestedValues::Listed(values) if is_negative => sets(values).into_iter().for_each(|set| found -= set),
                TestedValues::Listed(values) => match &sets(values)[..] {
                    [one] => found &= *one,
                    some => found &= some.iter().copied().union(),
                },
                TestedValues::Any => match postings {
                    Some(postings) if is_negative => found -= &*postings.present,
                    Some(postings) => found &= &*postings.present,
                    None if is_negative => {}
                    None => found.clear(),
                },
                // Selectors of Pods have no such operators. If they had, each group would be tested.
                TestedValues::Integers(_) | TestedValues::WithPrefix(_) => {
                    let holds = |number: &u32| {
                        let group = self.get(*number);
                        group.is_some_and(|group| requirement.matches(group.key.labels.get(&requirement.key)))
                    };
                    found = found.iter().filter(holds).collect();
                }
            }
        }
        found.iter().collect()
    }
}
