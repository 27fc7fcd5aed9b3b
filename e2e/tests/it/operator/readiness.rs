//! A store that is added later leaves a replica ready; one that a replica finds when it starts does not.

use anyhow::{Context, Result, ensure};
use e2e::eventually::eventually;
use e2e::faults::proxy::{Fate, Proxy};
use e2e::fieldcache::Fieldcache;
use e2e::http::Client;
use serde_json::json;

use super::{NAMESPACE, SOON, Stage, ready};

const CONFIG_MAPS: &str = "/api/v1/configmaps";
const CHECK: &str = "store/configmaps.v1";

/// A replica that reads the cluster through the proxy, as its administrator.
async fn replica(stage: &Stage, proxy: &Proxy, identity: &str) -> Result<(Fieldcache, Client)> {
    let kubeconfig = stage.control_plane.kubeconfig_for(proxy.endpoint().base());
    let kubeconfig = stage.folder.write("through-proxy", kubeconfig.to_string())?;
    let arguments = ["--namespace", NAMESPACE, "--identity", identity].map(str::to_owned);
    let operator = Box::pin(Fieldcache::operator(&kubeconfig, stage.folder.path(), arguments)).await?;
    let client = stage.administrator(&operator)?;
    Ok((operator, client))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_added_later_takes_no_replica_out_of_the_service() -> Result<()> {
    let stage = Stage::start().await?;
    let proxy = Proxy::of_requests(stage.control_plane.endpoint()).await?;
    // The list of ConfigMaps begins and never ends.
    proxy.tamper(CONFIG_MAPS, |_| Fate::Dropped);
    let (operator, client) = replica(&stage, &proxy, "one").await?;
    ready(&operator, &client).await?;
    let cache = json!({
        "apiVersion": "fieldcache.dev/v1alpha1", "kind": "FieldCache",
        "metadata": { "name": "configmaps" }, "spec": { "group": "", "resource": "configmaps" },
    });
    stage.apply_this("configmaps.json", &cache).await?;
    let shown = async |client: &Client| Ok::<_, anyhow::Error>(client.get("/readyz?verbose").await?.text());
    eventually("the store is being loaded", SOON, async || {
        let text = shown(&client).await?;
        ensure!(text.contains(&format!("[!]{CHECK} loading (not required)")), "{text}");
        ensure!(text.ends_with("readyz check passed\n"), "it was ready before: {text}");
        Ok(())
    })
    .await
    .with_context(|| operator.process().tail())?;
    ensure!(client.get(CONFIG_MAPS).await?.status == 429, "the store itself is not served yet");

    // A replica that starts now has never had it, and is not sent requests that others can serve.
    let (other, other_client) = replica(&stage, &proxy, "two").await?;
    eventually("the store gates the start", SOON, async || {
        let text = shown(&other_client).await?;
        ensure!(text.contains(&format!("[-]{CHECK} failed")) && text.ends_with("readyz check failed\n"), "{text}");
        Ok(())
    })
    .await
    .with_context(|| other.process().tail())?;
    proxy.honest();
    for (operator, client) in [(&operator, &client), (&other, &other_client)] {
        eventually("the store is loaded", SOON, async || {
            let text = shown(client).await?;
            ensure!(text.contains(&format!("[+]{CHECK} ok")) && text.ends_with("readyz check passed\n"), "{text}");
            Ok(())
        })
        .await
        .with_context(|| operator.process().tail())?;
    }
    Ok(())
}
