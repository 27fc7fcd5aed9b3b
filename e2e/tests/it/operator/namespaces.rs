//! Views that select namespaces by labels, in front of a real kube-apiserver.

use anyhow::{Context, Result, ensure};
use e2e::eventually::eventually;
use e2e::objects;
use serde_json::{Value, json};

use super::consumers::proxy;
use super::rights::user;
use super::{SHIRTS, SOON, Stage, names, ready};

/// The namespaces of the objects of a list, each once.
fn namespaces(list: &Value) -> Result<Vec<String>> {
    let mut namespaces: Vec<String> =
        names(list)?.iter().filter_map(|name| Some(name.split_once('/')?.0.to_owned())).collect();
    namespaces.dedup();
    Ok(namespaces)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_view_follows_the_labels_of_namespaces() -> Result<()> {
    let stage = Stage::start().await?;
    let client = stage.control_plane.client();
    let reads = json!([{ "apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list", "watch"] }]);
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "rules": reads,
        "metadata": { "name": "fieldcache-reads-namespaces", "labels": { "fieldcache.dev/aggregate-to-reader": "true" } },
    });
    stage.apply_this("reads-namespaces.json", &role).await?;
    for (group, resource, name) in
        [("stable.example.com", "shirts", "shirts.stable.example.com"), ("", "namespaces", "namespaces")]
    {
        let cache = json!({
            "apiVersion": "fieldcache.dev/v1alpha1", "kind": "FieldCache", "metadata": { "name": name },
            "spec": { "group": group, "resource": resource },
        });
        stage.apply_this(&format!("{name}.json"), &cache).await?;
    }
    for namespace in ["team-a", "team-b"] {
        let shirt = json!({
            "apiVersion": "stable.example.com/v1", "kind": "Shirt",
            "metadata": { "name": "one" }, "spec": { "color": "blue", "size": "M" },
        });
        let path = format!("/apis/stable.example.com/v1/namespaces/{namespace}/shirts");
        eventually("shirts can be written", SOON, async || objects::create(&client, &path, &shirt).await).await?;
    }
    stage.kubectl.succeed(&["label", "namespace", "team-a", "tenant=shop"]).await?;
    let view = json!({
        "apiVersion": "fieldcache.dev/v1alpha1", "kind": "View", "metadata": { "name": "shop" },
        "spec": { "resources": [{
            "group": "stable.example.com", "resource": "shirts",
            "namespaceSelector": { "matchLabels": { "tenant": "shop" } },
        }] },
    });
    stage.apply_this("shop.json", &view).await?;
    let both = json!({ "namespaces": ["team-a"], "namespaceSelector": {} });
    let mut rejected = view.clone();
    rejected["metadata"]["name"] = json!("both");
    for (key, value) in both.as_object().into_iter().flatten() {
        rejected["spec"]["resources"][0][key] = value.clone();
    }
    let refused = stage.apply_this("both.json", &rejected).await.expect_err("two restrictions of namespaces");
    ensure!(format!("{refused:#}").contains("set namespaces or namespaceSelector, not both"), "{refused:#}");

    let operator = stage.operator("one").await?;
    let administrator = stage.administrator(&operator)?;
    ready(&operator, &administrator).await?;
    let done = stage.kubectl.succeed(&["wait", "--for=condition=Ready", "--timeout=180s", "view/shop"]).await;
    done.with_context(|| operator.process().tail())?;
    // A user with permission in one namespace only.
    let rbac = "rbac.authorization.k8s.io";
    let binding = json!({
        "apiVersion": format!("{rbac}/v1"), "kind": "RoleBinding", "metadata": { "name": "tenant", "namespace": "team-a" },
        "subjects": [user("tenant")],
        "roleRef": { "apiGroup": rbac, "kind": "ClusterRole", "name": "fieldcache-reads-shirts" },
    });
    stage.apply_this("tenant.json", &binding).await?;
    let tenant = stage.control_plane.authority().client("tenant", None)?;
    let tenant = operator.as_client(stage.folder.path(), &tenant)?.client();

    let path = format!("{}{SHIRTS}", proxy("shop"));
    let list = eventually("the View shows a namespace", SOON, async || {
        let list = tenant.get_json(&path).await?;
        ensure!(namespaces(&list)? == ["team-a"], "{list}");
        Ok(list)
    })
    .await?;
    let version = list["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    let watching = |version: &str| format!("{path}?watch=true&resourceVersion={version}");
    let mut watch = administrator.watch(&watching(version)).await?;
    stage.kubectl.succeed(&["label", "namespace", "team-b", "tenant=shop"]).await?;
    let event = watch.event(SOON).await?;
    ensure!(event["type"] == "ERROR" && event["object"]["code"] == 410, "{event}");
    let shown = administrator.get_json(&path).await?;
    ensure!(namespaces(&shown)? == ["team-a", "team-b"], "{shown}");
    let refused = tenant.get(&path).await?;
    ensure!(refused.status == 403, "the tenant may not list team-b: {}", refused.text());
    let within = path.replace("/v1/shirts", "/v1/namespaces/team-a/shirts");
    ensure!(namespaces(&tenant.get_json(&within).await?)? == ["team-a"], "but its own namespace");
    // A client that resumes from before the change, and one that resumes after it.
    let mut resumed = administrator.watch(&watching(version)).await?;
    let event = resumed.event(SOON).await?;
    ensure!(event["type"] == "ERROR" && event["object"]["code"] == 410, "{event}");
    let version = shown["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    let mut resumed = administrator.watch(&watching(version)).await?;
    stage.kubectl.succeed(&["label", "namespace", "team-b", "other=label"]).await?;
    stage.kubectl.succeed(&["label", "shirt", "one", "-n", "team-b", "seen=yes"]).await?;
    let event = resumed.event(SOON).await?;
    ensure!(event["type"] == "MODIFIED" && event["object"]["metadata"]["namespace"] == "team-b", "{event}");
    stage.kubectl.succeed(&["label", "namespace", "team-b", "tenant-"]).await?;
    let event = resumed.event(SOON).await?;
    ensure!(event["type"] == "ERROR" && event["object"]["code"] == 410, "{event}");
    ensure!(namespaces(&tenant.get_json(&path).await?)? == ["team-a"], "the namespace has left");
    Ok(())
}
