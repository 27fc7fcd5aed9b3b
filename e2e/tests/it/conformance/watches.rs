//! Watches with field selectors (E8, E9, E11).

use anyhow::{Context, Result, ensure};
use e2e::eventually::eventually;
use e2e::{fixtures, objects, unique};
use serde_json::{Value, json};

use super::backend::{Backend, SOON, ends, follows, is_quiet, lists, names, query, refused};

fn shirt(group: &str, name: &str, spec: Value) -> Value {
    json!({ "apiVersion": format!("{group}/v1"), "kind": "Shirt", "metadata": { "name": name }, "spec": spec })
}

#[tokio::test]
async fn watches_of_a_cluster() -> Result<()> {
    run(&Backend::cluster().await?).await
}

#[tokio::test]
async fn watches_of_a_folder() -> Result<()> {
    run(&Backend::folder().await?).await
}

async fn run(backend: &Backend) -> Result<()> {
    transitions(backend).await.with_context(|| format!("transitions\n{}", backend.fieldcache().process().tail()))?;
    initial_events(backend).await.context("initial events")?;
    a_label_is_removed(backend).await.context("a label is removed")?;
    println!("conformance: E8, E9, E11, folder: {}", backend.is_folder());
    Ok(())
}

fn version(object: &Value) -> Result<u64> {
    let text = object["metadata"]["resourceVersion"].as_str().context("no resourceVersion")?;
    text.parse().context("resourceVersion")
}

/// E8: yes to no carries the old object and the new version; values that stay give MODIFIED; no to no is nothing.
async fn transitions(backend: &Backend) -> Result<()> {
    let group = unique::group("transitions");
    backend.define(&fixtures::shirts(&group, &fixtures::no_conversion())).await?;
    let path = format!("/apis/{group}/v1/shirts");
    let client = backend.client();
    let mut watch = client.watch(&query(&path, "spec.color=blue", "", "&watch=1")).await?;
    let mut all = client.watch(&format!("{path}?watch=1")).await?;
    let steps = [
        json!({ "color": "green" }),
        json!({ "color": "blue", "quantity": 1 }),
        json!({ "color": "blue", "quantity": 2 }),
        json!({ "color": "red" }),
        json!({ "color": "pink" }),
        json!({ "color": "blue" }),
    ];
    let mut unfiltered = Vec::new();
    for (index, spec) in steps.iter().enumerate() {
        backend.put(&path, &shirt(&group, "s", spec.clone())).await?;
        let kind = if index == 0 { "ADDED" } else { "MODIFIED" };
        unfiltered.extend(follows(&mut all, &[(kind, "s")]).await?);
    }
    let seen = follows(&mut watch, &[("ADDED", "s"), ("MODIFIED", "s"), ("DELETED", "s"), ("ADDED", "s")]).await?;
    for (event, step) in seen.iter().zip([1, 2, 3, 5]) {
        let whole = &unfiltered[step]["object"];
        ensure!(version(&event["object"])? == version(whole)?, "{event} is not of the version {whole}");
    }
    let left = &seen[2]["object"];
    ensure!(left["spec"] == json!({ "color": "blue", "quantity": 2 }), "DELETED carries {left}");
    backend.remove(&path, &shirt(&group, "s", json!({}))).await?;
    let gone = follows(&mut watch, &[("DELETED", "s")]).await?;
    let gone_from_all = follows(&mut all, &[("DELETED", "s")]).await?;
    ensure!(version(&gone[0]["object"])? == version(&gone_from_all[0]["object"])?, "{gone:?} {gone_from_all:?}");
    ensure!(version(&gone[0]["object"])? > version(&unfiltered[5]["object"])?, "the last version of {gone:?}");
    ensure!(gone[0]["object"]["spec"] == json!({ "color": "blue" }), "{gone:?}");
    is_quiet(&mut watch).await?;

    // A watch resumed from before sees the same.
    let from = version(&unfiltered[0]["object"])?;
    let resumed = query(&path, "spec.color=blue", "", &format!("&watch=1&resourceVersion={from}"));
    let mut resumed = client.watch(&resumed).await?;
    let again = [("ADDED", "s"), ("MODIFIED", "s"), ("DELETED", "s"), ("ADDED", "s"), ("DELETED", "s")];
    let again = follows(&mut resumed, &again).await.context("resumed")?;
    ensure!(again[2] == seen[2], "{} <> {}", again[2], seen[2]);
    ensure!(again[4] == gone[0], "{} <> {}", again[4], gone[0]);
    Ok(())
}

