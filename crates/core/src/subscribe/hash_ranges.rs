//! Ranges of hashes as aligned blocks. With them, the ranges around a hash are found with a fixed number of lookups.
//!
//! A block has all hashes with the same first bits. A range is stored as the largest blocks that cover it, as a segment
//! tree would have them. Only the first [`MOST_BITS`] bits are compared, and fewer for a shard of very many ranges. So
//! the blocks can cover more hashes than the range. This only causes needless calls of `transition`. The blocks always
//! cover the whole range.

use crate::selector::HashRange;

/// The maximum number of bits that distinguish two blocks.
const MOST_BITS: u32 = 16;

/// The maximum number of blocks of one shard. A shard that needs more gets wider ones.
const MOST_BLOCKS: usize = 64;

/// The block that has all hashes.
const ROOT: u32 = 1;

/// A block: a bit that is one, followed by the first bits of its hashes. So `block >> 1` is the block of twice the size
/// around it.
type Block = u32;

/// The key of a block in a map whose hasher does not mix bits. Different blocks have different keys, because the factor
/// is odd.
fn map_key(block: Block) -> u64 {
    u64::from(block).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The map keys of all blocks that have a hash, from the narrowest block to the block of all hashes.
pub(super) fn around(hash: u64) -> impl Iterator<Item = u64> {
    let narrowest = (ROOT << MOST_BITS) | (hash >> (u64::BITS - MOST_BITS)) as u32;
    (0..=MOST_BITS).map(move |bits| map_key(narrowest >> bits))
}

/// The map keys of at most [`MOST_BLOCKS`] blocks that cover these ranges. The ranges must be sorted.
pub(super) fn covering(ranges: &[HashRange]) -> Box<[u64]> {
    for bits in (1..=MOST_BITS).rev() {
        if let Some(blocks) = blocks_of_bits(ranges, bits) {
            return blocks.into_iter().map(map_key).collect();
        }
    }
    [map_key(ROOT)].into()
}

/// The largest blocks that cover the ranges, where blocks have at most this many first bits. `None` if these are more
/// than [`MOST_BLOCKS`] blocks.
fn blocks_of_bits(ranges: &[HashRange], bits: u32) -> Option<Vec<Block>> {
    let mut blocks = Vec::new();
    let first_bits = |hash: u64| (ROOT << bits) | (hash >> (u64::BITS - bits)) as u32;
    let mut ranges = ranges.iter().map(|range| (first_bits(range.first), first_bits(range.last))).peekable();
    while let Some((mut first, mut last)) = ranges.next() {
        // Ranges that do not overlap can still be in the same or adjacent narrowest blocks.
        while let Some((_, end)) = ranges.next_if(|(start, _)| *start <= last + 1) {
            last = last.max(end);
        }
        // Each pass handles blocks of one size, and the next pass handles blocks of twice the size.
        loop {
            if first == last {
                blocks.push(first);
                break;
            }
            // A bound that is not at the edge of the next larger block is a block of its own.
            if first & 1 == 1 {
                blocks.push(first);
                first += 1;
            }
            if last & 1 == 0 {
                blocks.push(last);
                last -= 1;
            }
            if blocks.len() > MOST_BLOCKS {
                return None;
            }
            if first > last {
                break;
            }
            (first, last) = (first >> 1, last >> 1);
        }
    }
    (blocks.len() <= MOST_BLOCKS).then_some(blocks)
}
