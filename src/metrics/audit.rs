//! Metrics of the audit log: events, and requests that were rejected because the log was not available. No label names
//! a user.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use crate::audit::AuditCounters;

/// Exports the counters of the audit log.
#[derive(Debug)]
pub struct AuditCollector {
    counts: Arc<AuditCounters>,
}

impl AuditCollector {
    /// A collector of the counters of the audit log.
    pub fn new(counts: Arc<AuditCounters>) -> AuditCollector {
        AuditCollector { counts }
    }
}

impl Collector for AuditCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let rows = [("written", self.counts.written()), ("dropped", self.counts.dropped())];
        let help = "Events of the audit log by result: written, or dropped because the queue was full or one caller was rejected too often";
        let mut family = encoder.encode_descriptor("fieldcache_audit_event", help, None, MetricType::Counter)?;
        for (result, count) in rows {
            family.encode_family(&[("result", result)])?.encode_counter::<NoLabelSet, _, u64>(&count, None)?;
        }
        let help = "Failed writes of the audit log; the events stay queued and the write is retried";
        let mut family = encoder.encode_descriptor("fieldcache_audit_write_failed", help, None, MetricType::Counter)?;
        family.encode_counter::<NoLabelSet, _, u64>(&self.counts.failures(), None)?;
        let help = "Whether the audit log can be written: 1, or 0 after a failed or unfinished write";
        let mut family = encoder.encode_descriptor("fieldcache_audit_writable", help, None, MetricType::Gauge)?;
        family.encode_gauge(&i64::from(self.counts.check().is_ok()))?;
        let help = "Requests rejected because their events could not be written to the audit log";
        let mut family =
            encoder.encode_descriptor("fieldcache_audit_request_refused", help, None, MetricType::Counter)?;
        family.encode_counter::<NoLabelSet, _, u64>(&self.counts.refused(), None)
    }
}
