//! Asks a fieldcache server for the dependents of an object. Only the object itself is read besides, so the user needs
//! no permission to list.

use anyhow::{Context, anyhow, bail};

use super::arguments::{ObjectName, TreeArguments};
use super::owner::{missing, owner_of};
use crate::cli::paths::object_path;
use crate::dependents::document::{API_VERSION, RESOURCE};
use crate::dependents::{Dependent, DependentsDocument};
use crate::model::Scope;
use crate::model::percent::percent_encode;
use crate::registry::UpstreamDiscovery;
use crate::runtime::resource_name::Names;
use crate::source::connection::{Connection, RequestError};
use crate::source::discovery::{self, Discovered};

/// The media type of all requests here.
const JSON: &str = "application/json";

/// An object of a server, and its dependents. `namespace` is the namespace of the object; a cluster-scoped kind ignores
/// it.
///
/// # Errors
/// The server cannot be reached, has no such kind or object, or does not serve dependents. The user lacks a permission.
pub(super) async fn dependents(
    arguments: &TreeArguments,
    object: ObjectName<'_>,
    namespace: &str,
) -> anyhow::Result<(Dependent, DependentsDocument)> {
    let connection = Connection::open(&arguments.source.cluster()).await?;
    let url = connection.url();
    let ObjectName { kind, name } = object;
    let served = discovery::read(&connection, &UpstreamDiscovery::default()).await?.resources;
    let resource = served.iter().find(|resource| Names::from(*resource).contain(kind)).with_context(|| {
        format!(
            "{url} serves no resource {kind:?}: kubectl --server {url} api-resources lists the resources that it serves; a fieldcache in the cluster serves resources that have a FieldCache"
        )
    })?;
    let response = connection.bytes(&object_path(resource, namespace, name), JSON).await;
    let bytes = match response {
        Err(error) if error.code() == Some(404) => {
            bail!(missing(url, &resource.gvr, resource.scope, name, namespace))
        }
        response => response?,
    };
    let owner = owner_of(&bytes, &resource.gvr, &resource.kind)
        .ok_or_else(|| anyhow!("{url} returned {kind}/{name} without a metadata.uid, by which dependents are found"))?;
    let path = dependents_path(resource, namespace, &owner.uid);
    let found = match connection.bytes(&path, JSON).await {
        Ok(found) => found,
        Err(error) => return Err(explain(&connection, error).await),
    };
    let found = serde_json::from_slice(&found).map_err(|error| connection.broken(&path, &error))?;
    Ok((owner, found))
}

/// The path of the dependents of the owner with the uid `uid`, which is an object of `resource`. The dependents of a
/// namespaced object are in the namespace of that object, so the path has the namespace. A cluster-scoped owner ignores
/// `namespace`.
pub(super) fn dependents_path(resource: &Discovered, namespace: &str, uid: &str) -> String {
    let uid = percent_encode(uid);
    match resource.scope {
        Scope::Namespaced => {
            format!("/apis/{API_VERSION}/namespaces/{}/{RESOURCE}/{uid}", percent_encode(namespace))
        }
        Scope::Cluster => format!("/apis/{API_VERSION}/{RESOURCE}/{uid}"),
    }
}

/// The error for a server that did not return dependents, with the remedy. An API server checks the permission before
/// it looks the resource up, so status 403 does not show whether it serves dependents. One further request finds out
/// whether it has the API group. Other errors are returned as they are.
async fn explain(connection: &Connection, error: RequestError) -> anyhow::Error {
    let url = connection.url();
    let RequestError::Status { code, message, .. } = &error else { return error.into() };
    let is_unknown = matches!(code, 404 | 405);
    // The text is from the message of Kubernetes for a missing permission. Another 403 has another cause.
    let is_refused = *code == 403 && message.contains("cannot get resource \"dependents\"");
    if !is_unknown && !is_refused {
        return error.into();
    }
    let group = connection.bytes(&format!("/apis/{API_VERSION}"), JSON).await;
    let has_group = !matches!(&group, Err(error) if error.code() == Some(404));
    anyhow!(explanation(url, is_refused.then_some(&**message), has_group))
}

/// The text of the error of [`explain`]. `refused` is the message of a server that denies the permission; `None` if the
/// server does not know the resource. `has_group`: whether the server has the API group view.fieldcache.dev.
pub(super) fn explanation(url: &str, refused: Option<&str>, has_group: bool) -> String {
    let is_view = url.contains("/views/") && url.ends_with("/proxy");
    match refused {
        _ if is_view => format!(
            "{url} is the URL of a View, which shows no dependents, because a View can hide objects between an owner and its dependents: give the URL of the fieldcache server itself with --server"
        ),
        Some(message) if has_group => format!(
            "{url} does not permit you to get dependents: {message}; an administrator can bind the ClusterRole fieldcache-dependents to you, in the namespace of the object or everywhere"
        ),
        None if has_group => {
            format!("{url} is a fieldcache server that does not serve dependents: upgrade it")
        }
        _ => format!(
            "{url} is not a fieldcache server, or is too old to find dependents: give the URL of a fieldcache server with --server, such as that of `fieldcache serve`"
        ),
    }
}
