//! The state of one resource for readers: not requested yet, loading, ready, or gone.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{self, Arc, PoisonError};
use std::time::Duration;

use tokio::sync::{Mutex, watch};
use tokio::time::{Instant, timeout};

use super::checks::{Checks, UnreadableNames};
use super::event_dispatcher::EventDispatcher;
use super::freshness::Freshness;
use super::memory::OverMemory;
use super::past::Past;
use crate::model::Version;
use crate::store::Snapshot;

/// The most objects without a protobuf form that are stored. A watch that meets a further one ends, and that object
/// replaces the oldest.
const MOST_UNENCODABLE: usize = 64;

/// The longest key of such an object that is stored, in bytes.
const LONGEST_UNENCODABLE: usize = 1_024;

/// The state of a resource's store at a moment.
#[derive(Clone, Debug)]
pub enum LoadState {
    /// Not requested yet.
    Idle,
    /// Being read from its source; the text describes the progress, or what delays it.
    Loading(String),
    /// The source rejects the list; it is tried again with pauses.
    SourceError {
        /// The HTTP status of the source's response: 401, 403, or another one that came several times.
        code: u16,
        /// For the client: the reason of a rejection with its sender, and the remedy.
        message: String,
    },
    /// Not loaded because of the memory limit. It is loaded by the next request once memory is available.
    OverMemory(OverMemory),
    /// A complete store.
    Ready(Snapshot),
    /// The resource is no longer served, or is served with other fields by a new [`super::Resource`].
    Gone(Gone),
}

/// How the store of a resource ended.
#[derive(Clone, Debug)]
pub struct Gone {
    /// Why the resource is no longer served.
    pub reason: GoneReason,
    /// Whether there was a store.
    pub had_store: bool,
    /// The last snapshot, if a watch was open: watches first send its changes that they have not sent yet. See
    /// [`ResourceState::forget_last`].
    pub last: Option<Snapshot>,
}

/// Why a resource is no longer served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GoneReason {
    /// Another store serves the same resource, with another definition or other fields.
    Replaced,
    /// The definition was deleted.
    NotServed,
    /// Its definition does not serve this version any more.
    VersionEnded,
    /// The source does not offer it any more. Its objects may still exist.
    NotOffered,
    /// It is no longer cached: no FieldCache names it.
    NotCached,
}

/// What is known of the objects of a resource that the source has stopped serving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// Its CRD was deleted, which happens only after all objects are. The version is that of the deletion, or a later
    /// one.
    ObjectsDeleted(Version),
    /// Its CRD does not serve this version any more. The objects may still exist in another version.
    VersionEnded,
    /// Nothing is known: the source no longer lists the resource, for example because an APIService was deleted.
    NotOffered,
}

impl Departure {
    /// The reason with which the resource will end.
    pub fn reason(self) -> GoneReason {
        match self {
            Departure::ObjectsDeleted(_) => GoneReason::NotServed,
            Departure::VersionEnded => GoneReason::VersionEnded,
            Departure::NotOffered => GoneReason::NotOffered,
        }
    }
}

/// The kind of a [`LoadState`] without its data, for receivers that do not need each change of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LoadPhase {
    /// Not requested yet.
    #[default]
    Idle,
    /// Being read.
    Loading,
    /// The source rejects the list.
    SourceError,
    /// Not loaded because of the memory limit: the reason `MemoryLimit` of a condition.
    OverMemory,
    /// A complete store.
    Ready,
    /// The resource is no longer served.
    Gone,
}

impl LoadState {
    /// The version of the store; `None` if it is not loaded.
    pub fn version(&self) -> Option<Version> {
        match self {
            LoadState::Ready(snapshot) => Some(snapshot.version()),
            LoadState::Idle
            | LoadState::Loading(_)
            | LoadState::SourceError { .. }
            | LoadState::OverMemory(_)
            | LoadState::Gone(_) => None,
        }
    }

    /// The phase of the state.
    fn phase(&self) -> LoadPhase {
        match self {
            LoadState::Idle => LoadPhase::Idle,
            LoadState::Loading(_) => LoadPhase::Loading,
            LoadState::SourceError { .. } => LoadPhase::SourceError,
            LoadState::OverMemory(_) => LoadPhase::OverMemory,
            LoadState::Ready(_) => LoadPhase::Ready,
            LoadState::Gone(_) => LoadPhase::Gone,
        }
    }
}

