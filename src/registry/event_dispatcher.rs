//! Delivers changes to the watches that they may concern.
//!
//! A watch is a position in the history of its resource. With the dispatcher, a watch need not read every change. Each
//! watch has a mailbox with the changes since its position that may concern it, at most [`MOST_PENDING`]. When more
//! changes arrive than the watch reads, the mailbox is emptied and marked as overflowed. The watch then reads history
//! from its position, as a new watch does, and ends when history no longer reaches back to the position. All mailboxes
//! together are bounded too. So no queue grows without a bound, and no change is lost.
//!
//! One writer calls [`EventDispatcher::route`] for each published snapshot, after readers can see it.
//! `subscribe::subscription_index` finds the subscriptions that a change may concern, `subscribe::transition` decides
//! for each, and [`super::dispatched_event`] caches what is written.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use crate::model::Version;
use crate::query::{CompactSelection, Selection};
use crate::store::{HistoryCursor, Snapshot};
use crate::subscribe::subscription_index::{Candidates, StoredKeys, SubscriptionId, SubscriptionIndex};

use super::dispatched_event::{DispatchedEvent, MOST_HELD_BYTES};

/// The maximum number of changes that wait for one watch. With more, the watch reads history instead.
const MOST_PENDING: usize = 64;

/// The maximum number of bytes of objects that wait for one watch, as JSON. One change may be longer.
const MOST_PENDING_BYTES: usize = 1 << 20;

/// The position up to which changes have been dispatched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Reached {
    /// The epoch of the last dispatched snapshot.
    epoch: u64,
    /// The position after the last dispatched change.
    end: HistoryCursor,
    /// The version of the last dispatched snapshot.
    version: Version,
    /// The last range of versions between the states before and after a relist, whose changes are unknown.
    relist_gap: Option<(Version, Version)>,
}

/// The subscriptions of one resource.
#[derive(Debug, Default)]
pub struct EventDispatcher {
    table: Mutex<Table>,
    /// The writer sets this after all changes up to it are in the mailboxes. A watch reads this before its mailbox.
    reached: Mutex<Reached>,
    /// The bytes of the changes in all mailboxes, each change counted once. Changes that watches still use count too.
    held: Arc<AtomicUsize>,
}

/// The subscriptions and their mailboxes.
#[derive(Debug, Default)]
struct Table {
    /// Finds the subscriptions that a change may concern.
    routes: SubscriptionIndex,
    /// The mailbox of each subscription, by its id; `None` for an unused id.
    boxes: Vec<Option<Arc<Mailbox>>>,
    /// The unused ids.
    free: Vec<SubscriptionId>,
    /// The selections of all subscriptions, each once, and the number of subscriptions that have it.
    selections: HashMap<Arc<CompactSelection>, usize>,
    /// Subscriptions that are woken for every snapshot, with or without changes.
    wants_progress: BTreeSet<SubscriptionId>,
}

/// The changes that wait for one watch.
#[derive(Debug, Default)]
struct Mailbox(Mutex<Mail>);

/// The contents of a mailbox.
#[derive(Debug)]
struct Mail {
    /// The changes, in the order of history.
    pending: Vec<Arc<DispatchedEvent>>,
    /// Bytes of the objects in `pending`, as JSON.
    bytes: usize,
    /// Whether more changes arrived than fit, so that the watch must read history. Then `pending` is empty.
    overflowed: bool,
    /// Whether the contents have changed since the last wait of the watch, so that its next wait ends at once.
    has_changed: bool,
    /// Wakes the watch while it waits; `None` while it does not.
    reader: Option<Waker>,
}

impl Default for Mail {
    /// A new mailbox counts as overflowed, so that its watch reads history first. Only history has the changes before
    /// the subscription.
    fn default() -> Mail {
        Mail { pending: Vec::new(), bytes: 0, overflowed: true, has_changed: true, reader: None }
    }
}

impl Mail {
    /// Marks the mailbox as changed. Returns the waker of a waiting watch.
    fn take_waker(&mut self) -> Option<Waker> {
        self.has_changed = true;
        self.reader.take()
    }

    /// Drops all changes, so that the watch reads history instead. Returns the waker of a waiting watch.
    fn overflow(&mut self) -> Option<Waker> {
        self.pending = Vec::new();
        self.bytes = 0;
        self.overflowed = true;
        self.take_waker()
    }

    /// Like [`Mail::overflow`], if there are any changes; otherwise does nothing.
    fn overflow_if_pending(&mut self) -> Option<Waker> {
        if self.pending.is_empty() { None } else { self.overflow() }
    }

