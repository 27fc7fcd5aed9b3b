//! Tables of built-in kinds: what kube-apiserver prints and what fieldcache prints of the same generated objects.
//!
//! [`kinds`] makes the objects from a seed with [`dice`]; [`compare`] holds two tables against each other. The tests
//! compare lists, single objects and the initial events of watches, with every value of includeObject. They cover every
//! resource that the API server serves, with or without objects, and what kubectl prints of them.

mod columns;
mod compare;
pub(crate) mod dice;
mod json_path;
mod kinds;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use e2e::control_plane::{ControlPlane, Settings};
use e2e::eventually::eventually;
use e2e::fieldcache::Fieldcache;
use e2e::http::{Client, Request};
use e2e::kubectl::Kubectl;
use e2e::objects;
use futures::{StreamExt, stream};
use http::Method;
use serde_json::{Value, json};
use std::time::Duration;

use compare::{Seen, counted};
use dice::Dice;
use kinds::{Draft, Kind, LIMITED, NAMESPACE};

/// Where the generator starts; any other number makes other objects.
const SEED: u64 = 1_363;

/// Requests under way at once.
const AT_ONCE: usize = 8;

/// Objects of a collection that are also requested one by one.
const SINGLES: usize = 40;

const SOON: Duration = Duration::from_secs(60);

/// What is named in the notes of a watch's bookmark.
const INITIAL_END: &str = "k8s.io/initial-events-end";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn built_in_kinds_are_printed_as_kube_apiserver_prints_them() -> Result<()> {
    println!("printers: seed {SEED}");
    // Two kinds are behind gates that are off although their APIs are beta.
    let gates = "--feature-gates=ClusterTrustBundle=true,ClusterTrustBundleProjection=true,PodCertificateRequest=true";
    let settings = Settings { all_apis: true, apiserver_arguments: vec![gates.to_owned()], ..Settings::default() };
    let control_plane = ControlPlane::start(settings).await?;
    let writer = control_plane.client();
    for name in [NAMESPACE, LIMITED] {
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
        objects::create(&writer, "/api/v1/namespaces", &namespace).await?;
    }
    let mut dice = Dice::new(SEED);
    let (mut made, mut faults) = (0, Vec::new());
    for kind in kinds::all() {
        match make(&writer, &mut dice, &kind).await {
            Ok(count) => made += count,
            Err(error) => faults.push(format!("making {}: {error:#}", kind.plural)),
        }
    }
    ensure!(faults.is_empty(), "{}", faults.join("\n"));
    let fieldcache = Fieldcache::serve_cluster(control_plane.kubeconfig(), &[]).await?;
    let ours = fieldcache.client();
    let collections = collections(&writer).await?;
    for collection in &collections {
        follow(&writer, &ours, collection).await?;
    }

    let mut paths: Vec<(&String, String)> = Vec::new();
    for collection in &collections {
        for include in ["", "?includeObject=None", "?includeObject=Metadata", "?includeObject=Object"] {
            paths.push((collection, format!("{collection}{include}")));
        }
        let listed = writer.get_json(collection).await?;
        for (index, item) in listed["items"].as_array().into_iter().flatten().take(SINGLES).enumerate() {
            let include = ["", "?includeObject=None", "?includeObject=Object"][index % 3];
            paths.push((collection, format!("{}{include}", place(collection, item))));
        }
    }
    let outcomes: Vec<Result<Seen>> =
        stream::iter(&paths).map(|(_, path)| compare::tables(&writer, &ours, path)).buffered(AT_ONCE).collect().await;
    let watched: Vec<Result<usize>> = stream::iter(&collections)
        .map(|collection| watches(&writer, &ours, collection))
        .buffered(AT_ONCE)
        .collect()
        .await;
    let (mut seen, mut events) = (Seen::default(), 0);
    // One fault is shown of each resource: the first says what there is to say, and none hides another.
    let mut faults: BTreeMap<&str, (usize, String)> = BTreeMap::new();
    let mut blame = |collection, error: anyhow::Error| {
        faults.entry(collection).or_insert_with(|| (0, format!("{error:#}"))).0 += 1;
    };
    for ((collection, _), outcome) in paths.iter().zip(outcomes) {
        match outcome {
            Ok(one) => seen.add(one),
            Err(error) => blame(collection.as_str(), error),
        }
    }
    for (collection, outcome) in collections.iter().zip(watched) {
        match outcome {
            Ok(count) => events += count,
            Err(error) => blame(collection.as_str(), error),
        }
    }
    println!(
        "printers: {made} objects made, {} resources, {} tables, {} rows, {} cells compared, {} of them while they moved on, {} reported by no \
         autoscaling/v1; {events} watch events",
        collections.len(),
        seen.tables,
        seen.rows,
        seen.cells,
        seen.moving,
        seen.lossy
    );
    let report: Vec<String> = faults.values().map(|(count, first)| format!("{count} of this kind: {first}")).collect();
    ensure!(report.is_empty(), "{} resources differ:\n{}", report.len(), report.join("\n"));
    let dull = dull(&seen);
    ensure!(dull.is_empty(), "columns that always say the same: {dull:?}");
    ensure!(seen.cells > 20_000 && seen.rows > 4_000, "{seen:?}");
    ensure!(seen.lossy < 100, "{seen:?}");
    ensure!(seen.moving * 10 < seen.cells, "too much moves on for the comparison to say much: {seen:?}");

    let direct = Kubectl::with_kubeconfig(control_plane.kubeconfig())?;
    let through = Kubectl::with_server(fieldcache.address())?;
    let everything = "nodes,events,namespaces,configmaps,secrets,pv,pvc,ingresses,networkpolicies,hpa,pdb,sa,roles,rolebindings,\
        clusterroles,clusterrolebindings,endpoints,endpointslices,leases,storageclasses,priorityclasses,resourcequotas,limitranges,\
        ingressclasses,csidrivers,csinodes,volumeattachments,runtimeclasses,flowschemas,prioritylevelconfigurations,\
        certificatesigningrequests,validatingadmissionpolicies,validatingadmissionpolicybindings,customresourcedefinitions,apiservices";
    let commands: [&[&str]; 5] = [
        &["get", "all", "-n", NAMESPACE],
        &["get", "all", "-n", NAMESPACE, "-o", "wide"],
        &["get", "all", "-A", "-o", "wide", "--show-labels"],
        &["get", everything, "-A"],
        &["get", everything, "-A", "-o", "wide"],
    ];
    for command in commands {
        printed_alike(&direct, &through, command).await?;
    }
    Ok(())
}

