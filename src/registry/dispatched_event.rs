//! One change with its serialized forms: lines, rows and compressed texts, each created once for all watches that need
//! it.
//!
//! The server defines and creates the forms; they are cached here until the last watch has read the change. A watch
//! that needs a form in creation waits for it on its worker thread. Creation takes less than a turn, so the wait is
//! short. Other forms do not wait. [`super::event_dispatcher`] delivers changes to watches.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;

use super::deflated::Deflated;
use super::pod_head::PodHead;
use crate::extract::Prune;
use crate::store::{Change, HistoryCursor};

/// Bytes of changes in the mailboxes of a resource together, each change counted once, with its serialized forms.
/// Beyond this all mailboxes are emptied: their readers find the changes in history, as far as it reaches.
pub(super) const MOST_HELD_BYTES: usize = 16 << 20;

/// Ways in which one change is written: see [`DispatchedEvent::line`].
pub const LINES: usize = 18;

/// A form of a change other than its lines: see [`DispatchedEvent::made`].
#[derive(Clone, Debug)]
pub struct LineForm {
    /// The server numbers them.
    pub number: usize,
    /// The fields that a View prunes.
    pub prune: Option<Arc<Prune>>,
    /// Whether it is empty where the change alters nothing that it shows.
    pub is_quiet: bool,
    /// The second in which it is written, where it shows ages.
    pub second: Option<i64>,
}

impl LineForm {
    /// Whether both keys are the same but for the time.
    fn is_alike(&self, other: &LineForm) -> bool {
        let is_same_prune = match (&self.prune, &other.prune) {
            (Some(prune), Some(other)) => Arc::ptr_eq(prune, other),
            (prune, other) => prune.is_none() && other.is_none(),
        };
        self.number == other.number && self.is_quiet == other.is_quiet && is_same_prune
    }
}

/// A change with its serialized forms so far.
#[derive(Debug)]
pub struct DispatchedEvent {
    /// Its place in history.
    pub place: HistoryCursor,
    /// The change.
    pub change: Arc<Change>,
    lines: [OnceLock<Bytes>; LINES],
    made: OnceCache<LineForm, Option<Bytes>>,
    deflated: OnceCache<Bytes, Arc<Deflated>>,
    pod: OnceLock<Option<Box<PodHead>>>,
    counted: Counted,
}

/// Bytes of a change in the count of its resource, until it has been read by all.
#[derive(Debug)]
struct Counted {
    held: Arc<AtomicUsize>,
    bytes: AtomicUsize,
}

