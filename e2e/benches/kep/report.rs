//! The table, as Markdown for people and as JSON for programs.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

use anyhow::Result;
use bytes::Bytes;
use e2e::components::KUBERNETES_VERSION;
use serde_json::json;

use super::upstream::Round;
use super::{FIELD_COUNTS, Nanoseconds, PATHS};

/// Everything one run found.
pub(crate) struct Report {
    objects: usize,
    bytes: usize,
    rounds: u32,
    /// One figure a round, in the order of [`FIELD_COUNTS`].
    upstream: [Vec<Nanoseconds>; FIELD_COUNTS.len()],
    /// Likewise.
    own: [Vec<Nanoseconds>; FIELD_COUNTS.len()],
    /// One figure a round.
    decoding: Vec<Nanoseconds>,
}

/// One line of the table.
struct Row {
    fields: usize,
    upstream: Nanoseconds,
    upstream_per_field: Option<Nanoseconds>,
    own: Nanoseconds,
    own_per_field: Option<Nanoseconds>,
}

impl Report {
    pub(crate) fn new(objects: &[Bytes], rounds: u32) -> Report {
        Report {
            objects: objects.len(),
            bytes: objects.iter().map(Bytes::len).sum(),
            rounds,
            upstream: Default::default(),
            own: Default::default(),
            decoding: Vec::new(),
        }
    }

    pub(crate) fn add_upstream(&mut self, round: Round) {
        for (figures, cost) in self.upstream.iter_mut().zip(round.costs) {
            figures.push(cost);
        }
        self.decoding.push(round.decoding);
    }

    pub(crate) fn add_own(&mut self, costs: &[Nanoseconds]) {
        for (figures, &cost) in self.own.iter_mut().zip(costs) {
            figures.push(cost);
        }
    }

    fn rows(&self) -> Vec<Row> {
        let both = self.upstream.iter().zip(&self.own);
        FIELD_COUNTS
            .into_iter()
            .zip(both)
            .map(|(fields, (upstream, own))| Row {
                fields,
                upstream: median(upstream),
                upstream_per_field: per_field(fields, upstream, &self.upstream[0]),
                own: median(own),
                own_per_field: per_field(fields, own, &self.own[0]),
            })
            .collect()
    }

    /// Markdown.
    pub(crate) fn table(&self) -> String {
        let mut text = format!(
            "Selectable fields (KEP-4358): CPU per event, {} shirts of {} bytes, medians of {} alternating rounds, Kubernetes {KUBERNETES_VERSION}, {}\n\n",
            self.objects,
            self.bytes / self.objects,
            self.rounds,
            machine()
        );
        text.push_str("| fields | kube-apiserver ns per event | per added field | fieldcache ns per event | per added field | ratio per field |\n|---|---|---|---|---|---|\n");
        for row in self.rows() {
            let shown = |cost: Option<Nanoseconds>| cost.map_or_else(|| "-".to_owned(), |cost| format!("{cost:.0}"));
            let _ = writeln!(
                text,
                "| {} | {:.0} | {} | {:.0} | {} | {} |",
                row.fields,
                row.upstream,
                shown(row.upstream_per_field),
                row.own,
                shown(row.own_per_field),
                row.upstream_per_field
                    .zip(row.own_per_field)
                    .filter(|&(_, own)| own > 0.0)
                    .map_or_else(|| "-".to_owned(), |(upstream, own)| format!("{:.0}", upstream / own)),
            );
        }
        let _ = write!(
            text,
            "\nkube-apiserver: GetAttrs on the decoded object, with the garbage collector's share; decoding the same bytes takes it {:.0} ns more.\n\
             fieldcache: from bytes to record: reading all bytes, key, version and labels included.\n\
             Per added field: the difference from no field, divided by the number of fields.",
            median(&self.decoding)
        );
        text
    }

    /// Writes both forms below `target/bench` and says where.
    pub(crate) fn write(&self) -> Result<PathBuf> {
        let folder = PathBuf::from("target").join("bench");
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("kep.md"), format!("{}\n", self.table()))?;
        let rows: Vec<_> = self
            .rows()
            .into_iter()
            .map(|row| {
                json!({
                    "fields": row.fields,
                    "kubeApiserverNanos": row.upstream, "kubeApiserverNanosPerField": row.upstream_per_field,
                    "fieldcacheNanos": row.own, "fieldcacheNanosPerField": row.own_per_field,
                })
            })
            .collect();
        let document = json!({
            "machine": machine(), "kubernetes": KUBERNETES_VERSION, "objects": self.objects, "jsonBytes": self.bytes, "rounds": self.rounds,
            "paths": PATHS, "kubeApiserverDecodeNanos": median(&self.decoding), "rows": rows,
        });
        fs::write(folder.join("kep.json"), format!("{document:#}\n"))?;
        Ok(folder)
    }
}

/// The median over rounds of the difference from no field, divided by the number of fields. Both figures of a
/// difference are of one round, so a machine that changes its pace between rounds does not count as a field's cost.
fn per_field(fields: usize, figures: &[Nanoseconds], without: &[Nanoseconds]) -> Option<Nanoseconds> {
    let differences: Vec<_> =
        figures.iter().zip(without).map(|(with, without)| (with - without) / fields as f64).collect();
    (fields > 0).then(|| median(&differences))
}

fn median(figures: &[Nanoseconds]) -> Nanoseconds {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => 0.0,
        length if length % 2 == 0 => (sorted[middle - 1] + sorted[middle]) / 2.0,
        _ => sorted[middle],
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
