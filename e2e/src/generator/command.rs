//! The generator's command line.

use std::io::Write;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use tokio::net::TcpListener;

use super::{Beside, Corpus, Generator, bare, serve, streams};
use crate::corpus::pods::Pods;
use crate::corpus::shirts::Shirts;
use crate::http::{Endpoint, Request};

/// What to type.
pub const USAGE: &str = "\
usage: generator shirts|pods [--objects N] [--seed N] [--text varied|repeated] [--small N] [--copies N]
       generator bytes --from URL
       generator streams

A load source for benchmarks: serves a corpus on a loopback port (plain HTTP) to clients that list and watch it, until it is killed.
`fieldcache serve --server http://127.0.0.1:PORT` reads it. It is commanded at the same port:

  POST /generator/burst?events=N           send N updates as fast as the readers take them
  POST /generator/rate?updates=R&churn=C   send R updates, and C deletions and creations, a second; 0 stops
  POST /generator/relist[?changed=1]       end all watches with 410, after changing every object if wanted
  GET  /generator/state                    what is going on

  --small N     N further small custom resources with a few objects each
  --copies N    N further resources like the shirts, which a burst changes too
  bytes         a bare HTTP server of whatever URL answers now
  streams       a bare HTTP/2 server whose every GET stays open; what is sent with POST is written to all of them";

/// Runs it; returns only when it cannot go on.
///
/// # Errors
/// When the arguments are wrong or the port is not to be had.
pub async fn run(arguments: impl IntoIterator<Item = String>) -> Result<()> {
    let mut arguments = arguments.into_iter();
    let what = arguments.next().context(USAGE)?;
    let listener = TcpListener::bind("127.0.0.1:0").await.context("binding a port")?;
    let address = listener.local_addr()?;
    let mut output = std::io::stdout();
    if what == "bytes" {
        let (flag, url) = (arguments.next(), arguments.next());
        let (Some("--from"), Some(url)) = (flag.as_deref(), url) else { bail!(USAGE) };
        let answer = Endpoint::plain(&url)?.client().send(Request::get("")).await?.success()?;
        writeln!(output, "generator at http://{address} with {} bytes", answer.body.len())?;
        return bare::serve(answer.body, listener).await;
    }
    if what == "streams" {
        writeln!(output, "generator at http://{address} with open streams")?;
        return streams::serve(listener).await;
    }
    let mut corpus = match what.as_str() {
        "shirts" => Corpus::Shirts(Shirts::default()),
        "pods" => Corpus::Pods(Pods::default()),
        other => bail!("{other:?} is no corpus\n{USAGE}"),
    };
    let mut beside = Beside::default();
    while let Some(flag) = arguments.next() {
        let value = arguments.next().with_context(|| format!("{flag} needs a value"))?;
        let number = || value.parse::<u64>().with_context(|| format!("{flag} {value}"));
        match (flag.as_str(), &mut corpus) {
            ("--objects", Corpus::Shirts(Shirts { count, .. }) | Corpus::Pods(Pods { count, .. })) => {
                *count = number()?
            }
            ("--seed", Corpus::Shirts(Shirts { seed, .. }) | Corpus::Pods(Pods { seed, .. })) => *seed = number()?,
            ("--text", Corpus::Shirts(shirts)) => shirts.text = value.parse()?,
            ("--small", _) => beside.small = usize::try_from(number()?)?,
            ("--copies", Corpus::Shirts(_)) => beside.copies = usize::try_from(number()?)?,
            _ => bail!("unknown argument {flag}\n{USAGE}"),
        }
    }
    let started = Instant::now();
    let generator = Arc::new(Generator::prepare(&corpus, beside)?);
    writeln!(
        output,
        "generator at http://{address} with {} objects, made in {:.1} s",
        corpus.count(),
        started.elapsed().as_secs_f64()
    )?;
    let main = generator.main.clone();
    tokio::select! {
        ended = serve::serve(generator, listener) => ended,
        ended = main.run() => ended,
    }
}
