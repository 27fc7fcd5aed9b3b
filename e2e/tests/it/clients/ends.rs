//! What informers hold when a resource has ended: nothing, as nothing is left of it at kube-apiserver.
//!
//! Their next list gets 404, so it removes nothing from their stores. Every object must have been reported as deleted
//! before. The events of the source are on their way for a while after its definition says that the resource has ended.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::clients::log::{EVENT, HANDLER, LIST, Log, Objects};
use e2e::clients::{Toolkit, write_kubeconfigs};
use e2e::control_plane::{ControlPlane, kubeconfig};
use e2e::eventually::eventually;
use e2e::faults::proxy::Proxy;
use e2e::fieldcache::Fieldcache;
use e2e::http::{Client, Next};
use e2e::run_directory::RunDirectory;
use e2e::selection::Selection;
use e2e::workload::{Resource, definition};
use e2e::{objects, unique};
use serde_json::{Value, json};
use tokio::task::LocalSet;

use super::contenders::{Contender, Program, Strategy};
use super::run::{Running, start};

/// The resource is used by no other test, so its namespace need not be.
const NAMESPACE: &str = "default";
/// Objects of the resource.
const COUNT: usize = 10;
/// How much later each event of the source arrives.
const DELAY: Duration = Duration::from_millis(600);
const PATIENCE: Duration = Duration::from_secs(120);

/// How a resource ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// Its definition is deleted, and with it the only one of its group.
    Definition,
    /// Its definition is deleted, and there is one of another name in its group.
    Renamed,
    /// Its version is not served any more. The objects exist in another one.
    Version,
}

/// One of each library.
fn informers(group: &str) -> Vec<Contender> {
    let go = |arguments, environment| Program::Process { toolkit: Toolkit::Go, arguments, environment };
    let short = |toolkit| Program::Process { toolkit, arguments: &["-timeout-seconds=60"], environment: &[] };
    let programs = [
        ("client-go-watch-list", go(&["-client=dynamic"], &[("KUBE_FEATURE_WatchListClient", "true")])),
        ("client-go-list", go(&["-client=dynamic"], &[("KUBE_FEATURE_WatchListClient", "false")])),
        ("controller-runtime", go(&["-client=manager"], &[])),
        ("kube-rs-list", Program::KubeRs(Strategy::ListWatch)),
        ("kube-rs-streaming-list", Program::KubeRs(Strategy::StreamingList)),
        ("python", short(Toolkit::Python)),
        ("javascript", short(Toolkit::JavaScript)),
    ];
    let to_contender = |(name, program)| Contender {
        name,
        program,
        resource: Resource::gadgets(group),
        selection: Selection::everything().within(NAMESPACE),
        resumes: false,
        bookmarks: true,
    };
    programs.into_iter().map(to_contender).collect()
}

/// The definition, with another version in which objects are stored.
fn two_versions(group: &str) -> Value {
    let mut definition = definition(group);
    let mut second = definition["spec"]["versions"][0].clone();
    second["name"] = json!("v2");
    definition["spec"]["versions"][0]["storage"] = json!(false);
    if let Some(versions) = definition["spec"]["versions"].as_array_mut() {
        versions.push(second);
    }
    definition
}

/// Ends it at kube-apiserver.
async fn end(client: &Client, group: &str, ending: Ending) -> Result<()> {
    let path = format!("{}/gadgets.{group}", objects::DEFINITIONS);
    if ending == Ending::Version {
        let mut versions = two_versions(group)["spec"]["versions"].clone();
        versions[0]["served"] = json!(false);
        return objects::merge(client, &path, &json!({ "spec": { "versions": versions } })).await.map(drop);
    }
    objects::delete(client, &path).await.map(drop)
}

/// Whether a client received these objects, in lines that begin like this.
fn received(text: &str, kind: &str, keys: &[String], beginnings: &[&str]) -> Result<()> {
    let lines: Vec<&str> = text.lines().filter(|line| beginnings.iter().any(|begin| line.starts_with(begin))).collect();
    let is_received =
        |key: &String| lines.iter().any(|line| line.contains(kind) && line.contains(&format!("\"{key}\"")));
    let missing: Vec<&String> = keys.iter().filter(|key| !is_received(key)).collect();
    ensure!(missing.is_empty(), "of {} objects it did not receive {kind}: {missing:?}", missing.len());
    Ok(())
}

/// The rest of a watch: the keys of DELETED events, and the types of all others but bookmarks.
async fn rest(client: Client, path: String) -> Result<(Vec<String>, Vec<String>)> {
    let mut watch = client.watch(&format!("{path}?watch=true&resourceVersion=0")).await?;
    let (mut deleted, mut others) = (Vec::new(), Vec::new());
    loop {
        let line = match watch.next(PATIENCE).await? {
            Next::Line(line) => line,
            Next::End => break,
            Next::Nothing => anyhow::bail!("a watch goes on, after {deleted:?}, {others:?}"),
        };
        let event: Value = serde_json::from_slice(&line)?;
        match event["type"].as_str().unwrap_or_default() {
            "ADDED" | "BOOKMARK" => {}
            "DELETED" => deleted.push(event["object"]["metadata"]["name"].as_str().unwrap_or_default().to_owned()),
            other => others.push(other.to_owned()),
        }
    }
    deleted.sort_unstable();
    Ok((deleted, others))
}

