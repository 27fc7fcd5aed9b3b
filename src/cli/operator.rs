//! `fieldcache operator`: serves a cluster's resources over TLS, to whoever may see them.
//!
//! What it serves is what FieldCaches name, and Views of it; [`crate::operator`] is the controllers, [`crate::access`] stands before
//! every request.

#![expect(clippy::disallowed_methods, reason = "tasks that last as long as the command are started and ended here")]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use prometheus_client::collector::Collector;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::exit::Exit;
use super::server_arguments::OperatorArguments;
use super::shared_arguments::SourceArguments;
use super::own_certificate::{Keeper, OwnCertificate};
use super::source::{self, FollowOptions};
use crate::access::certificates::Requested;
use crate::access::{Access, AccessSettings, KnownField};
use crate::audit::{Log, Policy};
use crate::extract::Origin;
use crate::metrics::certificate::Certificate;
use crate::metrics::conditions::Conditions;
use crate::metrics::{Metrics, Scrapers};
use crate::model::Gvr;
use crate::operator::election::{self, Election};
use crate::operator::reported::Reported;
use crate::operator::synced::Synced;
use crate::operator::views::Address;
use crate::operator::{self, Operator};
use crate::registry::{Registry, Resource};
use crate::server::health::Check;
use crate::server::heartbeat::Heartbeat;
use crate::server::limits::connections::{Connections, METRICS_CONNECTIONS};
use crate::server::listen::Listener;
use crate::server::probes::ProbeListener;
use crate::server::tls::{CertificateFiles, Tls};
use crate::server::{Server, Settings};
use crate::source::connection::Connection;

const METRICS_ADDRESS: &str = "--metrics-address";
const HEALTH_ADDRESS: &str = "--health-address";

