//! The row of shards: what one of ten shards costs the server and its client, beside the whole collection.
//!
//! A client counts what it reads, and parses each object without keeping it. It is a thread of its own, whose CPU time
//! is measured. The cost of a watch is the CPU of the server for a burst of updates, less that for the same burst
//! without a watch.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use e2e::accounting;
use e2e::generator::Corpus;
use e2e::http::{Endpoint, Next, Request};
use e2e::statistics::median;
use serde::de::IgnoredAny;

use super::corpora::Fed;
use super::options::Options;
use super::own::Offered;
use super::report::{Line, Report, duration, megabytes, number, ratio};

/// The row that is measured here.
pub(crate) const ROWS: [&str; 1] = ["shards"];

/// One of ten shards.
const SELECTOR: &str =
    "shardSelector=shardRange(object.metadata.uid,%270x0000000000000000%27,%270x199999999999999a%27)";

/// The share of the whole that a shard may take.
const BYTES: f64 = 1.0 / 10.0;
const CPU: f64 = 1.0 / 8.0;

/// A shard is not exactly a tenth of the objects, because hashes are distributed at random.
const RANDOM: f64 = 1.02;

/// Lists are requested for at least this long: the operating system counts CPU in steps of 10 ms.
const LASTING: Duration = Duration::from_secs(1);

/// How long a watch may wait for the next event of a burst.
const PATIENCE: Duration = Duration::from_secs(60);

/// What one read costs.
#[derive(Debug, Clone, Copy, Default)]
struct Cost {
    bytes: u64,
    server: Duration,
    client: Duration,
}

/// What a client read.
struct Received {
    bytes: u64,
    cpu: Duration,
}

/// Measures the row.
pub(crate) async fn run(options: &Options, offered: Offered, report: &mut Report) -> Result<()> {
    let corpus = Corpus::Shirts(options.shirts());
    let fed = Fed::start(corpus, offered).await?;
    let everywhere = fed.corpus.everywhere();
    let paths = [everywhere.clone(), format!("{everywhere}?{SELECTOR}")];
    // The first request of a shard builds the index.
    let held = fed.own.client.get_json(&format!("{}&limit=1", paths[1])).await?;
    let share = (1 + held["metadata"]["remainingItemCount"].as_u64().unwrap_or_default()) as f64;
    let share = ratio(share, fed.corpus.count() as f64);

    let mut lists = [Vec::new(), Vec::new()];
    for _ in 0..options.rounds {
        for (costs, path) in lists.iter_mut().zip(&paths) {
            costs.push(list(&fed, path).await?);
        }
    }
    add("LIST", share, lists, report);

    let events = fed.corpus.count();
    let mut watches = [Vec::new(), Vec::new()];
    for _ in 0..options.rounds {
        let without = fed.burst(events).await?;
        for (costs, path) in watches.iter_mut().zip(&paths) {
            costs.push(watch(&fed, path, events, without).await?);
        }
    }
    add(&format!("WATCH of {} updates", number(events as f64)), share, watches, report);
    Ok(())
}

/// Adds a line that compares the shard with the whole. `share`: the share of the objects that the shard has.
fn add(what: &str, share: f64, costs: [Vec<Cost>; 2], report: &mut Report) {
    let of = |costs: &[Cost], part: fn(&Cost) -> f64| median(&costs.iter().map(part).collect::<Vec<f64>>());
    let medians = |costs: &[Cost]| {
        [
            of(costs, |cost| cost.bytes as f64),
            of(costs, |cost| cost.server.as_secs_f64()),
            of(costs, |cost| cost.client.as_secs_f64()),
        ]
    };
    let [whole, shard] = costs.map(|costs| medians(&costs));
    let [bytes, server, client] = [0, 1, 2].map(|part| ratio(shard[part], whole[part]));
    let line = Line::new(
        "shards",
        format!("{what}: one of ten shards, {:.1} % of the objects", share * 100.0),
        format!(
            "{} of {}; CPU of the server {} of {}, of the client {} of {}",
            megabytes(shard[0] as u64),
            megabytes(whole[0] as u64),
            duration(Duration::from_secs_f64(shard[1].max(0.0))),
            duration(Duration::from_secs_f64(whole[1].max(0.0))),
            duration(Duration::from_secs_f64(shard[2])),
            duration(Duration::from_secs_f64(whole[2])),
        ),
    );
    let is_reached = bytes <= BYTES.max(share) * RANDOM && server <= CPU && client <= CPU;
    report.add(
        line.target("1/10 of the bytes, ≤ 1/8 of the CPU", is_reached)
            .figure("share", share)
            .figure("bytes", bytes)
            .figure("serverCpu", server)
            .figure("clientCpu", client),
    );
}

