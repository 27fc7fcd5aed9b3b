//! What discovery shows: groups, versions and rows of resources, in the form of aggregated discovery.
//!
//! Without pass-through, these are the served resources with the verbs that this server handles. With pass-through,
//! they are the resources of the cluster. The rows of built-in resources are those of the cluster's discovery. The rows
//! of custom resources are made from their CRD, which is always current. Verbs and subresources that are not forwarded
//! are left out. `discovery` writes the documents.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::builtin_group::{self, BuiltinGroupVisibility};
use super::builtin_group_documents;
use super::dependents::kind as dependents;
use super::pass_through::PassThrough;
use super::placement_review::kind as placement_reviews;
use super::self_review::kind as self_reviews;
use crate::model::{GroupVersion, Gvr, Scope};
use crate::registry::{Catalog, OfferedResource, OfferedVersion, Resource, ResourceOrigin, Subresource};

/// The verbs that are served from a store, for resources and for subresources.
pub(super) const OWN_VERBS: [&str; 3] = ["get", "list", "watch"];
pub(super) const OWN_SUBRESOURCE_VERBS: [&str; 1] = ["get"];

/// The verbs of custom resources and their subresources (apiextensions
/// `apiserver/customresource_discovery_controller.go`).
const CUSTOM_VERBS: [&str; 8] = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
const CUSTOM_SUBRESOURCE_VERBS: [&str; 3] = ["get", "patch", "update"];

/// An API group in discovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DiscoveryGroup {
    /// Empty for the core group.
    pub(super) name: String,
    /// The versions, the preferred one first.
    pub(super) versions: Vec<DiscoveryVersion>,
}

/// A version of an API group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DiscoveryVersion {
    pub(super) name: String,
    /// Whether the aggregated API server of the version does not respond.
    pub(super) is_stale: bool,
}

/// The groups and resources that discovery shows to a request.
pub(super) struct Offered<'c> {
    pub(super) catalog: &'c Catalog,
    pub(super) pass_through: PassThrough,
    /// How discovery shows fieldcache's own API group.
    pub(super) own: BuiltinGroupVisibility,
}

impl Offered<'_> {
    /// The groups that discovery shows, with fieldcache's own group and, in a View, those of reviews.
    pub(super) fn groups(&self) -> Vec<DiscoveryGroup> {
        let mut groups = match self.own {
            BuiltinGroupVisibility::Alone => Vec::new(),
            BuiltinGroupVisibility::Hidden | BuiltinGroupVisibility::WithoutViews | BuiltinGroupVisibility::Beside => {
                discoverable_groups(self.catalog, self.pass_through)
            }
        };
        if self.own == BuiltinGroupVisibility::Hidden {
            // In a View, this server handles reviews about the caller itself, instead of the cluster's resources of
            // these groups.
            groups.retain(|group| !self_reviews::GROUPS.contains(&&*group.name));
            let version = |name: &str| DiscoveryVersion { name: name.to_owned(), is_stale: false };
            groups.extend(self_reviews::GROUPS.map(|group| DiscoveryGroup {
                name: group.to_owned(),
                versions: self_reviews::versions(self.catalog, group).into_iter().map(version).collect(),
            }));
        } else {
            // A cluster into which a fieldcache is aggregated lists this group too, but this server handles it itself.
            groups.retain(|group| group.name != builtin_group::GROUP);
            let versions = vec![DiscoveryVersion { name: builtin_group::VERSION.to_owned(), is_stale: false }];
            groups.push(DiscoveryGroup { name: builtin_group::GROUP.to_owned(), versions });
        }
        groups
    }

    /// The hash of the storage version of a resource (`name`: its plural name); empty if unknown. For a custom resource
    /// it is that of the CRD, which is always current.
    pub(super) fn storage_version_hash(&self, group_version: &GroupVersion, name: &str) -> &str {
        let GroupVersion { group, version } = group_version;
        let gvr = Gvr::new(&**group, &**version, name);
        match self.catalog.resource(&gvr) {
            Some(resource) if resource.origin == ResourceOrigin::Custom => &resource.storage_version_hash,
            _ => self.catalog.offers.resource(group, version, name).map_or("", |offered| &offered.storage_version_hash),
        }
    }

    /// The rows of a group and version, as APIResourceDiscovery of apidiscovery.k8s.io/v2.
    pub(super) fn rows(&self, group: &str, version: &str) -> Vec<Value> {
        let is_own = (group, version) == (builtin_group::GROUP, builtin_group::VERSION);
        match self.own {
            BuiltinGroupVisibility::Beside | BuiltinGroupVisibility::Alone if is_own => builtin_group_documents::rows(),
            BuiltinGroupVisibility::Alone => Vec::new(),
            BuiltinGroupVisibility::Hidden if self_reviews::GROUPS.contains(&group) => self_reviews::rows(group),
            BuiltinGroupVisibility::WithoutViews if is_own => {
                // Other resources of the group are those of a fieldcache in the cluster, and are forwarded.
                let mut rows = catalog_rows(self.catalog, self.pass_through, group, version);
                let own = [placement_reviews::row(), dependents::row()];
                rows.retain(|row| own.iter().all(|own| own["resource"] != row["resource"]));
                rows.extend(own);
                rows
            }
            BuiltinGroupVisibility::Hidden | BuiltinGroupVisibility::WithoutViews | BuiltinGroupVisibility::Beside => {
                catalog_rows(self.catalog, self.pass_through, group, version)
            }
        }
    }
}

