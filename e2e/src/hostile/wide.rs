//! Hostile objects with more labels or values than are indexed: as many as kube-apiserver stores, several of them, each with labels
//! of its own. Selections of them must be kube-apiserver's, in lists and watches.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use http::Method;
use serde_json::{Value, json};

use super::Case;
use super::arena::{Arena, GROUP, NAMESPACE, SOON, User};
use crate::http::{Client, Next, Request};

/// What all of them may cost at the peak. Before labels were bounded, each label took a kilobyte: 200 MB.
const GROWTH: u64 = 120;
const SECONDS: u64 = 240;
/// Objects of a case.
const OBJECTS: usize = 3;
/// Labels of an object: with what is kept of their owner they are a request of 1.4 MB to etcd, which takes 1.5 MiB.
const LABELS: usize = 60_000;

/// The table.
#[must_use]
pub fn cases() -> Vec<Case> {
    vec![
        Case::new("180,000 labels of 3 objects", GROWTH, SECONDS, |arena| Box::pin(labels(arena))),
        Case::new("65 values of an extra field", GROWTH, SECONDS, |arena| Box::pin(values(arena))),
    ]
}

/// The key of a label: four digits to the base of 36, different in each object.
fn key(object: usize, number: usize) -> String {
    let mut rest = object * LABELS + number;
    let mut digits = [0; 4];
    for digit in digits.iter_mut().rev() {
        *digit = rest % 36;
        rest /= 36;
    }
    digits.iter().filter_map(|digit| char::from_digit(u32::try_from(*digit).ok()?, 36)).collect()
}

fn name(object: usize) -> String {
    format!("odd-{object}")
}

async fn labels(arena: &Arena) -> Result<String> {
    let client = arena.client(User::Administrator)?;
    let last = key(OBJECTS - 1, LABELS - 1);
    let watched = format!("{}?watch=1&timeoutSeconds=200&labelSelector={last}", arena.collection());
    let mut lines = client.open(Request::get(&*watched)).await?;
    for object in 0..OBJECTS {
        let labels: Vec<String> = (0..LABELS).map(|number| format!(r#""{}":"""#, key(object, number))).collect();
        let text = format!(
            r#"{{"apiVersion":"{GROUP}/v1","kind":"Anything","metadata":{{"name":"{}","namespace":"{NAMESPACE}","labels":{{{}}}}},"spec":{{}}}}"#,
            name(object),
            labels.join(",")
        );
        arena.create_text(&text).await?;
    }
    arena.arrives(&name(OBJECTS - 1)).await?;
    let first = key(0, 0);
    let selectors = [
        first.clone(),
        format!("{first}="),
        format!("!{first}"),
        format!("{first}!="),
        format!("{last}%20in%20(,x)"),
        format!("{last}%20notin%20()"),
        format!("{first},{}", key(0, LABELS / 2)),
        format!("{first},{last}"),
        "zzzz-none".to_owned(),
        "!zzzz-none".to_owned(),
    ];
    for selector in &selectors {
        let path = format!("{}?labelSelector={selector}", arena.collection());
        let (own, upstream) = (names(&client, &path).await?, names(&arena.source(), &path).await?);
        ensure!(own == upstream, "{selector}: {own:?} instead of {upstream:?}");
    }
    expect(&mut lines, "ADDED", &name(OBJECTS - 1)).await?;
    let mut patch = Request::new(Method::PATCH, format!("{}/{}", arena.collection_in(NAMESPACE), name(OBJECTS - 1)))
        .header("content-type", "application/merge-patch+json");
    patch.body = json!({ "metadata": { "labels": { last.clone(): null } } }).to_string().into();
    arena.source().send(patch).await?.success()?;
    expect(&mut lines, "DELETED", &name(OBJECTS - 1)).await?;
    for object in 0..OBJECTS {
        arena.delete(&name(object)).await?;
    }
    arena.leaves(&name(OBJECTS - 1)).await?;
    Ok(format!("{} labels, {} selectors", OBJECTS * LABELS, selectors.len()))
}

async fn values(arena: &Arena) -> Result<String> {
    let client = arena.client(User::Administrator)?;
    let items: Vec<Value> = (0..65).map(|number| json!({ "name": format!("n{number}") })).collect();
    arena.create("odd-many", &json!({ "items": items }).to_string()).await?;
    arena.create("odd-few", r#"{"items":[{"name":"n1"}]}"#).await?;
    for name in ["odd-many", "odd-few"] {
        arena.arrives(name).await?;
    }
    for (selector, expected) in [
        ("names%3Dn1", &["odd-few", "odd-many"][..]),
        ("names%3Dn64", &["odd-many"]),
        ("names!%3Dn64", &["odd-few"]),
        ("names%3Dn65", &[]),
    ] {
        let path = format!("{}?fieldSelector={selector}", arena.collection_in(NAMESPACE));
        let mut found = names(&client, &path).await?;
        found.retain(|name| name.starts_with("odd-"));
        ensure!(found.iter().eq(expected), "{selector}: {found:?} instead of {expected:?}");
    }
    for name in ["odd-many", "odd-few"] {
        arena.delete(name).await?;
        arena.leaves(name).await?;
    }
    Ok("4 selectors".to_owned())
}

async fn names(client: &Client, path: &str) -> Result<BTreeSet<String>> {
    let accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let answer = client.send(Request::get(path).header("accept", accept)).await?.success()?.json()?;
    let items = answer["items"].as_array().into_iter().flatten();
    Ok(items.filter_map(|item| item["metadata"]["name"].as_str().map(str::to_owned)).collect())
}

async fn expect(lines: &mut crate::http::Lines, kind: &str, name: &str) -> Result<()> {
    let Next::Line(line) = lines.next(SOON).await? else { anyhow::bail!("an end instead of {kind} {name}") };
    let event: Value = serde_json::from_slice(&line)?;
    ensure!(
        event["type"] == kind && event["object"]["metadata"]["name"] == name,
        "{} instead of {kind} {name}",
        event["type"]
    );
    Ok(())
}
