//! Posting lists: from a field or label and a value to the slots of the objects that have the value.
//!
//! The values of an attribute are in order, so that existence, sets and ranges are evaluated without a scan of objects.
//! A change touches only the values that differ between the object before and after; most updates touch none. Objects
//! that are not completely indexed are in separate sets: see `indexed`. `slots` implements the sets, `terms` the
//! dictionaries of values, and `labels` the dictionaries of labels.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use imbl::OrdMap;

use super::copies::{Copies, CopyOnWrite};
use super::heap::{map_nodes, map_path, shared};
use super::indexed::{IndexLimits, IndexedPart};
use super::labels::LabelIndex;
use super::object::Object;
use super::owners::OwnerIndex;
use super::slots::SlotSet;
use super::terms::Terms;
use crate::model::{FieldIndex, integer};

pub use super::terms::Posting;

/// All posting lists of a store.
#[derive(Clone, Debug, Default)]
pub struct Postings {
    /// How many labels and values of an object are indexed.
    pub(super) limits: IndexLimits,
    /// The slots of each namespace.
    namespaces: Terms,
    /// The slots of objects that have a namespace.
    namespaced: Arc<SlotSet>,
    /// The values of each field. Fields in `integers` have the keys of [`integer::sort_key`] instead.
    fields: OrdMap<FieldIndex, Terms>,
    /// The fields whose values are integers, sorted.
    pub(super) integers: Arc<[FieldIndex]>,
    /// The slots of each value of each label.
    labels: LabelIndex,
    /// The slots by the owners of their objects.
    owners: OwnerIndex,
    /// For each part of objects, the slots of the objects whose part is not indexed.
    incomplete: OrdMap<IndexedPart, Arc<SlotSet>>,
}

/// What an index is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Attribute {
    /// A field of the resource.
    Field(FieldIndex),
    /// All labels.
    Labels,
    /// The namespace of the object.
    Namespace,
    /// The hashes of the uids of owners, which have no posting lists: see `owners`.
    Owners,
    /// The hash of metadata.uid, which has no posting lists: see `shards`.
    UidHash,
}

/// The contents of the index of one attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttributeUsage {
    /// The attribute.
    pub attribute: Attribute,
    /// The number of different values; for labels, of different pairs of key and value.
    pub values: u64,
    /// The memory of the index, in bytes.
    pub bytes: u64,
}

impl Postings {
    /// An empty index with the same limits and types of fields.
    pub(super) fn without_objects(&self) -> Postings {
        Postings { limits: self.limits, integers: self.integers.clone(), ..Postings::default() }
    }

