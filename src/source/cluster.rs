//! A cluster as a source: builds the catalog from discovery and CustomResourceDefinitions, and starts and stops feeds.
//!
//! One task owns the catalog and follows the CRDs, which are a feed like any other. Each resource has a sync task that
//! ends when the resource is removed from the catalog. Only requested resources are cached.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until};

use super::cluster_settings::{ClusterSettings, Demand};
use super::connection::{Connection, RequestError};
use super::departures::{self, KnownCrds};
use super::discovery::{self, Discovery};
use super::openapi::{BuiltInKinds, ClusterDocuments, extra_entries};
use super::pending_replacements::PendingReplacements;
use super::phase_log;
use super::resource_sync::{ResourceSync, release_last_snapshot, sync_resource};
use super::resources::{
    CustomResources, built_in_resource, crd_gvr, crd_resources, definition, groups, unchanged_definition,
};
use super::self_check::SelfCheck;
use super::store_options::StoreOptions;
use super::sync_supervisor::{PanickedTask, SyncSupervisor};
use crate::crd::Crd;
use crate::extract::json_path::unreadable_columns;
use crate::model::{GroupVersion, Gvr, Version};
use crate::registry::{
    Catalog, Definitions, GoneReason, LoadState, PanicOrigin, Registry, Resource, ResourceOrigin, UpstreamDiscovery,
    VersionInfo,
};
use crate::store::Snapshot;

/// How often discovery is read again: aggregated APIs come and go without a CRD.
const DISCOVER_EVERY: Duration = Duration::from_secs(60);
/// While clients read discovery, fieldcache reads it again this long after the last reading.
const REFRESH_AFTER: Duration = Duration::from_secs(2);
/// A slow discovery is read again only after this many times its duration: an aggregated API can make it slow.
const REFRESH_SHARE: u32 = 20;
/// How long to wait after a CRD has changed. CRDs that change together (a kubectl apply of many) then make one catalog.
const SETTLE: Duration = Duration::from_millis(150);

/// A cluster that is being read.
pub struct Cluster {
    connection: Connection,
    settings: ClusterSettings,
    registry: Arc<Registry>,
    version: VersionInfo,
    discovery: Discovery,
    /// The earliest time at which a client that reads discovery causes another reading.
    refresh_at: Instant,
    supervisor: SyncSupervisor,
    /// Held while a store is compared with the cluster: one at a time.
    check_turn: Arc<Semaphore>,
    documents: Arc<ClusterDocuments>,
    /// CRDs read so far, by name, with the version that was read: a change of one does not re-read the others.
    crds: KnownCrds,
    /// The resources of established CRDs.
    custom: CustomResources,
    /// Whether the CRDs have been read at all. False without the permission to list them.
    knows_crds: bool,
    /// The resourceVersion of the list from which the CRDs were read last.
    crds_version: Version,
    /// Resources that cannot be followed, as last logged.
    unsupported: BTreeSet<Gvr>,
    /// The resource `customresourcedefinitions`, which is followed even if fieldcache does not serve it.
    definitions: Option<Arc<Resource>>,
    /// New stores of resources with changed fields. The old store of each is served until the new one is complete.
    successors: PendingReplacements,
    /// The metadata of all resources that the cluster serves, including those that fieldcache does not cache.
    known: watch::Sender<Arc<Definitions>>,
}

