//! The well-behaved client: a writer, a watch and lists that run beside every attack.
//!
//! The writer counts up one field through kube-apiserver, so the watch must deliver the numbers without a gap, exactly once and in
//! order. Lists run all the time, every tenth over a new connection, and each must succeed.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::interval;

use crate::eventually::eventually;
use crate::http::{Client, Endpoint, Next};
use crate::objects;

/// Between two writes, and between two lists.
const PACE: Duration = Duration::from_millis(100);
/// How long the watch may take to deliver what was written. Attacks may keep the machine busy.
const DELIVERY: Duration = Duration::from_secs(60);
/// Objects that the writer changes in turn.
const OBJECTS: u64 = 4;
/// A list of this client opens a new connection each time this many have been sent.
const RECONNECT: usize = 10;

/// What happened since the last check.
#[derive(Debug, Default)]
struct State {
    /// The last number written.
    written: u64,
    /// The last number the watch delivered.
    seen: u64,
    faults: Vec<String>,
    latencies: Vec<Duration>,
    connected: Vec<Duration>,
}

type Shared = Arc<Mutex<State>>;

/// Runs until it is dropped.
pub struct Bystander {
    state: Shared,
    tasks: Vec<JoinHandle<()>>,
}

/// What the client saw since the last check.
#[derive(Debug, Clone)]
pub struct Seen {
    /// The last number of the watch.
    pub changes: u64,
    /// Lists, with their latency over connections that were open, ascending.
    pub latencies: Vec<Duration>,
    /// The same over new connections.
    pub connected: Vec<Duration>,
}

impl fmt::Display for Seen {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = |of: &[Duration], share: usize| {
            of.get(of.len().saturating_sub(1) * share / 100).map_or(0.0, |one| one.as_secs_f64() * 1000.0)
        };
        write!(
            formatter,
            "well-behaved client: change {}, {} lists p50 {:.0} ms p99 {:.0} ms, {} on new connections at most {:.0} ms",
            self.changes,
            self.latencies.len() + self.connected.len(),
            at(&self.latencies, 50),
            at(&self.latencies, 99),
            self.connected.len(),
            at(&self.connected, 100),
        )
    }
}

impl Bystander {
    /// Creates its objects in `collection` (cluster-scoped shirts) and starts. `server` is the server under attack.
    ///
    /// # Errors
    /// If a first list or watch fails.
    pub async fn start(writer: Client, server: Endpoint, collection: &str) -> Result<Bystander> {
        let api_version = collection.trim_start_matches("/apis/").trim_end_matches("/shirts").to_owned();
        for number in 0..OBJECTS {
            let name = format!("calm-{number}");
            let shirt = json!({
                "apiVersion": api_version, "kind": "Shirt", "metadata": { "name": name },
                "spec": { "quantity": 0, "color": "calm" },
            });
            let answer = writer.send(crate::http::Request::new(http::Method::POST, collection).json(&shirt)).await?;
            if answer.status == 409 {
                objects::merge(&writer, &format!("{collection}/{name}"), &json!({ "spec": { "quantity": 0 } })).await?;
            } else {
                answer.success()?;
            }
        }
        let newest = writer.get_json(collection).await?;
        let version = newest["metadata"]["resourceVersion"].as_str().context("a version")?.to_owned();
        let client = server.client();
        // At least as new as the last write.
        let list = client.read(&format!("{collection}?resourceVersion={version}")).await?.json()?;
        let from = list["metadata"]["resourceVersion"].as_str().context("a version")?.to_owned();
        let path = format!("{collection}?watch=1&resourceVersion={from}&timeoutSeconds=3600");
        let mut watch = client.watch(&path).await?;
        let state = Shared::default();
        let mut tasks = Vec::new();

        let shared = state.clone();
        let place = collection.to_owned();
        tasks.push(tokio::spawn(async move {
            let mut pace = interval(PACE);
            for number in 1.. {
                pace.tick().await;
                let path = format!("{place}/calm-{}", number % OBJECTS);
                match objects::merge(&writer, &path, &json!({ "spec": { "quantity": number } })).await {
                    Ok(_) => lock(&shared).written = number,
                    Err(error) => {
                        lock(&shared).faults.push(format!("the write of {number}: {error:#}"));
                        return;
                    }
                }
            }
        }));

        let shared = state.clone();
        tasks.push(tokio::spawn(async move {
            loop {
                let next = watch.next(DELIVERY * 10).await;
                let received = match next {
                    Ok(Next::Line(line)) => number_of(&line),
                    Ok(Next::Nothing) => continue,
                    Ok(Next::End) => Err(anyhow::anyhow!("the watch ended")),
                    Err(error) => Err(error),
                };
                let mut state = lock(&shared);
                match received {
                    Ok(number) if number == state.seen + 1 => state.seen = number,
                    Ok(number) => {
                        let before = state.seen;
                        state.faults.push(format!("the watch delivered {number} after {before}"));
                        state.seen = number;
                    }
                    Err(error) => {
                        state.faults.push(format!("{error:#}"));
                        return;
                    }
                }
            }
        }));

        let shared = state.clone();
        let place = format!("{collection}?fieldSelector=spec.color%3Dcalm");
        tasks.push(tokio::spawn(async move {
            let mut pace = interval(PACE);
            let mut client = server.client();
            for number in 0.. {
                pace.tick().await;
                let is_new = number % RECONNECT == 0;
                if is_new {
                    client = server.client();
                }
                let started = Instant::now();
                let outcome = read_list(&client, &place).await;
                let lasted = started.elapsed();
                let mut state = lock(&shared);
                match outcome {
                    Ok(()) if is_new => state.connected.push(lasted),
                    Ok(()) => state.latencies.push(lasted),
                    Err(error) => state.faults.push(format!("list {number}, after {lasted:.1?}: {error:#}")),
                }
            }
        }));
        Ok(Bystander { state, tasks })
    }

    /// Waits until the watch has delivered everything that was written before the call.
    ///
    /// # Errors
    /// If a list failed, or the watch had a gap, a repetition or an end.
    pub async fn check(&self) -> Result<Seen> {
        let written = lock(&self.state).written;
        let delivered = eventually("the watch delivers what was written", DELIVERY, async || {
            let state = lock(&self.state);
            // A fault ends the waiting.
            ensure!(state.seen >= written || !state.faults.is_empty(), "{written} written, {} delivered", state.seen);
            Ok(state.seen)
        });
        let changes = delivered.await?;
        let mut state = lock(&self.state);
        let faults = std::mem::take(&mut state.faults);
        let (mut latencies, mut connected) =
            (std::mem::take(&mut state.latencies), std::mem::take(&mut state.connected));
        drop(state);
        if let Some(first) = faults.first() {
            bail!("{} failures, the first: {first}", faults.len());
        }
        latencies.sort_unstable();
        connected.sort_unstable();
        Ok(Seen { changes, latencies, connected })
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

async fn read_list(client: &Client, path: &str) -> Result<()> {
    let list = client.get_json(path).await?;
    let count = list["items"].as_array().map_or(0, Vec::len);
    ensure!(count == usize::try_from(OBJECTS)?, "a list of {count} objects");
    Ok(())
}

fn number_of(line: &[u8]) -> Result<u64> {
    let event: Value = serde_json::from_slice(line)?;
    ensure!(event["type"] == "MODIFIED", "not a change: {event}");
    event["object"]["spec"]["quantity"].as_u64().with_context(|| format!("no number: {event}"))
}

/// A poisoned lock is no obstacle: the state stays usable.
fn lock(shared: &Shared) -> std::sync::MutexGuard<'_, State> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
