//! Strong reads: what was written to kube-apiserver before the request is in the answer, every time, also through a chain.

#![expect(clippy::print_stdout, reason = "figures for the person who runs the suite")]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::control_plane::{ControlPlane, Settings};
use e2e::eventually::eventually;
use e2e::fieldcache::Fieldcache;
use e2e::http::Client;
use e2e::kubectl::Kubectl;
use e2e::objects;
use e2e::run_directory::RunDirectory;
use e2e::statistics::percentile;
use serde_json::{Value, json};

use super::{Shirts, write_elsewhere};

/// Writes to the resource that is read, each followed by one read of every kind.
const WRITES: usize = 600;
/// Writes to another resource: each read waits up to 1.4 s for a progress notification.
const ELSEWHERE: usize = 8;

/// What each step may take before the first read.
const SOON: Duration = Duration::from_secs(60);

/// How the reads of one server were answered: by the header, their durations.
type Answered = BTreeMap<String, Vec<Duration>>;

/// Sends one read. Returns its response and counts how it was served.
async fn read(client: &Client, path: &str, answered: &mut Answered) -> Result<Value> {
    let began = Instant::now();
    let answer = client.read(path).await?;
    let how = answer.header("fieldcache-read").with_context(|| format!("{path}: nothing says how it was read"))?;
    answered.entry(how.to_owned()).or_default().push(began.elapsed());
    answer.json()
}

/// Names of a list's items.
fn names(list: &Value) -> Result<Vec<String>> {
    let items = list["items"].as_array().context("no items")?;
    Ok(items.iter().map(|item| item["metadata"]["name"].as_str().unwrap_or_default().to_owned()).collect())
}

/// All pages of a walk.
async fn walk(client: &Client, path: &str, answered: &mut Answered) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut next = path.to_owned();
    loop {
        let page = read(client, &next, answered).await?;
        found.extend(names(&page)?);
        match page["metadata"]["continue"].as_str().unwrap_or_default() {
            "" => return Ok(found),
            token => next = format!("{path}&continue={token}"),
        }
    }
}

fn say(what: &str, answered: &Answered) {
    let total: usize = answered.values().map(Vec::len).sum();
    println!("{what}: {total} Strong reads");
    for (how, durations) in answered {
        let share = 100.0 * durations.len() as f64 / total as f64;
        let (half, most) = (percentile(durations, 0.5), percentile(durations, 0.99));
        println!("  {how:<9} {share:5.1} %, p50 {half:.1?}, p99 {most:.1?}");
    }
}

/// Writes and reads at once, through one server; no answer may be older than its request.
async fn never_stale(
    writer: &Client,
    shirts: &Shirts,
    reader: &Client,
    writes: usize,
    elsewhere: usize,
) -> Result<Answered> {
    let mut answered = Answered::new();
    let namespace = objects::create_namespace(writer).await?;
    let by_color = |color: &str| format!("{}?fieldSelector=spec.color%3D{color}", shirts.collection);
    for number in 0..writes {
        // Each kind of read has a write of its own, so that none profits from the wait of the one before.
        let name = format!("s{}", number % 7);
        let mut color = format!("c{number}a");
        shirts.color(writer, &name, &color).await?;
        let found = names(&read(reader, &by_color(&color), &mut answered).await?)?;
        ensure!(found == [name.clone()], "write {number}: the selected list has {found:?}");

        color = format!("c{number}b");
        shirts.color(writer, &name, &color).await?;
        let all = read(reader, &shirts.collection, &mut answered).await?;
        let items = all["items"].as_array().context("no items")?;
        let seen = items.iter().find(|item| item["metadata"]["name"] == name.as_str()).context("it is not there")?;
        ensure!(seen["spec"]["color"] == color.as_str(), "write {number}: the whole list has {}", seen["spec"]);

        if number % 10 == 0 {
            color = format!("c{number}c");
            shirts.color(writer, &name, &color).await?;
            let found = walk(reader, &format!("{}&limit=1", by_color(&color)), &mut answered).await?;
            ensure!(found == [name.clone()], "write {number}: the pages have {found:?}");
            let found = walk(reader, &format!("{}?limit=3", shirts.collection), &mut answered).await?;
            ensure!(found.len() == 7, "write {number}: the pages have {found:?}");
        }

        color = format!("c{number}d");
        shirts.color(writer, &name, &color).await?;
        let one = read(reader, &format!("{}/{name}", shirts.collection), &mut answered).await?;
        ensure!(one["spec"]["color"] == color.as_str(), "write {number}: the object has {}", one["spec"]);
    }
    for _ in 0..elsewhere {
        let version = write_elsewhere(writer, &namespace).await?;
        let list = read(reader, &shirts.collection, &mut answered).await?;
        ensure!(super::version(&list)? >= version, "the list is not older than the write elsewhere");
    }
    Ok(answered)
}

