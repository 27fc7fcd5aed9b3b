//! Sets of slots that are shared with snapshots: one change copies one small part, never the whole set.
//!
//! A slot is the number of an object within its store. A small set is one sorted array. A large one has a roaring
//! bitmap for each 65,536 slots, each behind its own pointer. Otherwise the first change after every published snapshot
//! would copy a bitmap over all objects. `postings` defines what the sets are about, and `query::plan` combines them.

use std::sync::Arc;

use roaring::RoaringBitmap;

use super::copies::{Copies, CopyOnWrite};
use super::heap::{allocated, shared};

/// A set of up to this many slots is one array: 1 KiB, less than any bitmap with its pointers.
const FEW: usize = 256;

/// A part with more slots than this is a bitmap in roaring.
const DENSE: u64 = 4096;

/// A set of slots.
#[derive(Clone, Debug, Default)]
pub struct SlotSet {
    form: Form,
    len: u64,
}

/// How a set is stored, by its size: see [`FEW`].
#[derive(Clone, Debug)]
enum Form {
    /// All slots, sorted.
    Few(Vec<u32>),
    /// The part at an index has the slots whose upper 16 bits are that index. It stores whole slots, so that parts
    /// combine without conversion.
    Many(Vec<Option<Arc<RoaringBitmap>>>),
}

impl Default for Form {
    fn default() -> Form {
        Form::Few(Vec::new())
    }
}

/// The index of the part that a slot belongs to.
fn part_of(slot: u32) -> usize {
    (slot >> 16) as usize
}

impl SlotSet {
    /// A set of two slots.
    pub(super) fn pair(one: u32, other: u32) -> SlotSet {
        let mut set = SlotSet { form: Form::Few(Vec::with_capacity(2)), len: 0 };
        // Nothing shares a new set.
        set.insert(one, &mut Copies::default());
        set.insert(other, &mut Copies::default());
        set
    }

    /// The number of slots.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether the set has a slot.
    pub fn contains(&self, slot: u32) -> bool {
        match &self.form {
            Form::Few(slots) => slots.binary_search(&slot).is_ok(),
            Form::Many(parts) => {
                parts.get(part_of(slot)).and_then(Option::as_ref).is_some_and(|part| part.contains(slot))
            }
        }
    }

    /// The lowest slot; `None` if the set is empty.
    pub fn min(&self) -> Option<u32> {
        match &self.form {
            Form::Few(slots) => slots.first().copied(),
            Form::Many(parts) => parts.iter().flatten().find_map(|part| part.min()),
        }
    }

    /// Adds the slots to `set`.
    pub fn add_to(&self, set: &mut RoaringBitmap) {
        match &self.form {
            Form::Few(slots) => set.extend(slots.iter().copied()),
            Form::Many(parts) => {
                for part in parts.iter().flatten() {
                    *set |= &**part;
                }
            }
        }
    }

    /// The set as a bitmap.
    pub fn to_bitmap(&self) -> RoaringBitmap {
        let mut set = RoaringBitmap::new();
        self.add_to(&mut set);
        set
    }

    /// Retains in `set` only the slots of this set.
    pub fn intersect(&self, set: &mut RoaringBitmap) {
        match &self.form {
            Form::Few(slots) => *set = slots.iter().copied().filter(|slot| set.contains(*slot)).collect(),
            Form::Many(parts) => {
                let mut kept = RoaringBitmap::new();
                for part in parts.iter().flatten() {
                    kept |= &*set & &**part;
                }
                *set = kept;
            }
        }
    }

    /// Removes the slots from `set`.
    pub fn subtract_from(&self, set: &mut RoaringBitmap) {
        match &self.form {
            Form::Few(slots) => {
                for slot in slots {
                    set.remove(*slot);
                }
            }
            Form::Many(parts) => {
                for part in parts.iter().flatten() {
                    *set -= &**part;
                }
            }
        }
    }

