//! The index for placement, kept up to date with the stores of nodes, Pods and namespaces.
//!
//! It is created by the first review, follows the histories of the three stores, and is dropped after a quarter of an
//! hour without reviews. Each review brings it up to its own snapshots. [`PlacementIndex::follow`] does the same now and
//! then so that little is left to do. Readers take a clone, which is a point in time. A history that has moved on or
//! started again requires a new index.
//!
//! Blocking threads take turns to bring the index up to date, and wait for each other. Tasks of the runtime never wait for
//! that work: what they lock is held for a swap.
//!
//! [`crate::placement`] evaluates the rules, and the parent module serves reviews over HTTP.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::hash::{BuildHasher, RandomState};
use std::ops::Bound;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout_at};

use crate::model::quantity::Bytes;
use crate::model::{Gvr, Version};
use crate::placement::review::ResourceVersions;
use crate::placement::{ClusterCounts, ClusterIndex, Namespace, Node, Pod, ReadError, too_many_carried_terms};
use crate::registry::{Account, Catalog, LoadState, Memory, NotReady, OverMemory, Registry, Resource, ResourceState};
use crate::store::{HistoryCursor, Object, Snapshot};

/// How long the index remains after the last review, as long as `serve` keeps a store.
const KEPT: Duration = Duration::from_secs(15 * 60);

/// How long changes are gathered before the index follows them.
const GATHERED: Duration = Duration::from_millis(200);

/// Objects that cannot be read and are remembered by name.
const MOST_UNREADABLE: usize = 100;

/// A part of an object (its labels, its affinity, its tolerations, its taints) that is longer is measured, in bytes of JSON. All others are
/// counted by their number.
const SHORT: usize = 512;

/// How much more memory a part takes than its JSON has bytes. An affinity is stored three times: as it is written, as
/// terms and by their values.
const GROWTH: usize = 12;

/// The maximum bytes of all different long parts together, as JSON. A store holds the same objects compressed, so
/// nothing else bounds them.
pub(crate) const MOST_LONG: usize = 16 << 20;

/// The stores that are needed.
const NEEDED: [&str; 3] = ["nodes", "pods", "namespaces"];

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
    /// The store has a part of the objects.
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
        /// Why.
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
    /// Takes them out of a catalog, waiting for those that are being loaded.
    ///
    /// # Errors
    /// The first that is missing.
    pub async fn load(catalog: &Catalog, patience: Duration) -> Result<PlacementStores, MissingStore> {
        let [nodes, pods, namespaces] = NEEDED.map(|resource| find(catalog, resource));
        let (nodes, pods, namespaces) = (nodes?, pods?, namespaces?);
        // Requested at the same time: they load side by side.
        let (nodes, pods, namespaces) =
            tokio::join!(hold(nodes, patience), hold(pods, patience), hold(namespaces, patience));
        Ok(PlacementStores { nodes: nodes?, pods: pods?, namespaces: namespaces? })
    }

    fn all(&self) -> [&StoreSnapshot; 3] {
        [&self.nodes, &self.pods, &self.namespaces]
    }

    /// The states of the three resources.
    pub fn lives(&self) -> [&ResourceState; 3] {
        self.all().map(|store| &*store.resource.state)
    }
}

