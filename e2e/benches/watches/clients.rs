//! A client process whose every watch has a TLS connection of its own, as that of a node's agent or a small controller has.
//!
//! It is this program, started as `bench clients`, so that its thousands of files are not those of the bench. A client
//! lists what it selects and watches from there; when its watch breaks it resumes, and lists again on request. They do
//! what client-go does, except for the pause after a failure. client-go waits 0.8 s and more, to spare the server. Here
//! it is a fifth of a second, so the result shows the server and not the pauses of its clients.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use e2e::corpus::shirts::Shirts;
use e2e::fieldcache::Fieldcache;
use e2e::generator::source::now;
use e2e::http::{Client, Endpoint, Next, Protocol, Request};
use e2e::process::{Invocation, Process};
use e2e::run_directory::RunDirectory;
use futures::future::join_all;
use http::StatusCode;
use serde_json::Value;
use tokio::time::interval;

use super::{of_one, selector_of_one};

/// No watch is silent for so long in a run.
const FOREVER: Duration = Duration::from_secs(3_600);

/// The clients as the bench commands them.
pub(crate) struct Clients {
    process: Process,
    // After the process, which is to be gone first.
    _directory: RunDirectory,
}

impl Clients {
    /// Starts so many, each of which watches one shirt of the corpus, and waits until all have a watch.
    pub(crate) async fn start(
        server: &Fieldcache,
        authority: &Path,
        protocol: Protocol,
        corpus: &Shirts,
        count: u64,
    ) -> Result<Clients> {
        let directory = RunDirectory::create("clients")?;
        let protocol = match protocol {
            Protocol::Http1 => "http1",
            Protocol::Http2 => "http2",
        };
        let invocation = Invocation::new(std::env::current_exe().context("finding this program")?).arguments([
            "clients".to_owned(),
            server.address().to_owned(),
            authority.display().to_string(),
            protocol.to_owned(),
            count.to_string(),
            corpus.count.to_string(),
        ]);
        let process = Process::start("clients", &invocation, directory.path())?;
        let clients = Clients { process, _directory: directory };
        clients.since("open", 0, Duration::from_secs(300)).await?;
        Ok(clients)
    }

    /// The time (nanoseconds since 1970) when all of them were `open`, or first `live` (receiving) after a moment. Also
    /// the number of lists that they had requested by then.
    pub(crate) async fn since(&self, what: &str, moment: u128, deadline: Duration) -> Result<(u128, u64)> {
        let seen = |line: &str| {
            let mut words = line.split(' ');
            let is_it = words.next() == Some(what);
            let (at, lists): (u128, u64) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
            (is_it && at > moment).then_some((at, lists))
        };
        self.process.line(&format!("all clients are {what}"), deadline, seen).await
    }
}

/// How the clients stand.
struct Standing {
    count: u64,
    open: AtomicU64,
    live: AtomicU64,
    lists: AtomicU64,
}

impl Standing {
    fn one_more(&self, what: &str, number: &AtomicU64) {
        if number.fetch_add(1, Ordering::SeqCst) + 1 == self.count {
            let lists = self.lists.load(Ordering::SeqCst);
            // A client that reads it has ended when it cannot be written.
            let _ = writeln!(std::io::stdout(), "{what} {} {lists}", now());
        }
    }
}

/// The client process; it ends when it is killed.
pub(crate) async fn run(arguments: impl IntoIterator<Item = String>) -> Result<()> {
    let arguments: Vec<String> = arguments.into_iter().collect();
    let [address, authority, protocol, count, objects] = &arguments[..] else {
        bail!("clients ADDRESS AUTHORITY-FILE http1|http2 COUNT OBJECTS, and nothing else")
    };
    let protocol = if protocol == "http2" { Protocol::Http2 } else { Protocol::Http1 };
    let authority = std::fs::read_to_string(PathBuf::from(authority)).context("reading the authority")?;
    let endpoint = Endpoint::secure(address, &authority, None)?.speaking(protocol);
    let corpus = Shirts { count: objects.parse()?, ..Shirts::default() };
    let zero = || AtomicU64::new(0);
    let standing = Standing { count: count.parse()?, open: zero(), live: zero(), lists: zero() };
    let standing = Arc::new(standing);
    let clients = (0..standing.count).map(|index| {
        let client =
            One { client: endpoint.client(), corpus: corpus.clone(), index, version: None, standing: standing.clone() };
        tokio::spawn(client.run())
    });
    join_all(clients.collect::<Vec<_>>()).await;
    bail!("all clients have ended")
}

/// One client.
struct One {
    client: Client,
    corpus: Shirts,
    index: u64,
    /// Everything up to there is known.
    version: Option<u64>,
    standing: Arc<Standing>,
}

impl One {
    async fn run(mut self) {
        // Clients do not beat together, but in the same way in every run.
        let mut pauses = interval(Duration::from_millis(100 + self.index * 7_919 % 200));
        loop {
            // The reasons are those of a server that is away; one that is there for good would show in a deadline of the bench.
            let _ = self.session().await;
            pauses.reset();
            pauses.tick().await;
        }
    }

    /// Until the watch has ended.
    async fn session(&mut self) -> Result<()> {
        let version = match self.version {
            Some(version) => version,
            None => {
                let path = format!(
                    "{}?limit=500&fieldSelector={}",
                    self.corpus.everywhere(),
                    selector_of_one(&self.corpus, self.index)
                );
                let list = self.client.get_json(&path).await?;
                self.standing.lists.fetch_add(1, Ordering::SeqCst);
                let version = version_in(&list).context("a list has a version")?;
                self.version = Some(version);
                version
            }
        };
        let path = of_one(&self.corpus, self.index, version).path;
        let mut lines = self.client.open(Request::get(path)).await?;
        if lines.status == StatusCode::GONE {
            self.version = None;
            return Ok(());
        }
        if lines.status != StatusCode::OK {
            bail!("{}", lines.status);
        }
        let mut is_live = false;
        let mut is_open = false;
        let ended = loop {
            // A client that is to be rejected learns so at once, in the first line.
            let patience = if is_open { FOREVER } else { FIRST };
            match lines.next(patience).await {
                Ok(Next::Line(line)) => {
                    let event: Value = serde_json::from_slice(&line)?;
                    if event["type"] == "ERROR" {
                        self.version = None;
                        break Ok(());
                    }
                    self.version = version_in(&event["object"]).or(self.version);
                    if !std::mem::replace(&mut is_open, true) {
                        self.standing.one_more("open", &self.standing.open);
                    }
                    if !std::mem::replace(&mut is_live, true) {
                        self.standing.one_more("live", &self.standing.live);
                    }
                }
                Ok(Next::Nothing) if !is_open => {
                    is_open = true;
                    self.standing.one_more("open", &self.standing.open);
                }
                Ok(Next::End | Next::Nothing) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        if is_open {
            self.standing.open.fetch_sub(1, Ordering::SeqCst);
        }
        if is_live {
            self.standing.live.fetch_sub(1, Ordering::SeqCst);
        }
        ended
    }
}

/// A watch without an error for so long has been accepted.
const FIRST: Duration = Duration::from_millis(200);

fn version_in(object: &Value) -> Option<u64> {
    object["metadata"]["resourceVersion"].as_str()?.parse().ok()
}
