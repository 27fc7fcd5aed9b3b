//! A cluster's own OpenAPI documents with the selectable fields of built-in kinds added.
//!
//! Custom resources keep what the cluster publishes for them. Documents are fetched when somebody asks and kept by the
//! hash that the cluster gives them; before each answer the cluster is asked, at most once a second, which hashes are
//! right, since it publishes a changed CRD a moment after the CRD itself changed.
//!
//! Not copied from upstream: a version that is no longer served keeps its v3 document there until its CRD goes; here
//! the document goes with the version.

#![expect(clippy::disallowed_methods, reason = "the edge measures how long ago the cluster was asked")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::Value;
use tokio::sync::Mutex;

use super::connection::{Connection, RequestError};
use crate::extract::builtin;
use crate::model::Scope;
use crate::openapi::{SelectableEntry, hash, selectable};
use crate::registry::documents::{DocumentSet, DocumentSource, Forms};

/// How long an answer of the cluster about its documents is believed.
const BELIEVED_FOR: Duration = Duration::from_secs(1);
/// Documents fetched at a time: enough to hide the way there and back.
const FETCHES_AT_ONCE: usize = 4;
const JSON: &str = "application/json";

/// Kinds that are served as built-in resources, by group, version and kind.
pub type BuiltInKinds = BTreeMap<(String, String, String), Scope>;

/// The documents of one cluster. One for the life of the connection: what it has fetched survives catalogs.
pub struct ClusterDocuments {
    connection: Connection,
    fetched: Mutex<Fetched>,
}

#[derive(Default)]
struct Fetched {
    /// When the cluster was last asked, and for which kinds the set was made.
    asked: Option<Instant>,
    v2: Option<(String, Arc<Forms>)>,
    /// By key: the URL with the cluster's hash, and the document.
    v3: BTreeMap<String, (String, Arc<Forms>)>,
    kinds: Arc<BuiltInKinds>,
    gone: BTreeSet<String>,
    set: Option<Arc<DocumentSet>>,
}

impl fmt::Debug for ClusterDocuments {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ClusterDocuments({})", self.connection.url())
    }
}

impl ClusterDocuments {
    /// Nothing fetched yet.
    pub fn new(connection: Connection) -> ClusterDocuments {
        ClusterDocuments { connection, fetched: Mutex::default() }
    }

    /// The built-in kinds are these, and the documents of these keys (`apis/G/V`) are not to be shown.
    pub async fn serve(&self, kinds: BuiltInKinds, gone: BTreeSet<String>) {
        let mut fetched = self.fetched.lock().await;
        if *fetched.kinds != kinds {
            fetched.kinds = Arc::new(kinds);
            fetched.v2 = None;
            fetched.v3.clear();
        }
        fetched.gone = gone;
        fetched.asked = None;
    }

    async fn refresh(&self) -> Result<Arc<DocumentSet>, RequestError> {
        let mut fetched = self.fetched.lock().await;
        let believed = fetched.asked.is_some_and(|asked| asked.elapsed() < BELIEVED_FOR);
        if let Some(set) = fetched.set.clone().filter(|_| believed) {
            return Ok(set);
        }
        let index = self.connection.json("/openapi/v3", JSON).await?;
        let mut wanted = BTreeMap::new();
        for (key, entry) in index["paths"].as_object().into_iter().flatten() {
            if let Some(url) = entry["serverRelativeURL"].as_str().filter(|_| !fetched.gone.contains(key)) {
                wanted.insert(key.clone(), url.to_owned());
            }
        }
        let missing: Vec<(String, String)> = wanted
            .iter()
            .filter(|(key, url)| fetched.v3.get(*key).is_none_or(|(held, _)| held != *url))
            .map(|(key, url)| (key.clone(), url.clone()))
            .collect();
        let arrived: Vec<(String, String, Bytes)> = stream::iter(missing)
            .map(async |(key, url)| self.connection.bytes(&url, JSON).await.map(|body| (key, url, body)))
            .buffered(FETCHES_AT_ONCE)
            .try_collect()
            .await?;
        let kinds = fetched.kinds.clone();
        fetched.v3.retain(|key, _| wanted.contains_key(key));
        for (key, url, body) in arrived {
            let forms = Arc::new(Forms::v3(annotated(body, kinds.clone())));
            fetched.v3.insert(key, (url, forms));
        }
        let body = self.connection.bytes("/openapi/v2", JSON).await?;
        let body_hash = hash::of(&body);
        let v2 = match &fetched.v2 {
            Some((held, forms)) if *held == body_hash => forms.clone(),
            _ => Arc::new(Forms::v2(annotated(body, kinds))),
        };
        fetched.v2 = Some((body_hash, v2.clone()));
        let v3 = fetched.v3.iter().map(|(key, (_, forms))| (key.clone(), forms.clone())).collect();
        let set = Arc::new(DocumentSet::of_forms(v2, v3));
        fetched.set = Some(set.clone());
        fetched.asked = Some(Instant::now());
        Ok(set)
    }
}

impl DocumentSource for ClusterDocuments {
    fn documents(&self) -> BoxFuture<'_, Result<Arc<DocumentSet>, String>> {
        Box::pin(async { self.refresh().await.map_err(|error| error.to_string()) })
    }
}

/// A builder of the document with the fields of built-in kinds added.
fn annotated(body: Bytes, kinds: Arc<BuiltInKinds>) -> Box<dyn Fn() -> Value + Send + Sync> {
    Box::new(move || {
        let mut document: Value = serde_json::from_slice(&body).unwrap_or_default();
        selectable::annotate(&mut document, &|group, version, kind| {
            let scope = *kinds.get(&(group.to_owned(), version.to_owned(), kind.to_owned()))?;
            Some(built_in_entries(group, version, kind, scope))
        });
        document
    })
}

/// The published fields of a built-in kind.
pub fn built_in_entries(group: &str, version: &str, kind: &str, scope: Scope) -> Vec<SelectableEntry> {
    builtin::published(group, version, kind, scope)
        .into_iter()
        .map(|field| SelectableEntry {
            field_path: field.field_path.to_string(),
            default: field.default.map(|text| text.to_string()),
            description: field.description.map(|text| text.to_string()),
        })
        .collect()
}