    /// The number of slots that both sets have.
    pub fn intersection_len(&self, other: &SlotSet) -> u64 {
        match (&self.form, &other.form) {
            (Form::Many(parts), Form::Many(others)) => {
                let pairs = parts.iter().zip(others).filter_map(|(part, other)| part.as_ref().zip(other.as_ref()));
                pairs.map(|(part, other)| part.intersection_len(other)).sum()
            }
            (Form::Few(slots), Form::Many(_)) => slots.iter().filter(|slot| other.contains(**slot)).count() as u64,
            (_, Form::Few(slots)) => slots.iter().filter(|slot| self.contains(**slot)).count() as u64,
        }
    }

    /// The number of slots whose bit is set in `bits`, from the lowest bit of each word on. `other` is the same set. A
    /// lookup of a bit is cheaper than a comparison of two sparse sets.
    pub fn intersection_len_in(&self, bits: &[u64], other: &SlotSet) -> u64 {
        let is_set = |slot: &u32| bits.get((slot >> 6) as usize).is_some_and(|word| word >> (slot & 63) & 1 == 1);
        match &self.form {
            Form::Few(slots) => slots.iter().filter(|slot| is_set(slot)).count() as u64,
            // Its parts are mostly bitmaps, which are compared word by word.
            Form::Many(parts) if self.len > parts.len() as u64 * DENSE => self.intersection_len(other),
            Form::Many(parts) => parts.iter().flatten().map(|part| part.iter().filter(is_set).count() as u64).sum(),
        }
    }

    /// The bits of all slots, from the lowest bit of each word on.
    pub fn bits(&self) -> Vec<u64> {
        let mut bits = Vec::new();
        for slot in &self.to_bitmap() {
            let word = (slot >> 6) as usize;
            if bits.len() <= word {
                bits.resize(word + 1, 0);
            }
            bits[word] |= 1 << (slot & 63);
        }
        bits
    }

    /// Adds a slot; false when it is in the set already.
    pub(super) fn insert(&mut self, slot: u32, copies: &mut Copies) -> bool {
        let is_new = match &mut self.form {
            Form::Few(slots) => match slots.binary_search(&slot) {
                Ok(_) => false,
                Err(position) => {
                    slots.insert(position, slot);
                    true
                }
            },
            Form::Many(parts) => {
                let position = part_of(slot);
                if parts.len() <= position {
                    parts.resize(position + 1, None);
                }
                copies.make_mut(parts[position].get_or_insert_default()).insert(slot)
            }
        };
        self.len += u64::from(is_new);
        if let Form::Few(slots) = &self.form
            && slots.len() > FEW
        {
            // The set gets the other form: it is emptied, and all slots are inserted again.
            let slots = std::mem::take(self);
            self.form = Form::Many(Vec::new());
            if let Form::Few(slots) = slots.form {
                for slot in slots {
                    self.insert(slot, copies);
                }
            }
        }
        is_new
    }

    /// Adds all slots of another set, part by part.
    pub(super) fn insert_all(&mut self, other: &SlotSet, copies: &mut Copies) {
        match (&mut self.form, &other.form) {
            (Form::Many(parts), Form::Many(others)) => {
                if parts.len() < others.len() {
                    parts.resize(others.len(), None);
                }
                for (part, other) in parts.iter_mut().zip(others) {
                    match (part, other) {
                        (_, None) => {}
                        (part @ None, Some(other)) => *part = Some(other.clone()),
                        (Some(part), Some(other)) => *copies.make_mut(part) |= &**other,
                    }
                }
                self.len = parts.iter().flatten().map(|part| part.len()).sum();
            }
            (Form::Few(_), Form::Many(_)) => {
                let few = std::mem::replace(self, other.clone());
                self.insert_all(&few, copies);
            }
            (_, Form::Few(slots)) => {
                for slot in slots {
                    self.insert(*slot, copies);
                }
            }
        }
    }

