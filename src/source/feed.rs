//! The only writer of a store: turns the events of a source into records, and publishes snapshots.
//!
//! It is synchronous: the source calls it, so there is no queue between them, and a slow writer slows its source. A
//! relist is between [`SourceEvent::Begin`] and [`SourceEvent::Commit`] and is invisible until then. A streaming list
//! may send changes between its objects and its end, because the server sends the end bookmark from a timer. So until
//! then every event belongs to it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::extract::InvalidObject;
use crate::json::{tree, weight};
use crate::model::{Key, Record, Version, quantity};
use crate::registry::{Account, LoadState, Memory, Resource, ResourceOrigin, UnreadableNames};
use crate::store::{HistoryLimits, RelistMode, RelistOutcome, Store};

/// The events of a source, in its order.
#[derive(Clone, Debug)]
pub enum SourceEvent {
    /// A full list begins; an unfinished one is dropped.
    Begin,
    /// An object of the list.
    Item(Bytes),
    /// The list is complete and shows this version.
    Commit(Version),
    /// The list was interrupted: its objects are released. Without a list, the event has no effect.
    Abort,
    /// An object was created or changed.
    Upsert(Bytes),
    /// An object was deleted: its last state, with the version of the deletion.
    Remove(Bytes),
    /// An object was deleted, from a source that does not send the last state: the name, and the version of the
    /// deletion.
    RemoveKey(Key, Version),
    /// Everything up to this version has been sent: a bookmark or another progress notification.
    Mark(Version),
    /// A comparison has shown that the store equals the source at this version. Events up to it that still arrive
    /// change nothing.
    Compared(Version),
}

impl SourceEvent {
    /// The length of the object that the event adds, in bytes; 0 without one.
    fn length(&self) -> usize {
        match self {
            SourceEvent::Item(object) | SourceEvent::Upsert(object) => object.len(),
            SourceEvent::Begin
            | SourceEvent::Commit(_)
            | SourceEvent::Abort
            | SourceEvent::Remove(_)
            | SourceEvent::RemoveKey(..)
            | SourceEvent::Mark(_)
            | SourceEvent::Compared(_) => 0,
        }
    }
}

/// Writes one resource's store and publishes it.
#[derive(Debug)]
pub struct Feed {
    resource: Arc<Resource>,
    store: Store,
    /// Objects that could not be read, by key or [`UNKNOWN_NAME`], with the reason. At most [`MAX_UNREADABLE`].
    unreadable: BTreeMap<String, String>,
    /// The unreadable objects of the list in progress; `unreadable` is valid for the old store until the new one is
    /// complete.
    unreadable_in_list: BTreeMap<String, String>,
    /// Whether the resource state has the current `unreadable`.
    unreadable_is_published: bool,
    /// When an object with too many or too long values was last logged.
    reported_unknown_values: Option<Instant>,
    /// Whether a first list has been committed.
    ready: bool,
    /// The store equalled the source at this version: events up to it are ignored.
    compared: Version,
    /// Whether only a full list can bring the store up to date: at first, and when the source no longer has the events
    /// since our version.
    needs_list: bool,
    /// How much of the store the next list can rely on: see [`Feed::begin_new_epoch`] and [`Feed::invalidate`].
    trust: RelistMode,
    /// The memory of the store; `None` where it is not counted.
    accounting: Option<MemoryAccounting>,
}

/// The memory of a store, which follows its changes.
#[derive(Debug)]
struct MemoryAccounting {
    account: Account,
    /// Whether the memory limit may cancel the first list, and unload the store later.
    may_be_refused: bool,
    /// The memory of the store when its first list was cancelled.
    refused: Option<quantity::Bytes>,
    /// The memory of indexes and order when it was last measured, in bytes.
    index_bytes: u64,
    /// Events until it is measured again.
    until_walk: usize,
    /// Events, and bytes of them, until the account is updated again.
    until_look: (usize, usize),
}

