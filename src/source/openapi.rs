//! A cluster's own OpenAPI documents with the selectable fields of built-in kinds and of FieldCaches added.
//!
//! The documents of custom resources stay as the cluster publishes them. Documents are fetched on request and cached by
//! the hash that the cluster gives them. Before each response the cluster's index is requested for the valid hashes, at
//! most once a second. The cluster publishes a changed CRD a moment after the CRD itself changed; in that moment it is
//! requested more often. The v2 document, several megabytes, is only fetched for requests of it.
//!
//! A v3 document that cannot be fetched (its aggregated API is down) remains in its last state or is left out. The
//! others are still served. [`super::document_budget`] bounds their total.
//!
//! There is one difference from upstream. There a version that is no longer served has a v3 document until its CRD is
//! removed; here the document is removed with the version.

#![expect(clippy::disallowed_methods, reason = "the edge measures how long ago the cluster was queried")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{StreamExt, stream};
use http::HeaderValue;
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::connection::{Connection, RequestError};
use super::document_budget::{self, Budget, MOST_DOCUMENTS, MOST_MEMORY, MOST_MEMORY_V2};
use crate::builtin;
use crate::extract::Origin;
use crate::json::{tree, weight};
use crate::model::{Gvr, Scope};
use crate::openapi::DOCUMENT_LEVELS;
use crate::openapi::{SelectableEntry, hash, selectable};
use crate::registry::Resource;
use crate::registry::documents::{DocumentForms, DocumentSet, DocumentSource};

/// How long the last response of the cluster about its documents is used.
const BELIEVED_FOR: Duration = Duration::from_secs(1);
/// The same for [`AFTER_CHANGE`] after a definition has changed, because the cluster is about to publish it.
const BELIEVED_AFTER_CHANGE: Duration = Duration::from_millis(100);
/// How long after the change of a definition the shorter time applies.
const AFTER_CHANGE: Duration = Duration::from_secs(5);
/// The timeout of one document: an aggregated API that does not respond must not delay the documents of all others.
/// kube-apiserver takes some two seconds to build the largest.
const DOCUMENT_PATIENCE: Duration = Duration::from_secs(10);
/// The timeout of each document after one has timed out.
const SHORT_DOCUMENT_PATIENCE: Duration = Duration::from_secs(1);
/// The timeout of all missing documents together. The rest is requested later.
const DOCUMENTS_PATIENCE: Duration = Duration::from_secs(30);
/// The number of documents that are requested concurrently: enough to hide the network delay.
const FETCHES_AT_ONCE: usize = 4;
const JSON: &str = "application/json";

/// A group, version and kind.
type GroupVersionKind = (String, String, String);

/// Kinds that are served as built-in resources, by group, version and kind.
pub type BuiltInKinds = BTreeMap<GroupVersionKind, Scope>;

/// The fields of FieldCaches, by group, version and kind.
pub type ExtraEntries = BTreeMap<GroupVersionKind, Vec<SelectableEntry>>;

/// The fields that FieldCaches add to these resources.
pub fn extra_entries<'r>(resources: impl IntoIterator<Item = &'r Resource>) -> ExtraEntries {
    let mut all = ExtraEntries::new();
    for resource in resources {
        let fields = resource.extractor.fields().iter().filter(|field| field.origin == Origin::FieldCache);
        let entries: Vec<SelectableEntry> = fields
            .map(|field| SelectableEntry {
                field_path: field.label.clone(),
                default: None,
                description: Some(field.description.clone()),
            })
            .collect();
        if !entries.is_empty() {
            let Gvr { group, version, .. } = &resource.gvr;
            all.insert((group.clone(), version.clone(), resource.kind.clone()), entries);
        }
    }
    all
}

/// Adds the fields of FieldCaches (`extra`) to an OpenAPI document.
pub fn append_extra(document: &mut Value, extra: &ExtraEntries) {
    if !extra.is_empty() {
        selectable::append(document, &|group, version, kind| {
            extra.get(&(group.to_owned(), version.to_owned(), kind.to_owned())).cloned()
        });
    }
}

