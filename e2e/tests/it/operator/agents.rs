//! Agents on every node, through one View. Each sees the Pods of its own node and nothing else, in lists and in
//! watches, while Pods come and go. The test also measures what they cost kube-apiserver.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use e2e::eventually::eventually;
use e2e::http::{Client, Lines, Next};
use e2e::objects;
use e2e::random::Random;
use futures::stream::{self, StreamExt, TryStreamExt};
use serde_json::{Value, json};

use super::consumers::{bound_token, node, proxy};
use super::rights::with_token;
use super::{NAMESPACE, SOON, Stage, ready};

const SEED: u64 = 8;
const NODES: u64 = 50;
const AGENTS: u64 = 500;
const CHANGES: u64 = 400;
/// Requests of the test's own at the same time.
const AT_ONCE: usize = 8;
/// How long an answer of an authorizer is remembered.
const KEEP: Duration = Duration::from_secs(10);

fn node_of(index: u64) -> String {
    format!("node-{}", index % NODES)
}

fn a_pod(name: &str, on: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "labels": { "app": "agent" } },
        // The nodes never report, and the Pods are to stay nevertheless.
        "spec": { "tolerations": [{ "operator": "Exists" }], "nodeName": on, "serviceAccountName": "agent", "containers": [{ "name": "main", "image": "none" }] },
    })
}

/// A sum over the lines of a metric that have all of these labels.
async fn metric(client: &Client, name: &str, labels: &[&str]) -> Result<f64> {
    let text = client.get("/metrics").await?.success()?.text();
    let lines = text.lines().filter(|line| line.starts_with(&format!("{name}{{")));
    let lines = lines.filter(|line| labels.iter().all(|label| line.contains(label)));
    lines.map(|line| Ok(line.rsplit(' ').next().context("a value")?.parse::<f64>()?)).sum()
}

/// What one agent has: the versions of the Pods that it knows of.
struct Agent {
    node: String,
    held: BTreeMap<String, String>,
    watch: Lines,
}

fn head(object: &Value, own: &str) -> Result<(String, String)> {
    ensure!(object["spec"]["nodeName"] == own, "an agent of {own} is shown {object}");
    let text = |member: &str| object["metadata"][member].as_str().unwrap_or_default().to_owned();
    Ok((text("name"), text("resourceVersion")))
}

impl Agent {
    async fn start(client: Client, node: String) -> Result<Agent> {
        let path = format!("{}/api/v1/pods", proxy("own-node"));
        let list = client.get_json(&path).await?;
        let items = list["items"].as_array().context("items")?;
        let held: BTreeMap<String, String> = items.iter().map(|item| head(item, &node)).collect::<Result<_>>()?;
        let version = list["metadata"]["resourceVersion"].as_str().context("a version")?;
        let watch = client.watch(&format!("{path}?watch=true&resourceVersion={version}")).await?;
        Ok(Agent { node, held, watch })
    }

