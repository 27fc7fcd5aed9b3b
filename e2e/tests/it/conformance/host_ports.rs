//! Fixture H (H1 to H5): upstream's conformance test `crd_selectable_fields.go`, through fieldcache.

use anyhow::{Context, Result};
use e2e::conversion_webhook::ConversionWebhook;
use e2e::{fixtures, objects, unique};
use serde_json::{Value, json};

use super::backend::{Backend, follows, is_quiet, lists, query};

#[tokio::test]
async fn host_ports_of_a_cluster_in_both_versions() -> Result<()> {
    let backend = Backend::cluster().await?;
    let Backend::Cluster { writer, .. } = &backend else { unreachable!("it is a cluster") };
    let group = unique::group("hostports");
    let conversion = ConversionWebhook::shared().await?.conversion();
    backend.define(&fixtures::host_ports(&group, &conversion)).await?;
    let client = backend.client();
    let namespace = objects::create_namespace(writer).await?;
    let path = |version: &str| format!("/apis/{group}/{version}/namespaces/{namespace}/hostports");
    let host_port = |name: &str, host: &str, port: Option<&str>| {
        let mut object = json!({
            "apiVersion": format!("{group}/v2"), "kind": "HostPort",
            "metadata": { "name": name, "namespace": namespace }, "host": host,
        });
        if let Some(port) = port {
            object["port"] = port.into();
        }
        object
    };

    // H4 and H5: events, and what a client that replays them holds at the end.
    type Events = &'static [(&'static str, &'static str)];
    let rows: [(&str, &str, Events, Events); 3] = [
        ("v2", "host=host1", &[("ADDED", "a"), ("ADDED", "b")], &[("DELETED", "a"), ("DELETED", "b")]),
        ("v2", "host=host1,port=80", &[("ADDED", "a")], &[("DELETED", "a")]),
        ("v1", "hostPort=host1:80", &[("ADDED", "a")], &[("DELETED", "a")]),
    ];
    let mut watches = Vec::new();
    for (version, selector, _, _) in rows {
        let watched = query(&path(version), selector, "", "&watch=1&allowWatchBookmarks=true");
        watches.push(client.watch(&watched).await?);
    }
    for object in
        [host_port("a", "host1", Some("80")), host_port("b", "host1", Some("8080")), host_port("c", "host2", None)]
    {
        backend.put(&path("v2"), &object).await?;
    }
    let listed: [(&str, &str, &[&str]); 4] = [
        ("v2", "host=host1", &["a", "b"]),
        ("v2", "host=host1,port=80", &["a"]),
        ("v1", "hostPort=host1:80", &["a"]),
        ("v1", "hostPort=host1:8080", &["b"]),
    ];
    for (version, selector, expected) in listed {
        lists(&client, &query(&path(version), selector, "", ""), expected).await?;
    }
    for (watch, (version, selector, added, _)) in watches.iter_mut().zip(rows) {
        let events = follows(watch, added).await.with_context(|| format!("{version} {selector}"))?;
        for event in events {
            assert_eq!(event["object"]["apiVersion"], Value::from(format!("{group}/{version}")));
        }
    }

    objects::delete(writer, &query(&path("v2"), "host=host1,port=80", "", "")).await?;
    lists(&client, &query(&path("v2"), "host=host1", "", ""), &["b"]).await?;
    backend.put(&path("v2"), &host_port("b", "host2", Some("8080"))).await?;
    lists(&client, &query(&path("v2"), "host=host1", "", ""), &[]).await?;
    lists(&client, &query(&path("v2"), "host=host1,port=80", "", ""), &[]).await?;
    for (watch, (version, selector, _, deleted)) in watches.iter_mut().zip(rows) {
        follows(watch, deleted).await.with_context(|| format!("{version} {selector}"))?;
        is_quiet(watch).await?;
    }
    println!("conformance: H1-H5, {} watches", watches.len());
    Ok(())
}
