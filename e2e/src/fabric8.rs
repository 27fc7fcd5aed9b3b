//! `make fabric8`: informers of fabric8's Java client and of the official one, at kube-apiserver, at `serve` and
//! through a View.
//!
//! That of fabric8 opens every watch by WebSocket. Where that is not supported it watches over HTTP, so that a run also
//! has to show that `serve` accepted WebSockets. The official client watches over HTTP.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::clients::java;
use crate::control_plane::{ControlPlane, Settings, kubeconfig};
use crate::eventually::eventually;
use crate::fieldcache::Fieldcache;
use crate::http::{Client, Endpoint};
use crate::process::{Invocation, Process};
use crate::run_directory::RunDirectory;
use crate::viewed::Viewed;
use crate::workload::{Resource, definition};
use crate::{objects, unique};

/// How long each step may take: a Java program starts in seconds on a loaded machine.
const SOON: Duration = Duration::from_secs(60);
const NAMESPACE: &str = "default";

/// Runs it.
///
/// # Errors
/// When something that is needed cannot be had, or the informer does not follow what happens.
pub async fn run(say: &dyn Fn(&str)) -> Result<()> {
    let informers = java::build()?;
    say("the informers are built");
    let control_plane = Box::pin(ControlPlane::start(Settings::default())).await?;
    let client = control_plane.client();
    let resource = Resource::gadgets(&unique::group("fabric8"));
    objects::create_definition(&client, &definition(&resource.group)).await?;
    let argument = resource.argument();
    let file = control_plane.kubeconfig().display().to_string();
    let arguments = ["--kubeconfig", &file, "--resource", &argument, "--metrics-address", "127.0.0.1:0"];
    let serve = Box::pin(Fieldcache::serve(arguments.map(str::to_owned))).await?;
    let viewed = Box::pin(Viewed::start(&control_plane, &resource.group, resource.plural())).await?;
    let directory = RunDirectory::create("fabric8")?;
    let (base, authority) = (control_plane.endpoint().base(), control_plane.authority().certificate());
    let tokens = Tokens::create(&client).await?;
    let sides = [
        ("kube-apiserver", tokens.shown(kubeconfig(base, Some(&authority), None), None).await?),
        ("serve", kubeconfig(serve.address(), None, None)),
        ("view", tokens.shown(viewed.kubeconfig()?, Some("fieldcache.dev")).await?),
    ];
    for (program, informer) in informers {
        for (name, document) in &sides {
            let file = directory.write(&format!("{name}.kubeconfig"), document.to_string())?;
            let name = format!("{program}-{name}");
            follow(&client, &resource, &start(&name, &informer, &resource, &file, &directory)?)
                .await
                .with_context(|| format!("the informer of {name}"))?;
            say(&format!("{name}: the informer has listed, and received an added, a changed and a deleted object"));
        }
        if program == "fabric8" {
            let watches = watches_by_code(&serve, &resource.group).await?;
            ensure!(watches == ["101"], "watches of these codes, and not only by WebSocket: {watches:?}");
            say("serve: all watches of fabric8 were WebSockets");
        }
    }
    Ok(())
}

/// The status codes of the watches of a group that have ended at a server.
async fn watches_by_code(server: &Fieldcache, group: &str) -> Result<Vec<String>> {
    let address = |line: &str| Some(line.strip_prefix("metrics: ")?.strip_suffix("/metrics")?.to_owned());
    let address = server.process().line("the line with the address of the metrics", SOON, address).await?;
    let metrics = Endpoint::plain(&address)?.client();
    eventually("a watch has ended", SOON, async || {
        let text = metrics.get("/metrics").await?.success()?.text();
        let code = |line: &str| Some(line.split_once("code=\"")?.1.split_once('"')?.0.to_owned());
        let watches = text.lines().filter(|line| {
            line.starts_with("fieldcache_request_total{") && line.contains("WATCH") && line.contains(group)
        });
        let mut codes: Vec<String> = watches.filter_map(code).collect();
        codes.dedup();
        ensure!(!codes.is_empty(), "none so far");
        Ok(codes)
    })
    .await
}

