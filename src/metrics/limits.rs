//! Metrics of limits: their use, their maximum, and rejections; and of internal errors that did not end the process.
//!
//! Each limit is named as in `flow_control`. A limit without a maximum has no series in `fieldcache_limit_maximum`.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use crate::flow_control::Limits;
use crate::flow_control::connection::CloseReason;
use crate::flow_control::connections::MOST_UNSTARTED;
use crate::flow_control::limit::Limit;
use crate::registry::{PanicOrigin, Registry};

/// Exports the limits of a server and of its registry.
#[derive(Debug)]
pub struct LimitsCollector {
    limits: Arc<Limits>,
    registry: Arc<Registry>,
}

impl LimitsCollector {
    /// A collector of the limits and of the memory of stores.
    pub fn new(limits: Arc<Limits>, registry: Arc<Registry>) -> LimitsCollector {
        LimitsCollector { limits, registry }
    }

    /// The current use and the maximum of a limit, as a number or in bytes. For a limit of each address or user, the
    /// use is that of the one that uses the most. `None`: no maximum is configured.
    fn usage(&self, limit: Limit) -> (u64, Option<u64>) {
        let (lists, settings) = (self.limits.lists().in_flight(), self.limits.settings());
        match limit {
            Limit::Connections => {
                let connections = self.limits.connections();
                (connections.open() as u64, Some(connections.most() as u64))
            }
            Limit::UnauthenticatedConnections => {
                let connections = self.limits.connections();
                (connections.unauthenticated() as u64, Some(connections.most_unauthenticated() as u64))
            }
            Limit::ConnectionsPerAddress => {
                let connections = self.limits.connections();
                (connections.of_busiest() as u64, Some(connections.most_per_address() as u64))
            }
            Limit::ConnectionsPerUser => {
                let connections = self.limits.connections();
                (connections.of_busiest_user() as u64, Some(connections.equal_part() as u64))
            }
            Limit::UnstartedRequests => (self.limits.connections().unstarted(), Some(MOST_UNSTARTED)),
            Limit::WatchesPerUser => (self.limits.watches().of_busiest(), Some(self.limits.watches().most())),
            Limit::Seats => (self.limits.seats().taken(), Some(settings.seats)),
            Limit::Lists => (lists.lists as u64, Some(settings.lists as u64)),
            Limit::ListBytes => (lists.bytes, Some(settings.list_bytes.0)),
            Limit::UnreadBytes => (self.limits.unread().bytes(), Some(settings.unread_bytes.0)),
            Limit::Bodies => (self.limits.bodies().in_memory().bodies, Some(settings.bodies)),
            Limit::BodyBytes => (self.limits.bodies().in_memory().bytes, Some(settings.body_bytes.0)),
            Limit::Memory => {
                let memory = self.registry.memory();
                (memory.held().0, memory.limit().map(|limit| limit.0))
            }
        }
    }
}

impl Collector for LimitsCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let rows = Limit::ALL.map(|limit| (limit, self.usage(limit)));
        let label = |limit: Limit| [("limit", limit.as_str())];
        let help = "Current use of each limit. For a limit of each address or user, the value is that of the \
                    address or user that uses the most. While the server has free connections, a user can have more \
                    than the maximum of the user. Seats count only while requests wait for one. While the memory of \
                    stores exceeds the maximum, no further store is loaded";
        let mut family = encoder.encode_descriptor("fieldcache_limit_used", help, None, MetricType::Gauge)?;
        for (limit, (used, _)) in rows {
            family.encode_family(&label(limit))?.encode_gauge(&used)?;
        }
        let help = "Configured maximum of each limit";
        let mut family = encoder.encode_descriptor("fieldcache_limit_maximum", help, None, MetricType::Gauge)?;
        for (limit, (_, maximum)) in rows {
            if let Some(maximum) = maximum {
                family.encode_family(&label(limit))?.encode_gauge(&maximum)?;
            }
        }
        let help = "Connections and requests that were rejected, watches that were ended, and unauthenticated connections that \
                    were closed for new ones, because a limit was reached";
        let mut family = encoder.encode_descriptor("fieldcache_limit_refused", help, None, MetricType::Counter)?;
        for limit in Limit::ALL {
            let refused = self.limits.rejections(limit);
            family.encode_family(&label(limit))?.encode_counter::<NoLabelSet, _, u64>(&refused, None)?;
        }
        let help = "Connections that the server closed, by reason: without a request, without credentials, all requests \
                    rejected, idle, evicted for another connection (without credentials), or user-share (of a user with \
                    too many, for another connection)";
        let mut family = encoder.encode_descriptor("fieldcache_connections_closed", help, None, MetricType::Counter)?;
        for reason in CloseReason::ALL {
            let closed = self.limits.connections().closed(reason);
            let label = [("reason", reason.as_str())];
            family.encode_family(&label)?.encode_counter::<NoLabelSet, _, u64>(&closed, None)?;
        }
        let help = "Large lists, and reads of large objects, that wait until others in progress end";
        let mut family = encoder.encode_descriptor("fieldcache_lists_waiting", help, None, MetricType::Gauge)?;
        let waiting = self.limits.lists().in_flight().waiting as u64;
        family.encode_gauge(&waiting)?;
        let pinned = self.registry.memory().pinned();
        let help = "Estimated bytes of past states of objects that lists and watches in progress hold, because the objects were replaced or deleted after the list or watch began. The estimate is not too low";
        let mut family = encoder.encode_descriptor("fieldcache_past_state_bytes", help, None, MetricType::Gauge)?;
        family.encode_gauge(&pinned.bytes())?;
        let help = "Lists and watches that were ended because they held too many bytes of past states";
        let mut family = encoder.encode_descriptor("fieldcache_past_states_let_go", help, None, MetricType::Counter)?;
        family.encode_counter::<NoLabelSet, _, u64>(&pinned.revoked(), None)?;
        let help = "Requests and responses in progress that wait for a seat";
        let mut family = encoder.encode_descriptor("fieldcache_seats_waiting", help, None, MetricType::Gauge)?;
        family.encode_gauge(&(self.limits.seats().waiting() as u64))?;
        let help = "Internal errors that did not end the process: a request that got 500, a response or watch that ended early, the sync of a \
                    resource (feed) that restarted, a connection that ended";
        let mut family = encoder.encode_descriptor("fieldcache_panics", help, None, MetricType::Counter)?;
        for place in PanicOrigin::ALL {
            let counted = self.registry.panics().count_of(place);
            let label = [("where", place.as_str())];
            family.encode_family(&label)?.encode_counter::<NoLabelSet, _, u64>(&counted, None)?;
        }
        Ok(())
    }
}
