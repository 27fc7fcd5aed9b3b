//! The index for placement, updated from the stores of nodes, Pods and namespaces.
//!
//! The first review creates the index, which then follows the histories of the three stores. After a quarter of an hour
//! without reviews, it is dropped. Each review updates it to its own snapshots. [`PlacementIndex::follow`] also updates
//! it after changes, so that a review has little to do. Readers take a clone, which does not change. If a history no
//! longer has the changes since the last update, or has started again, the index is built again.
//!
//! Only one blocking thread at a time updates the index, and others wait for it. Tasks of the runtime never wait for
//! that work: the lock that they take is held only to exchange the index.
//!
//! [`crate::placement`] evaluates the rules, and the parent module serves reviews over HTTP.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::hash::{BuildHasher, RandomState};
use std::ops::Bound;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout_at};

use crate::model::flow::Flow;
use crate::model::quantity::Bytes;
use crate::model::shares::{Share, Shares};
use crate::model::{Gvr, Version};
use crate::placement::review::ResourceVersions;
use crate::placement::{ClusterCounts, ClusterIndex, Namespace, Node, Pod, ReadError, too_many_carried_terms};
use crate::registry::{Account, Catalog, LoadState, Memory, NotReady, OverMemory, Registry, Resource, ResourceState};
use crate::store::{HistoryCursor, Object, Snapshot};

/// How long the index remains after the last review. `serve` keeps a store for the same time.
const KEPT: Duration = Duration::from_secs(15 * 60);

/// The pause between two updates of the index by [`PlacementIndex::follow`], in which changes accumulate.
const GATHERED: Duration = Duration::from_millis(200);

/// The maximum number of objects that are not in the index and that a response names. It is also the maximum number of
/// stored errors. The other objects are only counted.
const MOST_NAMED: usize = 100;

/// The approximate memory of the record that an object is not in the index, in bytes.
const IGNORED: usize = 200;

/// A part of an object (its labels, affinity, tolerations or taints) is long if its JSON has more bytes than this. Long
/// parts have a bound ([`MOST_LONG`]). The memory of the others is counted, and grows with the number of objects.
const SHORT: usize = 512;

/// The memory of a long part of a node or namespace, as a multiple of the length of its JSON.
const GROWTH: u64 = 12;

/// The maximum length of all different long parts of a kind together, in bytes of JSON. The memory of stores does not
/// bound them, because a store has the same objects compressed. Pods of one namespace may take half of it if no other
/// namespace has any, and so on, as [`Shares`] divide.
pub(crate) const MOST_LONG: usize = 16 << 20;

/// The length that the long parts of the Pods of a namespace may have, even if other namespaces have taken the rest.
const FIRST_OF_NAMESPACE: usize = 256 << 10;

/// The resources whose stores are needed. Below, a `kind` is a position in this list.
const NEEDED: [&str; 3] = ["nodes", "pods", "namespaces"];

/// The kinds of [`NEEDED`], in the same order.
const KINDS: [&str; 3] = ["Node", "Pod", "Namespace"];

/// A missing store without which a review cannot be evaluated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MissingStore {
    /// The resource is not cached.
    #[error(
        "placement needs nodes, pods and namespaces, and {resource} are not cached here: \
         create a FieldCache named {resource} (apiVersion: fieldcache.dev/v1alpha1, spec: {{resource: {resource}}})"
    )]
    NotCached {
        /// Its plural name.
        resource: &'static str,
    },
    /// The store has only a part of the objects, because its FieldCache has a scope.
    #[error(
        "placement needs all {resource}, and the FieldCache named {resource} caches only a part of them: remove its spec.scope"
    )]
    Partial {
        /// Its plural name.
        resource: &'static str,
    },
    /// The store is not loaded yet, or the source rejects it.
    #[error("{resource}: {error}")]
    NotReady {
        /// Its plural name.
        resource: &'static str,
        /// The reason.
        error: NotReady,
    },
}

/// One store at a point in time.
#[derive(Clone, Debug)]
pub struct StoreSnapshot {
    /// The resource.
    pub resource: Arc<Resource>,
    /// Its objects.
    pub snapshot: Snapshot,
}

/// The stores of nodes, Pods and namespaces.
#[derive(Clone, Debug)]
pub struct PlacementStores {
    /// The store of nodes.
    pub nodes: StoreSnapshot,
    /// The store of Pods.
    pub pods: StoreSnapshot,
    /// The store of namespaces.
    pub namespaces: StoreSnapshot,
}

