//! Reads a folder from disk and follows it.
//!
//! The operating system (`notify`) reports changes, which are collected for a moment; then the whole folder is scanned.
//! A slow periodic scan finds what was missed, because network file systems send no events. Files with unchanged
//! metadata are not read again. [`super::folder`] interprets the files. Hidden files, editors' leftovers and other
//! endings than `.yaml`, `.yml` and `.json` are ignored. Links within the folder are followed, each directory once: a
//! mounted ConfigMap, whose files are links into a hidden directory, is read through its visible names. A link that
//! leads out of the folder is reported and not read, because a folder can come from someone else.

#![expect(clippy::disallowed_methods, reason = "this file is where folder mode reads the disk")]

use std::collections::{BTreeMap, HashSet};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc;

use super::folder::{BuiltInKindLookup, FieldJudge, File, Files, FolderDelta, FolderProblem, FolderState};

/// How long events are collected before the folder is read: an editor writes a file in several steps.
const GATHER: Duration = Duration::from_millis(100);
/// How often the folder is scanned without a reported change.
pub const REPEAT: Duration = Duration::from_secs(10);
/// Larger files are reported and not read; a manifest is bounded by what etcd takes, 1.5 MiB an object.
const MAX_FILE: u64 = 256 << 20;
/// The deepest level of nested directories that is read.
const MAX_DIRECTORIES: usize = 100;

/// In seconds. A file that changed more recently than this before it was read is read again. A second write within one
/// tick of the file system's clock would not show. Two seconds is the coarsest clock in use (FAT).
const SETTLED_AFTER: i64 = 2;

/// Scans one folder repeatedly.
#[derive(Debug)]
pub struct Scanner {
    root: PathBuf,
    /// Returns the time, in seconds since 1970.
    clock: fn() -> i64,
    /// The files of the last scan with their metadata, by path, without those that changed too recently.
    known: BTreeMap<String, (Stamp, File)>,
}

/// The metadata of a file; when they have not changed, neither have the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    /// Seconds and nanoseconds.
    modified: (i64, i64),
    /// The time of the last change of content or metadata, which no program can set.
    changed: (i64, i64),
}

impl Stamp {
    /// The metadata of a file that change with its content.
    fn from_metadata(facts: &std::fs::Metadata) -> Stamp {
        Stamp {
            device: facts.dev(),
            inode: facts.ino(),
            size: facts.size(),
            modified: (facts.mtime(), facts.mtime_nsec()),
            changed: (facts.ctime(), facts.ctime_nsec()),
        }
    }

    /// Whether every change after `now` is certain to change the stamp. `now` is in seconds since 1970.
    fn is_settled(&self, now: i64) -> bool {
        self.modified.0.max(self.changed.0) + SETTLED_AFTER < now
    }
}

impl Scanner {
    /// A scanner that has not read anything.
    pub fn new(root: &Path) -> Scanner {
        Scanner::with_clock(root, || {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            i64::try_from(now.as_secs()).unwrap_or(i64::MAX)
        })
    }

    /// A scanner with another clock, of seconds since 1970.
    pub fn with_clock(root: &Path, clock: fn() -> i64) -> Scanner {
        Scanner { root: root.to_owned(), clock, known: BTreeMap::new() }
    }

    /// Finds every manifest below the folder and reads those that changed; the bytes of the others are the same
    /// allocation as before. Paths are relative to the folder, with `/` between their parts.
    ///
    /// # Errors
    /// The folder itself cannot be read. A file that cannot be read is one of the returned problems.
    pub fn scan(&mut self) -> io::Result<(Files, Vec<FolderProblem>)> {
        let root = self.root.canonicalize()?;
        let mut scan = Scan {
            root: &root,
            now: (self.clock)(),
            known: &self.known,
            found: BTreeMap::new(),
            files: Files::new(),
            problems: Vec::new(),
            seen: HashSet::new(),
        };
        scan.seen.insert(root.clone());
        scan.scan_directory(&self.root, "")?;
        let Scan { found, files, problems, .. } = scan;
        self.known = found;
        Ok((files, problems))
    }

    /// Scans once, and returns what has changed.
    ///
    /// # Errors
    /// As [`Scanner::scan`].
    pub fn update(
        &mut self,
        state: &mut FolderState,
        built_in: BuiltInKindLookup<'_>,
        judge: FieldJudge<'_>,
    ) -> io::Result<FolderDelta> {
        let (files, problems) = self.scan()?;
        let mut delta = state.update(&files, built_in, judge);
        delta.problems.extend(problems);
        delta.problems.sort();
        Ok(delta)
    }
}

/// One scan in progress.
struct Scan<'a> {
    /// The real path of the folder.
    root: &'a Path,
    /// Seconds since 1970.
    now: i64,
    /// Files of the last scan.
    known: &'a BTreeMap<String, (Stamp, File)>,
    /// Files for the next scan; see [`Scanner::known`].
    found: BTreeMap<String, (Stamp, File)>,
    files: Files,
    problems: Vec<FolderProblem>,
    /// Directories by their real path, so that links in a circle end.
    seen: HashSet<PathBuf>,
}

