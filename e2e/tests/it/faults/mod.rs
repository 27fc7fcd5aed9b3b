//! fieldcache through faults: what can go wrong around it goes wrong, and a checker that knows the true history checks
//! what clients received.

mod checker;
mod history;
mod named;
mod random;

use anyhow::{Context, Result};
use tokio::task::LocalSet;

#[expect(clippy::print_stdout, reason = "figures for readers of the test's output")]
fn say(what: &str) {
    println!("faults: {what}");
}

/// Runs something on this thread: clients and writers are not `Send`, and the work is done by other processes.
fn alone<Output>(work: impl Future<Output = Result<Output>>) -> Result<Output> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("the runtime")?;
    LocalSet::new().block_on(&runtime, Box::pin(work))
}
