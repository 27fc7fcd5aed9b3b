//! What values take on the heap: sizes as the allocator gives them, and the nodes of persistent maps.
//!
//! The limit of memory and the metrics count with these, so that many small parts are not counted as less than they take. The
//! sizes are computed: nothing here asks the allocator. A test compares them with what it has really given.

use std::sync::Arc;

/// Entries in a leaf of a persistent map. It has room for 16; leaves that were split are half full.
const ENTRIES_OF_A_LEAF: usize = 11;

/// The room of a leaf of a persistent map.
const ROOM_OF_A_LEAF: usize = 16;

/// Counts of references before a shared value.
const COUNTS: usize = 2 * size_of::<usize>();

/// What an allocation of so many bytes takes: the size classes of jemalloc, of which there are four between a power of two and the
/// next one.
pub(super) fn allocated(bytes: usize) -> usize {
    match bytes {
        0 => 0,
        1..=8 => 8,
        9..=128 => bytes.next_multiple_of(16),
        _ => bytes.next_multiple_of((1 << (bytes - 1).ilog2()) / 4),
    }
}

/// What a text behind a pointer of its own takes, the pointer not counted.
pub(super) fn shared_text(text: &Arc<str>) -> usize {
    allocated(COUNTS + text.len())
}

/// What a value behind a pointer of its own takes, the pointer not counted.
pub(super) fn shared<T>() -> usize {
    allocated(COUNTS + size_of::<T>())
}

/// What the nodes of an `imbl::OrdMap` with so many entries take.
pub(super) fn map_nodes<K, V>(entries: usize) -> usize {
    let leaf = allocated(COUNTS + 2 * size_of::<usize>() + ROOM_OF_A_LEAF * size_of::<(K, V)>());
    // A branch holds a key and a pointer for each child.
    let branch = allocated(COUNTS + 5 * size_of::<usize>() + ROOM_OF_A_LEAF * (size_of::<K>() + size_of::<usize>()));
    let leaves = entries.div_ceil(ENTRIES_OF_A_LEAF);
    let branches = if leaves > 1 { leaves.div_ceil(ENTRIES_OF_A_LEAF) } else { 0 };
    leaves * leaf + branches * branch
}
