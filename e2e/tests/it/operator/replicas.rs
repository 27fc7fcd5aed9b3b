//! Two replicas: one certificate, one writer, the same answers; and the death of the one that writes.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use e2e::components::{Component, locate};
use e2e::eventually::eventually;
use e2e::fieldcache::Fieldcache;
use e2e::http::{Client, Endpoint};
use e2e::objects;
use serde_json::json;
use tokio::time::timeout;

use super::{NAMESPACE, SHIRTS, SOON, Stage, names, ready};

const SECRET: &str = "fieldcache-serving-certificate";
/// A holder that says nothing is given up after so long, and looked at every two seconds.
const LEASE: Duration = Duration::from_secs(15);
/// How long another holder writes the Lease while it is released. That is immediate, because there are no responses to
/// wait for.
const BESIDE: Duration = Duration::from_secs(5);

/// The authority in the Secret, by a way of its own.
fn authority(stage: &Stage) -> Result<String> {
    let output = Command::new(locate(Component::Kubectl)?)
        .arg(format!("--kubeconfig={}", stage.control_plane.kubeconfig().display()))
        .args(["get", "secret", SECRET, "-n", NAMESPACE, "-o", "jsonpath={.data.ca\\.crt}"])
        .stdin(Stdio::null())
        .output()?;
    ensure!(output.status.success(), "kubectl get secret: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(BASE64_STANDARD.decode(output.stdout.trim_ascii())?)?)
}

struct Replica {
    operator: Fieldcache,
    client: Client,
}

impl Replica {
    async fn start(stage: &Stage, identity: &str) -> Result<Replica> {
        let arguments = ["--namespace", NAMESPACE, "--identity", identity, "--cert-secret", SECRET].map(str::to_owned);
        let endpoint = |address: &str| Endpoint::secure(address, &authority(stage)?, None);
        let operator = Box::pin(Fieldcache::operator_at(&stage.kubeconfig().await?, arguments, endpoint)).await?;
        let administrator = stage.control_plane.authority().client("somebody", Some("system:masters"))?;
        let client = Endpoint::secure(operator.address(), &authority(stage)?, Some(&administrator))?.client();
        ready(&operator, &client).await?;
        Ok(Replica { operator, client })
    }
}

async fn leader(stage: &Stage) -> Result<String> {
    let arguments = ["get", "lease", "fieldcache", "-n", NAMESPACE, "-o", "jsonpath={.spec.holderIdentity}"];
    stage.kubectl.succeed(&arguments).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_takes_over_and_clients_go_on_without_a_list() -> Result<()> {
    let stage = Stage::start().await?;
    let one = Replica::start(&stage, "one").await?;
    let first = authority(&stage)?;
    eventually("the first one leads", SOON, async || {
        let leader = leader(&stage).await?;
        ensure!(leader == "one", "it is {leader}");
        Ok(())
    })
    .await?;
    let two = Replica::start(&stage, "two").await?;
    ensure!(authority(&stage)? == first, "both serve with what the Secret holds");
    stage.apply("walk-through/shirts-cache.yaml").await?;
    let cache = "fieldcache/shirts.stable.example.com";
    stage.kubectl.succeed(&["wait", "--for=condition=Ready", "--timeout=180s", cache]).await?;
    for replica in [&one, &two] {
        ready(&replica.operator, &replica.client).await?;
    }
    ensure!(leader(&stage).await? == "one", "the first one leads");

    // That they are ready before they have heard of the FieldCache says nothing.
    for replica in [&one, &two] {
        eventually("it serves", SOON, async || {
            let shown = names(&replica.client.get_json(SHIRTS).await?)?;
            ensure!(!shown.is_empty(), "nothing is shown");
            Ok(())
        })
        .await?;
    }
    // A client that goes back and forth between them: what one sent it, the other knows, but nothing from before its own list. So it
    // begins with a change that came after both.
    let patch = r#"{"spec":{"color":"first"}}"#;
    stage.kubectl.succeed(&["patch", "shirt", "plain", "-n", "team-b", "--type=merge", "-p", patch]).await?;
    let list = eventually("the change is shown", SOON, async || {
        let list = one.client.get_json(SHIRTS).await?;
        let mut shirts = list["items"].as_array().into_iter().flatten();
        ensure!(shirts.any(|shirt| shirt["spec"]["color"] == "first"), "{list}");
        Ok(list)
    })
    .await?;
    let mut version = list["metadata"]["resourceVersion"].as_str().context("a version")?.to_owned();
    for turn in 0..20 {
        let replica = if turn % 2 == 0 { &two } else { &one };
        let patch = format!(r#"{{"spec":{{"color":"c{turn}"}}}}"#);
        stage.kubectl.succeed(&["patch", "shirt", "plain", "-n", "team-b", "--type=merge", "-p", &patch]).await?;
        let path = format!("{SHIRTS}?watch=true&resourceVersion={version}");
        let event = replica.client.watch(&path).await?.event(SOON).await?;
        ensure!(event["type"] == "MODIFIED", "turn {turn}: {event}");
        ensure!(
            event["object"]["spec"]["color"] == format!("c{turn}"),
            "turn {turn}: nothing twice, nothing left out: {event}"
        );
        version = event["object"]["metadata"]["resourceVersion"].as_str().context("a version")?.to_owned();
    }

    // The one that writes dies without a word.
    one.operator.kill();
    let died = Instant::now();
    let pods = json!({
        "apiVersion": "fieldcache.dev/v1alpha1", "kind": "FieldCache",
        "metadata": { "name": "configmaps" }, "spec": { "group": "", "resource": "configmaps" },
    });
    stage.apply_this("configmaps.yaml", &pods).await?;
    // Served by the other at once; whether it may be read is for reader.yaml to say, and is reported.
    // Fifteen seconds of the lease, two until it is looked at, and time for the write on a slow machine.
    eventually("statuses go on", LEASE + SOON, async || {
        let accepted = stage.condition("fieldcache/configmaps", "Accepted").await?;
        ensure!(accepted["status"] == "True", "{accepted}");
        Ok(())
    })
    .await
    .with_context(|| two.operator.process().tail())?;
    let took = died.elapsed();
    ensure!(leader(&stage).await? == "two", "the other one leads");
    println!("statuses went on {took:.1?} after the death of the leader");
    eventually("a right that is missing is named", SOON, async || {
        let ready = stage.condition("fieldcache/configmaps", "Ready").await?;
        ensure!(ready["status"] == "False" && ready["reason"] == "Forbidden", "{ready}");
        let message = ready["message"].as_str().unwrap_or_default();
        let says = [
            "kubectl create clusterrole fieldcache-reads-configmaps --verb=list,watch --resource=configmaps && ",
            "kubectl label clusterrole fieldcache-reads-configmaps fieldcache.dev/aggregate-to-reader=true",
        ];
        ensure!(says.iter().all(|part| message.contains(part)) && !message.contains("http"), "{ready}");
        ensure!(ready["message"].as_str().is_some_and(|message| message.contains("configmaps")), "{ready}");
        Ok(())
    })
    .await
    .with_context(|| two.operator.process().tail())?;
    let patch = r#"{"spec":{"color":"last"}}"#;
    stage.kubectl.succeed(&["patch", "shirt", "plain", "-n", "team-b", "--type=merge", "-p", patch]).await?;
    let path = format!("{SHIRTS}?watch=true&resourceVersion={version}");
    let event = two.client.watch(&path).await?.event(SOON).await?;
    ensure!(event["object"]["spec"]["color"] == "last", "its client goes on with the other: {event}");

    // A replica that is stopped releases the Lease, even where it is written at that moment. A renewal in progress is
    // such a write. Here another client writes it all the time.
    let (is_over, written) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let (client, over, turns) = (stage.control_plane.client(), is_over.clone(), written.clone());
    let writing = tokio::spawn(async move {
        let path = format!("/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/fieldcache");
        while !over.load(Ordering::Relaxed) {
            let turn = turns.fetch_add(1, Ordering::Relaxed);
            let note = json!({ "metadata": { "annotations": { "turn": turn.to_string() } } });
            objects::merge(&client, &path, &note).await?;
        }
        anyhow::Ok(())
    });
    eventually("somebody writes", SOON, async || {
        ensure!(written.load(Ordering::Relaxed) > 5);
        Ok(())
    })
    .await?;
    let before = written.load(Ordering::Relaxed);
    // For so long that each of its attempts may meet another write, and no longer: it gives up after ten seconds.
    let (stopped, ()) = tokio::join!(two.operator.stop(), async {
        let _ = timeout(BESIDE, std::future::pending::<()>()).await;
        is_over.store(true, Ordering::Relaxed);
    });
    writing.await??;
    stopped?;
    println!("given back beside {} writes of somebody else", written.load(Ordering::Relaxed) - before);
    ensure!(leader(&stage).await?.is_empty(), "no replica leads");
    Ok(())
}
