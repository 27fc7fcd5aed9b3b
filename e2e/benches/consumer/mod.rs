//! The row `consumer`: what a read costs the client, directly from kube-apiserver and through fieldcache, over TLS on both sides.
//!
//! Each client is an unmodified library in a process of its own ([`clients`]), which keeps all objects of a resource
//! ([`kept`]). It runs beside one server, then beside the other. The benchmark measures the time until its store is
//! complete, its CPU, and its peak and resting memory. It also measures the bytes that it receives ([`relay`]) and the
//! CPU of the server. Clients stay for as long as memory suffices ([`plan`]). Then objects change through
//! kube-apiserver while they look on ([`updates`]). [`lines`] are the figures.

mod clients;
mod kept;
mod lines;
mod plan;
mod relay;
mod updates;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::accounting;
use e2e::control_plane::{ControlPlane, Settings, kubeconfig};
use e2e::corpus::secrets::Secrets;
use e2e::run_directory::RunDirectory;
use e2e::viewed::Viewed;
use serde_json::Value;

use super::options::Options;
use super::own::{Offered, Own, Tls};
use super::report::{Report, megabytes};
use clients::{Consumer, Running};
use kept::Kept;
use lines::{Cost, Costs, median};
use plan::{Run, groups};
use updates::Waiting;

/// The rows of this folder: all clients, or those that receive less than whole objects.
pub(crate) const ROWS: [&str; 2] = ["consumer", "consumer-less"];

/// Objects that change, at most.
const CHANGED: u64 = 2_000;

/// Rounds, at most, of a client that is complete in less than this time. Others are measured once: all of them together take long
/// enough, and the figures of the short ones vary most.
const ROUNDS: usize = 3;
const SHORT: Duration = Duration::from_secs(8);

/// One server as clients see it.
struct Side {
    name: &'static str,
    process: u32,
    address: String,
    /// How to reach it; each client has another address.
    kubeconfig: Value,
}

/// Measures everything of this row.
pub(crate) async fn run(options: &Options, offered: Offered, report: &mut Report) -> Result<()> {
    ensure!(offered.tls, "this build does not serve over TLS (--tls-cert-file)");
    let secrets = Secrets { count: options.objects / 10, seed: 1 };
    for kept in [Kept::Pods(options.pods()), Kept::Shirts(options.shirts()), Kept::Secrets(secrets)] {
        let measured = Box::pin(measure(options, offered, &kept, report)).await;
        report.unless_failed("consumer", measured.context(kept.name()));
    }
    Ok(())
}

/// Measures all clients of one resource, which a control plane of its own serves.
async fn measure(options: &Options, offered: Offered, kept: &Kept, report: &mut Report) -> Result<()> {
    let directory = RunDirectory::create("bench-consumer")?;
    let control_plane = ControlPlane::start(Settings::default()).await?;
    let started = Instant::now();
    kept.load(&control_plane).await?;
    let identity = control_plane.authority().server("fieldcache", &[])?;
    let authority = control_plane.authority().certificate();
    let tls = Tls {
        certificate: &directory.write("tls.crt", identity.certificate)?,
        key: &directory.write("tls.key", identity.key)?,
        authority: &authority,
    };
    let source = ["--kubeconfig".to_owned(), control_plane.kubeconfig().display().to_string()];
    let own = Own::start(&source, offered, Some(tls)).await?;
    own.synced(&kept.everywhere(), kept.count()).await?;
    eprintln!("{} {} are served after {:.0} s", kept.count(), kept.name(), started.elapsed().as_secs_f64());
    let (direct, through) = (control_plane.endpoint().base(), own.fieldcache.endpoint().base());
    let sides = [
        Side {
            name: "kube-apiserver",
            process: control_plane.apiserver().id(),
            address: direct.to_owned(),
            kubeconfig: control_plane.kubeconfig_for(direct),
        },
        Side {
            name: "fieldcache",
            process: own.process(),
            address: through.to_owned(),
            kubeconfig: kubeconfig(through, Some(&authority), None),
        },
    ];
    // The View needs an operator, which is another process with another copy of the objects.
    let viewed = Box::pin(Viewed::with_resources(&control_plane, &[kept.shown()], "Eventual")).await?;
    let view = Side {
        name: "View",
        process: viewed.operator.process().id(),
        address: viewed.operator.endpoint().base().to_owned(),
        kubeconfig: viewed.kubeconfig_of(control_plane.administrator())?,
    };
    let paths = (0..kept.count().min(CHANGED)).map(|index| kept.path(index)).collect();
    let mut bed = Bed {
        options,
        kept,
        control_plane: &control_plane,
        sides,
        view,
        directory: &directory,
        paths,
        changes: 0,
        completed: Costs::default(),
        updated: Costs::default(),
    };
    bed.all(report).await
}

