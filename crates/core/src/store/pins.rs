//! The memory of past states that readers reference, and its bound.
//!
//! A list, or the initial events of a watch, reads the state that it began with. Objects that have been replaced or
//! deleted since then stay in memory for it, however slowly its client reads. So each store counts the bytes that
//! changes release, and remembers this count at the start of its oldest reader. The difference is an upper bound of the
//! bytes that readers retain. When all stores together exceed a bound, the readers of the oldest states lose them, and
//! get `None` when they continue ([`PinnedValue::with`]).
//!
//! The bytes that a change releases in indexes are estimated: one node of a tree for each term of the object. This file
//! does not depend on how readers use a state, or on what they report to their clients.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Bytes of past states that all readers together may retain.
const MOST: u64 = 256 << 20;

/// The memory that all stores retain for readers of past states.
#[derive(Debug)]
pub struct Pinned {
    most: u64,
    bytes: AtomicU64,
    revoked: AtomicU64,
    stores: Mutex<Vec<Weak<Pins>>>,
}

impl Default for Pinned {
    fn default() -> Pinned {
        Pinned::new(MOST)
    }
}

impl Pinned {
    /// An empty count with a bound in bytes.
    pub fn new(most: u64) -> Pinned {
        Pinned { most, bytes: AtomicU64::new(0), revoked: AtomicU64::new(0), stores: Mutex::default() }
    }

    /// The current upper bound of the retained memory, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The number of readers that lost their state.
    pub fn revoked(&self) -> u64 {
        self.revoked.load(Ordering::Relaxed)
    }

    /// Revokes the oldest states until the bound is met with a margin of one eighth, so that this happens rarely.
    fn enforce(&self) {
        if self.bytes() <= self.most {
            return;
        }
        let stores: Vec<Arc<Pins>> = lock(&self.stores).iter().filter_map(Weak::upgrade).collect();
        while self.bytes() > self.most - self.most / 8 {
            let Some(most) = stores.iter().max_by_key(|store| lock(&store.readers).counted) else { return };
            if !most.revoke_oldest() {
                return;
            }
        }
    }
}

/// The readers of one store.
#[derive(Debug)]
pub struct Pins {
    all: Arc<Pinned>,
    /// Bytes that changes have released since the start.
    retired: AtomicU64,
    readers: Mutex<Readers>,
}

/// The position of a reader of a store: the count of released bytes when its state was taken, and a number.
type Place = (u64, u64);

#[derive(Default)]
struct Readers {
    /// The oldest state first.
    pinned: BTreeMap<Place, Weak<dyn Revocable>>,
    next: u64,
    /// The share of this store in [`Pinned::bytes`].
    counted: u64,
}

impl std::fmt::Debug for Readers {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Readers").field("held", &self.pinned.len()).field("counted", &self.counted).finish()
    }
}

impl Default for Pins {
    fn default() -> Pins {
        Pins { all: Arc::default(), retired: AtomicU64::new(0), readers: Mutex::default() }
    }
}

impl Pins {
    /// The readers of a new store.
    pub(super) fn new(all: Arc<Pinned>) -> Arc<Pins> {
        let pins = Arc::new(Pins { all: all.clone(), ..Pins::default() });
        let mut stores = lock(&all.stores);
        stores.retain(|store| store.strong_count() > 0);
        stores.push(Arc::downgrade(&pins));
        drop(stores);
        pins
    }

    /// The bytes released so far.
    pub(super) fn retired(&self) -> u64 {
        self.retired.load(Ordering::Relaxed)
    }

    /// Counts the bytes that a change frees as soon as no reader holds an earlier state.
    pub(super) fn retire(&self, bytes: u64) {
        self.retired.fetch_add(bytes, Ordering::Relaxed);
        {
            let mut readers = lock(&self.readers);
            if readers.pinned.is_empty() {
                return;
            }
            self.count(&mut readers);
        }
        self.all.enforce();
    }

