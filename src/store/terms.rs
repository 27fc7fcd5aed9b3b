//! The values of one attribute in order, each with its slots: Lucene's term dictionary.
//!
//! Terms stand in blocks of up to [`MOST`], their texts joined, so that a value which only one object has costs its text
//! and a few bytes. Blocks are shared with snapshots: a change copies one block. The order serves sets and existence now,
//! ranges and prefixes later, without another structure.

use std::ops::Bound;
use std::sync::Arc;

use imbl::OrdMap;

use super::slots::SlotSet;

/// The slots of one value.
#[derive(Clone, Debug, PartialEq)]
pub enum Posting {
    /// Exactly one slot.
    One(u32),
    /// Two or more.
    Set(Arc<SlotSet>),
}

/// Most terms of a block; a full one is split.
const MOST: usize = 128;

/// Below this many terms a block is joined with its neighbour where both fit.
const FEWEST: usize = MOST / 4;

/// Terms of a block of a dictionary that was just packed: some room is left for what comes.
const PACKED: usize = MOST * 15 / 16;

/// For so many terms a block grows at a time.
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
    postings: Vec<Posting>,
}

impl Posting {
    /// How many slots.
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

    /// Whether a slot is in it.
    pub fn contains(&self, slot: u32) -> bool {
        match self {
            Posting::One(held) => *held == slot,
            Posting::Set(slots) => slots.contains(slot),
        }
    }

    /// Adds its slots to a set.
    pub fn add_to(&self, set: &mut roaring::RoaringBitmap) {
        match self {
            Posting::One(slot) => {
                set.insert(*slot);
            }
            Posting::Set(slots) => slots.add_to(set),
        }
    }

    /// As a set of its own.
    pub fn to_bitmap(&self) -> roaring::RoaringBitmap {
        let mut set = roaring::RoaringBitmap::new();
        self.add_to(&mut set);
        set
    }

    fn insert(&mut self, slot: u32) {
        match self {
            Posting::One(held) if *held == slot => {}
            Posting::One(held) => *self = Posting::Set(Arc::new(SlotSet::pair(*held, slot))),
            Posting::Set(slots) => {
                Arc::make_mut(slots).insert(slot);
            }
        }
    }

    /// Removes a slot; false when none is left.
    fn remove(&mut self, slot: u32) -> bool {
        match self {
            Posting::One(held) => *held != slot,
            Posting::Set(slots) => {
                let set = Arc::make_mut(slots);
                set.remove(slot);
                match (set.len(), set.min()) {
                    (0, _) | (_, None) => false,
                    (1, Some(last)) => {
                        *self = Posting::One(last);
                        true
                    }
                    _ => true,
                }
            }
        }
    }

    fn held_bytes(&self) -> usize {
        match self {
            Posting::One(_) => 0,
            Posting::Set(slots) => 16 + slots.held_bytes(),
        }
    }
}

impl Block {
    fn len(&self) -> usize {
        self.ends.len()
    }

    fn start(&self, index: usize) -> usize {
        index.checked_sub(1).map_or(0, |before| self.ends[before] as usize)
    }

    fn text(&self, index: usize) -> &str {
        &self.texts[self.start(index)..self.ends[index] as usize]
    }

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

    fn insert(&mut self, index: usize, text: &str, posting: Posting) {
        let start = self.start(index);
        // Room for a few more, not for as many again: most blocks are at rest most of the time.
        if self.ends.len() == self.ends.capacity() {
            self.ends.reserve_exact(ROOM);
            self.postings.reserve_exact(ROOM);
        }
        if self.texts.len() + text.len() > self.texts.capacity() {
            self.texts.reserve_exact(ROOM * text.len());
        }
        self.texts.insert_str(start, text);
        let length = short(text.len());
        self.ends.insert(index, short(start));
        for end in &mut self.ends[index..] {
            *end += length;
        }
        self.postings.insert(index, posting);
    }

    fn remove(&mut self, index: usize) {
        let range = self.start(index)..self.ends[index] as usize;
        let length = short(range.len());
        self.texts.replace_range(range, "");
        self.ends.remove(index);
        for end in &mut self.ends[index..] {
            *end -= length;
        }
        self.postings.remove(index);
    }

    /// Cuts off the terms from `index` on.
    fn split_off(&mut self, index: usize) -> Block {
        let start = self.start(index);
        let texts = self.texts.split_off(start);
        let ends = self.ends.split_off(index).into_iter().map(|end| end - short(start)).collect();
        let postings = self.postings.split_off(index);
        Block { texts, ends, postings }
    }

    fn append(&mut self, other: &Block) {
        let shift = short(self.texts.len());
        self.texts.push_str(&other.texts);
        self.ends.extend(other.ends.iter().map(|end| end + shift));
        self.postings.extend(other.postings.iter().cloned());
    }

