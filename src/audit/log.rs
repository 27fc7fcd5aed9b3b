//! The queue of events, in front of the thread that writes them ([`super::writer`]): no request handler waits in a system call.
//!
//! The response to a request that must be audited is sent only after its event is written. That means: after the
//! operating system has taken it. It is rejected at once if the last write failed. When its response is ready, it takes
//! a [`QueuePermit`] in the queue, and its event is written. If either does not happen within some seconds, the request
//! is rejected too. No place is held while a request waits for anything else, so slow requests of one user do not delay
//! others. That is kube-apiserver's mode `blocking-strict`, bounded. Events that show no data (a rejection, the end of
//! a watch whose start was written) do not wait. If the queue is full, they are dropped, counted and logged. So are
//! rejections of one caller beyond ten in a second.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout};

pub use super::writer::AuditCounters;

use super::event::Event;
use super::output::{AuditOutput, LogFile, StandardOutput};
use super::policy::Policy;
use super::writer::{AuditMessage, AuditWriter, LogInterval};
use crate::access::failure_rate_limiter::{FailureBudget, FailureRateLimiter, OVERFLOW, client_network};

/// Events that may wait to be written: about a megabyte while the disk is stalled, and 64 MB if all have the longest paths.
const QUEUE: usize = 1024;

/// How long a request waits for a place.
const PLACE_WAIT: Duration = Duration::from_secs(10);

/// How long a response waits for its event to be written.
const WRITE_WAIT: Duration = Duration::from_secs(if cfg!(test) { 60 } else { 5 });

/// How long the end of the program waits for the remaining events.
const FINISH_WAIT: Duration = Duration::from_secs(if cfg!(test) { 60 } else { 5 });

/// The path that means standard output; kube-apiserver's.
pub const STANDARD_OUTPUT: &str = "-";

/// The log cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file.
    #[error("--audit-log-path: {} cannot be opened for append; use a file in an existing, writable folder, or - for standard output", path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Standard output.
    #[error("--audit-log-path: standard output is closed; use a file")]
    StandardOutput(#[source] io::Error),
    /// The thread that writes.
    #[error("cannot start the thread that writes the audit log")]
    Thread(#[source] io::Error),
}

/// The audit log.
#[derive(Debug)]
pub struct Log {
    policy: Policy,
    queue: mpsc::Sender<AuditMessage>,
    counts: Arc<AuditCounters>,
    logged: Mutex<LogInterval>,
    /// By a hash of the caller: names of users can be long.
    rejections: Mutex<FailureRateLimiter<u64>>,
    hasher: RandomState,
    write_wait: Duration,
}

/// Whose rejected requests are counted together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RejectionKey {
    /// An authenticated user.
    User(String),
    /// Everyone else, by address.
    Address(IpAddr),
}

/// Events of rejected requests of one caller: a hundred at first, and then ten in a second.
const REJECTIONS: FailureBudget = FailureBudget { tries: 100, every: Duration::from_millis(100) };

/// A place in the queue.
#[derive(Debug)]
pub struct QueuePermit(mpsc::OwnedPermit<AuditMessage>);

impl Log {
    /// Writes the events of a policy to a file, or to standard output ([`STANDARD_OUTPUT`]).
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(path: &str, policy: Policy) -> Result<Log, OpenError> {
        if path == STANDARD_OUTPUT {
            let output = StandardOutput::open().map_err(OpenError::StandardOutput)?;
            return Log::to(Box::new(output), policy, QUEUE);
        }
        let path = PathBuf::from(path);
        let file = LogFile::open(&path).map_err(|source| OpenError::File { path, source })?;
        Log::to(Box::new(file), policy, QUEUE)
    }

    /// Writes to any output, with a queue of this length.
    pub(super) fn to(output: Box<dyn AuditOutput>, policy: Policy, length: usize) -> Result<Log, OpenError> {
        let (queue, waiting) = mpsc::channel(length);
        let counts = Arc::new(AuditCounters::default());
        let writer = AuditWriter::new(output, counts.clone());
        thread::Builder::new()
            .name("audit".to_owned())
            .spawn(move || writer.run(waiting))
            .map_err(OpenError::Thread)?;
        let hasher = RandomState::new();
        let rejections = Mutex::new(FailureRateLimiter::new(REJECTIONS, hasher.hash_one(OVERFLOW)));
        Ok(Log { policy, queue, counts, logged: Mutex::default(), rejections, hasher, write_wait: WRITE_WAIT })
    }

