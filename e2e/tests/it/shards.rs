//! Shards (`shardSelector`, KEP-5866) beside a kube-apiserver with the feature gate ShardedListAndWatch.
//!
//! The cases have the meaning of Kubernetes' integration tests TestShardedList, TestShardedWatch, TestShardedListComplete,
//! TestShardedListByNamespace and TestShardedListAllResources. Every response is compared with that of kube-apiserver.
//! One difference is meant: fieldcache names the shard in every list, and kube-apiserver in typed lists only.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use e2e::compare::equal;
use e2e::control_plane::{ControlPlane, Settings};
use e2e::eventually::eventually;
use e2e::fieldcache::Fieldcache;
use e2e::http::{Client, Next, Request};
use e2e::objects;
use e2e::versions::Kubernetes;
use e2e::workload::{Resource, definition};
use http::Method;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::protobuf::readable;

/// The first minor version that has the feature gate.
const FIRST: u32 = 36;
const SOON: Duration = Duration::from_secs(60);
const GROUP: &str = "sharded.example.com";
const MAPS: &str = "/api/v1/configmaps";
const GADGETS: &str = "/apis/sharded.example.com/v1/gadgets";
const NAMESPACES: usize = 10;

/// Expressions, each with what apiserver's parser answers: its selector or its error.
const EXPRESSIONS: &str = include_str!("../../../crates/core/src/selector/testdata/shard_selectors.txt");

/// The representations of a list.
const JSON: &str = "application/json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const METADATA: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

struct Stage {
    control_plane: ControlPlane,
    fieldcache: Fieldcache,
}

impl Stage {
    /// The stage of all tests here. `None` beside a version without the feature gate.
    async fn shared() -> Result<Option<&'static Stage>> {
        static SHARED: OnceCell<Result<Stage, String>> = OnceCell::const_new();
        if Kubernetes::under_test()?.minor() < FIRST {
            return Ok(None);
        }
        let started = SHARED.get_or_init(async || Box::pin(Stage::start()).await.map_err(|error| format!("{error:#}")));
        started.await.as_ref().map(Some).map_err(|error| anyhow!("the stage did not start: {error}"))
    }

    async fn start() -> Result<Stage> {
        let apiserver_arguments = vec!["--feature-gates=ShardedListAndWatch=true".to_owned()];
        let control_plane = ControlPlane::start(Settings { apiserver_arguments, ..Settings::default() }).await?;
        let client = control_plane.client();
        objects::create_definition(&client, &definition(GROUP)).await?;
        for number in 0..NAMESPACES {
            let name = format!("shard-{number}");
            let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
            objects::create(&client, "/api/v1/namespaces", &namespace).await?;
            for place in 0..6 {
                let letter = ["a", "b", "c"][place % 3];
                let map = config_map(&format!("map-{place}"), letter);
                objects::create(&client, &format!("/api/v1/namespaces/{name}/configmaps"), &map).await?;
                let gadget = Resource::gadgets(GROUP).object(&format!("gadget-{place}"), "x", letter, "L");
                objects::create(&client, &format!("/apis/{GROUP}/v1/namespaces/{name}/gadgets"), &gadget).await?;
            }
        }
        let kubeconfig = control_plane.kubeconfig().display().to_string();
        let arguments = ["--kubeconfig", &kubeconfig, "--pass-through", "all"].map(str::to_owned);
        let fieldcache = Fieldcache::serve(arguments).await?;
        Ok(Stage { control_plane, fieldcache })
    }

    fn clients(&self) -> [Client; 2] {
        [self.control_plane.client(), self.fieldcache.client()]
    }
}

fn config_map(name: &str, letter: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name, "labels": { "letter": letter } },
    })
}

/// The selector of one of `shards` equal parts of the hashes of `metadata.FIELD`.
fn shard(field: &str, number: u128, shards: u128) -> String {
    let part = (1 << 64) / shards;
    let end = if number + 1 == shards { 1 << 64 } else { part * (number + 1) };
    format!("shardRange(object.metadata.{field}, '0x{:016x}', '0x{end:016x}')", part * number)
}

/// A path with a shard selector, percent-encoded.
fn with(path: &str, selector: &str) -> String {
    let escaped: String = selector.bytes().map(|byte| format!("%{byte:02X}")).collect();
    format!("{path}{}shardSelector={escaped}", if path.contains('?') { '&' } else { '?' })
}