/// A list updates the account after this many objects, or this many bytes of them.
const LOOK_EVERY: (usize, usize) = (256, 8 << 20);

/// The memory of indexes is measured after at least this many events, and after an eighth of the store. A growing store
/// is thus measured only a few times.
const WALK_EVERY: usize = 1_024;

/// The minimum time between log lines about objects of a resource with too many or too long values.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// Unreadable objects that are stored by name; further ones are only logged. A healthy cluster has none.
const MAX_UNREADABLE: usize = 1_000;

/// The longest name, with its namespace, that is stored for an unreadable object, in bytes. No API server of Kubernetes
/// accepts one as long.
const LONGEST_NAME: usize = 1_024;

/// Reported instead of a name that is missing, invalid or too long.
const UNKNOWN_NAME: &str = "(unknown name)";

impl Feed {
    /// A feed with an empty store.
    pub fn new(resource: Arc<Resource>, limits: HistoryLimits) -> Feed {
        let integers = resource.extractor.integers().collect();
        let store = Store::with_epoch(limits, resource.state.next_epoch()).with_integers(integers);
        resource.state.set_relisting(false);
        Feed {
            resource,
            store,
            unreadable: BTreeMap::new(),
            unreadable_in_list: BTreeMap::new(),
            unreadable_is_published: false,
            reported_unknown_values: None,
            ready: false,
            compared: Version::ZERO,
            needs_list: true,
            trust: RelistMode::default(),
            accounting: None,
        }
    }

    /// The feed, with the memory of its store counted in `memory`. With `may_be_refused`, its first list is cancelled
    /// when all stores then exceed the limit. Later the store is unloaded if it has grown most and all are far above
    /// the limit. [`Feed::refused_bytes`] reports both.
    #[must_use]
    pub fn accounted(mut self, memory: &Arc<Memory>, may_be_refused: bool) -> Feed {
        self.store = self.store.pinned_by(memory.pinned());
        self.accounting = Some(MemoryAccounting {
            account: if may_be_refused { memory.open_store() } else { memory.open() },
            may_be_refused,
            refused: None,
            index_bytes: 0,
            until_walk: WALK_EVERY,
            until_look: LOOK_EVERY,
        });
        self
    }

    /// Notified when the feed must be dropped because of the memory limit. Get it before another task borrows the feed.
    pub fn refusal(&self) -> Arc<Notify> {
        self.accounting.as_ref().map(|accounting| accounting.account.unload_notice()).unwrap_or_default()
    }

    /// The memory of the store if the memory limit rejects it: when its first list was cancelled, or now if the loaded
    /// store must be unloaded. `None` if it may stay.
    pub fn refused_bytes(&self) -> Option<quantity::Bytes> {
        let accounting = self.accounting.as_ref()?;
        accounting.refused.or_else(|| accounting.account.must_unload().then(|| accounting.account.bytes()))
    }

    /// Drops the store. Returns its account, which counts the memory that readers may still use; `None` if it is not
    /// counted.
    pub fn into_account(self) -> Option<Account> {
        let account = self.accounting.map(|accounting| accounting.account);
        if let Some(account) = &account {
            account.note_ended();
        }
        account
    }

    /// The version up to which the store is known to be complete; `ZERO` before the first list.
    pub fn version(&self) -> Version {
        self.store.version()
    }

    /// Whether a CustomResourceDefinition defines the resource.
    pub fn is_custom(&self) -> bool {
        self.resource.origin == ResourceOrigin::Custom
    }

    /// Whether a first list has been committed.
    pub fn is_ready(&self) -> bool {
        self.ready
    }

    /// Whether the feed needs a full list next.
    pub fn needs_list(&self) -> bool {
        self.needs_list
    }

    /// Requires a full list next, because the source cannot continue from the version of the store.
    pub fn expect_list(&mut self) {
        self.needs_list = true;
    }

    /// Requires a full list that starts a new epoch, because the source may have changed objects without changing their
    /// versions. kube-apiserver does so when the schema of a custom resource changes.
    pub fn begin_new_epoch(&mut self) {
        self.needs_list = true;
        self.trust = self.trust.max(RelistMode::NewEpoch);
    }

