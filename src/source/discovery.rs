//! What a cluster serves, from its aggregated discovery documents (KEP-3352), and its version.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{StreamExt, stream};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout, timeout_at};

use super::connection::{Connection, MAX_JSON_MEMORY, RequestError};
use crate::json::weight;
use crate::model::{GroupVersion, Gvr, Scope};
use crate::registry::{
    ApiGroup, DiscoveredGroup, OfferedResource, OfferedVersion, Subresource, UpstreamDiscovery, VersionInfo,
};

/// The number of older discovery documents that are requested concurrently.
const HASHES_AT_ONCE: usize = 2;

/// The longest older document, that of one version of a group, that is read, in bytes.
const MAX_OLDER_BYTES: usize = 4 << 20;

/// The most memory that the value of an older document takes, in bytes, in its own and in the aggregated form. There a
/// resource takes about four kibibytes.
const MAX_OLDER_MEMORY: usize = 16 << 20;

/// The most short names, or categories, of a resource that are read from an older document. The CRD of a custom
/// resource has all of them.
const MOST_NAMES: usize = 1_000;

/// The timeout of an older document. An aggregated API server can be slow, and all other documents wait for it.
const OLDER_WAIT: Duration = Duration::from_secs(5);

/// The timeout of all older documents together, if they replace the aggregated document.
const GROUPS_WAIT: Duration = Duration::from_secs(60);

/// The timeout of all older documents together, if only their hashes are needed.
const HASHES_WAIT: Duration = Duration::from_secs(20);

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

const JSON: &str = "application/json";

/// The oldest supported minor version of Kubernetes: selectableFields are GA since 1.32.
const OLDEST_MINOR: u64 = 32;

/// One resource as discovery describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Discovered {
    /// Group, version and plural name.
    pub gvr: Gvr,
    /// Kind.
    pub kind: String,
    /// Singular name.
    pub singular: String,
    /// Scope.
    pub scope: Scope,
    /// Short names.
    pub short_names: Arc<[String]>,
    /// Categories.
    pub categories: Arc<[String]>,
    /// Subresources.
    pub subresources: Vec<Subresource>,
    /// Whether discovery states the group of the kind: true for custom resources, false for built-in ones.
    pub spells_out_kind: bool,
}

/// What a cluster serves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Discovery {
    /// Groups in the cluster's order. They do not have the stale versions, except those whose resources are known.
    pub groups: Vec<ApiGroup>,
    /// Resources that can be listed and watched.
    pub resources: Vec<Discovered>,
    /// Everything that the cluster serves, in the form of its discovery.
    pub offers: UpstreamDiscovery,
    /// Versions of groups that the API server, or an aggregated one, serves without CRDs.
    own_versions: BTreeSet<GroupVersion>,
}

/// The error for a cluster that is too old.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cluster {url} runs Kubernetes {version}; fieldcache supports 1.{OLDEST_MINOR} and newer: upgrade the cluster")]
pub struct TooOldCluster {
    /// The server URL.
    pub url: String,
    /// Its gitVersion.
    pub version: String,
}

/// Marks a version that was read from an older document, where custom resources look like others.
const OLDER: &str = "isOlder";

impl Discovery {
    /// Whether a resource of a CRD can be served. False if the API server, or an aggregated one, serves the same
    /// version of the group itself: then it does not serve what CRDs add to that version.
    pub fn can_offer_custom(&self, gvr: &Gvr) -> bool {
        !self.own_versions.contains(&gvr.group_version())
    }

    /// Adds what an earlier discovery (`known`) had of versions that are stale now. Their aggregated API server does
    /// not respond, which says nothing about its resources. Their stores remain, and their reads are rejected when
    /// there was no progress for too long.
    pub fn retain_stale(&mut self, known: &Discovery) {
        for offered in &self.offers.groups {
            let is_of = |version: &str| {
                let group_version = GroupVersion::new(&*offered.name, version);
                move |found: &&Discovered| found.gvr.group_version() == group_version
            };
            for version in offered.versions.iter().filter(|version| version.is_stale) {
                self.resources.extend(known.resources.iter().filter(is_of(&version.name)).cloned());
                self.own_versions
                    .extend(known.own_versions.get(&GroupVersion::new(&*offered.name, &*version.name)).cloned());
            }
            // Stale versions with known resources return to the group, in the order of discovery.
            if let Some(group) = self.groups.iter_mut().find(|group| group.name == offered.name) {
                let is_known = |name: &str| known.resources.iter().any(|found| is_of(name)(&found));
                let kept = offered.versions.iter().filter(|version| !version.is_stale || is_known(&version.name));
                group.versions = kept.map(|version| version.name.clone()).collect();
            }
        }
    }
}

