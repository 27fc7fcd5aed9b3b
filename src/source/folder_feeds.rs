//! A folder as a source: its objects into feeds, its definitions and the built-in kinds into the catalog.
//!
//! Every built-in kind is served, empty or not, as a cluster would. A problem is logged once, when it appears, and is
//! in the list of [`FolderFeeds::problems`] while it lasts.

#![expect(clippy::disallowed_methods, reason = "folder mode numbers its versions from the time of its start")]

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use serde_json::{Value, json};

use super::feed::{Feed, SourceEvent};
use super::field_caches::{self, FieldCacheProblem, field_caches_gvr};
use super::folder::{BuiltInKind, FolderDelta, FolderProblem, FolderState, ObjectChange};
use super::openapi::{ExtraEntries, append_extra, built_in_entries, extra_entries};
use super::resources::custom_resource;
use super::scan::{Follower, REPEAT, Scanner};
use super::store_options::StoreOptions;
use crate::builtin;
use crate::builtin::schemas;
use crate::builtin::served::{self, ServedKind, served_kinds};
use crate::crd::{Crd, served_groups};
use crate::extract::{json_path, validation};
use crate::model::{GroupVersion, Gvr, Key, Version};
use crate::openapi::{selectable, v2, v3};
use crate::registry::documents::{Build, StaticDocuments};
use crate::registry::{
    ApiGroup, Catalog, Dropped, GoneReason, Registry, Resource, ResourceOrigin, Subresource, VersionInfo,
};
use crate::store::HistoryLimits;

/// How long to wait until the next scan after the folder itself could not be read. The last state stays served.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Why a folder cannot be served at all.
#[derive(Debug, thiserror::Error)]
#[error("folder {path} cannot be read: {cause}; use a folder with manifests in --dir PATH")]
pub struct UnreadableFolder {
    path: String,
    cause: io::Error,
}

/// The feeds of one folder.
pub struct FolderFeeds {
    follower: Follower,
    path: PathBuf,
    scanner: Scanner,
    state: FolderState,
    registry: Arc<Registry>,
    feeds: BTreeMap<Gvr, Feed>,
    /// Every object in every version it is served in: the initial objects of a resource with a new definition. The
    /// bytes are shared with the stores.
    objects: BTreeMap<Gvr, BTreeMap<Key, Bytes>>,
    /// The definitions of the folder, with their documents.
    definitions: Vec<(Crd, Value)>,
    /// The fields that FieldCaches of the folder add.
    extra: StoreOptions,
    /// The problems of these FieldCaches.
    field_cache_problems: Vec<FieldCacheProblem>,
    /// All current problems of the folder.
    problems: Vec<FolderProblem>,
}

impl FolderFeeds {
    /// Reads the folder and fills the registry.
    ///
    /// # Errors
    /// The folder itself cannot be read. Files in it that cannot are problems, not errors.
    pub fn open(path: &Path, registry: Arc<Registry>) -> Result<FolderFeeds, UnreadableFolder> {
        let (follower, trouble) = Follower::start(path, REPEAT);
        // For a path that is not a folder, the scan below returns an error.
        if let Some(trouble) = trouble.filter(|_| path.is_dir()) {
            tracing::warn!(folder = %path.display(), error = trouble, "the system does not report file changes in this folder: scanning it every few seconds");
        }
        let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut feeds = FolderFeeds {
            follower,
            path: path.to_owned(),
            scanner: Scanner::new(path),
            state: FolderState::new(u64::try_from(started.as_millis()).unwrap_or(u64::MAX)),
            registry,
            feeds: BTreeMap::new(),
            objects: BTreeMap::new(),
            definitions: Vec::new(),
            extra: StoreOptions::default(),
            field_cache_problems: Vec::new(),
            problems: Vec::new(),
        };
        let delta = feeds.scan().map_err(|cause| UnreadableFolder { path: path.display().to_string(), cause })?;
        feeds.publish_catalog();
        feeds.apply(delta);
        Ok(feeds)
    }

