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

/// The most bytes of changes in all mailboxes of a resource, each change counted once, with its serialized forms.
/// Beyond this all mailboxes are emptied: their readers find the changes in history, as far as it reaches.
pub(super) const MOST_HELD_BYTES: usize = 16 << 20;

/// The maximum number of forms of each kind that are cached for one change. Further forms are created for each watch
/// that needs them: clients choose forms, and each watch can have one of its own.
const MOST_FORMS: usize = 256;

/// The memory of a cached form in bytes, without the form. An empty form and a failed one take it too.
const FORM_BYTES: usize = 192;

/// The number of lines in which a change can be written: see [`DispatchedEvent::line`].
pub const LINES: usize = 18;

/// A form of a change other than its lines: see [`DispatchedEvent::made`].
#[derive(Clone, Debug)]
pub struct LineForm {
    /// The number of the form, which the server assigns.
    pub number: usize,
    /// The fields that a View prunes.
    pub prune: Option<Arc<Prune>>,
    /// Whether it is empty where the change alters nothing that it shows.
    pub is_quiet: bool,
    /// The second since 1970 in which it is written, if it shows ages.
    pub second: Option<i64>,
}

impl LineForm {
    /// Whether both forms are the same, apart from the second.
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
    /// Its position in history.
    pub place: HistoryCursor,
    /// The change.
    pub change: Arc<Change>,
    lines: [OnceLock<Bytes>; LINES],
    made: OnceCache<LineForm, Option<Bytes>>,
    deflated: OnceCache<Bytes, Arc<Deflated>>,
    pod: OnceLock<Option<Box<PodHead>>>,
    counted: Counted,
}

/// The bytes of a change, which also count for its resource until all watches have read the change.
#[derive(Debug)]
struct Counted {
    /// The bytes of all changes of the resource.
    held: Arc<AtomicUsize>,
    /// The bytes of this change.
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
    /// A change without serialized forms. `held` counts the bytes of all changes of its resource.
    pub(super) fn new(place: HistoryCursor, change: Arc<Change>, held: &Arc<AtomicUsize>) -> DispatchedEvent {
        let counted = Counted { held: held.clone(), bytes: AtomicUsize::new(0) };
        let (made, deflated) = (OnceCache::default(), OnceCache::default());
        let lines = [const { OnceLock::new() }; LINES];
        let routed = DispatchedEvent { place, change, lines, made, deflated, pod: OnceLock::new(), counted };
        routed.counted.add(routed.bytes());
        routed
    }

    /// The change as its line `number`, which `make` creates for the first caller. The server decides which line has
    /// which number. A line whose number is [`LINES`] or more is not cached: `make` creates it at each call.
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

    /// The change in a form that takes more work than a copy, which `make` creates for the first caller. One such form
    /// is the row of a Table, created once in each second in which it is needed, because it shows ages. Another is an
    /// object of which a View leaves out a part. `None` if `make` fails, for this and all later callers.
    ///
    /// A form that would exceed the bound of the mailboxes is not cached.
    pub fn made(&self, form: &LineForm, make: impl FnOnce() -> Option<Bytes>) -> Option<Bytes> {
        let length = |line: &Option<Bytes>| line.as_ref().map_or(0, Bytes::len);
        let place = |kept: &mut Vec<CachedValue<LineForm, Option<Bytes>>>| {
            let old = kept.iter().position(|old| form.is_alike(&old.key))?;
            if kept.get(old).is_some_and(|old| old.key.second == form.second) {
                return Some(old);
            }
            // The cached form shows the ages of another second. Its successor takes its place.
            self.counted.subtract(kept.swap_remove(old).counted);
            None
        };
        self.made.get_or_make(&self.counted, place, || form.clone(), length, make)
    }

    /// A line of this change, compressed. `make` compresses it for the first caller. A result that would exceed the
    /// bound of the mailboxes is not cached. Neither is that of a line that is not cached itself: the cached value
    /// would keep the line in memory, and its bytes are not counted.
    pub fn deflated(&self, line: &Bytes, make: impl FnOnce() -> Deflated) -> Arc<Deflated> {
        // A cached value references its line, so no other line has this address.
        let is_same = |other: &Bytes| other.as_ptr() == line.as_ptr() && other.len() == line.len();
        let is_in_lines = || self.lines.iter().filter_map(OnceLock::get).any(is_same);
        let is_in_made = || self.made.any(|made| made.as_ref().is_some_and(is_same));
        if !is_in_lines() && !is_in_made() {
            return Arc::new(make());
        }
        let place = |kept: &mut Vec<CachedValue<Bytes, Arc<Deflated>>>| kept.iter().position(|old| is_same(&old.key));
        let length = |part: &Arc<Deflated>| part.blocks.len();
        self.deflated.get_or_make(&self.counted, place, || line.clone(), length, || Arc::new(make()))
    }

    /// The Pod of the change, which the first watch that follows it parses. `None` if the Pod was deleted or cannot be
    /// parsed.
    pub(super) fn pod(&self) -> Option<&PodHead> {
        let read = || self.change.after.as_ref().and_then(PodHead::read).map(Box::new);
        self.pod.get_or_init(read).as_deref()
    }

    /// The length of the object as JSON, in bytes; of its last state if it was deleted.
    pub fn bytes(&self) -> usize {
        let object = self.change.after.as_ref().or(self.change.before.as_ref());
        object.map_or(0, |object| object.length())
    }
}

/// Values that the first caller creates.
#[derive(Debug)]
struct OnceCache<Key, Value>(Mutex<Vec<CachedValue<Key, Value>>>);

/// A value of an [`OnceCache`], which may still be in creation.
#[derive(Debug)]
struct CachedValue<Key, Value> {
    key: Key,
    value: Arc<OnceLock<Value>>,
    /// The bytes that are counted for it.
    counted: usize,
}

impl<Key, Value> Default for OnceCache<Key, Value> {
    fn default() -> OnceCache<Key, Value> {
        OnceCache(Mutex::default())
    }
}

impl<Key, Value: Clone> OnceCache<Key, Value> {
    /// Whether a cached value that is created fulfills the condition.
    fn any(&self, condition: impl Fn(&Value) -> bool) -> bool {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().any(|kept| kept.value.get().is_some_and(&condition))
    }

    /// The cached value whose index `place` returns, or a new one that `make` creates under `key`. `place` may also
    /// remove outdated values. A new value stays cached if its `length` in bytes fits into the bound of the resource
    /// ([`MOST_HELD_BYTES`]), and is counted in `counted`. Concurrent callers wait for the first. Beyond [`MOST_FORMS`]
    /// values, and beyond the bound, `make` creates the value for this caller only.
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
                None if kept.len() >= MOST_FORMS || counted.all() + FORM_BYTES > MOST_HELD_BYTES => {
                    drop(kept);
                    return make();
                }
                None => {
                    let value = Arc::default();
                    counted.add(FORM_BYTES);
                    kept.push(CachedValue { key: key(), value: Arc::clone(&value), counted: FORM_BYTES });
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
            // While it was created, another caller may have removed it from the cache.
            if let Some(place) = kept.iter().position(|other| Arc::ptr_eq(&other.value, &value)) {
                if counted.all() + bytes > MOST_HELD_BYTES {
                    counted.subtract(kept.swap_remove(place).counted);
                } else if let Some(kept) = kept.get_mut(place) {
                    counted.add(bytes);
                    kept.counted += bytes;
                }
            }
        }
        made.clone()
    }
}