/// The documents of one cluster. They exist as long as the connection: fetched documents are used by all later
/// catalogs.
pub struct ClusterDocuments {
    connection: Connection,
    /// See [`BELIEVED_FOR`].
    believed_for: Duration,
    /// The most memory that the value of a v3 document takes while its forms are created, in bytes, and that of the v2
    /// document.
    most_memory: usize,
    most_memory_v2: usize,
    /// Locked during a request, so that concurrent callers share one.
    fetching_v2: Mutex<()>,
    fetching_v3: Mutex<()>,
    /// Locked for moments only: a catalog is published without waiting for the cluster.
    known: std::sync::Mutex<Known>,
}

/// The fetched documents, and what was added to them.
#[derive(Default)]
struct Known {
    v2: Option<KnownV2>,
    v2_requested_at: Option<Instant>,
    /// By key: the URL, which contains the hash of the cluster, and the document.
    v3: BTreeMap<String, (String, Arc<DocumentForms>)>,
    /// The lengths of these documents.
    budget: Budget,
    /// The URLs of documents that do not fit, by key.
    left_out: BTreeMap<String, String>,
    /// By key of a document that timed out: when it can be requested again, and the length of the pause.
    slow: BTreeMap<String, (Instant, Duration)>,
    /// The documents that the last index of the cluster listed, and the time of its response.
    v3_set: Option<(Instant, Arc<DocumentSet>)>,
    /// Keys of v3 documents whose last request failed. Only the first failure in a row is logged.
    failing: BTreeSet<String>,
    /// What is added to the documents.
    added: Arc<Added>,
    /// Keys of documents that are not served.
    gone: Arc<BTreeSet<String>>,
    /// Rises when `added` or `gone` changes. Documents that were being fetched meanwhile are then discarded.
    catalog: u64,
    /// When `added` or `gone` changed last.
    changed: Option<Instant>,
}

/// What is added to the cluster's own documents.
#[derive(Debug, Default, PartialEq)]
struct Added {
    kinds: BuiltInKinds,
    extra: ExtraEntries,
}

/// The v2 document, with its entity tag and the hash of its bytes.
#[derive(Clone)]
struct KnownV2 {
    entity_tag: Option<HeaderValue>,
    hash: String,
    forms: Arc<DocumentForms>,
}

/// A v3 document that is to be fetched.
struct Missing {
    key: String,
    url: String,
    is_built_in: bool,
}

/// The result of fetching a document.
enum FetchResult {
    /// The body of the document.
    Body(Bytes),
    /// The document exists, but exceeds the bounds.
    NoRoom,
    /// The request failed quickly.
    Failed(RequestError),
    /// The request failed or timed out after a long time.
    Late(RequestError),
}

impl fmt::Debug for ClusterDocuments {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ClusterDocuments({})", self.connection.url())
    }
}

impl ClusterDocuments {
    /// The documents of a cluster, none of which has been fetched yet.
    pub fn new(connection: Connection) -> ClusterDocuments {
        ClusterDocuments {
            connection,
            believed_for: BELIEVED_FOR,
            most_memory: MOST_MEMORY,
            most_memory_v2: MOST_MEMORY_V2,
            fetching_v2: Mutex::default(),
            fetching_v3: Mutex::default(),
            known: std::sync::Mutex::default(),
        }
    }

    /// The same documents, with another time for which a response is valid.
    #[cfg(test)]
    pub(super) fn believing(self, believed_for: Duration) -> ClusterDocuments {
        ClusterDocuments { believed_for, ..self }
    }

    /// The same documents, with other bounds of the memory of values.
    #[cfg(test)]
    pub(super) fn within(self, most_memory: usize, most_memory_v2: usize) -> ClusterDocuments {
        ClusterDocuments { most_memory, most_memory_v2, ..self }
    }

