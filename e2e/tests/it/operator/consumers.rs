//! Views that show each caller something else: by the claims of a token that is bound to a Pod, and by that Pod's labels.

use anyhow::{Context, Result, anyhow, ensure};
use e2e::eventually::eventually;
use e2e::fieldcache::Fieldcache;
use e2e::http::Client;
use e2e::objects;
use serde_json::{Value, json};

use super::rights::{account, grant, with_token};
use super::{SOON, Stage, names, ready};

const PODS: &str = "/api/v1/pods";

pub(super) fn proxy(view: &str) -> String {
    format!("/apis/view.fieldcache.dev/v1alpha1/views/{view}/proxy")
}

/// A FieldCache of a resource of the core group.
pub(super) fn cache(resource: &str) -> Value {
    json!({
        "apiVersion": "fieldcache.dev/v1alpha1", "kind": "FieldCache", "metadata": { "name": resource },
        "spec": { "group": "", "resource": resource },
    })
}

/// A Pod that was placed by hand, as DaemonSets once did.
pub(super) async fn pod(stage: &Stage, namespace: &str, name: &str, node: &str, labels: Value) -> Result<String> {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "labels": labels },
        "spec": { "nodeName": node, "serviceAccountName": "agent", "containers": [{ "name": "main", "image": "none" }] },
    });
    let made =
        objects::create(&stage.control_plane.client(), &format!("/api/v1/namespaces/{namespace}/pods"), &pod).await?;
    made["metadata"]["uid"].as_str().map(str::to_owned).context("a uid")
}

pub(super) async fn node(stage: &Stage, name: &str) -> Result<()> {
    let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name } });
    objects::create(&stage.control_plane.client(), "/api/v1/nodes", &node).await.map(drop)
}

/// A token for this server of the ServiceAccount `agent` that is bound to a Pod.
pub(super) async fn bound_token(stage: &Stage, namespace: &str, pod: &str, uid: &str) -> Result<String> {
    bound_token_for(stage, namespace, pod, uid, Some("fieldcache.dev")).await
}

/// The same for an audience; without one for the API server itself.
pub(super) async fn bound_token_for(
    stage: &Stage,
    namespace: &str,
    pod: &str,
    uid: &str,
    audience: Option<&str>,
) -> Result<String> {
    let audiences: Vec<&str> = audience.into_iter().collect();
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {
            "audiences": audiences,
            "boundObjectRef": { "apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid },
        },
    });
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/agent/token");
    let answer = objects::create(&stage.control_plane.client(), &path, &request).await?;
    answer["status"]["token"].as_str().map(str::to_owned).context("a token")
}

/// The permissions of a reader of Pods, for the operator itself.
pub(super) async fn let_it_read(stage: &Stage, resources: &[&str]) -> Result<()> {
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": { "name": "fieldcache-reads-more", "labels": { "fieldcache.dev/aggregate-to-reader": "true" } },
        "rules": [{ "apiGroups": [""], "resources": resources, "verbs": ["get", "list", "watch"] }],
    });
    stage.apply_this("reader.json", &role).await.map(drop)
}

async fn stage() -> Result<(Stage, Fieldcache)> {
    let stage = Stage::start().await?;
    let_it_read(&stage, &["pods"]).await?;
    stage.apply_this("pods.json", &cache("pods")).await?;
    for namespace in ["team-a", "team-b"] {
        stage.kubectl.succeed(&["create", "serviceaccount", "agent", "-n", namespace]).await?;
    }
    for name in ["n1", "n2"] {
        node(&stage, name).await?;
    }
    let operator = stage.operator("one").await?;
    Ok((stage, operator))
}

fn view(name: &str, authorization: &str, consumer: Value) -> Value {
    json!({
        "apiVersion": "fieldcache.dev/v1alpha1", "kind": "View", "metadata": { "name": name },
        "spec": { "authorization": authorization, "consumer": consumer, "resources": [{ "group": "", "resource": "pods" }] },
    })
}

fn takes(fields: &[(&str, &str)]) -> Value {
    let fields: Vec<Value> = fields.iter().map(|(key, value)| json!({ "key": key, "value": value })).collect();
    json!({ "fields": fields })
}