impl PlacementStores {
    /// Snapshots of the three stores of a catalog. Waits at most `patience` until all of them are loaded.
    ///
    /// # Errors
    /// The first store that is missing or not ready.
    pub async fn load(catalog: &Catalog, patience: Duration) -> Result<PlacementStores, MissingStore> {
        let [nodes, pods, namespaces] = NEEDED.map(|resource| find(catalog, resource));
        let (nodes, pods, namespaces) = (nodes?, pods?, namespaces?);
        // Requested at the same time, so that they are loaded at the same time.
        let (nodes, pods, namespaces) =
            tokio::join!(snapshot(nodes, patience), snapshot(pods, patience), snapshot(namespaces, patience));
        Ok(PlacementStores { nodes: nodes?, pods: pods?, namespaces: namespaces? })
    }

    /// The stores in the order of [`NEEDED`].
    fn all(&self) -> [&StoreSnapshot; 3] {
        [&self.nodes, &self.pods, &self.namespaces]
    }

    /// The states of the three resources, in the order of [`NEEDED`].
    pub fn resource_states(&self) -> [&ResourceState; 3] {
        self.all().map(|store| &*store.resource.state)
    }
}

/// A needed resource: its plural name, and the resource in the catalog.
type Found = (&'static str, Arc<Resource>);

/// A needed resource in a catalog. Fails if it is not cached, or only partly.
fn find(catalog: &Catalog, resource: &'static str) -> Result<Found, MissingStore> {
    let gvr = Gvr::new("", "v1", resource);
    // Only the second of these has resources with a partial store.
    match (catalog.resource(&gvr), catalog.store(&gvr)) {
        (Some(found), _) => Ok((resource, found.clone())),
        (None, Some(_)) => Err(MissingStore::Partial { resource }),
        (None, None) => Err(MissingStore::NotCached { resource }),
    }
}

/// A snapshot of a store. Waits at most `patience` until it is loaded.
async fn snapshot((name, resource): Found, patience: Duration) -> Result<StoreSnapshot, MissingStore> {
    match resource.state.snapshot(patience).await {
        Ok(snapshot) => Ok(StoreSnapshot { resource, snapshot }),
        Err(error) => Err(MissingStore::NotReady { resource: name, error }),
    }
}

/// The index at a point in time.
#[derive(Clone, Debug)]
pub struct IndexSnapshot {
    /// The indexed cluster.
    pub cluster: ClusterIndex,
    /// The resourceVersions of the stores that the index has.
    pub resource_versions: ResourceVersions,
    /// Messages about objects that are not in the index, because they cannot be parsed or exceed a bound. If there are
    /// many, the last message has the number of the others.
    pub ignored: Vec<String>,
}

/// The index and its state.
#[derive(Debug, Default)]
pub struct PlacementIndex {
    /// Locked while a thread changes the index. Only blocking threads wait for it.
    turn: Mutex<()>,
    /// The index, unless it is being changed. Locked only to exchange it.
    state: Mutex<State>,
    /// Notified by each review.
    reviews: Notify,
    /// The memory that `--memory-limit` limits, to which the index counts as stores do.
    memory: Arc<Memory>,
}

#[derive(Debug, Default)]
struct State {
    index: Option<Index>,
    /// When the last review used the index.
    last_used: Option<Instant>,
}

#[derive(Debug)]
pub(crate) struct Index {
    cluster: ClusterIndex,
    /// The positions of the stores, in the order of [`NEEDED`].
    positions: [StorePosition; 3],
    /// By kind and key: why an object is not in the index; `None` if too many errors were stored already.
    ignored: BTreeMap<(usize, String), Option<String>>,
    /// The number of errors in `ignored`.
    errors: usize,
    long: LongParts,
    /// Counts the memory of the index.
    account: Account,
}

/// The objects that share a bound of long parts: the Pods of a namespace, or all nodes, or all namespaces. The name is
/// that of the namespace, or empty.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct PartOwner(String);

impl Flow for PartOwner {
    fn tenant(&self) -> PartOwner {
        self.clone()
    }
}

/// The long parts of objects, each counted once in a namespace: the Pods of a template share theirs in the index too.
#[derive(Debug)]
struct LongParts {
    /// By kind and key: the parts of an object, as hashes.
    objects: HashMap<(usize, String), Vec<u64>>,
    /// By hash of a part: the number of objects that have it, and its share of the bound.
    parts: HashMap<u64, (usize, Share<PartOwner>)>,
    /// The bounds of the kinds, in the order of [`NEEDED`]. Pods cannot use up the bound of nodes, and those of one
    /// namespace cannot use up that of others.
    bounds: [Arc<Shares<PartOwner>>; 3],
    hashes: RandomState,
}

impl Default for LongParts {
    fn default() -> LongParts {
        let bounds = NEEDED.map(|resource| {
            // A single owner may hold half of a quantity, so nodes and namespaces have twice as much.
            let (most, first) = if resource == "pods" { (MOST_LONG, FIRST_OF_NAMESPACE) } else { (2 * MOST_LONG, 0) };
            Arc::new(Shares::new(most as u64, first as u64))
        });
        LongParts { objects: HashMap::new(), parts: HashMap::new(), bounds, hashes: RandomState::new() }
    }
}

/// A part of an object that can be written as JSON.
trait Measured {
    /// The value as JSON.
    fn json(&self) -> serde_json::Result<Vec<u8>>;
}

impl<T: Serialize> Measured for T {
    fn json(&self) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec(self)
    }
}

