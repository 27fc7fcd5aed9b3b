//! The one writer: what a source says -> records -> store -> snapshots.
//!
//! Synchronous: the source calls it, so there is no queue between them, and a slow writer slows its source. A relist
//! is buffered between [`SourceEvent::Begin`] and [`SourceEvent::Commit`] and is invisible until then; one that is cut
//! off costs nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use crate::extract::Unreadable;
use crate::model::{Key, Record, Version};
use crate::registry::{LiveState, Resource};
use crate::store::{HistoryLimits, Replaced, Store};

/// What a source says, in its order.
#[derive(Clone, Debug)]
pub enum SourceEvent {
    /// A full list begins; one that was under way is dropped.
    Begin,
    /// An object of the list.
    Item(Bytes),
    /// The list is complete and shows this version.
    Commit(Version),
    /// An object was created or changed.
    Upsert(Bytes),
    /// An object was deleted; its last state with the version of the deletion.
    Remove(Bytes),
    /// The same from a source that keeps no last state: the name, and the version of the deletion.
    RemoveKey(Key, Version),
    /// Everything up to this version has been said: a bookmark or another proof.
    Mark(Version),
}

/// Writes one resource's store and publishes it.
#[derive(Debug)]
pub struct Feed {
    resource: Arc<Resource>,
    store: Store,
    /// The list under way.
    listing: Option<Vec<Record>>,
    /// Objects that could not be read, by what is known of them, with the reason. Bounded: see [`MAX_UNREADABLE`].
    unreadable: BTreeMap<String, String>,
    ready: bool,
    /// Whether only a full list can bring the store up to date: at first, and when the source has forgotten our version.
    needs_list: bool,
}

/// Unreadable objects that are remembered by name; past it they are only logged. A healthy cluster has none.
const MAX_UNREADABLE: usize = 1_000;

impl Feed {
    /// A feed with an empty store.
    pub fn new(resource: Arc<Resource>, limits: HistoryLimits) -> Feed {
        Feed {
            resource,
            store: Store::new(limits),
            listing: None,
            unreadable: BTreeMap::new(),
            ready: false,
            needs_list: true,
        }
    }

    /// The version up to which the store is known to be complete; `ZERO` before the first list.
    pub fn version(&self) -> Version {
        self.store.version()
    }

    /// Whether a first list has been committed.
    pub fn is_ready(&self) -> bool {
        self.ready
    }

    /// Whether the next thing to do is a full list.
    pub fn needs_list(&self) -> bool {
        self.needs_list
    }

    /// The source no longer knows the feed's version.
    pub fn expect_list(&mut self) {
        self.needs_list = true;
    }

    /// Objects that could not be read, with the reason.
    pub fn unreadable(&self) -> &BTreeMap<String, String> {
        &self.unreadable
    }

    /// How many objects the list under way has so far.
    pub fn listed(&self) -> usize {
        self.listing.as_ref().map_or(0, Vec::len)
    }

    /// Takes one event. Nothing is visible before [`Feed::publish`].
    pub fn take(&mut self, event: SourceEvent) {
        match event {
            SourceEvent::Begin => {
                self.listing = Some(Vec::new());
                self.unreadable.clear();
            }
            SourceEvent::Item(bytes) => {
                let record = self.read(bytes);
                if let (Some(listing), Ok(record)) = (&mut self.listing, record) {
                    listing.push(record);
                }
            }
            SourceEvent::Commit(version) => {
                let records = self.listing.take().unwrap_or_default();
                if self.store.replace(records, version) == Replaced::Reset {
                    tracing::warn!(resource = %self.resource.gvr, version = %version, "versions went backwards, history starts anew");
                }
                self.ready = true;
                self.needs_list = false;
            }
            SourceEvent::Upsert(bytes) => match self.read(bytes) {
                Ok(record) => {
                    self.store.apply(record);
                }
                // The new state is unknown, so the old one must not be served any longer.
                Err(Some(key)) => {
                    self.store.drop_unreadable(&key);
                }
                Err(None) => {}
            },
            SourceEvent::Remove(bytes) => {
                if let Ok(record) = self.read(bytes) {
                    self.remove(&record.key, record.version);
                }
            }
            SourceEvent::RemoveKey(key, version) => self.remove(&key, version),
            SourceEvent::Mark(version) => self.store.prove(version),
        }
    }

    /// Shows readers what has been taken so far.
    pub fn publish(&self) {
        if self.ready {
            self.resource.live.publish(LiveState::Ready(self.store.snapshot()));
        }
    }

    fn remove(&mut self, key: &Key, version: Version) {
        self.unreadable.remove(key.as_str());
        self.store.delete(key, version);
    }

    /// Extracts an object; a failure is remembered and answered with the object's key where that much can be read.
    fn read(&mut self, bytes: Bytes) -> Result<Record, Option<Key>> {
        // A copy of its own: the bytes are a slice of a page or of a read buffer that must not live as long as the object.
        match self.resource.plan.extract(Bytes::copy_from_slice(&bytes)) {
            Ok(record) => {
                self.unreadable.remove(record.key.as_str());
                Ok(record)
            }
            Err(error) => {
                let key = key_of(&bytes);
                let name = key.as_ref().map_or_else(|| "(unknown name)".to_owned(), Key::to_string);
                self.report(name, &error);
                Err(key)
            }
        }
    }

    fn report(&mut self, name: String, error: &Unreadable) {
        tracing::error!(resource = %self.resource.gvr, object = %name, error = %error, "object cannot be read and is not served");
        if self.unreadable.len() < MAX_UNREADABLE {
            self.unreadable.insert(name, error.to_string());
        }
    }
}

/// The key of an object that the extractor refused, read the slow and lenient way.
fn key_of(bytes: &[u8]) -> Option<Key> {
    let document: serde_json::Value = serde_json::from_slice(bytes).ok()?;
    let metadata = document.get("metadata")?;
    let name = metadata.get("name")?.as_str()?;
    Some(Key::new(metadata.get("namespace").and_then(serde_json::Value::as_str).unwrap_or_default(), name))
}