/// Requests `/version`. The inner error is a cluster that is too old.
///
/// # Errors
/// [`RequestError`] if the request fails.
pub async fn version(connection: &Connection) -> Result<Result<VersionInfo, TooOldCluster>, RequestError> {
    let body = connection.json("/version", JSON).await?;
    let minor: String = body["minor"].as_str().unwrap_or_default().chars().take_while(char::is_ascii_digit).collect();
    let supported = body["major"] == "1" && minor.parse::<u64>().is_ok_and(|minor| minor >= OLDEST_MINOR);
    if !supported {
        let version = body["gitVersion"].as_str().unwrap_or("of an unknown version").to_owned();
        return Ok(Err(TooOldCluster { url: connection.url().to_owned(), version }));
    }
    Ok(Ok(VersionInfo { body }))
}

/// Requests both aggregated discovery documents, `/api` and `/apis`. Then requests the older documents of versions that
/// have changed since `known`, the last result: only they have the hashes of storage versions.
///
/// # Errors
/// [`RequestError`]. An older document that cannot be read leaves its hashes empty.
pub async fn discover(connection: &Connection, known: &UpstreamDiscovery) -> Result<Discovery, RequestError> {
    let mut discovery = read(connection, known).await?;
    read_hashes(connection, known, &mut discovery).await;
    Ok(discovery)
}

/// Requests only the two aggregated documents. A server without the core group, such as apiextensions-apiserver by
/// itself, has no `/api`. `known` is the last result.
///
/// # Errors
/// As [`discover`]. A missing `/api` is an error if `known` has the core group.
pub async fn read(connection: &Connection, known: &UpstreamDiscovery) -> Result<Discovery, RequestError> {
    let has_core = known.groups.iter().any(|group| group.name.is_empty());
    let mut discovery = Discovery::default();
    for path in ["/api", "/apis"] {
        let document = match connection.json(path, AGGREGATED).await {
            Err(RequestError::Status { code: 404, .. }) if path == "/api" && !has_core => continue,
            Err(missing @ RequestError::Status { code: 404, .. }) if path == "/apis" => {
                read_index(connection, known, missing).await?
            }
            // One aggregated API server can make it longer than is read.
            Err(broken @ RequestError::Broken { .. }) if path == "/apis" => {
                read_groups(connection, broken, &mut discovery).await?;
                continue;
            }
            answered => answered?,
        };
        if document["kind"] != "APIGroupDiscoveryList" {
            // Taken for an empty cluster it would end everything that is served.
            return Err(connection.unexpected(path, "the response is not aggregated discovery (APIGroupDiscoveryList)"));
        }
        for group in array(&document["items"]) {
            read_group(group, &mut discovery);
        }
    }
    Ok(discovery)
}

/// Replaces `/apis`, which apiextensions-apiserver by itself lacks: builds its document from the older ones of all
/// versions that the index `/` names.
///
/// # Errors
/// A request fails; or the index lacks a group of `known`, or has none. Then the error is `missing`, that of `/apis`.
async fn read_index(
    connection: &Connection,
    known: &UpstreamDiscovery,
    missing: RequestError,
) -> Result<Value, RequestError> {
    let index = connection.json("/", JSON).await?;
    let mut groups: Vec<(String, Vec<Value>)> = Vec::new();
    for path in strings(&index["paths"]) {
        let names = path.strip_prefix("/apis/").and_then(|names| names.split_once('/'));
        let Some((group, version)) = names.filter(|(_, version)| !version.is_empty() && !version.contains('/')) else {
            continue;
        };
        let document = read_older(connection, &path).await?;
        let version = json!({ "version": version, "resources": aggregated(&document), OLDER: true });
        match groups.iter_mut().find(|(name, _)| name == group) {
            Some((_, versions)) => versions.push(version),
            None => groups.push((group.to_owned(), vec![version])),
        }
    }
    let is_known = |name: &String| name.is_empty() || groups.iter().any(|(group, _)| group == name);
    if groups.is_empty() || !known.groups.iter().all(|group| is_known(&group.name)) {
        return Err(missing);
    }
    let items: Vec<Value> = groups
        .into_iter()
        .map(|(name, versions)| json!({ "metadata": { "name": name }, "versions": versions }))
        .collect();
    Ok(json!({ "kind": "APIGroupDiscoveryList", "items": items }))
}

/// Requests a document of the older discovery.
///
/// # Errors
/// There is no response in time, it is too long, or its value would take too much memory.
pub(super) async fn read_older(connection: &Connection, path: &str) -> Result<Value, RequestError> {
    let Ok(read) = timeout(OLDER_WAIT, connection.bytes_within(path, JSON, MAX_OLDER_BYTES)).await else {
        return Err(connection.unexpected(path, &format!("no response within {} s", OLDER_WAIT.as_secs())));
    };
    connection.parse_json(path, &read?, MAX_OLDER_MEMORY)
}

