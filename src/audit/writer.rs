//! The thread that writes the audit log, and its progress.
//!
//! A batch stays in memory until the operating system has accepted every byte of it. After a failed write, the thread
//! tries again, with growing pauses, and continues after the last byte that was written. No line is written twice, and
//! none stays incomplete. A line is left out if its request was rejected meanwhile: the rejection has a line of its
//! own.

#![expect(
    clippy::disallowed_methods,
    reason = "the thread measures how long a write takes, and reports problems at intervals"
)]

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};

use super::output::{AuditOutput, Resume};

/// The length of a batch, in bytes, from which on no further line is added to it.
const BATCH: usize = 256 * 1024;

/// The first pause between attempts to write a batch. Each further one is twice the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
/// The longest pause between attempts to write a batch.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// If a write takes longer than this, the log counts as not writable: the reader of a pipe or the disk has stopped.
const STALLED_AFTER: Duration = Duration::from_secs(5);

/// The interval in which a problem is logged at most once.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// A message to the thread.
#[derive(Debug)]
pub(super) enum AuditMessage {
    /// A line with its line end.
    Line {
        /// The bytes of the line.
        bytes: Vec<u8>,
        /// Receives a value when the operating system has accepted the line. If the receiver is dropped before, the
        /// line is not written.
        written: Option<oneshot::Sender<()>>,
    },
    /// Receives a value when all lines before this message are written.
    Finish(oneshot::Sender<()>),
}

/// Counters of events, and whether more can be written now.
#[derive(Debug, Default)]
pub struct AuditCounters {
    written: AtomicU64,
    pub(super) dropped: AtomicU64,
    failures: AtomicU64,
    pub(super) refused: AtomicU64,
    progress: Mutex<Progress>,
}

#[derive(Debug, Default)]
struct Progress {
    /// When the current batch began to wait, or when bytes of it were last written; `None`: nothing waits.
    since: Option<Instant>,
    /// Why the last attempt failed; `None` if it succeeded.
    error: Option<String>,
}

