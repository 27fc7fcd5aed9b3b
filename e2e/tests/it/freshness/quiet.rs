//! A quiet cluster: progress notifications come in time, whether the watches of the source send bookmarks or not.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::calm::{AGGREGATED, Settings, observe};
use e2e::control_plane::ControlPlane;
use e2e::eventually::eventually;
use e2e::fieldcache::Fieldcache;
use e2e::objects;

use super::write_elsewhere;

const SOON: Duration = Duration::from_secs(60);

/// Long enough for the first missing bookmark to be noticed, and for several proofs after that.
const LENGTH: Duration = Duration::from_secs(60);
const MAX_LAG: Duration = Duration::from_secs(12);

#[tokio::test]
async fn no_reader_of_a_quiet_cluster_is_rejected() -> Result<()> {
    let only = [
        // Without a watch cache, always and by a flag. There are more ConfigMaps than a page of a list has.
        "events.v1",
        "events.v1.events.k8s.io",
        "configmaps.v1",
        "leases.v1.coordination.k8s.io",
        // With one.
        "gadgets.v1.calm.example.com",
        "namespaces.v1",
        AGGREGATED,
    ];
    let settings = Settings {
        length: LENGTH,
        max_lag: Some(MAX_LAG),
        only: only.map(str::to_owned).to_vec(),
        config_maps: 510,
        has_chain: true,
    };
    let calm = Box::pin(observe(&settings)).await?;
    println!("{calm}");
    ensure!(calm.source_requests.len() == only.len(), "{calm}");
    ensure!(calm.requests > 0 && calm.rejected.is_empty(), "{:?}\n{calm}", calm.rejected);
    Ok(())
}

/// The first request for one waits for a bookmark, which never comes.
#[tokio::test]
async fn a_version_from_elsewhere_is_reached_where_watches_send_no_bookmarks() -> Result<()> {
    let control_plane = ControlPlane::shared().await?;
    let writer = control_plane.client();
    let namespace = objects::create_namespace(&writer).await?;
    let fieldcache = Box::pin(Fieldcache::serve_cluster(control_plane.kubeconfig(), &["events.v1"])).await?;
    let (reader, events) = (fieldcache.client(), format!("/api/v1/namespaces/{namespace}/events"));
    eventually("events are served", SOON, async || reader.get_json(&events).await.map(drop)).await?;
    for _ in 0..3 {
        let version = write_elsewhere(&writer, &namespace).await?;
        let list = reader.get(&format!("{events}?resourceVersion={version}")).await?;
        ensure!(list.status == 200, "{version}: {}", list.text());
        ensure!(super::version(&list.json()?)? >= version, "{version}: {}", list.text());
    }
    Ok(())
}
