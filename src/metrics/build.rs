//! `fieldcache_build_info`: the version of the program.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::gauge::ConstGauge;

/// Shows the version of this program.
#[derive(Debug)]
pub(super) struct BuildCollector;

impl Collector for BuildCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let gauge = ConstGauge::new(1u64);
        let help = "Always 1; its labels are the version of the program";
        let mut family = encoder.encode_descriptor("fieldcache_build_info", help, None, gauge.metric_type())?;
        gauge.encode(family.encode_family(&[("version", env!("CARGO_PKG_VERSION"))])?)
    }
}