impl Cluster {
    /// Reads the cluster's discovery and fills the registry. CRDs are loaded first, so that the first catalog is
    /// complete. `version` is the response of the cluster to `/version`.
    ///
    /// # Errors
    /// [`RequestError`] when a request fails. An error with the CRDs is not one: only built-in resources are then
    /// served.
    pub async fn start(
        connection: Connection,
        settings: ClusterSettings,
        registry: Arc<Registry>,
        version: VersionInfo,
    ) -> Result<Cluster, RequestError> {
        let discovery = discovery::discover(&connection, &UpstreamDiscovery::default()).await?;
        let mut cluster = Cluster {
            documents: Arc::new(ClusterDocuments::new(connection.apart())),
            connection,
            settings,
            registry,
            version,
            discovery,
            refresh_at: Instant::now() + REFRESH_AFTER,
            supervisor: SyncSupervisor::default(),
            check_turn: Arc::new(Semaphore::new(1)),
            crds: BTreeMap::new(),
            custom: CustomResources::default(),
            knows_crds: false,
            crds_version: Version::ZERO,
            unsupported: BTreeSet::new(),
            definitions: None,
            successors: PendingReplacements::default(),
            known: watch::Sender::new(Arc::default()),
        };
        cluster.publish_catalog().await;
        if let Some(crds) = cluster.definitions.clone() {
            // An error is not fatal here: without the permission to list CRDs, built-in resources are still served.
            // If the list takes longer, `run` reads the CRDs.
            if let Ok(snapshot) = crds.state.snapshot(Duration::from_secs(30)).await {
                cluster.read_crds(&snapshot).await;
                cluster.publish_catalog().await;
            }
        }
        Ok(cluster)
    }

    /// A receiver of the metadata of all resources that the cluster serves, including those that fieldcache does not
    /// cache. It receives the new metadata after each change.
    pub fn definitions(&self) -> watch::Receiver<Arc<Definitions>> {
        self.known.subscribe()
    }

    /// Follows the cluster until the future is dropped.
    pub async fn run(mut self) {
        let mut store_options = self.settings.store_options.clone();
        // What was sent before this line may have come after the first catalog.
        store_options.mark_changed();
        let mut discover = interval(DISCOVER_EVERY);
        discover.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut demand = self.settings.demand.clone();
        let registry = self.registry.clone();
        let mut requests = registry.rediscovery().requests();
        let mut readers = registry.rediscovery().readers();
        loop {
            // Without permission to read CRDs, or where they are not served, only discovery reports changes.
            let crds = self.definitions.clone();
            let mut states = crds.as_ref().map(|crds| crds.state.subscribe());
            // What was published before this line counts as news: it may have come after the last reading.
            states.iter_mut().for_each(watch::Receiver::mark_changed);
            loop {
                let changed = async {
                    match &mut states {
                        Some(states) => states.changed().await.is_ok(),
                        None => std::future::pending().await,
                    }
                };
                let changed = tokio::select! {
                    changed = changed => changed,
                    Some(ended) = self.supervisor.next_ended() => {
                        if let Some(panicked) = ended {
                            self.restart_sync(panicked);
                        }
                        continue;
                    }
                    () = demand.changed() => {
                        self.publish_catalog().await;
                        continue;
                    }
                    () = store_options_changed(&mut store_options) => {
                        self.publish_catalog().await;
                        continue;
                    }
                    () = self.successors.settled() => {
                        self.publish_catalog().await;
                        continue;
                    }
                    Ok(()) = requests.changed() => {
                        let request = *requests.borrow_and_update();
                        // The request may be for the resource of a CRD that has just been created.
                        if let Some(crds) = &crds
                            && let LoadState::Ready(snapshot) = crds.state.load_state()
                            && self.read_crds(&snapshot).await
                        {
                            self.publish_catalog().await;
                        }
                        self.rediscover().await;
                        registry.rediscovery().complete(request);
                        continue;
                    }
                    () = wait_for_reader(&mut readers, self.refresh_at) => {
                        self.rediscover().await;
                        continue;
                    }
                    _ = discover.tick() => {
                        self.rediscover().await;
                        if states.is_none() {
                            break;
                        }
                        continue;
                    }
                };
                let Some(states) = states.as_mut().filter(|_| changed) else { break };
                sleep(SETTLE).await;
                let state = states.borrow_and_update().clone();
                match state {
                    LoadState::Ready(snapshot) => {
                        if self.read_crds(&snapshot).await {
                            self.publish_catalog().await;
                            self.rediscover().await;
                        }
                    }
                    LoadState::Gone(_) => break,
                    LoadState::Idle
                    | LoadState::Loading(_)
                    | LoadState::SourceError { .. }
                    | LoadState::OverMemory(_) => {}
                }
            }
        }
    }

