//! Posting lists: (field or label, value) -> slots.
//!
//! Two levels: an attribute, then its values in order, so that existence, sets and ranges are answered without a scan
//! of objects. A change touches only the values that differ between the object before and after: most updates none.
//! The sets are `slots`, the dictionaries of values are `terms`. An attribute that one object alone has takes one entry and no
//! set. Objects with too many labels, or too many values of a field, are in no list of these: they stand in a list of their own, and
//! `query::plan` compares each of them with the selection.

use std::cmp::Ordering;
use std::sync::Arc;

use imbl::OrdMap;

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
    /// Objects with more labels than are indexed, under the empty value.
    ManyLabels,
}

/// Everything indexed under one attribute.
#[derive(Clone, Debug)]
enum Entry {
    /// One value, which one object has.
    One(Arc<str>, u32),
    /// Several values or objects.
    Several(Arc<AttributePostings>),
}

#[derive(Clone, Debug, Default)]
struct AttributePostings {
    /// Slots that have the attribute at all.
    present: Arc<SlotSet>,
    terms: Terms,
}

/// All posting lists of a store.
#[derive(Clone, Debug, Default)]
pub struct Postings {
    /// A tree with full nodes: a hash trie would take a kilobyte for each of some ten thousand attributes.
    attributes: OrdMap<Attribute, Entry>,
}

/// What an entry takes in the tree, whose nodes are half full or more.
const ENTRY_BYTES: usize = size_of::<(Attribute, Entry)>() * 2;

/// What stands in front of a shared text or value, and what the allocator adds to it.
const COUNTS: usize = 4 * size_of::<usize>();

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

impl Entry {
    fn held_bytes(&self) -> usize {
        match self {
            Entry::One(value, _) => COUNTS + value.len(),
            Entry::Several(postings) => {
                COUNTS
                    + size_of::<AttributePostings>()
                    + COUNTS
                    + size_of::<SlotSet>()
                    + postings.present.held_bytes()
                    + postings.terms.held_bytes()
            }
        }
    }
}

impl AttributePostings {
    fn insert(&mut self, value: &str, slot: u32) {
        if !self.present.contains(slot) {
            Arc::make_mut(&mut self.present).insert(slot);
        }
        self.terms.insert(value, slot);
    }

    /// Its only value, if one object alone has it.
    fn only(&self) -> Option<(&str, u32)> {
        match (self.terms.len(), self.terms.iter().next()) {
            (1, Some((value, Posting::One(slot)))) => Some((value, slot)),
            _ => None,
        }
    }
}

impl Postings {
    /// The slots with this value.
    pub fn posting(&self, attribute: &Attribute, value: &str) -> Option<Posting<'_>> {
        match self.attributes.get(attribute)? {
            Entry::One(held, slot) => (**held == *value).then_some(Posting::One(*slot)),
            Entry::Several(postings) => postings.terms.get(value),
        }
    }

    /// The slots that have the attribute.
    pub fn present(&self, attribute: &Attribute) -> Option<Posting<'_>> {
        self.attributes.get(attribute).map(|entry| match entry {
            Entry::One(_, slot) => Posting::One(*slot),
            Entry::Several(postings) => Posting::Set(&postings.present),
        })
    }

    /// All values of an attribute, in order, with their slots.
    pub fn values(&self, attribute: &Attribute) -> impl Iterator<Item = (&str, Posting<'_>)> {
        let (one, several) = match self.attributes.get(attribute) {
            Some(Entry::One(value, slot)) => (Some((&**value, Posting::One(*slot))), None),
            Some(Entry::Several(postings)) => (None, Some(postings)),
            None => (None, None),
        };
        one.into_iter().chain(several.into_iter().flat_map(|postings| postings.terms.iter()))
    }

    /// What each attribute takes. The texts of label keys are counted with the objects that share them.
    pub fn usage(&self) -> Vec<AttributeUsage> {
        let usage = self.attributes.iter().map(|(attribute, entry)| AttributeUsage {
            attribute: attribute.clone(),
            values: match entry {
                Entry::One(..) => 1,
                Entry::Several(postings) => postings.terms.len() as u64,
            },
            bytes: (ENTRY_BYTES + entry.held_bytes()) as u64,
        });
        usage.collect()
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
                    // Terms of one attribute stand together.
                    let place = after.partition_point(|term| term < gone);
                    let neighbours = [place.checked_sub(1), Some(place)].into_iter().flatten();
                    let is_absent =
                        !neighbours.filter_map(|place| after.get(place)).any(|term| term.is_of_attribute(gone));
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
        match self.attributes.get_mut(&attribute) {
            None => {
                self.attributes.insert(attribute, Entry::One(Arc::from(value), slot));
            }
            Some(Entry::One(held, of)) if **held == *value && *of == slot => {}
            Some(Entry::Several(postings)) => Arc::make_mut(postings).insert(value, slot),
            Some(entry @ Entry::One(..)) => {
                let mut postings = AttributePostings::default();
                if let Entry::One(held, of) = &*entry {
                    postings.insert(held, *of);
                }
                postings.insert(value, slot);
                *entry = Entry::Several(Arc::new(postings));
            }
        }
    }

    fn remove(&mut self, attribute: &Attribute, value: &str, slot: u32, is_absent: bool) {
        let Some(entry) = self.attributes.get_mut(attribute) else { return };
        let postings = match entry {
            Entry::One(held, of) => {
                if **held == *value && *of == slot {
                    self.attributes.remove(attribute);
                }
                return;
            }
            Entry::Several(postings) => Arc::make_mut(postings),
        };
        if is_absent {
            Arc::make_mut(&mut postings.present).remove(slot);
        }
        postings.terms.remove(value, slot);
        if postings.terms.is_empty() {
            self.attributes.remove(attribute);
        } else if let Some((value, slot)) = postings.only() {
            *entry = Entry::One(Arc::from(value), slot);
        }
    }
}

impl<'o> Term<'o> {
    fn parts(&self) -> (Attribute, &'o str) {
        match *self {
            Term::Label(key, value) => (Attribute::Label(key.clone()), value),
            Term::Field(field, value) => (Attribute::Field(field), value),
            Term::ManyLabels => (Attribute::ManyLabels, ""),
        }
    }

    fn is_of_attribute(&self, other: &Term<'_>) -> bool {
        match (self, other) {
            (Term::Label(key, _), Term::Label(other, _)) => key == other,
            (Term::Field(field, _), Term::Field(other, _)) => field == other,
            (Term::ManyLabels, Term::ManyLabels) => true,
            _ => false,
        }
    }
}
