//! The table, as Markdown for people and as JSON for programs.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use serde_json::json;

use super::rows::Measured;

/// Everything one run found.
pub(crate) struct Report {
    /// Objects in the corpus.
    pub(crate) objects: u64,
    /// `varied` or `repeated`.
    pub(crate) text: String,
    /// Rounds a row.
    pub(crate) rounds: u32,
    /// From the start of the process to the complete copy.
    pub(crate) first_sync: Duration,
    /// CPU of the process by then.
    pub(crate) first_sync_cpu: Duration,
    /// kube-apiserver's memory at the end.
    pub(crate) upstream_memory: u64,
    /// fieldcache's memory at the end.
    pub(crate) own_memory: u64,
    /// fieldcache's highest memory.
    pub(crate) own_peak_memory: u64,
    /// Size of the whole list as JSON.
    pub(crate) json_bytes: u64,
    /// The rows.
    pub(crate) rows: Vec<Measured>,
}

impl Report {
    /// Markdown.
    pub(crate) fn table(&self) -> String {
        let mut text = format!(
            "{} shirts ({} text, {:.0} MB as JSON), {} rounds a row, {}\n\n",
            self.objects,
            self.text,
            megabytes(self.json_bytes),
            self.rounds,
            machine()
        );
        text.push_str("| request | hits | kube-apiserver CPU | fieldcache CPU | ratio | kube-apiserver p50 / p99 | fieldcache p50 / p99 |\n|---|---|---|---|---|---|---|\n");
        for row in &self.rows {
            let ratio = row.upstream.cpu.as_secs_f64() / row.own.cpu.as_secs_f64().max(f64::EPSILON);
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {ratio:.0} | {} / {} | {} / {} |",
                row.name,
                row.hits,
                duration(row.upstream.cpu),
                duration(row.own.cpu),
                duration(row.upstream.median),
                duration(row.upstream.p99),
                duration(row.own.median),
                duration(row.own.p99),
            );
        }
        let _ = write!(
            text,
            "\nmemory: kube-apiserver {:.0} MB; fieldcache {:.0} MB ({:.2} of the JSON), at most {:.0} MB\nfirst sync: {:.1} s, {:.1} s of CPU",
            megabytes(self.upstream_memory),
            megabytes(self.own_memory),
            self.own_memory as f64 / self.json_bytes.max(1) as f64,
            megabytes(self.own_peak_memory),
            self.first_sync.as_secs_f64(),
            self.first_sync_cpu.as_secs_f64(),
        );
        text
    }

    /// Writes both forms below `target/bench` and says where.
    pub(crate) fn write(&self) -> Result<PathBuf> {
        let folder = PathBuf::from("target").join("bench");
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("list.md"), self.table())?;
        let rows: Vec<_> = self
            .rows
            .iter()
            .map(|row| {
                let cost = |cost: &super::rows::Cost| {
                    json!({"cpuMicros": cost.cpu.as_micros() as u64, "p50Micros": cost.median.as_micros() as u64, "p99Micros": cost.p99.as_micros() as u64})
                };
                json!({"name": row.name, "hits": row.hits, "bytes": row.bytes, "kubeApiserver": cost(&row.upstream), "fieldcache": cost(&row.own)})
            })
            .collect();
        let document = json!({
            "machine": machine(), "objects": self.objects, "text": self.text, "rounds": self.rounds, "jsonBytes": self.json_bytes,
            "kubeApiserverBytes": self.upstream_memory, "fieldcacheBytes": self.own_memory, "fieldcachePeakBytes": self.own_peak_memory,
            "firstSyncMillis": self.first_sync.as_millis() as u64, "firstSyncCpuMillis": self.first_sync_cpu.as_millis() as u64, "rows": rows,
        });
        fs::write(folder.join("list.json"), format!("{document:#}\n"))?;
        Ok(folder)
    }
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

fn duration(duration: Duration) -> String {
    let micros = duration.as_secs_f64() * 1e6;
    match micros {
        micros if micros >= 1e6 => format!("{:.2} s", micros / 1e6),
        micros if micros >= 1e4 => format!("{:.0} ms", micros / 1e3),
        micros if micros >= 1e3 => format!("{:.1} ms", micros / 1e3),
        micros => format!("{micros:.0} µs"),
    }
}

/// The processor and how many of it.
fn machine() -> String {
    let model = fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("model name"))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    });
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    format!("{cores} cores, {}", model.unwrap_or_else(|| "unknown processor".to_owned()))
}
