//! The destination of the audit log: a file at a path, or standard output.
//!
//! Writes are single system calls without a buffer, so that the writer knows which bytes the operating system has taken. Files are
//! opened so that neither `open` nor a write waits for the reader of a FIFO.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;

/// Permissions of a new file: only the owner reads it, since it names users.
const FILE_MODE: u32 = 0o600;

/// How to continue a line of which only a part was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resume {
    /// Continue with the byte after that part.
    Continue,
    /// With the first byte of the line, since that part is elsewhere.
    Restart,
    /// Continue after a line end: the file changed behind that part.
    RestartOnNewLine,
}

/// A destination of bytes.
pub(super) trait AuditOutput: Send {
    /// Makes the destination ready for a batch. `is_torn`: the last line that was written is not complete.
    fn prepare(&mut self, is_torn: bool) -> io::Result<Resume>;

    /// Hands bytes to the operating system and returns how many it took.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;
}

/// Standard output, without the buffer of the standard library: it keeps bytes that a failed write left and would repeat them.
pub(super) struct StandardOutput(File);

impl StandardOutput {
    pub(super) fn open() -> io::Result<StandardOutput> {
        Ok(StandardOutput(File::from(io::stdout().as_fd().try_clone_to_owned()?)))
    }
}

impl AuditOutput for StandardOutput {
    fn prepare(&mut self, _is_torn: bool) -> io::Result<Resume> {
        Ok(Resume::Continue)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }
}

/// A file at a path. If the path names another file, that one is opened instead, so that log rotation needs no signal.
pub(super) struct LogFile {
    path: PathBuf,
    /// `None` until a FIFO has a reader.
    file: Option<File>,
    /// The length of a regular file after the last write, to notice a change by another process.
    length: Option<u64>,
}

impl LogFile {
    /// # Errors
    /// The file cannot be opened. A FIFO that has no reader yet is not an error.
    pub(super) fn open(path: &Path) -> io::Result<LogFile> {
        let file = match open(path) {
            Err(error) if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => None,
            opened => Some(opened?),
        };
        Ok(LogFile { path: path.to_owned(), file, length: None })
    }

    /// Whether the open file still has the path.
    fn is_current(&self) -> bool {
        let identity = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
        let Some(Ok(held)) = self.file.as_ref().map(File::metadata) else { return false };
        std::fs::metadata(&self.path).is_ok_and(|named| identity(named) == identity(held))
    }

    /// The length of the file; `None` when it is no regular file.
    fn regular_length(&self) -> Option<u64> {
        let metadata = self.file.as_ref()?.metadata().ok()?;
        metadata.is_file().then_some(metadata.len())
    }
}

/// Opens a file to append to. A FIFO is opened without waiting for a reader.
fn open(path: &Path) -> io::Result<File> {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let is_fifo = std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_fifo());
    OpenOptions::new().create(!is_fifo).append(true).mode(FILE_MODE).custom_flags(flags).open(path)
}

impl AuditOutput for LogFile {
    fn prepare(&mut self, is_torn: bool) -> io::Result<Resume> {
        if !self.is_current() {
            // The old file stays open until there is a new one.
            self.file = Some(open(&self.path)?);
            self.length = None;
            return Ok(Resume::Restart);
        }
        match (self.length, self.regular_length()) {
            (Some(_), Some(0)) if is_torn => Ok(Resume::Restart),
            (Some(left), Some(found)) if is_torn && left != found => Ok(Resume::RestartOnNewLine),
            _ => Ok(Resume::Continue),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let file = self.file.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        let written = file.write(bytes);
        self.length = self.regular_length();
        written
    }
}
