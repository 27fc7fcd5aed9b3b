//! How much later an update arrives through fieldcache than through a direct watch of kube-apiserver, while others watch.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use e2e::corpus::shirts::OBJECTS_A_COLOR;
use e2e::http::{Endpoint, Next};
use e2e::statistics::percentile;
use tokio::time::interval;

use super::crowd::{Crowd, STREAMS};
use super::writer::Writer;
use super::{Bed, of_one, watch};
use crate::options::Options;
use crate::report::{Line, Report, duration, micros, number};

/// Others that watch through fieldcache meanwhile.
const OTHERS: u64 = 1_000;

/// Between two updates.
const PACE: Duration = Duration::from_millis(10);

/// An update that has not come after so long is lost.
const PATIENCE: Duration = Duration::from_secs(60);

/// What may be added.
const ALLOWED: Duration = Duration::from_millis(3);

/// When each version had arrived.
type Arrivals = HashMap<u64, Instant>;

/// The line of the row.
pub(crate) async fn run(options: &Options, bed: &Bed, report: &mut Report) -> Result<()> {
    let updates = if options.quick { 200 } else { 2_000 };
    let version = bed.version().await?;
    let others = (0..OTHERS.min(bed.corpus.count)).map(|index| of_one(&bed.corpus, index, version)).collect();
    let others = Crowd::open(bed.own.fieldcache.endpoint(), others, STREAMS).await?;
    bed.settled().await?;
    // Objects of one colour; most of the others do not receive them, some do, as in life.
    let path = watch(&bed.corpus, &format!("spec.color%3D{}", bed.corpus.color(0)), version);
    // Zero until the last version is known.
    let last = Arc::new(AtomicU64::new(0));
    // A thread for both, so that one clock and one queue of work stamp them, and apart from the readers of the others.
    let watching = std::thread::spawn({
        let endpoints = [bed.control_plane.endpoint().clone(), bed.own.fieldcache.endpoint().clone()];
        let last = last.clone();
        move || read_both(&endpoints, &path, &last)
    });
    let writer = Writer::new(bed.control_plane.client(), &bed.corpus);
    let mut ticks = interval(PACE);
    let mut newest = 0;
    for turn in 0..updates {
        ticks.tick().await;
        let index = turn % OBJECTS_A_COLOR.min(bed.corpus.count / bed.corpus.colors()) * bed.corpus.colors();
        let object = writer.update(index).await?;
        newest = version_of(&object.to_string()).context("an object has a version")?;
    }
    last.store(newest, Ordering::SeqCst);
    // One more, so that both readers look whether they are through.
    writer.update(0).await?;
    let [direct, through] = watching.join().map_err(|_| anyhow::anyhow!("the watching thread panicked"))??;
    drop(others);
    let mut added = Vec::new();
    let mut earlier = 0;
    for (version, arrived) in direct.iter().filter(|(version, _)| **version <= newest) {
        let through = through.get(version).with_context(|| format!("version {version} came directly only"))?;
        earlier += usize::from(through < arrived);
        added.push(through.saturating_duration_since(*arrived));
    }
    ensure!(added.len() >= updates as usize, "{} of {updates} updates were seen", added.len());
    let (median, p99) = (percentile(&added, 0.5), percentile(&added, 0.99));
    let line = Line::new(
        "watch-delay",
        format!("through fieldcache after a direct watch, {} other watchers", number(OTHERS as f64)),
        format!(
            "{} / {} of {} updates, {earlier} of which came no later",
            duration(median),
            duration(p99),
            number(added.len() as f64)
        ),
    );
    report.add(
        line.target("p99 ≤ 3 ms", p99 <= ALLOWED).figure("p50Micros", micros(median)).figure("p99Micros", micros(p99)),
    );
    Ok(())
}

fn read_both(endpoints: &[Endpoint; 2], path: &str, last: &AtomicU64) -> Result<[Arrivals; 2]> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let [direct, through] = endpoints;
        let (direct, through) = tokio::try_join!(read(direct, path, last), read(through, path, last))?;
        Ok([direct, through])
    })
}

/// Reads a watch until the first version above the one in `last`, once there is one.
async fn read(endpoint: &Endpoint, path: &str, last: &AtomicU64) -> Result<Arrivals> {
    let mut lines = endpoint.client().watch(path).await?;
    let mut arrivals = Arrivals::new();
    loop {
        let Next::Line(line) = lines.next(PATIENCE).await? else {
            bail!("{path} ended, or reported no event, before the updates had come")
        };
        let arrived = Instant::now();
        let version = version_of(&String::from_utf8_lossy(&line)).context("an event has a version")?;
        let last = last.load(Ordering::SeqCst);
        if last > 0 && version > last {
            return Ok(arrivals);
        }
        arrivals.insert(version, arrived);
    }
}

/// The version of the object in a line.
fn version_of(text: &str) -> Option<u64> {
    const KEY: &str = "\"resourceVersion\":\"";
    text[text.find(KEY)? + KEY.len()..].split('"').next()?.parse().ok()
}
