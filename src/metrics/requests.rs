//! `fieldcache_request_total` and `fieldcache_request_duration_seconds`, from the [`RequestMetrics`] of the server.
//!
//! The labels are kube-apiserver's for the same metrics, with `path` (how objects were found) and the two booleans that
//! KEP-4358 plans. Both metrics come from the same counters, so they never disagree.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use super::labels::RESOURCE_LABELS;
use crate::server::request_metrics::{AnswerPath, BOUNDS, Counted, RequestMetrics};

const COUNT_HELP: &str = "Requests, by verb, resource, HTTP status, query path (index, scan or forwarded; empty without a lookup) and whether a list or watch has selectors. A watch is counted when it ends";
const DURATION_HELP: &str = "Time until the response headers were ready; for watches, until they ended";

/// Exports the counters of a server.
#[derive(Debug)]
pub struct RequestsCollector {
    metrics: Arc<RequestMetrics>,
}

impl RequestsCollector {
    /// A collector of the counters of requests.
    pub fn new(metrics: Arc<RequestMetrics>) -> RequestsCollector {
        RequestsCollector { metrics }
    }
}

/// Calls `use_labels` with the labels of one kind of request, and returns its result.
fn with_labels<Answer>(counted: &Counted, use_labels: impl FnOnce(&[(&str, &str); 8]) -> Answer) -> Answer {
    let outcome = counted.outcome;
    let code = outcome.code.to_string();
    let truth = |truth: bool| if truth { "true" } else { "false" };
    let [group, version, resource] = RESOURCE_LABELS;
    use_labels(&[
        ("verb", outcome.verb.as_str()),
        (group, &counted.gvr.group),
        (version, &counted.gvr.version),
        (resource, &counted.gvr.resource),
        ("code", &code),
        ("path", outcome.path.map_or("", AnswerPath::as_str)),
        ("has_field_selector", truth(outcome.has_field_selector)),
        ("has_label_selector", truth(outcome.has_label_selector)),
    ])
}

impl Collector for RequestsCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let counted = self.metrics.counted();
        let mut family = encoder.encode_descriptor("fieldcache_request", COUNT_HELP, None, MetricType::Counter)?;
        for kind in &counted {
            let requests: u64 = kind.buckets.iter().sum();
            with_labels(kind, |labels| {
                family.encode_family(labels)?.encode_counter::<NoLabelSet, _, u64>(&requests, None)
            })?;
        }
        let name = "fieldcache_request_duration_seconds";
        let mut family = encoder.encode_descriptor(name, DURATION_HELP, None, MetricType::Histogram)?;
        for kind in &counted {
            let ends = BOUNDS.iter().map(|microseconds| seconds(*microseconds)).chain([f64::INFINITY]);
            let buckets: Vec<(f64, u64)> = ends.zip(kind.buckets).collect();
            let (sum, count) = (kind.total.as_secs_f64(), kind.buckets.iter().sum());
            with_labels(kind, |labels| {
                family.encode_family(labels)?.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
            })?;
        }
        Ok(())
    }
}

/// Microseconds in seconds. A division returns the float that is nearest to the decimal number, so that bounds are
/// printed without rounding errors.
fn seconds(microseconds: u64) -> f64 {
    microseconds as f64 / 1e6
}
