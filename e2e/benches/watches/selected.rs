//! One update with more and more watchers of which it touches one: CPU of the server.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use e2e::accounting::Meter;
use e2e::http::Endpoint;
use e2e::statistics;
use tokio::time::interval;

use super::crowd::{Crowd, STREAMS};
use super::writer::Writer;
use super::{Bed, of_one};
use crate::options::Options;
use crate::report::{Line, Report, duration, micros, number, ratio};

/// How many watch.
const WATCHERS: [u64; 4] = [100, 1_000, 5_000, 20_000];

/// What an update may cost fieldcache, whatever the number.
const ALLOWED: Duration = Duration::from_micros(150);

/// Updates of one round, and how long it may last at most: kube-apiserver gets through fewer of them.
const UPDATES: u64 = 200;
const ROUND: Duration = Duration::from_secs(5);

/// Watchers of different connections are touched in turn; prime, so that all have theirs.
const STRIDE: u64 = 7_919;

/// All lines of the row.
pub(crate) async fn run(options: &Options, bed: &Bed, report: &mut Report) -> Result<()> {
    let bare = bare_writes(options, bed).await?;
    for watchers in WATCHERS.into_iter().filter(|watchers| *watchers <= bed.corpus.count) {
        let own = side(options, bed, bed.own.fieldcache.endpoint(), bed.own.process(), watchers).await?;
        let upstream = bed.control_plane.apiserver().id();
        let upstream = side(options, bed, bed.control_plane.endpoint(), upstream, watchers).await?;
        let watching = upstream.cpu.saturating_sub(bare);
        let factor = ratio(watching.as_secs_f64(), own.cpu.as_secs_f64());
        let line = Line::new(
            "watch-updates",
            format!("{} watchers, each with its own field selector", number(watchers as f64)),
            format!(
                "CPU {} ({} less the bare write of {}) / {}, ratio {}; {} and {} updates",
                duration(upstream.cpu),
                duration(watching),
                duration(bare),
                duration(own.cpu),
                number(factor),
                upstream.updates,
                own.updates
            ),
        );
        report.add(
            line.target("≤ 0.15 ms an update", own.cpu <= ALLOWED)
                .figure("watchers", watchers)
                .figure("kubeApiserverCpuMicros", micros(upstream.cpu))
                .figure("bareWriteCpuMicros", micros(bare))
                .figure("fieldcacheCpuMicros", micros(own.cpu))
                .figure("cpuRatio", factor),
        );
    }
    Ok(())
}

/// What an update costs a side.
struct Cost {
    /// The median of the rounds.
    cpu: Duration,
    /// Updates behind it.
    updates: u64,
}

/// kube-apiserver's cost of the same writes while no client watches but fieldcache.
pub(crate) async fn bare_writes(options: &Options, bed: &Bed) -> Result<Duration> {
    let writer = Writer::new(bed.control_plane.client(), &bed.corpus);
    let mut costs = Vec::new();
    for round in 0..options.rounds as u64 {
        let meter = Meter::start(bed.control_plane.apiserver().id())?;
        for update in 0..UPDATES {
            writer.update((round * UPDATES + update) * STRIDE % bed.corpus.count).await?;
        }
        quiet().await;
        costs.push(meter.used()?.as_secs_f64() / UPDATES as f64);
    }
    Ok(Duration::from_secs_f64(statistics::median(&costs)))
}

/// Updates, one after the other, each of which one of so many watchers of this side receives.
async fn side(options: &Options, bed: &Bed, endpoint: &Endpoint, process: u32, watchers: u64) -> Result<Cost> {
    let version = bed.version().await?;
    let wanted = (0..watchers).map(|index| of_one(&bed.corpus, index, version)).collect();
    let crowd = Crowd::open(endpoint, wanted, STREAMS).await?;
    bed.settled().await?;
    let writer = Writer::new(bed.control_plane.client(), &bed.corpus);
    let (mut costs, mut updates) = (Vec::new(), 0);
    for _ in 0..options.rounds {
        let meter = Meter::start(process)?;
        let (before, began) = (updates, Instant::now());
        while updates < before + UPDATES && began.elapsed() < ROUND {
            writer.update(updates * STRIDE % watchers).await?;
            updates += 1;
            crowd.has(updates).await?;
        }
        quiet().await;
        costs.push(meter.used()?.as_secs_f64() / (updates - before) as f64);
    }
    ensure!(crowd.events() == updates, "{} events came of {updates} updates", crowd.events());
    drop(crowd);
    bed.settled().await?;
    Ok(Cost { cpu: Duration::from_secs_f64(statistics::median(&costs)), updates })
}

/// A moment for what a server does after it has sent it to the watches that it concerns: waking those that it does not.
pub(crate) async fn quiet() {
    let mut pause = interval(Duration::from_millis(200));
    pause.tick().await;
    pause.tick().await;
}
