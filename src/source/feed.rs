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
    /// A full list begins; one that was under way is dropped.
    Begin,
    /// An object of the list.
    Item(Bytes),
    /// The list is complete and shows this version.
    Commit(Version),
    /// The list was interrupted: what was read of it is released. Without a list it has no effect.
    Abort,
    /// An object was created or changed.
    Upsert(Bytes),
    /// An object was deleted; its last state with the version of the deletion.
    Remove(Bytes),
    /// An object was deleted, from a source that does not send the last state: the name, and the version of the
    /// deletion.
    RemoveKey(Key, Version),
    /// Everything up to this version has been sent: a bookmark or another progress notification.
    Mark(Version),
    /// The store equals the source at this version, as a comparison has shown. Events up to it may still arrive, and
    /// change nothing.
    Compared(Version),
}

impl SourceEvent {
    /// The length of the object in the event, in bytes.
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
    /// Objects that could not be read, by what is known of them, with the reason. Bounded: see [`MAX_UNREADABLE`].
    unreadable: BTreeMap<String, String>,
    /// The unreadable objects of the list in progress; `unreadable` is valid for the old store until the new one is
    /// complete.
    unreadable_in_list: BTreeMap<String, String>,
    /// Whether readers have the current `unreadable`.
    has_reported_unreadable: bool,
    /// When such an object was logged.
    reported_unknown_values: Option<Instant>,
    ready: bool,
    /// Events up to here are in the store already.
    compared: Version,
    /// Whether only a full list can bring the store up to date: at first, and when the source has forgotten our version.
    needs_list: bool,
    /// What that list can rely on: see [`Feed::begin_new_epoch`] and [`Feed::invalidate`].
    trust: RelistMode,
    /// The memory of the store; `None` where it is not counted.
    accounting: Option<MemoryAccounting>,
}

/// The memory of a store, which follows its changes.
#[derive(Debug)]
struct MemoryAccounting {
    account: Account,
    /// Whether a first list is cancelled when it takes all stores past their limit.
    may_be_refused: bool,
    /// Set when that has happened, with the memory of the store then.
    refused: Option<quantity::Bytes>,
    /// What indexes and order took when they were last walked.
    index_bytes: u64,
    /// Events until they are walked again.
    until_walk: usize,
    /// Events and bytes of them until the account is brought up to date without a published change.
    until_look: (usize, usize),
}

/// A list is measured each time that it has this many more objects, or bytes of them.
const LOOK_EVERY: (usize, usize) = (256, 8 << 20);

/// Indexes are walked again after at least this many events, and after an eighth of the store. In a growing store that
/// is a few walks in all.
const WALK_EVERY: usize = 1_024;

/// How often an object of one resource is logged that has too many or too long values.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// Unreadable objects that are remembered by name; past it they are only logged. A healthy cluster has none.
const MAX_UNREADABLE: usize = 1_000;

/// Longest name that is remembered, with its namespace, in bytes. No API server of Kubernetes accepts one as long.
const LONGEST_NAME: usize = 1_024;

/// Reported instead of a name that is missing, invalid or too long.
const UNKNOWN_NAME: &str = "(unknown name)";

impl Feed {
    /// A feed with an empty store.
    pub fn new(resource: Arc<Resource>, limits: HistoryLimits) -> Feed {
        let store = Store::with_epoch(limits, resource.state.next_epoch());
        resource.state.set_relisting(false);
        Feed {
            resource,
            store,
            unreadable: BTreeMap::new(),
            unreadable_in_list: BTreeMap::new(),
            has_reported_unreadable: false,
            reported_unknown_values: None,
            ready: false,
            compared: Version::ZERO,
            needs_list: true,
            trust: RelistMode::default(),
            accounting: None,
        }
    }

    /// The feed with its store counted among all. With `may_be_refused`, its first list is cancelled when it takes
    /// all of them past the limit. Later the store is unloaded when it has grown most and all are far past it.
    /// [`Feed::refused`] reports both.
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

