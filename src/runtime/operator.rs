//! Opens what `fieldcache operator` needs: a server over TLS with authentication and authorization, and the
//! controllers.
//!
//! It serves the resources that FieldCaches name, and Views of them. [`crate::operator`] has the controllers, and
//! [`crate::access`] authorizes every request.

#![expect(clippy::disallowed_methods, reason = "the file of --tls-ca-file and the name of the host")]

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use prometheus_client::collector::Collector;
use tokio::sync::watch;

use super::certificate_renewer::{CertificateRenewer, CertificateStore};
use super::service::{ClusterService, METRICS_ADDRESS, Service, metrics_connections};
use super::source::{self, SourceLocation, SourceOptions};
use crate::access::certificates::DeferredClientVerifier;
use crate::access::{AccessControl, AccessSettings, KnownField};
use crate::audit::{Log, Policy};
use crate::extract::Origin;
use crate::flow_control::limit::LimitSettings;
use crate::metrics::certificate::CertificateCollector;
use crate::metrics::conditions::ConditionsCollector;
use crate::metrics::{Metrics, Scrapers};
use crate::model::Gvr;
use crate::operator::election::{self, Election};
use crate::operator::reported::ReportedConditions;
use crate::operator::synced::Synced;
use crate::operator::views::Address;
use crate::operator::{self, Controllers};
use crate::registry::{Registry, Resource};
use crate::server::health::Check;
use crate::server::heartbeat::Heartbeat;
use crate::server::probes::ProbeListener;
use crate::server::{Server, Settings};
use crate::source::connection::{ClusterOptions, Connection};
use crate::transport::listen::Listener;
use crate::transport::tls::{CertificateFiles, Tls};

const HEALTH_ADDRESS: &str = "--health-address";

/// The name of the Lease for leader election.
const LEASE: &str = "fieldcache";

/// The options of `fieldcache operator`.
#[derive(Debug)]
pub struct OperatorOptions {
    /// The cluster to serve.
    pub cluster: ClusterOptions,
    /// How to read it. [`open`] replaces its resources, its options of stores and its explanation of missing
    /// permissions.
    pub source: SourceOptions,
    /// Resources that are always served, also without a FieldCache.
    pub resources: Vec<Gvr>,
    /// The namespace of the Lease, of the Secret with the certificate and of the Service.
    pub namespace: String,
    /// The name of this replica in the Lease; `None`: the host's name and the process id.
    pub identity: Option<String>,
    /// Where to listen.
    pub address: SocketAddr,
    /// Where to serve metrics.
    pub metrics_address: Option<SocketAddr>,
    /// Where to serve health checks over plain HTTP.
    pub health_address: Option<SocketAddr>,
    /// The certificate to serve with.
    pub certificate: CertificateOptions,
    /// The URL of this server in the status of Views; `None`: that of the Service.
    pub views_url: Option<String>,
    /// Audiences of valid tokens.
    pub audiences: Vec<String>,
    /// Whether tokens for the API server are valid too.
    pub accept_api_audience: bool,
    /// The longest time after which credentials and permissions of a watch are checked again.
    pub recheck_interval: Duration,
    /// Which requests the audit log contains.
    pub audit_policy: Policy,
    /// The path of the audit log, or [`crate::audit::log::STANDARD_OUTPUT`].
    pub audit_log_path: String,
    /// The limits of the server.
    pub limits: LimitSettings,
}

/// The certificate to serve with.
#[derive(Debug)]
pub enum CertificateOptions {
    /// From files, which are read again when they change.
    Files {
        /// The certificate and its key.
        files: CertificateFiles,
        /// The file with the CA certificates by which clients verify it, for the status of Views. `None`: clients
        /// verify it by the CAs that they trust by default.
        authorities: Option<PathBuf>,
    },
    /// A self-signed one.
    SelfSigned {
        /// Where it is stored.
        store: CertificateStorage,
        /// The DNS names and IP addresses of the certificate, in addition to those of localhost.
        names: Vec<String>,
    },
}