/// The groups of the catalog, without fieldcache's own: the served groups and, with pass-through, those of the cluster
/// that have a reachable resource or are stale. Of a group that both have, the served versions come first if discovery
/// lacks one.
fn discoverable_groups(catalog: &Catalog, pass_through: PassThrough) -> Vec<DiscoveryGroup> {
    let fresh = |name: &String| DiscoveryVersion { name: name.clone(), is_stale: false };
    let own = catalog
        .groups
        .iter()
        .map(|group| DiscoveryGroup { name: group.name.clone(), versions: group.versions.iter().map(fresh).collect() });
    if pass_through == PassThrough::Off {
        return own.collect();
    }
    let mut groups: Vec<DiscoveryGroup> = Vec::new();
    for offered in &catalog.offers.groups {
        let is_shown = |version: &&OfferedVersion| {
            let is_served = || catalog.resources_of(&offered.name, &version.name).next().is_some();
            version.is_stale
                || is_served()
                || version.resources.iter().any(|found| reachable(&offered.name, found, pass_through).is_some())
        };
        let versions: Vec<DiscoveryVersion> = offered
            .versions
            .iter()
            .filter(is_shown)
            .map(|version| DiscoveryVersion { name: version.name.clone(), is_stale: version.is_stale })
            .collect();
        if !versions.is_empty() {
            groups.push(DiscoveryGroup { name: offered.name.clone(), versions });
        }
    }
    // The cluster's discovery can be older than the CRDs.
    for own in own {
        match groups.iter_mut().find(|group| group.name == own.name) {
            None => groups.push(own),
            Some(group) => {
                let known: BTreeSet<&str> = own.versions.iter().map(|version| &*version.name).collect();
                if known.iter().any(|name| group.versions.iter().all(|version| version.name != **name)) {
                    // The registry orders the served versions; those that are not served follow.
                    let others: Vec<DiscoveryVersion> =
                        group.versions.drain(..).filter(|version| !known.contains(&*version.name)).collect();
                    group.versions = own.versions.iter().cloned().chain(others).collect();
                }
            }
        }
    }
    groups
}

/// The rows of a group and version of the catalog, in the order of the cluster's discovery. Served resources that it
/// lacks follow.
fn catalog_rows(catalog: &Catalog, pass_through: PassThrough, group: &str, version: &str) -> Vec<Value> {
    let mut missing: Vec<&Arc<Resource>> = catalog.resources_of(group, version).collect();
    let mut rows = Vec::new();
    // The cluster's discovery gives the order, even without pass-through.
    if let Some(offered) = catalog.offers.version(group, version) {
        for found in &offered.resources {
            let served = missing.iter().position(|resource| resource.gvr.resource == found.name);
            match served.map(|index| missing.remove(index)) {
                Some(resource) if resource.origin == ResourceOrigin::Custom || pass_through == PassThrough::Off => {
                    rows.push(served_row(resource, pass_through));
                }
                None if pass_through == PassThrough::Off => {}
                // With pass-through, the cluster's row: for a served built-in resource, and for one that is forwarded.
                _ => rows.extend(reachable(group, found, pass_through)),
            }
        }
    }
    rows.extend(missing.into_iter().map(|resource| served_row(resource, pass_through)));
    rows
}