/// Makes tokens of a ServiceAccount that may do everything. fabric8 does not read the keys of the certificates of tests.
struct Tokens<'a>(&'a Client);

impl Tokens<'_> {
    async fn create(client: &Client) -> Result<Tokens<'_>> {
        let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "fabric8" } });
        objects::create(client, "/api/v1/namespaces/default/serviceaccounts", &account).await?;
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": { "name": "fabric8" },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin" },
            "subjects": [{ "kind": "ServiceAccount", "namespace": "default", "name": "fabric8" }],
        });
        objects::create(client, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding).await?;
        Ok(Tokens(client))
    }

    /// The same kubeconfig document with a token for an audience, or for kube-apiserver.
    async fn shown(&self, mut document: Value, audience: Option<&str>) -> Result<Value> {
        let audiences: Vec<&str> = audience.into_iter().collect();
        let request = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": { "audiences": audiences },
        });
        let path = "/api/v1/namespaces/default/serviceaccounts/fabric8/token";
        let answer = objects::create(self.0, path, &request).await?;
        document["users"][0]["user"] = json!({ "token": answer["status"]["token"] });
        Ok(document)
    }
}

fn start(
    name: &str,
    informer: &Invocation,
    resource: &Resource,
    kubeconfig: &Path,
    directory: &RunDirectory,
) -> Result<Process> {
    let text = |name: &str, value: &str| [format!("-{name}"), value.to_owned()];
    let invocation = informer
        .clone()
        .arguments(text("kubeconfig", &kubeconfig.display().to_string()))
        .arguments(text("group", &resource.group))
        .arguments(text("version", "v1"))
        .arguments(text("resource", resource.plural()))
        .arguments(text("kind", resource.kind()))
        .environment("HOME", directory.path().display().to_string());
    Process::start(name, &invocation, directory.path())
}

/// What the informer wrote under this name, up to the first for which `is_meant` holds.
async fn said(informer: &Process, name: &str, is_meant: impl Fn(&Value) -> bool) -> Result<Value> {
    eventually(&format!("a line {name}"), SOON, async || {
        let mut last = Value::Null;
        for line in informer.stdout()?.lines() {
            last = serde_json::from_str(line).with_context(|| line.to_owned())?;
            if let Some(content) = last.get(name).filter(|content| is_meant(content)) {
                return Ok(content.clone());
            }
        }
        bail!("the last line is {last}")
    })
    .await
    .with_context(|| informer.tail())
}

/// Changes objects while the informer runs, and compares what it received and what it holds.
async fn follow(client: &Client, resource: &Resource, informer: &Process) -> Result<()> {
    let collection = resource.path(NAMESPACE);
    let path = |name: &str| format!("{collection}/{name}");
    let create =
        async |name: &str| objects::create(client, &collection, &resource.object(name, "a", "blue", "M")).await;
    let receives = async |kind: &str, name: &str, version: &Value| {
        let key = format!("{NAMESPACE}/{name}");
        let event = said(informer, "handler", |event| event["type"] == kind && event["key"] == key.as_str()).await?;
        ensure!(event["resourceVersion"] == *version, "{event}, not {version}");
        Ok(())
    };
    // Created before the informer has started, or it receives it as of the next one.
    let first = create("first").await?;
    said(informer, "list", |_| true).await?;
    receives("ADDED", "first", &first["metadata"]["resourceVersion"]).await?;
    let second = create("second").await?;
    receives("ADDED", "second", &second["metadata"]["resourceVersion"]).await?;
    let second = objects::merge(client, &path("second"), &json!({ "spec": { "color": "green" } })).await?;
    receives("MODIFIED", "second", &second["metadata"]["resourceVersion"]).await?;
    objects::delete(client, &path("first")).await?;
    let deleted = |event: &Value| event["type"] == "DELETED" && event["key"] == format!("{NAMESPACE}/first").as_str();
    said(informer, "handler", deleted).await?;
    informer.signal("TERM")?;
    let store = said(informer, "store", |_| true).await?;
    let expected_store = json!({ format!("{NAMESPACE}/second"): second["metadata"]["resourceVersion"] });
    ensure!(store == expected_store, "it holds {store}, not {expected_store}");
    objects::delete(client, &path("second")).await.map(drop)
}
