//! Making namespaces, definitions and objects through kube-apiserver, and waiting until they are served.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http::Method;
use serde_json::{Value, json};

use crate::eventually::eventually;
use crate::http::{Client, Request};
use crate::unique;

/// How long a new definition may take to be served.
const SERVED_DEADLINE: Duration = Duration::from_secs(60);

/// Where CustomResourceDefinitions live.
pub const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Creates an object in the collection at `path` and returns it as stored.
///
/// # Errors
/// When the server refuses it; with its words.
pub async fn create(client: &Client, path: &str, object: &Value) -> Result<Value> {
    send(client, Method::POST, path, object).await
}

/// Replaces the object at `path` and returns it as stored.
///
/// # Errors
/// When the server refuses it; with its words.
pub async fn replace(client: &Client, path: &str, object: &Value) -> Result<Value> {
    send(client, Method::PUT, path, object).await
}

/// Merges `patch` into the object at `path` (RFC 7386) and returns it as stored.
///
/// # Errors
/// When the server refuses it; with its words.
pub async fn merge(client: &Client, path: &str, patch: &Value) -> Result<Value> {
    let mut request = Request::new(Method::PATCH, path).header("content-type", "application/merge-patch+json");
    request.body = patch.to_string().into();
    let answer = client.send(request).await?.success().with_context(|| format!("PATCH {path}"))?;
    answer.json()
}

/// Deletes the object, or the selected part of the collection, at `path` and returns the answer.
///
/// # Errors
/// When the server refuses; with its words.
pub async fn delete(client: &Client, path: &str) -> Result<Value> {
    let answer = client.send(Request::new(Method::DELETE, path)).await?;
    answer.success().with_context(|| format!("DELETE {path}"))?.json()
}

/// Creates a namespace with a name of its own and returns the name.
///
/// # Errors
/// When the server refuses it.
pub async fn create_namespace(client: &Client) -> Result<String> {
    let name = unique::name("e2e");
    let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
    create(client, "/api/v1/namespaces", &namespace).await?;
    Ok(name)
}

/// Creates a CustomResourceDefinition and waits until every served version answers and discovery knows it.
///
/// # Errors
/// When the server refuses it or does not serve it in time.
pub async fn create_definition(client: &Client, definition: &Value) -> Result<()> {
    create(client, DEFINITIONS, definition).await?;
    served(client, definition).await
}

/// Waits until every served version of a definition answers and discovery knows it.
///
/// # Errors
/// When that does not happen in time.
pub async fn served(client: &Client, definition: &Value) -> Result<()> {
    let spec = &definition["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (group, plural) = (text(&spec["group"]), text(&spec["names"]["plural"]));
    for version in spec["versions"].as_array().into_iter().flatten().filter(|version| version["served"] == true) {
        let group_version = format!("/apis/{group}/{}", text(&version["name"]));
        let what = format!("{group_version}/{plural} is served");
        let looking = eventually(&what, SERVED_DEADLINE, async || {
            // Without a limit: pages are read from etcd, also while kube-apiserver's own cache, and with it watches, is
            // not ready yet.
            client.get_json(&format!("{group_version}/{plural}")).await?;
            let discovered = client.get_json(&group_version).await?;
            let rows = discovered["resources"].as_array().map_or(&[][..], Vec::as_slice);
            ensure!(rows.iter().any(|row| row["name"] == plural.as_str()), "discovery does not list it");
            let groups = client.get_json("/apis").await?;
            let groups = groups["groups"].as_array().map_or(&[][..], Vec::as_slice);
            ensure!(groups.iter().any(|found| found["name"] == group.as_str()), "discovery does not list its group");
            Ok(())
        });
        looking.await?;
    }
    Ok(())
}

async fn send(client: &Client, method: Method, path: &str, object: &Value) -> Result<Value> {
    let what = format!("{method} {path}");
    let answer = client.send(Request::new(method, path).json(object)).await?;
    answer.success().with_context(|| what.clone())?.json().context(what)
}