/// Reads the older documents of all groups and versions into `discovery`, because the aggregated one cannot be read
/// (`broken`). Together they may take as much memory as the aggregated one. A version whose document cannot be read is
/// stale, like that of an aggregated API server that is down.
///
/// # Errors
/// `broken` if the list of groups cannot be read either.
async fn read_groups(
    connection: &Connection,
    broken: RequestError,
    discovery: &mut Discovery,
) -> Result<(), RequestError> {
    let Ok(list) = read_older(connection, "/apis").await else { return Err(broken) };
    if list["kind"] != "APIGroupList" {
        return Err(broken);
    }
    tracing::warn!(error = %broken, "cannot read aggregated discovery: reading each API version separately");
    let (mut left, until) = (MAX_JSON_MEMORY, Instant::now() + GROUPS_WAIT);
    for group in array(&list["groups"]) {
        let mut versions = Vec::new();
        for version in array(&group["versions"]) {
            let path = format!("/apis/{}", text(&version["groupVersion"]));
            let reading = timeout_at(until, read_older(connection, &path)).await;
            let read = reading
                .unwrap_or_else(|_| {
                    Err(connection.unexpected(&path, "no time left, because the previous groups took too long"))
                })
                .and_then(|document| {
                    let found =
                        json!({ "version": version["version"], "resources": aggregated(&document), OLDER: true });
                    let memory = weight::memory_of(found.to_string().as_bytes(), MAX_OLDER_MEMORY);
                    let rest = left.checked_sub(memory).filter(|_| memory <= MAX_OLDER_MEMORY);
                    left = rest.ok_or_else(|| {
                        connection.unexpected(&path, "this version, or all groups together, have too many resources")
                    })?;
                    Ok(found)
                });
            versions.push(match read {
                Ok(found) => found,
                Err(error) => {
                    tracing::warn!(%error, "cannot read the resources of an API version: fieldcache serves only those that it knew before");
                    json!({ "version": version["version"], "freshness": "Stale" })
                }
            });
        }
        read_group(&json!({ "metadata": { "name": group["name"] }, "versions": versions }), discovery);
    }
    Ok(())
}

/// The resources of an older document (APIResourceList) in the aggregated form. Each subresource is moved into its
/// resource. One that comes before its resource is left out.
fn aggregated(document: &Value) -> Vec<Value> {
    let kind =
        |row: &Value| json!({ "group": text(&row["group"]), "version": text(&row["version"]), "kind": row["kind"] });
    let mut rows: Vec<Value> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for row in array(&document["resources"]) {
        let name = text(&row["name"]);
        if let Some((resource, subresource)) = name.split_once('/') {
            let below = json!({ "subresource": subresource, "responseKind": kind(row), "verbs": row["verbs"] });
            if let Some(above) = places.get(resource).and_then(|place| rows.get_mut(*place)) {
                match above["subresources"].as_array_mut() {
                    Some(list) => list.push(below),
                    None => above["subresources"] = json!([below]),
                }
            }
            continue;
        }
        let mut found = json!({
            "resource": &name,
            "responseKind": kind(row),
            "scope": if row["namespaced"] == true { "Namespaced" } else { "Cluster" },
            "singularResource": text(&row["singularName"]),
            "verbs": row["verbs"],
        });
        for member in ["shortNames", "categories"] {
            if row[member].is_array() {
                found[member] = array(&row[member]).take(MOST_NAMES).cloned().collect();
            }
        }
        places.entry(name).or_insert(rows.len());
        rows.push(found);
    }
    rows
}

/// Sets the storage version hashes of all resources but custom ones, whose CRDs determine them. Unchanged versions take
/// them from `known`, the last discovery.
async fn read_hashes(connection: &Connection, known: &UpstreamDiscovery, discovery: &mut Discovery) {
    let built_in: HashSet<GroupVersion> = discovery
        .resources
        .iter()
        .filter(|found| !found.spells_out_kind)
        .map(|found| found.gvr.group_version())
        .collect();
    let mut missing = Vec::new();
    for group in &mut discovery.offers.groups {
        for version in &mut group.versions {
            let group_version = GroupVersion::new(&*group.name, &*version.name);
            if version.is_stale || !built_in.contains(&group_version) {
                continue;
            }
            match known.version(&group.name, &version.name).filter(|known| known.has_rows_of(version)) {
                Some(known) => version.clone_from(known),
                None => missing.push((group_version, version)),
            }
        }
    }
    let readings: Vec<BoxFuture<'_, ()>> = missing
        .into_iter()
        .map(|(group_version, version)| {
            Box::pin(read_hashes_of(connection, group_version, version)) as BoxFuture<'_, ()>
        })
        .collect();
    let all = stream::iter(readings).buffer_unordered(HASHES_AT_ONCE).collect::<()>();
    if timeout(HASHES_WAIT, all).await.is_err() {
        tracing::debug!("some storage version hashes are not known: their documents take too long");
    }
}

