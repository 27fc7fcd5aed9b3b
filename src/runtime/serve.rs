//! Opens what `fieldcache serve` needs: a server without authentication, on this machine only.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::collector::Collector;

use super::service::{METRICS_ADDRESS, Service, metrics_connections};
use super::source::{self, SourceLocation, SourceOptions};
use crate::flow_control::limit::LimitSettings;
use crate::metrics::certificate::CertificateCollector;
use crate::metrics::{Metrics, Scrapers};
use crate::server::guards::Guard;
use crate::server::health::Check;
use crate::server::pass_through::PassThrough;
use crate::server::settings::ReadConsistency;
use crate::server::{Server, Settings};
use crate::transport::listen::Listener;
use crate::transport::tls;
use crate::transport::tls::{CertificateFiles, Tls};

/// How long a request waits for its resource to be loaded. The request itself can start the load.
const PATIENCE: Duration = Duration::from_secs(60);

/// The options of `fieldcache serve`.
#[derive(Debug)]
pub struct ServeOptions {
    /// What to read.
    pub location: SourceLocation,
    /// How to read it.
    pub source: SourceOptions,
    /// Where to listen.
    pub address: SocketAddr,
    /// Where to serve metrics.
    pub metrics_address: Option<SocketAddr>,
    /// The certificate; `None` for plain HTTP.
    pub certificate: Option<CertificateFiles>,
    /// Which requests are forwarded to the API server. Ignored for a folder.
    pub pass_through: PassThrough,
    /// The consistency of reads without a resourceVersion.
    pub consistency: ReadConsistency,
    /// The limits of the server.
    pub limits: LimitSettings,
}

/// Binds sockets, opens the source and makes the server.
///
/// # Errors
/// Names the address, file, folder or cluster that could not be bound or opened.
pub async fn open(options: ServeOptions) -> anyhow::Result<Service> {
    // Before the source is opened, which can take minutes: the port can be in use, or the key invalid.
    let mut listener = Listener::bind(options.address).await?;
    let mut collectors: Vec<Box<dyn Collector>> = Vec::new();
    if let Some(files) = options.certificate {
        let tls = Tls::open(files, tls::no_client_certificates()).await?;
        collectors.push(Box::new(CertificateCollector::new(tls.shared())));
        listener = listener.with_tls(tls);
    }
    let metrics_listener = match options.metrics_address {
        Some(address) => Some(Listener::bind_option(address, METRICS_ADDRESS).await?),
        None => None,
    };
    let upstream = source::upstream(&options.location).await?;
    let max_lag = options.source.max_lag;
    let source = source::follow(options.location, options.source).await?;
    let (registry, pinned) = (source.registry.clone(), source.pinned.clone());
    let pinned_stores = move || {
        let catalog = registry.catalog();
        pinned.iter().map(|gvr| (format!("store/{gvr}"), catalog.readiness(gvr))).collect()
    };
    let settings = Settings {
        patience: PATIENCE,
        max_lag: Some(max_lag),
        consistency: options.consistency,
        guard: Some(Guard::default()),
        pass_through: if upstream.is_none() { PassThrough::Off } else { options.pass_through },
        upstream,
        limits: options.limits,
        checks: vec![Check { is_vital: false, probe: Arc::new(pinned_stores) }],
        ..Settings::default()
    };
    let server = Arc::new(Server::new(source.registry.clone(), settings));
    let listener = listener.with_connections(server.limits().connections().clone());
    let metrics = metrics_listener.map(|listener| {
        let scrapers = Scrapers::Anonymous(Some(Guard::default()));
        let (tally, limits) = (server.tally().clone(), server.limits().clone());
        let metrics = Metrics::new(source.registry.clone(), tally, limits, scrapers, collectors);
        (metrics_connections(listener), metrics)
    });
    Ok(Service { source, listener, server, metrics, cluster: None })
}
