//! Random changes of two resources, written straight to kube-apiserver at a steady pace until they are stopped.
//!
//! Several writers a resource, each with objects of its own, so that none waits for another and each knows its objects. A write
//! that fails because kube-apiserver is away may have been done or not: the writer looks, and goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use http::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::{MissedTickBehavior, interval};

use crate::eventually::eventually;
use crate::http::{Client, Endpoint, Request};
use crate::objects;
use crate::random::Random;

/// Where objects are.
pub const NAMESPACES: [&str; 2] = ["left", "right"];
/// Writers of each resource.
const WRITERS: u64 = 3;
/// Objects of each writer, some of which are absent at any moment.
const OBJECTS: u64 = 24;
/// How long kube-apiserver may be away.
const AWAY: Duration = Duration::from_secs(120);

/// Values of the label `tier`.
pub const TIERS: [&str; 3] = ["a", "b", "c"];
/// Values of the label `color` and of spec.color.
pub const COLORS: [&str; 3] = ["blue", "green", "red"];
/// Values of spec.size.
pub const SIZES: [&str; 3] = ["S", "M", "L"];
const PHASES: [&str; 3] = ["Pending", "Running", "Failed"];

/// What kind of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A namespaced custom resource whose spec.color, spec.size and spec.weight are selectable.
    Gadgets,
    /// Pods, whose status.phase is selectable. They do not run.
    Pods,
}

/// What is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// Its kind.
    pub form: Form,
    /// Its API group; empty for Pods.
    pub group: String,
}

impl Resource {
    /// The custom resource, in a group of the caller's.
    #[must_use]
    pub fn gadgets(group: &str) -> Resource {
        Resource { form: Form::Gadgets, group: group.to_owned() }
    }

    /// Pods.
    #[must_use]
    pub fn pods() -> Resource {
        Resource { form: Form::Pods, group: String::new() }
    }

    /// Its name in paths.
    #[must_use]
    pub fn plural(&self) -> &'static str {
        match self.form {
            Form::Gadgets => "gadgets",
            Form::Pods => "pods",
        }
    }

    /// Its kind's name.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self.form {
            Form::Gadgets => "Gadget",
            Form::Pods => "Pod",
        }
    }

    /// As `--resource` takes it.
    #[must_use]
    pub fn argument(&self) -> String {
        match self.form {
            Form::Gadgets => format!("gadgets.v1.{}", self.group),
            Form::Pods => "pods.v1".to_owned(),
        }
    }

    /// The path of the collection; of all namespaces for an empty name.
    #[must_use]
    pub fn path(&self, namespace: &str) -> String {
        let version = match self.form {
            Form::Gadgets => format!("/apis/{}/v1", self.group),
            Form::Pods => "/api/v1".to_owned(),
        };
        let plural = self.plural();
        if namespace.is_empty() {
            format!("{version}/{plural}")
        } else {
            format!("{version}/namespaces/{namespace}/{plural}")
        }
    }

    /// Where etcd keeps it.
    #[must_use]
    pub fn etcd_prefix(&self) -> String {
        match self.form {
            Form::Gadgets => format!("/registry/{}/gadgets/", self.group),
            Form::Pods => "/registry/pods/".to_owned(),
        }
    }

    /// The namespace and name of an object that the workload has, or could have.
    #[must_use]
    pub fn member(&self, random: &mut Random) -> (&'static str, String) {
        let index = random.below(OBJECTS);
        (NAMESPACES[(index % 2) as usize], format!("w{}-{index}", random.below(WRITERS)))
    }

    /// An object with these values of everything that selections look at.
    #[must_use]
    pub fn object(&self, name: &str, tier: &str, color: &str, size: &str) -> Value {
        let metadata = json!({ "name": name, "labels": { "tier": tier, "color": color } });
        match self.form {
            Form::Gadgets => json!({
                "apiVersion": format!("{}/v1", self.group), "kind": "Gadget", "metadata": metadata,
                "spec": { "color": color, "size": size, "weight": weight(&[name, color, size]) },
            }),
            Form::Pods => json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": metadata,
                "spec": { "containers": [{ "name": "main", "image": "main:1" }], "terminationGracePeriodSeconds": 0 },
            }),
        }
    }
}

/// An integer below 20 for spec.weight, which differs from text to text.
fn weight(texts: &[&str]) -> u32 {
    texts.iter().flat_map(|text| text.bytes()).map(u32::from).sum::<u32>() % 20
}

/// The definition of the custom resource in this group.
#[must_use]
pub fn definition(group: &str) -> Value {
    let text = json!({ "type": "string" });
    let schema = json!({ "type": "object", "properties": {
        "spec": { "type": "object", "properties": {
            "color": text, "size": text, "weight": { "type": "integer" },
        } },
    } });
    let version = json!({
        "name": "v1", "served": true, "storage": true,
        "schema": { "openAPIV3Schema": schema },
        "selectableFields": [{ "jsonPath": ".spec.color" }, { "jsonPath": ".spec.size" }, { "jsonPath": ".spec.weight" }],
    });
    crate::fixtures::definition(
        group,
        "Namespaced",
        ("gadgets", "gadget", "Gadget"),
        &[version],
        &crate::fixtures::no_conversion(),
    )
}

