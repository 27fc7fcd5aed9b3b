//! The README's recipes for programs that read from fieldcache, each run beside a real kube-apiserver.
//!
//! What the README shows is what runs here: [`readme`] compares the texts. The reader is a ServiceAccount that may read
//! shirts and Pods. The writer is another one that may only patch, so all reads come from fieldcache.

mod kube_rs;
mod readme;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::clients::{Toolkit, locate};
use e2e::eventually::eventually;
use e2e::http::Client;
use e2e::objects;
use e2e::pod;
use e2e::process::Process;
use e2e::run_directory::RunDirectory;
use e2e::unique;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::commands::stage::{SERVICE, SHIRTS, SOON, Stage, host_and_port, repository};

/// Writes a kubeconfig for a View into the folder, as the README says for a Pod: with a token in a file.
async fn kubeconfig(stage: &Stage, folder: &RunDirectory, view: &str) -> Result<std::path::PathBuf> {
    let administrator = stage.administrator()?;
    stage.serve_view(&administrator, view, stage.operator.address()).await?;
    let token = folder.write("token", stage.token("reader", Some("fieldcache.dev")).await?)?;
    let script = format!("fieldcache kubeconfig {view} --token-file {}", token.display());
    folder.write("kubeconfig", administrator.succeed(&script).await?)
}

async fn shirt(client: &Client, name: &str) -> Result<Value> {
    let list = client.get_json(SHIRTS).await?;
    let found = list["items"].as_array().into_iter().flatten().find(|item| item["metadata"]["name"] == name);
    found.cloned().with_context(|| format!("there is no shirt {name}"))
}

async fn paint(client: &Client, name: &str, color: &str) -> Result<()> {
    let namespace = shirt(client, name).await?["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
    let path = format!("/apis/stable.example.com/v1/namespaces/{namespace}/shirts/{name}");
    objects::merge(client, &path, &json!({ "spec": { "color": color } })).await.map(drop)
}

#[tokio::test]
async fn controller_runtime_reads_here_and_writes_to_kube_apiserver() -> Result<()> {
    let stage = Stage::shared().await?;
    let folder = RunDirectory::create("recipe")?;
    let reads = kubeconfig(stage, &folder, "recipe-controller-runtime").await?;
    let writer = stage.with_token(&stage.token("writer", None).await?);
    let writes = folder.write("writer", writer.to_string())?;
    let invocation = locate(Toolkit::Go)?
        .arguments(["-client=recipe-controller-runtime"])
        .environment("FIELDCACHE_KUBECONFIG", reads.display().to_string())
        .environment("KUBECONFIG", writes.display().to_string())
        .environment("HOME", folder.path().display().to_string());
    let process = Process::start("controller", &invocation, folder.path())?;
    let client = stage.control_plane.client();
    let painted = async |name: &str| {
        Ok::<_, anyhow::Error>(shirt(&client, name).await?["metadata"]["annotations"]["painted"].clone())
    };
    eventually("the controller painted the blue shirts", SOON, async || {
        process.ensure_running()?;
        for name in ["example1", "example2", "example4"] {
            ensure!(painted(name).await? == "blue", "{name}");
        }
        Ok(())
    })
    .await
    .with_context(|| process.tail())?;
    ensure!(painted("example3").await?.is_null(), "it is not blue, and not seen");
    let color = shirt(&client, "example3").await?["spec"]["color"].as_str().unwrap_or_default().to_owned();
    paint(&client, "example3", "blue").await?;
    let what = "a shirt that became blue is painted";
    eventually(what, SOON, async || {
        ensure!(painted("example3").await? == "blue", "not yet");
        Ok(())
    })
    .await
    .with_context(|| process.tail())?;
    paint(&client, "example3", &color).await
}

#[tokio::test]
async fn an_informer_factory_of_client_go_reads_here() -> Result<()> {
    let stage = Stage::shared().await?;
    let folder = RunDirectory::create("recipe")?;
    let reads = kubeconfig(stage, &folder, "recipe-client-go").await?;
    let client = stage.control_plane.client();
    let pod = |name: &str, node: &str| {
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
            "spec": { "nodeName": node, "containers": [{ "name": "main", "image": "registry.example.com/main" }] },
        })
    };
    let pods = "/api/v1/namespaces/team-a/pods";
    for (name, node) in [("one", "node-1"), ("two", "node-2")] {
        objects::create(&client, pods, &pod(name, node)).await?;
    }
    let invocation = locate(Toolkit::Go)?
        .arguments(["-client=recipe-client-go"])
        .environment("FIELDCACHE_KUBECONFIG", reads.display().to_string())
        .environment("HOME", folder.path().display().to_string());
    let process = Process::start("informer", &invocation, folder.path())?;
    let reported = async |kind: &str, key: &str| {
        let what = format!("{kind} {key}");
        let found = process.line(&what, SOON, |line| {
            let said: Value = serde_json::from_str(line).ok()?;
            // GONE is a removal that it found out by listing again.
            let is_meant = said["handler"]["type"] == kind || (kind == "DELETED" && said["handler"]["type"] == "GONE");
            (is_meant && said["handler"]["key"] == key).then_some(())
        });
        found.await
    };
    reported("ADDED", "team-a/one").await?;
    for (name, node) in [("three", "node-2"), ("four", "node-1")] {
        objects::create(&client, pods, &pod(name, node)).await?;
    }
    reported("ADDED", "team-a/four").await?;
    objects::delete(&client, &format!("{pods}/one?gracePeriodSeconds=0")).await?;
    reported("DELETED", "team-a/one").await?;
    let said = process.stdout()?;
    ensure!(!said.contains("team-a/two") && !said.contains("team-a/three"), "other nodes' Pods: {said}");
    Ok(())
}

