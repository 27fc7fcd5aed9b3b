//! `--memory-limit`: the memory of all stores, and whether another one may be loaded.
//!
//! Every feed has an [`Account`] of the memory of its store: objects, order, indexes, history, dictionary. The memory
//! of the allocator and of responses is not included. Past the limit no further store is loaded, and one that is
//! loading is cancelled with an [`OverMemory`]. Loaded stores stay until all together exceed the limit by half. Then
//! the one that has grown most is unloaded: anyone who may create objects of one resource could otherwise end the
//! process. Nothing else is evicted, because the next request would load an evicted store again. Readers find the
//! reason in [`super::ResourceState`].

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::Notify;

use crate::model::quantity::Bytes;
use crate::store::Pinned;

/// Why a store is not loaded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "memory limit: this resource is not loaded. The other resources take {held}{} and --memory-limit is {limit}. \
     fieldcache does not evict loaded resources for a new one. Raise --memory-limit, delete FieldCaches, or stop reading \
     other resources: `fieldcache serve` unloads a resource that no --resource names 15 minutes after its last request",
    if *needed == Bytes(0) { String::new() } else { format!(", this one needs more than {needed},") }
)]
/// Why the memory limit rejects a store.
pub struct OverMemory {
    /// `--memory-limit`.
    pub limit: Bytes,
    /// The memory of all other stores when it was rejected.
    pub held: Bytes,
    /// Its own memory when its list was cancelled; 0 if its list had not begun.
    pub needed: Bytes,
}

/// The memory of all stores.
#[derive(Debug, Default)]
pub struct Memory {
    /// `None`: no limit.
    limit: Option<u64>,
    /// The memory of all stores, in bytes.
    held: AtomicU64,
    /// See [`Memory::pinned`].
    pinned: Arc<Pinned>,
    /// The stores that may be unloaded.
    stores: Mutex<Vec<Weak<Counted>>>,
}

/// The memory of one store, in bytes, as [`Memory`] sees it.
#[derive(Debug, Default)]
struct Counted {
    bytes: AtomicU64,
    /// Its memory when it was first served; 0 before, and after the store has ended.
    at_first: AtomicU64,
    /// Whether the feed must drop the store.
    must_unload: AtomicBool,
    /// Wakes the task that must drop the store.
    notify: Arc<Notify>,
}

impl Counted {
    fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The bytes by which the store has grown since it was first served.
    fn growth(&self) -> u64 {
        match self.at_first.load(Ordering::Relaxed) {
            0 => 0,
            at_first => self.bytes().saturating_sub(at_first),
        }
    }

    fn must_unload(&self) -> bool {
        self.must_unload.load(Ordering::Relaxed)
    }
}

impl Memory {
    /// The memory of all stores, with the limit of `--memory-limit`.
    pub fn new(limit: Option<Bytes>) -> Memory {
        Memory { limit: limit.map(|limit| limit.0), ..Memory::default() }
    }

    /// The memory limit, if there is one.
    pub fn limit(&self) -> Option<Bytes> {
        self.limit.map(Bytes)
    }

    /// Current memory of all stores.
    pub fn held(&self) -> Bytes {
        Bytes(self.held.load(Ordering::Relaxed))
    }

    /// The memory of past states of all stores that readers still use; it has a bound of its own.
    pub fn pinned(&self) -> &Arc<Pinned> {
        &self.pinned
    }

    /// Whether the memory exceeds the limit.
    pub fn is_over(&self) -> bool {
        self.limit.is_some_and(|limit| self.held().0 > limit)
    }

    /// The error if a store that needs more than `needed` cannot be loaded now; `None` if it can. With `needed` 0, any
    /// free memory is enough.
    pub fn rejection(&self, needed: Bytes) -> Option<OverMemory> {
        let (limit, held) = (self.limit()?, self.held());
        // At the limit no store fits, and past it an unloaded one must not come back immediately.
        (held.0.saturating_add(needed.0) >= limit.0).then_some(OverMemory { limit, held, needed })
    }

    /// A new account of memory that is counted, but never unloaded: a store that the limit does not apply to, or the
    /// index of placement.
    pub fn open(self: &Arc<Memory>) -> Account {
        Account { memory: self.clone(), counted: Arc::default() }
    }

    /// A new account of a store that may have to be unloaded; see [`Account::unload_notice`].
    pub fn open_store(self: &Arc<Memory>) -> Account {
        let account = self.open();
        let mut stores = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        stores.retain(|other| other.strong_count() > 0);
        stores.push(Arc::downgrade(&account.counted));
        account
    }

    /// If all stores exceed the limit by half, orders the store that has grown most to unload. Does nothing while
    /// another store is still unloading.
    fn unload_if_over(&self) {
        if self.limit.is_none_or(|limit| self.held().0 <= limit + limit / 2) {
            return;
        }
        let stores = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        let stores: Vec<Arc<Counted>> = stores.iter().filter_map(Weak::upgrade).collect();
        if stores.iter().any(|store| store.must_unload()) {
            return;
        }
        if let Some(store) = stores.iter().filter(|store| store.growth() > 0).max_by_key(|store| store.growth()) {
            store.must_unload.store(true, Ordering::Relaxed);
            store.notify.notify_one();
        }
    }
}

/// The memory of one store. When it is dropped, its bytes no longer count.
#[derive(Debug)]
pub struct Account {
    memory: Arc<Memory>,
    counted: Arc<Counted>,
}

impl Account {
    /// Sets the current memory of the store, in bytes. May order a store to unload, see [`Account::must_unload`]. True
    /// if all stores together exceed the limit now and did not before.
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
            self.memory.unload_if_over();
        }
        self.memory.limit.is_some_and(|limit| before <= limit && after > limit)
    }

    /// Records that the store is served for the first time: growth is measured from its current memory. Later calls
    /// change nothing.
    pub fn note_served(&self) {
        // Not 0, which means that the store was not served yet.
        let bytes = self.counted.bytes().max(1);
        // An error means that it was served before.
        let _ = self.counted.at_first.compare_exchange(0, bytes, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Records that the store has ended. Its memory counts as long as readers use parts of it. Its growth is 0 from now
    /// on, so that it is not chosen to be unloaded.
    pub fn note_ended(&self) {
        self.counted.at_first.store(0, Ordering::Relaxed);
        self.counted.must_unload.store(false, Ordering::Relaxed);
    }

    /// Whether the store must be unloaded: all stores exceed the limit by half, and this one has grown most.
    pub fn must_unload(&self) -> bool {
        self.counted.must_unload()
    }

    /// Notified when the feed must drop the store: it must be unloaded, or its first list was cancelled.
    pub fn unload_notice(&self) -> Arc<Notify> {
        self.counted.notify.clone()
    }

    /// The current memory of the store, in bytes.
    pub fn bytes(&self) -> Bytes {
        Bytes(self.counted.bytes())
    }

    /// The memory of all stores.
    pub fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.set(0);
    }
}
