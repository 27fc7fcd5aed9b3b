//! What people read after the most common mistakes: a missing permission, and fields that are rejected.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::eventually::eventually;
use e2e::fieldcache::Fieldcache;
use e2e::http::{Endpoint, Request};
use e2e::shell::Shell;
use serde_json::{Value, json};

use super::{NAMESPACE, SELECTABLE, SOON, Stage, ready};

/// The label of ClusterRoles that grant reads.
const LABEL: &str = "fieldcache.dev/aggregate-to-reader";

/// Lines of the log that contain a text, without those of health checks.
fn logged(log: &str, text: &str) -> Vec<String> {
    log.lines().filter(|line| line.contains(text) && !line.contains("health check")).map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_permission_is_stated_once_and_its_remedy_works_as_printed() -> Result<()> {
    let stage = Stage::start().await?;
    let operator = stage.operator("one").await?;
    let client = stage.administrator(&operator)?;
    ready(&operator, &client).await?;
    let cache = json!({
        "apiVersion": "fieldcache.dev/v1alpha1", "kind": "FieldCache",
        "metadata": { "name": "configmaps" }, "spec": { "group": "", "resource": "configmaps" },
    });
    stage.apply_this("configmaps.json", &cache).await?;
    let message = eventually("the condition states what is missing", SOON, async || {
        let condition = stage.condition("fieldcache/configmaps", "Ready").await?;
        ensure!(condition["reason"] == "Forbidden", "{condition}");
        condition["message"].as_str().map(str::to_owned).context("a message")
    })
    .await
    .with_context(|| operator.process().tail())?;
    ensure!(message.lines().count() == 1, "{message}");
    let (_, remedy) = message.split_once("To grant it: ").context("a remedy")?;
    ensure!(remedy.split(" && ").all(|command| command.starts_with("kubectl ")), "{message}");
    ensure!(message.contains("has no permission to list and watch configmaps") && message.contains(LABEL), "{message}");
    for inside in ["http", "127.0.0.1", "{", "Some(", "Error"] {
        ensure!(!message.contains(inside), "{inside}: {message}");
    }
    let synced = stage.condition("fieldcache/configmaps", "Synced").await?;
    ensure!(synced["message"] == "configmaps.v1 cannot be read: see the condition Ready", "once: {synced}");
    let rejected = client.get("/api/v1/configmaps").await?;
    ensure!(rejected.status == 403 && rejected.json()?["message"] == *message, "{}", rejected.text());
    let verbose = client.get("/readyz?verbose").await?;
    ensure!(verbose.status == 200, "other stores are served: {}", verbose.text());
    ensure!(verbose.text().contains("[!]store/configmaps.v1 unavailable"), "{}", verbose.text());
    eventually("one Event has the same message", SOON, async || {
        let selector = "involvedObject.kind=FieldCache,involvedObject.name=configmaps,type=Warning";
        let found = stage.kubectl.succeed(&["get", "events", "-A", "--field-selector", selector, "-o", "json"]).await?;
        let found: Value = serde_json::from_str(&found)?;
        let events = found["items"].as_array().context("items")?;
        ensure!(events.len() == 1 && events[0]["message"] == *message, "{found}");
        Ok(())
    })
    .await?;
    // Every way in which people read it has all of it, in a form that can be pasted.
    let ways: [&[&str]; 4] = [
        &["get", "fieldcaches", "configmaps", "-o", "wide"],
        &["get", "events", "-A"],
        &["describe", "fieldcache", "configmaps"],
        &["get", "fieldcache", "configmaps", "-o", "jsonpath={.status.conditions[*].message}"],
    ];
    for way in ways {
        let shown = stage.kubectl.succeed(way).await?;
        ensure!(shown.lines().any(|line| line.contains(remedy)), "{way:?}: {shown}");
    }

    // The remedy is pasted; it takes effect within a second or two, and what a loaded machine needs besides.
    let kubeconfig = stage.control_plane.kubeconfig_for(stage.control_plane.endpoint().base());
    Shell::with_kubeconfig(&kubeconfig)?.succeed(remedy).await?;
    let granted = Instant::now();
    eventually("configmaps are served", Duration::from_secs(20), async || {
        client.get("/api/v1/configmaps").await?.success().map(drop)
    })
    .await
    .with_context(|| operator.process().tail())?;
    println!("a permission took effect after {:.1?}", granted.elapsed());
    stage.kubectl.succeed(&["wait", "--for=condition=Ready", "--timeout=60s", "fieldcache/configmaps"]).await?;
    let log = operator.process().stderr()?;
    let lines = logged(&log, "a permission is missing");
    ensure!(lines.len() == 1, "logged once, however often it was tried: {lines:#?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_field_cache_without_most_of_its_fields_is_not_simply_ready() -> Result<()> {
    let stage = Stage::start().await?;
    let arguments = ["--namespace", NAMESPACE, "--identity", "one", "--metrics-address", "127.0.0.1:0"];
    let kubeconfig = stage.kubeconfig().await?;
    let operator =
        Box::pin(Fieldcache::operator(&kubeconfig, stage.folder.path(), arguments.map(str::to_owned))).await?;
    ready(&operator, &stage.administrator(&operator)?).await?;
    let wrong = |name: &str| json!({ "name": name, "jsonPath": format!("$.spec.none{name}") });
    let cache = json!({
        "apiVersion": "fieldcache.dev/v1alpha1", "kind": "FieldCache",
        "metadata": { "name": "shirts.stable.example.com" },
        "spec": {
            "group": "stable.example.com", "resource": "shirts",
            "selectableFields": [
                { "name": "tag", "jsonPath": "$.metadata.labels.*" }, wrong("a"), wrong("b"), wrong("c"), wrong("d"),
            ],
        },
    });
    stage.apply_this("shirts.json", &cache).await?;
    let object = "fieldcache/shirts.stable.example.com";
    stage.kubectl.succeed(&["wait", "--for=condition=Ready", "--timeout=180s", object]).await?;
    let ready = stage.condition(object, "Ready").await?;
    ensure!(ready["status"] == "True" && ready["reason"] == "PartlyAccepted", "{ready}");
    let accepted = stage.condition(object, "Accepted").await?;
    ensure!(accepted["status"] == "False" && accepted["reason"] == "PathNotFound", "{accepted}");
    let message = accepted["message"].as_str().unwrap_or_default();
    for index in 1..5 {
        ensure!(message.contains(&format!("spec.selectableFields[{index}]")), "{index}: {message}");
    }
    let table = stage.kubectl.succeed(&["get", object]).await?;
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    ensure!(rows[0] == ["NAME", "READY", "ACCEPTED", "OBJECTS", "REASON", "AGE"], "{table}");
    ensure!(rows[1][1..3] == ["True", "False"] && rows[1][4] == "PartlyAccepted", "{table}");
    eventually("a Warning names the fields", SOON, async || {
        let selector = "involvedObject.kind=FieldCache,type=Warning";
        let found = stage.kubectl.succeed(&["get", "events", "-A", "--field-selector", selector, "-o", "json"]).await?;
        let found: Value = serde_json::from_str(&found)?;
        let event = &found["items"][0];
        ensure!(event["reason"] == "PathNotFound", "{found}");
        ensure!(event["message"].as_str().is_some_and(|text| text.contains("spec.selectableFields[4]")), "{event}");
        Ok(())
    })
    .await?;

    // The columns of what came of it fit a terminal.
    eventually("the fields are shown", SOON, async || {
        let resource = stage.control_plane.client().get_json(SELECTABLE).await?;
        ensure!(resource["status"]["fieldSummary"] == "spec.color,spec.size,+3", "{resource}");
        let table = stage.kubectl.succeed(&["get", "selectableresources", "shirts.stable.example.com"]).await?;
        ensure!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
        Ok(())
    })
    .await?;

    // A name that any owner of a Pod may choose, without its namespace.
    let view = json!({
        "apiVersion": "fieldcache.dev/v1alpha1", "kind": "View", "metadata": { "name": "own-shirt" },
        "spec": {
            "authorization": "View", "resources": [{ "group": "stable.example.com", "resource": "shirts" }],
            "consumer": { "fields": [{ "key": "metadata.name", "value": "PodName" }] },
        },
    });
    stage.apply_this("own-shirt.json", &view).await?;
    eventually("the View is warned of", SOON, async || {
        let condition = stage.condition("view/own-shirt", "ConsumerNamespaced").await?;
        ensure!(condition["status"] == "False" && condition["reason"] == "NamespaceNotSelected", "{condition}");
        ensure!(condition["message"].as_str().is_some_and(|text| text.contains("value: Namespace")), "{condition}");
        Ok(())
    })
    .await?;

    // The same in metrics, with the leader and the certificate.
    let address = |line: &str| {
        let (_, reported) = line.split_once("metrics: ")?;
        Some(reported.split_once("/metrics")?.0.to_owned())
    };
    let address = operator.process().line("the address of the metrics", SOON, address).await?;
    let authority = std::fs::read_to_string(stage.folder.path().join("ca.crt"))?;
    let administrator = stage.control_plane.authority().client("somebody", Some("system:masters"))?;
    let metrics = Endpoint::secure(&address, &authority, Some(&administrator))?.client();
    let condition = |kind: &str, name: &str, condition: &str, status: &str, value: u8| {
        format!("fieldcache_{kind}_condition{{name=\"{name}\",condition=\"{condition}\",status=\"{status}\"}} {value}")
    };
    let shirts = "shirts.stable.example.com";
    let expected = [
        "fieldcache_leader 1".to_owned(),
        condition("fieldcache", shirts, "Ready", "True", 1),
        condition("fieldcache", shirts, "Accepted", "True", 0),
        condition("fieldcache", shirts, "Accepted", "False", 1),
        condition("view", "own-shirt", "Ready", "True", 1),
        condition("view", "own-shirt", "ConsumerNamespaced", "False", 1),
    ];
    eventually("the metrics have the conditions", SOON, async || {
        let text = metrics.get("/metrics").await?.success()?.text();
        for line in &expected {
            ensure!(text.lines().any(|found| found == line), "{line}: {text}");
        }
        ensure!(text.contains("\nfieldcache_certificate_expiration_timestamp_seconds 1"), "{text}");
        Ok(())
    })
    .await?;
    stage.kubectl.succeed(&["delete", "view", "own-shirt"]).await?;
    eventually("a View that is gone has no conditions", SOON, async || {
        let text = metrics.get("/metrics").await?.success()?.text();
        ensure!(!text.contains("own-shirt"), "{text}");
        Ok(())
    })
    .await?;

    // A token for the API server is the usual wrong one.
    let token = stage.token("default", "default", None).await?;
    let request = Request::get("/api").header("Authorization", &format!("Bearer {token}"));
    let rejected = operator.client().send(request).await?;
    ensure!(rejected.status == 401, "{}", rejected.text());
    let message = rejected.json()?["message"].as_str().unwrap_or_default().to_owned();
    ensure!(message.starts_with("Unauthorized: ") && message.contains("the audience fieldcache.dev"), "{message}");
    Ok(())
}
