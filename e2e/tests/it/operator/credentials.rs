//! Watches end with their credentials: the token of a deleted ServiceAccount, and of a deleted Pod. And ClusterRoles from which
//! fieldcache gets its own permissions only read.

use anyhow::{Context, Result, ensure};
use e2e::eventually::eventually;
use e2e::fieldcache::Fieldcache;
use e2e::http::{Client, Lines, Next};
use serde_json::{Value, json};

use super::consumers::{bound_token, cache, let_it_read, node, pod, proxy};
use super::rights::{account, grant, may_use, with_token};
use super::{NAMESPACE, SHIRTS, SOON, Stage, ready};

const PODS: &str = "/api/v1/pods";

/// A replica that checks the credentials of watches every two seconds.
async fn operator(stage: &Stage) -> Result<Fieldcache> {
    let arguments = ["--namespace", NAMESPACE, "--identity", "one", "--recheck-interval", "2s"].map(str::to_owned);
    Box::pin(Fieldcache::operator(&stage.kubeconfig().await?, stage.folder.path(), arguments)).await
}

/// A watch from now on.
async fn watch(client: &Client, path: &str) -> Result<Lines> {
    let list = eventually(path, SOON, async || client.get_json(path).await).await?;
    let version = list["metadata"]["resourceVersion"].as_str().context("a version")?;
    client.watch(&format!("{path}?watch=true&resourceVersion={version}&timeoutSeconds=3000")).await
}

