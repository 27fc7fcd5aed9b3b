//! Prints a corpus, one JSON document a line, or loads it into a control plane; see `e2e::corpus`.

use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use e2e::corpus::load;
use e2e::corpus::pods::Pods;
use e2e::corpus::shirts::Shirts;
use e2e::http::Endpoint;
use serde_json::Value;

const USAGE: &str = "\
usage: corpus shirts|pods [--count N] [--seed N] [--text varied|repeated] [--stored | --load KUBECONFIG]

  --count N          how many objects (default: 100000 shirts, 20000 pods)
  --seed N           another corpus of the same kind (default: 1)
  --text T           of shirts: varied (default) or repeated
  --stored           print objects as kube-apiserver serves them, not as clients send them
  --load KUBECONFIG  create them there, a kubeconfig written by the control-plane command";

fn main() -> ExitCode {
    match run(std::env::args().skip(1)) {
        Ok(()) => ExitCode::SUCCESS,
        // A reader that has seen enough (`| head`) is no failure.
        Err(error) if error.downcast_ref::<std::io::Error>().is_some_and(is_broken_pipe) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("corpus: {error:#}\n{USAGE}\n"));
            ExitCode::FAILURE
        }
    }
}

fn is_broken_pipe(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::BrokenPipe
}

enum Corpus {
    Shirts(Shirts),
    Pods(Pods),
}

enum Output {
    Sent,
    Stored,
    Loaded(PathBuf),
}

fn run(mut arguments: impl Iterator<Item = String>) -> Result<()> {
    let mut corpus = match arguments.next().as_deref() {
        Some("shirts") => Corpus::Shirts(Shirts::default()),
        Some("pods") => Corpus::Pods(Pods::default()),
        other => bail!("which corpus? shirts or pods, not {}", other.unwrap_or("nothing")),
    };
    let mut output = Output::Sent;
    while let Some(flag) = arguments.next() {
        let mut value = || arguments.next().with_context(|| format!("{flag} needs a value"));
        match (flag.as_str(), &mut corpus) {
            ("--count", Corpus::Shirts(Shirts { count, .. }) | Corpus::Pods(Pods { count, .. })) => {
                *count = value()?.parse().context("--count")?;
            }
            ("--seed", Corpus::Shirts(Shirts { seed, .. }) | Corpus::Pods(Pods { seed, .. })) => {
                *seed = value()?.parse().context("--seed")?;
            }
            ("--text", Corpus::Shirts(shirts)) => shirts.text = value()?.parse().context("--text")?,
            ("--stored", _) => output = Output::Stored,
            ("--load", _) => output = Output::Loaded(value()?.into()),
            _ => bail!("unknown argument {flag}"),
        }
    }
    match (corpus, output) {
        (Corpus::Shirts(shirts), Output::Sent) => print(shirts.objects()),
        (Corpus::Shirts(shirts), Output::Stored) => print((0..shirts.count).map(|index| shirts.stored(index))),
        (Corpus::Pods(pods), Output::Sent) => print(pods.objects()),
        (Corpus::Pods(pods), Output::Stored) => print((0..pods.count).map(|index| pods.stored(index))),
        (corpus, Output::Loaded(kubeconfig)) => upload(&corpus, &kubeconfig),
    }
}

fn print(objects: impl Iterator<Item = Value>) -> Result<()> {
    let mut output = BufWriter::new(std::io::stdout().lock());
    for object in objects {
        serde_json::to_writer(&mut output, &object).map_err(std::io::Error::from)?;
        output.write_all(b"\n")?;
    }
    Ok(output.flush()?)
}

#[tokio::main]
async fn upload(corpus: &Corpus, kubeconfig: &std::path::Path) -> Result<()> {
    let client = Endpoint::from_kubeconfig(kubeconfig)?.client();
    let start = Instant::now();
    let mut said = Duration::ZERO;
    let progress = |count: u64| {
        move |done: u64| {
            let elapsed = start.elapsed();
            if done == count || elapsed - said >= Duration::from_secs(1) {
                said = elapsed;
                let seconds = elapsed.as_secs_f64();
                say(&format!("\r{done}/{count} objects, {seconds:.0} s, {:.0}/s", done as f64 / seconds));
            }
        }
    };
    match corpus {
        Corpus::Shirts(shirts) => load::shirts(&client, shirts, progress(shirts.count)).await?,
        Corpus::Pods(pods) => load::pods(&client, pods, progress(pods.count)).await?,
    }
    say("\n");
    Ok(())
}

/// Standard output is for documents. Messages for people go here, and there is no other place for them when that fails.
fn say(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}
