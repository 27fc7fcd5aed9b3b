//! The destination of the audit log: a file at a path, or standard output.
//!
//! Writes are single system calls without a buffer, so that the writer knows which bytes the operating system has
//! accepted. Files are opened so that neither `open` nor a write waits for the reader of a FIFO.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;

/// Permissions of a new file: only the owner can read it, because it names users.
const FILE_MODE: u32 = 0o600;

/// How to continue a line of which only a part was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resume {
    /// Write the bytes after that part.
    Continue,
    /// Write the whole line again: that part is not in the current file.
    Restart,
    /// Write a line end and then the whole line again: another process has changed the file after that part.
    RestartOnNewLine,
}

/// A destination of bytes.
pub(super) trait AuditOutput: Send {
    /// Makes the destination ready for a batch of lines, and returns how to continue the last line that was written.
    /// `is_torn`: this line is not complete.
    fn prepare(&mut self, is_torn: bool) -> io::Result<Resume>;

    /// Passes bytes to the operating system, and returns how many of them it accepted.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;
}

/// Standard output, without the buffer of the standard library, which would keep the bytes of a failed write and repeat
/// them.
pub(super) struct StandardOutput(File);

impl StandardOutput {
    pub(super) fn open() -> io::Result<StandardOutput> {
        Ok(StandardOutput(File::from(io::stdout().as_fd().try_clone_to_owned()?)))
    }
}

impl AuditOutput for StandardOutput {
    /// Does nothing: standard output is never replaced by another file.
    fn prepare(&mut self, _is_torn: bool) -> io::Result<Resume> {
        Ok(Resume::Continue)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }
}

/// A file at a path. If the path later names another file, that file is opened, so that log rotation needs no signal.
pub(super) struct LogFile {
    path: PathBuf,
    /// `None` until a FIFO has a reader.
    file: Option<File>,
    /// The length of a regular file after the last write, to notice a change by another process.
    length: Option<u64>,
}

impl LogFile {
    /// Opens the file at a path to append to it. It is created if it is missing.
    ///
    /// # Errors
    /// The file cannot be opened. A FIFO that has no reader yet is not an error.
    pub(super) fn open(path: &Path) -> io::Result<LogFile> {
        let file = match open(path) {
            Err(error) if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => None,
            opened => Some(opened?),
        };
        Ok(LogFile { path: path.to_owned(), file, length: None })
    }

    /// Whether there is an open file, and the path still names it.
    fn is_current(&self) -> bool {
        let identity = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
        let Some(Ok(held)) = self.file.as_ref().map(File::metadata) else { return false };
        std::fs::metadata(&self.path).is_ok_and(|named| identity(named) == identity(held))
    }

    /// The length of the open file, in bytes; `None` if there is none, or it is not a regular file.
    fn regular_length(&self) -> Option<u64> {
        let metadata = self.file.as_ref()?.metadata().ok()?;
        metadata.is_file().then_some(metadata.len())
    }
}

/// Opens a file to append to. A FIFO is opened without waiting for a reader.
fn open(path: &Path) -> io::Result<File> {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let is_fifo = std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_fifo());
    // In a directory such as /tmp, Linux does not open the FIFO of another user for creation (fs.protected_fifos).
    OpenOptions::new().create(!is_fifo).append(true).mode(FILE_MODE).custom_flags(flags).open(path)
}

impl AuditOutput for LogFile {
    /// Opens the file that the path names now, if it is another one. Otherwise the length of the file shows whether it
    /// has been changed since the last write, which matters only within a line.
    fn prepare(&mut self, is_torn: bool) -> io::Result<Resume> {
        if !self.is_current() {
            // The old file stays open until there is a new one.
            self.file = Some(open(&self.path)?);
            self.length = None;
            return Ok(Resume::Restart);
        }
        match (self.length, self.regular_length()) {
            // The file was truncated, for example by log rotation.
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
