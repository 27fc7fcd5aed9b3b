//! The queue of events for the thread that writes them ([`super::writer`]): no request handler waits in a system call.
//!
//! The response to a request that must be audited is sent only after its event is written. That means: after the
//! operating system has accepted it. The request is rejected at once if the last write failed. When its response is
//! ready, it takes a place in the queue ([`QueuePermit`]), and its event is written. If either takes more than some
//! seconds, the request is rejected too. No request holds a place while it waits for anything else, so slow requests of
//! one user do not delay others. This is kube-apiserver's mode `blocking-strict` with a time limit. Events of requests
//! that return no data (a rejection, the end of a watch whose start was written) do not wait. If the queue is full,
//! they are dropped, counted and logged. So are rejections of one caller beyond ten in a second.

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

/// The maximum number of events that wait to be written. They take about a megabyte, and 64 MB if all have the longest
/// paths.
const QUEUE: usize = 1024;

/// How long a request waits for a place.
const PLACE_WAIT: Duration = Duration::from_secs(10);

/// How long a response waits for its event to be written.
const WRITE_WAIT: Duration = Duration::from_secs(if cfg!(test) { 60 } else { 5 });

/// How long the end of the program waits for the remaining events.
const FINISH_WAIT: Duration = Duration::from_secs(if cfg!(test) { 60 } else { 5 });

/// The path that means standard output, as in kube-apiserver.
pub const STANDARD_OUTPUT: &str = "-";

/// The log cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file cannot be opened.
    #[error("--audit-log-path: {} cannot be opened for append; use a file in an existing, writable folder, or - for standard output", path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Standard output is closed.
    #[error("--audit-log-path: standard output is closed; use a file")]
    StandardOutput(#[source] io::Error),
    /// The thread that writes cannot be started.
    #[error("cannot start the thread that writes the audit log")]
    Thread(#[source] io::Error),
}

/// The audit log.
#[derive(Debug)]
pub struct Log {
    policy: Policy,
    queue: mpsc::Sender<AuditMessage>,
    counts: Arc<AuditCounters>,
    /// When a problem of this log was last logged to the program's own log.
    logged: Mutex<LogInterval>,
    /// Limits events of rejected requests, by a hash of the caller: names of users can be long.
    rejections: Mutex<FailureRateLimiter<u64>>,
    hasher: RandomState,
    write_wait: Duration,
}

/// The caller whose rejected requests are counted together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RejectionKey {
    /// An authenticated user.
    User(String),
    /// Callers that are not authenticated, by address.
    Address(IpAddr),
}

/// Events of rejected requests of one caller: a hundred at first, and then ten in a second.
const REJECTIONS: FailureBudget = FailureBudget { tries: 100, every: Duration::from_millis(100) };

/// A place in the queue for one event. It is free again when this is dropped.
#[derive(Debug)]
pub struct QueuePermit(mpsc::OwnedPermit<AuditMessage>);

impl Log {
    /// Opens a log that writes to a file, or to standard output ([`STANDARD_OUTPUT`]). `policy` decides which requests
    /// are audited.
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

    /// Opens a log that writes to any output, with a queue of `length` events. Starts its thread.
    ///
    /// # Errors
    /// [`OpenError::Thread`].
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

    /// The log with another maximum time that responses wait for a write.
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

    /// Returns whether the log can be written, as far as the last write shows. If not, the caller must reject its
    /// request, which is counted and logged here.
    pub fn check_writable(&self) -> bool {
        self.counts.check().inspect_err(|reason| self.count_refused(reason)).is_ok()
    }

    /// Waits up to [`PLACE_WAIT`] for a place in the queue. `None`: the request must be rejected, which is counted and
    /// logged here.
    pub async fn reserve(&self) -> Option<QueuePermit> {
        if !self.check_writable() {
            return None;
        }
        let permit = async { self.queue.clone().reserve_owned().await.ok() };
        self.within_wait(permit).await.map(QueuePermit)
    }

    /// Waits up to [`PLACE_WAIT`] for a step before the event of a request can be written. `None`: the step failed or
    /// took longer, and the request must be rejected, which is counted and logged here.
    pub async fn within_wait<Done>(&self, wait: impl Future<Output = Option<Done>>) -> Option<Done> {
        let done = timeout(PLACE_WAIT, wait).await.ok().flatten();
        if done.is_none() {
            self.count_refused("the queue of the audit log is full");
        }
        done
    }

    /// Writes an event. Returns false if it was not written in time: then the request must be rejected, which is
    /// counted and logged here. The event is not written later, unless its write is in progress at that moment.
    pub async fn write(&self, place: QueuePermit, event: &Event) -> bool {
        let (written, is_written) = oneshot::channel();
        place.0.send(AuditMessage::Line { bytes: event.line(), written: Some(written) });
        let is_written = matches!(timeout(self.write_wait, is_written).await, Ok(Ok(())));
        if !is_written {
            self.count_refused("an event was not written in time");
        }
        is_written
    }

    /// Puts an event into the queue, without waiting. If there is no place, the event is dropped, counted and logged.
    pub fn offer(&self, event: &Event) {
        if self.queue.try_send(AuditMessage::Line { bytes: event.line(), written: None }).is_err() {
            self.count_dropped("the queue of the audit log is full");
        }
    }

    /// Puts the event of a rejected request into the queue, without waiting. If there is no place, or the caller has
    /// been rejected too often ([`REJECTIONS`]), the event is dropped, counted and logged. Without this limit, one
    /// caller could fill the disk, or cause the events of others to be deleted by log rotation.
    pub fn offer_rejected(&self, event: Event, caller: RejectionKey) {
        let caller = match caller {
            RejectionKey::Address(address) => RejectionKey::Address(client_network(address)),
            user @ RejectionKey::User(_) => user,
        };
        let (caller, now) = (self.hasher.hash_one(caller), Instant::now());
        if self.rejections.lock().unwrap_or_else(PoisonError::into_inner).take(caller, now) {
            self.offer(&event.shortened());
        } else {
            self.count_dropped("one caller was rejected too often: the audit log has its first hundred rejections, and then ten in a second");
        }
    }

    /// Counts and logs an event that was dropped.
    fn count_dropped(&self, reason: &str) {
        self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        if self.begin_log_interval() {
            tracing::error!(reason, "events about ends of watches or rejected requests are missing in the audit log");
        }
    }

    /// Waits up to [`FINISH_WAIT`] until all events in the queue are written. Logs an error if they are not.
    pub async fn finish(&self) {
        let (done, finished) = oneshot::channel();
        let all = async { self.queue.send(AuditMessage::Finish(done)).await.is_ok() && finished.await.is_ok() };
        if !matches!(timeout(FINISH_WAIT, all).await, Ok(true)) {
            tracing::error!(
                seconds = FINISH_WAIT.as_secs(),
                "the last events of the audit log were not written in time: check whether --audit-log-path can be written"
            );
        }
    }

    /// Counts and logs a request that was rejected because its event cannot be written.
    fn count_refused(&self, reason: &str) {
        self.counts.refused.fetch_add(1, Ordering::Relaxed);
        if self.begin_log_interval() {
            tracing::error!(reason, "requests that need the audit log are rejected");
        }
    }

    /// As [`LogInterval::try_begin`]. Returns whether a problem may be logged now.
    fn begin_log_interval(&self) -> bool {
        self.logged.lock().unwrap_or_else(PoisonError::into_inner).try_begin()
    }
}
