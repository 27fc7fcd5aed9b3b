//! The rows of many open watches. They measure what an update costs with thousands of watches, and its delay. They also
//! measure the memory of an idle watch, and the time until all clients are back.
//!
//! Map:
//!
//! - [`crowd`]: open watches on shared connections, in this process
//! - [`clients`]: a client process with a connection for each watch
//! - [`writer`]: updates through kube-apiserver
//! - [`selected`], [`delay`] and [`broadcast`]: the rows beside kube-apiserver, on the same objects
//! - [`held`] and [`storm`]: rows fed by the generator

mod broadcast;
pub(crate) mod clients;
mod crowd;
mod delay;
mod held;
mod selected;
mod storm;
mod writer;

use std::time::Duration;

use anyhow::{Context, Result};
use e2e::accounting;
use e2e::control_plane::{ControlPlane, Settings};
use e2e::corpus::load::shirts_into_etcd;
use e2e::corpus::shirts::Shirts;

use super::options::Options;
use super::own::{Offered, Own};
use super::report::{Report, number};
use crowd::{STREAMS, Wanted};

/// The rows of this folder.
pub(crate) const ROWS: [&str; 5] = ["watch-updates", "watch-delay", "broadcast", "watch-memory", "reconnect"];

/// Those beside kube-apiserver.
const BESIDE: [&str; 3] = ["watch-updates", "watch-delay", "broadcast"];

/// Files that one process may have open: 5,000 connections have their place in it, and all that a server has beside.
const OPEN_FILES: u64 = 20_000;

/// Objects of the corpus: one for each of the most watchers.
const OBJECTS: u64 = 20_000;

/// Both servers with the same objects.
pub(crate) struct Bed {
    /// kube-apiserver and etcd.
    pub(crate) control_plane: ControlPlane,
    /// fieldcache, which reads them.
    pub(crate) own: Own,
    /// What is in both.
    pub(crate) corpus: Shirts,
}

impl Bed {
    async fn start(options: &Options, offered: Offered) -> Result<Bed> {
        let corpus = Shirts { count: if options.quick { 1_000 } else { OBJECTS }, ..options.shirts() };
        // Its default is a quarter of that or less. Both sides are to have as many connections as each other.
        let streams = vec![format!("--http2-max-streams-per-connection={STREAMS}")];
        let control_plane =
            ControlPlane::start(Settings { apiserver_arguments: streams, ..Settings::default() }).await?;
        shirts_into_etcd(&control_plane, &corpus, |_| {}).await?;
        let own = Own::start(&Bed::source(&control_plane), offered, None).await?;
        own.synced(&corpus.everywhere(), corpus.count).await?;
        let bed = Bed { control_plane, own, corpus };
        bed.settled().await?;
        Ok(bed)
    }

    /// The arguments of a fieldcache that reads this control plane.
    pub(crate) fn source(control_plane: &ControlPlane) -> [String; 2] {
        ["--kubeconfig".to_owned(), control_plane.kubeconfig().display().to_string()]
    }

    /// Waits until both have nothing to do.
    pub(crate) async fn settled(&self) -> Result<()> {
        for process in [self.control_plane.apiserver().id(), self.own.process()] {
            accounting::settled(process, Duration::from_secs(1), Duration::from_secs(30)).await?;
        }
        Ok(())
    }

    /// The version of the list now, as kube-apiserver says. A watch from there reports nothing older, wherever fieldcache is.
    pub(crate) async fn version(&self) -> Result<u64> {
        let list = self.control_plane.client().get_json(&format!("{}?limit=1", self.corpus.everywhere())).await?;
        list["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).context("a list has a version")
    }
}

/// The watch of one shirt by a value that no other has, from a version on. Bookmarks are not requested: what is counted is updates.
pub(crate) fn of_one(corpus: &Shirts, index: u64, version: u64) -> Wanted {
    let serial = serial(corpus, index);
    Wanted {
        path: watch(corpus, &selector_of_one(corpus, index), version),
        reported: format!("\"serial\":\"{serial}\""),
    }
}

/// The field selector, escaped, that selects one shirt.
pub(crate) fn selector_of_one(corpus: &Shirts, index: u64) -> String {
    format!("spec.serial%3D{}", serial(corpus, index))
}

fn serial(corpus: &Shirts, index: u64) -> String {
    corpus.object(index)["spec"]["serial"].as_str().unwrap_or_default().to_owned()
}

/// A watch with a field selector from a version on.
pub(crate) fn watch(corpus: &Shirts, selector: &str, version: u64) -> String {
    format!("{}?watch=1&resourceVersion={version}&timeoutSeconds=3600&fieldSelector={selector}", corpus.everywhere())
}

/// All rows of this folder that are wanted.
pub(crate) async fn run(options: &Options, offered: Offered, report: &mut Report) -> Result<()> {
    let limit = accounting::open_file_limit()?;
    if limit < OPEN_FILES {
        report.note(format!(
            "a process may have {} files open, rows of watches want {}: type `ulimit -n {OPEN_FILES}` before, or raise the hard limit",
            number(limit as f64),
            number(OPEN_FILES as f64)
        ));
    }
    if options.wants(&BESIDE) {
        let bed = Bed::start(options, offered).await?;
        if options.wants(&["watch-updates"]) {
            let measured = Box::pin(selected::run(options, &bed, report)).await;
            report.unless_failed("watch-updates", measured);
        }
        if options.wants(&["watch-delay"]) {
            let measured = Box::pin(delay::run(options, &bed, report)).await;
            report.unless_failed("watch-delay", measured);
        }
        if options.wants(&["broadcast"]) {
            let measured = Box::pin(broadcast::run(options, offered, &bed, report)).await;
            report.unless_failed("broadcast", measured);
        }
    }
    if options.wants(&["watch-memory"]) {
        let measured = Box::pin(held::run(options, offered, report)).await;
        report.unless_failed("watch-memory", measured);
    }
    if options.wants(&["reconnect"]) {
        let measured = Box::pin(storm::run(options, offered, report)).await;
        report.unless_failed("reconnect", measured);
    }
    Ok(())
}