    /// Reads discovery again, and updates the catalog if it has changed. After an error the last result stays.
    async fn rediscover(&mut self) {
        // A client that reads discovery from here on causes another reading.
        self.registry.rediscovery().begin();
        let began = Instant::now();
        let found = discovery::discover(&self.connection, &self.discovery.offers).await;
        self.refresh_at = Instant::now() + REFRESH_AFTER.max(began.elapsed() * REFRESH_SHARE);
        match found {
            Ok(mut found) => {
                found.retain_stale(&self.discovery);
                if found != self.discovery {
                    self.discovery = found;
                    self.publish_catalog().await;
                }
            }
            Err(error) => {
                tracing::warn!(error = %error, "discovery failed: fieldcache keeps serving the resources that it knows, and retries")
            }
        }
    }

    /// Reads the CRDs that have changed since the last call. True if any was added, changed or removed, and for the
    /// first call. Yields to other tasks between two of them.
    async fn read_crds(&mut self, snapshot: &Snapshot) -> bool {
        let mut changed = !std::mem::replace(&mut self.knows_crds, true);
        self.crds_version = snapshot.version();
        let mut present = BTreeSet::new();
        for (_, object) in snapshot.range(std::ops::Bound::Unbounded) {
            let key = object.key();
            present.insert(key.to_owned());
            if self.crds.get(key).is_some_and(|(version, _)| *version == object.version()) {
                continue;
            }
            tokio::task::yield_now().await;
            let json = object.json();
            let known = self.crds.get(key).and_then(|(_, known)| known.as_ref().ok());
            // Only metadata or the status has changed, so the definition is not parsed again.
            if let Some((known, still)) = known.and_then(|known| Some((known, unchanged_definition(known, &json)?))) {
                changed |= !Arc::ptr_eq(known, &still);
                self.crds.insert(key.to_owned(), (object.version(), Ok(still)));
                continue;
            }
            let crd = match definition(&json) {
                Ok(crd) => {
                    if known.is_none_or(|known| known.generation != crd.generation) {
                        for hidden in unreadable_columns(&crd) {
                            tracing::warn!(crd = %key, "{hidden}");
                        }
                    }
                    Ok(Arc::new(crd))
                }
                Err(error) => {
                    tracing::error!(crd = %key, error, "cannot parse a CustomResourceDefinition: its kind is not served");
                    Err(error)
                }
            };
            self.crds.insert(key.to_owned(), (object.version(), crd));
            changed = true;
        }
        let known = self.crds.len();
        self.crds.retain(|name, _| present.contains(name));
        changed || self.crds.len() != known
    }

