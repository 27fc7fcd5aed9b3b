//! Hostile CustomResourceDefinitions: what kube-apiserver accepts, the operator must serve, or report why it does not.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use futures::future::join_all;
use serde_json::{Value, json};

use super::arena::{Arena, NAMESPACE, SOON, User, cache, conditions, uncache};
use super::{Case, columns};
use crate::eventually::eventually;
use crate::fixtures::{definition, no_conversion};
use crate::http::Request;
use crate::{objects, unique};

const GROWTH: u64 = 192;
const SECONDS: u64 = 150;

/// How a request for the resource must end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expected {
    /// It is served.
    Served,
    /// It is served, or the FieldCache has a condition that says why not. Either way requests end.
    Explained,
    /// As [`Expected::Explained`], and the reason may be that there is no such resource: the definition is beyond the bound on depth.
    Absent,
}

/// Group, name, plural, versions, and the outcome. Definitions of a group are one case: they are created at the same time.
type Definition = (&'static str, &'static str, &'static str, fn() -> Vec<Value>, Expected);

const DEEP: &str = "deep schemas";
const NAMES: &str = "resources with names of path segments";
const LARGE: &str = "large and odd definitions";

const TABLE: [Definition; 11] = [
    (DEEP, "a schema of 200 levels", "things", || one(deep(200)), Expected::Served),
    (DEEP, "a schema of 1,000 levels", "things", || one(deep(1_000)), Expected::Absent),
    (DEEP, "a schema of lists of 140 levels", "things", || one(deep_lists(140)), Expected::Served),
    (NAMES, "a resource called watch", "watch", || one(json!({ "type": "string" })), Expected::Explained),
    (NAMES, "a resource called proxy", "proxy", || one(json!({ "type": "string" })), Expected::Explained),
    (LARGE, "3,000 properties", "things", || one(properties(3_000)), Expected::Served),
    (
        LARGE,
        "an enum of 10,000 values",
        "things",
        || one(json!({ "type": "string", "enum": numbers(10_000) })),
        Expected::Served,
    ),
    (
        LARGE,
        "a pattern that explodes",
        "things",
        || one(json!({ "type": "string", "pattern": EXPLODES })),
        Expected::Served,
    ),
    (LARGE, "columns of every form of path", "things", paths_of_columns, Expected::Explained),
    (LARGE, "40 versions", "things", versions, Expected::Served),
    (
        LARGE,
        "a description of 700 KB",
        "things",
        || one(json!({ "type": "string", "description": "d".repeat(700_000) })),
        Expected::Served,
    ),
];

const EXPLODES: &str = "^(((((a+)+)+)+)+)+$|^(a{1,30}){1,30}$";

/// The table, by its groups.
#[must_use]
pub fn cases() -> Vec<Case> {
    [DEEP, NAMES, LARGE]
        .into_iter()
        .map(|group| Case::new(group, GROWTH, SECONDS, move |arena| Box::pin(together(arena, group))))
        .chain([columns::case()])
        .collect()
}

/// Follows all definitions of a group at the same time.
async fn together(arena: &Arena, group: &str) -> Result<String> {
    let rows = TABLE.into_iter().filter(|row| row.0 == group);
    let outcomes = join_all(rows.map(|(_, name, plural, versions, expected)| async move {
        (name, Box::pin(follow(arena, plural, versions(), expected)).await)
    }));
    let (mut notes, mut faults) = (Vec::new(), Vec::new());
    for (name, outcome) in outcomes.await {
        match outcome {
            Ok(note) => notes.push(format!("{name}: {note}")),
            Err(error) => faults.push(format!("{name}: {error:#}")),
        }
    }
    ensure!(faults.is_empty(), "{}", faults.join("; "));
    Ok(notes.join("; "))
}

fn paths_of_columns() -> Vec<Value> {
    let mut version = version("v1", json!({ "type": "string" }));
    let paths = [
        ".spec",
        ".spec.*",
        "..name",
        ".metadata.managedFields[*].fieldsV1",
        ".spec['a b']",
        ".spec[?(@.x==1)]",
        ".spec[-1]",
        ".spec[0:1000000]",
        ".metadata.annotations.kubectl\\.kubernetes\\.io/last-applied-configuration",
    ];
    let columns: Vec<Value> = paths
        .iter()
        .enumerate()
        .map(|(index, path)| json!({ "name": format!("c{index}"), "type": "string", "jsonPath": path }))
        .collect();
    version["additionalPrinterColumns"] = columns.into();
    vec![version]
}

fn versions() -> Vec<Value> {
    let named = |number: usize| {
        let mut one = version(&format!("v{number}"), json!({ "type": "string" }));
        one["storage"] = (number == 1).into();
        one
    };
    (1..=40).map(named).collect()
}

fn version(name: &str, odd: Value) -> Value {
    json!({
        "name": name, "served": true, "storage": true,
        "schema": { "openAPIV3Schema": { "type": "object", "properties": {
            "spec": { "type": "object", "properties": { "odd": odd, "color": { "type": "string" } } },
        } } },
        "selectableFields": [{ "jsonPath": ".spec.color" }],
    })
}

fn one(odd: Value) -> Vec<Value> {
    vec![version("v1", odd)]
}

fn deep(levels: usize) -> Value {
    (0..levels).fold(json!({ "type": "string" }), |inner, _| json!({ "type": "object", "properties": { "a": inner } }))
}

fn deep_lists(levels: usize) -> Value {
    (0..levels).fold(json!({ "type": "string" }), |inner, _| json!({ "type": "array", "items": inner }))
}

fn properties(count: usize) -> Value {
    let properties: BTreeMap<String, Value> =
        (0..count).map(|number| (format!("p{number}"), json!({ "type": "string", "maxLength": number }))).collect();
    json!({ "type": "object", "properties": properties })
}

fn numbers(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("value-{number}")).collect()
}