/// Columns of kinds with many variations that show one value only: a comparison of these says little.
fn dull(seen: &Seen) -> Vec<String> {
    // What the API server sets, and to what.
    const ALWAYS: [&str; 2] =
        ["/apis/batch/v1/cronjobs Selector", "/apis/certificates.k8s.io/v1/certificatesigningrequests Requestor"];
    let many = kinds::all().into_iter().filter(|kind| kind.count >= 12);
    let collections: BTreeSet<String> = many.map(|kind| kind.everywhere()).collect();
    let dull = seen.values.iter().filter(|((path, _), values)| collections.contains(path) && values.len() < 2);
    let dull = dull.map(|((path, column), _)| format!("{path} {column}"));
    // Objects made in one second are of one age.
    dull.filter(|column| !column.ends_with(" Age") && !ALWAYS.contains(&column.as_str())).collect()
}

/// Makes the variations of a kind and returns how many there are.
async fn make(writer: &Client, dice: &mut Dice, kind: &Kind) -> Result<usize> {
    let collection = kind.collection();
    let drafts: Vec<(String, Draft)> = (0..kind.count).map(|index| (name(kind, index), (kind.make)(dice))).collect();
    let outcomes: Vec<Result<Made>> = stream::iter(&drafts)
        .map(|(name, draft)| make_one(writer, kind, &collection, name, draft))
        .buffered(AT_ONCE)
        .collect()
        .await;
    let (mut made, mut written, mut refusals) = (0, 0, Vec::new());
    for outcome in outcomes {
        let one = outcome?;
        made += usize::from(one.is_made);
        written += one.patches;
        refusals.extend(one.refusal);
    }
    let wanted: usize = drafts.iter().map(|(_, draft)| draft.patches.len()).sum();
    // A maker that is mostly refused makes nothing to compare.
    ensure!(made * 10 >= kind.count * 7, "{made} of {} accepted: {:?}", kind.count, refusals.first());
    ensure!(written * 10 >= wanted * 6, "{written} of {wanted} statuses accepted: {:?}", refusals.first());
    Ok(made)
}

