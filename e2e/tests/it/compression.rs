//! Compression on both lines: what fieldcache reads from a source, and what clients read from fieldcache.
//!
//! Relays hand requests on and note how the responses were compressed. [`super::parity`] compares which requests
//! kube-apiserver compresses. Here clients must understand the response, and fieldcache must request compression from a
//! source where that is worth it.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use e2e::clients::{self, Toolkit};
use e2e::control_plane::{ControlPlane, Settings};
use e2e::eventually::eventually;
use e2e::fieldcache::Fieldcache;
use e2e::http::Client;
use e2e::objects;
use e2e::process::{Invocation, Process};
use e2e::relay::{Exchange, Relay, other_address};
use e2e::run_directory::RunDirectory;
use e2e::selection::Selection;
use e2e::unique;
use e2e::workload::{NAMESPACES, Resource, definition};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

const SOON: Duration = Duration::from_secs(120);
const GROUP: &str = "compressed.example.com";
const CONFIG_MAPS: &str = "/api/v1/configmaps";
/// Lists of so many objects have several pages.
const OBJECTS: usize = 700;
/// What a list of these objects shrinks to, at most: a part of so many.
const SHRINKS: u64 = 4;

/// A kube-apiserver without streaming lists, so that fieldcache reads it in pages, and a fieldcache, which has them.
struct Stage {
    control_plane: ControlPlane,
    fieldcache: Fieldcache,
}

impl Stage {
    async fn shared() -> Result<&'static Stage> {
        static SHARED: OnceCell<Result<Stage, String>> = OnceCell::const_new();
        let started =
            SHARED.get_or_init(async || Box::pin(Stage::start()).await.map_err(|error| format!("{error:#}"))).await;
        started.as_ref().map_err(|error| anyhow!("the stage did not start: {error}"))
    }

    async fn start() -> Result<Stage> {
        let apiserver_arguments = vec!["--feature-gates=WatchList=false".to_owned()];
        let control_plane = ControlPlane::start(Settings { apiserver_arguments, ..Settings::default() }).await?;
        let client = control_plane.client();
        for number in 0..OBJECTS {
            let map = config_map(&format!("map-{number}"));
            objects::create(&client, "/api/v1/namespaces/default/configmaps", &map).await?;
        }
        objects::create_definition(&client, &definition(GROUP)).await?;
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACES[0] } });
        objects::create(&client, "/api/v1/namespaces", &namespace).await?;
        let resources = ["configmaps.v1", &gadgets().argument()];
        let fieldcache = Fieldcache::serve_cluster(control_plane.kubeconfig(), &resources).await?;
        Ok(Stage { control_plane, fieldcache })
    }
}

fn gadgets() -> Resource {
    Resource::gadgets(GROUP)
}

fn config_map(name: &str) -> Value {
    let lines: Vec<String> =
        (0..40).map(|line| format!("setting-{line} = {name}, and some more text of line {line}")).collect();
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "text": lines.join("\n") } })
}

/// The objects of a list, without its own version.
async fn listed(client: &Client) -> Result<Value> {
    Ok(client.get_json(CONFIG_MAPS).await?["items"].take())
}

#[tokio::test(flavor = "multi_thread")]
async fn gzip_is_requested_of_a_source_unless_it_is_on_the_loopback_interface() -> Result<()> {
    let stage = Stage::shared().await?;
    let source = stage.control_plane.client();
    let remote = other_address()?;
    for (way, endpoint, mark) in [
        ("pages", stage.control_plane.endpoint(), "limit=500"),
        ("a streaming list", stage.fieldcache.endpoint(), "sendInitialEvents=true"),
    ] {
        let (mut bytes, mut copies) = (Vec::new(), Vec::new());
        for (address, expected) in [(IpAddr::V4(Ipv4Addr::LOCALHOST), None), (remote, Some("gzip"))] {
            let relay = Relay::start(address, endpoint).await?;
            let arguments = ["--pass-through", "off", "--resource", "configmaps.v1", "--server", &relay.base()];
            let fieldcache = Fieldcache::serve(arguments.map(str::to_owned)).await?;
            let client = fieldcache.client();
            eventually("the store is complete", SOON, async || {
                ensure!(listed(&client).await? == listed(&source).await?, "not yet");
                Ok(())
            })
            .await
            .with_context(|| fieldcache.process().tail())?;
            let exchanges = relay.exchanges();
            let is_list = |exchange: &&Exchange| {
                exchange.path.starts_with(&format!("{CONFIG_MAPS}?")) && exchange.path.contains(mark)
            };
            let lists: Vec<&Exchange> = exchanges.iter().filter(is_list).collect();
            ensure!(!lists.is_empty(), "{way}, {address}: nothing was read so: {exchanges:?}");
            for list in &lists {
                ensure!(list.accepted.as_deref() == expected, "{way}, {address}: {list:?}");
            }
            // The last page may be too short to be compressed.
            ensure!(lists[0].encoding.as_deref() == expected, "{way}, {address}: {:?}", lists[0]);
            bytes.push(lists.iter().map(|list| list.bytes()).sum::<u64>());
            copies.push((relay, fieldcache));
        }
        ensure!(bytes[1] * SHRINKS < bytes[0], "{way}: {bytes:?} bytes");
        say(&format!("{way}: {} bytes, {} compressed", bytes[0], bytes[1]));
        // What comes after the list comes too.
        let name = unique::name("after");
        objects::create(&source, "/api/v1/namespaces/default/configmaps", &config_map(&name)).await?;
        for (_, fieldcache) in &copies {
            let client = fieldcache.client();
            eventually("a change arrives", SOON, async || {
                ensure!(listed(&client).await? == listed(&source).await?, "not yet");
                Ok(())
            })
            .await
            .with_context(|| fieldcache.process().tail())?;
        }
    }
    Ok(())
}