impl LongParts {
    /// Counts the long parts among the `parts` of an object, and no longer those that it had before. `kind` is the
    /// position of its resource in [`NEEDED`], and `name` the name of its kind, for messages. `length` is the length of
    /// its JSON, in bytes.
    ///
    /// # Errors
    /// The long parts would exceed their bound.
    fn measure(
        &mut self,
        kind: usize,
        key: &str,
        length: usize,
        name: &'static str,
        parts: &[&dyn Measured],
    ) -> Result<(), ReadError> {
        self.forget(kind, key);
        // No part is longer than the object.
        if length <= SHORT {
            return Ok(());
        }
        let unreadable = |message: String| ReadError { kind: name, message };
        // Keys of Pods are `namespace/name`, and those of the other kinds are names.
        let namespace = key.split_once('/').map_or("", |(namespace, _)| namespace);
        let mut counted = Vec::new();
        for part in parts {
            let json = part.json().map_err(|error| unreadable(error.to_string()))?;
            if json.len() > SHORT {
                // Equal parts of Pods are stored once, so they must have one hash. Other kinds store each part, so the
                // key makes their hashes differ.
                let place = if NEEDED[kind] == "pods" { namespace } else { key };
                counted.push((self.hashes.hash_one((kind, place, &json)), json.len()));
            }
        }
        if counted.is_empty() {
            return Ok(());
        }
        let added: usize = counted.iter().map(|(_, length)| length).sum();
        let (owner, mut held) = (PartOwner(namespace.to_owned()), Vec::new());
        let mut has_room = true;
        for (hash, length) in counted {
            match self.parts.entry(hash) {
                Entry::Occupied(mut part) => part.get_mut().0 += 1,
                Entry::Vacant(part) => match self.bounds[kind].take(&owner, length as u64) {
                    Some(share) => drop(part.insert((1, share))),
                    None => {
                        has_room = false;
                        break;
                    }
                },
            }
            held.push(hash);
        }
        self.objects.insert((kind, key.to_owned()), held);
        if has_room {
            return Ok(());
        }
        self.forget(kind, key);
        let divided = if NEEDED[kind] == "pods" { ", of which one namespace may use as much as is free" } else { "" };
        Err(unreadable(format!(
            "its labels, affinity, tolerations and taints take {added} bytes. Those of all objects of this kind together may take {MOST_LONG} bytes{divided}; parts of up to {SHORT} bytes do not count. Shorten these parts of the {name}"
        )))
    }

    /// No longer counts the parts of an object. `kind` is the position of its resource in [`NEEDED`].
    fn forget(&mut self, kind: usize, key: &str) {
        for hash in self.objects.remove(&(kind, key.to_owned())).unwrap_or_default() {
            if let Entry::Occupied(mut part) = self.parts.entry(hash) {
                part.get_mut().0 -= 1;
                if part.get().0 == 0 {
                    part.remove();
                }
            }
        }
    }

