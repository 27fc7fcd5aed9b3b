//! One resource of the generator: its objects, its version, its watchers, and the commands that it receives.
//!
//! Changes go to every watcher through a bounded queue, so the slowest reader sets the pace: "as fast as the reader takes them".
//! A client that makes changes holds one lock for as long as it sends, so all watchers see one order.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::time::{MissedTickBehavior, interval};

use super::documents::{begin_line, bookmark, end_line, expired, line, object_of};
use super::objects::Change;

/// The version of the whole when it starts; above that of every object of a corpus.
const FIRST_VERSION: u64 = 10_000_000;

/// Changes that are remembered for watches that start a little behind.
const REMEMBERED: usize = 4_096;

/// Events that wait for one watcher, about what kube-apiserver lets one lag behind.
const QUEUE: usize = 100;

/// Objects are changed in an order that meets all of them and no two neighbours; prime, so that it divides no corpus.
const STRIDE: u64 = 7_919;

/// How often changes at a rate are made.
const TICK: Duration = Duration::from_millis(1);

/// How many changes a second are made by default.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Rate {
    /// Updates.
    pub updates: f64,
    /// Deletions and creations together, in turn.
    pub churn: f64,
}

/// One resource.
#[derive(Debug)]
pub struct Source {
    stored: Mutex<Held>,
    change: Option<Change>,
    list_kind: &'static str,
    /// Held while changes are sent.
    sending: tokio::sync::Mutex<()>,
    rate: watch::Sender<Rate>,
    /// Changes handed to all watchers.
    sent: AtomicU64,
    /// The version up to which all watchers have received everything.
    delivered: AtomicU64,
    /// Whether a burst is under way.
    bursting: AtomicU64,
    /// Streaming lists that were read to their end.
    lists: AtomicU64,
}

#[derive(Debug)]
struct Held {
    objects: Vec<Bytes>,
    /// The object that churn has deleted and will create next.
    absent: Option<usize>,
    version: u64,
    /// Which object is changed next.
    turn: u64,
    recent: VecDeque<(u64, Bytes)>,
    watchers: Vec<mpsc::Sender<Bytes>>,
}

/// What a watch starts with.
#[derive(Debug)]
pub struct Watch {
    /// Objects to send before anything else; `None` unless a list was requested.
    pub initial: Option<Vec<Bytes>>,
    /// The version of that list.
    pub version: u64,
    /// Lines that come from then on. Its end is the end of the watch.
    pub events: mpsc::Receiver<Bytes>,
}

/// The version that a watch starts from is forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooOld;

impl Source {
    /// A resource with these objects.
    #[must_use]
    pub fn new(objects: Vec<Bytes>, change: Option<Change>, list_kind: &'static str) -> Source {
        let stored = Held {
            objects,
            absent: None,
            version: FIRST_VERSION,
            turn: 0,
            recent: VecDeque::new(),
            watchers: Vec::new(),
        };
        Source {
            stored: Mutex::new(stored),
            change,
            list_kind,
            sending: tokio::sync::Mutex::default(),
            rate: watch::Sender::new(Rate::default()),
            sent: AtomicU64::new(0),
            delivered: AtomicU64::new(FIRST_VERSION),
            bursting: AtomicU64::new(0),
            lists: AtomicU64::new(0),
        }
    }

    /// Every object and the version, as one moment.
    #[must_use]
    pub fn all(&self) -> (Vec<Bytes>, u64) {
        let stored = self.stored();
        (stored.present(), stored.version)
    }