#[tokio::test]
async fn kube_rs_reads_here() -> Result<()> {
    let stage = Stage::shared().await?;
    let folder = RunDirectory::create("recipe")?;
    let reads = kubeconfig(stage, &folder, "recipe-kube-rs").await?;
    let blue = timeout(SOON, kube_rs::first_blue_shirts(&reads, 3)).await.context("no three blue shirts in time")??;
    // Another test paints the third sample for a moment.
    let samples = ["example1", "example2", "example3", "example4"];
    ensure!(blue.iter().all(|name| samples.contains(&name.as_str())) && blue.len() == 3, "{blue:?}");
    Ok(())
}

#[tokio::test]
async fn a_program_that_knows_only_its_pods_configuration_reads_here() -> Result<()> {
    let stage = Stage::shared().await?;
    let administrator = stage.administrator()?;
    // The endpoint's address is of no account here, only its authority.
    stage.serve_view(&administrator, "blue-shirts", &format!("https://{SERVICE}")).await?;
    let recipes = repository("e2e/tests/it/recipes");
    administrator.succeed(&format!("set -e; . {recipes}/drop-in.sh; kubectl apply -f {recipes}/drop-in.yaml")).await?;

    // What kubelet would do with that Pod.
    let folder = RunDirectory::create("recipe")?;
    let client = stage.control_plane.client();
    pod::project(&client, "team-a", "program", "fieldcache", &folder).await?;
    let made = client.get_json("/api/v1/namespaces/team-a/pods/program").await?;
    let container = &made["spec"]["containers"][0];
    ensure!(container["volumeMounts"][0]["mountPath"] == pod::SERVICE_ACCOUNT, "{container}");
    ensure!(container["volumeMounts"].as_array().map(Vec::len) == Some(1), "nothing is mounted besides: {container}");
    ensure!(container["env"][0]["name"] == "KUBERNETES_SERVICE_HOST", "{container}");
    let host = container["env"][0]["value"].as_str().context("a host")?;
    let (_, port) = host_and_port(stage.operator.address())?;

    // The program has no setting for fieldcache: without a kubeconfig it takes what a Pod has.
    let invocation = locate(Toolkit::Go)?
        .arguments(["-client=dynamic", "-group=stable.example.com", "-resource=shirts", "-kind=Shirt"])
        .arguments(["-field-selector=spec.color=blue,metadata.namespace=team-a"])
        .environment("HOME", folder.path().display().to_string());
    let process =
        Process::start(&unique::name("program"), &pod::within(folder.path(), host, port, &invocation)?, folder.path())?;
    for name in ["team-a/example1", "team-a/example2"] {
        let found = process.line(name, SOON, |line| {
            let said: Value = serde_json::from_str(line).ok()?;
            (said["handler"]["type"] == "ADDED" && said["handler"]["key"] == name).then_some(())
        });
        found.await?;
    }
    process.signal("TERM")?;
    let code = process.ended(Duration::from_secs(30)).await?;
    ensure!(code == 0, "{}", process.tail());
    ensure!(!process.stdout()?.contains("team-b/"), "only what it selects: {}", process.tail());
    Ok(())
}