/// E9: matching objects, then the bookmark that ends them; bookmarks are not filtered.
async fn initial_events(backend: &Backend) -> Result<()> {
    let group = unique::group("initial");
    backend.define(&fixtures::shirts(&group, &fixtures::no_conversion())).await?;
    let path = format!("/apis/{group}/v1/shirts");
    let client = backend.client();
    for (name, color) in [("b", "blue"), ("a", "blue"), ("c", "green")] {
        backend.put(&path, &shirt(&group, name, json!({ "color": color }))).await?;
    }
    lists(&client, &path, &["a", "b", "c"]).await?;
    let more = "&watch=1&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    for (selector, expected) in [("spec.color=blue", vec!["a", "b"]), ("spec.color=red", vec![])] {
        let mut watch = client.watch(&query(&path, selector, "", more)).await?;
        for name in expected {
            let event = watch.event(SOON).await?;
            ensure!(event["type"] == "ADDED" && event["object"]["metadata"]["name"] == name, "{selector}: {event}");
        }
        let bookmark = watch.event(SOON).await?;
        ensure!(bookmark["type"] == "BOOKMARK", "{selector}: {bookmark}");
        let end = &bookmark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"];
        ensure!(end == "true", "{selector}: {bookmark}");
        ensure!(bookmark["object"]["kind"] == "Shirt", "{selector}: {bookmark}");
        let listed = client.get_json(&path).await?;
        ensure!(version(&bookmark["object"])? >= version(&listed["items"][0])?, "{bookmark}");
        backend.put(&path, &shirt(&group, "d", json!({ "color": selector.trim_start_matches("spec.color=") }))).await?;
        follows(&mut watch, &[("ADDED", "d")]).await?;
        backend.remove(&path, &shirt(&group, "d", json!({}))).await?;
        follows(&mut watch, &[("DELETED", "d")]).await?;
    }
    Ok(())
}

/// E11: a label that is no field any more ends the watches and is refused; another kind's watch goes on.
async fn a_label_is_removed(backend: &Backend) -> Result<()> {
    let group = unique::group("removed");
    let definition = fixtures::shirts(&group, &fixtures::no_conversion());
    let neighbour_group = unique::group("neighbour");
    backend.define(&definition).await?;
    backend.define(&fixtures::shirts(&neighbour_group, &fixtures::no_conversion())).await?;
    let path = format!("/apis/{group}/v1/shirts");
    let neighbours = format!("/apis/{neighbour_group}/v1/shirts");
    let client = backend.client();
    backend.put(&path, &shirt(&group, "a", json!({ "quantity": 2 }))).await?;
    let selected = query(&path, "spec.quantity=2", "", "");
    lists(&client, &selected, &["a"]).await?;
    lists(&client, &neighbours, &[]).await?;
    let mut watch = client.watch(&format!("{selected}&watch=1")).await?;
    follows(&mut watch, &[("ADDED", "a")]).await?;
    let mut neighbour = client.watch(&query(&neighbours, "spec.quantity=2", "", "&watch=1")).await?;

    let mut smaller = definition.clone();
    for version in smaller["spec"]["versions"].as_array_mut().context("versions")? {
        // Not the first, in which the two versions differ: equal lists of different schemas are refused.
        version["selectableFields"].as_array_mut().context("fields")?.remove(1);
    }
    backend.put(objects::DEFINITIONS, &smaller).await?;
    ends(&mut watch).await?;
    eventually("the label is refused", SOON, async || {
        refused(&client, &selected, 400, "field label not supported: spec.quantity").await
    })
    .await?;
    refused(&client, &format!("{selected}&watch=1"), 400, "field label not supported: spec.quantity").await?;
    lists(&client, &query(&path, "spec.color=", "", ""), &["a"]).await?;
    let all = client.get_json(&path).await?;
    ensure!(names(&all) == ["a"], "{all}");

    // And back again.
    backend.put(objects::DEFINITIONS, &definition).await?;
    eventually("the label is back", SOON, async || client.get_json(&selected).await).await?;
    lists(&client, &selected, &["a"]).await?;

    backend.put(&neighbours, &shirt(&neighbour_group, "n", json!({ "quantity": 2 }))).await?;
    follows(&mut neighbour, &[("ADDED", "n")]).await.context("the neighbour's watch")?;
    Ok(())
}
