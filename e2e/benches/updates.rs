//! LIST of 100 hits while updates run, and how soon updates are delivered while full lists run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::accounting;
use e2e::corpus::shirts::{OBJECTS_A_COLOR, Shirts};
use e2e::generator::objects::Change;
use e2e::generator::source::now;
use e2e::http::{Client, Endpoint, Next};
use e2e::statistics::percentile;
use futures::future::try_join_all;

use super::beside::by_color;
use super::corpora::Fed;
use super::load::{Requests, check};
use super::options::Options;
use super::report::{Line, Report, duration, micros, number, ratio};

/// Updates a second.
const RATE: f64 = 2_000.0;

/// Full lists at the same time.
const LISTS: usize = 50;

/// All lines of the row.
pub(crate) async fn run(options: &Options, fed: &Fed, corpus: &Shirts, report: &mut Report) -> Result<()> {
    let lasting = Duration::from_secs(if options.quick { 3 } else { 10 });
    let requests = Requests { paths: by_color(corpus), gzip: false };
    check(&fed.side(), &requests, corpus.count.min(OBJECTS_A_COLOR)).await?;
    fed.generator.rate(RATE, 0.0).await?;
    let measured = async {
        lists_meanwhile(fed, &requests, lasting, report).await?;
        delivery(fed, corpus, lasting, 0, report).await?;
        delivery(fed, corpus, lasting, LISTS, report).await
    };
    let measured = measured.await;
    fed.generator.rate(0.0, 0.0).await?;
    measured
}

async fn sent(fed: &Fed) -> Result<u64> {
    fed.generator.state().await?["sent"].as_u64().context("the generator says how many it sent")
}

async fn lists_meanwhile(fed: &Fed, requests: &Requests, lasting: Duration, report: &mut Report) -> Result<()> {
    let process = fed.own.process();
    let (sent_before, cpu_before) = (sent(fed).await?, accounting::cpu(process)?);
    let began = Instant::now();
    let mut latencies = Vec::new();
    while began.elapsed() < lasting {
        let started = Instant::now();
        let answer = fed.own.client.drain(requests.request(latencies.len())).await?;
        ensure!(answer.status.is_success(), "{}", answer.status);
        latencies.push(started.elapsed());
    }
    let elapsed = began.elapsed().as_secs_f64();
    let achieved = (sent(fed).await? - sent_before) as f64 / elapsed;
    let cores = accounting::cpu(process)?.saturating_sub(cpu_before).as_secs_f64() / elapsed;
    let (median, p99) = (percentile(&latencies, 0.5), percentile(&latencies, 0.99));
    let line = Line::new(
        "list-updates",
        "100 hits, all values in turn",
        format!(
            "latency {} / {}; {} updates/s and {} lists/s in {cores:.2} cores",
            duration(median),
            duration(p99),
            number(achieved),
            number(latencies.len() as f64 / elapsed)
        ),
    );
    let kept_up = achieved >= RATE * 0.98;
    report.add(
        line.target("p99 ≤ 5 ms at 2,000 updates/s", p99 <= Duration::from_millis(5) && kept_up)
            .figure("p50Micros", micros(median))
            .figure("p99Micros", micros(p99))
            .figure("updatesPerSecond", achieved),
    );
    Ok(())
}

