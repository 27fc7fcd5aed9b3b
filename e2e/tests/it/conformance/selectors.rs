//! Field selectors (E4, E6, E7, E10): grammar, refusals, labels beside fields, pages.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use e2e::{compare, fixtures, unique};
use serde_json::{Value, json};

use super::backend::{Backend, escaped, follows, is_quiet, lists, names, query, refused};

/// `shirts`, namespaced here, of `v1` (color, size, quantity) and `v2` (also `extra`); the versions' schemas differ.
fn definition(group: &str) -> Value {
    let version = |name: &str, is_stored: bool, more: &[&str]| {
        let mut properties =
            json!({ "color": { "type": "string" }, "size": { "type": "string" }, "quantity": { "type": "integer" } });
        let mut fields = vec![".spec.color".to_owned(), ".spec.size".to_owned(), ".spec.quantity".to_owned()];
        for name in more {
            properties[*name] = json!({ "type": "string" });
            fields.push(format!(".spec.{name}"));
        }
        let fields: Vec<Value> = fields.iter().map(|field| json!({ "jsonPath": field })).collect();
        json!({
            "name": name, "served": true, "storage": is_stored,
            "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": { "type": "object", "properties": properties } } } },
            "selectableFields": fields,
        })
    };
    let versions = [version("v1", true, &["stored"]), version("v2", false, &["extra", "stored"])];
    fixtures::definition(group, "Namespaced", ("shirts", "shirt", "Shirt"), &versions, &fixtures::no_conversion())
}

fn shirt(group: &str, name: &str, team: &str, spec: Value) -> Value {
    json!({
        "apiVersion": format!("{group}/v1"), "kind": "Shirt",
        "metadata": { "name": name, "namespace": "default", "labels": { "team": team } }, "spec": spec,
    })
}

#[tokio::test]
async fn selectors_of_a_cluster() -> Result<()> {
    run(&Backend::cluster().await?).await
}

#[tokio::test]
async fn selectors_of_a_folder() -> Result<()> {
    run(&Backend::folder().await?).await
}

async fn run(backend: &Backend) -> Result<()> {
    let group = unique::group("selectors");
    backend.define(&definition(&group)).await?;
    let path = format!("/apis/{group}/v1/namespaces/default/shirts");
    let objects = [
        shirt(&group, "a", "red", json!({ "color": "blue", "size": "M", "quantity": 1 })),
        shirt(&group, "b", "red", json!({ "color": "blue", "size": "S" })),
        shirt(&group, "c", "blue", json!({ "color": "green", "size": "M" })),
        shirt(&group, "d", "blue", json!({ "color": "a,b" })),
        shirt(&group, "e", "blue", json!({ "color": " x" })),
        shirt(&group, "f", "red", json!({ "color": "a=b\\" })),
    ];
    for object in &objects {
        backend.put(&path, object).await?;
    }
    let client = backend.client();
    lists(&client, &path, &["a", "b", "c", "d", "e", "f"]).await?;

    let good = grammar_that_selects(backend, &path).await?;
    let bad = grammar_that_is_refused(backend, &group, &path).await?;
    let together = labels_beside_fields(backend, &group, &path).await?;
    pages(backend, &path).await.context("pages")?;
    println!(
        "conformance: selectors, {good} that select, {bad} refused, {together} with labels, folder: {}",
        backend.is_folder()
    );
    Ok(())
}

/// E6, the rows with a response.
async fn grammar_that_selects(backend: &Backend, path: &str) -> Result<usize> {
    let client = backend.client();
    let all: &[&str] = &["a", "b", "c", "d", "e", "f"];
    let rows: [(&str, &[&str]); 20] = [
        ("", all),
        (",", all),
        (",,", all),
        ("=", all),
        ("==", all),
        ("spec.color=blue,,", &["a", "b"]),
        (",spec.color=blue", &["a", "b"]),
        ("spec.color==blue", &["a", "b"]),
        ("spec.color!=blue", &["c", "d", "e", "f"]),
        ("spec.color=blue,spec.color=green", &[]),
        ("spec.color=blue,spec.color=blue", &["a", "b"]),
        ("spec.color!=blue,spec.color!=green", &["d", "e", "f"]),
        ("spec.color=a\\,b", &["d"]),
        ("spec.color= x", &["e"]),
        ("spec.color=x", &[]),
        ("spec.color=a\\=b\\\\", &["f"]),
        ("spec.color=blue,spec.size=M", &["a"]),
        ("metadata.name=a", &["a"]),
        ("metadata.name!=a,spec.color=blue", &["b"]),
        ("metadata.namespace=default,spec.size=S", &["b"]),
    ];
    for (selector, expected) in rows {
        lists(&client, &query(path, selector, "", ""), expected).await?;
    }
    // Of a repeated parameter the first counts.
    lists(&client, &format!("{path}?fieldSelector=spec.size%3DS&fieldSelector=spec.color%3Dgreen"), &["b"]).await?;
    // GET by name knows no selector.
    let one = client.get_json(&format!("{path}/c?fieldSelector=spec.nosuch%3D1")).await?;
    ensure!(one["metadata"]["name"] == "c", "{one}");
    Ok(rows.len() + 2)
}