    /// The slots of a namespace; `None` if it has no objects.
    pub fn namespace(&self, namespace: &str) -> Option<Posting<'_>> {
        self.namespaces.get(namespace)
    }

    /// All namespaces, in order, with their slots.
    pub fn namespaces(&self) -> impl Iterator<Item = (&str, Posting<'_>)> {
        self.namespaces.iter()
    }

    /// The slots of objects that have a namespace.
    pub fn namespaced(&self) -> &SlotSet {
        &self.namespaced
    }

    /// The slots of the objects with this value of a field; `None` if there are none. Objects in
    /// [`Postings::incomplete`] are missing.
    pub fn field(&self, field: FieldIndex, value: &str) -> Option<Posting<'_>> {
        self.fields.get(&field)?.get(&self.key_of(field, value))
    }

    /// All values of a field with their slots: integers of an integer field in numeric order, others in the order of
    /// their texts. Objects in [`Postings::incomplete`] are missing.
    pub fn field_values(&self, field: FieldIndex) -> impl Iterator<Item = (Cow<'_, str>, Posting<'_>)> {
        let is_integer = self.is_integer(field);
        let terms = self.fields.get(&field).into_iter().flat_map(|terms| terms.iter());
        terms.map(move |(key, posting)| (if is_integer { integer::value_of(key) } else { key.into() }, posting))
    }

    /// The keys of the values of a field ([`Postings::key_of`]) with their slots, in ascending order from the key
    /// `from` on. With `is_backwards`, in descending order from `from` on. If `from` is `None`, all keys. Objects in
    /// [`Postings::incomplete`] are missing.
    pub fn field_keys<'p>(
        &'p self,
        field: FieldIndex,
        from: Option<&str>,
        is_backwards: bool,
    ) -> Box<dyn Iterator<Item = (&'p str, Posting<'p>)> + Send + 'p> {
        in_order(self.fields.get(&field), from, is_backwards)
    }

    /// Like [`Postings::field_keys`], for the namespaces.
    pub fn namespaces_from<'p>(
        &'p self,
        from: Option<&str>,
        is_backwards: bool,
    ) -> Box<dyn Iterator<Item = (&'p str, Posting<'p>)> + Send + 'p> {
        in_order(Some(&self.namespaces), from, is_backwards)
    }

    /// The slots of each value of an integer field that is in a range. Empty for a field that is not an integer field.
    /// Objects in [`Postings::incomplete`] are missing.
    pub fn field_integers(
        &self,
        field: FieldIndex,
        range: &RangeInclusive<i64>,
    ) -> impl Iterator<Item = Posting<'_>> + use<'_> {
        let key = |bound: &i64| integer::sort_key(&bound.to_string()).into_owned();
        let (first, last) = (key(range.start()), key(range.end()));
        let terms = self.fields.get(&field).filter(|_| self.is_integer(field));
        terms.into_iter().flat_map(move |terms| {
            let last = last.clone();
            terms.from(&first).take_while(move |(key, _)| **key <= *last).map(|(_, posting)| posting)
        })
    }

    /// The slots of each value of a field that begins with a prefix. For an integer field, the iterator walks over all
    /// values, and has `None` for each value without the prefix. Objects in [`Postings::incomplete`] are missing.
    pub fn field_with_prefix<'p>(
        &'p self,
        field: FieldIndex,
        prefix: &'p str,
    ) -> Box<dyn Iterator<Item = Option<Posting<'p>>> + Send + 'p> {
        if self.is_integer(field) {
            // The keys of integers are not in the order of the texts, so values with a prefix are not together.
            let values = self.field_values(field);
            return Box::new(values.map(move |(value, posting)| value.starts_with(prefix).then_some(posting)));
        }
        let terms = self.fields.get(&field).into_iter().flat_map(|terms| terms.with_prefix(prefix));
        Box::new(terms.map(|(_, posting)| Some(posting)))
    }

    /// The slots of each namespace whose name begins with a prefix.
    pub fn namespaces_with_prefix<'p>(&'p self, prefix: &'p str) -> impl Iterator<Item = (&'p str, Posting<'p>)> {
        self.namespaces.with_prefix(prefix)
    }

    /// Whether the index of a field has the keys of [`integer::sort_key`] instead of the values.
    pub fn is_integer(&self, field: FieldIndex) -> bool {
        self.integers.binary_search(&field).is_ok()
    }

    /// The key of a value in the dictionary of a field.
    pub fn key_of<'v>(&self, field: FieldIndex, value: &'v str) -> Cow<'v, str> {
        if self.is_integer(field) { integer::sort_key(value) } else { Cow::Borrowed(value) }
    }

    /// The number of different values of a field, without those of objects in [`Postings::incomplete`].
    pub fn field_value_count(&self, field: FieldIndex) -> usize {
        self.fields.get(&field).map_or(0, Terms::len)
    }

    /// The slots of the objects with this value of a label; `None` if there are none. Objects in
    /// [`Postings::incomplete`] are missing.
    pub fn label(&self, key: &str, value: &str) -> Option<Posting<'_>> {
        self.labels.posting(key, value)
    }

    /// Posting lists whose union has the slots of all objects with a label. Objects in [`Postings::incomplete`] are
    /// missing.
    pub fn labelled(&self, key: &str) -> Vec<Posting<'_>> {
        self.labels.present(key)
    }

    /// All values of a label, in order, with their slots. Objects in [`Postings::incomplete`] are missing.
    pub fn label_values(&self, key: &str) -> impl Iterator<Item = (&str, Posting<'_>)> {
        self.labels.values(key)
    }

    /// The index of owners.
    pub fn owners(&self) -> &OwnerIndex {
        &self.owners
    }

    /// The slots of objects of which this part is not indexed; `None` if there are none. Callers must test these
    /// objects themselves.
    pub fn incomplete(&self, part: IndexedPart) -> Option<&SlotSet> {
        self.incomplete.get(&part).map(|slots| &**slots)
    }

    /// The number of values and the memory of each index that is not empty.
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
        if !self.owners.is_empty() {
            add(Attribute::Owners, self.owners.len(), self.owners.held_bytes());
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
    pub(super) fn index(&mut self, slot: u32, before: Option<&Object>, after: Option<&Object>, copies: &mut Copies) {
        match (before, after) {
            (Some(before), Some(after)) if before.has_terms_of(after) => return,
            // The key of the object in a slot does not change, so the namespace is indexed only for new and removed
            // objects.
            (None, Some(object)) if !object.namespace().is_empty() => {
                copies.make_mut(&mut self.namespaced).insert(slot, copies);
                self.namespaces.insert(object.namespace(), slot, copies);
            }
            (Some(object), None) if !object.namespace().is_empty() => {
                copies.make_mut(&mut self.namespaced).remove(slot, copies);
                self.namespaces.remove(object.namespace(), slot, copies);
            }
            _ => {}
        }
        let limits = self.limits;
        self.labels.index(slot, limits.labels(before), limits.labels(after), copies);
        self.owners.index(slot, before, after, copies);
        let (before, after) = (limits.values(before), limits.values(after));
        differences(&before.values, &after.values, |(field, value), is_new| {
            if is_new { self.insert(*field, value, slot, copies) } else { self.remove(*field, value, slot, copies) }
        });
        differences(&before.missing, &after.missing, |part, is_new| self.mark(*part, slot, is_new, copies));
    }

    /// Adds a slot to the posting list of a value.
    fn insert(&mut self, field: FieldIndex, value: &str, slot: u32, copies: &mut Copies) {
        let (key, path) = (self.key_of(field, value), self.path());
        if !self.fields.contains_key(&field) {
            copies.add(path);
        }
        let terms = self.fields.entry(field).or_default();
        copies.within(path, |copies| terms.insert(&key, slot, copies));
    }

    /// Removes a slot from the posting list of a value.
    fn remove(&mut self, field: FieldIndex, value: &str, slot: u32, copies: &mut Copies) {
        let (key, path) = (self.key_of(field, value), self.path());
        let Some(terms) = self.fields.get_mut(&field) else { return };
        copies.within(path, |copies| terms.remove(&key, slot, copies));
        if terms.is_empty() {
            copies.add(2 * path);
            self.fields.remove(&field);
        }
    }

    /// Memory of the nodes on the path to a field, in bytes.
    fn path(&self) -> usize {
        map_path::<FieldIndex, Terms>(self.fields.len())
    }

    /// Records whether a part of the object in a slot is missing in the index.
    fn mark(&mut self, part: IndexedPart, slot: u32, is_incomplete: bool, copies: &mut Copies) {
        let path = map_path::<IndexedPart, Arc<SlotSet>>(self.incomplete.len());
        if is_incomplete {
            copies.make_mut_in(path, self.incomplete.entry(part).or_default()).insert(slot, copies);
        } else if let Some(slots) = self.incomplete.get_mut(&part) {
            let slots = copies.make_mut_in(path, slots);
            slots.remove(slot, copies);
            if slots.is_empty() {
                copies.add(2 * path);
                self.incomplete.remove(&part);
            }
        }
    }
}

impl CopyOnWrite for Postings {
    fn own_bytes(&self) -> usize {
        shared::<Postings>()
    }
}

/// The terms of a dictionary in ascending order from the key `from` on. With `is_backwards`, in descending order from
/// `from` on. If `from` is `None`, all terms. Empty without a dictionary.
fn in_order<'p>(
    terms: Option<&'p Terms>,
    from: Option<&str>,
    is_backwards: bool,
) -> Box<dyn Iterator<Item = (&'p str, Posting<'p>)> + Send + 'p> {
    match (terms, is_backwards) {
        (None, _) => Box::new(std::iter::empty()),
        (Some(terms), false) => Box::new(terms.from(from.unwrap_or_default())),
        (Some(terms), true) => Box::new(terms.back_from(from)),
    }
}

/// Calls `visit` for each element that only one of two sorted lists has. The flag of `visit` is true for elements that
/// only `after` has, and false for elements that only `before` has.
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
