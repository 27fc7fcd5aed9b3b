//! Posting lists: (field or label, value) to slots.
//!
//! The values of an attribute are in order, so that existence, sets and ranges are evaluated without a scan of objects.
//! A change touches only the values that differ between the object before and after; most updates touch none. Objects
//! that are not completely indexed are in sets of their own: see `indexed`. `slots` implements the sets, `terms` the
//! dictionaries of values, and `labels` those of all label keys.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use imbl::OrdMap;

use super::heap::{map_nodes, shared};
use super::indexed::{IndexLimits, IndexedPart};
use super::labels::LabelIndex;
use super::object::Object;
use super::slots::SlotSet;
use super::terms::Terms;
use crate::model::FieldIndex;

pub use super::terms::Posting;

/// All posting lists of a store.
#[derive(Clone, Debug, Default)]
pub struct Postings {
    pub(super) limits: IndexLimits,
    namespaces: Terms,
    /// Slots that have a namespace.
    namespaced: Arc<SlotSet>,
    fields: OrdMap<FieldIndex, Terms>,
    labels: LabelIndex,
    /// For each part of objects, the slots of the objects whose part is not indexed.
    incomplete: OrdMap<IndexedPart, Arc<SlotSet>>,
}

/// The attribute of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Attribute {
    /// A field of the plan.
    Field(FieldIndex),
    /// All labels.
    Labels,
    /// The namespace of the object.
    Namespace,
    /// The hash of metadata.uid, which has no posting lists: see `shards`.
    UidHash,
}

/// The contents of the index of one attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttributeUsage {
    /// The attribute.
    pub attribute: Attribute,
    /// Different values; of labels, different pairs of key and value.
    pub values: u64,
    /// Bytes in memory.
    pub bytes: u64,
}

