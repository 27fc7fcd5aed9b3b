//! Metrics of the process, as in every Prometheus client library: CPU, memory, file descriptors, start.
//!
//! They are read from Linux's `/proc` (proc(5)) at each scrape. Missing and invalid values are left out: an unknown
//! value must not be exported as zero.

#![expect(clippy::disallowed_methods, reason = "/proc is files")]

use std::fmt;
use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

/// Exports metrics of this process.
#[derive(Debug)]
pub struct ProcessCollector;

/// Metrics of the process; `None`: unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessStats {
    /// User and system time, in seconds.
    pub cpu_seconds: Option<f64>,
    /// The time when the process started, in seconds since 1970.
    pub start_seconds: Option<f64>,
    /// Resident memory, in bytes.
    pub resident_bytes: Option<u64>,
    /// Open file descriptors.
    pub open_files: Option<u64>,
}

/// The unit of a process's times, in ticks a second: `USER_HZ`, which is 100 on all architectures of Rust's Linux
/// targets. To read it (sysconf) would need unsafe code.
const TICKS_A_SECOND: f64 = 100.0;

impl ProcessStats {
    /// Reads the metrics of this process.
    pub fn now() -> ProcessStats {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        // The directory that is being read is open too.
        let open_files = fs::read_dir("/proc/self/fd").ok().map(|files| files.count().saturating_sub(1) as u64);
        let texts = [text("/proc/self/stat"), text("/proc/self/status"), text("/proc/stat")];
        ProcessStats { open_files, ..ProcessStats::read(&texts[0], &texts[1], &texts[2]) }
    }

    /// Parses the texts of `/proc/self/stat`, `/proc/self/status` and `/proc/stat`, in this order. They do not have
    /// `open_files`.
    pub fn read(process: &str, status: &str, system: &str) -> ProcessStats {
        // The second field is the program's name in parentheses, which may hold blanks and parentheses.
        let fields: Vec<&str> = process.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
        // proc(5) counts from 1, and the first field here is its third.
        let ticks = |number: usize| fields.get(number - 3)?.parse::<u64>().ok().map(|ticks| ticks as f64);
        let booted = system.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse::<u64>().ok());
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix("kB"));
        let cpu_seconds = ticks(14).zip(ticks(15)).map(|(user, system)| (user + system) / TICKS_A_SECOND);
        let start_seconds = booted.zip(ticks(22)).map(|(booted, ticks)| booted as f64 + ticks / TICKS_A_SECOND);
        let resident_bytes = resident.and_then(|kibibytes| kibibytes.trim().parse::<u64>().ok()?.checked_mul(1024));
        ProcessStats { cpu_seconds, start_seconds, resident_bytes, open_files: None }
    }
}

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let ProcessStats { cpu_seconds, start_seconds, resident_bytes, open_files } = ProcessStats::now();
        if let Some(seconds) = cpu_seconds {
            let help = "User and system CPU time, in seconds";
            let mut counter = encoder.encode_descriptor("process_cpu_seconds", help, None, MetricType::Counter)?;
            counter.encode_counter::<NoLabelSet, _, u64>(&seconds, None)?;
        }
        if let Some(seconds) = start_seconds {
            let (name, help) = ("process_start_time_seconds", "When the process started, in seconds since 1970");
            encoder.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&seconds)?;
        }
        for (name, help, figure) in [
            ("process_resident_memory_bytes", "Resident memory, in bytes", resident_bytes),
            ("process_open_fds", "Open file descriptors", open_files),
        ] {
            if let Some(figure) = figure {
                encoder.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&figure)?;
            }
        }
        Ok(())
    }
}
