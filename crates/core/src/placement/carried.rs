//! Pod affinity terms of existing pods, each stored once: an incoming pod is tested against them.
//!
//! Pods of one template carry the same terms. So the cost of symmetry (others' anti-affinity) and of scores from
//! others' terms depends on the different terms that match, not on the pods. A term is found by one label that it
//! requires, its anchor; terms that require none are all tested. The groups that carry a term are stored with it;
//! [`super::groups`] has their nodes.

use std::sync::Arc;

use imbl::{HashMap, OrdMap, Vector};
use roaring::RoaringBitmap;

use super::effort;
use super::labels::PackedLabels;
use super::pod::Pod;
use super::term::{PodTerm, TermList, selects};
use crate::selector::{LabelSelection, TestedValues};

/// The effect of a carried term on an incoming pod that it matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Effect {
    /// Required affinity: adds the scheduler's hardPodAffinityWeight to the score.
    RequiredAffinity,
    /// Required anti-affinity: rejects the nodes of the domain.
    RequiredAntiAffinity,
    /// Preferred affinity: adds this weight to the score; the weight of anti-affinity is negative.
    Preferred(i64),
}

/// A term and its effect.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct CarriedTerm {
    pub(super) effect: Effect,
    pub(super) term: PodTerm,
}

/// A carried term with the groups that carry it.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) carried: Arc<CarriedTerm>,
    /// The position of the requirement whose values find the term. `None`: no requirement lists values.
    anchor: Option<usize>,
    /// Group -> how often its pods list the term.
    pub(super) groups: OrdMap<u32, u32>,
}

/// All carried terms, by number.
#[derive(Clone, Debug, Default)]
pub(super) struct CarriedTerms {
    entries: Vector<Option<Entry>>,
    /// The number of each term.
    numbers: HashMap<Arc<CarriedTerm>, u32>,
    /// Numbers that no term has, for new terms.
    free: Vector<u32>,
    /// `key=value` of a label -> the numbers of the terms that this label finds: their anchor lists this value.
    ///
    /// Sets and not lists: a Pod may carry thousands of terms with one anchor, and all of them are removed with it.
    anchored: HashMap<Arc<str>, Arc<RoaringBitmap>>,
    /// The numbers of the terms without an anchor.
    unanchored: Arc<RoaringBitmap>,
}

/// The terms of a Pod that affect other Pods. A list with a term that cannot be parsed counts as empty, as in the
/// scheduler.
pub(super) fn carried_by(pod: &Pod) -> Vec<CarriedTerm> {
    let mut carried = Vec::new();
    for list in TermList::ALL {
        for (term, weight) in list.parse(pod).unwrap_or_default() {
            let effect = match list {
                TermList::RequiredAffinity => Effect::RequiredAffinity,
                TermList::RequiredAntiAffinity => Effect::RequiredAntiAffinity,
                TermList::PreferredAffinity => Effect::Preferred(i64::from(weight)),
                TermList::PreferredAntiAffinity => Effect::Preferred(-i64::from(weight)),
            };
            carried.push(CarriedTerm { effect, term });
        }
    }
    carried
}

/// The key of [`CarriedTerms::anchored`] for a label.
fn anchor_text(key: &str, value: &str) -> String {
    format!("{key}={value}")
}

impl CarriedTerm {
    /// The labels that satisfy the requirement at `position`, as `key=value`. Empty if it does not list values that a
    /// label must have.
    fn anchors(&self, position: usize) -> Vec<String> {
        let LabelSelection::Matching(selector) = &self.term.selection else { return Vec::new() };
        match selector.requirements.get(position) {
            Some(requirement) => match requirement.operator.values() {
                TestedValues::Listed(values) if !requirement.operator.is_negative() => {
                    values.iter().map(|value| anchor_text(&requirement.key, value)).collect()
                }
                TestedValues::Listed(_)
                | TestedValues::Any
                | TestedValues::Integers(_)
                | TestedValues::WithPrefix(_) => Vec::new(),
            },
            None => Vec::new(),
        }
    }

    /// The number of requirements of the term's label selector.
    fn requirement_count(&self) -> usize {
        match &self.term.selection {
            LabelSelection::Matching(selector) => selector.requirements.len(),
            LabelSelection::Nothing | LabelSelection::Everything => 0,
        }
    }
}

