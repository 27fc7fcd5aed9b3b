//! The index of labels: little memory for a key that few objects have, fast for one with many values.
//!
//! Any user of a cluster can invent label keys, so a key must take little more than its text. Keys with few values
//! share one dictionary, whose terms are key and value together. A key with more values has a dictionary of its own,
//! and a set of the slots that have it. Existence would otherwise be a union of as many lists.

use std::cmp::Ordering;
use std::fmt::Write;
use std::sync::Arc;

use imbl::OrdMap;

use super::copies::Copies;
use super::heap::{map_nodes, map_path, shared, shared_text};
use super::slots::SlotSet;
use super::terms::{Posting, Taken, Terms};

/// A key with more values gets a dictionary of its own.
const FEW: usize = 16;

/// With this many values or fewer, a key loses its own dictionary again. The difference to `FEW` avoids a rebuild at
/// every change of a key at the limit.
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

/// The prefix of the terms of a key in the shared dictionary. It begins with the length of the key, so that terms of
/// different keys never collide, whatever characters they have.
fn prefix(key: &str) -> String {
    // Capacity for the length of the key, a colon, and a value of at most 63 bytes.
    let mut text = String::with_capacity(key.len() + 72);
    // Writing to a string cannot fail.
    let _ = write!(text, "{}:{key}", key.len());
    text
}

impl LabelIndex {
    /// The slots with this value of the key; `None` if there are none.
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

    /// The values of a key in the shared dictionary, in order, with their slots.
    fn few_values(&self, key: &str) -> Vec<(&str, Posting<'_>)> {
        let prefix = prefix(key);
        self.few.with_prefix(&prefix).map(|(text, posting)| (&text[prefix.len()..], posting)).collect()
    }

    /// The number of values of all keys.
    pub(super) fn len(&self) -> usize {
        self.few.len() + self.many.values().map(|many| many.terms.len()).sum::<usize>()
    }

    /// Indexes a change of the labels of the object in a slot. Both lists are sorted by key and have each key once.
    pub(super) fn index<'o>(
        &mut self,
        slot: u32,
        before: impl Iterator<Item = (&'o str, &'o str)>,
        after: impl Iterator<Item = (&'o str, &'o str)>,
        copies: &mut Copies,
    ) {
        let (mut before, mut after) = (before.peekable(), after.peekable());
        loop {
            let order = match (before.peek(), after.peek()) {
                (Some((removed, _)), Some((added, _))) => removed.cmp(added),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => return,
            };
            let removed = if order.is_le() { before.next() } else { None };
            let added = if order.is_ge() { after.next() } else { None };
            match (removed, added) {
                (Some((_, old)), Some((_, new))) if old == new => {}
                (Some((key, old)), Some((_, new))) => {
                    // Inserts first, so that a key that has a dictionary of its own does not lose it.
                    self.insert(key, new, slot, copies);
                    self.remove(key, old, slot, true, copies);
                }
                (Some((key, old)), None) => self.remove(key, old, slot, false, copies),
                (None, Some((key, new))) => self.insert(key, new, slot, copies),
                (None, None) => return,
            }
        }
    }

    /// Adds the object in a slot to the posting list of a label.
    fn insert(&mut self, key: &str, value: &str, slot: u32, copies: &mut Copies) {
        let path = self.path();
        // `get_mut` alone would copy shared nodes of the map even if the key is not in it.
        if self.many.contains_key(key)
            && let Some(many) = self.many.get_mut(key)
        {
            copies.within(path, |copies| {
                if !many.present.contains(slot) {
                    copies.make_mut(&mut many.present).insert(slot, copies);
                }
                many.terms.insert(value, slot, copies);
            });
            return;
        }
        let mut term = prefix(key);
        let length = term.len();
        term.push_str(value);
        // A new value of the key can be the first one beyond `FEW`.
        if self.few.insert(&term, slot, copies) {
            term.truncate(length);
            if self.few.with_prefix(&term).nth(FEW).is_some() {
                self.move_to_many(key, term, copies);
            }
        }
    }

    /// Removes the object in a slot from the posting list of a label. `has_new_value`: the object now has another value
    /// of the key, so it still has the key.
    fn remove(&mut self, key: &str, value: &str, slot: u32, has_new_value: bool, copies: &mut Copies) {
        let path = self.path();
        // `get_mut` alone would copy shared nodes of the map even if the key is not in it.
        if self.many.contains_key(key)
            && let Some(many) = self.many.get_mut(key)
        {
            copies.within(path, |copies| {
                if !has_new_value {
                    copies.make_mut(&mut many.present).remove(slot, copies);
                }
                many.terms.remove(value, slot, copies);
            });
            if many.terms.len() <= FEW_AGAIN {
                self.move_to_few(key, copies);
            }
            return;
        }
        self.few.remove(&(prefix(key) + value), slot, copies);
    }

    /// Moves a key that now has many values to a dictionary of its own. `prefix` is the [`prefix`] of the key.
    fn move_to_many(&mut self, key: &str, prefix: String, copies: &mut Copies) {
        let terms: Vec<String> = self.few.with_prefix(&prefix).map(|(term, _)| term.to_owned()).collect();
        let mut many = Many::default();
        let mut present = SlotSet::default();
        for term in terms {
            let Some(taken) = self.few.take(&term, copies) else { continue };
            match &taken {
                Taken::One(slot) => {
                    present.insert(*slot, copies);
                }
                Taken::Set(set) => present.insert_all(set, copies),
            }
            many.terms.put(&term[prefix.len()..], taken, copies);
        }
        many.present = Arc::new(present);
        copies.add(self.path());
        self.many.insert(Arc::from(key), many);
    }

    /// Moves a key that now has few values to the shared dictionary.
    fn move_to_few(&mut self, key: &str, copies: &mut Copies) {
        // The map may copy and join neighbours of the node that had the key.
        copies.add(2 * self.path());
        let Some((shared_key, mut many)) = self.many.remove_with_key(key) else { return };
        copies.add(shared_text(&shared_key));
        SlotSet::drop_shared(&many.present, copies);
        let values: Vec<String> = many.terms.iter().map(|(value, _)| value.to_owned()).collect();
        let prefix = prefix(key);
        for value in values {
            if let Some(taken) = many.terms.take(&value, copies) {
                self.few.put(&format!("{prefix}{value}"), taken, copies);
            }
        }
    }

    /// Memory of the nodes on the path to a key with many values, in bytes.
    fn path(&self) -> usize {
        map_path::<Arc<str>, Many>(self.many.len())
    }

    /// Memory in bytes.
    pub(super) fn held_bytes(&self) -> usize {
        let many = self.many.iter().map(|(key, many)| {
            shared_text(key) + shared::<SlotSet>() + many.present.held_bytes() + many.terms.held_bytes()
        });
        map_nodes::<Arc<str>, Many>(self.many.len()) + self.few.held_bytes() + many.sum::<usize>()
    }
}