    /// Wakes the task that must drop the feed because of the memory limit. Taken before the feed is lent to the task
    /// that fills it.
    pub fn refusal(&self) -> Arc<Notify> {
        self.accounting.as_ref().map(|accounting| accounting.account.let_go()).unwrap_or_default()
    }

    /// The memory of the store if the memory limit rejects it: when its first list was cancelled, or now if the loaded store
    /// must be unloaded. `None` if it may stay.
    pub fn refused(&self) -> Option<quantity::Bytes> {
        let accounting = self.accounting.as_ref()?;
        accounting.refused.or_else(|| accounting.account.must_unload().then(|| accounting.account.bytes()))
    }

    /// Drops the store. The remaining account has the memory that readers may still retain.
    pub fn into_account(self) -> Option<Account> {
        let account = self.accounting.map(|accounting| accounting.account);
        if let Some(account) = &account {
            account.end();
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

    /// Whether the next thing to do is a full list.
    pub fn needs_list(&self) -> bool {
        self.needs_list
    }

    /// Notes that the source no longer knows the version of the feed.
    pub fn expect_list(&mut self) {
        self.needs_list = true;
    }

    /// The source may have changed objects without changing their versions, as kube-apiserver does when the schema of a
    /// custom resource changes. So the next list starts a new epoch.
    pub fn begin_new_epoch(&mut self) {
        self.needs_list = true;
        self.trust = self.trust.max(RelistMode::NewEpoch);
    }

    /// The store differs from the source, so earlier events may have been wrong. The next list starts a new epoch, and
    /// its watches end in a way that makes their clients list.
    pub fn invalidate(&mut self) {
        self.needs_list = true;
        self.trust = RelistMode::Invalidate;
        // From now on and until it is read again, however often that is begun: it is known to be wrong.
        self.resource.state.set_relisting(true);
    }

    /// The unreadable objects with their errors.
    pub fn unreadable(&self) -> &BTreeMap<String, String> {
        &self.unreadable
    }

    /// The number of objects that the current list has so far.
    pub fn listed(&self) -> usize {
        self.store.listed()
    }

    /// Takes one event. Nothing is visible before [`Feed::publish`].
    pub fn take(&mut self, event: SourceEvent) {
        if self.must_unload(&event) {
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
                Err(None) => self.lost_track(),
            },
            SourceEvent::Remove(bytes) => match self.read(bytes) {
                Ok(record) if self.is_already_stored(record.version) => {}
                Ok(record) => self.remove(&record.key, Some(record.version), Removal::Reported),
                Err(Some(named)) => {
                    self.remove(&named.key, named.version, Removal::Reported);
                }
                Err(None) => self.lost_track(),
            },
            SourceEvent::RemoveKey(key, version) => self.remove(&key, Some(version), Removal::Reported),
            SourceEvent::Commit(version) => {
                self.compared = Version::ZERO;
                let trust = std::mem::take(&mut self.trust);
                let replaced = self.store.commit_list(version, trust);
                self.resource.state.set_relisting(false);
                if replaced == RelistOutcome::Reset && trust == RelistMode::TrustVersions {
                    tracing::warn!(resource = %self.resource.gvr, version = %version, "resource versions went backwards, starting a new history");
                }
                self.unreadable = std::mem::take(&mut self.unreadable_in_list);
                self.has_reported_unreadable = false;
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

    /// Whether the store is complete up to this version.
    fn is_already_stored(&self, version: Version) -> bool {
        !self.store.is_listing() && version <= self.compared
    }

    /// Removes every remaining object, because none exists at this version any more, and publishes that. Does nothing
    /// before the first list.
    pub fn remove_all(&mut self, version: Version) {
        self.take(SourceEvent::Abort);
        // No object is left, whatever they were. A new epoch would send no events.
        self.trust = RelistMode::default();
        if self.ready && !self.store.is_empty() {
            self.take(SourceEvent::Begin);
            self.take(SourceEvent::Commit(version.max(self.store.version())));
            self.publish();
        }
    }

    /// Publishes everything that has been taken so far.
    pub fn publish(&mut self) {
        if self.ready {
            self.account();
            if !self.has_reported_unreadable {
                self.resource.state.publish_unreadable(UnreadableNames {
                    names: self.unreadable.keys().cloned().collect(),
                    are_all: self.unreadable.len() < MAX_UNREADABLE && !self.unreadable.contains_key(UNKNOWN_NAME),
                });
                self.has_reported_unreadable = true;
            }
            self.resource.state.publish(LoadState::Ready(self.store.snapshot()));
        }
    }

    /// Whether no more events are taken because of the memory limit. A list that was arriving is dropped.
    fn must_unload(&mut self, event: &SourceEvent) -> bool {
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
            accounting.account.set(0);
            accounting.account.let_go().notify_one();
        }
        if is_refused || accounting.account.must_unload() {
            self.store.abort_list();
            self.unreadable_in_list.clear();
            self.resource.state.set_relisting(false);
        }
        accounting.refused.is_some() || accounting.account.must_unload()
    }

    /// Updates the account of the memory of the store.
    fn account(&mut self) {
        let Some(accounting) = &mut self.accounting else { return };
        if accounting.until_walk == 0 {
            accounting.until_walk = WALK_EVERY.max(self.store.len() / 8);
            accounting.index_bytes = self.store.index_bytes();
        }
        let crossed = accounting.account.set(self.store.held_bytes() + accounting.index_bytes);
        if self.ready {
            accounting.account.serve();
        }
        // A store that may be rejected is rejected, with its reason, before it is served.
        if crossed && (self.ready || !accounting.may_be_refused) {
            let memory = accounting.account.memory();
            tracing::warn!(
                resource = %self.resource.gvr, held = %memory.held(), limit = %memory.limit().unwrap_or_default(),
                "the stores exceed --memory-limit: they are still served, but no further store is loaded until memory is free. At 1.5 times the limit, the store that has grown most is unloaded. Raise --memory-limit or read fewer resources"
            );
        }
    }

    /// The source reported something about an object that cannot be identified. The stored state of that object is old,
    /// and only a list can say which one it is. In a list it is merely missing.
    fn lost_track(&mut self) {
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

    /// Removes an object from the store; `version` is that of the removal, where it is known.
    fn remove(&mut self, key: &Key, version: Option<Version>, removal: Removal) {
        if removal == Removal::Reported {
            self.forget_report(key);
        }
        match (self.store.is_listing(), removal, version) {
            (true, _, _) => self.store.unlist(key),
            (false, Removal::Reported, Some(version)) => {
                self.store.delete(key, version);
            }
            (false, _, version) => {
                self.store.drop_unreadable(key, version);
            }
        }
    }

    /// Extracts an object; a failure is remembered and answered with what can be read of the object's name.
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

    /// Logs that an object has too many or too long values, at most once in [`LOG_EVERY`], because an object can change
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

    /// The unreadable objects of the list that is arriving, or else of the store.
    fn reported(&mut self) -> &mut BTreeMap<String, String> {
        if self.store.is_listing() { &mut self.unreadable_in_list } else { &mut self.unreadable }
    }

    /// Removes an object from the unreadable ones.
    fn forget_report(&mut self, key: &Key) {
        if self.reported().remove(key.as_str()).is_some() {
            self.has_reported_unreadable = false;
        }
    }

    /// Logs an unreadable object, and adds it to the unreadable ones.
    fn report(&mut self, name: String, error: &InvalidObject) {
        tracing::error!(resource = %self.resource.gvr, object = %name, error = %error, "cannot parse an object, it is not served");
        let reported = self.reported();
        if reported.len() < MAX_UNREADABLE {
            reported.insert(name, error.to_string());
            self.has_reported_unreadable = false;
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

/// What can be read of an object that the extractor refused.
pub(super) struct Named {
    pub(super) key: Key,
    pub(super) version: Option<Version>,
}

/// The most memory that the value of an object takes that is read for its name alone. Of another object no name is known.
const MOST_NAMED_MEMORY: usize = 128 << 20;

/// Reads the name of an object less strictly than the extractor.
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