    /// The length of the long parts that [`ClusterIndex::held_bytes`] does not count, in bytes of JSON: those of nodes
    /// and namespaces.
    fn uncounted_bytes(&self) -> u64 {
        let bounds = NEEDED.iter().zip(&self.bounds).filter(|(resource, _)| **resource != "pods");
        bounds.map(|(_, bound)| bound.total()).sum()
    }
}

/// The position in the history of a store up to which the index has its changes.
#[derive(Debug)]
struct StorePosition {
    resource_state: Arc<ResourceState>,
    epoch: u64,
    end: HistoryCursor,
    version: Version,
}

impl StorePosition {
    /// The position of a snapshot.
    fn of_snapshot(snapshot: &StoreSnapshot) -> StorePosition {
        StorePosition {
            resource_state: snapshot.resource.state.clone(),
            epoch: snapshot.snapshot.epoch(),
            end: snapshot.snapshot.end(),
            version: snapshot.snapshot.version(),
        }
    }
}

impl PlacementIndex {
    /// An empty index whose memory counts toward `--memory-limit`, as that of stores does.
    pub fn with_memory(memory: Arc<Memory>) -> PlacementIndex {
        PlacementIndex { memory, ..PlacementIndex::default() }
    }

    /// A snapshot of the index with all changes of these stores, or later ones. The time depends on the number of
    /// changes since its last update. The first call reads every object, which is too much work for a thread that
    /// handles requests.
    ///
    /// # Errors
    /// There is no index yet, and a new one would exceed the memory limit.
    pub fn at(&self, stores: &PlacementStores) -> Result<IndexSnapshot, OverMemory> {
        self.lock().last_used = Some(Instant::now());
        let indexed = self.read_updated(stores, Index::indexed);
        self.reviews.notify_one();
        indexed
    }

    /// Calls `change` with the index (`None`: there is none), stores the index that it returns, and returns its result.
    /// Waits while another thread does the same. The index is not stored during the call, so that an incomplete one is
    /// dropped if `change` panics.
    fn exchange<T>(&self, change: impl FnOnce(Option<Index>) -> (Option<Index>, T)) -> T {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let held = self.lock().index.take();
        let (index, result) = change(held);
        self.lock().index = index;
        result
    }

    /// Updates the index to these stores, or builds it, and returns what `read` reads from it.
    ///
    /// # Errors
    /// There is no index yet, and a new one would exceed the memory limit.
    pub(crate) fn read_updated<T>(
        &self,
        stores: &PlacementStores,
        read: impl FnOnce(&Index) -> T,
    ) -> Result<T, OverMemory> {
        self.exchange(|held| {
            let held = held.filter(|index| index.follows(stores));
            let mut index = match held {
                Some(index) => index.advanced(stores),
                None => match self.memory.rejection(minimum_memory(stores)) {
                    Some(over) => return (None, Err(over)),
                    None => Index::new(stores, self.memory.open()),
                },
            };
            // An existing index remains when it grows beyond the memory limit, as stores do.
            let parts = index.long.uncounted_bytes() * GROWTH + (index.ignored.len() * IGNORED) as u64;
            index.account.set(index.cluster.held_bytes() + parts);
            let result = read(&index);
            (Some(index), Ok(result))
        })
    }

    /// Drops the index on a blocking thread, because that takes long for a large one.
    async fn forget(&self) {
        let index = self.lock().index.take();
        if tokio::task::spawn_blocking(move || drop(index)).await.is_err() {
            tracing::error!(
                "internal error: releasing the placement index panicked, so its memory may stay in use; the next review \
                 builds a new index; report this with the panic above in the log"
            );
        }
    }

