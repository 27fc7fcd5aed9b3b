//! What the operating system says a process has used (Linux `/proc`), for the benchmarks.
//!
//! Whole processes only: all threads, those that have ended included.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::time::interval;

/// Linux books CPU time for user space in hundredths of a second on every architecture it runs on.
const TICKS_PER_SECOND: u64 = 100;

/// CPU time of all threads of a process so far, user and system, in steps of ten milliseconds.
///
/// # Errors
/// When there is no such process.
pub fn cpu(process: u32) -> Result<Duration> {
    let path = format!("/proc/{process}/stat");
    let text = fs::read_to_string(&path).with_context(|| path.clone())?;
    cpu_of_stat(&text).with_context(|| path)
}

/// The same from the text of a `stat` file.
///
/// # Errors
/// When it is none.
pub fn cpu_of_stat(text: &str) -> Result<Duration> {
    // The name in parentheses may hold blanks; what follows it does not.
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|text| text.parse::<u64>().ok());
    let (user, system) = (ticks(11).context("utime")?, ticks(12).context("stime")?);
    Ok(Duration::from_millis((user + system) * 1000 / TICKS_PER_SECOND))
}

/// Memory of a process that is in RAM now.
///
/// # Errors
/// When there is no such process.
pub fn resident_bytes(process: u32) -> Result<u64> {
    status(process, "VmRSS:")
}

/// How many files, sockets among them, a process has open now.
///
/// # Errors
/// When there is no such process, or it belongs to somebody else.
pub fn open_files(process: u32) -> Result<usize> {
    let path = format!("/proc/{process}/fd");
    Ok(fs::read_dir(&path).with_context(|| path)?.count())
}

/// The most it had in RAM since its start or the last [`forget_peak`].
///
/// # Errors
/// When there is no such process.
pub fn peak_resident_bytes(process: u32) -> Result<u64> {
    status(process, "VmHWM:")
}

/// Lets [`peak_resident_bytes`] begin anew from now.
///
/// # Errors
/// When the process belongs to somebody else or there is none.
pub fn forget_peak(process: u32) -> Result<()> {
    // The kernel's documentation of `clear_refs`: 5 resets the peak resident set size.
    let path = format!("/proc/{process}/clear_refs");
    fs::write(&path, "5").with_context(|| path)
}

/// Waits until a process has used almost no CPU for `quiet`, or until `patience` is over; answers its CPU time then.
///
/// # Errors
/// When there is no such process.
pub async fn settled(process: u32, quiet: Duration, patience: Duration) -> Result<Duration> {
    /// Of one core.
    const ALMOST_NONE: f64 = 0.05;
    let started = Instant::now();
    let mut looks = interval(quiet);
    looks.tick().await;
    let mut before = cpu(process)?;
    loop {
        looks.tick().await;
        let now = cpu(process)?;
        let used = now.saturating_sub(before).as_secs_f64();
        if used <= quiet.as_secs_f64() * ALMOST_NONE || started.elapsed() >= patience {
            return Ok(now);
        }
        before = now;
    }
}

/// Memory of a process once it has stopped giving back what it no longer uses, as allocators do some seconds later.
///
/// # Errors
/// When there is no such process.
pub async fn resting_bytes(process: u32) -> Result<u64> {
    /// Allocators give back over about ten seconds, more and more slowly.
    const LOOKS: usize = 15;
    /// A change below this share of the whole is none.
    const LITTLE: f64 = 0.005;
    let mut looks = interval(Duration::from_secs(1));
    looks.tick().await;
    let mut before = resident_bytes(process)?;
    let mut quiet = 0;
    for _ in 0..LOOKS {
        looks.tick().await;
        let now = resident_bytes(process)?;
        quiet = if now.abs_diff(before) as f64 <= before as f64 * LITTLE { quiet + 1 } else { 0 };
        before = now;
        if quiet == 2 {
            break;
        }
    }
    Ok(before)
}

fn status(process: u32, name: &str) -> Result<u64> {
    let path = format!("/proc/{process}/status");
    let text = fs::read_to_string(&path).with_context(|| path.clone())?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)).with_context(|| format!("{name} in {path}"))?;
    let kibibytes: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kibibytes * 1024)
}