type Found = (&'static str, Arc<Resource>);

/// The store of a resource, or why there is none.
fn find(catalog: &Catalog, resource: &'static str) -> Result<Found, MissingStore> {
    let gvr = Gvr::new("", "v1", resource);
    match (catalog.resource(&gvr), catalog.store(&gvr)) {
        (Some(found), _) => Ok((resource, found.clone())),
        (None, Some(_)) => Err(MissingStore::Partial { resource }),
        (None, None) => Err(MissingStore::NotCached { resource }),
    }
}

/// A snapshot of a store, after waiting for it at most this long.
async fn hold((name, resource): Found, patience: Duration) -> Result<StoreSnapshot, MissingStore> {
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
    /// The versions of the stores.
    pub resource_versions: ResourceVersions,
    /// Messages about objects that cannot be read, and are not in the index.
    pub unreadable: Vec<String>,
}

/// The index and its state.
#[derive(Debug, Default)]
pub struct PlacementIndex {
    /// The turn to change the index. Only blocking threads wait for it, because it lasts as long as the change.
    turn: Mutex<()>,
    /// The index, unless it is being changed. Held for a swap.
    state: Mutex<State>,
    questions: Notify,
    /// The memory that counts the index beside the stores.
    memory: Arc<Memory>,
}

#[derive(Debug, Default)]
struct State {
    index: Option<Index>,
    last_used: Option<Instant>,
}

#[derive(Debug)]
pub(crate) struct Index {
    cluster: ClusterIndex,
    /// In the order of [`NEEDED`].
    places: [Place; 3],
    /// By kind and key: why an object is not in the index.
    unreadable: BTreeMap<(usize, String), String>,
    long: LongParts,
    account: Account,
}

/// The long parts of objects, each counted once: pods of a template share theirs in the index too.
#[derive(Debug, Default)]
struct LongParts {
    /// By kind and key: the parts of an object, as hashes.
    objects: HashMap<(usize, String), Vec<u64>>,
    /// How many objects have a part, and how long it is.
    parts: HashMap<u64, (usize, usize)>,
    /// The sum of the lengths.
    bytes: usize,
    hashes: RandomState,
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
    /// Counts the long parts of an object instead of those that it had before. `length` is that of its JSON.
    ///
    /// # Errors
    /// There is no room for them beside those of other objects.
    fn measure(
        &mut self,
        kind: usize,
        key: &str,
        length: usize,
        name: &'static str,
        parts: &[&dyn Measured],
    ) -> Result<(), ReadError> {
        self.forget(kind, key);
        if length <= SHORT {
            return Ok(());
        }
        let unreadable = |message: String| ReadError { kind: name, message };
        let mut counted = Vec::new();
        for part in parts {
            let json = part.json().map_err(|error| unreadable(error.to_string()))?;
            if json.len() > SHORT {
                // Only pods share their parts.
                let owner = if NEEDED[kind] == "pods" { "" } else { key };
                counted.push((self.hashes.hash_one((kind, owner, &json)), json.len()));
            }
        }
        let is_new = |(hash, _): &&(u64, usize)| !self.parts.contains_key(hash);
        let added: usize = counted.iter().filter(is_new).map(|(_, length)| length).sum();
        if self.bytes + added > MOST_LONG {
            return Err(unreadable(format!(
                "its labels, affinity, tolerations and taints take {added} bytes: shorten them. All objects with more than {SHORT} bytes of these may take {MOST_LONG} together"
            )));
        }
        if counted.is_empty() {
            return Ok(());
        }
        for (hash, length) in &counted {
            let (objects, _) = self.parts.entry(*hash).or_insert((0, *length));
            *objects += 1;
            self.bytes += if *objects == 1 { *length } else { 0 };
        }
        self.objects.insert((kind, key.to_owned()), counted.into_iter().map(|(hash, _)| hash).collect());
        Ok(())
    }

    /// Drops the counts of an object that left the index.
    fn forget(&mut self, kind: usize, key: &str) {
        for hash in self.objects.remove(&(kind, key.to_owned())).unwrap_or_default() {
            let Some((objects, length)) = self.parts.get_mut(&hash) else { continue };
            *objects -= 1;
            if *objects == 0 {
                self.bytes -= *length;
                self.parts.remove(&hash);
            }
        }
    }
}

/// The position up to which one store has been followed.
#[derive(Debug)]
struct Place {
    resource_state: Arc<ResourceState>,
    epoch: u64,
    end: HistoryCursor,
    version: Version,
}

impl Place {
    /// The position in history of a snapshot.
    fn of_snapshot(snapshot: &StoreSnapshot) -> Place {
        Place {
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

    /// The index, not older than the stores. Takes as long as what has changed since its last use. The first time it
    /// reads every object, which is too much work for a thread that handles requests.
    ///
    /// # Errors
    /// There is no index yet, and no room for one.
    pub fn at(&self, stores: &PlacementStores) -> Result<IndexSnapshot, OverMemory> {
        self.lock().last_used = Some(Instant::now());
        let indexed = self.caught_up(stores, Index::indexed);
        self.questions.notify_one();
        indexed
    }

    /// Changes the index in turn. It is taken out meanwhile, so that one that is half done is not used again.
    fn exchange<T>(&self, change: impl FnOnce(Option<Index>) -> (Option<Index>, T)) -> T {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let held = self.lock().index.take();
        let (index, result) = change(held);
        self.lock().index = index;
        result
    }

    /// What `read` reads of the index that has caught up with the stores.
    pub(crate) fn caught_up<T>(
        &self,
        stores: &PlacementStores,
        read: impl FnOnce(&Index) -> T,
    ) -> Result<T, OverMemory> {
        self.exchange(|held| {
            let held = held.filter(|index| index.follows(stores));
            let mut index = match held {
                Some(index) => index.advanced(stores),
                None => match self.memory.refuses(expected(stores)) {
                    Some(over) => return (None, Err(over)),
                    None => Index::new(stores, self.memory.open()),
                },
            };
            // The current index remains, however large it becomes, as stores do.
            index.account.set(index.cluster.counts().held_bytes() + (index.long.bytes * GROWTH) as u64);
            let result = read(&index);
            (Some(index), Ok(result))
        })
    }

    /// Drops the index, which takes as long as it is large.
    async fn forget(&self) {
        let index = self.lock().index.take();
        if tokio::task::spawn_blocking(move || drop(index)).await.is_err() {
            tracing::error!("the index of placement failed (internal error) and is dropped");
        }
    }

    /// Keeps the index up to date while reviews are requested now and then; to be polled for as long as the server
    /// runs.
    pub async fn follow(self: Arc<Self>, registry: Arc<Registry>) -> Infallible {
        loop {
            self.questions.notified().await;
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
                let caught_up = tokio::task::spawn_blocking(move || {
                    // Without memory there is no index. The next review reports that.
                    let _refused = index.caught_up(&stores, |_| ()).is_err();
                });
                if caught_up.await.is_err() {
                    tracing::error!("the index of placement failed (internal error) and is rebuilt");
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

    /// Whether somebody holds what tasks of the runtime wait for.
    #[cfg(test)]
    pub(crate) fn is_locked(&self) -> bool {
        self.state.try_lock().is_err()
    }

    /// Whether the index exists now, and is not being changed.
    pub fn is_built(&self) -> bool {
        self.lock().index.is_some()
    }

    /// The versions of nodes, Pods and namespaces that the index has.
    pub fn followed_to(&self) -> Option<[String; 3]> {
        self.lock().index.as_ref().map(|index| index.places.each_ref().map(|place| place.version.to_string()))
    }

    /// Whether a review used the index recently.
    fn is_wanted(&self) -> bool {
        self.lock().last_used.is_some_and(|last| last.elapsed() < KEPT)
    }

    /// Nothing that can panic is done while it is held.
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A snapshot of the store if it is ready, without waiting.
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
fn expected(stores: &PlacementStores) -> Bytes {
    let [nodes, pods, namespaces] = stores.all().map(|store| store.snapshot.len());
    Bytes(ClusterCounts { nodes, pods, namespaces, ..ClusterCounts::default() }.held_bytes())
}

impl Index {
    /// Builds the index from snapshots.
    fn new(stores: &PlacementStores, account: Account) -> Index {
        let mut index = Index {
            cluster: ClusterIndex::default(),
            places: stores.all().map(Place::of_snapshot),
            unreadable: BTreeMap::new(),
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
        self.places.iter().zip(stores.all()).all(|(place, store)| {
            Arc::ptr_eq(&place.resource_state, &store.resource.state)
                && place.epoch == store.snapshot.epoch()
                && (store.snapshot.end() <= place.end || store.snapshot.changes(place.end).is_some())
        })
    }

    /// Applies the changes between the last snapshots and these.
    fn advanced(mut self, stores: &PlacementStores) -> Index {
        for (kind, store) in stores.all().into_iter().enumerate() {
            // Another task may have come further meanwhile. Versions move without changes too: bookmarks.
            let place = &self.places[kind];
            if store.snapshot.end() < place.end
                || store.snapshot.end() == place.end && store.snapshot.version() <= place.version
            {
                continue;
            }
            // An object that changed often is read once.
            let mut last: HashMap<&str, Option<&Object>> = HashMap::new();
            for change in store.snapshot.changes(self.places[kind].end).into_iter().flatten() {
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
            self.places[kind] = Place::of_snapshot(store);
        }
        self
    }

    /// Adds or replaces an object of a kind, by its position in the stores.
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
        self.unreadable.remove(&(kind, object.key().to_owned()));
        if let Err(error) = result {
            // Its old version is not what it is now.
            self.remove(kind, object.key());
            tracing::warn!(resource = NEEDED[kind], object = object.key(), %error, "placement ignores an object that it cannot parse");
            if self.unreadable.len() < MOST_UNREADABLE {
                self.unreadable.insert((kind, object.key().to_owned()), error.to_string());
            }
        }
    }

    /// Removes an object.
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
        self.unreadable.remove(&(kind, key.to_owned()));
    }

    /// A snapshot of the index.
    fn indexed(&self) -> IndexSnapshot {
        let [nodes, pods, namespaces] = &self.places;
        IndexSnapshot {
            cluster: self.cluster.clone(),
            resource_versions: ResourceVersions {
                nodes: nodes.version.to_string(),
                pods: pods.version.to_string(),
                namespaces: namespaces.version.to_string(),
            },
            unreadable: self
                .unreadable
                .iter()
                .map(|((kind, key), error)| format!("left out of {}: {key}: {error}", NEEDED[*kind]))
                .collect(),
        }
    }
}
