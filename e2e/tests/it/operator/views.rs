//! Views: what they show, to which users, through which clients, and what is reported of them.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::eventually::eventually;
use e2e::http::Endpoint;
use e2e::kubectl::Kubectl;
use serde_json::json;

use super::{SHIRTS, SOON, Stage, names, ready};

const BLUE: &str = "view/blue-shirts";
const PATH: &str = "/apis/view.fieldcache.dev/v1alpha1/views/";
const PROXY: &str = "/apis/view.fieldcache.dev/v1alpha1/views/blue-shirts/proxy";

#[tokio::test(flavor = "multi_thread")]
async fn a_view_shows_its_selection_to_permitted_users_with_any_client() -> Result<()> {
    let stage = Stage::start().await?;
    let operator = stage.operator("one").await?;
    let client = stage.administrator(&operator)?;
    ready(&operator, &client).await?;

    // Without a FieldCache there is nothing to show, and the View says what to do.
    stage.apply("walk-through/blue-shirts.yaml").await?;
    eventually("what is missing is reported", SOON, async || {
        let accepted = stage.condition(BLUE, "Accepted").await?;
        ensure!(accepted["status"] == "False" && accepted["reason"] == "NotCached", "{accepted}");
        let message = accepted["message"].as_str().unwrap_or_default();
        ensure!(message.contains("create a FieldCache with that name"), "{message}");
        Ok(())
    })
    .await
    .with_context(|| operator.process().tail())?;
    let answer = client.get(&format!("{PROXY}{SHIRTS}")).await?;
    ensure!(
        answer.status == 503 && answer.text().contains("kubectl get view blue-shirts -o wide shows the reason"),
        "{answer:?}"
    );

    stage.apply("walk-through/shirts-cache.yaml").await?;
    stage.apply("walk-through/consumer.yaml").await?;
    let ready = stage.kubectl.succeed(&["wait", "--for=condition=Ready", "--timeout=180s", BLUE]).await;
    ready.with_context(|| operator.process().tail())?;
    let view: serde_json::Value = serde_json::from_str(&stage.kubectl.succeed(&["get", BLUE, "-o", "json"]).await?)?;
    let endpoint = &view["status"]["endpoint"];
    ensure!(endpoint["url"] == format!("https://fieldcache.fieldcache-system.svc{PROXY}"), "{endpoint}");
    let bundle = stage.kubectl.succeed(&["get", BLUE, "-o", "jsonpath={.status.endpoint.caBundle}"]).await?;
    let authority = std::fs::read_to_string(stage.folder.path().join("ca.crt"))?;
    let decoded = base64::Engine::decode(&base64::prelude::BASE64_STANDARD, bundle.trim())?;
    ensure!(String::from_utf8_lossy(&decoded).trim() == authority.trim(), "the bundle is the server's authority");

    // A program with the audience of this server, and permissions in two namespaces.
    let token = stage.token("team-a", "tailor", Some("fieldcache.dev")).await?;
    let tailor = Endpoint::secure(operator.address(), &authority, None)?.with_token(&token)?.client();
    let blue = ["team-a/example1", "team-a/example2", "team-b/example4"];
    // New permissions may not be known yet, and a denial is cached for ten seconds.
    let shown = eventually("the program may", SOON, async || tailor.get_json(&format!("{PROXY}{SHIRTS}")).await);
    let list = shown.await?;
    ensure!(names(&list)? == blue, "{list}");
    ensure!(!list.to_string().contains("managedFields"), "what is left out is left out: {list}");
    let narrowed = tailor.get_json(&format!("{PROXY}{SHIRTS}?fieldSelector=spec.size%3DM")).await?;
    ensure!(names(&narrowed)? == ["team-a/example2"], "{narrowed}");
    let object = |namespace: &str, name: &str| {
        format!("{PROXY}/apis/stable.example.com/v1/namespaces/{namespace}/shirts/{name}")
    };
    ensure!(tailor.get(&object("team-a", "example1")).await?.status == 200, "shown");
    ensure!(tailor.get(&object("team-a", "example3")).await?.status == 404, "green ones do not exist in it");
    let root = tailor.get(SHIRTS).await?;
    ensure!(root.status == 403, "outside of the View it may not list all namespaces: {root:?}");
    let elsewhere = tailor.get(&format!("{PROXY}/apis/stable.example.com/v1/namespaces/default/shirts")).await?;
    ensure!(elsewhere.status == 403, "nor in a namespace without permission: {elsewhere:?}");
    let stranger = stage.token("team-b", "default", Some("fieldcache.dev")).await?;
    let stranger = Endpoint::secure(operator.address(), &authority, None)?.with_token(&stranger)?.client();
    let refused = stranger.get(&format!("{PROXY}{SHIRTS}")).await?;
    ensure!(refused.status == 403 && refused.text().contains("cannot use the View \\\"blue-shirts\\\""), "{refused:?}");
    let wrong = stage.token("team-a", "tailor", None).await?;
    let wrong = Endpoint::secure(operator.address(), &authority, None)?.with_token(&wrong)?.client();
    ensure!(wrong.get(&format!("{PROXY}{SHIRTS}")).await?.status == 401, "a token for the API server is none here");

    // kubectl, with nothing but another kubeconfig.
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "view",
        "clusters": [{ "name": "view", "cluster": {
            "server": format!("{}{PROXY}", operator.address()), "certificate-authority-data": bundle.trim() } }],
        "users": [{ "name": "tailor", "user": { "token": token } }],
        "contexts": [{ "name": "view", "context": { "cluster": "view", "user": "tailor", "namespace": "team-a" } }],
    });
    let kubectl = Kubectl::with_kubeconfig(&stage.folder.write("view-kubeconfig", kubeconfig.to_string())?)?;
    let rows = [
        (
            &["get", "shirts", "-o", "name"][..],
            "shirt.stable.example.com/example1\nshirt.stable.example.com/example2\n",
        ),
        (
            &["get", "shirts", "-A", "--field-selector", "spec.size=XL", "-o", "name"],
            "shirt.stable.example.com/example4\n",
        ),
        (&["api-resources", "-o", "name", "--verbs=list"], "shirts.stable.example.com\n"),
        (&["get", "shirt", "example1", "-o", "jsonpath={.spec.color}"], "blue"),
    ];
    for (arguments, expected) in rows {
        let printed = kubectl.succeed(arguments).await?;
        ensure!(printed == expected, "kubectl {}: {printed}", arguments.join(" "));
    }
    let explained = kubectl.succeed(&["explain", "shirts.spec.color"]).await?;
    ensure!(explained.contains("FIELD: color"), "{explained}");
    let refused = kubectl.run(&["delete", "shirt", "example1"]).await?;
    ensure!(refused.exit_code != 0, "a View is read-only: {}", refused.stdout);

    // Entering and leaving, and the end of what the View was.
    let version = list["metadata"]["resourceVersion"].as_str().context("a version")?;
    let path = format!("{PROXY}{SHIRTS}?watch=true&resourceVersion={version}");
    let mut watch = tailor.watch(&path).await?;
    let color = |color: &str| format!(r#"{{"spec":{{"color":"{color}"}}}}"#);
    for (name, to) in [("example3", "blue"), ("example1", "red"), ("example3", "green")] {
        let patch = ["patch", "shirt", name, "-n", "team-a", "--type=merge", "-p", &color(to)];
        stage.kubectl.succeed(&patch).await?;
    }
    for expected in [("ADDED", "example3"), ("DELETED", "example1"), ("DELETED", "example3")] {
        let event = watch.event(SOON).await?;
        ensure!(event["type"] == expected.0 && event["object"]["metadata"]["name"] == expected.1, "{event}");
    }
    let wider = r#"[{"op":"replace","path":"/spec/resources/0/namespaces","value":["team-b"]}]"#;
    stage.kubectl.succeed(&["patch", BLUE, "--type=json", "-p", wider]).await?;
    let event = watch.event(SOON).await?;
    ensure!(event["type"] == "ERROR" && event["object"]["code"] == 410, "another View ends its watches: {event}");
    let list = tailor.get_json(&format!("{PROXY}{SHIRTS}")).await?;
    ensure!(names(&list)? == ["team-b/example4"], "{list}");

    // What is deleted is gone.
    stage.kubectl.succeed(&["delete", BLUE]).await?;
    eventually("it is gone", Duration::from_secs(30), async || {
        let answer = tailor.get(&format!("{PROXY}{SHIRTS}")).await?;
        // A user who may not use it does not learn whether it exists.
        ensure!(answer.status == 403 && answer.text().contains("cannot use the View"), "{answer:?}");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partial_store_is_visible_in_views_only() -> Result<()> {
    let stage = Stage::start().await?;
    let cache = json!({
        "apiVersion": "fieldcache.dev/v1alpha1", "kind": "FieldCache", "metadata": { "name": "shirts.stable.example.com" },
        "spec": { "group": "stable.example.com", "resource": "shirts", "scope": {
            "labelSelector": { "matchLabels": { "app": "store" } },
            "fieldSelector": { "matchExpressions": [{ "key": "spec.color", "operator": "NotIn", "values": ["green"] }] },
        } },
    });
    stage.apply_this("cache.json", &cache).await?;
    let all = json!({
        "apiVersion": "fieldcache.dev/v1alpha1", "kind": "View", "metadata": { "name": "all" },
        "spec": { "resources": [{ "group": "stable.example.com", "resource": "shirts" }] },
    });
    stage.apply_this("view.json", &all).await?;
    let operator = stage.operator("one").await?;
    let client = stage.administrator(&operator)?;
    ready(&operator, &client).await?;
    let done = stage.kubectl.succeed(&["wait", "--for=condition=Ready", "--timeout=180s", "view/all"]).await;
    done.with_context(|| operator.process().tail())?;
    let path = format!("{PATH}all/proxy{SHIRTS}");
    let list = client.get_json(&path).await?;
    ensure!(names(&list)? == ["team-b/example4", "team-b/example5"], "{list}");
    eventually("two of six are kept", SOON, async || {
        let count = ["get", "fieldcache/shirts.stable.example.com", "-o", "jsonpath={.status.objects}"];
        let count = stage.kubectl.succeed(&count).await?;
        ensure!(count == "2", "{count}");
        Ok(())
    })
    .await?;
    for root in [SHIRTS, "/apis/stable.example.com/v1", "/apis/stable.example.com"] {
        let answer = client.get(root).await?;
        ensure!(answer.status == 404, "at the root it would look like all of them: {root}: {answer:?}");
    }
    let version = list["metadata"]["resourceVersion"].as_str().context("a version")?;
    let mut watch = client.watch(&format!("{path}?watch=true&resourceVersion={version}")).await?;
    let label = |value: &str| format!(r#"{{"metadata":{{"labels":{{"app":"{value}"}}}}}}"#);
    for (name, namespace, app) in
        [("example1", "team-a", "store"), ("example4", "team-b", "none"), ("plain", "team-b", "other")]
    {
        let patch = ["patch", "shirt", name, "-n", namespace, "--type=merge", "-p", &label(app)];
        stage.kubectl.succeed(&patch).await?;
    }
    for (kind, name) in [("ADDED", "example1"), ("DELETED", "example4")] {
        let event = watch.event(SOON).await?;
        ensure!(event["type"] == kind && event["object"]["metadata"]["name"] == name, "{event}");
    }
    Ok(())
}
