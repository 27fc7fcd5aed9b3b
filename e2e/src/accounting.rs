//! What the operating system says a process has used (Linux `/proc`), for the benchmarks.
//!
//! Whole processes only: all threads, those that have ended included.

use std::collections::BTreeMap;
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

/// CPU time of a process between two moments, finer than the steps of [`cpu`]: for rounds of a few milliseconds.
///
/// It adds up what the scheduler has booked on each thread, in nanoseconds. A thread that has ended takes its part
/// along. So the sum is only believed while all threads of the beginning live and it agrees with [`cpu`] within that
/// one's steps.
#[derive(Debug)]
pub struct Meter {
    process: u32,
    coarse: Duration,
    threads: BTreeMap<String, Duration>,
}

impl Meter {
    /// Begins now.
    ///
    /// # Errors
    /// When there is no such process.
    pub fn start(process: u32) -> Result<Meter> {
        Ok(Meter { process, coarse: cpu(process)?, threads: threads(process)? })
    }

    /// What was used since.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn used(&self) -> Result<Duration> {
        /// User and system time are cut to whole steps each, at both moments.
        const STEPS: Duration = Duration::from_millis(4 * 1000 / TICKS_PER_SECOND);
        let now = threads(self.process)?;
        let coarse = cpu(self.process)?.saturating_sub(self.coarse);
        let mut fine = Duration::ZERO;
        for (thread, used) in &now {
            fine += used.saturating_sub(self.threads.get(thread).copied().unwrap_or_default());
        }
        let are_all_there = self.threads.keys().all(|thread| now.contains_key(thread));
        Ok(if are_all_there && fine.abs_diff(coarse) <= STEPS { fine } else { coarse })
    }
}

/// CPU time of each thread of a process that lives now.
fn threads(process: u32) -> Result<BTreeMap<String, Duration>> {
    let path = format!("/proc/{process}/task");
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(&path).with_context(|| path.clone())? {
        let entry = entry.with_context(|| path.clone())?;
        // One that has ended since the folder was read is none.
        let Ok(text) = fs::read_to_string(entry.path().join("schedstat")) else { continue };
        found.insert(entry.file_name().to_string_lossy().into_owned(), on_cpu(&text).with_context(|| path.clone())?);
    }
    Ok(found)
}

/// CPU time of the calling thread, in nanoseconds.
///
/// # Errors
/// When the kernel keeps no such accounts (`CONFIG_SCHED_INFO`).
pub fn own_thread() -> Result<Duration> {
    let path = "/proc/thread-self/schedstat";
    on_cpu(&fs::read_to_string(path).context(path)?).context(path)
}

/// The first number of a `schedstat` file.
fn on_cpu(text: &str) -> Result<Duration> {
    let nanos = text.split_whitespace().next().context("an empty schedstat")?;
    Ok(Duration::from_nanos(nanos.parse().context("the time on a CPU")?))
}

/// How many files this process, and those that it starts, may have open.
///
/// # Errors
/// When the kernel does not say.
pub fn open_file_limit() -> Result<u64> {
    let path = "/proc/self/limits";
    let text = fs::read_to_string(path).context(path)?;
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files")).context("no limit of open files")?;
    match line.split_whitespace().next() {
        Some("unlimited") => Ok(u64::MAX),
        soft => soft.and_then(|soft| soft.parse().ok()).context("the limit of open files is no number"),
    }
}

/// Memory that new processes may take before others have to give some back.
///
/// # Errors
/// When the kernel does not say.
pub fn available_bytes() -> Result<u64> {
    kibibytes("/proc/meminfo", "MemAvailable:")
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
/// When there is no such process, or it belongs to another user.
pub fn open_files(process: u32) -> Result<usize> {
    let path = format!("/proc/{process}/fd");
    Ok(fs::read_dir(&path).with_context(|| path)?.count())
}

/// Whether it was stopped by a signal and gets no CPU.
///
/// # Errors
/// When there is no such process.
pub fn is_stopped(process: u32) -> Result<bool> {
    let path = format!("/proc/{process}/stat");
    let text = fs::read_to_string(&path).with_context(|| path)?;
    Ok(text.rsplit(')').next().unwrap_or_default().trim_start().starts_with('T'))
}

/// The most it had in RAM since its start or the last [`forget_peak`].
///
/// # Errors
/// When there is no such process.
pub fn peak_resident_bytes(process: u32) -> Result<u64> {
    status(process, "VmHWM:")
}

/// Lets [`peak_resident_bytes`] begin again from now.
///
/// # Errors
/// When the process belongs to another user or there is none.
pub fn forget_peak(process: u32) -> Result<()> {
    // The kernel's documentation of `clear_refs`: 5 resets the peak resident set size.
    let path = format!("/proc/{process}/clear_refs");
    fs::write(&path, "5").with_context(|| path)
}

/// Waits until a process has used almost no CPU for `quiet`, or until `patience` is over. Returns its CPU time then.
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
    kibibytes(&format!("/proc/{process}/status"), name)
}

/// The bytes behind a name in a file of lines such as `VmRSS: 12 kB`.
fn kibibytes(path: &str, name: &str) -> Result<u64> {
    let text = fs::read_to_string(path).with_context(|| path.to_owned())?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)).with_context(|| format!("{name} in {path}"))?;
    let kibibytes: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kibibytes * 1024)
}
