//! Resources and groups of a catalog, from a cluster's discovery and its CustomResourceDefinitions.
//!
//! A definition is read again when it may have changed. Its resources are created once for each of its states, because
//! a catalog is published for every change. The work for a long definition is done between two turns of the task.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base64::Engine;
use sha2::{Digest, Sha256};

use super::discovery::{Discovered, Discovery};
use crate::builtin;
use crate::crd::{Crd, CrdVersion, DEFINITION_LEVELS, served_groups, version_priority};
use crate::extract::{Extractor, ObjectSchema};
use crate::json::tree::{self, Tree};
use crate::json::{InvalidJson, Json, weight};
use crate::model::{GroupVersion, Gvr};
use crate::registry::{ApiGroup, Dropped, Resource, ResourceOrigin, Subresource};

/// The most memory that the value of a definition takes while it is read, in bytes. The longest definitions of plain
/// fields that etcd accepts by default need two thirds of it.
const MOST_DEFINITION_MEMORY: usize = 96 << 20;

/// Parses a CustomResourceDefinition.
///
/// # Errors
/// Why it cannot be served: it is malformed, nests deeper than [`DEFINITION_LEVELS`], or takes too much memory.
pub(super) fn definition(json: &[u8]) -> Result<Crd, String> {
    if !weight::is_within(json, MOST_DEFINITION_MEMORY) {
        return Err(format!("its values would take more than {MOST_DEFINITION_MEMORY} bytes of memory"));
    }
    let document = tree::value(json, DEFINITION_LEVELS).map_err(|error| match error {
        InvalidJson::TooDeep { levels, .. } => format!("it nests deeper than {levels} levels"),
        error => error.to_string(),
    })?;
    Crd::read(&document).map_err(|error| error.to_string())
}

/// Avoids parsing a definition again if its specification has not changed. If `json` has the uid and the generation of
/// `known`, returns `known`, with the current condition Established. `None`: it must be parsed.
pub(super) fn unchanged_definition(known: &Arc<Crd>, json: &[u8]) -> Option<Arc<Crd>> {
    let tree = Tree::read(json).ok()?;
    let document = Json::root(Some(&tree));
    let metadata = document.at("metadata");
    let is_same = metadata.at("generation").as_i64() == Some(known.generation)
        && metadata.at("uid").as_str().as_deref() == Some(&*known.uid)
        // Without a generation, a change of the specification would not show.
        && known.generation > 0;
    if !is_same {
        return None;
    }
    let is_true = |condition: Json<'_>| {
        condition.at("type").as_str().as_deref() == Some("Established")
            && condition.at("status").as_str().as_deref() == Some("True")
    };
    let established = document.at("status").at("conditions").items().any(is_true);
    if established == known.established {
        return Some(known.clone());
    }
    Some(Arc::new(Crd { established, ..(**known).clone() }))
}

/// The resources of definitions, by name of the definition. They are created once for each state of a definition.
#[derive(Debug, Default)]
pub(super) struct CustomResources(BTreeMap<String, (Arc<Crd>, Vec<Resource>)>);

impl CustomResources {
    /// Creates the resources of a definition. False if they exist for this state of the definition.
    pub(super) fn make(&mut self, crd: &Arc<Crd>) -> bool {
        if self.0.get(&crd.name).is_some_and(|(known, _)| Arc::ptr_eq(known, crd)) {
            return false;
        }
        let made = crd.served_versions().into_iter().map(|version| custom_resource(crd, version)).collect();
        self.0.insert(crd.name.clone(), (crd.clone(), made));
        true
    }

    /// Removes the resources of all definitions but these.
    pub(super) fn retain(&mut self, crds: &[Arc<Crd>]) {
        let names: BTreeSet<&str> = crds.iter().map(|crd| &*crd.name).collect();
        self.0.retain(|name, _| names.contains(&**name));
    }

    /// The resources that [`CustomResources::make`] created for a definition, each with a new, empty state.
    pub(super) fn of_definition(&self, crd: &Crd) -> impl Iterator<Item = Resource> {
        self.0.get(&crd.name).into_iter().flat_map(|(_, made)| made).map(Resource::with_new_state)
    }
}

/// The resources of all versions of a definition, including versions with `served: false`.
pub(super) fn crd_resources(crd: &Crd) -> impl Iterator<Item = Gvr> {
    crd.versions.iter().map(|version| crd.gvr(&version.name))
}

