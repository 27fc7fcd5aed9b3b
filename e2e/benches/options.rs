//! What was typed, and what it comes to.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail, ensure};
use e2e::corpus::Text;
use e2e::corpus::pods::Pods;
use e2e::corpus::shirts::Shirts;

/// How requests are sent.
pub(crate) const USAGE: &str = "\
usage: bench [--rows NAME,...] [--quick] [--objects N] [--text varied|repeated] [--rounds N]
       bench --hold REQUEST [--objects N] [--text varied|repeated]

Measures fieldcache, beside kube-apiserver where there are two sides, and prints what was found with the targets.
Build fieldcache and kube-rs-consumer in the same profile first (make bench does). Files: target/bench/bench.md and .json.
The environment variable E2E_KUBERNETES names another kube-apiserver than the usual one: 1.37 for example.

  --rows NAME,...  only these rows:
      list-field    LIST by field, 100 hits: one value again and again, all values in turn, gzip, TLS
      list-none     LIST by field, nothing found; requests a second and core
      list-labels   LIST by two labels
      list-all      LIST everything; memory while it is read slowly; beside a bare HTTP server
      list-updates  LIST of 100 hits while 2,000 updates a second run; delivery of updates while 50 full lists run
      list-protobuf LIST of all Pods in protobuf, and the same list in JSON
      shards        LIST of one of ten shards, and WATCH of updates, beside the whole: bytes, CPU of server and client
      queries       operators of field selectors, totals and facets: latency (targets are for --objects 1000000)
      memory        memory at rest and at the peak of a relist, as a share of the JSON
      ingest        updates a second and core; cost of an update at 1/10 and 10 times the objects; the first list's MB/s
      first-sync    first sync from kube-apiserver beside a reader that throws the same stream away
      growth        the same 100 hits at 1/10, 1 and 10 times the objects
      idle          CPU with 200 cached resources and nothing to do
      definitions   how soon a changed field of a definition is selected by, published and described
      watch-updates one update with 100 to 20,000 watchers, each with its own field selector: CPU of the server
      watch-delay   how much later updates arrive through fieldcache than directly, with 1,000 other watchers
      routing       changes a second and core to the mailboxes of 5,000 watches, without encoding
      broadcast     one update that all of 5,000 watchers receive, beside a bare server that writes the same bytes
      watch-memory  an idle watch, on a shared connection and with a TLS connection of its own
      reconnect     fieldcache dies with 5,000 TLS clients and is started again: until all receive events again
      placement     where one of 1,000 pods may run among 150,000, beside 500 updates a second and kube-scheduler's plugins
      consumer      time, CPU, memory and bytes of real clients that keep 100,000 Pods or shirts, directly and through
                    fieldcache, and the same for 5 minutes of updates; most of an hour, so only when it is named;
                    a tenth as many Secrets too, for the next row's clients
      consumer-less the clients of this row that receive less: objects without managed fields, or a View of five fields
  --quick          10,000 objects, no ten times more, fewer rounds: a trial of minutes, no measurement
  --objects N      objects of the corpora (default 100000)
  --text T         of the shirts beside kube-apiserver: varied (default) or repeated
  --rounds N       rounds a row (default 5), sides in turn

  --hold REQUEST   feed fieldcache from the generator, print its process number, and send it one row's requests until
                   interrupted, to be profiled meanwhile. REQUEST: list-field-hot, list-field (values in turn),
                   list-field-gzip, list-none, list-labels, list-all, list-updates, ingest, relist or idle. Then, elsewhere:
                     perf record -F 499 --call-graph dwarf,16384 -p PID -- sleep 10 && perf report --no-children
                   (perf record -g -p PID is smaller, but its stacks end where there are no frame pointers)";

/// Names of the rows, in the order of the report.
pub(crate) const ROWS: [&str; 23] = [
    "list-field",
    "list-none",
    "list-labels",
    "list-all",
    "list-updates",
    "list-protobuf",
    "shards",
    "queries",
    "memory",
    "ingest",
    "first-sync",
    "growth",
    "idle",
    "definitions",
    "watch-updates",
    "watch-delay",
    "routing",
    "broadcast",
    "watch-memory",
    "reconnect",
    "placement",
    "consumer",
    "consumer-less",
];

/// What to do.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// The rows to run.
    pub(crate) rows: BTreeSet<&'static str>,
    /// Objects in a corpus.
    pub(crate) objects: u64,
    /// Text of the shirts beside kube-apiserver.
    pub(crate) text: Text,
    /// Rounds a row.
    pub(crate) rounds: usize,
    /// A small run.
    pub(crate) quick: bool,
    /// Send this until interrupted instead of measuring.
    pub(crate) hold: Option<String>,
}

impl Options {
    /// Reads arguments.
    pub(crate) fn read(arguments: impl IntoIterator<Item = String>) -> Result<Options> {
        let mut options = Options {
            rows: ROWS.into_iter().filter(|row| !row.starts_with("consumer")).collect(),
            objects: 100_000,
            text: Text::Varied,
            rounds: 5,
            quick: false,
            hold: None,
        };
        let mut objects = None;
        let mut arguments = arguments.into_iter();
        while let Some(flag) = arguments.next() {
            if flag == "--quick" {
                (options.quick, options.rounds, options.objects) = (true, 2, 10_000);
                continue;
            }
            let value = arguments.next().with_context(|| format!("{flag} needs a value\n{USAGE}"))?;
            match flag.as_str() {
                "--rows" => options.rows = value.split(',').map(row).collect::<Result<_>>()?,
                "--objects" => objects = Some(value.parse().with_context(|| format!("--objects {value}"))?),
                "--text" => options.text = value.parse()?,
                "--rounds" => options.rounds = value.parse().with_context(|| format!("--rounds {value}"))?,
                "--hold" => options.hold = Some(value),
                _ => bail!("unknown option {flag}\n{USAGE}"),
            }
        }
        options.objects = objects.unwrap_or(options.objects);
        ensure!(options.objects >= 1_000, "--objects must be 1000 or more");
        ensure!(options.rounds > 0, "--rounds must be 1 or more");
        Ok(options)
    }

    /// Whether one of these rows is to be run.
    pub(crate) fn wants(&self, rows: &[&str]) -> bool {
        rows.iter().any(|row| self.rows.contains(row))
    }

    /// The corpus beside kube-apiserver.
    pub(crate) fn shirts(&self) -> Shirts {
        Shirts { count: self.objects, text: self.text, ..Shirts::default() }
    }

    /// Corpus (i) with this text, as many as requested.
    pub(crate) fn shirts_of(&self, text: Text, count: u64) -> Shirts {
        Shirts { count, text, ..Shirts::default() }
    }

    /// Corpus (ii).
    pub(crate) fn pods(&self) -> Pods {
        Pods { count: self.objects, ..Pods::default() }
    }
}

fn row(name: &str) -> Result<&'static str> {
    ROWS.into_iter().find(|row| *row == name).with_context(|| format!("there is no row {name:?}\n{USAGE}"))
}