/// A list of one server as JSON, without what differs between two servers: the version of the list, the number of
/// remaining objects, which kube-apiserver counts without regard to the shard, and null for no objects.
async fn list(client: &Client, path: &str, accept: &str) -> Result<Value> {
    let answer = client.send(Request::new(Method::GET, path).header("accept", accept)).await?.success()?;
    let mut list = if accept == PROTOBUF { readable::object(&answer.body) } else { answer.json()? };
    let metadata = list["metadata"].as_object_mut().context("a list has metadata")?;
    for name in ["resourceVersion", "remainingItemCount"] {
        metadata.remove(name);
    }
    if metadata.get("continue").is_some_and(|token| token != "") {
        metadata.insert("continue".to_owned(), json!("a token"));
    }
    for name in ["items", "rows"] {
        if list.get(name).is_some_and(Value::is_null) {
            list[name] = json!([]);
        }
    }
    Ok(list)
}

/// The key and uid of each object of a list.
fn identities(list: &Value) -> Result<Vec<(String, String)>> {
    let items = list["items"].as_array().context("a list has items")?;
    let text = |item: &Value, name: &str| item["metadata"][name].as_str().unwrap_or_default().to_owned();
    Ok(items
        .iter()
        .map(|item| (format!("{}/{}", text(item, "namespace"), text(item, "name")), text(item, "uid")))
        .collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_of_shards_are_those_of_kube_apiserver() -> Result<()> {
    let Some(stage) = Stage::shared().await? else { return Ok(()) };
    let [theirs, ours] = stage.clients();
    let mut compared = 0;
    for collection in [MAPS, GADGETS, "/api/v1/namespaces/shard-3/configmaps", "/api/v1/namespaces"] {
        for field in ["uid", "namespace"] {
            let mut seen = BTreeSet::new();
            for number in 0..3 {
                let selector = shard(field, number, 3);
                for query in ["", "?labelSelector=letter%3Da", "?fieldSelector=metadata.name%3Dmap-2", "?limit=3"] {
                    let path = with(&format!("{collection}{query}"), &selector);
                    for accept in [JSON, PROTOBUF, TABLE, METADATA] {
                        if accept == PROTOBUF && collection == GADGETS {
                            continue;
                        }
                        let what = format!("{path} as {accept}");
                        eventually(&what, SOON, async || {
                            let (mut theirs, mut ours) =
                                (list(&theirs, &path, accept).await?, list(&ours, &path, accept).await?);
                            // A server that scans cannot know that nothing follows a full page. The index knows.
                            if ours["metadata"]["continue"].as_str().unwrap_or_default().is_empty() {
                                for list in [&mut theirs, &mut ours] {
                                    list["metadata"].as_object_mut().context("metadata")?.remove("continue");
                                }
                            }
                            ensure!(ours["metadata"]["shardInfo"]["selector"] == selector, "{}", ours["metadata"]);
                            let is_typed = matches!(accept, JSON | PROTOBUF) && collection != GADGETS;
                            ensure!(
                                theirs["metadata"]["shardInfo"].is_null() != is_typed,
                                "kube-apiserver has changed"
                            );
                            if !is_typed {
                                ours["metadata"].as_object_mut().context("metadata")?.remove("shardInfo");
                            }
                            equal("kube-apiserver", &theirs, "fieldcache", &ours)
                        })
                        .await?;
                        compared += 1;
                    }
                }
                let whole = ours.get_json(&with(collection, &selector)).await?;
                for object in identities(&whole)? {
                    ensure!(seen.insert(object.clone()), "{object:?} is in two shards of {collection}");
                }
            }
            let all: BTreeSet<_> = identities(&ours.get_json(collection).await?)?.into_iter().collect();
            ensure!(!all.is_empty() && seen == all, "shards by {field} of {collection}: {seen:?} of {all:?}");
        }
    }
    for query in ["", "?shardSelector="] {
        let path = format!("{MAPS}{query}");
        let (theirs, ours) = (list(&theirs, &path, JSON).await?, list(&ours, &path, JSON).await?);
        ensure!(ours["metadata"]["shardInfo"].is_null(), "a whole list has no shard");
        equal("kube-apiserver", &theirs, "fieldcache", &ours)?;
    }
    println!("shards: {compared} lists compared");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_a_shard_are_the_whole_shard() -> Result<()> {
    let Some(stage) = Stage::shared().await? else { return Ok(()) };
    let [theirs, ours] = stage.clients();
    for (collection, limit) in [(MAPS, 1), (MAPS, 7), (GADGETS, 4)] {
        let selector = shard("uid", 1, 2);
        // Another test, or kube-controller-manager, can create an object between the lists.
        eventually(&format!("pages of {limit} of {collection}"), SOON, async || {
            let whole = identities(&ours.get_json(&with(collection, &selector)).await?)?;
            let mut walks = Vec::new();
            for (client, counts) in [(&theirs, false), (&ours, true)] {
                let (mut walked, mut token) = (Vec::new(), String::new());
                loop {
                    let page = client
                        .get_json(&with(&format!("{collection}?limit={limit}&continue={token}"), &selector))
                        .await?;
                    walked.extend(identities(&page)?);
                    token = page["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
                    let left = page["metadata"]["remainingItemCount"].as_u64().unwrap_or_default();
                    ensure!(!counts || left as usize + walked.len() == whole.len(), "{left} are left of {collection}");
                    if token.is_empty() {
                        break;
                    }
                }
                walks.push(walked);
            }
            ensure!(walks[0] == whole && walks[1] == whole, "{collection}: {walks:?} instead of {whole:?}");
            Ok(())
        })
        .await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_have_the_bytes_of_kube_apiserver() -> Result<()> {
    let Some(stage) = Stage::shared().await? else { return Ok(()) };
    let [theirs, ours] = stage.clients();
    let mut compared = 0;
    for expression in EXPRESSIONS.lines().step_by(2) {
        for path in [format!("{MAPS}?limit=1"), format!("{MAPS}?watch=1&timeoutSeconds=1&resourceVersion=0")] {
            let path = with(&path, expression);
            let (theirs, ours) = (theirs.get(&path).await?, ours.get(&path).await?);
            ensure!(theirs.status == ours.status, "{expression}: {} and {}", theirs.status, ours.status);
            if !theirs.status.is_success() {
                let (theirs, ours) = (theirs.text(), ours.text());
                ensure!(theirs == ours, "{expression}: kube-apiserver: {theirs} fieldcache: {ours}");
                compared += 1;
            }
        }
    }
    ensure!(compared > 200, "{compared} errors compared");
    // Errors of other parameters come first, or later.
    for query in ["resourceVersion=abc", "limit=abc", "labelSelector=,", "fieldSelector=a%3Db", "continue=abc"] {
        let path = with(&format!("{MAPS}?{query}"), "x");
        let (theirs, ours) = (theirs.get(&path).await?, ours.get(&path).await?);
        ensure!(
            theirs.status == ours.status && theirs.body == ours.body,
            "{query}: {} <> {}",
            theirs.text(),
            ours.text()
        );
    }
    // A get ignores it.
    let path = with("/api/v1/namespaces/shard-1/configmaps/map-1", "x");
    equal("kube-apiserver", &theirs.get_json(&path).await?, "fieldcache", &ours.get_json(&path).await?)?;
    println!("shards: {compared} errors compared");
    Ok(())
}

/// The events of a watch up to the deletion of the object `last`, which every watch selects.
async fn events(lines: &mut e2e::http::Lines, is_protobuf: bool, last: &str) -> Result<Vec<Value>> {
    let mut events = Vec::new();
    loop {
        let Next::Line(line) = lines.next(SOON).await? else { anyhow::bail!("no event after {events:?}") };
        let event = if is_protobuf { readable::event(&line) } else { serde_json::from_slice(&line)? };
        let is_last = event["type"] == "DELETED" && event["object"]["metadata"]["name"] == last;
        if event["type"] != "BOOKMARK" {
            events.push(event);
        }
        if is_last {
            return Ok(events);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn watches_of_shards_send_what_those_of_kube_apiserver_send() -> Result<()> {
    let Some(stage) = Stage::shared().await? else { return Ok(()) };
    let [theirs, ours] = stage.clients();
    let namespace = objects::create_namespace(&theirs).await?;
    let collection = format!("/api/v1/namespaces/{namespace}/configmaps");
    // The marks of the end: one of them is in each shard of uids. All shards of namespaces but one stay silent.
    const MARKS: usize = 40;
    let mut marks = Vec::new();
    for number in 0..MARKS {
        let mark = objects::create(&theirs, &collection, &config_map(&format!("zz-{number:02}"), "mark")).await?;
        marks.push(mark);
    }
    let mut shards: Vec<(String, String)> = Vec::new();
    let whole = "shardRange(object.metadata.namespace, '0x0000000000000000', '0x10000000000000000')".to_owned();
    shards.push((whole, "zz-39".to_owned()));
    for number in 0..3 {
        let selector = shard("uid", number, 3);
        let selected = identities(&theirs.get_json(&with(&collection, &selector)).await?)?;
        let (last, _) = selected.last().context("a shard without any of the marks")?;
        shards.push((selector, last.rsplit('/').next().unwrap_or_default().to_owned()));
    }
    let version = marks.last().map(|mark| mark["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned());
    let version = version.context("there are marks")?;
    eventually("fieldcache has the marks", SOON, async || {
        let held = identities(&ours.get_json(&collection).await?)?.len();
        ensure!(held == MARKS, "{held}");
        Ok(())
    })
    .await?;
    let mut open = Vec::new();
    for (selector, last) in &shards {
        for (query, accept) in [
            (format!("watch=1&resourceVersion={version}"), JSON),
            ("watch=1&resourceVersion=0&labelSelector=letter%21%3Dnone".to_owned(), JSON),
            (format!("watch=1&resourceVersion={version}"), PROTOBUF),
        ] {
            let path = with(&format!("{collection}?{query}"), selector);
            let accept = if accept == PROTOBUF { "application/vnd.kubernetes.protobuf;stream=watch" } else { accept };
            let request = Request::new(Method::GET, &path).header("accept", accept);
            let pair = [theirs.open(request.clone()).await?, ours.open(request).await?];
            open.push((path, accept != JSON, last, pair));
        }
    }
    let mut expected = BTreeMap::new();
    for number in 0..12 {
        let name = format!("map-{number}");
        let map = objects::create(&theirs, &collection, &config_map(&name, "a")).await?;
        expected.insert(name.clone(), map["metadata"]["uid"].as_str().unwrap_or_default().to_owned());
        let path = format!("{collection}/{name}");
        objects::merge(&theirs, &path, &json!({ "metadata": { "labels": { "letter": "none" } } })).await?;
        objects::merge(&theirs, &path, &json!({ "metadata": { "labels": { "letter": "b" } } })).await?;
        objects::delete(&theirs, &path).await?;
    }
    for mark in marks {
        let name = mark["metadata"]["name"].as_str().unwrap_or_default();
        objects::delete(&theirs, &format!("{collection}/{name}")).await?;
    }
    let mut of_uids = 0;
    for (path, is_protobuf, last, [left, right]) in &mut open {
        let theirs = events(left, *is_protobuf, last).await.with_context(|| format!("kube-apiserver, {path}"))?;
        let ours = events(right, *is_protobuf, last).await.with_context(|| format!("fieldcache, {path}"))?;
        equal("kube-apiserver", &json!(theirs), "fieldcache", &json!(ours)).with_context(|| path.clone())?;
        if path.contains("%75%69%64") && !*is_protobuf && !path.contains("letter") {
            let is_added = |event: &&Value| event["type"] == "ADDED";
            of_uids += ours.iter().filter(is_added).count();
        }
    }
    ensure!(of_uids == expected.len(), "{of_uids} objects in shards of uids, {} created", expected.len());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_resource_is_divided_into_shards() -> Result<()> {
    let Some(stage) = Stage::shared().await? else { return Ok(()) };
    let [theirs, ours] = stage.clients();
    let mut prefixes = vec!["/api/v1".to_owned()];
    for group in theirs.get_json("/apis").await?["groups"].as_array().context("groups")? {
        for version in group["versions"].as_array().context("versions")? {
            prefixes.push(format!("/apis/{}", version["groupVersion"].as_str().unwrap_or_default()));
        }
    }
    let (mut resources, mut found) = (0, 0);
    for prefix in prefixes {
        let document = theirs.get_json(&prefix).await?;
        for resource in document["resources"].as_array().context("resources")? {
            let verbs = resource["verbs"].as_array().context("verbs")?;
            let name = resource["name"].as_str().unwrap_or_default();
            if !["list", "watch"].iter().all(|verb| verbs.contains(&json!(verb))) {
                continue;
            }
            let collection = format!("{prefix}/{name}");
            resources += 1;
            eventually(&collection, SOON, async || {
                let mut sum = BTreeSet::new();
                for number in 0..2 {
                    let path = with(&collection, &shard("uid", number, 2));
                    let (theirs, ours) = (theirs.get_json(&path).await?, ours.get_json(&path).await?);
                    let (theirs, ours) = (identities(&theirs)?, identities(&ours)?);
                    ensure!(theirs == ours, "{path}: {theirs:?} <> {ours:?}");
                    sum.extend(ours);
                }
                let all: BTreeSet<_> = identities(&theirs.get_json(&collection).await?)?.into_iter().collect();
                ensure!(sum == all, "{sum:?} of {all:?}");
                Ok(())
            })
            .await?;
            found += identities(&ours.get_json(&collection).await?)?.len();
        }
    }
    ensure!(resources > 40 && found > 100, "{resources} resources with {found} objects");
    println!("shards: {resources} resources with {found} objects");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_of_a_collection_is_forwarded_with_its_shard() -> Result<()> {
    let Some(stage) = Stage::shared().await? else { return Ok(()) };
    let [theirs, ours] = stage.clients();
    let namespace = objects::create_namespace(&theirs).await?;
    let collection = format!("/api/v1/namespaces/{namespace}/configmaps");
    for number in 0..20 {
        objects::create(&theirs, &collection, &config_map(&format!("map-{number}"), "a")).await?;
    }
    let kept = identities(&theirs.get_json(&with(&collection, &shard("uid", 1, 2))).await?)?;
    ensure!(!kept.is_empty() && kept.len() < 20, "{kept:?}");
    objects::delete(&ours, &with(&collection, &shard("uid", 0, 2))).await?;
    let left = identities(&theirs.get_json(&collection).await?)?;
    ensure!(left == kept, "{left:?} instead of {kept:?}");
    Ok(())
}