/// Where the self-signed certificate is stored.
#[derive(Debug)]
pub enum CertificateStorage {
    /// In memory.
    Memory,
    /// In files of this folder.
    Folder(PathBuf),
    /// In a Secret of this name, which replicas share.
    Secret(String),
}

/// Binds sockets, opens the cluster and makes the server and the controllers.
///
/// # Errors
/// Names the address, file or cluster that could not be bound or opened.
pub async fn open(options: OperatorOptions) -> anyhow::Result<Service> {
    let listener = Listener::bind(options.address).await?;
    let metrics_listener = match options.metrics_address {
        Some(address) => Some(Listener::bind_option(address, METRICS_ADDRESS).await?),
        None => None,
    };
    let probes = match options.health_address {
        Some(address) => Some(ProbeListener::bind(address, HEALTH_ADDRESS).await?),
        None => None,
    };
    let audit = match options.audit_policy {
        Policy::None => None,
        policy @ (Policy::ViewRights | Policy::Views | Policy::All) => {
            Some(Arc::new(Log::open(&options.audit_log_path, policy)?))
        }
    };
    if options.accept_api_audience {
        tracing::warn!(
            "--accept-api-audience: tokens for the API server are accepted; a program that intercepts such a token could use it \
             at the API server, so use tokens with the audience {} if possible",
            options.audiences.join(" or ")
        );
    }
    let location = SourceLocation::Cluster(options.cluster.clone());
    let upstream = source::upstream(&location).await?.context("the operator needs a cluster")?;
    let connection = Connection::open(&options.cluster).await?;
    let (certificate_renewer, tls, authorities) =
        open_certificate(options.certificate, &connection, &options.namespace).await?;
    let metrics_listener = metrics_listener.map(|listener| listener.with_tls(tls.shared()));
    let certificate_metric = CertificateCollector::new(tls.shared());
    let listener = listener.with_tls(tls);
    let address = Address {
        base: options.views_url.unwrap_or_else(|| format!("https://fieldcache.{}.svc", options.namespace)),
        authorities,
    };
    let kept: BTreeSet<Gvr> = options.resources.into_iter().collect();
    let wanted = watch::Sender::new(Arc::new(kept.clone()));
    let store_options = watch::Sender::new(Arc::default());
    let max_lag = options.source.max_lag;
    let source_options = SourceOptions {
        named: Some(wanted.subscribe()),
        store_options: Some(store_options.subscribe()),
        how_to_permit: Some(operator::how_to_permit),
        ..options.source
    };
    let source = source::follow(location, source_options).await?;
    let settings = AccessSettings {
        audiences: options.audiences,
        accept_api_audience: options.accept_api_audience,
        known_field: known_field(source.registry.clone()),
        recheck: options.recheck_interval,
    };
    let access = Arc::new(AccessControl::new(upstream.clone(), settings).map_err(anyhow::Error::msg)?);
    let election = Election {
        namespace: options.namespace,
        name: LEASE.to_owned(),
        identity: options.identity.map_or_else(own_name, Ok)?,
        lease_duration: election::LEASE_DURATION,
        renew_deadline: election::RENEW_DEADLINE,
        retry_period: election::RETRY_PERIOD,
    };
    let (synced, reported) = (Arc::new(Synced::default()), Arc::new(ReportedConditions::default()));
    let operator = Controllers {
        client: connection.client(),
        registry: source.registry.clone(),
        definitions: source.definitions.clone(),
        election: election.clone(),
        always_cached: kept,
        wanted,
        store_options,
        synced: synced.clone(),
        address,
        reported: reported.clone(),
    };
    let heartbeat = Heartbeat::default();
    let (known, registry) = (synced.clone(), source.registry.clone());
    let settings = Settings {
        // Resources are loaded without a request, so a request does not wait for that, as in kube-apiserver.
        patience: Duration::ZERO,
        max_lag: Some(max_lag),
        checks: checks(&heartbeat, &access, synced, &source.registry, audit.as_deref()),
        is_complete: Some(Arc::new(move || known.knows(&registry))),
        access: Some(access.clone()),
        audit: audit.clone(),
        // No request of a client is forwarded to the API server. Only the newest resourceVersion is read from it.
        upstream: Some(upstream),
        limits: options.limits,
        ..Settings::default()
    };
    let server = Arc::new(Server::new(source.registry.clone(), settings));
    let listener = listener.with_connections(server.limits().connections().clone());
    let metrics = metrics_listener.map(|listener| {
        let scrapers =
            Scrapers::Authorized { access: access.clone(), audit: audit.as_ref().map(|log| log.counts().clone()) };
        let (tally, limits) = (server.tally().clone(), server.limits().clone());
        let collectors: Vec<Box<dyn Collector>> =
            vec![Box::new(certificate_metric), Box::new(ConditionsCollector::new(reported))];
        let metrics = Metrics::new(source.registry.clone(), tally, limits, scrapers, collectors);
        (metrics_connections(listener), metrics)
    });
    let client = connection.client();
    let cluster = ClusterService { client, access, audit, certificate_renewer, operator, election, heartbeat, probes };
    Ok(Service { source, listener, server, metrics, cluster: Some(cluster) })
}