impl CarriedTerms {
    pub(super) fn get(&self, number: u32) -> Option<&Entry> {
        self.entries.get(number as usize)?.as_ref()
    }

    pub(super) fn len(&self) -> usize {
        self.numbers.len()
    }

    #[cfg(test)]
    pub(super) fn slots(&self) -> usize {
        self.entries.len()
    }

    /// The number of a term, which is added if it is new.
    pub(super) fn number(&mut self, carried: CarriedTerm) -> u32 {
        if let Some(number) = self.numbers.get(&carried) {
            return *number;
        }
        let anchor = self.best_anchor(&carried);
        let carried = Arc::new(carried);
        let entry = Entry { carried: Arc::clone(&carried), anchor, groups: OrdMap::new() };
        let number = match self.free.pop_back() {
            Some(number) => {
                self.entries.set(number as usize, Some(entry));
                number
            }
            None => {
                self.entries.push_back(Some(entry));
                u32::try_from(self.entries.len() - 1).unwrap_or(u32::MAX)
            }
        };
        self.update_anchors(&carried, anchor, |numbers| {
            effort::note(1);
            numbers.insert(number);
        });
        self.numbers.insert(carried, number);
        number
    }

    /// The position of the requirement whose values find the fewest other terms; `None` if no requirement lists values.
    fn best_anchor(&self, carried: &CarriedTerm) -> Option<usize> {
        let crowd = |position: &usize| {
            let anchors = carried.anchors(*position);
            anchors.iter().map(|anchor| self.anchored.get(&**anchor).map_or(0, |numbers| numbers.len())).sum::<u64>()
        };
        let positions = (0..carried.requirement_count()).filter(|position| !carried.anchors(*position).is_empty());
        positions.min_by_key(crowd)
    }

    /// Applies `change` to the sets that a term with this anchor belongs to, and removes sets that become empty.
    fn update_anchors(&mut self, carried: &CarriedTerm, anchor: Option<usize>, change: impl Fn(&mut RoaringBitmap)) {
        let Some(position) = anchor else {
            // A term that selects nothing never matches, so it is in no set.
            if carried.term.selection != LabelSelection::Nothing {
                change(Arc::make_mut(&mut self.unanchored));
            }
            return;
        };
        for text in carried.anchors(position) {
            let numbers = self.anchored.entry(text.as_str().into()).or_default();
            change(Arc::make_mut(numbers));
            if numbers.is_empty() {
                self.anchored.remove(&*text);
            }
        }
    }

    /// Records that a new group carries these terms, given by number; a term may occur twice.
    pub(super) fn add_group(&mut self, terms: &[u32], group: u32) {
        for number in terms {
            if let Some(Some(entry)) = self.entries.get_mut(*number as usize) {
                *entry.groups.entry(group).or_insert(0) += 1;
            }
        }
    }

    /// Removes a group from its terms, given by number, and removes the terms that no other group carries.
    pub(super) fn remove_group(&mut self, terms: &[u32], group: u32) {
        for number in terms {
            let Some(Some(entry)) = self.entries.get_mut(*number as usize) else { continue };
            entry.groups.remove(&group);
            if entry.groups.is_empty() {
                self.remove(*number);
            }
        }
    }

    /// Removes a term that no group carries any more.
    fn remove(&mut self, number: u32) {
        let Some(entry) = self.entries.set(number as usize, None) else { return };
        self.numbers.remove(&*entry.carried);
        self.free.push_back(number);
        self.update_anchors(&entry.carried, entry.anchor, |numbers| {
            effort::note(1);
            numbers.remove(number);
        });
    }

    /// The numbers of the terms that select a pod in `namespace` with these labels. `namespace_labels` is empty if
    /// there is no such Namespace object.
    pub(super) fn matching(&self, namespace: &str, namespace_labels: &PackedLabels, labels: &PackedLabels) -> Vec<u32> {
        let found = labels.iter().filter_map(|(key, value)| self.anchored.get(&*anchor_text(key, value)));
        let candidates = found.chain(std::iter::once(&self.unanchored)).flat_map(|numbers| numbers.iter());
        let matches = |number: &u32| {
            self.get(*number).is_some_and(|entry| {
                let term = &entry.carried.term;
                term.covers(namespace, namespace_labels) && selects(&term.selection, labels)
            })
        };
        candidates.filter(matches).collect()
    }
}
