//! Metrics of leader election, and of the conditions that this replica wrote to FieldCaches and Views. Conditions have
//! the form of kube-state-metrics: one series for each status, of which one is 1.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;

use crate::operator::reported::{ReportedConditions, ReportedKind};
use crate::operator::status::ConditionStatus;

/// Exports the conditions that the controllers wrote.
#[derive(Debug)]
pub struct ConditionsCollector {
    reported: Arc<ReportedConditions>,
}

impl ConditionsCollector {
    /// A collector of the conditions that this replica has written.
    pub fn new(reported: Arc<ReportedConditions>) -> ConditionsCollector {
        ConditionsCollector { reported }
    }
}

impl Collector for ConditionsCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let help = "Whether this replica holds the Lease and writes statuses: 1 or 0";
        let mut family = encoder.encode_descriptor("fieldcache_leader", help, None, MetricType::Gauge)?;
        family.encode_gauge(&i64::from(self.reported.leads()))?;
        let kinds = [
            ("fieldcache_fieldcache_condition", ReportedKind::FieldCache, "FieldCaches"),
            ("fieldcache_view_condition", ReportedKind::View, "Views"),
        ];
        for (metric, kind, objects) in kinds {
            let help = format!(
                "Conditions of {objects}: 1 for the current status of a condition, 0 for the others. Only the leader reports them, for at most 2,000 objects"
            );
            let mut family = encoder.encode_descriptor(metric, &help, None, MetricType::Gauge)?;
            for (name, conditions) in self.reported.conditions(kind) {
                for (condition, holds) in conditions {
                    for status in [ConditionStatus::True, ConditionStatus::False, ConditionStatus::Unknown] {
                        let labels = [("name", &*name), ("condition", condition), ("status", status.as_str())];
                        family.encode_family(&labels)?.encode_gauge(&i64::from(status == holds))?;
                    }
                }
            }
        }
        Ok(())
    }
}