async fn delivery(fed: &Fed, corpus: &Shirts, lasting: Duration, lists: usize, report: &mut Report) -> Result<()> {
    let everywhere = corpus.everywhere();
    let version = fed.own.version(&everywhere).await?;
    let path = format!("{everywhere}?watch=1&allowWatchBookmarks=true&resourceVersion={version}");
    // The version after which the watcher may stop; none yet. Updates that are still on their way when the lists have ended
    // are waited for: leaving out the slowest would flatter.
    let last = Arc::new(AtomicU64::new(0));
    // A thread and a runtime of its own, so that its clock is not held up by the readers of the lists in this process.
    let watching = std::thread::spawn({
        let (endpoint, last) = (fed.own.fieldcache.endpoint().clone(), last.clone());
        move || watch(&endpoint, &path, &last)
    });
    let sent_before = sent(fed).await?;
    let began = Instant::now();
    let complete = AtomicU64::new(0);
    let bytes = AtomicU64::new(0);
    let requests = Requests::one(everywhere);
    let readers = (0..lists).map(async |_| {
        let client: Client = fed.own.fieldcache.client();
        while began.elapsed() < lasting {
            let answer = client.drain(requests.request(0)).await?;
            ensure!(answer.status.is_success(), "{}", answer.status);
            complete.fetch_add(1, Ordering::Relaxed);
            bytes.fetch_add(answer.bytes, Ordering::Relaxed);
        }
        Ok(())
    });
    let mut pause = tokio::time::interval(lasting);
    pause.tick().await;
    let (read, ()) = tokio::join!(try_join_all(readers), async {
        pause.tick().await;
    });
    read?;
    let elapsed = began.elapsed().as_secs_f64();
    let achieved = (sent(fed).await? - sent_before) as f64 / elapsed;
    let version = fed.generator.state().await?["version"].as_u64().context("the generator says its version")?;
    last.store(version, Ordering::Relaxed);
    let delays = watching.join().map_err(|_| anyhow::anyhow!("the watching thread panicked"))??;
    ensure!(!delays.is_empty(), "no update was delivered");
    let (median, p99) = (percentile(&delays, 0.5), percentile(&delays, 0.99));
    let what = if lists == 0 {
        "delivery of updates to one watcher".to_owned()
    } else {
        format!("delivery of updates while {lists} full lists run")
    };
    let mut measured = format!(
        "{} / {} of {} events, {} updates/s",
        duration(median),
        duration(p99),
        number(delays.len() as f64),
        number(achieved)
    );
    if lists > 0 {
        let complete = complete.load(Ordering::Relaxed);
        let rate = ratio(bytes.load(Ordering::Relaxed) as f64 / 1e6, elapsed);
        measured.push_str(&format!("; {complete} lists in {elapsed:.1} s, {} MB/s", number(rate)));
    }
    report.add(
        Line::new("list-updates", what, measured)
            .figure("p50Micros", micros(median))
            .figure("p99Micros", micros(p99))
            .figure("events", delays.len())
            .figure("updatesPerSecond", achieved),
    );
    Ok(())
}

/// Reads a watch up to the version in `last`, once there is one. Returns the age of each update when it had been read.
fn watch(endpoint: &Endpoint, path: &str, last: &AtomicU64) -> Result<Vec<Duration>> {
    /// Updates come all the time; one that has not come after so long is lost.
    const PATIENCE: Duration = Duration::from_secs(120);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut lines = endpoint.client().watch(path).await?;
        // What was sent before would be as old as the opening took.
        let opened = now();
        let mut delays = Vec::new();
        loop {
            let Next::Line(line) = lines.next(PATIENCE).await? else {
                anyhow::bail!("the watch ended, or reported no event, before the updates had been delivered")
            };
            let read = now();
            let last = last.load(Ordering::Relaxed);
            if last > 0 && version(&line) > last {
                return Ok(delays);
            }
            if let Some(sent) = Change::SHIRT.sent_at(&line).filter(|sent| *sent >= opened) {
                let nanos = u64::try_from(read.saturating_sub(sent)).unwrap_or(u64::MAX);
                delays.push(Duration::from_nanos(nanos));
            }
        }
    })
}

/// The version of the object in a line; zero of one that has none.
fn version(line: &[u8]) -> u64 {
    const KEY: &str = "\"resourceVersion\":\"";
    let text = std::str::from_utf8(line).unwrap_or_default();
    let start = text.find(KEY).map_or(text.len(), |found| found + KEY.len());
    text[start..].split('"').next().and_then(|digits| digits.parse().ok()).unwrap_or_default()
}