/// The state of one resource. Its feed writes it, and the server reads it.
#[derive(Debug)]
pub struct ResourceState {
    state: watch::Sender<LoadState>,
    phase: watch::Sender<LoadPhase>,
    /// Set when the source has reported that it does not serve the resource any more.
    departure: watch::Sender<Option<Departure>>,
    dispatcher: Arc<EventDispatcher>,
    /// Which versions of this epoch lists still show.
    past: sync::Mutex<Past>,
    /// How far the store has advanced, and how far readers need it to.
    freshness: Freshness,
    /// The number of requests for the store so far. The first one starts the feed, which ends when the number has not
    /// changed for long.
    demands: watch::Sender<u64>,
    /// The number of stores that have begun here; see [`ResourceState::next_epoch`].
    stores: AtomicU64,
    /// Open watches; a resource with one is in use however old its last request is.
    open_watches: Arc<AtomicU64>,
    /// The number of objects that the first list has read so far.
    read: AtomicU64,
    /// Objects that a watch could not send in protobuf, the newest last.
    unencodable: sync::Mutex<VecDeque<String>>,
    /// Responses in another form than protobuf, although the client prefers that.
    missed_protobuf: AtomicU64,
    /// Full lists that replaced a complete store.
    relists: AtomicU64,
    /// Whether a full list is being read; readers see nothing of it before it is complete.
    is_relisting: AtomicBool,
    /// Objects that cannot be read now.
    unreadable: sync::Mutex<Arc<UnreadableNames>>,
    /// How comparisons with the source ended.
    checks: Checks,
    /// The number of panics that have ended the feed.
    panics: AtomicU64,
    /// The last version that the source reported on request, and the time of the request.
    source_version: Mutex<Option<(Instant, Version)>>,
    /// The epoch of the last published snapshot.
    epoch: AtomicU64,
    /// The version of the newest write through this server, in this epoch; 0 for none.
    written: AtomicU64,
}

/// Why there is no snapshot for a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotReady {
    /// Not loaded within the time that the request could wait.
    #[error("storage is (re)initializing: {0}")]
    Loading(String),
    /// The source rejects the list.
    #[error("{message}")]
    SourceError {
        /// The HTTP status of the source's response; see [`LoadState::SourceError`].
        code: u16,
        /// The reason of a rejection with its sender, and the remedy.
        message: String,
    },
    /// The memory limit rejects the store.
    #[error(transparent)]
    OverMemory(#[from] OverMemory),
    /// The resource was removed while the request waited.
    #[error("the resource is no longer served")]
    Gone,
}

impl Default for ResourceState {
    fn default() -> ResourceState {
        ResourceState {
            state: watch::Sender::new(LoadState::Idle),
            phase: watch::Sender::new(LoadPhase::Idle),
            departure: watch::Sender::new(None),
            dispatcher: Arc::default(),
            past: sync::Mutex::default(),
            freshness: Freshness::default(),
            demands: watch::Sender::new(0),
            stores: AtomicU64::new(0),
            open_watches: Arc::new(AtomicU64::new(0)),
            read: AtomicU64::new(0),
            unencodable: sync::Mutex::default(),
            missed_protobuf: AtomicU64::new(0),
            relists: AtomicU64::new(0),
            is_relisting: AtomicBool::new(false),
            unreadable: sync::Mutex::default(),
            checks: Checks::default(),
            panics: AtomicU64::new(0),
            source_version: Mutex::default(),
            epoch: AtomicU64::new(0),
            written: AtomicU64::new(0),
        }
    }
}

impl ResourceState {
    /// Ends the resource, because it is no longer served. Keeps the last snapshot if a watch is open, and wakes all
    /// watches. The state cannot change afterwards.
    pub fn end(&self, reason: GoneReason) {
        let copy = match self.load_state() {
            LoadState::Ready(snapshot) => Some(snapshot),
            LoadState::Gone(_)
            | LoadState::Idle
            | LoadState::Loading(_)
            | LoadState::SourceError { .. }
            | LoadState::OverMemory(_) => None,
        };
        let had_copy = copy.is_some();
        self.publish(LoadState::Gone(Gone {
            reason,
            had_store: had_copy,
            last: copy.filter(|_| self.open_watches() > 0),
        }));
    }

    /// Releases the last snapshot of a resource that is gone: any reference to the resource would otherwise retain all
    /// of its objects. Wakes no receivers, because the state is the same for them.
    pub fn forget_last(&self) {
        self.state.send_if_modified(|state| {
            if let LoadState::Gone(gone) = state {
                gone.last = None;
            }
            false
        });
    }

    /// Records that the source no longer serves the resource. Its feed receives the last events of the source, and then
    /// calls [`ResourceState::end`]. Without a store there are no such events, and the resource ends now.
    pub fn depart(&self, departure: Departure) {
        if matches!(self.load_state(), LoadState::Ready(_)) {
            self.departure.send_replace(Some(departure));
        } else {
            self.end(departure.reason());
        }
    }

    /// What is known of the objects since the source has stopped serving the resource; `None` while it serves it.
    pub fn departure(&self) -> Option<Departure> {
        *self.departure.borrow()
    }