    /// Requires a full list that starts a new epoch, because the store differs from the source and earlier events may
    /// have been wrong. Watches of the old epoch then end in a way that makes their clients list.
    pub fn invalidate(&mut self) {
        self.needs_list = true;
        self.trust = RelistMode::Invalidate;
        // The flag stays set until a list is complete, however often one begins: the store is known to be wrong.
        self.resource.state.set_relisting(true);
    }

    /// The objects that could not be read, by key, with the reason.
    pub fn unreadable(&self) -> &BTreeMap<String, String> {
        &self.unreadable
    }

    /// The number of objects that the list in progress has so far.
    pub fn listed(&self) -> usize {
        self.store.listed()
    }

    /// Applies one event to the store. Nothing is visible before [`Feed::publish`].
    pub fn take(&mut self, event: SourceEvent) {
        if self.enforce_memory_limit(&event) {
            return;
        }
        match event {
            SourceEvent::Begin => {
                self.store.begin_list();
                self.unreadable_in_list.clear();
                self.resource.state.set_relisting(true);
            }
            SourceEvent::Abort => {
                if self.store.is_listing() {
                    self.store.abort_list();
                    self.unreadable_in_list.clear();
                    self.resource.state.set_relisting(self.trust == RelistMode::Invalidate);
                }
            }
            SourceEvent::Item(bytes) | SourceEvent::Upsert(bytes) => match self.read(bytes) {
                Ok(record) if self.is_already_stored(record.version) => {}
                Ok(record) => self.put(&record),
                Err(Some(named)) => self.remove(&named.key, named.version, Removal::Unreadable),
                Err(None) => self.note_unidentified(),
            },
            SourceEvent::Remove(bytes) => match self.read(bytes) {
                Ok(record) if self.is_already_stored(record.version) => {}
                Ok(record) => self.remove(&record.key, Some(record.version), Removal::Reported),
                Err(Some(named)) => {
                    self.remove(&named.key, named.version, Removal::Reported);
                }
                Err(None) => self.note_unidentified(),
            },
            SourceEvent::RemoveKey(key, version) => self.remove(&key, Some(version), Removal::Reported),
            SourceEvent::Commit(version) => {
                self.compared = Version::ZERO;
                let trust = std::mem::take(&mut self.trust);
                let replaced = self.store.commit_list(version, trust);
                self.resource.state.set_relisting(false);
                if replaced == RelistOutcome::Reset && trust == RelistMode::TrustVersions {
                    tracing::warn!(resource = %self.resource.gvr, version = %version, "the resourceVersions of the source went backwards, as after a restored backup: starting a new history, so clients cannot resume earlier watches");
                }
                self.unreadable = std::mem::take(&mut self.unreadable_in_list);
                self.unreadable_is_published = false;
                if self.ready {
                    self.resource.state.count_relist();
                }
                self.ready = true;
                self.needs_list = false;
            }
            SourceEvent::Mark(version) => {
                if !self.store.is_listing() {
                    self.store.advance_to(version);
                }
            }
            SourceEvent::Compared(version) => {
                if !self.store.is_listing() {
                    self.store.advance_to(version);
                    self.compared = self.compared.max(version);
                }
            }
        }
    }

    /// Whether an event of this version is already in the store, as a comparison has shown.
    fn is_already_stored(&self, version: Version) -> bool {
        !self.store.is_listing() && version <= self.compared
    }

    /// Removes every remaining object, because none exists at this version any more, and publishes that. Does nothing
    /// before the first list.
    pub fn remove_all(&mut self, version: Version) {
        self.take(SourceEvent::Abort);
        // All objects are removed, so it does not matter whether they were right. A new epoch would end watches without
        // events.
        self.trust = RelistMode::default();
        if self.ready && !self.store.is_empty() {
            self.take(SourceEvent::Begin);
            self.take(SourceEvent::Commit(version.max(self.store.version())));
            self.publish();
        }
    }