impl Scan<'_> {
    /// Scans a directory. `relative` is its path relative to the folder. Problems below it do not end the scan.
    ///
    /// # Errors
    /// The directory cannot be listed.
    fn scan_directory(&mut self, directory: &Path, relative: &str) -> io::Result<()> {
        let mut entries = std::fs::read_dir(directory)?.collect::<io::Result<Vec<_>>>()?;
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if is_passed_over(&name) {
                continue;
            }
            let path = entry.path();
            let relative = if relative.is_empty() { name.into_owned() } else { format!("{relative}/{name}") };
            if let Err(error) = self.scan_entry(&path, &relative)
                // It went away between being listed and being read.
                && error.kind() != io::ErrorKind::NotFound
            {
                self.add_problem(&relative, error.to_string());
            }
        }
        Ok(())
    }

    /// Scans a file or a directory. `relative` is its path relative to the folder.
    ///
    /// # Errors
    /// It cannot be read, or does not exist any more.
    fn scan_entry(&mut self, path: &Path, relative: &str) -> io::Result<()> {
        let mut facts = std::fs::symlink_metadata(path)?;
        if facts.is_symlink() {
            if !path.canonicalize()?.starts_with(self.root) {
                self.add_problem(relative, "a link that leads out of the folder, not read".to_owned());
                return Ok(());
            }
            facts = std::fs::metadata(path)?;
        }
        if facts.is_dir() {
            if relative.split('/').count() > MAX_DIRECTORIES {
                self.add_problem(relative, format!("deeper than {MAX_DIRECTORIES} directories, not read"));
                return Ok(());
            }
            if self.seen.insert(path.canonicalize()?) {
                self.scan_directory(path, relative)?;
            }
            return Ok(());
        }
        if !facts.is_file() || !is_manifest(relative) {
            return Ok(());
        }
        if facts.len() > MAX_FILE {
            self.add_problem(relative, too_large());
            return Ok(());
        }
        let stamp = Stamp::from_metadata(&facts);
        let file = match self.known.get(relative) {
            Some((known, file)) if *known == stamp => file.clone(),
            _ => {
                let Some(bytes) = read_bounded(path)? else {
                    self.add_problem(relative, too_large());
                    return Ok(());
                };
                File { bytes: Arc::from(bytes), modified: facts.mtime() }
            }
        };
        // A file that changed a moment ago is read again by the next scan.
        if stamp.is_settled(self.now) {
            self.found.insert(relative.to_owned(), (stamp, file.clone()));
        }
        self.files.insert(relative.to_owned(), file);
        Ok(())
    }

    /// Adds a problem of a file, at its first line.
    fn add_problem(&mut self, file: &str, cause: String) {
        self.problems.push(FolderProblem { file: file.to_owned(), line: 1, cause });
    }
}

/// The problem of a file that has more than [`MAX_FILE`] bytes.
fn too_large() -> String {
    format!("larger than {} MiB, so it is not read: split the file", MAX_FILE >> 20)
}

/// The bytes of a file; `None` if there are more than [`MAX_FILE`]. The length in its metadata is not used. It is 0 for
/// files that the kernel generates when they are read, and a file can grow. Does not wait
/// for bytes that have not arrived.
pub(super) fn read_bounded(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let mut bytes = Vec::new();
    // Not one byte more: some files of the kernel can only be read in multiples of eight bytes.
    let read = file.take(MAX_FILE + 4096).read_to_end(&mut bytes)?;
    Ok((read as u64 <= MAX_FILE).then_some(bytes))
}

/// Whether a name is skipped: hidden files, and backup and lock files of editors.
fn is_passed_over(name: &str) -> bool {
    name.starts_with(['.', '#']) || name.ends_with('~')
}

fn is_manifest(path: &str) -> bool {
    let ending = path.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
    matches!(ending.as_deref(), Some("yaml" | "yml" | "json"))
}

/// Waits for changes of a folder.
pub struct Follower {
    /// Has at most one signal: more would have the same effect.
    signals: mpsc::Receiver<()>,
    /// How often the folder is scanned without a reported change.
    repeat: Duration,
    /// Dropping it ends the events. `None` when the system offers none; then only the repetition works.
    _watcher: Option<RecommendedWatcher>,
}

impl Follower {
    /// Starts to receive the events of the system. Call it before the first scan, so that no change is missed.
    ///
    /// Also returns why the system reports no events, or `None` if it does. Without events, the folder is only scanned
    /// every `repeat`.
    pub fn start(root: &Path, repeat: Duration) -> (Follower, Option<String>) {
        let (sender, signals) = mpsc::channel(1);
        // A full queue has a signal already, and a closed one has no receiver.
        let notify = move |event: notify::Result<notify::Event>| {
            if !matches!(&event, Ok(event) if event.kind.is_access()) {
                let _signal_is_waiting_or_unwanted = sender.try_send(());
            }
        };
        let watcher = notify::recommended_watcher(notify).and_then(|mut watcher| {
            watcher.watch(root, RecursiveMode::Recursive)?;
            Ok(watcher)
        });
        let (watcher, trouble) = match watcher {
            Ok(watcher) => (Some(watcher), None),
            Err(error) => (None, Some(error.to_string())),
        };
        (Follower { signals, repeat, _watcher: watcher }, trouble)
    }

    /// Waits until the folder may have changed. Dropping the future loses nothing that the next scan would not find.
    pub async fn wait(&mut self) {
        tokio::select! {
            Some(()) = self.signals.recv() => {
                tokio::time::sleep(GATHER).await;
                // What came meanwhile is part of the next scan.
                while self.signals.try_recv().is_ok() {}
            }
            () = tokio::time::sleep(self.repeat) => {}
        }
    }
}
