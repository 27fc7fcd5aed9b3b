//! Memory of a process as the operating system counts it: before an attack, at its peak, and after.
//!
//! Peaks are resident memory (`VmHWM`). What must return is anonymous memory (`RssAnon`): pages of the program's own file come in
//! when code runs for the first time, and stay.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::accounting::{forget_peak, peak_resident_bytes, resident_bytes};
use crate::eventually::eventually;

/// One mebibyte.
pub const MIB: u64 = 1 << 20;

/// What may remain beyond a tenth of the memory before: caches that fill once, and the allocator's own structures.
pub const TOLERANCE: u64 = 24 * MIB;

/// How long memory may take to come back within a tenth. The allocator returns pages that no process uses over ten seconds or more, and
/// states of the past are let go by then.
const RETURN_DEADLINE: Duration = Duration::from_secs(45);

/// Measures one case.
#[derive(Debug)]
pub struct Meter {
    process: u32,
    before: u64,
}

impl Meter {
    /// Starts now.
    ///
    /// # Errors
    /// If there is no such process.
    pub fn start(process: u32) -> Result<Meter> {
        forget_peak(process)?;
        Ok(Meter { process, before: resident_bytes(process)? })
    }

    /// Resident memory at the start.
    #[must_use]
    pub fn before(&self) -> u64 {
        self.before
    }

    /// How far the peak since the start exceeds the memory at the start.
    ///
    /// # Errors
    /// If the process is gone.
    pub fn growth(&self) -> Result<u64> {
        Ok(peak_resident_bytes(self.process)?.saturating_sub(self.before))
    }
}

/// Resident memory now.
///
/// # Errors
/// If there is no such process.
pub fn resident(process: u32) -> Result<u64> {
    resident_bytes(process)
}

/// Anonymous resident memory now: heap and stacks, not pages of files.
///
/// # Errors
/// If there is no such process.
pub fn anonymous(process: u32) -> Result<u64> {
    let path = format!("/proc/{process}/status");
    let text = fs::read_to_string(&path).with_context(|| path.clone())?;
    let line =
        text.lines().find_map(|line| line.strip_prefix("RssAnon:")).with_context(|| format!("RssAnon in {path}"))?;
    let kibibytes: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kibibytes * 1024)
}

/// Waits until anonymous memory is back within a tenth of `before`. Returns what it is then, or at the deadline.
///
/// # Errors
/// If more than a tenth and [`TOLERANCE`] remains at the deadline.
pub async fn returned(process: u32, before: u64) -> Result<u64> {
    let tenth = before + before / 10;
    let back = eventually("memory returns", RETURN_DEADLINE, async || {
        let now = anonymous(process)?;
        ensure!(now <= tenth, "{} MiB before, {} MiB now", before / MIB, now / MIB);
        Ok(now)
    })
    .await;
    match back {
        Ok(now) => Ok(now),
        Err(error) => {
            let now = anonymous(process)?;
            if now <= tenth + TOLERANCE { Ok(now) } else { Err(error) }
        }
    }
}
