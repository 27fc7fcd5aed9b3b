//! What discovery shows: groups, versions and rows of resources, in the form of aggregated discovery.
//!
//! Without pass-through, these are the served resources with the verbs that this server handles. With it, they are what
//! the cluster serves. For built-in resources these are its own rows, for custom ones those of the definition, which is
//! always current. Verbs and subresources that are not forwarded are left out. `discovery` writes the documents.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::builtin_group::{self, BuiltinGroupVisibility};
use super::builtin_group_documents;
use super::pass_through::PassThrough;
use super::placement_review::kind as placement_reviews;
use super::self_review::kind as self_reviews;
use crate::model::{GroupVersion, Gvr, Scope};
use crate::registry::{Catalog, OfferedResource, OfferedVersion, Resource, ResourceOrigin, Subresource};

/// The verbs that are served from a store.
pub(super) const OWN_VERBS: [&str; 3] = ["get", "list", "watch"];
pub(super) const OWN_SUBRESOURCE_VERBS: [&str; 1] = ["get"];

/// What kube-apiserver does with custom resources (apiextensions `apiserver/customresource_discovery_controller.go`).
const CUSTOM_VERBS: [&str; 8] = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
const CUSTOM_SUBRESOURCE_VERBS: [&str; 3] = ["get", "patch", "update"];

/// A group to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DiscoveryGroup {
    /// Empty for the core group.
    pub(super) name: String,
    /// Preferred one first.
    pub(super) versions: Vec<DiscoveryVersion>,
}

/// A version of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DiscoveryVersion {
    pub(super) name: String,
    /// Whether the server of it does not answer.
    pub(super) is_stale: bool,
}

/// The groups and resources to show.
pub(super) struct Offered<'c> {
    pub(super) catalog: &'c Catalog,
    pub(super) passes: PassThrough,
    pub(super) own: BuiltinGroupVisibility,
}

impl Offered<'_> {
    /// The groups to show.
    pub(super) fn groups(&self) -> Vec<DiscoveryGroup> {
        let mut groups = match self.own {
            BuiltinGroupVisibility::Alone => Vec::new(),
            BuiltinGroupVisibility::Hidden | BuiltinGroupVisibility::WithoutViews | BuiltinGroupVisibility::Beside => {
                groups(self.catalog, self.passes)
            }
        };
        if self.own == BuiltinGroupVisibility::Hidden {
            // In a View, this server handles reviews of the caller itself, whatever the cluster has of these groups.
            groups.retain(|group| !self_reviews::GROUPS.contains(&&*group.name));
            let version = |name: &str| DiscoveryVersion { name: name.to_owned(), is_stale: false };
            groups.extend(self_reviews::GROUPS.map(|group| DiscoveryGroup {
                name: group.to_owned(),
                versions: self_reviews::versions(self.catalog, group).into_iter().map(version).collect(),
            }));
        } else {
            // A cluster through which it is aggregated lists it too: here this server handles it.
            groups.retain(|group| group.name != builtin_group::GROUP);
            let versions = vec![DiscoveryVersion { name: builtin_group::VERSION.to_owned(), is_stale: false }];
            groups.push(DiscoveryGroup { name: builtin_group::GROUP.to_owned(), versions });
        }
        groups
    }

    /// The hash of a resource's storage version; empty if unknown. That of a definition is never outdated.
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
                // What a fieldcache in the cluster offers is reached through its API server.
                let mut rows = rows(self.catalog, self.passes, group, version);
                rows.retain(|row| row["resource"] != placement_reviews::RESOURCE);
                rows.push(placement_reviews::row());
                rows
            }
            BuiltinGroupVisibility::Hidden | BuiltinGroupVisibility::WithoutViews | BuiltinGroupVisibility::Beside => {
                rows(self.catalog, self.passes, group, version)
            }
        }
    }
}

