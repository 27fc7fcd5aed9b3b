//! One update that concerns all of 5,000 watchers: CPU of the server, beside a bare server that writes the same bytes.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use e2e::accounting::{self, Meter};
use e2e::generator::child::Child;
use e2e::http::{Endpoint, Next, Protocol, Request};
use e2e::run_directory::RunDirectory;
use e2e::statistics;
use http::Method;

use super::crowd::{Crowd, STREAMS, Wanted};
use super::selected::{bare_writes, quiet};
use super::writer::Writer;
use super::{Bed, watch};
use crate::options::Options;
use crate::own::{Offered, Own, Tls, generator_program};
use crate::report::{Line, Report, duration, micros, number, ratio};

/// How many watch.
const WATCHERS: usize = 5_000;

/// Updates of one round, and how long it may last at most.
const UPDATES: u64 = 50;
const ROUND: Duration = Duration::from_secs(5);

/// All lines of the row.
pub(crate) async fn run(options: &Options, offered: Offered, bed: &Bed, report: &mut Report) -> Result<()> {
    let write = bare_writes(options, bed).await?;
    let upstream = side(options, bed, bed.control_plane.endpoint(), bed.control_plane.apiserver().id())
        .await?
        .saturating_sub(write);
    let plain = side(options, bed, bed.own.fieldcache.endpoint(), bed.own.process()).await?;
    let (bare, bytes) = bare(options, bed).await?;
    let factor = ratio(plain.as_secs_f64(), bare.as_secs_f64());
    let watchers = number(WATCHERS as f64);
    let line = Line::new(
        "broadcast",
        format!("{watchers} watchers that all match, beside bare writes"),
        format!(
            "CPU of an update {}, of writing its {bytes} bytes to as many streams {}: {factor:.2} times",
            duration(plain),
            duration(bare)
        ),
    );
    report.add(
        line.target("≤ 1.3 times the bare writes", factor <= 1.3)
            .figure("fieldcacheCpuMicros", micros(plain))
            .figure("bareCpuMicros", micros(bare))
            .figure("ratio", factor),
    );
    report.add(beside(&format!("{watchers} watchers that all match"), upstream, write, plain));
    if !offered.tls {
        report.add(Line::skipped("broadcast", "TLS", "not offered by this build (--tls-cert-file)"));
        return Ok(());
    }
    let directory = RunDirectory::create("bench-tls")?;
    let identity = bed.control_plane.authority().server("fieldcache", &[])?;
    let tls = Tls {
        certificate: &directory.write("tls.crt", identity.certificate)?,
        key: &directory.write("tls.key", identity.key)?,
        authority: &bed.control_plane.authority().certificate(),
    };
    let own = Own::start(&Bed::source(&bed.control_plane), offered, Some(tls)).await?;
    own.synced(&bed.corpus.everywhere(), bed.corpus.count).await?;
    let tls = side(options, bed, own.fieldcache.endpoint(), own.process()).await?;
    report.add(beside(&format!("TLS, {watchers} watchers that all match"), upstream, write, tls));
    Ok(())
}

fn beside(what: &str, upstream: Duration, write: Duration, own: Duration) -> Line {
    let factor = ratio(upstream.as_secs_f64(), own.as_secs_f64());
    let line = Line::new(
        "broadcast",
        what,
        format!(
            "CPU {} less the bare write of {} / {}, ratio {}",
            duration(upstream + write),
            duration(write),
            duration(own),
            number(factor)
        ),
    );
    line.target("≥ 3 times less CPU", factor >= 3.0)
        .figure("kubeApiserverCpuMicros", micros(upstream + write))
        .figure("bareWriteCpuMicros", micros(write))
        .figure("fieldcacheCpuMicros", micros(own))
        .figure("cpuRatio", factor)
}

/// The watch that all of them open, from a version on: of one colour, so that a field selector has to be looked at.
fn wanted(bed: &Bed, version: u64) -> Wanted {
    let color = bed.corpus.color(0);
    Wanted {
        path: watch(&bed.corpus, &format!("spec.color%3D{color}"), version),
        reported: format!("\"color\":\"{color}\""),
    }
}

/// CPU of an update that all receive, the median of the rounds.
async fn side(options: &Options, bed: &Bed, endpoint: &Endpoint, process: u32) -> Result<Duration> {
    let version = bed.version().await?;
    let crowd = Crowd::open(endpoint, vec![wanted(bed, version); WATCHERS], STREAMS).await?;
    accounting::settled(process, Duration::from_secs(1), Duration::from_secs(30)).await?;
    let writer = Writer::new(bed.control_plane.client(), &bed.corpus);
    let cost = rounds(options, &crowd, process, async || writer.update(0).await.map(|_| ())).await;
    drop(crowd);
    bed.settled().await?;
    cost
}

/// The same of a bare server, with one event of fieldcache as the bytes. Also returns their number.
async fn bare(options: &Options, bed: &Bed) -> Result<(Duration, usize)> {
    let version = bed.version().await?;
    let mut lines = bed.own.client.watch(&wanted(bed, version).path).await?;
    Writer::new(bed.control_plane.client(), &bed.corpus).update(0).await?;
    let Next::Line(line) = lines.next(Duration::from_secs(30)).await? else { anyhow::bail!("no event came") };
    let event = [&line[..], b"\n"].concat();
    let server = Child::streams(&generator_program()?).await?;
    let reported = wanted(bed, version).reported;
    let crowd =
        Crowd::open(server.endpoint(), vec![Wanted { path: "/".to_owned(), reported }; WATCHERS], STREAMS).await?;
    let writing = server.endpoint().clone().speaking(Protocol::Http2).client();
    let cost = rounds(options, &crowd, server.process().id(), async || {
        let mut request = Request::new(Method::POST, "/");
        request.body = event.clone().into();
        writing.send(request).await?.success().map(|_| ())
    });
    Ok((cost.await.context("the bare server")?, event.len()))
}

/// Updates, one after the other, each of which all of the crowd receive.
async fn rounds(
    options: &Options,
    crowd: &Crowd,
    process: u32,
    mut update: impl AsyncFnMut() -> Result<()>,
) -> Result<Duration> {
    let (mut costs, mut updates) = (Vec::new(), 0);
    for _ in 0..options.rounds {
        let meter = Meter::start(process)?;
        let (before, began) = (updates, Instant::now());
        while updates < before + UPDATES && began.elapsed() < ROUND {
            update().await?;
            updates += 1;
            crowd.has(updates * crowd.len() as u64).await?;
        }
        quiet().await;
        costs.push(meter.used()?.as_secs_f64() / (updates - before) as f64);
    }
    Ok(Duration::from_secs_f64(statistics::median(&costs)))
}
