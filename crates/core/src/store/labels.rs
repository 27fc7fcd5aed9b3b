//! The index of labels: little memory for a key that few objects have, fast for one with many values.
//!
//! Any user of a cluster can invent label keys, so a key must take little more than its text. Keys with few values
//! share one dictionary, whose terms are key and value together. A key with more values has a dictionary of its own,
//! and a set of the slots that have it. Existence would otherwise be a union of as many lists.

use std::cmp::Ordering;
use std::fmt::Write;
use std::sync::Arc;

use imbl::OrdMap;

use super::heap::{map_nodes, shared, shared_text};
use super::slots::SlotSet;
use super::terms::{Posting, Taken, Terms};

/// A key with more values gets a dictionary of its own.
const FEW: usize = 16;

/// With this few values a key loses its own dictionary again. The gap to `FEW` avoids a rebuild at every change of a
/// key at the limit.
const FEW_AGAIN: usize = FEW / 2;

/// Posting lists of labels. Cloning shares them.
#[derive(Clone, Debug, Default)]
pub(super) struct LabelIndex {
    /// The values of keys with few values, by [`prefix`] and value.
    few: Terms,
    /// The values of keys with many, by key.
    many: OrdMap<Arc<str>, Many>,
}

/// The values of a key with many.
#[derive(Clone, Debug, Default)]
struct Many {
    /// Slots that have the key.
    present: Arc<SlotSet>,
    terms: Terms,
}

/// The prefix of the values of a key. It begins with the length of the key, so that different keys never collide, with
/// any bytes.
fn prefix(key: &str) -> String {
    let mut text = String::with_capacity(key.len() + 72);
    // Writing to a string cannot fail.
    let _ = write!(text, "{}:{key}", key.len());
    text
}

impl LabelIndex {
    /// The slots with this value of the key.
    pub(super) fn posting(&self, key: &str, value: &str) -> Option<Posting<'_>> {
        match self.many.get(key) {
            Some(many) => many.terms.get(value),
            None => self.few.get(&(prefix(key) + value)),
        }
    }

    /// Lists whose union is the slots that have the key.
    pub(super) fn present(&self, key: &str) -> Vec<Posting<'_>> {
        match self.many.get(key) {
            Some(many) => vec![Posting::Set(&many.present)],
            None => self.few_values(key).into_iter().map(|(_, posting)| posting).collect(),
        }
    }

    /// All values of a key, in order, with their slots.
    pub(super) fn values(&self, key: &str) -> impl Iterator<Item = (&str, Posting<'_>)> {
        let many = self.many.get(key);
        let few = if many.is_none() { self.few_values(key) } else { Vec::new() };
        many.into_iter().flat_map(|many| many.terms.iter()).chain(few)
    }

    /// The values of a key with few values, and their posting lists.
    fn few_values(&self, key: &str) -> Vec<(&str, Posting<'_>)> {
        let prefix = prefix(key);
        self.few.with_prefix(&prefix).map(|(text, posting)| (&text[prefix.len()..], posting)).collect()
    }

    /// The number of values of all keys.
    pub(super) fn len(&self) -> usize {
        self.few.len() + self.many.values().map(|many| many.terms.len()).sum::<usize>()
    }

    /// Indexes a change of the labels in a slot: both are sorted by key, each key once.
    pub(super) fn index<'o>(
        &mut self,
        slot: u32,
        before: impl Iterator<Item = (&'o str, &'o str)>,
        after: impl Iterator<Item = (&'o str, &'o str)>,
    ) {
        let (mut before, mut after) = (before.peekable(), after.peekable());
        loop {
            let order = match (before.peek(), after.peek()) {
                (Some((gone, _)), Some((come, _))) => gone.cmp(come),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => return,
            };
            let gone = if order.is_le() { before.next() } else { None };
            let come = if order.is_ge() { after.next() } else { None };
            match (gone, come) {
                (Some((_, gone)), Some((_, come))) if gone == come => {}
                (Some((key, gone)), Some((_, come))) => {
                    // Inserts first, so that a key that has a dictionary of its own does not lose it.
                    self.insert(key, come, slot);
                    self.remove(key, gone, slot, true);
                }
                (Some((key, gone)), None) => self.remove(key, gone, slot, false),
                (None, Some((key, come))) => self.insert(key, come, slot),
                (None, None) => return,
            }
        }
    }

    /// Adds an object to the posting list of a label.
    fn insert(&mut self, key: &str, value: &str, slot: u32) {
        if self.many.contains_key(key)
            && let Some(many) = self.many.get_mut(key)
        {
            if !many.present.contains(slot) {
                Arc::make_mut(&mut many.present).insert(slot);
            }
            many.terms.insert(value, slot);
            return;
        }
        let mut term = prefix(key);
        let length = term.len();
        term.push_str(value);
        if self.few.insert(&term, slot) {
            term.truncate(length);
            if self.few.with_prefix(&term).nth(FEW).is_some() {
                self.move_to_many(key, term);
            }
        }
    }

    /// Removes an object from the posting list of a label. `stays`: the slot has another value of the key.
    fn remove(&mut self, key: &str, value: &str, slot: u32, stays: bool) {
        if self.many.contains_key(key)
            && let Some(many) = self.many.get_mut(key)
        {
            if !stays {
                Arc::make_mut(&mut many.present).remove(slot);
            }
            many.terms.remove(value, slot);
            if many.terms.len() <= FEW_AGAIN {
                self.move_to_few(key);
            }
            return;
        }
        self.few.remove(&(prefix(key) + value), slot);
    }

    /// Moves a key that has many values now to an index of its own.
    fn move_to_many(&mut self, key: &str, prefix: String) {
        let terms: Vec<String> = self.few.with_prefix(&prefix).map(|(term, _)| term.to_owned()).collect();
        let mut many = Many::default();
        let mut present = SlotSet::default();
        for term in terms {
            let Some(taken) = self.few.take(&term) else { continue };
            match &taken {
                Taken::One(slot) => {
                    present.insert(*slot);
                }
                Taken::Set(set) => present.insert_all(set),
            }
            many.terms.put(&term[prefix.len()..], taken);
        }
        many.present = Arc::new(present);
        self.many.insert(Arc::from(key), many);
    }

    /// Moves a key that has few values now to the shared index.
    fn move_to_few(&mut self, key: &str) {
        let Some(mut many) = self.many.remove(key) else { return };
        let values: Vec<String> = many.terms.iter().map(|(value, _)| value.to_owned()).collect();
        let prefix = prefix(key);
        for value in values {
            if let Some(taken) = many.terms.take(&value) {
                self.few.put(&format!("{prefix}{value}"), taken);
            }
        }
    }

    /// Memory in bytes.
    pub(super) fn held_bytes(&self) -> usize {
        let many = self.many.iter().map(|(key, many)| {
            shared_text(key) + shared::<SlotSet>() + many.present.held_bytes() + many.terms.held_bytes()
        });
        map_nodes::<Arc<str>, Many>(self.many.len()) + self.few.held_bytes() + many.sum::<usize>()
    }
}
