//! What the operating system says a process has used (Linux `/proc`).

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};

/// Linux books CPU time for user space in hundredths of a second on every architecture it runs on.
const TICKS_PER_SECOND: u64 = 100;

/// CPU time of all threads of a process so far, user and system.
pub(crate) fn cpu(process: u32) -> Result<Duration> {
    let path = format!("/proc/{process}/stat");
    let text = fs::read_to_string(&path).with_context(|| path.clone())?;
    // The name in parentheses may hold blanks; what follows it does not.
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|text| text.parse::<u64>().ok());
    let (user, system) = (ticks(11).context("utime")?, ticks(12).context("stime")?);
    Ok(Duration::from_millis((user + system) * 1000 / TICKS_PER_SECOND))
}

/// Memory of a process that is in RAM now.
pub(crate) fn resident_bytes(process: u32) -> Result<u64> {
    status(process, "VmRSS:")
}

/// The most it ever had in RAM.
pub(crate) fn peak_resident_bytes(process: u32) -> Result<u64> {
    status(process, "VmHWM:")
}

fn status(process: u32, name: &str) -> Result<u64> {
    let path = format!("/proc/{process}/status");
    let text = fs::read_to_string(&path).with_context(|| path.clone())?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)).with_context(|| format!("{name} in {path}"))?;
    let kibibytes: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kibibytes * 1024)
}
