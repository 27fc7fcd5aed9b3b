//! The values of one attribute in order, each with its slots: Lucene's term dictionary.
//!
//! Terms are stored in blocks of up to [`MOST`] with joined texts. So a value of a single object takes its text and a
//! few bytes. Blocks are shared with snapshots: a change copies one block. The order serves sets, existence, ranges and
//! prefixes.

use std::ops::Bound;
use std::sync::Arc;

use imbl::OrdMap;

use super::copies::{Copies, CopyOnWrite};
use super::heap::{allocated, map_nodes, map_path, shared, shared_text};
use super::slots::SlotSet;

/// The slots of one value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Posting<'t> {
    /// Exactly one slot.
    One(u32),
    /// Any number, mostly two or more.
    Set(&'t SlotSet),
}

/// The slots of one value, taken out of a dictionary.
#[derive(Debug)]
pub(super) enum Taken {
    One(u32),
    Set(Arc<SlotSet>),
}

/// The maximum number of terms in a block; a block with more is split.
const MOST: usize = 128;

/// The maximum length of the texts of a block with several terms, in bytes; a block with more is split. A change copies
/// a whole block. Blocks of usual texts have [`MOST`] terms before they have this length.
const MOST_BYTES: usize = 16 << 10;

/// The maximum length of the texts of a block after two were joined, in bytes.
const JOINED_BYTES: usize = MOST_BYTES / 2;

/// A block with fewer terms is joined with the one before it, if both fit.
const FEWEST: usize = MOST / 4;

/// The maximum number of terms in a block after two were joined: the rest of its capacity is free for insertions.
const JOINED: usize = MOST * 15 / 16;

/// A block grows by this many terms at a time.
const ROOM: usize = 8;

/// The term dictionary of one attribute. Cloning shares it.
#[derive(Clone, Debug, Default)]
pub(super) struct Terms {
    /// By a text that is not above any term of the block and above every term of the block before.
    blocks: OrdMap<Arc<str>, Arc<Block>>,
    len: usize,
}

/// Some neighbouring terms.
#[derive(Clone, Debug, Default)]
struct Block {
    /// All texts, joined.
    texts: String,
    /// Where each text ends.
    ends: Vec<u32>,
    /// For each term, its slot if it has only one. Otherwise the sum of [`IN_SETS`] and a position in `sets`.
    slots: Vec<u32>,
    /// The slots of the terms with several slots, in any order.
    sets: Vec<Arc<SlotSet>>,
}

/// Marks a position in `sets`. Stores have far fewer objects than this.
const IN_SETS: u32 = 1 << 31;

impl Posting<'_> {
    /// The number of slots.
    pub fn len(&self) -> u64 {
        match self {
            Posting::One(_) => 1,
            Posting::Set(slots) => slots.len(),
        }
    }

    /// Never true: an empty list is removed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the list has a slot.
    pub fn contains(&self, slot: u32) -> bool {
        match self {
            Posting::One(only) => *only == slot,
            Posting::Set(slots) => slots.contains(slot),
        }
    }

    /// The number of slots that the list and a set have in common. `bits`: those of the set.
    pub fn intersection_len(&self, bits: &[u64], set: &SlotSet) -> u64 {
        match self {
            Posting::One(slot) => u64::from(set.contains(*slot)),
            Posting::Set(slots) => slots.intersection_len_in(bits, set),
        }
    }

    /// Adds the slots to `set`.
    pub fn add_to(&self, set: &mut roaring::RoaringBitmap) {
        match self {
            Posting::One(slot) => {
                set.insert(*slot);
            }
            Posting::Set(slots) => slots.add_to(set),
        }
    }

    /// The slots as a bitmap.
    pub fn to_bitmap(&self) -> roaring::RoaringBitmap {
        let mut set = roaring::RoaringBitmap::new();
        self.add_to(&mut set);
        set
    }
}

impl Block {
    fn len(&self) -> usize {
        self.ends.len()
    }

    /// Where the text at this index begins.
    fn start(&self, index: usize) -> usize {
        index.checked_sub(1).map_or(0, |before| self.ends[before] as usize)
    }

    /// The text at this index.
    fn text(&self, index: usize) -> &str {
        &self.texts[self.start(index)..self.ends[index] as usize]
    }

