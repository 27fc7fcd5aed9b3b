//! One row's load until interrupted, to be profiled meanwhile.

use std::time::Duration;

use anyhow::{Result, bail, ensure};
use e2e::generator::Corpus;

use super::beside::{by_color, by_labels, nothing};
use super::corpora::Fed;
use super::idle;
use super::load::Requests;
use super::options::{Options, USAGE};
use super::own::Offered;

/// Events of one burst of `ingest`.
const BURST: u64 = 50_000;

/// Sends `request`'s load until the process is interrupted.
pub(crate) async fn run(options: &Options, offered: Offered, request: &str) -> Result<()> {
    if request == "idle" {
        let (_generator, own) = idle::start(offered).await?;
        announce(request, own.process());
        std::future::pending::<()>().await;
    }
    let corpus = options.shirts();
    let requests = match request {
        "list-field-hot" => Requests::one(by_color(&corpus).swap_remove(0)),
        "list-field" | "list-updates" => Requests { paths: by_color(&corpus), gzip: false },
        "list-field-gzip" => Requests { paths: by_color(&corpus), gzip: true },
        "list-none" => Requests::one(nothing(&corpus)),
        "list-labels" => Requests::one(by_labels(&corpus)),
        "list-all" | "ingest" | "relist" => Requests::one(corpus.everywhere()),
        other => bail!("--hold {other}: there is no such request\n{USAGE}"),
    };
    let everywhere = corpus.everywhere();
    let fed = Fed::start(Corpus::Shirts(corpus), offered).await?;
    announce(request, fed.own.process());
    if request == "list-updates" {
        fed.generator.rate(2_000.0, 0.0).await?;
    }
    for turn in 0.. {
        match request {
            "ingest" => {
                let version = fed.generator.burst(BURST).await?;
                fed.own.shows(&everywhere, version).await?;
            }
            "relist" => {
                let version = fed.generator.relist(false).await?;
                fed.own.shows(&everywhere, version).await?;
                // A breath, so that what is put off after a list is seen as well.
                e2e::accounting::settled(fed.own.process(), Duration::from_millis(200), Duration::from_secs(10))
                    .await?;
            }
            _ => {
                let answer = fed.own.client.drain(requests.request(turn)).await?;
                ensure!(answer.status.is_success(), "{}", answer.status);
            }
        }
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the line to paste")]
fn announce(request: &str, process: u32) {
    println!(
        "fieldcache is process {process}; {request} runs until this is interrupted. To profile it:\n  \
         perf record -F 499 --call-graph dwarf,16384 -p {process} -- sleep 10 && perf report --no-children"
    );
}
