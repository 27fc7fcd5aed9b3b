//! The queue of events and the file behind it. Writing has a thread of its own: no request waits for a disk.
//!
//! What happens when it cannot be written as fast as events come, decided for a right that is worth auditing: a request that is about to be
//! answered first takes a [`Place`] in the queue, waits for one for some seconds, and is refused if there is none, so that nothing is
//! shown untold. That is kube-apiserver's mode `blocking`, bounded. What need not wait (a refusal, the end of a watch whose beginning
//! was told) is dropped where there is no place, counted and told in the log. Events that cannot be written (a full disk) are likewise counted
//! and told, and the next ones tried.
//!
//! A file is opened for append and opened anew when another one has come under its name, so that whatever rotates logs need not tell us.

#![expect(clippy::disallowed_methods, reason = "the room writes a file, and tells of trouble once in a while only")]

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::{Event, Policy};

/// Events that may wait to be written; a stalled disk costs a megabyte or so, and 64 where all have the longest of paths.
const QUEUE: usize = 1024;

/// How long a request waits for a place.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long the end of the program waits for what is still to be written.
const LAST_PATIENCE: Duration = Duration::from_secs(if cfg!(test) { 60 } else { 5 });

/// How much is written at once.
const BATCH: usize = 256 * 1024;

/// How often the same trouble is told.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// Who may read the file: who wrote it. It names users.
const FILE_MODE: u32 = 0o600;

/// The path that means standard output; kube-apiserver's.
pub const STANDARD_OUTPUT: &str = "-";

/// The log cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file.
    #[error("--audit-log-path: {} cannot be opened for append; name a file in a folder that is there and may be written to, or - for standard output", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The thread that writes.
    #[error("the thread that writes the audit log cannot be started")]
    Thread(#[source] io::Error),
}

/// What has become of events.
#[derive(Debug, Default)]
pub struct Counts {
    written: AtomicU64,
    dropped: AtomicU64,
    failed: AtomicU64,
    refused: AtomicU64,
}

impl Counts {
    /// Events that were written.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Events for which there was no place.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Events that could not be written.
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// Requests that were refused, since their events would not have been told.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

/// What the writer is sent.
#[derive(Debug)]
enum Message {
    Line(Vec<u8>),
    /// To be answered once everything before it is written.
    Finish(oneshot::Sender<()>),
}

/// Where events go.
#[derive(Debug)]
pub struct Log {
    policy: Policy,
    queue: mpsc::Sender<Message>,
    counts: Arc<Counts>,
    trouble: Mutex<Trouble>,
}

/// A place in the queue: whatever is put there will be written.
#[derive(Debug)]
pub struct Place(mpsc::OwnedPermit<Message>);

impl Place {
    /// Puts an event there.
    pub fn put(self, event: &Event) {
        let _ = self.0.send(Message::Line(event.line()));
    }
}

impl Log {
    /// Writes the events that a policy takes to a file, or to standard output ([`STANDARD_OUTPUT`]).
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(path: &str, policy: Policy) -> Result<Log, OpenError> {
        if path == STANDARD_OUTPUT {
            return Log::to(Box::new(io::stdout()), policy, QUEUE);
        }
        let path = PathBuf::from(path);
        let file = Followed::open(&path).map_err(|source| OpenError::File { path, source })?;
        Log::to(Box::new(file), policy, QUEUE)
    }

    /// The same, to anything, with a queue of this length.
    pub(super) fn to(output: Box<dyn Write + Send>, policy: Policy, length: usize) -> Result<Log, OpenError> {
        let (queue, waiting) = mpsc::channel(length);
        let counts = Arc::new(Counts::default());
        let writer = Writer { output, counts: counts.clone(), trouble: Trouble::default(), is_torn: false };
        thread::Builder::new()
            .name("audit".to_owned())
            .spawn(move || writer.run(waiting))
            .map_err(OpenError::Thread)?;
        Ok(Log { policy, queue, counts, trouble: Mutex::default() })
    }

    /// Which requests are told.
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// What has become of events.
    pub fn counts(&self) -> &Arc<Counts> {
        &self.counts
    }

