//! `make fuzz`: many fuzzed objects of every built-in kind; see `e2e::fuzz`.
//!
//! It prints a line for each kind, and the seed, with which the same objects are made again.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command speaks to a person")]

use std::hash::{BuildHasher, RandomState};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use e2e::fuzz::{self, Fuzz};

const USAGE: &str = "\
usage: fuzz [--objects N] [--seed SEED] [--kind KIND]...

  --objects N  objects of each kind, 500 if nothing is said
  --seed SEED  where the fillers start, instead of anywhere
  --kind KIND  only this kind, such as apps/v1/Deployment or v1/Pod; repeatable";

fn read(mut arguments: impl Iterator<Item = String>) -> Result<Fuzz> {
    // A short number is easily typed again.
    let mut fuzz = Fuzz { seed: RandomState::new().hash_one(0) >> 33, count: 500, only: Vec::new() };
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().with_context(|| format!("{argument} needs a value\n{USAGE}"));
        match argument.as_str() {
            "--objects" => fuzz.count = value()?.parse().context("--objects")?,
            "--seed" => fuzz.seed = value()?.parse().context("--seed")?,
            "--kind" => fuzz.only.push(value()?),
            "-h" | "--help" => bail!(USAGE),
            other => bail!("unknown argument {other}\n{USAGE}"),
        }
    }
    Ok(fuzz)
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fuzz: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let (fuzz, start) = (read(std::env::args().skip(1))?, Instant::now());
    println!("fuzz: {} objects of each kind, seed {}", fuzz.count, fuzz.seed);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let found = runtime.block_on(Box::pin(fuzz::run(&fuzz, &|line| println!("{line}"))))?;
    println!(
        "fuzz: {} objects of {} kinds are equal in {} reads, {:.0} s",
        found.objects,
        found.kinds,
        found.compared,
        start.elapsed().as_secs_f64()
    );
    Ok(())
}