/// Waits for the end of a watch; what came before it.
async fn events_to_the_end(watch: &mut Lines) -> Result<Vec<Value>> {
    let mut events = Vec::new();
    loop {
        match watch.next(SOON).await? {
            Next::Line(line) => events.push(serde_json::from_slice(&line)?),
            Next::End => return Ok(events),
            other => anyhow::bail!("the watch goes on: {other:?} after {events:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn watches_end_with_the_token_that_opened_them() -> Result<()> {
    let stage = Stage::start().await?;
    let_it_read(&stage, &["pods"]).await?;
    stage.apply("walk-through/shirts-cache.yaml").await?;
    stage.apply_this("pods.json", &cache("pods")).await?;
    for name in ["agent", "brief", "lasting"] {
        stage.kubectl.succeed(&["create", "serviceaccount", name, "-n", "team-a"]).await?;
    }
    node(&stage, "n1").await?;
    let own = json!({
        "apiVersion": "fieldcache.dev/v1alpha1", "kind": "View", "metadata": { "name": "own" },
        "spec": {
            "authorization": "View", "resources": [{ "group": "", "resource": "pods" }],
            "consumer": { "fields": [{ "key": "spec.nodeName", "value": "NodeName" }] },
        },
    });
    stage.apply_this("own.json", &own).await?;
    grant(&stage, "uses-own", may_use("own"), account("team-a", "agent")).await?;
    let reads = json!([{ "apiGroups": ["stable.example.com"], "resources": ["shirts"], "verbs": ["list", "watch"] }]);
    for name in ["brief", "lasting"] {
        grant(&stage, &format!("reads-{name}"), reads.clone(), account("team-a", name)).await?;
    }
    let operator = operator(&stage).await?;
    ready(&operator, &stage.administrator(&operator)?).await?;
    let done = stage.kubectl.succeed(&["wait", "--for=condition=Ready", "--timeout=180s", "view/own"]).await;
    done.with_context(|| operator.process().tail())?;

    // A deleted ServiceAccount: its watch ends without an event, and the next request is rejected.
    let user =
        async |name: &str| with_token(&stage, &operator, &stage.token("team-a", name, Some("fieldcache.dev")).await?);
    let (brief, lasting) = (user("brief").await?, user("lasting").await?);
    let (mut ending, mut going_on) = (watch(&brief, SHIRTS).await?, watch(&lasting, SHIRTS).await?);
    stage.kubectl.succeed(&["delete", "serviceaccount", "brief", "-n", "team-a"]).await?;
    let events = events_to_the_end(&mut ending).await.with_context(|| operator.process().tail())?;
    ensure!(events.is_empty(), "{events:?}");
    let answer = brief.get(SHIRTS).await?;
    ensure!(answer.status == 401, "{answer:?}");
    stage.kubectl.succeed(&["label", "shirt", "example1", "-n", "team-a", "seen=yes"]).await?;
    let event = going_on.event(SOON).await?;
    ensure!(event["type"] == "MODIFIED", "another token is not concerned: {event}");

    // A deleted Pod: what is shown by its claims ends as soon as the store hears of it.
    let uid = pod(&stage, "team-a", "mine", "n1", json!({})).await?;
    let agent = with_token(&stage, &operator, &bound_token(&stage, "team-a", "mine", &uid).await?)?;
    let path = format!("{}{PODS}", proxy("own"));
    eventually("the store has the Pod", SOON, async || {
        let found = super::names(&agent.get_json(&path).await?)?;
        ensure!(found == ["team-a/mine"], "{found:?}");
        Ok(())
    })
    .await?;
    let mut watch = watch(&agent, &path).await?;
    stage.kubectl.succeed(&["delete", "pod", "mine", "-n", "team-a", "--force", "--grace-period=0"]).await?;
    let events = events_to_the_end(&mut watch).await?;
    let last = events.last().context("an event")?;
    ensure!(last["type"] == "ERROR" && last["object"]["code"] == 410, "{events:?}");
    eventually("a deleted Pod's token", SOON, async || {
        let answer = agent.get(&path).await?;
        ensure!(answer.status == 401, "{answer:?}");
        Ok(())
    })
    .await?;
    operator.process().ensure_running()
}

/// A ClusterRole whose rules become permissions of fieldcache.
fn reader(name: &str, rule: Value) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": { "name": name, "labels": { "fieldcache.dev/aggregate-to-reader": "true" } }, "rules": [rule],
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn what_fieldcache_may_by_its_label_is_to_read() -> Result<()> {
    let stage = Stage::start().await?;
    let rule = |resources: &[&str], verbs: &[&str]| json!({ "apiGroups": ["", "apps"], "resources": resources, "verbs": verbs });
    let reads = ["get", "list", "watch"];
    let rows = [
        ("writes", rule(&["pods"], &["get", "delete"]), Some("only the verbs get, list and watch")),
        ("everything", rule(&["pods"], &["*"]), Some("only the verbs get, list and watch")),
        ("uses", rule(&["views"], &["use"]), Some("only the verbs get, list and watch")),
        ("executes", rule(&["pods", "pods/exec"], &["get"]), Some("may not name subresources")),
        ("all-resources", rule(&["*"], &["get", "list", "watch"]), Some("nor the resource *")),
        ("reads", rule(&["pods", "deployments"], &reads), None),
        ("lists", rule(&["services"], &["list", "watch"]), None),
        ("paths", json!({ "nonResourceURLs": ["/metrics"], "verbs": ["get"] }), Some("may not have nonResourceURLs")),
    ];
    // The policy works some time after it has been made.
    eventually("the policy is in force", SOON, async || {
        let file = stage.folder.write("first.json", reader("first", rule(&["pods"], &["*"])).to_string())?;
        let ran = stage.kubectl.run(&["create", "--dry-run=server", "-f", &file.display().to_string()]).await?;
        ensure!(
            ran.exit_code != 0 && ran.stderr.contains("reader-roles.fieldcache.dev"),
            "{}{}",
            ran.stdout,
            ran.stderr
        );
        Ok(())
    })
    .await?;
    for (name, rule, rejected) in rows {
        let file = stage.folder.write(&format!("{name}.json"), reader(name, rule).to_string())?;
        let ran = stage.kubectl.run(&["apply", "-f", &file.display().to_string()]).await?;
        match rejected {
            None => ensure!(ran.exit_code == 0, "{name}: {}", ran.stderr),
            Some(why) => {
                ensure!(ran.exit_code != 0 && ran.stderr.contains(why), "{name}: {}{}", ran.stdout, ran.stderr)
            }
        }
    }
    // By an update neither, nor by the label on what is there; without the label a ClusterRole is irrelevant.
    let patch = r#"{"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["*"]}]}"#;
    let ran = stage.kubectl.run(&["patch", "clusterrole", "reads", "--type=merge", "-p", patch]).await?;
    ensure!(ran.exit_code != 0 && ran.stderr.contains("only the verbs"), "{}{}", ran.stdout, ran.stderr);
    stage.kubectl.succeed(&["create", "clusterrole", "plain", "--verb=delete", "--resource=pods"]).await?;
    let label = ["label", "clusterrole", "plain", "fieldcache.dev/aggregate-to-reader=true"];
    let ran = stage.kubectl.run(&label).await?;
    ensure!(ran.exit_code != 0 && ran.stderr.contains("only the verbs"), "{}{}", ran.stdout, ran.stderr);

    // What manifests/ grant is nothing to warn of; what was there before the policy is.
    let quiet = stage.operator("quiet").await?;
    ready(&quiet, &stage.administrator(&quiet)?).await?;
    ensure!(!quiet.process().stderr()?.contains("has more permissions than it needs"), "{}", quiet.process().tail());
    drop(quiet);
    stage.kubectl.succeed(&["delete", "validatingadmissionpolicybinding", "reader-roles.fieldcache.dev"]).await?;
    eventually("the label", SOON, async || stage.kubectl.succeed(&label).await).await?;
    eventually("the rule is aggregated", SOON, async || {
        let role = stage.kubectl.succeed(&["get", "clusterrole", "fieldcache-reader", "-o", "json"]).await?;
        ensure!(role.contains("delete"), "{role}");
        Ok(())
    })
    .await?;
    let warned = stage.operator("warned").await?;
    eventually("the warning", SOON, async || {
        let log = warned.process().stderr()?;
        ensure!(log.contains("has more permissions than it needs") && log.contains("delete pods"), "{log}");
        Ok(())
    })
    .await
}
