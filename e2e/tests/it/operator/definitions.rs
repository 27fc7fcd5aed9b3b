//! The life of a definition: each change of it is followed by the SelectableResource, OpenAPI and serving, and readers see no gap.

#![expect(clippy::print_stdout, reason = "how long each change took, for the person who runs the suite")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use e2e::eventually::eventually;
use e2e::http::{Client, Next};
use e2e::objects;
use serde_json::{Value, json};

use super::{CRD, SELECTABLE, SHIRTS, Stage, ready};

const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/shirts.stable.example.com";
const SHIRTS_V2: &str = "/apis/stable.example.com/v2/shirts";
/// What each change may take.
const DEADLINE: Duration = Duration::from_secs(120);

/// What is to be seen after a change.
struct Expected<'a> {
    what: &'a str,
    /// Of the SelectableResource: versions and their fields; `None`: there is none.
    versions: Option<&'a [(&'a str, &'a [&'a str])]>,
    /// Requests and their status codes.
    answers: &'a [(String, u16)],
}

async fn followed(stage: &Stage, client: &Client, expected: &Expected<'_>) -> Result<()> {
    let changed = Instant::now();
    eventually(expected.what, DEADLINE, async || {
        let response = stage.control_plane.client().get(SELECTABLE).await?;
        let Some(versions) = expected.versions else {
            ensure!(response.status == 404, "there is a SelectableResource: {response:?}");
            return Ok(());
        };
        let response = response.success()?.json()?;
        let found: Vec<(String, Vec<String>)> = response["status"]["versions"]
            .as_array()
            .context("versions")?
            .iter()
            .map(|version| {
                let paths = version["fields"].as_array().cloned().unwrap_or_default();
                let paths = paths.iter().map(|field| field["fieldPath"].as_str().unwrap_or_default().to_owned());
                (version["name"].as_str().unwrap_or_default().to_owned(), paths.collect())
            })
            .collect();
        let wanted: Vec<(String, Vec<String>)> = versions
            .iter()
            .map(|(name, fields)| ((*name).to_owned(), fields.iter().map(|field| (*field).to_owned()).collect()))
            .collect();
        ensure!(found == wanted, "the SelectableResource has {found:?} instead of {wanted:?}");
        // What is published is what can be selected by.
        for (version, fields) in &wanted {
            let path = format!("/openapi/v3/apis/stable.example.com/{version}");
            let document = client.get(&path).await?.success()?.json()?;
            let schemas = document["components"]["schemas"].as_object().context("schemas")?.clone();
            let kind = schemas.get(&format!("com.example.stable.{version}.Shirt")).context("Shirt is not published")?;
            let published = kind["x-kubernetes-selectable-fields"].as_array().cloned().unwrap_or_default();
            let published: Vec<&str> = published.iter().filter_map(|field| field["fieldPath"].as_str()).collect();
            ensure!(published == *fields, "OpenAPI of {version} has {published:?}");
        }
        Ok(())
    })
    .await?;
    eventually(expected.what, DEADLINE, async || {
        for (path, status) in expected.answers {
            let answer = client.get(path).await?;
            ensure!(answer.status == *status, "{path}: {answer:?}");
        }
        Ok(())
    })
    .await?;
    println!("{}: {:.1?}", expected.what, changed.elapsed());
    Ok(())
}

/// Reads without pause until it is stopped; every answer must be whole.
fn read_on(client: Client, count: usize) -> (Arc<AtomicBool>, tokio::task::JoinHandle<Result<usize>>) {
    let ends = Arc::new(AtomicBool::new(false));
    let reported = ends.clone();
    let reading = tokio::spawn(async move {
        let answers = AtomicUsize::new(0);
        while !reported.load(Ordering::Relaxed) {
            let answer = client.get(SHIRTS).await?;
            ensure!(answer.status == 200, "a reader met {answer:?}");
            let found = answer.json()?["items"].as_array().map_or(0, Vec::len);
            ensure!(found == count, "a reader was shown {found} of {count} shirts");
            answers.fetch_add(1, Ordering::Relaxed);
        }
        Ok(answers.into_inner())
    });
    (ends, reading)
}

fn selected(field: &str) -> String {
    format!("{SHIRTS}?fieldSelector={field}%3Dblue")
}