/// The groups of the catalog.
fn groups(catalog: &Catalog, passes: PassThrough) -> Vec<DiscoveryGroup> {
    let fresh = |name: &String| DiscoveryVersion { name: name.clone(), is_stale: false };
    let own = catalog
        .groups
        .iter()
        .map(|group| DiscoveryGroup { name: group.name.clone(), versions: group.versions.iter().map(fresh).collect() });
    if passes == PassThrough::Off {
        return own.collect();
    }
    let mut groups: Vec<DiscoveryGroup> = Vec::new();
    for offered in &catalog.offers.groups {
        let is_shown = |version: &&OfferedVersion| {
            let is_served = || catalog.resources_of(&offered.name, &version.name).next().is_some();
            version.is_stale
                || is_served()
                || version.resources.iter().any(|found| reachable(&offered.name, found, passes).is_some())
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
    // Discovery may be behind the definitions.
    for own in own {
        match groups.iter_mut().find(|group| group.name == own.name) {
            None => groups.push(own),
            Some(group) => {
                let known: BTreeSet<&str> = own.versions.iter().map(|version| &*version.name).collect();
                if known.iter().any(|name| group.versions.iter().all(|version| version.name != **name)) {
                    // The registry's order has all versions that are served; what is not comes after.
                    let others: Vec<DiscoveryVersion> =
                        group.versions.drain(..).filter(|version| !known.contains(&*version.name)).collect();
                    group.versions = own.versions.iter().cloned().chain(others).collect();
                }
            }
        }
    }
    groups
}

/// The rows of a group and version of the catalog.
fn rows(catalog: &Catalog, passes: PassThrough, group: &str, version: &str) -> Vec<Value> {
    let mut missing: Vec<&Arc<Resource>> = catalog.resources_of(group, version).collect();
    let mut rows = Vec::new();
    // What the cluster offers gives the order, also where nothing of it is forwarded.
    if let Some(offered) = catalog.offers.version(group, version) {
        for found in &offered.resources {
            let served = missing.iter().position(|resource| resource.gvr.resource == found.name);
            match served.map(|index| missing.remove(index)) {
                Some(resource) if resource.origin == ResourceOrigin::Custom || passes == PassThrough::Off => {
                    rows.push(own(resource, passes));
                }
                None if passes == PassThrough::Off => {}
                _ => rows.extend(reachable(group, found, passes)),
            }
        }
    }
    rows.extend(missing.into_iter().map(|resource| own(resource, passes)));
    rows
}

/// The row of a resource that is served here.
fn own(resource: &Arc<Resource>, passes: PassThrough) -> Value {
    let response_kind = |kind: &str, other: Option<&GroupVersion>| {
        // Built-in kinds leave the group and version of their own group version out.
        let group_version = match (other, resource.origin) {
            (Some(other), _) => other.clone(),
            (None, ResourceOrigin::Custom) => resource.gvr.group_version(),
            (None, ResourceOrigin::BuiltIn) => GroupVersion::new("", ""),
        };
        json!({"group": group_version.group, "version": group_version.version, "kind": kind})
    };
    let all = passes == PassThrough::All && resource.origin == ResourceOrigin::Custom;
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
    let is_shown = |subresource: &&Subresource| match passes {
        PassThrough::Off => subresource.name == "status",
        PassThrough::Read | PassThrough::All => passes.offers_subresource(&subresource.name),
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

/// The cluster's row, reduced to what can be reached; `None` when nothing can.
fn reachable(group: &str, found: &OfferedResource, passes: PassThrough) -> Option<Value> {
    let keep_verbs =
        |row: &mut Map<String, Value>| keep_verbs(row, |verb| passes.offers_verb(group, &found.name, verb));
    let mut row = found.row();
    let members = row.as_object_mut()?;
    let can_be_used = keep_verbs(members);
    let has_subresources = match members.get_mut("subresources") {
        Some(Value::Array(subresources)) => {
            subresources.retain_mut(|subresource| {
                let name = subresource["subresource"].as_str().unwrap_or_default();
                passes.offers_subresource(name) && subresource.as_object_mut().is_some_and(&keep_verbs)
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

/// Removes the verbs that are not offered. Returns whether one is left.
fn keep_verbs(row: &mut Map<String, Value>, is_offered: impl Fn(&str) -> bool) -> bool {
    match row.get_mut("verbs") {
        Some(Value::Array(verbs)) => {
            verbs.retain(|verb| verb.as_str().is_some_and(&is_offered));
            !verbs.is_empty()
        }
        _ => false,
    }
}
