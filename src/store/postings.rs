//! Posting lists: (field or label, value) -> slots.
//!
//! Two levels: an attribute, then its values in order, so that existence, sets and ranges are answered without a scan
//! of objects. A list of one slot is kept inline: unique-valued fields would otherwise pay a bitmap per object.

use std::sync::Arc;

use imbl::{HashMap, OrdMap};
use roaring::RoaringBitmap;

use super::Object;
use crate::model::{FieldIndex, Record};

/// What a posting list is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Attribute {
    /// A field of the plan.
    Field(FieldIndex),
    /// A label key.
    Label(Arc<str>),
    /// The namespace of the object.
    Namespace,
}

/// The slots of one value.
#[derive(Clone, Debug, PartialEq)]
pub enum Posting {
    /// Exactly one slot.
    One(u32),
    /// Two or more.
    Many(Arc<RoaringBitmap>),
}

/// Everything indexed under one attribute.
#[derive(Clone, Debug, Default)]
pub(super) struct AttributePostings {
    /// Slots that have the attribute at all.
    present: Arc<RoaringBitmap>,
    /// By value, in order.
    values: OrdMap<Arc<str>, Posting>,
}

/// All posting lists of a store.
#[derive(Clone, Debug, Default)]
pub struct Postings {
    attributes: HashMap<Attribute, AttributePostings>,
}

impl Posting {
    /// How many slots.
    pub fn len(&self) -> u64 {
        match self {
            Posting::One(_) => 1,
            Posting::Many(slots) => slots.len(),
        }
    }

    /// Never true: an empty list is removed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds its slots to a set.
    pub fn add_to(&self, set: &mut RoaringBitmap) {
        match self {
            Posting::One(slot) => {
                set.insert(*slot);
            }
            Posting::Many(slots) => *set |= &**slots,
        }
    }

    /// As a set of its own.
    pub fn to_bitmap(&self) -> RoaringBitmap {
        match self {
            Posting::One(slot) => RoaringBitmap::from_iter([*slot]),
            Posting::Many(slots) => (**slots).clone(),
        }
    }

    fn insert(&mut self, slot: u32) {
        match self {
            Posting::One(held) if *held == slot => {}
            Posting::One(held) => *self = Posting::Many(Arc::new(RoaringBitmap::from_iter([*held, slot]))),
            Posting::Many(slots) => {
                Arc::make_mut(slots).insert(slot);
            }
        }
    }

    /// Removes a slot; false when none is left.
    fn remove(&mut self, slot: u32) -> bool {
        match self {
            Posting::One(held) => *held != slot,
            Posting::Many(slots) => {
                Arc::make_mut(slots).remove(slot);
                match (slots.len(), slots.min()) {
                    (0, _) => false,
                    (1, Some(last)) => {
                        *self = Posting::One(last);
                        true
                    }
                    _ => true,
                }
            }
        }
    }
}

impl Postings {
    /// The slots with this value.
    pub fn posting(&self, attribute: &Attribute, value: &str) -> Option<&Posting> {
        self.attributes.get(attribute)?.values.get(value)
    }

    /// The slots that have the attribute.
    pub fn present(&self, attribute: &Attribute) -> Option<&RoaringBitmap> {
        self.attributes.get(attribute).map(|postings| &*postings.present)
    }

    /// All values of an attribute, in order, with their slots.
    pub fn values(&self, attribute: &Attribute) -> impl Iterator<Item = (&str, &Posting)> {
        self.attributes
            .get(attribute)
            .into_iter()
            .flat_map(|postings| postings.values.iter().map(|(value, posting)| (&**value, posting)))
    }

    /// Indexes a record under a slot and makes it an object that shares its texts with the lists.
    pub(super) fn index(&mut self, slot: u32, record: Record) -> Object {
        let namespace = record.key.namespace();
        if !namespace.is_empty() {
            self.insert(Attribute::Namespace, namespace, slot);
        }
        let labels = record
            .texts
            .labels()
            .map(|(key, value)| {
                let key: Arc<str> = match self.attributes.get_key_value(&Attribute::Label(Arc::from(key))) {
                    Some((Attribute::Label(held), _)) => held.clone(),
                    _ => Arc::from(key),
                };
                let value = self.insert(Attribute::Label(key.clone()), value, slot);
                (key, value)
            })
            .collect();
        let values = record
            .texts
            .values()
            .map(|(field, value)| (field, self.insert(Attribute::Field(field), value, slot)))
            .collect();
        Object {
            key: record.key,
            version: record.version,
            bytes: record.bytes,
            version_span: record.version_span,
            metadata_span: record.metadata_span,
            labels,
            values,
        }
    }

    pub(super) fn unindex(&mut self, slot: u32, object: &Object) {
        if !object.key.namespace().is_empty() {
            self.remove(&Attribute::Namespace, object.key.namespace(), slot);
        }
        for (key, value) in &object.labels {
            self.remove(&Attribute::Label(key.clone()), value, slot);
        }
        for (field, value) in &object.values {
            self.remove(&Attribute::Field(*field), value, slot);
        }
    }

    fn insert(&mut self, attribute: Attribute, value: &str, slot: u32) -> Arc<str> {
        let postings = self.attributes.entry(attribute).or_default();
        Arc::make_mut(&mut postings.present).insert(slot);
        if let Some((held, _)) = postings.values.get_key_value(value) {
            let held = held.clone();
            if let Some(posting) = postings.values.get_mut(value) {
                posting.insert(slot);
            }
            return held;
        }
        let text: Arc<str> = Arc::from(value);
        postings.values.insert(text.clone(), Posting::One(slot));
        text
    }

    fn remove(&mut self, attribute: &Attribute, value: &str, slot: u32) {
        let Some(postings) = self.attributes.get_mut(attribute) else { return };
        Arc::make_mut(&mut postings.present).remove(slot);
        let emptied = postings.values.get_mut(value).is_some_and(|posting| !posting.remove(slot));
        if emptied {
            postings.values.remove(value);
        }
        if postings.values.is_empty() {
            self.attributes.remove(attribute);
        }
    }
}