    /// Sets the built-in kinds, the fields that FieldCaches add, and the keys (`apis/G/V`) of documents that are not
    /// served. Sends no request.
    pub async fn serve(&self, kinds: BuiltInKinds, extra: ExtraEntries, gone: BTreeSet<String>) {
        let mut known = self.known();
        let added = Added { kinds, extra };
        if *known.added != added {
            known.added = Arc::new(added);
            known.v2 = None;
            known.v3.clear();
            known.budget = Budget::default();
            known.left_out.clear();
        }
        known.gone = Arc::new(gone);
        known.v2_requested_at = None;
        known.v3_set = None;
        known.catalog += 1;
        known.changed = Some(Instant::now());
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The OpenAPI v2 document, requested again if the last response is too old.
    ///
    /// # Errors
    /// [`RequestError`] if the request fails, or the document takes too much memory.
    async fn v2(&self) -> Result<Arc<DocumentForms>, RequestError> {
        let _fetching = self.fetching_v2.lock().await;
        loop {
            let (previous, added, catalog) = {
                let known = self.known();
                match &known.v2 {
                    Some(previous) if known.is_believed(known.v2_requested_at, self.believed_for) => {
                        return Ok(previous.forms.clone());
                    }
                    previous => (previous.clone(), known.added.clone(), known.catalog),
                }
            };
            let entity_tag = previous.as_ref().and_then(|previous| previous.entity_tag.as_ref());
            let changed = self.connection.changed_bytes("/openapi/v2", JSON, entity_tag).await?;
            let requested_at = Instant::now();
            let fetched = match (changed, previous) {
                (None, Some(previous)) => previous,
                // Without an entity tag no document is known to be unchanged.
                (None, None) => continue,
                (Some((body, _)), _) if !weight::is_within(&body, self.most_memory_v2) => {
                    let cause = format!("its values would take more than {} bytes of memory", self.most_memory_v2);
                    return Err(self.connection.unexpected("/openapi/v2", &cause));
                }
                (Some((body, entity_tag)), previous) => {
                    let hash = hash::sha512(&body);
                    let forms = match previous {
                        Some(previous) if previous.hash == hash => previous.forms,
                        _ => Arc::new(DocumentForms::v2(annotated(body, added))),
                    };
                    KnownV2 { entity_tag, hash, forms }
                }
            };
            let mut known = self.known();
            // Otherwise what is added has changed meanwhile, and the document is requested again.
            if known.catalog == catalog {
                (known.v2, known.v2_requested_at) = (Some(fetched.clone()), Some(requested_at));
                return Ok(fetched.forms);
            }
        }
    }

    /// The OpenAPI v3 documents. Requests the index again if the last response is too old, and then the documents that
    /// have changed.
    ///
    /// # Errors
    /// [`RequestError`] if the index cannot be read. A missing document is not an error.
    async fn v3(&self) -> Result<Arc<DocumentSet>, RequestError> {
        let _fetching = self.fetching_v3.lock().await;
        loop {
            let (added, gone, catalog) = {
                let known = self.known();
                match &known.v3_set {
                    Some((requested_at, set)) if known.is_believed(Some(*requested_at), self.believed_for) => {
                        return Ok(set.clone());
                    }
                    _ => (known.added.clone(), known.gone.clone(), known.catalog),
                }
            };
            let index = self.connection.json("/openapi/v3", JSON).await?;
            let mut wanted = BTreeMap::new();
            for (key, entry) in index["paths"].as_object().into_iter().flatten() {
                if let Some(url) = entry["serverRelativeURL"].as_str().filter(|_| !gone.contains(key)) {
                    wanted.insert(key.clone(), url.to_owned());
                }
            }
            let missing = self.known().missing(&wanted, &added);
            let arrived = self.fetch(missing).await;
            let mut known = self.known();
            // Otherwise what is added has changed meanwhile, and the index is requested again.
            if known.catalog == catalog {
                let set = known.update(&wanted, arrived, &added);
                known.v3_set = Some((Instant::now(), set.clone()));
                return Ok(set);
            }
        }
    }

    /// Requests documents for at most [`DOCUMENTS_PATIENCE`]; those without a result then are left out of the return
    /// value. If the bodies exceed the bounds together, the longest become [`FetchResult::NoRoom`].
    async fn fetch(&self, missing: Vec<Missing>) -> Vec<(Missing, FetchResult)> {
        let begun = Instant::now();
        let is_any_late = AtomicBool::new(false);
        let fetch_missing = async |document: Missing| {
            let left = DOCUMENTS_PATIENCE.checked_sub(begun.elapsed())?;
            let usual = if is_any_late.load(Ordering::Relaxed) { SHORT_DOCUMENT_PATIENCE } else { DOCUMENT_PATIENCE };
            let requested_at = Instant::now();
            let result = match timeout(usual.min(left), self.connection.bytes(&document.url, JSON)).await {
                Ok(Ok(body)) if !weight::is_within(&body, self.most_memory) => FetchResult::NoRoom,
                Ok(Ok(body)) => FetchResult::Body(body),
                Ok(Err(error)) if requested_at.elapsed() > SHORT_DOCUMENT_PATIENCE => FetchResult::Late(error),
                Ok(Err(error)) => FetchResult::Failed(error),
                Err(_) => {
                    is_any_late.store(true, Ordering::Relaxed);
                    FetchResult::Late(self.connection.unexpected(&document.url, "no response in time"))
                }
            };
            Some((document, result))
        };
        let mut coming = pin!(stream::iter(missing).map(fetch_missing).buffered(FETCHES_AT_ONCE));
        let (mut arrived, mut budget) = (Vec::<(Missing, FetchResult)>::new(), Budget::default());
        while let Some(one) = coming.next().await {
            let Some((document, result)) = one else { continue };
            let length = if let FetchResult::Body(body) = &result { body.len() } else { 0 };
            let left_out = budget.add(&document.key, document.is_built_in, length, document_budget::MOST_BYTES);
            arrived.push((document, result));
            if !left_out.is_empty() {
                for (_, result) in arrived.iter_mut().filter(|(document, _)| left_out.contains(&document.key)) {
                    *result = FetchResult::NoRoom;
                }
            }
        }
        arrived
    }
}

impl Known {
    /// Whether a response of that time is still used; false without one. `usually` is how long it is used if no
    /// definition has changed recently.
    fn is_believed(&self, requested_at: Option<Instant>, usually: Duration) -> bool {
        let has_changed = self.changed.is_some_and(|changed| changed.elapsed() < AFTER_CHANGE);
        let most = if has_changed { BELIEVED_AFTER_CHANGE } else { usually };
        requested_at.is_some_and(|requested_at| requested_at.elapsed() < most)
    }

