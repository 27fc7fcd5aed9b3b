//! Unmodified informers that move between two replicas of fieldcache and kube-apiserver, as behind a load balancer.
//! They continue from their last version, whichever server responds.

use std::cell::{Ref, RefCell};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::clients::{Toolkit, locate};
use e2e::control_plane::ControlPlane;
use e2e::eventually::eventually;
use e2e::faults::proxy::Proxy;
use e2e::fieldcache::Fieldcache;
use e2e::http::{Client, Endpoint};
use e2e::objects;
use e2e::process::Process;
use e2e::run_directory::RunDirectory;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::{Shirts, version};

/// Moves of all informers together.
const MOVES: usize = 200;
/// client-go lists again after a watch that reported nothing and was shorter than a second, whichever side ended it.
const BETWEEN_MOVES: Duration = Duration::from_millis(1_100);
const SOON: Duration = Duration::from_secs(60);

/// An informer that runs.
struct Informer {
    name: &'static str,
    relay: Proxy,
    process: Process,
    said: RefCell<Said>,
}

/// What an informer said so far: its requests and what came.
#[derive(Default)]
struct Said {
    /// So much of its output was read. It is long, and the relays run on the same thread: nothing is read twice.
    read: u64,
    resumed: usize,
    /// When it was seen that a watch has begun, unless another request has failed since.
    watching_since: Option<Instant>,
    lists: usize,
    refused: Vec<Value>,
    /// Versions, as they came over the wire.
    events: Vec<u64>,
    /// The newest version that its handlers received: its store is as new.
    handled: u64,
    store: Option<Value>,
}

impl Informer {
    /// Reads on in what it says.
    fn said(&self) -> Result<Ref<'_, Said>> {
        let mut said = self.said.borrow_mut();
        let mut read = said.read;
        let text = self.process.stdout_lines_after(&mut read)?;
        let lines = text.lines().map(|line| serde_json::from_str(line).with_context(|| line.to_owned()));
        // Each is read once, or is in the way for ever.
        for line in lines.collect::<Result<Vec<Value>>>()? {
            said.take(&line);
        }
        said.read = read;
        drop(said);
        Ok(self.said.borrow())
    }
}

impl Said {
    fn take(&mut self, line: &Value) {
        let version = |event: &Value| event["resourceVersion"].as_str().and_then(|text| text.parse().ok()).unwrap_or(0);
        if let Some(request) = line.get("request") {
            let is_watch = request["verb"] == "watch";
            let status = request["status"].as_u64();
            self.watching_since = (is_watch && status == Some(200)).then(Instant::now);
            match status {
                Some(200) if is_watch && request["sendInitialEvents"] == false => self.resumed += 1,
                // A connection that was cut during the request says nothing of the servers.
                Some(200) | None => {}
                Some(_) => self.refused.push(request.clone()),
            }
        } else if line.get("list").is_some() {
            self.lists += 1;
            // A watch that begins with a list counts its time from the end of that.
            self.watching_since = self.watching_since.map(|_| Instant::now());
        } else if let Some(event) = line.get("event") {
            self.events.push(version(event));
        } else if let Some(event) = line.get("handler") {
            self.handled = self.handled.max(version(event));
        } else if let Some(error) = line.get("error") {
            self.refused.push(error.clone());
        } else if let Some(store) = line.get("store") {
            self.store = Some(store.clone());
        }
    }
}

/// Keys and versions of a list.
async fn truth(client: &Client, path: &str) -> Result<Value> {
    let list = client.get_json(path).await?;
    let mut found = json!({});
    for item in list["items"].as_array().context("no items")? {
        let metadata = &item["metadata"];
        let key = format!(
            "{}/{}",
            metadata["namespace"].as_str().unwrap_or_default(),
            metadata["name"].as_str().unwrap_or_default()
        );
        found[key] = metadata["resourceVersion"].clone();
    }
    Ok(found)
}