    /// Updates the index after changes of the stores, as long as there are reviews, and otherwise drops it. To be
    /// polled for as long as the server runs.
    pub async fn follow(self: Arc<Self>, registry: Arc<Registry>) -> Infallible {
        loop {
            self.reviews.notified().await;
            while self.is_wanted() {
                let catalog = registry.catalog();
                let found: Vec<Arc<Resource>> =
                    NEEDED.iter().filter_map(|name| find(&catalog, name).ok()).map(|(_, found)| found).collect();
                let [nodes, pods, namespaces] = &found[..] else { break };
                let mut states = [nodes, pods, namespaces].map(|resource| resource.state.subscribe());
                let ready_stores = [nodes, pods, namespaces].map(ready);
                let [Some(nodes), Some(pods), Some(namespaces)] = ready_stores else { break };
                let stores = PlacementStores { nodes, pods, namespaces };
                let index = Arc::clone(&self);
                let update = tokio::task::spawn_blocking(move || {
                    // If the memory limit rejects the index, the next review reports that.
                    let _is_rejected = index.read_updated(&stores, |_| ()).is_err();
                });
                if update.await.is_err() {
                    tracing::error!(
                        "internal error: updating the placement index panicked; fieldcache builds a new index; report \
                         this with the panic above in the log"
                    );
                    self.forget().await;
                }
                sleep(GATHERED).await;
                let [nodes, pods, namespaces] = &mut states;
                let until = self.lock().last_used.unwrap_or_else(Instant::now) + KEPT;
                let change = async {
                    tokio::select! {
                        _ = nodes.changed() => {}
                        _ = pods.changed() => {}
                        _ = namespaces.changed() => {}
                    }
                };
                // In either case the stores are read again.
                let _came = timeout_at(until, change).await;
            }
            // A store is gone, or there were no reviews: the next review creates the index again.
            self.forget().await;
        }
    }

    /// Whether the lock that tasks of the runtime wait for is held.
    #[cfg(test)]
    pub(crate) fn is_locked(&self) -> bool {
        self.state.try_lock().is_err()
    }

    /// Whether the index exists now, and is not being changed.
    pub fn is_built(&self) -> bool {
        self.lock().index.is_some()
    }

    /// The resourceVersions of nodes, Pods and namespaces that the index has; `None` if it does not exist now.
    pub fn followed_to(&self) -> Option<[String; 3]> {
        self.lock().index.as_ref().map(|index| index.positions.each_ref().map(|position| position.version.to_string()))
    }

    /// Whether a review used the index recently.
    fn is_wanted(&self) -> bool {
        self.lock().last_used.is_some_and(|last| last.elapsed() < KEPT)
    }

    /// Locks the state, also after a panic: no code that holds the lock can panic.
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A snapshot of a store, without waiting; `None` if the store is not loaded.
fn ready(resource: &Arc<Resource>) -> Option<StoreSnapshot> {
    match resource.state.load_state() {
        LoadState::Ready(snapshot) => Some(StoreSnapshot { resource: resource.clone(), snapshot }),
        LoadState::Idle
        | LoadState::Loading(_)
        | LoadState::SourceError { .. }
        | LoadState::OverMemory(_)
        | LoadState::Gone(_) => None,
    }
}

/// The approximate minimum memory of an index of these stores.
fn minimum_memory(stores: &PlacementStores) -> Bytes {
    let [nodes, pods, namespaces] = stores.all().map(|store| store.snapshot.len());
    Bytes(ClusterCounts { nodes, pods, namespaces, ..ClusterCounts::default() }.held_bytes())
}

impl Index {
    /// Builds the index from snapshots.
    fn new(stores: &PlacementStores, account: Account) -> Index {
        let mut index = Index {
            cluster: ClusterIndex::default(),
            positions: stores.all().map(StorePosition::of_snapshot),
            ignored: BTreeMap::new(),
            errors: 0,
            long: LongParts::default(),
            account,
        };
        for (kind, store) in stores.all().into_iter().enumerate() {
            for (_, object) in store.snapshot.range(Bound::Unbounded) {
                index.put(kind, object);
            }
        }
        index
    }

    /// Whether the index follows these stores, and their histories reach back to its position.
    fn follows(&self, stores: &PlacementStores) -> bool {
        self.positions.iter().zip(stores.all()).all(|(position, store)| {
            Arc::ptr_eq(&position.resource_state, &store.resource.state)
                && position.epoch == store.snapshot.epoch()
                && (store.snapshot.end() <= position.end || store.snapshot.changes(position.end).is_some())
        })
    }

    /// The index with the changes between its positions and these snapshots.
    fn advanced(mut self, stores: &PlacementStores) -> Index {
        for (kind, store) in stores.all().into_iter().enumerate() {
            // Another task may have applied later changes. Bookmarks raise the version without a change.
            let position = &self.positions[kind];
            if store.snapshot.end() < position.end
                || store.snapshot.end() == position.end && store.snapshot.version() <= position.version
            {
                continue;
            }
            // Of each object only the last state is read.
            let mut last: HashMap<&str, Option<&Object>> = HashMap::new();
            for change in store.snapshot.changes(self.positions[kind].end).into_iter().flatten() {
                if let Some(object) = change.after.as_ref().or(change.before.as_ref()) {
                    last.insert(object.key(), change.after.as_ref());
                }
            }
            for (key, object) in last {
                match object {
                    Some(object) => self.put(kind, object),
                    None => self.remove(kind, key),
                }
            }
            self.positions[kind] = StorePosition::of_snapshot(store);
        }
        self
    }