    /// A place for an event, waiting for one; `None`: there is none, and the request must not be answered.
    pub async fn place(&self) -> Option<Place> {
        match timeout(PATIENCE, self.queue.clone().reserve_owned()).await {
            Ok(Ok(permit)) => Some(Place(permit)),
            Ok(Err(_)) | Err(_) => {
                self.counts.refused.fetch_add(1, Ordering::Relaxed);
                if self.is_to_be_told() {
                    tracing::error!(
                        "the audit log is written too slowly: requests that it would have to tell of are refused"
                    );
                }
                None
            }
        }
    }

    /// Puts an event into the queue if there is a place.
    pub fn offer(&self, event: &Event) {
        if self.queue.try_send(Message::Line(event.line())).is_err() {
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
            if self.is_to_be_told() {
                tracing::error!(
                    "the audit log is written too slowly: ends of watches and refused requests are missing in it"
                );
            }
        }
    }

    /// Waits, not for long, until everything is written that is in the queue.
    pub async fn finish(&self) {
        let (done, finished) = oneshot::channel();
        let all = async { self.queue.send(Message::Finish(done)).await.is_ok() && finished.await.is_ok() };
        if !matches!(timeout(LAST_PATIENCE, all).await, Ok(true)) {
            tracing::error!("the audit log's last events could not be written");
        }
    }

    fn is_to_be_told(&self) -> bool {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).is_to_be_told()
    }
}

/// When trouble was last told.
#[derive(Debug, Default)]
struct Trouble(Option<Instant>);

impl Trouble {
    fn is_to_be_told(&mut self) -> bool {
        let now = Instant::now();
        let is_due = self.0.is_none_or(|last| now.duration_since(last) >= TELL_EVERY);
        if is_due {
            self.0 = Some(now);
        }
        is_due
    }
}

struct Writer {
    output: Box<dyn Write + Send>,
    counts: Arc<Counts>,
    trouble: Trouble,
    /// Whether the last line may be half there.
    is_torn: bool,
}

impl Writer {
    /// Ends with the last [`Log`].
    fn run(mut self, mut waiting: mpsc::Receiver<Message>) {
        let mut batch = Vec::new();
        while let Some(first) = waiting.blocking_recv() {
            let (mut lines, mut next, mut finished) = (0, Some(first), None);
            while let Some(message) = next {
                match message {
                    Message::Line(line) => {
                        batch.extend_from_slice(&line);
                        lines += 1;
                    }
                    Message::Finish(done) => finished = Some(done),
                }
                next = if batch.len() < BATCH && finished.is_none() { waiting.try_recv().ok() } else { None };
            }
            self.write(&batch, lines);
            batch.clear();
            if let Some(done) = finished {
                let _ = done.send(());
            }
        }
    }

    fn write(&mut self, batch: &[u8], lines: u64) {
        if lines == 0 {
            return;
        }
        let written = if self.is_torn { self.output.write_all(b"\n") } else { Ok(()) }
            .and_then(|()| self.output.write_all(batch))
            .and_then(|()| self.output.flush());
        self.is_torn = written.is_err();
        match written {
            Ok(()) => {
                self.counts.written.fetch_add(lines, Ordering::Relaxed);
            }
            Err(error) => {
                self.counts.failed.fetch_add(lines, Ordering::Relaxed);
                if self.trouble.is_to_be_told() {
                    tracing::error!(%error, lines, "the audit log cannot be written to: events are lost");
                }
            }
        }
    }
}

/// A file that is known by its name.
#[derive(Debug)]
struct Followed {
    path: PathBuf,
    file: File,
}

impl Followed {
    fn open(path: &Path) -> io::Result<Followed> {
        let file = OpenOptions::new().create(true).append(true).mode(FILE_MODE).open(path)?;
        Ok(Followed { path: path.to_owned(), file })
    }

    /// Whether the file is the one of that name, still.
    fn is_current(&self) -> bool {
        let place = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
        let named = std::fs::metadata(&self.path).map(place);
        matches!((named, self.file.metadata().map(place)), (Ok(named), Ok(held)) if named == held)
    }
}

impl Write for Followed {
    /// Looks at its name before each batch, which is one call.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.is_current() {
            *self = Followed::open(&self.path)?;
        }
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