/// All writers.
#[derive(Debug)]
pub struct Workload {
    stop: Arc<AtomicBool>,
    writers: Vec<JoinHandle<Result<()>>>,
}

impl Workload {
    /// Starts them: several for each resource, each of which changes an object at this pace.
    #[must_use]
    pub fn start(endpoint: &Endpoint, resources: &[Resource], pace: Duration, seed: u64) -> Workload {
        Workload::start_with_ballast(endpoint, resources, pace, seed, 0)
    }

    /// The same, where each change brings so many hexadecimal digits of new text.
    #[must_use]
    pub fn start_with_ballast(
        endpoint: &Endpoint,
        resources: &[Resource],
        pace: Duration,
        seed: u64,
        ballast: usize,
    ) -> Workload {
        let stop = Arc::new(AtomicBool::new(false));
        let mut writers = Vec::new();
        for resource in resources {
            for number in 0..WRITERS {
                let mut writer = Writer {
                    client: endpoint.client(),
                    resource: resource.clone(),
                    number,
                    random: Random::from_seed(seed, writers.len() as u64 + 1),
                    exists: vec![false; OBJECTS as usize],
                    step: 0,
                    ballast,
                };
                let stop = stop.clone();
                writers.push(spawn_local(async move {
                    let mut ticks = interval(pace);
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
    ///
    /// # Errors
    /// Then.
    pub fn ensure_running(&self) -> Result<()> {
        if self.writers.iter().any(JoinHandle::is_finished) {
            bail!("a writer has ended");
        }
        Ok(())
    }

    /// Stops them, after what each is about.
    ///
    /// # Errors
    /// When one failed.
    pub async fn finish(self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        for writer in self.writers {
            writer.await??;
        }
        Ok(())
    }
}

/// Keys and versions of the objects that were written last.
pub type Closing = Vec<(String, String)>;

/// Creates in each namespace an object that every selection selects which agrees with tier `a`, color `blue`, size `L`.
///
/// # Errors
/// When the server refuses it.
pub async fn write_closing_objects(client: &Client, resource: &Resource) -> Result<Closing> {
    let name = "closing";
    let mut closing = Vec::new();
    for namespace in NAMESPACES {
        let path = resource.path(namespace);
        let mut written = objects::create(client, &path, &resource.object(name, "a", "blue", "L")).await?;
        if resource.form == Form::Pods {
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
    ballast: usize,
}

impl Writer {
    /// One random change.
    async fn change(&mut self) -> Result<()> {
        self.step += 1;
        let index = self.random.below(OBJECTS);
        let name = format!("w{}-{index}", self.number);
        let collection = self.resource.path(NAMESPACES[(index % 2) as usize]);
        let member = format!("{collection}/{name}");
        let (tier, color, size) = (self.random.choose(&TIERS), self.random.choose(&COLORS), self.random.choose(&SIZES));
        let exists = self.exists[index as usize];
        let chance = self.random.below(100);
        // Never without effect, since the step is another each time.
        let mut note = json!({ "step": self.step.to_string() });
        if self.ballast > 0 {
            note["ballast"] = self.random.hexadecimal(self.ballast).into();
        }
        let (request, exists_after) = if !exists {
            let object = self.resource.object(&name, tier, color, size);
            (Request::new(Method::POST, &collection).json(&object), true)
        } else if chance < 15 {
            (Request::new(Method::DELETE, &member), false)
        } else if self.resource.form == Form::Pods && chance < 60 {
            let patch =
                json!({ "metadata": { "annotations": note }, "status": { "phase": self.random.choose(&PHASES) } });
            (merge(&format!("{member}/status"), &patch), true)
        } else {
            let metadata = json!({ "annotations": note, "labels": { "tier": tier, "color": color } });
            let patch = match self.resource.form {
                Form::Gadgets => {
                    let weight = weight(&[&name, color, size, &self.step.to_string()]);
                    json!({ "metadata": metadata, "spec": { "color": color, "size": size, "weight": weight } })
                }
                Form::Pods => json!({ "metadata": metadata }),
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
    let passes = [
        StatusCode::NOT_FOUND,
        StatusCode::CONFLICT,
        StatusCode::TOO_MANY_REQUESTS,
        StatusCode::FORBIDDEN,
        StatusCode::METHOD_NOT_ALLOWED,
    ];
    status.is_client_error() && !passes.contains(&status)
}

fn merge(path: &str, patch: &Value) -> Request {
    let mut request = Request::new(Method::PATCH, path).header("content-type", "application/merge-patch+json");
    request.body = patch.to_string().into();
    request
}