impl Counted {
    /// Counts more bytes, for this change and for its resource.
    fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.held.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts fewer bytes, for this change and for its resource.
    fn subtract(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.held.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// The bytes of all changes of the resource.
    fn all(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.held.fetch_sub(self.bytes.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

impl DispatchedEvent {
    pub(super) fn new(place: HistoryCursor, change: Arc<Change>, held: &Arc<AtomicUsize>) -> DispatchedEvent {
        let counted = Counted { held: held.clone(), bytes: AtomicUsize::new(0) };
        let (made, deflated) = (OnceCache::default(), OnceCache::default());
        let lines = [const { OnceLock::new() }; LINES];
        let routed = DispatchedEvent { place, change, lines, made, deflated, pod: OnceLock::new(), counted };
        routed.counted.add(routed.bytes());
        routed
    }

    /// The change as one of its lines, created by the first caller. The server numbers them.
    pub fn line(&self, number: usize, make: impl FnOnce() -> Bytes) -> Bytes {
        match self.lines.get(number) {
            Some(line) => {
                let make = || {
                    let made = make();
                    self.counted.add(made.len());
                    made
                };
                line.get_or_init(make).clone()
            }
            None => make(),
        }
    }

    /// The change in a form that takes more work than a copy. One is the row of a Table, created once in each second in
    /// which it is needed, because it shows ages. The other is an object of which a View leaves out a part. `None` when
    /// it cannot be created.
    ///
    /// A form that would exceed the bound of the mailboxes is not cached.
    pub fn made(&self, form: &LineForm, make: impl FnOnce() -> Option<Bytes>) -> Option<Bytes> {
        let length = |line: &Option<Bytes>| line.as_ref().map_or(0, Bytes::len);
        let place = |kept: &mut Vec<CachedValue<LineForm, Option<Bytes>>>| {
            let old = kept.iter().position(|old| form.is_alike(&old.key))?;
            if kept.get(old).is_some_and(|old| old.key.second == form.second) {
                return Some(old);
            }
            // Replaces one of an earlier second.
            self.counted.subtract(kept.swap_remove(old).counted);
            None
        };
        self.made.get_or_make(&self.counted, place, || form.clone(), length, make)
    }

    /// One of the lines above, compressed by the first caller. A line that would exceed the bound of the mailboxes is
    /// not cached.
    pub fn deflated(&self, line: &Bytes, make: impl FnOnce() -> Deflated) -> Arc<Deflated> {
        // A cached value references its line, so no other line has this address.
        let is_same = |other: &Bytes| other.as_ptr() == line.as_ptr() && other.len() == line.len();
        let place = |kept: &mut Vec<CachedValue<Bytes, Arc<Deflated>>>| kept.iter().position(|old| is_same(&old.key));
        let length = |part: &Arc<Deflated>| part.blocks.len();
        self.deflated.get_or_make(&self.counted, place, || line.clone(), length, || Arc::new(make()))
    }

    /// The Pod of the change for watches that follow it, parsed by the first.
    pub(super) fn pod(&self) -> Option<&PodHead> {
        let read = || self.change.after.as_ref().and_then(PodHead::read).map(Box::new);
        self.pod.get_or_init(read).as_deref()
    }

    /// The length of the object as JSON.
    pub fn bytes(&self) -> usize {
        let object = self.change.after.as_ref().or(self.change.before.as_ref());
        object.map_or(0, |object| object.length())
    }
}

/// Values that the first caller creates.
#[derive(Debug)]
struct OnceCache<Key, Value>(Mutex<Vec<CachedValue<Key, Value>>>);

#[derive(Debug)]
struct CachedValue<Key, Value> {
    key: Key,
    value: Arc<OnceLock<Value>>,
    /// Bytes that were counted for it.
    counted: usize,
}

impl<Key, Value> Default for OnceCache<Key, Value> {
    fn default() -> OnceCache<Key, Value> {
        OnceCache(Mutex::default())
    }
}

impl<Key, Value: Clone> OnceCache<Key, Value> {
    /// The value at a position, or a new one of this key, which is cached if its length fits.
    fn get_or_make(
        &self,
        counted: &Counted,
        place: impl FnOnce(&mut Vec<CachedValue<Key, Value>>) -> Option<usize>,
        key: impl FnOnce() -> Key,
        length: impl FnOnce(&Value) -> usize,
        make: impl FnOnce() -> Value,
    ) -> Value {
        let value = {
            let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            match place(&mut kept).and_then(|place| kept.get(place)) {
                Some(old) => old.value.clone(),
                None => {
                    let value = Arc::default();
                    kept.push(CachedValue { key: key(), value: Arc::clone(&value), counted: 0 });
                    value
                }
            }
        };
        let mut is_maker = false;
        let made = value.get_or_init(|| {
            is_maker = true;
            make()
        });
        if is_maker {
            let bytes = length(made);
            let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // Another one may have its place by now.
            if let Some(place) = kept.iter().position(|other| Arc::ptr_eq(&other.value, &value)) {
                if counted.all() + bytes > MOST_HELD_BYTES {
                    kept.swap_remove(place);
                } else if let Some(kept) = kept.get_mut(place) {
                    counted.add(bytes);
                    kept.counted = bytes;
                }
            }
        }
        made.clone()
    }
}