fn name(kind: &Kind, index: usize) -> String {
    match kind.kind {
        // These two are named by what they say.
        "APIService" => format!("v{}.{}", index + 1, kinds::ABSENT),
        "CSIDriver" => format!("d{index}.example.com"),
        // The same objects as core events.
        "Event" if kind.api_version != "v1" => format!("new-event-{index}"),
        _ => format!("{}-{index}", kind.kind.to_lowercase()),
    }
}

#[derive(Default)]
struct Made {
    is_made: bool,
    patches: usize,
    refusal: Option<String>,
}

async fn make_one(writer: &Client, kind: &Kind, collection: &str, name: &str, draft: &Draft) -> Result<Made> {
    let mut object = draft.body.clone();
    object["apiVersion"] = kind.api_version.into();
    object["kind"] = kind.kind.into();
    object["metadata"]["name"] = name.into();
    if kind.kind == "APIService" {
        object["spec"]["version"] = name.split('.').next().unwrap_or_default().into();
    }
    if draft.is_going {
        object["metadata"]["finalizers"] = json!(["example.com/stay"]);
    }
    let mut made = Made::default();
    let answer = writer.send(Request::new(Method::POST, collection).json(&object)).await?;
    if !answer.status.is_success() {
        made.refusal = answer.json()?["message"].as_str().map(str::to_owned);
        return Ok(made);
    }
    made.is_made = true;
    for (subresource, patch) in &draft.patches {
        match objects::merge(writer, &format!("{collection}/{name}/{subresource}"), patch).await {
            Ok(_) => made.patches += 1,
            Err(error) => made.refusal = Some(format!("{error:#}")),
        }
    }
    if draft.is_going {
        objects::delete(writer, &format!("{collection}/{name}?gracePeriodSeconds=0")).await?;
    }
    Ok(made)
}

/// Every collection that can be listed and watched.
async fn collections(writer: &Client) -> Result<Vec<String>> {
    let mut roots = vec![("/api/v1".to_owned(), writer.get_json("/api/v1").await?)];
    for group in writer.get_json("/apis").await?["groups"].as_array().into_iter().flatten() {
        // No server is behind the generated API services.
        if group["name"] == kinds::ABSENT {
            continue;
        }
        for version in group["versions"].as_array().into_iter().flatten() {
            let root = format!("/apis/{}", version["groupVersion"].as_str().context("a group without version")?);
            roots.push((root.clone(), writer.get_json(&root).await?));
        }
    }
    let mut collections = Vec::new();
    for (root, found) in roots {
        for resource in found["resources"].as_array().into_iter().flatten() {
            let name = resource["name"].as_str().unwrap_or_default();
            let can = |verb: &str| resource["verbs"].as_array().is_some_and(|verbs| verbs.contains(&verb.into()));
            if can("list") && can("watch") && !name.contains('/') {
                collections.push(format!("{root}/{name}"));
            }
        }
    }
    ensure!(collections.len() > 60, "only {} resources", collections.len());
    Ok(collections)
}

/// The path of one object of a collection over all namespaces.
fn place(collection: &str, item: &Value) -> String {
    let name = item["metadata"]["name"].as_str().unwrap_or_default();
    match item["metadata"]["namespace"].as_str() {
        None => format!("{collection}/{name}"),
        Some(namespace) => {
            let (root, plural) = collection.rsplit_once('/').unwrap_or_default();
            format!("{root}/namespaces/{namespace}/{plural}/{name}")
        }
    }
}