    /// The index of a text; `Err` is where it would be inserted.
    fn find(&self, text: &str) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            match self.text(middle).cmp(text) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return Ok(middle),
            }
        }
        Err(low)
    }

    /// The posting list at this index.
    fn posting(&self, index: usize) -> Posting<'_> {
        match self.slots[index] {
            position if position >= IN_SETS => Posting::Set(&self.sets[(position - IN_SETS) as usize]),
            slot => Posting::One(slot),
        }
    }

    /// Adds a slot to the term at this index.
    fn add(&mut self, index: usize, slot: u32, copies: &mut Copies) {
        match self.slots[index] {
            position if position >= IN_SETS => {
                copies.make_mut(&mut self.sets[(position - IN_SETS) as usize]).insert(slot, copies);
            }
            existing if existing == slot => {}
            existing => {
                self.slots[index] = IN_SETS + short(self.sets.len());
                self.sets.reserve_exact(1);
                self.sets.push(Arc::new(SlotSet::pair(existing, slot)));
            }
        }
    }

    /// Removes a slot from the term at this index. False when it is the only slot: the term stays, and the caller must
    /// remove it.
    fn remove_slot(&mut self, index: usize, slot: u32, copies: &mut Copies) -> bool {
        let position = match self.slots[index] {
            position if position >= IN_SETS => (position - IN_SETS) as usize,
            existing => return existing != slot,
        };
        let set = copies.make_mut(&mut self.sets[position]);
        set.remove(slot, copies);
        if let (1, Some(last)) = (set.len(), set.min()) {
            self.slots[index] = last;
            self.drop_set(position);
        }
        true
    }

    /// Drops a set that no term refers to. The last set moves to its position.
    fn drop_set(&mut self, position: usize) {
        let moved = IN_SETS + short(self.sets.len() - 1);
        self.sets.swap_remove(position);
        if let Some(reference) = self.slots.iter_mut().find(|existing| **existing == moved) {
            *reference = IN_SETS + short(position);
        }
    }

    /// Inserts a term with one slot. `index` is where [`Block::find`] places it.
    fn insert(&mut self, index: usize, text: &str, slot: u32) {
        let start = self.start(index);
        // Reserves capacity for a few more, instead of doubling it: most blocks rarely change.
        if self.ends.len() == self.ends.capacity() {
            self.ends.reserve_exact(ROOM);
            self.slots.reserve_exact(ROOM);
        }
        if self.texts.len() + text.len() > self.texts.capacity() {
            self.texts.reserve_exact((ROOM * text.len()).min(MOST_BYTES / ROOM).max(text.len()));
        }
        self.texts.insert_str(start, text);
        let length = short(text.len());
        self.ends.insert(index, short(start));
        for end in &mut self.ends[index..] {
            *end += length;
        }
        self.slots.insert(index, slot);
    }

    /// Removes the term at this index, which must have no set in `sets`.
    fn remove(&mut self, index: usize) {
        let range = self.start(index)..self.ends[index] as usize;
        let length = short(range.len());
        self.texts.replace_range(range, "");
        self.ends.remove(index);
        for end in &mut self.ends[index..] {
            *end -= length;
        }
        self.slots.remove(index);
    }

    /// Moves the terms from `index` on to a new block.
    fn split_off(&mut self, index: usize) -> Block {
        let start = self.start(index);
        let texts = self.texts.split_off(start);
        let ends = self.ends.split_off(index).into_iter().map(|end| end - short(start)).collect();
        let mut upper = Block { texts, ends, slots: self.slots.split_off(index), sets: Vec::new() };
        let sets = std::mem::take(&mut self.sets);
        for (slots, own) in [(&mut self.slots, &mut self.sets), (&mut upper.slots, &mut upper.sets)] {
            for slot in slots.iter_mut().filter(|slot| **slot >= IN_SETS) {
                own.push(sets[(*slot - IN_SETS) as usize].clone());
                *slot = IN_SETS + short(own.len() - 1);
            }
        }
        upper
    }

    /// Frees unused capacity.
    fn shrink_to_fit(&mut self) {
        self.texts.shrink_to_fit();
        self.ends.shrink_to_fit();
        self.slots.shrink_to_fit();
        self.sets.shrink_to_fit();
    }

    /// Appends the terms of another block, which must all come after those of this one.
    fn append(&mut self, other: &Block) {
        let shift = short(self.texts.len());
        self.texts.push_str(&other.texts);
        self.ends.extend(other.ends.iter().map(|end| end + shift));
        let sets = short(self.sets.len());
        self.slots.extend(other.slots.iter().map(|slot| if *slot >= IN_SETS { slot + sets } else { *slot }));
        self.sets.extend(other.sets.iter().cloned());
    }

    /// Removes the term at this index and returns its slots.
    fn take_whole(&mut self, index: usize) -> Taken {
        let taken = match self.slots[index] {
            position if position >= IN_SETS => {
                let position = (position - IN_SETS) as usize;
                let set = self.sets[position].clone();
                self.drop_set(position);
                Taken::Set(set)
            }
            slot => Taken::One(slot),
        };
        self.remove(index);
        taken
    }

    fn held_bytes(&self) -> usize {
        let sets: usize = self.sets.iter().map(|set| shared::<SlotSet>() + set.held_bytes()).sum();
        self.own_bytes() + sets
    }

    /// Whether the block must be split.
    fn is_too_large(&self) -> bool {
        self.len() > MOST || (self.texts.len() > MOST_BYTES && self.len() > 1)
    }

    /// The index of the first term of the upper block when this block is split, after a term was inserted at `inserted`.
    fn middle(&self, inserted: usize) -> usize {
        // Values that only increase, such as counters and times, fill their blocks. Other blocks are split in the
        // middle.
        if inserted + 1 == self.len() {
            return JOINED.min(inserted);
        }
        let half = self.texts.len() / 2;
        let middle = self.ends.partition_point(|end| *end as usize <= half);
        if self.len() > MOST { MOST / 2 } else { middle.clamp(1, self.len() - 1) }
    }
}

