//! The tests of the Python client that talk to a server; the package `kubernetes` has them in its own files.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use super::run::{Bed, finish};
use super::{Outcome, Outcomes, Side, directory};
use crate::clients::{Toolkit, interpreter};
use crate::control_plane::Settings;

const DEADLINE: Duration = Duration::from_secs(10 * 60);

/// Runs them all.
///
/// # Errors
/// When the client is not built, or the control plane does not start.
pub async fn run(side: Side) -> Result<Outcomes> {
    let bed = Bed::start(side, Settings { controller_manager: true, ..Settings::default() }).await?;
    let mut invocation = interpreter(Toolkit::Python)?
        .arguments([directory().join("python/suite.py").display().to_string()])
        .arguments([bed.kubeconfig().display().to_string()]);
    invocation.environment.extend(bed.environment()?);
    let output = finish("python", &invocation, bed.directory().path(), DEADLINE).await?;
    bed.check()?;
    let mut outcomes = Outcomes::new();
    for line in output.lines() {
        let Some(document) = line.strip_prefix("outcome: ") else { continue };
        let document: Value = serde_json::from_str(document).context("reading an outcome")?;
        let text = |field: &str| document[field].as_str().unwrap_or_default().to_owned();
        let outcome = match text("outcome").as_str() {
            "passed" => Outcome::Passed,
            "skipped" => Outcome::Skipped(text("said")),
            _ => Outcome::Failed(text("said")),
        };
        outcomes.insert(text("test"), outcome);
    }
    Ok(outcomes)
}