    /// Publishes the effect of all events so far. Does nothing before the first list is complete.
    pub fn publish(&mut self) {
        if self.ready {
            self.account();
            if !self.unreadable_is_published {
                self.resource.state.publish_unreadable(UnreadableNames {
                    names: self.unreadable.keys().cloned().collect(),
                    are_all: self.unreadable.len() < MAX_UNREADABLE && !self.unreadable.contains_key(UNKNOWN_NAME),
                });
                self.unreadable_is_published = true;
            }
            self.resource.state.publish(LoadState::Ready(self.store.snapshot()));
        }
    }

    /// Updates the account when that is due. True if the memory limit rejects the store: then the list in progress is
    /// dropped, and events must be ignored.
    fn enforce_memory_limit(&mut self, event: &SourceEvent) -> bool {
        let Some(accounting) = &mut self.accounting else { return false };
        let is_end = matches!(event, SourceEvent::Commit(_));
        // The size after a list must be exact.
        accounting.until_walk = if is_end { 0 } else { accounting.until_walk.saturating_sub(1) };
        let (events, bytes) = accounting.until_look;
        accounting.until_look = (events.saturating_sub(1), bytes.saturating_sub(event.length()));
        let is_due = accounting.until_look.0 == 0 || accounting.until_look.1 == 0 || is_end && !self.ready;
        if accounting.refused.is_none() && is_due {
            accounting.until_look = LOOK_EVERY;
            self.account();
        }
        let Some(accounting) = self.accounting.as_mut().filter(|accounting| accounting.may_be_refused) else {
            return false;
        };
        let is_refused = !self.ready && accounting.refused.is_none() && accounting.account.memory().is_over();
        if is_refused {
            accounting.refused = Some(accounting.account.bytes());
            // The list is dropped below. The notice makes the task of the resource drop the feed.
            accounting.account.set(0);
            accounting.account.unload_notice().notify_one();
        }
        if is_refused || accounting.account.must_unload() {
            self.store.abort_list();
            self.unreadable_in_list.clear();
            self.resource.state.set_relisting(false);
        }
        accounting.refused.is_some() || accounting.account.must_unload()
    }

    /// Sets the memory of the store in its account. Logs it if all stores exceed the limit since this change.
    fn account(&mut self) {
        let Some(accounting) = &mut self.accounting else { return };
        if accounting.until_walk == 0 {
            accounting.until_walk = WALK_EVERY.max(self.store.len() / 8);
            accounting.index_bytes = self.store.index_bytes();
        }
        let crossed = accounting.account.set(self.store.held_bytes() + accounting.index_bytes);
        if self.ready {
            accounting.account.note_served();
        }
        // A store that may be rejected is rejected, with its reason, before it is served.
        if crossed && (self.ready || !accounting.may_be_refused) {
            let memory = accounting.account.memory();
            tracing::warn!(
                resource = %self.resource.gvr, held = %memory.held(), limit = %memory.limit().unwrap_or_default(),
                "the stores exceed --memory-limit: they are still served, but no further store is loaded until memory is free. At 1.5 times the limit, fieldcache unloads the store that has grown most. Raise --memory-limit, or cache fewer resources"
            );
        }
    }

    /// Handles an event about an object that cannot be identified. Its stored state is now out of date, and only a new
    /// list can correct it. Within a list, the object is merely missing.
    fn note_unidentified(&mut self) {
        if !self.store.is_listing() {
            self.needs_list = true;
        }
    }

    /// Adds or replaces an object in the store.
    fn put(&mut self, record: &Record) {
        if self.store.is_listing() {
            self.store.list(record);
        } else {
            self.store.apply(record);
        }
    }