/// E4 and E6: the rows that are refused, in kube-apiserver's words, list and watch alike.
async fn grammar_that_is_refused(backend: &Backend, group: &str, path: &str) -> Result<usize> {
    let client = backend.client();
    let rows = [
        ("spec.color a", "invalid selector: 'spec.color a'; can't understand 'spec.color a'"),
        ("!spec.color a", "invalid selector: '!spec.color a'; can't understand '!spec.color a'"),
        ("spec.color in a", "invalid selector: 'spec.color in a'; can't understand 'spec.color in a'"),
        ("spec.color=a,b c", "invalid selector: 'spec.color=a,b c'; can't understand 'b c'"),
        ("spec.color=b=c", "invalid field selector: unescaped character in value: 61"),
        ("spec.color=x\\y", "invalid field selector: invalid escape sequence: \\y"),
        ("spec.color=x\\", "invalid field selector: invalid escape sequence: \\"),
        ("zz=1,aa=2", "field label not supported: aa"),
        ("=X", "field label not supported: "),
        (" spec.color=X", "field label not supported:  spec.color"),
        ("spec.color =X", "field label not supported: spec.color "),
        (".spec.color=X", "field label not supported: .spec.color"),
        ("spec.Color=X", "field label not supported: spec.Color"),
        ("spec.extra=X", "field label not supported: spec.extra"),
        ("metadata.labels=X", "field label not supported: metadata.labels"),
        ("metadata.uid=X", "field label not supported: metadata.uid"),
        ("spec=X", "field label not supported: spec"),
    ];
    for (selector, message) in rows {
        let requested = query(path, selector, "", "");
        refused(&client, &requested, 400, message).await?;
        refused(&client, &format!("{requested}&watch=1"), 400, message).await?;
        if let Backend::Cluster { writer, .. } = backend {
            let (theirs, ours) = (writer.get(&requested).await?, client.get(&requested).await?);
            ensure!(theirs.status == ours.status, "{selector}: {} <> {}", theirs.status, ours.status);
            compare::equal("kube-apiserver", &theirs.json()?, "fieldcache", &ours.json()?).context(selector)?;
        }
    }
    // E4: the label is v2's.
    client.get_json(&query(&format!("/apis/{group}/v2/namespaces/default/shirts"), "spec.extra=", "", "")).await?;
    Ok(rows.len())
}

/// E7.
async fn labels_beside_fields(backend: &Backend, group: &str, path: &str) -> Result<usize> {
    let client = backend.client();
    let rows: [(&str, &str, &[&str]); 7] = [
        ("spec.color=blue", "team=red", &["a", "b"]),
        ("spec.size=M", "team=red", &["a"]),
        ("spec.size=M", "team!=red", &["c"]),
        ("spec.size=M", "team=green", &[]),
        ("spec.size!=M", "team in (red)", &["b", "f"]),
        ("spec.size=M,spec.color=green", "team", &["c"]),
        ("metadata.name!=a", "!team", &[]),
    ];
    for (field, label, expected) in rows {
        lists(&client, &query(path, field, label, ""), expected).await?;
    }
    let refusal = client.get(&query(path, "spec.size=M", "team in red", "")).await?;
    ensure!(refusal.status.as_u16() == 400, "{}", refusal.text());

    let mut watch = client.watch(&query(path, "spec.size=L", "team=red", "&watch=1")).await?;
    let mut other = client.watch(&query(path, "spec.size=L", "team=blue", "&watch=1")).await?;
    backend.put(path, &shirt(group, "w", "red", json!({ "size": "L" }))).await?;
    follows(&mut watch, &[("ADDED", "w")]).await?;
    backend.put(path, &shirt(group, "w", "red", json!({ "size": "L", "color": "new" }))).await?;
    follows(&mut watch, &[("MODIFIED", "w")]).await?;
    // The label leaves and the field stays; then the field leaves too.
    backend.put(path, &shirt(group, "w", "blue", json!({ "size": "L" }))).await?;
    follows(&mut watch, &[("DELETED", "w")]).await?;
    follows(&mut other, &[("ADDED", "w")]).await?;
    backend.put(path, &shirt(group, "w", "blue", json!({ "size": "S" }))).await?;
    follows(&mut other, &[("DELETED", "w")]).await?;
    backend.remove(path, &shirt(group, "w", "blue", json!({}))).await?;
    lists(&client, path, &["a", "b", "c", "d", "e", "f"]).await?;
    is_quiet(&mut watch).await?;
    is_quiet(&mut other).await?;
    Ok(rows.len() + 2)
}

/// E10: a page counts matches, and the number of those that remain is exact; the token ends.
async fn pages(backend: &Backend, path: &str) -> Result<()> {
    let client = backend.client();
    for (selector, limit, expected) in [
        ("spec.color=blue", 1, vec!["a", "b"]),
        ("spec.color=blue", 2, vec!["a", "b"]),
        ("spec.size=M", 1, vec!["a", "c"]),
        ("spec.color!=blue", 3, vec!["c", "d", "e", "f"]),
    ] {
        let mut token = String::new();
        let mut seen: Vec<String> = Vec::new();
        let mut tokens = BTreeSet::new();
        loop {
            let page = query(path, selector, "", &format!("&limit={limit}&continue={}", escaped(&token)));
            let list = client.get_json(&page).await?;
            ensure!(names(&list).len() <= limit, "a page of {:?}", names(&list));
            seen.extend(names(&list).into_iter().map(str::to_owned));
            token = list["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
            let remaining = list["metadata"].get("remainingItemCount").cloned();
            let left = (!token.is_empty()).then(|| Value::from(expected.len() - seen.len()));
            ensure!(remaining == left, "{selector} by {limit} after {seen:?}: {}", list["metadata"]);
            if token.is_empty() {
                break;
            }
            ensure!(tokens.insert(token.clone()), "the token {token} came twice");
        }
        ensure!(seen == expected, "{selector} by {limit}: {seen:?}");
    }
    // Without a selector what remains is reported.
    let list = client.get_json(&format!("{path}?limit=2")).await?;
    ensure!(list["metadata"]["remainingItemCount"] == 4, "{}", list["metadata"]);
    Ok(())
}
