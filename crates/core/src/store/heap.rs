//! Heap memory of values: sizes as the allocator gives them, and the nodes of persistent maps.
//!
//! The memory limit and the metrics use these, so that many small parts are not counted too low. The sizes are computed
//! without the allocator. A test compares them with its real allocations.

use std::sync::Arc;

/// Mean number of entries in a leaf of a persistent map. Its capacity is 16; leaves that were split are half full.
const ENTRIES_OF_A_LEAF: usize = 11;

/// The capacity of a leaf of a persistent map.
const ROOM_OF_A_LEAF: usize = 16;

/// The capacity of a node of a persistent vector.
const ROOM_OF_A_VECTOR_NODE: usize = 64;

/// Bytes of the two reference counts that precede a shared value.
const COUNTS: usize = 2 * size_of::<usize>();

/// The size of an allocation in bytes, as jemalloc rounds it up. Up to 128 bytes, sizes are 8 and the multiples of 16.
/// Above, there are four sizes between a power of two and the next one.
pub(super) fn allocated(bytes: usize) -> usize {
    match bytes {
        0 => 0,
        1..=8 => 8,
        9..=128 => bytes.next_multiple_of(16),
        _ => bytes.next_multiple_of((1 << (bytes - 1).ilog2()) / 4),
    }
}

/// Memory of the allocation of a shared text in bytes, without pointers to it.
pub(super) fn shared_text(text: &Arc<str>) -> usize {
    allocated(COUNTS + text.len())
}

/// Memory of the allocation of an `Arc<T>` in bytes, without pointers to it.
pub(super) fn shared<T>() -> usize {
    allocated(COUNTS + size_of::<T>())
}

/// Memory of a leaf and of a branch of an `imbl::OrdMap`, in bytes.
fn map_node<K, V>() -> (usize, usize) {
    // A leaf has one array, and a branch has two. `imbl` stores two indices with an array: those of its first and last
    // entry. A branch also has the level of its children.
    let leaf = allocated(COUNTS + 2 * size_of::<usize>() + ROOM_OF_A_LEAF * size_of::<(K, V)>());
    // A branch contains a key and a pointer for each child.
    let branch = allocated(COUNTS + 5 * size_of::<usize>() + ROOM_OF_A_LEAF * (size_of::<K>() + size_of::<usize>()));
    (leaf, branch)
}

/// Memory of the nodes from the root of an `imbl::OrdMap` with this many entries to one entry, in bytes. Nodes are
/// assumed to be half full, which is nearly the minimum.
pub(super) fn map_path<K, V>(entries: usize) -> usize {
    let (leaf, branch) = map_node::<K, V>();
    let (mut bytes, mut nodes) = (leaf, entries.div_ceil(ROOM_OF_A_LEAF / 2));
    while nodes > 1 {
        nodes = nodes.div_ceil(ROOM_OF_A_LEAF / 2);
        bytes += branch;
    }
    bytes
}

/// Memory of a leaf of an `imbl::Vector`, in bytes.
pub(super) fn vector_leaf<T>() -> usize {
    allocated(COUNTS + 2 * size_of::<usize>() + ROOM_OF_A_VECTOR_NODE * size_of::<T>())
}

/// Memory of the nodes from the root of an `imbl::Vector` of this length to one entry, in bytes.
pub(super) fn vector_path<T>(len: usize) -> usize {
    // A child of a branch is a pointer with a tag. A branch also has the kind and the number of its entries.
    let branch = allocated(COUNTS + 5 * size_of::<usize>() + ROOM_OF_A_VECTOR_NODE * 2 * size_of::<usize>());
    let (mut bytes, mut nodes) = (vector_leaf::<T>(), len.div_ceil(ROOM_OF_A_VECTOR_NODE));
    while nodes > 1 {
        nodes = nodes.div_ceil(ROOM_OF_A_VECTOR_NODE);
        bytes += branch;
    }
    bytes
}

/// Estimated memory of the nodes of an `imbl::OrdMap` with this many entries, in bytes.
pub(super) fn map_nodes<K, V>(entries: usize) -> usize {
    let (leaf, branch) = map_node::<K, V>();
    let leaves = entries.div_ceil(ENTRIES_OF_A_LEAF);
    let branches = if leaves > 1 { leaves.div_ceil(ENTRIES_OF_A_LEAF) } else { 0 };
    leaves * leaf + branches * branch
}