    /// The kind of its lists.
    #[must_use]
    pub fn list_kind(&self) -> &'static str {
        self.list_kind
    }

    /// A watch that begins with all objects.
    #[must_use]
    pub fn watch_from_the_beginning(&self) -> Watch {
        let mut stored = self.stored();
        let (sender, events) = mpsc::channel(QUEUE);
        stored.watchers.push(sender);
        Watch { initial: Some(stored.present()), version: stored.version, events }
    }

    /// A watch of everything after `version`.
    ///
    /// # Errors
    /// [`TooOld`].
    pub fn watch_from(&self, version: u64) -> Result<Watch, TooOld> {
        let mut stored = self.stored();
        // Versions of a resource rise by one, so what is remembered has no holes.
        let oldest = stored.recent.front().map_or(stored.version + 1, |(version, _)| *version);
        if version + 1 < oldest {
            return Err(TooOld);
        }
        let missed: Vec<Bytes> =
            stored.recent.iter().filter(|(changed, _)| *changed > version).map(|(_, line)| line.clone()).collect();
        let (sender, events) = mpsc::channel(QUEUE.max(missed.len()));
        for line in missed {
            // There is room for all of them.
            let _ = sender.try_send(line);
        }
        stored.watchers.push(sender);
        Ok(Watch { initial: None, version: stored.version, events })
    }

    /// The version now.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.stored().version
    }

    /// The version up to which everything is in the queues of all watchers. A change's version rises before it is sent, so
    /// the version of now would promise too much.
    #[must_use]
    pub fn delivered_version(&self) -> u64 {
        self.delivered.load(Ordering::Acquire)
    }

    /// A streaming list has been read to its end.
    pub fn list_ended(&self) {
        self.lists.fetch_add(1, Ordering::Relaxed);
    }

    /// Makes so many updates and readies their bytes; none is sent yet. The answer has to be given to [`Source::send_all`].
    ///
    /// # Errors
    /// When objects of this resource are never changed.
    pub async fn ready_burst(&self, events: u64) -> Result<Burst<'_>> {
        let sending = self.sending.lock().await;
        let mut stored = self.stored();
        let mut lines = Vec::with_capacity(usize::try_from(events).unwrap_or_default());
        for _ in 0..events {
            lines.push(stored.update(self.change)?);
        }
        self.bursting.store(1, Ordering::Release);
        let (watchers, version) = (stored.watchers(), stored.version);
        drop(stored);
        Ok(Burst { lines, watchers, version, _sending: sending })
    }

    /// Sends a burst as fast as all watchers take it.
    pub async fn send_all(&self, burst: Burst<'_>) {
        for line in burst.lines {
            self.send(&burst.watchers, line).await;
        }
        self.bursting.store(0, Ordering::Release);
    }

    /// Sets the rates at which [`Source::run`] makes changes.
    pub fn set_rate(&self, rate: Rate) {
        self.rate.send_replace(rate);
    }

    /// Makes changes at the rates set, for ever.
    ///
    /// # Errors
    /// When objects of this resource are never changed.
    pub async fn run(&self) -> Result<()> {
        let mut rates = self.rate.subscribe();
        loop {
            let rate = *rates.borrow_and_update();
            if rate == Rate::default() {
                rates.changed().await.context("the sender lives as long as this")?;
                continue;
            }
            let mut ticks = interval(TICK);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
            let started = Instant::now();
            let (mut updates, mut churned) = (0, 0);
            while !rates.has_changed().unwrap_or(true) {
                ticks.tick().await;
                let elapsed = started.elapsed().as_secs_f64();
                while updates < (elapsed * rate.updates) as u64 {
                    updates += 1;
                    self.make(|stored| stored.update(self.change)).await?;
                }
                while churned < (elapsed * rate.churn) as u64 {
                    churned += 1;
                    self.make(|stored| stored.churn(self.change)).await?;
                }
            }
        }
    }

    /// Ends all watches with 410; the watchers will list again and find a newer version. With `change_all` every object changes before.
    ///
    /// # Errors
    /// When objects of this resource are never changed.
    pub async fn end_watches(&self, change_all: bool) -> Result<usize> {
        let _sending = self.sending.lock().await;
        let (watchers, line) = {
            let mut stored = self.stored();
            if change_all {
                for _ in 0..stored.objects.len() {
                    stored.update(self.change)?;
                }
            }
            stored.version += 1;
            // A client that resumes has to list: nothing is remembered.
            stored.recent.clear();
            self.delivered.store(stored.version, Ordering::Release);
            (std::mem::take(&mut stored.watchers), expired())
        };
        for watcher in &watchers {
            // A watcher that is gone needs no telling.
            let _ = watcher.send(line.clone()).await;
        }
        Ok(watchers.len())
    }

    /// What is going on, as JSON.
    #[must_use]
    pub fn state(&self) -> Value {
        let mut stored = self.stored();
        stored.watchers.retain(|watcher| !watcher.is_closed());
        json!({
            "objects": stored.objects.len() - usize::from(stored.absent.is_some()),
            "bytes": stored.objects.iter().map(Bytes::len).sum::<usize>(),
            "version": stored.version,
            "watchers": stored.watchers.len(),
            "sent": self.sent.load(Ordering::Acquire),
            "lists": self.lists.load(Ordering::Relaxed),
            "bursting": self.bursting.load(Ordering::Acquire) == 1,
        })
    }

    async fn make(&self, make: impl FnOnce(&mut Held) -> Result<Bytes>) -> Result<()> {
        let _sending = self.sending.lock().await;
        let (watchers, line) = {
            let mut stored = self.stored();
            let line = make(&mut stored)?;
            (stored.watchers(), line)
        };
        self.send(&watchers, line).await;
        Ok(())
    }

    async fn send(&self, watchers: &[mpsc::Sender<Bytes>], line: Bytes) {
        for watcher in watchers {
            // One that is gone is dropped at the next look at the watchers.
            let _ = watcher.send(line.clone()).await;
        }
        // Versions rise by one with each change, and changes are sent in their order.
        self.delivered.fetch_add(1, Ordering::AcqRel);
        self.sent.fetch_add(1, Ordering::AcqRel);
    }

    fn stored(&self) -> MutexGuard<'_, Held> {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A burst that is ready.
