//! Random changes of two resources, written straight to kube-apiserver at a steady pace until told to stop.
//!
//! Several writers a resource, each with objects of its own, so that none waits for another and each knows its objects. A write
//! that fails because kube-apiserver is away may have been done or not: the writer looks, and goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use e2e::eventually::eventually;
use e2e::http::{Client, Endpoint, Request};
use e2e::objects;
use http::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::{MissedTickBehavior, interval};

/// The API group of the custom resource.
pub(crate) const GROUP: &str = "clients.example.com";
/// Where objects are.
pub(crate) const NAMESPACES: [&str; 2] = ["left", "right"];
/// Writers of each resource.
const WRITERS: u64 = 3;
/// Objects of each writer, some of which are absent at any moment.
const OBJECTS: u64 = 24;
/// A writer's pace.
const STEP: Duration = Duration::from_millis(20);
/// How long kube-apiserver may be away.
const AWAY: Duration = Duration::from_secs(120);

const TIERS: [&str; 3] = ["a", "b", "c"];
const COLORS: [&str; 3] = ["blue", "green", "red"];
const SIZES: [&str; 3] = ["S", "M", "L"];
const PHASES: [&str; 3] = ["Pending", "Running", "Failed"];

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resource {
    /// A namespaced custom resource whose spec.color and spec.size are selectable.
    Gadgets,
    /// Pods, whose status.phase is selectable. Nobody runs them.
    Pods,
}

impl Resource {
    pub(crate) const ALL: [Resource; 2] = [Resource::Gadgets, Resource::Pods];

    pub(crate) fn plural(self) -> &'static str {
        match self {
            Resource::Gadgets => "gadgets",
            Resource::Pods => "pods",
        }
    }

    pub(crate) fn kind(self) -> &'static str {
        match self {
            Resource::Gadgets => "Gadget",
            Resource::Pods => "Pod",
        }
    }

    pub(crate) fn group(self) -> &'static str {
        match self {
            Resource::Gadgets => GROUP,
            Resource::Pods => "",
        }
    }

    /// As `--resource` takes it.
    pub(crate) fn argument(self) -> String {
        match self {
            Resource::Gadgets => format!("gadgets.v1.{GROUP}"),
            Resource::Pods => "pods.v1".to_owned(),
        }
    }

    /// The path of the collection; of all namespaces for an empty name.
    pub(crate) fn path(self, namespace: &str) -> String {
        let version = match self {
            Resource::Gadgets => format!("/apis/{GROUP}/v1"),
            Resource::Pods => "/api/v1".to_owned(),
        };
        let plural = self.plural();
        if namespace.is_empty() {
            format!("{version}/{plural}")
        } else {
            format!("{version}/namespaces/{namespace}/{plural}")
        }
    }

    /// Where etcd keeps it.
    pub(crate) fn etcd_prefix(self) -> String {
        match self {
            Resource::Gadgets => format!("/registry/{GROUP}/gadgets/"),
            Resource::Pods => "/registry/pods/".to_owned(),
        }
    }

    /// An object with these values of everything that selections look at.
    pub(crate) fn object(self, name: &str, tier: &str, color: &str, size: &str) -> Value {
        let metadata = json!({ "name": name, "labels": { "tier": tier, "color": color } });
        match self {
            Resource::Gadgets => json!({
                "apiVersion": format!("{GROUP}/v1"), "kind": "Gadget", "metadata": metadata,
                "spec": { "color": color, "size": size },
            }),
            Resource::Pods => json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": metadata,
                "spec": { "containers": [{ "name": "main", "image": "main:1" }], "terminationGracePeriodSeconds": 0 },
            }),
        }
    }
}

/// The definition of the custom resource.
pub(crate) fn definition() -> Value {
    let text = json!({ "type": "string" });
    let schema = json!({ "type": "object", "properties": {
        "spec": { "type": "object", "properties": { "color": text, "size": text } },
    } });
    let version = json!({
        "name": "v1", "served": true, "storage": true,
        "schema": { "openAPIV3Schema": schema },
        "selectableFields": [{ "jsonPath": ".spec.color" }, { "jsonPath": ".spec.size" }],
    });
    e2e::fixtures::definition(
        GROUP,
        "Namespaced",
        ("gadgets", "gadget", "Gadget"),
        &[version],
        &e2e::fixtures::no_conversion(),
    )
}

/// All writers.
pub(crate) struct Workload {
    stop: Arc<AtomicBool>,
    writers: Vec<JoinHandle<Result<()>>>,
}

