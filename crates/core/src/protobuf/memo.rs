//! Caches fields of the last objects, each with its JSON and its encoding.
//!
//! Neighbours in a list share many fields. Pods of one owner have the same probes, mounts, tolerations and managed
//! fields, which are a third of a Pod. A field whose JSON begins with the JSON of an entry is that entry, because
//! brackets show where it ends. It is compared instead of read, and copied instead of written.
//!
//! The memo stores a text at its first occurrence and the encoding at the second one. A field that differs in each
//! object therefore costs one copy. After [`Entry::MOST_MISSES`] such copies an entry is tried only now and then.

use super::table::MessageId;

/// Where a field occurs: its message, its index in that message, and the index of the item if the message is in a list.
/// Fields at the same position of different objects are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FieldPosition {
    pub(super) message: MessageId,
    pub(super) field: u32,
    pub(super) item: u32,
}

/// Fields of the last objects, with their encodings; see the module.
#[derive(Default)]
pub(super) struct Memo {
    entries: Vec<Entry>,
    /// How many objects have been read.
    objects: u64,
    /// The minor version of Kubernetes that the fields are of.
    minor: u32,
    /// Memory of the entries, in bytes.
    bytes: usize,
}

/// A cached field.
#[derive(Default)]
struct Entry {
    position: FieldPosition,
    /// The JSON of its value; empty if the entry is free.
    json: Vec<u8>,
    /// Empty until the same JSON has occurred twice.
    encoded: Vec<u8>,
    /// The number of the last object that refers to the entry. The entry must not change while that object is encoded.
    used_by: u64,
    /// How many texts in a row differed from the stored one; wraps around.
    misses: u8,
}

impl Entry {
    /// After this many misses in a row, an entry stores only each 32nd text.
    const MOST_MISSES: u8 = 4;

    fn held_bytes(&self) -> usize {
        self.json.capacity() + self.encoded.capacity()
    }
}

/// What the memo knows about a field. Entries are given by their index.
pub(super) enum Known {
    /// Its encoding is in this entry. `json` is the length of its JSON and `length` that of its encoding, in bytes.
    Encoded { entry: usize, json: usize, length: usize },
    /// Its JSON occurred before: the caller passes its encoding to [`Memo::encode`].
    Seen(usize),
    /// The field is new: the caller passes its JSON to [`Memo::insert`].
    New(usize),
    /// The memo does not store the field now.
    Nothing,
}

impl Memo {
    /// Number of entries, a power of two. A Pod has some sixty fields whose JSON is in brackets.
    const ENTRIES: usize = 128;

    /// Shorter JSON, in bytes, is not stored: reading it again is as fast.
    const SHORTEST: usize = 24;

    /// Longer JSON, in bytes, is not stored. The managed fields of a Pod's controller have 2.4 KiB, a third of the Pod.
    pub(super) const LONGEST: usize = 4 << 10;

    /// When all entries together exceed this, in bytes, no new field is stored. Those of a Pod are some 15 KiB.
    pub(super) const MOST_HELD: usize = 64 << 10;

    /// Begins the next object, of this minor version. During the first object nothing is stored: a single object has no
    /// neighbours. A memo that is too large is emptied.
    pub(super) fn begin(&mut self, minor: u32) {
        if self.minor != minor {
            *self = Memo { minor, ..Memo::default() };
        }
        self.objects += 1;
        if self.objects == 2 || self.bytes > Memo::MOST_HELD {
            self.entries.clear();
            self.entries.resize_with(Memo::ENTRIES, Entry::default);
            self.bytes = 0;
        }
    }

    /// Looks for a field. `json` is the rest of the object from the value of the field on.
    pub(super) fn find(&mut self, position: FieldPosition, json: &[u8]) -> Known {
        let FieldPosition { message, field, item } = position;
        // The odd factors spread the fields of a message, and of the items of a list, over the entries.
        let place = message.wrapping_mul(31).wrapping_add(field).wrapping_add(item.wrapping_mul(61));
        let place = place as usize % Memo::ENTRIES;
        let Some(entry) = self.entries.get_mut(place) else { return Known::Nothing };
        let is_kept = entry.position == position && !entry.json.is_empty() && json.starts_with(&entry.json);
        if is_kept {
            entry.misses = 0;
            if !entry.encoded.is_empty() {
                entry.used_by = self.objects;
                return Known::Encoded { entry: place, json: entry.json.len(), length: entry.encoded.len() };
            }
            return Known::Seen(place);
        }
        if entry.used_by == self.objects {
            return Known::Nothing;
        }
        entry.misses = entry.misses.wrapping_add(1);
        if entry.misses > Entry::MOST_MISSES && !entry.misses.is_multiple_of(32) {
            return Known::Nothing;
        }
        Known::New(place)
    }

    /// Stores the JSON of a field in an entry that [`Known::New`] returned. Does nothing if the object has used the
    /// entry meanwhile, or if the memo is full. Too short or too long JSON leaves the entry free.
    pub(super) fn insert(&mut self, entry: usize, position: FieldPosition, json: &[u8]) {
        let is_full = self.bytes > Memo::MOST_HELD;
        // An inner field of the same object may have taken the entry meanwhile.
        let entry = self.entries.get_mut(entry).filter(|entry| entry.used_by != self.objects && !is_full);
        let Some(entry) = entry else { return };
        let before = entry.held_bytes();
        entry.position = position;
        entry.encoded.clear();
        entry.json.clear();
        if (Memo::SHORTEST..=Memo::LONGEST).contains(&json.len()) {
            entry.json.extend_from_slice(json);
        }
        self.bytes += entry.held_bytes() - before;
    }

    /// Stores the encoding of a field that occurred before, in the entry at `place` that [`Known::Seen`] returned.
    /// Does nothing, and does not call `write`, if another field has taken the entry, or if the current object already
    /// refers to the entry: it must not change until that object is written. `write` appends the encoding, and may
    /// copy encodings of other entries.
    pub(super) fn encode(
        &mut self,
        place: usize,
        position: FieldPosition,
        json: &[u8],
        write: impl FnOnce(&Memo, &mut Vec<u8>),
    ) {
        let belongs = |entry: &Entry| entry.used_by != self.objects && entry.position == position && entry.json == json;
        if !self.entries.get(place).is_some_and(belongs) {
            return;
        }
        let mut encoded = Vec::new();
        write(self, &mut encoded);
        self.bytes += encoded.capacity();
        self.entries[place].encoded = encoded;
    }

    /// Memory of all entries, in bytes.
    #[cfg(test)]
    pub(super) fn held_bytes(&self) -> usize {
        assert_eq!(
            self.bytes,
            self.entries.iter().map(Entry::held_bytes).sum::<usize>(),
            "the count equals the memory of the entries"
        );
        self.bytes
    }

    /// The encoding that an entry has; empty if it has none.
    pub(super) fn encoded(&self, entry: usize) -> &[u8] {
        self.entries.get(entry).map_or(&[], |entry| &entry.encoded)
    }
}