/// The mean cost of lists that are requested for [`LASTING`].
async fn list(fed: &Fed, path: &str) -> Result<Cost> {
    let process = fed.own.process();
    let (before, began) = (accounting::cpu(process)?, Instant::now());
    let (mut sum, mut count) = (Cost::default(), 0);
    while count == 0 || began.elapsed() < LASTING {
        let (endpoint, path) = (fed.own.fieldcache.endpoint().clone(), path.to_owned());
        let received = on_own_thread(move || async move {
            let request = Request::get(&path).header("accept-encoding", "identity");
            let answer = endpoint.client().send(request).await?.success()?;
            serde_json::from_slice::<IgnoredAny>(&answer.body)?;
            Ok(answer.body.len() as u64)
        })
        .await?;
        sum.bytes = received.bytes;
        sum.client += received.cpu;
        count += 1;
    }
    let server = accounting::cpu(process)?.saturating_sub(before);
    Ok(Cost { bytes: sum.bytes, server: server / count, client: sum.client / count })
}

/// The cost of a watch during a burst. `without`: the CPU of the server for a burst without a watch.
async fn watch(fed: &Fed, path: &str, events: u64, without: Duration) -> Result<Cost> {
    let version = fed.own.version(&fed.corpus.everywhere()).await?;
    let separator = if path.contains('?') { '&' } else { '?' };
    let path = format!("{path}{separator}watch=1&resourceVersion={version}");
    let (endpoint, (opened, is_open)) = (fed.own.fieldcache.endpoint().clone(), tokio::sync::oneshot::channel());
    let (ended, end) = tokio::sync::oneshot::channel::<()>();
    let reading = tokio::spawn(on_own_thread(move || read_watch(endpoint, path, opened, end)));
    is_open.await.context("the watch is open")?;
    let used = fed.burst(events).await?;
    drop(ended);
    let received = reading.await??;
    Ok(Cost { bytes: received.bytes, server: used.saturating_sub(without), client: received.cpu })
}

/// Reads a watch until `end`, when all of a burst has been sent. Returns the number of bytes.
async fn read_watch(
    endpoint: Endpoint,
    path: String,
    opened: tokio::sync::oneshot::Sender<()>,
    mut end: tokio::sync::oneshot::Receiver<()>,
) -> Result<u64> {
    let mut lines = endpoint.client().watch(&path).await?;
    // The measuring side waits for it, or has failed.
    let _ = opened.send(());
    let mut bytes = 0;
    loop {
        tokio::select! {
            biased;
            line = lines.next(PATIENCE) => match line? {
                Next::Line(line) => {
                    serde_json::from_slice::<IgnoredAny>(&line)?;
                    bytes += line.len() as u64;
                }
                Next::End => bail!("the watch ended"),
                Next::Nothing => bail!("no event within {PATIENCE:?}"),
            },
            _ = &mut end => {
                ensure!(bytes > 0, "no event was delivered");
                return Ok(bytes);
            }
        }
    }
}

/// Runs a client on a thread and a runtime of its own, and measures that thread.
async fn on_own_thread<Client: Future<Output = Result<u64>>>(
    client: impl FnOnce() -> Client + Send + 'static,
) -> Result<Received> {
    let thread = tokio::task::spawn_blocking(move || {
        let before = accounting::own_thread()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let bytes = runtime.block_on(client())?;
        Ok(Received { bytes, cpu: accounting::own_thread()?.saturating_sub(before) })
    });
    thread.await.context("the client's thread panicked")?
}
