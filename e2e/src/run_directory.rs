//! Where a run keeps its data and logs: `e2e/.cache/run/NAME`.
//!
//! A directory is removed when dropped, except while a test is failing: then its logs stay to be read. What was left
//! behind by a failure, a shared control plane (statics are never dropped) or a killed run is swept by the next run. A
//! lock on a file beside the directory shows whether its owner lives. The operating system releases it however the
//! owner ends.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::unique;

/// A directory for one run of something.
#[derive(Debug)]
pub struct RunDirectory {
    path: PathBuf,
    /// Locked for as long as the directory is in use.
    _lock: File,
}

impl RunDirectory {
    /// Makes a directory whose name starts with `label`, and sweeps those that no process uses any more.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn create(label: &str) -> Result<RunDirectory> {
        let parent = cache_directory().join("run");
        fs::create_dir_all(&parent).with_context(|| format!("creating {}", parent.display()))?;
        sweep(&parent);
        let name = unique::name(label);
        let lock_path = parent.join(format!("{name}.lock"));
        let lock = File::create_new(&lock_path).with_context(|| format!("creating {}", lock_path.display()))?;
        lock.lock().with_context(|| format!("locking {}", lock_path.display()))?;
        let path = parent.join(name);
        fs::create_dir(&path).with_context(|| format!("creating {}", path.display()))?;
        Ok(RunDirectory { path, _lock: lock })
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes `content` to the file `name` in it and returns the file's path.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> Result<PathBuf> {
        let path = self.path.join(name);
        fs::write(&path, content).with_context(|| format!("writing {}", path.display()))?;
        Ok(path)
    }
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // What cannot be removed now is swept by the next run.
            let _ = fs::remove_dir_all(&self.path);
            let _ = fs::remove_file(self.path.with_extension("lock"));
        }
    }
}

/// `e2e/.cache`: everything built or left by the test bed, ignored by git.
#[must_use]
pub fn cache_directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(".cache")
}

/// Removes every directory whose lock is free. Failures are left to the next sweep: another run may be sweeping too.
fn sweep(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let lock_path = entry.path();
        if lock_path.extension().is_none_or(|extension| extension != "lock") {
            continue;
        }
        let Ok(lock) = File::open(&lock_path) else { continue };
        if lock.try_lock().is_ok() {
            let _ = fs::remove_dir_all(lock_path.with_extension(""));
            let _ = fs::remove_file(&lock_path);
        }
    }
}
