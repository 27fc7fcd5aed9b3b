//! Runs the suites of fieldcache's wire beside kube-apiserver of every other Kubernetes version, one after the other.
//!
//! Each run is `cargo test` of the end-to-end suite with the version in its environment; see `e2e::versions`. What the tests say
//! passes through; the end repeats, for each version, what ran and how it ended. A version that fails does not stop the others.
//! Arguments are minor versions such as `1.32`; without any, all are run.

use std::io::{BufRead, BufReader};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use anyhow::{Context, Result};
use e2e::versions::{Kubernetes, VARIABLE, named};

/// The suites that run beside a version that fieldcache reads: all that compare it with the API server that it reads.
const SUITES: [&str; 9] = [
    "versions::",
    "parity::",
    "conformance::",
    "check_agreement::",
    "clients::",
    "freshness::",
    "pass_through::",
    "self_check::",
    "protobuf::fuzzed::",
];

/// What is run beside one that it refuses.
const REFUSAL: [&str; 1] = ["versions::"];

/// Lines that are repeated at the end.
const REPEATED: [&str; 5] = ["test result: ", "parity: ", "conformance: ", "version: ", "protobuf: "];

#[expect(clippy::print_stderr, reason = "a command speaks on its standard error")]
fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("test-versions: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stdout, reason = "a command says what it found")]
fn run() -> Result<bool> {
    let names: Vec<String> = std::env::args().skip(1).collect();
    let (mut report, mut passed) = (String::new(), true);
    for version in named(&names)? {
        let suites: &[&str] = if version == Kubernetes::TOO_OLD { &REFUSAL } else { &SUITES };
        println!("\nKubernetes {}: {}", version.version()?, suites.join(" "));
        let start = Instant::now();
        let (lines, succeeded) = test(version, suites)?;
        passed &= succeeded;
        let end = if succeeded { "passed" } else { "FAILED" };
        report.push_str(&format!(
            "\nKubernetes {}: {end} in {:.0} s",
            version.version()?,
            start.elapsed().as_secs_f64()
        ));
        for line in lines {
            report.push_str(&format!("\n  {line}"));
        }
    }
    println!("{report}");
    Ok(passed)
}

/// Runs the suites and prints their output. Returns the lines to repeat, and whether all passed.
#[expect(clippy::print_stdout, reason = "a command says what it found")]
fn test(version: Kubernetes, suites: &[&str]) -> Result<(Vec<String>, bool)> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["test", "--locked", "--quiet", "-p", "e2e", "--test", "it", "--"]).args(suites).arg("--show-output");
    // Both outputs through one pipe, in their order.
    let (reader, writer) = std::io::pipe().context("making a pipe")?;
    command.env(VARIABLE, version.name()).stdin(Stdio::null());
    command.stdout(writer.try_clone().context("making a pipe")?).stderr(writer);
    let mut child = command.spawn().context("running cargo test")?;
    // The command holds the writing end, without which the reading one ends.
    drop(command);
    let mut repeated = Vec::new();
    for line in BufReader::new(reader).lines() {
        let line = line.context("reading what the tests say")?;
        println!("{line}");
        if REPEATED.iter().any(|start| line.starts_with(start)) {
            repeated.push(line);
        }
    }
    Ok((repeated, child.wait().context("waiting for cargo test")?.success()))
}
