//! The row `consumer`: what a read costs the client, directly from kube-apiserver and through fieldcache, over TLS on both sides.
//!
//! Each client is an unmodified library in a process of its own ([`clients`]), which keeps all objects of a resource. It is started
//! beside each server in turn: measured are the time until its store is complete, its CPU, peak and resting memory, the bytes that it receives
//! ([`relay`]) and the CPU of the server. Then objects change through kube-apiserver while a client of each server looks on.

mod clients;
mod relay;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::control_plane::{ControlPlane, Settings, kubeconfig};
use e2e::corpus::load::{pods, shirts_into_etcd};
use e2e::http::Request;
use e2e::run_directory::RunDirectory;
use e2e::{accounting, statistics};
use http::Method;
use serde_json::{Value, json};

use super::options::Options;
use super::own::{Offered, Own, Tls};
use super::report::{Line, Report, duration, megabytes, number, ratio};
use clients::{Consumer, Kept, Running};
use relay::Relay;

/// The row of this folder.
pub(crate) const ROWS: [&str; 1] = ["consumer"];

/// How long objects change, and how long in a trial.
const UPDATES: Duration = Duration::from_secs(300);
const QUICK_UPDATES: Duration = Duration::from_secs(15);

/// Changes in a second, at most: as many as a busy cluster of this size has.
const UPDATES_A_SECOND: u32 = 100;

/// Objects that change, at most.
const CHANGED: u64 = 2_000;

/// How long the last change may take to arrive.
const ARRIVAL_DEADLINE: Duration = Duration::from_secs(60);

/// One server as clients see it.
struct Side {
    name: &'static str,
    process: u32,
    relay: Relay,
    kubeconfig: PathBuf,
}

/// What a client took.
#[derive(Debug, Clone, Copy, Default)]
struct Cost {
    time: Duration,
    cpu: Duration,
    peak: u64,
    resting: u64,
    bytes: u64,
    server: Duration,
}

/// Measures everything of this row.
pub(crate) async fn run(options: &Options, offered: Offered, report: &mut Report) -> Result<()> {
    ensure!(offered.tls, "this build does not serve over TLS (--tls-cert-file)");
    let directory = RunDirectory::create("bench-consumer")?;
    let control_plane = ControlPlane::start(Settings::default()).await?;
    let shirts = options.shirts();
    shirts_into_etcd(&control_plane, &shirts, |_| {}).await?;
    let corpus = options.pods();
    let mut told = Instant::now();
    let progress = |done| {
        if told.elapsed() > Duration::from_secs(30) {
            told = Instant::now();
            eprintln!("{done} Pods created");
        }
    };
    pods(&control_plane.client(), &corpus, progress).await?;
    let identity = control_plane.authority().server("fieldcache", &[])?;
    let authority = control_plane.authority().certificate();
    let tls = Tls {
        certificate: &directory.write("tls.crt", identity.certificate)?,
        key: &directory.write("tls.key", identity.key)?,
        authority: &authority,
    };
    let source = ["--kubeconfig".to_owned(), control_plane.kubeconfig().display().to_string()];
    let own = Own::start(&source, offered, Some(tls)).await?;
    own.synced(&shirts.everywhere(), shirts.count).await?;
    own.synced("/api/v1/pods", corpus.count).await?;
    let direct = Relay::start(control_plane.endpoint().base()).await?;
    let through = Relay::start(own.fieldcache.endpoint().base()).await?;
    let sides = [
        Side {
            name: "kube-apiserver",
            process: control_plane.apiserver().id(),
            kubeconfig: directory.write("direct", control_plane.kubeconfig_for(&direct.base()).to_string())?,
            relay: direct,
        },
        Side {
            name: "fieldcache",
            process: own.process(),
            kubeconfig: directory.write("through", kubeconfig(&through.base(), Some(&authority), None).to_string())?,
            relay: through,
        },
    ];
    let pod_paths: Vec<String> = (0..corpus.count.min(CHANGED))
        .map(|index| path(&corpus.object(index), |name| corpus.collection(name)))
        .collect();
    let shirt_paths: Vec<String> = (0..shirts.count.min(CHANGED))
        .map(|index| path(&shirts.object(index), |name| shirts.collection(name)))
        .collect();
    for (kept, count, paths) in
        [(Kept::Pods, corpus.count, &pod_paths), (Kept::shirts(&shirts), shirts.count, &shirt_paths)]
    {
        for consumer in Consumer::of(&kept) {
            let bed = Bed { options, control_plane: &control_plane, sides: &sides, directory: &directory };
            let measured = Box::pin(bed.measure(consumer, &kept, count, paths, report)).await;
            report.unless_failed("consumer", measured.with_context(|| format!("{}, {}", kept.name(), consumer.name())));
        }
    }
    Ok(())
}

