//! `--memory-limit`: what all stores hold together, and whether another one may be loaded.
//!
//! Every feed keeps an [`Account`] of what its store holds: objects, order, indexes, history, dictionary; what the allocator and
//! answers under way take is not in it. Past the limit no further store is loaded, one that is being loaded is let go with an
//! [`OverMemory`], and what is served stays served, whatever it grows to: nothing is evicted, as a copy that went away by
//! itself would be loaded again by the next request. Whoever reads asks [`super::Live`], which has the same reason.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::model::quantity::Bytes;
use crate::store::Pinned;

/// Why a store is not loaded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "memory limit: this resource is not loaded, as the copies hold {held}{} and --memory-limit is {limit}; what is loaded \
     is served as before, and nothing is evicted for it. Raise --memory-limit, or read fewer resources: one that nobody asks \
     for is let go after 15 minutes",
    if *needed == Bytes(0) { String::new() } else { format!(" without it, it needs more than {needed}") }
)]
pub struct OverMemory {
    /// `--memory-limit`.
    pub limit: Bytes,
    /// What all stores held when it was refused; its own, if it had begun, not among it.
    pub held: Bytes,
    /// What this one held when it was let go; 0 for one that had not begun.
    pub needed: Bytes,
}

/// What all stores hold.
#[derive(Debug, Default)]
pub struct Memory {
    /// `None`: no limit.
    limit: Option<u64>,
    held: AtomicU64,
    pinned: Arc<Pinned>,
}

impl Memory {
    /// With `--memory-limit`, if there is one.
    pub fn new(limit: Option<Bytes>) -> Memory {
        Memory { limit: limit.map(|limit| limit.0), held: AtomicU64::new(0), pinned: Arc::default() }
    }

    /// The limit.
    pub fn limit(&self) -> Option<Bytes> {
        self.limit.map(Bytes)
    }

    /// What all stores hold now.
    pub fn held(&self) -> Bytes {
        Bytes(self.held.load(Ordering::Relaxed))
    }

    /// What readers hold of past states of all stores; it has a bound of its own.
    pub fn pinned(&self) -> &Arc<Pinned> {
        &self.pinned
    }

    /// Whether more is held than the limit allows.
    pub fn is_over(&self) -> bool {
        self.limit.is_some_and(|limit| self.held().0 > limit)
    }

    /// Why a store that is known to need more than `needed` cannot be loaded now; `None` when it can.
    pub fn refuses(&self, needed: Bytes) -> Option<OverMemory> {
        let (limit, held) = (self.limit()?, self.held());
        // At the limit there is no room for anything, and past it none for what is let go to come back at once.
        (held.0.saturating_add(needed.0) >= limit.0).then_some(OverMemory { limit, held, needed })
    }

    /// An account of one store, with nothing in it.
    pub fn open(self: &Arc<Memory>) -> Account {
        Account { memory: self.clone(), bytes: 0 }
    }
}

/// What one store holds. It goes with the store, and its bytes with it.
#[derive(Debug)]
pub struct Account {
    memory: Arc<Memory>,
    bytes: u64,
}

impl Account {
    /// The store holds so much now; true when that brought all of them from within the limit to above it.
    pub fn set(&mut self, bytes: u64) -> bool {
        let held = &self.memory.held;
        let (before, after) = if bytes >= self.bytes {
            let more = bytes - self.bytes;
            let before = held.fetch_add(more, Ordering::Relaxed);
            (before, before + more)
        } else {
            let less = self.bytes - bytes;
            let before = held.fetch_sub(less, Ordering::Relaxed);
            (before, before - less)
        };
        self.bytes = bytes;
        self.memory.limit.is_some_and(|limit| before <= limit && after > limit)
    }

    /// What it has been set to.
    pub fn bytes(&self) -> Bytes {
        Bytes(self.bytes)
    }

    /// All of them.
    pub fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.set(0);
    }
}
