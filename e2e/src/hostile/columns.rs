//! Tables of a definition with as many columns as a definition has room for, all of which show the same large values.
//!
//! A row of such a table is more than a gigabyte long. kube-apiserver prints it whole, so it must come in parts.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http_body_util::BodyExt;
use serde_json::{Value, json};

use super::Case;
use super::arena::{Arena, NAMESPACE, SOON, User, cache, uncache};
use crate::eventually::eventually;
use crate::fixtures::{definition, no_conversion};
use crate::http::{Client, Request};
use crate::{objects, unique};

const GROWTH: u64 = 192;
const SECONDS: u64 = 240;

const COLUMNS: usize = 1_500;
/// Bytes of the text, and of the list, that columns show.
const TEXT: usize = 700_000;
const LIST: usize = 500_000;
/// Objects, each with a row of that length.
const OBJECTS: usize = 3;
/// How much of a response is read. A server that makes a row before it sends it does not get so far.
const READ: usize = 16 << 20;
/// How long a response may take until so much of it is read.
const PATIENCE: Duration = Duration::from_secs(60);

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const YAML_TABLE: &str = "application/yaml;as=Table;v=v1;g=meta.k8s.io";

/// The case.
#[must_use]
pub fn case() -> Case {
    Case::new("1,500 columns that show a megabyte", GROWTH, SECONDS, |arena| Box::pin(follow(arena)))
}

async fn follow(arena: &Arena) -> Result<String> {
    let source = arena.source();
    let group = unique::group("wide");
    let version = json!({
        "name": "v1", "served": true, "storage": true,
        "schema": { "openAPIV3Schema": { "type": "object", "properties": {
            "spec": { "type": "object", "properties": {
                "text": { "type": "string" },
                "list": { "type": "array", "items": { "type": "object", "properties": { "a": { "type": "integer" } } } },
            } },
        } } },
        "additionalPrinterColumns": columns(),
    });
    let made = definition(&group, "Namespaced", ("wides", "wide", "Wide"), &[version], &no_conversion());
    objects::create(&source, objects::DEFINITIONS, &made).await?;
    let outcome = Box::pin(read(arena, &group)).await;
    let name = format!("wides.{group}");
    uncache(&source, &name).await.ok();
    objects::delete(&source, &format!("{}/{name}", objects::DEFINITIONS)).await?;
    outcome
}

fn columns() -> Vec<Value> {
    let paths = [".spec.text", ".spec['text']", ".spec.list", ".spec"];
    let column =
        |number: usize| json!({ "name": format!("c{number}"), "type": "string", "jsonPath": paths[number % 4] });
    (0..COLUMNS).map(column).collect()
}

async fn read(arena: &Arena, group: &str) -> Result<String> {
    let source = arena.source();
    let collection = format!("/apis/{group}/v1/namespaces/{NAMESPACE}/wides");
    let item = json!({ "a": 1 });
    let list = vec![item.clone(); LIST / item.to_string().len()];
    for number in 0..OBJECTS {
        let object = json!({
            "apiVersion": format!("{group}/v1"), "kind": "Wide",
            "metadata": { "name": format!("wide-{number}"), "namespace": NAMESPACE },
            "spec": { "text": "x".repeat(TEXT), "list": list },
        });
        let created = async || objects::create(&source, &collection, &object).await.map(drop);
        eventually("kube-apiserver serves it", SOON, created).await?;
    }
    cache(&source, group, "wides", &json!([])).await?;
    let client = arena.client(User::Administrator)?;
    eventually("the resource is served", SOON, async || {
        arena.process_id()?;
        let list = client.get_json(&collection).await?;
        ensure!(list["items"].as_array().map(Vec::len) == Some(OBJECTS), "not all objects");
        Ok(())
    })
    .await?;
    for place in [&*collection, &format!("{collection}/wide-1")] {
        for (accept, query, expected) in [
            (TABLE, "", "\"rows\":[{\"cells\":[\"wide-"),
            (TABLE, "?includeObject=Object", "\"rows\":[{\"cells\":[\"wide-"),
            (TABLE, "?pretty=true", "\"cells\": ["),
            (YAML_TABLE, "", "\n- cells:\n  - wide-"),
        ] {
            let path = format!("{place}{query}");
            let begin = tokio::time::timeout(PATIENCE, beginning(&client, &path, accept)).await;
            let begin = begin.with_context(|| format!("{path} as {accept}: too slow"))??;
            ensure!(begin.contains(expected), "{path} as {accept}: no row begins");
        }
    }
    // An event is one line, so such a row ends the watch, with a reason.
    for query in ["", "&includeObject=Object"] {
        let path = format!("{collection}?watch=1{query}");
        let mut watch = client.open(Request::get(path).header("accept", TABLE)).await?;
        let event = watch.event(PATIENCE).await?;
        ensure!(event["type"] == "ERROR" && event["object"]["code"] == 413, "{}", excerpt(&event.to_string()));
        let message = event["object"]["message"].as_str().unwrap_or_default().to_owned();
        ensure!(message.contains(&format!("{NAMESPACE}/wide-0")) && message.contains("as=Table"), "{message}");
    }
    Ok(format!("{OBJECTS} rows of about {} MB", COLUMNS * (TEXT + TEXT + LIST + TEXT + LIST) / 4 / 1_000_000))
}

/// Reads the first [`READ`] bytes of a response and drops it. Returns what precedes and at the first row.
async fn beginning(client: &Client, path: &str, accept: &str) -> Result<String> {
    let response = client.stream(Request::get(path).header("accept", accept)).await?;
    ensure!(response.status() == 200, "{path} as {accept}: {}", response.status());
    let mut body = response.into_body();
    let (mut begin, mut length) = (Vec::new(), 0);
    while length < READ {
        let frame = body.frame().await.with_context(|| format!("{path} as {accept}: ended after {length} bytes"))??;
        let Ok(piece) = frame.into_data() else { continue };
        length += piece.len();
        if begin.len() < 1 << 20 {
            begin.extend_from_slice(&piece);
        }
    }
    Ok(String::from_utf8_lossy(&begin).into_owned())
}

fn excerpt(text: &str) -> String {
    text.chars().take(200).collect()
}
