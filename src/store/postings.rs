//! Posting lists: (field or label, value) -> slots.
//!
//! Two levels: an attribute, then its values in order, so that existence, sets and ranges are answered without a scan
//! of objects. A change touches only the values that differ between the object before and after: most updates none.
//! The sets are `slots`, the dictionaries of values are `terms`.

use std::cmp::Ordering;
use std::sync::Arc;

use imbl::HashMap;

use super::Object;
use super::object::Term;
use super::slots::SlotSet;
use super::terms::Terms;
use crate::model::FieldIndex;

pub use super::terms::Posting;

/// What a posting list is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Attribute {
    /// A field of the plan.
    Field(FieldIndex),
    /// A label key.
    Label(Arc<str>),
    /// The namespace of the object.
    Namespace,
}

/// Everything indexed under one attribute.
#[derive(Clone, Debug, Default)]
struct AttributePostings {
    /// Slots that have the attribute at all.
    present: Arc<SlotSet>,
    terms: Terms,
}

/// All posting lists of a store.
#[derive(Clone, Debug, Default)]
pub struct Postings {
    attributes: HashMap<Attribute, AttributePostings>,
}

/// What the index of one attribute is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttributeUsage {
    /// The attribute.
    pub attribute: Attribute,
    /// Different values.
    pub values: u64,
    /// Bytes in memory.
    pub bytes: u64,
}

impl Postings {
    /// The slots with this value.
    pub fn posting(&self, attribute: &Attribute, value: &str) -> Option<Posting<'_>> {
        self.attributes.get(attribute)?.terms.get(value)
    }

    /// The slots that have the attribute.
    pub fn present(&self, attribute: &Attribute) -> Option<&SlotSet> {
        self.attributes.get(attribute).map(|postings| &*postings.present)
    }

    /// All values of an attribute, in order, with their slots.
    pub fn values(&self, attribute: &Attribute) -> impl Iterator<Item = (&str, Posting<'_>)> {
        self.attributes.get(attribute).into_iter().flat_map(|postings| postings.terms.iter())
    }

    /// What each attribute takes.
    pub fn usage(&self) -> Vec<AttributeUsage> {
        let mut usage: Vec<AttributeUsage> = self
            .attributes
            .iter()
            .map(|(attribute, postings)| AttributeUsage {
                attribute: attribute.clone(),
                values: postings.terms.len() as u64,
                bytes: (postings.present.held_bytes() + postings.terms.held_bytes()) as u64,
            })
            .collect();
        usage.sort_unstable_by(|left, right| left.attribute.cmp(&right.attribute));
        usage
    }

    /// Indexes what became of the object in a slot.
    pub(super) fn index(&mut self, slot: u32, before: Option<&Object>, after: Option<&Object>) {
        match (before, after) {
            (Some(before), Some(after)) if before.has_terms_of(after) => return,
            // The key of a slot's object does not change.
            (None, Some(object)) => self.insert_namespace(slot, object),
            (Some(object), None) => self.remove_namespace(slot, object),
            _ => {}
        }
        let before = before.map(Object::terms).unwrap_or_default();
        let after = after.map(Object::terms).unwrap_or_default();
        let (mut left, mut right) = (before.iter().peekable(), after.iter().peekable());
        loop {
            let order = match (left.peek(), right.peek()) {
                (Some(gone), Some(come)) => gone.cmp(come),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => return,
            };
            let gone = if order.is_le() { left.next() } else { None };
            let come = if order.is_ge() { right.next() } else { None };
            match (gone, come) {
                (Some(gone), None) => {
                    let is_absent = !after.iter().any(|term| term.is_of_attribute(gone));
                    let (attribute, value) = gone.parts();
                    self.remove(&attribute, value, slot, is_absent);
                }
                (None, Some(come)) => {
                    let (attribute, value) = come.parts();
                    self.insert(attribute, value, slot);
                }
                _ => {}
            }
        }
    }

    fn insert_namespace(&mut self, slot: u32, object: &Object) {
        if !object.namespace().is_empty() {
            self.insert(Attribute::Namespace, object.namespace(), slot);
        }
    }

    fn remove_namespace(&mut self, slot: u32, object: &Object) {
        if !object.namespace().is_empty() {
            self.remove(&Attribute::Namespace, object.namespace(), slot, true);
        }
    }

    fn insert(&mut self, attribute: Attribute, value: &str, slot: u32) {
        let postings = self.attributes.entry(attribute).or_default();
        if !postings.present.contains(slot) {
            Arc::make_mut(&mut postings.present).insert(slot);
        }
        postings.terms.insert(value, slot);
    }

    fn remove(&mut self, attribute: &Attribute, value: &str, slot: u32, is_absent: bool) {
        let Some(postings) = self.attributes.get_mut(attribute) else { return };
        if is_absent {
            Arc::make_mut(&mut postings.present).remove(slot);
        }
        postings.terms.remove(value, slot);
        if postings.terms.is_empty() {
            self.attributes.remove(attribute);
        }
    }
}

impl<'o> Term<'o> {
    fn parts(&self) -> (Attribute, &'o str) {
        match *self {
            Term::Label(key, value) => (Attribute::Label(key.clone()), value),
            Term::Field(field, value) => (Attribute::Field(field), value),
        }
    }

    fn is_of_attribute(&self, other: &Term<'_>) -> bool {
        match (self, other) {
            (Term::Label(key, _), Term::Label(other, _)) => key == other,
            (Term::Field(field, _), Term::Field(other, _)) => field == other,
            _ => false,
        }
    }
}
