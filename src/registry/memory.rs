//! `--memory-limit`: what all stores hold together, and whether another one may be loaded.
//!
//! Every feed keeps an [`Account`] of what its store holds: objects, order, indexes, history, dictionary; what the allocator and
//! answers under way take is not in it. Past the limit no further store is loaded, and one that is being loaded is let go with an
//! [`OverMemory`]. What is served stays served until all stores together are half as much again as the limit: then the one that has grown
//! most is let go, as otherwise whoever may create objects of one resource could end the process. Nothing else is evicted, as a copy that
//! went away by itself would be loaded again by the next request. Whoever reads asks [`super::ResourceState`], which has the same reason.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::Notify;

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
    /// Those that may be let go.
    stores: Mutex<Vec<Weak<Counted>>>,
}

/// What one store holds, as the others see it.
#[derive(Debug, Default)]
struct Counted {
    bytes: AtomicU64,
    /// What it held when it was first served; 0 before.
    at_first: AtomicU64,
    is_let_go: AtomicBool,
    tell: Arc<Notify>,
}

impl Counted {
    fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// By how much it has grown since it was first served.
    fn growth(&self) -> u64 {
        match self.at_first.load(Ordering::Relaxed) {
            0 => 0,
            at_first => self.bytes().saturating_sub(at_first),
        }
    }

    fn is_let_go(&self) -> bool {
        self.is_let_go.load(Ordering::Relaxed)
    }
}

impl Memory {
    /// With `--memory-limit`, if there is one.
    pub fn new(limit: Option<Bytes>) -> Memory {
        Memory { limit: limit.map(|limit| limit.0), ..Memory::default() }
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

    /// An account with nothing in it, of something that is never let go.
    pub fn open(self: &Arc<Memory>) -> Account {
        Account { memory: self.clone(), counted: Arc::default() }
    }

    /// An account of a store, with nothing in it: it may have to be let go; see [`Account::let_go`].
    pub fn open_store(self: &Arc<Memory>) -> Account {
        let account = self.open();
        let mut stores = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        stores.retain(|other| other.strong_count() > 0);
        stores.push(Arc::downgrade(&account.counted));
        account
    }

    /// Lets go of the store that has grown most, if all hold half as much again as the limit, and those that were let go have gone.
    fn bound(&self) {
        if self.limit.is_none_or(|limit| self.held().0 <= limit + limit / 2) {
            return;
        }
        let stores = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        let stores: Vec<Arc<Counted>> = stores.iter().filter_map(Weak::upgrade).collect();
        if stores.iter().any(|store| store.is_let_go()) {
            return;
        }
        if let Some(store) = stores.iter().filter(|store| store.growth() > 0).max_by_key(|store| store.growth()) {
            store.is_let_go.store(true, Ordering::Relaxed);
            store.tell.notify_one();
        }
    }
}

/// What one store holds. It goes with the store, and its bytes with it.
#[derive(Debug)]
pub struct Account {
    memory: Arc<Memory>,
    counted: Arc<Counted>,
}

impl Account {
    /// The store holds so much now; true when that brought all of them from within the limit to above it.
    pub fn set(&mut self, bytes: u64) -> bool {
        let held = &self.memory.held;
        let was = self.counted.bytes.swap(bytes, Ordering::Relaxed);
        let (before, after) = if bytes >= was {
            let more = bytes - was;
            let before = held.fetch_add(more, Ordering::Relaxed);
            (before, before + more)
        } else {
            let less = was - bytes;
            let before = held.fetch_sub(less, Ordering::Relaxed);
            (before, before - less)
        };
        if after > before {
            self.memory.bound();
        }
        self.memory.limit.is_some_and(|limit| before <= limit && after > limit)
    }

    /// The store is served with what it holds now, if it was not before: what it grows by is counted from here.
    pub fn serve(&self) {
        let bytes = self.counted.bytes().max(1);
        // An error says that it was served before.
        let _ = self.counted.at_first.compare_exchange(0, bytes, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// The store is gone, and only readers hold what is left of it: it is not there to be let go.
    pub fn end(&self) {
        self.counted.at_first.store(0, Ordering::Relaxed);
        self.counted.is_let_go.store(false, Ordering::Relaxed);
    }

    /// Whether it is to be dropped: all stores hold too much, and this one has grown most.
    pub fn is_let_go(&self) -> bool {
        self.counted.is_let_go()
    }

    /// Wakes whoever is to drop it.
    pub fn let_go(&self) -> Arc<Notify> {
        self.counted.tell.clone()
    }

    /// What it has been set to.
    pub fn bytes(&self) -> Bytes {
        Bytes(self.counted.bytes())
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
