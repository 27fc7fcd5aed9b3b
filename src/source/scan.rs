//! Reading a folder from disk and following it.
//!
//! A change is noticed through the operating system (`notify`), gathered for a moment, and answered with one reading
//! of the whole folder; a slow repetition of that reading catches what was missed (network file systems send no
//! events). What the files mean is [`super::folder`]'s. Hidden files, editors' leftovers and other endings than
//! `.yaml`, `.yml` and `.json` are passed over. Links are followed, each directory once: a mounted ConfigMap, whose
//! files are links into a hidden directory, is read through its visible names.

#![expect(clippy::disallowed_methods, reason = "this file is where folder mode reads the disk")]

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc;

use super::folder::{BuiltInKinds, FieldJudge, File, Files, FolderDelta, FolderProblem, FolderState};

/// How long events are gathered before the folder is read: an editor writes a file in several steps.
const GATHER: Duration = Duration::from_millis(100);
/// How often the folder is read although nothing was noticed.
const REPEAT: Duration = Duration::from_secs(10);
/// Larger files are reported and not read; a manifest is bounded by what etcd takes, 1.5 MiB an object.
const MAX_FILE: u64 = 256 << 20;

/// Reads every manifest below a folder. Paths are relative to it, with `/` between their parts.
///
/// # Errors
/// The folder itself cannot be read; trouble with a single file is a problem in the answer.
pub fn scan(root: &Path) -> io::Result<(Files, Vec<FolderProblem>)> {
    let mut scan = Scan { files: Files::new(), problems: Vec::new(), seen: HashSet::new() };
    scan.seen.insert(root.canonicalize()?);
    scan.directory(root, "")?;
    Ok((scan.files, scan.problems))
}

struct Scan {
    files: Files,
    problems: Vec<FolderProblem>,
    /// Directories by their real path, so that links in a circle end.
    seen: HashSet<PathBuf>,
}

impl Scan {
    fn directory(&mut self, directory: &Path, relative: &str) -> io::Result<()> {
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
            if let Err(error) = self.entry(&path, &relative)
                // It went away between being listed and being read.
                && error.kind() != io::ErrorKind::NotFound
            {
                self.problem(&relative, error.to_string());
            }
        }
        Ok(())
    }

    fn entry(&mut self, path: &Path, relative: &str) -> io::Result<()> {
        let facts = std::fs::metadata(path)?;
        if facts.is_dir() {
            if self.seen.insert(path.canonicalize()?) {
                self.directory(path, relative)?;
            }
            return Ok(());
        }
        if !facts.is_file() || !is_manifest(relative) {
            return Ok(());
        }
        if facts.len() > MAX_FILE {
            self.problem(relative, format!("larger than {MAX_FILE} bytes, not read"));
            return Ok(());
        }
        let bytes = std::fs::read(path)?;
        let modified = facts.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let modified = modified.and_then(|time| i64::try_from(time.as_secs()).ok()).unwrap_or_default();
        self.files.insert(relative.to_owned(), File { bytes: bytes.into(), modified });
        Ok(())
    }

    fn problem(&mut self, file: &str, cause: String) {
        self.problems.push(FolderProblem { file: file.to_owned(), line: 1, cause });
    }
}

/// Hidden files and what editors leave beside a file.
fn is_passed_over(name: &str) -> bool {
    name.starts_with(['.', '#']) || name.ends_with('~')
}

fn is_manifest(path: &str) -> bool {
    let ending = path.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
    matches!(ending.as_deref(), Some("yaml" | "yml" | "json"))
}

/// Reads a folder once, for the first delta or for commands that only look.
///
/// # Errors
/// The folder itself cannot be read.
pub fn read(
    root: &Path,
    state: &mut FolderState,
    built_in: BuiltInKinds<'_>,
    judge: FieldJudge<'_>,
) -> io::Result<FolderDelta> {
    let (files, problems) = scan(root)?;
    let mut delta = state.update(&files, built_in, judge);
    delta.problems.extend(problems);
    delta.problems.sort();
    Ok(delta)
}

/// Waits for changes of a folder.
pub struct Follower {
    root: PathBuf,
    /// Holds at most one signal: more would say the same.
    signals: mpsc::Receiver<()>,
    /// Dropping it ends the events. `None` when the system offers none; then only the repetition works.
    _watcher: Option<RecommendedWatcher>,
}

impl Follower {
    /// Starts listening; call it before the first reading, so that nothing falls between.
    ///
    /// The text is why the system's events are missing, if they are: the folder is then read every ten seconds only.
    pub fn start(root: &Path) -> (Follower, Option<String>) {
        let (sender, signals) = mpsc::channel(1);
        // A full queue holds a signal already, and a closed one has nobody to tell.
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
        (Follower { root: root.to_owned(), signals, _watcher: watcher }, trouble)
    }

    /// Waits until the folder may have changed, then reads it. Cancelling loses nothing that the next reading would
    /// not find.
    ///
    /// # Errors
    /// The folder itself cannot be read any more.
    pub async fn next(&mut self) -> io::Result<(Files, Vec<FolderProblem>)> {
        tokio::select! {
            Some(()) = self.signals.recv() => {
                tokio::time::sleep(GATHER).await;
                // What came meanwhile is part of this reading.
                while self.signals.try_recv().is_ok() {}
            }
            () = tokio::time::sleep(REPEAT) => {}
        }
        let root = self.root.clone();
        tokio::task::spawn_blocking(move || scan(&root)).await.map_err(io::Error::other)?
    }
}