/// The path of an object.
fn path(object: &Value, collection: impl Fn(&str) -> String) -> String {
    let text = |member: &str| object["metadata"][member].as_str().unwrap_or_default();
    format!("{}/{}", collection(text("namespace")), text("name"))
}

struct Bed<'a> {
    options: &'a Options,
    control_plane: &'a ControlPlane,
    sides: &'a [Side; 2],
    directory: &'a RunDirectory,
}

impl Bed<'_> {
    async fn measure(
        &self,
        consumer: Consumer,
        kept: &Kept,
        count: u64,
        paths: &[String],
        report: &mut Report,
    ) -> Result<()> {
        let mut costs: [Vec<Cost>; 2] = Default::default();
        let mut last = Vec::new();
        // The clients of the last round stay for the updates.
        let rounds = self.options.rounds.min(3);
        for round in 1..=rounds {
            for (side, costs) in self.sides.iter().zip(&mut costs) {
                let (cost, running) = self.sync(side, consumer, kept, count, round == rounds).await?;
                costs.push(cost);
                last.extend(running.map(|running| (side, running)));
            }
        }
        let synced = costs.map(|costs| median(&costs));
        report.add(line(kept, consumer, "until complete", &synced));
        let updates = self.updates(&last, paths).await?;
        let mut told = Vec::new();
        for (_, running) in last {
            told.push(running.end().await?);
        }
        let [direct, through] = told[..] else { return Ok(()) };
        ensure!(through > 0 && direct > 0, "{direct} and {through} changes arrived");
        report.add(line(kept, consumer, "updates", &updates).figure("changes", through));
        Ok(())
    }

    /// Starts a client and waits until its store is complete.
    async fn sync(
        &self,
        side: &Side,
        consumer: Consumer,
        kept: &Kept,
        count: u64,
        stays: bool,
    ) -> Result<(Cost, Option<Running>)> {
        let directory = self.directory.path().join(format!("{}-{}", side.name, consumer as usize));
        // The output of the last run must not be read again.
        if directory.exists() {
            std::fs::remove_dir_all(&directory)?;
        }
        std::fs::create_dir_all(&directory)?;
        accounting::settled(side.process, Duration::from_secs(1), Duration::from_secs(30)).await?;
        let (server, received, started) = (accounting::cpu(side.process)?, side.relay.received(), Instant::now());
        let running = Running::start(consumer, kept, &side.kubeconfig, &directory)?;
        let found = running.synced().await?;
        let process = running.process.id();
        let mut cost = Cost {
            time: started.elapsed(),
            cpu: accounting::cpu(process)?,
            bytes: side.relay.received() - received,
            server: accounting::cpu(side.process)?.saturating_sub(server),
            ..Cost::default()
        };
        ensure!(found == count, "{} beside {} holds {found} of {count}", consumer.name(), side.name);
        cost.resting = accounting::resting_bytes(process).await?;
        cost.peak = accounting::peak_resident_bytes(process)?;
        if stays {
            return Ok((cost, Some(running)));
        }
        running.end().await?;
        Ok((cost, None))
    }

    /// Changes objects while the clients look on.
    async fn updates(&self, clients: &[(&Side, Running)], paths: &[String]) -> Result<[Cost; 2]> {
        let mut before = Vec::new();
        for (side, running) in clients {
            let process = running.process.id();
            accounting::settled(process, Duration::from_secs(1), Duration::from_secs(30)).await?;
            accounting::forget_peak(process)?;
            before.push((accounting::cpu(process)?, side.relay.received(), accounting::cpu(side.process)?));
        }
        let lasts = if self.options.quick { QUICK_UPDATES } else { UPDATES };
        let client = self.control_plane.client();
        let started = Instant::now();
        let mut turns = tokio::time::interval(Duration::from_secs(1) / UPDATES_A_SECOND);
        let mut turn = 0_u32;
        while started.elapsed() < lasts {
            turns.tick().await;
            let path = &paths[turn as usize % paths.len()];
            let mut request = Request::new(Method::PATCH, format!("{path}?fieldManager=bench"));
            request.body =
                json!({ "metadata": { "annotations": { "example.com/turn": turn.to_string() } } }).to_string().into();
            client.send(request.header("content-type", "application/merge-patch+json")).await?.success()?;
            turn += 1;
        }
        // A client that has been told of the last change is at rest.
        let mut costs = [Cost::default(); 2];
        for (((side, running), cost), (cpu, received, server)) in clients.iter().zip(&mut costs).zip(before) {
            let process = running.process.id();
            accounting::settled(process, Duration::from_millis(500), ARRIVAL_DEADLINE).await?;
            *cost = Cost {
                time: started.elapsed(),
                cpu: accounting::cpu(process)?.saturating_sub(cpu),
                peak: accounting::peak_resident_bytes(process)?,
                resting: accounting::resident_bytes(process)?,
                bytes: side.relay.received() - received,
                server: accounting::cpu(side.process)?.saturating_sub(server),
            };
        }
        Ok(costs)
    }
}