    /// Removes a slot; false when it is not in the set.
    pub(super) fn remove(&mut self, slot: u32, copies: &mut Copies) -> bool {
        let was_there = match &mut self.form {
            Form::Few(slots) => match slots.binary_search(&slot) {
                Ok(position) => {
                    slots.remove(position);
                    true
                }
                Err(_) => false,
            },
            Form::Many(parts) => match parts.get_mut(part_of(slot)) {
                Some(Some(part)) if part.contains(slot) => {
                    let part = copies.make_mut(part);
                    part.remove(slot);
                    if part.is_empty() {
                        parts[part_of(slot)] = None;
                    }
                    true
                }
                _ => false,
            },
        };
        self.len -= u64::from(was_there);
        // Half of the threshold, so that a set at its edge does not change its form at every step.
        if let Form::Many(parts) = &self.form
            && self.len <= FEW as u64 / 2
        {
            parts.iter().flatten().for_each(|part| copies.drop_shared(part));
            self.form = Form::Few(self.to_bitmap().into_iter().collect());
        }
        was_there
    }

    /// Counts the parts of a set that is dropped, if a snapshot has them too.
    pub(super) fn drop_shared(set: &Arc<SlotSet>, copies: &mut Copies) {
        if Arc::strong_count(set) > 1 {
            // The snapshot has the parts through this set.
            copies.add(shared::<SlotSet>() + set.held_bytes());
        } else if let Form::Many(parts) = &set.form {
            parts.iter().flatten().for_each(|part| copies.drop_shared(part));
        }
    }

    /// Memory on the heap, in bytes, without the set itself.
    pub(super) fn held_bytes(&self) -> usize {
        match &self.form {
            Form::Few(slots) => allocated(slots.capacity() * size_of::<u32>()),
            Form::Many(parts) => {
                let bitmaps: usize = parts.iter().flatten().map(|part| part_bytes(part)).sum();
                allocated(parts.capacity() * size_of::<usize>()) + bitmaps
            }
        }
    }
}

/// Memory of a part in bytes: its header, capacity for four containers of which it has one, and its slots. The slots of
/// a container that is not a bitmap grow by doubling, so a quarter of their capacity is free.
pub(super) fn part_bytes(part: &RoaringBitmap) -> usize {
    /// Capacity for four containers of 32 bytes.
    const CONTAINERS: usize = 128;
    /// Bytes of the header of a serialized container.
    const SERIAL_HEAD: usize = 16;
    /// A container of this size is a bitmap.
    const BITMAP: usize = 8_192;
    let slots = part.serialized_size().saturating_sub(SERIAL_HEAD);
    let room = if slots >= BITMAP { BITMAP } else { slots + slots / 3 };
    shared::<RoaringBitmap>() + CONTAINERS + allocated(room)
}

impl CopyOnWrite for SlotSet {
    fn own_bytes(&self) -> usize {
        shared::<SlotSet>()
            + match &self.form {
                Form::Few(slots) => allocated(slots.capacity() * size_of::<u32>()),
                Form::Many(parts) => allocated(parts.capacity() * size_of::<Option<Arc<RoaringBitmap>>>()),
            }
    }
}

impl PartialEq for SlotSet {
    fn eq(&self, other: &SlotSet) -> bool {
        self.len == other.len && self.to_bitmap() == other.to_bitmap()
    }
}

impl From<RoaringBitmap> for SlotSet {
    /// The set of the same slots. Divides the bitmap part by part, not slot by slot.
    fn from(slots: RoaringBitmap) -> SlotSet {
        let len = slots.len();
        if len <= FEW as u64 {
            return SlotSet { form: Form::Few(slots.into_iter().collect()), len };
        }
        let part_at = |position: u32| {
            let mut part = RoaringBitmap::new();
            part.insert_range(position << 16..=position << 16 | 0xffff);
            part &= &slots;
            (!part.is_empty()).then(|| Arc::new(part))
        };
        let last = slots.max().map_or(0, |slot| slot >> 16);
        SlotSet { form: Form::Many((0..=last).map(part_at).collect()), len }
    }
}

impl FromIterator<u32> for SlotSet {
    fn from_iter<Iter: IntoIterator<Item = u32>>(slots: Iter) -> SlotSet {
        let mut set = SlotSet::default();
        for slot in slots {
            // Nothing shares a new set.
            set.insert(slot, &mut Copies::default());
        }
        set
    }
}