/// Waits until the list has these objects; what it may not have must never be in it.
///
/// A reader comes when the Pods have just been created, before the store may have them.
async fn come(client: &Client, path: &str, expected: &[&str]) -> Result<Value> {
    eventually(&format!("{path} lists {expected:?}"), SOON, async || {
        let list = client.get_json(path).await?;
        let found = names(&list)?;
        if found.iter().any(|name| !expected.contains(&&**name)) {
            return Ok(Err(anyhow!("{path} shows too much: {list}")));
        }
        ensure!(found == expected, "it lists {found:?}");
        Ok(Ok(list))
    })
    .await?
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_token_is_bound_to_is_what_its_bearer_sees() -> Result<()> {
    let (stage, operator) = stage().await?;
    let views = [
        ("node", takes(&[("spec.nodeName", "NodeName")])),
        ("self", takes(&[("metadata.name", "PodName"), ("metadata.namespace", "Namespace")])),
        ("account", takes(&[("spec.serviceAccountName", "ServiceAccountName"), ("metadata.namespace", "Namespace")])),
    ];
    for (name, consumer) in &views {
        stage.apply_this(&format!("{name}.json"), &view(name, "View", consumer.clone())).await?;
    }
    let mut tokens = Vec::new();
    for (namespace, name, on) in [("team-a", "a1", "n1"), ("team-a", "a2", "n2"), ("team-b", "b1", "n1")] {
        let uid = pod(&stage, namespace, name, on, json!({ "app": "agent" })).await?;
        tokens.push(bound_token(&stage, namespace, name, &uid).await?);
    }
    let rule = json!([{ "apiGroups": ["fieldcache.dev"], "resources": ["views"], "verbs": ["use"] }]);
    grant(
        &stage,
        "uses",
        rule,
        json!({ "kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "system:serviceaccounts" }),
    )
    .await?;
    ready(&operator, &stage.administrator(&operator)?).await?;
    let done = stage.kubectl.succeed(&["wait", "--for=condition=Ready", "--timeout=180s", "view", "--all"]).await;
    done.with_context(|| operator.process().tail())?;

    let expected: [[&[&str]; 3]; 3] = [
        [&["team-a/a1", "team-b/b1"], &["team-a/a1"], &["team-a/a1", "team-a/a2"]],
        [&["team-a/a2"], &["team-a/a2"], &["team-a/a1", "team-a/a2"]],
        [&["team-a/a1", "team-b/b1"], &["team-b/b1"], &["team-b/b1"]],
    ];
    let mut clients = Vec::new();
    for (token, expected) in tokens.iter().zip(expected) {
        let client = with_token(&stage, &operator, token)?;
        for ((name, _), expected) in views.iter().zip(expected) {
            come(&client, &format!("{}{PODS}", proxy(name)), expected).await?;
        }
        clients.push(client);
    }
    // One's own selectors narrow what is there, and name nothing that is not.
    let other = format!("{}{PODS}?fieldSelector=spec.nodeName%3Dn2", proxy("node"));
    ensure!(names(&clients[0].get_json(&other).await?)?.is_empty(), "another node is empty");
    let object = |namespace: &str, name: &str| format!("{}/api/v1/namespaces/{namespace}/pods/{name}", proxy("node"));
    ensure!(clients[0].get(&object("team-b", "b1")).await?.status == 200, "a Pod of the node");
    ensure!(clients[0].get(&object("team-a", "a2")).await?.status == 404, "a Pod of another node");

    // A watch of each sees its own part of the same changes.
    let mut watches = Vec::new();
    for client in &clients {
        let list = client.get_json(&format!("{}{PODS}", proxy("node"))).await?;
        let version = list["metadata"]["resourceVersion"].as_str().context("a version")?;
        watches.push(client.watch(&format!("{}{PODS}?watch=true&resourceVersion={version}", proxy("node"))).await?);
    }
    pod(&stage, "team-b", "b2", "n2", json!({})).await?;
    pod(&stage, "team-b", "b3", "n1", json!({})).await?;
    for (watch, expected) in watches.iter_mut().zip(["b3", "b2", "b3"]) {
        let event = watch.event(SOON).await?;
        ensure!(event["type"] == "ADDED" && event["object"]["metadata"]["name"] == expected, "{event}");
    }

    // A value that the caller does not have is rejected by name, and so is everything in the View.
    let unbound = with_token(&stage, &operator, &stage.token("team-a", "agent", Some("fieldcache.dev")).await?)?;
    for (name, path, status, reported) in [
        ("node", PODS, 403, "the View node requires the node of a Pod of the caller"),
        ("node", "/apis", 403, "bound to a Pod"),
        ("node", "/openapi/v3", 403, "bound to a Pod"),
        ("self", PODS, 403, "the View self requires the name of a Pod of the caller"),
        ("account", PODS, 200, "a2"),
    ] {
        let answer = unbound.get(&format!("{}{path}", proxy(name))).await?;
        ensure!(answer.status == status && answer.text().contains(reported), "{name} {path}: {answer:?}");
    }
    let administrator = stage.administrator(&operator)?;
    let answer = administrator.get(&format!("{}{PODS}", proxy("account"))).await?;
    ensure!(answer.status == 403 && answer.text().contains("use a ServiceAccount's token"), "{answer:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_labels_of_ones_own_pod_select_until_they_change() -> Result<()> {
    let (stage, operator) = stage().await?;
    let keys = json!({ "matchLabelKeys": ["tenant", "absent"], "mismatchLabelKeys": ["app"] });
    stage.apply_this("peers.json", &view("peers", "Caller", keys)).await?;
    let uid = pod(&stage, "team-a", "me", "n1", json!({ "tenant": "x", "app": "agent" })).await?;
    let token = bound_token(&stage, "team-a", "me", &uid).await?;
    for (name, labels) in [
        ("same", json!({ "tenant": "x", "app": "web" })),
        ("bare", json!({ "tenant": "x" })),
        ("other", json!({ "tenant": "y", "app": "web" })),
        ("twin", json!({ "tenant": "x", "app": "agent" })),
    ] {
        pod(&stage, "team-b", name, "n2", labels).await?;
    }
    let rule = json!([{ "apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"] }]);
    grant(&stage, "lists-pods", rule, account("team-a", "agent")).await?;
    ready(&operator, &stage.administrator(&operator)?).await?;
    let done = stage.kubectl.succeed(&["wait", "--for=condition=Ready", "--timeout=180s", "view/peers"]).await;
    done.with_context(|| operator.process().tail())?;
    let client = with_token(&stage, &operator, &token)?;
    let path = format!("{}{PODS}", proxy("peers"));
    let list = come(&client, &path, &["team-b/bare", "team-b/same"]).await.context("as KEP-3633 merges them")?;
    let answer = client.get(&format!("{}/api/v1/namespaces/team-b/pods/same", proxy("peers"))).await?;
    ensure!(answer.status == 403, "a convenience, no right: {answer:?}");

    // A label that is no key changes nothing; one that is ends the watch, and the next list is another one.
    let version = list["metadata"]["resourceVersion"].as_str().context("a version")?;
    let mut watch = client.watch(&format!("{path}?watch=true&resourceVersion={version}")).await?;
    stage.kubectl.succeed(&["label", "pod", "me", "-n", "team-a", "note=1"]).await?;
    stage.kubectl.succeed(&["label", "pod", "bare", "-n", "team-b", "note=1"]).await?;
    let event = watch.event(SOON).await?;
    ensure!(event["type"] == "MODIFIED" && event["object"]["metadata"]["name"] == "bare", "{event}");
    stage.kubectl.succeed(&["label", "--overwrite", "pod", "me", "-n", "team-a", "tenant=y"]).await?;
    let event = watch.event(SOON).await?;
    ensure!(event["type"] == "ERROR" && event["object"]["code"] == 410, "{event}");
    let reported = event["object"]["message"].as_str().unwrap_or_default();
    ensure!(reported.contains("the labels of the caller's Pod changed"), "{reported}");
    eventually("another tenant", SOON, async || {
        let list = client.get_json(&path).await?;
        ensure!(names(&list)? == ["team-b/other"], "{list}");
        Ok(())
    })
    .await?;

    // Without its Pod a token is none, and says nothing of labels.
    let list = client.get_json(&path).await?;
    let version = list["metadata"]["resourceVersion"].as_str().context("a version")?;
    let mut watch = client.watch(&format!("{path}?watch=true&resourceVersion={version}")).await?;
    stage.kubectl.succeed(&["delete", "pod", "me", "-n", "team-a", "--force", "--grace-period=0"]).await?;
    let event = watch.event(SOON).await?;
    ensure!(event["type"] == "ERROR" && event["object"]["code"] == 410, "{event}");
    eventually("the token is no longer valid", SOON, async || {
        let answer = client.get(&path).await?;
        ensure!(answer.status == 401 || answer.status == 403, "{answer:?}");
        Ok(())
    })
    .await?;

    // What cannot be served is said on the View.
    stage.kubectl.succeed(&["delete", "fieldcache/pods"]).await?;
    eventually("nothing keeps pods", SOON, async || {
        let accepted = stage.condition("view/peers", "Accepted").await?;
        ensure!(accepted["status"] == "False" && accepted["reason"] == "NotCached", "{accepted}");
        Ok(())
    })
    .await
}
