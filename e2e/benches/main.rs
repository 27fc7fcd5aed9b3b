//! `make bench`: what fieldcache takes, beside kube-apiserver on the same objects where there are two sides, in one run.
//!
//! What counts is the CPU time that the operating system books on the server's process, its memory, and the latency a client
//! sees. Sides are queried in turn, nothing runs beside a measurement, both sides' answers are compared before they are counted. The
//! result is a table on the terminal and in `target/bench`. Nothing here asserts a time: figures are for people.
//!
//! Map:
//!
//! - [`options`]: the command line; [`report`]: the table; [`own`]: fieldcache as it is measured; [`load`]: requests in
//!   rounds
//! - [`beside`] and [`everything`]: rows with two sides
//! - [`corpora`], [`updates`] and [`growth`]: rows fed by the generator, `e2e::generator`, which is this same program
//!   started as `bench generator`
//! - [`formats`]: JSON and protobuf; [`shards`]: one of ten shards; [`definitions`]: how soon a change of one takes effect
//! - [`idle`]: an idle server; [`watches`]: open watches; [`routing`]: the part of their cost that is not a socket
//! - [`consumer`]: what reads cost the client; [`placement`]: where Pods can run; [`hold`]: processes for profilers

#![expect(clippy::wildcard_enum_match_arm, reason = "a test names the case that it expects")]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command speaks to a person")]

mod beside;
mod consumer;
mod corpora;
mod definitions;
mod everything;
mod formats;
mod growth;
mod hold;
mod idle;
mod load;
mod options;
mod own;
mod placement;
mod queries;
mod report;
mod routing;
mod shards;
mod updates;
mod watches;

use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Context, Result};
use e2e::generator;
use e2e::versions::Kubernetes;

use options::{Options, USAGE};
use own::Offered;
use report::{Line, Report};

fn main() -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("bench: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut arguments = std::env::args().skip(1).peekable();
    let ended = match arguments.peek().map(String::as_str) {
        Some("generator") => runtime.block_on(generator::command::run(arguments.skip(1))).map(|()| true),
        // The clients of the rows that want a process of their own for them.
        Some("clients") => runtime.block_on(watches::clients::run(arguments.skip(1))).map(|()| true),
        Some("-h" | "--help") => {
            println!("{USAGE}");
            Ok(true)
        }
        _ => runtime.block_on(run(arguments)),
    };
    match ended {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// False when a row could not be measured.
async fn run(arguments: impl IntoIterator<Item = String>) -> Result<bool> {
    let options = Options::read(arguments)?;
    let offered = Offered::by_this_build()?;
    if let Some(request) = &options.hold {
        hold::run(&options, offered, request).await?;
        return Ok(true);
    }
    let started = Instant::now();
    let mut report = Report::new(&options, configuration(&options, offered)?);
    if options.wants(&beside::ROWS) {
        eprintln!("beside kube-apiserver");
        if let Err(error) = Box::pin(beside::run(&options, offered, &mut report)).await {
            fail(&options, &beside::ROWS, &error, &mut report);
        }
    }
    if options.wants(&corpora::ROWS) {
        eprintln!("from the generator");
        if let Err(error) = Box::pin(corpora::run(&options, offered, &mut report)).await {
            fail(&options, &corpora::ROWS, &error, &mut report);
        }
    }
    if options.wants(&formats::ROWS) {
        eprintln!("in both formats");
        if let Err(error) = Box::pin(formats::run(&options, offered, &mut report)).await {
            fail(&options, &formats::ROWS, &error, &mut report);
        }
    }
    if options.wants(&shards::ROWS) {
        eprintln!("in shards");
        if let Err(error) = Box::pin(shards::run(&options, offered, &mut report)).await {
            fail(&options, &shards::ROWS, &error, &mut report);
        }
    }
    if options.wants(&queries::ROWS) {
        eprintln!("in queries");
        if let Err(error) = Box::pin(queries::run(&options, offered, &mut report)).await {
            fail(&options, &queries::ROWS, &error, &mut report);
        }
    }
    if options.wants(&growth::ROWS) {
        eprintln!("at other sizes");
        if let Err(error) = Box::pin(growth::run(&options, offered, &mut report)).await {
            fail(&options, &growth::ROWS, &error, &mut report);
        }
    }
    if options.wants(&idle::ROWS) {
        eprintln!("at rest");
        if let Err(error) = Box::pin(idle::run(&options, offered, &mut report)).await {
            fail(&options, &idle::ROWS, &error, &mut report);
        }
    }
    if options.wants(&definitions::ROWS) {
        eprintln!("beside definitions that change");
        if let Err(error) = Box::pin(definitions::run(&options, &mut report)).await {
            fail(&options, &definitions::ROWS, &error, &mut report);
        }
    }
    if options.wants(&routing::ROWS) {
        eprintln!("routing");
        if let Err(error) = routing::run(&options, &mut report) {
            fail(&options, &routing::ROWS, &error, &mut report);
        }
    }
    if options.wants(&placement::ROWS) {
        eprintln!("placement");
        if let Err(error) = placement::run(&options, &mut report) {
            fail(&options, &placement::ROWS, &error, &mut report);
        }
    }
    if options.wants(&consumer::ROWS) {
        eprintln!("at the client");
        if let Err(error) = Box::pin(consumer::run(&options, offered, &mut report)).await {
            fail(&options, &consumer::ROWS, &error, &mut report);
        }
    }
    if options.wants(&watches::ROWS) {
        eprintln!("with open watches");
        if let Err(error) = Box::pin(watches::run(&options, offered, &mut report)).await {
            fail(&options, &watches::ROWS, &error, &mut report);
        }
    }
    report.note(format!(
        "the run took {:.0} s; load average at its end {}",
        started.elapsed().as_secs_f64(),
        report::load_average()
    ));
    println!("{}", report.table());
    eprintln!("written to {} and .json", report.write()?.display());
    Ok(!report.has_failed())
}

/// Says so in one line of the first row concerned; rows that were measured before keep their lines.
fn fail(options: &Options, rows: &[&'static str], error: &anyhow::Error, report: &mut Report) {
    eprintln!("bench: {error:#}");
    let wanted = rows.iter().find(|row| options.rows.contains(*row));
    report.add(Line::failed(wanted.copied().unwrap_or("idle"), error));
}

/// Machine and configuration, for the head of the table.
fn configuration(options: &Options, offered: Offered) -> Result<Vec<String>> {
    let program = e2e::fieldcache::program()?;
    let output = Command::new(&program).arg("--version").output().context("reading the version of fieldcache")?;
    let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let commit = Command::new("git").args(["describe", "--always", "--dirty"]).output();
    let commit = commit.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    let profile = if cfg!(debug_assertions) { "debug build: figures mean nothing" } else { "release build" };
    let metrics = if offered.metrics { " --metrics-address 127.0.0.1:PORT" } else { "" };
    Ok(vec![
        report::machine(),
        format!("load average at the start {}", report::load_average()),
        format!(
            "{version} ({commit}), {profile}, one configuration: `fieldcache serve{metrics}`, all else its defaults"
        ),
        format!("kube-apiserver {}", Kubernetes::under_test()?.version()?),
        format!(
            "{} objects in a corpus; shirts of {} text beside kube-apiserver; {} rounds, sides in turn",
            report::number(options.objects as f64),
            format!("{:?}", options.text).to_lowercase(),
            options.rounds
        ),
    ])
}