/// The row of a resource that this server serves.
fn served_row(resource: &Arc<Resource>, pass_through: PassThrough) -> Value {
    let response_kind = |kind: &str, other: Option<&GroupVersion>| {
        // Built-in kinds leave group and version empty if they are those of the resource.
        let group_version = match (other, resource.origin) {
            (Some(other), _) => other.clone(),
            (None, ResourceOrigin::Custom) => resource.gvr.group_version(),
            (None, ResourceOrigin::BuiltIn) => GroupVersion::new("", ""),
        };
        json!({"group": group_version.group, "version": group_version.version, "kind": kind})
    };
    let all = pass_through == PassThrough::All && resource.origin == ResourceOrigin::Custom;
    let mut row = Map::new();
    let mut set = |name: &str, value: Value| row.insert(name.to_owned(), value);
    set("resource", json!(resource.gvr.resource));
    set("responseKind", response_kind(&resource.kind, None));
    set(
        "scope",
        json!(match resource.scope {
            Scope::Namespaced => "Namespaced",
            Scope::Cluster => "Cluster",
        }),
    );
    set("singularResource", json!(resource.singular));
    set("verbs", if all { json!(CUSTOM_VERBS) } else { json!(OWN_VERBS) });
    for (name, values) in [("shortNames", &resource.short_names), ("categories", &resource.categories)] {
        if !values.is_empty() {
            set(name, json!(values));
        }
    }
    let is_shown = |subresource: &&Subresource| match pass_through {
        PassThrough::Off => subresource.name == "status",
        PassThrough::Read | PassThrough::All => pass_through.offers_subresource(&subresource.name),
    };
    let subresources: Vec<Value> = resource
        .subresources
        .iter()
        .filter(is_shown)
        .map(|subresource| {
            json!({
                "subresource": subresource.name,
                "responseKind": response_kind(&subresource.kind, subresource.group_version.as_ref()),
                "verbs": if all { json!(CUSTOM_SUBRESOURCE_VERBS) } else { json!(OWN_SUBRESOURCE_VERBS) },
            })
        })
        .collect();
    if !subresources.is_empty() {
        set("subresources", Value::Array(subresources));
    }
    Value::Object(row)
}

/// The cluster's row of a resource, with only the verbs and subresources that are forwarded; `None` if none are.
fn reachable(group: &str, found: &OfferedResource, pass_through: PassThrough) -> Option<Value> {
    let keep_verbs =
        |row: &mut Map<String, Value>| keep_verbs(row, |verb| pass_through.offers_verb(group, &found.name, verb));
    let mut row = found.row();
    let members = row.as_object_mut()?;
    let can_be_used = keep_verbs(members);
    let has_subresources = match members.get_mut("subresources") {
        Some(Value::Array(subresources)) => {
            subresources.retain_mut(|subresource| {
                let name = subresource["subresource"].as_str().unwrap_or_default();
                pass_through.offers_subresource(name) && subresource.as_object_mut().is_some_and(&keep_verbs)
            });
            !subresources.is_empty()
        }
        _ => false,
    };
    if !has_subresources {
        members.remove("subresources");
    }
    (can_be_used || has_subresources).then_some(row)
}

/// Removes the verbs of a row that are not offered. Returns whether a verb is left.
fn keep_verbs(row: &mut Map<String, Value>, is_offered: impl Fn(&str) -> bool) -> bool {
    match row.get_mut("verbs") {
        Some(Value::Array(verbs)) => {
            verbs.retain(|verb| verb.as_str().is_some_and(&is_offered));
            !verbs.is_empty()
        }
        _ => false,
    }
}