    /// The documents of the index (`wanted`: URLs by key) that must be fetched, at most [`MOST_DOCUMENTS`]: first those
    /// of built-in kinds, and of these and of the others, last those that failed before.
    fn missing(&self, wanted: &BTreeMap<String, String>, added: &Added) -> Vec<Missing> {
        let now = Instant::now();
        let of_kind = |(group, version, _): &GroupVersionKind| match &**group {
            "" => format!("api/{version}"),
            group => format!("apis/{group}/{version}"),
        };
        let built_in: BTreeSet<String> = added.kinds.keys().map(of_kind).collect();
        let is_missing = |(key, url): &(&String, &String)| {
            let is_held = self.v3.get(*key).is_some_and(|(previous, _)| previous == *url);
            let has_no_room = self.left_out.get(*key) == Some(*url);
            let is_slow = self.slow.get(*key).is_some_and(|(until, _)| *until > now);
            !is_held && !has_no_room && !is_slow
        };
        let to_missing = |(key, url): (&String, &String)| Missing {
            key: key.clone(),
            url: url.clone(),
            is_built_in: built_in.contains(key),
        };
        let mut missing: Vec<Missing> = wanted.iter().filter(is_missing).map(to_missing).collect();
        missing.sort_by_cached_key(|document| (!document.is_built_in, self.failing.contains(&document.key)));
        missing.truncate(MOST_DOCUMENTS);
        missing
    }

