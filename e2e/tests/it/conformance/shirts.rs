//! Fixture S (S1 to S8): upstream's integration test `fieldselector_test.go`, through fieldcache.

use anyhow::{Context, Result};
use e2e::conversion_webhook::ConversionWebhook;
use e2e::http::Lines;
use e2e::{fixtures, objects, unique};
use serde_json::{Value, json};

use super::backend::{Backend, escaped, follows, is_quiet, lists, query, refused};

/// One selector on v1; v1beta1 says hue for color.
struct Row {
    selector: &'static str,
    listed: &'static [&'static str],
    events: &'static [(&'static str, &'static str)],
}

const ROWS: [Row; 6] = [
    Row {
        selector: "spec.color=blue",
        listed: &["shirt1", "shirt2"],
        events: &[("ADDED", "shirt1"), ("ADDED", "shirt2"), ("DELETED", "shirt1"), ("DELETED", "shirt2")],
    },
    Row {
        selector: "spec.quantity=2",
        listed: &["shirt1", "shirt3"],
        events: &[("ADDED", "shirt1"), ("ADDED", "shirt3"), ("DELETED", "shirt1")],
    },
    Row { selector: "spec.size=M", listed: &["shirt2"], events: &[("ADDED", "shirt2"), ("MODIFIED", "shirt2")] },
    Row {
        selector: "spec.branded=false",
        listed: &["shirt2", "shirt3"],
        events: &[("ADDED", "shirt2"), ("ADDED", "shirt3"), ("MODIFIED", "shirt2")],
    },
    Row {
        selector: "spec.color=blue,spec.quantity=2",
        listed: &["shirt1"],
        events: &[("ADDED", "shirt1"), ("DELETED", "shirt1")],
    },
    Row {
        selector: "spec.color=blue,spec.branded=false",
        listed: &["shirt2"],
        events: &[("ADDED", "shirt2"), ("DELETED", "shirt2")],
    },
];

#[tokio::test]
async fn shirts_of_a_cluster_in_both_versions() -> Result<()> {
    let conversion = ConversionWebhook::shared().await?.conversion();
    run(&Backend::cluster().await?, &conversion, &["v1", "v1beta1"]).await
}

#[tokio::test]
async fn shirts_of_a_folder() -> Result<()> {
    run(&Backend::folder().await?, &fixtures::no_conversion(), &["v1"]).await
}

async fn run(backend: &Backend, conversion: &Value, versions: &[&str]) -> Result<()> {
    let group = unique::group("shirts");
    backend.define(&fixtures::shirts(&group, conversion)).await?;
    let client = backend.client();
    let stored = format!("/apis/{group}/v1/shirts");

    let mut watches: Vec<(String, Lines, &Row)> = Vec::new();
    for version in versions {
        for row in &ROWS {
            let path = query(&format!("/apis/{group}/{version}/shirts"), &selector(row, version), "", "&watch=1");
            let watch = client.watch(&path).await?;
            watches.push((path, watch, row));
        }
        // S7.
        let path = query(&format!("/apis/{group}/{version}/shirts"), "spec.nosuchfield=xyz", "", "");
        let message = "field label not supported: spec.nosuchfield";
        refused(&client, &path, 400, message).await?;
        refused(&client, &format!("{path}&watch=1"), 400, message).await?;
    }

    for shirt in shirts(&group) {
        backend.put(&stored, &shirt).await?;
        // Files may be read in any order; watches show it.
        lists(
            &client,
            &format!("{stored}?fieldSelector={}", escaped(&format!("metadata.name={}", super::backend::name(&shirt)))),
            &[super::backend::name(&shirt)],
        )
        .await?;
    }
    for version in versions {
        for row in &ROWS {
            let path = query(&format!("/apis/{group}/{version}/shirts"), &selector(row, version), "", "");
            lists(&client, &path, row.listed).await?;
        }
    }

    let [first, mut second, _] = shirts(&group);
    backend.remove(&stored, &first).await?;
    lists(&client, &stored, &["shirt2", "shirt3"]).await?;
    second["spec"]["color"] = "green".into();
    backend.put(&stored, &second).await?;
    for (path, watch, row) in &mut watches {
        follows(watch, row.events).await.with_context(|| path.clone())?;
        is_quiet(watch).await.with_context(|| path.clone())?;
    }

    if let Backend::Cluster { writer, .. } = backend {
        // S8: what a deletecollection with the selector removes is what is missing through fieldcache.
        for version in versions {
            for row in &ROWS {
                for shirt in shirts(&group) {
                    backend.put(&stored, &shirt).await?;
                }
                lists(&client, &stored, &["shirt1", "shirt2", "shirt3"]).await?;
                let selected = query(&format!("/apis/{group}/{version}/shirts"), &selector(row, version), "", "");
                objects::delete(writer, &selected).await?;
                let all = ["shirt1", "shirt2", "shirt3"];
                let left: Vec<&str> = all.into_iter().filter(|name| !row.listed.contains(name)).collect();
                for version in versions {
                    lists(&client, &format!("/apis/{group}/{version}/shirts"), &left).await?;
                }
                lists(&client, &selected, &[]).await?;
            }
        }
    }
    println!("conformance: S1-S8, {} watches, folder: {}", watches.len(), backend.is_folder());
    Ok(())
}

fn selector(row: &Row, version: &str) -> String {
    if version == "v1" { row.selector.to_owned() } else { row.selector.replace("color", "hue") }
}

fn shirts(group: &str) -> [Value; 3] {
    let shirt = |name: &str, spec: Value| {
        json!({
            "apiVersion": format!("{group}/v1"), "kind": "Shirt", "metadata": { "name": name }, "spec": spec,
        })
    };
    [
        shirt("shirt1", json!({ "color": "blue", "quantity": 2, "size": "S", "branded": true })),
        shirt("shirt2", json!({ "color": "blue", "quantity": 3, "size": "M", "branded": false })),
        shirt("shirt3", json!({ "color": "green", "quantity": 2, "branded": false })),
    ]
}
