//! Views that show the namespaces in which the caller has the permission, in front of a real kube-apiserver with RBAC.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use e2e::control_plane::kubeconfig;
use e2e::eventually::eventually;
use e2e::fieldcache::Fieldcache;
use e2e::http::Client;
use e2e::kubectl::Kubectl;
use e2e::objects;
use futures::StreamExt;
use kube::ResourceExt;
use kube::api::{ApiResource, DynamicObject};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::{WatchStreamExt, reflector, watcher};
use serde_json::{Value, json};

use super::consumers::proxy;
use super::rights::{account, grant, user, with_token};
use super::{SHIRTS, SOON, Stage, names, ready};

const RBAC: &str = "rbac.authorization.k8s.io";
const READS_SHIRTS: &str = "fieldcache-reads-shirts";

/// The namespaces of the objects of a list, each once.
fn namespaces(list: &Value) -> Result<Vec<String>> {
    let mut namespaces: Vec<String> =
        names(list)?.iter().filter_map(|name| Some(name.split_once('/')?.0.to_owned())).collect();
    namespaces.dedup();
    Ok(namespaces)
}

fn group(name: &str) -> Value {
    json!({ "apiGroup": RBAC, "kind": "Group", "name": name })
}

/// Binds a ClusterRole to a subject in one namespace.
async fn bind(stage: &Stage, namespace: &str, name: &str, role: &str, subject: Value) -> Result<()> {
    let binding = json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding",
        "metadata": { "name": name, "namespace": namespace }, "subjects": [subject],
        "roleRef": { "apiGroup": RBAC, "kind": "ClusterRole", "name": role },
    });
    stage.apply_this(&format!("{namespace}-{name}.json"), &binding).await.map(drop)
}

/// Shirts in three namespaces, the View `own`, and three users: `auditor` may list shirts in all namespaces, the group
/// `team` in `team-a`, and `nobody` nowhere. A ServiceAccount may in `team-a` and `team-b`.
async fn prepare(stage: &Stage) -> Result<()> {
    let client = stage.control_plane.client();
    let reads = json!([
        { "apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list", "watch"] },
        { "apiGroups": [RBAC], "resources": ["rolebindings"], "verbs": ["get", "list", "watch"] },
    ]);
    let role = json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole", "rules": reads,
        "metadata": { "name": "fieldcache-reads-more", "labels": { "fieldcache.dev/aggregate-to-reader": "true" } },
    });
    stage.apply_this("reads-more.json", &role).await?;
    for (group, resource, name) in [
        ("stable.example.com", "shirts", "shirts.stable.example.com".to_owned()),
        ("", "namespaces", "namespaces".to_owned()),
        (RBAC, "rolebindings", format!("rolebindings.{RBAC}")),
    ] {
        let cache = json!({
            "apiVersion": "fieldcache.dev/v1alpha1", "kind": "FieldCache", "metadata": { "name": name },
            "spec": { "group": group, "resource": resource },
        });
        stage.apply_this(&format!("{name}.json"), &cache).await?;
    }
    stage.kubectl.succeed(&["create", "namespace", "team-c"]).await?;
    for namespace in ["team-a", "team-b", "team-c"] {
        let shirt = json!({
            "apiVersion": "stable.example.com/v1", "kind": "Shirt",
            "metadata": { "name": "one" }, "spec": { "color": "blue", "size": "M" },
        });
        let path = format!("/apis/stable.example.com/v1/namespaces/{namespace}/shirts");
        eventually("shirts can be written", SOON, async || objects::create(&client, &path, &shirt).await).await?;
    }
    let shirts = json!({ "group": "stable.example.com", "resource": "shirts", "permittedNamespaces": true });
    let view = json!({
        "apiVersion": "fieldcache.dev/v1alpha1", "kind": "View", "metadata": { "name": "own" },
        "spec": { "resources": [shirts, { "resource": "namespaces", "permittedNamespaces": true }] },
    });
    stage.apply_this("own.json", &view).await?;
    for (name, more, expected) in [
        (
            "two",
            json!({ "namespaces": ["team-a"] }),
            "set only one of namespaces, namespaceSelector and permittedNamespaces",
        ),
        (
            "by-labels",
            json!({ "namespaceSelector": {} }),
            "set only one of namespaces, namespaceSelector and permittedNamespaces",
        ),
    ] {
        let mut rejected = view.clone();
        rejected["metadata"]["name"] = json!(name);
        for (key, value) in more.as_object().into_iter().flatten() {
            rejected["spec"]["resources"][0][key] = value.clone();
        }
        let refused = stage.apply_this("rejected.json", &rejected).await.expect_err("two restrictions of namespaces");
        ensure!(format!("{refused:#}").contains(expected), "{refused:#}");
    }
    let mut rejected = view.clone();
    rejected["metadata"]["name"] = json!("as-right");
    rejected["spec"]["authorization"] = json!("View");
    let refused = stage.apply_this("rejected.json", &rejected).await.expect_err("not the caller's permissions");
    ensure!(format!("{refused:#}").contains("permittedNamespaces needs authorization Caller"), "{refused:#}");

    let reads = |resource: &str, verbs: &[&str]| {
        let group = if resource == "shirts" { "stable.example.com" } else { "" };
        json!([{ "apiGroups": [group], "resources": [resource], "verbs": verbs }])
    };
    grant(stage, "auditor", reads("shirts", &["get", "list", "watch"]), user("auditor")).await?;
    stage.kubectl.succeed(&["create", "clusterrole", "gets-namespaces", "--verb=get", "--resource=namespaces"]).await?;
    stage.kubectl.succeed(&["create", "clusterrole", "reads-secrets", "--verb=list", "--resource=secrets"]).await?;
    stage.kubectl.succeed(&["create", "serviceaccount", "robot", "-n", "team-b"]).await?;
    bind(stage, "team-a", "team", READS_SHIRTS, group("team")).await?;
    bind(stage, "team-a", "sees-it", "gets-namespaces", group("team")).await?;
    // A RoleBinding whose role permits something else.
    bind(stage, "team-c", "team", "reads-secrets", group("team")).await?;
    bind(stage, "team-a", "robot", READS_SHIRTS, account("team-b", "robot")).await?;
    bind(stage, "team-b", "robot", READS_SHIRTS, account("team-b", "robot")).await?;
    // Another ServiceAccount of the same name.
    bind(stage, "team-c", "robot", READS_SHIRTS, account("team-c", "robot")).await?;
    Ok(())
}

