//! The thread that writes the audit log, and its progress.
//!
//! A batch stays in memory until the operating system has taken every byte of it. After a failed write the thread tries
//! again, with growing pauses, and continues after the last byte that was written. No line is written twice, and none
//! stays incomplete. A line whose request was rejected meanwhile is left out; that request gets a line of its own, with
//! its true result.

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

/// How much is written at once.
const BATCH: usize = 256 * 1024;

/// The pauses between attempts to write a batch: each is twice the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A write that takes longer than this means that the log cannot be written: its reader has stopped, or its disk.
const STALLED_AFTER: Duration = Duration::from_secs(5);

/// How often the same problem is logged.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// What the thread receives.
#[derive(Debug)]
pub(super) enum AuditMessage {
    /// A line with its line end.
    Line {
        /// Its bytes.
        bytes: Vec<u8>,
        /// Receives a value when the operating system has the line. If the receiver is gone, the line is not to be written.
        written: Option<oneshot::Sender<()>>,
    },
    /// Answered when everything before it is written.
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
    /// Since when the current batch is waiting to be written.
    since: Option<Instant>,
    /// Why the last attempt failed.
    error: Option<String>,
}

impl AuditCounters {
    /// The number of events that were written.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Events for which the queue had no place.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// The number of failed attempts to write.
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Requests that were rejected because their events could not be written.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Whether the log can be written now, as far as the last attempt shows.
    ///
    /// # Errors
    /// Why not.
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
    /// Whether the problem may be logged again.
    pub(super) fn is_due(&mut self) -> bool {
        let now = Instant::now();
        let is_due = self.0.is_none_or(|last| now.duration_since(last) >= LOG_EVERY);
        if is_due {
            self.0 = Some(now);
        }
        is_due
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
    /// How many bytes of the first pending line are written.
    offset: usize,
    finishing: Vec<oneshot::Sender<()>>,
    logged: LogInterval,
}

impl AuditWriter {
    pub(super) fn new(output: Box<dyn AuditOutput>, counts: Arc<AuditCounters>) -> AuditWriter {
        let (pending, finishing) = (VecDeque::new(), Vec::new());
        AuditWriter { output, counts, pending, offset: 0, finishing, logged: LogInterval::default() }
    }

    /// Writes until the queue is closed; pending lines are dropped then if they cannot be written.
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
                    self.failed(&error);
                    if waiting.is_closed() {
                        return;
                    }
                    thread::sleep(pause);
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }

    /// Queues a line and returns its length, or notes a request to finish.
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

    /// Writes all pending events to the output.
    fn write(&mut self) -> io::Result<()> {
        let is_torn = self.offset > 0;
        let mut is_first = true;
        // Of a torn line the rest must follow, whether its request still waits or not.
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

    /// Notes that the operating system has taken this many more bytes.
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

    /// Counts and logs a failed write. A full pipe is no failure.
    fn failed(&mut self, error: &io::Error) {
        // The reader of a pipe is slow; if it has stopped, time shows it.
        if error.kind() == io::ErrorKind::WouldBlock {
            return;
        }
        self.counts.failures.fetch_add(1, Ordering::Relaxed);
        self.counts.progress().error = Some(error.to_string());
        if self.logged.is_due() {
            let lines = self.pending.len();
            tracing::error!(
                %error, lines,
                "the audit log cannot be written: its lines stay queued, the write is retried, and requests that need it get 503"
            );
        }
    }
}
