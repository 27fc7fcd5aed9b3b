//! Changes on their way to the watches they touch.
//!
//! A watch is a place in the history of its resource; what the router adds is that it need not look at everything that happened
//! there. Each watch has a mailbox: the changes since its place that may concern it, at most [`MOST_PENDING`] of them.
//! When more come than it reads, the box is emptied and says so, and the watch reads history from its place, as one does that has
//! just begun; when history has moved past it, it ends. What lies in all boxes together is bounded too. So nothing queues without a bound, and nothing is lost.
//!
//! One writer calls [`EventDispatcher::route`] for each published snapshot, after readers can see it. Which subscriptions a change touches is
//! `subscribe::subscription_index`; what it means to one is `subscribe::transition`; what is written of it is kept in [`super::dispatched_event`].

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use crate::model::Version;
use crate::query::{CompactSelection, Selection};
use crate::store::{Cursor, Snapshot};
use crate::subscribe::subscription_index::{Stand, SubscriptionId, SubscriptionIndex, Touched};

use super::dispatched_event::{DispatchedEvent, MOST_HELD_BYTES};

/// Changes that wait for one watch; with more, it reads history instead.
const MOST_PENDING: usize = 64;
/// Bytes of objects that wait for one watch, as JSON.
const MOST_PENDING_BYTES: usize = 1 << 20;

/// How far changes have been routed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Reached {
    epoch: u64,
    /// The place after the last routed change.
    end: Cursor,
    version: Version,
    /// The last stretch of history of which only the outcome is known.
    jump: Option<(Version, Version)>,
}

/// The subscriptions of one resource.
#[derive(Debug, Default)]
pub struct EventDispatcher {
    table: Mutex<Table>,
    /// Written after everything up to there lies in its mailboxes, read before they are looked into.
    reached: Mutex<Reached>,
    /// Bytes of the changes in mailboxes.
    held: Arc<AtomicUsize>,
}

#[derive(Debug, Default)]
struct Table {
    routes: SubscriptionIndex,
    boxes: Vec<Option<Arc<Mailbox>>>,
    free: Vec<SubscriptionId>,
    /// The selections of all subscriptions, each once, and how many subscriptions have it.
    selections: HashMap<Arc<CompactSelection>, usize>,
    /// Those who want to know of every snapshot, with or without changes.
    attentive: BTreeSet<SubscriptionId>,
}

#[derive(Debug, Default)]
struct Mailbox(Mutex<Mail>);

#[derive(Debug)]
struct Mail {
    pending: Vec<Arc<DispatchedEvent>>,
    bytes: usize,
    /// More came than is kept: history has it.
    overflowed: bool,
    is_news: bool,
    reader: Option<Waker>,
}

impl Default for Mail {
    /// A reader begins with history: what was published before it subscribed is not in its box.
    fn default() -> Mail {
        Mail { pending: Vec::new(), bytes: 0, overflowed: true, is_news: true, reader: None }
    }
}

impl Mail {
    /// There is something to read; gives the reader to be woken, if it sleeps.
    fn news(&mut self) -> Option<Waker> {
        self.is_news = true;
        self.reader.take()
    }

    fn overflow(&mut self) -> Option<Waker> {
        self.pending = Vec::new();
        self.bytes = 0;
        self.overflowed = true;
        self.news()
    }

    /// Leaves what there is to history.
    fn empty(&mut self) -> Option<Waker> {
        if self.pending.is_empty() { None } else { self.overflow() }
    }

    fn put(&mut self, routed: &Arc<DispatchedEvent>) -> Option<Waker> {
        if self.overflowed {
            return self.news();
        }
        self.bytes += routed.bytes();
        if self.pending.len() == MOST_PENDING || (self.bytes > MOST_PENDING_BYTES && !self.pending.is_empty()) {
            return self.overflow();
        }
        self.pending.push(routed.clone());
        self.news()
    }
}

fn lock<Held>(mutex: &Mutex<Held>) -> MutexGuard<'_, Held> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl EventDispatcher {
    /// Brings what is new in a snapshot to whom it touches.
    pub fn route(&self, snapshot: &Snapshot) {
        let mut readers = Vec::new();
        let table = lock(&self.table);
        let before = *lock(&self.reached);
        let reached = Reached {
            epoch: snapshot.epoch(),
            end: snapshot.end(),
            version: snapshot.version(),
            jump: snapshot.last_jump(),
        };
        let is_continued = reached.epoch == before.epoch && reached.jump == before.jump;
        match snapshot.changes(before.end).filter(|_| is_continued) {
            // What happens rarely and concerns everybody is read from history, where all of it stands.
            None => readers.extend(table.held().filter_map(|held| lock(&held.0).overflow())),
            Some(changes) if table.is_empty() => drop(changes),
            Some(changes) => {
                let mut touched = Touched::default();
                let mut place = before.end;
                for change in changes {
                    touched.clear();
                    table.routes.touched(change, &mut touched);
                    if !touched.ids().is_empty() {
                        if self.held.load(Ordering::Relaxed) > MOST_HELD_BYTES {
                            readers.extend(table.held().filter_map(|held| lock(&held.0).empty()));
                        }
                        let routed = Arc::new(DispatchedEvent::new(place, change.clone(), &self.held));
                        let boxes = touched.ids().iter().filter_map(|id| table.mailbox(*id));
                        readers.extend(boxes.filter_map(|held| lock(&held.0).put(&routed)));
                    }
                    place = place.advanced(1);
                }
                let attentive = table.attentive.iter().filter_map(|id| table.mailbox(*id));
                readers.extend(attentive.filter_map(|held| lock(&held.0).news()));
            }
        }
        *lock(&self.reached) = reached;
        drop(table);
        readers.into_iter().for_each(Waker::wake);
    }

    /// Wakes everybody: there is no snapshot any more, or another kind of state.
    pub fn interrupt(&self) {
        let table = lock(&self.table);
        let readers: Vec<Waker> = table.held().filter_map(|held| lock(&held.0).overflow()).collect();
        drop(table);
        readers.into_iter().for_each(Waker::wake);
    }

    /// Bytes of the changes that lie in mailboxes.
    pub fn held_bytes(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Adds a subscription. One that is `attentive` is also told of snapshots without changes.
    pub fn subscribe(self: &Arc<EventDispatcher>, selection: &Selection, attentive: bool) -> Subscription {
        let compact = CompactSelection::new(selection);
        let mailbox = Arc::new(Mailbox::default());
        let mut table = lock(&self.table);
        let id = table.free.pop().unwrap_or_else(|| {
            table.boxes.push(None);
            // There are fewer connections than that.
            SubscriptionId::try_from(table.boxes.len() - 1).unwrap_or(SubscriptionId::MAX)
        });
        if let Some(place) = table.boxes.get_mut(id as usize) {
            *place = Some(mailbox.clone());
        }
        let stand = table.routes.insert(id, selection);
        let selection = table.shared(compact);
        if attentive {
            table.attentive.insert(id);
        }
        drop(table);
        Subscription { router: self.clone(), id, mailbox, selection, stand }
    }
}

