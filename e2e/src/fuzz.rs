//! Fuzzed objects of every built-in kind, as kube-apiserver and fieldcache send them.
//!
//! The Go program `protobuf-fuzz` makes the objects with upstream's round-trip fillers and writes them to etcd. It
//! reads them of both sides in every form, and compares. This module starts both sides, and evaluates the counts.
//! `make test` compares a few objects of every kind; `make fuzz` compares hundreds.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tokio::time::timeout;

use crate::components::{Component, locate};
use crate::control_plane::{ControlPlane, Settings};
use crate::fieldcache::Fieldcache;

/// The longest time between two kinds.
const SILENCE: Duration = Duration::from_secs(600);

/// Kinds that every supported version serves.
const FEWEST_KINDS: u64 = 60;

/// Reads of each object, in different forms.
const READS: u64 = 21;

/// What is compared.
#[derive(Debug, Clone)]
pub struct Fuzz {
    /// Where the fillers start.
    pub seed: u64,
    /// Objects of each kind.
    pub count: u64,
    /// Kinds such as `apps/v1/Deployment` instead of all.
    pub only: Vec<String>,
}

/// What was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// Kinds with their versions.
    pub kinds: u64,
    /// Objects of all kinds.
    pub objects: u64,
    /// Objects that kube-apiserver sends as they were written.
    pub as_written: u64,
    /// Objects that were varied, so that kube-apiserver may complete them.
    pub rough: u64,
    /// Objects that were compared, each as often as it was read.
    pub compared: u64,
    /// Objects of which a controller of kube-apiserver wrote another version meanwhile.
    pub moved: u64,
    /// Reads that differ.
    pub differences: u64,
}

/// kube-apiserver with all kinds; fuzzed priority levels must not decide which requests it answers.
#[must_use]
pub fn settings() -> Settings {
    let apiserver_arguments = vec!["--enable-priority-and-fairness=false".to_owned()];
    Settings { all_apis: true, apiserver_arguments, ..Settings::default() }
}

/// Starts both sides, compares, and evaluates the findings. `say` is given each line about it.
///
/// # Errors
/// When something differs or could not be compared.
pub async fn run(fuzz: &Fuzz, say: &dyn Fn(&str)) -> Result<Found> {
    let control_plane = ControlPlane::start(settings()).await?;
    let fieldcache = Fieldcache::serve_cluster(control_plane.kubeconfig(), &[]).await?;
    let found = compare(&control_plane, fieldcache.address(), fuzz, say).await?;
    verdict(fuzz, &found)?;
    Ok(found)
}

/// Compares what is sent from the address of a fieldcache with what kube-apiserver sends.
///
/// # Errors
/// When it cannot be compared. That something differs is no error.
pub async fn compare(control_plane: &ControlPlane, through: &str, fuzz: &Fuzz, say: &dyn Fn(&str)) -> Result<Found> {
    let mut command = Command::new(locate(Component::ProtobufFuzz)?);
    command.arg("-etcd").arg(control_plane.etcd_address()).arg("-kubeconfig").arg(control_plane.kubeconfig());
    command.args(["-through", through, "-only", &fuzz.only.join(",")]);
    command.args(["-seed", &fuzz.seed.to_string(), "-count", &fuzz.count.to_string()]);
    command.env_clear().stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut process = command.spawn().context("starting protobuf-fuzz")?;
    let output = process.stdout.take().context("a piped standard output must be there")?;
    let mut lines = BufReader::new(output).lines();
    let mut last = String::new();
    while let Some(line) = timeout(SILENCE, lines.next_line()).await.context("protobuf-fuzz says nothing")?? {
        if !last.is_empty() {
            say(&last);
        }
        last = line;
    }
    let ended = process.wait_with_output().await.context("waiting for protobuf-fuzz")?;
    if !ended.status.success() {
        say(&last);
    }
    ensure!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr).trim());
    read(&last)
}

fn read(line: &str) -> Result<Found> {
    let counted: Value = serde_json::from_str(line).with_context(|| format!("protobuf-fuzz ended with {line:?}"))?;
    let number = |name: &str| counted[name].as_u64().with_context(|| format!("protobuf-fuzz did not count {name}"));
    Ok(Found {
        kinds: number("kinds")?,
        objects: number("objects")?,
        as_written: number("asWritten")?,
        rough: number("rough")?,
        compared: number("compared")?,
        moved: number("moved")?,
        differences: number("differences")?,
    })
}

/// Nothing differs, and so much was compared that this means something.
fn verdict(fuzz: &Fuzz, found: &Found) -> Result<()> {
    ensure!(found.differences == 0, "seed {}: {} reads differ", fuzz.seed, found.differences);
    ensure!(!fuzz.only.is_empty() || found.kinds >= FEWEST_KINDS, "only {} kinds were compared", found.kinds);
    ensure!(found.objects == found.kinds * fuzz.count && found.objects > 0, "{} objects were made", found.objects);
    let expected = (found.objects - found.rough) * 98 / 100;
    ensure!(found.as_written >= expected, "only {} came back as written", found.as_written);
    ensure!(found.compared + found.moved == found.objects * READS, "{} objects were compared", found.compared);
    ensure!(found.moved * 100 <= found.compared, "{} objects were written by others", found.moved);
    Ok(())
}
