//! A FieldCache for which there is no room: its author learns so, and what is served continues.

use anyhow::{Context, Result, ensure};
use e2e::eventually::eventually;
use e2e::fieldcache::Fieldcache;
use serde_json::json;

use super::{NAMESPACE, SHIRTS, SOON, Stage, ready};

#[tokio::test(flavor = "multi_thread")]
async fn a_field_cache_beyond_the_memory_limit_is_not_accepted_and_nothing_else_goes() -> Result<()> {
    let stage = Stage::start().await?;
    // Room for some shirts, and not for what comes then.
    let limit = ["--namespace", NAMESPACE, "--identity", "one", "--memory-limit", "200k"].map(str::to_owned);
    let operator = Box::pin(Fieldcache::operator(&stage.kubeconfig().await?, stage.folder.path(), limit)).await?;
    let client = stage.administrator(&operator)?;
    ready(&operator, &client).await?;
    stage.apply("walk-through/shirts-cache.yaml").await?;
    let shirts = "fieldcache/shirts.stable.example.com";
    stage.kubectl.succeed(&["wait", "--for=condition=Ready", "--timeout=180s", shirts]).await?;
    // ConfigMaps of half a megabyte, and the right to read them.
    let reader = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": { "name": "read-configmaps", "labels": { "fieldcache.dev/aggregate-to-reader": "true" } },
        "rules": [{ "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"] }],
    });
    stage.apply_this("reader.json", &reader).await?;
    let noise = |seed: u64| -> String {
        // Text that compresses badly.
        let mut state = seed;
        let letters = (0..60_000).map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            char::from(b'a' + (state >> 59) as u8 % 26)
        });
        letters.collect()
    };
    for number in 0..8 {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": format!("noise-{number}") },
            "data": { "text": noise(number) },
        });
        let path = "/api/v1/namespaces/team-a/configmaps";
        e2e::objects::create(&stage.control_plane.client(), path, &map).await?;
    }
    let cache = json!({
        "apiVersion": "fieldcache.dev/v1alpha1", "kind": "FieldCache",
        "metadata": { "name": "configmaps" }, "spec": { "group": "", "resource": "configmaps" },
    });
    stage.apply_this("cache.json", &cache).await?;
    eventually("the limit is named", SOON, async || {
        for kind in ["Accepted", "Synced", "Ready"] {
            let condition = stage.condition("fieldcache/configmaps", kind).await?;
            ensure!(condition["status"] == "False" && condition["reason"] == "MemoryLimit", "{condition}");
            let message = condition["message"].as_str().unwrap_or_default();
            ensure!(message.contains("--memory-limit"), "the message names the limit: {message}");
        }
        Ok(())
    })
    .await
    .with_context(|| operator.process().tail())?;
    let refused = client.get("/api/v1/configmaps").await?;
    ensure!(refused.status == 503 || refused.status == 429, "{refused:?}");
    ensure!(client.get(SHIRTS).await?.status == 200, "what is there stays");
    let ready = stage.condition(shirts, "Ready").await?;
    ensure!(ready["status"] == "True", "{ready}");
    ensure!(client.get("/readyz").await?.status == 200, "given up on with a condition, so the replica is ready");
    Ok(())
}