const JSON: &str = "application/json";

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// Starts a client that follows gadgets in this media type through a relay, and says of each object that it has come, and how.
async fn understands(
    name: &str,
    media_type: &str,
    invocation: impl Fn(&RunDirectory, &str) -> Result<Invocation>,
) -> Result<()> {
    let stage = Stage::shared().await?;
    let writer = stage.control_plane.client();
    let collection = gadgets().path(NAMESPACES[0]);
    let [before, after] = ["before", "after"].map(unique::name);
    let create = async |name: &str| {
        objects::create(&writer, &collection, &gadgets().object(name, "a", "blue", "L")).await.map(drop)
    };
    create(&before).await?;
    let shown = stage.fieldcache.client();
    eventually("fieldcache has it", SOON, async || shown.get_json(&format!("{collection}/{before}")).await).await?;
    let relay = Relay::start(IpAddr::V4(Ipv4Addr::LOCALHOST), stage.fieldcache.endpoint()).await?;
    let directory = RunDirectory::create("compressed")?;
    clients::write_kubeconfigs(&directory, &relay.base())?;
    let process = Process::start(name, &invocation(&directory, &relay.base())?, directory.path())?;
    let reported = async |object: &str| {
        let found = process.line(object, SOON, |line| line.contains(object).then_some(()));
        found.await.with_context(|| process.tail())
    };
    reported(&before).await?;
    create(&after).await?;
    reported(&after).await?;
    let exchanges = relay.exchanges();
    let watches: Vec<&Exchange> =
        exchanges.iter().filter(|exchange| exchange.path.contains("sendInitialEvents=true")).collect();
    let is_expected = |watch: &&Exchange| {
        let has_media_type = watch.media_type.as_ref().is_some_and(|found| found.starts_with(media_type));
        has_media_type && watch.encoding.as_deref() == Some("gzip")
    };
    ensure!(watches.len() == 1 && watches.iter().all(is_expected), "{name}: {exchanges:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn client_gos_reflector_reads_compressed_watches() -> Result<()> {
    understands("client-go", JSON, |directory, _| {
        let selection = Selection::everything().within(NAMESPACES[0]);
        Ok(clients::follow(Toolkit::Go, directory, &gadgets(), &selection)?
            .arguments(["-client=dynamic"])
            .environment("KUBE_FEATURE_WatchListClient", "true"))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn client_gos_metadata_informer_reads_compressed_watches_in_protobuf() -> Result<()> {
    understands("client-go-metadata", PROTOBUF, |directory, _| {
        let selection = Selection::everything().within(NAMESPACES[0]);
        Ok(clients::follow(Toolkit::Go, directory, &gadgets(), &selection)?
            .arguments(["-client=metadata"])
            .environment("KUBE_FEATURE_WatchListClient", "true"))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_javascript_clients_watch_reads_compressed_watches() -> Result<()> {
    understands("javascript", JSON, |directory, _| {
        let selection = Selection::everything().within(NAMESPACES[0]);
        Ok(clients::follow(Toolkit::JavaScript, directory, &gadgets(), &selection)?
            .arguments(["-streaming-list", "true"]))
    })
    .await
}

/// The Python client requests no gzip by itself. urllib3, on which it depends, decompresses for any client that does.
#[tokio::test(flavor = "multi_thread")]
async fn pythons_urllib3_reads_compressed_watches() -> Result<()> {
    const PROGRAM: &str = r#"
import sys, urllib3
answer = urllib3.PoolManager().request("GET", sys.argv[1], headers={"Accept-Encoding": "gzip"}, preload_content=False)
for piece in answer.stream(amt=None, decode_content=True):
    sys.stdout.write(piece.decode())
    sys.stdout.flush()
"#;
    understands("python", JSON, |_, base| {
        let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
        let url = format!("{base}{}?{query}", gadgets().path(NAMESPACES[0]));
        Ok(clients::interpreter(Toolkit::Python)?.arguments(["-c", PROGRAM, &url]))
    })
    .await
}

#[expect(clippy::print_stdout, reason = "figures for readers of the test's output")]
fn say(what: &str) {
    println!("compression: {what}");
}
