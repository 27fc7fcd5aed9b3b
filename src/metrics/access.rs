//! Metrics of authentication and authorization. Labels are methods, results and kinds of review, nothing of a user.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use crate::access::counters::{AccessCounters, AttemptResult, AuthenticationMethod, DecisionResult, ReviewKind};
use crate::access::single_flight::CacheResult;

/// Exports the counters of `access`.
#[derive(Debug)]
pub struct AccessCollector {
    counts: Arc<AccessCounters>,
}

impl AccessCollector {
    /// A collector of the counters of authentication and authorization.
    pub fn new(counts: Arc<AccessCounters>) -> AccessCollector {
        AccessCollector { counts }
    }
}

/// One counter of a family: its labels and its value.
type Series<'a> = (Vec<(&'a str, &'a str)>, u64);

/// Encodes a family of counters with these series.
fn counters(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help): (&str, &str),
    series: impl Iterator<Item = Series<'static>>,
) -> Result<(), fmt::Error> {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (labels, count) in series {
        family.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&count, None)?;
    }
    Ok(())
}

impl Collector for AccessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let counts = &self.counts;
        let attempts = AuthenticationMethod::ALL.into_iter().flat_map(|method| {
            AttemptResult::ALL.map(|result| {
                let labels = vec![("method", method.as_str()), ("result", result.as_str())];
                (labels, counts.authentications(method, result))
            })
        });
        let help =
            "Authentication attempts by method and result (limited: the address had sent too many invalid tokens)";
        counters(&mut encoder, ("fieldcache_authentication", help), attempts)?;
        let decided = DecisionResult::ALL
            .into_iter()
            .map(|decided| (vec![("decision", decided.as_str())], counts.authorizations(decided)));
        let help =
            "Authorization decisions about requests and open watches, by result (error: the API server did not decide)";
        counters(&mut encoder, ("fieldcache_authorization", help), decided)?;
        let reviews = ReviewKind::ALL.into_iter().flat_map(|review| {
            [(true, "success"), (false, "error")].map(|(is_answered, result)| {
                (vec![("kind", review.as_str()), ("result", result)], counts.reviews(review, is_answered))
            })
        });
        let help = "Reviews that were sent to the API server, by result";
        counters(&mut encoder, ("fieldcache_review", help), reviews)?;
        let looked_up = ReviewKind::ALL.into_iter().flat_map(|review| {
            CacheResult::ALL.map(|had| {
                let labels = vec![("kind", review.as_str()), ("status", had.as_str())];
                (labels, counts.cache_requests(review, had))
            })
        });
        let help = "Lookups of review results, by status: hit (cached), shared (in progress) or miss (requested)";
        counters(&mut encoder, ("fieldcache_review_cache_request", help), looked_up)?;
        let help = "Watches that ended because their credential or a permission was no longer valid";
        let mut family = encoder.encode_descriptor("fieldcache_watch_revoked", help, None, MetricType::Counter)?;
        family.encode_counter::<NoLabelSet, _, u64>(&counts.revocations(), None)
    }
}
