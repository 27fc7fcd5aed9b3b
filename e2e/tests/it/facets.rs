//! Lists as Facets, and sorted lists, beside a kube-apiserver: they count and sort the objects that kube-apiserver
//! lists.
//!
//! kube-apiserver has neither. Its answers to the same headers show what a client of both gets.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::compare::equal;
use e2e::control_plane::{ControlPlane, Settings};
use e2e::eventually::eventually;
use e2e::fieldcache::Fieldcache;
use e2e::http::{Client, Request};
use e2e::objects;
use e2e::workload::{Resource, definition};
use http::Method;
use serde_json::{Value, json};

const GROUP: &str = "faceted.example.com";
const GADGETS: &str = "/apis/faceted.example.com/v1/gadgets";
const IN_DEFAULT: &str = "/apis/faceted.example.com/v1/namespaces/default/gadgets";
const FACETS: &str = "application/json;as=Facets;g=view.fieldcache.dev;v=v1alpha1";
const SOON: Duration = Duration::from_secs(60);

/// The total and the facets of a list of kube-apiserver, counted by the client. `fields` are labels with the paths of
/// their values in an object.
fn counted(list: &Value, fields: &[(&str, &str)]) -> Result<Value> {
    let items = list["items"].as_array().context("a list has items")?;
    let facets = fields.iter().map(|(label, path)| {
        let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
        for item in items {
            *counts.entry(item.pointer(path).and_then(Value::as_str).unwrap_or_default()).or_default() += 1;
        }
        let absent = counts.remove("").unwrap_or_default();
        let mut ranked: Vec<(&str, u64)> = counts.into_iter().collect();
        ranked.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let other: u64 = ranked.iter().skip(2).map(|(_, count)| count).sum();
        let values: Vec<Value> =
            ranked.iter().take(2).map(|(value, count)| json!({ "value": value, "count": count })).collect();
        json!({ "field": label, "distinct": ranked.len(), "values": values, "other": other, "absent": absent })
    });
    Ok(json!({ "total": items.len(), "facets": facets.collect::<Vec<Value>>() }))
}

async fn get(client: &Client, path: &str, accept: &str) -> Result<(u16, Value)> {
    let answer = client.send(Request::new(Method::GET, path).header("accept", accept)).await?;
    Ok((answer.status.as_u16(), answer.json()?))
}

/// The names of all pages of a sorted list.
async fn paged(client: &Client, path: &str) -> Result<Vec<String>> {
    let (mut names, mut token) = (Vec::new(), String::new());
    loop {
        let (code, page) = get(client, &format!("{path}&limit=7&continue={token}"), "application/json").await?;
        ensure!(code == 200, "{code}: {page}");
        names.extend(names_of(&page)?);
        page["metadata"]["continue"].as_str().unwrap_or_default().clone_into(&mut token);
        if token.is_empty() {
            return Ok(names);
        }
    }
}