async fn run(ending: Ending) -> Result<()> {
    let control_plane = ControlPlane::shared().await?;
    let writer = control_plane.client();
    let group = unique::group("ends");
    let resource = Resource::gadgets(&group);
    let defined = if ending == Ending::Version { two_versions(&group) } else { definition(&group) };
    objects::create_definition(&writer, &defined).await?;
    let mut keys = Vec::new();
    for number in 0..COUNT {
        let name = format!("g{number}");
        let object = resource.object(&name, "a", "blue", "M");
        objects::create(&writer, &resource.path(NAMESPACE), &object).await?;
        keys.push(format!("{NAMESPACE}/{name}"));
    }
    let proxy = Proxy::of_requests(control_plane.endpoint()).await?;
    let directory = RunDirectory::create("ends")?;
    let source = kubeconfig(proxy.endpoint().base(), None, None);
    let source = directory.write("source", source.to_string())?;
    let fieldcache = Box::pin(Fieldcache::serve_cluster(&source, &[&resource.argument()])).await?;
    let reader = fieldcache.client();
    eventually("the resource is served", PATIENCE, async || reader.get_json(&resource.path("")).await.map(drop))
        .await?;
    write_kubeconfigs(&directory, fieldcache.address())?;
    let mut running: Vec<(Contender, Running)> = Vec::new();
    for contender in informers(&group) {
        let started = start(&contender, &fieldcache, &directory).with_context(|| contender.name)?;
        running.push((contender, started));
    }
    let mut rests = Vec::new();
    for (what, client) in [("kube-apiserver", control_plane.client()), ("fieldcache", fieldcache.client())] {
        rests.push((what, tokio::task::spawn_local(rest(client, resource.path("")))));
    }
    for (contender, informer) in &running {
        eventually(&format!("{} has listed", contender.name), PATIENCE, async || {
            informer.ensure_running()?;
            received(&informer.text()?, "", &keys, &[LIST, EVENT])
        })
        .await?;
    }

    proxy.delay_lines(&resource.path(""), DELAY);
    end(&writer, &group, ending).await?;
    for (what, rest) in rests {
        let (deleted, others) = rest.await??;
        let names: Vec<String> = (0..COUNT).map(|number| format!("g{number}")).collect();
        // kube-apiserver only ends the watches of a version that it does not serve any more. A client that receives all objects as
        // deleted must list when the version is served again.
        let (expected, messages): (Vec<String>, &[&str]) = match (ending, what) {
            (Ending::Version, "kube-apiserver") => (Vec::new(), &[]),
            (Ending::Version, _) => (names, &["ERROR"]),
            (Ending::Definition | Ending::Renamed, _) => (names, &[]),
        };
        ensure!(deleted == expected && others == messages, "{what} sent DELETED for {deleted:?}, and {others:?}");
    }
    eventually("it is not served any more", PATIENCE, async || {
        let answer = reader.get(&resource.path("")).await?;
        ensure!(answer.status == 404, "{}", answer.status);
        Ok(())
    })
    .await?;
    for (contender, informer) in running {
        let name = contender.name;
        eventually(&format!("{name} learns that nothing is left"), PATIENCE, async || {
            informer.ensure_running()?;
            received(&informer.text()?, "\"DELETED\"", &keys, &[EVENT, HANDLER])
        })
        .await?;
        let log = Log::read(&informer.end(&contender).await?)?;
        ensure!(log.store == Some(Objects::new()), "{name} holds {:?}", log.store);
        super::say(&format!("{name}: its store is empty after the end, {ending:?}"));
    }
    if ending == Ending::Version {
        // The objects were never deleted.
        let versions = two_versions(&group)["spec"]["versions"].clone();
        let path = format!("{}/gadgets.{group}", objects::DEFINITIONS);
        objects::merge(&writer, &path, &json!({ "spec": { "versions": versions } })).await?;
        eventually("the version is served again, with its objects", PATIENCE, async || {
            let count = reader.get_json(&resource.path("")).await?["items"].as_array().map_or(0, Vec::len);
            ensure!(count == COUNT, "{count} objects");
            Ok(())
        })
        .await?;
    }
    if ending == Ending::Renamed {
        let mut other = definition(&group);
        other["metadata"]["name"] = json!(format!("gizmos.{group}"));
        other["spec"]["names"] =
            json!({ "plural": "gizmos", "singular": "gizmo", "kind": "Gizmo", "listKind": "GizmoList" });
        objects::create_definition(&writer, &other).await?;
        eventually("the resource of the other name is served", PATIENCE, async || {
            reader.get_json(&format!("/apis/{group}/v1/gizmos")).await.map(drop)
        })
        .await?;
    }
    Ok(())
}

/// The tasks of kube-rs and of watches belong to one thread.
async fn on_one_thread(ending: Ending) -> Result<()> {
    LocalSet::new().run_until(Box::pin(run(ending))).await
}

#[tokio::test]
async fn stores_are_empty_after_a_definition_is_deleted_with_its_objects() -> Result<()> {
    on_one_thread(Ending::Definition).await
}

#[tokio::test]
async fn stores_are_empty_after_a_definition_is_replaced_by_one_of_another_name() -> Result<()> {
    on_one_thread(Ending::Renamed).await
}

#[tokio::test]
async fn stores_are_empty_after_a_version_is_not_served_any_more() -> Result<()> {
    on_one_thread(Ending::Version).await
}