    /// Takes in what has come.
    async fn catch_up(&mut self, deadline: Duration) -> Result<()> {
        loop {
            let event: Value = match self.watch.next(deadline).await? {
                Next::Line(line) => serde_json::from_slice(&line)?,
                Next::Nothing => return Ok(()),
                Next::End => bail!("the watch of an agent of {} ended", self.node),
            };
            let (name, version) = head(&event["object"], &self.node)?;
            match event["type"].as_str() {
                Some("ADDED") => ensure!(self.held.insert(name, version).is_none(), "added twice: {event}"),
                Some("MODIFIED") => ensure!(self.held.insert(name, version).is_some(), "not known before: {event}"),
                Some("DELETED") => ensure!(self.held.remove(&name).is_some(), "not known before: {event}"),
                _ => bail!("{event}"),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn five_hundred_agents_each_see_their_own_node() -> Result<()> {
    let stage = Stage::start().await?;
    let kube = stage.control_plane.client();
    stage.kubectl.succeed(&["create", "serviceaccount", "agent", "-n", "team-a"]).await?;
    stream::iter((0..NODES).map(Ok))
        .try_for_each_concurrent(AT_ONCE, async |index| node(&stage, &node_of(index)).await)
        .await?;
    let pods = "/api/v1/namespaces/team-a/pods";
    let tokens: Vec<(String, String)> = stream::iter(0..AGENTS)
        .map(async |index| {
            let (name, on) = (format!("agent-{index}"), node_of(index));
            let made = objects::create(&kube, pods, &a_pod(&name, &on)).await?;
            let uid = made["metadata"]["uid"].as_str().context("a uid")?;
            anyhow::Ok((on, bound_token(&stage, "team-a", &name, uid).await?))
        })
        .buffered(AT_ONCE)
        .try_collect()
        .await?;
    let operator = stage.operator("one").await?;
    ready(&operator, &stage.administrator(&operator)?).await?;
    let watches =
        async || metric(&kube, "apiserver_longrunning_requests", &["resource=\"pods\"", "verb=\"WATCH\""]).await;
    // The controller that makes Pods of a Deployment watches Pods.
    eventually("the controllers have begun", SOON, async || {
        let deployment = kube.get_json(&format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments/fieldcache")).await?;
        ensure!(deployment["status"]["replicas"] == 2, "{}", deployment["status"]);
        Ok(())
    })
    .await?;
    let without = watches().await?;
    stage.apply("walk-through/own-node.yaml").await?;
    let done = stage.kubectl.succeed(&["wait", "--for=condition=Ready", "--timeout=180s", "view/own-node"]).await;
    done.with_context(|| operator.process().tail())?;
    let one_more = async |when: &str| {
        eventually(when, SOON, async || {
            let now = watches().await?;
            ensure!((now - without - 1.0).abs() < f64::EPSILON, "{now} watches of pods, {without} without us");
            Ok(())
        })
        .await
    };
    one_more("the copy is one watch").await?;

    let may = ["auth", "can-i", "use", "views.fieldcache.dev/own-node", "--as", "system:serviceaccount:team-a:agent"];
    eventually("the agents may", SOON, async || {
        let finished = stage.kubectl.run(&may).await?;
        ensure!(finished.exit_code == 0, "{}{}", finished.stdout, finished.stderr);
        Ok(())
    })
    .await?;

    // All agents send requests at the same time, and each sends them twice.
    let reviews = async || {
        metric(&kube, "apiserver_request_total", &["resource=\"subjectaccessreviews\"", "verb=\"POST\""]).await
    };
    let (before, begun) = (reviews().await?, Instant::now());
    let mut agents: Vec<Agent> = stream::iter(tokens)
        .map(async |(on, token)| Agent::start(with_token(&stage, &operator, &token)?, on).await)
        .buffer_unordered(4 * AT_ONCE)
        .try_collect()
        .await
        .with_context(|| operator.process().tail())?;
    let took = begun.elapsed();
    // A request is counted once it has been answered.
    let requested = eventually("each of them was reviewed", SOON, async || {
        let requested = reviews().await? - before;
        ensure!(requested >= AGENTS as f64, "{requested} reviews");
        Ok(requested)
    })
    .await?;
    // A list and a watch of each cause the same review, sent once in the time for which its result is cached.
    let windows = took.as_secs_f64() / KEEP.as_secs_f64();
    let most = AGENTS as f64 * windows.ceil();
    println!("{AGENTS} agents listed and watched in {took:.1?}, for {requested} reviews (at most {most})");
    ensure!(requested <= most, "{requested} reviews for {AGENTS} users in {took:?}");
    one_more("with five hundred agents it still is one watch").await?;

    // Pods come, change and go; one that goes comes back elsewhere.
    let mut random = Random::from_seed(SEED, 0);
    let mut living: Vec<String> = Vec::new();
    for change in 0..CHANGES {
        match random.below(3) {
            0 if !living.is_empty() => {
                let name = living.swap_remove(usize::try_from(random.below(living.len() as u64))?);
                objects::delete(&kube, &format!("{pods}/{name}?gracePeriodSeconds=0")).await?;
            }
            1 if !living.is_empty() => {
                let name = &living[usize::try_from(random.below(living.len() as u64))?];
                let patch = json!({ "metadata": { "labels": { "change": change.to_string() } } });
                objects::merge(&kube, &format!("{pods}/{name}"), &patch).await?;
            }
            _ => {
                // A name that was there before is there again, on some node.
                let name = format!("pod-{}", random.below(100));
                if !living.contains(&name) {
                    objects::create(&kube, pods, &a_pod(&name, &node_of(random.number()))).await?;
                    living.push(name);
                }
            }
        }
    }
    let list = kube.get_json(pods).await?;
    let mut expected: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for item in list["items"].as_array().context("items")? {
        let on = item["spec"]["nodeName"].as_str().unwrap_or_default();
        let (name, version) = head(item, on)?;
        expected.entry(on.to_owned()).or_default().insert(name, version);
    }
    let expected = Arc::new(expected);
    let began = Instant::now();
    let mut behind: BTreeSet<usize> = (0..agents.len()).collect();
    while !behind.is_empty() {
        ensure!(began.elapsed() < SOON, "{} agents have not got there", behind.len());
        let mut still = BTreeSet::new();
        for index in behind {
            let agent = agents.get_mut(index).context("an agent")?;
            agent.catch_up(Duration::from_millis(1)).await?;
            if Some(&agent.held) != expected.get(&agent.node) {
                still.insert(index);
            }
        }
        behind = still;
    }
    // Nothing comes after what there is.
    for agent in agents.iter_mut().step_by(25) {
        agent.catch_up(Duration::from_millis(20)).await?;
        ensure!(Some(&agent.held) == expected.get(&agent.node), "{}", agent.node);
    }
    one_more("and still is after all this").await
}