/// Changes ConfigMaps without a pause until it is stopped.
async fn churn(writer: Client, collection: String, ends: watch::Receiver<bool>) -> Result<()> {
    for number in 0_u64.. {
        if *ends.borrow() {
            break;
        }
        let path = format!("{collection}/churning-{}", number % 5);
        objects::merge(&writer, &path, &json!({ "data": { "number": number.to_string() } })).await?;
    }
    Ok(())
}

#[tokio::test]
async fn informers_move_two_hundred_times_without_a_refusal_or_a_relist() -> Result<()> {
    let control_plane = ControlPlane::shared().await?;
    let writer = control_plane.client();
    let shirts = Shirts::define(&writer).await?;
    for number in 0..20 {
        shirts.create(&writer, &format!("s{number}"), if number % 2 == 0 { "blue" } else { "green" }).await?;
    }
    let namespace = objects::create_namespace(&writer).await?;
    let churning = format!("/api/v1/namespaces/{namespace}/configmaps");
    for number in 0..5 {
        let object =
            json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": format!("churning-{number}") } });
        objects::create(&writer, &churning, &object).await?;
    }

    let directory = RunDirectory::create("moves")?;
    let identity = control_plane.authority().server("fieldcache", &[])?;
    let certificate = directory.write("tls.crt", &identity.certificate)?;
    let key = directory.write("tls.key", &identity.key)?;
    let arguments = [
        "--kubeconfig".to_owned(),
        control_plane.kubeconfig().display().to_string(),
        "--resource".to_owned(),
        shirts.resource(),
        "--resource".to_owned(),
        "configmaps.v1".to_owned(),
    ];
    let authority = control_plane.authority().certificate();
    let mut replicas = Vec::new();
    for _ in 0..2 {
        let replica = Fieldcache::serve_tls(arguments.clone(), &certificate, &key, &authority);
        let replica = Box::pin(replica).await?;
        let reader = replica.client();
        eventually("the replica has loaded", SOON, async || {
            for path in [&shirts.collection, &churning] {
                reader.get(path).await?.success()?;
            }
            Ok(())
        })
        .await?;
        replicas.push(replica);
    }
    // No client can resume from before a server's own list, at kube-apiserver no more than here. So informers begin
    // with a version that is newer than the lists of all three.
    let newest = [
        (&shirts.collection, shirts.color(&writer, "s1", "red").await?),
        (
            &churning,
            version(&objects::merge(&writer, &format!("{churning}/churning-0"), &json!({ "data": {} })).await?)?,
        ),
    ];
    for reader in [writer.clone(), replicas[0].client(), replicas[1].client()] {
        for (collection, newest) in newest {
            eventually(&format!("{collection} is shown at {newest}"), SOON, async || {
                let shown = version(&reader.get_json(&format!("{collection}?resourceVersion=0")).await?)?;
                ensure!(shown >= newest, "it is shown at {shown}");
                Ok(())
            })
            .await?;
        }
    }
    let host = |endpoint: &Endpoint| endpoint.base().trim_start_matches("https://").to_owned();
    let servers = [host(replicas[0].endpoint()), host(control_plane.endpoint()), host(replicas[1].endpoint())];

    let blue = "-field-selector=spec.color=blue";
    let of_shirts = ["-group", &shirts.group, "-resource", "shirts", "-kind", "Shirt"];
    let of_maps = ["-resource", "configmaps", "-kind", "ConfigMap", "-namespace", &namespace];
    let rows: [(&str, &[&str], &[&str], &str); 4] = [
        ("quiet, dynamic", &["-client", "dynamic"], &of_shirts, "true"),
        ("quiet, selected, without watch-list", &["-client", "dynamic", blue], &of_shirts, "false"),
        ("churning, dynamic", &["-client", "dynamic"], &of_maps, "true"),
        ("churning, without watch-list", &["-client", "dynamic"], &of_maps, "false"),
    ];
    let mut informers = Vec::new();
    for (number, (name, family, resource, watch_list)) in rows.into_iter().enumerate() {
        let relay = Proxy::of_bytes(&servers[number % servers.len()]).await?;
        let kubeconfig = control_plane.kubeconfig_for(&format!("https://{}", relay.address()));
        let file = directory.write(&format!("kubeconfig-{number}"), kubeconfig.to_string())?;
        let invocation = locate(Toolkit::Go)?
            .arguments(["-kubeconfig".to_owned(), file.display().to_string()])
            .arguments(family.iter().chain(resource).copied())
            .environment("KUBE_FEATURE_WatchListClient", watch_list)
            .environment("HOME", directory.path().display().to_string());
        let process = Process::start(&format!("informer-{number}"), &invocation, directory.path())?;
        informers.push(Informer { name, relay, process, said: RefCell::default() });
    }
    let (end_churn, ends) = watch::channel(false);
    let churner = tokio::spawn(churn(writer.clone(), churning.clone(), ends));
    for informer in &informers {
        eventually(&format!("{} has listed and watches", informer.name), SOON, async || {
            let said = informer.said()?;
            ensure!(said.lists == 1, "{} lists\n{}", said.lists, informer.process.tail());
            Ok(())
        })
        .await?;
    }
    for round in 0..MOVES / informers.len() {
        for informer in &informers {
            eventually(&format!("{} watches before move {round}", informer.name), SOON, async || {
                let since = informer.said()?.watching_since.context("no watch")?;
                ensure!(since.elapsed() > BETWEEN_MOVES, "not for long");
                Ok(())
            })
            .await?;
        }
        let before = informers.iter().map(|informer| Ok(informer.said()?.resumed)).collect::<Result<Vec<_>>>()?;
        for (number, informer) in informers.iter().enumerate() {
            informer.relay.move_to(&servers[(round + number + 1) % servers.len()]);
        }
        for (informer, before) in informers.iter().zip(before) {
            eventually(&format!("{} goes on after move {round}", informer.name), SOON, async || {
                let resumed = informer.said()?.resumed;
                ensure!(resumed > before, "{resumed} watches\n{}", informer.process.tail());
                Ok(())
            })
            .await?;
        }
    }
    ensure!(!churner.is_finished(), "the churning ended before the moves did: {:?}", churner.await);
    end_churn.send_replace(true);
    churner.await.context("the churning")??;
    let last = shirts.color(&writer, "s4", "red").await?;

    for (informer, path) in informers.iter().zip([
        shirts.collection.clone(),
        format!("{}?fieldSelector=spec.color%3Dblue", shirts.collection),
        churning.clone(),
        churning,
    ]) {
        let name = informer.name;
        let expected = truth(&writer, &path).await?;
        let newest =
            expected.as_object().into_iter().flatten().filter_map(|(_, text)| text.as_str()?.parse().ok()).max();
        let newest: u64 = if path.contains("shirts") { last } else { newest.context("no version")? };
        eventually(&format!("{name} receives the last change"), SOON, async || {
            let handled = informer.said()?.handled;
            ensure!(handled >= newest, "received {handled}, not {newest}\n{}", informer.process.tail());
            Ok(())
        })
        .await?;
        informer.process.signal("TERM")?;
        informer.process.ended(SOON).await?;
        let said = informer.said()?;
        ensure!(said.refused.is_empty(), "{name}: refused: {:?}", said.refused);
        ensure!(said.lists == 1, "{name}: {} lists", said.lists);
        ensure!(said.store == Some(expected.clone()), "{name}: it holds {:?} instead of {expected}", said.store);
        let mut versions = said.events.clone();
        let reported = versions.len();
        ensure!(versions.is_sorted(), "{name}: events out of order");
        versions.dedup();
        ensure!(versions.len() == reported, "{name}: an event came twice");
        println!(
            "{name}: {} moves, {} resumed watches, {reported} events in order, none twice, no refusal, no relist",
            MOVES / rows.len(),
            said.resumed
        );
    }
    Ok(())
}