    /// Builds the catalog from discovery, the CRDs and the settings, publishes it, and starts the sync of new
    /// resources.
    async fn publish_catalog(&mut self) {
        let previous = self.registry.catalog();
        let crds: Vec<Arc<Crd>> =
            self.crds.values().filter_map(|(_, crd)| crd.clone().ok()).filter(|crd| crd.established).collect();
        let custom: BTreeSet<Gvr> =
            self.crds.values().filter_map(|(_, crd)| crd.as_ref().ok()).flat_map(|crd| crd_resources(crd)).collect();
        let mut resources = Vec::new();
        for found in &self.discovery.resources {
            // Until its CRD has been read, a custom resource is not known well enough to be served.
            if found.spells_out_kind || custom.contains(&found.gvr) {
                continue;
            }
            resources.push(built_in_resource(found, self.version.minor()));
        }
        self.custom.retain(&crds);
        for crd in &crds {
            if self.custom.make(crd) {
                tokio::task::yield_now().await;
            }
            resources.extend(
                self.custom.of_definition(crd).filter(|resource| self.discovery.can_offer_custom(&resource.gvr)),
            );
        }
        let mut groups = groups(&self.discovery, &crds, &resources);
        // Without extra fields: they are validated against the resource's own fields.
        let unreadable =
            self.crds.iter().filter_map(|(name, (_, crd))| Some((name.clone(), crd.as_ref().err()?.clone())));
        let unreadable = unreadable.collect();
        let known = Definitions { unreadable, ..Definitions::new(&resources, &crds, groups.clone()) };
        let extra = self.settings.store_options.borrow().clone();
        for resource in &mut resources {
            extra.apply(resource);
        }
        // The OpenAPI documents show the fields of all resources, whether fieldcache serves them or not.
        let kinds: BuiltInKinds = resources
            .iter()
            .filter(|resource| resource.origin == ResourceOrigin::BuiltIn)
            .map(|resource| {
                ((resource.gvr.group.clone(), resource.gvr.version.clone(), resource.kind.clone()), resource.scope)
            })
            .collect();
        let defined: BTreeSet<String> = resources.iter().map(|resource| resource.gvr.group_version().path()).collect();
        let gone = custom.iter().map(|gvr| gvr.group_version().path()).filter(|key| !defined.contains(key)).collect();
        self.documents.serve(kinds, extra_entries(&resources), gone).await;
        // What cannot be listed as a whole cannot be followed.
        let (resources, unsupported): (Vec<Resource>, Vec<Resource>) =
            resources.into_iter().partition(|resource| resource.gvr.has_collection_path());
        let unsupported: BTreeSet<Gvr> = unsupported.into_iter().map(|resource| resource.gvr).collect();
        for gvr in unsupported.difference(&self.unsupported) {
            tracing::warn!(
                resource = %gvr,
                "this resource is not served: API servers read the plural names watch and proxy in a URL as a prefix of an old form of path, so the resource cannot be listed in all namespaces; give it another plural name"
            );
        }
        self.unsupported = unsupported;
        let there: BTreeSet<Gvr> = resources.iter().map(|resource| resource.gvr.clone()).collect();
        let (resources, fresh) = self.choose(&previous, resources);
        let served: BTreeSet<GroupVersion> = resources.iter().map(|resource| resource.gvr.group_version()).collect();
        for group in &mut groups {
            group.versions.retain(|version| served.contains(&GroupVersion::new(&*group.name, &**version)));
        }
        groups.retain(|group| !group.versions.is_empty());
        let catalog = Catalog::new(groups, resources, self.version.clone())
            .with_documents(self.documents.clone())
            .with_offers(self.offers());
        phase_log::log_served(&previous, &catalog);
        let crds = self.knows_crds.then_some((self.crds_version, &self.crds));
        // A resource that the cluster still has is only not cached any more: it does not depart.
        self.registry.replace(catalog, |resource| {
            (!there.contains(&resource.gvr)).then(|| departures::departure(resource, crds))
        });
        // After the catalog: its followers find resources that the cluster does not serve any more departing.
        self.known.send_replace(Arc::new(known));
        for resource in fresh {
            self.start_sync(resource);
        }
    }

    /// Chooses which of the cluster's resources to serve, and which of them to load. Returns both. A resource with an
    /// unchanged definition keeps its store. `previous` is the current catalog.
    fn choose(&mut self, previous: &Catalog, resources: Vec<Resource>) -> (Vec<Arc<Resource>>, Vec<Arc<Resource>>) {
        let (mut served, mut fresh) = (Vec::new(), Vec::new());
        self.follow_definitions(&resources, &mut fresh);
        let named = self.settings.demand.named();
        for resource in resources {
            if named.as_ref().is_some_and(|named| !named.contains(&resource.gvr)) {
                continue;
            }
            // Where all resources are served, this one shares the store that `follow_definitions` keeps.
            let followed = self
                .definitions
                .as_ref()
                .filter(|followed_store| named.is_none() && followed_store.gvr == resource.gvr);
            let chosen = match (followed, previous.store(&resource.gvr)) {
                (Some(followed), _) => followed.clone(),
                (None, Some(kept)) if kept.same_definition(&resource) => {
                    self.successors.cancel(&resource.gvr);
                    kept.clone()
                }
                (None, previous) => self.successors.choose(previous, resource, &mut fresh),
            };
            served.push(chosen);
        }
        self.successors.retain(&served);
        (served, fresh)
    }