/// Sets the storage version hashes of a version from its older document. After an error they stay empty.
async fn read_hashes_of(connection: &Connection, group_version: GroupVersion, version: &mut OfferedVersion) {
    let path = format!("/{}", group_version.path());
    match read_older(connection, &path).await {
        Ok(document) => {
            let mut hashes: HashMap<String, String> = array(&document["resources"])
                .map(|row| (text(&row["name"]), text(&row["storageVersionHash"])))
                .collect();
            for resource in &mut version.resources {
                resource.storage_version_hash = hashes.remove(&resource.name).unwrap_or_default();
            }
        }
        Err(error) => tracing::debug!(%error, "cannot read storage version hashes"),
    }
}

/// Reads a group of an aggregated document, and adds it to `discovery`: all versions to its offers; those that are not
/// stale to its groups; and of these the resources that can be read with get, list and watch.
pub(super) fn read_group(group: &Value, discovery: &mut Discovery) {
    let name = text(&group["metadata"]["name"]);
    let mut versions = Vec::new();
    let mut offered = Vec::new();
    let mut known = BTreeSet::new();
    for version in array(&group["versions"]) {
        let version_name = text(&version["version"]);
        let is_stale = version["freshness"] == "Stale";
        offered.push(OfferedVersion {
            name: version_name.clone(),
            is_stale,
            resources: array(&version["resources"])
                .map(|resource| OfferedResource::new(text(&resource["resource"]), resource))
                .collect(),
        });
        // The aggregated API server of a stale version does not respond. See [`Discovery::retain_stale`].
        if is_stale {
            continue;
        }
        // The API server, or an aggregated one, serves this version without CRDs if a kind in it has no group.
        // Discovery states the group of the kind for custom resources only, and an older document for none.
        let is_own = |resource: &Value| text(&resource["responseKind"]["group"]).is_empty();
        if version[OLDER] != true && array(&version["resources"]).any(is_own) {
            discovery.own_versions.insert(GroupVersion::new(&*name, &*version_name));
        }
        for resource in array(&version["resources"]) {
            let verbs = strings(&resource["verbs"]);
            let readable = ["get", "list", "watch"].iter().all(|verb| verbs.iter().any(|offered| offered == verb));
            if readable {
                discovery.resources.push(read_resource(resource, &name, &version_name, &mut known));
            }
        }
        versions.push(version_name);
    }
    discovery.offers.groups.push(DiscoveredGroup { name: name.clone(), versions: offered });
    discovery.groups.push(ApiGroup { name, versions });
}

/// Lists of names, each once.
type Lists = BTreeSet<Arc<[String]>>;

/// Returns the list of names, shared with an equal one in `known`: all versions of a resource usually have the same.
fn shared(names: Vec<String>, known: &mut Lists) -> Arc<[String]> {
    if let Some(known) = known.get(&*names) {
        return known.clone();
    }
    let names: Arc<[String]> = names.into();
    known.insert(names.clone());
    names
}

/// Reads a resource of an aggregated document. Its lists of names are shared through `known`.
fn read_resource(resource: &Value, group: &str, version: &str, known: &mut Lists) -> Discovered {
    let subresources = array(&resource["subresources"])
        .map(|subresource| {
            let kind = &subresource["responseKind"];
            let kind_version = GroupVersion::new(text(&kind["group"]), text(&kind["version"]));
            // The kind of most subresources is in the version of the resource, which is then not stored.
            let own = kind_version.version.is_empty() || kind_version == GroupVersion::new(group, version);
            Subresource {
                name: text(&subresource["subresource"]),
                kind: text(&kind["kind"]),
                group_version: (!own).then_some(kind_version),
            }
        })
        .collect();
    Discovered {
        gvr: Gvr::new(group, version, text(&resource["resource"])),
        kind: text(&resource["responseKind"]["kind"]),
        singular: text(&resource["singularResource"]),
        scope: if resource["scope"] == "Namespaced" { Scope::Namespaced } else { Scope::Cluster },
        short_names: shared(strings(&resource["shortNames"]), known),
        categories: shared(strings(&resource["categories"]), known),
        subresources,
        spells_out_kind: !text(&resource["responseKind"]["group"]).is_empty(),
    }
}

/// The elements of a JSON list; none for other values.
fn array(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// A JSON string; empty for other values.
fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The items of a JSON list as strings; an item of another type is empty.
fn strings(value: &Value) -> Vec<String> {
    array(value).map(text).collect()
}