    /// Waits until the source no longer serves the resource. Safe to drop at any point.
    pub async fn departed(&self) {
        if self.departure.subscribe().wait_for(Option::is_some).await.is_err() {
            std::future::pending().await
        }
    }

    /// Publishes a state, and dispatches the changes of its snapshot to the watches that they concern. After
    /// [`LoadState::Gone`] nothing else is published.
    ///
    /// Only one task at a time may publish a snapshot, so that the changes of two are dispatched in order.
    pub fn publish(&self, state: LoadState) {
        let snapshot = match &state {
            LoadState::Ready(snapshot) => Some(snapshot.clone()),
            LoadState::Idle
            | LoadState::Loading(_)
            | LoadState::SourceError { .. }
            | LoadState::OverMemory(_)
            | LoadState::Gone(_) => None,
        };
        let phase = state.phase();
        let mut before = None;
        let is_shown = self.state.send_if_modified(|current| {
            if matches!(current, LoadState::Gone(_)) {
                return false;
            }
            if let LoadState::Ready(snapshot) = current {
                before = Some(snapshot.version());
            }
            *current = state;
            true
        });
        if is_shown {
            self.phase.send_if_modified(|current| std::mem::replace(current, phase) != phase);
        }
        match snapshot {
            Some(snapshot) if is_shown => {
                // Versions of another history are not comparable: a reader that waits for one would wait forever.
                if self.epoch.swap(snapshot.epoch(), Ordering::Relaxed) != snapshot.epoch() {
                    self.written.store(0, Ordering::Relaxed);
                    *self.past() = Past::default();
                } else if let Some(version) = before.filter(|version| *version < snapshot.version()) {
                    self.past().note_replaced(version, Instant::now());
                }
                self.dispatcher.route(&snapshot);
            }
            Some(_) => {}
            None => self.dispatcher.interrupt(),
        }
    }

    /// Whether a version was replaced so long ago that lists no longer show it.
    pub fn is_past(&self, version: Version) -> bool {
        self.past().is_expired(version, Instant::now())
    }

    /// When versions were replaced, which decides how long lists may still show them.
    fn past(&self) -> sync::MutexGuard<'_, Past> {
        self.past.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The dispatcher, which delivers changes to watches.
    pub fn dispatcher(&self) -> &Arc<EventDispatcher> {
        &self.dispatcher
    }

    /// The current state, with the snapshot if the store is loaded.
    pub fn load_state(&self) -> LoadState {
        self.state.borrow().clone()
    }

    /// A receiver of the state. A slow one skips states, but the snapshot of the newest has the history.
    pub fn subscribe(&self) -> watch::Receiver<LoadState> {
        self.state.subscribe()
    }

    /// A receiver of the phase of the state.
    pub fn phases(&self) -> watch::Receiver<LoadPhase> {
        self.phase.subscribe()
    }

    /// The freshness: how far the store has advanced, and how far readers need it to.
    pub fn freshness(&self) -> &Freshness {
        &self.freshness
    }

    /// For feeds: a receiver of the number of requests for the store.
    pub fn load_requests(&self) -> watch::Receiver<u64> {
        self.demands.subscribe()
    }

    /// Requests that the store is loaded, without waiting for it.
    pub fn request_load(&self) {
        self.demands.send_modify(|count| *count += 1);
    }

    /// A snapshot. Every call counts as a request, which keeps the store loaded, or loads it. Waits for at most
    /// `patience` while the store is being loaded.
    ///
    /// # Errors
    /// [`NotReady`] if the store is not loaded in time or cannot be loaded, or the resource ends.
    pub async fn snapshot(&self, patience: Duration) -> Result<Snapshot, NotReady> {
        if let LoadState::Ready(snapshot) = self.load_state() {
            // The request is counted without waking receivers: a loaded store needs no load.
            self.demands.send_if_modified(|count| {
                *count += 1;
                false
            });
            return Ok(snapshot);
        }
        self.request_load();
        let mut states = self.state.subscribe();
        let settled = states.wait_for(|state| !matches!(state, LoadState::Idle | LoadState::Loading(_)));
        // On a timeout, the current state decides. The channel cannot close: this state owns its sender.
        let state = match timeout(patience, settled).await {
            Ok(Ok(state)) => state.clone(),
            Ok(Err(_)) | Err(_) => self.load_state(),
        };
        match state {
            LoadState::Ready(snapshot) => Ok(snapshot),
            LoadState::Loading(progress) => Err(NotReady::Loading(progress)),
            LoadState::Idle => Err(NotReady::Loading("not started".to_owned())),
            LoadState::SourceError { code, message } => Err(NotReady::SourceError { code, message }),
            LoadState::OverMemory(over) => Err(NotReady::OverMemory(over)),
            LoadState::Gone(_) => Err(NotReady::Gone),
        }
    }