    /// Appends a change, or overflows if it does not fit. Returns the waker of a waiting watch.
    fn put(&mut self, event: &Arc<DispatchedEvent>) -> Option<Waker> {
        // The watch must read history, which has this change too.
        if self.overflowed {
            return self.take_waker();
        }
        self.bytes += event.bytes();
        // A change that is longer than the bound fits into an empty mailbox.
        if self.pending.len() == MOST_PENDING || (self.bytes > MOST_PENDING_BYTES && !self.pending.is_empty()) {
            return self.overflow();
        }
        self.pending.push(event.clone());
        self.take_waker()
    }
}

/// Locks a mutex, also if a thread panicked while it held the lock.
fn lock<Held>(mutex: &Mutex<Held>) -> MutexGuard<'_, Held> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl EventDispatcher {
    /// Delivers the changes between the previous snapshot and this one, and wakes the watches that they may concern.
    pub fn route(&self, snapshot: &Snapshot) {
        // The watches to wake.
        let mut readers = Vec::new();
        let table = lock(&self.table);
        let before = *lock(&self.reached);
        let reached = Reached {
            epoch: snapshot.epoch(),
            end: snapshot.end(),
            version: snapshot.version(),
            relist_gap: snapshot.last_relist_gap(),
        };
        let is_continued = reached.epoch == before.epoch && reached.relist_gap == before.relist_gap;
        match snapshot.changes(before.end).filter(|_| is_continued) {
            // A relist or another epoch concerns every watch. History has all of its changes, so the watches read it.
            None => readers.extend(table.mailboxes().filter_map(|mailbox| lock(&mailbox.0).overflow())),
            Some(changes) if table.is_empty() => drop(changes),
            Some(changes) => {
                let mut candidates = Candidates::default();
                let mut place = before.end;
                for change in changes {
                    candidates.clear();
                    table.routes.candidates(change, &mut candidates);
                    if !candidates.ids().is_empty() {
                        // All mailboxes together hold too much, so they are emptied and their watches read history.
                        if self.held.load(Ordering::Relaxed) > MOST_HELD_BYTES {
                            readers
                                .extend(table.mailboxes().filter_map(|mailbox| lock(&mailbox.0).overflow_if_pending()));
                        }
                        let event = Arc::new(DispatchedEvent::new(place, change.clone(), &self.held));
                        let boxes = candidates.ids().iter().filter_map(|id| table.mailbox(*id));
                        readers.extend(boxes.filter_map(|mailbox| lock(&mailbox.0).put(&event)));
                    }
                    place = place.advanced(1);
                }
                let wants_progress = table.wants_progress.iter().filter_map(|id| table.mailbox(*id));
                readers.extend(wants_progress.filter_map(|mailbox| lock(&mailbox.0).take_waker()));
            }
        }
        // Set after the mailboxes are filled: a watch that reads `reached` must find all changes up to that position.
        *lock(&self.reached) = reached;
        drop(table);
        readers.into_iter().for_each(Waker::wake);
    }

    /// Empties all mailboxes and wakes all watches, because the store has no snapshot any more.
    pub fn interrupt(&self) {
        let table = lock(&self.table);
        let readers: Vec<Waker> = table.mailboxes().filter_map(|mailbox| lock(&mailbox.0).overflow()).collect();
        drop(table);
        readers.into_iter().for_each(Waker::wake);
    }

    /// The bytes of the pending changes of all mailboxes.
    pub fn held_bytes(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Adds a subscription for the changes that may concern a selection. With `wants_progress`, its watch is also woken
    /// for snapshots without changes.
    pub fn subscribe(self: &Arc<EventDispatcher>, selection: &Selection, wants_progress: bool) -> Subscription {
        let compact = CompactSelection::new(selection);
        let mailbox = Arc::new(Mailbox::default());
        let mut table = lock(&self.table);
        let id = table.free.pop().unwrap_or_else(|| {
            table.boxes.push(None);
            // There are fewer subscriptions than numbers of this type, so the conversion does not fail.
            SubscriptionId::try_from(table.boxes.len() - 1).unwrap_or(SubscriptionId::MAX)
        });
        if let Some(entry) = table.boxes.get_mut(id as usize) {
            *entry = Some(mailbox.clone());
        }
        let stored_keys = table.routes.insert(id, selection);
        let selection = table.shared(compact);
        if wants_progress {
            table.wants_progress.insert(id);
        }
        drop(table);
        Subscription { dispatcher: self.clone(), id, mailbox, selection, stored_keys }
    }
}

impl Table {
    /// The mailboxes of all subscriptions.
    fn mailboxes(&self) -> impl Iterator<Item = &Arc<Mailbox>> {
        self.boxes.iter().flatten()
    }

    /// The mailbox of a subscription; `None` if the id is unused.
    fn mailbox(&self, id: SubscriptionId) -> Option<&Arc<Mailbox>> {
        self.boxes.get(id as usize).and_then(Option::as_ref)
    }

    /// Whether there are no subscriptions: all ids are unused.
    fn is_empty(&self) -> bool {
        self.boxes.len() == self.free.len()
    }