    /// Stores the results of requests (`arrived`), and logs the failures. Returns the set of all documents that the
    /// index lists (`wanted`: URLs by key) and that are cached. `added`: what is added to each document.
    fn update(
        &mut self,
        wanted: &BTreeMap<String, String>,
        arrived: Vec<(Missing, FetchResult)>,
        added: &Arc<Added>,
    ) -> Arc<DocumentSet> {
        let gone: Vec<String> = self.v3.keys().filter(|key| !wanted.contains_key(*key)).cloned().collect();
        for key in &gone {
            self.v3.remove(key);
            self.budget.remove(key);
        }
        if !gone.is_empty() {
            // Documents that were left out may fit now.
            self.left_out.clear();
        }
        // Documents that are still left out were logged before.
        let reported: BTreeSet<String> = self.left_out.keys().cloned().collect();
        self.left_out.retain(|key, url| wanted.get(key) == Some(url));
        self.slow.retain(|key, _| wanted.contains_key(key));
        // A document that timed out and was not requested again still counts as failing, so that its next failure is not
        // logged again.
        let mut failing: BTreeSet<String> =
            self.failing.iter().filter(|key| self.slow.contains_key(*key)).cloned().collect();
        for (Missing { key, url, is_built_in }, result) in arrived {
            let is_late = matches!(result, FetchResult::Late(_));
            match result {
                FetchResult::Body(body) => {
                    let left_out = self.budget.add(&key, is_built_in, body.len(), document_budget::MOST_BYTES);
                    self.slow.remove(&key);
                    failing.remove(&key);
                    self.v3.insert(key, (url, Arc::new(DocumentForms::v3(annotated(body, added.clone())))));
                    for key in left_out {
                        if let Some((url, _)) = self.v3.remove(&key) {
                            self.leave_out(key, url, &reported);
                        }
                    }
                }
                FetchResult::NoRoom => {
                    self.v3.remove(&key);
                    self.budget.remove(&key);
                    self.leave_out(key, url, &reported);
                }
                FetchResult::Failed(error) | FetchResult::Late(error) => {
                    if is_late {
                        let pause = document_budget::next_pause(self.slow.get(&key).map(|(_, pause)| *pause));
                        self.slow.insert(key.clone(), (Instant::now() + pause, pause));
                    }
                    if !self.failing.contains(&key) {
                        let shown =
                            if self.v3.contains_key(&key) { "its last state is served" } else { "it is left out" };
                        tracing::warn!(document = %key, error = %error, "cannot fetch an OpenAPI document, {shown}");
                    }
                    failing.insert(key);
                }
            }
        }
        self.failing = failing;
        let v3 = self.v3.iter().map(|(key, (_, forms))| (key.clone(), forms.clone())).collect();
        Arc::new(DocumentSet::of_forms(v3))
    }

    /// Notes that a document exceeds the bounds. Logs that unless its key is in `reported`.
    fn leave_out(&mut self, key: String, url: String, reported: &BTreeSet<String>) {
        if !reported.contains(&key) {
            tracing::warn!(
                document = %key,
                "leaving out an OpenAPI document: its values take more than 256Mi of memory, or all documents exceed a limit (4096 documents, or 128Mi) and it is one of the longest"
            );
        }
        self.left_out.insert(key, url);
    }
}

impl DocumentSource for ClusterDocuments {
    fn v2(&self) -> BoxFuture<'_, Result<Arc<DocumentForms>, String>> {
        Box::pin(async { self.v2().await.map_err(|error| error.to_string()) })
    }

    fn v3(&self) -> BoxFuture<'_, Result<Arc<DocumentSet>, String>> {
        Box::pin(async { self.v3().await.map_err(|error| error.to_string()) })
    }
}

/// The function that builds a document from its body, with the fields of built-in kinds and of FieldCaches added.
fn annotated(body: Bytes, added: Arc<Added>) -> Box<dyn Fn() -> Value + Send + Sync> {
    Box::new(move || {
        let mut document = tree::shallow(&body, DOCUMENT_LEVELS).unwrap_or_default();
        selectable::annotate(&mut document, &|group, version, kind| {
            let scope = *added.kinds.get(&(group.to_owned(), version.to_owned(), kind.to_owned()))?;
            Some(built_in_entries(group, version, kind, scope))
        });
        append_extra(&mut document, &added.extra);
        document
    })
}

/// The selectable fields of a built-in kind.
pub fn built_in_entries(group: &str, version: &str, kind: &str, scope: Scope) -> Vec<SelectableEntry> {
    builtin::published_fields(group, version, kind, scope)
        .into_iter()
        .map(|field| SelectableEntry {
            field_path: field.field_path.to_string(),
            default: field.default.map(|text| text.to_string()),
            description: field.description.map(|text| text.to_string()),
        })
        .collect()
}