/// How a watch ends: the types of the events that it still sends.
async fn ending(client: &Client, path: &str) -> Result<tokio::task::JoinHandle<Result<Vec<String>>>> {
    let mut watch = client.watch(path).await?;
    Ok(tokio::spawn(async move {
        let mut types = Vec::new();
        loop {
            match watch.next(DEADLINE).await? {
                Next::Line(line) => {
                    let event: Value = serde_json::from_slice(&line)?;
                    types.push(event["type"].as_str().unwrap_or_default().to_owned());
                }
                Next::End => return Ok(types),
                Next::Nothing => bail!("a watch goes on, after {types:?}"),
            }
        }
    }))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_change_of_a_definition_is_followed_without_a_gap_for_readers() -> Result<()> {
    let stage = Stage::start().await?;
    let upstream = stage.control_plane.client();
    let operator = stage.operator("one").await?;
    let client = stage.administrator(&operator)?;
    ready(&operator, &client).await?;
    let cache = json!({
        "apiVersion": "fieldcache.dev/v1alpha1", "kind": "FieldCache", "metadata": { "name": "shirts.stable.example.com" },
        "spec": { "group": "stable.example.com", "resource": "shirts" },
    });
    stage.apply_this("cache.yaml", &cache).await?;
    let fields = ["spec.color", "spec.size", "spec.quantity", "spec.branded"];
    let is = |path: &str, status: u16| (path.to_owned(), status);
    let tail = || operator.process().tail();
    followed(
        &stage,
        &client,
        &Expected {
            what: "a definition",
            versions: Some(&[("v1", &fields)]),
            answers: &[is(SHIRTS, 200), (selected("spec.color"), 200), (selected("spec.note"), 400)],
        },
    )
    .await
    .with_context(tail)?;
    let count = upstream.get_json(SHIRTS).await?["items"].as_array().map_or(0, Vec::len);
    let (ends, reading) = read_on(client.clone(), count);

    // A field more. The schema has to have it before.
    let original = upstream.get_json(DEFINITION).await?;
    let mut definition = original["spec"].clone();
    definition["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["note"] =
        json!({ "type": "string" });
    let with = |definition: &Value, paths: &[&str]| {
        let mut definition = definition.clone();
        definition["versions"][0]["selectableFields"] =
            paths.iter().map(|path| json!({ "jsonPath": format!(".{path}") })).collect();
        definition
    };
    let more: Vec<&str> = fields.into_iter().chain(["spec.note"]).collect();
    objects::merge(&upstream, DEFINITION, &json!({ "spec": with(&definition, &more) })).await?;
    followed(
        &stage,
        &client,
        &Expected { what: "a field more", versions: Some(&[("v1", &more)]), answers: &[(selected("spec.note"), 200)] },
    )
    .await
    .with_context(tail)?;

    // A field less: its watches end as the API server's do, and are refused from then on.
    let path = format!("{}&watch=true", selected("spec.color"));
    let (theirs, own) = (ending(&upstream, &path).await?, ending(&client, &path).await?);
    let less = &more[1..];
    objects::merge(&upstream, DEFINITION, &json!({ "spec": with(&definition, less) })).await?;
    followed(
        &stage,
        &client,
        &Expected {
            what: "a field less",
            versions: Some(&[("v1", less)]),
            answers: &[(selected("spec.color"), 400), (path.clone(), 400), (selected("spec.note"), 200)],
        },
    )
    .await
    .with_context(tail)?;
    let (theirs, own) = (theirs.await??, own.await??);
    ensure!(theirs == own, "watches on a field that went: {theirs:?} there, {own:?} here");

    // A new version, which the cluster prefers. The old one, which has readers, is kept beside it.
    let mut two = with(&definition, less);
    let mut second = two["versions"][0].clone();
    second["name"] = json!("v2");
    second["storage"] = json!(false);
    two["versions"].as_array_mut().context("versions")?.push(second);
    objects::merge(&upstream, DEFINITION, &json!({ "spec": two })).await?;
    followed(
        &stage,
        &client,
        &Expected {
            what: "a version more",
            versions: Some(&[("v2", less), ("v1", less)]),
            answers: &[is(SHIRTS_V2, 200), is(SHIRTS, 200)],
        },
    )
    .await
    .with_context(tail)?;

    eventually("the FieldCache reports that an older version is cached", DEADLINE, async || {
        let condition = stage.condition("fieldcache/shirts.stable.example.com", "PreferredVersionOnly").await?;
        ensure!(condition["status"] == "False" && condition["reason"] == "PreferredVersionChanged", "{condition}");
        let events = upstream.get_json("/api/v1/events?fieldSelector=reason=PreferredVersionChanged").await?;
        ensure!(events["items"][0]["type"] == "Warning", "{events}");
        Ok(())
    })
    .await?;
    let both = json!({ "spec": { "versions": ["v1", "v2"] } });
    let cache = "/apis/fieldcache.dev/v1alpha1/fieldcaches/shirts.stable.example.com";
    objects::merge(&upstream, cache, &both).await?;

    // It is not served any more; the other one goes on.
    two["versions"][1]["served"] = json!(false);
    objects::merge(&upstream, DEFINITION, &json!({ "spec": two })).await?;
    followed(
        &stage,
        &client,
        &Expected {
            what: "a version not served",
            versions: Some(&[("v1", less)]),
            answers: &[is(SHIRTS_V2, 404), is(SHIRTS, 200)],
        },
    )
    .await
    .with_context(tail)?;
    eventually("the FieldCache names the version", DEADLINE, async || {
        let accepted = stage.condition("fieldcache/shirts.stable.example.com", "Accepted").await?;
        ensure!(accepted["reason"] == "VersionNotServed", "{accepted}");
        Ok(())
    })
    .await?;
    ends.store(true, Ordering::Relaxed);
    let answers = reading.await?.with_context(tail)?;
    println!("a reader was answered {answers} times, whole each time");
    ensure!(answers > 50, "a reader that reads next to nothing shows nothing: {answers} answers");

    stage.kubectl.succeed(&["delete", CRD]).await?;
    followed(&stage, &client, &Expected { what: "no definition", versions: None, answers: &[is(SHIRTS, 404)] })
        .await
        .with_context(tail)?;
    stage.apply("samples/shirts-crd.yaml").await?;
    stage.kubectl.succeed(&["wait", "--for=condition=Established", "--timeout=180s", CRD]).await?;
    stage.kubectl.apply_known(&format!("{}/samples/objects/shirts.yaml", stage.manifests)).await?;
    followed(
        &stage,
        &client,
        &Expected {
            what: "the definition again",
            versions: Some(&[("v1", &fields)]),
            answers: &[is(SHIRTS, 200), (selected("spec.color"), 200), (selected("spec.note"), 400)],
        },
    )
    .await
    .with_context(tail)?;
    eventually("its objects are there again", DEADLINE, async || {
        let found = client.get_json(SHIRTS).await?["items"].as_array().map_or(0, Vec::len);
        ensure!(found == count, "{found} of {count}");
        Ok(())
    })
    .await
}
