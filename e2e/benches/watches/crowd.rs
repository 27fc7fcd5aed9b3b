//! Many open watches, whose events are read as fast as they come, and counted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use e2e::http::{Client, Endpoint, Next, Protocol};
use futures::{StreamExt, TryStreamExt, stream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Streams of one connection: what kube-apiserver is configured to allow; fieldcache allows more.
pub(crate) const STREAMS: usize = 1_000;

/// Watches that are being opened at a time.
const AT_ONCE: usize = 64;

/// How long an event may take on a machine that is busy with tens of thousands of watches.
const PATIENCE: Duration = Duration::from_secs(60);

/// No watch is silent for so long in a run.
const FOREVER: Duration = Duration::from_secs(3_600);

/// One watch to open.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    /// Path and query.
    pub(crate) path: String,
    /// What is in each of its events.
    pub(crate) reported: String,
}

/// Open watches on shared HTTP/2 connections; dropping it closes them.
#[derive(Debug)]
pub(crate) struct Crowd {
    progress: Arc<Progress>,
    readers: Vec<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Progress {
    events: AtomicU64,
    /// The task that waits for the events waits for so many.
    wanted: AtomicU64,
    reached: Notify,
    /// What ended a watch.
    failure: Mutex<Option<String>>,
}

impl Progress {
    fn count(&self) {
        let events = self.events.fetch_add(1, Ordering::SeqCst) + 1;
        if events == self.wanted.load(Ordering::SeqCst) {
            self.reached.notify_one();
        }
    }

    fn fail(&self, what: String) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(what);
        self.reached.notify_one();
    }
}

impl Crowd {
    /// Opens all of them, so many streams a connection.
    pub(crate) async fn open(endpoint: &Endpoint, wanted: Vec<Wanted>, streams: usize) -> Result<Crowd> {
        let endpoint = endpoint.clone().speaking(Protocol::Http2);
        let clients: Vec<Client> = (0..wanted.len().div_ceil(streams)).map(|_| endpoint.client()).collect();
        let progress = Arc::<Progress>::default();
        let opening = wanted.into_iter().enumerate().map(|(index, wanted)| {
            let (client, progress) = (clients[index / streams].clone(), progress.clone());
            async move {
                let mut lines = client.watch(&wanted.path).await?;
                Ok::<_, anyhow::Error>(tokio::spawn(async move {
                    let mut is_checked = false;
                    loop {
                        match lines.next(FOREVER).await {
                            // Looking into each of millions of lines would keep the machine busy.
                            Ok(Next::Line(line)) if is_checked || contains(&line, &wanted.reported) => {
                                is_checked = true;
                                progress.count();
                            }
                            Ok(Next::Line(line)) => {
                                let line = String::from_utf8_lossy(&line).chars().take(300).collect::<String>();
                                return progress.fail(format!("{} received {line}", wanted.path));
                            }
                            Ok(Next::End | Next::Nothing) => {
                                return progress.fail(format!("{} has ended", wanted.path));
                            }
                            Err(error) => return progress.fail(format!("{error:#}")),
                        }
                    }
                }))
            }
        });
        let readers = stream::iter(opening).buffer_unordered(AT_ONCE).try_collect().await.context("opening watches")?;
        Ok(Crowd { progress, readers })
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.readers.len()
    }

    /// Events that have come to all of them together.
    pub(crate) fn events(&self) -> u64 {
        self.progress.events.load(Ordering::SeqCst)
    }

    /// Waits until so many events have come to all of them together.
    pub(crate) async fn has(&self, events: u64) -> Result<()> {
        self.progress.wanted.store(events, Ordering::SeqCst);
        let waiting = async {
            while self.events() < events {
                if let Some(failure) = &*self.progress.failure.lock().unwrap_or_else(PoisonError::into_inner) {
                    bail!("a watch has failed: {failure}");
                }
                self.progress.reached.notified().await;
            }
            Ok(())
        };
        match timeout(PATIENCE, waiting).await {
            Ok(ended) => ended,
            Err(_) => bail!("{} of {events} events have come within {PATIENCE:?}", self.events()),
        }
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.readers.iter().for_each(JoinHandle::abort);
    }
}

fn contains(line: &[u8], text: &str) -> bool {
    line.windows(text.len()).any(|window| window == text.as_bytes())
}