    /// The log with another bound on how long responses wait for a write.
    #[cfg(test)]
    pub(crate) fn with_write_wait(self, write_wait: Duration) -> Log {
        Log { write_wait, ..self }
    }

    /// The policy: which requests are audited.
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// Counters of events, and whether more can be written.
    pub fn counts(&self) -> &Arc<AuditCounters> {
        &self.counts
    }

    /// Whether the last write succeeded. If not, requests that must be audited are rejected.
    pub fn is_writable(&self) -> bool {
        self.counts.check().inspect_err(|reason| self.count_refused(reason)).is_ok()
    }

    /// A place in the queue, within a bounded time. `None`: the request must be rejected.
    pub async fn place(&self) -> Option<QueuePermit> {
        if !self.is_writable() {
            return None;
        }
        let permit = async { self.queue.clone().reserve_owned().await.ok() };
        self.within_wait(permit).await.map(QueuePermit)
    }

    /// Waits a bounded time for a step that precedes the event of a request. `None`: the request must be rejected.
    pub async fn within_wait<Done>(&self, wait: impl Future<Output = Option<Done>>) -> Option<Done> {
        let done = timeout(PLACE_WAIT, wait).await.ok().flatten();
        if done.is_none() {
            self.count_refused("its queue is full");
        }
        done
    }

    /// Writes an event; false: it was not written within a bounded time, and the request must be rejected. The event is then left
    /// out, unless its write is in progress at that moment.
    pub async fn write(&self, place: QueuePermit, event: &Event) -> bool {
        let (written, is_written) = oneshot::channel();
        place.0.send(AuditMessage::Line { bytes: event.line(), written: Some(written) });
        let is_written = matches!(timeout(self.write_wait, is_written).await, Ok(Ok(())));
        if !is_written {
            self.count_refused("an event was not written in time");
        }
        is_written
    }

    /// Puts an event into the queue if there is a place.
    pub fn offer(&self, event: &Event) {
        if self.queue.try_send(AuditMessage::Line { bytes: event.line(), written: None }).is_err() {
            self.drop_event("the queue is full");
        }
    }

    /// Puts the event of a rejected request into the queue, if there is a place and its caller has not been rejected too often.
    /// Otherwise one caller could fill the disk, or have the events of others rotated away.
    pub fn offer_rejected(&self, event: Event, caller: RejectionKey) {
        let caller = match caller {
            RejectionKey::Address(address) => RejectionKey::Address(client_network(address)),
            user @ RejectionKey::User(_) => user,
        };
        let (caller, now) = (self.hasher.hash_one(caller), Instant::now());
        if self.rejections.lock().unwrap_or_else(PoisonError::into_inner).take(caller, now) {
            self.offer(&event.shortened());
        } else {
            self.drop_event("one caller was rejected more than ten times in a second");
        }
    }

    /// Counts and logs an event that was dropped.
    fn drop_event(&self, reason: &str) {
        self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        if self.is_log_due() {
            tracing::error!(reason, "ends of watches or rejected requests are missing in the audit log");
        }
    }

    /// Waits, for a bounded time, until everything in the queue is written.
    pub async fn finish(&self) {
        let (done, finished) = oneshot::channel();
        let all = async { self.queue.send(AuditMessage::Finish(done)).await.is_ok() && finished.await.is_ok() };
        if !matches!(timeout(FINISH_WAIT, all).await, Ok(true)) {
            tracing::error!("the last events of the audit log could not be written");
        }
    }

    /// Counts and logs a request that was rejected because its event cannot be written.
    fn count_refused(&self, reason: &str) {
        self.counts.refused.fetch_add(1, Ordering::Relaxed);
        if self.is_log_due() {
            tracing::error!(reason, "requests that need the audit log are rejected");
        }
    }

    /// Whether the problem may be logged again: only once in an interval.
    fn is_log_due(&self) -> bool {
        self.logged.lock().unwrap_or_else(PoisonError::into_inner).is_due()
    }
}