    /// The groups and resources of the cluster, without the custom resources whose CRDs were deleted. Discovery may
    /// show these for another minute.
    fn offers(&self) -> UpstreamDiscovery {
        let mut offers = self.discovery.offers.clone();
        if !self.knows_crds {
            return offers;
        }
        let custom: BTreeSet<&Gvr> =
            self.discovery.resources.iter().filter(|found| found.spells_out_kind).map(|found| &found.gvr).collect();
        for group in &mut offers.groups {
            for version in &mut group.versions {
                version.resources.retain(|resource| {
                    let gvr = Gvr::new(&*group.name, &*version.name, &*resource.name);
                    !custom.contains(&gvr) || self.may_be_offered(&gvr)
                });
            }
            group.versions.retain(|version| version.is_stale || !version.resources.is_empty());
        }
        offers.groups.retain(|group| !group.versions.is_empty());
        offers
    }

    /// Whether the CRD of a custom resource exists and serves its version. True for a CRD that cannot be parsed.
    fn may_be_offered(&self, gvr: &Gvr) -> bool {
        match self.crds.get(&gvr.group_resource()) {
            Some((_, Ok(crd))) => crd.served_versions().iter().any(|version| version.name == gvr.version),
            Some((_, Err(_))) => true,
            None => false,
        }
    }

    /// Keeps one resource for the CRDs themselves, even if fieldcache does not serve it. Replaces it if its definition
    /// among `resources` has changed, and adds the new one to `fresh`, the resources to load.
    fn follow_definitions(&mut self, resources: &[Resource], fresh: &mut Vec<Arc<Resource>>) {
        let found = resources.iter().find(|resource| resource.gvr == crd_gvr());
        let is_kept = match (&self.definitions, found) {
            (Some(kept), Some(found)) => kept.same_definition(found),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        if is_kept {
            return;
        }
        if let Some(gone) = self.definitions.take() {
            gone.state.end(GoneReason::Replaced);
        }
        self.definitions = found.map(|found| Arc::new(found.with_new_state()));
        fresh.extend(self.definitions.clone());
    }

    /// Starts the sync of a resource.
    fn start_sync(&mut self, resource: Arc<Resource>) {
        let sync = self.sync_task(resource.clone(), Duration::ZERO);
        self.supervisor.start(resource, sync);
    }

    /// Restarts the sync task of a resource after a panic.
    fn restart_sync(&mut self, panicked: PanickedTask) {
        self.registry.panics().count(PanicOrigin::Feed);
        let sync = self.sync_task(panicked.resource.clone(), panicked.delay);
        self.supervisor.replace(panicked, sync);
    }

    /// The future that syncs a resource, after a delay, and then releases its last snapshot.
    fn sync_task(&self, resource: Arc<Resource>, delay: Duration) -> impl Future<Output = ()> + Send + 'static {
        let is_pinned = match &self.settings.demand {
            Demand::OnRequest { pinned } => resource.gvr == crd_gvr() || pinned.contains(&resource.gvr),
            Demand::Named(_) => true,
        };
        let check = self.settings.self_check.map(|interval| {
            SelfCheck::new(self.connection.clone(), resource.clone(), interval, self.check_turn.clone())
        });
        let memory = self.registry.memory().clone();
        let kept = ResourceSync { resource, is_pinned, memory };
        let logged = kept.resource.clone();
        let keeping = sync_resource(self.connection.clone(), kept, self.settings.clone(), check, delay);
        async move {
            let resource_state = logged.state.clone();
            let account = Box::pin(phase_log::logged(logged, keeping)).await;
            release_last_snapshot(&resource_state, account).await;
        }
    }
}

/// Waits until the options of stores change, forever if nothing sends them any more.
async fn store_options_changed(store_options: &mut watch::Receiver<Arc<StoreOptions>>) {
    if store_options.changed().await.is_err() {
        std::future::pending().await
    }
}

/// Waits until a client has read discovery since the last reading of it began, and then until `not_before`.
async fn wait_for_reader(readers: &mut watch::Receiver<bool>, not_before: Instant) {
    if readers.wait_for(|is_read| *is_read).await.is_err() {
        std::future::pending().await
    }
    sleep_until(not_before).await;
}
