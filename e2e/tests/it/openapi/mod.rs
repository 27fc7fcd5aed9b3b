//! What others do with the OpenAPI documents that fieldcache publishes.
//!
//! [`examples`] runs the examples in `docs/examples`. [`readers`] has public packages read all documents. That the
//! documents equal those of kube-apiserver is not tested here: see `conformance/documents.rs`.

mod examples;
mod readers;

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::process::{Invocation, Process};
use e2e::run_directory::RunDirectory;
use e2e::unique;

/// How long each step may take.
const SOON: Duration = Duration::from_secs(60);

/// How long a program may run: a validator reads megabytes, beside other tests.
const RUN: Duration = Duration::from_secs(300);

/// What a program left that ended.
#[derive(Debug)]
struct Ended {
    code: i32,
    stdout: String,
    stderr: String,
}

/// Runs a program to its end, whatever its exit code.
async fn run(program: &str, invocation: Invocation, folder: &RunDirectory) -> Result<Ended> {
    let invocation = invocation.environment("HOME", folder.path().display().to_string());
    let process = Process::start(&unique::name(program), &invocation, folder.path())?;
    let code = process.ended(RUN).await?;
    Ok(Ended { code, stdout: process.stdout()?, stderr: process.stderr()? })
}

/// Its standard output, if its exit code is 0.
fn succeeded(program: &str, ended: Ended) -> Result<String> {
    ensure!(ended.code == 0, "{program} ended with exit code {}: {}", ended.code, ended.stderr);
    Ok(ended.stdout)
}
