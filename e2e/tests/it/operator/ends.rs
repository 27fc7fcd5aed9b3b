//! What a watch reports when what it reads is removed: the View, the FieldCache, or the definition.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use e2e::control_plane::kubeconfig;
use e2e::eventually::eventually;
use e2e::http::{Client, Next};
use e2e::kubectl::Kubectl;
use e2e::process::Process;
use serde_json::{Value, json};

use super::consumers::proxy;
use super::{CRD, SHIRTS, SOON, Stage, ready};

const VIEW: &str = "ends";
/// What manifests/samples have.
const NAMES: [&str; 6] = ["example1", "example2", "example3", "example4", "example5", "plain"];

/// A View of shirts that have these colors.
fn view(colors: &[&str]) -> Value {
    let selector = json!({ "matchExpressions": [{ "key": "spec.color", "operator": "In", "values": colors }] });
    json!({
        "apiVersion": "fieldcache.dev/v1alpha1", "kind": "View", "metadata": { "name": VIEW },
        "spec": { "resources": [{ "group": "stable.example.com", "resource": "shirts", "fieldSelector": selector }] },
    })
}

/// What a watch that began with the objects reports until it ends: DELETED objects, and the Status of an ERROR.
type WatchOutcome = tokio::task::JoinHandle<Result<(Vec<String>, Option<Value>)>>;

async fn watch_outcome(client: &Client, path: &str) -> Result<WatchOutcome> {
    let mut watch = client.watch(&format!("{path}?watch=true&resourceVersion=0")).await?;
    // The first event shows that it has begun.
    watch.event(SOON).await?;
    Ok(tokio::spawn(async move {
        let mut deleted = Vec::new();
        let mut error = None;
        loop {
            let line = match watch.next(2 * SOON).await? {
                Next::Line(line) => line,
                Next::End => break,
                Next::Nothing => bail!("a watch goes on, after {deleted:?}"),
            };
            let event: Value = serde_json::from_slice(&line)?;
            let object = &event["object"];
            match event["type"].as_str().unwrap_or_default() {
                "DELETED" => deleted.push(object["metadata"]["name"].as_str().unwrap_or_default().to_owned()),
                "ERROR" => error = Some(object.clone()),
                _ => ensure!(error.is_none(), "{event} after {error:?}"),
            }
        }
        deleted.sort_unstable();
        Ok((deleted, error))
    }))
}

/// The watch has ended with a Status 410 that contains this text, and `kubectl get -w` shows it to its user.
async fn ends_with(outcome: WatchOutcome, kubectl: &Process, text: &str) -> Result<()> {
    let (deleted, error) = outcome.await??;
    let error = error.with_context(|| format!("no ERROR event that contains {text}, but DELETED for {deleted:?}"))?;
    ensure!(error["code"] == 410 && error["reason"] == "Expired" && error["kind"] == "Status", "{error}");
    ensure!(error["message"].as_str().is_some_and(|message| message.contains(text)), "{error}");
    ensure!(deleted.is_empty(), "objects that still exist were reported as DELETED: {deleted:?}");
    eventually("kubectl shows the message", SOON, async || {
        let shown = format!("{}{}", kubectl.stdout()?, kubectl.stderr()?);
        ensure!(shown.contains(text), "{shown}");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn each_end_of_a_watch_is_reported() -> Result<()> {
    let stage = Stage::start().await?;
    let operator = stage.operator("one").await?;
    let client = stage.administrator(&operator)?;
    let tail = || operator.process().tail();
    ready(&operator, &client).await?;
    let administrator = stage.control_plane.authority().client("somebody", Some("system:masters"))?;
    let authority = std::fs::read_to_string(stage.folder.path().join("ca.crt"))?;
    let kubectl = |name: &str, path: &str| {
        let server = format!("{}{path}", operator.address());
        let document = kubeconfig(&server, Some(&authority), Some(&administrator));
        Kubectl::with_kubeconfig(&stage.folder.write(name, document.to_string())?)
    };
    let (root, through) = (kubectl("root", "")?, kubectl("view", &proxy(VIEW))?);
    let shirts = format!("{}{SHIRTS}", proxy(VIEW));
    let follow = ["get", "shirts", "-A", "-w"];
    // Everything is there, and a watch of kubectl has shown it.
    let begun = async |kubectl: &Kubectl, path: &str| {
        eventually(path, SOON, async || client.get_json(path).await.map(drop)).await.with_context(tail)?;
        let process = kubectl.start(&follow)?;
        process.line("a shirt", SOON, |line| line.contains(NAMES[0]).then_some(())).await?;
        Ok::<_, anyhow::Error>((watch_outcome(&client, path).await?, process))
    };
    let ready_again = async |colors: &[&str]| {
        stage.apply("walk-through/shirts-cache.yaml").await?;
        stage.apply_this("view.json", &view(colors)).await?;
        stage.kubectl.succeed(&["wait", "--for=condition=Ready", "--timeout=180s", &format!("view/{VIEW}")]).await
    };
    let all = ["blue", "green", "red"];
    ready_again(&all).await.with_context(tail)?;

    let (watch, shown) = begun(&through, &shirts).await?;
    stage.apply_this("view.json", &view(&all[..1])).await?;
    ends_with(watch, &shown, "the View was changed or deleted").await.context("an edited View")?;

    let (watch, shown) = begun(&through, &shirts).await?;
    stage.kubectl.succeed(&["delete", "view", VIEW]).await?;
    ends_with(watch, &shown, "the View was changed or deleted").await.context("a deleted View")?;

    let (watch, shown) = begun(&root, SHIRTS).await?;
    stage.kubectl.succeed(&["delete", "fieldcache", "shirts.stable.example.com"]).await?;
    ends_with(watch, &shown, "shirts.v1.stable.example.com is no longer cached here").await.context("no FieldCache")?;
    let answer = client.get(SHIRTS).await?;
    ensure!(answer.status == 404, "afterwards it is not served: {answer:?}");

    ready_again(&all).await.with_context(tail)?;
    let (at_root, _shown) = begun(&root, SHIRTS).await?;
    let (at_view, _shown_too) = begun(&through, &shirts).await?;
    stage.kubectl.succeed(&["delete", CRD]).await?;
    // The last one has no color.
    for (what, outcome, names) in [("the root", at_root, &NAMES[..]), ("the View", at_view, &NAMES[..5])] {
        let (deleted, error) = outcome.await??;
        ensure!(error.is_none() && deleted == names, "at {what}: {error:?}, DELETED for {deleted:?}");
    }
    for path in [SHIRTS, &shirts] {
        eventually(&format!("{path} is not served"), Duration::from_secs(60), async || {
            let answer = client.get(path).await?;
            ensure!(matches!(answer.status.as_u16(), 404 | 503), "{answer:?}");
            Ok(())
        })
        .await?;
    }
    Ok(())
}