    /// The current problems of the folder.
    pub fn problems(&self) -> &[FolderProblem] {
        &self.problems
    }

    /// Follows the folder until the future is dropped. Scanning, parsing and indexing run on a thread of their own: a
    /// large folder takes seconds, in which requests must be served.
    pub async fn run(mut self) {
        loop {
            self.follower.wait().await;
            let looked = tokio::task::spawn_blocking(move || {
                let taken = self.scan().map(|delta| self.apply(delta));
                (self, taken)
            });
            let taken;
            (self, taken) = match looked.await {
                Ok(looked) => looked,
                Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                // The process is ending.
                Err(_) => return,
            };
            if let Err(error) = taken {
                tracing::error!(folder = %self.path.display(), error = %error, "cannot read the folder: serving its last state, and retrying");
                tokio::time::sleep(RETRY_AFTER).await;
            }
        }
    }

    /// Scans the folder, and returns what changed since the last scan.
    fn scan(&mut self) -> io::Result<FolderDelta> {
        self.scanner.update(&mut self.state, &built_in_kind, &refused_fields)
    }

    /// Applies the changes of a scan to the stores and the catalog, and logs new and fixed problems.
    fn apply(&mut self, mut delta: FolderDelta) {
        for (gvr, changes) in &delta.changes {
            let objects = self.objects.entry(gvr.clone()).or_default();
            for change in changes {
                match change {
                    ObjectChange::Upsert { key, bytes, .. } => objects.insert(key.clone(), bytes.clone()),
                    ObjectChange::Remove { key, .. } => objects.remove(key),
                };
            }
        }
        let has_definitions = delta.definitions.is_some();
        if let Some(definitions) = delta.definitions.take() {
            for (crd, document) in &definitions {
                for warning in validation::unknown_fields(document) {
                    tracing::warn!(crd = %crd.name, "{}", warning.message);
                }
            }
            self.definitions = definitions;
        }
        let has_fields =
            (has_definitions || delta.changes.contains_key(&field_caches_gvr())) && self.read_field_caches();
        delta.problems.extend(self.field_cache_problems());
        delta.problems.sort();
        for problem in &delta.problems {
            if !self.problems.contains(problem) {
                tracing::warn!("{problem}");
            }
        }
        let mended = self.problems.iter().filter(|problem| !delta.problems.contains(problem)).count();
        if mended > 0 {
            tracing::info!(fixed = mended, remaining = delta.problems.len(), "manifest problems fixed");
        }
        self.problems = delta.problems;
        let fresh = if has_definitions || has_fields { self.publish_catalog() } else { BTreeSet::new() };
        let mut changed = BTreeSet::new();
        for (gvr, changes) in delta.changes {
            // A new feed gets all objects below.
            let Some(feed) = self.feeds.get_mut(&gvr).filter(|_| !fresh.contains(&gvr)) else { continue };
            for change in changes {
                feed.take(match change {
                    ObjectChange::Upsert { bytes, .. } => SourceEvent::Upsert(bytes),
                    ObjectChange::Remove { key, version } => SourceEvent::RemoveKey(key, version),
                });
            }
            changed.insert(gvr);
        }
        for (gvr, feed) in &mut self.feeds {
            if !feed.is_ready() {
                feed.take(SourceEvent::Begin);
                for bytes in self.objects.get(gvr).into_iter().flat_map(BTreeMap::values) {
                    feed.take(SourceEvent::Item(bytes.clone()));
                }
                feed.take(SourceEvent::Commit(delta.version));
            } else if feed.version() < delta.version {
                feed.take(SourceEvent::Mark(delta.version));
            } else if !changed.contains(gvr) {
                continue;
            }
            feed.publish();
        }
    }

    /// Reads the FieldCaches again. True if they now add other fields than before.
    fn read_field_caches(&mut self) -> bool {
        let crds: Vec<&Crd> = self.definitions.iter().map(|(crd, _)| crd).collect();
        let objects = self.objects.get(&field_caches_gvr());
        let (extra, problems) = objects.map(|objects| field_caches::read(objects, &crds)).unwrap_or_default();
        self.field_cache_problems = problems;
        std::mem::replace(&mut self.extra, extra) != self.extra
    }