/// The resource for a built-in one that discovery lists. `minor` is the minor version of Kubernetes, on which
/// deprecation warnings depend.
pub(super) fn built_in_resource(found: &Discovered, minor: u64) -> Resource {
    let extractor = builtin::extractor(&found.gvr.group, &found.gvr.version, &found.kind);
    // A newer server has fields that the schemas of this program lack.
    let extractor =
        if minor <= builtin::schemas::MINOR { extractor } else { extractor.with_schema(ObjectSchema::Unknown) };
    Resource {
        gvr: found.gvr.clone(),
        kind: found.kind.clone(),
        list_kind: format!("{}List", found.kind),
        singular: found.singular.clone(),
        scope: found.scope,
        short_names: found.short_names.clone(),
        categories: found.categories.clone(),
        subresources: found.subresources.clone().into(),
        storage_version_hash: String::new(),
        origin: ResourceOrigin::BuiltIn,
        printer_columns: Arc::new([]),
        deprecation_warning: builtin::deprecation_warning(&found.gvr.group, &found.gvr.version, &found.kind, minor),
        definition: String::new(),
        extractor,
        state: Arc::default(),
        partial_store: None,
        view_restriction: None,
        dropped: Dropped::default(),
    }
}

/// The resource of one version of a CRD. Folder mode uses it too.
pub(super) fn custom_resource(crd: &Crd, version: &CrdVersion) -> Resource {
    let mut subresources = Vec::new();
    if version.has_status {
        subresources.push(Subresource { name: "status".to_owned(), kind: crd.names.kind.clone(), group_version: None });
    }
    if version.scale.is_some() {
        subresources.push(Subresource {
            name: "scale".to_owned(),
            kind: "Scale".to_owned(),
            group_version: Some(GroupVersion::new("autoscaling", "v1")),
        });
    }
    Resource {
        gvr: crd.gvr(&version.name),
        kind: crd.names.kind.clone(),
        list_kind: crd.names.list_kind.clone(),
        singular: crd.names.singular.clone(),
        scope: crd.scope,
        short_names: crd.names.short_names.clone(),
        categories: crd.names.categories.clone(),
        subresources: subresources.into(),
        storage_version_hash: storage_version_hash(crd),
        origin: ResourceOrigin::Custom,
        printer_columns: version.printer_columns.clone().into(),
        deprecation_warning: version.deprecation_warning.clone(),
        definition: format!("{}/{}", crd.uid, crd.generation),
        extractor: Extractor::custom_resource(crd, &version.name),
        state: Arc::default(),
        partial_store: None,
        view_restriction: None,
        dropped: Dropped::default(),
    }
}

/// The first eight bytes of the SHA-256 of `GROUP/STORAGE VERSION/KIND`, as base64 (apiserver
/// `endpoints/discovery/storageversionhash.go`).
fn storage_version_hash(crd: &Crd) -> String {
    let storage = crd.versions.iter().find(|version| version.storage).map_or("", |version| &*version.name);
    let digest = Sha256::digest(format!("{}/{storage}/{}", crd.group, crd.names.kind));
    base64::engine::general_purpose::STANDARD.encode(&digest[..8])
}

/// The groups with a version that is served (`resources`), in the cluster's order. Groups of CRDs that discovery lacks
/// follow by name.
pub(super) fn groups(discovery: &Discovery, crds: &[Arc<Crd>], resources: &[Resource]) -> Vec<ApiGroup> {
    let served: BTreeSet<(&str, &str)> =
        resources.iter().map(|resource| (&*resource.gvr.group, &*resource.gvr.version)).collect();
    let mut groups: Vec<ApiGroup> = discovery
        .groups
        .iter()
        .map(|group| ApiGroup {
            name: group.name.clone(),
            versions: group
                .versions
                .iter()
                .filter(|version| served.contains(&(&*group.name, version)))
                .cloned()
                .collect(),
        })
        .collect();
    for (name, versions) in served_groups(crds.iter().map(|crd| &**crd)) {
        let versions: BTreeSet<String> = versions.into_iter().map(str::to_owned).collect();
        match groups.iter_mut().find(|group| group.name == name) {
            Some(group) if versions.iter().all(|version| group.versions.contains(version)) => {}
            // Discovery lags behind the definitions; an aggregated API may serve other versions of the same group.
            Some(group) => {
                let known: BTreeSet<String> = group.versions.drain(..).collect();
                group.versions = by_priority(known.into_iter().chain(versions).collect());
            }
            None => groups.push(ApiGroup { name: name.to_owned(), versions: by_priority(versions) }),
        }
    }
    groups.retain(|group| !group.versions.is_empty());
    groups
}

/// Sorts versions as Kubernetes does, the preferred one first.
fn by_priority(versions: BTreeSet<String>) -> Vec<String> {
    let mut versions: Vec<String> = versions.into_iter().collect();
    versions.sort_by_key(|version| std::cmp::Reverse(version_priority(version)));
    versions
}

/// The resource of CustomResourceDefinitions.
pub(super) fn crd_gvr() -> Gvr {
    Gvr::new("apiextensions.k8s.io", "v1", "customresourcedefinitions")
}