#[derive(Debug)]
pub struct Burst<'a> {
    lines: Vec<Bytes>,
    watchers: Vec<mpsc::Sender<Bytes>>,
    /// The version of its last change.
    pub version: u64,
    _sending: tokio::sync::MutexGuard<'a, ()>,
}

impl Held {
    fn present(&self) -> Vec<Bytes> {
        let there = |(index, _): &(usize, &Bytes)| Some(*index) != self.absent;
        self.objects.iter().enumerate().filter(there).map(|(_, object)| object.clone()).collect()
    }

    fn watchers(&mut self) -> Vec<mpsc::Sender<Bytes>> {
        self.watchers.retain(|watcher| !watcher.is_closed());
        self.watchers.clone()
    }

    fn update(&mut self, change: Option<Change>) -> Result<Bytes> {
        let index = self.next_index();
        self.changed(change, index, "MODIFIED")
    }

    fn churn(&mut self, change: Option<Change>) -> Result<Bytes> {
        if let Some(index) = self.absent.take() {
            return self.changed(change, index, "ADDED");
        }
        let index = self.next_index();
        let line = self.changed(change, index, "DELETED")?;
        self.absent = Some(index);
        Ok(line)
    }

    fn next_index(&mut self) -> usize {
        loop {
            self.turn += 1;
            let index = usize::try_from(self.turn * STRIDE % self.objects.len().max(1) as u64).unwrap_or_default();
            if Some(index) != self.absent || self.objects.len() == 1 {
                return index;
            }
        }
    }

    fn changed(&mut self, change: Option<Change>, index: usize, kind: &str) -> Result<Bytes> {
        let change = change.context("objects of this resource are never changed")?;
        let object = self.objects.get(index).context("there is no object to change")?;
        let mut line = begin_line(kind, object.len() + 32);
        change.apply(object, self.version + 1, now(), &mut line)?;
        let line = Bytes::from(end_line(line));
        self.version += 1;
        self.objects[index] = object_of(&line, kind);
        self.recent.push_back((self.version, line.clone()));
        if self.recent.len() > REMEMBERED {
            self.recent.pop_front();
        }
        Ok(line)
    }
}

/// An object of a list as a line.
#[must_use]
pub fn initial_line(object: &[u8]) -> Bytes {
    line("ADDED", object)
}

/// The end of a list as a line.
#[must_use]
pub fn end_of_list(version: u64) -> Bytes {
    bookmark(version, true)
}

/// Nanoseconds since 1970, by the clock that all processes of a machine share.
#[must_use]
pub fn now() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_nanos())
}