    /// Counts one more subscription with this selection. Returns the selection, shared with equal ones.
    fn shared(&mut self, selection: CompactSelection) -> Arc<CompactSelection> {
        let selection = match self.selections.get_key_value(&selection) {
            Some((existing, _)) => existing.clone(),
            None => Arc::new(selection),
        };
        *self.selections.entry(selection.clone()).or_default() += 1;
        selection
    }

    /// Counts one subscription fewer with this selection.
    fn release(&mut self, selection: &CompactSelection) {
        let Some(count) = self.selections.get_mut(selection) else { return };
        *count -= 1;
        if *count == 0 {
            self.selections.remove(selection);
        }
    }
}

/// The contents of a mailbox.
#[derive(Debug)]
pub enum MailboxContents {
    /// All changes since the position of the watch that may concern it, in order. The watch may have read the first of
    /// these changes from history already.
    Changes {
        /// The changes.
        changes: Vec<Arc<DispatchedEvent>>,
        /// The position after all changes that were dispatched.
        end: HistoryCursor,
        /// The version of that position: every change up to it that concerns the watch is in `changes`.
        version: Version,
    },
    /// The watch must read history from its position.
    Overflowed,
}

/// The subscription of one watch. When the value is dropped, the dispatcher removes the subscription.
#[derive(Debug)]
pub struct Subscription {
    dispatcher: Arc<EventDispatcher>,
    id: SubscriptionId,
    mailbox: Arc<Mailbox>,
    /// The selection of the watch, shared with equal ones.
    selection: Arc<CompactSelection>,
    /// The keys under which the index has the subscription; needed to remove it.
    stored_keys: StoredKeys,
}

impl Subscription {
    /// The selection of the subscription.
    pub fn selection(&self) -> &CompactSelection {
        &self.selection
    }

    /// The memory of the selection and of its keys in the index, in bytes. What is shared with other subscriptions is
    /// counted in full.
    pub fn held_bytes(&self) -> usize {
        self.selection.held_bytes() + self.stored_keys.held_bytes()
    }

    /// Takes the contents of the mailbox, and leaves it empty.
    pub fn take(&self) -> MailboxContents {
        // Read before the mailbox: the writer sets `reached` last, so the mailbox has all changes up to it.
        let reached = *lock(&self.dispatcher.reached);
        let mut mail = lock(&self.mailbox.0);
        mail.bytes = 0;
        if std::mem::take(&mut mail.overflowed) {
            return MailboxContents::Overflowed;
        }
        let changes = std::mem::take(&mut mail.pending);
        let last = changes.last().map(|event| (event.place.advanced(1), event.change.version));
        let (end, version) = last.unwrap_or_default();
        MailboxContents::Changes { changes, end: end.max(reached.end), version: version.max(reached.version) }
    }

    /// Puts back the changes of the last [`Subscription::take`] that the watch has not handled, before the changes that
    /// have arrived since.
    pub fn put_back(&self, mut unread: Vec<Arc<DispatchedEvent>>) {
        let mut mail = lock(&self.mailbox.0);
        // The watch must read history, which has these changes too.
        if mail.overflowed {
            return;
        }
        mail.bytes += unread.iter().map(|event| event.bytes()).sum::<usize>();
        unread.append(&mut mail.pending);
        mail.pending = unread;
        if mail.pending.len() > MOST_PENDING {
            // The watch itself calls this function, so its task need not be woken.
            mail.overflow();
        }
    }

    /// Whether no change is pending and the mailbox is not overflowed. The version up to which changes were dispatched
    /// may still be newer than at the last [`Subscription::take`].
    pub fn is_empty(&self) -> bool {
        let mail = lock(&self.mailbox.0);
        mail.pending.is_empty() && !mail.overflowed
    }

    /// Whether more changes arrived than fit, so that history has to be read.
    pub fn is_overflowed(&self) -> bool {
        lock(&self.mailbox.0).overflowed
    }

    /// Waits until the mailbox has changed since the last wait. The future can be dropped at any point without the loss
    /// of a change.
    pub async fn changed(&self) {
        std::future::poll_fn(|context| {
            let mut mail = lock(&self.mailbox.0);
            if std::mem::take(&mut mail.has_changed) {
                return Poll::Ready(());
            }
            match &mut mail.reader {
                Some(reader) => reader.clone_from(context.waker()),
                none => *none = Some(context.waker().clone()),
            }
            Poll::Pending
        })
        .await;
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut table = lock(&self.dispatcher.table);
        table.routes.remove(self.id, &self.stored_keys);
        table.release(&self.selection);
        table.wants_progress.remove(&self.id);
        if let Some(entry) = table.boxes.get_mut(self.id as usize) {
            *entry = None;
        }
        table.free.push(self.id);
    }
}