    /// Updates the memory that readers retain.
    fn count(&self, readers: &mut Readers) {
        let counted = readers.pinned.first_key_value().map_or(0, |((at, _), _)| self.retired().saturating_sub(*at));
        if counted > readers.counted {
            self.all.bytes.fetch_add(counted - readers.counted, Ordering::Relaxed);
        } else {
            self.all.bytes.fetch_sub(readers.counted - counted, Ordering::Relaxed);
        }
        readers.counted = counted;
    }

    /// Pins a value with a state that was taken when `at` bytes had been released.
    pub(super) fn pin<Value: Send + 'static>(self: &Arc<Pins>, at: u64, value: Value) -> PinnedValue<Value> {
        let slot = Arc::new(Slot { is_revoked: Arc::default(), value: Mutex::new(Some(value)) });
        let revocable: Arc<dyn Revocable> = slot.clone();
        let mut readers = lock(&self.readers);
        let place = (at, readers.next);
        readers.next += 1;
        readers.pinned.insert(place, Arc::downgrade(&revocable));
        self.count(&mut readers);
        drop(readers);
        PinnedValue { slot, pins: self.clone(), place }
    }

    /// Removes a reader.
    fn release(&self, place: Place) {
        let mut readers = lock(&self.readers);
        if readers.pinned.remove(&place).is_some() {
            self.count(&mut readers);
        }
    }

    /// Revokes the oldest reader; false when there is none.
    fn revoke_oldest(&self) -> bool {
        let mut readers = lock(&self.readers);
        let Some((_, oldest)) = readers.pinned.pop_first() else { return false };
        self.count(&mut readers);
        drop(readers);
        if let Some(oldest) = oldest.upgrade() {
            self.all.revoked.fetch_add(1, Ordering::Relaxed);
            oldest.revoke();
        }
        true
    }
}

trait Revocable: Send + Sync {
    /// Takes the snapshot away from its reader.
    fn revoke(&self);
}

struct Slot<Value> {
    is_revoked: Arc<AtomicBool>,
    value: Mutex<Option<Value>>,
}

impl<Value: Send> Revocable for Slot<Value> {
    fn revoke(&self) {
        self.is_revoked.store(true, Ordering::SeqCst);
        // A reader that is using it lets it go afterwards.
        if let Ok(mut value) = self.value.try_lock() {
            drop(value.take());
        }
    }
}

/// A value with a state of a store. It is revoked when readers of past states retain too much.
pub struct PinnedValue<Value> {
    slot: Arc<Slot<Value>>,
    pins: Arc<Pins>,
    place: Place,
}

/// Reports whether a pinned value has been revoked; outlives it.
#[derive(Clone, Debug)]
pub struct Revocation(Arc<AtomicBool>);

impl Revocation {
    /// Whether the value was revoked.
    pub fn is_revoked(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

impl<Value> PinnedValue<Value> {
    /// A handle that reports later whether this value has been revoked.
    pub fn revocation(&self) -> Revocation {
        Revocation(self.slot.is_revoked.clone())
    }

    /// Uses the value; `None` when it has been revoked.
    pub fn with<Done>(&self, work: impl FnOnce(&mut Value) -> Done) -> Option<Done> {
        let mut value = lock(&self.slot.value);
        let done = match value.as_mut() {
            Some(value) if !self.slot.is_revoked.load(Ordering::SeqCst) => Some(work(value)),
            _ => None,
        };
        if self.slot.is_revoked.load(Ordering::SeqCst) {
            drop(value.take());
        }
        done
    }

    /// Takes the value; `None` when it has been revoked.
    pub fn take(self) -> Option<Value> {
        lock(&self.slot.value).take().filter(|_| !self.slot.is_revoked.load(Ordering::SeqCst))
    }
}

impl<Value> Drop for PinnedValue<Value> {
    fn drop(&mut self) {
        self.pins.release(self.place);
    }
}

/// A panic leaves the protected value consistent.
fn lock<Value>(mutex: &Mutex<Value>) -> MutexGuard<'_, Value> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