impl Workload {
    /// Starts them.
    pub(crate) fn start(endpoint: &Endpoint, seed: u64) -> Workload {
        let stop = Arc::new(AtomicBool::new(false));
        let mut writers = Vec::new();
        for resource in Resource::ALL {
            for number in 0..WRITERS {
                let mut writer = Writer {
                    client: endpoint.client(),
                    resource,
                    number,
                    random: Random(seed ^ ((writers.len() as u64 + 1) << 32)),
                    exists: vec![false; OBJECTS as usize],
                    step: 0,
                };
                let stop = stop.clone();
                writers.push(spawn_local(async move {
                    let mut ticks = interval(STEP);
                    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
                    while !stop.load(Ordering::Relaxed) {
                        ticks.tick().await;
                        writer.change().await?;
                    }
                    Ok(())
                }));
            }
        }
        Workload { stop, writers }
    }

    /// Fails when a writer did.
    pub(crate) fn ensure_running(&self) -> Result<()> {
        if self.writers.iter().any(JoinHandle::is_finished) {
            bail!("a writer has ended");
        }
        Ok(())
    }

    /// Stops them, after what each is about.
    pub(crate) async fn finish(self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        for writer in self.writers {
            writer.await??;
        }
        Ok(())
    }
}

/// Keys and versions of the objects that were written last.
pub(crate) type Closing = Vec<(String, String)>;

/// Creates in each namespace an object that every contender's selection selects.
pub(crate) async fn write_closing_objects(client: &Client, resource: Resource) -> Result<Closing> {
    let name = "closing";
    let mut closing = Vec::new();
    for namespace in NAMESPACES {
        let path = resource.path(namespace);
        let mut written = objects::create(client, &path, &resource.object(name, "a", "blue", "L")).await?;
        if resource == Resource::Pods {
            let running = json!({ "status": { "phase": "Running" } });
            written = objects::merge(client, &format!("{path}/{name}/status"), &running).await?;
        }
        let version = written["metadata"]["resourceVersion"].as_str().context("an object has a version")?;
        closing.push((format!("{namespace}/{name}"), version.to_owned()));
    }
    Ok(closing)
}

struct Writer {
    client: Client,
    resource: Resource,
    number: u64,
    random: Random,
    exists: Vec<bool>,
    step: u64,
}

impl Writer {
    /// One random change.
    async fn change(&mut self) -> Result<()> {
        self.step += 1;
        let index = self.random.below(OBJECTS);
        let name = format!("w{}-{index}", self.number);
        let collection = self.resource.path(NAMESPACES[(index % 2) as usize]);
        let member = format!("{collection}/{name}");
        let (tier, color, size) = (self.random.one_of(&TIERS), self.random.one_of(&COLORS), self.random.one_of(&SIZES));
        let exists = self.exists[index as usize];
        let chance = self.random.below(100);
        // Never without effect, since the step is another each time.
        let note = json!({ "step": self.step.to_string() });
        let (request, exists_after) = if !exists {
            let object = self.resource.object(&name, tier, color, size);
            (Request::new(Method::POST, &collection).json(&object), true)
        } else if chance < 15 {
            (Request::new(Method::DELETE, &member), false)
        } else if self.resource == Resource::Pods && chance < 60 {
            let patch =
                json!({ "metadata": { "annotations": note }, "status": { "phase": self.random.one_of(&PHASES) } });
            (merge(&format!("{member}/status"), &patch), true)
        } else {
            let metadata = json!({ "annotations": note, "labels": { "tier": tier, "color": color } });
            let patch = match self.resource {
                Resource::Gadgets => json!({ "metadata": metadata, "spec": { "color": color, "size": size } }),
                Resource::Pods => json!({ "metadata": metadata }),
            };
            (merge(&member, &patch), true)
        };
        let what = format!("{} {}", request.method, request.path);
        match self.client.send(request).await {
            Ok(answer) if answer.status.is_success() => self.exists[index as usize] = exists_after,
            Ok(answer) if is_lasting(answer.status) => bail!("{what}: {}: {}", answer.status, answer.text()),
            // Away, starting, or done by a write whose answer was lost.
            Ok(_) | Err(_) => {
                let client = &self.client;
                let what = format!("{member} can be read again");
                let found = eventually(&what, AWAY, async || {
                    let answer = client.get(&member).await?;
                    match answer.status {
                        StatusCode::OK => Ok(true),
                        StatusCode::NOT_FOUND => Ok(false),
                        other => bail!("{other}: {}", answer.text()),
                    }
                });
                self.exists[index as usize] = found.await?;
            }
        }
        Ok(())
    }
}

/// An answer that says that the request itself is wrong.
fn is_lasting(status: StatusCode) -> bool {
    let passes = [StatusCode::NOT_FOUND, StatusCode::CONFLICT, StatusCode::TOO_MANY_REQUESTS, StatusCode::FORBIDDEN];
    status.is_client_error() && !passes.contains(&status)
}

fn merge(path: &str, patch: &Value) -> Request {
    let mut request = Request::new(Method::PATCH, path).header("content-type", "application/merge-patch+json");
    request.body = patch.to_string().into();
    request
}

/// splitmix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    fn one_of(&mut self, choices: &[&'static str]) -> &'static str {
        choices[self.below(choices.len() as u64) as usize]
    }
}
