//! OpenMetrics text and the older text format of Prometheus: negotiation, and conversion of the first into the second.
//!
//! Prometheus requests OpenMetrics. Clients that request no format get the text format, which all tools read. The
//! formats differ in the name of a counter's family, in units, and in a mark at the end. See OpenMetrics 1.0, "Counter"
//! and "UNIT", and Prometheus "Exposition formats".

use std::collections::BTreeSet;

use http::HeaderMap;
use http::header::ACCEPT;
use prometheus_client::registry::Registry;

/// A text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpositionFormat {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// The Prometheus text format 0.0.4.
    Plain,
}

impl ExpositionFormat {
    /// The format for a client: OpenMetrics if its Accept header names it with any weight except 0.
    pub fn negotiate(headers: &HeaderMap) -> ExpositionFormat {
        let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let mut ranges = accepted.flat_map(|value| value.split(','));
        let is_named = ranges.any(|range| {
            let mut parts = range.split(';').map(str::trim);
            let name = parts.next().unwrap_or_default();
            // `q=0` and its longer forms exclude a format.
            let is_excluded = parts.filter_map(|part| part.strip_prefix("q=")).any(|weight| weight.parse() == Ok(0f32));
            name.eq_ignore_ascii_case("application/openmetrics-text") && !is_excluded
        });
        if is_named { ExpositionFormat::OpenMetrics } else { ExpositionFormat::Plain }
    }

    /// The Content-Type of the format.
    pub fn media_type(self) -> &'static str {
        match self {
            ExpositionFormat::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            ExpositionFormat::Plain => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// Encodes metric families in the given format.
pub(super) fn encode(families: &Registry, format: ExpositionFormat) -> String {
    let mut text = String::new();
    // Writing to a string does not fail, and no collector has an error of its own.
    let _ = prometheus_client::encoding::text::encode(&mut text, families);
    match format {
        ExpositionFormat::OpenMetrics => text,
        ExpositionFormat::Plain => plain(&text),
    }
}

/// Converts OpenMetrics text to the text format 0.0.4. Units and the mark at the end, which that format does not have,
/// are left out.
pub(super) fn plain(open_metrics: &str) -> String {
    let counters: BTreeSet<&str> =
        open_metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter")).collect();
    let mut plain = String::with_capacity(open_metrics.len());
    for line in open_metrics.lines() {
        let Some(comment) = line.strip_prefix("# ") else {
            plain.push_str(line);
            plain.push('\n');
            continue;
        };
        let mut words = comment.splitn(3, ' ');
        if let (Some(word @ ("HELP" | "TYPE")), Some(name), Some(rest)) = (words.next(), words.next(), words.next()) {
            let suffix = if counters.contains(name) { "_total" } else { "" };
            plain.push_str(&format!("# {word} {name}{suffix} {rest}\n"));
        }
    }
    plain
}
