//! A FieldCache, its status, its fields in selectors and in SelectableResources, and the end of a definition.

use anyhow::{Context, Result, ensure};
use e2e::eventually::eventually;
use e2e::http::Client;
use serde_json::{Value, json};

use super::{CRD, SELECTABLE, SHIRTS, SOON, Stage, ready};

async fn names(client: &Client, query: &str) -> Result<Vec<String>> {
    let list = client.get_json(&format!("{SHIRTS}{query}")).await?;
    let items = list["items"].as_array().context("a list has items")?;
    Ok(items.iter().filter_map(|item| item["metadata"]["name"].as_str().map(str::to_owned)).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_with_the_permissions_of_the_manifests_caches_reports_and_serves_a_field_cache() -> Result<()> {
    let stage = Stage::start().await?;
    let Stage { control_plane, kubectl, .. } = &stage;
    let operator = stage.operator("one").await?;
    let client = stage.administrator(&operator)?;
    ready(&operator, &client).await?;
    ensure!(client.get(SHIRTS).await?.status == 404, "nothing is served that no FieldCache names");

    // A FieldCache with a field of its own, many-valued.
    stage.apply("walk-through/shirts-cache.yaml").await?;
    let cache = "fieldcache/shirts.stable.example.com";
    let ready = kubectl.succeed(&["wait", "--for=condition=Ready", "--timeout=180s", cache]).await;
    ready.with_context(|| operator.process().tail())?;
    let all = names(&control_plane.client(), "").await?;
    ensure!(names(&client, "").await? == all && !all.is_empty(), "{all:?}");
    let fields = r#"{"spec":{"selectableFields":[{"name":"tag","jsonPath":"$.metadata.labels.*"},{"name":"odd","jsonPath":"$.spec.none"}]}}"#;
    kubectl.succeed(&["patch", "--type=merge", "-p", fields, cache]).await?;
    let objects = control_plane.client().get_json(SHIRTS).await?;
    let labelled: Vec<&Value> = objects["items"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|item| item["metadata"]["labels"].as_object().is_some_and(|labels| !labels.is_empty()))
        .collect();
    let tag = labelled.first().and_then(|item| item["metadata"]["labels"].as_object()?.values().next()?.as_str());
    let tag = tag.context("a shirt with a label")?;
    let tagged: Vec<&str> = labelled
        .iter()
        .filter(|item| {
            item["metadata"]["labels"].as_object().is_some_and(|labels| labels.values().any(|value| value == tag))
        })
        .filter_map(|item| item["metadata"]["name"].as_str())
        .collect();
    eventually("the new field selects", SOON, async || {
        let found = names(&client, &format!("?fieldSelector=tag%3D{tag}")).await?;
        ensure!(found == tagged, "{found:?} instead of {tagged:?}");
        Ok(())
    })
    .await
    .with_context(|| operator.process().tail())?;
    eventually("errors are reported, with place and reason", SOON, async || {
        let cache_document: Value = serde_json::from_str(&kubectl.succeed(&["get", cache, "-o", "json"]).await?)?;
        let conditions = cache_document["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let accepted = conditions.iter().find(|condition| condition["type"] == "Accepted").context("Accepted")?;
        let message = accepted["message"].as_str().unwrap_or_default();
        ensure!(accepted["status"] == "False" && accepted["reason"] == "PathNotFound", "{accepted}");
        ensure!(message.contains("spec.selectableFields[1]"), "{message}");
        let ready = conditions.iter().find(|condition| condition["type"] == "Ready").context("Ready")?;
        ensure!(ready["status"] == "True", "the rest is served: {ready}");
        Ok(())
    })
    .await?;

    // What users and documents show.
    eventually("the SelectableResource has all fields", SOON, async || {
        let resource = control_plane.client().get_json(SELECTABLE).await?;
        let paths = json!(["spec.color", "spec.size", "spec.quantity", "spec.branded", "tag"]);
        ensure!(resource["status"]["fieldPaths"] == paths && resource["status"]["cached"] == true, "{resource}");
        ensure!(resource["metadata"]["ownerReferences"][0]["name"] == "shirts.stable.example.com", "{resource}");
        Ok(())
    })
    .await
    .with_context(|| operator.process().tail())?;
    eventually("the fields are published", SOON, async || {
        let document = client.get_json("/openapi/v3/apis/stable.example.com/v1").await?;
        let schemas = &document["components"]["schemas"];
        let published = &schemas["com.example.stable.v1.Shirt"]["x-kubernetes-selectable-fields"];
        let last = published.as_array().and_then(|fields| fields.last()).context("published fields")?;
        ensure!(last["fieldPath"] == "tag", "{published}");
        Ok(())
    })
    .await?;

    // A definition that goes takes everything with it.
    kubectl.succeed(&["delete", CRD]).await?;
    eventually("nothing of the definition is left", SOON, async || {
        let answer = control_plane.client().get(SELECTABLE).await?;
        ensure!(answer.status == 404, "{answer:?}");
        ensure!(client.get(SHIRTS).await?.status == 404, "it is served still");
        let held: Value = serde_json::from_str(&kubectl.succeed(&["get", cache, "-o", "json"]).await?)?;
        let conditions = held["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let accepted = conditions.iter().find(|condition| condition["type"] == "Accepted").context("Accepted")?;
        ensure!(accepted["reason"] == "ResourceNotFound", "{accepted}");
        Ok(())
    })
    .await
    .with_context(|| operator.process().tail())
}