/// Runs until it is told to end.
///
/// # Errors
/// Says what could not be opened or bound.
pub async fn run(arguments: OperatorArguments) -> anyhow::Result<Exit> {
    arguments.log.start().map_err(anyhow::Error::msg)?;
    let listener = Listener::bind(arguments.address).await?;
    let metrics_listener = match arguments.metrics_address {
        Some(address) => Some(Listener::bind_option(address, METRICS_ADDRESS).await?),
        None => None,
    };
    let probe_listener = match arguments.health_address {
        Some(address) => Some(ProbeListener::bind(address, HEALTH_ADDRESS).await?),
        None => None,
    };
    let policy = Policy::from(arguments.audit_policy);
    let audit = match policy {
        Policy::None => None,
        Policy::ViewRights | Policy::Views | Policy::All => {
            Some(Arc::new(Log::open(&arguments.audit_log_path, policy)?))
        }
    };
    if arguments.accept_api_audience {
        tracing::warn!(
            "--accept-api-audience: tokens made out for the API server are accepted, and whoever sees one here could use it \
             there; make tokens out for {} where that is possible",
            arguments.audiences.join(" or ")
        );
    }
    let source =
        SourceArguments { kubeconfig: arguments.kubeconfig, context: arguments.context, ..SourceArguments::default() };
    let upstream = source::upstream(&source).await?.context("the operator needs a cluster")?;
    let connection = Connection::open(&source::cluster_options(&source)).await?;
    let (own, tls) = match (arguments.tls_cert_file, arguments.tls_private_key_file) {
        (Some(certificate), Some(key)) => {
            (None, Tls::open(CertificateFiles { certificate, key }, Requested::verifier()).await?)
        }
        _ => {
            let keeper = match (arguments.cert_secret, arguments.cert_dir) {
                (Some(name), _) => Keeper::secret(connection.client(), &arguments.namespace, name),
                (None, Some(folder)) => Keeper::Folder(folder),
                (None, None) => Keeper::Memory,
            };
            let (own, tls) = OwnCertificate::open(keeper, &arguments.tls_names).await?;
            (Some(own), tls)
        }
    };
    let metrics_listener = metrics_listener.map(|listener| listener.with_tls(tls.shared()));
    let shown = Certificate::new(tls.shared());
    let listener = listener.with_tls(tls);
    let authorities = match (&own, arguments.tls_ca_file) {
        (Some(own), _) => own.authorities(),
        (None, Some(file)) => {
            let bundle = std::fs::read(&file)
                .with_context(|| format!("--tls-ca-file: {} cannot be read; name a file with PEM", file.display()))?;
            watch::Sender::new(bundle).subscribe()
        }
        (None, None) => watch::Sender::default().subscribe(),
    };
    let address = Address {
        base: arguments.views_url.unwrap_or_else(|| format!("https://fieldcache.{}.svc", arguments.namespace)),
        authorities,
    };
    let self_check = Some(arguments.self_check_interval).filter(|interval| !interval.is_zero());
    let kept: BTreeSet<Gvr> = source::parse_resources(&arguments.resources)?.into_iter().collect();
    let wanted = watch::Sender::new(Arc::new(kept.clone()));
    let store_options = watch::Sender::new(Arc::default());
    let options = FollowOptions {
        resources: Vec::new(),
        named: Some(wanted.subscribe()),
        store_options: Some(store_options.subscribe()),
        max_lag: arguments.max_lag,
        self_check,
        history: arguments.limits.history(),
        memory_limit: arguments.limits.memory_limit,
        how_to_permit: Some(operator::how_to_permit),
    };
    let opened = source::follow(source, options).await?;
    let settings = AccessSettings {
        audiences: arguments.audiences,
        accept_api_audience: arguments.accept_api_audience,
        known_field: known_field(opened.registry.clone()),
        recheck: arguments.recheck_interval,
    };
    let access = Arc::new(Access::new(upstream.clone(), settings).map_err(anyhow::Error::msg)?);
    let following = access.clone();
    let trusting = tokio::spawn(async move { following.follow().await });
    let election = Election {
        namespace: arguments.namespace,
        name: LEASE.to_owned(),
        identity: arguments.identity.map_or_else(own_name, Ok)?,
        lease_duration: election::LEASE_DURATION,
        renew_deadline: election::RENEW_DEADLINE,
        retry_period: election::RETRY_PERIOD,
    };
    let (synced, reported) = (Arc::new(Synced::default()), Arc::new(Reported::default()));
    let operator = Operator {
        client: connection.client(),
        registry: opened.registry.clone(),
        definitions: opened.definitions.clone(),
        election: election.clone(),
        kept,
        wanted,
        store_options,
        synced: synced.clone(),
        address,
        reported: reported.clone(),
    };
    let mut controlling = tokio::spawn(operator::run(operator));
    let ready = access.clone();
    let (known, registry) = (synced.clone(), opened.registry.clone());
    let is_complete: Arc<dyn Fn() -> bool + Send + Sync> = Arc::new(move || known.knows(&registry));
    let registry = opened.registry.clone();
    let heartbeat = Heartbeat::default();
    let mut checks = vec![
        heartbeat.check(),
        Check::one("authentication", false, move || ready.ready()),
        Check { is_vital: false, probe: Arc::new(move || synced.probe(&registry)) },
    ];
    if let Some(log) = &audit {
        let counts = log.counts().clone();
        checks.push(Check::one("audit-log", false, move || counts.check()));
    }
    let settings = Settings {
        patience: Duration::ZERO,
        max_lag: Some(arguments.max_lag),
        checks,
        is_complete: Some(is_complete),
        access: Some(access.clone()),
        audit: audit.clone(),
        // Nothing is handed on to it; it is asked how far it is.
        upstream: Some(upstream),
        limits: arguments.limits.settings(),
        ..Settings::default()
    };
    let server = Arc::new(Server::new(opened.registry.clone(), settings));
    let indexing = server.placement_index().follow(opened.registry.clone());
    let listener = listener.with_connections(server.limits().connections().clone());
    let scraping = metrics_listener.map(|listener| {
        let scrapers =
            Scrapers::Known { access: access.clone(), audit: audit.as_ref().map(|log| log.counts().clone()) };
        let (tally, limits) = (server.tally().clone(), server.limits().clone());
        let others: Vec<Box<dyn Collector>> = vec![Box::new(shown), Box::new(Conditions::new(reported))];
        let metrics = Metrics::new(opened.registry.clone(), tally, limits, scrapers, others);
        let listener = listener.with_connections(Arc::new(Connections::new(METRICS_CONNECTIONS)));
        let address = listener.address();
        (address, tokio::spawn(listener.run(Arc::new(metrics), std::future::pending())))
    });
    let mut interrupted = signal(SignalKind::interrupt()).context("waiting for signals")?;
    let mut terminated = signal(SignalKind::terminate()).context("waiting for signals")?;
    let stop = async move {
        tokio::select! {
            _ = interrupted.recv() => {}
            _ = terminated.recv() => {}
        }
    };
    // Logged, not printed: standard output is the audit log's.
    tracing::info!("serving {} at https://{}", opened.name, listener.address());
    if let Some((address, _)) = &scraping {
        tracing::info!("metrics: https://{address}/metrics");
    }
    let beating = tokio::spawn(heartbeat.beat());
    // To the end of the process, so that the kubelet sees that it is not ready any more.
    let _probing = match probe_listener {
        Some(listener) => {
            tracing::info!("health checks: http://{}/readyz", listener.address());
            Some(listener.start(server.clone()).context("starting the thread of health checks")?)
        }
        None => None,
    };
    let serving = tokio::spawn(listener.run(server, stop));
    let keeping = async {
        match own {
            Some(own) => own.keep().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        served = serving => served.context("the listener met a defect")?,
        _ = opened.ended => bail!("the source met a defect and is not followed any more; its log lines say where"),
        ended = trusting => match ended.context("what the cluster trusts is not followed any more")? {},
        never = keeping => match never {},
        never = indexing => match never {},
        ended = &mut controlling => ended.context("the controllers met a defect")?,
    }
    // Another replica need not wait for the Lease's end.
    controlling.abort();
    election::release(connection.client(), &election).await;
    if let Some((_, scraping)) = scraping {
        scraping.abort();
    }
    beating.abort();
    if let Some(log) = audit {
        log.finish().await;
    }
    Ok(Exit::Done)
}

/// Whether the API server knows a field: all but those of FieldCaches, so that a requirement on one of these is not told to it.
fn known_field(registry: Arc<Registry>) -> KnownField {
    Arc::new(move |gvr, label| {
        let catalog = registry.catalog();
        let is_extra = |resource: &Arc<Resource>| {
            let mut fields = resource.plan.fields().iter();
            fields.any(|field| field.label == label && field.origin == Origin::FieldCache)
        };
        !catalog.copy(gvr).is_some_and(is_extra)
    })
}

/// The name of the Lease.
const LEASE: &str = "fieldcache";

/// Who this replica is when nobody says: its host's name, which in a cluster is its Pod's.
fn own_name() -> anyhow::Result<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname")
        .context("reading the host's name; --identity names this replica")?;
    Ok(format!("{}_{}", name.trim(), std::process::id()))
}