/// The median of each figure by itself.
fn median(costs: &[Cost]) -> Cost {
    let middle = |figure: fn(&Cost) -> f64| statistics::median(&costs.iter().map(figure).collect::<Vec<f64>>());
    Cost {
        time: Duration::from_secs_f64(middle(|cost| cost.time.as_secs_f64())),
        cpu: Duration::from_secs_f64(middle(|cost| cost.cpu.as_secs_f64())),
        peak: middle(|cost| cost.peak as f64) as u64,
        resting: middle(|cost| cost.resting as f64) as u64,
        bytes: middle(|cost| cost.bytes as f64) as u64,
        server: Duration::from_secs_f64(middle(|cost| cost.server.as_secs_f64())),
    }
}

fn line(kept: &Kept, consumer: Consumer, phase: &str, [direct, through]: &[Cost; 2]) -> Line {
    let is_sync = phase != "updates";
    let time =
        if is_sync { format!("{} / {}, ", duration(direct.time), duration(through.time)) } else { String::new() };
    let measured = format!(
        "{time}CPU {} / {}, peak {} / {}, resting {} / {}, received {} / {}; server CPU {} / {}",
        duration(direct.cpu),
        duration(through.cpu),
        megabytes(direct.peak),
        megabytes(through.peak),
        megabytes(direct.resting),
        megabytes(through.resting),
        megabytes(direct.bytes),
        megabytes(through.bytes),
        duration(direct.server),
        duration(through.server),
    );
    let cost = |cost: &Cost| {
        json!({
            "seconds": cost.time.as_secs_f64(), "cpuSeconds": cost.cpu.as_secs_f64(), "peakBytes": cost.peak,
            "restingBytes": cost.resting, "receivedBytes": cost.bytes, "serverCpuSeconds": cost.server.as_secs_f64(),
        })
    };
    let worst = [
        if is_sync { ratio(through.time.as_secs_f64(), direct.time.as_secs_f64()) } else { 0.0 },
        ratio(through.cpu.as_secs_f64(), direct.cpu.as_secs_f64()),
        ratio(through.peak as f64, direct.peak as f64),
        ratio(through.resting as f64, direct.resting as f64),
        ratio(through.bytes as f64, direct.bytes as f64),
    ]
    .into_iter()
    .fold(0.0, f64::max);
    let what = format!("{}, {}, {phase}: kube-apiserver / fieldcache", kept.name(), consumer.name());
    let line = Line::new("consumer", what, format!("{measured}; at most {} times", number(worst)))
        .figure("direct", cost(direct))
        .figure("through", cost(through))
        .figure("worstRatio", worst);
    if consumer.is_default() { line.target("≤ 1 time in each figure of the client", worst <= 1.0) } else { line }
}