struct Bed<'a> {
    options: &'a Options,
    kept: &'a Kept,
    control_plane: &'a ControlPlane,
    sides: [Side; 2],
    /// fieldcache, for clients of a View.
    view: Side,
    directory: &'a RunDirectory,
    /// The objects that change.
    paths: Vec<String>,
    /// Changes so far.
    changes: u64,
    /// What clients took until their stores were complete, and while objects changed.
    completed: Costs,
    updated: Costs,
}

impl Bed<'_> {
    async fn all(&mut self, report: &mut Report) -> Result<()> {
        let available = accounting::available_bytes()?;
        let is_chosen = |consumer: &Consumer| self.options.wants(&["consumer"]) || consumer.receives_less();
        let groups = groups(self.kept, Consumer::for_kept(self.kept).filter(is_chosen), available);
        eprintln!("{} groups of clients, with {} of memory available", groups.len(), megabytes(available));
        for group in groups {
            let mut waiting = Vec::new();
            for run in group {
                match self.complete(run).await {
                    Ok((cost, running)) => {
                        self.completed.add(run, cost);
                        waiting.push(Waiting { run, running });
                    }
                    Err(error) => self.failed(run, &error, report),
                }
                for (consumer, costs) in self.completed.take_complete() {
                    report.add(lines::complete(self.kept, consumer, &costs));
                }
            }
            self.updates(waiting, report).await?;
        }
        Ok(())
    }

    /// Reports a failure of one client; the others are measured all the same.
    fn failed(&self, (consumer, side): Run, error: &anyhow::Error, report: &mut Report) {
        let what = format!("{}, {} beside {}", self.kept.name(), consumer.name(), self.sides[side].name);
        report.unless_failed("consumer", Err(anyhow::anyhow!("{what}: {error:#}")));
    }

    /// Measures a client until its store is complete; that of the last round stays.
    async fn complete(&self, run: Run) -> Result<(Cost, Running)> {
        let mut costs = Vec::new();
        loop {
            let (cost, running) = self.sync(run).await?;
            costs.push(cost);
            if cost.time >= SHORT || costs.len() >= self.options.rounds.min(ROUNDS) {
                return Ok((median(&costs), running));
            }
            running.end().await?;
        }
    }

    /// Starts a client and waits until its store is complete.
    async fn sync(&self, (consumer, side): Run) -> Result<(Cost, Running)> {
        let side = if consumer == Consumer::ManagerKeep && side == 1 { &self.view } else { &self.sides[side] };
        let directory = self.directory.path().join(format!("{}-{}", side.name, consumer as usize));
        // The output of the last run must not be read again.
        if directory.exists() {
            std::fs::remove_dir_all(&directory)?;
        }
        std::fs::create_dir_all(&directory)?;
        accounting::settled(side.process, Duration::from_secs(1), Duration::from_secs(30)).await?;
        let (server, started) = (accounting::cpu(side.process)?, Instant::now());
        let running = Running::start(consumer, self.kept, side, &directory).await?;
        let found = running.synced().await?;
        let process = running.process.id();
        let mut cost = Cost {
            time: started.elapsed(),
            cpu: accounting::cpu(process)?,
            bytes: running.received(),
            server: accounting::cpu(side.process)?.saturating_sub(server),
            ..Cost::default()
        };
        let count = self.kept.count();
        ensure!(found == count, "it holds {found} of {count}");
        cost.resting = accounting::resting_bytes(process).await?;
        cost.peak = accounting::peak_resident_bytes(process)?;
        Ok((cost, running))
    }
}