    fn held_bytes(&self) -> usize {
        let sets: usize = self.postings.iter().map(Posting::held_bytes).sum();
        // The block, its pointer's counts, and its key in the map.
        size_of::<Block>()
            + 16
            + 48
            + self.texts.capacity()
            + self.ends.capacity() * size_of::<u32>()
            + self.postings.capacity() * size_of::<Posting>()
            + sets
    }
}

/// Invariant: the texts of one block stay far below 4 GiB; a term is a part of an object, and etcd takes objects of a few
/// MiB at most.
fn short(length: usize) -> u32 {
    u32::try_from(length).expect("the texts of one block must be shorter than 4 GiB")
}

impl Terms {
    /// How many different values.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The slots of a value.
    pub(super) fn get(&self, text: &str) -> Option<&Posting> {
        let (_, block) = self.blocks.get_prev(text)?;
        block.find(text).ok().map(|index| &block.postings[index])
    }

    /// All values in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Posting)> {
        self.blocks
            .iter()
            .flat_map(|(_, block)| (0..block.len()).map(|index| (block.text(index), &block.postings[index])))
    }

    /// Adds a slot to a value.
    pub(super) fn insert(&mut self, text: &str, slot: u32) {
        if self.blocks.is_empty() {
            // The first block has the lowest bound, so that every text finds one.
            self.blocks.insert(Arc::from(""), Arc::default());
        }
        let Some((_, block)) = self.blocks.get_prev_mut(text) else { return };
        let block = Arc::make_mut(block);
        let index = match block.find(text) {
            Ok(index) => return block.postings[index].insert(slot),
            Err(index) => index,
        };
        block.insert(index, text, Posting::One(slot));
        self.len += 1;
        if block.len() > MOST {
            // Values that grow, as counters and times do, fill their blocks; others split in the middle.
            let at = if index + 1 == block.len() { MOST - MOST / 16 } else { MOST / 2 };
            let upper = block.split_off(at);
            self.blocks.insert(Arc::from(upper.text(0)), Arc::new(upper));
        }
    }

    /// Takes a slot from a value.
    pub(super) fn remove(&mut self, text: &str, slot: u32) {
        let Some((_, block)) = self.blocks.get_prev_mut(text) else { return };
        let Ok(index) = block.find(text) else { return };
        let block = Arc::make_mut(block);
        if block.postings[index].remove(slot) {
            return;
        }
        block.remove(index);
        self.len -= 1;
        if block.len() < FEWEST {
            self.join(text);
        }
    }

    /// Joins the block that `text` belongs to with the one before it, where both fit; an empty block goes.
    fn join(&mut self, text: &str) {
        let Some((bound, block)) = self.blocks.get_prev(text).map(|(bound, block)| (bound.clone(), block.clone()))
        else {
            return;
        };
        if bound.is_empty() {
            // The first one has nobody before it; its successor comes to it when that one shrinks.
            if self.len == 0 {
                self.blocks.clear();
            }
            return;
        }
        let before = self.blocks.range::<_, str>((Bound::Unbounded, Bound::Excluded(&*bound))).next_back();
        let fits = |before: &Block| block.len() == 0 || before.len() + block.len() <= PACKED;
        let Some(before) = before.filter(|(_, before)| fits(before)).map(|(before, _)| before.clone()) else {
            return;
        };
        self.blocks.remove(&bound);
        if let Some(held) = self.blocks.get_mut(&before) {
            Arc::make_mut(held).append(&block);
        }
    }

    /// Fills the blocks and gives back what growing left unused: after a first list, when much came at once.
    pub(super) fn pack(&mut self) {
        let mut packed = OrdMap::new();
        let mut bound: Arc<str> = Arc::from("");
        let mut open = Block::default();
        let mut close = |bound: Arc<str>, mut block: Block| {
            block.texts.shrink_to_fit();
            block.ends.shrink_to_fit();
            block.postings.shrink_to_fit();
            for posting in &mut block.postings {
                if let Posting::Set(set) = posting {
                    let mut own = SlotSet::clone(set);
                    own.shrink();
                    *set = Arc::new(own);
                }
            }
            packed.insert(bound, Arc::new(block));
        };
        for (text, posting) in self.iter() {
            if open.len() == PACKED {
                close(std::mem::replace(&mut bound, Arc::from(text)), std::mem::take(&mut open));
            }
            open.insert(open.len(), text, posting.clone());
        }
        if open.len() > 0 {
            close(bound, open);
        }
        self.blocks = packed;
    }

    /// What it takes in memory, in bytes.
    pub(super) fn held_bytes(&self) -> usize {
        self.blocks.iter().map(|(bound, block)| bound.len() + block.held_bytes()).sum()
    }
}