#[tokio::test]
async fn strong_reads_are_never_stale_however_they_are_answered() -> Result<()> {
    let control_plane = ControlPlane::shared().await?;
    let writer = control_plane.client();
    let shirts = Shirts::define(&writer).await?;
    for number in 0..7 {
        shirts.create(&writer, &format!("s{number}"), "white").await?;
    }
    let kubeconfig = ["--kubeconfig".to_owned(), control_plane.kubeconfig().display().to_string()];
    let strong = |pass_through: &str| {
        let options = ["--consistency", "strong", "--pass-through", pass_through, "--resource"].map(str::to_owned);
        options.into_iter().chain([shirts.resource()])
    };
    let forwarding = Box::pin(Fieldcache::serve(kubeconfig.iter().cloned().chain(strong("read")))).await?;
    let waiting = Box::pin(Fieldcache::serve(kubeconfig.iter().cloned().chain(strong("off")))).await?;
    let upstream = ["--server".to_owned(), waiting.address().to_owned()];
    let chained = Box::pin(Fieldcache::serve(upstream.into_iter().chain(strong("off")))).await?;

    let answered = never_stale(&writer, &shirts, &forwarding.client(), WRITES, ELSEWHERE).await?;
    say("with pass-through", &answered);
    ensure!(answered.contains_key("forwarded"), "what the copy has not reached is forwarded");
    let answered = never_stale(&writer, &shirts, &waiting.client(), WRITES, ELSEWHERE).await?;
    say("without pass-through", &answered);
    ensure!(answered.contains_key("catch-up") && !answered.contains_key("forwarded"), "nothing is forwarded");
    let answered = never_stale(&writer, &shirts, &chained.client(), WRITES / 4, ELSEWHERE).await?;
    say("through a chain of two", &answered);
    ensure!(!answered.contains_key("forwarded"), "nothing is forwarded");

    for server in [&forwarding, &waiting, &chained] {
        server.process().ensure_running()?;
    }
    Ok(())
}

/// Writes that fields which only a FieldCache has are read right after.
const EXTRA_WRITES: usize = 1_000;

#[tokio::test(flavor = "multi_thread")]
async fn strong_reads_by_fields_that_only_fieldcache_has_are_never_stale() -> Result<()> {
    // Of its own: a FieldCache is seen by every operator of a cluster.
    let control_plane = ControlPlane::start(Settings::default()).await?;
    let writer = control_plane.client();
    let kubectl = Kubectl::with_kubeconfig(control_plane.kubeconfig())?;
    let crds = concat!(env!("CARGO_MANIFEST_DIR"), "/../crds");
    kubectl.succeed(&["apply", "--server-side", "-k", crds]).await?;
    let shirts = Shirts::define(&writer).await?;
    for number in 0..7 {
        shirts.create(&writer, &format!("s{number}"), "white").await?;
    }
    let field_caches = "/apis/fieldcache.dev/v1alpha1/fieldcaches";
    let name = format!("shirts.{}", shirts.group);
    let field_cache = json!({
        "apiVersion": "fieldcache.dev/v1alpha1", "kind": "FieldCache", "metadata": { "name": name },
        "spec": { "group": shirts.group, "resource": "shirts", "selectableFields": [
            { "name": "tint", "jsonPath": "$.spec.color" }, { "name": "mark", "jsonPath": "$.metadata.annotations.*" },
        ] },
    });
    eventually("the kind is served", SOON, async || {
        ensure!(writer.get(field_caches).await?.status == 200, "not yet");
        Ok(())
    })
    .await?;
    objects::create(&writer, field_caches, &field_cache).await?;
    let folder = RunDirectory::create("strong-extra")?;
    let arguments = ["--namespace", "default", "--identity", "one"].map(str::to_owned);
    let operator = Box::pin(Fieldcache::operator(control_plane.kubeconfig(), folder.path(), arguments)).await?;
    let somebody = control_plane.authority().client("somebody", Some("system:masters"))?;
    let reader = operator.as_client(folder.path(), &somebody)?.with_header("fieldcache-consistency", "Strong").client();
    let by = |field: &str, value: &str| format!("{}?fieldSelector={field}%3D{value}", shirts.collection);
    eventually("its fields select", SOON, async || {
        let found = names(&reader.get_json(&by("tint", "white")).await?)?;
        ensure!(found.len() == 7, "{found:?}");
        Ok(())
    })
    .await
    .with_context(|| operator.process().tail())?;
    // kube-apiserver knows neither: any client that handed such a read on would be refused.
    ensure!(writer.get(&by("tint", "white")).await?.status == 400, "the API server knows no field of a FieldCache");

    let mut answered = Answered::new();
    for number in 0..EXTRA_WRITES {
        let name = format!("s{}", number % 7);
        let (before, color) = (format!("c{}", number.wrapping_sub(7)), format!("c{number}"));
        let patch = json!({ "spec": { "color": color }, "metadata": { "annotations": { "mark": color } } });
        objects::merge(&writer, &format!("{}/{name}", shirts.collection), &patch).await?;
        for field in ["tint", "mark"] {
            let found = names(&read(&reader, &by(field, &color), &mut answered).await?)?;
            ensure!(found == [name.clone()], "write {number}: {field} has {found:?}");
        }
        let left = names(&read(&reader, &by("tint", &before), &mut answered).await?)?;
        ensure!(left.is_empty(), "write {number}: {left:?} is found where it was before");
    }
    say("by fields that only fieldcache has", &answered);
    ensure!(!answered.contains_key("forwarded"), "only fieldcache can respond");
    operator.process().ensure_running()
}
