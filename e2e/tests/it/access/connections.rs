//! Connections without credentials: they end, they do not keep out clients with valid tokens, and probes get responses
//! throughout.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use e2e::eventually::eventually;
use e2e::fieldcache::Fieldcache;
use e2e::http::{Client, Endpoint, Protocol};
use e2e::objects;
use e2e::run_directory::RunDirectory;
use http_body_util::Empty;
use hyper::client::conn::http2;
use hyper_util::rt::TokioExecutor;
use serde_json::json;
use tokio::process::Command;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tower::ServiceExt;

use super::stage::{GROUP, SOON, Stage, arguments};

/// `--max-connections`; a quarter of them is for connections without credentials.
const MOST: usize = 40;

/// A connection that sends no request, but answers PINGs.
struct Silent {
    _sender: http2::SendRequest<Empty<Bytes>>,
    ended: JoinHandle<()>,
}

/// Opens one; `None` if it is closed before both sides have shaken hands.
async fn silent(endpoint: &Endpoint) -> Option<Silent> {
    let uri = endpoint.base().parse().ok()?;
    let stream = timeout(SOON, endpoint.connector().oneshot(uri)).await.ok()?.ok()?;
    let handshake = timeout(SOON, http2::handshake(TokioExecutor::new(), stream)).await.ok()?;
    let (sender, connection) = handshake.ok()?;
    let ended = tokio::spawn(async move {
        // How it ends is not looked at.
        let _ = connection.await;
    });
    Some(Silent { _sender: sender, ended })
}

/// Sends a request to the port for probes as the kubelet does, on a connection of its own.
async fn probe(health: &Endpoint) -> Result<()> {
    for path in ["/livez", "/readyz"] {
        let answer = timeout(Duration::from_secs(10), health.client().get(path)).await.context(path)??;
        ensure!(answer.status == 200 && answer.text() == "ok", "{path}: {answer:?}");
    }
    Ok(())
}

/// An operator of its own: its endpoint without credentials, that of its probes, and that with a valid token.
async fn operator(stage: &Stage, folder: &Path) -> Result<(Fieldcache, Endpoint, Endpoint)> {
    let most = MOST.to_string();
    let own = ["--identity", "other", "--max-connections", &most, "--health-address", "127.0.0.1:0"];
    let arguments = arguments().into_iter().chain(own.map(str::to_owned));
    let operator = Box::pin(Fieldcache::operator(&stage.kubeconfig, folder, arguments)).await?;
    let reported = operator.process().line("the line with the address of the probes", SOON, |line| {
        let (_, url) = line.split_once("health checks: ")?;
        Some(url.split_once("/readyz")?.0.to_owned())
    });
    let health = Endpoint::plain(&reported.await?)?;
    let token = stage.token(Some("fieldcache.dev")).await?;
    let reader = operator.endpoint().clone().with_token(&token)?;
    eventually("the operator is ready", SOON, async || probe(&health).await).await?;
    Ok((operator, health, reader))
}

fn host_ports() -> String {
    format!("/apis/{GROUP}/v1/namespaces/team/hostports")
}

async fn is_answered(client: &Client) -> Result<()> {
    client.get(&host_ports()).await?.success().map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_without_credentials_end_and_block_no_other() -> Result<()> {
    let stage = Box::pin(Stage::set()).await?;
    let folder = RunDirectory::create("connections")?;
    let (operator, health, reader) = Box::pin(operator(&stage, folder.path())).await?;
    let watching = reader.clone().speaking(Protocol::Http2).client();
    let mut watch = watching.watch(&format!("{}?watch=1", host_ports())).await?;

    // Five times as many as there may be, in rounds. After each round a new client and the probes must get responses.
    let mut flood = Vec::new();
    for round in 0..5 {
        for _ in 0..MOST {
            flood.extend(silent(operator.endpoint()).await);
        }
        is_answered(&reader.client()).await.with_context(|| format!("round {round}: a client with a valid token"))?;
        probe(&health).await.with_context(|| format!("round {round}"))?;
    }
    ensure!(flood.len() >= MOST, "the flood was none: {}", flood.len());
    eventually("every connection without a request has ended", Duration::from_secs(120), async || {
        let open = flood.iter().filter(|silent| !silent.ended.is_finished()).count();
        ensure!(open == 0, "{open} are open");
        Ok(())
    })
    .await?;

    // The watch has nothing to send meanwhile, and keeps its connection.
    let one = json!({ "apiVersion": format!("{GROUP}/v1"), "kind": "HostPort", "metadata": { "name": "late" }, "hostPort": "b:2" });
    objects::create(&stage.control_plane.client(), &host_ports(), &one).await?;
    loop {
        let event = watch.event(SOON).await.context("the watch has ended")?;
        if event["object"]["metadata"]["name"] == "late" {
            break;
        }
    }
    operator.process().ensure_running()
}

#[tokio::test(flavor = "multi_thread")]
async fn probes_are_answered_without_a_file_descriptor_left() -> Result<()> {
    let stage = Box::pin(Stage::set()).await?;
    let folder = RunDirectory::create("descriptors")?;
    let (operator, health, reader) = Box::pin(operator(&stage, folder.path())).await?;
    is_answered(&reader.client()).await?;
    let process = operator.process().id().to_string();
    // No number below the limit is free: numbers are given from the lowest.
    let open_files = std::fs::read_dir(format!("/proc/{process}/fd"))?.count();
    let limit = async |soft: String| {
        let done = Command::new("prlimit").args(["--pid", &process, &format!("--nofile={soft}:")]).status().await?;
        ensure!(done.success(), "prlimit --nofile={soft}: {done}");
        anyhow::Ok(())
    };
    limit(open_files.to_string()).await?;
    let mut waiting = Vec::new();
    eventually("the process cannot accept a connection any more", SOON, async || {
        waiting.extend(silent(operator.endpoint()).await);
        ensure!(operator.process().stderr()?.contains("cannot accept a connection"), "it still can");
        Ok(())
    })
    .await?;
    for _ in 0..20 {
        probe(&health).await?;
    }
    limit("4096".to_owned()).await?;
    drop(waiting);
    eventually("clients are served again", SOON, async || is_answered(&reader.client()).await).await
}
