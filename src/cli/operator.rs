//! `fieldcache operator`: serves a cluster's resources over TLS to authorized users.

use super::exit::Exit;
use super::server_arguments::OperatorArguments;
use crate::audit::Policy;
use crate::runtime::operator::{self, CertificateOptions, CertificateStorage, OperatorOptions};
use crate::runtime::source::{SourceOptions, parse_resources};
use crate::source::connection::ClusterOptions;
use crate::transport::tls::CertificateFiles;

/// Runs until SIGINT or SIGTERM.
///
/// # Errors
/// The server cannot be started: an option is invalid, or something cannot be opened or bound. Or a task ended because
/// of an internal error.
pub async fn run(arguments: OperatorArguments) -> anyhow::Result<Exit> {
    arguments.log.start().map_err(anyhow::Error::msg)?;
    let service = operator::open(options(arguments)?).await?;
    // Logged, not printed: standard output is the audit log's.
    tracing::info!("serving {} at https://{}", service.source_name(), service.address());
    if let Some(address) = service.metrics_address() {
        tracing::info!("metrics: https://{address}/metrics");
    }
    service.run(None).await?;
    Ok(Exit::Done)
}

/// The options of `operator`, from its arguments.
///
/// # Errors
/// A `--resource` is invalid.
fn options(arguments: OperatorArguments) -> anyhow::Result<OperatorOptions> {
    let certificate = match (arguments.tls_cert_file, arguments.tls_private_key_file) {
        (Some(certificate), Some(key)) => CertificateOptions::Files {
            files: CertificateFiles { certificate, key },
            authorities: arguments.tls_ca_file,
        },
        _ => CertificateOptions::SelfSigned {
            store: match (arguments.cert_secret, arguments.cert_dir) {
                (Some(name), _) => CertificateStorage::Secret(name),
                (None, Some(folder)) => CertificateStorage::Folder(folder),
                (None, None) => CertificateStorage::Memory,
            },
            names: arguments.tls_names,
        },
    };
    let source = SourceOptions {
        max_lag: arguments.max_lag,
        self_check: Some(arguments.self_check_interval).filter(|interval| !interval.is_zero()),
        history: arguments.limits.history(),
        memory_limit: arguments.limits.memory_limit,
        ..SourceOptions::default()
    };
    Ok(OperatorOptions {
        cluster: ClusterOptions { kubeconfig: arguments.kubeconfig, context: arguments.context, server: None },
        source,
        resources: parse_resources(&arguments.resources)?,
        namespace: arguments.namespace,
        identity: arguments.identity,
        address: arguments.address,
        metrics_address: arguments.metrics_address,
        health_address: arguments.health_address,
        certificate,
        views_url: arguments.views_url,
        audiences: arguments.audiences,
        accept_api_audience: arguments.accept_api_audience,
        recheck_interval: arguments.recheck_interval,
        audit_policy: Policy::from(arguments.audit_policy),
        audit_log_path: arguments.audit_log_path,
        limits: arguments.limits.settings(),
    })
}