/// Opens the certificate to serve with. Returns its renewer (`None` for files), the TLS configuration, and the CA
/// certificates by which clients verify it, as PEM. Empty PEM: the CAs that clients trust by default.
async fn open_certificate(
    options: CertificateOptions,
    connection: &Connection,
    namespace: &str,
) -> anyhow::Result<(Option<CertificateRenewer>, Tls, watch::Receiver<Vec<u8>>)> {
    match options {
        CertificateOptions::Files { files, authorities } => {
            let tls = Tls::open(files, DeferredClientVerifier::verifier()).await?;
            let bundle = match authorities {
                Some(file) => std::fs::read(&file)
                    .with_context(|| format!("--tls-ca-file: {} cannot be read; use a PEM file", file.display()))?,
                None => Vec::new(),
            };
            Ok((None, tls, watch::Sender::new(bundle).subscribe()))
        }
        CertificateOptions::SelfSigned { store, names } => {
            let store = match store {
                CertificateStorage::Memory => CertificateStore::Memory,
                CertificateStorage::Folder(folder) => CertificateStore::Folder(folder),
                CertificateStorage::Secret(name) => CertificateStore::secret(connection.client(), namespace, name),
            };
            let (own, tls) = CertificateRenewer::open(store, &names).await?;
            let authorities = own.authorities();
            Ok((Some(own), tls, authorities))
        }
    }
}

/// The checks of `/livez` and `/readyz`. The audit log is checked only if there is one.
fn checks(
    heartbeat: &Heartbeat,
    access: &Arc<AccessControl>,
    synced: Arc<Synced>,
    registry: &Arc<Registry>,
    audit: Option<&Log>,
) -> Vec<Check> {
    let (access, registry) = (access.clone(), registry.clone());
    let mut checks = vec![
        heartbeat.check(),
        Check::one("authentication", false, move || access.ready()),
        Check { is_vital: false, probe: Arc::new(move || synced.probe(&registry)) },
    ];
    if let Some(log) = audit {
        let counts = log.counts().clone();
        checks.push(Check::one("audit-log", false, move || counts.check()));
    }
    checks
}

/// A function that returns whether the API server knows a field of a resource: it knows all except those of
/// FieldCaches. Reviews that are sent to the API server leave out requirements on fields that it does not know.
fn known_field(registry: Arc<Registry>) -> KnownField {
    Arc::new(move |gvr, label| {
        let catalog = registry.catalog();
        let is_extra = |resource: &Arc<Resource>| {
            let mut fields = resource.extractor.fields().iter();
            fields.any(|field| field.label == label && field.origin == Origin::FieldCache)
        };
        !catalog.store(gvr).is_some_and(is_extra)
    })
}

/// The default of `--identity`: the host name, which in a cluster is the name of the Pod, and the process id.
fn own_name() -> anyhow::Result<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname")
        .context("cannot read the hostname; set the name of this replica with --identity")?;
    Ok(format!("{}_{}", name.trim(), std::process::id()))
}