    /// Removes an object from the store. `version` is that of the removal; `None` if it is unknown.
    fn remove(&mut self, key: &Key, version: Option<Version>, removal: Removal) {
        if removal == Removal::Reported {
            self.forget_report(key);
        }
        match (self.store.is_listing(), removal, version) {
            (true, _, _) => self.store.unlist(key),
            (false, Removal::Reported, Some(version)) => {
                self.store.delete(key, version);
            }
            // Without the version of a deletion, it is like a state that cannot be read.
            (false, _, version) => {
                self.store.drop_unreadable(key, version);
            }
        }
    }

    /// Extracts an object.
    ///
    /// # Errors
    /// The object is invalid, which is logged and stored. The error has its key and version; `None` if the key cannot
    /// be read.
    fn read(&mut self, bytes: Bytes) -> Result<Record, Option<Named>> {
        match self.resource.extractor.extract(bytes.clone()) {
            Ok(record) => {
                self.forget_report(&record.key);
                self.report_unknown_values(&record);
                Ok(record)
            }
            Err(error) => {
                let named = named(&bytes);
                let name = named.as_ref().map(|named| named.key.as_str()).filter(|name| name.len() <= LONGEST_NAME);
                self.report(name.unwrap_or(UNKNOWN_NAME).to_owned(), &error);
                Err(named)
            }
        }
    }

    /// Logs an object with too many or too long values, at most once in [`LOG_EVERY`], because an object can change
    /// many times a second.
    fn report_unknown_values(&mut self, record: &Record) {
        if !record.texts.has_unknown() || self.reported_unknown_values.is_some_and(|last| last.elapsed() < LOG_EVERY) {
            return;
        }
        self.reported_unknown_values = Some(Instant::now());
        tracing::warn!(
            resource = %self.resource.gvr, object = %record.key.as_str(),
            "an object has too many or too long values of extra fields: it is served, but selectors on some of these fields never match it; use fewer or narrower paths in the FieldCache"
        );
    }

    /// The unreadable objects of the list in progress, or else of the store.
    fn reported(&mut self) -> &mut BTreeMap<String, String> {
        if self.store.is_listing() { &mut self.unreadable_in_list } else { &mut self.unreadable }
    }

    /// Removes an object from the unreadable ones.
    fn forget_report(&mut self, key: &Key) {
        if self.reported().remove(key.as_str()).is_some() {
            self.unreadable_is_published = false;
        }
    }

    /// Logs an unreadable object, and adds it to the unreadable ones, of which at most [`MAX_UNREADABLE`] are stored.
    /// `name`: its key, or [`UNKNOWN_NAME`].
    fn report(&mut self, name: String, error: &InvalidObject) {
        tracing::error!(resource = %self.resource.gvr, object = %name, error = %error, "cannot parse an object: it is not served, and its previous state is removed");
        let reported = self.reported();
        if reported.len() < MAX_UNREADABLE {
            reported.insert(name, error.to_string());
            self.unreadable_is_published = false;
        }
    }
}

/// Why an object leaves the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Removal {
    /// The source reported its deletion.
    Reported,
    /// Its new state cannot be read, so the old one must not be served any longer.
    Unreadable,
}

/// The key and version of an object that the extractor rejects; no version if it is missing or invalid.
pub(super) struct Named {
    pub(super) key: Key,
    pub(super) version: Option<Version>,
}

/// The most memory, in bytes, that the parsed value of a rejected object may take. Otherwise its key is not read.
const MOST_NAMED_MEMORY: usize = 128 << 20;

/// Reads the key and version of an object less strictly than the extractor. `None` if the object has no name, is not
/// JSON, or takes too much memory.
pub(super) fn named(bytes: &[u8]) -> Option<Named> {
    if !weight::is_within(bytes, MOST_NAMED_MEMORY) {
        return None;
    }
    let document = tree::shallow(bytes, 2).ok()?;
    let metadata = document.get("metadata")?;
    let text = |name: &str| metadata.get(name).and_then(serde_json::Value::as_str);
    let key = Key::new(text("namespace").unwrap_or_default(), text("name")?);
    Some(Named { key, version: text("resourceVersion").and_then(Version::parse) })
}