/// The names of the objects of a list, in its order.
fn names_of(list: &Value) -> Result<Vec<String>> {
    let items = list["items"].as_array().context("a list has items")?;
    Ok(items.iter().map(|item| item["metadata"]["name"].as_str().unwrap_or_default().to_owned()).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn facets_count_the_objects_of_kube_apiserver() -> Result<()> {
    let control_plane = ControlPlane::start(Settings::default()).await?;
    let theirs = control_plane.client();
    objects::create_definition(&theirs, &definition(GROUP)).await?;
    for (number, (color, size)) in
        (0..40).zip([("red", "S"), ("blue", "M"), ("blue", "L"), ("green", ""), ("", "M")].into_iter().cycle())
    {
        let namespace = if number % 3 == 0 { "kube-system" } else { "default" };
        let gadget = Resource::gadgets(GROUP).object(&format!("gadget-{number}"), "x", color, size);
        objects::create(&theirs, &format!("/apis/{GROUP}/v1/namespaces/{namespace}/gadgets"), &gadget).await?;
    }
    let kubeconfig = control_plane.kubeconfig().display().to_string();
    let fieldcache =
        Fieldcache::serve(["--kubeconfig", &kubeconfig, "--resource", "gadgets"].map(str::to_owned)).await?;
    let ours = fieldcache.client();
    let fields =
        [("spec.color", "/spec/color"), ("spec.size", "/spec/size"), ("metadata.namespace", "/metadata/namespace")];
    let labels: Vec<&str> = fields.iter().map(|(label, _)| *label).collect();
    for (collection, selector) in [
        (GADGETS, ""),
        (IN_DEFAULT, ""),
        (GADGETS, "fieldSelector=spec.color%3Dblue"),
        (GADGETS, "fieldSelector=spec.color!%3Dblue,spec.size%3DM"),
        (IN_DEFAULT, "labelSelector=color%20in%20(red,green)"),
        (GADGETS, "fieldSelector=metadata.name%3Dgadget-7"),
        (GADGETS, "fieldSelector=spec.color%3Dpink"),
    ] {
        let facets = format!("{collection}?facets={}&facetLimit=2&{selector}", labels.join(","));
        eventually(&facets, SOON, async || {
            let expected = counted(&theirs.get_json(&format!("{collection}?{selector}")).await?, &fields)?;
            let (code, found) = get(&ours, &facets, FACETS).await?;
            ensure!(code == 200, "{code}: {found}");
            equal("counted", &expected, "Facets", &json!({ "total": found["total"], "facets": found["facets"] }))
        })
        .await?;
    }
    // The state before a change.
    let before = get(&ours, &format!("{GADGETS}?facets=spec.color"), FACETS).await?.1;
    let version = before["metadata"]["resourceVersion"].as_str().context("a version")?.to_owned();
    let gadget = Resource::gadgets(GROUP).object("gadget-late", "x", "black", "S");
    objects::create(&theirs, IN_DEFAULT, &gadget).await?;
    eventually("the new gadget is counted", SOON, async || {
        let now = get(&ours, &format!("{GADGETS}?facets=spec.color"), FACETS).await?.1;
        ensure!(now["total"] == 41 && now["facets"][0]["distinct"] == 4, "{now}");
        Ok(())
    })
    .await?;
    let exact = format!("{GADGETS}?facets=spec.color&resourceVersion={version}&resourceVersionMatch=Exact");
    equal("before", &before, "Exact", &get(&ours, &exact, FACETS).await?.1)?;
    for (sort_by, is_descending, path) in [
        ("spec.size", false, "/spec/size"),
        ("-spec.size", true, "/spec/size"),
        ("-metadata.name", true, "/metadata/name"),
    ] {
        let mut list = theirs.get_json(GADGETS).await?;
        let items = list["items"].as_array_mut().context("a list has items")?;
        // Stable: kube-apiserver lists by namespace and name.
        items.sort_by(|left, right| {
            let value = |item: &Value| item.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
            let order = value(left).cmp(&value(right));
            if is_descending { order.reverse() } else { order }
        });
        let found = paged(&ours, &format!("{GADGETS}?sortBy={sort_by}")).await?;
        equal("kube-apiserver, sorted", &json!(names_of(&list)?), "sorted pages", &json!(found))?;
    }
    // Headers that both servers read.
    for (path, accept, expected) in [
        (GADGETS, FACETS.to_owned(), [(406, "Status"), (200, "Facets")]),
        (GADGETS, format!("{FACETS},application/json"), [(200, "GadgetList"), (200, "Facets")]),
        (GADGETS, format!("application/json,{FACETS}"), [(200, "GadgetList"), (200, "GadgetList")]),
        ("/apis/apps/v1/deployments?watch=1", FACETS.to_owned(), [(406, "Status"), (406, "Status")]),
        // Forwarded to kube-apiserver, as one object of a cached resource is too.
        (
            "/apis/faceted.example.com/v1/namespaces/default/gadgets/gadget-1",
            FACETS.to_owned(),
            [(406, "Status"), (406, "Status")],
        ),
    ] {
        for (client, (code, kind)) in [&theirs, &ours].into_iter().zip(expected) {
            let (found, answer) = get(client, path, &accept).await?;
            ensure!((found, answer["kind"].as_str()) == (code, Some(kind)), "{path} {accept}: {found} {answer}");
        }
    }
    Ok(())
}