impl AuditCounters {
    /// The number of events that were written.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// The number of events that were dropped: the queue was full, or one caller was rejected too often.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// The number of failed attempts to write.
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// The number of requests that were rejected because their events could not be written.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Checks whether the log can be written now, as far as the last attempt shows.
    ///
    /// # Errors
    /// The last write failed, or has not completed for [`STALLED_AFTER`]. The message states which.
    pub fn check(&self) -> Result<(), String> {
        let progress = self.progress();
        match (&progress.error, progress.since) {
            (Some(error), _) => Err(format!("the audit log cannot be written: {error}")),
            (None, Some(since)) if since.elapsed() > STALLED_AFTER => Err(format!(
                "the audit log cannot be written: no write has completed for {} s",
                since.elapsed().as_secs()
            )),
            (None, _) => Ok(()),
        }
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// When a problem was last logged.
#[derive(Debug, Default)]
pub(super) struct LogInterval(Option<Instant>);

impl LogInterval {
    /// Begins an interval, unless one is in progress. Returns whether it did: then the problem may be logged.
    pub(super) fn try_begin(&mut self) -> bool {
        let now = Instant::now();
        let is_over = self.0.is_none_or(|last| now.duration_since(last) >= LOG_EVERY);
        if is_over {
            self.0 = Some(now);
        }
        is_over
    }
}

/// A line that is not written yet.
struct PendingLine {
    bytes: Vec<u8>,
    written: Option<oneshot::Sender<()>>,
}

impl PendingLine {
    /// Whether the request no longer waits for the line.
    fn is_withdrawn(&self) -> bool {
        self.written.as_ref().is_some_and(oneshot::Sender::is_closed)
    }
}

/// The state of the thread.
pub(super) struct AuditWriter {
    output: Box<dyn AuditOutput>,
    counts: Arc<AuditCounters>,
    pending: VecDeque<PendingLine>,
    /// The number of bytes of the first pending line that are written.
    offset: usize,
    /// Receive a value when all pending lines are written.
    finishing: Vec<oneshot::Sender<()>>,
    logged: LogInterval,
}

impl AuditWriter {
    pub(super) fn new(output: Box<dyn AuditOutput>, counts: Arc<AuditCounters>) -> AuditWriter {
        let (pending, finishing) = (VecDeque::new(), Vec::new());
        AuditWriter { output, counts, pending, offset: 0, finishing, logged: LogInterval::default() }
    }

    /// Writes lines until the queue is closed. Lines that cannot be written then are dropped.
    pub(super) fn run(mut self, mut waiting: mpsc::Receiver<AuditMessage>) {
        let mut pause = FIRST_PAUSE;
        loop {
            if self.pending.is_empty() {
                self.counts.progress().since = None;
                for finished in self.finishing.drain(..) {
                    let _ = finished.send(());
                }
                let Some(message) = waiting.blocking_recv() else { return };
                self.take(message);
            }
            let mut length: usize = self.pending.iter().map(|line| line.bytes.len()).sum();
            while length < BATCH
                && let Ok(message) = waiting.try_recv()
            {
                length += self.take(message);
            }
            match self.write() {
                Ok(()) => pause = FIRST_PAUSE,
                Err(error) => {
                    self.record_failure(&error);
                    if waiting.is_closed() {
                        return;
                    }
                    thread::sleep(pause);
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }

    /// Adds a line to the pending ones, or a request to finish. Returns the length of the line, or 0.
    fn take(&mut self, message: AuditMessage) -> usize {
        match message {
            AuditMessage::Line { bytes, written } => {
                let length = bytes.len();
                self.pending.push_back(PendingLine { bytes, written });
                length
            }
            AuditMessage::Finish(done) => {
                self.finishing.push(done);
                0
            }
        }
    }

    /// Writes all pending lines to the output. Lines that were written remain removed after an error.
    fn write(&mut self) -> io::Result<()> {
        let is_torn = self.offset > 0;
        let mut is_first = true;
        // The rest of an incomplete line must be written, also if its request no longer waits.
        self.pending.retain(|line| (std::mem::take(&mut is_first) && is_torn) || !line.is_withdrawn());
        if self.pending.is_empty() {
            return Ok(());
        }
        self.counts.progress().since.get_or_insert_with(Instant::now);
        match self.output.prepare(is_torn)? {
            Resume::Continue => {}
            Resume::Restart => self.offset = 0,
            Resume::RestartOnNewLine => {
                self.offset = 0;
                self.pending.iter_mut().take(1).for_each(|line| line.bytes.insert(0, b'\n'));
            }
        }
        let batch: Vec<u8> = self.pending.iter().flat_map(|line| &*line.bytes).copied().collect();
        let mut position = self.offset;
        while position < batch.len() {
            match self.output.write(&batch[position..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(taken) => {
                    position += taken;
                    self.advance(taken);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Records that the operating system has accepted this many more bytes, and removes the lines that are complete.
    fn advance(&mut self, taken: usize) {
        {
            let mut progress = self.counts.progress();
            progress.since = Some(Instant::now());
            if progress.error.take().is_some() {
                tracing::info!("the audit log can be written again");
            }
        }
        self.offset += taken;
        while let Some(line) = self.pending.pop_front_if(|line| line.bytes.len() <= self.offset) {
            self.offset -= line.bytes.len();
            self.counts.written.fetch_add(1, Ordering::Relaxed);
            if let Some(written) = line.written {
                let _ = written.send(());
            }
        }
    }

    /// Counts and logs a failed write. A full pipe is not a failure.
    fn record_failure(&mut self, error: &io::Error) {
        // The reader of a pipe can be slow. If it has stopped, the log is not writable after `STALLED_AFTER`.
        if error.kind() == io::ErrorKind::WouldBlock {
            return;
        }
        self.counts.failures.fetch_add(1, Ordering::Relaxed);
        self.counts.progress().error = Some(error.to_string());
        if self.logged.try_begin() {
            let lines = self.pending.len();
            tracing::error!(
                %error, lines,
                "the audit log cannot be written: its lines stay queued, the write is retried, and requests that need it get 503"
            );
        }
    }
}
