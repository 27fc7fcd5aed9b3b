//! `make bench`: fieldcache beside kube-apiserver on the same objects, in one run.
//!
//! Each row is one request, sent in alternating rounds to both sides; what counts is the CPU time that the operating
//! system books on the server process, per request, and the latency a client sees. The result is a table on the
//! terminal and `target/bench/list.md` and `.json`. Nothing here asserts a time: figures are for people.
//!
//! Map: [`accounting`] reads CPU and memory of a process, [`rows`] are the requests, [`report`] prints.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command speaks to a person")]

mod accounting;
mod report;
mod rows;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use e2e::control_plane::{ControlPlane, Settings};
use e2e::corpus::{Text, load, shirts::Shirts};
use e2e::eventually::eventually;
use e2e::fieldcache::Fieldcache;

const USAGE: &str = "usage: bench [--objects N] [--text varied|repeated] [--rounds N]";

fn main() -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("bench: {error}");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(run()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<()> {
    let mut corpus = Shirts::default();
    let mut rounds = 5;
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().with_context(|| format!("{name} needs a value; {USAGE}"))?;
        match name.as_str() {
            "--objects" => corpus.count = value.parse().with_context(|| format!("--objects {value}"))?,
            "--text" => corpus.text = value.parse::<Text>()?,
            "--rounds" => rounds = value.parse().with_context(|| format!("--rounds {value}"))?,
            _ => bail!("unknown option {name}; {USAGE}"),
        }
    }
    let control_plane = ControlPlane::start(Settings::default()).await?;
    let upstream = control_plane.client();
    let started = Instant::now();
    let count = corpus.count;
    let mut told = 0;
    load::shirts_into_etcd(&control_plane, &corpus, |done| {
        if done * 20 / count.max(1) > told {
            told = done * 20 / count.max(1);
            eprint!("\rwriting {done} of {count} shirts");
        }
    })
    .await?;
    eprintln!("\r\x1b[Kkube-apiserver serves {count} shirts after {:.0} s", started.elapsed().as_secs_f64());

    let resource = format!("shirts.v1.{}", corpus.group);
    let started = Instant::now();
    let fieldcache = Fieldcache::serve_cluster(control_plane.kubeconfig(), &[&resource]).await?;
    let client = fieldcache.client();
    eventually("fieldcache has all shirts", Duration::from_secs(300), async || {
        let list = client.get_json(&format!("{}?limit=1", corpus.everywhere())).await?;
        let more = list["metadata"]["remainingItemCount"].as_u64().unwrap_or(0);
        anyhow::ensure!(more + 1 == count, "{} of {count}", more + 1);
        Ok(())
    })
    .await?;
    let synced = started.elapsed();
    let sync_cpu = accounting::cpu(fieldcache.process().id())?;
    let sides = rows::Sides {
        upstream: rows::Side { client: upstream, process: control_plane.apiserver().id() },
        own: rows::Side { client, process: fieldcache.process().id() },
    };
    let mut measured = Vec::new();
    for row in rows::rows(&corpus) {
        eprint!("\r\x1b[K{}", row.name);
        measured.push(rows::measure(&row, &sides, rounds).await?);
    }
    eprintln!("\r\x1b[K");
    let report = report::Report {
        objects: count,
        text: format!("{:?}", corpus.text).to_lowercase(),
        rounds,
        first_sync: synced,
        first_sync_cpu: sync_cpu,
        upstream_memory: accounting::resident_bytes(sides.upstream.process)?,
        own_memory: accounting::resident_bytes(sides.own.process)?,
        own_peak_memory: accounting::peak_resident_bytes(sides.own.process)?,
        json_bytes: measured.iter().map(|row| row.bytes).max().unwrap_or(0),
        rows: measured,
    };
    println!("{}", report.table());
    let folder = report.write()?;
    eprintln!("written to {}", folder.display());
    Ok(())
}