impl Table {
    fn held(&self) -> impl Iterator<Item = &Arc<Mailbox>> {
        self.boxes.iter().flatten()
    }

    fn mailbox(&self, id: SubscriptionId) -> Option<&Arc<Mailbox>> {
        self.boxes.get(id as usize).and_then(Option::as_ref)
    }

    fn is_empty(&self) -> bool {
        self.boxes.len() == self.free.len()
    }

    /// The selection that is held already, if an equal one is.
    fn shared(&mut self, selection: CompactSelection) -> Arc<CompactSelection> {
        let selection = match self.selections.get_key_value(&selection) {
            Some((held, _)) => held.clone(),
            None => Arc::new(selection),
        };
        *self.selections.entry(selection.clone()).or_default() += 1;
        selection
    }

    /// One subscription less has this selection.
    fn release(&mut self, selection: &CompactSelection) {
        let Some(count) = self.selections.get_mut(selection) else { return };
        *count -= 1;
        if *count == 0 {
            self.selections.remove(selection);
        }
    }
}

/// What a watch finds in its mailbox.
#[derive(Debug)]
pub enum Mailed {
    /// Everything since its place that may concern it, in order. It may have read the first of them from history.
    Changes {
        /// The changes.
        changes: Vec<Arc<DispatchedEvent>>,
        /// The place behind all that has been looked at.
        end: Cursor,
        /// What they reach to: everything that concerns the watch up to here is among them.
        version: Version,
    },
    /// It must read history from its place.
    Overflowed,
}

/// One watch's place in the router; dropped, it is forgotten.
#[derive(Debug)]
pub struct Subscription {
    router: Arc<EventDispatcher>,
    id: SubscriptionId,
    mailbox: Arc<Mailbox>,
    selection: Arc<CompactSelection>,
    stand: Stand,
}

impl Subscription {
    /// What it selects.
    pub fn selection(&self) -> &CompactSelection {
        &self.selection
    }

    /// What it takes in memory because of its selection, in bytes. What it shares with others is counted.
    pub fn held_bytes(&self) -> usize {
        self.selection.held_bytes() + self.stand.held_bytes()
    }

    /// Takes what has come.
    pub fn take(&self) -> Mailed {
        // Before the box is opened: what lies in it then reaches at least so far.
        let reached = *lock(&self.router.reached);
        let mut mail = lock(&self.mailbox.0);
        mail.bytes = 0;
        if std::mem::take(&mut mail.overflowed) {
            return Mailed::Overflowed;
        }
        let changes = std::mem::take(&mut mail.pending);
        let last = changes.last().map(|routed| (routed.place.advanced(1), routed.change.version));
        let (end, version) = last.unwrap_or_default();
        Mailed::Changes { changes, end: end.max(reached.end), version: version.max(reached.version) }
    }

    /// Leaves what was not read of what was taken last for the next time.
    pub fn put_back(&self, mut rest: Vec<Arc<DispatchedEvent>>) {
        let mut mail = lock(&self.mailbox.0);
        if mail.overflowed {
            return;
        }
        mail.bytes += rest.iter().map(|routed| routed.bytes()).sum::<usize>();
        rest.append(&mut mail.pending);
        mail.pending = rest;
        if mail.pending.len() > MOST_PENDING {
            // The reader calls this, so no task has to be woken.
            mail.overflow();
        }
    }

    /// Whether no change waits; only the version up to which changes were routed may be newer.
    pub fn is_empty(&self) -> bool {
        let mail = lock(&self.mailbox.0);
        mail.pending.is_empty() && !mail.overflowed
    }

    /// Whether more has come than is kept, so that history has to be read.
    pub fn is_overflowed(&self) -> bool {
        lock(&self.mailbox.0).overflowed
    }

    /// Waits until something has come since the last wait; safe to drop at any point.
    pub async fn news(&self) {
        std::future::poll_fn(|context| {
            let mut mail = lock(&self.mailbox.0);
            if std::mem::take(&mut mail.is_news) {
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
        let mut table = lock(&self.router.table);
        table.routes.remove(self.id, &self.stand);
        table.release(&self.selection);
        table.attentive.remove(&self.id);
        if let Some(place) = table.boxes.get_mut(self.id as usize) {
            *place = None;
        }
        table.free.push(self.id);
    }
}
