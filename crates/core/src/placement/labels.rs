//! The labels of an object, compact and immutable, because the index has a hundred thousand of them.
//!
//! One text and its cuts instead of a map of strings: a Pod's eight labels take two allocations, and comparing two sets
//! compares two texts. Nothing is interned: values such as the name of a Job come and go for ever, and a table of them
//! would only grow.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::effort;
use super::pool::Held;

/// The maximum number of labels in which [`PackedLabels::get`] compares one key after the other. It searches more
/// labels by bisection.
const FEW: usize = 16;

/// Labels, sorted by key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct PackedLabels {
    /// All keys and values, concatenated: the first key, its value, the second key, and so on.
    text: Box<str>,
    /// Where each key and each value ends in `text`, in bytes.
    ends: Box<[u32]>,
}

impl Held for PackedLabels {
    fn held_bytes(&self) -> u64 {
        (self.text.len() + 4 * self.ends.len()) as u64
    }
}

impl PackedLabels {
    /// Packs a map of labels.
    pub(super) fn new(labels: &BTreeMap<String, String>) -> PackedLabels {
        let mut text = String::new();
        let mut ends = Vec::with_capacity(labels.len() * 2);
        for part in labels.iter().flat_map(|(key, value)| [key, value]) {
            // Objects are a few megabytes at most, so that an end always fits; one that did not would cut its text
            // short.
            text.push_str(part);
            ends.push(u32::try_from(text.len()).unwrap_or(u32::MAX));
        }
        PackedLabels { text: text.into(), ends: ends.into() }
    }

    /// The value of a key; `None` if there is no such label.
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        if self.ends.len() > 2 * FEW {
            return self.search(key);
        }
        // A handful of short keys: comparing their lengths rules most of them out, which beats a search in order.
        effort::note(self.ends.len() / 2);
        let bytes = self.text.as_bytes();
        let mut start = 0;
        for ends in self.ends.chunks_exact(2) {
            let (key_end, value_end) = (ends[0] as usize, ends[1] as usize);
            if key_end - start == key.len() && &bytes[start..key_end] == key.as_bytes() {
                return self.text.get(key_end..value_end);
            }
            start = value_end;
        }
        None
    }

    /// The value of a key among many labels, by bisection. A selector may have as many requirements as there are
    /// labels, so that a search of all keys for each would be slow.
    fn search(&self, key: &str) -> Option<&str> {
        let end = |index: usize| self.ends.get(index).map_or(0, |end| *end as usize);
        let (mut low, mut high) = (0, self.ends.len() / 2);
        while low < high {
            effort::note(1);
            let middle = low + (high - low) / 2;
            let start = if middle == 0 { 0 } else { end(2 * middle - 1) };
            let key_end = end(2 * middle);
            match self.part(start, key_end).cmp(key) {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => return self.text.get(key_end..end(2 * middle + 1)),
            }
        }
        None
    }

    /// Keys and values, sorted by key.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut start = 0;
        self.ends.chunks_exact(2).map(move |ends| {
            let (key_end, value_end) = (ends[0] as usize, ends[1] as usize);
            let pair = (self.part(start, key_end), self.part(key_end, value_end));
            start = value_end;
            pair
        })
    }

    /// The text from byte `start` to byte `end`.
    fn part(&self, start: usize, end: usize) -> &str {
        self.text.get(start..end).unwrap_or_default()
    }
}
