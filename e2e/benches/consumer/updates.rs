//! What changes cost clients whose stores are complete.
//!
//! Many clients look on at once, so that one stream of changes serves them all. The changes are the same for each client.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use e2e::accounting;
use e2e::http::Request;
use futures::{StreamExt, TryStreamExt, stream};
use http::Method;
use serde_json::json;

use super::super::report::Report;
use super::Bed;
use super::clients::Running;
use super::lines::{self, Cost};
use super::plan::Run;

/// How long objects change, and how long in a trial.
const UPDATES: Duration = Duration::from_secs(300);
const QUICK_UPDATES: Duration = Duration::from_secs(15);

/// Changes in a second: as many as a busy cluster of this size has.
const UPDATES_A_SECOND: u32 = 100;

/// Requests under way, at most, so that a slow one does not delay the next ones.
const AT_ONCE: usize = 4;

/// How long the last change may take to arrive.
const ARRIVAL_DEADLINE: Duration = Duration::from_secs(60);

/// A client with a complete store.
pub(super) struct Waiting {
    pub(super) run: Run,
    pub(super) running: Running,
}

/// What a client had taken before the first change.
struct Before {
    cpu: Duration,
    received: u64,
}

impl Bed<'_> {
    /// Changes objects while these clients look on, and ends the clients.
    pub(super) async fn updates(&mut self, waiting: Vec<Waiting>, report: &mut Report) -> Result<()> {
        let mut begun = Vec::new();
        for client in waiting {
            match begin(&client.running).await {
                Ok(before) => begun.push((client, before)),
                Err(error) => self.failed(client.run, &error, report),
            }
        }
        if begun.is_empty() {
            return Ok(());
        }
        let reported: Vec<Run> = begun.iter().map(|(client, _)| client.run).collect();
        let before = self.server_cpu()?;
        let (changes, took) = self.change().await?;
        let mut costs = Vec::new();
        for (client, before) in &begun {
            costs.push(settled(&client.running, before).await);
        }
        let [direct, through] = self.server_cpu()?;
        let used = [direct.saturating_sub(before[0]), through.saturating_sub(before[1])];
        for ((client, _), cost) in begun.iter().zip(costs) {
            let reported = match cost {
                Ok(cost) => {
                    let (consumer, side) = client.run;
                    // The View does not show the annotation that changes.
                    let expected = if consumer.is_quiet() && side == 1 { 0 } else { changes };
                    end(&client.running, expected).await.map(|()| cost)
                }
                Err(error) => Err(error),
            };
            match reported {
                Ok(cost) => self.updated.add(client.run, cost),
                Err(error) => self.failed(client.run, &error, report),
            }
        }
        for (consumer, costs) in self.updated.take_complete() {
            report.add(lines::updated(self.kept, consumer, &costs, changes));
        }
        report.add(lines::servers(self.kept, &reported, used, (changes, took)));
        Ok(())
    }

    fn server_cpu(&self) -> Result<[Duration; 2]> {
        let [direct, through] = &self.sides;
        Ok([accounting::cpu(direct.process)?, accounting::cpu(through.process)?])
    }

    /// Changes objects at an even pace; returns how many changes there were, and in what time.
    async fn change(&mut self) -> Result<(u64, Duration)> {
        let lasts = if self.options.quick { QUICK_UPDATES } else { UPDATES };
        let changes = lasts.as_secs() * u64::from(UPDATES_A_SECOND);
        // A number that an object had before would be no change.
        let first = self.changes;
        self.changes += changes;
        let (client, started) = (self.control_plane.client(), Instant::now());
        let send = async |change: u64| {
            let path = &self.paths[usize::try_from(change)? % self.paths.len()];
            let mut request = Request::new(Method::PATCH, format!("{path}?fieldManager=bench"));
            let change = json!({ "metadata": { "annotations": { "example.com/change": change.to_string() } } });
            request.body = change.to_string().into();
            client.send(request.header("content-type", "application/merge-patch+json")).await?.success()?;
            Ok::<(), anyhow::Error>(())
        };
        let paced = (tokio::time::interval(Duration::from_secs(1) / UPDATES_A_SECOND), first..self.changes);
        let paced = stream::unfold(paced, async |(mut interval, mut numbers)| {
            interval.tick().await;
            Some((numbers.next()?, (interval, numbers)))
        });
        paced.map(send).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
        Ok((changes, started.elapsed()))
    }
}

async fn begin(running: &Running) -> Result<Before> {
    let process = running.process.id();
    let cpu = accounting::settled(process, Duration::from_secs(1), Duration::from_secs(30)).await?;
    accounting::forget_peak(process)?;
    Ok(Before { cpu, received: running.received() })
}

/// What it took, once it is at rest: then it has received the last change.
async fn settled(running: &Running, before: &Before) -> Result<Cost> {
    let process = running.process.id();
    let cpu = accounting::settled(process, Duration::from_millis(500), ARRIVAL_DEADLINE).await?;
    Ok(Cost {
        cpu: cpu.saturating_sub(before.cpu),
        peak: accounting::peak_resident_bytes(process)?,
        resting: accounting::resident_bytes(process)?,
        bytes: running.received() - before.received,
        ..Cost::default()
    })
}

/// Ends it; fails unless it received this number of changes.
async fn end(running: &Running, changes: u64) -> Result<()> {
    let reported = running.end().await?;
    ensure!(reported == changes, "it received {reported} of {changes} changes");
    Ok(())
}