    /// The problems of FieldCaches, with their files and lines.
    fn field_cache_problems(&self) -> Vec<FolderProblem> {
        let gvr = field_caches_gvr();
        let at_its_place = |(key, message): &FieldCacheProblem| {
            let (file, line) = self.state.place(&gvr.group, &gvr.resource, key)?;
            Some(FolderProblem { file: file.to_owned(), line, cause: format!("FieldCache {}: {message}", key.name()) })
        };
        self.field_cache_problems.iter().filter_map(at_its_place).collect()
    }

    /// Publishes a catalog of the built-in kinds and the definitions. Returns the new and changed resources, which have
    /// new, empty feeds.
    fn publish_catalog(&mut self) -> BTreeSet<Gvr> {
        let previous = self.registry.catalog();
        let crds: Vec<Arc<Crd>> = self.definitions.iter().map(|(crd, _)| Arc::new(crd.clone())).collect();
        let mut resources: Vec<Resource> = served_kinds().iter().map(built_in_resource).collect();
        for crd in &crds {
            resources.extend(crd.served_versions().into_iter().map(|version| custom_resource(crd, version)));
        }
        let mut fresh = BTreeSet::new();
        let mut feeds = BTreeMap::new();
        let mut kept = Vec::new();
        for mut resource in resources {
            let gvr = resource.gvr.clone();
            resource.extractor = self.extra.extractor(&gvr, resource.extractor);
            let unchanged = previous.resource(&gvr).filter(|unchanged| unchanged.same_definition(&resource));
            match (unchanged, self.feeds.remove(&gvr)) {
                (Some(unchanged), Some(feed)) => {
                    kept.push(unchanged.clone());
                    feeds.insert(gvr, feed);
                }
                _ => {
                    let resource = Arc::new(resource);
                    kept.push(resource.clone());
                    feeds.insert(
                        gvr.clone(),
                        Feed::new(resource, HistoryLimits::default()).accounted(self.registry.memory(), false),
                    );
                    fresh.insert(gvr);
                }
            }
        }
        // The remaining feeds have no definition any more, so none of their objects is served.
        for (gvr, mut feed) in std::mem::replace(&mut self.feeds, feeds) {
            feed.remove_all(Version::ZERO);
            if let Some(resource) = previous.store(&gvr) {
                resource.state.end(GoneReason::NotServed);
            }
        }
        let extra = Arc::new(extra_entries(kept.iter().map(|resource| &**resource)));
        let groups = groups(&crds);
        let documents = Arc::new(documents(crds, extra));
        let catalog = Catalog::new(groups, kept, version_info()).with_documents(documents);
        // No removed resource has further events.
        self.registry.replace(catalog, |_| None);
        fresh
    }
}

/// The version that folder mode reports, in the format of `/version`.
fn version_info() -> VersionInfo {
    VersionInfo {
        body: json!({
            "major": "1", "minor": "36", "gitVersion": "v1.36.0+fieldcache", "gitCommit": "", "gitTreeState": "",
            "buildDate": "1970-01-01T00:00:00Z", "goVersion": "", "compiler": "rustc",
            "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
        }),
    }
}

/// A built-in kind from the table of served kinds; `None` if there is no such kind.
fn built_in_kind(group: &str, version: &str, kind: &str) -> Option<BuiltInKind> {
    let found = served::find(group, version, kind)?;
    Some(BuiltInKind {
        plural: found.row.plural.to_owned(),
        scope: found.row.scope,
        schema: schemas::structural_schema(group, version, kind),
    })
}

/// One sentence for each selectable field and printer column of a definition that is not served.
fn refused_fields(crd: &Crd) -> Vec<String> {
    let sentence = |field: &str, message: &str, hint: &str| match hint {
        "" => format!("{field}: {message}"),
        hint => format!("{field}: {message}; {hint}"),
    };
    let validation = validation::validate(crd, None);
    let fields = validation.causes.iter().map(|cause| sentence(&cause.field, &cause.message, &cause.hint));
    fields.chain(json_path::unreadable_columns(crd)).collect()
}