    /// Adds or replaces an object. If it cannot be parsed, or exceeds a bound of the index, it is removed, and recorded
    /// as ignored. The error is logged, and stored unless [`MOST_NAMED`] errors are. `kind` is the position of its
    /// resource in [`NEEDED`].
    fn put(&mut self, kind: usize, object: &Object) {
        let json = object.json();
        let key = object.key();
        let result: Result<bool, ReadError> = match NEEDED[kind] {
            "nodes" => Node::read(&json).and_then(|node| {
                self.long.measure(kind, key, json.len(), "Node", &[&node.metadata.labels, &node.spec.taints])?;
                Ok(self.cluster.upsert_node(&node))
            }),
            "pods" => Pod::read(&json).and_then(|pod| {
                if let Some(message) = too_many_carried_terms(&pod.spec) {
                    return Err(ReadError { kind: "Pod", message });
                }
                // The index stores these together: the terms of an affinity also depend on the namespace.
                let selection = (&pod.metadata.namespace, &pod.spec.node_selector, &pod.spec.affinity);
                let parts: [&dyn Measured; 3] = [&pod.metadata.labels, &selection, &pod.spec.tolerations];
                self.long.measure(kind, key, json.len(), "Pod", &parts)?;
                Ok(self.cluster.upsert_pod(&pod))
            }),
            _ => Namespace::read(&json).and_then(|namespace| {
                self.long.measure(kind, key, json.len(), "Namespace", &[&namespace.metadata.labels])?;
                Ok(self.cluster.upsert_namespace(&namespace))
            }),
        };
        self.notice(kind, key);
        if let Err(error) = result {
            // The indexed state of the object is out of date.
            self.remove(kind, object.key());
            tracing::warn!(resource = NEEDED[kind], object = object.key(), %error, "placement reviews ignore an object that they cannot evaluate, so their results can be wrong");
            let error = (self.errors < MOST_NAMED).then(|| error.to_string());
            self.errors += usize::from(error.is_some());
            self.ignored.insert((kind, key.to_owned()), error);
        }
    }

    /// No longer records an object as ignored. `kind` is the position of its resource in [`NEEDED`].
    fn notice(&mut self, kind: usize, key: &str) {
        if !self.ignored.is_empty() && self.ignored.remove(&(kind, key.to_owned())).flatten().is_some() {
            self.errors -= 1;
        }
    }

    /// Removes an object. `kind` is the position of its resource in [`NEEDED`].
    fn remove(&mut self, kind: usize, key: &str) {
        self.long.forget(kind, key);
        match NEEDED[kind] {
            "nodes" => self.cluster.remove_node(key),
            "pods" => {
                let (namespace, name) = key.split_once('/').unwrap_or(("", key));
                self.cluster.remove_pod(namespace, name)
            }
            _ => self.cluster.remove_namespace(key),
        };
        self.notice(kind, key);
    }

    /// Messages about ignored objects: the names of the first ones, and the number of the others.
    fn ignored(&self) -> Vec<String> {
        let named = self.ignored.iter().take(MOST_NAMED).map(|((kind, key), error)| {
            let error = error.as_deref().unwrap_or("the log has the reason");
            format!("{} {key} is ignored, so the result can be wrong: {error}", KINDS[*kind])
        });
        let others = self.ignored.len().saturating_sub(MOST_NAMED);
        let counted = format!("{others} more objects are ignored, so the result can be wrong: the log names them");
        named.chain((others > 0).then_some(counted)).collect()
    }

    /// A snapshot of the index.
    fn indexed(&self) -> IndexSnapshot {
        let [nodes, pods, namespaces] = &self.positions;
        IndexSnapshot {
            cluster: self.cluster.clone(),
            resource_versions: ResourceVersions {
                nodes: nodes.version.to_string(),
                pods: pods.version.to_string(),
                namespaces: namespaces.version.to_string(),
            },
            ignored: self.ignored(),
        }
    }
}
