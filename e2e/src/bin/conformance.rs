//! `make conformance`: runs suites of others against kube-apiserver alone and through fieldcache, and prints a table; see
//! `e2e::conformance`.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command speaks to a person")]

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use e2e::components::Built;
use e2e::conformance::build::{self, Program};
use e2e::conformance::selection::Selection;
use e2e::conformance::table::{Row, render};
use e2e::conformance::{Outcomes, Side, Suite};

const USAGE: &str = "\
usage: conformance [--build] [--short] [--suite NAME]... [--only TEXT]... [--side direct|through] [--write FILE]

  --build       build the programs of the suites and run nothing
  --short       run the short selection of each list
  --suite NAME  run only this suite
  --only TEXT   run only tests with this text in their names
  --side SIDE   run one side only and print what became of each test
  --at-once N   run N tests of Kubernetes at a time (4)
  --write FILE  write the table to this file too";

struct Options {
    build: bool,
    short: bool,
    suites: Vec<Suite>,
    only: Vec<String>,
    side: Option<Side>,
    at_once: usize,
    write: Option<String>,
}

impl Options {
    fn read(arguments: impl Iterator<Item = String>) -> Result<Options> {
        let mut options = Options {
            build: false,
            short: false,
            suites: Vec::new(),
            only: Vec::new(),
            side: None,
            at_once: 4,
            write: None,
        };
        let mut arguments = arguments;
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().with_context(|| format!("{argument} needs a value"));
            match argument.as_str() {
                "--build" => options.build = true,
                "--short" => options.short = true,
                "--suite" => {
                    let name = value()?;
                    let found = Suite::ALL.into_iter().find(|suite| suite.name() == name);
                    let names = Suite::ALL.map(Suite::name).join(", ");
                    options.suites.push(found.with_context(|| format!("--suite {name}: name one of {names}"))?);
                }
                "--only" => options.only.push(value()?),
                "--side" => {
                    options.side = Some(match value()?.as_str() {
                        "direct" => Side::Direct,
                        "through" => Side::Through,
                        other => bail!("--side {other}: name direct or through"),
                    });
                }
                "--at-once" => options.at_once = value()?.parse().context("--at-once: a number of specs")?,
                "--write" => options.write = Some(value()?),
                other => bail!("unknown argument {other}\n{USAGE}"),
            }
        }
        if options.suites.is_empty() {
            options.suites = Suite::ALL.to_vec();
        }
        Ok(options)
    }
}

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let ran = runtime.context("starting the runtime").and_then(|runtime| runtime.block_on(Box::pin(run())));
    match ran {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("conformance: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<bool> {
    let options = Options::read(std::env::args().skip(1))?;
    let selections = options.suites.iter().map(|suite| Selection::for_suite(*suite, options.short, &options.only));
    let selections = selections.collect::<Result<Vec<_>>>()?;
    let programs: Vec<Program> = selections.iter().flat_map(Selection::programs).collect();
    if let Built::Now(elapsed) = build::build(&programs)? {
        eprintln!("the programs of the suites built in {:.0} s", elapsed.as_secs_f64());
    }
    if options.build {
        return Ok(true);
    }
    let mut rows = Vec::new();
    for selection in &selections {
        if let Some(side) = options.side {
            for (test, outcome) in run_side(selection, side, &options).await? {
                println!("{}: {test}: {outcome:?}", selection.suite().name());
            }
            continue;
        }
        let direct = run_side(selection, Side::Direct, &options).await?;
        if !direct.is_empty() {
            rows.push(selection.row(&direct, &run_side(selection, Side::Through, &options).await?));
        }
    }
    if options.side.is_some() {
        return Ok(true);
    }
    let table = render(&rows);
    println!("\n{table}");
    if let Some(file) = &options.write {
        std::fs::write(file, &table).with_context(|| format!("writing {file}"))?;
    }
    Ok(rows.iter().all(Row::is_expected))
}

async fn run_side(selection: &Selection, side: Side, options: &Options) -> Result<Outcomes> {
    let start = Instant::now();
    let outcomes = Box::pin(selection.run(side, options.at_once)).await?;
    let seconds = start.elapsed().as_secs_f64();
    eprintln!("{} {}: {} tests in {seconds:.0} s", selection.suite().name(), side.name(), outcomes.len());
    Ok(outcomes)
}