/// The resource of a built-in kind.
fn built_in_resource(kind: &ServedKind) -> Resource {
    let status = Subresource { name: "status".to_owned(), kind: kind.row.kind.to_owned(), group_version: None };
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    Resource {
        gvr: kind.gvr(),
        kind: kind.row.kind.to_owned(),
        list_kind: kind.list_kind().to_owned(),
        singular: kind.singular(),
        scope: kind.row.scope,
        short_names: owned(kind.row.short_names),
        categories: owned(kind.row.categories),
        subresources: kind.row.has_status.then_some(status).into_iter().collect(),
        storage_version_hash: String::new(),
        origin: ResourceOrigin::BuiltIn,
        printer_columns: Arc::new([]),
        deprecation_warning: None,
        definition: String::new(),
        extractor: builtin::extractor(kind.row.group, kind.version, kind.row.kind),
        state: Arc::default(),
        partial_store: None,
        view_restriction: None,
        dropped: Dropped::default(),
    }
}

/// The API groups: built-in ones in the order of kube-apiserver, then those of the definitions by name.
fn groups(crds: &[Arc<Crd>]) -> Vec<ApiGroup> {
    let mut groups: Vec<ApiGroup> = Vec::new();
    for GroupVersion { group, version } in served::group_versions() {
        match groups.iter_mut().find(|known| known.name == group) {
            Some(known) => known.versions.push(version),
            None => groups.push(ApiGroup { name: group, versions: vec![version] }),
        }
    }
    for (name, versions) in served_groups(borrowed(crds)) {
        if !groups.iter().any(|known| known.name == name) {
            let versions = versions.into_iter().map(str::to_owned).collect();
            groups.push(ApiGroup { name: name.to_owned(), versions });
        }
    }
    groups
}

/// The OpenAPI documents of the built-in kinds and of these definitions. `extra`: the fields that FieldCaches add.
fn documents(crds: Vec<Arc<Crd>>, extra: Arc<ExtraEntries>) -> StaticDocuments {
    let mut builds: BTreeMap<String, Build> = BTreeMap::new();
    for group_version in served::group_versions() {
        let key = group_version.path();
        let extra = extra.clone();
        let build = move || annotated(schemas::v3_document(&group_version).unwrap_or_default(), &extra);
        builds.insert(key, Box::new(build));
    }
    let custom: BTreeSet<GroupVersion> = crds
        .iter()
        .flat_map(|crd| crd.served_versions().into_iter().map(|version| crd.group_version(&version.name)))
        .collect();
    for group_version in custom {
        let (crds, extra) = (crds.clone(), extra.clone());
        let key = group_version.path();
        builds.insert(
            key,
            Box::new(move || {
                let GroupVersion { group, version } = &group_version;
                let document = v3::custom_resources(&borrowed(&crds), group, version, &schemas::shared());
                let mut document = document.unwrap_or_default();
                append_extra(&mut document, &extra);
                document
            }),
        );
    }
    let v2 = Box::new(move || {
        let mut document = annotated(schemas::v2_document(), &ExtraEntries::new());
        v2::merge(&mut document, &borrowed(&crds), &schemas::shared());
        append_extra(&mut document, &extra);
        document
    });
    StaticDocuments::new(v2, builds)
}

/// References to the definitions.
fn borrowed(crds: &[Arc<Crd>]) -> Vec<&Crd> {
    crds.iter().map(|crd| &**crd).collect()
}

/// Adds the selectable fields of built-in kinds and those of FieldCaches (`extra`) to an OpenAPI document.
fn annotated(mut document: Value, extra: &ExtraEntries) -> Value {
    selectable::annotate(&mut document, &|group, version, kind| {
        let found = served::find(group, version, kind)?;
        Some(built_in_entries(group, version, kind, found.row.scope))
    });
    append_extra(&mut document, extra);
    document
}