    /// The first epoch of a store that begins now, above all epochs that earlier stores of this resource can have
    /// reached: each store has 2^32 of them. A watch that did not run while one store replaced another must not mistake
    /// the new history for its own.
    pub fn next_epoch(&self) -> u64 {
        self.stores.fetch_add(1, Ordering::Relaxed) << 32
    }

    /// Counts an open watch until the guard is dropped.
    pub fn open_watch(&self) -> OpenWatch {
        self.open_watches.fetch_add(1, Ordering::Relaxed);
        OpenWatch(self.open_watches.clone())
    }

    /// For feeds: publishes that the store is loading, and the number of objects that the first list has read so far.
    pub fn publish_progress(&self, read: usize) {
        self.read.store(read as u64, Ordering::Relaxed);
        self.publish(LoadState::Loading(format!("{read} objects read")));
    }

    /// The number of objects that the first list has read so far.
    pub fn objects_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// For feeds: counts a full list that replaced a complete store.
    pub fn count_relist(&self) {
        self.relists.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of relists.
    pub fn relists(&self) -> u64 {
        self.relists.load(Ordering::Relaxed)
    }

    /// Records the key of an object that a watch could not send in protobuf. Watches that would send it use JSON from
    /// the beginning.
    pub fn note_unencodable(&self, key: &str) {
        // No API server of Kubernetes accepts a name as long, and this set is not counted by the memory limit.
        if key.len() > LONGEST_UNENCODABLE {
            return;
        }
        let mut noted = self.unencodable.lock().unwrap_or_else(PoisonError::into_inner);
        noted.retain(|other| other != key);
        if noted.len() == MOST_UNENCODABLE {
            noted.pop_front();
        }
        noted.push_back(key.to_owned());
    }

    /// The keys of objects that watches could not send in protobuf. They may have changed since, or be gone.
    pub fn unencodable(&self) -> Vec<String> {
        self.unencodable.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// Records that this object has a protobuf form now, or was deleted.
    pub fn forget_unencodable(&self, key: &str) {
        self.unencodable.lock().unwrap_or_else(PoisonError::into_inner).retain(|other| other != key);
    }

    /// Counts a response that is not in protobuf, although the client prefers that.
    pub fn count_missed_protobuf(&self) {
        self.missed_protobuf.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of responses that were not in protobuf, although the client prefers that.
    pub fn missed_protobuf(&self) -> u64 {
        self.missed_protobuf.load(Ordering::Relaxed)
    }

    /// For feeds: records whether a full list is being read, or is due because the store is known to be wrong.
    pub fn set_relisting(&self, is_relisting: bool) {
        self.is_relisting.store(is_relisting, Ordering::Relaxed);
    }

    /// Whether a full list is being read, or is due because the store is known to be wrong.
    pub fn is_relisting(&self) -> bool {
        self.is_relisting.load(Ordering::Relaxed)
    }

    /// For feeds: sets the objects that cannot be read now and are not served.
    pub fn publish_unreadable(&self, unreadable: UnreadableNames) {
        *self.unreadable.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(unreadable);
    }

    /// The objects that cannot be read now.
    pub fn unreadable(&self) -> Arc<UnreadableNames> {
        self.unreadable.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The outcomes of comparisons with the source.
    pub fn checks(&self) -> &Checks {
        &self.checks
    }

    /// Counts a panic that ended the feed.
    pub fn count_panic(&self) {
        self.panics.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of panics that have ended the feed.
    pub fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }

    /// The version of the source at some moment after this call. `request` requests that version. Calls that arrive
    /// during a request wait for it, and then share the next one.
    ///
    /// # Errors
    /// The error of `request`.
    pub async fn source_version<E>(&self, request: impl Future<Output = Result<Version, E>>) -> Result<Version, E> {
        let called = Instant::now();
        let mut last = self.source_version.lock().await;
        match *last {
            Some((requested_at, version)) if requested_at >= called => Ok(version),
            _ => {
                let requested_at = Instant::now();
                let version = request.await?;
                self.freshness.note_source_version(requested_at, version);
                *last = Some((requested_at, version));
                Ok(version)
            }
        }
    }

    /// Records the version of a write through this server: later reads must show it.
    pub fn note_write(&self, version: Version) {
        self.written.fetch_max(version.number(), Ordering::Relaxed);
    }

    /// The version of the newest such write; zero if there is none.
    pub fn last_written(&self) -> Version {
        Version::new(self.written.load(Ordering::Relaxed))
    }

    /// The number of open watches.
    pub fn open_watches(&self) -> u64 {
        self.open_watches.load(Ordering::Relaxed)
    }
}

/// An open watch; see [`ResourceState::open_watch`].
#[derive(Debug)]
pub struct OpenWatch(Arc<AtomicU64>);

impl Drop for OpenWatch {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
