//! Sends a corpus to kube-apiserver, as fast as two cores on both ends allow.
//!
//! Objects go in the order of their numbers, but many at once, so their resourceVersions are not in that order. What is there
//! already is an error: a corpus is loaded into an empty control plane.

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt, stream};
use http::Method;
use serde_json::{Value, json};

use super::pods::Pods;
use super::shirts::Shirts;
use crate::http::{Client, Request};
use crate::objects;

/// Requests under way. More of them only wait in kube-apiserver's own queue.
const AT_ONCE: usize = 48;

/// Creates the definition, the namespaces and all objects; `progress` is told how many objects are done after each.
///
/// # Errors
/// When the server refuses one.
pub async fn shirts(client: &Client, corpus: &Shirts, progress: impl FnMut(u64)) -> Result<()> {
    objects::create_definition(client, &corpus.definition()).await?;
    namespaces(client, &corpus.namespaces()).await?;
    some_shirts(client, corpus, 0..corpus.count, progress).await
}

/// Creates the objects of these numbers in a control plane that has the definition and the namespaces.
///
/// # Errors
/// When the server refuses one.
pub async fn some_shirts(
    client: &Client,
    corpus: &Shirts,
    indexes: std::ops::Range<u64>,
    progress: impl FnMut(u64),
) -> Result<()> {
    let send = async |index: u64| {
        let object = corpus.object(index);
        let collection = corpus.collection(object["metadata"]["namespace"].as_str().unwrap_or_default());
        write(client, Method::POST, &format!("{collection}?fieldManager=corpus"), &object).await
    };
    many(indexes, send, progress).await
}

/// Creates the namespaces and all Pods with their status.
///
/// # Errors
/// When the server refuses one.
pub async fn pods(client: &Client, corpus: &Pods, progress: impl FnMut(u64)) -> Result<()> {
    namespaces(client, &corpus.namespaces()).await?;
    let send = async |index: u64| {
        let object = corpus.object(index);
        let metadata = &object["metadata"];
        let collection = corpus.collection(metadata["namespace"].as_str().unwrap_or_default());
        let name = metadata["name"].as_str().unwrap_or_default();
        // A created Pod loses its status; the second request brings it.
        write(client, Method::POST, &format!("{collection}?fieldManager=kube-controller-manager"), &object).await?;
        write(client, Method::PUT, &format!("{collection}/{name}/status?fieldManager=kubelet"), &object).await
    };
    many(0..corpus.count, send, progress).await
}

async fn namespaces(client: &Client, names: &[String]) -> Result<()> {
    for name in names {
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
        objects::create(client, "/api/v1/namespaces", &namespace).await?;
    }
    Ok(())
}

async fn many(
    indexes: std::ops::Range<u64>,
    send: impl AsyncFn(u64) -> Result<()>,
    mut progress: impl FnMut(u64),
) -> Result<()> {
    let send = &send;
    let mut sent = stream::iter(indexes).map(move |index| send(index)).buffer_unordered(AT_ONCE);
    let mut done = 0;
    while sent.try_next().await?.is_some() {
        done += 1;
        progress(done);
    }
    Ok(())
}

/// Unlike [`objects::create`] it does not read the object in the answer: the loader's time is for sending.
async fn write(client: &Client, method: Method, path: &str, object: &Value) -> Result<()> {
    let what = format!("{method} {path}");
    client.send(Request::new(method, path).json(object)).await?.success().context(what)?;
    Ok(())
}
