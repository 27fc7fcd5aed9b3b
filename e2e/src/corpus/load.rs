//! Brings a corpus into a control plane.
//!
//! Through kube-apiserver ([`shirts`], [`pods`]) every object is admitted, defaulted and recorded like any other. That
//! costs it three to four milliseconds of CPU each. Directly into etcd ([`shirts_into_etcd`], [`pods_into_etcd`]), the
//! same objects arrive in a small part of the time. kube-apiserver receives them from its own watch. Custom resources
//! are stored as JSON. Built-in types are stored as protobuf, but kube-apiserver reads JSON too.
//!
//! Objects go in the order of their numbers, but many at once, so their resourceVersions are not in that order. A namespace
//! that is there already is shared with its creator; an object that is there already is an error.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use futures::{StreamExt, TryStreamExt, stream};
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::pods::Pods;
use super::secrets::Secrets;
use super::shirts::Shirts;
use crate::control_plane::ControlPlane;
use crate::eventually::eventually;
use crate::http::{Client, Request};
use crate::objects;

/// Requests under way. More of them only wait in kube-apiserver's own queue.
const AT_ONCE: usize = 48;

/// Writes in one transaction. etcd's default limits are 128 of them and 1.5 MB.
const WRITES_IN_ETCD: u64 = 100;

/// The same for objects of up to 45 KB.
const LONG_WRITES_IN_ETCD: u64 = 20;

/// Transactions under way: the next ones are made while etcd writes.
const AT_ONCE_IN_ETCD: usize = 4;

/// How long kube-apiserver may take to read what was written past it.
const SERVED_DEADLINE: Duration = Duration::from_secs(300);

/// Creates the definition, the namespaces and all objects; `progress` receives how many objects are done after each.
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

/// Creates the definition and the namespaces through kube-apiserver and writes the stored form of all objects to etcd; returns when
/// kube-apiserver serves them.
///
/// # Errors
/// When either refuses or kube-apiserver does not serve all objects in time.
pub async fn shirts_into_etcd(control_plane: &ControlPlane, corpus: &Shirts, progress: impl FnMut(u64)) -> Result<()> {
    let client = control_plane.client();
    objects::create_definition(&client, &corpus.definition()).await?;
    namespaces(&client, &corpus.namespaces()).await?;
    let keys = format!("/registry/{}/shirts", corpus.group);
    into_etcd(control_plane, (corpus.count, WRITES_IN_ETCD), |index| put(&keys, corpus.stored(index)), progress)
        .await?;
    are_served(&client, &corpus.everywhere(), corpus.count).await
}

/// The same with Pods; the control plane has no others.
///
/// # Errors
/// As [`shirts_into_etcd`].
pub async fn pods_into_etcd(control_plane: &ControlPlane, corpus: &Pods, progress: impl FnMut(u64)) -> Result<()> {
    let client = control_plane.client();
    namespaces(&client, &corpus.namespaces()).await?;
    let stored = |index| put("/registry/pods", corpus.stored(index));
    into_etcd(control_plane, (corpus.count, WRITES_IN_ETCD), stored, progress).await?;
    are_served(&client, "/api/v1/pods", corpus.count).await
}

/// The same with Secrets; the control plane has no others.
///
/// # Errors
/// As [`shirts_into_etcd`].
pub async fn secrets_into_etcd(control_plane: &ControlPlane, corpus: &Secrets) -> Result<()> {
    let client = control_plane.client();
    namespaces(&client, &corpus.namespaces()).await?;
    let stored = |index| put("/registry/secrets", corpus.stored(index));
    into_etcd(control_plane, (corpus.count, LONG_WRITES_IN_ETCD), stored, |_| {}).await?;
    are_served(&client, "/api/v1/secrets", corpus.count).await
}

/// Writes `count` objects, so many in one transaction.
async fn into_etcd(
    control_plane: &ControlPlane,
    (count, together): (u64, u64),
    put: impl Fn(u64) -> Value,
    mut progress: impl FnMut(u64),
) -> Result<()> {
    let (etcd, put) = (control_plane.etcd_endpoint()?.client(), &put);
    let write = async |first: u64| {
        let end = count.min(first + together);
        let puts: Vec<Value> = (first..end).map(put).collect();
        // The request is the JSON form of etcd's TxnRequest; without conditions it simply happens.
        etcd.send(Request::new(Method::POST, "/v3/kv/txn").json(&json!({ "success": puts }))).await?.success()?;
        Ok::<u64, anyhow::Error>(end - first)
    };
    let firsts = (0..count).step_by(usize::try_from(together)?);
    let mut written = stream::iter(firsts).map(write).buffer_unordered(AT_ONCE_IN_ETCD);
    let mut done = 0;
    while let Some(more) = written.try_next().await? {
        done += more;
        progress(done);
    }
    Ok(())
}

/// Waits until kube-apiserver serves so many objects of the collection.
async fn are_served(client: &Client, collection: &str, count: u64) -> Result<()> {
    // From its cache, from which a client that begins to watch lists. The objects of one transaction have one version,
    // and it takes them in one by one. So a list in between has that version and only some of them. Rows without
    // objects are the shortest answer that names all.
    let request = || {
        Request::get(format!("{collection}?resourceVersion=0&includeObject=None"))
            .header("accept", "application/json;as=Table;g=meta.k8s.io;v=v1")
    };
    eventually("kube-apiserver serves the corpus", SERVED_DEADLINE, async || {
        let table = client.send(request()).await?.success()?.json()?;
        let served = table["rows"].as_array().map_or(0, Vec::len) as u64;
        ensure!(served == count, "it serves {served} of {count}");
        Ok(())
    })
    .await
}

/// The request that stores an object below this key.
fn put(keys: &str, mut object: Value) -> Value {
    let metadata = &mut object["metadata"];
    // A stored object has none: its version is the revision at which etcd holds it.
    if let Some(members) = metadata.as_object_mut() {
        members.remove("resourceVersion");
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let key = format!("{keys}/{}/{}", text(&metadata["namespace"]), text(&metadata["name"]));
    let value = format!("{object}\n");
    json!({ "requestPut": { "key": BASE64_STANDARD.encode(key), "value": BASE64_STANDARD.encode(value) } })
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
        let answer = client.send(Request::new(Method::POST, "/api/v1/namespaces").json(&namespace)).await?;
        if answer.status != StatusCode::CONFLICT {
            answer.success().with_context(|| format!("creating namespace {name}"))?;
        }
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
