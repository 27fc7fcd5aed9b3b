//! A version newer than the store is fetched, not rejected. A store without recent progress notifications is rejected,
//! not shown. In cascaded servers the lags add up.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::control_plane::{ControlPlane, Settings};
use e2e::eventually::eventually;
use e2e::fieldcache::Fieldcache;
use e2e::http::Client;
use e2e::objects;

use serde_json::json;

use super::{Shirts, write_elsewhere};

const SOON: Duration = Duration::from_secs(90);

#[tokio::test]
async fn a_version_from_elsewhere_is_caught_up_with() -> Result<()> {
    let control_plane = ControlPlane::shared().await?;
    let writer = control_plane.client();
    let shirts = Shirts::define(&writer).await?;
    shirts.create(&writer, "one", "blue").await?;
    let fieldcache = Fieldcache::serve_cluster(control_plane.kubeconfig(), &[&shirts.resource()]).await?;
    let upstream = ["--server".to_owned(), fieldcache.address().to_owned(), "--resource".to_owned(), shirts.resource()];
    let chained = Box::pin(Fieldcache::serve(upstream)).await?;
    let namespace = objects::create_namespace(&writer).await?;
    for (what, server) in [("directly", &fieldcache), ("through a chain", &chained)] {
        let reader = server.client();
        for query in ["", "&resourceVersionMatch=NotOlderThan", "&resourceVersionMatch=Exact", "&limit=1"] {
            let version = write_elsewhere(&writer, &namespace).await?;
            let path = format!("{}?resourceVersion={version}{query}", shirts.collection);
            let list = reader.read(&path).await.with_context(|| what.to_owned())?.json()?;
            let shown = super::version(&list)?;
            let is_exact = query.ends_with("Exact") || query.starts_with("&limit");
            ensure!(if is_exact { shown == version } else { shown >= version }, "{what}: {path}: {shown}");
        }
        let version = write_elsewhere(&writer, &namespace).await?;
        let path = format!("{}/one?resourceVersion={version}", shirts.collection);
        reader.read(&path).await.with_context(|| what.to_owned())?;
        let version = write_elsewhere(&writer, &namespace).await?;
        let initial = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
        // A store that has not come so far in time says so, as it does to a list.
        let (added, mark) = eventually("initial events", SOON, async || {
            let mut watch = reader.watch(&format!("{}?{initial}&resourceVersion={version}", shirts.collection)).await?;
            let added = watch.event(SOON).await?;
            ensure!(added["type"] == "ADDED", "{added}");
            Ok((added, watch.event(SOON).await?))
        })
        .await?;
        ensure!(mark["type"] == "BOOKMARK", "{what}: {added} {mark}");
        ensure!(super::version(&mark["object"])? >= version, "{what}: {mark}");
    }
    let future = format!("{}?resourceVersion={}", shirts.collection, u64::from(u32::MAX));
    let refused = fieldcache.client().get(&future).await?;
    ensure!(refused.status == 504, "a version that no server has is still rejected: {}", refused.text());
    let metrics = fieldcache.client().get(&shirts.collection).await?;
    ensure!(metrics.status == 200, "and nothing else stops working");
    Ok(())
}

/// The status and message of a list.
async fn listed(client: &Client, path: &str) -> Result<(u16, String)> {
    let answer = client.get(path).await?;
    Ok((answer.status.as_u16(), answer.text()))
}