/// Creates the definition, a FieldCache and an object; the resource must be served, or the reason reported, and requests must end.
async fn follow(arena: &Arena, plural: &str, versions: Vec<Value>, expected: Expected) -> Result<String> {
    let source = arena.source();
    let group = unique::group("odd");
    let names = (plural, "odd", "Odd");
    let made = definition(&group, "Namespaced", names, &versions, &no_conversion());
    let created = source.send(Request::new(http::Method::POST, objects::DEFINITIONS).json(&made)).await?;
    if !created.status.is_success() {
        return Ok(format!("kube-apiserver rejected it: {}", created.status));
    }
    let outcome = Box::pin(served(arena, plural, &group, expected)).await;
    let name = format!("{plural}.{group}");
    uncache(&source, &name).await.ok();
    // The response may nest deeper than a JSON reader here allows.
    source.send(Request::new(http::Method::DELETE, format!("{}/{name}", objects::DEFINITIONS))).await?.success()?;
    outcome
}

async fn served(arena: &Arena, plural: &str, group: &str, expected: Expected) -> Result<String> {
    let source = arena.source();
    let collection = format!("/apis/{group}/v1/namespaces/{NAMESPACE}/{plural}");
    let object = json!({
        "apiVersion": format!("{group}/v1"), "kind": "Odd",
        "metadata": { "name": "odd", "namespace": NAMESPACE }, "spec": { "color": "odd" },
    });
    // Its own collection cannot be reached by a path that kube-apiserver takes for a watch or a proxy.
    let is_reachable = !matches!(plural, "watch" | "proxy");
    if is_reachable {
        eventually("kube-apiserver serves it", SOON, async || {
            objects::create(&source, &collection, &object).await.map(drop)
        })
        .await?;
    }
    let name = format!("{plural}.{group}");
    cache(&source, group, plural, &json!([])).await?;
    let client = arena.client(User::Administrator)?;
    let path = format!("/apis/{group}/v1/{plural}?fieldSelector=spec.color%3Dodd");
    let state = eventually("the resource is served, or the reason reported", SOON, async || {
        arena.process_id()?;
        // Every request ends: a client that must wait forever is a fault.
        let answer = tokio::time::timeout(SOON, client.get(&path)).await.context("a request hangs")??;
        if answer.status == 200
            && answer.json()?["items"].as_array().is_some_and(|items| items.len() == usize::from(is_reachable))
        {
            return Ok("served".to_owned());
        }
        let conditions = conditions(&source, &name).await?;
        let reason = conditions.iter().find(|condition| condition["status"] == "False" && condition["type"] == "Ready");
        let reason = reason.with_context(|| format!("{}: {}", answer.status, excerpt(&answer.text())))?;
        let reason = reason["reason"].as_str().unwrap_or_default().to_owned();
        // These pass by themselves.
        let waits = ["Loading", "Syncing", "Pending", "ResourceNotFound"];
        let is_final = !waits.contains(&&*reason) || expected == Expected::Absent && reason == "ResourceNotFound";
        ensure!(!reason.is_empty() && is_final, "{}: {reason}", answer.status);
        Ok(format!("not served: {reason}"))
    })
    .await?;
    ensure!(expected != Expected::Served || state == "served", "{state}");
    for accept in ["application/json;as=Table;g=meta.k8s.io;v=v1", "application/yaml"] {
        let answer = client.send(Request::get(&*path).header("accept", accept)).await?;
        // kube-apiserver itself has no better answer to some paths.
        let upstream = source.send(Request::get(&*path).header("accept", accept)).await?;
        ensure!(answer.status != 500 || upstream.status == 500, "as {accept}: {}", answer.status);
    }
    for path in [format!("/openapi/v3/apis/{group}/v1"), format!("/apis/{group}/v1"), "/openapi/v2".to_owned()] {
        let answer = client.get(&path).await?;
        ensure!(answer.status != 500, "{path}: {}", answer.status);
    }
    Ok(state)
}

fn excerpt(text: &str) -> String {
    text.chars().take(200).collect()
}
