//! One change with the bytes that have been written of it: lines, rows and compressed texts, each made once for all watches that need it.
//!
//! The server decides which forms there are, and makes them; they are kept here until the last watch has read the change. A watch that needs a
//! form which is being made waits for it on its worker thread: a form is made within a turn, so the wait is short. Other forms do not wait.
//! [`super::event_dispatcher`] brings changes to watches.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;

use super::deflated::Deflated;
use super::pod_head::PodHead;
use crate::extract::Prune;
use crate::store::{Change, Cursor};

/// Bytes of changes that lie in the mailboxes of a resource together, each change counted once, with what was written of
/// it. Beyond it all mailboxes are emptied: their readers find the changes in history, as far as it reaches.
pub(super) const MOST_HELD_BYTES: usize = 16 << 20;

/// Ways in which one change is written: see [`DispatchedEvent::line`].
pub const LINES: usize = 18;

/// One way in which a change is written, where it is not shown as it is: see [`DispatchedEvent::made`].
#[derive(Clone, Debug)]
pub struct LineForm {
    /// The server numbers them.
    pub number: usize,
    /// What a View leaves out.
    pub prune: Option<Arc<Prune>>,
    /// The second in which it is written, where it shows ages.
    pub second: Option<i64>,
}

impl LineForm {
    /// Whether both are the same but for the time.
    fn is_alike(&self, other: &LineForm) -> bool {
        let is_same_prune = match (&self.prune, &other.prune) {
            (Some(prune), Some(other)) => Arc::ptr_eq(prune, other),
            (prune, other) => prune.is_none() && other.is_none(),
        };
        self.number == other.number && is_same_prune
    }
}

/// A change with what has been written of it so far.
#[derive(Debug)]
pub struct DispatchedEvent {
    /// Its place in history.
    pub place: Cursor,
    /// The change.
    pub change: Arc<Change>,
    lines: [OnceLock<Bytes>; LINES],
    made: Kept<LineForm, Option<Bytes>>,
    deflated: Kept<Bytes, Arc<Deflated>>,
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
    fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.held.fetch_add(bytes, Ordering::Relaxed);
    }

    fn subtract(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.held.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Bytes of all changes.
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
    pub(super) fn new(place: Cursor, change: Arc<Change>, held: &Arc<AtomicUsize>) -> DispatchedEvent {
        let counted = Counted { held: held.clone(), bytes: AtomicUsize::new(0) };
        let (made, deflated) = (Kept::default(), Kept::default());
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

    /// The change in a form that takes more work than a copy: the row of a Table, which is made once in each second in which it is needed,
    /// because it shows ages, or an object of which a View leaves out a part. `None`: it cannot be made.
    ///
    /// What would take more than mailboxes hold is not kept.
    pub fn made(&self, form: &LineForm, make: impl FnOnce() -> Option<Bytes>) -> Option<Bytes> {
        let length = |line: &Option<Bytes>| line.as_ref().map_or(0, Bytes::len);
        let place = |kept: &mut Vec<KeptValue<LineForm, Option<Bytes>>>| {
            let old = kept.iter().position(|old| form.is_alike(&old.key))?;
            if kept.get(old).is_some_and(|old| old.key.second == form.second) {
                return Some(old);
            }
            // One of an earlier second makes room.
            self.counted.subtract(kept.swap_remove(old).counted);
            None
        };
        self.made.get_or_make(&self.counted, place, || form.clone(), length, make)
    }

    /// One of the lines above, compressed by the first caller. What would take more than mailboxes hold is not kept.
    pub fn deflated(&self, line: &Bytes, make: impl FnOnce() -> Deflated) -> Arc<Deflated> {
        // What is kept keeps its line, so no other one has this address.
        let is_same = |other: &Bytes| other.as_ptr() == line.as_ptr() && other.len() == line.len();
        let place = |kept: &mut Vec<KeptValue<Bytes, Arc<Deflated>>>| kept.iter().position(|old| is_same(&old.key));
        let length = |part: &Arc<Deflated>| part.blocks.len();
        self.deflated.get_or_make(&self.counted, place, || line.clone(), length, || Arc::new(make()))
    }

    /// What is read of a Pod whose watches follow it, read by the first.
    pub(super) fn pod(&self) -> Option<&PodHead> {
        let read = || self.change.after.as_ref().and_then(PodHead::read).map(Box::new);
        self.pod.get_or_init(read).as_deref()
    }

    /// Length of its object as JSON.
    pub fn bytes(&self) -> usize {
        let object = self.change.after.as_ref().or(self.change.before.as_ref());
        object.map_or(0, |object| object.length())
    }
}

/// Values that the first who needs one makes.
#[derive(Debug)]
struct Kept<Key, Value>(Mutex<Vec<KeptValue<Key, Value>>>);

#[derive(Debug)]
struct KeptValue<Key, Value> {
    key: Key,
    value: Arc<OnceLock<Value>>,
    /// Bytes that were counted for it.
    counted: usize,
}

impl<Key, Value> Default for Kept<Key, Value> {
    fn default() -> Kept<Key, Value> {
        Kept(Mutex::default())
    }
}

impl<Key, Value: Clone> Kept<Key, Value> {
    /// The value at a place, or a new one of this key, which is kept if there is room for its length.
    fn get_or_make(
        &self,
        counted: &Counted,
        place: impl FnOnce(&mut Vec<KeptValue<Key, Value>>) -> Option<usize>,
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
                    kept.push(KeptValue { key: key(), value: Arc::clone(&value), counted: 0 });
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