impl Postings {
    /// The slots of a namespace; `None` if it has no objects.
    pub fn namespace(&self, namespace: &str) -> Option<Posting<'_>> {
        self.namespaces.get(namespace)
    }

    /// All namespaces, in order, with their slots.
    pub fn namespaces(&self) -> impl Iterator<Item = (&str, Posting<'_>)> {
        self.namespaces.iter()
    }

    /// The slots that have a namespace.
    pub fn namespaced(&self) -> &SlotSet {
        &self.namespaced
    }

    /// The slots with this value of a field; `None` if there are none. Objects in [`Postings::incomplete`] are missing.
    pub fn field(&self, field: FieldIndex, value: &str) -> Option<Posting<'_>> {
        self.fields.get(&field)?.get(value)
    }

    /// All values of a field, in order, with their slots. Objects in [`Postings::incomplete`] are missing.
    pub fn field_values(&self, field: FieldIndex) -> impl Iterator<Item = (&str, Posting<'_>)> {
        self.fields.get(&field).into_iter().flat_map(|terms| terms.iter())
    }

    /// The number of different values of a field, without those of objects in [`Postings::incomplete`].
    pub fn field_value_count(&self, field: FieldIndex) -> usize {
        self.fields.get(&field).map_or(0, Terms::len)
    }

    /// The slots with this value of a label; `None` if there are none. Objects in [`Postings::incomplete`] are missing.
    pub fn label(&self, key: &str, value: &str) -> Option<Posting<'_>> {
        self.labels.posting(key, value)
    }

    /// Lists whose union is the slots with a label. Objects in [`Postings::incomplete`] are missing.
    pub fn labelled(&self, key: &str) -> Vec<Posting<'_>> {
        self.labels.present(key)
    }

    /// All values of a label, in order, with their slots. Objects in [`Postings::incomplete`] are missing.
    pub fn label_values(&self, key: &str) -> impl Iterator<Item = (&str, Posting<'_>)> {
        self.labels.values(key)
    }

    /// The slots of objects of which this part is not indexed; `None` if there are none. Callers must test these
    /// objects themselves.
    pub fn incomplete(&self, part: IndexedPart) -> Option<&SlotSet> {
        self.incomplete.get(&part).map(|slots| &**slots)
    }

    /// Number of values and memory of each index that is not empty.
    pub fn usage(&self) -> Vec<AttributeUsage> {
        let set = |slots: &SlotSet| shared::<SlotSet>() + slots.held_bytes();
        let mut usage: BTreeMap<Attribute, (usize, usize)> = BTreeMap::new();
        let mut add = |attribute, values: usize, bytes: usize| {
            let sum = usage.entry(attribute).or_default();
            *sum = (sum.0 + values, sum.1 + bytes);
        };
        for (field, terms) in &self.fields {
            add(Attribute::Field(*field), terms.len(), map_nodes::<FieldIndex, Terms>(1) + terms.held_bytes());
        }
        if self.labels.len() > 0 {
            add(Attribute::Labels, self.labels.len(), self.labels.held_bytes());
        }
        for (part, slots) in &self.incomplete {
            match part {
                IndexedPart::Field(field) => add(Attribute::Field(*field), 0, set(slots)),
                IndexedPart::Labels => add(Attribute::Labels, 0, set(slots)),
            }
        }
        if !self.namespaces.is_empty() {
            add(Attribute::Namespace, self.namespaces.len(), self.namespaces.held_bytes() + set(&self.namespaced));
        }
        let usage = usage.into_iter();
        usage
            .map(|(attribute, (values, bytes))| AttributeUsage {
                attribute,
                values: values as u64,
                bytes: bytes as u64,
            })
            .collect()
    }

    /// Indexes a change of the object in a slot. `before` is `None` for a new object, `after` for a removed one.
    pub(super) fn index(&mut self, slot: u32, before: Option<&Object>, after: Option<&Object>) {
        match (before, after) {
            (Some(before), Some(after)) if before.has_terms_of(after) => return,
            // The key of a slot's object does not change.
            (None, Some(object)) if !object.namespace().is_empty() => {
                Arc::make_mut(&mut self.namespaced).insert(slot);
                self.namespaces.insert(object.namespace(), slot);
            }
            (Some(object), None) if !object.namespace().is_empty() => {
                Arc::make_mut(&mut self.namespaced).remove(slot);
                self.namespaces.remove(object.namespace(), slot);
            }
            _ => {}
        }
        let limits = self.limits;
        self.labels.index(slot, limits.labels(before), limits.labels(after));
        let (before, after) = (limits.values(before), limits.values(after));
        differences(&before.values, &after.values, |(field, value), is_new| {
            if is_new { self.insert(*field, value, slot) } else { self.remove(*field, value, slot) }
        });
        differences(&before.missing, &after.missing, |part, is_new| self.mark(*part, slot, is_new));
    }

    /// Adds a slot to the posting list of a value.
    fn insert(&mut self, field: FieldIndex, value: &str, slot: u32) {
        self.fields.entry(field).or_default().insert(value, slot);
    }

    /// Removes a slot from the posting list of a value.
    fn remove(&mut self, field: FieldIndex, value: &str, slot: u32) {
        let Some(terms) = self.fields.get_mut(&field) else { return };
        terms.remove(value, slot);
        if terms.is_empty() {
            self.fields.remove(&field);
        }
    }

    /// Marks whether a part of an object is missing in the index.
    fn mark(&mut self, part: IndexedPart, slot: u32, is_incomplete: bool) {
        if is_incomplete {
            Arc::make_mut(self.incomplete.entry(part).or_default()).insert(slot);
        } else if let Some(slots) = self.incomplete.get_mut(&part) {
            let slots = Arc::make_mut(slots);
            slots.remove(slot);
            if slots.is_empty() {
                self.incomplete.remove(&part);
            }
        }
    }
}

/// Calls `visit` for each element that only one of two sorted lists has. The flag is true for elements of `after`.
fn differences<T: Ord>(before: &[T], after: &[T], mut visit: impl FnMut(&T, bool)) {
    let (mut before, mut after) = (before.iter().peekable(), after.iter().peekable());
    loop {
        let order = match (before.peek(), after.peek()) {
            (Some(removed), Some(added)) => removed.cmp(added),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return,
        };
        match order {
            Ordering::Less => before.next().into_iter().for_each(|removed| visit(removed, false)),
            Ordering::Greater => after.next().into_iter().for_each(|added| visit(added, true)),
            Ordering::Equal => {
                before.next();
                after.next();
            }
        }
    }
}
