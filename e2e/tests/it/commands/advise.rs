//! `fieldcache advise` beside a kube-apiserver that was listed and watched.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::eventually::eventually;
use e2e::shell::Shell;
use serde_json::Value;

use super::stage::{SHIRTS, SOON, Stage, repository};

/// kube-apiserver counts objects once a minute.
const COUNTED: Duration = Duration::from_secs(150);

async fn shirts(shell: &Shell, arguments: &str) -> Result<Value> {
    let said = shell.succeed(&format!("kubectl fieldcache advise -o json {arguments}")).await?;
    let rows: Vec<Value> = serde_json::from_str(&said)?;
    let row = rows.into_iter().find(|row| row["resource"] == "shirts.stable.example.com");
    row.with_context(|| format!("no shirts: {said}"))
}

fn count(row: &Value, name: &str) -> u64 {
    row[name].as_u64().unwrap_or_default()
}

#[tokio::test]
async fn advice_comes_from_kube_apiservers_own_counters() -> Result<()> {
    // It applies the FieldCache that others need.
    let stage = Box::pin(Stage::without_cache()).await?;
    let administrator = stage.administrator()?;
    let before = shirts(&administrator, "").await?;
    ensure!(count(&before, "watches") >= 1, "the operator watches: {before}");
    let client = stage.control_plane.client();
    for _ in 0..7 {
        client.get_json(&format!("{SHIRTS}?fieldSelector=spec.color%3Dblue")).await?;
    }
    let mut watches = Vec::new();
    for _ in 0..5 {
        watches.push(client.watch(&format!("{SHIRTS}?watch=true&resourceVersion=0")).await?);
    }
    let after = eventually("lists and watches are counted", SOON, async || {
        let after = shirts(&administrator, "").await?;
        // Others list and watch here too.
        ensure!(count(&after, "lists") >= count(&before, "lists") + 7, "{after}");
        ensure!(count(&after, "watches") > 5 && count(&after, "events") >= 5 * 6, "{after}");
        ensure!(count(&after, "listObjectsRead") > count(&after, "listObjectsReturned"), "{after}");
        ensure!(count(&after, "listBytes") > 0 && after["listSeconds"].as_f64() > Some(0.0), "{after}");
        Ok(after)
    })
    .await?;
    ensure!(after["cached"] == false, "no FieldCache names it: {after}");

    // For people; what is not the table is beside it.
    let finished = administrator.run("kubectl fieldcache advise").await?;
    ensure!(finished.stdout.starts_with("RESOURCE ") && finished.stdout.contains(" WHY\n"), "{finished:?}");
    ensure!(finished.stdout.contains("\nshirts.stable.example.com "), "{finished:?}");
    ensure!(finished.stderr.contains("since its start, 20") && finished.stderr.contains("--all"), "{finished:?}");
    let some = finished.stdout.lines().count();
    let all = administrator.succeed("kubectl fieldcache advise --all -o wide").await?;
    ensure!(some == 21 && all.lines().count() > some && all.contains(" COPIES "), "{some} lines, then: {all}");

    // What happens in a second: no client lists Nodes, and the open watches stay.
    let now = shirts(&administrator, "--for 1s").await?;
    ensure!(count(&now, "lists") < count(&after, "lists") && count(&now, "watches") >= 6, "{now}");
    let said = administrator.run("kubectl fieldcache advise --for 100ms -o name").await?;
    ensure!(said.stderr.contains("counting for 100 ms") && said.stdout.contains("shirts.stable"), "{said:?}");

    // Without the right, and with it after what the error says was pasted.
    let alice = Shell::with_kubeconfig(&stage.alice()?)?;
    let expected = ["alice", "/metrics", "kubectl create clusterrole ", "- nonResourceURLs: [/metrics]"];
    let refused = alice.fail("kubectl fieldcache advise", 2, &expected).await?;
    let pasted: Vec<String> = refused
        .lines()
        .filter(|line| line.starts_with("kubectl create "))
        .map(|line| line.replace("YOU", "alice"))
        .collect();
    ensure!(pasted.len() == 2, "{refused}");
    administrator.succeed(&pasted.join(" && ")).await?;
    let granted = eventually("the permission is known", SOON, async || {
        let finished = alice.run("kubectl fieldcache advise").await?;
        ensure!(finished.exit_code == 0, "{finished:?}");
        Ok(finished)
    })
    .await?;
    ensure!(granted.stderr.contains("CACHED is unknown"), "{granted:?}");
    ensure!(granted.stdout.lines().skip(1).all(|line| line.contains("   ?   ")), "{granted:?}");

    // What is no kube-apiserver says so.
    let own = format!("--server {}", stage.control_plane.etcd_address());
    administrator.fail(&format!("fieldcache advise {own}"), 2, &["not the metrics of a kube-apiserver"]).await?;

    let cache = repository("manifests/walk-through/shirts-cache.yaml");
    administrator.succeed(&format!("kubectl apply -f {cache}")).await?;
    ensure!(shirts(&administrator, "").await?["cached"] == true, "a FieldCache names it now");
    eventually("objects are counted", COUNTED, async || {
        let row = shirts(&administrator, "").await?;
        ensure!(count(&row, "objects") == 6 && count(&row, "copies") >= 36, "{row}");
        let reason = row["reason"].as_str().unwrap_or_default();
        ensure!(reason.ends_with("; the resource is cached, so these clients could read from fieldcache"), "{row}");
        Ok(())
    })
    .await
}