impl CopyOnWrite for Block {
    fn own_bytes(&self) -> usize {
        shared::<Block>()
            + allocated(self.texts.capacity())
            + allocated(self.ends.capacity() * size_of::<u32>())
            + allocated(self.slots.capacity() * size_of::<u32>())
            + allocated(self.sets.capacity() * size_of::<usize>())
    }
}

/// A length as 32 bits. Invariant: the texts of one block stay far below 4 GiB. A term is a part of an object, and etcd
/// stores objects of a few MiB at most.
fn short(length: usize) -> u32 {
    u32::try_from(length).expect("the texts of one block must be shorter than 4 GiB")
}

/// The shortest beginning of `text` that is after `below`, which must be before `text`.
fn separator<'t>(below: &str, text: &'t str) -> &'t str {
    let same = below.bytes().zip(text.bytes()).take_while(|(below, text)| below == text).count();
    // The first character that differs belongs to the separator.
    &text[..text.ceil_char_boundary(same + 1)]
}

impl Terms {
    /// The number of values.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The slots of a value; `None` if no object has the value.
    pub(super) fn get(&self, text: &str) -> Option<Posting<'_>> {
        let (_, block) = self.blocks.get_prev(text)?;
        block.find(text).ok().map(|index| block.posting(index))
    }

    /// All values in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, Posting<'_>)> {
        self.blocks
            .iter()
            .flat_map(|(_, block)| (0..block.len()).map(|index| (block.text(index), block.posting(index))))
    }

    /// All values that begin with a prefix, in order.
    pub(super) fn with_prefix<'t, 'p>(
        &'t self,
        prefix: &'p str,
    ) -> impl Iterator<Item = (&'t str, Posting<'t>)> + use<'t, 'p> {
        self.from(prefix).take_while(move |(text, _)| text.starts_with(prefix))
    }

    /// All values that are not before `text`, in order.
    pub(super) fn from<'t>(&'t self, text: &str) -> impl Iterator<Item = (&'t str, Posting<'t>)> + use<'t> {
        let first = self.blocks.get_prev(text).map(|(bound, block)| {
            let (Ok(index) | Err(index)) = block.find(text);
            (Bound::Included(&**bound), index)
        });
        let (bound, skip) = first.unwrap_or((Bound::Unbounded, 0));
        self.blocks
            .range::<_, str>((bound, Bound::Unbounded))
            .flat_map(|(_, block)| (0..block.len()).map(move |index| (block, index)))
            .skip(skip)
            .map(|(block, index)| (block.text(index), block.posting(index)))
    }

    /// All values that are not after `text` (`None`: all), from the last one to the first.
    pub(super) fn back_from<'t>(
        &'t self,
        text: Option<&str>,
    ) -> impl Iterator<Item = (&'t str, Posting<'t>)> + use<'t> {
        let last = text.and_then(|text| self.blocks.get_prev(text).zip(Some(text))).map(|((bound, block), text)| {
            let after = block.find(text).map_or_else(|index| index, |index| index + 1);
            (Bound::Included(&**bound), block.len() - after)
        });
        let (bound, skip) = last.unwrap_or((Bound::Unbounded, 0));
        self.blocks
            .range::<_, str>((Bound::Unbounded, bound))
            .rev()
            .flat_map(|(_, block)| (0..block.len()).rev().map(move |index| (block, index)))
            .skip(skip)
            .map(|(block, index)| (block.text(index), block.posting(index)))
    }

    /// Removes a value and returns its slots; `None` if no object has the value.
    pub(super) fn take(&mut self, text: &str, copies: &mut Copies) -> Option<Taken> {
        let path = self.path();
        let (_, block) = self.blocks.get_prev(text)?;
        let index = block.find(text).ok()?;
        // Only now that the value is known to exist: this copies the block if a snapshot shares it.
        let (_, block) = self.blocks.get_prev_mut(text)?;
        let block = copies.make_mut_in(path, block);
        let taken = block.take_whole(index);
        self.len -= 1;
        if block.len() < FEWEST {
            self.join(text, copies);
        }
        Some(taken)
    }

    /// Inserts a new value with its slots.
    pub(super) fn put(&mut self, text: &str, taken: Taken, copies: &mut Copies) {
        match taken {
            Taken::One(slot) => {
                self.insert(text, slot, copies);
            }
            Taken::Set(set) => {
                // The slot 0 is a placeholder, which the set replaces.
                self.insert(text, 0, copies);
                let Some((_, block)) = self.blocks.get_prev_mut(text) else { return };
                let block = copies.make_mut(block);
                if let Ok(index) = block.find(text) {
                    block.slots[index] = IN_SETS + short(block.sets.len());
                    block.sets.reserve_exact(1);
                    block.sets.push(set);
                }
            }
        }
    }

    /// Adds a slot to a value; true when the value is new.
    pub(super) fn insert(&mut self, text: &str, slot: u32, copies: &mut Copies) -> bool {
        let path = self.path();
        if self.blocks.is_empty() {
            // The first block has the lowest bound, so that every text finds one.
            self.blocks.insert(Arc::from(""), Arc::default());
        }
        let Some((_, block)) = self.blocks.get_prev_mut(text) else { return false };
        let block = copies.make_mut_in(path, block);
        let index = match block.find(text) {
            Ok(index) => {
                block.add(index, slot, copies);
                return false;
            }
            Err(index) => index,
        };
        block.insert(index, text, slot);
        self.len += 1;
        if block.is_too_large() {
            let upper = block.split_off(block.middle(index));
            block.shrink_to_fit();
            let bound = Arc::from(separator(block.text(block.len() - 1), upper.text(0)));
            copies.add(path);
            self.blocks.insert(bound, Arc::new(upper));
        }
        true
    }

    /// Removes a slot from a value, and the value if this was its last slot. Returns whether the value was removed.
    pub(super) fn remove(&mut self, text: &str, slot: u32, copies: &mut Copies) -> bool {
        let path = self.path();
        let Some((_, block)) = self.blocks.get_prev(text) else { return false };
        let Ok(index) = block.find(text) else { return false };
        // Only now that the value is known to exist: this copies the block if a snapshot shares it.
        let Some((_, block)) = self.blocks.get_prev_mut(text) else { return false };
        let block = copies.make_mut_in(path, block);
        if block.remove_slot(index, slot, copies) {
            return false;
        }
        block.remove(index);
        self.len -= 1;
        if block.len() < FEWEST {
            self.join(text, copies);
        }
        true
    }

    /// Joins the block of `text` with the previous one if both fit; removes an empty block.
    fn join(&mut self, text: &str, copies: &mut Copies) {
        let path = self.path();
        let Some((bound, block)) = self.blocks.get_prev(text).map(|(bound, block)| (bound.clone(), block.clone()))
        else {
            return;
        };
        if bound.is_empty() {
            // The first block has none before it. The second block is joined to it when the second one shrinks.
            if self.len == 0 {
                self.blocks.clear();
            }
            return;
        }
        let before = self.blocks.range::<_, str>((Bound::Unbounded, Bound::Excluded(&*bound))).next_back();
        let fits = |before: &Block| {
            let is_short = before.texts.len() + block.texts.len() <= JOINED_BYTES;
            block.len() == 0 || (is_short && before.len() + block.len() <= JOINED)
        };
        let Some(before) = before.filter(|(_, before)| fits(before)).map(|(before, _)| before.clone()) else {
            return;
        };
        // The map may copy and join neighbours of the node that had the block.
        copies.add(2 * path + shared_text(&bound));
        self.blocks.remove(&bound);
        if block.len() > 0
            && let Some(previous) = self.blocks.get_mut(&before)
        {
            copies.make_mut_in(path, previous).append(&block);
        }
    }

    /// Memory of the nodes on the path to a block, in bytes.
    fn path(&self) -> usize {
        map_path::<Arc<str>, Arc<Block>>(self.blocks.len())
    }

    /// Memory in bytes.
    pub(super) fn held_bytes(&self) -> usize {
        let blocks: usize = self.blocks.iter().map(|(bound, block)| shared_text(bound) + block.held_bytes()).sum();
        map_nodes::<Arc<str>, Arc<Block>>(self.blocks.len()) + blocks
    }
}
