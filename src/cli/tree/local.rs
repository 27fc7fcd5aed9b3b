//! Finds the dependents of an object in a folder of manifests.

use std::convert::Infallible;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};

use super::arguments::{ObjectName, TreeArguments};
use super::owner::{missing, owner_of};
use crate::dependents::document::{API_VERSION, KIND, OwnerMetadata};
use crate::dependents::{Dependent, DependentsDocument, SearchScope, SearchedStore, WalkOptions, preferred, walk};
use crate::model::Scope;
use crate::registry::Catalog;
use crate::runtime::resource_name::Names;
use crate::runtime::source::{self, SourceOptions};

/// An object of the folder, and its dependents. `namespace` is the namespace of the object; a cluster-scoped kind
/// ignores it.
///
/// # Errors
/// The folder cannot be read, or has no such kind or object.
pub(super) async fn dependents(
    arguments: &TreeArguments,
    object: ObjectName<'_>,
    namespace: &str,
) -> anyhow::Result<(Dependent, DependentsDocument)> {
    let opened = source::open(&arguments.source.location(), &SourceOptions::default()).await?;
    let (catalog, name) = (opened.registry.catalog(), opened.name.clone());
    tokio::select! {
        result = in_catalog(&catalog, &name, object, namespace) => result,
        () = opened.following => bail!("internal error: reading the folder ended; see the log"),
    }
}

/// Finds an object and its dependents in a catalog. `folder` is the name of the folder, for errors.
///
/// # Errors
/// The catalog has no such kind or object, a store is not loaded, or the object has no uid.
async fn in_catalog(
    catalog: &Catalog,
    folder: &str,
    object: ObjectName<'_>,
    namespace: &str,
) -> anyhow::Result<(Dependent, DependentsDocument)> {
    let ObjectName { kind, name } = object;
    let resource = catalog.resources().find(|resource| Names::from(&***resource).contain(kind));
    let resource = resource.with_context(|| {
        format!("{folder} has no kind {kind:?}: `fieldcache fields --dir {folder}` lists the resources with selectable fields")
    })?;
    let snapshot = resource.state.snapshot(Duration::ZERO).await.with_context(|| folder.to_owned())?;
    let key = match resource.scope {
        Scope::Namespaced => format!("{namespace}/{name}"),
        Scope::Cluster => name.to_owned(),
    };
    let stored = snapshot.get(&key).ok_or_else(|| missing(folder, &resource.gvr, resource.scope, name, namespace))?;
    let owner = owner_of(&stored.json(), &resource.gvr, &resource.kind);
    let owner = owner.ok_or_else(|| anyhow!("{folder}: {key} has no metadata.uid"))?;
    // A user who can read the folder may read all of it.
    let stores: Vec<SearchedStore> =
        preferred(catalog).into_iter().map(|resource| SearchedStore { resource, scope: SearchScope::All }).collect();
    let Ok(found) = walk(&stores, &owner.uid, WalkOptions::default(), |_| Ok::<(), Infallible>(())).await;
    let document = DependentsDocument {
        api_version: API_VERSION.to_owned(),
        kind: KIND.to_owned(),
        // All namespaces were searched, so `namespace` is empty.
        metadata: OwnerMetadata { name: owner.uid.clone(), namespace: String::new() },
        dependents: found.dependents,
        truncated: found.truncated,
        resources: stores.iter().map(|store| (&store.resource.gvr).into()).collect(),
        not_permitted: Vec::new(),
        not_ready: Vec::new(),
    };
    Ok((owner, document))
}
