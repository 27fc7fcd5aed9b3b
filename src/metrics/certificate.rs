//! When the serving certificate expires.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;

use crate::access::certificates::CertificateSubject;
use crate::transport::tls::Tls;

/// Exports the expiry of the certificate of a listener.
#[derive(Debug)]
pub struct CertificateCollector {
    tls: Tls,
}

impl CertificateCollector {
    /// A collector of the expiry of this certificate, and later of its replacements.
    pub fn new(tls: Tls) -> CertificateCollector {
        CertificateCollector { tls }
    }
}

impl Collector for CertificateCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let help = "When the serving certificate expires, in seconds since 1970";
        let name = "fieldcache_certificate_expiration_timestamp_seconds";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        // A certificate that cannot be read cannot be served with either.
        match self.tls.certificate().and_then(|certificate| CertificateSubject::read(&certificate).ok()) {
            Some(subject) => family.encode_gauge(&subject.not_after),
            None => Ok(()),
        }
    }
}
