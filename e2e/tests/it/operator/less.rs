//! The Views of `docs/your-operator.md`: what they show, and that a change of anything else is no event.

use anyhow::{Context, Result, ensure};
use e2e::eventually::eventually;
use e2e::http::Request;
use e2e::objects;
use http::Method;
use serde_json::{Value, json};

use super::{SOON, Stage, ready};

/// The names of the members of a value, in order.
fn members(value: &Value) -> Vec<&str> {
    value.as_object().map(|members| members.keys().map(String::as_str).collect()).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_views_of_the_page_show_the_fields_that_they_name() -> Result<()> {
    let stage = Stage::start().await?;
    let client = stage.control_plane.client();
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": { "password": "czNjcmV0" },
        "metadata": { "name": "one", "labels": { "app": "shop" }, "annotations": { "note": "s3cret" } },
    });
    objects::create(&client, "/api/v1/namespaces/team-a/secrets", &secret).await?;
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "one", "labels": { "app": "shop" } },
        "spec": { "nodeName": "n", "serviceAccountName": "default", "containers": [{ "name": "c", "image": "i", "env": [{ "name": "A", "value": "s3cret" }] }] },
    });
    stage.kubectl.succeed(&["create", "serviceaccount", "default", "-n", "team-a"]).await.ok();
    eventually("the Pod is admitted", SOON, async || {
        objects::create(&client, "/api/v1/namespaces/team-a/pods", &pod).await
    })
    .await?;
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/your-operator.md"))?;
    for file in ["secrets-without-data", "pod-addresses"] {
        let manifest = std::fs::read_to_string(format!("{}/walk-through/{file}.yaml", stage.manifests))?;
        let view = manifest.rsplit("---\n").next().unwrap_or_default();
        ensure!(page.contains(&format!("```yaml\n{view}```")), "the page shows another View than {file}.yaml");
        stage.apply(&format!("walk-through/{file}.yaml")).await?;
    }
    let operator = stage.operator("one").await?;
    let administrator = stage.administrator(&operator)?;
    ready(&operator, &administrator).await?;
    for (view, plural, rest, spec) in [
        ("secrets-without-data", "secrets", &["type"][..], None),
        ("pod-addresses", "pods", &["spec", "status"], Some(["nodeName", "serviceAccountName"])),
    ] {
        let done =
            stage.kubectl.succeed(&["wait", "--for=condition=Ready", "--timeout=180s", &format!("view/{view}")]).await;
        done.with_context(|| operator.process().tail())?;
        let path = format!(
            "/apis/view.fieldcache.dev/v1alpha1/views/{view}/proxy/api/v1/namespaces/team-a/{plural}?fieldSelector=metadata.name%3Done"
        );
        let list = administrator.get_json(&path).await?;
        let one = &list["items"][0];
        ensure!(!list.to_string().contains("s3cret") && !list.to_string().contains("czNjcmV0"), "{list}");
        ensure!(one["metadata"]["labels"] == json!({ "app": "shop" }), "{one}");
        let mut expected = vec!["metadata"];
        expected.extend(rest);
        let mut shown = members(one);
        shown.sort_unstable();
        expected.sort_unstable();
        ensure!(shown == expected, "{shown:?} instead of {expected:?}");
        if let Some(spec) = spec {
            ensure!(members(&one["spec"]) == spec, "{one}");
        }

        // What the View does not show changes, then something that it shows: only that is an event.
        let version = list["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        let mut watch = administrator.watch(&format!("{path}&watch=true&resourceVersion={version}")).await?;
        for change in [json!({ "annotations": { "note": "another" } }), json!({ "labels": { "app": "mall" } })] {
            let patch = json!({ "metadata": change }).to_string();
            let mut request = Request::new(Method::PATCH, format!("/api/v1/namespaces/team-a/{plural}/one"));
            request.body = patch.into();
            client.send(request.header("content-type", "application/merge-patch+json")).await?.success()?;
        }
        let event = watch.event(SOON).await?;
        ensure!(event["type"] == "MODIFIED", "{event}");
        ensure!(event["object"]["metadata"]["labels"]["app"] == "mall", "the first event shows both changes: {event}");
    }
    Ok(())
}
