//! What `serve` and its log say of the life of a resource and of each request, and when it is ready.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::control_plane::ControlPlane;
use e2e::eventually::eventually;
use e2e::fieldcache::Fieldcache;
use e2e::run_directory::RunDirectory;
use e2e::{fixtures, objects, unique};
use serde_json::{Value, json};

const SOON: Duration = Duration::from_secs(60);

/// The log lines, each a flat object.
fn lines(fieldcache: &Fieldcache) -> Result<Vec<Value>> {
    let text = fieldcache.process().stderr()?;
    let read = |line: &str| {
        let object: Value = serde_json::from_str(line).with_context(|| line.to_owned())?;
        ensure!(["ts", "level", "msg", "target"].iter().all(|name| object[name].is_string()), "{line}");
        ensure!(object.as_object().into_iter().flatten().all(|(_, value)| !value.is_object()), "not flat: {line}");
        Ok(object)
    };
    // The last line may be half written.
    text.split_inclusive('\n').filter(|line| line.ends_with('\n')).map(read).collect()
}

#[tokio::test]
async fn the_log_describes_the_life_of_a_resource_and_each_request() -> Result<()> {
    let control_plane = ControlPlane::shared().await?;
    let source = control_plane.client();
    let group = unique::group("logged");
    let definition = fixtures::shirts(&group, &fixtures::no_conversion());
    objects::create_definition(&source, &definition).await?;
    let path = format!("/apis/{group}/v1/shirts");
    for (name, color) in [("a", "blue"), ("b", "red")] {
        let shirt = json!({
            "apiVersion": format!("{group}/v1"), "kind": "Shirt", "metadata": { "name": name }, "spec": { "color": color },
        });
        objects::create(&source, &path, &shirt).await?;
    }
    let kubeconfig = control_plane.kubeconfig().display().to_string();
    let name = format!("Shirt.{group}");
    let arguments = ["--kubeconfig", &kubeconfig, "--resource", &name, "--log-level", "debug", "--log-format", "json"];
    let fieldcache = Box::pin(Fieldcache::serve(arguments.map(str::to_owned))).await?;
    let client = fieldcache.client();
    let example = fieldcache.process().line("an example of the requested resource", SOON, |line| {
        line.contains(" get shirts -A --field-selector spec.").then(|| line.to_owned())
    });
    example.await?;
    eventually("it is ready when its resource is loaded", SOON, async || {
        let ready = client.get("/readyz?verbose").await?;
        ensure!(ready.status == 200, "{}", ready.text());
        let check = format!("[+]store/shirts.v1.{group} ok\n");
        ensure!(ready.text().contains(&check), "{}", ready.text());
        Ok(())
    })
    .await?;
    let gvr = format!("shirts.v1.{group}");
    let said = |lines: &[Value], message: &str| {
        lines.iter().filter(|line| line["msg"] == message && line["resource"] == *gvr).cloned().collect::<Vec<_>>()
    };
    let loaded = said(&lines(&fieldcache)?, "loaded");
    ensure!(loaded.len() == 1 && loaded[0]["objects"] == 2 && loaded[0]["level"] == "info", "{loaded:?}");
    ensure!(loaded[0]["took"].is_string(), "{loaded:?}");

    let answer = client.get(&format!("{path}?fieldSelector=spec.color%3Dblue&labelSelector=tier%21%3Db")).await?;
    let body = answer.success()?.body;
    eventually("the request is logged", SOON, async || {
        let all = lines(&fieldcache)?;
        let line = all.iter().find(|line| line["msg"] == "request answered" && line["path"] == *path);
        let line = line.context("no line of the request")?;
        let expected = json!({
            "user": "127.0.0.1", "verb": "LIST", "field_selector": "spec.color=blue", "label_selector": "tier!=b",
            "code": 200, "bytes": body.len(), "level": "debug",
        });
        for (field, value) in expected.as_object().context("fields")? {
            ensure!(&line[field] == value, "{field} is not {value}: {line}");
        }
        ensure!(line["took"].is_string() && line["id"].is_string(), "{line}");
        Ok(())
    })
    .await?;

    // A changed definition, and one that goes, are normal.
    let crd = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/shirts.{group}");
    let mut fewer = definition.clone();
    fewer["spec"]["versions"][0]["selectableFields"].as_array_mut().context("fields")?.pop();
    objects::merge(&source, &crd, &json!({ "spec": fewer["spec"] })).await?;
    eventually("the copy is replaced", SOON, async || {
        let all = lines(&fieldcache)?;
        ensure!(said(&all, "loaded").len() == 2, "not loaded again: {all:?}");
        let ended = said(&all, "no longer cached");
        ensure!(ended.len() == 1 && ended[0]["reason"] == "its CRD or its fields have changed", "{ended:?}");
        Ok(())
    })
    .await?;
    objects::delete(&source, &crd).await?;
    eventually("the end is reported", SOON, async || {
        let all = lines(&fieldcache)?;
        let ended = said(&all, "no longer cached");
        ensure!(ended.len() == 2 && ended[1]["reason"] == "its CRD was deleted", "{ended:?}");
        let removed = all.iter().any(|line| {
            line["msg"] == "the served resources have changed" && line["removed"].to_string().contains(&gvr)
        });
        ensure!(removed, "{all:?}");
        Ok(())
    })
    .await?;
    let warnings: Vec<Value> = lines(&fieldcache)?
        .into_iter()
        .filter(|line| line["level"] == "warn" || line["level"] == "error")
        .filter(|line| line.to_string().contains(&group))
        // Readiness was requested while the store was being loaded.
        .filter(|line| line["msg"] != "health check failed")
        .collect();
    ensure!(warnings.is_empty(), "{warnings:?}");
    Ok(())
}

#[tokio::test]
async fn a_user_that_may_not_list_definitions_is_warned_once() -> Result<()> {
    let control_plane = ControlPlane::shared().await?;
    let (_, kubeconfig) = control_plane.as_user(&unique::name("somebody"), None)?;
    let folder = RunDirectory::create("logs")?;
    let kubeconfig = folder.write("kubeconfig", kubeconfig.to_string())?.display().to_string();
    let arguments = ["--kubeconfig", &kubeconfig, "--log-level", "debug", "--log-format", "json"];
    let fieldcache = Box::pin(Fieldcache::serve(arguments.map(str::to_owned))).await?;
    let definitions = "customresourcedefinitions";
    let lines_with = |level: &str, message: &str| {
        let is_meant = |line: &Value| {
            line["level"] == level
                && line.to_string().contains(definitions)
                && line["msg"].to_string().contains(message)
        };
        Ok::<_, anyhow::Error>(lines(&fieldcache)?.into_iter().filter(is_meant).collect::<Vec<_>>())
    };
    eventually("it is tried again", SOON, async || {
        ensure!(lines_with("debug", "still missing")?.len() >= 2, "{:?}", lines(&fieldcache)?);
        Ok(())
    })
    .await?;
    let warned = lines_with("warn", "")?;
    ensure!(warned.len() == 1 && warned[0]["msg"].to_string().contains("a permission is missing"), "{warned:?}");
    let reason = warned[0]["reason"].as_str().unwrap_or_default();
    ensure!(reason.contains("grant get, list and watch on the resource") && !reason.contains("https://"), "{reason}");
    Ok(())
}
