//! The memory of past states that readers reference, and its bound.
//!
//! A list, or the initial events of a watch, reads the state that it began with. The originals of all parts that have
//! been changed since then stay in memory for it, however slowly its client reads. So each store counts the bytes that
//! changes release, and remembers this count at the start of its oldest reader. The difference is an upper bound of the
//! bytes that readers retain. When all stores together exceed a bound, the readers of the oldest states lose them, and
//! get `None` when they continue ([`PinnedValue::with`]).
//!
//! A change releases the originals of the parts that it copies (`copies`), and what history drops. A replaced object
//! counts when history drops it, because until then it is part of the current state. This file does not depend on how
//! readers use a state, or on what they report to their clients.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Bytes of past states that all readers together may retain.
const MAX_BYTES: u64 = 256 << 20;

/// The memory that all stores retain for readers of past states.
#[derive(Debug)]
pub struct Pinned {
    /// The bound of `bytes`, beyond which readers lose their states.
    max_bytes: u64,
    bytes: AtomicU64,
    revoked: AtomicU64,
    stores: Mutex<Vec<Weak<Pins>>>,
}

impl Default for Pinned {
    fn default() -> Pinned {
        Pinned::new(MAX_BYTES)
    }
}

impl Pinned {
    /// Retains nothing yet. `max_bytes`: the bytes that readers of all stores together may retain.
    pub fn new(max_bytes: u64) -> Pinned {
        Pinned { max_bytes, bytes: AtomicU64::new(0), revoked: AtomicU64::new(0), stores: Mutex::default() }
    }

    /// The current upper bound of the retained memory, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The number of readers that lost their state.
    pub fn revoked(&self) -> u64 {
        self.revoked.load(Ordering::Relaxed)
    }

    /// If readers retain more than the bound, revokes states until they retain at most seven eighths of it, so that
    /// this happens rarely. Revokes one state at a time: the oldest one of the store whose readers retain most. Returns
    /// when no readers are left.
    fn enforce(&self) {
        if self.bytes() <= self.max_bytes {
            return;
        }
        let stores: Vec<Arc<Pins>> = lock(&self.stores).iter().filter_map(Weak::upgrade).collect();
        while self.bytes() > self.max_bytes - self.max_bytes / 8 {
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

/// The position of a reader of a store: [`Pins::retired`] when its state was taken, and a number that no other reader
/// has.
type Place = (u64, u64);

/// The readers of past and current states of one store.
#[derive(Default)]
struct Readers {
    /// The oldest state first.
    pinned: BTreeMap<Place, Weak<dyn Revocable>>,
    /// The number of the next reader.
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
    /// The readers of a new store: none yet. The store counts towards `all` as long as it exists.
    pub(super) fn new(all: Arc<Pinned>) -> Arc<Pins> {
        let pins = Arc::new(Pins { all: all.clone(), ..Pins::default() });
        let mut stores = lock(&all.stores);
        stores.retain(|store| store.strong_count() > 0);
        stores.push(Arc::downgrade(&pins));
        drop(stores);
        pins
    }

    /// The bytes that changes have released since the start.
    pub(super) fn retired(&self) -> u64 {
        self.retired.load(Ordering::Relaxed)
    }

    /// Counts the bytes that a change frees as soon as no reader holds an earlier state. Then revokes states if readers
    /// retain more than the bound.
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

    /// Updates the memory that readers of this store retain: the bytes released since its oldest pinned state, or 0
    /// without readers.
    fn count(&self, readers: &mut Readers) {
        let counted = readers.pinned.first_key_value().map_or(0, |((at, _), _)| self.retired().saturating_sub(*at));
        if counted > readers.counted {
            self.all.bytes.fetch_add(counted - readers.counted, Ordering::Relaxed);
        } else {
            self.all.bytes.fetch_sub(readers.counted - counted, Ordering::Relaxed);
        }
        readers.counted = counted;
    }

    /// Pins a value that contains a state of the store. `at` is [`Pins::retired`] when that state was taken.
    pub(super) fn pin<Value: Send + 'static>(self: &Arc<Pins>, at: u64, value: Value) -> PinnedValue<Value> {
        let cell = Arc::new(PinnedCell { is_revoked: Arc::default(), value: Mutex::new(Some(value)) });
        let revocable: Arc<dyn Revocable> = cell.clone();
        let mut readers = lock(&self.readers);
        let place = (at, readers.next);
        readers.next += 1;
        readers.pinned.insert(place, Arc::downgrade(&revocable));
        self.count(&mut readers);
        drop(readers);
        PinnedValue { cell, pins: self.clone(), place }
    }

    /// Removes a reader, unless it was revoked before.
    fn release(&self, place: Place) {
        let mut readers = lock(&self.readers);
        if readers.pinned.remove(&place).is_some() {
            self.count(&mut readers);
        }
    }

    /// Revokes the state of the reader with the oldest one; false when the store has no readers.
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

/// A pinned value of any type.
trait Revocable: Send + Sync {
    /// Takes the snapshot away from its reader.
    fn revoke(&self);
}

/// A pinned value, which its reader and [`Pins`] share.
struct PinnedCell<Value> {
    is_revoked: Arc<AtomicBool>,
    /// `None` once it was taken or revoked.
    value: Mutex<Option<Value>>,
}

impl<Value: Send> Revocable for PinnedCell<Value> {
    fn revoke(&self) {
        self.is_revoked.store(true, Ordering::SeqCst);
        // If the reader is using the value now, `PinnedValue::with` drops it afterwards.
        if let Ok(mut value) = self.value.try_lock() {
            drop(value.take());
        }
    }
}

/// A value with a state of a store. It is revoked when readers of past states retain too much.
pub struct PinnedValue<Value> {
    cell: Arc<PinnedCell<Value>>,
    pins: Arc<Pins>,
    place: Place,
}

/// Reports whether a pinned value has been revoked, also after the value was dropped.
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
        Revocation(self.cell.is_revoked.clone())
    }

    /// Calls `work` with the value; `None` when it has been revoked.
    pub fn with<Done>(&self, work: impl FnOnce(&mut Value) -> Done) -> Option<Done> {
        let mut value = lock(&self.cell.value);
        let done = match value.as_mut() {
            Some(value) if !self.cell.is_revoked.load(Ordering::SeqCst) => Some(work(value)),
            _ => None,
        };
        // If it was revoked during `work`, `Revocable::revoke` could not lock the value.
        if self.cell.is_revoked.load(Ordering::SeqCst) {
            drop(value.take());
        }
        done
    }

    /// Takes the value; `None` when it has been revoked.
    pub fn take(self) -> Option<Value> {
        lock(&self.cell.value).take().filter(|_| !self.cell.is_revoked.load(Ordering::SeqCst))
    }
}

impl<Value> Drop for PinnedValue<Value> {
    fn drop(&mut self) {
        self.pins.release(self.place);
    }
}

/// Locks a mutex, also after a panic of another holder: a panic leaves the protected value consistent.
fn lock<Value>(mutex: &Mutex<Value>) -> MutexGuard<'_, Value> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