/// kube-apiserver has no watch cache for events: their watches send no bookmarks, so that nothing but an event says how far they are.
#[tokio::test]
async fn quiet_events_are_served_while_the_cluster_goes_on() -> Result<()> {
    let control_plane = ControlPlane::shared().await?;
    let writer = control_plane.client();
    let namespace = objects::create_namespace(&writer).await?;
    let events = format!("/api/v1/namespaces/{namespace}/events");
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": { "generateName": "quiet-" }, "reason": "Quiet",
        "involvedObject": { "kind": "Namespace", "name": namespace, "namespace": namespace },
    });
    objects::create(&writer, &events, &event).await?;
    let upstream = ["--kubeconfig".to_owned(), control_plane.kubeconfig().display().to_string()];
    let lag = ["--max-lag", "8s", "--resource", "events.v1"].map(str::to_owned);
    let fieldcache = Box::pin(Fieldcache::serve(upstream.into_iter().chain(lag))).await?;
    let reader = fieldcache.client();
    eventually("events are served", SOON, async || {
        let (status, text) = listed(&reader, &events).await?;
        ensure!(status == 200, "{text}");
        Ok(())
    })
    .await?;
    // The first progress notification that a watch does not bring shows that it never will.
    let settled = std::time::Instant::now();
    eventually("the source is known", SOON, async || {
        ensure!(settled.elapsed() > Duration::from_secs(25), "not yet");
        Ok(())
    })
    .await?;
    let began = std::time::Instant::now();
    let mut requested = 0;
    eventually("quiet for several times the accepted lag", SOON, async || {
        write_elsewhere(&writer, &namespace).await?;
        let (status, text) = listed(&reader, &events).await?;
        if status != 200 {
            return Ok(Err(anyhow::anyhow!("{status} after {:?} and {requested} requests: {text}", began.elapsed())));
        }
        requested += 1;
        ensure!(began.elapsed() > Duration::from_secs(30), "not yet");
        Ok(Ok(()))
    })
    .await??;
    // A version from elsewhere is reached, though no event has it.
    let version = write_elsewhere(&writer, &namespace).await?;
    let list = reader.read(&format!("{events}?resourceVersion={version}")).await?.json()?;
    ensure!(super::version(&list)? >= version, "{version}: {}", list["metadata"]);
    // And events are followed as before.
    objects::create(&writer, &events, &event).await?;
    eventually("the second event", SOON, async || {
        let list = reader.read(&events).await?.json()?;
        ensure!(list["items"].as_array().is_some_and(|items| items.len() == 2), "{list}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_store_without_progress_is_rejected_and_recovers() -> Result<()> {
    let mut control_plane = Box::pin(ControlPlane::start(Settings::default())).await?;
    let writer = control_plane.client();
    let shirts = Shirts::define(&writer).await?;
    shirts.create(&writer, "one", "blue").await?;
    let lag = |most: &str| ["--max-lag".to_owned(), most.to_owned(), "--resource".to_owned(), shirts.resource()];
    let kubeconfig = ["--kubeconfig".to_owned(), control_plane.kubeconfig().display().to_string()];
    let near = Box::pin(Fieldcache::serve(kubeconfig.into_iter().chain(lag("20s")))).await?;
    let server = ["--server".to_owned(), near.address().to_owned()];
    let far = Box::pin(Fieldcache::serve(server.into_iter().chain(lag("30s")))).await?;
    for fieldcache in [&near, &far] {
        let reader = fieldcache.client();
        eventually("it serves", SOON, async || {
            let (status, text) = listed(&reader, &shirts.collection).await?;
            ensure!(status == 200, "{text}");
            Ok(())
        })
        .await?;
    }
    // Nothing happens, longer than the accepted lag: proofs are requested in time.
    let began = std::time::Instant::now();
    eventually("quiet for longer than that", SOON, async || {
        for fieldcache in [&near, &far] {
            let (status, text) = listed(&fieldcache.client(), &shirts.collection).await?;
            if status != 200 {
                return Ok(Err(anyhow::anyhow!("{status} after {:?}: {text}", began.elapsed())));
            }
        }
        ensure!(began.elapsed() > Duration::from_secs(32), "not yet");
        Ok(Ok(()))
    })
    .await??;

    control_plane.stop_apiserver();
    for (name, fieldcache) in [("near", &near), ("far", &far)] {
        let reader = fieldcache.client();
        let refused = eventually("it is refused", SOON, async || {
            let (status, text) = listed(&reader, &shirts.collection).await?;
            ensure!(status == 503, "{status}");
            Ok(text)
        })
        .await?;
        ensure!(refused.contains("the maximum is"), "{name}: {refused}");
        let exact = format!("{}?resourceVersionMatch=Exact&resourceVersion=1", shirts.collection);
        let (status, _) = listed(&reader, &exact).await?;
        ensure!(status == 410, "{name}: the past is what it is: {status}");
    }
    control_plane.start_apiserver().await?;
    for (name, fieldcache) in [("near", &near), ("far", &far)] {
        let reader = fieldcache.client();
        eventually(&format!("{name} serves again"), SOON, async || {
            let (status, text) = listed(&reader, &shirts.collection).await?;
            ensure!(status == 200, "{text}");
            Ok(())
        })
        .await?;
    }
    Ok(())
}