/// Waits until a list through the View shows these namespaces, and returns the list.
async fn shows(client: &Client, expected: &[&str]) -> Result<Value> {
    eventually("the View shows the permitted namespaces", SOON, async || {
        let answer = client.get(&format!("{}{SHIRTS}", proxy("own"))).await?;
        ensure!(answer.status == 200, "{}", answer.text());
        let list = answer.json()?;
        ensure!(namespaces(&list)? == expected, "{:?}, not {expected:?}", namespaces(&list)?);
        Ok(list)
    })
    .await
}

/// A reflector of kube-rs: the namespaces of the shirts that it holds.
async fn informer(kubeconfig: &Value) -> Result<impl Fn() -> BTreeSet<String> + use<>> {
    let kubeconfig: Kubeconfig = serde_json::from_value(kubeconfig.clone())?;
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let kind = ApiResource {
        group: "stable.example.com".to_owned(),
        version: "v1".to_owned(),
        api_version: "stable.example.com/v1".to_owned(),
        kind: "Shirt".to_owned(),
        plural: "shirts".to_owned(),
    };
    let shirts: kube::Api<DynamicObject> = kube::Api::all_with(kube::Client::try_from(config)?, &kind);
    let writer = reflector::store::Writer::<DynamicObject>::new(kind);
    let reader = writer.as_reader();
    tokio::spawn(async move {
        let events = watcher(shirts, watcher::Config::default()).default_backoff().reflect(writer);
        events.for_each(|_| std::future::ready(())).await;
    });
    Ok(move || reader.state().iter().filter_map(|shirt| shirt.namespace()).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_view_shows_each_caller_the_namespaces_in_which_it_has_the_permission() -> Result<()> {
    let stage = Stage::start().await?;
    prepare(&stage).await?;
    let operator = stage.operator("one").await?;
    let administrator = stage.administrator(&operator)?;
    ready(&operator, &administrator).await?;
    let done = stage.kubectl.succeed(&["wait", "--for=condition=Ready", "--timeout=180s", "view/own"]).await;
    done.with_context(|| operator.process().tail())?;
    let as_user = |name: &str, group: Option<&str>| -> Result<Client> {
        let identity = stage.control_plane.authority().client(name, group)?;
        Ok(operator.as_client(stage.folder.path(), &identity)?.client())
    };
    let (auditor, member) = (as_user("auditor", None)?, as_user("jane", Some("team"))?);
    let robot = with_token(&stage, &operator, &stage.token("team-b", "robot", Some("fieldcache.dev")).await?)?;
    let stranger = as_user("nobody", Some("strangers"))?;
    shows(&administrator, &["team-a", "team-b", "team-c"]).await?;
    shows(&auditor, &["team-a", "team-b", "team-c"]).await?;
    shows(&robot, &["team-a", "team-b"]).await?;
    let list = shows(&member, &["team-a"]).await?;
    let path = format!("{}{SHIRTS}", proxy("own"));
    let within = |namespace: &str| path.replace("/v1/shirts", &format!("/v1/namespaces/{namespace}/shirts"));
    for (client, namespace, status) in [(&member, "team-a", 200), (&member, "team-c", 403), (&robot, "team-b", 200)] {
        let answer = client.get(&within(namespace)).await?;
        ensure!(answer.status == status, "{namespace}: {}", answer.text());
    }
    // As for a View that does not exist.
    let refused = stranger.get(&path).await?;
    let missing = stranger.get(&path.replace("/own/", "/none/")).await?;
    ensure!(refused.status == 403 && missing.status == 403, "{} {}", refused.text(), missing.text());
    ensure!(refused.text().replace("own", "none") == missing.text(), "{} {}", refused.text(), missing.text());
    // The list of namespaces.
    let path_of_namespaces = format!("{}/api/v1/namespaces", proxy("own"));
    ensure!(names(&member.get_json(&path_of_namespaces).await?)? == ["/team-a"]);
    ensure!(robot.get(&path_of_namespaces).await?.status == 403);
    follows_role_bindings(&stage, &operator, [&member, &robot], &list).await
}

/// A RoleBinding is added and removed while the member watches, also with kubectl and an informer.
async fn follows_role_bindings(
    stage: &Stage,
    operator: &Fieldcache,
    [member, robot]: [&Client; 2],
    list: &Value,
) -> Result<()> {
    let path = format!("{}{SHIRTS}", proxy("own"));
    let watching = |list: &Value| {
        format!(
            "{path}?watch=true&resourceVersion={}",
            list["metadata"]["resourceVersion"].as_str().unwrap_or_default()
        )
    };
    let authority = std::fs::read_to_string(stage.folder.path().join("ca.crt"))?;
    let identity = stage.control_plane.authority().client("jane", Some("team"))?;
    let address = format!("{}{}", operator.address(), proxy("own"));
    let reads = kubeconfig(&address, Some(&authority), Some(&identity));
    let held = informer(&reads).await?;
    let kubectl = Kubectl::with_kubeconfig(&stage.folder.write("own-kubeconfig", reads.to_string())?)?;
    let holds = async |expected: &[&str]| {
        let expected: BTreeSet<String> = expected.iter().map(|name| (*name).to_owned()).collect();
        eventually("the informer holds the permitted namespaces", SOON, async || {
            ensure!(held() == expected, "{:?}, not {expected:?}", held());
            Ok(())
        })
        .await?;
        let printed = kubectl.succeed(&["get", "shirts", "-A", "--no-headers"]).await?;
        let printed: BTreeSet<String> =
            printed.lines().filter_map(|line| Some(line.split_whitespace().next()?.to_owned())).collect();
        ensure!(printed == expected, "kubectl: {printed:?}, not {expected:?}");
        Ok(())
    };
    holds(&["team-a"]).await?;
    let mut watch = member.watch(&watching(list)).await?;
    let mut other = robot.watch(&watching(&shows(robot, &["team-a", "team-b"]).await?)).await?;
    bind(stage, "team-c", "added", READS_SHIRTS, group("team")).await?;
    let event = watch.event(SOON).await?;
    ensure!(event["type"] == "ERROR" && event["object"]["code"] == 410, "{event}");
    let wider = shows(member, &["team-a", "team-c"]).await?;
    holds(&["team-a", "team-c"]).await?;
    // A client that resumes from before the change, and one that resumes after it.
    let mut resumed = member.watch(&watching(list)).await?;
    let event = resumed.event(SOON).await?;
    ensure!(event["type"] == "ERROR" && event["object"]["code"] == 410, "{event}");
    let mut resumed = member.watch(&watching(&wider)).await?;
    stage.kubectl.succeed(&["label", "shirt", "one", "-n", "team-b", "seen=yes"]).await?;
    stage.kubectl.succeed(&["label", "shirt", "one", "-n", "team-c", "seen=yes"]).await?;
    let event = resumed.event(SOON).await?;
    ensure!(event["type"] == "MODIFIED" && event["object"]["metadata"]["namespace"] == "team-c", "{event}");
    let event = other.event(SOON).await?;
    ensure!(event["type"] == "MODIFIED" && event["object"]["metadata"]["namespace"] == "team-b", "{event}");
    stage.kubectl.succeed(&["delete", "rolebinding", "added", "-n", "team-c"]).await?;
    let event = resumed.event(SOON).await?;
    ensure!(event["type"] == "ERROR" && event["object"]["code"] == 410, "{event}");
    shows(member, &["team-a"]).await?;
    holds(&["team-a"]).await?;
    // The last permission is gone: the View is not disclosed any more.
    stage.kubectl.succeed(&["delete", "rolebinding", "team", "-n", "team-a"]).await?;
    eventually("the caller may use no part of the View", SOON, async || {
        let answer = member.get(&path).await?;
        ensure!(answer.status == 403, "{}", answer.text());
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_view_without_the_store_of_role_bindings_states_the_remedy() -> Result<()> {
    let stage = Stage::start().await?;
    prepare(&stage).await?;
    let cache = format!("fieldcache/rolebindings.{RBAC}");
    stage.kubectl.succeed(&["delete", &cache]).await?;
    let operator = stage.operator("one").await?;
    let administrator = stage.administrator(&operator)?;
    ready(&operator, &administrator).await?;
    let expected = format!("create the FieldCache rolebindings.{RBAC}");
    eventually("the View states the remedy", SOON, async || {
        let condition = stage.condition("view/own", "Accepted").await?;
        ensure!(condition["reason"] == "NotCached", "{condition}");
        ensure!(condition["message"].as_str().is_some_and(|message| message.contains(&expected)), "{condition}");
        Ok(())
    })
    .await?;
    let answer = administrator.get(&format!("{}{SHIRTS}", proxy("own"))).await?;
    ensure!(answer.status == 503, "{}", answer.text());
    Ok(())
}