async fn follow(writer: &Client, ours: &Client, collection: &str) -> Result<()> {
    let versions = |list: &Value| -> BTreeMap<String, Value> {
        let items = list["items"].as_array().map_or(&[][..], Vec::as_slice);
        items.iter().map(|item| (place(collection, item), item["metadata"]["resourceVersion"].clone())).collect()
    };
    eventually(&format!("{collection} is followed"), SOON, async || {
        let (theirs, here) =
            (versions(&writer.get_json(collection).await?), versions(&ours.get_json(collection).await?));
        ensure!(theirs == here, "not yet");
        Ok(())
    })
    .await
}

/// Compares the initial events of a watch, and the bookmark after them, which is the row of an empty object.
async fn watches(theirs: &Client, ours: &Client, collection: &str) -> Result<usize> {
    let path = format!(
        "{collection}?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=30"
    );
    // A lease or an API service that its controller has just written is requested again.
    eventually(&path, SOON, async || {
        let before = events(theirs, &path).await?;
        let here = events(ours, &path).await?;
        let after = events(theirs, &path).await?;
        events_alike(&path, &before, &here, &after)?;
        Ok(before.len())
    })
    .await
}

/// The initial events by object, the bookmark at their end too.
async fn events(client: &Client, path: &str) -> Result<BTreeMap<String, Value>> {
    const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";
    let mut lines = client.open(Request::get(path).header("accept", TABLE)).await?;
    let mut events = BTreeMap::new();
    loop {
        let mut event = lines.event(SOON).await?;
        let table = &mut event["object"];
        // Which events carry the columns is a race within kube-apiserver, and lists have reported them.
        if let Some(table) = table.as_object_mut() {
            table.remove("columnDefinitions");
        }
        let metadata = table["rows"][0]["object"]["metadata"].clone();
        let is_end = event["type"] == "BOOKMARK" && metadata["annotations"][INITIAL_END] == "true";
        if is_end {
            event["object"]["metadata"]["resourceVersion"] = Value::Null;
            event["object"]["rows"][0]["object"]["metadata"]["resourceVersion"] = Value::Null;
        }
        events.insert(format!("{}/{}", metadata["namespace"], metadata["name"]), event);
        if is_end {
            return Ok(events);
        }
    }
}

fn events_alike(
    path: &str,
    before: &BTreeMap<String, Value>,
    here: &BTreeMap<String, Value>,
    after: &BTreeMap<String, Value>,
) -> Result<()> {
    ensure!(before.keys().eq(here.keys()), "{:?} <> {:?}", before.keys(), here.keys());
    for (key, before) in before {
        let (here, Some(after)) = (&here[key], after.get(key)) else { continue };
        ensure!(before["type"] == here["type"], "{key}: {} <> {}", before["type"], here["type"]);
        compare::alike(&format!("{path} {key}"), &before["object"], &here["object"], &after["object"])?;
    }
    Ok(())
}

/// kubectl prints the same words, times apart.
async fn printed_alike(direct: &Kubectl, through: &Kubectl, command: &[&str]) -> Result<()> {
    let mut last = Ok(());
    for _ in 0..3 {
        let before = direct.succeed(command).await?;
        let here = through.succeed(command).await?;
        let after = direct.succeed(command).await?;
        last = lines_alike(&before, &here, &after).with_context(|| format!("kubectl {}", command.join(" ")));
        if last.is_ok() {
            break;
        }
    }
    last
}

fn lines_alike(before: &str, here: &str, after: &str) -> Result<()> {
    let split = |text: &str| -> Vec<Vec<String>> {
        let words =
            |line: &str| line.split("  ").map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect();
        text.lines().map(words).collect()
    };
    let (before, here, after) = (split(before), split(here), split(after));
    ensure!(before.len() == here.len() && before.len() > 5, "{} lines <> {}", before.len(), here.len());
    for ((before, here), after) in before.iter().zip(&here).zip(&after) {
        ensure!(before.len() == here.len(), "{before:?} <> {here:?}");
        for ((before, here), after) in before.iter().zip(here).zip(after) {
            let ((start, least), (middle, now), (_, most)) = (counted(before), counted(here), counted(after));
            let in_time =
                least.len() == now.len() && least.iter().zip(&now).zip(&most).all(|((a, b), c)| a <= b && b <= c);
            ensure!(before == here || here == after || (start == middle && in_time), "{before:?} <> {here:?}");
        }
    }
    Ok(())
}
